//! The walls between a guest and its CPU core. Wherever the core uses a value of the guest as an index, as a mode or as
//! a reason to give up, these tests try every value that a guest can set.

mod arm_debug_registers;
mod debug_registers;
mod frames;
mod locked;
mod narrow;
mod overwritten;
mod ports;
mod returns;
mod s390;
mod s390_recorded;
mod spaces;
mod straight;
mod system_calls;

use trapline::machine::{Stop, What};
use trapline_isa::arch::Arch;
use trapline_isa::mips;
use trapline_isa::sparc64::abi::{self, WINDOWS};
use trapline_tests::lab::DATA;
use trapline_tests::lab::hostile::{Bare, CORE_FAILED};

/// Checks that the core has not failed. Returns a description of the guest's end.
fn ended(what: &str, stop: &Stop) -> String {
    let Stop::Dead(why) = stop else { return format!("{stop:?}") };
    assert!(!why.starts_with(CORE_FAILED), "{what}: {why}");
    why.clone()
}

fn big(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

// Numbers of SPARC's privileged registers.
const TPC: u32 = 0;
const TNPC: u32 = 1;
const TSTATE: u32 = 2;
const TL: u32 = 7;
const CWP: u32 = 9;
const CANSAVE: u32 = 10;
const CANRESTORE: u32 = 11;
const CLEANWIN: u32 = 12;
const OTHERWIN: u32 = 13;

/// `wrpr` from %gN.
fn wrpr(number: u32, from: u32) -> u32 {
    0x8190_0000 | number << 25 | from << 14
}

/// An instruction that may move the register window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moves {
    Save,
    Restore,
    Flush,
    /// `saved`, `restored`, `allclean`, `otherw`, `normalw`, `invalw`: by number.
    Counts(u32),
    Done,
    Retry,
    WriteWindow,
    Trap(u32),
    Return,
}

impl Moves {
    fn word(self) -> u32 {
        match self {
            Moves::Save => 0x81e0_0000,
            Moves::Restore => 0x81e8_0000,
            Moves::Flush => 0x8158_0000,
            Moves::Counts(number) => 0x8188_0000 | number << 25,
            Moves::Done => 0x81f0_0000,
            Moves::Retry => 0x83f0_0000,
            // wrpr %g6, %cwp
            Moves::WriteWindow => wrpr(CWP, 6),
            Moves::Trap(number) => 0x91d0_2000 | number,
            // return %g7
            Moves::Return => 0x81c9_c000,
        }
    }

    /// The number of the current window afterwards, by the manual: JPS1, "Register Windows" and "Traps".
    fn leads_to(self, cwp: u64, free: u64, filled: u64, clean: u64, asked: u64) -> u64 {
        let spill = cwp.wrapping_add(free).wrapping_add(2);
        let moved = match self {
            Moves::Save if free == 0 => spill,
            Moves::Save => cwp + 1,
            Moves::Restore | Moves::Return => cwp.wrapping_sub(1),
            Moves::Flush if free != WINDOWS - 2 => spill,
            Moves::Done | Moves::Retry | Moves::WriteWindow => asked,
            _ => cwp,
        };
        let _ = (filled, clean);
        moved % WINDOWS
    }
}

/// Every combination of the five window registers, including invalid values, with every instruction that moves the
/// window. The CPU must be in the window that the manual prescribes, and find its registers there.
#[test]
fn no_value_leads_out_of_the_register_windows() {
    const FREE: [u64; 13] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 13, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff];
    const FILLED: [u64; 5] = [0, 1, 6, 7, 0xffff_ffff];
    const OTHERS: [u64; 4] = [0, 1, 7, 0xffff_ffff];
    const CLEAN: [u64; 4] = [0, 1, 7, 0xffff_ffff];
    let counts = (0..6).map(Moves::Counts);
    let traps = [0, 0x10, 0x40, 0x7f].map(Moves::Trap);
    let moves: Vec<Moves> =
        [Moves::Save, Moves::Restore, Moves::Flush, Moves::Done, Moves::Retry, Moves::WriteWindow, Moves::Return]
            .into_iter()
            .chain(counts)
            .chain(traps)
            .collect();
    let mut bare = Bare::new(Arch::Sparc64);
    let l0 = Arch::Sparc64.isa().abi.register("l0").expect("it has a name");
    let pattern = |window: u64| 0x1234_5678_0000_0000 | window;
    for window in 0..WINDOWS {
        bare.set(abi::CWP, window);
        bare.set(l0, pattern(window));
    }
    let mut tried = 0;
    for free in FREE {
        for filled in FILLED {
            for others in OTHERS {
                for clean in CLEAN {
                    for (number, does) in moves.iter().enumerate() {
                        let cwp = (number as u64 + free + filled + others + clean) % WINDOWS;
                        let asked = [0, 7, 8, 31, 0x8000_0000, u64::MAX, 5][(tried % 7) as usize];
                        windows_case(&mut bare, *does, [cwp, free, filled, others, clean, asked]);
                        let what = format!("{does:x?} in window {cwp}: {free:x} {filled:x} {others:x} {clean:x} {asked:x}");
                        let expected = does.leads_to(cwp, free, filled, clean, asked);
                        assert_eq!(bare.get(abi::CWP), expected, "{what}");
                        assert_eq!(bare.get(l0), pattern(expected), "{what}");
                        tried += 1;
                    }
                }
            }
        }
    }
    for window in 0..WINDOWS {
        bare.set(abi::CWP, window);
        assert_eq!(bare.get(l0), pattern(window), "the registers of window {window}");
    }
    println!("{tried} combinations");
    assert_eq!(tried, 13 * 5 * 4 * 4 * 17);
}

