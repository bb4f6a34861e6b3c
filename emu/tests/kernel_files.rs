//! Kernel files: the tiny kernels, and files that are broken in many ways.

use proptest::prelude::*;
use trapline::boot::Kernel;
use trapline::still::StillGuest;
use trapline_isa::arch::Arch;
use trapline_probes::Engine;
use trapline_probes::guest::Site;
use trapline_probes::point::Mode;
use trapline_probes::probe::Kprobe;

fn tiny(name: &str) -> &'static [u8] {
    trapline_images::find(name).unwrap().bytes
}

fn kernel(name: &str) -> Kernel {
    Kernel::from_bytes(tiny(name)).unwrap()
}

/// KP-15: the tiny kernels' tables are read: exceptions, blacklist, BUG sites, init sections.
#[test]
fn the_tiny_kernels_are_understood() {
    for (name, arch, text) in [("tiny/x86_64", Arch::X86_64, 0xffff_ffff_8110_0000), ("tiny/i386", Arch::I386, 0xc010_0000)] {
        let kernel = kernel(name);
        let tables = &kernel.tables;
        assert_eq!((kernel.arch, kernel.entry, tables.text.start), (arch, 0x10_0000, text), "{name}");
        assert!(!tables.exceptions.is_empty(), "{name}");
        for row in &tables.exceptions {
            assert!(tables.is_text(row.instruction) && tables.is_text(row.fixup), "{name}: {row:x?}");
        }
        for listed in ["count_blacklisted_calls", "do_int3", "safe_halt", "ret_from_fork"] {
            let entry = tables.blacklist.iter().find(|entry| entry.name == listed);
            assert_eq!(entry.map(|entry| entry.range.start), kernel.symbols.address_of(listed), "{name}: {listed}");
        }
        assert!(tables.blacklist.iter().all(|entry| entry.name != "vfs_read"), "{name}");
        let bugs: Vec<u64> = tables.sites.iter().filter(|(_, site)| **site == Site::Bug).map(|(address, _)| *address).collect();
        assert!(!bugs.is_empty(), "{name}");
        for bug in bugs {
            let mut bytes = [0; 2];
            kernel.read(bug, &mut bytes).unwrap();
            assert_eq!(bytes, [0x0f, 0x0b], "{name}: ud2 at {bug:#x}");
        }
        let init = tables.init.clone().unwrap();
        let init_text = tables.init_text.clone().unwrap();
        assert!(init.start <= init_text.start && init_text.end <= init.end, "{name}: {init:x?} {init_text:x?}");
        assert_eq!(kernel.symbols.address_of("current_task"), Some(arch.isa().word as u64), "{name}");
    }
}

/// KP-4: a kernel that runs in place (XIP) is refused. Its symbols show it.
#[test]
fn a_kernel_that_runs_from_flash_is_refused() {
    let mut bytes = tiny("tiny/arm").to_vec();
    let (name, other) = (b"\0backlog\0", b"\0_xiprom\0");
    let at = bytes.windows(name.len()).position(|window| window == name).expect("its table of strings");
    bytes[at..at + name.len()].copy_from_slice(other);
    let refusal = Kernel::from_bytes(&bytes).expect_err("it runs in place");
    assert!(refusal.to_string().contains("CONFIG_XIP_KERNEL"), "{refusal}");
    assert!(refusal.advice().contains("without CONFIG_XIP_KERNEL"), "{}", refusal.advice());
}

/// KP-1: the bytes that `read` returns are those that the machine loads.
#[test]
fn reading_sees_file_bytes_then_zeroes_then_nothing() {
    let kernel = kernel("tiny/x86_64");
    let text = kernel.symbols.address_of("_stext").unwrap();
    let mut bytes = [0xaa; 16];
    kernel.read(text, &mut bytes).unwrap();
    assert_eq!(bytes, tiny("tiny/x86_64")[0x1000..0x1010]);
    let bss = kernel.segments.iter().find(|segment| segment.size > segment.bytes.len() as u64).unwrap();
    let first_zero = bss.virtual_address + bss.bytes.len() as u64;
    kernel.read(first_zero, &mut bytes).unwrap();
    assert_eq!(bytes, [0; 16]);
    let fault = kernel.read(bss.range().end - 8, &mut bytes).unwrap_err();
    assert_eq!((fault.address, fault.write), (bss.range().end, false));
    assert!(kernel.read(u64::MAX - 3, &mut bytes).is_err());
    assert!(kernel.read(0, &mut []).is_ok());
}

