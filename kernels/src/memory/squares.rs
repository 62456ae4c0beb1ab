//! Blocks of elements that are transposed in registers, and squares of them whose sides are cache lines.

use std::mem::MaybeUninit;
use std::ops::Range;

use bytemuck::Zeroable;

use super::cache::{CACHE_LINE, LineAligned};

/// Bytes of a row or column of a transposed block: one 128-bit register.
pub(crate) const REGISTER: usize = 16;

/// Two registers side by side: a vector, where processors have one of 256 bits.
#[cfg(target_arch = "x86_64")]
pub(crate) type Pair = safe_arch::m256i;
#[cfg(not(target_arch = "x86_64"))]
pub(crate) type Pair = [[u64; 2]; 2];

/// A transpose of blocks of `B` registers.
pub(crate) trait Transpose<const B: usize>: Copy {
    /// Whether squares are made of pairs: there are such vectors, and they are faster than [`Transpose::block`] twice.
    const SQUARES_OF_PAIRS: bool;

    /// Transposes a block.
    fn block(self, rows: [[u8; REGISTER]; B]) -> [[u8; REGISTER]; B];

    /// Transposes two blocks, register by register side by side.
    fn pair(self, rows: [Pair; B]) -> [Pair; B];
}

/// Blocks along a cache line.
pub(super) const SIDE: usize = CACHE_LINE / REGISTER;

/// Transposes a block: `B` registers of the source `src_step` bytes apart to as many of the destination `dst_step` bytes apart.
///
/// # Safety
/// They are readable and writable.
#[inline(always)]
pub(super) unsafe fn block<const B: usize>(
    src: *const u8,
    src_step: isize,
    dst: *mut u8,
    dst_step: isize,
    transpose: impl Transpose<B>,
) {
    let mut registers = [[0; REGISTER]; B];
    // SAFETY: the caller's promise; an array of bytes has no alignment.
    unsafe {
        for (i, register) in registers.iter_mut().enumerate() {
            *register = src.offset(i as isize * src_step).cast::<[u8; REGISTER]>().read();
        }
        // Not by value: where this is inlined into several loops, that is a loop with a register in memory.
        let transposed = transpose.block(registers);
        for (i, register) in transposed.iter().enumerate() {
            dst.offset(i as isize * dst_step).cast::<[u8; REGISTER]>().write(*register);
        }
    }
}

/// Transposes two blocks that follow one another along the rows of the destination: `2 * B` registers of the source, and `B` times two
/// of the destination.
///
/// # Safety
/// They are readable and writable.
#[inline(always)]
unsafe fn pair<const B: usize>(
    src: *const u8,
    src_step: isize,
    dst: *mut u8,
    dst_step: isize,
    transpose: impl Transpose<B>,
) {
    // SAFETY: the caller's promise; nothing is taken to be aligned.
    unsafe {
        for (i, pair) in transposed_pair(src, src_step, transpose).iter().enumerate() {
            dst.offset(i as isize * dst_step).cast::<Pair>().write_unaligned(*pair);
        }
    }
}

/// Two blocks, transposed, that follow one another along the rows of a destination: `2 * B` registers of the source.
///
/// # Safety
/// They are readable.
#[inline(always)]
pub(super) unsafe fn transposed_pair<const B: usize>(
    src: *const u8,
    src_step: isize,
    transpose: impl Transpose<B>,
) -> [Pair; B] {
    let mut pairs = [Pair::zeroed(); B];
    // SAFETY: the caller's promise; nothing is taken to be aligned.
    unsafe {
        let second = src.offset(B as isize * src_step);
        for (i, pair) in pairs.iter_mut().enumerate() {
            let at = i as isize * src_step;
            let register = |src: *const u8| src.offset(at).cast::<[u64; 2]>().read_unaligned();
            *pair = bytemuck::cast([register(src), register(second)]);
        }
    }
    transpose.pair(pairs)
}

/// Lines so far apart lie in one of two sets of L1.
pub(super) const SHARED_SETS: usize = 2048;

/// Lines of a square of elements of one byte.
const MOST_LINES: usize = CACHE_LINE;

