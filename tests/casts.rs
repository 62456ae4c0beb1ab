//! Conversions of whole numbers and truth values, through plans, against the casts of the language.

#[allow(dead_code, reason = "shared with other test files")]
mod common;

use common::check_bytes;
use tilewright::family::Descriptor;
use tilewright::family::{Placement, Tensor};
use tilewright::plan::Store;
use tilewright::run::{Pool, interpret, reference};
use tilewright::{DType, Error, Layout, Options, Plan};

fn layout(text: &str, shape: &[u64], dtype: DType) -> Layout {
    let tensor = Tensor { shape: shape.to_vec(), dtype };
    text.parse::<Descriptor>().unwrap().layout(&tensor, &Placement::default()).unwrap()
}

fn bytes<const N: usize>(values: impl IntoIterator<Item = [u8; N]>) -> Vec<u8> {
    values.into_iter().flatten().collect()
}

#[test]
fn integers_of_any_two_types_move_where_they_fit() {
    let types = [
        (DType::I64, "i64"),
        (DType::I32, "i32"),
        (DType::I16, "i16"),
        (DType::I8, "i8"),
        (DType::U64, "ui64"),
        (DType::U32, "ui32"),
        (DType::U16, "ui16"),
        (DType::U8, "ui8"),
    ];
    for (from, source) in types {
        for (_, target) in types {
            let src = layout(&format!("memref<5x67x{source}>"), &[5, 67], from);
            let dst = layout(&format!("memref<5x67x{target}, strided<[1, 5], offset: 2>>"), &[5, 67], from);
            let values = (0..5 * 67).map(|i: u64| i % 128);
            let bytes =
                values.flat_map(|v| v.to_le_bytes().into_iter().take(from.size())).collect::<Vec<_>>();
            check_bytes(&src, &dst, &bytes);
        }
    }
}

/// As Spyre's runtime narrows 64-bit integers on their way up.
#[test]
fn wide_integers_are_narrowed_on_their_way_to_sticks() {
    let shape = [3, 70];
    let src = layout("memref<3x70xi64>", &shape, DType::I64);
    let dst = layout("SpyreTensorLayout((3, 70), torch.int64)", &shape, DType::I64);
    let values: Vec<i64> = (0..210).map(|i| (i - 100) * 19_000_000).collect();
    let source = bytes(values.iter().map(|v| v.to_le_bytes()));
    check_bytes(&src, &dst, &source);
    let plan = Plan::compile(&src, &dst, &Options::default()).unwrap();
    let mut out = vec![0xA5; plan.destination_bytes()];
    plan.execute(&source, &mut out).unwrap();
    for (i, value) in values.iter().enumerate() {
        let [place] = dst.locate(&[i as u64 / 70, i as u64 % 70]).unwrap()[..] else { panic!("a replica") };
        let stored = out[place.byte as usize..].first_chunk().unwrap();
        assert_eq!(i64::from(i32::from_le_bytes(*stored)), *value);
    }
    // And up again, without loss.
    let back = Plan::compile(&dst, &src, &Options::default()).unwrap();
    let mut wide = vec![0; back.destination_bytes()];
    back.execute(&out, &mut wide).unwrap();
    assert_eq!(wide, source);
}

