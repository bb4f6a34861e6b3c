//! Bundles: 16 bytes, aligned, with a template of 5 bits and three slots of 41 bits. The template says which unit runs
//! each slot, and behind which slots an instruction group ends (a stop).
//!
//! Linux names a slot by the bundle's address plus the slot's number, 0 to 2. In an MLX bundle, slot 1 only holds bits of the
//! long instruction in slot 2; the assembler and Linux name that instruction by slot 1 or 2.

/// The distance of two slots in a pc, which is the address of the bundle plus this for each slot in front.
pub const SLOT_STEP: u32 = 6;

/// Bytes in a bundle.
pub const BUNDLE: u64 = 16;
/// Slots in a bundle.
pub const SLOTS: usize = 3;
/// The bits of a slot.
pub const SLOT_MASK: u64 = (1 << 41) - 1;

/// The execution unit of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Memory, and integer instructions that every unit of this kind and of the next one runs.
    M,
    /// Integer.
    I,
    /// Floating point.
    F,
    /// Branches.
    B,
    /// The first half of a long instruction: bits of its immediate.
    L,
    /// The second half of a long instruction.
    X,
}

impl Unit {
    /// The letter in the names of templates and instructions.
    pub const fn letter(self) -> char {
        match self {
            Unit::M => 'M',
            Unit::I => 'I',
            Unit::F => 'F',
            Unit::B => 'B',
            Unit::L => 'L',
            Unit::X => 'X',
        }
    }
}

/// A template that exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Template {
    /// The unit of each slot.
    pub units: [Unit; SLOTS],
    /// Whether an instruction group ends behind each slot.
    pub stops: [bool; SLOTS],
}

impl Template {
    /// The template with this number of 5 bits; `None` if there is none.
    pub const fn of(number: u8) -> Option<Template> {
        use Unit::{B, F, I, L, M, X};
        let (units, inner) = match number >> 1 & 15 {
            0x0 => ([M, I, I], None),
            0x1 => ([M, I, I], Some(1)),
            0x2 => ([M, L, X], None),
            0x4 => ([M, M, I], None),
            0x5 => ([M, M, I], Some(0)),
            0x6 => ([M, F, I], None),
            0x7 => ([M, M, F], None),
            0x8 => ([M, I, B], None),
            0x9 => ([M, B, B], None),
            0xb => ([B, B, B], None),
            0xc => ([M, M, B], None),
            0xe => ([M, F, B], None),
            _ => return None,
        };
        let mut stops = [false, false, number & 1 != 0];
        if let Some(slot) = inner {
            stops[slot] = true;
        }
        Some(Template { units, stops })
    }

    /// Whether slots 1 and 2 are one long instruction.
    pub const fn is_long(self) -> bool {
        matches!(self.units[2], Unit::X)
    }

    /// The template's letters.
    pub fn letters(self) -> [char; SLOTS] {
        self.units.map(Unit::letter)
    }
}

/// The two halves of a bundle in memory, the low one first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bundle(pub [u64; 2]);

impl Bundle {
    /// The bundle at the start of `bytes`; `None` if there are fewer than 16.
    pub fn of(bytes: &[u8]) -> Option<Bundle> {
        let half = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        Some(Bundle([half(0)?, half(8)?]))
    }

    /// The bundle's bytes in memory.
    pub const fn bytes(self) -> [u8; 16] {
        ((self.0[1] as u128) << 64 | self.0[0] as u128).to_le_bytes()
    }

    /// A bundle of a template's number and three slots.
    pub const fn new(number: u8, slots: [u64; SLOTS]) -> Bundle {
        let [first, second, third] = slots;
        Bundle([number as u64 & 31, 0]).with_slot(0, first).with_slot(1, second).with_slot(2, third)
    }

    /// The number of its template.
    pub const fn number(self) -> u8 {
        (self.0[0] & 31) as u8
    }

    /// Its template; `None` if the number is reserved.
    pub const fn template(self) -> Option<Template> {
        Template::of(self.number())
    }

    /// The 41 bits of a slot. Slots beyond 2 are read as slot 2.
    pub const fn slot(self, slot: usize) -> u64 {
        let [low, high] = self.0;
        match slot {
            0 => low >> 5 & SLOT_MASK,
            1 => (low >> 46 | high << 18) & SLOT_MASK,
            _ => high >> 23,
        }
    }

    /// The bundle with another slot. The template and the other slots keep their bits.
    #[must_use]
    pub const fn with_slot(self, slot: usize, word: u64) -> Bundle {
        let ([low, high], word) = (self.0, word & SLOT_MASK);
        Bundle(match slot {
            0 => [low & !(SLOT_MASK << 5) | word << 5, high],
            1 => [low & ((1 << 46) - 1) | word << 46, high & !((1 << 23) - 1) | word >> 18],
            _ => [low, high & ((1 << 23) - 1) | word << 23],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// KP-2: a slot is replaced without a change of its neighbours.
    #[test]
    fn a_slot_is_replaced_alone() {
        let slots = [0x155_5555_5555, 0x0aa_aaaa_aaaa, 0x1f0_f0f0_f0f1];
        for number in 0..32 {
            let bundle = Bundle::new(number, slots);
            assert_eq!(bundle.number(), number);
            assert_eq!([0, 1, 2].map(|slot| bundle.slot(slot)), slots);
            assert_eq!(Bundle::of(&bundle.bytes()), Some(bundle));
            for slot in 0..SLOTS {
                let changed = bundle.with_slot(slot, !0);
                let mut expected = slots;
                expected[slot] = SLOT_MASK;
                assert_eq!([0, 1, 2].map(|slot| changed.slot(slot)), expected);
                assert_eq!(changed.number(), number);
                assert_eq!(changed.with_slot(slot, slots[slot]), bundle);
            }
        }
        assert_eq!(Bundle::of(&[0; 15]), None);
    }

    /// KP-2: the templates are those of the manual.
    #[test]
    fn templates_are_those_of_the_manual() {
        let all = [
            "MII", "MII;", "MI;I", "MI;I;", "MLX", "MLX;", "", "", "MMI", "MMI;", "M;MI", "M;MI;", "MFI", "MFI;", "MMF", "MMF;",
            "MIB", "MIB;", "MBB", "MBB;", "", "", "BBB", "BBB;", "MMB", "MMB;", "", "", "MFB", "MFB;", "", "",
        ];
        for (number, expected) in (0..).zip(all) {
            let text = Template::of(number).map_or(alloc::string::String::new(), |template| {
                let parts = template.letters().into_iter().zip(template.stops);
                parts.flat_map(|(letter, stops)| [Some(letter), stops.then_some(';')]).flatten().collect()
            });
            assert_eq!(text, expected, "{number:#x}");
            assert_eq!(Template::of(number).is_some_and(Template::is_long), matches!(number, 4 | 5));
        }
    }
}
