//! Stores that bypass the caches, and the destinations that they may be used on.
//!
//! An ordinary store to a line that is not in the caches first reads it; a non-temporal store of a whole line does not.
//! On destinations larger than the caches that is worth a factor of two. Stable Rust has no portable non-temporal
//! store, hence the assembly here, the only one of the crate.
//!
//! Other threads may see non-temporal stores later than ordinary ones which follow them, unless a fence comes between. So
//! the right to such stores is bound to a [`Destination`], which lends its bytes to nobody before there was a fence.

use std::marker::PhantomData;
use std::mem::MaybeUninit;

use super::cache::CACHE_LINE;
use super::squares::Pair;
use crate::level::Level;

/// Bytes written by kernels, through the caches or past them.
///
/// [`Destination::cached`] makes one for ordinary stores. One for non-temporal stores exists only inside of
/// [`Kernels::non_temporal`](crate::Kernels::non_temporal), which fences when it ends. It cannot leave that call or its
/// thread, and [`Destination::bytes`] fences before it lends bytes: so safe code cannot show another thread a byte that was
/// there before a non-temporal store.
///
/// It may have several ranges, one of which is in use: [`Destination::turn_to`] chooses it.
#[derive(Debug)]
pub struct Destination<'d> {
    /// The range in use.
    bytes: &'d mut [MaybeUninit<u8>],
    /// All ranges, in the order of their numbers; where the one in use was, an empty one.
    ranges: &'d mut [&'d mut [MaybeUninit<u8>]],
    /// The number of the range in use.
    range: usize,
    stores: Option<NonTemporal>,
    /// Whether there may have been a non-temporal store since the last fence.
    pending: bool,
    /// A fence orders the stores of its own thread only, so this type is neither `Send` nor `Sync`.
    one_thread: PhantomData<*const ()>,
}

impl<'d> Destination<'d> {
    /// A destination for ordinary stores.
    #[inline]
    pub fn cached(bytes: &'d mut [MaybeUninit<u8>]) -> Destination<'d> {
        Destination::new(bytes, None)
    }

    /// The same in several ranges, none of which is in use before [`Destination::turn_to`].
    #[inline]
    pub fn cached_ranges(ranges: &'d mut [&'d mut [MaybeUninit<u8>]]) -> Destination<'d> {
        Destination::of_ranges(ranges, None)
    }

    /// A destination for the given stores. Whoever makes one with non-temporal stores fences before the borrow ends.
    #[inline]
    pub(crate) fn new(bytes: &'d mut [MaybeUninit<u8>], stores: Option<NonTemporal>) -> Destination<'d> {
        Destination { bytes, ranges: &mut [], range: 0, stores, pending: false, one_thread: PhantomData }
    }

    /// [`Destination::new`] of several ranges.
    #[inline]
    pub(crate) fn of_ranges(
        ranges: &'d mut [&'d mut [MaybeUninit<u8>]],
        stores: Option<NonTemporal>,
    ) -> Destination<'d> {
        let range = ranges.len();
        Destination { bytes: &mut [], ranges, range, stores, pending: false, one_thread: PhantomData }
    }

    /// Goes on in one of several ranges: bytes are counted from its first one on. It needs no fence, for the range that was in
    /// use is lent to nobody.
    ///
    /// # Panics
    /// Where there is no such range.
    #[inline]
    pub fn turn_to(&mut self, range: usize) {
        if range != self.range {
            let next = std::mem::take(&mut self.ranges[range]);
            let last = std::mem::replace(&mut self.bytes, next);
            if let Some(place) = self.ranges.get_mut(self.range) {
                *place = last;
            }
            self.range = range;
        }
    }

    /// How many bytes it has, or the range of it that is in use.
    #[inline]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether it has no bytes.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The address of its first byte, or that of the range that is in use, or will be first: what alignment to cache lines is counted from.
    #[inline]
    pub fn addr(&self) -> usize {
        let first = self.ranges.first().filter(|_| self.range == self.ranges.len());
        first.map_or(self.bytes.as_ptr(), |first| first.as_ptr()).addr()
    }

    /// The bytes, for ordinary stores. Fences first if there were non-temporal ones since the last fence.
    #[inline]
    pub fn bytes(&mut self) -> &mut [MaybeUninit<u8>] {
        if self.pending {
            fence();
            self.pending = false;
        }
        self.bytes
    }

    /// The kind of stores, whether some are pending, to be set before the first non-temporal one, and the bytes for them.
    #[inline]
    pub(crate) fn parts(&mut self) -> (Option<NonTemporal>, &mut bool, &mut [MaybeUninit<u8>]) {
        (self.stores, &mut self.pending, self.bytes)
    }
}

