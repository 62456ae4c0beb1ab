//! Random descriptors of every family, for tests.
//!
//! Everything is drawn from a list of numbers, so that a failing case shrinks: a smaller number is a plainer
//! choice, and where the list ends each further choice is the plainest.

use tilewright::dtype::BlockFormat;
use tilewright::family::Descriptor;
use tilewright::family::host::strided::Memref;
use tilewright::family::loops::ThreeTuple;
use tilewright::family::spyre::{Constructor, DataFormat, Explicit, SpyreLayout};
use tilewright::family::tenstorrent::buffer::{Arrangement, Buffer, BufferMemory};
use tilewright::family::tenstorrent::cores::{CoreRange, CoreRangeSet, Orientation};
use tilewright::family::tenstorrent::device::Device;
use tilewright::family::tenstorrent::memory::{BufferType, Fill, MemoryLayout, MemorySpace};
use tilewright::family::tenstorrent::mesh::{self, Mapper};
use tilewright::family::tenstorrent::metal::{MetalConstructor, MetalCurrent, MetalLayout};
use tilewright::family::tenstorrent::tile::{Element, TileShape};
use tilewright::family::tenstorrent::ttnn::{
    Interleaved, Memory, PadValue, PageLayout, Scheme, Sharded, Strategy, Ttnn,
};
use tilewright::family::tenstorrent::ttnn_layout::{TensorMemoryLayout, TtnnLayout};
use tilewright::family::{Family, Placement, Tensor};
use tilewright::layout::affine::{AffineExpr, AffineMap};
use tilewright::{DType, Format, Layout, Result};

/// A list of numbers to choose by.
pub(crate) struct Choices<'a>(std::slice::Iter<'a, u32>);

impl<'a> Choices<'a> {
    pub(crate) fn new(numbers: &'a [u32]) -> Choices<'a> {
        Choices(numbers.iter())
    }

    /// A number below `n`, which is 1 or more.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        self.0.next().map_or(0, |&x| x as usize % n)
    }

    pub(crate) fn yes(&mut self) -> bool {
        self.below(2) == 1
    }

    /// One of a few; the first is the plainest.
    pub(crate) fn of<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())].clone()
    }

    /// `1..=n`.
    fn up_to(&mut self, n: u64) -> u64 {
        1 + self.below(n as usize) as u64
    }

    fn shuffled<T>(&mut self, mut all: Vec<T>) -> Vec<T> {
        for i in (1..all.len()).rev() {
            let from = i - self.below(i + 1);
            all.swap(i, from);
        }
        all
    }

    /// Up to six dimensions of up to `most` elements together: ones, primes, and sizes around 16, 32 and 64.
    pub(crate) fn shape(&mut self, most: u64) -> Vec<u64> {
        let mut room = most;
        let sizes = (0..self.below(7)).map(|_| {
            let small = [1, 2, 3, 4, 5, 7, 8];
            let all = [1, 2, 3, 15, 16, 17, 31, 32, 33, 48, 63, 64, 65, 96, 101, 130];
            let n = if self.yes() { self.of(&all) } else { self.of(&small) };
            let n = if n > room { 1 } else { n };
            room /= n;
            n
        });
        let sizes = sizes.collect();
        self.shuffled(sizes)
    }
}

/// A descriptor, and the device it is placed on.
#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) descriptor: Descriptor,
    pub(crate) device: Option<Device>,
    /// How the tensor is handed out, where the descriptor is what one device of a mesh gets.
    pub(crate) mapper: Option<Mapper>,
    pub(crate) pad_value: Option<f64>,
}

impl Case {
    fn of(descriptor: Descriptor) -> Case {
        Case { descriptor, device: None, mapper: None, pad_value: None }
    }

    pub(crate) fn layout(&self, tensor: &Tensor) -> Result<Layout> {
        let (device, mesh, pad_value) = (self.device.as_ref(), self.mapper.as_ref(), self.pad_value);
        let placement = Placement { device, mesh, pad_value, ..Placement::default() };
        self.descriptor.layout(tensor, &placement)
    }
}

/// A generator of descriptors for one tensor; none where the family has none for it.
pub(crate) type Draw = fn(&mut Choices, &Tensor) -> Option<Case>;

