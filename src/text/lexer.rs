//! A cursor over a text: blanks, words, numbers, lists and `key=value` arguments, with errors that know their place.

use std::collections::HashSet;
use std::fmt::{self, Display};
use std::ops::Range;

use super::suggest;
use crate::error::{Error, Result};

/// The most bytes of a layout text.
pub const MAX_TEXT: usize = 16 << 20;

/// How much of a found word a message quotes, in characters.
const QUOTED: usize = 40;

/// The most warnings about one text that are kept; of the others it is said how many they are.
const MAX_WARNINGS: usize = 16;

/// The first [`MAX_WARNINGS`] warnings about a text, and how many more there were.
#[derive(Default)]
pub(super) struct Warnings {
    kept: Vec<String>,
    more: usize,
}

impl Warnings {
    pub(super) fn push(&mut self, warning: impl FnOnce() -> String) {
        if self.kept.len() < MAX_WARNINGS {
            self.kept.push(warning());
        } else {
            self.more += 1;
        }
    }

    /// One sentence for each, and one for those that were not kept.
    pub(super) fn finish(mut self) -> Vec<String> {
        if self.more > 0 {
            self.kept.push(format!("and {} more", self.more));
        }
        self.kept
    }
}

/// A place in a text. Every method skips blanks before it reads.
pub(super) struct Cursor<'a> {
    text: &'a str,
    at: usize,
    /// Where each part of the descriptor stands, for errors found after parsing.
    marks: Vec<(&'a str, Range<usize>)>,
    /// What was read but not understood.
    pub(super) warnings: Warnings,
}

impl<'a> Cursor<'a> {
    /// At the start of `text`, which has at most [`MAX_TEXT`] bytes.
    pub(super) fn new(text: &'a str) -> Result<Cursor<'a>> {
        if text.len() > MAX_TEXT {
            return Err(Error::value("text", format!("{} bytes", text.len()), format!("at most {MAX_TEXT}")));
        }
        Ok(Cursor { text, at: 0, marks: Vec::new(), warnings: Warnings::default() })
    }

    /// The whole text.
    #[cfg(feature = "json")]
    pub(super) fn text(&self) -> &'a str {
        self.text
    }

    /// The byte where the next token starts.
    pub(super) fn start(&mut self) -> usize {
        self.at = self.text.len() - self.rest().trim_start().len();
        self.at
    }

    /// Goes back to a place at which it was, to say what was expected there.
    pub(super) fn rewind(&mut self, start: usize) {
        self.at = start;
    }

    /// Reads what is between two `"`, without escapes.
    pub(super) fn quoted(&mut self, expected: &str) -> Result<&'a str> {
        let start = self.start();
        if !self.eat("\"") {
            return Err(self.expected(format_args!("{expected} between two `\"`")));
        }
        let rest = self.rest();
        let Some(len) = rest.find(['"', '\\', '\n']).filter(|&len| rest[len..].starts_with('"')) else {
            return Err(
                self.error_since(start, format!("expected {expected} between two `\"`, without escapes"))
            );
        };
        self.at += len + 1;
        Ok(&rest[..len])
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// The next character.
    pub(super) fn peek(&mut self) -> Option<char> {
        self.start();
        self.rest().chars().next()
    }

    /// Whether a digit comes next.
    pub(super) fn at_digit(&mut self) -> bool {
        self.peek().is_some_and(|c| c.is_ascii_digit())
    }

    /// Whether `punctuation` comes next; then it is read.
    pub(super) fn eat(&mut self, punctuation: &str) -> bool {
        self.start();
        let found = self.rest().starts_with(punctuation);
        if found {
            self.at += punctuation.len();
        }
        found
    }

    /// Reads `punctuation`; `place` ends the message, as in "expected `,` after the grid".
    pub(super) fn expect(&mut self, punctuation: &str, place: impl Display) -> Result<()> {
        if self.eat(punctuation) {
            return Ok(());
        }
        let place = place.to_string();
        // Where a comma stands that may not, it is not what is missing.
        let place = match self.peek() {
            Some(',') => place.strip_prefix("or `,` ").unwrap_or(&place),
            _ => &place,
        };
        Err(self.expected(format_args!("`{punctuation}` {place}")))
    }

