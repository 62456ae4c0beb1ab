//! Prints what each table reaches on data that stays in L2, beside `memcpy` of the same bytes, and what streaming
//! gains on data that does not: `cargo run --release -p tilewright-kernels --example rates`.
//!
//! GB/s of destination bytes, the best of many short repetitions. Compare within one run: machines are noisy.

use std::hint::black_box;
use std::mem::MaybeUninit;
use std::time::Instant;

use tilewright_kernels::{Isa, Kernels, Window};

/// GB/s of the fastest of `times` repetitions of `work`, which writes `bytes`.
fn rate(bytes: usize, times: usize, mut work: impl FnMut()) -> f64 {
    let mut best = f64::MAX;
    for _ in 0..times {
        let start = Instant::now();
        work();
        best = best.min(start.elapsed().as_secs_f64());
    }
    bytes as f64 / best / 1e9
}

/// A slice of `len` bytes that starts on a cache line.
fn aligned(memory: &mut Vec<MaybeUninit<u8>>, len: usize) -> &mut [MaybeUninit<u8>] {
    memory.resize(len + 64, MaybeUninit::new(0));
    let at = memory.as_ptr().align_offset(64);
    &mut memory[at..at + len]
}

fn main() {
    const LEN: usize = 256 << 10;
    let src: Vec<u8> = (0..LEN).map(|i| i as u8).collect();
    let mut memory = Vec::new();
    let dst = aligned(&mut memory, LEN);

    let tables: Vec<&Kernels> = Isa::available().filter_map(Kernels::for_isa).collect();
    print!("{:34}", "L2-resident, GB/s");
    tables.iter().for_each(|kernels| print!("{:>8}", kernels.isa().name()));
    println!();
    let line = |name: &str, bytes: usize, work: &mut dyn FnMut(&Kernels)| {
        print!("{name:34}");
        for kernels in &tables {
            print!("{:8.1}", rate(bytes, 400, || work(kernels)));
        }
        println!();
    };

    let whole = Window { rows: 1, cols: LEN, src_row: 0, src_col: 1, dst_row: 0, dst_col: 1 };
    line("memcpy", LEN, &mut |kernels| kernels.copy(1, &src, 0, black_box(dst), 0, &whole));
    for run in [16, 32, 48, 64, 128, 512] {
        // Runs gathered from rows twice as far apart as they are long.
        let (rows, apart) = (LEN / run / 2, 2 * run as isize);
        let w = Window { rows, cols: run, src_row: apart, src_col: 1, dst_row: run as isize, dst_col: 1 };
        line(&format!("runs of {run} bytes"), LEN / 2, &mut |kernels| {
            kernels.copy(1, &src, 0, black_box(dst), 0, &w);
        });
    }
    // A face of a bf16 tile per call: what a call costs.
    let face = Window { rows: 16, cols: 32, src_row: 1024, src_col: 1, dst_row: 32, dst_col: 1 };
    line("runs of 32 bytes, 16 a call", LEN, &mut |kernels| {
        for at in 0..LEN / 512 {
            kernels.copy(1, &src, at / 32 * 16384 + at % 32 * 32, black_box(&mut *dst), at * 512, &face);
        }
    });
    for (elem, rows, cols) in
        [(1, 512, 512), (2, 512, 256), (4, 256, 256), (8, 256, 128), (1, 496, 528), (2, 264, 488)]
    {
        let e = elem as isize;
        let w = Window {
            rows,
            cols,
            src_row: e,
            src_col: rows as isize * e,
            dst_row: cols as isize * e,
            dst_col: e,
        };
        line(&format!("transpose of {elem} bytes, {rows}x{cols}"), elem * rows * cols, &mut |kernels| {
            kernels.copy(elem, &src, 0, black_box(dst), 0, &w);
        });
    }
    for pattern in [&[0_u8][..], &[0x80, 0x3F], &[1, 2, 3]] {
        line(&format!("fill, pattern of {} bytes", pattern.len()), LEN, &mut |kernels| {
            kernels.fill(pattern, black_box(dst), 0, 1, 0, LEN);
        });
    }

    const LARGE: usize = 128 << 20;
    let src = vec![7; LARGE];
    let mut memory = Vec::new();
    let dst = aligned(&mut memory, LARGE);
    print!("\n{:34}", "128 MiB, GB/s");
    tables.iter().for_each(|kernels| print!("{:>8}", kernels.isa().name()));
    println!();
    let line = |name: &str, bytes: usize, work: &mut dyn FnMut(&Kernels)| {
        print!("{name:34}");
        for kernels in &tables {
            let times = if kernels.isa() == Isa::Scalar { 1 } else { 9 };
            print!("{:8.1}", rate(bytes, times, || work(kernels)));
        }
        println!();
    };
    let one = Window { rows: 1, cols: 1, src_row: 0, src_col: 0, dst_row: 0, dst_col: 0 };
    line("memcpy", LARGE, &mut |kernels| kernels.copy(LARGE, &src, 0, black_box(dst), 0, &one));
    line("streamed, 2 KiB a call", LARGE, &mut |kernels| {
        for at in (0..LARGE).step_by(2048) {
            kernels.stream(&src[at..at + 2048], black_box(&mut *dst), at);
        }
        kernels.fence();
    });
    for (elem, n) in [(1, 8192), (2, 8192), (4, 4096), (8, 4096)] {
        line(&format!("transpose of {elem} bytes, {n}x{n}"), elem * n * n, &mut |kernels| {
            through_scratch(kernels, elem, n, &src, black_box(dst));
        });
    }
}

/// Transposes `n` x `n` elements along the source's lines, by squares of 64 that are streamed out of a scratch.
fn through_scratch(kernels: &Kernels, elem: usize, n: usize, src: &[u8], dst: &mut [MaybeUninit<u8>]) {
    const SIDE: usize = 64;
    let (line, stride) = (SIDE * elem, elem as isize);
    let w = Window {
        rows: SIDE,
        cols: SIDE,
        src_row: stride,
        src_col: n as isize * stride,
        dst_row: line as isize,
        dst_col: stride,
    };
    let mut scratch = vec![0; SIDE * line];
    for c in (0..n).step_by(SIDE) {
        for r in (0..n).step_by(SIDE) {
            // SAFETY: `copy` writes nothing but initialised bytes.
            let uninit = unsafe { &mut *(scratch.as_mut_slice() as *mut [u8] as *mut [MaybeUninit<u8>]) };
            kernels.copy(elem, src, (c * n + r) * elem, uninit, 0, &w);
            for (i, line) in scratch.chunks_exact(line).enumerate() {
                kernels.stream(line, dst, ((r + i) * n + c) * elem);
            }
        }
    }
    kernels.fence();
}
