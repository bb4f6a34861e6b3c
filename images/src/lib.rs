//! Guest kernels: the built-in tiny kernel and its build, and stock kernels of Debian.
//!
//! A kernel has a name `family/variant`. `tiny/x86_64` is embedded in the program ([`Builtin`]). `debian/amd64` or
//! `debian/amd64@6.1.0-56` is downloaded into the user's cache by a [`Puller`].

// No panic is reachable from a guest, a file or a command line (SECURITY.md).
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::unreachable, clippy::todo))]

mod pull;
mod rebuild;
mod stock;

pub use pull::{Progress, PullError, Pulled, Puller};
pub use rebuild::{RebuildError, Rebuilt, Tools, rebuild, toolchains};
pub use stock::{Local, Stock, Wanted, busybox, cache_folder, command_line, folders, locate, remove, stocks, versions};

/// A kernel that is part of the program.
#[derive(Debug)]
pub struct Builtin {
    /// The name on the command line, such as `tiny/x86_64`.
    pub name: &'static str,
    /// A one-line description for lists.
    pub description: &'static str,
    /// The ELF file.
    pub bytes: &'static [u8],
    /// The compiler and the linker that build it. Kernels with the same tools must be adjacent in the table.
    pub tools: [&'static str; 2],
    /// The default kernel command line.
    pub command_line: &'static str,
    /// Demo probes, as lines of kprobe_events.
    pub demo: &'static str,
    /// Whether `trapline bench` and the documents measure it by default. Kernels of a sibling ISA cost the same.
    pub measured: bool,
}

/// Offsets in structures depend on the size of pointers, so there are two sets of demo probes.
const DEMO_32: &str = include_str!("../tiny/demo-32.events");
const DEMO_64: &str = include_str!("../tiny/demo-64.events");

static BUILTINS: &[Builtin] = &[
    Builtin {
        name: "tiny/x86_64",
        description: "the tiny kernel for x86_64: 17 tasks, three of them user programs, about 2 million instructions",
        bytes: include_bytes!("../tiny/prebuilt/tiny-x86_64.elf"),
        tools: ["gcc", "ld"],
        command_line: "",
        demo: DEMO_64,
        measured: true,
    },
    Builtin {
        name: "tiny/i386",
        description: "the tiny kernel for i386: 32-bit paging, system calls by INT 0x80",
        bytes: include_bytes!("../tiny/prebuilt/tiny-i386.elf"),
        tools: ["gcc", "ld"],
        command_line: "",
        demo: DEMO_32,
        measured: true,
    },
    Builtin {
        name: "tiny/arm64",
        description: "the tiny kernel for arm64: four levels of page tables, system calls by SVC",
        bytes: include_bytes!("../tiny/prebuilt/tiny-arm64.elf"),
        tools: ["aarch64-linux-gnu-gcc", "aarch64-linux-gnu-ld"],
        command_line: "",
        demo: DEMO_64,
        measured: true,
    },
    Builtin {
        name: "tiny/arm",
        description: "the tiny kernel for 32-bit ARM in A32 code: sections and small pages, system calls by SVC",
        bytes: include_bytes!("../tiny/prebuilt/tiny-arm.elf"),
        tools: ["arm-linux-gnueabihf-gcc", "arm-linux-gnueabihf-ld"],
        command_line: "",
        demo: DEMO_32,
        measured: true,
    },
    Builtin {
        name: "tiny/thumb2",
        description: "the tiny kernel for 32-bit ARM in Thumb code: instructions of two and four bytes",
        bytes: include_bytes!("../tiny/prebuilt/tiny-thumb2.elf"),
        tools: ["arm-linux-gnueabihf-gcc", "arm-linux-gnueabihf-ld"],
        command_line: "",
        demo: DEMO_32,
        measured: false,
    },
    Builtin {
        name: "tiny/ppc64le",
        description: "the tiny kernel for 64-bit little-endian PowerPC: radix page tables, functions with two entries (ELFv2), SC",
        bytes: include_bytes!("../tiny/prebuilt/tiny-ppc64le.elf"),
        tools: ["powerpc64le-linux-gnu-gcc", "powerpc64le-linux-gnu-ld"],
        command_line: "",
        demo: DEMO_64,
        measured: true,
    },
    Builtin {
        name: "tiny/ppc64",
        description: "the tiny kernel for 64-bit big-endian PowerPC: radix page tables, function descriptors (ELFv1), SC",
        bytes: include_bytes!("../tiny/prebuilt/tiny-ppc64.elf"),
        tools: ["powerpc64-linux-gnu-gcc", "powerpc64-linux-gnu-ld"],
        command_line: "",
        demo: DEMO_64,
        measured: false,
    },
    Builtin {
        name: "tiny/ppc",
        description: "the tiny kernel for 32-bit PowerPC: block address translation and a hashed page table, SC",
        bytes: include_bytes!("../tiny/prebuilt/tiny-ppc.elf"),
        tools: ["powerpc-linux-gnu-gcc", "powerpc-linux-gnu-ld"],
        command_line: "",
        demo: DEMO_32,
        measured: false,
    },
    Builtin {
        name: "tiny/mips",
        description: "the tiny kernel for 32-bit big-endian MIPS: delay slots, software TLB refill, SYSCALL",
        bytes: include_bytes!("../tiny/prebuilt/tiny-mips.elf"),
        tools: ["mips-linux-gnu-gcc", "mips-linux-gnu-ld"],
        command_line: "",
        demo: DEMO_32,
        measured: false,
    },
    Builtin {
        name: "tiny/mipsel",
        description: "the tiny kernel for 32-bit little-endian MIPS: as tiny/mips",
        bytes: include_bytes!("../tiny/prebuilt/tiny-mipsel.elf"),
        tools: ["mipsel-linux-gnu-gcc", "mipsel-linux-gnu-ld"],
        command_line: "",
        demo: DEMO_32,
        measured: true,
    },
    Builtin {
        name: "tiny/mips64",
        description: "the tiny kernel for 64-bit big-endian MIPS: as tiny/mips, eight arguments in registers",
        bytes: include_bytes!("../tiny/prebuilt/tiny-mips64.elf"),
        tools: ["mips64-linux-gnuabi64-gcc", "mips64-linux-gnuabi64-ld"],
        command_line: "",
        demo: DEMO_64,
        measured: false,
    },
    Builtin {
        name: "tiny/mips64el",
        description: "the tiny kernel for 64-bit little-endian MIPS: as tiny/mips64",
        bytes: include_bytes!("../tiny/prebuilt/tiny-mips64el.elf"),
        tools: ["mips64el-linux-gnuabi64-gcc", "mips64el-linux-gnuabi64-ld"],
        command_line: "",
        demo: DEMO_64,
        measured: false,
    },
    Builtin {
        name: "tiny/s390x",
        description: "the tiny kernel for z/Architecture: PSW swaps, home and primary address space, EXECUTE, SVC",
        bytes: include_bytes!("../tiny/prebuilt/tiny-s390x.elf"),
        tools: ["s390x-linux-gnu-gcc", "s390x-linux-gnu-ld"],
        command_line: "",
        demo: DEMO_64,
        measured: true,
    },
    Builtin {
        name: "tiny/sparc64",
        description: "the tiny kernel for SPARC V9: register windows, delay slots, software TLB refill, system calls by TA",
        bytes: include_bytes!("../tiny/prebuilt/tiny-sparc64.elf"),
        tools: ["sparc64-linux-gnu-gcc", "sparc64-linux-gnu-ld"],
        command_line: "",
        demo: DEMO_64,
        measured: true,
    },
    Builtin {
        name: "tiny/riscv64",
        description: "the tiny kernel for 64-bit RISC-V: instructions of two and four bytes, Sv39, system calls by ECALL",
        bytes: include_bytes!("../tiny/prebuilt/tiny-riscv64.elf"),
        tools: ["riscv64-linux-gnu-gcc", "riscv64-linux-gnu-ld"],
        command_line: "",
        demo: DEMO_64,
        measured: true,
    },
    Builtin {
        name: "tiny/riscv32",
        description: "the tiny kernel for 32-bit RISC-V: as tiny/riscv64, with Sv32",
        bytes: include_bytes!("../tiny/prebuilt/tiny-riscv32.elf"),
        tools: ["riscv64-linux-gnu-gcc", "riscv64-linux-gnu-ld"],
        command_line: "",
        demo: DEMO_32,
        measured: true,
    },
    Builtin {
        name: "tiny/parisc",
        description: "the tiny kernel for PA-RISC: delay slots, nullified instructions, a stack that grows upwards; on a core of our own",
        bytes: include_bytes!("../tiny/prebuilt/tiny-parisc.elf"),
        tools: ["hppa-linux-gnu-gcc", "hppa-linux-gnu-ld"],
        command_line: "",
        demo: DEMO_32,
        measured: true,
    },
    Builtin {
        name: "tiny/ia64",
        description: "the tiny kernel for IA-64: bundles, predicates, a register stack with a backing store; on a core of our own",
        bytes: include_bytes!("../tiny/prebuilt/tiny-ia64.elf"),
        tools: ["ia64-linux-gnu-gcc", "ia64-linux-gnu-ld"],
        command_line: "",
        demo: DEMO_64,
        measured: true,
    },
];

/// All built-in kernels, the default first.
pub fn builtins() -> &'static [Builtin] {
    BUILTINS
}

/// The built-in kernel with that name.
pub fn find(name: &str) -> Option<&'static Builtin> {
    BUILTINS.iter().find(|builtin| builtin.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_is_found_by_its_full_name_only() {
        for builtin in builtins() {
            assert!(find(builtin.name).is_some_and(|found| std::ptr::eq(found, builtin)), "{}", builtin.name);
        }
        for name in ["", "tiny", "tiny/", "x86_64", "tiny/X86_64"] {
            assert!(find(name).is_none(), "{name:?}");
        }
    }
}
