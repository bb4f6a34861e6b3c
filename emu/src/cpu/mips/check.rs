//! Proves, once per process and kind of core, the offsets and private functions that are used on MIPS cores.

use super::core;
use super::state::{self, STATUS_CU0, STATUS_IN, STATUS_KX};
use super::trap::{ADDRESS_LOAD, BREAKPOINT, SYSTEM_CALL, TLB_LOAD};
use crate::cpu::check::{self, Bench, Snippets};
use crate::unicorn::core_state::CoreState;
use crate::unicorn::cpus::mips::Place;
use crate::unicorn::engine::TrapContext;
use crate::unicorn::kinds::{CoreKind, Register};
use crate::unicorn::recording_events::unfit;
use std::sync::OnceLock;
use trapline_isa::mips::{Set, abi};
use trapline_isa::regs::Reg;
use unicorn_engine_sys::RegisterMIPS;

/// The result for the 32-bit big-endian core, computed at the first call.
pub fn big_32() -> Result<(), String> {
    static ANSWER: OnceLock<Result<(), String>> = OnceLock::new();
    ANSWER.get_or_init(|| check(Set::Big32, &core::BIG_32)).clone()
}

/// The result for the 32-bit little-endian core, computed at the first call.
pub fn little_32() -> Result<(), String> {
    static ANSWER: OnceLock<Result<(), String>> = OnceLock::new();
    ANSWER.get_or_init(|| check(Set::Little32, &core::LITTLE_32)).clone()
}

/// The result for the 64-bit big-endian core, computed at the first call.
pub fn big_64() -> Result<(), String> {
    static ANSWER: OnceLock<Result<(), String>> = OnceLock::new();
    ANSWER.get_or_init(|| check(Set::Big64, &core::BIG_64)).clone()
}

/// The result for the 64-bit little-endian core, computed at the first call.
pub fn little_64() -> Result<(), String> {
    static ANSWER: OnceLock<Result<(), String>> = OnceLock::new();
    ANSWER.get_or_init(|| check(Set::Little64, &core::LITTLE_64)).clone()
}

/// The start of KSEG0, which needs no TLB entries.
const UNMAPPED: u64 = 0xffff_ffff_8000_0000;
/// `break`, which ends the tested code.
const END: u32 = 0x0000_000d;
/// The instruction `addiu v0,v0,1`.
const COUNT: u32 = 0x2442_0001;

/// A core in kernel mode, ready for the tests.
fn bench_of(set: Set, kind: &'static CoreKind) -> Result<Bench, String> {
    let in_kernel = |cpu: &TrapContext| cpu.set_status(STATUS_CU0 | if cpu.handle().is_wide() { STATUS_KX } else { 0 });
    let bench = Bench::new(kind, 0, set.order(), in_kernel)?;
    bench.core.stopped().prepare_mips(0);
    in_kernel(&bench.core.stopped());
    Ok(bench.seen_above(set.cut(UNMAPPED)))
}

fn check(set: Set, kind: &'static CoreKind) -> Result<(), String> {
    let mut bench = bench_of(set, kind)?;
    check_registers(&bench.core.stopped(), &mut bench.image, set).map_err(unfit)?;
    let [v0, v1] = [RegisterMIPS::V0, RegisterMIPS::V1].map(Register::from);
    let [a0, a1, a2, a3] = [RegisterMIPS::A0, RegisterMIPS::A1, RegisterMIPS::A2, RegisterMIPS::A3].map(Register::from);
    let here = bench.code;
    let at = |offset: u64| here + offset;
    check::prove(
        &mut bench,
        &Snippets {
            counters: [v0, v1],
            // addiu v0,v0,1; addiu v1,v1,1
            add: [COUNT, 0x2463_0001],
            end: END,
            // a2 holds `jr ra`; the addition is in its delay slot.
            values: [(a0, COUNT.into()), (a1, at(0x1000)), (a2, 0x03e0_0008), (a3, 0x2463_0001)],
            // sw a2,0(a1); sw a0,4(a1); jalr a1; nop; sw a3,4(a1); jalr a1; nop
            overwrite: &[0xaca6_0000, 0xaca4_0004, 0x00a0_f809, 0, 0xaca7_0004, 0x00a0_f809, 0],
            // sw v0,0(a1); lw v0,0(a0)
            touch: [0xaca2_0000, 0x8c82_0000],
            touched: [a1, a0],
            word: 4,
        },
    )?;
    // The pc and vector of each exception. In the last but one case, the instruction is in a delay slot: the pc is its
    // own, and a flag says so. Unwritten TLB entries are for the first page, and invalid.
    #[rustfmt::skip]
    let cases: [(&[u32], (u32, u64), bool); 5] = [
        (&[0, 0, END],                    (BREAKPOINT, at(8)),   false),
        (&[0, 0x0000_000c],               (SYSTEM_CALL, at(4)),  false),
        (&[0, 0, 0, 0x8c82_0000],         (ADDRESS_LOAD, at(12)), false), // lw v0,0(a0)
        (&[0, 0x1000_0004, 0x8c82_0000],  (ADDRESS_LOAD, at(8)), true),  // b, with it in its slot
        (&[0x8c82_0003],                  (TLB_LOAD, here),      false), // lw v0,3(a0): no such page
    ];
    for (words, expected, delayed) in cases {
        bench.place(words);
        bench.set(a0, 0x40_0041);
        let found = bench.go();
        let flags = bench.core.handle().at_place(Place::Flags);
        if found != Some((Some(expected.0), expected.1)) || (flags & state::FLAGS_BRANCH != 0) != delayed {
            return Err(unfit("where the pc of an exception is kept"));
        }
        bench.core.stopped().set_place(Place::Flags, flags & !state::FLAGS_BRANCH);
    }
    if bench.core.handle().at_place(Place::BadVAddr) != 0x40_0044 {
        return Err(unfit("where the address of a fault is kept"));
    }
    // Delivers an exception: checks EPC, Cause.BD, Cause.ExcCode and the vector (a TLB miss may have its own).
    bench.core.stopped().enter_handler(TLB_LOAD, at(16), true);
    let handle = bench.core.handle();
    let (epc, cause, status) = (handle.at_place(Place::Epc), handle.at_place(Place::Cause), handle.at_place(Place::Status));
    let vector = set.cut(UNMAPPED);
    let code = (cause >> 31, cause >> 2 & 31, status & state::STATUS_EXL != 0);
    if (epc, code) != (at(16), (1, 2, true)) || ![vector, vector + 0x80].contains(&handle.pc()) {
        return Err(unfit("how an exception enters its handler"));
    }
    bench.core.stopped().set_status(status & !state::STATUS_EXL);
    // 2000 instructions without a branch. Unicorn's translator has room for 380 in a block.
    let long: Vec<u32> = std::iter::repeat_n(COUNT, 2000).chain([END]).collect();
    bench.place(&long);
    bench.set(v0, 0);
    if bench.go() != Some((Some(BREAKPOINT), at(8000))) || bench.core.handle().read(v0) != 2000 {
        return Err(unfit("long runs without a branch"));
    }
    // addiu v0,v0,1; b back; nop.
    bench.place(&[COUNT, 0x1000_fffe, 0]);
    check::prove_counting(&mut bench, 12, v0)
}

/// Writes values one way and reads them the other; the error names the field that differs.
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
    /// Every kind of core passes the self-check: the pc at exceptions, TLB replacement per CPU, long blocks.
    #[test]
    fn each_kind_of_core_passes_its_self_check() {
        for check in [super::little_32, super::big_32, super::little_64, super::big_64] {
            assert_eq!(check(), Ok(()));
        }
    }
}
