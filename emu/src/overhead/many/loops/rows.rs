//! The loops as instructions, one table per ISA. They use the entry code, page tables and addresses of the guests in
//! `many/guests.rs`. The page behind the entry code holds handlers; data lies behind the end of the stack.

use super::super::Code;
use super::{BRANCHES, Loop, Loops, PROGRAM};
use Code::{Bytes, Words};

/// All of them.
pub(super) const ALL: &[Loops] = &[
    Loops { name: "loops/x86_64", many: "many/x86_64", all: X86_64 },
    Loops { name: "loops/i386", many: "many/i386", all: I386 },
    Loops { name: "loops/arm64", many: "many/arm64", all: ARM64 },
    Loops { name: "loops/arm", many: "many/arm", all: ARM },
    Loops { name: "loops/s390x", many: "many/s390x", all: S390X },
    Loops { name: "loops/ppc64le", many: "many/ppc64le", all: PPC64LE },
    Loops { name: "loops/mipsel", many: "many/mipsel", all: MIPSEL },
    Loops { name: "loops/sparc64", many: "many/sparc64", all: SPARC64 },
    Loops { name: "loops/riscv64", many: "many/riscv64", all: RISCV64 },
];

/// Four times an instruction and a jump to the next one. The last jump goes back to the start.
const fn blocks(round: Code, units: u64) -> Loop {
    Loop { what: "blocks", before: Code::NONE, round, page: &[], handler: 0, units }
}

/// Loads four words of data and stores them 64 bytes further.
const fn memory(before: Code, round: Code, units: u64) -> Loop {
    Loop { what: "memory", before, round, page: &[], handler: 0, units }
}

/// A system call. Its handler of `handler` bytes returns at once.
const fn syscall(before: Code, round: Code, page: &'static [(u64, Code)], handler: u64) -> Loop {
    Loop { what: "syscall", before, round, page, handler, units: 1 }
}

/// Switches the address space or flushes the TLB, then loads a word from each of eight pages.
const fn switch(before: Code, round: Code) -> Loop {
    Loop { what: "switch", before, round, page: &[], handler: 0, units: 1 }
}

/// An addition and a jump back to it, in user mode.
const fn program(before: Code, round: Code, page: &'static [(u64, Code)], units: u64) -> Loop {
    Loop { what: PROGRAM, before, round, page, handler: 0, units }
}

// inc ecx; jmp behind it
const X86_BLOCKS: Loop =
    blocks(Bytes(&[0xff, 0xc1, 0xeb, 0, 0xff, 0xc1, 0xeb, 0, 0xff, 0xc1, 0xeb, 0, 0xff, 0xc1, 0xeb, 0xf0]), 8);
/// inc ecx; jmp back
const X86_ADDS: Code = Bytes(&[0xff, 0xc1, 0xeb, 0xfc]);
#[rustfmt::skip]
const X86_COPIES: Code = Bytes(&[
    0x8b, 0x06, 0x89, 0x46, 0x40, 0x8b, 0x56, 0x04, 0x89, 0x56, 0x44, // mov eax, [si]; mov [si + 0x40], eax; likewise with edx
    0x8b, 0x46, 0x08, 0x89, 0x46, 0x48, 0x8b, 0x56, 0x0c, 0x89, 0x56, 0x4c, 0xeb, 0xe7, // likewise; jmp back
]);
#[rustfmt::skip]
const X86_SWITCHES: Code = Bytes(&[
    0x0f, 0x22, 0xd8, 0x8b, 0x16, // mov cr3, ax, unchanged; mov edx, [si]
    0x8b, 0x96, 0, 0x10, 0, 0, 0x8b, 0x96, 0, 0x20, 0, 0, 0x8b, 0x96, 0, 0x30, 0, 0, 0x8b, 0x96, 0, 0x40, 0, 0, // mov edx, [si + page]
    0x8b, 0x96, 0, 0x50, 0, 0, 0x8b, 0x96, 0, 0x60, 0, 0, 0x8b, 0x96, 0, 0x70, 0, 0, 0xeb, 0xcf, // jmp back
]);

