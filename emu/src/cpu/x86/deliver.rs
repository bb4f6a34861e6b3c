//! Delivers an exception or interrupt to the guest as the CPU would: gates, privilege and stack changes, error codes,
//! and double faults.

use super::paging::{Paging, is_canonical};
use super::state::*;
use super::trap::{DOUBLE_FAULT, INVALID_TASK, NOT_PRESENT, PAGE_FAULT, PROTECTION, STACK_FAULT};
use crate::cpu::{Exception, Shutdown};
use crate::unicorn::core_state::CoreState;
use crate::unicorn::engine::{SyscallContext, TrapContext};
use crate::unicorn::ram::Ram;
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
        let Err(mut nested) = answer else { return Ok(()) };
        if exception.vector == DOUBLE_FAULT {
            let why = format!("vector {} could not be delivered at {resume:#x}, nor the faults that this raised", nested.vector);
            return Err(Shutdown { why });
        }
        if let Some(address) = nested.address {
            cpu.write(RegisterX86::CR2, address);
        }
        if exception.software {
            if nested.vector != PAGE_FAULT {
                nested.error &= !EXTERNAL;
            }
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

    fn is_code(&self) -> bool {
        self.flags & (SEGMENT | CODE) == SEGMENT | CODE
    }

    fn is_writable_data(&self) -> bool {
        self.flags & (SEGMENT | CODE | WRITABLE) == SEGMENT | WRITABLE
    }
}

// Bits of a descriptor's upper word.
/// A code or data segment, not a system segment.
const SEGMENT: u32 = 1 << 12;
const CODE: u32 = 1 << 11;
/// Code runs at its caller's privilege level; a data segment with this bit has its valid offsets above the limit.
const CONFORMING: u32 = 1 << 10;
const EXPANDS_DOWN: u32 = 1 << 10;
const WRITABLE: u32 = 1 << 9;
/// 32-bit code, or a stack with a 32-bit pointer.
const BIG: u32 = 1 << 22;
/// 64-bit code.
const LONG_CODE: u32 = 1 << 21;

/// The stack that a frame is pushed to.
struct Stack {
    pointer: u64,
    base: u64,
    /// The bits of the pointer that the segment uses: 16 or 32.
    mask: u64,
    limits: Option<Limits>,
}

/// The limits of a stack segment.
struct Limits {
    limit: u32,
    flags: u32,
    /// The error code for an offset outside of them.
    error: u32,
}

impl Limits {
    fn hold(&self, offset: u64, len: u64) -> bool {
        let (last, limit) = (offset + len - 1, u64::from(self.limit));
        match self.flags & EXPANDS_DOWN {
            0 => last <= limit,
            _ => offset > limit && last <= pointer_mask(self.flags),
        }
    }
}

/// The bits that a stack pointer of this segment has.
fn pointer_mask(flags: u32) -> u64 {
    if flags & BIG == 0 { 0xffff } else { 0xffff_ffff }
}

const PAGE: u64 = 4096;
const EXTERNAL: u32 = 1;
const IN_IDT: u32 = 2;

