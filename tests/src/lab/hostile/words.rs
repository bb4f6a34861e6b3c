//! The instructions of hostile programs: for each ISA privileged instructions, mode and window changes, and accesses of
//! every kind. Invalid instructions occur, too.

use super::Draws;
use trapline_isa::arch::Arch;

/// A random instruction.
pub fn instruction(arch: Arch, draws: &mut Draws<'_>) -> Vec<u8> {
    match arch {
        Arch::I386 | Arch::X86_64 => x86(arch, draws),
        Arch::S390x => s390(draws),
        Arch::Thumb2 => thumb(draws),
        Arch::Sparc64 => word(arch, SPARC, draws),
        Arch::Riscv64 | Arch::Riscv32 => riscv(arch, draws),
        Arch::Arm64 => word(arch, ARM64, draws),
        Arch::Arm => word(arch, ARM, draws),
        Arch::Ppc | Arch::Ppc64 | Arch::Ppc64le => word(arch, PPC, draws),
        Arch::Mips | Arch::Mipsel | Arch::Mips64 | Arch::Mips64el => word(arch, MIPS, draws),
        Arch::Parisc => draws.word().to_be_bytes()[..4].to_vec(),
        Arch::Ia64 => (0..4).flat_map(|_| draws.word().to_le_bytes()).collect(),
    }
}

/// An instruction that takes time and does nothing.
pub fn nop(arch: Arch) -> &'static [u8] {
    match arch {
        Arch::I386 | Arch::X86_64 => &[0x90],
        Arch::S390x => &[0x07, 0x00],
        Arch::Thumb2 => &[0x00, 0xbf],
        Arch::Sparc64 => &[0x01, 0, 0, 0],
        Arch::Riscv64 | Arch::Riscv32 => &[0x01, 0x00],
        Arch::Arm64 => &[0x1f, 0x20, 0x03, 0xd5],
        Arch::Arm => &[0x00, 0xf0, 0x20, 0xe3],
        Arch::Ppc | Arch::Ppc64 => &[0x60, 0, 0, 0],
        Arch::Ppc64le => &[0, 0, 0, 0x60],
        Arch::Mips | Arch::Mipsel | Arch::Mips64 | Arch::Mips64el => &[0, 0, 0, 0],
        Arch::Parisc => &[0x08, 0x00, 0x02, 0x40],
        Arch::Ia64 => &[0x00, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x00, 0x02, 0x00, 0x00, 0x00, 0x00, 0x04, 0x00],
    }
}

/// A random value for the ISA's mode register, of bits that change the behaviour of accesses and traps.
pub fn status(arch: Arch, draws: &mut Draws<'_>) -> u64 {
    let bits: &[u32] = match arch {
        // CR0, CR4 and EFER.
        Arch::I386 | Arch::X86_64 => &[0, 1, 4, 5, 7, 8, 9, 10, 11, 12, 14, 16, 17, 18, 20, 21, 31],
        // The PSW.
        Arch::S390x => &[31, 32, 44, 45, 46, 47, 48, 49, 50, 56, 57, 58, 62],
        Arch::Arm | Arch::Thumb2 => &[0, 1, 2, 3, 4, 5, 6, 7, 9, 13, 24, 28, 29],
        Arch::Arm64 => &[0, 2, 3, 4, 6, 7, 9, 12, 19, 20, 21, 24, 25, 26],
        Arch::Sparc64 => &[1, 2, 3, 4, 5, 8, 9, 10, 11, 32, 33],
        // SIE, SPIE, SPP, FS, SUM and MXR of sstatus.
        Arch::Riscv64 | Arch::Riscv32 => &[1, 5, 8, 13, 14, 18, 19],
        // MSR, and LPCR's host radix and process table.
        Arch::Ppc | Arch::Ppc64 | Arch::Ppc64le => &[0, 4, 5, 6, 12, 13, 14, 15, 17, 20, 22, 25, 60, 63],
        Arch::Mips | Arch::Mipsel | Arch::Mips64 | Arch::Mips64el => &[0, 1, 2, 3, 4, 5, 6, 7, 22, 26, 28, 29, 31],
        // I, D, P, Q, R, C, L, N, T, H, S and E.
        Arch::Parisc => &[0, 1, 2, 3, 4, 16, 17, 18, 21, 24, 25, 26],
        // The user mask, ic, i, dt, dfl, dfh, rt, cpl, it, ed and bn of the PSR.
        Arch::Ia64 => &[1, 2, 3, 4, 5, 13, 14, 17, 18, 19, 27, 32, 33, 36, 43, 44],
    };
    let drawn = draws.word();
    (0..).zip(bits).filter(|(number, _)| drawn >> number & 1 != 0).fold(0, |value, (_, bit)| value | 1 << bit)
}