#[rustfmt::skip]
const X86_64: &[Loop] = &[
    X86_BLOCKS,
    memory(Bytes(&[0x48, 0xbe, 0, 0, 0xa0, 0x81, 0xff, 0xff, 0xff, 0xff]), X86_COPIES, 9), // mov rsi, data
    syscall(
        Bytes(&[
            0xb9, 0x80, 0, 0, 0xc0, 0x0f, 0x32, 0x83, 0xc8, 0x01, 0x0f, 0x30, // EFER: rdmsr; or eax, 1; wrmsr
            0xff, 0xc1, 0x31, 0xc0, 0xba, 0x10, 0, 0x10, 0, 0x0f, 0x30, // STAR: the segments
            0xff, 0xc1, 0xb8, 0, 0x10, 0x20, 0x81, 0x83, 0xca, 0xff, 0x0f, 0x30, // LSTAR: the page behind
        ]),
        Bytes(&[0x0f, 0x05, 0xeb, 0xfc]), // syscall; jmp back
        &[(0, Bytes(&[0xff, 0xe1]))], 2, // jmp rcx
    ),
    switch(Bytes(&[0x48, 0xbe, 0, 0, 0xa0, 0x81, 0xff, 0xff, 0xff, 0xff, 0x0f, 0x20, 0xd8]), X86_SWITCHES), // mov rsi, data; mov rax, cr3
    program(
        Bytes(&[
            0xb9, 0x80, 0, 0, 0xc0, 0x0f, 0x32, 0x83, 0xc8, 0x01, 0x0f, 0x30, // EFER: rdmsr; or eax, 1; wrmsr
            0xff, 0xc1, 0x31, 0xc0, 0xba, 0x10, 0, 0x10, 0, 0x0f, 0x30, // STAR: the segments
            0x48, 0xb9, 0x2a, 0x01, 0x20, 0, 0x80, 0, 0, 0, // mov rcx, the round as programs see it
            0x41, 0xbb, 2, 0, 0, 0, 0x48, 0x0f, 0x07, // mov r11d, flags; sysretq
        ]),
        X86_ADDS, &[], 2,
    ),
];

#[rustfmt::skip]
const I386: &[Loop] = &[
    X86_BLOCKS,
    memory(Bytes(&[0xbe, 0, 0, 0xa0, 0xc0]), X86_COPIES, 9), // mov esi, data
    syscall(
        Bytes(&[0x0f, 0x01, 0x15, 0x10, 0x10, 0x20, 0xc0, 0x0f, 0x01, 0x1d, 0x18, 0x10, 0x20, 0xc0]), // lgdt; lidt
        Bytes(&[0xcd, 0x80, 0xeb, 0xfc]), // int 0x80; jmp back
        &[
            (0, Bytes(&[0xcf])), // iret
            // GDTR and IDTR; the GDT, with code as entry 2 and data as entry 3; interrupt gate 0x80.
            (0x10, Words(&[0x1020_001f, 0xc020, 0x1100_0407, 0xc020])),
            (0x20, Words(&[0, 0, 0, 0, 0xffff, 0x00cf_9b00, 0xffff, 0x00cf_9300])),
            (0x500, Words(&[0x0010_1000, 0xc020_8e00])),
        ], 1,
    ),
    switch(Bytes(&[0xbe, 0, 0, 0xa0, 0xc0, 0x0f, 0x20, 0xd8]), X86_SWITCHES), // mov esi, data; mov eax, cr3
    program(
        Bytes(&[
            0x0f, 0x01, 0x15, 0x10, 0x10, 0x20, 0xc0, // lgdt
            0x6a, 0x23, 0x6a, 0, 0x6a, 2, 0x6a, 0x1b, // push ss, esp, eflags, cs
            0x68, 0x15, 0x01, 0x20, 0x04, 0xcf, // push the round as programs see it; iret
        ]),
        X86_ADDS,
        &[
            // GDTR; the GDT, with the kernel's code as entry 2, and code and data of programs as entries 3 and 4.
            (0x10, Words(&[0x1020_0027, 0xc020])),
            (0x20, Words(&[0, 0, 0, 0, 0xffff, 0x00cf_9b00, 0xffff, 0x00cf_fb00, 0xffff, 0x00cf_f300])),
        ],
        2,
    ),
];

