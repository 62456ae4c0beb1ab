//! Transposes by 128-bit interleaves.
//!
//! Plain arrays do not become shuffles in any instruction set, and of `wide` only 128-bit types shuffle in registers
//! in a build for every x86-64; hence these blocks of 16-byte rows.

use bytemuck::Pod;
use wide::{u8x16, u16x8, u32x4, u64x2};

use crate::memory::{REGISTER, StridedCopy};

/// Does the copies if they are transposes with elements of 1, 2, 4 or 8 bytes of at least one whole block; otherwise
/// gives them back.
#[inline(always)]
pub(crate) fn attempt(copy: StridedCopy<'_>) -> Option<StridedCopy<'_>> {
    let contiguous = |copy: &StridedCopy<'_>| {
        let (elem, w) = (copy.elem() as isize, copy.window());
        w.src_row == elem && w.dst_col == elem
    };
    let copy = if contiguous(&copy) { copy } else { copy.swapped() };
    if !contiguous(&copy) || copy.window().rows.min(copy.window().cols) * copy.elem() < REGISTER {
        return Some(copy.swapped());
    }
    match copy.elem() {
        1 => copy.blocks(
            #[inline(always)]
            |rows| cast(round(round(round(round(cast::<_, u8x16, 16>(rows)))))),
        ),
        2 => copy.blocks(
            #[inline(always)]
            |rows| cast(u16x8::transpose(cast(rows))),
        ),
        4 => copy.blocks(
            #[inline(always)]
            |rows| cast(round(round(cast::<_, u32x4, 4>(rows)))),
        ),
        8 => copy.blocks(
            #[inline(always)]
            |rows| cast(round(cast::<_, u64x2, 2>(rows))),
        ),
        _ => return Some(copy.swapped()),
    }
    None
}

/// Rows, and elements of each, of what [`square`] transposes.
pub(crate) const SQUARE: usize = 8;

/// Transposes elements of 2 bytes. `N` is 2: so it can be called where the compiler does not know that yet.
#[inline(always)]
pub(crate) fn square<const N: usize>(rows: [[[u8; N]; SQUARE]; SQUARE]) -> [[[u8; N]; SQUARE]; SQUARE] {
    let mut registers = [[0; REGISTER]; SQUARE];
    for (register, row) in registers.iter_mut().zip(&rows) {
        register.copy_from_slice(row.as_flattened());
    }
    let registers: [[u8; REGISTER]; SQUARE] = cast(u16x8::transpose(cast(registers)));
    let mut out = rows;
    for (row, register) in out.iter_mut().zip(&registers) {
        row.as_flattened_mut().copy_from_slice(register);
    }
    out
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

/// One of the rounds of a transpose of `B` rows of `B` lanes, which takes log2 of `B` of them.
///
/// A lane's number is the bits of its row followed by the bits of its place in the row. Interleaving row i with
/// row i + B/2 into rows 2i and 2i + 1 rotates these bits left by one; after as many rounds as the row has bits,
/// row and place have changed places.
#[inline(always)]
fn round<L: Interleave, const B: usize>(before: [L; B]) -> [L; B] {
    let mut rows = before;
    for i in 0..B / 2 {
        (rows[2 * i], rows[2 * i + 1]) = before[i].interleave(before[i + B / 2]);
    }
    rows
}

/// The rows as vectors, and back. A loop, for `array::map` may not be inlined and would then lose the level's instructions.
#[inline(always)]
fn cast<A: Pod, L: Pod, const B: usize>(rows: [A; B]) -> [L; B] {
    let mut vectors = [L::zeroed(); B];
    for (vector, row) in vectors.iter_mut().zip(rows) {
        *vector = bytemuck::cast(row);
    }
    vectors
}
