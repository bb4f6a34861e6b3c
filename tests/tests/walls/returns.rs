//! Returns from exceptions with a hostile status: values that a kernel restores after a program's signal handler has
//! changed its saved state, and values that a kernel would reject. Each bit is tried with each instruction that
//! returns.

use crate::{ended, frames, wrpr};
use trapline_isa::arch::Arch;
use trapline_isa::regs::Reg;
use trapline_isa::sparc64::abi;
use trapline_tests::lab::hostile::{Bare, seen};
use trapline_tests::lab::{DATA, PLACE, STACK};

/// Offset of the code to which a return leads: a load, a store, a call, a jump to itself.
const LANDS: u64 = PLACE + 0x300;

/// A way to return.
struct Way {
    arch: Arch,
    /// The code that returns, and the code that it returns to.
    code: Vec<u8>,
    lands: Vec<u8>,
    /// The registers with the status, with the return address, and with the address of data.
    registers: [&'static str; 3],
    /// The status values. Each case changes one bit of one of them.
    statuses: &'static [u64],
    bits: u32,
}

fn way(arch: Arch, code: &[u32], lands: &[u32], registers: [&'static str; 3], statuses: &'static [u64]) -> Way {
    let bytes = |words: &[u32]| words.iter().flat_map(|word| arch.isa().order.word_bytes(*word)).collect();
    let bits = if arch.isa().word == 8 { 64 } else { 32 };
    Way { arch, code: bytes(code), lands: bytes(lands), registers, statuses, bits }
}

fn ways() -> Vec<Way> {
    let mut all = vec![
        // msr spsr_el1,x1; msr elr_el1,x2; eret
        way(
            Arch::Arm64,
            &[0xd518_4001, 0xd518_4022, 0xd69f_03e0],
            &[0xf940_0083, 0xf900_0083, 0xd400_0001, 0x1400_0000],
            ["x1", "x2", "x4"],
            &[0x3c5, 0x3c4, 0, 0x1f, 0x3cf],
        ),
        // msr spsr_fsxc,r1; mov lr,r2; movs pc,lr
        way(
            Arch::Arm,
            &[0xe16f_f001, 0xe1a0_e002, 0xe1b0_f00e],
            &[0xe594_3000, 0xe584_3000, 0xef00_0000, 0xeaff_fffe],
            ["r1", "r2", "r4"],
            &[0x1d3, 0x10, 0x1f, 0x16, 0x1a, 0x00, 0x0f, 0x1ff],
        ),
    ];
    let halves = |halves: &[u16]| halves.iter().flat_map(|half| half.to_le_bytes()).collect();
    all.push(Way {
        arch: Arch::Thumb2,
        code: halves(&[0xf391, 0x8f00, 0x4696, 0xf3de, 0x8f00]),
        lands: halves(&[0x6823, 0x6023, 0xdf00, 0xe7fe]),
        registers: ["r1", "r2", "r4"],
        statuses: &[0x1f3, 0x30, 0x3f, 0x36, 0x20, 0x0600_fc30],
        bits: 32,
    });
    // mtspr SRR0,r4; mtspr SRR1,r5; rfid; and by HSRR0 and HSRR1 with hrfid
    let power = [0xe8e6_0000, 0xf8e6_0000, 0x4400_0002, 0x4800_0000];
    let by: [&[u32]; 2] = [&[0x7c9a_03a6, 0x7cbb_03a6, 0x4c00_0024], &[0x7c9a_4ba6, 0x7cbb_4ba6, 0x4c00_0224]];
    for code in by {
        const LITTLE: &[u64] = &[0x9000_0000_0000_1033, 0x9000_0000_0280_f933, 0x8000_0000_0000_d033];
        const BIG: &[u64] = &[0x9000_0000_0000_1032, 0x9000_0000_0280_f932, 0x8000_0000_0000_d032];
        all.push(way(Arch::Ppc64le, code, &power, ["gpr5", "gpr4", "gpr6"], LITTLE));
        all.push(way(Arch::Ppc64, code, &power, ["gpr5", "gpr4", "gpr6"], BIG));
    }
    all.push(way(
        Arch::Ppc,
        &[0x7c9a_03a6, 0x7cbb_03a6, 0x4c00_0064],
        &[0x80e6_0000, 0x90e6_0000, 0x4400_0002, 0x4800_0000],
        ["gpr5", "gpr4", "gpr6"],
        &[0x1032, 0x5032, 0xf932],
    ));
    for arch in [Arch::Mips, Arch::Mipsel, Arch::Mips64, Arch::Mips64el] {
        all.push(way(
            arch,
            // mtc0 a0,Status; mtc0 a1,EPC and ErrorEPC; ehb; eret
            &[0x4084_6000, 0x4085_7000, 0x4085_f000, 0x0000_00c0, 0x4200_0018],
            &[0x8cc2_0000, 0xacc2_0000, 0x0000_000c, 0x1000_ffff, 0],
            ["r4", "r5", "r6"],
            &[0x1000_0002, 0x1000_0012, 0x3400_00e2, 0x1000_0006, 0xfffd_ff1a],
        ));
    }
    for (arch, load, store) in [(Arch::Riscv64, 0x0006_3703, 0x00e6_3023), (Arch::Riscv32, 0x0006_2703, 0x00e6_2023)] {
        all.push(way(
            arch,
            // csrw sstatus,a0; csrw sepc,a1; sret
            &[0x1005_1073, 0x1415_9073, 0x1020_0073],
            // A load from a2, a store, an ecall, a jump to itself.
            &[load, store, 0x0000_0073, 0x0000_006f],
            ["a0", "a1", "a2"],
            &[0x0, 0x120, 0x4_6120, 0x4_6020, 0xc_6122],
        ));
    }
    all
}

#[test]
fn no_status_of_a_return_ends_the_process() {
    let mut tried = 0;
    for way in ways() {
        let arch = way.arch;
        let named = |name: &str| arch.isa().abi.register(name).expect("it has a name");
        for status in way.statuses {
            for bit in 0..=way.bits {
                // The last turn changes none.
                let value = status ^ if bit < way.bits { 1 << bit } else { 0 };
                let mut bare = Bare::new(arch);
                bare.put(LANDS, &way.lands);
                bare.set(arch.isa().abi.sp, seen(arch, STACK));
                for (name, value) in way.registers.into_iter().zip([value, seen(arch, LANDS), seen(arch, DATA)]) {
                    bare.set(named(name), value);
                }
                ended(&format!("{}: {value:#x}", arch.name()), &bare.run(&way.code));
                // The registers of whatever state this is can be read.
                let _ = bare.machine().registers();
                tried += 1;
            }
        }
    }
    println!("{tried} returns");
    assert!(tried > 2000, "{tried}");
}

/// SPARC: each bit of a saved trap state, by `done` and `retry`.
#[test]
fn no_saved_state_of_sparc_ends_the_process() {
    let place = seen(Arch::Sparc64, LANDS);
    let mut tried = 0;
    for word in [0x81f0_0000, 0x83f0_0000u32] {
        for base in [0x14_00u64, 0x44_8200_1605, 0x80_0001_0400] {
            for bit in 0..64 {
                let mut bare = Bare::new(Arch::Sparc64);
                // wrpr 1,%tl; %g6 to TSTATE, %g7 to TPC and TNPC
                let code = [0x8190_2001 | 7 << 25, wrpr(2, 6), wrpr(0, 7), wrpr(1, 7), word];
                let lands: [u32; 4] = [0xd05a_6000, 0xd072_6000, 0x91d0_2003, 0x1080_0000];
                bare.put(LANDS, &crate::big(&lands));
                for (register, value) in [(6, base ^ 1 << bit), (7, place), (9, seen(Arch::Sparc64, DATA))] {
                    bare.set(abi::r(register), value);
                }
                ended(&format!("{:#x}", base ^ 1 << bit), &bare.run(&crate::big(&code)));
                let _ = bare.machine().registers();
                tried += 1;
            }
        }
    }
    println!("{tried} returns");
}

/// x86: each flag with each kind of selector, to programs and to the kernel.
#[test]
fn no_frame_of_a_return_on_x86_ends_the_process() {
    let mut tried = 0;
    for arch in [Arch::I386, Arch::X86_64] {
        for (code, stack) in
            [(0x23, 0x2b), (0x10, 0x18), (0x20, 0x28), (0x23, 0), (0, 0x2b), (0x2b, 0x23), (0x13, 0x1b), (0xfff8, 0xffff)]
        {
            for bit in 0..=32 {
                let flags = 0x202 ^ if bit < 32 { 1u64 << bit } else { 0 };
                let mut bare = frames::ready(arch, 0x67);
                // mov (%rsi),%eax; mov %eax,(%rsi); pushf; popf; int $0x80
                bare.put(LANDS, &[0x8b, 0x06, 0x89, 0x06, 0x9c, 0x9d, 0xcd, 0x80]);
                bare.set(arch.isa().abi.register("si").expect("it has a name"), DATA);
                let frame = [stack, DATA + 0x1000, flags, code, LANDS];
                // A 32-bit return to the same level has three words.
                let words = if arch == Arch::I386 && code & 3 == 0 { &frame[2..] } else { &frame[..] };
                ended(&format!("{}: {frame:x?}", arch.name()), &bare.run(&frames::enters(arch, words)));
                let _ = bare.machine().registers();
                tried += 1;
            }
        }
    }
    println!("{tried} frames");
}

/// PowerPC: a radix tree whose table is its own child, with every number of index bits.
#[test]
fn no_radix_tree_is_followed_for_ever() {
    const ROOT: u64 = trapline_tests::lab::PAGE_TABLES + 0x2000;
    const ADDRESS: u64 = 0xc000_007f_ffff_fff8;
    let mut tried = 0;
    for arch in [Arch::Ppc64le, Arch::Ppc64] {
        for bits in 0..32 {
            // ld r5,0(r4); std r5,0(r4); mtctr r4, bctr
            for (code, vector) in [(vec![0xe8a4_0000u32], 2), (vec![0xf8a4_0000], 2), (vec![0x7c89_03a6, 0x4e80_0420], 3)] {
                let mut bare = Bare::new(arch);
                // Every row but the first, which is the lab's.
                let rows = (1..512).flat_map(|_| (1u64 << 63 | ROOT | bits).to_be_bytes()).collect::<Vec<u8>>();
                bare.put(ROOT + 8, &rows);
                let named = arch.isa().abi.register("gpr4").expect("it has a name");
                bare.set(named, ADDRESS);
                let words: Vec<u8> = code.iter().flat_map(|word| arch.isa().order.word_bytes(*word)).collect();
                let what = format!("{}: {bits} bits, {code:x?}", arch.name());
                ended(&what, &bare.run(&words));
                let is_told = |event: &trapline::machine::Happening| matches!(event.what, trapline::machine::What::Exception(number, _) if number == vector);
                assert!(bare.machine().happenings().iter().any(is_told), "{what}: {:x?}", bare.machine().happenings());
                tried += 1;
            }
        }
    }
    println!("{tried} walks");
}

/// z/Architecture: every order of SIGP, with CPU numbers and parameters at edges.
#[test]
fn no_order_to_a_cpu_ends_the_process() {
    let mut tried = 0;
    for order in 0..=0xff {
        let mut bare = Bare::new(Arch::S390x);
        for cpu in [0, 1, 0xffff, 0x1_0000, u64::MAX] {
            for parameter in [0, 1, 0x7fff_e000, 0xffff_ffff, 0x1000_0000, u64::MAX] {
                for (register, value) in [(2, u64::MAX), (3, parameter), (5, cpu), (6, order)] {
                    bare.set(Reg(register), value);
                }
                // sigp %r2,%r5,0(%r6); svc 0
                let stop = bare.run(&[0xae, 0x25, 0x60, 0x00, 0x0a, 0x00]);
                ended(&format!("order {order:#x} to {cpu:#x} with {parameter:#x}"), &stop);
                tried += 1;
            }
        }
    }
    println!("{tried} orders");
}
