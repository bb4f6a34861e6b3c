//! The numbers of registers.
//!
//! The pc, as everywhere outside of the CPU, is one number: the address of a bundle plus 6 for each slot in front of the
//! instruction. The current frame is two registers: its place in the backing store ([`BSP`]) and its sizes ([`CFM`]).

use crate::abi::{Abi, ReturnAddress};
use crate::entry::Pointers;
use crate::regs::Reg;

/// The pc as a named register; equals [`crate::regs::Registers::pc`].
pub const PC: Reg = Reg(128);
/// The processor status, without the slot's number.
pub const PSR: Reg = Reg(129);
/// The current frame marker: sizes, and the bases of rotation.
pub const CFM: Reg = Reg(130);
/// The address of register 32 in the backing store. To write it moves the frame by whole registers; the CPU loads registers
/// below those that it holds before the next instruction.
pub const BSP: Reg = Reg(131);
/// The frame of the caller, its epilogue count, and its privilege level.
pub const PFS: Reg = Reg(132);
/// The loop count.
pub const LC: Reg = Reg(133);
/// The epilogue count.
pub const EC: Reg = Reg(134);
/// The predicates as if none were rotated. Bit 0 is always 1.
pub const PR: Reg = Reg(135);
/// The status that the last interruption saved, with the slot's number.
pub const IPSR: Reg = Reg(144);
/// The bundle that the last interruption saved.
pub const IIP: Reg = Reg(145);
/// The frame that `cover` saved, with its highest bit if there is one.
pub const IFS: Reg = Reg(146);
/// The NaT bits of registers 0 to 63, and of 64 to 127.
pub const NATS: [Reg; 2] = [Reg(147), Reg(148)];
/// Whether the ALAT has an entry of general registers 0 to 63, 64 to 127, and of floating-point registers 0 to 63, 64 to 127. A
/// bit that is set to 0 removes the entry; none can be made.
pub const ALAT: [Reg; 4] = [Reg(149), Reg(150), Reg(151), Reg(152)];
/// Whether floating-point registers 0 to 63, and 64 to 127, stand for a deferred interruption. Read-only.
pub const FLOAT_NATS: [Reg; 2] = [Reg(153), Reg(154)];
/// The floating-point status.
pub const FPSR: Reg = Reg(155);
/// The running task, `ar.k6`. Linux has it in r13.
pub const K6: Reg = Reg(156);
/// The per-CPU area, `ar.k3`.
pub const K3: Reg = Reg(157);
/// The bundle completed last, which an interruption saves in `cr.iipa`, and the one completed before the last hit.
pub const COMPLETED: [Reg; 2] = [Reg(158), Reg(159)];

/// The stack pointer.
pub const SP: Reg = r(12);
/// The return address.
pub const RP: Reg = b(0);
/// The result of a function.
pub const RESULT: Reg = r(8);

/// The general register of that number, in the current frame. Number 0 reads as zero and is never set.
pub const fn r(number: u8) -> Reg {
    Reg(number & 127)
}

/// The branch register of that number.
pub const fn b(number: u8) -> Reg {
    Reg(136 + (number & 7))
}

/// Eight arguments are the first stacked registers, which are the caller's outputs. The others are behind the scratch area
/// of 16 bytes at the stack pointer.
pub static ELF: Abi = Abi {
    sp: SP,
    result: RESULT,
    arguments: &[r(32), r(33), r(34), r(35), r(36), r(37), r(38), r(39)],
    stack_arguments: 16,
    return_address: ReturnAddress::In(RP),
    pointers: Pointers::Descriptor(&[r(1)]),
    names: &NAMES,
    dwarf: |number| match number {
        0..128 => Some(r(number as u8)),
        320..328 => Some(b((number - 320) as u8)),
        _ => None,
    },
    hidden: &HIDDEN,
    jprobe_stack: 0,
    stack_size: 32768,
    ..Abi::USUAL
};

