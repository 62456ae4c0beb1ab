//! What each tensor of a model becomes, by ordered rules in TOML.
//!
//! ```toml
//! [[rule]]
//! name = "*"
//! layout = "ttnn(dtype=bfloat8_b, layout=TILE)"
//!
//! [[rule]]
//! name = "*norm*"
//! layout = "ttnn(dtype=bfloat16, layout=TILE)"
//!
//! [[rule]]
//! name = "model.layers.*.mlp.experts.*.w1.weight"
//! layout = "ttnn(dtype=bfloat4_b, layout=TILE)"
//! stack = "experts.*"
//! ```
//!
//! The last rule whose glob matches a name is the tensor's. A rule that is no tensor's is an error, unless it says
//! `optional = true`; so is a tensor that no rule matches.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use globset::{GlobBuilder, GlobMatcher};
use serde::Deserialize;
use tilewright::{DType, Error, Result, Tensor};
use toml::Spanned;

use crate::array::{self, Array, Rows, Stack};
use crate::model::{Entry, Model};

/// Rule sets that need no file, by their names.
pub const READY_MADE: [(&str, &str); 2] =
    [("ttnn-bfp8", include_str!("../rules/ttnn-bfp8.toml")), ("spyre", include_str!("../rules/spyre.toml"))];

/// The layout of a rule that has a `dtype` and no `layout`.
const DEFAULT_LAYOUT: &str = "ttnn(dtype={dtype}, layout=TILE)";

/// One rule.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Rule {
    /// A glob of whole names: `*` and `?` cross dots, `{a,b}` and `[ab]` choose.
    pub name: String,
    /// The text of the layout. `{shape}` stands for `64x96`, `{dims}` for `64, 96`, `{dtype}` for the rule's `dtype`, or
    /// the tensor's own.
    pub layout: Option<String>,
    /// What `{dtype}` stands for.
    pub dtype: Option<String>,
    /// How the tensor is handed out to a mesh of devices, as `--mesh`.
    pub mesh: Option<String>,
    /// Part of the glob, with one `*` that matches numbers: tensors that differ there only become one, stacked along a new
    /// first dimension, under the name without the number.
    pub stack: Option<String>,
    /// Tensors whose rows are joined to one.
    pub fuse: Option<Fuse>,
    /// Rows of the tensor that become tensors of their own.
    #[serde(default)]
    pub split: Vec<Part>,
    /// Whether the last two dimensions change places.
    #[serde(default)]
    pub transpose: bool,
    /// Only tensors of this many dimensions.
    pub rank: Option<usize>,
    /// Whether the tensor is left out.
    #[serde(default)]
    pub skip: bool,
    /// Whether the rule may match nothing.
    #[serde(default)]
    pub optional: bool,
}

/// Tensors whose rows are joined: one component of the name tells them apart.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fuse {
    /// The component in the name of the result.
    pub into: String,
    /// The component in the names of the parts, in the order of their rows.
    pub parts: Vec<String>,
}

/// Rows that become a tensor of their own: the last component of the name but `weight` or `bias`, and how many rows come
/// next, or which: `"1::2"` is every second one from the first on.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Part(pub String, pub Wanted);

/// Which rows.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Wanted {
    /// So many, after those of the parts before.
    Next(u64),
    /// `first::step`.
    Every(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    rule: Vec<Spanned<Rule>>,
}

/// Rules in order.
#[derive(Debug)]
pub struct Rules {
    rules: Vec<(Rule, GlobMatcher)>,
    text: String,
}

/// One tensor to be made.
pub struct Output {
    /// Its name.
    pub name: String,
    /// Which rule made it, from 0.
    pub rule: usize,
    /// The elements, before any transposition.
    pub array: Arc<dyn Array>,
    /// The names of the tensors that it is made from.
    pub sources: Vec<String>,
    /// Where its source begins in the order of the files, so that outputs can be made in that order.
    pub order: usize,
}

