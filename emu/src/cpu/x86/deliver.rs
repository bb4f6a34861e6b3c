//! Delivers an exception or interrupt to the guest as the CPU would: gates, privilege and stack changes, error codes,
//! and double faults.

use super::paging::{Paging, is_canonical};
use super::state::*;
use super::trap::{DOUBLE_FAULT, NOT_PRESENT, PAGE_FAULT, PROTECTION, STACK_FAULT};
use crate::cpu::{Exception, Shutdown};
use crate::unicorn::engine::{SyscallContext, TrapContext};
use crate::unicorn::ram::Ram;
use crate::unicorn::surgery::CoreState;
use core::ops::Range;
use unicorn_engine_sys::RegisterX86;

/// An exception raised by the delivery of another one.
struct Nested {
    vector: u32,
    error: u32,
    address: Option<u64>,
}

/// Delivers an exception. If the guest's tables do not allow it, delivers the exception that this raises. If that fails
/// as well, returns a shutdown (triple fault).
pub fn deliver<const LONG: bool>(
    cpu: &TrapContext,
    _: &mut CoreState,
    ram: &Ram,
    exception: Exception,
    resume: u64,
) -> Result<(), Shutdown> {
    let flags = cpu.handle().read(RegisterX86::EFLAGS);
    let (mut exception, mut resume) = (exception, resume);
    loop {
        let answer = cpu.edit(|image| {
            image.set64(EIP, resume);
            image.set32(OLD_EXCEPTION, u32::MAX);
            let paging = Paging::new(image.control(0), image.control(3), image.control(4), LONG);
            Delivery { image, ram, paging, flags, exception, resume }.enter::<LONG>()
        });
        let Err(nested) = answer else { return Ok(()) };
        if exception.vector == DOUBLE_FAULT {
            let why = format!("vector {} could not be delivered at {resume:#x}, nor the faults that this raised", nested.vector);
            return Err(Shutdown { why });
        }
        if let Some(address) = nested.address {
            cpu.write(RegisterX86::CR2, address);
        }
        if exception.software {
            // The nested fault belongs to the software interrupt instruction itself, not to the next one.
            resume = resume.wrapping_sub(software_length(exception.vector));
        }
        exception = match combines(exception.vector, nested.vector) {
            true => Exception { error: Some(0), ..Exception::of(DOUBLE_FAULT) },
            false => Exception { error: Some(nested.error), ..Exception::of(nested.vector) },
        };
    }
}

/// Whether a second fault during delivery of the first makes a double fault.
fn combines(first: u32, second: u32) -> bool {
    let contributory = |vector| matches!(vector, 0 | 10..=13);
    (contributory(first) && contributory(second)) || (first == PAGE_FAULT && (second == PAGE_FAULT || contributory(second)))
}

/// Length of a software interrupt: INT3 has one byte, INT n two.
fn software_length(vector: u32) -> u64 {
    if vector == 3 { 1 } else { 2 }
}

struct Delivery<'a> {
    image: &'a mut CoreState,
    ram: &'a Ram,
    paging: Paging,
    flags: u64,
    exception: Exception,
    resume: u64,
}

/// A decoded gate of the IDT.
struct Gate {
    target: u64,
    selector: u32,
    stack_entry: u64,
    interrupt: bool,
}

/// A decoded segment descriptor.
struct Descriptor {
    base: u64,
    limit: u32,
    flags: u32,
}

impl Descriptor {
    fn of(word: u64) -> Descriptor {
        let (low, high) = (word as u32, (word >> 32) as u32);
        let mut limit = low & 0xffff | high & 0xf_0000;
        if high & 1 << 23 != 0 {
            limit = limit << 12 | 0xfff;
        }
        Descriptor { base: u64::from(low >> 16 | (high & 0xff) << 16 | high & 0xff00_0000), limit, flags: high }
    }

    fn privilege(&self) -> u32 {
        self.flags >> 13 & 3
    }

    fn present(&self) -> bool {
        self.flags & 1 << 15 != 0
    }
}

const PAGE: u64 = 4096;
const EXTERNAL: u32 = 1;
const IN_IDT: u32 = 2;

