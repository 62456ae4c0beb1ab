//! Requests: the caller's structs become descriptors, layouts and options.

use tilewright::dtype::{BlockFormat, DType, Format};
use tilewright::family::Descriptor;
use tilewright::family::host::strided::Memref;
use tilewright::family::spyre::{Constructor, DataFormat, Explicit, SpyreLayout};
use tilewright::family::tenstorrent::cores::{CoreRangeSet, Orientation};
use tilewright::family::tenstorrent::device::Device;
use tilewright::family::tenstorrent::memory::Fill;
use tilewright::family::tenstorrent::mesh::Mapper;
use tilewright::family::tenstorrent::metal::MetalConstructor;
use tilewright::family::tenstorrent::tile::{Element, TileShape};
use tilewright::family::tenstorrent::ttnn::{Interleaved, Memory, PageLayout, Scheme, Sharded, Ttnn};
use tilewright::family::{MAX_RANK, Placement, Tensor};
use tilewright::layout::Layout;
use tilewright::plan::{Decoding, Isa, Options, Rounding, Sen169, Store};
use tilewright::text;

use crate::border::{self, Failure, Result, bounded, versioned};
use crate::types::*;

/// What a request asks for.
pub(crate) struct Request {
    pub(crate) source: Layout,
    /// The source as it was described, where it is a host array.
    pub(crate) host: Option<Memref>,
    pub(crate) destination: Layout,
    pub(crate) options: Options,
    /// What of the texts was ignored, one sentence each.
    pub(crate) warnings: Vec<String>,
}

/// A layout as the caller says it.
pub(crate) struct Described {
    pub(crate) descriptor: Descriptor,
    pub(crate) device: Option<Device>,
    pub(crate) mesh: Option<Mapper>,
    pub(crate) pad_value: Option<f64>,
}

/// The tensor of a request, as its fields say or the text of a layout.
///
/// # Safety
/// What the request points to is as the header says.
unsafe fn tensor(request: &tw_request) -> Result<Tensor> {
    // SAFETY: as the header says, like every pointer of a struct below.
    let shape = unsafe { bounded(request.shape, request.rank, MAX_RANK, "request->shape") }?.to_vec();
    if request.dtype == 0 {
        // SAFETY: passed on.
        let said = unsafe { said(request) }?.ok_or_else(|| {
            Failure::value("request->dtype", 0, "TW_F64 to TW_BOOL, unless the text of a layout says it")
        })?;
        return Ok(Tensor { shape: if shape.is_empty() { said.shape } else { shape }, dtype: said.dtype });
    }
    let Format::Plain(dtype) = format("request->dtype", request.dtype)? else {
        return Err(Failure::value("request->dtype", request.dtype, "TW_F64 to TW_BOOL"));
    };
    Ok(Tensor { shape, dtype })
}

/// The tensor that the text of the source says, or else that of the destination. Texts with a mesh are of a part of it.
///
/// # Safety
/// As [`tensor`].
unsafe fn said(request: &tw_request) -> Result<Option<Tensor>> {
    for (at, what) in [(request.source, "source"), (request.destination, "destination")] {
        if at.is_null() {
            continue;
        }
        // SAFETY: as the header says.
        let given = unsafe { versioned(at, what) }?;
        // SAFETY: as above.
        let written = unsafe { border::text(given.text, &format!("{what}->text")) }?;
        if let (Some(written), 0) = (written, given.mesh.length)
            && let Some(tensor) = text::parse(written)?.descriptor.tensor()
        {
            return Ok(Some(tensor));
        }
    }
    Ok(None)
}

/// Reads a request whose destination is not a layout yet.
///
/// # Safety
/// As [`read`].
pub(crate) unsafe fn described_both(
    request: *const tw_request,
) -> Result<(Tensor, Layout, Described, Options)> {
    // SAFETY: as above.
    let request = unsafe { versioned(request, "request") }?;
    let mut warnings = Vec::new();
    // SAFETY: as above.
    unsafe {
        let tensor = tensor(&request)?;
        let (source, _) = layout(request.source, "source", &tensor, &mut warnings)?;
        let destination = described(request.destination, "destination", &tensor, &mut warnings)?;
        Ok((tensor, source, destination, options(&request)?))
    }
}

