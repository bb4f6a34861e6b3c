//! The architectural state: offsets of fields in the core's state, and the entry states of the two widths.

use crate::cpu::{CoreFile, Layout, Word};
use crate::unicorn::core_state::CoreState;
use crate::unicorn::engine::{Handle, TrapContext};
use crate::unicorn::offsets::x86_64 as offset;
use std::sync::LazyLock;
use trapline_isa::regs::Reg;
use trapline_isa::x86::abi;
use unicorn_engine_sys::RegisterX86;

/// Offset of the general registers, 8 bytes each, in encoding order: ax cx dx bx sp bp si di r8..r15.
pub const REGS: usize = offset::REGS;
/// Their number. `isa` uses the same numbers for them.
pub const GENERAL: u8 = 16;
/// Offset of the pc.
pub const EIP: usize = offset::EIP;
/// Offset of the flags without the arithmetic ones, which the core stores elsewhere.
pub const EFLAGS: usize = offset::EFLAGS;
/// Offset of the hidden flags: privilege level, code width, interrupt shadow and others.
pub const HFLAGS: usize = offset::HFLAGS;
/// Offset of es cs ss ds fs gs, 24 bytes each.
pub const SEGMENTS: usize = offset::SEGMENTS;
/// Offset of the LDT register.
pub const LDT: usize = offset::LDT;
/// Offset of the task register.
pub const TR: usize = offset::TR;
/// Offset of the GDT register.
pub const GDT: usize = offset::GDT;
/// Offset of the IDT register.
pub const IDT: usize = offset::IDT;
/// Offset of cr0..cr4, 8 bytes each.
pub const CR: usize = offset::CR;
/// Offset of EFER.
pub const EFER: usize = offset::EFER;
/// Offset of the address of the last x87 instruction.
pub const X87_PC: usize = offset::X87_PC;
/// Offset of STAR: the selectors of SYSCALL.
pub const STAR: usize = offset::STAR;
/// Offset of LSTAR: the target of SYSCALL.
pub const LSTAR: usize = offset::LSTAR;
/// Offset of CSTAR: the address that SYSCALL in 32-bit code under a 64-bit kernel jumps to.
pub const CSTAR: usize = offset::CSTAR;
/// Offset of FMASK: the flags that SYSCALL clears.
pub const FMASK: usize = offset::FMASK;
/// Offset of the error code of the exception being reported.
pub const ERROR_CODE: usize = offset::ERROR_CODE;
/// Offset of a word that is not 0 if INT n raised it.
pub const EXCEPTION_IS_INT: usize = offset::EXCEPTION_IS_INT;
/// Offset of dr0..dr7.
pub const DR: usize = offset::DR;
/// Offset of dr6.
pub const DEBUG_STATUS: usize = DR + 6 * 8;
/// DR6.BS: the trap is a single-step.
pub const DEBUG_STEP: u64 = 1 << 14;
/// The bits of DR6 that a trap behind an instruction sets: BS, and B0 to B3 for watchpoints.
pub const DEBUG_TRAPS: u64 = DEBUG_STEP | 0xf;
/// Offset of the exception that is being delivered; -1 if there is none. The core never clears it (docs/unicorn.md).
pub const OLD_EXCEPTION: usize = offset::OLD_EXCEPTION;
/// Size of the state in bytes, in the pinned version of Unicorn.
pub const SIZE: usize = offset::SAVED_END;

/// Offset of the base in a segment or table register.
pub const SEGMENT_BASE: usize = offset::FIRST_BASE - SEGMENTS;
/// Offset of the limit in a segment or table register.
pub const SEGMENT_LIMIT: usize = offset::FIRST_LIMIT - SEGMENTS;
/// Offset of the upper word of the descriptor.
pub const SEGMENT_FLAGS: usize = offset::FIRST_FLAGS - SEGMENTS;
/// Size of a segment register in bytes.
pub const SEGMENT_BYTES: usize = offset::SEGMENT_1 - SEGMENTS;

/// Segment numbers in the core's state.
pub const ES: usize = 0;
/// The code segment.
pub const CS: usize = 1;
/// The stack segment.
pub const SS: usize = 2;
/// The data segment.
pub const DS: usize = 3;
/// An extra segment with its base in an MSR.
pub const FS: usize = 4;
/// An extra segment with its base in an MSR.
pub const GS: usize = 5;

/// The stack pointer's number among the general registers.
pub const SP: usize = 4;

