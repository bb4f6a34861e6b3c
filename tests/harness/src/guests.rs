//! The guests of the test families. A new guest joins all families by its row in a catalogue of `trapline-images` and,
//! if it is a stock kernel, by its row in [`STOCKS`].
//!
//! [`tiny`] lists the built-in kernels, and [`stock`] the stock kernels, the first of each architecture. A row of
//! [`STOCKS`] holds what the families need to know about a stock kernel, and the families that cannot run on it.

use trapline_images::Stock;

/// Names of the built-in kernels: `tiny/x86_64`.
pub fn tiny() -> impl Iterator<Item = &'static str> {
    trapline_images::builtins().iter().map(|builtin| builtin.name)
}

/// Names of the stock kernels, the first of each architecture: `debian/amd64`.
pub fn stock() -> impl Iterator<Item = &'static str> {
    let stocks = trapline_images::stocks();
    let is_first = |(place, stock): &(usize, &Stock)| {
        stocks.iter().position(|other| other.architecture == stock.architecture) == Some(*place)
    };
    stocks.iter().enumerate().filter(is_first).map(|(_, stock)| stock.name)
}

/// Those of [`stock`] on which a family can run.
pub fn stock_in(family: Family) -> impl Iterator<Item = &'static str> {
    stock().filter(move |name| !facts_of(name).outside.iter().any(|Outside(out, _)| *out == family))
}

/// A family of tests that some of the stock kernels cannot run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// The kernel's own ftrace and kprobes patch its text beside our probes.
    TracesItself,
    /// The five letters of a trace line equal those of the guest's ftrace.
    Letters,
    /// The kernel prints the same stacks with and without return probes.
    PrintsStacks,
    /// `kstack` equals the guest's `/proc/self/stack`.
    KernelStacks,
    /// Stacks of events equal the guest's `/proc/self/stack`.
    EventStacks,
    /// The user-space pc equals the one in `/proc/self/syscall`.
    UserPcs,
    /// Events follow Debian's module `dummy`.
    Modules,
    /// A module of many pages is read when the loader has placed it.
    LargeModules,
    /// Hits in user programs equal those of the guest's own uprobes.
    OwnUprobes,
    /// The program `calls` runs.
    Calls,
}

/// A family that a guest is not in, and the reason.
#[derive(Clone, Copy, Debug)]
pub struct Outside(pub Family, pub &'static str);

/// Facts about a stock kernel that the families need.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// Its name in the catalogue.
    pub name: &'static str,
    /// The machine's name in the guest's `uname -m`.
    pub machine: &'static str,
    /// The least number of hits per window fault. It is low where the CPU often drops the window's mapping.
    pub hits_per_fault: u64,
    /// Whether the probed boot is repeated and compared bit by bit.
    pub boots_twice: bool,
    /// The proof that the image's own decompressor works. `None`: it has none that can be entered.
    pub unpacks: Option<Unpacks>,
    /// Facts about the kernel's BTF types. `None`: it has no types.
    pub types: Option<Types>,
    /// Offset of the first instruction behind a function's ftrace site.
    pub behind_ftrace: u32,
    /// Length of a function's first instruction, in bytes.
    pub first: u32,
    /// Offset of a function's entry from its symbol.
    pub entry: u32,
    /// Whether a probe on the second half of an instruction is refused as no instruction (`EILSEQ`), not as misaligned
    /// (`EINVAL`).
    pub has_any_length: bool,
    /// The families that cannot run on it.
    pub outside: &'static [Outside],
}

