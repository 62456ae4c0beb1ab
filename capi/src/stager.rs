//! Staging: rings of slots, filled from plans and handed to functions of the caller.

use std::ffi::c_void;
use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tilewright::stage::{
    Completion, Heap, MAX_SLOTS, ReadAt, Refused, Report, Settings, Side, Sink, Slot, SlotMemory, Source,
    Stager, Transfer,
};
use tilewright::{Error, Plan};

use crate::border::{Extent, Failure, Out, OutStruct, Result, bounded, call, check_apart, slice, versioned};
use crate::executor;
use crate::handle::{self, Opaque, inner};
use crate::types::*;

/// The most tensors of one run.
const MAX_TRANSFERS: usize = 1 << 24;

/// A ring of slots, made by tw_stager_create and freed by tw_stager_free. Runs of one stager wait for each other.
pub struct tw_stager(());

impl Opaque for tw_stager {
    type Inner = Inner;
    const MARK: u64 = 0x7477_5f72_696e_6731;
    const NAME: &str = "stager";
    const MAKER: &str = "tw_stager_create";
}

/// A ring, one run at a time.
pub(crate) struct Inner {
    stager: Mutex<Stager>,
    /// Slots that sinks have not given back; something may still read them.
    lost: Mutex<Vec<Slot>>,
}

/// Makes a ring of `slots` slots of `slot_bytes` each, which is kept from run to run; 0 and 0: 3 of 32 MiB. `memory` is
/// NULL, or one pointer for each slot to `slot_bytes` bytes that nobody else uses until the stager is freed: pinned
/// memory. The new stager goes to `stager`, which must be freed by tw_stager_free; NULL goes there on failure.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tw_stager_create(
    slots: usize,
    slot_bytes: usize,
    memory: *const *mut c_void,
    stager: *mut *mut tw_stager,
    message: *mut tw_text,
) -> tw_status {
    // SAFETY: pointers are as the header says.
    let body = || unsafe {
        let out = Out::new(stager, "stager")?;
        out.set(std::ptr::null_mut());
        let slots = if slots == 0 { 3 } else { slots };
        let slot_bytes = if slot_bytes == 0 { Stager::SLOT_BYTES } else { slot_bytes };
        let made = if memory.is_null() {
            Stager::new(slots, slot_bytes, &mut Heap)?
        } else {
            let mut lent: Vec<Box<dyn SlotMemory>> = Vec::new();
            let memory = bounded(memory, slots, MAX_SLOTS, "memory")?;
            let extent = |at: &*mut c_void| Extent::new("a slot", at.cast::<u8>(), slot_bytes);
            check_apart(&memory.iter().map(extent).collect::<Vec<_>>())?;
            for &at in memory.iter().rev() {
                // Checked as any memory that is written.
                crate::border::slice_out(at.cast::<u8>(), slot_bytes, "memory of a slot")?;
                lent.push(Box::new(Lent { at: at.cast(), len: slot_bytes }));
            }
            Stager::new(slots, slot_bytes, &mut lent)?
        };
        out.set(handle::new(Inner { stager: Mutex::new(made), lost: Mutex::default() }));
        Ok(())
    };
    // SAFETY: as above.
    unsafe { call(message, body) }
}

/// Frees a stager that no call is using any more, and with it slots that no sink may be reading any more. NULL is allowed,
/// and does nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tw_stager_free(stager: *mut tw_stager) -> tw_status {
    // SAFETY: pointers are as the header says, and there is no message.
    unsafe { call(std::ptr::null_mut(), || handle::free(stager)) }
}

