//! Row-major arrays of MX blocks, against a model that walks rows and against bytes worked out by hand.

#[allow(dead_code, reason = "shared with other test files")]
mod common;

use common::{check, check_bytes};
use tilewright::dtype::BlockFormat;
use tilewright::family::Descriptor;
use tilewright::family::{Placement, Tensor};
use tilewright::layout::Owner;
use tilewright::run::reference;
use tilewright::{DType, Layout, Options, Plan};

fn layout(text: &str, shape: &[u64], pad_value: Option<f64>) -> Layout {
    let tensor = Tensor { shape: shape.to_vec(), dtype: DType::F32 };
    text.parse::<Descriptor>()
        .unwrap()
        .layout(&tensor, &Placement { pad_value, ..Placement::default() })
        .unwrap()
}

fn host(shape: &[u64]) -> Layout {
    let sizes: String = shape.iter().map(|n| format!("{n}x")).collect();
    layout(&format!("memref<{sizes}f32>"), shape, None)
}

/// The bytes of f32 values of mixed magnitude.
fn values(count: usize) -> Vec<u8> {
    let value = |i: usize| (i as f32 - count as f32 / 3.0) * (1 << (i * 7 % 23)) as f32 / 4096.0;
    (0..count).flat_map(|i| value(i).to_le_bytes()).collect()
}

/// Scale and codes of 32 values as the OCP text has them: the largest finite magnitude's exponent less the format's, and
/// the nearest of the format's values, which are listed in order of their codes.
fn block(x: &[f32], emax: i32, magnitudes: &[f64], width: usize, two_complement: bool) -> Vec<u8> {
    let largest = x.iter().fold(0_f64, |m, v| m.max(f64::from(v.abs())));
    let exponent = if largest == 0.0 { 0 } else { largest.log2().floor() as i32 };
    let scale = exponent - emax;
    let mut bytes = vec![0_u8; 1 + 4 * width];
    bytes[0] = u8::try_from(scale + 127).unwrap();
    for (i, v) in x.iter().enumerate() {
        let scaled = f64::from(v.abs()) / 2_f64.powi(scale);
        let gap = |code: usize| (magnitudes[code] - scaled).abs();
        let nearest = (0..magnitudes.len())
            .min_by(|&a, &b| gap(a).total_cmp(&gap(b)).then((a % 2).cmp(&(b % 2))))
            .unwrap() as u64;
        let code = match (v.is_sign_negative(), two_complement) {
            (false, _) => nearest,
            (true, false) => nearest | 1 << (width - 1),
            (true, true) => ((1 << width) - nearest) & ((1 << width) - 1),
        };
        for bit in 0..width {
            let at = i * width + bit;
            bytes[1 + at / 8] |= u8::from(code >> bit & 1 == 1) << (at % 8);
        }
    }
    bytes
}

/// The magnitudes of a small float, in order.
fn magnitudes(fraction: i32, bias: i32, largest: f64) -> Vec<f64> {
    let all = (0..).map(|code: i32| {
        let (exponent, rest) =
            (code >> fraction, f64::from(code % (1 << fraction)) / f64::from(1 << fraction));
        if exponent == 0 { rest * 2_f64.powi(1 - bias) } else { (1.0 + rest) * 2_f64.powi(exponent - bias) }
    });
    all.take_while(|v| *v <= largest).collect()
}

#[test]
fn rows_of_blocks_are_what_the_text_says() {
    let integers =
        |bits: i32| (0..1 << (bits - 1)).map(|n| f64::from(n) / 2_f64.powi(bits - 2)).collect::<Vec<_>>();
    for (name, emax, magnitudes, width, two_complement) in [
        ("mxfp8_e5m2", 15, magnitudes(2, 15, 57344.0), 8, false),
        ("mxfp8_e4m3", 8, magnitudes(3, 7, 448.0), 8, false),
        ("mxfp6_e3m2", 4, magnitudes(2, 3, 28.0), 6, false),
        ("mxfp6_e2m3", 2, magnitudes(3, 1, 7.5), 6, false),
        ("mxfp4", 2, magnitudes(1, 1, 6.0), 4, false),
        ("mxint8", 0, integers(8), 8, true),
        ("mxint4", 0, integers(4), 4, true),
        ("mxint2", 0, integers(2), 2, true),
    ] {
        for shape in [vec![64, 96], vec![3, 5, 70], vec![33], vec![2, 1, 31]] {
            let sizes: String = shape.iter().map(|n| format!("{n}x")).collect();
            let (src, dst) = (host(&shape), layout(&format!("memref<{sizes}{name}>"), &shape, Some(2.0)));
            let source = values(shape.iter().product::<u64>() as usize);
            check_bytes(&src, &dst, &source);
            let row = *shape.last().unwrap() as usize;
            let floats: Vec<f32> = source.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect();
            let mut want = Vec::new();
            for row in floats.chunks(row) {
                for part in row.chunks(32) {
                    let mut padded = [2.0; 32];
                    padded[..part.len()].copy_from_slice(part);
                    want.extend(block(&padded, emax, &magnitudes, width, two_complement));
                }
            }
            let got = reference(&src, &dst, &Options::default(), &source).unwrap();
            assert!(got == want, "{name} {shape:?}");
            check_bytes(&dst, &src, &got);
        }
    }
}

