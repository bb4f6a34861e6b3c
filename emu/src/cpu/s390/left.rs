//! Instructions that the core does not execute: clocks, the service processor, signals to other CPUs, machine information,
//! loads of waiting PSWs, and channels (`channels.rs`).
//!
//! They are executed here, or raise the exception that the CPU would raise, without other effects. The board's answers
//! are in `boards/s390ccw.rs`; a board without an answer has none of these facilities.

use super::paging::{self, PROTECTION, Space, absolute, wrapped};
use super::state::{self, CONTROL, EXECUTED, LETS_ANY_IN, MASK, PREFIX, WAITS, is_sound, set_psw};
use super::trap;
use super::window::TRANSLATION;
use crate::boards::s390ccw::{COMPARATOR, TIME_OF_DAY, TIMER, WAITS_FOR, call};
use crate::boards::{At, Board, FirmwareCall};
use crate::cpu::{Exception, Left};
use crate::unicorn::engine::{Handle, TrapContext};
use crate::unicorn::ram::{Physical, Ram};
use trapline_isa::regs::Reg;
use trapline_isa::s390::abi::{CC, r};
use trapline_isa::s390::opcodes::length;

/// Specification exception: the operands are invalid.
const SPECIFICATION: u32 = 6;

/// The facilities that STFLE reports: those that Linux requires and that the core implements. Not among them are random
/// numbers, ciphers, large pages and vectors.
const FACILITIES: &[usize] =
    &[0, 1, 2, 3, 4, 7, 9, 16, 18, 19, 21, 22, 24, 25, 27, 30, 31, 32, 33, 34, 35, 37, 40, 41, 45, 49, 51, 52, 53, 75];
const FACILITY_BYTES: usize = 16;

/// The machine type as in STIDP's result, and as text for STSI.
const MACHINE: u64 = 0x8561_0000;
const MACHINE_TEXT: &str = "8561";

/// The reason why an instruction was not executed.
pub(super) enum Not {
    Raises(u32),
    Dead(String),
}

impl From<u32> for Not {
    fn from(code: u32) -> Not {
        Not::Raises(code)
    }
}

/// The continuation after the instruction.
enum How {
    Next,
    ReadTheClock,
    Went { waits: bool },
}

/// Executes the instruction at the pc. `copy` is its physical address if it is in the probe window, which the core may
/// have in its TLB although no table maps it.
pub fn left(cpu: &TrapContext, ram: &Ram, board: &mut dyn Board, at: At, copy: Option<u64>) -> Left {
    let handle = cpu.handle();
    let pc = handle.pc();
    let mut doing = Doing { cpu, handle, ram, board, at, space: paging::space(&handle), bytes: [0; 6] };
    let executed = handle.live64(EXECUTED);
    let length = if executed == 0 {
        match doing.fetch(pc, copy) {
            Ok(length) => length,
            Err(_) => return Left::Dead(format!("the instruction at {pc:#x} runs and cannot be read")),
        }
    } else {
        cpu.set_live64(EXECUTED, 0);
        doing.bytes = executed.to_be_bytes()[..6].try_into().unwrap_or_default();
        executed & 15
    };
    match doing.instruction() {
        Ok(How::Next) => Left::Done { length, reads_clock: false },
        Ok(How::ReadTheClock) => Left::Done { length, reads_clock: true },
        Ok(How::Went { waits }) => Left::Went { length, waits },
        Err(Not::Raises(code)) => Left::Raises(Exception { detail: length, ..Exception::of(code) }),
        Err(Not::Dead(why)) => Left::Dead(why),
    }
}

pub(super) struct Doing<'a> {
    cpu: &'a TrapContext,
    pub(super) handle: Handle,
    pub(super) ram: &'a Ram,
    board: &'a mut dyn Board,
    at: At,
    space: Space,
    pub(super) bytes: [u8; 6],
}

