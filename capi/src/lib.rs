//! The C face of tilewright: what `include/tilewright.h` declares.
//!
//! Every function checks its arguments, calls the Rust library, and turns failures and panics into statuses. The rules
//! that hold for every function, and so the safety contract of each, stand once, at the top of the header.
#![allow(non_camel_case_types, clippy::missing_safety_doc)]

mod batch;
mod border;
mod executor;
mod handle;
mod request;
mod stager;
mod tensorbin;
mod types;

use std::ffi::{c_char, c_void};
use std::fmt;

use border::{Extent, Failure, Out, OutStruct, Result, call, check_apart, slice, slice_out};
use handle::{Opaque, inner};
use tilewright::family::MAX_RANK;
use tilewright::family::host::strided::Memref;
use tilewright::family::loops::Dci;
use tilewright::layout::{Layout, Owner};
use tilewright::{Error, Plan};

pub use batch::*;
pub use stager::*;
pub use tensorbin::*;
pub use types::*;

/// A compiled conversion: immutable, usable from any thread, made by tw_plan_compile and freed by tw_plan_free.
pub struct tw_plan(());

impl Opaque for tw_plan {
    type Inner = Inner;
    const MARK: u64 = 0x7477_5f70_6c61_6e31;
    const NAME: &str = "plan";
    const MAKER: &str = "tw_plan_compile";
}

/// What a plan is.
pub(crate) struct Inner {
    plan: Plan,
    source: Layout,
    host: Option<Memref>,
    destination: Layout,
    warnings: Vec<String>,
}

impl Inner {
    fn side(&self, side: u32) -> Result<&Layout> {
        match side {
            TW_SOURCE => Ok(&self.source),
            TW_DESTINATION => Ok(&self.destination),
            _ => Err(Failure::value("side", side, "TW_SOURCE or TW_DESTINATION")),
        }
    }
}

impl fmt::Display for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for warning in &self.warnings {
            writeln!(f, "warning: {warning}")?;
        }
        self.plan.fmt(f)
    }
}

/// Version of the library, e.g. "0.1.0": static text that ends with NUL.
#[unsafe(no_mangle)]
pub extern "C" fn tw_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

/// Version of the binary interface of the library; the header fits if it is TW_ABI_VERSION.
#[unsafe(no_mangle)]
pub extern "C" fn tw_abi_version() -> u32 {
    TW_ABI_VERSION
}

/// Name of a status, e.g. "TW_OVERLAP": static text that ends with NUL; "TW_?" for numbers that are none.
#[unsafe(no_mangle)]
pub extern "C" fn tw_status_name(status: tw_status) -> *const c_char {
    let name = match status {
        TW_OK => c"TW_OK",
        TW_TEXT => c"TW_TEXT",
        TW_VALUE => c"TW_VALUE",
        TW_DERIVED => c"TW_DERIVED",
        TW_OVERFLOW => c"TW_OVERFLOW",
        TW_COLLISION => c"TW_COLLISION",
        TW_TOO_COMPLEX => c"TW_TOO_COMPLEX",
        TW_CONVERSION => c"TW_CONVERSION",
        TW_OUT_OF_RANGE => c"TW_OUT_OF_RANGE",
        TW_LENGTH => c"TW_LENGTH",
        TW_ISA => c"TW_ISA",
        TW_UNVERIFIED => c"TW_UNVERIFIED",
        TW_IO => c"TW_IO",
        TW_STAGING => c"TW_STAGING",
        TW_NULL => c"TW_NULL",
        TW_MISALIGNED => c"TW_MISALIGNED",
        TW_STRUCT_SIZE => c"TW_STRUCT_SIZE",
        TW_OVERLAP => c"TW_OVERLAP",
        TW_SHORT => c"TW_SHORT",
        TW_EXECUTOR => c"TW_EXECUTOR",
        TW_HANDLE => c"TW_HANDLE",
        TW_INTERNAL => c"TW_INTERNAL",
        _ => c"TW_?",
    };
    name.as_ptr()
}