/// A group of instruction words: the fixed bits, and the bits that vary.
type Group = (u32, u32);

fn drawn(groups: &[Group], draws: &mut Draws<'_>) -> u32 {
    let (fixed, varies) = draws.pick(groups);
    fixed | draws.word() & varies
}

fn word(arch: Arch, groups: &[Group], draws: &mut Draws<'_>) -> Vec<u8> {
    arch.isa().order.word_bytes(drawn(groups, draws)).to_vec()
}

/// A random instruction. One in four is compressed.
fn riscv(arch: Arch, draws: &mut Draws<'_>) -> Vec<u8> {
    let drawn = draws.word();
    match drawn >> 30 {
        0 => (drawn as u16).to_le_bytes().to_vec(),
        _ => word(arch, RISCV, draws),
    }
}

const RISCV: &[Group] = &[
    // csrrw, csrrs, csrrc and those of small numbers: any register, the supervisor's, satp, the machine's
    (0x0000_1073, 0xffff_ef80),
    (0x1000_1073, 0x00ff_ef80),
    (0x1000_2073, 0x04ff_cf80),
    (0x1800_1073, 0x000f_8f80),
    (0x3000_1073, 0x04ff_ef80),
    // sret, mret, wfi, sfence.vma, ecall, ebreak
    (0x1020_0073, 0),
    (0x3020_0073, 0),
    (0x1050_0073, 0),
    (0x1200_0073, 0x01ff_8000),
    (0x0000_0073, 0x0010_0000),
    // fences, atomic accesses, loads, stores, floating point
    (0x0000_000f, 0x0ff0_1000),
    (0x0000_202f, 0xffff_ff80),
    (0x0000_302f, 0xffff_ff80),
    (0x0000_0003, 0xffff_ff80),
    (0x0000_0023, 0xffff_ff80),
    (0x0000_2007, 0xffff_9f80),
    (0x0000_2027, 0xffff_9f80),
    (0x0000_0053, 0xffff_ff80),
    // arithmetic, addresses, jumps, branches
    (0x0000_0013, 0xffff_ff80),
    (0x0000_0033, 0x42ff_ff80),
    (0x0000_001b, 0xffff_ff80),
    (0x0000_003b, 0x42ff_ff80),
    (0x0000_0017, 0xffff_ff80),
    (0x0000_0067, 0x00ff_8f80),
    (0x0000_0063, 0x01ff_ff80),
];

const SPARC: &[Group] = &[
    // wrpr of a register, twice, and of a small number; rdpr
    (0x8190_0000, 0x3e07_ffff),
    (0x8190_0000, 0x3e07_c01f),
    (0x8190_2000, 0x3e00_000f),
    (0x8150_0000, 0x3e07_c000),
    // save, restore, flushw, saved and its like, done and retry, return, jmpl
    (0x81e0_0000, 0x3e07_ffff),
    (0x81e8_0000, 0x3e07_ffff),
    (0x8158_0000, 0),
    (0x8188_0000, 0x0e00_0000),
    (0x81f0_0000, 0x0200_0000),
    (0x81c8_0000, 0x0007_ffff),
    (0x81c0_0000, 0x3e07_ffff),
    // traps, ancillary registers
    (0x91d0_2000, 0x0000_007f),
    (0x8180_0000, 0x3e07_ffff),
    (0x8140_0000, 0x3e07_c000),
    // accesses with an address space, of memory; arithmetic, floating point, VIS
    (0xc080_0000, 0x3f7f_ffff),
    (0xc080_0000, 0x3f7f_c01f),
    (0xc000_0000, 0x3f7f_ffff),
    (0x8000_0000, 0x3fff_ffff),
    (0x81a0_0000, 0x3e0f_ffff),
    (0x81b0_0000, 0x3e0f_ffff),
    (0x0100_0000, 0x3eff_ffff),
];

