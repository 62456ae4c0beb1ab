//! Fills.

use super::{Kernels, as_written, one_of, sampled};

/// Patterns of every path, and runs from nothing to past two lines, chained, apart, and going down.
pub(crate) fn sweep(tested: &Kernels, rule: &Kernels) {
    for size in one_of(5, 0, [1, 2, 3, 4, 7, 8, 16, 24, 32, 64, 65, 100, 128, 200]) {
        let varied: Vec<u8> = (0..size as u32).map(|i| (i.wrapping_mul(0x9E37_79B1) >> 24) as u8).collect();
        for pattern in [varied, vec![0xA5; size]] {
            for len in sampled(0, 200) {
                for (rows, gap) in one_of(5, size, [(0, 0), (1, 0), (2, 0), (3, 0), (3, 5)]) {
                    let up = (len + gap) as isize;
                    same(tested, rule, &pattern, rows, up, len);
                    same(tested, rule, &pattern, rows, -up, len);
                }
            }
        }
    }
}

fn same(tested: &Kernels, rule: &Kernels, pattern: &[u8], rows: usize, dst_row: isize, len: usize) {
    const MARGIN: usize = 70;
    let distance = rows.saturating_sub(1) * dst_row.unsigned_abs();
    let at = MARGIN + if dst_row < 0 { distance } else { 0 };
    let run = |kernels: &Kernels, before: u8| {
        let mut dst = vec![before; distance + len + 2 * MARGIN];
        kernels.fill(pattern, as_written(&mut dst), at, rows, dst_row, len);
        dst
    };
    for before in [0x00, 0xFF] {
        let (got, want) = (run(tested, before), run(rule, before));
        let isa = tested.isa().name();
        assert!(got == want, "{isa} fill of {rows} runs of {len}, {dst_row} apart, with {pattern:?}");
    }
}
