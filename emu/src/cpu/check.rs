//! The self-check that all CPU cores with fixed-size instructions must pass, using the ISA's own instructions. Each
//! ISA's `check.rs` adds what is special to it.

use crate::unicorn::core_state::CoreState;
use crate::unicorn::engine::{Core, TrapContext};
use crate::unicorn::kinds::{CoreKind, Register};
use crate::unicorn::line;
use crate::unicorn::ram::Ram;
use crate::unicorn::recording_events::{RecordingEvents, unfit};
use trapline_isa::mem::ByteOrder;

/// Offset of the code from the start of RAM.
const CODE: u64 = 0x10_0000;

/// A core and RAM for the self-check.
pub struct Bench {
    pub core: Core<RecordingEvents>,
    pub ram: Ram,
    /// A buffer for the core's state.
    pub image: CoreState,
    /// The code's virtual address.
    pub code: u64,
    /// The difference between virtual and physical addresses.
    seen: u64,
    /// Sets the core's state for running test instructions.
    prepare: fn(&TrapContext),
}

impl Bench {
    pub fn new(kind: &'static CoreKind, base: u64, order: ByteOrder, prepare: fn(&TrapContext)) -> Result<Bench, String> {
        let ram = Ram::at(base, 4 << 20, order).ok_or("the host has no memory for the self-check")?;
        let core: Core<RecordingEvents> = Core::new(kind, &ram)?;
        let image = CoreState::new(core.handle())?;
        Ok(Bench { core, ram, image, code: base + CODE, seen: 0, prepare })
    }

    /// Returns the bench for a core whose virtual addresses are `seen` above the physical ones.
    pub fn seen_above(self, seen: u64) -> Bench {
        Bench { code: self.code.wrapping_add(seen), seen, ..self }
    }

    /// The physical address of a virtual one.
    fn physical(&self, address: u64) -> u64 {
        address.wrapping_sub(self.seen)
    }

    /// Writes code and sets the pc to it.
    pub fn place(&mut self, words: &[u32]) {
        let lies = self.physical(self.code);
        for (word, at) in words.iter().zip((lies..).step_by(4)) {
            self.ram.set_word32(at, *word);
        }
        (self.prepare)(&self.core.stopped());
        self.core.stopped().set_pc(self.code);
    }

    /// Runs code up to its first trap. Returns the trap's vector and pc, and saves the state afterwards.
    pub fn run(&mut self, words: &[u32]) -> Option<(Option<u32>, u64)> {
        self.place(words);
        self.go()
    }

    /// Runs the code that was placed, like [`Bench::run`].
    pub fn go(&mut self) -> Option<(Option<u32>, u64)> {
        let mut events = RecordingEvents { stops: true, ..RecordingEvents::default() };
        self.core.run(&mut events);
        self.image.save(self.core.handle());
        events.last
    }

    pub fn set(&self, register: Register, value: u64) {
        self.core.stopped().write(register, value);
    }

    fn counted(&self, counters: [Register; 2]) -> (u64, u64) {
        let [one, other] = counters.map(|register| self.core.handle().read(register));
        (one, other)
    }
}

/// An ISA's instructions for the common self-check.
pub struct Snippets {
    /// Two registers that start at 0, and an instruction for each that adds 1 to it.
    pub counters: [Register; 2],
    pub add: [u32; 2],
    /// Ends a run: waits for an interrupt, or traps.
    pub end: u32,
    /// The register values that `overwrite` needs.
    pub values: [(Register, u64); 4],
    /// Writes a subroutine that adds 1 to the first counter and calls it, then overwrites it to add 1 to the second
    /// counter and calls it again.
    pub overwrite: &'static [u32],
    /// Stores a word to the address in the first of `touched`, and loads one from the address in the second.
    pub touch: [u32; 2],
    pub touched: [Register; 2],
    /// Size of that word in bytes.
    pub word: usize,
}

/// Proves that the core sees changed code (self-modifying code), and that its TLB shows which physical pages it has
/// just accessed.
pub fn prove(bench: &mut Bench, with: &Snippets) -> Result<(), String> {
    with.values.iter().for_each(|(register, value)| bench.set(*register, *value));
    let [one, other] = with.add;
    // The second instruction overwrites the first; the core must see it after the drop.
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
    // Accesses pages that nothing else uses. The TLB must then have their physical addresses, and no other page's.
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

/// Proves that blocks count their own time. The placed code, of `bytes` bytes, adds 1 to the counter and branches back.
pub fn prove_counting(bench: &mut Bench, bytes: u64, counter: Register) -> Result<(), String> {
    let code = bench.code;
    bench.set(counter, 0);
    bench.core.stopped().set_pc(code);
    line::self_check(&mut bench.core, code, bytes, |cpu| cpu.read(counter))
}
