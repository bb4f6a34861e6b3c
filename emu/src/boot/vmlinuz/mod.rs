//! The kernel inside a vmlinuz of z/Architecture: a row of numbers that its decompressor goes by says where it is
//! linked and how long it is.
//!
//! The row (arch/s390/boot/boot.h, struct vmlinux_info of 6.1) has no magic number; it stands in front of the payload,
//! and what it says must fit together and with what the payload holds. Relocations are applied here, with the values
//! that the decompressor writes when it does not move the kernel: without them its tables of addresses hold zeros.
//!
//! What is in front of the payload finds out what the machine has and leaves that for the kernel, which cannot begin
//! without. So it is what runs first, but for one function: that which unpacks is exchanged for one that says where the
//! unpacked kernel lies already.
//!
//! From 6.10 on a kernel is seen elsewhere than it lies, and its file is another one: `apart.rs`.

mod apart;

use super::Starter;
use super::elf;
use super::payload::{self, Shelf};
use crate::error::BootError;
use trapline_isa::mem::ByteOrder;

/// What loaders know it by (Documentation/s390/zfcpdump.rst; arch/s390/boot/head.S).
const MAGIC: (usize, &[u8]) = (0x1_0008, b"S390EP");

const WORD: usize = 8;
const PAGE: u64 = 4096;

/// Fields of the row.
const START: usize = 0;
const ENTRY: usize = 1;
const IMAGE_SIZE: usize = 2;
const BSS_SIZE: usize = 3;
const SYMBOLS: usize = 8;
const RELOCATIONS: usize = 9;
const RELOCATIONS_END: usize = 10;
const FIELDS: usize = 11;

/// A relocation: a place, a symbol and a kind, a number.
const RELOCATION: usize = 3 * WORD;
/// The number, or it and the symbol's value.
const KINDS: [u64; 4] = [R_390_GLOB_DAT, R_390_JMP_SLOT, R_390_RELATIVE, R_390_64];
const R_390_GLOB_DAT: u64 = 10;
const R_390_JMP_SLOT: u64 = 11;
const R_390_RELATIVE: u64 = 12;
const R_390_64: u64 = 22;
/// A symbol: names and kinds, its section in the last two bytes of the first word, its value, its size.
const SYMBOL: usize = 3 * WORD;

/// What is in a vmlinuz.
#[derive(Debug, PartialEq, Eq)]
pub struct Inner {
    /// The image as it is to lie in memory.
    pub bytes: Vec<u8>,
    /// In memory, with what is zero behind it.
    pub size: u64,
    /// Where it is seen.
    pub start: u64,
    /// Where it lies.
    pub physical: u64,
    /// What starts it; `None`: the function that unpacks was not found in it.
    pub starter: Option<Starter>,
}

/// Whether these bytes are a vmlinuz of z/Architecture.
pub fn is_vmlinuz(bytes: &[u8]) -> bool {
    bytes.get(MAGIC.0..).is_some_and(|rest| rest.starts_with(MAGIC.1))
}

/// What is in it.
pub fn unpack(shelf: &dyn Shelf, bytes: &[u8]) -> Result<Inner, BootError> {
    let places = || (MAGIC.0..bytes.len()).step_by(WORD);
    if let Some((at, row)) = places().find_map(|at| Row::at(bytes, at).map(|row| (at, row))) {
        let (start, image) = payload_behind(shelf, bytes, at + FIELDS * WORD, |image| row.fits(image))?;
        return Ok(Inner { starter: starter(bytes, start), ..row.relocated(image) });
    }
    let (at, row) = places().find_map(|at| apart::Row::at(bytes, at).map(|row| (at, row))).ok_or_else(|| refused(NO_ROW))?;
    let (start, image) = payload_behind(shelf, bytes, at + apart::FIELDS * WORD, |image| row.fits(image))?;
    row.inner(bytes, at, start, image)
}

fn refused(why: &str) -> BootError {
    BootError::Payload { what: "the vmlinuz", why: why.into() }
}

/// Where the payload starts, and the image that it gives, which must be the expected one. The start is said nowhere; the
/// decompressor may hold the same magic numbers.
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
    Err(first_failure.unwrap_or_else(|| refused("nothing in it is a kernel compressed by means known here")))
}

/// Where the unpacked kernel lies until its own code puts it to where it is linked: behind all that this uses.
const UNPACKED_AT: u32 = 64 << 20;
/// Where a loader enters such a file (arch/s390/boot/head.S).
pub const ENTERED_AT: u64 = 0x1_0000;

/// `lgrl`: the register in the second byte, a distance in halfwords.
const LOAD_FAR: (u8, u8) = (0xc4, 0x08);
/// `larl`, likewise.
const ADDRESS_FAR: (u8, u8) = (0xc0, 0x00);
/// `stmg %rN,%r15,..(%r15)`: how functions begin that use many registers.
const SAVES: [(usize, u8); 4] = [(0, 0xeb), (2, 0xf0), (4, 0x00), (5, 0x24)];
/// `llilf %r2,UNPACKED_AT; br %r14`
const SAYS_WHERE: [u8; 8] = {
    let [a, b, c, d] = UNPACKED_AT.to_be_bytes();
    [0xc0, 0x2f, a, b, c, d, 0x07, 0xfe]
};
/// So far behind a function's beginning it asks for the payload. Compilers move what it needs in between there.
const NEAR: usize = 0x400;
/// So close to each other code asks for both ends of a list.
const BESIDE: usize = 0x20;

