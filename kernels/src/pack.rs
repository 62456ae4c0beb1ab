//! Packing of tiles into block formats, read in place.
//!
//! The walk over tiles, groups and packed bytes is here; what a family of formats does with a group is its [`Encode`].

use std::mem::MaybeUninit;

use crate::bfp::GROUP;
use crate::block::Rule;
use crate::convert::read;
use crate::lane::{Bf16, F16, F32, Lane, Peak};
use crate::mem::{Arrays, Places, as_uninit, prefetch_later};
use crate::window::turns_lie_inside;
use crate::{BlockCodec, Isa, Kernels, Number, TileShape};

/// A row of tiles to pack: where their elements come from and where the packed tiles go.
///
/// Element (r, c) of tile t is at byte `src_at + t * src_tile + r * src_row + c * src_col` of the source. Only the first
/// `rows` rows and `cols` columns of each tile are read (none if either is 0); the rest of the tile is `pad`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PackArgs {
    /// Number of tiles.
    pub tiles: usize,
    /// Byte of the first tile's element (0, 0).
    pub src_at: usize,
    /// Bytes from a tile to the next.
    pub src_tile: isize,
    /// Bytes from an element to the one in the next row.
    pub src_row: isize,
    /// Bytes from an element to the one in the next column.
    pub src_col: isize,
    /// Rows that have elements, at most those of the tile.
    pub rows: usize,
    /// Columns that have elements, at most those of the tile.
    pub cols: usize,
    /// What the rest of a tile holds; it is packed like data.
    pub pad: f32,
    /// Bytes from a packed tile to the next, at least those of a tile.
    pub dst_tile: usize,
}

impl Kernels {
    /// Packs a row of tiles of elements of format `from` by [`BlockCodec::pack_scalar`]'s rule: each element is
    /// converted to f32 (one rounding, for f64 only), then packed. Tile t goes to byte `dst_at + t * dst_tile` of `dst`.
    ///
    /// Fast are all formats; fastest is f32, bf16 or f16 with contiguous columns.
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
        dst: &mut [MaybeUninit<u8>],
        dst_at: usize,
    ) {
        let (a, tile) = (*args, codec.tile());
        assert!(a.rows <= tile.rows() && a.cols <= tile.cols(), "{a:?} is larger than a {tile} tile");
        if a.tiles == 0 {
            return;
        }
        if a.rows > 0 && a.cols > 0 {
            let (tiles, row, col) = ([(a.tiles, a.src_tile)], (a.rows, a.src_row), (a.cols, a.src_col));
            assert!(
                turns_lie_inside(src.len(), a.src_at, from.size(), row, col, tiles.into_iter()),
                "{} elements of {a:?} leave a source of {} bytes",
                from.name(),
                src.len()
            );
        }
        let bytes = codec.tile_bytes();
        assert!(a.tiles == 1 || a.dst_tile >= bytes, "{a:?} packs tiles of {bytes} bytes over each other");
        let end =
            (a.tiles - 1).checked_mul(a.dst_tile).and_then(|n| n.checked_add(bytes)?.checked_add(dst_at));
        assert!(
            end.is_some_and(|end| end <= dst.len()),
            "tiles of {bytes} bytes of {a:?} from byte {dst_at} leave a destination of {} bytes",
            dst.len()
        );
        // SSE2 has no instruction for `f32::trunc`: a call for each element.
        let truncates = !cfg!(target_arch = "x86_64") || self.isa() >= Isa::V3;
        self.table.pack(Packing { codec, from, src, args: a, dst, dst_at, truncates });
    }
}

/// Tiles whose bytes [`Kernels::pack`] has found to lie inside both slices.
pub(crate) struct Packing<'a> {
    codec: &'a BlockCodec,
    from: Number,
    src: &'a [u8],
    args: PackArgs,
    dst: &'a mut [MaybeUninit<u8>],
    dst_at: usize,
    /// Whether the level has an instruction for [`f32::trunc`].
    truncates: bool,
}

