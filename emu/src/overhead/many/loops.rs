//! Loops without a probe, for what the core and the machine take of plain guest code: short blocks, loads and stores,
//! system calls, and what a switch between tasks does to the MMU. A row of [`ALL`] for each ISA; its set-up and page
//! tables are those of its guest of many functions, and data lies behind the stack's end.

use super::super::bench_loop::BenchLoop;
use super::{Code, ENTRY, LOOP, Many, PAGE, find};
use crate::boot::Kernel;
use crate::machine::Config;
use crate::probed::Session;

/// An ISA's loops.
pub struct Loops {
    /// As `loops/x86_64`.
    pub name: &'static str,
    /// Whose set-up and tables they have.
    many: &'static str,
    /// All of them.
    pub all: &'static [Loop],
}

/// One loop.
pub struct Loop {
    /// `blocks`, `memory`, `syscall` or `switch`.
    pub what: &'static str,
    before: Code,
    round: Code,
    /// Code and data in the page behind: where, from its start, in order.
    page: &'static [(u64, Code)],
    /// Bytes of code that a round runs there.
    handler: u64,
    /// What one round is, in the unit of its budget: instructions, or one system call or switch.
    units: u64,
}

/// From the start of RAM: the page behind the set-up, which has vectors and descriptors.
const BEHIND: u64 = ENTRY + PAGE;

/// The loops of that name.
pub fn of(name: &str) -> Option<&'static Loops> {
    ALL.iter().find(|loops| loops.name == name)
}

impl Loops {
    /// The guest in one of its loops.
    pub fn bench_loop(&self, chosen: &Loop) -> Result<BenchLoop, String> {
        let many = find(self.many).ok_or_else(|| format!("{} has no guest {}", self.name, self.many))?;
        let session = Session::new(many.looping(chosen), &Config::default()).map_err(|error| error.to_string())?;
        BenchLoop::in_session(session, THE_LOOP)
    }
}

impl Loop {
    /// How many units the guest has done whose time went on by so much: time is bytes of code.
    pub fn units_in(&self, ticks: u64) -> u64 {
        ticks * self.units / (self.round.len() + self.handler)
    }
}

const THE_LOOP: &str = "the_loop";

impl Many {
    fn looping(&self, chosen: &Loop) -> Kernel {
        let order = self.arch.isa().order;
        let entry = [self.filled(self.entry, LOOP - ENTRY), chosen.before.bytes(order), chosen.round.bytes(order)].concat();
        let mut page = Vec::new();
        for (at, code) in chosen.page {
            page.resize(*at as usize, 0);
            page.extend(code.bytes(self.arch.isa().order));
        }
        let pieces = vec![
            self.piece(super::TABLES, self.table_bytes(), false),
            self.piece(ENTRY, entry, true),
            self.piece(BEHIND, [page, vec![0]].concat(), true),
        ];
        let names = [("_stext", ENTRY), (THE_LOOP, LOOP), ("_etext", BEHIND + PAGE), ("_end", BEHIND + PAGE)];
        self.kernel_of(pieces, names.map(|(name, at)| (self.base + at, name.to_string())))
    }
}

const X86_BLOCKS: Loop = Loop {
    what: "blocks",
    before: Code::NONE,
    // inc ecx; jmp behind it: three times, and back
    round: Code::Bytes(&[0xff, 0xc1, 0xeb, 0, 0xff, 0xc1, 0xeb, 0, 0xff, 0xc1, 0xeb, 0, 0xff, 0xc1, 0xeb, 0xf0]),
    page: &[],
    handler: 0,
    units: 8,
};
/// Four words are loaded from where si points to and stored 64 bytes behind.
const X86_COPIES: Code = Code::Bytes(&[
    0x8b, 0x06, 0x89, 0x46, 0x40, 0x8b, 0x56, 0x04, 0x89, 0x56,
    0x44, // mov eax, [si]; mov [si + 0x40], eax; the same with edx
    0x8b, 0x46, 0x08, 0x89, 0x46, 0x48, 0x8b, 0x56, 0x0c, 0x89, 0x56, 0x4c, 0xeb, 0xe7, // and again; jmp back
]);
/// CR3 as it is, which forgets all translations, and a word of each of eight pages.
const X86_SWITCHES: Code = Code::Bytes(&[
    0x0f, 0x22, 0xd8, 0x8b, 0x16, // mov cr3, ax; mov edx, [si]
    0x8b, 0x96, 0, 0x10, 0, 0, 0x8b, 0x96, 0, 0x20, 0, 0, 0x8b, 0x96, 0, 0x30, 0, 0, 0x8b, 0x96, 0, 0x40, 0, 0, 0x8b, 0x96, 0,
    0x50, 0, 0, 0x8b, 0x96, 0, 0x60, 0, 0, 0x8b, 0x96, 0, 0x70, 0, 0, 0xeb, 0xcf, // mov edx, [si + page]; jmp back
]);

