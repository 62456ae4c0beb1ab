//! Unpacking of tiles from block formats, written in place.

use std::mem::MaybeUninit;

use crate::bfp::{Bfp, GROUP};
use crate::convert::write;
use crate::lane::{Bf16, F16, F32, Lane};
use crate::window::tiles_lie_inside;
use crate::{BlockCodec, Kernels, Number, TileShape};

/// A row of packed tiles to unpack: which rectangle of each, and where it goes.
///
/// Tile t is at byte `src_at + t * src_tile` of the source. Of each tile the elements (`row0` + r, `col0` + c) with r < `rows` and
/// c < `cols` go to byte `dst_at + t * dst_tile + r * dst_row + c * dst_col` of the destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnpackArgs {
    /// Number of tiles.
    pub tiles: usize,
    /// Byte of the first tile.
    pub src_at: usize,
    /// Bytes from a packed tile to the next.
    pub src_tile: usize,
    /// First row of the rectangle.
    pub row0: usize,
    /// First column of the rectangle.
    pub col0: usize,
    /// Rows of the rectangle.
    pub rows: usize,
    /// Columns of the rectangle.
    pub cols: usize,
    /// Byte where the first tile's rectangle begins.
    pub dst_at: usize,
    /// Bytes from a rectangle to the next.
    pub dst_tile: isize,
    /// Bytes from an element to the one in the next row.
    pub dst_row: isize,
    /// Bytes from an element to the one in the next column.
    pub dst_col: isize,
}

impl Kernels {
    /// Unpacks the rectangle of each tile by [`BlockCodec::unpack_scalar`]'s rule; each value is then converted from f32 to format `to`.
    /// No other byte of `dst` is touched.
    ///
    /// Fast are block floats to f32, bf16 and f16.
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
        dst: &mut [MaybeUninit<u8>],
    ) {
        let (a, tile) = (*args, codec.tile());
        let inside = |first: usize, count: usize, side: usize| first <= side && count <= side - first;
        assert!(
            inside(a.row0, a.rows, tile.rows()) && inside(a.col0, a.cols, tile.cols()),
            "the rectangle of {a:?} leaves a {tile} tile"
        );
        if a.tiles == 0 || a.rows == 0 || a.cols == 0 {
            return;
        }
        let bytes = codec.tile_bytes();
        let end =
            (a.tiles - 1).checked_mul(a.src_tile).and_then(|n| n.checked_add(bytes)?.checked_add(a.src_at));
        assert!(
            end.is_some_and(|end| end <= src.len()),
            "tiles of {bytes} bytes of {a:?} leave a source of {} bytes",
            src.len()
        );
        let (tiles, row, col) = ((a.tiles, a.dst_tile), (a.rows, a.dst_row), (a.cols, a.dst_col));
        assert!(
            tiles_lie_inside(dst.len(), a.dst_at, to.size(), tiles, row, col),
            "{} elements of {a:?} leave a destination of {} bytes",
            to.name(),
            dst.len()
        );
        assert!(
            a.tiles.checked_mul(a.rows * a.cols * to.size()).is_some_and(|bytes| bytes <= dst.len()),
            "{} elements of {a:?} do not fit side by side in a destination of {} bytes",
            to.name(),
            dst.len()
        );
        self.table.unpack(Unpacking { codec, to, src, args: a, dst });
    }
}

/// Tiles whose bytes [`Kernels::unpack`] has found to lie inside both slices.
pub(crate) struct Unpacking<'a> {
    codec: &'a BlockCodec,
    to: Number,
    src: &'a [u8],
    args: UnpackArgs,
    dst: &'a mut [MaybeUninit<u8>],
}

impl<'a> Unpacking<'a> {
    #[inline(always)]
    fn tile(&self, t: usize) -> &'a [u8] {
        &self.src[self.args.src_at + t * self.args.src_tile..][..self.codec.tile_bytes()]
    }

    /// Where element (r, c) of the rectangle of tile `t` goes.
    #[inline(always)]
    fn place(&self, t: usize, r: usize, c: usize) -> usize {
        let a = &self.args;
        a.dst_at
            .wrapping_add_signed((t as isize).wrapping_mul(a.dst_tile))
            .wrapping_add_signed((r as isize).wrapping_mul(a.dst_row))
            .wrapping_add_signed((c as isize).wrapping_mul(a.dst_col))
    }
}

/// Vector code where there is some, the rule for the rest.
#[inline(always)]
pub(crate) fn body(on: Unpacking<'_>) {
    if on.codec.options().compact {
        return scalar(on);
    }
    match on.codec.bfp() {
        Some(bfp) => match bfp.magnitude {
            7 => to_any::<7>(on, bfp),
            3 => to_any::<3>(on, bfp),
            _ => to_any::<1>(on, bfp),
        },
        None => scalar(on),
    }
}

