//! Transposes, by blocks of 16-byte rows.

use wide::{u16x8, u32x4, u64x2};

use crate::memory::{REGISTER, StridedCopy};
use crate::vectors::interleave::{cast, round, transpose_bytes};

/// Does the copies if they are transposes with elements of 1, 2, 4 or 8 bytes of at least one whole block; otherwise
/// gives them back.
#[inline(always)]
pub(crate) fn attempt(copy: StridedCopy<'_>) -> Option<StridedCopy<'_>> {
    let contiguous = |copy: &StridedCopy<'_>| {
        let (elem, w) = (copy.elem(), copy.window());
        w.src_row.unsigned_abs() == elem && w.dst_col == elem as isize
    };
    let copy = if contiguous(&copy) { copy } else { copy.swapped() };
    if !contiguous(&copy) || copy.window().rows.min(copy.window().cols) * copy.elem() < REGISTER {
        return Some(copy.swapped());
    }
    // Rows that lie backward in the source are written backward.
    let copy = if copy.window().src_row < 0 { copy.with_rows_reversed() } else { copy };
    match copy.elem() {
        1 => copy.blocks(transpose_bytes),
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
