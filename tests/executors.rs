//! Reference, interpreter and executor agree, on every kernel table, thread count and chunk size.

mod common;

use common::check;
use proptest::prelude::*;
use tilewright::DType;
use tilewright::target::strided::Memref;
use tilewright::target::{Placement, Tensor};

fn memref(shape: &[u64], dtype: DType, strides: Option<Vec<i64>>, offset: i64) -> Memref {
    Memref { shape: shape.to_vec(), dtype, strides, offset }
}

/// A shape, a permutation of it with gaps, and an offset.
fn strided() -> impl Strategy<Value = (Vec<u64>, Vec<i64>, i64)> {
    (prop::collection::vec(1_u64..9, 0..5), any::<u64>(), prop::collection::vec(0_i64..4, 5), 0_i64..5)
        .prop_map(|(shape, seed, gaps, offset)| {
            let mut order: Vec<usize> = (0..shape.len()).collect();
            let mut seed = seed;
            for i in (1..order.len()).rev() {
                order.swap(i, (seed % (i as u64 + 1)) as usize);
                seed /= i as u64 + 1;
            }
            let mut strides = vec![0; shape.len()];
            let mut stride = 1;
            for (k, &d) in order.iter().enumerate() {
                stride += gaps[k];
                strides[d] = stride;
                stride *= shape[d] as i64;
            }
            (shape, strides, offset)
        })
}

proptest! {
    #[test]
    fn strided_to_strided((shape, strides, offset) in strided(), size in 0..4_usize, flip in any::<u8>()) {
        let dtype = [DType::U8, DType::U16, DType::F32, DType::F64][size];
        let tensor = Tensor { shape: shape.clone(), dtype };
        // A source whose dimensions run backwards or stand still here and there.
        let mut from = vec![0; shape.len()];
        let (mut stride, mut start) = (1, 0);
        for d in (0..shape.len()).rev() {
            let n = shape[d] as i64;
            match (flip >> (2 * d)) & 3 {
                0 => from[d] = 0,
                1 => { from[d] = -stride; start += (n - 1) * stride; stride *= n }
                _ => { from[d] = stride; stride *= n }
            }
        }
        let src = memref(&shape, dtype, Some(from), start).to_layout(&tensor, &Placement::default()).unwrap();
        let placement = Placement { pad_value: Some(7.0), ..Placement::default() };
        let dst = memref(&shape, dtype, Some(strides), offset).to_layout(&tensor, &placement).unwrap();
        check(&src, &dst);
    }
}

#[test]
fn interleaved_strides_and_scalars() {
    for (shape, strides) in [(vec![3, 2], vec![2, 3]), (vec![4, 3], vec![3, 4]), (vec![], vec![])] {
        let tensor = Tensor { shape: shape.clone(), dtype: DType::I32 };
        let src = memref(&shape, DType::I32, None, 0).to_layout(&tensor, &Placement::default()).unwrap();
        let dst =
            memref(&shape, DType::I32, Some(strides), 1).to_layout(&tensor, &Placement::default()).unwrap();
        check(&src, &dst);
    }
}
