//! How callers are found, kernel by kernel: one row for each ISA. By the kernel's own tables where it has any, by what
//! its functions do first on MIPS, by frames that point to one another where its code lays such, and otherwise not at
//! all: then a stack is what its words may mean.

mod chain;
mod exidx;
mod orc;
mod prologue;
mod windows;

use crate::boot::Kernel;
use chain::Chain;
use prologue::Looks;
use std::sync::Arc;
use trapline_isa::arch::Arch;
use trapline_probes::unwind::Unwind;
use windows::Shape;

/// How one ISA's frames lead to one another.
#[rustfmt::skip]
const CHAINS: &[(Arch, Chain)] = &[
    // push %ebp; mov %esp,%ebp: behind the tracer's call of 5 bytes.
    (Arch::I386,    Chain { pointer: "bp",  link: None,         next: 0,   back: 4,   is_callers: false, entry: 5 }),
    // stp x29, x30, [sp, #-..]!; mov x29, sp: behind the tracer's two nops, and one more instruction that guards
    // branches.
    (Arch::Arm64,   Chain { pointer: "x29", link: Some("x30"),  next: 0,   back: 8,   is_callers: false, entry: 12 }),
    // stdu r1, -..(r1): behind two instructions for r2, the tracer's two and those that keep registers; the address in
    // the caller's frame.
    (Arch::Ppc64le, Chain { pointer: "gpr1", link: Some("link"), next: 0,   back: 16,  is_callers: true,  entry: 16 }),
    (Arch::Ppc64,   Chain { pointer: "gpr1", link: Some("link"), next: 0,   back: 16,  is_callers: true,  entry: 16 }),
    (Arch::Ppc,     Chain { pointer: "gpr1", link: Some("link"), next: 0,   back: 4,   is_callers: true,  entry: 12 }),
    // stmg %r6,%r15,72(%r15); lay %r15,-..(%r15); stg ..,152(%r15): the registers in the caller's frame.
    (Arch::S390x,   Chain { pointer: "r15", link: Some("r14"),  next: 152, back: 136, is_callers: true,  entry: 16 }),
];

/// Where the ABI promises such frames, whoever built the kernel.
const PROMISED: &[Arch] = &[Arch::Ppc, Arch::Ppc64, Arch::Ppc64le];

/// How one ISA's functions begin.
const PROLOGUES: &[(&[Arch], Looks)] = &[(&[Arch::Mips, Arch::Mipsel, Arch::Mips64, Arch::Mips64el], MIPS)];

/// `addiu` or `daddiu` of the stack pointer, `sw` or `sd` of ra, `jal`.
const MIPS: Looks = Looks {
    link: "r31",
    takes: |word| {
        let number = word as u16 as i16;
        (matches!(word >> 16, 0x27bd | 0x67bd) && number < 0).then_some(number.unsigned_abs().into())
    },
    keeps: |word| matches!(word >> 16, 0xafbf | 0xffbf).then_some((word as u16 as i16).into()),
    calls: |word| word >> 26 == 3,
};

/// Those whose functions open windows of registers.
/// `save` of the stack pointer opens one.
const WINDOWS: &[(Arch, Shape)] =
    &[(Arch::Sparc64, Shape { bias: 2047, behind_call: 8, opens: |word| word & 0xfff8_0000 == 0x9de0_0000 })];

/// How callers are found in this kernel; `None`: nobody knows.
pub fn of(kernel: &Kernel) -> Option<Arc<dyn Unwind>> {
    if let Some(tables) = orc::Orc::of(kernel) {
        return Some(Arc::new(tables));
    }
    if let Some((_, looks)) = PROLOGUES.iter().find(|(arches, _)| arches.contains(&kernel.arch)) {
        return Some(Arc::new(prologue::Prologues::new(kernel, looks)?));
    }
    if let Some((_, shape)) = WINDOWS.iter().find(|(arch, _)| *arch == kernel.arch) {
        return Some(Arc::new(windows::Windows::new(kernel, *shape)));
    }
    if let Some(tables) = exidx::Exidx::of(kernel) {
        return Some(Arc::new(tables));
    }
    // Others are built as people like.
    if !kernel.is_stock() && !PROMISED.contains(&kernel.arch) {
        return None;
    }
    let (_, chain) = CHAINS.iter().find(|(arch, _)| *arch == kernel.arch)?;
    Some(Arc::new(chain::Chained::new(kernel, chain)?))
}
