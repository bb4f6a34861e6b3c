//! The registers of 32-bit ARM CPUs under gdb's names, in the order in which gdb's remote protocol sends them.

use crate::cpu::debugger::From::{Named, Pc, Reg as Of};
use crate::cpu::debugger::{CODE, DATA, Description, Group, Row, many, one};
use trapline_isa::arm::abi;
use trapline_isa::regs::Reg;

/// The description for A32 and T32 code.
pub static DESCRIPTION: Description = Description {
    architecture: "arm",
    watches_in_front: true,
    groups: &[
        Group {
            name: "org.gnu.gdb.arm.core",
            rows: &[
                many("r", 13, 32, "uint32", Of(Reg(0))),
                one("sp", 32, DATA, Of(abi::SP)),
                one("lr", 32, "int", Of(abi::LR)),
                one("pc", 32, CODE, Pc),
                one("cpsr", 32, "int", Of(abi::CPSR)),
            ],
        },
        Group {
            name: "org.gnu.gdb.arm.vfp",
            rows: &[many("d", 32, 64, "ieee_double", Of(abi::D0)), one("fpscr", 32, "int", Named("fpscr"))],
        },
        Group { name: "org.trapline.system", rows: SYSTEM },
    ],
};

const fn system(name: &'static str) -> Row {
    one(name, 32, "uint32", Named(name))
}

const SYSTEM: &[Row] = &[system("sctlr"), system("ttbr0"), system("dfar"), system("dfsr"), system("ifar"), system("ifsr")];
