//! A session's answers about the guest's code: symbols of the kernel and its modules, their address ranges, and the blocks
//! that ran (coverage).

use super::Session;
use std::collections::BTreeMap;
use std::ops::Range;
use trapline_isa::function::decode_at;
use trapline_probes::guest::Symbol;

impl Session {
    /// The symbols of the kernel and of its present modules, by address. If several names share an address, only the one that
    /// the kernel prints is listed.
    pub fn symbols(&self) -> Vec<Symbol> {
        let mut symbols = self.kernel().symbols.extents(0..u64::MAX);
        for module in self.modules().iter().filter_map(|name| self.module(name)) {
            let texts = module.text.iter();
            symbols.extend(texts.flat_map(|text| module.image.symbols.extents(text.range.clone())));
        }
        symbols.sort_by_key(|symbol| symbol.start);
        symbols.dedup_by_key(|symbol| symbol.start);
        symbols
    }

    /// The names and addresses of the kernel's code and of its present modules' code. The kernel is first.
    pub fn code(&self) -> Vec<(String, Range<u64>)> {
        let whole = |ranges: &mut dyn Iterator<Item = Range<u64>>| {
            ranges.reduce(|one, other| one.start.min(other.start)..one.end.max(other.end))
        };
        let tables = &self.kernel().tables;
        let mut texts =
            [Some(tables.text.clone()), tables.init_text.clone()].into_iter().flatten().filter(|text| !text.is_empty());
        let mut all: Vec<(String, Range<u64>)> = whole(&mut texts).map(|range| ("vmlinux".into(), range)).into_iter().collect();
        for module in self.modules().iter().filter_map(|name| self.module(name)) {
            let mut texts = module.text.iter().map(|text| text.range.clone());
            all.extend(whole(&mut texts).map(|range| (format!("{}.ko", module.name), range)));
        }
        all
    }

    /// The blocks of kernel code that ran, if the configuration asked for them: the length of each, by its address.
    /// Code that ran in the probe window counts as the code that it stands for.
    pub fn covered(&mut self) -> BTreeMap<u64, u32> {
        let mut blocks = self.machine.covered();
        let isa = self.kernel().arch.isa();
        let probed = self.with_engine(|engine, guest| {
            let addresses = engine.summary(guest).into_iter().map(|summary| summary.address);
            let mut lengths = Vec::new();
            for address in addresses {
                let mut read = |at: u64, into: &mut [u8]| engine.read_original(guest, at, into);
                if let Ok(insn) = decode_at(isa, address, &mut read) {
                    lengths.push((address, insn.bytes().len() as u32));
                }
            }
            lengths
        });
        // A block ends with a breakpoint, which may be shorter than the instruction that it replaces.
        for (address, len) in probed {
            let before = blocks.range(..=address).next_back().map(|(start, len)| (*start, *len));
            if before.is_some_and(|(start, len)| address - start < len.into()) {
                let known = blocks.entry(address).or_insert(0);
                *known = len.max(*known);
            }
        }
        blocks
    }
}