/// Reads a request of the caller.
///
/// # Safety
/// Where not NULL, `request` and what it points to are as the header says.
pub(crate) unsafe fn read(request: *const tw_request) -> Result<Request> {
    // SAFETY: as the header says.
    let request = unsafe { versioned(request, "request") }?;
    // SAFETY: as above.
    let tensor = unsafe { tensor(&request) }?;
    let mut warnings = Vec::new();
    // SAFETY: as above.
    let (source, host) = unsafe { layout(request.source, "source", &tensor, &mut warnings) }?;
    // SAFETY: as above.
    let (destination, _) = unsafe { layout(request.destination, "destination", &tensor, &mut warnings) }?;
    Ok(Request { source, host, destination, options: options(&request)?, warnings })
}

fn options(request: &tw_request) -> Result<Options> {
    let flags = request.flags;
    let known = TW_SEARCH | TW_COMPAT_UNPACK | TW_SEN169_DEEPTOOLS | TW_SATURATE | TW_COMPAT_UNPACK_DEVICE;
    if flags & !known != 0 {
        return Err(Failure::value("request->flags", flags, format!("bits of {known}")));
    }
    let isa = match request.isa {
        TW_ISA_BEST => None,
        level => Some(
            ISA.iter()
                .find(|l| l.0 == level)
                .map(|l| l.1)
                .ok_or_else(|| Failure::value("request->isa", level, "TW_ISA_BEST to TW_ISA_V4"))?,
        ),
    };
    let roundings = [Rounding::Host, Rounding::Device, Rounding::Truncate, Rounding::DeviceOp];
    let decoding = match (flags & TW_COMPAT_UNPACK != 0, flags & TW_COMPAT_UNPACK_DEVICE != 0) {
        (false, false) => Decoding::Exact,
        (true, false) => Decoding::Host,
        (false, true) => Decoding::Device,
        (true, true) => {
            let needed = "TW_COMPAT_UNPACK or TW_COMPAT_UNPACK_DEVICE, not both";
            return Err(Failure::value("request->flags", flags, needed));
        }
    };
    let sen169 = if flags & TW_SEN169_DEEPTOOLS != 0 { Sen169::Deeptools } else { Sen169::Nearest };
    Ok(Options::default()
        .with_rounding(pick("request->rounding", request.rounding, roundings)?)
        .with_search(flags & TW_SEARCH != 0)
        .with_saturate(flags & TW_SATURATE != 0)
        .with_compat_unpack(decoding)
        .with_sen169(sen169)
        .with_store(pick("request->store", request.store, [Store::Auto, Store::Cached, Store::Streamed])?)
        .with_isa(isa))
}

/// Instruction set levels with their numbers.
pub(crate) const ISA: [(u32, Isa); 4] =
    [(TW_ISA_SCALAR, Isa::Scalar), (TW_ISA_BASE, Isa::Base), (TW_ISA_V3, Isa::V3), (TW_ISA_V4, Isa::V4)];

/// # Safety
/// As [`read`].
pub(crate) unsafe fn layout(
    at: *const tw_layout,
    what: &str,
    tensor: &Tensor,
    warnings: &mut Vec<String>,
) -> Result<(Layout, Option<Memref>)> {
    // SAFETY: passed on.
    let Described { descriptor, device, mesh, pad_value } = unsafe { described(at, what, tensor, warnings) }?;
    let placement =
        Placement { device: device.as_ref(), mesh: mesh.as_ref(), pad_value, ..Placement::default() };
    let layout = descriptor.layout(tensor, &placement)?;
    let whole = placement.mesh.is_none();
    Ok((layout, if let (Descriptor::Memref(host), true) = (descriptor, whole) { Some(host) } else { None }))
}

