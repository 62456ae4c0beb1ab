//! What the body of a kernel knows of the instruction set for which it is compiled.

/// An instruction set for which a body is compiled. A value exists only where the processor has it.
pub(crate) trait Level: Copy {
    /// Whether it has vectors of 256 bits, which its non-temporal stores are made of then.
    const PAIRS: bool;

    /// Whether it has vectors of 512 bits, and non-temporal stores of whole lines.
    const LINES: bool;

    /// Calls `body` as a function of its own, compiled for this instruction set as long as all that it calls is inlined.
    ///
    /// A kernel has loops for each pair of formats, and the analyses of compilers take longer than in proportion to the
    /// loops of a function: as parts they compile in a third of the time, and side by side.
    fn part<R>(self, body: impl FnOnce() -> R) -> R;
}

/// [`Level::part`] of an expression.
macro_rules! part {
    ($level:expr, $body:expr) => {
        $level.part(
            #[inline(always)]
            || $body,
        )
    };
}
pub(crate) use part;
