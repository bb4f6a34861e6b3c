//! What every core whose instructions are words must prove before it is trusted, tried with the ISA's own instructions;
//! what is an ISA's alone it proves itself, in the `check.rs` of its own room.

use crate::unicorn::engine::{Core, TrapContext};
use crate::unicorn::kinds::{CoreKind, Register};
use crate::unicorn::line;
use crate::unicorn::ram::Ram;
use crate::unicorn::surgery::{CoreState, drop_translations};
use crate::unicorn::witness::{Witness, unfit};
use trapline_isa::mem::ByteOrder;

/// Where code is put, from the start of RAM.
const CODE: u64 = 0x10_0000;

/// A core with little around it.
pub struct Bench {
    pub core: Core<Witness>,
    pub ram: Ram,
    /// Room for its state.
    pub image: CoreState,
    /// Where code is put, as the core sees it.
    pub code: u64,
    /// How far above the place where it lies the core sees memory.
    seen: u64,
    /// Puts the core into the state in which the ISA's instructions are tried.
    prepare: fn(&TrapContext),
}

impl Bench {
    pub fn new(kind: &'static CoreKind, base: u64, order: ByteOrder, prepare: fn(&TrapContext)) -> Result<Bench, String> {
        let ram = Ram::at(base, 4 << 20, order).ok_or("the host has no memory for the self-check")?;
        let core: Core<Witness> = Core::new(kind, &ram)?;
        let image = CoreState::new(core.handle())?;
        Ok(Bench { core, ram, image, code: base + CODE, seen: 0, prepare })
    }

    /// The same for a core that sees memory so far above where it lies.
    pub fn seen_above(self, seen: u64) -> Bench {
        Bench { code: self.code.wrapping_add(seen), seen, ..self }
    }

    /// Where what the core sees there lies.
    fn physical(&self, address: u64) -> u64 {
        address.wrapping_sub(self.seen)
    }

    /// Puts code in its place and the pc in front of it.
    pub fn place(&mut self, words: &[u32]) {
        let lies = self.physical(self.code);
        for (word, at) in words.iter().zip((lies..).step_by(4)) {
            self.ram.set_word32(at, *word);
        }
        drop_translations(self.core.handle(), &self.ram, lies, 4 * words.len());
        (self.prepare)(&self.core.stopped());
        self.core.stopped().set_pc(self.code);
    }

    /// Runs code to its first trap, if it has one: that, and the pc there. The state afterwards is saved.
    pub fn run(&mut self, words: &[u32]) -> Option<(Option<u32>, u64)> {
        self.place(words);
        self.go()
    }

    /// The same for what has been placed.
    pub fn go(&mut self) -> Option<(Option<u32>, u64)> {
        let mut witness = Witness { stops: true, ..Witness::default() };
        self.core.run(&mut witness);
        self.image.save(self.core.handle());
        witness.last
    }

    pub fn set(&self, register: Register, value: u64) {
        self.core.stopped().write(register, value);
    }

    fn counted(&self, counters: [Register; 2]) -> (u64, u64) {
        let [one, other] = counters.map(|register| self.core.handle().read(register));
        (one, other)
    }
}

/// An ISA's instructions for what all must show.
pub struct Snippets {
    /// Two registers that hold 0 at first, and for each what adds 1 to it.
    pub counters: [Register; 2],
    pub add: [u32; 2],
    /// Ends a run: waits for an interrupt, or traps.
    pub end: u32,
    /// Registers and what they must hold for `overwrite`.
    pub values: [(Register, u64); 4],
    /// Writes a subroutine that adds 1 to the first counter and calls it, then the same with the second in its place.
    pub overwrite: &'static [u32],
    /// Stores a word to where the first of these registers points and loads one from where the second does.
    pub touch: [u32; 2],
    pub touched: [Register; 2],
    /// Bytes of such a word.
    pub word: usize,
}

/// That code which has changed is seen, and that the core shows where in memory it has just been.
pub fn prove(bench: &mut Bench, with: &Snippets) -> Result<(), String> {
    with.values.iter().for_each(|(register, value)| bench.set(*register, *value));
    let [one, other] = with.add;
    // The second stands where the first was: it must be seen after the drop.
    for (word, counted) in [(one, (1, 0)), (other, (1, 1))] {
        bench.run(&[word, with.end]);
        if bench.counted(with.counters) != counted {
            return Err(unfit("dropping translated code"));
        }
    }
    bench.run(&[with.overwrite, &[with.end]].concat());
    if bench.counted(with.counters) != (2, 2) {
        return Err(unfit("stores over translated code"));
    }
    // In pages that nothing else uses: afterwards the core shows where they lie, and those alone.
    let [written, read, neither] = [0x1_3450, 0x1_1238, 0x1_5000].map(|distance| bench.code + distance);
    let [store, load] = with.touch;
    bench.place(&[store, load, with.end]);
    bench.set(with.touched[0], written);
    bench.set(with.touched[1], read);
    bench.go();
    let Bench { core, ram, .. } = &*bench;
    let shown = |at: u64, write: bool| core.handle().cached_physical(ram, at, with.word, write);
    if shown(read, false) != Some(bench.physical(read))
        || shown(written, true) != Some(bench.physical(written))
        || [false, true].iter().any(|write| shown(neither, *write).is_some())
    {
        return Err(unfit("where the core has last found a page"));
    }
    core.flush_tlb();
    if core.handle().cached_physical(ram, written, with.word, true).is_some() {
        return Err(unfit("that what it has found is forgotten"));
    }
    Ok(())
}

/// That blocks count themselves: what has been placed adds 1 to the counter and branches back, in so many bytes.
pub fn prove_counting(bench: &mut Bench, bytes: u64, counter: Register) -> Result<(), String> {
    let code = bench.code;
    bench.set(counter, 0);
    bench.core.stopped().set_pc(code);
    line::self_check(&mut bench.core, code, bytes, |cpu| cpu.read(counter))
}
