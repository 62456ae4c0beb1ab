//! What lies where, in layouts whose iterations interleave over more than 65,536 cells.

use tilewright::family::{Descriptor, Placement, Tensor};
use tilewright::layout::Owner;
use tilewright::{DType, Error, Layout};

const SHAPE: [u64; 2] = [200_000, 2];

/// The columns of 200,000 bytes each, `step` bytes apart on `cores` cores.
fn columns(step: u64, cores: u64, bytes: u64) -> Result<Layout, Error> {
    let text = format!(
        "#ttcore.metal_layout<(d0, d1) -> (d0 + d1 * {step}), undef, <{cores}>, \
         memref<{bytes}xui8, #ttcore.memory_space<l1>>>"
    );
    let tensor = Tensor { shape: SHAPE.to_vec(), dtype: DType::U8 };
    text.parse::<Descriptor>().unwrap().layout(&tensor, &Placement::default())
}

#[test]
fn every_byte_has_the_element_that_is_located_there() {
    let layout = columns(200_000, 1, 400_000).unwrap();
    for row in [0, 1, 65_535, 65_536, 65_537, 131_072, 199_999] {
        for col in [0, 1] {
            let place = layout.locate(&[row, col]).unwrap()[0];
            assert_eq!((place.buffer, place.byte), (0, col * 200_000 + row));
            assert_eq!(layout.owner(0, place.byte).unwrap(), Owner::Elements(vec![vec![row, col]]));
        }
    }
}

#[test]
fn buffers_and_the_layout_agree_about_padding() {
    let layout = columns(200_000, 2, 200_000).unwrap();
    assert_eq!(layout.padding_elements(), 0);
    for buffer in [0, 1] {
        let content = layout.content(buffer).unwrap();
        assert_eq!((content.elements, content.padding), (200_000, 0));
        assert_eq!(content.ranges, [0..200_000, buffer..buffer + 1]);
    }
}

#[test]
fn a_collision_names_two_elements_wherever_they_lie() {
    // Element (step + k, 0) lies on element (k, 1).
    for step in [1, 65_535, 65_536, 100_000, 199_999] {
        let refused = columns(step, 1, 200_000 + step);
        let Err(Error::Collision { first, second, .. }) = refused else { panic!("{refused:?}") };
        let byte = |index: &[u64]| index[0] + index[1] * step;
        assert_ne!(first, second);
        assert!(
            [&first, &second].iter().all(|i| i[0] < SHAPE[0] && i[1] < SHAPE[1]),
            "{first:?}, {second:?}"
        );
        assert_eq!(byte(&first), byte(&second), "{first:?} and {second:?} for {step}");
    }
}
