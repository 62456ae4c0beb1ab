//! Time, as staging sees it: the system's, or one that only moves when somebody sleeps.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Where time comes from.
pub trait Clock: Sync {
    /// Time since some moment that stays the same.
    fn now(&self) -> Duration;

    /// Returns when so much time has passed.
    fn sleep(&self, time: Duration);
}

/// The monotonic clock of the system.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Duration {
        static START: OnceLock<Instant> = OnceLock::new();
        START.get_or_init(Instant::now).elapsed()
    }

    fn sleep(&self, time: Duration) {
        std::thread::sleep(time);
    }
}

/// A clock that stands still but for those who sleep, so that tests of timing are exact and take no time.
///
/// ```
/// use std::time::Duration;
/// use tilewright::stage::{Clock, VirtualClock};
///
/// let clock = VirtualClock::default();
/// clock.sleep(Duration::from_secs(3600));
/// assert_eq!(clock.now(), Duration::from_secs(3600));
/// ```
#[derive(Debug, Default)]
pub struct VirtualClock {
    nanoseconds: AtomicU64,
}

impl Clock for VirtualClock {
    fn now(&self) -> Duration {
        Duration::from_nanos(self.nanoseconds.load(Ordering::Relaxed))
    }

    fn sleep(&self, time: Duration) {
        self.nanoseconds.fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
    }
}
