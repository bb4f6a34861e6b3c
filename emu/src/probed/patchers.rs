//! The guest's own readers and writers of its text, and how the engine stays out of their way.
//!
//! No breakpoint is needed for this: the machine calls us when a CPU reaches the entry of one of these functions. From
//! there until the function returns, the engine's bytes are taken out of the text. The list has the functions whose
//! behaviour depends on the text that they read, and those that overwrite text that others read.
//!
//! With several CPUs the text is free of the engine's bytes during the turns of the CPU that runs the function. Other CPUs
//! hit probes in their turns. While the function's task sleeps, the text is free in all turns, because any CPU may
//! continue it.

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

/// A call of such a function that has not returned.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Call {
    returns_to: u64,
    /// The stack pointer after the return.
    sp: u64,
    /// The part of the text that it works on.
    on: Withdrawn,
    name: &'static str,
    since: u64,
    /// The task that made the call; 0 if it is not known.
    task: u64,
    /// The CPU that runs this task. `None`: none, or it is not known which one.
    cpu: Option<usize>,
}

/// The state of the guest's work on its text.
pub struct Patchers {
    entries: HashMap<u64, (&'static str, Reach)>,
    /// The calls in progress. There can be several, if one sleeps or in an interrupt.
    calls: Vec<Call>,
    /// The union of the parts that the calls of this turn's CPU work on.
    work: Withdrawn,
    /// The CPU whose turn it is.
    turn: usize,
    filter: Filter,
    done: BTreeMap<&'static str, Done>,
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

impl Patchers {
    /// The functions of the list that a kernel has.
    pub fn of(kernel: &Kernel) -> Patchers {
        let settles_at = kernel.symbols.address_of(TEXT_IS_PATCHED).into_iter().flat_map(|at| kernel.entries(at)).collect();
        let own = kernel.patchers().map(|name| (name, All));
        let names: HashMap<&str, (&'static str, Reach)> = PATCHERS.iter().copied().chain(own).map(|row| (row.0, row)).collect();
        let text = kernel.symbols.places().iter().filter(|entry| entry.is_text());
        let known = text.filter_map(|entry| Some((entry.address, *names.get(&*entry.name)?)));
        let entries = known.flat_map(|(address, row)| kernel.entries(address).map(move |at| (at, row))).collect();
        let mut patchers = Patchers {
            entries,
            calls: Vec::new(),
            work: Withdrawn::default(),
            turn: 0,
            filter: Filter([false; PLACES]),
            done: BTreeMap::new(),
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
        let returns = || self.calls.iter().any(|call| call.returns_to == pc);
        self.entries.contains_key(&pc) || self.settles_at.contains(&pc) || returns()
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
        if let Some((name, reach)) = self.entries.get(&pc)
            && let Some((returns_to, sp)) = way_back(cpu, sp, engine)
            && !self.calls.iter().any(|call| (call.returns_to, call.sp) == (returns_to, sp))
        {
            let on = met(cpu, *reach, engine);
            if !on.is_empty() {
                let (task, cpu) = (cpu.task(), Some(cpu.number()));
                self.calls.push(Call { returns_to, sp, on, name, since: now, task, cpu: cpu.filter(|_| task != 0) });
            }
        }
        self.turn = cpu.number();
        if self.calls.len() != calls {
            self.make_filter();
            self.set_work();
        }
    }

    /// The turn of the CPU with the number `next` begins; `cpu` is the one whose turn ends. This may change
    /// [`Patchers::work_on`].
    pub fn turns(&mut self, cpu: &mut View, next: usize) {
        self.turn = next;
        if self.calls.is_empty() {
            return;
        }
        let (number, task) = (cpu.number(), cpu.task());
        for call in &mut self.calls {
            if call.task == task && task != 0 {
                call.cpu = Some(number);
            } else if call.cpu == Some(number) {
                call.cpu = None;
            }
        }
        self.set_work();
    }

    fn set_work(&mut self) {
        let calls = || self.calls.iter().filter(|call| call.cpu.is_none_or(|cpu| cpu == self.turn));
        let work =
            Withdrawn { all: calls().any(|call| call.on.all), parts: calls().flat_map(|call| call.on.parts.clone()).collect() };
        self.work = work;
    }

    fn make_filter(&mut self) {
        let returns = self.calls.iter().map(|call| call.returns_to);
        self.filter = self.entries.keys().copied().chain(returns).chain(self.settles_at.iter().copied()).collect();
    }
}

/// The parts of the text that the entered function works on and where the engine has bytes.
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
            // Its first field is the site's distance, or on some ISAs the site's address; only one of both is probed text.
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