impl Rules {
    /// Rules from a text in TOML.
    ///
    /// # Errors
    /// [`Error::Value`] with the place, where it is no TOML, a key is unknown, or a glob or a rule makes no sense.
    pub fn parse(text: &str) -> Result<Rules> {
        let refuse = |span: Option<Range<usize>>, what: String| {
            let line = span.map_or(1, |s| 1 + text[..s.start.min(text.len())].matches('\n').count());
            Error::value(
                format!("rules, line {line}"),
                what,
                "`[[rule]]` tables as the documentation has them",
            )
        };
        let file: File = toml::from_str(text).map_err(|e| refuse(e.span(), e.message().to_owned()))?;
        let mut rules = Vec::with_capacity(file.rule.len());
        for rule in file.rule {
            let span = rule.span();
            let rule = rule.into_inner();
            let glob = rule.matcher().and_then(|glob| rule.check().map(|()| glob));
            rules.push((rule, glob.map_err(|what| refuse(Some(span), what))?));
        }
        Ok(Rules { rules, text: text.to_owned() })
    }

    /// A ready-made set.
    pub fn ready_made(name: &str) -> Option<&'static str> {
        READY_MADE.iter().find(|set| set.0 == name).map(|set| set.1)
    }

    /// The text that they came from.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// All rules, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Rule> {
        self.rules.iter().map(|(rule, _)| rule)
    }

    /// A rule by its number.
    pub fn rule(&self, i: usize) -> &Rule {
        &self.rules[i].0
    }

    /// Every tensor that the rules make of a model, in the order of the model's files.
    ///
    /// # Errors
    /// [`Error::Value`] where a tensor has no rule, a rule has no tensor, or tensors cannot be put together as a rule says.
    pub fn apply(&self, model: &Model) -> Result<Vec<Output>> {
        let mut used = vec![false; self.rules.len()];
        // By rule and by the name of the result: the parts, with their place among themselves.
        let mut groups: BTreeMap<(usize, String), Vec<(u64, usize)>> = BTreeMap::new();
        for (i, entry) in model.entries().iter().enumerate() {
            let Some(k) = self.matching(&entry.name, entry.shape.len()) else {
                let needed =
                    "a rule whose name matches it (`name = \"*\"` matches all), or one with `skip = true`";
                return Err(Error::value("rules", format!("none for `{}`", entry.name), needed));
            };
            used[k] = true;
            let rule = self.rule(k);
            if !rule.skip {
                let (name, place) = rule.result(&entry.name)?;
                groups.entry((k, name)).or_default().push((place, i));
            }
        }
        if let Some(k) = (0..used.len()).find(|&k| !used[k] && !self.rule(k).optional) {
            let given = format!("`{}`, which is no tensor's last match", self.rule(k).name);
            return Err(Error::value("rules", given, "rules that are used, or `optional = true`"));
        }
        let mut outputs = Vec::new();
        for ((k, name), parts) in groups {
            outputs.extend(self.rule(k).outputs(k, &name, parts, model.entries())?);
        }
        outputs.sort_by_key(|o| o.order);
        let mut names = std::collections::HashSet::new();
        match outputs.iter().find(|o| !names.insert(o.name.as_str())) {
            Some(twice) => {
                Err(Error::value("rules", format!("two tensors called `{}`", twice.name), "one of each name"))
            }
            None => Ok(outputs),
        }
    }

    /// The last rule that matches a tensor of this name and so many dimensions.
    pub fn matching(&self, name: &str, rank: usize) -> Option<usize> {
        let fits = |(rule, glob): &(Rule, GlobMatcher)| {
            rule.rank.is_none_or(|wanted| wanted == rank) && glob.is_match(name)
        };
        self.rules.iter().rposition(fits)
    }
}

impl Rule {
    fn matcher(&self) -> Result<GlobMatcher, String> {
        let glob = GlobBuilder::new(&self.name).literal_separator(false).build();
        glob.map(|g| g.compile_matcher()).map_err(|e| e.to_string())
    }

    fn check(&self) -> Result<(), String> {
        let made = self.layout.is_some() || self.dtype.is_some();
        match (self.skip, made) {
            (false, false) => return Err(format!("`{}` has neither layout, dtype nor skip", self.name)),
            (true, true) => return Err(format!("`{}` is skipped and has a layout or dtype", self.name)),
            _ => {}
        }
        if let Some(stack) = &self.stack
            && (stack.matches('*').count() != 1 || !self.name.contains(stack.as_str()))
        {
            return Err(format!("stack `{stack}` is not a part of `{}` with one `*`", self.name));
        }
        match &self.fuse {
            Some(fuse) if fuse.parts.is_empty() => Err(format!("fuse into `{}` names no parts", fuse.into)),
            Some(_) if self.stack.is_some() => Err("a rule stacks or fuses, not both".to_owned()),
            _ => Ok(()),
        }
    }

