//! Layouts of all families and formats, each converted to each: what a table of single cases does not show is a cliff
//! between two layouts that nobody thought of.

use std::time::{Duration, Instant};

use kernels::Isa;
use tilewright::family::{Descriptor, Placement, Tensor};
use tilewright::run::{AlignedBuffer, Inline};
use tilewright::tuning::Tuning;
use tilewright::{DType, Error, Format, Layout, Options, Plan, Result};

use crate::{Roof, Shortest, Turns, numbers};

/// Layouts of an N x N matrix of f32, on either side of a pair: a short name and a text in which `N` is the side, `S` a
/// 64th of it (Spyre's sticks) and `P` a pitch longer than a row.
const LAYOUTS: [(&str, &str); 18] = [
    ("f32", "memref<NxNxf32>"),
    ("bf16", "memref<NxNxbf16>"),
    ("f16", "memref<NxNxf16>"),
    ("f64", "memref<NxNxf64>"),
    ("f32.T", "memref<NxNxf32, strided<[1, N]>>"),
    ("bf16.T", "memref<NxNxbf16, strided<[1, N]>>"),
    ("f32 tiles", "ttnn(dtype=float32, layout=TILE)"),
    ("bf16 tiles", "ttnn(dtype=bfloat16, layout=TILE)"),
    ("bfp8 tiles", "ttnn(dtype=bfloat8_b, layout=TILE)"),
    ("bfp4 tiles", "ttnn(dtype=bfloat4_b, layout=TILE)"),
    ("mxfp8 tiles", "ttnn(dtype=mxfp8_e4m3, layout=TILE)"),
    ("mxfp8 rows", "memref<NxNxmxfp8_e4m3>"),
    ("bf16 pages", "ttnn(dtype=bfloat16, layout=ROW_MAJOR, memory=INTERLEAVED, banks=12, alignment=64)"),
    ("bf16 in banks", "ttnn(dtype=bfloat16, layout=TILE, memory=INTERLEAVED, banks=12, alignment=64)"),
    ("bfp8 in banks", "ttnn(dtype=bfloat8_b, layout=TILE, memory=INTERLEAVED, banks=12, alignment=64)"),
    (
        "bf16 on cores",
        "metal(shape=(N, N), collapse=[], grid=(8, 8), tile=(32, 32), dtype=bf16, oob=undef, memory=l1)",
    ),
    ("sen169 sticks", "SpyreTensorLayout((N, N), torch.float16)"),
    ("f32 panels", "([S, N, 64], [C, 64, 1], [64, N, 1])"),
];

/// Layouts that are sources only: views of an array, and types that nothing is converted to.
const SOURCES: [(&str, &str); 12] = [
    ("f32[:, ::2]", "memref<NxNxf32, strided<[D, 2]>>"),
    ("bf16[:, ::2]", "memref<NxNxbf16, strided<[D, 2]>>"),
    ("f32[:, :P]", "memref<NxNxf32, strided<[P, 1]>>"),
    ("f32[::-1]", "memref<NxNxf32, strided<[-N, 1], offset: L>>"),
    ("f32[:, ::-1]", "memref<NxNxf32, strided<[N, -1], offset: M>>"),
    ("f32 one row", "memref<NxNxf32, strided<[0, 1]>>"),
    ("f32 one column", "memref<NxNxf32, strided<[1, 0]>>"),
    ("f64.T", "memref<NxNxf64, strided<[1, N]>>"),
    ("i32", "memref<NxNxi32>"),
    ("i64", "memref<NxNxi64>"),
    ("u8", "memref<NxNxui8>"),
    ("f8e4m3", "memref<NxNxf8E4M3FN>"),
];

/// One pair, measured.
#[derive(Debug, Clone)]
pub struct Measured {
    /// Short names of both layouts.
    pub from: &'static str,
    /// See `from`.
    pub to: &'static str,
    /// Elements of the matrix.
    pub elements: usize,
    /// Bytes that are read: all of the source.
    pub read: usize,
    /// Bytes that are written: all of the destination.
    pub written: usize,
    /// The shortest time of the conversion on one thread.
    pub ours: Duration,
    /// The shortest time of the fastest plain movement of as many bytes: [`Roof`].
    pub roof: Duration,
    /// How many times as fast it is by each other table of numbers: the median of the turns.
    pub speeds: Vec<f64>,
}

impl Measured {
    /// Elements converted in a nanosecond.
    pub fn rate(&self) -> f64 {
        self.elements as f64 / self.ours.as_nanos().max(1) as f64
    }

    /// The roof's time by ours.
    pub fn ratio_to_roof(&self) -> f64 {
        self.roof.as_secs_f64() / self.ours.as_secs_f64()
    }
}

