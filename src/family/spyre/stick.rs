//! The dimension along the stick: moved to another, and compared between operands.

use super::descriptor::{Arrangement, Explicit, SpyreLayout};
use super::device::Device;
use crate::error::{Error, Result};
use crate::family::host::strided::row_major;
use crate::family::{Family, Placement, Tensor};

impl SpyreLayout {
    /// The same tensor with another host dimension along the stick; `None` for one element a stick.
    ///
    /// The device dimension that counted sticks counts those of the new dimension, and the one that held the
    /// new dimension holds the old one, without its padding.
    ///
    /// # Errors
    /// Where there is no such host dimension, or no single device dimension to trade places with.
    pub fn restickify(&self, dim: Option<usize>, tensor: &Tensor) -> Result<SpyreLayout> {
        let device = self.resolve(tensor)?;
        if self.arrangement() != Arrangement::Standard {
            return Err(Error::value(
                "element_arrangement",
                self.arrangement(),
                "STANDARD, whose sticks are of one dimension",
            ));
        }
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
        let moved: SpyreLayout = Explicit::new(size).with_stride_map(strides).with_dtype(format).into();
        moved.to_layout(tensor, &Placement::default())?;
        Ok(moved)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DType;
    use crate::family::spyre::{Constructor, DataFormat};
    use crate::layout::Layout;
    use crate::layout::coverage::held;

    fn tensor(shape: &[u64], dtype: DType) -> Tensor {
        Tensor { shape: shape.to_vec(), dtype }
    }

    fn constructor(size: &[u64], dtype: DType, order: Option<&[i64]>) -> SpyreLayout {
        let dim = |&d: &i64| usize::try_from(d).ok();
        let dim_order = order.map(|o| o.iter().map(dim).collect());
        Constructor { dim_order, ..Constructor::new(size.to_vec(), dtype) }.into()
    }

    fn layout(spyre: &SpyreLayout, tensor: &Tensor) -> Layout {
        spyre.to_layout(tensor, &Placement::default()).unwrap()
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
            Explicit::new(vec![8, 256, 64])
                .with_stride_map(vec![16_384, 1, 256])
                .with_dtype(DataFormat::Sen169Fp16)
                .into()
        );
        assert!(moved.equivalent(&columns, &host).unwrap());
        assert!(moved.restickify(Some(1), &host).unwrap().equivalent(&rows, &host).unwrap());
        assert!(rows.restickify(Some(1), &host).unwrap().equivalent(&rows, &host).unwrap());
        // The element of a sparse stick moves to the slot that counted sticks.
        let lone = rows.restickify(None, &host).unwrap();
        let SpyreLayout::Explicit(Explicit { device_size, stride_map, .. }) = &lone else { panic!() };
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
