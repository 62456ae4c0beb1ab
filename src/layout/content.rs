//! What one buffer holds.

use std::ops::Range;

use super::Layout;
use super::axis::Axis;
use super::index::unravel;
use super::inverse::Inverse;
use super::locate::Digit;
use crate::error::{Error, Result};

/// The most cells that are looked at for one buffer.
const MAX_CELLS: u64 = 1 << 20;

/// What one buffer holds.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Content {
    /// Elements of the tensor, each as often as the buffer has a copy of it.
    pub elements: u64,
    /// Places that hold no element.
    pub padding: u64,
    /// For each logical dimension the smallest range that holds the indices of all elements; the elements need
    /// not fill it. Empty ranges where there is no element.
    pub ranges: Vec<Range<u64>>,
}

impl Layout {
    /// What a buffer holds.
    ///
    /// # Errors
    /// [`Error::Value`] where there is no such buffer, or elements share places, as they may in a source;
    /// [`Error::TooComplex`] where that takes a look at more than 2^20 cells.
    pub fn content(&self, buffer: u64) -> Result<Content> {
        if buffer >= self.buffers() {
            return Err(Error::value("buffer", buffer, format!("one of {}", self.buffers())));
        }
        let places = self.capacity() / self.buffers();
        let mut content = Content { elements: 0, padding: places, ranges: vec![0..0; self.shape.len()] };
        if self.elements() == 0 {
            return Ok(content);
        }
        self.check_destination()?;
        let inverses: Vec<Inverse> = self.axes.iter().map(Axis::inverse).collect();
        let mut work = 0;
        let mut digits: Vec<Digit> = self.digits().filter(|d| d.n > 1).collect();
        digits.sort_by_key(|d| std::cmp::Reverse(self.linear(d.step)));
        // A buffer is several units, or a part of one.
        let (units, parts) =
            (self.space.units.div_ceil(self.buffers()), self.buffers().div_ceil(self.space.units));
        let len = self.space.unit_bytes / parts;
        for place in 0..units {
            let place = buffer / parts * units + place;
            let at = self.space.unit_of(place) * self.space.unit_bytes + buffer % parts * len;
            work += 1 + digits.len() as u64;
            check_work(work)?;
            self.segment(at as i64, len as i64, (&digits, &inverses), &mut work, &mut content)?;
        }
        content.padding -= content.elements;
        Ok(content)
    }

    /// Adds what `len` bytes from `at` on hold. Each digit steps either inside of such a stretch or by whole ones.
    fn segment(
        &self,
        at: i64,
        len: i64,
        (digits, inverses): (&[Digit], &[Inverse]),
        work: &mut u64,
        content: &mut Content,
    ) -> Result<()> {
        // The first cell of each axis in the stretch, and the digits that move cells inside of it.
        let mut cells = vec![0; self.axes.len()];
        let mut inner: Vec<Vec<&Digit>> = vec![vec![]; self.axes.len()];
        let mut whole = vec![true; self.axes.len()];
        let mut copies = 1;
        let mut rest = at;
        for digit in digits {
            let step = self.linear(digit.step);
            let outer = digit.step[2] == 0 && step >= len;
            let value = if outer { rest / step } else { 0 };
            if outer && value >= digit.n as i64 {
                return Ok(());
            }
            rest -= value * step;
            match (digit.axis, outer) {
                (Some(axis), true) => {
                    cells[axis] += value * digit.weight as i64;
                    whole[axis] = false;
                }
                (Some(axis), false) => inner[axis].push(digit),
                (None, true) => {}
                (None, false) => copies *= digit.n,
            }
        }
        let mut elements = copies;
        let mut index = vec![0; self.shape.len()];
        let mut ranges = vec![0..0; self.shape.len()];
        for (i, axis) in self.axes.iter().enumerate() {
            if whole[i] {
                elements *= axis.places.len();
                axis.dims.iter().for_each(|&d| ranges[d] = 0..self.shape[d]);
                continue;
            }
            let count: u64 = inner[i].iter().map(|d| d.n).product();
            *work = work.saturating_add(count);
            check_work(*work)?;
            let held = (0..count).filter_map(|k| {
                let u = inverses[i].coordinate(cell(cells[i], &inner[i], k) - axis.first)?;
                unravel(u, &axis.dims, &self.shape, &mut index);
                axis.dims.iter().for_each(|&d| widen(&mut ranges[d], index[d]));
                Some(u)
            });
            elements *= held.count() as u64;
        }
        if elements > 0 {
            let first = content.elements == 0;
            for (all, range) in content.ranges.iter_mut().zip(ranges) {
                *all = if first { range } else { all.start.min(range.start)..all.end.max(range.end) };
            }
            content.elements += elements;
        }
        Ok(())
    }
}

/// The smallest range that holds `i` too.
fn widen(range: &mut Range<u64>, i: u64) {
    *range = if range.is_empty() { i..i + 1 } else { range.start.min(i)..range.end.max(i + 1) };
}

/// The `k`-th cell that the digits reach from `first` on.
fn cell(first: i64, digits: &[&Digit], mut k: u64) -> i64 {
    digits.iter().fold(first, |cell, digit| {
        let value = k % digit.n;
        k /= digit.n;
        cell + (value * digit.weight) as i64
    })
}

