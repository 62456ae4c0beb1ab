//! No profile, however absurd, changes a byte, panics or is proved wrong; what is outside of the limits is refused.

mod families;

use families::{Choices, FAMILIES, dense, memref};
use proptest::prelude::*;
use tilewright::family::{Descriptor, Placement, Tensor};
use tilewright::plan::Store;
use tilewright::run::{Executor, interpret, reference};
use tilewright::tuning::{Tuning, builtin};
use tilewright::{DType, Error, Layout, Options, Plan};

/// Any number of bits as often as any other, and the ends of what is allowed.
fn number(c: &mut Choices, least: usize, most: usize) -> usize {
    match c.below(4) {
        0 => least,
        1 => most,
        _ => {
            let bits = c.below(usize::BITS as usize - most.leading_zeros() as usize + 1) as u32;
            let number = c.below(1 << 30) << bits.saturating_sub(30);
            (number % (1_usize << bits.min(usize::BITS - 1))).clamp(least, most)
        }
    }
}

/// A tuning inside of its limits: any one, or one that differs from a measured one in some numbers.
fn tuning(c: &mut Choices) -> Tuning {
    let mut tuning = c.of(&builtin::ALL).1;
    let all = c.yes();
    for (i, constant) in Tuning::CONSTANTS.iter().enumerate() {
        for at in 0..constant.count {
            if all || c.below(4) == 0 {
                tuning.numbers_mut(i)[at] = number(c, constant.least, constant.most);
            }
        }
    }
    tuning
}

/// Tasks one after the other, but as if there were three threads.
struct Three;

impl Executor for Three {
    fn threads(&self) -> usize {
        3
    }

    fn run(&self, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
        (0..tasks).rev().for_each(task);
    }
}

fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i.wrapping_mul(0x9E37_79B9) >> 13) as u8 & 0x3F).collect()
}

/// The conversion by any tuning gives the bytes of the reference: element by element, as a whole, by threads and in chunks.
fn same(from: &Layout, to: &Layout, store: Store, tuning: &Tuning) -> Result<(), TestCaseError> {
    let options = Options::default().with_store(store).with_saturate(true);
    let plan = match Plan::compile_with(from, to, &options, tuning) {
        Err(Error::Conversion { .. } | Error::Collision { .. } | Error::TooComplex { .. }) => return Ok(()),
        plan => plan.unwrap(),
    };
    let source = bytes(plan.source_bytes());
    let expect = reference(from, to, &options, &source).unwrap();
    prop_assert!(interpret(&plan, &source).unwrap().bytes == expect, "{tuning:?}\n{plan}");
    let mut out = vec![0xA5; expect.len()];
    plan.execute_on(&Three, &source, &mut out).unwrap();
    prop_assert!(out == expect, "{tuning:?}\n{plan}");
    let size = (expect.len() / 3).max(1).next_multiple_of(plan.chunk_alignment().max(1));
    out.fill(0x5A);
    for (k, chunk) in out.chunks_mut(size).enumerate() {
        plan.execute_chunk(&source, k * size..k * size + chunk.len(), chunk).unwrap();
    }
    prop_assert!(out == expect, "{tuning:?}\n{plan}");
    Ok(())
}

/// `n` random cases; `TILEWRIGHT_CASES` multiplies them.
fn cases(n: u32) -> ProptestConfig {
    let factor = std::env::var("TILEWRIGHT_CASES").ok().and_then(|v| v.parse::<u32>().ok()).unwrap_or(1);
    let cases = n.saturating_mul(factor);
    ProptestConfig { cases, failure_persistence: None, max_shrink_iters: 200, ..ProptestConfig::default() }
}

fn numbers(len: usize) -> impl Strategy<Value = Vec<u32>> {
    prop::collection::vec(any::<u32>(), len)
}

proptest! {
    #![proptest_config(cases(400))]

    /// Between layouts of any two families.
    #[test]
    fn no_profile_changes_a_byte(
        one in numbers(48), other in numbers(48), profile in numbers(160),
        families in (0..FAMILIES.len(), 0..FAMILIES.len()), streamed in any::<bool>(),
    ) {
        let (mut c, mut d) = (Choices::new(&one), Choices::new(&other));
        let tensor =
            Tensor { dtype: c.of(&[DType::F32, DType::Bf16, DType::U8, DType::I64]), shape: c.shape(6000) };
        let lay = |c: &mut Choices, family: usize| {
            let layout = (FAMILIES[family].1)(c, &tensor).and_then(|case| case.layout(&tensor).ok());
            layout.filter(|l| l.total_bytes() <= 200_000)
        };
        let from = match d.below(3) {
            0 => Some(dense(&tensor)),
            1 => memref(&mut d, &tensor).unwrap().layout(&tensor).ok(),
            _ => lay(&mut d, families.1),
        };
        let (Some(from), Some(to)) = (from, lay(&mut c, families.0)) else { return Ok(()) };
        let store = if streamed { Store::Streamed } else { Store::Auto };
        same(&from, &to, store, &tuning(&mut Choices::new(&profile)))?;
    }
}

