//! The commands that users type in gdb after `monitor`: going to guest times, finding the last write to memory, backtraces,
//! tasks, modules, checkpoints and the console. [`HELP`] lists them.

use super::lists::{self, LoadedModule, Task, TaskFields};
use super::sleepers::Sleepers;
use super::{Debugger, callers, cause, files};
use crate::clock::{nanoseconds, ticks};
use crate::cpu::switched::Kept;
use crate::history::timeline::TimelineError;
use crate::machine::Place;
use std::time::Duration;
use trapline_probes::guest::Cpu;
use trapline_probes::watch::Area;

const HELP: &[&str] = &[
    "monitor time            the guest time, the place and the checkpoints",
    "monitor seek TIME       go to a guest time: 300ns, 20us, 1.5ms, 2s; also -5ms and +5ms from here",
    "monitor who ADDR[:LEN]  go to the last write to these bytes before this place",
    "monitor callers [PID]   the callers in the kernel, by its own tables or frames; gdb's backtrace may guess",
    "monitor why             at a panic: the wrong pointer, list or stack word, and who wrote it last",
    "monitor tasks           the task of each CPU, and the kernel's list of tasks",
    "monitor threads tasks   the tasks that sleep are threads of gdb, too: info threads, backtrace; `cpus`: no longer",
    "monitor modules         the modules, as commands for gdb that load their symbols",
    "monitor checkpoint      remember this place",
    "monitor restart N       go to the remembered place of this number; without N list them",
    "monitor console         the console's output that was not shown yet",
    "monitor type TEXT       type a line on the guest's console; what lies ahead is forgotten",
    "monitor help            this list",
    "Then `maintenance flush register-cache` shows gdb the new place.",
];

/// Executes a command and returns its output, in lines. Notes that were collected since the last command come first.
pub(super) fn answer(debugger: &mut Debugger, command: &str) -> Result<Vec<String>, TimelineError> {
    let mut lines = core::mem::take(&mut debugger.notes);
    let (word, rest) = command.trim().split_once(char::is_whitespace).unwrap_or((command.trim(), ""));
    match (word, rest.trim()) {
        ("time", "") => lines.push(time(debugger)),
        ("seek", to) => match moment(to, debugger.timeline.machine().now()) {
            Some(to) => {
                let reached = debugger.timeline.seek(ticks(to))?;
                if reached.is_end() {
                    lines.push("the run ends before that time".into());
                }
                lines.push(time(debugger));
            }
            None => lines.push(format!("`{to}` is no guest time: write 300ns, 20us, 1.5ms, 2s, or -5ms")),
        },
        ("who", bytes) => who(debugger, bytes, &mut lines)?,
        ("callers", task) => callers(debugger, task, &mut lines),
        ("why", "") => why(debugger, &mut lines)?,
        ("tasks", "") => tasks(debugger, &mut lines),
        ("threads", which) => threads(debugger, which, &mut lines),
        ("modules", "") => modules(debugger, &mut lines),
        ("checkpoint", "") => checkpoint(debugger, &mut lines),
        ("restart", number) => restart(debugger, number, &mut lines)?,
        ("console", "") => {
            let console = debugger.timeline.take_console();
            lines.extend(String::from_utf8_lossy(&console).lines().map(str::to_string));
        }
        ("type", text) => {
            debugger.timeline.keys(format!("{text}\n").as_bytes());
            lines.push("it is typed when the guest goes on; what lay ahead is forgotten".into());
        }
        ("" | "help", _) => lines.extend(HELP.iter().map(|line| (*line).to_string())),
        _ => lines.push(format!("`{}` is no command; `monitor help` lists them", command.trim())),
    }
    Ok(lines)
}

fn time(debugger: &Debugger) -> String {
    let timeline = &debugger.timeline;
    let place = timeline.place();
    let checkpoints = timeline.checkpoints().count();
    let time = |nanoseconds: u64| Duration::from_nanos(nanoseconds);
    format!(
        "{:?} of guest time (tick {}), CPU {}, {}; {checkpoints} checkpoints from {:?} on",
        time(timeline.machine().now()),
        place.ticks,
        place.cpu,
        debugger.kernel.symbols.describe(place.pc),
        time(nanoseconds(timeline.start().ticks)),
    )
}

