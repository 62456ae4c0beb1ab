//! Casts of whole numbers over a window: integers among each other, and truth values to floats.

use std::mem::MaybeUninit;

use super::strided::{self, Scratch, Side};
use crate::formats::{Cast, Integer};
use crate::memory::{Window, assert_readable, assert_writable};
use crate::vectors::binary32::{self, Source};

/// A cast whose window [`Casting::new`] has found to lie inside both slices.
pub(crate) struct Casting<'a> {
    cast: Cast,
    src: &'a [u8],
    src_at: usize,
    dst: &'a mut [MaybeUninit<u8>],
    dst_at: usize,
    window: Window,
    fits: &'a mut bool,
}

impl<'a> Casting<'a> {
    /// The cast of a window, which clears `fits` for a value that does not fit. `None` when there is nothing to cast.
    ///
    /// # Panics
    /// When an element lies outside of its slice, or the destination has no room for that many elements.
    pub(crate) fn new(
        cast: Cast,
        src: &'a [u8],
        src_at: usize,
        dst: &'a mut [MaybeUninit<u8>],
        dst_at: usize,
        window: &Window,
        fits: &'a mut bool,
    ) -> Option<Casting<'a>> {
        if window.is_empty(&[]) {
            return None;
        }
        assert_readable(src.len(), src_at, cast.source_size(), window.src_loops(&[]));
        assert_writable(dst.len(), dst_at, cast.size(), window.dst_loops(&[]));
        Some(Casting { cast, src, src_at, dst, dst_at, window: *window, fits })
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
pub(crate) fn body(on: Casting<'_>) {
    let Casting { cast, src, src_at, dst, dst_at, window, fits } = on;
    let src = Side { bytes: src, at: src_at, size: cast.source_size() };
    let dst = Side { bytes: dst, at: dst_at, size: cast.size() };
    strided::convert(
        window,
        src,
        dst,
        0,
        &mut Scratch::zero(),
        #[inline(always)]
        |src, dst| *fits &= run(cast, src, dst),
    );
}

/// Casts elements that lie one after another on both sides; whether all of them fit.
#[inline(always)]
fn run(cast: Cast, src: &[u8], dst: &mut [MaybeUninit<u8>]) -> bool {
    let (source, number) = match cast {
        Cast::Integer(from, to) => return whole_numbers(from, to, src, dst),
        Cast::Value(from, to) => (Source::Integer(from), to),
        Cast::Truth(to) => (Source::Truth, to),
    };
    binary32::convert(source, number, src, dst);
    true
}

/// [`run`] of integers among each other.
#[inline(always)]
#[allow(clippy::unnecessary_fallible_conversions, reason = "of some pairs of types, every value fits")]
fn whole_numbers(from: Integer, to: Integer, src: &[u8], dst: &mut [MaybeUninit<u8>]) -> bool {
    with_type!(from, From => with_type!(to, To => {
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
    }))
}

/// Each element is [`Cast::apply`].
pub(crate) fn scalar(on: Casting<'_>) {
    let (w, size) = (on.window, on.cast.source_size());
    for r in 0..w.rows as isize {
        for c in 0..w.cols as isize {
            let place = |at: usize, row: isize, col: isize| {
                at.wrapping_add_signed(r.wrapping_mul(row)).wrapping_add_signed(c.wrapping_mul(col))
            };
            let mut code = [0; 8];
            code[..size].copy_from_slice(&on.src[place(on.src_at, w.src_row, w.src_col)..][..size]);
            let (code, fits) = on.cast.apply(u64::from_le_bytes(code));
            let to = place(on.dst_at, w.dst_row, w.dst_col);
            for (byte, code) in on.dst[to..][..on.cast.size()].iter_mut().zip(code.to_le_bytes()) {
                byte.write(code);
            }
            *on.fits &= fits;
        }
    }
}
