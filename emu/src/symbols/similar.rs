//! Finds similar names, by the number of typing errors between two names.

/// Limit for the number of names returned.
const MOST: usize = 3;

/// The names nearest to this one, the nearest first; empty if all are too far.
pub fn nearest<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let wanted = name.as_bytes();
    // A third of the letters may be wrong, or the rest of a long word may be missing.
    let most = (wanted.len() / 3).clamp(1, 4);
    let mut found: Vec<(usize, &str)> = Vec::new();
    for candidate in names {
        let distance = match slips(wanted, candidate.as_bytes(), most) {
            Some(distance) => distance,
            None if wanted.len() >= 4 && candidate.contains(name) => most + candidate.len() - name.len(),
            None => continue,
        };
        found.push((distance, candidate));
    }
    found.sort_unstable();
    found.dedup();
    found.into_iter().take(MOST).map(|(_, name)| name.to_string()).collect()
}

/// The number of letters inserted, dropped, replaced or swapped with their neighbour, if at most `most`. Only a band of
/// the table of distances is computed, `most` to each side of the diagonal: the rest cannot lead to such a number.
fn slips(wanted: &[u8], given: &[u8], most: usize) -> Option<usize> {
    if given.len().abs_diff(wanted.len()) > most {
        return None;
    }
    let far = most + 1;
    let mut before_last = vec![far; given.len() + 1];
    let mut last: Vec<usize> = (0..=given.len()).map(|distance| distance.min(far)).collect();
    let mut row = vec![far; given.len() + 1];
    for (i, letter) in wanted.iter().enumerate() {
        let band = (i + 1).saturating_sub(most)..(i + 2 + most).min(given.len() + 1);
        let mut least = far;
        for j in band.clone() {
            let distance = match j.checked_sub(1) {
                None => i + 1,
                Some(other) => {
                    let left = if other >= band.start { row[other] } else { far };
                    let swapped = i > 0 && other > 0 && *letter == given[other - 1] && wanted[i - 1] == given[other];
                    let swapped = if swapped { before_last[j - 2] + 1 } else { far };
                    let replaced = last[other] + usize::from(*letter != given[other]);
                    replaced.min(last[j] + 1).min(left + 1).min(swapped)
                }
            };
            row[j] = distance.min(far);
            least = least.min(distance);
        }
        if least > most {
            return None;
        }
        // The next row reads the entry beside this row's band.
        if let Some(beside) = row.get_mut(band.end) {
            *beside = far;
        }
        std::mem::swap(&mut before_last, &mut last);
        std::mem::swap(&mut last, &mut row);
    }
    last.last().copied().filter(|distance| *distance <= most)
}

#[cfg(test)]
mod tests {
    use super::{nearest, slips};
    use proptest::prelude::*;

    /// The edit distance, computed from every entry of the table.
    fn slips_by_the_whole_table(wanted: &[u8], given: &[u8], most: usize) -> Option<usize> {
        let mut table = vec![vec![0; given.len() + 1]; wanted.len() + 1];
        for i in 0..=wanted.len() {
            for j in 0..=given.len() {
                table[i][j] = match (i, j) {
                    (0, other) | (other, 0) => other,
                    _ => {
                        let (letter, other) = (wanted[i - 1], given[j - 1]);
                        let mut least = table[i - 1][j - 1] + usize::from(letter != other);
                        least = least.min(table[i - 1][j] + 1).min(table[i][j - 1] + 1);
                        if i > 1 && j > 1 && letter == given[j - 2] && wanted[i - 2] == other {
                            least = least.min(table[i - 2][j - 2] + 1);
                        }
                        least
                    }
                };
            }
        }
        Some(table[wanted.len()][given.len()]).filter(|distance| *distance <= most)
    }

    proptest! {
        #[test]
        fn a_band_of_the_table_is_enough(
            wanted in proptest::collection::vec(0_u8..3, 0..14), given in proptest::collection::vec(0_u8..3, 0..14), most in 1_usize..5,
        ) {
            prop_assert_eq!(slips(&wanted, &given, most), slips_by_the_whole_table(&wanted, &given, most));
        }
    }

    /// KP-4: the answer to an unknown name lists similar ones.
    #[test]
    fn slips_of_the_keyboard_are_seen_through() {
        let names = ["vfs_read", "vfs_write", "vfs_readv", "do_fork", "schedule", "ksys_read"];
        #[rustfmt::skip]
        let cases: [(&str, &[&str]); 6] = [
            ("vfs_raed",    &["vfs_read", "vfs_readv"]),
            ("vfs_rea",     &["vfs_read", "vfs_readv"]),
            ("scheduel",    &["schedule"]),
            ("fork",        &["do_fork"]),
            ("zzzzzzzz",    &[]),
            ("",            &[]),
        ];
        for (name, expected) in cases {
            assert_eq!(nearest(name, names.into_iter()), expected, "{name}");
        }
    }
}