const MIPS: &[Group] = &[
    // moves to and from registers of coprocessor 0, of shadow sets, of threads
    (0x4080_0000, 0x001f_f807),
    (0x4080_0000, 0x001f_f807),
    (0x40a0_0000, 0x001f_f807),
    (0x4000_0000, 0x007f_f807),
    (0x4080_1800 | 12 << 11 | 2, 0x001f_0000),
    (0x4140_0000, 0x001f_f800),
    (0x41c0_0000, 0x001f_f800),
    (0x4160_0000, 0x001f_ffff),
    (0x4100_0000, 0x009f_ffff),
    // TLB, eret, deret, wait
    (0x4200_0000, 0x0000_003f),
    (0xbc00_0000, 0x03ff_ffff),
    // floating point, its control
    (0x44c0_0000, 0x001f_f800),
    (0x4600_0000, 0x01ff_ffff),
    (0x4c00_0000, 0x03ff_ffff),
    // accesses, bit fields and DSP, multiplication, moves
    (0x8000_0000, 0x3fff_ffff),
    (0x8000_0000, 0x3fff_003f),
    (0x7c00_0000, 0x03ff_ffff),
    (0x7000_0000, 0x03ff_ffff),
    (0x0000_0000, 0x03ff_ffff),
    (0x3c00_0000, 0x001f_ffff),
    (0x2400_0000, 0x03ff_003f),
];

const PPC: &[Group] = &[
    // moves to and from special-purpose registers, MSR, segment registers
    (0x7c00_03a6, 0x03ff_f800),
    (0x7c00_03a6, 0x03ff_f800),
    (0x7c00_02a6, 0x03ff_f800),
    // LPCR, PTCR, SDR1, PIDR, LPIDR, HRMOR
    (0x7c1e_4ba6, 0x03e0_0000),
    (0x7c10_73a6, 0x03e0_0000),
    (0x7c19_03a6, 0x03e0_0000),
    (0x7c10_0ba6, 0x03e0_0000),
    (0x7c1f_4ba6, 0x03e0_0000),
    (0x7c19_4ba6, 0x03e0_0000),
    (0x7c00_0124, 0x03e1_0000),
    (0x7c00_0164, 0x03e1_0000),
    (0x7c00_01a4, 0x03ef_0000),
    (0x7c00_01e4, 0x03e0_f800),
    // rfi, rfid, hrfid, rfscv, stop and other of its kind; sc
    (0x4c00_0024, 0x0000_0000),
    (0x4c00_0064, 0x0000_0000),
    (0x4c00_0024, 0x0000_07c0),
    (0x4400_0002, 0x0000_0fe1),
    // TLB and SLB
    (0x7c00_0224, 0x03ff_f840),
    (0x7c00_0324, 0x03e0_f8c0),
    (0x7c00_03e4, 0x00e0_0000),
    (0x7c00_0526, 0x03e0_f9c0),
    (0x7c00_011c, 0x0000_f8c0),
    // everything else with two operands; branches to registers, accesses, AltiVec, floating point, VSX
    (0x7c00_0000, 0x03ff_ffff),
    (0x4c00_0000, 0x03ff_ffff),
    (0x8000_0000, 0x7fff_ffff),
    (0x8000_0000, 0x7fff_003f),
    (0x1000_0000, 0x03ff_ffff),
    (0xec00_0000, 0x13ff_ffff),
    (0xf000_0000, 0x03ff_ffff),
    (0x0800_0000, 0x07ff_ffff),
    (0x3800_0000, 0x07ff_ffff),
];

const ARM64: &[Group] = &[
    // MSR and MRS of any register, twice; barriers, hints, cache and TLB operations; MSR of a number
    (0xd510_0000, 0x000f_ffff),
    (0xd518_0000, 0x0007_ffff),
    (0xd530_0000, 0x000f_ffff),
    (0xd500_0000, 0x002f_ffff),
    (0xd508_7000, 0x0007_0fff),
    (0xd500_401f, 0x0007_0fe0),
    // eret, svc and its like, accesses of every kind, arithmetic, vectors
    (0xd69f_03e0, 0),
    (0xd400_0000, 0x00ff_ffff),
    (0x0800_0000, 0xf7ff_ffff),
    (0x3800_0000, 0xc7ff_ffff),
    (0x0a00_0000, 0xf1ff_ffff),
    (0x0e00_0000, 0xf1ff_ffff),
    (0xd280_0000, 0x007f_ffff),
    (0xf2a0_0000, 0x007f_ffff),
    (0x9100_0000, 0x407f_ffff),
];

