//! Plans: compiled once for a tensor, and once more for each set of strides that arrays come with.

use std::mem::MaybeUninit;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::prelude::*;
use pyo3::types::PyDict;
use tilewright::family::Descriptor;
use tilewright::family::host::strided::Memref;
use tilewright::family::loops::Dci;
use tilewright::family::tenstorrent::device::Device;
use tilewright::family::tenstorrent::mesh::{Mapper, Uneven};
use tilewright::family::{Family, Placement, Tensor};
use tilewright::layout::Owner;
use tilewright::plan::{Decoding, Rounding, Sen169};
use tilewright::{DType, Format, Options};
use tilewright_draw::Hardware;

use crate::error::{exception, value};
use crate::layout::read;
use crate::memory::{Memory, row_major};
use crate::picture::{Page, picture};
use crate::threads::Threads;

/// The most sets of strides that a plan remembers.
const MAX_VIEWS: usize = 16;

/// The most places of one element that are listed.
const MAX_PLACES: u64 = 1 << 16;

/// Buffer, byte, bit, and the byte of a shared exponent.
type Place = (u64, u64, u32, Option<u64>);

/// What an owner of a byte is called, and the indices of its elements.
type Owned = (&'static str, Vec<Vec<u64>>);

/// A host array as its shape, element type, strides in elements (none: row-major), and first element.
pub(crate) type HostArray = (Vec<u64>, &'static str, Option<Vec<i64>>, i64);

/// A conversion of tensors of one shape and type between two layouts.
#[pyclass(frozen, module = "tilewright._tilewright")]
pub(crate) struct Plan {
    tensor: Tensor,
    /// Whether the source is a host array, which may come with any strides; else it is the buffers of a layout.
    from_host: bool,
    destination: tilewright::Layout,
    to: Descriptor,
    /// What the destination was placed by; none where the mesh and the device belong to the source.
    mesh: Option<Mapper>,
    device: Option<Device>,
    to_host: Option<HostArray>,
    options: Options,
    plan: Arc<tilewright::Plan>,
    /// Plans by strides and offset of the source, in elements. Locked by attached threads only, and briefly.
    views: Mutex<Vec<View>>,
}

struct View {
    strides: Vec<i64>,
    offset: i64,
    plan: Arc<tilewright::Plan>,
}

#[pymethods]
impl Plan {
    /// Without `source` the tensor is a host array; without `to` the result is one.
    #[new]
    #[pyo3(signature = (shape, dtype, source, to, mesh, device, pad_value, rounding, search, codec, compat_unpack, saturate))]
    #[expect(
        clippy::too_many_arguments,
        reason = "named by the Python half, whose signature says which are optional"
    )]
    fn new(
        py: Python<'_>,
        shape: Option<Vec<u64>>,
        dtype: Option<&str>,
        source: Option<&str>,
        to: Option<&str>,
        mesh: Option<&str>,
        device: Option<&str>,
        pad_value: Option<f64>,
        rounding: &str,
        search: bool,
        codec: &str,
        compat_unpack: &str,
        saturate: bool,
    ) -> PyResult<Plan> {
        // Warnings show who called the function of the Python half that had this plan cached.
        let source = source.map(|text| read(py, text, 3)).transpose()?;
        let to = to.map(|text| read(py, text, 3)).transpose()?;
        let decoding = match compat_unpack {
            "exact" => Decoding::Exact,
            "host" => Decoding::Host,
            "device" => Decoding::Device,
            _ => return Err(value("compat_unpack", compat_unpack, "False, True, host or device")),
        };
        let options = options(rounding, search, codec, saturate)?.with_compat_unpack(decoding);
        let tensor = tensor(shape, dtype, source.as_ref(), to.as_ref().filter(|_| mesh.is_none()))?;
        let mesh: Option<Mapper> = mesh.map(str::parse).transpose().map_err(exception)?;
        let device: Option<Device> = device.map(str::parse).transpose().map_err(exception)?;
        py.detach(|| Plan::compile(tensor, source, to, mesh, device, pad_value, options)).map_err(exception)
    }

    /// Converts `x` into `out`, which holds just the bytes of the destination.
    fn run(
        &self,
        py: Python<'_>,
        x: &Bound<'_, PyAny>,
        out: &Bound<'_, PyAny>,
        threads: Option<usize>,
    ) -> PyResult<()> {
        self.with(py, x, out, |plan, source, out| {
            let threads = Threads::new(py, threads, out.len())?;
            let run = || plan.execute_uninit_on(threads.executor(), source, out).map(|_| ());
            py.detach(run).map_err(exception)
        })
    }

    /// Produces the bytes from `begin` to `end` of the destination into `out`, on the caller's thread.
    fn run_chunk(
        &self,
        py: Python<'_>,
        x: &Bound<'_, PyAny>,
        out: &Bound<'_, PyAny>,
        begin: usize,
        end: usize,
    ) -> PyResult<()> {
        self.with(py, x, out, |plan, source, out| {
            let run = || plan.execute_chunk_uninit(source, Range { start: begin, end }, out).map(|_| ());
            py.detach(run).map_err(exception)
        })
    }

    /// The places of a logical index, one in each replica.
    fn locate(&self, index: Vec<u64>) -> PyResult<Vec<Place>> {
        if self.destination.copies() > MAX_PLACES {
            let given = format!("an element of {} places", self.destination.copies());
            return Err(value("index", given, format!("at most {MAX_PLACES}, to list them")));
        }
        let places = self.destination.locate(&index).map_err(exception)?;
        Ok(places.into_iter().map(|p| (p.buffer, p.byte, p.bit, p.shared)).collect())
    }

    /// What lies at a byte of a buffer.
    fn owner(&self, buffer: u64, byte: u64) -> PyResult<Owned> {
        Ok(match self.destination.owner(buffer, byte).map_err(exception)? {
            Owner::Elements(elements) => ("elements", elements),
            Owner::Shared(elements) => ("shared", elements),
            Owner::Padding => ("padding", vec![]),
            Owner::Gap => ("gap", vec![]),
        })
    }

    /// The copy from a dense host array as torch-spyre's DataConversionInfo, in JSON.
    fn dci(&self) -> PyResult<String> {
        if !self.from_host {
            return Err(value("source", "a layout", "a host array"));
        }
        Dci::from_layout(&self.destination, &Memref::of(&self.tensor))
            .map(|dci| dci.to_string())
            .map_err(exception)
    }

    /// The destination as a page or an image, of at most so many bytes; none where no picture is as small.
    fn picture(&self, py: Python<'_>, page: bool, most: Option<usize>) -> PyResult<Option<String>> {
        let place =
            Placement { device: self.device.as_ref(), mesh: self.mesh.as_ref(), ..Placement::default() };
        py.detach(|| {
            let hardware = Hardware::new(&self.destination, &self.to, &place, &self.tensor)?;
            picture(&hardware, if page { Page::Html(Some(&self.plan)) } else { Page::Svg }, most)
        })
        .map_err(exception)
    }

    /// Facts about the destination and the plan by their names in the command line's JSON.
    #[getter]
    fn info<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (layout, info) = (&self.destination, PyDict::new(py));
        let geometry = layout.geometry();
        info.set_item("to", self.to.to_string())?;
        info.set_item("logical_shape", &self.tensor.shape)?;
        info.set_item("dtype", self.tensor.dtype.name())?;
        info.set_item("physical_shape", &geometry.physical_shape)?;
        info.set_item("grid", &geometry.grid)?;
        info.set_item("shard_shape", &geometry.shard_shape)?;
        info.set_item("tile", geometry.tile.map(|t| [t.rows, t.cols]))?;
        info.set_item("device_size", &geometry.device_size)?;
        info.set_item("stride_map", &geometry.stride_map)?;
        info.set_item("buffers", layout.buffers())?;
        info.set_item("buffer_bytes", layout.buffer_bytes())?;
        info.set_item("total_bytes", layout.total_bytes())?;
        info.set_item("padding_elements", layout.padding_elements())?;
        let text = self.plan.to_string();
        info.set_item("nests", text.lines().skip(1).map(str::trim).collect::<Vec<_>>())?;
        info.set_item("isa", self.plan.isa().name())?;
        Ok(info)
    }

    /// The logical shape.
    #[getter]
    fn shape(&self) -> &[u64] {
        &self.tensor.shape
    }

    /// The logical element type.
    #[getter]
    fn dtype(&self) -> &'static str {
        self.tensor.dtype.name()
    }

    /// Bytes of all buffers of the source as compiled.
    #[getter]
    fn source_bytes(&self) -> usize {
        self.plan.source_bytes()
    }

    /// Buffers of the destination.
    #[getter]
    fn buffers(&self) -> u64 {
        self.destination.buffers()
    }

    /// Bytes of each.
    #[getter]
    fn buffer_bytes(&self) -> u64 {
        self.destination.buffer_bytes()
    }

    /// Bytes of the smallest range that can be produced alone.
    #[getter]
    fn chunk_alignment(&self) -> usize {
        self.plan.chunk_alignment()
    }

    /// The destination, where it is host arrays of one shape: one for each device of a mesh.
    #[getter]
    fn host_array(&self) -> Option<HostArray> {
        self.to_host.clone()
    }
}

