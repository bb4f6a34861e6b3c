//! The registers of PA-RISC CPUs for gdb. gdb has no description of PA-RISC: it expects these registers in this order, and
//! takes the running PSW for `ipsw`.

use crate::cpu::debugger::From::{Nowhere, Pc, Reg as Of};
use crate::cpu::debugger::{CODE, DATA, Description, Group, Row, one};
use trapline_isa::parisc::abi::{self, r, sr};

/// The description of 32-bit PA-RISC CPUs.
pub static DESCRIPTION: Description =
    Description { architecture: "hppa1.1", watches_in_front: true, groups: &[Group { name: "", rows: ROWS }] };

const fn general(name: &'static str, number: u8) -> Row {
    one(name, 32, "uint32", Of(r(number)))
}

const fn other(name: &'static str, from: crate::cpu::debugger::From) -> Row {
    one(name, 32, "uint32", from)
}

#[rustfmt::skip]
const ROWS: &[Row] = &[
    other("flags", Of(abi::PSW)), general("r1", 1), general("rp", 2), general("r3", 3), general("r4", 4), general("r5", 5),
    general("r6", 6), general("r7", 7), general("r8", 8), general("r9", 9), general("r10", 10), general("r11", 11),
    general("r12", 12), general("r13", 13), general("r14", 14), general("r15", 15), general("r16", 16), general("r17", 17),
    general("r18", 18), general("r19", 19), general("r20", 20), general("r21", 21), general("r22", 22), general("r23", 23),
    general("r24", 24), general("r25", 25), general("r26", 26), general("dp", 27), general("ret0", 28), general("ret1", 29),
    one("sp", 32, DATA, Of(r(30))), general("r31", 31),
    other("sar", Of(abi::SAR)), one("pcoqh", 32, CODE, Pc), other("pcsqh", Of(abi::SPACE)), one("pcoqt", 32, CODE, Of(abi::NPC)),
    other("pcsqt", Of(abi::NEXT_SPACE)), other("eiem", Nowhere), other("iir", Of(abi::IIR)), other("isr", Of(abi::ISR)),
    other("ior", Of(abi::IOR)), other("ipsw", Of(abi::PSW)), other("goto", Nowhere),
    other("sr4", Of(sr(4))), other("sr0", Of(sr(0))), other("sr1", Of(sr(1))), other("sr2", Of(sr(2))), other("sr3", Of(sr(3))),
    other("sr5", Of(sr(5))), other("sr6", Of(sr(6))), other("sr7", Of(sr(7))),
];
