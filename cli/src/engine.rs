//! Everything that the command line asks of the library, in one place.

use kernels::Isa;
use tilewright::family::Descriptor;
use tilewright::family::host::strided::Memref;
use tilewright::family::tenstorrent::device::Device;
use tilewright::family::tenstorrent::mesh::{Mapper, Uneven};
use tilewright::family::{Placement, Tensor};
use tilewright::plan::Sen169;
use tilewright::run;
use tilewright::text;
use tilewright::{DType, Error, Format, Layout, Options, Plan};
use tilewright_files::tensorbin::TensorBin;
use tilewright_files::{Order, byte_len};

use super::arguments::{self, Codec, Compat, LayoutArgs, NumberArgs, Rounding};
use super::failure::{Failure, Result};

/// What the texts of a command say about a tensor.
pub(crate) struct Texts {
    /// The tensor, and what one device of a mesh gets of it.
    pub(crate) tensor: Tensor,
    pub(crate) part: Tensor,
    /// The layout of the result, on one device.
    pub(crate) to: Descriptor,
    from: Option<Descriptor>,
    pub(crate) device: Option<Device>,
    pub(crate) mesh: Option<Mapper>,
    lenient: bool,
    /// The layout of a source that says so itself.
    pub(crate) stored: Option<Layout>,
    /// The tensor file that the result goes to.
    pub(crate) file: Option<TensorBin>,
    /// What is not understood.
    pub(crate) warnings: Vec<String>,
}

impl Texts {
    /// The host array that is the source.
    pub(crate) fn host(&self) -> Result<Memref> {
        match &self.from {
            None => Ok(Memref::of(&self.tensor)),
            Some(Descriptor::Memref(host)) => Ok(host.clone()),
            Some(other) => Err(Error::value("source of the copy", other, "a host array, memref<..>").into()),
        }
    }

    /// Reads the texts; without `--to` the result is dense row-major on each device of a mesh.
    pub(crate) fn read(tensor: &Tensor, layouts: &LayoutArgs, from: Option<&str>) -> Result<Texts> {
        byte_len(&tensor.shape, tensor.dtype)?;
        let mut warnings = Vec::new();
        let mut descriptor = |argument: Option<&str>| -> Result<Option<Descriptor>> {
            let Some(argument) = argument else { return Ok(None) };
            let parsed = text::parse(&arguments::text(argument)?)?;
            warnings.extend(parsed.warnings);
            Ok(Some(parsed.descriptor))
        };
        let (to, from) = (descriptor(layouts.to.as_deref())?, descriptor(from)?);
        let optional = |argument: &Option<String>| argument.as_deref().map(arguments::text).transpose();
        let device: Option<Device> = optional(&layouts.device)?.map(|text| text.parse()).transpose()?;
        let mesh: Option<Mapper> = optional(&layouts.mesh)?.map(|text| text.parse()).transpose()?;
        let part = match &mesh {
            Some(mesh) => mesh.part(tensor, Uneven::Refuse)?,
            None => tensor.clone(),
        };
        let to = match to {
            Some(to) => to,
            None if mesh.is_some() => dense(&part, Order::RowMajor),
            None => return Err(Failure::usage("--to", "none", "the layout of the result")),
        };
        let lenient = layouts.lenient;
        let (stored, file) = (None, None);
        Ok(Texts { tensor: tensor.clone(), part, to, from, device, mesh, lenient, stored, file, warnings })
    }

    /// The layout of the result.
    pub(crate) fn target(&self, pad_value: Option<f64>) -> Result<Layout> {
        if let Some(file) = &self.file {
            return Ok(file.whole(pad_value)?.layout);
        }
        let device = self.device.as_ref().filter(|_| !self.device_is_of_source());
        let placement = Placement { device, mesh: self.mesh.as_ref(), pad_value, lenient: self.lenient };
        Ok(self.to.layout(&self.tensor, &placement)?)
    }

    /// The layout of the source; `order` is that of a dense one.
    fn source(&self, order: Order) -> Result<Layout> {
        if let Some(stored) = &self.stored {
            return Ok(stored.clone());
        }
        let Some(from) = &self.from else {
            return Ok(dense(&self.tensor, order).layout(&self.tensor, &Placement::default())?);
        };
        let device = self.source_device();
        Ok(from.layout(&self.tensor, &Placement { device, lenient: self.lenient, ..Placement::default() })?)
    }

    /// The text of the source, where there is one.
    pub(crate) fn from(&self) -> Option<&Descriptor> {
        self.from.as_ref()
    }

    /// The device, where it places the cores of the source.
    pub(crate) fn source_device(&self) -> Option<&Device> {
        self.device.as_ref().filter(|_| self.device_is_of_source())
    }

