//! Transposes, by blocks of 16-byte rows.

use wide::{u16x8, u32x4, u64x2};

use crate::level::Level;
use crate::memory::{CACHE_LINE, Pair, REGISTER, Stores, StridedCopy, Transpose, Window};
use crate::vectors::interleave::{cast, round, transpose_bytes};
use crate::vectors::pairs;

/// Does the copies if they are transposes with elements of 1, 2, 4 or 8 bytes of at least one whole block; otherwise
/// gives them back. `PAIRS`: whether the level has vectors of 256 bits, in which blocks are transposed two at a time.
#[inline(always)]
pub(crate) fn attempt<const PAIRS: bool>(copy: StridedCopy<'_>) -> Option<StridedCopy<'_>> {
    let (copy, is_one) = oriented(copy);
    if !is_one {
        return Some(copy);
    }
    match copy.elem() {
        1 => copy.blocks(Bytes),
        2 => copy.blocks(Halves::<PAIRS>),
        4 => copy.blocks(Words::<PAIRS>),
        _ => copy.blocks(Doubles),
    }
    None
}

/// [`attempt`] with non-temporal stores, of rows of the destination of [`LINES`] lines or more.
#[inline(always)]
pub(crate) fn attempt_non_temporal<L: Level, const AVX: bool>(
    level: L,
    copy: StridedCopy<'_>,
    stores: Stores<AVX>,
) -> Option<StridedCopy<'_>> {
    if const { L::PAIRS } && makes_near_lines(&copy) {
        let (copy, _) = oriented(copy);
        match copy.elem() {
            1 => copy.write_near(level, stores, Bytes),
            2 => copy.write_near(level, stores, Halves::<AVX>),
            4 => copy.write_near(level, stores, Words::<AVX>),
            _ => copy.write_near(level, stores, Doubles),
        }
        return None;
    }
    if !makes_lines(&copy) {
        return Some(copy);
    }
    let (copy, is_one) = oriented(copy);
    if !is_one {
        return Some(copy);
    }
    match copy.elem() {
        1 => copy.strips(level, stores, Bytes),
        2 => copy.strips(level, stores, Halves::<AVX>),
        4 => copy.strips(level, stores, Words::<AVX>),
        _ => copy.strips(level, stores, Doubles),
    }
    None
}

/// Lines of a row of the destination from which on a transpose is worth strips.
const LINES: usize = 2;

/// Whether copies are transposes that [`attempt_non_temporal`] does.
pub(crate) fn makes_lines(copy: &StridedCopy<'_>) -> bool {
    let (elem, w) = (copy.elem(), copy.window());
    let lines = |w: &Window| transposes(elem, w) && w.cols * elem >= LINES * CACHE_LINE;
    copy.hints().strip > 0 && (lines(&w) || !transposes(elem, &w) && lines(&w.swapped()))
}

/// Whether copies are transposes of a source in L1 that make whole lines at once.
pub(crate) fn makes_near_lines(copy: &StridedCopy<'_>) -> bool {
    copy.hints().near && transposes(copy.elem(), &copy.window()) && copy.makes_near_lines()
}

/// Whether the source is contiguous along the rows of a window, forward or backward, and the destination along its columns,
/// for a block or more.
#[inline(always)]
fn transposes(elem: usize, w: &Window) -> bool {
    matches!(elem, 1 | 2 | 4 | 8)
        && w.src_row.unsigned_abs() == elem
        && w.dst_col == elem as isize
        && w.rows.min(w.cols) * elem >= REGISTER
}

/// A transpose with its source contiguous along the rows and forward, and whether the copies are one; as they are otherwise.
#[inline(always)]
fn oriented(copy: StridedCopy<'_>) -> (StridedCopy<'_>, bool) {
    let (elem, w) = (copy.elem(), copy.window());
    let copy = match (transposes(elem, &w), transposes(elem, &w.swapped())) {
        (true, _) => copy,
        (false, true) => copy.swapped(),
        (false, false) => return (copy, false),
    };
    // Rows that lie backward in the source are written backward.
    (if copy.window().src_row < 0 { copy.with_rows_reversed() } else { copy }, true)
}

/// Elements of 1 byte.
#[derive(Clone, Copy)]
struct Bytes;

impl Transpose<16> for Bytes {
    const SQUARES_OF_PAIRS: bool = false;

    #[inline(always)]
    fn pair(self, rows: [Pair; 16]) -> [Pair; 16] {
        pairs::transpose_1(rows)
    }

    #[inline(always)]
    fn block(self, rows: [[u8; REGISTER]; 16]) -> [[u8; REGISTER]; 16] {
        transpose_bytes(rows)
    }
}

/// Elements of 2 bytes. `PAIRS`: whether squares are made of pairs of blocks.
#[derive(Clone, Copy)]
struct Halves<const PAIRS: bool>;

impl<const PAIRS: bool> Transpose<8> for Halves<PAIRS> {
    const SQUARES_OF_PAIRS: bool = PAIRS;

    #[inline(always)]
    fn block(self, rows: [[u8; REGISTER]; 8]) -> [[u8; REGISTER]; 8] {
        cast(u16x8::transpose(cast(rows)))
    }

    #[inline(always)]
    fn pair(self, rows: [Pair; 8]) -> [Pair; 8] {
        pairs::transpose_2(rows)
    }
}

/// Elements of 4 bytes, as [`Halves`].
#[derive(Clone, Copy)]
struct Words<const PAIRS: bool>;

impl<const PAIRS: bool> Transpose<4> for Words<PAIRS> {
    const SQUARES_OF_PAIRS: bool = PAIRS;

    #[inline(always)]
    fn block(self, rows: [[u8; REGISTER]; 4]) -> [[u8; REGISTER]; 4] {
        cast(round(round(cast::<_, u32x4, 4>(rows))))
    }

    #[inline(always)]
    fn pair(self, rows: [Pair; 4]) -> [Pair; 4] {
        pairs::transpose_4(rows)
    }
}

/// Elements of 8 bytes.
#[derive(Clone, Copy)]
struct Doubles;

impl Transpose<2> for Doubles {
    const SQUARES_OF_PAIRS: bool = false;

    #[inline(always)]
    fn pair(self, rows: [Pair; 2]) -> [Pair; 2] {
        pairs::transpose_8(rows)
    }

    #[inline(always)]
    fn block(self, rows: [[u8; REGISTER]; 2]) -> [[u8; REGISTER]; 2] {
        cast(round(cast::<_, u64x2, 2>(rows)))
    }
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
