//! Reference, interpreter and executor agree, on every kernel table, thread count and chunk size.

mod common;
mod families;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};

use common::{check, check_bytes, ramp};
use families::{Case, Choices, FAMILIES, dense, skewed};
use proptest::prelude::*;
use tilewright::family::Descriptor;
use tilewright::family::host::strided::Memref;
use tilewright::family::{Family, Placement, Tensor};
use tilewright::layout::Owner;
use tilewright::plan::{Isa, Store};
use tilewright::run::{Executor, interpret, reference};
use tilewright::tuning::builtin;
use tilewright::{DType, Error, Format, Layout, Options, Plan};

fn memref(shape: &[u64], dtype: DType, strides: Option<Vec<i64>>, offset: i64) -> Memref {
    let dense = Memref::new(shape, dtype).with_offset(offset);
    match strides {
        Some(strides) => dense.with_strides(strides),
        None => dense,
    }
}

/// What random layouts are drawn from.
fn numbers() -> impl Strategy<Value = Vec<u32>> {
    prop::collection::vec(any::<u32>(), 48)
}

const DTYPES: [DType; 8] =
    [DType::F32, DType::Bf16, DType::F16, DType::I32, DType::U16, DType::U8, DType::F64, DType::I64];

/// The most bytes of a layout that is followed element by element.
const MOST: u64 = 400 << 10;

/// A random tensor, and a layout of it in one family. None where the family has none for the tensor, refuses
/// it for a reason that the contract knows, or takes more bytes than a test should.
fn draw(c: &mut Choices, family: usize) -> Option<(Tensor, Layout)> {
    let tensor = Tensor { dtype: c.of(&DTYPES), shape: c.shape(2500) };
    let layout = lay(c, family, &tensor)?;
    Some((tensor, layout))
}

fn lay(c: &mut Choices, family: usize, tensor: &Tensor) -> Option<Layout> {
    laid((FAMILIES[family].1)(c, tensor)?, tensor)
}

fn laid(case: Case, tensor: &Tensor) -> Option<Layout> {
    let text = case.descriptor.to_string();
    assert_eq!(text.parse::<Descriptor>().as_ref(), Ok(&case.descriptor), "{text}");
    // Seen only where a test fails; the last one is the one that does.
    println!("{:?} {} {text} {:?}", tensor.shape, tensor.dtype, (&case.device, &case.mapper));
    match case.layout(tensor) {
        Ok(layout) => Some(layout).filter(|l| l.total_bytes() <= MOST),
        Err(Error::Collision { .. }) => None,
        Err(e) => panic!("{e}\n{tensor:?}\n{case:?}\n{text}"),
    }
}

/// Host to layout and back, each way in every way there is. A layout of the same elements gives them back.
fn round_trip(tensor: &Tensor, layout: &Layout) {
    let host = dense(tensor);
    check(&host, layout);
    let source = ramp(host.total_bytes() as usize);
    let there = reference(&host, layout, &Options::default(), &source).unwrap();
    check_bytes(layout, &host, &there);
    if layout.format() == Format::Plain(tensor.dtype) {
        assert!(reference(layout, &host, &Options::default(), &there).unwrap() == source);
    }
}

/// A shape, a permutation of it with gaps, and an offset.
fn strided() -> impl Strategy<Value = (Vec<u64>, Vec<i64>, i64)> {
    (prop::collection::vec(1_u64..9, 0..5), any::<u64>(), prop::collection::vec(0_i64..4, 5), 0_i64..5)
        .prop_map(|(shape, seed, gaps, offset)| {
            let mut order: Vec<usize> = (0..shape.len()).collect();
            let mut seed = seed;
            for i in (1..order.len()).rev() {
                order.swap(i, (seed % (i as u64 + 1)) as usize);
                seed /= i as u64 + 1;
            }
            let mut strides = vec![0; shape.len()];
            let mut stride = 1;
            for (k, &d) in order.iter().enumerate() {
                stride += gaps[k];
                strides[d] = stride;
                stride *= shape[d] as i64;
            }
            (shape, strides, offset)
        })
}

