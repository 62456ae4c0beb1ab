//! Running a conversion by ranges: the source is read window by window, converted into a few slots, and each slot is
//! checked and written while the next one is filled. Memory depends on the layouts, not on the size of the tensor.

use std::io::ErrorKind;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tilewright::run::{Executor, Pool, Reference};
use tilewright::stage::{
    Background, Consumer, Heap, ReadAt, Report, Settings, Slot, Source, Stager, Transfer,
};
use tilewright::{Error, Result as LibraryResult};
use tilewright_files::Elements;

use super::destination::Destination;
use super::engine::Job;
use super::failure::{Failure, Result};
use super::progress::Stage;

/// Slots: one is filled while another is written, and the third evens out what takes longer now and then.
const SLOTS: usize = 3;

/// Bytes of a slot, and of a window of the source, unless the layouts need more.
const SLOT_BYTES: usize = 16 << 20;

/// Bytes of both windows that are worth no smaller slots.
const WINDOWS: usize = 4 * SLOT_BYTES;

/// The smallest slots that are tried: each costs a look at the plan.
const SMALLEST: usize = 256 << 10;

/// How long to wait until a slot is written: a reader behind a pipe may take its time.
const PATIENCE: Duration = Duration::from_secs(365 * 24 * 3600);

/// The least bytes that one task checks.
const CHECKED: usize = 128 << 10;

/// What took how long; the three go on beside each other.
pub(crate) struct Times {
    pub(crate) staged: Report,
    pub(crate) writing: Duration,
    pub(crate) checking: Option<Duration>,
}

/// Converts all elements, on so many threads; with `check` every byte is compared with the scalar reference. What comes
/// out still has to be committed.
///
/// The source is read once, unless there is no memory for what that takes, and it can be read again.
pub(crate) fn run(
    job: &Job,
    (elements, again): (&Elements, bool),
    destination: Destination,
    threads: usize,
    check: bool,
) -> Result<(Destination, Times)> {
    let pool = Arc::new(Pool::new(threads)?);
    let checker = match check {
        true => Some(Checker::new(job.reference()?, elements.clone(), Arc::clone(&pool))),
        false => None,
    };
    let stage = Stage::begin(
        if check { "converting and checking" } else { "converting" },
        job.plan.destination_bytes() as u64,
    );
    let mut sink = Background::new(Delivery { destination, checker, stage, writing: Duration::ZERO })?;
    let staged = match staged(job, elements, &mut sink, &pool, false) {
        // Nothing has been read or written by then.
        Err(error) if again && is_no_room(&error) => staged(job, elements, &mut sink, &pool, true),
        other => other,
    };
    let staged = staged.map_err(no_room)?;
    let Delivery { destination, checker, writing, .. } = sink.finish()?;
    let checking = checker.map(Checker::finish).transpose()?;
    Ok((destination, Times { staged, writing, checking }))
}

/// Makes everything through a ring of its own.
fn staged(
    job: &Job,
    elements: &Elements,
    sink: &mut Background<Delivery>,
    pool: &Pool,
    reread: bool,
) -> LibraryResult<Report> {
    let transfers = [Transfer { plan: &job.plan, source: Source::Ranges { reader: elements, begin: 0 } }];
    let slot_bytes = slot_bytes(&transfers, reread)?;
    let slots = job.plan.destination_bytes().div_ceil(slot_bytes).clamp(1, SLOTS);
    let settings = Settings {
        executor: pool,
        read_bytes: SLOT_BYTES,
        reread,
        wait_limit: PATIENCE,
        ..Settings::default()
    };
    Stager::new(slots, slot_bytes, &mut Heap)?.run(&transfers, sink, &settings)
}

/// Bytes of a slot: as many as there are use for, but fewer where a slot would be made of far more of the source than
/// it holds, as block floats are. Where every chunk is made of bytes from all over the source nothing is gained by that.
fn slot_bytes(transfers: &[Transfer<'_>; 1], reread: bool) -> LibraryResult<usize> {
    let plan = transfers[0].plan;
    let alignment = plan.chunk_alignment();
    let largest = SLOT_BYTES.min(plan.destination_bytes()).max(alignment).max(1).next_multiple_of(4096);
    let window_bytes = if reread { Stager::reread_window_bytes } else { Stager::window_bytes };
    let mut bytes = largest;
    while bytes >= SMALLEST.max(alignment) {
        let windows = window_bytes(transfers, bytes, SLOT_BYTES)?;
        if windows[0].saturating_add(windows[1]) <= WINDOWS {
            return Ok(bytes);
        }
        bytes = (bytes / 2).next_multiple_of(4096);
    }
    Ok(largest)
}

/// Whether a ring or its windows did not fit into memory.
fn is_no_room(error: &Error) -> bool {
    matches!(error, Error::Value { what, .. } if what == "slot")
}

/// What memory there is not is the machine's fault, and no wrong argument.
fn no_room(error: Error) -> Error {
    match error {
        Error::Value { ref given, .. } if is_no_room(&error) => {
            let what = format!("there is no room for {given} beside what the conversion has already");
            Error::file("memory", ErrorKind::OutOfMemory, what)
        }
        error => error,
    }
}

/// Takes slots on a thread of its own.
struct Delivery {
    destination: Destination,
    checker: Option<Checker>,
    stage: Stage,
    writing: Duration,
}

impl Consumer for Delivery {
    fn consume(&mut self, slot: &Slot) -> LibraryResult<()> {
        for piece in slot.pieces() {
            let bytes = slot.piece(piece);
            let right = match &mut self.checker {
                Some(checker) => checker.compare(piece.destination.start as u64, bytes)?,
                None => true,
            };
            let begun = Instant::now();
            // What is wrong goes nowhere, not even into a pipe.
            if right {
                self.destination.write(piece.buffer, bytes)?;
            }
            self.writing += begun.elapsed();
            self.stage.advance(bytes.len() as u64);
        }
        Ok(())
    }
}

/// Compares results with the scalar reference, part by part.
struct Checker {
    reference: Reference,
    elements: Elements,
    pool: Arc<Pool>,
    seen: Seen,
    time: Duration,
}

/// What the reference has found.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    elements: u64,
    differ: u64,
    first: Option<u64>,
}