impl Packing<'_> {
    /// Byte of element (0, 0) of tile `t`.
    #[inline(always)]
    fn at(&self, t: usize) -> usize {
        self.args.src_at.wrapping_add_signed((t as isize).wrapping_mul(self.args.src_tile))
    }

    /// Where tile `t` goes.
    #[inline(always)]
    fn out(&mut self, t: usize) -> &mut [MaybeUninit<u8>] {
        &mut self.dst[self.dst_at + t * self.args.dst_tile..][..self.codec.tile_bytes()]
    }
}

/// What a family of formats does with groups of 16 elements.
///
/// Its rule for a group depends on the group's largest magnitude: that sets the shared byte and a factor which brings the
/// elements to where one addition rounds them. Groups for which this arithmetic fails are rare, and take the scalar rule.
pub(crate) trait Encode: Copy {
    /// Groups that share a byte: 1 or 2.
    const SHARING: usize;

    /// Whether [`Encode::search`] finds better exponents.
    const SEARCHES: bool = false;

    /// Bits of a code: 8, 4 or 2.
    fn code_bits(&self) -> usize;

    /// Whether elements are to be confined before anything else.
    fn confines(&self) -> bool {
        false
    }

    /// The binary32 that stands for another one, given by their bits.
    #[inline(always)]
    fn confine(&self, bits: u32) -> u32 {
        bits
    }

    /// The shared byte for elements of which the largest has this binary32 exponent field, and whether the arithmetic
    /// holds there.
    fn shared(&self, exponent: u32) -> (u8, bool);

    /// The factor for such elements; any number where the arithmetic does not hold.
    fn factor(&self, exponent: u32) -> f32;

    /// Replaces the exponents of groups, those of their largest magnitudes (`peaks`), by better ones.
    #[inline(always)]
    fn search<L: Peak<N>, const N: usize>(
        &self,
        _groups: &Arrays<'_, N, GROUP>,
        _peaks: &[u16],
        _exponents: &mut [u32],
    ) {
    }

    /// Hands [`Walk::each`] what makes codes, as [`Encode::finish`] takes them, of a group and its factor.
    fn walk<L: Peak<N>, const N: usize>(&self, walk: Walk<'_, N>);

    /// The code as it is stored, with nothing above it. A step of its own, because it is done in vectors of bytes.
    fn finish(&self, code: u16) -> u8;

    /// The scalar rule for all elements that share a byte: the byte, and their codes as [`Encode::finish`] takes them.
    fn by_the_rule(&self, values: &[f32], codes: &mut [u16]) -> u8;
}

/// Most groups that a tile can have.
const GROUPS: usize = TileShape::MAX_ELEMENTS / GROUP;

/// What becomes of the groups of a tile, and what is found out about those of the next one.
pub(crate) struct Walk<'a, const N: usize> {
    /// This tile, the next one, and one that comes later, to be prefetched.
    tiles: [Arrays<'a, N, GROUP>; 3],
    groups: usize,
    /// Of this tile, unless its peaks are found here.
    factors: &'a [f32; GROUPS],
    codes: &'a mut [[u16; GROUP]; GROUPS],
    /// Of the next tile, or of this one if they are found at once.
    peaks: &'a mut [u16; GROUPS],
}

impl<const N: usize> Walk<'_, N> {
    /// Makes the codes of all groups. Meanwhile it finds the peaks of the next tile, so that no group waits for its own;
    /// or each group's own ([`Peak::AT_ONCE`]).
    ///
    /// For the compiler it must be one group at a time, as across groups it would gather elements. It unrolls no loop whose
    /// length it does not know, and vectorises none that already has vectors in it.
    #[inline(always)]
    pub(crate) fn each<E: Encode, L: Peak<N>>(
        self,
        encode: &E,
        codes: impl Fn(&[[u8; N]; GROUP], f32) -> [u16; GROUP],
    ) {
        let Walk { tiles, groups, factors, codes: out, peaks } = self;
        let sources = Arrays::side_by_side(tiles, 0..groups).zip(&factors[..groups]);
        for ((out, peak), ([here, next, ahead], factor)) in
            out[..groups].iter_mut().zip(&mut peaks[..groups]).zip(sources)
        {
            prefetch_later(ahead);
            if at_once::<E, L, N>() {
                *peak = L::peak(here);
                *out = codes(here, encode.factor(L::exponent(*peak)));
            } else {
                *peak = L::peak(next);
                *out = codes(here, *factor);
            }
        }
    }