    /// The run of letters, digits and underscores that comes next; empty if there is none.
    fn run(&mut self) -> &'a str {
        self.start();
        let rest = self.rest();
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        &rest[..end]
    }

    /// The word that comes next, without reading it; empty if there is none.
    pub(super) fn peek_word(&mut self) -> &'a str {
        let run = self.run();
        if run.starts_with(|c: char| c.is_ascii_digit()) { "" } else { run }
    }

    /// Whether `word` comes next; then it is read.
    pub(super) fn eat_word(&mut self, word: &str) -> bool {
        let found = self.peek_word() == word;
        if found {
            self.at += word.len();
        }
        found
    }

    /// Reads a word and gives its place.
    pub(super) fn word(&mut self, expected: impl Display) -> Result<(&'a str, Range<usize>)> {
        let word = self.peek_word();
        if word.is_empty() {
            return Err(self.expected(expected));
        }
        let start = self.at;
        self.at += word.len();
        Ok((word, start..self.at))
    }

    /// Reads digits as a number with a sign given by the caller.
    pub(super) fn literal(&mut self, negative: bool, expected: impl Display) -> Result<i64> {
        let start = self.start();
        let rest = self.rest();
        let digits = &rest[..rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len())];
        if digits.is_empty() {
            return Err(self.expected(expected));
        }
        let magnitude = digits.parse::<i128>().unwrap_or(i128::MAX);
        self.at += digits.len();
        i64::try_from(if negative { -magnitude } else { magnitude }).map_err(|_| {
            self.error(start..self.at, format!("the number {} does not fit 63 bits", quote(digits)))
        })
    }

    /// Reads a number of 0 or more.
    pub(super) fn number(&mut self, expected: impl Display) -> Result<u64> {
        self.literal(false, expected).map(i64::unsigned_abs)
    }

    /// Reads a number with or without a minus.
    pub(super) fn integer(&mut self, expected: impl Display) -> Result<i64> {
        let negative = self.eat("-");
        self.literal(negative, expected)
    }

    /// Reads a shape without an element type: `2x3x4`.
    pub(super) fn sizes(&mut self, what: &str) -> Result<Vec<u64>> {
        let mut sizes = Vec::new();
        loop {
            sizes.push(self.number(format_args!("a size of the {what}"))?);
            if !self.eat("x") {
                return Ok(sizes);
            }
        }
    }

    /// Reads the sizes before an element type, `2x3x` of `2x3xf32`.
    pub(super) fn leading_sizes(&mut self, what: &str) -> Result<Vec<u64>> {
        let mut sizes = Vec::new();
        while self.at_digit() {
            sizes.push(self.number("a size")?);
            self.expect("x", format_args!("after a size of the {what}"))?;
        }
        if self.peek() == Some('?') {
            return Err(self.expected(format_args!("a size of the {what} that is known")));
        }
        Ok(sizes)
    }

    /// Reads a list in parentheses or brackets; a comma may follow its last item.
    pub(super) fn list<T>(
        &mut self,
        what: &str,
        mut item: impl FnMut(&mut Self) -> Result<T>,
    ) -> Result<Vec<T>> {
        let close = match self.peek() {
            Some('(') => ")",
            Some('[') => "]",
            _ => return Err(self.expected(format_args!("`(` or `[` before {what}"))),
        };
        self.at += 1;
        let mut items = Vec::new();
        while !self.eat(close) {
            items.push(item(self)?);
            if !self.eat(",") {
                self.expect(close, format_args!("or `,` after an entry of {what}"))?;
                break;
            }
        }
        Ok(items)
    }

    /// Reads a list of numbers of 0 or more.
    pub(super) fn numbers(&mut self, what: &str) -> Result<Vec<u64>> {
        self.list(what, |c| c.number("a number"))
    }

    /// Reads a list of numbers with or without a minus.
    pub(super) fn integers(&mut self, what: &str) -> Result<Vec<i64>> {
        self.list(what, |c| c.integer("a number"))
    }

    /// Reads two numbers.
    pub(super) fn pair(&mut self, what: &str) -> Result<[u64; 2]> {
        let start = self.start();
        let numbers = self.numbers(what)?;
        <[u64; 2]>::try_from(numbers.as_slice()).map_err(|_| {
            self.error_since(start, format!("expected two numbers for {what}, found {}", numbers.len()))
        })
    }

    /// Reads one of the names.
    pub(super) fn choose<T: Copy>(&mut self, what: &str, names: &[(&str, T)]) -> Result<T> {
        let word = self.peek_word();
        if let Some(&(_, found)) = names.iter().find(|n| n.0 == word) {
            self.at += word.len();
            return Ok(found);
        }
        let all: Vec<&str> = names.iter().map(|n| n.0).collect();
        let (word, span) = self.word(format_args!("{what} ({})", either(&all)))?;
        Err(self.unknown(what, word, span, &all))
    }

    /// Reads `key=value, key=value` up to and with `close`; each key once. `read` reads the value of a key.
    pub(super) fn arguments(
        &mut self,
        close: &str,
        mut read: impl FnMut(&mut Self, &'a str, Range<usize>) -> Result<()>,
    ) -> Result<()> {
        let mut seen = HashSet::new();
        while !self.eat(close) {
            let (key, span) = self.word(format_args!("a key or `{close}`"))?;
            if !seen.insert(key) {
                return Err(self.error(span, format!("{} is given twice", quote(key))));
            }
            self.expect("=", format_args!("after {}", quote(key)))?;
            let start = self.start();
            read(self, key, span)?;
            self.mark(key, start);
            if !self.eat(",") {
                self.expect(close, format_args!("or `,` after the value of {}", quote(key)))?;
                break;
            }
        }
        Ok(())
    }

    /// The value of a key that must be there; `start` is where the descriptor starts.
    pub(super) fn required<T>(&self, value: Option<T>, key: &str, start: usize) -> Result<T> {
        value.ok_or_else(|| self.error_since(start, format!("`{key}=` is missing")))
    }

    /// Skips the value of a key that no rule knows, and warns of it; `span` is where the key stands.
    pub(super) fn skip_unknown(&mut self, key: &str, span: &Range<usize>) {
        self.skip_value();
        self.warnings
            .push(|| format!("byte {}: {} is not a known key and was ignored", span.start, quote(key)));
    }

    /// Skips a value of any kind, up to a comma or a closing bracket that is not its own, and returns it.
    pub(super) fn skip_value(&mut self) -> &'a str {
        let start = self.start();
        let mut depth = 0u32;
        let mut quoted = None;
        for (i, c) in self.rest().char_indices() {
            match (quoted, c) {
                (Some(q), c) if q == c => quoted = None,
                (Some(_), _) => {}
                (None, '"' | '\'') => quoted = Some(c),
                (None, '(' | '[' | '{' | '<') => depth += 1,
                (None, ')' | ']' | '}' | '>' | ',') if depth == 0 => {
                    self.at += i;
                    return self.text[start..self.at].trim_end();
                }
                (None, ')' | ']' | '}' | '>') => depth -= 1,
                _ => {}
            }
        }
        self.at = self.text.len();
        self.text[start..].trim_end()
    }

    /// Nothing but blanks may follow.
    pub(super) fn finish(&mut self) -> Result<()> {
        if self.peek().is_none() { Ok(()) } else { Err(self.expected("the end of the text")) }
    }

    /// Remembers that what is between `start` and here is `part` of the descriptor.
    pub(super) fn mark(&mut self, part: &'a str, start: usize) {
        self.marks.push((part, self.since(start)));
    }

    /// Where the part of a descriptor that a value error names stands in the text.
    pub(super) fn locate(&self, error: Error) -> Error {
        if let Error::Value { what, .. } = &error
            && let Some(span) = self.part(what)
        {
            return self.error(span, error.to_string());
        }
        error
    }

    /// Where a part that was marked stands.
    fn part(&self, part: &str) -> Option<Range<usize>> {
        self.marks.iter().rfind(|m| m.0 == part).map(|m| m.1.clone())
    }

    /// An error over the value of a key.
    pub(super) fn error_in(&self, key: &str, message: String) -> Error {
        self.error(self.part(key).unwrap_or(self.at..self.at), message)
    }

    /// An error over `span`.
    pub(super) fn error(&self, span: Range<usize>, message: String) -> Error {
        Error::text(message, self.text, span)
    }

    /// An error over what was read since `start`.
    pub(super) fn error_since(&self, start: usize, message: String) -> Error {
        self.error(self.since(start), message)
    }

    /// What was read since `start`, without the blanks behind it.
    fn since(&self, start: usize) -> Range<usize> {
        start..start + self.text[start..self.at].trim_end().len()
    }

    /// "expected this, found that", over what comes next.
    pub(super) fn expected(&mut self, expected: impl Display) -> Error {
        let run = self.run();
        let found = match self.peek() {
            None => {
                return self
                    .error(self.at..self.at, format!("expected {expected}, found the end of the text"));
            }
            Some(c) if run.is_empty() => &self.rest()[..c.len_utf8()],
            Some(_) => run,
        };
        self.error(self.at..self.at + found.len(), format!("expected {expected}, found {}", quote(found)))
    }

    /// A name that is not one of `known`.
    pub(super) fn unknown(&self, what: &str, word: &str, span: Range<usize>, known: &[&str]) -> Error {
        let hint = match suggest::nearest(word, known) {
            Some(name) => format!("did you mean `{name}`?"),
            None => format!("expected {}", either(known)),
        };
        self.error(span, format!("{} is not {what}: {hint}", quote(word)))
    }
}

/// A word between backquotes, cut where it is long, escaped where it does not print.
pub(super) fn quote(word: &str) -> impl Display {
    Quoted(word)
}

struct Quoted<'a>(&'a str);

impl Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("`")?;
        self.0.chars().take(QUOTED).try_for_each(|c| write!(f, "{}", c.escape_debug()))?;
        f.write_str(if self.0.chars().nth(QUOTED).is_some() { "…`" } else { "`" })
    }
}

/// `a, b or c`.
fn either(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [one] => (*one).into(),
        [rest @ .., last] => format!("{} or {last}", rest.join(", ")),
    }
}
