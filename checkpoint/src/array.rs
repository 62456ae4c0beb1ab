//! Dense row-major arrays whose bytes are made when they are read.
//!
//! What a rule asks for (a part of a tensor, several of them stacked, decoded elements) is an [`Array`] of arrays; nobody
//! ever holds more of it than the range that is read.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use tilewright::{DType, Error, Result, Tensor};

use crate::model::{Encoding, Entry, Extent};
use crate::quantised::{BlockType, decode_fp8_row, decode_mxfp4};

/// A dense row-major array, read by ranges.
pub trait Array: Send + Sync {
    /// Its shape and element type.
    fn tensor(&self) -> &Tensor;

    /// Fills `out` with its little-endian bytes from byte `at` on. Both are whole elements, inside of the array.
    ///
    /// # Errors
    /// Where a file cannot be read.
    fn read(&self, at: u64, out: &mut [u8]) -> Result<()>;

    /// Says that a range of bytes, inside of the array, will be read soon.
    fn will_read(&self, range: Range<u64>);
}

/// The array of a tensor of a model, in the type that its encoding decodes to: bf16 for MXFP4 and scaled fp8, as
/// transformers gives them, f32 for GGUF's blocks.
///
/// # Errors
/// [`Error::Value`] for an encoding that cannot be read.
pub fn open(entry: &Entry) -> Result<Arc<dyn Array>> {
    let tensor = |dtype| Tensor { shape: entry.shape.clone(), dtype };
    let data = entry.data.clone();
    Ok(match &entry.encoding {
        Encoding::Plain(dtype) => Arc::new(Plain { tensor: tensor(*dtype), data }),
        Encoding::Blocks(block) => Arc::new(Blocks { tensor: tensor(DType::F32), data, block: *block }),
        Encoding::Mxfp4 { scales } => {
            Arc::new(Mxfp4 { tensor: tensor(DType::Bf16), data, scales: scales.clone() })
        }
        Encoding::Fp8Blocks { scales, grid, block, exponents } => Arc::new(Fp8 {
            tensor: tensor(DType::Bf16),
            data,
            scales: scales.clone(),
            grid: *grid,
            block: *block,
            exponents: *exponents,
            values: OnceLock::new(),
        }),
        Encoding::Other(name) => {
            return Err(Error::value(
                format!("element type of `{}`", entry.name),
                name,
                "a type that is decoded",
            ));
        }
    })
}

/// Elements as they lie in the file.
struct Plain {
    tensor: Tensor,
    data: Extent,
}

impl Array for Plain {
    fn tensor(&self) -> &Tensor {
        &self.tensor
    }

    fn read(&self, at: u64, out: &mut [u8]) -> Result<()> {
        self.data.read_at(at, out)
    }

    fn will_read(&self, range: Range<u64>) {
        self.data.will_read(range);
    }
}

/// The most bytes of the elements of a group that is decoded as one.
const GROUP: usize = 1024;

/// Fills `out` with elements from byte `at` on that are decoded in groups of so many bytes: `decode(first, values)` decodes
/// whole groups, of which the first is given. Groups of which only a part is wanted go through memory of their own.
fn by_groups(at: u64, out: &mut [u8], group: usize, decode: impl Fn(u64, &mut [u8])) {
    let (mut first, mut rest) = (at / group as u64, out);
    let mut skip = (at % group as u64) as usize;
    let mut one = [0; GROUP];
    while !rest.is_empty() {
        let whole = if skip == 0 { rest.len() / group * group } else { 0 };
        let n = if whole > 0 { whole } else { (group - skip).min(rest.len()) };
        let (now, then) = rest.split_at_mut(n);
        if whole > 0 {
            decode(first, now);
        } else {
            decode(first, &mut one[..group]);
            now.copy_from_slice(&one[skip..skip + n]);
        }
        (first, skip, rest) = (first + (n.max(group) / group) as u64, 0, then);
    }
}

/// GGUF's blocks.
struct Blocks {
    tensor: Tensor,
    data: Extent,
    block: BlockType,
}

impl Array for Blocks {
    fn tensor(&self) -> &Tensor {
        &self.tensor
    }

