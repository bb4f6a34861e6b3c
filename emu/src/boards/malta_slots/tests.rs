use super::super::malta::Malta;
use super::super::{At, Board, Bus};
use crate::devices::virtio::blk::Disk;
use crate::devices::virtio::testing::{AVAILABLE, BUFFERS, Pattern, Ram, TABLE, USED};
use crate::snapshot::LAST_TIME;
use proptest::prelude::*;
use std::sync::Arc;
use trapline_isa::mem::{ByteOrder, Memory};

use super::*;

const PORTS: u64 = 0x1800_0000;
const BRIDGE: u64 = 0x1be0_0000;
const CONFIG_ADDRESS: u64 = BRIDGE + 0xcf8;
const CONFIG_DATA: u64 = BRIDGE + 0xcfc;
const ACKNOWLEDGE: u64 = BRIDGE + 0xc34;
const CAUSE: u64 = BRIDGE + 0xc18;
const NOW: At = At { cpu: 0, now: 0 };

fn disk(number: u32) -> Attached {
    Attached::Disk(Disk { base: Arc::new(Pattern(1 << 20)), read_only: number % 2 == 1 })
}

fn board(order: ByteOrder, devices: u32) -> Malta {
    let mut board = Malta::new(order);
    (0..devices).for_each(|number| board.attach(&disk(number)).expect("room"));
    board
}

fn address(device: u32, function: u32, register: u32) -> u64 {
    (1 << 31 | device << 11 | function << 8 | register).into()
}

/// A read of configuration space by a little-endian CPU. `None` if no device has answered.
fn config(board: &mut Malta, device: u32, function: u32, register: u32) -> Option<u32> {
    board.write(NOW, Bus::Memory, CAUSE, 4, 0);
    board.write(NOW, Bus::Memory, CONFIG_ADDRESS, 4, address(device, function, register));
    let value = board.read(NOW, Bus::Memory, CONFIG_DATA, 4) as u32;
    (board.read(NOW, Bus::Memory, CAUSE, 4) == 0).then_some(value)
}

fn set_config(board: &mut Malta, device: u32, register: u32, value: u32) {
    board.write(NOW, Bus::Memory, CONFIG_ADDRESS, 4, address(device, 0, register));
    board.write(NOW, Bus::Memory, CONFIG_DATA, 4, value.into());
}

/// The addresses at which devices answer: device and function.
fn answering(board: &mut Malta) -> Vec<(u32, u32)> {
    let all = (0..31).flat_map(|device| (0..8).map(move |function| (device, function)));
    all.filter(|(device, function)| *device > 0 && config(board, *device, *function, 0).is_some()).collect()
}

/// DK-1
#[test]
fn devices_fill_the_slots_and_then_the_last_one() {
    assert_eq!(answering(&mut board(ByteOrder::Little, 0)), [(10, 0), (10, 3)]);
    let mut some = board(ByteOrder::Little, 5);
    assert_eq!(answering(&mut some), [(10, 0), (10, 3), (18, 0), (19, 0), (20, 0), (21, 0), (21, 1)]);
    let header = |board: &mut Malta, device| config(board, device, 0, HEADER.into());
    assert_eq!((header(&mut some, 21), header(&mut some, 20)), (Some(SEVERAL_FUNCTIONS), Some(0)));
    assert_eq!(config(&mut some, 18, 0, 0), Some(0x1042_1af4));
    let lines: Vec<_> = (18..22).map(|device| config(&mut some, device, 0, 0x3c).map(|word| word & 0xffff)).collect();
    assert_eq!(lines, [0x10a, 0x10b, 0x109, 0x105].map(Some), "pin A");
    assert_eq!(config(&mut some, 10, 0, 0x60), Some(0x0509_0b0a), "the routes, as the slots' lines");
    (5..8).for_each(|number| some.attach(&disk(number)).expect("room"));
    assert_eq!(some.attach(&disk(8)), Err(AttachError::TooMany));
    some.write(NOW, Bus::Memory, CONFIG_ADDRESS, 4, address(18, 0, 0) | 1 << 16);
    assert_eq!(some.read(NOW, Bus::Memory, CONFIG_DATA, 4), u64::from(u32::MAX), "another bus");
}

