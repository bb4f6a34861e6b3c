//! Unwinding by register windows. A function that has opened a window finds its caller's stack pointer and the address
//! of its call in that window, in the CPU or spilled to the stack. A function without a window shares its caller's.

use crate::boot::Kernel;
use crate::symbols::Symbols;
use bytes::Bytes;
use trapline_isa::abi::ReturnAddress;
use trapline_isa::mem::ByteOrder;
use trapline_isa::regs::Reg;
use trapline_probes::unwind::{Caller, Standing, Unwind};

/// Offsets of %i6 and %i7 in the save area, from the unbiased stack pointer.
const STACK: u64 = 64 + 48;
const CALL: u64 = 64 + 56;
/// Number of bytes from a function's start in which it may open its window.
const PROLOGUE: usize = 64;

/// The register windows of an ISA.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// The stack bias: the real stack pointer is this much higher.
    pub bias: u64,
    /// A function returns this many bytes after the address of its call, which %i7 holds.
    pub behind_call: u64,
    /// Whether an instruction opens a window.
    pub opens: fn(u32) -> bool,
}

/// The unwind rule for one kernel: where its functions start, and their code.
pub struct RegisterWindows {
    shape: Shape,
    link: Option<Reg>,
    symbols: Symbols,
    kernel: Vec<(u64, Bytes)>,
}

impl RegisterWindows {
    /// Builds the rule from the kernel's symbols and executable segments.
    pub fn new(kernel: &Kernel, shape: Shape) -> RegisterWindows {
        let code = kernel.segments.iter().filter(|segment| segment.executable);
        let kernel_code = code.map(|segment| (segment.virtual_address, segment.bytes.clone())).collect();
        let link = match kernel.arch.isa().abi.return_address {
            ReturnAddress::In(reg) => Some(reg),
            ReturnAddress::OnStack => None,
        };
        RegisterWindows { shape, link, symbols: kernel.symbols.clone(), kernel: kernel_code }
    }

    /// Whether the function has opened its window before this pc.
    fn has_window(&self, pc: u64) -> bool {
        let Some(function) = self.symbols.containing(pc) else { return false };
        let found = self.kernel.iter().find_map(|(start, bytes)| {
            let from = usize::try_from(function.start.checked_sub(*start)?).ok()?;
            let to = usize::try_from(pc.checked_sub(*start)?).ok()?.min(from + PROLOGUE);
            bytes.get(from..to)
        });
        found.is_some_and(|bytes| bytes.chunks_exact(4).any(|word| (self.shape.opens)(ByteOrder::Big.word(word))))
    }
}

impl Unwind for RegisterWindows {
    fn registers(&self) -> (Option<Reg>, Option<Reg>) {
        (None, self.link)
    }

    fn caller(&self, at: &Standing, read: &mut dyn FnMut(u64) -> Option<u64>) -> Option<Caller> {
        if !self.has_window(at.pc) {
            // A function without a window makes no calls, except a tail call.
            return (!at.called).then_some((Standing { pc: at.link, link: 0, called: true, ..*at }, 0));
        }
        let slot = at.sp.wrapping_add(CALL);
        let call = read(slot).filter(|call| *call != 0)?;
        let sp = read(at.sp.wrapping_add(STACK)).filter(|sp| *sp != 0)?.wrapping_add(self.shape.bias);
        Some((Standing { pc: call.wrapping_add(self.shape.behind_call), sp, link: 0, called: true, ..*at }, slot))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::symbols::Entry;

    const TEXT: u64 = 0x8010_0000;

    /// BY-1: before its `save` a function's caller is in a register, afterwards in its window. A leaf function has no
    /// window.
    #[test]
    fn callers_are_found_before_and_behind_a_save() {
        let words: [u32; 8] =
            [0x0100_0000, 0x9de3_bf50, 0x0100_0000, 0x0100_0000, 0x0100_0000, 0x0100_0000, 0x81c3_e008, 0x0100_0000];
        let entries = [("framed", TEXT), ("leaf", TEXT + 16), ("end", TEXT + 32)];
        let entries = entries.map(|(name, address)| Entry { name: name.into(), address, kind: 'T', module: None });
        let windows = RegisterWindows {
            shape: super::super::WINDOWS[0].1,
            link: None,
            symbols: Symbols::new(entries.to_vec()),
            kernel: vec![(TEXT, words.iter().flat_map(|word| word.to_be_bytes()).collect())],
        };
        let read = |at: u64| match at {
            0x1070 => Some(0x2000 - 2047),
            0x1078 => Some(TEXT + 8),
            _ => None,
        };
        let of = |pc: u64, called: bool| {
            let at = Standing { pc, sp: 0x1000, frame: 0, link: 0x7777, called };
            windows.caller(&at, &mut |at| read(at)).map(|(caller, slot)| (caller.pc, caller.sp, slot))
        };
        assert_eq!(of(TEXT, false), Some((0x7777, 0x1000, 0)), "at its entry");
        assert_eq!(of(TEXT + 4, false), Some((0x7777, 0x1000, 0)), "at its save");
        assert_eq!(of(TEXT + 8, false), Some((TEXT + 16, 0x2000, 0x1078)), "behind it");
        assert_eq!(of(TEXT + 20, false), Some((0x7777, 0x1000, 0)), "in a leaf");
        assert_eq!(of(TEXT + 20, true), None, "a leaf cannot be a caller");
    }
}
