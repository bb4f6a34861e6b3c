//! Patterns of names as the shell knows them: `*`, `?`, `[a-z]`, `[!a-z]`.

/// Whether a name matches a pattern, from end to end.
pub fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
    let (mut p, mut n) = (0, 0);
    // Where to try again: behind the last star, with one more character given to it.
    let mut retry: Option<(usize, usize)> = None;
    while n < name.len() {
        if pattern.get(p) == Some(&'*') {
            retry = Some((p + 1, n));
            p += 1;
            continue;
        }
        match one(&pattern[p..], name[n]) {
            Some(used) => (p, n) = (p + used, n + 1),
            None => match retry {
                Some((behind, at)) => {
                    retry = Some((behind, at + 1));
                    (p, n) = (behind, at + 1);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|rest| *rest == '*')
}

/// Whether text is a pattern rather than a name.
pub fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?', '['])
}

/// How much of the pattern stands for this one character, if it does.
fn one(pattern: &[char], character: char) -> Option<usize> {
    match pattern.first()? {
        '?' => Some(1),
        '[' => match class(pattern) {
            Some((members, negated, used)) => (contains(members, character) != negated).then_some(used),
            None => (character == '[').then_some(1),
        },
        literal => (*literal == character).then_some(1),
    }
}

/// The members of a class, whether it is negated, and its length with brackets. A bracket that is never closed is a
/// character.
fn class(pattern: &[char]) -> Option<(&[char], bool, usize)> {
    let negated = matches!(pattern.get(1), Some('!' | '^'));
    let start = if negated { 2 } else { 1 };
    // A bracket right at the start is a member.
    let close = pattern.iter().skip(start + 1).position(|character| *character == ']')? + start + 1;
    Some((&pattern[start..close], negated, close + 1))
}

fn contains(members: &[char], character: char) -> bool {
    let mut at = 0;
    while at < members.len() {
        if members.get(at + 1) == Some(&'-') && at + 2 < members.len() {
            if (members[at]..=members[at + 2]).contains(&character) {
                return true;
            }
            at += 3;
        } else {
            if members[at] == character {
                return true;
            }
            at += 1;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::matches;

    /// DV-3
    #[test]
    fn patterns_mean_what_they_mean_to_a_shell() {
        #[rustfmt::skip]
        let cases = [
            ("vfs_read",    "vfs_read",     true),
            ("vfs_read",    "vfs_reads",    false),
            ("vfs_*",       "vfs_read",     true),
            ("*read",       "vfs_read",     true),
            ("*_*d",        "vfs_read",     true),
            ("*x*",         "vfs_read",     false),
            ("vfs_?ead",    "vfs_read",     true),
            ("vfs_?read",   "vfs_read",     false),
            ("vfs_[a-r]*",  "vfs_read",     true),
            ("vfs_[!a-r]*", "vfs_read",     false),
            ("[]x]y",       "]y",           true),
            ("a[b",         "a[b",          true),
            ("*",           "",             true),
            ("",            "",             true),
            ("",            "a",            false),
            ("*a*a*a*b",    "aaaaaaaaaaaa", false),
        ];
        for (pattern, name, expected) in cases {
            assert_eq!(matches(pattern, name), expected, "{pattern} and {name}");
        }
    }
}
