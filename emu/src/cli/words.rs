//! The words of trapline's own command line, for commands that print or write a command.

use super::Failure;
use std::ffi::OsString;

/// The words behind the program's name, without these options. Each is given with the number of words behind it. Fails if
/// a word is no text.
pub fn words_without(all: impl Iterator<Item = OsString>, left_out: &[(&str, usize)]) -> Result<Vec<String>, Failure> {
    let mut words = Vec::new();
    let mut skipped = 0;
    for word in all.skip(1) {
        let word = word.into_string().map_err(|word| Failure::usage(format!("{word:?} is no text: rename that file")))?;
        if skipped > 0 {
            skipped -= 1;
            continue;
        }
        let name = word.split_once('=').map_or(&*word, |(name, _)| name);
        match left_out.iter().find(|(option, _)| *option == name) {
            Some((option, behind)) => skipped = if *option == word { *behind } else { 0 },
            None => words.push(word),
        }
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SW-5, CP-7: a command is the user's, without the options that were only for the first one.
    #[test]
    fn the_words_of_a_command_are_those_of_the_user() {
        #[rustfmt::skip]
        let all = [
            "trapline", "sweep", "tiny/x86_64", "--emit", "slurm", "job", "--wave", "9", "--shards", "4", "--jobs=2", "--until", "1s",
        ];
        let left_out = [("--emit", 2), ("--shards", 1), ("--jobs", 1)];
        let words = words_without(all.into_iter().map(Into::into), &left_out).expect("text");
        assert_eq!(words, ["sweep", "tiny/x86_64", "--wave", "9", "--until", "1s"]);
    }
}
