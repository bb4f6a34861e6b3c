//! Address translation by the guest's own TLB refill handler, for pages that are not in the TLB.
//!
//! MIPS has no page tables in hardware: a miss enters a handler, which walks tables in a format of the kernel's own and
//! writes an entry. [`page`] interprets that handler on registers of its own, up to the instruction that writes the
//! entry, so each kernel's tables are understood. The guest does not change. A handler that does anything but read
//! memory and compute is given up.

use crate::cpu::Access;

/// The number of steps after which a handler is given up. The handlers of Debian's and of our own kernels end before.
const MOST_STEPS: u32 = 200;
/// The bit of an entry's half that makes it valid, and the one that lets stores through.
const VALID: u64 = 2;
const DIRTY: u64 = 4;
/// The bits of a physical address in an entry's half: bit 6 is the address's bit 12. The bits above 29 inhibit reads
/// and execution in 32 bits; the core has 36 bits of physical address.
const FRAME: u64 = 0x3fff_ffc0;
/// PageMask for pages of 4 KiB, without the bits that pages of 1 KiB use.
const SMALLEST: u64 = 0x1fff;

/// The guest as its handler sees it.
pub trait Seen {
    /// Whether registers have 64 bits.
    fn is_wide(&self) -> bool;
    /// The address of the handler for a miss at this address. `None` if there is none in memory.
    fn handler(&self, missed: u64) -> Option<u64>;
    /// A register of coprocessor 0, as it is behind a miss at this address. `None` if it is not known.
    fn system(&self, number: u32, select: u32, missed: u64) -> Option<u64>;
    /// Reads a number from memory that needs no TLB.
    fn load(&self, address: u64, bytes: usize) -> Option<u64>;
}

/// The physical address that the handler's entry gives to this address; `None` if the handler finds no page that allows
/// the access.
pub fn page(seen: &impl Seen, missed: u64, access: Access) -> Option<u64> {
    let mut handler = Handler { seen, missed, registers: [0; 32], halves: [0; 2], mask: seen.system(PAGE_MASK, 0, missed)? };
    handler.run()?;
    let span = (handler.mask | SMALLEST) + 1;
    let half = handler.halves[usize::from(missed & (span / 2) != 0)];
    let needed = if access == Access::Write { VALID | DIRTY } else { VALID };
    let within = missed & (span / 2 - 1);
    (half & needed == needed).then_some(((half & FRAME) << 6 & !(span / 2 - 1)) | within)
}

// Numbers of registers of coprocessor 0.
const ENTRY_LO0: u32 = 2;
const ENTRY_LO1: u32 = 3;
pub const CONTEXT: u32 = 4;
pub const PAGE_MASK: u32 = 5;
pub const BAD_VADDR: u32 = 8;
pub const XCONTEXT: u32 = 20;

/// A run of the handler.
struct Handler<'a, S> {
    seen: &'a S,
    missed: u64,
    registers: [u64; 32],
    /// EntryLo0 and EntryLo1.
    halves: [u64; 2],
    mask: u64,
}

/// The effect of an instruction on the order of execution.
enum Then {
    Next,
    /// A branch, behind its delay slot. `None`: it is not taken.
    Branch(Option<u64>),
    /// The entry is written.
    Filled,
}

