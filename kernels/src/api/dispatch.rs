//! One table of kernels per instruction set, and the registry from which the tables are made.
//!
//! A kernel body is a safe `#[inline(always)]` function. The registry instantiates it once per level: called from
//! a function compiled for the level's features it is inlined there and compiled with them. A helper that is not
//! inlined silently loses the features (and half the speed), hence `#[inline(always)]` down the whole chain. What a body hands to
//! [`Level::part`] is compiled for the level too, as a function of its own.
//!
//! Fact D1, cited by the unsafe blocks here: the table of a level leaves this module only through
//! [`Kernels::for_isa`], which has asked the processor for every feature the level's functions are compiled for. A value of the type
//! that stands for a level is made only by these functions.

use super::isa::Isa;
#[cfg(target_arch = "x86_64")]
use super::isa::features;
use crate::level::Level;
use crate::memory::{NonTemporal, StridedCopy};
use crate::moves::cast::Casting;
use crate::moves::convert::Conversion;
use crate::moves::fill::Runs;
use crate::moves::{cast, convert, copy, fill};
use crate::vectors::pack::Packing;
use crate::vectors::unpack::Unpacking;
use crate::vectors::{pack, unpack};

/// The kernels of one instruction set.
///
/// All tables give the same bytes for the same call; they differ in speed alone. A value of this type exists only
/// for a level the machine can run.
#[derive(Debug)]
pub struct Kernels {
    isa: Isa,
    pub(super) table: Table,
}

impl Kernels {
    /// The table of a level, or `None` when this machine cannot run it.
    pub fn for_isa(isa: Isa) -> Option<&'static Kernels> {
        isa.is_available().then_some(match isa {
            Isa::Scalar => &SCALAR,
            #[cfg(target_arch = "x86_64")]
            Isa::V3 => &V3,
            #[cfg(target_arch = "x86_64")]
            Isa::V4 if slows_for_512_bits() => &V4_COPIES_OF_V3,
            #[cfg(target_arch = "x86_64")]
            Isa::V4 => &V4,
            _ => &BASE,
        })
    }

    /// The level of this table.
    pub fn isa(&self) -> Isa {
        self.isa
    }

    /// Runs a body that is no kernel of the table with the instructions of this level: for loops of other packages
    /// that a compiler makes vector instructions of.
    pub fn run<B: Body>(&self, body: B) -> B::Output {
        match self.isa {
            Isa::Scalar | Isa::Base => body.run(),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: D1: the processor has the features. A body is safe whatever it is compiled with.
            Isa::V3 => unsafe { v3(body) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: D1, as above.
            Isa::V4 => unsafe { v4(body) },
            #[cfg(not(target_arch = "x86_64"))]
            _ => body.run(),
        }
    }

    /// The non-temporal stores of this level, if it has any.
    pub(super) fn non_temporal_stores(&self) -> Option<NonTemporal> {
        match self.isa {
            Isa::Scalar => None,
            Isa::Base => NonTemporal::sse(),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: D1: the processor has AVX2, which includes AVX, and all of AVX-512 that is asked for.
            Isa::V4 if !slows_for_512_bits() => unsafe { NonTemporal::avx512() },
            // SAFETY: D1: the processor has AVX2.
            Isa::V3 | Isa::V4 => unsafe { NonTemporal::avx() },
        }
    }
}

/// What [`Kernels::run`] runs.
pub trait Body {
    /// What comes of it.
    type Output;

    /// Does the work. It is compiled for a level only where it, and all that it calls, is `#[inline(always)]`.
    fn run(self) -> Self::Output;
}

