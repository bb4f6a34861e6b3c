//! What the engine asks of the world outside: a guest whose text can be patched, and a CPU that has just trapped.

use crate::records::Flags;
use alloc::string::String;
use core::ops::Range;
use trapline_isa::arch::Isa;
use trapline_isa::mem::{Fault, Memory};
use trapline_isa::regs::Registers;

/// A kernel in memory, seen while nothing in it runs. Registration and the views work through this.
pub trait Guest {
    /// The table of the ISA that it runs.
    fn isa(&self) -> &'static Isa;
    /// How many CPUs it may have.
    fn cpus(&self) -> usize;

    /// The symbol of that name; with `module`, only in that module.
    fn symbol(&self, name: &str) -> Option<Symbol>;
    /// How many symbols have that name (events refuse ambiguous ones).
    fn symbols_named(&self, name: &str) -> usize;
    /// The symbol whose extent covers an address.
    fn symbol_at(&self, address: u64) -> Option<Symbol>;
    /// Up to a few names like this one, for the message about a name that no symbol has.
    fn similar_names(&self, name: &str) -> alloc::vec::Vec<String>;
    /// What kind of executable memory an address lies in; `None` for data and for text that has been freed.
    fn text_kind(&self, address: u64) -> Option<Text>;
    /// A place that the kernel itself patches or depends on, at exactly this address.
    fn site_at(&self, address: u64) -> Option<Site>;
    /// Whether the kernel's own tracer has a site in a function; `None`: it has none anywhere, or nobody knows where.
    fn is_traced(&self, function: Range<u64>) -> Option<bool> {
        let _ = function;
        None
    }
    /// What the kernel says must not be probed, in the order of its own list.
    fn blacklist(&self) -> &[Blacklisted];

    /// The first instruction in a range that the kernel's exception table lists.
    fn expected_fault(&self, range: Range<u64>) -> Option<u64> {
        let _ = range;
        None
    }
    /// The first place in a range where that table lets execution go on after a fault.
    fn fixup(&self, range: Range<u64>) -> Option<u64> {
        let _ = range;
        None
    }
    /// The code through which the kernel makes its indirect jumps.
    fn indirect_thunks(&self) -> Range<u64> {
        0..0
    }

    /// Reads text as it is now, our own breakpoints included.
    fn read_text(&self, address: u64, into: &mut [u8]) -> Result<(), Fault>;
    /// Changes text, whatever its protection and whichever page tables are in force, and drops what was translated from
    /// it.
    fn patch_text(&mut self, address: u64, bytes: &[u8]) -> Result<(), Fault>;

    /// Takes `len` bytes (a multiple of [`WINDOW_UNIT`], aligned to it) of executable memory that the guest does not
    /// know of. A guest with windows in several places takes those nearest to `near`; whether that is near enough for a
    /// branch the ISA says, when it is asked for one. `None`: no window has room.
    fn window_take(&mut self, near: u64, len: usize) -> Option<u64>;
    /// Gives them back. The caller has made sure that no CPU is inside.
    fn window_give(&mut self, at: u64, len: usize);
    /// Writes code there and says what it stands for, so that time and interrupts are those of the original.
    fn window_write(&mut self, at: u64, bytes: &[u8], stands_for: Window);
    /// Where these two pcs would fight for one entry of the CPU core's jump cache, false otherwise.
    fn pcs_collide(&self, one: u64, other: u64) -> bool {
        let _ = (one, other);
        false
    }

    /// Whether any CPU's pc, or the pc saved by an interrupt or exception that will return, lies in this range.
    fn any_cpu_inside(&self, range: Range<u64>) -> bool;
    /// For each range, whether a word of the guest's memory is an address in it: the pc that an interrupted task will
    /// come back to may be one.
    fn remembers_addresses(&self, ranges: &[Range<u64>]) -> alloc::vec::Vec<bool> {
        ranges.iter().map(|_| false).collect()
    }
    /// Lets the guest run until no CPU is inside this range, a bounded time. False: one still is.
    fn drain(&mut self, range: Range<u64>) -> bool {
        !self.any_cpu_inside(range)
    }
}

/// The grain of the probe window.
pub const WINDOW_UNIT: usize = 32;

/// What a piece of the probe window stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// The first `displaced` bytes run the instruction at `origin`; what is behind them is the way back.
    Copy {
        /// The probed address.
        origin: u64,
        /// Length of the displaced instruction.
        displaced: u8,
        /// Bytes of the instruction in front of what runs here: of a branch that is computed, in whose delay slot this
        /// is.
        in_front: u8,
    },
    /// The detour of an optimised probe: `lead` bytes that do nothing, the `displaced` bytes of the instructions from
    /// `origin` on, and the way back. It is come to by a jump of `jump` bytes at `origin`; a CPU at its start is an
    /// [`crate::Engine::jumped_in`] one.
    Detour {
        /// The probed address.
        origin: u64,
        /// Length of the displaced instructions.
        displaced: u8,
        /// Length of what stands in front of them.
        lead: u8,
        /// Length of the jump.
        jump: u8,
        /// What [`crate::Engine::jumped_in`] is to be given.
        point: u32,
    },
    /// A faithful detour, over several units: in `lead` bytes it saves the registers, calls the trampoline and takes
    /// them back; then as [`Window::Detour`]. A CPU at its start is an [`crate::Engine::saving`] one.
    Faithful {
        /// The probed address.
        origin: u64,
        /// Length of the displaced instructions.
        displaced: u8,
        /// Length of what stands in front of them.
        lead: u8,
        /// Length of the jump.
        jump: u8,
    },
    /// What faithful detours call: counts no time, takes no interrupt. A CPU at its start is an
    /// [`crate::Engine::called`] one.
    Trampoline,
    /// The place where hijacked functions return to: counts no time, takes no interrupt. First `jump` bytes that lead
    /// on to the true address; a CPU at their start is an [`crate::Engine::returned_to_pad`] one. Then a breakpoint.
    ReturnPad {
        /// Length of what leads on; 0: there is the breakpoint alone.
        jump: u8,
    },
    /// The breakpoint by which a jprobe handler ends.
    JprobeReturn,
}

