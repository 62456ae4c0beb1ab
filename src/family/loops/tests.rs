//! Nests against what they move, element by element.

use super::*;
use crate::dtype::DType;
use crate::family::host::strided::Memref;
use crate::family::spyre::{Arrangement, Constructor, DataFormat, Explicit, SpyreLayout};
use crate::family::{Family, Placement, Tensor};
use crate::layout::coverage::{Held, held};

fn tensor(shape: &[u64], dtype: DType) -> Tensor {
    Tensor { shape: shape.to_vec(), dtype }
}

fn tuple(ranges: &[u64], device: &[i64], host: &[i64]) -> ThreeTuple {
    ThreeTuple { ranges: ranges.to_vec(), device_strides: device.to_vec(), host_strides: host.to_vec() }
}

fn dense(shape: &[u64], dtype: DType) -> Memref {
    Memref { shape: shape.to_vec(), dtype, strides: None, offset: 0 }
}

/// Runs loops, innermost first, from two offsets, and puts each element read on the place written.
fn run(nest: &Dcsi, out: &mut Vec<Held>) {
    for mut iteration in 0..nest.size.iter().product() {
        let (mut host, mut device) = (nest.source_offset, nest.destination_offset);
        for (k, n) in nest.size.iter().enumerate() {
            host = host.wrapping_add_signed((iteration % n) as i64 * nest.source_strides[k]);
            device = device.wrapping_add_signed((iteration % n) as i64 * nest.destination_strides[k]);
            iteration /= n;
        }
        if out.len() as u64 <= device {
            out.resize(device as usize + 1, Held::Fill);
        }
        assert_eq!(out[device as usize], Held::Fill, "place {device} is written twice");
        out[device as usize] = Held::Element(host);
    }
}

fn reversed<T: Copy>(items: &[T]) -> Vec<T> {
    items.iter().rev().copied().collect()
}

#[test]
fn a_tuple_is_its_loop_nest() {
    type Case<'a> = (&'a [u64], &'a [u64], &'a [i64], &'a [i64]);
    let cases: &[Case] = &[
        (&[1024, 256], &[4, 1024, 64], &[65536, 64, 1], &[64, 256, 1]),
        (&[24, 128], &[2, 24, 64], &[1536, 64, 1], &[64, 128, 1]),
        (&[6, 5], &[6, 5], &[5, 1], &[5, 1]),
        (&[6, 5], &[5, 6], &[6, 1], &[1, 5]),
        (&[40], &[40], &[1], &[1]),
        (&[3, 8], &[1, 3, 8], &[24, 8, 1], &[24, 8, 1]),
        (
            &[20, 15, 4],
            &[1, 4, 5, 5, 4, 1, 1, 3],
            &[1200, 300, 60, 12, 3, 3, 3, 1],
            &[1, 1, 12, 240, 60, 1, 240, 4],
        ),
        (&[6, 1, 18, 30], &[5, 6, 6, 6, 1, 3], &[648, 108, 18, 3, 3, 1], &[6, 540, 1, 30, 540, 180]),
        (&[16, 5], &[5, 4, 2, 2, 1], &[16, 4, 2, 1, 1], &[1, 20, 5, 10, 1]),
        (&[48], &[4, 3, 4], &[12, 4, 1], &[12, 1, 3]),
        (
            &[6, 30, 18],
            &[6, 1, 3, 3, 1, 6, 5, 2],
            &[540, 540, 180, 60, 60, 10, 2, 1],
            &[1, 6, 6, 540, 18, 18, 108, 1620],
        ),
        // Gaps between the rows, and between the elements.
        (&[4, 8], &[4, 8], &[10, 1], &[8, 1]),
        (&[4, 8], &[4, 8], &[1, 5], &[8, 1]),
        (&[], &[], &[], &[]),
        (&[1, 1], &[1], &[7], &[9]),
    ];
    for &(shape, ranges, device, host) in cases {
        let nest = Dcsi {
            size: reversed(ranges),
            source_strides: reversed(host),
            destination_strides: reversed(device),
            source_offset: 0,
            destination_offset: 0,
        };
        let mut expected = Vec::new();
        run(&nest, &mut expected);
        let tuple = tuple(ranges, device, host);
        let built = tuple.to_layout(&tensor(shape, DType::U16), &Placement::default()).unwrap();
        assert_eq!(held(&built), expected, "{tuple:?}");
    }
}