impl Delivery<'_> {
    fn enter<const LONG: bool>(&mut self) -> Result<(), Nested> {
        let privilege = self.image.get32(HFLAGS) & HF_CPL;
        let gate = self.gate::<LONG>(privilege)?;
        let code = self.descriptor(gate.selector)?;
        let target_privilege = code.privilege();
        if !code.present() || target_privilege > privilege {
            return Err(protection(gate.selector & !3));
        }
        if LONG && !is_canonical(gate.target) {
            return Err(protection(0));
        }
        if LONG {
            self.push_long(&gate, target_privilege, privilege)?
        } else {
            self.push_32(target_privilege, privilege)?
        };
        let image = &mut *self.image;
        image.set_segment(CS, gate.selector & !3 | target_privilege, code.base, code.limit, code.flags);
        let width = HF_CS32 | HF_SS32 | if LONG { HF_CS64 } else { 0 };
        let kept = image.get32(HFLAGS) & !(HF_CPL | HF_ADDSEG | HF_SHADOW | HF_CS64);
        image.set32(HFLAGS, kept | target_privilege | width);
        image.set64(EIP, gate.target);
        let mut flags = image.get64(EFLAGS) & !(FLAG_TRAP | FLAG_NESTED | FLAG_RESUME | FLAG_VM);
        if gate.interrupt {
            flags &= !FLAG_INTERRUPT;
        }
        image.set64(EFLAGS, flags);
        Ok(())
    }

    fn gate<const LONG: bool>(&self, privilege: u32) -> Result<Gate, Nested> {
        let vector = self.exception.vector;
        let external = if self.exception.software { 0 } else { EXTERNAL };
        let bad = Nested { vector: PROTECTION, error: (vector * 8) | IN_IDT | external, address: None };
        let bytes = if LONG { 16 } else { 8 };
        if vector * bytes + bytes - 1 > self.image.get32(IDT + SEGMENT_LIMIT) {
            return Err(bad);
        }
        let at = self.image.get64(IDT + SEGMENT_BASE).wrapping_add(u64::from(vector * bytes));
        let low = self.read64(at)?;
        let kind = (low >> 40) as u32 & 15;
        if kind & 0xe != 0xe || (self.exception.software && ((low >> 45) as u32 & 3) < privilege) {
            return Err(bad);
        }
        if low >> 47 & 1 == 0 {
            return Err(Nested { vector: NOT_PRESENT, ..bad });
        }
        let high = if LONG { self.read64(at.wrapping_add(8))? } else { 0 };
        Ok(Gate {
            target: low & 0xffff | (low >> 32) & 0xffff_0000 | high << 32,
            selector: (low >> 16) as u32 & 0xffff,
            stack_entry: if LONG { (low >> 32) & 7 } else { 0 },
            interrupt: kind == 14,
        })
    }

    fn descriptor(&self, selector: u32) -> Result<Descriptor, Nested> {
        let offset = selector & !7;
        if offset == 0 || offset + 7 > self.image.get32(GDT + SEGMENT_LIMIT) {
            return Err(protection(offset));
        }
        Ok(Descriptor::of(self.read64(self.image.get64(GDT + SEGMENT_BASE).wrapping_add(offset.into()))?))
    }

    fn push_long(&mut self, gate: &Gate, target: u32, privilege: u32) -> Result<(), Nested> {
        let tss = self.image.get64(TR + SEGMENT_BASE);
        let old = self.image.general(SP);
        let changes = target < privilege;
        let mut sp = match gate.stack_entry {
            0 if changes => self.read64(tss.wrapping_add(4 + 8 * u64::from(target)))?,
            0 => old,
            entry => self.read64(tss.wrapping_add(36 + 8 * (entry - 1)))?,
        };
        sp &= !15;
        let frame = [
            Some(u64::from(self.image.selector(SS))),
            Some(old),
            Some(self.flags),
            Some(u64::from(self.image.selector(CS))),
            Some(self.resume),
            self.exception.error.map(u64::from),
        ];
        sp = self.push_all::<8>(sp, frame, target)?;
        if changes {
            self.image.set_segment(SS, target, 0, 0, target << 13);
        }
        self.image.set_general(SP, sp);
        Ok(())
    }

    fn push_32(&mut self, target: u32, privilege: u32) -> Result<(), Nested> {
        let old = self.image.general(SP);
        let mut sp = old;
        let mut outer = [None, None];
        if target < privilege {
            outer = [Some(u64::from(self.image.selector(SS))), Some(old)];
            let tss = self.image.get64(TR + SEGMENT_BASE);
            let stack = self.read64(tss.wrapping_add(4 + 8 * u64::from(target)))?;
            let selector = (stack >> 32) as u32 & 0xffff;
            sp = stack & 0xffff_ffff;
            let segment = self.descriptor(selector).map_err(|nested| Nested { vector: 10, ..nested })?;
            if !segment.present() {
                return Err(Nested { vector: STACK_FAULT, error: selector & !3, address: None });
            }
            self.image.set_segment(SS, selector, segment.base, segment.limit, segment.flags);
        }
        let inner =
            [Some(self.flags), Some(u64::from(self.image.selector(CS))), Some(self.resume), self.exception.error.map(u64::from)];
        sp = self.push_all::<4>(sp, outer.into_iter().chain(inner), target)?;
        self.image.set_general(SP, sp);
        Ok(())
    }

    /// Reads eight bytes of a table in guest memory.
    fn read64(&self, address: u64) -> Result<u64, Nested> {
        let mut bytes = [0; 8];
        self.pieces(address, bytes.len(), |at, part| {
            self.check_canonical(at, PROTECTION)?;
            let found = self.paging.walk(self.ram, at).ok_or(page_fault(at, 0))?;
            self.ram.read(found.physical, &mut bytes[part]);
            Ok(())
        })?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// Pushes words, the first at the highest address. Returns the address of the last one.
    fn push_all<const WORD: usize>(
        &self,
        from: u64,
        words: impl IntoIterator<Item = Option<u64>>,
        privilege: u32,
    ) -> Result<u64, Nested> {
        const MOST: usize = 6 * 8;
        let (mut frame, mut start) = ([0; MOST], MOST);
        for word in words.into_iter().flatten() {
            start -= WORD;
            frame[start..start + WORD].copy_from_slice(&word.to_le_bytes()[..WORD]);
        }
        let frame = &frame[start..];
        let at = |left: usize| self.mask(from.wrapping_sub((frame.len() - left) as u64));
        let in_one_page = at(0) % PAGE <= PAGE - frame.len() as u64;
        if in_one_page && self.push(at(0), frame, privilege).is_ok() {
            return Ok(at(0));
        }
        // A fault is that of the first word that cannot be pushed. Words before it stay pushed.
        for left in (0..frame.len()).step_by(WORD).rev() {
            self.push(at(left), &frame[left..left + WORD], privilege)?;
        }
        Ok(at(0))
    }

    fn push(&self, address: u64, bytes: &[u8], privilege: u32) -> Result<(), Nested> {
        const WRITE: u32 = 2;
        const USER: u32 = 4;
        let code = WRITE | if privilege == 3 { USER } else { 0 };
        self.pieces(address, bytes.len(), |at, part| {
            self.check_canonical(at, STACK_FAULT)?;
            let found = self.paging.walk(self.ram, at).ok_or(page_fault(at, code))?;
            if !self.paging.may_write(&found) {
                return Err(page_fault(at, code | 1));
            }
            super::paging::mark_written(self.ram, found.entry);
            self.ram.write(found.physical, &bytes[part]);
            Ok(())
        })
    }

    /// Calls `each` for the part of a byte range in each page, with its address and its indexes.
    fn pieces(
        &self,
        address: u64,
        len: usize,
        mut each: impl FnMut(u64, Range<usize>) -> Result<(), Nested>,
    ) -> Result<(), Nested> {
        let mut done = 0;
        while done < len {
            let at = self.mask(address.wrapping_add(done as u64));
            let end = len.min(done + (PAGE - at % PAGE) as usize);
            each(at, done..end)?;
            done = end;
        }
        Ok(())
    }

    /// A non-canonical address raises this vector rather than a page fault.
    fn check_canonical(&self, address: u64, vector: u32) -> Result<(), Nested> {
        match self.paging.is_long() && !is_canonical(address) {
            true => Err(Nested { vector, ..protection(0) }),
            false => Ok(()),
        }
    }

    fn mask(&self, address: u64) -> u64 {
        if self.paging.is_long() { address } else { address & 0xffff_ffff }
    }
}

