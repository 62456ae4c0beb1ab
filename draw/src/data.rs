//! What printers share: the kind of a cell and of a slot, names of owners, and brackets.

use std::collections::BTreeMap;
use std::ops::Range;

use super::hardware::shown;
use super::memory::Slot;
use super::owners::Owners;
use super::picture::Picture;

/// What a cell or a slot looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Look {
    /// A colour, and one of four shades.
    Owned(u64, u64),
    /// An exponent or scale, in the colour of its tile.
    Shared(u64),
    Padding,
    Gap,
    /// Behind the end of a buffer.
    Outside,
}

/// A bracket beside the panel: some lines, and what is written there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Bracket {
    pub(crate) lines: Range<usize>,
    pub(crate) label: String,
}

impl Picture {
    /// The first bit of a cell in the first copy.
    pub(crate) fn bit(&self, cell: usize) -> Option<u64> {
        self.places(cell).first().map(|p| p.bit)
    }

    pub(crate) fn look(&self, cell: usize) -> Look {
        self.bit(cell).map_or(Look::Padding, |bit| {
            let (hue, shade) = self.owners.colour(bit);
            Look::Owned(hue, shade)
        })
    }

    pub(crate) fn slot_look(&self, slot: usize) -> Look {
        match self.memory.slots.get(slot) {
            Some(Slot::Cell(_)) => {
                let (hue, shade) = self.owners.colour(8 * self.memory.byte_of(slot));
                Look::Owned(hue, shade)
            }
            Some(Slot::Shared(_)) => Look::Shared(self.owners.colour(8 * self.memory.byte_of(slot)).0),
            Some(Slot::Padding) => Look::Padding,
            Some(Slot::Gap) => Look::Gap,
            None => Look::Outside,
        }
    }

    /// The numbers of the owners of a bit down to a level.
    pub(crate) fn owner(&self, bit: Option<u64>, levels: usize) -> Vec<u64> {
        let mut parts = bit.map_or_else(Vec::new, |bit| self.owners.parts(bit));
        parts.truncate(levels);
        parts
    }

    /// What a buffer is called: its terms, or its number.
    pub(crate) fn buffer_name(&self, buffer: usize) -> String {
        match self.buffers.get(buffer) {
            Some(terms) if !terms.is_empty() => {
                let parts: Vec<String> = terms.iter().map(|(n, v)| format!("{n} {}", shown(v))).collect();
                parts.join(" ")
            }
            _ => format!("buffer {buffer}"),
        }
    }

    /// The name of each owner that gives the colour, and the rectangle of cells that it fills: row, column, rows, columns.
    /// Those with scattered cells are left out, and all where there are more than 256.
    pub(crate) fn places_of_owners(&self) -> Vec<(String, [usize; 4])> {
        let Some(&level) = self.owners.coloured().first() else { return vec![] };
        let cols = self.panel.cols.len();
        let mut held: BTreeMap<Vec<u64>, (u64, [usize; 4], usize)> = BTreeMap::new();
        for cell in 0..self.panel.rows.len() * cols {
            let Some(bit) = self.bit(cell) else { continue };
            let (row, col) = (cell / cols, cell % cols);
            let (_, [top, left, bottom, right], count) =
                held.entry(self.owner(Some(bit), level + 1)).or_insert((bit, [row, col, row, col], 0));
            (*top, *left, *bottom, *right) =
                ((*top).min(row), (*left).min(col), (*bottom).max(row), (*right).max(col));
            *count += 1;
        }
        if held.len() > 256 {
            return vec![];
        }
        let filled = |&(bit, [top, left, bottom, right], count): &(u64, [usize; 4], usize)| {
            let size = [bottom - top + 1, right - left + 1];
            (10 * count >= 7 * size[0] * size[1])
                .then(|| (self.owner_name(bit, level), [top, left, size[0], size[1]]))
        };
        held.values().filter_map(filled).collect()
    }

    /// The name of the owner of a bit at a level.
    fn owner_name(&self, bit: u64, level: usize) -> String {
        let division = &self.owners.divisions[level];
        let named = self.buffers.get((bit / 8 / self.memory.buffer_bytes.max(1)) as usize);
        let term = |name| named.and_then(|terms| terms.iter().find(|t| t.0 == name)).map(|t| shown(&t.1));
        match (division.name, term("y"), term("x"), term(division.name)) {
            ("core", Some(y), Some(x), _) => format!("y{y} x{x}"),
            (name, _, _, Some(value)) => format!("{name} {value}"),
            (name, ..) => format!("{name} {}", self.owners.parts(bit)[level]),
        }
    }

