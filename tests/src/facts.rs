//! Facts about each ISA that only the tests need: its built-in guest, and expected values of that guest. [`GUESTS`]
//! lists the guests; [`facts`] returns an ISA's [`Facts`].

use std::sync::LazyLock;
use trapline_harness::guests;
use trapline_isa::arch::Arch;
use trapline_isa::regs::Reg;

/// The built-in kernels with their ISAs. Every test family runs on all of them.
pub static GUESTS: LazyLock<Vec<(Arch, &str)>> = LazyLock::new(|| {
    let arch = |name: &str| Arch::from_name(name.trim_start_matches("tiny/")).unwrap_or_else(|| panic!("the ISA of {name}"));
    guests::tiny().map(|name| (arch(name), name)).collect()
});

/// Expected values of one ISA.
pub struct Facts {
    /// The name of the pc in a report.
    pub pc: &'static str,
    /// Exception numbers for unmapped memory and for memory that is not writable.
    pub memory_faults: &'static [u32],
    /// A caller-saved register that is not an argument.
    pub scratch: &'static str,
    /// Breakpoints of the guest's own: the bytes, the exception number, and the pc's offset from the breakpoint.
    pub breakpoints: &'static [(&'static [u8], u32, u64)],
    /// The error code of such an exception, if there is one.
    pub breakpoint_detail: Option<u32>,
    /// Words in the report of a guest whose exceptions cannot be delivered, and the address where it is then.
    pub past_help: (&'static str, &'static str),
    /// Whether a return pops the return address off the stack.
    pub return_pops: bool,
    /// The register that holds the first argument after a function's first instruction, if that instruction moves it.
    pub moved_argument: Option<&'static str>,
    /// The number of parts into which the tiny kernel's instructions must be divided, so that the copies and detours of a
    /// part are all in reach of a jump.
    pub parts_in_reach: usize,
}

static X86: Facts = Facts {
    pc: "ip",
    memory_faults: &[14],
    scratch: "cx",
    breakpoints: &[(&[0xcc], 3, 1), (&[0xcd, 0x03], 3, 2)],
    breakpoint_detail: None,
    past_help: ("could not be delivered", "triple_fault"),
    return_pops: true,
    moved_argument: None,
    parts_in_reach: 1,
};
static X86_64: Facts = Facts { scratch: "r11", ..X86 };
static ARM64: Facts = Facts {
    pc: "pc",
    memory_faults: &[4],
    scratch: "x9",
    // `brk #0`, and the instruction that we use as the breakpoint.
    breakpoints: &[(&[0x00, 0x00, 0x20, 0xd4], 7, 0), (&[0x80, 0x00, 0x20, 0xd4], 7, 0)],
    breakpoint_detail: None,
    // Its vectors are at address 0, where no memory is mapped.
    past_help: ("no time passes", "0x200"),
    return_pops: false,
    moved_argument: None,
    parts_in_reach: 1,
};
static ARM: Facts = Facts {
    scratch: "ip",
    // Linux's `udf` breakpoint, and `bkpt`.
    breakpoints: &[(&[0xf8, 0x01, 0xf0, 0xe7], 1, 0), (&[0x70, 0x00, 0x20, 0xe1], 7, 0)],
    past_help: ("no time passes", "0xc"),
    ..ARM64
};

static THUMB2: Facts = Facts {
    // Linux's `udf` breakpoint in 16 and 32 bits, and `bkpt`.
    breakpoints: &[(&[0x18, 0xde], 1, 0), (&[0xf0, 0xf7, 0x18, 0xa0], 1, 0), (&[0x00, 0xbe], 7, 0)],
    ..ARM
};

static PPC64LE: Facts = Facts {
    pc: "nip",
    memory_faults: &[2],
    scratch: "gpr11",
    // `trap`, and `twi 31, r0, 0`, which Linux uses for BUG().
    breakpoints: &[(&[0x08, 0x00, 0xe0, 0x7f], 6, 0), (&[0x00, 0x00, 0xe0, 0x0f], 6, 0)],
    breakpoint_detail: Some(0x40),
    // No page maps its vectors any more.
    past_help: ("no time passes", "0xc000000000004400"),
    return_pops: false,
    moved_argument: None,
    parts_in_reach: 1,
};

static PPC64: Facts = Facts { breakpoints: &[(&[0x7f, 0xe0, 0x00, 0x08], 6, 0), (&[0x0f, 0xe0, 0x00, 0x00], 6, 0)], ..PPC64LE };

// Its vectors hold invalid instructions.
static PPC: Facts = Facts { past_help: ("no time passes", "0x700"), ..PPC64 };

static MIPSEL: Facts = Facts {
    pc: "pc",
    memory_faults: &[12, 13, 25, 26, 27],
    scratch: "t0",
    // `break 0`, and the instruction that we use as the breakpoint.
    breakpoints: &[(&[0x0d, 0x00, 0x00, 0x00], 18, 0), (&[0xcd, 0x80, 0x00, 0x00], 18, 0)],
    breakpoint_detail: None,
    // Its vectors hold an instruction that no CPU implements.
    past_help: ("no time passes", "no_vectors"),
    return_pops: false,
    moved_argument: None,
    parts_in_reach: 1,
};