/// Converts `count` tensors, one after another, and hands the bytes of their destinations to `sink`, each byte once, in
/// slots. With `executor` NULL everything is converted on the calling thread; what has a reader is read ahead on a thread
/// of the library's. `options` and `report` may be NULL; `report` is written where the run fails, too. When it returns the
/// sink has given back every slot, or has had the time limit for each: TW_STAGING then says how many are still out, whose
/// memory is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tw_stager_run(
    stager: *mut tw_stager,
    transfers: *const tw_transfer,
    count: usize,
    sink: *const tw_sink,
    executor: *const tw_executor,
    options: *const tw_stage_options,
    report: *mut tw_stage_report,
    message: *mut tw_text,
) -> tw_status {
    // SAFETY: pointers are as the header says.
    let body = || unsafe {
        let Inner { stager, lost } = inner(stager)?;
        let sink = versioned(sink, "sink")?;
        let Some(submit) = sink.submit else { return Err(Failure::new(TW_NULL, "sink->submit is NULL")) };
        let report = if report.is_null() { None } else { Some(OutStruct::new(report, "report")?) };
        let settings = settings(options)?;
        let given = bounded(transfers, count, MAX_TRANSFERS, "transfers")?;
        let (readers, which) = readers(given)?;
        let reader = |i: usize| which[i].map(|r| &readers[r]);
        let transfers = given.iter().enumerate().map(|(i, t)| transfer(t, reader(i), i));
        let transfers = transfers.collect::<Result<Vec<_>>>()?;
        let mut sink = Foreign {
            ctx: sink.ctx,
            submit,
            wait: sink.wait,
            pieces: Vec::new(),
            flight: Vec::with_capacity(MAX_SLOTS),
        };
        let mut stager = stager.lock().unwrap_or_else(PoisonError::into_inner);
        let mut outcome = Ok(());
        let run = executor::with(executor, |executor| {
            outcome = stager.run(&transfers, &mut sink, &Settings { executor, ..settings }).map(|_| ());
            Ok(())
        });
        lost.lock().unwrap_or_else(PoisonError::into_inner).append(&mut sink.flight);
        if let Some(out) = report {
            out.set(|struct_size| told(struct_size, stager.report()));
        }
        run?;
        Ok(outcome?)
    };
    // SAFETY: as above.
    unsafe { call(message, body) }
}

/// The settings that options stand for.
///
/// # Safety
/// Where not NULL, `options` is as the header says.
unsafe fn settings(options: *const tw_stage_options) -> Result<Settings<'static>> {
    let mut settings = Settings::default();
    if options.is_null() {
        return Ok(settings);
    }
    // SAFETY: passed on.
    let options = unsafe { versioned(options, "options") }?;
    if options.reserved != 0 {
        return Err(Failure::value("options->reserved", options.reserved, 0));
    }
    if options.wait_limit_ms > 0 {
        settings.wait_limit = Duration::from_millis(options.wait_limit_ms);
    }
    if options.read_bytes > 0 {
        settings.read_bytes = options.read_bytes;
    }
    if options.window_limit > 0 {
        settings.window_limit = options.window_limit;
    }
    Ok(settings)
}

fn told(struct_size: u32, report: &Report) -> tw_stage_report {
    let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    tw_stage_report {
        struct_size,
        slowest: match report.slowest() {
            Side::Source => TW_SIDE_SOURCE,
            Side::Conversion => TW_SIDE_CONVERSION,
            Side::Sink => TW_SIDE_SINK,
        },
        bytes: report.bytes,
        bytes_read: report.bytes_read,
        slots: report.slots,
        window_bytes: report.window_bytes,
        wall_ns: nanoseconds(report.wall),
        reading_ns: nanoseconds(report.reading),
        converting_ns: nanoseconds(report.converting),
        waiting_for_source_ns: nanoseconds(report.waiting_for_source),
        waiting_for_sink_ns: nanoseconds(report.waiting_for_sink),
        submitting_ns: nanoseconds(report.submitting),
    }
}

/// All readers, and which of them each transfer has. Transfers in a row that name one reader share it, and so share reads.
///
/// # Safety
/// The transfers are as the header says.
unsafe fn readers(transfers: &[tw_transfer]) -> Result<(Vec<Reader>, Vec<Option<usize>>)> {
    let (mut readers, mut which): (Vec<Reader>, Vec<Option<usize>>) = (Vec::new(), Vec::new());
    let mut last = std::ptr::null();
    for transfer in transfers {
        if !transfer.reader.is_null() && transfer.reader != last {
            last = transfer.reader;
            // SAFETY: passed on.
            let reader = unsafe { versioned(last, "reader") }?;
            let Some(read_at) = reader.read_at else {
                return Err(Failure::new(TW_NULL, "reader->read_at is NULL"));
            };
            let alignment = if reader.alignment == 0 { 1 } else { reader.alignment as usize };
            readers.push(Reader { ctx: reader.ctx, size: reader.size, alignment, read_at });
        }
        which.push(readers.len().checked_sub(1).filter(|_| !transfer.reader.is_null()));
    }
    Ok((readers, which))
}

