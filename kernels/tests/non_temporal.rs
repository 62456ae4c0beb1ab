//! Non-temporal stores: that they copy, and that another thread which is handed the destination sees them.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::yield_now;

use tilewright_kernels::{Destination, Hints, Isa, Kernels, OuterLoop, Segment, Window};

fn tables() -> impl Iterator<Item = &'static Kernels> {
    Isa::available().filter_map(Kernels::for_isa)
}

/// `len` bytes of a sequence without short periods.
fn bytes(len: usize) -> Vec<u8> {
    (0..len as u32).map(|i| (i.wrapping_mul(0x9E37_79B1) >> 24) as u8).collect()
}

/// What `write` leaves in a destination of `len` bytes, each 0xEE before.
fn written(kernels: &Kernels, len: usize, write: impl FnOnce(&mut Destination<'_>)) -> Vec<u8> {
    let mut dst = vec![MaybeUninit::new(0xEE); len];
    kernels.non_temporal(&mut dst, write);
    // SAFETY: all bytes were initialised before.
    dst.into_iter().map(|byte| unsafe { byte.assume_init() }).collect()
}

#[test]
fn every_length_and_alignment_is_a_copy() {
    let src = bytes(400);
    let lengths = (0..=200).chain([256, 320]).step_by(if cfg!(miri) { 29 } else { 1 });
    for kernels in tables() {
        for len in lengths.clone() {
            for at in (0..=66).step_by(if cfg!(miri) { 13 } else { 1 }) {
                for from in [0, 1, 32] {
                    let dst = written(kernels, 500, |dst| kernels.stream(&src[from..from + len], dst, at));
                    assert_eq!(dst[at..at + len], src[from..from + len]);
                    assert!(dst[..at].iter().chain(&dst[at + len..]).all(|&byte| byte == 0xEE));
                }
            }
        }
    }
}

#[test]
fn segments_go_to_their_places() {
    let src = bytes(300);
    let segments = [Segment { from: 100, to: 130, len: 70 }, Segment { from: 0, to: -64, len: 64 }];
    for kernels in tables() {
        let dst = written(kernels, 400, |dst| kernels.stream_segments(&src, &segments, dst, 64));
        assert_eq!(dst[..64], src[..64]);
        assert_eq!(dst[194..264], src[100..170]);
        assert!(dst[64..194].iter().chain(&dst[264..]).all(|&byte| byte == 0xEE));
    }
}

#[test]
#[should_panic(expected = "65 bytes from byte 64 leave a destination of 128 bytes")]
fn a_short_destination_is_refused() {
    let kernels = Kernels::for_isa(Isa::best()).unwrap();
    kernels.stream(&[0; 65], &mut Destination::cached(&mut [MaybeUninit::new(0); 128]), 64);
}

/// Bytes that are handed over.
const LEN: usize = 16 << 10;

/// A buffer that two threads hand to each other with a single flag.
///
/// The flag is written by an ordinary store, as a lock would order non-temporal stores by itself.
struct Shared {
    buffer: UnsafeCell<Vec<MaybeUninit<u8>>>,
    /// Even when it is the writer's turn, odd when it is the reader's.
    turn: AtomicUsize,
}

// SAFETY: only the thread whose turn it is touches the buffer, and turns are handed over by release and acquire.
unsafe impl Sync for Shared {}

impl Shared {
    /// Waits for a turn, runs `work` on whole cache lines of the buffer and ends the turn.
    fn take_turn(&self, turn: usize, work: impl FnOnce(&mut [MaybeUninit<u8>])) {
        while self.turn.load(Ordering::Acquire) != turn {
            yield_now();
        }
        // SAFETY: the other thread waits until this turn has ended.
        let buffer = unsafe { &mut *self.buffer.get() };
        let at = buffer.as_ptr().align_offset(64);
        work(&mut buffer[at..][..LEN]);
        self.turn.store(turn + 1, Ordering::Release);
    }
}

/// Each round writes a byte of its own to whole cache lines, by the call that `write` makes; the other thread looks at once.
fn hand_over(rounds: usize, write: impl Fn(&Kernels, &[u8], &mut [MaybeUninit<u8>]) + Sync) {
    for kernels in tables() {
        let shared = Shared {
            buffer: UnsafeCell::new(vec![MaybeUninit::new(0); LEN + 64]),
            turn: AtomicUsize::new(0),
        };
        let stale = std::thread::scope(|scope| {
            scope.spawn(|| {
                for round in 0..rounds {
                    let src = [round as u8 + 1; LEN];
                    shared.take_turn(2 * round, |dst| write(kernels, &src, dst));
                }
            });
            let mut stale = 0;
            for round in 0..rounds {
                shared.take_turn(2 * round + 1, |dst| {
                    // The end was written last, so it is the first to be stale.
                    // SAFETY: all bytes were initialised before.
                    stale +=
                        dst.iter().rev().filter(|b| unsafe { b.assume_init() } != round as u8 + 1).count();
                });
            }
            stale
        });
        assert_eq!(stale, 0, "stale bytes at level {}", kernels.isa().name());
    }
}

const ROUNDS: usize = if cfg!(miri) { 2 } else { 200 };

#[test]
fn streamed_bytes_are_seen_by_the_thread_that_is_handed_them() {
    hand_over(ROUNDS, |kernels, src, dst| kernels.non_temporal(dst, |dst| kernels.stream(src, dst, 0)));
}

#[test]
fn copied_windows_are_seen_by_the_thread_that_is_handed_them() {
    hand_over(ROUNDS, |kernels, src, dst| {
        let rows = src.len() / 256;
        let w = Window { rows, cols: 1, src_row: 128, src_col: 0, dst_row: 128, dst_col: 0 };
        let halves = [OuterLoop { n: 2, src: (rows * 128) as isize, dst: (rows * 128) as isize }];
        kernels
            .non_temporal(dst, |dst| kernels.copy_loops(128, src, 0, dst, 0, &w, &halves, Hints::default()));
    });
}

#[test]
fn streamed_bytes_are_seen_also_after_a_panic() {
    hand_over(ROUNDS / 2, |kernels, src, dst| {
        let caught = catch_unwind(AssertUnwindSafe(|| {
            kernels.non_temporal(dst, |dst| {
                kernels.stream(src, dst, 0);
                std::panic::resume_unwind(Box::new(()));
            })
        }));
        assert!(caught.is_err());
    });
}
