//! Sorting that puts equal elements into the same order as the kernel's heap sort does, so that a histogram's text is
//! the guest's to the line.

use core::cmp::Ordering;

/// Sorts by a bottom-up heap sort. Elements that compare equal get the order that Linux gives them.
pub(super) fn heap_sort<T>(all: &mut [T], compare: impl Fn(&T, &T) -> Ordering) {
    for root in (0..all.len() / 2).rev() {
        sift(all, root, &compare);
    }
    for end in (1..all.len()).rev() {
        all.swap(0, end);
        if let Some(heap) = all.get_mut(..end) {
            sift(heap, 0, &compare);
        }
    }
}

/// Restores the heap below `root` (bottom-up heapsort): follows the path of the larger children to a leaf, then moves
/// the element at `root` to its place on that path.
fn sift<T>(heap: &mut [T], root: usize, compare: &impl Fn(&T, &T) -> Ordering) {
    let is_at_least = |one: usize, other: usize| match (heap.get(one), heap.get(other)) {
        (Some(one), Some(other)) => compare(one, other).is_ge(),
        _ => false,
    };
    let mut leaf = root;
    loop {
        let (left, right) = (2 * leaf + 1, 2 * leaf + 2);
        if right < heap.len() {
            leaf = if is_at_least(left, right) { left } else { right };
        } else {
            if right == heap.len() {
                leaf = left;
            }
            break;
        }
    }
    while leaf != root && is_at_least(root, leaf) {
        leaf = (leaf - 1) / 2;
    }
    // The path from the root to that place moves up by one, and the root takes the place.
    let place = leaf;
    while leaf != root {
        leaf = (leaf - 1) / 2;
        heap.swap(leaf, place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    proptest! {
        /// DV-4
        #[test]
        fn a_heap_sort_sorts(numbers in prop::collection::vec(any::<u8>(), 0..200)) {
            let (mut sorted, mut expected) = (numbers.clone(), numbers);
            heap_sort(&mut sorted, Ord::cmp);
            expected.sort_unstable();
            prop_assert_eq!(sorted, expected);
        }
    }

    /// DV-4: the order of equal elements is the one that Linux 6.1's sort() leaves, as guests have shown it.
    #[test]
    fn equal_elements_get_the_order_of_the_kernel() {
        let order = |count: usize| {
            let mut all: Vec<usize> = (0..count).collect();
            heap_sort(&mut all, |_, _| Ordering::Equal);
            all
        };
        assert_eq!(order(2), [1, 0]);
        assert_eq!(order(3), [1, 2, 0]);
        assert_eq!(order(4), [1, 2, 3, 0]);
        assert_eq!(order(9), [1, 2, 3, 4, 5, 6, 7, 8, 0]);
    }
}