proptest! {
    #![proptest_config(cases(80))]

    #[test]
    fn strided_to_strided((shape, strides, offset) in strided(), size in 0..7_usize, into in 0..8_usize, flip in any::<u8>()) {
        let dtype = [DType::U8, DType::U16, DType::F32, DType::F64, DType::Bf16, DType::I32, DType::F8E4M3][size];
        // What is copied, and what is converted on its way.
        let into = [DType::F32, DType::Bf16, DType::F64, DType::F8E5M2].get(into).copied().unwrap_or(dtype);
        let tensor = Tensor { shape: shape.clone(), dtype };
        // A source whose dimensions run backwards or stand still here and there.
        let mut from = vec![0; shape.len()];
        let (mut stride, mut start) = (1, 0);
        for d in (0..shape.len()).rev() {
            let n = shape[d] as i64;
            match (flip >> (2 * d)) & 3 {
                0 => from[d] = 0,
                1 => { from[d] = -stride; start += (n - 1) * stride; stride *= n }
                _ => { from[d] = stride; stride *= n }
            }
        }
        let src = memref(&shape, dtype, Some(from), start).to_layout(&tensor, &Placement::default()).unwrap();
        let placement = Placement { pad_value: Some(7.0), ..Placement::default() };
        let dst = memref(&shape, into, Some(strides), offset).to_layout(&tensor, &placement).unwrap();
        check(&src, &dst);
    }
}

#[test]
fn interleaved_strides_and_scalars() {
    for (shape, strides) in [(vec![3, 2], vec![2, 3]), (vec![4, 3], vec![3, 4]), (vec![], vec![])] {
        let tensor = Tensor { shape: shape.clone(), dtype: DType::I32 };
        let src = memref(&shape, DType::I32, None, 0).to_layout(&tensor, &Placement::default()).unwrap();
        let dst =
            memref(&shape, DType::I32, Some(strides), 1).to_layout(&tensor, &Placement::default()).unwrap();
        check(&src, &dst);
    }
}

/// Each element of a row lies in the next unit, and as much further in it as elements are long: no run of the source.
#[test]
fn a_step_to_the_next_unit_and_the_next_byte_is_no_run() {
    let tensor = Tensor { shape: vec![16, 4], dtype: DType::U8 };
    let device =
        "#tt.device<workerGrid = #tt.grid<2x4, (d0, d1) -> (0, d1, d0)>, meshShape = 1, chipIds = [0]>";
    let device = device.parse().unwrap();
    let from = "#ttcore.metal_layout<(d0, d1) -> (d0, d1 * 8), undef, <2x4>, memref<8x7xui8, #ttcore.memory_space<l1>>>";
    let placement = Placement { device: Some(&device), ..Placement::default() };
    let from = from.parse::<Descriptor>().unwrap().layout(&tensor, &placement).unwrap();
    for strides in [vec![4, 1], vec![8, 1], vec![1, 16]] {
        let to =
            memref(&[16, 4], DType::U8, Some(strides), 0).to_layout(&tensor, &Placement::default()).unwrap();
        check(&from, &to);
    }
}

/// Each of these lies in units that follow one another, each further in by as much as the run in the unit before is long: no
/// run of the destination.
#[test]
fn runs_of_the_destination_stay_in_one_unit() {
    let devices = [
        "#tt.device<workerGrid = #tt.grid<2x3, (d0, d1) -> (0, d1, d0)>, meshShape = 1, chipIds = [0]>",
        "#tt.device<workerGrid = #tt.grid<2x2x4, (d0, d1, d2) -> (d0, d2, d1)>, meshShape = 2, chipIds = [1, 0]>",
        "#tt.device<workerGrid = #tt.grid<2x8, (d0, d1) -> (0, d1, d0)>, meshShape = 1, chipIds = [0]>",
    ];
    let [rows, fills, elements] = [
        // Rows of two elements.
        "#ttcore.metal_layout<(d0, d1, d2, d3) -> (d2 * 2 + d3, d0 * 9 + d1), undef, <2x3>, \
         memref<1x7xf32, #ttcore.memory_space<l1>>>",
        // Padding of one element.
        "#ttcore.metal_layout<(d0, d1) -> (d1 * 2, 0, d0 * 8), undef, <2x2x4>, \
         memref<3x1x1x!ttcore.tile<32x32, f32>, #ttcore.memory_space<l1>>>",
        // Elements, four of which are as long as a non-temporal store.
        "#ttcore.metal_layout<(d0, d1) -> (d0, d1 * 9), undef, <2x8>, memref<8x8xf64, #ttcore.memory_space<l1>>>",
    ];
    for (shape, dtype, device, to) in [
        (vec![3, 2, 1, 2], DType::F32, devices[0], rows),
        (vec![4, 3], DType::F32, devices[1], fills),
        (vec![16, 8], DType::F64, devices[2], elements),
    ] {
        let tensor = Tensor { shape, dtype };
        let device = device.parse().unwrap();
        let placement = Placement { device: Some(&device), ..Placement::default() };
        let to = to.parse::<Descriptor>().unwrap().layout(&tensor, &placement).unwrap();
        check(&dense(&tensor), &to);
    }
}

