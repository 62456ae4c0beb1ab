//! Tenstorrent layouts against models that walk the destination: for each place of each buffer, which element
//! belongs there. The library goes the other way, from elements to places.

use std::collections::HashMap;
use std::fmt::Write as _;

use tilewright::family::Descriptor;
use tilewright::family::host::strided::Memref;
use tilewright::family::tenstorrent::device::Device;
use tilewright::family::{Family, Placement, Tensor};
use tilewright::{DType, Error, Layout, Options, Plan, run};

const PAD: u16 = 7;

/// Numbers that look random, the same ones each time.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        (self.0 >> 33) % n
    }

    fn between(&mut self, lo: u64, hi: u64) -> u64 {
        lo + self.below(hi - lo + 1)
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }
}

fn layout(text: &str, shape: &[u64], device: Option<&Device>) -> Result<Layout, Error> {
    let tensor = Tensor { shape: shape.to_vec(), dtype: DType::U16 };
    let placement = Placement { device, pad_value: Some(PAD.into()), ..Placement::default() };
    let descriptor: Descriptor = text.parse()?;
    match descriptor {
        Descriptor::Metal(d) => d.to_layout(&tensor, &placement),
        Descriptor::MetalConstructor(d) => d.to_layout(&tensor, &placement),
        Descriptor::MetalCurrent(d) => d.to_layout(&tensor, &placement),
        Descriptor::Ttnn(d) => d.to_layout(&tensor, &placement),
        _ => unreachable!("{text}"),
    }
}

/// Element `i` has the value `1000 + i`.
fn value(i: u64) -> u16 {
    1000 + i as u16
}

/// Converts there and back; each byte is written once, and is the expected one.
fn check(text: &str, shape: &[u64], device: Option<&Device>, expect: &[u8]) {
    let to = layout(text, shape, device).unwrap_or_else(|e| panic!("{text} of {shape:?}: {e}"));
    let dense = Memref::new(shape, DType::U16);
    let tensor = Tensor { shape: shape.to_vec(), dtype: DType::U16 };
    let dense = dense.to_layout(&tensor, &Placement::default()).unwrap();
    let source: Vec<u8> = (0..shape.iter().product()).flat_map(|i| value(i).to_le_bytes()).collect();
    let plan = Plan::compile(&dense, &to, &Options::default()).unwrap_or_else(|e| panic!("{text}: {e}"));
    let out = run::interpret(&plan, &source).unwrap();
    assert!(out.writes.iter().all(|&w| w == 1), "{text} of {shape:?}: not written once");
    let differs = out.bytes.iter().zip(expect).position(|(a, b)| a != b);
    assert_eq!(differs, None, "{text} of {shape:?}");
    assert_eq!(out.bytes.len(), expect.len(), "{text} of {shape:?}");
    let back = Plan::compile(&to, &dense, &Options::default()).unwrap();
    assert_eq!(run::interpret(&back, &out.bytes).unwrap().bytes, source, "{text} of {shape:?}, back");
}

/// Every index of a shape, row-major.
fn indices(shape: &[u64]) -> impl Iterator<Item = Vec<u64>> + '_ {
    (0..shape.iter().product()).map(move |mut n| {
        let mut index = vec![0; shape.len()];
        for (i, size) in index.iter_mut().zip(shape).rev() {
            (*i, n) = (n % size, n / size);
        }
        index
    })
}

fn join(sizes: &[u64], by: &str) -> String {
    sizes.iter().map(u64::to_string).collect::<Vec<_>>().join(by)
}

/// The (row, column) of every place of a tile in order.
fn tile_order(rows: u64, cols: u64, transposed: bool) -> Vec<(u64, u64)> {
    let (stored_rows, stored_cols) = if transposed { (cols, rows) } else { (rows, cols) };
    let mut order = Vec::new();
    for face_row in (0..stored_rows).step_by(16) {
        for face_col in (0..stored_cols).step_by(16) {
            for r in face_row..(face_row + 16).min(stored_rows) {
                for c in face_col..face_col + 16 {
                    order.push(if transposed { (c, r) } else { (r, c) });
                }
            }
        }
    }
    order
}

/// Every place of a shard in order: its coordinates, whole tiles included.
fn shard_order(padded: &[u64], tile: Option<(u64, u64, bool)>) -> Vec<Vec<u64>> {
    let Some((rows, cols, transposed)) = tile else { return indices(padded).collect() };
    let mut tiles = padded.to_vec();
    let n = tiles.len();
    tiles[n - 2] /= rows;
    tiles[n - 1] /= cols;
    let mut out = Vec::new();
    for at in indices(&tiles) {
        for (r, c) in tile_order(rows, cols, transposed) {
            let mut at = at.clone();
            at[n - 2] = at[n - 2] * rows + r;
            at[n - 1] = at[n - 1] * cols + c;
            out.push(at);
        }
    }
    out
}

