//! Hits of faithful detours. A faithful detour is guest code that saves the registers in a frame on the guest's stack
//! and calls a trampoline, as Linux's optprobe template does. [`Framed`] is the CPU that handlers then see: its
//! registers are read from and written to that frame.

use crate::engine::Engine;
use crate::forward::{memory_of_the_cpu, rest_of_the_cpu};
use crate::guest::{Answer, Cpu, Instant};
use trapline_isa::arch::Isa;
use trapline_isa::detour::{FRAME_MOST, Faithful, Form, FrameWord, Saving};
use trapline_isa::mem::{Fault, Memory};
use trapline_isa::regs::{Reg, Registers};

const WORD_MOST: usize = 8;

/// A CPU whose registers are those of a frame. The pc is the CPU's own, and has been set to the probed address.
struct Framed<'a, C> {
    cpu: &'a mut C,
    isa: &'static Isa,
    layout: &'static [FrameWord],
    at: u64,
    words: [u64; FRAME_MOST],
    /// Index of the first word that the host had to fill in or correct.
    first_mended: usize,
    changed: bool,
}

impl Engine {
    fn faithful(&self) -> Option<&'static Faithful> {
        self.isa.detour?.faithful
    }

    /// Called when the jump of an optimised probe has brought a CPU to the start of a faithful detour. Remembers the
    /// stack pointer.
    #[inline(never)]
    pub fn saving(&mut self, cpu: &mut impl Cpu) {
        let sp = cpu.get(self.isa.abi.sp);
        if let Some(state) = self.cpus.get_mut(cpu.number()) {
            state.saving_at = sp;
        }
    }

    /// Called when a faithful detour has called the trampoline, with the probed address and the frame's address as
    /// arguments. Runs the handlers on the registers in the frame. Does nothing if no probe has that address.
    #[inline(never)] // Out of line, so that the lean detour's path stays short.
    pub fn called(&mut self, cpu: &mut impl Cpu) {
        let (Some(table), [probed, at, ..]) = (self.faithful(), self.isa.abi.arguments) else { return };
        let (probed, at) = (cpu.get(*probed), cpu.get(*at));
        let Some(point) = self.points.at(probed) else { return };
        cpu.set_pc(probed);
        if let Some(mut framed) = Framed::read(cpu, self.isa, table, at) {
            // Complete the frame in guest memory, because a handler may read it there.
            framed.write(framed.first_mended);
            self.jumped_in(&mut framed, point);
            if framed.changed {
                framed.write(0);
            }
        }
    }

    /// Handles a fault of a faithful detour's pushes: the stack has no room for the frame, which the unprobed code
    /// would not need. The handlers run on the live registers, then the displaced instructions, as in a lean detour.
    pub(crate) fn frame_found_no_room(&mut self, cpu: &mut impl Cpu, number: usize, pc: u64) -> Option<Answer> {
        let (point, slot) = self.slot_around(pc).filter(|(_, slot)| slot.form == Form::Faithful && pc >= slot.detour())?;
        let (table, address) = (self.faithful()?, self.points.get(point)?.address());
        let into = (pc - slot.detour()) as usize;
        if into >= table.save.len() + table.call_length {
            return None;
        }
        if into >= table.save.len() {
            // The frame is complete, and only the call found no room. Its arguments overwrote registers, so reload them
            // from the frame.
            let at = cpu.get(self.isa.abi.sp);
            Framed::read(cpu, self.isa, table, at)?.make_live();
        }
        cpu.set(self.isa.abi.sp, self.cpus.get(number)?.saving_at);
        cpu.set_pc(address);
        self.jumped_in(cpu, point);
        cpu.set_pc(slot.detoured());
        Some(self.resume(number, 0, true))
    }
}

impl<'a, C: Cpu> Framed<'a, C> {
    /// Reads the frame at an address and fills in the words that the guest code does not save.
    fn read(cpu: &'a mut C, isa: &'static Isa, table: &Faithful, at: u64) -> Option<Framed<'a, C>> {
        let layout = table.frame;
        let mut bytes = [0; FRAME_MOST * WORD_MOST];
        let bytes = bytes.get_mut(..layout.len() * isa.word)?;
        cpu.read(at, bytes).ok()?;
        let mut words = [0; FRAME_MOST];
        for ((value, bytes), word) in words.iter_mut().zip(bytes.chunks_exact(isa.word)).zip(layout) {
            *value = match word.kind {
                Saving::Restored | Saving::Saved => isa.order.number(bytes),
                Saving::Moved(by) => isa.order.number(bytes).wrapping_add(by),
                Saving::Filled => cpu.get(word.reg),
            };
        }
        let is_whole = |word: &FrameWord| matches!(word.kind, Saving::Restored | Saving::Saved);
        let first_mended = layout.iter().take_while(|word| is_whole(word)).count();
        Some(Framed { cpu, isa, layout, at, words, first_mended, changed: false })
    }

    /// Writes the frame back to guest memory, from word `first` on.
    fn write(&mut self, first: usize) {
        let word = self.isa.word;
        let mut bytes = [0; FRAME_MOST * WORD_MOST];
        let words = self.words.get(first..self.layout.len()).unwrap_or_default();
        for (value, bytes) in words.iter().zip(bytes.chunks_exact_mut(word)) {
            self.isa.order.put(*value, bytes);
        }
        // The guest has just written there. The write fails only if a handler has changed the page tables.
        let _ = self.cpu.write(self.at.wrapping_add((first * word) as u64), &bytes[..words.len() * word]);
    }

    /// Loads the CPU's registers from the frame.
    fn make_live(&mut self) {
        for (word, value) in self.layout.iter().zip(self.words).filter(|(word, _)| word.kind == Saving::Restored) {
            self.cpu.set(word.reg, value);
        }
    }

    fn find(&self, reg: Reg) -> Option<(usize, Saving)> {
        let number = self.layout.iter().position(|word| word.reg == reg)?;
        Some((number, self.layout[number].kind))
    }
}

impl<C: Cpu> Registers for Framed<'_, C> {
    fn get(&self, reg: Reg) -> u64 {
        match self.find(reg) {
            Some((number, Saving::Restored | Saving::Saved | Saving::Moved(_))) => self.words[number],
            Some((_, Saving::Filled)) | None => self.cpu.get(reg),
        }
    }
    fn set(&mut self, reg: Reg, value: u64) {
        match self.find(reg) {
            Some((number, Saving::Restored)) => {
                self.words[number] = value & u64::MAX >> (64 - 8 * self.isa.word);
                self.changed = true;
            }
            Some(_) => {}
            None => self.cpu.set(reg, value),
        }
    }
    fn pc(&self) -> u64 {
        self.cpu.pc()
    }
    fn set_pc(&mut self, pc: u64) {
        self.cpu.set_pc(pc);
    }
}

impl<C: Cpu> Memory for Framed<'_, C> {
    memory_of_the_cpu!();
}

impl<C: Cpu> Cpu for Framed<'_, C> {
    fn now(&self) -> u64 {
        self.cpu.now()
    }
    fn instant(&self) -> Option<Instant> {
        self.cpu.instant()
    }
    fn stopped_in_delay_slot(&mut self, then: u64) {
        self.cpu.stopped_in_delay_slot(then);
    }
    fn patch_text(&mut self, address: u64, bytes: &[u8]) -> Result<(), Fault> {
        self.cpu.patch_text(address, bytes)
    }
    rest_of_the_cpu!();
}
