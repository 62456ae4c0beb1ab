//! What each format loses on the weights of a model: packs and unpacks every 2-D f32 tensor of a .safetensors file.
//!
//! ```sh
//! cargo run --release --example error_figures -- model.safetensors
//! ```
//! Prints a table of the largest and the mean absolute error, and 10 log10(sum of x^2 / sum of errors^2), of all elements.

use safetensors::{Dtype, SafeTensors};
use tilewright::dtype::BlockFormat;
use tilewright::{DType, Descriptor, Options, Placement, Plan, Tensor};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let file = std::fs::read(std::env::args().nth(1).ok_or("needs a .safetensors file")?)?;
    let mut matrices: Vec<_> = SafeTensors::deserialize(&file)?.tensors().into_iter().map(|t| t.1).collect();
    matrices.retain(|view| view.dtype() == Dtype::F32 && view.shape().len() == 2);
    let elements: usize = matrices.iter().map(|view| view.data().len() / 4).sum();
    println!("{} tensors of two dimensions, {elements} elements\n", matrices.len());
    println!("| format | largest error | mean error | SQNR, dB |\n|---|---|---|---|");
    let plain = ["bf16", "f16"].map(|name| (name.to_owned(), format!("memref<SHAPEx{name}>"), false));
    let blocks = BlockFormat::ALL.into_iter().flat_map(|format| {
        let to = format!("ttnn(dtype={format}, layout=TILE)");
        let searches = matches!(format, BlockFormat::Bfp8B | BlockFormat::Bfp4B);
        let search = searches.then(|| (format!("{format}, exponent search"), to.clone(), true));
        [(format.to_string(), to, false)].into_iter().chain(search)
    });
    for (name, to, search) in plain.into_iter().chain(blocks) {
        let (mut largest, mut sum, mut noise, mut signal) = (0.0_f64, 0.0, 0.0, 0.0);
        for view in &matrices {
            let back =
                there_and_back(view.data(), view.shape(), &to, &Options::default().with_search(search))?;
            let floats =
                |bytes: &[u8]| bytes.as_chunks().0.iter().map(|c| f32::from_le_bytes(*c).into()).collect();
            let (given, got): (Vec<f64>, Vec<f64>) = (floats(view.data()), floats(&back));
            for (x, y) in given.into_iter().zip(got) {
                let error = (x - y).abs();
                (largest, sum) = (largest.max(error), sum + error);
                (noise, signal) = (noise + error * error, signal + x * x);
            }
        }
        let (mean, ratio) = (sum / elements as f64, 10.0 * (signal / noise).log10());
        println!("| {name} | {largest:.3e} | {mean:.3e} | {ratio:.2} |");
    }
    Ok(())
}

/// A matrix packed into a layout, in whose text `SHAPE` stands for its shape, and unpacked again.
fn there_and_back(x: &[u8], shape: &[usize], to: &str, options: &Options) -> tilewright::Result<Vec<u8>> {
    let tensor = Tensor::new([shape[0] as u64, shape[1] as u64], DType::F32);
    let sizes = format!("{}x{}", shape[0], shape[1]);
    let layout = |text: &str| {
        text.replace("SHAPE", &sizes).parse::<Descriptor>()?.layout(&tensor, &Placement::default())
    };
    let (host, there) = (layout("memref<SHAPExf32>")?, layout(to)?);
    let (pack, unpack) = (Plan::compile(&host, &there, options)?, Plan::compile(&there, &host, options)?);
    let (mut packed, mut back) = (vec![0; pack.destination_bytes()], vec![0; unpack.destination_bytes()]);
    pack.execute(x, &mut packed)?;
    unpack.execute(&packed, &mut back)?;
    Ok(back)
}
