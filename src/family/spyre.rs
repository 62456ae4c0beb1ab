//! Tensor layouts of IBM Spyre: sticks of 128 bytes, device dimensions that tile host dimensions.

use super::host::strided::row_major;
use super::{Family, Placement, Tensor, check_count, check_shape, check_sizes, join, volume};
use crate::dtype::{DType, Format};
use crate::error::{Error, Result};
use crate::layout::axis::{Axis, Level};
use crate::layout::piecewise::Piecewise;
use crate::layout::{Geometry, Layout, Parts, Space, element_bytes};

/// Bytes of a stick.
pub const STICK_BYTES: u64 = 128;

/// A `SpyreTensorLayout(...)`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum SpyreLayout {
    /// Every device dimension spelled out: `device_size` with `dim_map`, with `stride_map`, or with both.
    Explicit {
        /// Sizes of the device dimensions, outermost first; the last one is the stick.
        device_size: Vec<u64>,
        /// The host dimension of each device dimension; `None` (written -1) for a synthetic one.
        dim_map: Option<Vec<Option<usize>>>,
        /// The host stride of each device dimension in elements; 0 repeats an element, -1 carries nothing.
        stride_map: Option<Vec<i64>>,
        /// Element format on the device; `None` for the format of the tensor's element type.
        dtype: Option<DataFormat>,
    },
    /// `SpyreTensorLayout((5, 100, 150), torch.float16, [1, 0, 2])`: the default rule applied to a host shape.
    Constructor {
        /// Host shape.
        size: Vec<u64>,
        /// Host element type.
        dtype: DType,
        /// Order of the host dimensions, `None` (written -1) last for a sparse layout; the host's own order where absent.
        dim_order: Option<Vec<Option<usize>>>,
    },
}

impl SpyreLayout {
    /// Whether both place every element of the tensor alike: the same device size and format, and the same
    /// host strides where they carry an index. The stride of a device dimension of size 1 is ignored.
    ///
    /// # Errors
    /// Where one of them does not describe the tensor.
    pub fn equivalent(&self, other: &SpyreLayout, tensor: &Tensor) -> Result<bool> {
        let (a, b) = (self.resolve(tensor)?, other.resolve(tensor)?);
        Ok((a.size, a.carried, a.format) == (b.size, b.carried, b.format))
    }

    /// The same tensor with another host dimension along the stick; `None` for one element a stick.
    ///
    /// The device dimension that counted sticks counts those of the new dimension, and the one that held the
    /// new dimension holds the old one, without its padding.
    ///
    /// # Errors
    /// Where there is no such host dimension, or no single device dimension to trade places with.
    pub fn restickify(&self, dim: Option<usize>, tensor: &Tensor) -> Result<SpyreLayout> {
        let device = self.resolve(tensor)?;
        let shape = &tensor.shape;
        if let Some(d) = dim.filter(|d| *d >= shape.len()) {
            return Err(Error::value("stick", format!("dimension {d}"), format!("one of {}", shape.len())));
        }
        let host = row_major(shape);
        let sticks = device.format.elements_per_stick().unwrap_or(1);
        let (old, new) = (device.host_dim(device.size.len() - 1, shape), dim.filter(|&d| shape[d] > 1));
        let Device { mut size, mut strides, carried, format } = device.clone();
        let last = size.len() - 1;
        // The device dimension that holds all of a host dimension but the stick; one of size 1 may hold any.
        let slot = |d: Option<usize>, not: Option<usize>| {
            let holds = |k: &usize| d.is_some() && device.host_dim(*k, shape) == d;
            let spare = |k: &usize| device.size[*k] == 1 && Some(*k) != not;
            let mut held = (0..last).filter(holds);
            match (held.next(), held.next()) {
                (Some(k), None) => Some(k),
                (None, _) => last.checked_sub(2).filter(spare).or_else(|| (0..last).find(spare)),
                _ => None,
            }
        };
        let found = |k: Option<usize>, d: Option<usize>| {
            let given = d.map_or("a sparse layout".into(), |d| format!("host dimension {d}"));
            k.ok_or_else(|| Error::value("stick", given, "one device dimension that holds it, and no more"))
        };
        if old != new {
            size[last] = sticks;
            strides[last] = new.map_or(-1, |d| host[d]);
            match (old, new) {
                (Some(old), Some(new)) => {
                    let count = slot(Some(old), None);
                    let (count, place) =
                        (found(count, Some(old))?, found(slot(Some(new), count), Some(new))?);
                    size[count] = shape[new].div_ceil(sticks);
                    strides[count] = host[new].saturating_mul(sticks as i64);
                    (size[place], strides[place]) = (shape[old], host[old]);
                }
                (Some(old), None) => {
                    let count = found(slot(Some(old), None), Some(old))?;
                    size[count] = size[count].saturating_mul(sticks);
                    strides[count] = host[old];
                }
                (None, new) => {
                    let count = found(new.and(slot(new, None)).filter(|&k| carried[k] > 0), new)?;
                    size[count] = new.map_or(1, |d| shape[d].div_ceil(sticks));
                    strides[count] = strides[last].saturating_mul(sticks as i64);
                }
            }
        }
        let (device_size, stride_map) = (size, Some(strides));
        let moved = SpyreLayout::Explicit { device_size, dim_map: None, stride_map, dtype: Some(format) };
        moved.to_layout(tensor, &Placement::default())?;
        Ok(moved)
    }

    /// What the descriptor says of this tensor, with every default filled in.
    fn resolve(&self, tensor: &Tensor) -> Result<Device> {
        self.validate()?;
        let shape = &tensor.shape;
        check_sizes("shape", shape)?;
        let elements = volume("the tensor", shape.iter().copied())?;
        let (size, strides, carried, format) = match self {
            SpyreLayout::Constructor { size, dtype, dim_order } => {
                check_shape("size", size, tensor)?;
                let format = format_of(*dtype)?;
                let (slots, size) =
                    default_rule(size, dim_order.as_deref(), elements_per_stick("dtype", format)?);
                let (strides, carried) = map_strides(&slots, &size, shape)?;
                (size, strides, carried, format)
            }
            SpyreLayout::Explicit { device_size, dim_map, stride_map, dtype } => {
                let format = dtype.map_or_else(|| format_of(tensor.dtype), Ok)?;
                let sticks = elements_per_stick("device_dtype", format)?;
                check_stick(device_size, sticks, format)?;
                let (strides, carried) = match (dim_map, stride_map) {
                    (Some(map), given) => {
                        check_host_rank(map, shape.len())?;
                        let (strides, carried) = map_strides(map, device_size, shape)?;
                        match given {
                            Some(given) => agree(given, map, device_size, strides, carried)?,
                            None => (strides, carried),
                        }
                    }
                    (None, given) => {
                        let given = given.clone().unwrap_or_default();
                        (given.clone(), given)
                    }
                };
                (device_size.clone(), strides, carried, format)
            }
        };
        if elements > 0
            && let Some(k) = size.iter().position(|&n| n == 0)
        {
            let needed = format!("1 or more, for the tensor has {elements} elements");
            return Err(Error::value("device_size", format!("0 in dimension {k}"), needed));
        }
        let carried = carrying(&carried, &size, elements);
        Ok(Device { size, strides, carried, format })
    }
}