#[inline(always)]
fn to_any<const M: u32>(on: Unpacking<'_>, bfp: Bfp) {
    match on.to {
        Number::F32 => tiles::<F32, 4, M>(on, bfp),
        Number::Bf16 => tiles::<Bf16, 2, M>(on, bfp),
        Number::F16 => tiles::<F16, 2, M>(on, bfp),
        _ => scalar(on),
    }
}

#[inline(always)]
fn tiles<L: Lane<N>, const N: usize, const M: u32>(on: Unpacking<'_>, bfp: Bfp) {
    let a = on.args;
    let (codec, tile) = (on.codec, on.codec.tile());
    let groups = Groups::<M> { bfp, compat: codec.options().compat_unpack };
    let mut bytes = [0; TileShape::MAX_ELEMENTS];
    if codec.options().transposed || a.dst_col != N as isize {
        let mut scratch = [[MaybeUninit::new(0); N]; TileShape::MAX_ELEMENTS];
        for t in 0..a.tiles {
            let (exponents, packed) = on.tile(t).split_at(codec.header_bytes());
            let codes = spread::<M>(packed, &mut bytes);
            for (g, out) in scratch[..tile.elements()].chunks_exact_mut(GROUP).enumerate() {
                groups.decode::<L, N>(exponents, codes, g, 0, out);
            }
            for r in 0..a.rows {
                for c in 0..a.cols {
                    let at = on.place(t, r, c);
                    on.dst[at..][..N].copy_from_slice(&scratch[codec.slot(a.row0 + r, a.col0 + c)]);
                }
            }
        }
        return;
    }
    let end = a.col0 + a.cols;
    for t in 0..a.tiles {
        let (exponents, packed) = on.tile(t).split_at(codec.header_bytes());
        let codes = spread::<M>(packed, &mut bytes);
        for r in 0..a.rows {
            let line = on.place(t, r, 0);
            let line = on.dst[line..][..a.cols * N].as_chunks_mut::<N>().0;
            for left in (a.col0 / GROUP * GROUP..end).step_by(GROUP) {
                let group = tile.slot(a.row0 + r, left) / GROUP;
                let (from, to) = (left.max(a.col0), (left + GROUP).min(end));
                groups.decode::<L, N>(
                    exponents,
                    codes,
                    group,
                    from - left,
                    &mut line[from - a.col0..to - a.col0],
                );
            }
        }
    }
}

/// How the groups of a packed tile decode.
struct Groups<const M: u32> {
    bfp: Bfp,
    compat: bool,
}

impl<const M: u32> Groups<M> {
    /// Decodes elements `first`.. of a group until `out` is full.
    #[inline(always)]
    fn decode<L: Lane<N>, const N: usize>(
        &self,
        exponents: &[u8],
        codes: &[u8],
        group: usize,
        first: usize,
        out: &mut [[MaybeUninit<u8>; N]],
    ) {
        let (shared, codes) = (exponents[group], &codes.as_chunks().0[group]);
        match (self.scale(shared), <&mut [_; GROUP]>::try_from(&mut *out)) {
            (Some(scale), Ok(out)) => put::<L, N>(&scaled::<M>(codes, scale), out),
            (Some(scale), Err(_)) => put::<L, N>(&scaled::<M>(codes, scale)[first..], out),
            (None, _) => self.by_the_rule::<L, N>(&codes[first..], shared, out),
        }
    }

    /// The scale under which a group's values are its magnitudes times the scale; `None` where they are not.
    #[inline(always)]
    fn scale(&self, shared: u8) -> Option<f32> {
        // The exponent field of 2^(shared - bias - (M - 1)); -5 at the least, which is a subnormal.
        let field = i32::from(shared) + if self.bfp.narrow { 112 } else { 0 } - (M as i32 - 1);
        // Where normalising neither underflows nor reaches exponent 255 the library is exact; elsewhere its quirk counts.
        let quirk = self.compat && !(7..=if self.bfp.narrow { 142 } else { 254 }).contains(&shared);
        // Finite scales only, so that zero times the scale is zero.
        let bits = if field > 0 { (field as u32) << 23 } else { 1 << (22 + field) };
        (!quirk && field <= 254).then(|| f32::from_bits(bits))
    }

