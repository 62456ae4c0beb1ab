//! The layout texts of tt-mlir's own tests, which lie beside the project: `TILEWRIGHT_TTMLIR_TEXTS=texts.json`.
use std::collections::BTreeMap;
use tilewright::{Error, Placement};
use tilewright::text::parse;

#[test]
fn explore() {
    let Some(path) = std::env::var_os("TILEWRIGHT_TTMLIR_TEXTS") else { return };
    let all: Vec<serde_json::Value> = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let mut counts: BTreeMap<String, [u32; 4]> = BTreeMap::new();
    for case in &all {
        let (date, text) = (case["date"].as_str().unwrap(), case["text"].as_str().unwrap());
        let count = counts.entry(date.into()).or_default();
        count[0] += 1;
        let parsed = match parse(text) {
            Ok(p) => p,
            Err(e) => {
                println!("PARSE {date} {text}\n{}", e.diagnostic());
                continue;
            }
        };
        count[1] += 1;
        let d = parsed.descriptor;
        let back = d.to_string();
        match parse(&back) {
            Ok(b) if b.descriptor == d => count[3] += 1,
            other => println!("BACK {date} {text}\n  {back}\n {other:?}"),
        }
        let Some(tensor) = d.tensor() else { println!("TENSOR {text}"); continue };
        match d.layout(&tensor, &Placement::default()) {
            Ok(l) => { count[2] += 1; let _ = l.padding_elements(); }
            Err(e @ Error::Derived { .. }) => println!("DERIVED {date} {text}: {e}"),
            Err(e) => println!("LAYOUT {date} {text}: {e}"),
        }
    }
    println!("{counts:#?}");
}
