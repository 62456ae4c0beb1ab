//! Destinations that are made element by element.

use crate::error::{Error, Result};

/// The most bytes of a destination that is made element by element: that takes minutes.
const MAX_BYTES: usize = 1 << 31;

/// So many zeros.
///
/// # Errors
/// Where they are more than 2 GiB, or the machine has no such memory.
pub(super) fn zeroed(len: usize) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if len > MAX_BYTES || bytes.try_reserve_exact(len).is_err() {
        let needed = format!("at most {MAX_BYTES} bytes, and as much free memory, to go element by element");
        return Err(Error::value("destination", format!("{len} bytes"), needed));
    }
    bytes.resize(len, 0);
    Ok(bytes)
}
