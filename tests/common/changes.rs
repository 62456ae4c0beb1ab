//! Inputs of the fuzz targets without a fuzzer: their seeds (`fuzz/seeds`), and inputs that are made of them by changes of a
//! few bytes, numbers and pieces.
//!
//! `TILEWRIGHT_FUZZ` says how many; the input that fails is printed.

use std::fs;
use std::path::Path;

/// xorshift64*.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % n.max(1)
    }
}

/// Numbers at the edges of everything.
const NUMBERS: [&str; 14] = [
    "0",
    "1",
    "2",
    "31",
    "32",
    "33",
    "64",
    "65536",
    "4294967296",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551616",
    "-1",
    "1000003",
];

/// Changes one place of an input; `other` is where pieces come from.
fn change(random: &mut Random, input: &mut Vec<u8>, other: &[u8]) {
    let at = random.below(input.len());
    let end = (at + 1 + random.below(24)).min(input.len());
    match random.below(7) {
        0 if at < input.len() => input[at] ^= 1 << random.below(8),
        1 if at < input.len() => input[at] = random.below(256) as u8,
        2 => drop(input.drain(at..end)),
        3 => {
            let piece = input[at..end].to_vec();
            input.splice(at..at, piece);
        }
        4 => {
            let from = random.below(other.len());
            let piece = other[from..(from + 1 + random.below(60)).min(other.len())].to_vec();
            input.splice(at..end, piece);
        }
        _ => {
            // The number at or behind this place.
            let Some(begin) = (at..input.len()).find(|&k| input[k].is_ascii_digit()) else { return };
            let len = input[begin..].iter().take_while(|b| b.is_ascii_digit()).count();
            input.splice(begin..begin + len, NUMBERS[random.below(NUMBERS.len())].bytes());
        }
    }
}

/// Runs the seeds of a target, which lie in a folder, and `count` changed ones.
pub(crate) fn fuzz(seeds: &Path, count: usize, run: fn(&[u8])) {
    let mut files: Vec<_> = fs::read_dir(seeds).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    let name = seeds.display();
    let seeds: Vec<Vec<u8>> = files.iter().map(|file| fs::read(file).unwrap()).collect();
    assert!(!seeds.is_empty());
    // Miri takes minutes for one.
    seeds.iter().step_by(if cfg!(miri) { 4 } else { 1 }).for_each(|seed| run(seed));
    let count = std::env::var("TILEWRIGHT_FUZZ").ok().and_then(|n| n.parse().ok()).unwrap_or(count);
    let mut random = Random(0x00F0_22ED);
    for _ in 0..count {
        let mut input = seeds[random.below(seeds.len())].clone();
        for _ in 0..1 + random.below(6) {
            let other = random.below(seeds.len());
            change(&mut random, &mut input, &seeds[other]);
        }
        if std::panic::catch_unwind(|| run(&input)).is_err() {
            panic!("{name}: {:?}\n{input:?}", String::from_utf8_lossy(&input));
        }
    }
}