const X86_64: &[Loop] = &[
    X86_BLOCKS,
    Loop {
        what: "memory",
        before: Code::Bytes(&[0x48, 0xbe, 0, 0, 0xa0, 0x81, 0xff, 0xff, 0xff, 0xff]), // mov rsi, data
        round: X86_COPIES,
        page: &[],
        handler: 0,
        units: 9,
    },
    Loop {
        what: "syscall",
        before: Code::Bytes(&[
            0xb9, 0x80, 0, 0, 0xc0, 0x0f, 0x32, 0x83, 0xc8, 0x01, 0x0f, 0x30, // EFER: rdmsr; or eax, 1; wrmsr
            0xff, 0xc1, 0x31, 0xc0, 0xba, 0x10, 0, 0x10, 0, 0x0f, 0x30, // STAR: the segments
            0xff, 0xc1, 0xb8, 0, 0x10, 0x20, 0x81, 0x83, 0xca, 0xff, 0x0f, 0x30, // LSTAR: the page behind
        ]),
        round: Code::Bytes(&[0x0f, 0x05, 0xeb, 0xfc]), // syscall; jmp back
        page: &[(0, Code::Bytes(&[0xff, 0xe1]))],      // jmp rcx
        handler: 2,
        units: 1,
    },
    Loop {
        what: "switch",
        // mov rsi, data; mov rax, cr3
        before: Code::Bytes(&[0x48, 0xbe, 0, 0, 0xa0, 0x81, 0xff, 0xff, 0xff, 0xff, 0x0f, 0x20, 0xd8]),
        round: X86_SWITCHES,
        page: &[],
        handler: 0,
        units: 1,
    },
];

const I386: &[Loop] = &[
    X86_BLOCKS,
    Loop {
        what: "memory",
        before: Code::Bytes(&[0xbe, 0, 0, 0xa0, 0xc0]), // mov esi, data
        round: X86_COPIES,
        page: &[],
        handler: 0,
        units: 9,
    },
    Loop {
        what: "syscall",
        before: Code::Bytes(&[0x0f, 0x01, 0x15, 0x10, 0x10, 0x20, 0xc0, 0x0f, 0x01, 0x1d, 0x18, 0x10, 0x20, 0xc0]), // lgdt; lidt
        round: Code::Bytes(&[0xcd, 0x80, 0xeb, 0xfc]), // int 0x80; jmp back
        page: &[
            (0, Code::Bytes(&[0xcf])), // iret
            // The sizes and addresses of both tables; segments, code being the third of them and data the fourth; gate
            // 0x80.
            (0x10, Code::Words(&[0x1020_001f, 0xc020, 0x1100_0407, 0xc020])),
            (0x20, Code::Words(&[0, 0, 0, 0, 0xffff, 0x00cf_9b00, 0xffff, 0x00cf_9300])),
            (0x500, Code::Words(&[0x0010_1000, 0xc020_8e00])),
        ],
        handler: 1,
        units: 1,
    },
    Loop {
        what: "switch",
        before: Code::Bytes(&[0xbe, 0, 0, 0xa0, 0xc0, 0x0f, 0x20, 0xd8]), // mov esi, data; mov eax, cr3
        round: X86_SWITCHES,
        page: &[],
        handler: 0,
        units: 1,
    },
];

