//! Everything that the command line asks of the library, in one place.

use std::num::NonZeroUsize;

use kernels::Isa;
use tilewright::io::Order;
use tilewright::plan::Sen169;
use tilewright::run;
use tilewright::target::device::Device;
use tilewright::target::mesh::{self, Mapper};
use tilewright::target::strided::Memref;
use tilewright::target::{Placement, Tensor};
use tilewright::text::{self, Descriptor};
use tilewright::{DType, Error, Format, Layout, Options, Plan};

use crate::arguments::{self, Codec, LayoutArgs, Rounding};
use crate::failure::{Failure, Result};

/// What to do with which tensor.
pub(crate) struct Request<'a> {
    pub(crate) tensor: &'a Tensor,
    /// Order of the source where there is no `--from`.
    pub(crate) order: Order,
    pub(crate) layouts: &'a LayoutArgs,
    pub(crate) pad_value: Option<f64>,
    pub(crate) rounding: Rounding,
    pub(crate) codec: Codec,
    pub(crate) isa: Isa,
}

/// A plan between two layouts, ready to run.
pub(crate) struct Job {
    /// The destination as the library prints it.
    pub(crate) to: String,
    /// What the texts say that is not understood.
    pub(crate) warnings: Vec<String>,
    pub(crate) layout: Layout,
    pub(crate) plan: Plan,
    source: Layout,
    /// The order of the destination's elements, if it is one dense host array.
    order: Option<Order>,
}

impl Job {
    /// Reads the texts, applies them to the tensor, and compiles the conversion.
    pub(crate) fn prepare(request: &Request<'_>) -> Result<Job> {
        let Request { tensor, layouts, .. } = request;
        let mut warnings = Vec::new();
        let mut descriptor = |argument: &Option<String>| -> Result<Option<Descriptor>> {
            let Some(argument) = argument else { return Ok(None) };
            let parsed = text::parse(&arguments::text(argument)?)?;
            warnings.extend(parsed.warnings);
            Ok(Some(parsed.descriptor))
        };
        let (to, from) = (descriptor(&layouts.to)?, descriptor(&layouts.from)?);
        let optional = |argument: &Option<String>| argument.as_deref().map(arguments::text).transpose();
        let device: Option<Device> = optional(&layouts.device)?.map(|text| text.parse()).transpose()?;
        let mapper: Option<Mapper> = optional(&layouts.mesh)?.map(|text| text.parse()).transpose()?;

        let to = match (to, &mapper) {
            (Some(to), _) => to,
            (None, Some(mapper)) => dense(&device_tensor(mapper, tensor)?, Order::RowMajor)?,
            (None, None) => return Err(Failure::usage("--to", "none", "the layout of the result")),
        };
        // The device places the cores of the side that has cores: of the source on the way back to a host array.
        let to_host = matches!(to, Descriptor::Memref(_));
        let from_placement =
            Placement { device: device.as_ref().filter(|_| to_host), mesh: None, pad_value: None };
        let placement = Placement {
            device: device.as_ref().filter(|_| !to_host || from.is_none()),
            mesh: mapper.as_ref(),
            pad_value: request.pad_value,
        };
        let source = match &from {
            Some(from) => layout_of(from, tensor, &from_placement)?,
            None => layout_of(&dense(tensor, request.order)?, tensor, &Placement::default())?,
        };
        let layout = layout_of(&to, tensor, &placement)?;
        let options = Options {
            rounding: match request.rounding {
                Rounding::Host => kernels::Rounding::Host,
                Rounding::Device => kernels::Rounding::Device,
            },
            sen169: match request.codec {
                Codec::Nearest => Sen169::Nearest,
                Codec::Deeptools => Sen169::Deeptools,
            },
            isa: Some(request.isa),
            ..Options::default()
        };
        let plan = Plan::compile(&source, &layout, &options)?;
        let order = if mapper.is_some() { None } else { host_order(&to)? };
        Ok(Job { to: to.to_string(), warnings, layout, plan, source, order })
    }

    /// Type and order of the destination, if it is one dense host array.
    pub(crate) fn host_array(&self) -> Option<(DType, Order)> {
        match (self.layout.format(), self.order) {
            (Format::Plain(dtype), Some(order)) => Some((dtype, order)),
            _ => None,
        }
    }

