//! A shard: one of several equal parts of a sweep, for as many computers or jobs.

use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// The largest number of shards.
const MOST: u64 = 1_000_000;

/// Shard number `index` of `count`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shard {
    /// Its number, from 0 on.
    pub index: u64,
    /// The number of shards.
    pub count: u64,
}

/// The reason why a text is no shard.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{0}")]
pub struct NoShard(String);

impl Shard {
    /// The whole sweep.
    pub const WHOLE: Shard = Shard { index: 0, count: 1 };

    /// A shard, if its number is below the count.
    pub fn new(index: u64, count: u64) -> Result<Shard, NoShard> {
        match index < count && count <= MOST {
            true => Ok(Shard { index, count }),
            false => Err(NoShard(format!("there is no shard {index} of {count}: give I/N with I below N, N at most {MOST}"))),
        }
    }

    /// Whether a wave belongs to it.
    pub fn has(self, wave: u64) -> bool {
        wave % self.count == self.index
    }

    /// The shard of this job, as its engine says in the environment: the task of a Slurm array, or the index of a
    /// Kubernetes Job together with `TRAPLINE_SHARDS`, the number of shards.
    pub fn of_environment(variable: &dyn Fn(&str) -> Option<String>) -> Result<Shard, NoShard> {
        let number = |name: &str| match variable(name) {
            None => Err(NoShard(format!("the environment variable {name} is not set"))),
            Some(text) => text.parse::<u64>().map_err(|_| NoShard(format!("{name} is `{text}`, which is no number"))),
        };
        match (variable("SLURM_ARRAY_TASK_ID").is_some(), variable("JOB_COMPLETION_INDEX").is_some()) {
            (true, false) => {
                let (id, least, count) =
                    (number("SLURM_ARRAY_TASK_ID")?, number("SLURM_ARRAY_TASK_MIN")?, number("SLURM_ARRAY_TASK_COUNT")?);
                let step = if variable("SLURM_ARRAY_TASK_STEP").is_some() { number("SLURM_ARRAY_TASK_STEP")? } else { 1 };
                Shard::new(id.saturating_sub(least) / step.max(1), count)
            }
            (false, true) => Shard::new(number("JOB_COMPLETION_INDEX")?, number("TRAPLINE_SHARDS")?),
            (true, true) => Err(NoShard("both Slurm and Kubernetes name a shard: give --shard I/N".into())),
            (false, false) => Err(NoShard(
                "neither SLURM_ARRAY_TASK_ID nor JOB_COMPLETION_INDEX is set: give --shard I/N, or run it as a task of an array"
                    .into(),
            )),
        }
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.count)
    }
}

impl FromStr for Shard {
    type Err = NoShard;

    fn from_str(text: &str) -> Result<Shard, NoShard> {
        let numbers = text.split_once('/').and_then(|(index, count)| Some((index.parse().ok()?, count.parse().ok()?)));
        let (index, count) = numbers.ok_or_else(|| NoShard(format!("`{text}` is no shard: give I/N, such as 0/8, or auto")))?;
        Shard::new(index, count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &[(&str, &str)]) -> Result<String, String> {
        let variable = |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_string());
        Shard::of_environment(&variable).map(|shard| shard.to_string()).map_err(|why| why.to_string())
    }

    /// SW-3: the engine's variables name the shard, also with a step, and anything unclear is refused.
    #[test]
    fn the_environment_names_the_shard() {
        let array =
            |id, min, count| [("SLURM_ARRAY_TASK_ID", id), ("SLURM_ARRAY_TASK_MIN", min), ("SLURM_ARRAY_TASK_COUNT", count)];
        assert_eq!(of(&array("3", "0", "8")).as_deref(), Ok("3/8"));
        assert_eq!(of(&array("11", "10", "2")).as_deref(), Ok("1/2"));
        assert_eq!(of(&[&array("14", "0", "8")[..], &[("SLURM_ARRAY_TASK_STEP", "2")]].concat()).as_deref(), Ok("7/8"));
        let index = [("JOB_COMPLETION_INDEX", "5"), ("TRAPLINE_SHARDS", "6")];
        assert_eq!(of(&index).as_deref(), Ok("5/6"));
        let wrong =
            [&array("9", "0", "8")[..], &[], &[index, array("1", "0", "2")[..2].try_into().expect("two")].concat(), &index[..1]];
        for variables in wrong {
            assert!(of(variables).is_err(), "{variables:?}");
        }
    }

    /// SW-3
    #[test]
    fn a_shard_is_a_number_below_the_count() {
        for (text, is_one) in
            [("0/1", true), ("7/8", true), ("8/8", false), ("0/0", false), ("1", false), ("-1/2", false), ("0/1000001", false)]
        {
            assert_eq!(text.parse::<Shard>().is_ok(), is_one, "{text}");
        }
        let mine = |index| (0..10).filter(|wave| Shard { index, count: 3 }.has(*wave)).collect::<Vec<u64>>();
        assert_eq!([mine(0), mine(1), mine(2)], [vec![0, 3, 6, 9], vec![1, 4, 7], vec![2, 5, 8]]);
    }
}
