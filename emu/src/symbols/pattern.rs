//! Patterns of names with the syntax of the shell: `*`, `?`, `[a-z]`, `[!a-z]`.

/// A longer name matches no pattern. Linux has no name of more than 511 bytes, and other kernels have few.
const LONGEST_NAME: usize = 4096;

/// A pattern, read once for many names.
#[derive(Clone, Debug)]
pub struct Pattern {
    parts: Vec<Part>,
    /// The minimum number of characters of a matching name.
    least: usize,
}

/// A part of a pattern.
#[derive(Clone, Debug)]
enum Part {
    /// Any number of any characters.
    Star,
    Any,
    Literal(char),
    /// Ranges of characters. If the flag is set, the class matches the characters outside of them.
    Class(Vec<(char, char)>, bool),
}

impl Pattern {
    /// Parses a pattern.
    pub fn new(text: &str) -> Pattern {
        let characters: Vec<char> = text.chars().collect();
        // A bracket that is never closed is a literal character.
        let last_close = characters.iter().rposition(|character| *character == ']').unwrap_or(0);
        let mut parts = Vec::new();
        let mut at = 0;
        while let Some(character) = characters.get(at) {
            let (part, used) = match character {
                '*' => (Part::Star, 1),
                '?' => (Part::Any, 1),
                '[' if at < last_close => class(&characters[at..]).unwrap_or((Part::Literal('['), 1)),
                literal => (Part::Literal(*literal), 1),
            };
            at += used;
            // Adjacent stars are equivalent to one.
            if !(matches!(part, Part::Star) && matches!(parts.last(), Some(Part::Star))) {
                parts.push(part);
            }
        }
        let least = parts.iter().filter(|part| !matches!(part, Part::Star)).count();
        Pattern { parts, least }
    }

    /// Whether a name matches, from end to end.
    pub fn matches(&self, name: &str) -> bool {
        self.compare(name).0
    }

    /// Like [`Pattern::matches`], with the number of steps: at most the name's number of characters, for each part.
    fn compare(&self, name: &str) -> (bool, u64) {
        if name.len() < self.least || name.len() > LONGEST_NAME {
            return (false, 1);
        }
        let mut steps = 0;
        let (mut part, mut rest) = (0, name.chars());
        // The state for another try: the part behind the last star, with one more character taken by the star.
        let mut retry: Option<(usize, std::str::Chars<'_>)> = None;
        loop {
            steps += 1;
            if matches!(self.parts.get(part), Some(Part::Star)) {
                part += 1;
                retry = Some((part, rest.clone()));
                continue;
            }
            let before = rest.clone();
            let Some(character) = rest.next() else { break };
            if self.parts.get(part).is_some_and(|part| part.stands_for(character)) {
                part += 1;
                continue;
            }
            let Some((behind, from)) = &mut retry else { return (false, steps) };
            // The rest of the name is too short for the rest of the pattern.
            if before.as_str().is_empty() || from.next().is_none() {
                return (false, steps);
            }
            (part, rest) = (*behind, from.clone());
        }
        (self.parts[part..].iter().all(|part| matches!(part, Part::Star)), steps)
    }
}

impl Part {
    fn stands_for(&self, character: char) -> bool {
        match self {
            Part::Star | Part::Any => true,
            Part::Literal(literal) => *literal == character,
            Part::Class(ranges, negated) => ranges.iter().any(|(first, last)| (*first..=*last).contains(&character)) != *negated,
        }
    }
}

/// Whether a name matches a pattern, from end to end.
pub fn matches(pattern: &str, name: &str) -> bool {
    Pattern::new(pattern).matches(name)
}

/// Whether text is a pattern rather than a name.
pub fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?', '['])
}

/// Parses a class; returns it and its length including brackets.
fn class(pattern: &[char]) -> Option<(Part, usize)> {
    let negated = matches!(pattern.get(1), Some('!' | '^'));
    let start = if negated { 2 } else { 1 };
    // A closing bracket at the start is a member.
    let close = pattern.iter().skip(start + 1).position(|character| *character == ']')? + start + 1;
    let members = &pattern[start..close];
    let mut ranges = Vec::new();
    let mut at = 0;
    while let Some(first) = members.get(at) {
        match members.get(at + 1..at + 3) {
            Some(['-', last]) => {
                ranges.push((*first, *last));
                at += 3;
            }
            _ => {
                ranges.push((*first, *first));
                at += 1;
            }
        }
    }
    // Equal ranges add nothing.
    ranges.sort_unstable();
    ranges.dedup();
    Some((Part::Class(ranges, negated), close + 1))
}

#[cfg(test)]
mod tests {
    use super::{Pattern, matches};

    /// DV-3, BY-1: a name of twice the length takes twice the steps, and a pattern of twice the length as well.
    #[test]
    fn a_comparison_takes_time_by_both_lengths() {
        type Make = fn(usize) -> String;
        let cases: [(&str, Make); 4] = [
            ("stars", |size| "*a".repeat(size) + "b"),
            ("stars behind stars", |size| "*".repeat(size) + "b"),
            ("a long end", |size| "*".to_string() + &"a".repeat(size) + "b"),
            ("brackets", |size| "[".repeat(size) + "b"),
        ];
        for (what, make) in cases {
            let steps = |pattern: usize, name: usize| Pattern::new(&make(pattern)).compare(&"a".repeat(name)).1;
            for (pattern, name) in [(10, 1000), (200, 1000), (1000, 2000)] {
                let (one, longer) = (steps(pattern, name), steps(pattern, 2 * name));
                assert!(longer <= 2 * one + 2 * pattern as u64 * name as u64, "{what}: {one}, {longer}");
                assert!(longer <= (pattern as u64 + 2) * (2 * name as u64 + 2), "{what}: {longer}");
            }
        }
        assert!(!matches("*", &"a".repeat(5000)), "no name is so long");
    }

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
