//! What is told on stderr while work goes on: a moving line on a terminal, one plain line a stage elsewhere.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use indicatif::{HumanBytes, ProgressBar, ProgressStyle};

/// Work on fewer bytes is over before anybody could read about it.
const LONG_WORK: u64 = 256 << 20;

/// One stage of the work, shown until it is dropped.
pub(crate) struct Stage(ProgressBar);

impl Stage {
    /// Begins a stage over `bytes` bytes.
    pub(crate) fn begin(what: &'static str, bytes: u64) -> Stage {
        let bar = ProgressBar::hidden();
        if bytes >= LONG_WORK && std::io::stderr().is_terminal() {
            let bar = ProgressBar::new(bytes);
            let template =
                "{spinner} {prefix} {bytes}/{total_bytes} {binary_bytes_per_sec} {elapsed}, {eta} left";
            bar.set_style(ProgressStyle::with_template(template).unwrap_or(ProgressStyle::default_bar()));
            bar.set_prefix(what);
            bar.enable_steady_tick(Duration::from_millis(100));
            return Stage(bar);
        }
        if bytes >= LONG_WORK {
            let _ = writeln!(std::io::stderr(), "{what} {}", HumanBytes(bytes));
        }
        Stage(bar)
    }

    /// `bytes` more are done.
    pub(crate) fn advance(&self, bytes: u64) {
        self.0.inc(bytes);
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
