//! The sources of ftrace's five flags in a Linux guest: where the kernel has its preemption count, interrupt nesting
//! and related fields. They are found by symbols, by the kernel's types, or by its code.

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
/// The lowest bit: a soft interrupt is being served. The other bits count how often soft interrupts were disabled.
const SERVING_SOFT: u64 = 0x100;
/// The amount added when a device's interrupt starts.
pub const HARD_INTERRUPT: u64 = 0x1_0000;
const HARD_INTERRUPTS: u64 = 0xf_0000;
const NMIS: u64 = 0xf0_0000;

/// Functions that add it. Each kernel has one of them.
const ENTERS: &[&str] = &["irq_enter_rcu", "irq_enter"];
/// Bytes of such a function that are searched.
const MOST_BYTES: u64 = 512;

/// The sources of ftrace's flags on an ISA.
pub struct Moments {
    /// Finds the count's place by the code that adds to it.
    pub count_by_code: fn(start: u64, code: &[u8]) -> Option<CountPlace>,
    /// The start of the running CPU's per-CPU data.
    pub own_data: fn(&Handle) -> u64,
    /// Size of the count in bytes, and the bit of it that is clear when a reschedule is due, if it has one.
    pub count: (usize, Option<u32>),
    /// The place of the task's flags.
    pub flags: CountPlace,
    /// The bit of the task's flags for a due reschedule.
    pub need_resched: u32,
}

impl Moments {
    /// For kernels about which nothing is known.
    pub const NONE: Moments =
        Moments { count_by_code: |_, _| None, own_data: |_| 0, count: (4, None), flags: CountPlace::Task(0), need_resched: 1 };
}

/// The place of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountPlace {
    /// At this offset in each CPU's per-CPU data.
    OwnData(u64),
    /// At this offset in the task structure.
    Task(u64),
    /// At this address, in a kernel for one CPU.
    Variable(u64),
}

/// The places of all sources.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MomentPlace {
    /// The preemption count. Without it, only the interrupt mask is known.
    pub count: Option<CountPlace>,
    /// Offset in the task structure of the count of disabled migrations.
    pub migration: Option<u64>,
    /// Offset in the task structure of the count of disabled soft interrupts (PREEMPT_RT keeps it there).
    pub soft: Option<u64>,
}

impl MomentPlace {
    /// Finds the places in a kernel, by its symbols and types.
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
    /// ftrace's flags. If the preemption count's place is unknown, they only say whether interrupts are off.
    pub(super) fn linux_moment(&mut self) -> Flags {
        let off = Flags::NONE.with_if(self.interrupts_off(), Flags::INTERRUPTS_OFF);
        self.read_moment().map_or(off, |seen| off.with(seen))
    }

    /// The address of the preemption count of the running CPU.
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
