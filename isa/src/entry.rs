//! Where functions begin, and what a pointer to one is: a place in front of the entry that is not yet it, a second
//! entry, a descriptor.

use crate::arch::Isa;
use crate::plan::Policy;
use crate::regs::Reg;

/// How many bytes of a function's beginning are looked at. No entry lies farther behind its symbol.
pub const BEGINNING: usize = 16;

/// The beginning of a function, as its guest has it.
pub struct Beginning<'a> {
    /// Its first bytes, as many as can be read, at most [`BEGINNING`].
    pub bytes: &'a [u8],
    /// Whether so many bytes behind its symbol there is a place that ftrace patches.
    pub is_ftrace: &'a dyn Fn(u64) -> bool,
}

/// Where a probe stands, counted from the function's symbol, that was asked for so many bytes behind it; `None`: that
/// is not the function's entry, and the probe stands where it was asked for.
pub type Entry = fn(beginning: &Beginning<'_>, asked: u64, policy: Policy) -> Option<u64>;

/// Where Linux 6.1 puts a probe that names a function alone, counted from the function's symbol.
pub type NamedEntry = fn(beginning: &Beginning<'_>) -> u64;

/// At its symbol.
pub fn named_at_symbol(_: &Beginning<'_>) -> u64 {
    0
}

/// On an ISA whose functions begin with their entry, and with nothing in front of it.
pub fn at_symbol(_: &Beginning<'_>, asked: u64, _: Policy) -> Option<u64> {
    (asked == 0).then_some(0)
}

/// What a pointer to a function is on an ISA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pointers {
    /// The address of its first instruction, with [`Isa::pointer_bits`]; where the function finds its own address in a
    /// register, this one.
    Code(Option<Reg>),
    /// The address of a descriptor: a word that is the address of its first instruction, and a word for each of these
    /// registers.
    Descriptor(&'static [Reg]),
}

/// The most registers that a call through a pointer sets.
pub const SETS_MOST: usize = 2;

/// What a call through a pointer to a function does, arguments and return address apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Callee {
    /// Execution goes there.
    pub code: u64,
    /// These registers get these values.
    pub sets: [Option<(Reg, u64)>; SETS_MOST],
}

/// The function that a pointer leads to. `is_code` knows code from descriptors, and `word` reads one of a descriptor's.
/// `None`: the descriptor cannot be read.
pub fn callee(
    isa: &Isa,
    pointer: u64,
    is_code: impl FnOnce(u64) -> bool,
    mut word: impl FnMut(u64) -> Option<u64>,
) -> Option<Callee> {
    let code = pointer & !isa.pointer_bits;
    match isa.abi.pointers {
        Pointers::Code(own) => Some(Callee { code, sets: [own.map(|reg| (reg, code)), None] }),
        // Nobody says what it wants in its registers: it shares them with whoever calls it.
        Pointers::Descriptor(_) if is_code(code) => Some(Callee { code, ..Callee::default() }),
        Pointers::Descriptor(registers) => {
            let mut at = pointer;
            let mut next = || {
                let found = word(at);
                at = at.wrapping_add(isa.word as u64);
                found
            };
            let mut callee = Callee { code: next()?, ..Callee::default() };
            for (place, reg) in callee.sets.iter_mut().zip(registers) {
                *place = Some((*reg, next()?));
            }
            Some(callee)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::Abi;
    use crate::arm::{A32, THUMB2, abi};

    /// KP-4, JP-2: what a call through a pointer does: Thumb's bit is no part of the address, a function may want its
    /// own address, and a descriptor gives both address and registers.
    #[test]
    fn a_pointer_leads_to_code_in_its_isas_way() {
        static OWN: Abi = Abi { pointers: Pointers::Code(Some(abi::r(12))), ..abi::BASE };
        static BY_DESCRIPTOR: Abi = Abi { pointers: Pointers::Descriptor(&[abi::r(2), abi::r(11)]), ..abi::BASE };
        let own = Isa { abi: &OWN, ..A32 };
        let by_descriptor = Isa { abi: &BY_DESCRIPTOR, ..A32 };
        let words = |at: u64| [0xc010_0000, 0xc0f0_8000, 7].get((at - 0xc0e0_0000) as usize / 4).copied();
        let of = |isa: &Isa, pointer| callee(isa, pointer, |code| code < 0xc020_0000, words);
        let plain = |code| Some(Callee { code, sets: [None; SETS_MOST] });
        assert_eq!(of(&A32, 0xc010_0000), plain(0xc010_0000));
        assert_eq!(of(&THUMB2, 0xc010_0001), plain(0xc010_0000));
        assert_eq!(of(&own, 0xc010_0000).expect("code").sets, [Some((abi::r(12), 0xc010_0000)), None]);
        let sets = [Some((abi::r(2), 0xc0f0_8000)), Some((abi::r(11), 7))];
        assert_eq!(of(&by_descriptor, 0xc0e0_0000), Some(Callee { code: 0xc010_0000, sets }));
        assert_eq!(of(&by_descriptor, 0xc010_0000), plain(0xc010_0000), "code itself");
        assert_eq!(of(&by_descriptor, 0xc0e0_0004), None, "its last word cannot be read");
    }
}
