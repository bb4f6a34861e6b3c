//! The contents of a core dump: the registers of all CPUs, the mapping of physical memory into the kernel's address space
//! (the direct map), and the memory as it would be without probes.

use super::{Session, TextPiece};
use crate::boot::Segment;
use crate::cpu::View;
use crate::machine::ProbeWindow;
use std::collections::BTreeMap;
use std::ops::Range;
use trapline_isa::abi::ReturnAddress;
use trapline_isa::mem::Memory;

/// The direct map is probed at addresses with this distance in bytes.
const STEP: u64 = 1 << 22;
/// The alignment of the addresses by which the direct map is found.
const PAGE: u64 = 4096;

/// A range of guest memory with its virtual address in the kernel's direct map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapped {
    /// The physical addresses.
    pub physical: Range<u64>,
    /// The first virtual address; 0 if the kernel does not map the memory.
    pub address: u64,
}

/// The differences between the guest's memory and the memory of a guest without probes, for [`Session::read_true`].
pub struct TrueMemory {
    /// The pieces of text, whose original bytes are read when they are needed.
    pieces: Vec<TextPiece>,
    /// Stack words that hold the return pad's address, by physical address, with the true return address.
    returns: BTreeMap<u64, u64>,
}

impl Session {
    /// The registers of each CPU as a core dump of this ISA holds them. A CPU in the probe window is shown at the
    /// instruction that it runs a copy of.
    pub fn core_registers(&mut self) -> Vec<Vec<u8>> {
        let (_, parts) = self.machine.parts();
        let layout = (parts.model.core_file.layout)(parts.isa);
        let pcs = self.machine.pcs();
        let read = |(cpu, pc): (usize, u64)| {
            let pc = self.machine.listener().original(pc).unwrap_or(pc);
            self.machine.look_at(cpu, |view| layout.read(view, pc))
        };
        pcs.into_iter().enumerate().map(read).collect()
    }

    /// The RAM that the guest knows of: a range for each piece, cut where the kernel's direct map ends.
    pub fn memory_map(&mut self) -> Vec<Mapped> {
        let start = self.machine.ram().base();
        let end = start + self.machine.guest_ram_bytes();
        let pieces: Vec<Range<u64>> = self.machine.ram().pieces().map(|piece| piece.start..piece.end.min(end)).collect();
        let (_, parts) = self.machine.parts();
        let (bases, cpus) = (parts.model.core_file.direct_maps, parts.cpus.len());
        let found = (0..cpus).find_map(|cpu| self.machine.look_at(cpu, |view| direct_map(view, bases, start..end, &pieces)));
        let (first, mapped) = found.unwrap_or((0, start));
        let cut = |piece: Range<u64>| {
            let (inside, outside) = (piece.start..piece.end.min(mapped), piece.start.max(mapped)..piece.end);
            let inside = Mapped { address: first.wrapping_add(inside.start - start), physical: inside };
            [inside, Mapped { physical: outside, address: 0 }]
        };
        pieces.into_iter().flat_map(cut).filter(|mapped| !mapped.physical.is_empty()).collect()
    }

    /// The kernel's image at its link address. On many ISAs the image has a second address, in the direct map.
    pub fn image_map(&self) -> Option<Mapped> {
        let segments = &self.kernel().segments;
        let distance = |segment: &Segment| segment.virtual_address.wrapping_sub(segment.physical);
        let first = segments.first().map(distance)?;
        let ram = self.machine.ram().base()..self.machine.ram().base() + self.machine.guest_ram_bytes();
        let ranges = segments.iter().filter(|segment| distance(segment) == first);
        let ranges = ranges.map(|segment| segment.physical..segment.physical.saturating_add(segment.size));
        let ranges: Vec<Range<u64>> = ranges.filter(|range| ram.start <= range.start && range.end <= ram.end).collect();
        let physical = ranges.iter().map(|range| range.start).min()?..ranges.iter().map(|range| range.end).max()?;
        Some(Mapped { address: physical.start.wrapping_add(first), physical })
    }

