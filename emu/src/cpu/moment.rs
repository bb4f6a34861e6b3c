//! The sources of ftrace's five flags in a Linux guest: where the kernel has its preemption count, interrupt nesting
//! and related fields. They are found by symbols, by the kernel's types, or by its code.

use super::tasks::is_for_one_cpu;
use super::{Model, View};
use crate::boot::Kernel;
use crate::boot::btf::Btf;
use crate::unicorn::engine::Handle;
use trapline_isa::mem::Memory;
use trapline_isa::regs::Registers;
use trapline_probes::guest::Cpu;
use trapline_probes::records::Flags;

// The fields of the count (include/linux/preempt.h).
const PREEMPTION: u64 = 0xff;
const SOFT_INTERRUPTS: u64 = 0xff00;
/// The lowest bit: a soft interrupt is being served. The other bits count how often soft interrupts were disabled.
const SERVING_SOFT: u64 = 0x100;
/// The amount added to `preempt_count` when a device's interrupt starts (HARDIRQ_OFFSET).
pub const HARD_INTERRUPT: u64 = 0x1_0000;
/// The amount added since Linux 7.3. The bits below count how often interrupts were disabled.
pub const NEWER_HARD_INTERRUPT: u64 = 0x100_0000;
/// The fields of interrupts and of NMIs, in units of an interrupt. 7.3 has one bit for NMIs.
const HARD_INTERRUPTS: u64 = 0xf;
const NMIS: u64 = 0xf0;
const NEWER_NMIS: u64 = 0x10;

/// Functions that add to the preempt count at an interrupt. Each kernel has one of them.
const ENTERS: &[&str] = &["irq_enter_rcu", "irq_enter"];
/// The largest number of bytes of such a function that are searched.
const MOST_BYTES: u64 = 512;

/// The sources of ftrace's flags on an ISA.
pub struct Moments {
    /// Finds the count's place by the code that adds to it.
    pub count_by_code: fn(start: u64, code: &[u8], interrupt: u64) -> Option<CountPlace>,
    /// The start of the running CPU's per-CPU data.
    pub own_data: fn(&Handle) -> u64,
    /// The distance from a per-CPU variable in the kernel's image to the running CPU's.
    pub per_cpu: Option<PerCpu>,
    /// Size of the count in bytes, and the bit of it that is clear when a reschedule is due, if it has one.
    pub count: (usize, Option<u32>),
    /// The place of the task's flags.
    pub flags: CountPlace,
    /// The bits of the task's flags for a due reschedule, for the oldest kernels first.
    pub reschedules: &'static [Reschedule],
}

/// The bits of the task's flags that ask for a reschedule, in some kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reschedule {
    /// The first release that has them: major and minor number.
    since: (u32, u32),
    /// TIF_NEED_RESCHED: the kernel reschedules as soon as it may be preempted.
    pub due: u32,
    /// TIF_NEED_RESCHED_LAZY: it reschedules when the task returns to its program.
    pub lazy: Option<u32>,
}

impl Reschedule {
    /// The rule of kernels without lazy reschedules.
    pub const fn always(due: u32) -> Reschedule {
        Reschedule { since: (0, 0), due, lazy: None }
    }

    /// The rule since a release, in kernels with lazy reschedules.
    pub const fn since(release: (u32, u32), due: u32, lazy: u32) -> Reschedule {
        Reschedule { since: release, due, lazy: Some(lazy) }
    }

    /// The bits that are the same on every ISA that has chosen Linux's common numbers (asm-generic/thread_info_tif.h).
    pub const COMMON: Reschedule = Reschedule::since((6, 18), 4, 5);

    /// The bits of a kernel.
    fn of(all: &[Reschedule], kernel: &Kernel) -> Reschedule {
        let is_lazy = kernel.symbols.address_of(LAZY_RESCHEDULES).is_some();
        Reschedule::select(all, is_lazy, release_of(kernel))
    }

