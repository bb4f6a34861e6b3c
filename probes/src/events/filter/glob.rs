//! Patterns of the operator `~`: `*`, `?`, `[a-z]`, `[!a]` and `\`.

/// Whether the text matches the pattern as a whole. The time is at most the product of both lengths.
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut from) = (0, 0);
    // A bracket behind the last `]` is not closed, so no search for its end is needed.
    let last_close = pattern.iter().rposition(|byte| *byte == b']').unwrap_or(0);
    // A mismatch continues here: behind the last `*`, one character further in the text.
    let mut retry: Option<(usize, usize)> = None;
    loop {
        let next = match (pattern.get(at), text.get(from)) {
            (None, None) => return true,
            (Some(b'*'), _) => {
                retry = Some((at + 1, from));
                at += 1;
                continue;
            }
            (Some(_), None) => return false,
            (None, Some(_)) => None,
            (Some(b'['), Some(letter)) if at >= last_close => (*letter == b'[').then_some(1),
            (Some(_), Some(letter)) => one(pattern.get(at..).unwrap_or_default(), *letter),
        };
        match (next, &mut retry) {
            (Some(length), _) => {
                at += length;
                from += 1;
            }
            (None, Some((behind_star, start))) => {
                *start += 1;
                (at, from) = (*behind_star, *start);
            }
            (None, None) => return false,
        }
    }
}

/// Matches one letter with the beginning of a pattern. Returns the number of bytes of the pattern that stood for it.
fn one(pattern: &[u8], letter: u8) -> Option<usize> {
    match pattern {
        [b'?', ..] => Some(1),
        [b'[', class @ ..] => match in_class(class, letter) {
            Some((is_in, length)) => is_in.then_some(1 + length),
            // A bracket that is not closed stands for itself.
            None => (letter == b'[').then_some(1),
        },
        [b'\\', escaped, ..] => (*escaped == letter).then_some(2),
        [plain, ..] => (*plain == letter).then_some(1),
        [] => None,
    }
}

/// Whether a letter is in a class such as `a-z]` or `!0-9]`, and the length of the class. `None` if it is not closed.
fn in_class(class: &[u8], letter: u8) -> Option<(bool, usize)> {
    let inverted = class.first() == Some(&b'!');
    let mut at = usize::from(inverted);
    let mut is_in = false;
    let mut first = true;
    loop {
        let low = *class.get(at)?;
        if low == b']' && !first {
            return Some((is_in != inverted, at + 1));
        }
        first = false;
        at += 1;
        let high = match (class.get(at), class.get(at + 1)) {
            (Some(b'-'), Some(high)) if *high != b']' => {
                at += 2;
                *high
            }
            _ => low,
        };
        is_in |= (low..=high).contains(&letter);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::String;
    use alloc::vec;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    /// DV-4
    #[test]
    fn patterns_match_as_in_the_kernel() {
        #[rustfmt::skip]
        let cases = [
            ("", "", true), ("", "a", false), ("*", "", true), ("a", "a", true), ("a", "", false), ("?", "", false), ("?", "x", true),
            ("a*c", "abbc", true), ("a*c", "abb", false), ("*a*b*", "xaxbx", true), ("*ab", "aab", true), ("*ab", "aba", false),
            ("[a-c]x", "bx", true), ("[!a-c]x", "bx", false), ("[]a]", "]", true), ("[a", "[a", true), ("[a-]", "-", true),
            ("\\*", "*", true), ("\\*", "x", false), ("a\\", "a\\", true), ("b?nk[0-9]*", "bank12", true), ("***", "abc", true),
        ];
        for (pattern, text, expected) in cases {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), expected, "{pattern} {text}");
        }
    }

    /// A slow matcher by the definition, to compare with.
    fn slow(pattern: &[u8], text: &[u8]) -> bool {
        match (pattern, text) {
            ([], rest) => rest.is_empty(),
            ([b'*', more @ ..], rest) => (0..=rest.len()).any(|skipped| slow(more, &rest[skipped..])),
            (_, []) => false,
            (pattern, [letter, rest @ ..]) => one(pattern, *letter).is_some_and(|length| slow(&pattern[length..], rest)),
        }
    }

    proptest! {
        /// DV-4: a star may stand for any text.
        #[test]
        fn a_star_stands_for_any_text(pattern in "[ab*?]{0,8}", text in "[ab]{0,10}") {
            prop_assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), slow(pattern.as_bytes(), text.as_bytes()));
        }
    }

    /// DV-4: brackets that are not closed are not searched for their end at each letter.
    #[test]
    fn open_brackets_take_bounded_time() {
        let (pattern, text) = (String::from("*") + &"[".repeat(250), vec![b'['; 30_000]);
        assert!(matches(pattern.as_bytes(), &text));
        assert!(!matches((pattern + "x").as_bytes(), &text));
        assert!(matches(b"[]a][[", b"a[["), "a closed one, and two that are not");
    }

    /// DV-4: a pattern with many stars takes no exponential time.
    #[test]
    fn many_stars_take_bounded_time() {
        let pattern = "*a".repeat(100);
        let text: Vec<u8> = vec![b'a'; 99];
        assert!(!matches(pattern.as_bytes(), &text));
        assert!(matches(pattern.as_bytes(), &String::from("a").repeat(100).into_bytes()));
    }
}