const ARM64: &[Loop] = &[
    Loop {
        what: "blocks",
        before: Code::NONE,
        // add x1, x1, 1; b behind it: three times, and back
        round: Code::Words(&[
            0x9100_0421,
            0x1400_0001,
            0x9100_0421,
            0x1400_0001,
            0x9100_0421,
            0x1400_0001,
            0x9100_0421,
            0x17ff_fff9,
        ]),
        page: &[],
        handler: 0,
        units: 8,
    },
    Loop {
        what: "memory",
        before: Code::Words(&[0x5800_0062, 0x1400_0004, 0xd503_201f, 0x08a0_0000, 0xffff_8000]), // ldr x2, data; b over it
        // ldr x0, [x2]; str x0, [x2, 64]; the same with x1, and again; b back
        round: Code::Words(&[
            0xf940_0040,
            0xf900_2040,
            0xf940_0441,
            0xf900_2441,
            0xf940_0840,
            0xf900_2840,
            0xf940_0c41,
            0xf900_2c41,
            0x17ff_fff8,
        ]),
        page: &[],
        handler: 0,
        units: 9,
    },
    Loop {
        what: "syscall",
        // ldr x0, the page behind; msr vbar_el1, x0; isb; b over it
        before: Code::Words(&[0x5800_0080, 0xd518_c000, 0xd503_3fdf, 0x1400_0003, 0x0820_1000, 0xffff_8000]),
        round: Code::Words(&[0xd400_0001, 0x17ff_ffff]), // svc 0; b back
        page: &[(0x200, Code::Words(&[0xd69f_03e0]))],   // eret
        handler: 4,
        units: 1,
    },
    Loop {
        what: "switch",
        // ldr x2, data; mrs x0, ttbr0_el1; b over it
        before: Code::Words(&[0x5800_0082, 0xd538_2000, 0x1400_0004, 0xd503_201f, 0x08a0_0000, 0xffff_8000]),
        round: Code::Words(&[
            0xd250_0000,
            0xd518_2000,
            0xd503_3fdf, // eor x0, x0, another address space; msr ttbr0_el1, x0; isb
            0xf940_0044,
            0xf948_0044,
            0xf950_0044,
            0xf958_0044,
            0xf960_0044,
            0xf968_0044,
            0xf970_0044,
            0xf978_0044, // ldr x4, [x2, page]
            0x17ff_fff5, // b back
        ]),
        page: &[],
        handler: 0,
        units: 1,
    },
];

const ARM: &[Loop] = &[
    Loop {
        what: "blocks",
        before: Code::NONE,
        // add r1, r1, 1; b behind it: three times, and back
        round: Code::Words(&[
            0xe281_1001,
            0xeaff_ffff,
            0xe281_1001,
            0xeaff_ffff,
            0xe281_1001,
            0xeaff_ffff,
            0xe281_1001,
            0xeaff_fff7,
        ]),
        page: &[],
        handler: 0,
        units: 8,
    },
    Loop {
        what: "memory",
        before: Code::Words(&[0xe59f_2000, 0xea00_0000, 0xc0a0_0000]), // ldr r2, data; b over it
        // ldr r0, [r2]; str r0, [r2, 64]; the same with r1, and again; b back
        round: Code::Words(&[
            0xe592_0000,
            0xe582_0040,
            0xe592_1004,
            0xe582_1044,
            0xe592_0008,
            0xe582_0048,
            0xe592_100c,
            0xe582_104c,
            0xeaff_fff6,
        ]),
        page: &[],
        handler: 0,
        units: 9,
    },
    Loop {
        what: "syscall",
        // ldr r0, the page behind; mcr: VBAR; isb; b over it
        before: Code::Words(&[0xe59f_0008, 0xee0c_0f10, 0xf57f_f06f, 0xea00_0000, 0xc020_1000]),
        round: Code::Words(&[0xef00_0000, 0xeaff_fffd]), // svc 0; b back
        page: &[(0x8, Code::Words(&[0xe1b0_f00e]))],     // movs pc, lr
        handler: 4,
        units: 1,
    },
    Loop {
        what: "switch",
        before: Code::Words(&[
            0xe59f_2010,
            0xe3a0_5a01,
            0xe3a0_6a03, // ldr r2, data; mov r5, 0x1000; mov r6, 0x3000
            0xee12_3f10,
            0xee1d_0f30,
            0xea00_0000,
            0xc0a0_0000, // mrc: TTBR0, CONTEXTIDR; b over it
        ]),
        round: Code::Words(&[
            0xe220_0001,
            0xee02_3f10,
            0xee0d_0f30,
            0xf57f_f06f, // eor r0, r0, another address space; mcr: both; isb
            0xe592_4000,
            0xe792_4005,
            0xe792_4085,
            0xe792_4006,
            0xe792_4105,
            0xe792_4086,
            0xe792_4185,
            0xe792_4106, // ldr r4, [r2, page]
            0xeaff_fff2, // b back
        ]),
        page: &[],
        handler: 0,
        units: 1,
    },
];

