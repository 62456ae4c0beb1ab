//! Staging through a link of a given bandwidth: the wall time beside what it can be at best.
//!
//! ```sh
//! cargo bench -p tilewright-benches --bench staging
//! ```
//!
//! Prints a Markdown table. `fill` is a run whose sink takes slots for nothing, `transfer` the bytes divided by the
//! bandwidth, and the bound is the greater of both and one slot of the lesser. Bandwidths are multiples of the rate at
//! which slots are filled. Each figure is the median of five runs.

use std::time::Duration;

use tilewright::run::{Executor, Pool};
use tilewright::stage::{
    Blocking, HugePages, Link, Report, Settings, Sink, Slot, Source, Stager, SystemClock, Transfer,
};
use tilewright_benches::{Case, Memory};

const CASES: [&str; 2] = ["tilize f32", "f32 to bfp8 tiles"];
const SLOTS: usize = 3;
const SPEEDS: [f64; 5] = [0.25, 0.5, 1.0, 2.0, 4.0];
const RUNS: usize = 5;

fn main() -> tilewright::Result<()> {
    // As `cargo test` calls benches: once, and small.
    let test = std::env::args().any(|a| a == "--test");
    let sizes: &[usize] = if test { &[64 << 10] } else { &[1 << 20, 4 << 20, 16 << 20] };
    let executor = Pool::new(0)?;
    println!("Milliseconds; {SLOTS} slots; {} threads.\n", executor.threads());
    println!("| case | slot | link / fill | fill | transfer | bound | wall | wall / bound |");
    println!("|---|---|---|---|---|---|---|---|");
    for name in CASES {
        for &slot_bytes in sizes {
            table(name, slot_bytes, test, &executor)?;
        }
    }
    Ok(())
}

/// The rows of one case and one size of slots.
fn table(name: &str, slot_bytes: usize, test: bool, executor: &dyn Executor) -> tilewright::Result<()> {
    let case = Case::named(name).ok_or_else(|| tilewright::Error::value("case", name, "one there is"))?;
    let job = case.at(if test { &case.l2 } else { &case.dram }, None)?;
    let mut memory = Memory::new()?;
    memory.prepare(&job)?;
    let transfers = [Transfer { plan: &job.plan, source: Source::Memory(&memory.source) }];
    let settings = Settings { executor, ..Settings::default() };
    let mut stager = Stager::new(SLOTS, slot_bytes, &mut HugePages)?;
    let mut run = |sink: &mut dyn FnMut() -> Box<dyn Sink>| -> tilewright::Result<Report> {
        let mut reports = Vec::new();
        for _ in 0..if test { 1 } else { RUNS } {
            reports.push(stager.run(&transfers, &mut *sink(), &settings)?);
        }
        reports.sort_by_key(|r| r.wall);
        Ok(reports[reports.len() / 2])
    };
    run(&mut || Box::new(Blocking::new(|_: &Slot| Ok(()))))?;
    let fill = run(&mut || Box::new(Blocking::new(|_: &Slot| Ok(()))))?;
    let (bytes, slots) = (fill.bytes as f64, fill.slots as f64);
    for speed in SPEEDS {
        let rate = speed * bytes / fill.wall.as_secs_f64();
        let report = run(&mut || Box::new(Link::new(&SystemClock, rate, Duration::ZERO)))?;
        let (fill, transfer, wall) = (fill.wall.as_secs_f64(), bytes / rate, report.wall.as_secs_f64());
        let bound = fill.max(transfer) + fill.min(transfer) / slots;
        println!(
            "| {name} | {} KiB | {speed} | {:.2} | {:.2} | {:.2} | {:.2} | {:.3} |",
            slot_bytes >> 10,
            fill * 1e3,
            transfer * 1e3,
            bound * 1e3,
            wall * 1e3,
            wall / bound
        );
    }
    Ok(())
}