#[test]
fn the_first_value_that_does_not_fit_is_named_alike_by_all() {
    // Large enough for several tasks; transposed, so that order differs between source and destination.
    let shape = [300, 700];
    let src = layout("memref<300x700xi64>", &shape, DType::I64);
    let dst = layout("memref<300x700xi16, strided<[1, 300]>>", &shape, DType::I64);
    let mut values = vec![-7_i64; 300 * 700];
    values[200 * 700 + 1] = i64::MIN;
    values[3 * 700 + 699] = 32768;
    values[250 * 700 + 1] = 70_000;
    let source = bytes(values.iter().map(|v| v.to_le_bytes()));
    let (given, needed) = (i64::MIN.to_string(), "i16, -32768 to 32767".to_string());
    let want = Error::OutOfRange { at: 2 * (300 + 200), given, needed };
    let nearest: Vec<u8> = (0..700 * 300)
        .flat_map(|i| {
            let value = values[i % 300 * 700 + i / 300];
            (value.clamp(-32768, 32767) as i16).to_le_bytes()
        })
        .collect();

    let options = Options::default();
    assert_eq!(reference(&src, &dst, &options, &source).unwrap_err(), want);
    let plan = Plan::compile(&src, &dst, &options).unwrap();
    assert_eq!(interpret(&plan, &source).unwrap_err(), want);
    for (threads, store) in
        [(1, Store::Cached), (1, Store::Streamed), (2, Store::Cached), (3, Store::Streamed)]
    {
        let plan = Plan::compile(&src, &dst, &options.with_store(store)).unwrap();
        let mut out = vec![0xA5; plan.destination_bytes()];
        let error = plan.execute_on(&Pool::new(threads).unwrap(), &source, &mut out).unwrap_err();
        assert_eq!(error, want, "{threads} threads, {store:?}");
        assert!(out == nearest, "{threads} threads, {store:?}");
        // The next run on these threads has nothing to complain about.
        plan.execute_on(&Pool::new(threads).unwrap(), &vec![0; source.len()], &mut out).unwrap();
    }
    let range = 100 * 600..2 * 300 * 700;
    let mut out = vec![0; range.len()];
    let error = plan.execute_chunk(&source, range, &mut out).unwrap_err();
    let last = 2 * (699 * 300 + 3);
    assert!(matches!(error, Error::OutOfRange { at, .. } if at == last), "{error}");

    let saturate = options.with_saturate(true);
    let plan = Plan::compile(&src, &dst, &saturate).unwrap();
    let mut out = vec![0; plan.destination_bytes()];
    plan.execute(&source, &mut out).unwrap();
    assert!(out == nearest);
    assert!(reference(&src, &dst, &saturate, &source).unwrap() == nearest);
    assert!(interpret(&plan, &source).unwrap().bytes == nearest);
}

#[test]
fn signs_are_minded() {
    let cases: [(&str, &str, i64, bool); 8] = [
        ("i8", "ui8", -1, false),
        ("ui8", "i8", 128, false),
        ("ui8", "i8", 127, true),
        ("ui64", "i64", -1, false),
        ("i64", "ui64", i64::MAX, true),
        ("ui32", "i64", 0xFFFF_FFFF, true),
        ("i32", "ui64", -1, false),
        ("i16", "i64", -32768, true),
    ];
    for (from, to, value, fits) in cases {
        let dtype = DType::from_mlir_name(from).unwrap();
        let src = layout(&format!("memref<1x{from}>"), &[1], dtype);
        let dst = layout(&format!("memref<1x{to}>"), &[1], dtype);
        let got = reference(&src, &dst, &Options::default(), &value.to_le_bytes()[..dtype.size()]);
        assert_eq!(got.is_ok(), fits, "{value} of {from} to {to}");
        if let Ok(got) = got {
            assert!(
                value.to_le_bytes().starts_with(&got)
                    || got[..dtype.size()] == value.to_le_bytes()[..dtype.size()]
            );
        }
    }
}

#[test]
fn any_byte_but_zero_is_true() {
    let shape = [2, 130];
    let src = layout("memref<2x130xi1>", &shape, DType::Bool);
    let dst = layout("SpyreTensorLayout((2, 130), torch.bool)", &shape, DType::Bool);
    let source: Vec<u8> = (0..260).map(|i| (i % 256) as u8).collect();
    check_bytes(&src, &dst, &source);
    let out = reference(&src, &dst, &Options::default(), &source).unwrap();
    for (i, byte) in source.iter().enumerate() {
        let [place] = dst.locate(&[i as u64 / 130, i as u64 % 130]).unwrap()[..] else { panic!("a replica") };
        // 1.0 has the bias, 31, above nine bits of fraction.
        let want = if *byte == 0 { 0 } else { 31_u16 << 9 };
        assert_eq!(out[place.byte as usize..][..2], want.to_le_bytes(), "{byte}");
    }
}