/// # Safety
/// As [`read`].
unsafe fn described(
    at: *const tw_layout,
    what: &str,
    tensor: &Tensor,
    warnings: &mut Vec<String>,
) -> Result<Described> {
    if at.is_null() {
        let descriptor = Descriptor::Memref(host(tensor));
        return Ok(Described { descriptor, device: None, mesh: None, pad_value: None });
    }
    // SAFETY: as above.
    let given = unsafe { versioned(at, what) }?;
    reserved("layout->reserved", given.reserved)?;
    let name = |part: &str| format!("{what}->{part}");
    // SAFETY: as above.
    let (written, device, mesh) = unsafe {
        (
            border::text(given.text, &name("text"))?,
            border::text(given.device, &name("device"))?,
            border::text(given.mesh, &name("mesh"))?,
        )
    };
    let forms = [
        written.is_some(),
        !given.strided.is_null(),
        !given.ttnn.is_null(),
        !given.metal.is_null(),
        !given.spyre.is_null(),
    ];
    if forms.iter().filter(|&&form| form).count() > 1 {
        return Err(Failure::value(what, "several forms", "one of text, strided, ttnn, metal and spyre"));
    }
    // SAFETY: as above.
    let descriptor = unsafe {
        if let Some(written) = written {
            let parsed = text::parse(written)?;
            warnings.extend(parsed.warnings);
            parsed.descriptor
        } else if !given.strided.is_null() {
            strided(given.strided, tensor)?
        } else if !given.ttnn.is_null() {
            ttnn(given.ttnn)?
        } else if !given.metal.is_null() {
            metal(given.metal, tensor)?
        } else if !given.spyre.is_null() {
            spyre(given.spyre, tensor)?
        } else {
            Descriptor::Memref(host(tensor))
        }
    };
    descriptor.validate()?;
    let device = device.map(str::parse).transpose()?;
    let mesh = mesh.map(str::parse).transpose()?;
    // SAFETY: as above.
    let pad_value = if given.pad_value.is_null() {
        None
    } else {
        // SAFETY: as above.
        unsafe { border::slice(given.pad_value, 1, &name("pad_value")) }?.first().copied()
    };
    Ok(Described { descriptor, device, mesh, pad_value })
}

/// A row-major host array.
fn host(tensor: &Tensor) -> Memref {
    Memref::of(tensor)
}

/// # Safety
/// As [`read`].
unsafe fn strided(at: *const tw_strided, tensor: &Tensor) -> Result<Descriptor> {
    // SAFETY: as above.
    let given = unsafe { versioned(at, "strided") }?;
    let dtype = match given.dtype {
        0 => tensor.dtype,
        code => plain("strided->dtype", code)?,
    };
    // SAFETY: as above.
    let strides = unsafe { bounded(given.strides, given.rank, MAX_RANK, "strided->strides") }?;
    let dense = Memref::new(tensor.shape.as_slice(), dtype).with_offset(given.offset);
    Ok(if given.strides.is_null() { dense } else { dense.with_strides(strides) }.into())
}

