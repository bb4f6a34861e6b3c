//! Tests with tables as built by several kernels, and with damaged ones.

use super::{find, find_raw, find_raw_at};
use crate::boot::{Kernel, Segment};
use crate::symbols::Symbols;
use proptest::prelude::*;
use trapline_isa::arch::Arch;
use trapline_probes::budget::Budget;

/// The place of the addresses.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    /// 4.19 to 6.3.
    BeforeNames,
    /// 6.4 and later.
    BehindTokens,
}

#[derive(Clone, Copy, PartialEq)]
enum Addresses {
    Words,
    Offsets,
    Signed,
    /// Relative to their own place.
    Distances,
}

#[derive(Clone, Copy)]
struct Layout {
    arch: Arch,
    place: Place,
    addresses: Addresses,
    /// Size of a marker.
    marker: usize,
    /// Whether there is a table of 3-byte sequence numbers, one per name (from 6.2 on, and in 6.1 stable).
    sequence: bool,
    /// Whether tables are aligned to 4 bytes rather than a word, with no padding behind the count.
    dense: bool,
}

const BASE: u64 = 0xffff_ffff_8100_0000;
const ARCH: Arch = Arch::X86_64;

fn base(arch: Arch) -> u64 {
    if arch == Arch::X86_64 { BASE } else { 0xc100_0000 }
}

/// 600 symbols: absolute ones if the layout has them, aliases, a long name, and names with a multi-letter token.
fn sample(layout: Layout) -> Vec<(u64, String)> {
    let base = base(layout.arch);
    let mut rows = Vec::new();
    if matches!(layout.addresses, Addresses::Words | Addresses::Signed) {
        rows.push((0, "Afixed_percpu_data".to_string()));
        rows.push((0x1f440, "Acurrent_task".to_string()));
    }
    rows.push((base, "T_stext".to_string()));
    rows.push((base, "Tstartup_64".to_string()));
    rows.extend((1..600u64).map(|number| (base + number * 16, format!("tvfs_function_{number}"))));
    rows.push((base + 0x3000, format!("T{}", "long_".repeat(40))));
    rows.push((base + 0x4000, "D_end".to_string()));
    rows
}

fn pad(bytes: &mut Vec<u8>, to: usize) {
    bytes.resize(bytes.len().next_multiple_of(to), 0);
}

/// The token that stands for `vfs_`.
const VFS: u8 = 0x80;

/// The table of tokens, and the offset of each in it.
fn tokens(layout: Layout) -> [Vec<u8>; 2] {
    let (mut text, mut index) = (Vec::new(), Vec::new());
    for token in 0..=255u8 {
        let mut at = [0; 2];
        layout.arch.isa().order.put(text.len() as u64, &mut at);
        index.extend(at);
        match token {
            VFS => text.extend_from_slice(b"vfs_"),
            b'0'..=b'9' | b'A'..=b'Z' | b'_' | b'a'..=b'z' => text.push(token),
            _ => {}
        }
        text.push(0);
    }
    [text, index]
}

