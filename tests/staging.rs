//! Staging: what arrives is what plans produce, whatever the sink does, and every end is a clean one.

mod families;

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use families::{Choices, FAMILIES, dense};
use proptest::prelude::*;
use tilewright::family::{Descriptor, Placement, Tensor};
use tilewright::run::{Executor, Inline, Pool};
use tilewright::stage::{
    Background, Blocking, Cancel, Clock, Consumer, Fetcher, FilePlace, FileReader, FileWriter, Heap, Link,
    Memory, Order, ReadAt, Report, Settings, Side, Slot, SlotMemory, Source, Stager, Transfer, VirtualClock,
    outbox,
};
use tilewright::{DType, Error, Options, Plan, Result};

fn plan(shape: &[u64], dtype: DType, from: &str, to: &str) -> Plan {
    let tensor = Tensor { shape: shape.to_vec(), dtype };
    let layout =
        |text: &str| text.parse::<Descriptor>().unwrap().layout(&tensor, &Placement::default()).unwrap();
    Plan::compile(&layout(from), &layout(to), &Options::default()).unwrap()
}

/// A copy of so many bytes.
fn copy(bytes: u64) -> Plan {
    let text = format!("memref<{bytes}xui8>");
    plan(&[bytes], DType::U8, &text, &text)
}

fn tilize(rows: u64, cols: u64) -> Plan {
    plan(
        &[rows, cols],
        DType::Bf16,
        &format!("memref<{rows}x{cols}xbf16>"),
        "ttnn(dtype=bfloat16, layout=TILE)",
    )
}

/// Bytes without a period.
fn bytes(len: usize, seed: u64) -> Vec<u8> {
    let mut x = seed | 1;
    let byte = |_| {
        x = x.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x9E37_79B9);
        (x >> 56) as u8
    };
    (0..len).map(byte).collect()
}

fn executed(plan: &Plan, source: &[u8]) -> Vec<u8> {
    let mut out = vec![0xA5; plan.destination_bytes()];
    plan.execute(source, &mut out).unwrap();
    out
}

fn sizes(plans: &[Plan]) -> Memory {
    Memory::new(plans.iter().map(Plan::destination_bytes)).unwrap()
}

/// A file in memory that checks how it is read.
struct Disk {
    bytes: Vec<u8>,
    alignment: usize,
    /// How often each byte was read.
    reads: Mutex<Vec<u8>>,
    fail_at_read: Option<usize>,
    count: AtomicUsize,
}

impl Disk {
    fn new(bytes: Vec<u8>, alignment: usize) -> Disk {
        let reads = Mutex::new(vec![0; bytes.len()]);
        Disk { bytes, alignment, reads, fail_at_read: None, count: AtomicUsize::new(0) }
    }
}

