//! The interfaces that the engine needs from outside. [`Guest`] is a stopped kernel whose symbols can be looked up and
//! whose text can be patched. [`Cpu`] is a CPU that has just trapped. The emulator implements both, and so does the toy
//! in `toy/`, which the tests use. The engine answers a trap with an [`Answer`].

use crate::records::Flags;
use alloc::string::String;
use core::ops::Range;
use trapline_isa::arch::Isa;
use trapline_isa::mem::{Fault, Memory};
use trapline_isa::plan::{Errno, Refusal};
use trapline_isa::regs::Registers;

/// A kernel in memory, seen while none of its CPUs runs. Registration and the debugfs views use this.
pub trait Guest {
    /// The table of the guest's ISA.
    fn isa(&self) -> &'static Isa;
    /// The number of CPUs the guest may have.
    fn cpus(&self) -> usize;

    /// The symbol of that name. `module:name` restricts the search to that module.
    fn symbol(&self, name: &str) -> Option<Symbol>;
    /// The number of symbols with that name. Events refuse ambiguous names.
    fn symbols_named(&self, name: &str) -> usize;
    /// The addresses of the symbols with that name, in order. Empty if the guest cannot tell.
    fn addresses_named(&self, name: &str) -> alloc::vec::Vec<u64> {
        let _ = name;
        alloc::vec::Vec::new()
    }
    /// The symbol whose range contains an address.
    fn symbol_at(&self, address: u64) -> Option<Symbol>;
    /// Whether its CPUs can say where their per-CPU variables are ([`Cpu::per_cpu`]).
    fn knows_per_cpu(&self) -> bool {
        false
    }
    /// A few similar symbol names, for the message about an unknown name.
    fn similar_names(&self, name: &str) -> alloc::vec::Vec<String>;
    /// The kind of executable memory at an address. `None` for data and for text that has been freed.
    fn text_kind(&self, address: u64) -> Option<Text>;
    /// The site at exactly this address that the kernel itself patches or depends on, if there is one.
    fn site_at(&self, address: u64) -> Option<Site>;
    /// Whether ftrace has a site in this function. `None` if the kernel has no ftrace sites or they are unknown.
    fn is_traced(&self, function: Range<u64>) -> Option<bool> {
        let _ = function;
        None
    }
    /// The kernel's kprobe blacklist, in its own order.
    fn blacklist(&self) -> &[Blacklisted];

    /// The first instruction in a range that has an entry in the kernel's exception table.
    fn expected_fault(&self, range: Range<u64>) -> Option<u64> {
        let _ = range;
        None
    }
    /// The first fixup address of the exception table that lies in a range.
    fn fixup(&self, range: Range<u64>) -> Option<u64> {
        let _ = range;
        None
    }
    /// The range of the kernel's indirect-branch thunks (retpolines).
    fn indirect_thunks(&self) -> Range<u64> {
        0..0
    }

    /// Reads the text as it is now, our breakpoints and jumps included.
    fn read_text(&self, address: u64, into: &mut [u8]) -> Result<(), Fault>;
    /// Changes text regardless of page protection and of the active page tables, and drops the code translated from it.
    fn patch_text(&mut self, address: u64, bytes: &[u8]) -> Result<(), Fault>;

    /// The path of a program's file with its symbolic links followed, as far as the guest's files are known.
    fn file_path(&self, path: &str) -> String {
        path.into()
    }
    /// The offset of a symbol in a program's file. Fails if the file or the symbol is not known.
    fn file_symbol(&self, path: &str, symbol: &str) -> Result<u64, Refusal> {
        let _ = symbol;
        let why = alloc::format!("the files of this guest are not known, {path} among them: write an offset, {path}:0x1234");
        Err(Refusal::because(Errno::ENOENT, why))
    }
    /// From now on the machine calls [`crate::Engine::user_hit`] with this number when a program is about to execute
    /// the instruction at the place. Nothing is written to the program.
    fn observe(&mut self, place: &FilePlace<'_>, point: u32) -> Result<KnownBy, Refusal> {
        let _ = (place, point);
        Err(Refusal::new(Errno::EOPNOTSUPP, "this machine cannot observe user programs: probe the system calls that they make"))
    }
    /// From now on the guest stores the task that [`Cpu::note_running_task`] reports.
    fn begin_noting_tasks(&mut self) {}

