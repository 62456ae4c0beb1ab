//! A profile: a table of constants, where it came from, and how it is written as text.

use std::ffi::OsStr;
use std::fmt;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use super::{Constant, Machine, Tuning, builtin};
use crate::error::{Error, Result};

/// A file of more bytes is no profile.
const MAX_FILE: u64 = 64 << 10;

/// Where a profile came from.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Origin {
    /// It is a table of [`builtin`].
    BuiltIn(&'static str),
    /// It was read from this file.
    File(PathBuf),
    /// It was given as text, or measured; what the caller calls it.
    Given(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::BuiltIn(name) => write!(f, "{name}, built in"),
            Origin::File(path) => write!(f, "{}", path.display()),
            Origin::Given(name) => write!(f, "{name}"),
        }
    }
}

/// Constants, all inside of their limits, and where they came from.
///
/// As text it is a line for each constant: its name, `=`, and its number, or four numbers with blanks between for a constant
/// that has one for elements of 1, 2, 4 and 8 bytes. `#` begins a comment; empty lines mean nothing. [`Tuning::CONSTANTS`]
/// lists the names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    tuning: Tuning,
    origin: Origin,
}

impl Profile {
    /// The profile of a machine: that of [`builtin::for_machine`].
    pub fn for_machine(machine: &Machine) -> Profile {
        let (name, tuning) = builtin::for_machine(machine);
        Profile { tuning, origin: Origin::BuiltIn(name) }
    }

    /// The built-in profile of this name, if there is one.
    pub fn named(name: &str) -> Option<Profile> {
        let (name, tuning) = builtin::named(name)?;
        Some(Profile { tuning, origin: Origin::BuiltIn(name) })
    }

    /// A profile of constants that the caller has, with the caller's name for it.
    ///
    /// # Errors
    /// As [`Tuning::check`].
    pub fn new(tuning: Tuning, name: impl Into<String>) -> Result<Profile> {
        tuning.check()?;
        Ok(Profile { tuning, origin: Origin::Given(name.into()) })
    }

    /// Reads a profile from text; `name` says in errors what it is. What it does not name is as in `base`.
    ///
    /// # Errors
    /// [`Error::Value`], which names the line: a name that no constant has, one that comes twice, a number that is none or
    /// outside of its limits, more or fewer numbers than the constant has.
    pub fn parse(text: &str, name: &str, base: &Tuning) -> Result<Profile> {
        let tuning = parse(text, name, base)?;
        Ok(Profile { tuning, origin: Origin::Given(name.to_owned()) })
    }

    /// Reads a profile from a file; what it does not name is as in `base`.
    ///
    /// # Errors
    /// [`Error::Io`] where the file cannot be read, is larger than 64 KiB or is no text; and as [`Profile::parse`].
    pub fn read(path: &Path, base: &Tuning) -> Result<Profile> {
        let name = &path.display().to_string();
        let failed = |e| Error::io(name, "cannot read this profile", e);
        let mut bytes = Vec::new();
        File::open(path).and_then(|file| file.take(MAX_FILE + 1).read_to_end(&mut bytes)).map_err(failed)?;
        if bytes.len() as u64 > MAX_FILE {
            let what = format!("a profile has at most {MAX_FILE} bytes");
            return Err(Error::file(name, ErrorKind::InvalidData, what));
        }
        let text = String::from_utf8(bytes)
            .map_err(|_| Error::file(name, ErrorKind::InvalidData, "a profile is text in UTF-8"))?;
        Ok(Profile { tuning: parse(&text, name, base)?, origin: Origin::File(path.to_owned()) })
    }

    /// The built-in profile of this name or, where there is none, that of this file; what it does not name is as in `base`. `what` says
    /// in errors who named it.
    ///
    /// # Errors
    /// [`Error::Value`] where it is neither; otherwise as [`Profile::read`].
    pub fn find(given: &OsStr, what: &str, base: &Tuning) -> Result<Profile> {
        if let Some(profile) = given.to_str().and_then(Profile::named) {
            return Ok(profile);
        }
        Profile::read(Path::new(given), base).map_err(|error| match error {
            // A file that is not there may have been meant as a name.
            Error::Io { kind: ErrorKind::NotFound, .. } => {
                let names: Vec<&str> = builtin::ALL.iter().map(|(name, _)| *name).collect();
                let needed = format!("a file, or one of {}", names.join(", "));
                Error::value(what, format!("`{}`", given.display()), needed)
            }
            other => other,
        })
    }

    /// The lines of a profile for what differs from `base`: read over `base`, they give these constants.
    pub fn changes(&self, base: &Tuning) -> String {
        let all = Tuning::CONSTANTS.iter().enumerate();
        let differing = all.filter(|&(i, _)| self.tuning.numbers(i) != base.numbers(i));
        differing.map(|(i, constant)| line(constant, self.tuning.numbers(i))).collect()
    }

    /// The constants.
    pub fn tuning(&self) -> Tuning {
        self.tuning
    }

    /// Where they came from.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }
}

/// The text that [`Profile::parse`] reads, with a comment that says what each constant is.
impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut all = Tuning::CONSTANTS.iter().enumerate();
        all.try_for_each(|(i, constant)| write!(f, "{}", line(constant, self.tuning.numbers(i))))
    }
}

/// A constant as a profile has it: what it is, and its numbers.
fn line(constant: &Constant, numbers: &[usize]) -> String {
    let numbers: Vec<String> = numbers.iter().map(ToString::to_string).collect();
    format!("#{}\n{} = {}\n", constant.about, constant.name, numbers.join(" "))
}

