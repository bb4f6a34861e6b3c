//! Facts about Linux on an ISA: behaviour of its kprobes, its system calls and its signals, which no hardware
//! manual defines.

use crate::entry::NamedEntry;
use crate::plan::Errno;

/// A release of Linux whose decisions about probes are known on some ISA. Later releases are greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Release {
    /// Linux 6.1.
    V6_1,
    /// Linux 6.12.
    V6_12,
    /// Linux 7.2.
    V7_2,
}

impl Release {
    /// The version number.
    pub const fn name(self) -> &'static str {
        match self {
            Release::V6_1 => "6.1",
            Release::V6_12 => "6.12",
            Release::V7_2 => "7.2",
        }
    }
}

/// Facts about Linux on one ISA.
#[derive(Debug)]
pub struct Linux {
    /// The releases whose decisions the rules of this ISA know, in order.
    pub releases: &'static [Release],
    /// The pc that a pre-handler sees, minus the probed address: 1 on x86.
    pub pc_bias: u64,
    /// The errno for an address inside an instruction.
    pub boundary_errno: Errno,
    /// Whether Linux checks that an address is an instruction boundary. Only ISAs with several instruction lengths need that.
    pub finds_boundaries: bool,
    /// Whether Linux's kprobes use ftrace at ftrace's call sites. If not, Linux refuses probes there.
    pub ftrace_carries: bool,
    /// The prefix of a function's code symbol, on ISAs where the plain name is that of the descriptor (`.` on ppc64).
    pub code_prefix: &'static str,
    /// The place of a probe that names only a function.
    pub named_entry: NamedEntry,
    /// Functions that switch stacks. Linux refuses return probes there.
    pub no_return_probes: &'static [&'static str],
    /// Whether exceptions enter the code with this name, so that the link register belongs to the interrupted code.
    /// [`crate::plan::Policy::Best`] refuses return probes there.
    pub is_entered_by_exceptions: fn(&str) -> bool,
    /// Code that begins in another mode of the CPU than the kernel's. [`crate::plan::Policy::Best`] refuses probes there.
    pub in_other_modes: &'static [&'static str],
    /// The functions that implement system calls.
    pub system_calls: SystemCalls,
    /// Names of signals, by number.
    pub signals: &'static [&'static str],
    /// The place of a program's registers while the kernel runs for it; `None` if that is not known here.
    pub program: Option<Program>,
}

impl Linux {
    /// The facts that most ISAs have. A table names what differs.
    pub const USUAL: Linux = Linux {
        releases: &[Release::V6_1],
        pc_bias: 0,
        boundary_errno: Errno::EINVAL,
        finds_boundaries: false,
        ftrace_carries: false,
        code_prefix: "",
        named_entry: crate::entry::named_at_symbol,
        no_return_probes: &[],
        is_entered_by_exceptions: |_| false,
        in_other_modes: &[],
        system_calls: SystemCalls::PLAIN,
        signals: SIGNALS,
        program: None,
    };
}

/// The place of a program's saved registers (`pt_regs`), at the top of its task's kernel stack.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// Bytes from the start of the registers to the top of the stack.
    pub below_top: u16,
    /// Offset of the pc in them.
    pub pc: u16,
    /// Offset of the frame pointer and its name, where programs have a chain of frame pointers with the return address
    /// behind each.
    pub frame: Option<(u16, &'static str)>,
}

/// Names of signals by number, as most architectures have them.
pub const SIGNALS: &[&str] = &[
    "",
    "SIGHUP",
    "SIGINT",
    "SIGQUIT",
    "SIGILL",
    "SIGTRAP",
    "SIGABRT",
    "SIGBUS",
    "SIGFPE",
    "SIGKILL",
    "SIGUSR1",
    "SIGSEGV",
    "SIGUSR2",
    "SIGPIPE",
    "SIGALRM",
    "SIGTERM",
    "SIGSTKFLT",
    "SIGCHLD",
    "SIGCONT",
    "SIGSTOP",
    "SIGTSTP",
    "SIGTTIN",
    "SIGTTOU",
    "SIGURG",
    "SIGXCPU",
    "SIGXFSZ",
    "SIGVTALRM",
    "SIGPROF",
    "SIGWINCH",
    "SIGIO",
    "SIGPWR",
    "SIGSYS",
];

/// The functions that implement system calls, and their arguments.
#[derive(Debug)]
pub struct SystemCalls {
    /// The prefix that makes a system call's name the name of its function.
    pub prefix: &'static str,
    /// Offsets of the arguments in the `pt_regs` that the function gets a pointer to; `None` if the function gets the
    /// arguments themselves.
    pub arguments: Option<[u16; 6]>,
    /// Offset of the system call number in `pt_regs`.
    pub number: Option<u16>,
    /// The function that all system calls pass through, if it may be probed.
    pub dispatcher: Option<Dispatcher>,
}

/// A function that all system calls pass through.
#[derive(Debug)]
pub struct Dispatcher {
    /// The name of the function, as in kallsyms.
    pub name: &'static str,
    /// Index of the argument that points to `pt_regs`.
    pub registers: u8,
    /// Index of the argument with the system call number.
    pub number: u8,
    /// Its result is the result of the system call.
    pub returns: bool,
}

impl SystemCalls {
    /// Functions named `sys_*` that get the arguments themselves.
    pub const PLAIN: SystemCalls = SystemCalls { prefix: "sys_", arguments: None, number: None, dispatcher: None };
}
