//! A vmlinuz of z/Architecture, Linux 6.10 and later: the kernel's virtual address differs from its physical one.
//!
//! Its `struct vmlinux_info` (arch/s390/boot/boot.h of 6.12) holds addresses without an offset that the decompressor
//! adds when it places the kernel; a list between the structure and the payload (.vmlinux.relocs) gives the words to
//! which it is added. The offset is not in any table: it is a constant in the decompressor's code. The physical address
//! follows from the ends of the file and of the heap behind it.
//!
//! The code here places the kernel as the decompressor would, replaces the decompressor's unpacking function with a
//! return, and makes the list empty.

use super::{ADDRESS_FAR, ENTERED_AT, Inner, PAGE, WORD, exchange, naming, refused, word};
use crate::boot::{Starter, elf};
use crate::error::BootError;
use std::collections::BTreeSet;
use std::ops::Range;
use trapline_isa::mem::ByteOrder;

/// Indices of the fields of `struct vmlinux_info`.
const ENTRY: usize = 0;
const IMAGE_SIZE: usize = 1;
const BSS_SIZE: usize = 2;
const BOOT_DATA: usize = 3;
const KEPT_DATA: usize = 5;
const GLOBAL_OFFSETS: usize = 7;
const GLOBAL_OFFSETS_END: usize = 8;
const LOW_SIZE: usize = 9;
/// Fields that point into the image or the zeroed memory behind it: the first memory map, and two page tables.
const PLACES: [usize; 3] = [10, 11, 12];
pub const FIELDS: usize = 13;

/// Alignment of the kernel's physical address, apart from the remainder of the offset.
const SEGMENT: u64 = 1 << 20;
/// The size of the kernel's virtual address space from the offset on (KERNEL_IMAGE_SIZE).
const SPAN: u64 = 512 << 20;
/// Minimum alignment of offsets, a stack's size.
const OFFSET_ALIGNMENT: u64 = 0x4000;
/// Limit for the size of the heap, which begins at the end of the file.
const MOST_HEAP: u64 = 16 << 20;
/// `br %r14`
const RETURNS: [u8; 2] = [0x07, 0xfe];

const ODD: &str = "its decompressor is of an unknown kind, so where the kernel is put cannot be read from it";

/// The fields of `struct vmlinux_info`.
pub struct Info([u64; FIELDS]);

impl Info {
    /// Reads the structure at this offset; `None` if the numbers do not fit together.
    pub fn at(bytes: &[u8], at: usize) -> Option<Info> {
        let is_size = |size: &u64| *size != 0 && size.is_multiple_of(PAGE) && *size < elf::MOST_MEMORY;
        let entry = word(bytes, at).filter(is_size)?;
        let mut fields = [entry; FIELDS];
        for (number, field) in fields.iter_mut().enumerate() {
            *field = word(bytes, at + number * WORD)?;
        }
        let image = entry..entry + Some(fields[IMAGE_SIZE]).filter(is_size)?;
        let all = entry..image.end + Some(fields[BSS_SIZE]).filter(is_size)?;
        let inside = |from: u64, to: Option<u64>| image.contains(&from) && to.is_some_and(|to| (from..=image.end).contains(&to));
        let data =
            [BOOT_DATA, KEPT_DATA].into_iter().all(|field| inside(fields[field], fields[field].checked_add(fields[field + 1])));
        let offsets = inside(fields[GLOBAL_OFFSETS], Some(fields[GLOBAL_OFFSETS_END]));
        let places = PLACES.into_iter().all(|field| all.contains(&fields[field]));
        (data && offsets && places && fields[LOW_SIZE].is_multiple_of(PAGE)).then_some(Info(fields))
    }

    /// Whether an unpacked image agrees with the structure.
    pub fn fits(&self, image: &[u8]) -> bool {
        let length = image.len() as u64;
        length <= self.0[IMAGE_SIZE] && self.0[GLOBAL_OFFSETS_END] - self.0[ENTRY] <= length
    }

