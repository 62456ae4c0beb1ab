//! The memory of Python objects: where it lies, how it is laid out, and what keeps it there.
//!
//! All unsafe code of the package. What it rests on:
//! - **P1** an object that offers the buffer protocol, DLPack or the array interface tells the truth about its memory: every
//!   element that shape and strides reach lies inside of one allocation, which lives until it is given back.
//! - **P2** nobody writes the source, or uses the destination, while a call runs: the documentation asks it of the caller.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_int, c_void};
use std::mem::{ManuallyDrop, MaybeUninit};
use std::ops::{Deref, DerefMut, Range};
use std::ptr::NonNull;

use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyTuple};
use tilewright::family::MAX_RANK;
use tilewright::family::host::strided;

use crate::element::Element;
use crate::error::value;

/// The memory of an array for as long as this value lives.
pub(crate) struct Memory<'py> {
    shape: Vec<u64>,
    /// In bytes.
    strides: Vec<i64>,
    element: Element,
    writable: bool,
    /// The lowest byte of all elements, and how far above it the first element begins.
    start: *mut u8,
    offset: usize,
    /// Bytes from the lowest to behind the highest.
    len: usize,
    _hold: Hold<'py>,
}

/// What keeps the memory where it is.
#[expect(dead_code, reason = "held, and given back when dropped")]
enum Hold<'py> {
    Buffer(Buffer),
    Tensor(Tensor),
    Object(Bound<'py, PyAny>),
}

/// What an array says of itself, unchecked.
struct Claim<'py> {
    /// The element at index 0.
    at: *mut u8,
    shape: Vec<i64>,
    /// In bytes; none for dense row-major.
    strides: Option<Vec<i64>>,
    element: Element,
    writable: bool,
    hold: Hold<'py>,
}

impl<'py> Memory<'py> {
    /// The memory of anything with the buffer protocol, the array interface or DLPack; nothing is copied.
    pub(crate) fn of(x: &Bound<'py, PyAny>) -> PyResult<Memory<'py>> {
        // Who refuses a buffer, as numpy does for the types of ml_dtypes, may still offer another protocol.
        let refusal = match Claim::from_buffer(x).transpose() {
            Some(Ok(claim)) => return claim.check(),
            Some(Err(refusal)) => Some(refusal),
            None => None,
        };
        for protocol in [Claim::from_exchange, Claim::from_interface, Claim::from_dlpack] {
            if let Some(claim) = protocol(x)? {
                return claim.check();
            }
        }
        let name = x.get_type().qualname()?;
        let lacking = || {
            PyTypeError::new_err(format!(
                "{name} has neither the buffer protocol, DLPack nor the array interface"
            ))
        };
        Err(refusal.unwrap_or_else(lacking))
    }

    pub(crate) fn shape(&self) -> &[u64] {
        &self.shape
    }

    pub(crate) fn element(&self) -> Element {
        self.element
    }

    /// Strides in elements, those that mean nothing as in a dense array; none where elements lie at fractions of elements.
    pub(crate) fn strides(&self) -> Option<Vec<i64>> {
        let size = self.element.size() as i64;
        let empty = self.shape.contains(&0);
        let strides = self.shape.iter().zip(&self.strides).zip(row_major(&self.shape, 1));
        let in_elements = |((&n, &bytes), dense)| match n <= 1 || empty {
            true => Some(dense),
            false => (bytes % size == 0).then_some(bytes / size),
        };
        strides.map(in_elements).collect()
    }

    /// Elements below the first one in memory, where strides are negative.
    pub(crate) fn offset(&self) -> i64 {
        (self.offset / self.element.size()) as i64
    }

    /// Whether the elements lie side by side in row-major order.
    pub(crate) fn is_dense(&self) -> bool {
        let dense = row_major(&self.shape, self.element.size() as i64);
        let mut dims = self.shape.iter().zip(self.strides.iter().zip(&dense));
        self.shape.contains(&0) || dims.all(|(&n, (stride, dense))| n == 1 || stride == dense)
    }

    /// Bytes from the lowest to behind the highest element.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The bytes, to be read.
    pub(crate) fn source(&self) -> &[u8] {
        if self.len == 0 {
            return &[];
        }
        // SAFETY: P1 and `check`: `len` bytes from `start` on are inside of the object's memory, which `_hold` keeps; P2.
        unsafe { std::slice::from_raw_parts(self.start, self.len) }
    }

    /// The bytes, to be written; `source` is what is read meanwhile.
    pub(crate) fn destination(&mut self, source: &[u8]) -> PyResult<&mut [MaybeUninit<u8>]> {
        if !self.writable {
            return Err(value("out", "an array that is read-only", "one that can be written"));
        }
        if !self.is_dense() {
            return Err(value("out", "an array with gaps or permuted dimensions", "a dense row-major one"));
        }
        if self.len == 0 {
            return Ok(&mut []);
        }
        let (a, b) = (self.start.addr(), source.as_ptr().addr());
        if a < b.saturating_add(source.len()) && b < a.saturating_add(self.len) {
            return Err(value("out", "memory that overlaps the source", "memory of its own"));
        }
        // SAFETY: as in `source`; writable by its own word, apart from `source`, and borrowed mutably from `self`.
        Ok(unsafe { std::slice::from_raw_parts_mut(self.start.cast(), self.len) })
    }
}

impl Memory<'_> {
    /// The bytes, for a ring of slots, which is gone before this value is.
    pub(crate) fn lend(&mut self) -> PyResult<Lent> {
        self.destination(&[])?;
        Ok(Lent { at: self.start, len: self.len })
    }
}