/// Whether a pointwise operation can read both operands stick by stick: at most one loop runs along sticks,
/// and it does so in every operand that it indexes. Shapes are aligned at their last dimension, as in a
/// broadcast.
///
/// # Errors
/// [`Error::Value`] that names the operand whose stick is another one, or why a layout does not fit its tensor.
pub fn stick_compatible(a: (&SpyreLayout, &Tensor), b: (&SpyreLayout, &Tensor)) -> Result<()> {
    let stick = |(layout, tensor): (&SpyreLayout, &Tensor)| -> Result<Option<usize>> {
        let device = layout.resolve(tensor)?;
        let dim = device.host_dim(device.size.len() - 1, &tensor.shape);
        Ok(dim.map(|d| tensor.shape.len() - d))
    };
    let (stick_a, stick_b) = (stick(a)?, stick(b)?);
    let from_end = |n: usize| format!("the dimension {n} from the end");
    for (mine, theirs, other, name) in [(stick_a, stick_b, b.1, "second"), (stick_b, stick_a, a.1, "first")] {
        let Some(n) = mine else { continue };
        let indexed = other.shape.len().checked_sub(n).is_some_and(|d| other.shape[d] > 1);
        if theirs != mine && (indexed || theirs.is_some()) {
            let given = theirs.map_or("no dimension".into(), from_end);
            let what = format!("stick of the {name} operand");
            return Err(Error::value(what, given, format!("{}, as in the other operand", from_end(n))));
        }
    }
    Ok(())
}

/// A layout with every default filled in.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Device {
    /// Sizes of the device dimensions, the stick last.
    size: Vec<u64>,
    /// Host strides as upstream would print them.
    strides: Vec<i64>,
    /// Host strides of the dimensions that carry an index; 0 for those that repeat, -1 for the others.
    carried: Vec<i64>,
    format: DataFormat,
}

/// One digit of a host index.
#[derive(Debug, Clone, Copy)]
struct Digit {
    /// The device dimension.
    dim: usize,
    /// Host elements that one step of it moves by.
    stride: u64,
}

impl Device {
    /// The host dimension that a device dimension carries; the greatest of those that it folds into one.
    fn host_dim(&self, k: usize, shape: &[u64]) -> Option<usize> {
        let host = row_major(shape);
        let below = |d: &usize| shape[*d] > 1 && host[*d] <= self.carried[k];
        (0..shape.len()).filter(below).max_by_key(|&d| host[d])
    }

    /// The axes and the replicas of a tensor that is not empty.
    fn axes(&self, shape: &[u64], format: Format) -> Result<(Vec<Axis>, Vec<Level>)> {
        let levels = self.levels(format);
        let (mut axes, mut replicas, mut digits) = (Vec::new(), Vec::new(), Vec::new());
        for (dim, &stride) in self.carried.iter().enumerate() {
            match stride {
                0 => replicas.push(Level { n: self.size[dim], ..levels[dim] }),
                1.. => digits.push(Digit { dim, stride: stride as u64 }),
                _ => axes.push(Axis::new(vec![], 0, Piecewise::ONE, vec![levels[dim]])?),
            }
        }
        digits.sort_by_key(|d| std::cmp::Reverse(d.stride));
        let mut rest = digits.as_slice();
        let mut dims = Vec::new();
        for (d, &stride) in row_major(shape).iter().enumerate() {
            dims.push(d);
            let stride = stride as u64;
            let (mine, inner) = rest.split_at(rest.partition_point(|digit| digit.stride >= stride));
            // These digits count whole steps of this dimension, and each of them.
            let least = mine.last().map_or(1, |digit| digit.stride / stride);
            let whole = mine.iter().all(|digit| digit.stride % stride == 0);
            let counted = !mine.is_empty() || dims.iter().all(|&d| shape[d] == 1);
            if (whole && least == 1 && counted) || d + 1 == shape.len() {
                axes.push(self.axis(std::mem::take(&mut dims), shape, stride, mine, &levels)?);
                rest = inner;
            }
        }
        Ok((axes, replicas))
    }

    /// The axis of host dimensions whose innermost one has host stride `unit`.
    fn axis(
        &self,
        dims: Vec<usize>,
        shape: &[u64],
        unit: u64,
        digits: &[Digit],
        levels: &[Level],
    ) -> Result<Axis> {
        let len = dims.iter().map(|&d| shape[d]).product::<u64>();
        let host: Vec<u64> = dims.iter().map(|&d| shape[d]).collect();
        let (mut places, mut cells) = (Piecewise::ONE, 1_i64);
        // From the innermost digit outward; `places` covers one step of the next one.
        for (i, digit) in digits.iter().enumerate().rev() {
            let weight = digit.stride / unit;
            if i + 1 == digits.len() && weight != 1 {
                return Err(uncounted(&dims, unit, digit.stride));
            }
            let whole = if i == 0 { len } else { digits[i - 1].stride / unit };
            let needed = whole.div_ceil(weight);
            if needed > self.size[digit.dim] {
                return Err(Error::value(
                    "device_size",
                    format!(
                        "{} in dimension {}, host stride {}",
                        self.size[digit.dim], digit.dim, digit.stride
                    ),
                    format!("{needed} or more for host size {}", join(&host)),
                ));
            }
            places = places.repeat(needed, [cells]).slice(0, whole).1;
            // Ragged splits inside of ragged splits may double the parts each time.
            places.regions([0])?;
            cells *= levels[digit.dim].n as i64;
        }
        if places.len() != len {
            return Err(uncounted(&dims, unit, 0));
        }
        Axis::new(dims, 0, places, digits.iter().map(|d| levels[d.dim]).collect())
    }

