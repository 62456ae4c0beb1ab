//! Casts of whole numbers over a window: integers among each other and to floats, and truth values to floats.

use std::mem::MaybeUninit;

use crate::window::lies_inside;
use crate::{Kernels, Number, Window};

/// An integer element format, little-endian; signed ones in two's complement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Integer {
    I64,
    I32,
    I16,
    I8,
    U64,
    U32,
    U16,
    U8,
}

impl Integer {
    /// Every format, signed ones first, widest first.
    pub const ALL: [Integer; 8] = [
        Integer::I64,
        Integer::I32,
        Integer::I16,
        Integer::I8,
        Integer::U64,
        Integer::U32,
        Integer::U16,
        Integer::U8,
    ];

    /// Bytes of one element.
    pub const fn size(self) -> usize {
        match self {
            Integer::I64 | Integer::U64 => 8,
            Integer::I32 | Integer::U32 => 4,
            Integer::I16 | Integer::U16 => 2,
            Integer::I8 | Integer::U8 => 1,
        }
    }

    /// The name used in messages and tables.
    pub const fn name(self) -> &'static str {
        match self {
            Integer::I64 => "i64",
            Integer::I32 => "i32",
            Integer::I16 => "i16",
            Integer::I8 => "i8",
            Integer::U64 => "u64",
            Integer::U32 => "u32",
            Integer::U16 => "u16",
            Integer::U8 => "u8",
        }
    }

    /// The least and the greatest value.
    pub const fn range(self) -> (i128, i128) {
        let bits = 8 * self.size();
        match self {
            Integer::I64 | Integer::I32 | Integer::I16 | Integer::I8 => {
                (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
            }
            _ => (0, (1 << bits) - 1),
        }
    }

    /// The value of a code; bits above the element are ignored.
    pub const fn decode(self, bits: u64) -> i128 {
        let above = 64 - 8 * self.size() as u32;
        match self {
            Integer::I64 | Integer::I32 | Integer::I16 | Integer::I8 => {
                (((bits << above) as i64) >> above) as i128
            }
            _ => (bits << above >> above) as i128,
        }
    }
}

/// A conversion of whole numbers: all there are that change an integer's type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cast {
    /// From one integer format to another: the nearest value, which is the same one wherever it fits.
    Integer(Integer, Integer),
    /// From an integer to the nearest float, by way of the nearest `f32` (ties to even) unless that is narrower than the
    /// destination: `torch.Tensor.to` rounds 64-bit integers to `bfloat16` and `float16` so, twice.
    Value(Integer, Number),
    /// From bytes, of which 0 is false and any other is true, to the numbers 0 and 1.
    Truth(Number),
}

impl Cast {
    /// Bytes of a source element.
    pub const fn source_size(self) -> usize {
        match self {
            Cast::Integer(from, _) | Cast::Value(from, _) => from.size(),
            Cast::Truth(_) => 1,
        }
    }

    /// Bytes of a destination element.
    pub const fn size(self) -> usize {
        match self {
            Cast::Integer(_, to) => to.size(),
            Cast::Value(_, to) | Cast::Truth(to) => to.size(),
        }
    }

    /// The code that a source element becomes, and whether it has the element's value: the rule of every kernel.
    pub fn apply(self, bits: u64) -> (u64, bool) {
        match self {
            Cast::Integer(from, to) => {
                let (value, (least, greatest)) = (from.decode(bits), to.range());
                let nearest = value.clamp(least, greatest);
                (nearest as u64 & (!0 >> (64 - 8 * to.size())), nearest == value)
            }
            Cast::Value(from, to) => {
                let value = from.decode(bits);
                let value = if to == Number::F64 { value as f64 } else { f64::from(value as f32) };
                (to.encode(value), true)
            }
            Cast::Truth(to) => (to.encode(if bits & 0xFF == 0 { 0.0 } else { 1.0 }), true),
        }
    }
}