impl Doing<'_> {
    fn fetch(&mut self, pc: u64, copy: Option<u64>) -> Result<u64, u32> {
        let mut bytes = [0; 6];
        if copy.is_some_and(|copy| self.ram.read(copy, &mut bytes)) {
            self.bytes = bytes;
            return Ok(length(bytes[0]) as u64);
        }
        let space = paging::code_space(&self.handle);
        let mut at = 0;
        // No half of an instruction crosses a page.
        while at == 0 || at < length(bytes[0]) {
            let address = wrapped(&self.handle, pc.wrapping_add(at as u64));
            let (physical, _) = paging::walk(&self.handle, self.ram, space, address)?;
            if !self.ram.read(physical, &mut bytes[at..at + 2]) {
                return Err(paging::ADDRESSING);
            }
            at += 2;
        }
        self.bytes = bytes;
        Ok(at as u64)
    }

    fn instruction(&mut self) -> Result<How, Not> {
        let code = match self.bytes {
            [0xb2, second, ..] => 0xb200 | u16::from(second),
            [0xc8, second, ..] => 0xc800 | u16::from(second & 15),
            [first, ..] => u16::from(first) << 8,
        };
        match code {
            0x8200 => return self.load_psw(8),
            0xb2b2 => return self.load_psw(16),
            0x8300 => self.diagnose()?,
            0xae00 => self.signal()?,
            // STIDP, STAP
            0xb202 => self.store_aligned(MACHINE)?,
            0xb212 => {
                let number = (self.at.cpu as u16).to_be_bytes();
                self.store(self.operand(), &number)?;
            }
            // SCK is never allowed.
            0xb204 => self.set(CC, 1),
            0xb205 | 0xb27c => return self.store_clock(8),
            0xb278 => return self.store_clock(16),
            // SCKC, STCKC, SPT, STPT
            0xb206 => self.load_register(COMPARATOR)?,
            0xb207 => {
                let value = self.register(COMPARATOR);
                self.store_aligned(value)?;
            }
            0xb208 => self.load_register(TIMER)?,
            0xb209 => {
                let value = self.register(TIMER);
                self.store_aligned(value)?;
                return Ok(How::ReadTheClock);
            }
            0xc801 => return self.extract_time(),
            0xb220 => self.service()?,
            0xb27d => self.store_information()?,
            0xb2b0 => self.store_facilities()?,
            0xb2b1 => {
                self.ram.write(self.handle.live64(PREFIX) + 0xc8, &facilities()[..4]);
            }
            _ => self.channel(code)?,
        }
        Ok(How::Next)
    }

    fn load_psw(&mut self, bytes: usize) -> Result<How, Not> {
        let mut psw = [0; 16];
        self.read_aligned(self.operand(), &mut psw[..bytes])?;
        let word = |at: usize| psw[at..at + 8].iter().fold(0, |value, byte| value << 8 | u64::from(*byte));
        let (mask, address) = if bytes == 16 { (word(0), word(8)) } else { short_psw(word(0)) };
        if !is_sound(mask) {
            return Err(Not::Raises(SPECIFICATION));
        }
        let waits = mask & WAITS != 0;
        if waits && mask & LETS_ANY_IN == 0 {
            return Err(Not::Dead(format!(
                "the guest stopped its CPU: it loaded a waiting PSW with all interrupts masked (PSW {mask:016x} {address:016x})"
            )));
        }
        set_psw(self.cpu, mask, address);
        if waits {
            self.board.register_write(self.at, WAITS_FOR, trap::accepted(&self.handle));
        }
        Ok(How::Went { waits })
    }

    fn store_clock(&mut self, bytes: usize) -> Result<How, Not> {
        let time = self.board.register_read(self.at, TIME_OF_DAY);
        let mut clock = [0; 16];
        if bytes == 16 {
            clock[1..9].copy_from_slice(&time.unwrap_or(0).to_be_bytes());
            // STCKE's programmable field must not be 0.
            clock[13] = time.is_some().into();
        } else {
            clock[..8].copy_from_slice(&time.unwrap_or(0).to_be_bytes());
        }
        self.store(self.operand(), &clock[..bytes])?;
        self.set(CC, if time.is_some() { 0 } else { 3 });
        Ok(How::ReadTheClock)
    }

    /// ECTG: r0 gets the first operand minus the CPU timer, r1 the second operand, the third register the doubleword it
    /// points to.
    fn extract_time(&mut self) -> Result<How, Not> {
        let register = self.bytes[1] >> 4;
        let places = [self.operand(), self.base_and_distance(4), wrapped(&self.handle, self.general(register))];
        let mut values = [0; 3];
        for (value, place) in values.iter_mut().zip(places) {
            let mut bytes = [0; 8];
            self.read(place, &mut bytes)?;
            *value = u64::from_be_bytes(bytes);
        }
        let timer = self.register(TIMER);
        self.set(r(0), values[0].wrapping_sub(timer));
        self.set(r(1), values[1]);
        self.set(r(register), values[2]);
        Ok(How::ReadTheClock)
    }

    fn service(&mut self) -> Result<(), Not> {
        let (command, block) = (self.general(self.bytes[3] >> 4), self.general(self.bytes[3] & 15));
        if block & !0x7fff_fff8 != 0 {
            return Err(Not::Raises(SPECIFICATION));
        }
        let block = absolute(&self.handle, block);
        let cc = self.ask(&[call::SERVICE, command & 0xffff_ffff, block]).first().copied().unwrap_or(3);
        self.set(CC, cc.min(3));
        Ok(())
    }

    fn signal(&mut self) -> Result<(), Not> {
        let (first, third) = (self.bytes[1] >> 4, self.bytes[1] & 15);
        let answer = self.ask(&[call::SIGNAL, self.operand() & 0xff, self.general(third) & 0xffff, self.general(first | 1)]);
        let cc = answer.first().copied().unwrap_or(3).min(3);
        if cc == 1 {
            let status = answer.get(1).copied().unwrap_or(0);
            self.set(r(first), self.general(first) & !0xffff_ffff | status);
        }
        self.set(CC, cc);
        Ok(())
    }

    /// DIAGNOSE: yield hints, which do nothing; the machine's restart; and calls of the hypervisor.
    fn diagnose(&mut self) -> Result<(), Not> {
        let (first, third) = (self.bytes[1] >> 4, self.bytes[1] & 15);
        match self.operand() & 0xffff {
            0x44 | 0x9c => Ok(()),
            0x308 => {
                let answer = self.ask(&[call::RESTART, self.general(third)]).first().copied().unwrap_or(0);
                self.set(r(first | 1), answer);
                Ok(())
            }
            0x500 => self.hypervisor(),
            _ => Err(Not::Raises(SPECIFICATION)),
        }
    }

    fn store_information(&mut self) -> Result<(), Not> {
        let (first, second) = (self.general(0), self.general(1));
        let (level, selectors) = (first >> 28 & 15, (first & 0xff, second & 0xffff));
        if level == 0 {
            self.set(r(0), first & !0xffff_ffff | 3 << 28);
            self.set(CC, 0);
            return Ok(());
        }
        let Some(block) = information(level, selectors) else {
            self.set(CC, 3);
            return Ok(());
        };
        let place = self.operand();
        if !place.is_multiple_of(block.len() as u64) {
            return Err(Not::Raises(SPECIFICATION));
        }
        self.store(place, &block)?;
        self.set(CC, 0);
        Ok(())
    }

    fn store_facilities(&mut self) -> Result<(), Not> {
        let wanted = (self.general(0) & 0xff) as usize * 8 + 8;
        let place = self.operand();
        if !place.is_multiple_of(8) {
            return Err(Not::Raises(SPECIFICATION));
        }
        self.store(place, &facilities()[..wanted.min(FACILITY_BYTES)])?;
        self.set(r(0), self.general(0) & !0xff | (FACILITY_BYTES as u64 / 8 - 1));
        self.set(CC, if wanted >= FACILITY_BYTES { 0 } else { 3 });
        Ok(())
    }

    fn register(&mut self, register: u32) -> u64 {
        self.board.register_read(self.at, register).unwrap_or(0)
    }

    fn load_register(&mut self, register: u32) -> Result<(), Not> {
        let mut bytes = [0; 8];
        self.read_aligned(self.operand(), &mut bytes)?;
        self.board.register_write(self.at, register, u64::from_be_bytes(bytes));
        Ok(())
    }

    pub(super) fn ask(&mut self, arguments: &[u64]) -> Vec<u64> {
        let mut memory = Physical { ram: self.ram };
        self.board.firmware_call(self.at, FirmwareCall { arguments, memory: &mut memory })
    }

    pub(super) fn general(&self, number: u8) -> u64 {
        self.handle.general(number).unwrap_or(0)
    }

    pub(super) fn set(&self, register: Reg, value: u64) {
        state::set(self.cpu, register, value);
    }

    /// The address of the first storage operand.
    pub(super) fn operand(&self) -> u64 {
        self.base_and_distance(2)
    }

    fn base_and_distance(&self, at: usize) -> u64 {
        let [high, low] = [self.bytes[at], self.bytes[at + 1]];
        let base = if high >> 4 == 0 { 0 } else { self.general(high >> 4) };
        wrapped(&self.handle, base.wrapping_add(u64::from(high & 15) << 8 | u64::from(low)))
    }

    fn read_aligned(&self, address: u64, into: &mut [u8]) -> Result<(), Not> {
        if !address.is_multiple_of(8) {
            return Err(Not::Raises(SPECIFICATION));
        }
        Ok(self.read(address, into)?)
    }

    fn store_aligned(&self, value: u64) -> Result<(), Not> {
        let address = self.operand();
        if !address.is_multiple_of(8) {
            return Err(Not::Raises(SPECIFICATION));
        }
        Ok(self.store(address, &value.to_be_bytes())?)
    }

    pub(super) fn read(&self, address: u64, into: &mut [u8]) -> Result<(), u32> {
        let first = into.len().min((PAGE - address % PAGE) as usize);
        let (one, other) = into.split_at_mut(first);
        for (address, into) in [(address, one), (address.wrapping_add(first as u64), other)] {
            let physical = self.place(address, into.len(), false)?;
            if !self.ram.read(physical, into) {
                return Err(paging::ADDRESSING);
            }
        }
        Ok(())
    }

    /// Stores all bytes, or none if one of them cannot be stored.
    pub(super) fn store(&self, address: u64, bytes: &[u8]) -> Result<(), u32> {
        let (one, other) = bytes.split_at(bytes.len().min((PAGE - address % PAGE) as usize));
        let there = self.place(address, one.len(), true)?;
        let then = self.place(address.wrapping_add(one.len() as u64), other.len(), true)?;
        self.ram.write(there, one);
        self.ram.write(then, other);
        Ok(())
    }

    /// Whether this many bytes can be stored, at most a page.
    pub(super) fn can_store(&self, address: u64, len: usize) -> Result<(), u32> {
        let first = len.min((PAGE - address % PAGE) as usize);
        self.place(address, first, true)?;
        self.place(address.wrapping_add(first as u64), len - first, true)?;
        Ok(())
    }

    /// The physical address of a range within a page. If it cannot be accessed, stores the translation-exception
    /// address in the lowcore.
    fn place(&self, address: u64, len: usize, write: bool) -> Result<u64, u32> {
        if len == 0 {
            return Ok(self.ram.base());
        }
        let refused = |code: u32, why: u64| {
            if code != paging::ADDRESSING {
                let space = self.handle.live64(MASK) >> 46 & 3;
                let what = address & !(PAGE - 1) | space | if write { STORE } else { FETCH } | why;
                self.ram.set_word(self.handle.live64(PREFIX) + TRANSLATION, what, 8);
            }
            code
        };
        if write && self.is_low(address) {
            return Err(refused(PROTECTION, IS_LOW));
        }
        let (physical, writable) = paging::walk(&self.handle, self.ram, self.space, address).map_err(|code| refused(code, 0))?;
        match () {
            () if write && !writable => Err(refused(PROTECTION, IS_PROTECTED)),
            () if !self.ram.holds(physical, len) => Err(paging::ADDRESSING),
            () => Ok(physical),
        }
    }

    /// Whether low-address protection covers this address.
    fn is_low(&self, address: u64) -> bool {
        let of = |register: u8| self.handle.live64(CONTROL + 8 * usize::from(register));
        let is_private = match self.space {
            Space::Real => false,
            Space::By(register) => of(register) & PRIVATE != 0,
        };
        address < 2 * PAGE && address % PAGE < 512 && of(0) & LOW_PROTECTION != 0 && !is_private
    }
}