    /// Converts; the slices have the lengths of all buffers of the two layouts.
    pub(crate) fn execute(&self, source: &[u8], destination: &mut [u8], threads: NonZeroUsize) -> Result<()> {
        #[cfg(feature = "rayon")]
        {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads.get()).build();
            let pool = pool.map_err(|e| Failure::usage("--threads", threads, e))?;
            Ok(pool.install(|| self.plan.execute(source, destination))?)
        }
        #[cfg(not(feature = "rayon"))]
        {
            // Without rayon plans run on the caller's thread.
            let _ = threads;
            Ok(self.plan.execute(source, destination)?)
        }
    }

    /// The same by the scalar reference, which never sees the plan.
    pub(crate) fn reference(&self, source: &[u8]) -> Result<Vec<u8>> {
        Ok(run::reference(&self.source, &self.layout, self.plan.options(), source)?)
    }

    /// An error unless `source` has the length of the source layout.
    pub(crate) fn check_source(&self, source: &[u8]) -> Result<()> {
        let (given, needed) = (source.len() as u64, self.source.total_bytes());
        if given == needed { Ok(()) } else { Err(Error::Length { what: "the input", given, needed }.into()) }
    }

    /// The plan's nests, one line each.
    pub(crate) fn nests(&self) -> Vec<String> {
        self.plan.to_string().lines().skip(1).map(|line| line.trim().to_owned()).collect()
    }
}

/// Applies a descriptor to a tensor.
fn layout_of(descriptor: &Descriptor, tensor: &Tensor, placement: &Placement<'_>) -> Result<Layout> {
    Ok(descriptor.layout(tensor, placement)?)
}

/// A dense host array.
fn dense(tensor: &Tensor, order: Order) -> Result<Descriptor> {
    let strides = match order {
        Order::RowMajor => None,
        Order::ColumnMajor => {
            let strides = order.strides(&tensor.shape)?;
            Some(strides.iter().map(|&stride| stride as i64).collect())
        }
    };
    let Tensor { shape, dtype } = tensor.clone();
    Ok(Descriptor::Memref(Memref { shape, dtype, strides, offset: 0 }))
}

/// The order of a dense host array; `None` for every other layout.
fn host_order(to: &Descriptor) -> Result<Option<Order>> {
    let Descriptor::Memref(Memref { shape, strides, offset: 0, .. }) = to else { return Ok(None) };
    let Some(strides) = strides else { return Ok(Some(Order::RowMajor)) };
    for order in [Order::RowMajor, Order::ColumnMajor] {
        if order.strides(shape)?.iter().map(|&stride| stride as i64).eq(strides.iter().copied()) {
            return Ok(Some(order));
        }
    }
    Ok(None)
}

/// What one device gets of a tensor.
fn device_tensor(mapper: &Mapper, tensor: &Tensor) -> Result<Tensor> {
    let (mesh, placements) = mapper.placements()?;
    let mut part = tensor.clone();
    for (devices, placement) in mesh.into_iter().zip(placements) {
        let mesh::Placement::Shard(dim) = placement else { continue };
        let rank = tensor.shape.len() as i64;
        let place = usize::try_from(if dim < 0 { dim.saturating_add(rank) } else { dim }).ok();
        let extent = place.and_then(|d| part.shape.get_mut(d)).ok_or_else(|| {
            Failure::usage("dimension that the mesh cuts", dim, format!("one of a tensor of rank {rank}"))
        })?;
        if *extent % devices != 0 {
            let given = format!("{extent} over {devices} devices");
            return Err(Failure::usage("dimension that the mesh cuts", given, "equal parts"));
        }
        *extent /= devices;
    }
    Ok(part)
}

/// The level that `TILEWRIGHT_ISA` forces, or the best one.
pub(crate) fn isa() -> Result<Isa> {
    let Some(forced) = std::env::var_os("TILEWRIGHT_ISA") else { return Ok(Isa::best()) };
    let name = forced.to_string_lossy();
    Isa::from_name(&name).filter(|isa| isa.is_available()).ok_or_else(|| {
        let available: Vec<&str> = Isa::available().map(Isa::name).collect();
        Error::Isa { given: name.into_owned(), available: available.join(", ") }.into()
    })
}

/// An error for people: its message, and for texts the place that it is about.
pub(crate) fn diagnostic(error: &Error) -> String {
    error.diagnostic()
}
