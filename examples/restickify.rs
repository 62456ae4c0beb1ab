//! Moves a tensor from sticks along its rows to sticks along its columns, without a host array between.
//!
//! ```sh
//! cargo run --example restickify
//! ```

use tilewright::{DType, Descriptor, Options, Placement, Plan, Tensor};

fn main() -> tilewright::Result<()> {
    let (tensor, place) = (Tensor::new([256, 512], DType::F16), Placement::default());
    let layout = |text: &str| text.parse::<Descriptor>()?.layout(&tensor, &place);
    let rows = layout("SpyreTensorLayout((256, 512), torch.float16)")?;
    let columns = layout("SpyreTensorLayout((256, 512), torch.float16, [1, 0])")?;
    let plan = Plan::compile(&rows, &columns, &Options::default())?;
    println!("{plan}");

    let from: Vec<u8> = (0..plan.source_bytes()).map(|i| (i % 113) as u8).collect();
    let mut to = vec![0; plan.destination_bytes()];
    plan.execute(&from, &mut to)?;

    // The same element, where each of the layouts has it.
    let index = [200, 300];
    let (before, after) = (rows.locate(&index)?[0], columns.locate(&index)?[0]);
    println!("element {index:?}: from byte {} to byte {}", before.byte, after.byte);
    let code = |bytes: &[u8], at: u64| [bytes[at as usize], bytes[at as usize + 1]];
    assert_eq!(code(&from, before.byte), code(&to, after.byte));
    Ok(())
}
