//! The reference for a part of the destination, in memory that does not grow with the tensor.
//!
//! For each place of the part it asks the layout which element lies there, and then, forward, whether that element lies
//! just there. So a caller that has asked for every part, and has counted as many elements as there are, has seen each
//! element in its place and padding everywhere else, without a plan.

use kernels::Number;

use super::reference::element;
use crate::error::{Error, Result};
use crate::layout::Layout;
use crate::layout::axis::Addr;
use crate::layout::index::{ravel, unravel};
use crate::layout::inverse::Inverse;
use crate::plan::{Endpoint, Op, Options, fill};

/// Bytes of a plain source that are read at once. A piece is read again for each visit that others have come between.
const PAGE: u64 = 4096;

/// Pieces of the source that are kept, as a power of two: a megabyte of pages.
const PAGES: u32 = 8;

/// Fills a slice with the bytes of the source from a byte on.
type Read<'a> = dyn FnMut(u64, &mut [u8]) -> Result<()> + 'a;

/// A conversion by the scalar rules, of which any part can be had: what [`super::reference()`] makes whole.
#[derive(Debug)]
pub struct Reference {
    src: Layout,
    dst: Layout,
    from: Endpoint,
    to: Endpoint,
    op: Op,
    fill: Box<[u8]>,
    pad: f32,
    /// The digits that move bytes of the destination, the greatest step first.
    digits: Vec<Digit>,
    /// From cell to coordinate, for each axis of the destination.
    inverses: Vec<Inverse>,
    /// How many cells of each axis the element at each slot of a tile lies behind the tile's first.
    slots: Vec<Vec<i64>>,
}

/// A digit of an address of the destination.
#[derive(Debug)]
struct Digit {
    /// None for replicas.
    axis: Option<usize>,
    n: i64,
    step: i64,
    /// How many cells of the axis each value is.
    weight: i64,
}

impl Reference {
    /// Prepares the conversion from one layout to another.
    ///
    /// # Errors
    /// As [`crate::Plan::compile`].
    pub fn new(src: &Layout, dst: &Layout, options: &Options) -> Result<Reference> {
        if src.shape() != dst.shape() {
            return Err(Error::value("shape", format!("{:?}", src.shape()), format!("{:?}", dst.shape())));
        }
        dst.check_destination()?;
        let from = Endpoint::new(src, &options.of_source())?;
        let to = Endpoint::new(dst, options)?.packed_from(&from);
        let op = Op::new(&from, &to, options)?;
        let (fill, pad) = fill(&to, dst.fill())?;
        let slots = to.codec.map_or(1, |codec| codec.tile().elements());
        Ok(Reference {
            digits: digits(dst),
            inverses: dst.axes.iter().map(|axis| axis.inverse()).collect(),
            slots: (0..slots as i64).map(|slot| dst.inside(&vec![0; dst.axes.len()], slot)).collect(),
            src: src.clone(),
            dst: dst.clone(),
            from,
            to,
            op,
            fill,
            pad,
        })
    }

    /// Bytes of the source: all its buffers, one after another.
    pub fn source_bytes(&self) -> u64 {
        self.src.total_bytes()
    }

    /// How many elements all parts together hold: each as often as the destination has copies of it.
    pub fn elements(&self) -> u64 {
        self.dst.elements() * self.dst.copies()
    }

    /// Fills `out` with the destination from byte `at` on, and says how many elements begin there; elements of a tile
    /// begin where their tile does. `read` fills a slice with the bytes of the source from a byte on. Integers that do
    /// not fit their destination become the nearest that does.
    ///
    /// # Errors
    /// Those of `read`; [`Error::Length`] for a part that reaches behind the end.
    pub fn part(&self, at: u64, out: &mut [u8], read: &mut Read<'_>) -> Result<u64> {
        let end = at.saturating_add(out.len() as u64);
        if end > self.dst.total_bytes() {
            return Err(Error::Length { what: "destination", given: self.dst.total_bytes(), needed: end });
        }
        out.fill(0);
        if out.is_empty() {
            return Ok(0);
        }
        let (space, step) = (&self.dst.space, self.to.block_bytes as u64);
        let mut walk = Walk::new(self, read);
        let (mut block, mut elements) = (vec![0; self.to.block_bytes], 0);
        for place in at / space.pitch_bytes..end.div_ceil(space.pitch_bytes) {
            let begin = place * space.pitch_bytes;
            let unit = space.unit_of(place);
            let first = at.saturating_sub(begin) / step;
            let blocks = space.unit_bytes / step;
            for inside in (first..blocks).map(|k| k * step).take_while(|inside| begin + inside < end) {
                let held = walk.block(unit, inside, &mut block)?;
                // A block that the part cuts belongs to the part in which it begins.
                let (from, to) = (at.max(begin + inside), end.min(begin + inside + step));
                elements += if from == begin + inside { held } else { 0 };
                let cut = (from - begin - inside) as usize..(to - begin - inside) as usize;
                out[(from - at) as usize..(to - at) as usize].copy_from_slice(&block[cut]);
            }
        }
        Ok(elements)
    }
}

