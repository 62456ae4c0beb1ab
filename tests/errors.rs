//! Errors: what they keep, and how little they repeat.

use tilewright::text::{MAX_TEXT, parse};

/// What an error says does not grow with the text that it is about.
#[test]
fn errors_about_long_texts_are_short() {
    let longest = "x".repeat(1 << 20);
    let ones = "1, ".repeat(1 << 18);
    let texts = [
        "x".repeat(MAX_TEXT + 1),
        longest.clone(),
        format!("memref<{}xf32>", "9".repeat(1 << 20)),
        format!("memref<2xf32, strided<[{ones}]>>"),
        format!("memref<2x{longest}>"),
        format!("ttnn(dtype={longest})"),
        format!("ttnn({longest}=1)"),
        format!("ttnn(dtype=float32, layout=TILE, memory=BLOCK_SHARDED, grid=(1, 1), shard=({ones}))"),
        format!("SpyreTensorLayout(device_size=[{ones}], dim_map=[{ones}])"),
        format!("metal(shape=({ones}), collapse=[], grid=({ones}), dtype=f32, oob=undef, memory=l1)"),
        format!("#ttcore.metal_layout<({longest}) -> (y), undef, <1>, memref<1xf32>>"),
        format!("(({ones}), (1), (1))"),
        format!(r#"{{"dcsi_": [], "isHostToSen_": "{longest}"}}"#),
        format!(r#"{{"dcsi_": [], "isHostToSen_": {}}}"#, "1".repeat(1 << 20)),
        format!("{}f32", "memref<".repeat(1 << 20)),
    ];
    for text in &texts {
        let error = parse(text).expect_err(&text[..20]);
        let shown = [error.to_string(), error.diagnostic(), format!("{error:?}")];
        assert!(shown.iter().all(|s| s.len() < 8192), "{}: {}", &text[..20], &shown[0][..1000]);
    }
}
