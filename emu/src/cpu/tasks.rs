//! Where the running task is found: by symbols, by the kernel's types, or by what its code does.

use super::Model;
use crate::boot::Kernel;
use crate::boot::btf::Btf;

/// Every Linux begins a stack dump with "CPU: .. PID: .. Comm: ..", in this function.
const PRINTS: &str = "dump_stack_print_info";
/// As much of it as is looked at.
const MOST_BYTES: u64 = 256;

/// Where the code begins that prints the running task's number and name, and its bytes.
pub fn printing_code(kernel: &Kernel) -> Option<(u64, Vec<u8>)> {
    let function = kernel.symbols.find(PRINTS)?;
    let mut bytes = vec![0; function.size.min(MOST_BYTES) as usize];
    kernel.read(function.start, &mut bytes).ok()?;
    Some((function.start, bytes))
}

/// Where the running task is found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskPlace {
    /// Offset of the pointer to it in the per-CPU area.
    pub current: Option<u64>,
    /// Offsets in the task structure.
    pub pid: Option<u64>,
    /// Its name, 16 bytes.
    pub comm: Option<u64>,
    /// It is a Linux's, whose tasks have the number of their process behind their own.
    pub has_process: bool,
}

impl TaskPlace {
    /// Of this kernel; what cannot be found stays `None`, and is then shown as unknown.
    pub fn of(kernel: &Kernel, model: &Model) -> TaskPlace {
        let symbol = |name: &str| kernel.symbols.address_of(name);
        let btf = Btf::of(kernel);
        let member = |structure: &str, name: &str| btf.as_ref().and_then(|btf| btf.offset_of(structure, name));
        // Linux 6.2 and later keep the pointer among other hot things.
        let hot = || Some(symbol("pcpu_hot")? + member("pcpu_hot", "current_task")?);
        let known = TaskPlace {
            current: symbol("current_task").or_else(hot),
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
            pid: known.pid.or(shown.pid),
            comm: known.comm.or(shown.comm),
            ..known
        }
    }
}