    /// The last row that fits. If the release is not known, every row with lazy reschedules does.
    fn select(all: &[Reschedule], is_lazy: bool, release: Option<(u32, u32)>) -> Reschedule {
        let fits = |row: &&Reschedule| row.lazy.is_none() || is_lazy && release.is_none_or(|release| row.since <= release);
        all.iter().rfind(fits).copied().unwrap_or(Reschedule::always(0))
    }
}

/// A function of kernels with lazy reschedules.
const LAZY_RESCHEDULES: &str = "resched_curr_lazy";

/// The kernel's release by its banner.
fn release_of(kernel: &Kernel) -> Option<(u32, u32)> {
    let mut banner = [0; 64];
    kernel.read(kernel.symbols.address_of("linux_banner")?, &mut banner).ok()?;
    release_in(&banner)
}

/// Reads major and minor number of `Linux version 6.12.117+deb13-riscv64 (...`.
fn release_in(banner: &[u8]) -> Option<(u32, u32)> {
    let mut numbers = banner.strip_prefix(b"Linux version ")?.split(|byte| !byte.is_ascii_digit());
    let mut number = || core::str::from_utf8(numbers.next()?).ok()?.parse().ok();
    Some((number()?, number()?))
}

/// The place of a CPU's per-CPU offset: the distance from a variable in the kernel's image to the CPU's own copy.
#[derive(Clone, Copy)]
pub enum PerCpu {
    /// The offset is in a register.
    Register(fn(&Handle) -> u64),
    /// The offset is in a member of the structure that begins the CPU's own data. The kernel's types name both.
    Member {
        /// The address of that structure.
        area: fn(&Handle) -> u64,
        /// The structure and the member.
        names: (&'static str, &'static str),
    },
}

impl Moments {
    /// The value for unknown kernels.
    pub const NONE: Moments = Moments {
        count_by_code: |_, _, _| None,
        own_data: |_| 0,
        per_cpu: None,
        count: (4, None),
        flags: CountPlace::Task(0),
        reschedules: const { &[Reschedule::always(1)] },
    };
}

/// The place of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountPlace {
    /// The field is at this offset in each CPU's per-CPU data.
    OwnData(u64),
    /// The field is at this offset in the task structure.
    Task(u64),
    /// The field is a variable at this address, in a kernel for one CPU.
    Variable(u64),
    /// So far from the bottom of the kernel's stack, in kernels whose `thread_info` is there.
    Stack(u64),
}

/// The places of all sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MomentPlace {
    /// The number that a device's interrupt adds to the count.
    pub interrupt: u64,
    /// Bytes of the count, and the bit of it that is clear when a reschedule is due, if it has one.
    pub form: (usize, Option<u32>),
    /// The preemption count. Without it, only the interrupt mask is known.
    pub count: Option<CountPlace>,
    /// Offset in the task structure of the count of disabled migrations.
    pub migration: Option<u64>,
    /// Offset in the task structure of the count of disabled soft interrupts (PREEMPT_RT keeps it there).
    pub soft: Option<u64>,
    /// The kernel keeps tasks from moving to another CPU, and does not say where it counts that.
    pub hides_migration: bool,
    /// The kernel counts disabled soft interrupts at an unknown place (PREEMPT_RT).
    pub hides_soft: bool,
    /// Offset of the distance to the CPU's own variables, if it is a member of a structure.
    pub per_cpu: Option<u64>,
    /// The task's flags, where they are not where the ISA's kernels have them today.
    pub flags: Option<CountPlace>,
    /// The bits of the task's flags for a due reschedule.
    pub reschedule: Reschedule,
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
        let shown = by_code(kernel, model);
        let count = own.or_else(|| in_task().map(CountPlace::Task)).or(shown.map(|(place, _)| place));
        let interrupt = shown.map_or(HARD_INTERRUPT, |(_, interrupt)| interrupt);
        let per_cpu = match model.tasks.moments.per_cpu {
            Some(PerCpu::Member { names: (structure, name), .. }) => member(structure, name),
            _ => None,
        };
        MomentPlace {
            count,
            interrupt,
            form: form(model.tasks.moments.count, interrupt, kernel.arch.isa().word),
            per_cpu,
            // They begin `thread_info`, in which the count is.
            flags: matches!(count, Some(CountPlace::Stack(_))).then_some(CountPlace::Stack(0)),
            hides_migration: types.is_none() && !is_for_one_cpu(kernel) && has_any(kernel, &KEEPS_FROM_MOVING),
            hides_soft: types.is_none() && has_any(kernel, &OF_REAL_TIME),
            reschedule: Reschedule::of(model.tasks.moments.reschedules, kernel),
            migration: member("task_struct", "migration_disabled"),
            soft: member("task_struct", "softirq_disable_cnt"),
        }
    }
}

