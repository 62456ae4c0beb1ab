//! What the processor says of itself.

use std::fmt;

/// The machine that the program runs on, as far as it tells. What it does not tell is empty or 0.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Machine {
    /// The maker of the processor, as CPUID has it (`GenuineIntel`, `AuthenticAMD`); elsewhere than on x86-64 empty.
    pub vendor: String,
    /// The family, extended bits included.
    pub family: u32,
    /// The model, extended bits included.
    pub model: u32,
    /// The name by which it is sold.
    pub brand: String,
    /// Bytes of a core's L1 data cache.
    pub l1_bytes: usize,
    /// Bytes of its L2 cache.
    pub l2_bytes: usize,
    /// Bytes of the L3 cache that it shares with others.
    pub l3_bytes: usize,
}

impl Machine {
    /// This machine. It asks anew at each call, which takes microseconds, and more where a hypervisor answers.
    pub fn here() -> Machine {
        #[cfg(all(target_arch = "x86_64", not(target_env = "sgx"), not(miri)))]
        return ask(&raw_cpuid::CpuId::new());
        #[cfg(not(all(target_arch = "x86_64", not(target_env = "sgx"), not(miri))))]
        return Machine::default();
    }

    /// A name for machines of this kind that can be a part of a file's: `GenuineIntel-6-143`; where the processor does not
    /// tell, the architecture: `aarch64`.
    pub fn kind(&self) -> String {
        if self.vendor.is_empty() {
            return std::env::consts::ARCH.to_owned();
        }
        let vendor: String = self.vendor.chars().filter(char::is_ascii_alphanumeric).collect();
        format!("{vendor}-{}-{}", self.family, self.model)
    }
}

/// The name by which the processor is sold, its kind, and its caches.
impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.brand.is_empty() {
            write!(f, "{}, ", self.brand)?;
        }
        write!(f, "{}", self.kind())?;
        for (name, bytes) in [("L1", self.l1_bytes), ("L2", self.l2_bytes), ("L3", self.l3_bytes)] {
            if bytes > 0 {
                write!(f, ", {} KiB {name}", bytes >> 10)?;
            }
        }
        Ok(())
    }
}

#[cfg(all(target_arch = "x86_64", not(target_env = "sgx"), not(miri)))]
fn ask<R: raw_cpuid::CpuIdReader>(cpuid: &raw_cpuid::CpuId<R>) -> Machine {
    use raw_cpuid::CacheType;
    let mut machine = Machine::default();
    if let Some(vendor) = cpuid.get_vendor_info() {
        vendor.as_str().clone_into(&mut machine.vendor);
    }
    if let Some(brand) = cpuid.get_processor_brand_string() {
        brand.as_str().trim().clone_into(&mut machine.brand);
    }
    if let Some(features) = cpuid.get_feature_info() {
        (machine.family, machine.model) = (features.family_id().into(), features.model_id().into());
    }
    for cache in cpuid.get_cache_parameters().into_iter().flatten() {
        if cache.cache_type() == CacheType::Instruction {
            continue;
        }
        let ways = cache.associativity() * cache.physical_line_partitions();
        let bytes = ways * cache.coherency_line_size() * cache.sets();
        match cache.level() {
            1 => machine.l1_bytes = bytes,
            2 => machine.l2_bytes = bytes,
            3 => machine.l3_bytes = bytes,
            _ => {}
        }
    }
    machine
}

#[cfg(all(test, target_arch = "x86_64", not(target_env = "sgx"), not(miri)))]
mod tests {
    use super::*;
    use raw_cpuid::{CpuId, CpuIdResult};

    /// What an Emerald Rapids says: leaf, subleaf, and the four registers.
    const EMERALD_RAPIDS: [(u32, u32, [u32; 4]); 6] = [
        (
            0,
            0,
            [0x20, u32::from_le_bytes(*b"Genu"), u32::from_le_bytes(*b"ntel"), u32::from_le_bytes(*b"ineI")],
        ),
        (1, 0, [0x000C_06F8, 0, 0, 0]),
        (4, 0, [0x0000_4121, 0x02C0_003F, 63, 0]),
        (4, 1, [0x0000_4122, 0x01C0_003F, 63, 0]),
        (4, 2, [0x0000_4143, 0x03C0_003F, 2047, 0]),
        (4, 3, [0x0000_4163, 0x0380_003F, 114_687, 0]),
    ];

    #[test]
    fn the_kind_and_the_caches_are_read_as_the_maker_numbers_them() {
        let machine = ask(&CpuId::with_cpuid_fn(|leaf, subleaf| {
            let told = EMERALD_RAPIDS.iter().find(|(l, s, _)| (*l, *s) == (leaf, subleaf));
            let [eax, ebx, ecx, edx] = told.map_or([0; 4], |told| told.2);
            CpuIdResult { eax, ebx, ecx, edx }
        }));
        // Family 6, model 0xCF: an Emerald Rapids. 12 ways of 64 sets, 16 of 2048, 15 of 114688, lines of 64 bytes.
        assert_eq!(machine.kind(), "GenuineIntel-6-207");
        assert_eq!((machine.l1_bytes, machine.l2_bytes, machine.l3_bytes), (48 << 10, 2 << 20, 105 << 20));
        assert_eq!(machine.to_string(), "GenuineIntel-6-207, 48 KiB L1, 2048 KiB L2, 107520 KiB L3");
    }

    #[test]
    fn a_processor_that_tells_nothing_has_the_kind_of_its_architecture() {
        let silent = ask(&CpuId::with_cpuid_fn(|_, _| CpuIdResult { eax: 0, ebx: 0, ecx: 0, edx: 0 }));
        assert_eq!((silent.l1_bytes, silent.l3_bytes), (0, 0));
        assert_eq!(Machine::default().kind(), std::env::consts::ARCH);
    }
}