    /// Collects the differences that probes make in memory, for [`Session::read_true`].
    pub fn true_memory(&mut self) -> TrueMemory {
        TrueMemory { pieces: self.text_pieces(), returns: self.true_returns() }
    }

    /// Reads memory by its physical address, with the original text in place of breakpoints and jumps, and with true
    /// return addresses in place of the return pad's.
    pub fn read_true(&mut self, memory: &TrueMemory, physical: u64, into: &mut [u8]) {
        self.machine.ram().read(physical, into);
        self.put_originals(&memory.pieces, physical, into);
        let isa = self.kernel().arch.isa();
        let end = physical + into.len() as u64;
        for (at, value) in memory.returns.range(physical..end) {
            let at = (at - physical) as usize;
            if let Some(word) = into.get_mut(at..at + isa.word) {
                isa.order.put(*value, word);
            }
        }
    }

    /// The stack words that hold the return pad's address, by physical address, with the true values.
    fn true_returns(&mut self) -> BTreeMap<u64, u64> {
        let mut found = BTreeMap::new();
        let Some(pad) = self.engine().return_pad() else { return found };
        let calls = self.engine().followed_calls();
        let current = self.machine.current_cpu();
        self.machine.look_at(current, |view| {
            for (frame, real) in calls {
                if let Some((physical, value)) = slot(view, frame, pad, &found).zip(Some(real)) {
                    found.insert(physical, value.wrapping_sub(view.isa.abi.link_offset));
                }
            }
        });
        found
    }
}

/// The physical address of the stack word that holds the return pad's address for the followed call with this frame. Words
/// in `known` belong to other calls. If the function saves the link register in its own frame, the search goes from the frame
/// downwards.
fn slot(view: &mut View, frame: u64, pad: u64, known: &BTreeMap<u64, u64>) -> Option<u64> {
    let (abi, word, bits) = (view.isa.abi, view.isa.word as u64, view.isa.pointer_bits);
    let stored = pad.wrapping_sub(abi.link_offset) & !bits;
    let lowest = frame & !(abi.stack_size - 1);
    let first = match (abi.return_address, abi.link_slot) {
        (ReturnAddress::OnStack, _) => frame,
        (_, Some(offset)) => frame.wrapping_add(offset),
        _ => frame.wrapping_sub(word),
    };
    let count = match abi.return_address {
        ReturnAddress::OnStack => 1,
        ReturnAddress::In(_) => first.saturating_sub(lowest) / word + 1,
    };
    (0..count).map(|number| first.wrapping_sub(number * word)).find_map(|at| {
        let value = view.read_number(at, word as usize).ok()?;
        let physical = view.physical(at)?;
        (value & !bits == stored && !known.contains_key(&physical)).then_some(physical)
    })
}

/// Finds the direct map by the page tables in force: the first of these base addresses at which `memory` is mapped, and the
/// physical end of the mapping. Memory is in `pieces`; nothing between them is mapped.
fn direct_map(view: &mut View, bases: &[u64], memory: Range<u64>, pieces: &[Range<u64>]) -> Option<(u64, u64)> {
    let mut is_mapped = |base: u64, physical: u64| view.physical(base.wrapping_add(physical - memory.start)) == Some(physical);
    // The kernel may keep the first pages for itself, and map less than half of memory.
    let places = [2, 16, 64].map(|part| memory.start + (memory.end - memory.start) / part / PAGE * PAGE);
    let base = bases.iter().copied().find(|base| places.iter().any(|place| is_mapped(*base, *place)))?;
    let is_memory = |at: &u64| pieces.iter().any(|piece| piece.contains(at));
    let steps = (memory.start..memory.end).step_by(STEP as usize).skip(1);
    let end = steps.filter(is_memory).find(|at| !is_mapped(base, *at));
    Some((base, end.unwrap_or(memory.end)))
}
