//! Staging to and from CUDA devices, through the driver, which is loaded when it is first asked for.
//!
//! Nothing of CUDA is needed to build this. Where there is no driver, [`Cuda::open`] is an error that says so.
//!
//! `tests/cuda.rs` runs it wherever there is a GPU; it has been run on an H200.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::{Duration, Instant};

use libloading::Library;

use super::sink::{Completion, Refused, Sink};
use super::slot::{MAX_SLOTS, Slot, SlotAllocator, SlotMemory};
use super::source::ReadAt;
use crate::error::{Error, Result};

/// What functions of the driver return: 0, or the number of an error.
type Status = i32;
/// `CUDA_ERROR_NOT_READY`: an event that has not happened yet.
const NOT_READY: Status = 600;
/// `CU_MEMHOSTALLOC_PORTABLE`: memory is pinned for all contexts.
const PORTABLE: u32 = 1;
/// `CU_STREAM_NON_BLOCKING`: a stream that does not wait for the default one.
const NON_BLOCKING: u32 = 1;
/// `CU_EVENT_DISABLE_TIMING`.
const NO_TIMING: u32 = 2;

/// Contexts, streams and events: the driver's own pointers, never followed here.
type Opaque = *mut c_void;

/// How long the sink sleeps between two looks at an event: at first, and at most.
const NAPS: [Duration; 2] = [Duration::from_micros(20), Duration::from_millis(1)];

#[cfg(windows)]
const LIBRARIES: [&str; 1] = ["nvcuda.dll"];
#[cfg(not(windows))]
const LIBRARIES: [&str; 2] = ["libcuda.so.1", "libcuda.so"];

/// Declares the functions of the driver that are used: `field: symbol(arguments)`.
macro_rules! driver {
    ($($name:ident: $symbol:literal($($argument:ty),*);)*) => {
        struct Driver {
            $($name: unsafe extern "system" fn($($argument),*) -> Status,)*
            /// Keeps the functions where they are.
            _library: Library,
        }

        impl Driver {
            /// # Safety
            /// The library is the CUDA driver.
            unsafe fn of(library: Library) -> Result<Driver, libloading::Error> {
                Ok(Driver {
                    // SAFETY: the driver's functions have these signatures, which its versioned symbols keep for ever.
                    $($name: unsafe { *library.get($symbol)? },)*
                    _library: library,
                })
            }
        }
    };
}

driver! {
    init: b"cuInit\0"(u32);
    device: b"cuDeviceGet\0"(*mut i32, i32);
    retain: b"cuDevicePrimaryCtxRetain\0"(*mut Opaque, i32);
    release: b"cuDevicePrimaryCtxRelease_v2\0"(i32);
    set_current: b"cuCtxSetCurrent\0"(Opaque);
    host_alloc: b"cuMemHostAlloc\0"(*mut *mut c_void, usize, u32);
    host_free: b"cuMemFreeHost\0"(*mut c_void);
    alloc: b"cuMemAlloc_v2\0"(*mut u64, usize);
    free: b"cuMemFree_v2\0"(u64);
    to_device: b"cuMemcpyHtoDAsync_v2\0"(u64, *const c_void, usize, Opaque);
    to_host: b"cuMemcpyDtoH_v2\0"(*mut c_void, u64, usize);
    stream_create: b"cuStreamCreate\0"(*mut Opaque, u32);
    stream_wait: b"cuStreamSynchronize\0"(Opaque);
    stream_destroy: b"cuStreamDestroy_v2\0"(Opaque);
    event_create: b"cuEventCreate\0"(*mut Opaque, u32);
    event_record: b"cuEventRecord\0"(Opaque, Opaque);
    event_query: b"cuEventQuery\0"(Opaque);
    event_destroy: b"cuEventDestroy_v2\0"(Opaque);
}

/// A device's primary context, which it shares with other users of the device in this process.
#[derive(Clone)]
pub struct Cuda {
    inner: Arc<Context>,
}

struct Context {
    driver: Driver,
    device: i32,
    context: Opaque,
}

// SAFETY: the driver's functions may be called from any thread, and contexts be used by several; `context` is only passed
// to them.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

impl Cuda {
    /// Loads the driver and opens a device.
    ///
    /// # Errors
    /// [`Error::Value`] where there is no driver or no such device.
    pub fn open(device: u32) -> Result<Cuda> {
        Cuda::open_with(&LIBRARIES, device)
    }

