//! One tensor of a checkpoint: its name and shape, how it is encoded, and where its bytes lie.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use tilewright::{DType, Result};

use super::file::ModelFile;
use crate::hash::TreeHash;
use crate::quantised::BlockType;

/// The longest index or header that is read, in bytes; the limit that the safetensors format itself sets.
pub(super) const MAX_HEADER: u64 = 100_000_000;

/// What is read of a tensor in shorter runs than this, as rows' parts of panels are, is read once more for its hash.
const SHRED: usize = 4096;

/// A run of bytes of one file.
#[derive(Debug, Clone)]
pub struct Extent {
    /// The file.
    pub file: Arc<ModelFile>,
    /// The first byte.
    pub start: u64,
    /// How many bytes.
    pub bytes: u64,
    /// What has been seen of it, by all that read it.
    hash: Arc<TreeHash>,
}

impl Extent {
    /// A run of bytes of a file.
    pub(super) fn new(file: Arc<ModelFile>, start: u64, bytes: u64) -> Extent {
        Extent { file, start, bytes, hash: Arc::new(TreeHash::new(bytes).without_shreds(SHRED)) }
    }

    /// Fills `out` with the bytes from `at` on, counted from the first.
    ///
    /// # Errors
    /// [`Error::Io`](tilewright::Error::Io) where the file ends before, or the system cannot read it.
    pub fn read_at(&self, at: u64, out: &mut [u8]) -> Result<()> {
        self.file.read_at(self.start.saturating_add(at), out)?;
        self.hash.see(at, out);
        Ok(())
    }

    /// Says that the hash will be asked for: what is read from now on is hashed on the way.
    pub(crate) fn want_blake3(&self) {
        self.hash.want();
    }

    /// The blake3 of all bytes; those that were not read since it was wanted are read.
    ///
    /// # Errors
    /// As [`Extent::read_at`].
    pub(crate) fn blake3(&self) -> Result<String> {
        self.hash.finish(|at, out| self.file.read_at(self.start.saturating_add(at), out))
    }

    /// Says that some of the bytes, counted from the first, will be read soon.
    pub fn will_read(&self, range: Range<u64>) {
        self.file.will_read(self.start.saturating_add(range.start)..self.start.saturating_add(range.end));
    }
}

/// How the elements of a tensor are stored.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Encoding {
    /// One after another, row-major.
    Plain(DType),
    /// Blocks of a GGUF file along the last dimension.
    Blocks(BlockType),
    /// gpt-oss: codes of 4 bits, two a byte, and one scale for 32 of them in a tensor of its own.
    Mxfp4 {
        /// The scales, one byte for 32 elements.
        scales: Extent,
    },
    /// DeepSeek: E4M3 elements of matrices, and a scale for each block of rows and columns in a tensor of its own.
    Fp8Blocks {
        /// The scales, row-major.
        scales: Extent,
        /// Rows and columns of scales of one matrix.
        grid: [u64; 2],
        /// Rows and columns of elements that share a scale; the last ones of a matrix may be fewer.
        block: [u64; 2],
        /// Whether scales are bytes that hold an exponent (E8M0) instead of f32.
        exponents: bool,
    },
    /// Something that can be listed and not be read, by its name in the file.
    Other(String),
}

/// One tensor of a model.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// Its shape, outermost dimension first.
    pub shape: Vec<u64>,
    /// How it is stored.
    pub encoding: Encoding,
    /// Where its elements, or their codes, lie.
    pub data: Extent,
}

impl Entry {
    /// How many elements it has.
    pub fn elements(&self) -> u64 {
        self.shape.iter().product()
    }

    /// The scales, where they are a tensor of their own.
    pub fn scales(&self) -> Option<&Extent> {
        match &self.encoding {
            Encoding::Mxfp4 { scales } | Encoding::Fp8Blocks { scales, .. } => Some(scales),
            _ => None,
        }
    }

    /// Where its elements lie, or its codes and scales.
    pub fn extents(&self) -> impl Iterator<Item = &Extent> {
        std::iter::once(&self.data).chain(self.scales())
    }

    /// The files that hold its elements, or codes and scales.
    pub fn files(&self) -> impl Iterator<Item = &Arc<ModelFile>> {
        self.extents().map(|extent| &extent.file)
    }

    /// All bytes in files that it is made from: its codes, and scales where they are a tensor of their own.
    pub fn source_bytes(&self) -> u64 {
        self.extents().map(|extent| extent.bytes).sum()
    }
}

impl fmt::Display for Encoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Encoding::Plain(dtype) => dtype.fmt(f),
            Encoding::Blocks(block) => f.write_str(block.name()),
            Encoding::Mxfp4 { .. } => f.write_str("mxfp4"),
            Encoding::Fp8Blocks { .. } => f.write_str("f8e4m3 with block scales"),
            Encoding::Other(name) => f.write_str(name),
        }
    }
}
