//! What unpacking asks of a family of block formats.

use crate::formats::GROUP;

/// What a family of formats makes of a group of 16 codes.
pub(crate) trait Decode: Copy {
    /// Groups that share an exponent or a scale: 1 or 2.
    const GROUPS_PER_SCALE: usize;

    /// Whether each value under every scale is exact as bfloat16, or infinite.
    const EXACT: bool;

    /// The scale, where the arithmetic holds under it; else any.
    fn scale(&self, shared: u8) -> f32;

    /// Whether the arithmetic of [`Decode::values`] holds.
    fn holds(&self, shared: u8) -> bool;

    /// Whether it holds, and values of [`Decode::plain_values`] are exact as bfloat16, or infinite.
    #[inline(always)]
    fn holds_exactly(&self, shared: u8) -> bool {
        self.holds(shared)
    }

    /// The values of a group, as binary32 bits. Each code is in the upper bits of its byte, and the others are 0. A NaN is
    /// `0x7FC00000`.
    fn values(&self, codes: &[u8; GROUP], scale: f32) -> [u32; GROUP];

    /// The least code without its sign that [`Decode::plain_values`] does not take, if there is one.
    #[inline(always)]
    fn special(&self) -> Option<u8> {
        None
    }

    /// Whether [`Decode::plain_values`] takes these codes.
    #[inline(always)]
    fn is_plain(&self, codes: &[[u8; GROUP]]) -> bool {
        let Some(special) = self.special() else { return true };
        let mut largest = 0;
        for code in codes.as_flattened() {
            largest = (code & 0x7F).max(largest);
        }
        largest < special
    }

    /// [`Decode::values`] of most codes.
    #[inline(always)]
    fn plain_values(&self, codes: &[u8; GROUP], scale: f32) -> [u32; GROUP] {
        self.values(codes, scale)
    }

    /// The value of a code by the scalar rule.
    fn scalar(&self, code: u8, shared: u8) -> f32;
}