/// What torch makes of masks and of position numbers: 0 and 1, and the nearest number of 32 bits, rounded again to 16.
#[test]
fn whole_numbers_become_floats_by_their_value() {
    let wide =
        [0, 1, -1, 255, 257, 0x0100_0001, 0x0100_8001, i64::MAX, i64::MIN, 0x7FFF_FFBF_FFFF_FFFF, 12345];
    let bf16 = |value: f32| {
        // Ties to even, by the bits that are cut.
        let bits = value.to_bits();
        ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16) as u16
    };
    let shape = [wide.len() as u64];
    let text = |name: &str| format!("memref<{}x{name}>", wide.len());
    let run = |source: (&str, &[u8]), to: &str| {
        let dtype = DType::from_mlir_name(source.0).unwrap();
        let (src, dst) = (layout(&text(source.0), &shape, dtype), layout(to, &shape, dtype));
        check_bytes(&src, &dst, source.1);
        reference(&src, &dst, &Options::default(), source.1).unwrap()
    };
    let source = bytes(wide.map(i64::to_le_bytes));
    let out = run(("i64", &source), &text("f64"));
    assert_eq!(out, bytes(wide.map(|v| (v as f64).to_le_bytes())));
    let out = run(("i64", &source), &text("f32"));
    assert_eq!(out, bytes(wide.map(|v| (v as f32).to_le_bytes())));
    let out = run(("i64", &source), "ttnn(dtype=bfloat16, layout=ROW_MAJOR)");
    assert_eq!(out, bytes(wide.map(|v| bf16(v as f32).to_le_bytes())));
    let small = wide.map(|v| v as u8);
    let out = run(("ui8", &small), "ttnn(dtype=float32, layout=ROW_MAJOR)");
    assert_eq!(out, bytes(small.map(|v| f32::from(v).to_le_bytes())));
    let mask = wide.map(|v| u8::from(v & 1 == 1));
    let out = run(("i1", &mask), "ttnn(dtype=bfloat16, layout=ROW_MAJOR)");
    assert_eq!(out, bytes(mask.map(|v| bf16(f32::from(v)).to_le_bytes())));
}

#[test]
fn floats_become_no_integers() {
    for (from, to) in [("f32", "i32"), ("i1", "i8"), ("ui8", "i1"), ("bf16", "ui16"), ("f32", "i1")] {
        let dtype = DType::from_mlir_name(from).unwrap();
        let src = layout(&format!("memref<4x{from}>"), &[4], dtype);
        let dst = layout(&format!("memref<4x{to}>"), &[4], dtype);
        let error = Plan::compile(&src, &dst, &Options::default()).unwrap_err();
        assert!(matches!(error, Error::Conversion { .. }), "{from} to {to}: {error}");
    }
    for from in [DType::I32, DType::Bool] {
        let src = layout(&format!("memref<32x32x{}>", from.mlir_name()), &[32, 32], from);
        let dst = layout("ttnn(dtype=bfloat8_b, layout=TILE)", &[32, 32], from);
        let error = Plan::compile(&src, &dst, &Options::default()).unwrap_err();
        assert!(error.to_string().contains("by way of bf16"), "{error}");
    }
}

/// Tenstorrent's own 8-bit float: the codes that its host library makes of these numbers, 240 being the greatest.
#[test]
fn the_8_bit_float_of_ttnn_is_not_that_of_ocp() {
    let values = [0.0_f32, 1.0, 1.875, 240.0, 448.0, -1e9, f32::INFINITY, 0.015_625, 0.007_812_5, 0.140_625];
    let codes = [0x00_u8, 0x38, 0x3F, 0x77, 0x77, 0xF7, 0x77, 0x08, 0x00, 0x21];
    let shape = [values.len() as u64];
    let src = layout(&format!("memref<{}xf32>", values.len()), &shape, DType::F32);
    let dst = layout("ttnn(dtype=fp8_e4m3, layout=ROW_MAJOR)", &shape, DType::F32);
    let source = bytes(values.map(f32::to_le_bytes));
    check_bytes(&src, &dst, &source);
    assert_eq!(reference(&src, &dst, &Options::default(), &source).unwrap(), codes);
}