/// Parses a guest time, or a distance from the present time `now`. Both are in nanoseconds.
fn moment(text: &str, now: u64) -> Option<u64> {
    let (sign, length) = match text.split_at_checked(1)? {
        (sign @ ("+" | "-"), length) => (sign, length),
        _ => ("", text),
    };
    let digits = length.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(length.len());
    let (number, unit) = length.split_at(digits);
    let unit: f64 = match unit.trim() {
        "ns" => 1.0,
        "us" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        _ => return None,
    };
    let length = (number.parse::<f64>().ok()? * unit).round();
    if !(0.0..9e18).contains(&length) {
        return None;
    }
    let length = length as u64;
    Some(match sign {
        "+" => now.saturating_add(length),
        "-" => now.saturating_sub(length),
        _ => length,
    })
}

fn who(debugger: &mut Debugger, bytes: &str, lines: &mut Vec<String>) -> Result<(), TimelineError> {
    let (place, len) = bytes.rsplit_once(':').unwrap_or((bytes, ""));
    let len = if len.is_empty() { Some(debugger.kernel.arch.isa().word as u64) } else { len.parse().ok() };
    let start = match place.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => debugger.kernel.symbols.find(place).map(|symbol| symbol.start),
    };
    let (Some(start), Some(len @ 1..=4096)) = (start, len) else {
        lines.push(format!("`{bytes}` is no ADDRESS:LENGTH or SYMBOL:LENGTH"));
        return Ok(());
    };
    let here = debugger.timeline.place();
    let area = Area { start, len, writes: true, ..Area::default() };
    match debugger.timeline.last_write(area, here)? {
        Some(seen) => {
            debugger.timeline.go_to_or_before(seen.place)?;
            lines.push(format!(
                "{:#x} {} wrote {} bytes at {:#x}: {:#x} became {:#x}, by: {}",
                seen.place.pc,
                debugger.kernel.symbols.describe(seen.place.pc),
                seen.access.size,
                seen.access.address,
                seen.access.old,
                seen.access.value,
                seen.access.by.name(),
            ));
            lines.push(time(debugger));
        }
        None => {
            debugger.timeline.go_to_or_before(here)?;
            lines.push(format!("nobody wrote to `{bytes}` between the start and this place"));
        }
    }
    Ok(())
}

fn callers(debugger: &mut Debugger, task: &str, lines: &mut Vec<String>) {
    let kept = match task {
        "" if !debugger.timeline.machine().in_kernel() => {
            lines.push("the running CPU is in a program, not in the kernel".into());
            return;
        }
        "" => None,
        task => match registers_of(debugger, task) {
            Ok(kept) => Some(kept),
            Err(why) => {
                lines.push(why);
                return;
            }
        },
    };
    let Some(callers) = callers::of(&mut debugger.timeline, &debugger.kernel, kept.as_ref()) else {
        lines.push("no rule is known by which this kernel's stacks can be unwound".into());
        return;
    };
    for (number, address) in callers.into_iter().enumerate() {
        lines.push(format!("#{number:<2} {address:#x} {}", debugger.kernel.symbols.describe(address)));
    }
}

/// The registers of a task that sleeps, by its number.
fn registers_of(debugger: &mut Debugger, task: &str) -> Result<Kept, String> {
    let mut sleepers = Sleepers::of(&debugger.timeline, &debugger.kernel).map_err(|why| why.to_string())?;
    let found = sleepers.all(&mut debugger.timeline).iter().find(|known| task.parse() == Ok(known.pid)).cloned();
    let kept = found.and_then(|task| sleepers.registers(&task, &mut debugger.timeline));
    kept.ok_or_else(|| format!("`{task}` is not the number of a task that sleeps: `monitor tasks` lists them"))
}

fn threads(debugger: &mut Debugger, which: &str, lines: &mut Vec<String>) {
    match which {
        "cpus" => debugger.sleepers = None,
        "tasks" => match Sleepers::of(&debugger.timeline, &debugger.kernel) {
            Ok(mut sleepers) => {
                let count = sleepers.all(&mut debugger.timeline).len();
                debugger.sleepers = Some(sleepers);
                lines.push(format!("{count} tasks sleep here: `info threads` lists them"));
            }
            Err(why) => lines.push(why.to_string()),
        },
        _ => lines.push("monitor threads tasks, or monitor threads cpus".into()),
    }
}

fn why(debugger: &mut Debugger, lines: &mut Vec<String>) -> Result<(), TimelineError> {
    let entries = cause::entries(&debugger.kernel);
    let here = debugger.timeline.place();
    if !entries.contains(&here.pc) {
        lines.push("go to a call of panic() or oops_enter() first: break panic, continue or reverse-continue".into());
        return Ok(());
    }
    let kernel = &debugger.kernel;
    lines.extend(cause::explain(&mut debugger.timeline, kernel, &|address| kernel.symbols.describe(address))?);
    debugger.timeline.go_to_or_before(here)?;
    Ok(())
}

