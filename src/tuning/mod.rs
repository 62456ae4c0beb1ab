//! What a machine is tuned by: every number of the scheduler, the executor and their prefetching that changes speed and no
//! byte.
//!
//! [`Tuning`] is the one table of these numbers, with the limits of each. [`builtin`] has those that were measured, and
//! chooses among them by what [`Machine`] finds; [`Profile`] is a table with where it came from, and reads and writes one as
//! text; [`in_force`] is the profile that [`Plan::compile`](crate::Plan::compile) takes, the same for the whole life of a
//! process. `tilewright tune` measures a machine and writes the profile that suits it best.
//!
//! ```
//! use tilewright::tuning::{Profile, in_force};
//!
//! let profile = in_force()?;
//! println!("tuned by {}", profile.origin());
//! // A profile is lines of names and numbers; what it does not name is as in the profile that it changes.
//! let changed = Profile::parse("segment = 4096 # bytes", "a note", &profile.tuning())?;
//! assert_eq!(changed.tuning().segment, 4096);
//! # Ok::<(), tilewright::Error>(())
//! ```

pub mod builtin;
mod in_force;
mod machine;
mod profile;

pub use in_force::{in_force, user_file};
pub use machine::Machine;
pub use profile::{Origin, Profile};

use crate::error::{Error, Result};

/// The greatest block, in bytes, that is assembled at once: a third of an L1 cache. Each thread has this much scratch.
pub const MAX_BLOCK: usize = 16 << 10;

/// Of a constant that says from how many bytes on something is done: it is never done.
pub const NEVER: usize = usize::MAX >> 1;

/// One constant, or one for each size of an element.
trait Numbers {
    fn numbers(&self) -> &[usize];
    fn numbers_mut(&mut self) -> &mut [usize];
}

impl Numbers for usize {
    fn numbers(&self) -> &[usize] {
        std::slice::from_ref(self)
    }

    fn numbers_mut(&mut self) -> &mut [usize] {
        std::slice::from_mut(self)
    }
}

impl Numbers for [usize; 4] {
    fn numbers(&self) -> &[usize] {
        self
    }

    fn numbers_mut(&mut self) -> &mut [usize] {
        self
    }
}

/// What a constant is called, the numbers that it may have, and what it means.
#[derive(Debug, Clone, Copy)]
pub struct Constant {
    /// The field of [`Tuning`], and the name in a profile.
    pub name: &'static str,
    /// The least number.
    pub least: usize,
    /// The greatest number.
    pub most: usize,
    /// How many numbers it has: one, or four for elements of 1, 2, 4 and 8 bytes.
    pub count: usize,
    /// One sentence, as in the documentation of the field.
    pub about: &'static str,
}

