//! Sweeps as jobs of a cluster's scheduler: an array of tasks, one for each shard, and a job that merges their parts.

pub mod kubernetes;
pub mod slurm;

use std::path::Path;

/// A file to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// Its name in the folder.
    pub name: &'static str,
    /// The contents.
    pub text: String,
    /// Whether it is a program.
    pub is_program: bool,
}

/// A sweep on a cluster.
#[derive(Clone, Copy, Debug)]
pub struct Job<'a> {
    /// The words of the command line behind `trapline`, without those that name a shard and its part.
    pub words: &'a [String],
    /// The number of shards.
    pub shards: u64,
    /// The number of machines of a task.
    pub jobs: usize,
    /// The current folder of the command. Relative paths on the command line begin there.
    pub here: &'a Path,
    /// The absolute path of the folder for the job's files.
    pub folder: &'a Path,
}

/// Quotes a word for the shell, if it needs quotes.
fn quoted(word: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./:,=+@%".contains(letter);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_string(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// A command line of these words, quoted for the shell.
pub fn words(words: &[String]) -> String {
    words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_for_the_shell() {
        for (word, shown) in [("a-b/c.x", "a-b/c.x"), ("", "''"), ("a b", "'a b'"), ("it's $x", r"'it'\''s $x'")] {
            assert_eq!(quoted(word), shown);
        }
    }
}
