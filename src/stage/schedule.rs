//! What a run will do, all of it known before it begins: pieces, slots and reads.

use std::ops::Range;

use super::slot::{PAGE, Piece};
use super::source::{ReadAt, Source};
use crate::error::{Error, Result};
use crate::plan::Plan;

/// Pieces of a slot begin on lines of the cache, so that no two threads write to one line, and whole lines are streamed.
const LINE: usize = 64;

/// A piece of so many bytes lies on pages as it does in its buffer, so that whole pages of it can go from the slot to a disk
/// past the page cache. What is skipped for it is less than a sixteenth of the piece.
const ON_PAGES: usize = 16 * PAGE;

/// A tensor is split for the rest of a slot only where that rest is at least this share of a slot.
const WORTH_SPLITTING: usize = 8;

/// Bytes between two windows that are read along rather than skipped: about what a disk delivers while it seeks.
const GAP: u64 = 64 << 10;

/// How many numbers of equal parts are tried.
const MAX_CUTS: usize = 1024;

/// The most pieces of one run.
const MAX_PIECES: usize = 1 << 24;

/// One tensor of a run.
#[derive(Debug, Clone, Copy)]
pub struct Transfer<'a> {
    /// The conversion.
    pub plan: &'a Plan,
    /// Where its source is.
    pub source: Source<'a>,
}

/// A piece, and the read whose window it is made from; none where its source is in memory, or it is all padding.
#[derive(Debug)]
pub(super) struct Scheduled {
    pub(super) piece: Piece,
    pub(super) read: Option<usize>,
}

/// A window of a reader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Read {
    /// A transfer whose reader it is.
    pub(super) transfer: usize,
    /// Its bytes, on multiples of the reader's alignment.
    pub(super) range: Range<u64>,
    /// How many of them, at the beginning, the window before holds too.
    pub(super) copied: u64,
}

impl Read {
    pub(super) fn len(&self) -> usize {
        (self.range.end - self.range.start) as usize
    }
}

/// All pieces of a run, the slots they share, and the reads they need, each in order.
#[derive(Debug)]
pub(super) struct Schedule {
    pub(super) pieces: Vec<Scheduled>,
    /// Which pieces each slot holds.
    pub(super) slots: Vec<Range<usize>>,
    pub(super) reads: Vec<Read>,
}