const PAGE: u64 = 4096;
// Flags in the translation-exception address, besides page and space.
const FETCH: u64 = 0x800;
const STORE: u64 = 0x400;
const IS_LOW: u64 = 0x80;
const IS_PROTECTED: u64 = 4;
/// Control register 0: low-address protection is enabled.
const LOW_PROTECTION: u64 = 1 << 28;
/// ASCE flag: a private space, without low-address protection.
const PRIVATE: u64 = 0x100;

/// Expands an 8-byte PSW to 16 bytes.
fn short_psw(word: u64) -> (u64, u64) {
    const IS_SHORT: u64 = 1 << 51;
    const ADDRESS: u64 = 0x7fff_ffff;
    (word & !(IS_SHORT | ADDRESS), word & ADDRESS)
}

fn facilities() -> [u8; FACILITY_BYTES] {
    let mut list = [0; FACILITY_BYTES];
    for number in FACILITIES {
        list[number / 8] |= 0x80 >> (number % 8);
    }
    list
}

/// STSI's information block for a level: the machine's maker, its CPUs, the partition's CPUs, the guest's CPUs. The
/// last one claims KVM, for which Linux selects a console that the board has.
fn information(level: u64, selectors: (u64, u64)) -> Option<Vec<u8>> {
    let mut block = vec![0; PAGE as usize];
    let mut put = |at: usize, bytes: &[u8]| block[at..at + bytes.len()].copy_from_slice(bytes);
    // CPUs of a level: total, configured, standby.
    const ONE_CPU: [u8; 4] = [0, 1, 0, 1];
    match (level, selectors) {
        (1, (1, 1)) => {
            for (at, text, length) in [
                (32, "TRAPLINE", 16),
                (48, MACHINE_TEXT, 4),
                (64, "s390ccw", 16),
                (80, "0", 16),
                (96, "0", 4),
                (100, "s390ccw", 16),
            ] {
                put(at, &ebcdic(text, length));
            }
        }
        (1, (2, 2)) => {
            put(32, &CAPABILITY.to_be_bytes());
            put(36, &ONE_CPU);
        }
        (2, (2, 2)) => put(36, &ONE_CPU),
        (3, (2, 2)) => {
            put(31, &[1]);
            put(36, &ONE_CPU);
            put(44, &ebcdic("TRAPLINE", 8));
            put(56, &ebcdic("KVM/Linux", 16));
        }
        _ => return None,
    }
    Some(block)
}

/// The CPU capability, in no defined unit. It must not be 0.
const CAPABILITY: u32 = 1000;

/// Converts text to EBCDIC, padded with blanks.
fn ebcdic(text: &str, length: usize) -> Vec<u8> {
    let letter = |byte: u8| match byte {
        b'A'..=b'I' => byte - b'A' + 0xc1,
        b'J'..=b'R' => byte - b'J' + 0xd1,
        b'S'..=b'Z' => byte - b'S' + 0xe2,
        b'a'..=b'i' => byte - b'a' + 0x81,
        b'j'..=b'r' => byte - b'j' + 0x91,
        b's'..=b'z' => byte - b's' + 0xa2,
        b'0'..=b'9' => byte - b'0' + 0xf0,
        b'/' => 0x61,
        _ => 0x40,
    };
    text.bytes().chain(std::iter::repeat(b' ')).take(length).map(letter).collect()
}
