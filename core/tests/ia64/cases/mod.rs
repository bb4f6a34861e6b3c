//! Cases: a few random bundles and a random state, in a frame that runs them some times and notes interruptions.

mod choice;
mod words;

use super::code::Random;
use choice::Place;
use trapline_isa::ia64::bundle::{Bundle, SLOTS, Template, Unit};

/// The assembled frame, behind the vectors.
const FRAME: &[u8] = include_bytes!("../cases.bin");
/// The address of images and of the RAM, and the RAM's size.
pub const BASE: u64 = 0x10_0000;
pub const RAM: usize = 0x4_0000;
/// The address of the first instruction.
pub const START: u64 = BASE + TEXT as u64;
const TEXT: usize = 0x8000;
const HANDLER: usize = TEXT + 0x10;
const BODY: usize = TEXT + 0x20;
/// The address behind the code.
const BEHIND: u64 = BASE + (BODY + 16 * BUNDLES) as u64;
/// Bundles of a case.
pub const BUNDLES: usize = 4;
/// The places of the data in the image.
const DATA: usize = 0xc000;
const REALS: usize = DATA + 0x2c0;
const OTHERS: usize = REALS + 42 * 16;
const PAGE: usize = DATA + 0x600;
const MEMORY: usize = DATA + 0x700;
const MEMORY_END: usize = DATA + 0xb00;
const NOTES: usize = MEMORY_END;
const END: usize = DATA + 0x6000;
/// Bits of the processor status.
const IC: u64 = 1 << 13;
const DT: u64 = 1 << 17;
const RT: u64 = 1 << 27;
const BN: u64 = 1 << 44;
const LEVEL: u64 = 3 << 32;
/// The register with the address of the memory's middle.
pub const POINTER: u8 = 3;

/// A case.
pub struct Case {
    /// The seed of the state.
    pub seed: u64,
    /// The code.
    pub code: Vec<Bundle>,
}

impl Case {
    /// The random case of a seed. Each third one runs as a program, without privileges.
    pub fn new(seed: u64) -> Case {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let mut code = Vec::new();
        while code.len() < BUNDLES {
            let left = BUNDLES - code.len();
            code.push(bundle(&mut random, left, [seed.is_multiple_of(3), seed.is_multiple_of(4)]));
        }
        Case { seed, code }
    }

    /// The image in memory: vectors, frame, code and data.
    pub fn image(&self) -> Vec<u8> {
        let mut image = Vec::new();
        for at in (0..TEXT).step_by(16) {
            let distance = ((HANDLER - at) / 16) as u64;
            image.extend(Bundle::new(0x11, [NOP, MOVE_IP | 16 << 6, BRANCH | distance << 13]).bytes());
        }
        image.extend(FRAME);
        assert!(image.len() <= DATA);
        for (number, bundle) in self.code.iter().enumerate() {
            image[BODY + 16 * number..][..16].copy_from_slice(&bundle.bytes());
        }
        image.resize(DATA, 0);
        let mut random = Random(self.seed.wrapping_mul(0xd134_2543_de82_ef95) | 1);
        while image.len() < REALS {
            let bits = image.len() == DATA || image.len() == DATA + 23 * 8;
            let value = if bits { random.next() & random.next() & random.next() } else { number(&mut random) };
            image.extend(value.to_le_bytes());
        }
        while image.len() < OTHERS {
            real(&mut random).into_iter().for_each(|half| image.extend(half.to_le_bytes()));
        }
        // Predicates, b6, b7, CCV, UNAT, LC, EC, the status of the body, and the times it runs.
        for value in [random.next(), random.next(), BEHIND, number(&mut random), random.next()] {
            image.extend(value.to_le_bytes());
        }
        let level = if self.seed.is_multiple_of(3) { LEVEL } else { 0 };
        let disabled = if random.below(8) == 0 { 1 << (18 + random.below(2)) } else { 0 };
        for value in [random.below(4), random.below(4), IC | DT | RT | BN | level | disabled, 3 + random.below(8)] {
            image.extend(value.to_le_bytes());
        }
        // The translation of the data, which is the kernel's or everyone's.
        image.resize(PAGE, 0);
        let everyone = if random.below(4) == 0 { 0 } else { 3 << 7 };
        image.extend((0x10_0000_0000_0661_u64 | everyone).to_le_bytes());
        image.resize(MEMORY, 0);
        while image.len() < MEMORY_END {
            image.extend(number(&mut random).to_le_bytes());
        }
        image.resize(END, 0);
        image
    }
}

/// Whether a case's output notes an interruption of its code.
pub fn notes(output: &[u8]) -> bool {
    output.get(NOTES - DATA..).is_some_and(|notes| notes.iter().take(8).any(|byte| *byte != 0))
}

/// A number; special ones are frequent.
fn number(random: &mut Random) -> u64 {
    let special = [0, 1, u64::MAX, 1 << 63, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff, 0x0001_0203_0405_0607];
    match random.below(3) {
        0 => special[random.below(8) as usize],
        1 => random.next() >> random.below(64),
        _ => random.next(),
    }
}

/// The contents of a floating-point register in memory: an integer, a number, zero, or the mark of a deferred interruption.
fn real(random: &mut Random) -> [u64; 2] {
    match random.below(8) {
        0..=3 => [number(random), 0x1003e],
        4 | 5 => [random.next() | 1 << 63, random.below(2) << 17 | (0xffff - 200 + random.below(400))],
        6 => [0, random.below(2) << 17],
        _ => [0, 0x1fffe],
    }
}

const NOP: u64 = 1 << 27;
const MOVE_IP: u64 = 0x30 << 27;
const BRANCH: u64 = 4 << 37;

/// A random bundle. `left` bundles are behind it.
fn bundle(random: &mut Random, left: usize, kinds: [bool; 2]) -> Bundle {
    let templates: Vec<u8> = (0..32).filter(|number| Template::of(*number).is_some()).collect();
    let number = templates[random.below(templates.len() as u64) as usize];
    let units = Template::of(number).map_or([Unit::M; SLOTS], |template| template.units);
    let [is_program, is_advanced] = kinds;
    let mut words = [0; SLOTS];
    for place in 0..SLOTS {
        if units[place] == Unit::L {
            continue;
        }
        let is_last = Template::of(number).is_some_and(|template| template.stops[place]);
        let at = Place { unit: units[place], slot: place, left, is_last, is_program, is_advanced };
        let (word, long) = words::slot(random, at);
        words[place] = word;
        if units[place] == Unit::X {
            words[1] = long;
        }
    }
    Bundle::new(number, words)
}
