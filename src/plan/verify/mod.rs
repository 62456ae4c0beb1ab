//! The verifier: what must hold before a plan exists, proved of the nests as they are scheduled.
//!
//! It shares no code with lowering and scheduling, and trusts only what the layouts' families state: which cell each
//! coordinate of an axis falls on, how far the digits of a cell step, and how units lie in buffers.
//!
//! - **V1** Destinations are disjoint and cover every byte of every unit. Each nest's iterations follow one another
//!   upward, its blocks take each iteration once, what a block assembles lies apart in its scratch and fills whole runs
//!   of the destination, and the distribution sends the units one to one to their places.
//! - **V2** Every source address lies inside of the source.
//! - **V3** Every chunk boundary is a boundary between leaves: leaves begin at multiples of a block inside of one unit, and
//!   [`Plan::chunk_alignment`](super::Plan::chunk_alignment) is a block or, where blocks and units do not divide, a unit.
//! - **V4** Every leaf keeps to its block: tiles start on tiles, slots stay inside of them, the parts of a tile do not
//!   meet, and a tile that is read in place is read as its part says.
//! - **V5** Every element comes from where the two layouts say. For each nest the logical index is found from the
//!   destination's side, at the first iteration and one step along each loop; then both layouts are followed forward over
//!   all iterations at once, as sums of one term for each loop. Where an axis is not such a sum over the whole nest, the
//!   nest is taken apart where it breaks. As many elements are moved as the tensor has, so fills cover nothing but padding.
//!
//! V5 is exact but for nests that break into more parts than [`values::MAX_BOXES`]: of these the ends of all loops and
//! some other iterations are checked, and [`Verified::sampled`] counts them.
//!
//! Not proved, but tested: that a kernel does what its call says.

mod blocks;
mod cover;
mod reads;
mod schedule;
mod values;

use std::ops::Deref;

use super::conversion::Conversion;
use super::ir::{MAX_LOOPS, ScheduledNest};
use crate::error::{Error, Result};
use crate::layout::Layout;

/// Nests of which V1 to V5 hold; only [`verify`] makes them.
#[derive(Debug, Clone)]
pub(crate) struct Verified {
    nests: Box<[ScheduledNest]>,
    sampled: usize,
}

impl Deref for Verified {
    type Target = [ScheduledNest];

    fn deref(&self) -> &[ScheduledNest] {
        &self.nests
    }
}

impl Verified {
    /// How many nests were too ragged for an exact proof of V5.
    pub(crate) fn sampled(&self) -> usize {
        self.sampled
    }
}

/// Proves V1 to V5.
///
/// # Errors
/// [`Error::Unverified`] where one of them does not hold, which is a defect; [`Error::TooComplex`] where a nest has more
/// than [`MAX_LOOPS`] loops, the nests interleave in so many ways that the proof of V1 takes too long, or they break into so
/// many parts that the proof of V5 does.
pub(crate) fn verify(
    nests: Vec<ScheduledNest>,
    conversion: Conversion<'_>,
    source: &Layout,
    destination: &Layout,
) -> Result<Verified> {
    if let Some(nest) = nests.iter().find(|n| n.loops.len() > MAX_LOOPS) {
        let what = format!("a nest of {} loops", nest.loops.len());
        return Err(Error::TooComplex { what, cap: MAX_LOOPS });
    }
    for space in [&source.space, &destination.space] {
        cover::distributes(space)?;
    }
    cover::covers(&nests, destination)?;
    for nest in &nests {
        reads::stay_inside(nest, source)?;
        blocks::keep(nest, conversion, destination)?;
        schedule::runs_every_iteration(nest, conversion)?;
    }
    let sampled = values::belong(&nests, source, destination)?;
    Ok(Verified { nests: nests.into(), sampled })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::ir::{Loop, Schedule};
    use crate::plan::{Plan, lower, schedule};
    use crate::{DType, Descriptor, Options, Placement, Tensor};

    /// Loops of one iteration up to the bound, and one more.
    #[test]
    fn nests_of_too_many_loops_are_refused() {
        let tensor = Tensor::new([2, 3], DType::F32);
        let lay =
            |text: &str| text.parse::<Descriptor>().unwrap().layout(&tensor, &Placement::default()).unwrap();
        let (from, to) = (lay("memref<2x3xf32>"), lay("memref<2x3xf32, strided<[1, 2]>>"));
        let plan = Plan::compile(&from, &to, &Options::default()).unwrap();
        let conversion = plan.conversion();
        let nests = schedule::schedule(lower::lower(&from, &to, to.padding().unwrap()).unwrap(), conversion);
        assert_eq!(verify(nests.clone(), conversion, &from, &to).unwrap().sampled(), 0);
        let of = |loops: usize| {
            let mut nests = nests.clone();
            let nest = &mut nests[0];
            while nest.loops.len() < loops {
                nest.loops.insert(0, Loop { n: 1, step: [0, 4, 0, 0, 24, 0] });
            }
            nest.schedule = Schedule::new(&nest.loops);
            verify(nests, conversion, &from, &to)
        };
        of(MAX_LOOPS).unwrap();
        assert!(matches!(of(MAX_LOOPS + 1), Err(Error::TooComplex { cap: MAX_LOOPS, .. })));
    }
}
