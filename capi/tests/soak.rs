//! A soak of the C interface: random sequences of calls on eight threads, right and wrong ones, with executors that fail and
//! stagings that are given up. Every status is one that the header names, no byte differs, and all memory is given back.
//!
//! Two seconds at every push; an hour:
//!
//! ```sh
//! TILEWRIGHT_SOAK=3600 cargo test --release -p tilewright-capi --test soak -- --nocapture
//! ```

#[path = "../../fuzz/bodies/capi.rs"]
mod body;
#[path = "../../tests/counting/mod.rs"]
#[allow(dead_code)]
mod counting;
#[path = "../../tests/common/resident.rs"]
mod resident;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use counting::held_by_all;
use resident::{assert_given_back, assert_no_growth, resident, soak_time};

/// Bytes that one sequence of calls is drawn from.
const INPUT: usize = 700;

/// splitmix64, as bytes.
fn input(seed: &mut u64) -> Vec<u8> {
    let mut next = || {
        *seed = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (*seed ^ *seed >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        (mixed ^ mixed >> 27) >> 24
    };
    (0..INPUT).map(|_| next() as u8).collect()
}

#[test]
fn no_wrong_status_no_difference_and_no_growth() {
    let (time, sequences) = (soak_time(), AtomicU64::new(0));
    // What the library and the system make once for a process is there before.
    body::run(&input(&mut 1));
    let before = held_by_all();
    let end = Instant::now() + time;
    let work = |mut seed: u64| {
        while Instant::now() < end {
            body::run(&input(&mut seed));
            sequences.fetch_add(1, Ordering::Relaxed);
        }
    };
    let mut early = None;
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|k| scope.spawn(move || work(k << 32))).collect();
        std::thread::sleep(time / 3);
        early = resident();
        // A scope does not wait for what a thread frees at its very end; joining does.
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
    let (late, after) = (resident(), held_by_all());
    println!(
        "{time:?}: {sequences:?} sequences of calls; {early:?} bytes, then {late:?}; of them held {before} before and \
         {after} after"
    );
    assert!(sequences.into_inner() > 0);
    assert_no_growth(early, late);
    assert_given_back(before, after);
}