fn parse(text: &str, name: &str, base: &Tuning) -> Result<Tuning> {
    let mut tuning = *base;
    let mut seen = [false; Tuning::CONSTANTS.len()];
    for (number, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or("").trim();
        if line.is_empty() {
            continue;
        }
        let place = || format!("{name}, line {}", number + 1);
        let Some((key, value)) = line.split_once('=') else {
            return Err(Error::value(place(), format!("`{line}`"), "`name = number`"));
        };
        let key = key.trim();
        let Some(i) = Tuning::CONSTANTS.iter().position(|constant| constant.name == key) else {
            return Err(Error::value(place(), format!("`{key}`"), unknown(key)));
        };
        if std::mem::replace(&mut seen[i], true) {
            return Err(Error::value(place(), format!("`{key}` again"), "each constant once"));
        }
        let numbers = numbers(value, &Tuning::CONSTANTS[i], &place)?;
        tuning.numbers_mut(i).copy_from_slice(&numbers);
    }
    Ok(tuning)
}

/// The numbers of one line.
fn numbers(value: &str, constant: &Constant, place: &dyn Fn() -> String) -> Result<Vec<usize>> {
    let words: Vec<&str> = value.split_ascii_whitespace().collect();
    if words.len() != constant.count {
        let needed = match constant.count {
            1 => "one number".to_owned(),
            count => format!("{count} numbers, of elements of 1, 2, 4 and 8 bytes"),
        };
        let given = format!("{} numbers for `{}`", words.len(), constant.name);
        return Err(Error::value(place(), given, needed));
    }
    let mut numbers = Vec::new();
    for word in words {
        let Ok(number) = word.parse::<usize>() else {
            let (name, least, most) = (constant.name, constant.least, constant.most);
            let needed = format!("a whole number from {least} to {most} for `{name}`");
            return Err(Error::value(place(), format!("`{word}`"), needed));
        };
        numbers.push(number);
    }
    constant.check(&numbers, || format!("{}, `{}`", place(), constant.name))?;
    Ok(numbers)
}

/// What a name should have been.
fn unknown(key: &str) -> String {
    let near = |constant: &&Constant| strsim::osa_distance(constant.name, key);
    match Tuning::CONSTANTS.iter().min_by_key(near).filter(|c| strsim::osa_distance(c.name, key) <= 3) {
        Some(constant) => format!("`{}`?", constant.name),
        None => {
            let names: Vec<&str> = Tuning::CONSTANTS.iter().map(|constant| constant.name).collect();
            format!("one of {}", names.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_is_read_as_it_is_written() {
        for (_, tuning) in builtin::ALL {
            let written = Profile::new(tuning, "x").unwrap().to_string();
            let read = |text: &str| Profile::parse(text, "x", &builtin::CONSERVATIVE).unwrap().tuning();
            assert_eq!(read(&written), tuning, "{written}");
            let changes = Profile::new(tuning, "x").unwrap().changes(&builtin::CONSERVATIVE);
            assert_eq!(read(&changes), tuning, "{changes}");
        }
    }

    #[test]
    fn what_is_not_named_stays() {
        let text = "\n# a comment\n segment=4096 # bytes\ntransposed_lines = 1 2 3 4\n";
        let tuning = Profile::parse(text, "x", &builtin::ZEN4).unwrap().tuning();
        assert_eq!(tuning, Tuning { segment: 4096, transposed_lines: [1, 2, 3, 4], ..builtin::ZEN4 });
    }

    #[test]
    fn errors_name_the_line() {
        for (text, message) in [
            ("segment", "x, line 1: given `segment`, needed `name = number`"),
            ("\nsegmant = 64", "x, line 2: given `segmant`, needed `segment`?"),
            ("task = 1\n", "x, line 1, `task`: given 1, needed a whole number from 4096 to 1073741824"),
            ("segment = 2k", "x, line 1: given `2k`, needed a whole number from 64 to 16384 for `segment`"),
            ("segment = -1", "x, line 1: given `-1`, needed a whole number from 64 to 16384 for `segment`"),
            ("segment = 64\nsegment = 64", "x, line 2: given `segment` again, needed each constant once"),
            ("segment = 64 64", "x, line 1: given 2 numbers for `segment`, needed one number"),
            (
                "transposed_lines = 1",
                "x, line 1: given 1 numbers for `transposed_lines`, needed 4 numbers, of elements of 1, 2, 4 and 8 bytes",
            ),
        ] {
            let error = Profile::parse(text, "x", &builtin::ZEN4).unwrap_err();
            assert_eq!(error.to_string(), message);
        }
        let error = Profile::parse("nonsense = 1", "x", &builtin::ZEN4).unwrap_err().to_string();
        assert!(error.contains("one of stream_from, threads_from, "), "{error}");
    }

    #[test]
    fn files_that_are_no_profiles_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("profile");
        let read = || Profile::read(&path, &builtin::ZEN4);
        assert!(read().unwrap_err().to_string().contains("cannot read this profile"));
        std::fs::write(&path, [0xFF]).unwrap();
        assert!(read().unwrap_err().to_string().ends_with("a profile is text in UTF-8"));
        std::fs::write(&path, vec![b'#'; MAX_FILE as usize + 1]).unwrap();
        assert!(read().unwrap_err().to_string().ends_with("a profile has at most 65536 bytes"));
        std::fs::write(&path, "segment = 64").unwrap();
        assert_eq!(read().unwrap().origin(), &Origin::File(path.clone()));
    }
}
