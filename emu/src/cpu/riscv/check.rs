//! Proves, once per process, the offsets and private functions that are used on RISC-V cores of both widths.

use super::core::{NARROW, WIDE};
use super::state::{self, SUPERVISOR};
use super::trap::{BREAKPOINT, ILLEGAL, LOAD_MISALIGNED, SYSTEM_CALL};
use crate::cpu::check::{self, Bench, Snippets};
use crate::unicorn::core_state::CoreState;
use crate::unicorn::engine::TrapContext;
use crate::unicorn::kinds::{CoreKind, Register};
use crate::unicorn::recording_events::unfit;
use std::sync::OnceLock;
use trapline_isa::mem::ByteOrder;
use trapline_isa::regs::Reg;
use trapline_isa::riscv::abi;
use unicorn_engine_sys::RegisterRISCV;

/// The result for 64 bits, computed at the first call.
pub fn wide() -> Result<(), String> {
    static ANSWER: OnceLock<Result<(), String>> = OnceLock::new();
    ANSWER.get_or_init(|| prove(&WIDE)).clone()
}

/// The result for 32 bits, computed at the first call.
pub fn narrow() -> Result<(), String> {
    static ANSWER: OnceLock<Result<(), String>> = OnceLock::new();
    ANSWER.get_or_init(|| prove(&NARROW)).clone()
}

const RAM: u64 = 0x8000_0000;
const EBREAK: u32 = 0x0010_0073;
/// The instruction `addi a0, a0, 1`.
const COUNT: u32 = 0x0015_0513;
/// Two instructions `c.nop`.
const NOPS: u32 = 0x0001_0001;

fn prove(kind: &'static CoreKind) -> Result<(), String> {
    let mut bench = Bench::new(kind, RAM, ByteOrder::Little, |cpu| cpu.prepare_riscv(0))?;
    bench.core.stopped().prepare_riscv(0);
    check_registers(&bench.core.stopped(), &mut bench.image).map_err(unfit)?;
    let [a0, a1] = [RegisterRISCV::X10, RegisterRISCV::X11].map(Register::from);
    let code = bench.code;
    check::prove(
        &mut bench,
        &Snippets {
            counters: [a0, a1],
            // addi a0, a0, 1; addi a1, a1, 1
            add: [COUNT, 0x0015_8593],
            end: EBREAK,
            // a4 holds the instruction `ret`.
            values: [
                (RegisterRISCV::X12.into(), COUNT.into()),
                (RegisterRISCV::X13.into(), code + 0x1000),
                (RegisterRISCV::X14.into(), 0x0000_8067),
                (RegisterRISCV::X15.into(), 0x0015_8593),
            ],
            // sw a2, 0(a3); sw a4, 4(a3); jalr a3; sw a5, 0(a3); jalr a3
            overwrite: &[0x00c6_a023, 0x00e6_a223, 0x0006_80e7, 0x00f6_a023, 0x0006_80e7],
            // sw a1, 0(a3); lw a0, 0(a2)
            touch: [0x00b6_a023, 0x0006_2503],
            touched: [RegisterRISCV::X13, RegisterRISCV::X12].map(Register::from),
            word: 4,
        },
    )?;
    check_exceptions(&mut bench)?;
    check_delivery(&bench)?;
    // addi a0, a0, 1; j back.
    bench.place(&[COUNT, 0xffdf_f06f]);
    check::prove_counting(&mut bench, 8, a0)
}

/// Checks cause and pc of each exception: behind two compressed instructions, so that no pc is that of the block.
fn check_exceptions(bench: &mut Bench) -> Result<(), String> {
    let here = bench.code;
    let at = |offset: u64| here + offset;
    const ECALL: u32 = 0x0000_0073;
    // lr.w a0, (a2); amoadd.w a0, a0, (a2); csrr a0, mstatus
    const LOAD_RESERVED: u32 = 0x1006_252f;
    const ATOMIC: u32 = 0x00a6_252f;
    const MACHINES: u32 = 0x3000_2573;
    // c.nop; c.ebreak, and c.nop; an instruction of two bytes that does not exist
    const SHORT: u32 = 0x9002_0001;
    const NONE: u32 = 0x0000_0001;
    #[rustfmt::skip]
    let cases: [(&[u32], u32, u64); 8] = [
        (&[NOPS, EBREAK],           BREAKPOINT,             at(4)),
        (&[NOPS, SHORT],            BREAKPOINT,             at(6)),
        (&[NOPS, ECALL],            SYSTEM_CALL,            at(4)),
        (&[NOPS, NONE],             ILLEGAL,                at(6)),
        (&[NOPS, MACHINES],         ILLEGAL,                at(4)),
        (&[NOPS, LOAD_RESERVED],    LOAD_MISALIGNED,        at(4)),
        (&[NOPS, ATOMIC],           LOAD_MISALIGNED + 2,    at(4)),
        (&[NOPS, NOPS, EBREAK],     BREAKPOINT,             at(8)),
    ];
    for (words, cause, pc) in cases {
        bench.place(words);
        bench.set(RegisterRISCV::X12.into(), here + 0x3001);
        if bench.go() != Some((Some(cause), pc)) {
            return Err(unfit("where an exception comes, and its cause"));
        }
        let handle = bench.core.handle();
        let is_access = matches!(cause, LOAD_MISALIGNED..8);
        if is_access && state::places(&handle).word(&handle, |places| places.fault_address) != here + 0x3001 {
            return Err(unfit("where the address of a fault is kept"));
        }
    }
    Ok(())
}