/// Two dimensions that the source holds apart go to one row of tiles, and the third from core to core in between.
#[test]
fn tiles_whose_loops_interleave_are_packed() {
    let tensor = Tensor { shape: vec![5, 2, 2, 1], dtype: DType::F64 };
    let from = memref(&[5, 2, 2, 1], DType::F64, Some(vec![5, 2, 1, 1]), 0);
    let from = from.to_layout(&tensor, &Placement::default()).unwrap();
    let to = "#ttcore.metal_layout<(d0, d1, d2, d3) -> (d0 * 4 + d1 * 2 + d3, 0, d2), undef, <4x1x2>, \
              memref<5x1x1x!ttcore.tile<32x32, bfp_bf8>, #ttcore.memory_space<l1>>>";
    let to = to.parse::<Descriptor>().unwrap().layout(&tensor, &Placement::default()).unwrap();
    check(&from, &to);
}

/// `n` random cases, which keeps the suite below a minute; `TILEWRIGHT_CASES` multiplies them.
fn cases(n: u32) -> ProptestConfig {
    let factor = std::env::var("TILEWRIGHT_CASES").ok().and_then(|v| v.parse::<u32>().ok()).unwrap_or(1);
    ProptestConfig { cases: n * factor, failure_persistence: None, ..ProptestConfig::default() }
}

macro_rules! families {
    ($($name:ident: $family:literal,)*) => {
        proptest! {
            #![proptest_config(cases(80))]
            $(
                #[test]
                fn $name(numbers in numbers()) {
                    let family = FAMILIES.iter().position(|f| f.0 == $family).unwrap();
                    if let Some((tensor, layout)) = draw(&mut Choices::new(&numbers), family) {
                        round_trip(&tensor, &layout);
                    }
                }
            )*
        }
    };
}

families! {
    memrefs_go_there_and_back: "memref",
    metal_layouts_go_there_and_back: "metal",
    metal_constructors_go_there_and_back: "metal constructor",
    metal_layouts_of_today_go_there_and_back: "metal current",
    ttnn_tensors_go_there_and_back: "ttnn",
    spyre_layouts_go_there_and_back: "spyre",
    three_tuples_go_there_and_back: "three-tuple",
    meshes_go_there_and_back: "mesh",
}

proptest! {
    #![proptest_config(cases(200))]

    /// From one layout that steps in units and bytes at once to another, and there and back.
    #[test]
    fn skewed_layouts_go_anywhere(numbers in numbers(), other in numbers(), dtype in 0..DTYPES.len(), n in 1_u64..40) {
        let c = &mut Choices::new(&numbers);
        let tensor = Tensor { dtype: DTYPES[dtype], shape: c.shape(n) };
        let draw = |c: &mut Choices| skewed(c, &tensor).and_then(|case| laid(case, &tensor));
        let (from, to) = (draw(c), draw(&mut Choices::new(&other)));
        if let (Some(from), Some(to)) = (&from, &to) {
            let source = ramp(dense(&tensor).total_bytes() as usize);
            check_bytes(from, to, &reference(&dense(&tensor), from, &Options::default(), &source).unwrap());
        }
        for layout in [from, to].into_iter().flatten() {
            round_trip(&tensor, &layout);
        }
    }

    /// From any layout to any other of the same elements.
    #[test]
    fn any_to_any(numbers in numbers(), other in prop::collection::vec(any::<u32>(), 32), a in 0..FAMILIES.len(), b in 0..FAMILIES.len()) {
        let Some((tensor, from)) = draw(&mut Choices::new(&numbers), a) else { return Ok(()) };
        let Some(to) = lay(&mut Choices::new(&other), b, &tensor) else { return Ok(()) };
        let (host, options) = (dense(&tensor), Options::default());
        let source = ramp(host.total_bytes() as usize);
        let in_a = reference(&host, &from, &options, &source).unwrap();
        check_bytes(&from, &to, &in_a);
        let in_b = reference(&from, &to, &options, &in_a).unwrap();
        let plain = Format::Plain(tensor.dtype);
        if from.format() == plain {
            // A layout that holds the elements as they are is as good a source as the host.
            prop_assert!(reference(&host, &to, &options, &source).unwrap() == in_b);
        }
        if from.format() == plain && to.format() == plain {
            let back = Plan::compile(&to, &from, &options).unwrap();
            prop_assert!(interpret(&back, &in_b).unwrap().bytes == in_a);
        }
    }

    /// `locate` and `owner` are each other's inverse, and say what the bytes hold.
    #[test]
    fn places_have_owners(numbers in numbers(), family in 0..FAMILIES.len()) {
        let mut c = Choices::new(&numbers);
        let tensor = Tensor { dtype: c.of(&DTYPES), shape: c.shape(300) };
        let Some(layout) = lay(&mut c, family, &tensor).filter(|l| l.total_bytes() <= 20 << 10) else {
            return Ok(());
        };
        owners(&tensor, &layout);
    }
}

