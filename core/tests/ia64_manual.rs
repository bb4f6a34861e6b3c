//! IA-64: results of single instructions that random cases found to differ from ski, and from the manual's words.

use std::cell::Cell;
use trapline_core::ia64::{Claim, Core, FLOATS, Host, Real, State, cr, isr, psr, vector};
use trapline_isa::ia64::bundle::Bundle;

/// The address of the data.
const DATA: u64 = 0x100;

/// RAM with the instruction at 0, and the last interruption with its status.
struct Machine {
    ram: [u8; 0x200],
    raised: Cell<Option<(u32, u64)>>,
}

impl Host for Machine {
    fn load(&mut self, physical: u64, size: u32) -> Option<u64> {
        let bytes = self.ram.get(physical as usize..physical as usize + size as usize)?;
        Some(bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }
    fn store(&mut self, _: u64, _: u32, _: u64) -> bool {
        true
    }
    fn device_in(&mut self, _: u64, _: u32) -> u64 {
        0
    }
    fn device_out(&mut self, _: u64, _: u32, _: u64) {}
    fn clock(&mut self) -> u64 {
        0
    }
    fn exception(&mut self, state: &State, number: u32) {
        self.raised.set(Some((number, state.fault_status.get())));
        state.stop.set(1);
    }
}

/// Runs an instruction of an M slot, or of the I slot behind it if `unit` is 1. The state is prepared first.
fn run(unit: usize, word: u64, prepare: impl Fn(&State)) -> (Core, Option<(u32, u64)>) {
    let mut core = Core::new();
    let mut machine = Machine { ram: [0; 0x200], raised: Cell::new(None) };
    let mut words = [1 << 27; 3];
    words[unit] = word;
    machine.ram[..16].copy_from_slice(&Bundle::new(0, words).bytes());
    machine.ram[DATA as usize..][..64].iter_mut().zip(1..).for_each(|(byte, number)| *byte = number);
    let state = core.shared_state();
    state.set_psr(psr::IC);
    state.set_r(14, DATA, false);
    prepare(&state);
    core.run_slots(&mut machine, unit as u64 + 1);
    (core, machine.raised.get())
}

fn raised(unit: usize, word: u64, prepare: impl Fn(&State)) -> Option<(u32, u64)> {
    run(unit, word, prepare).1
}

/// The status of a program.
const PROGRAM: u64 = psr::IC | 3 << psr::CPL;
const ILLEGAL: Option<(u32, u64)> = Some((vector::GENERAL, isr::ILLEGAL));

/// KP-2: a comparison of any type must have two different targets, if it runs.
#[test]
fn comparisons_have_different_targets() {
    assert_eq!(raised(0, CMP_AND, |_| ()), ILLEGAL);
    assert_eq!(raised(0, CMP_OR_IF, |_| ()), None, "the predicate is false");
    assert_eq!(raised(0, CMP_OR_IF, |state| state.set_p(7, true)), ILLEGAL);
}

/// KP-2: reserved application registers can neither be read nor written, and ignored ones can.
#[test]
fn reserved_application_registers_are_illegal() {
    assert_eq!(raised(0, TO_AR8, |_| ()), ILLEGAL);
    assert_eq!(raised(1, FROM_AR67, |_| ()), ILLEGAL);
    assert_eq!(raised(0, TO_AR48, |_| ()), None);
    assert_eq!(raised(0, NAT_TO_AR8, |state| state.set_r(16, 0, true)), ILLEGAL, "before the NaT bit");
}

/// KP-2: rotation decides which floating-point registers an instruction names, for pairs and in the ALAT.
#[test]
fn rotated_registers_have_their_physical_numbers() {
    // ldfps f9, f37
    assert_eq!(raised(0, PAIR, |_| ()), ILLEGAL, "both are odd");
    let rotated = |state: &State| state.frame.set(1 << 25);
    assert_eq!(raised(0, PAIR, rotated), None, "f37 is physical register 38");
    // ldfd.c.clr f40
    let claim = |state: &State| {
        state.set_f(40, Real::integer(7));
        state.alat.insert(Claim { register: FLOATS + 40, size: 8, address: DATA });
    };
    let significand = |core: &Core| core.state().f(40).significand;
    assert_eq!(significand(&run(0, CHECK_LOAD, claim).0), 7, "nothing is loaded");
    let claim_of_another = |state: &State| {
        claim(state);
        rotated(state);
        state.set_f(40, Real::integer(7));
    };
    assert_ne!(significand(&run(0, CHECK_LOAD, claim_of_another).0), 7, "the entry is that of f39 now");
}

/// KP-2: `lfetch.fault` raises the interruptions of a load, and `lfetch` none.
#[test]
fn a_prefetch_may_raise_an_interruption() {
    let translated = |state: &State| state.set_psr(psr::IC | psr::DT);
    assert_eq!(raised(0, LFETCH, translated), None);
    assert_eq!(raised(0, LFETCH_FAULT, translated), Some((vector::DATA_MISS, isr::NA | isr::R | 4)));
    let nat = |state: &State| state.set_r(15, 0, true);
    assert_eq!(raised(0, LFETCH, nat), None);
    assert_eq!(raised(0, LFETCH_FAULT, nat), Some((vector::NAT, isr::NA | isr::R | 0x14)));
}

/// KP-2: of several interruptions the first in the manual's order is raised.
#[test]
fn the_privilege_comes_before_nat_bits_and_behind_the_collection() {
    let program = |state: &State| {
        state.set_psr(PROGRAM);
        state.set_r(16, 0, true);
    };
    assert_eq!(raised(0, FROM_RR, program), Some((vector::GENERAL, isr::PRIVILEGED)));
    assert_eq!(raised(0, ITC, program), ILLEGAL, "psr.ic is 1");
    assert_eq!(raised(0, TO_CR11, program), ILLEGAL, "a reserved register");
    assert_eq!(raised(0, TO_IVR, |_| ()), ILLEGAL, "a register that is only read");
    assert_eq!(raised(0, TO_DCR, program), Some((vector::GENERAL, isr::PRIVILEGED)));
    // r32 is outside of the frame.
    assert_eq!(raised(0, FROM_PSR, program), ILLEGAL);
}

/// KP-2: a speculative load defers an unaligned address only if the code's page asks for that, or while `psr.ic` is 0; and any
/// address if `psr.ed` asks for that.
#[test]
fn an_unaligned_speculative_load_is_not_always_deferred() {
    let unaligned = |psr: u64| {
        move |state: &State| {
            state.set_psr(psr);
            state.control[cr::DCR].set(0x7f00);
            state.set_r(14, DATA + 1, false);
        }
    };
    assert_eq!(raised(0, SPECULATIVE, unaligned(psr::IC)), Some((vector::UNALIGNED, isr::R | isr::SP)));
    let (core, raised) = run(0, SPECULATIVE, unaligned(0));
    assert_eq!((raised, core.state().is_nat(9)), (None, true));
    let (core, raised) = run(0, SPECULATIVE, |state| state.set_psr(psr::IC | psr::ED));
    assert_eq!((raised, core.state().is_nat(9)), (None, true));
    let (core, raised) = run(0, SPECULATIVE, |_| ());
    assert_eq!((raised, core.state().is_nat(9), core.state().r(9)), (None, false, 0x0807_0605_0403_0201));
}

/// KP-2: masks with a bit that the status has not are refused.
#[test]
fn a_mask_has_no_reserved_bit() {
    assert_eq!(raised(0, SUM, |_| ()), Some((vector::GENERAL, isr::RESERVED)));
}

/// KP-2: the interruption's status says what the instruction would do with memory.
#[test]
fn the_status_names_the_kind_of_access() {
    let program = |state: &State| state.set_psr(PROGRAM);
    assert_eq!(raised(0, TPA, program), Some((vector::GENERAL, isr::PRIVILEGED | isr::NA)));
    let nat = |state: &State| state.set_r(15, 0, true);
    assert_eq!(raised(0, PROBE, nat), Some((vector::NAT, isr::NA | isr::W | 0x12)));
    assert_eq!(raised(0, PROBE_FAULT, nat), Some((vector::NAT, isr::NA | isr::R | isr::W | 0x15)));
    let disabled = |state: &State| state.set_psr(psr::IC | psr::DFH);
    assert_eq!(raised(0, LOAD_REAL, disabled), Some((vector::DISABLED_FLOAT, isr::R | isr::SP | 2)));
    assert_eq!(raised(0, STORE_REAL, disabled), Some((vector::DISABLED_FLOAT, isr::W | 2)));
    assert_eq!(raised(0, GET_REAL, disabled), Some((vector::DISABLED_FLOAT, 2)));
    assert_eq!(raised(0, CHECK_REAL, disabled), Some((vector::DISABLED_FLOAT, 2)));
    assert_eq!(raised(0, PAIR, |state| state.set_psr(psr::IC | psr::DFL)), ILLEGAL, "the pair is illegal first");
}

/// KP-2: `break.x` has a number of 62 bits, and reports its lowest 21 bits.
#[test]
fn a_long_break_reports_a_part_of_its_number() {
    let mut core = Core::new();
    let mut machine = Machine { ram: [0; 0x200], raised: Cell::new(None) };
    machine.ram[..16].copy_from_slice(&Bundle::new(4, [1 << 27, 0x155, 1 << 36 | 5 << 6]).bytes());
    core.run_slots(&mut machine, 2);
    assert_eq!(machine.raised.get(), Some((vector::BREAK, 0)));
    assert_eq!(core.state().fault_number.get(), 1 << 20 | 5);
}

// The words of the instructions, as the assembler makes them.
/// `cmp.eq.and p6, p6 = r8, r9`
const CMP_AND: u64 = 0x182_3091_0180;
/// `(p7) cmp.eq.or p6, p6 = r8, r9`
const CMP_OR_IF: u64 = 0x1a2_3091_0187;
/// `mov ar8 = r9`
const TO_AR8: u64 = 0x021_5081_2000;
/// `mov r9 = ar67`
const FROM_AR67: u64 = 0x001_9430_0240;
/// `mov ar48 = r9`
const TO_AR48: u64 = 0x021_5301_2000;
/// `ldfps f9, f37 = [r14]`
const PAIR: u64 = 0x0c0_88e4_a240;
/// `ldfd.c.clr f40 = [r14]`
const CHECK_LOAD: u64 = 0x0c8_c0e0_0a00;
/// `lfetch [r15]`
const LFETCH: u64 = 0x0cb_00f0_0000;
/// `lfetch.fault [r15]`
const LFETCH_FAULT: u64 = 0x0cb_80f0_0000;
/// `mov r9 = rr[r16]`
const FROM_RR: u64 = 0x020_8100_0240;
/// `itc.d r9`
const ITC: u64 = 0x021_7001_2000;
/// `ld8.s r9 = [r14]`
const SPECULATIVE: u64 = 0x081_c0e0_0240;
/// `mov cr11 = r9`
const TO_CR11: u64 = 0x021_60b1_2000;
/// `mov cr.ivr = r9`
const TO_IVR: u64 = 0x021_6411_2000;
/// `mov cr.dcr = r9`
const TO_DCR: u64 = 0x021_6001_2000;
/// `mov r32 = psr`
const FROM_PSR: u64 = 0x021_2800_0800;
/// `sum 0x40`
const SUM: u64 = 0x000_2000_1000;
/// `tpa r9 = r14`
const TPA: u64 = 0x020_f0e0_0240;
/// `probe.w r9 = r15, 3`
const PROBE: u64 = 0x020_c8f0_6240;
/// `probe.rw.fault r15, 3`
const PROBE_FAULT: u64 = 0x021_88f0_6000;
/// `ldfd.s f40 = [r14]`
const LOAD_REAL: u64 = 0x0c1_c0e0_0a00;
/// `stfd [r14] = f40`
const STORE_REAL: u64 = 0x0cc_c0e5_0000;
/// `getf.sig r9 = f40`
const GET_REAL: u64 = 0x087_0805_0240;
/// `mov ar8 = r16`
const NAT_TO_AR8: u64 = 0x021_5082_0000;
/// `chk.s f40, 0`
const CHECK_REAL: u64 = 0x026_0005_0000;
