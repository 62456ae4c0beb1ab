//! Measuring a machine: which numbers of a [`Tuning`] suit it.
//!
//! Each question is a few conversions and a few other numbers for the constants that decide about them. Plans with the
//! present numbers and with each of the others run in turns, so that all see the same machine; what counts is the median,
//! over the turns, of the one's time by the other's. The best of them is taken only where it is clearly better, and is still
//! better when it is measured again, against the present numbers alone. So noise changes nothing, and the numbers that come
//! with the library stay where they are good.

use std::time::{Duration, Instant};

use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::family::{Descriptor, Placement, Tensor};
use crate::plan::{Options, Plan};
use crate::run::{Executor, Inline};
use crate::tuning::{NEVER, Tuning};

/// The least speed, by that of the present numbers, at which others are measured a second time.
const CLEARLY: f64 = 1.05;

/// The least speed of the second time.
const STILL: f64 = 1.03;

/// The least speed of any single conversion: what helps some may cost others this much.
const COSTS: f64 = 0.97;

/// Turns of the first measurement, and of the second.
const TURNS: [usize; 2] = [5, 9];

/// A run that is shorter than this is repeated until it is not.
const RUN: Duration = Duration::from_millis(4);

/// The least bytes of the buffers that [`tune`] takes.
pub const LEAST_BYTES: usize = 1 << 20;

/// What came of a question.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Answer {
    /// What was measured.
    pub about: String,
    /// The best of the other numbers: constant, its numbers before, and those that were tried; empty where no other number
    /// schedules anything otherwise.
    pub tried: Vec<(&'static str, Vec<usize>, Vec<usize>)>,
    /// The speed with them by the speed before, the second measurement where there was one; none where the time was over.
    pub speed: Option<f64>,
    /// Whether they were taken.
    pub taken: bool,
}

/// Measures this machine and returns the numbers that suit it: `base` with those changed that are clearly better.
///
/// The buffers are read and written; they should be larger than the caches (64 MiB each), touched before, and on huge pages
/// where the system has them. Conversions run on this thread and, where `threads` has more than one, there too. It ends
/// after `time` and the run that is then going on; questions that it has not come to keep their numbers. `each` is told of
/// every answer as it is found.
///
/// # Errors
/// Where a buffer has less than [`LEAST_BYTES`], and as [`Tuning::check`] of `base`.
pub fn tune(
    base: &Tuning,
    source: &[u8],
    destination: &mut [u8],
    threads: &dyn Executor,
    time: Duration,
    each: &mut dyn FnMut(&Answer),
) -> Result<Tuning> {
    base.check()?;
    let bytes = source.len().min(destination.len());
    if bytes < LEAST_BYTES {
        return Err(Error::value("buffers to measure with", bytes, format!("at least {LEAST_BYTES} bytes")));
    }
    let mut bench = Bench { source, destination, bytes, threads, end: Instant::now() + time };
    let mut tuning = *base;
    for question in questions() {
        let answer = bench.answer(&question, &mut tuning)?;
        each(&answer);
    }
    Ok(tuning)
}

/// A conversion of a matrix. In its texts `R` and `C` are its rows and columns, `P` and `Q` a few more of them, `E` is its type.
#[derive(Debug, Clone, Copy)]
struct Case {
    dtype: DType,
    from: &'static str,
    to: &'static str,
    /// How much of the buffers it has, by which they are divided.
    share: usize,
}

/// A dense matrix, and its transpose.
const PLAIN: &str = "memref<RxCxE>";
const TRANSPOSED: &str = "memref<RxCxE, strided<[1, R]>>";

/// The same with rows that begin anywhere in a line.
const RAGGED: [&str; 2] = ["memref<RxCxE, strided<[Q, 1]>>", "memref<RxCxE, strided<[1, P]>>"];

