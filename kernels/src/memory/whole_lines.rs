//! Transposes by way of [`panels`](super::panels) whose lines go from registers to memory, each by one store of AVX-512.

use super::bounds::lies_inside;
use super::cache::CACHE_LINE;
use super::non_temporal::store_line;
use super::panels::{Division, Panel, Panels, Source, with_room};
use super::squares::{SIDE, Transpose, transposed_pair};
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
                        let half = |half: usize| {
                            transposed_pair(from.offset((half * line / 2) as isize * pitch), pitch, transpose)
                        };
                        for two in 0..lines / 2 {
                            let [a, b, c, d] =
                                [half(4 * two), half(4 * two + 1), half(4 * two + 2), half(4 * two + 3)];
                            for i in 0..B {
                                let to = to.offset(i as isize * step).add(2 * two * CACHE_LINE);
                                store_line([a[i], b[i]], to);
                                store_line([c[i], d[i]], to.add(CACHE_LINE));
                            }
                        }
                        if lines % 2 == 1 {
                            let [a, b] = [half(2 * lines - 2), half(2 * lines - 1)];
                            for i in 0..B {
                                store_line(
                                    [a[i], b[i]],
                                    to.offset(i as isize * step).add((lines - 1) * CACHE_LINE),
                                );
                            }
                        }
                    }
                }
            },
        );
    });
}
