//! Raw kernel images: `Image` of arm64 and RISC-V, and the images inside a zImage and inside a vmlinuz of
//! z/Architecture or MIPS. Each is one contiguous piece of memory with few headers or none.
//!
//! The link address comes from the image's own kallsyms, in which `_stext` is close behind the start
//! (Documentation/arm64/booting.rst, Documentation/arm/booting.rst, Documentation/arch/riscv/boot-image-header.rst).
//! arm64's relocations are applied here as the kernel itself would apply them when it is not moved. Otherwise its address
//! tables would hold zeros.

use super::elf::{self, Image};
use super::kernels::{self, Facts};
use super::payload::Shelf;
use super::{Segment, Starter, elf_wrapper, kallsyms, vmlinuz, zimage};
use crate::error::BootError;
use crate::symbols::Symbols;
use bytes::Bytes;
use goblin::elf::Elf;
use trapline_isa::arch::Arch;
use trapline_isa::mem::ByteOrder;

const ARM64_MAGIC: (usize, &[u8]) = (0x38, b"ARM\x64");
const RISCV_MAGIC: (usize, &[u8]) = (0x38, b"RSC\x05");
const TEXT_OFFSET: usize = 0x08;
const IMAGE_SIZE: usize = 0x10;
const FLAGS: usize = 0x18;
const BIG_ENDIAN: u64 = 1;

/// `R_AARCH64_RELATIVE`: the addend is the value.
const RELATIVE: u64 = 0x403;
const RELOCATION: usize = 24;
/// The least number of relocations. Fewer may be there by chance.
const FEWEST_RELOCATIONS: usize = 16;
/// An image of arm64 or RISC-V is linked at a multiple of this, and its text begins before the next multiple.
const LINK_ALIGNMENT: u64 = 0x20_0000;
/// Addresses from here on are the kernel's.
const KERNEL_HALF: u64 = 1 << 63;

/// The first instructions of a kernel in Thumb code, which is entered in ARM code: `add r9, pc, #1; bx r9`.
const TO_THUMB: [u8; 8] = [0x01, 0x90, 0x8f, 0xe2, 0x19, 0xff, 0x2f, 0xe1];

/// 32-bit kernels split the address space at a multiple of this and map RAM from there on.
const SPLIT: u64 = 0x1000_0000;

/// The symbols that the user gave, which replace the image's own table.
type Given<'a> = Option<&'a Symbols>;

/// Parses a raw image. `None` if the bytes are not one. Given symbols replace those of the image.
pub fn parse(shelf: &dyn Shelf, bytes: &[u8], given: Given<'_>) -> Option<Result<Image, BootError>> {
    let identity = Elf::parse_header(bytes).ok().map(|header| elf::identity_of(&header));
    let fits = |row: &Facts| identity.is_none_or(|identity| identity == row.elf);
    let of =
        |row: &'static Facts| row.raw_image.filter(|format| fits(row) && (format.is)(bytes)).map(|format| (row.arch, format));
    let (arch, format) = kernels::all().find_map(of)?;
    Some((format.read)(shelf, bytes, given).map(|raw| raw.into_image(arch)))
}

/// A format of raw images.
pub struct Format {
    is: fn(&[u8]) -> bool,
    read: Reader,
    /// The offset of a kernel from the start of RAM, by its link address and its first bytes, if it goes to wherever RAM is.
    pub text_offset: Option<fn(u64, &[u8]) -> u64>,
    /// The function that starts such a kernel, if only the raw image contains it. `None`: a vmlinux contains it, too.
    pub start: Option<&'static str>,
    /// Applies the relocations in an image that is linked at this address, as its kernel would do itself; without any, `None`.
    pub relocate: Option<fn(&mut [u8], u64)>,
}

/// arm64's `Image`.
pub static ARM64_IMAGE: Format =
    Format { is: has_arm64_magic, read: arm64, text_offset: Some(header_offset), start: None, relocate: Some(relocate_from) };
