//! V3 and V4: leaves keep to their blocks, and a leaf is one that the conversion has.

use kernels::TileShape;
use smallvec::SmallVec;

use crate::error::{Error, Result};
use crate::layout::Layout;
use crate::plan::conversion::{Conversion, Op};
use crate::plan::ir::{Gather, InPlace, Leaf, Loop, ScheduledNest, dst};

/// Destinations start on whole blocks; the parts of a tile are inside of it and do not meet. V1 has seen that the nest
/// stays inside of its units, and so V3 follows from the first of these.
pub(super) fn keep(nest: &ScheduledNest, conversion: Conversion<'_>, layout: &Layout) -> Result<()> {
    let block_bytes = layout.block_bytes() as i64;
    let whole = |at: [i64; 3]| at[1] % block_bytes == 0;
    if !whole(dst(nest.at)) || !nest.loops.iter().all(|l| whole(l.dst())) {
        return Err(Error::unverified("V4", format!("a leaf starts inside of {block_bytes} bytes")));
    }
    match &nest.leaf {
        Leaf::Fill => Ok(()),
        Leaf::Element if conversion.dst.codec.is_some() => {
            Err(Error::unverified("V4", "an element is written to a tile without packing"))
        }
        Leaf::Element => Ok(()),
        Leaf::Pack(parts) => {
            let (Some(codec), Op::Convert(..)) = (conversion.dst.codec, conversion.op) else {
                return Err(Error::unverified("V4", "a tile is packed where there is none"));
            };
            apart(parts, codec.tile())?;
            match nest.schedule.in_place {
                Some(tile) if !reads_as(tile, parts, codec.tile(), conversion) => Err(Error::unverified(
                    "V4",
                    format!("{tile:?} is not what a tile is packed from: {parts:?}"),
                )),
                _ => Ok(()),
            }
        }
    }
}

/// The slots of a tile, a bit each.
type Taken = [u64; TileShape::MAX_ELEMENTS.div_ceil(64)];

/// Takes a run of slots, or tells that one of them is taken already.
fn take(taken: &mut Taken, mut slot: usize, run: usize) -> bool {
    let end = slot + run;
    while slot < end {
        let (word, bit) = (slot / 64, slot % 64);
        let bits = (end - slot).min(64 - bit);
        let mask = u64::MAX >> (64 - bits) << bit;
        if taken[word] & mask != 0 {
            return false;
        }
        taken[word] |= mask;
        slot += bits;
    }
    true
}

/// The slots from the first to the last that loops reach, if each loop steps over all that is inside of it.
fn nested(loops: &[Loop]) -> Option<i64> {
    loops.iter().rev().try_fold(1_i64, |slots, l| {
        let more = (l.n as i64 - 1).saturating_mul(l.step[5]);
        (l.step[5] >= slots).then(|| slots.saturating_add(more))
    })
}

/// The parts of a tile lie inside of it and do not meet.
fn apart(parts: &[Gather], tile: TileShape) -> Result<()> {
    let slots = tile.elements() as i64;
    let outside =
        |slot: i64| Error::unverified("V4", format!("slot {slot} of a tile is outside or taken twice"));
    let mut taken = Taken::default();
    for part in parts {
        if part.elements() > slots as u64 || part.loops.iter().any(|l| l.n == 0) {
            return Err(Error::unverified("V4", format!("{} elements for {slots} slots", part.elements())));
        }
        if part.loops.iter().any(|l| l.step[3] != 0 || l.step[4] != 0) {
            return Err(Error::unverified("V4", "a part of a tile leaves it"));
        }
        if parts.len() == 1 && part.slot >= 0 && nested(&part.loops).is_some_and(|n| n <= slots - part.slot) {
            continue;
        }
        // Slots that follow one another are taken at once: a tile has rows of them, or is one run.
        let (run, rows) = match part.loops.split_last() {
            Some((last, rows)) if last.step[5] == 1 => (last.n, rows),
            _ => (1, part.loops.as_slice()),
        };
        for mut iteration in 0..part.elements() / run {
            let mut slot = part.slot;
            for l in rows.iter().rev() {
                slot = slot.saturating_add(l.step[5].saturating_mul((iteration % l.n) as i64));
                iteration /= l.n;
            }
            if !(0..=slots - run as i64).contains(&slot) || !take(&mut taken, slot as usize, run as usize) {
                return Err(outside(slot));
            }
        }
    }
    Ok(())
}