/// A constant, which of its numbers, and another one for it.
type Change = (&'static str, usize, usize);

#[derive(Debug)]
struct Question {
    about: String,
    cases: Vec<Case>,
    candidates: Vec<Vec<Change>>,
}

/// Everything that is asked, what matters most first.
fn questions() -> Vec<Question> {
    let case = |dtype, from, to| Case { dtype, from, to, share: 1 };
    let one = |name: &'static str, numbers: &[usize]| -> Vec<Vec<Change>> {
        numbers.iter().map(|&number| vec![(name, 0, number)]).collect()
    };
    let mut all = Vec::new();
    let (f32_, bf16) = ("memref<RxCxf32>", "memref<RxCxbf16>");
    let (bf16_tiles, f32_tiles) = ("ttnn(dtype=bfloat16, layout=TILE)", "ttnn(dtype=float32, layout=TILE)");
    let bfp8_tiles = "ttnn(dtype=bfloat8_b, layout=TILE)";
    let converted = || {
        vec![
            case(DType::F32, f32_, bf16_tiles),
            case(DType::F16, "memref<RxCxf16>", "SpyreTensorLayout((R, C), torch.float16)"),
        ]
    };
    let copied = || {
        vec![
            case(DType::Bf16, bf16, bf16_tiles),
            case(DType::Bf16, bf16_tiles, bf16),
            case(DType::F32, f32_tiles, f32_),
        ]
    };
    let question = |about: &str, cases, candidates| Question { about: about.to_owned(), cases, candidates };
    let streamed = [3 << 20, 6 << 20, 12 << 20, 24 << 20, 48 << 20, NEVER];
    let mut shares: Vec<Case> =
        [2, 4, 8].map(|share| Case { share, ..case(DType::F32, f32_, bf16_tiles) }).into();
    // This writes twice as much as it reads: of buffers of 64 MiB 32 MiB, more than all numbers but the last two.
    shares.push(Case { share: 2, ..case(DType::Bf16, bf16, f32_) });
    all.push(question("non-temporal stores", shares, one("stream_from", &streamed)));
    let shares = [2, 4, 8, 16].map(|share| Case { share, ..case(DType::Bf16, bf16, bf16_tiles) });
    all.push(question("non-temporal stores of copies", shares.into(), one("direct_from", &streamed)));
    // Transposes that a kernel makes whole lines of, from where the source lies or by way of panels, or that are assembled.
    for dtype in [DType::F64, DType::F32, DType::Bf16, DType::U8] {
        let size = dtype.size();
        let place = size.ilog2() as usize;
        let ways = |strip: &'static str, panel: &'static str, ways: &[[usize; 3]]| -> Vec<Vec<Change>> {
            let way = |&[bytes, of_source, ahead]: &[usize; 3]| {
                let ahead = (of_source > 0).then_some(("panels_fetched", 0, ahead));
                [(strip, place, bytes), (panel, place, of_source)].into_iter().chain(ahead).collect()
            };
            ways.iter().map(way).collect()
        };
        const EVEN: [[usize; 3]; 5] =
            [[0, 0, 0], [128, 0, 0], [128, 16 << 10, 2], [256, 16 << 10, 2], [512, 448 << 10, 0]];
        const ANYWHERE: [[usize; 3]; 5] =
            [[0, 0, 0], [128, 0, 0], [256, 32 << 10, 2], [512, 64 << 10, 2], [512, 512 << 10, 0]];
        all.push(Question {
            about: format!("strips of transposes of {size}-byte elements"),
            cases: vec![case(dtype, PLAIN, TRANSPOSED)],
            candidates: ways("transposed_strip", "transposed_panel", &EVEN),
        });
        all.push(Question {
            about: format!("strips of ragged transposes of {size}-byte elements"),
            cases: vec![case(dtype, RAGGED[0], RAGGED[1])],
            candidates: ways("ragged_strip", "ragged_panel", &ANYWHERE),
        });
    }
    let stick = |order| case(DType::F16, "SpyreTensorLayout((R, C), torch.float16)", order);
    let restickified = vec![stick("SpyreTensorLayout((R, C), torch.float16, [1, 0])")];
    all.push(question("panels that lie together", restickified, one("near_panel", &[0, 8 << 10])));
    let transposed_tiles =
        || vec![case(DType::F32, TRANSPOSED, bf16_tiles), case(DType::Bf16, TRANSPOSED, bf16_tiles)];
    let narrowed = vec![case(DType::F32, PLAIN, "memref<RxCxbf16, strided<[1, R]>>")];
    let cases = [transposed_tiles(), narrowed, vec![case(DType::F64, PLAIN, bf16_tiles)]].concat();
    all.push(question("conversions brought together", cases, one("compacted", &[0, 16 << 10, 32 << 10])));
    let stripped =
        || [DType::F32, DType::F64, DType::Bf16].map(|dtype| case(dtype, PLAIN, TRANSPOSED)).to_vec();
    all.push(question("rows of strips", stripped(), one("transposed_rows", &[256, 512, 1024, 2048, 8192])));
    let fetched = one("transposed_fetched", &[0, 128, 256, 512, 1024]);
    all.push(question("fetching for strips", stripped(), fetched));
    for dtype in [DType::Bf16, DType::U8] {
        let size = dtype.size();
        let place = size.ilog2() as usize;
        let blocks =
            [(512, 1), (256, 1), (256, 2), (256, 4), (128, 2), (128, 4), (128, 8), (64, 8), (64, 16)];
        let block = |&(segment, lines): &(usize, usize)| -> Vec<Change> {
            vec![("transposed_segment", place, segment), ("transposed_lines", place, lines)]
        };
        all.push(Question {
            about: format!("transposes of {size}-byte elements"),
            cases: vec![case(dtype, PLAIN, TRANSPOSED)],
            candidates: blocks.iter().map(block).collect(),
        });
        all.push(Question {
            about: format!("ragged transposes of {size}-byte elements"),
            cases: vec![case(dtype, RAGGED[0], RAGGED[1])],
            candidates: [256, 512, 1024].map(|segment| vec![("ragged_segment", place, segment)]).into(),
        });
    }
    all.push(question("runs of conversions", converted(), one("segment", &[1024, 2048, 4096, 8192])));
    let mut fetched = converted();
    fetched.push(case(DType::F32, PLAIN, TRANSPOSED));
    fetched.push(case(DType::Bf16, PLAIN, TRANSPOSED));
    all.push(question(
        "fetching for conversions and transposes",
        fetched,
        one("fetched", &[0, 4 << 10, 16 << 10, 64 << 10]),
    ));
    all.push(question("runs of tiles to rows", copied(), one("direct_segment", &[2048, 4096, 8192])));
    all.push(question(
        "runs of rows to tiles",
        copied(),
        one("direct_run", &[16 << 10, 64 << 10, 256 << 10]),
    ));
    let lines = [(64, 64), (128, 64), (256, 64), (512, 64), (1024, 64), (512, 4), (1024, 8)];
    let pair = |&(bytes, runs): &(usize, usize)| vec![("direct_pair", 0, bytes), ("direct_runs", 0, runs)];
    all.push(question("lines of tiles", copied(), lines.iter().map(pair).collect()));
    all.push(question("lines that lie near", copied(), one("direct_apart", &[0, 4096, 16 << 10])));
    all.push(question("lines of rows", copied(), one("gathered_pair", &[0, 64, 128, 256])));
    let untiled = vec![case(DType::Bf16, bf16_tiles, bf16), case(DType::F32, f32_tiles, f32_)];
    all.push(question("fetching blocks for rows", untiled, one("blocks_fetched", &[0, 64, 256])));
    all.push(question("fetching for rows", copied(), one("gathered_fetched", &[0, 2048, 4096])));
    all.push(question("fetching for tiles", copied(), one("direct_fetched", &[0, 128, 256, 1024, 2048])));
    let next_rows = one("rows_fetched", &[0, 16 << 10, 256 << 10]);
    all.push(question("fetching the next rows for tiles", copied(), next_rows));
    all.push(question("the cache that copies fetch to", copied(), one("direct_cache", &[1, 2])));
    all.push(question("fetching for runs", copied(), one("runs_fetched", &[0, 2, 4, 8])));
    let packed = || vec![case(DType::F32, f32_, bfp8_tiles), case(DType::Bf16, bf16, bfp8_tiles)];
    all.push(question("fetching for block floats", packed(), one("tiles_fetched", &[1, 2, 3, 6])));
    let unpacked = vec![case(DType::F32, bfp8_tiles, f32_)];
    all.push(question("fetching for unpacking", unpacked, one("unpacked_fetched", &[0, 2, 4])));
    let shares = [64, 128, 256, 512].map(|share| Case { share, ..case(DType::Bf16, bf16, bf16_tiles) });
    let handed = one("threads_from", &[96 << 10, 192 << 10, 384 << 10, 768 << 10]);
    all.push(question("handing work to threads", shares.into(), handed));
    all
}

