//! Boots a kernel's file as it is: its own decompressor runs in the guest, instead of unpacking on the host.
//!
//! x86: the protected-mode part of a bzImage, entered at the 32-bit or 64-bit entry of Documentation/x86/boot.rst; the
//! setup code in front of it, which calls the BIOS, does not run. 32-bit ARM: a zImage, anywhere in the first 128 MiB
//! (Documentation/arm/booting.rst). z/Architecture and MIPS: a vmlinuz, at the addresses of its headers.

use super::{elf_wrapper, payload, vmlinuz, zimage};
use crate::error::BootError;
use payload::{byte, word};

/// The first boot protocol whose header gives the entry points.
const WITH_ENTRIES: u32 = 0x20c;
const SETUP_HEADER: usize = 0x1f1;
/// Offset of the byte with the header's length, counted from the byte behind it.
const HEADER_END: usize = 0x201;
const VERSION: usize = 0x206;
const LOAD_FLAGS: usize = 0x236;
const PREFERRED_ADDRESS: usize = 0x258;
const ROOM: usize = 0x260;
/// The flag of a file with a 64-bit entry, and the offset of that entry.
const HAS_LONG_ENTRY: u32 = 1;
const LONG_ENTRY: u64 = 0x200;

/// The address of a zImage from the start of RAM, behind the memory that it unpacks to, so that it need not move itself
/// first.
const ZIMAGE_AT: u64 = 64 << 20;
/// Memory for the decompressor's own variables, stack and heap.
const ZIMAGE_ROOM: u64 = 1 << 20;

/// A kernel file that unpacks itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Whole {
    /// The bytes to load.
    pub bytes: Vec<u8>,
    /// The physical address to load them at.
    pub at: u64,
    /// The entry point.
    pub entry: u64,
    /// The size of the memory from `at` on that unpacking needs.
    pub room: u64,
    /// The header that the boot parameters begin with; empty for ISAs without one.
    pub header: Vec<u8>,
}

/// Finds the decompressor in a kernel's file, for a board whose RAM starts at `ram_start`; `None` if the file has none.
pub type Decompressor = fn(&[u8], ram_start: u64) -> Result<Option<Whole>, BootError>;

/// Finds no decompressor: for ISAs on which no known kernel file unpacks itself.
pub fn none(_: &[u8], _: u64) -> Result<Option<Whole>, BootError> {
    Ok(None)
}

/// The decompressor of a bzImage, entered for 32 bits.
pub fn bzimage_entered_at_its_start(file: &[u8], _: u64) -> Result<Option<Whole>, BootError> {
    bzimage(file, |_| Ok(0))
}

/// The decompressor of a bzImage, entered for 64 bits.
pub fn bzimage_entered_for_64_bits(file: &[u8], _: u64) -> Result<Option<Whole>, BootError> {
    bzimage(file, |flags| if flags & HAS_LONG_ENTRY != 0 { Ok(LONG_ENTRY) } else { Err("it has no entry for 64 bits") })
}

/// The decompressor of a zImage.
pub fn zimage(file: &[u8], ram_start: u64) -> Result<Option<Whole>, BootError> {
    let whole = || Whole {
        bytes: file.to_vec(),
        at: ram_start + ZIMAGE_AT,
        entry: ram_start + ZIMAGE_AT,
        room: file.len() as u64 + ZIMAGE_ROOM,
        header: Vec::new(),
    };
    Ok(zimage::is_zimage(file).then(whole))
}

/// Memory that a vmlinuz of z/Architecture needs: the kernel is unpacked behind the file's end first and then moved to
/// its linked address, and the decompressor has variables. A loader puts the file at the start of memory.
const VMLINUZ_ROOM: u64 = 80 << 20;

/// The decompressor of a vmlinuz of z/Architecture.
pub fn vmlinuz(file: &[u8], ram_start: u64) -> Result<Option<Whole>, BootError> {
    let whole = || Whole {
        bytes: file.to_vec(),
        at: ram_start,
        entry: ram_start + vmlinuz::ENTERED_AT,
        room: file.len() as u64 + VMLINUZ_ROOM,
        header: Vec::new(),
    };
    Ok(vmlinuz::is_vmlinuz(file).then(whole))
}

/// The decompressor of a vmlinuz of MIPS, an ELF file; it passes the arguments of its entry on to the kernel.
pub fn wrapped(file: &[u8], _: u64) -> Result<Option<Whole>, BootError> {
    if !elf_wrapper::is_vmlinuz(file) {
        return Ok(None);
    }
    let elf_wrapper::Around { bytes, start, room, entry } = elf_wrapper::around(file)?;
    let physical = |address: u64| address & elf_wrapper::PHYSICAL;
    Ok(Some(Whole { bytes, at: physical(start), entry: physical(entry), room, header: Vec::new() }))
}