    /// [`Walk::each`] with codes that are [`Peak::multiples`]; `sum` gets an element and its group's factor.
    #[inline(always)]
    pub(crate) fn nearest<E: Encode, L: Peak<N>>(self, encode: &E, sum: impl Fn(f32, f32) -> f32) {
        self.each::<E, L>(
            encode,
            #[inline(always)]
            |group, factor| {
                L::multiples(
                    group,
                    #[inline(always)]
                    |x| sum(x, factor),
                )
            },
        );
    }
}

/// Whether [`Walk::each`] itself finds the peaks of the groups whose codes it makes.
const fn at_once<E: Encode, L: Peak<N>, const N: usize>() -> bool {
    L::AT_ONCE && E::SHARING == 1 && !E::SEARCHES
}

/// Vector code where there is some, the rule for the rest.
#[inline(always)]
pub(crate) fn body(on: Packing<'_>) {
    let options = on.codec.options();
    if options.compact {
        return scalar(on);
    }
    match on.codec.rule() {
        Rule::Bfp(bfp) if options.search => {
            let encode = bfp.encode::<true>(options.rounding, on.truncates);
            tiles(on, encode);
        }
        Rule::Bfp(bfp) => {
            let encode = bfp.encode::<false>(options.rounding, on.truncates);
            tiles(on, encode);
        }
        Rule::Mx(element) => {
            let encode = element.vector(on.codec.format());
            tiles(on, encode);
        }
    }
}

#[inline(always)]
fn tiles<E: Encode>(on: Packing<'_>, encode: E) {
    let (args, tile) = (on.args, on.codec.tile());
    let whole = args.rows == tile.rows() && args.cols == tile.cols();
    let in_place = whole && !on.codec.options().transposed && !encode.confines();
    match on.from {
        Number::F32 if in_place && args.src_col == 4 => in_place_tiles::<E, F32, 4>(on, encode),
        // What reads elements more than once prefers them widened.
        Number::Bf16 if in_place && !E::SEARCHES && args.src_col == 2 => {
            in_place_tiles::<E, Bf16, 2>(on, encode)
        }
        Number::F16 if in_place && !E::SEARCHES && args.src_col == 2 => {
            in_place_tiles::<E, F16, 2>(on, encode)
        }
        _ => gathered_tiles(on, encode),
    }
}

#[inline(always)]
fn in_place_tiles<E: Encode, L: Peak<N>, const N: usize>(mut on: Packing<'_>, encode: E) {
    let (args, tile) = (on.args, on.codec.tile());
    let places = places::<N>(tile, args.src_row);
    // A call may be of few tiles, and the next one of those that follow.
    let more = [(args.tiles.saturating_add(AHEAD), args.src_tile)].into_iter();
    let (row, col) = ((args.rows, args.src_row), (args.cols, args.src_col));
    let follow = turns_lie_inside(on.src.len(), args.src_at, N, row, col, more);
    let last = args.tiles - 1 + if follow { AHEAD } else { 0 };
    let src = on.src;
    let mut packer = Packer::<E, N>::new(encode, tile);
    if !at_once::<E, L, N>() {
        packer.start::<L>(places.from(src, on.at(0)));
    }
    for t in 0..args.tiles {
        let (next, ahead) = ((t + 1).min(args.tiles - 1), (t + AHEAD).min(last));
        let tiles =
            [places.from(src, on.at(t)), places.from(src, on.at(next)), places.from(src, on.at(ahead))];
        packer.pack::<L>(tiles, on.out(t));
    }
}

