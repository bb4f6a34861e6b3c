//! Unpacks the kernel in a vmlinuz of z/Architecture.
//!
//! A structure that the decompressor uses (arch/s390/boot/boot.h, struct vmlinux_info of 6.1) gives the kernel's linked
//! address and its size. It has no magic number; it stands in front of the payload, and its fields must agree with each
//! other and with the unpacked image. Relocations are applied here, with the values that the decompressor writes when
//! it does not move the kernel: without them the kernel's tables of addresses hold zeros.
//!
//! The code in front of the payload also detects the machine and leaves the result for the kernel, which cannot boot
//! without it. So that code runs first in the guest, with one change: its unpacking function is replaced by one that
//! returns the address of the kernel that was unpacked here.
//!
//! From 6.10 on, a kernel's virtual address differs from its physical one, and the file is different: `apart.rs`.

mod apart;

use super::Starter;
use super::elf;
use super::payload::{self, Shelf};
use crate::error::BootError;
use trapline_isa::mem::ByteOrder;

/// The magic number (Documentation/s390/zfcpdump.rst; arch/s390/boot/head.S) and its offset.
const MAGIC: (usize, &[u8]) = (0x1_0008, b"S390EP");

const WORD: usize = 8;
const PAGE: u64 = 4096;

/// Indices of the fields of `struct vmlinux_info`.
const START: usize = 0;
const ENTRY: usize = 1;
const IMAGE_SIZE: usize = 2;
const BSS_SIZE: usize = 3;
const SYMBOLS: usize = 8;
const RELOCATIONS: usize = 9;
const RELOCATIONS_END: usize = 10;
const FIELDS: usize = 11;

/// The size of a relocation: a place, a symbol and type, an addend.
const RELOCATION: usize = 3 * WORD;
/// The types handled here: the value is the addend, or the addend plus the symbol's value.
const KINDS: [u64; 4] = [R_390_GLOB_DAT, R_390_JMP_SLOT, R_390_RELATIVE, R_390_64];
const R_390_GLOB_DAT: u64 = 10;
const R_390_JMP_SLOT: u64 = 11;
const R_390_RELATIVE: u64 = 12;
const R_390_64: u64 = 22;
/// The size of a symbol: name, type and section (the last two bytes of the first word), its value, its size.
const SYMBOL: usize = 3 * WORD;

/// The kernel from a vmlinuz.
#[derive(Debug, PartialEq, Eq)]
pub struct Inner {
    /// The image as it must be in memory.
    pub bytes: Vec<u8>,
    /// The size in memory, including zeroed memory behind the image.
    pub size: u64,
    /// The virtual address.
    pub start: u64,
    /// The physical address.
    pub physical: u64,
    /// The boot stub; `None` if the unpacking function was not found.
    pub starter: Option<Starter>,
}

/// Whether these bytes are a vmlinuz of z/Architecture.
pub fn is_vmlinuz(bytes: &[u8]) -> bool {
    bytes.get(MAGIC.0..).is_some_and(|rest| rest.starts_with(MAGIC.1))
}

/// Unpacks the kernel.
pub fn unpack(shelf: &dyn Shelf, bytes: &[u8]) -> Result<Inner, BootError> {
    let places = || (MAGIC.0..bytes.len()).step_by(WORD);
    if let Some((at, info)) = places().find_map(|at| Info::at(bytes, at).map(|info| (at, info))) {
        let (start, image) = payload_behind(shelf, bytes, at + FIELDS * WORD, |image| info.fits(image))?;
        return Ok(Inner { starter: starter(bytes, start), ..info.relocated(image) });
    }
    let (at, info) = places().find_map(|at| apart::Info::at(bytes, at).map(|info| (at, info))).ok_or_else(|| refused(NO_INFO))?;
    let (start, image) = payload_behind(shelf, bytes, at + apart::FIELDS * WORD, |image| info.fits(image))?;
    info.inner(bytes, at, start, image)
}

fn refused(why: &str) -> BootError {
    BootError::Payload { what: "the vmlinuz", why: why.into() }
}

