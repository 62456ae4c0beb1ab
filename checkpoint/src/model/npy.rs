//! One `.npy` file of a folder: a tensor by the name of the file.

use std::sync::Arc;

use tilewright::Result;
use tilewright_files::{Order, npy};

use super::entry::{Encoding, Entry, Extent};
use super::file::{ModelFile, damaged};

/// The longest header that is looked at, in bytes.
const HEAD: u64 = 64 << 10;

/// The tensor of a file.
pub(super) fn entry(file: &Arc<ModelFile>) -> Result<Entry> {
    let path = file.path();
    let mut head = vec![0; file.len().min(HEAD) as usize];
    file.read_at(0, &mut head)?;
    let described = npy::describe(&path.display().to_string(), &head, None)?;
    if described.order != Order::RowMajor && described.tensor.shape.len() > 1 {
        return Err(damaged(path, "its elements are in Fortran order; models are read in C order"));
    }
    if described.big_endian {
        return Err(damaged(path, "its elements are big-endian; models are read as little-endian"));
    }
    let bytes = tilewright_files::byte_len(&described.tensor.shape, described.tensor.dtype)?;
    if file.len().checked_sub(described.data) != Some(bytes) {
        let there = file.len().saturating_sub(described.data);
        return Err(damaged(path, format!("{there} bytes follow its header, {bytes} are needed")));
    }
    let name = path.file_stem().map_or_else(String::new, |n| n.to_string_lossy().into_owned());
    let data = Extent::new(Arc::clone(file), described.data, bytes);
    Ok(Entry { name, shape: described.tensor.shape, encoding: Encoding::Plain(described.tensor.dtype), data })
}