impl Plan {
    fn compile(
        tensor: Tensor,
        source: Option<Descriptor>,
        to: Option<Descriptor>,
        mesh: Option<Mapper>,
        device: Option<Device>,
        pad_value: Option<f64>,
        options: Options,
    ) -> tilewright::Result<Plan> {
        let from_host = matches!(&source, None | Some(Descriptor::Memref(_)));
        // A mesh or a device belongs to the side that has one: the result, unless the way is back to a host array.
        let back = !from_host && matches!(&to, None | Some(Descriptor::Memref(_) | Descriptor::Mx(_)));
        let placed = Placement { device: device.as_ref(), mesh: mesh.as_ref(), ..Placement::default() };
        let plain = Placement::default();
        let part = match &mesh {
            Some(mesh) => mesh.part(&tensor, Uneven::Refuse)?,
            None => tensor.clone(),
        };
        let local = if back { &tensor } else { &part };
        let to = to.unwrap_or_else(|| dense(local));
        let target = Placement { pad_value, ..if back { plain } else { placed } };
        let destination = to.layout(&tensor, &target)?;
        let is_dense = matches!(&source, None | Some(Descriptor::Memref(Memref { strides: None, .. })));
        let source = source.unwrap_or_else(|| dense(&tensor));
        let layout = source.layout(&tensor, if back { &placed } else { &plain })?;
        let plan = Arc::new(tilewright::Plan::compile(&layout, &destination, &options)?);
        let to_host = host_array(&to, mesh.is_some() && !back, &destination);
        let view = || View { strides: row_major(&tensor.shape, 1), offset: 0, plan: plan.clone() };
        let views = Mutex::new(is_dense.then(view).into_iter().collect());
        let (mesh, device) = if back { (None, None) } else { (mesh, device) };
        Ok(Plan { tensor, from_host, destination, to, mesh, device, to_host, options, plan, views })
    }

