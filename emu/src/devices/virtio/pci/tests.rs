use super::super::Attached;
use super::super::blk::Disk;
use super::super::testing::{AVAILABLE, BUFFERS, Pattern, Ram, TABLE, USED};
use super::*;
use proptest::prelude::*;
use std::sync::Arc;

const FIRST: u32 = 0xfe00_0000;

fn bus() -> PciBus {
    let mut bus = PciBus::default();
    for number in 0..2 {
        let disk = Disk { base: Arc::new(Pattern(1 << 20)), read_only: number == 1 };
        let firmware = Firmware { base: FIRST + number * BYTES, line: 9 + number as u8 };
        bus.attach(Virtio::new(&Attached::Disk(disk)), firmware).expect("room");
    }
    bus
}

/// The regions that a driver finds by the list of capabilities: kind, offset, length.
fn regions(bus: &PciBus, device: usize) -> Vec<(u32, u32, u32)> {
    let read = |offset: u32, size: u32| bus.read_configuration(device, offset as u8, size).expect("a device");
    let (mut at, mut found) = (read(0x34, 1), Vec::new());
    while at != 0 {
        assert_eq!((read(at, 1), read(at + 4, 4)), (9, 0), "a capability of the vendor, in the first region");
        found.push((read(at + 3, 1), read(at + 8, 4), read(at + 12, 4)));
        at = read(at + 1, 1);
    }
    found
}

/// DK-1
#[test]
fn a_driver_finds_the_bus_and_its_functions() {
    let mut bus = bus();
    bus.select(0x8000_0000);
    assert_eq!((bus.address(), bus.read_selected(0, 4), bus.read_selected(2, 2)), (0x8000_0000, 0x0008_1b36, 8));
    bus.select(0x8000_0008);
    assert_eq!(bus.read_selected(2, 2), 0x0600, "the class of a bridge");
    for address in [0x0000_0000, 0x8000_1800, 0x8000_0900, 0x8001_0000] {
        bus.select(address);
        assert_eq!((bus.read_selected(0, 4), bus.read_selected(1, 1)), (u32::MAX, 0xff), "{address:#x}");
    }
    bus.select(0x8000_083c);
    assert_eq!(bus.read_selected(0, 2), 0x0109, "line 9 by pin A");
    assert_eq!(regions(&bus, 1), [(1, 0, 0x38), (3, 0x1000, 4), (4, 0x2000, 0x1000), (2, 0x3000, 0x1000)]);
    let last = CAPABILITIES + 4 * CAPABILITY_BYTES;
    assert_eq!(bus.read_configuration(1, last, 4), Some(NOTIFY_MULTIPLIER));
}

/// DK-1
#[test]
fn a_base_address_is_sized_and_moved() {
    let mut bus = bus();
    bus.write_configuration(1, BASE, 4, u32::MAX);
    assert_eq!(bus.read_configuration(1, BASE, 4), Some(!(BYTES - 1)));
    bus.write_configuration(1, BASE, 4, 0xe000_0000);
    assert_eq!((bus.read(FIRST.into(), 4), bus.read(0xe000_0012, 2)), (None, Some(1)));
    bus.write_configuration(1, COMMAND, 2, 0);
    assert_eq!(bus.read(0xe000_0012, 2), None, "it does not decode");
    assert_eq!(bus.read((FIRST + BYTES + 0x12).into(), 2), Some(1), "the other one does");
}

/// DK-1
#[test]
fn a_request_interrupts_by_the_line_until_its_cause_is_read() {
    let (mut bus, mut ram) = (bus(), Ram::new(1 << 16));
    let at = |offset: u32| u64::from(FIRST + offset);
    let up: &[(u32, u64)] = &[
        (0x14, 0),
        (0x14, 3),
        (0x08, 1),
        (0x0c, 1),
        (0x14, 11),
        (0x16, 0),
        (0x18, 16),
        (0x20, TABLE),
        (0x28, AVAILABLE),
        (0x30, USED),
        (0x1c, 1),
        (0x14, 15),
    ];
    for (offset, value) in up {
        bus.write(at(*offset), *value, 0);
    }
    assert_eq!((bus.read(at(0x14), 1), bus.read(at(0x18), 2), bus.read(at(0x1c), 2)), (Some(15), Some(16), Some(1)));
    assert_eq!(bus.read(at(CONFIGURATION), 8), Some((1 << 20) / 512));
    let mut header = [0; 16];
    header[0] = 4;
    let descriptor = |address: u64, length: u32, flags: u16, next: u16| {
        [&address.to_le_bytes()[..], &length.to_le_bytes(), &flags.to_le_bytes(), &next.to_le_bytes()].concat()
    };
    ram.write(BUFFERS, &header).expect("RAM");
    ram.write(TABLE, &[descriptor(BUFFERS, 16, 1, 1), descriptor(BUFFERS + 16, 1, 2, 0)].concat()).expect("RAM");
    ram.write(AVAILABLE + 2, &1u16.to_le_bytes()).expect("RAM");
    bus.write(at(NOTIFY), 0, 0);
    let due = bus.next().expect("a request");
    bus.serve(due, &mut ram);
    assert_eq!(bus.lines().collect::<Vec<bool>>(), [true, false]);
    bus.write_configuration(1, COMMAND, 2, u32::from(COMMAND_BITS));
    assert_eq!(bus.lines().collect::<Vec<bool>>(), [false, false], "the command register masks it");
    bus.write_configuration(1, COMMAND, 2, COMMAND_MEMORY.into());
    assert_eq!((bus.read(at(CAUSES), 1), bus.read(at(CAUSES), 1)), (Some(1), Some(0)));
    assert_eq!(bus.lines().collect::<Vec<bool>>(), [false, false]);
}

proptest! {
    /// DK-3
    #[test]
    fn bad_register_traffic_never_panics(accesses in proptest::collection::vec((0u8..6, any::<u32>(), 0u32..9, any::<u32>()), 0..200)) {
        let (mut bus, mut ram) = (bus(), Ram::new(1 << 16));
        for (what, place, size, value) in accesses {
            match what {
                0 => bus.select(place),
                1 => { bus.read_selected(place as u8, size); }
                2 => bus.write_selected(place as u8, size, value),
                3 => bus.write(u64::from(FIRST + place % (2 * BYTES)), value.into(), place.into()),
                4 => { bus.read(u64::from(FIRST + place % (2 * BYTES)), size); }
                _ => bus.serve(value.into(), &mut ram),
            }
            prop_assert!(bus.is_sound(u64::MAX));
            prop_assert_eq!(bus.lines().count(), 2);
        }
    }
}
