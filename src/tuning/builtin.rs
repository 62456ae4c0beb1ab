//! Tables that come with the library: those that were measured, and one for machines that nobody has measured.

use super::{Machine, NEVER, Tuning};

/// What the tables begin with: found on Zen 4 with `tilewright bench` unless another machine is named. What is slower there, and by how
/// much, is beside each number.
pub(crate) const COMMON: Tuning = Tuning {
    stream_from: 24 << 20,
    // This and the next number were found on Sapphire Rapids, and have not been measured on Zen 4.
    transposed_from: 512 << 10,
    // Rows of tiles are nearer.
    transposed_apart: 1024,
    threads_from: 256 << 10,
    task: 64 << 10,
    tasks_per_thread: 4,
    block: 16 << 10,
    // Twice of it costs a quarter of the speed.
    segment: 2048,
    run_segment: 2048,
    // 256 to 2048 bytes by 64 and 128 elements were tried.
    transposed_segment: [512; 4],
    ragged_segment: [512; 4],
    transposed_lines: [1; 4],
    // This and the next two numbers were found on Emerald Rapids, and have not been measured on Zen 4.
    transposed_strip: [0, 0, 128, 128],
    transposed_rows: 1024,
    transposed_fetched: 256,
    // Blocks of smaller elements are faster assembled.
    ragged_strip: [0, 0, 128, 128],
    transposed_panel: [0; 4],
    ragged_panel: [0; 4],
    panels_fetched: 0,
    // Found on Zen 4; on Emerald Rapids a program of its own has nine tenths of the speed with L1.
    near_panel: 0,
    fetched: 16 << 10,
    direct_from: 24 << 20,
    scattered_from: 24 << 20,
    scattered_apart: 4096,
    // Half of it costs a tenth of the speed of untilizing.
    direct_segment: 4096,
    direct_source: 128 << 10,
    // Found on Zen 4 only.
    compacted: 0,
    // With 16 KiB tiles are a fifth slower.
    direct_run: 64 << 10,
    // Found on Cascade Lake: with 16 KiB untilizing f32 has two thirds of the speed.
    between_run: 4096,
    // With 4096 tilizing f32 has eight tenths of the speed on Emerald Rapids; on Zen 4 nine, untilizing f32 six, but conversions more.
    between_copied: 2048,
    // On Zen 4 untilizing f32 is 1.5 times as fast by this and the number before as with 4 and 4096, unstickifying three times.
    between_fetched: 16,
    // With one line tiles are a fifth slower.
    direct_pair: 128,
    gathered_pair: 0,
    gathered_fetched: 0,
    // Found on Zen 5; here neither changes anything.
    direct_runs: 64,
    direct_apart: 0,
    direct_fetched: 256,
    // Rows of up to 2 KiB, of which the end is not fetched otherwise, nor the beginning of the next ones.
    rows_fetched: 16 << 10,
    direct_cache: 1,
    runs_fetched: 4,
    // Found on Zen 3, not measured here.
    blocks_fetched: 0,
    bands_fetched: 0,
    // On 32 MiB of f32 up to twice as fast as 1.
    tiles_fetched: 3,
    // Found on Emerald Rapids, not measured here.
    unpacked_fetched: 0,
    // Found on Sapphire Rapids: sticks to rows of MX blocks are two blocks a call otherwise, at a fifth of the speed.
    call_elements: 1024,
};