fn tasks(debugger: &mut Debugger, lines: &mut Vec<String>) {
    for cpu in 0..debugger.timeline.machine().clocks().len() {
        let (pid, comm, pc) = debugger.timeline.look_at(cpu, |view| (view.pid(), view.comm(), view.pc));
        let comm = comm.split(|byte| *byte == 0).next().unwrap_or_default();
        let name = debugger.kernel.symbols.describe(pc);
        lines.push(format!("CPU {cpu}: task `{}` ({pid}) at {pc:#x} {name}", String::from_utf8_lossy(comm)));
    }
    let fields = TaskFields::of(&debugger.kernel);
    let all = fields.map(|fields| debugger.timeline.look().look(|view| fields.tasks(view))).unwrap_or_default();
    let row = |Task { pid, process, state, comm, .. }: &Task| format!("{pid:>7}{process:>7} {state} {comm}");
    lines.extend(all.iter().map(row));
}

fn modules(debugger: &mut Debugger, lines: &mut Vec<String>) {
    let kernel = &debugger.kernel;
    let Some(modules) = debugger.timeline.look().look(|view| lists::modules(kernel, view)) else {
        lines.push("the kernel's list of modules cannot be read: this kernel has no types (BTF)".into());
        return;
    };
    for LoadedModule { name, sections, .. } in &modules {
        let address = |wanted: &str| sections.iter().find(|(name, _)| name == wanted).map(|(_, address)| *address);
        let Some(text) = address(".text").or_else(|| address(".init.text")) else {
            lines.push(format!("add-symbol-file {}{name}", files::MODULES));
            continue;
        };
        let others = SECTIONS.iter().filter_map(|name| Some(format!(" -s {name} {:#x}", address(name)?)));
        lines.push(format!("add-symbol-file {}{name}", files::MODULES));
        lines.push(format!("# or by its file: add-symbol-file {name}.ko {text:#x}{}", others.collect::<String>()));
    }
    if modules.is_empty() {
        lines.push("no modules are loaded".into());
    }
}

/// Sections of modules with symbols that a person may ask for.
const SECTIONS: [&str; 6] = [".data", ".bss", ".rodata", ".data..read_mostly", ".init.text", ".exit.text"];

fn checkpoint(debugger: &mut Debugger, lines: &mut Vec<String>) {
    let place = debugger.timeline.place();
    debugger.kept.push((place, debugger.timeline.machine().now()));
    lines.push(format!("checkpoint {}: {}", debugger.kept.len(), time(debugger)));
}

fn restart(debugger: &mut Debugger, number: &str, lines: &mut Vec<String>) -> Result<(), TimelineError> {
    if number.is_empty() {
        let row = |(number, (place, now)): (usize, &(Place, u64))| {
            format!("checkpoint {}: {:?}, {}", number + 1, Duration::from_nanos(*now), debugger.kernel.symbols.describe(place.pc))
        };
        lines.extend(debugger.kept.iter().enumerate().map(row));
        return Ok(());
    }
    let kept = number.parse::<usize>().ok().and_then(|number| debugger.kept.get(number.checked_sub(1)?).copied());
    let Some((place, _)) = kept else {
        lines.push(format!("`{number}` is no checkpoint: `monitor restart` lists them"));
        return Ok(());
    };
    let here = debugger.timeline.place();
    match debugger.timeline.go_to(place) {
        Ok(()) => lines.push(time(debugger)),
        Err(TimelineError::NoSuchPlace(_)) => {
            debugger.timeline.go_to_or_before(here)?;
            lines.push(format!("the run does not come to checkpoint {number} any more: it was changed, or something was typed"));
        }
        Err(error) => return Err(error),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read() {
        #[rustfmt::skip]
        let cases = [
            ("300ns", Some(300)), ("1.5ms", Some(1_500_000)), ("2s", Some(2_000_000_000)), ("-5us", Some(5_000)),
            ("+5us", Some(15_000)), ("-1s", Some(0)), ("5", None), ("", None), ("ms", None), ("-", None), ("1e9s", None), ("9999999999999s", None),
        ];
        for (text, expected) in cases {
            assert_eq!(moment(text, 10_000), expected, "{text}");
        }
    }
}