fn check_work(work: u64) -> Result<()> {
    if work > MAX_CELLS {
        return Err(Error::TooComplex { what: "the content of a buffer".into(), cap: MAX_CELLS as usize });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::dtype::DType;
    use crate::family::Descriptor;
    use crate::family::{Placement, Tensor};
    use crate::layout::Owner;

    #[test]
    fn buffers_hold_what_their_bytes_hold() {
        let cases: &[(&str, &[u64], Option<&str>)] = &[
            ("memref<4x6xf32, strided<[16, 2], offset: 3>>", &[4, 6], None),
            ("memref<0x6xf32>", &[0, 6], None),
            (
                "memref<4x6xf32, strided<[1, 4]>>",
                &[8, 6],
                Some("ShardTensorToMesh(mesh_shape=(1, 2), dim=0)"),
            ),
            ("memref<4x6xf32>", &[4, 6], Some("ReplicateTensorToMesh(mesh_shape=(2, 2))")),
            (
                "#ttcore.metal_layout<(d0, d1) -> (d0, d1), undef, <3x2>, memref<18x32xf32, #ttcore.memory_space<l1>>>",
                &[53, 63],
                None,
            ),
            (
                "#ttcore.metal_layout<(d0, d1) -> (d0, d1), undef, <4x1>, memref<2x3xf32, #ttcore.memory_space<l1>>>",
                &[5, 3],
                None,
            ),
            (
                "metal(shape=(2,3,5,40), collapse=[(0,-1)], grid=(4,2), tile=(32,32), dtype=bfp_bf8, oob=undef, memory=l1)",
                &[2, 3, 5, 40],
                None,
            ),
            (
                "metal(shape=(2,3,5,40), collapse=[(0,-1)], grid=(4,2), tile=(32,32), dtype=f32, oob=undef, memory=l1)",
                &[2, 3, 5, 40],
                None,
            ),
            (
                "ttnn(dtype=bfloat16, layout=TILE, memory=INTERLEAVED, banks=3, alignment=4096)",
                &[70, 90],
                None,
            ),
            (
                "ttnn(dtype=bfloat16, layout=ROW_MAJOR, memory=INTERLEAVED, banks=3, alignment=32)",
                &[7, 9],
                None,
            ),
            (
                "ttnn(dtype=float32, layout=TILE, memory=ND_SHARDED, grid=(2, 2), shard=(32, 32), orientation=COL_MAJOR)",
                &[90, 70],
                None,
            ),
            (
                "ttnn(dtype=bfloat8_b, layout=TILE, memory=BLOCK_SHARDED, grid=(2, 2), shard=(32, 64), orientation=COL_MAJOR)",
                &[50, 70],
                None,
            ),
            (
                "SpyreTensorLayout(device_size=[5, 3, 2, 64], dim_map=[1, 2, 0, 2], device_dtype=DataFormats.IEEE_FP16)",
                &[2, 5, 150],
                None,
            ),
        ];
        for &(text, shape, mesh) in cases {
            let dtype = if text.starts_with("Spyre") {
                DType::F16
            } else if text.contains("bfloat16") {
                DType::Bf16
            } else {
                DType::F32
            };
            let tensor = Tensor { shape: shape.to_vec(), dtype };
            let mesh = mesh.map(|mesh| mesh.parse().unwrap());
            let placement = Placement { mesh: mesh.as_ref(), ..Placement::default() };
            let layout = text.parse::<Descriptor>().unwrap().layout(&tensor, &placement).unwrap();
            let mut padding = 0;
            for buffer in 0..layout.buffers() {
                let mut seen = BTreeSet::new();
                for byte in 0..layout.buffer_bytes() {
                    if let Owner::Elements(indices) = layout.owner(buffer, byte).unwrap() {
                        seen.extend(indices);
                    }
                }
                let content = layout.content(buffer).unwrap();
                assert_eq!(content.elements, seen.len() as u64, "{text}: buffer {buffer}");
                for (d, range) in content.ranges.iter().enumerate() {
                    let ends = (seen.iter().map(|i| i[d]).min(), seen.iter().map(|i| i[d] + 1).max());
                    assert_eq!(
                        *range,
                        ends.0.unwrap_or(0)..ends.1.unwrap_or(0),
                        "{text}: buffer {buffer}, dimension {d}"
                    );
                }
                padding += content.padding;
            }
            assert_eq!(padding, layout.padding_elements(), "{text}");
            assert!(layout.content(layout.buffers()).is_err());
        }
    }

    #[test]
    fn a_long_look_is_refused() {
        let text = "ttnn(dtype=uint8, layout=ROW_MAJOR, memory=INTERLEAVED, banks=2, alignment=32)";
        let tensor = Tensor { shape: vec![1 << 40, 3], dtype: DType::U8 };
        let layout = text.parse::<Descriptor>().unwrap().layout(&tensor, &Placement::default()).unwrap();
        assert!(matches!(layout.content(0), Err(Error::TooComplex { .. })));
    }
}