/// Every index of a shape, row-major.
fn indices(shape: &[u64]) -> Vec<Vec<u64>> {
    shape.iter().fold(vec![vec![]], |all, &n| {
        all.iter().flat_map(|i| (0..n).map(|k| [i.clone(), vec![k]].concat())).collect()
    })
}

fn owners(tensor: &Tensor, layout: &Layout) {
    let bits = match layout.format() {
        Format::Plain(dtype) => 8 * dtype.size() as u32,
        Format::Block(block) => block.code_bits() as u32,
        Format::TtE4M3 => 8,
        _ => 16,
    };
    // What each byte holds, by the places of all elements.
    type Bytes = BTreeMap<(u64, u64), BTreeSet<Vec<u64>>>;
    let (mut held, mut shared) = (Bytes::new(), Bytes::new());
    for index in indices(&tensor.shape) {
        let places = layout.locate(&index).unwrap();
        assert_eq!(places.len() as u64, layout.copies());
        for place in places {
            for byte in place.byte..=place.byte + u64::from(place.bit + bits - 1) / 8 {
                held.entry((place.buffer, byte)).or_default().insert(index.clone());
            }
            if let Some(byte) = place.shared {
                shared.entry((place.buffer, byte)).or_default().insert(index.clone());
            }
        }
    }
    // Bytes that no value of any element changes are padding, or zero between units.
    let host = dense(tensor);
    let options = Options::default();
    let plan = Plan::compile(&host, layout, &options).unwrap();
    let bytes = |seed: usize| {
        let source = ramp(host.total_bytes() as usize + seed).split_off(seed);
        interpret(&plan, &source).unwrap().bytes
    };
    let (one, other) = (bytes(0), bytes(1));
    for at in 0..layout.total_bytes() {
        let place = (at / layout.buffer_bytes(), at % layout.buffer_bytes());
        let set = |v: Vec<Vec<u64>>| {
            let n = v.len();
            let set: BTreeSet<_> = v.into_iter().collect();
            assert_eq!(set.len(), n);
            set
        };
        let owner = layout.owner(place.0, place.1).unwrap();
        let unused = matches!(owner, Owner::Padding | Owner::Gap);
        match owner {
            Owner::Elements(all) => assert_eq!(Some(&set(all)), held.get(&place), "{place:?}"),
            Owner::Shared(all) => assert_eq!(Some(&set(all)), shared.get(&place), "{place:?}"),
            Owner::Padding => {}
            Owner::Gap => assert_eq!(one[at as usize], 0, "{place:?}"),
        }
        if unused {
            assert!(!held.contains_key(&place) && !shared.contains_key(&place), "{place:?}");
        }
        if unused && !matches!(layout.format(), Format::Block(_)) {
            // The codes of padding in a block depend on the exponent that it shares.
            assert_eq!(one[at as usize], other[at as usize], "{place:?}");
        }
    }
}

/// A map that no product of staircases describes, so that each element is a move of its own to its tile.
#[test]
fn a_map_followed_element_by_element() {
    let tensor = Tensor { shape: vec![4, 16, 31], dtype: DType::F32 };
    let text = "#ttcore.metal_layout<(d0, d1, d2) -> (d0 floordiv 2, d0 * 16 + d1 + d2 * 65), zero, <2x4>, \
                memref<1x32x!ttcore.tile<16x16, bfp_bf4>, #ttcore.memory_space<l1>>>";
    round_trip(&tensor, &text.parse::<Descriptor>().unwrap().layout(&tensor, &Placement::default()).unwrap());
}

/// Tensors large enough to be handed out to threads, and to be written with non-temporal stores in part.
#[test]
fn large_tensors_are_split() {
    let shape = [3, 190, 513];
    let tensor = Tensor { shape: shape.to_vec(), dtype: DType::F32 };
    let host = dense(&tensor);
    let source = ramp(host.total_bytes() as usize);
    let texts = [
        "ttnn(dtype=float32, layout=TILE, pad_value=2)",
        "ttnn(dtype=bfloat16, layout=TILE, memory=INTERLEAVED, banks=7, alignment=2064)",
        "ttnn(dtype=bfloat8_b, layout=TILE, memory=ND_SHARDED, grid=(2, 3), shard=(2, 64, 96), orientation=COL_MAJOR)",
        "metal(shape=(3, 190, 513), collapse=[(0, -1)], grid=(4, 5), tile=(32, 32), dtype=bf16, oob=one, memory=l1)",
        "metal(shape=(3, 190, 513), collapse=[(0, -1)], grid=(4, 5), tile=(32, 32), dtype=bfp_bf8, oob=inf, memory=l1)",
        "SpyreTensorLayout((3, 190, 513), torch.float32, [2, 0, 1])",
        "memref<3x190x513xf64, strided<[1, 3, 571], offset: 5>>",
    ];
    for text in texts {
        let layout = text.parse::<Descriptor>().unwrap().layout(&tensor, &Placement::default()).unwrap();
        check_bytes(&host, &layout, &source);
        let there = reference(&host, &layout, &Options::default(), &source).unwrap();
        check_bytes(&layout, &host, &there);
    }
}