impl<'d> Destination<'d> {
    /// The bytes for a kernel that puts runs in their places; `lines`: runs of whole lines, which go by non-temporal stores
    /// where there are such.
    #[inline]
    pub(crate) fn output(&mut self, lines: bool) -> Output<'_> {
        let stores = self.stores.filter(|_| lines);
        self.pending |= stores.is_some();
        match stores {
            Some(_) => Output { bytes: self.bytes, stores, carry: Carry::default() },
            None => Output { bytes: self.bytes(), stores, carry: Carry::default() },
        }
    }
}

/// Bytes that a kernel puts runs into.
pub(crate) struct Output<'d> {
    pub(crate) bytes: &'d mut [MaybeUninit<u8>],
    /// The stores of whole lines, if runs have such and go by them.
    stores: Option<NonTemporal>,
    carry: Carry,
}

/// The first part of a line, which waits for the run that goes on where the last one ended.
#[repr(align(64))]
struct Carry {
    line: [MaybeUninit<u8>; CACHE_LINE],
    /// Where the line begins in the destination, and how much of it there is.
    at: usize,
    len: usize,
}

impl Default for Carry {
    #[inline(always)]
    fn default() -> Carry {
        Carry { line: [MaybeUninit::uninit(); CACHE_LINE], at: 0, len: 0 }
    }
}

impl Output<'_> {
    /// The same for a function that keeps it in registers.
    #[inline(always)]
    pub(crate) fn lend(&mut self) -> Output<'_> {
        Output { bytes: &mut *self.bytes, stores: self.stores, carry: Carry::default() }
    }

    /// Where a run of byte `at` on is to be made: in `lines` if non-temporal stores take it from there, else in its place.
    ///
    /// # Panics
    /// When its place leaves the destination.
    #[inline(always)]
    pub(crate) fn room<'a>(
        &'a mut self,
        lines: &'a mut [MaybeUninit<u8>],
        at: usize,
    ) -> &'a mut [MaybeUninit<u8>] {
        match self.stores {
            None => &mut self.bytes[at..][..lines.len()],
            Some(_) => lines,
        }
    }

    /// Puts what was made in [`Output::room`] to byte `at`, unless it is there. Where a line begins at `at` it is fastest; parts of
    /// lines that are multiples of [`PART_BYTES`] are stored as they are, for most often the next run fills the line.
    ///
    /// # Panics
    /// When it leaves the destination.
    #[inline(always)]
    pub(crate) fn put(&mut self, run: &[MaybeUninit<u8>], at: usize) {
        if let Some(stores) = self.stores {
            let to = &mut self.bytes[at..][..run.len()];
            let aligned = to.as_ptr().addr() | to.len();
            if aligned.is_multiple_of(CACHE_LINE) {
                stores.copy_lines(run, to);
            } else if aligned.is_multiple_of(PART_BYTES) {
                // Sticks of SEN169 are made twice as fast so on Zen 4 as by way of parts that wait.
                stores.copy_parts(run, to);
            } else {
                self.put_between(stores, run, at);
            }
        }
    }

    /// [`Output::put`] of a run that begins or ends between two lines: its last part of a line waits for the next run, and
    /// is stored by itself only if that is elsewhere.
    #[inline(never)]
    fn put_between(&mut self, stores: NonTemporal, mut run: &[MaybeUninit<u8>], mut at: usize) {
        let Carry { line, at: begin, len } = &mut self.carry;
        if *len > 0 && *begin + *len == at {
            let (rest, behind) = run.split_at(run.len().min(CACHE_LINE - *len));
            line[*len..][..rest.len()].copy_from_slice(rest);
            *len += rest.len();
            if *len < CACHE_LINE {
                return;
            }
            stores.copy_lines(line, &mut self.bytes[*begin..][..CACHE_LINE]);
            *len = 0;
            (run, at) = (behind, at + rest.len());
        }
        self.flush();
        let to = &mut self.bytes[at..][..run.len()];
        let before = (to.as_ptr().addr().wrapping_neg() % CACHE_LINE).min(run.len());
        let lines = (run.len() - before) / CACHE_LINE * CACHE_LINE;
        to[..before].copy_from_slice(&run[..before]);
        if lines > 0 {
            stores.copy_lines(&run[before..][..lines], &mut to[before..][..lines]);
        }
        let rest = &run[before + lines..];
        if !rest.is_empty() {
            self.carry.line[..rest.len()].copy_from_slice(rest);
            (self.carry.at, self.carry.len) = (at + before + lines, rest.len());
        }
    }

    /// Stores the part of a line that waits.
    fn flush(&mut self) {
        let Carry { line, at, len } = &self.carry;
        self.bytes[*at..][..*len].copy_from_slice(&line[..*len]);
        self.carry.len = 0;
    }

    /// Whether runs are put with non-temporal stores.
    #[inline(always)]
    pub(crate) fn is_streamed(&self) -> bool {
        self.stores.is_some()
    }
}