    #[cold]
    #[inline(never)]
    fn by_the_rule<L: Lane<N>, const N: usize>(
        &self,
        codes: &[u8],
        shared: u8,
        out: &mut [[MaybeUninit<u8>; N]],
    ) {
        for (out, &code) in out.iter_mut().zip(codes) {
            let value = if self.compat {
                self.bfp.unpack_compat(code, shared)
            } else {
                self.bfp.unpack(code, shared)
            };
            *out = L::narrow(value.to_bits()).map(MaybeUninit::new);
        }
    }
}

/// The values of a group under a finite scale, as binary32 bits.
#[inline(always)]
fn scaled<const M: u32>(codes: &[u8; GROUP], scale: f32) -> [u32; GROUP] {
    let mut values = [0; GROUP];
    for (value, code) in values.iter_mut().zip(codes) {
        let magnitude = i32::from(code & ((1 << M) - 1)) as f32;
        *value = (magnitude * scale).to_bits() | u32::from(code >> M & 1) << 31;
    }
    values
}

#[inline(always)]
fn put<L: Lane<N>, const N: usize>(values: &[u32], out: &mut [[MaybeUninit<u8>; N]]) {
    for (out, bits) in out.iter_mut().zip(values) {
        *out = L::narrow(*bits).map(MaybeUninit::new);
    }
}

/// The codes of M + 1 bits of a whole tile, a byte each; bits above a code are not cleared.
#[inline(always)]
fn spread<'a, const M: u32>(packed: &'a [u8], bytes: &'a mut [u8; TileShape::MAX_ELEMENTS]) -> &'a [u8] {
    match M {
        7 => return packed,
        3 => {
            for (pair, &byte) in bytes.as_chunks_mut::<2>().0.iter_mut().zip(packed) {
                *pair = (u16::from(byte) | u16::from(byte) << 4).to_le_bytes();
            }
        }
        _ => {
            for (quad, &byte) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(packed) {
                let w = u32::from(byte);
                *quad = (w | w << 6 | w << 12 | w << 18).to_le_bytes();
            }
        }
    }
    bytes
}

/// Each element is [`BlockCodec::decode_at`], converted.
pub(crate) fn scalar(on: Unpacking<'_>) {
    let a = on.args;
    for t in 0..a.tiles {
        for r in 0..a.rows {
            for c in 0..a.cols {
                let value = on.codec.decode_at(on.tile(t), a.row0 + r, a.col0 + c);
                let bits = Number::F32.convert(on.to, value.to_bits().into());
                write(on.to, on.dst, on.place(t, r, c), bits);
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod sweep {
    use super::*;
    use crate::Rounding;
    use crate::mem::assume_written;
    use crate::pack::sweep::{Random, codecs};

    /// Every codec and destination format on random bytes, all exponents among them, through whole and partial rectangles and
    /// every arrangement that takes a path of its own.
    pub(crate) fn sweep(tested: &Kernels, rule: &Kernels) {
        let mut random = Random::new(7);
        let reading =
            |codec: &BlockCodec| codec.options().rounding == Rounding::Host && !codec.options().search;
        for codec in codecs().filter(reading) {
            let (tile, bytes) = (codec.tile(), codec.tile_bytes());
            let (rows, cols) = (tile.rows(), tile.cols());
            let src: Vec<u8> = (0..3 * bytes + 40).map(|_| random.next() as u8).collect();
            for to in Number::ALL {
                let size = to.size() as isize;
                for (row0, col0, rows, cols) in [
                    (0, 0, rows, cols),
                    (rows / 2, 3, rows - rows / 2, cols - 3),
                    (0, 1, 1, 1),
                    (0, 9, rows, 7),
                ] {
                    let (r, c) = (rows as isize, cols as isize);
                    for (dst_tile, dst_row, dst_col) in [
                        (c * size, 2 * c * size, size),
                        (r * c * size + 5, c * size, size),
                        (r * c * size, size, r * size),
                    ] {
                        let args = UnpackArgs {
                            tiles: 2,
                            src_at: 3,
                            src_tile: bytes + 20,
                            row0,
                            col0,
                            rows,
                            cols,
                            dst_at: 1,
                            dst_tile,
                            dst_row,
                            dst_col,
                        };
                        let run = |kernels: &Kernels| {
                            let mut dst = vec![MaybeUninit::new(0xEE); 2 * rows * cols * to.size() + 8];
                            kernels.unpack(&codec, to, &src, &args, &mut dst);
                            assume_written(dst)
                        };
                        let (got, want) = (run(tested), run(rule));
                        assert!(
                            got == want,
                            "{} unpack {codec:?} to {} by {args:?}, {random:?}",
                            tested.isa().name(),
                            to.name()
                        );
                    }
                }
            }
        }
    }
}