/// `Image` of 64-bit RISC-V.
pub static RISCV_IMAGE: Format =
    Format { is: has_riscv_magic, read: riscv, text_offset: Some(header_offset), start: None, relocate: None };
/// The image inside a zImage of 32-bit ARM.
pub static ZIMAGE: Format =
    Format { is: zimage::is_zimage, read: arm, text_offset: Some(|start, _| start % SPLIT), start: None, relocate: None };
/// The image inside a vmlinuz of z/Architecture.
pub static VMLINUZ: Format =
    Format { is: vmlinuz::is_vmlinuz, read: z, text_offset: None, start: Some("startup"), relocate: None };

/// The image inside an ELF file with a decompressor (MIPS).
pub static WRAPPED: Format =
    Format { is: elf_wrapper::is_vmlinuz, read: wrapped, text_offset: None, start: None, relocate: None };

type Reader = fn(&dyn Shelf, &[u8], Given<'_>) -> Result<Raw, BootError>;

/// A raw image with its addresses.
#[derive(Debug)]
struct Raw {
    bytes: Vec<u8>,
    /// Its size in memory.
    size: u64,
    /// Its offset from the start of RAM.
    text_offset: u64,
    /// Its link address.
    start: u64,
    /// The entry point's offset from its start.
    entry: u64,
    symbols: Symbols,
    starter: Option<Starter>,
    /// The ISA, if the bytes say it better than the format.
    arch: Option<Arch>,
}

fn has_arm64_magic(bytes: &[u8]) -> bool {
    bytes.get(ARM64_MAGIC.0..).is_some_and(|rest| rest.starts_with(ARM64_MAGIC.1))
}

fn has_riscv_magic(bytes: &[u8]) -> bool {
    bytes.get(RISCV_MAGIC.0..).is_some_and(|rest| rest.starts_with(RISCV_MAGIC.1))
}

/// The offset from the start of RAM by the header that arm64 and RISC-V share; 0 without one.
fn header_offset(_: u64, bytes: &[u8]) -> u64 {
    let known = has_arm64_magic(bytes) || has_riscv_magic(bytes);
    if known { doubleword(bytes, TEXT_OFFSET).unwrap_or(0) } else { 0 }
}

fn arm64(_: &dyn Shelf, bytes: &[u8], given: Given<'_>) -> Result<Raw, BootError> {
    flat(bytes, "arm64 (64-bit, big-endian)", relocate, given)
}

/// These kernels are linked at the address where they run, so nothing is relocated.
fn riscv(_: &dyn Shelf, bytes: &[u8], given: Given<'_>) -> Result<Raw, BootError> {
    flat(bytes, "RISC-V (64-bit, big-endian)", |_| (), given)
}

/// Reads a 64-bit image with the header that arm64 and RISC-V share.
fn flat(bytes: &[u8], big_endian: &'static str, relocate: fn(&mut [u8]), given: Given<'_>) -> Result<Raw, BootError> {
    let field = |at: usize| doubleword(bytes, at).unwrap_or(0);
    if field(FLAGS) & BIG_ENDIAN != 0 {
        return Err(elf::foreign(big_endian));
    }
    let (size, text_offset) = (field(IMAGE_SIZE).max(bytes.len() as u64), field(TEXT_OFFSET));
    if size > elf::MOST_MEMORY || text_offset > elf::MOST_MEMORY {
        return Err(BootError::Malformed(format!("the Image wants {size:#x} bytes at {text_offset:#x}")));
    }
    let mut bytes = bytes.to_vec();
    relocate(&mut bytes);
    let (text, symbols) = symbols(&bytes, 8, ByteOrder::Little, size, given)?;
    let start = text & !(LINK_ALIGNMENT - 1);
    if start < KERNEL_HALF {
        return Err(given.map_or(BootError::NoLinkAddress, |_| BootError::ForeignSymbols {
            why: format!("their `_stext`, {text:#x}, is no address of an arm64 kernel"),
        }));
    }
    Ok(Raw { bytes, size, text_offset, start, entry: 0, symbols, starter: None, arch: None })
}

fn arm(shelf: &dyn Shelf, bytes: &[u8], given: Given<'_>) -> Result<Raw, BootError> {
    let zimage::Inner { bytes, zeroed, text_offset } = zimage::unpack(shelf, bytes)?;
    let size = bytes.len() as u64 + zeroed;
    let (text, symbols) = symbols(&bytes, 4, ByteOrder::Little, size, given)?;
    if text % SPLIT < text_offset || size > elf::MOST_MEMORY {
        let why = format!("the zImage wants {size:#x} bytes {text_offset:#x} behind the start of RAM, with text at {text:#x}");
        return Err(BootError::Malformed(why));
    }
    let arch = bytes.starts_with(&TO_THUMB).then_some(Arch::Thumb2);
    Ok(Raw { bytes, size, text_offset, start: text - text % SPLIT + text_offset, entry: 0, symbols, starter: None, arch })
}

/// An assumption for the size of `.bss`, which the file does not give. No kernel for these boards has more.
const ZEROED: u64 = 4 << 20;
/// The size of KSEG0, which these kernels map physical memory with.
const SEEN: u64 = 0x2000_0000;

fn wrapped(shelf: &dyn Shelf, bytes: &[u8], given: Given<'_>) -> Result<Raw, BootError> {
    let header = Elf::parse_header(bytes).map_err(|_| BootError::NoLinkAddress)?;
    let isa = elf::arch_of(&header)?.isa();
    let elf_wrapper::Inner { bytes, start } = elf_wrapper::unpack(shelf, bytes)?;
    let size = bytes.len() as u64 + ZEROED;
    let symbols = symbols_at(&bytes, isa.word, isa.order, start, given)?;
    let entry = symbols.address_of("kernel_entry").and_then(|entry| entry.checked_sub(start)).filter(|entry| *entry < size);
    let entry = entry.ok_or_else(|| match given {
        Some(_) => BootError::ForeignSymbols { why: "they have no `kernel_entry` in it".into() },
        None => BootError::NoSymbols,
    })?;
    Ok(Raw { bytes, size, text_offset: start % SEEN, start, entry, symbols, starter: None, arch: None })
}

/// Reads a vmlinuz of z/Architecture. RAM starts at 0.
fn z(shelf: &dyn Shelf, bytes: &[u8], given: Given<'_>) -> Result<Raw, BootError> {
    let vmlinuz::Inner { bytes, size, start, physical, starter } = vmlinuz::unpack(shelf, bytes)?;
    let symbols = symbols_at(&bytes, 8, ByteOrder::Big, start, given)?;
    let (text, symbols) = with_text(symbols, 8, size).map_err(|error| given.map_or(error, no_text))?;
    if !(start..start + size).contains(&text) {
        let why = format!("their `_stext`, {text:#x}, is not in the kernel, which is linked at {start:#x}");
        return Err(BootError::ForeignSymbols { why });
    }
    Ok(Raw { bytes, size, text_offset: physical, start, entry: 0, symbols, starter, arch: None })
}

/// The image's symbols, and where its text begins.
fn symbols(bytes: &[u8], word: usize, order: ByteOrder, size: u64, given: Given<'_>) -> Result<(u64, Symbols), BootError> {
    match given {
        Some(given) => with_text(given.clone(), word, size).map_err(|_| no_text(given)),
        None => with_text(kallsyms::find_raw(bytes, word, order)?.ok_or(BootError::NoLinkAddress)?, word, size),
    }
}

/// The error for given symbols that do not say where the kernel's text is.
fn no_text(given: &Symbols) -> BootError {
    let why = match given.address_of("_stext") {
        Some(text) => format!("its text would go over the end of the address space from {text:#x}"),
        None => "they have no `_stext`".into(),
    };
    BootError::ForeignSymbols { why }
}

/// The symbols of an image that is linked at `start`.
fn symbols_at(bytes: &[u8], word: usize, order: ByteOrder, start: u64, given: Given<'_>) -> Result<Symbols, BootError> {
    let found = match given {
        Some(given) => Some(given.clone()),
        None => kallsyms::find_raw_at(bytes, word, order, start)?,
    };
    found.ok_or(BootError::NoSymbols)
}

fn with_text(symbols: Symbols, word: usize, size: u64) -> Result<(u64, Symbols), BootError> {
    let text = symbols.address_of("_stext").ok_or(BootError::NoLinkAddress)?;
    let last = u64::MAX >> (64 - 8 * word);
    match text.checked_add(size) {
        Some(end) if end <= last => Ok((text, symbols)),
        _ => Err(BootError::NoLinkAddress),
    }
}

impl Raw {
    /// Splits the image into two segments. The first, up to the end of the text, is executable; the second contains
    /// init text.
    fn into_image(self, arch: Arch) -> Image {
        let Raw { bytes, size, text_offset, start, entry, symbols, starter, arch: own } = self;
        let arch = own.unwrap_or(arch);
        let physical = kernels::of(arch).ram_start + text_offset;
        let code = symbols.address_of("_etext").and_then(|end| end.checked_sub(start)).unwrap_or(0);
        let mut bytes = Bytes::from(bytes);
        let rest = bytes.split_off((code as usize).min(bytes.len()));
        let code = bytes.len() as u64;
        let segment = |offset: u64, bytes: Bytes, size: u64, executable: bool| Segment {
            physical: physical + offset,
            virtual_address: start + offset,
            bytes,
            size,
            executable,
        };
        let segments = [segment(0, bytes, code, true), segment(code, rest, size - code, false)];
        let segments = segments.into_iter().filter(|segment| segment.size > 0).collect();
        let entry = starter.as_ref().map_or(physical + entry, |starter| starter.entry);
        Image { arch, entry, segments, sections: Vec::new(), symbols, starter }
    }
}

/// The place and the value of a relocation in the table at this offset.
fn relocation(bytes: &[u8], table: usize, number: usize) -> Option<(u64, u64)> {
    let at = table + number * RELOCATION;
    Some((doubleword(bytes, at)?, doubleword(bytes, at + 16)?))
}

/// Applies the relocation table of an image whose link address is not known.
fn relocate(bytes: &mut [u8]) {
    let Some((at, count)) = relocations(bytes) else { return };
    let rows = || (0..count).filter_map(|number| relocation(bytes, at, number));
    if let Some(start) = start_by(rows, bytes.len() as u64) {
        relocate_from(bytes, start);
    }
}

/// Applies the image's relocation table, which is the longest run of valid entries.
fn relocate_from(bytes: &mut [u8], start: u64) {
    let Some((at, count)) = relocations(bytes) else { return };
    let rows = || (0..count).filter_map(|number| relocation(bytes, at, number));
    // The linker leaves zeros or the final values in the relocated places. If most hold something else, the guessed
    // start is wrong. That may happen if most relocations have the packed form (RELR), which need not be applied.
    let is_open = |(place, value): &(u64, u64)| {
        let held = usize::try_from(place.wrapping_sub(start)).ok().and_then(|place| doubleword(bytes, place));
        held.is_some_and(|held| held == 0 || held == *value)
    };
    if 2 * rows().filter(is_open).count() <= count {
        return;
    }
    for number in 0..count {
        let Some((place, value)) = relocation(bytes, at, number) else { return };
        let place = place.checked_sub(start).and_then(|place| usize::try_from(place).ok());
        let place = place.and_then(|place| bytes.get_mut(place..place.checked_add(8)?));
        if let Some(place) = place {
            place.copy_from_slice(&value.to_le_bytes());
        }
    }
}

/// Guesses the image's start from its relocations. Their places are in the image, and the lowest value that can be in
/// the image is close to its start. (Other values are not addresses in it; 0 is a missing weak function.)
fn start_by<R: Iterator<Item = (u64, u64)>>(rows: impl Fn() -> R, length: u64) -> Option<u64> {
    let first = rows().map(|(place, _)| place).min()?;
    let last = rows().map(|(place, _)| place).max()?;
    let lowest = rows().map(|(_, value)| value).filter(|value| *value <= first && last.wrapping_sub(*value) < length).min()?;
    Some(lowest & !(LINK_ALIGNMENT - 1))
}

/// The offset of the first relocation entry, and the number of entries.
fn relocations(bytes: &[u8]) -> Option<(usize, usize)> {
    let is_row = |at: usize| doubleword(bytes, at + 8) == Some(RELATIVE);
    let mut best = (0, 0);
    let mut at = 0;
    while at + RELOCATION <= bytes.len() {
        let mut count = 0;
        while is_row(at + count * RELOCATION) {
            count += 1;
        }
        if count > best.1 {
            best = (at, count);
        }
        at += (count * RELOCATION).max(8);
    }
    (best.1 >= FEWEST_RELOCATIONS).then_some(best)
}

fn doubleword(bytes: &[u8], at: usize) -> Option<u64> {
    let held = bytes.get(at..at.checked_add(8)?)?;
    Some(u64::from_le_bytes(held.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::boot::Kernel;
    use crate::symbols::system_map;
    use std::io::Write;

    const START: u64 = 0xffff_8000_0800_0000;

    /// An arm64 Image without tables.
    fn arm64_image() -> Vec<u8> {
        let mut bytes = vec![0; 0x4000];
        bytes[IMAGE_SIZE..][..8].copy_from_slice(&0x8000u64.to_le_bytes());
        bytes[ARM64_MAGIC.0..][..4].copy_from_slice(ARM64_MAGIC.1);
        bytes
    }

    /// A vmlinuz of 32-bit little-endian MIPS: `.data` holds the compressed image, and the decompressor lies at 0x80320000.
    fn mips_vmlinuz() -> Vec<u8> {
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        packed.write_all(&vec![0; 0x4000]).expect("into memory");
        let packed = packed.finish().expect("into memory");
        let names = b"\0.data\0.shstrtab\0";
        let (data_at, names_at) = (84, 84 + packed.len());
        let sections_at = (names_at + names.len()).next_multiple_of(4);
        let half = |value: u16| value.to_le_bytes().to_vec();
        let words = |values: &[u32]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();
        let ident = [&b"\x7fELF"[..], &[1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0]].concat();
        let counts = [52, 32, 1, 40, 3, 2].into_iter().flat_map(half).collect();
        let mut file = [
            ident,
            [half(2), half(8)].concat(),
            words(&[1, 0x8032_0000, 52, sections_at as u32, 0]),
            counts,
            words(&[1, data_at as u32, 0x8032_0000, 0x8032_0000, packed.len() as u32, packed.len() as u32, 7, 4]),
            packed.clone(),
            names.to_vec(),
        ]
        .concat();
        file.resize(sections_at, 0);
        file.extend(words(&[0; 10]));
        file.extend(words(&[1, 1, 3, 0x8032_0000, data_at as u32, packed.len() as u32, 0, 0, 4, 0]));
        file.extend(words(&[7, 3, 0, 0, names_at as u32, names.len() as u32, 0, 0, 1, 0]));
        file
    }

    /// KP-4: a raw image without kallsyms (CONFIG_KALLSYMS off) says what is missing, and takes a System.map. One of
    /// another kernel is refused where that can be seen.
    #[test]
    fn a_raw_image_without_symbols_takes_a_system_map() {
        let arm = zimage::tests::zimage(&vec![0; 0x4000], 0x8000);
        let z = vmlinuz::tests::without_symbols();
        let base = vmlinuz::tests::BASE;
        #[rustfmt::skip]
        let cases = [
            ("arm64",   arm64_image(),  START,          START + 0x1_0000,   "no address of an arm64 kernel"),
            ("arm",     arm,            0xc000_8000,    0xc000_8100,        "makes no sense"),
            ("s390x",   z,              base,           base + 0x100,       "not in the kernel"),
            ("mips",    mips_vmlinuz(), 0x8031_0000,    0x8031_0400,        "no `kernel_entry` in it"),
        ];
        for (what, file, start, text, other) in cases {
            let of = |text: &str| Kernel::from_shelf_with(&(), &file, Some(system_map::parse(text).expect("a System.map")));
            let refusal = Kernel::from_bytes(&file).expect_err(what);
            assert!(refusal.to_string().contains("no table of symbol names (kallsyms)"), "{what}: {refusal}");
            assert!(refusal.advice().contains("--symbols"), "{what}: {}", refusal.advice());
            let map = format!("{text:x} T _stext\n{text:x} T kernel_entry\n{:x} T _etext\n", text + 0x200);
            let kernel = of(&map).unwrap_or_else(|error| panic!("{what}: {error}"));
            assert_eq!(kernel.segments[0].virtual_address, start, "{what}");
            assert_eq!(kernel.symbols.address_of("kernel_entry"), Some(text), "{what}");
            let refusal = of("1000 T _stext\n1000 T kernel_entry\n").expect_err(what);
            assert!(refusal.to_string().contains(other), "{what}: {refusal}");
        }
        let refusal = Kernel::from_shelf_with(&(), &arm64_image(), system_map::parse("1000 T main\n").ok());
        assert!(refusal.expect_err("no _stext").to_string().contains("no `_stext`"));
    }

    /// An image with text, then a table of pointers, then the relocations for them.
    fn relocated(values: &[u64]) -> Vec<u8> {
        let mut bytes = vec![0x11; 0x100];
        bytes.resize(0x100 + 8 * values.len(), 0);
        for (number, value) in values.iter().enumerate() {
            let place = START + 0x100 + 8 * number as u64;
            bytes.extend([place, RELATIVE, *value].iter().flat_map(|field| field.to_le_bytes()));
        }
        bytes
    }

    #[test]
    fn relocations_give_the_values_that_the_kernel_would_write() {
        let values: Vec<u64> = (0..20).map(|number| START + 0x40 * number).collect();
        let mut bytes = relocated(&values);
        relocate(&mut bytes);
        let pointers: Vec<u64> = (0..20).filter_map(|number| doubleword(&bytes, 0x100 + 8 * number)).collect();
        assert_eq!(pointers, values);
        // Values 0 and 7: missing weak functions.
        let values = [&[0, 7], &values[..]].concat();
        let mut bytes = relocated(&values);
        relocate(&mut bytes);
        let pointers: Vec<u64> = (0..22).filter_map(|number| doubleword(&bytes, 0x100 + 8 * number)).collect();
        assert_eq!(pointers, values, "some values are no addresses");
        let mut few = relocated(&values[..FEWEST_RELOCATIONS - 1]);
        let before = few.clone();
        relocate(&mut few);
        assert_eq!(few, before, "so few may be there by chance");
    }

    proptest::proptest! {
        /// KP-4
        #[test]
        fn damaged_images_never_panic(
            mut bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0x40..0x400),
            values in proptest::collection::vec(proptest::prelude::any::<u64>(), 0..40),
        ) {
            bytes[ARM64_MAGIC.0..][..4].copy_from_slice(ARM64_MAGIC.1);
            bytes.extend(relocated(&values));
            proptest::prop_assert!(arm64(&(), &bytes, None).is_err());
            bytes[RISCV_MAGIC.0..][..4].copy_from_slice(RISCV_MAGIC.1);
            proptest::prop_assert!(has_riscv_magic(&bytes) && riscv(&(), &bytes, None).is_err());
        }
    }
}
