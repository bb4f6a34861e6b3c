//! Faithful detours on x86: code that saves the registers on the guest's stack in the layout of `struct pt_regs`, and
//! code that restores them.
//!
//! The code is our own; only the layout is Linux's. It changes no flag before the flags are saved, and no argument
//! register before the frame is complete. So a fault for lack of stack can be undone.

use super::Mode;
use super::abi::*;
use super::detour::distance;
use crate::detour::{CALL_MOST, Faithful, FrameWord, Saving};
use crate::regs::Reg;

/// The opcode of `call rel32`.
const CALL: u8 = 0xe8;
const CALL_LENGTH: usize = 5;

/// The faithful form of 64-bit code, with a frame of 21 words.
pub static BITS_64: Faithful = Faithful {
    #[rustfmt::skip]
    save: &[
        0x6a, 0x18,                                     // push $0x18: room for ss, which this mode cannot push
        0x54,                                           // push %rsp
        0x9c,                                           // pushfq
        0x48, 0x8d, 0x64, 0x24, 0xe8,                   // lea -24(%rsp),%rsp: cs, ip, orig_ax
        0x57, 0x56, 0x52, 0x51, 0x50,                   // push %rdi, %rsi, %rdx, %rcx, %rax
        0x41, 0x50, 0x41, 0x51, 0x41, 0x52, 0x41, 0x53, // push %r8 .. %r11
        0x53, 0x55,                                     // push %rbx, %rbp
        0x41, 0x54, 0x41, 0x55, 0x41, 0x56, 0x41, 0x57, // push %r12 .. %r15
    ],
    call: call_64,
    call_length: 18,
    #[rustfmt::skip]
    restore: &[
        0x48, 0x8b, 0x84, 0x24, 0x90, 0, 0, 0,          // mov 0x90(%rsp),%rax: the flags
        0x48, 0x89, 0x84, 0x24, 0xa0, 0, 0, 0,          // mov %rax,0xa0(%rsp): where ss was
        0x41, 0x5f, 0x41, 0x5e, 0x41, 0x5d, 0x41, 0x5c, // pop %r15 .. %r12
        0x5d, 0x5b,                                     // pop %rbp, %rbx
        0x41, 0x5b, 0x41, 0x5a, 0x41, 0x59, 0x41, 0x58, // pop %r11 .. %r8
        0x58, 0x59, 0x5a, 0x5e, 0x5f,                   // pop %rax, %rcx, %rdx, %rsi, %rdi
        0x48, 0x8d, 0x64, 0x24, 0x28,                   // lea 40(%rsp),%rsp: orig_ax, ip, cs, flags, sp
        0x9d,                                           // popfq
    ],
    trampoline: RETURN,
    #[rustfmt::skip]
    frame: &[
        restored(R15), restored(R14), restored(R13), restored(R12), restored(BP), restored(BX), restored(R11), restored(R10),
        restored(R9), restored(R8), restored(AX), restored(CX), restored(DX), restored(SI), restored(DI),
        filled(ORIG_AX), filled(IP), filled(CS), restored(FLAGS), moved(8), filled(SS),
    ],
};

/// The faithful form of 32-bit code, with a frame of 17 words.
pub static BITS_32: Faithful = Faithful {
    #[rustfmt::skip]
    save: &[
        0x16,                                     // push %ss
        0x54,                                     // push %esp
        0x9c,                                     // pushf
        0x8d, 0x64, 0x24, 0xf0,                   // lea -16(%esp),%esp: cs, ip, orig_ax, gs
        0x0f, 0xa0, 0x06, 0x1e,                   // push %fs, %es, %ds
        0x50, 0x55, 0x57, 0x56, 0x52, 0x51, 0x53, // push %eax, %ebp, %edi, %esi, %edx, %ecx, %ebx
    ],
    call: call_32,
    call_length: 12,
    #[rustfmt::skip]
    restore: &[
        0x8b, 0x44, 0x24, 0x38,                   // mov 0x38(%esp),%eax: the flags
        0x89, 0x44, 0x24, 0x40,                   // mov %eax,0x40(%esp): where ss was
        0x5b, 0x59, 0x5a, 0x5e, 0x5f, 0x5d, 0x58, // pop %ebx, %ecx, %edx, %esi, %edi, %ebp, %eax
        0x8d, 0x64, 0x24, 0x24,                   // lea 36(%esp),%esp: the segments, orig_ax, ip, cs, flags, sp
        0x9d,                                     // popf
    ],
    trampoline: RETURN,
    #[rustfmt::skip]
    frame: &[
        restored(BX), restored(CX), restored(DX), restored(SI), restored(DI), restored(BP), restored(AX),
        saved(DS), saved(ES), saved(FS), filled(GS), filled(ORIG_AX), filled(IP), filled(CS), restored(FLAGS), moved(4), saved(SS),
    ],
};

/// `ret`.
const RETURN: &[u8] = &[0xc3];

const fn restored(reg: Reg) -> FrameWord {
    FrameWord { reg, kind: Saving::Restored }
}

const fn saved(reg: Reg) -> FrameWord {
    FrameWord { reg, kind: Saving::Saved }
}

const fn filled(reg: Reg) -> FrameWord {
    FrameWord { reg, kind: Saving::Filled }
}

const fn moved(bytes: u64) -> FrameWord {
    FrameWord { reg: SP, kind: Saving::Moved(bytes) }
}

/// `mov %rsp,%rsi; movabs $probed,%rdi; call trampoline`.
fn call_64(probed: u64, from: u64, trampoline: u64) -> Option<[u8; CALL_MOST]> {
    let mut bytes = [0; CALL_MOST];
    bytes[..5].copy_from_slice(&[0x48, 0x89, 0xe6, 0x48, 0xbf]);
    bytes[5..13].copy_from_slice(&probed.to_le_bytes());
    put_call(Mode::Bits64, &mut bytes, 13, from, trampoline)
}

/// `mov %esp,%edx; mov $probed,%eax; call trampoline`.
fn call_32(probed: u64, from: u64, trampoline: u64) -> Option<[u8; CALL_MOST]> {
    let mut bytes = [0; CALL_MOST];
    bytes[..3].copy_from_slice(&[0x89, 0xe2, 0xb8]);
    bytes[3..7].copy_from_slice(&(probed as u32).to_le_bytes());
    put_call(Mode::Bits32, &mut bytes, 7, from, trampoline)
}

fn put_call(mode: Mode, bytes: &mut [u8; CALL_MOST], at: usize, from: u64, to: u64) -> Option<[u8; CALL_MOST]> {
    let end = at + CALL_LENGTH;
    bytes[at] = CALL;
    bytes[at + 1..end].copy_from_slice(&distance(mode, from.wrapping_add(end as u64), to)?.to_le_bytes());
    Some(*bytes)
}

#[cfg(test)]
mod tests;
