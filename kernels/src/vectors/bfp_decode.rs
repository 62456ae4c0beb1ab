//! Unpacking block floats: a magnitude times a power of two.

use super::decode::Decode;
use crate::formats::{Bfp, GROUP};

/// The vector arithmetic that unpacks block floats.
#[derive(Clone, Copy)]
pub(crate) struct BfpDecode {
    bfp: Bfp,
    host_quirks: bool,
}

impl BfpDecode {
    /// `host_quirks`: as the device library's host code, see [`Bfp::unpack_host`].
    #[inline(always)]
    pub(crate) fn new(bfp: Bfp, host_quirks: bool) -> BfpDecode {
        BfpDecode { bfp, host_quirks }
    }
}

impl Decode for BfpDecode {
    const GROUPS_PER_SCALE: usize = 1;
    const EXACT: bool = true;

    #[inline(always)]
    fn scale(&self, shared: u8) -> (f32, bool) {
        let bfp = self.bfp;
        // The exponent field of 2^(shared - bias - (m - 1)); -5 at the least, which is a subnormal.
        let field = i32::from(shared) + if bfp.narrow { 112 } else { 0 } - (bfp.magnitude as i32 - 1);
        // Where normalising neither underflows nor reaches exponent 255 the library is exact; its quirks are elsewhere.
        let quirk = self.host_quirks && !(7..=if bfp.narrow { 142 } else { 254 }).contains(&shared);
        // Finite scales only, so that zero times the scale is zero.
        let bits = if field > 0 { (field as u32) << 23 } else { 1 << (22 + field) };
        (f32::from_bits(bits), !quirk && field <= 254)
    }

    #[inline(always)]
    fn values(&self, codes: &[u8; GROUP], scale: f32) -> [u32; GROUP] {
        let m = self.bfp.magnitude;
        let mut values = [0; GROUP];
        for (value, code) in values.iter_mut().zip(codes) {
            let code = u32::from(*code);
            let magnitude = (code & self.bfp.largest()) as i32 as f32;
            *value = (magnitude * scale).to_bits() | code << (31 - m) & 1 << 31;
        }
        values
    }

    #[inline(always)]
    fn scalar(&self, code: u8, shared: u8) -> f32 {
        if self.host_quirks { self.bfp.unpack_host(code, shared) } else { self.bfp.unpack(code, shared) }
    }
}

/// The vector arithmetic that unpacks block floats as the device does, see [`Bfp::unpack_device`].
#[derive(Clone, Copy)]
pub(crate) struct DeviceDecode(BfpDecode);

impl DeviceDecode {
    #[inline(always)]
    pub(crate) fn new(bfp: Bfp) -> DeviceDecode {
        DeviceDecode(BfpDecode::new(bfp, false))
    }
}

impl Decode for DeviceDecode {
    const GROUPS_PER_SCALE: usize = 1;
    const EXACT: bool = true;

    /// The values are exact where normalising neither takes the exponent below 1 nor reaches 255.
    #[inline(always)]
    fn scale(&self, shared: u8) -> (f32, bool) {
        let normal = (7..=if self.0.bfp.narrow { 142 } else { 254 }).contains(&shared);
        let (scale, holds) = self.0.scale(shared);
        (scale, holds && normal)
    }

    #[inline(always)]
    fn values(&self, codes: &[u8; GROUP], scale: f32) -> [u32; GROUP] {
        let mut values = self.0.values(codes, scale);
        for value in &mut values {
            // Only codes of magnitude 0 with a sign give -0.
            *value = if *value == 1 << 31 { f32::NEG_INFINITY.to_bits() } else { *value };
        }
        values
    }

    #[inline(always)]
    fn scalar(&self, code: u8, shared: u8) -> f32 {
        self.0.bfp.unpack_device(code, shared)
    }
}