/// The privilege level.
pub const HF_CPL: u32 = 3;
/// Interrupt shadow: STI or MOV SS was executed last.
pub const HF_SHADOW: u32 = 1 << 3;
/// The code segment is at least 32 bits wide.
pub const HF_CS32: u32 = 1 << 4;
/// The stack segment is at least 32 bits wide.
pub const HF_SS32: u32 = 1 << 5;
/// Some segment base is not zero.
pub const HF_ADDSEG: u32 = 1 << 6;
/// Long mode is active.
pub const HF_LMA: u32 = 1 << 14;
/// The code segment is 64 bits wide.
pub const HF_CS64: u32 = 1 << 15;

/// The trap flag (single-step).
pub const FLAG_TRAP: u64 = 1 << 8;
/// The interrupt flag.
pub const FLAG_INTERRUPT: u64 = 1 << 9;
/// The nested-task flag.
pub const FLAG_NESTED: u64 = 1 << 14;
/// The resume flag.
pub const FLAG_RESUME: u64 = 1 << 16;
/// The virtual-8086 flag.
pub const FLAG_VM: u64 = 1 << 17;

/// EFER.LMA: long mode is active.
pub const EFER_LMA: u64 = 1 << 10;

/// CR0 after reset: caches off, and the bit that is always set.
const CR0_AT_RESET: u64 = 0x6000_0010;
/// The limit of segments and tables in real mode, and the upper descriptor words of its segments.
const REAL_LIMIT: u32 = 0xffff;
const REAL_CODE: u32 = 0x9b00;
const REAL_DATA: u32 = 0x9300;
/// CR0: protection, and the bit that is always set.
const CR0_PROTECTED: u64 = 0x11;
const CR0_PAGING: u64 = 1 << 31;
const CR4_PAE: u64 = 1 << 5;

/// The upper descriptor word of a flat 32-bit code segment, as the CPU caches it.
pub const FLAT_CODE_32: u32 = 0x00cf_9b00;
/// The upper descriptor word of a flat 64-bit code segment.
pub const FLAT_CODE_64: u32 = 0x00af_9b00;
/// The upper descriptor word of a flat data and stack segment.
pub const FLAT_DATA: u32 = 0x00cf_9300;

/// The code selector at a kernel's entry, by Linux's boot protocol.
pub const BOOT_CODE: u32 = 0x10;
/// The data selector at a kernel's entry.
pub const BOOT_DATA: u32 = 0x18;

/// Access to fields by number.
impl CoreState {
    /// A general register.
    pub fn general(&self, number: usize) -> u64 {
        self.get64(REGS + 8 * number)
    }
    /// Sets a general register.
    pub fn set_general(&mut self, number: usize, value: u64) {
        self.set64(REGS + 8 * number, value);
    }
    /// A segment's selector.
    pub fn selector(&self, segment: usize) -> u32 {
        self.get32(SEGMENTS + SEGMENT_BYTES * segment)
    }
    /// Loads a segment's visible and hidden parts.
    pub fn set_segment(&mut self, segment: usize, selector: u32, base: u64, limit: u32, flags: u32) {
        let at = SEGMENTS + SEGMENT_BYTES * segment;
        self.set32(at, selector);
        self.set64(at + SEGMENT_BASE, base);
        self.set32(at + SEGMENT_LIMIT, limit);
        self.set32(at + SEGMENT_FLAGS, flags);
    }
    /// A control register.
    pub fn control(&self, number: usize) -> u64 {
        self.get64(CR + 8 * number)
    }
}

/// Sets 32-bit protected mode from the core's reset state: paging off, flat segments, interrupts off.
pub fn enter_flat_32(cpu: &TrapContext, pc: u64) {
    cpu.write(RegisterX86::CR0, CR0_PROTECTED);
    cpu.edit(|image| {
        image.set64(EFER, 0);
        let flags = image.get32(HFLAGS) & !(HF_LMA | HF_CS64 | HF_CPL);
        image.set32(HFLAGS, flags | HF_CS32 | HF_SS32);
        enter(image, FLAT_CODE_32, pc);
    });
}

/// Sets long mode from the core's reset state: these page tables, flat segments, interrupts off.
pub fn enter_long(cpu: &TrapContext, pc: u64, tables: u64) {
    cpu.write(RegisterX86::CR3, tables);
    cpu.write(RegisterX86::CR4, cpu.handle().read(RegisterX86::CR4) | CR4_PAE);
    cpu.write(RegisterX86::CR0, CR0_PAGING | CR0_PROTECTED);
    cpu.edit(|image| enter(image, FLAT_CODE_64, pc));
}