const S390X: &[Loop] = &[
    Loop {
        what: "blocks",
        before: Code::NONE,
        // ahi %r1,1; j behind it: three times, and back
        round: Code::Words(&[
            0xa71a_0001,
            0xa7f4_0002,
            0xa71a_0001,
            0xa7f4_0002,
            0xa71a_0001,
            0xa7f4_0002,
            0xa71a_0001,
            0xa7f4_fff2,
        ]),
        page: &[],
        handler: 0,
        units: 8,
    },
    Loop {
        what: "memory",
        before: Code::Bytes(&[0xc0, 0x2f, 0, 0xa0, 0, 0]), // llilf %r2, data
        // l %r0,0(%r2); st %r0,64(%r2); the same with r1, and again; j back
        round: Code::Words(&[
            0x5800_2000,
            0x5000_2040,
            0x5810_2004,
            0x5010_2044,
            0x5800_2008,
            0x5000_2048,
            0x5810_200c,
            0x5010_204c,
            0xa7f4_fff0,
        ]),
        page: &[],
        handler: 0,
        units: 9,
    },
    Loop {
        what: "syscall",
        before: Code::Bytes(&[
            0xc0, 0x10, 0, 0, 0, 0x08, 0xd2, 0x0f, 0x01, 0xc0, 0x10, 0, // larl %r1, the PSW; mvc: the new PSW of calls
            0xa7, 0xf4, 0, 0x0a, // j over it
            0x04, 0, 0xc0, 0x01, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0x20, 0x10, 0, // as it is, the page behind
        ]),
        round: Code::Bytes(&[0x0a, 0x00, 0xa7, 0xf4, 0xff, 0xff]), // svc 0; j back
        page: &[(0, Code::Words(&[0xb2b2_0140]))],                 // lpswe: the old PSW of calls
        handler: 4,
        units: 1,
    },
    Loop {
        what: "switch",
        before: Code::Bytes(&[
            0xc0, 0x30, 0, 0, 0, 0x08, 0xc0, 0x2f, 0, 0xa0, 0, 0, // larl %r3, the tables; llilf %r2, data
            0xa7, 0xf4, 0, 0x06, 0, 0, 0, 0, 0, 0x10, 0, 0x03, // j over it
        ]),
        // lctlg %c13, the tables as they are, which forgets all translations; l and ly %r4, a word of each of eight
        // pages; j back
        round: Code::Bytes(&[
            0xeb, 0xdd, 0x30, 0, 0, 0x2f, 0x58, 0x40, 0x20, 0, 0xe3, 0x40, 0x20, 0, 0x01, 0x58, 0xe3, 0x40, 0x20, 0, 0x02, 0x58,
            0xe3, 0x40, 0x20, 0, 0x03, 0x58, 0xe3, 0x40, 0x20, 0, 0x04, 0x58, 0xe3, 0x40, 0x20, 0, 0x05, 0x58, 0xe3, 0x40, 0x20,
            0, 0x06, 0x58, 0xe3, 0x40, 0x20, 0, 0x07, 0x58, 0xa7, 0xf4, 0xff, 0xe6,
        ]),
        page: &[],
        handler: 0,
        units: 1,
    },
];

const PPC64LE: &[Loop] = &[
    Loop {
        what: "blocks",
        before: Code::NONE,
        // addi r3, r3, 1; b behind it: three times, and back
        round: Code::Words(&[
            0x3863_0001,
            0x4800_0004,
            0x3863_0001,
            0x4800_0004,
            0x3863_0001,
            0x4800_0004,
            0x3863_0001,
            0x4bff_ffe4,
        ]),
        page: &[],
        handler: 0,
        units: 8,
    },
    Loop {
        what: "memory",
        before: PPC_DATA,
        // ld r3, 0(r5); std r3, 64(r5); the same with r4, and again; b back
        round: Code::Words(&[
            0xe865_0000,
            0xf865_0040,
            0xe885_0008,
            0xf885_0048,
            0xe865_0010,
            0xf865_0050,
            0xe885_0018,
            0xf885_0058,
            0x4bff_ffe0,
        ]),
        page: &[],
        handler: 0,
        units: 9,
    },
    Loop {
        what: "syscall",
        before: Code::NONE,
        round: Code::Words(&[0x4400_0002, 0x4bff_fffc]), // sc; b back
        // Vector 0xc00 of those with translation.
        page: &[(0x3c00, Code::Words(&[0x4c00_0024]))], // rfid
        handler: 4,
        units: 1,
    },
    Loop {
        what: "switch",
        before: PPC_DATA,
        round: Code::Words(&[
            0x68c6_0001,
            0x7cd0_0ba6,
            0x4c00_012c, // xori r6, r6, another address space; mtpidr r6; isync
            0xe885_0000,
            0xe885_1000,
            0xe885_2000,
            0xe885_3000,
            0xe885_4000,
            0xe885_5000,
            0xe885_6000,
            0xe885_7000, // ld r4, page(r5)
            0x4bff_ffd4, // b back
        ]),
        page: &[],
        handler: 0,
        units: 1,
    },
];