/// Delivers exceptions and interrupts, and compares all registers that say what happened.
fn check_delivery(bench: &Bench) -> Result<(), String> {
    const STATUS_SIE: u64 = 1 << 1;
    const STATUS_SPIE: u64 = 1 << 5;
    const STATUS_SPP: u64 = 1 << 8;
    let (cpu, handle) = (bench.core.stopped(), bench.core.handle());
    let places = state::places(&handle);
    let set = |at: usize, value: u64| if handle.is_wide() { cpu.set_live64(at, value) } else { cpu.set_live32(at, value as u32) };
    let top = if handle.is_wide() { 1 << 63 } else { 1 << 31 };
    let vectors = RAM + 0x4000;
    #[rustfmt::skip]
    let cases = [
        // mode, SIE, stvec, cause, is an interrupt, entered at, status
        (1, true,  vectors,     13, false, vectors,      STATUS_SPIE | STATUS_SPP),
        (1, false, vectors,     5,  true,  vectors,      STATUS_SPP),
        (0, true,  vectors + 1, 5,  true,  vectors + 20, STATUS_SPIE),
        (0, false, vectors + 1, 8,  false, vectors,      0),
    ];
    for (mode, enabled, stvec, cause, is_interrupt, entered, status) in cases {
        set(places.stvec, stvec);
        set(places.mode, mode);
        cpu.set_riscv_status(if enabled { STATUS_SIE } else { 0 });
        cpu.enter_riscv_handler(cause, is_interrupt, RAM + 0x122, 0x5678);
        let seen = [places.sepc, places.stval, places.scause, places.mode, places.pc]
            .map(|at| if handle.is_wide() { handle.live64(at) } else { handle.live32(at).into() });
        let scause = u64::from(cause) | if is_interrupt { top } else { 0 };
        if seen != [RAM + 0x122, 0x5678, scause, SUPERVISOR, entered] || handle.riscv_status() != status {
            return Err(unfit("how an exception enters its handler"));
        }
    }
    Ok(())
}

/// Writes values one way and reads them the other; the error names the field that differs.
fn check_registers(cpu: &TrapContext, image: &mut CoreState) -> Result<(), &'static str> {
    let handle = cpu.handle();
    if !state::in_kernel(&handle) || handle.read(RegisterRISCV::PRIV) != SUPERVISOR {
        return Err("the mode");
    }
    for (mark, masked) in [(0x1111_2222, true), (0x8555_6664, false)] {
        cpu.set_riscv_status(if masked { 0 } else { 1 << 1 });
        cpu.set_pc(mark);
        image.save(handle);
        if (state::saved_pc(image), state::saved_interrupts_off(image), state::interrupts_off(&handle)) != (mark, masked, masked)
        {
            return Err("pc or status");
        }
    }
    for number in 1..state::GENERAL {
        let mark = 0x8765_4321_1234_5678 + u64::from(number);
        state::set(cpu, Reg(number), mark);
        if state::get(&handle, Reg(number), 0) != state::cut(&handle, mark)
            || handle.riscv_general_by_library(number) != state::cut(&handle, mark)
        {
            return Err("a general register");
        }
        state::set(cpu, Reg(number), 0);
    }
    let places = state::places(&handle);
    #[rustfmt::skip]
    let system = [
        ("sscratch", RegisterRISCV::SSCRATCH, places.sscratch), ("sepc", RegisterRISCV::SEPC, places.sepc),
        ("scause", RegisterRISCV::SCAUSE, places.scause), ("stval", RegisterRISCV::STVAL, places.stval),
        ("stvec", RegisterRISCV::STVEC, places.stvec),
    ];
    for (name, register, at) in system {
        cpu.write(register, 0x1234_5678);
        let seen = if handle.is_wide() { handle.live64(at) } else { handle.live32(at).into() };
        if seen != 0x1234_5678 {
            return Err(name);
        }
    }
    // FS dirty makes SD visible.
    cpu.set_riscv_status(0x6000);
    if state::get(&handle, abi::STATUS, 0) != 0x6000 | if handle.is_wide() { 1 << 63 } else { 1 << 31 } {
        return Err("the status");
    }
    cpu.set_riscv_status(0);
    Ok(())
}

#[cfg(test)]
mod tests {
    /// The cores behave as the machine expects: pc and cause at exceptions, delivery, registers.
    #[test]
    fn both_widths_pass_their_self_check() {
        assert_eq!([super::wide(), super::narrow()], [Ok(()), Ok(())]);
    }
}