/// Tiles of a block format go to other places of the same format, and of block floats of another width: as packing makes them, so that they
/// can be copied or made of their codes, and some of them changed, so that they have to be packed again.
#[test]
fn tiles_go_to_tiles_of_their_family() {
    let shape = [2, 70, 170];
    let tensor = Tensor { shape: shape.to_vec(), dtype: DType::F32 };
    let host = dense(&tensor);
    // Sums of numbers that are spread evenly, as weights are about normal.
    let numbers = ramp(16 * host.total_bytes() as usize);
    let sum = |bytes: &[u8]| bytes.iter().map(|&byte| f32::from(byte) - 127.5).sum::<f32>() / 300.0;
    let source: Vec<u8> = numbers.chunks_exact(64).flat_map(|bytes| sum(bytes).to_le_bytes()).collect();
    let places = |format: &str, metal: &str| {
        [
            format!("ttnn(dtype={format}, layout=TILE)"),
            format!("ttnn(dtype={format}, layout=TILE, memory=INTERLEAVED, banks=5, alignment=64)"),
            format!("ttnn(dtype={format}, layout=TILE, memory=ND_SHARDED, grid=(2, 3), shard=(1, 64, 96))"),
            format!(
                "metal(shape=(2, 70, 170), collapse=[(0, -1)], grid=(3, 2), tile=(32, 32), dtype={metal}, oob=zero, memory=l1)"
            ),
            format!("ttnn(dtype={format}, layout=TILE, tile=(16, 32))"),
            format!("memref<2x70x170x{format}>"),
        ]
    };
    let layout = |text: &str| text.parse::<Descriptor>()?.layout(&tensor, &Placement::default());
    let mut pairs = 0;
    let layouts = |(format, metal): (&str, &str)| {
        let layouts: Vec<Layout> =
            places(format, metal).iter().filter_map(|text| layout(text).ok()).collect();
        assert!(layouts.len() >= 4, "{format}");
        layouts
    };
    let (bfp8, bfp4, mxfp4) = (("bfloat8_b", "bfp_bf8"), ("bfloat4_b", "bfp_bf4"), ("mxfp4", "mxfp4"));
    for (from, to) in [(bfp8, bfp8), (bfp8, bfp4), (bfp4, bfp8), (mxfp4, mxfp4)] {
        let to = layouts(to);
        for from in &layouts(from) {
            let mut packed = reference(&host, from, &Options::default(), &source).unwrap();
            for to in &to {
                check_bytes(from, to, &packed);
                pairs += 1;
            }
            let changed = ramp(packed.len());
            packed.iter_mut().zip(&changed).skip(1500).step_by(5000).for_each(|(byte, other)| *byte ^= other);
            to.iter().step_by(2).for_each(|to| drop(check_bytes(from, to, &packed)));
        }
    }
    assert!(pairs > 100, "{pairs}");
}

/// Tiles in banks are unpacked and packed some at a time: more in a row than are brought together, the last ones padded.
#[test]
fn tiles_in_banks_go_several_together() {
    let tensor = Tensor { shape: vec![40, 1100], dtype: DType::F32 };
    let layout =
        |text: &str| text.parse::<Descriptor>().unwrap().layout(&tensor, &Placement::default()).unwrap();
    let host = dense(&tensor);
    let source = ramp(host.total_bytes() as usize);
    let banks = |format: &str, more: &str| {
        format!("ttnn(dtype={format}, layout=TILE, memory=INTERLEAVED, alignment=64, {more})")
    };
    let sources = [
        banks("bfloat8_b", "banks=12"),
        banks("bfloat4_b", "banks=3, bank_order=[2, 0, 1]"),
        banks("bfloat16", "banks=5"),
        banks("float32", "banks=2"),
    ];
    let destinations = [
        "memref<40x1100xf32>",
        "memref<40x1100xbf16, strided<[1104, 1]>>",
        "memref<40x1100xf64>",
        "memref<40x1100xbf16, strided<[1, 40]>>",
        "ttnn(dtype=bfloat16, layout=TILE)",
        "ttnn(dtype=bfloat16, layout=ROW_MAJOR, memory=INTERLEAVED, banks=7, alignment=64)",
        "SpyreTensorLayout((40, 1100), torch.float16)",
        "ttnn(dtype=bfloat8_b, layout=TILE)",
        "ttnn(dtype=bfloat4_b, layout=TILE, memory=INTERLEAVED, banks=4, alignment=64)",
        "ttnn(dtype=mxfp8_e4m3, layout=TILE)",
    ];
    for from in sources {
        let from = layout(&from);
        let tiles = reference(&host, &from, &Options::default(), &source).unwrap();
        for to in destinations {
            check_bytes(&from, &layout(to), &tiles);
        }
    }
}

