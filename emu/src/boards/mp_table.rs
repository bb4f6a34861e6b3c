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
/// The ISA line of the timer, which is connected to pin 2, and the line without a pin.
const TIMER: u8 = 0;
const CASCADE: u8 = 2;

/// The pointer and the table for this many CPUs, with their addresses.
pub fn pieces(cpus: u8, lapic: u64, ioapic: u64) -> [(u64, Vec<u8>); 2] {
    let mut entries = Vec::new();
    for cpu in 0..cpus {
        entries
            .push([&[PROCESSOR, cpu, LAPIC_VERSION, if cpu == 0 { USABLE | FIRST } else { USABLE }][..], &signature()].concat());
    }
    entries.push([&[BUS, 0][..], b"ISA   "].concat());
    entries.push([&[IOAPIC, cpus, IOAPIC_VERSION, 1][..], &(ioapic as u32).to_le_bytes()].concat());
    for line in (0..16).filter(|line| *line != CASCADE) {
        let pin = if line == TIMER { CASCADE } else { line };
        entries.push(vec![INTERRUPT, 0, 0, 0, 0, line, cpus, pin]);
    }
    entries.push(vec![LOCAL_INTERRUPT, EXTERNAL, 0, 0, 0, 0, 0, 0]);
    entries.push(vec![LOCAL_INTERRUPT, NON_MASKABLE, 0, 0, 0, 0, EVERY_LAPIC, 1]);

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

    #[test]
    fn the_table_lists_cpus_and_lines_with_valid_checksums() {
        let pieces = pieces(4, 0xfee0_0000, 0xfec0_0000);
        for (_, bytes) in &pieces {
            assert_eq!(bytes.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte)), 0);
        }
        let [(at, pointer), (table_at, table)] = &pieces;
        assert_eq!((at & 15, pointer.len(), &pointer[..4]), (0, 16, &b"_MP_"[..]));
        assert_eq!(u64::from(u32::from_le_bytes(pointer[4..8].try_into().expect("4 bytes"))), *table_at);
        assert_eq!(usize::from(u16::from_le_bytes([table[4], table[5]])), table.len());
        let (mut at, mut kinds) = (HEADER_BYTES, [0; 5]);
        while at < table.len() {
            kinds[usize::from(table[at])] += 1;
            at += if table[at] == PROCESSOR { 20 } else { 8 };
        }
        assert_eq!((at, kinds), (table.len(), [4, 1, 1, 15, 2]));
        assert_eq!(u16::from_le_bytes([table[34], table[35]]), 23, "the number of entries");
    }
}
