//! The guests with many functions, one row per ISA: instructions and page tables as numbers. The offsets in memory are
//! the same for all of them (`super`). `base` and the page tables put them at addresses usual for kernels of that ISA,
//! within branch reach of the probe window.

use super::{Code, Entries, Many, PAGE};
use trapline_isa::arch::Arch;

/// The page tables of a row map RAM twice: identity-mapped for the entry code, and from `base` on. Most map a part of it
/// a third time, for programs.
#[rustfmt::skip]
pub(super) const ALL: &[Many] = &[
    Many {
        name: "many/x86_64", arch: Arch::X86_64, most: 100_000, ram: 0, base: 0xffff_ffff_8100_0000,
        // Four levels; pages of 2 MiB.
        tables: &[
            Entries { at: 0,                first: 0x10_1003, step: 0,       count: 1, bytes: 8 },
            Entries { at: 511 * 8,          first: 0x10_3003, step: 0,       count: 1, bytes: 8 },
            Entries { at: PAGE,             first: 0x10_2003, step: 0,       count: 1, bytes: 8 },
            Entries { at: 2 * PAGE,         first: 0xe3,      step: 2 << 20, count: 8, bytes: 8 },
            Entries { at: 3 * PAGE + 510 * 8, first: 0x10_4003, step: 0,     count: 1, bytes: 8 },
            Entries { at: 4 * PAGE + 8 * 8, first: 0xe3,      step: 2 << 20, count: 8, bytes: 8 },
            // For programs.
            Entries { at: 8,                first: 0x10_5007, step: 0,       count: 1, bytes: 8 },
            Entries { at: 5 * PAGE,         first: 0x10_6007, step: 0,       count: 1, bytes: 8 },
            Entries { at: 6 * PAGE,         first: 0xe7,      step: 2 << 20, count: 8, bytes: 8 },
        ],
        entry: Code::Bytes(&[
            0xb8, 0x00, 0x00, 0x10, 0x00, 0x0f, 0x22, 0xd8,             // mov eax, tables; mov cr3, rax
            0x48, 0xbc, 0, 0, 0xa0, 0x81, 0xff, 0xff, 0xff, 0xff,       // mov rsp, the stack's end
            0x48, 0xb8, 0, 0x01, 0x20, 0x81, 0xff, 0xff, 0xff, 0xff,    // mov rax, the loop
            0xff, 0xe0,                                                 // jmp rax
        ]),
        calls: X86_CALLS, function: X86_FUNCTION,
    },
    Many {
        name: "many/i386", arch: Arch::I386, most: 100_000, ram: 0, base: 0xc000_0000,
        // One directory; pages of 4 MiB.
        tables: &[
            Entries { at: 0,                first: 0xe3,      step: 4 << 20, count: 4, bytes: 4 },
            Entries { at: 768 * 4,          first: 0xe3,      step: 4 << 20, count: 4, bytes: 4 },
            // For programs.
            Entries { at: 16 * 4,           first: 0xe7,      step: 0,       count: 1, bytes: 4 },
        ],
        entry: Code::Bytes(&[
            0x0f, 0x20, 0xe0, 0x83, 0xc8, 0x10, 0x0f, 0x22, 0xe0,       // mov eax, cr4; or eax, large pages; mov cr4, eax
            0xb8, 0x00, 0x00, 0x10, 0x00, 0x0f, 0x22, 0xd8,             // mov eax, tables; mov cr3, eax
            0xbc, 0x00, 0x00, 0xa0, 0xc0,                               // mov esp, the stack's end
            0x0f, 0x20, 0xc0, 0x0d, 0, 0, 0x01, 0x80, 0x0f, 0x22, 0xc0, // mov eax, cr0; or eax, paging; mov cr0, eax
            0xb8, 0x00, 0x01, 0x20, 0xc0, 0xff, 0xe0,                   // mov eax, the loop; jmp eax
        ]),
        calls: X86_CALLS, function: X86_FUNCTION,
    },
    Many {
        name: "many/arm64", arch: Arch::Arm64, most: 100_000, ram: 0x4000_0000, base: 0xffff_8000_0800_0000,
        // Four levels; TTBR0 and TTBR1 share the top level. A block of 1 GiB and blocks of 2 MiB.
        tables: &[
            Entries { at: 0,                first: 0x4010_1003, step: 0,     count: 1, bytes: 8 },
            Entries { at: 256 * 8,          first: 0x4010_2003, step: 0,     count: 1, bytes: 8 },
            Entries { at: PAGE + 8,         first: 0x4000_0701, step: 0,     count: 1, bytes: 8 },
            // For programs.
            Entries { at: PAGE,             first: 0x4000_0741, step: 0,     count: 1, bytes: 8 },
            Entries { at: 2 * PAGE,         first: 0x4010_3003, step: 0,     count: 1, bytes: 8 },
            Entries { at: 3 * PAGE + 64 * 8, first: 0x4000_0701, step: 2 << 20, count: 8, bytes: 8 },
        ],
        entry: Code::Words(&[
            0xd280_9fe0, 0xd518_a200,               // mov x0, kinds of memory; msr mair_el1, x0
            0x5800_01c0, 0xd518_2040,               // ldr x0, sizes; msr tcr_el1, x0
            0xd2a8_0200, 0xd518_2000, 0xd518_2020,  // mov x0, tables; msr ttbr0_el1, x0; msr ttbr1_el1, x0
            0xd508_871f, 0xd503_379f, 0xd503_3fdf,  // tlbi vmalle1; dsb nsh; isb
            0x5800_0100, 0xd518_1000, 0xd503_3fdf,  // ldr x0, MMU and caches; msr sctlr_el1, x0; isb
            0x5800_00e0, 0xd61f_0000, 0xd503_201f,  // ldr x0, the loop; br x0; nop
            // Literals: 48-bit addresses in both halves with pages of 4 KiB; SCTLR with the MMU on; the loop's address
            0xb510_3510, 0x2, 0x30d0_199d, 0, 0x0820_0100, 0xffff_8000,
        ]),
        calls: Code::Words(&[0x9407_ffc0, 0x17ff_ffff]), // bl function; b back
        function: Code::Words(&[0xd503_201f, 0xd65f_03c0]), // nop; ret
    },
    Many {
        // The window must lie within the 32 MiB reach of a branch and has 8 MiB there.
        name: "many/arm", arch: Arch::Arm, most: 80_000, ram: 0x4000_0000, base: 0xc000_0000,
        // One level; sections of 1 MiB.
        tables: &[
            Entries { at: 0x400 * 4,        first: 0x4000_040e, step: 1 << 20, count: 16, bytes: 4 },
            Entries { at: 0xc00 * 4,        first: 0x4000_040e, step: 1 << 20, count: 16, bytes: 4 },
            // For programs.
            Entries { at: 0,                first: 0x4000_0c0e, step: 1 << 20, count: 4, bytes: 4 },
        ],
        entry: Code::Words(&[
            0xe59f_003c, 0xee02_0f10,               // ldr r0, tables; mcr: TTBR0
            0xe3a0_0000, 0xee02_0f50,               // mov r0, 0; mcr: TTBCR
            0xe3a0_0001, 0xee03_0f10,               // mov r0, 1; mcr: DACR, domain 0 checks permissions
            0xee08_0f17, 0xf57f_f04f, 0xf57f_f06f,  // mcr: TLB flush; dsb; isb
            0xee11_0f10, 0xe59f_1018, 0xe1c0_0001,  // mrc: SCTLR; ldr r1, bits to clear; bic r0, r0, r1
            0xe59f_1014, 0xe180_0001,               // ldr r1, bits to set; orr r0, r0, r1
            0xee01_0f10, 0xf57f_f06f, 0xe59f_f008,  // mcr: SCTLR; isb; ldr pc, the loop
            // Literals: tables; SCTLR bits to clear (Thumb exceptions, high vectors, alignment checks) and to set (MMU,
            // caches); the loop's address
            0x4010_004a, 0x4000_2002, 0x1005, 0xc020_0100,
        ]),
        calls: Code::Words(&[0xeb07_ffbe, 0xeaff_fffd]), // bl function; b back
        function: Code::Words(&[0xe1a0_0000, 0xe12f_ff1e]), // mov r0, r0 (a nop is computed, not optimised); bx lr
    },
    Many {
        name: "many/s390x", arch: Arch::S390x, most: 100_000, ram: 0, base: 0,
        // One segment table, with invalid entries behind the first 16, and a page table for each segment.
        tables: &[
            Entries { at: 0,                first: 0x10_4000, step: 0x800, count: 16, bytes: 8 },
            Entries { at: 16 * 8,           first: 0x20,      step: 0,     count: 2032, bytes: 8 },
            Entries { at: 4 * PAGE,         first: 0,         step: PAGE,  count: 16 * 256, bytes: 8 },
        ],
        entry: Code::Bytes(&[
            0xc0, 0x10, 0, 0, 0, 0x10,                                  // larl %r1, the data below
            0xeb, 0xdd, 0x10, 0, 0, 0x2f, 0xeb, 0x11, 0x10, 0, 0, 0x2f, // lctlg %c13, tables; lctlg %c1, tables
            0xc0, 0xff, 0, 0xa0, 0, 0, 0xb2, 0xb2, 0x10, 0x08,          // llilf %r15, the stack's end; lpswe
            0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10, 0, 0x03,                   // ASCE: the tables, 2048 segments
            0x04, 0, 0xc0, 0x01, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0x20, 0x01, 0, // PSW: DAT on, home space, 64 bits, the loop
        ]),
        calls: Code::Bytes(&[0xc0, 0xe5, 0x00, 0x0f, 0xff, 0x80, 0xa7, 0xf4, 0xff, 0xfd]), // brasl %r14, function; j back
        // A branch that is never taken and a return, like the start of a function in a kernel with ftrace. nops fill it
        // up, because s390x's breakpoint is not a decodable instruction.
        function: Code::Bytes(&[0xc0, 0x04, 0, 0, 0, 0, 0x07, 0xfe, 0x07, 0x07, 0x07, 0x07, 0x07, 0x07, 0x07, 0x07]),
    },
    Many {
        name: "many/ppc64le", arch: Arch::Ppc64le, most: 100_000, ram: 0, base: 0xc000_0000_0000_0000,
        // The kernel's radix tree of three levels with pages of 2 MiB, followed by the process table and the partition
        // table, all big-endian. The first page holds the vectors; it maps the same memory as the second.
        tables: &[
            Entries { at: 0,                first: ppc_table(0x11_0000), step: 0, count: 1, bytes: 8 },
            Entries { at: 16 * PAGE,        first: ppc_table(0x11_1000), step: 0, count: 1, bytes: 8 },
            Entries { at: 17 * PAGE,        first: ppc_page(2 << 20), step: 0, count: 1, bytes: 8 },
            Entries { at: 17 * PAGE + 8,    first: ppc_page(2 << 20), step: (2u64 << 20).swap_bytes(), count: 7, bytes: 8 },
            // For programs.
            Entries { at: 17 * PAGE + 256 * 8, first: ppc_program_page(2 << 20), step: 0, count: 1, bytes: 8 },
            Entries { at: 18 * PAGE,        first: 0x80, step: 0,   count: 1, bytes: 8 },
            Entries { at: 18 * PAGE + 8,    first: 0x8000_0000_0011_3000u64.swap_bytes(), step: 0, count: 1, bytes: 8 },
            Entries { at: 19 * PAGE,        first: 0x4000_0000_0010_00adu64.swap_bytes(), step: 0, count: 1, bytes: 8 },
        ],
        entry: Code::Words(&[
            0x3c60_01d0, 0x6063_0008, 0x7c7e_4ba6,  // r3 = radix trees, exceptions with translation; mtlpcr r3
            0x3860_0000, 0x7c7f_4ba6, 0x7c70_0ba6,  // li r3, 0; mtlpidr r3; mtpidr r3
            0x3c60_0011, 0x6063_2000, 0x7c70_73a6,  // r3 = tables; mtptcr r3
            0x4c00_012c, 0x3c60_c000, 0x7863_07c6,  // isync; r3 = base
            0x6461_00a0,                            // oris r1, r3, the stack's end
            0x6463_0020, 0x6063_0100, 0x7c7a_03a6,  // r3 = the loop; mtsrr0 r3
            0x3c60_9000, 0x7863_07c6, 0x6063_1033,  // r3 = MSR: 64 bits, hypervisor, translation on, little-endian
            0x7c7b_03a6, 0x4c00_0024,               // mtsrr1 r3; rfid
        ]),
        calls: Code::Words(&[0x481f_ff01, 0x4bff_fffc]), // bl function; b back
        function: Code::Words(&[0x6000_0000, 0x4e80_0020]), // nop; blr
    },
    Many {
        name: "many/mipsel", arch: Arch::Mipsel, most: 100_000, ram: 0, base: 0x8000_0000,
        // KSEG0 needs no page tables.
        tables: &[Entries { at: 0, first: 0, step: 0, count: 1, bytes: 4 }],
        entry: Code::Words(&[0x3c08_8020, 0x3508_0100, 0x0100_0008, 0]),    // lui, ori t0, the loop; jr t0
        calls: Code::Words(&[0x0c10_0000, 0, 0x1000_fffd, 0]),              // jal function; b back
        function: Code::Words(&[0x03e0_0825, 0, 0x03e0_0008, 0]),           // move at, ra; nop; jr ra
    },
    Many {
        // The window is one page of 4 MiB.
        name: "many/sparc64", arch: Arch::Sparc64, most: 20_000, ram: 0, base: 0x8000_0000,
        // The entry code fills the TLBs itself, so there are no page tables.
        tables: &[Entries { at: 0, first: 0, step: 0, count: 1, bytes: 8 }],
        entry: Code::Words(&[
            0x8410_3fff, 0x8528_b03d, 0x8410_a077,  // mov -1, %g2; sllx %g2, 61, %g2; or %g2, 0x77, %g2: a page of 4 MiB
            0x8a10_2030, 0xc0f1_4a00, 0xc4f0_0aa0,  // mov 0x30, %g5; stxa %g0, [%g5] 0x50; stxa %g2, [%g0] 0x55: identity-maps this code
            0x8810_2008,                            // mov 8, %g4: the next entry
            0x0320_0000, 0x0700_1000,               // sethi base, %g1; sethi 4 MiB, %g3
            0xc2f1_4a00, 0xc4f1_0aa0,               // stxa %g1, [%g5] 0x50; stxa %g2, [%g4] 0x55: fetches
            0xc2f1_4b00, 0xc4f1_0ba0,               // stxa %g1, [%g5] 0x58; stxa %g2, [%g4] 0x5d: data
            0x8200_4003, 0x8400_8003,               // add %g1, %g3, %g1; add %g2, %g3, %g2
            0x80a1_2020, 0x12bf_fff9, 0x8801_2008,  // cmp %g4, 32; bne the next four; add %g4, 8, %g4
            0x8610_200c, 0xc6f0_08a0,               // mov 0xc, %g3; stxa %g3, [%g0] 0x45: both MMUs are on
            0x0320_0800, 0x81c0_6100, 0x0100_0000,  // sethi the set-up, %g1; jmp %g1 + 0x100; nop
        ]),
        calls: Code::Words(&[0x4007_ffc0, 0x0100_0000, 0x30bf_fffe]),       // call function; nop; ba,a back
        function: Code::Words(&[0x0100_0000, 0x81c3_e008, 0x0100_0000]),    // nop; retl; nop
    },
    Many {
        // The window in front of the guest has 896 KiB. Its far jumps need 8 bytes.
        name: "many/riscv64", arch: Arch::Riscv64, most: 5_000, ram: 0x4000_0000, base: 0xffff_ffff_8800_0000,
        // Sv39; a page of 1 GiB for the entry code, one for programs, and pages of 2 MiB.
        tables: &[
            Entries { at: 0,                first: 0x1000_00df, step: 0,     count: 1, bytes: 8 },
            Entries { at: 8,                first: 0x1000_00ef, step: 0,     count: 1, bytes: 8 },
            Entries { at: 510 * 8,          first: 0x1004_0401, step: 0,     count: 1, bytes: 8 },
            Entries { at: PAGE + 64 * 8,    first: 0x1000_00ef, step: 0x8_0000, count: 8, bytes: 8 },
        ],
        entry: Code::Words(&[
            0x0000_0297, 0x0010_0337, 0x4062_82b3,  // auipc t0, 0; lui t1, 1 MiB; sub t0, t0, t1: tables
            0x00c2_d293, 0xff80_0313, 0x03c3_1313,  // srli t0, t0, 12; li t1, -8; slli t1, t1, 60: Sv39
            0x0062_e2b3, 0x1802_9073, 0x1200_0073,  // or t0, t0, t1; csrw satp, t0; sfence.vma
            0x8820_02b7, 0x1002_8293, 0x0002_8067,  // lui, addi t0, the loop; jr t0
        ]),
        calls: Code::Words(&[0x0020_0097, 0xf000_80e7, 0xff9f_f06f]), // auipc, jalr ra, function; j back
        function: Code::Words(&[0x0000_0013, 0x0000_0013, 0x0000_8067]), // nop; nop; ret
    },
    Many {
        // The window is as on many/riscv64.
        name: "many/riscv32", arch: Arch::Riscv32, most: 5_000, ram: 0x4000_0000, base: 0xc800_0000,
        // Sv32; pages of 4 MiB.
        tables: &[
            Entries { at: 0x100 * 4,        first: 0x1000_00ef, step: 0,     count: 1, bytes: 4 },
            Entries { at: 0x320 * 4,        first: 0x1000_00ef, step: 0x10_0000, count: 4, bytes: 4 },
        ],
        entry: Code::Words(&[
            0x0000_0297, 0x0010_0337, 0x4062_82b3,  // auipc t0, 0; lui t1, 1 MiB; sub t0, t0, t1: tables
            0x00c2_d293, 0x8000_0337, 0x0062_e2b3,  // srli t0, t0, 12; lui t1, Sv32; or t0, t0, t1
            0x1802_9073, 0x1200_0073,               // csrw satp, t0; sfence.vma
            0xc820_02b7, 0x1002_8293, 0x0002_8067,  // lui, addi t0, the loop; jr t0
        ]),
        calls: Code::Words(&[0x0020_0097, 0xf000_80e7, 0xff9f_f06f]), // auipc, jalr ra, function; j back
        function: Code::Words(&[0x0000_0013, 0x0000_0013, 0x0000_8067]), // nop; nop; ret
    },
];

/// call function; jmp back
const X86_CALLS: Code = Code::Bytes(&[0xe8, 0xfb, 0xfe, 0x1f, 0x00, 0xeb, 0xf9]);
/// A 5-byte nop and a return, like the start of a function in a kernel with ftrace.
const X86_FUNCTION: Code = Code::Bytes(&[0x0f, 0x1f, 0x44, 0x00, 0x00, 0xc3]);

/// A radix-tree entry that points to a table of 512 entries. Entries are big-endian in this little-endian guest.
const fn ppc_table(at: u64) -> u64 {
    (0x8000_0000_0000_0009 | at).swap_bytes()
}

/// A radix-tree entry for a kernel page with all rights.
const fn ppc_page(at: u64) -> u64 {
    (0xc000_0000_0000_018f | at).swap_bytes()
}

/// A radix-tree entry for a page that programs may use, too.
const fn ppc_program_page(at: u64) -> u64 {
    (0xc000_0000_0000_0187 | at).swap_bytes()
}