/// Whether a tile read in place has the same elements in the same slots as its one part.
fn reads_as(tile: InPlace, parts: &[Gather], shape: TileShape, conversion: Conversion<'_>) -> bool {
    let [part] = parts else { return false };
    let InPlace { rows, cols, src_row, src_col, faces } = tile;
    if part.slot != 0 || part.loops.iter().any(|l| l.step[0] != 0) {
        return false;
    }
    if conversion.src.codec.is_some() {
        return reads_codes_as(tile, part, shape, conversion);
    }
    let inside = (1..=shape.rows()).contains(&rows) && (1..=shape.cols()).contains(&cols);
    let inside = inside && (faces.is_none() || (rows, cols) == (shape.rows(), shape.cols()));
    let (face_rows, face_cols) = (shape.face_rows(), shape.face_cols());
    // Faces below one another, the rows of one, faces beside one another, and the elements of a row.
    let ([down, rows], [across, cols], [below, beside]) = match faces {
        Some(faces) => ([rows / face_rows, face_rows], [cols / face_cols, face_cols], faces),
        None => ([1, rows], [1, cols], [0; 2]),
    };
    let corner = [
        (down, face_rows * shape.cols(), below),
        (rows, shape.cols(), src_row),
        (across, face_cols, beside),
        (cols, 1, src_col),
    ];
    let corner = corner.map(|(n, slots, bytes)| (n as u64, slots as i64, bytes as i64));
    let loops = part.loops.iter().map(|l| (l.n, l.step[5], l.step[1]));
    inside && joined(corner.into_iter()) == joined(loops)
}

/// The same of codes: each row of the tile is all of a row of a packed tile of the source, from its first slot on, in the order of its slots. Of
/// several rows each is in a tile of its own.
fn reads_codes_as(tile: InPlace, part: &Gather, shape: TileShape, conversion: Conversion<'_>) -> bool {
    let Some(from) = conversion.rows_of_codes() else { return false };
    let (packed, cols) = (from.tile(), shape.cols() as i64);
    let faces = (packed.rows() > 1).then(|| [0, (packed.face_rows() * packed.face_cols()) as isize]);
    let place = InPlace { rows: shape.rows(), cols: shape.cols(), faces, src_col: 1, ..tile };
    let begins = |at: &[i64; 3]| at[2] % cols == 0;
    let moves = part.moves.iter().all(|moves| moves[0] == 0 && begins(moves));
    let column = |l: &Loop| (l.n as i64, l.step[1], l.step[2], l.step[5]) == (cols, 0, 1, 1);
    let row =
        |l: &Loop| (l.n, l.step[1], l.step[2], l.step[5]) == (tile.rows as u64, tile.src_row as i64, 0, cols);
    let loops = match &part.loops[..] {
        [one] => column(one) && tile.rows == 1,
        [one, other] => column(one) && row(other) || row(one) && column(other),
        _ => false,
    };
    tile == place && packed.cols() as i64 == cols && begins(&part.src) && moves && loops
}