#[rustfmt::skip]
const ARM64: &[Loop] = &[
    // add x1, x1, 1; b
    blocks(Words(&[0x9100_0421, 0x1400_0001, 0x9100_0421, 0x1400_0001, 0x9100_0421, 0x1400_0001, 0x9100_0421, 0x17ff_fff9]), 8),
    memory(
        Words(&[0x5800_0062, 0x1400_0004, 0xd503_201f, 0x08a0_0000, 0xffff_8000]), // ldr x2, data; b over it
        // ldr x0, [x2]; str x0, [x2, 64]; likewise with x1, twice each; b back
        Words(&[0xf940_0040, 0xf900_2040, 0xf940_0441, 0xf900_2441, 0xf940_0840, 0xf900_2840, 0xf940_0c41, 0xf900_2c41, 0x17ff_fff8]), 9,
    ),
    syscall(
        // ldr x0, the page behind; msr vbar_el1, x0; isb; b over it
        Words(&[0x5800_0080, 0xd518_c000, 0xd503_3fdf, 0x1400_0003, 0x0820_1000, 0xffff_8000]),
        Words(&[0xd400_0001, 0x17ff_ffff]), // svc 0; b back
        &[(0x200, Words(&[0xd69f_03e0]))], 4, // eret
    ),
    switch(
        // ldr x2, data; mrs x0, ttbr0_el1; b over it
        Words(&[0x5800_0082, 0xd538_2000, 0x1400_0004, 0xd503_201f, 0x08a0_0000, 0xffff_8000]),
        Words(&[
            0xd250_0000, 0xd518_2000, 0xd503_3fdf, // eor x0, x0, another address space; msr ttbr0_el1, x0; isb
            0xf940_0044, 0xf948_0044, 0xf950_0044, 0xf958_0044, 0xf960_0044, 0xf968_0044, 0xf970_0044, 0xf978_0044, // ldr x4, [x2, page]
            0x17ff_fff5, // b back
        ]),
    ),
    program(
        // ldr x0, the round as programs see it; msr elr_el1, x0; msr spsr_el1, xzr; eret
        Words(&[0x5800_0080, 0xd518_4020, 0xd518_401f, 0xd69f_03e0, 0x0020_0118, 0]),
        Words(&[0x9100_0421, 0x17ff_ffff]), &[], 2, // add x1, x1, 1; b back
    ),
];

#[rustfmt::skip]
const ARM: &[Loop] = &[
    // add r1, r1, 1; b
    blocks(Words(&[0xe281_1001, 0xeaff_ffff, 0xe281_1001, 0xeaff_ffff, 0xe281_1001, 0xeaff_ffff, 0xe281_1001, 0xeaff_fff7]), 8),
    memory(
        Words(&[0xe59f_2000, 0xea00_0000, 0xc0a0_0000]), // ldr r2, data; b over it
        // ldr r0, [r2]; str r0, [r2, 64]; likewise with r1, twice each; b back
        Words(&[0xe592_0000, 0xe582_0040, 0xe592_1004, 0xe582_1044, 0xe592_0008, 0xe582_0048, 0xe592_100c, 0xe582_104c, 0xeaff_fff6]), 9,
    ),
    syscall(
        // ldr r0, the page behind; mcr: VBAR; isb; b over it
        Words(&[0xe59f_0008, 0xee0c_0f10, 0xf57f_f06f, 0xea00_0000, 0xc020_1000]),
        Words(&[0xef00_0000, 0xeaff_fffd]), // svc 0; b back
        &[(0x8, Words(&[0xe1b0_f00e]))], 4, // movs pc, lr
    ),
    switch(
        Words(&[
            0xe59f_2010, 0xe3a0_5a01, 0xe3a0_6a03, // ldr r2, data; mov r5, 0x1000; mov r6, 0x3000
            0xee12_3f10, 0xee1d_0f30, 0xea00_0000, 0xc0a0_0000, // mrc: TTBR0, CONTEXTIDR; b over it
        ]),
        Words(&[
            0xe220_0001, 0xee02_3f10, 0xee0d_0f30, 0xf57f_f06f, // eor r0, r0, another address space; mcr: both; isb
            0xe592_4000, 0xe792_4005, 0xe792_4085, 0xe792_4006, 0xe792_4105, 0xe792_4086, 0xe792_4185, 0xe792_4106, // ldr r4, [r2, page]
            0xeaff_fff2, // b back
        ]),
    ),
    program(
        // ldr lr, the round as programs see it; msr spsr_c, user mode; movs pc, lr
        Words(&[0xe59f_e004, 0xe361_f010, 0xe1b0_f00e, 0x0020_0110]),
        Words(&[0xe281_1001, 0xeaff_fffd]), &[], 2, // add r1, r1, 1; b back
    ),
];

