//! `tilewright bench`: conversions beside memcpy of the same bytes, in the same run.

use std::ffi::OsStr;
use std::time::{Duration, Instant};

use kernels::Isa;
use serde_json::json;
use tilewright::Result as LibraryResult;
use tilewright::run::{AlignedBuffer, Executor, Inline, Pool};
use tilewright::tuning::{Profile, Tuning, in_force};

use super::arguments::{BenchArgs, beginning};
use super::failure::{Failure, Result};
use super::streams::print;
use tilewright_benches::pairs::{self, Measured};
use tilewright_benches::{Job, Memory, Roof, Shortest, Turns, cases};

/// Each figure is the best of as many repetitions as this allows, and of three at least.
const BUDGET: Duration = Duration::from_millis(350);

/// One line of the table.
struct Row {
    name: &'static str,
    size: &'static str,
    threads: usize,
    /// See [`Job::bytes`].
    bytes: usize,
    times: Times,
}

/// What was measured of a job.
struct Times {
    ours: Duration,
    memcpy: Duration,
    /// The fastest plain movement of what is read and written.
    roof: Duration,
    /// How many times as fast it is by each of the other profiles: the median of the turns.
    speeds: Vec<f64>,
}

impl Row {
    fn rate(&self, time: Duration) -> f64 {
        self.bytes as f64 / time.as_secs_f64() / 1e9
    }

    fn ratio(&self) -> f64 {
        self.times.memcpy.as_secs_f64() / self.times.ours.as_secs_f64()
    }

    fn ratio_to_roof(&self) -> f64 {
        self.times.roof.as_secs_f64() / self.times.ours.as_secs_f64()
    }
}

pub(crate) fn run(arguments: &BenchArgs, isa: Isa) -> Result<()> {
    if arguments.pairs { run_pairs(arguments, isa) } else { run_cases(arguments, isa) }
}

/// Pairs of layouts, the slowest first.
fn run_pairs(arguments: &BenchArgs, isa: Isa) -> Result<()> {
    let n = arguments.size;
    if n == 0 || !n.is_multiple_of(256) || n > 1 << 15 {
        return Err(Failure::usage("--size", n, "a multiple of 256, at most 32768"));
    }
    let (base, others) = tables(arguments)?;
    let tunings: Vec<Tuning> = std::iter::once(base).chain(others.iter().map(Profile::tuning)).collect();
    let mut rows: Vec<Measured> = Vec::new();
    let filter = arguments.filter.as_deref().unwrap_or("");
    pairs::measure(n, isa, &tunings, filter, &mut |measured| {
        rows.push(measured);
        Ok(())
    })?;
    if rows.is_empty() {
        let needed = "a part of a pair's name, such as `bf16 -> bfp8 tiles`";
        return Err(Failure::usage("filter", format!("`{}`", beginning(filter)), needed));
    }
    rows.sort_by(|a, b| a.rate().total_cmp(&b.rate()));
    if arguments.json {
        let rows: Vec<_> = rows
            .iter()
            .map(|r| {
                json!({"from": r.from, "to": r.to, "elements": r.elements, "read": r.read, "written": r.written,
                    "seconds": r.ours.as_secs_f64(), "roof_seconds": r.roof.as_secs_f64(),
                    "g_elements_per_s": r.rate(), "ratio_to_roof": r.ratio_to_roof(), "speeds": r.speeds})
            })
            .collect();
        return print(&format!(
            "{:#}\n",
            json!({"cpu": cpu(), "isa": isa.name(), "profile": profile()?, "against": origins(&others), "size": n,
                "pairs": rows})
        ));
    }
    print(&format!("{}level: {}, one thread, {n} x {n} elements\n", head()?, isa.name()))?;
    print_others(&others)?;
    let speeds = headings(&others);
    print(&format!("{:<34} {:>14} {:>8} {:>14}{speeds}\n", "pair", "G elements/s", "ms", "ratio to roof"))?;
    for r in &rows {
        let pair = format!("{} -> {}", r.from, r.to);
        let (ms, ratio) = (r.ours.as_secs_f64() * 1e3, r.ratio_to_roof());
        let speeds = columns(&r.speeds);
        print(&format!("{pair:<34} {:>14.3} {ms:>8.2} {ratio:>14.2}{speeds}\n", r.rate()))?;
    }
    let reach = |least: f64| rows.iter().filter(|r| r.ratio_to_roof() >= least).count();
    print(&format!("{} pairs: {} reach 0.4 of the roof, {} reach 0.7\n", rows.len(), reach(0.4), reach(0.7)))
}