/// Compiles a conversion, and proves that it writes every byte of the destination exactly once and reads only inside
/// of the source. The new plan goes to `plan`, which must be freed by tw_plan_free; NULL goes there on failure.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tw_plan_compile(
    request: *const tw_request,
    plan: *mut *mut tw_plan,
    message: *mut tw_text,
) -> tw_status {
    // SAFETY: pointers are as the header says.
    let body = || unsafe {
        let out = Out::new(plan, "plan")?;
        let compiled = request::read(request).and_then(|r| {
            let plan = Plan::compile(&r.source, &r.destination, &r.options)?;
            let request::Request { source, host, destination, warnings, .. } = r;
            Ok(Inner { plan, source, host, destination, warnings })
        });
        match compiled {
            Ok(inner) => {
                out.set(handle::new(inner));
                Ok(())
            }
            Err(failure) => {
                out.set(std::ptr::null_mut());
                Err(failure)
            }
        }
    };
    // SAFETY: as above.
    unsafe { call(message, body) }
}

/// Frees a plan that no call is using any more. NULL is allowed, and does nothing. A plan that was freed before is
/// TW_HANDLE as long as nothing else has come to lie in its memory; do not rely on it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tw_plan_free(plan: *mut tw_plan) -> tw_status {
    // SAFETY: pointers are as the header says, and there is no message.
    unsafe { call(std::ptr::null_mut(), || handle::free(plan)) }
}

/// Writes buffers, sizes and chunk_alignment of a plan to `info`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tw_plan_query(
    plan: *const tw_plan,
    info: *mut tw_plan_info,
    message: *mut tw_text,
) -> tw_status {
    // SAFETY: pointers are as the header says.
    let body = || unsafe {
        let Inner { plan, source, destination, .. } = inner(plan)?;
        let isa = request::ISA.iter().find(|l| l.1 == plan.isa()).map_or(TW_ISA_BEST, |l| l.0);
        OutStruct::new(info, "info")?.set(|struct_size| tw_plan_info {
            struct_size,
            isa,
            source_buffers: source.buffers(),
            source_buffer_bytes: source.buffer_bytes(),
            source_bytes: source.total_bytes(),
            source_copies: source.copies(),
            destination_buffers: destination.buffers(),
            destination_buffer_bytes: destination.buffer_bytes(),
            destination_bytes: destination.total_bytes(),
            destination_copies: destination.copies(),
            chunk_alignment: plan.chunk_alignment() as u64,
            nests: plan.nests() as u64,
            rank: destination.shape().len() as u64,
        });
        Ok(())
    };
    // SAFETY: as above.
    unsafe { call(message, body) }
}

/// The greatest chunks of at most `at_most` bytes: `chunk_bytes` each, the last one perhaps less, `chunks` in all.
/// TW_VALUE if not even one chunk_alignment fits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tw_plan_chunks(
    plan: *const tw_plan,
    at_most: usize,
    chunk_bytes: *mut usize,
    chunks: *mut usize,
    message: *mut tw_text,
) -> tw_status {
    // SAFETY: pointers are as the header says.
    let body = || unsafe {
        let plan = &inner(plan)?.plan;
        let (bytes_out, chunks_out) = (Out::new(chunk_bytes, "chunk_bytes")?, Out::new(chunks, "chunks")?);
        check_apart(&[bytes_out.extent(), chunks_out.extent()])?;
        let (chunk_alignment, total) = (plan.chunk_alignment().max(1), plan.destination_bytes());
        let bytes = at_most.min(total.max(chunk_alignment)) / chunk_alignment * chunk_alignment;
        if bytes == 0 {
            return Err(Failure::value(
                "at_most",
                at_most,
                format!("a chunk_alignment of {chunk_alignment} bytes or more"),
            ));
        }
        bytes_out.set(bytes);
        chunks_out.set(total.div_ceil(bytes));
        Ok(())
    };
    // SAFETY: as above.
    unsafe { call(message, body) }
}

