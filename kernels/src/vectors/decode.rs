//! What unpacking asks of a family of block formats.

use crate::formats::GROUP;

/// What a family of formats makes of a group of 16 codes.
pub(crate) trait Decode: Copy {
    /// Groups that share an exponent or a scale: 1 or 2.
    const GROUPS_PER_SCALE: usize;

    /// Whether each value is exact as bfloat16, or infinite.
    const EXACT: bool;

    /// The scale, and whether the arithmetic of [`Decode::values`] holds under it.
    fn scale(&self, shared: u8) -> (f32, bool);

    /// The values of a group, as binary32 bits. Bits above a code count for nothing. A NaN is `0x7FC00000`.
    fn values(&self, codes: &[u8; GROUP], scale: f32) -> [u32; GROUP];

    /// The value of a code by the scalar rule.
    fn scalar(&self, code: u8, shared: u8) -> f32;
}