#[test]
fn a_tuple_that_misses_or_meets_an_element_is_an_error() {
    let cases: &[(ThreeTuple, &[u64], &[&str])] = &[
        (tuple(&[4, 8], &[4, 1], &[8, 1]), &[4, 8], &["same place"]),
        (tuple(&[4, 8], &[0, 1], &[8, 1]), &[4, 8], &["same place"]),
        (tuple(&[4, 8], &[8, 1], &[4, 1]), &[4, 8], &["4 for a loop of 4", "8"]),
        (tuple(&[4, 8], &[8, 1], &[9, 1]), &[4, 8], &["9 for a loop of 4", "8"]),
        (tuple(&[4, 8], &[8, 1], &[0, 1]), &[4, 8], &["0 for a loop of 4"]),
        (tuple(&[4, 8], &[8, 1], &[8, -1]), &[4, 8], &["-1 for a loop of 8"]),
        (tuple(&[4, 8], &[-8, 1], &[8, 1]), &[4, 8], &["-24"]),
        (tuple(&[3, 8], &[8, 1], &[8, 1]), &[4, 8], &["24", "32", "4x8"]),
        (tuple(&[4, 8], &[8, 1], &[8, 1, 1]), &[4, 8], &["3 entries", "2"]),
        (tuple(&[2, 2], &[1 << 62, i64::MAX], &[2, 1]), &[4], &["more than"]),
        (tuple(&[1 << 40, 1 << 40], &[1 << 40, 1], &[1 << 40, 1]), &[1 << 40, 1 << 20], &["more than"]),
        (tuple(&[i64::MAX as u64; 64], &[i64::MIN; 64], &[1; 64]), &[4], &["more than"]),
        (tuple(&[u64::MAX], &[1], &[1]), &[4], &["below 2^63"]),
        (tuple(&[2], &[1], &[1]), &[0], &["2", "0"]),
    ];
    for (tuple, shape, mentioned) in cases {
        let error =
            tuple.to_layout(&tensor(shape, DType::U8), &Placement::default()).unwrap_err().to_string();
        assert!(mentioned.iter().all(|m| error.contains(m)), "{tuple:?}: {error}");
    }
    let none = tuple(&[0, 8], &[8, 1], &[8, 1]);
    let built = none.to_layout(&tensor(&[0, 8], DType::U8), &Placement::default()).unwrap();
    assert_eq!(built.total_bytes(), 0);
}

fn strided(device_size: &[u64], stride_map: &[i64]) -> SpyreLayout {
    Explicit { dtype: None, ..Explicit::new(device_size.to_vec()).with_stride_map(stride_map.to_vec()) }
        .into()
}

fn nest(size: &[u64], source: &[i64], destination: &[i64], at: [u64; 2]) -> Dcsi {
    Dcsi {
        size: size.to_vec(),
        source_strides: source.to_vec(),
        destination_strides: destination.to_vec(),
        source_offset: at[0],
        destination_offset: at[1],
    }
}

