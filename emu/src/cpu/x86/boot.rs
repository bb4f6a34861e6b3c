//! The state at a kernel's entry by Linux's boot protocols: long mode with an identity map, or flat protected mode.

use super::state::{self, GDT, SEGMENT_BASE, SEGMENT_LIMIT};
use crate::unicorn::engine::TrapContext;
use crate::unicorn::ram::Ram;
use unicorn_engine_sys::RegisterX86;

const PAGE: u64 = 4096;
/// Size of the descriptor table and the identity map: one page for descriptors, one for each of the two upper levels,
/// four directories.
pub const TABLE_BYTES: u64 = 7 * PAGE;

const PRESENT_WRITABLE: u64 = 3;
const LARGE: u64 = 0x80;

/// Enters the kernel at `entry`, with the CPU's number in di and the address of the boot information in si.
pub fn enter<const LONG: bool>(cpu: &TrapContext, ram: &Ram, tables: u64, entry: u64, number: u64, info: u64) {
    let descriptors = boot_descriptors(LONG);
    for (index, word) in descriptors.iter().enumerate() {
        ram.set_word64(tables + 8 * index as u64, *word);
    }
    if LONG {
        let top = tables + PAGE;
        identity_map(ram, top);
        state::enter_long(cpu, entry, top);
    } else {
        state::enter_flat_32(cpu, entry);
    }
    cpu.edit(|image| {
        image.set64(GDT + SEGMENT_BASE, tables);
        image.set32(GDT + SEGMENT_LIMIT, 8 * descriptors.len() as u32 - 1);
    });
    cpu.write(RegisterX86::RDI, number);
    cpu.write(RegisterX86::RSI, info);
}

/// The descriptors: null, unused, code, data.
fn boot_descriptors(long: bool) -> [u64; 4] {
    let code = if long { 0x00af_9b00_0000_ffff } else { 0x00cf_9b00_0000_ffff };
    [0, 0, code, 0x00cf_9300_0000_ffff]
}

/// Maps the first 4 GiB identically, in pages of 2 MiB.
fn identity_map(ram: &Ram, top: u64) {
    let upper = top + PAGE;
    let directories = upper + PAGE;
    ram.set_word64(top, upper | PRESENT_WRITABLE);
    for gigabyte in 0..4 {
        let directory = directories + gigabyte * PAGE;
        ram.set_word64(upper + 8 * gigabyte, directory | PRESENT_WRITABLE);
        for entry in 0..512 {
            let page = (gigabyte * 512 + entry) << 21;
            ram.set_word64(directory + 8 * entry, page | PRESENT_WRITABLE | LARGE);
        }
    }
}