fn run_cases(arguments: &BenchArgs, isa: Isa) -> Result<()> {
    if let Some(filter) = &arguments.filter {
        let names: Vec<&str> = cases().iter().map(|case| case.name).collect();
        if !names.iter().any(|name| name.contains(filter.as_str())) {
            let needed = format!("a part of one of these names: {}", names.join("; "));
            return Err(Failure::usage("filter", format!("`{}`", beginning(filter)), needed));
        }
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let pool = Pool::new(cores)?;
    let (base, others) = tables(arguments)?;
    let mut rows = Vec::new();
    if !arguments.json {
        let behind = match arguments.offset {
            0 => String::new(),
            offset => format!(", tensors begin {offset} bytes behind a boundary of lines"),
        };
        print(&format!("{}level: {}, threads: 1 and {cores}{behind}\n", head()?, isa.name()))?;
    }
    let streams = streams(&pool)?;
    if !arguments.json {
        for s in &streams {
            let Stream { size, threads, read, written } = s;
            print(&format!(
                "{size:<4} {threads} threads: {read:.1} GB/s read only, {written:.1} GB/s written only\n"
            ))?;
        }
        print_others(&others)?;
        let speeds = headings(&others);
        print(&format!(
            "{:<30} {:>5} {:>7} {:>9} {:>9} {:>6} {:>9} {:>6}{speeds}\n",
            "case", "size", "threads", "GB/s", "memcpy", "ratio", "roof", "ratio"
        ))?;
    }
    let mut memory = Memory::new(arguments.offset as usize)?;
    for case in cases() {
        if arguments.filter.as_ref().is_some_and(|f| !case.name.contains(f.as_str())) {
            continue;
        }
        for (size, shape) in [("DRAM", &case.dram), ("L2", &case.l2)] {
            let tunings = std::iter::once(base).chain(others.iter().map(Profile::tuning));
            let jobs = tunings
                .map(|tuning| case.at_with(shape, Some(isa), &tuning))
                .collect::<LibraryResult<Vec<_>>>()?;
            memory.prepare(&jobs[0])?;
            if size == "L2" {
                jobs.iter().try_for_each(|job| memory.check(job, &Inline))?;
            }
            let all: [(usize, &dyn Executor); 2] = [(1, &Inline), (cores, &pool)];
            let take = if size == "DRAM" && cores > 1 { 2 } else { 1 };
            for &(threads, executor) in &all[..take] {
                let batch = if size == "L2" { 64 } else { 1 };
                let times = measure(&jobs, &mut memory, executor, batch)?;
                let row = Row { name: case.name, size, threads, bytes: jobs[0].bytes, times };
                if !arguments.json {
                    let Times { ours, memcpy, roof, speeds } = &row.times;
                    let [ours, memcpy, roof] = [ours, memcpy, roof].map(|time| row.rate(*time));
                    let (ratio, to_roof) = (row.ratio(), row.ratio_to_roof());
                    let speeds = columns(speeds);
                    print(&format!(
                        "{:<30} {:>5} {:>7} {ours:>9.1} {memcpy:>9.1} {ratio:>6.2} {roof:>9.1} {to_roof:>6.2}{speeds}\n",
                        row.name, row.size, row.threads
                    ))?;
                }
                rows.push(row);
            }
        }
    }
    if arguments.json {
        let rows: Vec<_> = rows
            .iter()
            .map(|r| {
                json!({"case": r.name, "size": r.size, "threads": r.threads, "bytes": r.bytes,
                    "gb_per_s": r.rate(r.times.ours), "memcpy_gb_per_s": r.rate(r.times.memcpy), "ratio": r.ratio(),
                    "roof_gb_per_s": r.rate(r.times.roof), "ratio_to_roof": r.ratio_to_roof(),
                    "speeds": r.times.speeds})
            })
            .collect();
        print(&format!(
            "{:#}\n",
            json!({"cpu": cpu(), "isa": isa.name(), "profile": profile()?,
                "against": origins(&others), "cores": cores, "offset": arguments.offset,
                "page_bytes": 2 << 20,
                "streams": streams.iter().map(Stream::json).collect::<Vec<_>>(), "rows": rows})
        ))?;
    }
    Ok(())
}

/// How fast bytes are only read and only written, in GB/s.
struct Stream {
    size: &'static str,
    threads: usize,
    read: f64,
    written: f64,
}

impl Stream {
    fn json(&self) -> serde_json::Value {
        let Stream { size, threads, read, written } = self;
        json!({"size": size, "threads": threads, "read_gb_per_s": read, "written_gb_per_s": written})
    }
}

/// Which side of a conversion binds: streams of bytes that are only read, and that are only written, in memory by one thread
/// and by all, and in a core's own cache.
fn streams(pool: &Pool) -> Result<Vec<Stream>> {
    let mut all = Vec::new();
    let (mut source, mut destination) = (AlignedBuffer::new(0)?, AlignedBuffer::new(0)?);
    let sizes: [(&str, usize, u32, &dyn Executor); 3] =
        [("DRAM", 256 << 20, 1, &Inline), ("DRAM", 256 << 20, 1, pool), ("L2", 256 << 10, 64, &Inline)];
    for (size, bytes, batch, executor) in sizes {
        if size == "DRAM" && executor.threads() == 1 && !all.is_empty() {
            continue;
        }
        source.resize(bytes)?;
        destination.resize(bytes)?;
        source.fill(1);
        destination.fill(1);
        let mut shortest = [Shortest::default(); 2];
        let ways = [Roof::new(bytes, 0)?, Roof::new(0, bytes)?];
        for _ in 0..5 {
            ways[0].turn(executor, &source, &mut destination, batch, &mut shortest[0])?;
            ways[1].turn(executor, &source, &mut destination, batch, &mut shortest[1])?;
        }
        let [read, written] = shortest.map(|s| bytes as f64 / s.total().as_secs_f64() / 1e9);
        all.push(Stream { size, threads: executor.threads(), read, written });
    }
    Ok(all)
}

/// The best time of the first job, of memcpy and of the roof, in turns of `batch` runs each, so that all see the same machine. The
/// other jobs are the same by other profiles, and take their turns too.
fn measure(jobs: &[Job], memory: &mut Memory, executor: &dyn Executor, batch: u32) -> Result<Times> {
    let (mut memcpy, mut shortest) = (Duration::MAX, Shortest::default());
    let Some(job) = jobs.first() else { unreachable!("a case by the profile in force") };
    let roof = Roof::new(job.plan.source_bytes(), job.plan.destination_bytes())?;
    let mut turns = Turns::new(jobs.len());
    let begun = Instant::now();
    while turns.taken() < 3 || begun.elapsed() < BUDGET * (1 + jobs.len() as u32) {
        turns.take(batch, |job| memory.convert(&jobs[job], executor))?;
        let start = Instant::now();
        for _ in 0..batch {
            memory.memcpy(executor);
        }
        memcpy = memcpy.min(start.elapsed() / batch);
        memory.roof(&roof, executor, batch, &mut shortest)?;
    }
    Ok(Times { ours: turns.shortest(), memcpy, roof: shortest.total(), speeds: turns.speeds() })
}

/// The numbers in force, and the other profiles that take their turns.
fn tables(arguments: &BenchArgs) -> Result<(Tuning, Vec<Profile>)> {
    let base = in_force()?.tuning();
    let others = arguments.against.iter().map(|given| profile_of(given, &base)).collect::<Result<_>>()?;
    Ok((base, others))
}

/// Says which other profile each column of speeds is of.
fn print_others(others: &[Profile]) -> Result<()> {
    for (i, profile) in others.iter().enumerate() {
        print(&format!("speed {}: by {}, where the profile in force has 1\n", i + 1, profile.origin()))?;
    }
    Ok(())
}

/// The headings of these columns.
fn headings(others: &[Profile]) -> String {
    (1..=others.len()).map(|i| format!(" {:>8}", format!("speed {i}"))).collect()
}

/// The columns.
fn columns(speeds: &[f64]) -> String {
    speeds.iter().map(|speed| format!(" {speed:>8.2}")).collect()
}

/// Where these profiles come from.
fn origins(others: &[Profile]) -> Vec<String> {
    others.iter().map(|profile| profile.origin().to_string()).collect()
}

/// The profile of a text such as `direct_pair = 512; direct_runs = 4`, or the one of this name or in this file. What it does not name is
/// as in `base`.
fn profile_of(given: &str, base: &Tuning) -> Result<Profile> {
    Ok(if given.contains('=') {
        Profile::parse(&given.replace(';', "\n"), given, base)?
    } else {
        Profile::find(OsStr::new(given), "--against", base)?
    })
}

/// The numbers that plans are scheduled by, by their name.
fn profile() -> Result<String> {
    Ok(in_force()?.origin().to_string())
}

/// What the figures were measured on.
fn head() -> Result<String> {
    Ok(format!("cpu: {}\nprofile: {}\n", cpu(), profile()?))
}

/// What the system calls the processor.
fn cpu() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = info.lines().find_map(|l| l.strip_prefix("model name")).and_then(|l| l.split(':').nth(1));
    name.map_or_else(|| std::env::consts::ARCH.to_owned(), |n| n.trim().to_owned())
}
