//! Where the result of a conversion goes, by the name that it is given.

use std::io::{IsTerminal, Write};
use std::path::Path;

use tilewright::family::Tensor;
use tilewright::{Error, Result as LibraryResult};
use tilewright_files::tensorbin::Writer;
use tilewright_files::{Output, npy};

use super::engine::Job;
use super::failure::{Failure, Result};

/// What a name asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// All buffers, one after another.
    Raw,
    Npy,
    TensorBin,
    /// As raw, to stdout.
    Stdout,
}

impl Kind {
    /// The kind of file that a name asks for; `-` is stdout.
    pub(crate) fn of(out: &Path) -> Result<Kind> {
        if out.as_os_str() == "-" {
            return Ok(Kind::Stdout);
        }
        match out.extension().map(|e| e.to_str()) {
            None | Some(Some("bin")) => Ok(Kind::Raw),
            Some(Some("npy")) => Ok(Kind::Npy),
            Some(Some("tensorbin")) => Ok(Kind::TensorBin),
            Some(_) => {
                let needed = "a name that ends in .bin (all buffers, one after another), .npy (one dense host array) or \
                              .tensorbin (a tensor of TTNN), or in no suffix, as .bin; - is stdout";
                Err(Failure::usage("--out", out.display(), needed))
            }
        }
    }
}

/// Where the bytes of a result go, in their order.
#[derive(Debug)]
pub(crate) enum Destination {
    Nowhere,
    File(Output),
    /// And which buffers the file gets.
    TensorBin(Writer, Vec<bool>),
    Stdout,
}

impl Destination {
    /// Begins what `out` names for the result of a job.
    pub(crate) fn begin(out: Option<(&Path, Kind)>, job: &Job, tensor: &Tensor) -> Result<Destination> {
        let Some((out, kind)) = out else { return Ok(Destination::Nowhere) };
        if let Some(file) = &job.texts.file {
            let kept = file.whole(None)?.parts.iter().map(Option::is_some).collect();
            return Ok(Destination::TensorBin(Writer::create(out, file)?, kept));
        }
        if kind == Kind::Stdout {
            if std::io::stdout().is_terminal() {
                return Err(Failure::usage("--out", "a terminal", "a pipe or a file behind -"));
            }
            return Ok(Destination::Stdout);
        }
        let mut header = Vec::new();
        if kind == Kind::Npy {
            let (dtype, order) = job.host_array().ok_or_else(|| {
                let buffers = job.buffers();
                let needed = format!("a .bin name, as the result is {buffers} and not one dense host array");
                Failure::usage("--out", out.display(), needed)
            })?;
            header = npy::header(&Tensor { shape: tensor.shape.clone(), dtype }, order);
        }
        let mut output = Output::create(out, header.len() as u64 + job.layout.total_bytes())?;
        output.write(&header)?;
        Ok(Destination::File(output))
    }

    /// Appends bytes of a buffer.
    pub(crate) fn write(&mut self, buffer: usize, bytes: &[u8]) -> LibraryResult<()> {
        match self {
            Destination::Nowhere => Ok(()),
            Destination::File(output) => output.write(bytes),
            Destination::TensorBin(writer, kept) => match kept.get(buffer) {
                Some(true) => writer.write(bytes),
                _ => Ok(()),
            },
            Destination::Stdout => std::io::stdout().lock().write_all(bytes).map_err(failed),
        }
    }

    /// Gives a file its name.
    pub(crate) fn commit(self) -> LibraryResult<()> {
        match self {
            Destination::Nowhere => Ok(()),
            Destination::File(output) => output.commit(),
            Destination::TensorBin(writer, _) => writer.commit(),
            Destination::Stdout => std::io::stdout().lock().flush().map_err(failed),
        }
    }
}

fn failed(error: std::io::Error) -> Error {
    Error::io("stdout", "cannot write it", error)
}
