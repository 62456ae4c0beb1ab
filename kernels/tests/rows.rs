//! Vector kernels against the scalar table on many random groups of every kind, at every table.
//!
//! A few thousand groups for each case by default. As many as wanted, and only the cases whose name has some text in it:
//!
//! ```sh
//! TILEWRIGHT_ROWS=100000000 TILEWRIGHT_CASE=mxfp4 cargo test --release -p tilewright-kernels --test rows -- --nocapture pack_from_f32
//! ```
//!
//! The seed is printed when a case fails; `TILEWRIGHT_SEED` sets it.

use std::mem::MaybeUninit;
use std::time::Instant;

use tilewright_kernels::{
    BlockCodec, BlockFormat, BlockOptions, Decoding, Destination, Isa, Kernels, Number, PackArgs, Rounding,
    TileShape, UnpackArgs, Window,
};

/// Elements of a group: a row of a face.
const GROUP: usize = 16;
/// Tiles that are packed by one call.
const TILES: usize = 16;
const ELEMENTS: usize = TILES * 1024;
const ROUNDINGS: [Rounding; 4] = [Rounding::Host, Rounding::Device, Rounding::DeviceOp, Rounding::Truncate];

fn variable(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |v| v.parse().expect("a number"))
}

/// How many groups are tried in each case; at least one batch is.
fn rows() -> u64 {
    variable("TILEWRIGHT_ROWS", 3_000)
}

struct Random {
    seed: u64,
    state: u64,
}

impl Random {
    /// A seed of its own for each test.
    fn new(salt: u64) -> Random {
        let seed = variable("TILEWRIGHT_SEED", 1);
        Random { seed, state: (seed << 8 | salt).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1 }
    }

    /// xorshift64*.
    fn next(&mut self) -> u64 {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        self.state.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// Fills with binary32 codes, each group of one kind: any bits; few or many binades; ties and their neighbours; with
    /// NaN and infinities; denormal; zero; at either end of the range; sparse.
    fn fill(&mut self, codes: &mut [u32]) {
        for group in codes.chunks_exact_mut(GROUP) {
            let draw = self.next();
            // A binade that the whole group lies below.
            let top = (draw >> 32) as u32 % 255 + 1;
            for code in group {
                let bits = self.next();
                let (x, more) = (bits as u32, (bits >> 32) as u32);
                let (sign, fraction) = (x & 1 << 31, x & 0x7F_FFFF);
                let below = |binades: u32| top.saturating_sub(more % binades) << 23;
                *code = match draw % 13 {
                    0 => x,
                    1 => sign | below(2) | fraction,
                    2 => sign | below(9) | fraction,
                    3 => sign | below(30) | fraction,
                    // Few bits, so that most are ties in some format; one in eight is off by one.
                    4 => sign | below(9) | fraction & 0x7F << (more >> 8 & 15),
                    5 => (sign | below(9) | fraction & 0x7C_0000) ^ u32::from(more >> 8 & 7 == 0),
                    6 if more >> 8 & 7 == 0 => sign | 255 << 23 | fraction & ((more >> 11 & 1) * 0x7F_FFFF),
                    6 => sign | below(20) | fraction,
                    7 => sign | fraction >> (more & 15),
                    8 => sign,
                    9 => sign | (more % 30) << 23 | fraction,
                    10 => sign | (more % 16 + 239) << 23 | fraction,
                    11 => sign | below(3) | fraction >> (more >> 8 & 7),
                    _ if more >> 8 & 3 == 0 => sign | below(9) | fraction,
                    _ => sign,
                };
            }
        }
    }

    /// [`Random::fill`], converted to a format.
    fn numbers(&mut self, number: Number, count: usize) -> Vec<u8> {
        let mut codes = vec![0; count];
        self.fill(&mut codes);
        match number {
            Number::F32 => codes.iter().flat_map(|code| code.to_le_bytes()).collect(),
            _ => codes
                .iter()
                .flat_map(|&code| {
                    let converted = Number::F32.convert(number, code.into()).to_le_bytes();
                    converted.into_iter().take(number.size())
                })
                .collect(),
        }
    }
}

fn tables() -> Vec<&'static Kernels> {
    Isa::available().filter(|isa| *isa != Isa::Scalar).filter_map(Kernels::for_isa).collect()
}

fn scalar() -> &'static Kernels {
    Kernels::for_isa(Isa::Scalar).expect("every machine has it")
}

/// Runs a kernel into a fresh destination.
fn run(len: usize, kernel: impl FnOnce(&mut [MaybeUninit<u8>])) -> Vec<u8> {
    let mut dst = vec![MaybeUninit::new(0xEE_u8); len];
    kernel(&mut dst);
    // SAFETY: filled before the kernel ran.
    dst.iter().map(|byte| unsafe { byte.assume_init() }).collect()
}

