//! Random cases for the delivery of exceptions: arbitrary descriptor tables, vectors and CPU states of a guest, then an
//! instruction that raises an exception.
//!
//! A case is decoded from bytes. `tests/delivery.rs` uses random bytes, and the fuzz target `delivery` uses its input.

pub mod model;

use super::{Before, DATA, HANDLERS, How, Lab, PLACE, STACK, bench};
use trapline::machine::{Stop, What};
use trapline_isa::arch::Arch;

/// A case with the initial stack pointer, and whether the instruction is probed.
#[derive(Clone, Debug)]
pub struct Case {
    /// The case.
    pub before: Before,
    /// The initial stack pointer.
    pub stack: u64,
    /// Whether the instruction is probed, if that is allowed.
    pub probed: bool,
}

/// Decodes a case for an ISA.
pub fn case(arch: Arch, bytes: &[u8]) -> Case {
    let mut numbers = Numbers(bytes);
    let probed = numbers.one_in(2);
    let stack = if numbers.one_in(4) { numbers.address() } else { STACK };
    let before = match arch {
        Arch::X86_64 | Arch::I386 => x86_case(arch, &mut numbers),
        Arch::Arm64 => arm64_case(&mut numbers),
        Arch::Thumb2 => thumb_case(&mut numbers),
        _ => arm_case(&mut numbers),
    };
    Case { before, stack, probed }
}

/// The ISAs that have such cases.
pub const ARCHES: &[Arch] = &[Arch::I386, Arch::X86_64, Arch::Arm64, Arch::Arm, Arch::Thumb2];

/// The result of a case.
pub struct Outcome {
    /// Whether an exception was delivered to the guest.
    pub delivered: bool,
    /// Number of hits of the probe.
    pub hits: u64,
}

/// Runs cases one after another. The machine is reused if the previous case left it intact.
pub struct Guest(Lab);

impl Guest {
    /// A machine that has run nothing yet.
    pub fn new(arch: Arch) -> Guest {
        Guest(Lab::new(arch))
    }

    /// Runs a case. `Err`: the guest neither ended nor reached the time limit.
    pub fn run(&mut self, case: &Case) -> Result<Outcome, String> {
        let lab = &mut self.0;
        (lab.stack, lab.may_miss) = (case.stack, true);
        let after = match case.probed {
            // A case whose probe is refused or not reached runs without a probe.
            true => lab.run(&case.before, How::Probed).or_else(|_| lab.run(&case.before, How::InPlace)),
            false => lab.run(&case.before, How::InPlace),
        }?;
        let delivered = after.happened.iter().any(|event| matches!(event.what, What::Exception(..)));
        let outcome = Outcome { delivered, hits: lab.hits };
        // ARM's vectors and tables are in registers, which would survive into the next case.
        let keeps_state = matches!(lab.arch(), Arch::X86_64 | Arch::I386);
        let is_well = after.happened.last().is_some_and(|event| event.what == What::Halt) && !lab.is_ruined(&after);
        if !keeps_state || !is_well {
            *lab = Lab::new(lab.arch());
        }
        match after.stop {
            Stop::Dead(_) | Stop::Limit => Ok(outcome),
            stop => Err(format!("{stop:?}")),
        }
    }
}

/// The remaining bytes. Past their end every byte is 0, which selects the common choice.
struct Numbers<'a>(&'a [u8]);

impl Numbers<'_> {
    fn take<const COUNT: usize>(&mut self) -> [u8; COUNT] {
        let (taken, left) = self.0.split_at(COUNT.min(self.0.len()));
        self.0 = left;
        core::array::from_fn(|at| taken.get(at).copied().unwrap_or(0))
    }

    fn any(&mut self) -> u64 {
        u64::from_le_bytes(self.take())
    }

    fn below(&mut self, most: usize) -> usize {
        let [byte] = self.take();
        usize::from(byte) % most
    }

    fn one_in(&mut self, of: usize) -> bool {
        self.below(of) == of - 1
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    /// A random address, often one where arithmetic wraps around or the address space ends.
    fn address(&mut self) -> u64 {
        const EDGES: [u64; 6] = [0, 1 << 31, 1 << 32, 1 << 47, 0xffff_8000_0000_0000, u64::MAX];
        match self.below(8) {
            0..4 => self.pick(&[GATES, DESCRIPTORS, TASK, STACK, HANDLERS]),
            4..7 => self.pick(&EDGES).wrapping_add_signed(i64::from(self.take::<1>()[0] as i8)),
            _ => self.any(),
        }
    }

    /// The usual address or, once in `one_in`, a random one.
    fn address_or(&mut self, usual: u64, one_in: usize) -> u64 {
        if self.one_in(one_in) { self.address() } else { usual }
    }
}