/// Every family.
pub(crate) const FAMILIES: [(&str, Draw); 10] = [
    ("memref", memref),
    ("metal", metal),
    ("metal constructor", metal_constructor),
    ("metal current", metal_current),
    ("ttnn layout", ttnn_layout),
    ("buffer", buffer),
    ("ttnn", ttnn),
    ("spyre", spyre),
    ("three-tuple", three_tuple),
    ("mesh", mesh),
];

/// Dense, row-major.
pub(crate) fn dense(tensor: &Tensor) -> Layout {
    let dense = Memref::of(tensor);
    dense.to_layout(tensor, &Placement::default()).unwrap()
}

fn is_float(dtype: DType) -> bool {
    dtype.number().is_some()
}

/// Dimensions in any order, with gaps, from an offset.
pub(crate) fn memref(c: &mut Choices, tensor: &Tensor) -> Option<Case> {
    let shape = tensor.shape.clone();
    let mut strides = vec![0; shape.len()];
    let mut stride = 1;
    for d in c.shuffled((0..shape.len()).rev().collect()) {
        stride += c.of(&[0, 0, 0, 1, 5]);
        strides[d] = stride;
        stride *= shape[d] as i64;
    }
    let offset = c.of(&[0, 0, 1, 17]);
    let mut dtype = tensor.dtype;
    if is_float(dtype) && c.below(4) == 3 {
        dtype = c.of(&[DType::F32, DType::F16, DType::Bf16, DType::F64]);
    }
    let mut case = Case::of(Memref::new(shape, dtype).with_strides(strides).with_offset(offset).into());
    case.pad_value = c.of(&[None, Some(1.0)]);
    Some(case)
}

fn fill(c: &mut Choices, dtype: DType) -> Fill {
    match is_float(dtype) {
        true => c.of(&[Fill::Undef, Fill::Zero, Fill::One, Fill::Inf, Fill::NegInf]),
        false => c.of(&[Fill::Undef, Fill::Zero, Fill::One]),
    }
}

/// A format for the elements of a tensor: their own, another float, or a block float.
fn format(c: &mut Choices, dtype: DType, plain: &[DType], tile: Option<TileShape>) -> Option<Format> {
    let mut all: Vec<Format> = Vec::new();
    if plain.contains(&dtype) {
        all.extend([Format::Plain(dtype); 4]);
    }
    if is_float(dtype) {
        all.extend(plain.iter().filter(|d| is_float(**d)).map(|d| Format::Plain(*d)));
        if let Some(tile) = tile {
            let fits = |b: &&BlockFormat| b.group() as u64 <= tile.height() * tile.width();
            all.extend(BlockFormat::ALL.iter().filter(fits).map(|b| Format::Block(*b)));
        }
    }
    (!all.is_empty()).then(|| c.of(&all))
}

fn tile_shape(c: &mut Choices) -> TileShape {
    let all: Vec<TileShape> = TileShape::all().collect();
    c.of(&all)
}

/// The formats of a tile in tt-mlir.
const TILED: [DType; 6] = [DType::F32, DType::Bf16, DType::F16, DType::I32, DType::U16, DType::U8];

fn element(c: &mut Choices, dtype: DType, rank: usize) -> Element {
    if rank >= 2 && c.yes() {
        let shape = tile_shape(c);
        // A block format only where the system has it for this tile.
        if let Some(format) = format(c, dtype, &TILED, Some(shape)) {
            let known = |b: BlockFormat| BlockFormat::from_mlir_name(b.mlir_name()) == Some(b);
            if !matches!(format, Format::Block(b) if !known(b)) {
                return Element::Tile { shape, format };
            }
        }
    }
    Element::Scalar(dtype)
}

/// A sum of dimensions times strides.
fn sum(terms: Vec<(usize, i64)>) -> AffineExpr {
    let term = |(d, stride): (usize, i64)| {
        if stride == 1 { AffineExpr::dim(d) } else { AffineExpr::dim(d).times(stride).unwrap() }
    };
    let sum = terms.into_iter().map(term).reduce(|a, b| a.plus(b).unwrap());
    sum.unwrap_or(AffineExpr::constant(0))
}

