//! Reads the kernel's list of tasks and its list of modules from guest memory. The offsets of the fields come from the kernel's
//! BTF types. The lists may be corrupt, so every loop has a limit.

use crate::boot::btf::Btf;
use crate::boot::{Kernel, exports};
use trapline_isa::mem::Memory;

/// The largest numbers of tasks, of modules, and of sections of a module that are read.
const MOST_TASKS: usize = 4096;
const MOST_MODULES: usize = 1024;
const MOST_SECTIONS: u64 = 128;
/// The longest name of a module or of a section.
const LONGEST_NAME: usize = 64;

/// A task, which is a thread of a program or of the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// The address of its `task_struct`.
    pub address: u64,
    /// Its number (`task_struct.pid`).
    pub pid: u64,
    /// The number of its process (`task_struct.tgid`).
    pub process: u64,
    /// Its state, as the letter that ps shows.
    pub state: char,
    /// The task's name (`task_struct.comm`).
    pub comm: String,
}

/// A loaded kernel module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadedModule {
    /// The address of its `struct module`.
    pub address: u64,
    /// The name, as lsmod shows it.
    pub name: String,
    /// The names and addresses of its sections.
    pub sections: Vec<(String, u64)>,
}

/// Reads numbers, pointers of `word` bytes and strings from guest memory.
pub(super) struct Reader<'a, M> {
    pub memory: &'a mut M,
    pub word: usize,
}