impl<S: Seen> Handler<'_, S> {
    /// Runs the handler until it writes the entry.
    fn run(&mut self) -> Option<()> {
        let mut pc = self.seen.handler(self.missed)?;
        let mut behind_slot = None;
        for _ in 0..MOST_STEPS {
            let code = self.seen.load(pc, 4)? as u32;
            let next = behind_slot.take().unwrap_or(pc.wrapping_add(4));
            match self.step(pc, code)? {
                Then::Next | Then::Branch(None) => {}
                Then::Branch(Some(target)) => behind_slot = Some(target),
                Then::Filled => return Some(()),
            }
            pc = next;
        }
        None
    }

    /// Executes an instruction. `None`: handlers that only read and compute do not have it.
    fn step(&mut self, pc: u64, code: u32) -> Option<Then> {
        let [rs, rt] = [21, 16].map(|low| self.registers[(code >> low & 31) as usize]);
        let into = (code >> 16 & 31) as usize;
        let signed = i64::from(code as u16 as i16) as u64;
        let unsigned = u64::from(code as u16);
        let branch = |taken: bool| Some(Then::Branch(taken.then(|| pc.wrapping_add(4).wrapping_add(signed << 2))));
        let value = match code >> 26 {
            0x00 if code & 0x3f == 0x08 => return Some(Then::Branch(Some(rs))),
            0x00 => return self.special(code, rs, rt),
            0x01 if into == 0 => return branch((rs as i64) < 0),
            0x01 if into == 1 => return branch(rs as i64 >= 0),
            0x02 => return Some(Then::Branch(Some(pc.wrapping_add(4) & !0xfff_ffff | u64::from(code & 0x3ff_ffff) << 2))),
            0x04 => return branch(rs == rt),
            0x05 => return branch(rs != rt),
            0x09 => word(rs.wrapping_add(signed)),
            0x19 => rs.wrapping_add(signed),
            0x0a => u64::from((rs as i64) < signed as i64),
            0x0b => u64::from(rs < signed),
            0x0c => rs & unsigned,
            0x0d => rs | unsigned,
            0x0e => rs ^ unsigned,
            0x0f => word(unsigned << 16),
            0x10 => return self.coprocessor(code, rt),
            0x1f => return self.fields(code, rs, rt),
            0x23 => word(self.seen.load(rs.wrapping_add(signed), 4)?),
            0x27 => self.seen.load(rs.wrapping_add(signed), 4)?,
            0x37 => self.seen.load(rs.wrapping_add(signed), 8)?,
            _ => return None,
        };
        self.set(into, value)
    }

    /// Writes a register.
    fn set(&mut self, into: usize, value: u64) -> Option<Then> {
        if into != 0 {
            self.registers[into] = value;
        }
        Some(Then::Next)
    }

    /// An instruction between registers.
    fn special(&mut self, code: u32, rs: u64, rt: u64) -> Option<Then> {
        let (into, count) = ((code >> 11 & 31) as usize, code >> 6 & 31);
        // This bit makes a rotation of a shift to the right.
        let rotates = code >> 21 & 1 != 0;
        let low = rt as u32;
        let value = match code & 0x3f {
            0x00 => word(u64::from(low << count)),
            0x02 if rotates => word(low.rotate_right(count).into()),
            0x02 => word(u64::from(low >> count)),
            0x03 => word((low as i32 >> count) as u64),
            0x04 => word(u64::from(low << (rs & 31))),
            0x06 => word(u64::from(low >> (rs & 31))),
            0x21 => word(rs.wrapping_add(rt)),
            0x23 => word(rs.wrapping_sub(rt)),
            0x24 => rs & rt,
            0x25 => rs | rt,
            0x26 => rs ^ rt,
            0x27 => !(rs | rt),
            0x2a => u64::from((rs as i64) < rt as i64),
            0x2b => u64::from(rs < rt),
            0x2d => rs.wrapping_add(rt),
            0x2f => rs.wrapping_sub(rt),
            0x38 => rt << count,
            0x3a if rotates => rt.rotate_right(count),
            0x3a => rt >> count,
            0x3b => (rt as i64 >> count) as u64,
            0x3c => rt << (count + 32),
            0x3e if rotates => rt.rotate_right(count + 32),
            0x3e => rt >> (count + 32),
            0x3f => (rt as i64 >> (count + 32)) as u64,
            _ => return None,
        };
        self.set(into, value)
    }

    /// An instruction that takes a field out of a register or puts one in, or a load with an index.
    fn fields(&mut self, code: u32, rs: u64, rt: u64) -> Option<Then> {
        let (first, last) = (code >> 6 & 31, code >> 11 & 31);
        let target = (code >> 16 & 31) as usize;
        let is_double = code & 3 != 0;
        match code & 0x3f {
            0x00..=0x03 => {
                // Ext, Dextm, Dextu, Dext: the second field is the size less 1.
                let (first, size) = match code & 3 {
                    1 => (first, last + 33),
                    2 => (first + 32, last + 1),
                    _ => (first, last + 1),
                };
                let value = rs >> first & ones(size);
                self.set(target, if is_double { value } else { word(value) })
            }
            0x04..=0x07 => {
                // Ins, Dinsm, Dinsu, Dins: the second field is the last bit.
                let (first, end) = match code & 3 {
                    1 => (first, last + 33),
                    2 => (first + 32, last + 33),
                    _ => (first, last + 1),
                };
                let mask = ones(end.checked_sub(first)?) << first;
                let value = rt & !mask | rs << first & mask;
                self.set(target, if is_double { value } else { word(value) })
            }
            0x0a => {
                let address = rs.wrapping_add(rt);
                let value = match code >> 6 & 31 {
                    0 => word(self.seen.load(address, 4)?),
                    8 => self.seen.load(address, 8)?,
                    _ => return None,
                };
                self.set((code >> 11 & 31) as usize, value)
            }
            _ => None,
        }
    }

    /// An instruction of coprocessor 0.
    fn coprocessor(&mut self, code: u32, rt: u64) -> Option<Then> {
        if code >> 25 & 1 != 0 {
            return match code & 0x3f {
                // TLBWI, TLBWR
                2 | 6 => Some(Then::Filled),
                // TLBP
                8 => Some(Then::Next),
                _ => None,
            };
        }
        let (number, select) = (code >> 11 & 31, code & 7);
        let narrow = |value| if self.seen.is_wide() { value } else { word(value) };
        match (code >> 21 & 31, number, select) {
            (0 | 1, ENTRY_LO0 | ENTRY_LO1, 0) => self.set((code >> 16 & 31) as usize, self.halves[(number - ENTRY_LO0) as usize]),
            (0 | 1, PAGE_MASK, 0) => self.set((code >> 16 & 31) as usize, self.mask),
            (0, ..) => self.set((code >> 16 & 31) as usize, word(self.seen.system(number, select, self.missed)?)),
            (1, ..) => self.set((code >> 16 & 31) as usize, narrow(self.seen.system(number, select, self.missed)?)),
            (4 | 5, ENTRY_LO0 | ENTRY_LO1, 0) => {
                self.halves[(number - ENTRY_LO0) as usize] = rt;
                Some(Then::Next)
            }
            (4 | 5, PAGE_MASK, 0) => {
                self.mask = rt & 0x1fff_ffff;
                Some(Then::Next)
            }
            _ => None,
        }
    }
}