/// Any dimensions to any results, with natural or greater strides; a dimension may be split over two results.
pub(crate) fn metal(c: &mut Choices, tensor: &Tensor) -> Option<Case> {
    let shape = &tensor.shape;
    let mut results: Vec<Vec<(usize, i64)>> = vec![vec![]; 1 + c.of(&[1, 1, 2, 0])];
    let contiguous = c.yes();
    let count = results.len();
    for d in 0..shape.len() {
        let r = if contiguous { (d * count / shape.len()).min(count - 1) } else { c.below(count) };
        results[r].push((d, 1));
    }
    let mut extents = Vec::new();
    for terms in &mut results {
        let mut order: Vec<usize> = (0..terms.len()).rev().collect();
        if c.below(4) == 3 {
            order = c.shuffled(order);
        }
        let mut size = 1;
        let mut last = 0;
        for i in order {
            size += c.of(&[0, 0, 0, 0, 1, 7]);
            terms[i].1 = size;
            last += (shape[terms[i].0] as i64 - 1) * size;
            size *= shape[terms[i].0] as i64;
        }
        extents.push(last as u64 + 1);
    }
    let mut results: Vec<AffineExpr> = results.into_iter().map(sum).collect();
    let even = (0..shape.len()).find(|&d| shape[d].is_multiple_of(2) && results.len() < 3);
    if let (Some(d), 3) = (even, c.below(4)) {
        // One dimension, quotient and remainder, in front of the others as they are.
        let n = shape[d];
        let split = c.of(&[2, n / 2, n]) as i64;
        let alone = |e: &AffineExpr| !e.uses(d);
        if results.iter().all(alone) || n as i64 % split == 0 {
            results.insert(0, AffineExpr::dim(d).floordiv(split).unwrap());
            extents.insert(0, (n - 1) / split as u64 + 1);
        }
    }
    let results = if c.below(4) == 3 {
        let order = c.shuffled((0..results.len()).collect());
        extents = order.iter().map(|&r| extents[r]).collect();
        order.iter().map(|&r| results[r].clone()).collect()
    } else {
        results
    };
    sharded(c, tensor, results, &extents)
}

/// Any dimensions to any results with any strides, and some to two results: most of these collide; others go from element to
/// element in steps of units and bytes that no layout of the other families has.
#[allow(dead_code)]
pub(crate) fn skewed(c: &mut Choices, tensor: &Tensor) -> Option<Case> {
    let count = 1 + c.of(&[1, 0, 2]);
    let mut results: Vec<Vec<(usize, i64)>> = vec![vec![]; count];
    for d in 0..tensor.shape.len() {
        let first = c.below(count);
        results[first].push((d, c.up_to(9) as i64));
        let second = c.below(2 * count);
        if second < count && second != first {
            results[second].push((d, c.up_to(9) as i64));
        }
    }
    let last = |&(d, stride): &(usize, i64)| (tensor.shape[d].max(1) - 1) * stride as u64;
    let extents: Vec<u64> = results.iter().map(|terms| terms.iter().map(last).sum::<u64>() + 1).collect();
    let results = results.into_iter().map(sum).collect();
    sharded(c, tensor, results, &extents)
}

/// Results of a map, each with so many indices, on a grid.
fn sharded(c: &mut Choices, tensor: &Tensor, results: Vec<AffineExpr>, extents: &[u64]) -> Option<Case> {
    let grid: Vec<u64> = extents.iter().map(|_| c.up_to(4)).collect();
    let element = element(c, tensor.dtype, grid.len());
    let mut shard: Vec<u64> = extents.iter().zip(&grid).map(|(n, g)| n.div_ceil(*g)).collect();
    if let (Element::Tile { shape, .. }, [.., rows, cols]) = (element, shard.as_mut_slice()) {
        (*rows, *cols) = (rows.div_ceil(shape.height()), cols.div_ceil(shape.width()));
    }
    let map = AffineMap::new(tensor.shape.len(), results)?;
    let (fill, memory) = (fill(c, tensor.dtype), c.of(&[MemorySpace::L1, MemorySpace::Dram]));
    let tensor = c.yes().then(|| tensor.clone());
    let device = device(c, &grid);
    let mut metal = MetalLayout::new(map, grid, shard, element);
    (metal.tensor, metal.fill, metal.memory) = (tensor, fill, memory);
    Some(Case { device, ..Case::of(Descriptor::Metal(metal)) })
}

