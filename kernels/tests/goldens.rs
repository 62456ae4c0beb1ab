//! The golden cases of block formats (tests/data/goldens): bytes and values made by the device library itself.

use serde_json::Value;
use std::mem::MaybeUninit;
use std::path::{Path, PathBuf};
use tilewright_kernels::{
    BlockCodec, BlockFormat, BlockOptions, Decoding, Destination, Isa, Kernels, Number, PackArgs, Rounding,
    TileShape,
};

fn folder(family: &str) -> PathBuf {
    let root = if family == "device_rounding" { "tests/data" } else { "../tests/data/goldens" };
    Path::new(env!("CARGO_MANIFEST_DIR")).join(root).join(family)
}

fn cases(family: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(folder(family).join("cases.json")).unwrap();
    serde_json::from_str::<Vec<Value>>(&text).unwrap()
}

fn file(family: &str, name: &str) -> Vec<u8> {
    std::fs::read(folder(family).join(name)).unwrap()
}

/// The data of a version 1 `.npy` file.
fn npy(family: &str, name: &str) -> Vec<u8> {
    let bytes = file(family, name);
    assert_eq!(&bytes[..8], b"\x93NUMPY\x01\x00");
    let header = usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    bytes[10 + header..].to_vec()
}

/// What follows `key` in a layout text, up to the next of `ends`.
fn after<'a>(text: &'a str, key: &str, ends: &[char]) -> &'a str {
    let rest = &text[text.find(key).unwrap() + key.len()..];
    &rest[..rest.find(ends).unwrap()]
}

fn codec(case: &Value, text: &str) -> BlockCodec {
    let format = BlockFormat::from_name(after(text, "dtype=", &[','])).unwrap();
    let sides: Vec<usize> = after(text, "tile=(", &[')']).split(", ").map(|n| n.parse().unwrap()).collect();
    let device = case["argv"].as_array().unwrap().iter().any(|a| a == "device");
    let options = BlockOptions {
        transposed: text.contains("transpose_tile=True"),
        rounding: if device { Rounding::Device } else { Rounding::Host },
        ..BlockOptions::default()
    };
    BlockCodec::new(format, TileShape::new(sides[0], sides[1]).unwrap(), options).unwrap()
}

fn number(case: &Value) -> Number {
    match case["input_dtype"].as_str().unwrap() {
        "f32" => Number::F32,
        "bf16" => Number::Bf16,
        other => panic!("{other}"),
    }
}

/// The expected bytes, or their length where the case gives a digest only.
fn expected(family: &str, case: &Value) -> Option<Vec<u8>> {
    case.get("expect_file").map(|name| file(family, name.as_str().unwrap()))
}

fn shape(case: &Value) -> (usize, usize) {
    let dims = case["shape"].as_array().unwrap();
    (dims[0].as_u64().unwrap() as usize, dims[1].as_u64().unwrap() as usize)
}

/// Every tile of a matrix of `rows` x `cols`, row-major, as (first row, first column).
fn tiles(rows: usize, cols: usize, tile: TileShape) -> impl Iterator<Item = (usize, usize)> {
    let across = cols.div_ceil(tile.cols());
    (0..rows.div_ceil(tile.rows()) * across)
        .map(move |t| (t / across * tile.rows(), t % across * tile.cols()))
}

fn pack(codec: &BlockCodec, from: Number, data: &[u8], (rows, cols): (usize, usize)) -> Vec<u8> {
    let tile = codec.tile();
    let mut out = Vec::new();
    for (r0, c0) in tiles(rows, cols, tile) {
        let mut values = vec![0f32; tile.elements()];
        for r in r0..rows.min(r0 + tile.rows()) {
            for c in c0..cols.min(c0 + tile.cols()) {
                let mut bits = [0; 8];
                let size = from.size();
                bits[..size].copy_from_slice(&data[(r * cols + c) * size..][..size]);
                let bits = from.convert(Number::F32, u64::from_le_bytes(bits)) as u32;
                values[(r - r0) * tile.cols() + c - c0] = f32::from_bits(bits);
            }
        }
        let mut packed = vec![0xAA; codec.tile_bytes()];
        codec.pack_scalar(&values, &mut packed);
        out.extend(packed);
    }
    out
}

fn unpack(codec: &BlockCodec, to: Number, packed: &[u8], (rows, cols): (usize, usize)) -> Vec<u8> {
    let tile = codec.tile();
    let mut out = vec![0; rows * cols * to.size()];
    for ((r0, c0), packed) in tiles(rows, cols, tile).zip(packed.chunks_exact(codec.tile_bytes())) {
        let mut values = vec![0f32; tile.elements()];
        codec.unpack_scalar(packed, &mut values);
        for r in r0..rows.min(r0 + tile.rows()) {
            for c in c0..cols.min(c0 + tile.cols()) {
                let bits = values[(r - r0) * tile.cols() + c - c0].to_bits();
                let bits = Number::F32.convert(to, bits.into()).to_le_bytes();
                out[(r * cols + c) * to.size()..][..to.size()].copy_from_slice(&bits[..to.size()]);
            }
        }
    }
    out
}

