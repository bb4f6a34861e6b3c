//! Decoded bundles, found by physical address.

use alloc::boxed::Box;
use alloc::vec::Vec;
use trapline_isa::ia64::bundle::{BUNDLE, Bundle, Template};
use trapline_isa::ia64::decode::{Instruction, in_bundle};

/// The number of entries of the cache.
const PLACES: usize = 1 << 13;

/// A bundle with its instructions. `None` is no instruction: it raises an exception if it is reached.
#[derive(Clone, Copy, Debug)]
pub(super) struct Decoded {
    at: u64,
    pub slots: [Option<Instruction>; 3],
    /// Whether slots 1 and 2 are one long instruction.
    pub is_long: bool,
}

impl Decoded {
    pub fn of(at: u64, halves: [u64; 2]) -> Decoded {
        let bundle = Bundle(halves);
        let slots = [0, 1, 2].map(|slot| in_bundle(bundle, slot));
        Decoded { at, slots, is_long: bundle.template().is_some_and(Template::is_long) }
    }
}

/// A direct-mapped cache of decoded bundles.
#[derive(Debug)]
pub(super) struct Bundles {
    places: Box<[Option<Decoded>]>,
}

fn place(physical: u64) -> usize {
    (physical / BUNDLE) as usize % PLACES
}

impl Bundles {
    pub fn new() -> Bundles {
        Bundles { places: (0..PLACES).map(|_| None).collect::<Vec<_>>().into_boxed_slice() }
    }

    /// The bundle at a physical address.
    #[inline(always)]
    pub fn at(&self, physical: u64) -> Option<&Decoded> {
        self.places[place(physical)].as_ref().filter(|bundle| bundle.at == physical)
    }

    pub fn keep(&mut self, bundle: Decoded) {
        self.places[place(bundle.at)] = Some(bundle);
    }

    /// Forgets the bundle of an address, which is about to be written.
    #[inline(always)]
    pub fn forget(&mut self, physical: u64) {
        let place = &mut self.places[place(physical)];
        if place.as_ref().is_some_and(|bundle| bundle.at == physical & !(BUNDLE - 1)) {
            *place = None;
        }
    }

    /// Forgets all bundles.
    pub fn forget_all(&mut self) {
        self.places.fill(None);
    }
}
