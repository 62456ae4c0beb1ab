//! Plans as text: one stable line for each nest.

use std::fmt;

use super::ir::{Leaf, ScheduledNest, dst, src};
use super::{Op, Plan, schedule};
use crate::layout::axis::Addr;

impl fmt::Display for Plan {
    /// A line of totals, then a line for each nest: what the leaf does, the loops with their destination and source steps,
    /// outermost first, and behind the bar how it runs, where loops are named by their places in front of it, from 0.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} -> {}: {} bytes to {} bytes, {} nests{}, isa {}, {} stores",
            self.src.format,
            self.dst.format,
            self.source_bytes(),
            self.destination_bytes(),
            self.nests.len(),
            match self.nests.sampled() {
                0 => String::new(),
                sampled => format!(" (the values of {sampled} proved by samples)"),
            },
            self.isa().name(),
            if self.streams { "non-temporal" } else { "cached" },
        )?;
        for nest in self.nests.iter() {
            writeln!(f, "  {}{}:{} | {}", Kernel(self, nest), Start(nest), Loops(nest), Runs(self, nest))?;
        }
        Ok(())
    }
}

/// What a leaf does.
struct Kernel<'a>(&'a Plan, &'a ScheduledNest);

impl fmt::Display for Kernel<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Kernel(plan, nest) = self;
        match (&nest.leaf, plan.op) {
            (Leaf::Fill, _) => write!(f, "fill"),
            (Leaf::Element, Op::Copy(bytes)) => write!(f, "copy {bytes}"),
            (Leaf::Element, Op::Convert(from, to)) => write!(f, "convert {} {}", from.name(), to.name()),
            (Leaf::Element, Op::Cast { .. }) => write!(f, "cast {} {}", plan.src.format, plan.dst.format),
            (Leaf::Pack(_), _) => write!(f, "pack {}", plan.dst.format),
        }
    }
}

/// Where a nest begins on both sides.
struct Start<'a>(&'a ScheduledNest);

impl fmt::Display for Start<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Start(nest) = self;
        write!(f, " at {}", Place(dst(nest.at)))?;
        match &nest.leaf {
            Leaf::Fill => Ok(()),
            Leaf::Element => write!(f, " <- {}", Place(src(nest.at))),
            Leaf::Pack(parts) => parts.iter().try_for_each(|part| {
                write!(f, " <- {} slot {}", Place(part.src), part.slot)?;
                let mut loops = part.loops.iter();
                loops.try_for_each(|l| write!(f, " {}x({} <- {})", l.n, l.step[5], Place(l.src())))
            }),
        }
    }
}

/// The loops of a nest, with the steps of destination and source.
struct Loops<'a>(&'a ScheduledNest);

impl fmt::Display for Loops<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Loops(nest) = self;
        for (i, l) in nest.loops.iter().enumerate() {
            write!(f, " {}x({}", l.n, Place(l.dst()))?;
            match &nest.leaf {
                Leaf::Fill => {}
                Leaf::Element => write!(f, " <- {}", Place(l.src()))?,
                Leaf::Pack(parts) => {
                    parts.iter().try_for_each(|part| write!(f, " <- {}", Place(part.moves[i])))?;
                }
            }
            write!(f, ")")?;
        }
        Ok(())
    }
}

/// How a nest runs: the order of its blocks, their sizes, and what a kernel call takes of a block.
struct Runs<'a>(&'a Plan, &'a ScheduledNest);

impl fmt::Display for Runs<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Runs(plan, nest) = self;
        let schedule = &nest.schedule;
        let how = match &nest.leaf {
            Leaf::Element if schedule.compacted && schedule.assembled => "compacted and assembled",
            Leaf::Element if schedule.compacted => "compacted",
            Leaf::Element if schedule.assembled => "assembled",
            Leaf::Pack(_) if schedule.in_place.is_some() => "in place",
            Leaf::Pack(_) => "gathered",
            _ => "direct",
        };
        write!(f, "{how}")?;
        let list = |f: &mut fmt::Formatter<'_>, what: &str, loops: &[usize]| {
            write!(f, ", {what}")?;
            loops.iter().try_for_each(|i| write!(f, " {i}"))
        };
        if nest.loops.len() > 1 {
            list(f, "order", &schedule.order)?;
        }
        if nest.leaf == Leaf::Element && schedule.within != schedule.order {
            list(f, "within", &schedule.within)?;
        }
        if !nest.loops.is_empty() {
            write!(f, ", blocks")?;
            schedule.blocks.iter().try_for_each(|n| write!(f, " {n}"))?;
        }
        for (what, which) in [("rows", schedule.rows), ("columns", schedule.cols), ("tiles", schedule.tiles)]
        {
            which.map_or(Ok(()), |i| write!(f, ", {what} {i}"))?;
        }
        if schedule.assembled {
            write!(f, ", segment from {}", schedule.segment)?;
        }
        if schedule.overlap > 0 {
            write!(f, ", overlap {}", schedule.overlap)?;
        }
        if nest.leaf == Leaf::Element && schedule.prefetch_distance != 0 {
            write!(f, ", prefetch distance {}", schedule.prefetch_distance)?;
            if schedule.in_order {
                write!(f, " in order")?;
            }
        }
        if schedule.in_bands && !schedule.in_order {
            write!(f, ", bands in order")?;
        }
        let kernel = plan.isa().name();
        let streams = schedule::is_streamed(nest, plan.conversion());
        write!(f, ", {} stores, kernels {kernel}", if streams { "non-temporal" } else { "cached" })
    }
}

/// An address, with the unit and the slot only where there is one.
struct Place(Addr);

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [unit, bytes, slot] = self.0;
        if unit != 0 {
            write!(f, "u{unit}+")?;
        }
        write!(f, "{bytes}")?;
        if slot != 0 { write!(f, ".{slot}") } else { Ok(()) }
    }
}
