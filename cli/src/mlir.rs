//! Files with the IR of a compiler.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use tilewright::Error;
use tilewright::text::mlir;

use super::failure::{Failure, Result};

/// Bytes read at once.
const CHUNK: usize = 1 << 20;

/// What is in an MLIR file; errors name the file.
pub(crate) fn read(path: &Path) -> Result<mlir::Module> {
    let file = File::open(path).map_err(|e| Error::io(path.display(), "cannot open it", e))?;
    mlir::read(BufReader::with_capacity(CHUNK, file)).map_err(|error| match error {
        Error::Io { what, kind, source, .. } => {
            Error::Io { path: path.display().to_string(), what, kind, source }.into()
        }
        error => Failure::usage("file", path.display(), error),
    })
}