/// A device with room for a grid; none where there is no need of one.
fn device(c: &mut Choices, grid: &[u64]) -> Option<Device> {
    let dim = AffineExpr::dim;
    let zero = AffineExpr::constant(0);
    let grid: Vec<u64> = grid.iter().map(|&g| g + c.below(2) as u64).collect();
    let (chips, results) = match (grid.len(), c.below(4)) {
        (_, 0) => return None,
        (1, _) => (1, vec![zero.clone(), zero, dim(0)]),
        (2, 1) => (1, vec![zero, dim(0), dim(1)]),
        (2, 2) => (1, vec![zero, dim(1), dim(0)]),
        (2, _) => {
            // Columns on chips in turn.
            let chip = dim(1).modulo(2).unwrap();
            (2, vec![chip, dim(0), dim(1).floordiv(2).unwrap()])
        }
        (3, 1) => (grid[0], vec![dim(0), dim(2), dim(1)]),
        (3, _) => {
            let rows = dim(0).times(grid[1] as i64)?.plus(dim(1))?;
            (1, vec![zero, rows, dim(2)])
        }
        _ => return None,
    };
    let map = AffineMap::new(grid.len(), results)?;
    Some(Device::new(grid, map, vec![chips], (0..chips).rev().collect()))
}

/// Groups of neighbouring dimensions that cover a rank; at least one.
fn intervals(c: &mut Choices, rank: usize) -> Vec<(i64, i64)> {
    let mut out = Vec::new();
    let mut next = 0;
    while next < rank {
        let end = rank.min(next + c.of(&[1, 1, 2, 3]));
        out.push((next as i64, end as i64));
        next = end;
    }
    out
}

/// The constructor.
pub(crate) fn metal_constructor(c: &mut Choices, tensor: &Tensor) -> Option<Case> {
    if tensor.shape.is_empty() {
        return None;
    }
    let rank = tensor.shape.len() as i64;
    let mut collapse = intervals(c, tensor.shape.len());
    let grid: Vec<u64> = collapse.iter().map(|_| c.up_to(3)).collect();
    for (_, end) in &mut collapse {
        // The end of the rank cannot be counted from the rank.
        if *end < rank && c.yes() {
            *end -= rank;
        }
    }
    collapse.retain(|(start, end)| end - start != 1 || c.yes());
    let element = element(c, tensor.dtype, grid.len());
    let device = if grid.len() < 4 { device(c, &grid) } else { None };
    let (fill, shape) = (fill(c, tensor.dtype), tensor.shape.clone());
    let mut metal = MetalConstructor::new(shape, grid, element);
    (metal.collapse, metal.fill) = (collapse, fill);
    Some(Case { device, ..Case::of(Descriptor::MetalConstructor(metal)) })
}

/// Today's form.
pub(crate) fn metal_current(c: &mut Choices, tensor: &Tensor) -> Option<Case> {
    let shape = &tensor.shape;
    let collapsed_intervals = intervals(c, shape.len());
    let missing = 2_usize.saturating_sub(shape.len());
    let element = element(c, tensor.dtype, collapsed_intervals.len() + missing);
    let rank = collapsed_intervals.len() + missing;
    let mut tile = vec![1; rank];
    if let (Element::Tile { shape, .. }, [.., rows, cols]) = (element, tile.as_mut_slice()) {
        (*rows, *cols) = (shape.height(), shape.width());
    }
    let (mut grid, mut shard) = (Vec::new(), Vec::new());
    let mut dim_alignments = vec![1; shape.len()];
    for (r, tile) in tile.into_iter().enumerate() {
        let size = if let Some(&(start, end)) = r.checked_sub(missing).map(|g| &collapsed_intervals[g]) {
            grid.push(c.up_to(3));
            let mut size = 1;
            for d in (start as usize..end as usize).rev() {
                dim_alignments[d] = c.of(&[1, 1, 2, 3, 32]);
                if d == start as usize {
                    // The whole must be as many tiles as there are cores, or a multiple.
                    dim_alignments[d] = grid[r] * tile * c.of(&[1, 1, 2]);
                }
                size = (size * shape[d]).next_multiple_of(dim_alignments[d]);
            }
            size
        } else {
            grid.push(c.of(&[1, 1, 32 / tile]));
            32
        };
        shard.push(size / grid[r] / tile);
    }
    let mut device = device(c, &grid);
    let mut metal = MetalCurrent::new(shape.clone(), grid, shard, element);
    (metal.dim_alignments, metal.collapsed_intervals) = (dim_alignments, collapsed_intervals);
    // More than the tensor needs is padding.
    for size in metal.shard.iter_mut().filter(|_| c.below(8) == 0) {
        *size += 1;
    }
    if c.below(4) == 0 {
        (metal.memory, metal.memory_layout) = (MemorySpace::Dram, MemoryLayout::Interleaved);
        device = device.map(|device| with_banks(c, device));
    }
    if c.below(4) == 0 {
        metal.index_map = exchange(metal.grid.len());
        device = None;
    }
    Some(Case { device, ..Case::of(Descriptor::MetalCurrent(metal)) })
}

