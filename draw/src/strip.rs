//! The plan strip: how a layout is filled.

use tilewright::Plan;

/// The most nests that are shown.
const SHOWN: usize = 12;

/// A plan in words: its totals, and one line for each nest, in front of and behind the bar.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Strip {
    /// Formats, bytes, nests, instruction set and stores.
    pub totals: String,
    /// What each nest does with its loops and strides, and how it is scheduled and by which kernels.
    pub nests: Vec<(String, String)>,
    /// How many nests are not shown.
    pub more: usize,
}

impl Strip {
    /// The strip of a plan.
    pub fn new(plan: &Plan) -> Strip {
        let text = plan.to_string();
        let mut lines = text.lines();
        let totals = lines.next().unwrap_or("").to_owned();
        let split = |line: &str| {
            let (nest, schedule) = line.split_once(" | ").unwrap_or((line, ""));
            (nest.trim().to_owned(), schedule.to_owned())
        };
        let mut nests: Vec<(String, String)> = lines.map(split).collect();
        let more = nests.len().saturating_sub(SHOWN);
        nests.truncate(SHOWN);
        Strip { totals, nests, more }
    }
}

/// How many runs of consecutive bytes there are of each length in bytes, the most bytes first, when a tensor is read in
/// its logical order: what a copy without a plan would move at once.
pub(crate) fn runs(bits: impl Iterator<Item = Option<u64>>, element_bits: u64) -> Vec<(u64, u64)> {
    let mut lengths = std::collections::BTreeMap::new();
    let (mut begin, mut end) = (0, 0);
    let mut close = |bits: u64| {
        if bits > 0 {
            *lengths.entry(bits.div_ceil(8)).or_insert(0_u64) += 1;
        }
    };
    for bit in bits.flatten() {
        if bit != end || end == begin {
            close(end - begin);
            begin = bit;
        }
        end = bit + element_bits;
    }
    close(end - begin);
    let mut all: Vec<(u64, u64)> = lengths.into_iter().collect();
    all.sort_by_key(|&(bytes, n)| std::cmp::Reverse(bytes * n));
    all.truncate(6);
    all
}

#[cfg(test)]
mod tests {
    #[test]
    fn runs_are_counted_by_length() {
        let bits = [Some(0), Some(32), None, Some(64), Some(256), Some(128), Some(160)];
        assert_eq!(super::runs(bits.into_iter(), 32), [(12, 1), (8, 1), (4, 1)]);
    }
}