/// The tables of a kernel whose data is at the virtual address `seen_at`.
fn tables(layout: Layout, rows: &[(u64, String)], seen_at: u64) -> Vec<u8> {
    let (word, order) = (layout.arch.isa().word, layout.arch.isa().order);
    let put = |into: &mut Vec<u8>, value: u64, size: usize| {
        into.resize(into.len() + size, 0);
        let from = into.len() - size;
        order.put(value, &mut into[from..]);
    };
    let base = base(layout.arch);
    let to = if layout.dense { 4 } else { word };
    let mut addresses = Vec::new();
    for (address, _) in rows {
        match layout.addresses {
            Addresses::Words => put(&mut addresses, *address, word),
            Addresses::Offsets => put(&mut addresses, address.wrapping_sub(base), 4),
            Addresses::Signed if *address < 1 << 30 => put(&mut addresses, *address, 4),
            Addresses::Signed => put(&mut addresses, (base - 1).wrapping_sub(*address), 4),
            // Corrected below, when the table's place is known.
            Addresses::Distances => put(&mut addresses, *address, 4),
        }
    }
    let has_base = matches!(layout.addresses, Addresses::Offsets | Addresses::Signed);
    pad(&mut addresses, if has_base { word } else { to });
    if has_base {
        put(&mut addresses, base, word);
    }

    let (mut names, mut markers) = (Vec::new(), Vec::new());
    for (number, (_, name)) in rows.iter().enumerate() {
        if number % 256 == 0 {
            put(&mut markers, names.len() as u64, layout.marker);
        }
        let compressed = name.replace("vfs_", "\u{1}").bytes().map(|byte| if byte == 1 { VFS } else { byte }).collect::<Vec<_>>();
        match compressed.len() {
            length @ 0..128 => names.push(length as u8),
            length => names.extend_from_slice(&[length as u8 & 0x7f | 0x80, (length >> 7) as u8]),
        }
        names.extend_from_slice(&compressed);
    }

    let [text, index] = tokens(layout);
    let mut bytes = vec![0x5a; 64];
    let before = layout.place == Place::BeforeNames;
    if before {
        bytes.extend_from_slice(&addresses);
    }
    put(&mut bytes, rows.len() as u64, if layout.marker == 8 { word } else { 4 });
    pad(&mut bytes, to);
    bytes.extend_from_slice(&names);
    pad(&mut bytes, if layout.arch == Arch::S390x { 4 } else { to });
    bytes.extend_from_slice(&markers);
    pad(&mut bytes, to);
    let numbers = || rows.iter().flat_map(|_| [1, 2, 3]);
    if before && layout.sequence {
        bytes.extend(numbers());
        pad(&mut bytes, to);
    }
    for part in [text, index] {
        bytes.extend_from_slice(&part);
        pad(&mut bytes, to);
    }
    if !before {
        if has_base {
            pad(&mut bytes, word);
        }
        if layout.addresses == Addresses::Distances {
            for (number, (address, _)) in rows.iter().enumerate() {
                let at = seen_at + (bytes.len() + 4 * number) as u64;
                order.put(address.wrapping_sub(at), &mut addresses[4 * number..4 * number + 4]);
            }
        }
        bytes.extend_from_slice(&addresses);
        bytes.extend(numbers());
    }
    bytes.extend_from_slice(&[0xa5; 64]);
    bytes
}

/// The distance of the test kernel's data from its text.
const DATA: u64 = 0x2_0000;

/// A kernel with these bytes as its data.
fn kernel(arch: Arch, bytes: Vec<u8>) -> Kernel {
    let segment = |virtual_address: u64, bytes: Vec<u8>, size: u64| Segment {
        physical: virtual_address & 0x0fff_ffff,
        virtual_address,
        bytes: bytes.into(),
        size,
        executable: false,
    };
    let size = bytes.len() as u64;
    let segments = vec![segment(base(arch), vec![0xcc; 64], 0x10000), segment(base(arch) + DATA, bytes, size)];
    Kernel::from_parts(arch, 0x100_0000, segments, Symbols::default())
}