/// Measures all pairs of N x N matrices whose names, written `from -> to`, contain `filter`, and calls `each` with each.
/// Pairs that no conversion joins (integers to block floats) are left out. N is a multiple of 256. Plans are compiled by the first
/// of the tables, of which there is one at least; by the others they take their turns beside it.
///
/// # Errors
/// Where memory is too small; of `each`.
pub fn measure(
    n: u64,
    isa: Isa,
    tunings: &[Tuning],
    filter: &str,
    each: &mut dyn FnMut(Measured) -> Result<()>,
) -> Result<()> {
    let dense = layout("memref<NxNxf32>", n)?;
    let (mut source, mut destination, mut plain) =
        (AlignedBuffer::new(0)?, AlignedBuffer::new(0)?, AlignedBuffer::new(0)?);
    plain.resize(dense.total_bytes() as usize)?;
    numbers(&mut plain);
    for (from_name, from_text) in LAYOUTS.into_iter().chain(SOURCES) {
        let from = layout(from_text, n)?;
        source.resize(from.total_bytes() as usize)?;
        if matches!(from.format(), Format::Block(_)) {
            Plan::compile(&dense, &from, &Options::default())?.execute(&plain, &mut source)?;
        } else {
            numbers(&mut source);
        }
        for (to_name, to_text) in LAYOUTS {
            if !format!("{from_name} -> {to_name}").contains(filter) {
                continue;
            }
            let to = layout(to_text, n)?;
            let Some(plans) = plans(&from, &to, isa, tunings)? else { continue };
            destination.resize(to.total_bytes() as usize)?;
            destination.fill(1);
            let (ours, roof, speeds) = by_turns(&plans, &source, &mut destination)?;
            let (read, written) = (source.len(), destination.len());
            let elements = (n * n) as usize;
            each(Measured { from: from_name, to: to_name, elements, read, written, ours, roof, speeds })?;
        }
    }
    Ok(())
}

/// The conversion by each table, if the formats have one.
fn plans(from: &Layout, to: &Layout, isa: Isa, tunings: &[Tuning]) -> Result<Option<Vec<Plan>>> {
    let options = Options::default().with_isa(Some(isa));
    let plans = tunings.iter().map(|tuning| Plan::compile_with(from, to, &options, tuning)).collect();
    match plans {
        Err(Error::Conversion { .. }) => Ok(None),
        plans => plans.map(Some),
    }
}

/// The shortest times of the first plan and of its roof, and the speeds of the other plans, by three turns or as many as take a
/// tenth of a second for each plan. The roof, which goes more ways than one, has its turn in the first three.
fn by_turns(plans: &[Plan], source: &[u8], destination: &mut [u8]) -> Result<(Duration, Duration, Vec<f64>)> {
    let roof = Roof::new(source.len(), destination.len())?;
    let (mut turns, mut shortest, begun) = (Turns::new(plans.len()), Shortest::default(), Instant::now());
    let most = Duration::from_millis(100) * plans.len() as u32;
    let mut of_roof = Duration::ZERO;
    while turns.taken() < 3 || begun.elapsed() < most + of_roof && turns.taken() < 100 {
        if turns.taken() < 3 {
            let begun = Instant::now();
            roof.turn(&Inline, source, destination, 1, &mut shortest)?;
            of_roof += begun.elapsed();
        }
        turns.take(1, |plan| plans[plan].execute_on(&Inline, source, destination))?;
        // What takes that long needs no second opinion.
        if turns.shortest() > Duration::from_secs(1) {
            break;
        }
    }
    Ok((turns.shortest(), shortest.total(), turns.speeds()))
}

fn layout(pattern: &str, n: u64) -> Result<Layout> {
    let number = |letter: char| {
        Some(match letter {
            'N' => n,
            'C' => 64 * n,
            'S' => n / 64,
            'D' => 2 * n,
            'P' => n + 40,
            'L' => n * (n - 1),
            'M' => n - 1,
            _ => return None,
        })
    };
    // Capitals alone, not those of words.
    let letters: Vec<char> = pattern.chars().collect();
    let word = |c: Option<&char>| c.is_some_and(|c| c.is_ascii_alphanumeric() && *c != 'x' || *c == '_');
    let mut text = String::new();
    for (i, &letter) in letters.iter().enumerate() {
        let alone = !word(i.checked_sub(1).and_then(|i| letters.get(i))) && !word(letters.get(i + 1));
        match number(letter).filter(|_| alone) {
            Some(number) => text += &number.to_string(),
            None => text.push(letter),
        }
    }
    let tensor = Tensor { shape: vec![n, n], dtype: DType::F32 };
    text.parse::<Descriptor>()?.layout(&tensor, &Placement::default())
}

#[cfg(test)]
mod tests {
    use tilewright::plan::Store;
    use tilewright::run::reference;
    use tilewright::tuning::builtin;

    use super::*;

    /// Every pair gives the bytes of the reference, with stores of either kind.
    #[test]
    fn pairs_give_the_bytes_of_the_reference() {
        let n = 256;
        for (name, from) in LAYOUTS.into_iter().chain(SOURCES) {
            let from = layout(from, n).unwrap();
            let mut source = vec![0; from.total_bytes() as usize];
            numbers(&mut source);
            for (to_name, to) in LAYOUTS {
                let to = layout(to, n).unwrap();
                let options = Options::default();
                let tunings = [builtin::CONSERVATIVE];
                let Some(_) = plans(&from, &to, Isa::best(), &tunings).unwrap() else { continue };
                let expected = reference(&from, &to, &options, &source).unwrap();
                for store in [Store::Cached, Store::Streamed] {
                    let plan = Plan::compile(&from, &to, &options.with_store(store)).unwrap();
                    let mut bytes = vec![0xA5; expected.len()];
                    plan.execute_on(&Inline, &source, &mut bytes).unwrap();
                    assert!(bytes == expected, "{name} to {to_name}, {store:?}");
                }
            }
        }
    }
}