impl ReadAt for Disk {
    fn size(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn alignment(&self) -> usize {
        self.alignment
    }

    fn read_at(&self, at: u64, into: &mut [u8]) -> Result<()> {
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        if self.fail_at_read == Some(count) {
            return Err(Error::file("disk", std::io::ErrorKind::Other, format!("read {count} fails")));
        }
        let at = at as usize;
        assert!([at, into.len(), into.as_ptr().addr()].iter().all(|n| n.is_multiple_of(self.alignment)));
        let there = into.len().min(self.bytes.len() - at);
        into[..there].copy_from_slice(&self.bytes[at..at + there]);
        self.reads.lock().unwrap()[at..at + there].iter_mut().for_each(|n| *n += 1);
        Ok(())
    }
}

/// Transfers of plans whose sources lie one after another in a file, with a gap before each.
fn in_file(plans: &[Plan], sources: &[Vec<u8>]) -> (Vec<u8>, Vec<u64>) {
    let (mut file, mut begins) = (Vec::new(), Vec::new());
    for (k, source) in sources.iter().enumerate().take(plans.len()) {
        file.extend(vec![0xEE; k * 37 % 101]);
        begins.push(file.len() as u64);
        file.extend(source);
    }
    (file, begins)
}

fn transfers<'a>(plans: &'a [Plan], sources: &'a [Vec<u8>]) -> Vec<Transfer<'a>> {
    let source = |(plan, source): (&'a Plan, &'a Vec<u8>)| Transfer { plan, source: Source::Memory(source) };
    plans.iter().zip(sources).map(source).collect()
}

fn from_disk<'a>(plans: &'a [Plan], disk: &'a Disk, begins: &[u64]) -> Vec<Transfer<'a>> {
    let source =
        |(plan, &begin): (&'a Plan, &u64)| Transfer { plan, source: Source::Ranges { reader: disk, begin } };
    plans.iter().zip(begins).map(source).collect()
}

/// Up to four plans from or to random layouts.
fn drawn(c: &mut Choices) -> Vec<Plan> {
    let plan = |c: &mut Choices| {
        let tensor =
            Tensor { dtype: c.of(&[DType::F32, DType::Bf16, DType::U8, DType::I32]), shape: c.shape(6000) };
        let case = (FAMILIES[c.below(FAMILIES.len())].1)(c, &tensor)?;
        let layout = case.layout(&tensor).ok().filter(|l| l.total_bytes() <= 400 << 10)?;
        let host = dense(&tensor);
        let (from, to) = if c.yes() { (&layout, &host) } else { (&host, &layout) };
        Plan::compile(from, to, &Options::default()).ok()
    };
    (0..=c.below(4)).filter_map(|_| plan(c)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn what_arrives_is_what_plans_produce(numbers in prop::collection::vec(any::<u32>(), 220), seed in any::<u64>()) {
        let c = &mut Choices::new(&numbers);
        let (slots, slot_bytes) = (c.of(&[1, 2, 3, 5]), c.of(&[4096, 5000, 16384, 100_000]));
        let (alignment, read_bytes) = (c.of(&[1, 512, 4096]), c.of(&[1, 4096, 50_000, 1 << 20]));
        let order = c.of(&[Order::Submitted, Order::Reversed, Order::Shuffled(seed)]);
        let (pool, many, on_disk) = (Pool::new(3).unwrap(), c.yes(), c.yes());
        let executor: &dyn Executor = if many { &pool } else { &Inline };
        let plans: Vec<Plan> = drawn(c).into_iter().filter(|p| p.chunk_alignment() <= slot_bytes).collect();
        let sources: Vec<_> = plans.iter().map(|p| bytes(p.source_bytes(), seed)).collect();
        let expected: Vec<_> = plans.iter().zip(&sources).map(|(p, s)| executed(p, s)).collect();
        let (file, begins) = in_file(&plans, &sources);
        let disk = Disk::new(file, alignment);
        let transfers = if on_disk { from_disk(&plans, &disk, &begins) } else { transfers(&plans, &sources) };
        let clock = VirtualClock::default();
        let settings = Settings { executor, readers: executor, read_bytes, clock: &clock, ..Settings::default() };
        let mut link = Link::new(&clock, 1e9, Duration::from_micros(3)).with_order(order).with_poison(0xDB).with_memory(sizes(&plans));
        let mut stager = Stager::new(slots, slot_bytes, &mut Heap).unwrap();
        let report = stager.run(&transfers, &mut link, &settings).unwrap();
        let memory = link.memory().unwrap();
        let total: usize = expected.iter().map(Vec::len).sum();
        // As many bytes as there are places: none came twice.
        prop_assert_eq!((report.bytes, memory.received()), (total as u64, total as u64));
        prop_assert!(memory.tensors() == expected);
        prop_assert_eq!((stager.slots_at_home(), link.in_flight()), (slots, 0));
        prop_assert!(disk.reads.lock().unwrap().iter().all(|&n| n <= 1), "a byte was read twice");

        let disk = Disk::new(disk.bytes, alignment);
        let transfers = from_disk(&plans, &disk, &begins);
        let mut fetched: Vec<_> = expected.iter().map(|e| vec![0x77; e.len()]).collect();
        let mut places: Vec<&mut [u8]> = fetched.iter_mut().map(Vec::as_mut_slice).collect();
        let settings = Settings { read_bytes: slot_bytes, ..settings };
        Fetcher::default().run(&transfers, &mut places, &settings).unwrap();
        prop_assert!(fetched == expected);
        prop_assert!(disk.reads.lock().unwrap().iter().all(|&n| n <= 1), "a byte was fetched twice");
    }

    #[test]
    fn a_run_that_is_cancelled_ends_cleanly(at in 0_usize..40, slots in 1_usize..4, seed in any::<u64>()) {
        let (plans, clock) = ([copy(100_000)], VirtualClock::default());
        let sources = [bytes(100_000, 1)];
        let cancel = Cancel::default();
        // Looks and sleeps come from many places: one of them cancels.
        let cancelling = Cancelling { clock: &clock, cancel: &cancel, left: AtomicUsize::new(at * 7) };
        let mut link = Link::new(&clock, 1e9, Duration::from_micros(3)).with_order(Order::Shuffled(seed)).with_memory(sizes(&plans));
        let mut stager = Stager::new(slots, 4096, &mut Heap).unwrap();
        let settings = Settings { cancel: Some(&cancel), clock: &cancelling, ..Settings::default() };
        match stager.run(&transfers(&plans, &sources), &mut link, &settings) {
            Ok(_) => prop_assert!(link.memory().unwrap().tensors()[0] == sources[0]),
            Err(Error::Staging { what, submitted, completed, in_flight }) => {
                prop_assert_eq!((what.as_str(), in_flight), ("cancelled", 0));
                prop_assert_eq!(submitted, completed);
                prop_assert!(submitted <= 25);
            }
            Err(other) => prop_assert!(false, "{other}"),
        }
        prop_assert_eq!((stager.slots_at_home(), link.in_flight()), (slots, 0));
    }
}

/// A clock that cancels when it has been looked at so often.
struct Cancelling<'a> {
    clock: &'a VirtualClock,
    cancel: &'a Cancel,
    left: AtomicUsize,
}

impl Clock for Cancelling<'_> {
    fn now(&self) -> Duration {
        let left = self.left.load(Ordering::Relaxed);
        match left.checked_sub(1) {
            Some(left) => self.left.store(left, Ordering::Relaxed),
            None => self.cancel.cancel(),
        }
        self.clock.now()
    }

    fn sleep(&self, time: Duration) {
        self.clock.sleep(time);
    }
}

/// An executor each of whose calls takes a given time.
struct Ticking<'a> {
    clock: &'a VirtualClock,
    time: Duration,
}

