//! Cells of one kind joined to rectangles, and the borders between kinds: what keeps an SVG small.

/// A rectangle of cells: `rows` and `cols` from `row` and `col` on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Region<K> {
    pub(crate) row: usize,
    pub(crate) col: usize,
    pub(crate) rows: usize,
    pub(crate) cols: usize,
    pub(crate) kind: K,
}

/// The rectangles of equal cells: runs of a row, joined with equal runs of the rows below.
pub(crate) fn regions<K: PartialEq + Copy>(
    rows: usize,
    cols: usize,
    kind: impl Fn(usize, usize) -> K,
) -> Vec<Region<K>> {
    let mut done: Vec<Region<K>> = Vec::new();
    let mut open: Vec<Region<K>> = Vec::new();
    for row in 0..rows {
        let mut runs: Vec<Region<K>> = Vec::new();
        for col in 0..cols {
            let kind = kind(row, col);
            match runs.last_mut() {
                Some(run) if run.kind == kind => run.cols += 1,
                _ => runs.push(Region { row, col, rows: 1, cols: 1, kind }),
            }
        }
        for run in &mut runs {
            let same = |o: &Region<K>| (o.col, o.cols) == (run.col, run.cols) && o.kind == run.kind;
            if let Some(k) = open.iter().position(same) {
                let above = open.swap_remove(k);
                *run = Region { rows: above.rows + 1, ..above };
            }
        }
        done.append(&mut open);
        open = runs;
    }
    done.append(&mut open);
    done.sort_by_key(|r| (r.row, r.col));
    done
}

/// The borders between cells of different kinds, the edge of the panel left out, as lines from `(row, col)` to
/// `(row, col)`: corners, counted in cells.
pub(crate) fn borders<K: PartialEq>(
    rows: usize,
    cols: usize,
    kind: impl Fn(usize, usize) -> K,
) -> Vec<[usize; 4]> {
    let mut lines: Vec<[usize; 4]> = Vec::new();
    let mut add = |line: [usize; 4], previous: &mut Option<usize>| {
        // Goes on where the line before ended.
        if let Some(last) = previous.map(|k| &mut lines[k])
            && (last[2], last[3]) == (line[0], line[1])
        {
            (last[2], last[3]) = (line[2], line[3]);
            return;
        }
        lines.push(line);
        *previous = Some(lines.len() - 1);
    };
    for row in 1..rows {
        let mut previous = None;
        for col in (0..cols).filter(|&col| kind(row - 1, col) != kind(row, col)) {
            add([row, col, row, col + 1], &mut previous);
        }
    }
    for col in 1..cols {
        let mut previous = None;
        for row in (0..rows).filter(|&row| kind(row, col - 1) != kind(row, col)) {
            add([row, col, row + 1, col], &mut previous);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rectangles_cover_every_cell_once_with_its_kind() {
        for (rows, cols, seed) in [(1, 1, 1), (5, 7, 3), (8, 8, 2), (9, 4, 5), (0, 3, 1)] {
            let kind = |r: usize, c: usize| (r / seed + 2 * (c / 3)) * seed % 4;
            let mut seen = vec![0; rows * cols];
            for region in regions(rows, cols, kind) {
                for row in region.row..region.row + region.rows {
                    for col in region.col..region.col + region.cols {
                        assert_eq!(region.kind, kind(row, col));
                        seen[row * cols + col] += 1;
                    }
                }
            }
            assert!(seen.iter().all(|&n| n == 1), "{rows}x{cols}: {seen:?}");
        }
    }

    #[test]
    fn borders_stand_where_kinds_differ_and_nowhere_else() {
        let kind = |r: usize, c: usize| (r / 2) * 10 + c / 3;
        let lines = borders(4, 6, kind);
        assert_eq!(lines, [[2, 0, 2, 6], [0, 3, 4, 3]]);
        assert!(borders(4, 6, |_, _| 0).is_empty());
    }
}