proptest! {
    #![proptest_config(cases(60))]

    /// Matrices large enough for blocks of every size: transposed, tiled, packed, converted, ragged.
    #[test]
    fn no_profile_changes_a_byte_of_a_matrix(
        profile in numbers(160), rows in 1_u64..400, cols in 1_u64..160, which in any::<(u8, u8, u8)>(),
    ) {
        let dtype = [DType::F32, DType::Bf16, DType::U8, DType::F64][usize::from(which.0 % 4)];
        let tensor = Tensor { shape: vec![rows, cols], dtype };
        let of = |dtype: DType| dtype.mlir_name();
        let texts = [
            format!("memref<{rows}x{cols}x{}>", of(dtype)),
            format!("memref<{rows}x{cols}x{}, strided<[1, {rows}]>>", of(dtype)),
            format!("memref<{rows}x{cols}x{}, strided<[1, {}]>>", of(DType::Bf16), rows + 7),
            "ttnn(dtype=bfloat16, layout=TILE)".to_owned(),
            "ttnn(dtype=bfloat8_b, layout=TILE)".to_owned(),
            "ttnn(dtype=float32, layout=TILE)".to_owned(),
        ];
        let layout = |text: &str| {
            let layout = text.parse::<Descriptor>().unwrap().layout(&tensor, &Placement::default());
            layout.map_err(|e| TestCaseError::reject(e.to_string()))
        };
        // Views: backward, every second element, one column and one row.
        let (last, twice) = (cols - 1, 2 * cols);
        let views = [
            format!("memref<{rows}x{cols}x{}, strided<[{cols}, -1], offset: {last}>>", of(dtype)),
            format!("memref<{rows}x{cols}x{}, strided<[{twice}, 2]>>", of(dtype)),
            format!("memref<{rows}x{cols}x{}, strided<[1, 0]>>", of(dtype)),
            format!("memref<{rows}x{cols}x{}, strided<[0, 1]>>", of(dtype)),
        ];
        let sources: Vec<&String> = texts.iter().chain(&views).collect();
        let from = layout(sources[usize::from(which.1) % sources.len()])?;
        let to = layout(&texts[usize::from(which.2) % texts.len()])?;
        let mut c = Choices::new(&profile);
        for store in [Store::Streamed, Store::Cached] {
            same(&from, &to, store, &tuning(&mut c))?;
        }
    }
}

proptest! {
    #![proptest_config(cases(40))]

    /// Sticks of several matrices side by side, which tasks divide into bands of all of them.
    #[test]
    fn no_profile_changes_a_byte_of_sticks(
        profile in numbers(160), rows in 1_u64..200, planes in 1_u64..6, sticks in 1_u64..4, ieee in any::<bool>(),
    ) {
        let tensor = Tensor { shape: vec![planes, rows, 64 * sticks], dtype: DType::F16 };
        let format = if ieee { "IEEE_FP16" } else { "SEN169_FP16" };
        let from = format!(
            "SpyreTensorLayout(device_size=[{rows}, {sticks}, {planes}, 64], dim_map=[1, 2, 0, 2], \
             device_dtype=DataFormats.{format})"
        );
        let layout = |text: &str| {
            text.parse::<Descriptor>().unwrap().layout(&tensor, &Placement::default()).unwrap()
        };
        let (from, to) = (layout(&from), layout(&format!("memref<{planes}x{rows}x{}xf16>", 64 * sticks)));
        let tuning = tuning(&mut Choices::new(&profile));
        let mut handed_over = tuning;
        (handed_over.threads_from, handed_over.task, handed_over.bands_fetched) = (0, 4096, 256);
        let mut in_order = handed_over;
        in_order.blocks_fetched = 256;
        for tuning in [tuning, handed_over, in_order] {
            same(&from, &to, Store::Streamed, &tuning)?;
        }
    }
}

#[test]
fn what_is_outside_of_the_limits_is_refused() {
    let tensor = Tensor { shape: vec![64, 64], dtype: DType::F32 };
    let layout = dense(&tensor);
    let compile = |tuning: &Tuning| Plan::compile_with(&layout, &layout, &Options::default(), tuning);
    for (i, constant) in Tuning::CONSTANTS.iter().enumerate() {
        for wrong in [0, usize::MAX] {
            let mut tuning = builtin::ZEN4;
            tuning.numbers_mut(i)[constant.count - 1] = wrong;
            if (constant.least..=constant.most).contains(&wrong) {
                compile(&tuning).unwrap();
                continue;
            }
            let message = compile(&tuning).unwrap_err().to_string();
            let expected = format!("tuning `{}`: given {wrong}, needed a whole number from", constant.name);
            assert!(message.starts_with(&expected), "{message}");
        }
    }
    assert_eq!(compile(&builtin::ZEN4).unwrap().tuning(), &builtin::ZEN4);
}
