//! The blocks in which a view of a nest runs, one after another in the order of the schedule; and the one that is fetched meanwhile.

use super::clip::{View, advance};
use crate::plan::ir::{AddressPair, Loop, Schedule, ScheduledNest};

/// The blocks of a view, one after another in the order of the schedule: the one that is at hand.
pub(super) struct Blocks<'v, const N: usize> {
    nest: &'v ScheduledNest,
    view: &'v View<N>,
    /// The most iterations of each loop that a block has.
    most: [u64; N],
    /// How many iterations of each loop this one has.
    pub(super) size: [u64; N],
    /// Whether it has as many as the one before. Not found by comparing sizes: what loads several of them at once waits for the stores
    /// that wrote them one by one, and so for all that the block before stored. Tiles on a mesh spent a quarter of their time so in L2.
    pub(super) is_alike: bool,
    /// Where it begins: iterations of each loop, counted in the view, and the address.
    done: [u64; N],
    pub(super) at: AddressPair,
}

impl<'v, const N: usize> Blocks<'v, N> {
    /// `source_begin`: the byte of the source from which addresses are counted.
    pub(super) fn new(nest: &'v ScheduledNest, view: &'v View<N>, source_begin: i64) -> Blocks<'v, N> {
        let mut blocks =
            Blocks { nest, view, most: [1; N], size: [1; N], is_alike: false, done: [0; N], at: view.at };
        // Bytes of an address are counted from where its unit begins, so this moves all of them.
        blocks.at[1] -= source_begin;
        for (i, &most) in nest.schedule.blocks.iter().enumerate() {
            (blocks.most[i], blocks.size[i]) = (most, most.min(view.n[i]));
        }
        blocks
    }

    /// Lets each loop have no more iterations in a block than `most` of it.
    pub(super) fn shorten(&mut self, most: impl Fn(&Loop) -> u64) {
        for (i, l) in self.nest.loops.iter().enumerate() {
            self.most[i] = self.most[i].min(most(l));
            self.size[i] = self.size[i].min(self.most[i]);
        }
    }

    /// The first iteration of each loop, counted in the nest.
    pub(super) fn iteration(&self) -> [u64; N] {
        std::array::from_fn(|i| self.view.first[i] + self.done[i])
    }

    /// Whether segments overlap to no block in front of this one.
    pub(super) fn is_first(&self) -> bool {
        let Schedule { segment, overlap, .. } = self.nest.schedule;
        overlap == 0 || self.done[segment] == 0
    }

    /// How many iterations behind the block its segments may overlap to.
    pub(super) fn left(&self) -> u64 {
        let Schedule { segment: i, overlap, .. } = self.nest.schedule;
        if overlap == 0 { 0 } else { (self.view.n[i] - self.done[i] - self.size[i]).min(overlap) }
    }

    /// Goes on to the next block, if there is one.
    #[inline(always)]
    pub(super) fn advance(&mut self) -> bool {
        self.is_alike = true;
        self.nest.schedule.order.iter().rev().any(|&i| {
            let (n, most, step) = (self.view.n[i], self.most[i], self.nest.loops[i].step);
            if n <= most {
                return false;
            }
            let done = self.done[i] + most;
            let more = done < n;
            self.at = advance(self.at, step, if more { most as i64 } else { most as i64 - done as i64 });
            self.done[i] = if more { done } else { 0 };
            let size = most.min(n - self.done[i]);
            self.is_alike &= size == self.size[i];
            self.size[i] = size;
            more
        })
    }
}

/// The block that is fetched while another one is read: so many blocks later, where it may follow at the beginning of the next rows.
pub(super) struct Later<'v, const N: usize> {
    blocks: Blocks<'v, N>,
    /// Whether there is such a block.
    is_left: bool,
}

impl<'v, const N: usize> Later<'v, N> {
    /// `None` where none is fetched.
    pub(super) fn new(
        count: usize,
        nest: &'v ScheduledNest,
        view: &'v View<N>,
        source_begin: i64,
    ) -> Option<Self> {
        (count > 0).then(|| {
            let mut later = Later { blocks: Blocks::new(nest, view, source_begin), is_left: true };
            for _ in 0..count {
                later.advance();
                if !later.is_left {
                    break;
                }
            }
            later
        })
    }

    /// Where it begins, if there is one.
    pub(super) fn at(&self) -> Option<&AddressPair> {
        self.is_left.then_some(&self.blocks.at)
    }

    /// The iteration of each loop at which it begins, counted in the nest, if there is one.
    pub(super) fn iteration(&self) -> Option<[u64; N]> {
        self.is_left.then(|| self.blocks.iteration())
    }

    /// Goes on to the block that follows it, if one does.
    pub(super) fn advance(&mut self) {
        self.is_left = self.is_left && self.blocks.advance();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::{Descriptor, Placement, Tensor};
    use crate::plan::Store;
    use crate::run::elements::blocks_fetched;
    use crate::tuning::builtin;
    use crate::{DType, Options, Plan};

    #[test]
    fn what_is_fetched_at_the_end_of_rows_begins_later_ones() {
        let tensor = Tensor { shape: vec![4, 1536], dtype: DType::F32 };
        let layout = |text: &str| {
            let descriptor: Descriptor = text.parse().unwrap();
            descriptor.layout(&tensor, &Placement::default()).unwrap()
        };
        let backward = layout("memref<4x1536xf32, strided<[1536, -1], offset: 1535>>");
        let options = Options::default().with_store(Store::Streamed);
        let plan =
            Plan::compile_with(&backward, &layout("memref<4x1536xf32>"), &options, &builtin::COMMON).unwrap();
        let nest = &plan.nests[0];
        assert_eq!((nest.schedule.assembled, &*nest.schedule.blocks), (true, &[1, 512][..]), "{plan}");
        // 16 KiB, of blocks of 2 KiB.
        let count = blocks_fetched(&plan, nest);
        assert_eq!(count, 8);
        let view = View::<4>::of(nest);
        let begin = |block: i64| (block / 3) * 6144 + (1535 - block % 3 * 512) * 4;
        let mut later = Later::new(count, nest, &view, 0).unwrap();
        for block in 8..16 {
            let expect = (block < 12).then(|| begin(block));
            assert_eq!(later.at().map(|at| at[1]), expect, "block {block}");
            later.advance();
        }
        assert!(Later::new(usize::MAX, nest, &view, 0).unwrap().at().is_none());
        assert!(Later::new(0, nest, &view, 0).is_none());
    }
}
