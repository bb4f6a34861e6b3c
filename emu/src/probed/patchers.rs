//! Keeps breakpoints and jumps out of the text while the guest's kernel reads or patches it: at alternatives, ftrace, static
//! keys, its own kprobes.
//!
//! The machine calls [`Patchers::arrived`] when a CPU reaches the entry of one of the functions in `PATCHERS`; no breakpoint
//! is needed there. Until that function returns, [`Patchers::work_on`] says which part of the text must be free of the
//! engine's bytes, and the session has the engine take them out. The list has the functions whose behaviour depends on the
//! text that they read, and those that overwrite text that others read.
//!
//! Only the task that entered the function must not see the engine's bytes; other CPUs hit probes in their turns. While the
//! task is in the scheduler (`SCHEDULER`) or interrupted, the function reads no text. So the bytes are put back until the
//! function continues, on whatever CPU. If the kernel has no symbol for its scheduler, they stay out in all turns until the
//! function returns.

use crate::boot::Kernel;
use crate::cpu::View;
use std::collections::{BTreeMap, HashMap};
use trapline_isa::call;
use trapline_isa::mem::Memory;
use trapline_isa::regs::Registers;
use trapline_probes::Engine;
use trapline_probes::guest::Cpu;
use trapline_probes::withdraw::Withdrawn;

/// The part of the text that a function works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    /// All text.
    All,
    /// A range, by the numbers of the arguments with its address and its length.
    Range(usize, usize),
    /// This many bytes from each address in these arguments.
    Around(&'static [usize], u64),
    /// This many bytes on either side of an address in memory: the first word of the ftrace record that this argument
    /// points to. (On PowerPC the instruction in front of the site is read, too.)
    Near(usize, u64),
    /// This many bytes at the site of the jump label that this argument points to.
    Label(usize, u64),
}
use Reach::*;