/// Addresses of the pseudo-descriptors for LGDT and LIDT, and of the tables that they may point to.
const POINTERS: u64 = DATA;
const DESCRIPTORS: u64 = DATA + 0x100;
const TASK: u64 = DATA + 0x400;
const GATES: u64 = DATA + 0x800;

/// Selectors in the case's descriptor table: kernel code and data, user code and data, a task, two random ones.
const CODE: u64 = 0x10;
const SELECTORS: [u64; 9] = [CODE, 0x18, 0x23, 0x2b, 0x30, 0x40, 0x48, 0, 0xfff8];

fn gate(arch: Arch, numbers: &mut Numbers<'_>) -> Vec<u8> {
    let handler = HANDLERS + 16 * numbers.below(256) as u64;
    let target = numbers.address_or(handler, 4);
    let selector = if numbers.one_in(5) { numbers.pick(&SELECTORS) } else { CODE };
    // 32-bit and 64-bit interrupt and trap gates. Random types include 16-bit, task and call gates.
    let kind = if numbers.one_in(5) { numbers.below(256) as u64 } else { numbers.pick(&[0x8e, 0x8f, 0xee, 0xef]) };
    let stack = numbers.below(8) as u64;
    let low = target & 0xffff | selector << 16 | stack << 32 | kind << 40 | (target >> 16 & 0xffff) << 48;
    match arch {
        Arch::X86_64 => [low, target >> 32].iter().flat_map(|word| word.to_le_bytes()).collect(),
        _ => low.to_le_bytes().to_vec(),
    }
}

/// The descriptor table. A task descriptor is at the fifth entry of [`SELECTORS`].
fn descriptors(arch: Arch, numbers: &mut Numbers<'_>) -> Vec<u8> {
    let (code, user) = match arch {
        Arch::X86_64 => (0x00af_9b00_0000_ffff, 0x00af_fb00_0000_ffff),
        _ => (0x00cf_9b00_0000_ffff, 0x00cf_fb00_0000_ffff),
    };
    let task = numbers.address_or(TASK, 3);
    let code = if numbers.one_in(5) { numbers.any() } else { code };
    let low = 0x8900_0000_0067 | (task & 0xff_ffff) << 16 | (task >> 24 & 0xff) << 56;
    let [one, other] = [numbers.any(), numbers.any()];
    let words = [0, 0, code, 0x00cf_9300_0000_ffff, user, 0x00cf_f300_0000_ffff, low, task >> 32, one, other];
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Instructions that raise an exception, directly or in consequence.
fn raising(arch: Arch, numbers: &mut Numbers<'_>) -> Vec<u8> {
    #[rustfmt::skip]
    const KNOWN: &[&[u8]] = &[
        &[0xcc], &[0xcd, 3], &[0xcd, 0x80], &[0xf1], &[0x0f, 0x0b], &[0xf7, 0xf1], &[0x8b, 0x03], &[0x89, 0x03], &[0xff, 0xe3], &[0xc3], &[0x50],
        &[0x8e, 0xd0], &[0x8e, 0xd8], &[0xcb], &[0xf4], &[0x9d],
    ];
    const LONG: &[&[u8]] = &[&[0x0f, 0x05], &[0x48, 0xcf], &[0xff, 0x23]];
    const SHORT: &[&[u8]] = &[&[0xce], &[0x62, 0x03], &[0xcf], &[0x9a, 0, 0, 0, 0, 0x48, 0]];
    if numbers.one_in(5) {
        return vec![0xcd, numbers.below(256) as u8];
    }
    let all: Vec<&[u8]> = KNOWN.iter().chain(if arch == Arch::X86_64 { LONG } else { SHORT }).copied().collect();
    numbers.pick(&all).to_vec()
}

/// An x86 case: LGDT, LIDT, sometimes LTR and a return to user code, then an instruction that raises an exception.
fn x86_case(arch: Arch, numbers: &mut Numbers<'_>) -> Before {
    let long = arch == Arch::X86_64;
    let bytes = raising(arch, numbers);
    let limit = |numbers: &mut Numbers<'_>| match numbers.below(5) {
        0..3 => 0xffff,
        3 => numbers.any() as u16,
        _ => numbers.below(64) as u16,
    };
    let mut pointer = |usual: u64| {
        let base = numbers.address_or(usual, 2);
        [&limit(numbers).to_le_bytes()[..], &base.to_le_bytes()].concat()
    };
    let mut memory = vec![(POINTERS, pointer(DESCRIPTORS)), (POINTERS + 16, pointer(GATES))];
    memory.push((DESCRIPTORS, descriptors(arch, numbers)));
    memory.push((TASK + 4, (0..13).flat_map(|_| numbers.address().to_le_bytes()).collect()));
    let some_gates: Vec<Vec<u8>> = (0..1 + numbers.below(5)).map(|_| gate(arch, numbers)).collect();
    memory.push((GATES, some_gates.iter().cycle().take(256).flatten().copied().take(0x800).collect()));
    let mut front = Vec::new();
    for (operation, at) in [(0x14u8, POINTERS), (0x1c, POINTERS + 16)] {
        front.extend([0x0f, 0x01, if long { operation } else { operation | 1 }]);
        front.extend(if long { &[0x25][..] } else { &[] });
        front.extend((at as u32).to_le_bytes());
    }
    if numbers.one_in(2) {
        front.extend([0x66, 0xb8, 0x30, 0x00, 0x0f, 0x00, 0xd8]);
    }
    let flags = numbers.any();
    if numbers.one_in(4) {
        // Push ss, sp, flags, cs and pc for an iret to the next instruction or to a random address.
        let selector = numbers.pick(&SELECTORS);
        for word in [selector | 3, numbers.address_or(STACK, 2), 2 | flags & 0x4_7ed5, selector, PLACE] {
            front.push(0x68);
            front.extend((word as u32).to_le_bytes());
        }
        front.extend(if long { &[0x48, 0xcf][..] } else { &[0xcf] });
    }
    let registers = (0..16).map(|_| numbers.address()).collect();
    Before { bytes, front, registers, flags, seed: flags, memory, ..Before::default() }
}

