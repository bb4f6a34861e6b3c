//! What Linux 6.1 itself says or does on an ISA, and no manual of the hardware.

use crate::entry::NamedEntry;
use crate::plan::Errno;

/// Linux's own facts about an ISA.
#[derive(Debug)]
pub struct Linux {
    /// What is added to the probe's address in the pc that a pre-handler sees (1 on x86).
    pub pc_bias: u64,
    /// The errno of an address that is not on an instruction boundary.
    pub boundary_errno: Errno,
    /// It looks whether an address is on a boundary, where instructions have several lengths.
    pub finds_boundaries: bool,
    /// Ftrace carries probes on its sites; where it does not they are refused.
    pub ftrace_carries: bool,
    /// What stands in front of a function's name where the name alone is that of its descriptor.
    pub code_prefix: &'static str,
    /// Where a probe stands that names a function alone.
    pub named_entry: NamedEntry,
    /// Functions that switch stacks, where return probes are refused.
    pub no_return_probes: &'static [&'static str],
    /// How programs' system calls come to the kernel's functions.
    pub system_calls: SystemCalls,
    /// The names of signals, by number.
    pub signals: &'static [&'static str],
    /// Where the kernel keeps a program's registers while it works for it; `None`: nobody has looked.
    pub program: Option<Program>,
}

/// Where a program's registers are kept: at the top of its task's kernel stack.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// So many bytes below the top.
    pub below_top: u16,
    /// How far behind that the pc is.
    pub pc: u16,
    /// The same of the frame pointer, and its name, where programs have one that leads to the caller's and stands in
    /// front of the return.
    pub frame: Option<(u16, &'static str)>,
}

/// The names of signals as nearly all architectures number them.
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

/// How programs' system calls come to the kernel's functions.
#[derive(Debug)]
pub struct SystemCalls {
    /// In front of a call's name is the name of its function.
    pub prefix: &'static str,
    /// Where the arguments lie in the registers that the function is given a pointer to; `None`: it is given the
    /// arguments themselves.
    pub arguments: Option<[u16; 6]>,
    /// Where the number of the call lies there.
    pub number: Option<u16>,
    /// The function through which all calls go, where that may be probed.
    pub dispatcher: Option<Dispatcher>,
}

/// A function through which all system calls go.
#[derive(Debug)]
pub struct Dispatcher {
    /// Its name.
    pub name: &'static str,
    /// Which of its arguments points to the saved registers.
    pub registers: u8,
    /// Which is the call's number.
    pub number: u8,
    /// It returns what the call did.
    pub returns: bool,
}

impl SystemCalls {
    /// Functions that are given the arguments as they are.
    pub const PLAIN: SystemCalls = SystemCalls { prefix: "sys_", arguments: None, number: None, dispatcher: None };
}