impl Kernels {
    /// Casts the `w.rows * w.cols` elements that the window names, each by [`Cast::apply`], from offsets counted
    /// from byte `src_at` of `src` to offsets counted from byte `dst_at` of `dst`; strides are in bytes. Returns
    /// whether every value fitted: those that did not have become the nearest that does. No other byte of `dst`
    /// is touched.
    ///
    /// # Panics
    /// When a byte of the window lies outside `src` or `dst`; found in constant time, before anything is written.
    pub fn cast(
        &self,
        cast: Cast,
        src: &[u8],
        src_at: usize,
        dst: &mut [MaybeUninit<u8>],
        dst_at: usize,
        w: &Window,
    ) -> bool {
        if w.rows == 0 || w.cols == 0 {
            return true;
        }
        assert!(
            lies_inside(src.len(), src_at, cast.source_size(), (w.rows, w.src_row), (w.cols, w.src_col)),
            "{cast:?} of {w:?} from byte {src_at} leaves a source of {} bytes",
            src.len()
        );
        assert!(
            lies_inside(dst.len(), dst_at, cast.size(), (w.rows, w.dst_row), (w.cols, w.dst_col)),
            "{cast:?} of {w:?} from byte {dst_at} leaves a destination of {} bytes",
            dst.len()
        );
        let mut fits = true;
        self.table.cast(Casting { cast, src, src_at, dst, dst_at, window: *w, fits: &mut fits });
        fits
    }
}

/// A cast whose window [`Kernels::cast`] has found to lie inside both slices.
pub(crate) struct Casting<'a> {
    cast: Cast,
    src: &'a [u8],
    src_at: usize,
    dst: &'a mut [MaybeUninit<u8>],
    dst_at: usize,
    window: Window,
    fits: &'a mut bool,
}

impl Casting<'_> {
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

#[cfg(test)]
pub(crate) mod sweep {
    use super::*;
    use crate::mem::assume_written;

    /// Every pair of formats over the edges of all ranges, through the windows that take a path of their own.
    pub(crate) fn sweep(tested: &Kernels, rule: &Kernels) {
        let edges =
            Integer::ALL.map(Integer::range).into_iter().flat_map(|(least, greatest)| [least, greatest]);
        let values: Vec<i128> = edges.flat_map(|edge| [edge - 1, edge, edge + 1]).chain(-2..70).collect();
        let pairs = Integer::ALL.into_iter().flat_map(|from| Integer::ALL.map(|to| Cast::Integer(from, to)));
        let numbers = [Number::F64, Number::F32, Number::Bf16, Number::F16, Number::Sen169];
        let floats = Integer::ALL.into_iter().flat_map(|from| numbers.map(|to| Cast::Value(from, to)));
        for cast in pairs.chain(floats).chain(numbers.map(Cast::Truth)) {
            let (from, to) = (cast.source_size(), cast.size());
            let src: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes().into_iter().take(from)).collect();
            let (f, t) = (from as isize, to as isize);
            for (rows, cols, src_row, src_col, dst_row, dst_col) in [
                (1, values.len(), 0, f, 0, t),
                (4, 9, 9 * f, f, 9 * t + 1, t),
                (9, 4, f, 9 * f, t, 9 * t),
                (4, 5, -7 * f, 2 * f, 5 * t, t),
            ] {
                let w = Window { rows, cols, src_row, src_col, dst_row, dst_col };
                let src_at = if src_row < 0 { 30 * from } else { 0 };
                let run = |kernels: &Kernels| {
                    let mut dst = vec![MaybeUninit::new(0xEE); values.len() * to + 8];
                    let fits = kernels.cast(cast, &src, src_at, &mut dst, 3, &w);
                    (fits, assume_written(dst))
                };
                assert_eq!(run(tested), run(rule), "{} {cast:?} over {w:?}", tested.isa().name());
            }
        }
    }
}
