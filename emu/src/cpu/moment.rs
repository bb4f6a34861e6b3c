//! What a Linux knows of the moment, as ftrace shows it in five letters: where it keeps its count of preemption,
//! interrupts being served and the like, by symbols, by the kernel's types, or by what its code does; and how that is
//! read.

use super::tasks::is_for_one_cpu;
use super::{Model, View};
use crate::boot::Kernel;
use crate::boot::btf::Btf;
use crate::unicorn::engine::Handle;
use trapline_isa::mem::Memory;
use trapline_probes::guest::Cpu;
use trapline_probes::records::Flags;

// The fields of the count (include/linux/preempt.h).
const PREEMPTION: u64 = 0xff;
const SOFT_INTERRUPTS: u64 = 0xff00;
/// The first bit: it is being served. The others count how often it was switched off.
const SERVING_SOFT: u64 = 0x100;
/// What is added when a device's interrupt comes.
pub const HARD_INTERRUPT: u64 = 0x1_0000;
const HARD_INTERRUPTS: u64 = 0xf_0000;
const NMIS: u64 = 0xf0_0000;

/// The functions in which it is added: one of them is in each kernel.
const ENTERS: &[&str] = &["irq_enter_rcu", "irq_enter"];
/// As much of each as is looked at.
const MOST_BYTES: u64 = 512;

/// How an ISA's kernels keep these things.
pub struct Moments {
    /// Where the count is, by the code that adds to it.
    pub count_by_code: fn(start: u64, code: &[u8]) -> Option<CountPlace>,
    /// Where the running CPU's own data begins.
    pub own_data: fn(&Handle) -> u64,
    /// Bytes of the count, and the bit of it that is clear when the CPU is to take another task.
    pub count: (usize, Option<u32>),
    /// Where the task's flags are.
    pub flags: CountPlace,
    /// The bit of them that is set then.
    pub need_resched: u32,
}

impl Moments {
    /// For kernels of which nothing is known.
    pub const NONE: Moments =
        Moments { count_by_code: |_, _| None, own_data: |_| 0, count: (4, None), flags: CountPlace::Task(0), need_resched: 1 };
}

/// Where such a thing is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountPlace {
    /// So far into each CPU's own data.
    OwnData(u64),
    /// So far into the task.
    Task(u64),
    /// At this address, in a kernel for one CPU.
    Variable(u64),
}

/// Where all of it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MomentPlace {
    /// The count; without it nothing is known.
    pub count: Option<CountPlace>,
    /// Offset in the task: how often it was kept from moving to another CPU.
    pub migration: Option<u64>,
    /// The same: what the count has of soft interrupts elsewhere (PREEMPT_RT).
    pub soft: Option<u64>,
}

impl MomentPlace {
    /// Of this kernel, which has these types.
    pub fn of(kernel: &Kernel, types: Option<&Btf<'_>>, model: &Model) -> MomentPlace {
        let symbol = |name: &str| kernel.symbols.address_of(name);
        let member = |structure: &str, name: &str| types.and_then(|types| types.offset_of(structure, name));
        let hot = || symbol("pcpu_hot")?.checked_add(member("pcpu_hot", "preempt_count")?);
        let in_task = || member("task_struct", "thread_info")?.checked_add(member("thread_info", "preempt_count")?);
        let place = if is_for_one_cpu(kernel) { CountPlace::Variable } else { CountPlace::OwnData };
        let own = symbol("__preempt_count").or_else(hot).map(place);
        MomentPlace {
            count: own.or_else(|| in_task().map(CountPlace::Task)).or_else(|| by_code(kernel, model)),
            migration: member("task_struct", "migration_disabled"),
            soft: member("task_struct", "softirq_disable_cnt"),
        }
    }
}

fn by_code(kernel: &Kernel, model: &Model) -> Option<CountPlace> {
    ENTERS.iter().find_map(|name| {
        let function = kernel.symbols.find(name)?;
        let mut bytes = vec![0; function.size.min(MOST_BYTES) as usize];
        kernel.read(function.start, &mut bytes).ok()?;
        (model.tasks.moments.count_by_code)(function.start, &bytes)
    })
}

impl View {
    /// What the kernel knows of the moment; only whether interrupts are off, where it does not say where it keeps the
    /// rest.
    pub(super) fn linux_moment(&mut self) -> Flags {
        let off = Flags::NONE.with_if(self.interrupts_off(), Flags::INTERRUPTS_OFF);
        self.read_moment().map_or(off, |seen| off.with(seen))
    }

    /// Where the count of the moment is, in the running CPU's own data or its task.
    pub(super) fn moment_count(&mut self) -> Option<u64> {
        let place = self.moment.count?;
        Some(self.at(place))
    }

    fn at(&mut self, place: CountPlace) -> u64 {
        let at = match place {
            CountPlace::OwnData(offset) => (self.model.tasks.moments.own_data)(&self.trap.handle()).wrapping_add(offset),
            CountPlace::Task(offset) => self.task().wrapping_add(offset),
            CountPlace::Variable(address) => address,
        };
        at & self.mask
    }

    fn read_moment(&mut self) -> Option<Flags> {
        let MomentPlace { migration, soft, .. } = self.moment;
        let Moments { count: (bytes, clear_when_due), flags, need_resched, .. } = self.model.tasks.moments;
        let task = self.task();
        let (at, flags_at) = (self.moment_count()?, self.at(flags));
        let count = self.read_number(at, bytes).ok()?;
        let flags = self.read_number(flags_at, self.isa.word).ok()?;
        let moved = migration.and_then(|at| self.read_number(task.wrapping_add(at), 2).ok()).unwrap_or(0);
        let put_off = match soft {
            Some(at) => self.read_number(task.wrapping_add(at), 4).unwrap_or(0) & SOFT_INTERRUPTS,
            None => count & SOFT_INTERRUPTS,
        };
        let is_due = clear_when_due.is_some_and(|bit| count >> bit & 1 == 0);
        let letters = [
            (flags >> need_resched & 1 != 0, Flags::NEED_RESCHED),
            (is_due, Flags::PREEMPT_RESCHED),
            (count & HARD_INTERRUPTS != 0, Flags::HARD_INTERRUPT),
            (count & NMIS != 0, Flags::NMI),
            (put_off & SERVING_SOFT != 0, Flags::SOFT_INTERRUPT),
            (put_off & !SERVING_SOFT != 0, Flags::BOTTOM_HALVES_OFF),
        ];
        let depths = Flags::depths(count & PREEMPTION, moved);
        Some(letters.into_iter().fold(depths, |all, (is_so, flag)| all.with_if(is_so, flag)))
    }
}
