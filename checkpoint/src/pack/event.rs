//! What is told while files are made.

use std::sync::Arc;

use crate::manifest::Record;

/// What happens while files are made.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Event<'a> {
    /// Packing begins: so many files of so many bytes are to be made, and so many are there already.
    Begin {
        /// Files to be made.
        files: u64,
        /// Bytes of them.
        bytes: u64,
        /// Files that are there and are what would be made.
        kept: u64,
    },
    /// So many bytes more have been written.
    Wrote(u64),
    /// A file is complete.
    Made(&'a Record),
}

/// Who is told.
pub type Listener = Arc<dyn Fn(Event<'_>) + Send + Sync>;
