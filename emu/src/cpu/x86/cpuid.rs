//! CPUID: a plain x86-64-v1 CPU with only features that the core executes.
//!
//! The default is an AMD CPU, as in QEMU. Linux assumes that AMD CPUs are not affected by Meltdown. With an Intel
//! vendor and these features it enables page-table isolation, and each system call switches page tables twice.

use super::state::REGS;
use crate::cpu::Place;
use crate::unicorn::engine::InstructionContext;
use unicorn_engine_sys::RegisterX86;

/// CPUID of an AMD CPU.
pub fn amd(cpu: &InstructionContext, place: Place) {
    identify(cpu, &AMD, place);
}

/// CPUID of an Intel CPU.
pub fn intel(cpu: &InstructionContext, place: Place) {
    identify(cpu, &INTEL, place);
}

/// A vendor, with the CPU's signature.
struct Maker {
    /// The vendor string in ebx, ecx, edx.
    vendor: [u32; 3],
    /// Family, model and stepping.
    signature: u32,
    /// Whether the extended leaves repeat vendor and signature.
    extended: bool,
}

/// Family 15, model 107, stepping 1, as in QEMU.
const AMD: Maker = Maker { vendor: [word(b"Auth"), word(b"cAMD"), word(b"enti")], signature: 0x0006_0fb1, extended: true };
/// Family 15, model 6, stepping 1.
const INTEL: Maker = Maker { vendor: [word(b"Genu"), word(b"ntel"), word(b"ineI")], signature: 0x0f61, extended: false };

fn identify(cpu: &InstructionContext, maker: &Maker, place: Place) {
    const ANSWER: [RegisterX86; 4] = [RegisterX86::RAX, RegisterX86::RBX, RegisterX86::RCX, RegisterX86::RDX];
    let values = answer(cpu.handle().read(RegisterX86::RAX) as u32, maker, place);
    for (register, value) in ANSWER.into_iter().zip(values) {
        cpu.write(register, value.into());
    }
}

/// RDTSC: counts nanoseconds.
pub fn read_clock(cpu: &InstructionContext, nanoseconds: u64) {
    const DX: usize = 2;
    cpu.set_live64(REGS, nanoseconds & 0xffff_ffff);
    cpu.set_live64(REGS + 8 * DX, nanoseconds >> 32);
}

/// The result in eax, ebx, ecx, edx for a leaf. All CPUs are cores of one package, because Linux compares the time stamp
/// counters of packages for 20 ms per CPU, and those of cores for 2 ms.
fn answer(leaf: u32, maker: &Maker, place: Place) -> [u32; 4] {
    let [ebx, ecx, edx] = maker.vendor;
    let has_several = place.cpus > 1;
    let other_cores = if maker.extended { (place.cpus as u32).saturating_sub(1) } else { 0 };
    match leaf {
        0 => [7, ebx, ecx, edx],
        1 => {
            let id = (place.number as u32 & 0xff) << 24;
            [maker.signature, id | CACHE_LINE, bits(&[0, 13]), bits(FEATURES) | u32::from(place.own_controller) << APIC]
        }
        0x8000_0000 if maker.extended => [0x8000_0008, ebx, ecx, edx],
        0x8000_0000 => [0x8000_0008, 0, 0, 0],
        0x8000_0001 => [if maker.extended { maker.signature } else { 0 }, 0, bits(&[0]), bits(&[11, 20, 29])], // LAHF; SYSCALL, NX, LM
        0x8000_0002..=0x8000_0004 => {
            let at = (leaf - 0x8000_0002) as usize * 16;
            core::array::from_fn(|part| word(&core::array::from_fn(|byte| NAME[at + 4 * part + byte])))
        }
        // Without this bit, Linux takes the counters of several AMD CPUs as unsynchronised.
        0x8000_0007 if has_several => [0, 0, 0, bits(&[INVARIANT_TSC])],
        0x8000_0008 => [48 << 8 | 40, 0, other_cores, 0], // bits of virtual and physical addresses
        _ => [0; 4],
    }
}

/// The time stamp counter runs at a constant rate.
const INVARIANT_TSC: u32 = 8;
const CACHE_LINE: u32 = 8 << 8;
/// CPUID reports the APIC if the board has a local one. Without it a kernel cannot send itself an interrupt and defers
/// such work to the next tick, which breaks some kernels.
const APIC: u32 = 9;
/// FPU DE PSE TSC MSR PAE CX8 PGE CMOV PAT CLFLUSH MMX FXSR SSE SSE2. MTRR and SYSENTER are not modelled.
const FEATURES: &[u32] = &[0, 2, 3, 4, 5, 6, 8, 13, 15, 16, 19, 23, 24, 25, 26];
const NAME: &[u8; 48] = b"trapline virtual CPU\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";

fn bits(numbers: &[u32]) -> u32 {
    numbers.iter().fold(0, |word, bit| word | 1 << bit)
}

const fn word(text: &[u8; 4]) -> u32 {
    u32::from_le_bytes(*text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// DV-4: CPUID reports a local APIC only if the board has one.
    #[test]
    fn a_local_apic_is_offered_where_the_board_has_one() {
        for maker in [&AMD, &INTEL] {
            let place = |own_controller| Place { number: 0, cpus: 1, own_controller };
            let [without, with] = [false, true].map(|has_apic| answer(1, maker, place(has_apic))[3]);
            assert_eq!((without >> APIC & 1, without | 1 << APIC), (0, with));
        }
    }

    #[test]
    fn several_cpus_report_their_number_and_one_package() {
        let place = |number, cpus| Place { number, cpus, own_controller: true };
        assert_eq!([0, 3].map(|number| answer(1, &AMD, place(number, 4))[1] >> 24), [0, 3]);
        assert_eq!([1, 4].map(|cpus| answer(0x8000_0008, &AMD, place(0, cpus))[2]), [0, 3]);
        assert_eq!([1, 4].map(|cpus| answer(0x8000_0007, &AMD, place(0, cpus))[3] >> INVARIANT_TSC & 1), [0, 1]);
    }
}
