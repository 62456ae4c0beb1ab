//! TTNN's tensor files: what they say, and the bytes of their shards. Elements are converted by plans.

use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use tilewright::family::tenstorrent::mesh::Mapper;
use tilewright::family::{Descriptor, Tensor};
use tilewright::{DType, Error};
use tilewright_files::Source;
use tilewright_files::tensorbin::{Payload, TensorBin as File, Writer};

use crate::error::{exception, value};
use crate::layout::read;
use crate::memory::Memory;

/// Shape, element type, layout and mapper of a tensor as the file stores it: a plan's texts.
type Stored = (Vec<u64>, &'static str, String, Option<String>);

/// A tensor file: one that was opened, or one to be written.
#[pyclass(frozen, module = "tilewright._tilewright")]
pub(crate) struct TensorBin {
    file: File,
    /// Where it was opened.
    path: Option<PathBuf>,
}

impl TensorBin {
    /// The whole tensor, or that of one device.
    fn payload(&self, device: Option<&[u64]>) -> Result<Payload, Error> {
        device.map_or_else(|| self.file.whole(None), |device| self.file.shard(device))
    }
}

#[pymethods]
impl TensorBin {
    /// The file at `path`.
    #[staticmethod]
    fn open(py: Python<'_>, path: PathBuf) -> PyResult<TensorBin> {
        let file = py.detach(|| File::read(&Source::open(&path)?)).map_err(exception)?;
        Ok(TensorBin { file, path: Some(path) })
    }

    /// A file for a tensor, with the shards of some devices only where `devices` says which.
    #[staticmethod]
    #[pyo3(signature = (shape, dtype, layout, mesh, devices))]
    fn describe(
        py: Python<'_>,
        shape: Vec<u64>,
        dtype: &str,
        layout: &str,
        mesh: Option<&str>,
        devices: Option<(u64, u64)>,
    ) -> PyResult<TensorBin> {
        let Descriptor::Ttnn(ttnn) = read(py, layout, 2)? else {
            return Err(value("layout of a .tensorbin file", layout, "ttnn(..)"));
        };
        let dtype = DType::from_name(dtype).ok_or_else(|| value("dtype", dtype, "an element type"))?;
        let mesh: Option<Mapper> = mesh.map(str::parse).transpose().map_err(exception)?;
        let mut file = File::new(&Tensor { shape, dtype }, &ttnn, mesh.as_ref()).map_err(exception)?;
        if let Some((begin, end)) = devices {
            file.keep(begin..end).map_err(exception)?;
        }
        Ok(TensorBin { file, path: None })
    }

    /// The texts of a plan whose bytes are those of [`TensorBin::read`] and [`TensorBin::write`].
    #[pyo3(signature = (device))]
    fn stored(&self, device: Option<Vec<u64>>) -> PyResult<Stored> {
        let Tensor { shape, dtype } = self.payload(device.as_deref()).map_err(exception)?.tensor;
        let mapper = self.file.topology.cuts().filter(|_| device.is_none());
        let layout = self.file.spec.stored().map_err(exception)?;
        Ok((shape, dtype.name(), layout.to_string(), mapper.map(|mapper| mapper.to_string())))
    }

    /// Bytes of the whole tensor or of one device's.
    #[pyo3(signature = (device))]
    fn size(&self, device: Option<Vec<u64>>) -> PyResult<u64> {
        Ok(self.payload(device.as_deref()).map_err(exception)?.layout.total_bytes())
    }

    /// Reads these bytes into `out`.
    #[pyo3(signature = (device, out))]
    fn read(&self, device: Option<Vec<u64>>, out: &Bound<'_, PyAny>) -> PyResult<()> {
        let path =
            self.path.as_ref().ok_or_else(|| value("file", "one to be written", "one that was opened"))?;
        let source = Source::open(path).map_err(exception)?;
        let payload = self.payload(device.as_deref()).map_err(exception)?;
        if device.is_none() {
            self.file.check_replicas(&source).map_err(exception)?;
        }
        let mut out = Memory::of(out)?;
        let mut room = out.destination(&[])?;
        if room.len() as u64 != payload.layout.total_bytes() {
            let needed = format!("{} bytes", payload.layout.total_bytes());
            return Err(value("out", format!("{} bytes", room.len()), needed));
        }
        for part in payload.complete().map_err(exception)? {
            let bytes = source.bytes(part).map_err(exception)?;
            let (now, rest) = room.split_at_mut(bytes.len());
            for (out, &byte) in now.iter_mut().zip(&*bytes) {
                out.write(byte);
            }
            room = rest;
        }
        Ok(())
    }

    /// Writes the file, with the shards that it gets of `x`, which holds the whole tensor.
    fn write(&self, path: PathBuf, x: &Bound<'_, PyAny>) -> PyResult<()> {
        let x = Memory::of(x)?;
        let whole = self.file.whole(None).map_err(exception)?;
        let (bytes, needed) = (x.source(), whole.layout.total_bytes());
        if bytes.len() as u64 != needed || !x.is_dense() {
            return Err(value("payload", format!("{} bytes", bytes.len()), format!("{needed} dense bytes")));
        }
        let mut writer = Writer::create(&path, &self.file).map_err(exception)?;
        let copies = bytes.chunks_exact((whole.layout.buffer_bytes() as usize).max(1));
        for (copy, _) in copies.zip(&whole.parts).filter(|(_, part)| part.is_some()) {
            writer.write(copy).map_err(exception)?;
        }
        writer.commit().map_err(exception)
    }

    /// The devices that have a shard in the file.
    #[getter]
    fn devices(&self) -> Vec<Vec<u64>> {
        self.file.shards.iter().map(|shard| shard.coordinate.clone()).collect()
    }

    /// What the header says, by name.
    #[getter]
    fn info<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (file, info) = (&self.file, PyDict::new(py));
        info.set_item("to", file.spec.stored().map_err(exception)?.to_string())?;
        info.set_item("dtype", file.spec.dtype().name())?;
        info.set_item("device_shape", &file.spec.shape)?;
        info.set_item("memory", file.spec.memory.to_string())?;
        info.set_item("alignment", &file.spec.alignment)?;
        info.set_item("mesh_shape", &file.mesh_shape)?;
        info.set_item("payload_offset", file.payload)?;
        info.set_item("stored_copies", file.stored().len())?;
        Ok(info)
    }
}