impl Case {
    /// The conversion by these numbers, of the largest matrix whose sides are powers of two and that has room.
    fn plan(&self, bytes: usize, tuning: &Tuning) -> Result<Plan> {
        // A sixteenth stays free for the padding of rows.
        let elements = (bytes / self.share / 17 * 16 / self.dtype.size()).max(1 << 12);
        let log = elements.ilog2();
        let (rows, cols) = (1_u64 << (log / 2), 1_u64 << log.div_ceil(2));
        let tensor = Tensor { shape: vec![rows, cols], dtype: self.dtype };
        let layout = |text: &str| {
            let texts = [
                ("RxC", format!("{rows}x{cols}")),
                ("xE", format!("x{}", self.dtype.mlir_name())),
                ("(R, C)", format!("({rows}, {cols})")),
                ("[Q,", format!("[{},", cols + 3)),
                (" R]", format!(" {rows}]")),
                (" P]", format!(" {}]", rows + 3)),
            ];
            let text = texts.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to));
            text.parse::<Descriptor>()?.layout(&tensor, &Placement::default())
        };
        Plan::compile_with(&layout(self.from)?, &layout(self.to)?, &Options::default(), tuning)
    }
}

struct Bench<'a> {
    source: &'a [u8],
    destination: &'a mut [u8],
    /// Of the smaller buffer.
    bytes: usize,
    threads: &'a dyn Executor,
    end: Instant,
}

