//! Texts of tt-mlir that are wrong, and what is said of each: what is wrong, what was expected, and where.

use tilewright::family::tenstorrent::device::Device;
use tilewright::text::parse;
use tilewright::{Error, Placement, Result};

#[test]
fn print() {
    for text in std::fs::read_to_string("/tmp/wrong.txt").unwrap().lines() {
        let said = error(text).unwrap_err();
        let span = match &said {
            Error::Text { span, .. } => &text[span.clone()],
            _ => "",
        };
        println!("@@{}\t{}\t{}", text, said, span);
    }
}

/// What is said of a text, alone or of the layout of the tensor that it says.
fn error(text: &str) -> Result<()> {
    if text.contains("device") {
        return text.parse::<Device>().and_then(|device| device.cores()).map(drop);
    }
    let descriptor = parse(text)?.descriptor;
    let tensor = descriptor.tensor().ok_or_else(|| Error::value("tensor", "none", "a tensor"))?;
    descriptor.layout(&tensor, &Placement::default()).map(drop)
}