impl Delivery<'_> {
    fn enter<const LONG: bool>(&mut self) -> Result<(), Nested> {
        let privilege = self.image.get32(HFLAGS) & HF_CPL;
        let gate = self.gate::<LONG>(privilege)?;
        let code = self.descriptor(gate.selector)?;
        let selector = gate.selector & !3;
        let is_of_width = !LONG || code.flags & (LONG_CODE | BIG) == LONG_CODE;
        if !code.is_code() || code.privilege() > privilege || !is_of_width {
            return Err(protection(selector));
        }
        if !code.present() {
            return Err(Nested { vector: NOT_PRESENT, ..protection(selector) });
        }
        let target_privilege = if code.flags & CONFORMING == 0 { code.privilege() } else { privilege };
        if LONG && !is_canonical(gate.target) {
            return Err(protection(0));
        }
        if LONG {
            self.push_long(&gate, target_privilege, privilege)?
        } else {
            self.push_32(selector, target_privilege, privilege)?
        };
        let image = &mut *self.image;
        image.set_segment(CS, selector | target_privilege, code.base, code.limit, code.flags);
        let kept = image.get32(HFLAGS) & !(HF_CPL | HF_ADDSEG | HF_SHADOW | HF_CS32 | HF_SS32 | HF_CS64);
        let width = if LONG { HF_CS32 | HF_SS32 | HF_CS64 } else { image.width() };
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
        let (offset, table) = (selector & !7, if selector & 4 == 0 { GDT } else { LDT });
        if selector & !3 == 0 || offset + 7 > self.image.get32(table + SEGMENT_LIMIT) {
            return Err(protection(selector & !3));
        }
        Ok(Descriptor::of(self.read64(self.image.get64(table + SEGMENT_BASE).wrapping_add(offset.into()))?))
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
        let stack = Stack { pointer: sp, base: 0, mask: u64::MAX, limits: None };
        sp = self.push_all::<8>(&stack, frame, target)?;
        if changes {
            self.image.set_segment(SS, target, 0, 0, target << 13);
        }
        self.image.set_general(SP, sp);
        Ok(())
    }

    /// Pushes the frame of a handler in 32-bit mode. A handler with more privilege gets the stack that the TSS names. From
    /// virtual-8086 mode, the data segment registers are pushed and cleared, too.
    fn push_32(&mut self, code: u32, target: u32, privilege: u32) -> Result<(), Nested> {
        let image = &*self.image;
        let selector = |segment| Some(u64::from(image.selector(segment)));
        let was_8086 = image.get64(EFLAGS) & FLAG_VM != 0;
        let old = image.general(SP) & 0xffff_ffff;
        let own = SEGMENTS + SEGMENT_BYTES * SS;
        let flags = image.get32(own + SEGMENT_FLAGS);
        let mut stack = Stack {
            pointer: old,
            base: image.get64(own + SEGMENT_BASE),
            mask: pointer_mask(flags),
            limits: Some(Limits { limit: image.get32(own + SEGMENT_LIMIT), flags, error: 0 }),
        };
        let (mut outer, mut inner) = ([None; 6], None);
        if was_8086 && target != 0 {
            return Err(protection(code));
        }
        if target < privilege {
            let segments = if was_8086 { [GS, FS, DS, ES].map(selector) } else { [None; 4] };
            outer[..4].copy_from_slice(&segments);
            outer[4..].copy_from_slice(&[selector(SS), Some(old)]);
            let (selector, pointer, segment) = self.inner_stack(target)?;
            stack = Stack {
                pointer,
                base: segment.base,
                mask: pointer_mask(segment.flags),
                limits: Some(Limits { limit: segment.limit, flags: segment.flags, error: selector & !3 }),
            };
            inner = Some((selector, segment));
        }
        let frame =
            [Some(self.flags), Some(u64::from(self.image.selector(CS))), Some(self.resume), self.exception.error.map(u64::from)];
        let sp = self.push_all::<4>(&stack, outer.into_iter().chain(frame), target)?;
        if let Some((selector, segment)) = inner {
            self.image.set_segment(SS, selector, segment.base, segment.limit, segment.flags);
        }
        if was_8086 {
            [GS, FS, DS, ES].iter().for_each(|segment| self.image.set_segment(*segment, 0, 0, 0, 0));
        }
        self.image.set_general(SP, sp);
        Ok(())
    }

    /// Reads the stack for a privilege level from the TSS: selector, pointer and segment descriptor.
    fn inner_stack(&self, level: u32) -> Result<(u32, u64, Descriptor), Nested> {
        const TASK_16: u32 = 1;
        const TASK_32: u32 = 9;
        const BUSY: u32 = 2;
        let invalid = |selector: u32| Nested { vector: INVALID_TASK, ..protection(selector & !3) };
        let (task, limit) = (self.image.get64(TR + SEGMENT_BASE), u64::from(self.image.get32(TR + SEGMENT_LIMIT)));
        let word = match self.image.get32(TR + SEGMENT_FLAGS) >> 8 & 15 & !BUSY {
            TASK_16 => 2,
            TASK_32 => 4,
            _ => return Err(invalid(self.image.get32(TR))),
        };
        let at = u64::from(level) * 2 * word + word;
        if at + 2 * word - 1 > limit {
            return Err(invalid(self.image.get32(TR)));
        }
        let both = self.read64(task.wrapping_add(at))?;
        let (pointer, selector) = if word == 2 { (both & 0xffff, both >> 16) } else { (both & 0xffff_ffff, both >> 32) };
        let selector = selector as u32 & 0xffff;
        let as_task =
            |nested: Nested| if nested.vector == PROTECTION { Nested { vector: INVALID_TASK, ..nested } } else { nested };
        let segment = self.descriptor(selector).map_err(as_task)?;
        if selector & 3 != level || segment.privilege() != level || !segment.is_writable_data() {
            return Err(invalid(selector));
        }
        if !segment.present() {
            return Err(Nested { vector: STACK_FAULT, ..protection(selector & !3) });
        }
        Ok((selector, pointer, segment))
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

    /// Pushes words, the first at the highest address. Returns the new stack pointer.
    fn push_all<const WORD: usize>(
        &self,
        stack: &Stack,
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
        let offset = |left: usize| stack.pointer.wrapping_sub((frame.len() - left) as u64) & stack.mask;
        let at = |left: usize| self.mask(stack.base.wrapping_add(offset(left)));
        let last = frame.len() - WORD;
        if let Some(limits) = &stack.limits
            && (0..=last).step_by(WORD).any(|left| !limits.hold(offset(left), WORD as u64))
        {
            return Err(Nested { vector: STACK_FAULT, ..protection(limits.error) });
        }
        let pointer = stack.pointer & !stack.mask | offset(0);
        let in_one_page = at(0) % PAGE <= PAGE - frame.len() as u64 && offset(last) == offset(0).wrapping_add(last as u64);
        if in_one_page && self.push(at(0), frame, privilege).is_ok() {
            return Ok(pointer);
        }
        // A fault is that of the first word that cannot be pushed. Words before it stay pushed.
        for left in (0..frame.len()).step_by(WORD).rev() {
            self.push(at(left), &frame[left..left + WORD], privilege)?;
        }
        Ok(pointer)
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

impl CoreState {
    /// The hidden flags that depend on the segment registers, outside of long mode.
    fn width(&self) -> u32 {
        let of = |segment: usize, field: usize| SEGMENTS + SEGMENT_BYTES * segment + field;
        let is_big = |segment| self.get32(of(segment, SEGMENT_FLAGS)) & BIG != 0;
        let has_base = |segment: &usize| self.get64(of(*segment, SEGMENT_BASE)) != 0;
        let code = if is_big(CS) { HF_CS32 } else { HF_ADDSEG };
        let stack = if is_big(SS) { HF_SS32 } else { 0 };
        let bases = if [DS, ES, SS].iter().any(has_base) { HF_ADDSEG } else { 0 };
        code | stack | bases
    }
}

/// Executes SYSCALL, which the core does not: selectors from STAR, the return address and the flags into registers, every flag of
/// FMASK cleared, and a jump to LSTAR, or from 32-bit code to CSTAR. Outside of long mode STAR has the address, and the
/// flags go nowhere. `translator/x86/hooks.h` has refused it already where EFER switches it off.
pub fn system_call(cpu: &SyscallContext, _: &mut CoreState) {
    const LENGTH: u64 = 2;
    const NARROW_CODE: u32 = 0x00c0_9b00;
    const CODE: u32 = 0x00a0_9b00;
    const STACK: u32 = 0x00c0_9300;
    const CX: usize = 1;
    const R11: usize = 11;
    let flags = cpu.handle().read(RegisterX86::EFLAGS);
    let kept = cpu.edit(|image| {
        let (star, hidden) = (image.get64(STAR), image.get32(HFLAGS));
        let selector = (star >> 32) as u32 & 0xfffc;
        let is_long = hidden & HF_LMA != 0;
        let back = image.get64(EIP).wrapping_add(LENGTH);
        image.set_general(CX, if is_long { back } else { back & 0xffff_ffff });
        image.set_segment(CS, selector, 0, u32::MAX, if is_long { CODE } else { NARROW_CODE });
        image.set_segment(SS, selector + 8, 0, u32::MAX, STACK);
        let (target, width, cleared) = match (is_long, hidden & HF_CS64 != 0) {
            (true, true) => (image.get64(LSTAR), HF_CS64, image.get64(FMASK)),
            (true, false) => (image.get64(CSTAR), HF_CS64, image.get64(FMASK)),
            (false, _) => (star & 0xffff_ffff, 0, FLAG_INTERRUPT | FLAG_VM),
        };
        if is_long {
            image.set_general(R11, flags & !FLAG_RESUME);
        }
        image.set32(HFLAGS, hidden & !(HF_CPL | HF_ADDSEG | HF_CS64) | HF_CS32 | HF_SS32 | width);
        // The core adds the instruction's length afterwards.
        image.set64(EIP, target.wrapping_sub(LENGTH));
        flags & !cleared & !FLAG_RESUME
    });
    // Unicorn's register interface splits the value: the core keeps the arithmetic flags and the direction elsewhere.
    cpu.write(RegisterX86::EFLAGS, kept);
}
