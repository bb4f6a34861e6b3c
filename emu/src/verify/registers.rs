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

    /// The return addresses of which a word of memory may be the rest, after later stores have overwritten a part of
    /// it. The overwritten part is equal in both runs. Every byte that differs is the pad's in the probed run and the
    /// return address's in the other. Bytes that equal the pad's in both runs are taken for the return address's. (Its
    /// upper half equals the pad's, because the window is in branch reach of all code.)
    pub fn whose_rest(&self, unprobed: u64, probed: u64) -> Vec<u64> {
        let Some(pad) = self.address else { return Vec::new() };
        let byte = |number: u32| 0xff_u64 << (8 * number);
        let differ = |number: &u32| (unprobed ^ probed) & byte(*number) != 0;
        let mask: u64 = (0..8).filter(differ).map(byte).sum();
        let stored = [pad, pad.wrapping_sub(self.link_offset)];
        let Some(stored) = stored.into_iter().find(|stored| probed & mask == stored & mask) else { return Vec::new() };
        let overwritten: Vec<u32> = (0..4).filter(|number| !differ(number) && (probed ^ stored) & byte(*number) != 0).collect();
        if (0..8).filter(differ).count() < LEAST_REST || overwritten.len() > MOST_OVERWRITTEN {
            return Vec::new();
        }
        let mut found = vec![(unprobed & mask | stored & !mask) & self.bits];
        for number in overwritten {
            let with_each = |address: u64| (0..=0xff_u64).map(move |value| address & !byte(number) | value << (8 * number));
            found = found.into_iter().flat_map(with_each).collect();
        }
        found
    }

    /// The bits of a pointer that are part of the address.
    pub fn bits(&self) -> u64 {
        self.bits
    }

    /// Whether the address is in the text of the kernel or of a module.
    pub fn is_code(&self, address: u64, session: &Session) -> bool {
        session.kernel().tables.is_text(address) || self.modules.iter().any(|text| text.contains(&address))
    }
}

/// The smallest number of differing bytes by which the rest of an address is recognised.
const LEAST_REST: usize = 2;
/// The largest number of overwritten bytes among an address's lower four with which its rest is recognised.
const MOST_OVERWRITTEN: usize = 2;

/// A known reason for a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    /// The return pad's address stands for a return address.
    Pad,
    /// A return address that the unprobed run no longer needs: in the link register after a return that popped the pc,
    /// or in the link slot of a caller's frame.
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
