//! Executes the system instructions (opcode 0) and the instructions for the TLB and caches (opcode 1). `execute.rs` calls
//! both. Most return [`Step::Look`], because they may change what the rest of the decoded block depends on.

use super::decode::Op;
use super::execute::Step;
use super::run::Core;
use super::tlb::{PAGE_BITS, Purpose};
use super::{number, psw};
use crate::Host;
use trapline_isa::parisc::fields::{bits, space3};

impl Core {
    fn is_program(&self) -> bool {
        self.state.front_level.get() != 0
    }

    /// Executes a system instruction. Each arm has the code of its extension field.
    pub(super) fn system(&mut self, host: &mut impl Host, op: Op, pc: u32, back: u32) -> Step {
        let word = op.word;
        let code = bits(word, 19, 26);
        let (upper, value) = (usize::from(op.a), self.r(op.b));
        match code {
            0x00 => return Step::Exception(number::BREAK), // break
            0x20 => {}                                     // sync: accesses are in order anyway
            // mfsp
            0x25 => self.set(op.t, self.state.spaces[space3(word) as usize & 7].get()),
            0x45 => return self.read_control(host, op, (pc, back)), // mfctl
            // rfi, rfir
            0x60 | 0x65 => {
                if self.is_program() {
                    return Step::Exception(number::PRIVILEGED);
                }
                self.state.return_from_interruption(code == 0x65);
                return Step::Leave;
            }
            // ssm sets bits of the system mask, rsm clears them.
            0x6b | 0x73 => {
                if self.is_program() {
                    return Step::Exception(number::PRIVILEGED);
                }
                let (old, mask) = (self.state.status.get(), bits(word, 6, 15) & psw::SYSTEM_MASK);
                self.state.status.set(if code == 0x6b { old | mask } else { old & !mask });
                self.set(op.t, old & psw::SYSTEM_MASK);
            }
            // ldsid
            0x85 => self.set(op.t, self.space_of(bits(word, 16, 17) as u8, self.r(op.a))),
            // mfia
            0xa5 => self.set(op.t, pc | self.state.front_level.get()),
            // mtsp
            0xc1 => {
                let space = space3(word) as usize & 7;
                if space >= 5 && self.is_program() {
                    return Step::Exception(number::PRIVILEGED_REGISTER);
                }
                self.state.spaces[space].set(value);
            }
            // mtctl
            0xc2 => {
                if upper != number::SAR && self.is_program() {
                    return Step::Exception(number::PRIVILEGED_REGISTER);
                }
                self.write_control(host, upper, value, (pc, back));
            }
            // mtsm
            0xc3 => {
                if self.is_program() {
                    return Step::Exception(number::PRIVILEGED);
                }
                self.state.status.set(self.state.status.get() & !psw::SYSTEM_MASK | value & psw::SYSTEM_MASK);
            }
            // mtsarcm
            0xc6 if upper == number::SAR => self.state.control[number::SAR].set(!value & 31),
            _ => return Step::Exception(number::ILLEGAL),
        }
        Step::Look
    }

    fn read_control(&mut self, host: &mut impl Host, op: Op, (pc, back): (u32, u32)) -> Step {
        let register = usize::from(op.a);
        let is_open = match register {
            number::ITMR => self.state.status.get() & psw::S == 0,
            _ => matches!(register, number::SAR | 26 | 27),
        };
        if !is_open && self.is_program() {
            return Step::Exception(number::PRIVILEGED_REGISTER);
        }
        match register {
            1..=7 => self.set(op.t, 0),
            // The host writes the time to the register `clock_to`, which may be r0. So r0 becomes 0 again behind the call.
            number::ITMR => {
                self.state.front.set(pc);
                self.state.back.set(back);
                self.state.clock_to.set(op.t.into());
                host.read_clock();
                self.state.general[0].set(0);
                self.drop_changed(host);
            }
            number::EIRR => {
                self.state.front.set(pc);
                self.state.back.set(back);
                let requested = host.external_interrupts();
                self.drop_changed(host);
                self.set(op.t, self.state.control[number::EIRR].get() | requested);
            }
            _ => self.set(op.t, self.state.control[register & 31].get()),
        }
        Step::Look
    }

    fn write_control(&mut self, host: &mut impl Host, register: usize, value: u32, (pc, back): (u32, u32)) {
        if matches!(register, number::ITMR | number::EIRR) {
            self.state.front.set(pc);
            self.state.back.set(back);
            host.writes_control(number::word_of(register), value);
            self.drop_changed(host);
        }
        match register {
            number::SAR => self.state.control[number::SAR].set(value & 31),
            // Writing a one clears the bit.
            number::EIRR => self.state.control[number::EIRR].set(self.state.control[number::EIRR].get() & !value),
            // These registers are queues of two elements: a write moves the back element to the front.
            number::IIASQ | number::IIAOQ => {
                let back = &self.state.saved_back[register - number::IIASQ];
                self.state.control[register].set(back.get());
                back.set(value);
            }
            1..=7 => {}
            // The protection identifiers, which the cached translations depend on.
            8 | 9 | 12 | 13 => {
                self.state.control[register].set(value);
                self.data.forget_all();
                self.code.generation = self.code.generation.wrapping_add(1);
            }
            _ => self.state.control[register & 31].set(value),
        }
    }