impl Drop for Output<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.carry.len > 0 {
            self.flush();
        }
    }
}

/// Orders all non-temporal stores of this thread before everything that it stores after the drop, also when the drop is
/// part of unwinding.
pub(crate) struct FenceOnDrop;

impl Drop for FenceOnDrop {
    #[inline]
    fn drop(&mut self) {
        fence();
    }
}

/// Non-temporal stores, as the processor has them.
///
/// Fact S1, cited by the unsafe blocks below: `Avx` comes from [`NonTemporal::avx`] and [`NonTemporal::avx512`] alone, whose callers
/// promise that the processor has AVX, and `whole_lines` is set by the latter alone, whose callers promise AVX-512 F, BW, DQ and VL.
/// `Sse` needs SSE, which every x86-64 has.
#[derive(Clone, Copy, Debug)]
#[allow(dead_code, reason = "there are none without the assembly")]
pub(crate) enum NonTemporal {
    /// [`STORE_BYTES`] by two instructions.
    Sse(Stores<false>),
    /// [`STORE_BYTES`] by one instruction.
    Avx(Stores<true>),
}

impl NonTemporal {
    /// Whether they are those of a level with vectors of 256 bits, of whose registers lines are made.
    #[inline]
    pub(crate) fn has_vectors(self) -> bool {
        matches!(self, NonTemporal::Avx(_))
    }

    /// Whether there are stores of whole lines.
    #[inline]
    pub(crate) fn has_whole_lines(self) -> bool {
        matches!(self, NonTemporal::Avx(stores) if stores.whole_lines)
    }
}

/// Non-temporal stores of a width known to the compiler, as the innermost loops have no time to ask.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stores<const AVX: bool> {
    /// Whether there are stores of whole lines.
    whole_lines: bool,
}

impl<const AVX: bool> Stores<AVX> {
    /// The same without them.
    #[inline(always)]
    pub(super) fn without_whole_lines(self) -> Stores<AVX> {
        Stores { whole_lines: false }
    }
}

/// Bytes of one copy by [`Stores::copy_unit`]. Two that fill a line soon one after the other leave the processor together.
pub(crate) const STORE_BYTES: usize = 32;

/// Bytes of one copy by [`Stores::copy_part`], the shortest store.
pub(crate) const PART_BYTES: usize = 16;

#[cfg(all(target_arch = "x86_64", feature = "streaming", not(miri)))]
mod instructions {
    use super::*;

    impl NonTemporal {
        /// The stores of every x86-64.
        pub(crate) const fn sse() -> Option<NonTemporal> {
            Some(NonTemporal::Sse(Stores { whole_lines: false }))
        }

        /// # Safety
        /// The processor has AVX.
        pub(crate) const unsafe fn avx() -> Option<NonTemporal> {
            Some(NonTemporal::Avx(Stores { whole_lines: false }))
        }

        /// # Safety
        /// The processor has AVX, and AVX-512 F, BW, DQ and VL.
        pub(crate) const unsafe fn avx512() -> Option<NonTemporal> {
            Some(NonTemporal::Avx(Stores { whole_lines: true }))
        }

