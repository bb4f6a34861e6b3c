//! Recognises files that are not supported kernels, so that the error can say what they are.

use super::kernels::Identity;
use crate::error::BootError;
use goblin::elf::header::{ELFCLASS32, ELFCLASS64, ELFDATA2LSB, EM_X86_64};

/// The first bytes of other kinds of files, with advice for each.
#[rustfmt::skip]
const MAGICS: &[(usize, &[u8], &str, &str)] = &[
    // at    bytes                               looks like                              advice
    (0,      &[0x27, 0x05, 0x19, 0x56],          "a U-Boot image",                       VMLINUX),
    (0,      &[0xd0, 0x0d, 0xfe, 0xed],          "a device tree",                        VMLINUX),
    (0,      b"MZ",                              "a Windows or EFI program",             VMLINUX),
    (0,      b"!<arch>\n",                       "an archive of object files or a .deb package", VMLINUX),
    (0,      b"070701",                          "a cpio archive (an initramfs)",        VMLINUX),
    (0,      &[0xed, 0xab, 0xee, 0xdb],          "an rpm package",                       VMLINUX),
    (0,      b"PK\x03\x04",                      "a zip archive",                        VMLINUX),
];

const VMLINUX: &str = "give the kernel's own ELF file, usually called vmlinux, or the built-in `tiny/x86_64`";

/// The error for bytes that do not start like an ELF file.
pub fn not_elf(bytes: &[u8]) -> BootError {
    let known = MAGICS.iter().find(|(at, magic, _, _)| bytes.get(*at..).is_some_and(|rest| rest.starts_with(magic)));
    let (looks_like, advice) = match known {
        Some((_, _, looks_like, advice)) => (*looks_like, *advice),
        None if bytes.is_empty() => ("an empty file", VMLINUX),
        None if is_text(bytes) => ("text", VMLINUX),
        None => ("data of an unknown kind", VMLINUX),
    };
    BootError::NotElf { looks_like, advice }
}

fn is_text(bytes: &[u8]) -> bool {
    let start = &bytes[..bytes.len().min(4096)];
    let whole = match std::str::from_utf8(start) {
        Ok(text) => text,
        // The last character may be cut off.
        Err(error) if error.error_len().is_none() => std::str::from_utf8(&start[..error.valid_up_to()]).unwrap_or_default(),
        Err(_) => return false,
    };
    !whole.is_empty() && !whole.contains(|letter: char| letter.is_control() && !letter.is_whitespace())
}

/// The names of machines in ELF headers.
#[rustfmt::skip]
const MACHINES: &[(u16, &str)] = &[
    (2, "SPARC"), (4, "m68k"), (8, "MIPS"), (15, "PA-RISC"), (18, "SPARC"), (20, "PowerPC"), (21, "PowerPC 64"), (22, "s390"), (40, "ARM"), (42, "SuperH"),
    (43, "SPARC V9"), (50, "Itanium"), (94, "Xtensa"), (183, "arm64"), (189, "MicroBlaze"), (243, "RISC-V"), (252, "C-SKY"), (258, "LoongArch"),
];

/// The name of an ELF machine, with width and byte order.
pub fn machine_name(identity: &Identity) -> String {
    if *identity == X32 {
        return "x32 (x86_64 with 32-bit addresses)".into();
    }
    let name = match MACHINES.iter().find(|(known, _)| *known == identity.machine) {
        Some((_, name)) => (*name).to_string(),
        None => format!("machine number {}", identity.machine),
    };
    let bits = if identity.class == ELFCLASS64 { 64 } else { 32 };
    let end = if identity.order == ELFDATA2LSB { "little" } else { "big" };
    format!("{name} ({bits}-bit, {end}-endian)")
}

const X32: Identity = Identity { machine: EM_X86_64, class: ELFCLASS32, order: ELFDATA2LSB };

#[cfg(test)]
mod tests {
    use super::not_elf;

    /// KP-4: other files are recognised, and the error says what they are.
    #[test]
    fn files_that_are_no_elf_are_recognised() {
        #[rustfmt::skip]
        let cases: [(&str, &[u8], &str, &str); 5] = [
            ("an initramfs",        b"070701",                  "a cpio archive (an initramfs)",        "vmlinux"),
            ("a configuration",     b"CONFIG_KPROBES=y\n",      "text",                                 "vmlinux"),
            ("text that is not English", "Größe\n".as_bytes(),  "text",                                 "vmlinux"),
            ("nothing",             b"",                        "an empty file",                        "vmlinux"),
            ("noise",               &[0, 1, 2, 3, 255],         "data of an unknown kind",              "vmlinux"),
        ];
        for (what, bytes, looks_like, advice) in cases {
            let error = not_elf(bytes);
            assert_eq!(error.to_string(), format!("it is no ELF file: it looks like {looks_like}"), "{what}");
            assert!(error.advice().contains(advice), "{what}: {}", error.advice());
        }
    }
}