/// Compares all tables with the scalar one until enough groups have been tried.
fn compare(
    case: &str,
    salt: u64,
    len: usize,
    mut source: impl FnMut(&mut Random) -> Vec<u8>,
    kernel: impl Fn(&Kernels, &[u8], &mut [MaybeUninit<u8>]),
) {
    if std::env::var("TILEWRIGHT_CASE").is_ok_and(|wanted| !case.contains(&wanted)) {
        return;
    }
    let (mut random, begin, rows) = (Random::new(salt), Instant::now(), rows());
    for batch in 0..rows.div_ceil((ELEMENTS / GROUP) as u64).max(1) {
        let src = source(&mut random);
        let want = run(len, |dst| kernel(scalar(), &src, dst));
        for kernels in tables() {
            let got = run(len, |dst| kernel(kernels, &src, dst));
            if let Some(at) = (0..len).find(|&i| got[i] != want[i]) {
                let (isa, seed) = (kernels.isa().name(), random.seed);
                panic!(
                    "{case}, {isa}, seed {seed}, batch {batch}: byte {at} is {:#04x} instead of {:#04x}",
                    got[at], want[at]
                );
            }
        }
    }
    println!("{case}: {rows} groups in {:.1} s", begin.elapsed().as_secs_f64());
}

fn pack(format: BlockFormat, from: Number, options: BlockOptions, salt: u64) {
    let Ok(codec) = BlockCodec::new(format, TileShape::DEFAULT, options) else { return };
    let size = from.size() as isize;
    let args = PackArgs {
        tiles: TILES,
        src_at: 0,
        src_tile: 32 * size,
        src_row: 32 * TILES as isize * size,
        src_col: size,
        faces: None,
        rows: 32,
        cols: 32,
        pad: 0.0,
        prefetch_distance: 3 * 32 * size,
        dst_tile: codec.tile_bytes(),
    };
    compare(
        &format!(
            "{} to {format}, {:?}{}",
            from.name(),
            options.rounding,
            if options.search { ", search" } else { "" }
        ),
        salt,
        TILES * codec.tile_bytes(),
        |random| random.numbers(from, ELEMENTS),
        |kernels, src, dst| kernels.pack(&codec, from, src, &args, &mut Destination::cached(dst), 0),
    );
}

#[test]
fn pack_from_f32() {
    for format in BlockFormat::ALL {
        pack(format, Number::F32, BlockOptions::default(), 1);
    }
}

#[test]
fn pack_others() {
    for format in BlockFormat::ALL {
        for from in [Number::F32, Number::Bf16, Number::F16] {
            for rounding in ROUNDINGS {
                if from != Number::F32 || rounding != Rounding::Host {
                    pack(format, from, BlockOptions { rounding, ..BlockOptions::default() }, 2);
                }
            }
        }
    }
}

/// Also with numbers just above powers of two, which alone can gain by it.
#[test]
fn pack_with_search() {
    for format in BlockFormat::ALL.into_iter().filter(|format| format.group() == GROUP) {
        for rounding in ROUNDINGS {
            pack(format, Number::F32, BlockOptions { rounding, search: true, ..BlockOptions::default() }, 5);
        }
    }
}

#[test]
fn unpack() {
    for format in BlockFormat::ALL {
        for (decoding, to) in [
            (Decoding::Exact, Number::F32),
            (Decoding::Exact, Number::Bf16),
            (Decoding::Exact, Number::F16),
            (Decoding::Host, Number::F32),
            (Decoding::Device, Number::F32),
            (Decoding::Device, Number::Bf16),
        ] {
            let options = BlockOptions { decoding, ..BlockOptions::default() };
            let codec =
                BlockCodec::new(format, TileShape::DEFAULT, options).expect("every format has this tile");
            let size = to.size() as isize;
            let args = UnpackArgs {
                tiles: TILES,
                src_at: 0,
                src_tile: codec.tile_bytes(),
                row0: 0,
                col0: 0,
                rows: 32,
                cols: 32,
                dst_at: 0,
                dst_tile: 32 * size,
                dst_row: 32 * TILES as isize * size,
                dst_col: size,
                faces: None,
                prefetch_tiles: 0,
            };
            let bytes = |random: &mut Random| {
                (0..TILES * codec.tile_bytes()).map(|_| (random.next() >> 56) as u8).collect()
            };
            compare(
                &format!("{format} to {}, {decoding:?}", to.name()),
                3,
                ELEMENTS * to.size(),
                bytes,
                |kernels, src, dst| kernels.unpack(&codec, to, src, &args, &mut Destination::cached(dst)),
            );
        }
    }
}

#[test]
fn convert() {
    let formats = [Number::F32, Number::Bf16, Number::F16, Number::Sen169];
    for from in formats {
        for to in formats.into_iter().filter(|to| *to != from) {
            let w = Window {
                rows: 1,
                cols: ELEMENTS,
                src_row: 0,
                src_col: from.size() as isize,
                dst_row: 0,
                dst_col: to.size() as isize,
            };
            compare(
                &format!("{} to {}", from.name(), to.name()),
                4,
                ELEMENTS * to.size(),
                |random| random.numbers(from, ELEMENTS),
                |kernels, src, dst| kernels.convert(from, to, src, 0, dst, 0, &w),
            );
        }
    }
}