        /// Copies whole lines to where one begins. Its callers are compiled for AVX where the stores are of AVX, and leave no
        /// dirty upper halves.
        ///
        /// # Panics
        /// Where they are others.
        #[inline(always)]
        pub(crate) fn copy_lines(self, src: &[MaybeUninit<u8>], dst: &mut [MaybeUninit<u8>]) {
            let len = dst.len();
            assert!(src.len() == len && (dst.as_ptr().addr() | len).is_multiple_of(CACHE_LINE));
            for at in (0..len).step_by(STORE_BYTES) {
                // SAFETY: units of two slices of one length; `dst` is aligned to cache lines.
                unsafe {
                    let src = src.as_ptr().cast::<u8>().add(at);
                    let dst = dst.as_mut_ptr().cast::<u8>().add(at);
                    match self {
                        NonTemporal::Avx(stores) => stores.copy_unit(src, dst),
                        NonTemporal::Sse(stores) => stores.copy_unit(src, dst),
                    }
                }
            }
        }

        /// Copies parts of lines that begin and end on multiples of [`PART_BYTES`], as [`NonTemporal::copy_lines`] copies lines.
        ///
        /// # Panics
        /// Where they are others.
        #[inline(always)]
        pub(crate) fn copy_parts(self, src: &[MaybeUninit<u8>], dst: &mut [MaybeUninit<u8>]) {
            let len = dst.len();
            assert!(src.len() == len && (dst.as_ptr().addr() | len).is_multiple_of(PART_BYTES));
            for at in (0..len).step_by(PART_BYTES) {
                // SAFETY: parts of two slices of one length; `dst` is aligned to them.
                unsafe {
                    let src = src.as_ptr().cast::<u8>().add(at);
                    let dst = dst.as_mut_ptr().cast::<u8>().add(at);
                    match self {
                        NonTemporal::Avx(stores) => stores.copy_part(src, dst),
                        NonTemporal::Sse(stores) => stores.copy_part(src, dst),
                    }
                }
            }
        }
    }

    /// Stores a line from registers, by one store where the level has such: where lines lie apart, Zen 4 transposes 8 GB/s by two stores
    /// each, 12 by one.
    ///
    /// # Safety
    /// The bytes are writable, and a line begins with them. The level has vectors of 256 bits.
    #[inline(always)]
    pub(crate) unsafe fn store_line<L: Level>(_level: L, line: [Pair; 2], dst: *mut u8) {
        // SAFETY: the caller's promise; a level's value exists only where the processor has it.
        unsafe { if const { L::LINES } { store_512(line, dst) } else { store_256(line, dst) } }
    }

    /// # Safety
    /// As [`store_line`]; the processor has AVX.
    #[inline]
    #[target_feature(enable = "avx")]
    unsafe fn store_256([a, b]: [Pair; 2], dst: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe {
            std::arch::asm!(
                "vmovntps [{dst}], {a}",
                "vmovntps [{dst} + 32], {b}",
                dst = in(reg) dst,
                a = in(ymm_reg) a.0,
                b = in(ymm_reg) b.0,
                options(nostack, preserves_flags),
            );
        }
    }

    /// # Safety
    /// As [`store_line`]; the processor has AVX-512 F.
    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn store_512(line: [Pair; 2], dst: *mut u8) {
        let line: safe_arch::m512i = bytemuck::cast(line);
        // SAFETY: the caller's promise.
        unsafe {
            std::arch::asm!(
                "vmovntps [{dst}], {line}",
                dst = in(reg) dst,
                line = in(zmm_reg) line.0,
                options(nostack, preserves_flags),
            );
        }
    }

    /// Fetches the four units of [`Stores::copy_four`].
    macro_rules! fetch_four {
        ($fetch:literal, $at:expr, $next:ident, $two:ident) => {
            std::arch::asm!(
                concat!($fetch, " [{at}]"),
                concat!($fetch, " [{at} + {next}]"),
                "add {at}, {two}",
                concat!($fetch, " [{at}]"),
                concat!($fetch, " [{at} + {next}]"),
                at = inout(reg) $at => _,
                next = in(reg) $next,
                two = in(reg) $two,
                options(nostack, readonly),
            )
        };
    }

