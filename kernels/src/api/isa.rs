//! Instruction-set levels: what they are called, what they need, which of them this machine has.

/// A level of instructions for which every kernel is compiled.
///
/// A level is a *set* of features, as processors come with whole sets; naming single features would make the
/// compiler mix code paths. Levels are ordered: a later one includes the earlier ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Isa {
    /// The plainest loop that states each rule, with which the others are compared.
    Scalar,
    /// Whatever the build targets at least (SSE2 on x86-64).
    Base,
    /// x86-64-v3: AVX2, BMI1, BMI2, F16C, FMA, LZCNT, MOVBE, POPCNT.
    V3,
    /// x86-64-v4: V3 and the first AVX-512 set (F, BW, CD, DQ, VL). What Ice Lake and Zen 4 have beyond it changes less than a
    /// hundredth of the kernels' instructions. Skylake's and Cascade Lake's servers lower their clock for it, and copy as V3 does: on
    /// a Cascade Lake, in L2, packing has 1.1 to 1.5 of V3's speed, unpacking 1.2 to 1.8 of it.
    V4,
}

impl Isa {
    /// All levels, lowest first.
    pub const ALL: [Isa; 4] = [Isa::Scalar, Isa::Base, Isa::V3, Isa::V4];

    /// The name users type: `scalar`, `base`, `v3` or `v4`.
    pub const fn name(self) -> &'static str {
        match self {
            Isa::Scalar => "scalar",
            Isa::Base => "base",
            Isa::V3 => "v3",
            Isa::V4 => "v4",
        }
    }

    /// The level with exactly this name.
    pub fn from_name(name: &str) -> Option<Isa> {
        Isa::ALL.into_iter().find(|isa| isa.name() == name)
    }

    /// Whether this machine can run the level.
    pub fn is_available(self) -> bool {
        match self {
            Isa::Scalar | Isa::Base => true,
            Isa::V3 => has_v3(),
            Isa::V4 => has_v4(),
        }
    }

    /// The highest level this machine can run.
    pub fn best() -> Isa {
        Isa::available().last().unwrap_or(Isa::Scalar)
    }

    /// The levels this machine can run, lowest first.
    pub fn available() -> impl Iterator<Item = Isa> {
        Isa::ALL.into_iter().filter(|isa| isa.is_available())
    }
}

/// The features of a level, handed to another macro. The one list serves the question to the processor and the
/// instances of the kernels: that identity is what makes calling a table sound.
macro_rules! features {
    (V3 $then:ident $($rest:tt)*) => {
        $then!(["avx2" "bmi1" "bmi2" "f16c" "fma" "lzcnt" "movbe" "popcnt"] $($rest)*);
    };
    (V4 $then:ident $($rest:tt)*) => {
        $then!(["avx2" "bmi1" "bmi2" "f16c" "fma" "lzcnt" "movbe" "popcnt"
            "avx512f" "avx512bw" "avx512cd" "avx512dq" "avx512vl"] $($rest)*);
    };
}
#[cfg(target_arch = "x86_64")]
pub(crate) use features;

macro_rules! detect {
    ([$($feature:tt)*] $name:ident) => {
        fn $name() -> bool {
            #[cfg(target_arch = "x86_64")]
            return $(std::arch::is_x86_feature_detected!($feature))&&*;
            #[cfg(not(target_arch = "x86_64"))]
            return false;
        }
    };
}
features!(V3 detect has_v3);
features!(V4 detect has_v4);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back() {
        for isa in Isa::ALL {
            assert_eq!(Isa::from_name(isa.name()), Some(isa));
        }
        assert_eq!(Isa::from_name("avx2"), None);
        assert_eq!(Isa::from_name("V3"), None);
    }

    #[test]
    fn best_is_the_highest_available() {
        assert!(Isa::best() >= Isa::Base);
        assert!(Isa::best().is_available());
        assert!(Isa::ALL.into_iter().filter(|&isa| isa > Isa::best()).all(|isa| !isa.is_available()));
    }
}