    /// Whether [`Cpu::task`] is right while a program runs. Otherwise the engine calls [`Cpu::note_running_task`].
    fn knows_task_of_programs(&self) -> bool {
        true
    }
    /// Ends [`Guest::observe`] for a point.
    fn observe_no_more(&mut self, point: u32) {
        let _ = point;
    }

    /// Takes `len` bytes of executable memory that the guest does not know of. `len` is a multiple of [`WINDOW_UNIT`],
    /// and so is the address. A guest with several windows uses the one nearest to `near`; the ISA checks later whether
    /// a branch reaches it. `None` if no window has room.
    fn window_take(&mut self, near: u64, len: usize) -> Option<u64>;
    /// Gives window memory back. The caller has made sure that no CPU is inside.
    fn window_give(&mut self, at: u64, len: usize);
    /// Writes code to the window and states its use, so that the machine can count time and take interrupts as in the
    /// original code.
    fn window_write(&mut self, at: u64, bytes: &[u8], stands_for: WindowUse);
    /// Whether these two pcs use the same entry of the CPU core's jump cache.
    fn pcs_collide(&self, one: u64, other: u64) -> bool {
        let _ = (one, other);
        false
    }

    /// Whether the machine reports accesses to the memory that [`crate::Engine::areas`] lists.
    fn can_watch(&self) -> bool {
        false
    }

    /// Whether any CPU's pc, or a pc that an interrupt or exception has saved, lies in this range.
    fn any_cpu_inside(&self, range: Range<u64>) -> bool;
    /// For each range, whether any word of guest memory is an address in it. That word may be the saved pc of an
    /// interrupted task.
    fn remembers_addresses(&self, ranges: &[Range<u64>]) -> alloc::vec::Vec<bool> {
        ranges.iter().map(|_| false).collect()
    }
    /// Runs the guest for a bounded time until no CPU is inside this range. Returns false if one still is.
    fn drain(&mut self, range: Range<u64>) -> bool {
        !self.any_cpu_inside(range)
    }
}

/// A place in a program's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilePlace<'a> {
    /// The path in the guest, with symbolic links followed.
    pub path: &'a str,
    /// The distance in bytes from the file's start.
    pub offset: u64,
}

/// The means by which a machine knows that a page of memory belongs to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KnownBy {
    /// The kernel's own record of what a program has mapped.
    Mapping,
    /// The bytes in the page. A copy of the file is then the same file.
    Content,
}

/// The allocation granularity of the probe window, in bytes.
pub const WINDOW_UNIT: usize = 32;

