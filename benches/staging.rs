//! Staging through a link of a given bandwidth: the wall time beside what it can be at best.
//!
//! ```sh
//! cargo bench -p tilewright-benches --bench staging [-- --chart benches/staging.svg]
//! ```
//!
//! Prints a Markdown table, and draws it where a file is named. `fill` is a run whose sink takes slots for nothing,
//! `transfer` the bytes divided by the bandwidth, and the bound is the greater of both and one slot of the lesser.
//! Bandwidths are multiples of the rate at which slots are filled. Each figure is the median of five runs, those of filling and
//! of the link by turns.

use std::fmt::Write;
use std::time::Duration;

use tilewright::run::{Executor, Pool};
use tilewright::stage::{
    Blocking, HugePages, Link, Settings, Sink, Slot, Source, Stager, SystemClock, Transfer,
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
    let mut rows = Vec::new();
    for name in CASES {
        for &slot_bytes in sizes {
            rows.extend(table(name, slot_bytes, test, &executor)?);
        }
    }
    let worst = rows.iter().map(|row| row.wall / row.bound).fold(0.0, f64::max);
    let good = rows.iter().filter(|row| row.wall <= 1.05 * row.bound).count();
    println!("\n{good} of {} within 5 % of the bound, the farthest at {worst:.3} of it.", rows.len());
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

/// The rows of one case and one size of slots.
fn table(
    name: &'static str,
    slot_bytes: usize,
    test: bool,
    executor: &dyn Executor,
) -> tilewright::Result<Vec<Row>> {
    let case = Case::named(name).ok_or_else(|| tilewright::Error::value("case", name, "one there is"))?;
    let job = case.at(if test { &case.l2 } else { &case.dram }, None)?;
    let mut memory = Memory::new()?;
    memory.prepare(&job)?;
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
        let (mut fills, mut walls) = (Vec::new(), Vec::new());
        // By turns, so that what else a machine does is in both.
        for _ in 0..if test { 1 } else { RUNS } {
            fills.push(run(&mut free())?.wall);
            walls.push(run(&mut Link::new(&SystemClock, rate, Duration::ZERO))?.wall);
        }
        let (fill, transfer, wall) = (median(fills), bytes / rate, median(walls));
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
        rows.push(Row { case: name, slot_bytes, speed, fill, bound, wall });
    }
    Ok(rows)
}

/// In seconds.
fn median(mut times: Vec<Duration>) -> f64 {
    times.sort();
    times[times.len() / 2].as_secs_f64()
}

/// Width and height of the part of the chart that a case has, in pixels, and the margins around it.
const PANEL: [f64; 2] = [300.0, 220.0];
const MARGIN: [f64; 2] = [52.0, 34.0];
/// The greatest ratio of times that is drawn.
const TOP: f64 = 4.5;
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
        for ratio in 1..=4 {
            let (at, high) = (x0 - 8.0, y(f64::from(ratio)));
            line(format!("<path d='M{x0} {high}h{width}' stroke='#ddd'/>"));
            line(format!("<text x='{at}' y='{}' text-anchor='end'>{ratio}</text>", high + 4.0));
        }
        let curve: Vec<String> = (0..=50)
            .map(|i| 2_f64.powf(f64::from(i) / 10.0 - 2.5))
            .map(|speed| format!("{:.1},{:.1}", x(speed), y((1.0 / speed).max(1.0))))
            .collect();
        line(format!("<polyline points='{}' fill='none' stroke='#888'/>", curve.join(" ")));
        for row in rows.iter().filter(|row| row.case == case) {
            let color = COLORS[sizes.iter().position(|s| *s == row.slot_bytes).unwrap_or(0) % COLORS.len()];
            let (cx, cy) = (x(row.speed), y(row.wall / row.fill));
            line(format!(
                "<circle cx='{cx:.1}' cy='{cy:.1}' r='4' fill='none' stroke='{color}' stroke-width='2'/>"
            ));
        }
    }
    let below = top + height + 38.0;
    line(format!(
        "<text x='{left}' y='{below}'>bandwidth of the link / rate of filling; upward: wall time / time of filling; grey: \
         the greater of filling and moving</text>"
    ));
    for (i, size) in sizes.iter().enumerate() {
        let (at, color) = (left + 110.0 * i as f64, COLORS[i % COLORS.len()]);
        let text = format!("slots of {} MiB", size >> 20);
        line(format!("<text x='{at}' y='{}' fill='{color}'>{text}</text>", below + 18.0));
    }
    svg + "</svg>\n"
}