/// Linux's functions by name, except those of a single ISA (`Marks::patchers`). A kernel has some of them. A function
/// that is called by another one of the list is listed if it has other callers, too.
#[rustfmt::skip]
const PATCHERS: &[(&str, Reach)] = &[
    // patching for the CPU found at boot, also in modules
    ("alternative_instructions",        All),
    ("apply_alternatives",              All),
    ("apply_alternatives_all",          All),
    ("apply_boot_alternatives",         All),
    ("apply_feature_fixups",            All),
    ("apply_retpolines",                All),
    ("apply_returns",                   All),
    ("apply_paravirt",                  All),
    ("apply_ibt_endbr",                 All),
    ("apply_seal_endbr",                All),
    ("apply_fineibt",                   All),
    ("alternatives_smp_module_add",     All),
    ("alternatives_enable_smp",         All),
    ("fixup_smp",                       All),
    ("nospec_revert",                   All),
    ("do_feature_fixups",               All),
    ("do_lwsync_fixups",                All),
    ("do_rfi_flush_fixups",             All),
    ("do_entry_flush_fixups",           All),
    ("do_uaccess_flush_fixups",         All),
    ("do_stf_barrier_fixups",           All),
    ("do_barrier_nospec_fixups",        All),
    ("do_barrier_nospec_fixups_range",  All),
    ("do_btb_flush_fixups",             All),
    // ftrace: reads, compares and writes every site
    ("arch_ftrace_update_code",         All),
    ("arch_ftrace_update_trampoline",   All),
    ("ftrace_modify_all_code",          All),
    ("ftrace_init_nop",                 Near(1, 8)),
    ("ftrace_make_nop",                 Near(1, 8)),
    ("ftrace_make_call",                Near(0, 8)),
    ("ftrace_modify_call",              Near(0, 8)),
    ("ftrace_modify_code_direct",       Around(&[0], 8)),
    ("ftrace_update_ftrace_func",       All),
    ("ftrace_enable_ftrace_graph_caller",  All),
    ("ftrace_disable_ftrace_graph_caller", All),
    // static keys: compare each site with what they expect, old kernels all of them at boot; tracepoints have such sites
    ("arch_jump_label_transform",        Label(0, 8)),
    ("arch_jump_label_transform_queue",  Label(0, 8)),
    ("arch_jump_label_transform_static", Label(0, 8)),
    // the guest's own kprobes: decode a site from its function's start
    ("arch_adjust_kprobe_addr",         All),
    ("arch_prepare_kprobe",             All),
    ("arch_arm_kprobe",                 All),
    ("arch_disarm_kprobe",              All),
    ("arch_prepare_optimized_kprobe",   All),
    ("arch_optimize_kprobes",           All),
    ("arch_unoptimize_kprobe",          All),
    ("arch_unoptimize_kprobes",         All),
    // others
    ("arch_static_call_transform",      Around(&[0, 1], 8)),
    ("__static_call_fixup",             Around(&[0], 8)),
    ("bpf_arch_text_poke",              All),
    ("bpf_arch_poke_desc_update",       All),
    ("kgdb_arch_set_breakpoint",        All),
    ("kgdb_arch_remove_breakpoint",     All),
    // print text for people
    ("show_opcodes",                    All),
    ("dump_instr",                      All),
    ("show_code",                       All),
    ("show_instructions",               All),
    ("read_kcore",                      All),
    ("read_kcore_iter",                 All),
    // the work of any stopped CPU, such as arm64's alternatives and 32-bit ARM's kprobes: the caller waits in the scheduler
    ("multi_cpu_stop",                  All),
    // low-level functions that read and write text, for callers not listed above
    ("__text_poke",                     Range(1, 3)),
    ("text_poke_early",                 Range(0, 2)),
    ("copy_from_kernel_nofault",        Range(1, 2)),
    ("patch_text",                      Around(&[0], 8)),
    ("__patch_text_real",               Around(&[0], 8)),
    ("aarch64_insn_read",               Around(&[0], 4)),
    ("aarch64_insn_write",              Around(&[0], 4)),
    ("aarch64_insn_patch_text_nosync",  Around(&[0], 4)),
    ("patch_instruction",               Around(&[0], 8)),
    ("raw_patch_instruction",           Around(&[0], 8)),
    ("s390_kernel_write",               Range(0, 2)),
];

/// A call of such a function that has not returned. The return address and the stack pointer identify it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Call {
    /// The true return address.
    returns_to: u64,
    /// The stack pointer after the return.
    sp: u64,
    /// The part of the text that it works on.
    on: Withdrawn,
    name: &'static str,
    /// The guest time at its entry, in nanoseconds.
    since: u64,
    /// The task that made the call; 0 if it is not known.
    task: u64,
    runs: Runs,
}

/// Says on which CPU the function of a call runs now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Runs {
    /// The CPU with this number runs it.
    On(usize),
    /// Nowhere, until a CPU is at this address with this stack pointer.
    Until(u64, u64),
    /// It is not known which CPU runs the task.
    Anywhere,
}

/// The functions of a kernel that work on text, and the calls of them that are in progress.
pub struct Patchers {
    /// The entries of these functions, with their names and the text that they work on.
    entries: HashMap<u64, (&'static str, Reach)>,
    /// The calls in progress. There are several if one sleeps or is interrupted.
    calls: Vec<Call>,
    /// The union of the parts that the calls of this turn's CPU work on.
    work: Withdrawn,
    /// The CPU whose turn it is.
    turn: usize,
    /// Rejects most addresses that need not be watched.
    filter: Filter,
    /// The statistics, by function.
    done: BTreeMap<&'static str, Done>,
    /// The entries of the functions of [`SCHEDULER`].
    scheduler: Vec<u64>,
    /// The addresses at which the boot has finished patching the text. Empty after a CPU got there.
    settles_at: Vec<u64>,
}

/// Statistics of one function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// Calls that met text with probes.
    pub times: u64,
    /// Guest time in these calls, in nanoseconds.
    pub nanoseconds: u64,
}

