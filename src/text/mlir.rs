//! MLIR files: which layouts are in them.
//!
//! Compilers give attributes and types names, `#layout3 = #ttnn.ttnn_layout<..>` or `!t = tensor<..>`, and use the names.
//! [`read`] goes through a file once, whatever its size, keeps the definitions and the types that have a layout, and
//! puts the definitions in. It knows brackets, strings and comments, and nothing of operations.
//!
//! ```
//! let file = "#dram = #ttnn.buffer_type<dram>\n\
//!     #layout = #ttnn.ttnn_layout<(d0, d1) -> (d0, d1), <1x1>, memref<64x96xf32, #dram>, <interleaved>>\n\
//!     func.func @f(%0: tensor<64x96xf32, #layout>) -> tensor<64x96xf32, #layout>";
//! let module = tilewright::text::mlir::read(file.as_bytes())?;
//! assert_eq!(module.uses().len(), 1);
//! assert_eq!((module.uses()[0].count, module.uses()[0].line, module.uses()[0].column), (2, 3, 18));
//! let layout: tilewright::Descriptor = module.uses()[0].text.parse()?;
//! assert!(module.alias("#layout")?.contains("#ttnn.buffer_type<dram>"));
//! # Ok::<(), tilewright::Error>(())
//! ```

use std::collections::HashMap;
use std::io::BufRead;

use super::lexer::quote;
use crate::error::{Error, Result};

/// The most bytes of a type or a definition, definitions of others put in.
const MAX_TYPE: usize = 1 << 20;

/// The most bytes of definitions and types that are kept of one file.
const MAX_KEPT: usize = 256 << 20;

/// How deep definitions may use each other.
const MAX_DEPTH: usize = 32;

/// The longest name that is one: of an alias, or of an attribute.
const MAX_NAME: usize = 256;

/// A type with a layout, and where it is used.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Use {
    /// The type, its aliases replaced by what they stand for. A name without a definition is left.
    pub text: String,
    /// How many times it occurs.
    pub count: u64,
    /// The line of its first use, from 1.
    pub line: u64,
    /// The byte in that line, from 1.
    pub column: u64,
}

/// A type or a definition that does not end, of which nothing is known but where it begins.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Torn {
    /// Its first characters.
    pub text: String,
    /// The line in which it begins, from 1.
    pub line: u64,
    /// The byte in that line, from 1.
    pub column: u64,
}

/// What [`read`] found.
#[derive(Debug, Clone, Default)]
pub struct Module {
    uses: Vec<Use>,
    torn: Vec<Torn>,
    definitions: HashMap<String, Definition>,
}

/// What a name stands for.
#[derive(Debug, Clone)]
struct Definition {
    text: String,
    line: u64,
    /// The line of another definition of the name, in a later part of the file, that says something else.
    other: Option<u64>,
}

impl Module {
    /// The distinct types that have a layout, in the order of their first uses.
    pub fn uses(&self) -> &[Use] {
        &self.uses
    }

    /// The types and definitions that do not end, in the order of their places. What follows one is looked through from
    /// the next `%`, which no type has, or from the next part of the file.
    pub fn torn(&self) -> &[Torn] {
        &self.torn
    }

    /// What `#name` or `!name` stands for, other aliases replaced.
    ///
    /// # Errors
    /// [`Error::Value`] for a name without a definition, or with several; [`Error::TooComplex`] where the definitions
    /// use each other in a circle or grow too large.
    pub fn alias(&self, name: &str) -> Result<String> {
        let given = quote(name);
        let Some(found) = self.definitions.get(name) else {
            let known: Vec<&str> = self.definitions.keys().map(String::as_str).collect();
            let needed = match super::suggest::nearest(name, &known) {
                Some(near) => format!("a name that the file defines, such as {}", quote(near)),
                None => format!("a name that the file defines; it defines {}", known.len()),
            };
            return Err(Error::value("alias", given, needed));
        };
        if let Some(other) = found.other {
            let given = format!("{given}, which lines {} and {other} define in two ways", found.line);
            return Err(Error::value("alias", given, "a name with one definition"));
        }
        Ok(found.text.clone())
    }
}