    fn read(&self, at: u64, out: &mut [u8]) -> Result<()> {
        let (elements, size) = (self.block.elements(), self.block.bytes());
        // The codes of all of it are read at once; they are a fraction of what they decode to.
        let first = at / 4 / elements as u64;
        let last = (at + out.len() as u64).div_ceil(4).div_ceil(elements as u64);
        let mut codes = vec![0; (last - first) as usize * size];
        self.data.read_at(first * size as u64, &mut codes)?;
        by_groups(at, out, 4 * elements, |group, values| {
            let from = (group - first) as usize * size;
            self.block.decode(&codes[from..][..values.len() / (4 * elements) * size], values);
        });
        Ok(())
    }

    fn will_read(&self, range: Range<u64>) {
        let (elements, size) = (self.block.elements() as u64, self.block.bytes() as u64);
        self.data
            .will_read(range.start / 4 / elements * size..range.end.div_ceil(4).div_ceil(elements) * size);
    }
}

/// Codes of 4 bits with a scale for 32 of them.
struct Mxfp4 {
    tensor: Tensor,
    data: Extent,
    scales: Extent,
}

impl Array for Mxfp4 {
    fn tensor(&self) -> &Tensor {
        &self.tensor
    }

    fn read(&self, at: u64, out: &mut [u8]) -> Result<()> {
        let first = at / 2 / 32;
        let groups = ((at + out.len() as u64).div_ceil(2).div_ceil(32) - first) as usize;
        let (mut codes, mut scales) = (vec![0; groups * 16], vec![0; groups]);
        self.data.read_at(first * 16, &mut codes)?;
        self.scales.read_at(first, &mut scales)?;
        by_groups(at, out, 64, |group, values| {
            let (from, n) = ((group - first) as usize, values.len() / 64);
            decode_mxfp4(&codes[from * 16..][..n * 16], &scales[from..][..n], values);
        });
        Ok(())
    }

    fn will_read(&self, range: Range<u64>) {
        let groups = range.start / 2 / 32..range.end.div_ceil(2).div_ceil(32);
        self.data.will_read(groups.start * 16..groups.end * 16);
        self.scales.will_read(groups);
    }
}

/// E4M3 with a scale for each block of each matrix.
struct Fp8 {
    tensor: Tensor,
    data: Extent,
    scales: Extent,
    grid: [u64; 2],
    block: [u64; 2],
    exponents: bool,
    /// The scales as f32, read when first needed: one for some 16,384 elements.
    values: OnceLock<Vec<f32>>,
}

impl Fp8 {
    fn scales(&self) -> Result<&[f32]> {
        if let Some(values) = self.values.get() {
            return Ok(values);
        }
        let mut bytes = vec![0; self.scales.bytes as usize];
        self.scales.read_at(0, &mut bytes)?;
        let values = if self.exponents {
            bytes.iter().map(|&b| crate::quantised::power_of_two(b)).collect()
        } else {
            bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
        };
        Ok(self.values.get_or_init(|| values))
    }
}

impl Array for Fp8 {
    fn tensor(&self) -> &Tensor {
        &self.tensor
    }

    fn read(&self, at: u64, out: &mut [u8]) -> Result<()> {
        // What has scales of blocks is a matrix, or several.
        let [.., rows, cols] = *self.tensor.shape.as_slice() else { return Ok(()) };
        let scales = self.scales()?;
        let first = at / 2;
        let mut codes = vec![0; out.len() / 2];
        self.data.read_at(first, &mut codes)?;
        let (mut at, mut codes, mut out) = (first, &codes[..], out);
        while !codes.is_empty() {
            let (row, column) = (at / cols, at % cols);
            let n = ((cols - column) as usize).min(codes.len());
            let of_row = row / rows * self.grid[0] + row % rows / self.block[0];
            let scales = &scales[(of_row * self.grid[1]) as usize..][..self.grid[1] as usize];
            let (now, rest) = out.split_at_mut(2 * n);
            decode_fp8_row(&codes[..n], column, self.block[1], scales, now);
            (at, codes, out) = (at + n as u64, &codes[n..], rest);
        }
        Ok(())
    }