/// What is in front of the payload, with the function exchanged that unpacks.
fn starter(file: &[u8], payload: usize) -> Option<Starter> {
    let mut bytes = file.get(..payload)?.to_vec();
    exchange(&mut bytes, payload, None, &SAYS_WHERE)?;
    Some(Starter { bytes, at: 0, entry: ENTERED_AT, kernel_at: UNPACKED_AT.into() })
}

/// Puts other code in place of the function that unpacks: it asks where the payload starts. Where the payload is also the
/// end of a list that starts at `list`, whoever goes through that asks too, for both ends side by side.
fn exchange(code: &mut [u8], payload: usize, list: Option<usize>, by: &[u8]) -> Option<()> {
    let starts: Vec<usize> = list.into_iter().flat_map(|list| naming(code, list as u64)).collect();
    let is_of_list = |at: &usize| starts.iter().any(|start| start.abs_diff(*at) <= BESIDE);
    let saves = |at: &usize| code.get(*at..).is_some_and(|code| SAVES.iter().all(|(byte, value)| code.get(*byte) == Some(value)));
    let begins = |asking: usize| (asking.saturating_sub(NEAR)..asking).rev().filter(|at| at.is_multiple_of(2)).find(saves);
    let asking = naming(code, payload as u64).filter(|at| !is_of_list(at));
    let mut functions: Vec<usize> = asking.filter_map(begins).collect();
    functions.dedup();
    let [begins] = functions[..] else { return None };
    code.get_mut(begins..begins + by.len())?.copy_from_slice(by);
    Some(())
}

/// Where code takes that address: out of a table of addresses, or as a distance from itself.
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

const NO_ROW: &str = "no row of numbers in it says where the kernel is to be put, as those of Linux 6.1 and 6.12 do";

/// So many places are tried at which the payload may start.
const MOST_STARTS: usize = 16;

/// The row of numbers.
struct Row([u64; FIELDS]);

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..at.checked_add(WORD)?).map(|word| ByteOrder::Big.number(word))
}

impl Row {
    /// The row here, if these numbers fit together.
    fn at(bytes: &[u8], at: usize) -> Option<Row> {
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
        (size > 0 && size.is_multiple_of(PAGE) && whole && inside).then_some(Row(fields))
    }

    /// Whether the image can be the one that it tells of.
    fn fits(&self, image: &[u8]) -> bool {
        let length = image.len() as u64;
        length <= self.0[IMAGE_SIZE] && self.0[RELOCATIONS_END] - self.0[START] <= length
    }

    /// How far behind the image's start an address is.
    fn offset(&self, address: u64) -> Option<usize> {
        address.checked_sub(self.0[START]).and_then(|offset| usize::try_from(offset).ok())
    }

    /// The image with the values that its relocations stand for.
    fn relocated(&self, mut image: Vec<u8>) -> Inner {
        let [start, size, bss] = [START, IMAGE_SIZE, BSS_SIZE].map(|field| self.0[field]);
        let place = |field: usize| self.offset(self.0[field]).unwrap_or(0);
        let (symbols, from, to) = (place(SYMBOLS), place(RELOCATIONS), place(RELOCATIONS_END));
        for at in (from..to).step_by(RELOCATION) {
            let Some([place, what, number]) = words(&image, at) else { break };
            let (symbol, kind) = ((what >> 32) as usize, what & 0xffff_ffff);
            let named = || words(&image, symbols.checked_add(symbol.checked_mul(SYMBOL)?)?);
            // Of a symbol of no section the value is no address.
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
mod tests {
    use super::*;
    use std::io::Write;

    const BASE: u64 = 0x10_0000;

    /// An image of a page, with a symbol and three relocations behind some data; the row that tells of it, and the file
    /// around both.
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
        let mut row = [BASE, BASE, 0x1000, 0x2000, 0, 0, 0, 0, at, behind, behind + 3 * RELOCATION as u64];
        change(&mut row);
        let mut file = vec![0; 0x1_1000];
        file[MAGIC.0..MAGIC.0 + MAGIC.1.len()].copy_from_slice(MAGIC.1);
        file.extend(words(&row));
        // A false start of the payload.
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
            ("no row",             vmlinuz(|row| row[IMAGE_SIZE] = 0),                    "no row of numbers"),
            ("an entry elsewhere", vmlinuz(|row| row[ENTRY] = 0),                         "no row of numbers"),
            ("a longer image",     vmlinuz(|row| row[RELOCATIONS_END] += 0x18 * 0x40),    "gzip"),
            ("cut off",            whole[..whole.len() - 60].to_vec(),                    "gzip"),
            ("no payload",         whole[..0x1_1058].to_vec(),                            "nothing in it is a kernel"),
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
