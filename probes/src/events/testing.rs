//! A fake kernel with a few symbols and a fake CPU whose memory has holes, for the tests of kprobe_events.

use crate::guest::{Blacklisted, Cpu, Guest, Site, Symbol, Text, WindowUse};
use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;
use trapline_isa::arch::{Arch, Isa};
use trapline_isa::mem::{ByteOrder, Fault, Memory};
use trapline_isa::regs::{Reg, Registers};

/// Splits a marked line into the line and the column of its `^`.
pub fn marked(case: &str) -> (String, usize) {
    let column = case.find('^').unwrap_or_else(|| panic!("{case} has no mark"));
    (case[..column].to_owned() + &case[column + 1..], column)
}

pub const OPEN: u64 = 0x8100_0000;
pub const PADDED: u64 = 0x8100_0100;
pub const JIFFIES: u64 = 0x8200_0000;

/// A kernel with the functions `do_open`, `padded` (which begins with a landing pad) and two called `twice`.
pub struct FakeKernel {
    pub arch: Arch,
}

const SYMBOLS: &[(&str, u64, u64)] = &[
    ("do_open", OPEN, 0x100),
    ("padded", PADDED, 0x80),
    ("twice", 0x8100_0200, 0x10),
    ("twice", 0x8100_0210, 0x10),
    ("jiffies", JIFFIES, 8),
];

fn symbol((name, start, size): (&str, u64, u64)) -> Symbol {
    Symbol { name: name.to_owned(), start, size, module: None }
}

/// Symbol lookup for the printing tests.
pub fn symbol_at(address: u64) -> Option<Symbol> {
    let covering = SYMBOLS.iter().find(|(_, start, size)| (*start..start + size).contains(&address));
    covering.copied().map(symbol)
}

impl Guest for FakeKernel {
    fn isa(&self) -> &'static Isa {
        self.arch.isa()
    }
    fn cpus(&self) -> usize {
        1
    }
    fn symbol(&self, name: &str) -> Option<Symbol> {
        SYMBOLS.iter().find(|(known, ..)| *known == name).copied().map(symbol)
    }
    fn symbols_named(&self, name: &str) -> usize {
        SYMBOLS.iter().filter(|(known, ..)| *known == name).count()
    }
    fn addresses_named(&self, name: &str) -> Vec<u64> {
        SYMBOLS.iter().filter(|(known, ..)| *known == name).map(|(_, start, _)| *start).collect()
    }
    fn symbol_at(&self, address: u64) -> Option<Symbol> {
        symbol_at(address)
    }
    fn similar_names(&self, name: &str) -> Vec<String> {
        SYMBOLS.iter().filter(|(known, ..)| known[..1] == name[..1]).map(|(known, ..)| (*known).to_owned()).collect()
    }
    fn text_kind(&self, _: u64) -> Option<Text> {
        Some(Text::Core)
    }
    fn site_at(&self, _: u64) -> Option<Site> {
        None
    }
    fn blacklist(&self) -> &[Blacklisted] {
        &[]
    }
    fn read_text(&self, address: u64, into: &mut [u8]) -> Result<(), Fault> {
        const LANDING_PAD: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];
        for (index, byte) in into.iter_mut().enumerate() {
            *byte = if address == PADDED { LANDING_PAD.get(index).copied().unwrap_or(0x90) } else { 0x90 };
        }
        Ok(())
    }
    fn patch_text(&mut self, _: u64, _: &[u8]) -> Result<(), Fault> {
        Ok(())
    }
    fn window_take(&mut self, _: u64, _: usize) -> Option<u64> {
        None
    }
    fn window_give(&mut self, _: u64, _: usize) {}
    fn window_write(&mut self, _: u64, _: &[u8], _: WindowUse) {}
    fn can_watch(&self) -> bool {
        true
    }
    fn any_cpu_inside(&self, _: Range<u64>) -> bool {
        false
    }
}

/// A CPU with a few mapped pages.
#[derive(Default)]
pub struct FakeCpu {
    pub registers: BTreeMap<Reg, u64>,
    pub kernel: BTreeMap<u64, Vec<u8>>,
    pub user: BTreeMap<u64, Vec<u8>>,
}

fn read(pages: &BTreeMap<u64, Vec<u8>>, address: u64, into: &mut [u8]) -> Result<(), Fault> {
    let fault = Fault { address, write: false };
    let (start, page) = pages.range(..=address).next_back().ok_or(fault)?;
    let from = (address - start) as usize;
    into.copy_from_slice(page.get(from..from + into.len()).ok_or(fault)?);
    Ok(())
}

impl Registers for FakeCpu {
    fn get(&self, reg: Reg) -> u64 {
        self.registers.get(&reg).copied().unwrap_or(0)
    }
    fn set(&mut self, reg: Reg, value: u64) {
        self.registers.insert(reg, value);
    }
    fn pc(&self) -> u64 {
        OPEN
    }
    fn set_pc(&mut self, _: u64) {}
}

impl Memory for FakeCpu {
    fn order(&self) -> ByteOrder {
        ByteOrder::Little
    }
    fn read(&mut self, address: u64, into: &mut [u8]) -> Result<(), Fault> {
        read(&self.kernel, address, into)
    }
    fn write(&mut self, address: u64, _: &[u8]) -> Result<(), Fault> {
        Err(Fault { address, write: true })
    }
}

impl Cpu for FakeCpu {
    fn number(&self) -> usize {
        1
    }
    fn task(&mut self) -> u64 {
        7
    }
    fn pid(&mut self) -> u32 {
        42
    }
    fn comm(&mut self) -> [u8; 16] {
        *b"cat\0leftovers\0\0\0"
    }
    fn now(&self) -> u64 {
        12_345_678_499
    }
    fn interrupts_off(&self) -> bool {
        true
    }
    fn read_user(&mut self, address: u64, into: &mut [u8]) -> Result<(), Fault> {
        read(&self.user, address, into)
    }
}