/// What is transposed, converted or cast is made several tiles in banks, or several short pages, at a time.
#[test]
fn several_units_are_made_together() {
    for dtype in [DType::F32, DType::Bf16, DType::F64, DType::U8, DType::I32] {
        let tensor = Tensor { shape: vec![100, 640], dtype };
        let layout =
            |text: &str| text.parse::<Descriptor>().unwrap().layout(&tensor, &Placement::default()).unwrap();
        let host = dense(&tensor);
        let source = ramp(host.total_bytes() as usize);
        let name = dtype.mlir_name();
        let views = [
            format!("memref<100x640x{name}>"),
            format!("memref<100x640x{name}, strided<[1, 100]>>"),
            format!("memref<100x640x{name}, strided<[640, -1], offset: 639>>"),
        ];
        let units =
            ["dtype=bfloat16, layout=TILE", "dtype=float32, layout=TILE", "dtype=bfloat16, layout=ROW_MAJOR"];
        for to in units.map(|unit| format!("ttnn({unit}, memory=INTERLEAVED, banks=12, alignment=64)")) {
            let to = layout(&to);
            for from in &views {
                check_bytes(&layout(from), &to, &source);
            }
        }
    }
}

/// Every schedule that nests can have, each at the smallest size that takes it.
#[test]
fn every_schedule() {
    for (shape, dtype, from, to) in [
        // Rows of faces and sticks, as the source lies and as the destination does; onto units.
        ("256,4096", DType::Bf16, "", "ttnn(dtype=bfloat16, layout=TILE)"),
        ("64,4096", DType::Bf16, "ttnn(dtype=bfloat16, layout=TILE)", ""),
        ("96,1024", DType::F32, "", "ttnn(dtype=float32, layout=TILE)"),
        ("96,1024", DType::F32, "ttnn(dtype=float32, layout=TILE)", ""),
        (
            "4,40,512",
            DType::F16,
            "",
            "SpyreTensorLayout(device_size=[40, 8, 4, 64], dim_map=[1, 2, 0, 2], device_dtype=DataFormats.IEEE_FP16)",
        ),
        (
            "4,40,512",
            DType::F16,
            "SpyreTensorLayout(device_size=[40, 8, 4, 64], dim_map=[1, 2, 0, 2], device_dtype=DataFormats.IEEE_FP16)",
            "",
        ),
        (
            "128,256",
            DType::Bf16,
            "",
            "metal(shape=(128, 256), collapse=[], grid=(2, 2), tile=(32, 32), dtype=bf16, oob=undef, memory=l1)",
        ),
        // Long runs that are no whole pieces, next to each other on one side.
        ("5,1089", DType::F64, "memref<5x1089xf64, strided<[1120, 1]>>", ""),
        ("5,1089", DType::F64, "", "memref<5x1089xf64, strided<[1120, 1]>>"),
        // Transposes, whole and ragged.
        ("600,96", DType::Bf16, "", "memref<600x96xbf16, strided<[1, 600]>>"),
        ("601,97", DType::Bf16, "", "memref<601x97xbf16, strided<[1, 601]>>"),
        ("300,50", DType::F32, "", "memref<300x50xf32, strided<[1, 300]>>"),
        // Ragged ones that end less than a line behind the last whole block, and that begin inside of a line.
        ("240,70", DType::Bf16, "", "memref<240x70xbf16, strided<[1, 240]>>"),
        ("451,70", DType::Bf16, "", "memref<451x70xbf16, strided<[1, 451], offset: 3>>"),
        ("999,70", DType::U8, "", "memref<999x70xui8, strided<[1, 999], offset: 63>>"),
        ("121,70", DType::F64, "", "memref<121x70xf64, strided<[1, 121], offset: 1>>"),
        // Conversions, packing and unpacking.
        ("96,512", DType::F32, "", "ttnn(dtype=bfloat16, layout=TILE)"),
        ("96,512", DType::F32, "", "ttnn(dtype=bfloat8_b, layout=TILE)"),
        ("96,512", DType::F32, "ttnn(dtype=bfloat8_b, layout=TILE)", ""),
        ("70,500", DType::F32, "ttnn(dtype=bfloat4_b, layout=TILE)", ""),
        // What no kernel reads or writes as it lies: brought together in L1, then converted, packed or put apart.
        ("96,160", DType::F32, "memref<96x160xf32, strided<[1, 96]>>", "ttnn(dtype=bfloat16, layout=TILE)"),
        ("90,150", DType::Bf16, "memref<90x150xbf16, strided<[1, 91]>>", "ttnn(dtype=float32, layout=TILE)"),
        ("90,150", DType::F32, "memref<90x150xf32, strided<[301, 2]>>", "ttnn(dtype=bfloat16, layout=TILE)"),
        ("96,160", DType::F64, "memref<96x160xf64, strided<[1, 96]>>", "memref<96x160xbf16>"),
        ("96,160", DType::F64, "", "ttnn(dtype=bfloat8_b, layout=TILE)"),
        ("96,160", DType::F32, "memref<96x160xf32, strided<[1, 96]>>", "ttnn(dtype=bfloat8_b, layout=TILE)"),
        ("90,150", DType::Bf16, "memref<90x150xbf16, strided<[1, 90]>>", "ttnn(dtype=mxfp4, layout=TILE)"),
        (
            "96,160",
            DType::F16,
            "memref<96x160xf16, strided<[1, 96]>>",
            "SpyreTensorLayout((96, 160), torch.float16)",
        ),
        ("96,160", DType::F32, "ttnn(dtype=bfloat8_b, layout=TILE)", "memref<96x160xf32, strided<[1, 96]>>"),
        ("90,150", DType::F32, "ttnn(dtype=bfloat8_b, layout=TILE)", "memref<90x150xbf16, strided<[1, 90]>>"),
        (
            "90,150",
            DType::F32,
            "ttnn(dtype=bfloat8_b, layout=TILE)",
            "SpyreTensorLayout((90, 150), torch.float16)",
        ),
        ("90,150", DType::F32, "ttnn(dtype=bfloat8_b, layout=TILE)", "memref<90x150xmxfp8_e4m3>"),
        ("90,150", DType::F32, "memref<90x150xmxfp6_e3m2>", "ttnn(dtype=bfloat4_b, layout=TILE)"),
        ("90,150", DType::F32, "memref<90x150xmxfp6_e2m3>", "memref<90x150xf64>"),
        ("90,150", DType::F32, "memref<90x150xmxfp8_e5m2>", "memref<90x150xf32, strided<[1, 90]>>"),
        ("90,1500", DType::F32, "", "memref<90x1500xmxfp6_e3m2>"),
        ("90,150", DType::F32, "memref<90x150xf32, strided<[1, 90]>>", "memref<90x150xmxfp4>"),
        ("90,150", DType::F64, "", "memref<90x150xmxint8>"),
        ("90,150", DType::I32, "memref<90x150xi32, strided<[1, 90]>>", "ttnn(dtype=bfloat16, layout=TILE)"),
    ] {
        let shape: Vec<u64> = shape.split(',').map(|n| n.parse().unwrap()).collect();
        let tensor = Tensor { shape, dtype };
        let lay = |text: &str| match text {
            "" => dense(&tensor),
            text => text.parse::<Descriptor>().unwrap().layout(&tensor, &Placement::default()).unwrap(),
        };
        let (from, to) = (lay(from), lay(to));
        let source = reference(
            &dense(&tensor),
            &from,
            &Options::default(),
            &ramp(dense(&tensor).total_bytes() as usize),
        );
        check_bytes(&from, &to, &source.unwrap());
    }
}