#[test]
fn metal_layouts_hold_what_the_rule_says() {
    let mut dice = Dice(1);
    for _ in 0..400 {
        // Dimensions in any order are handed to results; strides natural or wider; perhaps an offset.
        let rank = dice.between(1, 4) as usize;
        let shape: Vec<u64> = (0..rank).map(|_| dice.pick(&[1, 2, 3, 5, 8, 19])).collect();
        let results = dice.between(1, 3) as usize;
        let mut order: Vec<usize> = (0..rank).collect();
        for i in 0..rank {
            order.swap(i, dice.below(rank as u64) as usize);
        }
        let owner: Vec<usize> = (0..rank).map(|_| dice.below(results as u64) as usize).collect();
        let mut steps = vec![vec![0; rank]; results];
        let mut offsets = vec![0; results];
        for r in 0..results {
            let mut step = 1;
            for &d in order.iter().filter(|&&d| owner[d] == r) {
                steps[r][d] = step;
                step = step * shape[d] + dice.pick(&[0, 0, 1, 4]);
            }
            offsets[r] = dice.pick(&[0, 0, 0, 3]);
        }
        // Sometimes a dimension is in one more result.
        if dice.below(4) == 0 {
            steps[dice.below(results as u64) as usize][dice.below(rank as u64) as usize] += 1;
        }
        let at = |index: &[u64]| -> Vec<u64> {
            let sum = |r: usize| offsets[r] + index.iter().zip(&steps[r]).map(|(i, s)| i * s).sum::<u64>();
            (0..results).map(sum).collect()
        };
        let last: Vec<u64> = shape.iter().map(|n| n - 1).collect();
        let grid: Vec<u64> = (0..results).map(|_| dice.pick(&[1, 1, 2, 3])).collect();
        let tile = (results > 1 && dice.below(2) == 0)
            .then(|| (dice.pick(&[1, 2, 4, 8, 16, 32]), dice.pick(&[16, 32]), false));
        let shard: Vec<u64> = at(&last).iter().zip(&grid).map(|(x, g)| (x + 1).div_ceil(*g)).collect();
        let mut memref = shard.clone();
        let mut padded = shard.clone();
        let mut element = "ui16".to_owned();
        if let Some((rows, cols, _)) = tile {
            for (r, size) in [(results - 2, rows), (results - 1, cols)] {
                memref[r] = shard[r].div_ceil(size);
                padded[r] = memref[r] * size;
            }
            element = format!("!ttcore.tile<{rows} x {cols}, u16>");
        }
        if padded.iter().chain(&grid).product::<u64>() > 1 << 17 {
            continue;
        }
        let names: Vec<String> = (0..rank).map(|d| format!("d{d}")).collect();
        let result = |r: usize| {
            let terms = (0..rank).filter(|&d| steps[r][d] > 0).map(|d| format!("d{d} * {}", steps[r][d]));
            terms.chain([offsets[r].to_string()]).collect::<Vec<_>>().join(" + ")
        };
        let text = format!(
            "#ttcore.metal_layout<({}) -> ({}), undef, <{}>, memref<{}x{element}, #ttcore.memory_space<l1>>>",
            names.join(", "),
            (0..results).map(result).collect::<Vec<_>>().join(", "),
            join(&grid, "x"),
            join(&memref, "x"),
        );
        let mut elements = HashMap::new();
        let mut collides = false;
        for (i, index) in (0..).zip(indices(&shape)) {
            collides |= elements.insert(at(&index), value(i)).is_some();
        }
        if collides {
            let error = layout(&text, &shape, None).unwrap_err();
            assert!(matches!(error, Error::Collision { .. }), "{text}: {error}");
            continue;
        }
        let places = shard_order(&padded, tile);
        let mut expect = Vec::new();
        for core in indices(&grid) {
            for place in &places {
                let x: Vec<u64> = (0..results).map(|r| core[r] * shard[r] + place[r]).collect();
                let inside = (0..results).all(|r| place[r] < shard[r]);
                let element = elements.get(&x).filter(|_| inside).copied().unwrap_or(PAD);
                expect.extend(element.to_le_bytes());
            }
        }
        check(&text, &shape, None, &expect);
    }
}

#[test]
fn current_metal_layouts_hold_what_the_rule_says() {
    let mut dice = Dice(2);
    for _ in 0..150 {
        let rank = dice.between(2, 4) as usize;
        let shape: Vec<u64> = (0..rank).map(|_| dice.between(1, 12)).collect();
        let alignments: Vec<u64> = (0..rank).map(|_| dice.pick(&[1, 2, 3, 8])).collect();
        let cut = dice.between(1, rank as u64 - 1) as usize;
        // Physical index of each logical one, by multiplying out each interval from the inside.
        let mut steps = vec![0; rank];
        let mut physical = Vec::new();
        for interval in [0..cut, cut..rank] {
            let mut size = 1;
            for d in interval.rev() {
                steps[d] = size;
                size = (size * shape[d]).next_multiple_of(alignments[d]);
            }
            physical.push(size);
        }
        let divisors = |n: u64| (1..=n).filter(move |g| n.is_multiple_of(*g)).collect::<Vec<_>>();
        let grid = [dice.pick(&divisors(physical[0])), dice.pick(&divisors(physical[1]))];
        let shard = [physical[0] / grid[0], physical[1] / grid[1]];
        let text = format!(
            "tensor<{}x{}xui16, #ttcore.metal_layout<logical_shape = {}, dim_alignments = {}, \
             collapsed_intervals = dense<[[0, {cut}], [{cut}, {rank}]]> : tensor<2x2xi64>, l1, sharded>>",
            join(&grid, "x"),
            join(&shard, "x"),
            join(&shape, "x"),
            join(&alignments, "x"),
        );
        let mut rows = vec![PAD; (physical[0] * physical[1]) as usize];
        for (i, index) in (0..).zip(indices(&shape)) {
            let x = |dims: std::ops::Range<usize>| dims.map(|d| index[d] * steps[d]).sum::<u64>();
            rows[(x(0..cut) * physical[1] + x(cut..rank)) as usize] = value(i);
        }
        let mut expect = Vec::new();
        for core in indices(&grid) {
            for place in indices(&shard) {
                let at = |k: usize| core[k] * shard[k] + place[k];
                expect.extend(rows[(at(0) * physical[1] + at(1)) as usize].to_le_bytes());
            }
        }
        check(&text, &shape, None, &expect);
    }
}

