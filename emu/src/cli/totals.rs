//! `check` without a place: how much of the whole text may be probed, and the reasons for refusals.

use super::PolicyName;
use super::output::{self, Align, Cell, Paint, Table, thousands};
use super::verdict::{Checker, ProbeKind};
use crate::boot::Kernel;
use crate::sweep::refusal::reason;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::ops::Range;

/// The counts for a whole text.
#[derive(Debug, Default, PartialEq, Serialize)]
pub struct Totals {
    instructions: u64,
    functions: u64,
    text_bytes: u64,
    /// Bytes of padding between functions.
    padding_bytes: u64,
    /// Bytes from an undecodable instruction to the end of its function.
    undecoded_bytes: u64,
    accepted: u64,
    plans: BTreeMap<&'static str, u64>,
    ftrace: u64,
    refused: u64,
    reasons: Vec<Reason>,
}

/// A reason for refusals, with its count.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Reason {
    errno: &'static str,
    why: String,
    count: u64,
    /// The place of the first refusal for this reason.
    example: String,
}

/// Checks every instruction of the text.
pub fn of(kernel: &Kernel, checker: &mut Checker<'_>, kind: ProbeKind) -> Totals {
    let ranges = [Some(kernel.tables.text.clone()), kernel.tables.init_text.clone()];
    let functions: Vec<_> = ranges.iter().flatten().flat_map(|range| pieces(kernel, range)).collect();
    let mut totals = Totals { functions: functions.len() as u64, ..Totals::default() };
    let mut reasons: BTreeMap<(&str, String), (u64, u64)> = BTreeMap::new();
    let bar = output::progress(functions.len() as u64, "functions");
    for range in functions {
        let filled = range.start..without_padding(kernel, &range);
        let mut decoded_to = filled.start;
        for insn in checker.instructions(filled.clone()) {
            decoded_to = insn.next();
            totals.instructions += 1;
            match checker.at(kind, insn.address).answer {
                Ok(accepted) => {
                    totals.accepted += 1;
                    *totals.plans.entry(accepted.plan.word()).or_default() += 1;
                    totals.ftrace += u64::from(accepted.status == super::verdict::Status::Ftrace);
                }
                Err(refusal) => {
                    totals.refused += 1;
                    let function = kernel.symbols.containing(insn.address).map(|symbol| symbol.name);
                    let why = reason(&refusal, function.as_deref().unwrap_or_default());
                    reasons.entry((refusal.errno.name(), why)).or_insert((0, insn.address)).0 += 1;
                }
            }
        }
        totals.text_bytes += range.end - range.start;
        totals.padding_bytes += range.end - filled.end;
        totals.undecoded_bytes += filled.end.saturating_sub(decoded_to);
        bar.inc(1);
    }
    bar.finish_and_clear();
    totals.reasons = reasons
        .into_iter()
        .map(|((errno, why), (count, first))| Reason { errno, why, count, example: kernel.symbols.describe(first) })
        .collect();
    totals.reasons.sort_by(|one, other| other.count.cmp(&one.count).then_with(|| one.why.cmp(&other.why)));
    totals
}

/// The functions in a range. Without symbols, the whole range.
fn pieces(kernel: &Kernel, range: &Range<u64>) -> Vec<Range<u64>> {
    let functions = kernel.symbols.extents(range.clone());
    if functions.is_empty() {
        return vec![range.clone()];
    }
    functions.into_iter().map(|symbol| symbol.start..(symbol.start + symbol.size).min(range.end)).collect()
}

/// The end of a function without the padding behind it: breakpoints, zeros, or at least 4096 bytes of one repeated
/// instruction (the gaps between sections can have millions). An instruction that itself ends in such bytes is decoded
/// as a whole.
fn without_padding(kernel: &Kernel, range: &Range<u64>) -> u64 {
    let isa = kernel.arch.isa();
    let fill = [isa.breakpoint.first().copied().unwrap_or(0), 0];
    let end = without(kernel, range, |_, byte| fill.contains(&byte));
    let end = end.checked_next_multiple_of(isa.alignment).unwrap_or(end).min(range.end);
    let mut last = vec![0; isa.alignment as usize];
    if end.saturating_sub(range.start) < LEAST_PADDING || kernel.read(end - isa.alignment, &mut last).is_err() {
        return end;
    }
    let end_of_others = without(kernel, &(range.start..end), |at, byte| last.get((at % isa.alignment) as usize) == Some(&byte));
    if end - end_of_others < LEAST_PADDING { end } else { end_of_others }
}

/// The least number of bytes of a repeated instruction that count as padding. Real code does not repeat one instruction
/// that often.
const LEAST_PADDING: u64 = 4096;