/// KP-15: an image without sections and symbols can be loaded.
#[test]
fn a_stripped_kernel_has_text_but_no_names() {
    let stripped = patched(&[(SECTIONS, 8, 0), (SECTION_COUNT, 2, 0)]);
    let kernel = Kernel::from_bytes(&stripped).unwrap();
    assert!(kernel.symbols.is_empty() && kernel.tables.blacklist.is_empty());
    assert_eq!(kernel.tables.text.start, 0xffff_ffff_8110_0000);
    assert!(!kernel.tables.text.contains(&0x40_0000), "programs are no kernel text");
}

// Offsets of fields in a 64-bit header and in a program header.
const TYPE: usize = 16;
const MACHINE: usize = 18;
const ENTRY: usize = 24;
const PROGRAM_HEADERS: usize = 32;
const SECTIONS: usize = 40;
const PROGRAM_HEADER_COUNT: usize = 56;
const SECTION_COUNT: usize = 60;
const FIRST: usize = 64;
const ONE: usize = 56;
const P_OFFSET: usize = 8;
const P_VADDR: usize = 16;
const P_PADDR: usize = 24;
const P_FILESZ: usize = 32;
const P_MEMSZ: usize = 40;

/// The 64-bit tiny kernel with some fields changed: (offset, bytes, value).
fn patched(changes: &[(usize, usize, u64)]) -> Vec<u8> {
    let mut bytes = tiny("tiny/x86_64").to_vec();
    for (at, size, value) in changes {
        bytes[*at..*at + *size].copy_from_slice(&value.to_le_bytes()[..*size]);
    }
    bytes
}

/// KP-15: ARM's mapping symbols mark data between the code, so no breakpoint is written into it.
#[test]
fn data_between_the_code_is_not_text() {
    let bytes = trapline_images::find("tiny/arm64").expect("it is built in").bytes;
    let kernel = Kernel::from_bytes(bytes).expect("it loads");
    // The literals of the first instructions, which stand behind these.
    let head = kernel.symbols.find("_head").expect("it has a beginning");
    let is_data: Vec<bool> =
        (head.start..head.start + head.size).step_by(4).map(|address| kernel.symbols.is_data(address)).collect();
    let code = is_data.iter().take_while(|is_data| !**is_data).count();
    assert!(code > 30 && code < is_data.len() && is_data[code..].iter().all(|is_data| *is_data), "{is_data:?}");
    let of_x86 = Kernel::from_bytes(trapline_images::find("tiny/x86_64").expect("it is built in").bytes).expect("it loads");
    assert!(!of_x86.symbols.places().iter().any(|entry| of_x86.symbols.is_data(entry.address)));
}

/// KP-4: each kind of broken file gets a message.
#[test]
fn broken_files_are_refused_with_the_reason() {
    let whole = tiny("tiny/x86_64");
    let big_endian = {
        let mut bytes = patched(&[]);
        bytes[5] = 2;
        bytes
    };
    #[rustfmt::skip]
    let cases: Vec<(&str, Vec<u8>, &str)> = vec![
        ("nothing",                         vec![],                                             "an empty file"),
        ("text",                            b"not a kernel\n".to_vec(),                         "it looks like text"),
        ("only the magic",                  whole[..4].to_vec(),                                "the file is cut off"),
        ("half a header",                   whole[..40].to_vec(),                               "the file is cut off"),
        ("no program headers",              whole[..64].to_vec(),                               "the table of program headers should reach to byte"),
        ("half a segment",                  whole[..0x1800].to_vec(),                           "segment 0 should reach to byte"),
        ("no symbols' names",               whole[..whole.len() - 6000].to_vec(),               "cut off"),
        ("for LoongArch",                   patched(&[(MACHINE, 2, 258)]),                      "it is for LoongArch (64-bit, little-endian), which is not supported; supported are i386"),
        ("for no known machine",            patched(&[(MACHINE, 2, 0x7777)]),                   "machine number 30583"),
        ("64-bit i386",                     patched(&[(MACHINE, 2, 3)]),                        "not supported"),
        ("big-endian x86",                  big_endian,                                         "not supported"),
        ("a module",                        patched(&[(TYPE, 2, 1)]),                           "an object file or a kernel module (ET_REL), not a kernel"),
        ("a core dump",                     patched(&[(TYPE, 2, 4)]),                           "a core dump"),
        ("headers beyond the end",          patched(&[(PROGRAM_HEADERS, 8, u64::MAX - 8)]),     "the table of program headers"),
        ("sections beyond the end",         patched(&[(SECTIONS, 8, 1 << 40)]),                 "the table of section headers"),
        ("no segments",                     patched(&[(PROGRAM_HEADER_COUNT, 2, 0)]),           "no segment to load"),
        ("an entry that points nowhere",    patched(&[(ENTRY, 8, 0xdead_0000)]),                "the entry 0xdead0000 lies in no segment"),
        ("a huge segment",                  patched(&[(FIRST + P_MEMSZ, 8, 1 << 40)]),          "segment 0 wants 0x10000000000 bytes of memory"),
        ("a segment larger in the file",    patched(&[(FIRST + P_MEMSZ, 8, 0x1000)]),           "segment 0 has"),
        ("a segment over the end",          patched(&[(FIRST + P_VADDR, 8, u64::MAX - 0xfff)]), "goes over the end of the address space"),
        ("a segment not in the file",       patched(&[(FIRST + P_OFFSET, 8, 1 << 50)]),         "segment 0 should reach to byte"),
        ("an offset that wraps",            patched(&[(FIRST + P_OFFSET, 8, u64::MAX)]),        "segment 0 should reach to byte"),
        ("physical overlap",                patched(&[(FIRST + ONE + P_PADDR, 8, 0x10_1000)]),  "overlap in physical memory at 0x101000"),
        ("virtual overlap",                 patched(&[(FIRST + ONE + P_VADDR, 8, 0xffff_ffff_8110_1000)]), "overlap in virtual memory"),
        ("a size that wraps",               patched(&[(FIRST + P_FILESZ, 8, u64::MAX), (FIRST + P_MEMSZ, 8, u64::MAX)]), "segment 0 wants"),
    ];
    for (what, bytes, expected) in cases {
        let error = Kernel::from_bytes(&bytes).expect_err(what);
        assert!(error.to_string().contains(expected), "{what}: {error}");
        assert!(!error.advice().is_empty(), "{what}");
    }
}