    /// The cells of each device dimension: all of a stick, whatever its size, and bytes between.
    fn levels(&self, format: Format) -> Vec<Level> {
        let element = element_bytes(format);
        let mut step = STICK_BYTES as i64;
        let stick = Level::bytes(STICK_BYTES / element, element as i64);
        let mut levels = vec![stick];
        for &n in self.size.iter().rev().skip(1) {
            levels.push(Level::bytes(n, step));
            step *= n as i64;
        }
        levels.reverse();
        levels
    }
}

fn uncounted(dims: &[usize], unit: u64, least: u64) -> Error {
    let dims: Vec<String> = dims.iter().map(usize::to_string).collect();
    let given = if least == 0 { "no stride".into() } else { format!("a least stride of {least}") };
    let needed = format!("{unit}, so that every index is counted");
    Error::value(format!("stride_map of host dimension {}", dims.join(", ")), given, needed)
}

/// The host dimension of each device dimension, and the device size, of a tensor made without an explicit
/// layout: `dim_order` rotated left by one, then the stick dimension once more. Where the stick dimension
/// occurs first it counts sticks.
fn default_rule(
    shape: &[u64],
    order: Option<&[Option<usize>]>,
    sticks: u64,
) -> (Vec<Option<usize>>, Vec<u64>) {
    let natural: Vec<Option<usize>> = (0..shape.len()).map(Some).collect();
    let mut slots = order.unwrap_or(&natural).to_vec();
    let stick = slots.last().copied().flatten();
    if slots.is_empty() {
        slots.push(None);
    }
    slots.rotate_left(1);
    slots.push(stick);
    let size = |(k, slot): (usize, &Option<usize>)| match *slot {
        _ if k + 1 == slots.len() => sticks,
        Some(d) if Some(d) == stick => shape[d].div_ceil(sticks),
        Some(d) => shape[d],
        None => 1,
    };
    let size = slots.iter().enumerate().map(size).collect();
    (slots, size)
}

/// The host stride of each device dimension, as upstream prints it and as far as it carries an index. The
/// device dimensions of one host dimension are its digits, the last one counting by 1.
fn map_strides(slots: &[Option<usize>], size: &[u64], shape: &[u64]) -> Result<(Vec<i64>, Vec<i64>)> {
    let host = row_major(shape);
    let mut room = vec![1_u64; shape.len()];
    let (mut strides, mut carried) = (vec![-1; slots.len()], vec![-1; slots.len()]);
    for (k, slot) in slots.iter().enumerate().rev() {
        // A scalar may be described as one dimension of size 1.
        let Some(d) = slot.filter(|&d| shape.get(d).is_some_and(|&n| n != 1)) else { continue };
        let weight = room[d];
        strides[k] = host[d].saturating_mul(i64::try_from(weight).unwrap_or(i64::MAX));
        if weight < shape[d] {
            carried[k] = strides[k];
        }
        room[d] = weight.saturating_mul(size[k]);
    }
    for (d, (&room, &n)) in room.iter().zip(shape).enumerate() {
        if room < n {
            let given = format!("{room} places for host dimension {d}");
            return Err(Error::value(
                "device_size",
                given,
                format!("{n} or more, the size of the dimension"),
            ));
        }
    }
    Ok((strides, carried))
}

/// The strides of a `dim_map` that comes with a `stride_map`; an error unless both say the same.
fn agree(
    given: &[i64],
    map: &[Option<usize>],
    size: &[u64],
    strides: Vec<i64>,
    mut carried: Vec<i64>,
) -> Result<(Vec<i64>, Vec<i64>)> {
    for k in (0..map.len()).filter(|&k| size[k] != 1) {
        let same = match map[k] {
            None => given[k] <= 0,
            Some(_) if carried[k] == -1 => given[k] == -1 || given[k] == strides[k] || strides[k] == -1,
            Some(_) => given[k] == carried[k],
        };
        if !same {
            return Err(Error::Derived {
                what: "stride_map",
                given: format!("{given:?}"),
                derived: format!("{strides:?}"),
                rule: "dim_map and the host shape".into(),
            });
        }
        if map[k].is_none() {
            carried[k] = given[k];
        }
    }
    Ok((given.to_vec(), carried))
}

/// Host strides without those that carry nothing: of size 1, as large as the tensor, or the same as the stride of an earlier one.
fn carrying(strides: &[i64], size: &[u64], elements: u64) -> Vec<i64> {
    let mut carried: Vec<i64> = Vec::new();
    for (&stride, &n) in strides.iter().zip(size) {
        let none = n == 1 || stride > 0 && (stride as u64 >= elements || carried.contains(&stride));
        carried.push(if none { -1 } else { stride });
    }
    carried
}

/// A `dim_map` names as many host dimensions as there are; a scalar may count as one of size 1.
fn check_host_rank(map: &[Option<usize>], rank: usize) -> Result<()> {
    let named = map.iter().flatten().map(|d| d + 1).max().unwrap_or(0);
    if named != rank && (rank, named) != (0, 1) {
        let given = format!("{named} host dimensions");
        return Err(Error::value("dim_map", given, format!("{rank}, as the tensor has")));
    }
    Ok(())
}

fn check_stick(device_size: &[u64], sticks: u64, format: DataFormat) -> Result<()> {
    let stick = device_size.last().copied().unwrap_or(0);
    if stick > sticks {
        let needed = format!("at most {sticks}, the elements of a {} stick", format.name());
        return Err(Error::value("device_size", format!("a last size of {stick}"), needed));
    }
    Ok(())
}

fn format_of(dtype: DType) -> Result<DataFormat> {
    let needed = "an element type that Spyre has a format for";
    DataFormat::of(dtype).ok_or_else(|| Error::value("dtype", dtype, needed))
}

fn elements_per_stick(what: &str, format: DataFormat) -> Result<u64> {
    format.elements_per_stick().ok_or_else(|| {
        Error::value(what, format.name(), "a format with a known number of elements in a stick")
    })
}