impl Executor for Ticking<'_> {
    fn threads(&self) -> usize {
        64
    }

    fn run(&self, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
        self.clock.sleep(self.time);
        (0..tasks).for_each(task);
    }
}

/// One run of so many equal slots, each of which takes `fill` to make and `moving` to move.
fn timed(slots: usize, count: u32, fill: Duration, moving: Duration) -> Report {
    const SLOT: usize = 512 << 10;
    let plans = [copy(SLOT as u64 * u64::from(count))];
    let sources = [bytes(plans[0].source_bytes(), 7)];
    let clock = VirtualClock::default();
    let mut link =
        Link::new(&clock, SLOT as f64 / moving.as_secs_f64(), Duration::ZERO).with_memory(sizes(&plans));
    let executor = Ticking { clock: &clock, time: fill };
    let settings = Settings { executor: &executor, clock: &clock, ..Settings::default() };
    let mut stager = Stager::new(slots, SLOT, &mut Heap).unwrap();
    let report = stager.run(&transfers(&plans, &sources), &mut link, &settings).unwrap();
    assert!(link.memory().unwrap().tensors() == sources);
    assert_eq!(report.slots, u64::from(count));
    report
}

#[test]
fn wall_time_is_that_of_the_slower_side_and_one_slot() {
    for (fill, moving) in [(1, 10), (5, 10), (10, 10), (10, 5), (10, 1)] {
        let [fill, moving] = [fill, moving].map(Duration::from_millis);
        for (slots, count) in [(2, 1), (2, 9), (3, 9), (3, 2)] {
            let report = timed(slots, count, fill, moving);
            let exact = (fill * count).max(moving * count) + fill.min(moving);
            let off = report.wall.abs_diff(exact);
            assert!(off < Duration::from_micros(1), "{report:?}, not {exact:?}");
            assert_eq!(report.converting, fill * count);
        }
        // One slot alone cannot be filled while it is moved.
        let off = timed(1, 9, fill, moving).wall.abs_diff((fill + moving) * 9);
        assert!(off < Duration::from_micros(1));
    }
    let [short, long] = [1, 10].map(Duration::from_millis);
    assert_eq!(timed(3, 9, short, long).slowest(), Side::Sink);
    assert_eq!(timed(3, 9, long, short).slowest(), Side::Conversion);
}

#[test]
fn a_sink_that_fails_ends_the_run_with_its_error_and_every_slot_at_home() {
    let (plans, sources) = ([copy(50_000), tilize(40, 70)], [bytes(50_000, 3), bytes(5600, 4)]);
    let clock = VirtualClock::default();
    let settings = Settings { clock: &clock, ..Settings::default() };
    let mut stager = Stager::new(3, 4096, &mut Heap).unwrap();
    let link = || Link::new(&clock, 1e6, Duration::from_millis(1)).with_poison(0xDB);
    let slots = stager.run(&transfers(&plans, &sources), &mut link(), &settings).unwrap().slots;
    for k in 0..slots {
        for order in [Order::Submitted, Order::Reversed] {
            let mut refusing = link().with_order(order).fail_at_submit(k);
            let error = stager.run(&transfers(&plans, &sources), &mut refusing, &settings).unwrap_err();
            assert!(error.to_string().contains(&format!("submission {k}")), "{error}");
            assert_eq!((stager.slots_at_home(), refusing.in_flight(), stager.report().slots), (3, 0, k));
            let mut losing = link().with_order(order).fail_at_completion(k);
            let error = stager.run(&transfers(&plans, &sources), &mut losing, &settings).unwrap_err();
            assert!(error.to_string().contains(&format!("completion {k}")), "{error}");
            assert_eq!((stager.slots_at_home(), losing.in_flight()), (3, 0));
        }
    }
    let mut sound = link().with_memory(sizes(&plans));
    stager.run(&transfers(&plans, &sources), &mut sound, &settings).unwrap();
    assert!(sound.memory().unwrap().tensors()[1] == executed(&plans[1], &sources[1]));
}

