//! The guest's own readers and writers of its text, and how our bytes keep out of their way.
//!
//! Nothing is planted: the machine tells when the CPU comes to the entry of one of these functions, and the text is the
//! guest's alone from there to the function's return. Which functions: those that decide by what they read or write
//! what others have read; what only changes a static key or a static call never meets a probe, for none may stand
//! there.

use crate::boot::Kernel;
use crate::cpu::View;
use std::collections::{BTreeMap, HashMap};
use trapline_isa::call;
use trapline_isa::mem::Memory;
use trapline_isa::regs::Registers;
use trapline_probes::Engine;
use trapline_probes::guest::Cpu;
use trapline_probes::withdraw::Withdrawn;

/// What of the text a function meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    /// Any of it.
    All,
    /// What its arguments say: address, length.
    Range(usize, usize),
    /// So many bytes from each of these arguments on.
    Around(&'static [usize], u64),
    /// So many bytes on either side of the address that this argument points to: the first word of an ftrace record.
    /// (PowerPC's look whether the call is one, by what stands in front of it.)
    Near(usize, u64),
}
use Reach::*;

/// Linux's functions by name, of all ISAs but what only one has (`Marks::patchers`); a kernel has some of them. Those that are called by others of the list
/// stand here too where they have other callers.
#[rustfmt::skip]
const PATCHERS: &[(&str, Reach)] = &[
    // for the CPU that was found, at boot and in modules
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
    // ftrace: every site is read, compared and written
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
    // the guest's own kprobes: a site is decoded from its function's start on
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
    // they show text to people
    ("show_opcodes",                    All),
    ("dump_instr",                      All),
    ("show_code",                       All),
    ("show_instructions",               All),
    ("read_kcore",                      All),
    ("read_kcore_iter",                 All),
    // the doors through which the text is written and read, for callers that are not above
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

/// A call of one of them that has not returned.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Call {
    returns_to: u64,
    /// The stack pointer behind the return.
    sp: u64,
    /// What it works on.
    on: Withdrawn,
    name: &'static str,
    since: u64,
}

/// What the guest is doing to its text.
pub struct Patchers {
    entries: HashMap<u64, (&'static str, Reach)>,
    /// More are possible where one sleeps, or in an interrupt.
    calls: Vec<Call>,
    /// What those work on together.
    work: Withdrawn,
    filter: Filter,
    done: BTreeMap<&'static str, Done>,
    /// Where the boot is done with the text, until the CPU has been there.
    settles_at: Vec<u64>,
}

/// What one of them has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// Calls that met text with probes.
    pub times: u64,
    /// The guest's own time in them.
    pub nanoseconds: u64,
}

/// The function with which the boot proper begins: by then the kernel has patched its own text for the CPU that it
/// found (ftrace sites, alternatives, return thunks, static calls).
const TEXT_IS_PATCHED: &str = "rest_init";

impl Patchers {
    /// Those that a kernel has.
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
            filter: Filter([false; PLACES]),
            done: BTreeMap::new(),
            settles_at,
        };
        patchers.make_filter();
        patchers
    }

    /// Whether something may have to be done at this address.
    #[inline]
    pub fn watch(&self, pc: u64) -> bool {
        self.filter.may_hold(pc) && self.is_watched(pc)
    }

    #[cold]
    fn is_watched(&self, pc: u64) -> bool {
        let returns = || self.calls.iter().any(|call| call.returns_to == pc);
        self.entries.contains_key(&pc) || self.settles_at.contains(&pc) || returns()
    }

    /// Whether the guest is in one of them: then where it returns to is watched, too.
    pub fn are_at_work(&self) -> bool {
        !self.calls.is_empty()
    }

    /// What of the text is the guest's alone.
    pub fn work_on(&self) -> &Withdrawn {
        &self.work
    }

    /// Whether the boot is still to patch the text for the CPU that it has found.
    pub fn are_early(&self) -> bool {
        !self.settles_at.is_empty()
    }

    /// The guest is another one, whose boot is done with its text, and in none of them.
    pub fn start_over(&mut self) {
        self.calls.clear();
        (self.work, self.settles_at) = (Withdrawn::default(), Vec::new());
        self.make_filter();
    }

    /// What they have done, by name.
    pub fn done(&self) -> &BTreeMap<&'static str, Done> {
        &self.done
    }

    /// The CPU has come to an address. Afterwards [`Patchers::work_on`] may have another answer.
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
                self.calls.push(Call { returns_to, sp, on, name, since: now });
            }
        }
        if self.calls.len() != calls {
            self.make_filter();
            self.work = Withdrawn {
                all: self.calls.iter().any(|call| call.on.all),
                parts: self.calls.iter().flat_map(|call| call.on.parts.clone()).collect(),
            };
        }
    }

    fn make_filter(&mut self) {
        let returns = self.calls.iter().map(|call| call.returns_to);
        self.filter = self.entries.keys().copied().chain(returns).chain(self.settles_at.iter().copied()).collect();
    }
}

/// What a function that is entered will read or write, where there are bytes of ours.
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
    }
    parts.retain(|part| engine.stands_in(part.clone()));
    Withdrawn { all: false, parts }
}

/// An argument of the function that is entered; 0 where it cannot be read.
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

/// Where the function that is entered returns to, and the stack pointer then.
pub(super) fn way_back(cpu: &mut View, sp: u64, engine: &Engine) -> Option<(u64, u64)> {
    let isa = cpu.isa;
    let found = call::return_address(cpu, isa).ok()? & !isa.pointer_bits;
    // One that was jumped to out of a function with a return probe.
    let behind_pad = (engine.return_pad() == Some(found)).then(|| engine.real_return_address(cpu.task(), sp)).flatten();
    Some((behind_pad.map_or(found, |behind| behind & !isa.pointer_bits), call::stack_behind_return(isa, sp)))
}

/// A few addresses among all that are executed: most of the others are told apart by one bit.
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

/// Functions begin at multiples of 16, most of them. Asked of every block: there is no time for more.
#[inline]
fn place(address: u64) -> usize {
    (address >> 4) as usize % PLACES
}