/// A case of some words of code in this order, then one that raises an exception. Registers, stack and vectors are
/// random.
fn words_case(arch: Arch, vectors: u32, sometimes: &[u32], raising: &[u32], numbers: &mut Numbers<'_>) -> Before {
    let seen_from = bench(arch).seen_from;
    let bytes_of = |word: u32| match arch {
        // The first halfword comes first in memory.
        Arch::Thumb2 if word >> 16 != 0 => word.rotate_right(16).to_le_bytes().to_vec(),
        Arch::Thumb2 => (word as u16).to_le_bytes().to_vec(),
        _ => word.to_le_bytes().to_vec(),
    };
    let bytes = bytes_of(numbers.pick(raising));
    let mut front = bytes_of(vectors);
    for word in sometimes {
        front.extend(if numbers.one_in(6) { bytes_of(*word) } else { Vec::new() });
    }
    let mut register = || match numbers.below(6) {
        0 | 1 => numbers.address(),
        2 | 3 => seen_from.wrapping_add(numbers.address()),
        4 => seen_from + numbers.pick(&[PLACE, HANDLERS]),
        // A random saved state (SPSR): mode, masks, single-step bit, 32-bit flag.
        _ => numbers.below(32) as u64 | numbers.any() & 0x0fe0_03e0,
    };
    let registers = (0..31).map(|_| register()).collect();
    let drawn = numbers.any();
    Before { bytes, front, registers, flags: drawn, seed: drawn, ..Before::default() }
}

