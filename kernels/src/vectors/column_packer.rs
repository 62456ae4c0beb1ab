//! Packing of what has columns that are runs of the source: 16 elements of a column, one of each row of a face, are an array.
//! Sixteen groups lie side by side then, and no vector is searched for its largest lane.
//!
//! Faces have 16 columns, those of a tile, or 32, rows of which are blocks of an MX format.

use std::mem::{self, MaybeUninit};
use std::ops::Range;

use super::encode::{CodeLoop, Encode, MAX_GROUPS};
use super::groups::GroupLane;
use super::interleave::transpose_bytes;
use super::scales::Plain;
use super::tile_packer::{
    Finish, exponents, factors, fails, join, put_scalar, put_shared, shared, split_header,
};
use crate::formats::{GROUP, MX_BLOCK, TileShape};
use crate::memory::{Arrays, LineAligned, as_uninit, as_written, prefetch_l2};

/// Packs tiles of one shape, or as many blocks as the largest tile has, whose columns are known by their offsets, face by face, one after
/// another. A face has `COLS` columns.
pub(crate) struct ColumnPacker<E, L: GroupLane<N>, const N: usize, const COLS: usize> {
    encode: E,
    /// Arrays of all faces.
    columns: usize,
    /// The largest magnitudes of the tile that is packed next, face by face.
    largest: [L::Largest; FACES],
    /// Its columns. They are loaded while the tile before is packed: L1 takes lines that share a set one by one, and does not
    /// keep more than some of them until they are read again.
    kept: LineAligned<[[[u8; N]; GROUP]; MAX_GROUPS]>,
    codes: LineAligned<[[u16; GROUP]; MAX_GROUPS]>,
    /// Finished codes, column by column.
    finished: LineAligned<[[[u8; GROUP]; GROUP]; FACES]>,
}

impl<E: Encode, L: GroupLane<N>, const N: usize, const COLS: usize> ColumnPacker<E, L, N, COLS> {
    /// Rows of a face that share a scale: a row of 32 columns has one of its own.
    const ROWS_PER_SCALE: usize = E::GROUPS_PER_SCALE * GROUP / COLS;

    /// For so many arrays, those of whole faces: at most as many as the largest tile has.
    #[inline(always)]
    pub(crate) fn new(encode: E, columns: usize) -> ColumnPacker<E, L, N, COLS> {
        assert!(COLS == GROUP || COLS == MX_BLOCK && E::GROUPS_PER_SCALE == 2);
        ColumnPacker {
            encode,
            columns,
            largest: [L::Largest::default(); FACES],
            kept: LineAligned([[[0; N]; GROUP]; MAX_GROUPS]),
            codes: LineAligned([[0; GROUP]; MAX_GROUPS]),
            finished: LineAligned([[[0; GROUP]; GROUP]; FACES]),
        }
    }

    /// Takes the first tile.
    #[inline(always)]
    pub(crate) fn start(&mut self, tile: Arrays<'_, N, GROUP>) {
        for (i, (kept, column)) in self.kept.0.iter_mut().zip(tile.groups(0..self.columns)).enumerate() {
            L::raise(&mut self.largest[i / COLS], column);
            *kept = *column;
        }
    }