    /// Calls `body` with the plan for `x`, its bytes and those of `out`.
    fn with(
        &self,
        py: Python<'_>,
        x: &Bound<'_, PyAny>,
        out: &Bound<'_, PyAny>,
        body: impl FnOnce(&tilewright::Plan, &[u8], &mut [MaybeUninit<u8>]) -> PyResult<()>,
    ) -> PyResult<()> {
        let (source, mut out) = (Memory::of(x)?, Memory::of(out)?);
        let plan = self.plan_for(py, &source)?;
        let bytes = source.source();
        body(&plan, bytes, out.destination(bytes)?)
    }

    /// The plan that reads an array: as the tensor, with whatever strides, or as the raw bytes of the source's buffers.
    pub(crate) fn plan_for(&self, py: Python<'_>, x: &Memory<'_>) -> PyResult<Arc<tilewright::Plan>> {
        let Tensor { shape, dtype } = &self.tensor;
        if self.from_host && x.shape() == shape && x.element().carries(*dtype) {
            let strides = x.strides().ok_or_else(|| {
                value("strides", "fractions of an element", "whole elements; a copy of the array has them")
            })?;
            return self.view(py, strides, x.offset());
        }
        let raw = !self.from_host || (x.shape().len() == 1 && x.element().size() == 1);
        if raw && x.is_dense() && x.len() == self.plan.source_bytes() {
            return Ok(self.plan.clone());
        }
        let element = match x.element().dtype() {
            Some(dtype) => dtype.name().to_owned(),
            None => format!("{} bytes", x.element().size()),
        };
        let given = format!("shape {:?} of {element}, {} bytes", x.shape(), x.len());
        let bytes = self.plan.source_bytes();
        let needed = match self.from_host {
            true => format!("shape {shape:?} of {dtype}, or {bytes} single bytes"),
            false => format!("a dense array of {bytes} bytes"),
        };
        Err(value("source", given, needed))
    }

