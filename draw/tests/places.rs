//! What a picture says of each cell and each byte is what the layout says of it.

#[allow(dead_code)]
mod layouts;

use layouts::{Case, GALLERY};
use tilewright::layout::Owner;
use tilewright::{DType, Descriptor, Layout, Placement, Tensor};
use tilewright_draw::{Hardware, Limits, Picture, Slot, html, svg, terminal};

/// Layouts of all families, small enough to ask for every byte.
const SMALL: &[Case] = &[
    plain("memref", &[5, 7], DType::F32, "memref<5x7xf32, strided<[9, 1], offset: 3>>"),
    plain("columns", &[5, 7], DType::F32, "memref<5x7xf32, strided<[1, 5]>>"),
    plain("scalar", &[], DType::F32, "memref<f32>"),
    plain("vector", &[37], DType::Bf16, "ttnn(dtype=bfloat16, layout=TILE)"),
    plain("mx", &[3, 40], DType::F32, "memref<3x40xmxfp8_e4m3>"),
    plain("mx4", &[3, 40], DType::F32, "memref<3x40xmxfp4>"),
    plain("tiles", &[2, 20, 40], DType::F32, "ttnn(dtype=float32, layout=TILE, tile=(16, 32))"),
    plain("bfp4", &[33, 20], DType::F32, "ttnn(dtype=bfloat4_b, layout=TILE)"),
    plain("bfp2", &[5, 20], DType::F32, "ttnn(dtype=bfloat2_b, layout=TILE, tile=(8, 32))"),
    plain("transposed", &[33, 20], DType::F32, "ttnn(dtype=bfloat8_b, layout=TILE, transpose_tile=True)"),
    plain(
        "banks",
        &[70, 40],
        DType::Bf16,
        "ttnn(dtype=bfloat16, layout=TILE, memory=INTERLEAVED, banks=3, alignment=4096)",
    ),
    plain(
        "pages",
        &[7, 9],
        DType::Bf16,
        "ttnn(dtype=bfloat16, layout=ROW_MAJOR, memory=INTERLEAVED, banks=3, alignment=32)",
    ),
    plain(
        "cores",
        &[90, 70],
        DType::F32,
        "ttnn(dtype=float32, layout=TILE, memory=ND_SHARDED, grid=(2, 2), shard=(32, 32), orientation=COL_MAJOR)",
    ),
    plain(
        "block-shards",
        &[50, 70],
        DType::F32,
        "ttnn(dtype=bfloat8_b, layout=TILE, memory=BLOCK_SHARDED, grid=(2, 2), shard=(32, 64), orientation=COL_MAJOR)",
    ),
    plain("spyre", &[2, 5, 150], DType::F16, "SpyreTensorLayout((2, 5, 150), torch.float16)"),
    plain("tuple", &[4, 128], DType::F16, "((2, 4, 64), (256, 64, 1), (64, 128, 1))"),
    Case {
        mesh: "ShardTensorToMesh(mesh_shape=(1, 2), dim=0)",
        ..plain("mesh", &[8, 6], DType::F32, "memref<4x6xf32, strided<[1, 4]>>")
    },
    Case {
        mesh: "ReplicateTensorToMesh(mesh_shape=(2, 2))",
        ..plain("copies", &[4, 6], DType::F32, "memref<4x6xf32>")
    },
];

const fn plain(name: &'static str, shape: &'static [u64], dtype: DType, to: &'static str) -> Case {
    Case { name, shape, dtype, to, device: "", mesh: "" }
}

fn exact(case: &Case) -> bool {
    case.shape.iter().product::<u64>() <= 1 << 14
}

#[test]
fn every_cell_lies_where_the_layout_says() {
    let cases = || SMALL.iter().chain(GALLERY.iter().filter(|case| exact(case)));
    assert!(cases().count() > 20);
    for case in cases() {
        case.with(Limits::default(), |layout, picture| {
            assert!(picture.is_exact(), "{}", case.name);
            let mut seen = 0;
            for cell in 0..picture.panel.rows.len() * picture.panel.cols.len() {
                let Some(index) = picture.index(cell) else {
                    assert!(picture.places(cell).is_empty(), "{}: padding has a place", case.name);
                    continue;
                };
                seen += 1;
                let expected: Vec<(u64, Option<u64>)> = layout
                    .locate(&index)
                    .unwrap()
                    .iter()
                    .map(|p| {
                        let buffer = p.buffer * layout.buffer_bytes();
                        ((buffer + p.byte) * 8 + u64::from(p.bit), p.shared.map(|s| buffer + s))
                    })
                    .collect();
                let said: Vec<_> = picture.places(cell).iter().map(|p| (p.bit, p.shared)).collect();
                assert_eq!(said, expected, "{}: {index:?}", case.name);
            }
            assert_eq!(seen, layout.elements(), "{}", case.name);
        });
    }
}