#[rustfmt::skip]
const S390X: &[Loop] = &[
    // ahi %r1,1; j
    blocks(Words(&[0xa71a_0001, 0xa7f4_0002, 0xa71a_0001, 0xa7f4_0002, 0xa71a_0001, 0xa7f4_0002, 0xa71a_0001, 0xa7f4_fff2]), 8),
    memory(
        Bytes(&[0xc0, 0x2f, 0, 0xa0, 0, 0]), // llilf %r2, data
        // l %r0,0(%r2); st %r0,64(%r2); likewise with r1, twice each; j back
        Words(&[0x5800_2000, 0x5000_2040, 0x5810_2004, 0x5010_2044, 0x5800_2008, 0x5000_2048, 0x5810_200c, 0x5010_204c, 0xa7f4_fff0]), 9,
    ),
    syscall(
        Bytes(&[
            0xc0, 0x10, 0, 0, 0, 0x08, 0xd2, 0x0f, 0x01, 0xc0, 0x10, 0, // larl %r1, the PSW; mvc: the new PSW of calls
            0xa7, 0xf4, 0, 0x0a, // j over it
            0x04, 0, 0xc0, 0x01, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0x20, 0x10, 0, // PSW: DAT on, home space, 64 bits, the page behind
        ]),
        Bytes(&[0x0a, 0x00, 0xa7, 0xf4, 0xff, 0xff]), // svc 0; j back
        &[(0, Words(&[0xb2b2_0140]))], 4, // lpswe: the old PSW of calls
    ),
    switch(
        Bytes(&[
            0xc0, 0x30, 0, 0, 0, 0x08, 0xc0, 0x2f, 0, 0xa0, 0, 0, // larl %r3, the tables; llilf %r2, data
            0xa7, 0xf4, 0, 0x06, 0, 0, 0, 0, 0, 0x10, 0, 0x03, // j over it
        ]),
        Bytes(&[
            0xeb, 0xdd, 0x30, 0, 0, 0x2f, 0x58, 0x40, 0x20, 0, // lctlg %c13, the same tables; l %r4
            0xe3, 0x40, 0x20, 0, 0x01, 0x58, 0xe3, 0x40, 0x20, 0, 0x02, 0x58, 0xe3, 0x40, 0x20, 0, 0x03, 0x58, // ly %r4
            0xe3, 0x40, 0x20, 0, 0x04, 0x58, 0xe3, 0x40, 0x20, 0, 0x05, 0x58, 0xe3, 0x40, 0x20, 0, 0x06, 0x58,
            0xe3, 0x40, 0x20, 0, 0x07, 0x58, 0xa7, 0xf4, 0xff, 0xe6, // j back
        ]),
    ),
    program(
        Bytes(&[
            0xc0, 0x10, 0, 0, 0, 0x08, 0xb2, 0xb2, 0x10, 0, 0x07, 0x07, 0x07, 0x07, 0x07, 0x07, // larl %r1, the PSW; lpswe
            0x04, 0x01, 0, 0x01, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0x20, 0x01, 0x20, // PSW: DAT on, problem state, 64 bits, the round
        ]),
        Words(&[0xa71a_0001, 0xa7f4_fffe]), &[], 2, // ahi %r1,1; j back
    ),
];