/// A 32-bit value as registers have it.
fn word(value: u64) -> u64 {
    i64::from(value as u32 as i32) as u64
}

/// A mask of that many bits.
fn ones(bits: u32) -> u64 {
    u64::MAX.checked_shr(64 - bits.min(64)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// A guest with these words of memory.
    struct Words {
        is_wide: bool,
        words: BTreeMap<u64, u64>,
    }

    const HANDLER: u64 = 0xffff_ffff_8000_0000;

    impl Words {
        fn new(is_wide: bool, code: &[u32], data: &[(u64, u64)]) -> Words {
            let code = (HANDLER..).step_by(4).zip(code.iter().map(|word| u64::from(*word)));
            Words { is_wide, words: code.chain(data.iter().copied()).collect() }
        }
    }

    impl Seen for Words {
        fn is_wide(&self) -> bool {
            self.is_wide
        }

        fn handler(&self, _: u64) -> Option<u64> {
            Some(HANDLER)
        }

        fn system(&self, number: u32, _: u32, missed: u64) -> Option<u64> {
            match number {
                BAD_VADDR => Some(missed),
                CONTEXT => Some((missed >> 13 & 0x7_ffff) << 4),
                PAGE_MASK => Some(0),
                _ => None,
            }
        }

        fn load(&self, address: u64, _: usize) -> Option<u64> {
            self.words.get(&address).copied()
        }
    }

    /// The handler of a 32-bit kernel: two levels of tables with words of 4 bytes.
    #[rustfmt::skip]
    const NARROW: [u32; 18] = [
        0x3c1b_8070, // lui   k1, 0x8070
        0x401a_4000, // mfc0  k0, BadVAddr
        0x8f7b_1000, // lw    k1, 0x1000(k1)
        0x001a_d582, // srl   k0, k0, 22
        0x001a_d080, // sll   k0, k0, 2
        0x037a_d821, // addu  k1, k1, k0
        0x401a_2000, // mfc0  k0, Context
        0x8f7b_0000, // lw    k1, 0(k1)
        0x001a_d042, // srl   k0, k0, 1
        0x335a_0ff8, // andi  k0, k0, 0xff8
        0x037a_d821, // addu  k1, k1, k0
        0x8f7a_0000, // lw    k0, 0(k1)
        0x8f7b_0004, // lw    k1, 4(k1)
        0x001a_d182, // srl   k0, k0, 6
        0x409a_1000, // mtc0  k0, EntryLo0
        0x001b_d982, // srl   k1, k1, 6
        0x409b_1800, // mtc0  k1, EntryLo1
        0x4200_0006, // tlbwr
    ];

    /// An address in the kernel's mapped segment, and a guest with tables for the pair of pages around it.
    fn narrow(pair: [u64; 2]) -> (u64, Words) {
        let missed: u64 = 0xffff_ffff_c012_3458;
        let (directory, table) = (0xffff_ffff_8070_2000, 0xffff_ffff_8080_0000);
        let slot = (missed & 0xffff_ffff) >> 22 << 2;
        let within = (missed >> 13 & 0x1ff) << 3;
        let data = [
            (0xffff_ffff_8070_1000, 0x8070_2000),
            (directory + slot, 0x8080_0000),
            (table + within, pair[0]),
            (table + within + 4, pair[1]),
        ];
        (missed, Words::new(false, &NARROW, &data))
    }

    #[test]
    fn the_handler_of_a_32_bit_kernel_tells_the_page() {
        // The number of the page frame is in bits 12 and up here, the entry's bits 6 lower.
        let entry = |frame: u64, bits: u64| frame << 12 | bits << 6;
        let (missed, guest) = narrow([entry(0x111, VALID), entry(0x222, VALID | DIRTY)]);
        assert_eq!(page(&guest, missed, Access::Read), Some(0x22_2458));
        assert_eq!(page(&guest, missed, Access::Write), Some(0x22_2458));
        assert_eq!(page(&guest, missed - 0x1000, Access::Read), Some(0x11_1458));
        assert_eq!(page(&guest, missed - 0x1000, Access::Write), None, "a page that is only read");
        let (missed, guest) = narrow([0, 0]);
        assert_eq!(page(&guest, missed, Access::Read), None, "no page");
        assert_eq!(page(&guest, 0x1000, Access::Read), None, "no table");
    }

    /// The value that a part of a handler leaves in k0.
    fn computed(code: &[u32]) -> Option<u64> {
        // dmtc0 k0, EntryLo0; tlbwi
        let code = [code, &[0x40ba_1000, 0x4200_0002]].concat();
        let guest = Words::new(true, &code, &[(HANDLER + 0x1000, 0x8765_4321)]);
        let mut handler = Handler { seen: &guest, missed: 0xc000_0012_3456_7000, registers: [0; 32], halves: [0; 2], mask: 0 };
        handler.run().map(|()| handler.halves[0])
    }

    #[test]
    fn instructions_of_64_bit_handlers() {
        #[rustfmt::skip]
        let cases: &[(&str, &[u32], u64)] = &[
            ("dmfc0",             &[0x403a_4000],                           0xc000_0012_3456_7000),
            ("dsrl32",            &[0x403a_4000, 0x001a_d0be | 1 << 6],      0xc000_0012_3456_7000 >> 35),
            ("drotr",             &[0x403a_4000, 0x003a_d2fa],               0xc000_0012_3456_7000_u64.rotate_right(11)),
            ("dext 12, 9",        &[0x403a_4000, 0x7f5a_4303],               0xc000_0012_3456_7000 >> 12 & 0x1ff),
            ("dins 0, 0, 23",     &[0x403a_4000, 0x7c1a_b007],               0xc000_0012_3400_0000),
            ("lw",                &[0x3c1a_8000, 0x8f5a_1000],               0xffff_ffff_8765_4321),
            ("lwu",               &[0x3c1a_8000, 0x9f5a_1000],               0x8765_4321),
            ("branch and slot",   &[0x1000_0002, 0x675a_0001, 0, 0x675a_0001], 2),
            ("bltz, taken",       &[0x403a_4000, 0x0740_0002, 0, 0x0000_000d, 0x241a_0007], 7),
            ("bgez, not taken",   &[0x403a_4000, 0x0741_0002, 0, 0x241a_0007], 7),
        ];
        for (name, code, expected) in cases {
            assert_eq!(computed(code), Some(*expected), "{name}");
        }
    }

    #[test]
    fn a_handler_that_does_more_than_compute_is_given_up() {
        assert_eq!(computed(&[0xaf5b_0000]), None, "a store");
        assert_eq!(computed(&[0x0000_000c]), None, "a system call");
        assert_eq!(computed(&[0x1000_ffff, 0]), None, "a loop without end");
        assert_eq!(computed(&[0x403a_7000]), None, "a register that nobody knows");
    }
}