fn windows_case(bare: &mut Bare, does: Moves, [cwp, free, filled, others, clean, asked]: [u64; 6]) {
    const AFTER: u64 = 0x80;
    let place = trapline_tests::lab::place(Arch::Sparc64);
    let mut code = vec![wrpr(TL, 0), wrpr(CWP, 1), wrpr(CANSAVE, 2), wrpr(CANRESTORE, 3), wrpr(OTHERWIN, 4), wrpr(CLEANWIN, 5)];
    if matches!(does, Moves::Done | Moves::Retry) {
        // wrpr 1, %tl
        code.extend([0x8190_2001 | TL << 25, wrpr(TSTATE, 6), wrpr(TPC, 7), wrpr(TNPC, 7)]);
    }
    code.extend([does.word(), 0x0100_0000]);
    // ta 0x7f
    code.resize(AFTER as usize / 4 + 4, 0x91d0_207f);
    // The state that a trap has saved keeps the privilege.
    let state = 0x14 << 8 | asked & 0xff;
    let asked = if matches!(does, Moves::Done | Moves::Retry) { state } else { asked };
    bare.set(abi::TL, 0);
    for (number, value) in (1..).zip([cwp, free, filled, others, clean, asked, place + AFTER]) {
        bare.set(abi::r(number), value);
    }
    let stop = bare.run(&big(&code));
    ended(&format!("{does:?}"), &stop);
}

/// MIPS addresses shadow register sets by number, and this CPU has one set. Every number is tried with every register,
/// on every core.
#[test]
fn no_number_leads_out_of_the_shadow_sets() {
    let mut tried = 0;
    for arch in [Arch::Mips, Arch::Mipsel, Arch::Mips64, Arch::Mips64el] {
        let mut bare = Bare::new(arch);
        for number in 0..16u64 {
            for register in 1..32u32 {
                let (control, value) = (number << 6 | (15 - number) << 12 | number << 26 | number, 0x1234_5600 + number);
                let [k0, k1] = [26, 27];
                let word = |word: u32| arch.isa().order.word_bytes(word);
                // Neither the register that is named nor the others are used by the code itself.
                let (one, other) = if register == k0 || register == k1 { (8, 9) } else { (k0, k1) };
                let code = [
                    0x4080_6002 | one << 16,                    // mtc0 one, SRSCtl
                    0x41c0_0000 | other << 16 | register << 11, // wrpgpr register, other
                    0x4140_0000 | register << 16 | one << 11,   // rdpgpr one, register
                    0x4000_6002 | other << 16,                  // mfc0 other, SRSCtl
                    0x4200_0020,                                // wait
                ];
                for reg in 1..32 {
                    bare.set(mips::abi::r(reg), 0x4000_0000 + u64::from(reg));
                }
                bare.set(mips::abi::r(one as u8), control);
                bare.set(mips::abi::r(other as u8), value);
                let stop = bare.run(&code.map(word).concat());
                let what = format!("{}: set {number}, register {register}", arch.name());
                ended(&what, &stop);
                assert_eq!(bare.get(mips::abi::r(register as u8)), value, "{what}");
                assert_eq!(bare.get(mips::abi::r(one as u8)), value, "{what}");
                assert_eq!(bare.get(mips::abi::r(other as u8)) & 0x3c3f_f3cf, 0, "{what}: no other set is told of");
                let untouched = (1..32).filter(|reg| ![register, one, other].contains(reg));
                for reg in untouched {
                    assert_eq!(bare.get(mips::abi::r(reg as u8)), 0x4000_0000 + u64::from(reg), "{what}: r{reg}");
                }
                tried += 1;
            }
        }
    }
    println!("{tried} combinations");
}

