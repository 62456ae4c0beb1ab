//! A small world, in which every layout is tried: ranks 1 to 3 of dimensions 0 to 5, in every family, over its grids, tiles,
//! sticks, orders and pads; elements of 1, 2 and 4 bytes, and of a block format.
//!
//! Each layout is converted from the host, to the host, and to the layout before it. Elements are numbered, so that no two
//! of a source are equal and none equals the padding; where each one must arrive is asked of `Layout::locate`, besides what
//! `common::check_bytes` compares.
//!
//! A sample on every push; all of it (release mode, a few minutes; a number in place of `all` takes every so many):
//!
//! ```sh
//! TILEWRIGHT_WORLD=all cargo test --release -p tilewright --test small_world -- --nocapture
//! ```

mod common;

use std::collections::BTreeMap;

use common::check_bytes;
use tilewright::family::host::strided::Memref;
use tilewright::family::tenstorrent::mesh::Mapper;
use tilewright::{DType, Descriptor, Format, Layout, Placement, Tensor};

/// The elements: of 1, 2 and 4 bytes, all of which hold the numbers to 125 exactly.
const DTYPES: [DType; 3] = [DType::U8, DType::Bf16, DType::F32];

/// Every this many layouts one is tried, where not all are; a prime, so that no loop of the world is skipped.
const SAMPLE: usize = 421;

/// The only shapes under Miri, which is a thousand times slower.
const FEW_SHAPES: [&[u64]; 3] = [&[5], &[3, 5], &[2, 3, 4]];

/// A layout of the world: a text, and the mesh that it is one device's part of.
struct Place {
    family: &'static str,
    text: String,
    mesh: Option<String>,
}

/// A list as texts write it.
fn list(numbers: &[u64]) -> String {
    numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")
}

/// Every list of one choice for each place.
fn product(choices: &[Vec<u64>]) -> Vec<Vec<u64>> {
    choices.iter().fold(vec![vec![]], |all, some| {
        all.iter().flat_map(|head| some.iter().map(|n| [head.as_slice(), &[*n]].concat())).collect()
    })
}

fn permutations(n: usize) -> Vec<Vec<usize>> {
    if n == 0 {
        return vec![vec![]];
    }
    let insert = |p: Vec<usize>| (0..n).map(move |at| [&p[..at], &[n - 1], &p[at..]].concat());
    permutations(n - 1).into_iter().flat_map(insert).collect()
}

fn shapes() -> Vec<Vec<u64>> {
    if cfg!(miri) {
        return FEW_SHAPES.map(<[u64]>::to_vec).to_vec();
    }
    (1..=3).flat_map(|rank| product(&vec![(0..=5).collect(); rank])).collect()
}

/// What places are collected in.
struct World {
    tensor: Tensor,
    places: Vec<Place>,
}

impl World {
    fn add(&mut self, family: &'static str, text: String) {
        self.places.push(Place { family, text, mesh: None });
    }

    /// Dimensions in every order, with and without a gap behind each, from two offsets.
    fn memrefs(&mut self) {
        let shape = self.tensor.shape.clone();
        let sizes = shape.iter().map(u64::to_string).collect::<Vec<_>>().join("x");
        for order in permutations(shape.len()) {
            for (gap, offset) in [(0, 0), (1, 0), (0, 3), (2, 1)] {
                let (mut strides, mut stride) = (vec![0; shape.len()], 1);
                for &d in &order {
                    strides[d] = stride;
                    stride = (stride + gap) * shape[d].max(1);
                }
                let dtype = self.tensor.dtype.mlir_name();
                let strides = list(&strides);
                let text = format!("memref<{sizes}x{dtype}, strided<[{strides}], offset: {offset}>>");
                self.add("memref", text);
            }
        }
    }

