//! What goes to stdout, and what to stderr.

use std::io::Write;

use tilewright::Error;

use super::failure::Result;

/// Tells on stderr what was not understood; it is no reason to stop when nobody listens.
pub(crate) fn warn(warnings: &[String]) {
    for warning in warnings {
        let _ = writeln!(std::io::stderr(), "warning: {warning}");
    }
}

/// Says something on stderr beside the result; it is no reason to stop when nobody listens.
pub(crate) fn note(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// Writes a result to stdout. A reader that has gone away is an I/O failure, not a panic.
pub(crate) fn print(text: &str) -> Result<()> {
    let mut stdout = std::io::stdout().lock();
    stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
        .map_err(|e| Error::io("stdout", "cannot write it", e).into())
}