/// AMD's Zen 4: 32 KiB of L1 and 1 MiB of L2 for each core, 32 MiB of L3. One core reads 29 GB/s there where lines are asked of L2
/// some 8 KiB ahead, and 6 to 12 where they lie apart and are not; it writes 25, lines of their own too.
pub const ZEN4: Tuning = Tuning {
    // Of 8 and 16 MiB of bf16 tiles that f32 becomes, COMMON's makes half of the speed; of 4 MiB it would be 1.1 times.
    stream_from: 8 << 20,
    // By way of panels transposes of 2 bytes have 1.6 times the speed of blocks, of 4 and 8 bytes 1.3 times that of strips. With panels of
    // 12 to 64 KiB and other strips they have eight tenths of that or more.
    transposed_strip: [128, 128, 128, 256],
    transposed_panel: [16 << 10, 32 << 10, 16 << 10, 16 << 10],
    // Without it they have less than half of the speed; one or four panels ahead are as good.
    panels_fetched: 2,
    // With 0 sticks are restickified at eight tenths of the speed.
    near_panel: 8 << 10,
    // By way of panels of 2 and 4 bytes they have 0.8 to 0.95 of the speed, of rows of 11008 and 16387 elements 1.03 to 1.2; of 4 and 8 bytes
    // by strips six to eight tenths.
    ragged_strip: [0; 4],
    // Backward f32 is copied at 14 GB/s so, and at 10 with 2048.
    run_segment: 8192,
    // Without it f64, integers and fp8 become tiles at half of the speed, transposed bf16 at two thirds.
    compacted: 32 << 10,
    // Without it untilizing bf16 has seven tenths of the speed. With 128 untilizing f32 has three quarters of it, with 256 unstickifying on
    // one thread six to nine tenths.
    blocks_fetched: 64,
    // Without it unstickifying has four to eight tenths of the speed on two threads.
    bands_fetched: 256,
    // With COMMON's numbers for this and the next three tilize f32 has five sixths of the speed. With 512 sticks of rows of 16 KiB have nine tenths.
    direct_pair: 1024,
    // With 4 tilize bf16 has seven eighths of the speed, with 16 eight tenths.
    direct_runs: 8,
    // With 4096 sticks of rows of 8 KiB have seven tenths of the speed, with 32768 tiles of f32 have eight.
    direct_apart: 16 << 10,
    // With 0 tiles on a mesh are a tenth faster, and plain sticks have nine tenths of the speed. With 2048 rows in pages become f32 or f16 at
    // five sixths to nine tenths.
    direct_fetched: 4096,
    // With COMMON's, tilizing bf16 has eight tenths of the speed where rows have 4096 elements, nineteen twentieths where they have 16384.
    rows_fetched: 256 << 10,
    // L1 does not keep lines of rows a power of two apart: with 1 tilizing bf16 has eight tenths of the speed, onto a mesh seven.
    direct_cache: 2,
    // With 16 untilizing f32 has half of the speed.
    between_fetched: 64,
    ..COMMON
};

/// AMD's Zen 3 servers: 32 KiB of L1 and 512 KiB of L2 for each core, 32 MiB of L3. One core reads 14 GB/s there in one stream, and 3 to 7
/// where runs of 128 to 512 bytes lie apart.
pub const ZEN3: Tuning = Tuning {
    // With COMMON's, what is written to 8 to 24 MiB has three to nine tenths of the speed in many pairs of layouts; views of every second
    // element to rows would be up to twice as fast, block formats to rows 1.2 times.
    stream_from: 8 << 20,
    // Backward rows of f32 are copied and converted at 1.4 to 1.9 times the speed of COMMON's 2048.
    run_segment: 8192,
    // With CONSERVATIVE's, tiles become f32.T at five to eight tenths of the speed, bf16.T at seven to nine; pages to bf16.T would be a quarter
    // faster, every second f32 to f32.T twice as fast. With 512 and 1 for 8 bytes, and 1 for 4, f64 to f32.T is a third slower.
    transposed_segment: [512, 512, 512, 128],
    transposed_lines: [1, 1, 2, 8],
    // Without both, u8, i32, E4M3 and f64 become tiles in memory at five to nine tenths of the speed, in banks at three to seven. With the first
    // alone, i64 and E4M3 to tiles are slower than with neither.
    compacted: 32 << 10,
    panels_fetched: 2,
    // Without it, untilizing and unstickifying have five to eight tenths of the speed.
    blocks_fetched: 256,
    bands_fetched: 256,
    // As on Zen 5. With CONSERVATIVE's four numbers tilize f32 and sticks have seven to nine tenths of the speed.
    direct_pair: 512,
    direct_runs: 4,
    direct_apart: 4096,
    direct_fetched: 2048,
    // By way of panels 2-byte transposes have the speed of two lines on one thread, 1.2 times that on two; 4-byte ones three quarters. Of 1 byte blocks are as
    // fast as strips.
    transposed_strip: [0, 512, 128, 128],
    // Without panels 2-byte ones have seven to eight tenths of the speed, 4-byte ones six to seven; measured before tails of rows were kept.
    ragged_strip: [0, 512, 512, 128],
    // Measured as 512 KiB, of which an eighth was left free where rows begin with lines.
    transposed_panel: [0, 448 << 10, 0, 0],
    ragged_panel: [0, 512 << 10, 512 << 10, 0],
    ..CONSERVATIVE
};

/// AMD's Zen 5: 48 KiB of L1 and 1 MiB of L2 for each core, 32 MiB of L3. One core reads 33 GB/s there and writes 41, so that few
/// instructions are left for each line, and sources are best read in few streams.
pub const ZEN5: Tuning = Tuning {
    transposed_strip: [128; 4],
    transposed_fetched: 512,
    // Four rows of a face or two sticks together; with 8 tiles have nine tenths of the speed, with 2 six tenths.
    direct_pair: 512,
    direct_runs: 4,
    // Rows that are untilized lie 1 KiB apart in the source: one by one 27 GB/s, by pairs 23, by fours 10.
    direct_apart: 4096,
    // Untilizing bf16 has six tenths of the speed in blocks with runs of 4096 bytes.
    gathered_pair: 256,
    // With 256, sticks have nine tenths of the speed, tiles on a mesh eight.
    direct_fetched: 2048,
    // With 2048, untilizing bf16 has eight tenths of the speed.
    gathered_fetched: 4096,
    ..CONSERVATIVE
};

