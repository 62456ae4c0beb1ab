//! Row-major numbers and indices.

/// The row-major number of an index, counted over `dims` only.
pub(crate) fn ravel(index: &[u64], dims: &[usize], shape: &[u64]) -> u64 {
    dims.iter().fold(0, |u, &d| u * shape[d] + index[d])
}

/// Sets `dims` of an index to the row-major number `u` over them, which must be below the product of their sizes.
pub(crate) fn unravel(mut u: u64, dims: &[usize], shape: &[u64], index: &mut [u64]) {
    for &d in dims.iter().rev() {
        index[d] = u % shape[d];
        u /= shape[d];
    }
}

/// The index whose row-major number over all dimensions is `n`. No size is 0.
pub(crate) fn index_of(mut n: u64, shape: &[u64]) -> Vec<u64> {
    let mut index = vec![0; shape.len()];
    for (i, size) in index.iter_mut().zip(shape).rev() {
        (*i, n) = (n % size, n / size);
    }
    index
}

/// The row-major number of an index over all dimensions.
pub(crate) fn number_of(index: &[u64], shape: &[u64]) -> u64 {
    index.iter().zip(shape).fold(0, |n, (i, size)| n * size + i)
}

/// Those of some dimensions that have more than one index.
pub(crate) fn wide(dims: &[usize], shape: &[u64]) -> impl DoubleEndedIterator<Item = usize> + Clone {
    dims.iter().copied().filter(|&d| shape[d] > 1)
}

/// Dimensions in groups: two that stand in one of the given lists are in one group. Groups and their dimensions
/// ascend; a dimension of no list is left out.
pub(crate) fn connected<L: IntoIterator<Item = usize> + Clone>(
    dims: usize,
    lists: impl IntoIterator<Item = L>,
) -> Vec<Vec<usize>> {
    let mut group: Vec<Option<usize>> = vec![None; dims];
    for list in lists {
        // All groups that the list touches become the one of its first dimension.
        let first = list.clone().into_iter().next();
        for d in list {
            match group[d] {
                Some(old) => group.iter_mut().filter(|g| **g == Some(old)).for_each(|g| *g = first),
                None => group[d] = first,
            }
        }
    }
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for d in (0..dims).filter(|&d| group[d].is_some()) {
        match groups.iter_mut().find(|members| group[members[0]] == group[d]) {
            Some(members) => members.push(d),
            None => groups.push(vec![d]),
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_indices_are_each_others_inverse() {
        let (shape, dims) = ([2, 3, 1, 5], [0, 1, 3]);
        let mut index = [0; 4];
        for u in 0..30 {
            unravel(u, &dims, &shape, &mut index);
            assert_eq!(ravel(&index, &dims, &shape), u);
        }
        assert_eq!(index, [1, 2, 0, 4]);
        for n in 0..30 {
            unravel(n, &[0, 1, 2, 3], &shape, &mut index);
            assert_eq!((index_of(n, &shape), number_of(&index, &shape)), (index.to_vec(), n));
        }
    }

    #[test]
    fn lists_that_share_a_dimension_are_one_group() {
        let groups = |lists: &[&[usize]]| connected(5, lists.iter().map(|l| l.to_vec()));
        assert_eq!(groups(&[&[0], &[3, 1], &[2]]), [vec![0], vec![1, 3], vec![2]]);
        assert_eq!(groups(&[&[2, 3], &[0, 1], &[1, 2]]), [[0, 1, 2, 3]]);
        assert_eq!(groups(&[]), Vec::<Vec<usize>>::new());
    }
}
