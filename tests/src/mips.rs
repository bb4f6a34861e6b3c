//! A tiny assembler for MIPS test programs, and a session that runs such a program without a kernel.

use trapline::boot::{Kernel, Segment};
use trapline::machine::Config;
use trapline::probed::Session;
use trapline::symbols::{Entry, Symbols};
use trapline_isa::mips::Set;

/// The kernel's virtual address of physical memory (KSEG0). The exception vectors are at its start.
pub const SEEN: u64 = 0xffff_ffff_8000_0000;
/// Physical address of the text. Execution begins there.
pub const TEXT: u64 = 0x10_0000;

/// Register 0, which is always 0.
pub const ZERO: u32 = 0;
/// The result register.
pub const V0: u32 = 2;
/// A temporary register.
pub const T0: u32 = 8;
/// A second temporary register.
pub const T1: u32 = 9;
/// A third temporary register.
pub const T2: u32 = 10;
/// A register reserved for exception handlers.
pub const K0: u32 = 26;
/// A second register reserved for exception handlers.
pub const K1: u32 = 27;
/// The return address register.
pub const RA: u32 = 31;
/// The register (s5) in which these programs keep the address of the board's I/O ports.
pub const PORTS: u32 = 21;

/// An instruction that does nothing.
pub const NOP: u32 = 0;
/// Returns from an exception.
pub const ERET: u32 = 0x4200_0018;
/// `lui` that sets [`PORTS`].
pub const FIND_PORTS: u32 = immediate(0x0f, 0, PORTS, 0xa900);

/// An I-type instruction with this opcode.
pub const fn immediate(op: u32, rs: u32, rt: u32, value: i32) -> u32 {
    op << 26 | rs << 21 | rt << 16 | value as u32 & 0xffff
}

/// An R-type instruction with this function code.
pub const fn three(funct: u32, rs: u32, rt: u32, rd: u32) -> u32 {
    rs << 21 | rt << 16 | rd << 11 | funct
}

/// `addiu rt,rs,value`.
pub const fn addiu(rt: u32, rs: u32, value: i32) -> u32 {
    immediate(0x09, rs, rt, value)
}

/// `addu rd,rs,rt`.
pub const fn addu(rd: u32, rs: u32, rt: u32) -> u32 {
    three(0x21, rs, rt, rd)
}

/// Code that prints a register as eight hexadecimal digits, written as letters from A. Uses t0 to t2.
pub fn print(register: u32) -> Vec<u32> {
    vec![
        immediate(0x0d, ZERO, T0, 8),
        addu(T1, register, ZERO),
        three(0x02, 0, T1, T2) | 28 << 6, // srl t2,t1,28
        addiu(T2, T2, 0x41),
        immediate(0x28, PORTS, T2, 0xe9), // sb
        addiu(T0, T0, -1),
        immediate(0x05, T0, ZERO, -5),   // bnez t0
        three(0x00, 0, T1, T1) | 4 << 6, // sll t1,t1,4
    ]
}

/// Code that powers the machine off.
pub fn power_off() -> [u32; 3] {
    [immediate(0x28, PORTS, ZERO, 0x600), immediate(0x04, ZERO, ZERO, -1), NOP]
}

/// A machine with these words at physical address 0 (vectors) and at [`TEXT`]. `functions` are symbols by physical
/// address.
pub fn session(set: Set, vectors: &[u32], text: &[u32], functions: &[(u64, &str)]) -> Session {
    let segment = |physical: u64, words: &[u32]| Segment {
        physical,
        virtual_address: set.cut(SEEN + physical),
        size: 4 * words.len() as u64,
        bytes: words.iter().flat_map(|word| set.bytes(*word)).collect::<Vec<u8>>().into(),
        executable: true,
    };
    let end = (TEXT + 4 * text.len() as u64, "_end_of_text");
    let entry =
        |(address, name): &(u64, &str)| Entry { address: set.cut(SEEN + address), name: (*name).into(), kind: 'T', module: None };
    let symbols = Symbols::new(functions.iter().chain([&end]).map(entry).collect());
    let kernel = Kernel::from_parts(set.isa().arch, TEXT, vec![segment(0, vectors), segment(TEXT, text)], symbols);
    Session::new(kernel, &Config { record_events: true, ..Config::default() }).expect("a machine")
}
