//! Proves, once per process and kind of core, that the offsets and the private calls do for MIPS cores what they are used for.

use super::core;
use super::state::{self, STATUS_CU0, STATUS_IN, STATUS_KX};
use super::trap::{ADDRESS_LOAD, BREAKPOINT, SYSTEM_CALL, TLB_LOAD};
use crate::unicorn::engine::{Core, TrapContext};
use crate::unicorn::kinds::CoreKind;
use crate::unicorn::line;
use crate::unicorn::mips::Place;
use crate::unicorn::ram::Ram;
use crate::unicorn::surgery::{CoreState, drop_translations};
use crate::unicorn::witness::{Witness, unfit};
use std::sync::OnceLock;
use trapline_isa::mips::{Set, abi};
use trapline_isa::regs::Reg;

/// The answer; the first call finds it out.
pub fn big_32() -> Result<(), String> {
    static ANSWER: OnceLock<Result<(), String>> = OnceLock::new();
    ANSWER.get_or_init(|| check(Set::Big32, &core::BIG_32)).clone()
}

/// The same with the low byte first.
pub fn little_32() -> Result<(), String> {
    static ANSWER: OnceLock<Result<(), String>> = OnceLock::new();
    ANSWER.get_or_init(|| check(Set::Little32, &core::LITTLE_32)).clone()
}

/// The same of 64 bits.
pub fn big_64() -> Result<(), String> {
    static ANSWER: OnceLock<Result<(), String>> = OnceLock::new();
    ANSWER.get_or_init(|| check(Set::Big64, &core::BIG_64)).clone()
}

/// The same of 64 bits with the low byte first.
pub fn little_64() -> Result<(), String> {
    static ANSWER: OnceLock<Result<(), String>> = OnceLock::new();
    ANSWER.get_or_init(|| check(Set::Little64, &core::LITTLE_64)).clone()
}

const CODE: u64 = 0x10_0000;
const SEEN: u64 = 0xffff_ffff_8000_0000 + CODE;
/// `break`, behind what is tried.
const END: u32 = 0x0000_000d;

struct Bench {
    set: Set,
    ram: Ram,
    core: Core<Witness>,
    image: CoreState,
}

impl Bench {
    fn new(set: Set, kind: &'static CoreKind) -> Result<Bench, String> {
        let ram = Ram::at(0, 4 << 20, set.order()).ok_or("the host has no memory for the self-check")?;
        let core: Core<Witness> = Core::new(kind, &ram)?;
        core.stopped().prepare_mips(0);
        core.stopped().set_status(STATUS_CU0 | if set.is_64() { STATUS_KX } else { 0 });
        let image = CoreState::new(core.handle())?;
        Ok(Bench { set, ram, core, image })
    }

    fn place(&mut self, words: &[u32]) {
        for (word, index) in words.iter().zip(0..) {
            self.ram.write(CODE + 4 * index, &self.set.bytes(*word));
        }
        drop_translations(self.core.handle(), &self.ram, CODE, 4 * words.len());
        self.core.stopped().set_pc(self.set.cut(SEEN));
    }

    /// Runs to the first exception: which, and where.
    fn run(&mut self, words: &[u32]) -> (u32, u64) {
        self.place(words);
        let mut witness = Witness { stops: true, ..Witness::default() };
        self.core.run(&mut witness);
        let (vector, pc) = witness.last.unwrap_or_default();
        (vector.unwrap_or_default(), pc)
    }

    fn get(&self, reg: Reg) -> u64 {
        state::get(&self.core.handle(), reg, 0)
    }

    fn set(&self, reg: Reg, value: u64) {
        state::set(&self.core.stopped(), reg, value);
    }
}

