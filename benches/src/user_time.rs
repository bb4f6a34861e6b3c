//! User time of processes, which other load on the host disturbs little, and medians.

use std::fs;

/// The unit of /proc/PID/stat (USER_HZ), on every Linux.
const TICKS_PER_SECOND: f64 = 100.0;

/// The user time of a running process so far, all its threads included.
pub fn of(process: u32) -> Result<f64, String> {
    // utime
    word(&format!("/proc/{process}/stat"), 11)
}

/// The user time of all ended children of this process.
pub fn of_children() -> Result<f64, String> {
    // cutime
    word("/proc/self/stat", 13)
}

/// Field number `at` of a stat file (proc(5)), counted from after the process name. The name is in parentheses and may
/// contain blanks.
fn word(file: &str, at: usize) -> Result<f64, String> {
    let stat = fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))?;
    let rest = stat.rsplit(')').next().unwrap_or_default();
    let ticks: Option<f64> = rest.split_whitespace().nth(at).and_then(|word| word.parse().ok());
    ticks.map(|ticks| ticks / TICKS_PER_SECOND).ok_or_else(|| format!("{file} is not as expected"))
}

/// The median. NaN if there are no values.
pub fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