/// A view that exchanges the last two dimensions of the grid, and those of the shard.
fn exchange(rank: usize) -> Option<AffineMap> {
    let mut order: Vec<usize> = (0..2 * rank).collect();
    if rank > 1 {
        order.swap(rank - 2, rank - 1);
        order.swap(2 * rank - 2, 2 * rank - 1);
    }
    AffineMap::new(2 * rank, order.into_iter().map(AffineExpr::dim).collect())
}

/// The device with a few banks of DRAM.
fn with_banks(c: &mut Choices, mut device: Device) -> Device {
    device.dram_grid = Some(vec![1, c.up_to(5)]);
    device
}

/// Tensors of TTNN as the compiler describes them.
fn ttnn_layout(c: &mut Choices, tensor: &Tensor) -> Option<Case> {
    use TensorMemoryLayout::{BlockSharded, HeightSharded, Interleaved, WidthSharded};
    let rank = tensor.shape.len();
    if rank == 0 || tensor.shape.contains(&0) {
        return None;
    }
    let element = element(c, tensor.dtype, 2);
    let height = if let Element::Tile { shape, .. } = element { shape.height() } else { 1 };
    // All dimensions but the last become rows, those of one matrix padded to the tile.
    let mut rows = AffineExpr::constant(0);
    let mut stride = 1;
    for d in (0..rank - 1).rev() {
        rows = AffineExpr::dim(d).times(stride as i64)?.plus(rows)?;
        let size = tensor.shape[d];
        stride *= if d + 2 == rank { size.next_multiple_of(height) } else { size };
    }
    let map = AffineMap::new(rank, vec![rows, AffineExpr::dim(rank - 1)])?;
    let mut layout = TtnnLayout::new(tensor.clone(), map, element).ok()?;
    let how = c.of(&[Interleaved, Interleaved, BlockSharded, HeightSharded, WidthSharded]);
    let buffer_type = c.of(&[BufferType::L1, BufferType::Dram]);
    if how != Interleaved || buffer_type == BufferType::L1 {
        layout = layout.with_shards(how, buffer_type, vec![c.up_to(3), c.up_to(3)]).ok()?;
    }
    let cores: u64 = layout.grid.iter().product();
    if c.yes() && how != Interleaved && cores > 1 {
        // The last core first.
        let at = |k: u64| CoreRange::new(k, 1, 1, 1);
        let rest = CoreRange::new(0, 1, cores - 1, 1);
        layout.core_ranges = Some(vec![at(cores - 1), rest]);
    }
    let device = device(c, &[1, 1]).map(|device| with_banks(c, device));
    Some(Case { device, ..Case::of(Descriptor::TtnnLayout(layout)) })
}