/// The payload's offset, and the image from it, which must be accepted by `fits`. The file does not give the offset,
/// and the decompressor may contain the same magic numbers.
fn payload_behind(
    shelf: &dyn Shelf,
    bytes: &[u8],
    behind: usize,
    fits: impl Fn(&[u8]) -> bool,
) -> Result<(usize, Vec<u8>), BootError> {
    let starts = (behind..bytes.len()).filter(|start| payload::is_compressed(&bytes[*start..]));
    let mut first_failure = None;
    let budget = payload::budget();
    for start in starts.take(MOST_STARTS) {
        match payload::stream_unpacked(shelf, &bytes[start..], &budget) {
            Ok(image) if fits(&image) => return Ok((start, image)),
            Ok(_) => {}
            Err(error) => first_failure = first_failure.or(Some(error)),
        }
    }
    Err(first_failure.unwrap_or_else(|| refused("it holds no kernel in a known compression format")))
}

/// The address of the unpacked kernel until its own code moves it to its linked address: behind all memory that this
/// code uses.
const UNPACKED_AT: u32 = 64 << 20;
/// The address at which a loader enters such a file (arch/s390/boot/head.S).
pub const ENTERED_AT: u64 = 0x1_0000;

/// `lgrl`: a register in the second byte, then a distance in halfwords.
const LOAD_FAR: (u8, u8) = (0xc4, 0x08);
/// `larl`, with the same fields.
const ADDRESS_FAR: (u8, u8) = (0xc0, 0x00);
/// `stmg %rN,%r15,..(%r15)`: the beginning of functions that use many registers.
const SAVES: [(usize, u8); 4] = [(0, 0xeb), (2, 0xf0), (4, 0x00), (5, 0x24)];
/// `llilf %r2,UNPACKED_AT; br %r14`
const SAYS_WHERE: [u8; 8] = {
    let [a, b, c, d] = UNPACKED_AT.to_be_bytes();
    [0xc0, 0x2f, a, b, c, d, 0x07, 0xfe]
};
/// The largest distance from a function's beginning to its load of the payload's address; compilers move other code in
/// between.
const NEAR: usize = 0x400;
/// The largest distance between the loads of the two ends of a list.
const BESIDE: usize = 0x20;

/// The code in front of the payload, with its unpacking function replaced.
fn starter(file: &[u8], payload: usize) -> Option<Starter> {
    let mut bytes = file.get(..payload)?.to_vec();
    exchange(&mut bytes, payload, None, &SAYS_WHERE)?;
    Some(Starter { bytes, at: 0, entry: ENTERED_AT, kernel_at: UNPACKED_AT.into() })
}

/// Replaces the unpacking function, which is the one that loads the payload's address. If a list that starts at `list`
/// ends at the payload, the function that walks the list loads this address, too, but close to a load of the list's
/// start.
fn exchange(code: &mut [u8], payload: usize, list: Option<usize>, by: &[u8]) -> Option<()> {
    let starts: Vec<usize> = list.into_iter().flat_map(|list| naming(code, list as u64)).collect();
    // `naming` sorts the starts by address. A hostile file has as many as it has code, so each is found by bisection.
    let is_of_list = |at: &usize| {
        let next = starts.partition_point(|start| start + BESIDE < *at);
        starts.get(next).is_some_and(|start| start.abs_diff(*at) <= BESIDE)
    };
    let saves = |at: usize| code.get(at..).is_some_and(|code| SAVES.iter().all(|(byte, value)| code.get(*byte) == Some(value)));
    let functions: Vec<usize> = (0..code.len()).step_by(2).filter(|at| saves(*at)).collect();
    let begins = |asking: usize| {
        let before = functions.partition_point(|at| *at < asking).checked_sub(1)?;
        Some(functions[before]).filter(|begins| asking - begins <= NEAR)
    };
    let asking = naming(code, payload as u64).filter(|at| !is_of_list(at));
    let mut functions: Vec<usize> = asking.filter_map(begins).collect();
    functions.dedup();
    let [begins] = functions[..] else { return None };
    code.get_mut(begins..begins + by.len())?.copy_from_slice(by);
    Some(())
}