    /// The placed kernel of a file, from the structure's offset, the payload's offset and the unpacked image.
    pub fn inner(&self, file: &[u8], info: usize, payload: usize, mut image: Vec<u8>) -> Result<Inner, BootError> {
        let [entry, size, bss] = [ENTRY, IMAGE_SIZE, BSS_SIZE].map(|field| self.0[field]);
        let code = file.get(..info).unwrap_or_default();
        let offset = offset(code).ok_or_else(|| refused(ODD))?;
        let heap_end = heap_end(code, file.len() as u64).ok_or_else(|| refused(ODD))?;
        let listed = listed(file, info + FIELDS * WORD..payload, entry..entry + size);
        for at in listed.clone().step_by(PLACE) {
            let place = number(file, at).and_then(|place| u64::from(place).checked_sub(entry));
            add(&mut image, place, offset, |_| true);
        }
        // In the table of offsets, the address of a missing function is 0 and stays so.
        for place in (self.0[GLOBAL_OFFSETS]..self.0[GLOBAL_OFFSETS_END]).step_by(WORD) {
            add(&mut image, place.checked_sub(entry), offset, |value| value != 0);
        }
        let physical = heap_end.next_multiple_of(SEGMENT) | (offset % SEGMENT);
        // This kernel cannot boot without the data that its decompressor collects.
        let starter = starter(file, info, payload, &listed, physical).ok_or_else(|| refused(ODD))?;
        Ok(Inner { bytes: image, size: size + bss, start: offset + entry, physical, starter: Some(starter) })
    }
}

/// Adds the offset to the word at this place in the image, if its value is wanted.
fn add(image: &mut [u8], place: Option<u64>, offset: u64, is_wanted: fn(u64) -> bool) {
    let place = place.and_then(|place| usize::try_from(place).ok());
    let Some(held) = place.and_then(|place| image.get_mut(place..place.checked_add(WORD)?)) else { return };
    let value = ByteOrder::Big.number(held);
    if is_wanted(value) {
        ByteOrder::Big.put(value.wrapping_add(offset), held);
    }
}

/// The size of an entry of the list.
const PLACE: usize = 4;

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at.checked_add(PLACE)?).map(|number| ByteOrder::Big.number(number) as u32)
}

/// The list in front of the payload: ascending addresses in the image. Zeros may follow, up to the payload, which is
/// aligned to a word.
fn listed(file: &[u8], room: Range<usize>, image: Range<u64>) -> Range<usize> {
    let mut end = room.end;
    if end.checked_sub(PLACE).and_then(|at| number(file, at)) == Some(0) {
        end -= PLACE;
    }
    let (mut start, mut last) = (end, image.end);
    while let Some(at) = start.checked_sub(PLACE).filter(|at| *at >= room.start) {
        match number(file, at).map(u64::from) {
            Some(place) if image.contains(&place) && place < last => (start, last) = (at, place),
            _ => break,
        }
    }
    start..end
}

/// The code in front of the payload, with the unpacking function replaced by a return, an empty list, and an empty
/// table of offsets.
fn starter(file: &[u8], info: usize, payload: usize, listed: &Range<usize>, physical: u64) -> Option<Starter> {
    let mut bytes = file.get(..payload)?.to_vec();
    exchange(&mut bytes, payload, Some(listed.start), &RETURNS)?;
    name_as_start(&mut bytes, info, listed)?;
    let table = info + GLOBAL_OFFSETS_END * WORD;
    bytes.copy_within(info + GLOBAL_OFFSETS * WORD..table, table);
    Some(Starter { bytes, at: 0, entry: ENTERED_AT, kernel_at: physical })
}

/// Makes the list empty: the code gets the list's end for its start. It takes both from a table of addresses, or as
/// relative addresses (7.2, whose table of addresses has them too).
fn name_as_start(code: &mut [u8], info: usize, listed: &Range<usize>) -> Option<()> {
    let (start, end) = (listed.start as u64, listed.end as u64);
    let asking: Vec<usize> = naming(code.get(..info)?, start).collect();
    let by_distance = |at: &usize| (code.get(*at).copied(), code.get(*at + 1).map(|byte| byte & 15)) == FAR;
    let near: Vec<usize> = asking.into_iter().filter(by_distance).collect();
    for at in &near {
        let distance = i32::try_from(end.checked_sub(*at as u64)? / 2).ok()?;
        code.get_mut(at + 2..at + 6)?.copy_from_slice(&distance.to_be_bytes());
    }
    let tabled: Vec<usize> = (ENTERED_AT as usize..info).step_by(WORD).filter(|at| word(code, *at) == Some(start)).collect();
    match tabled[..] {
        [at] => ByteOrder::Big.put(end, code.get_mut(at..at + WORD)?),
        _ if near.is_empty() => return None,
        _ => {}
    }
    Some(())
}