/// Buffers of a device; only those whose logical shape is that of the tensor.
fn buffer(c: &mut Choices, tensor: &Tensor) -> Option<Case> {
    let shape = &tensor.shape;
    if shape.is_empty() || shape.contains(&0) {
        return None;
    }
    let element = element(c, tensor.dtype, shape.len());
    let mut tile = vec![1; shape.len()];
    if let (Element::Tile { shape, .. }, [.., rows, cols]) = (element, tile.as_mut_slice()) {
        (*rows, *cols) = (shape.height(), shape.width());
    }
    if shape.iter().zip(&tile).any(|(n, t)| !n.is_multiple_of(*t)) {
        return None;
    }
    let units: Vec<u64> = shape.iter().zip(&tile).map(|(n, t)| n / t).collect();
    let grid: Vec<u64> = units.iter().map(|n| if n % 2 == 0 && c.yes() { 2 } else { 1 }).collect();
    let shard: Vec<u64> = units.iter().zip(&grid).map(|(n, g)| n / g).collect();
    let size = match (element.stored_bytes(), c.below(2)) {
        (bytes, 0) => bytes,
        (bytes, _) => 2 * bytes,
    };
    let strides = row_major(&shard, size);
    let halves = [grid.clone(), shard].concat();
    let mut buffer = Buffer::new(if c.yes() { halves } else { units.clone() }, element);
    buffer.memory = Some(BufferMemory::Space(c.of(&[MemorySpace::L1, MemorySpace::Dram])));
    if buffer.shape == units {
        buffer.arrangement = match c.below(2) {
            0 => Arrangement::RowMajor,
            _ => Arrangement::Circular { strides: row_major(&units, size), buffers: 2 },
        };
        return Some(Case::of(Descriptor::Buffer(buffer)));
    }
    buffer.arrangement = match c.below(3) {
        0 => Arrangement::Viewed,
        1 => Arrangement::Interleaved { strides },
        _ => Arrangement::Shard { strides, buffers: c.of(&[None, Some(1), Some(2)]) },
    };
    let device = device(c, &grid).map(|device| with_banks(c, device));
    Some(Case { device, ..Case::of(Descriptor::Buffer(buffer)) })
}

/// Strides of whole elements or tiles of `size` bytes.
fn row_major(shape: &[u64], size: u64) -> Vec<u64> {
    let mut strides = vec![size; shape.len()];
    for k in (0..shape.len() - 1).rev() {
        strides[k] = strides[k + 1] * shape[k + 1];
    }
    strides
}

/// The element types that TTNN has.
const TTNN: [DType; 7] = [DType::Bf16, DType::F32, DType::U8, DType::U16, DType::U32, DType::I32, DType::I8];

/// Rows or tiles, in every memory.
pub(crate) fn ttnn(c: &mut Choices, tensor: &Tensor) -> Option<Case> {
    let tile = c.yes().then(|| tile_shape(c));
    let dtype = match is_float(tensor.dtype) && c.below(8) == 7 {
        true => Format::TtE4M3,
        false => format(c, tensor.dtype, &TTNN, tile)?,
    };
    let layout = match tile {
        None => PageLayout::RowMajor,
        Some(shape) => PageLayout::Tile { shape, transpose: shape.can_transpose() && c.below(4) == 3 },
    };
    let pad_value = if is_float(tensor.dtype) {
        c.of(&[None, Some(1.5), Some(f64::INFINITY), Some(-3.0)])
    } else {
        c.of(&[None, Some(7.0)])
    };
    let memory = ttnn_memory(c, &tensor.shape, tile);
    let mut ttnn = Ttnn::new(dtype, layout).with_memory(memory);
    ttnn.pad_value = pad_value.map(PadValue::new);
    Some(Case::of(Descriptor::Ttnn(ttnn)))
}