/// KP-4: the symbols of an image without other symbol tables are read in every layout.
#[test]
fn every_layout_from_4_19_on_is_read() {
    use Addresses::*;
    use Place::*;
    #[rustfmt::skip]
    let cases = [
        // kernel               arch            addresses stand     as          marker  sequence    dense
        ("4.19, amd64",         ARCH,           BeforeNames,        Signed,     8,      false,      false),
        ("4.19, 686",           Arch::I386,     BeforeNames,        Offsets,    4,      false,      false),
        ("5.10, amd64",         ARCH,           BeforeNames,        Signed,     4,      false,      false),
        ("6.1 stable, amd64",   ARCH,           BeforeNames,        Signed,     4,      true,       false),
        ("6.1 stable, 686",     Arch::I386,     BeforeNames,        Offsets,    4,      true,       false),
        ("6.1, one CPU",        ARCH,           BeforeNames,        Offsets,    4,      true,       false),
        ("6.1, words, 64 bit",  ARCH,           BeforeNames,        Words,      4,      true,       false),
        ("6.1, words, 32 bit",  Arch::I386,     BeforeNames,        Words,      4,      true,       false),
        ("6.12, amd64",         ARCH,           BehindTokens,       Signed,     4,      true,       false),
        ("6.12, one CPU",       ARCH,           BehindTokens,       Offsets,    4,      true,       false),
        ("6.12, 686",           Arch::I386,     BehindTokens,       Offsets,    4,      true,       false),
        ("6.4, words",          ARCH,           BehindTokens,       Words,      4,      true,       false),
        ("6.1, ppc64",          Arch::Ppc64,    BeforeNames,        Signed,     4,      true,       false),
        ("6.1, ppc",            Arch::Ppc,      BeforeNames,        Words,      4,      true,       false),
        ("6.12, ppc",           Arch::Ppc,      BehindTokens,       Offsets,    4,      true,       false),
        ("6.1 stable, s390x",   Arch::S390x,    BeforeNames,        Offsets,    4,      true,       false),
        ("6.12, s390x",         Arch::S390x,    BehindTokens,       Offsets,    4,      true,       false),
        ("7.2, amd64",          ARCH,           BehindTokens,       Distances,  4,      true,       true),
        ("7.2, 686",            Arch::I386,     BehindTokens,       Distances,  4,      true,       true),
        ("7.2, armhf",          Arch::Arm,      BehindTokens,       Words,      4,      true,       true),
        ("7.2, ppc64",          Arch::Ppc64,    BehindTokens,       Distances,  4,      true,       true),
        ("7.2, s390x",          Arch::S390x,    BehindTokens,       Distances,  4,      true,       true),
        ("offsets, dense",      ARCH,           BehindTokens,       Offsets,    4,      true,       true),
        ("signed, dense",       ARCH,           BehindTokens,       Signed,     4,      true,       true),
        ("distances, padded",   ARCH,           BehindTokens,       Distances,  4,      true,       false),
    ];
    for (what, arch, place, addresses, marker, sequence, dense) in cases {
        let layout = Layout { arch, place, addresses, marker, sequence, dense };
        // Also with tables at odd multiples of 4 bytes.
        for more in 0..if dense { 4 } else { 1 } {
            let mut rows = sample(layout);
            rows.extend((0..more).map(|number| (base(arch) + 0x5000, format!("tmore_{number}"))));
            let symbols = find(&kernel(arch, tables(layout, &rows, base(arch) + DATA))).expect(what);
            let symbols = symbols.unwrap_or_else(|| panic!("{what}: nothing is found"));
            holds(what, &symbols, &rows);
            let first = symbols.containing(base(arch) + 8).map(|symbol| symbol.name);
            assert_eq!(first.as_deref(), Some("_stext"), "{what}: the first of two aliases is printed");
        }
    }
}

/// Checks that each row has its symbol with address and letter.
fn holds(what: &str, symbols: &Symbols, rows: &[(u64, String)]) {
    assert_eq!(symbols.len(), rows.len(), "{what}");
    for (address, name) in rows {
        let (kind, name) = name.split_at(1);
        assert_eq!(symbols.address_of(name), Some(*address), "{what}: {name}");
        let entries = symbols.places().iter().chain(symbols.absolute());
        let found = entries.filter(|entry| &*entry.name == name).map(|entry| entry.kind).collect::<String>();
        assert_eq!(found, kind, "{what}: {name}");
    }
}

