//! Seconds of user time, which other work of the computer disturbs little, and the median of several.

use std::fs;

/// What /proc counts in, on every Linux.
const TICKS_PER_SECOND: f64 = 100.0;

/// What a running process has taken until now, with all its threads.
pub fn of(process: u32) -> Result<f64, String> {
    // utime
    word(&format!("/proc/{process}/stat"), 11)
}

/// What all children of this process that have ended took.
pub fn of_children() -> Result<f64, String> {
    // cutime
    word("/proc/self/stat", 13)
}

/// A word of such a file, proc(5), counted from the one behind the name, which is in brackets and may hold blanks.
fn word(file: &str, at: usize) -> Result<f64, String> {
    let stat = fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))?;
    let rest = stat.rsplit(')').next().unwrap_or_default();
    let ticks: Option<f64> = rest.split_whitespace().nth(at).and_then(|word| word.parse().ok());
    ticks.map(|ticks| ticks / TICKS_PER_SECOND).ok_or_else(|| format!("{file} is not as expected"))
}

/// The one in the middle; of none it is no number.
pub fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