impl Schedule {
    /// Cuts transfers into pieces for slots of so many bytes, and joins what they read to windows of about `read_bytes`.
    /// See [`super::Settings::reread`] for the last one.
    pub(super) fn new(
        transfers: &[Transfer<'_>],
        slot_bytes: usize,
        read_bytes: usize,
        reread: bool,
    ) -> Result<Schedule> {
        transfers.iter().try_for_each(check_source)?;
        let (mut pieces, slots) = cut(transfers, slot_bytes)?;
        let mut reads = Vec::new();
        for of_one in pieces.chunk_by_mut(|a, b| a.piece.transfer == b.piece.transfer) {
            let transfer = &transfers[of_one[0].piece.transfer];
            if let Source::Ranges { reader, begin } = transfer.source {
                let windows = windows(transfer.plan, of_one, reread)?;
                for (scheduled, window) in of_one.iter_mut().zip(windows) {
                    if let Some((lo, hi)) = window {
                        let which = scheduled.piece.transfer;
                        let range = aligned(begin + lo as u64..begin + hi as u64, reader.alignment());
                        join(&mut reads, transfers, which, range, read_bytes as u64);
                        scheduled.read = Some(reads.len() - 1);
                    }
                }
            }
        }
        Ok(Schedule { pieces, slots, reads })
    }

    /// Bytes that each of the two windows needs, which are filled by turns.
    pub(super) fn window_bytes(&self) -> [usize; 2] {
        [0, 1].map(|turn| self.reads.iter().skip(turn).step_by(2).map(Read::len).max().unwrap_or(0))
    }
}

fn check_source(transfer: &Transfer<'_>) -> Result<()> {
    let needed = transfer.plan.source_bytes() as u64;
    match transfer.source {
        Source::Memory(bytes) if bytes.len() as u64 != needed => {
            Err(Error::Length { what: "source", given: bytes.len() as u64, needed })
        }
        Source::Ranges { reader, begin }
            if begin.checked_add(needed).is_none_or(|end| end > reader.size()) =>
        {
            let given = reader.size();
            Err(Error::Length {
                what: "what the source is read from",
                given,
                needed: begin.saturating_add(needed),
            })
        }
        Source::Ranges { reader, .. } => {
            let alignment = reader.alignment();
            if !alignment.is_power_of_two() || alignment > super::slot::PAGE {
                return Err(Error::value("alignment of a reader", alignment, "a power of two, at most 4096"));
            }
            Ok(())
        }
        Source::Memory(_) => Ok(()),
    }
}

/// The pieces of all transfers, and which of them share a slot.
fn cut(transfers: &[Transfer<'_>], slot_bytes: usize) -> Result<(Vec<Scheduled>, Vec<Range<usize>>)> {
    let (mut pieces, mut slots): (Vec<Scheduled>, Vec<Range<usize>>) = (Vec::new(), Vec::new());
    let (mut first, mut used) = (0, 0_usize);
    for (which, transfer) in transfers.iter().enumerate() {
        let plan = transfer.plan;
        let (total, align) = (plan.destination_bytes(), plan.chunk_alignment().max(1));
        if align > slot_bytes {
            let needed = format!("{align} or more, the smallest chunk of transfer {which}");
            return Err(Error::value("bytes of a slot", slot_bytes, needed));
        }
        let buffer_bytes = (total / plan.destination_buffers().max(1)).max(1);
        let apart = made_apart(transfer, buffer_bytes, slot_bytes)?;
        let mut at = 0;
        while at < total {
            let (buffer, buffer_offset) = (at / buffer_bytes, at % buffer_bytes);
            let left = buffer_bytes - buffer_offset;
            let room_at = |offset: usize| {
                let room = slot_bytes.saturating_sub(offset);
                match apart {
                    _ if left <= room => left,
                    Some(part) => ((buffer_offset + room) / part * part).saturating_sub(buffer_offset),
                    None => room / align * align,
                }
            };
            let line = used.next_multiple_of(LINE);
            let page = line + buffer_offset.wrapping_sub(line) % PAGE;
            let on_pages = page.is_multiple_of(LINE) && room_at(page) >= ON_PAGES;
            let offset = if on_pages { page } else { line };
            let len = room_at(offset);
            if len == 0 || (len < left && used > 0 && len < slot_bytes / WORTH_SPLITTING) {
                slots.push(first..pieces.len());
                (first, used) = (pieces.len(), 0);
                continue;
            }
            if pieces.len() == MAX_PIECES {
                return Err(Error::TooComplex { what: "the list of tensors".into(), cap: MAX_PIECES });
            }
            let destination = at..at + len;
            let piece = Piece { transfer: which, destination, buffer, buffer_offset, offset };
            pieces.push(Scheduled { piece, read: None });
            (used, at) = (offset + len, at + len);
        }
    }
    if first < pieces.len() {
        slots.push(first..pieces.len());
    }
    Ok((pieces, slots))
}

/// The bytes of the largest equal parts of a buffer that fit into a slot wherever they lie on its first page, and that are
/// made of sources that follow one another, as matrices of a stack are. Pieces are cut between them: what two pieces are made
/// of would be held twice. None where pieces may be cut anywhere, or no such parts are found.
fn made_apart(transfer: &Transfer<'_>, buffer_bytes: usize, slot_bytes: usize) -> Result<Option<usize>> {
    let Transfer { plan, source: Source::Ranges { .. } } = transfer else { return Ok(None) };
    let (align, most) = (plan.chunk_alignment().max(1), slot_bytes.saturating_sub(PAGE));
    if buffer_bytes <= most || align > most {
        return Ok(None);
    }
    let follow = |part: usize| -> Result<bool> {
        let next = plan.source_window(part..(2 * part).min(buffer_bytes))?;
        Ok(next.is_empty() || plan.source_window(0..part)?.end <= next.start)
    };
    if follow(most / align * align)? {
        return Ok(None);
    }
    let least = buffer_bytes.div_ceil(most);
    for count in least..least + MAX_CUTS {
        let part = buffer_bytes / count;
        if buffer_bytes.is_multiple_of(count) && part.is_multiple_of(align) && follow(part)? {
            return Ok(Some(part));
        }
    }
    Ok(None)
}

/// What the window of each piece of one transfer holds, in bytes of its source: from the first byte that it or a later
/// piece reads to the last that it or an earlier one reads. So windows only move forward, and no byte is read twice.
/// With `reread` only what the piece itself reads. None for pieces that read nothing.
fn windows(plan: &Plan, pieces: &[Scheduled], reread: bool) -> Result<Vec<Option<(usize, usize)>>> {
    let window = |scheduled: &Scheduled| plan.source_window(scheduled.piece.destination.clone());
    let bounds: Vec<Range<usize>> = pieces.iter().map(window).collect::<Result<_>>()?;
    let mut all: Vec<_> = bounds.iter().map(|b| (!b.is_empty()).then_some((b.start, b.end))).collect();
    if reread {
        return Ok(all);
    }
    all.iter_mut().flatten().fold(0, |end, window| {
        window.1 = window.1.max(end);
        window.1
    });
    all.iter_mut().rev().flatten().fold(usize::MAX, |begin, window| {
        window.0 = window.0.min(begin);
        window.0
    });
    Ok(all)
}

fn aligned(range: Range<u64>, alignment: usize) -> Range<u64> {
    let alignment = alignment as u64;
    range.start / alignment * alignment..range.end.next_multiple_of(alignment)
}

/// Adds what one piece reads: to the last read where both together are about `target` bytes, else as the next read.
fn join(reads: &mut Vec<Read>, transfers: &[Transfer<'_>], transfer: usize, range: Range<u64>, target: u64) {
    let mut copied = 0;
    if let Some(last) = reads.last_mut()
        && same_reader(transfers[last.transfer].source, transfers[transfer].source)
        && last.range.start <= range.start
    {
        let end = last.range.end.max(range.end);
        // Twice the window at least where they overlap, so that what is copied from window to window is less than what is
        // read.
        let overlap = range.start < last.range.end;
        let most = target.max((1 + u64::from(overlap)) * (range.end - range.start));
        let near = end - last.range.start <= most && range.start <= last.range.end + GAP;
        if near || end == last.range.end {
            last.range.end = end;
            return;
        }
        copied = last.range.end.min(range.end).saturating_sub(range.start);
    }
    reads.push(Read { transfer, range, copied });
}

fn same_reader(a: Source<'_>, b: Source<'_>) -> bool {
    let (Source::Ranges { reader: a, .. }, Source::Ranges { reader: b, .. }) = (a, b) else { return false };
    let address = |reader: &dyn ReadAt| (&raw const *reader).cast::<()>();
    // Values without bytes may share an address.
    address(a) == address(b) && size_of_val(a) > 0
}