/// The function after which the boot has patched its own text for the present CPU (ftrace sites, alternatives, return
/// thunks, static calls).
const TEXT_IS_PATCHED: &str = "rest_init";

/// Functions of the scheduler, which touch no text: those by which a task wakes others, and those by which it leaves its
/// CPU to another one. All ways to leave it lead through the last, which is local to its file, so the compiler may add a
/// suffix to its name.
const SCHEDULER: [&str; 8] = [
    "wake_up_q",
    "wake_up_process",
    "try_to_wake_up",
    "schedule",
    "preempt_schedule",
    "preempt_schedule_irq",
    "preempt_schedule_notrace",
    "__schedule",
];

impl Patchers {
    /// The functions of the list that a kernel has.
    pub fn of(kernel: &Kernel) -> Patchers {
        let settles_at = kernel.symbols.address_of(TEXT_IS_PATCHED).into_iter().flat_map(|at| kernel.entries(at)).collect();
        let own = kernel.patchers().map(|name| (name, All));
        let names: HashMap<&str, (&'static str, Reach)> = PATCHERS.iter().copied().chain(own).map(|row| (row.0, row)).collect();
        let text = kernel.symbols.places().iter().filter(|entry| entry.is_text());
        let known = text.filter_map(|entry| Some((entry.address, *names.get(&*entry.name)?)));
        let entries_of = |name: &str| {
            let is_it = |of: &str| of.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
            let places = kernel.symbols.places().iter().filter(move |entry| entry.is_text() && is_it(&entry.name));
            places.flat_map(|entry| kernel.entries(entry.address)).collect::<Vec<u64>>()
        };
        let [.., all_lead_here] = SCHEDULER;
        let scheduler = match entries_of(all_lead_here) {
            none if none.is_empty() => none,
            _ => SCHEDULER.into_iter().flat_map(entries_of).collect(),
        };
        let entries = known.flat_map(|(address, row)| kernel.entries(address).map(move |at| (at, row))).collect();
        let mut patchers = Patchers {
            entries,
            calls: Vec::new(),
            work: Withdrawn::default(),
            turn: 0,
            filter: Filter([false; PLACES]),
            done: BTreeMap::new(),
            scheduler,
            settles_at,
        };
        patchers.make_filter();
        patchers
    }

    /// Whether [`Patchers::arrived`] must be called at this address.
    #[inline]
    pub fn watch(&self, pc: u64) -> bool {
        self.filter.may_hold(pc) && self.is_watched(pc)
    }

    #[cold]
    fn is_watched(&self, pc: u64) -> bool {
        let of_a_call = || self.of_calls().any(|at| at == pc);
        self.entries.contains_key(&pc) || self.settles_at.contains(&pc) || of_a_call()
    }

    /// Whether a call is in progress. Its return address is then watched, too.
    pub fn are_at_work(&self) -> bool {
        !self.calls.is_empty()
    }

    /// The part of the text that must be free of probes now.
    pub fn work_on(&self) -> &Withdrawn {
        &self.work
    }

    /// Whether the boot has yet to patch the text for the present CPU.
    pub fn are_early(&self) -> bool {
        !self.settles_at.is_empty()
    }

    /// Resets the state after a snapshot of a booted guest was restored.
    pub fn start_over(&mut self) {
        self.calls.clear();
        (self.work, self.settles_at) = (Withdrawn::default(), Vec::new());
        self.make_filter();
    }

    /// The statistics, by function.
    pub fn done(&self) -> &BTreeMap<&'static str, Done> {
        &self.done
    }

