//! The known name nearest to a mistyped one.

/// Names shorter or longer than this are not compared.
const COMPARED: std::ops::RangeInclusive<usize> = 3..=32;

/// The name of `known` with the fewest edits to `word`, if they are at most a third of its letters.
pub(super) fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    let word: Vec<char> = word.chars().take(COMPARED.end() + 1).flat_map(char::to_lowercase).collect();
    if !COMPARED.contains(&word.len()) {
        return None;
    }
    let (edits, name) =
        known.iter().map(|name| (distance(&word, &name.to_lowercase()), *name)).min_by_key(|n| n.0)?;
    (edits <= word.len().div_ceil(3)).then_some(name)
}

/// Levenshtein distance, one row of the table at a time.
fn distance(a: &[char], b: &str) -> usize {
    let mut row: Vec<usize> = (0..=a.len()).collect();
    for (i, b) in b.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, a) in a.iter().enumerate() {
            let substituted = diagonal + usize::from(*a != b);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[a.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_suggested() {
        let known = ["bfloat16", "bfloat8_b", "bfloat4_b", "uint8"];
        assert_eq!(nearest("bfloat9_b", &known), Some("bfloat8_b"));
        assert_eq!(nearest("BFLOAT16", &known), Some("bfloat16"));
        assert_eq!(nearest("complex", &known), None);
        assert_eq!(nearest(&"b".repeat(1 << 20), &known), None);
        assert_eq!(nearest("", &known), None);
    }

    #[test]
    fn distance_of_classic_pairs() {
        let d = |a: &str, b| distance(&a.chars().collect::<Vec<_>>(), b);
        assert_eq!(d("kitten", "sitting"), 3);
        assert_eq!(d("", "abc"), 3);
        assert_eq!(d("flaw", "lawn"), 2);
    }
}