fn digits(layout: &Layout) -> Vec<Digit> {
    let moving = layout.digits().filter(|d| d.step[2] == 0 && d.n > 1);
    let mut digits: Vec<Digit> = moving
        .map(|d| Digit { axis: d.axis, n: d.n as i64, step: layout.linear(d.step), weight: d.weight as i64 })
        .collect();
    digits.sort_by_key(|d| std::cmp::Reverse(d.step));
    digits
}

/// One pass over places of the destination, and what it reuses from place to place.
struct Walk<'a> {
    of: &'a Reference,
    pages: Pages<'a>,
    /// Where the cell that was found last begins, and how far its copy lies from the first.
    at: i64,
    copy: i64,
    cells: Vec<i64>,
    /// How many cells follow it along the last digit.
    left: i64,
    /// For each axis the cell that was looked for last, the coordinate found, and its address.
    found: Vec<(i64, Option<u64>, Addr)>,
    /// For each axis of the source the coordinate that was asked for last, and its address.
    asked: Vec<(u64, Addr)>,
    index: Vec<u64>,
    tile: Vec<f32>,
}

impl<'a> Walk<'a> {
    fn new(of: &'a Reference, read: &'a mut Read<'_>) -> Walk<'a> {
        let size = of.src.total_bytes();
        Walk {
            of,
            pages: Pages { read, size, kept: vec![(u64::MAX, Vec::new()); 1 << PAGES] },
            at: 0,
            copy: 0,
            left: 0,
            cells: vec![0; of.dst.axes.len()],
            found: vec![(i64::MIN, None, [0; 3]); of.dst.axes.len()],
            asked: vec![(u64::MAX, [0; 3]); of.src.axes.len()],
            index: vec![0; of.dst.shape().len()],
            tile: vec![0.0; if of.to.codec.is_some() { of.slots.len() } else { 0 }],
        }
    }

    /// Makes the element, the tile or the fill at a byte of a unit; how many elements it holds.
    fn block(&mut self, unit: u64, inside: u64, out: &mut [u8]) -> Result<u64> {
        let of = self.of;
        out.copy_from_slice(&of.fill);
        let place = (unit * of.dst.space.unit_bytes + inside) as i64;
        let Some(copy) = self.find(place - of.dst.offset) else { return Ok(0) };
        let Some(codec) = of.to.codec else {
            if !self.element(0) || !self.lies_at(place - copy, 0) {
                return Ok(0);
            }
            let value = self.value()?;
            let bits = match of.op {
                Op::Copy(_) => value,
                Op::Convert(from, number) => from.convert(number, value),
                Op::Cast { cast, .. } => cast.apply(value).0,
            };
            out.copy_from_slice(&bits.to_le_bytes()[..out.len()]);
            return Ok(1);
        };
        let mut elements = 0;
        self.tile.fill(of.pad);
        for slot in 0..of.slots.len() {
            if self.element(slot) && self.lies_at(place - copy, slot as i64) {
                let value = self.value()?;
                if let Op::Convert(from, _) = of.op {
                    self.tile[slot] = f32::from_bits(from.convert(Number::F32, value) as u32);
                }
                elements += 1;
            }
        }
        if elements > 0 {
            codec.pack_scalar(&self.tile, out);
        }
        Ok(elements)
    }

    /// Finds the cells that begin at a byte counted from the first cell; how far the copy they belong to lies from the
    /// first. None where no cell begins.
    fn find(&mut self, linear: i64) -> Option<i64> {
        let of = self.of;
        if linear < 0 || of.dst.elements() == 0 {
            return None;
        }
        // The next cell of a row is found without a division.
        if let Some(last) = of.digits.last().filter(|last| self.left > 0 && linear == self.at + last.step) {
            self.step(last, 1);
            (self.at, self.left) = (linear, self.left - 1);
            return Some(self.copy);
        }
        self.cells.fill(0);
        (self.at, self.copy, self.left) = (linear, 0, 0);
        let (mut rest, mut left) = (linear, 0);
        for digit in &of.digits {
            let value = (rest / digit.step).min(digit.n - 1);
            rest -= value * digit.step;
            left = digit.n - 1 - value;
            self.step(digit, value);
        }
        if rest != 0 {
            return None;
        }
        self.left = left;
        Some(self.copy)
    }

    fn step(&mut self, digit: &Digit, times: i64) {
        match digit.axis {
            Some(axis) => self.cells[axis] += times * digit.weight,
            None => self.copy += times * digit.step,
        }
    }

    /// Finds the index of the element at a slot of the cells; whether there is one.
    fn element(&mut self, slot: usize) -> bool {
        let dst = &self.of.dst;
        for (a, axis) in dst.axes.iter().enumerate() {
            let cell = self.cells[a] + self.of.slots[slot][a] - axis.first;
            let (known, found, address) = &mut self.found[a];
            if *known != cell {
                (*known, *found) = (cell, self.of.inverses[a].coordinate(cell));
                if let Some(u) = *found {
                    unravel(u, &axis.dims, dst.shape(), &mut self.index);
                    *address = sum(axis.start, axis.addresses.eval(u));
                }
            }
            if found.is_none() {
                return false;
            }
        }
        true
    }

    /// Whether the layout, asked forward, has the element that was found at a byte of all units and a slot.
    fn lies_at(&self, place: i64, slot: i64) -> bool {
        let dst = &self.of.dst;
        let address = self.found.iter().fold([0, dst.offset, 0], |at, axis| sum(at, axis.2));
        dst.linear(address) == place && address[2] == slot
    }

    /// The bits of the element that was found.
    fn value(&mut self) -> Result<u64> {
        let (src, from) = (&self.of.src, &self.of.from);
        let mut address = [0, src.offset, 0];
        for (axis, asked) in src.axes.iter().zip(&mut self.asked) {
            let u = ravel(&self.index, &axis.dims, src.shape());
            if asked.0 != u {
                *asked = (u, sum(axis.start, axis.addresses.eval(u)));
            }
            address = sum(address, asked.1);
        }
        let bytes = self.pages.bytes(src.byte(address), from.block_bytes, from.codec.is_some())?;
        Ok(element(from, bytes, 0, address[2] as usize))
    }
}

fn sum(a: Addr, b: Addr) -> Addr {
    std::array::from_fn(|k| a[k] + b[k])
}

/// Pieces of the source that were read, each in the one place that its first byte says.
struct Pages<'a> {
    read: &'a mut Read<'a>,
    size: u64,
    kept: Vec<(u64, Vec<u8>)>,
}