    impl<const AVX: bool> Stores<AVX> {
        /// Copies [`STORE_BYTES`] bytes. A series of calls ends with [`Stores::end`].
        ///
        /// # Safety
        /// The bytes from `src` are readable, those from `dst` writable, and `dst` is aligned to their number.
        #[inline(always)]
        pub(crate) unsafe fn copy_unit(self, src: *const u8, dst: *mut u8) {
            // SAFETY: S1 and the caller's promise; the registers that are changed are declared.
            unsafe {
                if AVX {
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

        /// Copies [`PART_BYTES`] bytes. Several that fill a line one after the other leave the processor together. A series of calls ends
        /// with [`Stores::end`].
        ///
        /// # Safety
        /// The bytes from `src` are readable, those from `dst` writable, and `dst` is aligned to their number.
        #[inline(always)]
        pub(crate) unsafe fn copy_part(self, src: *const u8, dst: *mut u8) {
            // SAFETY: S1 and the caller's promise; the registers that are changed are declared.
            unsafe {
                if AVX {
                    std::arch::asm!(
                        "vmovups xmm0, [{src}]",
                        "vmovntps [{dst}], xmm0",
                        src = in(reg) src,
                        dst = in(reg) dst,
                        out("xmm0") _,
                        options(nostack, preserves_flags),
                    );
                } else {
                    std::arch::asm!(
                        "movups {a}, [{src}]",
                        "movntps [{dst}], {a}",
                        src = in(reg) src,
                        dst = in(reg) dst,
                        a = out(xmm_reg) _,
                        options(nostack, preserves_flags),
                    );
                }
            }
        }

        /// Copies four units of [`STORE_BYTES`] bytes: one at `src` and one `src_steps[0]` bytes on, and two that lie
        /// `src_steps[1]` bytes behind these; in the destination by `dst_steps`. What lies `src_steps[2]` bytes from each is
        /// fetched to the cache `FETCHES`, L1 or L2, unless that is 0. A series of calls ends with [`Stores::end`].
        ///
        /// All are loaded before the first is stored: where a load that waits for memory comes between the two stores of a line,
        /// Zen 5 copies 10 GB/s, and 20 to 25 where none does.
        ///
        /// # Safety
        /// As [`Stores::copy_unit`], of each of them.
        #[inline(always)]
        pub(crate) unsafe fn copy_four<const FETCHES: usize>(
            self,
            src: *const u8,
            src_steps: [isize; 3],
            dst: *mut u8,
            dst_steps: [isize; 2],
        ) {
            let ([next, two, distance], [next_dst, two_dst]) = (src_steps, dst_steps);
            // SAFETY: S1 and the caller's promise; the registers that are changed are declared. A prefetch changes nothing and never
            // faults.
            unsafe {
                match FETCHES {
                    0 => {}
                    1 => fetch_four!("prefetcht0", src.wrapping_offset(distance), next, two),
                    _ => fetch_four!("prefetcht1", src.wrapping_offset(distance), next, two),
                }
                if AVX {
                    std::arch::asm!(
                        "vmovups ymm0, [{src}]",
                        "vmovups ymm1, [{src} + {next}]",
                        "add {src}, {two}",
                        "vmovups ymm2, [{src}]",
                        "vmovups ymm3, [{src} + {next}]",
                        "vmovntps [{dst}], ymm0",
                        "vmovntps [{dst} + {next_dst}], ymm1",
                        "add {dst}, {two_dst}",
                        "vmovntps [{dst}], ymm2",
                        "vmovntps [{dst} + {next_dst}], ymm3",
                        src = inout(reg) src => _,
                        dst = inout(reg) dst => _,
                        next = in(reg) next,
                        two = in(reg) two,
                        next_dst = in(reg) next_dst,
                        two_dst = in(reg) two_dst,
                        out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
                        options(nostack),
                    );
                } else {
                    copy_units(self, src, [next, two], dst, [next_dst, two_dst]);
                }
            }
        }

        /// Copies two lines, by a store each where there are such.
        ///
        /// # Safety
        /// They are readable and writable, and `dst` is where a line begins.
        #[inline(always)]
        pub(crate) unsafe fn copy_two_lines(self, src: *const u8, dst: *mut u8) {
            let unit = STORE_BYTES as isize;
            // SAFETY: S1 and the caller's promise; the registers that are changed are declared.
            unsafe {
                if AVX && self.whole_lines {
                    std::arch::asm!(
                        "vmovups zmm0, [{src}]",
                        "vmovups zmm1, [{src} + 64]",
                        "vmovntps [{dst}], zmm0",
                        "vmovntps [{dst} + 64], zmm1",
                        src = in(reg) src,
                        dst = in(reg) dst,
                        out("xmm0") _, out("xmm1") _,
                        options(nostack, preserves_flags),
                    );
                } else {
                    self.copy_four::<0>(src, [unit, 2 * unit, 0], dst, [unit, 2 * unit]);
                }
            }
        }

        /// Leaves no dirty upper halves of registers to code compiled for SSE.
        #[inline(always)]
        pub(crate) fn end(self) {
            if !AVX {
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

        /// Copies all bytes: whole cache lines of the destination by non-temporal stores, the rest by ordinary ones. A series
        /// of calls ends with [`Stores::end`].
        #[inline(always)]
        pub(crate) fn copy(self, src: &[MaybeUninit<u8>], dst: &mut [MaybeUninit<u8>]) {
            let len = dst.len();
            assert!(src.len() == len);
            let head = dst.as_ptr().addr().wrapping_neg() % CACHE_LINE;
            if head >= len {
                return dst.copy_from_slice(src);
            }
            let tail = head + (len - head) / CACHE_LINE * CACHE_LINE;
            if head > 0 {
                dst[..head].copy_from_slice(&src[..head]);
            }
            for at in (head..tail).step_by(STORE_BYTES) {
                // SAFETY: units of two slices of one length; from `head` on, `dst` is aligned to cache lines.
                unsafe {
                    self.copy_unit(src.as_ptr().cast::<u8>().add(at), dst.as_mut_ptr().cast::<u8>().add(at))
                };
            }
            if tail < len {
                dst[tail..].copy_from_slice(&src[tail..]);
            }
        }
    }

    #[inline]
    pub(super) fn fence() {
        #[cfg(test)]
        super::tests::FENCES.set(super::tests::FENCES.get() + 1);
        // SAFETY: `sfence` is in every x86-64 and changes neither registers nor memory.
        unsafe { std::arch::asm!("sfence", options(nostack, preserves_flags)) }
    }
}

#[cfg(not(all(target_arch = "x86_64", feature = "streaming", not(miri))))]
mod instructions {
    use super::*;

    #[allow(dead_code, reason = "which of them is asked for depends on the architecture")]
    impl NonTemporal {
        pub(crate) const fn sse() -> Option<NonTemporal> {
            None
        }

        /// # Safety
        /// None is needed here; elsewhere the processor must have AVX.
        pub(crate) const unsafe fn avx() -> Option<NonTemporal> {
            None
        }

        /// # Safety
        /// None is needed here; elsewhere the processor must have AVX-512.
        pub(crate) const unsafe fn avx512() -> Option<NonTemporal> {
            None
        }

        pub(crate) fn copy_lines(self, src: &[MaybeUninit<u8>], dst: &mut [MaybeUninit<u8>]) {
            dst.copy_from_slice(src);
        }

        pub(crate) fn copy_parts(self, src: &[MaybeUninit<u8>], dst: &mut [MaybeUninit<u8>]) {
            dst.copy_from_slice(src);
        }
    }

    /// # Safety
    /// The bytes are writable.
    pub(crate) unsafe fn store_line<L: Level>(_level: L, line: [Pair; 2], dst: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe { dst.cast::<[Pair; 2]>().write_unaligned(line) }
    }

    impl<const AVX: bool> Stores<AVX> {
        /// # Safety
        /// The bytes from `src` are readable, those from `dst` writable.
        pub(crate) unsafe fn copy_unit(self, src: *const u8, dst: *mut u8) {
            // SAFETY: the caller's promise.
            unsafe { dst.copy_from(src, STORE_BYTES) }
        }

        /// # Safety
        /// As [`Stores::copy_unit`].
        pub(crate) unsafe fn copy_part(self, src: *const u8, dst: *mut u8) {
            // SAFETY: the caller's promise.
            unsafe { dst.copy_from(src, PART_BYTES) }
        }

        /// # Safety
        /// They are readable and writable.
        pub(crate) unsafe fn copy_two_lines(self, src: *const u8, dst: *mut u8) {
            // SAFETY: the caller's promise.
            unsafe { dst.copy_from(src, 2 * CACHE_LINE) }
        }

        /// # Safety
        /// As [`Stores::copy_unit`], of each of them.
        pub(crate) unsafe fn copy_four<const FETCHES: usize>(
            self,
            src: *const u8,
            [next, two, _]: [isize; 3],
            dst: *mut u8,
            dst_steps: [isize; 2],
        ) {
            // SAFETY: the caller's promise.
            unsafe { copy_units(self, src, [next, two], dst, dst_steps) }
        }

        pub(crate) fn end(self) {}

        pub(crate) fn copy(self, src: &[MaybeUninit<u8>], dst: &mut [MaybeUninit<u8>]) {
            dst.copy_from_slice(src);
        }
    }

    pub(super) fn fence() {
        #[cfg(test)]
        super::tests::FENCES.set(super::tests::FENCES.get() + 1);
    }
}

/// Copies four units that lie as those of [`Stores::copy_four`], one by one.
///
/// # Safety
/// As [`Stores::copy_unit`], of each of them.
#[inline(always)]
unsafe fn copy_units<const AVX: bool>(
    stores: Stores<AVX>,
    src: *const u8,
    src_steps: [isize; 2],
    dst: *mut u8,
    dst_steps: [isize; 2],
) {
    for two in [0, 1] {
        for next in [0, 1] {
            let place = |[next_step, two_step]: [isize; 2]| {
                next_step.wrapping_mul(next).wrapping_add(two_step.wrapping_mul(two))
            };
            // SAFETY: the caller's promise.
            unsafe {
                stores.copy_unit(src.wrapping_offset(place(src_steps)), dst.wrapping_offset(place(dst_steps)))
            };
        }
    }
}

use instructions::fence;
pub(super) use instructions::store_line;

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    thread_local! {
        /// How often this thread has fenced.
        pub(super) static FENCES: Cell<usize> = const { Cell::new(0) };
    }

    fn fences(during: impl FnOnce()) -> usize {
        let before = FENCES.get();
        during();
        FENCES.get() - before
    }

    #[test]
    fn the_guard_fences_once_also_when_unwinding() {
        assert_eq!(fences(|| drop(FenceOnDrop)), 1);
        let unwinding = || {
            let caught = catch_unwind(AssertUnwindSafe(|| {
                let _guard = FenceOnDrop;
                std::panic::resume_unwind(Box::new(()));
            }));
            assert!(caught.is_err());
        };
        assert_eq!(fences(unwinding), 1);
    }

    #[test]
    fn ranges_are_used_by_turns() {
        let mut memory = [MaybeUninit::new(0_u8); 12];
        let (first, rest) = memory.split_at_mut(3);
        let (second, third) = rest.split_at_mut(4);
        let addresses = [&*first, second, third].map(|range| (range.as_ptr().addr(), range.len()));
        let mut ranges = [first, second, third];
        let mut destination = Destination::cached_ranges(&mut ranges);
        assert_eq!((destination.addr(), destination.len()), (addresses[0].0, 0));
        for range in [1, 0, 0, 2, 1, 2] {
            destination.turn_to(range);
            assert_eq!((destination.addr(), destination.len()), addresses[range]);
        }
        let none = catch_unwind(AssertUnwindSafe(|| destination.turn_to(3)));
        assert!(none.is_err());
        // Stores to one range are fenced before another is lent.
        let Some(stores) = NonTemporal::sse() else { return };
        let (mut first, mut second) = ([MaybeUninit::new(0); 64], [MaybeUninit::new(0); 64]);
        let mut ranges = [&mut first[..], &mut second[..]];
        let mut destination = Destination::of_ranges(&mut ranges, Some(stores));
        destination.turn_to(0);
        *destination.parts().1 = true;
        assert_eq!(fences(|| destination.turn_to(1)), 0);
        assert_eq!(fences(|| _ = destination.bytes()), 1);
    }

    #[test]
    fn bytes_are_lent_after_a_fence_if_one_is_due() {
        let mut memory = [MaybeUninit::new(0); 64];
        let Some(stores) = NonTemporal::sse() else { return };
        let mut destination = Destination::new(&mut memory, Some(stores));
        assert_eq!(fences(|| _ = destination.bytes()), 0, "nothing was stored yet");
        *destination.parts().1 = true;
        assert_eq!(fences(|| _ = destination.bytes()), 1);
        assert_eq!(fences(|| _ = destination.bytes()), 0, "one fence is enough");
        let mut cached = Destination::cached(&mut memory);
        assert_eq!(fences(|| _ = cached.bytes()), 0, "ordinary stores need none");
    }
}