fn protection(error: u32) -> Nested {
    Nested { vector: PROTECTION, error: error | EXTERNAL, address: None }
}

fn page_fault(address: u64, error: u32) -> Nested {
    Nested { vector: PAGE_FAULT, error, address: Some(address) }
}

/// Executes SYSCALL, which the core does not: loads selectors from STAR, masks flags, and jumps to LSTAR.
pub fn system_call(cpu: &SyscallContext, _: &mut CoreState) {
    const LENGTH: u64 = 2;
    const CODE: u32 = 0x00a0_9b00;
    const STACK: u32 = 0x00c0_9300;
    // The core stores arithmetic flags elsewhere. Kernels mask them, but do not depend on it.
    const ARITHMETIC: u64 = 0x8d5;
    const CX: usize = 1;
    const R11: usize = 11;
    let flags = cpu.handle().read(RegisterX86::EFLAGS);
    cpu.edit(|image| {
        let selector = (image.get64(STAR) >> 32) as u32 & 0xfffc;
        image.set_general(CX, image.get64(EIP).wrapping_add(LENGTH));
        image.set_general(R11, flags & !FLAG_RESUME);
        image.set_segment(CS, selector, 0, u32::MAX, CODE);
        image.set_segment(SS, selector + 8, 0, u32::MAX, STACK);
        let kept = image.get32(HFLAGS) & !(HF_CPL | HF_ADDSEG);
        image.set32(HFLAGS, kept | HF_CS32 | HF_SS32 | HF_CS64);
        let mask = image.get64(FMASK) & 0xffff_ffff & !ARITHMETIC;
        image.set64(EFLAGS, image.get64(EFLAGS) & !mask & !FLAG_RESUME);
        // The core adds the instruction's length afterwards.
        image.set64(EIP, image.get64(LSTAR).wrapping_sub(LENGTH));
    });
}
