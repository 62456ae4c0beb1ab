//! Tiles of a block format that become those of another one are what packing makes of what they decode to, at every level.

use tilewright_kernels::{BlockCodec, BlockFormat, BlockOptions, Isa, Kernels, Rounding, TileShape};

const FORMATS: [BlockFormat; 3] = [BlockFormat::Bfp8B, BlockFormat::Bfp4B, BlockFormat::Bfp2B];

fn codec(format: BlockFormat, shape: [usize; 2], transposed: bool) -> BlockCodec {
    let options = BlockOptions { transposed, ..BlockOptions::default() };
    BlockCodec::new(format, TileShape::new(shape[0], shape[1]).unwrap(), options).unwrap()
}

fn packed_again(from: &BlockCodec, to: &BlockCodec, tile: &[u8]) -> Vec<u8> {
    let mut values = vec![0.0; from.tile().elements()];
    from.unpack_scalar(tile, &mut values);
    let mut packed = vec![0; to.tile_bytes()];
    to.pack_scalar(&values, &mut packed);
    packed
}

/// A tile of which each group has, behind a code with the largest magnitude, other codes in order: all there are in a few groups. Shared bytes
/// go through those of canonical tiles, and in every eighth tile through all.
fn tile(codec: &BlockCodec, turn: usize) -> Vec<u8> {
    let (bits, elements) = (codec.code_bits(), codec.tile().elements());
    let (largest, mask) = ((1 << (bits - 1)) - 1, (1 << bits) - 1);
    let mut tile = vec![0; codec.tile_bytes()];
    let header = codec.header_bytes();
    for (group, shared) in tile.iter_mut().enumerate().take(elements / 16) {
        let number = turn * 64 + group;
        *shared = if turn % 8 == 7 { (turn * 37 + group * 5) as u8 } else { (32 + number % 189) as u8 };
    }
    for element in 0..elements {
        let code = ((turn * elements + element) * 7) & mask;
        let negative_zero = code == largest + 1;
        let code = if element % 16 == 0 {
            largest
        } else if negative_zero {
            0
        } else {
            code
        };
        tile[header + element * bits / 8] |= (code << (element * bits % 8)) as u8;
    }
    tile
}

#[test]
fn requantized_tiles_are_those_that_packing_makes() {
    for from in FORMATS {
        for to in FORMATS.into_iter().filter(|&to| to != from) {
            for (shape, transposed) in
                [([32, 32], false), ([32, 32], true), ([16, 16], false), ([4, 16], false)]
            {
                let (from, to) = (codec(from, shape, transposed), codec(to, shape, transposed));
                assert!(Kernels::requantizes(&from, &to));
                let (step, tiles) = (from.tile_bytes() + 3, 13);
                let (mut made, mut left) = (0, 0);
                for turn in 0..if cfg!(miri) { 1 } else { 20 } {
                    let mut src = vec![0xEE; 2 + tiles * step];
                    for t in 0..tiles {
                        let tile = tile(&from, turn * tiles + t);
                        src[2 + t * step..][..tile.len()].copy_from_slice(&tile);
                    }
                    for kernels in Isa::available().filter_map(Kernels::for_isa) {
                        for t in 0..tiles {
                            let at = 2 + t * step;
                            let mut dst = vec![0xEE; (tiles - t) * to.tile_bytes() + 1];
                            let count = kernels.requantize(&from, &to, &src, at, step, tiles - t, &mut dst);
                            assert_eq!(count, kernels.canonical_tiles(&from, &src, at, step, tiles - t));
                            let want: Vec<u8> = (t..t + count)
                                .flat_map(|t| {
                                    packed_again(&from, &to, &src[2 + t * step..][..from.tile_bytes()])
                                })
                                .collect();
                            assert!(dst[..want.len()] == want, "{from:?} as {to:?}, turn {turn}, tile {t}");
                            assert!(dst[want.len()..].iter().all(|&byte| byte == 0xEE));
                            (made, left) = (made + count, left + tiles - t - count);
                        }
                    }
                }
                assert!(made > 0 && left > 0, "{from:?} as {to:?}: {made} and {left}");
            }
        }
    }
}