fn check(set: Set, kind: &'static CoreKind) -> Result<(), String> {
    let mut bench = Bench::new(set, kind)?;
    check_registers(&bench.core.stopped(), &mut bench.image, set).map_err(unfit_at)?;
    let (v0, a0, here) = (abi::r(2), abi::r(4), set.cut(SEEN));
    let at = |offset: u64| set.cut(SEEN + offset);

    // addiu v0,v0,1, then addiu v0,v0,16 in its place: the second must be seen after the drop.
    bench.run(&[0x2442_0001, END]);
    let first = bench.get(v0);
    bench.run(&[0x2442_0010, END]);
    if (first, bench.get(v0)) != (1, 17) {
        return Err(unfit("dropping translated code"));
    }
    // Where each exception is, and which; the last but one in a delay slot: its own address, which the flags tell.
    // The entries of a TLB that nobody has written are for the first page, and not valid.
    bench.set(a0, 0x40_0041);
    #[rustfmt::skip]
    let cases: [(&[u32], (u32, u64), bool); 5] = [
        (&[0, 0, END],                    (BREAKPOINT, at(8)),   false),
        (&[0, 0x0000_000c],               (SYSTEM_CALL, at(4)),  false),
        (&[0, 0, 0, 0x8c82_0000],         (ADDRESS_LOAD, at(12)), false), // lw v0,0(a0)
        (&[0, 0x1000_0004, 0x8c82_0000],  (ADDRESS_LOAD, at(8)), true),  // b, with it in its slot
        (&[0x8c82_0003],                  (TLB_LOAD, here),      false), // lw v0,3(a0): no such page
    ];
    for (words, expected, delayed) in cases {
        let found = bench.run(words);
        let flags = bench.core.handle().at_place(Place::Flags);
        if found != expected || (flags & state::FLAGS_BRANCH != 0) != delayed {
            return Err(unfit("where the pc of an exception is kept"));
        }
        bench.core.stopped().set_place(Place::Flags, flags & !state::FLAGS_BRANCH);
    }
    if bench.core.handle().at_place(Place::BadVAddr) != 0x40_0044 {
        return Err(unfit("where the address of a fault is kept"));
    }
    // Delivered: EPC, the branch-delay bit, the code and the vector, for a miss in the TLB that of a miss.
    bench.core.stopped().enter_handler(TLB_LOAD, at(16), true);
    let handle = bench.core.handle();
    let (epc, cause, status) = (handle.at_place(Place::Epc), handle.at_place(Place::Cause), handle.at_place(Place::Status));
    let vector = set.cut(0xffff_ffff_8000_0000);
    let code = (cause >> 31, cause >> 2 & 31, status & state::STATUS_EXL != 0);
    if (epc, code) != (at(16), (1, 2, true)) || ![vector, vector + 0x80].contains(&handle.pc()) {
        return Err(unfit("how an exception enters its handler"));
    }
    bench.core.stopped().set_status(status & !state::STATUS_EXL);
    check_quick_accesses(&mut bench)?;
    // A run of 2000 instructions without a branch: the library's translator has room for 380.
    let long: Vec<u32> = std::iter::repeat_n(0x2442_0001, 2000).chain([END]).collect();
    bench.set(v0, 0);
    if bench.run(&long) != (BREAKPOINT, at(8000)) || bench.get(v0) != 2000 {
        return Err(unfit("long runs without a branch"));
    }
    // addiu v0,v0,1; b back; nop.
    bench.place(&[0x2442_0001, 0x1000_fffe, 0]);
    bench.set(v0, 0);
    line::self_check(&mut bench.core, here, 12, |handle| state::get(handle, v0, 0))
}

fn unfit_at(what: &'static str) -> String {
    unfit(what)
}

/// sw v0,0(a1); lw v0,0(a0), at addresses of pages that nothing else uses: afterwards the core shows where they lie, and those alone.
fn check_quick_accesses(bench: &mut Bench) -> Result<(), String> {
    const READ: u64 = CODE + 0x1_1238;
    const WRITTEN: u64 = CODE + 0x1_3450;
    const NEITHER: u64 = CODE + 0x1_5000;
    let seen = |physical: u64| bench.set.cut(0xffff_ffff_8000_0000 + physical);
    let (read, written, neither) = (seen(READ), seen(WRITTEN), seen(NEITHER));
    bench.set(abi::r(4), read);
    bench.set(abi::r(5), written);
    bench.run(&[0xaca2_0000, 0x8c82_0000, END]);
    let (handle, ram) = (bench.core.handle(), &bench.ram);
    let shown = [read, written, neither].map(|at| [false, true].map(|write| handle.cached_physical(ram, at, 4, write)));
    bench.core.flush_tlb();
    let forgotten = handle.cached_physical(ram, written, 4, true);
    if shown[0][0] != Some(READ) || shown[1][1] != Some(WRITTEN) || shown[2] != [None; 2] || forgotten.is_some() {
        return Err(unfit("where the core has last found a page"));
    }
    Ok(())
}

/// Writes known values one way and looks for them the other; the error names the field that is not where it should be.
fn check_registers(cpu: &TrapContext, image: &mut CoreState, set: Set) -> Result<(), &'static str> {
    let handle = cpu.handle();
    if handle.place_of(Place::Status) != STATUS_IN[usize::from(set.is_64())] {
        return Err("status");
    }
    let before = handle.at_place(Place::Status);
    for (mark, is_off) in [(0x1111_2220, true), (0x8555_6664, false)] {
        cpu.set_status(before | u64::from(!is_off));
        cpu.set_pc(mark);
        image.save(handle);
        if (state::saved_pc(image), state::saved_interrupts_off(image)) != (mark, is_off) {
            return Err("pc or status");
        }
    }
    cpu.set_status(before);
    for (reg, register) in (1..state::GENERAL).map(|number| (Reg(number), number)).chain([(abi::HI, 33), (abi::LO, 34)]) {
        let mark = set.cut(0x8765_4321_1234_5678 + u64::from(register));
        state::set(cpu, reg, mark);
        if state::get(&handle, reg, 0) != mark || handle.general_by_library(register) != Some(mark) {
            return Err("a general register");
        }
        state::set(cpu, reg, 0);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    /// Every kind of core does what the machine takes it for: the pc at exceptions, its own victims in the TLB, runs of any length without a
    /// branch.
    #[test]
    fn each_kind_of_core_passes_its_self_check() {
        for check in [super::little_32, super::big_32, super::little_64, super::big_64] {
            assert_eq!(check(), Ok(()));
        }
    }
}
