//! `tilewright bench`: conversions beside memcpy of the same bytes, in the same run.

use std::time::{Duration, Instant};

use kernels::Isa;
use serde_json::json;
use tilewright::run::{Executor, Inline, Pool};

use super::arguments::{BenchArgs, beginning};
use super::failure::{Failure, Result};
use super::streams::print;
use tilewright_benches::pairs::{self, Measured};
use tilewright_benches::{Job, Memory, cases};

/// Each figure is the best of as many repetitions as this allows, and of three at least.
const BUDGET: Duration = Duration::from_millis(350);

/// One line of the table.
struct Row {
    name: &'static str,
    size: &'static str,
    threads: usize,
    /// See [`Job::bytes`].
    bytes: usize,
    ours: Duration,
    memcpy: Duration,
}

impl Row {
    fn rate(&self, time: Duration) -> f64 {
        self.bytes as f64 / time.as_secs_f64() / 1e9
    }

    fn ratio(&self) -> f64 {
        self.memcpy.as_secs_f64() / self.ours.as_secs_f64()
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
    let mut rows: Vec<Measured> = Vec::new();
    let filter = arguments.filter.as_deref().unwrap_or("");
    pairs::measure(n, isa, filter, &mut |measured| {
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
                    "g_elements_per_s": r.rate(), "ratio_to_roof": r.ratio_to_roof()})
            })
            .collect();
        return print(&format!("{:#}\n", json!({"cpu": cpu(), "isa": isa.name(), "size": n, "pairs": rows})));
    }
    print(&format!("cpu: {}\nlevel: {}, one thread, {n} x {n} elements\n", cpu(), isa.name()))?;
    print(&format!("{:<34} {:>14} {:>8} {:>14}\n", "pair", "G elements/s", "ms", "ratio to roof"))?;
    for r in &rows {
        let pair = format!("{} -> {}", r.from, r.to);
        let (ms, ratio) = (r.ours.as_secs_f64() * 1e3, r.ratio_to_roof());
        print(&format!("{pair:<34} {:>14.3} {ms:>8.2} {ratio:>14.2}\n", r.rate()))?;
    }
    Ok(())
}

fn run_cases(arguments: &BenchArgs, isa: Isa) -> Result<()> {
    if let Some(filter) = &arguments.filter {
        let names: Vec<&str> = cases().iter().map(|case| case.name).collect();
        if !names.iter().any(|name| name.contains(filter.as_str())) {
            let needed = format!("a part of one of these names: {}", names.join(", "));
            return Err(Failure::usage("filter", format!("`{}`", beginning(filter)), needed));
        }
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let pool = Pool::new(cores)?;
    let mut rows = Vec::new();
    if !arguments.json {
        print(&format!("cpu: {}\nlevel: {}, threads: 1 and {cores}\n", cpu(), isa.name()))?;
        print(&format!(
            "{:<30} {:>5} {:>7} {:>9} {:>9} {:>6}\n",
            "case", "size", "threads", "GB/s", "memcpy", "ratio"
        ))?;
    }
    let mut memory = Memory::new()?;
    for case in cases() {
        if arguments.filter.as_ref().is_some_and(|f| !case.name.contains(f.as_str())) {
            continue;
        }
        for (size, shape) in [("DRAM", &case.dram), ("L2", &case.l2)] {
            let job = case.at(shape, Some(isa))?;
            memory.prepare(&job)?;
            if size == "L2" {
                memory.check(&job, &Inline)?;
            }
            let all: [(usize, &dyn Executor); 2] = [(1, &Inline), (cores, &pool)];
            let take = if size == "DRAM" && cores > 1 { 2 } else { 1 };
            for &(threads, executor) in &all[..take] {
                let batch = if size == "L2" { 64 } else { 1 };
                let (ours, memcpy) = measure(&job, &mut memory, executor, batch)?;
                let row = Row { name: case.name, size, threads, bytes: job.bytes, ours, memcpy };
                if !arguments.json {
                    let (ours, memcpy, ratio) = (row.rate(row.ours), row.rate(row.memcpy), row.ratio());
                    print(&format!(
                        "{:<30} {:>5} {:>7} {ours:>9.1} {memcpy:>9.1} {ratio:>6.2}\n",
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
                    "gb_per_s": r.rate(r.ours), "memcpy_gb_per_s": r.rate(r.memcpy), "ratio": r.ratio()})
            })
            .collect();
        print(&format!(
            "{:#}\n",
            json!({"cpu": cpu(), "isa": isa.name(), "page_bytes": 2 << 20, "rows": rows})
        ))?;
    }
    Ok(())
}

/// The best time of the job and of memcpy, in turns of `batch` runs each, so that both see the same machine.
fn measure(
    job: &Job,
    memory: &mut Memory,
    executor: &dyn Executor,
    batch: u32,
) -> Result<(Duration, Duration)> {
    let (mut ours, mut memcpy) = (Duration::MAX, Duration::MAX);
    let begun = Instant::now();
    let mut turns = 0;
    while turns < 3 || begun.elapsed() < 2 * BUDGET {
        let start = Instant::now();
        for _ in 0..batch {
            memory.convert(job, executor)?;
        }
        ours = ours.min(start.elapsed() / batch);
        let start = Instant::now();
        for _ in 0..batch {
            memory.memcpy(executor);
        }
        memcpy = memcpy.min(start.elapsed() / batch);
        turns += 1;
    }
    Ok((ours, memcpy))
}

/// What the system calls the processor.
fn cpu() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = info.lines().find_map(|l| l.strip_prefix("model name")).and_then(|l| l.split(':').nth(1));
    name.map_or_else(|| std::env::consts::ARCH.to_owned(), |n| n.trim().to_owned())
}