    /// The plan for a host array with these strides.
    fn view(&self, py: Python<'_>, strides: Vec<i64>, offset: i64) -> PyResult<Arc<tilewright::Plan>> {
        let views = || self.views.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(view) = views().iter().find(|v| v.strides == strides && v.offset == offset) {
            return Ok(view.plan.clone());
        }
        let compile = || {
            let memref = Memref::of(&self.tensor).with_strides(strides.as_slice()).with_offset(offset);
            let source = memref.to_layout(&self.tensor, &Placement::default())?;
            tilewright::Plan::compile(&source, &self.destination, &self.options)
        };
        let plan = Arc::new(py.detach(compile).map_err(exception)?);
        let mut views = views();
        if views.len() == MAX_VIEWS {
            views.remove(0);
        }
        views.push(View { strides, offset, plan: plan.clone() });
        Ok(plan)
    }
}

/// The choices of numbers by their names.
pub(crate) fn options(rounding: &str, search: bool, codec: &str, saturate: bool) -> PyResult<Options> {
    let rounding = match rounding {
        "host" => Rounding::Host,
        "device" => Rounding::Device,
        "device-op" => Rounding::DeviceOp,
        "truncate" => Rounding::Truncate,
        _ => return Err(value("rounding", rounding, "host, device, device-op or truncate")),
    };
    let codec = match codec {
        "nearest" => Sen169::Nearest,
        "deeptools" => Sen169::Deeptools,
        _ => return Err(value("codec", codec, "nearest or deeptools")),
    };
    let options = Options::default().with_rounding(rounding).with_search(search);
    Ok(options.with_sen169(codec).with_saturate(saturate))
}

/// The tensor: as given; what is not, is what the text of the source says of it, or that of the result where there is no
/// mesh.
fn tensor(
    shape: Option<Vec<u64>>,
    dtype: Option<&str>,
    source: Option<&Descriptor>,
    to: Option<&Descriptor>,
) -> PyResult<Tensor> {
    let dtype = match dtype {
        Some(name) => Some(DType::from_name(name).ok_or_else(|| {
            let names: Vec<&str> = DType::all().map(DType::name).collect();
            value("dtype", format!("`{name}`"), format!("one of {}", names.join(", ")))
        })?),
        None => None,
    };
    if let (Some(shape), Some(dtype)) = (&shape, dtype) {
        return Ok(Tensor { shape: shape.clone(), dtype });
    }
    let said = [source, to].into_iter().flatten().find_map(Descriptor::tensor);
    let missing = if shape.is_none() { "shape" } else { "dtype" };
    let said = said.ok_or_else(|| value(missing, "none", "one, unless the text of a layout says it"))?;
    Ok(Tensor { shape: shape.unwrap_or(said.shape), dtype: dtype.unwrap_or(said.dtype) })
}

/// A dense host array.
fn dense(tensor: &Tensor) -> Descriptor {
    Memref::of(tensor).into()
}

/// The destination as numpy would describe it, if it is host arrays.
pub(crate) fn host_array(to: &Descriptor, mesh: bool, layout: &tilewright::Layout) -> Option<HostArray> {
    let (Descriptor::Memref(memref), Format::Plain(dtype)) = (to, layout.format()) else { return None };
    let (mut shape, strides) = (memref.shape.clone(), memref.strides.clone());
    if mesh {
        if strides.is_some() {
            return None;
        }
        shape.insert(0, layout.buffers());
    }
    Some((shape, dtype.name(), strides, memref.offset))
}