#[test]
fn a_ragged_split_is_one_full_nest_and_one_remainder() {
    let host = tensor(&[4096, 4096], DType::F16);
    let rows = SpyreLayout::from(Constructor::new(host.shape.clone(), host.dtype));
    let layout = rows.to_layout(&host, &Placement::default()).unwrap();
    let dci = Dci::from_layout(&layout, &dense(&host.shape, host.dtype)).unwrap();
    assert_eq!(dci.nests, [nest(&[64, 4096, 64], &[1, 4096, 64], &[1, 64, 262_144], [0, 0])]);
    assert_eq!(
        (dci.source_format, dci.destination_format),
        (Some(DataFormat::IeeeFp16), Some(DataFormat::Sen169Fp16))
    );
    assert_eq!((dci.input_shape, dci.output_shape), (vec![4096, 4096], vec![64, 4096, 64]));

    let host = tensor(&[1, 3, 128], DType::F16);
    let layout = strided(&[3, 2, 1, 64], &[128, 64, -1, 1]).to_layout(&host, &Placement::default()).unwrap();
    let dci = Dci::from_layout(&layout, &dense(&host.shape, host.dtype)).unwrap();
    // A loop of size 1 has no stride to speak of; one is printed as 1.
    assert_eq!(dci.nests, [nest(&[64, 1, 2, 3], &[1, 1, 64, 128], &[1, 64, 64, 128], [0, 0])]);
    assert_eq!((dci.input_shape, dci.output_shape), (vec![128, 3, 1], vec![64, 1, 2, 3]));

    let host = tensor(&[4, 100], DType::F16);
    let layout = strided(&[2, 4, 64], &[64, 100, 1]).to_layout(&host, &Placement::default()).unwrap();
    let dci = Dci::from_layout(&layout, &dense(&host.shape, host.dtype)).unwrap();
    let (full, rest) = (
        nest(&[64, 4, 1], &[1, 100, 64], &[1, 64, 256], [0, 0]),
        nest(&[36, 4, 1], &[1, 100, 64], &[1, 64, 256], [64, 256]),
    );
    assert_eq!(dci.nests, [full, rest]);
}

#[test]
fn a_weight_of_8_bit_floats_is_one_nest() {
    let host = tensor(&[64, 192], DType::F8E4M3);
    let weight = Constructor::new(host.shape.clone(), host.dtype).with_arrangement(Arrangement::Qfp8Wt);
    let layout = SpyreLayout::from(weight).to_layout(&host, &Placement::default()).unwrap();
    let dci = Dci::from_layout(&layout, &dense(&host.shape, host.dtype)).unwrap();
    let expected = nest(&[2, 64, 32, 3], &[192, 1, 384, 64], &[1, 2, 128, 4096], [0, 0]);
    assert_eq!(dci.nests, [expected]);
    let fp8 = Some(DataFormat::Sen143Fp8);
    assert_eq!((dci.source_format, dci.destination_format), (fp8, fp8));
    assert_eq!(held(&dci.to_layout(&host, &Placement::default()).unwrap()), held(&layout));
}

#[test]
fn nests_read_back_as_the_layout_they_came_from() {
    // Host shape, device size, stride map, and how many nests upstream needs.
    type Case<'a> = (&'a [u64], &'a [u64], &'a [i64], usize);
    let cases: &[Case] = &[
        (&[60], &[1, 64], &[64, 1], 1),
        (&[120], &[2, 64], &[64, 1], 2),
        (&[240], &[4, 64], &[64, 1], 2),
        (&[40, 60], &[1, 60, 64], &[3840, 1, 60], 1),
        (&[40, 120], &[2, 40, 64], &[64, 120, 1], 2),
        (&[40, 240], &[4, 512, 64], &[64, 240, 1], 2),
        (&[60], &[1, 512, 64], &[64, 0, 1], 1),
        (&[40, 60], &[38, 64], &[64, 1], 2),
        (&[60], &[1, 60, 64], &[64, 1, 1], 1),
        (&[60], &[1, 2, 64], &[64, 30, 1], 1),
        (&[60], &[2, 1, 2, 64], &[15, 64, 30, 1], 1),
        (&[4800], &[3, 2, 14, 64], &[120, 64, 360, 1], 4),
        (&[40, 60], &[24, 1, 2, 64], &[60, 64, 1440, 1], 2),
        (&[40, 60], &[2, 12, 1, 2, 64], &[720, 60, 64, 1200, 1], 2),
        (&[40, 60], &[2, 6, 2, 1, 2, 64], &[720, 120, 60, 64, 1200, 1], 2),
        (&[40, 60], &[3, 4, 3, 1, 2, 64], &[600, 180, 60, 64, 1800, 1], 4),
        (&[40, 100], &[24, 2, 2, 64], &[100, 64, 2400, 1], 4),
        (&[], &[1, 64], &[-1, -1], 1),
    ];
    for &(shape, size, strides, most) in cases {
        let host = tensor(shape, DType::F16);
        let layout = strided(size, strides).to_layout(&host, &Placement::default()).unwrap();
        let dci = Dci::from_layout(&layout, &dense(shape, DType::F16)).unwrap();
        assert!(dci.nests.len() <= most, "{size:?} {strides:?}: {:?}", dci.nests);
        let rank = |n: &Dcsi| (n.size.len(), n.source_strides.len(), n.destination_strides.len());
        assert!(dci.nests.iter().all(|n| rank(n) == (size.len(), size.len(), size.len())), "{:?}", dci.nests);
        let expected = held(&layout);
        let mut seen = vec![Held::Fill; expected.len()];
        dci.nests.iter().for_each(|n| run(n, &mut seen));
        assert_eq!(seen, expected, "{size:?} {strides:?}: {:?}", dci.nests);
        let back = dci.to_layout(&host, &Placement::default()).unwrap();
        assert_eq!(held(&back), expected, "{size:?} {strides:?}: {:?}", dci.nests);
        assert_eq!(back.format(), layout.format());
    }
}

