//! The same bytes everywhere: one hash over a thousand conversions, whatever the level, the thread count, the chunks, the
//! stores, the build and the machine.
//!
//! The conversions come from a generator of whole numbers, so that every machine draws the same ones, and their sources are
//! any bytes at all: every NaN, infinity and shared exponent among them. Two constants are compared. `CASES` is the hash of
//! what is converted; it changes with the generator, and then both are set anew. `BYTES` is the hash of the results. Where
//! only `BYTES` differs, bytes have changed.

mod families;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use families::{Choices, FAMILIES, dense};
use kernels::Isa;
use sha2::{Digest, Sha256};
use tilewright::dtype::BlockFormat;
use tilewright::family::Tensor;
use tilewright::plan::{Decoding, Rounding, Sen169, Store};
use tilewright::run::{Pool, reference};
use tilewright::{DType, Format, Layout, Options, Plan};

/// Conversions that are hashed.
const CONVERSIONS: usize = 1000;

/// What is converted: texts, shapes, types and options.
const CASES: &str = "d5523d209fc90c6f4c0f82ea7bc7670c4935c2dae1aacb5f432fe6f9004dccc4";

/// The results, one after another.
const BYTES: &str = "250f1536d3935da3f4b6365c20986135e91eecce75c789d69619805bf4db6d49";

/// Every this many conversions one is large enough to be handed out to threads.
const LARGE: usize = 50;

/// Every this many conversions one is from or to a block float, of which there are many.
const BLOCKS: usize = 4;

/// A destination of more bytes than this is cut into tasks, where there are threads.
const SPLIT: u64 = 256 << 10;

/// splitmix64: a multiplication, shifts and sums of 64 bits, which are the same on every machine.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ mixed >> 31
    }

    fn numbers(&mut self, count: usize) -> Vec<u32> {
        (0..count).map(|_| (self.next() >> 32) as u32).collect()
    }

    fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count.div_ceil(8)).flat_map(|_| self.next().to_le_bytes()).take(count).collect()
    }
}

