//! Pictures as one HTML file: the data as JSON, and the script and the style that show it. It needs no network.

use std::ops::Range;

use serde_json::{Value, json};

use super::compare::Moves;
use super::memory::Slot;
use super::picture::Picture;
use super::strip::{Strip, runs};
use super::svg::{cut, escape};

/// One script of all files, each of which uses those in front of it, and later ones when it is called.
const SCRIPT: &str = concat!(
    include_str!("page/data.js"),
    include_str!("page/picture.js"),
    include_str!("page/colours.js"),
    include_str!("page/panel.js"),
    include_str!("page/logical.js"),
    include_str!("page/memory.js"),
    include_str!("page/inside.js"),
    include_str!("page/selection.js"),
    include_str!("page/address.js"),
    include_str!("page/page.js"),
);
const STYLE: &str = include_str!("page/page.css");

/// Nothing is loaded and nothing is sent: a browser refuses both by this policy.
const POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:";

/// One layout, or two of one tensor, as a page; with how the last one is filled, and what moves from the first to the
/// second.
pub fn html(pictures: &[Picture], strip: Option<&Strip>, moves: Option<&Moves>) -> String {
    let title = pictures.last().map_or("", |p| p.title.as_str());
    let data = json!({
        "pictures": pictures.iter().map(picture).collect::<Vec<_>>(),
        "strip": strip.map(|s| json!({ "totals": s.totals, "nests": s.nests, "more": s.more })),
        "moves": moves.map(moved),
    });
    // A script ends at the first `</`, wherever it stands.
    let data = data.to_string().replace("</", "<\\/");
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n<link rel=\"icon\" href=\"data:,\">\n\
         <title>{}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
         <script type=\"application/json\" id=\"data\">{data}</script>\n<script>\n{SCRIPT}</script>\n</body>\n</html>\n",
        escape(&cut(title, 120)),
    )
}

fn picture(picture: &Picture) -> Value {
    let Picture { panel, memory, owners, .. } = picture;
    let divisions = owners.divisions.iter().map(
        |d| json!({ "name": d.name, "bits": d.bits, "header": d.header, "wrap": d.wrap, "owner": d.owner }),
    );
    let lengths = match picture.is_exact() {
        true => runs(picture.bits(0), picture.cell_bits),
        false => vec![],
    };
    json!({
        "title": picture.title,
        "summary": picture.summary(),
        "totals": picture.totals(),
        "shape": picture.shape,
        "part": picture.part,
        "format": picture.format,
        "unit": picture.unit,
        "cell": panel.cell,
        "rows": lines(&panel.rows),
        "cols": lines(&panel.cols),
        "cellBits": picture.cell_bits,
        "copies": (0..picture.drawn_copies()).map(|k| progressions(picture.bits(k))).collect::<Vec<_>>(),
        "shared": (0..picture.drawn_copies()).map(|k| progressions(picture.shared(k))).collect::<Vec<_>>(),
        "buffers": memory.buffers,
        "bufferBytes": memory.buffer_bytes,
        "slot": memory.slot_bytes,
        "line": memory.line_bytes,
        "gaps": gaps(&memory.slots),
        "divisions": divisions.collect::<Vec<_>>(),
        "coloured": owners.coloured(),
        "names": picture.buffers.iter().map(|terms| json!(terms)).collect::<Vec<_>>(),
        "deviceSize": picture.device_size,
        "fill": picture.fill.to_string(),
        "padding": picture.padding.0,
        "runs": lengths,
        "inside": picture.inside.as_ref().map(|i| json!({
            "rows": i.rows, "cols": i.cols, "header": i.header_bits, "code": i.code_bits, "group": i.group,
        })),
    })
}

fn moved(moves: &Moves) -> Value {
    json!({
        "lookedAt": moves.looked_at, "elements": moves.elements, "stay": moves.stay, "inside": moves.inside,
        "across": moves.across, "pairs": moves.pairs,
    })
}

/// Numbers as progressions: first, step and count of each, one after the other; -1 for none.
fn progressions(values: impl Iterator<Item = Option<u64>>) -> Vec<i64> {
    let mut all: Vec<[i64; 3]> = Vec::new();
    for value in values {
        let value = value.map_or(-1, |v| v as i64);
        match all.last_mut() {
            Some([first, step, count])
                if value >= 0 && *first >= 0 && (*count == 1 || value == *first + *step * *count) =>
            {
                if *count == 1 {
                    *step = value - *first;
                }
                *count += 1;
            }
            Some([-1, _, count]) if value < 0 => *count += 1,
            _ => all.push([value, 0, 1]),
        }
    }
    all.concat()
}

/// Lines as progressions: first, length and count of ranges that follow one another; -1 for padding.
fn lines(lines: &[Option<Range<u64>>]) -> Vec<i64> {
    let mut all: Vec<[i64; 3]> = Vec::new();
    for line in lines {
        let (start, len) = line.as_ref().map_or((-1, 0), |l| (l.start as i64, (l.end - l.start) as i64));
        match all.last_mut() {
            Some([-1, _, count]) if start < 0 => *count += 1,
            Some([first, step, count]) if *step == len && start >= 0 && start == *first + *step * *count => {
                *count += 1
            }
            _ => all.push([start, len, 1]),
        }
    }
    all.concat()
}

/// The gaps among the slots: first and count of each run.
fn gaps(slots: &[Slot]) -> Vec<u64> {
    let mut all: Vec<[u64; 2]> = Vec::new();
    for (i, _) in slots.iter().enumerate().filter(|s| *s.1 == Slot::Gap) {
        match all.last_mut() {
            Some([first, count]) if *first + *count == i as u64 => *count += 1,
            _ => all.push([i as u64, 1]),
        }
    }
    all.concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progressions_say_every_number() {
        let given = [Some(5), Some(7), Some(9), None, None, Some(1), Some(1), Some(0), None, Some(3)];
        let said: Vec<Option<u64>> = progressions(given.into_iter())
            .chunks(3)
            .flat_map(|c| {
                (0..c[2]).map(|k| (c[0] >= 0).then_some((c[0] + k * c[1]) as u64)).collect::<Vec<_>>()
            })
            .collect();
        assert_eq!(said, given);
        assert_eq!(progressions((0..1000).map(Some)), [0, 1, 1000]);
        assert_eq!(lines(&[Some(0..2), Some(2..4), None, Some(4..5)]), [0, 2, 2, -1, 0, 1, 4, 1, 1]);
    }
}
