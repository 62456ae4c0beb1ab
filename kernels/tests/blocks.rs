//! Block formats against oracles in floating-point arithmetic, at every level this machine has.

use std::mem::MaybeUninit;
use tilewright_kernels::{
    BlockCodec, BlockFormat, BlockOptions, Decoding, Destination, Isa, Kernels, Number, PackArgs, Rounding,
    TileShape, UnpackArgs,
};

fn codec(format: BlockFormat, options: BlockOptions) -> BlockCodec {
    let cols = format.group();
    BlockCodec::new(format, TileShape::new(1, cols).unwrap(), options).unwrap()
}

fn tables() -> impl Iterator<Item = &'static Kernels> {
    Isa::available().filter_map(Kernels::for_isa)
}

/// Packs groups, each as a tile of its own: of each group its shared byte and its codes.
fn pack(kernels: &Kernels, codec: &BlockCodec, from: Number, src: &[u8]) -> Vec<(u8, Vec<u8>)> {
    let (group, size) = (codec.format().group(), from.size());
    let args = PackArgs {
        tiles: src.len() / size / group,
        src_at: 0,
        src_tile: (group * size) as isize,
        src_row: 0,
        src_col: size as isize,
        faces: None,
        rows: 1,
        cols: group,
        pad: 0.0,
        prefetch_distance: 3 * ((group * size) as isize),
        dst_tile: codec.tile_bytes(),
    };
    let mut dst = vec![MaybeUninit::new(0xEE); args.tiles * args.dst_tile];
    kernels.pack(codec, from, src, &args, &mut Destination::cached(&mut dst), 0);
    let dst = assume_written(dst);
    let tiles = dst.chunks_exact(args.dst_tile);
    tiles.map(|tile| (tile[0], codes(codec.format(), &tile[codec.header_bytes()..]))).collect()
}

fn assume_written(bytes: Vec<MaybeUninit<u8>>) -> Vec<u8> {
    // SAFETY: filled before the kernel ran.
    bytes.into_iter().map(|byte| unsafe { byte.assume_init() }).collect()
}

/// The codes of packed bytes, one a byte.
fn codes(format: BlockFormat, bytes: &[u8]) -> Vec<u8> {
    let bits = format.code_bits();
    let each =
        |byte: &u8| (0..8 / bits).map(|i| byte >> (i * bits) & (0xFF >> (8 - bits))).collect::<Vec<_>>();
    bytes.iter().flat_map(each).collect()
}

const BFP: [(BlockFormat, u32, bool); 6] = [
    (BlockFormat::Bfp8B, 7, false),
    (BlockFormat::Bfp4B, 3, false),
    (BlockFormat::Bfp2B, 1, false),
    (BlockFormat::Bfp8A, 7, true),
    (BlockFormat::Bfp4A, 3, true),
    (BlockFormat::Bfp2A, 1, true),
];

/// Every number as the format's packer sees it: infinity and NaN go on where the finite ones end, subnormals are 0.
fn seen(x: f32) -> f64 {
    let magnitude = x.abs().to_bits();
    match magnitude >> 23 {
        0 => 0.0,
        exponent => (1.0 + f64::from(magnitude & 0x7F_FFFF) / 8_388_608.0) * 2f64.powi(exponent as i32 - 127),
    }
}

/// A group packed by dividing and rounding in binary64.
fn oracle(x: &[f32], m: u32, rounding: Rounding) -> (u8, Vec<u8>) {
    let largest = x.iter().map(|&x| seen(x)).fold(0.0, f64::max);
    if largest == 0.0 {
        return (0, vec![0; x.len()]);
    }
    let exponent = (largest.to_bits() >> 52) as i32 - 1023;
    let code = |&x: &f32| {
        // The significand in steps of 2^-23 of the shared exponent, what is finer lost.
        let aligned = (seen(x) * 2f64.powi(23 - exponent)).trunc();
        let magnitude = match rounding {
            Rounding::Host => (aligned / 2f64.powi(24 - m as i32)).round_ties_even(),
            Rounding::Device => {
                ((aligned / 2f64.powi(17)).round().min(127.0) / 2f64.powi(7 - m as i32)).trunc()
            }
            Rounding::Truncate => (aligned / 2f64.powi(24 - m as i32)).trunc(),
            other => panic!("{other:?} has tests of its own"),
        };
        let magnitude = magnitude.min(2f64.powi(m as i32) - 1.0) as u8;
        if magnitude == 0 { 0 } else { u8::from(x.is_sign_negative()) << m | magnitude }
    };
    ((exponent + 127) as u8, x.iter().map(code).collect())
}