static MIPS: Facts = Facts { breakpoints: &[(&[0x00, 0x00, 0x00, 0x0d], 18, 0), (&[0x00, 0x00, 0x80, 0xcd], 18, 0)], ..MIPSEL };

static S390X: Facts = Facts {
    pc: "psw.addr",
    // Region translation, segment translation, page translation and protection exceptions.
    memory_faults: &[0x3b, 0x10, 0x11, 0x04],
    scratch: "r1",
    // Linux's breakpoint, and another invalid instruction.
    breakpoints: &[(&[0x00, 0x02], 1, 0), (&[0x00, 0x01], 1, 0)],
    breakpoint_detail: None,
    past_help: ("cannot be delivered", "0x800"),
    return_pops: false,
    moved_argument: None,
    parts_in_reach: 1,
};

static SPARC64: Facts = Facts {
    pc: "pc",
    // Instruction and data access MMU misses, data access protection, and a misaligned address.
    memory_faults: &[0x64, 0x68, 0x6c, 0x34],
    scratch: "g5",
    // `ta 1`, and the instruction that we use as the breakpoint.
    breakpoints: &[(&[0x91, 0xd0, 0x20, 0x01], 0x101, 0), (&[0x91, 0xd0, 0x20, 0x70], 0x170, 0)],
    breakpoint_detail: None,
    past_help: ("could not be delivered", "0x80014200"),
    return_pops: false,
    // `save` moves the caller's out registers to in registers.
    moved_argument: Some("in0"),
    parts_in_reach: 1,
};

static PARISC: Facts = Facts {
    pc: "iaoq0",
    // Misses of code and data, rights, and a misaligned address.
    memory_faults: &[6, 15, 26, 28],
    scratch: "gr22",
    // `break 1,0`, and that of debuggers.
    breakpoints: &[(&[0x00, 0x00, 0x00, 0x01], 9, 0), (&[0x00, 0x01, 0x00, 0x04], 9, 0)],
    breakpoint_detail: None,
    // Its vectors hold words that are no instruction; addresses are physical there.
    past_help: ("no time passes", "0x102100"),
    return_pops: false,
    moved_argument: None,
    // 256 KiB in each direction.
    parts_in_reach: 4,
};

/// A bundle of `break.m 1` and `nop`, and one with the instruction that we use as the breakpoint.
const IA64_BREAKS: [[u8; 16]; 2] = [
    [0x00, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x00, 0x00, 0x00, 0x00, 0x04, 0x00],
    [0x00, 0x00, 0x80, 0x40, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x00, 0x00, 0x00, 0x00, 0x04, 0x00],
];

static IA64: Facts = Facts {
    pc: "ip",
    // Misses of code and data, rights to data.
    memory_faults: &[0x0c00, 0x1000, 0x5300],
    scratch: "r14",
    breakpoints: &[(&IA64_BREAKS[0], 0x2c00, 0), (&IA64_BREAKS[1], 0x2c00, 0)],
    breakpoint_detail: None,
    // Its vectors hold zeros, which are `break 0`.
    past_help: ("no time passes", "__user_text_image+0x1c00"),
    return_pops: false,
    moved_argument: None,
    parts_in_reach: 1,
};

static RISCV: Facts = Facts {
    pc: "epc",
    // Instruction, load and store page faults.
    memory_faults: &[12, 13, 15],
    scratch: "t3",
    // `ebreak` and `c.ebreak`.
    breakpoints: &[(&[0x73, 0x00, 0x10, 0x00], 3, 0), (&[0x02, 0x90], 3, 0)],
    breakpoint_detail: None,
    // Its vector is at address 0, where no memory is mapped.
    past_help: ("no time passes", "0x0"),
    return_pops: false,
    moved_argument: None,
    parts_in_reach: 1,
};

/// The expected values of an ISA.
pub fn facts(arch: Arch) -> &'static Facts {
    match arch {
        Arch::I386 => &X86,
        Arch::X86_64 => &X86_64,
        Arch::Arm64 => &ARM64,
        Arch::Arm => &ARM,
        Arch::Thumb2 => &THUMB2,
        Arch::Ppc64le => &PPC64LE,
        Arch::Mips | Arch::Mips64 => &MIPS,
        Arch::Mipsel | Arch::Mips64el => &MIPSEL,
        Arch::S390x => &S390X,
        Arch::Ppc64 => &PPC64,
        Arch::Sparc64 => &SPARC64,
        Arch::Riscv64 | Arch::Riscv32 => &RISCV,
        Arch::Ppc => &PPC,
        Arch::Parisc => &PARISC,
        Arch::Ia64 => &IA64,
    }
}

/// The name of the register that holds argument `number` (from 0).
pub fn argument(arch: Arch, number: usize) -> &'static str {
    let abi = arch.isa().abi;
    let register: Option<&Reg> = abi.arguments.get(number);
    let named = register.and_then(|register| abi.names.iter().find(|(_, known)| known == register));
    named.map_or("an argument without a register", |(name, _)| name)
}
