//! The blake3 of bytes that are seen part by part, in any order and by any thread.
//!
//! blake3 is a tree: blocks of 64 KiB are hashed as they are seen, while they are in a cache, and joined at the end. So a
//! tensor is hashed by the threads that read it anyway. What is left out, or seen more than once, does no harm: blocks
//! that are missing at the end are read again.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use blake3::hazmat::{
    ChainingValue, HasherExt, Mode, left_subtree_len, merge_subtrees_non_root, merge_subtrees_root,
};
use blake3::{Hash, Hasher};
use tilewright::Result;

/// Bytes of a block, a power of two: a tensor of a gigabyte has half a megabyte of hashes of blocks.
const BLOCK: u64 = 64 << 10;

/// The most blocks of which a part is kept until the rest is seen.
const PARTS: usize = 16;

/// The hash of so many bytes.
#[derive(Debug)]
pub(crate) struct TreeHash {
    bytes: u64,
    /// Shorter parts of a block are not put together.
    least: usize,
    wanted: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Of each block that has been seen; empty before the first one and after the last.
    blocks: Vec<Option<ChainingValue>>,
    parts: HashMap<u64, Part>,
    whole: Option<String>,
}

/// A block of which not everything has been seen.
#[derive(Debug, Default)]
struct Part {
    bytes: Vec<u8>,
    /// What of it is there, in order, no two of which touch.
    there: Vec<Range<usize>>,
}

impl Part {
    /// Adds bytes, of a block of `len`; whether all of it is there now.
    fn add(&mut self, at: usize, bytes: &[u8], len: usize) -> bool {
        self.bytes.resize(len, 0);
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        self.there.push(at..at + bytes.len());
        self.there.sort_by_key(|range| range.start);
        self.there.dedup_by(|next, range| {
            let joins = next.start <= range.end;
            range.end = if joins { range.end.max(next.end) } else { range.end };
            joins
        });
        self.there.first() == Some(&(0..len))
    }
}

impl TreeHash {
    pub(crate) fn new(bytes: u64) -> TreeHash {
        TreeHash { bytes, least: 0, wanted: AtomicBool::new(false), state: Mutex::default() }
    }

    /// The same where parts of a block that are shorter than `least` bytes do not count: to put thousands of them together
    /// costs more than to read the block again.
    pub(crate) fn without_shreds(self, least: usize) -> TreeHash {
        TreeHash { least, ..self }
    }

    /// Says that the hash will be asked for; what is seen before does not count.
    pub(crate) fn want(&self) {
        self.wanted.store(true, Ordering::Relaxed);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self) -> u64 {
        self.bytes.div_ceil(BLOCK)
    }

    fn block(&self, i: u64) -> Range<u64> {
        i * BLOCK..((i + 1) * BLOCK).min(self.bytes)
    }

    /// Hashes bytes that have been read, from byte `at` on.
    pub(crate) fn see(&self, at: u64, bytes: &[u8]) {
        if bytes.is_empty() || !self.wanted.load(Ordering::Relaxed) {
            return;
        }
        let end = (at + bytes.len() as u64).min(self.bytes);
        for i in at / BLOCK..end.div_ceil(BLOCK) {
            let block = self.block(i);
            let seen = block.start.max(at)..block.end.min(end);
            let bytes = &bytes[(seen.start - at) as usize..(seen.end - at) as usize];
            self.see_part(i, (seen.start - block.start) as usize, bytes);
        }
    }

    fn see_part(&self, i: u64, at: usize, bytes: &[u8]) {
        let block = self.block(i);
        let len = (block.end - block.start) as usize;
        let mut state = self.state();
        if state.whole.is_some() || state.blocks.get(i as usize).is_some_and(Option::is_some) {
            return;
        }
        if bytes.len() == len {
            drop(state);
            return self.set(i, bytes);
        }
        if bytes.len() < self.least || state.parts.len() == PARTS && !state.parts.contains_key(&i) {
            return;
        }
        if state.parts.entry(i).or_default().add(at, bytes, len)
            && let Some(part) = state.parts.remove(&i)
        {
            drop(state);
            self.set(i, &part.bytes);
        }
    }

    /// Hashes a block, all of which is there.
    fn set(&self, i: u64, bytes: &[u8]) {
        let value = match self.count() {
            1 => *blake3::hash(bytes).as_bytes(),
            _ => Hasher::new().set_input_offset(i * BLOCK).update(bytes).finalize_non_root(),
        };
        let mut state = self.state();
        if state.whole.is_none() {
            state.blocks.resize(self.count() as usize, None);
            state.blocks[i as usize] = Some(value);
        }
    }

    /// The hash of all bytes, in hexadecimal; `read` gives those that have not been seen.
    ///
    /// # Errors
    /// Those of `read`.
    pub(crate) fn finish(&self, mut read: impl FnMut(u64, &mut [u8]) -> Result<()>) -> Result<String> {
        if let Some(whole) = &self.state().whole {
            return Ok(whole.clone());
        }
        let mut bytes = vec![0; self.bytes.min(BLOCK) as usize];
        for i in 0..self.count() {
            if self.state().blocks.get(i as usize).is_none_or(Option::is_none) {
                let block = self.block(i);
                let bytes = &mut bytes[..(block.end - block.start) as usize];
                read(block.start, bytes)?;
                self.set(i, bytes);
            }
        }
        let mut state = self.state();
        if let Some(whole) = &state.whole {
            return Ok(whole.clone());
        }
        let hash = match self.count() {
            0 => blake3::hash(&[]),
            // A single block is no tree: its value is its hash.
            1 => Hash::from_bytes(merged(self, &state.blocks, 0..1)),
            n => {
                let left = self.left(0, n);
                let values = |blocks: Range<u64>| merged(self, &state.blocks, blocks);
                merge_subtrees_root(&values(0..left), &values(left..n), Mode::Hash)
            }
        };
        let whole = hash.to_hex().to_string();
        *state = State { whole: Some(whole.clone()), ..State::default() };
        Ok(whole)
    }