    fn will_read(&self, range: Range<u64>) {
        self.data.will_read(range.start / 2..range.end.div_ceil(2));
    }
}

/// Arrays of one type one after another along the first dimension.
pub struct Stack {
    tensor: Tensor,
    parts: Vec<Arc<dyn Array>>,
    /// Where each part begins, in bytes, and the end of the last.
    starts: Vec<u64>,
}

impl Stack {
    /// Arrays of one shape as one with a new first dimension.
    ///
    /// # Errors
    /// [`Error::Value`] where there is none, or two differ in shape or type.
    pub fn stacked(parts: Vec<Arc<dyn Array>>) -> Result<Stack> {
        let first = common(&parts, |a, b| a == b)?;
        let shape = [parts.len() as u64].into_iter().chain(first.shape.iter().copied()).collect();
        Stack::of(Tensor { shape, dtype: first.dtype }, parts)
    }

    /// Arrays that differ in their first dimension only, as one.
    ///
    /// # Errors
    /// [`Error::Value`] where there is none, or two differ in more than their rows.
    pub fn joined(parts: Vec<Arc<dyn Array>>) -> Result<Stack> {
        let first = common(&parts, |a, b| a.dtype == b.dtype && a.shape.get(1..) == b.shape.get(1..))?;
        let rows: u64 = parts.iter().map(|p| p.tensor().shape[0]).sum();
        let shape = [rows].into_iter().chain(first.shape[1..].iter().copied()).collect();
        Stack::of(Tensor { shape, dtype: first.dtype }, parts)
    }

    fn of(tensor: Tensor, parts: Vec<Arc<dyn Array>>) -> Result<Stack> {
        let mut starts = vec![0];
        let mut end = 0_u64;
        for part in &parts {
            let Tensor { shape, dtype } = part.tensor();
            end += tilewright_files::byte_len(shape, *dtype)?;
            starts.push(end);
        }
        tilewright_files::byte_len(&tensor.shape, tensor.dtype)?;
        Ok(Stack { tensor, parts, starts })
    }
}

/// The tensor of the first part, if all others go with it; arrays with rows have at least one dimension.
fn common(parts: &[Arc<dyn Array>], same: impl Fn(&Tensor, &Tensor) -> bool) -> Result<Tensor> {
    let Some(first) = parts.first() else {
        return Err(Error::value("stack", "no tensor", "at least one"));
    };
    let first = first.tensor();
    let other = parts.iter().map(|p| p.tensor()).find(|t| !same(t, first) || t.shape.is_empty());
    match other {
        Some(other) => Err(Error::value(
            "tensors to stack",
            format!("{:?} {} and {:?} {}", first.shape, first.dtype, other.shape, other.dtype),
            "one shape and one element type",
        )),
        None => Ok(first.clone()),
    }
}

impl Array for Stack {
    fn tensor(&self) -> &Tensor {
        &self.tensor
    }

    fn read(&self, at: u64, out: &mut [u8]) -> Result<()> {
        let (mut at, mut out) = (at, out);
        let mut part = self.starts.partition_point(|&start| start <= at) - 1;
        while !out.is_empty() {
            let n = (self.starts[part + 1] - at).min(out.len() as u64);
            let (now, rest) = out.split_at_mut(n as usize);
            if n > 0 {
                self.parts[part].read(at - self.starts[part], now)?;
            }
            (at, out, part) = (at + n, rest, part + 1);
        }
        Ok(())
    }

    fn will_read(&self, range: Range<u64>) {
        for (part, bounds) in self.parts.iter().zip(self.starts.windows(2)) {
            let (start, end) = (range.start.max(bounds[0]), range.end.min(bounds[1]));
            if start < end {
                part.will_read(start - bounds[0]..end - bounds[0]);
            }
        }
    }
}

/// Some rows of an array: the first, how far apart they are, and how many.
pub struct Rows {
    tensor: Tensor,
    of: Arc<dyn Array>,
    first: u64,
    step: u64,
    row_bytes: u64,
}

