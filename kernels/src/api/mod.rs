//! The kernels as callers see them: tables, one per instruction-set level, and the calls that check their arguments.

pub(crate) mod dispatch;
mod isa;

#[cfg(test)]
mod differential;

use std::mem::MaybeUninit;

pub use dispatch::{Body, Kernels};
pub use isa::Isa;

use crate::formats::{BlockCodec, Cast, Number};
use crate::memory::{Ahead, Destination, FenceOnDrop, Hints, OuterLoop, StridedCopy, Window, as_uninit};
use crate::moves::cast::Casting;
use crate::moves::convert::Conversion;
use crate::moves::copy;
use crate::moves::fill::Runs;
use crate::moves::segments::{self, Segment};
use crate::vectors::canonical;
use crate::vectors::pack::{self, Elements, PackArgs, Packing};
use crate::vectors::requantize::{self, Requantizing};
use crate::vectors::unpack::{UnpackArgs, Unpacking};

/// Copies.
impl Kernels {
    /// Copies the `w.rows * w.cols` elements of `elem` bytes that the window names, from offsets counted from byte
    /// `src_at` of `src` to offsets counted from byte `dst_at` of `dst`. No other byte of `dst` is touched.
    ///
    /// Any `elem` works; a window without elements, or with elements of 0 bytes, does nothing. Fast are elements
    /// that lie one after another on both sides (runs), transposes of elements of 1, 2, 4 and 8 bytes (the source
    /// contiguous along one index, the destination along the other), and elements of up to 256 bytes at any stride.
    ///
    /// # Panics
    /// When a byte of the window lies outside `src` or `dst`, or `dst` is too small to hold the elements side by
    /// side; found in constant time, before anything is written.
    #[inline]
    pub fn copy(
        &self,
        elem: usize,
        src: &[u8],
        src_at: usize,
        dst: &mut [MaybeUninit<u8>],
        dst_at: usize,
        w: &Window,
    ) {
        self.copy_loops(elem, src, src_at, &mut Destination::cached(dst), dst_at, w, &[], Hints::default());
    }

    /// [`Kernels::copy`] in every iteration of up to [`MAX_OUTER_LOOPS`](crate::MAX_OUTER_LOOPS) loops, outermost first: one
    /// call for many windows, each of which may be smaller than a call is worth.
    ///
    /// Where the destination has non-temporal stores they are used if all elements are whole units of 32 bytes on
    /// multiples of 16; elements of one row that lie one after another on both sides count as one. Transposes of elements of 1,
    /// 2, 4 and 8 bytes use them where the hints have strips and rows of the destination have two lines or more, wherever these
    /// begin. What the hints say of fetching holds for such copies and for transposes.
    ///
    /// # Panics
    /// As [`Kernels::copy`], in whichever iteration; and when there are more loops.
    #[inline]
    #[allow(clippy::too_many_arguments)]
    pub fn copy_loops(
        &self,
        elem: usize,
        src: &[u8],
        src_at: usize,
        dst: &mut Destination<'_>,
        dst_at: usize,
        w: &Window,
        outer: &[OuterLoop],
        hints: Hints,
    ) {
        self.copy_fetching(elem, src, src_at, dst, dst_at, w, outer, hints, None);
    }