    /// The text of the layout for a tensor.
    pub fn layout_of(&self, tensor: &Tensor) -> String {
        let list =
            |separator: &str| tensor.shape.iter().map(u64::to_string).collect::<Vec<_>>().join(separator);
        let dtype = self.dtype.clone().unwrap_or_else(|| tensor.dtype.mlir_name().to_owned());
        let torch = match tensor.dtype {
            DType::F32 => "float32",
            DType::F16 => "float16",
            DType::Bf16 => "bfloat16",
            DType::F8E4M3 => "float8_e4m3fn",
            other => other.name(),
        };
        let text = self.layout.as_deref().unwrap_or(DEFAULT_LAYOUT);
        text.replace("{shape}", &list("x"))
            .replace("{dims}", &list(", "))
            .replace("{torch}", torch)
            .replace("{dtype}", &dtype)
    }

    /// The name of what a tensor becomes a part of, and its place there.
    fn result(&self, name: &str) -> Result<(String, u64)> {
        if let Some(stack) = &self.stack {
            let (before, after) = stack.split_once('*').unwrap_or((stack, ""));
            let number = numbered(name, before, after);
            let needed = format!("a number where `{stack}` has its `*`");
            let (range, number) = number.ok_or_else(|| Error::value("stack", format!("`{name}`"), needed))?;
            // `experts.3.w1` becomes `experts.w1`: one of the dots goes with the number.
            let (head, tail) = (&name[..range.start], &name[range.end..]);
            let head =
                if tail.starts_with('.') || tail.is_empty() { head.trim_end_matches('.') } else { head };
            return Ok((format!("{head}{tail}"), number));
        }
        if let Some(fuse) = &self.fuse {
            for (component, range) in components(name) {
                if let Some(place) = fuse.parts.iter().position(|part| part == component) {
                    return Ok((
                        format!("{}{}{}", &name[..range.start], fuse.into, &name[range.end..]),
                        place as u64,
                    ));
                }
            }
            let needed = format!("one of {} as a component", fuse.parts.join(", "));
            return Err(Error::value("fuse", format!("`{name}`"), needed));
        }
        Ok((name.to_owned(), 0))
    }

    /// What the parts of one result become.
    fn outputs(
        &self,
        rule: usize,
        name: &str,
        mut parts: Vec<(u64, usize)>,
        entries: &[Entry],
    ) -> Result<Vec<Output>> {
        parts.sort_unstable();
        let expected = self.fuse.as_ref().map_or(parts.len(), |fuse| fuse.parts.len());
        let gap = (0..expected as u64).find(|&i| parts.get(i as usize).is_none_or(|part| part.0 != i));
        if let Some(gap) = gap {
            let given = format!("{} parts of `{name}` without number {gap}", parts.len());
            return Err(Error::value("rules", given, "every part, counted from 0"));
        }
        let sources: Vec<String> = parts.iter().map(|&(_, i)| entries[i].name.clone()).collect();
        let order = parts.iter().map(|&(_, i)| i).min().unwrap_or(0);
        let mut arrays: Vec<Arc<dyn Array>> =
            parts.iter().map(|&(_, i)| array::open(&entries[i])).collect::<Result<_>>()?;
        let array: Arc<dyn Array> = match (&self.stack, &self.fuse) {
            (Some(_), _) => Arc::new(Stack::stacked(arrays)?),
            (None, Some(_)) => Arc::new(Stack::joined(arrays)?),
            (None, None) => arrays.remove(0),
        };
        let output = |name: String, array| Output { name, rule, array, sources: sources.clone(), order };
        if self.split.is_empty() {
            return Ok(vec![output(name.to_owned(), array)]);
        }
        let mut next = 0;
        let mut outputs = Vec::with_capacity(self.split.len());
        for Part(component, wanted) in &self.split {
            let rows = self.rows(&array, wanted, &mut next)?;
            outputs.push(output(renamed(name, component), Arc::new(rows)));
        }
        let (Some(&rows), false) = (array.tensor().shape.first(), self.split.iter().any(Part::is_every))
        else {
            return Ok(outputs);
        };
        if next != rows {
            return Err(Error::value("split", format!("{next} rows of `{name}`"), format!("all {rows}")));
        }
        Ok(outputs)
    }