proptest! {
    /// KP-4: arbitrary bytes, with and without the magic, are refused or loaded, never a panic.
    #[test]
    fn arbitrary_bytes_never_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..4096), magic in any::<bool>()) {
        if magic && bytes.len() >= 20 {
            bytes[..8].copy_from_slice(&[0x7f, b'E', b'L', b'F', 2, 1, 1, 0]);
            bytes[18..20].copy_from_slice(&62u16.to_le_bytes());
        }
        let _ = Kernel::from_bytes(&bytes);
    }

    /// KP-4: a kernel with some bytes changed, in its headers or anywhere, and with its end cut off, is refused or
    /// loaded, never a panic.
    #[test]
    fn a_damaged_kernel_never_panics(
        name in prop::sample::select(vec!["tiny/x86_64", "tiny/i386"]),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), 0..4usize, any::<u8>()), 1..12),
        cut in prop::option::weighted(0.2, any::<prop::sample::Index>()),
    ) {
        let mut bytes = tiny(name).to_vec();
        let length = bytes.len();
        for (index, part, value) in changes {
            let at = match part {
                0 => index.index(64),
                1 => 52 + index.index(7 * 56),
                2 => length - 1 - index.index(0x2000),
                _ => index.index(length),
            };
            bytes[at] = value;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(length));
        }
        if let Ok(kernel) = Kernel::from_bytes(&bytes) {
            let mut into = [0; 64];
            for segment in kernel.segments.iter() {
                prop_assert!(kernel.read(segment.range().end - 1, &mut into[..1]).is_ok());
            }
            for symbol in kernel.symbols.extents(kernel.tables.text.clone()) {
                prop_assert!(kernel.symbols.containing(symbol.start).is_some());
            }
        }
    }

    /// KP-4: text that is no symbol table is refused or read, never a panic.
    #[test]
    fn arbitrary_symbol_text_never_panics(text in "([0-9a-f]{0,17}[ \\t][A-Za-z]{0,2}[ \\t][a-z_.$]{0,9}\\n?|\\PC{0,20}\\n){0,20}") {
        let _ = trapline::symbols::system_map::parse(&text);
    }

    /// KP-4
    #[test]
    fn patterns_never_panic_and_a_star_matches_everything(pattern in "[a-c*?\\[\\]!-]{0,8}", name in "[a-c]{0,8}") {
        let _ = trapline::symbols::pattern::matches(&pattern, &name);
        prop_assert!(trapline::symbols::pattern::matches("*", &name));
    }
}