/// Registers that are put back behind a jprobe's handler, besides [`NAMES`].
#[rustfmt::skip]
static HIDDEN: [(&str, Reg); 9] = [
    ("nat0", NATS[0]), ("nat1", NATS[1]), ("fpsr", FPSR), ("alat0", ALAT[0]), ("alat1", ALAT[1]), ("alat2", ALAT[2]),
    ("alat3", ALAT[3]), ("completed", COMPLETED[0]), ("completed_before_hit", COMPLETED[1]),
];

/// The names of assembler code, because Linux on IA-64 knows no registers by name. The place of the frame comes before
/// its registers.
#[rustfmt::skip]
static NAMES: [(&str, Reg); 143] = [
    ("ip", PC), ("psr", PSR), ("bsp", BSP), ("cfm", CFM), ("pfs", PFS), ("lc", LC), ("ec", EC), ("pr", PR), ("b0", b(0)),
    ("b1", b(1)), ("b2", b(2)), ("b3", b(3)), ("b4", b(4)), ("b5", b(5)), ("b6", b(6)), ("b7", b(7)), ("r1", r(1)),
    ("r2", r(2)), ("r3", r(3)), ("r4", r(4)), ("r5", r(5)), ("r6", r(6)), ("r7", r(7)), ("r8", r(8)), ("r9", r(9)),
    ("r10", r(10)), ("r11", r(11)), ("r12", r(12)), ("r13", r(13)), ("r14", r(14)), ("r15", r(15)), ("r16", r(16)),
    ("r17", r(17)), ("r18", r(18)), ("r19", r(19)), ("r20", r(20)), ("r21", r(21)), ("r22", r(22)), ("r23", r(23)),
    ("r24", r(24)), ("r25", r(25)), ("r26", r(26)), ("r27", r(27)), ("r28", r(28)), ("r29", r(29)), ("r30", r(30)),
    ("r31", r(31)), ("r32", r(32)), ("r33", r(33)), ("r34", r(34)), ("r35", r(35)), ("r36", r(36)), ("r37", r(37)),
    ("r38", r(38)), ("r39", r(39)), ("r40", r(40)), ("r41", r(41)), ("r42", r(42)), ("r43", r(43)), ("r44", r(44)),
    ("r45", r(45)), ("r46", r(46)), ("r47", r(47)), ("r48", r(48)), ("r49", r(49)), ("r50", r(50)), ("r51", r(51)),
    ("r52", r(52)), ("r53", r(53)), ("r54", r(54)), ("r55", r(55)), ("r56", r(56)), ("r57", r(57)), ("r58", r(58)),
    ("r59", r(59)), ("r60", r(60)), ("r61", r(61)), ("r62", r(62)), ("r63", r(63)), ("r64", r(64)), ("r65", r(65)),
    ("r66", r(66)), ("r67", r(67)), ("r68", r(68)), ("r69", r(69)), ("r70", r(70)), ("r71", r(71)), ("r72", r(72)),
    ("r73", r(73)), ("r74", r(74)), ("r75", r(75)), ("r76", r(76)), ("r77", r(77)), ("r78", r(78)), ("r79", r(79)),
    ("r80", r(80)), ("r81", r(81)), ("r82", r(82)), ("r83", r(83)), ("r84", r(84)), ("r85", r(85)), ("r86", r(86)),
    ("r87", r(87)), ("r88", r(88)), ("r89", r(89)), ("r90", r(90)), ("r91", r(91)), ("r92", r(92)), ("r93", r(93)),
    ("r94", r(94)), ("r95", r(95)), ("r96", r(96)), ("r97", r(97)), ("r98", r(98)), ("r99", r(99)), ("r100", r(100)),
    ("r101", r(101)), ("r102", r(102)), ("r103", r(103)), ("r104", r(104)), ("r105", r(105)), ("r106", r(106)),
    ("r107", r(107)), ("r108", r(108)), ("r109", r(109)), ("r110", r(110)), ("r111", r(111)), ("r112", r(112)),
    ("r113", r(113)), ("r114", r(114)), ("r115", r(115)), ("r116", r(116)), ("r117", r(117)), ("r118", r(118)),
    ("r119", r(119)), ("r120", r(120)), ("r121", r(121)), ("r122", r(122)), ("r123", r(123)), ("r124", r(124)),
    ("r125", r(125)), ("r126", r(126)), ("r127", r(127)),
];