/// Reads an MLIR file. It need not be valid where no layouts are.
///
/// Parts of a file that `// -----` separates have definitions of their own. Memory is bounded by what is kept, the
/// definitions and the distinct types.
///
/// # Errors
/// [`Error::Io`] without a path where reading fails; [`Error::TooComplex`] for more than 2^28 bytes of definitions and
/// types, and for definitions that make a type of more than 2^20. A type that does not end within as many is
/// [torn](Module::torn), and no error.
pub fn read(mut file: impl BufRead) -> Result<Module> {
    let mut scanner = Scanner::default();
    loop {
        let chunk = match file.fill_buf() {
            Ok([]) => break,
            Ok(chunk) => chunk,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(Error::io("", "cannot read it", e)),
        };
        let len = chunk.len();
        for &byte in chunk {
            scanner.byte(byte)?;
        }
        file.consume(len);
    }
    scanner.finish()
}

/// What the scanner is inside of.
#[derive(Default, PartialEq)]
enum State {
    /// Operations, of which only words and types matter.
    #[default]
    Text,
    /// The brackets of an attribute that is no type: so many are open.
    Skip(usize),
    /// A type: so many brackets are open.
    Type(usize),
    /// The definition of a name.
    Definition { name: String, depth: usize },
}

/// A place in the file.
#[derive(Clone, Copy, Default)]
struct At {
    line: u64,
    column: u64,
}

#[derive(Default)]
struct Scanner {
    state: State,
    /// Whether a `"` is open, and whether the last byte was a `\` in it.
    string: bool,
    escaped: bool,
    /// Bytes of a comment so far; none outside of one.
    comment: Option<usize>,
    /// Whether the comment began its line and is ` -----` so far.
    separator: bool,
    previous: u8,
    line: u64,
    column: u64,
    /// Whether nothing but blanks came before the current word in its line.
    fresh: bool,
    /// The current word, with `#` or `!` in front where it has that.
    word: Vec<u8>,
    word_at: At,
    word_fresh: bool,
    /// A name that began a line, until it is seen whether `=` follows.
    pending: Option<(String, At)>,
    captured: Vec<u8>,
    captured_at: At,
    /// Types as they are written in this part of the file.
    found: HashMap<Vec<u8>, (u64, At)>,
    aliases: HashMap<String, (String, u64)>,
    kept: usize,
    /// Where each distinct type of all parts is in `module.uses`.
    distinct: HashMap<String, usize>,
    module: Module,
}

impl Scanner {
    fn byte(&mut self, byte: u8) -> Result<()> {
        if self.previous == b'\n' || self.line == 0 {
            (self.line, self.column, self.fresh) = (self.line + 1, 0, true);
        }
        self.column += 1;
        if self.comment.is_some() {
            self.in_comment(byte)?;
        } else if self.string {
            self.in_string(byte)?;
        } else if byte == b'/' && self.previous == b'/' {
            self.begin_comment()?;
        } else if self.state == State::Text {
            self.in_text(byte)?;
        } else {
            self.in_brackets(byte)?;
        }
        // `//` and `->` are two bytes each, and neither is half of another.
        self.previous = byte;
        Ok(())
    }

    fn begin_comment(&mut self) -> Result<()> {
        if self.state == State::Text {
            self.end_word(b' ')?;
        } else if !matches!(self.state, State::Skip(_)) {
            self.captured.pop();
        }
        (self.comment, self.separator) = (Some(0), self.column == 2);
        Ok(())
    }

    fn in_comment(&mut self, byte: u8) -> Result<()> {
        const SEPARATOR: &[u8] = b" -----";
        let Some(at) = self.comment.as_mut() else { return Ok(()) };
        if byte != b'\n' {
            self.separator &= SEPARATOR.get(*at).is_none_or(|b| *b == byte);
            *at += 1;
            return Ok(());
        }
        let separator = self.separator && *at >= SEPARATOR.len();
        self.comment = None;
        if separator {
            // No type goes on in another part of the file.
            if self.is_open() {
                self.tear()?;
            }
            self.end_part()?;
        }
        if self.state == State::Text { self.in_text(byte) } else { self.in_brackets(byte) }
    }

    fn in_string(&mut self, byte: u8) -> Result<()> {
        if self.escaped {
            self.escaped = false;
        } else if byte == b'\\' {
            self.escaped = true;
        } else if byte == b'"' || byte == b'\n' {
            // No string goes on in another line.
            self.string = false;
        }
        self.capture(byte)
    }

