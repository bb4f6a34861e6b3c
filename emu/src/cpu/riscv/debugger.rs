//! The registers of RISC-V CPUs under gdb's names: the general ones and the pc, as gdb's feature `org.gnu.gdb.riscv.cpu`
//! demands them, and the CSRs of supervisor mode with the privilege level.

use crate::cpu::debugger::From::{Named, Pc, Reg as Of};
use crate::cpu::debugger::{CODE, DATA, Description, Group, Row, one};
use trapline_isa::regs::Reg;

macro_rules! description {
    ($name:ident, $architecture:literal, $bits:literal) => {
        /// The description of CPUs with registers of this width.
        pub static $name: Description = Description {
            architecture: $architecture,
            watches_in_front: true,
            groups: &[
                Group { name: "org.gnu.gdb.riscv.cpu", rows: &general($bits) },
                Group {
                    name: "org.trapline.system",
                    rows: &[
                        one("scause", $bits, "int", Named("cause")),
                        one("sepc", $bits, "int", Named("epc")),
                        one("stval", $bits, "int", Named("badaddr")),
                        one("stvec", $bits, "int", Named("tvec")),
                        one("satp", $bits, "int", Named("satp")),
                        one("sscratch", $bits, "int", Named("scratch")),
                        one("privilege", $bits, "int", Named("mode")),
                    ],
                },
            ],
        };
    };
}

description!(NARROW, "riscv:rv32", 32);
description!(WIDE, "riscv:rv64", 64);

#[rustfmt::skip]
const NAMES: [&str; 32] = [
    "zero", "ra", "sp", "gp", "tp", "t0", "t1", "t2", "fp", "s1", "a0", "a1", "a2", "a3", "a4", "a5", "a6", "a7", "s2", "s3", "s4",
    "s5", "s6", "s7", "s8", "s9", "s10", "s11", "t3", "t4", "t5", "t6",
];

/// The general registers in the order of their numbers, then the pc.
const fn general(bits: u16) -> [Row; 33] {
    let mut rows = [const { one("pc", 0, CODE, Pc) }; 33];
    let mut number = 0;
    while number < NAMES.len() {
        let kind = match number {
            1 => CODE,
            2..=4 | 8 => DATA,
            _ => "int",
        };
        rows[number] = one(NAMES[number], bits, kind, Of(Reg(number as u8)));
        number += 1;
    }
    rows[32] = one("pc", bits, CODE, Pc);
    rows
}