impl Pages<'_> {
    /// `len` bytes of the source from `at` on; `alone` where they are a tile, which is kept as it is.
    fn bytes(&mut self, at: u64, len: usize, alone: bool) -> Result<&[u8]> {
        let page = if alone { at } else { at / PAGE * PAGE };
        // An element that lies in two pages is one of a source whose buffers have odd sizes.
        let split = !alone && at + len as u64 > page + PAGE;
        let (begin, wanted) = if split { (at, len as u64) } else { (page, PAGE) };
        let wanted = if alone { len as u64 } else { wanted.min(self.size.saturating_sub(begin)) };
        // Fibonacci's hash: pages a power of two apart get different places.
        let place = (begin.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - PAGES)) as usize;
        let (kept, bytes) = &mut self.kept[place];
        if *kept != begin || (bytes.len() as u64) < (at - begin) + len as u64 {
            *kept = u64::MAX;
            bytes.resize(wanted as usize, 0);
            (self.read)(begin, bytes)?;
            *kept = begin;
        }
        let inside = (at - begin) as usize;
        let there = bytes.len() as u64;
        bytes.get(inside..inside + len).ok_or(Error::Length {
            what: "source",
            given: begin + there,
            needed: at + len as u64,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::reference;
    use super::*;
    use crate::family::{Descriptor, Placement, Tensor};
    use crate::{DType, Plan};

    /// Pairs of layouts of every family: padding, shards, banks, replicas, blocks on either side, casts.
    const PAIRS: [(&[u64], DType, &str, &str); 14] = [
        (&[5, 7], DType::F32, "memref<5x7xf32>", "memref<5x7xf32, strided<[1, 9], offset: 3>>"),
        (&[53, 63], DType::F32, "memref<53x63xf32>", "ttnn(dtype=bfloat8_b, layout=TILE)"),
        (&[53, 63], DType::F32, "ttnn(dtype=bfloat8_b, layout=TILE)", "memref<53x63xbf16>"),
        (&[53, 63], DType::F32, "ttnn(dtype=bfloat4_b, layout=TILE)", "ttnn(dtype=float32, layout=TILE)"),
        (&[40, 64], DType::F32, "memref<40x64xf32>", "memref<40x64xmxfp4>"),
        (
            &[53, 63],
            DType::F32,
            "memref<53x63xf32, strided<[1, 53]>>",
            "#ttcore.metal_layout<(d0, d1) -> (d0, d1), undef, <3x2>, memref<18x32xf32, #ttcore.memory_space<l1>>>",
        ),
        (
            &[3, 5],
            DType::Bf16,
            "memref<3x5xbf16>",
            "ttnn(dtype=bfloat16, layout=ROW_MAJOR, memory=INTERLEAVED, banks=2, alignment=32)",
        ),
        (
            &[96, 64],
            DType::F32,
            "memref<96x64xf32>",
            "ttnn(dtype=bfloat8_b, layout=TILE, memory=INTERLEAVED, banks=5, alignment=64)",
        ),
        (
            &[100, 64],
            DType::Bf16,
            "memref<100x64xbf16>",
            "ttnn(dtype=bfloat16, layout=TILE, memory=HEIGHT_SHARDED, grid=(2, 2), shard=(32, 64), orientation=COL_MAJOR)",
        ),
        (&[5, 100], DType::F16, "memref<5x100xf16>", "SpyreTensorLayout((5, 100), torch.float16)"),
        (&[4, 6], DType::I32, "memref<4x6xi32>", "memref<4x6xi8>"),
        (&[4, 6], DType::Bool, "memref<4x6xi1>", "memref<4x6xf32>"),
        (&[], DType::F32, "memref<f32>", "memref<bf16>"),
        (&[0, 3], DType::F32, "memref<0x3xf32>", "ttnn(dtype=bfloat16, layout=TILE)"),
    ];

    #[test]
    fn parts_are_those_of_the_whole() {
        for (shape, dtype, src, dst) in PAIRS {
            let tensor = Tensor { shape: shape.to_vec(), dtype };
            let layout = |text: &str| {
                text.parse::<Descriptor>().unwrap().layout(&tensor, &Placement::default()).unwrap()
            };
            let (src, dst) = (layout(src), layout(dst));
            let options = Options::default().with_saturate(true);
            let one = |i: u64| {
                (i.wrapping_mul(0x9E37_79B9) >> 13) as u8 & if dtype == DType::Bool { 1 } else { 0x7b }
            };
            let source: Vec<u8> = (0..src.total_bytes()).map(one).collect();
            let whole = reference(&src, &dst, &options, &source).unwrap();
            let parts = Reference::new(&src, &dst, &options).unwrap();
            for step in [997_u64, 4096, 1 << 20] {
                let (mut at, mut elements) = (0, 0);
                while at < dst.total_bytes() {
                    let mut out = vec![0xEE; step.min(dst.total_bytes() - at) as usize];
                    let mut read = |at: u64, into: &mut [u8]| {
                        into.copy_from_slice(&source[at as usize..at as usize + into.len()]);
                        Ok(())
                    };
                    elements += parts.part(at, &mut out, &mut read).unwrap();
                    assert_eq!(out, whole[at as usize..at as usize + out.len()], "{dst:?} from {at}");
                    at += out.len() as u64;
                }
                assert_eq!(elements, parts.elements(), "{dst:?}");
            }
            assert_eq!(
                Plan::compile(&src, &dst, &options).unwrap().source_bytes() as u64,
                parts.source_bytes()
            );
        }
    }

    #[test]
    fn copies_are_counted_and_what_lies_outside_is_refused() {
        let tensor = Tensor { shape: vec![8, 6], dtype: DType::F32 };
        let mesh = "MeshMapperConfig([Replicate(), Shard(0)], mesh_shape=(2, 4))".parse().unwrap();
        let place = Placement { mesh: Some(&mesh), ..Placement::default() };
        let layout =
            |text: &str, place: &Placement<'_>| text.parse::<Descriptor>().unwrap().layout(&tensor, place);
        let (src, dst) = (
            layout("memref<8x6xf32>", &Placement::default()).unwrap(),
            layout("memref<2x6xf32>", &place).unwrap(),
        );
        let source: Vec<u8> = (0..192).collect();
        let parts = Reference::new(&src, &dst, &Options::default()).unwrap();
        let mut read = |at: u64, into: &mut [u8]| {
            into.copy_from_slice(&source[at as usize..at as usize + into.len()]);
            Ok(())
        };
        let mut out = vec![0; 384];
        assert_eq!(parts.part(0, &mut out, &mut read), Ok(96));
        assert_eq!(out, [source.clone(), source.clone()].concat());
        assert!(matches!(parts.part(1, &mut out, &mut read), Err(Error::Length { needed: 385, .. })));
    }
}
