//! How long a soak lasts, and what memory it has.

use std::time::Duration;

/// Memory of the process may grow by so much between a third of the time and its end: what allocators keep.
const GROWTH: u64 = 48 << 20;

/// Bytes that may be held when all is given back, beside those held before: 20 KB were seen, after thousands of conversions and
/// after half a million.
const LEFT: usize = 64 << 10;

/// How long: `TILEWRIGHT_SOAK` seconds, or two.
pub(crate) fn soak_time() -> Duration {
    let seconds = std::env::var("TILEWRIGHT_SOAK").ok().and_then(|s| s.parse().ok()).unwrap_or(2);
    Duration::from_secs(seconds)
}

/// Bytes of memory that this process has; none where the system does not say.
pub(crate) fn resident() -> Option<u64> {
    let pages = std::fs::read_to_string("/proc/self/statm").ok()?;
    Some(pages.split(' ').nth(1)?.parse::<u64>().ok()? * 4096)
}

/// Fails where memory has grown.
pub(crate) fn assert_no_growth(early: Option<u64>, late: Option<u64>) {
    if let (Some(early), Some(late)) = (early, late) {
        assert!(late < early + GROWTH, "{early} bytes, then {late}");
    }
}

/// Fails where something was not given back, of the bytes that were held before and after.
pub(crate) fn assert_given_back(before: usize, after: usize) {
    assert!(after <= before + LEFT, "{before} bytes were held before, and {after} after");
}