/// # Safety
/// As [`read`].
unsafe fn ttnn(at: *const tw_ttnn) -> Result<Descriptor> {
    // SAFETY: as above.
    let given = unsafe { versioned(at, "ttnn") }?;
    // SAFETY: as above.
    let shard = unsafe { bounded(given.shard, given.shard_rank, MAX_RANK, "ttnn->shard") }?;
    let transpose = pick("ttnn->transpose_tile", given.transpose_tile, [false, true])?;
    let columns_first = pick("ttnn->column_major", given.column_major, [false, true])?;
    let layout = match given.page_layout {
        TW_ROW_MAJOR => PageLayout::RowMajor,
        TW_TILE => PageLayout::Tile {
            shape: tile("ttnn->tile", given.tile_rows, given.tile_columns)?.unwrap_or(TileShape::T32X32),
            transpose,
        },
        other => return Err(Failure::value("ttnn->page_layout", other, "TW_ROW_MAJOR or TW_TILE")),
    };
    let orientation = if columns_first { Orientation::ColMajor } else { Orientation::RowMajor };
    let sharded = |scheme| {
        let cores = CoreRangeSet::grid(given.grid[0], given.grid[1]);
        Memory::Sharded(Sharded::new(scheme, cores, shard.to_vec()).with_orientation(orientation))
    };
    let memory = match given.memory {
        TW_SINGLE => Memory::Single,
        TW_INTERLEAVED => Memory::Interleaved(Interleaved::new(given.banks, given.alignment)),
        TW_HEIGHT_SHARDED => sharded(Scheme::Height),
        TW_WIDTH_SHARDED => sharded(Scheme::Width),
        TW_BLOCK_SHARDED => sharded(Scheme::Block),
        TW_ND_SHARDED => sharded(Scheme::Nd),
        other => return Err(Failure::value("ttnn->memory", other, "TW_SINGLE to TW_ND_SHARDED")),
    };
    Ok(Ttnn::new(format("ttnn->format", given.format)?, layout).with_memory(memory).into())
}

/// # Safety
/// As [`read`].
unsafe fn metal(at: *const tw_metal, tensor: &Tensor) -> Result<Descriptor> {
    // SAFETY: as above.
    let given = unsafe { versioned(at, "metal") }?;
    reserved("metal->reserved", given.reserved)?;
    // SAFETY: as above.
    let grid = unsafe { bounded(given.grid, given.grid_rank, MAX_RANK, "metal->grid") }?;
    // SAFETY: as above.
    let collapse = unsafe { bounded(given.collapse, given.collapse_count, MAX_RANK, "metal->collapse") }?;
    let element = match tile("metal->tile", given.tile_rows, given.tile_columns)? {
        Some(shape) => Element::Tile { shape, format: format("metal->format", given.format)? },
        None => Element::Scalar(plain("metal->format", given.format)?),
    };
    let fill = [Fill::Undef, Fill::Zero, Fill::One, Fill::Inf, Fill::NegInf];
    let mut metal = MetalConstructor::new(tensor.shape.clone(), grid.to_vec(), element);
    metal.collapse = collapse.iter().map(|&[begin, end]| (begin, end)).collect();
    metal.fill = pick("metal->fill", given.fill, fill)?;
    Ok(Descriptor::MetalConstructor(metal))
}

/// # Safety
/// As [`read`].
unsafe fn spyre(at: *const tw_spyre, tensor: &Tensor) -> Result<Descriptor> {
    // SAFETY: as above.
    let given = unsafe { versioned(at, "spyre") }?;
    let Tensor { shape, dtype } = tensor.clone();
    if given.rank == 0 {
        return Ok(SpyreLayout::from(Constructor::new(shape, dtype)).into());
    }
    // SAFETY: as above.
    let device_size = unsafe { bounded(given.device_size, given.rank, MAX_RANK, "spyre->device_size") }?;
    // SAFETY: as above.
    let stride_map = unsafe { bounded(given.stride_map, given.rank, MAX_RANK, "spyre->stride_map") }?;
    let data_format = DataFormat::from_number(given.data_format.into());
    let data_format = data_format
        .ok_or_else(|| Failure::value("spyre->data_format", given.data_format, "a number of DataFormats"))?;
    let explicit =
        Explicit::new(device_size.to_vec()).with_stride_map(stride_map.to_vec()).with_dtype(data_format);
    Ok(SpyreLayout::from(explicit).into())
}

/// The tile of these sizes; none where both are 0.
fn tile(what: &str, rows: u32, columns: u32) -> Result<Option<TileShape>> {
    if (rows, columns) == (0, 0) {
        return Ok(None);
    }
    let shape = TileShape::new(rows.into(), columns.into());
    let needed = "32, 16, 8, 4, 2 or 1 rows and 32 or 16 columns";
    shape.map(Some).ok_or_else(|| Failure::value(what, format!("{rows}x{columns}"), needed))
}

