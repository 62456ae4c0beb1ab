//! Packing of block formats.

use super::{Kernels, Random, codecs, one_of, ways};
use crate::{
    BlockCodec, BlockFormat, BlockOptions, Decoding, Destination, Number, PackArgs, Rounding, TileShape,
};

/// Every codec, source format and arrangement that takes a path of its own; then many rows on the fast paths.
pub(crate) fn sweep(tested: &'static Kernels, rule: &'static Kernels) {
    rows_of_codes(tested, rule);
    let mut random = Random::new(1);
    let packing = codecs().filter(|codec| codec.options().decoding == Decoding::Exact);
    for (turn, codec) in packing.enumerate() {
        let (rows, cols) = (codec.tile().rows(), codec.tile().cols());
        for from in one_of(Number::ALL.len(), turn, Number::ALL) {
            let size = from.size() as isize;
            let src = random.numbers(from, 2 * rows * cols + 8);
            let (r, c) = (rows as isize, cols as isize);
            let face_rows = codec.tile().face_rows() as isize;
            let args = PackArgs {
                tiles: 2,
                src_at: 1,
                src_tile: c * size,
                src_row: 2 * c * size,
                src_col: size,
                faces: None,
                rows,
                cols,
                pad: -1.5,
                prefetch_distance: 3 * c * size,
                dst_tile: codec.tile_bytes() + 3,
            };
            let calls = [
                args,
                PackArgs { rows: rows.div_ceil(3), cols: cols - 5, ..args },
                PackArgs { cols: 0, pad: f32::INFINITY, ..args },
                PackArgs { src_tile: r * c * size, src_row: size, src_col: r * size, ..args },
                PackArgs {
                    src_at: src.len() - from.size(),
                    src_tile: -c * size,
                    src_row: -2 * c * size,
                    src_col: -size,
                    ..args
                },
                // As it is stored: faces one after another, and their columns as runs.
                PackArgs {
                    src_tile: r * c * size,
                    src_row: 16 * size,
                    faces: Some([c * face_rows * size, 16 * face_rows * size]),
                    ..args
                },
                PackArgs {
                    src_tile: r * c * size,
                    src_row: size,
                    src_col: face_rows * size,
                    faces: Some([c * face_rows * size, 16 * face_rows * size]),
                    ..args
                },
            ];
            for args in one_of(calls.len(), turn, calls) {
                same(tested, rule, &codec, from, &src, &args);
            }
            // Zeros, every eleventh one negative, by rows and by columns.
            let mut zeros = vec![0; src.len()];
            zeros[1..]
                .chunks_exact_mut(from.size())
                .step_by(11)
                .for_each(|zero| zero[from.size() - 1] = 0x80);
            same(tested, rule, &codec, from, &zeros, &args);
            same(tested, rule, &codec, from, &zeros, &PackArgs { src_row: size, src_col: r * size, ..args });
        }
    }
    for (turn, format) in one_of(14, 1, BlockFormat::ALL).enumerate() {
        let codec = BlockCodec::new(format, TileShape::DEFAULT, BlockOptions::default()).unwrap();
        for from in one_of(5, turn, [Number::F32, Number::Bf16, Number::F16, Number::Sen169, Number::E4M3]) {
            let tiles = if cfg!(miri) { 1 } else { 100 };
            let src = random.numbers(from, tiles * 1024);
            let row = (tiles * 32 * from.size()) as isize;
            let args = PackArgs {
                tiles,
                src_at: 0,
                src_tile: 32 * from.size() as isize,
                src_row: row,
                src_col: from.size() as isize,
                faces: None,
                rows: 32,
                cols: 32,
                pad: 0.0,
                prefetch_distance: 3 * (32 * from.size() as isize),
                dst_tile: codec.tile_bytes(),
            };
            same(tested, rule, &codec, from, &src, &args);
            let columns = PackArgs { src_row: args.src_col, src_col: row, ..args };
            // Elements for exponents of 5 bits are replaced first.
            let packs = !format.name().ends_with("_a") && from != Number::Sen169;
            assert_eq!(columns.packs_columns(&codec, from), packs);
            same(tested, rule, &codec, from, &src, &columns);
        }
    }
    // Blocks that follow one another, which go by lines.
    let compact = BlockOptions { compact: true, ..BlockOptions::default() };
    let shape = TileShape::new(1, 32).unwrap();
    let compact =
        BlockFormat::ALL.into_iter().filter_map(|format| BlockCodec::new(format, shape, compact).ok());
    for (turn, codec) in compact.enumerate() {
        for from in one_of(5, turn, [Number::F32, Number::Bf16, Number::F16, Number::Sen169, Number::E4M3]) {
            let (blocks, size) = (if cfg!(miri) { 3 } else { 100 }, from.size());
            let src = random.numbers(from, blocks * 32);
            let args = PackArgs {
                tiles: blocks,
                src_at: 0,
                src_tile: 32 * size as isize,
                src_row: 0,
                src_col: size as isize,
                faces: None,
                rows: 1,
                cols: 32,
                pad: 0.0,
                prefetch_distance: 0,
                dst_tile: codec.tile_bytes(),
            };
            same(tested, rule, &codec, from, &src, &args);
            // Both halves of each in another face.
            let faces = PackArgs {
                src_tile: 16 * size as isize,
                faces: Some([0, (16 * blocks * size) as isize]),
                ..args
            };
            same(tested, rule, &codec, from, &src, &faces);
            // One below the other: their columns are runs.
            let columns = PackArgs {
                src_tile: size as isize,
                src_col: (blocks * size) as isize,
                prefetch_distance: 64,
                dst_tile: codec.tile_bytes() + 5,
                ..args
            };
            let packs = from != Number::Sen169;
            assert_eq!(columns.packs_columns(&codec, from), packs);
            same(tested, rule, &codec, from, &src, &columns);
        }
    }
}