    /// [`Kernels::copy_loops`], while rows of another source are fetched: of copies with non-temporal stores whose lines are stored as they
    /// are made, about as many lines as these have.
    ///
    /// # Panics
    /// As [`Kernels::copy_loops`].
    // Always inlined: the compiler loads two arguments of a call at once that were stored one by one, which a processor cannot forward to it
    // while stores are pending. Blocks of 2 KiB of backward f32 have 7.3 GB/s with the call, up to 8.0 without it (Zen 4).
    #[inline(always)]
    #[allow(clippy::too_many_arguments)]
    pub fn copy_fetching<'s>(
        &self,
        elem: usize,
        src: &'s [u8],
        src_at: usize,
        dst: &mut Destination<'_>,
        dst_at: usize,
        w: &Window,
        outer: &'s [OuterLoop],
        hints: Hints,
        ahead: Option<Ahead<'s>>,
    ) {
        let (stores, pending, dst) = dst.parts();
        if stores.is_none()
            && let Some(bytes) = w.run(elem, outer)
        {
            // A page, or a row of an array. The kernel would ask what else it could be, which takes as long as to copy 1 KiB.
            let from = as_uninit(&src[src_at..][..bytes]);
            return dst[dst_at..][..bytes].copy_from_slice(from);
        }
        if let Some(copy) = StridedCopy::new(elem, src, src_at, dst, dst_at, w, outer) {
            let copy = copy.merged().hinted(hints).fetching(ahead);
            match stores {
                Some(stores) if copy::is_streamed(&copy, stores) => {
                    *pending = true;
                    self.table.copy_non_temporal(copy, stores);
                }
                _ => self.table.copy(copy),
            }
        }
    }

    /// Copies `src` to `dst` from byte `dst_at`, with the stores that the destination has: non-temporal ones for whole cache
    /// lines of `dst`, ordinary ones for the rest.
    ///
    /// # Panics
    /// When `dst` ends before byte `dst_at + src.len()`.
    #[inline]
    pub fn stream(&self, src: &[u8], dst: &mut Destination<'_>, dst_at: usize) {
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
        dst: &mut Destination<'_>,
        dst_at: usize,
    ) {
        segments::copy(src, segments, dst, dst_at);
    }

    /// Calls `write` with a destination for non-temporal stores (x86-64, levels above scalar, feature `streaming`; elsewhere
    /// for ordinary ones), and fences once it returns or unwinds. So any thread to which `dst` is handed afterwards sees
    /// what was written.
    ///
    /// A fence waits until the stores have left the processor: call this once for a task, not for each block of it.
    ///
    /// The destination stays with the thread, and with this call:
    ///
    /// ```compile_fail
    /// # use tilewright_kernels::{Isa, Kernels};
    /// # let kernels = Kernels::for_isa(Isa::best()).unwrap();
    /// # let mut memory = Box::new_uninit_slice(64);
    /// kernels.non_temporal(&mut memory, |dst| {
    ///     // Another thread's stores would not be ordered by this thread's fence.
    ///     std::thread::scope(|scope| scope.spawn(|| kernels.stream(&[1; 64], dst, 0)).join());
    /// });
    /// ```
    ///
    /// ```compile_fail
    /// # use tilewright_kernels::{Isa, Kernels};
    /// # let kernels = Kernels::for_isa(Isa::best()).unwrap();
    /// # let mut memory = Box::new_uninit_slice(64);
    /// let mut kept = None;
    /// kernels.non_temporal(&mut memory, |dst| kept = Some(dst));
    /// ```
    ///
    /// ```compile_fail
    /// # use tilewright_kernels::{Isa, Kernels};
    /// # let kernels = Kernels::for_isa(Isa::best()).unwrap();
    /// # let mut memory = Box::new_uninit_slice(64);
    /// kernels.non_temporal(&mut memory, |dst| {
    ///     let bytes = dst.bytes();
    ///     kernels.stream(&[1; 64], dst, 0);
    ///     // Lent before the store, so not fenced after it.
    ///     std::thread::scope(|scope| scope.spawn(|| bytes.len()).join());
    /// });
    /// ```
    ///
    /// What is right compiles:
    ///
    /// ```
    /// # use tilewright_kernels::{Isa, Kernels};
    /// let kernels = Kernels::for_isa(Isa::best()).unwrap();
    /// let mut memory = Box::new_uninit_slice(64);
    /// kernels.non_temporal(&mut memory, |dst| {
    ///     kernels.stream(&[1; 64], dst, 0);
    ///     let bytes = dst.bytes();
    ///     std::thread::scope(|scope| scope.spawn(|| bytes.len()).join().unwrap());
    /// });
    /// std::thread::spawn(move || memory.len()).join().unwrap();
    /// ```
    pub fn non_temporal<R>(
        &self,
        dst: &mut [MaybeUninit<u8>],
        write: impl for<'d> FnOnce(&mut Destination<'d>) -> R,
    ) -> R {
        let stores = self.non_temporal_stores();
        // Not left to the destination's own drop, which safe code can prevent.
        let _fence = stores.is_some().then_some(FenceOnDrop);
        write(&mut Destination::new(dst, stores))
    }

    /// [`Kernels::non_temporal`] with a destination of several ranges, none of which is in use before
    /// [`Destination::turn_to`].
    pub fn non_temporal_ranges<'r, R>(
        &self,
        ranges: &'r mut [&'r mut [MaybeUninit<u8>]],
        write: impl for<'d> FnOnce(&mut Destination<'d>) -> R,
    ) -> R {
        let stores = self.non_temporal_stores();
        let _fence = stores.is_some().then_some(FenceOnDrop);
        write(&mut Destination::of_ranges(ranges, stores))
    }

    /// Whether this level has non-temporal stores; if not, [`Kernels::non_temporal`] gives a destination for ordinary ones.
    pub fn has_non_temporal_stores(&self) -> bool {
        self.non_temporal_stores().is_some()
    }

    /// Whether transposes of what lies in L1 ([`Hints::near`]) go from registers to memory at this level, by non-temporal stores.
    pub fn has_near_lines(&self) -> bool {
        self.non_temporal_stores().is_some_and(|stores| stores.has_vectors())
    }

    /// Whether this level has non-temporal stores of whole lines.
    pub fn has_stores_of_lines(&self) -> bool {
        self.non_temporal_stores().is_some_and(|stores| stores.has_whole_lines())
    }

    /// Writes `rows` runs of `len` bytes, the first from byte `dst_at` of `dst`, each `dst_row` bytes after the one
    /// before. Every run is `pattern` repeated from the run's start and cut at its end.
    ///
    /// Without rows, or with runs of 0 bytes, does nothing.
    ///
    /// # Panics
    /// When the pattern is empty, a byte of a run lies outside `dst`, or `dst` is too small to hold the runs side by
    /// side; found in constant time, before anything is written.
    #[inline]
    pub fn fill(
        &self,
        pattern: &[u8],
        dst: &mut [MaybeUninit<u8>],
        dst_at: usize,
        rows: usize,
        dst_row: isize,
        len: usize,
    ) {
        assert!(!pattern.is_empty(), "a pattern of 0 bytes fills nothing");
        if let Some(runs) = Runs::new(dst, dst_at, rows, dst_row, len) {
            self.table.fill(pattern, runs);
        }
    }
}

