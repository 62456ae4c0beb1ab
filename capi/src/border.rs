//! The border: raw pointers of the caller become checked values, failures become statuses and messages.

use std::ffi::c_char;
use std::fmt::{self, Write};
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};

use tilewright::text::MAX_TEXT;

use crate::types::*;

/// The result inside of the border.
pub(crate) type Result<T> = std::result::Result<T, Failure>;

/// A status with its message.
#[derive(Debug)]
pub(crate) struct Failure {
    status: tw_status,
    message: String,
}

impl Failure {
    pub(crate) fn new(status: tw_status, message: impl Into<String>) -> Failure {
        Failure { status, message: message.into() }
    }

    /// A number that is none of those that a field takes.
    pub(crate) fn value(what: &str, given: impl fmt::Display, needed: impl fmt::Display) -> Failure {
        Failure::new(TW_VALUE, format!("{what}: given {given}, needed {needed}"))
    }

    /// The same of one thing among several.
    pub(crate) fn of(self, what: impl fmt::Display) -> Failure {
        Failure { message: format!("{what}: {}", self.message), ..self }
    }
}

impl From<tilewright::Error> for Failure {
    fn from(error: tilewright::Error) -> Failure {
        Failure::new(error.code(), error.diagnostic())
    }
}

/// Runs a call: its failure or its panic becomes a status, with a message where there is room for one.
///
/// # Safety
/// `message` is as the header says.
pub(crate) unsafe fn call(message: *mut tw_text, body: impl FnOnce() -> Result<()>) -> tw_status {
    if !message.is_aligned() {
        return TW_MISALIGNED;
    }
    // SAFETY: not NULL, aligned, and of the caller.
    let text = if message.is_null() { None } else { Some(unsafe { message.read() }) };
    if text.is_some_and(|t| t.data.is_null() && t.capacity > 0) {
        return TW_NULL;
    }
    let outcome = catch_unwind(AssertUnwindSafe(body));
    let outcome =
        outcome.unwrap_or_else(|_| Err(Failure::new(TW_INTERNAL, "a defect of tilewright: a panic")));
    let Err(failure) = outcome else { return TW_OK };
    if let Some(text) = text {
        // SAFETY: `data` has room for `capacity` bytes, as the header says.
        let mut writer = unsafe { Writer::new(text.data, text.capacity) };
        // The writer never fails.
        let _ = writer.write_str(&failure.message);
        // SAFETY: as above; the caller's struct is not borrowed.
        unsafe { (&raw mut (*message).length).write(writer.finish()) };
    }
    failure.status
}

/// An error unless a pointer to one value can be used.
fn check<T>(at: *const T, what: &str) -> Result<()> {
    if at.is_null() {
        return Err(Failure::new(TW_NULL, format!("{what} is NULL")));
    }
    if !at.is_aligned() {
        let needed = align_of::<T>();
        return Err(Failure::new(TW_MISALIGNED, format!("{what} is not aligned to {needed} bytes")));
    }
    Ok(())
}

/// An error unless `len` values can be at a pointer.
fn check_many<T>(at: *const T, len: usize, what: &str) -> Result<()> {
    check(at, what)?;
    let bytes = len.checked_mul(size_of::<T>()).filter(|&n| n <= isize::MAX as usize);
    if bytes.and_then(|n| at.addr().checked_add(n)).is_none() {
        return Err(Failure::new(
            TW_LENGTH,
            format!("{what} cannot hold {len} values of {} bytes", size_of::<T>()),
        ));
    }
    Ok(())
}

/// The values of an array of the caller.
///
/// # Safety
/// Where not NULL, `at` points to `len` values that nothing writes during `'a`.
pub(crate) unsafe fn slice<'a, T>(at: *const T, len: usize, what: &str) -> Result<&'a [T]> {
    if len == 0 {
        return Ok(&[]);
    }
    check_many(at, len, what)?;
    // SAFETY: not NULL, aligned, not longer than an object can be, and of the caller.
    Ok(unsafe { std::slice::from_raw_parts(at, len) })
}

/// Memory of the caller that is to be written.
///
/// # Safety
/// Where not NULL, `at` points to `len` values that nothing else uses during `'a`.
pub(crate) unsafe fn slice_out<'a, T>(
    at: *mut T,
    len: usize,
    what: &str,
) -> Result<&'a mut [MaybeUninit<T>]> {
    if len == 0 {
        return Ok(&mut []);
    }
    check_many(at, len, what)?;
    // SAFETY: as in `slice`; `MaybeUninit` makes no claim about the content.
    Ok(unsafe { std::slice::from_raw_parts_mut(at.cast(), len) })
}

/// Memory that an argument names.
#[derive(Clone, Copy)]
pub(crate) struct Extent<'a> {
    what: &'a str,
    at: usize,
    bytes: usize,
}