/// A tile of which each group has one code of its own the most, others in order, and few of them; shared bytes are near each other, or any.
fn any_tile(codec: &BlockCodec, turn: usize) -> Vec<u8> {
    let mut state = turn as u64 + 1;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize
    };
    let header = codec.header_bytes();
    let mut tile = vec![0; codec.tile_bytes()];
    for shared in &mut tile[..codec.tile().elements() / codec.format().group()] {
        *shared = (if turn.is_multiple_of(2) { turn * 5 + next() % 12 } else { next() }) as u8;
    }
    for (g, group) in tile[header..].chunks_exact_mut(16).enumerate() {
        // In some groups no code has the largest exponent, or is special; in some all are zeros.
        let most = [0x80, 0x7F, 0x78, 0x40, 0x10, 0x08, 1][(turn + g) % 7];
        for code in group {
            *code = (next() % most + next() % 2 * 0x80) as u8;
        }
    }
    tile
}

#[test]
fn packed_codes_are_those_that_packing_makes_of_values() {
    let mut known = 0;
    for from in [BlockFormat::MxFp8E4M3, BlockFormat::Bfp8B] {
        for to in BlockFormat::ALL {
            for (shape, transposed) in [([32, 32], false), ([32, 32], true), ([4, 16], false)] {
                let (from, to) = (codec(from, shape, transposed), codec(to, shape, transposed));
                let block_floats = from.format() == BlockFormat::Bfp8B && to.format().group() == 16;
                if block_floats || !Kernels::requantizes(&from, &to) {
                    continue;
                }
                known += 1;
                let (step, tiles) = (from.tile_bytes() + 3, 3);
                for turn in 0..if cfg!(miri) { 1 } else { 60 } {
                    let mut src = vec![0xEE; 2 + tiles * step];
                    let mut want = Vec::new();
                    for t in 0..tiles {
                        let tile = any_tile(&from, turn * tiles + t);
                        src[2 + t * step..][..tile.len()].copy_from_slice(&tile);
                        want.extend(packed_again(&from, &to, &tile));
                    }
                    for kernels in Isa::available().filter_map(Kernels::for_isa) {
                        let mut dst = vec![0xEE; tiles * to.tile_bytes() + 1];
                        let count = kernels.requantize(&from, &to, &src, 2, step, tiles, &mut dst);
                        assert_eq!(count, tiles);
                        let at = (0..want.len()).find(|&i| dst[i] != want[i]);
                        assert_eq!(at, None, "{from:?} as {to:?} by {}, turn {turn}", kernels.isa().name());
                        assert_eq!(dst[want.len()], 0xEE);
                    }
                }
            }
        }
    }
    // Three block floats and seven MX formats of one, eight of the other.
    assert_eq!(known, 3 * (3 + 7 + 8));
}

/// Tiles of zeros keep the exponent of none.
#[test]
fn zeros_are_requantized() {
    for (from, to) in [(BlockFormat::Bfp8B, BlockFormat::Bfp4B), (BlockFormat::Bfp2B, BlockFormat::Bfp8B)] {
        let (from, to) = (codec(from, [32, 32], false), codec(to, [32, 32], false));
        let (src, mut dst) = (vec![0; from.tile_bytes()], vec![1; to.tile_bytes()]);
        assert_eq!(
            Kernels::for_isa(Isa::best()).unwrap().requantize(&from, &to, &src, 0, src.len(), 1, &mut dst),
            1
        );
        assert_eq!(dst, packed_again(&from, &to, &src));
    }
}

#[test]
fn formats_that_are_not_known_are_said() {
    let plain = |format| codec(format, [32, 32], false);
    let (bfp8, bfp4) = (plain(BlockFormat::Bfp8B), plain(BlockFormat::Bfp4B));
    let with = |format, options| BlockCodec::new(format, TileShape::DEFAULT, options).unwrap();
    let rounded = BlockOptions { rounding: Rounding::Truncate, ..BlockOptions::default() };
    let searched = BlockOptions { search: true, ..BlockOptions::default() };
    for (from, to) in [
        (bfp8, bfp8),
        (bfp8, plain(BlockFormat::Bfp4A)),
        (plain(BlockFormat::Bfp8A), bfp4),
        (plain(BlockFormat::MxFp8E4M3), plain(BlockFormat::MxFp8E4M3)),
        (plain(BlockFormat::MxFp8E4M3), plain(BlockFormat::Bfp8A)),
        (plain(BlockFormat::MxFp4), bfp8),
        (bfp8, codec(BlockFormat::Bfp4B, [32, 32], true)),
        (bfp8, codec(BlockFormat::Bfp4B, [16, 32], false)),
        (bfp8, with(BlockFormat::Bfp4B, rounded)),
        (bfp8, with(BlockFormat::Bfp4B, searched)),
    ] {
        assert!(!Kernels::requantizes(&from, &to), "{from:?} as {to:?}");
    }
}
