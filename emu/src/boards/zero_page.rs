//! Builds the boot data of Linux on x86: boot parameters ("zero page"), memory map, command line, and initramfs.
//!
//! Both widths use the same protocol: esi holds the address of the parameters, and the ELF image is already in place.
//! So neither the set-up code nor the decompressor of a bzImage runs (Documentation/x86/boot.rst, zero-page.rst). A
//! bzImage that is booted whole (`boot/whole.rs`) gets its own header in the parameters, which its decompressor needs.

use super::{Boot, RANDOM_SEED};
use crate::error::MachineError;

/// Size limit of the command line, including its terminating 0.
pub const COMMAND_LINE_BYTES: usize = 2048;

const PARAMETERS: u64 = 0x1_0000;
const PARAMETERS_BYTES: usize = 4096;
const COMMAND_LINE: u64 = 0x2_0000;
const SETUP_DATA: u64 = 0x2_1000;
const PAGE: u64 = 4096;

/// The end of conventional memory and the start of extended memory on a PC.
const LOW_END: u64 = 0x9_f000;
const HIGH_START: u64 = 0x10_0000;

// Offsets in the boot parameters.
const E820_ENTRIES: usize = 0x1e8;
const SETUP_HEADER: usize = 0x1f1;
const SETUP_HEADER_END: usize = 0x290;
const BOOT_FLAG: usize = 0x1fe;
const HEADER_MAGIC: usize = 0x202;
const PROTOCOL: usize = 0x206;
const LOADER: usize = 0x210;
const LOAD_FLAGS: usize = 0x211;
const CODE_START: usize = 0x214;
const INITRD_ADDRESS: usize = 0x218;
const INITRD_BYTES: usize = 0x21c;
const COMMAND_LINE_ADDRESS: usize = 0x228;
const INITRD_HIGHEST: usize = 0x22c;
const KERNEL_ALIGNMENT: usize = 0x230;
const COMMAND_LINE_MOST: usize = 0x238;
const SETUP_DATA_ADDRESS: usize = 0x250;
const E820_TABLE: usize = 0x2d0;
const E820_ROW: usize = 20;

const BOOT_MAGIC: u16 = 0xaa55;
const PROTOCOL_2_15: u16 = 0x020f;
const LOADER_UNKNOWN: u8 = 0xff;
const LOADED_HIGH: u8 = 1;
const ALIGNMENT: u32 = 0x20_0000;
const LINKED_AT: u32 = 0x100_0000;
const HIGHEST: u32 = 0x7fff_ffff;

/// The type of a setup_data entry with a random seed.
const SETUP_RNG_SEED: u32 = 9;

const USABLE: u32 = 1;
const RESERVED: u32 = 2;

/// The boot data for RAM that ends at an address and has a hole if it is beyond that, an image that ends at `kernel_end`,
/// and the bzImage's header or none. Fails if it does not fit.
pub fn boot(
    command_line: &str,
    initrd: &[u8],
    (ram, (hole, hole_end)): (u64, (u64, u64)),
    kernel_end: u64,
    header: &[u8],
) -> Result<Boot, MachineError> {
    if command_line.len() >= COMMAND_LINE_BYTES {
        let (has, takes) = (command_line.len(), COMMAND_LINE_BYTES - 1);
        return Err(MachineError::Config(format!("the command line has {has} bytes, Linux takes {takes}")));
    }
    let initrd_at = ram.min(u64::from(HIGHEST) + 1).saturating_sub(initrd.len() as u64) & !(PAGE - 1);
    if initrd_at < kernel_end.max(HIGH_START) {
        return Err(MachineError::Config(format!(
            "kernel (up to {kernel_end:#x}) and initial file system ({} bytes) have no room in {ram:#x} bytes of RAM",
            initrd.len()
        )));
    }
    let mut parameters = Parameters(vec![0; PARAMETERS_BYTES]);
    match header {
        [] => {
            parameters.put(BOOT_FLAG, &BOOT_MAGIC.to_le_bytes());
            parameters.put(HEADER_MAGIC, b"HdrS");
            parameters.put(PROTOCOL, &PROTOCOL_2_15.to_le_bytes());
            parameters.put_word(CODE_START, LINKED_AT);
            parameters.put_word(INITRD_HIGHEST, HIGHEST);
            parameters.put_word(KERNEL_ALIGNMENT, ALIGNMENT);
            parameters.put_word(COMMAND_LINE_MOST, COMMAND_LINE_BYTES as u32 - 1);
        }
        _ => parameters.put(SETUP_HEADER, &header[..header.len().min(SETUP_HEADER_END - SETUP_HEADER)]),
    }
    parameters.put(LOADER, &[LOADER_UNKNOWN]);
    parameters.put(LOAD_FLAGS, &[LOADED_HIGH]);
    parameters.put_word(COMMAND_LINE_ADDRESS, COMMAND_LINE as u32);
    if !initrd.is_empty() {
        parameters.put_word(INITRD_ADDRESS, initrd_at as u32);
        parameters.put_word(INITRD_BYTES, initrd.len() as u32);
    }
    let low = [(0, LOW_END, USABLE), (LOW_END, HIGH_START, RESERVED)];
    match hole < hole_end && ram > hole_end {
        true => parameters.memory(&[&low[..], &[(HIGH_START, hole, USABLE), (hole_end, ram, USABLE)]].concat()),
        false => parameters.memory(&[&low[..], &[(HIGH_START, ram, USABLE)]].concat()),
    }
    parameters.put(SETUP_DATA_ADDRESS, &SETUP_DATA.to_le_bytes());
    let line = [command_line.as_bytes(), &[0]].concat();
    let pieces =
        vec![(PARAMETERS, parameters.0), (COMMAND_LINE, line), (SETUP_DATA, random_seed()), (initrd_at, initrd.to_vec())];
    Ok(Boot { pieces, info: PARAMETERS, ..Boot::default() })
}

