//! The compiled half of the Python package `tilewright`; `python/lib/tilewright` is the other, which users import.
//!
//! Here are plans, layouts and the memory of Python objects; names, defaults and numpy results are Python's.
#![deny(unsafe_code)]

mod batch;
mod checkpoint;
mod element;
mod error;
mod layout;
mod memory;
mod picture;
mod plan;
mod stage;
mod tensorbin;
mod threads;

use std::ffi::OsString;

use pyo3::prelude::*;

/// The command line; the arguments begin with the program's name, and the exit status comes back.
#[pyfunction]
fn main(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    py.detach(|| tilewright_cli::main(arguments))
}

/// Shape and element type of an array; no type where it only says how many bytes its elements have.
#[pyfunction]
fn describe(x: &Bound<'_, PyAny>) -> PyResult<(Vec<u64>, Option<&'static str>)> {
    let memory = memory::Memory::of(x)?;
    let dtype = memory.element().dtype().map(|dtype| dtype.name());
    Ok((memory.shape().to_vec(), dtype))
}

#[pymodule]
fn _tilewright(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    let error = module.py().get_type::<error::Error>();
    // That of a wrong value, as which the Python half raises it too.
    error.setattr("code", 2)?;
    module.add("Error", error)?;
    module.add_class::<layout::Layout>()?;
    module.add_class::<plan::Plan>()?;
    module.add_class::<tensorbin::TensorBin>()?;
    module.add_class::<checkpoint::Rules>()?;
    module.add_class::<checkpoint::Stream>()?;
    module.add_function(wrap_pyfunction!(batch::execute_batch, module)?)?;
    module.add_function(wrap_pyfunction!(checkpoint::pack, module)?)?;
    module.add_function(wrap_pyfunction!(main, module)?)?;
    module.add_function(wrap_pyfunction!(stage::stage, module)?)?;
    module.add_function(wrap_pyfunction!(describe, module)?)
}