/// Every pattern of a 16-bit format as a group of its own, and beside a number 1, 2, .. binades above it.
fn all_patterns(number: Number) -> Vec<u8> {
    let mut src = Vec::new();
    for pattern in 0..=u16::MAX {
        let x = number.decode(pattern.into());
        src.extend([pattern; 16].map(u16::to_le_bytes).as_flattened());
        for above in [1, 4, 7, 8, 25] {
            let neighbour = number.encode(x.abs() * 2f64.powi(above)) as u16;
            let mut group = [pattern; 16];
            group[5] = neighbour;
            group[11] = pattern ^ 0x8000;
            src.extend(group.map(u16::to_le_bytes).as_flattened());
        }
    }
    src
}

#[test]
fn every_pattern_packs_as_division_says() {
    for number in [Number::Bf16, Number::F16] {
        let src = all_patterns(number);
        let values: Vec<f32> = src
            .as_chunks()
            .0
            .iter()
            .map(|code| f32::from_bits(number.convert(Number::F32, u16::from_le_bytes(*code).into()) as u32))
            .collect();
        for (format, m, _) in &BFP[..3] {
            let want: Vec<_> =
                values.chunks_exact(16).map(|group| oracle(group, *m, Rounding::Host)).collect();
            for kernels in tables() {
                let got = pack(kernels, &codec(*format, BlockOptions::default()), number, &src);
                for (i, (got, want)) in got.iter().zip(&want).enumerate() {
                    let group = &values[16 * i..][..16];
                    assert_eq!(got, want, "{} {format} of {group:?}", kernels.isa().name());
                }
            }
        }
    }
}

#[test]
fn the_other_roundings_pack_as_division_says() {
    let src = all_patterns(Number::Bf16);
    let values: Vec<f32> = src
        .as_chunks()
        .0
        .iter()
        .map(|code| f32::from_bits(u32::from(u16::from_le_bytes(*code)) << 16))
        .collect();
    for (format, m, _) in &BFP[..3] {
        for rounding in [Rounding::Device, Rounding::Truncate] {
            let codec = codec(*format, BlockOptions { rounding, ..BlockOptions::default() });
            let got = pack(tables().last().unwrap(), &codec, Number::Bf16, &src);
            for (got, group) in got.iter().zip(values.chunks_exact(16)) {
                assert_eq!(got, &oracle(group, *m, rounding), "{format} {rounding:?} of {group:?}");
            }
        }
    }
}

/// The device rounds 1.375 down where the host, to even, rounds it up, and so on.
#[test]
fn host_and_device_round_the_known_values() {
    for (x, device, host) in
        [(1.375, 0b101, 0b110), (1.6875, 0b110, 0b111), (1.2421875, 0b101, 0b101), (1.9921875, 0b111, 0b111)]
    {
        for (rounding, want) in [(Rounding::Device, device), (Rounding::Host, host)] {
            let codec = codec(BlockFormat::Bfp4B, BlockOptions { rounding, ..BlockOptions::default() });
            let mut packed = vec![0; codec.tile_bytes()];
            codec.pack_scalar(&[x; 16], &mut packed);
            assert_eq!(packed[16..], [want | want << 4; 8], "{x} {rounding:?}");
        }
    }
}

/// The packed byte of sixteen equal numbers in `bfloat8_b`, and their exponent.
fn packed(x: f32, options: BlockOptions) -> (u8, u8) {
    let codec = codec(BlockFormat::Bfp8B, options);
    let mut packed = vec![0; codec.tile_bytes()];
    codec.pack_scalar(&[x; 16], &mut packed);
    (packed[0], packed[16])
}

#[test]
fn the_device_takes_nan_as_it_is_known_to() {
    let device = BlockOptions { rounding: Rounding::Device, ..BlockOptions::default() };
    let bf16 = BlockOptions { bf16_registers: true, ..device };
    let twice = BlockOptions { rounding: Rounding::DeviceOp, ..device };
    assert_eq!(packed(f32::INFINITY, device), (255, 0x40));
    assert_eq!(packed(f32::NAN, device), (255, 0x60), "goes on where finite numbers end");
    assert_eq!(packed(f32::NAN, bf16), (255, 0x40), "the code of infinity");
    assert_eq!(packed(-f32::NAN, twice), (255, 0xC0), "the code of infinity");
}

