//! Transposes by 128-bit interleaves.
//!
//! Plain arrays do not become shuffles in any instruction set, and of `wide` only 128-bit types shuffle in registers
//! in a build for every x86-64; hence these blocks of 16-byte lines.

use bytemuck::Pod;
use wide::{u8x16, u16x8, u32x4, u64x2};

use crate::mem::{LINE, Moves};

/// Does the moves if they are transposes with elements of 1, 2, 4 or 8 bytes of at least one whole block; else gives
/// them back.
#[inline(always)]
pub(crate) fn attempt(on: Moves<'_>) -> Option<Moves<'_>> {
    let contiguous = |on: &Moves<'_>| {
        let (elem, w) = (on.elem() as isize, on.window());
        w.src_row == elem && w.dst_col == elem
    };
    let on = if contiguous(&on) { on } else { on.swapped() };
    if !contiguous(&on) || on.window().rows.min(on.window().cols) * on.elem() < LINE {
        return Some(on.swapped());
    }
    match on.elem() {
        1 => on.blocks(
            #[inline(always)]
            |lines| cast(round(round(round(round(cast::<_, u8x16, 16>(lines)))))),
        ),
        2 => on.blocks(
            #[inline(always)]
            |lines| cast(u16x8::transpose(cast(lines))),
        ),
        4 => on.blocks(
            #[inline(always)]
            |lines| cast(round(round(cast::<_, u32x4, 4>(lines)))),
        ),
        8 => on.blocks(
            #[inline(always)]
            |lines| cast(round(cast::<_, u64x2, 2>(lines))),
        ),
        _ => return Some(on.swapped()),
    }
    None
}

/// A 128-bit vector whose lanes can be interleaved with those of another: (low halves, high halves).
trait Interleave: Pod {
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

/// One of the rounds of a transpose of `B` lines of `B` lanes, which takes log2 of `B` of them.
///
/// A lane's number is the bits of its line followed by the bits of its place in the line. Interleaving line i with
/// line i + B/2 into lines 2i and 2i + 1 rotates these bits left by one; after as many rounds as the line has bits,
/// line and place have changed sides.
#[inline(always)]
fn round<L: Interleave, const B: usize>(before: [L; B]) -> [L; B] {
    let mut lines = before;
    for i in 0..B / 2 {
        (lines[2 * i], lines[2 * i + 1]) = before[i].interleave(before[i + B / 2]);
    }
    lines
}

/// The lines as vectors, and back. A loop, for `array::map` may not be inlined, and then loses the level's instructions.
#[inline(always)]
fn cast<A: Pod, L: Pod, const B: usize>(lines: [A; B]) -> [L; B] {
    let mut vectors = [L::zeroed(); B];
    for (vector, line) in vectors.iter_mut().zip(lines) {
        *vector = bytemuck::cast(line);
    }
    vectors
}
