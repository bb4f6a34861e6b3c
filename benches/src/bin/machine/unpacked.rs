//! Writes a kernel as an uncompressed ELF file of its loaded segments, so that QEMU does not run the kernel's own
//! decompressor. trapline does not run it either.

use trapline::boot::Kernel;
use trapline_isa::mem::ByteOrder;

const EXECUTABLE: u64 = 2;
const VERSION: u64 = 1;
const LOADED: u64 = 1;
const READ_WRITE_RUN: u64 = 7;

/// Writes the numbers of an ELF header with their sizes and byte order.
struct Writer {
    order: ByteOrder,
    word: usize,
    file: Vec<u8>,
}

impl Writer {
    fn number(&mut self, value: u64, bytes: usize) {
        let (little, big) = (value.to_le_bytes(), value.to_be_bytes());
        match self.order {
            ByteOrder::Little => self.file.extend(&little[..bytes]),
            ByteOrder::Big => self.file.extend(&big[8 - bytes..]),
        }
    }

    fn words(&mut self, values: &[u64]) {
        for value in values {
            self.number(*value, self.word);
        }
    }
}

/// The ELF file with the kernel's segments and entry at their virtual addresses. `machine` is ELF's e_machine.
pub fn elf(kernel: &Kernel, machine: u64) -> Vec<u8> {
    let isa = kernel.arch.isa();
    let is_wide = isa.word == 8;
    let mut to = Writer { order: isa.order, word: isa.word, file: b"\x7fELF".to_vec() };
    to.file.extend([if is_wide { 2 } else { 1 }, if isa.order == ByteOrder::Little { 1 } else { 2 }, 1]);
    to.file.resize(16, 0);
    let (header, program) = if is_wide { (64, 56) } else { (52, 32) };
    let seen = kernel.segments.iter().find(|segment| (segment.physical..segment.physical + segment.size).contains(&kernel.entry));
    let entry = seen.map_or(kernel.entry, |segment| segment.virtual_address + (kernel.entry - segment.physical));
    to.number(EXECUTABLE, 2);
    to.number(machine, 2);
    to.number(VERSION, 4);
    to.words(&[entry, header, 0]);
    to.number(0, 4);
    for half in [header, program, kernel.segments.len() as u64, 0, 0, 0] {
        to.number(half, 2);
    }
    let mut at = header + program * kernel.segments.len() as u64;
    for segment in kernel.segments.iter() {
        let (address, bytes) = (segment.virtual_address, segment.bytes.len() as u64);
        to.number(LOADED, 4);
        if is_wide {
            to.number(READ_WRITE_RUN, 4);
        }
        to.words(&[at, address, address, bytes, segment.size]);
        if !is_wide {
            to.number(READ_WRITE_RUN, 4);
        }
        to.words(&[1]);
        at += bytes;
    }
    for segment in kernel.segments.iter() {
        to.file.extend(&segment.bytes);
    }
    to.file
}
