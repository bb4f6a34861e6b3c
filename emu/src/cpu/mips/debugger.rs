//! The registers of MIPS CPUs under gdb's names, in the order in which gdb's remote protocol sends them.

use crate::cpu::debugger::From::{Named, Nowhere, Pc, Reg as Of};
use crate::cpu::debugger::{CODE, Description, Group, many, one};
use trapline_isa::mips::abi;
use trapline_isa::regs::Reg;

macro_rules! description {
    ($name:ident, $architecture:literal, $bits:literal) => {
        /// The description of CPUs with registers of this width.
        pub static $name: Description = Description {
            architecture: $architecture,
            watches_in_front: true,
            groups: &[
                Group {
                    name: "org.gnu.gdb.mips.cpu",
                    rows: &[
                        many("r", 32, $bits, "int", Of(Reg(0))),
                        one("lo", $bits, "int", Of(abi::LO)),
                        one("hi", $bits, "int", Of(abi::HI)),
                        one("pc", $bits, CODE, Pc),
                    ],
                },
                Group {
                    name: "org.gnu.gdb.mips.cp0",
                    rows: &[
                        one("status", $bits, "int", Of(abi::STATUS)),
                        one("badvaddr", $bits, "int", Of(abi::BADVADDR)),
                        one("cause", $bits, "int", Of(abi::CAUSE)),
                    ],
                },
                Group {
                    name: "org.gnu.gdb.mips.fpu",
                    rows: &[
                        many("f", 32, $bits, "int", Nowhere),
                        one("fcsr", $bits, "int", Nowhere),
                        one("fir", $bits, "int", Nowhere),
                    ],
                },
                Group {
                    name: "org.trapline.system",
                    rows: &[one("epc", $bits, "int", Of(abi::EPC)), one("entryhi", $bits, "int", Named("entryhi"))],
                },
            ],
        };
    };
}

description!(NARROW, "mips:isa32r2", 32);
description!(WIDE, "mips:isa64r2", 64);
