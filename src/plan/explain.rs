//! Plans as text: one stable line for each nest.

use std::fmt;

use super::nest::{Leaf, dst, src};
use super::{Op, Plan};
use crate::layout::axis::Addr;

impl fmt::Display for Plan {
    /// A line of totals, then a line for each nest: what the leaf does, and the loops with their destination
    /// and source steps, outermost first.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} -> {}: {} bytes to {} bytes, {} nests, isa {}",
            self.src.format,
            self.dst.format,
            self.source_bytes(),
            self.destination_bytes(),
            self.nests.len(),
            self.isa().name(),
        )?;
        for nest in &self.nests {
            let leaf = match (&nest.leaf, self.op) {
                (Leaf::Fill, _) => "fill".to_string(),
                (Leaf::Element, Op::Copy(bytes)) => format!("copy {bytes}"),
                (Leaf::Element, Op::Convert(from, to)) => format!("convert {} {}", from.name(), to.name()),
                (Leaf::Element, Op::Cast { .. }) => format!("cast {} {}", self.src.format, self.dst.format),
                (Leaf::Pack(_), _) => format!("pack {}", self.dst.format),
            };
            write!(f, "  {leaf} at {}", Place(dst(nest.at)))?;
            match &nest.leaf {
                Leaf::Fill => {}
                Leaf::Element => write!(f, " <- {}", Place(src(nest.at)))?,
                Leaf::Pack(parts) => {
                    for part in parts {
                        write!(f, " <- {} slot {}", Place(part.src), part.slot)?;
                        for l in &part.loops {
                            write!(f, " {}x({} <- {})", l.n, l.step[5], Place(l.src()))?;
                        }
                    }
                }
            }
            write!(f, ":")?;
            for (i, l) in nest.loops.iter().enumerate() {
                write!(f, " {}x({}", l.n, Place(l.dst()))?;
                match &nest.leaf {
                    Leaf::Fill => write!(f, ")")?,
                    Leaf::Element => write!(f, " <- {})", Place(l.src()))?,
                    Leaf::Pack(parts) => {
                        for part in parts {
                            write!(f, " <- {}", Place(part.moves[i]))?;
                        }
                        write!(f, ")")?;
                    }
                }
            }
            writeln!(f)?;
        }
        Ok(())
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
