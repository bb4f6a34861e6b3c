//! Limits of a run: `--until`, and guest times with their units.

use super::Failure;

/// A reason to stop before the guest does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Until {
    /// This guest time, in nanoseconds.
    Time(u64),
    /// This text on the console.
    Console(String),
}

impl Until {
    /// Parses a limit of the command line.
    pub fn parse(text: &str) -> Result<Until, String> {
        if let Some(wanted) = text.strip_prefix("console:") {
            return match wanted.is_empty() {
                true => Err("the text to wait for is missing behind `console:`".into()),
                false => Ok(Until::Console(wanted.into())),
            };
        }
        match guest_time(text) {
            None => Err("a limit is a guest time with its unit (300ns, 20us, 50ms, 2s) or `console:TEXT`".into()),
            Some(None) => Err("that is longer than any run".into()),
            Some(Some(time)) => Ok(Until::Time(time)),
        }
    }
}

/// Parses a guest time with its unit into nanoseconds. The inner `None` means that it overflows.
pub fn guest_time(text: &str) -> Option<Option<u64>> {
    const UNITS: [(&str, u64); 4] = [("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)];
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let factor = UNITS.iter().find(|(name, _)| *name == unit).map(|(_, factor)| *factor)?;
    Some(number.parse::<u64>().ok()?.checked_mul(factor))
}

/// The limits of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// The guest time in nanoseconds at which to stop.
    pub time: Option<u64>,
    /// A console text at which to stop.
    pub text: Option<String>,
}

impl Limits {
    /// The limits of a command line: the earliest time, and at most one text.
    pub fn of(all: &[Until]) -> Result<Limits, Failure> {
        let mut limits = Limits::default();
        for until in all {
            match until {
                Until::Time(time) => limits.time = Some(limits.time.map_or(*time, |earlier| earlier.min(*time))),
                Until::Console(_) if limits.text.is_some() => {
                    return Err(Failure::usage("only one text can be waited for").advise("give one `--until console:TEXT`"));
                }
                Until::Console(text) => limits.text = Some(text.clone()),
            }
        }
        Ok(limits)
    }
}

#[cfg(test)]
mod tests {
    use super::{Limits, Until};

    /// DV-4
    #[test]
    fn limits_are_times_and_texts() {
        #[rustfmt::skip]
        let cases = [
            ("300ns",               Some(Until::Time(300))),
            ("20us",                Some(Until::Time(20_000))),
            ("50ms",                Some(Until::Time(50_000_000))),
            ("2s",                  Some(Until::Time(2_000_000_000))),
            ("console:tiny: done",  Some(Until::Console("tiny: done".into()))),
            ("console:",            None),
            ("50",                  None),
            ("ms",                  None),
            ("",                    None),
            ("5 ms",                None),
            ("99999999999999999s",  None),
        ];
        for (text, expected) in cases {
            assert_eq!(Until::parse(text).ok(), expected, "{text:?}");
        }
    }

    #[test]
    fn the_earliest_time_counts_and_one_text() {
        let text = |text: &str| Until::Console(text.into());
        let limits = Limits::of(&[Until::Time(7), text("login:"), Until::Time(5)]).ok();
        assert_eq!(limits, Some(Limits { time: Some(5), text: Some("login:".into()) }));
        assert!(Limits::of(&[text("a"), text("b")]).is_err());
    }
}