    /// Each dimension cut into tiles of 1 to 4, all of the tiles outside of all that is inside, or the other way round.
    fn tuples(&mut self) {
        let shape = self.tensor.shape.clone();
        if shape.contains(&0) {
            return;
        }
        let tiles = shape.iter().map(|n| (1..=4).filter(|t| n % t == 0).collect()).collect::<Vec<_>>();
        for tile in product(&tiles) {
            for gap in [0, 1] {
                let mut host = 1;
                let mut loops = Vec::new();
                for (&n, &t) in shape.iter().zip(&tile).rev() {
                    loops.insert(0, [(n / t, host * t), (t, host)]);
                    host *= n;
                }
                for inside in [0, 1] {
                    let outer = loops.iter().map(|l| l[1 - inside]);
                    let all: Vec<_> = outer.chain(loops.iter().map(|l| l[inside])).collect();
                    let (mut device, mut step) = (vec![0; all.len()], 1);
                    for (k, l) in all.iter().enumerate().rev() {
                        device[k] = step;
                        step = (step + gap) * l.0;
                    }
                    let [ranges, hosts] = [|l: &(u64, u64)| l.0, |l: &(u64, u64)| l.1]
                        .map(|pick| list(&all.iter().map(pick).collect::<Vec<_>>()));
                    self.add("three-tuple", format!("(({ranges}), ({}), ({hosts}))", list(&device)));
                }
            }
        }
    }

    /// Dimensions each on its own or the leading ones collapsed, on grids of 1 to 3, as elements and as low tiles.
    fn metals(&mut self) {
        let shape = self.tensor.shape.clone();
        let (sizes, rank) = (list(&shape), shape.len());
        let float = self.tensor.dtype.number().is_some();
        let fills: &[&str] = if float { &["undef", "one", "neginf"] } else { &["undef", "one"] };
        for (collapse, dims) in [("", rank), ("(0, -1)", 2), ("(0, 2)", 2)] {
            if !collapse.is_empty() && (rank < 3 || dims > rank) {
                continue;
            }
            for grid in product(&vec![vec![1, 2, 3]; if collapse == "(0, -1)" { 2 } else { dims }]) {
                let dtype = self.tensor.dtype.mlir_name();
                let formats = if float { vec![dtype, "bfp_bf8"] } else { vec![dtype] };
                for fill in fills {
                    let head =
                        format!("metal(shape=({sizes}), collapse=[{collapse}], grid=({})", list(&grid));
                    self.add("metal", format!("{head}, dtype={dtype}, oob={fill}, memory=l1)"));
                    if dims != 2 || *fill != fills[1] {
                        continue;
                    }
                    for (format, rows) in formats.iter().flat_map(|f| [1, 2, 4].map(|rows| (f, rows))) {
                        let tile = format!("tile=({rows}, 16), dtype={format}, oob={fill}, memory=l1)");
                        self.add("metal tiles", format!("{head}, {tile}"));
                    }
                }
            }
        }
    }

    /// Rows and low tiles: in one buffer, dealt to banks, in shards.
    fn ttnn(&mut self) {
        let shape = self.tensor.shape.clone();
        let (float, dtype) = match self.tensor.dtype {
            DType::U8 => (false, "uint8"),
            DType::Bf16 => (true, "bfloat16"),
            _ => (true, "float32"),
        };
        let mut pages = vec![(format!("ttnn(dtype={dtype}, layout=ROW_MAJOR"), 1, 1)];
        let formats = if float { vec![dtype, "bfloat8_b"] } else { vec![dtype] };
        for (format, rows) in formats.iter().flat_map(|f| [1, 2, 4].map(|rows| (f, rows))) {
            pages.push((format!("ttnn(dtype={format}, layout=TILE, tile=({rows}, 16)"), rows, 16));
        }
        let pads: &[&str] = if float { &["", ", pad_value=1.5"] } else { &["", ", pad_value=7"] };
        let mut padded = [vec![1; 2_usize.saturating_sub(shape.len())], shape].concat();
        let width = padded.pop().unwrap_or(1);
        let rows = padded.pop().unwrap_or(1);
        for ((page, unit_rows, unit_cols), pad) in
            pages.iter().flat_map(|page| pads.iter().map(move |pad| (page, pad)))
        {
            self.add("ttnn", format!("{page}{pad})"));
            for (banks, alignment) in [(1, 16), (2, 16), (3, 64)] {
                let memory = format!("memory=INTERLEAVED, banks={banks}, alignment={alignment}");
                self.add("ttnn banks", format!("{page}{pad}, {memory})"));
            }
            let across = width.next_multiple_of(*unit_cols);
            let down = padded.iter().product::<u64>() * rows.next_multiple_of(*unit_rows);
            if across == 0 || down == 0 {
                continue;
            }
            let part = |n: u64, unit: u64, by: u64| (n / unit).div_ceil(by) * unit;
            for by in 1..=3 {
                let (tall, wide) = (part(down, *unit_rows, by), part(across, *unit_cols, by));
                let height = format!("HEIGHT_SHARDED, grid=({by}, 1), shard=({tall}, {across})");
                let width = format!("WIDTH_SHARDED, grid=(1, {by}), shard=({down}, {wide})");
                let block = format!("BLOCK_SHARDED, grid=({by}, {by}), shard=({tall}, {wide})");
                for memory in [height, width, block.clone() + ", orientation=COL_MAJOR", block] {
                    self.add("ttnn shards", format!("{page}{pad}, memory={memory})"));
                }
            }
        }
    }

