//! A vmlinux as the linker leaves it, whose program headers give virtual addresses, or addresses from 0, for physical ones:
//! arm64, 32-bit ARM, RISC-V. These kernels relocate themselves at the start, so the file is loaded at the address at which a
//! boot loader puts the raw image (`Image`).

use super::kernels;
use super::{Segment, elf};
use bytes::Bytes;
use trapline_isa::arch::Arch;

/// No board of these ISAs has RAM below this address.
const LOWEST_RAM: u64 = 0x1000_0000;

/// Moves the segments into RAM if none of them is there, and if raw images of the ISA have a rule for their address.
/// Each segment comes with its number in the file.
pub fn place(arch: Arch, segments: &mut [(usize, Segment)]) {
    let row = kernels::of(arch);
    let Some((format, offset)) = row.raw_image.and_then(|format| Some((format, format.text_offset?))) else { return };
    let Some((_, first)) = segments.iter().min_by_key(|(_, segment)| segment.physical) else { return };
    let in_ram = |at: u64| at.checked_sub(row.ram_start).is_some_and(|offset| offset < elf::MOST_MEMORY);
    let is_linked_address = first.physical == first.virtual_address || first.physical < LOWEST_RAM;
    if !is_linked_address || segments.iter().any(|(_, segment)| in_ram(segment.physical)) {
        return;
    }
    let (lowest, linked_at) = (first.physical, first.virtual_address);
    let to = row.ram_start + offset(lowest, &first.bytes).min(elf::MOST_MEMORY);
    let length = segments.iter().map(|(_, segment)| segment.loaded().end - lowest).max().unwrap_or(0);
    if length > elf::MOST_MEMORY || linked_at.checked_add(length).is_none() {
        return;
    }
    for (_, segment) in segments.iter_mut() {
        let offset = segment.physical - lowest;
        // Code of the kernel copies a segment that is linked for another place, such as the vectors of 32-bit ARM.
        (segment.physical, segment.virtual_address) = (to + offset, linked_at + offset);
    }
    if let Some(relocate) = format.relocate {
        // Their table and their places may lie in different segments, so the relocations are applied to one image.
        let range = |segment: &Segment| {
            let from = (segment.virtual_address - linked_at) as usize;
            from..from + segment.bytes.len()
        };
        let mut image = vec![0; length as usize];
        segments.iter().for_each(|(_, segment)| image[range(segment)].copy_from_slice(&segment.bytes));
        relocate(&mut image, linked_at);
        for (_, segment) in segments {
            let held = range(segment);
            segment.bytes = Bytes::copy_from_slice(&image[held]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(physical: u64, virtual_address: u64) -> Segment {
        Segment { physical, virtual_address, bytes: vec![0; 0x40].into(), size: 0x1000, executable: true }
    }

    fn placed(arch: Arch, physical: &[u64]) -> Vec<u64> {
        let mut segments: Vec<_> = physical.iter().map(|at| segment(*at, *at)).enumerate().collect();
        place(arch, &mut segments);
        segments.iter().map(|(_, segment)| segment.physical).collect()
    }

    /// The linker's virtual addresses become a place in RAM, with the offset from its start that the kernel is linked for.
    #[test]
    fn linked_addresses_become_places_in_ram() {
        let arm64 = kernels::of(Arch::Arm64).ram_start;
        assert_eq!(placed(Arch::Arm64, &[0xffff_ffc0_0800_0000, 0xffff_ffc0_0900_0000]), [arm64, arm64 + 0x100_0000]);
        let arm = kernels::of(Arch::Arm).ram_start;
        // The vectors of 32-bit ARM are loaded behind the kernel, and run elsewhere.
        assert_eq!(placed(Arch::Arm, &[0xc000_8000, 0xc0a0_0000]), [arm + 0x8000, arm + 0xa0_0000]);
    }

    /// Alternative vectors of 32-bit ARM are linked at one address. They lie where they are loaded.
    #[test]
    fn vectors_lie_where_they_are_loaded() {
        let rows = [(0xc000_8000, 0xc000_8000), (0xc040_0000, 0xffff_0000), (0xc040_1000, 0xffff_0000)];
        let mut segments: Vec<_> = rows.map(|(physical, linked)| segment(physical, linked)).into_iter().enumerate().collect();
        place(Arch::Arm, &mut segments);
        let seen: Vec<u64> = segments.iter().map(|(_, segment)| segment.virtual_address).collect();
        assert_eq!(seen, [0xc000_8000, 0xc040_0000, 0xc040_1000]);
    }

    /// Segments that go over the end of the address space, or are far apart, are left alone.
    #[test]
    fn hostile_segments_are_left_alone() {
        let rows = [[(0x1000, u64::MAX - 0x1000), (0x8000, 0)], [(0, 0x1000), (u64::MAX - 0x2000, 0x8000)]];
        for rows in rows {
            let before: Vec<_> = rows.map(|(physical, linked)| segment(physical, linked)).into_iter().enumerate().collect();
            let mut after = before.clone();
            place(Arch::Arm64, &mut after);
            assert_eq!(after, before);
        }
    }

    /// Segments in RAM stay, and those of ISAs whose kernels lie where they say.
    #[test]
    fn places_in_ram_stay() {
        let arm64 = kernels::of(Arch::Arm64).ram_start;
        assert_eq!(placed(Arch::Arm64, &[arm64 + 0x20_0000, arm64 + 0x40_0000]), [arm64 + 0x20_0000, arm64 + 0x40_0000]);
        assert_eq!(placed(Arch::X86_64, &[0x100_0000]), [0x100_0000]);
    }
}
