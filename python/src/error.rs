//! Failures as Python exceptions.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

pyo3::create_exception!(
    tilewright,
    Error,
    PyValueError,
    "Bad input: what was given and what was needed. `code` is the number of the kind of error."
);

/// The exception of an error, with a caret under the place in a text.
pub(crate) fn exception(error: tilewright::Error) -> PyErr {
    Python::attach(|py| {
        let exception = Error::new_err(error.diagnostic());
        match exception.value(py).setattr("code", error.code()) {
            Ok(()) => exception,
            Err(failure) => failure,
        }
    })
}

/// The exception of a value that is not allowed where it stands.
pub(crate) fn value(what: &str, given: impl ToString, needed: impl ToString) -> PyErr {
    exception(tilewright::Error::value(what, given, needed))
}