/// Each tile is gathered as f32, in the rows and columns that are stored, and packed from there.
#[inline(always)]
fn gathered_tiles<E: Encode>(mut on: Packing<'_>, encode: E) {
    let (args, tile) = (on.args, on.codec.tile());
    let transposed = on.codec.options().transposed;
    let stored = if transposed { tile.transposed().unwrap_or(tile) } else { tile };
    let places = places::<4>(stored, 4 * stored.cols() as isize);
    let (rows, cols, row, col) = match transposed {
        true => (args.cols, args.rows, args.src_col, args.src_row),
        false => (args.rows, args.cols, args.src_row, args.src_col),
    };
    let mut scratch = [[0; 4]; TileShape::MAX_ELEMENTS];
    scratch.fill(args.pad.to_le_bytes());
    let mut packer = Packer::<E, 4>::new(encode, stored);
    for t in 0..args.tiles {
        let (src, at) = (on.src, on.at(t));
        for (r, line) in scratch.chunks_exact_mut(stored.cols()).take(rows).enumerate() {
            let (at, line) = (at.wrapping_add_signed((r as isize).wrapping_mul(row)), &mut line[..cols]);
            match on.from {
                Number::F32 => gather::<F32, 4>(src, at, col, line),
                Number::Bf16 => gather::<Bf16, 2>(src, at, col, line),
                Number::F16 => gather::<F16, 2>(src, at, col, line),
                other => {
                    for (c, to) in line.iter_mut().enumerate() {
                        let at = at.wrapping_add_signed((c as isize).wrapping_mul(col));
                        *to = (other.convert(Number::F32, read(other, src, at)) as u32).to_le_bytes();
                    }
                }
            }
        }
        if encode.confines() {
            for code in &mut scratch {
                *code = encode.confine(u32::from_le_bytes(*code)).to_le_bytes();
            }
        }
        let here = places.from(scratch.as_flattened(), 0);
        packer.start::<F32>(here);
        packer.pack::<F32>([here; 3], on.out(t));
    }
}

/// Elements `col` bytes apart, from byte `at`, as f32.
#[inline(always)]
fn gather<L: Lane<N>, const N: usize>(src: &[u8], at: usize, col: isize, line: &mut [[u8; 4]]) {
    if col == N as isize {
        let run = src[at..][..N * line.len()].as_chunks().0;
        line.iter_mut().zip(run).for_each(|(to, from)| *to = L::widen(*from).to_le_bytes());
    } else {
        for (c, to) in line.iter_mut().enumerate() {
            let at = at.wrapping_add_signed((c as isize).wrapping_mul(col));
            let element = src[at..].first_chunk().expect("an element of a checked window");
            *to = L::widen(*element).to_le_bytes();
        }
    }
}

/// Where the groups of a tile begin, in storage order, for elements of `N` bytes in rows `row` bytes apart. What is
/// beyond the last group repeats the first.
#[inline(always)]
fn places<const N: usize>(tile: TileShape, row: isize) -> Places<N, GROUP> {
    let mut places = [0; GROUPS];
    // Face by face: a kernel may be called for a tile or two.
    let across = tile.cols() / GROUP;
    for (face, places) in
        places.chunks_mut(tile.face_rows()).take(tile.elements() / GROUP / tile.face_rows()).enumerate()
    {
        let corner = (face / across * tile.face_rows()) as isize;
        let corner = corner.wrapping_mul(row).wrapping_add((face % across * GROUP * N) as isize);
        for (r, place) in places.iter_mut().enumerate() {
            *place = (r as isize).wrapping_mul(row).wrapping_add(corner);
        }
    }
    Places::new(places)
}

/// How many tiles ahead the source is prefetched, into L2. On 32 MiB of f32 3 are up to twice as fast as 1.
const AHEAD: usize = 3;

/// Tiles of one shape with contiguous columns, and what is known of the one to be packed.
struct Packer<E, const N: usize> {
    encode: E,
    groups: usize,
    peaks: [u16; GROUPS],
    codes: [[u16; GROUP]; GROUPS],
}