/// The offsets of instructions that load that address, from a table of addresses or as a relative address.
fn naming(code: &[u8], address: u64) -> impl Iterator<Item = usize> + '_ {
    let names = move |at: &usize| {
        let Some([first, second, distance @ ..]) = code.get(*at..).and_then(<[u8]>::first_chunk::<6>) else { return false };
        let place = (*at as u64).wrapping_add_signed(2 * i64::from(i32::from_be_bytes(*distance)));
        match (*first, second & 15) {
            LOAD_FAR => usize::try_from(place).ok().and_then(|place| word(code, place)) == Some(address),
            ADDRESS_FAR => place == address,
            _ => false,
        }
    };
    (ENTERED_AT as usize..code.len()).step_by(2).filter(names)
}

const NO_INFO: &str = "it has no table of sizes (vmlinux_info, as Linux 6.1 and 6.12 have) that says where to put the kernel";

/// Limit for the number of offsets that are tried for the payload.
const MOST_STARTS: usize = 16;

/// The fields of `struct vmlinux_info`.
struct Info([u64; FIELDS]);

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..at.checked_add(WORD)?).map(|word| ByteOrder::Big.number(word))
}

impl Info {
    /// Reads the structure at this offset; `None` if the numbers do not fit together.
    fn at(bytes: &[u8], at: usize) -> Option<Info> {
        let start = word(bytes, at).filter(|start| *start != 0 && start.is_multiple_of(PAGE) && *start < elf::MOST_MEMORY)?;
        let mut fields = [start; FIELDS];
        for (number, field) in fields.iter_mut().enumerate() {
            *field = word(bytes, at + number * WORD)?;
        }
        let [entry, size, bss] = [ENTRY, IMAGE_SIZE, BSS_SIZE].map(|field| fields[field]);
        let ends = size.checked_add(bss).filter(|all| *all < elf::MOST_MEMORY)?.checked_add(start)?;
        let image = start..ends;
        let [symbols, from, to] = [SYMBOLS, RELOCATIONS, RELOCATIONS_END].map(|field| fields[field]);
        let whole = to.checked_sub(from).is_some_and(|bytes| bytes.is_multiple_of(RELOCATION as u64));
        let inside = [entry, symbols, from].iter().all(|address| image.contains(address)) && to <= ends;
        (size > 0 && size.is_multiple_of(PAGE) && whole && inside).then_some(Info(fields))
    }

    /// Whether an unpacked image agrees with the structure.
    fn fits(&self, image: &[u8]) -> bool {
        let length = image.len() as u64;
        length <= self.0[IMAGE_SIZE] && self.0[RELOCATIONS_END] - self.0[START] <= length
    }

    /// The offset of an address in the image.
    fn offset(&self, address: u64) -> Option<usize> {
        address.checked_sub(self.0[START]).and_then(|offset| usize::try_from(offset).ok())
    }

    /// The image with its relocations applied.
    fn relocated(&self, mut image: Vec<u8>) -> Inner {
        let [start, size, bss] = [START, IMAGE_SIZE, BSS_SIZE].map(|field| self.0[field]);
        let place = |field: usize| self.offset(self.0[field]).unwrap_or(0);
        let (symbols, from, to) = (place(SYMBOLS), place(RELOCATIONS), place(RELOCATIONS_END));
        for at in (from..to).step_by(RELOCATION) {
            let Some([place, what, number]) = words(&image, at) else { break };
            let (symbol, kind) = ((what >> 32) as usize, what & 0xffff_ffff);
            let named = || words(&image, symbols.checked_add(symbol.checked_mul(SYMBOL)?)?);
            // The value of an undefined symbol is not an address.
            let value = match symbol {
                0 => 0,
                _ => named().filter(|[names, ..]| names & 0xffff != 0).map_or(0, |[_, value, _]| value),
            };
            let Some(place) = self.offset(place).filter(|_| KINDS.contains(&kind)) else { continue };
            if let Some(place) = place.checked_add(WORD).and_then(|end| image.get_mut(place..end)) {
                ByteOrder::Big.put(number.wrapping_add(value), place);
            }
        }
        Inner { bytes: image, size: size + bss, start, physical: start, starter: None }
    }
}

