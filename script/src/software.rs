//! Resolves `software:` events of bpftrace, which Linux counts by perf. Here they become probes on the functions or
//! tracepoints that cause them, or a timer.

use super::compile::Compiler;
use super::error::{ScriptError, Span};
use super::points::LEAST_PERIOD;
use super::program::{Point, PointKind};
use alloc::format;
use alloc::vec::Vec;

/// Bits of the result of `handle_mm_fault`: the page had to be read from disk, and bits that mean failure.
const FAULT_MAJOR: u64 = 4;
const FAULT_FAILED: u64 = 0x873;

impl Compiler<'_> {
    /// The attach points of `software:EVENT:COUNT`.
    pub fn software(&self, event: &str, count: &str, at: Span) -> Result<Vec<Point>, ScriptError> {
        let given =
            match count {
                "" => None,
                count => Some(super::lex::time(count).filter(|count| *count > 0).ok_or_else(|| {
                    at.error(format!("behind a software event stands how many make a hit: software:{event}:100"))
                })?),
            };
        let name = format!("software:{event}:{count}");
        let point = |kind, every, result| {
            Ok(Vec::from([Point {
                kind,
                name: name.clone(),
                at,
                is_typed: false,
                of_pattern: false,
                event: None,
                every,
                result,
                counter: 0,
            }]))
        };
        let scheduler = |event: &str, function: &str| {
            let found = self.knowledge.tracepoints("sched", event).pop();
            found
                .map(PointKind::Tracepoint)
                .or_else(|| self.knowledge.address(function).map(|_| PointKind::Kprobe(function.into(), 0)))
        };
        let missing = |function: &str| at.error(format!("this kernel has no {function}, by which {event} would be counted"));
        let faults = "handle_mm_fault";
        match event {
            "context-switches" | "cs" => {
                let kind = scheduler("sched_switch", "__switch_to").ok_or_else(|| missing("__switch_to"))?;
                point(kind, given.unwrap_or(1000), None)
            }
            "cpu-migrations" => {
                let kind = scheduler("sched_migrate_task", "set_task_cpu").ok_or_else(|| missing("set_task_cpu"))?;
                point(kind, given.unwrap_or(1), None)
            }
            _ if event.ends_with("faults") && self.knowledge.address(faults).is_none() => Err(missing(faults)),
            "page-faults" | "faults" => point(PointKind::Kprobe(faults.into(), 0), given.unwrap_or(100), None),
            "minor-faults" => {
                let bits = FAULT_MAJOR | FAULT_FAILED;
                point(PointKind::Kretprobe(faults.into()), given.unwrap_or(100), Some((bits, 0)))
            }
            "major-faults" => point(PointKind::Kretprobe(faults.into()), given.unwrap_or(1), Some((FAULT_MAJOR, FAULT_MAJOR))),
            "cpu-clock" | "cpu" | "task-clock" => {
                let period = given.unwrap_or(if event == "task-clock" { 1 } else { 1_000_000 });
                if period < LEAST_PERIOD {
                    return Err(at.error(format!("{event} is looked at every {LEAST_PERIOD} ns at most: software:{event}:{LEAST_PERIOD}")));
                }
                point(PointKind::Profile(period), 1, None)
            }
            _ => Err(at.error(format!(
                "'{event}' is no software event of this machine: context-switches, cpu-migrations, page-faults, minor-faults, major-faults, \
                 cpu-clock and task-clock are"
            ))),
        }
    }
}
