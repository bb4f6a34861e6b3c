//! Compares registers of two runs. A register that holds the return pad's address in the probed run is accounted for if
//! the unprobed one holds a return address: that of a followed call, or an address of code from a call that has
//! returned.

use super::Seen;
use super::memory::Accounted;
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
        Pad { address, returns, modules, bits }
    }

    /// Whether the probed run has the pad's address where the unprobed one has a return address.
    pub fn explains(&self, unprobed: u64, probed: u64, session: &Session) -> bool {
        let is_return = |address: u64| {
            self.returns.contains(&address)
                || session.kernel().tables.is_text(address)
                || self.modules.iter().any(|text| text.contains(&address))
        };
        self.address.is_some_and(|pad| probed & self.bits == pad) && is_return(unprobed & self.bits)
    }
}

/// The registers of the running CPU that differ.
pub(super) fn differing(
    names: &[&'static str],
    values: [&[u64]; 2],
    pad: &Pad,
    probed: &Session,
) -> Vec<(&'static str, u64, u64)> {
    let pairs = names.iter().zip(values[0].iter().zip(values[1]));
    let differ = pairs.filter(|(_, (one, other))| one != other && !pad.explains(**one, **other, probed));
    differ.map(|(name, (one, other))| (*name, *one, *other)).collect()
}

/// Compares all registers of all CPUs. Returns their number.
pub(super) fn compare_all(unprobed: &mut Session, probed: &mut Session, accounted: &mut Accounted) -> Result<u64, Seen> {
    let pad = Pad::of(probed);
    let (one, other) = match (unprobed.machine_mut().all_registers(), probed.machine_mut().all_registers()) {
        (Ok(one), Ok(other)) => (one, other),
        (Err(one), Err(other)) if one == other => return Ok(0),
        (one, other) => return Err(Seen::Registers([one.err(), other.err()].map(|error| error.map(|error| error.to_string())))),
    };
    let mut count = 0;
    for (cpu, (one, other)) in one.iter().zip(&other).enumerate() {
        for ((name, one), (_, other)) in one.values().zip(other.values()) {
            count += 1;
            if one == other {
                continue;
            }
            match (u64::try_from(one), u64::try_from(other)) {
                (Ok(one), Ok(other)) if pad.explains(one, other, probed) => accounted.registers += 1,
                _ => return Err(Seen::Register { cpu, name: name.into(), values: [one, other] }),
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
