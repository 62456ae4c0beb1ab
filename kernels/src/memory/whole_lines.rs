//! Transposes whose lines go from registers to memory: by way of [`panels`](super::panels), each by one store of AVX-512, or of a
//! source that lies in L1, each by one such store or by two of AVX.

use super::ahead::Ahead;
use super::bounds::lies_inside;
use super::cache::CACHE_LINE;
use super::non_temporal::store_line;
use super::panels::{Division, Panel, Panels, Source, with_room};
use super::squares::{REGISTER, SIDE, Transpose, transposed_pair};
use super::strips::Rows;
use crate::level::{Level, part};

/// Writes lines of `B` rows, of `4 * B` columns of the source each, which lie `pitch` bytes apart. Not a function, which the compiler would
/// call: by way of panels 2-byte transposes have nine tenths of the speed then.
macro_rules! rows_of_lines {
    ($level:expr, $from:expr, $pitch:expr, $to:expr, $step:expr, $lines:expr, $transpose:expr) => {{
        let (from, to, columns): (*const u8, *mut u8, isize) = ($from, $to, (2 * B) as isize * $pitch);
        let half = |half: usize| transposed_pair(from.offset(half as isize * columns), $pitch, $transpose);
        for two in 0..$lines / 2 {
            let [a, b, c, d] = [half(4 * two), half(4 * two + 1), half(4 * two + 2), half(4 * two + 3)];
            for i in 0..B {
                let to = to.offset(i as isize * $step).add(2 * two * CACHE_LINE);
                store_line($level, [a[i], b[i]], to);
                store_line($level, [c[i], d[i]], to.add(CACHE_LINE));
            }
        }
        if $lines % 2 == 1 {
            let [a, b] = [half(2 * $lines - 2), half(2 * $lines - 1)];
            for i in 0..B {
                store_line(
                    $level,
                    [a[i], b[i]],
                    to.offset(i as isize * $step).add(($lines - 1) * CACHE_LINE),
                );
            }
        }
    }};
}

/// Whether rows of the destination begin and end with lines, so that [`write()`] takes them.
#[inline(always)]
pub(super) fn suit(on: &Rows<'_>) -> bool {
    on.begin_with_lines() && (on.cols * on.elem).is_multiple_of(CACHE_LINE)
}

/// Writes the rows by way of panels, two lines of each of `B` rows after another.
///
/// # Panics
/// When a row leaves the destination, begins or ends between two lines, or an element is not the `B`-th part of a register.
///
/// # Safety
/// The level has vectors of 512 bits, if it is of an x86-64.
#[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl"))]
pub(super) unsafe fn write<const B: usize, S: Source>(
    level: impl Level,
    on: Rows<'_>,
    panels: Panels,
    source: &S,
    transpose: impl Transpose<B>,
) {
    assert!(suit(&on) && S::LEAST == B && on.elem * SIDE * B == CACHE_LINE);
    let division = Division::new::<S>(&on, panels);
    let Rows { dst, at, step, elem, .. } = on;
    let line = CACHE_LINE / elem;
    with_room(division.size(), |room| {
        division.each(
            source,
            room,
            |rows| rows.div_ceil(B),
            |(panel, pitch), Panel { rows, cols, .. }, fetch| {
                let pitch = pitch as isize;
                let to = at.wrapping_add_signed((rows.start as isize).wrapping_mul(step));
                let to = to.wrapping_add(cols.start * elem);
                let lines = cols.len() / line;
                assert!(lies_inside(dst.len(), to, lines * CACHE_LINE, [(rows.len(), step)]));
                assert!(lies_inside(panel.len(), 0, rows.len() * elem, [(lines * line, pitch)]));
                for some in (0..rows.len()).step_by(B) {
                    fetch.some();
                    let row = some.min(rows.len() - B);
                    // SAFETY: of the panel, `B` rows of `2 * B` columns, which are half of a line; of the destination, a line of each
                    // of these rows, which begin with lines. All of them were found inside.
                    unsafe {
                        let from = panel.as_ptr().add(row * elem);
                        let to = dst.as_mut_ptr().cast::<u8>().add(to).offset(row as isize * step);
                        rows_of_lines!(level, from, pitch, to, step, lines, transpose);
                    }
                }
            },
        );
    });
}

/// Writes lines of `B` rows. A function of its own: with the same loop inlined into [`write_near`], transposed bf16 went to tiles at 4.3 G
/// elements/s instead of 6.1, and one repeated column at 7 instead of 14 (8192x8192, Zen 4).
///
/// # Safety
/// The columns are readable and the lines writable, rows begin with lines, and the level has vectors of 256 bits.
#[inline(always)]
unsafe fn near_rows<const B: usize>(
    level: impl Level,
    from: *const u8,
    pitch: isize,
    to: *mut u8,
    step: isize,
    lines: usize,
    transpose: impl Transpose<B>,
) {
    // SAFETY: the caller's promise.
    part!(level, unsafe { rows_of_lines!(level, from, pitch, to, step, lines, transpose) });
}

