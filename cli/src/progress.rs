//! What is told on stderr while work goes on: a moving line on a terminal, one plain line a stage elsewhere.

use std::io::{IsTerminal, Write};
use std::sync::Once;
use std::time::{Duration, Instant};

use indicatif::{HumanBytes, ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Work that takes less is over before anybody could read about it.
const LONG_WORK: Duration = Duration::from_secs(1);

/// One stage of the work, shown until it is dropped.
pub(crate) struct Stage {
    bar: ProgressBar,
    what: &'static str,
    bytes: u64,
    begun: Instant,
    shown: Once,
}

impl Stage {
    /// Begins a stage over `bytes` bytes.
    pub(crate) fn begin(what: &'static str, bytes: u64) -> Stage {
        let bar = ProgressBar::with_draw_target(Some(bytes), ProgressDrawTarget::hidden());
        let template = "{spinner} {prefix} {bytes}/{total_bytes} {decimal_bytes_per_sec} {elapsed}, {eta} left {wide_bar}";
        bar.set_style(ProgressStyle::with_template(template).unwrap_or(ProgressStyle::default_bar()));
        bar.set_prefix(what);
        Stage { bar, what, bytes, begun: Instant::now(), shown: Once::new() }
    }

    /// `bytes` more are done.
    pub(crate) fn advance(&self, bytes: u64) {
        self.bar.inc(bytes);
        if self.begun.elapsed() >= LONG_WORK && self.bar.position() < self.bytes {
            self.shown.call_once(|| self.show());
        }
    }

    fn show(&self) {
        if std::io::stderr().is_terminal() {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
            self.bar.enable_steady_tick(Duration::from_millis(100));
        } else {
            let _ = writeln!(std::io::stderr(), "{} {}", self.what, HumanBytes(self.bytes));
        }
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
