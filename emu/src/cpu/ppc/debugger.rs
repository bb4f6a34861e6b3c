//! The registers of PowerPC CPUs under gdb's names, in the order in which gdb's remote protocol sends them.

use crate::cpu::debugger::From::{Pc, Reg as Of};
use crate::cpu::debugger::{CODE, Description, Group, many, one};
use trapline_isa::ppc::abi;
use trapline_isa::regs::Reg;

macro_rules! description {
    ($name:ident, $architecture:literal, $bits:literal, $kind:literal) => {
        /// The description of CPUs with registers of this width.
        pub static $name: Description = Description {
            architecture: $architecture,
            watches_in_front: true,
            groups: &[
                Group {
                    name: "org.gnu.gdb.power.core",
                    rows: &[
                        many("r", 32, $bits, $kind, Of(Reg(0))),
                        one("pc", $bits, CODE, Pc),
                        one("msr", $bits, $kind, Of(abi::MSR)),
                        one("cr", 32, "uint32", Of(abi::CR)),
                        one("lr", $bits, CODE, Of(abi::LR)),
                        one("ctr", $bits, $kind, Of(abi::CTR)),
                        one("xer", 32, "uint32", Of(abi::XER)),
                    ],
                },
                Group {
                    name: "org.trapline.system",
                    rows: &[one("dar", $bits, $kind, Of(abi::DAR)), one("dsisr", $bits, $kind, Of(abi::DSISR))],
                },
            ],
        };
    };
}

description!(NARROW, "powerpc:common", 32, "uint32");
description!(WIDE, "powerpc:common64", 64, "uint64");