/// An arm64 case: random vectors, stack pointer selection, returns to random states and addresses, and random table
/// registers.
fn arm64_case(numbers: &mut Numbers<'_>) -> Before {
    const VECTORS: u32 = 0xd518_c000; // msr vbar_el1, x0
    #[rustfmt::skip]
    const STATE: &[u32] = &[
        0xd518_4001, 0xd518_4022, 0xd518_4103, // msr spsr_el1, x1; msr elr_el1, x2; msr sp_el0, x3
        0xd518_5204, 0xd518_6005,              // msr esr_el1, x4; msr far_el1, x5
        0xd500_40bf, 0xd503_46df, 0xd503_44ff, // msr spsel, #0; msr daifset, #6; msr daifclr, #4
        0xd510_0246,                           // msr mdscr_el1, x6
        0xd69f_03e0,                           // eret
    ];
    #[rustfmt::skip]
    const RAISING: &[u32] = &[
        // svc, brk, udf, ldr, str, ldp from the stack, br, blr, ret, eret
        0xd400_0001, 0xd420_0020, 0, 0xf940_0042, 0xf900_0042, 0xa8c1_0be1, 0xd61f_0040, 0xd63f_0040, 0xd65f_03c0, 0xd69f_03e0,
        // hvc, smc, hlt, dcps1; msr of sp_el0, ttbr0_el1, ttbr1_el1, tcr_el1, sctlr_el1, vbar_el1, all with x2
        0xd400_0002, 0xd400_0003, 0xd440_0000, 0xd4a0_0001, 0xd518_4102, 0xd518_2002, 0xd518_2022, 0xd518_2042, 0xd518_1002, 0xd518_c002,
        // msr spsel, #0; mrs of an unknown register; ldxr; dc civac, x2; at s1e1r, x2; wfi
        0xd500_40bf, 0xd538_ffe2, 0xc85f_7c42, 0xd50b_7e22, 0xd508_7802, 0xd503_207f,
    ];
    words_case(Arch::Arm64, VECTORS, STATE, RAISING, numbers)
}

/// An arm case: random vectors or high vectors, other modes with their own stacks and saved states.
fn arm_case(numbers: &mut Numbers<'_>) -> Before {
    const VECTORS: u32 = 0xee0c_0f10; // mcr p15, 0, r0, c12, c0, 0
    #[rustfmt::skip]
    const STATE: &[u32] = &[
        0xf102_0017, 0xf102_001b, 0xf102_0012, 0xf102_001f, 0xf102_0013, // cps #abort, #undefined, #irq, #system, #supervisor
        0xe1a0_d001, 0xe169_f002, 0xf101_0200,                           // mov sp, r1; msr spsr_fc, r2; setend be
        0xf102_0010,                                                     // cps #user
    ];
    #[rustfmt::skip]
    const RAISING: &[u32] = &[
        // svc, bkpt, udf, ldr, str, bx, pop {pc}, movs pc lr, rfe, srs, hvc, mcr of the table base, the vector base and
        // the control register
        0xef00_0000, 0xe120_0070, 0xe7f0_00f0, 0xe592_2000, 0xe582_2000, 0xe12f_ff12, 0xe8bd_8000, 0xe1b0_f00e, 0xf8b2_0a00, 0xf96d_0513,
        0xe140_0070, 0xee02_2f10, 0xee0c_2f10, 0xee01_2f10,
        // ldm {..pc}^, smc, blx, mcr of domains, ldrex, mrc of an unknown register, wfi
        0xe8f2_8003, 0xe160_0070, 0xe12f_ff32, 0xee03_2f10, 0xe192_2f9f, 0xee1f_2fff, 0xe320_f003,
    ];
    words_case(Arch::Arm, VECTORS, STATE, RAISING, numbers)
}

/// A Thumb case, like [`arm_case`].
fn thumb_case(numbers: &mut Numbers<'_>) -> Before {
    const VECTORS: u32 = 0xee0c_0f10;
    #[rustfmt::skip]
    const STATE: &[u32] = &[
        0xf3af_8117, 0xf3af_811b, 0xf3af_8112, 0xf3af_811f, 0xf3af_8113, // cps.w
        0x468d, 0xf392_8900, 0xb658, 0xf3af_8110,                        // mov sp, r1; msr spsr_fc, r2; setend be; cps #user
    ];
    #[rustfmt::skip]
    const RAISING: &[u32] = &[
        // svc, bkpt, udf, ldr, str, bx, pop {pc}, subs pc lr, rfe, srs, mcr of table base, vector base and control
        // register, blx, tbb, udf.w, wfi
        0xdf00, 0xbe00, 0xde00, 0x6812, 0x6012, 0x4710, 0xbd00, 0xf3de_8f00, 0xe992_c000, 0xe9ad_c013, 0xee02_2f10, 0xee0c_2f10, 0xee01_2f10,
        0x4790, 0xe8d2_f001, 0xf7f0_a000, 0xbf30,
    ];
    words_case(Arch::Thumb2, VECTORS, STATE, RAISING, numbers)
}
