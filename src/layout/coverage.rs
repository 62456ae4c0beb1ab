//! For tests: what a layout puts on each place of its buffers, found element by element.

use super::Layout;
use super::axis::Addr;
use super::index::unravel;
use super::piecewise::{Piecewise, Region, add};
use crate::dtype::Format;

/// What lies on a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Held {
    /// The element of this row-major number.
    Element(u64),
    /// Padding that takes the fill value.
    Fill,
    /// The zeros between two units.
    Gap,
}

/// What lies on each place of a plain layout, buffer after buffer, in elements. Panics unless the elements,
/// their copies and the padding reach every place of the units exactly once.
pub(crate) fn held(layout: &Layout) -> Vec<Held> {
    assert!(!matches!(layout.format(), Format::Block(_)));
    layout.check_destination().unwrap();
    let block_bytes = layout.block_bytes();
    let mut places = vec![Held::Gap; (layout.total_bytes() / block_bytes) as usize];
    let mut put = |at: Addr, held: Held| {
        assert!((0..layout.space.units as i64).contains(&at[0]), "{at:?}");
        assert!(
            (0..layout.space.unit_bytes as i64).contains(&at[1]) && at[1] % block_bytes as i64 == 0,
            "{at:?}"
        );
        let place = &mut places[((layout.space.unit_at(at[0]) + at[1]) as u64 / block_bytes) as usize];
        assert_eq!(*place, Held::Gap, "{at:?} is reached twice, at last by {held:?}");
        *place = held;
    };
    let copies: Vec<_> = layout.replicas.iter().map(|r| (r.n, r.step)).collect();
    let copies = Piecewise::nest(&copies);
    let shape = layout.shape();
    let dims: Vec<usize> = (0..shape.len()).collect();
    for number in 0..layout.elements() {
        let mut index = vec![0; shape.len()];
        unravel(number, &dims, shape, &mut index);
        let place = layout.address(&index);
        (0..copies.len()).for_each(|c| put(add(place, copies.eval(c)), Held::Element(number)));
    }
    for Region { at, loops } in layout.padding().unwrap() {
        let places = Piecewise::nest(&loops);
        (0..places.len()).for_each(|u| put(add(at, places.eval(u)), Held::Fill));
    }
    let (unit, pitch) = (layout.space.unit_bytes / block_bytes, layout.space.pitch_bytes / block_bytes);
    let gaps = places.iter().enumerate().filter(|(_, held)| **held == Held::Gap);
    gaps.for_each(|(at, _)| assert!(at as u64 % pitch >= unit, "place {at} is left out"));
    let filled = places.iter().filter(|held| **held == Held::Fill).count() as u64;
    assert_eq!(filled, layout.padding_elements());
    places
}