    fn open_with(names: &[&str], device: u32) -> Result<Cuda> {
        let none = |given: String| Error::value("CUDA driver", given, names.join(" or "));
        let mut library = Err(none("no name to look for".into()));
        for name in names {
            // SAFETY: loading the driver runs its initialisers, which any program that uses CUDA runs.
            library = unsafe { Library::new(*name) }.map_err(|e| none(told(&e)));
            if library.is_ok() {
                break;
            }
        }
        // SAFETY: it was loaded by the driver's name.
        let driver = unsafe { Driver::of(library?) }.map_err(|e| none(told(&e)))?;
        let number =
            i32::try_from(device).map_err(|_| Error::value("CUDA device", device, "less than 2^31"))?;
        let (mut handle, mut context) = (0, std::ptr::null_mut());
        // SAFETY: the pointers are to values of the right types, which live until the calls return.
        unsafe {
            check("cuInit", (driver.init)(0))?;
            check("cuDeviceGet", (driver.device)(&raw mut handle, number))?;
            check("cuDevicePrimaryCtxRetain", (driver.retain)(&raw mut context, handle))?;
        }
        Ok(Cuda { inner: Arc::new(Context { driver, device: handle, context }) })
    }

    /// The driver, with the device's context current on this thread.
    fn driver(&self) -> Result<&Driver> {
        let Context { driver, context, .. } = &*self.inner;
        // SAFETY: the context is retained until the last `Cuda` is gone.
        check("cuCtxSetCurrent", unsafe { (driver.set_current)(*context) })?;
        Ok(driver)
    }

    /// Uninitialised memory of the device.
    ///
    /// # Errors
    /// Where the driver has none.
    pub fn buffer(&self, bytes: usize) -> Result<CudaBuffer> {
        let mut address = 0;
        // SAFETY: `address` is where the result goes; the driver wants one byte at least.
        check("cuMemAlloc", unsafe { (self.driver()?.alloc)(&raw mut address, bytes.max(1)) })?;
        Ok(CudaBuffer { cuda: self.clone(), address, bytes })
    }

    /// An allocator of pinned memory, which the device reads and writes without a copy of the driver's own.
    pub fn pinned(&self) -> CudaPinned {
        CudaPinned { cuda: self.clone() }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: retained once when it was made; nothing of it is left, since everything holds a `Cuda`.
        unsafe { (self.driver.release)(self.device) };
    }
}

impl fmt::Debug for Cuda {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cuda").field("device", &self.inner.device).finish_non_exhaustive()
    }
}

/// The loader's error with what the system said, which it keeps to itself else.
fn told(error: &libloading::Error) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

fn check(call: &str, status: Status) -> Result<()> {
    if status == 0 {
        return Ok(());
    }
    Err(Error::value("CUDA", format!("error {status} of {call}"), "0"))
}

/// Allocates pinned memory; made by [`Cuda::pinned`].
#[derive(Debug, Clone)]
pub struct CudaPinned {
    cuda: Cuda,
}

/// Pinned memory.
struct Pinned {
    cuda: Cuda,
    at: *mut u8,
    len: usize,
}

// SAFETY: it owns its bytes, and the driver lets any thread use and free them.
unsafe impl Send for Pinned {}
// SAFETY: shared references only read.
unsafe impl Sync for Pinned {}

impl SlotAllocator for CudaPinned {
    fn allocate(&mut self, bytes: usize) -> Result<Box<dyn SlotMemory>> {
        let (mut at, len) = (std::ptr::null_mut(), bytes.max(1));
        let driver = self.cuda.driver()?;
        // SAFETY: `at` is where the result goes.
        check("cuMemHostAlloc", unsafe { (driver.host_alloc)(&raw mut at, len, PORTABLE) })?;
        // SAFETY: the driver has just given out these bytes, and nobody else has them.
        unsafe { at.cast::<u8>().write_bytes(0, len) };
        Ok(Box::new(Pinned { cuda: self.cuda.clone(), at: at.cast(), len }))
    }
}

impl Deref for Pinned {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `len` bytes at `at` are owned, and were set to zero when they were allocated.
        unsafe { std::slice::from_raw_parts(self.at, self.len) }
    }
}