/// The use of a piece of the probe window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowUse {
    /// A copy of an instruction. The first `displaced` bytes run the instruction at `origin`, and the way back follows.
    Copy {
        /// The probed address.
        origin: u64,
        /// Length of the displaced instruction.
        displaced: u8,
        /// Bytes of the instruction that precede the copied part. Nonzero for a computed branch, of which only the
        /// delay slot runs here.
        in_front: u8,
    },
    /// The detour of an optimised probe: `lead` bytes without effect, then `displaced` bytes of the instructions from
    /// `origin` on, then the way back. A jump of `jump` bytes at `origin` leads here. A CPU at its start must be passed
    /// to [`crate::Engine::jumped_in`].
    Detour {
        /// The probed address.
        origin: u64,
        /// Length of the displaced instructions.
        displaced: u8,
        /// Number of bytes in front of the displaced instructions.
        lead: u8,
        /// Length of the jump at `origin`.
        jump: u8,
        /// The point number to pass to [`crate::Engine::jumped_in`].
        point: u32,
    },
    /// A faithful detour, several units long. Its `lead` bytes save the registers, call the trampoline and restore the
    /// registers. The rest is like [`WindowUse::Detour`]. A CPU at its start must be passed to
    /// [`crate::Engine::saving`].
    Faithful {
        /// The probed address.
        origin: u64,
        /// Length of the displaced instructions.
        displaced: u8,
        /// Number of bytes in front of the displaced instructions.
        lead: u8,
        /// Length of the jump at `origin`.
        jump: u8,
    },
    /// The function that faithful detours call. It counts no time and takes no interrupt. A CPU at its start must be
    /// passed to [`crate::Engine::called`].
    Trampoline,
    /// The return pad, to which followed calls return. It counts no time and takes no interrupt. It begins with `jump`
    /// bytes that jump to the true address; a CPU there must be passed to [`crate::Engine::returned_to_pad`]. A
    /// breakpoint follows.
    ReturnPad {
        /// Length of that jump. 0: the pad is a breakpoint alone.
        jump: u8,
    },
    /// The breakpoint that ends a jprobe handler.
    JprobeReturn,
}

/// A kernel symbol with its address range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// The name, as in kallsyms.
    pub name: String,
    /// Its first address.
    pub start: u64,
    /// Size in bytes, up to the next symbol.
    pub size: u64,
    /// The module it belongs to, if any.
    pub module: Option<String>,
}

/// Kinds of executable memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Text {
    /// Text that stays as long as the kernel runs.
    Core,
    /// Init text, freed after boot.
    Init,
}

/// Code locations that must not simply be patched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Site {
    /// An ftrace call site.
    Ftrace,
    /// A static key's jump or nop.
    JumpLabel,
    /// The call or jump instruction of a static call (`DEFINE_STATIC_CALL`).
    StaticCall,
    /// The trapping instruction of BUG() or WARN().
    Bug,
    /// A LOCK prefix that the kernel patches on one CPU (`.smp_locks`).
    SmpLock,
    /// A page shared with user space, such as the vsyscall page.
    Gate,
    /// Data among the code.
    Data,
}

/// One blacklist entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blacklisted {
    /// The blacklisted addresses.
    pub range: Range<u64>,
    /// The function's name, for the debugfs view.
    pub name: String,
    /// Whether the guest's debugfs view lists it. Some ranges are only tested for.
    pub listed: bool,
}

/// The exact place of a CPU in its run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instant {
    /// The number of turns of CPUs that have begun.
    pub turn: u64,
    /// The CPU's number.
    pub cpu: usize,
    /// The CPU's virtual time, in the machine's own unit.
    pub ticks: u64,
    /// The address of the instruction.
    pub pc: u64,
}