impl<'a> Extent<'a> {
    /// So many values from `at` on; none where so many cannot be, or no memory is, which is an error where they are used.
    pub(crate) fn new<T>(what: &'a str, at: *const T, len: usize) -> Extent<'a> {
        let at = at.addr();
        let bytes =
            len.checked_mul(size_of::<T>()).filter(|&bytes| at > 0 && at.checked_add(bytes).is_some());
        Extent { what, at, bytes: bytes.unwrap_or(0) }
    }

    fn meets(self, other: Extent<'_>) -> bool {
        let [ours, theirs] = [self, other].map(|extent| extent.at..extent.at + extent.bytes);
        !ours.is_empty() && !theirs.is_empty() && ours.start < theirs.end && theirs.start < ours.end
    }
}

/// An error if any two of them overlap.
pub(crate) fn check_apart(extents: &[Extent<'_>]) -> Result<()> {
    for (i, &a) in extents.iter().enumerate() {
        if let Some(&b) = extents[..i].iter().find(|b| b.meets(a)) {
            return Err(overlap(b, a));
        }
    }
    Ok(())
}

/// An error if anything that is written overlaps anything else; what is only read may overlap. Takes time by the number of
/// extents, and the logarithm of how many are written.
pub(crate) fn check_writes_apart<'a>(
    written: &mut [Extent<'a>],
    mut read: impl Iterator<Item = Extent<'a>>,
) -> Result<()> {
    written.sort_unstable_by_key(|extent| (extent.at, extent.bytes));
    // Empty ones overlap nothing, but would lie between two that do.
    let written: Vec<_> = written.iter().copied().filter(|extent| extent.bytes > 0).collect();
    if let Some(pair) = written.windows(2).find(|pair| pair[0].meets(pair[1])) {
        return Err(overlap(pair[0], pair[1]));
    }
    // They are disjoint here, so that their ends are sorted too.
    let met = |extent: Extent<'a>| {
        let first = written.partition_point(|written| written.at + written.bytes <= extent.at);
        written.get(first).copied().filter(|written| written.meets(extent)).map(|written| (written, extent))
    };
    read.find_map(met).map_or(Ok(()), |(written, extent)| Err(overlap(extent, written)))
}

fn overlap(a: Extent<'_>, b: Extent<'_>) -> Failure {
    let bytes = format!("{} bytes of {} and {} of {}", a.bytes, a.what, b.bytes, b.what);
    Failure::new(TW_OVERLAP, format!("{bytes}, {} apart, overlap", a.at.abs_diff(b.at)))
}

/// A value of the caller that a result goes to.
pub(crate) struct Out<'a, T> {
    at: *mut T,
    what: &'a str,
}

impl<'a, T> Out<'a, T> {
    /// # Safety
    /// Where not NULL, `at` points to a value that may be written until the call returns.
    pub(crate) unsafe fn new(at: *mut T, what: &'a str) -> Result<Out<'a, T>> {
        check(at, what).map(|()| Out { at, what })
    }

    pub(crate) fn extent(&self) -> Extent<'a> {
        Extent::new(self.what, self.at, 1)
    }

    pub(crate) fn set(&self, value: T) {
        // SAFETY: checked in `new`, of the caller; nothing borrows it.
        unsafe { self.at.write(value) }
    }
}

/// A struct that begins with its size, all of whose bits may be zero.
///
/// # Safety
/// The type is `repr(C)`, has no padding that matters, begins with `struct_size: u32`, and is valid for all bits.
pub(crate) unsafe trait Versioned: Copy {}

// SAFETY: plain numbers, pointers and optional functions behind a `u32`.
unsafe impl Versioned for tw_request {}
// SAFETY: as above.
unsafe impl Versioned for tw_layout {}
// SAFETY: as above.
unsafe impl Versioned for tw_strided {}
// SAFETY: as above.
unsafe impl Versioned for tw_ttnn {}
// SAFETY: as above.
unsafe impl Versioned for tw_metal {}
// SAFETY: as above.
unsafe impl Versioned for tw_spyre {}
// SAFETY: as above.
unsafe impl Versioned for tw_plan_info {}
// SAFETY: as above.
unsafe impl Versioned for tw_tensorbin_info {}
// SAFETY: as above.
unsafe impl Versioned for tw_executor {}
// SAFETY: as above.
unsafe impl Versioned for tw_reader {}
// SAFETY: as above.
unsafe impl Versioned for tw_sink {}
// SAFETY: as above.
unsafe impl Versioned for tw_stage_options {}
// SAFETY: as above.
unsafe impl Versioned for tw_stage_report {}

/// A struct cannot have grown to more than this; what says so is not a size.
const MAX_STRUCT: usize = 1024;

/// The `struct_size` of a struct of the caller, if this library can use the struct.
///
/// # Safety
/// Where not NULL, `at` points to a struct as large as it says.
unsafe fn struct_size<T: Versioned>(at: *const T, what: &str) -> Result<usize> {
    check(at, what)?;
    // SAFETY: checked; the struct begins with its size.
    let given = unsafe { at.cast::<u32>().read() } as usize;
    let needed = size_of::<T>();
    if !(needed..=MAX_STRUCT).contains(&given) {
        return Err(Failure::new(
            TW_STRUCT_SIZE,
            format!("struct_size of {what}: given {given}, needed {needed}"),
        ));
    }
    Ok(given)
}