/// Makes [`Tuning`] and the list of its constants from one table.
macro_rules! constants {
    ($($(#[doc = $doc:literal])+ $name:ident: $kind:ty, $least:expr, $most:expr;)*) => {
        /// The numbers by which plans are scheduled and run. All are in bytes unless they say otherwise, and no byte of any
        /// result depends on them.
        ///
        /// Other crates begin with a table of [`builtin`] or the one [`in_force`] and set what differs; whatever they set,
        /// [`Plan::compile_with`](crate::Plan::compile_with) refuses what is outside of the limits in [`Tuning::CONSTANTS`].
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub struct Tuning {
            $($(#[doc = $doc])+ pub $name: $kind,)*
        }

        impl Tuning {
            /// All constants, in the order in which profiles list them.
            pub const CONSTANTS: &[Constant] = &[$(Constant {
                name: stringify!($name),
                least: $least,
                most: $most,
                count: size_of::<$kind>() / size_of::<usize>(),
                about: concat!($($doc),+),
            }),*];

            /// The numbers of a constant, by its place in [`Tuning::CONSTANTS`].
            ///
            /// # Panics
            /// Where there is no such place.
            pub fn numbers(&self, constant: usize) -> &[usize] {
                [$(self.$name.numbers()),*][constant]
            }

            /// The same, to be changed.
            ///
            /// # Panics
            /// As [`Tuning::numbers`].
            pub fn numbers_mut(&mut self, constant: usize) -> &mut [usize] {
                [$(self.$name.numbers_mut()),*].into_iter().nth(constant).expect("a constant of the list")
            }
        }
    };
}

constants! {
    /// A destination of at least so many bytes is written with non-temporal stores: it would not stay in the caches, and an
    /// ordinary store reads each line before it writes it.
    stream_from: usize, 0, NEVER;
    /// An execution that writes no more than this stays on the caller's thread: handing a task over costs as much as moving
    /// some 100 KiB.
    threads_from: usize, 0, NEVER;
    /// The least bytes of a task.
    task: usize, 4096, 1 << 30;
    /// Tasks for each thread, so that one that is held up delays little; a number.
    tasks_per_thread: usize, 1, 64;
    /// The greatest block that is assembled in L1 before it is written.
    block: usize, 512, MAX_BLOCK;
    /// Of a block that is assembled, the run of the destination. Reading one block and writing another overlap in the
    /// processor as far as it looks ahead.
    segment: usize, 64, MAX_BLOCK;
    /// The same where the source runs along segments, for two lines of the destination or more: one run needs few calls.
    run_segment: usize, 64, MAX_BLOCK;
    /// The same where the source runs across segments (transposes), for elements of 1, 2, 4 and 8 bytes.
    transposed_segment: [usize; 4], 64, MAX_BLOCK;
    /// The same where rows of the destination begin anywhere in a line, so that blocks overlap by a line's worth of the
    /// source.
    ragged_segment: [usize; 4], 64, MAX_BLOCK;
    /// Lines of the source of which such a block takes all elements, for elements of 1, 2, 4 and 8 bytes; a number.
    transposed_lines: [usize; 4], 1, 256;
    /// Where rows of the destination run across the source, and a kernel makes whole lines by itself: how much of each row is made
    /// together, for elements of 1, 2, 4 and 8 bytes; 0 for blocks that are assembled. More than two lines are made of panels only.
    transposed_strip: [usize; 4], 0, 1024;
    /// The same where rows of the destination begin anywhere in a line.
    ragged_strip: [usize; 4], 0, 1024;
    /// How much of the source is brought together before strips of rows are made of it, for elements of 1, 2, 4 and 8 bytes: a panel,
    /// which stays in L1 or L2. 0 for strips that are made from where the source lies.
    transposed_panel: [usize; 4], 0, 1 << 20;
    /// The same where rows of the destination begin anywhere in a line; kernels have such panels of elements of 2 and 4 bytes.
    ragged_panel: [usize; 4], 0, 1 << 20;
    /// How many panels ahead the source is fetched; a number, 0 fetches nothing.
    panels_fetched: usize, 0, 64;
    /// Panels of up to so many bytes that lie together in the source, as sticks do, are fetched to L1, one ahead; larger ones to L2.
    near_panel: usize, 0, 1 << 20;
    /// The most such rows of one call, unless they are made of panels; they lie far apart, and more at a time are slower; a number.
    transposed_rows: usize, 16, 1 << 20;
    /// How much of each row of the source is fetched together there, while as much is transposed; 0 fetches nothing.
    transposed_fetched: usize, 0, 1 << 20;
    /// A destination of at least so many bytes is written with non-temporal stores where the source runs across its rows: the
    /// lines that a transpose writes a row apart do not stay in a core's own cache.
    transposed_from: usize, 0, NEVER;
    /// Rows that begin at least so far from each other are far apart there.
    transposed_apart: usize, 0, NEVER;
    /// A destination of at least so many bytes is written with non-temporal stores where the source, read as it lies, is written
    /// far apart.
    scattered_from: usize, 0, NEVER;
    /// Steps of at least so many bytes are far there.
    scattered_apart: usize, 0, NEVER;
    /// How far ahead of the block that is being assembled the source is fetched; 0 fetches nothing.
    fetched: usize, 0, 1 << 20;
    /// A destination of at least so many bytes is written with non-temporal stores where elements go from source to destination
    /// at once.
    direct_from: usize, 0, NEVER;
    /// Of elements that go from source to destination at once, the run of the destination where its lines are gathered from
    /// all over the source.
    direct_segment: usize, 64, 1 << 20;
    /// The part of the source that a block of such runs reads: what stays in L2.
    direct_source: usize, 64, 1 << 30;
    /// Elements that kernels do not take from where they lie at full speed (conversions of short rows without a loop of their own,
    /// transposes that convert, views of single elements) are brought together in L1 as elements of the destination first, so many
    /// bytes of the source at a time, and tiles of a block format are transposed from where they were unpacked; 0 for none.
    compacted: usize, 0, 1 << 20;
    /// The runs, on both sides, of a block whose source is read as it lies.
    direct_run: usize, 64, 1 << 30;
    /// The same where the destination begins between two lines. Such a block is written in the order of the destination, so that
    /// it should be in L2 whole.
    between_run: usize, 64, 1 << 30;
    /// The same of elements that are copied.
    between_copied: usize, 64, 1 << 30;
    /// How many of its runs ahead the source is fetched in such blocks; a number, 0 leaves it to the processor.
    between_fetched: usize, 0, 64;
    /// What is written together there: lines of the destination that are neighbours.
    direct_pair: usize, 64, 4096;
    /// The same where a line is gathered from runs of the source that are shorter than a line; 0 for lines that are written in
    /// blocks with runs of `direct_segment`.
    gathered_pair: usize, 0, 4096;
    /// How far ahead the source is fetched there; 0 fetches it by `runs_fetched`.
    gathered_fetched: usize, 0, 1 << 20;
    /// The most runs of the source of which `direct_pair` is made, each a stream of its own to the processor; a number.
    direct_runs: usize, 1, 64;
    /// Lines of the destination whose elements lie less than this from each other in the source are not written together: where
    /// it is read as it lies, one is written soon after the other.
    direct_apart: usize, 0, 1 << 30;
    /// How far ahead the source is fetched where many rows of it are read by turns; 0 fetches nothing.
    direct_fetched: usize, 0, 1 << 20;
    /// Where such rows, as many as lines are made of together or as tiles have, have up to so many bytes in all, later ones are fetched
    /// instead: the next ones, or those about `fetched` bytes ahead where that is further.
    rows_fetched: usize, 0, 1 << 30;
    /// The cache that copies of short runs fetch it to, 1 or 2; a number.
    direct_cache: usize, 1, 2;
    /// How many runs ahead the source is fetched where runs that go at once lie apart; a number, 0 fetches nothing.
    runs_fetched: usize, 0, 64;
    /// Runs of the source that are shorter than this are copied in blocks of `direct_source` bytes with runs of `direct_segment` in the
    /// destination, where such a block is one run of the source: while one is copied the next one is fetched, in the order in which
    /// it lies. 0 for none.
    blocks_fetched: usize, 0, 4096;
    /// The same where the planes of a destination lie side by side in such a block (sticks of several matrices), of tasks that have
    /// each a band of all planes.
    bands_fetched: usize, 0, 4096;
    /// How many tiles ahead of the one being packed the source is fetched, where rows of tiles have more than `rows_fetched` bytes; a
    /// number, 0 fetches nothing.
    tiles_fetched: usize, 0, 64;
    /// How many tiles ahead of the one being unpacked past the caches the source is fetched; a number, 0 fetches nothing.
    unpacked_fetched: usize, 0, 64;
    /// Elements from which on a row of tiles is worth a kernel call of its own: where small tiles (blocks of an MX format) make
    /// rows of fewer, a call takes a longer row of them; a number.
    call_elements: usize, 0, 1 << 20;
}

/// How rows of a destination that run across the source are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Strip {
    /// How much of each row is made together; 0 for blocks that are assembled.
    pub(crate) bytes: usize,
    /// How much of the source is brought together first; 0 for none of it.
    pub(crate) panel: usize,
    /// Whether rows begin anywhere in a line.
    pub(crate) ragged: bool,
}

impl Tuning {
    /// The strips of elements of so many bytes, if there are any for them; `ragged`: of rows that begin anywhere in a line.
    pub(crate) fn strip(&self, size: usize, ragged: bool) -> Option<Strip> {
        const TWO_LINES: usize = 128;
        let i = [1, 2, 4, 8].iter().position(|&other| other == size)?;
        let (bytes, panel) = if ragged {
            (self.ragged_strip[i], self.ragged_panel[i])
        } else {
            (self.transposed_strip[i], self.transposed_panel[i])
        };
        let most = if panel > 0 { usize::MAX } else { TWO_LINES };
        Some(Strip { bytes: bytes.min(most), panel, ragged })
    }

    /// Whether every number is inside of its limits.
    ///
    /// # Errors
    /// [`Error::Value`], which names the first constant that is not, its number and its limits.
    pub fn check(&self) -> Result<()> {
        for (i, constant) in Tuning::CONSTANTS.iter().enumerate() {
            constant.check(self.numbers(i), || format!("tuning `{}`", constant.name))?;
        }
        Ok(())
    }
}

impl Constant {
    /// Whether the numbers are inside of the limits; `what` says of what they are.
    fn check(&self, numbers: &[usize], what: impl Fn() -> String) -> Result<()> {
        let Constant { least, most, .. } = *self;
        match numbers.iter().find(|&number| !(least..=most).contains(number)) {
            Some(given) => Err(Error::value(what(), given, format!("a whole number from {least} to {most}"))),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_outside_of_their_limits_are_refused_by_name() {
        for (i, constant) in Tuning::CONSTANTS.iter().enumerate() {
            assert!(constant.about.trim().ends_with('.'), "{constant:?}");
            for wrong in [constant.least.checked_sub(1), constant.most.checked_add(1)].into_iter().flatten() {
                let mut tuning = builtin::CONSERVATIVE;
                *tuning.numbers_mut(i).last_mut().unwrap() = wrong;
                let message = tuning.check().unwrap_err().to_string();
                let expected = format!(
                    "tuning `{}`: given {wrong}, needed a whole number from {} to {}",
                    constant.name, constant.least, constant.most
                );
                assert_eq!(message, expected);
            }
            for right in [constant.least, constant.most] {
                let mut tuning = builtin::CONSERVATIVE;
                tuning.numbers_mut(i).fill(right);
                assert_eq!(tuning.check(), Ok(()));
            }
        }
    }
}
