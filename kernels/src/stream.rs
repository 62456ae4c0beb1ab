//! Copies that bypass the cache: finished scratch to memory that nobody reads soon.
//!
//! An ordinary store to a line that is not in cache first reads it; a non-temporal store of a whole line does not.
//! On destinations larger than the cache that is worth a factor of two. Stable Rust has no portable non-temporal
//! store, hence the assembly here, the only one of the crate.

use std::mem::MaybeUninit;

use crate::Kernels;
use crate::mem::as_uninit;

impl Kernels {
    /// Copies `src` to `dst` from byte `dst_at`. Whole cache lines of `dst` go out by non-temporal stores (x86-64,
    /// levels above scalar, feature `streaming`), and the rest by ordinary ones.
    ///
    /// Non-temporal stores are ordered only by [`Kernels::fence`]: a thread that streamed calls it once, at the end
    /// of its work, before any other thread may look at what it wrote.
    ///
    /// # Panics
    /// When `dst` ends before byte `dst_at + src.len()`.
    #[inline]
    pub fn stream(&self, src: &[u8], dst: &mut [MaybeUninit<u8>], dst_at: usize) {
        self.stream_segments(src, &[Segment { from: 0, to: 0, len: src.len() }], dst, dst_at);
    }

    /// [`Kernels::stream`] of several segments of `src` to places counted from byte `dst_at` of `dst`.
    ///
    /// # Panics
    /// When a segment leaves `src` or `dst`; those before it are written.
    pub fn stream_segments(
        &self,
        src: &[u8],
        segments: &[Segment],
        dst: &mut [MaybeUninit<u8>],
        dst_at: usize,
    ) {
        match self.streams() {
            None => each(src, segments, dst, dst_at, |from, to| to.copy_from_slice(from)),
            Some(Streams::Narrow(by)) => {
                each(src, segments, dst, dst_at, |from, to| by.run(from, to));
                by.end();
            }
            Some(Streams::Wide(by)) => {
                each(src, segments, dst, dst_at, |from, to| by.run(from, to));
                by.end();
            }
        }
    }

    /// Whether this table has stores past the caches; if not, [`Kernels::stream`] and its kin are plain copies.
    pub fn stores_past_caches(&self) -> bool {
        self.streams().is_some()
    }

    /// Stores past the caches, if the level has them.
    pub(crate) fn streams(&self) -> Option<Streams> {
        Streams::of(self)
    }

    /// Orders all stores that this thread streamed before everything it stores afterwards.
    #[inline]
    pub fn fence(&self) {
        fence();
    }
}

/// Calls `copy` with the bytes of each segment and its place.
#[inline(always)]
fn each(
    src: &[u8],
    segments: &[Segment],
    dst: &mut [MaybeUninit<u8>],
    dst_at: usize,
    copy: impl Fn(&[MaybeUninit<u8>], &mut [MaybeUninit<u8>]),
) {
    for segment @ &Segment { from, to, len } in segments {
        let (at, room) = (dst_at.wrapping_add_signed(to), dst.len());
        let from = src.get(from..).and_then(|src| src.get(..len));
        let to = dst.get_mut(at..).and_then(|dst| dst.get_mut(..len));
        let (Some(from), Some(to)) = (from, to) else {
            panic!(
                "{len} bytes from byte {at} leave a destination of {room} bytes, or {segment:?} its source"
            );
        };
        copy(as_uninit(from), to);
    }
}

/// A run of bytes: where it begins in what is copied, and in the destination, counted from where all begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// Bytes in the source.
    pub from: usize,
    /// Bytes in the destination.
    pub to: isize,
    /// How many bytes it has.
    pub len: usize,
}

/// Bytes of one store past the caches. Two that fill a line soon one after the other leave the processor together.
pub(crate) const PIECE: usize = 32;

/// The right to store past the caches.
///
/// Fact S1, cited by the unsafe blocks below: it comes from [`Streams::of`] alone, and is `Wide` only where that has seen a
/// table of V3 or above; such a table exists only where there is AVX (D1). What is narrow needs SSE, which every x86-64 has.
#[derive(Clone, Copy, Debug)]
#[allow(dead_code, reason = "there are none without the assembly")]
pub(crate) enum Streams {
    /// A piece in two stores.
    Narrow(Stores<false>),
    /// A piece in one store.
    Wide(Stores<true>),
}

/// How [`Streams`] store: a type, as the innermost loops have no time to ask.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stores<const WIDE: bool>(());

#[cfg(all(target_arch = "x86_64", feature = "streaming", not(miri)))]
mod streaming {
    use super::*;
    use crate::Isa;

    /// Bytes of a cache line.
    const LINE: usize = 64;

    impl Streams {
        pub(super) fn of(kernels: &Kernels) -> Option<Streams> {
            match kernels.isa() {
                Isa::Scalar => None,
                Isa::Base => Some(Streams::Narrow(Stores(()))),
                Isa::V3 | Isa::V4 => Some(Streams::Wide(Stores(()))),
            }
        }
    }