fn ttnn_memory(c: &mut Choices, shape: &[u64], tile: Option<TileShape>) -> Memory {
    let (rows, cols) = tile.map_or((1, 1), |t| (t.height(), t.width()));
    let mut padded = [vec![1; 2_usize.saturating_sub(shape.len())], shape.to_vec()].concat();
    if let [.., h, w] = padded.as_mut_slice() {
        (*h, *w) = (h.next_multiple_of(rows), w.next_multiple_of(cols));
    }
    let width = *padded.last().unwrap();
    let height = padded.iter().product::<u64>() / width;
    let orientation = c.of(&[Orientation::RowMajor, Orientation::ColMajor]);
    // Some whole tiles, at most all.
    let part = |c: &mut Choices, n: u64, unit: u64| c.up_to((n / unit).min(40)) * unit;
    // A rectangle of cores with room for so many.
    let cores = |c: &mut Choices, n: u64| {
        let across = c.up_to(n.min(5));
        [n.div_ceil(across) + c.below(2) as u64, across]
    };
    let (scheme, grid, shard) = match c.below(7) {
        0 => return Memory::Single,
        1 | 2 => {
            let (banks, alignment) = (c.of(&[1, 2, 3, 8, 12]), c.of(&[1, 16, 32, 48, 64]));
            let mut interleaved = Interleaved::new(banks, alignment);
            if c.below(3) == 2 {
                interleaved = interleaved.with_bank_order(c.shuffled((0..banks as u32).collect()));
            }
            return Memory::Interleaved(interleaved);
        }
        3 => {
            let h = part(c, height, rows);
            (Scheme::Height, cores(c, height.div_ceil(h)), vec![h, width])
        }
        4 => {
            let w = part(c, width, cols);
            (Scheme::Width, cores(c, width.div_ceil(w)), vec![height, w])
        }
        5 => {
            let (h, w) = (part(c, height, rows), part(c, width, cols));
            let mut grid = [height.div_ceil(h) + c.below(2) as u64, width.div_ceil(w) + c.below(2) as u64];
            if orientation == Orientation::ColMajor {
                grid.reverse();
            }
            (Scheme::Block, grid, vec![h, w])
        }
        _ => {
            let rank = 2 + c.below(padded.len() - 1);
            let folded: u64 = padded[..padded.len() - rank + 1].iter().product();
            let mut sizes = vec![folded];
            sizes.extend(&padded[padded.len() - rank + 1..]);
            let unit = |d: usize| if d + 2 == rank { rows } else { cols };
            let shard: Vec<u64> = sizes
                .iter()
                .enumerate()
                .map(|(d, &n)| if d + 2 < rank { c.up_to(n.min(5)) } else { part(c, n, unit(d)) })
                .collect();
            let counts: Vec<u64> =
                sizes.iter().zip::<&Vec<u64>>(&shard).map(|(n, s)| n.div_ceil(*s)).collect();
            return Memory::Sharded(nd_shards(c, &counts, shard).with_orientation(orientation));
        }
    };
    let grid =
        if scheme == Scheme::Block { CoreRangeSet::grid(grid[0], grid[1]) } else { core_ranges(c, grid) };
    Memory::Sharded(Sharded::new(scheme, grid, shard).with_orientation(orientation))
}

/// So many rows and columns of cores: one rectangle, or a lower and a higher one that lie apart.
fn core_ranges(c: &mut Choices, [rows, columns]: [u64; 2]) -> CoreRangeSet {
    if rows < 2 || c.below(3) < 2 {
        return CoreRangeSet::grid(rows, columns);
    }
    CoreRangeSet::new([CoreRange::new(0, 1, columns, rows - 1), CoreRange::new(2, 0, columns, 1)])
}

/// Shards, so many along each dimension, handed out in every way that there is for them.
fn nd_shards(c: &mut Choices, counts: &[u64], shard: Vec<u64>) -> Sharded {
    let all: u64 = counts.iter().product();
    match (c.below(4), counts) {
        (2, &[down, across]) => {
            // A square has room in either orientation.
            let side = down.max(across) + c.below(2) as u64;
            Sharded::new(Scheme::Nd, CoreRangeSet::grid(side, side), shard).with_strategy(Strategy::Grid2d)
        }
        (3, _) => {
            let cores = c.of(&[1, 2, 3, 4, 6, 12]
                .into_iter()
                .filter(|n| all.is_multiple_of(*n))
                .collect::<Vec<u64>>());
            let rows = if cores.is_multiple_of(2) { 2 } else { 1 };
            let grid = core_ranges(c, [rows, cores / rows]);
            Sharded::new(Scheme::Nd, grid, shard).with_strategy(Strategy::Contiguous1d)
        }
        _ => {
            let grid = [c.up_to(3), c.up_to(4)];
            Sharded::new(Scheme::Nd, core_ranges(c, grid), shard)
        }
    }
}