impl<E: Encode, const N: usize> Packer<E, N> {
    #[inline(always)]
    fn new(encode: E, tile: TileShape) -> Packer<E, N> {
        let groups = tile.elements() / GROUP;
        Packer { encode, groups, peaks: [0; GROUPS], codes: [[0; GROUP]; GROUPS] }
    }

    /// Finds the peaks of the first tile.
    #[inline(always)]
    fn start<L: Peak<N>>(&mut self, tile: Arrays<'_, N, GROUP>) {
        for (peak, group) in self.peaks[..self.groups].iter_mut().zip(tile.groups(0..self.groups)) {
            *peak = L::peak(group);
        }
    }

    /// Packs one tile, its groups in storage order, and finds the peaks of the next one; asks for the lines of the tile `ahead`
    /// meanwhile.
    ///
    /// The codes of the whole tile are finished at the end: a vector of them is wider than what was stored of a group, and
    /// loading it has to wait for the stores.
    #[inline(always)]
    fn pack<L: Peak<N>>(&mut self, tiles: [Arrays<'_, N, GROUP>; 3], out: &mut [MaybeUninit<u8>]) {
        let Packer { encode, groups, ref mut peaks, ref mut codes } = *self;
        let [here, ..] = tiles;
        let mut exponents = [0; GROUPS];
        if at_once::<E, L, N>() {
            encode.walk::<L, N>(Walk { tiles, groups, factors: &[0.0; GROUPS], codes, peaks });
        }
        for (exponent, &peak) in exponents.iter_mut().zip(&*peaks) {
            *exponent = L::exponent(peak);
        }
        if E::SHARING == 2 {
            for pair in exponents.as_chunks_mut::<2>().0 {
                *pair = [pair[0].max(pair[1]); 2];
            }
        }
        if E::SEARCHES {
            encode.search::<L, N>(&here, &peaks[..groups], &mut exponents);
        }
        let mut factors = [0.0; GROUPS];
        for (factor, &exponent) in factors.iter_mut().zip(&exponents) {
            *factor = encode.factor(exponent);
        }
        if !at_once::<E, L, N>() {
            encode.walk::<L, N>(Walk { tiles, groups, factors: &factors, codes, peaks });
        }

        // Of each group the byte that it shares.
        let mut shared = [0; GROUPS];
        let mut all_hold = true;
        for (shared, &exponent) in shared.iter_mut().zip(&exponents) {
            let holds;
            (*shared, holds) = encode.shared(exponent);
            all_hold &= holds;
        }
        if !all_hold {
            for g in (0..groups).step_by(E::SHARING) {
                if encode.shared(exponents[g]).1 {
                    continue;
                }
                let block = g..g + E::SHARING;
                let mut values = [[0.0; GROUP]; 2];
                let elements = here.groups(block.clone()).flatten();
                for (value, code) in values.as_flattened_mut().iter_mut().zip(elements) {
                    *value = f32::from_bits(L::widen(*code));
                }
                let codes = codes[block].as_flattened_mut();
                shared[g] = encode.by_the_rule(&values.as_flattened()[..codes.len()], codes);
            }
        }

        let shares = groups / E::SHARING;
        let (header, out) = out.split_at_mut(shares.next_multiple_of(16));
        store(encode, codes.as_flattened(), out);
        let (used, rest) = header.split_at_mut(shares);
        for (byte, shared) in used.iter_mut().zip(shared.chunks_exact(E::SHARING)) {
            byte.write(shared[0]);
        }
        rest.fill(MaybeUninit::new(0));
    }
}

/// Finishes codes and puts them side by side, the first in the lowest bits, until `out` is full.
#[inline(always)]
fn store<E: Encode>(encode: E, codes: &[u16], out: &mut [MaybeUninit<u8>]) {
    if encode.code_bits() == 8 {
        for (out, code) in out.iter_mut().zip(codes) {
            out.write(encode.finish(*code));
        }
        return;
    }
    let mut bytes = [0; TileShape::MAX_ELEMENTS];
    for (byte, code) in bytes.iter_mut().zip(codes) {
        *byte = encode.finish(*code);
    }
    if encode.code_bits() == 4 {
        for (out, pair) in out.iter_mut().zip(bytes.as_chunks::<2>().0) {
            let w = u16::from_le_bytes(*pair);
            out.write((w | w >> 4) as u8);
        }
    } else {
        for (out, quad) in out.iter_mut().zip(bytes.as_chunks::<4>().0) {
            let w = u32::from_le_bytes(*quad);
            out.write((w | w >> 6 | w >> 12 | w >> 18) as u8);
        }
    }
}

/// Each tile is gathered row-major and packed by [`BlockCodec::pack_scalar`].
pub(crate) fn scalar(mut on: Packing<'_>) {
    let (codec, args, tile) = (on.codec, on.args, on.codec.tile());
    let mut packed = [0; 2048];
    let packed = &mut packed[..codec.tile_bytes()];
    let mut values = [args.pad; TileShape::MAX_ELEMENTS];
    let values = &mut values[..tile.elements()];
    for t in 0..args.tiles {
        for r in 0..args.rows {
            for c in 0..args.cols {
                let at = on.at(t).wrapping_add_signed((r as isize).wrapping_mul(args.src_row));
                let at = at.wrapping_add_signed((c as isize).wrapping_mul(args.src_col));
                let bits = on.from.convert(Number::F32, read(on.from, on.src, at));
                values[r * tile.cols() + c] = f32::from_bits(bits as u32);
            }
        }
        codec.pack_scalar(values, packed);
        on.out(t).copy_from_slice(as_uninit(packed));
    }
}

#[cfg(test)]
pub(crate) mod sweep {
    use super::*;
    use crate::mem::assume_written;
    use crate::{BlockFormat, BlockOptions, Rounding};