/// An executor that says how many threads it has, and runs tasks as it likes.
struct Odd {
    threads: usize,
    run: fn(usize, &(dyn Fn(usize) + Sync)),
}

impl Executor for Odd {
    fn threads(&self) -> usize {
        self.threads
    }

    fn run(&self, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
        (self.run)(tasks, task);
    }
}

/// A plan large enough for several tasks, and its source.
fn several_tasks() -> (Plan, Vec<u8>) {
    let tensor = Tensor { shape: vec![1024, 1024], dtype: DType::U8 };
    let to = memref(&tensor.shape, DType::U8, Some(vec![1, 1024]), 0);
    let to = to.to_layout(&tensor, &Placement::default()).unwrap();
    let plan = Plan::compile(&dense(&tensor), &to, &Options::default()).unwrap();
    let source = ramp(plan.source_bytes());
    (plan, source)
}

/// Threads that take their tasks from the last one on, and how many tasks they were given.
struct Backwards {
    threads: usize,
    tasks: AtomicUsize,
}

impl Executor for Backwards {
    fn threads(&self) -> usize {
        self.threads
    }

    fn run(&self, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
        self.tasks.store(tasks, Ordering::Relaxed);
        (0..tasks).rev().for_each(task);
    }
}

/// What comes from all over the source into pages that are dealt to buffers is made by several tasks, each with pages that
/// follow one another, in a range of each buffer.
#[test]
fn pages_are_dealt_to_tasks() {
    let pages = |dtype: &str, more: &str| {
        format!("ttnn(dtype={dtype}, layout=ROW_MAJOR, memory=INTERLEAVED, {more})")
    };
    let columns = "memref<250x96xf32, strided<[1, 250]>>";
    let copies = Some("ReplicateTensorToMesh(mesh_shape=(1, 3))");
    let mut tuning = builtin::ZEN4;
    (tuning.threads_from, tuning.task) = (0, 4096);
    for (from, to, mesh) in [
        (columns, pages("float32", "banks=12, alignment=64"), None),
        (columns, pages("bfloat16", "banks=7, alignment=320"), None),
        (columns, pages("float32", "banks=2, alignment=32"), copies),
        ("ttnn(dtype=bfloat8_b, layout=TILE)", pages("float32", "banks=8, alignment=64"), None),
        // More buffers than tasks, and fewer pages in each.
        (columns, pages("float32", "banks=100, alignment=64"), None),
    ] {
        let tensor = Tensor { shape: vec![250, 96], dtype: DType::F32 };
        let lay = |text: &str, mesh: Option<&str>| {
            let mesh = mesh.map(|mesh| mesh.parse().unwrap());
            let placement = Placement { mesh: mesh.as_ref(), ..Placement::default() };
            text.parse::<Descriptor>().unwrap().layout(&tensor, &placement).unwrap()
        };
        let (src, dst) = (lay(from, None), lay(&to, mesh));
        for (store, isa) in [(Store::Cached, Isa::Scalar), (Store::Streamed, Isa::best())] {
            let options = Options::default().with_store(store).with_isa(isa);
            let plan = Plan::compile_with(&src, &dst, &options, &tuning).unwrap();
            let source = ramp(plan.source_bytes());
            let expect = reference(&src, &dst, &options, &source).unwrap();
            for threads in [2, 3, 7, 1000] {
                let executor = Backwards { threads, tasks: AtomicUsize::new(0) };
                let mut out = vec![0xEE; plan.destination_bytes()];
                plan.execute_on(&executor, &source, &mut out).unwrap();
                assert!(out == expect, "{from} to {to} by {threads} threads");
                assert!(executor.tasks.into_inner() > 1, "{from} to {to} by {threads} threads");
            }
        }
    }
}