/// Sets real mode at this address from the core's reset state, as after INIT and a startup message.
pub fn start(image: &mut CoreState, _number: usize, entry: u64, _argument: u64) {
    for number in 0..usize::from(GENERAL) {
        image.set_general(number, 0);
    }
    for number in 2..=4 {
        image.set64(CR + 8 * number, 0);
    }
    image.set64(CR, CR0_AT_RESET);
    image.set64(EFER, 0);
    image.set32(HFLAGS, HF_ADDSEG);
    image.set_segment(CS, (entry >> 4) as u32, entry, REAL_LIMIT, REAL_CODE);
    for segment in [ES, SS, DS, FS, GS] {
        image.set_segment(segment, 0, 0, REAL_LIMIT, REAL_DATA);
    }
    for table in [GDT, IDT] {
        image.set64(table + SEGMENT_BASE, 0);
        image.set32(table + SEGMENT_LIMIT, REAL_LIMIT);
    }
    image.set64(EIP, 0);
    image.set64(EFLAGS, 2);
}

fn enter(image: &mut CoreState, code: u32, pc: u64) {
    image.set_segment(CS, BOOT_CODE, 0, u32::MAX, code);
    for segment in [ES, SS, DS] {
        image.set_segment(segment, BOOT_DATA, 0, u32::MAX, FLAT_DATA);
    }
    image.set64(EIP, pc);
    image.set64(EFLAGS, 2);
}

/// Unicorn's registers by `isa`'s numbers.
static REGISTERS: LazyLock<[RegisterX86; 256]> = LazyLock::new(|| {
    let mut table = [RegisterX86::INVALID; 256];
    table[usize::from(abi::X87_IP.0)] = RegisterX86::FIP;
    for isa in [&abi::X86_64, &abi::I386] {
        for (name, reg) in isa.names {
            if let Some((_, register)) = NAMES.iter().find(|(known, _)| known == name) {
                table[usize::from(reg.0)] = *register;
            }
        }
    }
    table
});

#[rustfmt::skip]
const NAMES: &[(&str, RegisterX86)] = &[
    ("ax", RegisterX86::RAX), ("bx", RegisterX86::RBX), ("cx", RegisterX86::RCX), ("dx", RegisterX86::RDX),
    ("si", RegisterX86::RSI), ("di", RegisterX86::RDI), ("bp", RegisterX86::RBP), ("sp", RegisterX86::RSP),
    ("r8", RegisterX86::R8), ("r9", RegisterX86::R9), ("r10", RegisterX86::R10), ("r11", RegisterX86::R11),
    ("r12", RegisterX86::R12), ("r13", RegisterX86::R13), ("r14", RegisterX86::R14), ("r15", RegisterX86::R15),
    ("flags", RegisterX86::EFLAGS), ("cs", RegisterX86::CS), ("ss", RegisterX86::SS), ("ds", RegisterX86::DS),
    ("es", RegisterX86::ES), ("fs", RegisterX86::FS), ("gs", RegisterX86::GS), ("ip", RegisterX86::RIP),
];

/// Reads a register in `isa`'s numbering. `pc` is returned for the pc.
#[inline]
pub fn get(handle: &Handle, reg: Reg, pc: u64) -> u64 {
    match reg {
        Reg(..GENERAL) => handle.live64(REGS + 8 * usize::from(reg.0)),
        abi::FS_BASE => handle.live64(SEGMENTS + FS * SEGMENT_BYTES + SEGMENT_BASE),
        abi::GS_BASE => handle.live64(SEGMENTS + GS * SEGMENT_BYTES + SEGMENT_BASE),
        _ => match REGISTERS[usize::from(reg.0)] {
            RegisterX86::INVALID => 0,
            RegisterX86::RIP => pc,
            register => handle.read(register),
        },
    }
}

/// Core dumps of 64-bit kernels: `pt_regs`, then the bases and the selectors of segments (`struct user_regs_struct`).
pub const CORE_64: CoreFile = CoreFile {
    layout: |isa| {
        let more = [abi::FS_BASE, abi::GS_BASE, abi::DS, abi::ES, abi::FS, abi::GS];
        Layout::words(isa, isa.abi.names.iter().map(|(_, reg)| *reg).chain(more).map(Word::Of), 0)
    },
    // Since Linux 4.20, and before.
    direct_maps: &[0xffff_8880_0000_0000, 0xffff_8800_0000_0000],
};