#[test]
fn the_first_of_two_roundings_can_carry() {
    let twice = BlockOptions { rounding: Rounding::DeviceOp, ..BlockOptions::default() };
    let bf16 = |bits: u32| f32::from_bits(bits << 16);
    // Seven fraction bits, all set: six do not hold them, and the exponent grows.
    assert_eq!(packed(bf16(0x3FFF), twice), (128, 0x40));
    // What is cut off before does not count.
    assert_eq!(packed(f32::from_bits(0x3FFE_FFFF), twice), (127, 0x7F));
    // The largest finite number becomes infinity, and a subnormal 0 although its first rounding would be the least normal.
    assert_eq!(packed(f32::MAX, twice), (255, 0x40));
    assert_eq!(packed(bf16(0x007F), twice), (0, 0));
}

#[test]
fn search_takes_the_lower_exponent_where_it_errs_less() {
    let options = BlockOptions { search: true, ..BlockOptions::default() };
    let codec = codec(BlockFormat::Bfp4B, options);
    let exponent = |x: &[f32; 16]| {
        let mut packed = vec![0; codec.tile_bytes()];
        codec.pack_scalar(x, &mut packed);
        (packed[0], packed[16])
    };
    // Under 128 each 0.75 is half-way between 0.5 and 1 and errs by 0.25; under 127 it is exact and 2 saturates to 1.75.
    let mut many = [0.75; 16];
    many[0] = 2.0;
    assert_eq!(exponent(&many), (127, 0x37));
    // One 0.75 gains as much as the saturation loses: the ordinary exponent stays.
    let mut even = [0.0; 16];
    (even[0], even[1]) = (2.0, 0.75);
    assert_eq!(exponent(&even), (128, 0x24));
    // Nothing to gain.
    let mut exact = [1.0; 16];
    exact[0] = 2.0;
    assert_eq!(exponent(&exact).0, 128);
    assert_eq!(exponent(&[f32::INFINITY; 16]).0, 255);
    assert_eq!(exponent(&[0.0; 16]).0, 0);
}

/// All codes under every shared byte, as tiles of one group.
fn all_codes(codec: &BlockCodec) -> Vec<u8> {
    let format = codec.format();
    let (group, bits) = (format.group(), format.code_bits());
    let mut src = Vec::new();
    for shared in 0..=255 {
        for first in (0..1usize << bits).step_by(group).take(256 / group) {
            let mut tile = vec![0; codec.tile_bytes()];
            tile[0] = shared;
            for i in 0..group {
                let code = (first + i) % (1 << bits);
                tile[codec.header_bytes() + i * bits / 8] |= (code << (i * bits % 8)) as u8;
            }
            src.extend(tile);
        }
    }
    src
}

fn unpack(kernels: &Kernels, codec: &BlockCodec, src: &[u8]) -> Vec<u32> {
    let exact = unpack_to(Number::F32, kernels, codec, src);
    exact.as_chunks().0.iter().map(|code| u32::from_le_bytes(*code)).collect()
}

fn unpack_to(to: Number, kernels: &Kernels, codec: &BlockCodec, src: &[u8]) -> Vec<u8> {
    let (tiles, group) = (src.len() / codec.tile_bytes(), codec.format().group());
    let size = to.size();
    let args = UnpackArgs {
        tiles,
        src_at: 0,
        src_tile: codec.tile_bytes(),
        row0: 0,
        col0: 0,
        rows: 1,
        cols: group,
        dst_at: 0,
        dst_tile: (size * group) as isize,
        dst_row: 0,
        dst_col: size as isize,
        faces: None,
        prefetch_tiles: 0,
    };
    let mut dst = vec![MaybeUninit::new(0xEE); tiles * group * size];
    kernels.unpack(codec, to, src, &args, &mut Destination::cached(&mut dst));
    assume_written(dst)
}

