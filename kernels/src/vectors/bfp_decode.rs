//! Unpacking block floats: a magnitude times a power of two.

use super::decode::Decode;
use crate::formats::{Bfp, GROUP};

/// The vector arithmetic that unpacks block floats.
#[derive(Clone, Copy)]
pub(crate) struct BfpDecode {
    bfp: Bfp,
    host_quirks: bool,
    /// The least exponent under which the arithmetic holds, and by how much the largest exceeds it.
    least: u8,
    range: u8,
}

impl BfpDecode {
    /// `host_quirks`: as the device library's host code, see [`Bfp::unpack_host`].
    #[inline(always)]
    pub(crate) fn new(bfp: Bfp, host_quirks: bool) -> BfpDecode {
        match host_quirks {
            true => BfpDecode { host_quirks, ..BfpDecode::normal(bfp) },
            // Where the scale is finite.
            false => BfpDecode { bfp, host_quirks, least: 0, range: if bfp.narrow { 148 } else { 255 } },
        }
    }

    /// For exponents under which normalising neither underflows nor reaches exponent 255. The device and its library are exact
    /// there.
    #[inline(always)]
    fn normal(bfp: Bfp) -> BfpDecode {
        let largest = if bfp.narrow { 142 } else { 254 };
        BfpDecode { bfp, host_quirks: false, least: 7, range: largest - 7 }
    }
}

impl Decode for BfpDecode {
    const GROUPS_PER_SCALE: usize = 1;
    const EXACT: bool = true;

    /// In the upper bits of a byte they are magnitudes of 7 bits, whose last place is 2^(shared - bias - 6).
    #[inline(always)]
    fn scale(&self, shared: u8) -> f32 {
        // The exponent field; -6 at the least, which is a subnormal.
        let field = i32::from(shared) + if self.bfp.narrow { 112 } else { 0 } - 6;
        f32::from_bits(if field > 0 { (field as u32) << 23 } else { 1 << (22 + field) })
    }

    #[inline(always)]
    fn holds(&self, shared: u8) -> bool {
        shared.wrapping_sub(self.least) <= self.range
    }

    #[inline(always)]
    fn values(&self, codes: &[u8; GROUP], scale: f32) -> [u32; GROUP] {
        let mut values = [0; GROUP];
        for (value, code) in values.iter_mut().zip(codes) {
            let code = i32::from(*code as i8);
            let magnitude = (code & 0x7F) as f32;
            *value = (magnitude * scale).to_bits() | code as u32 & 1 << 31;
        }
        values
    }

    #[inline(always)]
    fn scalar(&self, code: u8, shared: u8) -> f32 {
        let code = code >> (7 - self.bfp.magnitude);
        if self.host_quirks { self.bfp.unpack_host(code, shared) } else { self.bfp.unpack(code, shared) }
    }
}

/// The vector arithmetic that unpacks block floats as the device does, see [`Bfp::unpack_device`].
#[derive(Clone, Copy)]
pub(crate) struct DeviceDecode(BfpDecode);

impl DeviceDecode {
    #[inline(always)]
    pub(crate) fn new(bfp: Bfp) -> DeviceDecode {
        DeviceDecode(BfpDecode::normal(bfp))
    }
}

impl Decode for DeviceDecode {
    const GROUPS_PER_SCALE: usize = 1;
    const EXACT: bool = true;

    #[inline(always)]
    fn scale(&self, shared: u8) -> f32 {
        self.0.scale(shared)
    }

    #[inline(always)]
    fn holds(&self, shared: u8) -> bool {
        self.0.holds(shared)
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
        self.0.bfp.unpack_device(code >> (7 - self.0.bfp.magnitude), shared)
    }
}
