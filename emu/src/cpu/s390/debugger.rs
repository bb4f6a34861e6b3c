//! The registers of z/Architecture CPUs under gdb's names, in the order in which gdb's remote protocol sends them.

use crate::cpu::debugger::From::{Named, Nowhere, Pc, Reg as Of};
use crate::cpu::debugger::{Description, Group, many, one};
use trapline_isa::regs::Reg;

/// The description of z/Architecture CPUs.
pub static DESCRIPTION: Description = Description {
    architecture: "s390:64-bit",
    watches_in_front: false,
    groups: &[
        Group {
            name: "org.gnu.gdb.s390.core",
            rows: &[
                one("pswm", 64, "uint64", Named("psw.mask")),
                one("pswa", 64, "uint64", Pc),
                many("r", 16, 64, "uint64", Of(Reg(0))),
            ],
        },
        Group { name: "org.gnu.gdb.s390.acr", rows: &[many("acr", 16, 32, "uint32", Nowhere)] },
        Group {
            name: "org.gnu.gdb.s390.fpr",
            rows: &[one("fpc", 32, "uint32", Nowhere), many("f", 16, 64, "ieee_double", Nowhere)],
        },
        Group {
            name: "org.trapline.system",
            rows: &[
                one("prefix", 64, "uint64", Named("prefix")),
                one("cr0", 64, "uint64", Named("cr0")),
                one("cr1", 64, "uint64", Named("cr1")),
                one("cr13", 64, "uint64", Named("cr13")),
            ],
        },
    ],
};
