//! Every binary32 through every conversion to a narrower format, at every table, against a walk along the real line.
//!
//! By default a sample: every 4,099th code. All of them (minutes, on all processors; release mode, or it takes hours):
//!
//! ```sh
//! TILEWRIGHT_EXHAUSTIVE=1 cargo test --release -p tilewright-kernels --test exhaustive -- --nocapture
//! ```

use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use tilewright_kernels::{Isa, Kernels, Number, Window};

/// Codes that are converted at once.
const BATCH: u64 = 1 << 16;

/// What the text of a format says of magnitudes.
struct Format {
    /// The value of each code, ascending, and behind the last finite one what would follow it.
    values: Vec<f64>,
    away: bool,
    /// The code of what is nearest to the value that would follow, and of infinity.
    beyond: u16,
    infinity: u16,
    nan: u16,
    /// The bit of the sign.
    sign: u16,
}

impl Format {
    fn new(number: Number) -> Format {
        let (fraction, bias, finite, beyond, nan) = match number {
            Number::Bf16 => (7, 127, 0x7F80, 0x7F80, 0x7FC0),
            Number::F16 => (10, 15, 0x7C00, 0x7C00, 0x7E00),
            Number::E4M3 => (3, 7, 0x7F, 0x7F, 0x7F),
            Number::E5M2 => (2, 15, 0x7C, 0x7C, 0x7E),
            Number::Sen169 => (9, 31, 0x7FFF, 0x7FFF, 0x7FFF),
            other => panic!("{}", other.name()),
        };
        let away = number == Number::Sen169;
        let value = |code: i32| {
            let (exponent, rest) = (code >> fraction, f64::from(code % (1 << fraction)));
            let rest = rest / f64::from(1 << fraction);
            match exponent {
                // SEN169 has no subnormals: its least exponent is as the others, but for the code 0.
                0 if code == 0 || !away => rest * 2_f64.powi(1 - bias),
                _ => (1.0 + rest) * 2_f64.powi(exponent - bias),
            }
        };
        let sign = 1 << (8 * number.size() - 1);
        Format { values: (0..=finite).map(value).collect(), away, beyond, infinity: beyond, nan, sign }
    }

    /// Whether a magnitude is nearer to the code after `code` than to `code`, or as near and rounds up.
    fn passes(&self, magnitude: f64, code: usize) -> bool {
        let middle = (self.values[code] + self.values[code + 1]) / 2.0;
        magnitude > middle || magnitude == middle && (self.away || code % 2 == 1)
    }

    /// The codes of ascending binary32 codes of one sign.
    fn walk(&self, codes: &[u32]) -> Vec<u16> {
        let magnitude = |code: u32| f64::from(f32::from_bits(code & 0x7FFF_FFFF));
        let last = self.values.len() - 1;
        let first = magnitude(codes[0]);
        // Two codes below the first value are too low for certain.
        let mut at = self.values.partition_point(|v| *v < first).saturating_sub(2);
        let code = |&code: &u32| {
            let x = magnitude(code);
            let sign = if code >> 31 == 1 { self.sign } else { 0 };
            if x.is_nan() {
                return self.nan;
            }
            while at < last && self.passes(x, at) {
                at += 1;
            }
            sign | match at {
                _ if x.is_infinite() => self.infinity,
                at if at == last => self.beyond,
                at => at as u16,
            }
        };
        codes.iter().map(code).collect()
    }
}

/// Converts binary32 codes.
fn convert(kernels: &Kernels, to: Number, codes: &[u32]) -> Vec<u16> {
    let src: Vec<u8> = codes.iter().flat_map(|code| code.to_le_bytes()).collect();
    let size = to.size();
    let w = Window { rows: 1, cols: codes.len(), src_row: 0, src_col: 4, dst_row: 0, dst_col: size as isize };
    let mut dst = vec![MaybeUninit::new(0xEE); codes.len() * size];
    kernels.convert(Number::F32, to, &src, 0, &mut dst, 0, &w);
    // SAFETY: filled before the kernel ran.
    let byte = |byte: &MaybeUninit<u8>| u16::from(unsafe { byte.assume_init() });
    dst.chunks_exact(size).map(|code| code.iter().rev().fold(0, |bits, b| bits << 8 | byte(b))).collect()
}

/// Compares every `step`-th binary32 code, on all processors.
fn sweep(number: Number, vectors: bool, step: u64) {
    let (begin, format) = (Instant::now(), Format::new(number));
    // A format without vector code has one conversion, whatever the table.
    let tables: Vec<&Kernels> =
        Isa::available().filter(|isa| vectors || *isa == Isa::best()).filter_map(Kernels::for_isa).collect();
    let per_sign = (1_u64 << 31).div_ceil(step);
    let batches = per_sign.div_ceil(BATCH);
    let next = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let batch = next.fetch_add(1, Ordering::Relaxed);
                    if batch >= 2 * batches {
                        return;
                    }
                    let (sign, from) = (batch / batches, batch % batches * BATCH);
                    let code = |i: u64| (sign << 31 | (i * step).min((1 << 31) - 1)) as u32;
                    let codes: Vec<u32> = (from..(from + BATCH).min(per_sign)).map(code).collect();
                    let want = format.walk(&codes);
                    for kernels in &tables {
                        let got = convert(kernels, number, &codes);
                        if let Some(i) = (0..codes.len()).find(|&i| got[i] != want[i]) {
                            panic!(
                                "{} {:#010x} to {}: {:#06x} instead of {:#06x}",
                                kernels.isa().name(),
                                codes[i],
                                number.name(),
                                got[i],
                                want[i]
                            );
                        }
                    }
                }
            });
        }
    });
    println!(
        "{}: {} binary32 codes at {} tables in {:.0} s",
        number.name(),
        2 * per_sign,
        tables.len(),
        begin.elapsed().as_secs_f64()
    );
}

#[test]
fn every_binary32() {
    let whole = std::env::var_os("TILEWRIGHT_EXHAUSTIVE").is_some_and(|v| v == "1");
    let step = if whole { 1 } else { 4_099 };
    for (number, vectors) in [
        (Number::Bf16, true),
        (Number::F16, true),
        (Number::Sen169, true),
        (Number::E4M3, false),
        (Number::E5M2, false),
    ] {
        sweep(number, vectors, step);
    }
}

/// The walk itself, against another's conversions.
#[test]
fn the_walk_agrees_with_the_half_crate() {
    for sign in [0, 1 << 31] {
        let codes: Vec<u32> = (0..1_u32 << 31).step_by(9_973).map(|code| sign | code).collect();
        let finite = |code: &u32| f32::from_bits(*code);
        let (bf16, f16) = (Format::new(Number::Bf16).walk(&codes), Format::new(Number::F16).walk(&codes));
        for (i, x) in codes.iter().map(finite).enumerate().filter(|(_, x)| !x.is_nan()) {
            assert_eq!(bf16[i], half::bf16::from_f32(x).to_bits(), "{x:e}");
            assert_eq!(f16[i], half::f16::from_f32(x).to_bits(), "{x:e}");
        }
    }
}