    fn rows(&self, array: &Arc<dyn Array>, wanted: &Wanted, next: &mut u64) -> Result<Rows> {
        let of = Arc::clone(array);
        match wanted {
            Wanted::Next(n) => {
                let first = *next;
                *next = first.saturating_add(*n);
                Rows::new(of, first, 1, *n)
            }
            Wanted::Every(text) => {
                let numbers =
                    text.split_once("::").and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
                let (first, step): (u64, u64) =
                    numbers.filter(|&(first, step)| first < step).ok_or_else(|| {
                        Error::value("split", format!("{text:?}"), "a number of rows, or `first::step`")
                    })?;
                let rows = array.tensor().shape.first().copied().unwrap_or(0);
                Rows::new(of, first, step, rows.saturating_sub(first).div_ceil(step))
            }
        }
    }
}

impl Part {
    fn is_every(&self) -> bool {
        matches!(self.1, Wanted::Every(_))
    }
}

/// The number in `name` between `before` and `after`, and where it stands.
fn numbered(name: &str, before: &str, after: &str) -> Option<(Range<usize>, u64)> {
    name.match_indices(before).find_map(|(at, _)| {
        let start = at + before.len();
        let digits = name[start..].bytes().take_while(u8::is_ascii_digit).count();
        let end = start + digits;
        // A component is a number as a whole.
        let whole = name[end..].is_empty() || name[end..].starts_with('.');
        let number = name[start..end].parse().ok()?;
        (whole && name[end..].starts_with(after)).then_some((start..end, number))
    })
}

/// The components of a dotted name, and where they stand.
fn components(name: &str) -> impl Iterator<Item = (&str, Range<usize>)> {
    let mut start = 0;
    name.split('.').map(move |component| {
        let range = start..start + component.len();
        start = range.end + 1;
        (component, range)
    })
}

/// The name with another last component; `weight` and `bias` stay behind it.
fn renamed(name: &str, component: &str) -> String {
    let all: Vec<_> = components(name).collect();
    let named = all.iter().rev().find(|(c, _)| !matches!(*c, "weight" | "bias"));
    match named {
        Some((_, range)) => format!("{}{component}{}", &name[..range.start], &name[range.end..]),
        None => format!("{component}.{name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(text: &str) -> Rule {
        Rules::parse(&format!("[[rule]]\n{text}\n")).unwrap().rule(0).clone()
    }

    #[test]
    fn names_of_results() {
        let stacked =
            rule("name = \"l.*.experts.*.w1.weight\"\ndtype = \"bfloat8_b\"\nstack = \"experts.*\"");
        assert_eq!(stacked.result("l.3.experts.17.w1.weight").unwrap(), ("l.3.experts.w1.weight".into(), 17));
        assert!(stacked.result("l.3.experts.x.w1.weight").is_err());
        let fused = rule(
            "name = \"*\"\ndtype = \"bfloat8_b\"\nfuse = { into = \"qkv\", parts = [\"q\", \"k\", \"v\"] }",
        );
        assert_eq!(fused.result("a.k.weight").unwrap(), ("a.qkv.weight".into(), 1));
        assert_eq!(renamed("mlp.experts.gate_up_proj", "up_proj"), "mlp.experts.up_proj");
        assert_eq!(renamed("attn.qkv_proj.weight", "q_proj"), "attn.q_proj.weight");
    }

    #[test]
    fn texts_of_layouts() {
        let tensor = Tensor { shape: vec![64, 96], dtype: DType::F16 };
        assert_eq!(
            rule("name = \"*\"\ndtype = \"bfloat8_b\"").layout_of(&tensor),
            "ttnn(dtype=bfloat8_b, layout=TILE)"
        );
        let spyre = rule("name = \"*\"\nlayout = \"SpyreTensorLayout(({dims}), torch.{torch})\"");
        assert_eq!(spyre.layout_of(&tensor), "SpyreTensorLayout((64, 96), torch.float16)");
    }

    #[test]
    fn wrong_rules_name_their_line() {
        let cases = [
            ("[[rule]]\nname = \"*\"\n", "line 1"),
            ("[[rule]]\nname = \"*\"\nskip = true\n\n[[rule]]\nname = \"a[\"\nskip = true\n", "line 5"),
            ("[[rule]]\nname = \"*\"\nlayuot = \"x\"\n", "line 3"),
            ("[[rule]]\nname = \"*.w\"\ndtype = \"bfloat8_b\"\nstack = \"experts.*\"\n", "line 1"),
            ("rule = 3\n", "line 1"),
        ];
        for (text, line) in cases {
            let error = Rules::parse(text).unwrap_err().to_string();
            assert!(error.contains(line), "{text}: {error}");
        }
    }
}