    /// A small generator (xorshift64*) whose state is printed when a case fails.
    #[derive(Debug)]
    pub(crate) struct Random(u64);

    impl Random {
        pub(crate) fn new(seed: u64) -> Random {
            Random(seed | 1 << 40)
        }

        pub(crate) fn next(&mut self) -> u64 {
            self.0 ^= self.0 >> 12;
            self.0 ^= self.0 << 25;
            self.0 ^= self.0 >> 27;
            self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 16
        }

        /// A binary32 of one of many kinds; `kind` is drawn once a row, so that rows differ in what they hold.
        fn number(&mut self, kind: u64) -> f32 {
            let bits = self.next() as u32;
            let (sign, fraction) = (bits & 1 << 31, bits & 0x7F_FFFF);
            let exponent = |low: u32, count: u32| (low + (bits >> 23 & 255) % count) << 23;
            f32::from_bits(match kind {
                0 => bits,
                1 => sign | exponent(100, 40) | fraction,
                2 => sign | exponent(120, 12) | fraction & 0x7F_0000,
                3 => sign | exponent(120, 9) | fraction & 0x61_0000 | (self.next() as u32 & 1),
                4 => sign | fraction,
                5 => sign,
                6 => sign | exponent(0, 30) | fraction,
                7 => sign | exponent(225, 31) | fraction,
                8 => sign | exponent(253, 3) | fraction & 0x40_0000,
                9 => sign | exponent(117, 11) | fraction >> 4,
                _ => sign | 127 << 23 | fraction | 0x7E_0000,
            })
        }

        /// Codes of `number` for values of all kinds, 16 of a kind at a time.
        pub(crate) fn numbers(&mut self, number: Number, count: usize) -> Vec<u8> {
            let mut kind = 0;
            let code = |i| {
                if i % 16 == 0 {
                    kind = self.next() % 11;
                }
                Number::F32.convert(number, self.number(kind).to_bits().into()).to_le_bytes()
            };
            (0..count).map(code).flat_map(|code| code.into_iter().take(number.size())).collect()
        }
    }

