//! Staging to and from a GPU, through CUDA's driver. Where there is no driver or no device, the tests say so and check nothing:
//! `cargo test -p tilewright --features cuda --test cuda -- --nocapture`.

use std::sync::Arc;
use std::time::Duration;

use tilewright::family::{Descriptor, Placement, Tensor};
use tilewright::run::reference;
use tilewright::stage::{
    Cuda, CudaBuffer, CudaSink, Fetcher, ReadAt, Settings, Sink, Source, Stager, Transfer,
};
use tilewright::{DType, Error, Layout, Options, Plan};

/// The first device, if there is one.
fn device() -> Option<Cuda> {
    Cuda::open(0).inspect_err(|e| eprintln!("skipped: {e}")).ok()
}

/// A conversion, and what the scalar reference knows of it.
struct Case {
    from: Layout,
    to: Layout,
    plan: Plan,
    source: Vec<u8>,
}

impl Case {
    fn new(shape: &[u64], dtype: DType, from: &str, to: &str) -> Case {
        let tensor = Tensor { shape: shape.to_vec(), dtype };
        let layout =
            |text: &str| text.parse::<Descriptor>().unwrap().layout(&tensor, &Placement::default()).unwrap();
        let (from, to) = (layout(from), layout(to));
        let plan = Plan::compile(&from, &to, &Options::default()).unwrap();
        // Finite numbers in every format that is read: exponents stay in the middle.
        let byte = |i: usize| if i % 2 == 1 { 0x3C + (i / 2 % 3) as u8 } else { (i * 37 % 251) as u8 };
        let source = (0..plan.source_bytes()).map(byte).collect();
        Case { from, to, plan, source }
    }

    fn expected(&self) -> Vec<u8> {
        reference(&self.from, &self.to, &Options::default(), &self.source).unwrap()
    }

    fn transfer(&self) -> Transfer<'_> {
        Transfer { plan: &self.plan, source: Source::Memory(&self.source) }
    }
}

/// What goes to a device: a packed format, tiles of a ragged matrix, sticks, and one byte more than a slot has.
fn cases() -> Vec<Case> {
    let tiles = |dtype: &str| format!("ttnn(dtype={dtype}, layout=TILE)");
    let sticks = "SpyreTensorLayout((3, 700, 640), torch.float16)";
    vec![
        Case::new(&[1024, 2048], DType::F32, "memref<1024x2048xf32>", &tiles("bfloat8_b")),
        Case::new(&[1000, 1003], DType::Bf16, "memref<1000x1003xbf16>", &tiles("bfloat16")),
        Case::new(&[3, 700, 640], DType::F16, "memref<3x700x640xf16>", sticks),
        Case::new(&[65537], DType::U8, "memref<65537xui8>", "memref<65537xui8>"),
    ]
}

fn buffers(cuda: &Cuda, cases: &[Case]) -> Vec<Arc<CudaBuffer>> {
    cases.iter().map(|case| Arc::new(cuda.buffer(case.plan.destination_bytes()).unwrap())).collect()
}

fn read_back(buffer: &CudaBuffer) -> Vec<u8> {
    let mut bytes = vec![0; buffer.size() as usize];
    buffer.read_at(0, &mut bytes).unwrap();
    bytes
}

#[test]
fn what_arrives_is_what_the_reference_makes() {
    let Some(cuda) = device() else { return };
    let cases = cases();
    let transfers: Vec<Transfer<'_>> = cases.iter().map(Case::transfer).collect();
    let expected: Vec<Vec<u8>> = cases.iter().map(Case::expected).collect();
    for (slots, slot_bytes) in [(1, 64 << 10), (3, 64 << 10), (4, 1 << 20), (2, 64 << 20)] {
        let destinations = buffers(&cuda, &cases);
        let mut sink = CudaSink::new(&cuda, destinations.clone()).unwrap();
        let mut stager = Stager::new(slots, slot_bytes, &mut cuda.pinned()).unwrap();
        // Twice, into the same buffers and from the same slots.
        for _ in 0..2 {
            let report = stager.run(&transfers, &mut sink, &Settings::default()).unwrap();
            assert_eq!(report.bytes, expected.iter().map(|bytes| bytes.len() as u64).sum::<u64>());
        }
        assert!(sink.wait(Duration::ZERO).is_none(), "a slot is still in flight");
        for ((case, expected), buffer) in cases.iter().zip(&expected).zip(&destinations) {
            assert!(read_back(buffer) == *expected, "{slots} slots of {slot_bytes}: {}", case.plan);
        }
    }
}

#[test]
fn what_comes_back_is_what_the_reference_makes() {
    let Some(cuda) = device() else { return };
    let (rows, tiles) = ("memref<1000x1003xbf16>", "ttnn(dtype=bfloat16, layout=TILE)");
    let [there, back] =
        [(rows, tiles), (tiles, rows)].map(|(from, to)| Case::new(&[1000, 1003], DType::Bf16, from, to));
    let buffer = Arc::new(cuda.buffer(there.plan.destination_bytes()).unwrap());
    let mut sink = CudaSink::new(&cuda, vec![buffer.clone()]).unwrap();
    let mut stager = Stager::new(3, 1 << 20, &mut cuda.pinned()).unwrap();
    stager.run(&[there.transfer()], &mut sink, &Settings::default()).unwrap();
    drop(sink);

    let mut fetched = vec![0; back.plan.destination_bytes()];
    let transfers = [Transfer { plan: &back.plan, source: Source::Ranges { reader: &*buffer, begin: 0 } }];
    let settings = Settings { read_bytes: 256 << 10, ..Settings::default() };
    Fetcher::new(cuda.pinned()).run(&transfers, &mut [&mut fetched], &settings).unwrap();
    assert!(fetched == there.source);
    let mut outside = [0; 2];
    let end = buffer.size() - 1;
    assert!(matches!(buffer.read_at(end, &mut outside), Err(Error::Length { .. })));
}

/// Nothing is copied that has no room, and the slots come back.
#[test]
fn a_buffer_that_is_too_short_is_refused() {
    let Some(cuda) = device() else { return };
    let cases = &cases()[..1];
    let transfers = [cases[0].transfer()];
    let mut stager = Stager::new(2, 64 << 10, &mut cuda.pinned()).unwrap();
    let short = Arc::new(cuda.buffer(cases[0].plan.destination_bytes() - 1).unwrap());
    for destinations in [vec![short], vec![]] {
        let mut sink = CudaSink::new(&cuda, destinations).unwrap();
        let error = stager.run(&transfers, &mut sink, &Settings::default()).unwrap_err();
        assert!(error.to_string().contains("memory of the device"), "{error}");
    }
    let mut sink = CudaSink::new(&cuda, buffers(&cuda, cases)).unwrap();
    stager.run(&transfers, &mut sink, &Settings::default()).unwrap();
    assert!(Cuda::open(u32::MAX).is_err() && Cuda::open(1 << 20).is_err());
}
