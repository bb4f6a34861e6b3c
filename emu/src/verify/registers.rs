//! Compares registers of two runs. A register that holds the return pad's address in the probed run is accounted for if
//! the unprobed one holds a return address: that of a followed call, or an address of code from a call that has
//! returned.

use super::Seen;
use super::memory::{Accounted, maps_window};
use crate::probed::Session;
use crate::snapshot::registers::Values;
use std::ops::Range;

/// The return pad, and the addresses that it stands for.
pub(super) struct Pad {
    address: Option<u64>,
    /// The return addresses of all followed calls.
    returns: Vec<u64>,
    /// The text of modules.
    modules: Vec<Range<u64>>,
    /// The bits of a pointer that are part of the address.
    bits: u64,
    link_offset: u64,
    pops_pc: bool,
    has_link_slot: bool,
}

impl Pad {
    /// The pad of a session.
    pub fn of(session: &Session) -> Pad {
        let isa = session.kernel().arch.isa();
        let bits = !isa.pointer_bits & u64::MAX >> (64 - 8 * isa.word);
        let address = session.engine().return_pad();
        let returns = session.engine().followed_calls().into_iter().map(|(_, address)| address & bits).collect();
        let modules = session.modules();
        let modules = modules.iter().filter_map(|name| session.module(name));
        let modules = modules.flat_map(|module| module.text.iter().map(|text| text.range.clone())).collect();
        let abi = isa.abi;
        let (link_offset, pops_pc, has_link_slot) = (abi.link_offset, abi.pops_pc, abi.link_slot.is_some());
        Pad { address, returns, modules, bits, link_offset, pops_pc, has_link_slot }
    }

    /// The known reason why the probed run has another value than the unprobed one, if there is one.
    pub fn explains(&self, unprobed: u64, probed: u64, session: &Session) -> Option<Known> {
        let is_code = |address: u64| self.is_code(address, session);
        let (one, other) = (unprobed & self.bits, probed & self.bits);
        let pad = self.address?;
        if other == pad || other == pad.wrapping_sub(self.link_offset) {
            return (self.returns.contains(&one) || is_code(one)).then_some(Known::Pad);
        }
        let is_link = self.pops_pc || self.has_link_slot && is_code(one);
        (is_link && is_code(other)).then_some(Known::Link)
    }
}

impl Pad {
    /// Whether a word of memory is what later stores have left of a return address, which the probed run has stored as the
    /// pad's: a stack slot that is no longer used. Every byte that differs is the pad's, and the unprobed run's bytes there
    /// belong to an address of code.
    pub fn explains_rest(&self, unprobed: u64, probed: u64, session: &Session) -> bool {
        let Some(pad) = self.address else { return false };
        let byte = |number: u32| 0xff_u64 << (8 * number);
        let differing: Vec<u64> = (0..8).map(byte).filter(|byte| (unprobed ^ probed) & byte != 0).collect();
        let mask: u64 = differing.iter().sum();
        let address = unprobed & mask | pad & !mask;
        let is_return = |pad: u64| probed & mask == pad & mask;
        differing.len() >= LEAST_REST
            && (is_return(pad) || is_return(pad.wrapping_sub(self.link_offset)))
            && (self.returns.contains(&(address & self.bits)) || self.is_code(address & self.bits, session))
    }

    fn is_code(&self, address: u64, session: &Session) -> bool {
        session.kernel().tables.is_text(address) || self.modules.iter().any(|text| text.contains(&address))
    }
}

/// The least number of bytes by which the rest of an address is recognised.
const LEAST_REST: usize = 2;

/// A known reason for a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    /// The return pad's address stands for a return address.
    Pad,
    /// A return address, where the unprobed run has left what it needs no more: in the link register behind a return
    /// that popped the pc, or in the link slot of a caller's frame.
    Link,
}

/// The registers of the running CPU that differ.
pub(super) fn differing(
    names: &[&'static str],
    values: [&[u64]; 2],
    pad: &Pad,
    probed: &Session,
) -> Vec<(&'static str, u64, u64)> {
    let pairs = names.iter().zip(values[0].iter().zip(values[1]));
    let differ = pairs.filter(|(_, (one, other))| one != other && pad.explains(**one, **other, probed).is_none());
    differ.map(|(name, (one, other))| (*name, *one, *other)).collect()
}

/// Compares all registers of all CPUs. Returns their number.
pub(super) fn compare_all(unprobed: &mut Session, probed: &mut Session, accounted: &mut Accounted) -> Result<u64, Seen> {
    let (one, other) = match (unprobed.machine_mut().all_registers(), probed.machine_mut().all_registers()) {
        (Ok(one), Ok(other)) => (one, other),
        (Err(one), Err(other)) if one == other => return Ok(0),
        (one, other) => return Err(Seen::Registers([one.err(), other.err()].map(|error| error.map(|error| error.to_string())))),
    };
    compare_values(&one, &other, probed, accounted)
}

/// Compares the values of all registers of all CPUs. Returns their number.
pub(super) fn compare_values(one: &[Values], other: &[Values], probed: &Session, accounted: &mut Accounted) -> Result<u64, Seen> {
    let (pad, window) = (Pad::of(probed), probed.window());
    let mut count = 0;
    for (cpu, (one, other)) in one.iter().zip(other).enumerate() {
        for ((name, one), (_, other)) in one.values().zip(other.values()) {
            count += 1;
            if one == other {
                continue;
            }
            let known = u64::try_from(one).ok().zip(u64::try_from(other).ok());
            match known.and_then(|(one, other)| pad.explains(one, other, probed)) {
                Some(Known::Pad) => accounted.pads += 1,
                Some(Known::Link) => accounted.links += 1,
                // A TLB entry. The guest had none there.
                None if one == 0 && maps_window(other as u64, &window) => accounted.tables += 1,
                None => return Err(Seen::Register { cpu, name: name.into(), values: [one, other] }),
            }
        }
    }
    Ok(count)
}

/// The registers as text, for a hash.
pub(super) fn text(all: &[Values]) -> String {
    let each = all.iter().flat_map(Values::values);
    each.map(|(name, value)| format!("{name}={value:x};")).collect()
}
