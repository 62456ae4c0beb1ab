//! What all benches measure with.

use std::time::Duration;

use criterion::Criterion;

/// Short runs, so that all benches together take minutes; `--measurement-time` and `--sample-size` lengthen them.
pub(crate) fn short() -> Criterion {
    Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(600))
        .without_plots()
}
