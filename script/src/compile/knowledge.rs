//! The input of the compiler beside the script: facts about the guest, and the user's options.
//!
//! The machine implements the trait [`Knowledge`] from the guest's symbols, types and files. A fact that is not known has
//! a default, so a test or another machine implements only the facts that it has. [`Options`] come from the command line.

use crate::types::Types;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use trapline_isa::arch::Isa;
use trapline_probes::tracepoint::Tracepoint;
use trapline_probes::user::Usdt;

/// Facts about the guest that the compiler needs. The machine implements this trait.
pub trait Knowledge {
    /// The guest's ISA.
    fn isa(&self) -> &'static Isa;
    /// The kernel's types, if it has type information (BTF).
    fn types(&self) -> Option<&dyn Types>;
    /// The address of a symbol.
    fn address(&self, name: &str) -> Option<u64>;
    /// The address of a data symbol. Kernels may export data symbols to modules without listing them in kallsyms.
    fn data(&self, name: &str) -> Option<u64> {
        self.address(name)
    }
    /// The names of system calls, indexed by number. Empty if the kernel's table was not found.
    fn system_call_names(&self) -> Arc<[String]> {
        Arc::new([])
    }
    /// The functions that match a pattern and may be probed, each once, in a fixed order. `*` stands for any letters.
    fn functions(&self, pattern: &str, returns: bool) -> Vec<String>;
    /// The functions of a user program's file whose names match a pattern, each once, in a fixed order. Fails with a
    /// sentence if the file or its functions are not known.
    fn program_functions(&self, path: &str, pattern: &str) -> Result<Vec<String>, String> {
        let _ = pattern;
        Err(format!("the files of this guest are not known, {path} among them"))
    }
    /// The offset in a program's file of an address that the file was linked for.
    fn program_offset(&self, path: &str, address: u64) -> Option<u64> {
        let _ = (path, address);
        None
    }
    /// The address that a function of a program's file was linked for.
    fn program_address(&self, path: &str, name: &str) -> Option<u64> {
        let _ = (path, name);
        None
    }
    /// The path of a program (`bash`) or library (`libc`) by its name alone. `None` if the guest has no such file.
    fn program_path(&self, name: &str) -> Option<String> {
        let _ = name;
        None
    }
    /// The number of functions and USDT probes of a user program's file, which a pattern is compared with.
    fn program_size(&self, path: &str) -> u64 {
        let _ = path;
        0
    }
    /// The USDT probes of a user program's file that match a provider and a name, in a fixed order. Several places may
    /// have one name. Fails with a sentence if the file is not known.
    fn usdt(&self, path: &str, provider: &str, name: &str) -> Result<Vec<Usdt>, String> {
        let _ = (provider, name);
        Err(format!("the files of this guest are not known, {path} among them"))
    }
    /// The number of names that a pattern is compared with.
    fn names(&self) -> u64 {
        0
    }
    /// The kernel's tracepoints that match a group and a name, in a fixed order. `*` stands for any letters.
    fn tracepoints(&self, group: &str, name: &str) -> Vec<Arc<Tracepoint>> {
        let _ = (group, name);
        Vec::new()
    }
}

/// Options of the compiler.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The values of `$1`, `$2` and so on.
    pub parameters: Vec<String>,
    /// The values that `getopt` returns, from `--name=value`.
    pub named: Vec<(String, String)>,
    /// Allows actions that change the guest's behaviour, such as `override`.
    pub allows_unsafe: bool,
    /// Settings that override those of the script's `config`, as names and values.
    pub settings: Vec<(String, String)>,
    /// If set, hits in other processes are ignored.
    pub process: Option<u32>,
    /// Whether a read of unmapped memory prints a warning.
    pub warns_of_reads: bool,
    /// Whether the script is given a [`Past`](crate::past::Past), which `last_write` asks.
    pub has_past: bool,
    /// Follow bpftrace 0.17 where its dialect differs from the present one.
    pub old: bool,
}
