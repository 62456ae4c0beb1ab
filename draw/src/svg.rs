//! A picture as SVG: for papers and pages. Equal cells are joined, so that files stay small.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::data::{Bracket, Look, legend};
use super::picture::Picture;
use super::regions::{Region, borders, regions};

/// The largest panels, in pixels.
const PANEL: [f64; 2] = [470.0, 520.0];
const LINES_WIDE: f64 = 400.0;

/// The most lines of a buffer, and the most buffers.
const MAX_LINES: usize = 40;
const MAX_BUFFERS: usize = 12;

/// About as many lines of all buffers.
const ALL_LINES: usize = 120;

/// Width of the offsets in front of lines, and height of a title.
const GUTTER: f64 = 46.0;
const TITLE: f64 = 18.0;

/// Styles: colours of Okabe and Ito, each in four shades, on light and on dark.
const STYLE: &str = include_str!("svg.css");

/// A picture as one SVG image: the logical panel on the left, the memory on the right.
pub fn svg(picture: &Picture) -> String {
    let logical = logical(picture);
    let physical = physical(picture, logical.width + 36.0);
    let (width, height) = (physical.width.max(760.0), logical.height.max(physical.height) + 26.0);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {w:.0} {h:.0}\" width=\"{w:.0}\" height=\"{h:.0}\" \
         role=\"img\">\n<title>{}</title>\n<style>{STYLE}</style>\n",
        escape(&picture.title),
        w = width + 12.0,
        h = height,
    );
    out += "<defs><pattern id=\"pad\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" \
            patternTransform=\"rotate(45)\"><rect class=\"void\" width=\"6\" height=\"6\"/>\
            <path class=\"hatch\" d=\"M0 0V6\"/></pattern></defs>\n";
    let _ = writeln!(out, "<rect class=\"page\" width=\"{:.0}\" height=\"{height:.0}\"/>", width + 12.0);
    text(&mut out, [12.0, 20.0], "title", &cut(&picture.title, (width / 8.2) as usize));
    text(&mut out, [12.0, 38.0], "note", &format!("{}. {}.", picture.summary(), legend(&picture.owners)));
    text(&mut out, [12.0, 54.0], "note", &picture.totals());
    out += &logical.body;
    out += &physical.body;
    out += "</svg>\n";
    out
}

/// A part of the image, and where it ends.
struct Part {
    body: String,
    width: f64,
    height: f64,
}

const TOP: f64 = 92.0;

fn logical(picture: &Picture) -> Part {
    let [rows, cols] = picture.panel.size();
    let lists = picture.row_brackets();
    let left = 16.0 + 44.0 * lists.len() as f64 + 52.0;
    // Cells keep the proportions of what they hold, unless that makes a panel of a few pixels.
    let [tall, wide] = picture.panel.cell.map(|n| n as f64);
    let scale = (PANEL[0] / (cols as f64 * wide)).min(PANEL[1] / (rows as f64 * tall)).min(14.0);
    let size = |count: usize, elements: f64, most: f64| {
        (elements * scale).max((200.0 / count as f64).min(25.0)).min(most / count as f64)
    };
    let (w, h) = (size(cols, wide, PANEL[0]), size(rows, tall, PANEL[1]));
    let mut body = String::new();
    let _ = writeln!(body, "<g transform=\"translate({left:.1} {TOP})\">");
    text(&mut body, [0.0, -22.0], "head", "logical");
    let look = |r: usize, c: usize| picture.look(r * cols + c);
    fills(&mut body, &regions(rows, cols, look), [w, h]);
    partly(&mut body, picture, [w, h]);
    let owner = |level: usize| move |r: usize, c: usize| picture.owner(picture.bit(r * cols + c), level + 1);
    for (rank, &level) in picture.owners.coloured().iter().enumerate().rev().filter(|l| l.0 < 3) {
        edges(
            &mut body,
            &borders(rows, cols, owner(level)),
            [cols as f64 * w, rows as f64 * h],
            [w, h],
            rank,
        );
    }
    if w.min(h) >= 7.0 && picture.is_exact() {
        grid(&mut body, [rows, cols], [w, h]);
    }
    let _ = writeln!(
        body,
        "<rect class=\"thick\" width=\"{:.1}\" height=\"{:.1}\"/>",
        cols as f64 * w,
        rows as f64 * h
    );
    for (name, [row, col, rows, cols]) in picture.places_of_owners() {
        let (w, h) = (cols as f64 * w, rows as f64 * h);
        let at = [col as f64 * w / cols as f64 + 4.0, row as f64 * h / rows as f64 + 11.0];
        if w > 5.8 * name.len() as f64 + 6.0 && h > 13.0 {
            let wide = 5.8 * name.len() as f64 + 4.0;
            let (x, y) = (at[0] - 2.0, at[1] - 8.5);
            let _ = writeln!(
                body,
                "<rect class=\"tag\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{wide:.1}\" height=\"11.5\"/>"
            );
            text(&mut body, at, "name", &name);
        }
    }
    for bracket in picture.ranges(1) {
        across(&mut body, &bracket, w);
    }
    for bracket in picture.ranges(0) {
        down(&mut body, &bracket, h, -4.0);
    }
    for (k, list) in lists.iter().rev().enumerate() {
        for bracket in list {
            down(&mut body, bracket, h, -52.0 - 44.0 * k as f64);
        }
    }
    body += "</g>\n";
    Part { body, width: left + cols as f64 * w, height: TOP + rows as f64 * h }
}