const FAR: (Option<u8>, Option<u8>) = (Some(ADDRESS_FAR.0), Some(ADDRESS_FAR.1));

/// The end of the heap. The heap begins at the end of the file; the code has both addresses side by side.
fn heap_end(code: &[u8], file_end: u64) -> Option<u64> {
    let is_end = |end: &u64| end.checked_sub(file_end).is_some_and(|bytes| (1..=MOST_HEAP).contains(&bytes));
    let beside = |at: usize| {
        [at.checked_sub(WORD), at.checked_add(WORD)].into_iter().flatten().find_map(|at| word(code, at).filter(is_end))
    };
    let starts = (ENTERED_AT as usize..code.len()).step_by(WORD).filter(|at| word(code, *at) == Some(file_end));
    let ends: BTreeSet<u64> = starts.filter_map(beside).collect();
    ends.first().copied().filter(|_| ends.len() == 1)
}

/// The offset that the decompressor adds. The code compares with the end of the kernel's address space, so the offset
/// is a constant for which offset + SPAN and offset + SPAN - 1 are constants, too.
fn offset(code: &[u8]) -> Option<u64> {
    let constants = constants(code.get(ENTERED_AT as usize..)?);
    let holds = |value: u64| constants.contains(&value);
    let is_offset = |value: &u64| {
        let ends = value.checked_add(SPAN);
        value.is_multiple_of(OFFSET_ALIGNMENT) && ends.is_some_and(|end| holds(end) && holds(end - 1))
    };
    let mut offsets = constants.iter().copied().filter(is_offset);
    let (offset, others) = (offsets.next()?, offsets.next());
    others.is_none().then_some(offset)
}

/// The constants above 32 bits that the code builds from a load of some bits and ORs of others, with all intermediate
/// values.
fn constants(code: &[u8]) -> BTreeSet<u64> {
    let mut registers = [0u64; 16];
    let mut found = BTreeSet::new();
    for at in (0..code.len()).step_by(2) {
        let Some(part) = code.get(at..).and_then(part_of_a_constant) else { continue };
        let Part { register, bits, is_first } = part;
        let held = &mut registers[usize::from(register & 15)];
        *held = if is_first { bits } else { *held | bits };
        found.insert(*held);
    }
    found.retain(|value| *value > u64::from(u32::MAX));
    found
}

/// The effect of an instruction on a constant.
struct Part {
    register: u8,
    bits: u64,
    /// Whether the other bits become 0.
    is_first: bool,
}