/// Changes of number format.
impl Kernels {
    /// Converts the `w.rows * w.cols` elements that the window names, each by [`Number::convert`], from offsets
    /// counted from byte `src_at` of `src` to offsets counted from byte `dst_at` of `dst`. Elements have the sizes of
    /// their formats; strides are in bytes. No other byte of `dst` is touched.
    ///
    /// Any pair works, at any strides. Fastest are f32, f16, bf16 and SEN169 among each other where rows (or columns) are
    /// contiguous on both sides, or rows here and columns there; others are brought together in L1 first.
    ///
    /// # Panics
    /// When a byte of the window lies outside `src` or `dst`, or `dst` is too small to hold the elements side by
    /// side; found in constant time, before anything is written.
    #[allow(clippy::too_many_arguments)]
    #[inline]
    pub fn convert(
        &self,
        from: Number,
        to: Number,
        src: &[u8],
        src_at: usize,
        dst: &mut [MaybeUninit<u8>],
        dst_at: usize,
        w: &Window,
    ) {
        let dst = &mut Destination::cached(dst);
        self.convert_loops(from, to, src, src_at, dst, dst_at, w, &[], Hints::default());
    }

    /// [`Kernels::convert`] in every iteration of up to [`MAX_OUTER_LOOPS`](crate::MAX_OUTER_LOOPS) loops, outermost first.
    /// Non-temporal stores, where the destination has them, are used for rows of whole lines and for rows of 16 elements that
    /// follow one another in it.
    ///
    /// # Panics
    /// As [`Kernels::convert`], in whichever iteration; and when there are more loops.
    #[allow(clippy::too_many_arguments)]
    pub fn convert_loops(
        &self,
        from: Number,
        to: Number,
        src: &[u8],
        src_at: usize,
        dst: &mut Destination<'_>,
        dst_at: usize,
        w: &Window,
        outer: &[OuterLoop],
        hints: Hints,
    ) {
        if from == to {
            return self.copy_loops(from.size(), src, src_at, dst, dst_at, w, outer, hints);
        }
        let conversion = Conversion::new(from, to, src, src_at, dst, dst_at, w, outer, hints);
        if let Some(mut conversion) = conversion {
            self.table.convert(&mut conversion);
        }
    }