#[test]
fn a_block_by_hand() {
    // The scale 2^0 suits 6, the largest element; 1 has code 2, -6 has code 15.
    let to = layout("memref<1x2xmxfp4>", &[1, 2], None);
    let source: Vec<u8> = [1_f32, -6.0].iter().flat_map(|v| v.to_le_bytes()).collect();
    let got = reference(&host(&[1, 2]), &to, &Options::default(), &source).unwrap();
    assert_eq!(got[..3], [127, 0xF2, 0]);
    assert_eq!(got.len(), 17);
    // Six bits each: 1 is 0b001000, 7.5 is 0b011111, -0.125 is 0b100001.
    let to = layout("memref<3xmxfp6_e2m3>", &[3], None);
    let source: Vec<u8> = [1_f32, 7.5, -0.125].iter().flat_map(|v| v.to_le_bytes()).collect();
    let got = reference(&host(&[3]), &to, &Options::default(), &source).unwrap();
    assert_eq!(got[..4], [127, 0b11_001000, 0b0001_0111, 0b10]);
    assert_eq!(got.len(), 25);
}

#[test]
fn every_byte_has_its_elements() {
    let shape = [2, 40];
    for format in BlockFormat::ALL.into_iter().filter(|f| f.group() == 32) {
        let layout = layout(&format!("memref<2x40x{format}>"), &shape, None);
        let block = layout.total_bytes() / 4;
        for byte in 0..layout.total_bytes() {
            let (row, begin) = (byte / (2 * block), byte / block % 2 * 32);
            let of = |from: u64, to: u64| {
                (from..to).filter(|&c| c < 40).map(|c| vec![row, c]).collect::<Vec<Vec<u64>>>()
            };
            let owner = layout.owner(0, byte).unwrap();
            let Some(bit) = (byte % block).checked_sub(1).map(|b| b * 8) else {
                assert_eq!(owner, Owner::Shared(of(begin, begin + 32)), "{format} byte {byte}");
                continue;
            };
            let width = (block - 1) * 8 / 32;
            let elements = of(begin + bit / width, begin + (bit + 8).div_ceil(width));
            let want = if elements.is_empty() { Owner::Padding } else { Owner::Elements(elements.clone()) };
            assert_eq!(owner, want, "{format} byte {byte}");
            for index in elements {
                let [place] = layout.locate(&index).unwrap()[..] else { panic!("a replica") };
                let first = place.byte * 8 + u64::from(place.bit);
                assert!(first < byte * 8 + 8 && first + width > byte * 8, "{format} {index:?}");
                assert_eq!(place.shared, Some(byte / block * block));
            }
        }
    }
}

#[test]
fn blocks_move_between_tiles_and_rows() {
    let shape = [70, 100];
    let rows = layout("memref<70x100xmxfp8_e4m3>", &shape, None);
    let tiles = layout("ttnn(dtype=mxfp8_e4m3, layout=TILE)", &shape, None);
    let tiles8 = layout("ttnn(dtype=bfloat8_b, layout=TILE, tile=(16, 32))", &shape, None);
    let packed = reference(&host(&shape), &tiles, &Options::default(), &values(7000)).unwrap();
    check_bytes(&tiles, &rows, &packed);
    let packed = reference(&host(&shape), &rows, &Options::default(), &values(7000)).unwrap();
    check_bytes(&rows, &tiles8, &packed);
}

#[test]
fn edges() {
    for shape in [vec![0, 4], vec![4, 0], vec![1], vec![1, 32], vec![1, 33, 1]] {
        let sizes: String = shape.iter().map(|n| format!("{n}x")).collect();
        let dst = layout(&format!("memref<{sizes}mxint8>"), &shape, None);
        let blocks: u64 =
            shape[..shape.len() - 1].iter().product::<u64>() * shape[shape.len() - 1].div_ceil(32);
        assert_eq!(dst.total_bytes(), 33 * blocks);
        check(&host(&shape), &dst);
    }
    let tensor = Tensor { shape: vec![1 << 31, 1 << 31], dtype: DType::F32 };
    let huge: Descriptor = "memref<2147483648x2147483648xmxfp4>".parse().unwrap();
    assert!(huge.layout(&tensor, &Placement::default()).is_err());
    // Rounding and search are of block floats.
    let dst = layout("memref<1x32xmxfp4>", &[1, 32], None);
    let search = Options::default().with_search(true);
    assert!(Plan::compile(&host(&[1, 32]), &dst, &search).unwrap_err().to_string().contains("mxfp4"));
}
