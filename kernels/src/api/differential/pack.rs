//! Packing of block formats.

use std::mem::MaybeUninit;

use super::{Kernels, Random, assume_written, codecs};
use crate::{BlockCodec, BlockFormat, BlockOptions, Decoding, Number, PackArgs, TileShape};

/// Every codec, source format and arrangement that takes a path of its own; then many rows on the fast paths.
pub(crate) fn sweep(tested: &Kernels, rule: &Kernels) {
    let mut random = Random::new(1);
    for codec in codecs().filter(|codec| codec.options().decoding == Decoding::Exact) {
        let (rows, cols) = (codec.tile().rows(), codec.tile().cols());
        for from in Number::ALL {
            let size = from.size() as isize;
            let src = random.numbers(from, 2 * rows * cols + 8);
            let (r, c) = (rows as isize, cols as isize);
            let args = PackArgs {
                tiles: 2,
                src_at: 1,
                src_tile: c * size,
                src_row: 2 * c * size,
                src_col: size,
                rows,
                cols,
                pad: -1.5,
                prefetch_tiles: 3,
                dst_tile: codec.tile_bytes() + 3,
            };
            same(tested, rule, &codec, from, &src, &args);
            same(
                tested,
                rule,
                &codec,
                from,
                &src,
                &PackArgs { rows: rows.div_ceil(3), cols: cols - 5, ..args },
            );
            same(tested, rule, &codec, from, &src, &PackArgs { cols: 0, pad: f32::INFINITY, ..args });
            let (src_tile, src_row, src_col) = (r * c * size, size, r * size);
            same(tested, rule, &codec, from, &src, &PackArgs { src_tile, src_row, src_col, ..args });
            let src_at = src.len() - from.size();
            let (src_tile, src_row, src_col) = (-c * size, -2 * c * size, -size);
            same(tested, rule, &codec, from, &src, &PackArgs { src_at, src_tile, src_row, src_col, ..args });
        }
    }
    for format in BlockFormat::ALL {
        let codec = BlockCodec::new(format, TileShape::DEFAULT, BlockOptions::default()).unwrap();
        for from in [Number::F32, Number::Bf16, Number::F16] {
            let tiles = if cfg!(miri) { 1 } else { 100 };
            let src = random.numbers(from, tiles * 1024);
            let row = (tiles * 32 * from.size()) as isize;
            let args = PackArgs {
                tiles,
                src_at: 0,
                src_tile: 32 * from.size() as isize,
                src_row: row,
                src_col: from.size() as isize,
                rows: 32,
                cols: 32,
                pad: 0.0,
                prefetch_tiles: 3,
                dst_tile: codec.tile_bytes(),
            };
            same(tested, rule, &codec, from, &src, &args);
        }
    }
}

fn same(tested: &Kernels, rule: &Kernels, codec: &BlockCodec, from: Number, src: &[u8], args: &PackArgs) {
    let run = |kernels: &Kernels| {
        let mut dst = vec![MaybeUninit::new(0xEE); args.tiles * args.dst_tile + 5];
        kernels.pack(codec, from, src, args, &mut dst, 5);
        assume_written(dst)
    };
    let (got, want) = (run(tested), run(rule));
    if got != want {
        let at = (0..got.len()).find(|&i| got[i] != want[i]).unwrap();
        let isa = tested.isa().name();
        panic!(
            "{isa} pack {codec:?} from {} by {args:?}, byte {at}: {:02x} instead of {:02x}",
            from.name(),
            got[at],
            want[at]
        );
    }
}