/// The source bytes that a chunk is made of: `length` destination bytes from `begin` on need no source byte in front of
/// `source_begin` or behind the `source_length` bytes from there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tw_plan_source_window(
    plan: *const tw_plan,
    begin: usize,
    length: usize,
    source_begin: *mut usize,
    source_length: *mut usize,
    message: *mut tw_text,
) -> tw_status {
    // SAFETY: pointers are as the header says.
    let body = || unsafe {
        let plan = &inner(plan)?.plan;
        let begin_out = Out::new(source_begin, "source_begin")?;
        let length_out = Out::new(source_length, "source_length")?;
        check_apart(&[begin_out.extent(), length_out.extent()])?;
        let window = plan.source_window(begin..end(begin, length)?)?;
        begin_out.set(window.start);
        length_out.set(window.len());
        Ok(())
    };
    // SAFETY: as above.
    unsafe { call(message, body) }
}

/// Converts all of `source` to `destination`, which need not be initialised: all buffers of each, one after another.
/// With `executor` NULL everything is done on the calling thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tw_plan_execute(
    plan: *const tw_plan,
    source: *const c_void,
    source_length: usize,
    destination: *mut c_void,
    destination_length: usize,
    executor: *const tw_executor,
    message: *mut tw_text,
) -> tw_status {
    // SAFETY: pointers are as the header says.
    let body = || unsafe {
        let plan = &inner(plan)?.plan;
        check_length("source", source_length, plan.source_bytes())?;
        check_length("destination", destination_length, plan.destination_bytes())?;
        let destination_extent = Extent::new("destination", destination.cast::<u8>(), destination_length);
        check_apart(&[Extent::new("source", source.cast::<u8>(), source_length), destination_extent])?;
        let source = slice(source.cast::<u8>(), source_length, "source")?;
        let destination = slice_out(destination.cast::<u8>(), destination_length, "destination")?;
        executor::with(executor, |executor| plan.execute_uninit_on(executor, source, destination).map(|_| ()))
    };
    // SAFETY: as above.
    unsafe { call(message, body) }
}

/// Makes one chunk on the calling thread: the bytes of the destination from `begin` on, `chunk_length` of them, from all
/// of `source`. Chunks can be made at the same time by any threads.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tw_plan_execute_chunk(
    plan: *const tw_plan,
    source: *const c_void,
    source_length: usize,
    begin: usize,
    chunk: *mut c_void,
    chunk_length: usize,
    message: *mut tw_text,
) -> tw_status {
    // SAFETY: pointers are as the header says.
    let body = || unsafe {
        let plan = &inner(plan)?.plan;
        check_length("source", source_length, plan.source_bytes())?;
        let range = begin..end(begin, chunk_length)?;
        check_apart(&[
            Extent::new("source", source.cast::<u8>(), source_length),
            Extent::new("chunk", chunk.cast::<u8>(), chunk_length),
        ])?;
        let source = slice(source.cast::<u8>(), source_length, "source")?;
        let chunk = slice_out(chunk.cast::<u8>(), chunk_length, "chunk")?;
        plan.execute_chunk_uninit(source, range, chunk)?;
        Ok(())
    };
    // SAFETY: as above.
    unsafe { call(message, body) }
}

/// Where the element of a logical index lies in the source or the destination (`side`): one place for each copy of the
/// tensor. `count` gets how many there are; TW_SHORT if that is more than `capacity`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tw_plan_locate(
    plan: *const tw_plan,
    side: u32,
    index: *const u64,
    rank: usize,
    places: *mut tw_place,
    capacity: usize,
    count: *mut u64,
    message: *mut tw_text,
) -> tw_status {
    // SAFETY: pointers are as the header says.
    let body = || unsafe {
        let layout = inner(plan)?.side(side)?;
        let index = border::bounded(index, rank, MAX_RANK, "index")?;
        let count_out = Out::new(count, "count")?;
        check_apart(&[
            Extent::new("index", index.as_ptr(), index.len()),
            Extent::new("places", places, capacity),
            count_out.extent(),
        ])?;
        let found = layout.locate_each(index)?;
        let out = slice_out(places, capacity, "places")?;
        let copies = layout.copies();
        count_out.set(copies);
        for (out, place) in out.iter_mut().zip(found) {
            let shared = place.shared.unwrap_or(TW_NONE);
            out.write(tw_place {
                buffer: place.buffer,
                byte: place.byte,
                shared,
                bit: place.bit,
                reserved: 0,
            });
        }
        check_room("places", capacity, copies)
    };
    // SAFETY: as above.
    unsafe { call(message, body) }
}

