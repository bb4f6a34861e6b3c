//! A vmlinuz whose kernel is seen elsewhere than it lies, as from Linux 6.10 on.
//!
//! Its row of numbers (arch/s390/boot/boot.h, struct vmlinux_info of 6.12) counts from an offset that is added when the
//! kernel is put in place; the places of what that is added to are a list between the row and the payload
//! (.vmlinux.relocs). The offset is in no table: it is a constant of the decompressor's code. Where the kernel lies
//! follows from the end of the file and of the heap behind it.
//!
//! Here the kernel is put there as it is to be, so that the function that unpacks has nothing to do any more, and the
//! list is made empty.

use super::{ADDRESS_FAR, ENTERED_AT, Inner, PAGE, WORD, exchange, naming, refused, word};
use crate::boot::{Starter, elf};
use crate::error::BootError;
use std::collections::BTreeSet;
use std::ops::Range;
use trapline_isa::mem::ByteOrder;

/// Fields of the row.
const ENTRY: usize = 0;
const IMAGE_SIZE: usize = 1;
const BSS_SIZE: usize = 2;
const BOOT_DATA: usize = 3;
const KEPT_DATA: usize = 5;
const GLOBAL_OFFSETS: usize = 7;
const GLOBAL_OFFSETS_END: usize = 8;
const LOW_SIZE: usize = 9;
/// What is in the image or zeroed behind it: the first memory map, and two of its tables.
const PLACES: [usize; 3] = [10, 11, 12];
pub const FIELDS: usize = 13;

/// The kernel lies at a multiple of this, the offset's rest apart.
const SEGMENT: u64 = 1 << 20;
/// What the kernel is given of the address space: that much behind the offset (KERNEL_IMAGE_SIZE).
const SPAN: u64 = 512 << 20;
/// Offsets are multiples of a stack's size at least.
const OFFSET_ALIGNMENT: u64 = 0x4000;
/// From the end of the file to that of the heap, at most.
const MOST_HEAP: u64 = 16 << 20;
/// `br %r14`
const RETURNS: [u8; 2] = [0x07, 0xfe];

const ODD: &str = "its decompressor is of an unknown kind, so where the kernel is put cannot be read from it";

/// The row of numbers.
pub struct Row([u64; FIELDS]);

impl Row {
    /// The row here, if these numbers fit together.
    pub fn at(bytes: &[u8], at: usize) -> Option<Row> {
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
        (data && offsets && places && fields[LOW_SIZE].is_multiple_of(PAGE)).then_some(Row(fields))
    }

    /// Whether the image can be the one that it tells of.
    pub fn fits(&self, image: &[u8]) -> bool {
        let length = image.len() as u64;
        length <= self.0[IMAGE_SIZE] && self.0[GLOBAL_OFFSETS_END] - self.0[ENTRY] <= length
    }

    /// What is in a file with this row and this payload.
    pub fn inner(&self, file: &[u8], row: usize, payload: usize, mut image: Vec<u8>) -> Result<Inner, BootError> {
        let [entry, size, bss] = [ENTRY, IMAGE_SIZE, BSS_SIZE].map(|field| self.0[field]);
        let code = file.get(..row).unwrap_or_default();
        let offset = offset(code).ok_or_else(|| refused(ODD))?;
        let heap_end = heap_end(code, file.len() as u64).ok_or_else(|| refused(ODD))?;
        let listed = listed(file, row + FIELDS * WORD..payload, entry..entry + size);
        for at in listed.clone().step_by(PLACE) {
            let place = number(file, at).and_then(|place| u64::from(place).checked_sub(entry));
            add(&mut image, place, offset, |_| true);
        }
        // Of a function that is nowhere the address is 0 in the table of offsets.
        for place in (self.0[GLOBAL_OFFSETS]..self.0[GLOBAL_OFFSETS_END]).step_by(WORD) {
            add(&mut image, place.checked_sub(entry), offset, |value| value != 0);
        }
        let physical = heap_end.next_multiple_of(SEGMENT) | (offset % SEGMENT);
        // Such a kernel cannot begin without what its decompressor finds out.
        let starter = starter(file, row, payload, &listed, physical).ok_or_else(|| refused(ODD))?;
        Ok(Inner { bytes: image, size: size + bss, start: offset + entry, physical, starter: Some(starter) })
    }
}

