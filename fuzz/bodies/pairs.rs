//! Two random layouts of one tensor, of any families: the executor, at any level, whole and in chunks, gives the bytes of the
//! reference.
//!
//! An input is the list of numbers that everything is drawn from, as in the tests.

use super::families::{Choices, FAMILIES, dense};
use tilewright::plan::{Decoding, Isa, Rounding, Sen169, Store};
use tilewright::run::reference;
use tilewright::{DType, Error, Layout, Options, Plan, Tensor};

/// The most bytes of a layout that is followed element by element.
const MOST: u64 = 1 << 18;

fn options(c: &mut Choices) -> Options {
    let levels: Vec<Isa> = Isa::available().collect();
    Options::default()
        .with_isa(c.of(&levels))
        .with_store(c.of(&[Store::Cached, Store::Streamed]))
        .with_rounding(c.of(&[Rounding::Host, Rounding::Device, Rounding::DeviceOp, Rounding::Truncate]))
        .with_search(c.yes())
        .with_compat_unpack(c.of(&[Decoding::Exact, Decoding::Host, Decoding::Device]))
        .with_sen169(c.of(&[Sen169::Nearest, Sen169::Deeptools]))
        .with_saturate(true)
}

fn layout(c: &mut Choices, tensor: &Tensor) -> Option<Layout> {
    let Some((_, draw)) = FAMILIES.get(c.below(FAMILIES.len() + 1)) else { return Some(dense(tensor)) };
    let layout = draw(c, tensor)?.layout(tensor).ok()?;
    Some(layout).filter(|layout| layout.total_bytes() <= MOST)
}

fn convert(data: &[u8]) -> Option<()> {
    let numbers: Vec<u32> =
        data.chunks_exact(4).map(|n| u32::from_le_bytes([n[0], n[1], n[2], n[3]])).collect();
    let mut c = Choices::new(&numbers);
    let types: Vec<DType> = DType::all().collect();
    let tensor = Tensor { dtype: c.of(&types), shape: c.shape(2500) };
    let options = options(&mut c);
    let pieces = 1 + c.below(9);
    let (from, to) = (layout(&mut c, &tensor)?, layout(&mut c, &tensor)?);
    let plan = match Plan::compile(&from, &to, &options) {
        Ok(plan) => plan,
        Err(error @ Error::Unverified { .. }) => panic!("{error}"),
        Err(_) => return None,
    };
    let source: Vec<u8> =
        (0..from.total_bytes()).map(|i| data[i as usize % data.len()] ^ (i >> 3) as u8).collect();
    let expect = reference(&from, &to, &options, &source).unwrap();
    let mut out = vec![0xA5; expect.len()];
    plan.execute(&source, &mut out).unwrap();
    assert!(out == expect, "whole\n{plan}");
    let unit = plan.chunk_alignment().max(1);
    let size = (expect.len() / pieces).div_ceil(unit).max(1) * unit;
    for (k, expect) in expect.chunks(size).enumerate() {
        let range = k * size..k * size + expect.len();
        let needed = plan.source_window(range.clone()).unwrap();
        let window = source[needed.clone()].to_vec();
        let mut out = vec![0x5A; expect.len()];
        plan.execute_chunk_from_window(&window, needed.start, range.clone(), &mut out).unwrap();
        assert!(out == expect, "chunk {range:?}\n{plan}");
    }
    Some(())
}

/// Runs one input; panics where it finds something.
pub(crate) fn run(data: &[u8]) {
    if data.len() >= 4 {
        convert(data);
    }
}
