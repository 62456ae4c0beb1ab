//! What each format loses on the weights of a model: packs and unpacks every 2-D f32 tensor of a .safetensors file.
//!
//! ```sh
//! cargo run --release --example error_figures -- model.safetensors
//! ```
//!
//! Prints a Markdown table: the largest and the mean absolute error, and the signal-to-quantisation-noise ratio
//! 10 log10(sum of x^2 / sum of errors^2), over all elements of all these tensors. NaN and infinities are not expected.

use std::error::Error;

use safetensors::{Dtype, SafeTensors};
use tilewright::dtype::BlockFormat;
use tilewright::family::Descriptor;
use tilewright::family::{Placement, Tensor};
use tilewright::{DType, Options, Plan};

/// Sums over all elements so far.
#[derive(Default)]
struct Figures {
    count: u64,
    largest: f64,
    sum: f64,
    noise: f64,
    signal: f64,
}

impl Figures {
    fn add(&mut self, given: &[u8], got: &[u8]) {
        let floats = |bytes: &[u8]| -> Vec<f64> {
            bytes.as_chunks().0.iter().map(|code| f32::from_le_bytes(*code).into()).collect()
        };
        for (x, y) in floats(given).into_iter().zip(floats(got)) {
            let error = (x - y).abs();
            self.count += 1;
            self.largest = self.largest.max(error);
            self.sum += error;
            self.noise += error * error;
            self.signal += x * x;
        }
    }
}

/// The name, the layout for a shape such as `64x96`, and whether lower exponents are tried.
fn formats() -> Vec<(String, String, bool)> {
    let plain = ["bf16", "f16"].map(|name| (name.to_owned(), format!("memref<SHAPEx{name}>"), false));
    let blocks = BlockFormat::ALL.into_iter().flat_map(|format| {
        let to = format!("ttnn(dtype={format}, layout=TILE)");
        let searches = matches!(format, BlockFormat::Bfp8B | BlockFormat::Bfp4B);
        let search = searches.then(|| (format!("{format}, exponent search"), to.clone(), true));
        [(format.to_string(), to, false)].into_iter().chain(search)
    });
    plain.into_iter().chain(blocks).collect()
}

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("needs a .safetensors file")?;
    let file = std::fs::read(&path)?;
    let model = SafeTensors::deserialize(&file)?;
    let matrices: Vec<_> = model
        .tensors()
        .into_iter()
        .map(|(_, view)| view)
        .filter(|view| view.dtype() == Dtype::F32 && view.shape().len() == 2)
        .map(|view| (view.shape().iter().map(|&n| n as u64).collect::<Vec<_>>(), view.data().to_vec()))
        .collect();
    let elements: usize = matrices.iter().map(|(_, bytes)| bytes.len() / 4).sum();
    println!("{} tensors of two dimensions, {elements} elements\n", matrices.len());
    println!("| format | largest error | mean error | SQNR, dB |\n|---|---|---|---|");
    for (name, to, search) in formats() {
        let mut figures = Figures::default();
        for (shape, bytes) in &matrices {
            let tensor = Tensor { shape: shape.clone(), dtype: DType::F32 };
            let sizes = format!("{}x{}", shape[0], shape[1]);
            let layout = |text: &str| {
                let descriptor: Descriptor = text.replace("SHAPE", &sizes).parse()?;
                descriptor.layout(&tensor, &Placement::default())
            };
            let (host, there) = (layout("memref<SHAPExf32>")?, layout(&to)?);
            let pack = Plan::compile(&host, &there, &Options::default().with_search(search))?;
            let unpack = Plan::compile(&there, &host, &Options::default())?;
            let mut packed = vec![0; pack.destination_bytes()];
            let mut back = vec![0; unpack.destination_bytes()];
            pack.execute(bytes, &mut packed)?;
            unpack.execute(&packed, &mut back)?;
            figures.add(bytes, &back);
        }
        let Figures { count, largest, sum, noise, signal } = figures;
        let (mean, ratio) = (sum / count as f64, 10.0 * (signal / noise).log10());
        println!("| {name} | {largest:.3e} | {mean:.3e} | {ratio:.2} |");
    }
    Ok(())
}