    /// The blocks before this one are the left half of the tree over a range of blocks, of which there are two or more.
    fn left(&self, start: u64, end: u64) -> u64 {
        let bytes = self.block(end - 1).end - start * BLOCK;
        start + left_subtree_len(bytes) / BLOCK
    }
}

/// The value of the tree over some blocks; it is as deep as the logarithm of their number.
fn merged(of: &TreeHash, values: &[Option<ChainingValue>], blocks: Range<u64>) -> ChainingValue {
    if blocks.end - blocks.start == 1 {
        // All of them have been set by now.
        return values[blocks.start as usize].unwrap_or_default();
    }
    let left = of.left(blocks.start, blocks.end);
    let [a, b] = [blocks.start..left, left..blocks.end].map(|half| merged(of, values, half));
    merge_subtrees_non_root(&a, &b, Mode::Hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(n: u64) -> Vec<u8> {
        (0..n).map(|i| ((i * i) >> 7) as u8).collect()
    }

    fn blake3_of(bytes: &[u8]) -> String {
        blake3::hash(bytes).to_hex().to_string()
    }

    #[test]
    fn parts_in_any_order_give_the_hash_of_the_whole() {
        for n in
            [0, 1, 1000, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK, 5 * BLOCK + 77, 16 * BLOCK, 17 * BLOCK - 1]
        {
            let all = bytes(n);
            for step in [999, 4096, 34 * 2048, 100_000, 1 << 20] {
                let mut parts: Vec<(u64, &[u8])> = (0..).step_by(step).zip(all.chunks(step)).collect();
                // Every third first, and some twice.
                parts.sort_by_key(|(at, _)| (at / step as u64 % 3, *at));
                parts.extend_from_within(..parts.len() / 4);
                let hash = TreeHash::new(n);
                hash.want();
                parts.iter().for_each(|(at, part)| hash.see(*at, part));
                let mut again = 0;
                let read = |at: u64, out: &mut [u8]| {
                    again += out.len() as u64;
                    out.copy_from_slice(&all[at as usize..at as usize + out.len()]);
                    Ok(())
                };
                assert_eq!(hash.finish(read).unwrap(), blake3_of(&all), "{n} bytes in parts of {step}");
                // Few blocks are open at a time where parts are large.
                assert!(step < 64 << 10 || again == 0, "{again} of {n} bytes again, parts of {step}");
            }
        }
    }

    #[test]
    fn what_was_not_seen_is_read() {
        let all = bytes(4 * BLOCK + 9);
        let hash = TreeHash::new(all.len() as u64);
        hash.want();
        hash.see(0, &all[..2 * BLOCK as usize - 1]);
        hash.see(3 * BLOCK, &all[3 * BLOCK as usize..]);
        let mut asked = Vec::new();
        let read = |at: u64, out: &mut [u8]| {
            asked.push(at / BLOCK);
            out.copy_from_slice(&all[at as usize..at as usize + out.len()]);
            Ok(())
        };
        assert_eq!(hash.finish(read).unwrap(), blake3_of(&all));
        assert_eq!(asked, [1, 2]);
        let never = |_: u64, _: &mut [u8]| -> Result<()> { panic!("it is known") };
        assert_eq!(hash.finish(never).unwrap(), blake3_of(&all));
    }

    #[test]
    fn shreds_are_read_again() {
        let all = bytes(2 * BLOCK);
        let hash = TreeHash::new(all.len() as u64).without_shreds(100);
        hash.want();
        all[..BLOCK as usize].chunks(100).zip((0..).step_by(100)).for_each(|(part, at)| hash.see(at, part));
        all[BLOCK as usize..]
            .chunks(1024)
            .zip((BLOCK..).step_by(1024))
            .for_each(|(part, at)| hash.see(at, part));
        let mut asked = Vec::new();
        let read = |at: u64, out: &mut [u8]| {
            asked.push(at);
            out.copy_from_slice(&all[at as usize..at as usize + out.len()]);
            Ok(())
        };
        assert_eq!(hash.finish(read).unwrap(), blake3_of(&all));
        // The last of 656 parts of the first block is one of 36 bytes.
        assert_eq!(asked, [0]);
    }

    #[test]
    fn threads_may_see_at_once() {
        let all = bytes(40 * BLOCK + 5000);
        let hash = TreeHash::new(all.len() as u64);
        hash.want();
        let parts: Vec<(u64, &[u8])> = (0..).step_by(50_000).zip(all.chunks(50_000)).collect();
        std::thread::scope(|scope| {
            for which in 0..3 {
                let (hash, parts) = (&hash, &parts);
                scope.spawn(move || {
                    parts.iter().skip(which).step_by(3).for_each(|(at, part)| hash.see(*at, part))
                });
            }
        });
        let read = |at: u64, out: &mut [u8]| {
            out.copy_from_slice(&all[at as usize..at as usize + out.len()]);
            Ok(())
        };
        assert_eq!(hash.finish(read).unwrap(), blake3_of(&all));
    }
}