/// Compares every code under every shared byte with `value(shared, code)`, as binary32 and as bfloat16.
fn check_unpack(format: BlockFormat, value: impl Fn(i32, u8) -> f32) {
    let codec = codec(format, BlockOptions::default());
    let src = all_codes(&codec);
    for kernels in tables() {
        let exact = unpack(kernels, &codec, &src);
        let short = unpack_to(Number::Bf16, kernels, &codec, &src);
        let got = exact.iter().zip(short.as_chunks().0);
        let elements = src.chunks_exact(codec.tile_bytes()).flat_map(|tile| {
            codes(format, &tile[codec.header_bytes()..]).into_iter().map(|code| (tile[0], code))
        });
        let mut compared = 0;
        for ((shared, code), (exact, short)) in elements.zip(got) {
            let want = value(shared.into(), code).to_bits();
            let rounded = Number::F32.convert(Number::Bf16, want.into()) as u16;
            let got = (*exact, u16::from_le_bytes(*short));
            let isa = kernels.isa().name();
            assert_eq!(got, (want, rounded), "{isa} {format} {code:#x} under {shared}");
            compared += 1;
        }
        assert_eq!(compared, exact.len());
    }
}

#[test]
fn every_block_float_code_has_its_value() {
    for (format, m, narrow) in BFP {
        let bias = if narrow { 15 } else { 127 };
        check_unpack(format, |shared, code| {
            let magnitude = f64::from(code % (1 << m)) * 2f64.powi(shared - bias - (m as i32 - 1));
            let magnitude = magnitude as f32;
            if code >> m == 1 { -magnitude } else { magnitude }
        });
    }
}

/// The device's unpacker, in plain arithmetic: the exact value wherever it is a normal number.
#[test]
fn the_device_unpacks_by_its_own_rule() {
    for (format, m, narrow) in &BFP[..3] {
        assert!(!narrow);
        let codec = codec(*format, BlockOptions { decoding: Decoding::Device, ..BlockOptions::default() });
        let src = all_codes(&codec);
        for kernels in tables() {
            let got = unpack(kernels, &codec, &src);
            for (tile, got) in src.chunks_exact(codec.tile_bytes()).zip(got.chunks_exact(16)) {
                for (code, got) in codes(*format, &tile[codec.header_bytes()..]).into_iter().zip(got) {
                    let (shared, got) = (i32::from(tile[0]), f32::from_bits(*got));
                    let magnitude = f64::from(code % (1 << m)) * 2f64.powi(-(*m as i32 - 1));
                    let negative = code >> m == 1;
                    let sign = if negative { -1.0 } else { 1.0 };
                    // The significand is from 1 to below 2; the exponent of a product that binary32 lacks wraps by 256.
                    let exponent = shared + magnitude.log2().floor() as i32;
                    let case = format!("{} {format} {code:#x} under {shared}", kernels.isa().name());
                    match (magnitude == 0.0, exponent) {
                        (true, _) if negative => assert_eq!(got, f32::NEG_INFINITY, "{case}"),
                        (true, _) => assert_eq!(got.to_bits(), 0, "{case}"),
                        (_, 1..=254) => {
                            assert_eq!(f64::from(got), sign * magnitude * 2f64.powi(shared - 127), "{case}");
                        }
                        (_, wrapped) => {
                            assert_eq!(got.to_bits() >> 23 & 255, wrapped.rem_euclid(256) as u32, "{case}");
                            assert_eq!(got.is_sign_negative(), negative, "{case}");
                            let fraction = magnitude / 2f64.powi(magnitude.log2().floor() as i32) - 1.0;
                            assert_eq!(
                                f64::from(got.to_bits() & 0x7F_FFFF),
                                fraction * 8_388_608.0,
                                "{case}"
                            );
                        }
                    }
                }
            }
        }
    }
}

/// The formats with float elements: exponent bits, fraction bits, bias, exponent of the largest, largest, position.
const MX_FLOATS: [(BlockFormat, u32, u32, i32, i32, f64, u32); 5] = [
    (BlockFormat::MxFp8E5M2, 5, 2, 15, 15, 57344.0, 0),
    (BlockFormat::MxFp8E4M3, 4, 3, 7, 8, 448.0, 0),
    (BlockFormat::MxFp6E3M2, 3, 2, 3, 4, 28.0, 2),
    (BlockFormat::MxFp6E2M3, 2, 3, 1, 2, 7.5, 2),
    (BlockFormat::MxFp4, 2, 1, 1, 2, 6.0, 0),
];
const MX_INTS: [(BlockFormat, u32); 3] =
    [(BlockFormat::MxInt8, 8), (BlockFormat::MxInt4, 4), (BlockFormat::MxInt2, 2)];