    /// Every codec there is; a sample of them under Miri.
    pub(crate) fn codecs() -> impl Iterator<Item = BlockCodec> {
        let flags = [false, true];
        let roundings = [Rounding::Host, Rounding::Device, Rounding::Truncate];
        let options = flags.into_iter().flat_map(move |transposed| {
            roundings.into_iter().flat_map(move |rounding| {
                flags.into_iter().flat_map(move |search| {
                    flags.map(|compat_unpack| BlockOptions {
                        transposed,
                        rounding,
                        search,
                        compat_unpack,
                        compact: false,
                    })
                })
            })
        });
        let options = options.chain([BlockOptions { compact: true, ..BlockOptions::default() }]);
        let all = BlockFormat::ALL.into_iter().flat_map(move |format| {
            let options = options.clone();
            TileShape::all().flat_map(move |tile| {
                options.clone().filter_map(move |options| BlockCodec::new(format, tile, options).ok())
            })
        });
        all.step_by(if cfg!(miri) { 61 } else { 1 })
    }

    /// Every codec, source format and arrangement that takes a path of its own; then many rows on the fast paths.
    pub(crate) fn sweep(tested: &Kernels, rule: &Kernels) {
        let mut random = Random::new(1);
        for codec in codecs().filter(|codec| !codec.options().compat_unpack) {
            let (rows, cols) = (codec.tile().rows(), codec.tile().cols());
            for from in Number::ALL {
                let size = from.size() as isize;
                let src = random.numbers(from, 2 * rows * cols + 8);
                let (r, c) = (rows as isize, cols as isize);
                let args = PackArgs {
                    tiles: 2,
                    src_at: 1,
                    src_tile: c * size,
                    src_row: 2 * c * size,
                    src_col: size,
                    rows,
                    cols,
                    pad: -1.5,
                    dst_tile: codec.tile_bytes() + 3,
                };
                same(tested, rule, &codec, from, &src, &args);
                same(
                    tested,
                    rule,
                    &codec,
                    from,
                    &src,
                    &PackArgs { rows: rows.div_ceil(3), cols: cols - 5, ..args },
                );
                same(tested, rule, &codec, from, &src, &PackArgs { cols: 0, pad: f32::INFINITY, ..args });
                let (src_tile, src_row, src_col) = (r * c * size, size, r * size);
                same(tested, rule, &codec, from, &src, &PackArgs { src_tile, src_row, src_col, ..args });
                let src_at = src.len() - from.size();
                let (src_tile, src_row, src_col) = (-c * size, -2 * c * size, -size);
                same(
                    tested,
                    rule,
                    &codec,
                    from,
                    &src,
                    &PackArgs { src_at, src_tile, src_row, src_col, ..args },
                );
            }
        }
        for format in BlockFormat::ALL {
            let codec = BlockCodec::new(format, TileShape::DEFAULT, BlockOptions::default()).unwrap();
            for from in [Number::F32, Number::Bf16, Number::F16] {
                let tiles = if cfg!(miri) { 1 } else { 100 };
                let src = random.numbers(from, tiles * 1024);
                let row = (tiles * 32 * from.size()) as isize;
                let args = PackArgs {
                    tiles,
                    src_at: 0,
                    src_tile: 32 * from.size() as isize,
                    src_row: row,
                    src_col: from.size() as isize,
                    rows: 32,
                    cols: 32,
                    pad: 0.0,
                    dst_tile: codec.tile_bytes(),
                };
                same(tested, rule, &codec, from, &src, &args);
            }
        }
    }

    fn same(tested: &Kernels, rule: &Kernels, codec: &BlockCodec, from: Number, src: &[u8], args: &PackArgs) {
        let run = |kernels: &Kernels| {
            let mut dst = vec![MaybeUninit::new(0xEE); args.tiles * args.dst_tile + 5];
            kernels.pack(codec, from, src, args, &mut dst, 5);
            assume_written(dst)
        };
        let (got, want) = (run(tested), run(rule));
        if got != want {
            let at = (0..got.len()).find(|&i| got[i] != want[i]).unwrap();
            let isa = tested.isa().name();
            panic!(
                "{isa} pack {codec:?} from {} by {args:?}, byte {at}: {:02x} instead of {:02x}",
                from.name(),
                got[at],
                want[at]
            );
        }
    }
}