#[test]
fn host_strides_are_read_where_the_array_has_them() {
    let host = Memref { strides: Some(vec![1, 40]), offset: 3, ..dense(&[40, 60], DType::F16) };
    let layout = strided(&[1, 40, 64], &[64, 60, 1])
        .to_layout(&tensor(&[40, 60], DType::F16), &Placement::default())
        .unwrap();
    let dci = Dci::from_layout(&layout, &host).unwrap();
    assert_eq!(dci.nests, [nest(&[60, 40, 1], &[40, 1, 64], &[1, 64, 2560], [3, 0])]);
}

#[test]
fn nests_that_miss_or_meet_an_element_are_an_error() {
    let dci = |nests: &[Dcsi]| Dci {
        host_to_device: true,
        source_format: None,
        destination_format: None,
        nests: nests.to_vec(),
        input_shape: vec![],
        output_shape: vec![],
    };
    let line = |n: u64, host: u64, device: u64| nest(&[n], &[1], &[1], [host, device]);
    let host = tensor(&[10], DType::U8);
    assert!(dci(&[line(4, 6, 0), line(6, 0, 4)]).to_layout(&host, &Placement::default()).is_ok());
    let wrong = [
        dci(&[]),
        dci(&[line(6, 0, 0)]),
        dci(&[line(10, 1, 0)]),
        dci(&[line(6, 0, 0), line(4, 5, 6)]),
        dci(&[line(6, 0, 0), line(4, 7, 6)]),
        dci(&[line(6, 0, 0), line(4, 6, 5)]),
        dci(&[line(6, 0, 0), nest(&[4, 2], &[1, 0], &[1, 100], [6, 6])]),
        dci(&[line(6, 0, 0), line(4, i64::MAX as u64, 6)]),
        dci(&[line(6, 0, 0), line(4, 6, u64::MAX)]),
        dci(&[line(6, 0, 0), line(4, 6, 1 << 62)]),
        dci(&[nest(&[10, u64::MAX], &[1, 0], &[1, i64::MAX], [0, 0])]),
        dci(&vec![line(1, 0, 0); MAX_NESTS + 1]),
        Dci { output_shape: vec![9], ..dci(&[line(10, 0, 0)]) },
        Dci { input_shape: vec![11], ..dci(&[line(10, 0, 0)]) },
        Dci { destination_format: Some(DataFormat::SenInt4), ..dci(&[line(10, 0, 0)]) },
    ];
    for dci in wrong {
        assert!(
            dci.to_layout(&host, &Placement::default()).is_err(),
            "{:?}",
            &dci.nests[..dci.nests.len().min(3)]
        );
    }
    assert!(dci(&[]).to_layout(&tensor(&[0], DType::U8), &Placement::default()).is_ok());
}