#[test]
fn every_byte_holds_what_the_layout_says() {
    for case in SMALL {
        case.with(Limits::default(), |layout, picture| {
            for at in 0..layout.total_bytes() {
                check_byte(case.name, layout, picture, at);
            }
        });
    }
}

fn check_byte(name: &str, layout: &Layout, picture: &Picture, at: u64) {
    let (buffer, byte) = (at / layout.buffer_bytes(), at % layout.buffer_bytes());
    let said = picture.memory.slots[picture.memory.slot_at(at)];
    let holds = |cell: u32, all: Vec<Vec<u64>>| all.contains(&picture.index(cell as usize).unwrap());
    let right = match (layout.owner(buffer, byte).unwrap(), said) {
        (Owner::Elements(all), Slot::Cell(cell)) | (Owner::Shared(all), Slot::Shared(cell)) => {
            holds(cell, all)
        }
        (Owner::Padding, Slot::Padding) | (Owner::Gap, Slot::Gap) => true,
        _ => false,
    };
    assert!(
        right,
        "{name}: buffer {buffer}, byte {byte} is {:?}, said is {said:?}",
        layout.owner(buffer, byte)
    );
}

#[test]
fn larger_cells_hold_their_elements_and_nothing_else() {
    let few = Limits { elements: 0, cells: 2000 };
    let many = Limits { elements: 0, cells: 20_000 };
    let cases = SMALL.iter().chain(GALLERY);
    for (case, limits) in cases.flat_map(|case| [(case, few), (case, many)]) {
        // Of some small ones nothing lies together.
        if ["mx", "mx4", "scalar", "vector"].contains(&case.name) {
            continue;
        }
        case.with(limits, |layout, picture| {
            let cols = picture.panel.cols.len();
            for cell in 0..picture.panel.rows.len() * cols {
                let (Some(rows), Some(columns)) =
                    (&picture.panel.rows[cell / cols], &picture.panel.cols[cell % cols])
                else {
                    continue;
                };
                let place = picture.places(cell)[0].bit / 8;
                for row in [rows.start, rows.end - 1] {
                    for col in [columns.start, columns.end - 1] {
                        let index = index(row, col, layout.shape());
                        let at = layout.locate(&index).unwrap()[0];
                        let at = at.buffer * layout.buffer_bytes() + at.byte;
                        let held = place..place + picture.cell_bits / 8;
                        assert!(held.contains(&at), "{}: {index:?} at {at}, its cell is {held:?}", case.name);
                    }
                }
            }
        });
    }
}

fn index(mut row: u64, col: u64, shape: &[u64]) -> Vec<u64> {
    let mut index = vec![col];
    for size in shape[..shape.len() - 1].iter().rev() {
        index.insert(0, row % size);
        row /= size;
    }
    index
}

#[test]
fn owners_are_digits_of_the_place() {
    let tiles = &SMALL[7];
    tiles.with(Limits::default(), |layout, picture| {
        let names: Vec<&str> = picture.owners.divisions.iter().map(|d| d.name).collect();
        assert_eq!(names, ["tile", "face", "row", "lane"]);
        // Element (32, 17): the second tile, its second face, row 0, lane 1.
        let at = layout.locate(&[32, 17]).unwrap()[0];
        assert_eq!(picture.owners.parts(8 * at.byte + u64::from(at.bit)), [1, 1, 0, 1]);
        // Exponents are in a tile, in no face.
        assert_eq!(picture.owners.parts(8 * at.shared.unwrap()), [1]);
    });
}

#[test]
fn every_printer_shows_every_layout() {
    for case in SMALL.iter().chain(GALLERY) {
        case.with(Limits::default(), |_, picture| {
            let image = svg(picture);
            assert!(image.contains("logical") && image.ends_with("</svg>\n"), "{}", case.name);
            let page = html(std::slice::from_ref(picture), None, None);
            assert!(!page.contains("http://") && !page.contains("https://"), "{}", case.name);
            let text = terminal(picture, false);
            assert!(text.is_ascii() && !text.contains('\x1b'), "{}", case.name);
            assert!(terminal(picture, true).contains("\x1b["), "{}", case.name);
        });
    }
}

