//! The registers of a CPU in a core dump ([`Layout`]), and the virtual addresses at which kernels map all memory
//! ([`CoreFile`]). Each ISA has a row in its [`super::Model`].

use super::View;
use trapline_isa::arch::Isa;
use trapline_isa::regs::{Reg, Registers};

/// The facts of an ISA about core dumps.
pub struct CoreFile {
    /// Returns the layout of `elf_gregset_t`.
    pub layout: fn(&Isa) -> Layout,
    /// The addresses of the first byte of RAM in the map of all memory, in different releases. The first that the
    /// page tables confirm is used.
    pub direct_maps: &'static [u64],
}

impl CoreFile {
    /// The layout for ISAs whose core dumps hold `pt_regs`, with the registers in the order of their names.
    pub const USUAL: CoreFile =
        CoreFile { layout: |isa| Layout::words(isa, isa.abi.names.iter().map(|(_, reg)| Word::Of(*reg)), 0), direct_maps: &[] };
}

/// A word of a core dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// A register.
    Of(Reg),
    /// The pc.
    Pc,
    /// A value that no CPU has, such as the number of a system call.
    Empty,
}

/// The places of registers in a core dump.
pub struct Layout {
    /// The size of the register area in bytes.
    bytes: usize,
    /// The words, with their offsets.
    words: Vec<(usize, Word)>,
}

impl Layout {
    /// A layout of these words, padded to at least `least` words.
    pub fn words(isa: &Isa, words: impl IntoIterator<Item = Word>, least: usize) -> Layout {
        let words: Vec<_> = words.into_iter().enumerate().map(|(number, word)| (number * isa.word, word)).collect();
        Layout { bytes: words.len().max(least) * isa.word, words }
    }

    /// Leaves this many words free in front. The length stays.
    pub fn behind(mut self, words: usize, isa: &Isa) -> Layout {
        self.words.iter_mut().for_each(|(at, _)| *at += words * isa.word);
        self
    }

    /// Leaves this many bytes free behind.
    pub fn with_room(mut self, bytes: usize) -> Layout {
        self.bytes += bytes;
        self
    }

    /// The registers of a CPU in this layout. `pc` is its pc.
    pub fn read(&self, view: &mut View, pc: u64) -> Vec<u8> {
        // The named pc is that of the view.
        let before = std::mem::replace(&mut view.pc, pc);
        let mut bytes = vec![0; self.bytes];
        for (at, word) in &self.words {
            let value = match word {
                Word::Of(reg) => view.get(*reg),
                Word::Pc => pc,
                Word::Empty => 0,
            };
            if let Some(place) = bytes.get_mut(*at..at + view.isa.word) {
                view.isa.order.put(value & view.mask, place);
            }
        }
        view.pc = before;
        bytes
    }
}

#[cfg(test)]
mod tests {
    use crate::arches;

    /// AN-1: the sizes are those of `elf_gregset_t` in each ISA's headers, and every register lies inside.
    #[test]
    fn the_registers_have_the_size_of_elf_gregset_t() {
        #[rustfmt::skip]
        let sizes = [
            ("i386", 17 * 4), ("x86_64", 27 * 8), ("arm", 18 * 4), ("thumb2", 18 * 4), ("arm64", 34 * 8),
            ("ppc", 48 * 4), ("ppc64", 48 * 8), ("ppc64le", 48 * 8), ("s390x", 216), ("mips", 45 * 4), ("mipsel", 45 * 4),
            ("mips64", 45 * 8), ("mips64el", 45 * 8), ("sparc64", 36 * 8), ("riscv64", 32 * 8), ("riscv32", 32 * 4), ("parisc", 80 * 4), ("ia64", 128 * 8),
        ];
        for (name, size) in sizes {
            let row = arches::all().find(|row| row.arch.name() == name).expect(name);
            let model = row.machine.as_ref().expect(name).model;
            let layout = (model.core_file.layout)(row.arch.isa());
            assert_eq!(layout.bytes, size, "{name}");
            assert!(layout.words.iter().all(|(at, _)| at + row.arch.isa().word <= size), "{name}");
            assert!(layout.words.len() >= 17, "{name}");
        }
        assert_eq!(sizes.len(), arches::all().count());
    }
}