    /// Keeps a byte of a type or a definition.
    fn capture(&mut self, byte: u8) -> Result<()> {
        if matches!(self.state, State::Text | State::Skip(_)) {
            return Ok(());
        }
        if self.captured.len() == MAX_TYPE {
            return self.tear();
        }
        // Blanks of any length are one.
        let blank = byte.is_ascii_whitespace();
        if !blank || self.captured.last().is_some_and(|b| *b != b' ') {
            self.captured.push(if blank { b' ' } else { byte });
        }
        Ok(())
    }

    fn in_text(&mut self, byte: u8) -> Result<()> {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'$') {
            if self.word.is_empty() {
                (self.word_at, self.word_fresh) = (self.here(), self.fresh);
            }
            if self.word.len() < MAX_NAME {
                self.word.push(byte);
            }
            self.fresh = false;
            return self.drop_pending();
        }
        self.end_word(byte)?;
        if self.state != State::Text {
            return Ok(());
        }
        match byte {
            b'"' => self.string = true,
            b'#' | b'!' => {
                (self.word_at, self.word_fresh) = (self.here(), self.fresh);
                self.word.push(byte);
            }
            b'=' => {
                if let Some((name, at)) = self.pending.take() {
                    (self.captured_at, self.state) = (at, State::Definition { name, depth: 0 });
                    self.captured.clear();
                }
            }
            _ => {}
        }
        if byte.is_ascii_whitespace() {
            return Ok(());
        }
        self.fresh = false;
        self.drop_pending()
    }

    /// No `=` follows the name that began a line, so it is a use of it.
    fn drop_pending(&mut self) -> Result<()> {
        match self.pending.take() {
            Some((name, at)) if name.starts_with('!') => self.found(name.as_bytes(), at),
            _ => Ok(()),
        }
    }

    /// The word is over, since `next` follows.
    fn end_word(&mut self, next: u8) -> Result<()> {
        if self.word.is_empty() {
            return Ok(());
        }
        let word = std::mem::take(&mut self.word);
        let named = matches!(word[0], b'#' | b'!') && word.len() > 1;
        let of_dialect = named && word.contains(&b'.');
        if next == b'<' && (word == b"tensor" || word == b"memref") {
            (self.state, self.captured_at) = (State::Type(1), self.word_at);
            self.captured.clear();
            self.captured.extend_from_slice(&word);
            self.captured.push(b'<');
        } else if next == b'<' && of_dialect {
            self.state = State::Skip(1);
        } else if named && !of_dialect {
            let name = String::from_utf8_lossy(&word).into_owned();
            if self.word_fresh {
                self.pending = Some((name, self.word_at));
            } else if word[0] == b'!' {
                self.found(&word, self.word_at)?;
            }
        }
        // The same memory for the next word.
        self.word = word;
        self.word.clear();
        Ok(())
    }

    /// Whether brackets of a type or a definition are open.
    fn is_open(&self) -> bool {
        matches!(self.state, State::Type(_) | State::Definition { depth: 1.., .. })
    }

    /// Gives up a type or a definition whose end is missing, and goes on as behind it.
    fn tear(&mut self) -> Result<()> {
        let text: String = String::from_utf8_lossy(&self.captured).chars().take(40).collect();
        self.keep(size_of::<Torn>() + text.len())?;
        let At { line, column } = self.captured_at;
        self.module.torn.push(Torn { text, line, column });
        (self.state, self.string, self.escaped) = (State::Text, false, false);
        self.captured.clear();
        Ok(())
    }

    fn in_brackets(&mut self, byte: u8) -> Result<()> {
        // Values are in no type: an operation has begun.
        if byte == b'%' && self.is_open() {
            self.tear()?;
            return self.in_text(byte);
        }
        let close = match byte {
            b'"' => {
                self.string = true;
                return self.capture(byte);
            }
            b'<' | b'(' | b'[' | b'{' => Some(false),
            b'>' if self.previous == b'-' => None,
            b'>' | b')' | b']' | b'}' => Some(true),
            _ => None,
        };
        let (State::Skip(depth) | State::Type(depth) | State::Definition { depth, .. }) = &mut self.state
        else {
            return Ok(());
        };
        match close {
            Some(false) => *depth += 1,
            Some(true) => *depth = depth.saturating_sub(1),
            None => {}
        }
        let closed = *depth == 0;
        let ends = match self.state {
            State::Definition { .. } => closed && byte == b'\n' && !self.captured.is_empty(),
            _ => closed,
        };
        self.capture(byte)?;
        if ends { self.end_brackets() } else { Ok(()) }
    }

    fn end_brackets(&mut self) -> Result<()> {
        let captured = std::mem::take(&mut self.captured);
        match std::mem::take(&mut self.state) {
            State::Type(_) => {
                // Without an attribute there is no layout.
                let is_layout = captured.contains(&b'#') || (captured[0] == b'm' && captured.contains(&b'!'));
                if is_layout {
                    self.found(&captured, self.captured_at)?;
                }
            }
            State::Definition { name, .. } => self.define(name, &captured)?,
            State::Text | State::Skip(_) => {}
        }
        self.captured = captured;
        Ok(())
    }

    /// Counts a use of a type or of a name of one.
    fn found(&mut self, text: &[u8], at: At) -> Result<()> {
        if let Some(found) = self.found.get_mut(text) {
            found.0 += 1;
            return Ok(());
        }
        self.keep(text.len())?;
        self.found.insert(text.to_vec(), (1, at));
        Ok(())
    }

    fn define(&mut self, name: String, captured: &[u8]) -> Result<()> {
        let text = String::from_utf8_lossy(captured).trim().to_owned();
        // Places in sources are most of some files, and no part of a type.
        if text.starts_with("loc(") {
            return Ok(());
        }
        if self.aliases.get(&name).is_some_and(|old| old.0 != text) {
            self.end_part()?;
        }
        self.keep(name.len() + text.len())?;
        self.aliases.insert(name, (text, self.captured_at.line));
        Ok(())
    }

    fn keep(&mut self, bytes: usize) -> Result<()> {
        self.kept += bytes;
        if self.kept > MAX_KEPT {
            return Err(Error::TooComplex { what: "what the file defines".into(), cap: MAX_KEPT });
        }
        Ok(())
    }

    fn here(&self) -> At {
        At { line: self.line, column: self.column }
    }

    /// Puts the definitions of this part into its types and into each other.
    fn end_part(&mut self) -> Result<()> {
        let mut found: Vec<_> = self.found.drain().collect();
        found.sort_by_key(|(_, (_, at))| (at.line, at.column));
        for (text, (count, At { line, column })) in found {
            let written = String::from_utf8_lossy(&text);
            let resolved = expand(&self.aliases, &written)
                .ok_or_else(|| too_deep(&format!("the type at line {line}, column {column},")))?;
            // A name of something else than a type is of no use here.
            if !resolved.starts_with("tensor<") && !resolved.starts_with("memref<") {
                continue;
            }
            if let Some(&k) = self.distinct.get(&resolved) {
                self.module.uses[k].count += count;
                continue;
            }
            self.kept += resolved.len();
            self.keep(resolved.len())?;
            self.distinct.insert(resolved.clone(), self.module.uses.len());
            self.module.uses.push(Use { text: resolved, count, line, column });
        }
        for (name, (text, line)) in &self.aliases {
            let text = expand(&self.aliases, text).ok_or_else(|| too_deep(&quote(name).to_string()))?;
            match self.module.definitions.get_mut(name) {
                Some(old) if old.text != text => old.other = Some(*line),
                Some(_) => {}
                None => {
                    self.module
                        .definitions
                        .insert(name.clone(), Definition { text, line: *line, other: None });
                }
            }
        }
        self.aliases.clear();
        Ok(())
    }

    fn finish(mut self) -> Result<Module> {
        if self.state == State::Text {
            self.end_word(b' ')?;
        }
        if self.is_open() {
            self.tear()?;
        } else if matches!(self.state, State::Definition { .. }) {
            self.end_brackets()?;
        }
        self.end_part()?;
        Ok(self.module)
    }
}