/// Each bit of LPCR with each choice of host radix and process table, then a TLB miss of a load, a store and a fetch.
#[test]
fn no_control_of_a_power_cpu_ends_the_process() {
    const LPCR: u32 = 318;
    let spr = |number: u32| (number & 0x1f) << 16 | (number & 0x3e0) << 6;
    let mut tried = 0;
    for arch in [Arch::Ppc64le, Arch::Ppc64] {
        for bit in 0..64 {
            for tables in [0, 1 << 20, 1 << 22, 1 << 20 | 1 << 22u64] {
                let value = tables ^ 1 << bit;
                let mut bare = Bare::new(arch);
                let code = [
                    0x7c00_03a6 | spr(LPCR) | 3 << 21, // mtspr LPCR, r3
                    0x7c00_03e4 | 7 << 21,             // slbia 7
                    0x7c00_2264,                       // tlbie r4, r0
                    0x4c00_012c,                       // isync
                    0xe8a4_0000,                       // ld r5, 0(r4)
                    0xf8a4_0000,                       // std r5, 0(r4)
                    0x7c89_03a6,                       // mtctr r4
                    0x4e80_0420,                       // bctr
                ];
                for (register, value) in [("gpr3", value), ("gpr4", 0x7000_0000_0000)] {
                    let reg = arch.isa().abi.register(register).expect("it has a name");
                    bare.set(reg, value);
                }
                let stop = bare.run(&code.map(|word| arch.isa().order.word_bytes(word)).concat());
                ended(&format!("{}: LPCR {value:#x}", arch.name()), &stop);
                tried += 1;
            }
        }
    }
    println!("{tried} values");
}

/// LTR of every null selector, and the setting of EFER.SVME, raise #GP. Otherwise a gate without a task, or SVM, would
/// make the core exit.
#[test]
fn a_call_through_a_gate_without_a_task_is_the_guests_fault() {
    const PROTECTION: u32 = 13;
    let load_null = |rights: u8| vec![0xb8, rights, 0, 0, 0, 0x0f, 0x00, 0xd8, 0xf4];
    // mov $0xc0000080,%ecx; rdmsr; or $0x1000,%eax; wrmsr; hlt
    let virtual_machines = vec![0xb9, 0x80, 0, 0, 0xc0, 0x0f, 0x32, 0x0d, 0, 0x10, 0, 0, 0x0f, 0x30, 0xf4];
    for arch in [Arch::I386, Arch::X86_64] {
        for (number, code) in (0..4).map(load_null).chain([virtual_machines.clone()]).enumerate() {
            let mut bare = Bare::new(arch);
            let what = format!("{}, case {number}", arch.name());
            ended(&what, &bare.run(&code));
            let refused = bare.machine().happenings().iter().any(|event| event.what == What::Exception(PROTECTION, Some(0)));
            assert!(refused, "{what}: {:x?}", bare.machine().happenings());
        }
    }
}

/// Loads and stores of SPARC through every address space, of every size and kind, including the 128-bit ones.
#[test]
fn no_address_space_ends_the_process() {
    let mut tried = 0;
    for space in 0..256u32 {
        let mut bare = Bare::new(Arch::Sparc64);
        for operation in 0x10..0x40u32 {
            bare.set(abi::TL, 0);
            bare.set(abi::r(1), 0x7_0000_0000 + DATA + 0x100);
            // The operation of %f0 or %g2, by [%g1] and this space.
            let code = [0xc000_0000 | 2 << 25 | operation << 19 | 1 << 14 | space << 5, 0x91d0_207f];
            let stop = bare.run(&big(&code));
            ended(&format!("operation {operation:#x} by {space:#x}"), &stop);
            tried += 1;
        }
    }
    println!("{tried} accesses");
}

/// Direct-store segments of 32-bit PowerPC, by each kind of access, with both keys.
#[test]
fn no_segment_ends_the_process() {
    let accesses = [
        0x8085_0000u32, // lwz r4, 0(r5)
        0x9085_0000,    // stw r4, 0(r5)
        0xc085_0000,    // lfs f4, 0(r5)
        0x7c80_2828,    // lwarx r4, 0, r5
        0x7c80_292d,    // stwcx. r4, 0, r5
        0x7c00_2fec,    // dcbz 0, r5
        0x7c00_2fac,    // icbi 0, r5
        0x7c80_2a6c,    // eciwx r4, 0, r5
        0xbb85_0000,    // lmw r28, 0(r5)
        0x7c80_2c2a,    // lswx r4, 0, r5
        0x7ca9_03a6,    // mtctr r5, then a jump there
    ];
    let mut tried = 0;
    for segment in [0x8000_0000u32, 0xc000_0000, 0xa000_0000, 0xe000_0000, 0x87f0_0003, 0xffff_ffff] {
        for access in accesses {
            let mut bare = Bare::new(Arch::Ppc);
            // mtsr 7, r3; isync; the access; bctr
            let code = [0x7c67_01a4, 0x4c00_012c, access, 0x4e80_0420];
            for (name, value) in [("gpr3", segment.into()), ("gpr5", 0x7000_1000)] {
                let reg = Arch::Ppc.isa().abi.register(name).expect("it has a name");
                bare.set(reg, value);
            }
            ended(&format!("{access:#x} in segment {segment:#x}"), &bare.run(&big(&code)));
            tried += 1;
        }
    }
    println!("{tried} accesses");
}