/// Intel's Sapphire Rapids and Emerald Rapids: 48 KiB of L1 and 2 MiB of L2 for each core, a large L3 that many share.
/// Transposes differ from `COMMON`, which has a quarter to a half of the speed there (8192x8192 f32 and 8192x16384 bf16,
/// one thread): with rows of the source 32 KiB apart, the lines of 64 of them are all that L2 keeps.
pub const SAPPHIRE_RAPIDS: Tuning = Tuning {
    // With 2048, f32 and bf16 to f64 (2048x2048) have half of the speed; tiles gain nothing by longer segments.
    run_segment: 8192,
    // With 128, tiles of bf16 and sticks have nine tenths of the speed; with 2048 tiles have.
    direct_pair: 512,
    // With 64, tiles on cores and on a mesh have nineteen twentieths of the speed.
    direct_runs: 8,
    // With 0, tiles of bf16 become f32 at six tenths of the speed, f64 at four tenths.
    direct_apart: 4096,
    // With 256, sticks of SEN169 have nine tenths of the speed; with 4096 tiles have.
    direct_fetched: 1024,
    // Between layouts of 4 to 16 MiB copies are up to twice as fast with non-temporal stores; of 2 MiB, which L2 keeps, some are
    // slower.
    direct_from: 4 << 20,
    scattered_from: 4 << 20,
    transposed_segment: [256, 128, 128, 128],
    ragged_segment: [512, 512, 256, 512],
    transposed_lines: [4, 4, 8, 8],
    // By way of panels transposes of 2 bytes have 1.5 times the speed of blocks, of 1 byte 1.3 times, of 4 bytes 1.1 to 1.2 times that of
    // strips. With panels of 64 KiB those of 2 and 4 bytes have nine tenths of the speed.
    transposed_strip: [128, 128, 128, 256],
    transposed_panel: [32 << 10, 32 << 10, 16 << 10, 16 << 10],
    // With two panels ahead, 2-byte transposes have nineteen twentieths of the speed, with four eight tenths. Without it transposes of what is
    // brought together have half of the speed.
    panels_fetched: 1,
    // As on Zen 4.
    compacted: 32 << 10,
    // Without it untilizing f32 has 0.8 of the speed, bf16 and plain sticks 0.9; with 64 untilizing f32 gains nothing.
    blocks_fetched: 256,
    // Without it unstickifying has eight tenths of the speed on two threads.
    bands_fetched: 256,
    // Without it tiles of block formats become f32 at 0.84 to 0.93 of the speed; with 1 to 8 they are as fast.
    unpacked_fetched: 2,
    ..COMMON
};

/// For machines that nobody has measured, aarch64 among them: as `COMMON`, but no transpose that reads so many rows at a time
/// that their lines could push each other out of L2 where rows lie a power of two apart.
pub const CONSERVATIVE: Tuning = Tuning {
    transposed_segment: [128; 4],
    ragged_segment: [512, 512, 256, 256],
    transposed_lines: [1, 2, 4, 8],
    ..COMMON
};

/// Intel's Skylake, Cascade Lake and Cooper Lake servers: 32 KiB of L1 and 1 MiB of L2 for each core. Measured on a Cascade Lake.
///
/// Conversions in memory (8192x8192, one thread and two) are 1.1 to 2.6 times as fast there with ordinary stores; copies keep
/// non-temporal ones.
pub const CASCADE_LAKE: Tuning = Tuning {
    stream_from: NEVER,
    // With 256 bytes, ragged transposes of 4-byte elements are a tenth slower.
    ragged_segment: [512, 512, 512, 256],
    ..CONSERVATIVE
};

/// The tables by the names that `TILEWRIGHT_PROFILE` may say.
pub const ALL: [(&str, Tuning); 6] = [
    ("zen3", ZEN3),
    ("zen4", ZEN4),
    ("zen5", ZEN5),
    ("sapphire-rapids", SAPPHIRE_RAPIDS),
    ("cascade-lake", CASCADE_LAKE),
    ("conservative", CONSERVATIVE),
];

/// The table with this name.
pub fn named(name: &str) -> Option<(&'static str, Tuning)> {
    ALL.into_iter().find(|(other, _)| *other == name)
}