/// # Safety
/// `transfer` is as the header says, during `'a`.
unsafe fn transfer<'a>(
    transfer: &tw_transfer,
    reader: Option<&'a Reader>,
    which: usize,
) -> Result<Transfer<'a>> {
    // SAFETY: passed on.
    let plan: &Plan = unsafe { &inner(transfer.plan)?.plan };
    let source = match (reader, transfer.source.is_null()) {
        (Some(reader), true) => Source::Ranges { reader, begin: transfer.begin },
        (Some(_), false) => {
            return Err(Failure::value(
                "source",
                format!("memory and a reader in transfer {which}"),
                "one of them",
            ));
        }
        (None, _) => {
            crate::check_length("source", transfer.source_length, plan.source_bytes())?;
            // SAFETY: passed on.
            Source::Memory(unsafe { slice(transfer.source.cast::<u8>(), transfer.source_length, "source") }?)
        }
    };
    Ok(Transfer { plan, source })
}

/// Memory of the caller.
struct Lent {
    at: *mut u8,
    len: usize,
}

// SAFETY: by the header nobody else uses these bytes while the stager has them.
unsafe impl Send for Lent {}
// SAFETY: as above; shared references only read.
unsafe impl Sync for Lent {}

impl Deref for Lent {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: checked in `tw_stager_create`, and by the header alive and of the stager alone.
        unsafe { std::slice::from_raw_parts(self.at, self.len) }
    }
}

impl DerefMut for Lent {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts_mut(self.at, self.len) }
    }
}

/// Where a source is read from.
struct Reader {
    ctx: *mut c_void,
    size: u64,
    alignment: usize,
    read_at: unsafe extern "C" fn(*mut c_void, u64, *mut c_void, usize) -> i32,
}

// SAFETY: by the header `read_at` may be called from a thread of the library's; it is one at a time.
unsafe impl Sync for Reader {}

impl ReadAt for Reader {
    fn size(&self) -> u64 {
        self.size
    }

    fn alignment(&self) -> usize {
        self.alignment
    }

    fn read_at(&self, at: u64, into: &mut [u8]) -> tilewright::Result<()> {
        // SAFETY: the caller's function, called as the header says, with memory for as many bytes.
        let status = unsafe { (self.read_at)(self.ctx, at, into.as_mut_ptr().cast(), into.len()) };
        if status == 0 {
            return Ok(());
        }
        let given = format!("{status} from read_at of {} bytes at {at}", into.len());
        Err(Error::value("reader", given, 0))
    }
}

/// The functions of the caller as a sink, and the slots that it has.
struct Foreign {
    ctx: *mut c_void,
    submit: unsafe extern "C" fn(*mut c_void, u64, *const tw_piece, usize) -> i32,
    wait: Option<unsafe extern "C" fn(*mut c_void, u64, *mut u64) -> i32>,
    /// What is told of a slot.
    pieces: Vec<tw_piece>,
    flight: Vec<Slot>,
}

impl Sink for Foreign {
    fn submit(&mut self, slot: Slot) -> std::result::Result<(), Refused> {
        self.pieces.clear();
        self.pieces.extend(slot.pieces().iter().map(|piece| tw_piece {
            data: slot.piece(piece).as_ptr().cast(),
            length: piece.destination.len(),
            transfer: piece.transfer as u64,
            destination: piece.destination.start as u64,
            buffer: piece.buffer as u64,
            buffer_offset: piece.buffer_offset as u64,
        }));
        let ticket = slot.ticket();
        // SAFETY: the caller's function, called as the header says. The pieces lie in the slot, which stays in `flight`
        // until the caller says that it is done with it.
        let status = unsafe { (self.submit)(self.ctx, ticket, self.pieces.as_ptr(), self.pieces.len()) };
        if status != 0 {
            let error = Box::new(Error::value("sink", format!("{status} from submit of ticket {ticket}"), 0));
            return Err(Refused { slot, error });
        }
        self.flight.push(slot);
        Ok(())
    }

    fn poll(&mut self) -> Option<Completion> {
        self.wait(Duration::ZERO)
    }

    fn wait(&mut self, limit: Duration) -> Option<Completion> {
        if self.flight.is_empty() {
            return None;
        }
        let Some(wait) = self.wait else {
            return Some(Completion { slot: self.flight.remove(0), outcome: Ok(()) });
        };
        let limit = u64::try_from(limit.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
        let mut ticket = u64::MAX;
        // SAFETY: the caller's function, called as the header says.
        let status = unsafe { wait(self.ctx, limit, &raw mut ticket) };
        if status == TW_PENDING {
            return None;
        }
        let which = self.flight.iter().position(|slot| slot.ticket() == ticket)?;
        let outcome = match status {
            0 => Ok(()),
            _ => Err(Error::value("sink", format!("{status} from wait for ticket {ticket}"), 0)),
        };
        Some(Completion { slot: self.flight.remove(which), outcome })
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        // Only after a panic are there any, which the caller may still read.
        self.flight.drain(..).for_each(std::mem::forget);
    }
}
