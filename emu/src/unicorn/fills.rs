//! For tests: fills TLB entries by the fast page-table walk (`translator/walk.h`) and by Unicorn's own, and compares the
//! results. The page tables are random ones that an ISA's test has written.

use super::engine::{By, Core, TrapContext};
use super::kinds::CoreKind;
use super::ram::Ram;
use super::recording_events::RecordingEvents;

/// Pseudo-random numbers, the same in each run.
pub struct Numbers(pub u64);

impl Numbers {
    /// The next number.
    pub fn any(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 20 ^ self.0 >> 41
    }

    /// True once in `many` calls on average.
    pub fn one_in(&mut self, many: u64) -> bool {
        self.any().is_multiple_of(many)
    }

    /// One of these values.
    pub fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.any() as usize % all.len()]
    }
}

/// Two cores on one RAM: the first fills its TLB by fast walks where these succeed, the other by Unicorn's walks alone.
pub struct Pair {
    ram: Ram,
    cores: [Core<RecordingEvents>; 2],
    /// The number of TLB entries that fast walks have filled.
    pub quick: usize,
    /// The number of TLB entries that they have left to Unicorn.
    pub left: usize,
}

impl Pair {
    /// Makes two cores of this kind.
    pub fn new(kind: &'static CoreKind, ram: &Ram) -> Pair {
        let core = || Core::new(kind, ram).expect("a core");
        Pair { ram: ram.clone(), cores: [core(), core()], quick: 0, left: 0 }
    }

    /// Sets registers of both.
    pub fn set(&self, registers: impl Fn(&TrapContext)) {
        self.cores.iter().for_each(|core| registers(&core.stopped()));
    }

    /// Fills the TLB entry of an address in both cores and compares the results. `rows` are the physical addresses of the
    /// page-table entries. If the fast walk succeeded, Unicorn's walk must not have changed these entries.
    pub fn compare(&mut self, address: u64, access: i32, mode: i32, rows: &[u64], what: &str) {
        let [walks, library] = &self.cores;
        let read = || rows.iter().map(|row| self.ram.word64(*row)).collect::<Vec<u64>>();
        let before = read();
        let by_walk = walks.fill_by(By::Walk, address, access, mode);
        let by_library = library.fill_by(By::Library, address, access, mode);
        if by_walk.is_some() {
            self.quick += 1;
            assert_eq!(by_walk, by_library, "{address:#x} access {access} mode {mode} rows {before:x?} {what}");
            assert_eq!(before, read(), "the library had to write: {address:#x} access {access} mode {mode} {what}");
        } else {
            self.left += 1;
            // Makes both cores equal again.
            walks.fill_by(By::Library, address, access, mode);
        }
    }
}