fn float_value(code: u32, fraction: u32, bias: i32) -> f64 {
    let (exponent, rest) =
        ((code >> fraction) as i32, f64::from(code % (1 << fraction)) / f64::from(1 << fraction));
    if exponent == 0 { rest * 2f64.powi(1 - bias) } else { (1.0 + rest) * 2f64.powi(exponent - bias) }
}

#[test]
fn every_mx_code_has_its_value() {
    for (format, exponent, fraction, bias, _, largest, shift) in MX_FLOATS {
        check_unpack(format, |scale, code| {
            let code = u32::from(code) >> shift;
            let (sign, code) = (code >> (exponent + fraction), code % (1 << (exponent + fraction)));
            let value = float_value(code, fraction, bias);
            let magnitude = match value {
                _ if scale == 255 => return f32::NAN,
                _ if value <= largest => (value * 2f64.powi(scale - 127)) as f32,
                _ if format == BlockFormat::MxFp8E5M2 && code == 0x7C => f32::INFINITY,
                _ => return f32::NAN,
            };
            if sign == 1 { -magnitude } else { magnitude }
        });
    }
    for (format, bits) in MX_INTS {
        check_unpack(format, |scale, code| {
            let code = f64::from(code);
            let signed =
                if code >= 2f64.powi(bits as i32 - 1) { code - 2f64.powi(bits as i32) } else { code };
            let value = signed / 2f64.powi(bits as i32 - 2) * 2f64.powi(scale - 127);
            if scale == 255 { 0.0 } else { value as f32 }
        });
    }
}

/// Every finite bf16 beside neighbours that set the scale; elements against a search among all values.
#[test]
fn mx_elements_are_the_nearest() {
    let pattern = |code: u16| f32::from_bits(u32::from(code) << 16);
    let patterns: Vec<f32> = (0..=u16::MAX).map(pattern).filter(|x| x.is_finite()).collect();
    let floats = MX_FLOATS.map(|(format, exponent, fraction, bias, emax, largest, shift)| {
        let count = 1 << (exponent + fraction);
        let values: Vec<f64> =
            (0..count).map(|code| float_value(code, fraction, bias)).take_while(|&v| v <= largest).collect();
        (format, emax, values, shift, Some(exponent + fraction))
    });
    let ints = MX_INTS.map(|(format, bits)| {
        let values = (0..1 << (bits - 1)).map(|n| f64::from(n) / 2f64.powi(bits as i32 - 2)).collect();
        (format, 0, values, 0, None)
    });
    for (format, emax, values, shift, sign_at) in floats.into_iter().chain(ints) {
        let codec = codec(format, BlockOptions::default());
        let mut packed = vec![0; codec.tile_bytes()];
        // Sorted by magnitude, so that blocks span few binades and most elements are not 0.
        let mut sorted = patterns.clone();
        sorted.sort_by(|a, b| a.abs().total_cmp(&b.abs()));
        for block in sorted.chunks_exact(32).chain(patterns.chunks_exact(32)) {
            codec.pack_scalar(block, &mut packed);
            let largest = block.iter().fold(0f64, |m, x| m.max(x.abs().into()));
            let exponent = if largest == 0.0 { 0 } else { (largest.to_bits() >> 52) as i32 - 1023 };
            let scale = (exponent - emax).max(-127);
            assert_eq!(i32::from(packed[0]), scale + 127, "{format} of {block:?}");
            for (x, code) in block.iter().zip(codes(format, &packed[codec.header_bytes()..])) {
                let magnitude = f64::from(x.abs()) / 2f64.powi(scale);
                let above = values.partition_point(|&v| v < magnitude).min(values.len() - 1);
                let below = above.saturating_sub(1);
                let (down, up) = (magnitude - values[below], (values[above] - magnitude).abs());
                let nearest = if magnitude > values[above] || up < down || up == down && above % 2 == 0 {
                    above
                } else {
                    below
                };
                let negative = x.is_sign_negative();
                let want = match sign_at {
                    Some(bit) => (nearest | usize::from(negative) << bit) << shift,
                    None if negative => (1 << codec.format().code_bits()) - nearest,
                    None => nearest,
                };
                let want = (want & ((1 << format.code_bits()) - 1)) as u8;
                assert_eq!(code, want, "{format} {x:e} in {block:?}");
            }
        }
    }
}