/// Functions of kernels that keep tasks from moving.
const KEEPS_FROM_MOVING: [&str; 2] = ["migrate_disable", "__migrate_disable"];
/// Functions of kernels with PREEMPT_RT alone.
const OF_REAL_TIME: [&str; 2] = ["rt_spin_lock", "rt_spin_unlock"];

fn has_any(kernel: &Kernel, functions: &[&str]) -> bool {
    functions.iter().any(|name| kernel.symbols.address_of(name).is_some())
}

impl MomentPlace {
    /// The columns of the trace in which this kernel's records have nothing, because their place is not known.
    pub fn unknown(&self) -> Option<&'static str> {
        match (self.count, self.hides_soft, self.hides_migration) {
            (None, ..) => Some("need-resched, hardirq/softirq, preempt-depth and migrate-disable"),
            (_, true, true) => Some("softirq, BH-disabled and migrate-disable"),
            (_, true, false) => Some("softirq and BH-disabled"),
            (_, false, true) => Some("migrate-disable"),
            _ => None,
        }
    }
}

/// The place of the preempt count, and the number that an interrupt adds to it, from the kernel's code.
fn by_code(kernel: &Kernel, model: &Model) -> Option<(CountPlace, u64)> {
    ENTERS.iter().find_map(|name| {
        let function = kernel.symbols.find(name)?;
        let mut bytes = vec![0; function.size.min(MOST_BYTES) as usize];
        kernel.read(function.start, &mut bytes).ok()?;
        let find = |interrupt| {
            let place = (model.tasks.moments.count_by_code)(function.start, &bytes, interrupt)?;
            Some((place, interrupt))
        };
        [HARD_INTERRUPT, NEWER_HARD_INTERRUPT].into_iter().find_map(find)
    })
}

/// Bytes of the count and its bit for a reschedule. Since 7.3 a count of 64-bit kernels has all bits of a word, and that bit
/// is its highest where it was the highest of 32.
fn form((bytes, bit): (usize, Option<u32>), interrupt: u64, word: usize) -> (usize, Option<u32>) {
    match (interrupt, word) {
        (NEWER_HARD_INTERRUPT, 8) => (8, bit.map(|bit| if bit == 31 { 63 } else { bit })),
        _ => (bytes, bit),
    }
}

impl View {
    /// ftrace's flags. If the preemption count's place is unknown, they only say whether interrupts are off.
    pub(super) fn linux_moment(&mut self) -> Flags {
        let off = Flags::NONE.with_if(self.interrupts_off(), Flags::INTERRUPTS_OFF);
        self.read_moment().map_or(off, |seen| off.with(seen))
    }

    /// The lowest address of the kernel stack that is in use.
    pub(super) fn stack_bottom(&self) -> u64 {
        self.get(self.isa.abi.sp) & !(self.isa.abi.stack_size - 1)
    }

    /// The preempt count, in the running CPU's own data or its task.
    pub(super) fn moment_count(&mut self) -> Option<u64> {
        let place = self.moment.count?;
        Some(self.at(place))
    }

