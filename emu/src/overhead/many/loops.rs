//! Loops without a probe, to measure plain guest code on the CPU core and the machine: short blocks, loads and stores,
//! system calls, and the MMU's work of a task switch. One loop runs as a program, for a probe on it. `loops/rows.rs` has
//! a table for each ISA.

mod rows;

use super::super::bench_loop::BenchLoop;
use super::{Code, ENTRY, LOOP, Many, PAGE, find};
use crate::boot::Kernel;
use crate::boot::guest_files::{GuestFiles, Sources};
use crate::boot::initramfs::Archive;
use crate::machine::Config;
use crate::probed::Session;
use trapline_probes::probe::{Flow, Kprobe};
use trapline_probes::user::{Place, UserProbe};

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
    /// `blocks`, `memory`, `syscall`, `switch`, `program`, which runs in user mode, or `branches`, a branch with its delay
    /// slot.
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

    /// Starts the guest in its loop that is a program, if it has one, and makes a probe with an empty handler for the loop's
    /// first instruction. The page of the entry code is the program's file.
    pub fn program(&self) -> Option<Result<(BenchLoop, UserProbe), String>> {
        let chosen = self.all.iter().find(|chosen| chosen.what == PROGRAM)?;
        Some(self.bench_loop(chosen).and_then(|mut bench| {
            let session = bench.session();
            let mut page = vec![0; PAGE as usize];
            let start = session.kernel().symbols.address_of("_stext").ok_or("the loop has no text")?;
            session.kernel().read(start, &mut page).map_err(|fault| format!("{:#x} is not in the kernel", fault.address))?;
            let mut archive = Archive::default();
            archive.program(THE_LOOP, &page);
            session.know_files(GuestFiles::new(Some(archive.finish().into()), Sources::default()));
            let offset = LOOP - ENTRY + chosen.before.len();
            let probe = UserProbe::at(format!("/{THE_LOOP}"), Place::Offset(offset), |_| {});
            Ok((bench, probe))
        }))
    }

    /// The rounds of the loop that is a program, made in that much virtual time.
    pub fn program_rounds_in(&self, ticks: u64) -> u64 {
        self.all.iter().find(|chosen| chosen.what == PROGRAM).map_or(0, |chosen| chosen.rounds_in(ticks))
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

/// A loop in user mode.
const PROGRAM: &str = "program";

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
                let is_program = chosen.what == PROGRAM && !session.machine().in_kernel();
                assert!(is_program || code.contains(&pc) || chosen.handler > 0, "{name}: at {pc:#x}");
                let machine = session.machine();
                let made = machine.happenings().iter().filter(|one| matches!(one.what, What::SystemCall | What::Exception(..)));
                let expected = if chosen.what == "syscall" { chosen.units_in(machine.time()) } else { 0 };
                // The code before the loop takes time, too.
                assert!(made.count().abs_diff(expected as usize) < 20, "{name}: {expected}");
            }
        }
    }
    /// BY-2, OP-1: the probe on the program's loop is hit once in each round, and after its removal no more.
    #[test]
    fn a_probe_on_the_program_is_hit_once_in_a_round() {
        let with_program = ALL.iter().filter_map(|loops| Some((loops, loops.program()?)));
        let mut count = 0;
        for (loops, made) in with_program {
            let (mut bench, probe) = made.unwrap_or_else(|why| panic!("{}: {why}", loops.name));
            let registered = bench.session().register_user(&probe);
            registered.unwrap_or_else(|refusal| panic!("{}: {refusal}", loops.name));
            let before = bench.session().machine().time();
            bench.run(10_000).expect("it goes round");
            let rounds = loops.program_rounds_in(bench.session().machine().time() - before);
            assert!(rounds > 1_000 && probe.hits().abs_diff(rounds) <= 2, "{}: {} of {rounds}", loops.name, probe.hits());
            assert!(probe.is_by_content(), "{}", loops.name);
            bench.session().unregister_user(&probe);
            let hits = probe.hits();
            bench.run(10_000).expect("it goes round");
            assert_eq!(probe.hits(), hits, "{}", loops.name);
            count += 1;
        }
        assert!(count >= 8, "{count} ISAs");
    }
}