/// Adds to the word that lies so far into the image, if it is of the wanted kind.
fn add(image: &mut [u8], place: Option<u64>, offset: u64, is_wanted: fn(u64) -> bool) {
    let place = place.and_then(|place| usize::try_from(place).ok());
    let Some(held) = place.and_then(|place| image.get_mut(place..place.checked_add(WORD)?)) else { return };
    let value = ByteOrder::Big.number(held);
    if is_wanted(value) {
        ByteOrder::Big.put(value.wrapping_add(offset), held);
    }
}

/// Bytes of a place in the list.
const PLACE: usize = 4;

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at.checked_add(PLACE)?).map(|number| ByteOrder::Big.number(number) as u32)
}

/// The list in front of the payload: places in the image, each behind the one before; the rest up to the payload, which
/// starts at a whole word, is 0.
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

/// What is in front of the payload, with a function that returns in place of the one that unpacks, an empty list and an
/// empty table of offsets.
fn starter(file: &[u8], row: usize, payload: usize, listed: &Range<usize>, physical: u64) -> Option<Starter> {
    let mut bytes = file.get(..payload)?.to_vec();
    exchange(&mut bytes, payload, Some(listed.start), &RETURNS)?;
    name_as_start(&mut bytes, row, listed)?;
    let table = row + GLOBAL_OFFSETS_END * WORD;
    bytes.copy_within(row + GLOBAL_OFFSETS * WORD..table, table);
    Some(Starter { bytes, at: 0, entry: ENTERED_AT, kernel_at: physical })
}

/// Gives code the list's end for its start. Code has both from a table of addresses, or as distances from itself (7.2,
/// whose table of addresses has them too).
fn name_as_start(code: &mut [u8], row: usize, listed: &Range<usize>) -> Option<()> {
    let (start, end) = (listed.start as u64, listed.end as u64);
    let asking: Vec<usize> = naming(code.get(..row)?, start).collect();
    let by_distance = |at: &usize| (code.get(*at).copied(), code.get(*at + 1).map(|byte| byte & 15)) == FAR;
    let near: Vec<usize> = asking.into_iter().filter(by_distance).collect();
    for at in &near {
        let distance = i32::try_from(end.checked_sub(*at as u64)? / 2).ok()?;
        code.get_mut(at + 2..at + 6)?.copy_from_slice(&distance.to_be_bytes());
    }
    let tabled: Vec<usize> = (ENTERED_AT as usize..row).step_by(WORD).filter(|at| word(code, *at) == Some(start)).collect();
    match tabled[..] {
        [at] => ByteOrder::Big.put(end, code.get_mut(at..at + WORD)?),
        _ if near.is_empty() => return None,
        _ => {}
    }
    Some(())
}

const FAR: (Option<u8>, Option<u8>) = (Some(ADDRESS_FAR.0), Some(ADDRESS_FAR.1));

/// Where the heap ends, which begins with the end of the file: the two stand side by side.
fn heap_end(code: &[u8], file_end: u64) -> Option<u64> {
    let is_end = |end: &u64| end.checked_sub(file_end).is_some_and(|bytes| (1..=MOST_HEAP).contains(&bytes));
    let beside = |at: usize| {
        [at.checked_sub(WORD), at.checked_add(WORD)].into_iter().flatten().find_map(|at| word(code, at).filter(is_end))
    };
    let starts = (ENTERED_AT as usize..code.len()).step_by(WORD).filter(|at| word(code, *at) == Some(file_end));
    let ends: BTreeSet<u64> = starts.filter_map(beside).collect();
    ends.first().copied().filter(|_| ends.len() == 1)
}

