//! Loops over the slots of a tile, as what one call of the kernel that unpacks takes: a rectangle, or all faces.
//!
//! A slot is an element's number in its tile, row by row.

use kernels::{TileShape, UnpackArgs};

/// A loop: iterations, slots from one to the next, and bytes of the destination.
pub(super) type SlotLoop = (usize, isize, isize);

/// The call for the elements of loops that begin at a slot, if one call takes them: of one tile, to byte 0 and the bytes behind
/// it.
pub(super) fn unpacking(tile: TileShape, slot: usize, loops: &[SlotLoop]) -> Option<UnpackArgs> {
    let mut taken = [(1, 0, 0); 4];
    let mut count = 0;
    for l in loops.iter().filter(|l| l.0 > 1) {
        *taken.get_mut(count)? = *l;
        count += 1;
    }
    let args = UnpackArgs {
        tiles: 1,
        src_at: 0,
        src_tile: 0,
        row0: slot / tile.cols(),
        col0: slot % tile.cols(),
        rows: 1,
        cols: 1,
        dst_at: 0,
        dst_tile: 0,
        dst_row: 0,
        dst_col: 0,
        faces: None,
        prefetch_tiles: 0,
    };
    match taken[..count] {
        [a, b] => rectangle(tile, args, a, b).or_else(|| rectangle(tile, args, b, a)),
        [a] => rectangle(tile, args, (1, 0, 0), a)
            .or_else(|| rectangle(tile, args, a, (1, 0, 0)))
            .or_else(|| rows(tile, args, a)),
        [] => Some(args),
        _ => None,
    }
    .or_else(|| faces(tile, args, &taken[..count]))
}

/// Rows and columns of a tile.
fn rectangle(tile: TileShape, args: UnpackArgs, rows: SlotLoop, cols: SlotLoop) -> Option<UnpackArgs> {
    let along = |(n, slots, _): SlotLoop, by: usize| n == 1 || slots == by as isize;
    let inside = args.row0 + rows.0 <= tile.rows() && args.col0 + cols.0 <= tile.cols();
    (along(rows, tile.cols()) && along(cols, 1) && inside).then_some(UnpackArgs {
        rows: rows.0,
        cols: cols.0,
        dst_row: rows.2,
        dst_col: cols.2,
        ..args
    })
}

/// Whole rows of a tile that follow one another in the destination as they do in the tile, and are one loop.
fn rows(tile: TileShape, args: UnpackArgs, (n, slots, dst): SlotLoop) -> Option<UnpackArgs> {
    let rows = (n / tile.cols(), tile.cols() as isize, dst.wrapping_mul(tile.cols() as isize));
    let whole = slots == 1 && args.col0 == 0 && n.is_multiple_of(tile.cols());
    rectangle(tile, args, rows, (tile.cols(), 1, dst)).filter(|_| whole)
}

/// All faces of a tile.
fn faces(tile: TileShape, args: UnpackArgs, loops: &[SlotLoop]) -> Option<UnpackArgs> {
    let (tall, wide) = (tile.face_rows(), tile.face_cols());
    let step = |n: usize, slots: usize| match n {
        1 => Some(0),
        _ => loops.iter().find(|l| (l.0, l.1) == (n, slots as isize)).map(|l| l.2),
    };
    let (down, across) = (tile.rows() / tall, tile.cols() / wide);
    let all = [(wide, 1), (tall, tile.cols()), (across, wide), (down, tall * tile.cols())];
    let [dst_col, dst_row, beside, below] = all.map(|(n, slots)| step(n, slots));
    let count = all.iter().filter(|l| l.0 > 1).count();
    ((args.row0, args.col0, loops.len()) == (0, 0, count)).then_some(())?;
    Some(UnpackArgs {
        rows: tile.rows(),
        cols: tile.cols(),
        dst_row: dst_row?,
        dst_col: dst_col?,
        faces: Some([below?, beside?]),
        ..args
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(slot: usize, loops: &[SlotLoop]) -> Option<[usize; 4]> {
        unpacking(TileShape::DEFAULT, slot, loops).map(|a| [a.row0, a.col0, a.rows, a.cols])
    }

    #[test]
    fn rows_and_columns_are_a_rectangle() {
        assert_eq!(found(0, &[(32, 32, 100), (32, 1, 1)]), Some([0, 0, 32, 32]));
        assert_eq!(found(34, &[(3, 32, 100), (5, 1, 1)]), Some([1, 2, 3, 5]));
        // In any order, and with loops of one iteration between them.
        assert_eq!(found(34, &[(5, 1, 1), (1, 7, 7), (3, 32, 100)]), Some([1, 2, 3, 5]));
        assert_eq!(found(34, &[(3, 32, 100)]), Some([1, 2, 3, 1]));
        assert_eq!(found(34, &[]), Some([1, 2, 1, 1]));
        // Four rows that follow one another.
        let rows = unpacking(TileShape::DEFAULT, 64, &[(128, 1, 4)]).unwrap();
        assert_eq!((rows.row0, rows.rows, rows.cols, rows.dst_row, rows.dst_col), (2, 4, 32, 128, 4));
        // A run that passes the end of a row, every second column, and rows behind the last one.
        assert_eq!(found(30, &[(4, 1, 1)]), None);
        assert_eq!(found(0, &[(2, 32, 100), (4, 2, 1)]), None);
        assert_eq!(found(31 * 32, &[(2, 32, 100), (4, 1, 1)]), None);
        assert_eq!(found(31 * 32, &[(64, 1, 1)]), None);
    }

    #[test]
    fn all_faces_of_a_tile_are_one_call() {
        let loops = [(2, 512, 1024), (2, 16, 512), (16, 32, 32), (16, 1, 2)];
        let args = unpacking(TileShape::DEFAULT, 0, &loops).unwrap();
        assert_eq!((args.rows, args.cols, args.dst_row, args.dst_col), (32, 32, 32, 2));
        assert_eq!(args.faces, Some([1024, 512]));
        // From another slot on, two of the faces, other rows beside one, and a loop too many.
        assert_eq!(found(1, &loops), None);
        assert_eq!(found(0, &loops[1..]), None);
        assert_eq!(found(0, &[loops[0], (2, 8, 512), loops[2], loops[3]]), None);
        assert_eq!(found(0, &[loops[0], loops[1], loops[2], loops[3], (2, 0, 4096)]), None);
        // Two faces beside each other, of sixteen rows and of one.
        let wide = TileShape::new(16, 32).unwrap();
        assert_eq!(unpacking(wide, 0, &loops[1..]).unwrap().faces, Some([0, 512]));
        let row = TileShape::new(1, 32).unwrap();
        assert_eq!(unpacking(row, 0, &[loops[1], loops[3]]).unwrap().faces, Some([0, 512]));
    }
}
