//! The registers of SPARC V9 CPUs under gdb's names, in the order in which gdb's remote protocol sends them.

use crate::cpu::debugger::From::{Named, Nowhere, Pc, Reg as Of};
use crate::cpu::debugger::{CODE, DATA, Description, Group, Row, many, one};
use trapline_isa::regs::Reg;
use trapline_isa::sparc64::abi;

/// The description of SPARC V9 CPUs.
pub static DESCRIPTION: Description = Description {
    architecture: "sparc:v9",
    watches_in_front: false,
    groups: &[
        Group {
            name: "org.gnu.gdb.sparc.cpu",
            rows: &[
                many("g", 8, 64, "uint64", Of(Reg(0))),
                many("o", 6, 64, "uint64", Of(Reg(8))),
                one("sp", 64, DATA, Of(Reg(14))),
                one("o7", 64, "uint64", Of(Reg(15))),
                many("l", 8, 64, "uint64", Of(Reg(16))),
                many("i", 6, 64, "uint64", Of(Reg(24))),
                one("fp", 64, DATA, Of(Reg(30))),
                one("i7", 64, "uint64", Of(Reg(31))),
            ],
        },
        Group {
            name: "org.gnu.gdb.sparc.cp0",
            rows: &[
                one("pc", 64, CODE, Pc),
                one("npc", 64, CODE, Of(abi::NPC)),
                one("state", 64, "int", Of(abi::TSTATE)),
                one("fsr", 64, "int", Named("fsr")),
                one("fprs", 64, "int", Named("fprs")),
                one("y", 64, "int", Of(abi::Y)),
            ],
        },
        Group { name: "org.gnu.gdb.sparc.fpu", rows: FLOATS },
        Group {
            name: "org.trapline.system",
            rows: &[
                one("pil", 64, "int", Named("pil")),
                one("tba", 64, "int", Named("tba")),
                one("tl", 64, "int", Named("tl")),
                one("cansave", 64, "int", Named("cansave")),
                one("canrestore", 64, "int", Named("canrestore")),
            ],
        },
    ],
};

const fn double(name: &'static str) -> Row {
    one(name, 64, "ieee_double", Nowhere)
}

#[rustfmt::skip]
const FLOATS: &[Row] = &[
    many("f", 32, 32, "ieee_single", Nowhere),
    double("f32"), double("f34"), double("f36"), double("f38"), double("f40"), double("f42"), double("f44"), double("f46"),
    double("f48"), double("f50"), double("f52"), double("f54"), double("f56"), double("f58"), double("f60"), double("f62"),
];