impl Bench<'_> {
    fn is_over(&self) -> bool {
        Instant::now() >= self.end
    }

    /// Answers a question, and changes the numbers where others are better.
    fn answer(&mut self, question: &Question, tuning: &mut Tuning) -> Result<Answer> {
        let mut answer =
            Answer { about: question.about.clone(), tried: Vec::new(), speed: None, taken: false };
        let mut candidates = Vec::new();
        for changes in &question.candidates {
            let candidate = with(tuning, changes);
            if candidate != *tuning && candidate.check().is_ok() && !candidates.contains(&candidate) {
                candidates.push(candidate);
            }
        }
        let first = self.speeds(&question.cases, tuning, &candidates, TURNS[0])?;
        let best = first.iter().zip(&candidates).max_by(|a, b| a.0.mean.total_cmp(&b.0.mean));
        let Some((speed, candidate)) = best else { return Ok(answer) };
        answer.tried = differences(tuning, candidate);
        answer.speed = Some(speed.mean);
        if speed.mean < CLEARLY || speed.least < COSTS {
            return Ok(answer);
        }
        let again = self.speeds(&question.cases, tuning, std::slice::from_ref(candidate), TURNS[1])?;
        let [again] = again.as_slice() else {
            answer.speed = None;
            return Ok(answer);
        };
        answer.speed = Some(again.mean);
        answer.taken = again.mean >= STILL && again.least >= COSTS;
        if answer.taken {
            *tuning = *candidate;
        }
        Ok(answer)
    }

    /// The speeds of candidates by that of the present numbers, all run in turns; none where the time is over before.
    fn speeds(
        &mut self,
        cases: &[Case],
        tuning: &Tuning,
        candidates: &[Tuning],
        turns: usize,
    ) -> Result<Vec<Speed>> {
        let mut ratios = vec![Vec::new(); candidates.len()];
        for case in cases {
            if self.is_over() {
                return Ok(Vec::new());
            }
            let plan = |tuning: &Tuning| case.plan(self.bytes, tuning);
            let present = plan(tuning)?;
            let others = candidates.iter().map(plan).collect::<Result<Vec<_>>>()?;
            if present.source_bytes() > self.source.len()
                || present.destination_bytes() > self.destination.len()
            {
                continue;
            }
            for threads in [&Inline as &dyn Executor, self.threads].into_iter().take(self.ways()) {
                let once = self.time(&present, threads, 1)?;
                let runs = (RUN.as_nanos() / once.as_nanos().max(1)).clamp(1, 1 << 12) as u32;
                let mut of_case = vec![Vec::new(); candidates.len()];
                for turn in 0..turns {
                    if self.is_over() {
                        return Ok(Vec::new());
                    }
                    // Now the one is first, now the other: what runs behind something else has its caches.
                    let before = self.time(&present, threads, runs)?;
                    for i in 0..others.len() {
                        let i = (i + turn) % others.len();
                        let time = self.time(&others[i], threads, runs)?;
                        of_case[i].push(before.as_secs_f64() / time.as_secs_f64().max(1e-9));
                    }
                }
                ratios.iter_mut().zip(of_case).for_each(|(all, turns)| all.push(median(turns)));
            }
        }
        Ok(ratios.iter().filter_map(|ratios| Speed::of(ratios)).collect())
    }

    /// In how many ways each conversion runs: on this thread, and on all.
    fn ways(&self) -> usize {
        if self.threads.threads() > 1 { 2 } else { 1 }
    }

    /// The time of so many runs.
    fn time(&mut self, plan: &Plan, threads: &dyn Executor, runs: u32) -> Result<Duration> {
        let source = &self.source[..plan.source_bytes()];
        let destination = &mut self.destination[..plan.destination_bytes()];
        let begun = Instant::now();
        for _ in 0..runs {
            plan.execute_on(threads, source, destination)?;
        }
        Ok(begun.elapsed())
    }
}

