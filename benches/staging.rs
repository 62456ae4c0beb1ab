//! Staging through a link of a given bandwidth: the wall time beside what it can be at best.
//!
//! ```sh
//! cargo bench -p tilewright-benches --bench staging [-- --chart benches/staging.svg]
//! ```
//!
//! Prints a Markdown table, and draws it where a file is named. `fill` is a run whose sink takes slots for nothing,
//! `transfer` the bytes divided by the bandwidth, and the bound is the greater of both and one slot of the lesser.
//! Bandwidths are multiples of the rate at which slots are filled. Filling and the link run by turns; a row is the turn of the
//! median ratio of nine.
//!
//! With `--features cuda` the same cases also go to the first GPU, by way of pinned slots, where there is one.

use std::fmt::Write;
use std::time::Duration;

use tilewright::run::{Executor, Pool};
use tilewright::stage::{
    Blocking, HugePages, Link, Settings, Sink, Slot, Source, Stager, SystemClock, Transfer,
};
use tilewright_benches::{Case, Job, Memory};

const CASES: [&str; 2] = ["tilize f32", "f32 to bfp8 tiles"];
const SLOTS: usize = 3;
const SPEEDS: [f64; 5] = [0.25, 0.5, 1.0, 2.0, 4.0];
const RUNS: usize = 9;

fn main() -> tilewright::Result<()> {
    // As `cargo test` calls benches: once, and small.
    let test = std::env::args().any(|a| a == "--test");
    let sizes: &[usize] = if test { &[64 << 10] } else { &[1 << 20, 4 << 20, 16 << 20] };
    let executor = Pool::new(0)?;
    println!("Milliseconds; {SLOTS} slots; {} threads.\n", executor.threads());
    println!("| case | slot | link / fill | fill | transfer | bound | wall | wall / bound |");
    println!("|---|---|---|---|---|---|---|---|");
    let mut rows = Vec::new();
    for name in CASES {
        for &slot_bytes in sizes {
            rows.extend(table(name, slot_bytes, test, &executor)?);
        }
    }
    let worst = rows.iter().map(|row| row.wall / row.bound).fold(0.0, f64::max);
    let good = rows.iter().filter(|row| row.wall <= 1.05 * row.bound).count();
    println!("\n{good} of {} within 5 % of the bound, the farthest at {worst:.3} of it.", rows.len());
    #[cfg(feature = "cuda")]
    to_device(sizes, test, &executor)?;
    let mut arguments = std::env::args().skip_while(|a| a != "--chart").skip(1);
    if let Some(path) = arguments.next().filter(|_| !test) {
        let failed = |e| tilewright::Error::io(&path, "cannot write it", e);
        std::fs::write(&path, chart(&rows, sizes)).map_err(failed)?;
    }
    Ok(())
}

/// One row of the table; times are in seconds.
struct Row {
    case: &'static str,
    slot_bytes: usize,
    speed: f64,
    fill: f64,
    bound: f64,
    wall: f64,
}

/// A case of the size that is asked for, and its source.
fn prepared(name: &str, test: bool) -> tilewright::Result<(Job, Memory)> {
    let case = Case::named(name).ok_or_else(|| tilewright::Error::value("case", name, "one there is"))?;
    let job = case.at(if test { &case.l2 } else { &case.dram }, None)?;
    let mut memory = Memory::new(0)?;
    memory.prepare(&job)?;
    Ok((job, memory))
}

/// The rows of one case and one size of slots.
fn table(
    name: &'static str,
    slot_bytes: usize,
    test: bool,
    executor: &dyn Executor,
) -> tilewright::Result<Vec<Row>> {
    let (job, memory) = prepared(name, test)?;
    let transfers = [Transfer { plan: &job.plan, source: Source::Memory(&memory.source) }];
    let settings = Settings { executor, ..Settings::default() };
    let mut stager = Stager::new(SLOTS, slot_bytes, &mut HugePages)?;
    let mut run = |sink: &mut dyn Sink| stager.run(&transfers, sink, &settings);
    let free = || Blocking::new(|_: &Slot| Ok(()));
    run(&mut free())?;
    let first = run(&mut free())?;
    let (bytes, slots) = (first.bytes as f64, first.slots as f64);
    let mut rows = Vec::new();
    for speed in SPEEDS {
        let rate = speed * bytes / first.wall.as_secs_f64();
        let transfer = bytes / rate;
        let mut turns = Vec::new();
        for _ in 0..if test { 1 } else { RUNS } {
            let fill = run(&mut free())?.wall.as_secs_f64();
            let wall = run(&mut Link::new(&SystemClock, rate, Duration::ZERO))?.wall.as_secs_f64();
            turns.push(Row {
                case: name,
                slot_bytes,
                speed,
                fill,
                bound: bound(fill, transfer, slots),
                wall,
            });
        }
        // Each run beside the filling just before it, so that what else a machine does is in both.
        turns.sort_by(|a, b| (a.wall / a.bound).total_cmp(&(b.wall / b.bound)));
        let Row { fill, bound, wall, .. } = turns[turns.len() / 2];
        println!(
            "| {name} | {} KiB | {speed} | {:.2} | {:.2} | {:.2} | {:.2} | {:.3} |",
            slot_bytes >> 10,
            fill * 1e3,
            transfer * 1e3,
            bound * 1e3,
            wall * 1e3,
            wall / bound
        );
        rows.push(Row { case: name, slot_bytes, speed, fill, bound, wall });
    }
    Ok(rows)
}

