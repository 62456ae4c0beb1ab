//! What an input chooses: each choice takes one of its bytes, and is the first one where there are none left.

/// The bytes of an input that have not chosen yet.
pub(super) struct Choices<'a>(pub(super) std::slice::Iter<'a, u8>);

impl Choices<'_> {
    /// A number below `n`, which is at most 256.
    pub(super) fn below(&mut self, n: usize) -> usize {
        self.0.next().map_or(0, |&x| usize::from(x) % n)
    }

    pub(super) fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }
}