/// The end of the last byte in a range that is not padding.
fn without(kernel: &Kernel, range: &Range<u64>, is_fill: impl Fn(u64, u8) -> bool) -> u64 {
    let mut chunk = [0; 256];
    let mut end = range.end;
    while end > range.start {
        let size = (end - range.start).min(chunk.len() as u64);
        let part = &mut chunk[..size as usize];
        if kernel.read(end - size, part).is_err() {
            return end;
        }
        match (0..size).rev().zip(part.iter().rev()).find(|(offset, byte)| !is_fill(end - size + offset, **byte)) {
            Some((last, _)) => return end - size + last + 1,
            None => end -= size,
        }
    }
    end
}

impl Totals {
    /// The counts as a table.
    pub fn for_people(&self, image: &str, policy: PolicyName, kind: ProbeKind, paint: Paint) -> String {
        let policy = policy.name();
        let what = match kind {
            ProbeKind::Probe => "kprobes",
            ProbeKind::Return => "return probes",
            ProbeKind::Post => "kprobes with a post-handler",
        };
        let mut text = format!(
            "{}: {} instructions in {} functions, {} bytes of text; {what}, policy {policy}\n\n",
            paint.name(image),
            thousands(self.instructions),
            thousands(self.functions),
            thousands(self.text_bytes),
        );
        let mut table = Table::new(&[("", Align::Left), ("", Align::Right), ("", Align::Right), ("", Align::Left)]);
        let share = |count: u64| match self.instructions {
            0 => "-".to_string(),
            all => format!("{:.1} %", count as f64 * 100.0 / all as f64),
        };
        let mut row = |name: &str, style: output::Style, count: u64, note: String| {
            table.row(vec![
                Cell::styled(name, style),
                Cell::plain(thousands(count)),
                Cell::plain(share(count)),
                Cell::plain(note),
            ]);
        };
        row("may be probed", Paint::good, self.accepted, String::new());
        for (plan, count) in &self.plans {
            let note = match *plan {
                "boost" => "a copy runs and jumps back: one trap a hit",
                "emulate" => "computed by the engine: one trap a hit",
                _ => "a copy runs and traps again: two traps a hit",
            };
            row(&format!("  {plan}"), Paint::faint, *count, note.into());
        }
        if self.ftrace > 0 {
            row("  on an ftrace site", Paint::faint, self.ftrace, String::new());
        }
        row("refused", Paint::bad, self.refused, String::new());
        for reason in &self.reasons {
            row(
                &format!("  {}", reason.errno),
                Paint::faint,
                reason.count,
                format!("{} (first: {})", reason.why, reason.example),
            );
        }
        text += &table.render(paint);
        if self.undecoded_bytes > 0 {
            let _ =
                writeln!(text, "\n{} bytes behind undecodable instructions were not checked", thousands(self.undecoded_bytes));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::boot::Segment;
    use trapline_isa::arch::Arch;
    use trapline_isa::plan::{Errno, Refusal};

    /// KP-15
    #[test]
    fn refusals_are_counted_by_their_reason_not_by_their_place() {
        let owned = |function: &str| {
            let why = format!("{function}+0x3 is blacklisted as part of {function}: probe one of its callers");
            reason(&Refusal::because(Errno::EINVAL, why), function)
        };
        assert_eq!(owned("do_int3"), "... is blacklisted as part of ...");
        assert_eq!(owned("die"), owned("do_int3"));
        let fixed = Refusal::new(Errno::EINVAL, "loading ss holds off interrupts; probe the next one instead");
        assert_eq!(reason(&fixed, "die"), "loading ss holds off interrupts");
    }

    /// Byte strings, each with a number of repetitions.
    type Runs<'a> = &'a [(&'a [u8], usize)];

    /// KP-15: long runs of one repeated instruction count as padding.
    #[test]
    fn padding_ends_where_something_else_stands() {
        #[rustfmt::skip]
        let cases: [(&str, Runs<'_>, u64); 5] = [
            ("nothing but code",        &[(&[0x18, 0x12], 20)],                                                 40),
            ("zeroes",                  &[(&[0x18, 0x12], 20), (&[0], 9000)],                                   40),
            ("a few nops",              &[(&[0x18, 0x12], 20), (&[0x07, 0x07], 20)],                            80),
            ("room full of nops",       &[(&[0x18, 0x12], 20), (&[0x07, 0x00], 4500)],                          40),
            ("that, and zeroes",        &[(&[0x18, 0x12], 20), (&[0x07, 0x00], 4500), (&[0], 300)],             40),
        ];
        for (what, runs, expected) in cases {
            let bytes: Vec<u8> = runs.iter().flat_map(|(bytes, count)| bytes.repeat(*count)).collect();
            let size = bytes.len() as u64;
            let segment = Segment { physical: 0x1000, virtual_address: 0x1000, bytes: bytes.into(), size, executable: true };
            let kernel = Kernel::from_parts(Arch::S390x, 0x1000, vec![segment], Default::default());
            assert_eq!(without_padding(&kernel, &(0x1000..0x1000 + size)), 0x1000 + expected, "{what}");
        }
    }
}
