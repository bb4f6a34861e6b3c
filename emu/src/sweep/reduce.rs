//! Delta debugging: reduces a set of probes to a smallest one whose run still differs.

/// A reduced set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reduced<T> {
    /// The set. No part of it that was tried differs alone.
    pub set: Vec<T>,
    /// The number of runs that it took.
    pub runs: u32,
    /// Whether no element can be left out. False if there were not enough runs.
    pub is_least: bool,
}

/// Reduces a set that differs. `differs` runs a part of it. At most `most` runs are made.
pub fn reduce<T: Clone, E>(set: &[T], most: u32, differs: &mut dyn FnMut(&[T]) -> Result<bool, E>) -> Result<Reduced<T>, E> {
    let mut set = set.to_vec();
    let (mut runs, mut parts) = (0, 2);
    while set.len() > 1 {
        let size = set.len().div_ceil(parts);
        let pieces: Vec<Vec<T>> = set.chunks(size).map(<[T]>::to_vec).collect();
        let without = |piece: usize| {
            let others = pieces.iter().enumerate().filter(|(number, _)| *number != piece);
            others.flat_map(|(_, piece)| piece.iter().cloned()).collect::<Vec<T>>()
        };
        // With two pieces, leaving one out tests the other, which was tested already.
        let complements = if pieces.len() > 2 { (0..pieces.len()).map(without).collect() } else { Vec::new() };
        let mut smaller = None;
        for (number, candidate) in pieces.iter().chain(&complements).enumerate() {
            if runs >= most {
                return Ok(Reduced { set, runs, is_least: false });
            }
            runs += 1;
            if differs(candidate)? {
                smaller = Some((candidate.clone(), number < pieces.len()));
                break;
            }
        }
        match smaller {
            Some((candidate, true)) => (set, parts) = (candidate, 2),
            Some((candidate, false)) => (set, parts) = (candidate, (parts - 1).max(2)),
            None if size == 1 => break,
            None => parts = (parts * 2).min(set.len()),
        }
    }
    Ok(Reduced { set, runs, is_least: true })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reduced(of: u32, causes: &[u32], most: u32) -> Reduced<u32> {
        let set: Vec<u32> = (0..of).collect();
        let mut differs = |part: &[u32]| -> Result<bool, String> { Ok(causes.iter().all(|cause| part.contains(cause))) };
        reduce(&set, most, &mut differs).expect("no run fails")
    }

    /// SW-4: one cause is found with a logarithm of runs, and several together, too.
    #[test]
    fn a_set_is_reduced_to_its_causes() {
        for (of, causes) in
            [(1, &[0][..]), (2, &[1]), (1000, &[0]), (1000, &[999]), (1000, &[511]), (64, &[3, 60]), (90, &[7, 8, 80])]
        {
            let found = reduced(of, causes, 1000);
            assert_eq!((&found.set[..], found.is_least), (causes, true), "{of}");
            if causes.len() == 1 {
                assert!(found.runs <= 20, "{of}: {} runs", found.runs);
            }
        }
    }

    /// SW-4
    #[test]
    fn the_number_of_runs_is_bounded() {
        let found = reduced(1000, &[3, 500, 998], 5);
        assert_eq!((found.runs, found.is_least), (5, false));
        assert!([3, 500, 998].iter().all(|cause| found.set.contains(cause)));
    }
}