const MIPSEL: &[Loop] = &[
    Loop {
        what: "blocks",
        before: Code::NONE,
        // addiu v0, v0, 1; b behind its slot: three times, and back
        round: Code::Words(&[
            0x2442_0001,
            0x1000_0001,
            0,
            0x2442_0001,
            0x1000_0001,
            0,
            0x2442_0001,
            0x1000_0001,
            0,
            0x2442_0001,
            0x1000_fff5,
            0,
        ]),
        page: &[],
        handler: 0,
        units: 12,
    },
    Loop {
        what: "memory",
        before: Code::Words(&[0x3c04_80a0]), // lui a0, data
        // lw v0, (a0); sw v0, 64(a0); the same with v1, and again; b back
        round: Code::Words(&[
            0x8c82_0000,
            0xac82_0040,
            0x8c83_0004,
            0xac83_0044,
            0x8c82_0008,
            0xac82_0048,
            0x8c83_000c,
            0xac83_004c,
            0x1000_fff7,
            0,
        ]),
        page: &[],
        handler: 0,
        units: 10,
    },
    Loop {
        what: "syscall",
        before: Code::Words(&[0x3c1a_8020, 0x375a_1000, 0x409a_7801]), // lui, ori k0, the page behind; mtc0 k0, EBase
        round: Code::Words(&[0x0000_000c, 0x1000_fffe, 0]),            // syscall; b back
        // mfc0 k0, EPC; addiu k0, k0, 4; mtc0 k0, EPC; eret
        page: &[(0x180, Code::Words(&[0x401a_7000, 0x275a_0004, 0x409a_7000, 0x4200_0018]))],
        // The system call is not done, but gone behind: it takes no time of its own.
        handler: 12,
        units: 1,
    },
];

/// r5 = data
const PPC_DATA: Code = Code::Words(&[0x3ca0_c000, 0x78a5_07c6, 0x64a5_00a0]);

/// All of them.
pub const ALL: &[Loops] = &[
    Loops { name: "loops/x86_64", many: "many/x86_64", all: X86_64 },
    Loops { name: "loops/i386", many: "many/i386", all: I386 },
    Loops { name: "loops/arm64", many: "many/arm64", all: ARM64 },
    Loops { name: "loops/arm", many: "many/arm", all: ARM },
    Loops { name: "loops/s390x", many: "many/s390x", all: S390X },
    Loops { name: "loops/ppc64le", many: "many/ppc64le", all: PPC64LE },
    Loops { name: "loops/mipsel", many: "many/mipsel", all: MIPSEL },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{Stop, What};

    /// OP-1: what budgets are measured on is what it says: each loop goes round, and one of them alone makes system
    /// calls, one a round.
    #[test]
    fn loops_go_round_and_the_one_of_system_calls_makes_one_a_round() {
        for loops in ALL {
            let many = find(loops.many).expect("a guest of many functions");
            for chosen in loops.all {
                let name = format!("{} {}", loops.name, chosen.what);
                let config = Config { record_events: true, ..Config::default() };
                let mut session = Session::new(many.looping(chosen), &config).unwrap_or_else(|why| panic!("{name}: {why}"));
                for until in [10_000, 20_000] {
                    assert_eq!(session.run_until(until), Stop::Limit, "{name}");
                }
                let first = session.kernel().symbols.address_of(THE_LOOP).expect("it has a name");
                let code = first..first + chosen.before.len() + chosen.round.len();
                let pc = session.machine_mut().pcs()[0];
                assert!(code.contains(&pc) || chosen.handler > 0, "{name}: at {pc:#x}");
                let machine = session.machine();
                let made = machine.happenings().iter().filter(|one| matches!(one.what, What::SystemCall | What::Exception(..)));
                let expected = if chosen.what == "syscall" { chosen.units_in(machine.time()) } else { 0 };
                // What leads there takes time too.
                assert!(made.count().abs_diff(expected as usize) < 20, "{name}: {expected}");
            }
        }
    }
}
