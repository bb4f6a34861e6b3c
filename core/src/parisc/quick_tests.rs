//! The short forms of instructions do what the full ones do.

use super::blocks::Run;
use super::decode::decode;
use super::execute::Step;
use super::quick::{Quick, What};
use super::straight::End;
use super::{Core, Entry, State, number, psw};
use crate::Host;
use alloc::vec::Vec;
use alloc::{format, vec};

const RAM: usize = 0x4000;
const PC: u32 = 0x2000;
/// Instructions whose short forms are compared.
const INSTRUCTIONS: u32 = 100_000;

#[derive(Clone, Debug, PartialEq, Eq)]
struct Memory(Vec<u8>);

impl Host for Memory {
    fn load(&mut self, physical: u64, size: u32) -> Option<u32> {
        let bytes = self.0.get(physical as usize..(physical + u64::from(size)) as usize)?;
        Some(bytes.iter().fold(0, |value, byte| value << 8 | u32::from(*byte)))
    }
    fn store(&mut self, physical: u64, size: u32, value: u32) -> bool {
        let Some(bytes) = self.0.get_mut(physical as usize..(physical + u64::from(size)) as usize) else { return false };
        bytes.copy_from_slice(&value.to_be_bytes()[4 - size as usize..]);
        true
    }
    fn device_in(&mut self, _: u64, _: u32) -> u32 {
        0
    }
    fn device_out(&mut self, _: u64, _: u32, _: u32) {}
    fn block(&mut self, _: u64, _: u32) {}
    fn always_wants(&mut self, _: u64) -> bool {
        false
    }
    fn exception(&mut self, _: u32) {}
    fn read_clock(&mut self) {}
    fn has_code(&mut self, _: u64) {}
    fn dropped(&mut self) -> Option<u64> {
        None
    }
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) as u32
    }

    /// A number at which results change, or an address, or any number.
    fn number(&mut self) -> u32 {
        const SPECIAL: [u32; 8] = [0, 1, u32::MAX, 0x7fff_ffff, 0x8000_0000, 0x8000_0001, 31, 0x1000];
        match self.next() % 4 {
            0 => SPECIAL[self.next() as usize % 8],
            1 => self.next(),
            _ => (self.next() % RAM as u32) & !3,
        }
    }
}

/// A core with one instruction, and translations of data.
fn core_with(word: u32) -> Core {
    let mut core = Core::new(0, RAM as u64);
    core.code.ops.push(decode(word));
    core.code.quick.push(Quick::of(&decode(word)));
    let state = core.state();
    for (number, cell) in state.spaces.iter().enumerate() {
        cell.set(number as u32 & 1);
    }
    for page in 0..8 {
        let entry: &Entry = &state.tlb.0[page as usize];
        entry.space.set(page & 1);
        // The entry has an address and rights.
        entry.page.set((page / 2) << 12 | 3);
        entry.physical.set((page / 2) << 12);
        // A dirty data page that all levels read and write.
        entry.rights.set(1 << 28 | 1 << 24 | 3 << 22 | 3 << 20);
    }
    core
}

/// Sets the registers and the queue in front of the instruction.
fn prepare(state: &State, seed: u64) {
    let mut random = Random(seed);
    state.general[1..].iter().for_each(|cell| cell.set(random.number()));
    state.control.iter().for_each(|cell| cell.set(random.number()));
    state.control[number::SAR].set(random.next() & 31);
    state.set_psw(random.next() & (psw::CARRIES | psw::D | psw::V));
    state.front_level.set(random.next() & 3);
    state.back_level.set(state.front_level.get());
    state.go_to(PC);
}

/// KP-2: registers, carries, memory, nullification and target are equal, for random words of every opcode.
#[test]
fn short_forms_do_what_full_forms_do() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let memory = Memory((0..RAM).map(|_| random.next() as u8).collect());
    let mut compared = vec![0; What::ToSpace as usize + 1];
    while compared.iter().sum::<u32>() < INSTRUCTIONS {
        let any = random.next();
        // Arithmetic between registers is rare among all words, above all without a condition, and so are accesses with an index
        // or a short displacement.
        let word = match random.next() % 6 {
            0 => 2 << 26 | any & 0x03ff_ffdf,
            1 => 2 << 26 | any & 0x03ff_0fdf,
            2 => 2 << 26 | any & 0x001f_0fdf,
            3 => 3 << 26 | any & 0x03ff_ffff,
            4 => any & 0x03ff_e01f | [0x25, 0x45, 0xc1, 0xc2][any as usize >> 26 & 3] << 5,
            _ => any,
        };
        let seed = u64::from(random.next()) << 32 | 1;
        let quick = Quick::of(&decode(word));
        if quick.what == What::Other {
            continue;
        }
        let (mut short, mut full) = (core_with(word), core_with(word));
        let (mut ours, mut theirs) = (memory.clone(), memory.clone());
        prepare(full.state(), seed);
        let step = full.step(&mut theirs, decode(word), PC, PC + 4);
        // An access needs a translation that is known.
        prepare(short.state(), seed);
        short.step(&mut memory.clone(), decode(word), PC, PC + 4);
        prepare(short.state(), seed);
        let end = short.straight(&mut ours, Run { block: 0, first: 1, len: 1 }, PC, 0);
        let name = format!("{word:08x}, {:?}", quick.what);
        if matches!(end, End::Slow { .. }) {
            let what = quick.what as u8;
            let is_privileged = what > What::Vectored as u8 && short.state().front_level.get() != 0;
            let is_access = (What::LoadByte as u8..What::CompareBranch as u8).contains(&what);
            assert!(is_access || is_privileged || quick.what == What::Vectored, "{name}");
            assert!(ours == memory, "memory of {name}");
            continue;
        }
        let back = PC + 4;
        let (expected, nullify) = match step {
            Step::Next | Step::Look => (back, 0),
            Step::Nullify => (back, 1),
            Step::Branch { nullifies: true } => (full.target.to, 0),
            Step::Branch { nullifies: false } => (full.target.to, 2),
            other => panic!("{word:08x}: {other:?}"),
        };
        match end {
            End::Near { to, nullify: ours } if nullify == 2 => assert_eq!((to, ours, expected), (back, 0, back + 4), "{name}"),
            End::Near { to, nullify: ours } => assert_eq!((to, ours), (expected, nullify), "{name}"),
            End::Split => assert_eq!((short.state().back.get(), 2), (expected, nullify), "{name}"),
            End::Slow { .. } => {}
        }
        let seen = |core: &Core| {
            let state = core.state();
            let general: Vec<u32> = state.general.iter().map(|cell| cell.get()).collect();
            let [control, spaces] =
                [&state.control[..], &state.spaces[..]].map(|cells| cells.iter().map(|cell| cell.get()).collect::<Vec<u32>>());
            (general, state.psw(), control, spaces, state.front_level.get(), state.front_space.get())
        };
        assert_eq!(seen(&short), seen(&full), "{name}");
        assert!(ours == theirs, "memory of {name}");
        compared[quick.what as usize] += 1;
    }
    let rare: Vec<usize> = (1..compared.len()).filter(|what| compared[*what] < 10).collect();
    assert_eq!(rare, Vec::<usize>::new(), "{compared:?}");
}
