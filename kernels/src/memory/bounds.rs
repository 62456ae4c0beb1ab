//! The one check of the crate: whether the elements of a loop nest lie inside a slice.
//!
//! A loop is (iterations, bytes from one iteration to the next). Every loop has at least one iteration here; callers return
//! early when there is nothing to do.

/// Whether all elements of `elem` bytes (at least one) of a loop nest that begins at byte `at` lie inside `0..len`.
///
/// Exact, although it never leaves `isize`: a slice is at most `isize::MAX` bytes long, so a byte whose number `isize`
/// cannot express is outside.
#[inline(always)]
pub(crate) fn lies_inside(
    len: usize,
    at: usize,
    elem: usize,
    loops: impl IntoIterator<Item = (usize, isize)>,
) -> bool {
    reach(at, loops).is_some_and(
        #[inline(always)]
        |(first, last)| {
            let end = usize::try_from(last).ok().and_then(|last| last.checked_add(elem));
            first >= 0 && end.is_some_and(|end| end <= len)
        },
    )
}

/// The first bytes of the lowest and the highest element of a loop nest, unless `isize` cannot express one.
#[inline(always)]
fn reach(at: usize, loops: impl IntoIterator<Item = (usize, isize)>) -> Option<(isize, isize)> {
    let at = isize::try_from(at).ok()?;
    // Folded, for the loops are a chain of a few: stepped through, that takes as long as to copy a row of them.
    loops.into_iter().try_fold(
        (at, at),
        #[inline(always)]
        |(first, last), (iterations, stride)| {
            let distance = isize::try_from(iterations - 1).ok()?.checked_mul(stride)?;
            Some((first.checked_add(distance.min(0))?, last.checked_add(distance.max(0))?))
        },
    )
}

/// Panics unless the elements lie inside a source of `len` bytes.
#[inline(always)]
pub(crate) fn assert_readable<L>(len: usize, at: usize, elem: usize, loops: L)
where
    L: Iterator<Item = (usize, isize)> + Clone,
{
    if !lies_inside(len, at, elem, loops.clone()) {
        outside("source", len, at, elem, loops.collect());
    }
}

/// Panics unless the elements lie inside a destination of `len` bytes, and would also fit into it side by side.
///
/// Elements that do not overlap fit. The second condition bounds the work by the destination when strides are 0.
#[inline(always)]
pub(crate) fn assert_writable<L>(len: usize, at: usize, elem: usize, loops: L)
where
    L: Iterator<Item = (usize, isize)> + Clone,
{
    if !lies_inside(len, at, elem, loops.clone()) {
        outside("destination", len, at, elem, loops.collect());
    }
    let volume = loops.clone().try_fold(elem, |bytes, (iterations, _)| bytes.checked_mul(iterations));
    if volume.is_none_or(|bytes| bytes > len) {
        too_many(len, elem, loops.collect());
    }
}

#[cold]
#[inline(never)]
fn outside(slice: &str, len: usize, at: usize, elem: usize, loops: Vec<(usize, isize)>) -> ! {
    panic!(
        "elements of {elem} bytes in loops of (iterations, stride) {loops:?} from byte {at} leave a {slice} of {len} bytes"
    )
}

#[cold]
#[inline(never)]
fn too_many(len: usize, elem: usize, loops: Vec<(usize, isize)>) -> ! {
    panic!(
        "elements of {elem} bytes in loops of (iterations, stride) {loops:?} do not fit side by side in a destination of \
         {len} bytes"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against all byte numbers worked out one by one, for nests that just fit and just do not.
    #[test]
    fn it_is_what_counting_says() {
        for (rows, row) in [(1, 90), (2, 7), (3, -7), (4, 0)] {
            for (cols, col) in [(1, -90), (3, 2), (2, -3)] {
                for at in 0..40 {
                    for elem in 1..4 {
                        let bytes = (0..rows).flat_map(|r| (0..cols).map(move |c| at + r * row + c * col));
                        let inside = bytes.into_iter().all(|at| at >= 0 && at + elem <= 40);
                        let loops = [(rows as usize, row as isize), (cols as usize, col as isize)];
                        assert_eq!(lies_inside(40, at as usize, elem as usize, loops), inside, "{loops:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn numbers_at_the_ends_of_their_types_are_outside() {
        assert!(!lies_inside(9, usize::MAX, 1, []));
        assert!(!lies_inside(9, 0, usize::MAX, []));
        assert!(!lies_inside(9, 0, 1, [(usize::MAX, 1)]));
        assert!(!lies_inside(9, 0, 1, [(2, isize::MIN)]));
        assert!(!lies_inside(9, 1, 1, [(3, isize::MAX), (3, isize::MAX)]));
        assert!(lies_inside(9, 0, 9, [(usize::MAX >> 1, 0)]));
    }

    #[test]
    #[should_panic(expected = "do not fit side by side in a destination of 9 bytes")]
    fn more_elements_than_the_destination_holds_are_refused() {
        assert_writable(9, 0, 1, [(10, 0)].into_iter());
    }
}