/// What is added: the code compares with the end of what the kernel is given, so it is the constant that another one, or
/// the one in front of that, follows as far as that goes.
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

/// The constants beyond 32 bits that code makes of a load of some bits and an OR of others: all of both.
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

/// What an instruction does for a constant.
struct Part {
    register: u8,
    bits: u64,
    /// All other bits are 0.
    is_first: bool,
}

/// `llihl` and its kind, `oilh` and its kind.
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
    const ROW: usize = 0x1_1000;
    const LIST: usize = ROW + FIELDS * WORD + 12;
    const CODE: usize = ENTERED_AT as usize + 0x100;
    const ADDRESSES: usize = ENTERED_AT as usize + 0x200;

    /// Of three words of the image an address is made; of the first by the table of offsets.
    const PLACES: [u32; 2] = [IMAGE as u32 + 0x10, IMAGE as u32 + 0x20];

    /// A file whose code has the offset and its end, whose function that unpacks is at `CODE`, and whose row tells of an
    /// image of a page.
    fn vmlinuz(change: impl Fn(&mut [u64; FIELDS])) -> Vec<u8> {
        let words = |words: &[u64]| words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<u8>>();
        let image = words(&[IMAGE + 0x40, 0, IMAGE + 0x50, 3, IMAGE + 0x60, 5]);
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        packed.write_all(&image).expect("into memory");
        let mut row = [0; FIELDS];
        row[..10].copy_from_slice(&[IMAGE, 0x1000, 0x2000, IMAGE + 8, 8, IMAGE + 8, 8, IMAGE, IMAGE + 16, 0x1000]);
        row[10..].fill(IMAGE + 0x1000);
        change(&mut row);
        let mut file = vec![0xff; LIST];
        file[MAGIC.0..MAGIC.0 + MAGIC.1.len()].copy_from_slice(MAGIC.1);
        file[ROW..ROW + FIELDS * WORD].copy_from_slice(&words(&row));
        file.extend(PLACES.iter().flat_map(|place| place.to_be_bytes()));
        file.resize(file.len().next_multiple_of(8), 0);
        let payload = file.len();
        #[rustfmt::skip]
        let constants = [
            0xa5, 0x1d, 0x03, 0xff, 0xa5, 0x2d, 0x03, 0xfe, 0xa5, 0x1a, 0xe0, 0x00, 0xa5, 0x1b, 0x40, 0x00, // the offset in r1
            0xc0, 0x2d, 0xff, 0xff, 0xff, 0xff, 0xc0, 0x3e, 0x00, 0x00, 0x04, 0x00, 0xa5, 0x3b, 0x40, 0x00, // others, its end in r3
            0xa5, 0x4d, 0x04, 0x00, 0xc0, 0x4d, 0x00, 0x00, 0x3f, 0xff, // the number in front of that in r4
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

    /// The same, of which another function goes through the list, whose end is the payload: it asks for both ends, by a
    /// table of addresses, or by distances from itself.
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
            // Nobody loads the payload's address, or the list's, which stands there all the same.
            file[ADDRESSES..ADDRESSES + 8].fill(0xff);
            file[CODE + 6..CODE + 12].fill(0xff);
        }
        file
    }

    /// KP-4
    #[test]
    fn the_function_that_unpacks_is_told_from_one_that_goes_through_the_list() {
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
        let table = |field: usize| word(&starter.bytes, ROW + field * WORD);
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
            ("no room for the tables",  vmlinuz(|row| row[GLOBAL_OFFSETS_END] += 8 << 20), "no row of numbers"),
            ("a longer image",          vmlinuz(|row| row[GLOBAL_OFFSETS_END] += 0x80), "nothing in it"),
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