/// One conversion, and how it is called.
struct Case {
    name: String,
    families: [&'static str; 2],
    from: Layout,
    to: Layout,
    options: Options,
    source: Vec<u8>,
}

/// The element types of tensors; those of one byte have few families.
const DTYPES: [DType; 12] = [
    DType::F32,
    DType::Bf16,
    DType::F16,
    DType::F32,
    DType::Bf16,
    DType::I32,
    DType::U16,
    DType::U8,
    DType::F64,
    DType::I64,
    DType::F8E4M3,
    DType::U32,
];

fn options(c: &mut Choices) -> Options {
    let rounding = c.of(&[Rounding::Host, Rounding::Device, Rounding::DeviceOp, Rounding::Truncate]);
    Options::default()
        .with_rounding(rounding)
        .with_search(c.below(4) == 3)
        .with_compat_unpack(c.of(&[Decoding::Exact, Decoding::Host, Decoding::Device]))
        .with_sen169(c.of(&[Sen169::Nearest, Sen169::Deeptools]))
        .with_saturate(true)
}

/// The next conversion that the generator comes to, if it is one of those that are wanted now: `large` ones are cut into
/// tasks, and of `blocks` one side at least is a block float.
fn draw(random: &mut Random, large: bool, blocks: bool) -> Option<Case> {
    // The host's own layout is one of the families: most conversions begin or end there.
    let families = [random.next(), random.next()].map(|n| (n % (FAMILIES.len() as u64 + 2)) as usize);
    let numbers = random.numbers(64);
    let mut c = Choices::new(&numbers);
    let mut tensor = Tensor { dtype: c.of(&DTYPES), shape: c.shape(2500) };
    if large {
        tensor.shape = vec![c.of(&[2, 3]), c.of(&[160, 161, 190]), c.of(&[512, 513, 544])];
    }
    let options = options(&mut c);
    let mut name = format!("{:?} {} {options:?}", tensor.shape, tensor.dtype);
    let mut lay = |c: &mut Choices, family: usize| {
        let Some((_, draw)) = FAMILIES.get(family) else {
            name += " dense";
            return Some(dense(&tensor));
        };
        let case = draw(c, &tensor)?;
        name += &format!(" {} {:?} {:?}", case.descriptor, case.device, case.mapper);
        case.layout(&tensor).ok()
    };
    let (from, to) = (lay(&mut c, families[0])?, lay(&mut c, families[1])?);
    let is_block = |layout: &Layout| matches!(layout.format(), Format::Block(_));
    if blocks && !is_block(&from) && !is_block(&to) {
        return None;
    }
    let sizes = if large { SPLIT + 1..=4 << 20 } else { 0..=48 << 10 };
    if !sizes.contains(&to.total_bytes()) || from.total_bytes() > *sizes.end() {
        return None;
    }
    Plan::compile(&from, &to, &options).ok()?;
    let source = random.bytes(from.total_bytes() as usize);
    let families = families.map(|f| FAMILIES.get(f).map_or("dense", |family| family.0));
    Some(Case { name, families, from, to, options, source })
}

static POOL: LazyLock<Pool> = LazyLock::new(|| Pool::new(3).unwrap());

/// The bytes of conversion `k` in every way that it can run, and the name of each way. Stores alternate, from one level
/// to the next and from one conversion to the next.
fn ways(case: &Case, k: usize) -> impl Iterator<Item = (String, Vec<u8>)> {
    Isa::available().enumerate().flat_map(move |(level, isa)| {
        let store = [Store::Cached, Store::Streamed][(k + level) % 2];
        let options = case.options.with_isa(isa).with_store(store);
        let plan = Plan::compile(&case.from, &case.to, &options).unwrap();
        let run = |work: &dyn Fn(&mut [u8])| {
            let mut out = vec![0xA5; plan.destination_bytes()];
            work(&mut out);
            out
        };
        let chunks = |pieces: usize| {
            let unit = plan.chunk_alignment().max(1);
            let size = (plan.destination_bytes() / pieces).div_ceil(unit).max(1) * unit;
            run(&|out| {
                for (k, chunk) in out.chunks_mut(size).enumerate() {
                    let at = k * size;
                    plan.execute_chunk(&case.source, at..at + chunk.len(), chunk).unwrap();
                }
            })
        };
        let name = |how: &str| format!("{} {store:?} {how}", isa.name());
        [
            (name("whole"), run(&|out| plan.execute(&case.source, out).unwrap())),
            (name("3 threads"), run(&|out| plan.execute_on(&*POOL, &case.source, out).unwrap())),
            (name("2 chunks"), chunks(2)),
            (name("13 chunks"), chunks(13)),
        ]
    })
}

fn hex(hash: Sha256) -> String {
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn one_hash() {
    let mut random = Random(0x7469_6C65);
    let (mut cases, mut bytes) = (Sha256::new(), Sha256::new());
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut runs = 0;
    for k in 0..CONVERSIONS {
        let (large, blocks) = (k % LARGE == LARGE - 1, k % BLOCKS == 0);
        let case = std::iter::repeat_with(|| draw(&mut random, large, blocks)).flatten().next().unwrap();
        let mut first: Option<Vec<u8>> = None;
        for (way, out) in ways(&case, k) {
            runs += 1;
            let first = first.get_or_insert_with(|| out.clone());
            assert!(*first == out, "{way} gives other bytes than the first way: {}", case.name);
        }
        let out = first.unwrap();
        if out.len() < 16 << 10 {
            let expect = reference(&case.from, &case.to, &case.options, &case.source).unwrap();
            assert!(out == expect, "not the bytes of the reference: {}", case.name);
        }
        cases.update(&case.name);
        bytes.update(&out);
        let formats = [case.from.format(), case.to.format()].map(|format| format.to_string());
        for what in case.families.map(String::from).into_iter().chain(formats) {
            *seen.entry(what).or_default() += 1;
        }
    }
    let families = FAMILIES.iter().map(|f| f.0).chain(["dense"]);
    for what in families.chain(BlockFormat::ALL.into_iter().map(BlockFormat::name)) {
        assert!(seen.contains_key(what), "no conversion of {what}: {seen:?}");
    }
    let (cases, bytes) = (hex(cases), hex(bytes));
    println!("{CONVERSIONS} conversions, {runs} runs: cases {cases}, bytes {bytes}\n{seen:?}");
    assert_eq!(cases, CASES, "the generator draws other conversions: set both constants anew");
    assert_eq!(bytes, BYTES, "the same conversions give other bytes");
    let document = include_str!("../TESTING.md");
    assert!(document.contains(BYTES), "TESTING.md names another hash");
}
