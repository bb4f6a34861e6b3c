//! Function entries and function pointers. A probe on a function's symbol may have to stand behind it: behind a landing
//! pad or at the local entry. A function pointer may lead to a descriptor.

use crate::arch::Isa;
use crate::plan::Policy;
use crate::regs::Reg;

/// Bytes of a function's beginning that are examined. No entry is farther behind its symbol.
pub const BEGINNING: usize = 16;

/// The beginning of a function in the guest.
pub struct Beginning<'a> {
    /// Its first bytes: as many as can be read, at most [`BEGINNING`].
    pub bytes: &'a [u8],
    /// Whether ftrace patches the place at this offset behind the symbol.
    pub is_ftrace: &'a dyn Fn(u64) -> bool,
}

/// Returns the offset of the entry behind the symbol, if a probe at offset `asked` means the function's entry. `None`:
/// the probe stands where it was asked for.
pub type Entry = fn(beginning: &Beginning<'_>, asked: u64, policy: Policy) -> Option<u64>;

/// Returns the offset behind the symbol at which Linux 6.1 places a probe that names only a function.
pub type NamedEntry = fn(beginning: &Beginning<'_>) -> u64;

/// A [`NamedEntry`]: at the symbol.
pub fn named_at_symbol(_: &Beginning<'_>) -> u64 {
    0
}

/// An [`Entry`] for ISAs whose functions start with the entry.
pub fn at_symbol(_: &Beginning<'_>, asked: u64, _: Policy) -> Option<u64> {
    (asked == 0).then_some(0)
}

/// The representation of a function pointer on an ISA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pointers {
    /// The address of the first instruction, with [`Isa::pointer_bits`]. If the function expects its own address in a
    /// register, this is the register.
    Code(Option<Reg>),
    /// The address of a descriptor: one word with the address of the first instruction, then one word for each of these
    /// registers.
    Descriptor(&'static [Reg]),
}

/// The most registers that a call through a function pointer sets.
pub const SETS_MOST: usize = 2;

/// The effect of a call through a function pointer, besides arguments and return address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Callee {
    /// The new pc.
    pub code: u64,
    /// Registers and their new values.
    pub sets: [Option<(Reg, u64)>; SETS_MOST],
}

/// Follows a function pointer. `is_code` distinguishes code from descriptors, and `word` reads a word of a descriptor.
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
        // A direct code address says nothing about these registers: the callee shares them with its caller.
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

    /// KP-4, JP-2: Thumb's bit is no part of the address; a register can receive the function's own address; a
    /// descriptor gives an address and registers.
    #[test]
    fn a_function_pointer_is_followed_by_the_rules_of_its_isa() {
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
