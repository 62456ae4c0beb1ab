//! What a Rust program would do without tilewright, beside tilewright and memcpy, on one thread.
//!
//! Each peer's bytes are compared with tilewright's before it is timed.

mod common;

use common::{beside_memcpy, settings};
use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use ndarray::{ArrayView2, ArrayView6, ArrayViewMut2, ArrayViewMut6};
use tilewright::run::Inline;
use tilewright_benches::{Case, Memory};

/// Rows and columns that a core's cache holds, and that only memory holds.
const SIZES: [(&str, [usize; 2]); 2] = [("L2", [256, 256]), ("DRAM", [8192, 8192])];

/// Writes a destination from a source of these rows and columns.
type Peer<S, D> = fn(&[S], &mut [D], [usize; 2]);

fn compare<S: bytemuck::Pod, D: bytemuck::Pod>(c: &mut Criterion, name: &str, peers: &[(&str, Peer<S, D>)]) {
    let case = Case::named(name).unwrap();
    let mut memory = Memory::new(0).unwrap();
    let mut group = c.benchmark_group(format!("{name} by peers"));
    for (size, shape) in SIZES {
        let job = case.at(&shape.map(|n| n as u64), None).unwrap();
        beside_memcpy(&mut group, size, &job, &mut memory, &Inline, size == "L2");
        memory.prepare(&job).unwrap();
        memory.convert(&job, &Inline).unwrap();
        let expected = memory.destination.to_vec();
        for (peer, run) in peers {
            memory.destination.fill(0xA5);
            let source = bytemuck::cast_slice(&memory.source);
            run(source, bytemuck::cast_slice_mut(&mut memory.destination), shape);
            assert!(*memory.destination == *expected, "{peer} writes other bytes");
            let out = bytemuck::cast_slice_mut(&mut memory.destination);
            group.bench_function(BenchmarkId::new(*peer, size), |b| b.iter(|| run(source, out, shape)));
        }
    }
    group.finish();
}

fn transpose_by_ndarray<T: Copy>(source: &[T], out: &mut [T], [rows, cols]: [usize; 2]) {
    let source = ArrayView2::from_shape((rows, cols), source).unwrap();
    ArrayViewMut2::from_shape((cols, rows), out).unwrap().assign(&source.t());
}

fn transpose_by_loops<T: Copy>(source: &[T], out: &mut [T], [rows, cols]: [usize; 2]) {
    for r in 0..rows {
        for c in 0..cols {
            out[c * rows + r] = source[r * cols + c];
        }
    }
}

/// Tiles of 32 x 32 in faces of 16 x 16: an array of six dimensions, two of them exchanged twice.
fn tilize_by_ndarray<T: Copy>(source: &[T], out: &mut [T], [rows, cols]: [usize; 2]) {
    let (down, across) = (rows / 32, cols / 32);
    let source = ArrayView6::from_shape([down, 2, 16, across, 2, 16], source).unwrap();
    let mut out = ArrayViewMut6::from_shape([down, across, 2, 2, 16, 16], out).unwrap();
    out.assign(&source.permuted_axes([0, 3, 1, 4, 2, 5]));
}

/// Calls `row` with the 16 elements of each row of each face, in the order of the tiles.
fn face_rows<T>(source: &[T], [rows, cols]: [usize; 2], mut row: impl FnMut(&[T])) {
    for tile in 0..rows / 32 * (cols / 32) {
        let (down, across) = (tile / (cols / 32) * 32, tile % (cols / 32) * 32);
        for face in 0..4 {
            for r in 0..16 {
                let at = (down + face / 2 * 16 + r) * cols + across + face % 2 * 16;
                row(&source[at..at + 16]);
            }
        }
    }
}

fn tilize_by_loops<T: Copy>(source: &[T], out: &mut [T], shape: [usize; 2]) {
    let mut out = out.chunks_exact_mut(16);
    face_rows(source, shape, |row| out.next().unwrap().copy_from_slice(row));
}

/// The rule of bfp8 as it is stated, one face row at a time: 64 exponents, then 1024 codes of sign and 7 bits.
fn bfp8_by_loops(source: &[f32], out: &mut [u8], shape: [usize; 2]) {
    let mut at = 0;
    face_rows(source, shape, |row| {
        let (tile, group) = (at / 64 * 1088, at % 64);
        let shared = row.iter().map(|x| x.to_bits() >> 23 & 255).max().unwrap_or(0);
        out[tile + group] = shared as u8;
        let codes = &mut out[tile + 64 + 16 * group..][..16];
        for (code, x) in codes.iter_mut().zip(row) {
            let (sign, exponent) = (x.to_bits() >> 31, x.to_bits() >> 23 & 255);
            let significand = if exponent == 0 { 0 } else { x.to_bits() & 0x7F_FFFF | 0x80_0000 };
            let aligned = significand.checked_shr(shared - exponent).unwrap_or(0);
            // To nearest, ties to even.
            let magnitude = ((aligned + 0xFFFF + (aligned >> 17 & 1)) >> 17).min(127);
            *code = if magnitude == 0 { 0 } else { (sign << 7 | magnitude) as u8 };
        }
        at += 1;
    });
}

fn peers(c: &mut Criterion) {
    compare::<u16, u16>(
        c,
        "tilize bf16",
        &[("ndarray", tilize_by_ndarray), ("nested loops", tilize_by_loops)],
    );
    compare::<u16, u16>(
        c,
        "transpose 2-byte",
        &[("ndarray", transpose_by_ndarray), ("nested loops", transpose_by_loops)],
    );
    compare::<u32, u32>(
        c,
        "transpose 4-byte",
        &[("ndarray", transpose_by_ndarray), ("nested loops", transpose_by_loops)],
    );
    compare::<f32, u8>(c, "f32 to bfp8 tiles", &[("nested loops", bfp8_by_loops)]);
}

criterion_group! {
    name = benches;
    config = settings::short();
    targets = peers
}
criterion_main!(benches);
