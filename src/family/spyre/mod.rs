//! Tensor layouts of IBM Spyre: sticks of 128 bytes, device dimensions that tile host dimensions.

mod check;
mod descriptor;
mod device;
mod format;
mod policy;
mod rule;
mod stick;
mod weights;

use super::{Family, Placement, Tensor, volume};
use crate::error::{Error, Result};
use crate::layout::{Geometry, Layout, Parts, Space};

pub use descriptor::{Arrangement, Constructor, Explicit, SpyreLayout};
pub use format::{DataFormat, STICK_BYTES};
pub use policy::{Loading, Module, load_parameter};
pub use stick::stick_compatible;

impl SpyreLayout {
    /// Whether both place every element of the tensor alike: the same device size and format, the same order inside of
    /// sticks, and the same host strides where they carry an index. The stride of a device dimension of size 1 is ignored.
    ///
    /// # Errors
    /// Where one of them does not describe the tensor.
    pub fn equivalent(&self, other: &SpyreLayout, tensor: &Tensor) -> Result<bool> {
        let (a, b) = (self.resolve(tensor)?, other.resolve(tensor)?);
        let alike = self.arrangement() == other.arrangement();
        Ok(alike && (a.size, a.carried, a.format) == (b.size, b.carried, b.format))
    }
}

impl Family for SpyreLayout {
    /// Checks ranks, that maps name dimensions and that the stick fits its format.
    ///
    /// # Errors
    /// [`Error::Value`] that names the part.
    fn validate(&self) -> Result<()> {
        self.check()
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
        if self.arrangement() == Arrangement::Qfp8Wt {
            return weights::layout(self, tensor, &device, placement);
        }
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
    use crate::dtype::DType;
    use crate::layout::coverage::{Held, held};

    fn tensor(shape: &[u64], dtype: DType) -> Tensor {
        Tensor { shape: shape.to_vec(), dtype }
    }

    fn constructor(size: &[u64], dtype: DType, order: Option<&[i64]>) -> SpyreLayout {
        let dim = |&d: &i64| usize::try_from(d).ok();
        let dim_order = order.map(|o| o.iter().map(dim).collect());
        Constructor { dim_order, ..Constructor::new(size.to_vec(), dtype) }.into()
    }

    fn mapped(device_size: &[u64], dim_map: &[i64], dtype: DataFormat) -> SpyreLayout {
        let dim_map = Some(dim_map.iter().map(|&d| usize::try_from(d).ok()).collect());
        Explicit { dim_map, ..Explicit::new(device_size.to_vec()).with_dtype(dtype) }.into()
    }

    fn strided(device_size: &[u64], stride_map: &[i64]) -> SpyreLayout {
        Explicit::new(device_size.to_vec())
            .with_stride_map(stride_map.to_vec())
            .with_dtype(DataFormat::IeeeFp16)
            .into()
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
        let both = |strides: &[i64]| -> SpyreLayout {
            let map = vec![Some(1), Some(0), Some(1)];
            Explicit::new(vec![2, 6, 64]).with_dim_map(map).with_stride_map(strides.to_vec()).into()
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
            (mapped(&[2, 6, 64], &[1, 0, 1], DataFormat::Sen152Fp8), &[6, 100], &["SEN152_FP8"]),
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
}
