//! Guest kernels: the tiny kernel, ready to boot, and the way to build it again; stock kernels, pulled from their
//! distribution.
//!
//! Names are `family/variant`: `tiny/x86_64` is embedded, `debian/amd64` or `debian/amd64@6.1.0-56` is pulled into a
//! cache.

mod pull;
mod rebuild;
mod stock;

pub use pull::{Progress, PullError, Pulled, Puller};
pub use rebuild::{RebuildError, Rebuilt, Tools, rebuild, toolchains};
pub use stock::{Local, Stock, Wanted, busybox, cache_folder, command_line, folders, locate, remove, stocks, versions};

/// A kernel that is part of the program.
#[derive(Debug)]
pub struct Builtin {
    /// As on the command line, such as `tiny/x86_64`.
    pub name: &'static str,
    /// One line for people.
    pub description: &'static str,
    /// The ELF file.
    pub bytes: &'static [u8],
    /// The compiler and the linker that it is built by. Kernels of the same ones stand together.
    pub tools: [&'static str; 2],
    /// The command line that it boots with unless told otherwise.
    pub command_line: &'static str,
    /// Lines of kprobe_events that show something on this kernel.
    pub demo: &'static str,
}

/// Structures hold pointers, so that what is in them lies elsewhere where these are longer.
const DEMO_32: &str = include_str!("../tiny/demo-32.events");
const DEMO_64: &str = include_str!("../tiny/demo-64.events");

static BUILTINS: &[Builtin] = &[
    Builtin {
        name: "tiny/x86_64",
        description: "the tiny kernel for x86_64: 17 tasks, three of them programs, about 2 million instructions",
        bytes: include_bytes!("../tiny/prebuilt/tiny-x86_64.elf"),
        tools: ["gcc", "ld"],
        command_line: "",
        demo: DEMO_64,
    },
    Builtin {
        name: "tiny/i386",
        description: "the tiny kernel for i386: the same sources, paging in 32 bits, INT 0x80",
        bytes: include_bytes!("../tiny/prebuilt/tiny-i386.elf"),
        tools: ["gcc", "ld"],
        command_line: "",
        demo: DEMO_32,
    },
    Builtin {
        name: "tiny/arm64",
        description: "the tiny kernel for arm64: the same sources, four levels of page tables, SVC",
        bytes: include_bytes!("../tiny/prebuilt/tiny-arm64.elf"),
        tools: ["aarch64-linux-gnu-gcc", "aarch64-linux-gnu-ld"],
        command_line: "",
        demo: DEMO_64,
    },
    Builtin {
        name: "tiny/arm",
        description: "the tiny kernel for 32-bit ARM in A32 code: the same sources, sections and small pages, SVC",
        bytes: include_bytes!("../tiny/prebuilt/tiny-arm.elf"),
        tools: ["arm-linux-gnueabihf-gcc", "arm-linux-gnueabihf-ld"],
        command_line: "",
        demo: DEMO_32,
    },
    Builtin {
        name: "tiny/thumb2",
        description: "the tiny kernel for 32-bit ARM in Thumb code: as tiny/arm, in instructions of two and four bytes",
        bytes: include_bytes!("../tiny/prebuilt/tiny-thumb2.elf"),
        tools: ["arm-linux-gnueabihf-gcc", "arm-linux-gnueabihf-ld"],
        command_line: "",
        demo: DEMO_32,
    },
    Builtin {
        name: "tiny/ppc64le",
        description: "the tiny kernel for 64-bit PowerPC, the low byte first: the same sources, radix trees, two entries to a function, SC",
        bytes: include_bytes!("../tiny/prebuilt/tiny-ppc64le.elf"),
        tools: ["powerpc64le-linux-gnu-gcc", "powerpc64le-linux-gnu-ld"],
        command_line: "",
        demo: DEMO_64,
    },
    Builtin {
        name: "tiny/ppc64",
        description: "the same with the high byte first, and functions that pointers lead to by descriptors",
        bytes: include_bytes!("../tiny/prebuilt/tiny-ppc64.elf"),
        tools: ["powerpc64-linux-gnu-gcc", "powerpc64-linux-gnu-ld"],
        command_line: "",
        demo: DEMO_64,
    },
    Builtin {
        name: "tiny/ppc",
        description: "the tiny kernel for 32-bit PowerPC: the same sources, block registers and a hashed page table, SC",
        bytes: include_bytes!("../tiny/prebuilt/tiny-ppc.elf"),
        tools: ["powerpc-linux-gnu-gcc", "powerpc-linux-gnu-ld"],
        command_line: "",
        demo: DEMO_32,
    },
    Builtin {
        name: "tiny/mips",
        description: "the tiny kernel for 32-bit MIPS, the high byte first: the same sources, delay slots, a TLB filled by software, SYSCALL",
        bytes: include_bytes!("../tiny/prebuilt/tiny-mips.elf"),
        tools: ["mips-linux-gnu-gcc", "mips-linux-gnu-ld"],
        command_line: "",
        demo: DEMO_32,
    },
    Builtin {
        name: "tiny/mipsel",
        description: "the same with the low byte first",
        bytes: include_bytes!("../tiny/prebuilt/tiny-mipsel.elf"),
        tools: ["mipsel-linux-gnu-gcc", "mipsel-linux-gnu-ld"],
        command_line: "",
        demo: DEMO_32,
    },
    Builtin {
        name: "tiny/mips64",
        description: "the tiny kernel for 64-bit MIPS, the high byte first: as tiny/mips, eight arguments in registers",
        bytes: include_bytes!("../tiny/prebuilt/tiny-mips64.elf"),
        tools: ["mips64-linux-gnuabi64-gcc", "mips64-linux-gnuabi64-ld"],
        command_line: "",
        demo: DEMO_64,
    },
    Builtin {
        name: "tiny/mips64el",
        description: "the same with the low byte first",
        bytes: include_bytes!("../tiny/prebuilt/tiny-mips64el.elf"),
        tools: ["mips64el-linux-gnuabi64-gcc", "mips64el-linux-gnuabi64-ld"],
        command_line: "",
        demo: DEMO_64,
    },
    Builtin {
        name: "tiny/s390x",
        description: "the tiny kernel for z/Architecture: the same sources, PSWs that are exchanged, two address spaces, EXECUTE, SVC",
        bytes: include_bytes!("../tiny/prebuilt/tiny-s390x.elf"),
        tools: ["s390x-linux-gnu-gcc", "s390x-linux-gnu-ld"],
        command_line: "",
        demo: DEMO_64,
    },
    Builtin {
        name: "tiny/sparc64",
        description: "the tiny kernel for SPARC V9: the same sources, windows of registers, delay slots, TLBs filled by software, TA",
        bytes: include_bytes!("../tiny/prebuilt/tiny-sparc64.elf"),
        tools: ["sparc64-linux-gnu-gcc", "sparc64-linux-gnu-ld"],
        command_line: "",
        demo: DEMO_64,
    },
];

/// All of them, the default first.
pub fn builtins() -> &'static [Builtin] {
    BUILTINS
}

/// The one of that name.
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
