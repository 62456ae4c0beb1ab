//! Casts of whole numbers over a window: integers among each other, and truth values to floats.

use std::mem::MaybeUninit;

use crate::formats::{Cast, Integer};
use crate::memory::{Window, assert_readable, assert_writable};

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

    /// Calls `run` with elements that follow one another on both sides: whole rows or columns where they do, else
    /// one by one.
    #[inline(always)]
    fn runs(self, mut run: impl FnMut(&[u8], &mut [MaybeUninit<u8>]) -> bool) {
        let (from, to) = (self.cast.source_size(), self.cast.size());
        let runs_along = |w: Window| w.src_col == from as isize && w.dst_col == to as isize;
        let w = if runs_along(self.window) { self.window } else { self.window.swapped() };
        let len = if runs_along(w) { w.cols } else { 1 };
        for r in 0..w.rows as isize {
            for c in 0..(w.cols / len) as isize {
                let place = |at: usize, row: isize, col: isize| {
                    at.wrapping_add_signed(r.wrapping_mul(row)).wrapping_add_signed(c.wrapping_mul(col))
                };
                let src = &self.src[place(self.src_at, w.src_row, w.src_col)..][..len * from];
                let dst = &mut self.dst[place(self.dst_at, w.dst_row, w.dst_col)..][..len * to];
                *self.fits &= run(src, dst);
            }
        }
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

/// Loops that the compiler vectorises, one for each pair of types.
#[inline(always)]
#[allow(clippy::unnecessary_fallible_conversions, reason = "of some pairs of types, every value fits")]
pub(crate) fn body(on: Casting<'_>) {
    match on.cast {
        Cast::Integer(from, to) => with_type!(from, From => with_type!(to, To => {
            on.runs(|src, dst| {
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
            })
        })),
        Cast::Value(..) | Cast::Truth(_) => scalar(on),
    }
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
