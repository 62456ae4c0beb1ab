//! The known name nearest to a mistyped one.

/// Names shorter or longer than this are not compared.
const COMPARED: std::ops::RangeInclusive<usize> = 3..=32;

/// The name of `known` with the fewest edits to `word`, if they are at most a third of its letters.
pub(super) fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    // Of a longer word nothing is looked at but that it is longer.
    let word: String = word.chars().take(COMPARED.end() + 1).flat_map(char::to_lowercase).collect();
    let letters = word.chars().count();
    if !COMPARED.contains(&letters) {
        return None;
    }
    let edits = |name: &&'a str| (strsim::levenshtein(&word, &name.to_lowercase()), *name);
    let (edits, name) = known.iter().map(edits).min_by_key(|n| n.0)?;
    (edits <= letters.div_ceil(3)).then_some(name)
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
}