fn words(bytes: &[u8], at: usize) -> Option<[u64; 3]> {
    Some([word(bytes, at)?, word(bytes, at.checked_add(WORD)?)?, word(bytes, at.checked_add(2 * WORD)?)?])
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::io::Write;

    pub const BASE: u64 = 0x10_0000;

    /// A whole file whose kernel has no table of symbols.
    pub fn without_symbols() -> Vec<u8> {
        vmlinuz(|_| ())
    }

    /// A file with an image of one page, which has a symbol and three relocations behind some data, and the structure
    /// that describes it.
    fn vmlinuz(change: impl Fn(&mut [u64; FIELDS])) -> Vec<u8> {
        let words = |words: &[u64]| words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<u8>>();
        let mut image = b"a kernel, a kernel, a kernel, a kernel, a kernel, a kernel, xxx.".to_vec();
        let symbols = words(&[0, 0, 0, 0x0000_0001_0000_0001, BASE + 0x20, 8, 0x0000_0001_0000_0000, BASE + 0x28, 8]);
        let relocations =
            words(&[BASE, R_390_RELATIVE, BASE + 0x10, BASE + 8, 1 << 32 | R_390_64, 4, BASE + 16, 2 << 32 | R_390_64, 6]);
        let (at, behind) = (BASE + image.len() as u64, BASE + (image.len() + symbols.len()) as u64);
        image.extend([symbols, relocations].concat());
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        packed.write_all(&image).expect("into memory");
        let mut info = [BASE, BASE, 0x1000, 0x2000, 0, 0, 0, 0, at, behind, behind + 3 * RELOCATION as u64];
        change(&mut info);
        let mut file = vec![0; 0x1_1000];
        file[MAGIC.0..MAGIC.0 + MAGIC.1.len()].copy_from_slice(MAGIC.1);
        file.extend(words(&info));
        // A magic number where no payload starts.
        file.extend([0x1f, 0x8b, 8, 0, 0, 0]);
        file.extend(packed.finish().expect("into memory"));
        file.extend(b"what is behind it");
        file
    }

    /// KP-4
    #[test]
    fn the_image_comes_out_with_its_addresses_in_place() {
        let file = vmlinuz(|_| ());
        assert!(is_vmlinuz(&file) && !is_vmlinuz(b"no kernel"));
        let inner = unpack(&(), &file).expect("a kernel");
        assert_eq!((inner.start, inner.physical, inner.size), (BASE, BASE, 0x3000));
        let at = |offset: usize| ByteOrder::Big.number(&inner.bytes[offset..offset + 8]);
        assert_eq!(
            [0, 8, 16].map(at),
            [BASE + 0x10, BASE + 0x24, 6],
            "an address, one of a symbol, one of a symbol that is nowhere"
        );
        assert_eq!(&inner.bytes[24..40], b"rnel, a kernel, ", "the rest is as it was");
    }

    /// KP-4
    #[test]
    fn damaged_files_are_refused_in_words_and_never_panic() {
        let whole = vmlinuz(|_| ());
        #[rustfmt::skip]
        let cases = [
            ("no structure",       vmlinuz(|info| info[IMAGE_SIZE] = 0),                    "no table of sizes"),
            ("an entry elsewhere", vmlinuz(|info| info[ENTRY] = 0),                         "no table of sizes"),
            ("a longer image",     vmlinuz(|info| info[RELOCATIONS_END] += 0x18 * 0x40),    "gzip"),
            ("cut off",            whole[..whole.len() - 60].to_vec(),                    "gzip"),
            ("no payload",         whole[..0x1_1058].to_vec(),                            "it holds no kernel"),
        ];
        for (what, bytes, expected) in cases {
            let error = unpack(&(), &bytes).expect_err(what);
            assert!(error.to_string().contains(expected), "{what}: {error}");
        }
        for at in 0x1_1000..whole.len() {
            for value in [0, 0xff, whole[at] ^ 0x80] {
                let mut damaged = whole.clone();
                damaged[at] = value;
                let _ = unpack(&(), &damaged);
            }
            let _ = unpack(&(), &whole[..at]);
        }
    }
}