/// Host dimensions 0, 1, .. up to the largest occur at least once; one synthetic dimension at most is larger than 1.
fn check_dim_map(map: &[Option<usize>], device_size: &[u64]) -> Result<()> {
    let rank = map.iter().flatten().map(|d| d.saturating_add(1)).max().unwrap_or(0);
    if rank > map.len() {
        return Err(Error::value(
            "dim_map",
            format!("host dimension {}", rank - 1),
            format!("-1 to {}, for there are {} device dimensions", map.len() - 1, map.len()),
        ));
    }
    if let Some(missing) = (0..rank).find(|d| !map.contains(&Some(*d))) {
        return Err(Error::value(
            "dim_map",
            format!("no host dimension {missing}"),
            "every host dimension at least once",
        ));
    }
    let synthetic = map.iter().zip(device_size).filter(|(d, size)| d.is_none() && **size != 1).count();
    if synthetic > 1 {
        return Err(Error::value(
            "dim_map",
            format!("{synthetic} synthetic dimensions (-1)"),
            "at most one larger than 1",
        ));
    }
    Ok(())
}

/// A permutation of the host dimensions, with or without a -1 behind it.
fn check_dim_order(order: &[Option<usize>], rank: usize) -> Result<()> {
    let dense = match order.split_last() {
        Some((None, rest)) => rest,
        _ => order,
    };
    check_count("dim_order", dense.len(), rank, "one for each dimension, and perhaps -1 behind them")?;
    for (at, dim) in dense.iter().enumerate() {
        let given = match dim {
            None => "-1 before the end".into(),
            Some(d) if *d >= rank => format!("dimension {d}"),
            Some(d) if dense[..at].contains(dim) => format!("dimension {d} twice"),
            _ => continue,
        };
        return Err(Error::value("dim_order", given, format!("each of the {rank} dimensions once")));
    }
    Ok(())
}

/// An element format of the device, with its number in the runtime's `DataFormats`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum DataFormat {
    Sen169Fp16 = 0,
    IeeeFp32 = 1,
    Invalid = 2,
    Sen143Fp8 = 3,
    Sen152Fp8 = 4,
    Sen153Fp9 = 5,
    SenInt2 = 6,
    SenInt4 = 7,
    SenInt8 = 8,
    SenInt16 = 9,
    SenInt24 = 10,
    IeeeInt64 = 11,
    IeeeInt32 = 12,
    SenUint32 = 13,
    SenUint2 = 14,
    IeeeFp16 = 15,
    Bool = 16,
    Bfloat16 = 17,
    Sen18FFp24 = 18,
}

/// Every format with its name, its bits and the elements of a stick (0: not known).
const FORMATS: [(DataFormat, &str, u32, u64); 19] = [
    (DataFormat::Sen169Fp16, "SEN169_FP16", 16, 64),
    (DataFormat::IeeeFp32, "IEEE_FP32", 32, 32),
    (DataFormat::Invalid, "INVALID", 0, 0),
    (DataFormat::Sen143Fp8, "SEN143_FP8", 8, 128),
    (DataFormat::Sen152Fp8, "SEN152_FP8", 8, 128),
    (DataFormat::Sen153Fp9, "SEN153_FP9", 9, 0),
    (DataFormat::SenInt2, "SENINT2", 2, 512),
    (DataFormat::SenInt4, "SENINT4", 4, 256),
    (DataFormat::SenInt8, "SENINT8", 8, 128),
    (DataFormat::SenInt16, "SENINT16", 16, 64),
    (DataFormat::SenInt24, "SENINT24", 24, 0),
    (DataFormat::IeeeInt64, "IEEE_INT64", 64, 16),
    (DataFormat::IeeeInt32, "IEEE_INT32", 32, 32),
    (DataFormat::SenUint32, "SENUINT32", 32, 32),
    (DataFormat::SenUint2, "SENUINT2", 2, 512),
    (DataFormat::IeeeFp16, "IEEE_FP16", 16, 64),
    (DataFormat::Bool, "BOOL", 8, 128),
    (DataFormat::Bfloat16, "BFLOAT16", 16, 64),
    (DataFormat::Sen18FFp24, "SEN18F_FP24", 24, 0),
];

impl DataFormat {
    /// Every format, by number.
    pub fn all() -> impl Iterator<Item = DataFormat> {
        FORMATS.iter().map(|f| f.0)
    }

    /// Its name in `DataFormats`: `SEN169_FP16`.
    pub fn name(self) -> &'static str {
        FORMATS[self as usize].1
    }

    /// Its number in `DataFormats`.
    pub fn number(self) -> u64 {
        self as u64
    }

    /// Bits of one element; 0 for `INVALID`.
    pub fn bits(self) -> u32 {
        FORMATS[self as usize].2
    }

    /// Elements of a stick of 128 bytes; `None` where the format has no such number.
    pub fn elements_per_stick(self) -> Option<u64> {
        Some(FORMATS[self as usize].3).filter(|n| *n > 0)
    }

    /// The format of a name.
    pub fn from_name(name: &str) -> Option<DataFormat> {
        FORMATS.iter().find(|f| f.1 == name).map(|f| f.0)
    }

    /// The format of a number.
    pub fn from_number(number: u64) -> Option<DataFormat> {
        FORMATS.get(usize::try_from(number).ok()?).map(|f| f.0)
    }

    /// How its elements are stored; `None` for formats of part bytes and for those whose encoding is not public.
    pub fn storage(self) -> Option<Format> {
        Some(Format::Plain(match self {
            DataFormat::Sen169Fp16 => return Some(Format::Sen169),
            DataFormat::IeeeFp32 => DType::F32,
            DataFormat::IeeeFp16 => DType::F16,
            DataFormat::Bfloat16 => DType::Bf16,
            DataFormat::IeeeInt64 => DType::I64,
            DataFormat::IeeeInt32 => DType::I32,
            DataFormat::SenUint32 => DType::U32,
            DataFormat::SenInt16 => DType::I16,
            DataFormat::SenInt8 => DType::I8,
            DataFormat::Bool => DType::Bool,
            _ => return None,
        }))
    }

    /// The format that a host element type gets by default.
    pub fn of(dtype: DType) -> Option<DataFormat> {
        Some(match dtype {
            DType::F16 | DType::Bf16 | DType::Bool => DataFormat::Sen169Fp16,
            DType::F32 => DataFormat::IeeeFp32,
            DType::F8E4M3 => DataFormat::Sen143Fp8,
            DType::F8E5M2 => DataFormat::Sen152Fp8,
            DType::I64 | DType::I32 => DataFormat::IeeeInt32,
            DType::I16 => DataFormat::SenInt16,
            DType::I8 => DataFormat::SenInt8,
            DType::U8 => DataFormat::SenUint32,
            _ => return None,
        })
    }
}