/// Transposes a square of [`SIDE`] by [`SIDE`] blocks: as many lines of the source `src_step` bytes apart to as many of the
/// destination `dst_step` bytes apart. Calls `between` after each [`SIDE`] blocks, with how often it has.
///
/// # Safety
/// They are readable and writable.
#[inline(always)]
pub(super) unsafe fn square<const B: usize, T: Transpose<B>>(
    src: *const u8,
    src_step: isize,
    dst: *mut u8,
    dst_step: isize,
    transpose: T,
    between: impl FnMut(usize),
) {
    let aligned = (dst.addr() | dst_step.unsigned_abs()).is_multiple_of(2 * REGISTER);
    if const { T::SQUARES_OF_PAIRS } && (B >= 8 || aligned && !is_crowded(src_step)) {
        // SAFETY: the caller's promise.
        unsafe { square_of_pairs(src, src_step, dst, dst_step, transpose, between) };
    } else {
        // SAFETY: as above.
        unsafe { square_of_blocks(src, src_step, dst, dst_step, transpose, between) };
    }
}

/// Whether rows so far apart share sets of L1. Each line of a square is read four times, in turns with 3 to 31 others, and of those L1
/// keeps 8 to 12 in each set.
#[inline(always)]
fn is_crowded(step: isize) -> bool {
    step.unsigned_abs().is_multiple_of(SHARED_SETS)
}

/// [`square`] of lines that are brought together first where they share sets of L1, and elements are so small that many of them are read by
/// turns. In strips that is slower: nothing leaves L1 meanwhile.
///
/// # Safety
/// As there.
#[inline(always)]
pub(super) unsafe fn square_together<const B: usize>(
    mut src: *const u8,
    mut src_step: isize,
    dst: *mut u8,
    dst_step: isize,
    transpose: impl Transpose<B>,
) {
    let mut lines = LineAligned([[MaybeUninit::<u8>::uninit(); CACHE_LINE]; MOST_LINES]);
    if const { B >= 8 } && is_crowded(src_step) {
        let LineAligned(room) = &mut lines;
        let to = room.as_mut_ptr().cast::<u8>();
        for i in 0..SIDE * B {
            // SAFETY: the caller's promise; a square has `SIDE * B` lines, at most `MOST_LINES`.
            unsafe {
                let line = src.offset(i as isize * src_step).cast::<[Pair; 2]>().read_unaligned();
                to.add(i * CACHE_LINE).cast::<[Pair; 2]>().write_unaligned(line);
            }
        }
        (src, src_step) = (to, CACHE_LINE as isize);
    }
    // SAFETY: the caller's promise, or these lines.
    unsafe { square(src, src_step, dst, dst_step, transpose, |_| {}) };
}

/// [`square`], two blocks at a time.
///
/// # Safety
/// As there.
#[inline(always)]
unsafe fn square_of_pairs<const B: usize>(
    mut src: *const u8,
    src_step: isize,
    mut dst: *mut u8,
    dst_step: isize,
    transpose: impl Transpose<B>,
    mut between: impl FnMut(usize),
) {
    let (src_next, dst_next) = (2 * B as isize * src_step, B as isize * dst_step);
    for pairs in 0..SIDE / 2 {
        let (mut from, mut to) = (src, dst);
        for half in 1..=2 {
            for _ in 0..SIDE / 2 {
                // SAFETY: the caller's promise.
                unsafe { pair(from, src_step, to, dst_step, transpose) };
                (from, to) = (from.wrapping_add(REGISTER), to.wrapping_offset(dst_next));
            }
            between(2 * pairs + half);
        }
        (src, dst) = (src.wrapping_offset(src_next), dst.wrapping_add(2 * REGISTER));
    }
}

/// [`square`], block by block.
///
/// # Safety
/// As there.
#[inline(always)]
unsafe fn square_of_blocks<const B: usize>(
    mut src: *const u8,
    src_step: isize,
    mut dst: *mut u8,
    dst_step: isize,
    transpose: impl Transpose<B>,
    mut between: impl FnMut(usize),
) {
    let (src_next, dst_next) = (B as isize * src_step, B as isize * dst_step);
    for done in 1..=SIDE {
        let mut to = dst;
        for r in 0..SIDE {
            // SAFETY: the caller's promise.
            unsafe { block(src.add(r * REGISTER), src_step, to, dst_step, transpose) };
            to = to.wrapping_offset(dst_next);
        }
        src = src.wrapping_offset(src_next);
        dst = dst.wrapping_add(REGISTER);
        between(done);
    }
}

/// Divides a grid of blocks into squares whose sides are cache lines.
#[inline(always)]
pub(super) fn squares(rows: usize, cols: usize) -> impl Iterator<Item = (Range<usize>, Range<usize>)> {
    let parts = |count: usize| (0..count).step_by(SIDE).map(move |at| at..count.min(at + SIDE));
    parts(cols).flat_map(move |cols| parts(rows).map(move |rows| (rows, cols.clone())))
}