/// Of cells that are tiles or sticks, every element of some lies where the layout has it.
#[test]
fn the_inside_of_large_cells_is_that_of_the_layout() {
    for (shape, to, expected) in [
        (&[3, 300, 500][..], "ttnn(dtype=bfloat16, layout=TILE)", Some([32, 32])),
        (&[500, 700], "ttnn(dtype=bfloat4_b, layout=TILE, tile=(16, 32))", Some([16, 32])),
        (
            &[500, 700],
            "ttnn(dtype=bfloat16, layout=TILE, memory=INTERLEAVED, banks=3, alignment=4096)",
            Some([32, 32]),
        ),
        (&[500, 700], "SpyreTensorLayout((500, 700), torch.float16)", Some([1, 64])),
        (&[500, 700], "SpyreTensorLayout((500, 700), torch.float16, [1, 0])", Some([64, 1])),
    ] {
        let (tensor, place) = (Tensor::new(shape, DType::F32), Placement::default());
        let to: Descriptor = to.parse().unwrap();
        let layout = to.layout(&tensor, &place).unwrap();
        let hardware = Hardware::new(&layout, &to, &place, &tensor).unwrap();
        let picture = Picture::new(&hardware, Limits::default()).unwrap();
        assert_eq!(picture.inside.is_some().then_some(picture.panel.cell), expected, "{to}");
        let Some(inside) = &picture.inside else { continue };
        let [rows, cols] = picture.panel.size();
        for cell in (0..rows * cols).step_by(13) {
            let (Some(index), Some(begin)) = (picture.index(cell), picture.places(cell).first().copied())
            else {
                continue;
            };
            let held = |lines: &Option<std::ops::Range<u64>>| {
                lines.as_ref().map_or(0, |l| (l.end - l.start) as usize)
            };
            let tall = held(&picture.panel.rows[cell / cols]);
            let wide = held(&picture.panel.cols[cell % cols]);
            for (r, c) in (0..tall).flat_map(|r| (0..wide).map(move |c| (r, c))) {
                let mut at = index.clone();
                let last = at.len() - 1;
                at[last] += c as u64;
                at[last - 1] += r as u64;
                if at[last - 1] >= shape[last - 1] {
                    continue;
                }
                let place = layout.locate(&at).unwrap()[0];
                let buffer = place.buffer * layout.buffer_bytes();
                let there =
                    (8 * (buffer + place.byte) + u64::from(place.bit), place.shared.map(|b| buffer + b));
                assert_eq!(inside.place(begin.bit, r, c), there, "{to}: {at:?}");
            }
        }
    }
}

#[test]
fn tensors_without_elements_have_pictures() {
    for (shape, to) in [
        (&[0, 3][..], "ttnn(dtype=bfloat16, layout=TILE)"),
        (&[3, 0], "memref<3x0xf32>"),
        (&[0], "SpyreTensorLayout((0,), torch.float16)"),
        (&[], "memref<f32>"),
    ] {
        let (tensor, place) = (Tensor::new(shape, DType::F32), Placement::default());
        let to: Descriptor = to.parse().unwrap();
        let layout = to.layout(&tensor, &place).unwrap();
        let hardware = Hardware::new(&layout, &to, &place, &tensor).unwrap();
        let picture = Picture::new(&hardware, Limits::default()).unwrap();
        assert!(svg(&picture).ends_with("</svg>\n"), "{to}");
        assert!(terminal(&picture, false).contains("memory"), "{to}");
        assert!(html(&[picture], None, None).ends_with("</html>\n"), "{to}");
    }
}

#[test]
fn what_is_too_large_is_refused_soon() {
    for (shape, to) in [
        (&[2, 2][..], "memref<2x2xf32, strided<[1000000000, 1]>>"),
        (&[1 << 40, 3], "memref<1099511627776x3xf32>"),
        (&[131072, 131072], "ttnn(dtype=bfloat16, layout=TILE, memory=INTERLEAVED, banks=12, alignment=32)"),
    ] {
        let tensor = Tensor::new(shape, DType::F32);
        let to: Descriptor = to.parse().unwrap();
        let layout = to.layout(&tensor, &Placement::default()).unwrap();
        let hardware = Hardware::new(&layout, &to, &Placement::default(), &tensor).unwrap();
        assert!(Picture::new(&hardware, Limits::default()).is_err(), "{to}");
    }
}
