//! Prints what each table reaches on number formats and block formats, on data that stays in L2 or does not:
//! `cargo run --release -p tilewright-kernels --example block_rates`.
//!
//! The second argument is the number of rows of 1024 elements, a multiple of 32: 64 stay in L2, 65536 are 256 MiB of f32.
//! GB/s of source bytes (of destination bytes for `unpack`, of packed ones for `canonical`), the best of many short repetitions.
//! Compare within one run: machines are noisy.

use std::hint::black_box;
use std::mem::MaybeUninit;
use std::time::Instant;

use tilewright_kernels::{
    BlockCodec, BlockFormat, BlockOptions, Destination, Isa, Kernels, Number, PackArgs, TileShape,
    UnpackArgs, Window,
};

/// Columns of the matrix.
const COLS: usize = 1024;

/// GB/s of the fastest repetition of `work`, which moves `bytes`, within a tenth of a second, or of three.
fn rate(bytes: usize, mut work: impl FnMut()) -> f64 {
    let (begin, mut best, mut count) = (Instant::now(), f64::MAX, 0);
    while begin.elapsed().as_secs_f64() < 0.1 || count < 3 {
        count += 1;
        let start = Instant::now();
        work();
        best = best.min(start.elapsed().as_secs_f64());
    }
    bytes as f64 / best / 1e9
}

/// About normal numbers, as codes of `number`: sums of four uniform ones.
fn numbers(number: Number, count: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let mut uniform = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f64 / (1 << 23) as f64 - 1.0
    };
    let normal = (0..count).map(|_| (0..4).map(|_| uniform()).sum::<f64>());
    normal.flat_map(|x| number.encode(x).to_le_bytes().into_iter().take(number.size())).collect()
}

/// The bytes on a cache line's boundary: at which byte of the vector they begin.
fn aligned(bytes: &[u8]) -> (usize, Vec<u8>) {
    let mut memory = vec![0; bytes.len() + 64];
    let at = memory.as_ptr().align_offset(64);
    memory[at..at + bytes.len()].copy_from_slice(bytes);
    (at, memory)
}

fn main() {
    let tables: Vec<&Kernels> = Isa::available().filter_map(Kernels::for_isa).collect();
    print!("{:34}", "GB/s");
    tables.iter().for_each(|kernels| print!("{:>8}", kernels.isa().name()));
    println!();
    // Lines whose name contains the first argument; all without one.
    let wanted = std::env::args().nth(1).unwrap_or_default();
    let rows = std::env::args().nth(2).map_or(64, |rows| rows.parse().expect("a number of rows"));
    let line = |name: &str, bytes: usize, work: &mut dyn FnMut(&Kernels)| {
        if !name.contains(&wanted) {
            return;
        }
        print!("{name:34}");
        tables.iter().for_each(|kernels| print!("{:8.2}", rate(bytes, || work(kernels))));
        println!();
    };
    let mut dst = vec![MaybeUninit::new(0); 8 * rows * COLS];
    let to_at = dst.as_ptr().align_offset(64);

    use Number::*;
    for from in [F32, Bf16, F16, Sen169] {
        let (at, src) = aligned(&numbers(from, rows * COLS));
        for to in [F32, Bf16, F16, Sen169] {
            let (f, t) = (from.size() as isize, to.size() as isize);
            let w = Window { rows: 1, cols: rows * COLS, src_row: 0, src_col: f, dst_row: 0, dst_col: t };
            line(&format!("{} to {}", from.name(), to.name()), rows * COLS * from.size(), &mut |kernels| {
                kernels.convert(from, to, black_box(&src), at, black_box(&mut dst), to_at, &w);
            });
        }
    }

    let tile = TileShape::DEFAULT;
    let sources = [F32, Bf16, F16].map(|from| (from, aligned(&numbers(from, rows * COLS))));
    for format in BlockFormat::ALL {
        let codec = BlockCodec::new(format, tile, BlockOptions::default()).expect("the default codec");
        for (from, (from_at, src)) in &sources {
            let (size, from, from_at) = (from.size(), *from, *from_at);
            let mut rows_of_tiles = |kernels: &Kernels, (src_row, src_col): (usize, usize)| {
                for row in 0..rows / 32 {
                    let args = PackArgs {
                        tiles: COLS / 32,
                        src_at: from_at + row * 32 * src_row,
                        src_tile: (32 * src_col) as isize,
                        src_row: src_row as isize,
                        src_col: src_col as isize,
                        faces: None,
                        rows: 32,
                        cols: 32,
                        pad: 0.0,
                        prefetch_distance: 3 * ((32 * src_col) as isize),
                        dst_tile: codec.tile_bytes(),
                    };
                    let at = to_at + row * COLS / 32 * codec.tile_bytes();
                    kernels.pack(
                        &codec,
                        from,
                        black_box(src),
                        &args,
                        &mut Destination::cached(black_box(&mut dst)),
                        at,
                    );
                }
            };
            line(&format!("pack {} to {format}", from.name()), rows * COLS * size, &mut |kernels| {
                rows_of_tiles(kernels, (COLS * size, size));
            });
            line(&format!("pack {}.T to {format}", from.name()), rows * COLS * size, &mut |kernels| {
                rows_of_tiles(kernels, (size, rows * size));
            });
        }
    }

    for format in BlockFormat::ALL {
        let codec = BlockCodec::new(format, tile, BlockOptions::default()).expect("the default codec");
        let names = [
            format!("unpack {format} to f32"),
            format!("unpack {format} to bf16"),
            format!("canonical {format}"),
        ];
        if names.iter().all(|name| !name.contains(&wanted)) {
            continue;
        }
        let mut packed = vec![0; rows * COLS / 1024 * codec.tile_bytes()];
        let values: Vec<f32> =
            numbers(F32, rows * COLS).as_chunks().0.iter().map(|code| f32::from_le_bytes(*code)).collect();
        for (out, values) in packed.chunks_exact_mut(codec.tile_bytes()).zip(values.chunks_exact(1024)) {
            codec.pack_scalar(values, out);
        }
        let (from_at, packed) = aligned(&packed);
        line(&format!("canonical {format}"), rows * COLS / 1024 * codec.tile_bytes(), &mut |kernels| {
            let tiles = rows * COLS / 1024;
            let src = black_box(&packed);
            assert_eq!(kernels.canonical_tiles(&codec, src, from_at, codec.tile_bytes(), tiles), tiles);
        });
        for to in [F32, Bf16] {
            let size = to.size();
            line(&format!("unpack {format} to {}", to.name()), rows * COLS * size, &mut |kernels| {
                for row in 0..rows / 32 {
                    let args = UnpackArgs {
                        tiles: COLS / 32,
                        src_at: from_at + row * COLS / 32 * codec.tile_bytes(),
                        src_tile: codec.tile_bytes(),
                        row0: 0,
                        col0: 0,
                        rows: 32,
                        cols: 32,
                        dst_at: to_at + row * 32 * COLS * size,
                        dst_tile: 32 * size as isize,
                        dst_row: (COLS * size) as isize,
                        dst_col: size as isize,
                        faces: None,
                        prefetch_tiles: 0,
                    };
                    let dst = &mut Destination::cached(black_box(&mut dst));
                    kernels.unpack(&codec, to, black_box(&packed), &args, dst);
                }
            });
        }
    }
}