    /// Packs the first of two tiles, which was taken before; takes the second, which is the next one; and prefetches as many
    /// columns that come later.
    #[inline(always)]
    pub(crate) fn pack(
        &mut self,
        [here, next]: [Arrays<'_, N, GROUP>; 2],
        later: Arrays<'_, N, GROUP>,
        out: &mut [MaybeUninit<u8>],
    ) {
        let ColumnPacker { encode, columns, largest, .. } = self;
        let (LineAligned(kept), LineAligned(codes)) = (&mut self.kept, &mut self.codes);
        let LineAligned(finished) = &mut self.finished;
        let (encode, columns) = (*encode, *columns);
        let mut amax = [[0; GROUP]; FACES];
        for (amax, largest) in amax.iter_mut().zip(&mut *largest) {
            *amax = L::amax_of_each(mem::take(largest));
        }
        let pairs = Self::ROWS_PER_SCALE == 2;
        let amax = amax.as_flattened().try_into().expect("as many groups");
        let exponents = exponents::<L, N>(amax, &Plain::<L>::NEW, pairs);
        let factors = factors(encode, &exponents);
        encode.make_codes(ColumnLoop::<L, N, COLS> {
            next,
            later,
            columns,
            factors: &factors,
            codes,
            largest,
            kept,
        });
        let all = finished.as_flattened_mut().as_flattened_mut();
        encode.finish(Finish { codes: codes.as_flattened(), bytes: as_written(all) });
        let (header, out) = split_header::<E>(columns, out);
        let shared = match encode.code_bits() {
            8 => put_in_rows::<E, L, N, COLS>(encode, columns, here, &exponents, finished, out),
            bits => {
                let LineAligned(bytes) = &mut LineAligned([0; TileShape::MAX_ELEMENTS]);
                let shared = put_in_rows::<E, L, N, COLS>(
                    encode,
                    columns,
                    here,
                    &exponents,
                    finished,
                    as_written(bytes),
                );
                join(bits, bytes, out);
                shared
            }
        };
        put_shared(&shared[..columns * GROUP / COLS], Self::ROWS_PER_SCALE, header);
    }
}

/// Puts the finished codes of all faces in rows, those of groups for which the arithmetic fails by the scalar rule; what groups share.
#[inline(always)]
fn put_in_rows<E: Encode, L: GroupLane<N>, const N: usize, const COLS: usize>(
    encode: E,
    columns: usize,
    here: Arrays<'_, N, GROUP>,
    exponents: &[u8; MAX_GROUPS],
    finished: &[[[u8; GROUP]; GROUP]; FACES],
    bytes: &mut [MaybeUninit<u8>],
) -> [u8; MAX_GROUPS] {
    if COLS == GROUP {
        for (to, face) in bytes.as_chunks_mut().0.iter_mut().zip(finished) {
            let rows: [u8; GROUP * GROUP] = bytemuck::cast(transpose_bytes(*face));
            *to = rows.map(MaybeUninit::new);
        }
    } else {
        for (to, halves) in bytes.chunks_exact_mut(COLS * GROUP).zip(finished.as_chunks::<2>().0) {
            for (half, columns) in halves.iter().enumerate() {
                let rows = to.as_chunks_mut::<GROUP>().0.iter_mut().skip(half).step_by(2);
                for (to, row) in rows.zip(transpose_bytes(*columns)) {
                    to.copy_from_slice(as_uninit(&row));
                }
            }
        }
    }
    let (mut shared, all_hold) = shared(encode, exponents);
    if !all_hold {
        let rows = ColumnPacker::<E, L, N, COLS>::ROWS_PER_SCALE;
        // Found when they are first asked for: of 32 columns half of the exponents are of no group, and the arithmetic fails for these.
        let mut zeros = None;
        for g in fails(encode, exponents, columns * GROUP / COLS, rows) {
            let zeros = zeros.get_or_insert_with(|| zero_rows::<L, N, COLS>(columns, here));
            if let (true, Some(of_zeros)) =
                (zeros[g..g + rows].iter().all(|is_zero| *is_zero), encode.of_zeros())
            {
                shared[g] = of_zeros;
                continue;
            }
            let mut values = [[0.0; GROUP]; 2];
            let row =
                |i: usize| here.groups(of_face::<COLS>(g / GROUP)).map(move |column| column[g % GROUP + i]);
            for (value, element) in values.as_flattened_mut().iter_mut().zip((0..rows).flat_map(row)) {
                *value = f32::from_bits(L::widen(element));
            }
            shared[g] = put_scalar(encode, &values, &mut bytes[g * COLS..]);
        }
    }
    shared
}

/// Of each row of all faces, whether its elements are zeros.
#[inline(always)]
fn zero_rows<L: GroupLane<N>, const N: usize, const COLS: usize>(
    columns: usize,
    tile: Arrays<'_, N, GROUP>,
) -> [bool; MAX_GROUPS] {
    let mut bits = [[0; GROUP]; FACES];
    for (face, bits) in bits.iter_mut().enumerate().take(columns / COLS) {
        for column in tile.groups(of_face::<COLS>(face)) {
            bits.iter_mut().zip(column).for_each(|(bits, element)| *bits |= L::widen(*element) << 1);
        }
    }
    let mut zeros = [false; MAX_GROUPS];
    zeros.iter_mut().zip(bits.as_flattened()).for_each(|(is_zero, bits)| *is_zero = *bits == 0);
    zeros
}

/// Faces of the largest tile.
const FACES: usize = MAX_GROUPS / GROUP;

/// The columns of a face.
#[inline(always)]
fn of_face<const COLS: usize>(face: usize) -> Range<usize> {
    face * COLS..(face + 1) * COLS
}

/// The loop over the columns of a tile's faces: makes their codes column by column, and takes those of the next tile.
struct ColumnLoop<'a, L: GroupLane<N>, const N: usize, const COLS: usize> {
    next: Arrays<'a, N, GROUP>,
    later: Arrays<'a, N, GROUP>,
    columns: usize,
    factors: &'a [f32; MAX_GROUPS],
    codes: &'a mut [[u16; GROUP]; MAX_GROUPS],
    largest: &'a mut [L::Largest; FACES],
    kept: &'a mut [[[u8; N]; GROUP]; MAX_GROUPS],
}

impl<L: GroupLane<N>, const N: usize, const COLS: usize> CodeLoop for ColumnLoop<'_, L, N, COLS> {
    const SHORT: bool = L::SHORT;

    #[inline(always)]
    fn each<E: Encode>(mut self, _encode: &E, code: impl Fn(u32, f32) -> u32) {
        let faces = self.columns / COLS;
        match faces / 2 {
            0 => self.faces([0], &code),
            below => {
                for face in 0..below {
                    self.faces([face, face + below], &code);
                }
            }
        }
    }
}

impl<L: GroupLane<N>, const N: usize, const COLS: usize> ColumnLoop<'_, L, N, COLS> {
    /// Columns of faces that lie below each other, by turns: they may share lines of the source.
    #[inline(always)]
    fn faces<const M: usize>(&mut self, of: [usize; M], code: impl Fn(u32, f32) -> u32) {
        let ColumnLoop { next, later, factors, codes, largest, kept, .. } = self;
        let of = of.map(|face| face % FACES);
        let factors: [&[f32; GROUP]; M] = of.map(|face| &factors.as_chunks().0[face % FACES]);
        let mut raised = of.map(|face| largest[face]);
        // What raises it has vectors in it. Of a loop without any the compiler would make one that gathers elements of
        // several columns.
        for column in 0..COLS {
            for i in 0..M {
                let g = (of[i] * COLS + column) % MAX_GROUPS;
                prefetch_l2(later.get(g));
                // Made before any is stored: the compiler does not know that they lie apart from the column.
                let mut made = [0; GROUP];
                for ((to, x), factor) in made.iter_mut().zip(&kept[g]).zip(factors[i]) {
                    *to = code(L::finite(*x), *factor) as u16;
                }
                codes[g] = made;
                let next = next.get(g);
                L::raise(&mut raised[i], next);
                kept[g] = *next;
            }
        }
        for (face, raised) in of.iter().zip(raised) {
            largest[*face] = raised;
        }
    }
}