/// What lies at a byte of a buffer of the source or the destination (`side`). The logical indices of the elements go to
/// `indices`, one behind the other, each as many numbers as the tensor has dimensions. TW_SHORT if they are more
/// than `capacity` numbers. TW_VALUE or TW_COLLISION for a source in which elements may share places.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tw_plan_owner(
    plan: *const tw_plan,
    side: u32,
    buffer: u64,
    byte: u64,
    owner: *mut tw_owner,
    indices: *mut u64,
    capacity: usize,
    message: *mut tw_text,
) -> tw_status {
    // SAFETY: pointers are as the header says.
    let body = || unsafe {
        let layout = inner(plan)?.side(side)?;
        let owner_out = Out::new(owner, "owner")?;
        check_apart(&[owner_out.extent(), Extent::new("indices", indices, capacity)])?;
        let out = slice_out(indices, capacity, "indices")?;
        let (kind, elements) = match layout.owner(buffer, byte)? {
            Owner::Elements(elements) => (TW_OWNER_ELEMENTS, elements),
            Owner::Shared(elements) => (TW_OWNER_SHARED, elements),
            Owner::Padding => (TW_OWNER_PADDING, vec![]),
            Owner::Gap => (TW_OWNER_GAP, vec![]),
        };
        owner_out.set(tw_owner { kind, reserved: 0, elements: elements.len() as u64 });
        for (out, &number) in out.iter_mut().zip(elements.iter().flatten()) {
            out.write(number);
        }
        check_room("indices", capacity, elements.iter().map(|index| index.len() as u64).sum())
    };
    // SAFETY: as above.
    unsafe { call(message, body) }
}

/// Writes the plan as text: what of the layout texts was ignored, a line of totals, and a line for each loop nest.
/// TW_SHORT if it does not fit; `text->length` is then what is needed, without the NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tw_plan_explain(
    plan: *const tw_plan,
    text: *mut tw_text,
    message: *mut tw_text,
) -> tw_status {
    // SAFETY: pointers are as the header says.
    let body = || unsafe { border::write_text(text, "text", inner(plan)?) };
    // SAFETY: as above.
    unsafe { call(message, body) }
}

/// Writes the copy from a host array into the plan's destination as torch-spyre's DataConversionInfo, in JSON. TW_VALUE
/// if the source is not a host array or the destination more than one buffer of plain elements; TW_SHORT if the text
/// does not fit; `text->length` is then what is needed, without the NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tw_plan_dci(
    plan: *const tw_plan,
    text: *mut tw_text,
    message: *mut tw_text,
) -> tw_status {
    // SAFETY: pointers are as the header says.
    let body = || unsafe {
        let inner = inner(plan)?;
        let host = inner.host.as_ref().ok_or_else(|| Failure::value("source", "a layout", "a host array"))?;
        border::write_text(text, "text", &Dci::from_layout(&inner.destination, host)?)
    };
    // SAFETY: as above.
    unsafe { call(message, body) }
}

/// An error unless a buffer has the length that the plan needs; a wrong one is not even looked at.
fn check_length(what: &'static str, given: usize, needed: usize) -> Result<()> {
    if given == needed {
        return Ok(());
    }
    Err(Error::Length { what, given: given as u64, needed: needed as u64 }.into())
}

/// The end of a range of bytes.
fn end(begin: usize, length: usize) -> Result<usize> {
    let end = begin.checked_add(length);
    end.ok_or_else(|| Failure::value("chunk", format!("{length} bytes from {begin}"), "less than 2^64"))
}

/// An error if more was found than there is room for.
fn check_room(what: &str, capacity: usize, needed: u64) -> Result<()> {
    if needed <= capacity as u64 {
        return Ok(());
    }
    Err(Failure::new(TW_SHORT, format!("{what} has room for {capacity}, but {needed} are needed")))
}
