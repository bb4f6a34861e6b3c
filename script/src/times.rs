//! Formats times as strftime(3) does, in UTC.

use super::show::put;
use alloc::vec::Vec;

/// Formats a time in nanoseconds since 1970. `%f` prints microseconds.
pub fn format_time(out: &mut Vec<u8>, format: &[u8], nanoseconds: u64) {
    let seconds = nanoseconds / 1_000_000_000;
    let (days, of_day) = (seconds / 86_400, seconds % 86_400);
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    let (year, month, day, of_year) = date(days);
    const MONTHS: [&str; 12] = [
        "January",
        "February",
        "March",
        "April",
        "May",
        "June",
        "July",
        "August",
        "September",
        "October",
        "November",
        "December",
    ];
    const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
    let (month_name, day_name) = (MONTHS[month as usize - 1], DAYS[(days as usize + 4) % 7]);
    let mut letters = format.iter();
    while let Some(letter) = letters.next() {
        if *letter != b'%' {
            out.push(*letter);
            continue;
        }
        match letters.next() {
            Some(b'H') => put(out, format_args!("{hour:02}")),
            Some(b'I') => put(out, format_args!("{:02}", (hour + 11) % 12 + 1)),
            Some(b'M') => put(out, format_args!("{minute:02}")),
            Some(b'S') => put(out, format_args!("{second:02}")),
            Some(b'f') => put(out, format_args!("{:06}", nanoseconds % 1_000_000_000 / 1000)),
            Some(b'Y') => put(out, format_args!("{year}")),
            Some(b'y') => put(out, format_args!("{:02}", year % 100)),
            Some(b'm') => put(out, format_args!("{month:02}")),
            Some(b'd') => put(out, format_args!("{day:02}")),
            Some(b'e') => put(out, format_args!("{day:2}")),
            Some(b'j') => put(out, format_args!("{of_year:03}")),
            Some(b'B') => put(out, format_args!("{month_name}")),
            Some(b'b' | b'h') => put(out, format_args!("{}", &month_name[..3])),
            Some(b'A') => put(out, format_args!("{day_name}")),
            Some(b'a') => put(out, format_args!("{}", &day_name[..3])),
            Some(b'p') => put(out, format_args!("{}", if hour < 12 { "AM" } else { "PM" })),
            Some(b's') => put(out, format_args!("{seconds}")),
            Some(b'F') => put(out, format_args!("{year}-{month:02}-{day:02}")),
            Some(b'T') => put(out, format_args!("{hour:02}:{minute:02}:{second:02}")),
            Some(b'R') => put(out, format_args!("{hour:02}:{minute:02}")),
            Some(b'D') => put(out, format_args!("{month:02}/{day:02}/{:02}", year % 100)),
            Some(b'Z') => out.extend_from_slice(b"UTC"),
            Some(b'z') => out.extend_from_slice(b"+0000"),
            Some(b'n') => out.push(b'\n'),
            Some(b't') => out.push(b'\t'),
            Some(b'%') => out.push(b'%'),
            Some(other) => out.extend_from_slice(&[b'%', *other]),
            None => out.push(b'%'),
        }
    }
}

/// The year, month, day and day of the year of a day counted from 1970.
pub(super) fn date(days: u64) -> (u64, u64, u64, u64) {
    let is_leap = |year: u64| year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400);
    // 400 years always have the same number of days.
    let mut year = 1970 + days / 146_097 * 400;
    let mut left = days % 146_097;
    loop {
        let length = 365 + u64::from(is_leap(year));
        if left < length {
            break;
        }
        left -= length;
        year += 1;
    }
    let of_year = left + 1;
    let mut month = 1;
    loop {
        let length = match month {
            2 => 28 + u64::from(is_leap(year)),
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        };
        if left < length || month == 12 {
            return (year, month, left + 1, of_year);
        }
        left -= length;
        month += 1;
    }
}