impl Seen {
    fn add(&mut self, other: Seen) {
        self.elements += other.elements;
        self.differ += other.differ;
        self.first = self.first.into_iter().chain(other.first).min();
    }
}

impl Checker {
    fn new(reference: Reference, elements: Elements, pool: Arc<Pool>) -> Checker {
        Checker { reference, elements, pool, seen: Seen::default(), time: Duration::ZERO }
    }

    /// Compares bytes of the result from byte `at` on; whether all bytes so far are right.
    fn compare(&mut self, at: u64, bytes: &[u8]) -> LibraryResult<bool> {
        let begun = Instant::now();
        let step = (bytes.len() / (4 * self.pool.threads().max(1))).max(CHECKED);
        let parts: Vec<(u64, &[u8])> = (at..).step_by(step).zip(bytes.chunks(step)).collect();
        let outcome = Mutex::new(Ok(Seen::default()));
        self.pool.run(parts.len(), &|i| {
            let (at, bytes) = parts[i];
            let part = self.part(at, bytes);
            let mut outcome = outcome.lock().unwrap_or_else(PoisonError::into_inner);
            match (&mut *outcome, part) {
                (Ok(all), Ok(part)) => all.add(part),
                (_, Err(error)) => *outcome = Err(error),
                (Err(_), Ok(_)) => {}
            }
        });
        self.seen.add(outcome.into_inner().unwrap_or_else(PoisonError::into_inner)?);
        self.time += begun.elapsed();
        Ok(self.seen.differ == 0)
    }

    fn part(&self, at: u64, bytes: &[u8]) -> LibraryResult<Seen> {
        let mut needed = vec![0; bytes.len()];
        let mut read = |at: u64, into: &mut [u8]| self.elements.read_at(at, into);
        let elements = self.reference.part(at, &mut needed, &mut read)?;
        if needed == bytes {
            return Ok(Seen { elements, ..Seen::default() });
        }
        let mut wrong = (at..).zip(needed.iter().zip(bytes)).filter(|(_, (a, b))| a != b).map(|(at, _)| at);
        let first = wrong.next();
        Ok(Seen { elements, first, differ: 1 + wrong.count() as u64 })
    }

    /// An error unless every byte was right, and every element was seen; else the time that it took.
    fn finish(self) -> Result<Duration> {
        let Seen { elements, differ, first } = self.seen;
        if let Some(first) = first {
            return Err(Failure::Check { differ, first });
        }
        let needed = self.reference.elements();
        if elements != needed {
            let what =
                format!("defect: the scalar reference found {elements} elements, {needed} were needed");
            return Err(Failure::Differ(what));
        }
        Ok(self.time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tilewright::family::{Descriptor, Placement, Tensor};
    use tilewright::{DType, Options, run};
    use tilewright_files::Source as File;

    /// A checker of 64x96 f32 in tiles, and the right bytes.
    fn checker() -> (Checker, Vec<u8>) {
        let tensor = Tensor { shape: vec![64, 96], dtype: DType::F32 };
        let layout =
            |text: &str| text.parse::<Descriptor>().unwrap().layout(&tensor, &Placement::default()).unwrap();
        let (src, dst) = (layout("memref<64x96xf32>"), layout("ttnn(dtype=bfloat8_b, layout=TILE)"));
        let source: Vec<u8> = (0..6144).flat_map(|i| (i as f32).to_le_bytes()).collect();
        let right = run::reference(&src, &dst, &Options::default(), &source).unwrap();
        let all = 0..24576;
        let elements = Elements::new(Arc::new(File::from_vec("x", source)), vec![all]);
        let reference = Reference::new(&src, &dst, &Options::default()).unwrap();
        (Checker::new(reference, elements, Arc::new(Pool::new(2).unwrap())), right)
    }

    #[test]
    fn what_differs_is_counted_and_placed() {
        let (mut checker, mut bytes) = checker();
        assert_eq!(checker.compare(0, &bytes[..2176]), Ok(true));
        bytes[3000] ^= 1;
        bytes[5000] ^= 4;
        assert_eq!(checker.compare(2176, &bytes[2176..]), Ok(false));
        assert!(matches!(checker.finish(), Err(Failure::Check { differ: 2, first: 3000 })));
    }

    #[test]
    fn what_was_not_compared_is_missed() {
        let (mut whole, bytes) = checker();
        assert_eq!(whole.compare(0, &bytes), Ok(true));
        whole.finish().unwrap();
        let (mut part, bytes) = checker();
        assert_eq!(part.compare(0, &bytes[..5440]), Ok(true));
        assert!(matches!(part.finish(), Err(Failure::Differ(_))));
    }
}