const ARM: &[Group] = &[
    // coprocessors 15 and 14, and floating point
    (0xee00_0f10, 0x00ef_f0ff),
    (0xee00_0f10, 0x00ff_f0ff),
    (0xee00_0e10, 0x00ff_f0ff),
    (0xee00_0a10, 0x00ff_f1ef),
    (0xee00_0a00, 0x00ff_f1ff),
    (0xec40_0e00, 0x001f_ffff),
    // status registers: of a register, a banked one, a number; cps, srs, rfe, setend
    (0xe120_f000, 0x004f_0fff),
    (0xe120_f200, 0x004f_010f),
    (0xe100_0200, 0x004f_f10f),
    (0xe320_f000, 0x004f_0fff),
    (0xf100_0000, 0x000f_03ff),
    (0xf840_0500, 0x01af_001f),
    (0xf810_0a00, 0x01af_0000),
    // ldm and stm of the program's registers, and back; returns from exceptions
    (0xe840_0000, 0x01bf_ffff),
    (0xe850_8000, 0x01af_7fff),
    (0xe1b0_f000, 0x0000_000f),
    (0xe25e_f000, 0x0000_000f),
    // smc, hvc, eret, bxj, svc
    (0xe160_0070, 0x000f_ff0f),
    (0xe140_0070, 0x000f_ff0f),
    (0xe160_006e, 0),
    (0xef00_0000, 0x00ff_ffff),
    // accesses, arithmetic, vectors, moves
    (0xe400_0000, 0x03ff_ffff),
    (0xe000_0000, 0x01ff_ffff),
    (0xec00_0a00, 0x01ff_f1ff),
    (0xf200_0000, 0x01ff_ffff),
    (0xf400_0000, 0x00ff_ffff),
    (0xe300_0000, 0x004f_ffff),
];

/// Groups of T32 instructions, with the first halfword in the upper bits.
const THUMB: &[Group] = &[
    (0xee00_0f10, 0x00ef_f0ff),
    (0xee00_0f10, 0x00ff_f0ff),
    (0xee00_0a10, 0x00ff_f1ef),
    (0xec40_0e00, 0x001f_ffff),
    (0xf380_8000, 0x001f_0f3f),
    (0xf3e0_8000, 0x001f_0f3f),
    (0xf3af_8000, 0x0000_07ff),
    (0xe80d_c000, 0x0020_001f),
    (0xe98d_c000, 0x0020_001f),
    (0xe810_c000, 0x01af_0000),
    (0xf3de_8f00, 0x0000_00ff),
    (0xf7e0_8000, 0x000f_0fff),
    (0xe840_0000, 0x01bf_ffff),
    (0xf800_0000, 0x01ff_ffff),
    (0xf000_0000, 0x0bff_7fff),
    (0xef00_0000, 0x10ff_ffff),
    (0xf240_0000, 0x048f_7fff),
];

fn thumb(draws: &mut Draws<'_>) -> Vec<u8> {
    match draws.below(4) {
        // it, cps, setend, and anything of 16 bits that is no branch
        0 => (draws.pick(&[0xbf00, 0xb660, 0xb650]) | draws.word() as u16 & 0xff).to_le_bytes().to_vec(),
        1 => (draws.word() as u16 % 0xd000).to_le_bytes().to_vec(),
        _ => {
            let word = drawn(THUMB, draws);
            [(word >> 16) as u16, word as u16].iter().flat_map(|half| half.to_le_bytes()).collect()
        }
    }
}

