//! Everything that the command line asks of the library, in one place.

use std::num::NonZeroUsize;

use kernels::Isa;
use tilewright::io::Order;
use tilewright::target::Tensor;
use tilewright::{DType, Error, Format};

use crate::arguments::{Codec, LayoutArgs, Rounding, text};
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

/// The numbers that describe a layout.
pub(crate) struct Facts {
    pub(crate) physical_shape: Vec<u64>,
    pub(crate) grid: Vec<u64>,
    pub(crate) shard_shape: Vec<u64>,
    pub(crate) tile: Option<[u64; 2]>,
    pub(crate) buffers: u64,
    pub(crate) buffer_bytes: u64,
    pub(crate) total_bytes: u64,
    pub(crate) padding_elements: u64,
    /// Spyre only.
    pub(crate) device_size: Option<Vec<u64>>,
    /// Spyre only.
    pub(crate) stride_map: Option<Vec<i64>>,
    /// One line a nest.
    pub(crate) nests: Vec<String>,
}

/// A plan between two layouts, ready to run.
pub(crate) struct Job {
    /// The destination as the library prints it.
    pub(crate) to: String,
    /// What the texts say that is not understood.
    pub(crate) warnings: Vec<String>,
    work: stand_in::Work,
}

impl Job {
    pub(crate) fn prepare(request: &Request<'_>) -> Result<Job> {
        let optional = |argument: &Option<String>| argument.as_deref().map(text).transpose();
        let (to, from) = (optional(&request.layouts.to)?, optional(&request.layouts.from)?);
        let (device, mesh) = (optional(&request.layouts.device)?, optional(&request.layouts.mesh)?);
        if to.is_none() && mesh.is_none() {
            return Err(Failure::usage("--to", "none", "the layout of the result"));
        }
        let work =
            stand_in::prepare(request, to.as_deref(), from.as_deref(), device.as_deref(), mesh.as_deref())?;
        Ok(Job { to: to.unwrap_or_else(|| "dense row-major".to_owned()), warnings: Vec::new(), work })
    }

    pub(crate) fn facts(&self) -> Facts {
        self.work.facts()
    }

    /// What the destination holds, if it is one dense host array.
    pub(crate) fn host_array(&self) -> Option<(DType, Order)> {
        match self.work.format() {
            Format::Plain(dtype) => Some((dtype, Order::RowMajor)),
            _ => None,
        }
    }

    pub(crate) fn execute(&self, source: &[u8], destination: &mut [u8], threads: NonZeroUsize) -> Result<()> {
        Ok(self.work.execute(source, destination, threads)?)
    }

    /// The same by the scalar reference, which never sees the plan.
    pub(crate) fn reference(&self, source: &[u8]) -> Result<Vec<u8>> {
        let mut bytes = vec![0; self.work.facts().total_bytes as usize];
        self.work.execute(source, &mut bytes, NonZeroUsize::MIN)?;
        Ok(bytes)
    }

    /// An error unless `source` has the length of the source layout.
    pub(crate) fn check_source(&self, source: &[u8]) -> Result<()> {
        let needed = self.work.source_bytes();
        match source.len() as u64 {
            given if given == needed => Ok(()),
            given => Err(Error::Length { what: "input", given, needed }.into()),
        }
    }
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
    error.to_string()
}

/// Dense row-major copies, until layouts and plans can be compiled.
mod stand_in {
    use super::*;
    use tilewright::Result;
    use tilewright::io::byte_len;

    pub(super) struct Work {
        tensor: Tensor,
        bytes: u64,
    }

    pub(super) fn prepare(
        request: &Request<'_>,
        to: Option<&str>,
        from: Option<&str>,
        device: Option<&str>,
        mesh: Option<&str>,
    ) -> Result<Work> {
        let tensor = request.tensor;
        let dense: String = tensor.shape.iter().map(|n| format!("{n}x")).collect();
        let dense = format!("memref<{dense}{}>", tensor.dtype.mlir_name());
        let plain = request.order == Order::RowMajor && request.pad_value.is_none();
        let default = request.rounding == Rounding::Host
            && request.codec == Codec::Nearest
            && request.isa >= Isa::Scalar;
        if to != Some(&dense) || from.is_some() || device.is_some() || mesh.is_some() || !plain || !default {
            let given = to.unwrap_or("none").to_owned();
            return Err(Error::Value { what: "layout".to_owned(), given, needed: dense });
        }
        Ok(Work { tensor: tensor.clone(), bytes: byte_len(&tensor.shape, tensor.dtype)? })
    }

    impl Work {
        pub(super) fn format(&self) -> Format {
            Format::Plain(self.tensor.dtype)
        }

        pub(super) fn source_bytes(&self) -> u64 {
            self.bytes
        }

        pub(super) fn facts(&self) -> Facts {
            let shape = &self.tensor.shape;
            Facts {
                physical_shape: shape.clone(),
                grid: vec![1; shape.len()],
                shard_shape: shape.clone(),
                tile: None,
                buffers: 1,
                buffer_bytes: self.bytes,
                total_bytes: self.bytes,
                padding_elements: 0,
                device_size: None,
                stride_map: None,
                nests: vec!["copy".to_owned()],
            }
        }

        pub(super) fn execute(
            &self,
            source: &[u8],
            destination: &mut [u8],
            _threads: NonZeroUsize,
        ) -> Result<()> {
            destination.copy_from_slice(source);
            Ok(())
        }
    }
}
