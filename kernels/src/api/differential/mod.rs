//! Every kernel of every table against the scalar one: for each kernel a small world that visits all of its paths.

pub(super) mod cast;
pub(super) mod convert;
pub(super) mod copy;
pub(super) mod fill;
pub(super) mod pack;
pub(super) mod unpack;

use super::Kernels;
use crate::Destination;
use crate::memory::as_written;
use crate::{BlockCodec, BlockFormat, BlockOptions, Decoding, Number, Rounding, TileShape};

/// What a call leaves in `len` bytes, each 0xEE before: by ordinary stores, and by non-temporal ones where byte `at` is so many
/// bytes behind a boundary of lines.
pub(super) fn ways(
    kernels: &Kernels,
    len: usize,
    at: usize,
    mut call: impl FnMut(&mut Destination<'_>),
) -> impl Iterator<Item = Vec<u8>> {
    let ways = [None, Some(0), Some(16), Some(62)];
    let can = if kernels.has_non_temporal_stores() { ways.len() } else { 1 };
    ways.into_iter().take(can).map(move |behind| {
        let mut memory = vec![0xEE; len + 128];
        let line = memory.as_ptr().align_offset(64);
        // A multiple of lines more than it takes to get there.
        let first = (line + behind.unwrap_or(0) + 64 - at % 64) % 64;
        let bytes = as_written(&mut memory[first..][..len]);
        match behind {
            None => call(&mut Destination::cached(bytes)),
            Some(_) => kernels.non_temporal(bytes, |dst| call(dst)),
        }
        let all = memory.iter().enumerate();
        let outside = all.filter(|(i, _)| !(first..first + len).contains(i)).any(|(_, &byte)| byte != 0xEE);
        assert!(!outside, "a byte outside of the destination is written");
        memory[first..][..len].to_vec()
    })
}

/// All of `from..=to`; under Miri, which is a thousand times slower, its first and last.
pub(super) fn sampled(from: usize, to: usize) -> impl Iterator<Item = usize> {
    (from..=to).step_by(if cfg!(miri) { to - from } else { 1 })
}

/// All of them; under Miri one of `n`, from another one on at each `turn`.
pub(super) fn one_of<T>(n: usize, turn: usize, all: impl IntoIterator<Item = T>) -> impl Iterator<Item = T> {
    let (first, step) = if cfg!(miri) { (turn % n, n) } else { (0, 1) };
    all.into_iter().skip(first).step_by(step)
}

/// Codes of `size` bytes each, one after another.
fn bytes(codes: impl Iterator<Item = u64>, size: usize) -> Vec<u8> {
    codes.fold(Vec::new(), |mut all, code| {
        all.extend_from_slice(&code.to_le_bytes()[..size]);
        all
    })
}

/// A small generator (xorshift64*) whose state is printed when a case fails.
#[derive(Debug)]
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Random {
        Random(seed | 1 << 40)
    }

    pub(super) fn next(&mut self) -> u64 {
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
    pub(super) fn numbers(&mut self, number: Number, count: usize) -> Vec<u8> {
        let mut kind = 0;
        let code = |i| {
            if i % 16 == 0 {
                kind = self.next() % 11;
            }
            Number::F32.convert(number, self.number(kind).to_bits().into())
        };
        bytes((0..count).map(code), number.size())
    }
}

/// Every codec there is; under Miri a sample of those with small tiles.
pub(super) fn codecs() -> impl Iterator<Item = BlockCodec> {
    let flags = [false, true];
    let roundings = [Rounding::Host, Rounding::Device, Rounding::DeviceOp, Rounding::Truncate];
    let packing = flags.into_iter().flat_map(move |transposed| {
        roundings.into_iter().flat_map(move |rounding| {
            flags.map(|search| BlockOptions { transposed, rounding, search, ..BlockOptions::default() })
        })
    });
    let unpacking = flags.into_iter().flat_map(|transposed| {
        [Decoding::Host, Decoding::Device].map(|decoding| BlockOptions {
            transposed,
            decoding,
            ..BlockOptions::default()
        })
    });
    let bf16 = BlockOptions { rounding: Rounding::Device, bf16_registers: true, ..BlockOptions::default() };
    let options = packing.chain(unpacking).chain([bf16]);
    let options = options.chain([BlockOptions { compact: true, ..BlockOptions::default() }]);
    let all = BlockFormat::ALL.into_iter().flat_map(move |format| {
        let options = options.clone();
        TileShape::all().filter(|tile| !cfg!(miri) || tile.rows() <= 4).flat_map(move |tile| {
            options.clone().filter_map(move |options| BlockCodec::new(format, tile, options).ok())
        })
    });
    one_of(61, 0, all)
}