impl Family for SpyreLayout {
    /// Checks ranks, that maps name dimensions and that the stick fits its format.
    ///
    /// # Errors
    /// [`Error::Value`] that names the part.
    fn validate(&self) -> Result<()> {
        match self {
            SpyreLayout::Explicit { device_size, dim_map, stride_map, dtype } => {
                let rank = device_size.len();
                check_sizes("device_size", device_size)?;
                if device_size.is_empty() {
                    return Err(Error::value("device_size", "no dimension", "at least the stick"));
                }
                if dim_map.is_none() && stride_map.is_none() {
                    return Err(Error::value(
                        "device_size",
                        "no dim_map or stride_map with it",
                        "one of them, or both",
                    ));
                }
                if let Some(map) = dim_map {
                    check_count("dim_map", map.len(), rank, "one for each device dimension")?;
                    check_dim_map(map, device_size)?;
                }
                if let Some(map) = stride_map {
                    check_count("stride_map", map.len(), rank, "one for each device dimension")?;
                    if let Some(stride) = map.iter().find(|s| **s < -1) {
                        return Err(Error::value("stride_map", stride, "host strides of 0 or more, or -1"));
                    }
                }
                if let Some(format) = dtype {
                    check_stick(device_size, elements_per_stick("device_dtype", *format)?, *format)?;
                }
                Ok(())
            }
            SpyreLayout::Constructor { size, dtype, dim_order } => {
                check_sizes("size", size)?;
                elements_per_stick("dtype", format_of(*dtype)?)?;
                dim_order.as_ref().map_or(Ok(()), |order| check_dim_order(order, size.len()))
            }
        }
    }