/// A compact block is the scale of a 1x32 tile and its codes in as many bits as they have, written as one long number.
#[test]
fn compact_blocks_are_a_scale_and_a_string_of_bits() {
    let compact = BlockOptions { compact: true, ..BlockOptions::default() };
    let row = TileShape::new(1, 32).unwrap();
    let mut state = 1_u64;
    for (format, width) in [
        (BlockFormat::MxFp8E5M2, 8),
        (BlockFormat::MxFp8E4M3, 8),
        (BlockFormat::MxFp6E3M2, 6),
        (BlockFormat::MxFp6E2M3, 6),
        (BlockFormat::MxFp4, 4),
        (BlockFormat::MxInt8, 8),
        (BlockFormat::MxInt4, 4),
        (BlockFormat::MxInt2, 2),
    ] {
        let padded = codec(format, BlockOptions::default());
        let codec = BlockCodec::new(format, row, compact).unwrap();
        assert_eq!((codec.header_bytes(), codec.tile_bytes()), (1, 1 + 4 * width), "{format}");
        for _ in 0..200 {
            let values: Vec<f32> = (0..32)
                .map(|_| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99);
                    f32::from_bits((state >> 32) as u32 & 0x87FF_FFFF | 0x3800_0000)
                })
                .collect();
            let mut tile = vec![0; padded.tile_bytes()];
            padded.pack_scalar(&values, &mut tile);
            let bits: Vec<bool> = codes(format, &tile[padded.header_bytes()..])
                .into_iter()
                .map(|code| if width == 6 { code >> 2 } else { code })
                .flat_map(|code| (0..width).map(move |bit| code >> bit & 1 == 1))
                .collect();
            let mut want = vec![tile[0]];
            want.extend(bits.chunks(8).map(|byte| (0..8).map(|bit| u8::from(byte[bit]) << bit).sum::<u8>()));
            let src: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
            let mut decoded = vec![0.0; 32];
            padded.unpack_scalar(&tile, &mut decoded);
            for kernels in tables() {
                let args = PackArgs {
                    tiles: 1,
                    src_at: 0,
                    src_tile: 0,
                    src_row: 0,
                    src_col: 4,
                    faces: None,
                    rows: 1,
                    cols: 32,
                    pad: 0.0,
                    prefetch_distance: 64,
                    dst_tile: 0,
                };
                let mut got = vec![MaybeUninit::new(0xEE); codec.tile_bytes()];
                kernels.pack(&codec, Number::F32, &src, &args, &mut Destination::cached(&mut got), 0);
                let got = assume_written(got);
                assert_eq!(got, want, "{format} of {values:?}");
                let back: Vec<u32> = unpack(kernels, &codec, &got);
                assert!(back.iter().zip(&decoded).all(|(a, b)| *a == b.to_bits()), "{format} of {values:?}");
            }
        }
    }
    let refused = |format, tile| BlockCodec::new(format, tile, compact).unwrap_err().to_string();
    assert!(refused(BlockFormat::MxFp4, TileShape::DEFAULT).contains("32x32"));
    assert!(refused(BlockFormat::MxFp4, TileShape::new(2, 16).unwrap()).contains("2x16"));
    assert!(refused(BlockFormat::Bfp8B, row).contains("bfloat8_b"));
}

/// A tile in faces is the same tile in rows, whatever its shape and however it is stored.
#[test]
fn faces_are_packed_as_rows_are() {
    let numbers = |count| (0..count).map(|i| (i * 2_654_435_761_usize % 8191) as f32 / 512.0 - 7.0);
    let all = TileShape::all().flat_map(|shape| [false, true].map(|yes| (shape, yes)));
    for ((shape, transposed), compact) in all.flat_map(|some| [false, true].map(|yes| (some, yes))) {
        for format in BlockFormat::ALL {
            let options = BlockOptions { transposed, compact, ..BlockOptions::default() };
            let Ok(codec) = BlockCodec::new(format, shape, options) else { continue };
            let (rows, cols, face_rows) = (shape.rows(), shape.cols(), shape.face_rows());
            let values: Vec<f32> = numbers(shape.elements()).collect();
            let mut want = vec![0; codec.tile_bytes()];
            codec.pack_scalar(&values, &mut want);
            // Faces lie 32 bytes apart from each other, those on the right in front of those on the left.
            let face = (face_rows * 64 + 32) as isize;
            let (below, beside) = (2 * face, -face);
            let mut src = vec![0; 4 * face as usize];
            for (i, value) in values.iter().enumerate() {
                let (row, col) = (i / cols, i % cols);
                let corner = face + (row / face_rows) as isize * below + (col / 16) as isize * beside;
                let at = corner as usize + row % face_rows * 64 + col % 16 * 4;
                src[at..at + 4].copy_from_slice(&value.to_le_bytes());
            }
            let args = PackArgs {
                tiles: 1,
                src_at: face as usize,
                src_tile: 0,
                src_row: 64,
                src_col: 4,
                faces: Some([below, beside]),
                rows,
                cols,
                pad: 0.0,
                prefetch_distance: 64,
                dst_tile: codec.tile_bytes(),
            };
            for kernels in tables() {
                let mut got = vec![MaybeUninit::new(0xEE); codec.tile_bytes()];
                kernels.pack(&codec, Number::F32, &src, &args, &mut Destination::cached(&mut got), 0);
                assert_eq!(assume_written(got), want, "{format} {shape} {transposed}");
                let part = PackArgs { cols: cols - 1, ..args };
                let mut out = vec![MaybeUninit::new(0); codec.tile_bytes()];
                let refused =
                    || kernels.pack(&codec, Number::F32, &src, &part, &mut Destination::cached(&mut out), 0);
                assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(refused)).is_err());
            }
        }
    }
}