impl DerefMut for Pinned {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and borrowed by nobody else.
        unsafe { std::slice::from_raw_parts_mut(self.at, self.len) }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        if let Ok(driver) = self.cuda.driver() {
            // SAFETY: allocated by the driver and freed once. No copy is under way: a sink owns its slots until their
            // copies have ended.
            unsafe { (driver.host_free)(self.at.cast()) };
        }
    }
}

/// Memory of a device. As a [`ReadAt`] it is what a [`super::Fetcher`] brings back.
pub struct CudaBuffer {
    cuda: Cuda,
    address: u64,
    bytes: usize,
}

impl CudaBuffer {
    /// Where it begins on the device.
    pub fn address(&self) -> u64 {
        self.address
    }
}

impl ReadAt for CudaBuffer {
    fn size(&self) -> u64 {
        self.bytes as u64
    }

    fn read_at(&self, at: u64, into: &mut [u8]) -> Result<()> {
        let (given, needed) = (self.size(), at.saturating_add(into.len() as u64));
        if needed > given {
            return Err(Error::Length { what: "memory of the device", given, needed });
        }
        let driver = self.cuda.driver()?;
        // SAFETY: the bytes lie inside of the buffer, as just checked; the call returns when they are in `into`.
        check("cuMemcpyDtoH", unsafe {
            (driver.to_host)(into.as_mut_ptr().cast(), self.address + at, into.len())
        })
    }
}

impl Drop for CudaBuffer {
    fn drop(&mut self) {
        if let Ok(driver) = self.cuda.driver() {
            // SAFETY: allocated by the driver and freed once; sinks that write to it hold it.
            unsafe { (driver.free)(self.address) };
        }
    }
}

impl fmt::Debug for CudaBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CudaBuffer").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

/// Copies pieces to buffers of one device, on two streams by turns, with an event behind each slot.
pub struct CudaSink {
    cuda: Cuda,
    destinations: Vec<Arc<CudaBuffer>>,
    streams: Vec<Opaque>,
    turn: usize,
    flight: Vec<(Slot, Opaque)>,
    /// Events that are not in use.
    events: Vec<Opaque>,
    /// Slots of which the driver cannot say whether they are still read. They are never freed.
    lost: Vec<Slot>,
}

// SAFETY: streams and events may be used from any thread; the rest is `Send`.
unsafe impl Send for CudaSink {}

impl CudaSink {
    /// One buffer of the device for each transfer, as long as its plan's destination.
    ///
    /// # Errors
    /// Where the driver refuses streams or events.
    pub fn new(cuda: &Cuda, destinations: Vec<Arc<CudaBuffer>>) -> Result<CudaSink> {
        let (cuda, flight) = (cuda.clone(), Vec::with_capacity(MAX_SLOTS));
        let (streams, events, lost) = (Vec::new(), Vec::new(), Vec::new());
        let mut sink = CudaSink { cuda, destinations, streams, turn: 0, flight, events, lost };
        let mut made = std::ptr::null_mut();
        for _ in 0..2 {
            // SAFETY: `made` is where the result goes.
            check("cuStreamCreate", unsafe {
                (sink.cuda.driver()?.stream_create)(&raw mut made, NON_BLOCKING)
            })?;
            sink.streams.push(made);
        }
        for _ in 0..MAX_SLOTS {
            // SAFETY: as above.
            check("cuEventCreate", unsafe { (sink.cuda.driver()?.event_create)(&raw mut made, NO_TIMING) })?;
            sink.events.push(made);
        }
        Ok(sink)
    }

    /// An error unless every piece of a slot lies inside of its buffer, on this device.
    fn check(&self, slot: &Slot) -> Result<()> {
        for piece in slot.pieces() {
            let buffer = self.destinations.get(piece.transfer);
            let same = buffer.is_none_or(|b| Arc::ptr_eq(&b.cuda.inner, &self.cuda.inner));
            let (given, needed) = (buffer.map_or(0, |b| b.bytes as u64), piece.destination.end as u64);
            if needed > given || !same {
                return Err(Error::Length { what: "memory of the device", given, needed });
            }
        }
        Ok(())
    }

    /// Puts the copies of a slot into a stream, and an event behind them.
    fn enqueue(&self, slot: &Slot, stream: Opaque, event: Opaque) -> Result<()> {
        let driver = self.cuda.driver()?;
        for piece in slot.pieces() {
            let (to, from) = (self.destinations[piece.transfer].address, slot.piece(piece));
            let to = to + piece.destination.start as u64;
            // SAFETY: `check` has seen that the piece lies inside of its buffer, which `self` holds. The sink owns the
            // slot, whose memory keeps its address, until the event has happened.
            check("cuMemcpyHtoDAsync", unsafe {
                (driver.to_device)(to, from.as_ptr().cast(), from.len(), stream)
            })?;
        }
        // SAFETY: stream and event are this sink's.
        check("cuEventRecord", unsafe { (driver.event_record)(event, stream) })
    }

