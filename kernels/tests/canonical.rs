//! Tiles that are called canonical are what packing makes of what they decode to, with any options, at every level.

use tilewright_kernels::{
    BlockCodec, BlockFormat, BlockOptions, CodecError, Decoding, Isa, Kernels, Rounding, TileShape,
};

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    fn below(&mut self, n: usize) -> usize {
        self.next() as usize % n
    }

    /// About normal, times a power of two.
    fn number(&mut self, exponent: i32) -> f32 {
        let sum: f64 = (0..4).map(|_| self.next() as f64 / 2_f64.powi(30) - 1.0).sum();
        (sum * 2_f64.powi(exponent)) as f32
    }
}

/// All codecs of a format on a tile.
fn codecs(format: BlockFormat, rows: usize, cols: usize) -> Vec<BlockCodec> {
    let roundings = [Rounding::Host, Rounding::Device, Rounding::DeviceOp, Rounding::Truncate];
    let decodings = [Decoding::Exact, Decoding::Host, Decoding::Device];
    let mut codecs = Vec::new();
    for i in 0..roundings.len() * decodings.len() * 16 {
        let [search, transposed, compact, bf16_registers] = [1, 2, 4, 8].map(|bit| (i / 12) & bit != 0);
        let (rounding, decoding) = (roundings[i % 4], decodings[i / 4 % 3]);
        let options = BlockOptions { rounding, decoding, search, transposed, compact, bf16_registers };
        codecs.extend(BlockCodec::new(format, TileShape::new(rows, cols).unwrap(), options).ok());
    }
    assert!(!codecs.is_empty() || rows * cols < format.group());
    codecs
}

fn again(codec: &BlockCodec, tile: &[u8]) -> Vec<u8> {
    let mut values = vec![0.0; codec.tile().elements()];
    codec.unpack_scalar(tile, &mut values);
    let mut packed = vec![0; tile.len()];
    codec.pack_scalar(&values, &mut packed);
    packed
}

fn packed(codec: &BlockCodec, random: &mut Random) -> Vec<u8> {
    let exponent = random.below(10) as i32 - 5;
    let values: Vec<f32> = (0..codec.tile().elements()).map(|_| random.number(exponent)).collect();
    let mut tile = vec![0; codec.tile_bytes()];
    codec.pack_scalar(&values, &mut tile);
    tile
}

/// Whether a tile is canonical, on which all levels agree.
fn is_canonical(codec: &BlockCodec, tile: &[u8]) -> bool {
    let mut counts = Isa::available()
        .filter_map(Kernels::for_isa)
        .map(|kernels| kernels.canonical_tiles(codec, tile, 0, tile.len(), 1));
    let first = counts.next().unwrap();
    assert!(counts.all(|count| count == first), "{codec:?} {tile:?}");
    first == 1
}

const TILES: [(usize, usize); 5] = [(32, 32), (16, 16), (1, 32), (4, 16), (2, 32)];

#[test]
fn canonical_tiles_are_packed_to_the_same_bytes() {
    let rounds = if cfg!(miri) { 1 } else { 12 };
    for format in BlockFormat::ALL {
        let (mut random, mut canonical, mut others) = (Random(7), 0, 0);
        for (rows, cols) in TILES {
            for codec in codecs(format, rows, cols) {
                for round in 0..rounds {
                    let mut tile = packed(&codec, &mut random);
                    // A bit or a byte of it is changed, of the shared bytes too; or none.
                    for _ in 0..round % 3 {
                        let at = random.below(tile.len());
                        tile[at] ^= 1 << random.below(8);
                        let at = random.below(codec.header_bytes());
                        tile[at] = if round % 2 == 0 { random.next() as u8 } else { tile[at] };
                    }
                    if is_canonical(&codec, &tile) {
                        assert_eq!(again(&codec, &tile), tile, "{codec:?}");
                        canonical += 1;
                    } else {
                        others += 1;
                    }
                }
            }
        }
        assert!(canonical > 0 && others > 0 || cfg!(miri), "{format}: {canonical} and {others}");
    }
}