    /// Handles the arrival of a CPU at a watched address. This may change [`Patchers::work_on`].
    pub fn arrived(&mut self, cpu: &mut View, engine: &Engine) {
        let (pc, sp) = (cpu.pc(), cpu.get(cpu.isa.abi.sp));
        if self.settles_at.contains(&pc) {
            self.settles_at.clear();
        }
        let calls = self.calls.len();
        let (work, now) = (&mut self.done, cpu.now());
        self.calls.retain(|call| {
            let goes_on = (call.returns_to, call.sp) != (pc, sp);
            if !goes_on {
                let done = work.entry(call.name).or_default();
                (done.times, done.nanoseconds) = (done.times + 1, done.nanoseconds + now.saturating_sub(call.since));
            }
            goes_on
        });
        let left = calls != self.calls.len();
        let moved = self.follow_tasks(cpu, engine);
        let entered = self.enter(cpu, engine);
        self.turn = cpu.number();
        if left || moved || entered {
            self.make_filter();
            self.set_work();
        }
    }

    /// Adds a call if a CPU is at the entry of one of the functions. Returns whether it did.
    fn enter(&mut self, cpu: &mut View, engine: &Engine) -> bool {
        let (pc, sp) = (cpu.pc(), cpu.get(cpu.isa.abi.sp));
        if let Some(&(name, reach)) = self.entries.get(&pc)
            && let Some((returns_to, sp)) = way_back(cpu, sp, engine)
            && !self.calls.iter().any(|call| (call.returns_to, call.sp) == (returns_to, sp))
        {
            let on = met(cpu, reach, engine);
            if !on.is_empty() {
                let task = cpu.task();
                let follows = task != 0 && !self.scheduler.is_empty();
                let runs = if follows { Runs::On(cpu.number()) } else { Runs::Anywhere };
                self.calls.push(Call { returns_to, sp, on, name, since: cpu.now(), task, runs });
                return true;
            }
        }
        false
    }

    /// Updates the calls of this CPU's task if it enters the scheduler or has returned from it. Returns whether it did.
    fn follow_tasks(&mut self, cpu: &mut View, engine: &Engine) -> bool {
        if !self.are_at_work() {
            return false;
        }
        let (pc, sp, number, task) = (cpu.pc(), cpu.get(cpu.isa.abi.sp), cpu.number(), cpu.task());
        let back = self.scheduler.contains(&pc).then(|| way_back(cpu, sp, engine)).flatten();
        let mut moved = false;
        for call in self.calls.iter_mut().filter(|call| call.task == task) {
            let runs = match (call.runs, back) {
                (Runs::On(_), Some((at, sp))) => Runs::Until(at, sp),
                (Runs::Until(at, above), _) if (at, above) == (pc, sp) => Runs::On(number),
                _ => continue,
            };
            (call.runs, moved) = (runs, true);
        }
        moved
    }

    /// An interrupt is delivered to a CPU. Returns whether [`Patchers::work_on`] has changed.
    pub fn interrupted(&mut self, cpu: &mut View) -> bool {
        let (pc, sp, number, task) = (cpu.pc(), cpu.get(cpu.isa.abi.sp), cpu.number(), cpu.task());
        let runs = Runs::On(number);
        let mut moved = false;
        for call in self.calls.iter_mut().filter(|call| call.task == task && call.runs == runs) {
            (call.runs, moved) = (Runs::Until(pc, sp), true);
        }
        if moved {
            self.make_filter();
            self.set_work();
        }
        moved
    }

    /// The turn of the CPU with this number begins. This may change [`Patchers::work_on`].
    pub fn turns(&mut self, next: usize) {
        self.turn = next;
        if self.are_at_work() {
            self.set_work();
        }
    }

    /// Recomputes [`Patchers::work_on`] from the calls that run, or may run, in this turn.
    fn set_work(&mut self) {
        let calls = || self.calls.iter().filter(|call| call.runs == Runs::Anywhere || call.runs == Runs::On(self.turn));
        let work =
            Withdrawn { all: calls().any(|call| call.on.all), parts: calls().flat_map(|call| call.on.parts.clone()).collect() };
        self.work = work;
    }