/// A setup_data entry: address of the next entry (none), type, length, data.
fn random_seed() -> Vec<u8> {
    let length = RANDOM_SEED.len() as u32;
    [&0_u64.to_le_bytes()[..], &SETUP_RNG_SEED.to_le_bytes(), &length.to_le_bytes(), RANDOM_SEED].concat()
}

struct Parameters(Vec<u8>);

impl Parameters {
    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn put_word(&mut self, at: usize, value: u32) {
        self.put(at, &value.to_le_bytes());
    }

    /// Writes the E820 map of (start, end, type). Memory that is not listed does not exist for the guest.
    fn memory(&mut self, rows: &[(u64, u64, u32)]) {
        self.put(E820_ENTRIES, &[rows.len() as u8]);
        for (number, (start, end, kind)) in rows.iter().enumerate() {
            let at = E820_TABLE + E820_ROW * number;
            self.put(at, &start.to_le_bytes());
            self.put(at + 8, &(end - start).to_le_bytes());
            self.put_word(at + 16, *kind);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::NO_HOLE;
    use super::*;

    #[test]
    fn the_parameters_have_all_addresses() {
        let ram = 64 << 20;
        let boot = boot("quiet", &[7; 5000], (ram, NO_HOLE), 0x400_0000 - 0x10_0000, &[]).expect("it fits");
        let [(at, parameters), (line_at, line), (seed_at, seed), (initrd_at, initrd)] = &boot.pieces[..] else {
            panic!("four pieces")
        };
        assert_eq!((*at, line.as_slice(), initrd.len()), (boot.info, &b"quiet\0"[..], 5000));
        let word = |at: usize| u64::from(u32::from_le_bytes(parameters[at..at + 4].try_into().expect("4 bytes")));
        assert_eq!((word(COMMAND_LINE_ADDRESS), word(INITRD_ADDRESS), word(INITRD_BYTES)), (*line_at, *initrd_at, 5000));
        assert_eq!((word(SETUP_DATA_ADDRESS), &seed[..8], &seed[16..]), (*seed_at, &[0; 8][..], RANDOM_SEED), "and no more");
        assert_eq!((initrd_at % PAGE, initrd_at + 8192), (0, ram), "at the top");
        assert_eq!((parameters[E820_ENTRIES], word(E820_TABLE + 40), word(E820_TABLE + 48)), (3, HIGH_START, ram - HIGH_START));
    }

    #[test]
    fn memory_has_a_hole_and_the_initramfs_lies_where_linux_takes_it() {
        let boot = boot("", &[7; 4096], (9 << 30, (3 << 30, 4 << 30)), 0x400_0000, &[]).expect("it fits");
        let parameters = &boot.pieces[0].1;
        let long = |at: usize| u64::from_le_bytes(parameters[at..at + 8].try_into().expect("8 bytes"));
        let row = |number: usize| (long(E820_TABLE + E820_ROW * number), long(E820_TABLE + E820_ROW * number + 8));
        assert_eq!((parameters[E820_ENTRIES], row(2), row(3)), (4, (HIGH_START, (3 << 30) - HIGH_START), (4 << 30, 5 << 30)));
        assert_eq!(boot.pieces[3].0, (2 << 30) - 4096);
    }

    #[test]
    fn a_whole_bzimage_gets_its_own_header() {
        for length in [0x7b, 0xff + 0x11] {
            let boot = boot("quiet", &[], (64 << 20, NO_HOLE), HIGH_START, &vec![0xee; length]).expect("it fits");
            let parameters = &boot.pieces[0].1;
            assert_eq!(
                (parameters[KERNEL_ALIGNMENT], parameters[LOADER], parameters[LOAD_FLAGS]),
                (0xee, LOADER_UNKNOWN, LOADED_HIGH)
            );
            assert_eq!(
                (parameters[E820_ENTRIES], parameters[SETUP_HEADER - 1], parameters[SETUP_HEADER_END]),
                (3, 0, 0),
                "around it"
            );
        }
    }

    #[test]
    fn images_that_do_not_fit_are_refused() {
        let long = "x".repeat(COMMAND_LINE_BYTES);
        #[rustfmt::skip]
        let cases: [(&str, &str, usize, u64, Option<&str>); 4] = [
            ("all fits",                        "",    4096,    0x200_0000, None),
            ("a command line too long",         &long, 0,       0x200_0000, Some("command line")),
            ("a file system over the kernel",   "",    1 << 25, 0x300_0000, Some("no room")),
            ("a file system larger than RAM",   "",    1 << 27, 0x200_0000, Some("no room")),
        ];
        for (what, line, initrd, kernel_end, refusal) in cases {
            let answer = boot(line, &vec![0; initrd], (64 << 20, NO_HOLE), kernel_end, &[]);
            match refusal {
                None => assert!(answer.is_ok(), "{what}"),
                Some(words) => assert!(answer.is_err_and(|why| why.to_string().contains(words)), "{what}"),
            }
        }
    }
}
