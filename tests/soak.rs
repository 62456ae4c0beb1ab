//! A soak: random conversions on eight threads through one small cache of plans, whole, in chunks and staged, with stagings
//! that are cancelled at random. No byte differs, and all memory is given back.
//!
//! Two seconds on every push; an hour:
//!
//! ```sh
//! TILEWRIGHT_SOAK=3600 cargo test --release -p tilewright --test soak -- --nocapture
//! ```

#[allow(dead_code)]
mod counting;
mod families;
#[path = "common/resident.rs"]
mod resident;

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use counting::held_by_all;
use families::{Choices, FAMILIES, dense};
use resident::{assert_given_back, assert_no_growth, resident, soak_time};
use tilewright::family::host::strided::Memref;
use tilewright::run::{Inline, reference};
use tilewright::stage::{
    Cancel, Clock, Heap, Link, Memory, Order, Settings, Source, Stager, Transfer, VirtualClock,
};
use tilewright::{DType, Error, Layout, Options, Plan, PlanCache, Request, Tensor};

const THREADS: u64 = 8;

/// Plans that are kept: far fewer than there are requests, so that all threads evict each other's.
const KEPT: usize = 12;

/// xorshift64*.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 16
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

/// What all threads share.
struct Soak {
    cache: PlanCache,
    end: Instant,
    conversions: AtomicU64,
    staged: AtomicU64,
    cancelled: AtomicU64,
}

/// A clock that cancels when it has been looked at so often.
struct Cancelling<'a> {
    clock: VirtualClock,
    cancel: &'a Cancel,
    left: AtomicUsize,
}

impl Clock for Cancelling<'_> {
    fn now(&self) -> Duration {
        match self.left.load(Ordering::Relaxed).checked_sub(1) {
            Some(left) => self.left.store(left, Ordering::Relaxed),
            None => self.cancel.cancel(),
        }
        self.clock.now()
    }

    fn sleep(&self, time: Duration) {
        self.clock.sleep(time);
    }
}

impl Soak {
    /// A random layout of one family as its text, and what it must be; from a few seeds, so that requests come again.
    fn draw(random: &mut Random) -> Option<(Tensor, String, Layout)> {
        let mut seeded = Random(random.below(3 * KEPT as u64) + 1);
        let numbers: Vec<u32> = (0..48).map(|_| seeded.next() as u32).collect();
        let mut c = Choices::new(&numbers);
        let types = [DType::F32, DType::Bf16, DType::U8, DType::I32];
        let tensor = Tensor::new(c.shape(1500), c.of(&types));
        let case = (FAMILIES[c.below(FAMILIES.len())].1)(&mut c, &tensor)?;
        if case.device.is_some() || case.mapper.is_some() || case.pad_value.is_some() {
            return None;
        }
        let layout = case.layout(&tensor).ok().filter(|layout| layout.total_bytes() < 64 << 10)?;
        Some((tensor, case.descriptor.to_string(), layout))
    }

    fn work(&self, seed: u64) {
        let mut random = Random(seed);
        while Instant::now() < self.end {
            let Some((tensor, text, layout)) = Soak::draw(&mut random) else { continue };
            let host = Memref::of(&tensor).to_string();
            let request = Request::new(&tensor.shape, tensor.dtype, host.as_str(), text.as_str());
            let plan = self.cache.get(&request).unwrap_or_else(|e| panic!("{text} of {tensor:?}: {e}"));
            let source: Vec<u8> = (0..plan.source_bytes()).map(|_| random.next() as u8).collect();
            let expect = reference(&dense(&tensor), &layout, &Options::default(), &source).unwrap();
            let mut out = vec![0xA5; expect.len()];
            if random.below(2) == 0 {
                plan.execute(&source, &mut out).unwrap();
            } else {
                let unit = plan.chunk_alignment().max(1);
                let size = (1 + random.below(1 + (expect.len() / unit) as u64) as usize) * unit;
                for (k, chunk) in out.chunks_mut(size).enumerate() {
                    let at = k * size;
                    plan.execute_chunk(&source, at..at + chunk.len(), chunk).unwrap();
                }
            }
            assert!(out == expect, "{text} of {tensor:?} differs");
            self.conversions.fetch_add(1, Ordering::Relaxed);
            if random.below(4) == 0 {
                self.stage(&mut random, &plan, &source, &expect);
            }
        }
    }

    /// The same conversion through a ring of slots, to the end or until it is cancelled.
    fn stage(&self, random: &mut Random, plan: &Plan, source: &[u8], expect: &[u8]) {
        let cancel = Cancel::default();
        let left = AtomicUsize::new(random.below(60) as usize);
        let clock = Cancelling { clock: VirtualClock::default(), cancel: &cancel, left };
        let memory = Memory::new([plan.destination_bytes()]).unwrap();
        let order = Order::Shuffled(random.next());
        let mut link =
            Link::new(&clock.clock, 1e9, Duration::from_micros(3)).with_order(order).with_memory(memory);
        let slots = 1 + random.below(3) as usize;
        let slot_bytes = 4096.max(plan.chunk_alignment().next_multiple_of(64));
        let mut stager = Stager::new(slots, slot_bytes, &mut Heap).unwrap();
        let settings =
            Settings { cancel: Some(&cancel), clock: &clock, executor: &Inline, ..Settings::default() };
        let transfers = [Transfer { plan, source: Source::Memory(source) }];
        match stager.run(&transfers, &mut link, &settings) {
            Ok(_) => {
                assert!(link.memory().unwrap().tensors()[0] == expect, "staged bytes differ\n{plan}");
                self.staged.fetch_add(1, Ordering::Relaxed);
            }
            Err(Error::Staging { what, .. }) if what == "cancelled" => {
                self.cancelled.fetch_add(1, Ordering::Relaxed);
            }
            Err(other) => panic!("{other}\n{plan}"),
        }
        assert_eq!((stager.slots_at_home(), link.in_flight()), (slots, 0));
    }
}

#[test]
fn no_difference_and_no_growth() {
    let (time, before) = (soak_time(), held_by_all());
    let soak = Soak {
        cache: PlanCache::new(KEPT),
        end: Instant::now() + time,
        conversions: AtomicU64::new(0),
        staged: AtomicU64::new(0),
        cancelled: AtomicU64::new(0),
    };
    let mut early = None;
    std::thread::scope(|scope| {
        let soak = &soak;
        let threads: Vec<_> =
            (0..THREADS).map(|k| scope.spawn(move || soak.work(0x5EED + 977 * k))).collect();
        std::thread::sleep(time / 3);
        early = resident();
        // A scope does not wait for what a thread frees at its very end; joining does.
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
    let Soak { cache, conversions, staged, cancelled, .. } = soak;
    let (late, kept) = (resident(), cache.len());
    drop(cache);
    let after = held_by_all();
    println!(
        "{time:?}: {conversions:?} conversions, {staged:?} stagings, {cancelled:?} of them cancelled; {kept} plans \
         kept; {early:?} bytes, then {late:?}; of them held {before} before and {after} after"
    );
    assert!(kept <= KEPT);
    assert!([conversions, staged, cancelled].iter().all(|n| n.load(Ordering::Relaxed) > 0));
    assert_no_growth(early, late);
    assert_given_back(before, after);
}