/// Loops over slots and bytes, the greatest step over slots first, joined where one goes on where another ends: the same
/// for all loops that visit the same slots and bytes.
fn joined(loops: impl Iterator<Item = (u64, i64, i64)>) -> SmallVec<[(u64, i64, i64); 4]> {
    let mut sorted: SmallVec<[(u64, i64, i64); 4]> = loops.filter(|l| l.0 != 1).collect();
    sorted.sort_by_key(|&(_, slots, _)| std::cmp::Reverse(slots));
    let mut out: SmallVec<[(u64, i64, i64); 4]> = SmallVec::new();
    for (n, slots, bytes) in sorted {
        let whole = |step: i64| step.checked_mul(n as i64);
        match out.last_mut() {
            Some(outer) if Some(outer.1) == whole(slots) && Some(outer.2) == whole(bytes) => {
                *outer = (outer.0.saturating_mul(n), slots, bytes);
            }
            _ => out.push((n, slots, bytes)),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Plan;
    use crate::plan::ir::{Nest, Schedule};
    use crate::{DType, Descriptor, Options, Placement, Tensor};
    use proptest::prelude::*;

    const TILES: &str = "ttnn(dtype=bfloat8_b, layout=TILE, tile=(2, 16))";
    const ROWS: &str = "memref<2x16xf32>";

    fn tile() -> TileShape {
        TileShape::new(2, 16).unwrap()
    }

    /// A part from a slot on, repeated by loops: how often, how many slots and how many bytes apart.
    fn part(slot: i64, loops: &[(u64, i64, i64)]) -> Gather {
        let step = |slots, bytes| [0, bytes, 0, 0, 0, slots];
        let loops = loops.iter().map(|&(n, slots, bytes)| Loop { n, step: step(slots, bytes) }).collect();
        Gather { src: [0; 3], moves: vec![], slot, loops }
    }

    fn plan(from: &str, to: &str) -> (Plan, Layout) {
        let tensor = ROWS.parse::<Descriptor>().unwrap().tensor().unwrap();
        let [from, to] = [from, to]
            .map(|text| text.parse::<Descriptor>().unwrap().layout(&tensor, &Placement::default()).unwrap());
        (Plan::compile(&from, &to, &Options::default()).unwrap(), to)
    }

    #[test]
    fn parts_end_where_their_tile_does() {
        let fits = |parts: &[Gather]| apart(parts, TileShape::DEFAULT).is_ok();
        let run = |slot, n| part(slot, &[(n, 1, 0)]);
        assert!(fits(&[run(0, 1024)]) && fits(&[part(1023, &[])]) && fits(&[part(1023, &[(1024, -1, 0)])]));
        assert!(!fits(&[run(0, 1025)]) && !fits(&[run(1, 1024)]) && !fits(&[run(-1, 1024)]));
        assert!(!fits(&[part(1024, &[])]) && !fits(&[part(-1, &[])]) && !fits(&[run(0, 0)]));
        assert!(fits(&[run(0, 100), run(100, 924)]));
        assert!(!fits(&[run(0, 101), run(100, 924)]) && !fits(&[run(0, 100), run(100, 925)]));
        assert!(!fits(&[run(0, 100), run(99, 1)]) && fits(&[run(0, 100), run(163, 1), run(100, 63)]));
        for hostile in [part(i64::MAX, &[]), part(0, &[(2, i64::MAX, 0)]), part(i64::MIN, &[(2, -1, 0)])] {
            assert!(!fits(&[hostile.clone(), run(0, 1)]) && !fits(&[hostile]));
        }
        for leaves in [3, 4] {
            let mut part = run(0, 2);
            part.loops[0].step[leaves] = 1;
            assert!(!fits(&[part]), "a step of its own in the destination");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

        /// Each slot at most once, and none outside.
        #[test]
        fn parts_are_apart_as_a_table_of_slots_says(
            parts in prop::collection::vec((-2..33_i64, prop::collection::vec((0..6_u64, -3..18_i64), 0..3)), 1..4),
        ) {
            let mut taken = [0; 32];
            let mut right = true;
            for (slot, loops) in &parts {
                let slots = loops.iter().fold(vec![*slot], |slots, &(n, step)| {
                    slots.iter().flat_map(|&s| (0..n as i64).map(move |k| s + k * step)).collect()
                });
                right &= !slots.is_empty();
                for slot in slots {
                    match usize::try_from(slot).ok().and_then(|slot| taken.get_mut(slot)) {
                        Some(times) => *times += 1,
                        None => right = false,
                    }
                }
            }
            right &= taken.iter().all(|&times| times <= 1);
            let parts: Vec<Gather> = parts
                .iter()
                .map(|(slot, loops)| part(*slot, &loops.iter().map(|&(n, s)| (n, s, 0)).collect::<Vec<_>>()))
                .collect();
            prop_assert_eq!(apart(&parts, tile()).is_ok(), right);
        }
    }

    #[test]
    fn a_tile_is_read_in_place_as_its_part_says() {
        let (plan, _) = plan(ROWS, TILES);
        let reads = |[rows, cols]: [usize; 2], [src_row, src_col]: [isize; 2], parts: &[Gather]| {
            reads_as(InPlace { rows, cols, src_row, src_col, faces: None }, parts, tile(), plan.conversion())
        };
        let whole = [part(0, &[(2, 16, 100), (16, 1, 4)])];
        assert!(reads([2, 16], [100, 4], &whole));
        assert!(reads([2, 16], [100, 4], &[part(0, &[(16, 1, 4), (2, 16, 100)])]), "in any order");
        assert!(reads([2, 16], [64, 4], &[part(0, &[(32, 1, 4)])]), "rows that follow one another");
        assert!(reads([1, 5], [-9, 4], &[part(0, &[(5, 1, 4)])]), "no step of one row");
        assert!(reads([2, 5], [64, 4], &[part(0, &[(2, 16, 64), (5, 1, 4)])]));
        assert!(reads([2, 1], [64, 4], &[part(0, &[(2, 16, 64)])]));
        assert!(!reads([2, 16], [100, 8], &whole) && !reads([2, 16], [96, 4], &whole));
        assert!(!reads([1, 16], [100, 4], &whole) && !reads([2, 15], [100, 4], &whole));
        assert!(
            !reads([2, 16], [100, 4], &[whole[0].clone(), part(0, &[])]) && !reads([2, 16], [100, 4], &[])
        );
        assert!(!reads([2, 16], [64, 4], &[part(0, &[(32, 1, 8)])]), "other bytes");
        assert!(!reads([1, 5], [0, 4], &[part(1, &[(5, 1, 4)])]), "from another slot on");
        assert!(!reads([1, 17], [0, 4], &[part(0, &[(17, 1, 4)])]), "more columns than a tile has");
        assert!(!reads([3, 1], [64, 4], &[part(0, &[(3, 16, 64)])]), "more rows");
        assert!(!reads([0, 0], [64, 4], &[part(0, &[(0, 16, 64), (0, 1, 4)])]), "nothing");
        let mut units = whole;
        units[0].loops[0].step[0] = 1;
        assert!(!reads([2, 16], [100, 4], &units), "from unit to unit");
    }

    #[test]
    fn faces_are_read_in_place_as_their_part_says() {
        let (plan, _) = plan(ROWS, TILES);
        let reads = |shape: TileShape, src_row, faces: [isize; 2], loops: &[(u64, i64, i64)]| {
            let (rows, cols) = (shape.rows(), shape.cols());
            let tile = InPlace { rows, cols, src_row, src_col: 4, faces: Some(faces) };
            reads_as(tile, &[part(0, loops)], shape, plan.conversion())
        };
        let whole = [(2, 512, 2048), (16, 32, 64), (2, 16, 1024), (16, 1, 4)];
        let shape = TileShape::DEFAULT;
        assert!(reads(shape, 64, [2048, 1024], &whole));
        assert!(!reads(shape, 64, [2044, 1024], &whole) && !reads(shape, 64, [2048, 1028], &whole));
        assert!(!reads(shape, 60, [2048, 1024], &whole) && !reads(shape, 64, [2048, 1024], &whole[1..]));
        let rows = [(32, 32, 128), (32, 1, 4)];
        assert!(reads(shape, 128, [2048, 64], &rows), "rows are faces too");
        assert!(!reads(shape, 128, [2048, 128], &rows));
        // Of two rows: a face above another one has no place.
        let low = [(2, 32, 64), (2, 16, 128), (16, 1, 4)];
        assert!(reads(TileShape::new(2, 32).unwrap(), 64, [7, 128], &low));
        let part_of_it = InPlace { rows: 1, cols: 32, src_row: 64, src_col: 4, faces: Some([0, 128]) };
        let one_row = [part(0, &[(2, 16, 128), (16, 1, 4)])];
        assert!(!reads_as(part_of_it, &one_row, TileShape::new(2, 32).unwrap(), plan.conversion()));
    }

    #[test]
    fn a_tile_of_a_tile_is_never_read_in_place() {
        let (plan, _) = plan(TILES, "ttnn(dtype=bfloat4_b, layout=TILE, tile=(1, 16))");
        let tile = InPlace { rows: 1, cols: 16, src_row: 0, src_col: 4, faces: None };
        let shape = TileShape::new(1, 16).unwrap();
        assert!(!reads_as(tile, &[part(0, &[(16, 1, 4)])], shape, plan.conversion()));
    }

    /// A plan of matrices of these sizes.
    fn plan_of(shape: [u64; 2], from: &str, to: &str) -> Plan {
        let tensor = Tensor { shape: shape.to_vec(), dtype: DType::F32 };
        let [from, to] = [from, to]
            .map(|text| text.parse::<Descriptor>().unwrap().layout(&tensor, &Placement::default()).unwrap());
        Plan::compile(&from, &to, &Options::default()).unwrap()
    }

    #[test]
    fn blocks_of_codes_are_read_in_place_as_their_part_says() {
        let to = "ttnn(dtype=bfloat8_b, layout=TILE, tile=(2, 32))";
        let plans = ["mxfp8_e4m3", "mxfp4"].map(|f| plan_of([2, 64], &format!("memref<2x64x{f}>"), to));
        let shape = TileShape::new(2, 32).unwrap();
        let step = |byte, from, to| [0, byte, from, 0, 0, to];
        let right = Gather {
            src: [0, 33, 0],
            moves: vec![[0, 33, 0]],
            slot: 0,
            loops: vec![Loop { n: 2, step: step(66, 0, 32) }, Loop { n: 32, step: step(0, 1, 1) }],
        };
        let place = InPlace { rows: 2, cols: 32, src_row: 66, src_col: 1, faces: None };
        let reads = |place: InPlace, part: &Gather| {
            reads_as(place, std::slice::from_ref(part), shape, plans[0].conversion())
        };
        assert!(reads(place, &right));
        let half = reads_as(place, std::slice::from_ref(&right), shape, plans[1].conversion());
        assert!(!half, "codes of half a byte");
        assert!(!reads(InPlace { src_row: 33, ..place }, &right), "other rows");
        assert!(!reads(InPlace { src_col: 2, ..place }, &right), "other columns");
        assert!(!reads(InPlace { faces: Some([0, 16]), ..place }, &right), "faces");
        assert!(!reads(InPlace { rows: 1, ..place }, &right), "a part of a tile");
        let changed = |change: &dyn Fn(&mut Gather)| {
            let mut part = right.clone();
            change(&mut part);
            reads(place, &part)
        };
        assert!(changed(&|part| part.src[1] = 0), "another block");
        assert!(changed(&|part| part.loops.swap(0, 1)), "in any order");
        assert!(!changed(&|part| part.src[2] = 1), "from another slot on");
        assert!(!changed(&|part| part.slot = 1), "to another slot");
        assert!(!changed(&|part| part.moves[0][2] = 16), "half of a block further");
        assert!(!changed(&|part| part.moves[0][0] = 1), "from unit to unit");
        assert!(!changed(&|part| part.loops[0].step[2] = 1), "along a row and across blocks");
        assert!(!changed(&|part| part.loops[1].step = step(1, 0, 1)), "columns in blocks of their own");
        assert!(!changed(&|part| part.loops[1].n = 16), "half of a block");
        assert!(!changed(&|part| part.loops[0].n = 1) && !changed(&|part| part.loops.truncate(1)));
    }

    #[test]
    fn rows_of_tiles_of_codes_are_read_in_place_as_their_part_says() {
        let plan = plan_of([32, 64], "ttnn(dtype=bfloat8_b, layout=TILE)", "memref<32x64xmxfp8_e4m3>");
        let shape = TileShape::new(1, 32).unwrap();
        let right = Gather {
            src: [0, 1088, 96],
            moves: vec![[0, 0, 32], [0, 1088, 0]],
            slot: 0,
            loops: vec![Loop { n: 32, step: [0, 0, 1, 0, 0, 1] }],
        };
        let place = InPlace { rows: 1, cols: 32, src_row: 0, src_col: 1, faces: Some([0, 256]) };
        let reads = |place: InPlace, part: &Gather| {
            reads_as(place, std::slice::from_ref(part), shape, plan.conversion())
        };
        assert!(reads(place, &right));
        assert!(!reads(InPlace { faces: None, ..place }, &right), "one run");
        assert!(!reads(InPlace { faces: Some([0, 16]), ..place }, &right), "another face");
        assert!(!reads(InPlace { cols: 16, ..place }, &right), "half of a row");
        let changed = |change: &dyn Fn(&mut Gather)| {
            let mut part = right.clone();
            change(&mut part);
            reads(place, &part)
        };
        assert!(!changed(&|part| part.src[2] = 16) && !changed(&|part| part.moves[0][2] = 16), "half rows");
        assert!(!changed(&|part| part.loops[0].step[2] = 32), "down a column");
    }

    #[test]
    fn leaves_are_those_that_the_conversion_has() {
        let nest = |byte, leaf, in_place| {
            let schedule = Schedule { in_place, ..Schedule::new(&[]) };
            Nest { at: [0, 0, 0, 0, byte, 0], loops: vec![], leaf, schedule }
        };
        let pack = || Leaf::Pack(vec![part(0, &[(2, 16, 64), (16, 1, 4)])]);
        let (tiles, rows) = (plan(ROWS, TILES), plan(ROWS, "memref<2x16xf32, strided<[1, 2]>>"));
        let kept = |(plan, layout): &(Plan, Layout), nest: &ScheduledNest| {
            keep(nest, plan.conversion(), layout).is_ok()
        };
        assert!(kept(&tiles, &nest(0, Leaf::Fill, None)) && !kept(&tiles, &nest(0, Leaf::Element, None)));
        assert!(kept(&rows, &nest(0, Leaf::Fill, None)) && kept(&rows, &nest(0, Leaf::Element, None)));
        assert!(kept(&tiles, &nest(0, pack(), None)) && !kept(&rows, &nest(0, pack(), None)));
        let place = |src_row| Some(InPlace { rows: 2, cols: 16, src_row, src_col: 4, faces: None });
        assert!(kept(&tiles, &nest(0, pack(), place(64))) && !kept(&tiles, &nest(0, pack(), place(60))));
        let block = tiles.1.block_bytes() as i64;
        assert!(kept(&tiles, &nest(block, Leaf::Fill, None)) && !kept(&tiles, &nest(1, Leaf::Fill, None)));
        let apart = |bytes| {
            let mut nest = nest(0, Leaf::Fill, None);
            nest.loops.push(Loop { n: 2, step: [0, 0, 0, 0, bytes, 0] });
            nest
        };
        assert!(kept(&tiles, &apart(2 * block)) && !kept(&tiles, &apart(block + 1)));
    }
}