#[cfg(target_arch = "x86_64")]
macro_rules! runner {
    ([$($feature:literal)*] $name:ident) => {
        $(#[target_feature(enable = $feature)])*
        fn $name<B: Body>(body: B) -> B::Output {
            body.run()
        }
    };
}
#[cfg(target_arch = "x86_64")]
features!(V3 runner v3);
#[cfg(target_arch = "x86_64")]
features!(V4 runner v4);

/// Makes the tables and the differential tests out of the registry below.
macro_rules! kernels {
    (@table $($name:ident($($arg:ident: $ty:ty),*): $body:path, $scalar:path, $sweep:path;)*) => {
        /// One function per kernel of the registry.
        #[derive(Debug)]
        pub(super) struct Table {
            $($name: unsafe fn($($ty),*),)*
        }

        impl Table {
            $(
                #[inline]
                pub(super) fn $name(&self, $($arg: $ty),*) {
                    // SAFETY: D1, the processor has the features this function was compiled for. It has no other
                    // precondition, being an instance of a safe function.
                    unsafe { (self.$name)($($arg),*) }
                }
            )*
        }
    };

    ($features:tt @instance $level:ident $table:ident $isa:expr, $which:ident
        $($name:ident($($arg:ident: $ty:ty),*): $body:path, $scalar:path, $sweep:path;)*) => {
        /// The instances of one level, each in a module of its own, so that compilers take them side by side.
        mod $level {
            $(pub(super) mod $name {
                use crate::api::dispatch::*;
                kernels!($features @function $which $name($($arg: $ty),*), $body, $scalar);
            })*
        }
        static $table: Kernels =
            Kernels { isa: $isa, table: Table { $($name: $level::$name::$name),* } };
    };
    ([$($feature:literal)*] @function body $name:ident($($arg:ident: $ty:ty),*), $body:path, $scalar:path) => {
        $(#[target_feature(enable = $feature)])*
        pub(in crate::api::dispatch) fn $name($($arg: $ty),*) {
            $body(Here(()), $($arg),*)
        }

        /// The level of this instance. Only the instance makes it.
        #[derive(Clone, Copy)]
        struct Here(());

        impl Level for Here {
            // Levels that have features have AVX2.
            const PAIRS: bool = !<[&str]>::is_empty(&[$($feature),*]);
            const LINES: bool = has_lines(&[$($feature),*]);

            #[inline(always)]
            fn part<R>(self, body: impl FnOnce() -> R) -> R {
                $(#[target_feature(enable = $feature)])*
                #[inline(never)]
                fn part<R>(body: impl FnOnce() -> R) -> R {
                    body()
                }
                #[allow(unused_unsafe, reason = "not every level has features")]
                // SAFETY: D1: an instance made this value, so that the processor has the features.
                unsafe {
                    part(body)
                }
            }
        }
    };
    ([] @function scalar $name:ident($($arg:ident: $ty:ty),*), $body:path, $scalar:path) => {
        pub(in crate::api::dispatch) fn $name($($arg: $ty),*) {
            $scalar($($arg),*)
        }
    };

    (@tests $($name:ident($($arg:ident: $ty:ty),*): $body:path, $scalar:path, $sweep:path;)*) => {
        /// Every kernel of every other table this machine can run against the scalar one.
        #[cfg(test)]
        mod differential {
            use super::*;
            $(
                #[test]
                fn $name() {
                    for isa in Isa::available().filter(|&isa| isa != Isa::Scalar) {
                        $sweep(Kernels::for_isa(isa).unwrap(), &SCALAR);
                    }
                }
            )*
        }
    };

    // The registry: `name(arguments): body, scalar rule, sweep;`
    ($($list:tt)*) => {
        kernels!(@table $($list)*);
        kernels!([] @instance scalar SCALAR Isa::Scalar, scalar $($list)*);
        kernels!([] @instance base BASE Isa::Base, body $($list)*);
        #[cfg(target_arch = "x86_64")]
        features!(V3 kernels @instance v3 V3 Isa::V3, body $($list)*);
        #[cfg(target_arch = "x86_64")]
        features!(V4 kernels @instance v4 V4 Isa::V4, body $($list)*);
        kernels!(@tests $($list)*);
    };
}

// One line per kernel. `body` is compiled for each level above scalar, which it gets before the arguments, `rule` is the scalar table's entry, and
// `sweep(tested, rule)` runs both tables over the kernel's small world and compares every byte.
kernels! {
    cast(on: &mut Casting<'_>): cast::body, cast::scalar, crate::api::differential::cast::sweep;
    convert(on: &mut Conversion<'_>): convert::body, convert::scalar, crate::api::differential::convert::sweep;
    copy(on: StridedCopy<'_>): copy::body, copy::scalar, crate::api::differential::copy::sweep;
    copy_non_temporal(on: StridedCopy<'_>, stores: NonTemporal):
        copy::non_temporal, copy::non_temporal_scalar, crate::api::differential::copy::sweep_non_temporal;
    fill(pattern: &[u8], runs: Runs<'_>): fill::body, fill::scalar, crate::api::differential::fill::sweep;
    pack(on: &mut Packing<'_>): pack::body, pack::scalar, crate::api::differential::pack::sweep;
    unpack(on: &mut Unpacking<'_>): unpack::body, unpack::scalar, crate::api::differential::unpack::sweep;
}

/// Whether a level with these features has vectors of 512 bits.
const fn has_lines(features: &[&str]) -> bool {
    matches!(features, [.., last] if matches!(last.as_bytes(), b"avx512vl"))
}

/// The table of v4 for processors that lower their clock for vectors of 512 bits, and that of everything else with it: what
/// moves bytes and computes nothing is v3's, whose features v4 includes. On a Cascade Lake that is 1.0 to 1.5 times as fast.
#[cfg(target_arch = "x86_64")]
static V4_COPIES_OF_V3: Kernels = Kernels {
    isa: Isa::V4,
    table: Table { copy: V3.table.copy, copy_non_temporal: V3.table.copy_non_temporal, ..V4.table },
};

/// Whether the processor does. Those are the servers of Skylake and Cascade Lake: all later ones have VBMI too.
#[cfg(target_arch = "x86_64")]
fn slows_for_512_bits() -> bool {
    !std::arch::is_x86_feature_detected!("avx512vbmi")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_level_gets_its_own_table() {
        for isa in Isa::ALL {
            assert_eq!(Kernels::for_isa(isa).map(Kernels::isa), isa.is_available().then_some(isa));
        }
    }
}