#[rustfmt::skip]
const PPC64LE: &[Loop] = &[
    // addi r3, r3, 1; b
    blocks(Words(&[0x3863_0001, 0x4800_0004, 0x3863_0001, 0x4800_0004, 0x3863_0001, 0x4800_0004, 0x3863_0001, 0x4bff_ffe4]), 8),
    memory(
        PPC_DATA,
        // ld r3, 0(r5); std r3, 64(r5); likewise with r4, twice each; b back
        Words(&[0xe865_0000, 0xf865_0040, 0xe885_0008, 0xf885_0048, 0xe865_0010, 0xf865_0050, 0xe885_0018, 0xf885_0058, 0x4bff_ffe0]), 9,
    ),
    // sc; b back; rfid at vector 0xc00 of the vectors used with translation on
    syscall(Code::NONE, Words(&[0x4400_0002, 0x4bff_fffc]), &[(0x3c00, Words(&[0x4c00_0024]))], 4),
    switch(
        PPC_DATA,
        Words(&[
            0x68c6_0001, 0x7cd0_0ba6, 0x4c00_012c, // xori r6, r6, another address space; mtpidr r6; isync
            0xe885_0000, 0xe885_1000, 0xe885_2000, 0xe885_3000, 0xe885_4000, 0xe885_5000, 0xe885_6000, 0xe885_7000, // ld r4, page(r5)
            0x4bff_ffd4, // b back
        ]),
    ),
    program(
        Words(&[
            0x3c60_2000, 0x6063_0120, 0x7c7a_03a6,  // r3 = the round as programs see it; mtsrr0 r3
            0x3c60_9000, 0x7863_07c6, 0x6063_5033,  // r3 = MSR: 64 bits, a program, translation on, little-endian
            0x7c7b_03a6, 0x4c00_0024,               // mtsrr1 r3; rfid
        ]),
        Words(&[0x3863_0001, 0x4bff_fffc]), &[], 2, // addi r3, r3, 1; b back
    ),
];
/// r5 = data
const PPC_DATA: Code = Words(&[0x3ca0_c000, 0x78a5_07c6, 0x64a5_00a0]);

