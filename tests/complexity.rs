//! What planning costs: memory that grows with the number of runs at a stated rate, in time that does too, on a stack of
//! 2 MiB. Tensors are large and ragged: dimensions to 10^6, thousands of cores.
//!
//! Memory is counted by an allocator of the tests' own: the most bytes that one compilation has at once.

#[allow(dead_code)]
mod counting;
#[path = "common/thread_time.rs"]
mod thread_time;

use std::time::Duration;

use counting::most_held;
use proptest::prelude::*;
use thread_time::thread_time;
use tilewright::family::host::strided::Memref;
use tilewright::{DType, Descriptor, Error, Layout, Options, Placement, Plan, Tensor};

/// The stack of a thread that compiles: what Rust gives to threads by default.
const STACK: usize = 2 << 20;

/// Bytes that a compilation may hold at once: so many, and so many for each nest of the plan. About four times what is seen.
const BYTES: (usize, usize) = (128 << 10, 12 << 10);

/// Bytes that it may hold where it is refused at a bound of ours, which is 2^18 pieces of a map.
const REFUSED: usize = 256 << 20;

/// After this much processor time a compilation counts as hanging, in an unoptimised build. It is no measure of speed.
const LIMIT: Duration = Duration::from_secs(10);

fn lay(text: &str, tensor: &Tensor) -> Option<Layout> {
    text.parse::<Descriptor>().ok()?.layout(tensor, &Placement::default()).ok()
}

/// What a compilation took.
#[derive(Debug)]
struct Cost {
    /// The nests of the plan; none where a bound of ours was in its way.
    nests: Option<usize>,
    /// The most bytes that it held at once.
    bytes: usize,
    time: Duration,
}

/// Compiles; none where the two layouts have no plan for another reason.
fn cost(from: &Layout, to: &Layout) -> Option<Cost> {
    let begin = thread_time();
    let mut plan = None;
    let bytes = most_held(|| plan = Some(Plan::compile(from, to, &Options::default())));
    let time = thread_time() - begin;
    match plan? {
        Ok(plan) => Some(Cost { nests: Some(plan.nests()), bytes, time }),
        Err(Error::TooComplex { .. }) => Some(Cost { nests: None, bytes, time }),
        Err(error @ Error::Unverified { .. }) => panic!("{error}"),
        Err(_) => None,
    }
}

/// Texts with letters for numbers.
const LAYOUTS: [&str; 9] = [
    "metal(shape=({A}, {B}, {C}), collapse=[(0, -1)], grid=({D}, {E}), tile=(32, 32), dtype=bf16, oob=undef, memory=l1)",
    "metal(shape=({A}, {B}, {C}), collapse=[(0, -1)], grid=({D}, {E}), tile=(32, 32), dtype=bfp_bf8, oob=one, memory=l1)",
    "metal(shape=({A}, {B}, {C}), collapse=[], grid=(1, {D}, {E}), dtype=bf16, oob=undef, memory=l1)",
    "ttnn(dtype=bfloat16, layout=TILE)",
    "ttnn(dtype=bfloat4_b, layout=TILE, memory=INTERLEAVED, banks={D}, alignment=64)",
    "ttnn(dtype=bfloat16, layout=ROW_MAJOR, memory=INTERLEAVED, banks={D}, alignment=64)",
    "ttnn(dtype=bfloat8_b, layout=TILE, memory=ND_SHARDED, grid=({D}, {E}), shard=(2, 64, 96), orientation=COL_MAJOR)",
    "SpyreTensorLayout(({A}, {B}, {C}), torch.bfloat16, [2, 0, 1])",
    "memref<{A}x{B}x{C}xbf16>",
];

fn fill_in(text: &str, numbers: [u64; 5]) -> String {
    let letters = ["{A}", "{B}", "{C}", "{D}", "{E}"].into_iter().zip(numbers);
    letters.fold(text.to_owned(), |text, (letter, number)| text.replace(letter, &number.to_string()))
}

fn sizes() -> impl Strategy<Value = [u64; 5]> {
    let large = prop_oneof![1_u64..100, 1_u64..5000, 1_u64..1_000_000];
    let cores = prop_oneof![1_u64..9, 1_u64..100];
    (1_u64..50, large, 1_u64..5000, cores.clone(), cores).prop_map(|(a, b, c, d, e)| [a, b, c, d, e])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, max_shrink_iters: 8, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn planning_takes_memory_by_the_number_of_nests(numbers in sizes(), a in 0..LAYOUTS.len(), b in 0..LAYOUTS.len()) {
        let tensor = Tensor::new(&numbers[..3], DType::Bf16);
        let texts = [a, b].map(|k| fill_in(LAYOUTS[k], numbers));
        let work = move || {
            let host = Descriptor::from(Memref::of(&tensor)).layout(&tensor, &Placement::default()).unwrap();
            let [from, to] = texts.each_ref().map(|text| lay(text, &tensor));
            let (from, to) = (from.as_ref().unwrap_or(&host), to.as_ref().unwrap_or(&host));
            (cost(from, to), texts)
        };
        let thread = std::thread::Builder::new().stack_size(STACK).spawn(work).unwrap();
        let (found, texts) = thread.join().unwrap();
        let Some(cost) = found else { return Ok(()) };
        if std::env::var_os("TILEWRIGHT_COSTS").is_some() {
            println!("{cost:?} {texts:?} {numbers:?}");
        }
        let most = cost.nests.map_or(REFUSED, |nests| BYTES.0 + BYTES.1 * nests);
        prop_assert!(cost.bytes <= most && cost.time < LIMIT, "{cost:?}, at most {most} bytes: {texts:?}");
    }
}

/// So that the property above is about layouts at all.
#[test]
fn the_layouts_are_layouts() {
    let numbers = [6, 640, 96, 2, 3];
    let tensor = Tensor::new(&numbers[..3], DType::Bf16);
    let made = LAYOUTS.iter().filter(|text| lay(&fill_in(text, numbers), &tensor).is_some()).count();
    assert!(made >= 8, "{made}: {:?}", LAYOUTS.map(|text| fill_in(text, numbers)));
}