/// An error if anything that is written overlaps anything else; what is only read may overlap.
pub(crate) fn check_apart(read: &[Memory<'_>], written: &[Memory<'_>]) -> PyResult<()> {
    let range = |memory: &Memory<'_>| memory.start.addr()..memory.start.addr() + memory.len;
    let mut written: Vec<_> = written.iter().filter(|memory| memory.len > 0).map(range).collect();
    written.sort_unstable_by_key(|range| range.start);
    if written.windows(2).any(|pair| pair[1].start < pair[0].end) {
        return Err(value("out", "memory that overlaps another `out`", "memory of its own"));
    }
    // They are disjoint here, so that their ends are sorted too.
    let is_written = |read: Range<usize>| {
        let first = written.partition_point(|range| range.end <= read.start);
        !read.is_empty() && written.get(first).is_some_and(|range| range.start < read.end)
    };
    if read.iter().map(range).any(is_written) {
        return Err(value("out", "memory that overlaps a source", "memory of its own"));
    }
    Ok(())
}

/// Memory that a [`Memory`] outlives: `stage` drops the ring before what it was made of.
pub(crate) struct Lent {
    at: *mut u8,
    len: usize,
}

// SAFETY: bytes may be used from any thread; P2: nobody else uses them meanwhile.
unsafe impl Send for Lent {}
// SAFETY: as above; shared references only read.
unsafe impl Sync for Lent {}

impl Deref for Lent {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        if self.len == 0 {
            return &[];
        }
        // SAFETY: as in `Memory::source`, for the memory lives as long.
        unsafe { std::slice::from_raw_parts(self.at, self.len) }
    }
}

impl DerefMut for Lent {
    fn deref_mut(&mut self) -> &mut [u8] {
        if self.len == 0 {
            return &mut [];
        }
        // SAFETY: as in `Memory::destination`, which `lend` has asked; borrowed by nobody else.
        unsafe { std::slice::from_raw_parts_mut(self.at, self.len) }
    }
}

/// Bytes that were made here and belong to Python now, as a writable buffer.
#[pyclass(frozen, module = "tilewright._tilewright")]
pub(crate) struct Bytes {
    at: NonNull<u8>,
    len: usize,
    capacity: usize,
}

impl From<Vec<u8>> for Bytes {
    fn from(bytes: Vec<u8>) -> Bytes {
        let mut bytes = ManuallyDrop::new(bytes);
        // The pointer of a vector is never null.
        let at = NonNull::new(bytes.as_mut_ptr()).unwrap_or(NonNull::dangling());
        Bytes { at, len: bytes.len(), capacity: bytes.capacity() }
    }
}