/// KP-4: images in one piece. With relative distances only, the link address comes from its pointers or from the
/// caller.
#[test]
fn an_image_in_one_piece_is_placed_by_its_pointers() {
    use Addresses::*;
    #[rustfmt::skip]
    let cases = [
        ("6.12, offsets",       ARCH,       Offsets,    false),
        ("7.2, words",          Arch::Arm,  Words,      true),
        ("7.2, distances",      ARCH,       Distances,  true),
        ("7.2, 32 bits",        Arch::Mips, Distances,  true),
    ];
    for (what, arch, addresses, dense) in cases {
        let layout = Layout { arch, place: Place::BehindTokens, addresses, marker: 4, sequence: true, dense };
        let rows: Vec<_> = sample(layout).into_iter().filter(|(address, _)| *address >= base(arch)).collect();
        let (word, order) = (arch.isa().word, arch.isa().order);
        let image = |with_pointers: bool| {
            let mut bytes = vec![0xcc; DATA as usize];
            bytes.extend(tables(layout, &rows, base(arch) + DATA));
            pad(&mut bytes, 8);
            for (address, _) in rows.iter().filter(|_| with_pointers).step_by(2) {
                let at = bytes.len();
                bytes.resize(at + word, 0);
                order.put(*address, &mut bytes[at..]);
            }
            bytes
        };
        holds(
            what,
            &find_raw(&image(true), word, order).expect(what).unwrap_or_else(|| panic!("{what}: nothing is found")),
            &rows,
        );
        assert_eq!(
            find_raw(&image(false), word, order).expect(what).is_some(),
            addresses != Distances,
            "{what}: without pointers"
        );
        let placed = find_raw_at(&image(false), word, order, base(arch)).expect(what);
        holds(what, &placed.unwrap_or_else(|| panic!("{what}: nothing is found at its start")), &rows);
    }
}

