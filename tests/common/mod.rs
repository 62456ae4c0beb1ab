//! What several test files share.

pub(crate) mod guarded;

use std::mem::MaybeUninit;
use std::sync::LazyLock;

use guarded::{Flush, Guarded};
use kernels::Isa;
use tilewright::plan::Store;
use tilewright::run::{Pool, interpret, reference};
use tilewright::{Layout, Options, Plan};

/// Three threads, which all conversions of a test share.
static POOL: LazyLock<Pool> = LazyLock::new(|| Pool::new(3).unwrap());

/// Bytes that do not repeat within any buffer of these tests.
#[allow(dead_code)]
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
#[allow(dead_code)]
pub(crate) fn check(src: &Layout, dst: &Layout) {
    check_bytes(src, dst, &ramp(src.total_bytes() as usize));
}

/// Checks one conversion in every way there is, and gives its bytes: the interpreter writes each byte once, and
/// reference, interpreter, executor (every table, one and three threads) and chunks give the same bytes, over two
/// patterns. Every buffer of the executor lies between guard pages, now flush with the one and now with the other.
pub(crate) fn check_bytes(src: &Layout, dst: &Layout, source: &[u8]) -> Vec<u8> {
    let options = Options::default();
    let expect = reference(src, dst, &options, source).unwrap();
    let plan = Plan::compile(src, dst, &options).unwrap();
    let seen = interpret(&plan, source).unwrap();
    assert!(seen.writes.iter().all(|&w| w == 1), "some byte is not written once\n{plan}");
    assert!(seen.bytes == expect, "interpreter differs at {:?}\n{plan}", differs(&seen.bytes, &expect));
    let sources = [Flush::Front, Flush::Back].map(|flush| Guarded::of(source, flush));
    let mut out = Guarded::filled(expect.len(), 0, Flush::Back);
    let mut uninit = Guarded::filled(expect.len(), 0, Flush::Front);
    let stores = [Store::Cached, Store::Streamed];
    for (isa, store) in Isa::available().flat_map(|isa| stores.map(|store| (isa, store))) {
        let plan = Plan::compile(src, dst, &options.with_isa(isa).with_store(store)).unwrap();
        out.fill(0xA5);
        plan.execute(&sources[0], &mut out).unwrap();
        assert!(*out == expect, "{isa:?} differs at {:?}\n{plan}", differs(&out, &expect));
        uninit.fill(0x5A);
        let out = plan.execute_uninit_on(&*POOL, &sources[1], uninitialised(&mut uninit)).unwrap();
        assert!(out == expect, "{isa:?} on threads differs at {:?}\n{plan}", differs(out, &expect));
    }
    for (pieces, flush) in [(2, Flush::Front), (7, Flush::Back)] {
        check_chunks(&plan, source, &expect, pieces, flush);
    }
    expect
}

/// Produces a destination in about so many chunks, each from the whole source and from its window of it.
fn check_chunks(plan: &Plan, source: &[u8], expect: &[u8], pieces: usize, flush: Flush) {
    let chunk_alignment = plan.chunk_alignment().max(1);
    let size = (expect.len() / pieces).div_ceil(chunk_alignment).max(1) * chunk_alignment;
    for (k, expect) in expect.chunks(size).enumerate() {
        let range = k * size..k * size + expect.len();
        let mut out = Guarded::filled(expect.len(), 0xC3, flush);
        plan.execute_chunk(source, range.clone(), &mut out).unwrap();
        assert!(*out == *expect, "chunk {range:?} differs at {:?}\n{plan}", differs(&out, expect));
        let needed = plan.source_window(range.clone()).unwrap();
        let window = Guarded::of(&source[needed.clone()], flush.other());
        out.fill(0x3C);
        plan.execute_chunk_from_window(&window, needed.start, range.clone(), &mut out).unwrap();
        assert!(*out == *expect, "window of chunk {range:?} differs at {:?}\n{plan}", differs(&out, expect));
    }
}

/// The same bytes as memory that may not be read before it is written.
#[allow(unsafe_code)]
fn uninitialised(bytes: &mut [u8]) -> &mut [MaybeUninit<u8>] {
    // SAFETY: the same memory with the same length, into which only initialised bytes are written: the executor proves
    // that it writes every byte.
    unsafe { &mut *(std::ptr::from_mut(bytes) as *mut [MaybeUninit<u8>]) }
}

fn differs(a: &[u8], b: &[u8]) -> Option<usize> {
    a.iter().zip(b).position(|(a, b)| a != b)
}