/// The decompressor of a bzImage. `entry` returns the offset of its entry point by the flags of the header.
fn bzimage(file: &[u8], entry: fn(flags: u32) -> Result<u64, &'static str>) -> Result<Option<Whole>, BootError> {
    if !payload::is_bzimage(file) {
        return Ok(None);
    }
    let version = word(file, VERSION) & 0xffff;
    let refused = |why: String| Err(BootError::Payload { what: "the bzImage", why });
    if version < WITH_ENTRIES {
        return refused(format!("its boot protocol, {}.{:02}, does not say how it is entered", version >> 8, version & 0xff));
    }
    let start = payload::protected_mode(file);
    let Some(bytes) = file.get(start..).filter(|bytes| !bytes.is_empty()) else {
        return Err(BootError::Truncated { what: "the bzImage".into(), needs: start as u64 + 1, has: file.len() as u64 });
    };
    let entry = match entry(word(file, LOAD_FLAGS)) {
        Ok(entry) => entry,
        Err(why) => return refused(why.into()),
    };
    let at = u64::from(word(file, PREFERRED_ADDRESS)) | u64::from(word(file, PREFERRED_ADDRESS + 4)) << 32;
    let header = file.get(SETUP_HEADER..HEADER_END + 1 + usize::from(byte(file, HEADER_END))).unwrap_or_default().to_vec();
    let room = u64::from(word(file, ROOM)).max(bytes.len() as u64);
    Ok(Some(Whole { bytes: bytes.to_vec(), at, entry: at.wrapping_add(entry), room, header }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use trapline_isa::arch::Arch;

    fn of(file: &[u8], arch: Arch) -> Result<Option<Whole>, BootError> {
        crate::boot::kernels::of(arch).whole(file)
    }

    fn bzimage_file(version: u16, flags: u8) -> Vec<u8> {
        let mut file = vec![0; 1024];
        file[0x1f1] = 1;
        file[0x1fe..0x200].copy_from_slice(&[0x55, 0xaa]);
        file[HEADER_END] = 0x6a;
        file[0x202..0x206].copy_from_slice(b"HdrS");
        file[VERSION..VERSION + 2].copy_from_slice(&version.to_le_bytes());
        file[LOAD_FLAGS] = flags;
        file[PREFERRED_ADDRESS..PREFERRED_ADDRESS + 4].copy_from_slice(&0x100_0000u32.to_le_bytes());
        file[ROOM..ROOM + 4].copy_from_slice(&0x40_0000u32.to_le_bytes());
        file.extend([7; 600]);
        file
    }

    /// KP-4
    #[test]
    fn a_file_says_how_it_is_entered() {
        type Expected = Result<Option<u64>, &'static str>;
        let whole = bzimage_file(0x20f, 1);
        #[rustfmt::skip]
        let cases: [(&str, Vec<u8>, Arch, Expected); 8] = [
            ("64 bits",                     whole.clone(),                  Arch::X86_64,   Ok(Some(0x100_0200))),
            ("32 bits",                     bzimage_file(0x20c, 0),         Arch::I386,     Ok(Some(0x100_0000))),
            ("no entry for 64 bits",        bzimage_file(0x20f, 0),         Arch::X86_64,   Err("no entry for 64 bits")),
            ("an old protocol",             bzimage_file(0x20b, 1),         Arch::X86_64,   Err("boot protocol, 2.11,")),
            ("nothing behind the set-up",   whole[..1024].to_vec(),         Arch::X86_64,   Err("cut off: the bzImage")),
            ("an ELF file",                 b"\x7fELF".repeat(300),         Arch::X86_64,   Ok(None)),
            ("a bzImage for ARM",           whole.clone(),                  Arch::Arm,      Ok(None)),
            ("no file at all",              Vec::new(),                     Arch::I386,     Ok(None)),
        ];
        for (what, file, arch, expected) in cases {
            match (of(&file, arch), expected) {
                (Ok(found), Ok(entry)) => assert_eq!(found.map(|whole| whole.entry), entry, "{what}"),
                (Err(error), Err(words)) => assert!(error.to_string().contains(words), "{what}: {error}"),
                (answer, _) => panic!("{what}: {answer:?}"),
            }
        }
        let found = of(&whole, Arch::X86_64).expect("it can").expect("a bzImage");
        assert_eq!((found.bytes, found.room, found.header.len()), (vec![7; 600], 0x40_0000, 0x26c - SETUP_HEADER));
    }

    proptest::proptest! {
        /// KP-4
        #[test]
        fn damaged_headers_never_panic(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..0x80), keep in 0usize..1700) {
            let mut file = bzimage_file(0x20f, 1);
            file[SETUP_HEADER..][..bytes.len()].copy_from_slice(&bytes);
            file[0x1fe..0x200].copy_from_slice(&[0x55, 0xaa]);
            file[0x202..0x206].copy_from_slice(b"HdrS");
            file.truncate(keep);
            for arch in [Arch::X86_64, Arch::I386, Arch::Arm] {
                let _ = of(&file, arch);
            }
        }
    }
}