#[test]
fn a_sink_that_hangs_runs_out_of_time_and_keeps_its_slots() {
    let (plans, sources) = ([copy(50_000)], [bytes(50_000, 3)]);
    let clock = VirtualClock::default();
    let settings = Settings { clock: &clock, wait_limit: Duration::from_secs(5), ..Settings::default() };
    for (hang_at, in_flight) in [(0, 3), (4, 3), (12, 1)] {
        let mut stager = Stager::new(3, 4096, &mut Heap).unwrap();
        let mut link = Link::new(&clock, 1e9, Duration::ZERO).hang_at(hang_at);
        let started = clock.now();
        let error = stager.run(&transfers(&plans, &sources), &mut link, &settings).unwrap_err();
        let Error::Staging { what, submitted, completed, in_flight: left } = &error else {
            panic!("{error}")
        };
        assert!(what.contains("5s"), "{error}");
        assert_eq!((*completed, *left, submitted - completed), (hang_at, in_flight, in_flight));
        assert_eq!((stager.slots_at_home() as u64, link.in_flight() as u64), (3 - in_flight, in_flight));
        // Once until it gives up, once while it drains.
        assert!(clock.now() - started < Duration::from_secs(11));
        if in_flight == 3 {
            let error =
                stager.run(&transfers(&plans, &sources), &mut Blocking::new(sizes(&plans)), &settings);
            assert!(error.unwrap_err().to_string().contains("no slot is at home"));
        }
    }
}

/// Memory that counts itself.
struct Counted(Vec<u8>, Arc<AtomicUsize>);

impl Deref for Counted {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl DerefMut for Counted {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.1.fetch_sub(1, Ordering::Relaxed);
    }
}

#[test]
fn memory_is_freed_with_whoever_has_it() {
    let live = Arc::new(AtomicUsize::new(0));
    let mut allocator = |bytes: usize| {
        live.fetch_add(1, Ordering::Relaxed);
        Ok(Box::new(Counted(vec![0; bytes], live.clone())) as Box<dyn SlotMemory>)
    };
    let (plans, sources, clock) = ([copy(50_000)], [bytes(50_000, 3)], VirtualClock::default());
    let settings = Settings { clock: &clock, ..Settings::default() };
    let mut stager = Stager::new(3, 4096, &mut allocator).unwrap();
    let mut link = Link::new(&clock, 1e9, Duration::ZERO).hang_at(12);
    stager.run(&transfers(&plans, &sources), &mut link, &settings).unwrap_err();
    assert_eq!(live.load(Ordering::Relaxed), 3);
    drop(stager);
    assert_eq!(live.load(Ordering::Relaxed), 1);
    drop(link);
    assert_eq!(live.load(Ordering::Relaxed), 0);
    // Memory of the caller: too little of it, or too small, is an error.
    let mut given: Vec<Box<dyn SlotMemory>> = vec![Box::new(vec![0; 100]), Box::new(vec![0; 5000])];
    assert!(Stager::new(2, 4096, &mut given).unwrap_err().to_string().contains("holds 100 bytes"));
    let mut given: Vec<Box<dyn SlotMemory>> = vec![Box::new(vec![0; 5000])];
    assert!(Stager::new(2, 4096, &mut given).is_err());
}