/// DK-1
#[test]
fn without_devices_nothing_is_routed_and_nothing_decodes() {
    let mut board = board(ByteOrder::Little, 0);
    assert_eq!(config(&mut board, 10, 0, 0x60), Some(0));
    let mut read = |address, size| board.read(NOW, Bus::Memory, address, size);
    assert_eq!((read(PORTS + 0x4d0, 1), read(PORTS + 0x4d1, 1), read(0x1000_0000, 4)), (0xff, 0xff, u32::MAX.into()));
    board.write(NOW, Bus::Memory, PORTS + 0x4d1, 1, 0xff);
    let state = board.save().expect("a state");
    assert!(
        state.get("slots").is_none() && !state.to_string().contains("level_triggered"),
        "as before there were slots: {state}"
    );
}

/// DK-1
#[test]
fn a_base_address_moves_in_the_windows_of_the_bridge() {
    let mut board = board(ByteOrder::Little, 1);
    let queues = |board: &mut Malta, at: u64| board.read(NOW, Bus::Memory, at + 0x12, 2);
    assert_eq!(queues(&mut board, MEMORY.into()), 1);
    set_config(&mut board, 18, 0x10, u32::MAX);
    assert_eq!(config(&mut board, 18, 0, 0x10), Some(!(pci::BYTES - 1)));
    set_config(&mut board, 18, 0x10, 0x1234_4000);
    assert_eq!((queues(&mut board, MEMORY.into()), queues(&mut board, 0x1234_4000)), (0xffff, 1));
    board.write(NOW, Bus::Memory, BRIDGE + 0xf8, 4, 0x180);
    assert_eq!(queues(&mut board, 0x1234_4000), 0xffff, "the window leads to PCI memory from 0x3000_0000 on");
    set_config(&mut board, 18, 0x10, 0x3234_4000);
    assert_eq!(queues(&mut board, 0x1234_4000), 1);
    set_config(&mut board, 18, 4, 0);
    assert_eq!(queues(&mut board, 0x1234_4000), 0xffff, "its decoder is off");
}

/// The device's registers are little-endian, so a big-endian CPU reads swapped values.
#[test]
fn registers_keep_their_byte_order() {
    let mut board = board(ByteOrder::Big, 1);
    assert_eq!(board.read(NOW, Bus::Memory, u64::from(MEMORY) + 0x12, 2), 0x0100);
    board.write(NOW, Bus::Memory, u64::from(MEMORY) + 8, 4, 0x0100_0000);
    assert_eq!(board.read(NOW, Bus::Memory, u64::from(MEMORY) + 8, 4), 0x0100_0000);
    board.write(NOW, Bus::Memory, CONFIG_ADDRESS, 4, address(18, 0, 0).swap_bytes() >> 32);
    assert_eq!(board.read(NOW, Bus::Memory, CONFIG_DATA, 4), 0x1042_1af4, "configuration data is not swapped");
}