/// Two functions that run before the console prints a text.
#[derive(Clone, Copy, Debug)]
pub struct Unpacks {
    /// The functions.
    pub functions: [&'static str; 2],
    /// The text.
    pub says: &'static str,
}

/// Names in a kernel with types.
#[derive(Clone, Copy, Debug)]
pub struct Types {
    /// The function of the system call `read`.
    pub sys_read: &'static str,
    /// The pc in `struct pt_regs`.
    pub pc: &'static str,
}

const NOT_COMPARED: &str = "not compared on this kernel yet";
const SMALL: &str = "this small kernel is built without it";

/// The values that most kernels have.
const USUAL: Facts = Facts {
    name: "",
    machine: "",
    hits_per_fault: 20,
    boots_twice: false,
    unpacks: None,
    types: None,
    behind_ftrace: 16,
    first: 4,
    entry: 0,
    has_any_length: false,
    outside: &[],
};

/// Most kernels are seen to have unpacked themselves before the first process is made.
const EARLY: Option<Unpacks> = Some(Unpacks { functions: ["start_kernel", "setup_arch"], says: "pid_max: default" });

/// x86, whose instructions have any length.
const X86: Facts = Facts { behind_ftrace: 5, first: 5, has_any_length: true, ..USUAL };

const ARM: Facts =
    Facts { outside: &[Outside(Family::TracesItself, NOT_COMPARED), Outside(Family::Modules, NOT_COMPARED)], ..USUAL };

const MIPS: Facts = Facts {
    boots_twice: true,
    unpacks: EARLY,
    outside: &[
        Outside(Family::Letters, NOT_COMPARED),
        Outside(Family::EventStacks, NOT_COMPARED),
        Outside(Family::UserPcs, NOT_COMPARED),
    ],
    ..USUAL
};

/// The stock kernels of the families. Kernels that are not the first of their architecture boot only.
pub const STOCKS: &[Facts] = &[
    Facts {
        name: "debian/amd64",
        machine: "x86_64",
        boots_twice: true,
        // A bzImage, entered at its 64-bit entry.
        unpacks: EARLY,
        types: Some(Types { sys_read: "__x64_sys_read", pc: "ip" }),
        ..X86
    },
    Facts {
        name: "debian/i386",
        machine: "i686",
        boots_twice: true,
        // A bzImage, entered at its 32-bit entry.
        unpacks: EARLY,
        ..X86
    },
    Facts {
        name: "debian/arm64",
        machine: "aarch64",
        types: Some(Types { sys_read: "__arm64_sys_read", pc: "pc" }),
        behind_ftrace: 8,
        ..ARM
    },
    Facts {
        name: "debian/armhf",
        machine: "armv7l",
        // This CPU drops the window's mapping with every change of the address space.
        hits_per_fault: 8,
        // A zImage. Probes are possible later there, when the kernel has patched its text.
        unpacks: Some(Unpacks { functions: ["kernel_init", "kernel_init_freeable"], says: "devtmpfs: initialized" }),
        behind_ftrace: 20,
        ..ARM
    },
    Facts {
        name: "debian/ppc64el",
        machine: "ppc64le",
        // The core flushes all translated code with each page that the kernel unmaps.
        hits_per_fault: 4,
        // The ftrace site is behind the TOC setup and the copy of the link register.
        behind_ftrace: 16,
        entry: 8,
        outside: &[
            Outside(Family::Letters, NOT_COMPARED),
            Outside(Family::EventStacks, NOT_COMPARED),
            Outside(Family::UserPcs, NOT_COMPARED),
        ],
        ..USUAL
    },
    Facts {
        name: "debian/s390x",
        machine: "s390x",
        // The kernel switches page tables at every system call.
        hits_per_fault: 4,
        boots_twice: true,
        // A vmlinuz, whose entry is the same whether it is compressed or not.
        unpacks: EARLY,
        behind_ftrace: 6,
        first: 6,
        outside: &[
            Outside(Family::Letters, NOT_COMPARED),
            Outside(Family::EventStacks, NOT_COMPARED),
            Outside(Family::UserPcs, NOT_COMPARED),
        ],
        ..USUAL
    },
    Facts {
        name: "debian/riscv64",
        machine: "riscv64",
        // The kernel flushes the TLB with each page that it maps.
        hits_per_fault: 4,
        boots_twice: true,
        types: Some(Types { sys_read: "__riscv_sys_read", pc: "epc" }),
        // The ftrace site is two nops.
        behind_ftrace: 8,
        has_any_length: true,
        ..USUAL
    },
    Facts { name: "debian/mipsel", machine: "mips", ..MIPS },
    Facts { name: "debian/mips64el", machine: "mips64", ..MIPS },
    Facts {
        name: "linux/mips",
        machine: "mips",
        unpacks: None,
        outside: &[
            Outside(Family::Letters, SMALL),
            Outside(Family::TracesItself, SMALL),
            Outside(Family::PrintsStacks, SMALL),
            Outside(Family::KernelStacks, SMALL),
            Outside(Family::EventStacks, SMALL),
            Outside(Family::UserPcs, SMALL),
            Outside(Family::Modules, SMALL),
            Outside(Family::LargeModules, SMALL),
        ],
        ..MIPS
    },
    Facts {
        name: "linux/ppc",
        machine: "ppc",
        // BATs that the real CPU does not have map the window.
        hits_per_fault: 1000,
        boots_twice: true,
        // Its functions have no TOC setup.
        behind_ftrace: 8,
        outside: &[
            Outside(Family::Letters, SMALL),
            Outside(Family::PrintsStacks, SMALL),
            Outside(Family::UserPcs, NOT_COMPARED),
            Outside(Family::LargeModules, SMALL),
            Outside(Family::Modules, "it has no network; tests/tests/modules.rs has another module for it"),
        ],
        ..USUAL
    },
    // PAE and NX.
    Facts { name: "debian/i386-pae", machine: "i686", ..X86 },
    // Long-descriptor page tables, on another core.
    Facts { name: "debian/armhf-lpae", machine: "armv7l", hits_per_fault: 8, ..ARM },
    // Threaded interrupts. It sends itself interrupts through its local APIC.
    Facts { name: "debian/amd64-rt", machine: "x86_64", ..X86 },
];

/// The facts about a stock kernel.
///
/// # Panics
///
/// If [`STOCKS`] has no row for it.
pub fn facts_of(name: &str) -> &'static Facts {
    let row = STOCKS.iter().find(|facts| facts.name == name);
    row.unwrap_or_else(|| panic!("tests/harness/src/guests.rs has no row for {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_architecture_has_facts_and_each_row_is_a_stock_kernel() {
        stock().for_each(|name| assert_eq!(facts_of(name).name, name));
        for facts in STOCKS {
            assert!(trapline_images::stocks().iter().any(|stock| stock.name == facts.name), "{}", facts.name);
        }
    }
}
