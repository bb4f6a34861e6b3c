//! The location of the running task's fields, found by symbols, by the kernel's types, or by its code.

use super::Model;
use crate::boot::Kernel;
use crate::boot::btf::Btf;

/// The function with which every Linux starts a stack dump: "CPU: .. PID: .. Comm: ..".
const PRINTS: &str = "dump_stack_print_info";
/// Bytes of it that are searched.
const MOST_BYTES: u64 = 256;

/// The address and bytes of the code that prints the running task's number and name.
pub fn printing_code(kernel: &Kernel) -> Option<(u64, Vec<u8>)> {
    let function = kernel.symbols.find(PRINTS)?;
    let mut bytes = vec![0; function.size.min(MOST_BYTES) as usize];
    kernel.read(function.start, &mut bytes).ok()?;
    Some((function.start, bytes))
}

/// Functions that start or call other CPUs. A kernel for one CPU has none of them.
const OF_MANY_CPUS: [&str; 3] = ["smp_init", "bringup_nonboot_cpus", "smp_call_function_many_cond"];

/// Whether a Linux was built for one CPU only (CONFIG_SMP off). Its per-CPU variables are ordinary ones.
pub fn is_for_one_cpu(kernel: &Kernel) -> bool {
    kernel.is_stock() && !OF_MANY_CPUS.iter().any(|name| kernel.symbols.address_of(name).is_some())
}

/// The location of the running task's fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskPlace {
    /// Offset of the pointer to the running task in the per-CPU data.
    pub current: Option<u64>,
    /// Whether `current` is an address instead, because the kernel is for one CPU.
    pub is_variable: bool,
    /// Offset of the pointer from the bottom of the kernel's stack, in kernels that keep it there.
    pub in_stack: Option<u64>,
    /// Offset of the task's number in the task structure.
    pub pid: Option<u64>,
    /// Offset of the task's name, which has 16 bytes.
    pub comm: Option<u64>,
    /// Whether the process's number follows the task's number, as in Linux.
    pub has_process: bool,
}

impl TaskPlace {
    /// Whether the number and the name of the running task are known in this kernel.
    pub fn is_known(&self, model: &Model) -> bool {
        let is_found = model.tasks.is_in_register || self.current.is_some();
        is_found && self.pid.is_some() && self.comm.is_some()
    }

    /// Finds the fields in a kernel by its symbols and types. A field that is not found stays `None` and is shown as
    /// unknown.
    pub fn of(kernel: &Kernel, types: Option<&Btf<'_>>, model: &Model) -> TaskPlace {
        let symbol = |name: &str| kernel.symbols.address_of(name);
        let member = |structure: &str, name: &str| types.and_then(|types| types.offset_of(structure, name));
        // Linux 6.2 and later have the pointer in `struct pcpu_hot`.
        let hot = || symbol("pcpu_hot")?.checked_add(member("pcpu_hot", "current_task")?);
        let known = TaskPlace {
            current: symbol("current_task").or_else(hot),
            is_variable: is_for_one_cpu(kernel),
            in_stack: None,
            pid: symbol("__task_pid_offset").or_else(|| member("task_struct", "pid")),
            comm: symbol("__task_comm_offset").or_else(|| member("task_struct", "comm")),
            has_process: kernel.is_stock(),
        };
        if let TaskPlace { current: Some(_), pid: Some(_), comm: Some(_), .. } = known {
            return known;
        }
        let shown = (model.tasks.by_code)(kernel);
        TaskPlace {
            current: known.current.or(shown.current),
            in_stack: shown.in_stack,
            pid: known.pid.or(shown.pid),
            comm: known.comm.or(shown.comm),
            ..known
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arches;
    use crate::boot::Segment;
    use crate::symbols::{Entry, Symbols};
    use trapline_isa::arch::Arch;

    const TYPES: u64 = 0x1000;

    /// Type information with `struct pcpu_hot`, whose members `current_task` and `preempt_count` are at offset 8.
    fn types() -> Vec<u8> {
        let strings = b"\0pcpu_hot\0current_task\0preempt_count\0";
        let kind = [1, 4 << 24 | 2, 16, 10, 0, 64, 23, 0, 64u32];
        let head = [0x1_eb9f, 24, 0, 4 * kind.len() as u32, 4 * kind.len() as u32, strings.len() as u32];
        let words = head.into_iter().chain(kind).flat_map(u32::to_le_bytes);
        words.chain(*strings).collect()
    }

    /// A symbol near the end of the address space, plus an offset that overflows, gives no place.
    #[test]
    fn an_offset_past_the_last_address_is_refused() {
        let kernel = |hot: u64| {
            let bytes = types();
            let (start, stop) = (TYPES, TYPES + bytes.len() as u64);
            let segment = Segment {
                physical: TYPES,
                virtual_address: TYPES,
                size: bytes.len() as u64,
                bytes: bytes.into(),
                executable: false,
            };
            let names = [("__start_BTF", start), ("__stop_BTF", stop), ("pcpu_hot", hot)];
            let entries = names.map(|(name, address)| Entry { name: name.into(), address, kind: 'D', module: None });
            Kernel::from_parts(Arch::X86_64, TYPES, vec![segment], Symbols::new(entries.to_vec()))
        };
        let model = arches::of(Arch::X86_64).machine().expect("a machine runs it").model;
        let current = |hot| {
            let kernel = kernel(hot);
            TaskPlace::of(&kernel, Btf::of(&kernel).as_ref(), model).current
        };
        assert_eq!([0x3_2d00, u64::MAX - 8, u64::MAX - 7].map(current), [Some(0x3_2d08), Some(u64::MAX), None]);
        let count = |hot| {
            let kernel = kernel(hot);
            crate::cpu::moment::MomentPlace::of(&kernel, Btf::of(&kernel).as_ref(), model).count
        };
        use crate::cpu::moment::CountPlace::OwnData;
        assert_eq!([0x3_2d00, u64::MAX].map(count), [Some(OwnData(0x3_2d08)), None]);
    }
    /// DV-4: a kernel for one CPU has the running task and the preemption count in variables at their addresses.
    #[test]
    fn a_kernel_for_one_cpu_keeps_its_task_in_a_variable() {
        const TASK: u64 = 0xffff_ffff_8120_0040;
        const COUNT: u64 = 0xffff_ffff_8120_0048;
        let model = arches::of(Arch::X86_64).machine().expect("a machine runs it").model;
        let places = |more: &[&str]| {
            let functions = ["kernel_init_freeable", "x86_64_start_kernel"].iter().chain(more).map(|name| (*name, TYPES));
            let names = functions.chain([("current_task", TASK), ("__preempt_count", COUNT)]);
            let entries = names.map(|(name, address)| Entry { name: name.into(), address, kind: 'D', module: None });
            let kernel = Kernel::from_parts(Arch::X86_64, TYPES, Vec::new(), Symbols::new(entries.collect()));
            let count = crate::cpu::moment::MomentPlace::of(&kernel, None, model).count;
            let TaskPlace { current, is_variable, .. } = TaskPlace::of(&kernel, None, model);
            (current, is_variable, count)
        };
        use crate::cpu::moment::CountPlace;
        assert_eq!(places(&[]), (Some(TASK), true, Some(CountPlace::Variable(COUNT))));
        for function in OF_MANY_CPUS {
            assert_eq!(places(&[function]), (Some(TASK), false, Some(CountPlace::OwnData(COUNT))), "{function}");
        }
    }
}
