//! The interpreter: runs a plan element by element, checks every access, counts every write.

use kernels::Number;

use super::zeroed::zeroed;
use crate::error::{Error, Result};
use crate::plan::ir::{Gather, Leaf, Loop, dst, src};
use crate::plan::{Op, OutOfRange, Plan};

/// What the interpreter saw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interpreted {
    /// The destination, all its buffers.
    pub bytes: Vec<u8>,
    /// How often each byte was written; bytes between units, which are zero, count as written once.
    pub writes: Vec<u8>,
}

/// Runs a plan by the scalar rules, with every access checked.
///
/// # Errors
/// Where `source` has another length than the plan's source, the destination is larger than 2 GiB or than free memory, or a
/// value does not fit its destination.
pub fn interpret(plan: &Plan, source: &[u8]) -> Result<Interpreted> {
    if source.len() != plan.source_bytes() {
        let (given, needed) = (source.len() as u64, plan.source_bytes() as u64);
        return Err(Error::Length { what: "source", given, needed });
    }
    let total = plan.destination_bytes();
    let mut out = Interpreted { bytes: zeroed(total)?, writes: zeroed(total)? };
    let mut out_of_range: Option<OutOfRange> = None;
    let space = &plan.dst.space;
    for unit in 0..space.units {
        let begin = space.unit_at(unit as i64) as usize;
        let (from, to) = (begin + space.unit_bytes as usize, begin + space.pitch_bytes as usize);
        out.writes[from..to].iter_mut().for_each(|w| *w = 1);
    }
    for nest in plan.nests.iter() {
        for iteration in Iterations::new(&nest.loops) {
            let moved = |at: [i64; 3], pick: fn(&Loop) -> [i64; 3]| {
                nest.loops.iter().zip(&iteration).fold(at, |at, (l, &i)| step(at, pick(l), i))
            };
            let to = moved(dst(nest.at), Loop::dst);
            let to = (space.unit_at(to[0]) + to[1]) as usize;
            match &nest.leaf {
                Leaf::Fill => out.write(to, &plan.fill),
                Leaf::Element => {
                    let bits = read(plan, source, moved(src(nest.at), Loop::src));
                    match plan.op {
                        Op::Copy(size) => out.write(to, &bits.to_le_bytes()[..size]),
                        Op::Convert(from, number) => {
                            let bits = from.convert(number, bits).to_le_bytes();
                            out.write(to, &bits[..plan.dst.block_bytes]);
                        }
                        Op::Cast { cast, strict } => {
                            let (code, fits) = cast.apply(bits);
                            out.write(to, &code.to_le_bytes()[..plan.dst.block_bytes]);
                            if strict && !fits {
                                let this = OutOfRange { at: to as u64, bits };
                                out_of_range = OutOfRange::earlier(out_of_range, this);
                            }
                        }
                    }
                }
                Leaf::Pack(parts) => {
                    let mut tile = vec![plan.pad; plan.dst.codec.map_or(0, |c| c.tile().elements())];
                    for part in parts {
                        gather(plan, source, part, &iteration, &mut tile);
                    }
                    let mut packed = vec![0; plan.dst.block_bytes];
                    if let Some(codec) = plan.dst.codec {
                        codec.pack_scalar(&tile, &mut packed);
                    }
                    out.write(to, &packed);
                }
            }
        }
    }
    out_of_range.map_or(Ok(out), |out_of_range| Err(out_of_range.error(plan.op)))
}

/// Puts the elements of one part of a tile in their slots.
fn gather(plan: &Plan, source: &[u8], part: &Gather, iteration: &[u64], tile: &mut [f32]) {
    let base = part.moves.iter().zip(iteration).fold(part.src, |at, (&m, &i)| step(at, m, i));
    for inner in Iterations::new(&part.loops) {
        let (mut at, mut slot) = (base, part.slot);
        for (l, &i) in part.loops.iter().zip(&inner) {
            at = step(at, l.src(), i);
            slot += l.step[5] * i as i64;
        }
        let bits = read(plan, source, at);
        let Op::Convert(from, _) = plan.op else { continue };
        tile[slot as usize] = f32::from_bits(from.convert(Number::F32, bits) as u32);
    }
}

/// The bits of the source element at an address.
fn read(plan: &Plan, source: &[u8], at: [i64; 3]) -> u64 {
    let byte = (plan.src.space.unit_at(at[0]) + at[1]) as usize;
    match plan.src.codec {
        Some(codec) => {
            let (row, col) = (at[2] as usize / codec.tile().cols(), at[2] as usize % codec.tile().cols());
            codec.decode_at(&source[byte..byte + codec.tile_bytes()], row, col).to_bits().into()
        }
        None => {
            let mut bits = [0; 8];
            bits[..plan.src.block_bytes].copy_from_slice(&source[byte..byte + plan.src.block_bytes]);
            u64::from_le_bytes(bits)
        }
    }
}

fn step(at: [i64; 3], by: [i64; 3], times: u64) -> [i64; 3] {
    std::array::from_fn(|k| at[k] + by[k] * times as i64)
}

impl Interpreted {
    fn write(&mut self, at: usize, bytes: &[u8]) {
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        self.writes[at..at + bytes.len()].iter_mut().for_each(|w| *w = w.saturating_add(1));
    }
}

/// Every combination of loop counters, the last running fastest.
struct Iterations {
    counts: Vec<u64>,
    left: u64,
    next: Vec<u64>,
}

impl Iterations {
    fn new(loops: &[Loop]) -> Iterations {
        let counts: Vec<u64> = loops.iter().map(|l| l.n).collect();
        Iterations { left: counts.iter().product(), next: vec![0; counts.len()], counts }
    }
}

impl Iterator for Iterations {
    type Item = Vec<u64>;

    fn next(&mut self) -> Option<Vec<u64>> {
        self.left = self.left.checked_sub(1)?;
        let iteration = self.next.clone();
        for (i, &n) in self.next.iter_mut().zip(&self.counts).rev() {
            *i += 1;
            if *i < n {
                break;
            }
            *i = 0;
        }
        Some(iteration)
    }
}