/// Hatches the part of larger cells that is padding: the end of a stick, of a tile.
fn partly(body: &mut String, picture: &Picture, [w, h]: [f64; 2]) {
    let [rows, cols] = picture.panel.size().map(|n| n as f64);
    let share = |line: &Option<std::ops::Range<u64>>, all: u64| {
        line.as_ref().map_or(1.0, |held| (held.end - held.start) as f64 / all as f64)
    };
    let strip = |body: &mut String, [x, y, wide, tall]: [f64; 4]| {
        let _ = writeln!(body, "<path class=\"p\" d=\"M{x:.1} {y:.1}h{wide:.1}v{tall:.1}h-{wide:.1}z\"/>");
    };
    for (n, line) in picture.panel.cols.iter().enumerate() {
        let held = share(line, picture.panel.cell[1]);
        if held < 1.0 {
            strip(body, [(n as f64 + held) * w, 0.0, (1.0 - held) * w, rows * h]);
        }
    }
    for (n, line) in picture.panel.rows.iter().enumerate() {
        let held = share(line, picture.panel.cell[0]);
        if held < 1.0 {
            strip(body, [0.0, (n as f64 + held) * h, cols * w, (1.0 - held) * h]);
        }
    }
}

/// A bracket above the columns.
fn across(body: &mut String, bracket: &Bracket, w: f64) {
    let (a, b) = (bracket.lines.start as f64 * w + 1.0, bracket.lines.end as f64 * w - 1.0);
    let _ = writeln!(body, "<path class=\"mark\" d=\"M{a:.1} -2v-3H{b:.1}v3\"/>");
    if b - a >= 6.2 * bracket.label.len() as f64 {
        text(body, [(a + b) / 2.0, -8.0], "label mid", &bracket.label);
    }
}

/// A bracket left of the rows.
fn down(body: &mut String, bracket: &Bracket, h: f64, x: f64) {
    let (a, b) = (bracket.lines.start as f64 * h + 1.0, bracket.lines.end as f64 * h - 1.0);
    let _ = writeln!(body, "<path class=\"mark\" d=\"M{x:.1} {a:.1}h-3V{b:.1}h3\"/>");
    if b - a >= 9.0 {
        text(body, [x - 6.0, (a + b) / 2.0 + 3.5], "label end", &bracket.label);
    }
}

/// The memory: buffers one under the other, in as many columns as keep the image from growing tall.
fn physical(picture: &Picture, left: f64) -> Part {
    let memory = &picture.memory;
    let per_line = memory.line_slots();
    let w = (LINES_WIDE / per_line as f64).min(12.0);
    let h = w.clamp(5.0, 10.0);
    let lines = memory.buffer_slots().div_ceil(per_line);
    let buffers = (memory.buffers as usize).min(MAX_BUFFERS);
    let shown = lines.min((ALL_LINES / buffers.max(1)).clamp(8, MAX_LINES));
    let block = TITLE + shown as f64 * h + if lines > shown { 16.0 } else { 4.0 } + 8.0;
    let per_column = ((640.0 / block) as usize).clamp(1, buffers.max(1)).max(buffers.div_ceil(3));
    let column = GUTTER + per_line as f64 * w + 22.0;
    let mut body = format!("<g transform=\"translate({left:.1} {TOP})\">\n");
    let line = format!("memory: lines of {} bytes", memory.line_bytes);
    text(&mut body, [0.0, -22.0], "head", &line);
    for buffer in 0..buffers {
        let at = [(buffer / per_column) as f64 * column, (buffer % per_column) as f64 * block];
        let _ = writeln!(body, "<g transform=\"translate({:.1} {:.1})\">", at[0], at[1]);
        text(&mut body, [GUTTER, 4.0], "label", &picture.buffer_name(buffer));
        one_buffer(&mut body, picture, buffer, shown, [w, h]);
        if lines > shown {
            let more = format!("... {} more lines", lines - shown);
            text(&mut body, [GUTTER, TITLE + shown as f64 * h + 9.0], "label", &more);
        }
        body += "</g>\n";
    }
    let mut tall = per_column.min(buffers) as f64 * block;
    if memory.buffers as usize > buffers {
        let more = format!("... {} more buffers", memory.buffers as usize - buffers);
        text(&mut body, [GUTTER, tall + 4.0], "label", &more);
        tall += 12.0;
    }
    body += "</g>\n";
    let columns = buffers.div_ceil(per_column).max(1) as f64;
    Part { body, width: left + columns * column, height: TOP + tall }
}