    /// The layout of a tensor: one buffer of whole sticks, row-major over the device dimensions.
    ///
    /// A host index is split over the device dimensions, greatest host stride first and equal strides in
    /// order; a `dim_map` splits each host dimension alone, its last device dimension counting by 1. What no
    /// index reaches is padding, 0 unless the placement says otherwise.
    ///
    /// # Errors
    /// Where the device dimensions have no room for the tensor or skip an index, where `dim_map` and
    /// `stride_map` disagree, for a format without a codec, and for more than 2^60 bytes.
    fn to_layout(&self, tensor: &Tensor, placement: &Placement<'_>) -> Result<Layout> {
        let device = self.resolve(tensor)?;
        let format = device.format.storage().ok_or_else(|| {
            let needed = "a format of whole bytes whose encoding is known, such as SEN169_FP16 or IEEE_FP32";
            Error::value("device_dtype", device.format.name(), needed)
        })?;
        let (_, outer) = device.size.split_last().unwrap_or((&0, &[]));
        let bytes = volume("the device tensor", outer.iter().copied().chain([STICK_BYTES]))?;
        let (axes, replicas) =
            if tensor.shape.contains(&0) { (vec![], vec![]) } else { device.axes(&tensor.shape, format)? };
        Layout::new(Parts {
            shape: tensor.shape.clone(),
            format,
            tile: None,
            axes,
            replicas,
            offset: 0,
            space: Space::in_order(1, bytes),
            fill: placement.pad_value.unwrap_or(0.0),
            geometry: Geometry {
                physical_shape: device.size.clone(),
                device_size: Some(device.size),
                stride_map: Some(device.strides),
                ..Geometry::default()
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::coverage::{Held, held};

    fn tensor(shape: &[u64], dtype: DType) -> Tensor {
        Tensor { shape: shape.to_vec(), dtype }
    }

    fn constructor(size: &[u64], dtype: DType, order: Option<&[i64]>) -> SpyreLayout {
        let dim = |&d: &i64| usize::try_from(d).ok();
        let dim_order = order.map(|o| o.iter().map(dim).collect());
        SpyreLayout::Constructor { size: size.to_vec(), dtype, dim_order }
    }

    fn mapped(device_size: &[u64], dim_map: &[i64], dtype: DataFormat) -> SpyreLayout {
        let dim_map = Some(dim_map.iter().map(|&d| usize::try_from(d).ok()).collect());
        SpyreLayout::Explicit {
            device_size: device_size.to_vec(),
            dim_map,
            stride_map: None,
            dtype: Some(dtype),
        }
    }

    fn strided(device_size: &[u64], stride_map: &[i64]) -> SpyreLayout {
        SpyreLayout::Explicit {
            device_size: device_size.to_vec(),
            dim_map: None,
            stride_map: Some(stride_map.to_vec()),
            dtype: Some(DataFormat::IeeeFp16),
        }
    }

    fn layout(spyre: &SpyreLayout, tensor: &Tensor) -> Layout {
        spyre.to_layout(tensor, &Placement::default()).unwrap()
    }

    /// Host shape, type, order, device size, and stride map with `ANY` for what means nothing.
    type Row<'a> = (&'a [u64], DType, Option<&'a [i64]>, &'a [u64], &'a [i64]);
    const ANY: i64 = i64::MIN;

    const ROWS: &[Row] = &[
        (&[], DType::F16, None, &[1, 64], &[ANY, -1]),
        (&[120], DType::F16, None, &[2, 64], &[64, 1]),
        (&[128], DType::F16, None, &[2, 64], &[64, 1]),
        (&[512, 240], DType::F16, None, &[4, 512, 64], &[64, 240, 1]),
        (&[512, 256], DType::F16, None, &[4, 512, 64], &[64, 256, 1]),
        (&[512, 8, 240], DType::F16, None, &[8, 4, 512, 64], &[240, 64, 1920, 1]),
        (&[512, 8, 256], DType::F16, None, &[8, 4, 512, 64], &[256, 64, 2048, 1]),
        (&[2, 4, 8, 64], DType::F16, None, &[4, 8, 1, 2, 64], &[512, 64, ANY, 2048, 1]),
        (&[2880, 90, 44, 64], DType::F16, None, &[90, 44, 1, 2880, 64], &[2816, 64, ANY, 253_440, 1]),
        (&[50, 10, 200], DType::F16, None, &[10, 4, 50, 64], &[200, 64, 2000, 1]),
        (&[5, 100, 150], DType::F16, None, &[100, 3, 5, 64], &[150, 64, 15_000, 1]),
        (&[4, 1], DType::F32, None, &[1, 4, 32], &[ANY, 1, -1]),
        (&[4, 1], DType::F16, None, &[1, 4, 64], &[ANY, 1, -1]),
        (&[4, 32], DType::F32, None, &[1, 4, 32], &[ANY, 32, 1]),
        (&[4, 64], DType::F16, None, &[1, 4, 64], &[ANY, 64, 1]),
        (&[4, 64], DType::F32, None, &[2, 4, 32], &[32, 64, 1]),
        (&[512, 256], DType::F16, Some(&[1, 0]), &[8, 256, 64], &[16_384, 1, 256]),
        (&[512, 8, 256], DType::F16, Some(&[0, 2, 1]), &[256, 1, 512, 64], &[1, ANY, 2048, 256]),
        (&[512, 8, 256], DType::F16, Some(&[1, 0, 2]), &[512, 4, 8, 64], &[2048, 64, 256, 1]),
        (&[512, 8, 256], DType::F16, Some(&[1, 2, 0]), &[256, 8, 8, 64], &[1, 131_072, 256, 2048]),
        (&[512, 8, 256], DType::F16, Some(&[2, 0, 1]), &[512, 1, 256, 64], &[2048, ANY, 1, 256]),
        (&[512, 8, 256], DType::F16, Some(&[2, 1, 0]), &[8, 8, 256, 64], &[256, 131_072, 1, 2048]),
        (&[5, 100, 150], DType::F16, Some(&[1, 0, 2]), &[5, 3, 100, 64], &[15_000, 64, 150, 1]),
        (&[512, 256], DType::F16, Some(&[0, 1, -1]), &[256, 1, 512, 64], &[1, ANY, 256, -1]),
        (&[68, 4], DType::F16, Some(&[1, 0]), &[2, 4, 64], &[256, 1, 4]),
        (&[68, 4], DType::F32, Some(&[1, 0]), &[3, 4, 32], &[128, 1, 4]),
        (&[4, 32], DType::F32, Some(&[1, 0]), &[1, 32, 32], &[ANY, 1, 32]),
        (&[2, 3, 32], DType::F32, Some(&[2, 1, 0]), &[3, 1, 32, 32], &[32, ANY, 1, 96]),
        (&[2, 3, 32], DType::F16, Some(&[2, 1, 0]), &[3, 1, 32, 64], &[32, ANY, 1, 96]),
        (&[1, 4, 32], DType::F32, Some(&[1, 2, 0]), &[32, 1, 4, 32], &[1, ANY, 32, -1]),
        (&[256, 128], DType::F16, Some(&[1, 0]), &[4, 128, 64], &[8192, 1, 128]),
        (&[128, 256], DType::F16, Some(&[1, 0]), &[2, 256, 64], &[16_384, 1, 256]),
    ];

    #[test]
    fn constructors_follow_the_default_rule() {
        for &(shape, dtype, order, size, strides) in ROWS {
            let tensor = tensor(shape, dtype);
            let built = layout(&constructor(shape, dtype, order), &tensor);
            let geometry = built.geometry();
            assert_eq!(geometry.device_size.as_deref(), Some(size), "{shape:?} {order:?}");
            let seen = geometry.stride_map.as_ref().unwrap();
            let same = seen.iter().zip(strides).all(|(s, e)| s == e || *e == ANY);
            assert!(same && seen.len() == strides.len(), "{shape:?} {order:?}: {seen:?}");
            let bytes = size[..size.len() - 1].iter().product::<u64>() * STICK_BYTES;
            assert_eq!((built.buffers(), built.buffer_bytes()), (1, bytes));
            assert_eq!(built.padding_elements(), bytes / dtype.size() as u64 - built.elements());
        }
    }

    /// What the rule puts on each place, by a walk over all device coordinates and all host indices.
    fn oracle(shape: &[u64], device_size: &[u64], strides: &[i64], sticks: u64) -> Vec<Held> {
        let total: u64 = shape.iter().product();
        let mut order: Vec<usize> =
            (0..strides.len()).filter(|&k| device_size[k] > 1 && strides[k] > 0).collect();
        order.sort_by_key(|&k| std::cmp::Reverse(strides[k]));
        let rank = device_size.len();
        let places = device_size[..rank - 1].iter().product::<u64>() * sticks;
        let mut out = vec![Held::Fill; places as usize];
        let repeats: Vec<usize> = (0..rank).filter(|&k| strides[k] == 0).collect();
        let copies: u64 = repeats.iter().map(|&k| device_size[k]).product();
        for element in 0..total {
            let (mut rest, mut at) = (element, vec![0; rank]);
            for &k in &order {
                at[k] = rest / strides[k] as u64;
                rest %= strides[k] as u64;
                assert!(at[k] < device_size[k]);
            }
            assert_eq!(rest, 0);
            for mut copy in 0..copies {
                for &k in &repeats {
                    at[k] = copy % device_size[k];
                    copy /= device_size[k];
                }
                let outer = at[..rank - 1].iter().zip(device_size).fold(0, |p, (c, n)| p * n + c);
                out[(outer * sticks + at[rank - 1]) as usize] = Held::Element(element);
            }
        }
        out
    }

    #[test]
    fn stride_maps_split_a_host_index_greatest_stride_first() {
        let cases: &[(&[u64], &[u64], &[i64])] = &[
            (&[60], &[1, 64], &[64, 1]),
            (&[120], &[2, 64], &[64, 1]),
            (&[240], &[4, 64], &[64, 1]),
            (&[40, 60], &[1, 60, 64], &[3840, 1, 60]),
            (&[40, 60], &[1, 40, 64], &[64, 60, 1]),
            (&[40, 120], &[2, 40, 64], &[64, 120, 1]),
            (&[40, 240], &[1, 240, 64], &[15_360, 1, 240]),
            (&[40, 240], &[4, 512, 64], &[64, 240, 1]),
            (&[60], &[1, 512, 64], &[64, 0, 1]),
            (&[40, 60], &[38, 64], &[64, 1]),
            (&[60], &[1, 1, 1, 64], &[60, 64, 60, 1]),
            (&[60], &[1, 60, 64], &[64, 1, 1]),
            (&[60], &[1, 1, 60, 64], &[1, 64, 1, 1]),
            (&[60], &[1, 2, 64], &[64, 30, 1]),
            (&[60], &[2, 1, 2, 64], &[15, 64, 30, 1]),
            (&[60], &[2, 1, 1, 2, 64], &[15, 15, 64, 30, 1]),
            (&[60], &[1, 2, 2, 1, 1, 64], &[60, 30, 15, 64, 60, 1]),
            (&[4800], &[3, 2, 14, 64], &[120, 64, 360, 1]),
            (&[40, 60], &[24, 1, 2, 64], &[60, 64, 1440, 1]),
            (&[40, 60], &[2, 12, 1, 2, 64], &[720, 60, 64, 1200, 1]),
            (&[40, 60], &[2, 6, 2, 1, 2, 64], &[720, 120, 60, 64, 1200, 1]),
            (&[40, 60], &[3, 4, 3, 1, 2, 64], &[600, 180, 60, 64, 1800, 1]),
            (&[3, 1, 128], &[1, 3, 2, 1, 64], &[-1, 128, 64, -1, 1]),
            (&[7], &[7, 64], &[1, -1]),
            (&[7, 3], &[3, 2, 7, 64], &[1, 0, 3, -1]),
            (&[5, 6, 7], &[30, 2, 5], &[7, 5, 1]),
        ];
        for &(shape, size, strides) in cases {
            let tensor = tensor(shape, DType::F16);
            let built = layout(&strided(size, strides), &tensor);
            assert_eq!(held(&built), oracle(shape, size, strides, 64), "{shape:?} {size:?} {strides:?}");
        }
    }

    #[test]
    fn dim_maps_are_digits_from_right_to_left() {
        let cases: &[(&[u64], &[u64], &[i64])] = &[
            (&[5, 100, 150], &[100, 3, 5, 64], &[1, 2, 0, 2]),
            (&[10, 20, 50], &[24, 2, 12, 64], &[1, 2, 0, 2]),
            (&[6, 70], &[6, 3, 64], &[0, 1, 1]),
            (&[6, 7], &[7, 6, 64], &[1, 0, -1]),
            (&[10, 9], &[3, 5, 64], &[0, 0, 1]),
            (&[6, 100], &[4, 2, 7, 64], &[1, 1, 0, 1]),
            (&[1, 100], &[2, 12, 64], &[1, 0, 1]),
            (&[100, 1], &[3, 100, 64], &[1, 0, 1]),
            (&[], &[64], &[0]),
            (&[], &[3, 64], &[-1, 0]),
        ];
        for &(shape, size, map) in cases {
            // Each device coordinate, its digits combined from right to left into a host index.
            let rank = size.len();
            let sizes: Vec<u64> = size[..rank - 1].iter().copied().chain([64]).collect();
            let expected: Vec<Held> = (0..sizes.iter().product())
                .map(|mut place: u64| {
                    let mut index = vec![0; shape.len()];
                    let mut weight = vec![1; shape.len()];
                    let mut padding = false;
                    for k in (0..rank).rev() {
                        let c = place % sizes[k];
                        place /= sizes[k];
                        match usize::try_from(map[k]).ok().filter(|&d| d < shape.len()) {
                            Some(d) => {
                                index[d] += c * weight[d];
                                weight[d] *= sizes[k];
                            }
                            None => padding |= c != 0,
                        }
                    }
                    padding |= index.iter().zip(shape).any(|(i, n)| i >= n);
                    let number = index.iter().zip(shape).fold(0, |at, (i, n)| at * n + i);
                    if padding { Held::Fill } else { Held::Element(number) }
                })
                .collect();
            let built = layout(&mapped(size, map, DataFormat::IeeeFp16), &tensor(shape, DType::F16));
            assert_eq!(held(&built), expected, "{shape:?} {size:?} {map:?}");
        }
    }

    #[test]
    fn constructors_place_each_element_by_its_stride_map() {
        let orders: &[Option<&[i64]>] = &[
            None,
            Some(&[1, 0, 2]),
            Some(&[2, 1, 0]),
            Some(&[0, 2, 1]),
            Some(&[1, 2, 0]),
            Some(&[0, 1, 2, -1]),
        ];
        for shape in [[3, 5, 70], [70, 3, 1], [1, 130, 4], [2, 64, 65], [5, 1, 1]] {
            for order in orders {
                let built = layout(&constructor(&shape, DType::F32, *order), &tensor(&shape, DType::F32));
                let (size, strides) = (
                    built.geometry().device_size.clone().unwrap(),
                    built.geometry().stride_map.clone().unwrap(),
                );
                assert_eq!(held(&built), oracle(&shape, &size, &strides, 32), "{shape:?} {order:?}");
            }
        }
    }

    #[test]
    fn both_maps_must_agree() {
        let both = |strides: &[i64]| SpyreLayout::Explicit {
            device_size: vec![2, 6, 64],
            dim_map: Some(vec![Some(1), Some(0), Some(1)]),
            stride_map: Some(strides.to_vec()),
            dtype: None,
        };
        let tensor = tensor(&[6, 100], DType::F16);
        assert!(
            both(&[64, 100, 1])
                .equivalent(&mapped(&[2, 6, 64], &[1, 0, 1], DataFormat::Sen169Fp16), &tensor)
                .unwrap()
        );
        for wrong in [[100, 64, 1], [64, 100, -1], [64, 0, 1]] {
            let error = both(&wrong).to_layout(&tensor, &Placement::default()).unwrap_err();
            assert!(matches!(error, Error::Derived { what: "stride_map", .. }), "{error}");
        }
    }

    #[test]
    fn what_has_no_room_is_an_error_with_numbers() {
        let fp16 = DataFormat::Sen169Fp16;
        let cases: &[(SpyreLayout, &[u64], &[&str])] = &[
            (mapped(&[1, 6, 64], &[1, 0, 1], fp16), &[6, 100], &["64", "100"]),
            (mapped(&[2, 5, 64], &[1, 0, 1], fp16), &[6, 100], &["5", "6"]),
            (mapped(&[1, 128], &[0, 1], DataFormat::SenInt8), &[2, 50], &["1", "2"]),
            (mapped(&[2, 6, 64], &[2, 0, 1], fp16), &[6, 100], &["3 host dimensions", "2"]),
            (mapped(&[100, 3, 5, 64], &[1, 2, 1, 2], fp16), &[5, 10, 20], &["host dimension 0"]),
            (mapped(&[2, 6, 64], &[1, 0], fp16), &[6, 100], &["2", "3"]),
            (mapped(&[0, 6, 64], &[1, 0, -1], fp16), &[6, 1], &["0"]),
            (mapped(&[2, 6, 64], &[1, 0, 1], DataFormat::Sen143Fp8), &[6, 100], &["SEN143_FP8"]),
            (mapped(&[2, 6, 65], &[1, 0, 1], fp16), &[6, 100], &["65", "64"]),
            (constructor(&[6, 99], DType::F16, None), &[6, 100], &["6x99", "6x100"]),
            (constructor(&[6, 100], DType::F16, Some(&[1, 1])), &[6, 100], &["twice"]),
            (constructor(&[1 << 40, 1 << 40], DType::F16, None), &[1 << 40, 1 << 40], &["more than"]),
            (constructor(&[i64::MAX as u64], DType::F16, None), &[i64::MAX as u64], &["more than"]),
            (constructor(&[u64::MAX], DType::F16, None), &[u64::MAX], &["below 2^63"]),
            (strided(&[2, 5, 64], &[64, 100, 1]), &[6, 100], &["5", "100", "6"]),
            (strided(&[1, 6, 64], &[64, 100, 1]), &[6, 100], &["64", "100"]),
            (strided(&[6, 64], &[200, 2]), &[6, 100], &["2", "1"]),
            (strided(&[64], &[-1]), &[6, 100], &["no stride"]),
            (strided(&[1 << 40, 1 << 40, 64], &[-1, 1, -1]), &[6], &["more than"]),
        ];
        for (spyre, shape, mentioned) in cases {
            let error =
                spyre.to_layout(&tensor(shape, DType::F16), &Placement::default()).unwrap_err().to_string();
            assert!(mentioned.iter().all(|m| error.contains(m)), "{error}");
        }
    }

    #[test]
    fn splits_that_share_no_period_are_bounded() {
        // Each stride holds the next one once and a remainder: the parts grow like the strides themselves.
        let mut strides = vec![1_i64, 2];
        while strides.len() < 42 {
            strides.push(strides[strides.len() - 1] + strides[strides.len() - 2]);
        }
        strides.reverse();
        let elements = strides[0] as u64 + strides[1] as u64;
        let spyre = strided(&[2; 42], &strides);
        let result = spyre.to_layout(&tensor(&[elements], DType::F16), &Placement::default());
        assert!(matches!(result, Err(Error::TooComplex { .. })), "{result:?}");
    }

    #[test]
    fn empty_tensors_have_no_elements() {
        for shape in [&[0][..], &[0, 100], &[5, 0, 7], &[7, 0]] {
            let tensor = tensor(shape, DType::F16);
            let built = layout(&constructor(shape, DType::F16, None), &tensor);
            assert_eq!(built.padding_elements() * 2, built.total_bytes());
            held(&built);
        }
        assert_eq!(
            held(&layout(&strided(&[3, 64], &[64, 1]), &tensor(&[0], DType::F16))),
            vec![Held::Fill; 192]
        );
    }

    #[test]
    fn restickify_moves_the_stick() {
        let host = tensor(&[512, 256], DType::F16);
        let rows = constructor(&[512, 256], DType::F16, None);
        let columns = constructor(&[512, 256], DType::F16, Some(&[1, 0]));
        let sparse = constructor(&[512, 256], DType::F16, Some(&[0, 1, -1]));
        let moved = rows.restickify(Some(0), &host).unwrap();
        assert_eq!(
            moved,
            SpyreLayout::Explicit {
                device_size: vec![8, 256, 64],
                dim_map: None,
                stride_map: Some(vec![16_384, 1, 256]),
                dtype: Some(DataFormat::Sen169Fp16),
            }
        );
        assert!(moved.equivalent(&columns, &host).unwrap());
        assert!(moved.restickify(Some(1), &host).unwrap().equivalent(&rows, &host).unwrap());
        assert!(rows.restickify(Some(1), &host).unwrap().equivalent(&rows, &host).unwrap());
        // The element of a sparse stick moves to the slot that counted sticks.
        let lone = rows.restickify(None, &host).unwrap();
        let SpyreLayout::Explicit { device_size, stride_map, .. } = &lone else { panic!() };
        assert_eq!(
            (device_size.as_slice(), stride_map.as_deref()),
            (&[256, 512, 64][..], Some(&[1, 256, -1][..]))
        );
        assert!(lone.restickify(Some(1), &host).unwrap().equivalent(&rows, &host).unwrap());
        assert!(sparse.restickify(Some(1), &host).is_ok());
        assert!(rows.restickify(Some(2), &host).is_err());
        let host = tensor(&[2, 3, 65], DType::F16);
        for order in [[0, 1, 2], [2, 0, 1], [1, 2, 0]] {
            let spyre = constructor(&[2, 3, 65], DType::F16, Some(&order));
            for dim in [Some(0), Some(1), Some(2), None] {
                held(&layout(&spyre.restickify(dim, &host).unwrap(), &host));
            }
        }
    }

    #[test]
    fn operands_of_one_loop_have_one_stick() {
        let host = |shape| tensor(shape, DType::F16);
        let make = |shape, order| constructor(shape, DType::F16, order);
        let (wide, row) = (host(&[40, 120]), host(&[120]));
        let (rows, columns) = (make(&[40, 120], None), make(&[40, 120], Some(&[1, 0][..])));
        let sparse = make(&[40, 120], Some(&[0, 1, -1]));
        assert!(stick_compatible((&rows, &wide), (&rows, &wide)).is_ok());
        assert!(stick_compatible((&rows, &wide), (&make(&[120], None), &row)).is_ok());
        assert!(stick_compatible((&rows, &wide), (&make(&[40, 1], None), &host(&[40, 1]))).is_ok());
        for other in [&columns, &sparse] {
            assert!(stick_compatible((&rows, &wide), (other, &wide)).is_err());
            assert!(stick_compatible((other, &wide), (&rows, &wide)).is_err());
        }
        assert!(stick_compatible((&columns, &wide), (&make(&[120], None), &row)).is_err());
        assert!(stick_compatible((&sparse, &wide), (&sparse, &wide)).is_ok());
    }
}
