//! Intel's table of processors (MultiProcessor Specification 1.4), in which an x86 kernel finds its CPUs and the
//! IO-APIC.

/// The address of the pointer to the table. The memory map reports this memory as reserved.
const POINTER: u64 = 0xf_0000;
const TABLE: u64 = POINTER + 16;
const HEADER_BYTES: usize = 44;

const SPECIFICATION_1_4: u8 = 4;
/// The version of the local APICs, and of the IO-APIC.
const LAPIC_VERSION: u8 = 0x14;
const IOAPIC_VERSION: u8 = 0x11;
/// Family 15, model 107, stepping 1; FPU and local APIC.
const SIGNATURE: u32 = 0x0006_0fb1;
const FEATURES: u32 = 0x201;

// Types of entries.
const PROCESSOR: u8 = 0;
const BUS: u8 = 1;
const IOAPIC: u8 = 2;
const INTERRUPT: u8 = 3;
const LOCAL_INTERRUPT: u8 = 4;

const USABLE: u8 = 1;
const FIRST: u8 = 2;
const NON_MASKABLE: u8 = 1;
const EXTERNAL: u8 = 3;
const EVERY_LAPIC: u8 = 0xff;
/// An interrupt that is asserted as long as its line is low, as those of PCI are.
const LOW_LEVEL: u8 = 0xf;
/// The number of the bus with PCI functions, and of the ISA bus if there is one with PCI functions.
const PCI_BUS: u8 = 0;
const ISA_BEHIND_PCI: u8 = 1;
/// The ISA line of the timer, which is connected to pin 2, and the line without a pin.
const TIMER: u8 = 0;
const CASCADE: u8 = 2;

/// The pointer and the table for this many CPUs, with their addresses. `functions` has the device number and the
/// IO-APIC's pin of each PCI function. Without one, the table lists no PCI bus.
pub fn pieces(cpus: u8, lapic: u64, ioapic: u64, functions: &[(u8, u8)]) -> [(u64, Vec<u8>); 2] {
    let isa = if functions.is_empty() { 0 } else { ISA_BEHIND_PCI };
    let mut entries = Vec::new();
    for cpu in 0..cpus {
        entries
            .push([&[PROCESSOR, cpu, LAPIC_VERSION, if cpu == 0 { USABLE | FIRST } else { USABLE }][..], &signature()].concat());
    }
    if !functions.is_empty() {
        entries.push([&[BUS, PCI_BUS][..], b"PCI   "].concat());
    }
    entries.push([&[BUS, isa][..], b"ISA   "].concat());
    entries.push([&[IOAPIC, cpus, IOAPIC_VERSION, 1][..], &(ioapic as u32).to_le_bytes()].concat());
    for line in (0..16).filter(|line| *line != CASCADE) {
        let pin = if line == TIMER { CASCADE } else { line };
        entries.push(vec![INTERRUPT, 0, 0, 0, isa, line, cpus, pin]);
    }
    for (device, pin) in functions {
        entries.push(vec![INTERRUPT, 0, LOW_LEVEL, 0, PCI_BUS, device << 2, cpus, *pin]);
    }
    entries.push(vec![LOCAL_INTERRUPT, EXTERNAL, 0, 0, isa, 0, 0, 0]);
    entries.push(vec![LOCAL_INTERRUPT, NON_MASKABLE, 0, 0, isa, 0, EVERY_LAPIC, 1]);

    let (count, entries) = (entries.len() as u16, entries.concat());
    let table = [
        b"PCMP",
        &((HEADER_BYTES + entries.len()) as u16).to_le_bytes()[..],
        &[SPECIFICATION_1_4, 0],
        b"TRAPLINE",
        b"PC          ",
        &[0; 6],
        &count.to_le_bytes(),
        &(lapic as u32).to_le_bytes(),
        &[0; 4],
        &entries,
    ];
    let pointer = [&b"_MP_"[..], &(TABLE as u32).to_le_bytes(), &[1, SPECIFICATION_1_4, 0, 0, 0, 0, 0, 0]];
    [(POINTER, summed(pointer.concat(), 10)), (TABLE, summed(table.concat(), 7))]
}

fn signature() -> Vec<u8> {
    [&SIGNATURE.to_le_bytes()[..], &FEATURES.to_le_bytes(), &[0; 8]].concat()
}

/// The bytes, with a checksum at this offset that makes their sum 0.
fn summed(mut bytes: Vec<u8>, at: usize) -> Vec<u8> {
    let sum = bytes.iter().fold(0u8, |sum, byte| sum.wrapping_sub(*byte));
    if let Some(checksum) = bytes.get_mut(at) {
        *checksum = sum;
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of entries of each type in a table, after a check of its checksums and lengths.
    fn kinds(pieces: &[(u64, Vec<u8>)]) -> [u16; 5] {
        let [(at, pointer), (table_at, table)] = pieces else { panic!("two pieces") };
        for bytes in [pointer, table] {
            assert_eq!(bytes.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte)), 0);
        }
        assert_eq!((at & 15, pointer.len(), &pointer[..4]), (0, 16, &b"_MP_"[..]));
        assert_eq!(u64::from(u32::from_le_bytes(pointer[4..8].try_into().expect("4 bytes"))), *table_at);
        assert_eq!(usize::from(u16::from_le_bytes([table[4], table[5]])), table.len());
        let (mut at, mut kinds) = (HEADER_BYTES, [0; 5]);
        while at < table.len() {
            kinds[usize::from(table[at])] += 1;
            at += if table[at] == PROCESSOR { 20 } else { 8 };
        }
        assert_eq!(at, table.len());
        assert_eq!(u16::from_le_bytes([table[34], table[35]]), kinds.iter().sum::<u16>(), "the number of entries");
        kinds
    }

    #[test]
    fn the_table_lists_cpus_and_lines_with_valid_checksums() {
        assert_eq!(kinds(&pieces(4, 0xfee0_0000, 0xfec0_0000, &[])), [4, 1, 1, 15, 2]);
    }

    /// DK-5: PCI functions have level-triggered pins of their own.
    #[test]
    fn the_table_lists_the_pins_of_pci_functions() {
        let pieces = pieces(2, 0xfee0_0000, 0xfec0_0000, &[(1, 16), (2, 17)]);
        assert_eq!(kinds(&pieces), [2, 2, 1, 17, 2]);
        let has = |entry: &[u8]| pieces[1].1.windows(entry.len()).any(|part| part == entry);
        assert!(has(b"\x01\x00PCI   \x01\x01ISA   "), "the PCI bus has number 0");
        assert!(has(&[INTERRUPT, 0, LOW_LEVEL, 0, 0, 2 << 2, 2, 17]));
        assert!(has(&[INTERRUPT, 0, 0, 0, 1, 4, 2, 4]), "the console's line is one of the ISA bus");
    }
}