#[test]
fn any_number_of_threads_may_be_claimed() {
    let (plan, source) = several_tasks();
    let expect = interpret(&plan, &source).unwrap().bytes;
    for threads in [2, 1 << 20, 1 << 62, usize::MAX] {
        let mut out = vec![0; expect.len()];
        let executor = Odd { threads, run: |tasks, task| (0..tasks).for_each(task) };
        plan.execute_on(&executor, &source, &mut out).unwrap();
        assert!(out == expect, "{threads} threads");
    }
}

#[test]
fn memory_is_handed_out_only_if_every_task_has_ended() {
    let (plan, source) = several_tasks();
    let skips: fn(usize, &(dyn Fn(usize) + Sync)) = |tasks, task| (1..tasks).for_each(task);
    let twice: fn(usize, &(dyn Fn(usize) + Sync)) = |tasks, task| {
        (0..tasks).for_each(task);
        (0..tasks + 5).for_each(task);
    };
    for (run, complete) in [(skips, false), (twice, true)] {
        let mut out = vec![std::mem::MaybeUninit::uninit(); plan.destination_bytes()];
        let result = plan.execute_uninit_on(&Odd { threads: 4, run }, &source, &mut out);
        assert_eq!(result.is_ok(), complete);
    }
}

/// A source of one byte, which every element of a vast tensor is read from.
#[test]
fn what_is_too_large_to_go_element_by_element_is_refused() {
    let tensor = Tensor { shape: vec![1 << 50], dtype: DType::U8 };
    let src = memref(&tensor.shape, DType::U8, Some(vec![0]), 0);
    let src = src.to_layout(&tensor, &Placement::default()).unwrap();
    let dst = dense(&tensor);
    let error = reference(&src, &dst, &Options::default(), &[7]).unwrap_err();
    assert!(error.to_string().contains("1125899906842624 bytes"), "{error}");
    let plan = Plan::compile(&src, &dst, &Options::default()).unwrap();
    assert!(interpret(&plan, &[7]).is_err());
    // A chunk of it can be had.
    let mut out = [0; 16];
    plan.execute_chunk(&[7], 1 << 40..(1 << 40) + 16, &mut out).unwrap();
    assert_eq!(out, [7; 16]);
}