    /// Sticks, with the dimensions in every order, and one element a stick.
    fn spyres(&mut self) {
        let name = match self.tensor.dtype {
            DType::U8 => "uint8",
            DType::Bf16 => "bfloat16",
            _ => "float32",
        };
        let sizes = list(&self.tensor.shape);
        for order in permutations(self.tensor.shape.len()) {
            let order = order.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
            for last in ["", ", -1"] {
                let text = format!("SpyreTensorLayout([{sizes}], torch.{name}, dim_order=[{order}{last}])");
                self.add("spyre", text);
            }
        }
    }

    /// Rows of blocks that share a scale.
    fn rows_of_blocks(&mut self) {
        let sizes = self.tensor.shape.iter().map(u64::to_string).collect::<Vec<_>>().join("x");
        if self.tensor.dtype == DType::F32 {
            self.add("mx", format!("memref<{sizes}xmxfp8_e4m3>"));
        }
    }

    /// One or two dimensions cut over meshes of 1 to 3 by 1 to 3; the others are everywhere.
    fn meshes(&mut self) {
        let shape = self.tensor.shape.clone();
        for mesh in product(&[vec![1, 2, 3], vec![1, 2, 3]]) {
            for (a, b) in (0..shape.len()).flat_map(|a| (0..=shape.len()).map(move |b| (a, b))) {
                let even = |d: usize, by: u64| shape.get(d).is_none_or(|n| n % by == 0);
                if a == b || !even(a, mesh[0]) || !even(b, mesh[1]) || shape.contains(&0) {
                    continue;
                }
                let mut local = shape.clone();
                local[a] /= mesh[0];
                if let Some(n) = local.get_mut(b) {
                    *n /= mesh[1];
                }
                let sizes = local.iter().map(u64::to_string).collect::<Vec<_>>().join("x");
                let text = format!("memref<{sizes}x{}>", self.tensor.dtype.mlir_name());
                let columns = if b == shape.len() { "None".into() } else { b.to_string() };
                let mesh = format!("ShardTensor2dMesh(mesh_shape=({}), dims=({a}, {columns}))", list(&mesh));
                self.places.push(Place { family: "mesh", text, mesh: Some(mesh) });
            }
        }
    }
}

fn world(tensor: &Tensor) -> Vec<Place> {
    let mut world = World { tensor: tensor.clone(), places: Vec::new() };
    world.memrefs();
    world.tuples();
    world.metals();
    world.ttnn();
    world.spyres();
    world.rows_of_blocks();
    world.meshes();
    world.places
}

/// The element with a number; 0 is none's.
fn element(dtype: DType, number: u64) -> Vec<u8> {
    let bits = (number as f32).to_bits();
    match dtype {
        DType::U8 => vec![number as u8],
        DType::Bf16 => (bits >> 16).to_le_bytes()[..2].to_vec(),
        _ => bits.to_le_bytes().to_vec(),
    }
}

/// Every index of a shape, row-major, and the number of its element.
fn numbered(shape: &[u64]) -> impl Iterator<Item = (u64, Vec<u64>)> {
    let sizes: Vec<Vec<u64>> = shape.iter().map(|n| (0..*n).collect()).collect();
    (1..).zip(product(&sizes))
}