    /// What the cells are, in one line.
    pub(crate) fn summary(&self) -> String {
        let [rows, cols] = self.panel.cell;
        let what = match self.is_exact() {
            true => "each cell is an element".to_owned(),
            false => format!("each cell is a {} of {rows} x {cols}", self.unit),
        };
        let shape: Vec<String> = self.shape.iter().map(u64::to_string).collect();
        format!("{} {}; {what}", shape.join(" x "), self.format)
    }

    /// Buffers, bytes and padding, in one line.
    pub(crate) fn totals(&self) -> String {
        let Picture { memory, padding, fill, .. } = self;
        let copies = if self.copies > 1 { format!("; {} copies", self.copies) } else { String::new() };
        let (s, padding_, percent) = (if memory.buffers == 1 { "" } else { "s" }, padding.0, padding.1);
        format!(
            "{} buffer{s} of {} bytes; padding {padding_} elements, {percent:.1} %, filled with {fill}{copies}",
            memory.buffers, memory.buffer_bytes
        )
    }

    /// The brackets of all row dimensions but the last, one list for each that is larger than 1; outermost first.
    pub(crate) fn row_brackets(&self) -> Vec<Vec<Bracket>> {
        let outer = self.shape.len().saturating_sub(2);
        let mut lists = Vec::new();
        for d in (0..outer).filter(|&d| self.shape[d] > 1) {
            let below: u64 = self.shape[d + 1..self.shape.len() - 1].iter().product();
            let value = |line: &Option<Range<u64>>| line.as_ref().map(|l| l.start / below);
            let named = |n: u64| format!("d{d}={}", n % self.shape[d]);
            lists.push(brackets(&self.panel.rows, value, |n, _| named(n)));
        }
        lists
    }

    /// The brackets of index ranges along the rows (0) or the columns (1): where the first owner changes.
    pub(crate) fn ranges(&self, along: usize) -> Vec<Bracket> {
        let cols = self.panel.cols.len();
        let lines = if along == 0 { &self.panel.rows } else { &self.panel.cols };
        let across = if along == 0 { &self.panel.cols } else { &self.panel.rows };
        let first = across.iter().position(Option::is_some).unwrap_or(0);
        let level = self.owners.coloured().first().map_or(0, |&l| l + 1);
        let owner = |n: usize| {
            let cell = if along == 0 { n * cols + first } else { first * cols + n };
            self.owner(self.bit(cell), level)
        };
        let size = if along == 0 { self.shape.iter().rev().nth(1) } else { self.shape.last() };
        let size = size.copied().unwrap_or(1).max(1);
        let numbers: Vec<usize> = (0..lines.len()).collect();
        let value = |&n: &usize| {
            let line = lines[n].as_ref()?;
            Some((owner(n), line.start / size))
        };
        let label = |_, held: Range<usize>| {
            let ends = (lines[held.start].as_ref(), lines[held.end - 1].as_ref());
            let (Some(a), Some(b)) = ends else { return String::new() };
            format!("{}..{}", a.start % size, (b.end - 1) % size + 1)
        };
        let found = brackets(&numbers, value, label);
        if found.len() <= 40 {
            found
        } else {
            brackets(lines, |l| l.as_ref().map(|l| l.start / size), |_, _| format!("0..{size}"))
        }
    }
}

/// Neighbouring lines of one value; lines without a value belong to none.
fn brackets<L, V: PartialEq>(
    lines: &[L],
    value: impl Fn(&L) -> Option<V>,
    label: impl Fn(V, Range<usize>) -> String,
) -> Vec<Bracket> {
    let mut found: Vec<(Range<usize>, V)> = Vec::new();
    for (n, line) in lines.iter().enumerate() {
        let Some(value) = value(line) else { continue };
        match found.last_mut() {
            Some((held, last)) if *last == value => held.end = n + 1,
            _ => found.push((n..n + 1, value)),
        }
    }
    found.into_iter().map(|(held, v)| Bracket { lines: held.clone(), label: label(v, held) }).collect()
}

/// What a colour means: the first two owners of which there are several.
pub(crate) fn legend(owners: &Owners) -> String {
    let names: Vec<&str> = owners.coloured().iter().map(|&l| owners.divisions[l].name).collect();
    match names[..] {
        [] => "one owner".to_owned(),
        [one] => format!("colour: {one}"),
        [one, two, ..] => format!("colour: {one}, shade: {two}"),
    }
}