/// The driver's initialisation of a disk's queue, by register offset and value.
const UP: &[(u64, u64)] = &[
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

/// Brings the device at this address up, and makes a request that is due at the returned time.
fn request(board: &mut Malta, ram: &mut Ram, base: u64) -> Ticks {
    UP.iter().for_each(|(offset, value)| board.write(NOW, Bus::Memory, base + offset, 4, *value));
    let descriptor = |address: u64, length: u32, flags: u16, next: u16| {
        [&address.to_le_bytes()[..], &length.to_le_bytes(), &flags.to_le_bytes(), &next.to_le_bytes()].concat()
    };
    let identify = [4u32.to_le_bytes(); 4].concat();
    ram.write(BUFFERS, &identify).expect("RAM");
    ram.write(TABLE, &[descriptor(BUFFERS, 16, 1, 1), descriptor(BUFFERS + 16, 1, 2, 0)].concat()).expect("RAM");
    ram.write(AVAILABLE + 2, &1u16.to_le_bytes()).expect("RAM");
    board.write(NOW, Bus::Memory, base + 0x3000, 2, 0);
    board.next_service().expect("a request")
}

/// DK-1: a request interrupts by the slot's line as long as a cause is there, and two devices share a line.
#[test]
fn interrupts_are_routed_and_shared() {
    const CONTROLLERS: &[(u64, u64)] =
        &[(0x20, 0x11), (0x21, 0), (0x21, 4), (0x21, 1), (0xa0, 0x11), (0xa1, 8), (0xa1, 2), (0xa1, 1), (0x21, 0), (0xa1, 0)];
    let mut board = board(ByteOrder::Little, 5);
    let port = |board: &mut Malta, (port, value): (u64, u64)| board.write(NOW, Bus::Memory, PORTS + port, 1, value);
    CONTROLLERS.iter().for_each(|write| port(&mut board, *write));
    let levels = [0x4d0, 0x4d1].map(|port| board.read(NOW, Bus::Memory, PORTS + port, 1));
    assert_eq!(levels, [0x20, 0x0e]);
    let bases = [3, 4].map(|number| u64::from(MEMORY + number * pci::BYTES));
    for base in bases {
        let mut ram = Ram::new(1 << 16);
        let due = request(&mut board, &mut ram, base);
        assert_eq!(board.next_event(0), Some(due));
        board.serve(At { cpu: 0, now: due }, &mut ram);
    }
    let mut causes = Vec::new();
    for base in bases {
        assert!(board.pending(0).is_some());
        assert_eq!(board.read(NOW, Bus::Memory, ACKNOWLEDGE, 4), 5);
        causes.push(board.read(NOW, Bus::Memory, base + 0x1000, 1));
        port(&mut board, (0x20, 0x65));
    }
    assert_eq!((causes, board.pending(0)), (vec![1, 1], None), "both have been heard on one line");

    set_config(&mut board, 10, 0x60, 0x0b00_0000);
    let mut ram = Ram::new(1 << 16);
    let due = request(&mut board, &mut ram, bases[0]);
    board.serve(At { cpu: 0, now: due }, &mut ram);
    assert_eq!(board.read(NOW, Bus::Memory, ACKNOWLEDGE, 4), 11, "the guest has routed it anew");
    set_config(&mut board, 10, 0x60, 0x8000_0000);
    [(0xa0, 0x63), (0x20, 0x62)].into_iter().for_each(|end| port(&mut board, end));
    assert_eq!(board.pending(0), None, "and switched it off");
}

/// DK-4
#[test]
fn a_state_holds_the_devices() {
    let mut one = board(ByteOrder::Little, 2);
    let mut ram = Ram::new(1 << 16);
    let due = request(&mut one, &mut ram, MEMORY.into());
    let state = one.save().expect("a state");
    let mut other = board(ByteOrder::Little, 2);
    other.load(&state).expect("the same devices");
    assert_eq!((other.next_service(), other.save()), (Some(due), Ok(state.clone())));
    for devices in [0, 1, 3] {
        let refused = board(ByteOrder::Little, devices).load(&state).expect_err("other devices");
        assert!(refused.contains("virtio devices"), "{refused}");
    }
}

proptest! {
    /// DK-3: no access makes the board panic, and its state can be saved and restored.
    #[test]
    fn bad_register_traffic_never_panics(accesses in proptest::collection::vec((0u8..8, any::<u16>(), 0u32..9, any::<u32>(), any::<u16>()), 0..300)) {
        const PLACES: &[u64] = &[CONFIG_ADDRESS, CONFIG_DATA, CAUSE, ACKNOWLEDGE, BRIDGE + 0x58, BRIDGE + 0x60, BRIDGE + 0xf8, PORTS + 0x4d0, PORTS + 0x4d1, PORTS + 0x20, PORTS + 0xa0, PORTS + 0xa1];
        let (mut board, mut ram) = (board(ByteOrder::Little, 5), Ram::new(1 << 16));
        request(&mut board, &mut ram, MEMORY.into());
        let mut now = 0u64;
        for (what, place, size, value, later) in accesses {
            now += u64::from(later);
            let at = At { cpu: 0, now };
            let address = match place % 4 {
                0 => u64::from(MEMORY) + u64::from(place) * 4,
                _ => PLACES[usize::from(place) % PLACES.len()],
            };
            board.advance(at);
            match what {
                0..2 => board.write(at, Bus::Memory, address, size, value.into()),
                2 => {
                    let register = u64::from(value) & 0xfc;
                    let device = 18 + u32::from(place) % 4;
                    board.write(at, Bus::Memory, CONFIG_ADDRESS, 4, self::address(device, 0, 0) | register);
                }
                3..5 => { board.read(at, Bus::Memory, address, size); }
                5 => board.serve(at, &mut ram),
                6 => board.write(at, Bus::Memory, u64::from(MEMORY) + 0x3000, 2, value.into()),
                _ => prop_assert_eq!(board.pending(0).is_some(), board.acknowledge(0).is_some()),
            }
            prop_assert!(board.next_service().is_none_or(|next| next < LAST_TIME));
        }
        let state = board.save().expect("it can be saved");
        let mut restored = self::board(ByteOrder::Little, 5);
        restored.load(&state).expect("it can be restored");
        prop_assert_eq!(restored.save().expect("again"), state);
    }
}
