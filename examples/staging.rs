//! Reads the tensors of a file, converts them to bfloat8_b tiles, and hands them to a device over a slow link, all in 3
//! slots of 1 MiB: the memory it takes does not depend on the file.
//!
//! ```sh
//! cargo run --release --example staging
//! ```

use std::error::Error;
use std::time::Duration;

use tilewright::family::{Descriptor, Placement, Tensor};
use tilewright::stage::{FileReader, Heap, Link, Memory, Settings, Source, Stager, SystemClock, Transfer};
use tilewright::{DType, Options, Plan};

fn main() -> Result<(), Box<dyn Error>> {
    // A checkpoint: twelve weights of 4 MiB, one after another.
    let tensor = Tensor { shape: vec![1024, 1024], dtype: DType::F32 };
    let layout = |text: &str| text.parse::<Descriptor>()?.layout(&tensor, &Placement::default());
    let (host, tiles) = (layout("memref<1024x1024xf32>")?, layout("ttnn(dtype=bfloat8_b, layout=TILE)")?);
    let plan = Plan::compile(&host, &tiles, &Options::default())?;
    let file = tempfile::NamedTempFile::new()?;
    let weights: Vec<f32> = (0..12 << 20).map(|i| (i as f32 * 0.37).sin()).collect();
    std::fs::write(file.path(), weights.iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<u8>>())?;

    // Read in windows of 4 MiB, in the order of the file.
    let reader = FileReader::open(file.path())?;
    let source = |k: u64| Source::Ranges { reader: &reader, begin: k * plan.source_bytes() as u64 };
    let transfers: Vec<Transfer<'_>> = (0..12).map(|k| Transfer { plan: &plan, source: source(k) }).collect();
    let settings = Settings { read_bytes: 4 << 20, ..Settings::default() };

    // The device: 500 MB/s, and 100 microseconds until it says that a slot has arrived.
    let memory = Memory::new(vec![plan.destination_bytes(); 12])?;
    let mut device = Link::new(&SystemClock, 500e6, Duration::from_micros(100)).with_memory(memory);
    let mut stager = Stager::new(3, 1 << 20, &mut Heap)?;
    let report = stager.run(&transfers, &mut device, &settings)?;
    println!("{report}");
    println!("windows of the source: {} KiB; ring: 3072 KiB", report.window_bytes >> 10);

    // What arrived is what the plan makes of each weight at once.
    let first = bytemuck::cast_slice(&weights[..1 << 20]);
    let mut expected = vec![0; plan.destination_bytes()];
    plan.execute(first, &mut expected)?;
    assert!(device.memory().is_some_and(|memory| memory.tensors()[0] == expected));
    Ok(())
}