    /// Casts the `w.rows * w.cols` elements that the window names, each by [`Cast::apply`], from offsets counted
    /// from byte `src_at` of `src` to offsets counted from byte `dst_at` of `dst`; strides are in bytes. Returns
    /// whether every value fitted: those that did not have become the nearest that does. No other byte of `dst`
    /// is touched.
    ///
    /// # Panics
    /// When a byte of the window lies outside `src` or `dst`, or `dst` is too small to hold the elements side by
    /// side; found in constant time, before anything is written.
    pub fn cast(
        &self,
        cast: Cast,
        src: &[u8],
        src_at: usize,
        dst: &mut [MaybeUninit<u8>],
        dst_at: usize,
        w: &Window,
    ) -> bool {
        let dst = &mut Destination::cached(dst);
        self.cast_loops(cast, src, src_at, dst, dst_at, w, &[], Hints::default())
    }

    /// [`Kernels::cast`] in every iteration of up to [`MAX_OUTER_LOOPS`](crate::MAX_OUTER_LOOPS) loops, outermost first.
    /// Non-temporal stores are used where [`Kernels::convert_loops`] uses them.
    ///
    /// # Panics
    /// As [`Kernels::cast`], in whichever iteration; and when there are more loops.
    #[allow(clippy::too_many_arguments)]
    pub fn cast_loops(
        &self,
        cast: Cast,
        src: &[u8],
        src_at: usize,
        dst: &mut Destination<'_>,
        dst_at: usize,
        w: &Window,
        outer: &[OuterLoop],
        hints: Hints,
    ) -> bool {
        let mut fits = true;
        if let Some(mut casting) =
            Casting::new(cast, src, src_at, dst, dst_at, w, outer, hints.prefetch_distance, &mut fits)
        {
            self.table.cast(&mut casting);
        }
        fits
    }

    /// Packs a row of tiles of elements of format `from` by [`BlockCodec::pack_scalar`]'s rule: each element is
    /// converted to f32 (one rounding, for f64 only), then packed. Tile t goes to byte `dst_at + t * dst_tile` of `dst`.
    ///
    /// Fast are the formats that [`PackArgs::packs_rows_of`] names with contiguous columns; what lies otherwise is better converted
    /// to f32 first. Non-temporal stores, where the destination has them, are used for tiles of a line or more, and for blocks of MX
    /// formats as the OCP text has them that follow one another.
    ///
    /// # Panics
    /// When a byte to read lies outside `src` or a packed tile outside `dst`, `rows` or `cols` exceed the tile, or packed tiles
    /// would overlap; found in constant time, before anything is written.
    pub fn pack(
        &self,
        codec: &BlockCodec,
        from: Number,
        src: &[u8],
        args: &PackArgs,
        dst: &mut Destination<'_>,
        dst_at: usize,
    ) {
        let from = Elements::Numbers(from);
        if let Some(mut packing) = Packing::new(codec, from, src, args, dst, dst_at, self.fuses()) {
            self.table.pack(&mut packing);
        }
    }

    /// Whether [`Kernels::pack_codes`] knows rows of 32 codes of `from`, and tiles of `to`: blocks of `mxfp8_e4m3`, to tiles of 32 columns; these, and
    /// tiles of 32 columns of `mxfp8_e4m3` or `bfloat8_b`, to other blocks of MX formats. No tile is transposed, and block floats that are made have an
    /// exponent of 8 bits, without search or [`Rounding::DeviceOp`](crate::Rounding::DeviceOp).
    pub fn packs_codes(from: &BlockCodec, to: &BlockCodec) -> bool {
        pack::packs_codes(from, to)
    }

    /// The same as [`Kernels::pack`] of the values of codes of row `row` of packed tiles of another format: `src_at` is where such a tile begins, or
    /// the block that is the first row of a tile which is made. A column is a byte; where rows lie in faces, as they are stored, the face beside
    /// is as many bytes further as a face has.
    ///
    /// # Panics
    /// As [`Kernels::pack`], and unless [`Kernels::packs_codes`] says that it knows both, `row` is one of the packed tiles', and whole tiles are made.
    pub fn pack_codes(
        &self,
        codec: &BlockCodec,
        (from, row): (&BlockCodec, usize),
        src: &[u8],
        args: &PackArgs,
        dst: &mut Destination<'_>,
        dst_at: usize,
    ) {
        assert!(pack::packs_codes(from, codec), "{from:?} as {codec:?}");
        assert!(row < from.tile().rows(), "row {row} of {from:?}");
        let (first, shared) = from.row(row);
        let args = &PackArgs { src_at: args.src_at.saturating_add(first), ..*args };
        let from = Elements::Codes(from, shared);
        if let Some(mut packing) = Packing::new(codec, from, src, args, dst, dst_at, self.fuses()) {
            self.table.pack(&mut packing);
        }
    }

