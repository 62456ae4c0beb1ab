//! The cells of a layout's axes and its pages, for those who show them.

use super::Layout;
use super::index::ravel;
use crate::error::{Error, Result};

/// One axis of a layout: logical dimensions that are mapped together.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Cells {
    /// The logical dimensions, ascending.
    pub dims: Vec<usize>,
    /// How many cells the axis has; those that no index falls on are padding.
    pub count: u64,
}

/// The pages that a layout deals to its buffers one by one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Pages {
    /// Bytes of one page.
    pub bytes: u64,
    /// Bytes from one page to the next of a buffer; what is between them is zero.
    pub pitch: u64,
}

impl Layout {
    /// The axes of the layout; every logical dimension is in one of them. None where the tensor is empty.
    pub fn cells(&self) -> Vec<Cells> {
        self.axes.iter().map(|axis| Cells { dims: axis.dims.clone(), count: axis.extent() }).collect()
    }

    /// The cell of each axis that a logical index falls on, in the order of [`Layout::cells`].
    ///
    /// # Errors
    /// Where the index has another rank than the layout, or lies outside of its shape.
    pub fn cells_of(&self, index: &[u64]) -> Result<Vec<u64>> {
        if index.len() != self.shape.len() || index.iter().zip(&self.shape).any(|(i, n)| i >= n) {
            let needed = format!("an index inside of shape {:?}", self.shape);
            return Err(Error::value("index", format!("{index:?}"), needed));
        }
        let cell = |axis: &super::Axis| {
            (axis.first + axis.places.eval(ravel(index, &axis.dims, &self.shape))[0]) as u64
        };
        Ok(self.axes.iter().map(cell).collect())
    }

    /// The pages of the layout, where buffers hold more than one or bytes lie between them.
    pub fn pages(&self) -> Option<Pages> {
        let pages = Pages { bytes: self.space.unit_bytes, pitch: self.space.pitch_bytes };
        (pages.pitch < self.buffer_bytes() || pages.bytes < pages.pitch).then_some(pages)
    }
}
