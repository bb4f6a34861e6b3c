//! A vmlinux as the linker leaves it, whose program headers give virtual addresses, or addresses from 0, for physical ones:
//! arm64, 32-bit ARM, RISC-V. Such kernels find their own place when they start, so the file is loaded where a boot loader
//! puts the raw image that is made of it.

use super::{Segment, elf};
use crate::arches;
use trapline_isa::arch::Arch;

/// Moves the segments into RAM if none of them lies there and the ISA's kernels are placed by a raw image's rule.
pub fn place(arch: Arch, segments: &mut [Segment]) {
    let row = arches::of(arch);
    let Some((format, offset)) = row.raw_image.and_then(|format| Some((format, format.text_offset?))) else { return };
    let boards = row.machine.as_ref().map(|machine| machine.bare.ram_start).into_iter().chain([row.ram_start()]);
    let in_ram = |at: u64| boards.clone().any(|start| at.checked_sub(start).is_some_and(|offset| offset < elf::MOST_MEMORY));
    if segments.iter().any(|segment| in_ram(segment.physical)) {
        return;
    }
    if let Some(apply) = format.relocate {
        relocate(segments, apply);
    }
    let Some(first) = segments.iter().min_by_key(|segment| segment.physical) else { return };
    let (lowest, to) = (first.physical, row.ram_start() + offset(first.physical, &first.bytes).min(elf::MOST_MEMORY));
    for segment in segments {
        segment.physical = to + (segment.physical - lowest);
    }
}

/// Applies the relocations. Their table and their places may lie in different segments, so they see all as one image.
fn relocate(segments: &mut [Segment], apply: fn(&mut [u8], u64)) {
    let Some(start) = segments.iter().map(|segment| segment.virtual_address).min() else { return };
    let held = |segment: &Segment| {
        let from = usize::try_from(segment.virtual_address - start).ok()?;
        (from as u64 <= elf::MOST_MEMORY).then(|| from..from + segment.bytes.len())
    };
    let length = segments.iter().filter_map(held).map(|range| range.end).max().unwrap_or(0);
    let mut image = vec![0; length];
    for segment in segments.iter() {
        held(segment).into_iter().for_each(|range| image[range].copy_from_slice(&segment.bytes));
    }
    apply(&mut image, start);
    for segment in segments {
        held(segment).into_iter().for_each(|range| segment.bytes.copy_from_slice(&image[range]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(physical: u64, virtual_address: u64) -> Segment {
        Segment { physical, virtual_address, bytes: vec![0; 0x40], size: 0x1000, executable: true }
    }

    fn placed(arch: Arch, physical: &[u64]) -> Vec<u64> {
        let mut segments: Vec<_> = physical.iter().map(|at| segment(*at, *at)).collect();
        place(arch, &mut segments);
        segments.iter().map(|segment| segment.physical).collect()
    }

    /// The linker's virtual addresses become a place in RAM, with the offset from its start that the kernel is linked for.
    #[test]
    fn linked_addresses_become_places_in_ram() {
        let arm64 = arches::of(Arch::Arm64).ram_start();
        assert_eq!(placed(Arch::Arm64, &[0xffff_ffc0_0800_0000, 0xffff_ffc0_0900_0000]), [arm64, arm64 + 0x100_0000]);
        let arm = arches::of(Arch::Arm).ram_start();
        // The vectors of 32-bit ARM are loaded behind the kernel, and run elsewhere.
        assert_eq!(placed(Arch::Arm, &[0xc000_8000, 0xc0a0_0000]), [arm + 0x8000, arm + 0xa0_0000]);
    }

    /// Segments in RAM stay, and those of ISAs whose kernels lie where they say.
    #[test]
    fn places_in_ram_stay() {
        let arm64 = arches::of(Arch::Arm64).ram_start();
        assert_eq!(placed(Arch::Arm64, &[arm64 + 0x20_0000, arm64 + 0x40_0000]), [arm64 + 0x20_0000, arm64 + 0x40_0000]);
        assert_eq!(placed(Arch::X86_64, &[0x100_0000]), [0x100_0000]);
    }
}
