//! Casts of whole numbers over a window: integers among each other, and truth values to floats.

use std::mem::MaybeUninit;

use super::convert::makes_lines;
use super::strided::{self, Blocks, Scratch, Side};
use crate::formats::{Cast, Integer, Number};
use crate::level::{Level, part};
use crate::memory::{Destination, Elements, OuterLoop, Output, Window, for_each_iteration};
use crate::vectors::binary32;
use crate::vectors::lanes::{Bf16, F16, Sen169};
use crate::vectors::steps::{self, Bits16, U8To};

/// A cast whose window [`Casting::new`] has found to lie inside both slices.
pub(crate) struct Casting<'a> {
    cast: Cast,
    src: &'a [u8],
    src_at: usize,
    dst: Output<'a>,
    dst_at: usize,
    window: Window,
    outer: &'a [OuterLoop],
    prefetch_distance: isize,
    fits: &'a mut bool,
}

impl<'a> Casting<'a> {
    /// The cast of a window in every iteration of the outer loops, which clears `fits` for a value that does not fit. `None`
    /// when there is nothing to cast.
    ///
    /// # Panics
    /// When there are too many loops, an element lies outside of its slice in some iteration, or the destination has no room
    /// for that many elements.
    #[allow(clippy::too_many_arguments)]
    #[inline(always)]
    pub(crate) fn new(
        cast: Cast,
        src: &'a [u8],
        src_at: usize,
        dst: &'a mut Destination<'_>,
        dst_at: usize,
        window: &Window,
        outer: &'a [OuterLoop],
        prefetch_distance: isize,
        fits: &'a mut bool,
    ) -> Option<Casting<'a>> {
        let sides = [
            Elements { len: src.len(), at: src_at, size: cast.source_size() },
            Elements { len: dst.len(), at: dst_at, size: cast.size() },
        ];
        if !window.has_elements(outer, &sides) {
            return None;
        }
        let dst = dst.output(makes_lines(cast.source_size(), cast.size(), window, outer));
        Some(Casting { cast, src, src_at, dst, dst_at, window: *window, outer, prefetch_distance, fits })
    }
}

/// Evaluates an expression with the primitive type of an integer format.
macro_rules! with_type {
    ($integer:expr, $name:ident => $body:expr) => {
        match $integer {
            Integer::I64 => with_type!(@ $name i64 $body),
            Integer::I32 => with_type!(@ $name i32 $body),
            Integer::I16 => with_type!(@ $name i16 $body),
            Integer::I8 => with_type!(@ $name i8 $body),
            Integer::U64 => with_type!(@ $name u64 $body),
            Integer::U32 => with_type!(@ $name u32 $body),
            Integer::U16 => with_type!(@ $name u16 $body),
            Integer::U8 => with_type!(@ $name u8 $body),
        }
    };
    (@ $name:ident $type:ident $body:expr) => {{
        type $name = $type;
        $body
    }};
}

/// Loops that the compiler vectorises, one for each pair of types; what is strided by way of L1.
#[inline(always)]
pub(crate) fn body(level: impl Level, on: &mut Casting<'_>) {
    let Casting { cast, src, src_at, dst_at, window, outer, prefetch_distance, .. } = *on;
    let (mut dst, fits) = (on.dst.lend(), &mut *on.fits);
    let blocks = Blocks::new(window, cast.source_size(), cast.size(), dst.is_streamed());
    let mut scratch = Scratch::default();
    for_each_iteration(
        outer,
        #[inline(always)]
        |from, to| {
            let src = Side { bytes: src, at: src_at.wrapping_add_signed(from), size: cast.source_size() };
            let dst = Side { bytes: &mut dst, at: dst_at.wrapping_add_signed(to), size: cast.size() };
            strided::convert(
                level,
                blocks,
                src,
                dst,
                (prefetch_distance, &mut None),
                &mut scratch,
                #[inline(always)]
                |src, dst| *fits &= run(level, cast, src, dst),
            );
        },
    );
}

/// Casts elements that lie one after another on both sides; whether all of them fit.
#[inline(always)]
fn run(level: impl Level, cast: Cast, src: &[u8], dst: &mut [MaybeUninit<u8>]) -> bool {
    match cast {
        Cast::Integer(from, to) => return whole_numbers(level, from, to, src, dst),
        Cast::Value(Integer::U8, Number::Bf16) => bytes::<Bf16>(level, src, dst),
        Cast::Value(Integer::U8, Number::F16) => bytes::<F16>(level, src, dst),
        Cast::Value(Integer::U8, Number::Sen169) => bytes::<Sen169>(level, src, dst),
        Cast::Value(from, to) => binary32::convert_integers(level, from, to, src, dst),
        Cast::Truth(to) => binary32::convert_truths(level, to, src, dst),
    }
    true
}

/// [`run`] of integers of 8 bits that become floats of 16.
#[inline(always)]
fn bytes<B: Bits16>(level: impl Level, src: &[u8], dst: &mut [MaybeUninit<u8>]) {
    part!(level, steps::convert::<U8To<B>, 1, 2>(src, dst));
}

/// [`run`] of integers among each other.
#[inline(always)]
#[allow(clippy::unnecessary_fallible_conversions, reason = "of some pairs of types, every value fits")]
fn whole_numbers(
    level: impl Level,
    from: Integer,
    to: Integer,
    src: &[u8],
    dst: &mut [MaybeUninit<u8>],
) -> bool {
    with_type!(from, From => part!(level, with_type!(to, To => {
        let mut fits = true;
        let src = src.as_chunks::<{ size_of::<From>() }>().0;
        for (src, dst) in src.iter().zip(dst.as_chunks_mut::<{ size_of::<To>() }>().0) {
            let value = From::from_le_bytes(*src);
            let whole = To::try_from(value);
            fits &= whole.is_ok();
            let beyond = if value > 0 { To::MAX } else { To::MIN };
            *dst = whole.unwrap_or(beyond).to_le_bytes().map(MaybeUninit::new);
        }
        fits
    })))
}

/// Each element is [`Cast::apply`].
pub(crate) fn scalar(on: &mut Casting<'_>) {
    let Casting { cast, src, src_at, dst_at, window: w, outer, .. } = *on;
    let (dst, fits) = (&mut *on.dst.bytes, &mut *on.fits);
    let size = cast.source_size();
    for_each_iteration(outer, |from, to| {
        let (src_at, dst_at) = (src_at.wrapping_add_signed(from), dst_at.wrapping_add_signed(to));
        for r in 0..w.rows as isize {
            for c in 0..w.cols as isize {
                let place = |at: usize, row: isize, col: isize| {
                    at.wrapping_add_signed(r.wrapping_mul(row)).wrapping_add_signed(c.wrapping_mul(col))
                };
                let mut code = [0; 8];
                code[..size].copy_from_slice(&src[place(src_at, w.src_row, w.src_col)..][..size]);
                let (code, code_fits) = cast.apply(u64::from_le_bytes(code));
                let to = place(dst_at, w.dst_row, w.dst_col);
                for (byte, code) in dst[to..][..cast.size()].iter_mut().zip(code.to_le_bytes()) {
                    byte.write(code);
                }
                *fits &= code_fits;
            }
        }
    });
}
