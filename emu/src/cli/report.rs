//! Notes and reports for standard error: columns of the trace that this kernel cannot fill, and the registers and the
//! backtrace of a guest that died or was stopped.

use super::paint::Paint;
use crate::outputs::Lines;
use crate::probed::report::Report;
use std::fmt::Write;

/// Names the columns of the trace that hold nothing on this kernel.
pub fn say_what_is_unknown(columns: &[&str]) {
    if let [_, ..] = columns {
        let note = Paint::for_errors().advice("note:");
        eprintln!("{note} not known on this kernel, so these columns of the trace are empty: {}", columns.join("; "));
    }
}

/// Formats the registers in columns, the pc of each CPU, and the backtrace.
pub fn render(report: &Report) -> String {
    render_with_lines(report, &|_| String::new())
}

/// Formats the same with the source lines that `line` gives.
pub fn render_with_lines(report: &Report, line: Lines<'_>) -> String {
    let at = |address: u64| match line(address) {
        source if source.is_empty() => source,
        source => format!(" at {source}"),
    };
    const COLUMNS: usize = 4;
    let mut text = format!("registers of CPU {}:\n", report.cpu);
    for row in report.registers.chunks(COLUMNS) {
        let cells: Vec<String> = row.iter().map(|(name, value)| format!("{name:>5} {value:016x}")).collect();
        text += cells.join(" ").trim_end();
        text.push('\n');
    }
    for (number, (address, name)) in report.cpus.iter().enumerate() {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "CPU {number} is at {address:#x} {name}{}", at(*address));
    }
    if !report.calls.is_empty() {
        let mark = if report.are_guessed { "? " } else { "" };
        text += match report.are_guessed {
            true => "on its stack, innermost first (some may be left over from earlier calls):\n",
            false => "called by, innermost first:\n",
        };
        for (address, name) in &report.calls {
            let _ = writeln!(text, "  {address:#x} {mark}{name}{}", at(address.wrapping_sub(1)));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_names_registers_places_and_callers() {
        let report = Report {
            cpu: 1,
            registers: vec![("ax", 1), ("bx", 2), ("cx", 3), ("dx", 4), ("ip", 0x1000)],
            cpus: vec![(0x1000, "idle+0x1".into()), (0x2000, "work".into())],
            calls: vec![(0x3000, "main+0x8".into())],
            are_guessed: true,
        };
        let text = render(&report);
        let source = |address: u64| if address == 0x2fff { "init/main.c:7".to_string() } else { String::new() };
        let known = render_with_lines(&Report { are_guessed: false, ..report.clone() }, &source);
        assert!(known.ends_with("called by, innermost first:\n  0x3000 main+0x8 at init/main.c:7\n"), "{known}");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "registers of CPU 1:");
        assert_eq!(lines[1], "   ax 0000000000000001    bx 0000000000000002    cx 0000000000000003    dx 0000000000000004");
        assert_eq!(lines[2], "   ip 0000000000001000");
        assert_eq!(lines[4], "CPU 1 is at 0x2000 work");
        assert_eq!(lines[6], "  0x3000 ? main+0x8");
    }
}
