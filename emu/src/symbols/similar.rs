//! Names that were perhaps meant: by the number of slips of the keyboard between two names.

/// At most so many are offered.
const MOST: usize = 3;

/// The names nearest to this one, the nearest first; none when all are too far.
pub fn nearest<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let wanted = name.as_bytes();
    // A third of the letters may be wrong, or the rest of a long word missing.
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

/// Letters inserted, dropped, replaced or swapped with their neighbour, if no more than `most`.
fn slips(wanted: &[u8], given: &[u8], most: usize) -> Option<usize> {
    if given.len().abs_diff(wanted.len()) > most {
        return None;
    }
    let mut before_last = vec![0; given.len() + 1];
    let mut last: Vec<usize> = (0..=given.len()).collect();
    for (i, letter) in wanted.iter().enumerate() {
        let mut row = vec![i + 1; given.len() + 1];
        for (j, other) in given.iter().enumerate() {
            let replaced = last[j] + usize::from(letter != other);
            row[j + 1] = replaced.min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *letter == given[j - 1] && wanted[i - 1] == *other {
                row[j + 1] = row[j + 1].min(before_last[j - 1] + 1);
            }
        }
        if row.iter().all(|distance| *distance > most) {
            return None;
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last.last().copied().filter(|distance| *distance <= most)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    /// KP-4: the answer to a name that no symbol has names the likely ones.
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