/// Each shared byte over groups of every code and zeros, of every code beside itself, and of zeros alone.
#[test]
fn no_group_is_canonical_that_is_packed_otherwise() {
    for format in BlockFormat::ALL {
        let (cols, bits) = (format.group(), format.code_bits());
        let (mut canonical, mut of_zeros) = (0, 0);
        // Each rounding and each decoding, but not each with each.
        let codecs = codecs(format, 1, cols).into_iter().filter(|codec| codec.code_bits() == bits).step_by(7);
        for codec in codecs {
            for (shared, code) in (0..=255).flat_map(|shared| (0..=255).map(move |code| (shared, code))) {
                // Under Miri the middle and the ends.
                if cfg!(miri) && (shared % 61 != 0 || code % 17 != 0) {
                    continue;
                }
                for count in [1, 2, usize::MAX] {
                    let mut tile = vec![0; codec.tile_bytes()];
                    tile[0] = shared;
                    tile[codec.header_bytes()..].iter_mut().take(count).for_each(|byte| *byte = code);
                    if is_canonical(&codec, &tile) {
                        assert_eq!(again(&codec, &tile), tile, "{codec:?} {shared} {code}");
                        canonical += 1;
                        of_zeros += usize::from(code == 0);
                    }
                }
            }
        }
        assert!(canonical > 0 && of_zeros > 0 || cfg!(miri), "{format}");
    }
}

#[test]
fn what_was_packed_of_everyday_numbers_is_canonical() {
    for format in BlockFormat::ALL {
        let mut random = Random(3);
        for (rows, cols) in TILES {
            for codec in codecs(format, rows, cols).into_iter().filter(|codec| codec.code_bits() != 6) {
                // A search prefers the lower exponent, under which the largest saturates.
                let tile = packed(&codec, &mut random);
                let was = again(&codec, &tile) == tile;
                assert!(!was || is_canonical(&codec, &tile), "{codec:?} {tile:?}");
            }
        }
    }
}

#[test]
fn leading_ones_are_counted() {
    let codec = BlockCodec::new(BlockFormat::Bfp8B, TileShape::DEFAULT, BlockOptions::default()).unwrap();
    let (mut random, bytes) = (Random(5), codec.tile_bytes());
    let step = bytes + 7;
    let mut tiles = vec![0; 3 + 5 * step];
    for t in 0..5 {
        tiles[3 + t * step..][..bytes].copy_from_slice(&packed(&codec, &mut random));
    }
    let count = |tiles: &[u8], n| {
        let kernels = Kernels::for_isa(Isa::best()).unwrap();
        kernels.canonical_tiles(&codec, tiles, 3, step, n)
    };
    assert_eq!((count(&tiles, 5), count(&tiles, 4), count(&tiles, 0)), (5, 4, 0));
    // A negative zero.
    tiles[3 + 2 * step + 64] = 0x80;
    assert_eq!(count(&tiles, 5), 2);
    assert!(std::panic::catch_unwind(|| count(&tiles[..3 + 4 * step], 1)).is_ok());
}

/// Blocks that are tiles of their own, each of which may be the first that is not, of each width of codes.
#[test]
fn leading_blocks_are_counted() {
    let options = BlockOptions { compact: true, ..BlockOptions::default() };
    let tile = TileShape::new(1, 32).unwrap();
    for format in [BlockFormat::MxFp8E4M3, BlockFormat::MxFp4, BlockFormat::MxInt8] {
        let codec = BlockCodec::new(format, tile, options).unwrap();
        let (mut random, step) = (Random(9), codec.tile_bytes() + 3);
        let blocks = if cfg!(miri) { 33 } else { 100 };
        let mut src = vec![0; 1 + blocks * step];
        for block in src[1..].chunks_mut(step) {
            block[..codec.tile_bytes()].copy_from_slice(&packed(&codec, &mut random));
        }
        for kernels in Isa::available().filter_map(Kernels::for_isa) {
            let count = |src: &[u8]| kernels.canonical_tiles(&codec, src, 1, step, blocks);
            assert_eq!(count(&src), blocks);
            for wrong in 0..blocks {
                let mut src = src.clone();
                // No scale of NaN is.
                src[1 + wrong * step] = 255;
                assert_eq!(count(&src), wrong, "{format}");
            }
        }
    }
}

#[test]
fn compact_codes_of_six_bits_never_are() -> Result<(), CodecError> {
    let options = BlockOptions { compact: true, ..BlockOptions::default() };
    let codec = BlockCodec::new(BlockFormat::MxFp6E3M2, TileShape::new(1, 32).unwrap(), options)?;
    assert!(!is_canonical(&codec, &packed(&codec, &mut Random(1))));
    Ok(())
}
