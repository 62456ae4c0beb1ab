//! Copies that bypass the cache: finished scratch to memory that nobody reads soon.
//!
//! An ordinary store to a line that is not in cache first reads it; a non-temporal store of a whole line does not.
//! On destinations larger than the cache that is worth a factor of two. Stable Rust has no portable non-temporal
//! store, hence the assembly here, the only one of the crate.

use std::mem::MaybeUninit;

use crate::Kernels;
use crate::mem::as_uninit;

impl Kernels {
    /// Copies `src` to `dst` from byte `dst_at`. Where the first byte written is 64-byte aligned in memory, whole
    /// cache lines go out by non-temporal stores (x86-64, V3 and above, feature `streaming`), and the rest, like
    /// everything else, by ordinary ones.
    ///
    /// Non-temporal stores are ordered only by [`Kernels::fence`]: a thread that streamed calls it once, at the end
    /// of its work, before any other thread may look at what it wrote.
    ///
    /// # Panics
    /// When `dst` ends before byte `dst_at + src.len()`.
    #[inline]
    pub fn stream(&self, src: &[u8], dst: &mut [MaybeUninit<u8>], dst_at: usize) {
        let room = dst.len();
        let dst = dst.get_mut(dst_at..).and_then(|dst| dst.get_mut(..src.len()));
        let Some(dst) = dst else {
            panic!("{} bytes from byte {dst_at} leave a destination of {room} bytes", src.len());
        };
        let done = lines(self, src, dst);
        dst[done..].copy_from_slice(as_uninit(&src[done..]));
    }

    /// Orders all stores that this thread streamed before everything it stores afterwards.
    #[inline]
    pub fn fence(&self) {
        fence();
    }
}

#[cfg(all(target_arch = "x86_64", feature = "streaming", not(miri)))]
mod streaming {
    use super::*;
    use crate::Isa;

    const LINE: usize = 64;

    /// Streams the whole lines of `src` and returns their bytes; 0 where that is not possible.
    #[inline]
    pub(super) fn lines(kernels: &Kernels, src: &[u8], dst: &mut [MaybeUninit<u8>]) -> usize {
        let bytes = src.len().min(dst.len()) / LINE * LINE;
        if bytes == 0 || kernels.isa() < Isa::V3 || !dst.as_ptr().addr().is_multiple_of(LINE) {
            return 0;
        }
        // SAFETY: `bytes` is positive, a multiple of a line, and within both slices; `dst` is aligned to a line.
        // D1: a table of V3 or above exists only where there is AVX. `vzeroupper` leaves no dirty upper halves to
        // code compiled for SSE; all sixteen registers it changes are declared.
        unsafe {
            std::arch::asm!(
                "2:",
                "vmovups ymm0, [{src}]",
                "vmovups ymm1, [{src} + 32]",
                "vmovntps [{dst}], ymm0",
                "vmovntps [{dst} + 32], ymm1",
                "add {src}, 64",
                "add {dst}, 64",
                "sub {bytes}, 64",
                "jnz 2b",
                "vzeroupper",
                src = inout(reg) src.as_ptr() => _,
                dst = inout(reg) dst.as_mut_ptr() => _,
                bytes = inout(reg) bytes => _,
                out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
                out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
                out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
                out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
                options(nostack),
            );
        }
        bytes
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

    pub(super) fn lines(_: &Kernels, _: &[u8], _: &mut [MaybeUninit<u8>]) -> usize {
        0
    }

    pub(super) fn fence() {}
}

use streaming::{fence, lines};

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