/// Writes one element to each of `B` rows: those of a column of the source, which follow one another.
///
/// # Safety
/// They are readable and writable.
#[inline(always)]
unsafe fn elements<const B: usize>(from: *const u8, to: *mut u8, step: isize) {
    let elem = REGISTER / B;
    for i in 0..B {
        // SAFETY: the caller's promise.
        unsafe { to.offset(i as isize * step).copy_from_nonoverlapping(from.add(i * elem), elem) };
    }
}

/// How rows of a transpose become whole lines.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Lines {
    /// Each row has some, which lie as those of the first one do: `before` is how many columns come before them.
    OfRows { before: usize, lines: usize },
    /// Two rows that follow one another are one.
    Halves,
    /// Four rows that follow one another are one.
    Quarters,
}

impl Lines {
    /// How `rows` of `cols` elements of `elem` bytes, `step` bytes apart, do, the first of which begins at address `begin`.
    #[inline(always)]
    pub(super) fn of(begin: usize, [rows, cols, elem]: [usize; 3], step: isize) -> Option<Lines> {
        let (least, bytes) = (REGISTER / elem, cols * elem);
        let follow = step == bytes as isize && rows.is_multiple_of(least) && begin.is_multiple_of(CACHE_LINE);
        match bytes {
            _ if rows < least => None,
            32 if follow && least.is_multiple_of(2) => Some(Lines::Halves),
            16 if follow && least == 16 => Some(Lines::Quarters),
            _ if rows > 1 && !step.unsigned_abs().is_multiple_of(CACHE_LINE) => None,
            _ => {
                let before = begin.wrapping_neg() % CACHE_LINE;
                let lines = bytes.saturating_sub(before) / CACHE_LINE;
                let suits = before.is_multiple_of(elem) && lines > 0;
                suits.then_some(Lines::OfRows { before: before / elem, lines })
            }
        }
    }
}

/// Writes the `lines` of `rows` that lie `step` bytes apart, and of `cols` elements each, from columns of the source that lie `pitch` bytes
/// apart. Meanwhile as many lines of what is `ahead` are fetched.
///
/// # Safety
/// They are readable and writable, the lines are as [`Lines::of`] says of them, and the level has vectors of 256 bits.
#[inline(always)]
pub(super) unsafe fn write_near<const B: usize>(
    level: impl Level,
    (src, pitch): (*const u8, isize),
    (dst, step): (*mut u8, isize),
    ([rows, cols], lines): ([usize; 2], Lines),
    transpose: impl Transpose<B>,
    mut ahead: Option<&mut Ahead<'_>>,
) {
    let elem = REGISTER / B;
    for some in (0..rows).step_by(B) {
        let row = some.min(rows - B);
        if let Some(ahead) = &mut ahead {
            for _ in 0..(B * cols * elem).div_ceil(2 * CACHE_LINE) {
                ahead.fetch();
            }
        }
        // SAFETY: the caller's promise.
        unsafe {
            let from = src.add(row * elem);
            let to = dst.offset(row as isize * step);
            match lines {
                Lines::OfRows { before, lines } => {
                    let behind = before + lines * (CACHE_LINE / elem);
                    for col in (0..before).chain(behind..cols) {
                        elements::<B>(from.offset(col as isize * pitch), to.add(col * elem), step);
                    }
                    let from = from.offset(before as isize * pitch);
                    near_rows(level, from, pitch, to.add(before * elem), step, lines, transpose);
                }
                Lines::Halves => {
                    let rows = transposed_pair(from, pitch, transpose);
                    for (i, [a, b]) in rows.as_chunks::<2>().0.iter().enumerate() {
                        store_line(level, [*a, *b], to.add(i * CACHE_LINE));
                    }
                }
                Lines::Quarters => {
                    let mut registers = [[0; REGISTER]; B];
                    for (i, register) in registers.iter_mut().enumerate() {
                        *register = from.offset(i as isize * pitch).cast::<[u8; REGISTER]>().read();
                    }
                    let rows = transpose.block(registers);
                    for (i, [a, b, c, d]) in rows.as_chunks::<4>().0.iter().enumerate() {
                        let line = [bytemuck::cast([*a, *b]), bytemuck::cast([*c, *d])];
                        store_line(level, line, to.add(i * CACHE_LINE));
                    }
                }
            }
        }
    }
}
