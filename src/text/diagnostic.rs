//! Errors as people read them: the message, the line, and carets under the place.

use crate::error::Error;

/// The most characters of a line that are shown.
const WIDTH: usize = 100;

/// Characters shown before the place when a line is cut.
const BEFORE: usize = 40;

impl Error {
    /// The message; for a text error also the line it is about, with carets under the place.
    ///
    /// A long line is cut to a window around the place. Tabs and control characters show as blanks and `·`.
    /// Carets assume that every character is one column wide.
    pub fn diagnostic(&self) -> String {
        let Error::Text { message, text, span } = self else { return self.to_string() };
        let start = boundary(text, span.start);
        let end = boundary(text, span.end.max(start));
        let line_start = text[..start].rfind('\n').map_or(0, |i| i + 1);
        let line_end = text[start..].find('\n').map_or(text.len(), |i| start + i);
        let end = end.min(line_end);

        let before: Vec<char> = text[line_start..start].chars().rev().take(BEFORE + 1).collect();
        let cut_left = before.len() > BEFORE;
        let shown_before: String = before.iter().take(BEFORE).rev().copied().map(printable).collect();
        let room = WIDTH - before.len().min(BEFORE);
        let mut rest = text[start..line_end].chars();
        let shown_rest: String = rest.by_ref().take(room).map(printable).collect();
        let cut_right = rest.next().is_some();
        let carets = text[start..end].chars().take(room).count().max(1);

        let line = 1 + text[..line_start].matches('\n').count();
        let column = 1 + text[line_start..start].chars().count();
        let [left, right] = [cut_left, cut_right].map(|cut| if cut { "…" } else { "" });
        let indent = " ".repeat(shown_before.chars().count() + usize::from(cut_left));
        format!(
            "{message}\n --> line {line}, column {column}\n  | {left}{shown_before}{shown_rest}{right}\n  | {indent}{}",
            "^".repeat(carets)
        )
    }
}

/// The start of the character that byte `at` is in.
fn boundary(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

fn printable(c: char) -> char {
    match c {
        '\t' => ' ',
        c if c.is_control() => '·',
        c => c,
    }
}