#[test]
fn tiles_have_the_known_sizes() {
    let sizes = |rows, cols| {
        let tile = TileShape::new(rows, cols).unwrap();
        [
            BlockFormat::Bfp8B,
            BlockFormat::Bfp4B,
            BlockFormat::Bfp2B,
            BlockFormat::MxFp6E3M2,
            BlockFormat::MxInt4,
            BlockFormat::MxInt2,
        ]
        .map(|format| {
            BlockCodec::new(format, tile, BlockOptions::default()).map_or(0, |codec| codec.tile_bytes())
        })
    };
    assert_eq!(sizes(32, 32), [1088, 576, 320, 1056, 544, 288]);
    assert_eq!(sizes(16, 32), [544, 288, 160, 528, 272, 144]);
    assert_eq!(sizes(8, 32), [272, 144, 80, 272, 144, 80]);
    assert_eq!(sizes(1, 32), [48, 32, 24, 48, 32, 24]);
    assert_eq!(sizes(1, 16), [32, 24, 20, 0, 0, 0]);
}

#[test]
fn slots_are_the_faces_in_order() {
    for tile in TileShape::all() {
        let mut slots: Vec<usize> =
            (0..tile.rows()).flat_map(|r| (0..tile.cols()).map(move |c| tile.slot(r, c))).collect();
        slots.sort_unstable();
        assert!(slots.into_iter().eq(0..tile.elements()), "{tile}");
    }
    // Walks the faces as the layout describes them.
    let tile = TileShape::DEFAULT;
    let mut next = 0..;
    for (top, left) in [(0, 0), (0, 16), (16, 0), (16, 16)] {
        for r in 0..16 {
            for c in 0..16 {
                assert_eq!(tile.slot(top + r, left + c), next.next().unwrap());
            }
        }
    }
    assert_eq!(TileShape::new(3, 32), None);
    assert_eq!(TileShape::new(32, 8), None);
}

#[test]
fn names_lead_back() {
    for format in BlockFormat::ALL {
        assert_eq!(BlockFormat::from_name(format.name()), Some(format));
        assert_eq!(BlockFormat::from_mlir_name(format.mlir_name()), Some(format));
    }
    assert_eq!(BlockFormat::from_name("bfp8"), None);
}

#[test]
fn impossible_codecs_are_refused() {
    let default = BlockOptions::default();
    let small = TileShape::new(1, 16).unwrap();
    let message = |format, tile, options| BlockCodec::new(format, tile, options).unwrap_err().to_string();
    assert_eq!(message(BlockFormat::MxFp4, small, default), "mxfp4 groups 32 elements, a 1x16 tile has 16");
    let transposed = BlockOptions { transposed: true, ..default };
    assert_eq!(
        message(BlockFormat::Bfp8B, TileShape::new(8, 32).unwrap(), transposed),
        "a transposed tile needs 16 or 32 rows, 8x32 has 8"
    );
    let device = BlockOptions { rounding: Rounding::Device, ..default };
    assert!(message(BlockFormat::MxInt8, TileShape::DEFAULT, device).contains("Device"));
    let search = BlockOptions { search: true, ..default };
    assert!(message(BlockFormat::Bfp2B, TileShape::DEFAULT, search).contains("bfloat2_b"));
}
