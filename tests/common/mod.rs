//! What several test files share.

use kernels::Isa;
use tilewright::plan::Store;
use tilewright::run::{Pool, interpret, reference};
use tilewright::{Layout, Options, Plan};

/// Bytes that do not repeat within any buffer of these tests.
pub(crate) fn ramp(len: usize) -> Vec<u8> {
    let mut x = 0x9E37_79B9_7F4A_7C15_u64;
    (0..len)
        .map(|i| {
            x = x.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(i as u64 | 1);
            (x >> 56) as u8
        })
        .collect()
}

/// Checks one conversion of a ramp in every way there is.
pub(crate) fn check(src: &Layout, dst: &Layout) {
    check_bytes(src, dst, &ramp(src.total_bytes() as usize));
}

/// Checks one conversion in every way there is: the interpreter writes each byte once, and reference,
/// interpreter, executor (every table, one and three threads) and chunks give the same bytes.
pub(crate) fn check_bytes(src: &Layout, dst: &Layout, source: &[u8]) {
    let options = Options::default();
    let expect = reference(src, dst, &options, source).unwrap();
    let plan = Plan::compile(src, dst, &options).unwrap();
    let seen = interpret(&plan, source).unwrap();
    assert!(seen.writes.iter().all(|&w| w == 1), "some byte is not written once\n{plan}");
    assert!(seen.bytes == expect, "interpreter differs at {:?}\n{plan}", differs(&seen.bytes, &expect));
    let pool = Pool::new(3).unwrap();
    let stores = [Store::Cached, Store::Streamed];
    for (isa, store) in Isa::available().flat_map(|isa| stores.map(|store| (isa, store))) {
        let plan = Plan::compile(src, dst, &options.with_isa(isa).with_store(store)).unwrap();
        let mut out = vec![0xA5; expect.len()];
        plan.execute(source, &mut out).unwrap();
        assert!(out == expect, "{isa:?} differs at {:?}\n{plan}", differs(&out, &expect));
        let mut out = vec![std::mem::MaybeUninit::new(0x5A); expect.len()];
        let out = plan.execute_uninit_on(&pool, source, &mut out).unwrap();
        assert!(out == expect, "{isa:?} on threads differs at {:?}\n{plan}", differs(out, &expect));
    }
    for pieces in [2, 7] {
        let chunk_alignment = plan.chunk_alignment().max(1);
        let size = (expect.len() / pieces).div_ceil(chunk_alignment).max(1) * chunk_alignment;
        let mut out = vec![0xC3; expect.len()];
        for (k, chunk) in out.chunks_mut(size).enumerate() {
            plan.execute_chunk(source, k * size..k * size + chunk.len(), chunk).unwrap();
        }
        assert!(out == expect, "{pieces} chunks differ at {:?}\n{plan}", differs(&out, &expect));
    }
}

fn differs(a: &[u8], b: &[u8]) -> Option<usize> {
    a.iter().zip(b).position(|(a, b)| a != b)
}