#[test]
fn everything_is_checked_before_anything_is_submitted() {
    let (plans, sources) = ([copy(50_000), tilize(40, 70)], [bytes(50_000, 3), bytes(5600, 4)]);
    let mut submitted = 0;
    let mut sink = Blocking::new(|_: &Slot| {
        submitted += 1;
        Ok(())
    });
    let mut stager = Stager::new(2, 4096, &mut Heap).unwrap();
    let mut refused = |transfers: &[Transfer<'_>], settings: &Settings<'_>| {
        stager.run(transfers, &mut sink, settings).unwrap_err().to_string()
    };
    let short = [
        Transfer { plan: &plans[0], source: Source::Memory(&sources[0]) },
        Transfer { plan: &plans[1], source: Source::Memory(&sources[1][1..]) },
    ];
    assert!(refused(&short, &Settings::default()).contains("5599 bytes, but 5600"));
    let disk = Disk::new(sources[0].clone(), 1);
    let beyond = [Transfer { plan: &plans[0], source: Source::Ranges { reader: &disk, begin: 1 } }];
    assert!(refused(&beyond, &Settings::default()).contains("50000 bytes, but 50001"));
    let overflow = [Transfer { plan: &plans[0], source: Source::Ranges { reader: &disk, begin: u64::MAX } }];
    refused(&overflow, &Settings::default());
    let odd = Disk::new(sources[0].clone(), 3);
    let odd = [Transfer { plan: &plans[0], source: Source::Ranges { reader: &odd, begin: 0 } }];
    assert!(refused(&odd, &Settings::default()).contains("power of two"));
    let banks = "ttnn(dtype=bfloat16, layout=ROW_MAJOR, memory=INTERLEAVED, banks=2, alignment=8192)";
    let large = plan(&[4, 4096], DType::Bf16, "memref<4x4096xbf16>", banks);
    let source = bytes(large.source_bytes(), 1);
    let large = [Transfer { plan: &large, source: Source::Memory(&source) }];
    if large[0].plan.chunk_alignment() > 4096 {
        assert!(refused(&large, &Settings::default()).contains("bytes of a slot"));
    }
    assert!(Stager::new(0, 4096, &mut Heap).is_err());
    assert!(Stager::new(65, 4096, &mut Heap).is_err());
    assert!(Stager::new(1, 4095, &mut Heap).is_err());
    assert!(Stager::new(1, usize::MAX, &mut Heap).is_err());
    drop(sink);
    assert_eq!(submitted, 0);
}

#[test]
fn small_tensors_share_slots() {
    let plans: Vec<Plan> = (0..300).map(|k| copy(k % 7 * 100)).collect();
    let sources: Vec<_> = plans.iter().map(|p| bytes(p.source_bytes(), 5)).collect();
    let mut stager = Stager::new(2, 16384, &mut Heap).unwrap();
    let mut sink = Blocking::new(sizes(&plans));
    let report = stager.run(&transfers(&plans, &sources), &mut sink, &Settings::default()).unwrap();
    assert!(sink.consumer().tensors() == sources);
    // 90,000 bytes, each tensor from a line of 64 bytes on.
    assert!((6..=7).contains(&report.slots), "{report}");
    // And share reads.
    let (file, begins) = in_file(&plans, &sources);
    let disk = Disk::new(file, 1);
    let mut sink = Blocking::new(sizes(&plans));
    let settings = Settings { read_bytes: 16384, ..Settings::default() };
    stager.run(&from_disk(&plans, &disk, &begins), &mut sink, &settings).unwrap();
    assert!(sink.consumer().tensors() == sources);
    assert!(disk.count.load(Ordering::Relaxed) <= 8, "{disk:?} reads", disk = disk.count);
}

#[test]
fn pieces_stay_inside_of_their_buffers() {
    let to = "ttnn(dtype=bfloat16, layout=TILE, memory=HEIGHT_SHARDED, grid=(1, 5), shard=(96, 96))";
    let plans = [plan(&[480, 96], DType::Bf16, "memref<480x96xbf16>", to)];
    let sources = [bytes(plans[0].source_bytes(), 9)];
    assert_eq!(plans[0].destination_buffers(), 5);
    let each = plans[0].destination_bytes() / 5;
    let mut seen = vec![0; 5];
    let mut sink = Blocking::new(|slot: &Slot| {
        for piece in slot.pieces() {
            assert_eq!(piece.destination.start, piece.buffer * each + piece.buffer_offset);
            assert!(piece.buffer_offset + piece.destination.len() <= each);
            seen[piece.buffer] += piece.destination.len();
        }
        Ok(())
    });
    let mut stager = Stager::new(2, 10_000, &mut Heap).unwrap();
    stager.run(&transfers(&plans, &sources), &mut sink, &Settings::default()).unwrap();
    drop(sink);
    assert_eq!(seen, [each; 5]);
}

#[test]
fn pieces_end_where_matrices_do_and_lie_on_pages_as_in_their_buffer() {
    // Each row of tiles is made of all rows of a matrix. Matrices are of 25.5 pages, and slots have room for a little more.
    let from = "memref<6x96x1024xbf16, strided<[98304, 1, 96]>>";
    let plans = [plan(&[6, 96, 1024], DType::Bf16, from, "ttnn(dtype=bfloat8_b, layout=TILE)")];
    let (matrix, source) = (3 * 32 * 1088, bytes(plans[0].source_bytes(), 7));
    let disk = Disk::new(source.clone(), 1);
    let mut phases = Vec::new();
    let mut sink = Blocking::new(|slot: &Slot| {
        for piece in slot.pieces() {
            assert_eq!(piece.destination.len(), matrix);
            assert_eq!(piece.offset % 4096, piece.buffer_offset % 4096);
            phases.push(piece.offset);
            assert!(slot.bytes()[..piece.offset].iter().all(|&b| b == 0));
            assert!(*slot.piece(piece) == executed(&plans[0], &source)[piece.destination.clone()]);
        }
        Ok(())
    });
    let mut stager = Stager::new(2, 120_000, &mut Heap).unwrap();
    let settings = Settings { read_bytes: 4096, ..Settings::default() };
    let report = stager.run(&from_disk(&plans, &disk, &[0]), &mut sink, &settings).unwrap();
    drop(sink);
    assert_eq!(phases, [0, 2048, 0, 2048, 0, 2048]);
    // Windows hold a matrix each, and nothing is read or held twice.
    assert_eq!(report.window_bytes as usize, 2 * source.len() / 6);
    assert_eq!(report.bytes_read as usize, source.len());
}

#[test]
fn windows_are_as_large_as_what_chunks_are_made_of() {
    // Rows of tiles lie together in the source; sticks are made of all rows.
    let rows = [tilize(2048, 64)];
    let sticks = [plan(
        &[2048, 128],
        DType::F16,
        "memref<2048x128xf16>",
        "SpyreTensorLayout((2048, 128), torch.float16)",
    )];
    let mut stager = Stager::new(2, 16384, &mut Heap).unwrap();
    for (plans, least, most) in [(&rows, 16384, 70_000), (&sticks, 2048 * 256 - 128, 2048 * 256 + 40_000)] {
        let source = bytes(plans[0].source_bytes(), 2);
        let disk = Disk::new(source.clone(), 1);
        let settings = Settings { read_bytes: 16384, ..Settings::default() };
        let mut sink = Blocking::new(sizes(plans));
        let report = stager.run(&from_disk(plans, &disk, &[0]), &mut sink, &settings).unwrap();
        assert!(sink.consumer().tensors()[0] == executed(&plans[0], &source));
        assert!((least..=most).contains(&report.window_bytes), "{report:?}");
        assert_eq!(report.bytes_read, source.len() as u64);
        let limit = report.window_bytes as usize - 1;
        let settings = Settings { window_limit: limit, ..settings };
        let error = stager.run(&from_disk(plans, &disk, &[0]), &mut sink, &settings).unwrap_err().to_string();
        assert!(
            error.contains(&limit.to_string()) && error.contains(&report.window_bytes.to_string()),
            "{error}"
        );
    }
}

#[test]
fn rereading_keeps_windows_small_where_chunks_go_back() {
    // Four cores side by side: each is made of a quarter of every row.
    let to = "ttnn(dtype=float32, layout=TILE, memory=WIDTH_SHARDED, grid=(1, 4), shard=(1024, 32))";
    let plans = [plan(&[1024, 128], DType::F32, "memref<1024x128xf32>", to)];
    let source = bytes(plans[0].source_bytes(), 5);
    let mut stager = Stager::new(2, 8192, &mut Heap).unwrap();
    for (reread, most, times) in [(false, source.len() + 40_000, 1), (true, 4 * 32768, 4)] {
        let disk = Disk::new(source.clone(), 1);
        let settings = Settings { read_bytes: 8192, reread, ..Settings::default() };
        let mut sink = Blocking::new(sizes(&plans));
        let report = stager.run(&from_disk(&plans, &disk, &[0]), &mut sink, &settings).unwrap();
        assert!(sink.consumer().tensors()[0] == executed(&plans[0], &source));
        assert!(report.window_bytes <= most as u64, "{reread}: {report:?}");
        let read = report.bytes_read;
        assert!(
            read <= times * source.len() as u64 && read > (times - 1) * source.len() as u64,
            "{report:?}"
        );
        let windows = match reread {
            true => Stager::reread_window_bytes(&from_disk(&plans, &disk, &[0]), 8192, 8192),
            false => Stager::window_bytes(&from_disk(&plans, &disk, &[0]), 8192, 8192),
        };
        assert_eq!(windows.unwrap().iter().sum::<usize>() as u64, report.window_bytes);
    }
}

#[test]
fn a_source_that_fails_ends_the_run_with_its_error() {
    let (plans, sources) = ([copy(100_000)], [bytes(100_000, 3)]);
    let clock = VirtualClock::default();
    let mut stager = Stager::new(3, 4096, &mut Heap).unwrap();
    for k in [0, 1, 5, 11] {
        let disk = Disk { fail_at_read: Some(k), ..Disk::new(sources[0].clone(), 1) };
        let settings = Settings { read_bytes: 4096, clock: &clock, ..Settings::default() };
        let mut link = Link::new(&clock, 1e9, Duration::ZERO);
        let error = stager.run(&from_disk(&plans, &disk, &[0]), &mut link, &settings).unwrap_err();
        assert_eq!(error, Error::file("disk", std::io::ErrorKind::Other, format!("read {k} fails")));
        assert_eq!((stager.slots_at_home(), link.in_flight()), (3, 0));
    }
}

/// A reader that panics is a defect of the caller's, and no reason to hang.
#[test]
fn a_source_that_panics_is_an_error() {
    struct Panics;
    impl ReadAt for Panics {
        fn size(&self) -> u64 {
            100_000
        }
        fn read_at(&self, _: u64, _: &mut [u8]) -> Result<()> {
            panic!("on purpose")
        }
    }
    let plan = copy(100_000);
    let transfers = [Transfer { plan: &plan, source: Source::Ranges { reader: &Panics, begin: 0 } }];
    let mut stager = Stager::new(2, 4096, &mut Heap).unwrap();
    let error =
        stager.run(&transfers, &mut Blocking::new(|_: &Slot| Ok(())), &Settings::default()).unwrap_err();
    assert!(error.to_string().contains("reader"), "{error}");
    assert_eq!(stager.slots_at_home(), 2);
}

#[test]
fn an_executor_that_leaves_tasks_out_is_an_error() {
    struct Lazy;
    impl Executor for Lazy {
        fn threads(&self) -> usize {
            4
        }
        fn run(&self, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
            (1..tasks).for_each(task);
        }
    }
    let (plans, sources) = ([copy(2 << 20)], [bytes(2 << 20, 3)]);
    let mut stager = Stager::new(2, 1 << 20, &mut Heap).unwrap();
    let settings = Settings { executor: &Lazy, ..Settings::default() };
    let error =
        stager.run(&transfers(&plans, &sources), &mut Blocking::new(sizes(&plans)), &settings).unwrap_err();
    assert!(error.to_string().contains("1 of 4 tasks"), "{error}");
    assert_eq!((stager.slots_at_home(), stager.report().slots), (2, 0));
}

#[test]
fn values_that_do_not_fit_are_named_by_their_place_in_the_tensor() {
    let shape = [3000];
    let plan = plan(&shape, DType::I64, "memref<3000xi64>", "memref<3000xi32>");
    let mut source = vec![0; plan.source_bytes()];
    source[2500 * 8 + 4] = 1;
    let expected = plan.execute(&source, &mut vec![0; plan.destination_bytes()]).unwrap_err();
    assert!(matches!(expected, Error::OutOfRange { at: 10_000, .. }), "{expected}");
    let disk = Disk::new(source.clone(), 1);
    let mut stager = Stager::new(2, 4096, &mut Heap).unwrap();
    for source in [Source::Memory(&source), Source::Ranges { reader: &disk, begin: 0 }] {
        let transfers = [Transfer { plan: &plan, source }];
        let settings = Settings { read_bytes: 4096, ..Settings::default() };
        let mut sink = Blocking::new(|_: &Slot| Ok(()));
        assert_eq!(stager.run(&transfers, &mut sink, &settings).unwrap_err(), expected);
        assert_eq!(stager.slots_at_home(), 2);
    }
}

#[test]
fn consumers_on_a_thread_of_their_own() {
    let (plans, sources) = ([copy(100_000), tilize(64, 96)], [bytes(100_000, 3), bytes(12288, 4)]);
    let mut stager = Stager::new(2, 4096, &mut Heap).unwrap();
    let mut sink = Background::new(sizes(&plans)).unwrap();
    stager.run(&transfers(&plans, &sources), &mut sink, &Settings::default()).unwrap();
    let memory = sink.finish().unwrap();
    assert!(memory.tensors()[0] == sources[0] && memory.tensors()[1] == executed(&plans[1], &sources[1]));

    let mut count = 0;
    let failing = move |_: &Slot| {
        count += 1;
        if count == 5 { Err(Error::value("consumer", 5, "4")) } else { Ok(()) }
    };
    let mut sink = Background::new(failing).unwrap();
    let error = stager.run(&transfers(&plans, &sources), &mut sink, &Settings::default()).unwrap_err();
    assert_eq!(error, Error::value("consumer", 5, "4"));
    assert_eq!(stager.slots_at_home(), 2);

    let mut sink = Background::new(|_: &Slot| panic!("on purpose")).unwrap();
    let error = stager.run(&transfers(&plans, &sources), &mut sink, &Settings::default()).unwrap_err();
    assert!(matches!(error, Error::Staging { .. } | Error::Value { .. }), "{error}");
    assert!(sink.finish().is_err());
}

#[test]
fn files_in_and_out() {
    let directory = tempfile::tempdir().unwrap();
    let (plans, sources) = ([copy(100_001), tilize(64, 96)], [bytes(100_001, 3), bytes(12288, 4)]);
    let (file, begins) = in_file(&plans, &sources);
    let (from, to) = (directory.path().join("from"), directory.path().join("to"));
    std::fs::write(&from, &file).unwrap();
    let mut expected = sources[0].clone();
    expected.extend([0; 7]);
    expected.extend(executed(&plans[1], &sources[1]));
    type Open = (fn(&std::path::Path) -> Result<FileReader>, fn(&std::path::Path) -> Result<FilePlace>);
    let cached: Open = (FileReader::open, FilePlace::open);
    #[cfg(all(feature = "direct-io", target_os = "linux"))]
    let direct: Option<Open> = Some((FileReader::open_direct, FilePlace::open_direct));
    #[cfg(not(all(feature = "direct-io", target_os = "linux")))]
    let direct: Option<Open> = None;
    // Not every file system can be read past its cache.
    let ways = [Some(cached), direct.filter(|(reader, _)| reader(&from).is_ok())];
    for (reader, place) in ways.into_iter().flatten() {
        let reader = reader(&from).unwrap();
        let source = |k: usize| Source::Ranges { reader: &reader, begin: begins[k] };
        let transfers = [0, 1].map(|k| Transfer { plan: &plans[k], source: source(k) });
        let place = place(&to).unwrap();
        let writer = FileWriter::new(vec![place.clone(), place.at(100_008)]);
        let mut stager = Stager::new(2, 8192, &mut Heap).unwrap();
        let settings = Settings { read_bytes: 10_000, ..Settings::default() };
        stager.run(&transfers, &mut Background::new(writer).unwrap(), &settings).unwrap();
        assert!(std::fs::read(&to).unwrap() == expected);
        std::fs::remove_file(&to).unwrap();

        std::fs::File::options().write(true).open(&from).unwrap().set_len(50_000).unwrap();
        let mut sink = Blocking::new(sizes(&plans));
        let error = stager.run(&transfers, &mut sink, &settings).unwrap_err().to_string();
        let size = file.len().to_string();
        assert!(error.contains("shorter") && error.contains(&size), "{error}");
        assert_eq!(stager.slots_at_home(), 2);
        std::fs::write(&from, &file).unwrap();
    }
    assert!(FileReader::open(directory.path()).is_err());
    let error = FileReader::open(&directory.path().join("none")).unwrap_err();
    assert!(matches!(error, Error::Io { .. }));
}

#[test]
fn an_outbox_hands_addresses_out_and_takes_tickets_in_any_order() {
    let (plans, sources) = ([copy(100_000)], [bytes(100_000, 3)]);
    let (mut sink, outbox) = outbox();
    assert!(outbox.complete(0, Ok(())).unwrap_err().to_string().contains("ticket"));
    let transport = std::thread::spawn(move || {
        let (mut pieces, mut tickets, mut places) = (Vec::new(), Vec::new(), Vec::new());
        while let Some(ticket) = outbox.take(Duration::from_secs(60), &mut pieces) {
            tickets.push(ticket);
            places.extend(pieces.iter().map(|p| (p.destination, p.length, p.address)));
            // Two at a time, the later one first.
            if tickets.len() == 2 || places.len() == 25 {
                tickets.drain(..).rev().for_each(|ticket| outbox.complete(ticket, Ok(())).unwrap());
            }
        }
        places
    });
    let mut stager = Stager::new(3, 4096, &mut Heap).unwrap();
    stager.run(&transfers(&plans, &sources), &mut sink, &Settings::default()).unwrap();
    drop(sink);
    let places = transport.join().unwrap();
    assert_eq!(places.iter().map(|p| p.1).sum::<usize>(), 100_000);
    assert!(places.windows(2).all(|w| w[0].0 + w[0].1 == w[1].0));
    let mut addresses: Vec<usize> = places.iter().map(|p| p.2).collect();
    addresses.sort_unstable();
    addresses.dedup();
    assert!((2..=3).contains(&addresses.len()), "pieces lie at the beginning of the slots: {addresses:?}");
}

#[test]
fn an_outbox_that_is_dropped_ends_the_run() {
    let (plans, sources) = ([copy(100_000)], [bytes(100_000, 3)]);
    let (mut sink, outbox) = outbox();
    let transport = std::thread::spawn(move || {
        let mut pieces = Vec::new();
        outbox.take(Duration::from_secs(60), &mut pieces).unwrap();
    });
    let mut stager = Stager::new(3, 4096, &mut Heap).unwrap();
    let error = stager.run(&transfers(&plans, &sources), &mut sink, &Settings::default()).unwrap_err();
    assert!(matches!(&error, Error::Staging { in_flight: 1, .. }), "{error}");
    assert_eq!(stager.slots_at_home(), 2);
    transport.join().unwrap();
}

#[test]
fn a_memory_that_is_too_small_says_so() {
    let (plans, sources) = ([copy(5000)], [bytes(5000, 3)]);
    let mut memory = Memory::new([4999]).unwrap();
    let mut stager = Stager::new(1, 8192, &mut Heap).unwrap();
    let mut consume = |slot: &Slot| memory.consume(slot);
    let error =
        stager.run(&transfers(&plans, &sources), &mut Blocking::new(&mut consume), &Settings::default());
    assert_eq!(error.unwrap_err(), Error::Length { what: "memory of the sink", given: 4999, needed: 5000 });
}

/// A slot that is being taken is neither with the stager nor out: whoever waits at that moment must go on waiting.
#[test]
fn a_slot_that_is_being_taken_is_waited_for() {
    let (plans, sources) = ([copy(1 << 20)], [bytes(1 << 20, 5)]);
    let (mut sink, outbox) = outbox();
    let transport = std::thread::spawn(move || {
        let mut pieces = Vec::new();
        while let Some(ticket) = outbox.take(Duration::from_secs(60), &mut pieces) {
            outbox.complete(ticket, Ok(())).unwrap();
        }
    });
    // Each of 256 slots is waited for, sixty times.
    let mut stager = Stager::new(1, 4096, &mut Heap).unwrap();
    for _ in 0..60 {
        stager.run(&transfers(&plans, &sources), &mut sink, &Settings::default()).unwrap();
    }
    drop(sink);
    transport.join().unwrap();
}