    /// The next slot whose event has happened.
    fn arrived(&mut self) -> Option<Completion> {
        let mut i = 0;
        while i < self.flight.len() {
            let event = self.flight[i].1;
            let status = match self.cuda.driver() {
                // SAFETY: the event is this sink's.
                Ok(driver) => unsafe { (driver.event_query)(event) },
                Err(_) => -1,
            };
            if status == NOT_READY {
                i += 1;
                continue;
            }
            let (slot, event) = self.flight.remove(i);
            self.events.push(event);
            if status == 0 {
                return Some(Completion { slot, outcome: Ok(()) });
            }
            self.lost.push(slot);
        }
        None
    }
}

impl Sink for CudaSink {
    fn submit(&mut self, slot: Slot) -> Result<(), Refused> {
        if let Err(error) = self.check(&slot) {
            return Err(Refused { slot, error: Box::new(error) });
        }
        let Some(event) = self.events.pop() else {
            let error =
                Error::value("slots in flight", self.flight.len() + 1, format!("at most {MAX_SLOTS}"));
            return Err(Refused { slot, error: Box::new(error) });
        };
        let stream = self.streams[self.turn];
        self.turn = (self.turn + 1) % self.streams.len();
        let Err(error) = self.enqueue(&slot, stream, event) else {
            self.flight.push((slot, event));
            return Ok(());
        };
        self.events.push(event);
        // Some of the copies may be under way.
        // SAFETY: the stream is this sink's.
        let idle = self.cuda.driver().is_ok_and(|driver| unsafe { (driver.stream_wait)(stream) } == 0);
        if idle {
            return Err(Refused { slot, error: Box::new(error) });
        }
        self.lost.push(slot);
        Ok(())
    }

    fn poll(&mut self) -> Option<Completion> {
        self.arrived()
    }

    fn wait(&mut self, limit: Duration) -> Option<Completion> {
        // The driver can wait for an event, but not for a limited time.
        let started = Instant::now();
        let mut nap = NAPS[0];
        loop {
            if let Some(completion) = self.arrived() {
                return Some(completion);
            }
            let left = limit.saturating_sub(started.elapsed());
            if self.flight.is_empty() || left.is_zero() {
                return None;
            }
            std::thread::sleep(nap.min(left));
            nap = (nap * 2).min(NAPS[1]);
        }
    }
}

impl Drop for CudaSink {
    fn drop(&mut self) {
        let driver = self.cuda.driver().ok();
        let mut idle = driver.is_some() && self.lost.is_empty();
        if let Some(driver) = driver {
            for &stream in &self.streams {
                // SAFETY: the stream is this sink's, and destroyed once; its copies have ended.
                unsafe {
                    idle &= (driver.stream_wait)(stream) == 0;
                    (driver.stream_destroy)(stream);
                }
            }
            for event in self.events.drain(..).chain(self.flight.iter().map(|(_, event)| *event)) {
                // SAFETY: the event is this sink's, and destroyed once.
                unsafe { (driver.event_destroy)(event) };
            }
        }
        if !idle {
            // The device may still read them, or write to the buffers.
            std::mem::forget((std::mem::take(&mut self.flight), std::mem::take(&mut self.destinations)));
        }
        std::mem::forget(std::mem::take(&mut self.lost));
    }
}

impl fmt::Debug for CudaSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CudaSink")
            .field("in_flight", &self.flight.len())
            .field("lost", &self.lost.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_that_is_not_there_is_an_error_that_names_it() {
        let error = Cuda::open_with(&["libtilewright-none.so"], 0).unwrap_err().to_string();
        assert!(error.contains("CUDA driver") && error.contains("libtilewright-none.so"), "{error}");
    }

    /// A library that is not the driver has none of its functions.
    #[test]
    #[cfg(target_os = "linux")]
    fn a_library_without_the_functions_is_an_error() {
        let error = Cuda::open_with(&["libc.so.6"], 0).unwrap_err().to_string();
        assert!(error.contains("cuInit"), "{error}");
    }
}
