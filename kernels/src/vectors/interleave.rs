//! Transposes of registers by 128-bit interleaves.
//!
//! Plain arrays do not become shuffles in any instruction set, and of `wide` only 128-bit types shuffle in registers
//! in a build for every x86-64; hence rows of 16 bytes.

use bytemuck::Pod;
use wide::{u8x16, u32x4, u64x2};

/// Transposes 16 rows of 16 bytes.
#[inline(always)]
pub(crate) fn transpose_bytes(rows: [[u8; 16]; 16]) -> [[u8; 16]; 16] {
    cast(round(round(round(round(cast::<_, u8x16, 16>(rows))))))
}

/// A 128-bit vector whose lanes can be interleaved with those of another: (low halves, high halves).
pub(crate) trait Interleave: Pod {
    fn interleave(self, other: Self) -> (Self, Self);
}

impl Interleave for u8x16 {
    #[inline(always)]
    fn interleave(self, other: Self) -> (Self, Self) {
        (u8x16::unpack_low(self, other), u8x16::unpack_high(self, other))
    }
}

impl Interleave for u32x4 {
    #[inline(always)]
    fn interleave(self, other: Self) -> (Self, Self) {
        (self.unpack_lo(other), self.unpack_hi(other))
    }
}

impl Interleave for u64x2 {
    #[inline(always)]
    fn interleave(self, other: Self) -> (Self, Self) {
        (self.unpack_lo(other), self.unpack_hi(other))
    }
}

/// One of the rounds of a transpose of `B` rows of `B` lanes, which takes log2 of `B` of them.
///
/// A lane's number is the bits of its row followed by the bits of its place in the row. Interleaving row i with
/// row i + B/2 into rows 2i and 2i + 1 rotates these bits left by one; after as many rounds as the row has bits,
/// row and place have changed places.
#[inline(always)]
pub(crate) fn round<L: Interleave, const B: usize>(before: [L; B]) -> [L; B] {
    let mut rows = before;
    for i in 0..B / 2 {
        (rows[2 * i], rows[2 * i + 1]) = before[i].interleave(before[i + B / 2]);
    }
    rows
}

/// The rows as vectors, and back. A loop, for `array::map` may not be inlined and would then lose the level's instructions.
#[inline(always)]
pub(crate) fn cast<A: Pod, L: Pod, const B: usize>(rows: [A; B]) -> [L; B] {
    let mut vectors = [L::zeroed(); B];
    for (vector, row) in vectors.iter_mut().zip(rows) {
        *vector = bytemuck::cast(row);
    }
    vectors
}
