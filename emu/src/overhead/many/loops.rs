//! Loops without a probe, to measure plain guest code on the CPU core and the machine: short blocks, loads and stores,
//! system calls, and the MMU's work of a task switch. `loops/rows.rs` has a table for each ISA.

mod rows;

use super::super::bench_loop::BenchLoop;
use super::{Code, ENTRY, LOOP, Many, PAGE, find};
use crate::boot::Kernel;
use crate::machine::Config;
use crate::probed::Session;
use trapline_probes::probe::{Flow, Kprobe};

/// The loops of an ISA.
pub struct Loops {
    /// The name on the command line, such as `loops/x86_64`.
    pub name: &'static str,
    /// The guest of `many/guests.rs` whose entry code and page tables these loops use.
    many: &'static str,
    /// The loops.
    pub all: &'static [Loop],
}

/// One loop.
pub struct Loop {
    /// `blocks`, `memory`, `syscall`, `switch`, or `branches`, a branch with its delay slot.
    pub what: &'static str,
    before: Code,
    round: Code,
    /// Code and data for the page behind the entry code, each with its offset in that page, in ascending order.
    page: &'static [(u64, Code)],
    /// Bytes of code that a round executes in that page.
    handler: u64,
    /// The number of budget units in a round: instructions, or one system call or switch.
    units: u64,
}

/// Offset from the start of RAM of the page behind the entry code. It holds vectors and descriptors.
const BEHIND: u64 = ENTRY + PAGE;

/// The loops with that name.
pub fn of(name: &str) -> Option<&'static Loops> {
    ALL.iter().find(|loops| loops.name == name)
}

impl Loops {
    /// Starts the guest in one of its loops.
    pub fn bench_loop(&self, chosen: &Loop) -> Result<BenchLoop, String> {
        let many = find(self.many).ok_or_else(|| format!("{} has no guest {}", self.name, self.many))?;
        let session = Session::new(many.looping(chosen), &Config::default()).map_err(|error| error.to_string())?;
        BenchLoop::in_session(session, THE_LOOP)
    }

    /// Starts the guest in its loop of branches, if it has one, and makes a probe for the loop's first branch.
    pub fn branches(&self) -> Option<Result<(BenchLoop, Kprobe), String>> {
        let chosen = self.all.iter().find(|chosen| chosen.what == BRANCHES)?;
        Some(self.bench_loop(chosen).map(|bench| (bench, Kprobe::at(THE_LOOP).pre(|_| Flow::Continue))))
    }
}

impl Loop {
    /// The number of rounds made in that much virtual time.
    pub fn rounds_in(&self, ticks: u64) -> u64 {
        ticks / (self.round.len() + self.handler)
    }

    /// The number of units executed in that much virtual time, which is counted in bytes of code.
    pub fn units_in(&self, ticks: u64) -> u64 {
        ticks * self.units / (self.round.len() + self.handler)
    }
}

const THE_LOOP: &str = "the_loop";

/// A loop that begins with a branch that a probe computes together with its delay slot.
const BRANCHES: &str = "branches";

impl Many {
    fn looping(&self, chosen: &Loop) -> Kernel {
        let order = self.arch.isa().order;
        let entry = [self.filled(self.entry, LOOP - ENTRY), chosen.before.bytes(order), chosen.round.bytes(order)].concat();
        let mut page = Vec::new();
        for (at, code) in chosen.page {
            page.resize(*at as usize, 0);
            page.extend(code.bytes(self.arch.isa().order));
        }
        let pieces = vec![
            self.piece(super::TABLES, self.table_bytes(), false),
            self.piece(ENTRY, entry, true),
            self.piece(BEHIND, [page, vec![0]].concat(), true),
        ];
        let names = [("_stext", ENTRY), (THE_LOOP, LOOP), ("_etext", BEHIND + PAGE), ("_end", BEHIND + PAGE)];
        self.kernel_of(pieces, names.map(|(name, at)| (self.base + at, name.to_string())))
    }
}

/// All loops.
pub const ALL: &[Loops] = rows::ALL;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{Stop, What};

    /// OP-1: every loop that budgets use runs forever, and only `syscall` makes system calls, one per round.
    #[test]
    fn loops_go_round_and_the_one_of_system_calls_makes_one_a_round() {
        for loops in ALL {
            let many = find(loops.many).expect("a guest of many functions");
            for chosen in loops.all {
                let name = format!("{} {}", loops.name, chosen.what);
                let config = Config { record_events: true, ..Config::default() };
                let mut session = Session::new(many.looping(chosen), &config).unwrap_or_else(|why| panic!("{name}: {why}"));
                for until in [10_000, 20_000] {
                    assert_eq!(session.run_until(until), Stop::Limit, "{name}");
                }
                let first = session.kernel().symbols.address_of(THE_LOOP).expect("it has a name");
                let code = first..first + chosen.before.len() + chosen.round.len();
                let pc = session.machine_mut().pcs()[0];
                assert!(code.contains(&pc) || chosen.handler > 0, "{name}: at {pc:#x}");
                let machine = session.machine();
                let made = machine.happenings().iter().filter(|one| matches!(one.what, What::SystemCall | What::Exception(..)));
                let expected = if chosen.what == "syscall" { chosen.units_in(machine.time()) } else { 0 };
                // The code before the loop takes time, too.
                assert!(made.count().abs_diff(expected as usize) < 20, "{name}: {expected}");
            }
        }
    }
}