/// The first bytes of z/Architecture instructions that are privileged, or that use address spaces, clocks and modes.
#[rustfmt::skip]
const S390_OPCODES: &[&[u8]] = &[
    &[0x80], &[0x82], &[0x83], &[0xac], &[0xad], &[0xae], &[0xb1], &[0xb6], &[0xb7], &[0x99], &[0x9a], &[0x9b], &[0x44], &[0x0a],
    &[0x01, 0x01], &[0xb2, 0x02], &[0xb2, 0x04], &[0xb2, 0x05], &[0xb2, 0x06], &[0xb2, 0x07], &[0xb2, 0x08], &[0xb2, 0x09], &[0xb2, 0x0a],
    &[0xb2, 0x0b], &[0xb2, 0x0d], &[0xb2, 0x10], &[0xb2, 0x11], &[0xb2, 0x12], &[0xb2, 0x18], &[0xb2, 0x19], &[0xb2, 0x20], &[0xb2, 0x21],
    &[0xb2, 0x22], &[0xb2, 0x23], &[0xb2, 0x24], &[0xb2, 0x25], &[0xb2, 0x26], &[0xb2, 0x27], &[0xb2, 0x28], &[0xb2, 0x29], &[0xb2, 0x2a],
    &[0xb2, 0x2b], &[0xb2, 0x2c], &[0xb2, 0x2e], &[0xb2, 0x2f], &[0xb2, 0x46], &[0xb2, 0x4b], &[0xb2, 0x4c], &[0xb2, 0x4d], &[0xb2, 0x4e],
    &[0xb2, 0x4f], &[0xb2, 0x54], &[0xb2, 0x79], &[0xb2, 0x7d], &[0xb2, 0x99], &[0xb2, 0x9c], &[0xb2, 0x9d], &[0xb2, 0xb0], &[0xb2, 0xb1],
    &[0xb2, 0xb2], &[0xb2, 0xb8], &[0xb2, 0xb9], &[0xb2, 0xbd], &[0xb9, 0x8a], &[0xb9, 0x8d], &[0xb9, 0x8e], &[0xb9, 0x9e], &[0xb9, 0xa2],
    &[0xb9, 0xaf], &[0xd9], &[0xda], &[0xb9, 0x1e], &[0xb9, 0x28], &[0xb9, 0x2a], &[0xb9, 0x2b], &[0xb9, 0x2c], &[0xb9, 0x2d],
    &[0xb9, 0x2e], &[0xb9, 0x2f], &[0xb9, 0x3c], &[0xb9, 0x3e], &[0xb9, 0x3f], &[0xb9, 0x90], &[0xb9, 0x92], &[0xee], &[0xa8], &[0xa9],
    &[0x0e], &[0x0f], &[0xdb], &[0xe5, 0x00], &[0xe5, 0x01], &[0xe5, 0x02], &[0xe5, 0x0e], &[0xe5, 0x0f], &[0xe5, 0x60], &[0xc8],
    &[0xc6, 0x00],
];

fn s390(draws: &mut Draws<'_>) -> Vec<u8> {
    let (first, mut rest) = (draws.word(), draws.take::<6>());
    let choice = draws.byte();
    let mut put = |bytes: &[u8]| rest[..bytes.len()].copy_from_slice(bytes);
    match choice % 8 {
        0..4 => put(S390_OPCODES[first as usize % S390_OPCODES.len()]),
        // Control registers, access registers and others of six bytes; vectors.
        4 => put(&[0xeb]),
        5 => put(&[[0xe7, 0xe3, 0xed, 0xec][first as usize % 4]]),
        6 => put(&[[0xb3, 0xb9, 0xb2][first as usize % 3]]),
        _ => {}
    }
    if choice % 8 == 4 {
        // lctlg, stctg, lmg, stmg, and one in two anything.
        rest[5] = [0x2f, 0x25, 0x04, 0x24, rest[5], rest[5], rest[5], rest[5]][first as usize % 8];
    }
    let length = [2, 4, 4, 6][usize::from(rest[0] >> 6)];
    rest[..length].to_vec()
}