#[rustfmt::skip]
const MIPSEL: &[Loop] = &[
    // addiu v0, v0, 1; b to the instruction behind its delay slot
    blocks(Words(&[0x2442_0001, 0x1000_0001, 0, 0x2442_0001, 0x1000_0001, 0, 0x2442_0001, 0x1000_0001, 0, 0x2442_0001, 0x1000_fff5, 0]), 12),
    memory(
        Words(&[0x3c04_80a0]), // lui a0, data
        // lw v0, (a0); sw v0, 64(a0); likewise with v1, twice each; b back
        Words(&[0x8c82_0000, 0xac82_0040, 0x8c83_0004, 0xac83_0044, 0x8c82_0008, 0xac82_0048, 0x8c83_000c, 0xac83_004c, 0x1000_fff7, 0]), 10,
    ),
    syscall(
        Words(&[0x3c1a_8020, 0x375a_1000, 0x409a_7801]), // lui, ori k0, the page behind; mtc0 k0, EBase
        Words(&[0x0000_000c, 0x1000_fffe, 0]), // syscall; b back
        // mfc0 k0, EPC; addiu k0, k0, 4; mtc0 k0, EPC; eret. The handler skips the `syscall` instruction, so that
        // instruction takes no time of its own.
        &[(0x180, Words(&[0x401a_7000, 0x275a_0004, 0x409a_7000, 0x4200_0018]))], 12,
    ),
    Loop {
        what: "switch",
        // TLB entries of two address spaces in turn, for the eight pages from a0 on.
        before: Words(&[
            0x3c04_c000,
            0x3c05_0002,
            0x34a5_801e, // lui a0, base; lui, ori a1, the first page, present and writable
            0x2406_0000,
            0x2407_0008,
            0x4080_2800, // li a2, 0; li a3, 8; mtc0 zero, PageMask
            0x4084_5000,
            0x4085_1000, // mtc0 a0, EntryHi; mtc0 a1, EntryLo0
            0x24a8_0040,
            0x4088_1800, // addiu t0, a1, the next page; mtc0 t0, EntryLo1
            0x4086_0000,
            0x4200_0002, // mtc0 a2, Index; tlbwi
            0x24c6_0001,
            0x3884_0001, // addiu a2, a2, 1; xori a0, a0, another address space
            0x30c8_0001,
            0x3908_0001, // andi t0, a2, 1; xori t0, t0, 1: 1 after each pair
            0x0008_4b40,
            0x0089_2021, // sll t1, t0, 13; addu a0, a0, t1
            0x0008_49c0,
            0x00a9_2821, // sll t1, t0, 7; addu a1, a1, t1
            0x14c7_fff1,
            0, // bne a2, a3, back
            0x3c04_c000,
            0x2405_0000, // lui a0, base; li a1, 0
        ]),
        round: Words(&[
            0x38a5_0001,
            0x4085_5000,
            0x0000_00c0, // xori a1, a1, another address space; mtc0 a1, EntryHi; ehb
            0x8c82_0000,
            0x8c82_1000,
            0x8c82_2000,
            0x8c82_3000,
            0x8c82_4000,
            0x8c82_5000,
            0x8c82_6000,
            0x8c82_7000, // lw v0, page(a0)
            0x1000_fff4,
            0, // b back
        ]),
        page: &[],
        handler: 0,
        units: 1,
    },
    Loop {
        what: BRANCHES,
        before: Code::NONE,
        // b over a word, addiu v0, v0, 1 in its slot; b back
        round: Words(&[0x1000_0002, 0x2442_0001, 0, 0x1000_fffc, 0]),
        page: &[],
        handler: 0,
        units: 4,
    },
    program(
        Words(&[
            0x3c04_0020, 0x4084_5000, // lui a0, the page as programs see it; mtc0 a0, EntryHi
            0x3405_801f, 0x4085_1000, 0x3405_805f, 0x4085_1800, // li a1; mtc0 a1, EntryLo0; likewise EntryLo1
            0x4080_2800, 0x4080_0000, 0x4200_0002, // mtc0 zero, PageMask and Index; tlbwi
            0x3484_0140, 0x4084_7000, // ori a0, the round; mtc0 a0, EPC
            0x4005_6000, 0x34a5_0012, 0x4085_6000, 0x0000_00c0, 0x4200_0018, // Status: user mode behind eret; ehb; eret
        ]),
        Words(&[0x2442_0001, 0x1000_fffe, 0]), &[], 3, // addiu v0, v0, 1; b back
    ),
];

