//! The registers of AArch64 CPUs under gdb's names, in the order in which gdb's remote protocol sends them.

use crate::cpu::debugger::From::{Halves, Named, Nowhere, Pc, Reg as Of};
use crate::cpu::debugger::{CODE, DATA, Description, Group, Row, many, one};
use trapline_isa::arm64::abi;
use trapline_isa::regs::Reg;

/// The description for A64 code.
pub static DESCRIPTION: Description = Description {
    architecture: "aarch64",
    watches_in_front: true,
    groups: &[
        Group {
            name: "org.gnu.gdb.aarch64.core",
            rows: &[
                many("x", 31, 64, "int", Of(abi::X0)),
                one("sp", 64, DATA, Of(abi::SP)),
                one("pc", 64, CODE, Pc),
                one("cpsr", 32, "int", Of(abi::PSTATE)),
            ],
        },
        Group {
            name: "org.gnu.gdb.aarch64.fpu",
            rows: &[
                many("v", 32, 128, "uint128", Halves(abi::V0, Reg(abi::V0.0 + 32))),
                one("fpsr", 32, "int", Nowhere),
                one("fpcr", 32, "int", Nowhere),
            ],
        },
        Group { name: "org.trapline.system", rows: SYSTEM },
    ],
};

const fn system(name: &'static str, from: &'static str) -> Row {
    one(name, 64, "uint64", Named(from))
}

const SYSTEM: &[Row] = &[
    system("SP_EL0", "sp_el0"),
    system("ELR_EL1", "elr"),
    system("ESR_EL1", "esr"),
    system("FAR_EL1", "far"),
    system("VBAR_EL1", "vbar"),
    system("TTBR0_EL1", "ttbr0"),
    system("TTBR1_EL1", "ttbr1"),
    system("SCTLR_EL1", "sctlr"),
];
