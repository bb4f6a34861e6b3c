//! Joins the parts of a sweep. No shard may be missing, and two parts of one shard must be equal byte for byte.

use super::part::{PartError, Summary};
use super::shard::Shard;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// The suffix of the files that are parts.
pub const SUFFIX: &str = "part";

/// The reason why parts cannot be joined.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum MergeError {
    /// There is no part.
    #[error("there is no part of a sweep, a file that ends in `.{SUFFIX}`, in `{}`", .0.display())]
    None(PathBuf),
    /// A part cannot be read.
    #[error(transparent)]
    Part(#[from] PartError),
    /// Two parts belong to different sweeps.
    #[error("`{}` and `{}` are of different sweeps: their {what} is {one} and {other}", first.display(), second.display())]
    Strangers {
        /// A part.
        first: PathBuf,
        /// Another part.
        second: PathBuf,
        /// The fact that differs.
        what: &'static str,
        /// The first part's value.
        one: String,
        /// The second part's value.
        other: String,
    },
    /// Two parts of one shard have different results.
    #[error("`{}` and `{}` are both shard {shard} and differ, so a run was not repeated exactly", first.display(), second.display())]
    Doubled {
        /// A part.
        first: PathBuf,
        /// Another part.
        second: PathBuf,
        /// The shard of both, such as `0/8`.
        shard: String,
    },
    /// Shards are missing.
    #[error("{} of {count} shards are missing: {}", missing.len(), list(missing))]
    Missing {
        /// Their numbers.
        missing: Vec<u64>,
        /// The number of shards.
        count: u64,
    },
}

fn list(numbers: &[u64]) -> String {
    const NAMED: usize = 20;
    let named: Vec<String> = numbers.iter().take(NAMED).map(u64::to_string).collect();
    named.join(", ") + if numbers.len() > NAMED { ", ..." } else { "" }
}

/// The parts in a folder, by name. A file is itself.
pub fn parts(place: &Path) -> Result<Vec<PathBuf>, MergeError> {
    if !place.is_dir() {
        return Ok(vec![place.into()]);
    }
    let unreadable = |why| PartError::Io { path: place.into(), what: "read", why };
    let mut found = Vec::new();
    for entry in std::fs::read_dir(place).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.extension().is_some_and(|suffix| suffix == SUFFIX) {
            found.push(path);
        }
    }
    found.sort();
    if found.is_empty() { Err(MergeError::None(place.into())) } else { Ok(found) }
}

/// Joins parts. The result is that of a sweep in one piece.
pub fn merge(parts: &[PathBuf]) -> Result<Summary, MergeError> {
    let mut found: BTreeMap<Shard, (&PathBuf, Summary)> = BTreeMap::new();
    for path in parts {
        let part = Summary::read(path)?;
        if let Some((first, known)) = found.values().next() {
            let shards =
                |summary: &Summary| summary.identity.shard.split_once('/').map_or(String::new(), |(_, count)| count.into());
            let (one, other) = (shards(known), shards(&part));
            let count = (one != other).then_some(("number of shards", one, other));
            if let Some((what, one, other)) = known.identity.differs(&part.identity).or(count) {
                return Err(MergeError::Strangers { first: (*first).clone(), second: path.clone(), what, one, other });
            }
        }
        // `Summary::read` has checked the shard.
        let shard = part.identity.shard.parse().unwrap_or(Shard::WHOLE);
        match found.get(&shard) {
            Some((first, known)) if known != &part => {
                let shard = part.identity.shard;
                return Err(MergeError::Doubled { first: (*first).clone(), second: path.clone(), shard });
            }
            Some(_) => {}
            None => drop(found.insert(shard, (path, part))),
        }
    }
    let count = found.keys().next().map_or(1, |shard| shard.count);
    let missing: Vec<u64> = (0..count).filter(|index| !found.contains_key(&Shard { index: *index, count })).collect();
    if let [_, ..] = missing[..] {
        return Err(MergeError::Missing { missing, count });
    }
    let mut all = found.into_values().map(|(_, part)| part);
    let Some(first) = all.next() else { return Err(MergeError::None(PathBuf::new())) };
    let mut whole = Summary { identity: first.identity.whole(), waves: first.waves };
    all.for_each(|part| whole.waves.extend(part.waves));
    Ok(whole)
}
