//! The engine's view of the toy kernel: the trait [`Guest`] on symbols, text and window of [`ToyGuest`].

use super::{DATA, INIT, ToyGuest, WINDOW};
use crate::guest::{Blacklisted, Guest, Site, Symbol, Text, WindowUse};
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;
use trapline_isa::arch::Isa;
use trapline_isa::mem::Fault;

impl Guest for ToyGuest {
    fn isa(&self) -> &'static Isa {
        self.isa
    }
    fn cpus(&self) -> usize {
        self.cpus.len()
    }
    fn symbol(&self, name: &str) -> Option<Symbol> {
        self.symbols.iter().find(|symbol| symbol.name == name).cloned()
    }
    fn symbols_named(&self, name: &str) -> usize {
        self.symbols.iter().filter(|symbol| symbol.name == name).count()
    }
    fn addresses_named(&self, name: &str) -> Vec<u64> {
        self.symbols.iter().filter(|symbol| symbol.name == name).map(|symbol| symbol.start).collect()
    }
    fn symbol_at(&self, address: u64) -> Option<Symbol> {
        let data = Symbol { name: "data".into(), start: DATA.start, size: DATA.end - DATA.start, module: None };
        let covers = |symbol: &&Symbol| (symbol.start..symbol.start + symbol.size).contains(&address);
        self.symbols.iter().chain([&data]).find(covers).cloned()
    }
    fn similar_names(&self, name: &str) -> Vec<String> {
        let near = |symbol: &&Symbol| symbol.name.len() == name.len() && symbol.name.get(..3) == name.get(..3);
        self.symbols.iter().filter(near).map(|symbol| symbol.name.clone()).collect()
    }
    fn text_kind(&self, address: u64) -> Option<Text> {
        self.text.iter().find(|(range, _)| range.contains(&address)).map(|(_, kind)| *kind)
    }
    fn site_at(&self, address: u64) -> Option<Site> {
        self.sites.get(&address).copied()
    }
    fn is_traced(&self, function: Range<u64>) -> Option<bool> {
        let mut sites = self.sites.iter().filter(|(_, site)| **site == Site::Ftrace).map(|(at, _)| *at).peekable();
        sites.peek()?;
        Some(sites.any(|at| function.contains(&at)))
    }
    fn blacklist(&self) -> &[Blacklisted] {
        &self.blacklist
    }
    fn read_text(&self, address: u64, into: &mut [u8]) -> Result<(), Fault> {
        for (at, byte) in (address..).zip(into) {
            *byte = *self.memory.get(at as usize).ok_or(Fault { address: at, write: false })?;
        }
        Ok(())
    }
    fn patch_text(&mut self, address: u64, bytes: &[u8]) -> Result<(), Fault> {
        if self.text_kind(address).is_none() {
            return Err(Fault { address, write: true });
        }
        self.poke(address, bytes);
        Ok(())
    }
    fn window_take(&mut self, near: u64, len: usize) -> Option<u64> {
        let window = match self.init_window {
            Some(start) if near >= INIT => start..WINDOW.end,
            end => WINDOW.start..end.unwrap_or(WINDOW.end),
        };
        if let Some(free) = self.window_free.iter().position(|(at, free)| *free == len && window.contains(at)) {
            return Some(self.window_free.swap_remove(free).0);
        }
        let next = self.window_next.entry(window.end).or_insert(window.start);
        let at = *next;
        *next += len as u64;
        (*next <= window.end).then_some(at)
    }
    fn window_give(&mut self, at: u64, len: usize) {
        self.window.retain(|unit, _| !(at..at + len as u64).contains(unit));
        self.window_free.push((at, len));
    }
    fn window_write(&mut self, at: u64, bytes: &[u8], stands_for: WindowUse) {
        self.poke(at, bytes);
        self.window.insert(at, stands_for);
    }
    fn pcs_collide(&self, one: u64, _: u64) -> bool {
        self.colliding.contains(&one)
    }
    fn any_cpu_inside(&self, range: Range<u64>) -> bool {
        self.looks.set(self.looks.get() + 1);
        self.cpus.iter().any(|cpu| range.contains(&cpu.pc))
    }
    fn remembers_addresses(&self, ranges: &[Range<u64>]) -> Vec<bool> {
        let words: Vec<u64> = self.ram().chunks_exact(8).map(|word| self.isa.order.number(word)).collect();
        ranges.iter().map(|range| words.iter().any(|word| range.contains(word))).collect()
    }
}
