//! Asks what a compiler pass asks of layouts: shapes, bytes and padding of every layout in a file of tt-mlir.
//!
//! ```sh
//! cargo run --example compiler_pass -- examples/data/model.mlir
//! ```

use std::fs::File;
use std::io::BufReader;

use tilewright::{Descriptor, Placement};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("needs an .mlir file")?;
    let module = tilewright::text::mlir::read(BufReader::new(File::open(path)?))?;
    for used in module.uses() {
        let descriptor: Descriptor = used.text.parse()?;
        let Some(tensor) = descriptor.tensor() else { continue };
        // A text may contradict itself; then the error says what it says, and what follows from its rule.
        let layout = match descriptor.layout(&tensor, &Placement::default()) {
            Ok(layout) => layout,
            Err(error) => {
                println!("line {}: {error}", used.line);
                continue;
            }
        };
        let geometry = layout.geometry();
        println!(
            "line {}: {:?} {} on a grid of {:?}, {} buffers of {} bytes, {} padding elements",
            used.line,
            tensor.shape,
            layout.format(),
            geometry.grid,
            layout.buffers(),
            layout.buffer_bytes(),
            layout.padding_elements()
        );
    }
    Ok(())
}
