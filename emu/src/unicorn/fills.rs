//! Holds quick walks against the library's, over random page tables that an ISA's tests write.

use super::engine::{By, Core, TrapContext};
use super::kinds::CoreKind;
use super::ram::Ram;
use super::witness::Witness;

/// Numbers that look random, the same each time.
pub struct Numbers(pub u64);

impl Numbers {
    /// The next one.
    pub fn any(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 20 ^ self.0 >> 41
    }

    /// True once in so many times.
    pub fn one_in(&mut self, many: u64) -> bool {
        self.any().is_multiple_of(many)
    }

    /// One of these.
    pub fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.any() as usize % all.len()]
    }
}

/// Two cores over one RAM: one fills in translations by quick walks as far as these go, the other by the library alone.
pub struct Pair {
    ram: Ram,
    cores: [Core<Witness>; 2],
    /// How many the quick walks have filled in.
    pub quick: usize,
    /// How many they have left to the library.
    pub left: usize,
}

impl Pair {
    /// Two of this kind.
    pub fn new(kind: &'static CoreKind, ram: &Ram) -> Pair {
        let core = || Core::new(kind, ram).expect("a core");
        Pair { ram: ram.clone(), cores: [core(), core()], quick: 0, left: 0 }
    }

    /// Does this to both.
    pub fn set(&self, registers: impl Fn(&TrapContext)) {
        self.cores.iter().for_each(|core| registers(&core.stopped()));
    }

    /// Both fill in this translation, and what they keep is the same; where a quick walk went, nothing had to be written
    /// to the rows of the tables, which stand at these addresses.
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
            // From here on both have the same again.
            walks.fill_by(By::Library, address, access, mode);
        }
    }
}