impl Rows {
    /// The rows `first`, `first + step` and so on, `n` of them.
    ///
    /// # Errors
    /// [`Error::Value`] where the array has no such rows.
    pub fn new(of: Arc<dyn Array>, first: u64, step: u64, n: u64) -> Result<Rows> {
        let Tensor { shape, dtype } = of.tensor().clone();
        let Some((&rows, inner)) = shape.split_first() else {
            return Err(Error::value("rows", "a scalar", "a tensor of one dimension or more"));
        };
        let last = n.checked_sub(1).map_or(Some(0), |n| step.checked_mul(n)?.checked_add(first));
        if step == 0 || (n > 0 && last.is_none_or(|last| last >= rows)) {
            return Err(Error::value(
                "rows",
                format!("{n} rows from {first}, {step} apart"),
                format!("rows of {rows}"),
            ));
        }
        let row_bytes = tilewright_files::byte_len(inner, dtype)?;
        let shape = [n].into_iter().chain(inner.iter().copied()).collect();
        Ok(Rows { tensor: Tensor { shape, dtype }, of, first, step, row_bytes })
    }
}

impl Array for Rows {
    fn tensor(&self) -> &Tensor {
        &self.tensor
    }

    fn read(&self, at: u64, out: &mut [u8]) -> Result<()> {
        if self.step == 1 || out.is_empty() {
            return self.of.read(self.first * self.row_bytes + at, out);
        }
        let (mut at, mut out) = (at, out);
        while !out.is_empty() {
            let (row, within) = (at / self.row_bytes, at % self.row_bytes);
            let n = (self.row_bytes - within).min(out.len() as u64);
            let (now, rest) = out.split_at_mut(n as usize);
            self.of.read((self.first + row * self.step) * self.row_bytes + within, now)?;
            (at, out) = (at + n, rest);
        }
        Ok(())
    }

    fn will_read(&self, range: Range<u64>) {
        if range.is_empty() || self.row_bytes == 0 {
            return;
        }
        // The rows between are read along.
        let last = (range.end - 1) / self.row_bytes;
        let start = (self.first + range.start / self.row_bytes * self.step) * self.row_bytes;
        self.of.will_read(start..(self.first + last * self.step + 1) * self.row_bytes);
    }
}

/// An array whose matrices are read in panels: some columns of all rows, and then the next columns, of which the last
/// ones may be padding. Its shape is `[.., panels, rows, width]`.
pub struct Panels {
    tensor: Tensor,
    of: Arc<dyn Array>,
    rows: u64,
    columns: u64,
    width: u64,
}

/// Of rows of at most so many bytes, parts are announced with what lies between them: it is on the same pages of a file,
/// or few others, and a call for each part of each row takes longer than the reading.
const SHORT_ROW: u64 = 16 << 10;

impl Panels {
    /// The panels of an array of two dimensions or more, each of `width` columns.
    ///
    /// # Errors
    /// [`Error::Value`] where the array has no columns, or panels would have none.
    pub fn new(of: Arc<dyn Array>, width: u64) -> Result<Panels> {
        let Tensor { shape, dtype } = of.tensor().clone();
        let &[ref outer @ .., rows, columns] = shape.as_slice() else {
            return Err(Error::value("panels", format!("{} dimensions", shape.len()), "two or more"));
        };
        if width == 0 {
            return Err(Error::value("width of panels", width, "1 or more"));
        }
        let shape: Vec<u64> = outer.iter().copied().chain([columns.div_ceil(width), rows, width]).collect();
        tilewright_files::byte_len(&shape, dtype)?;
        Ok(Panels { tensor: Tensor { shape, dtype }, of, rows, columns, width })
    }