fn one_buffer(body: &mut String, picture: &Picture, buffer: usize, lines: usize, [w, h]: [f64; 2]) {
    let memory = &picture.memory;
    let (per_line, slots) = (memory.line_slots(), memory.buffer_slots());
    let top = TITLE - 8.0;
    let number = |r: usize, c: usize| (r * per_line + c < slots).then_some(buffer * slots + r * per_line + c);
    let look = |r: usize, c: usize| number(r, c).map_or(Look::Outside, |s| picture.slot_look(s));
    let _ = writeln!(body, "<g transform=\"translate({GUTTER} {top:.1})\">");
    fills(body, &regions(lines, per_line, look), [w, h]);
    let owner = |level: usize| {
        move |r: usize, c: usize| picture.owner(number(r, c).map(|s| 8 * memory.byte_of(s)), level + 1)
    };
    for (rank, &level) in picture.owners.coloured().iter().enumerate().rev().filter(|l| l.0 < 3) {
        edges(
            body,
            &borders(lines, per_line, owner(level)),
            [per_line as f64 * w, lines as f64 * h],
            [w, h],
            rank,
        );
    }
    let _ = writeln!(
        body,
        "<rect class=\"thin\" width=\"{:.1}\" height=\"{:.1}\"/>",
        per_line as f64 * w,
        lines as f64 * h
    );
    let every = (12.0 / h).ceil().max(1.0) as usize;
    let every = if every > 1 { every.next_power_of_two() } else { 1 };
    for line in (0..lines).step_by(every) {
        let offset = format!("{:x}", line as u64 * memory.line_bytes);
        text(body, [-4.0, line as f64 * h + h.min(9.0)], "offset end", &offset);
    }
    *body += "</g>\n";
}

/// Regions as one path for each look, in cells, which a transform scales; the hatching keeps its size.
fn fills(body: &mut String, regions: &[Region<Look>], [w, h]: [f64; 2]) {
    let mut paths: BTreeMap<String, String> = BTreeMap::new();
    for &Region { row, col, rows, cols, kind } in regions {
        let class = match kind {
            Look::Owned(hue, shade) => format!("c{hue} s{shade}"),
            Look::Shared(hue) => format!("c{hue} e"),
            Look::Padding => "p".to_owned(),
            Look::Gap => "g".to_owned(),
            Look::Outside => continue,
        };
        let path = paths.entry(class).or_default();
        let _ = match kind {
            Look::Padding => {
                let [x, y, wide, tall] = [col as f64 * w, row as f64 * h, cols as f64 * w, rows as f64 * h];
                write!(path, "M{x:.1} {y:.1}h{wide:.1}v{tall:.1}h-{wide:.1}z")
            }
            _ => write!(path, "M{col} {row}h{cols}v{rows}h-{cols}z"),
        };
    }
    for (class, path) in paths {
        let scale = if class == "p" { String::new() } else { format!(" transform=\"scale({w:.3} {h:.3})\"") };
        let _ = writeln!(body, "<path class=\"{class}\"{scale} d=\"{path}\"/>");
    }
}

/// The borders of a level of owners, the thinner the closer they stand.
fn edges(body: &mut String, lines: &[[usize; 4]], [wide, tall]: [f64; 2], cell: [f64; 2], rank: usize) {
    // All owners that a line of this length in all would leave, were they squares.
    let length: f64 =
        lines.iter().map(|l| (l[2] - l[0]) as f64 * cell[1] + (l[3] - l[1]) as f64 * cell[0]).sum();
    let room = 2.0 * wide * tall / length.max(1.0);
    let class = match (rank, room) {
        (_, ..4.0) => return,
        (0, 24.0..) => "thick",
        (0 | 1, 10.0..) => "thin",
        _ => "hair",
    };
    path(body, lines, cell, class);
}

/// Borders as one path.
fn path(body: &mut String, lines: &[[usize; 4]], [w, h]: [f64; 2], class: &str) {
    if lines.is_empty() {
        return;
    }
    let _ = write!(body, "<path class=\"{class}\" d=\"");
    for &[r0, c0, r1, c1] in lines {
        let _ = write!(body, "M{:.1} {:.1}", c0 as f64 * w, r0 as f64 * h);
        let _ = match r0 == r1 {
            true => write!(body, "H{:.1}", c1 as f64 * w),
            false => write!(body, "V{:.1}", r1 as f64 * h),
        };
    }
    *body += "\"/>\n";
}

/// Hairlines between all cells.
fn grid(body: &mut String, [rows, cols]: [usize; 2], [w, h]: [f64; 2]) {
    let mut d = String::new();
    for r in 1..rows {
        let _ = write!(d, "M0 {:.1}H{:.1}", r as f64 * h, cols as f64 * w);
    }
    for c in 1..cols {
        let _ = write!(d, "M{:.1} 0V{:.1}", c as f64 * w, rows as f64 * h);
    }
    let _ = writeln!(body, "<path class=\"cell\" d=\"{d}\"/>");
}

fn text(body: &mut String, [x, y]: [f64; 2], class: &str, words: &str) {
    let _ = writeln!(body, "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\">{}</text>", escape(words));
}

/// As much of a text as fits.
pub(crate) fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((at, _)) => format!("{}...", &text[..at]),
        None => text.to_owned(),
    }
}

/// A text inside of XML or HTML.
pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