/// A constructor, or its device dimensions spelled out, in another order, with room, repeats and idle ones.
pub(crate) fn spyre(c: &mut Choices, tensor: &Tensor) -> Option<Case> {
    let format = match tensor.dtype {
        DType::F16 | DType::Bf16 => DataFormat::Sen169Fp16,
        dtype => DataFormat::of(dtype)?,
    };
    format.storage().filter(|f| *f == Format::Sen169 || *f == Format::Plain(tensor.dtype))?;
    let rank = tensor.shape.len();
    let natural: Vec<Option<usize>> = (0..rank).map(Some).collect();
    let mut order = if c.yes() { c.shuffled(natural) } else { natural };
    if c.below(4) == 3 {
        order.push(None);
    }
    let (size, dtype) = (tensor.shape.clone(), tensor.dtype);
    let constructor = SpyreLayout::from(Constructor::new(size, dtype).with_dim_order(order));
    if c.yes() {
        return Some(Case::of(Descriptor::Spyre(constructor)));
    }
    let layout = constructor.to_layout(tensor, &Placement::default()).ok()?;
    let geometry = layout.geometry();
    let device_size = geometry.device_size.clone()?;
    let mut dims: Vec<(u64, i64)> = device_size.into_iter().zip(geometry.stride_map.clone()?).collect();
    let stick = dims.pop()?;
    if c.yes() {
        dims = c.shuffled(dims);
    }
    for (idle, stride) in [(c.below(3), 0), (c.below(3), -1)] {
        if idle > 0 {
            let at = c.below(dims.len() + 1);
            dims.insert(at, (idle as u64, stride));
        }
    }
    // The digit of the greatest stride may have room for more, if it is one.
    if let Some(widest) = dims.iter_mut().max_by_key(|d| d.1).filter(|d| d.1 > 0 && d.0 > 1) {
        widest.0 += c.below(3) as u64;
    }
    dims.push(stick);
    let (device_size, stride_map) = dims.into_iter().unzip();
    // A format other than the default, where only its name differs from the element type.
    let plain = match tensor.dtype {
        DType::F16 => DataFormat::IeeeFp16,
        DType::Bf16 => DataFormat::Bfloat16,
        _ => format,
    };
    let dtype = Some(c.of(&[format, plain]));
    let mut explicit = Explicit::new(device_size).with_stride_map(stride_map);
    explicit.dtype = dtype;
    Some(Case::of(Descriptor::Spyre(explicit.into())))
}

/// Each dimension, or its quotient and remainder, as a loop; loops in any order on both sides, with gaps.
pub(crate) fn three_tuple(c: &mut Choices, tensor: &Tensor) -> Option<Case> {
    let mut loops = Vec::new();
    let mut stride = 1;
    for &n in tensor.shape.iter().rev() {
        let inner = [1, 2, 3, 5, 16].into_iter().filter(|&f| n % f == 0).collect::<Vec<u64>>();
        let inner = c.of(&inner);
        loops.insert(0, (inner, stride, 0));
        loops.insert(0, (n / inner, stride * inner as i64, 0));
        stride *= n as i64;
    }
    let mut step = 1;
    for i in c.shuffled((0..loops.len()).rev().collect()) {
        step += c.of(&[0, 0, 0, 2]);
        loops[i].2 = step;
        step *= loops[i].0 as i64;
    }
    let loops = c.shuffled(loops);
    Some(Case::of(Descriptor::Tuple(ThreeTuple::new(
        loops.iter().map(|l| l.0).collect(),
        loops.iter().map(|l| l.2).collect(),
        loops.iter().map(|l| l.1).collect(),
    ))))
}

/// What one device of a mesh gets, in a family of its own.
pub(crate) fn mesh(c: &mut Choices, tensor: &Tensor) -> Option<Case> {
    let mut local = tensor.shape.clone();
    let mesh_shape = vec![c.up_to(2), c.up_to(4)];
    let mut taken = None;
    let placements = mesh_shape.iter().map(|&n| {
        let even = |d: &usize| local[*d].is_multiple_of(n) && Some(*d) != taken;
        let even: Vec<usize> = (0..local.len()).filter(even).collect();
        if even.is_empty() || c.below(3) == 2 {
            return mesh::MeshPlacement::Replicate;
        }
        let d = c.of(&even);
        taken = Some(d);
        local[d] /= n;
        mesh::MeshPlacement::Shard(if c.yes() { d as i64 } else { d as i64 - tensor.shape.len() as i64 })
    });
    let placements = placements.collect();
    let families: [Draw; 5] = [ttnn, metal, metal_constructor, metal_current, spyre];
    let case = c.of(&families)(c, &Tensor { shape: local, dtype: tensor.dtype })?;
    Some(Case { mapper: Some(Mapper::config(placements, mesh_shape)), ..case })
}