fn too_deep(what: &str) -> Error {
    Error::TooComplex { what: format!("{what} with the definitions that it uses"), cap: MAX_TYPE }
}

/// A text with definitions in the place of names; names without one stay. None where it grows too large, or
/// definitions go in a circle.
fn expand(aliases: &HashMap<String, (String, u64)>, text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    // What is still to be copied, innermost last.
    let mut open: Vec<&str> = vec![text];
    while let Some(rest) = open.pop() {
        let Some(at) = rest.find(['#', '!', '"']) else {
            out.push_str(rest);
            continue;
        };
        out.push_str(&rest[..at]);
        let rest = &rest[at..];
        let end = if let Some(string) = rest.strip_prefix('"') {
            string.find('"').map_or(rest.len(), |n| n + 2)
        } else {
            let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '$');
            1 + rest[1..].find(|c| !is_name(c)).unwrap_or(rest.len() - 1)
        };
        let (word, rest) = rest.split_at(end);
        // Even if nothing is left of it, so that a circle of definitions is as deep as it is.
        open.push(rest);
        match aliases.get(word) {
            Some((definition, _)) => open.push(definition),
            None => out.push_str(word),
        }
        if out.len() > MAX_TYPE || open.len() > MAX_DEPTH {
            return None;
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(file: &str) -> Vec<(String, u64)> {
        // Chunks of every size see the same.
        let whole = read(file.as_bytes()).unwrap();
        for size in 1..6 {
            let parts = read(std::io::BufReader::with_capacity(size, file.as_bytes())).unwrap();
            assert_eq!(parts.uses(), whole.uses(), "{size}");
        }
        whole.uses().iter().map(|u| (u.text.clone(), u.count)).collect()
    }

    #[test]
    fn strings_comments_and_plain_types_are_no_layouts() {
        let file = "// tensor<1xf32, #a>\n%0 = \"x\\\"tensor<2xf32, #a>\"() : tensor<3xf32>\n\
                    memref<4xf32> memref<4xf32, #l1> // memref<5xf32, #l1>\n";
        assert_eq!(texts(file), [("memref<4xf32, #l1>".to_owned(), 1)]);
    }

    #[test]
    fn names_stand_for_their_definitions_in_each_part_of_a_file() {
        let file = "#l1 = #ttcore.memory_space<l1>\n!t = memref<2x!e, #l1>\n!e = f32\nf(!t) -> !t\n\
                    // -----\n#l1 = #ttcore.memory_space<dram>\ng(memref<2xf32, #l1>)\n";
        let l1 = "memref<2xf32, #ttcore.memory_space<l1>>".to_owned();
        let dram = "memref<2xf32, #ttcore.memory_space<dram>>".to_owned();
        assert_eq!(texts(file), [(l1, 2), (dram, 1)]);
        let module = read(file.as_bytes()).unwrap();
        assert_eq!(module.alias("!t").unwrap(), "memref<2xf32, #ttcore.memory_space<l1>>");
        let twice = module.alias("#l1").unwrap_err().to_string();
        assert!(twice.contains("lines 1 and 6"), "{twice}");
        let unknown = module.alias("#l2").unwrap_err().to_string();
        assert!(unknown.contains("`#l1`"), "{unknown}");
    }

    #[test]
    fn arrows_close_nothing_and_types_may_go_over_lines() {
        let file =
            "#m = affine_map<(d0) -> (d0)>\nx tensor<2xf32,\n   #t.l<(d0) -> (d0), memref<2xf32, #m>>>\n";
        let text = "tensor<2xf32, #t.l<(d0) -> (d0), memref<2xf32, affine_map<(d0) -> (d0)>>>>";
        assert_eq!(texts(file), [(text.to_owned(), 1)]);
        assert_eq!((read(file.as_bytes()).unwrap().uses()[0].line), 2);
    }

    #[test]
    fn what_does_not_end_is_skipped_and_named() {
        let file = "a\n  tensor<2xf32, #x\n  %1 = f : memref<1xf32, #l1>\n#a = <#b\n// -----\nmemref<2xf32, #l1>\n\
                    b memref<3xf32, \"#";
        assert_eq!(texts(file), [("memref<1xf32, #l1>".to_owned(), 1), ("memref<2xf32, #l1>".to_owned(), 1)]);
        let torn: Vec<(u64, u64)> =
            read(file.as_bytes()).unwrap().torn().iter().map(|t| (t.line, t.column)).collect();
        assert_eq!(torn, [(2, 3), (4, 1), (7, 3)]);
        let endless = format!("tensor<{}\nmemref<2xf32, #l1>", "#x ".repeat(MAX_TYPE));
        let module = read(endless.as_bytes()).unwrap();
        assert_eq!((module.torn().len(), module.uses().len()), (1, 1));
    }

    #[test]
    fn what_grows_is_refused() {
        let circle = read("#a = #b\n#b = #a\nmemref<2xf32, #a>".as_bytes()).unwrap_err();
        assert!(matches!(circle, Error::TooComplex { .. }), "{circle}");
        let bombs: String = (1..30).map(|i| format!("#a{i} = <#a{0}, #a{0}>\n", i - 1)).collect();
        let bomb = read(format!("#a0 = x\n{bombs}").as_bytes()).unwrap_err();
        assert!(matches!(bomb, Error::TooComplex { .. }), "{bomb}");
    }
}
