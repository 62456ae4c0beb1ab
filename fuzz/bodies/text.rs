//! A text, and the shape of the tensor that it is for: a descriptor that prints as a text of the same, a layout, and plans
//! from and to the host; or an error. No panic, no hang, no plan that the verifier refuses.
//!
//! An input is a line such as `64,128 f32`, then the text. Without the line the tensor is the one that the text says.

use tilewright::family::host::strided::Memref;
use tilewright::run::{interpret, reference};
use tilewright::{DType, Descriptor, Error, Layout, Options, Placement, Plan, Tensor};

/// Conversions of more bytes than this are compiled, and not run.
const RUN: u64 = 1 << 14;

fn tensor(line: &str) -> Option<Tensor> {
    let (shape, dtype) = line.split_once(' ')?;
    let sizes = shape.split(',').map(|n| n.parse().ok()).collect::<Option<Vec<u64>>>()?;
    Some(Tensor { shape: sizes, dtype: DType::from_name(dtype)? })
}

fn convert(from: &Layout, to: &Layout) {
    let options = Options::default().with_saturate(true);
    let plan = match Plan::compile(from, to, &options) {
        Ok(plan) => plan,
        Err(error @ Error::Unverified { .. }) => panic!("{error}"),
        Err(_) => return,
    };
    if from.total_bytes() > RUN || to.total_bytes() > RUN || from.elements() > RUN {
        return;
    }
    let source: Vec<u8> =
        (0..from.total_bytes()).map(|i| (i.wrapping_mul(0x9E37_79B1) >> 24) as u8).collect();
    let mut out = vec![0xA5; plan.destination_bytes()];
    plan.execute(&source, &mut out).unwrap();
    assert!(reference(from, to, &options, &source).unwrap() == out, "executor and reference differ");
    assert!(interpret(&plan, &source).unwrap().bytes == out, "executor and interpreter differ");
}

/// Runs one input; panics where it finds something.
pub(crate) fn run(data: &[u8]) {
    let Ok(input) = std::str::from_utf8(data) else { return };
    let (line, text) = input.split_once('\n').unwrap_or(("", input));
    let Ok(descriptor) = text.parse::<Descriptor>() else { return };
    let printed = descriptor.to_string();
    assert_eq!(printed.parse::<Descriptor>().as_ref(), Ok(&descriptor), "{printed}");
    let Some(tensor) = tensor(line).or_else(|| descriptor.tensor()) else { return };
    let Ok(layout) = descriptor.layout(&tensor, &Placement::default()) else { return };
    let host = Descriptor::from(Memref::of(&tensor));
    let Ok(host) = host.layout(&tensor, &Placement::default()) else { return };
    convert(&host, &layout);
    convert(&layout, &host);
}
