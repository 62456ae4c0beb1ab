//! Transposes whose lines go from registers to memory, each by one store of AVX-512: by way of [`panels`](super::panels), or of a
//! source that lies in L1.

use super::ahead::Ahead;
use super::bounds::lies_inside;
use super::cache::CACHE_LINE;
use super::non_temporal::store_line;
use super::panels::{Division, Panel, Panels, Source, with_room};
use super::squares::{REGISTER, SIDE, Transpose, transposed_pair};
use super::strips::Rows;

/// Whether rows of the destination begin and end with lines, so that [`write`] takes them.
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
/// The processor has AVX-512 F, BW, DQ and VL, if it is an x86-64.
#[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl"))]
pub(super) unsafe fn write<const B: usize, S: Source>(
    on: Rows<'_>,
    panels: Panels,
    source: &S,
    transpose: impl Transpose<B>,
) {
    assert!(suit(&on) && S::LEAST == B && on.elem * SIDE * B == CACHE_LINE);
    let division = Division::new::<S>(&on, panels);
    let Rows { dst, at, step, elem, .. } = on;
    let (line, pitch) = (CACHE_LINE / elem, division.pitch() as isize);
    with_room(division.size(), |room| {
        division.each(
            source,
            room,
            |rows| rows.div_ceil(B),
            |panel, Panel { rows, cols, .. }, fetch| {
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
                        rows_of_lines(from, pitch, to, step, lines, transpose);
                    }
                }
            },
        );
    });
}

/// Writes lines of `B` rows: `4 * B` columns of the source, `pitch` bytes apart, for each line.
///
/// # Safety
/// They are readable and writable, rows begin with lines, and the processor has AVX-512 F.
#[inline]
#[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl"))]
unsafe fn rows_of_lines<const B: usize>(
    from: *const u8,
    pitch: isize,
    to: *mut u8,
    step: isize,
    lines: usize,
    transpose: impl Transpose<B>,
) {
    let columns = (2 * B) as isize * pitch;
    // SAFETY: the caller's promise.
    unsafe {
        let half = |half: usize| transposed_pair(from.offset(half as isize * columns), pitch, transpose);
        for two in 0..lines / 2 {
            let [a, b, c, d] = [half(4 * two), half(4 * two + 1), half(4 * two + 2), half(4 * two + 3)];
            for i in 0..B {
                let to = to.offset(i as isize * step).add(2 * two * CACHE_LINE);
                store_line([a[i], b[i]], to);
                store_line([c[i], d[i]], to.add(CACHE_LINE));
            }
        }
        if lines % 2 == 1 {
            let [a, b] = [half(2 * lines - 2), half(2 * lines - 1)];
            for i in 0..B {
                store_line([a[i], b[i]], to.offset(i as isize * step).add((lines - 1) * CACHE_LINE));
            }
        }
    }
}

/// How rows of a transpose become whole lines.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Lines {
    /// Each row begins and ends with a line.
    Whole,
    /// Two rows that follow one another are one.
    Halves,
    /// Four rows that follow one another are one.
    Quarters,
}

impl Lines {
    /// How `rows` of `bytes` each, `step` bytes apart, do, of elements of which `least` are a register, if the first begins with one.
    #[inline(always)]
    pub(super) fn of(rows: usize, bytes: usize, step: isize, least: usize) -> Option<Lines> {
        let follow = step == bytes as isize && rows.is_multiple_of(least);
        match bytes {
            0 => None,
            _ if rows < least => None,
            _ if bytes.is_multiple_of(CACHE_LINE)
                && (rows == 1 || step.unsigned_abs().is_multiple_of(CACHE_LINE)) =>
            {
                Some(Lines::Whole)
            }
            32 if follow && least.is_multiple_of(2) => Some(Lines::Halves),
            16 if follow && least == 16 => Some(Lines::Quarters),
            _ => None,
        }
    }
}

/// Writes `rows` of `bytes` each, `step` bytes apart, from columns of the source that lie `pitch` bytes apart. Meanwhile as many lines of
/// what is `ahead` are fetched.
///
/// # Safety
/// They are readable and writable, the first row begins with a line, and the processor has AVX-512 F, BW, DQ and VL, if it is an x86-64.
#[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl"))]
pub(super) unsafe fn write_near<const B: usize>(
    src: *const u8,
    pitch: isize,
    dst: *mut u8,
    step: isize,
    [rows, bytes]: [usize; 2],
    transpose: impl Transpose<B>,
    mut ahead: Option<&mut Ahead<'_>>,
) {
    let Some(lines) = Lines::of(rows, bytes, step, B) else { unreachable!("rows that are no lines") };
    for some in (0..rows).step_by(B) {
        let row = some.min(rows - B);
        if let Some(ahead) = &mut ahead {
            for _ in 0..(B * bytes).div_ceil(2 * CACHE_LINE) {
                ahead.fetch();
            }
        }
        // SAFETY: the caller's promise.
        unsafe {
            let from = src.add(row * (REGISTER / B));
            let to = dst.offset(row as isize * step);
            match lines {
                Lines::Whole => rows_of_lines(from, pitch, to, step, bytes / CACHE_LINE, transpose),
                Lines::Halves => {
                    let rows = transposed_pair(from, pitch, transpose);
                    for (i, [a, b]) in rows.as_chunks::<2>().0.iter().enumerate() {
                        store_line([*a, *b], to.add(i * CACHE_LINE));
                    }
                }
                Lines::Quarters => {
                    let mut registers = [[0; REGISTER]; B];
                    for (i, register) in registers.iter_mut().enumerate() {
                        *register = from.offset(i as isize * pitch).cast::<[u8; REGISTER]>().read();
                    }
                    let rows = transpose.block(registers);
                    for (i, [a, b, c, d]) in rows.as_chunks::<4>().0.iter().enumerate() {
                        store_line(
                            [bytemuck::cast([*a, *b]), bytemuck::cast([*c, *d])],
                            to.add(i * CACHE_LINE),
                        );
                    }
                }
            }
        }
    }
}