/// A packed tile whose scales are near each other or any, with zeros, NaN and codes that have no hidden bit.
fn codes(random: &mut Random, codec: &BlockCodec, turn: usize) -> Vec<u8> {
    let mut tile = Vec::new();
    for _ in 0..codec.header_bytes() {
        let near = 20 + 60 * (turn % 5) as u64 + random.next() % 9;
        tile.push(if turn % 3 < 2 { near } else { random.next() } as u8);
    }
    for row in 0..codec.tile().elements() / 32 {
        let most = [0x80, 0x7F, 0x78, 0x40, 0x10, 0x08, 1][(turn + row + tile.len()) % 7];
        tile.extend((0..32).map(|_| (random.next() % most + random.next() % 2 * 0x80) as u8));
    }
    tile
}

/// Rows of codes: blocks to tiles and to other blocks, and rows of tiles to blocks.
fn rows_of_codes(tested: &'static Kernels, rule: &'static Kernels) {
    let mut random = Random::new(2);
    let compact = BlockOptions { compact: true, ..BlockOptions::default() };
    let roundings = [Rounding::Host, Rounding::Device, Rounding::Truncate];
    let options = roundings.map(|rounding| BlockOptions { rounding, ..BlockOptions::default() });
    let options = options.into_iter().chain([compact]);
    let shapes = TileShape::all().filter(|tile| tile.cols() == 32 && (!cfg!(miri) || tile.rows() <= 4));
    let all: Vec<BlockCodec> = shapes
        .flat_map(|tile| {
            let options = options.clone();
            let of_tile = move |format| options.clone().map(move |o| BlockCodec::new(format, tile, o));
            BlockFormat::ALL.into_iter().flat_map(of_tile).flatten()
        })
        .collect();
    let plain = |codec: &BlockCodec| codec.options().rounding == Rounding::Host;
    let mut known = [0; 3];
    for from in all.iter().filter(|from| plain(from)) {
        for (turn, to) in all.iter().filter(|to| Kernels::packs_codes(from, to)).enumerate() {
            let (rows, of_blocks) = (to.tile().rows(), from.options().compact);
            known[usize::from(of_blocks) + usize::from(of_blocks && to.options().compact)] += 1;
            let tiles = if to.options().compact && !cfg!(miri) { 70 } else { 3 };
            let mut src = vec![0xEE; 2];
            for t in 0..tiles * rows {
                src.extend(codes(&mut random, from, turn + t));
            }
            let (row, bytes) = (turn * 5 % from.tile().rows(), from.tile_bytes() as isize);
            let face = from.tile().face_rows() * from.tile().face_cols();
            let args = PackArgs {
                tiles,
                src_at: 2,
                src_tile: bytes,
                src_row: bytes * tiles as isize,
                src_col: 1,
                faces: (from.tile().rows() > 1).then_some([0, face as isize]),
                rows,
                cols: 32,
                pad: 0.0,
                prefetch_distance: bytes,
                dst_tile: to.tile_bytes() + turn % 2,
            };
            same_by(tested, rule, to, &args, from.format().name(), |kernels, dst| {
                kernels.pack_codes(to, (from, row), &src, &args, dst, 5);
            });
        }
    }
    assert!(known.iter().all(|&known| known > 0), "{known:?}");
}

fn same(
    tested: &'static Kernels,
    rule: &'static Kernels,
    codec: &BlockCodec,
    from: Number,
    src: &[u8],
    args: &PackArgs,
) {
    same_by(tested, rule, codec, args, from.name(), |kernels, dst| {
        kernels.pack(codec, from, src, args, dst, 5);
    });
}

fn same_by(
    tested: &'static Kernels,
    rule: &'static Kernels,
    codec: &BlockCodec,
    args: &PackArgs,
    from: &str,
    pack: impl Fn(&'static Kernels, &mut Destination<'_>),
) {
    let len = args.tiles * args.dst_tile + 5;
    let pack = &pack;
    let run = |kernels: &'static Kernels| ways(kernels, len, 5, move |dst| pack(kernels, dst));
    let want = run(rule).next().unwrap();
    if let Some(got) = run(tested).find(|got| *got != want) {
        let at = (0..got.len()).find(|&i| got[i] != want[i]).unwrap();
        let isa = tested.isa().name();
        panic!(
            "{isa} pack {codec:?} from {from} by {args:?}, byte {at}: {:02x} instead of {:02x}",
            got[at], want[at]
        );
    }
}
