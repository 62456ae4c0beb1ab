//! `tilewright locate`: where an element lies, and what lies at a byte.

use serde_json::{Map, Value, json};
use tilewright::Layout;
use tilewright::layout::Owner;
use tilewright_draw::{Hardware, Term, shown};

use super::arguments::{LocateArgs, beginning, numbers};
use super::engine::Texts;
use super::failure::{Failure, Result};
use super::hardware::hardware;
use super::streams::{print, warn};

/// The most places of one element that are listed.
const MAX_PLACES: u64 = 1 << 16;

pub(crate) fn run(args: &LocateArgs) -> Result<()> {
    let texts = Texts::read(&args.tensor.read(Some(&args.layouts), None)?, &args.layouts, None)?;
    warn(&texts.warnings);
    let layout = texts.target(None)?;
    let hardware = hardware(&texts, &layout)?;
    let answer = match (&args.question.index, &args.question.offset) {
        (Some(index), _) => element(&numbers("--index", index)?, &layout, &hardware)?,
        (None, Some(offset)) => byte(offset, &layout, &hardware)?,
        (None, None) => return Err(Failure::usage("locate", "neither", "--index or --offset")),
    };
    print(&if args.json { answer.json() } else { answer.text() })
}

/// Facts about what was asked for, then a list of facts about each place of it.
struct Answer {
    facts: Vec<Term>,
    places: Vec<Vec<Term>>,
}

impl Answer {
    fn text(&self) -> String {
        let line = |terms: &[Term]| {
            let parts: Vec<String> =
                terms.iter().filter(|t| !t.1.is_null()).map(|(name, value)| part(name, value)).collect();
            parts.join("  ") + "\n"
        };
        line(&self.facts) + &self.places.iter().map(|place| line(place)).collect::<String>()
    }

    fn json(&self) -> String {
        let object = |terms: &[Term]| -> Map<String, Value> {
            terms.iter().map(|(name, value)| (name.replace(' ', "_"), value.clone())).collect()
        };
        let mut answer = object(&self.facts);
        if !self.places.is_empty() {
            let places: Vec<_> = self.places.iter().map(|place| object(place)).collect();
            answer.insert("places".to_owned(), json!(places));
        }
        format!("{}\n", Value::Object(answer))
    }
}

fn part(name: &str, value: &Value) -> String {
    match value.as_str() {
        Some(text) => format!("{name} {text}"),
        None => format!("{name} {}", shown(value)),
    }
}

fn element(index: &[u64], layout: &Layout, hardware: &Hardware) -> Result<Answer> {
    if layout.copies() > MAX_PLACES {
        let given = format!("an element of {} places", layout.copies());
        return Err(Failure::usage("--index", given, format!("at most {MAX_PLACES}, to list them")));
    }
    let places = layout.locate(index)?;
    let mut facts = vec![("index", json!(index))];
    facts.extend(hardware.index(index)?);
    let place = |at: &tilewright::layout::Place| {
        let mut terms = vec![
            ("buffer", json!(at.buffer)),
            ("byte", json!(at.byte)),
            ("bit", json!(at.bit)),
            ("shared byte", json!(at.shared)),
        ];
        terms.extend(hardware.buffer(at.buffer));
        terms.extend(hardware.byte(at.byte));
        terms
    };
    Ok(Answer { facts, places: places.iter().map(place).collect() })
}

fn byte(offset: &str, layout: &Layout, hardware: &Hardware) -> Result<Answer> {
    let place =
        offset.split_once(':').and_then(|(b, at)| Some((b.trim().parse().ok()?, at.trim().parse().ok()?)));
    let (buffer, byte): (u64, u64) = place.ok_or_else(|| {
        Failure::usage(
            "--offset",
            format!("`{}`", beginning(offset)),
            "a buffer and a byte of it, e.g. 2:1088",
        )
    })?;
    let (owner, elements) = match layout.owner(buffer, byte)? {
        Owner::Elements(elements) => ("elements", Some(elements)),
        Owner::Shared(elements) => ("shared", Some(elements)),
        Owner::Padding => ("padding", None),
        Owner::Gap => ("gap", None),
    };
    let mut facts = vec![("buffer", json!(buffer)), ("byte", json!(byte))];
    facts.extend(hardware.buffer(buffer));
    facts.extend(hardware.byte(byte));
    facts.push(("owner", json!(owner)));
    facts.extend(elements.map(|elements| ("elements", json!(elements))));
    Ok(Answer { facts, places: Vec::new() })
}