    /// The addresses to watch for the calls in progress: their returns, the places where they continue, and the scheduler.
    fn of_calls(&self) -> impl Iterator<Item = u64> + '_ {
        let scheduler = if self.are_at_work() { &self.scheduler[..] } else { &[] };
        let back = |call: &Call| match call.runs {
            Runs::Until(at, _) => Some(at),
            _ => None,
        };
        self.calls.iter().flat_map(move |call| [Some(call.returns_to), back(call)]).flatten().chain(scheduler.iter().copied())
    }

    fn make_filter(&mut self) {
        self.filter = self.entries.keys().copied().chain(self.of_calls()).chain(self.settles_at.iter().copied()).collect();
    }
}

/// The parts of the text that the entered function works on, as far as they contain bytes of the engine.
fn met(cpu: &mut View, reach: Reach, engine: &Engine) -> Withdrawn {
    let mut parts = Vec::new();
    let mut part = |start: u64, len: u64| parts.push(start..start.saturating_add(len));
    match reach {
        All => return Withdrawn::everywhere(),
        Range(address, len) => part(argument(cpu, address), argument(cpu, len)),
        Around(arguments, len) => arguments.iter().for_each(|number| part(argument(cpu, *number), len)),
        Near(number, len) => {
            let (record, word) = (argument(cpu, number), cpu.isa.word);
            part(cpu.read_number(record, word).unwrap_or(0).saturating_sub(len), 2 * len);
        }
        Label(number, len) => {
            // The first field of a jump label is the distance to the site, or on some ISAs its address. Both readings are
            // tried: the wrong one gives no address of probed text.
            let (label, word) = (argument(cpu, number), cpu.isa.word);
            let distance = cpu.read_number(label, 4).unwrap_or(0) as u32 as i32;
            part(label.wrapping_add_signed(distance.into()), len);
            part(cpu.read_number(label, word).unwrap_or(0), len);
        }
    }
    parts.retain(|part| engine.stands_in(part.clone()));
    Withdrawn { all: false, parts }
}

/// An argument of the entered function; 0 if it cannot be read.
fn argument(cpu: &mut View, number: usize) -> u64 {
    let isa = cpu.isa;
    call::argument(isa, &[], number).read(isa, |place| match place {
        call::Home::Register(register) => cpu.get(register),
        call::Home::Stack(above) => {
            let at = cpu.get(isa.abi.sp).wrapping_add_signed(above);
            cpu.read_number(at, isa.word).unwrap_or(0)
        }
    })
}

/// The return address of the entered function, and the stack pointer after the return.
pub(super) fn way_back(cpu: &mut View, sp: u64, engine: &Engine) -> Option<(u64, u64)> {
    let isa = cpu.isa;
    let found = call::return_address(cpu, isa).ok()? & !isa.pointer_bits;
    // The function was entered by a tail call from a function with a return probe.
    let behind_pad = (engine.return_pad() == Some(found)).then(|| engine.real_return_address(cpu.task(), sp)).flatten();
    Some((behind_pad.map_or(found, |behind| behind & !isa.pointer_bits), call::stack_behind_return(isa, sp)))
}

/// A Bloom filter with one hash function, to reject most addresses with one load.
#[derive(Clone, Copy, Debug)]
pub(super) struct Filter([bool; PLACES]);

const PLACES: usize = 4096;

impl Filter {
    #[inline]
    pub(super) fn may_hold(&self, address: u64) -> bool {
        self.0[place(address)]
    }
}

impl FromIterator<u64> for Filter {
    fn from_iter<I: IntoIterator<Item = u64>>(addresses: I) -> Filter {
        let mut filter = Filter([false; PLACES]);
        for address in addresses {
            filter.0[place(address)] = true;
        }
        filter
    }
}

/// The filter's hash. Most functions start at multiples of 16. It runs for every block, so it must be cheap.
#[inline]
fn place(address: u64) -> usize {
    (address >> 4) as usize % PLACES
}