/// The speed of some numbers by that of others, over several conversions.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Speed {
    /// The geometric mean.
    mean: f64,
    /// That of the conversion which it suits least.
    least: f64,
}

impl Speed {
    fn of(ratios: &[f64]) -> Option<Speed> {
        let least = ratios.iter().copied().reduce(f64::min)?;
        let logarithms: f64 = ratios.iter().map(|ratio| ratio.ln()).sum();
        Some(Speed { mean: (logarithms / ratios.len() as f64).exp(), least })
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(1.0)
}

/// The numbers with some of them changed.
fn with(tuning: &Tuning, changes: &[Change]) -> Tuning {
    let mut changed = *tuning;
    for &(name, place, number) in changes {
        if let Some(i) = Tuning::CONSTANTS.iter().position(|constant| constant.name == name) {
            changed.numbers_mut(i)[place] = number;
        }
    }
    changed
}

/// The constants that differ: name, numbers before and after.
fn differences(before: &Tuning, after: &Tuning) -> Vec<(&'static str, Vec<usize>, Vec<usize>)> {
    let all = Tuning::CONSTANTS.iter().enumerate();
    let differing = all.filter(|&(i, _)| before.numbers(i) != after.numbers(i));
    differing
        .map(|(i, constant)| (constant.name, before.numbers(i).to_vec(), after.numbers(i).to_vec()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tuning::builtin;

    #[test]
    fn every_question_names_constants_and_compiles() {
        let mut asked = Vec::new();
        for question in questions() {
            for changes in &question.candidates {
                for &(name, place, number) in changes {
                    let constant = Tuning::CONSTANTS.iter().find(|constant| constant.name == name);
                    let constant = constant.unwrap_or_else(|| panic!("{name}"));
                    assert!(place < constant.count, "{name} {place}");
                    asked.push(name);
                    assert_eq!(
                        with(&builtin::ZEN4, &[(name, place, number)]).check(),
                        Ok(()),
                        "{name} = {number}"
                    );
                }
            }
            for case in &question.cases {
                let plan = case.plan(16 << 20, &builtin::ZEN4).unwrap();
                assert!(plan.source_bytes().max(plan.destination_bytes()) <= 16 << 20, "{case:?}");
            }
        }
        asked.sort_unstable();
        asked.dedup();
        assert!(asked.len() > 12, "{asked:?}");
    }

    #[test]
    fn a_machine_is_measured_in_the_time_that_there_is() {
        let (source, mut destination) = (vec![0; LEAST_BYTES], vec![0; LEAST_BYTES]);
        let mut answers = Vec::new();
        let mut measure = |time| {
            answers.clear();
            let begun = Instant::now();
            let mut each = |answer: &Answer| answers.push(answer.clone());
            let tuning = tune(&builtin::ZEN4, &source, &mut destination, &Inline, time, &mut each).unwrap();
            assert_eq!(tuning.check(), Ok(()));
            assert_eq!(answers.len(), questions().len());
            let taken = answers.iter().filter(|answer| answer.taken).count();
            assert_eq!(taken == 0, tuning == builtin::ZEN4, "{answers:?}");
            (begun.elapsed(), answers.iter().filter(|answer| answer.speed.is_some()).count())
        };
        assert_eq!(measure(Duration::ZERO).1, 0);
        let (elapsed, measured) = measure(Duration::from_secs(2));
        assert!(measured > 0 && elapsed < Duration::from_secs(30), "{elapsed:?}");
        let error = tune(&builtin::ZEN4, &[], &mut [], &Inline, Duration::ZERO, &mut |_| {}).unwrap_err();
        assert_eq!(error.to_string(), "buffers to measure with: given 0, needed at least 1048576 bytes");
    }

    #[test]
    fn the_middle_turn_counts() {
        assert_eq!(median(vec![9.0, 1.0, 1.1, 0.9, 0.1]), 1.0);
        assert_eq!(Speed::of(&[2.0, 0.5]), Some(Speed { mean: 1.0, least: 0.5 }));
        assert_eq!(Speed::of(&[]), None);
    }

    #[test]
    fn changes_are_told_with_what_was_before() {
        let changed = with(&builtin::ZEN4, &[("segment", 0, 4096), ("transposed_lines", 2, 4)]);
        let expected =
            [("segment", vec![2048], vec![4096]), ("transposed_lines", vec![1, 1, 1, 1], vec![1, 1, 4, 1])];
        assert_eq!(differences(&builtin::ZEN4, &changed), expected);
    }
}
