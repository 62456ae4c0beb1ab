//! Hands a weight out to a mesh of 2x4 devices, as bfloat8_b tiles, and says what each device gets.
//!
//! ```sh
//! cargo run --example mesh
//! ```

use tilewright::family::tenstorrent::mesh::Mapper;
use tilewright::{DType, Descriptor, Options, Placement, Plan, Tensor};

fn main() -> tilewright::Result<()> {
    let tensor = Tensor::new([256, 512], DType::F32);
    let mesh: Mapper = "ShardTensor2dMesh(mesh_shape=(2, 4), dims=(0, 1))".parse()?;
    let host: Descriptor = "memref<256x512xf32>".parse()?;
    // The layout of what one device gets: 128x128.
    let tiles: Descriptor = "ttnn(dtype=bfloat8_b, layout=TILE)".parse()?;
    let on_mesh = Placement { mesh: Some(&mesh), ..Placement::default() };
    let devices = tiles.layout(&tensor, &on_mesh)?;
    let plan = Plan::compile(&host.layout(&tensor, &Placement::default())?, &devices, &Options::default())?;

    let weight = vec![0_u8; plan.source_bytes()];
    let mut packed = vec![0_u8; plan.destination_bytes()];
    plan.execute(&weight, &mut packed)?;
    // The buffers of all devices lie one after another, in the order of the mesh.
    for (device, bytes) in packed.chunks(devices.buffer_bytes() as usize).enumerate() {
        let content = devices.content(device as u64)?;
        println!("device {device}: {} bytes, rows and columns {:?}", bytes.len(), content.ranges);
    }
    Ok(())
}