/// The shortest of some runs to the first GPU, beside filling alone.
#[cfg(feature = "cuda")]
fn to_device(sizes: &[usize], test: bool, executor: &dyn Executor) -> tilewright::Result<()> {
    use std::sync::Arc;

    use tilewright::stage::{Cuda, CudaSink};

    let cuda = match Cuda::open(0) {
        Ok(cuda) => cuda,
        Err(error) => {
            println!("\nNothing goes to a GPU: {error}");
            return Ok(());
        }
    };
    println!("\n| to a GPU | slot | fill | wall | GB/s there |\n|---|---|---|---|---|");
    for name in CASES {
        let (job, memory) = prepared(name, test)?;
        let transfers = [Transfer { plan: &job.plan, source: Source::Memory(&memory.source) }];
        let settings = Settings { executor, ..Settings::default() };
        let buffer = Arc::new(cuda.buffer(job.plan.destination_bytes())?);
        let mut device = CudaSink::new(&cuda, vec![buffer])?;
        for &slot_bytes in sizes {
            let mut stager = Stager::new(SLOTS, slot_bytes, &mut cuda.pinned())?;
            let mut shortest = [f64::INFINITY; 2];
            for _ in 0..if test { 1 } else { RUNS } {
                let mut free = Blocking::new(|_: &Slot| Ok(()));
                let sinks: [&mut dyn Sink; 2] = [&mut free, &mut device];
                for (sink, shortest) in sinks.into_iter().zip(&mut shortest) {
                    *shortest = shortest.min(stager.run(&transfers, sink, &settings)?.wall.as_secs_f64());
                }
            }
            let ([fill, wall], bytes) = (shortest, job.plan.destination_bytes() as f64);
            println!(
                "| {name} | {} KiB | {:.2} | {:.2} | {:.1} |",
                slot_bytes >> 10,
                fill * 1e3,
                wall * 1e3,
                bytes / wall / 1e9
            );
        }
    }
    Ok(())
}

/// What the wall time can be at best: the greater of filling and moving, and one slot of the lesser.
fn bound(fill: f64, transfer: f64, slots: f64) -> f64 {
    fill.max(transfer) + fill.min(transfer) / slots
}

/// Width and height of the part of the chart that a case has, in pixels, and the margins around it.
const PANEL: [f64; 2] = [300.0, 220.0];
const MARGIN: [f64; 2] = [52.0, 34.0];
/// The greatest ratio of times that is drawn.
const TOP: f64 = 1.2;
const COLORS: [&str; 3] = ["#0b6e99", "#c4551a", "#4b7a2b"];

/// A chart, as SVG: for each case the wall time over the bandwidth, both as ratios to filling, beside the greater of
/// filling and moving.
fn chart(rows: &[Row], sizes: &[usize]) -> String {
    let [width, height] = PANEL;
    let [left, top] = MARGIN;
    let all = (CASES.len() as f64 * (width + left) + 20.0, height + 2.5 * top + 18.0);
    let mut svg = format!(
        "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {} {}' font-family='sans-serif' font-size='12'>\n\
         <rect width='100%' height='100%' fill='white'/>\n",
        all.0, all.1
    );
    let mut line = |text: String| {
        let _ = writeln!(svg, "{text}");
    };
    for (k, case) in CASES.into_iter().enumerate() {
        let x0 = left + k as f64 * (width + left);
        let x = |speed: f64| x0 + (speed.log2() + 2.5) / 5.0 * width;
        let y = |ratio: f64| top + (1.0 - ratio.min(TOP) / TOP) * height;
        line(format!("<text x='{x0}' y='{}' font-weight='bold'>{case}</text>", top - 14.0));
        line(format!("<path d='M{x0} {top}V{}H{}' fill='none' stroke='black'/>", y(0.0), x0 + width));
        for speed in SPEEDS {
            let (at, below) = (x(speed), y(0.0) + 16.0);
            line(format!("<text x='{at}' y='{below}' text-anchor='middle'>{speed}</text>"));
        }
        for (ratio, colour) in [(0.5, "#ddd"), (1.0, "#888"), (1.05, "#ddd")] {
            let (at, high) = (x0 - 8.0, y(ratio));
            line(format!("<path d='M{x0} {high}h{width}' stroke='{colour}'/>"));
            if ratio <= 1.0 {
                line(format!("<text x='{at}' y='{}' text-anchor='end'>{ratio}</text>", high + 4.0));
            }
        }
        for row in rows.iter().filter(|row| row.case == case) {
            let color = COLORS[sizes.iter().position(|s| *s == row.slot_bytes).unwrap_or(0) % COLORS.len()];
            let (cx, cy) = (x(row.speed), y(row.wall / row.bound));
            line(format!(
                "<circle cx='{cx:.1}' cy='{cy:.1}' r='4' fill='none' stroke='{color}' stroke-width='2'/>"
            ));
        }
    }
    let below = top + height + 38.0;
    line(format!(
        "<text x='{left}' y='{below}'>bandwidth of the link / rate of filling; upward: wall time / bound; the lighter line is 5 % \
         above it</text>"
    ));
    for (i, size) in sizes.iter().enumerate() {
        let (at, color) = (left + 110.0 * i as f64, COLORS[i % COLORS.len()]);
        let text = format!("slots of {} MiB", size >> 20);
        line(format!("<text x='{at}' y='{}' fill='{color}'>{text}</text>", below + 18.0));
    }
    svg + "</svg>\n"
}
