//! How nests run: which loops a kernel gets, which are taken in blocks, and in which order.
//!
//! Memory decides the speed of a copy. An ordinary store to a line that is in no cache reads the line first; a
//! non-temporal store does not, and is twice as fast, if whole lines are written one soon after the other. And memory
//! likes its bytes in long runs. So the destination is made in *segments*, runs of bytes that follow one another, and
//! where the source runs across segments, blocks of segments are made together, so that the source too is read in
//! whole lines and long runs.
//!
//! - [`direct`]: elements that come in whole aligned stores (a row of a face, a stick) go from source to destination at
//!   once.
//! - [`assembled`]: all others (transposes, conversions, ragged rows) are assembled in L1, a block at a time, and
//!   written from there; what later blocks read is fetched meanwhile.
//! - [`tiles`]: tiles are packed a row of tiles at a time.
//! - [`cached`](assembled::cached): what stays in the caches is not assembled.
//!
//! No choice made here can change a byte: the verifier proves that of the schedule of each plan.

mod assembled;
mod blocks;
mod direct;
mod tiles;

use super::conversion::Conversion;
use super::ir::{LINE, Leaf, Loop, Nest, Schedule, ScheduledNest};

/// Chooses how each nest runs.
pub(super) fn schedule(nests: Vec<Nest>, conversion: Conversion<'_>) -> Vec<ScheduledNest> {
    let Conversion { src, dst, op, streams } = conversion;
    let scheduled = |nest: Nest| {
        let Nest { at, mut loops, leaf, schedule: () } = nest;
        let schedule = match &leaf {
            Leaf::Fill => fill(&loops, dst.block_bytes),
            Leaf::Pack(parts) => tiles::schedule(&loops, parts, src, dst, streams),
            Leaf::Element if streams && direct::applies(&loops, src, op) => direct::schedule(&mut loops, dst),
            Leaf::Element => {
                let (schedule, segment) = assembled::schedule(&loops, src, dst, op);
                // Segments under one cache line gain nothing from assembly.
                if streams && segment >= LINE as i64 {
                    schedule
                } else {
                    assembled::cached(&loops, src, schedule)
                }
            }
        };
        Nest { at, loops, leaf, schedule }
    };
    nests.into_iter().map(scheduled).collect()
}

/// A fill is runs of bytes: the innermost loop is the run, the next one the rows of a call.
fn fill(loops: &[Loop], block_bytes: usize) -> Schedule {
    let mut schedule = Schedule::new(loops);
    let Some(last) = loops.len().checked_sub(1) else { return schedule };
    if loops[last].step[4] == block_bytes as i64 {
        schedule.cols = Some(last);
        schedule.rows = last.checked_sub(1).filter(|&r| loops[r].step[3] == 0);
    }
    for i in [schedule.rows, schedule.cols].into_iter().flatten() {
        schedule.blocks[i] = loops[i].n;
    }
    schedule
}