/// The first bytes of x86 instructions, and the number of random bytes behind them.
#[rustfmt::skip]
const X86: &[(&[u8], usize)] = &[
    // control and debug registers
    (&[0x0f, 0x22], 1), (&[0x0f, 0x20], 1), (&[0x0f, 0x23], 1), (&[0x0f, 0x21], 1), (&[0x0f, 0x22], 1),
    // MSRs, counters, clocks
    (&[0x0f, 0x30], 0), (&[0x0f, 0x32], 0), (&[0x0f, 0x30], 0), (&[0x0f, 0x33], 0), (&[0x0f, 0x31], 0), (&[0x0f, 0xa2], 0),
    // descriptor tables, tasks, rights
    (&[0x0f, 0x00], 1), (&[0x0f, 0x01], 1), (&[0x0f, 0x02], 1), (&[0x0f, 0x03], 1), (&[0x8e], 1), (&[0x8c], 1), (&[0x63], 1),
    // SVM and its like
    (&[0x0f, 0x01, 0xd8], 0), (&[0x0f, 0x01, 0xda], 0), (&[0x0f, 0x01, 0xdb], 0), (&[0x0f, 0x01, 0xdc], 0), (&[0x0f, 0x01, 0xdd], 0),
    (&[0x0f, 0x01, 0xde], 0), (&[0x0f, 0x01, 0xdf], 0), (&[0x0f, 0x01, 0xd1], 0), (&[0x0f, 0x01, 0xf8], 0), (&[0x0f, 0x01, 0xc8], 0),
    (&[0x0f, 0x01, 0xd0], 0), (&[0x0f, 0x01, 0xf9], 0),
    // segments on the stack, far returns and calls, system calls, interrupts
    (&[0x07], 0), (&[0x17], 0), (&[0x1f], 0), (&[0x0f, 0xa1], 0), (&[0x0f, 0xa9], 0), (&[0xcf], 0), (&[0x48, 0xcf], 0), (&[0xcb], 0),
    (&[0xca], 2), (&[0xcd], 1), (&[0xff], 1), (&[0x9a], 6), (&[0xea], 6), (&[0xc4], 1), (&[0xc5], 1), (&[0x0f, 0x05], 0),
    (&[0x0f, 0x07], 0), (&[0x48, 0x0f, 0x07], 0), (&[0x0f, 0x34], 0), (&[0x0f, 0x35], 0), (&[0xf1], 0),
    // flags, I/O, strings
    (&[0x9c], 0), (&[0x9d], 0), (&[0xfa], 0), (&[0xfb], 0), (&[0xe4], 1), (&[0xe6], 1), (&[0xec], 0), (&[0xee], 0), (&[0xef], 0),
    (&[0x6c], 0), (&[0x6f], 0), (&[0xf3, 0xa4], 0), (&[0xf3, 0x6d], 0), (&[0xf2, 0xa6], 0), (&[0xc8], 3), (&[0xc9], 0),
    // x87, SSE and their state
    (&[0xd8], 2), (&[0xd9], 2), (&[0xdb], 2), (&[0xdd], 2), (&[0xdf], 2), (&[0x0f, 0xae], 1), (&[0x48, 0x0f, 0xae], 1),
    (&[0x0f, 0xc7], 1), (&[0x9b], 0), (&[0x0f, 0x77], 0), (&[0x66, 0x0f], 3), (&[0xf3, 0x0f], 3), (&[0xf2, 0x0f], 3),
    // arithmetic with edges, moves
    (&[0xf7], 1), (&[0xf6], 1), (&[0xd4], 1), (&[0xd5], 1), (&[0x0f], 3), (&[0x67, 0x66], 3), (&[0x8b], 1), (&[0x89], 1),
    (&[0x48, 0x8b], 1), (&[0x48, 0x89], 1), (&[0x01], 1), (&[0x87], 1), (&[0x90], 0),
];

/// MSRs that the CPU core implements.
#[rustfmt::skip]
const MSRS: &[u32] = &[
    0x10, 0x1b, 0x34, 0x3a, 0x3b, 0x8b, 0xe1, 0x174, 0x175, 0x176, 0x179, 0x17a, 0x17b, 0x198, 0x1a0, 0x200, 0x20f, 0x21f, 0x250, 0x259,
    0x26f, 0x277, 0x2ff, 0x309, 0x30c, 0x38d, 0x38f, 0x390, 0x400, 0x401, 0x427, 0x428, 0x480, 0x48f, 0x9e, 0x6e0, 0x800, 0xd90, 0xda0,
    0xc000_0080, 0xc000_0081, 0xc000_0082, 0xc000_0084, 0xc000_0100, 0xc000_0101, 0xc000_0102, 0xc000_0103, 0xc001_0015, 0xc001_0114,
    0xc001_0117, 0x4000_0000,
];

fn x86(arch: Arch, draws: &mut Draws<'_>) -> Vec<u8> {
    let mut bytes = match draws.below(8) {
        // mov $msr,%ecx
        0 => [&[0xb9][..], &draws.pick(MSRS).to_le_bytes()].concat(),
        // mov $value,%register
        1 => {
            let (register, value) = (draws.byte() & 7, draws.value(arch));
            match arch {
                Arch::X86_64 => [&[0x48, 0xb8 | register][..], &value.to_le_bytes()].concat(),
                _ => [&[0xb8 | register][..], &(value as u32).to_le_bytes()].concat(),
            }
        }
        2 => vec![draws.pick(&[0x48, 0x66, 0x67, 0xf0, 0x65, 0x64, 0x2e, 0xf3])],
        _ => Vec::new(),
    };
    let choice = draws.take::<2>();
    let (first, behind) = X86[usize::from(u16::from_le_bytes(choice)) % X86.len()];
    bytes.extend_from_slice(first);
    let rest = draws.take::<6>();
    bytes.extend_from_slice(&rest[..behind]);
    bytes
}