/// Asserts that each element lies where `locate` says.
fn assert_located(tensor: &Tensor, layout: &Layout, bytes: &[u8]) {
    for (number, index) in numbered(&tensor.shape) {
        for place in layout.locate(&index).unwrap() {
            let at = (place.buffer * layout.buffer_bytes() + place.byte) as usize;
            let element = element(tensor.dtype, number);
            assert_eq!(bytes[at..at + element.len()], element, "element {index:?}");
        }
    }
}

/// What was tried.
#[derive(Default)]
struct Counts {
    layouts: usize,
    conversions: usize,
    families: BTreeMap<&'static str, usize>,
    refused: BTreeMap<String, usize>,
}

/// All conversions of one layout; `before` is one of the same tensor, and its bytes.
fn try_layout(tensor: &Tensor, layout: &Layout, before: &mut Option<(Layout, Vec<u8>)>) -> usize {
    let host = Memref::of(tensor);
    let host = Descriptor::from(host).layout(tensor, &Placement::default()).unwrap();
    let elements: Vec<u8> = numbered(&tensor.shape).flat_map(|(n, _)| element(tensor.dtype, n)).collect();
    let plain = layout.format() == Format::Plain(tensor.dtype);
    let mut there = check_bytes(&host, layout, &elements);
    if plain {
        assert_located(tensor, layout, &there);
        // As a source it has another value wherever no element is, so that none of it may be read.
        there.fill(0xEE);
        for (number, index) in numbered(&tensor.shape) {
            for place in layout.locate(&index).unwrap() {
                let at = (place.buffer * layout.buffer_bytes() + place.byte) as usize;
                let element = element(tensor.dtype, number);
                there[at..at + element.len()].copy_from_slice(&element);
            }
        }
    }
    let back = check_bytes(layout, &host, &there);
    // What rounds is compared with the reference only.
    let exact = plain || matches!(layout.format(), Format::Block(tilewright::dtype::BlockFormat::Bfp8B));
    assert!(!exact || back == elements, "not the same elements again");
    let mut conversions = 2;
    if let Some((other, bytes)) = before {
        check_bytes(other, layout, bytes);
        conversions += 1;
    }
    *before = Some((layout.clone(), there));
    conversions
}

#[test]
fn every_layout_of_a_small_world() {
    let wanted = std::env::var("TILEWRIGHT_WORLD").unwrap_or_default();
    let step = if wanted == "all" { 1 } else { wanted.parse().unwrap_or(SAMPLE) };
    let mut counts = Counts::default();
    let mut next = 0;
    for (shape, dtype) in shapes().iter().flat_map(|shape| DTYPES.map(|dtype| (shape, dtype))) {
        let tensor = Tensor::new(shape.clone(), dtype);
        let mut before = None;
        for place in world(&tensor) {
            next += 1;
            if next % step != 0 {
                continue;
            }
            // Seen only where a test fails; the last one is the one that does.
            let shown = format!("{shape:?} {dtype} {} {:?}", place.text, place.mesh);
            let mesh = place.mesh.map(|mesh| mesh.parse::<Mapper>().unwrap());
            let placement = Placement { mesh: mesh.as_ref(), ..Placement::default() };
            let descriptor = place.text.parse::<Descriptor>().unwrap_or_else(|e| panic!("{shown}: {e}"));
            match descriptor.layout(&tensor, &placement) {
                Ok(layout) => {
                    counts.layouts += 1;
                    *counts.families.entry(place.family).or_default() += 1;
                    if step > 1 {
                        println!("{shown}");
                    }
                    counts.conversions += try_layout(&tensor, &layout, &mut before);
                }
                Err(error) => {
                    *counts.refused.entry(format!("{}: {error}", place.family)).or_default() += 1;
                }
            }
        }
    }
    let Counts { layouts, conversions, families, refused } = &counts;
    println!("{layouts} layouts, {conversions} conversions; {families:?}");
    refused.iter().for_each(|(why, n)| println!("refused {n}: {why}"));
    let some = if step > SAMPLE || cfg!(miri) { 1 } else { 9 };
    assert!(refused.is_empty() && families.len() >= some, "{families:?}");
}