    /// Whether the level has instructions for [`f32::trunc`] and [`f32::mul_add`]. Without, as in SSE2, they are a call for each element.
    fn fuses(&self) -> bool {
        let always = cfg!(any(target_arch = "aarch64", target_arch = "powerpc64", target_arch = "s390x"));
        always || cfg!(target_arch = "x86_64") && self.isa() >= Isa::V3
    }

    /// Unpacks the rectangle of each tile by [`BlockCodec::unpack_scalar`]'s rule; each value is then converted from f32 to
    /// format `to`. No other byte of `dst` is touched.
    ///
    /// Fast are the formats that [`UnpackArgs::has_vector_code`] names; fastest where columns are contiguous and whole groups are
    /// wanted. Non-temporal stores, where the destination has them, are used for whole tiles whose rows are whole lines, or the rows
    /// of whose faces follow one another and make whole lines.
    ///
    /// # Panics
    /// When a tile lies outside `src`, a byte to write outside `dst`, the rectangle outside of the tile, or `dst` is too
    /// small to hold the elements side by side; found in constant time, before anything is written.
    pub fn unpack(
        &self,
        codec: &BlockCodec,
        to: Number,
        src: &[u8],
        args: &UnpackArgs,
        dst: &mut Destination<'_>,
    ) {
        if let Some(mut unpacking) = Unpacking::new(codec, to, src, args, dst) {
            self.table.unpack(&mut unpacking);
        }
    }

    /// How many packed tiles, `step` bytes apart from byte `at` of `src` on, are canonical, up to the first that is not: those
    /// that [`BlockCodec::pack_scalar`] makes again of what [`BlockCodec::unpack_scalar`] makes of them, with any options. A
    /// tile for which that is not quickly seen counts as one that is not: one of extreme numbers, and all compact ones of
    /// 6-bit codes.
    ///
    /// # Panics
    /// When a tile that is looked at lies outside `src`.
    pub fn canonical_tiles(
        &self,
        codec: &BlockCodec,
        src: &[u8],
        at: usize,
        step: usize,
        tiles: usize,
    ) -> usize {
        self.run(CanonicalTiles { codec, src: &src[at..], step, tiles })
    }

    /// Whether [`Kernels::requantize`] knows tiles of `from` and of `to`, in tiles of one shape, without options but that both may be transposed:
    /// block floats with an exponent of 8 bits and codes of other widths; `bfloat8_b` to MX formats; `mxfp8_e4m3` to those and to block floats
    /// with an exponent of 8 bits.
    pub fn requantizes(from: &BlockCodec, to: &BlockCodec) -> bool {
        requantize::knows(from, to)
    }

    /// Puts packed tiles, `step` bytes apart from byte `at` of `src` on, as tiles of another format side by side in `dst`; how many. Each is
    /// what [`BlockCodec::pack_scalar`] makes of what [`BlockCodec::unpack_scalar`] makes of it. Of block floats, where only the width of codes
    /// changes, up to the first that [`Kernels::canonical_tiles`] does not count; of others all.
    ///
    /// # Panics
    /// Unless [`Kernels::requantizes`] says that it knows both, when a tile that is looked at lies outside `src`, and when `dst` has less than
    /// `tiles` tiles.
    #[expect(clippy::too_many_arguments, reason = "two places and what lies there")]
    pub fn requantize(
        &self,
        from: &BlockCodec,
        to: &BlockCodec,
        src: &[u8],
        at: usize,
        step: usize,
        tiles: usize,
        dst: &mut [u8],
    ) -> usize {
        assert!(requantize::knows(from, to), "{from:?} as {to:?}");
        let dst = &mut dst[..tiles * to.tile_bytes()];
        self.run(Requantizing { from, to, src: &src[at..], step, tiles, dst, fuses: self.fuses() })
    }
}

impl Body for Requantizing<'_> {
    type Output = usize;

    #[inline(always)]
    fn run(self) -> usize {
        requantize::leading(self)
    }
}

/// What [`Kernels::canonical_tiles`] was asked.
struct CanonicalTiles<'a> {
    codec: &'a BlockCodec,
    src: &'a [u8],
    step: usize,
    tiles: usize,
}

impl Body for CanonicalTiles<'_> {
    type Output = usize;

    #[inline(always)]
    fn run(self) -> usize {
        canonical::leading(self.codec, self.src, self.step, self.tiles)
    }
}