    /// The device places the cores of the side that has cores: of the source on the way back to a host array.
    fn device_is_of_source(&self) -> bool {
        self.from.is_some() && matches!(self.to, Descriptor::Memref(_) | Descriptor::Mx(_))
    }

    /// The order of the result's elements, if it is one dense host array.
    fn order(&self) -> Option<Order> {
        let Descriptor::Memref(Memref { shape, strides, offset: 0, .. }) = &self.to else { return None };
        if self.mesh.is_some() {
            return None;
        }
        let Some(strides) = strides else { return Some(Order::RowMajor) };
        [Order::RowMajor, Order::ColumnMajor].into_iter().find(|order| order.strides(shape) == *strides)
    }
}

/// A dense host array.
fn dense(tensor: &Tensor, order: Order) -> Descriptor {
    let array = Memref::of(tensor);
    match order {
        Order::RowMajor => array.into(),
        Order::ColumnMajor => array.with_strides(order.strides(&tensor.shape)).into(),
    }
}

/// Choices that change bytes, and the instruction set, which does not.
pub(crate) struct Choices {
    /// Order of the source where there is no `--from`.
    pub(crate) order: Order,
    pub(crate) pad_value: Option<f64>,
    pub(crate) numbers: NumberArgs,
    pub(crate) isa: Isa,
}

/// A plan between two layouts, ready to run.
pub(crate) struct Job {
    pub(crate) texts: Texts,
    pub(crate) layout: Layout,
    pub(crate) plan: Plan,
    pub(crate) source: Layout,
    /// The order of the destination's elements, if it is one dense host array.
    order: Option<Order>,
}

impl NumberArgs {
    /// What they mean to the library.
    pub(crate) fn options(self) -> Options {
        let NumberArgs { rounding, search, compat_unpack, codec, saturate } = self;
        Options::default()
            .with_rounding(match rounding {
                Rounding::Host => kernels::Rounding::Host,
                Rounding::Device => kernels::Rounding::Device,
                Rounding::DeviceOp => kernels::Rounding::DeviceOp,
                Rounding::Truncate => kernels::Rounding::Truncate,
            })
            .with_search(search)
            .with_compat_unpack(match compat_unpack {
                None => kernels::Decoding::Exact,
                Some(Compat::Host) => kernels::Decoding::Host,
                Some(Compat::Device) => kernels::Decoding::Device,
            })
            .with_saturate(saturate)
            .with_sen169(match codec {
                Codec::Nearest => Sen169::Nearest,
                Codec::Deeptools => Sen169::Deeptools,
            })
    }
}

impl Job {
    /// Compiles the conversion.
    pub(crate) fn prepare(texts: Texts, choices: &Choices) -> Result<Job> {
        let source = texts.source(choices.order)?;
        let layout = texts.target(choices.pad_value)?;
        let options = choices.numbers.options().with_isa(choices.isa);
        let plan = Plan::compile(&source, &layout, &options)?;
        let order = texts.order();
        Ok(Job { texts, layout, plan, source, order })
    }

    /// Type and order of the destination, if it is one dense host array.
    pub(crate) fn host_array(&self) -> Option<(DType, Order)> {
        match (self.layout.format(), self.order) {
            (Format::Plain(dtype), Some(order)) => Some((dtype, order)),
            _ => None,
        }
    }

    /// The same conversion by the scalar reference, which never sees the plan.
    pub(crate) fn reference(&self) -> Result<run::Reference> {
        Ok(run::Reference::new(&self.source, &self.layout, self.plan.options())?)
    }

    /// An error unless the source layout has so many bytes.
    pub(crate) fn check_source(&self, given: u64) -> Result<()> {
        let needed = self.source.total_bytes();
        if given == needed { Ok(()) } else { Err(Error::Length { what: "the input", given, needed }.into()) }
    }

    /// How many buffers the result has, and how large they are.
    pub(crate) fn buffers(&self) -> String {
        match self.layout.buffers() {
            1 => "1 buffer".to_owned(),
            n => format!("{n} buffers of {} bytes", self.layout.buffer_bytes()),
        }
    }

    /// The plan's nests, one line each.
    pub(crate) fn nests(&self) -> Vec<String> {
        self.plan.to_string().lines().skip(1).map(|line| line.trim().to_owned()).collect()
    }
}

/// The level that `TILEWRIGHT_ISA` forces, or the best one.
pub(crate) fn isa() -> Result<Isa> {
    let Some(forced) = std::env::var_os("TILEWRIGHT_ISA") else { return Ok(Isa::best()) };
    let name = forced.to_string_lossy();
    Isa::from_name(&name).filter(|isa| isa.is_available()).ok_or_else(|| {
        let available: Vec<&str> = Isa::available().map(Isa::name).collect();
        Error::Isa { given: arguments::beginning(&name), available: available.join(", ") }.into()
    })
}