    /// The runs of bytes of the array that a range of the panels holds: where each begins in the array, unless it is
    /// padding, and its length.
    fn runs(&self, range: Range<u64>) -> impl Iterator<Item = (Option<u64>, u64)> {
        let size = self.tensor.dtype.size() as u64;
        let mut at = range.start / size;
        let end = range.end / size;
        let panels = self.columns.div_ceil(self.width);
        std::iter::from_fn(move || {
            if at >= end {
                return None;
            }
            let (line, within) = (at / self.width, at % self.width);
            let (row, panel, matrix) =
                (line % self.rows, line / self.rows % panels, line / self.rows / panels);
            let column = panel * self.width + within;
            let there = self.columns.saturating_sub(column).min(self.width - within);
            let (from, len) = match there {
                0 => (None, self.width - within),
                _ => (Some(((matrix * self.rows + row) * self.columns + column) * size), there),
            };
            let len = len.min(end - at);
            at += len;
            Some((from, len * size))
        })
    }
}

impl Array for Panels {
    fn tensor(&self) -> &Tensor {
        &self.tensor
    }

    fn read(&self, at: u64, out: &mut [u8]) -> Result<()> {
        let mut rest = &mut *out;
        for (from, len) in self.runs(at..at + rest.len() as u64) {
            let (now, then) = rest.split_at_mut(len as usize);
            match from {
                Some(from) => self.of.read(from, now)?,
                None => now.fill(0),
            }
            rest = then;
        }
        Ok(())
    }

    fn will_read(&self, range: Range<u64>) {
        let runs = self.runs(range).filter_map(|(from, len)| from.map(|from| from..from + len));
        if self.columns * self.tensor.dtype.size() as u64 > SHORT_ROW {
            return runs.for_each(|run| self.of.will_read(run));
        }
        if let Some(all) = runs.reduce(|a, b| a.start.min(b.start)..a.end.max(b.end)) {
            self.of.will_read(all);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes 0, 1, 2, ..
    struct Counting(Tensor);

    impl Array for Counting {
        fn tensor(&self) -> &Tensor {
            &self.0
        }

        fn read(&self, at: u64, out: &mut [u8]) -> Result<()> {
            out.iter_mut().zip(at..).for_each(|(byte, at)| *byte = at as u8);
            Ok(())
        }

        fn will_read(&self, range: Range<u64>) {
            assert!(range.end <= tilewright_files::byte_len(&self.0.shape, self.0.dtype).unwrap());
        }
    }

    #[test]
    fn panels_hold_columns_of_all_rows() {
        for (outer, rows, columns) in [(1, 3, 7), (3, 4, 6), (2, 1, 5), (2, 5, 1)] {
            for width in 1..=columns + 1 {
                let of = Counting(Tensor::new([outer, rows, columns], DType::U16));
                let panels = Panels::new(Arc::new(of), width).unwrap();
                let count = columns.div_ceil(width);
                assert_eq!(panels.tensor().shape, [outer, count, rows, width]);
                let mut needed = Vec::new();
                for i in 0..outer * count * rows * width {
                    let (within, row) = (i % width, i / width % rows);
                    let (panel, matrix) = (i / width / rows % count, i / width / rows / count);
                    let (column, at) = (panel * width + within, 2 * ((matrix * rows + row) * columns));
                    let at = at + 2 * column;
                    needed.extend(if column < columns { [at as u8, at as u8 + 1] } else { [0, 0] });
                }
                panels.will_read(0..needed.len() as u64);
                for step in [2, 6, 10, needed.len()] {
                    let mut seen = vec![9; needed.len()];
                    for (i, out) in seen.chunks_mut(step).enumerate() {
                        panels.read((i * step) as u64, out).unwrap();
                    }
                    assert_eq!(seen, needed, "{outer} x {rows} x {columns} by {width} in {step}");
                }
            }
        }
    }

    #[test]
    fn groups_are_decoded_whole_and_given_in_parts() {
        // A group of 8 bytes is its number, and the numbers behind it.
        let decode = |first: u64, values: &mut [u8]| {
            assert_eq!(values.len() % 8, 0);
            values.iter_mut().zip(8 * first..).for_each(|(value, at)| *value = at as u8);
        };
        for at in 0..20_u64 {
            for len in 0..40 {
                let mut out = vec![99; len];
                by_groups(at, &mut out, 8, decode);
                assert_eq!(
                    out,
                    (at..at + len as u64).map(|b| b as u8).collect::<Vec<_>>(),
                    "{len} from {at}"
                );
            }
        }
    }
}
