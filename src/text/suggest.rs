//! The known name nearest to a mistyped one.

/// Names shorter or longer than this are not compared.
const COMPARED: std::ops::RangeInclusive<usize> = 3..=32;

/// What the C interface, tt-mlir and people call formats that texts of TTNN call otherwise.
const OTHERWISE: [(&str, &str); 12] = [
    ("bf16", "bfloat16"),
    ("f32", "float32"),
    ("fp32", "float32"),
    ("bfp8_b", "bfloat8_b"),
    ("bfp4_b", "bfloat4_b"),
    ("bfp2_b", "bfloat2_b"),
    ("bfp_bf8", "bfloat8_b"),
    ("bfp_bf4", "bfloat4_b"),
    ("bfp_bf2", "bfloat2_b"),
    ("bfp8", "bfloat8_b"),
    ("bfp4", "bfloat4_b"),
    ("bfp2", "bfloat2_b"),
];

/// The name of `known` that a name of the C interface or of another project stands for, or the one with the fewest edits to `word`, if they are at most a third of its letters.
pub(super) fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    // Of a longer word nothing is looked at but that it is longer.
    let word: String = word.chars().take(COMPARED.end() + 1).flat_map(char::to_lowercase).collect();
    // `TW_BFP8_B` is what C calls it.
    let word = word.strip_prefix("tw_").unwrap_or(&word);
    let meant = OTHERWISE.iter().find(|other| other.0 == word).map(|other| other.1);
    if let Some(name) = known.iter().find(|name| Some(**name) == meant) {
        return Some(name);
    }
    let letters = word.chars().count();
    if !COMPARED.contains(&letters) {
        return None;
    }
    let edits = |name: &&'a str| (strsim::levenshtein(word, &name.to_lowercase()), *name);
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
        for other in ["bfp8_b", "TW_BFP8_B", "bfp_bf8", "TW_BFLOAT8_B"] {
            assert_eq!(nearest(other, &known), Some("bfloat8_b"), "{other}");
        }
        assert_eq!(nearest("bf16", &known), Some("bfloat16"));
        assert_eq!(nearest("bf16", &["f32"]), None);
        assert_eq!(nearest("complex", &known), None);
        assert_eq!(nearest(&"b".repeat(1 << 20), &known), None);
        assert_eq!(nearest("", &known), None);
    }
}