    /// Executes the instructions for the TLB and for caches. The CPU has no caches, so their flushes do nothing. A change of the
    /// TLB starts a new generation of the decoded blocks, which invalidates the links between them.
    pub(super) fn manage(&mut self, op: Op) -> Step {
        let word = op.word;
        let (base, index) = (self.r(op.a), self.r(op.b));
        let modifies = bits(word, 26, 26) != 0;
        let code = bits(word, 19, 25);
        let is_for_code = matches!(code, 0x00 | 0x01 | 0x08..=0x0b);
        let space = if is_for_code {
            self.state.spaces[space3(word) as usize & 7].get()
        } else {
            self.space_of(bits(word, 16, 17) as u8, base)
        };
        let needs_privilege = matches!(code, 0x00 | 0x01 | 0x08 | 0x09 | 0x40 | 0x41 | 0x48 | 0x49 | 0x4c | 0x4d);
        if needs_privilege && self.is_program() {
            return Step::Exception(number::PRIVILEGED);
        }
        let address = base.wrapping_add(index);
        match code {
            // iitlba, idtlba
            0x01 | 0x41 => {
                // The insertion replaces an entry, whose cached translation must go, too.
                let replaced = &self.state.tlb.0[self.state.replace.get() as usize % super::ENTRIES];
                self.data.forget(replaced.page.get());
                self.data.forget(base);
                self.state.insert_address(space, base, index);
                self.code.generation = self.code.generation.wrapping_add(1);
            }
            // iitlbp, idtlbp
            0x00 | 0x40 => {
                self.data.forget(base);
                self.state.insert_rights(space, base, index);
                self.code.generation = self.code.generation.wrapping_add(1);
            }
            // pitlb, pdtlb
            0x08 | 0x48 => {
                self.data.forget(address);
                self.state.purge(space, address);
                self.code.generation = self.code.generation.wrapping_add(1);
            }
            // pitlbe, pdtlbe
            0x09 | 0x49 => {
                self.data.forget_all();
                self.state.purge_all();
                self.code.generation = self.code.generation.wrapping_add(1);
            }
            0x0a | 0x0b | 0x4a | 0x4b | 0x4e | 0x4f => {} // fic, fice, fdc, fdce, pdc, fic
            // prober and probew
            0x46 | 0x47 => return self.probe(op, space, base),
            // lci: addresses with the same coherence index share a cache line. Without caches all are coherent.
            0x4c if !modifies => self.set(op.t, 0),
            // lpa
            0x4d => match self.physical_of(space, address) {
                Some(physical) => self.set(op.t, physical),
                None => return self.missed(space, address),
            },
            _ => return Step::Exception(number::ILLEGAL),
        }
        if modifies {
            self.set(op.a, address);
        }
        Step::Look
    }

    /// Executes `diag`, whose meaning each CPU model defines. Ours sets the block entry with the number in the instruction.
    /// r26 has the virtual address in space 0, r25 the physical address, r24 the number of bytes, and r23 the rights.
    pub(super) fn diagnose(&mut self, op: Op) -> Step {
        if self.is_program() {
            return Step::Exception(number::PRIVILEGED);
        }
        let Some(block) = self.state.blocks.0.get((op.word & 0x03ff_ffff) as usize) else {
            return Step::Exception(number::ILLEGAL);
        };
        let whole_pages = |register: u8| self.r(register) & !((1 << PAGE_BITS) - 1);
        block.start.set(whole_pages(26));
        block.physical.set(whole_pages(25));
        block.len.set(whole_pages(24));
        block.rights.set(self.r(23));
        self.data.forget_all();
        self.code.generation = self.code.generation.wrapping_add(1);
        Step::Look
    }

    fn physical_of(&self, space: u32, address: u32) -> Option<u32> {
        let entry = self.state.entry(space, address)?;
        Some(entry.physical.get() | address & 0xfff)
    }

    fn missed(&self, space: u32, address: u32) -> Step {
        self.state.at_space.set(space);
        self.state.at.set(address);
        Step::Exception(number::OTHER_MISS)
    }

    /// Executes `prober` and `probew`. The target becomes 1 if the privilege level may read or write the address, and 0 if not.
    fn probe(&mut self, op: Op, space: u32, address: u32) -> Step {
        let asked = if bits(op.word, 18, 18) != 0 { op.b.into() } else { self.r(op.b) } & 3;
        let level = asked.max(self.state.front_level.get());
        let purpose = if bits(op.word, 25, 25) != 0 { Purpose::Store } else { Purpose::Load };
        if self.state.status.get() & psw::D != 0 {
            let Some(entry) = self.state.entry(space, address) else { return self.missed(space, address) };
            let allows = entry.allows(purpose, level) && self.state.has_identifier(&entry, purpose);
            self.set(op.t, allows.into());
        } else {
            self.set(op.t, 1);
        }
        Step::Look
    }
}