/// The table for a machine, and its name. A machine that nobody has measured gets [`CONSERVATIVE`]. That and [`CASCADE_LAKE`], whose
/// L3 has many sizes, get what follows from the machine's caches: a block takes no more than a third of L1, and what is larger than
/// three quarters of L3 is streamed, where that is less than in the table and not never.
pub fn for_machine(machine: &Machine) -> (&'static str, Tuning) {
    match (machine.vendor.as_str(), machine.family, machine.model) {
        // Genoa, Raphael, Phoenix and Hawk Point, Bergamo.
        ("AuthenticAMD", 0x19, 0x10..=0x1F | 0x60..=0x6F | 0x70..=0x7F | 0xA0..=0xAF) => ("zen4", ZEN4),
        // Milan and Chagall.
        ("AuthenticAMD", 0x19, 0x00..=0x0F) => ("zen3", ZEN3),
        // All of Zen 5: Turin, Strix Point and Halo, Granite Ridge.
        ("AuthenticAMD", 0x1A, 0x00..=0x7F) => ("zen5", ZEN5),
        // Sapphire Rapids, Emerald Rapids.
        ("GenuineIntel", 6, 0x8F | 0xCF) => ("sapphire-rapids", SAPPHIRE_RAPIDS),
        ("GenuineIntel", 6, 0x55) => ("cascade-lake", within_caches(CASCADE_LAKE, machine)),
        _ => ("conservative", within_caches(CONSERVATIVE, machine)),
    }
}

fn within_caches(mut tuning: Tuning, machine: &Machine) -> Tuning {
    if machine.l1_bytes > 0 {
        let third = (machine.l1_bytes / 3).clamp(4 << 10, tuning.block);
        tuning.block = 1 << third.ilog2();
    }
    if machine.l2_bytes > 0 {
        tuning.direct_source = tuning.direct_source.min((machine.l2_bytes / 4).max(64 << 10));
    }
    if machine.l3_bytes > 0 && tuning.stream_from < NEVER {
        tuning.stream_from = tuning.stream_from.min((machine.l3_bytes / 4 * 3).max(4 << 20));
    }
    tuning
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(vendor: &str, family: u32, model: u32) -> Machine {
        Machine { vendor: vendor.into(), family, model, ..Machine::default() }
    }

    #[test]
    fn machines_get_what_was_measured_on_their_kind() {
        let name = |vendor, family, model| for_machine(&machine(vendor, family, model)).0;
        assert_eq!(name("AuthenticAMD", 25, 17), "zen4");
        assert_eq!(name("AuthenticAMD", 25, 1), "zen3");
        assert_eq!(name("AuthenticAMD", 26, 2), "zen5");
        assert_eq!(name("GenuineIntel", 6, 143), "sapphire-rapids");
        assert_eq!(name("GenuineIntel", 6, 207), "sapphire-rapids");
        assert_eq!(name("GenuineIntel", 6, 85), "cascade-lake");
        // Zen 2, Ice Lake, and a processor that tells nothing.
        for (vendor, family, model) in [("AuthenticAMD", 23, 49), ("GenuineIntel", 6, 106), ("", 0, 0)] {
            assert_eq!(name(vendor, family, model), "conservative");
        }
    }

    #[test]
    fn unknown_caches_bound_blocks_and_streaming() {
        let with = |l1_bytes, l2_bytes, l3_bytes| {
            let machine = Machine { l1_bytes, l2_bytes, l3_bytes, ..machine("Other", 1, 1) };
            let tuning = for_machine(&machine).1;
            assert_eq!(tuning.check(), Ok(()));
            (tuning.block, tuning.direct_source, tuning.stream_from)
        };
        assert_eq!(with(0, 0, 0), (CONSERVATIVE.block, CONSERVATIVE.direct_source, CONSERVATIVE.stream_from));
        assert_eq!(with(16 << 10, 256 << 10, 8 << 20), (4 << 10, 64 << 10, 6 << 20));
        assert_eq!(with(1, 1, 1), (4 << 10, 64 << 10, 4 << 20));
        let most = (CONSERVATIVE.block, CONSERVATIVE.direct_source, CONSERVATIVE.stream_from);
        assert_eq!(with(usize::MAX, usize::MAX, usize::MAX), most);
        let known = Machine { l3_bytes: 8 << 20, ..machine("GenuineIntel", 6, 85) };
        assert_eq!(for_machine(&known).1.stream_from, NEVER);
    }

    #[test]
    fn all_of_them_are_inside_of_the_limits() {
        for (name, tuning) in ALL {
            assert_eq!(tuning.check(), Ok(()), "{name}");
            assert_eq!(named(name), Some((name, tuning)));
        }
        assert_eq!(named("zen6"), None);
    }
}