/// A CPU that has just trapped, stopped between two instructions. Memory accesses have the rights of the kernel code
/// that ran.
pub trait Cpu: Registers + Memory {
    /// The CPU's number, below [`Guest::cpus`].
    fn number(&self) -> usize;
    /// A key of the running task. It stays the same until the task exits.
    fn task(&mut self) -> u64;
    /// The task's pid, as `ps` shows it. 0 if the machine cannot tell.
    fn pid(&mut self) -> u32;
    /// The pid of the task's process (the thread group id).
    fn process(&mut self) -> u32 {
        self.pid()
    }
    /// The task's name, zero-padded.
    fn comm(&mut self) -> [u8; 16];
    /// Virtual time in nanoseconds.
    fn now(&self) -> u64;
    /// Whether the original code would run here with interrupts off. The trace shows it as `d`.
    fn interrupts_off(&self) -> bool;
    /// The flags that ftrace shows for a record: interrupts off and, where the machine can tell, need-resched,
    /// interrupt context and preemption depth.
    fn trace_flags(&mut self) -> Flags {
        Flags::NONE.with_if(self.interrupts_off(), Flags::INTERRUPTS_OFF)
    }
    /// Whether the guest single-steps this code, so that its own trap follows the next instruction.
    fn is_stepped(&self) -> bool {
        false
    }
    /// Sets that the CPU's exception was raised in a delay slot, either by the instruction at the pc or by the one
    /// after the branch at the pc. `then` is the address where execution continues after the slot.
    fn stopped_in_delay_slot(&mut self, then: u64) {
        let _ = then;
    }
    /// Changes kernel text regardless of page protection, and drops the code translated from it.
    fn patch_text(&mut self, address: u64, bytes: &[u8]) -> Result<(), Fault> {
        let _ = bytes;
        Err(Fault { address, write: true })
    }
    /// A word of the kernel's stack. On SPARC it may still be in a register window.
    fn stack_word(&mut self, address: u64, size: usize) -> Option<u64> {
        self.read_number(address, size).ok()
    }
    /// Reads user-space memory of the running task.
    fn read_user(&mut self, address: u64, into: &mut [u8]) -> Result<(), Fault> {
        self.read(address, into)
    }
    /// The bytes of a word of the running program, if they are fewer than the kernel's: of a 32-bit program on a 64-bit
    /// kernel.
    fn narrow_word(&self) -> Option<usize> {
        None
    }
    /// Whether this is the CPU as a handler of a user probe sees it: its registers and memory are a program's.
    fn runs_program(&self) -> bool {
        false
    }
    /// The number of the mapping of a file that holds this address of the running program. The machine can name the
    /// address by it later. `None` if it cannot.
    fn mapping_at(&mut self, address: u64) -> Option<u16> {
        let _ = address;
        None
    }
    /// From now on the machine calls [`crate::Engine::user_arrival`] when a program arrives at the code that is now at
    /// this address of the running program. False if the address is not mapped or the machine cannot do that.
    fn observe_arrival(&mut self, address: u64) -> bool {
        let _ = address;
        false
    }
    /// The running task is now another one, and is known because the kernel runs. Called for a guest that does not
    /// [know the task of programs](Guest::knows_task_of_programs).
    fn note_running_task(&mut self) {}
    /// Address and size of the counter that keeps this CPU from being preempted (`preempt_count`). `None` if unknown.
    fn preemptions(&mut self) -> Option<(u64, usize)> {
        None
    }
    /// The distance from a per-CPU variable's address in the kernel's image to this CPU's. `None` if unknown.
    fn per_cpu(&mut self) -> Option<u64> {
        None
    }
    /// The physical address of an address of the running code. `None` if unknown.
    fn physical_of(&mut self, address: u64) -> Option<u64> {
        let _ = address;
        None
    }
    /// The exact place in the run. `None` if the machine cannot tell.
    fn instant(&self) -> Option<Instant> {
        None
    }
    /// Asks the machine to call the engine at the next place where it can stop the CPUs.
    fn look_soon(&mut self) {}
}

/// The engine's answer to a trap. Registers and pc have been set in the [`Cpu`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The trap is not ours. The machine delivers it to the guest, as the original code would have raised it. If the pc
    /// was in the window it has been set to the original address.
    NotOurs,
    /// The trap was ours. Execution continues at the pc.
    Resume(Resume),
}

/// The way a claimed trap counts for the machine's clock and interrupts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resume {
    /// Bytes of guest code that the engine itself executed: the length of a computed instruction.
    pub counted: u8,
    /// `Some` if the instruction at the pc is in a delay slot: the address where execution continues after it.
    pub behind_slot: Option<u64>,
    /// The new pc is reached by falling through. No interrupt may be taken there that the unprobed guest would not
    /// take.
    pub falls_through: bool,
    /// The guest single-steps its own code, and the engine has executed the instruction. The machine must raise the
    /// trap that follows it.
    pub stepped: bool,
    /// A handler in guest code runs. No time passes and no interrupt is taken on this CPU until an answer clears this.
    pub frozen: bool,
}