/// Core dumps of 32-bit kernels.
pub const CORE_32: CoreFile = CoreFile { direct_maps: &[0xc000_0000], ..CoreFile::USUAL };

/// Sets a register in `isa`'s numbering. Segments, their bases and the pc are not changed.
#[inline]
pub fn set(cpu: &TrapContext, reg: Reg, value: u64) {
    if reg.0 < GENERAL {
        return cpu.set_live64(REGS + 8 * usize::from(reg.0), value);
    }
    use RegisterX86::{CS, DS, ES, FS, GS, INVALID, RIP, SS};
    match REGISTERS[usize::from(reg.0)] {
        INVALID | RIP | CS | DS | ES | FS | GS | SS => {}
        register => cpu.write(register, value),
    }
}

/// The pc in a saved state.
pub fn saved_pc(image: &CoreState) -> u64 {
    image.get64(EIP)
}

/// Whether interrupts are masked in a saved state.
pub fn saved_interrupts_off(image: &CoreState) -> bool {
    image.get64(EFLAGS) & FLAG_INTERRUPT == 0
}

/// Notes that no exception is being delivered.
pub fn forget_exception(cpu: &TrapContext) {
    cpu.set_live32(OLD_EXCEPTION, u32::MAX);
}

/// Registers for a report about a dead guest.
pub fn dump(handle: &Handle) -> Vec<(&'static str, u64)> {
    let mut values: Vec<_> = NAMES.iter().map(|(name, register)| (*name, handle.read(*register))).collect();
    for (name, register) in
        [("cr0", RegisterX86::CR0), ("cr2", RegisterX86::CR2), ("cr3", RegisterX86::CR3), ("cr4", RegisterX86::CR4)]
    {
        values.push((name, handle.read(register)));
    }
    values.push(("dr6", handle.live64(DEBUG_STATUS)));
    values
}

/// Writes values through the register interface and reads them at their offsets, and the reverse. The error names the
/// field that differs.
pub fn self_check(cpu: &TrapContext, image: &mut CoreState) -> Result<(), &'static str> {
    if image.len() != SIZE {
        return Err("size of the saved state");
    }
    let marks = [0x1111_2222_3333_4444_u64, 0x0101_0202_0303_0404];
    #[rustfmt::skip]
    let fields: &[(&str, RegisterX86, usize)] = &[
        ("ax", RegisterX86::RAX, REGS), ("cx", RegisterX86::RCX, REGS + 8), ("sp", RegisterX86::RSP, REGS + 8 * SP),
        ("di", RegisterX86::RDI, REGS + 56), ("r8", RegisterX86::R8, REGS + 64), ("r15", RegisterX86::R15, REGS + 120),
        ("x87's pc", RegisterX86::FIP, X87_PC),
        ("cr2", RegisterX86::CR2, CR + 16), ("cr3", RegisterX86::CR3, CR + 24),
        ("fs base", RegisterX86::FS_BASE, SEGMENTS + FS * SEGMENT_BYTES + SEGMENT_BASE),
        ("gs base", RegisterX86::GS_BASE, SEGMENTS + GS * SEGMENT_BYTES + SEGMENT_BASE),
    ];
    for (name, register, offset) in fields {
        for mark in marks {
            cpu.write(*register, mark);
            if cpu.handle().live64(*offset) != mark {
                return Err("where the core keeps its state");
            }
            image.save(cpu.handle());
            let seen = image.get64(*offset);
            image.set64(*offset, !mark & 0xffff_ffff);
            image.restore(cpu.handle());
            if seen != mark || cpu.handle().read(*register) != !mark & 0xffff_ffff {
                return Err(name);
            }
        }
    }
    cpu.set_live64(REGS + 8 * SP, marks[0]);
    if cpu.handle().read(RegisterX86::RSP) != marks[0] {
        return Err("the state as the core keeps it");
    }
    cpu.set_pc(marks[0]);
    cpu.write(RegisterX86::EFLAGS, FLAG_INTERRUPT | 2);
    image.save(cpu.handle());
    if image.get64(EIP) != marks[0] {
        return Err("pc");
    }
    if image.get64(EFLAGS) & FLAG_INTERRUPT == 0 {
        return Err("flags");
    }
    if image.get32(OLD_EXCEPTION) != u32::MAX {
        return Err("exception under delivery");
    }
    if image.get32(HFLAGS) & (HF_CPL | HF_CS32) != HF_CS32 {
        return Err("privilege and width of code");
    }
    Ok(())
}