/// The choice of a number.
fn pick<T, const N: usize>(what: &str, number: u32, choices: [T; N]) -> Result<T> {
    let choice = choices.into_iter().nth(number as usize);
    choice.ok_or_else(|| Failure::value(what, number, format!("0 to {}", N - 1)))
}

fn reserved(what: &str, value: u32) -> Result<()> {
    if value == 0 { Ok(()) } else { Err(Failure::value(what, value, 0)) }
}

/// Every element format with its number.
const FORMATS: [(tw_format, Format); 29] = [
    (TW_F64, Format::Plain(DType::F64)),
    (TW_F32, Format::Plain(DType::F32)),
    (TW_F16, Format::Plain(DType::F16)),
    (TW_BF16, Format::Plain(DType::Bf16)),
    (TW_F8E4M3, Format::Plain(DType::F8E4M3)),
    (TW_F8E5M2, Format::Plain(DType::F8E5M2)),
    (TW_I64, Format::Plain(DType::I64)),
    (TW_I32, Format::Plain(DType::I32)),
    (TW_I16, Format::Plain(DType::I16)),
    (TW_I8, Format::Plain(DType::I8)),
    (TW_U64, Format::Plain(DType::U64)),
    (TW_U32, Format::Plain(DType::U32)),
    (TW_U16, Format::Plain(DType::U16)),
    (TW_U8, Format::Plain(DType::U8)),
    (TW_BOOL, Format::Plain(DType::Bool)),
    (TW_BFP8_B, Format::Block(BlockFormat::Bfp8B)),
    (TW_BFP4_B, Format::Block(BlockFormat::Bfp4B)),
    (TW_BFP2_B, Format::Block(BlockFormat::Bfp2B)),
    (TW_BFP8_A, Format::Block(BlockFormat::Bfp8A)),
    (TW_BFP4_A, Format::Block(BlockFormat::Bfp4A)),
    (TW_BFP2_A, Format::Block(BlockFormat::Bfp2A)),
    (TW_MXFP8_E4M3, Format::Block(BlockFormat::MxFp8E4M3)),
    (TW_MXFP8_E5M2, Format::Block(BlockFormat::MxFp8E5M2)),
    (TW_MXFP6_E3M2, Format::Block(BlockFormat::MxFp6E3M2)),
    (TW_MXFP6_E2M3, Format::Block(BlockFormat::MxFp6E2M3)),
    (TW_MXFP4, Format::Block(BlockFormat::MxFp4)),
    (TW_MXINT8, Format::Block(BlockFormat::MxInt8)),
    (TW_MXINT4, Format::Block(BlockFormat::MxInt4)),
    (TW_MXINT2, Format::Block(BlockFormat::MxInt2)),
];

/// The number of a format.
pub(crate) fn code(format: Format) -> tw_format {
    FORMATS.iter().find(|f| f.1 == format).map_or(0, |f| f.0)
}

fn format(what: &str, code: tw_format) -> Result<Format> {
    let format = FORMATS.iter().find(|f| f.0 == code).map(|f| f.1);
    format.ok_or_else(|| Failure::value(what, code, "a number of tw_format"))
}

fn plain(what: &str, code: tw_format) -> Result<DType> {
    match format(what, code)? {
        Format::Plain(dtype) => Ok(dtype),
        _ => Err(Failure::value(what, code, "TW_F64 to TW_BOOL")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_format_has_a_number() {
        let given = |format: Format| FORMATS.iter().filter(|f| f.1 == format).count();
        assert!(DType::all().all(|dtype| given(Format::Plain(dtype)) == 1));
        assert!(BlockFormat::ALL.into_iter().all(|block| given(Format::Block(block)) == 1));
    }
}
