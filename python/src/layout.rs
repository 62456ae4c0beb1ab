//! Layout texts as Python objects.

use std::hash::{DefaultHasher, Hash, Hasher};

use pyo3::exceptions::PyUserWarning;
use pyo3::ffi::c_str;
use pyo3::intern;
use pyo3::prelude::*;
use tilewright::Descriptor;
use tilewright::family::Placement;
use tilewright::text::{Parsed, parse};
use tilewright_draw::Hardware;

use crate::error::exception;
use crate::picture::{Page, picture};

/// A layout text, read and checked; it prints as a text that reads the same.
#[pyclass(frozen, eq, module = "tilewright")]
#[derive(PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) descriptor: Descriptor,
}

#[pymethods]
impl Layout {
    #[new]
    fn new(py: Python<'_>, text: &str) -> PyResult<Layout> {
        read(py, text, 1).map(|descriptor| Layout { descriptor })
    }

    fn __str__(&self) -> String {
        self.descriptor.to_string()
    }

    fn __repr__(&self) -> String {
        format!("Layout({:?})", self.descriptor.to_string())
    }

    /// What a notebook shows: the picture, where the text says of which tensor and it is not too large; else the text.
    fn _repr_html_(&self, py: Python<'_>) -> PyResult<String> {
        let shown = py.import(intern!(py, "tilewright._html"))?;
        let most = shown.getattr(intern!(py, "MOST"))?.extract()?;
        // A text may be read of which there is no layout; what is wrong with it, those say who use it.
        let image = py.detach(|| self.image(most)).unwrap_or(None);
        shown.call_method1(intern!(py, "shown"), (self.__str__(), image))?.extract()
    }

    fn __hash__(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.descriptor.hash(&mut hasher);
        hasher.finish()
    }

    fn __reduce__(slf: &Bound<'_, Layout>) -> (Py<PyAny>, (String,)) {
        (slf.get_type().into_any().unbind(), (slf.get().__str__(),))
    }
}

impl Layout {
    /// The layout as an image of at most so many bytes.
    fn image(&self, most: usize) -> tilewright::Result<Option<String>> {
        let Some(tensor) = self.descriptor.tensor() else { return Ok(None) };
        let place = Placement::default();
        let layout = self.descriptor.layout(&tensor, &place)?;
        let hardware = Hardware::new(&layout, &self.descriptor, &place, &tensor)?;
        picture(&hardware, Page::Svg, Some(most))
    }
}

/// Reads a text; what of it was not understood becomes Python warnings, shown where the caller of so many frames is.
pub(crate) fn read(py: Python<'_>, text: &str, frames: i32) -> PyResult<Descriptor> {
    let Parsed { descriptor, warnings } = parse(text).map_err(exception)?;
    warnings.iter().try_for_each(|warning| warn(py, warning, frames))?;
    Ok(descriptor)
}

/// A Python warning, shown where the caller of so many frames is.
pub(crate) fn warn(py: Python<'_>, warning: &str, frames: i32) -> PyResult<()> {
    let category = py.get_type::<PyUserWarning>();
    let warning = std::ffi::CString::new(warning).unwrap_or_else(|_| c_str!("a key was ignored").into());
    PyErr::warn(py, &category, &warning, frames)
}
