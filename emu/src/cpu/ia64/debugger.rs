//! The registers of IA-64 CPUs for gdb, which knows them without a description and expects them in this order. It takes stacked
//! registers from the backing store, by `bsp` and `cfm`. Its pc is the bundle's address plus the slot's number, which it
//! takes from `psr`.

use crate::cpu::debugger::From::{Nowhere, Reg as Of, Shown};
use crate::cpu::debugger::{CODE, Description, Group, Row, many, one};
use trapline_core::ia64::psr;
use trapline_isa::ia64::abi::{self, b, r};
use trapline_isa::ia64::bundle::SLOT_STEP;
use trapline_isa::regs::Registers;

/// The description of IA-64 CPUs.
pub static DESCRIPTION: Description =
    Description { architecture: "ia64", watches_in_front: false, groups: &[Group { name: "", rows: ROWS }] };

const fn number(name: &'static str, from: crate::cpu::debugger::From) -> Row {
    one(name, 64, "uint64", from)
}

const fn unknown(name: &'static str, count: u8) -> Row {
    many(name, count, 64, "uint64", Nowhere)
}

const ROWS: &[Row] = &[
    many("r", 128, 64, "uint64", Of(r(0))),
    many("f", 128, 128, "uint128", Nowhere),
    unknown("p", 64),
    many("b", 8, 64, "uint64", Of(b(0))),
    number("vfp", Nowhere),
    number("vrap", Nowhere),
    number("pr", Of(abi::PR)),
    one("ip", 64, CODE, Shown(|view| view.pc & !15)),
    number("psr", Shown(|view| view.get(abi::PSR) | (view.pc % 16 / u64::from(SLOT_STEP)) << psr::RI)),
    number("cfm", Of(abi::CFM)),
    // Application registers by their numbers.
    unknown("kr", 17),
    number("bsp", Of(abi::BSP)),
    unknown("bspstore", 22),
    number("fpsr", Of(abi::FPSR)),
    unknown("reserved", 23),
    number("pfs", Of(abi::PFS)),
    number("lc", Of(abi::LC)),
    number("ec", Of(abi::EC)),
    unknown("more", 61),
];