/// What the memory of a TTNN text says, for the model.
enum Memory {
    Single,
    Interleaved { banks: u64, alignment: u64 },
    Sharded { scheme: &'static str, grid: [u64; 2], shard: Vec<u64>, col_major: bool },
}

/// All buffers of a TTNN tensor; `None` where its rules refuse it.
fn ttnn(shape: &[u64], tile: Option<(u64, u64, bool)>, memory: &Memory) -> Option<Vec<u8>> {
    let mut logical = vec![1; 2_usize.saturating_sub(shape.len())];
    logical.extend(shape);
    let n = logical.len();
    let mut padded = logical.clone();
    let (rows, cols) = match (tile, memory) {
        (Some((rows, cols, _)), _) => (rows, cols),
        (None, Memory::Sharded { shard, .. }) => (1, *shard.last()?),
        _ => (1, 1),
    };
    padded[n - 2] = padded[n - 2].next_multiple_of(rows);
    padded[n - 1] = padded[n - 1].next_multiple_of(cols);
    let rank = if let Memory::Sharded { shard, .. } = memory { shard.len() } else { 2 };
    let lead: u64 = padded[..=n - rank].iter().product();
    let physical: Vec<u64> = [&[lead], &padded[n - rank + 1..]].concat();
    let shard = match memory {
        Memory::Single => physical.clone(),
        Memory::Interleaved { .. } => tile.map_or(vec![1, physical[1]], |t| vec![t.0, t.1]),
        Memory::Sharded { shard, .. } => shard.clone(),
    };
    let element = |x: &[u64]| -> u16 {
        if x.iter().zip(&physical).any(|(x, n)| x >= n) {
            return PAD;
        }
        let linear = x.iter().zip(&physical).fold(0, |at, (x, n)| at * n + x);
        let index = indices_at(linear, &padded);
        if index.iter().zip(&logical).any(|(i, n)| i >= n) {
            return PAD;
        }
        value(index.iter().zip(&logical).fold(0, |at, (i, n)| at * n + i))
    };
    let grid: Vec<u64> = physical.iter().zip(&shard).map(|(n, s)| n.div_ceil(*s)).collect();
    let places = shard_order(&shard, tile);
    let shards: Vec<Vec<u8>> = indices(&grid)
        .map(|at| {
            let x = |place: &Vec<u64>| (0..rank).map(|r| at[r] * shard[r] + place[r]).collect::<Vec<_>>();
            places.iter().flat_map(|place| element(&x(place)).to_le_bytes()).collect()
        })
        .collect();
    let missing: Vec<u8> = places.iter().flat_map(|_| PAD.to_le_bytes()).collect();
    // The shards of each buffer, in the order of the buffers.
    let count = shards.len() as u64;
    let (buffers, alignment): (Vec<Vec<u64>>, u64) = match memory {
        Memory::Single => (vec![vec![0]], 1),
        Memory::Interleaved { banks, alignment } => {
            ((0..*banks).map(|b| (b..count).step_by(*banks as usize).collect()).collect(), *alignment)
        }
        Memory::Sharded { scheme, grid: cores, col_major, .. } => {
            let all = cores[0] * cores[1];
            let fits = match *scheme {
                "HEIGHT_SHARDED" => shard[1] == physical[1] && count <= all,
                "WIDTH_SHARDED" => shard[0] == physical[0] && count <= all,
                "BLOCK_SHARDED" if *col_major => grid[0] <= cores[1] && grid[1] <= cores[0],
                "BLOCK_SHARDED" => grid[0] <= cores[0] && grid[1] <= cores[1],
                _ => true,
            };
            if !fits {
                return None;
            }
            let mut held: HashMap<(u64, u64), Vec<u64>> = HashMap::new();
            for s in 0..count {
                let core = match (*scheme, col_major) {
                    ("BLOCK_SHARDED", false) => (s / grid[1], s % grid[1]),
                    ("BLOCK_SHARDED", true) => (s % grid[1], s / grid[1]),
                    (_, false) => (s % all / cores[1], s % all % cores[1]),
                    (_, true) => (s % all % cores[0], s % all / cores[0]),
                };
                held.entry(core).or_default().push(s);
            }
            let mut held: Vec<_> = held.into_iter().collect();
            held.sort_unstable();
            (held.into_iter().map(|h| h.1).collect(), 1)
        }
    };
    let room = buffers.iter().map(Vec::len).max()?;
    let mut out = Vec::new();
    for buffer in buffers {
        for k in 0..room {
            let bytes = buffer.get(k).map_or(&missing, |&s| &shards[s as usize]);
            out.extend(bytes);
            let gap = bytes.len().next_multiple_of(alignment as usize) - bytes.len();
            out.extend(vec![0; gap]);
        }
    }
    Some(out)
}

fn indices_at(mut n: u64, shape: &[u64]) -> Vec<u64> {
    let mut index = vec![0; shape.len()];
    for (i, size) in index.iter_mut().zip(shape).rev() {
        (*i, n) = (n % size, n / size);
    }
    index
}

#[test]
fn ttnn_tensors_hold_what_the_rules_say() {
    let mut dice = Dice(3);
    let mut refused = 0;
    for _ in 0..600 {
        let shape: Vec<u64> = (0..dice.below(5)).map(|_| dice.pick(&[1, 2, 3, 17, 33, 40])).collect();
        if shape.iter().product::<u64>() > 8000 {
            continue;
        }
        let tile = (dice.below(3) > 0).then(|| {
            let (rows, cols) = (dice.pick(&[1, 2, 4, 8, 16, 32]), dice.pick(&[16, 32]));
            (rows, cols, rows >= 16 && dice.below(3) == 0)
        });
        let (rows, cols, transposed) = tile.unwrap_or((1, 1, false));
        let grid = [dice.between(1, 6), dice.between(1, 6)];
        let col_major = dice.below(2) == 0;
        let memory = match dice.below(6) {
            0 => Memory::Single,
            1 => Memory::Interleaved { banks: dice.between(1, 12), alignment: dice.pick(&[1, 32, 50, 64]) },
            2 => {
                let rank = if tile.is_some() { dice.between(2, 3) } else { dice.between(1, 3) };
                let mut shard: Vec<u64> = (0..rank).map(|_| dice.between(1, 3)).collect();
                let n = shard.len();
                shard[n - 1] *= cols * dice.pick(&[1, 1, 7]);
                if n > 1 {
                    shard[n - 2] *= rows;
                }
                Memory::Sharded { scheme: "ND_SHARDED", grid, shard, col_major }
            }
            k => {
                // Shards that fit more often than not.
                let flat = ttnn_physical(&shape, rows, cols);
                let height = flat[0].div_ceil(dice.between(1, 4)).next_multiple_of(rows);
                let width = flat[1].div_ceil(dice.between(1, 4)).next_multiple_of(cols);
                let (scheme, shard) = match k {
                    3 => ("HEIGHT_SHARDED", vec![height, flat[1]]),
                    4 => ("WIDTH_SHARDED", vec![flat[0], width]),
                    _ => ("BLOCK_SHARDED", vec![height, width]),
                };
                Memory::Sharded { scheme, grid, shard, col_major }
            }
        };
        let mut text = "ttnn(dtype=uint16, layout=".to_owned();
        match tile {
            None => text.push_str("ROW_MAJOR"),
            Some(_) => write!(text, "TILE, tile=({rows}, {cols})").unwrap(),
        }
        if transposed {
            text.push_str(", transpose_tile=True");
        }
        match &memory {
            Memory::Single => {}
            Memory::Interleaved { banks, alignment } => {
                write!(text, ", memory=INTERLEAVED, banks={banks}, alignment={alignment}").unwrap();
            }
            Memory::Sharded { scheme, grid, shard, col_major } => {
                let tuple = if shard.len() == 1 {
                    format!("({},)", shard[0])
                } else {
                    format!("({})", join(shard, ", "))
                };
                let orientation = if *col_major { "COL_MAJOR" } else { "ROW_MAJOR" };
                let grid = join(grid, ", ");
                write!(text, ", memory={scheme}, grid=({grid}), shard={tuple}, orientation={orientation}")
                    .unwrap();
            }
        }
        text.push(')');
        if matches!(&memory, Memory::Sharded { shard, .. } if shard.len() > shape.len().max(2)) {
            assert!(layout(&text, &shape, None).is_err(), "{text} of {shape:?}");
            continue;
        }
        match ttnn(&shape, tile, &memory) {
            Some(expect) => check(&text, &shape, None, &expect),
            None => {
                refused += 1;
                let error = layout(&text, &shape, None).unwrap_err();
                assert!(matches!(error, Error::Value { .. }), "{text} of {shape:?}: {error}");
            }
        }
    }
    assert!((10..200).contains(&refused), "{refused}");
}

/// Rows and columns with the last two dimensions padded.
fn ttnn_physical(shape: &[u64], rows: u64, cols: u64) -> [u64; 2] {
    let n = shape.len();
    let width = if n > 0 { shape[n - 1] } else { 1 }.next_multiple_of(cols);
    let height = if n > 1 { shape[n - 2] } else { 1 }.next_multiple_of(rows);
    [shape[..n.saturating_sub(2)].iter().product::<u64>() * height, width]
}

/// grid; mesh; map to (chip, y, x) as text; back from (chip, y, x).
type DeviceCase = (&'static [u64], &'static str, &'static str, fn(u64, u64, u64) -> Vec<u64>);

/// The virtual grids of tt-mlir's tests with both of their maps, and those of its design text.
const DEVICES: [DeviceCase; 18] = [
    (&[8, 8], "1", "(0, d0, d1)", |_, y, x| vec![y, x]),
    (&[2, 8, 8], "2x1x1", "(d0, d1, d2)", |c, y, x| vec![c % 2, y, x]),
    (&[4, 8, 8], "4x1x1", "(d0, d1, d2)", |c, y, x| vec![c % 4, y, x]),
    (&[8, 16], "1x2", "(d1 floordiv 8, d0, d1 mod 8)", |c, y, x| vec![y, c % 2 * 8 + x]),
    (&[16, 8], "2x1", "(d0 floordiv 8, d0 mod 8, d1)", |c, y, x| vec![c % 2 * 8 + y, x]),
    (&[16, 32], "2x4", "(d1 floordiv 8 + (d0 floordiv 8) * 4, d0 mod 8, d1 mod 8)", |c, y, x| {
        vec![c / 4 % 2 * 8 + y, c % 4 * 8 + x]
    }),
    (&[32, 16], "4x2", "(d1 floordiv 8 + (d0 floordiv 8) * 2, d0 mod 8, d1 mod 8)", |c, y, x| {
        vec![c / 2 % 4 * 8 + y, c % 2 * 8 + x]
    }),
    (&[2, 8, 16], "2x1x2", "(d0 * 2 + d2 floordiv 8, d1, d2 mod 8)", |c, y, x| {
        vec![c / 2 % 2, y, c % 2 * 8 + x]
    }),
    (&[3, 24, 8], "3x3x1", "(d0 * 3 + d1 floordiv 8, d1 mod 8, d2)", |c, y, x| {
        vec![c / 3 % 3, c % 3 * 8 + y, x]
    }),
    (&[3, 2, 8, 8], "3x2x1x1", "(d0 * 2 + d1, d2, d3)", |c, y, x| vec![c / 2 % 3, c % 2, y, x]),
    (&[2, 4, 8], "1", "(0, d0 * 4 + d1, d2)", |_, y, x| vec![y / 4, y % 4, x]),
    (&[16, 16], "2x2", "(d1 floordiv 8 + (d0 floordiv 8) * 2, d0 mod 8, d1 mod 8)", |c, y, x| {
        vec![c / 2 % 2 * 8 + y, c % 2 * 8 + x]
    }),
    (&[8, 8], "1", "(0, d1, d0)", |_, y, x| vec![x, y]),
    (&[1, 64], "1", "(0, d0 * 8 + d1 floordiv 8, d1 mod 8)", |_, y, x| vec![y / 8, y % 8 * 8 + x]),
    (&[64, 1], "1", "(0, d1 * 8 + d0 floordiv 8, d0 mod 8)", |_, y, x| vec![y % 8 * 8 + x, y / 8]),
    (&[8, 8], "1", "(0, d0, (d0 + d1) mod 8)", |_, y, x| vec![y, (x + 8 - y) % 8]),
    // The forms of the design text with their superfluous terms.
    (&[8, 16], "1x2", "((d0 floordiv 8) * 2 + d1 floordiv 8, d0, d1 mod 8)", |c, y, x| vec![y, c * 8 + x]),
    (&[2, 8, 16], "2x1x2", "(d0 * 2 + (d1 floordiv 8) * 2 + d2 floordiv 8, d1, d2 mod 8)", |c, y, x| {
        vec![c / 2, y, c % 2 * 8 + x]
    }),
];

fn device(grid: &[u64], mesh: &str, map: &str, first_chip: u64) -> Device {
    let chips: u64 = mesh.split('x').map(|n| n.parse::<u64>().unwrap()).product();
    let ids: Vec<u64> = (first_chip..first_chip + chips).collect();
    let dims: Vec<String> = (0..grid.len()).map(|d| format!("d{d}")).collect();
    let text = format!(
        "#ttcore.device<workerGrid = #ttcore.grid<{}, ({}) -> {map}>, meshShape = {mesh}, chipIds = [{}]>",
        join(grid, "x"),
        dims.join(", "),
        join(&ids, ", ")
    );
    text.parse().unwrap_or_else(|e| panic!("{text}: {e}"))
}

#[test]
fn device_maps_lead_there_and_back() {
    for (grid, mesh, map, back) in DEVICES {
        let device = device(grid, mesh, map, 0);
        let cores = device.cores().unwrap();
        assert_eq!(cores.chip_grid(), [8, 8], "{map}");
        let mut seen = std::collections::BTreeSet::new();
        for core in indices(grid) {
            let place = cores.physical(&core).unwrap();
            assert!(place[0] < device.chip_ids.len() as u64 && place[1] < 8 && place[2] < 8);
            assert!(seen.insert(place), "{map}");
            assert_eq!(back(place[0], place[1], place[2]), core, "{map}");
            assert_eq!(cores.core_at(place), Some(core), "{map}");
        }
        assert_eq!(seen.len() as u64, 64 * device.chip_ids.len() as u64, "{map}");
        assert_eq!(cores.core_at([99, 0, 0]), None);
        assert_eq!(cores.physical(&vec![64; grid.len()]), None);
        assert_eq!(cores.physical(&[]), None);
    }
}

#[test]
fn buffers_are_listed_by_physical_core() {
    let mut dice = Dice(4);
    for (grid, mesh, map, _) in DEVICES {
        let device = device(grid, mesh, map, 0);
        let cores = device.cores().unwrap();
        for _ in 0..3 {
            let part: Vec<u64> = grid.iter().map(|&n| dice.between(1, n)).collect();
            let dims: Vec<String> = (0..grid.len()).map(|d| format!("d{d}")).collect();
            // One element for each core.
            let text = format!(
                "#ttcore.metal_layout<({0}) -> ({0}), undef, <{1}>, memref<{2}xui16, #ttcore.memory_space<l1>>>",
                dims.join(", "),
                join(&part, "x"),
                join(&vec![1; grid.len()], "x")
            );
            let mut held: Vec<_> =
                (0..).zip(indices(&part)).map(|(i, core)| (cores.physical(&core), value(i))).collect();
            held.sort_unstable();
            let expect: Vec<u8> = held.iter().flat_map(|h| h.1.to_le_bytes()).collect();
            check(&text, &part, Some(&device), &expect);
        }
    }
}

fn message(error: Error, parts: &[&str]) {
    let text = error.to_string();
    assert!(parts.iter().all(|p| text.contains(p)), "{text}, without one of {parts:?}");
}

#[test]
fn devices_that_are_no_bijection_are_refused() {
    let refused = |grid: &[u64], mesh: &str, map: &str, parts: &[&str]| {
        message(device(grid, mesh, map, 0).cores().unwrap_err(), parts);
    };
    refused(&[8, 8], "1", "(0, d0, d1 mod 4)", &["core [0, 0]", "core [0, 4]"]);
    refused(&[8, 8], "1", "(d0 floordiv 4, d0, d1)", &["core [4, 0]", "chip 1"]);
    refused(&[8, 8], "1", "(0, d0 - 1, d1)", &["core [0, 0]", "row -1"]);
    // The slips of the design text's maps on larger grids.
    let slip = "((d0 floordiv 8) * 2 + d1 floordiv 8, d0, d1 mod 8)";
    refused(&[16, 16], "2x2", slip, &["core [8, 0]", "chip 2, row 8", "8x8"]);
    let slip = "(d0 * 2 + (d1 floordiv 8) * 2 + d2 floordiv 8, d1, d2 mod 8)";
    refused(&[2, 16, 16], "2x2x2", slip, &["core [0, 8, 0]", "row 8"]);
    let slip = "(d0 * 2 + (d1 floordiv 8) * 2 + d2 floordiv 8, d1 mod 8, d2 mod 8)";
    refused(&[2, 16, 16], "2x2x2", slip, &["[0, 8, 0]", "[1, 0, 0]"]);
    let right = "(d0 * 4 + (d1 floordiv 8) * 2 + d2 floordiv 8, d1 mod 8, d2 mod 8)";
    assert!(device(&[2, 16, 16], "2x2x2", right, 0).cores().is_ok());
    refused(&[1 << 40, 1 << 40], "1", "(0, d0, d1)", &["1099511627776", "65536"]);
    refused(&[8, 8], "1", "(0, d0 * 9223372036854775807, d1)", &["overflows"]);
}

#[test]
fn a_grid_must_fit_the_device() {
    let device = device(&[8, 8], "1", "(0, d0, d1)", 0);
    let text = "#ttcore.metal_layout<(d0, d1) -> (d0, d1), undef, <9x2>, memref<1x1xui16, #ttcore.memory_space<l1>>>";
    message(layout(text, &[9, 2], Some(&device)).unwrap_err(), &["9x2", "8x8"]);
    let text = "#ttcore.metal_layout<(d0) -> (d0), undef, <4>, memref<1xui16, #ttcore.memory_space<l1>>>";
    message(layout(text, &[4], Some(&device)).unwrap_err(), &["given 4", "8x8"]);
}

#[test]
fn stages_of_a_pipeline_share_no_chip() {
    let map = "(d0, d1, d2)";
    let stages: Vec<Device> = [0, 2, 4].map(|first| device(&[2, 8, 8], "2x1x1", map, first)).into();
    assert_eq!(Device::check_disjoint(&stages), Ok(()));
    let stages: Vec<Device> = [0, 4, 3].map(|first| device(&[2, 8, 8], "2x1x1", map, first)).into();
    message(Device::check_disjoint(&stages).unwrap_err(), &["chip 4", "devices 1 and 2"]);
}

fn metal(map: &str, grid: &str, memref: &str) -> String {
    format!("#ttcore.metal_layout<{map}, undef, <{grid}>, memref<{memref}, #ttcore.memory_space<l1>>>")
}

#[test]
fn maps_that_do_not_fit_are_refused() {
    let refused = |map: &str, grid: &str, memref: &str, shape: &[u64], parts: &[&str]| {
        message(layout(&metal(map, grid, memref), shape, None).unwrap_err(), parts);
    };
    refused("(d0, d1) -> (d0 * 4 + d1, 0)", "1x1", "12x1xui16", &[2, 8], &["[0, 4]", "[1, 0]"]);
    refused("(d0, d1) -> (d0, 0)", "1x1", "2x1xui16", &[2, 8], &["d1", "[0, 0]", "[0, 1]"]);
    refused("(d0) -> (d0 floordiv 2)", "1", "4xui16", &[8], &["[0]", "[1]"]);
    refused("(d0) -> (d0 mod 8)", "1", "5xui16", &[21], &["d0 mod 8", "5 at index [5]", "0 to 4"]);
    refused("(d0, d1) -> (d0 - d1)", "1", "3xui16", &[5, 3], &["-2 to 4", "0 to 2"]);
    refused("(d0) -> (3 - d0)", "1", "1xui16", &[9], &["-5"]);
    refused("(d0) -> (d0 * 9223372036854775807)", "1", "1xui16", &[9], &["2^63"]);
    refused("(d0) -> (d0 floordiv 8, d0 mod 8)", "1x1", "1x1xui16", &[1 << 21], &["262144x8"]);
    let map = "(d0) -> (d0 floordiv 8, d0 mod 8)";
    refused(map, "1x1", "262144x8xui16", &[1 << 21], &["followed", "1048576"]);
}

#[test]
fn results_that_share_dimensions() {
    // A transposing map: rows count down the columns.
    let text = metal("(d0) -> (d0 mod 5, d0 floordiv 5)", "2x1", "3x4xui16");
    let mut expect = [PAD; 24];
    for i in 0..20 {
        expect[(i % 5 * 4 + i / 5) as usize] = value(i);
    }
    check(&text, &[20], None, &expect.iter().flat_map(|e| e.to_le_bytes()).collect::<Vec<_>>());
    // The diagonal of tiles that shards cut: 40 rows in shards of 20, each in two tiles of 16 rows.
    let text = metal("(d0) -> (d0, d0)", "2x2", "2x2x!ttcore.tile<16 x 16, u16>");
    let mut expect = vec![PAD; 4 * 32 * 32];
    for i in 0..40 {
        let (core, at) = (i / 20 * 3, i % 20);
        expect[(core * 1024 + at / 16 * 3 * 256 + at % 16 * 17) as usize] = value(i);
    }
    check(&text, &[40], None, &expect.iter().flat_map(|e| e.to_le_bytes()).collect::<Vec<_>>());
    // The same in block floats: whatever the codec makes of it, all roads to it agree and lead back.
    let text = metal("(d0) -> (d0, d0)", "2x2", "2x2x!ttcore.tile<16 x 16, bfp_bf8>");
    let Descriptor::Metal(diagonal) = text.parse().unwrap() else { unreachable!() };
    let tensor = Tensor { shape: vec![40], dtype: DType::F32 };
    let to = diagonal.to_layout(&tensor, &Placement::default()).unwrap();
    let dense = Memref::new([40], DType::F32);
    let dense = dense.to_layout(&tensor, &Placement::default()).unwrap();
    let source: Vec<u8> = (0..40).flat_map(|i| (i as f32).to_le_bytes()).collect();
    let options = Options::default();
    let out = run::interpret(&Plan::compile(&dense, &to, &options).unwrap(), &source).unwrap();
    assert!(out.writes.iter().all(|&w| w == 1));
    assert_eq!(out.bytes, run::reference(&dense, &to, &options, &source).unwrap());
    let back = run::interpret(&Plan::compile(&to, &dense, &options).unwrap(), &out.bytes).unwrap();
    assert_eq!(back.bytes, source);
}

#[test]
fn tensors_of_today_have_room_for_the_aligned_shape() {
    let text = |grid: &str, kind: &str| {
        format!(
            "tensor<{grid}x1x1x!ttcore.tile<32x32, u16>, #ttcore.metal_layout<logical_shape = 33x128, dim_alignments = \
             32x32, collapsed_intervals = dense<[[0, 1], [1, 2]]> : tensor<2x2xi64>, l1, {kind}>>"
        )
    };
    let refused = |text: String, parts: &[&str]| message(layout(&text, &[33, 128], None).unwrap_err(), parts);
    refused(text("1x4", "sharded"), &["32x128", "64x128", "33x128", "32x32"]);
    let buffers = |grid: &str, kind: &str| layout(&text(grid, kind), &[33, 128], None).unwrap().buffers();
    assert_eq!(buffers("2x4", "sharded"), 8);
    // What is more is padding.
    assert_eq!(buffers("3x4", "sharded"), 12);
    assert_eq!(buffers("2x4", "interleaved"), 1);
    message(layout(&text("2x4", "sharded"), &[33, 127], None).unwrap_err(), &["33x128", "33x127"]);
}

#[test]
fn shards_that_do_not_fit_are_refused() {
    let refused = |memory: &str, parts: &[&str]| {
        let text = format!("ttnn(dtype=uint16, layout=TILE, tile=(32, 32), memory={memory})");
        message(layout(&text, &[53, 63], None).unwrap_err(), parts);
    };
    refused("HEIGHT_SHARDED, grid=(2, 2), shard=(30, 64), orientation=ROW_MAJOR", &["30x64", "32x32"]);
    refused(
        "HEIGHT_SHARDED, grid=(1, 1), shard=(32, 64), orientation=ROW_MAJOR",
        &["given 2", "at most 1", "1x1"],
    );
    refused("HEIGHT_SHARDED, grid=(2, 2), shard=(32, 32), orientation=ROW_MAJOR", &["width", "32", "64"]);
    refused("WIDTH_SHARDED, grid=(2, 2), shard=(32, 32), orientation=ROW_MAJOR", &["height", "32", "64"]);
    refused("BLOCK_SHARDED, grid=(1, 2), shard=(32, 32), orientation=ROW_MAJOR", &["rows of shards", "1x2"]);
    refused(
        "BLOCK_SHARDED, grid=(1, 2), shard=(32, 32), orientation=COL_MAJOR",
        &["columns of shards", "1x2"],
    );
    refused("ND_SHARDED, grid=(1, 2), shard=(1, 32, 32), orientation=ROW_MAJOR", &["1x32x32", "at most 2"]);
    refused("ND_SHARDED, grid=(1, 2), shard=(32,), orientation=ROW_MAJOR", &["given 32", "32x32"]);
    refused("ND_SHARDED, grid=(1, 3), shard=(32, 32), strategy=CONTIGUOUS_1D", &["given 4", "multiple of 3"]);
    refused("ND_SHARDED, grid=(1, 8), shard=(32, 32), strategy=CONTIGUOUS_1D", &["given 4", "multiple of 8"]);
    refused("ND_SHARDED, grid=(1, 2), shard=(32, 32), strategy=GRID_2D", &["rows of shards", "1x2"]);
    let apart = "HEIGHT_SHARDED, grid={[3-0 - 3-0]}, shard=(32, 64)";
    refused(apart, &["given 2", "at most 1", "[3-0 - 3-0]"]);
}

/// Shards of one element each on cores that are listed, so that every place can be told by hand.
#[test]
fn shards_go_to_the_cores_in_their_order() {
    // Rectangles as (x, y, columns, rows).
    let grids: &[&[(u64, u64, u64, u64)]] =
        &[&[(0, 0, 3, 2)], &[(1, 1, 2, 2)], &[(0, 1, 2, 2), (0, 0, 2, 1)]];
    for rectangles in grids {
        for (col_major, contiguous) in [(false, false), (false, true), (true, false), (true, true)] {
            let mut order = Vec::new();
            for &(x, y, columns, rows) in *rectangles {
                for k in 0..columns * rows {
                    let (row, column) =
                        if col_major { (k % rows, k / rows) } else { (k / columns, k % columns) };
                    order.push((y + row, x + column));
                }
            }
            let cores = order.len() as u64;
            let shape = [cores, 3];
            let mut listed: Vec<((u64, u64), Vec<u64>)> = order.iter().map(|&core| (core, vec![])).collect();
            for shard in 0..3 * cores {
                let core = if contiguous { shard / 3 } else { shard % cores };
                listed[core as usize].1.push(shard);
            }
            listed.sort_unstable();
            let expect: Vec<u8> = listed
                .iter()
                .flat_map(|core| &core.1)
                .flat_map(|&shard| value(shard).to_le_bytes())
                .collect();
            let corners =
                |&(x, y, w, h): &(u64, u64, u64, u64)| format!("[{x}-{y} - {}-{}]", x + w - 1, y + h - 1);
            let grid: Vec<String> = rectangles.iter().map(corners).collect();
            let text = format!(
                "ttnn(dtype=uint16, layout=ROW_MAJOR, memory=ND_SHARDED, grid={{{}}}, shard=(1, 1), orientation={}, strategy={})",
                grid.join(", "),
                if col_major { "COL_MAJOR" } else { "ROW_MAJOR" },
                if contiguous { "CONTIGUOUS_1D" } else { "ROUND_ROBIN_1D" },
            );
            check(&text, &shape, None, &expect);
        }
    }
    // Banks in an order of their own: pages 0, 3 and 6 in bank 0, which is buffer 2.
    let text = "ttnn(dtype=uint16, layout=ROW_MAJOR, memory=INTERLEAVED, banks=3, alignment=2, bank_order=[2, 0, 1])";
    let expect = [1, 4, 7, 2, 5, 8, 0, 3, 6].into_iter().flat_map(|page| value(page).to_le_bytes());
    check(text, &[9, 1], None, &expect.collect::<Vec<u8>>());
}

#[test]
fn tensors_without_elements_have_buffers_without_bytes() {
    for (memory, buffers) in [
        ("", 1),
        (", memory=INTERLEAVED, banks=12, alignment=32", 12),
        (", memory=HEIGHT_SHARDED, grid=(2, 2), shard=(32, 32)", 1),
        (", memory=ND_SHARDED, grid=(2, 2), shard=(2, 32, 32), strategy=CONTIGUOUS_1D", 1),
    ] {
        for shape in [&[0][..], &[0, 5], &[5, 0], &[2, 0, 7], &[0, 0, 0]] {
            for page in ["dtype=uint16, layout=TILE", "dtype=uint16, layout=ROW_MAJOR"] {
                let text = format!("ttnn({page}{memory})");
                let built = layout(&text, shape, None).unwrap_or_else(|e| panic!("{text}: {e}"));
                assert_eq!((built.buffers(), built.total_bytes()), (buffers, 0), "{text} {shape:?}");
                assert_eq!(built.padding_elements(), 0);
                check(&text, shape, None, &[]);
            }
        }
    }
}

#[test]
fn sizes_beyond_all_memory_are_errors() {
    const HUGE: u64 = 1 << 62;
    let shapes: [&[u64]; 8] = [
        &[HUGE, 1],
        &[1, HUGE],
        &[1 << 40, 1 << 40],
        &[0, u64::MAX],
        &[u64::MAX, 0],
        &[u64::MAX, u64::MAX],
        &[1 << 50, 3],
        &[3, 1 << 50],
    ];
    let huge = u64::MAX.to_string();
    let texts = [
        "ttnn(dtype=uint16, layout=ROW_MAJOR)".to_owned(),
        "ttnn(dtype=bfloat8_b, layout=TILE, tile=(32, 32))".to_owned(),
        "ttnn(dtype=uint16, layout=TILE, tile=(32, 32), memory=INTERLEAVED, banks=2, alignment=9223372036854775807)"
            .to_owned(),
        format!("ttnn(dtype=uint16, layout=TILE, tile=(32, 32), memory=INTERLEAVED, banks={huge}, alignment=32)"),
        "ttnn(dtype=uint16, layout=ROW_MAJOR, memory=INTERLEAVED, banks=3, alignment=32)".to_owned(),
        format!(
            "ttnn(dtype=uint16, layout=ROW_MAJOR, memory=ND_SHARDED, grid=({huge}, {huge}), shard=(1, 1), \
             orientation=COL_MAJOR)"
        ),
        format!(
            "ttnn(dtype=uint16, layout=ROW_MAJOR, memory=ND_SHARDED, grid=(1, 1), shard=({huge}, {huge}), \
             orientation=COL_MAJOR)"
        ),
        metal("(d0, d1) -> (d0, d1)", "1x1", "1x1xui16"),
        metal("(d0, d1) -> (d0, d1)", &format!("{huge}x{huge}"), "1x1xui16"),
        metal("(d0, d1) -> (d1 * 4611686018427387904, d0)", "1x1", "1x1xui16"),
        metal("(d0, d1) -> (d1 + 9223372036854775807, d0)", "1x1", "1x1xui16"),
    ];
    for text in texts {
        for shape in shapes {
            // An error or a layout, but no panic and nothing large.
            let _ = text.parse::<Descriptor>().map(|_| layout(&text, shape, None));
        }
    }
}

#[test]
fn large_tensors_plan_in_a_few_nests() {
    let compile = |text: &str, shape: &[u64]| {
        let to = layout(text, shape, None).unwrap();
        let dense = Memref::new(shape, DType::U16);
        let tensor = Tensor { shape: shape.to_vec(), dtype: DType::U16 };
        let dense = dense.to_layout(&tensor, &Placement::default()).unwrap();
        let plan = Plan::compile(&dense, &to, &Options::default()).unwrap();
        let nests = plan.to_string().lines().count();
        assert!(nests < 120, "{nests} lines\n{plan}");
    };
    compile("ttnn(dtype=uint16, layout=TILE, tile=(32, 32))", &[7, 131_071, 8191]);
    compile(
        "ttnn(dtype=uint16, layout=TILE, tile=(32, 32), memory=INTERLEAVED, banks=12, alignment=32)",
        &[131_071, 8191],
    );
    compile(
        "ttnn(dtype=uint16, layout=TILE, tile=(32, 32), memory=BLOCK_SHARDED, grid=(8, 8), shard=(16384, 1024), \
         orientation=COL_MAJOR)",
        &[131_000, 8100],
    );
    compile(&metal("(d0, d1) -> (d0, d1)", "8x8", "512x32x!ttcore.tile<32 x 32, u16>"), &[131_000, 8100]);
}

#[test]
fn large_block_tensors_plan_in_a_few_nests() {
    let compile = |text: &str, shape: &[u64]| {
        let plan = compile_blocks(text, shape).unwrap_or_else(|e| panic!("{text}: {e}"));
        let lines = plan.to_string().lines().count();
        assert!(lines < 120, "{lines} lines\n{plan}");
    };
    compile("ttnn(dtype=bfloat8_b, layout=TILE, tile=(32, 32))", &[40_000, 2000, 100]);
    compile("ttnn(dtype=bfloat8_b, layout=TILE, tile=(16, 32), transpose_tile=True)", &[131_071, 8191]);
    compile(
        "ttnn(dtype=bfloat4_b, layout=TILE, tile=(32, 32), memory=INTERLEAVED, banks=12, alignment=64)",
        &[3, 13_107, 8191],
    );
    let halves =
        metal("(d0, d1, d2) -> (d0 * 2000 + d1, d2)", "8x8", "1563x4x!ttcore.tile<32 x 32, bfp_bf8>");
    compile(&halves, &[200, 2000, 1000]);
}

/// The plan of packing dense f32.
fn compile_blocks(text: &str, shape: &[u64]) -> Result<Plan, Error> {
    let tensor = Tensor { shape: shape.to_vec(), dtype: DType::F32 };
    let to = match text.parse()? {
        Descriptor::Metal(d) => d.to_layout(&tensor, &Placement::default())?,
        Descriptor::Ttnn(d) => d.to_layout(&tensor, &Placement::default())?,
        _ => unreachable!("{text}"),
    };
    let dense = Memref::new(shape, DType::F32);
    let dense = dense.to_layout(&tensor, &Placement::default())?;
    Plan::compile(&dense, &to, &Options::default())
}

#[test]
fn moves_that_share_block_tiles_are_packed_once() {
    // Bumped strides put the ends of several batches into one tile; every plan passes its verifier.
    let mut dice = Dice(9);
    for _ in 0..400 {
        let shape: Vec<u64> = (0..3).map(|_| dice.pick(&[1, 2, 3, 5, 8, 19, 40])).collect();
        let inner = shape[1] + dice.pick(&[0, 1, 4, 9]);
        let grid = [dice.pick(&[1, 1, 2, 3]), dice.pick(&[1, 2])];
        let (rows, cols) = (dice.pick(&[4, 8, 16, 32]), dice.pick(&[16, 32]));
        let extents = [(shape[0] - 1) * inner + shape[1], shape[2]];
        let tiles = |k: usize, size: u64| extents[k].div_ceil(grid[k]).div_ceil(size);
        let memref = format!("{}x{}x!ttcore.tile<{rows} x {cols}, bfp_bf8>", tiles(0, rows), tiles(1, cols));
        let text = metal(&format!("(d0, d1, d2) -> (d0 * {inner} + d1, d2)"), &join(&grid, "x"), &memref);
        compile_blocks(&text, &shape).unwrap_or_else(|e| panic!("{text} of {shape:?}: {e}"));
    }
}
