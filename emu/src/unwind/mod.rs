//! Finds the stack unwinding rule for a kernel; there is a table for each method. Kernels with unwind tables use those
//! (ORC, EXIDX). MIPS and PA-RISC decode function prologues, SPARC uses register windows, IA-64 its register stack, and other ISAs follow frame pointers or
//! back chains. Without a rule, stacks are only scanned for code addresses.

mod chain;
mod exidx;
pub mod frames;
pub mod orc;
mod prologue;
mod register_stack;
mod register_windows;
pub mod rules;

use crate::boot::Kernel;
use chain::Chain;
use prologue::Looks;
use register_windows::Shape;
use std::sync::Arc;
use trapline_isa::arch::Arch;
use trapline_isa::ia64::prologue as prologue_of_ia64;
use trapline_isa::parisc::fields as parisc;
use trapline_isa::regs::Reg;
use trapline_probes::unwind::Unwind;

/// The frame chain of each ISA.
#[rustfmt::skip]
const CHAINS: &[(Arch, Chain)] = &[
    // `push %ebp; mov %esp,%ebp`, after the 5-byte ftrace call.
    (Arch::I386,    Chain { pointer: "bp",  link: None,         next: 0,   back: 4,   has_short_leaves: false, is_callers: false, entry: 5 }),
    // `stp x29, x30, [sp, #-..]!; mov x29, sp`, after ftrace's two nops and a BTI/PAC instruction.
    (Arch::Arm64,   Chain { pointer: "x29", link: Some("x30"),  next: 0,   back: 8,   has_short_leaves: false, is_callers: false, entry: 12 }),
    // `stdu r1, -..(r1)`, after two instructions that set r2, ftrace's two, and register saves. The return address is
    // in the caller's frame.
    (Arch::Ppc64le, Chain { pointer: "gpr1", link: Some("link"), next: 0,   back: 16,  has_short_leaves: false, is_callers: true, entry: 16 }),
    (Arch::Ppc64,   Chain { pointer: "gpr1", link: Some("link"), next: 0,   back: 16,  has_short_leaves: false, is_callers: true, entry: 16 }),
    (Arch::Ppc,     Chain { pointer: "gpr1", link: Some("link"), next: 0,   back: 4,   has_short_leaves: false, is_callers: true, entry: 12 }),
    // `addi sp,sp,-..; sd ra,..(sp); sd s0,..(sp); addi s0,sp,..`, after ftrace's two instructions. Both words are below s0.
    (Arch::Riscv64, Chain { pointer: "s0",  link: Some("ra"),   next: -16, back: -8,  has_short_leaves: true, is_callers: false, entry: 16 }),
    // `stmg %r6,%r15,72(%r15); lay %r15,-..(%r15); stg ..,152(%r15)`. The registers are saved in the caller's frame.
    (Arch::S390x,   Chain { pointer: "r15", link: Some("r14"),  next: 152, back: 136, has_short_leaves: false, is_callers: true, entry: 16 }),
];

/// ISAs whose ABI guarantees such frames, however the kernel was built.
const PROMISED: &[Arch] = &[Arch::Ppc, Arch::Ppc64, Arch::Ppc64le];

/// ISAs whose functions store the back chain at no fixed distance from their start, so call frame information cannot describe it.
const LATE_CHAINS: &[Arch] = &[Arch::S390x];

/// The prologue patterns of each ISA that uses them.
const PROLOGUES: &[(&[Arch], Looks)] =
    &[(&[Arch::Mips, Arch::Mipsel, Arch::Mips64, Arch::Mips64el], MIPS), (&[Arch::Parisc], PARISC)];

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

/// `stw rp,-20(sp)`, then `stw,ma` or `ldo` that moves the stack pointer up.
const PARISC: Looks = Looks {
    link: "gr2",
    takes: |word| {
        let number = parisc::signed14(word);
        let moves = matches!(word >> 16, 0x37de) || word >> 21 == 0x1b << 5 | 30;
        (moves && number > 0).then_some(number.unsigned_abs().into())
    },
    keeps: |word| (word >> 16 == 0x6bc2 && parisc::signed14(word) == -20).then_some(-20),
    calls: |word| word >> 26 == 0x39 || word >> 26 == 0x3a && !matches!(word >> 21 & 31, 0 | 31),
};

/// The ISAs with register windows. `save` of the stack pointer opens a window.
const WINDOWS: &[(Arch, Shape)] =
    &[(Arch::Sparc64, Shape { bias: 2047, behind_call: 8, opens: |word| word & 0xfff8_0000 == 0x9de0_0000 })];

/// The register stack of an ISA. Its functions get the code of a function, its start, a pc in it, and the address of a frame
/// in the backing store.
#[derive(Clone, Copy)]
pub struct Stack {
    /// The registers with the address of the frame and with the return address.
    start: (Reg, Reg),
    /// The address of the word with the return address; `None` if the function has not copied it there at the pc.
    link_slot: fn(code: &[u8], start: u64, pc: u64, frame: u64) -> Option<u64>,
    /// The address of the function's frame, which is below the given one.
    below: fn(code: &[u8], start: u64, pc: u64, callee: u64) -> u64,
}

/// The ISAs with a register stack.
const STACKS: &[(Arch, Stack)] = &[(
    Arch::Ia64,
    Stack {
        start: prologue_of_ia64::START,
        link_slot: |code, start, pc, frame| prologue_of_ia64::Frame::at(code, start, pc).link_slot(frame),
        below: |code, start, pc, callee| prologue_of_ia64::Frame::at(code, start, pc).below(callee),
    },
)];

/// The unwind rule for this kernel. `None` if there is none.
pub fn of(kernel: &Kernel) -> Option<Arc<dyn Unwind>> {
    if let Some(tables) = orc::Orc::of(kernel) {
        return Some(Arc::new(tables));
    }
    if let Some((_, looks)) = PROLOGUES.iter().find(|(arches, _)| arches.contains(&kernel.arch)) {
        return Some(Arc::new(prologue::Prologues::new(kernel, std::iter::once(kernel.tables.text.clone()), looks)?));
    }
    if let Some((_, shape)) = WINDOWS.iter().find(|(arch, _)| *arch == kernel.arch) {
        return Some(Arc::new(register_windows::RegisterWindows::new(kernel, *shape)));
    }
    if let Some((_, stack)) = STACKS.iter().find(|(arch, _)| *arch == kernel.arch) {
        return Some(Arc::new(register_stack::RegisterStack::new(kernel, *stack)));
    }
    if let Some(tables) = exidx::Exidx::of(kernel) {
        return Some(Arc::new(tables));
    }
    let (_, chain) = CHAINS.iter().find(|(arch, _)| *arch == kernel.arch).filter(|_| has_frames(kernel))?;
    Some(Arc::new(chain::Chained::new(kernel, chain)?))
}

/// Whether a kernel's functions have the frames of their ISA's chain. Other kernels may have been built without frame pointers.
fn has_frames(kernel: &Kernel) -> bool {
    kernel.is_stock() || PROMISED.contains(&kernel.arch)
}
