//! Bytes that the makers' own software put on devices: `tests/data/device_memory` holds the memory of a simulated
//! Wormhole after uploads by ttnn 0.81.1, `tests/data/mesh_tensorbin` what its mesh mappers hand out. See the READMEs there.

use std::path::{Path, PathBuf};

use serde_json::Value;
use tilewright::family::tenstorrent::mesh::Mapper;
use tilewright::family::tenstorrent::ttnn::{Memory, Ttnn};
use tilewright::family::{Descriptor, Placement, Tensor};
use tilewright::{DType, Layout, Options, Plan};

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

fn cases(folder: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(folder.join("cases.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn numbers(value: &Value) -> Vec<u64> {
    value.as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).collect()
}

/// The element type and the elements of an `.npy` file of version 1; bf16 is kept as u16.
fn npy(path: &Path) -> (DType, Vec<u8>) {
    let bytes = std::fs::read(path).unwrap();
    let header = 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    let text = std::str::from_utf8(&bytes[10..header]).unwrap();
    let types = [("<u2", DType::Bf16), ("<f4", DType::F32)];
    let (_, dtype) = types.into_iter().find(|t| text.contains(t.0)).unwrap();
    (dtype, bytes[header..].to_vec())
}

fn ttnn(text: &str) -> Ttnn {
    match text.parse().unwrap() {
        Descriptor::Ttnn(ttnn) => ttnn,
        other => panic!("{other:?}"),
    }
}

/// The layout of a tensor and its bytes, from a dense array.
fn convert(to: &Ttnn, tensor: &Tensor, mesh: Option<&Mapper>, source: &[u8]) -> (Layout, Vec<u8>) {
    let placement = Placement { mesh, ..Placement::default() };
    let layout = Descriptor::from(to.clone()).layout(tensor, &placement).unwrap();
    let shape: String = tensor.shape.iter().map(|n| format!("{n}x")).collect();
    let host: Descriptor = format!("memref<{shape}{}>", tensor.dtype.mlir_name()).parse().unwrap();
    let host = host.layout(tensor, &Placement::default()).unwrap();
    let plan = Plan::compile(&host, &layout, &Options::default()).unwrap();
    let mut out = vec![0xA5; plan.destination_bytes()];
    plan.execute(source, &mut out).unwrap();
    (layout, out)
}

/// Bank `b` of the L1 of that device is core `BANKS[b]`, counted along the rows of the 8x8 grid.
const BANKS: &str = "[33, 36, 12, 18, 6, 31, 3, 21, 42, 37, 19, 62, 27, 39, 10, 38, 46, 53, 40, 15, 8, 28, 11, 61, \
                     25, 20, 34, 44, 63, 30, 16, 13, 59, 5, 0, 9, 14, 7, 2, 24, 17, 52, 29, 51, 50, 49, 43, 60, 57, \
                     56, 26, 45, 4, 47, 35, 54, 23, 58, 41, 22, 55, 32, 48, 1]";

#[test]
fn memory_of_a_device_after_an_upload() {
    let folder = folder("device_memory");
    let mut names = Vec::new();
    for case in cases(&folder) {
        let name = case["name"].as_str().unwrap();
        let mut text = case["to"].as_str().unwrap().to_string();
        if name.starts_with("l1_interleaved") {
            text = text.replace("alignment=16", &format!("alignment=16, bank_order={BANKS}"));
        }
        let to = ttnn(&text);
        assert_eq!(ttnn(&to.to_string()), to);
        let (dtype, source) = npy(&folder.join(case["input"].as_str().unwrap()));
        let (layout, bytes) = convert(&to, &Tensor { shape: numbers(&case["shape"]), dtype }, None, &source);
        let expected = std::fs::read(folder.join(case["expected"].as_str().unwrap())).unwrap();
        let Memory::Sharded(sharded) = &to.memory else {
            assert!(bytes == expected, "{name}");
            names.push(name.to_string());
            continue;
        };
        // The dump has every core of the grid, those without a shard as zeros.
        let size = layout.buffer_bytes() as usize;
        let columns = sharded.grid.rectangle().unwrap().columns;
        let mut dump = vec![0; expected.len()];
        for (buffer, held) in bytes.chunks(size).enumerate() {
            let [row, column] = sharded.core(&layout.geometry().grid, buffer as u64).unwrap();
            let at = (row * columns + column) as usize * size;
            dump[at..at + size].copy_from_slice(held);
        }
        assert!(dump == expected, "{name}");
        names.push(name.to_string());
    }
    assert_eq!(names.len(), 9, "{names:?}");
}

#[test]
fn what_mesh_mappers_hand_out() {
    let folder = folder("mesh_tensorbin");
    let (mut handed_out, mut refused) = (0, 0);
    for case in cases(&folder) {
        let name = case["name"].as_str().unwrap();
        let text = match case["mesh"].as_str().unwrap() {
            "MeshMapperConfig(override (2, 2, 2))" => {
                "MeshMapperConfig([Shard(0), Shard(1), Replicate()], mesh_shape=(2, 4), mesh_shape_override=(2, 2, 2))"
            }
            text => text,
        };
        let mapper: Mapper = text.parse().unwrap();
        assert_eq!(mapper.to_string().parse::<Mapper>().unwrap(), mapper);
        let (dtype, source) = npy(&folder.join(format!("{name}.npy")));
        let tensor = Tensor { shape: numbers(&case["shape"]), dtype };
        let given = mapper.distribution(&tensor);
        if case["error"].is_string() {
            let message = given.unwrap_err().to_string();
            assert!(
                ["13", "8", "6 of 2 and one of 1"].iter().all(|part| message.contains(part)),
                "{message}"
            );
            refused += 1;
            continue;
        }
        let given = given.unwrap();
        // ttnn prints the dimension as its caller gave it, and so does the library.
        let topology = case["topology"].as_str().unwrap();
        assert_eq!(given.to_string(), topology, "{name}");
        let local = case["local"].as_array().unwrap();
        assert_eq!(local.len(), given.coordinates.len(), "{name}");
        assert!(local.iter().all(|shape| numbers(shape) == given.local), "{name}");
        // The topology alone hands out alike.
        let again: Mapper = topology.parse().unwrap();
        assert_eq!(again.distribution(&tensor).unwrap(), given, "{name}");

        let to = ttnn(case["to"].as_str().unwrap());
        let (layout, bytes) = convert(&to, &tensor, Some(&mapper), &source);
        assert_eq!(layout.buffers() as usize, local.len(), "{name}");
        assert!(payload(&bytes, layout.buffer_bytes() as usize) == stored(&folder, name), "{name}");
        handed_out += 1;
    }
    assert_eq!((handed_out, refused), (6, 1));
}

/// The parts of the devices as the file stores them: each different one once, at multiples of 64 bytes.
fn payload(bytes: &[u8], size: usize) -> Vec<u8> {
    let mut out: Vec<u8> = Vec::new();
    let mut seen: Vec<&[u8]> = Vec::new();
    for part in bytes.chunks(size) {
        if !seen.contains(&part) {
            seen.push(part);
            out.resize(out.len().next_multiple_of(64), 0);
            out.extend(part);
        }
    }
    out
}

/// What follows the header, whose length the file begins with.
fn stored(folder: &Path, name: &str) -> Vec<u8> {
    let file = std::fs::read(folder.join(format!("{name}.tensorbin"))).unwrap();
    let header = u64::from_le_bytes(*file.first_chunk().unwrap());
    file[8 + header as usize..].to_vec()
}
