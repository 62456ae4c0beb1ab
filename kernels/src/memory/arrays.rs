//! Arrays at fixed offsets of a slice, checked together and then read without further checks: the groups of a tile.

use std::ops::Range;

/// Where 64 arrays of `M` elements of `N` bytes begin, in bytes from a byte that is named later.
///
/// Fact M3, cited below: every offset lies in `lowest..=highest`.
pub(crate) struct ArrayOffsets<const N: usize, const M: usize> {
    offsets: [isize; 64],
    lowest: isize,
    highest: isize,
}

impl<const N: usize, const M: usize> ArrayOffsets<N, M> {
    pub(crate) fn new(offsets: [isize; 64]) -> ArrayOffsets<N, M> {
        let (mut lowest, mut highest) = (isize::MAX, isize::MIN);
        for offset in offsets {
            (lowest, highest) = (lowest.min(offset), highest.max(offset));
        }
        ArrayOffsets { offsets, lowest, highest }
    }

    /// The arrays, counted from byte `at`.
    ///
    /// # Panics
    /// When one leaves the slice.
    #[inline(always)]
    pub(crate) fn arrays<'a>(&'a self, bytes: &'a [u8], at: usize) -> Arrays<'a, N, M> {
        let Some(arrays) = self.inside(bytes, at) else {
            panic!(
                "arrays at {}..={} from byte {at} leave a slice of {} bytes",
                self.lowest,
                self.highest,
                bytes.len()
            )
        };
        arrays
    }

    /// The same, if none leaves the slice.
    #[inline(always)]
    pub(crate) fn inside<'a>(&'a self, bytes: &'a [u8], at: usize) -> Option<Arrays<'a, N, M>> {
        let end = at.checked_add_signed(self.highest).and_then(|last| last.checked_add(N * M));
        let inside =
            at.checked_add_signed(self.lowest).is_some() && end.is_some_and(|end| end <= bytes.len());
        inside.then_some(Arrays { offsets: self, bytes, at })
    }
}

/// Arrays of a slice, all of which were found inside it.
///
/// Fact M4, cited below: the `N * M` bytes from `at` plus any of the offsets lie in `bytes`. [`ArrayOffsets::inside`] establishes it from M3.
#[derive(Clone, Copy)]
pub(crate) struct Arrays<'a, const N: usize, const M: usize> {
    offsets: &'a ArrayOffsets<N, M>,
    bytes: &'a [u8],
    at: usize,
}

impl<'a, const N: usize, const M: usize> Arrays<'a, N, M> {
    /// One of the arrays.
    #[inline(always)]
    pub(crate) fn get(&self, index: usize) -> &'a [[u8; N]; M] {
        // SAFETY: M4; an array of bytes has no alignment, and the borrow is that of the slice.
        unsafe { &*self.bytes.as_ptr().wrapping_add(self.at).offset(self.offsets.offsets[index]).cast() }
    }

    /// Some of the arrays, in their order.
    #[inline(always)]
    pub(crate) fn groups(&self, of: Range<usize>) -> impl Iterator<Item = &'a [[u8; N]; M]> {
        let start = self.bytes.as_ptr().wrapping_add(self.at);
        self.offsets.offsets[of].iter().map(
            #[inline(always)]
            // SAFETY: M4; an array of bytes has no alignment, and the borrow is that of the slice.
            move |&offset| unsafe { &*start.offset(offset).cast() },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begins(at: usize, last: isize) -> [u8; 8] {
        let bytes: Vec<u8> = (0..40).collect();
        let mut offsets = [0; 64];
        offsets[56..].copy_from_slice(&[0, 1, -3, 30, 5, 5, 0, last]);
        let offsets = ArrayOffsets::<2, 3>::new(offsets);
        let arrays = offsets.arrays(&bytes, at);
        let firsts: Vec<u8> = arrays.groups(56..64).map(|array| array[0][0]).collect();
        firsts.try_into().unwrap()
    }

    #[test]
    fn arrays_may_touch_both_ends() {
        assert_eq!(begins(4, -4), [4, 5, 1, 34, 9, 9, 4, 0]);
    }

    #[test]
    fn arrays_outside_are_none() {
        let offsets = ArrayOffsets::<2, 3>::new([-4; 64]);
        let inside = |at| offsets.inside(&[0; 40], at).is_some();
        assert_eq!(
            [3, 4, 38, 39, usize::MAX - 3, usize::MAX].map(inside),
            [false, true, true, false, false, false]
        );
    }

    #[test]
    #[should_panic = "leave a slice of 40 bytes"]
    fn arrays_stay_below_the_end() {
        begins(4, 31);
    }

    #[test]
    #[should_panic = "leave a slice of 40 bytes"]
    fn arrays_stay_behind_the_start() {
        begins(4, -5);
    }
}