impl Drop for Bytes {
    fn drop(&mut self) {
        // SAFETY: the parts of the vector of `from`; buffers keep the object, so that none is left.
        drop(unsafe { Vec::from_raw_parts(self.at.as_ptr(), self.len, self.capacity) });
    }
}

// SAFETY: bytes may be used from any thread, and nothing here reads or writes them.
unsafe impl Send for Bytes {}
// SAFETY: as above.
unsafe impl Sync for Bytes {}

#[pymethods]
impl Bytes {
    /// # Safety
    /// As the buffer protocol: `view` is NULL, or a struct to be filled.
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let Bytes { at, len, .. } = slf.get();
        // SAFETY: `view` is the caller's; the memory lives as long as the object, which the view will keep.
        let status = unsafe {
            ffi::PyBuffer_FillInfo(view, slf.as_ptr(), at.as_ptr().cast(), *len as ffi::Py_ssize_t, 0, flags)
        };
        if status == 0 { Ok(()) } else { Err(PyErr::fetch(slf.py())) }
    }
}

impl<'py> Claim<'py> {
    /// Computes the range of addresses, and checks all numbers.
    fn check(self) -> PyResult<Memory<'py>> {
        let Claim { at, shape, strides, element, writable, hold } = self;
        let sizes: Option<Vec<u64>> = shape.iter().map(|&n| u64::try_from(n).ok()).collect();
        let sizes = sizes.filter(|s| s.len() <= MAX_RANK).ok_or_else(|| {
            value("shape of an array", format!("{shape:?}"), format!("at most {MAX_RANK} sizes of 0 or more"))
        })?;
        let size = element.size() as i64;
        let strides = strides.unwrap_or_else(|| row_major(&sizes, size));
        if strides.len() != sizes.len() {
            let given = format!("{} for {} dimensions", strides.len(), sizes.len());
            return Err(value("strides of an array", given, "one for each dimension"));
        }
        let (mut below, mut above) = (0_i128, i128::from(size));
        if sizes.contains(&0) {
            above = 0;
        } else {
            for (&n, &stride) in shape.iter().zip(&strides) {
                let way = (i128::from(n) - 1) * i128::from(stride);
                below = below.saturating_sub(way.min(0));
                above = above.saturating_add(way.max(0));
            }
        }
        let fits = |n: i128| usize::try_from(n).ok().filter(|&n| n <= isize::MAX as usize);
        let (offset, len) = fits(below)
            .zip(fits(below.saturating_add(above)))
            .filter(|&(below, len)| {
                let lowest = at.addr().checked_sub(below);
                len == 0 || lowest.is_some_and(|a| a > 0 && a.checked_add(len).is_some())
            })
            .ok_or_else(|| {
                value("array", format!("shape {shape:?} with strides {strides:?}"), "an array in memory")
            })?;
        Ok(Memory {
            shape: sizes,
            strides,
            element,
            writable,
            start: at.wrapping_sub(offset),
            offset,
            len,
            _hold: hold,
        })
    }

    /// The buffer protocol; none where the object lacks it.
    fn from_buffer(x: &Bound<'py, PyAny>) -> PyResult<Option<Claim<'py>>> {
        let (buffer, named) = match Buffer::of(x, ffi::PyBUF_FULL_RO).transpose() {
            None => return Ok(None),
            Some(Ok(buffer)) => (buffer, None),
            // The protocol has no letter for the types of ml_dtypes: their arrays show their bytes, but only without one.
            Some(Err(refusal)) => {
                let named = scalar_name(x)?.and_then(|name| Element::from_name(&name));
                match (named, Buffer::of(x, ffi::PyBUF_STRIDED_RO)) {
                    (Some(_), Ok(Some(buffer))) => (buffer, named),
                    _ => return Err(refusal),
                }
            }
        };
        let view = &*buffer.0;
        let rank = usize::try_from(view.ndim).unwrap_or(0);
        if !view.suboffsets.is_null() {
            return Err(value("array", "rows behind pointers", "one piece of memory"));
        }
        // SAFETY: where not NULL, the exporter keeps a C string until the buffer is released.
        let format = (!view.format.is_null()).then(|| unsafe { CStr::from_ptr(view.format) });
        let format = format.map_or("B", |f| f.to_str().unwrap_or_default());
        let size = usize::try_from(view.itemsize).unwrap_or(0);
        let element = named.or_else(|| Element::from_format(format, size)).filter(|e| e.size() == size);
        let element = element.ok_or_else(|| value("element type", format!("`{format}`"), needed(format)))?;
        let list = |at: *mut ffi::Py_ssize_t| -> Option<Vec<i64>> {
            if at.is_null() || rank == 0 {
                return (rank == 0).then(Vec::new);
            }
            // SAFETY: the request asks for shape and strides, and each has `ndim` numbers.
            Some(unsafe { std::slice::from_raw_parts(at, rank) }.iter().map(|&n| n as i64).collect())
        };
        let Some(shape) = list(view.shape) else {
            return Err(value("array", "a buffer without a shape", "one with a shape"));
        };
        let (at, writable, strides) = (view.buf.cast(), view.readonly == 0, list(view.strides));
        Ok(Some(Claim { at, shape, strides, element, writable, hold: Hold::Buffer(buffer) }))
    }

    /// The array interface; none where the object lacks it.
    fn from_interface(x: &Bound<'py, PyAny>) -> PyResult<Option<Claim<'py>>> {
        let py = x.py();
        let Some(interface) = x.getattr_opt(intern!(py, "__array_interface__"))? else { return Ok(None) };
        let interface = interface.cast_into::<PyDict>()?;
        let entry = |key: &str| {
            let entry = interface.get_item(key)?.filter(|entry| !entry.is_none());
            entry.ok_or_else(|| {
                value("__array_interface__", format!("no `{key}`"), "an address, shape and typestr")
            })
        };
        let (at, readonly): (usize, bool) = entry("data")?.extract()?;
        let typestr: String = entry("typestr")?.extract()?;
        let name = scalar_name(x)?.unwrap_or_default();
        // Of the types that ml_dtypes adds, the type string says little more than the size.
        let unnamed = !typestr.contains('V') || matches!(name.as_str(), "" | "void");
        let element = Element::from_name(&name)
            .or_else(|| if unnamed { Element::from_typestr(&typestr) } else { None });
        let element =
            element.ok_or_else(|| value("element type", format!("`{typestr}` {name}"), needed(&typestr)))?;
        let strides = match interface.get_item("strides")? {
            Some(strides) if !strides.is_none() => Some(strides.extract()?),
            _ => None,
        };
        Ok(Some(Claim {
            at: std::ptr::with_exposed_provenance_mut(at),
            shape: entry("shape")?.extract()?,
            strides,
            element,
            writable: !readonly,
            hold: Hold::Object(x.clone()),
        }))
    }

    /// DLPack by its table of C functions, which costs a tenth of `__dlpack__`; none where the type lacks it.
    fn from_exchange(x: &Bound<'py, PyAny>) -> PyResult<Option<Claim<'py>>> {
        let py = x.py();
        let Some(table) = x.get_type().getattr_opt(intern!(py, "__dlpack_c_exchange_api__"))? else {
            return Ok(None);
        };
        let Ok(capsule) = table.cast_into::<PyCapsule>() else { return Ok(None) };
        let table: NonNull<Exchange> = capsule.pointer_checked(Some(c"dlpack_exchange_api"))?.cast();
        // SAFETY: a capsule of this name holds a table that lives as long as the process, and begins with its version.
        let Version { major, .. } = unsafe { table.as_ref() }.version;
        if major != 1 {
            return Ok(None);
        }
        refuse_negated(x)?;
        let mut tensor = std::ptr::null_mut();
        // SAFETY: version 1 has this function here; it takes an object of the type that the table is from.
        let status = unsafe { (table.as_ref().managed_tensor_from_object)(x.as_ptr().cast(), &mut tensor) };
        let tensor = NonNull::new(tensor).filter(|_| status == 0).map(Tensor);
        let Some(tensor) = tensor else {
            return Err(PyErr::take(py).unwrap_or_else(|| value("tensor", "no memory", "one with DLPack")));
        };
        // SAFETY: a tensor that its producer gave us, alive until `Tensor` is dropped.
        let managed = unsafe { tensor.0.as_ref() };
        let writable = managed.flags & READ_ONLY == 0;
        // SAFETY: as above.
        unsafe { Claim::from_tensor(&managed.tensor, writable, Hold::Tensor(tensor)) }.map(Some)
    }

    /// DLPack by `__dlpack__`; none where the object lacks it.
    fn from_dlpack(x: &Bound<'py, PyAny>) -> PyResult<Option<Claim<'py>>> {
        let py = x.py();
        let Some(export) = x.getattr_opt(intern!(py, "__dlpack__"))? else { return Ok(None) };
        refuse_negated(x)?;
        let kwargs = PyDict::new(py);
        kwargs.set_item(intern!(py, "max_version"), PyTuple::new(py, [1, 0])?)?;
        let capsule = match export.call((), Some(&kwargs)) {
            // Producers older than version 1 do not know the argument.
            Err(e) if e.is_instance_of::<PyTypeError>(py) => export.call0()?,
            capsule => capsule?,
        };
        let capsule = capsule.cast_into::<PyCapsule>()?;
        if capsule.is_valid_checked(Some(c"dltensor_versioned")) {
            let managed: NonNull<Managed> = capsule.pointer_checked(Some(c"dltensor_versioned"))?.cast();
            // SAFETY: a capsule of this name holds such a tensor, of which the first field never changes.
            let Version { major, minor } = unsafe { managed.as_ref() }.version;
            if major != 1 {
                return Err(value("DLPack version", format!("{major}.{minor}"), "1"));
            }
            // SAFETY: the layout of version 1. The capsule keeps the tensor, and we keep the capsule.
            let managed = unsafe { managed.as_ref() };
            let writable = managed.flags & READ_ONLY == 0;
            // SAFETY: as above.
            return unsafe {
                Claim::from_tensor(&managed.tensor, writable, Hold::Object(capsule.into_any()))
            }
            .map(Some);
        }
        // Before version 1 a producer can only refuse to hand out what must not be written: all else is writable.
        let tensor: NonNull<DlTensor> = capsule.pointer_checked(Some(c"dltensor"))?.cast();
        // SAFETY: a capsule of this name holds a struct that begins with this one. The capsule keeps it, and we keep the
        // capsule.
        unsafe { Claim::from_tensor(tensor.as_ref(), true, Hold::Object(capsule.into_any())) }.map(Some)
    }

    /// # Safety
    /// The tensor is as DLPack describes it, and `hold` keeps its memory.
    unsafe fn from_tensor(tensor: &DlTensor, writable: bool, hold: Hold<'py>) -> PyResult<Claim<'py>> {
        if !HOST.contains(&tensor.device_type) {
            let given = format!("memory of DLPack device type {}", tensor.device_type);
            return Err(value("tensor", given, "one in host memory, such as `x.cpu()`"));
        }
        let element = Element::from_dlpack(tensor.code, tensor.bits).filter(|_| tensor.lanes == 1);
        let element = element.ok_or_else(|| {
            value("element type", format!("DLPack code {} of {} bits", tensor.code, tensor.bits), NUMBERS)
        })?;
        let rank = usize::try_from(tensor.ndim).unwrap_or(0);
        let list = |at: *const i64| {
            // SAFETY: DLPack: shape, and strides where not NULL, have `ndim` numbers.
            if rank == 0 { vec![] } else { unsafe { std::slice::from_raw_parts(at, rank) }.to_vec() }
        };
        let size = element.size() as i64;
        let strides = (!tensor.strides.is_null() || rank == 0)
            .then(|| list(tensor.strides).iter().map(|s| s.saturating_mul(size)).collect());
        Ok(Claim {
            at: tensor.data.cast::<u8>().wrapping_add(tensor.byte_offset as usize),
            shape: list(tensor.shape),
            strides,
            element,
            writable,
            hold,
        })
    }
}

/// Refuses a torch tensor whose memory holds the negatives of its elements: DLPack would not say so.
fn refuse_negated(x: &Bound<'_, PyAny>) -> PyResult<()> {
    match x.getattr_opt(intern!(x.py(), "is_neg"))? {
        Some(is_neg) if is_neg.call0()?.is_truthy()? => {
            Err(value("tensor", "one whose negation is still to be done", "`x.resolve_neg()`"))
        }
        _ => Ok(()),
    }
}

/// The name of the scalar type of an array with a numpy dtype.
fn scalar_name(x: &Bound<'_, PyAny>) -> PyResult<Option<String>> {
    let py = x.py();
    let mut of = x.clone();
    for name in [intern!(py, "dtype"), intern!(py, "type"), intern!(py, "__name__")] {
        match of.getattr_opt(name)? {
            Some(next) => of = next,
            None => return Ok(None),
        }
    }
    Ok(of.extract().ok())
}

/// Row-major strides, where one element steps by `step`; saturated where no memory has so many elements.
pub(crate) fn row_major(shape: &[u64], step: i64) -> Vec<i64> {
    strided::row_major(shape).iter().map(|stride| stride.saturating_mul(step)).collect()
}

/// The element types that can be read.
const NUMBERS: &str = "bool, or integers or floats of 8 to 64 bits in little-endian order";

/// What is needed instead of an element type: of numbers in big-endian order, the copy that has the other.
fn needed(format: &str) -> String {
    match format.starts_with(['>', '!']) {
        true => {
            format!("{NUMBERS}; of a numpy array x, `x.astype(x.dtype.newbyteorder('<'))` is such a copy")
        }
        false => NUMBERS.to_owned(),
    }
}

/// A view that an exporter of the buffer protocol gave us.
struct Buffer(Box<ffi::Py_buffer>);

impl Buffer {
    /// None where the object lacks the protocol.
    fn of(x: &Bound<'_, PyAny>, flags: c_int) -> PyResult<Option<Buffer>> {
        // SAFETY: an object, while attached.
        if unsafe { ffi::PyObject_CheckBuffer(x.as_ptr()) } == 0 {
            return Ok(None);
        }
        let mut view = Box::new(ffi::Py_buffer::new());
        // SAFETY: as above; the view stays where it is until it is released.
        if unsafe { ffi::PyObject_GetBuffer(x.as_ptr(), &mut *view, flags) } != 0 {
            return Err(PyErr::fetch(x.py()));
        }
        Ok(Some(Buffer(view)))
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: filled by `PyObject_GetBuffer`, released once; `Memory` is dropped while attached, as it borrows `'py`.
        unsafe { ffi::PyBuffer_Release(&mut *self.0) }
    }
}

/// A tensor that a DLPack producer gave us.
struct Tensor(NonNull<Managed>);

impl Drop for Tensor {
    fn drop(&mut self) {
        // SAFETY: ours, and given back once.
        unsafe {
            if let Some(deleter) = self.0.as_ref().deleter {
                deleter(self.0.as_ptr());
            }
        }
    }
}

/// DLPack's device types whose memory the host can read: CPU, pinned by CUDA or by ROCm.
const HOST: [i32; 3] = [1, 3, 11];

/// The flag of a tensor that must not be written.
const READ_ONLY: u64 = 1;

/// `DLPackVersion`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Version {
    major: u32,
    minor: u32,
}

/// `DLTensor`.
#[repr(C)]
struct DlTensor {
    data: *mut c_void,
    device_type: i32,
    device: i32,
    ndim: i32,
    code: u8,
    bits: u8,
    lanes: u16,
    shape: *const i64,
    strides: *const i64,
    byte_offset: u64,
}

/// `DLManagedTensorVersioned`.
#[repr(C)]
struct Managed {
    version: Version,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Managed)>,
    flags: u64,
    tensor: DlTensor,
}

/// `DLPackExchangeAPI` as far as it is used.
#[repr(C)]
struct Exchange {
    version: Version,
    previous: *const c_void,
    allocate: *const c_void,
    managed_tensor_from_object: unsafe extern "C" fn(*mut c_void, *mut *mut Managed) -> c_int,
}