#[rustfmt::skip]
const SPARC64: &[Loop] = &[
    // inc %g1; ba,a
    blocks(Words(&[0x8200_6001, 0x3080_0001, 0x8200_6001, 0x3080_0001, 0x8200_6001, 0x3080_0001, 0x8200_6001, 0x30bf_fff9]), 8),
    memory(
        Words(&[0x0520_2800]), // sethi data, %g2
        // ldx [%g2], %g1; stx %g1, [%g2 + 64]; likewise with %g3, twice each; ba,a back
        Words(&[0xc258_8000, 0xc270_a040, 0xc658_a008, 0xc670_a048, 0xc258_a010, 0xc270_a050, 0xc658_a018, 0xc670_a058, 0x30bf_fff8]), 9,
    ),
    syscall(
        Words(&[0x0320_0800, 0x8b90_4000]), // sethi the set-up, %g1; wrpr %g1, %tba
        Words(&[0x91d0_206d, 0x30bf_ffff]), // ta 0x6d; ba,a back
        // nop; done. It skips the `ta` instruction, as the handler on MIPS does.
        &[(0x1da0, Words(&[0x0100_0000, 0x81f0_0000]))], 4,
    ),
    switch(
        Words(&[
            0x0520_2800, 0x8a10_2008, 0x8210_0000, // sethi data, %g2; mov 8, %g5; clr %g1
            0x0700_0008, 0x0900_0010, 0x0d00_0018, 0x0f00_0020, 0x1100_0028, 0x1300_0030, 0x1500_0038, // sethi page
        ]),
        Words(&[
            0x8218_6001, 0xc2f1_4b00, // btog 1, %g1; stxa %g1, [%g5] 0x58: the first context
            0xd658_8000, 0xd658_8003, 0xd658_8004, 0xd658_8006, 0xd658_8007, 0xd658_8008, 0xd658_8009, 0xd658_800a, // ldx [%g2 + page], %o3
            0x30bf_fff6, // ba,a back
        ]),
    ),
];

#[rustfmt::skip]
const RISCV64: &[Loop] = &[
    // addi t1, t1, 1; j to the next one
    blocks(Words(&[0x0013_0313, 0x0040_006f, 0x0013_0313, 0x0040_006f, 0x0013_0313, 0x0040_006f, 0x0013_0313, 0xfe5f_f06f]), 8),
    memory(
        Words(&[0x88a0_02b7]), // lui t0, data
        // lw a0, (t0); sw a0, 64(t0); likewise with a1, twice each; j back
        Words(&[0x0002_a503, 0x04a2_a023, 0x0042_a583, 0x04b2_a223, 0x0082_a503, 0x04a2_a423, 0x00c2_a583, 0x04b2_a623, 0xfe1f_f06f]), 9,
    ),
    syscall(
        // lui t0, the page behind; csrw stvec, t0; lui, addi t1, the round as programs see it; csrw sepc, t1;
        // li t2, SPP; csrc sstatus, t2; sret
        Words(&[0x8820_12b7, 0x1052_9073, 0x0020_0337, 0x1203_0313, 0x1413_1073, 0x1000_0393, 0x1003_b073, 0x1020_0073]),
        Words(&[0x0000_0073, 0xffdf_f06f]), // ecall; j back
        // csrr t0, sepc; addi t0, t0, 4; csrw sepc, t0; sret. The handler skips `ecall`, so that instruction takes no time
        // of its own.
        &[(0, Words(&[0x1410_22f3, 0x0042_8293, 0x1412_9073, 0x1020_0073]))], 12,
    ),
    switch(
        // csrr t1, satp; li t2, 1; slli t2, t2, 44: the lowest bit of the address space's number; lui s0 to s7, eight pages
        Words(&[0x1800_2373, 0x0010_0393, 0x02c3_9393, 0x88a0_0437, 0x88a0_14b7, 0x88a0_2937, 0x88a0_39b7, 0x88a0_4a37, 0x88a0_5ab7, 0x88a0_6b37, 0x88a0_7bb7]),
        // xor t1, t1, t2; csrw satp, t1; lw a0, (s0) to (s7); j back
        Words(&[0x0073_4333, 0x1803_1073, 0x0004_2503, 0x0004_a503, 0x0009_2503, 0x0009_a503, 0x000a_2503, 0x000a_a503, 0x000b_2503, 0x000b_a503, 0xfd9f_f06f]),
    ),
    program(
        // lui, addi t1, the round as programs see it; csrw sepc, t1; li t2, SPP; csrc sstatus, t2; sret
        Words(&[0x0020_0337, 0x1183_0313, 0x1413_1073, 0x1000_0393, 0x1003_b073, 0x1020_0073]),
        Words(&[0x0013_0313, 0xffdf_f06f]), &[], 2, // addi t1, t1, 1; j back
    ),
];