    impl<const WIDE: bool> Stores<WIDE> {
        /// Copies [`PIECE`] bytes. A series of calls ends with [`Stores::end`].
        ///
        /// # Safety
        /// The bytes from `src` are readable, those from `dst` writable, and `dst` is aligned to a piece.
        #[inline(always)]
        pub(crate) unsafe fn put(self, src: *const u8, dst: *mut u8) {
            // SAFETY: S1 and the caller's promise; the registers that are changed are declared.
            unsafe {
                if WIDE {
                    std::arch::asm!(
                        "vmovups ymm0, [{src}]",
                        "vmovntps [{dst}], ymm0",
                        src = in(reg) src,
                        dst = in(reg) dst,
                        out("xmm0") _,
                        options(nostack, preserves_flags),
                    );
                } else {
                    std::arch::asm!(
                        "movups {a}, [{src}]",
                        "movups {b}, [{src} + 16]",
                        "movntps [{dst}], {a}",
                        "movntps [{dst} + 16], {b}",
                        src = in(reg) src,
                        dst = in(reg) dst,
                        a = out(xmm_reg) _,
                        b = out(xmm_reg) _,
                        options(nostack, preserves_flags),
                    );
                }
            }
        }

        /// Leaves no dirty upper halves of registers to code compiled for SSE.
        #[inline(always)]
        pub(crate) fn end(self) {
            if !WIDE {
                return;
            }
            // SAFETY: S1; all sixteen registers that it changes are declared.
            unsafe {
                std::arch::asm!(
                    "vzeroupper",
                    out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
                    out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
                    out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
                    out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
                    options(nomem, nostack, preserves_flags),
                );
            }
        }

        /// Copies all bytes, whole lines of the destination past the caches. A series of calls ends with [`Stores::end`].
        #[inline(always)]
        pub(super) fn run(self, src: &[MaybeUninit<u8>], dst: &mut [MaybeUninit<u8>]) {
            let len = dst.len();
            assert!(src.len() == len);
            let head = dst.as_ptr().addr().wrapping_neg() % LINE;
            if head >= len {
                return dst.copy_from_slice(src);
            }
            let tail = head + (len - head) / LINE * LINE;
            if head > 0 {
                dst[..head].copy_from_slice(&src[..head]);
            }
            for at in (head..tail).step_by(PIECE) {
                // SAFETY: pieces of two slices of one length; from `head` on, `dst` is aligned to lines.
                unsafe { self.put(src.as_ptr().cast::<u8>().add(at), dst.as_mut_ptr().cast::<u8>().add(at)) };
            }
            if tail < len {
                dst[tail..].copy_from_slice(&src[tail..]);
            }
        }
    }

    #[inline]
    pub(super) fn fence() {
        // SAFETY: `sfence` is in every x86-64 and changes neither registers nor memory.
        unsafe { std::arch::asm!("sfence", options(nostack, preserves_flags)) }
    }
}

#[cfg(not(all(target_arch = "x86_64", feature = "streaming", not(miri))))]
mod streaming {
    use super::*;

    impl Streams {
        pub(super) fn of(_: &Kernels) -> Option<Streams> {
            None
        }
    }

    impl<const WIDE: bool> Stores<WIDE> {
        /// # Safety
        /// The bytes from `src` are readable, those from `dst` writable.
        pub(crate) unsafe fn put(self, src: *const u8, dst: *mut u8) {
            // SAFETY: the caller's promise.
            unsafe { dst.copy_from(src, PIECE) }
        }

        pub(crate) fn end(self) {}

        pub(super) fn run(self, src: &[MaybeUninit<u8>], dst: &mut [MaybeUninit<u8>]) {
            dst.copy_from_slice(src);
        }
    }

    pub(super) fn fence() {}
}

use streaming::fence;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Isa;
    use crate::mem::assume_written;

    #[test]
    fn every_length_and_alignment_is_a_copy() {
        let src: Vec<u8> = (0..400_u32).map(|i| (i.wrapping_mul(0x9E37_79B1) >> 24) as u8).collect();
        for kernels in Isa::available().filter_map(Kernels::for_isa) {
            for len in (0..=200).chain([256, 320]) {
                for at in 0..=66 {
                    for from in [0, 1, 32] {
                        let mut dst = vec![MaybeUninit::new(0xEE); 500];
                        kernels.stream(&src[from..from + len], &mut dst, at);
                        kernels.fence();
                        let dst = assume_written(dst);
                        assert_eq!(dst[at..at + len], src[from..from + len]);
                        assert!(dst[..at].iter().chain(&dst[at + len..]).all(|&byte| byte == 0xEE));
                    }
                }
            }
        }
    }

    #[test]
    #[should_panic(expected = "65 bytes from byte 64 leave a destination of 128 bytes")]
    fn a_short_destination_is_refused() {
        Kernels::for_isa(Isa::best()).unwrap().stream(&[0; 65], &mut [MaybeUninit::new(0); 128], 64);
    }
}
