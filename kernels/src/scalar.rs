//! The scalar table: of each kernel the plainest loop that states its rule.

use crate::fill::Runs;
use crate::mem::{Move, Moves};
use crate::stream::Streams;

/// Element (r, c) of the source becomes element (r, c) of the destination.
pub(crate) fn copy(on: Moves<'_>) {
    on.for_each(window);
}

fn window(on: Move<'_>) {
    let (elem, w) = (on.elem(), on.window());
    let (src, src_at, dst, dst_at) = on.into_slices();
    let place = |at: usize, r: usize, row: isize, c: usize, col: isize| {
        at.wrapping_add_signed((r as isize).wrapping_mul(row))
            .wrapping_add_signed((c as isize).wrapping_mul(col))
    };
    for r in 0..w.rows {
        for c in 0..w.cols {
            let from = place(src_at, r, w.src_row, c, w.src_col);
            let to = place(dst_at, r, w.dst_row, c, w.dst_col);
            for byte in 0..elem {
                dst[to + byte].write(src[from + byte]);
            }
        }
    }
}

/// [`copy`]: caches change no byte.
pub(crate) fn stream(on: Moves<'_>, _by: Streams) {
    copy(on);
}

/// Byte i of every run is byte i of the pattern repeated without end.
pub(crate) fn fill(pattern: &[u8], runs: Runs<'_>) {
    runs.for_each(|run| {
        for (i, byte) in run.iter_mut().enumerate() {
            byte.write(pattern[i % pattern.len()]);
        }
    });
}
