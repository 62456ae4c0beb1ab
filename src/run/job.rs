//! One range of the destination being written, nest by nest and block by block.

use kernels::Destination;

use super::assembly::{Assembly, Block};
use super::clip::{View, advance};
use super::elements::{Calls, Carry};
use crate::plan::nest::{Leaf, Nest};
use crate::plan::{MAX_LOOPS, Misfit, Plan};

/// One range of the destination being written.
pub(super) struct Job<'a, 'd> {
    pub(super) plan: &'a Plan,
    pub(super) source: &'a [u8],
    /// The byte of the source at which `source` begins.
    pub(super) source_begin: i64,
    pub(super) out: &'a mut Destination<'d>,
    /// What is assembled before it is written.
    pub(super) block: Option<Block>,
    pub(super) carry: Carry,
}

impl<'a, 'd> Job<'a, 'd> {
    /// `source` is the bytes of the source from `source_begin` on that are read.
    pub(super) fn new(
        plan: &'a Plan,
        source: &'a [u8],
        source_begin: usize,
        out: &'a mut Destination<'d>,
    ) -> Job<'a, 'd> {
        let source_begin = source_begin as i64;
        Job { plan, source, source_begin, out, block: None, carry: Carry::default() }
    }

    /// Writes all of `out`, which begins at byte `begin` of the destination; the first value that does not fit.
    pub(super) fn run(mut self, begin: usize) -> Option<Misfit> {
        let plan = self.plan;
        for part in plan.parts(begin, begin + self.out.len()) {
            let at = part.at - begin;
            let base = part.lo - at as i64;
            plan.clip(part.lo, part.hi, &mut |nest, view| self.rectangle(nest, view, base));
            if part.gap > 0 {
                let to = at + (part.hi - part.lo) as usize;
                plan.kernels.fill(&[0], self.out.bytes(), to, 1, 0, part.gap);
            }
        }
        self.carry.misfit
    }

    /// Runs all turns of a view, block by block; `base` is where `out` begins, counted through all units.
    fn rectangle(&mut self, nest: &Nest, view: &View, base: i64) {
        let (plan, walk, count) = (self.plan, &nest.walk, nest.loops.len());
        let blocks = &walk.blocks;
        let mut turn = [0_u64; MAX_LOOPS];
        let mut size = [1_u64; MAX_LOOPS];
        let mut at = view.at;
        // Bytes of an address are counted from where its unit begins, so this moves all of them.
        at[1] -= self.source_begin;
        let mut calls: Option<Calls<'_>> = None;
        let mut assembly: Option<Assembly<'_>> = None;
        loop {
            for i in 0..count {
                size[i] = blocks[i].min(view.n[i] - turn[i]);
            }
            let to = (plan.linear(at) - base) as usize;
            match &nest.leaf {
                Leaf::Element if walk.assembled => {
                    let (first, left) = match walk.reach {
                        0 => (true, 0),
                        _ => {
                            let (i, reach) = (walk.segment, walk.reach);
                            (turn[i] == 0, (view.n[i] - turn[i] - size[i]).min(reach))
                        }
                    };
                    let assembly = match &mut assembly {
                        Some(assembly) if assembly.suits(&size, left) => assembly,
                        other => other.insert(Assembly::new(plan, nest, size, left)),
                    };
                    let block = self.block.get_or_insert_with(Block::zero);
                    assembly.run(self.source, &mut self.carry, block, at, first, self.out, to);
                }
                Leaf::Element => {
                    let calls = match &mut calls {
                        Some(calls) if calls.size() == &size => calls,
                        other => other.insert(Calls::new(plan, nest, size)),
                    };
                    calls.run(self.source, &mut self.carry, at, self.out, to);
                }
                Leaf::Fill => self.fill(nest, &size, to),
                Leaf::Pack(parts) => {
                    let turn = std::array::from_fn(|i| view.first[i] + turn[i]);
                    self.pack(nest, parts, &turn, &size, to);
                }
            }
            let more = walk.order.iter().rev().any(|&i| {
                if view.n[i] <= blocks[i] {
                    return false;
                }
                turn[i] += blocks[i];
                if turn[i] < view.n[i] {
                    at = advance(at, nest.loops[i].step, blocks[i] as i64);
                    return true;
                }
                at = advance(at, nest.loops[i].step, blocks[i] as i64 - turn[i] as i64);
                turn[i] = 0;
                false
            });
            if !more {
                return;
            }
        }
    }

    fn fill(&mut self, nest: &Nest, size: &[u64; MAX_LOOPS], to: usize) {
        let len = nest.walk.cols.map_or(1, |c| size[c] as usize) * self.plan.dst.block_bytes;
        let rows = nest.walk.rows.map_or(1, |r| size[r] as usize);
        let step = nest.walk.rows.map_or(0, |r| self.plan.linear(nest.loops[r].step) as isize);
        self.plan.kernels.fill(&self.plan.fill, self.out.bytes(), to, rows, step, len);
    }
}