impl<M: Memory> Reader<'_, M> {
    pub fn number(&mut self, at: u64, size: usize) -> Option<u64> {
        self.memory.read_number(at, size).ok()
    }

    pub fn pointer(&mut self, at: u64) -> Option<u64> {
        self.number(at, self.word)
    }

    pub fn text(&mut self, at: u64, most: usize) -> String {
        let bytes = (0..most as u64).map_while(|into| self.number(at.wrapping_add(into), 1).filter(|byte| *byte != 0));
        let bytes: Vec<u8> = bytes.map(|byte| byte as u8).collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// The address of the first task, and the offsets of the fields of `task_struct`.
#[derive(Clone, Copy, Debug)]
pub struct TaskFields {
    first: u64,
    next: u64,
    pid: u64,
    process: u64,
    comm: u64,
    state: Option<u64>,
    threads: Option<ThreadFields>,
    word: usize,
}

/// The offsets of the fields that link the threads of a process.
#[derive(Clone, Copy, Debug)]
struct ThreadFields {
    signal: u64,
    head: u64,
    node: u64,
}

impl TaskFields {
    /// The offsets in this kernel. `None` if it has no BTF, or no symbol `init_task`.
    pub fn of(kernel: &Kernel) -> Option<TaskFields> {
        let btf = Btf::of(kernel)?;
        let offset = |member: &str| btf.offset_of("task_struct", member);
        Some(TaskFields {
            // Debian's arm64 kernels have no data symbols in kallsyms, but `init_task` is exported to modules.
            first: kernel.symbols.address_of("init_task").or_else(|| exports::find(kernel, "init_task"))?,
            next: offset("tasks")?,
            pid: offset("pid")?,
            process: offset("tgid")?,
            comm: offset("comm")?,
            state: offset("__state").or_else(|| offset("state")),
            threads: ThreadFields::of(&btf),
            word: kernel.arch.isa().word,
        })
    }

    /// The tasks on the kernel's list: each process is followed by its other threads.
    pub fn tasks<M: Memory>(&self, memory: &mut M) -> Vec<Task> {
        let mut reader = Reader { memory, word: self.word };
        let (mut task, mut all) = (self.first, Vec::new());
        while all.len() < MOST_TASKS {
            let Some(process) = self.task(task, &mut reader) else { break };
            all.push(process);
            let threads = self.threads.map(|threads| threads.of_process(task, MOST_TASKS - all.len(), &mut reader));
            let threads = threads.unwrap_or_default().into_iter().filter(|thread| *thread != task);
            all.extend(threads.map_while(|thread| self.task(thread, &mut reader)));
            let Some(link) = reader.pointer(task.wrapping_add(self.next)) else { break };
            task = link.wrapping_sub(self.next);
            if task == self.first {
                break;
            }
        }
        all
    }

    fn task<M: Memory>(&self, address: u64, reader: &mut Reader<'_, M>) -> Option<Task> {
        let at = |field: u64| address.wrapping_add(field);
        let (pid, process) = (reader.number(at(self.pid), 4)?, reader.number(at(self.process), 4)?);
        let state = self.state.and_then(|state| reader.number(at(state), 4)).map_or('?', state_letter);
        Some(Task { address, pid, process, state, comm: reader.text(at(self.comm), 16) })
    }
}

impl ThreadFields {
    fn of(types: &Btf<'_>) -> Option<ThreadFields> {
        Some(ThreadFields {
            signal: types.offset_of("task_struct", "signal")?,
            head: types.offset_of("signal_struct", "thread_head")?,
            node: types.offset_of("task_struct", "thread_node")?,
        })
    }

    /// The addresses of the threads of a task's process.
    fn of_process<M: Memory>(&self, task: u64, most: usize, reader: &mut Reader<'_, M>) -> Vec<u64> {
        let mut all = Vec::new();
        let Some(signal) = reader.pointer(task.wrapping_add(self.signal)) else { return all };
        let head = signal.wrapping_add(self.head);
        let mut at = head;
        while let Some(next) = reader.pointer(at).filter(|next| *next != head && all.len() < most) {
            all.push(next.wrapping_sub(self.node));
            at = next;
        }
        all
    }
}

/// The letter that ps shows for a value of `task_struct.__state`.
fn state_letter(state: u64) -> char {
    match state {
        0 => 'R',
        state if state & 0x400 != 0 => 'I',
        state if state & 1 != 0 => 'S',
        state if state & 2 != 0 => 'D',
        state if state & 4 != 0 => 'T',
        state if state & 8 != 0 => 't',
        _ => '?',
    }
}

/// The modules on the kernel's list, the last loaded one first. `None` if the kernel has no BTF.
pub fn modules<M: Memory>(kernel: &Kernel, memory: &mut M) -> Option<Vec<LoadedModule>> {
    let btf = Btf::of(kernel)?;
    let list = kernel.symbols.address_of("modules")?;
    let (link, name) = (btf.offset_of("module", "list")?, btf.offset_of("module", "name")?);
    let sections = Sections::of(&btf);
    let mut reader = Reader { memory, word: kernel.arch.isa().word };
    let (mut at, mut all) = (reader.pointer(list)?, Vec::new());
    while at != list && all.len() < MOST_MODULES {
        let module = at.wrapping_sub(link);
        let sections = sections.as_ref().map(|sections| sections.read(module, &mut reader)).unwrap_or_default();
        all.push(LoadedModule { address: module, name: reader.text(module.wrapping_add(name), LONGEST_NAME), sections });
        let Some(next) = reader.pointer(at) else { break };
        at = next;
    }
    Some(all)
}

/// The offsets of the fields behind `/sys/module/NAME/sections`, which have the addresses of a module's sections.
struct Sections {
    pointer: u64,
    count: u64,
    rows: u64,
    /// The address in a row. It is the last word. The pointer to the name is the first one.
    address: u64,
}

impl Sections {
    fn of(btf: &Btf<'_>) -> Option<Sections> {
        Some(Sections {
            pointer: btf.offset_of("module", "sect_attrs")?,
            count: btf.offset_of("module_sect_attrs", "nsections")?,
            rows: btf.offset_of("module_sect_attrs", "attrs")?,
            address: btf.offset_of("module_sect_attr", "address")?,
        })
    }

    fn read<M: Memory>(&self, module: u64, reader: &mut Reader<'_, M>) -> Vec<(String, u64)> {
        let Some(table) = reader.pointer(module.wrapping_add(self.pointer)).filter(|table| *table != 0) else {
            return Vec::new();
        };
        let count = reader.number(table.wrapping_add(self.count), 4).unwrap_or(0).min(MOST_SECTIONS);
        let size = self.address + reader.word as u64;
        let row = |number: u64| {
            let row = table.wrapping_add(self.rows).wrapping_add(number * size);
            let (name, address) = (reader.pointer(row)?, reader.pointer(row.wrapping_add(self.address))?);
            Some((reader.text(name, LONGEST_NAME), address))
        };
        (0..count).map_while(row).collect()
    }
}
