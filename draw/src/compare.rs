//! What moves between two layouts of one tensor.

use std::collections::BTreeMap;

use tilewright::{Layout, Result};

use super::panel::index;

/// The most elements that are looked at; of larger tensors every so many-th is.
const LOOKED_AT: u64 = 1 << 20;

/// The most pairs of buffers that are listed.
const LISTED: usize = 32;

/// What moves between two layouts of one tensor. Elements are counted once for their first copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moves {
    /// Elements that were looked at; all of them unless there are more than 2^20.
    pub looked_at: u64,
    /// Elements of the tensor.
    pub elements: u64,
    /// Elements that lie at the same byte of the same buffer in both.
    pub stay: u64,
    /// Elements that lie elsewhere in the same buffer.
    pub inside: u64,
    /// Elements that change the buffer.
    pub across: u64,
    /// From which buffer to which other how many go, the most first; at most 32 pairs.
    pub pairs: Vec<(u64, u64, u64)>,
}

/// Compares where two layouts of one tensor put each element; buffers are compared by number.
///
/// # Errors
/// [`tilewright::Error::Value`] where the shapes differ.
pub fn compare(from: &Layout, to: &Layout) -> Result<Moves> {
    let elements = from.elements();
    // An odd step visits all columns of a power of two.
    let step = (elements.div_ceil(LOOKED_AT).max(1)) | 1;
    let cols = from.shape().last().copied().unwrap_or(1).max(1);
    let mut moves = Moves { looked_at: 0, elements, stay: 0, inside: 0, across: 0, pairs: vec![] };
    let mut pairs = BTreeMap::new();
    for n in (0..elements).step_by(step as usize) {
        let index = index(n / cols, n % cols, from.shape());
        let (Some(a), Some(b)) = (from.locate_each(&index)?.next(), to.locate_each(&index)?.next()) else {
            continue;
        };
        moves.looked_at += 1;
        match a.buffer == b.buffer {
            true if (a.byte, a.bit) == (b.byte, b.bit) => moves.stay += 1,
            true => moves.inside += 1,
            false => {
                moves.across += 1;
                *pairs.entry((a.buffer, b.buffer)).or_insert(0_u64) += 1;
            }
        }
    }
    moves.pairs = pairs.into_iter().map(|((a, b), n)| (a, b, n)).collect();
    moves.pairs.sort_by_key(|p| std::cmp::Reverse(p.2));
    moves.pairs.truncate(LISTED);
    Ok(moves)
}