/// KP-4
#[test]
fn an_image_without_tables_has_no_symbols() {
    let layout =
        Layout { arch: ARCH, place: Place::BeforeNames, addresses: Addresses::Signed, marker: 4, sequence: true, dense: false };
    let whole = tables(layout, &sample(layout), 0);
    let tokens = super::memmem::find(&whole, super::DIGITS).unwrap();
    let cases = [("nothing", vec![]), ("only the digits", super::DIGITS.to_vec()), ("no names", whole[tokens - 0x30..].to_vec())];
    for (what, bytes) in cases {
        assert!(find(&kernel(ARCH, bytes)).expect(what).is_none(), "{what}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// KP-4: damaged tables are refused or read, and never panic.
    #[test]
    fn damaged_tables_never_panic(
        behind in any::<bool>(),
        dense in any::<bool>(),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut in prop::option::weighted(0.3, any::<prop::sample::Index>()),
    ) {
        let place = if behind { Place::BehindTokens } else { Place::BeforeNames };
        let addresses = if behind && dense { Addresses::Distances } else { Addresses::Signed };
        let layout = Layout { arch: ARCH, place, addresses, marker: 4, sequence: true, dense };
        let mut bytes = tables(layout, &sample(layout), base(ARCH) + DATA);
        for (index, value) in changes {
            let at = index.index(bytes.len());
            bytes[at] = value;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        let _ = find_raw(&bytes, 8, ARCH.isa().order);
        let _ = find(&kernel(ARCH, bytes));
    }
}

/// Generates bytes that waste the search's time: at least this many, in front of a token table.
type Hostile = fn(usize) -> Vec<u8>;

fn in_front_of_tokens(mut bytes: Vec<u8>) -> Vec<u8> {
    let (mut text, mut index) = (Vec::new(), Vec::new());
    for token in 0..=255_u8 {
        index.extend((text.len() as u16).to_le_bytes());
        text.extend(if token.is_ascii_digit() { [token, 0] } else { [b'a', 0] });
    }
    pad(&mut bytes, 8);
    bytes.extend([text, index].concat());
    bytes
}

/// A count at every second word, from each of which many names can be read.
fn numbers_everywhere(size: usize) -> Vec<u8> {
    let row = [&((size / 64) as u64).to_le_bytes()[..], &[15], &[1; 7]].concat();
    in_front_of_tokens(row.repeat(size / 16))
}

/// Hostile data whose counts are right. Only the markers are wrong.
fn right_numbers(size: usize) -> Vec<u8> {
    let rows = size / 16;
    let row = |number: usize| [&((rows - number) as u64).to_le_bytes()[..], &[15], &[1; 7]].concat();
    let mut bytes: Vec<u8> = (0..rows).flat_map(row).collect();
    bytes.truncate(bytes.len() - 8);
    bytes.extend([0; 64]);
    in_front_of_tokens(bytes)
}

fn digits_everywhere(size: usize) -> Vec<u8> {
    super::DIGITS.repeat(size / super::DIGITS.len())
}

/// Token tables, and nothing else.
fn tokens_everywhere(size: usize) -> Vec<u8> {
    let one = in_front_of_tokens(vec![]);
    one.repeat(size / one.len() + 1)
}

/// Names that expand to much more text than their size.
fn names_that_grow(size: usize) -> Vec<u8> {
    let (mut text, mut index) = (Vec::new(), Vec::new());
    for token in 0..=255_u8 {
        index.extend((text.len() as u16).to_le_bytes());
        text.extend(if token.is_ascii_digit() { vec![token] } else { vec![b'a'; 240] });
        text.push(0);
    }
    pad(&mut text, 8);
    let name = [&[0xff_u8, 0x07][..], &[1; 1023]].concat();
    let count = size / name.len();
    let mut bytes: Vec<u8> = (0..count).flat_map(|_| BASE.to_le_bytes()).collect();
    bytes.extend((count as u64).to_le_bytes());
    bytes.extend(name.repeat(count));
    pad(&mut bytes, 8);
    let markers = (0..count).step_by(256).flat_map(|number| ((number * name.len()) as u32).to_le_bytes());
    bytes.extend(markers);
    pad(&mut bytes, 8);
    bytes.extend([text, index].concat());
    bytes
}

/// KP-4, BY-1: twice the bytes take twice the steps, whatever they hold.
#[test]
fn a_search_takes_time_by_the_size_of_the_image() {
    let cases: [(&str, Hostile, bool); 5] = [
        ("numbers everywhere", numbers_everywhere, true),
        ("right numbers", right_numbers, false),
        ("digits everywhere", digits_everywhere, true),
        ("tokens everywhere", tokens_everywhere, false),
        ("names that grow", names_that_grow, false),
    ];
    for (what, make, is_searched) in cases {
        let steps = |size: usize| {
            let bytes = make(size);
            let budget = Budget::linear(bytes.len(), super::STEPS_A_BYTE);
            let found = super::find_within(&kernel(ARCH, bytes), &budget);
            assert!(!matches!(found, Ok(Some(_))), "{what}: there is nothing to be found");
            assert!(found.is_ok() || !is_searched, "{what} is searched to its end");
            budget.spent()
        };
        let (one, two) = (steps(1 << 21), steps(1 << 22));
        assert!(one > 1 << 21, "{what}: {one} steps are none");
        assert!(5 * two <= 11 * one, "{what}: {one} steps, twice the size {two}");
    }
}

/// KP-4: a realistic table uses a small part of the budget.
#[test]
fn a_real_table_takes_few_steps() {
    for (place, arch) in [(Place::BeforeNames, ARCH), (Place::BehindTokens, ARCH), (Place::BeforeNames, Arch::I386)] {
        let layout = Layout { arch, place, addresses: Addresses::Offsets, marker: 4, sequence: true, dense: false };
        let (base, text) = (base(arch), "function_".repeat(3));
        let rows: Vec<(u64, String)> = (0..60_000).map(|number| (base + 16 * number, format!("t{text}{number}"))).collect();
        let bytes = tables(layout, &rows, base + DATA);
        let size = bytes.len() as u64;
        let budget = Budget::linear(bytes.len(), super::STEPS_A_BYTE);
        let found = super::find_within(&kernel(arch, bytes), &budget).expect("enough steps").expect("a table");
        assert_eq!(found.len(), rows.len());
        assert!(budget.spent() < 3 * size, "{} steps for {size} bytes", budget.spent());
    }
}
