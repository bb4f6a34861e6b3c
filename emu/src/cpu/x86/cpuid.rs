//! What CPUID answers: a plain x86-64-v1 CPU, and nothing that the core does not execute.

use crate::unicorn::engine::InstructionContext;
use unicorn_engine_sys::RegisterX86;

/// CPUID.
pub fn identify(cpu: &InstructionContext) {
    const ANSWER: [RegisterX86; 4] = [RegisterX86::RAX, RegisterX86::RBX, RegisterX86::RCX, RegisterX86::RDX];
    let values = answer(cpu.handle().read(RegisterX86::RAX) as u32);
    for (register, value) in ANSWER.into_iter().zip(values) {
        cpu.write(register, value.into());
    }
}

/// RDTSC: a counter of nanoseconds.
pub fn read_clock(cpu: &InstructionContext, nanoseconds: u64) {
    cpu.write(RegisterX86::RAX, nanoseconds & 0xffff_ffff);
    cpu.write(RegisterX86::RDX, nanoseconds >> 32);
}

/// eax, ebx, ecx, edx for a leaf.
fn answer(leaf: u32) -> [u32; 4] {
    match leaf {
        0 => [7, word(b"Genu"), word(b"ntel"), word(b"ineI")],
        1 => [FAMILY_15, CACHE_LINE, bits(&[0, 13]), bits(FEATURES)],
        0x8000_0000 => [0x8000_0008, 0, 0, 0],
        0x8000_0001 => [0, 0, bits(&[0]), bits(&[11, 20, 29])], // LAHF; SYSCALL, NX, LM
        0x8000_0002..=0x8000_0004 => {
            let at = (leaf - 0x8000_0002) as usize * 16;
            core::array::from_fn(|part| word(&NAME[at + 4 * part..at + 4 * part + 4]))
        }
        0x8000_0008 => [48 << 8 | 40, 0, 0, 0], // bits of virtual and physical addresses
        _ => [0; 4],
    }
}

const FAMILY_15: u32 = 0x0f61;
const CACHE_LINE: u32 = 8 << 8;
/// FPU DE PSE TSC MSR PAE CX8 APIC PGE CMOV PAT CLFLUSH MMX FXSR SSE SSE2; no MTRR or SYSENTER: nobody models them. Without an APIC kernels
/// have no way to interrupt themselves, put off till the next tick what they would do then, and some of them trip over that.
const FEATURES: &[u32] = &[0, 2, 3, 4, 5, 6, 8, 9, 13, 15, 16, 19, 23, 24, 25, 26];
const NAME: &[u8; 48] = b"trapline virtual CPU\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";

fn bits(numbers: &[u32]) -> u32 {
    numbers.iter().fold(0, |word, bit| word | 1 << bit)
}

fn word(text: &[u8]) -> u32 {
    text.iter().rev().fold(0, |word, byte| word << 8 | u32::from(*byte))
}
