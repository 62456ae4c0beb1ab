//! Unpacking block floats: a magnitude times a power of two.

use super::decode::Decode;
use crate::formats::{Bfp, GROUP};

/// The vector arithmetic that unpacks block floats.
#[derive(Clone, Copy)]
pub(crate) struct BfpDecode {
    bfp: Bfp,
    compat: bool,
}

impl BfpDecode {
    /// `compat`: as the device library's host code, see [`Bfp::unpack_compat`].
    #[inline(always)]
    pub(crate) fn new(bfp: Bfp, compat: bool) -> BfpDecode {
        BfpDecode { bfp, compat }
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
        let quirk = self.compat && !(7..=if bfp.narrow { 142 } else { 254 }).contains(&shared);
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
        if self.compat { self.bfp.unpack_compat(code, shared) } else { self.bfp.unpack(code, shared) }
    }
}