/// Decodes `llihl` and its variants, `oilh` and its variants.
fn part_of_a_constant(code: &[u8]) -> Option<Part> {
    let [first, second, third, fourth, ..] = *code else { return None };
    let half = u64::from(third) << 8 | u64::from(fourth);
    let register = second >> 4;
    let part = |bits: u64, is_first: bool| Some(Part { register, bits, is_first });
    match (first, second & 15) {
        (0xa5, kind @ 0x8..=0xb) => part(half << (16 * (0xb - kind)), false),
        (0xa5, kind @ 0xc..=0xf) => part(half << (16 * (0xf - kind)), true),
        (0xc0, kind @ 0xc..=0xf) => {
            let word = ByteOrder::Big.number(code.get(2..6)?);
            part(word << (32 * u32::from(kind & 1 == 0)), kind >= 0xe)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::{MAGIC, unpack};
    use super::*;
    use std::io::Write;

    const OFFSET: u64 = 0x3ff_e000_4000;
    const IMAGE: u64 = 0x10_0000;
    const INFO: usize = 0x1_1000;
    const LIST: usize = INFO + FIELDS * WORD + 12;
    const CODE: usize = ENTERED_AT as usize + 0x100;
    const ADDRESSES: usize = ENTERED_AT as usize + 0x200;

    /// The addresses in the list: of three words with addresses in the image, the first is in the table of offsets.
    const PLACES: [u32; 2] = [IMAGE as u32 + 0x10, IMAGE as u32 + 0x20];

    /// A file whose code has the offset and its end as constants, whose unpacking function is at `CODE`, and whose
    /// structure describes an image of one page.
    fn vmlinuz(change: impl Fn(&mut [u64; FIELDS])) -> Vec<u8> {
        let words = |words: &[u64]| words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<u8>>();
        let image = words(&[IMAGE + 0x40, 0, IMAGE + 0x50, 3, IMAGE + 0x60, 5]);
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        packed.write_all(&image).expect("into memory");
        let mut info = [0; FIELDS];
        info[..10].copy_from_slice(&[IMAGE, 0x1000, 0x2000, IMAGE + 8, 8, IMAGE + 8, 8, IMAGE, IMAGE + 16, 0x1000]);
        info[10..].fill(IMAGE + 0x1000);
        change(&mut info);
        let mut file = vec![0xff; LIST];
        file[MAGIC.0..MAGIC.0 + MAGIC.1.len()].copy_from_slice(MAGIC.1);
        file[INFO..INFO + FIELDS * WORD].copy_from_slice(&words(&info));
        file.extend(PLACES.iter().flat_map(|place| place.to_be_bytes()));
        file.resize(file.len().next_multiple_of(8), 0);
        let payload = file.len();
        #[rustfmt::skip]
        let constants = [
            0xa5, 0x1d, 0x03, 0xff, 0xa5, 0x2d, 0x03, 0xfe, 0xa5, 0x1a, 0xe0, 0x00, 0xa5, 0x1b, 0x40, 0x00, // the offset in r1
            0xc0, 0x2d, 0xff, 0xff, 0xff, 0xff, 0xc0, 0x3e, 0x00, 0x00, 0x04, 0x00, 0xa5, 0x3b, 0x40, 0x00, // others, its end in r3
            0xa5, 0x4d, 0x04, 0x00, 0xc0, 0x4d, 0x00, 0x00, 0x3f, 0xff, // that end minus 1 in r4
        ];
        file[CODE - 0x80..CODE - 0x80 + constants.len()].copy_from_slice(&constants);
        let distance = (ADDRESSES - (CODE + 6)) as u32 / 2;
        file[CODE..CODE + 8].copy_from_slice(&[0xeb, 0x6f, 0xf0, 0x48, 0x00, 0x24, 0xc4, 0x98]);
        file[CODE + 8..CODE + 12].copy_from_slice(&distance.to_be_bytes());
        let packed = packed.finish().expect("into memory");
        let end = (payload + packed.len()) as u64;
        file[ADDRESSES..ADDRESSES + 32].copy_from_slice(&words(&[payload as u64, LIST as u64, end + 0x1_0000, end]));
        file.extend(packed);
        file
    }

    /// Like [`vmlinuz`], with another function that walks the list, which ends at the payload: it loads both ends, from
    /// a table of addresses or as relative addresses.
    fn vmlinuz_whose_list_ends_at_the_payload(by_distance: bool) -> Vec<u8> {
        let mut file = vmlinuz(|_| ());
        let payload = word(&file, ADDRESSES).unwrap_or(0) as usize;
        let walker = CODE - 0x40;
        let ask = |file: &mut [u8], at: usize, register: u8, address: usize, tabled: usize| {
            let (opcode, kind, to) = if by_distance { (0xc0, 0x00, address) } else { (0xc4, 0x08, tabled) };
            file[at..at + 2].copy_from_slice(&[opcode, register << 4 | kind]);
            file[at + 2..at + 6].copy_from_slice(&((to as i64 - at as i64) as i32 / 2).to_be_bytes());
        };
        file[walker..walker + 6].copy_from_slice(&[0xeb, 0x6f, 0xf0, 0x48, 0x00, 0x24]);
        ask(&mut file, walker + 6, 7, LIST, ADDRESSES + 8);
        ask(&mut file, walker + 12, 9, payload, ADDRESSES);
        ask(&mut file, CODE + 0x30, 9, payload, ADDRESSES);
        if by_distance {
            // Nothing loads the addresses of the payload and the list from the table, although they are in it.
            file[ADDRESSES..ADDRESSES + 8].fill(0xff);
            file[CODE + 6..CODE + 12].fill(0xff);
        }
        file
    }

    /// KP-4
    #[test]
    fn the_unpacking_function_differs_from_one_that_walks_the_list() {
        for by_distance in [false, true] {
            let file = vmlinuz_whose_list_ends_at_the_payload(by_distance);
            let starter = unpack(&(), &file).unwrap_or_else(|error| panic!("{by_distance}: {error}")).starter.expect("a starter");
            assert_eq!(starter.bytes[CODE..CODE + 4], [0x07, 0xfe, 0xf0, 0x48], "{by_distance}: it returns");
            assert_eq!(
                starter.bytes[CODE - 0x40..CODE - 0x3c],
                file[CODE - 0x40..CODE - 0x3c],
                "{by_distance}: the other one stays"
            );
            let end = (LIST + PLACES.len() * PLACE) as u64;
            let starts = match by_distance {
                true => super::super::naming(&starter.bytes, end).filter(|at| *at == CODE - 0x3a).count() as u64,
                false => word(&starter.bytes, ADDRESSES + 8).unwrap_or(0) / end,
            };
            assert_eq!(starts, 1, "{by_distance}: the list is empty");
        }
    }

    /// KP-4
    #[test]
    fn the_image_is_put_where_the_code_in_front_of_it_would_put_it() {
        let file = vmlinuz(|_| ());
        let inner = unpack(&(), &file).expect("a kernel");
        assert_eq!((inner.start, inner.physical, inner.size), (OFFSET + IMAGE, 0x10_4000, 0x3000));
        let held: Vec<u64> = inner.bytes.chunks(8).map(|word| ByteOrder::Big.number(word)).collect();
        let moved = OFFSET + IMAGE;
        assert_eq!(held, [moved + 0x40, 0, moved + 0x50, 3, moved + 0x60, 5], "an address is 0 of a function that is nowhere");
        let starter = inner.starter.expect("a starter");
        assert_eq!((starter.at, starter.entry, starter.kernel_at), (0, ENTERED_AT, inner.physical));
        assert_eq!(starter.bytes[CODE..CODE + 4], [0x07, 0xfe, 0xf0, 0x48], "it returns");
        let end = (LIST + PLACES.len() * PLACE) as u64;
        assert_eq!(word(&starter.bytes, ADDRESSES + 8), Some(end), "the list is empty");
        let table = |field: usize| word(&starter.bytes, INFO + field * WORD);
        assert_eq!(table(GLOBAL_OFFSETS), table(GLOBAL_OFFSETS_END), "and so is the table");
    }

    /// KP-4
    #[test]
    fn a_decompressor_that_is_not_understood_is_refused_in_words() {
        let file = vmlinuz(|_| ());
        let with = |at: usize, bytes: &[u8]| {
            let mut file = file.clone();
            file[at..at + bytes.len()].copy_from_slice(bytes);
            file
        };
        let offset_again = [
            0xa5, 0x6d, 0x04, 0x00, 0xa5, 0x6a, 0x20, 0x00, 0xa5, 0x6b, 0x3f, 0xff, 0xa5, 0x6d, 0x04, 0x00, 0xa5, 0x6a, 0x20,
            0x00, 0xa5, 0x6b, 0x40, 0x00,
        ];
        #[rustfmt::skip]
        let cases = [
            ("no offset",               with(CODE - 0x80, &[0xa5, 0x1d, 0x03, 0xfe]),   "of an unknown kind"),
            ("two of them",             with(CODE - 0x40, &offset_again),               "of an unknown kind"),
            ("no end of the heap",      with(ADDRESSES + 16, &[0; 8]),                  "of an unknown kind"),
            ("no room for the tables",  vmlinuz(|info| info[GLOBAL_OFFSETS_END] += 8 << 20), "no table of sizes"),
            ("a longer image",          vmlinuz(|info| info[GLOBAL_OFFSETS_END] += 0x80), "it holds no kernel"),
        ];
        for (what, bytes, expected) in cases {
            match unpack(&(), &bytes) {
                Err(error) => assert!(error.to_string().contains(expected), "{what}: {error}"),
                Ok(inner) => panic!("{what}: {inner:x?}"),
            }
        }
        for at in CODE - 0x80..file.len() {
            for value in [0, 0xff, file[at] ^ 0x80] {
                let _ = unpack(&(), &with(at, &[value]));
            }
            let _ = unpack(&(), &file[..at]);
        }
    }
}
