//! The registers of x86 CPUs under gdb's names, in the order in which gdb's remote protocol sends them.

use crate::cpu::debugger::From::{Named, Nowhere, Pc, Reg as Of};
use crate::cpu::debugger::{CODE, DATA, Description, Group, Row, many, one};
use trapline_isa::regs::Reg;
use trapline_isa::x86::abi;

/// The description of 64-bit CPUs.
pub static WIDE: Description = Description {
    architecture: "i386:x86-64",
    watches_in_front: false,
    groups: &[
        Group { name: "org.gnu.gdb.i386.core", rows: CORE_64 },
        Group {
            name: "org.gnu.gdb.i386.segments",
            rows: &[one("fs_base", 64, "int", Of(abi::FS_BASE)), one("gs_base", 64, "int", Of(abi::GS_BASE))],
        },
        Group { name: "org.trapline.system", rows: SYSTEM_64 },
    ],
};

/// The description of 32-bit CPUs.
pub static NARROW: Description = Description {
    architecture: "i386",
    watches_in_front: false,
    groups: &[Group { name: "org.gnu.gdb.i386.core", rows: CORE_32 }, Group { name: "org.trapline.system", rows: SYSTEM_32 }],
};

const fn general(name: &'static str, reg: Reg) -> Row {
    one(name, 64, "int64", Of(reg))
}
const fn short(name: &'static str, reg: Reg) -> Row {
    one(name, 32, "int32", Of(reg))
}
const fn control(name: &'static str, bits: u16) -> Row {
    one(name, bits, "int", Named(name))
}
/// A register of the floating-point unit, which is not shown.
const fn float(name: &'static str) -> Row {
    one(name, 32, "int", Nowhere)
}

#[rustfmt::skip]
const CORE_64: &[Row] = &[
    general("rax", abi::AX), general("rbx", abi::BX), general("rcx", abi::CX), general("rdx", abi::DX),
    general("rsi", abi::SI), general("rdi", abi::DI), one("rbp", 64, DATA, Of(abi::BP)), one("rsp", 64, DATA, Of(abi::SP)),
    general("r8", abi::R8), general("r9", abi::R9), general("r10", abi::R10), general("r11", abi::R11),
    general("r12", abi::R12), general("r13", abi::R13), general("r14", abi::R14), general("r15", abi::R15),
    one("rip", 64, CODE, Pc), short("eflags", abi::FLAGS),
    short("cs", abi::CS), short("ss", abi::SS), short("ds", abi::DS), short("es", abi::ES), short("fs", abi::FS), short("gs", abi::GS),
    many("st", 8, 80, "i387_ext", Nowhere),
    float("fctrl"), float("fstat"), float("ftag"), float("fiseg"), float("fioff"), float("foseg"), float("fooff"), float("fop"),
];

#[rustfmt::skip]
const CORE_32: &[Row] = &[
    short("eax", abi::AX), short("ecx", abi::CX), short("edx", abi::DX), short("ebx", abi::BX),
    one("esp", 32, DATA, Of(abi::SP)), one("ebp", 32, DATA, Of(abi::BP)), short("esi", abi::SI), short("edi", abi::DI),
    one("eip", 32, CODE, Pc), short("eflags", abi::FLAGS),
    short("cs", abi::CS), short("ss", abi::SS), short("ds", abi::DS), short("es", abi::ES), short("fs", abi::FS), short("gs", abi::GS),
    many("st", 8, 80, "i387_ext", Nowhere),
    float("fctrl"), float("fstat"), float("ftag"), float("fiseg"), float("fioff"), float("foseg"), float("fooff"), float("fop"),
];

const SYSTEM_64: &[Row] = &[control("cr0", 64), control("cr2", 64), control("cr3", 64), control("cr4", 64)];
const SYSTEM_32: &[Row] = &[control("cr0", 32), control("cr2", 32), control("cr3", 32), control("cr4", 32)];
