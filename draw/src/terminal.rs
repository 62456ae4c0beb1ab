//! A picture as text: letters for owners, and colours where the terminal has them.

use std::fmt::Write;

use super::data::{Look, legend};
use super::picture::Picture;
use super::svg::cut;

/// The most characters of a row, and the most rows.
const WIDE: usize = 96;
const TALL: usize = 48;

/// The palette of Okabe and Ito among the 256 colours of terminals, on which black is readable.
const COLOURS: [u8; 7] = [214, 117, 36, 227, 67, 202, 175];

/// A picture as text: the logical panel above, the memory below. Letters name owners in the order of their numbers;
/// `.` is padding, `_` a gap, `=` an exponent or scale. With `colour`, in the colours of the other printers.
///
/// Of larger panels every so many-th row and column is shown.
pub fn terminal(picture: &Picture, colour: bool) -> String {
    let [rows, cols] = picture.panel.size();
    let (down, right) = (rows.div_ceil(TALL).max(1), cols.div_ceil(WIDE).max(1));
    let mut out = format!(
        "{}\n{}\n{}. {}",
        cut(&picture.title, 400),
        picture.totals(),
        picture.summary(),
        legend(&picture.owners)
    );
    if down * right > 1 {
        let _ = write!(out, "; shown: one row in {down}, one column in {right}");
    }
    out += "\n\nlogical\n";
    let ranges = picture.ranges(0);
    for row in (0..rows).step_by(down) {
        let bracket =
            ranges.iter().find(|b| b.lines.start <= row && row < (b.lines.start + down).min(b.lines.end));
        let _ = write!(out, "{:>12} ", bracket.map_or("", |b| &b.label));
        for col in (0..cols).step_by(right) {
            let cell = row * cols + col;
            out += &mark(picture.look(cell), letter(picture, picture.bit(cell)), colour);
        }
        out += "\n";
    }
    out + &memory(picture, colour)
}

fn memory(picture: &Picture, colour: bool) -> String {
    let memory = &picture.memory;
    let (per_line, slots) = (memory.line_slots(), memory.buffer_slots());
    let lines = slots.div_ceil(per_line);
    let mut out = format!("\nmemory: lines of {} bytes, offsets in hexadecimal\n", memory.line_bytes);
    let mut left = TALL;
    for buffer in 0..memory.buffers as usize {
        if left == 0 {
            let _ = writeln!(out, "  ... {} more buffers", memory.buffers as usize - buffer);
            break;
        }
        let _ = writeln!(out, "  {}", picture.buffer_name(buffer));
        // Every buffer gets its share of the lines, and a few at least.
        let share = (TALL / (memory.buffers as usize).max(1)).max(4).min(left);
        for line in 0..lines.min(share) {
            let _ = write!(out, "{:>12x} ", line as u64 * memory.line_bytes);
            for slot in line * per_line..((line + 1) * per_line).min(slots) {
                let slot = buffer * slots + slot;
                let bit = Some(8 * memory.byte_of(slot));
                out += &mark(picture.slot_look(slot), letter(picture, bit), colour);
            }
            out += "\n";
        }
        if lines > share {
            let _ = writeln!(out, "{:>12} {} more lines", "...", lines - share);
        }
        left = left.saturating_sub(share);
    }
    out
}

/// The letter of the owner that gives the colour.
fn letter(picture: &Picture, bit: Option<u64>) -> char {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let parts = bit.map_or_else(Vec::new, |bit| picture.owners.parts(bit));
    let number = picture.owners.coloured().first().and_then(|&level| parts.get(level)).copied().unwrap_or(0);
    LETTERS[number as usize % LETTERS.len()].into()
}

fn mark(look: Look, letter: char, colour: bool) -> String {
    let (sign, hue) = match look {
        Look::Owned(hue, shade) if shade < 2 => (letter, Some((hue, false))),
        Look::Owned(hue, _) => (letter, Some((hue, true))),
        Look::Shared(hue) => ('=', Some((hue, true))),
        Look::Padding => ('.', None),
        Look::Gap => ('_', None),
        Look::Outside => (' ', None),
    };
    match hue {
        Some((hue, bold)) if colour => {
            let (bold, hue) = (if bold { "1;" } else { "" }, COLOURS[hue as usize % COLOURS.len()]);
            format!("\x1b[{bold}30;48;5;{hue}m{sign}\x1b[0m")
        }
        _ => sign.to_string(),
    }
}