    fn at(&mut self, place: CountPlace) -> u64 {
        let at = match place {
            CountPlace::OwnData(offset) => (self.model.tasks.moments.own_data)(&self.trap.handle()).wrapping_add(offset),
            CountPlace::Task(offset) => self.task().wrapping_add(offset),
            CountPlace::Variable(address) => address,
            CountPlace::Stack(offset) => self.stack_bottom().wrapping_add(offset),
        };
        at & self.mask
    }

    fn read_moment(&mut self) -> Option<Flags> {
        let MomentPlace { migration, soft, flags: other_flags, interrupt, reschedule, .. } = self.moment;
        let nmis = if interrupt == HARD_INTERRUPT { NMIS } else { NEWER_NMIS };
        let flags = self.model.tasks.moments.flags;
        let (bytes, clear_when_due) = self.moment.form;
        let task = self.task();
        let (at, flags_at) = (self.moment_count()?, self.at(other_flags.unwrap_or(flags)));
        let count = self.read_number(at, bytes).ok()?;
        let flags = self.read_number(flags_at, self.isa.word).ok()?;
        let moved = migration.and_then(|at| self.read_number(task.wrapping_add(at), 2).ok()).unwrap_or(0);
        let put_off = match soft {
            Some(at) => self.read_number(task.wrapping_add(at), 4).unwrap_or(0) & SOFT_INTERRUPTS,
            None => count & SOFT_INTERRUPTS,
        };
        let is_due = clear_when_due.is_some_and(|bit| count >> bit & 1 == 0);
        let letters = [
            (flags >> reschedule.due & 1 != 0, Flags::NEED_RESCHED),
            (reschedule.lazy.is_some_and(|bit| flags >> bit & 1 != 0), Flags::LAZY_RESCHED),
            (is_due, Flags::PREEMPT_RESCHED),
            (count & (interrupt * HARD_INTERRUPTS) != 0, Flags::HARD_INTERRUPT),
            (count & (interrupt * nmis) != 0, Flags::NMI),
            (put_off & SERVING_SOFT != 0, Flags::SOFT_INTERRUPT),
            (put_off & !SERVING_SOFT != 0, Flags::BOTTOM_HALVES_OFF),
        ];
        let depths = Flags::depths(count & PREEMPTION, moved);
        Some(letters.into_iter().fold(depths, |all, (is_so, flag)| all.with_if(is_so, flag)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn release_comes_from_the_banner() {
        type Case<'a> = (&'a [u8], Option<(u32, u32)>);
        let cases: [Case<'_>; 5] = [
            (b"Linux version 6.12.117+deb13-riscv64 (debian", Some((6, 12))),
            (b"Linux version 7.2-rc1", Some((7, 2))),
            (b"Linux version 99999999999.1", None),
            (b"Linux version ", None),
            (b"%s version 6.1", None),
        ];
        for (banner, release) in cases {
            assert_eq!(release_in(banner), release, "{}", String::from_utf8_lossy(banner));
        }
    }

    /// DV-4: the bits of each release, also of kernels that got lazy reschedules by a patch, or have no release.
    #[test]
    fn bits_for_reschedules_follow_release_and_kernel() {
        let rows = [Reschedule::always(3), Reschedule::since((6, 13), 0, 1), Reschedule::COMMON];
        let cases = [
            (false, Some((6, 12)), (3, None)),
            (true, Some((6, 12)), (3, None)),
            (true, Some((6, 13)), (0, Some(1))),
            (true, Some((6, 17)), (0, Some(1))),
            (true, Some((7, 2)), (4, Some(5))),
            (false, Some((7, 2)), (3, None)),
            (true, None, (4, Some(5))),
            (false, None, (3, None)),
        ];
        for (is_lazy, release, expected) in cases {
            let found = Reschedule::select(&rows, is_lazy, release);
            assert_eq!((found.due, found.lazy), expected, "{is_lazy} {release:?}");
        }
    }
}
