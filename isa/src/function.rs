//! Walks a function from its start to find its instruction boundaries, and the paths between exclusive loads and
//! stores. Shared by all ISAs.

use crate::arch::Isa;
use crate::insn::{Flow, Insn, LONGEST_GROUP, Undecodable};
use crate::mem::Fault;
use crate::region::Surroundings;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::iter;
use core::ops::Range;

/// Decodes the instructions from `start` to `end`, one after the other, and stops after the first undecodable bytes.
///
/// `read` fills a buffer with the text at an address, without our probes. The last instruction may reach past `end`.
pub fn walk<R>(isa: &'static Isa, start: u64, end: u64, read: R) -> Walk<R, impl Fn(u64) -> bool>
where
    R: FnMut(u64, &mut [u8]) -> Result<(), Fault>,
{
    walk_code(isa, start, end, read, |_| true)
}

/// Like [`walk`], but skips data between instructions, such as literal pools.
pub fn walk_code<R, C>(isa: &'static Isa, start: u64, end: u64, read: R, is_code: C) -> Walk<R, C>
where
    R: FnMut(u64, &mut [u8]) -> Result<(), Fault>,
    C: Fn(u64) -> bool,
{
    Walk { isa, at: start, end, read, is_code }
}

/// The iterator of [`walk`].
#[derive(Debug)]
pub struct Walk<R, C> {
    isa: &'static Isa,
    at: u64,
    end: u64,
    read: R,
    is_code: C,
}

impl<R, C> Iterator for Walk<R, C>
where
    R: FnMut(u64, &mut [u8]) -> Result<(), Fault>,
    C: Fn(u64) -> bool,
{
    type Item = Result<Insn, Undecodable>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.at < self.end && !(self.is_code)(self.at) {
            self.at = self.at.saturating_add(self.isa.alignment.max(1));
        }
        if self.at >= self.end {
            return None;
        }
        let decoded = decode_at(self.isa, self.at, &mut self.read);
        self.at = match &decoded {
            // Without this an instruction at the top of the address space would wrap around and start again at 0.
            Ok(insn) if insn.next() > self.at => insn.next(),
            _ => self.end,
        };
        Some(decoded)
    }
}

/// Like [`walk`], but an indirect jump or call has its target where the instruction before it builds that
/// ([`Isa::far_target`]).
pub fn walk_far<R>(isa: &'static Isa, start: u64, end: u64, read: R) -> impl Iterator<Item = Result<Insn, Undecodable>> + use<R>
where
    R: FnMut(u64, &mut [u8]) -> Result<(), Fault>,
{
    let mut before: Option<Insn> = None;
    walk(isa, start, end, read).map(move |step| {
        let mut insn = step?;
        let target = before.and_then(|before| (isa.far_target)(&before, &insn));
        before = Some(insn);
        insn.flow = match (insn.flow, target) {
            (Flow::IndirectCall, Some(to)) => Flow::Call(to),
            (Flow::IndirectJump, Some(to)) => Flow::Jump(to),
            (flow, _) => flow,
        };
        Ok(insn)
    })
}

/// Decodes the instruction at an address, from as many bytes as can be read there.
pub fn decode_at<R>(isa: &'static Isa, address: u64, read: &mut R) -> Result<Insn, Undecodable>
where
    R: FnMut(u64, &mut [u8]) -> Result<(), Fault>,
{
    let mut bytes = [0; LONGEST_GROUP];
    let (start, most) = (isa.group_start(address), isa.longest.max(isa.group as usize));
    let buffer = &mut bytes[..most.min(LONGEST_GROUP)];
    let readable = match read(start, buffer) {
        Ok(()) => buffer.len(),
        Err(fault) => {
            let before = (fault.address.wrapping_sub(start) as usize).min(buffer.len() - 1);
            if read(start, &mut buffer[..before]).is_ok() { before } else { 0 }
        }
    };
    (isa.decode)(address, &buffer[..readable])
}

/// Whether a word is a return address as a call stores it: the instruction in front of the place to which the function returns is
/// a call. `read` is as in [`walk`].
pub fn is_stored_by_call<R>(isa: &'static Isa, stored: u64, read: &mut R) -> bool
where
    R: FnMut(u64, &mut [u8]) -> Result<(), Fault>,
{
    // SPARC's call stores its own address.
    let end = stored.wrapping_add(isa.abi.link_offset.min(isa.longest as u64));
    let starts = (1..=isa.longest as u64).map(|len| end.wrapping_sub(len)).filter(|start| start % isa.alignment.max(1) == 0);
    let is_call = |insn: Insn| insn.next() == end && matches!(insn.flow, Flow::Call(_) | Flow::IndirectCall);
    starts.into_iter().any(|start| decode_at(isa, start, read).is_ok_and(is_call))
}

/// A decoded range of text. Kept so that questions about many addresses of one function decode it once.
#[derive(Clone, Debug)]
pub struct Decoded {
    range: Range<u64>,
    /// The text of the range, and behind it the bytes that its last instruction may reach.
    bytes: Vec<u8>,
    insns: Vec<Insn>,
    /// The undecodable bytes that ended the walk early.
    end: Option<Undecodable>,
}

impl Decoded {
    /// Decodes a range and skips data. `bytes` is the text from the range's start, long enough for the last
    /// instruction.
    pub fn of(isa: &'static Isa, range: Range<u64>, bytes: Vec<u8>, is_code: impl Fn(u64) -> bool) -> Decoded {
        let read = |address: u64, into: &mut [u8]| {
            let from = address.wrapping_sub(range.start) as usize;
            let there = from.checked_add(into.len()).and_then(|to| bytes.get(from..to));
            let behind = Fault { address: range.start.wrapping_add(bytes.len() as u64), write: false };
            there.map(|there| into.copy_from_slice(there)).ok_or(behind)
        };
        let (mut insns, mut end) = (Vec::new(), None);
        for step in walk_code(isa, range.start, range.end, read, is_code) {
            match step {
                Ok(insn) => insns.push(insn),
                Err(undecodable) => end = Some(undecodable),
            }
        }
        Decoded { range, bytes, insns, end }
    }

    /// The range that was decoded.
    pub fn range(&self) -> &Range<u64> {
        &self.range
    }

    /// The text of the range, and behind it the bytes that its last instruction may reach.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Like [`boundary`], for an address in the range.
    pub fn boundary(&self, address: u64) -> Option<Boundary> {
        match self.insns.binary_search_by_key(&address, |insn| insn.address) {
            Ok(place) => Some(Boundary::On(*self.insns.get(place)?)),
            Err(behind) => {
                let before = behind.checked_sub(1).and_then(|place| self.insns.get(place));
                match before.filter(|insn| insn.next() > address) {
                    Some(insn) => Some(Boundary::Inside(*insn)),
                    None => self.end.filter(|end| end.address <= address).map(Boundary::Unknown),
                }
            }
        }
    }

    fn step(&self, number: usize) -> Option<Result<Insn, Undecodable>> {
        match self.insns.get(number) {
            Some(insn) => Some(Ok(*insn)),
            None => self.end.filter(|_| number == self.insns.len()).map(Err),
        }
    }
}

/// [`walk`] through text with known surroundings. Uses the decoded range if there is one.
pub fn walk_around<'a>(
    isa: &'static Isa,
    range: Range<u64>,
    around: &'a mut dyn Surroundings,
) -> impl Iterator<Item = Result<Insn, Undecodable>> + use<'a> {
    let known: Option<Arc<Decoded>> = around.decoded(&range);
    let mut walked = walk(isa, range.start, range.end, |at, into: &mut [u8]| around.read(at, into));
    let mut next = 0;
    iter::from_fn(move || {
        let Some(known) = &known else { return walked.next() };
        next += 1;
        known.step(next - 1)
    })
}

/// The position of an address relative to the instructions of its function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Boundary {
    /// An instruction starts there.
    On(Insn),
    /// It is inside this instruction. The next boundaries are the instruction's address and [`Insn::next`].
    Inside(Insn),
    /// These bytes at or before the address cannot be decoded, so its boundaries are not known.
    Unknown(Undecodable),
}

/// Decodes from the function's start until `address` is reached or passed, as Linux does. Skips data.
pub fn boundary<R>(isa: &'static Isa, start: u64, address: u64, mut read: R, is_code: impl Fn(u64) -> bool) -> Boundary
where
    R: FnMut(u64, &mut [u8]) -> Result<(), Fault>,
{
    for step in walk_code(isa, start, address, &mut read, is_code) {
        match step {
            Ok(insn) if insn.next() > address => return Boundary::Inside(insn),
            Ok(_) => {}
            Err(undecodable) => return Boundary::Unknown(undecodable),
        }
    }
    match decode_at(isa, address, &mut read) {
        Ok(insn) => Boundary::On(insn),
        Err(undecodable) => Boundary::Unknown(undecodable),
    }
}

/// The effect of an instruction on the CPU's exclusive monitor (ARM), reservation (PowerPC) or link bit (MIPS).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exclusive {
    /// Leaves it unchanged.
    Neither,
    /// Sets it: a load-exclusive.
    Load,
    /// Stores only if it is set, then clears it: a store-exclusive.
    Store,
    /// Clears it.
    Clear,
}

/// The largest distance in bytes between a load-exclusive and its store that is considered. CPUs guarantee progress
/// only for much shorter loops.
const EXCLUSIVE_REACH: u64 = 256;

/// Whether an address is on a path from a load-exclusive to a store-exclusive in its function. A trap there clears the
/// monitor, so the store fails and the loop retries forever.
pub fn between_exclusives(
    isa: &'static Isa,
    kind: fn(&Insn) -> Exclusive,
    function: &Range<u64>,
    address: u64,
    around: &mut dyn Surroundings,
) -> bool {
    let around = RefCell::new(around);
    let read = |at: u64, into: &mut [u8]| around.borrow_mut().read(at, into);
    let is_code = |at: u64| around.borrow().is_code(at);
    let nearest = address.saturating_sub(EXCLUSIVE_REACH).max(function.start);
    let start = if isa.variable_length { function.start } else { nearest };
    let end = address.saturating_add(EXCLUSIVE_REACH).min(function.end);
    let insns: Vec<Insn> = walk_code(isa, start, end, read, is_code).map_while(Result::ok).collect();
    let behind_loads: Vec<u64> = insns.iter().filter(|insn| kind(insn) == Exclusive::Load).flat_map(ways_on).collect();
    let opened = reached(&insns, kind, behind_loads);
    let Ok(place) = insns.binary_search_by_key(&address, |insn| insn.address) else { return false };
    let to_come = || reached(&insns, kind, vec![address]);
    opened[place] && insns.iter().zip(to_come()).any(|(insn, reached)| reached && kind(insn) == Exclusive::Store)
}

/// Which instructions can be reached from the given addresses. A path ends at an instruction that touches the monitor.
fn reached(insns: &[Insn], kind: fn(&Insn) -> Exclusive, mut from: Vec<u64>) -> Vec<bool> {
    let mut reached = vec![false; insns.len()];
    while let Some(address) = from.pop() {
        let Ok(place) = insns.binary_search_by_key(&address, |insn| insn.address) else { continue };
        if !core::mem::replace(&mut reached[place], true) && kind(&insns[place]) == Exclusive::Neither {
            from.extend(ways_on(&insns[place]));
        }
    }
    reached
}

/// The successors of an instruction in its function.
fn ways_on(insn: &Insn) -> impl Iterator<Item = u64> + use<> {
    let (behind, elsewhere) = match insn.flow {
        Flow::Next | Flow::Call(_) | Flow::IndirectCall | Flow::IndirectBranch => (Some(insn.next()), None),
        Flow::Branch(target) => (Some(insn.next()), Some(target)),
        Flow::Jump(target) => (None, Some(target)),
        Flow::IndirectJump | Flow::Return | Flow::Trap => (None, None),
    };
    behind.into_iter().chain(elsewhere)
}

#[cfg(test)]
mod tests;
