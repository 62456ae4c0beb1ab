//! Writes the files that the commands of README.md use: a small checkpoint, and the IR of a small model.
//!
//! ```sh
//! cargo run --example samples -- .
//! ```

use std::path::{Path, PathBuf};

/// Names and shapes of the checkpoint's tensors, all of them `f32`.
const TENSORS: [(&str, &[usize]); 3] =
    [("embed.weight", &[40, 64]), ("layer.weight", &[64, 96]), ("layer.norm", &[64])];

fn main() -> std::io::Result<()> {
    let folder = std::env::args().nth(1).map_or(PathBuf::from("."), PathBuf::from);
    write(&folder)
}

/// Writes `model.safetensors` and `model.mlir` into a folder.
pub(crate) fn write(folder: &Path) -> std::io::Result<()> {
    let (mut header, mut data) = (String::new(), Vec::new());
    for (name, shape) in TENSORS {
        let begin = data.len();
        for i in 0..shape.iter().product::<usize>() {
            data.extend(((i as f32 * 0.37).sin()).to_le_bytes());
        }
        let comma = if header.is_empty() { "" } else { "," };
        let end = data.len();
        header +=
            &format!(r#"{comma}"{name}":{{"dtype":"F32","shape":{shape:?},"data_offsets":[{begin},{end}]}}"#);
    }
    // A safetensors file is the length of its header, the header in JSON, and the elements.
    let header = format!("{{{header}}}");
    let file = [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &data].concat();
    std::fs::write(folder.join("model.safetensors"), file)?;
    std::fs::write(folder.join("model.mlir"), include_str!("data/model.mlir"))
}