/// A named extent of the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// As in kallsyms.
    pub name: String,
    /// Its first address.
    pub start: u64,
    /// Bytes to the next symbol.
    pub size: u64,
    /// The module it is in, if any.
    pub module: Option<String>,
}

/// Kinds of executable memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Text {
    /// Stays as long as the kernel runs.
    Core,
    /// Freed when the boot is done.
    Init,
}

/// Places that are not free to be patched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Site {
    /// An ftrace call site.
    Ftrace,
    /// A static key's jump or nop.
    JumpLabel,
    /// A static call.
    StaticCall,
    /// The trapping instruction of BUG() or WARN().
    Bug,
    /// A LOCK prefix that is patched with the number of CPUs.
    SmpLock,
    /// A page shared with user space, such as the vsyscall page.
    Gate,
    /// Data among the code, which the code reads.
    Data,
}

/// One entry of a blacklist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blacklisted {
    /// The addresses.
    pub range: Range<u64>,
    /// The function's name, for the view.
    pub name: String,
    /// Listed in the guest's own view; ranges that are only tested for are not.
    pub listed: bool,
}

/// A CPU that has just trapped, stopped between two instructions. Memory is read and written with the rights of the
/// kernel code that ran.
pub trait Cpu: Registers + Memory {
    /// Its number, below [`Guest::cpus`].
    fn number(&self) -> usize;
    /// A key of the task that runs on it; the same until that task exits.
    fn task(&mut self) -> u64;
    /// The task's number as `ps` shows it; 0 where the machine cannot tell.
    fn pid(&mut self) -> u32;
    /// The number of the process that it is a thread of.
    fn process(&mut self) -> u32 {
        self.pid()
    }
    /// The task's name, zero-padded.
    fn comm(&mut self) -> [u8; 16];
    /// Virtual time in nanoseconds.
    fn now(&self) -> u64;
    /// Whether an interrupt could be taken here, as the original code had it, and whether code runs in an interrupt
    /// handler: for the trace's `d...` column.
    fn interrupts_off(&self) -> bool;
    /// What the kernel knows of the moment: whether interrupts are off, and, where the machine can tell, what else
    /// ftrace shows.
    fn moment(&mut self) -> Flags {
        Flags::NONE.with_if(self.interrupts_off(), Flags::INTERRUPTS_OFF)
    }
    /// Whether the guest steps its own code, and a trap of its own comes behind the next instruction.
    fn is_stepped(&self) -> bool {
        false
    }
    /// The exception that has stopped it is that of the instruction in the delay slot of the branch at the pc, or of the
    /// one at the pc, which is in a delay slot; behind it execution goes on there.
    fn stopped_in_delay_slot(&mut self, then: u64) {
        let _ = then;
    }
    /// Changes kernel text, whatever its protection, and drops what was translated from it.
    fn patch_text(&mut self, address: u64, bytes: &[u8]) -> Result<(), Fault> {
        let _ = bytes;
        Err(Fault { address, write: true })
    }
    /// A word of the kernel's stacks, also where the CPU still holds in a register what belongs there.
    fn stack_word(&mut self, address: u64, size: usize) -> Option<u64> {
        self.read_number(address, size).ok()
    }
    /// Reads user memory of the running task.
    fn read_user(&mut self, address: u64, into: &mut [u8]) -> Result<(), Fault> {
        self.read(address, into)
    }
    /// Where the kernel counts, in 4 bytes, what keeps this CPU from being preempted; `None` where that is not known.
    fn preemptions(&mut self) -> Option<u64> {
        None
    }
    /// Asks whoever runs the machine to look at the engine at the next place where a run may be ended.
    fn look_soon(&mut self) {}
}

/// What the engine made of a trap. Registers and pc have been set in the [`Cpu`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// None of ours: the guest gets its exception, as the original code would have raised it (pc mended if it was in
    /// the window).
    NotOurs,
    /// Ours. Execution goes on at the pc.
    Resume(Resume),
}

/// How a claimed trap counts for the machine's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resume {
    /// Bytes of the guest's own code that were executed by the engine itself (an emulated instruction's length).
    pub counted: u8,
    /// What is at the pc is in a delay slot: behind it execution goes on there.
    pub behind_slot: Option<u64>,
    /// The new pc continues the line of code: no interrupt is to be taken there that the unprobed guest would not take.
    pub falls_through: bool,
    /// The guest steps its own code, and the engine itself has executed the instruction: the trap behind it is the
    /// machine's to raise.
    pub stepped: bool,
    /// A guest-code handler runs now: no time passes and no interrupt is taken on this CPU until an answer says
    /// otherwise.
    pub frozen: bool,
}