/// A copy of a struct of the caller.
///
/// # Safety
/// Where not NULL, `at` points to a struct as large as it says.
pub(crate) unsafe fn versioned<T: Versioned>(at: *const T, what: &str) -> Result<T> {
    // SAFETY: passed on.
    let given = unsafe { struct_size(at, what) }?;
    let known = size_of::<T>();
    // SAFETY: the struct is as large as it says.
    let tail = unsafe { slice(at.cast::<u8>().wrapping_add(known), given - known, what) }?;
    if let Some(byte) = tail.iter().position(|&b| b != 0) {
        let message =
            format!("byte {} of {what} is not zero, and this library knows {known} bytes", known + byte);
        return Err(Failure::new(TW_STRUCT_SIZE, message));
    }
    // SAFETY: checked, and at least as large as `T`.
    Ok(unsafe { at.read() })
}

/// A struct of the caller that results go to.
pub(crate) struct OutStruct<T>(*mut T);

impl<T: Versioned> OutStruct<T> {
    /// # Safety
    /// Where not NULL, `at` points to a struct as large as it says, which may be written until the call returns.
    pub(crate) unsafe fn new(at: *mut T, what: &str) -> Result<OutStruct<T>> {
        // SAFETY: passed on.
        unsafe { struct_size(at, what) }.map(|_| OutStruct(at))
    }

    /// Writes the fields; those that only the caller knows stay as they are.
    pub(crate) fn set(&self, change: impl FnOnce(u32) -> T) {
        // SAFETY: checked in `new`, of the caller; nothing borrows it.
        unsafe { self.0.write(change(self.0.cast::<u32>().read())) }
    }
}

/// The values of an array of the caller of which there can only be so many: a longer one is not even read.
///
/// # Safety
/// As [`slice`].
pub(crate) unsafe fn bounded<'a, T>(at: *const T, len: usize, most: usize, what: &str) -> Result<&'a [T]> {
    if len > most {
        return Err(Failure::value(what, format!("{len} values"), format!("at most {most}")));
    }
    // SAFETY: passed on.
    unsafe { slice(at, len, what) }
}

/// A text of the caller; none where its length is 0.
///
/// # Safety
/// `string` is as the header says, during `'a`.
pub(crate) unsafe fn text<'a>(string: tw_string, what: &str) -> Result<Option<&'a str>> {
    // SAFETY: passed on.
    let bytes = unsafe { bounded(string.data.cast::<u8>(), string.length, MAX_TEXT, what) }?;
    let text = std::str::from_utf8(bytes).map_err(|e| Failure::new(TW_TEXT, format!("{what}: {e}")))?;
    Ok(Some(text).filter(|t| !t.is_empty()))
}

/// Writes a text to the caller's memory.
///
/// # Safety
/// Where not NULL, `out` is as the header says.
pub(crate) unsafe fn write_text(out: *mut tw_text, what: &str, value: &impl fmt::Display) -> Result<()> {
    check(out, what)?;
    // SAFETY: checked, and of the caller.
    let tw_text { data, capacity, .. } = unsafe { out.read() };
    if capacity > 0 {
        check_many(data, capacity, what)?;
    }
    check_apart(&[Extent::new("the struct", out, 1), Extent::new("its text", data, capacity)])?;
    // SAFETY: `data` has room for `capacity` bytes.
    let mut writer = unsafe { Writer::new(data, capacity) };
    // The writer never fails.
    let _ = write!(writer, "{value}");
    let length = writer.finish();
    // SAFETY: as above.
    unsafe { (&raw mut (*out).length).write(length) };
    if length >= capacity {
        let message = format!("{what} has room for {capacity} bytes, but {length} and a NUL are needed");
        return Err(Failure::new(TW_SHORT, message));
    }
    Ok(())
}

/// Writes text as far as there is room, and counts all of it.
struct Writer {
    data: *mut c_char,
    /// Bytes that fit in front of the NUL.
    room: usize,
    written: usize,
    length: usize,
}

impl Writer {
    /// # Safety
    /// `data` has room for `capacity` bytes.
    unsafe fn new(data: *mut c_char, capacity: usize) -> Writer {
        Writer {
            data: if capacity > 0 { data } else { std::ptr::null_mut() },
            room: capacity.saturating_sub(1),
            written: 0,
            length: 0,
        }
    }

    /// Ends the text with a NUL, and gives the length of all of it.
    fn finish(self) -> usize {
        if !self.data.is_null() {
            // SAFETY: `written` is at most `capacity - 1`.
            unsafe { self.data.add(self.written).write(0) };
        }
        self.length
    }
}

impl Write for Writer {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        // Once something was cut, nothing follows.
        let room = if self.written == self.length { self.room - self.written } else { 0 };
        let fits = (0..=room.min(text.len())).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
        self.length += text.len();
        if fits > 0 {
            // SAFETY: `written + fits` is at most `capacity - 1`, so `data` is not NULL and has room; a text of
            // this library does not lie in memory of the caller.
            unsafe { std::ptr::copy_nonoverlapping(text.as_ptr(), self.data.add(self.written).cast(), fits) };
            self.written += fits;
        }
        Ok(())
    }
}