fn first_difference(a: &[u8], b: &[u8]) -> String {
    assert_eq!(a.len(), b.len());
    let at = (0..a.len()).find(|&i| a[i] != b[i]).unwrap_or(a.len());
    let end = a.len().min(at + 8);
    format!("at byte {at}: {:02x?} instead of {:02x?}", &a[at..end], &b[at..end])
}

fn hex_digest(bytes: &[u8]) -> String {
    use sha2::{Digest, Sha256};
    Sha256::digest(bytes).iter().map(|b| format!("{b:02x}")).collect()
}

fn check_pack(family: &str, case: &Value) {
    let id = case["id"].as_str().unwrap();
    let codec = codec(case, case["to"].as_str().unwrap());
    let data = npy(family, case["input"].as_str().unwrap());
    let packed = pack(&codec, number(case), &data, shape(case));
    if let Some(expected) = expected(family, case) {
        assert!(packed == expected, "{id} {}", first_difference(&packed, &expected));
    }
    assert_eq!(hex_digest(&packed), case["expect_sha256"].as_str().unwrap(), "{id}");
}

fn check_unpack(family: &str, case: &Value) {
    let id = case["id"].as_str().unwrap();
    let codec = codec(case, case["from"].as_str().unwrap());
    let packed = file(family, case["input"].as_str().unwrap());
    let exact = unpack(&codec, number(case), &packed, shape(case));
    let library = expected(family, case).unwrap();
    let wanted = match case.get("also_file") {
        Some(name) => file(family, name.as_str().unwrap()),
        None => library.clone(),
    };
    assert!(exact == wanted, "{id} exact {}", first_difference(&exact, &wanted));

    let options = BlockOptions { decoding: Decoding::Host, ..codec.options() };
    let compat = BlockCodec::new(codec.format(), codec.tile(), options).unwrap();
    let compat = unpack(&compat, number(case), &packed, shape(case));
    assert!(compat == library, "{id} compat {}", first_difference(&compat, &library));
}

#[test]
fn block_floats_pack_as_the_library_does() {
    let cases = cases("bfp");
    assert!(cases.len() > 50);
    cases.iter().for_each(|case| check_pack("bfp", case));
}

#[test]
fn block_floats_unpack_exactly_and_as_the_library_does() {
    let cases = cases("bfp_unpack");
    assert!(cases.len() > 20);
    cases.iter().for_each(|case| check_unpack("bfp_unpack", case));
}

#[test]
fn mx_packs_and_unpacks_as_the_library_does() {
    let (unpacks, packs): (Vec<_>, Vec<_>) = cases("mx").into_iter().partition(|c| c.get("from").is_some());
    assert!(unpacks.len() > 16 && packs.len() > 30);
    packs.iter().for_each(|case| check_pack("mx", case));
    unpacks.iter().for_each(|case| check_unpack("mx", case));
}

/// Files `INPUT.FORMAT.MODE.bin` that the maker's functional simulator of the device made of 64x64 numbers in f32 or
/// bfloat16 registers: `once` as precise packing does, `twice` as packing does by default.
#[test]
fn block_floats_pack_as_the_device_does() {
    let mut names: Vec<_> = std::fs::read_dir(folder("device_rounding"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".bin"))
        .collect();
    names.sort();
    assert_eq!(names.len(), 20);
    for name in names {
        let [input, format, mode, _] = name.split('.').collect::<Vec<_>>()[..] else { panic!("{name}") };
        let (rounding, registers) = match mode.split_once('_').unwrap() {
            ("once", registers) => (Rounding::Device, registers),
            ("twice", registers) => (Rounding::DeviceOp, registers),
            _ => panic!("{name}"),
        };
        let (from, data) = match registers {
            "f32" => (Number::F32, npy("device_rounding", &format!("{input}_f32.npy"))),
            "bf16" => (Number::Bf16, npy("device_rounding", &format!("{input}_bf16_as_u16.npy"))),
            _ => panic!("{name}"),
        };
        let options =
            BlockOptions { rounding, bf16_registers: from == Number::Bf16, ..BlockOptions::default() };
        let codec =
            BlockCodec::new(BlockFormat::from_name(format).unwrap(), TileShape::DEFAULT, options).unwrap();
        let want = file("device_rounding", &name);
        let got = pack(&codec, from, &data, (64, 64));
        assert!(got == want, "{name} {}", first_difference(&got, &want));
        for kernels in Isa::available().filter_map(Kernels::for_isa) {
            let size = from.size();
            let mut got = Vec::new();
            for row in 0..2 {
                let args = PackArgs {
                    tiles: 2,
                    src_at: row * 32 * 64 * size,
                    src_tile: 32 * size as isize,
                    src_row: 64 * size as isize,
                    src_col: size as isize,
                    faces: None,
                    rows: 32,
                    cols: 32,
                    pad: 0.0,
                    prefetch_distance: 3 * (32 * size as isize),
                    dst_tile: codec.tile_bytes(),
                };
                let mut dst = vec![MaybeUninit::new(0xEE); 2 * codec.tile_bytes()];
                kernels.pack(&codec, from, &data, &args, &mut Destination::cached(&mut dst), 0);
                // SAFETY: all bytes were initialised before.
                got.extend(dst.into_iter().map(|byte| unsafe { byte.assume_init() }));
            }
            assert!(got == want, "{name}, {} {}", kernels.isa().name(), first_difference(&got, &want));
        }
    }
}