/// A 64-bit big-endian kernel for this machine, with this text and this row in its exception table. Its entry is a
/// virtual address.
fn big_endian_kernel(machine: u16, at: u64, words: [u32; 3], row: [u32; 2]) -> Vec<u8> {
    const NAMES: &[u8] = b"\0.text\0__ex_table\0.symtab\0.strtab\0vfs_read\0";
    let code: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
    let table: Vec<u8> = row.iter().flat_map(|half| half.to_be_bytes()).collect();
    let symbol = [&34_u32.to_be_bytes()[..], &[0x12, 0], &1_u16.to_be_bytes(), &at.to_be_bytes(), &12_u64.to_be_bytes()].concat();
    let symbols = [vec![0; 24], symbol].concat();
    let starts = [0x1000, 0x100c, 0x1014, 0x1014 + symbols.len() as u64];
    let header = |name: u32, kind: u32, flags: u64, address: u64, start: u64, size: usize, link: u32| {
        let words = |values: &[u64]| values.iter().flat_map(|value| value.to_be_bytes()).collect::<Vec<u8>>();
        let entry_size = if kind == 2 { 24 } else { 0 };
        let ends = [link.to_be_bytes(), 0_u32.to_be_bytes()].concat();
        [[name, kind].map(u32::to_be_bytes).concat(), words(&[flags, address, start, size as u64]), ends, words(&[1, entry_size])]
            .concat()
    };
    let sections = [
        vec![0; 64],
        header(1, 1, 6, at, starts[0], code.len(), 0),
        header(7, 1, 2, at + 12, starts[1], table.len(), 0),
        header(18, 2, 0, 0, starts[2], symbols.len(), 4),
        header(26, 3, 0, 0, starts[3], NAMES.len(), 0),
    ];
    let sections_at = starts[3] + NAMES.len() as u64;
    let mut file = vec![0x7f, b'E', b'L', b'F', 2, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    file.extend([2_u16, machine].map(u16::to_be_bytes).concat());
    file.extend(1_u32.to_be_bytes());
    file.extend([at, 64, sections_at].map(u64::to_be_bytes).concat());
    file.extend(1_u32.to_be_bytes());
    file.extend([64_u16, 56, 1, 64, sections.len() as u16, 4].map(u16::to_be_bytes).concat());
    file.extend([1_u32, 7].map(u32::to_be_bytes).concat());
    file.extend([0x1000, at, 0x2000, 20, 20, 0x1000].map(u64::to_be_bytes).concat());
    file.resize(0x1000, 0);
    [file, code, table, symbols, NAMES.to_vec(), sections.concat()].concat()
}

/// KP-15: numbers are read in the file's byte order. An entry that is not a physical address is found through its
/// segment.
#[test]
fn a_big_endian_kernel_is_read_in_its_own_order() {
    const TEXT: u64 = 0xc000_0000_0000_0000;
    // The load may fault, and execution goes on at the return.
    let row = [-12_i32, -8].map(|distance| distance as u32);
    let kernel = Kernel::from_bytes(&big_endian_kernel(21, TEXT, [0xe863_0000, 0x7fe0_0008, 0x4e80_0020], row)).unwrap();
    assert_eq!((kernel.arch, kernel.entry), (Arch::Ppc64, 0x2000));
    assert_eq!(kernel.symbols.address_of("vfs_read"), Some(TEXT));
    let found: Vec<_> = kernel.tables.exceptions.iter().map(|row| (row.instruction, row.fixup)).collect();
    assert_eq!(found, [(TEXT, TEXT + 8)]);
}

/// KP-4, KP-15: a vmlinux for SPARC, whose tables hold 32-bit addresses. The engine answers about its text.
#[test]
fn a_sparc_vmlinux_from_elsewhere_is_answered_about() {
    const TEXT: u64 = 0x40_4000;
    // ldx [%o0],%o0; retl; nop
    let words = [0xd05a_0000, 0x81c3_e008, 0x0100_0000];
    let row = [TEXT, TEXT + 4].map(|address| address as u32);
    let kernel = Kernel::from_bytes(&big_endian_kernel(43, TEXT, words, row)).unwrap();
    assert_eq!((kernel.arch, kernel.symbols.address_of("vfs_read")), (Arch::Sparc64, Some(TEXT)));
    let found: Vec<_> = kernel.tables.exceptions.iter().map(|row| (row.instruction, row.fixup)).collect();
    assert_eq!(found, [(TEXT, TEXT + 4)]);
    let (mut guest, mut engine) = (StillGuest::new(&kernel), Engine::new(kernel.arch.isa(), 1));
    assert_eq!(engine.register_kprobe(&mut guest, &Kprobe::at("vfs_read")), Ok(()));
    assert_eq!(engine.summary(&guest).first().map(|point| point.mode), Some(Mode::Boosted));
    assert!(engine.register_kprobe(&mut guest, &Kprobe::at("vfs_read").offset(2)).is_err(), "inside of an instruction");
    // No symbol says where the kernel ends: its segment does.
    assert_eq!(engine.register_kprobe(&mut guest, &Kprobe::at("vfs_read").offset(4)), Ok(()));
}
