//! Tests of the state that all transports share, with a block device behind virtio-mmio. Register numbers are those of
//! virtio-mmio: 0x44 QueueReady, 0x50 QueueNotify, 0x60 InterruptStatus, 0x64 InterruptACK, 0x70 Status.

use super::super::blk::Disk;
use super::super::testing::{AVAILABLE, Buffer, Driver, Pattern};
use super::*;
use std::sync::Arc;
use trapline_isa::mem::Memory;

fn device() -> Virtio {
    Virtio::new(&Attached::Disk(Disk { base: Arc::new(Pattern(1 << 20)), read_only: false }))
}

/// The header of a flush request (VIRTIO_BLK_T_FLUSH).
fn flush() -> [u8; 16] {
    let mut header = [0; 16];
    header[0] = 4;
    header
}

/// DK-1: the completion raises the interrupt line, and an acknowledgement lowers it.
#[test]
fn a_request_completes_after_a_fixed_virtual_time() {
    let mut driver = Driver::new(device());
    driver.now = 1000;
    let status = driver.request(&[Buffer::Given(&flush()), Buffer::Room(1)]);
    assert_eq!((status, driver.returned(), driver.now), (vec![0], (1, 1), 1000 + ticks(LATENCY_NANOSECONDS)));
    assert!(driver.device.line());
    driver.set(0x64, 1);
    assert!(!driver.device.line());
}

/// DK-1: a driver polls if it sets VIRTQ_AVAIL_F_NO_INTERRUPT in the available ring.
#[test]
fn no_interrupt_comes_to_a_driver_that_polls() {
    let mut driver = Driver::new(device());
    driver.ram.write(AVAILABLE, &1u16.to_le_bytes()).expect("RAM");
    driver.request(&[Buffer::Given(&flush()), Buffer::Room(1)]);
    assert_eq!((driver.returned().0, driver.device.line()), (1, false));
}

/// DK-1: the status then lacks FEATURES_OK. Bit 32 is VIRTIO_F_VERSION_1, which the driver must accept.
#[test]
fn features_that_the_device_does_not_have_are_refused() {
    #[rustfmt::skip]
    let cases = [
        // low      high    agrees
        (0,         1,      true),
        (1 << 28,   1,      true),
        (1 << 9,    1,      true),
        (0,         0,      false),     // a driver of the legacy interface
        (1 << 31,   1,      false),
        (0,         3,      false),
    ];
    for (low, high, agrees) in cases {
        let mut device = device();
        for (half, bits) in [(0, low), (1, high)] {
            device.select_accepted(half);
            device.accept(bits);
        }
        // ACKNOWLEDGE, DRIVER and FEATURES_OK.
        device.set_status(11);
        assert_eq!(device.status() & FEATURES_OK != 0, agrees, "{high:#x} {low:#x}");
    }
}

/// DK-3: a descriptor that names itself as the next one makes an endless chain, which breaks the ring.
#[test]
fn a_broken_ring_stops_the_device_until_a_reset() {
    let mut driver = Driver::new(device());
    driver.describe(0, 0, 16, 1, 0);
    driver.offer(0);
    driver.kick();
    // All status bits of a running driver and DEVICE_NEEDS_RESET; the cause of the interrupt is a configuration change.
    assert_eq!((driver.get(0x70), driver.get(0x60)), (15 | 64, 2), "it wants a reset");
    driver.kick();
    assert_eq!((driver.device.next(), driver.returned().0), (None, 0));
    driver.set(0x70, 0);
    assert_eq!((driver.get(0x70), driver.get(0x60), driver.get(0x44)), (0, 0, 0));
    let mut again = Driver::new(driver.device);
    assert_eq!(again.request(&[Buffer::Given(&flush()), Buffer::Room(1)]), [0]);
}

/// DK-3: the queue is not ready yet, or does not exist.
#[test]
fn a_device_that_is_not_up_ignores_notifications() {
    let mut device = device();
    device.notify(0, 5);
    device.notify(7, 5);
    assert_eq!(device.next(), None);
    device.serve(u64::MAX, &mut super::super::testing::Ram::new(0));
}

/// DK-4: the written sector is part of the snapshot, and the snapshot refuses a disk with other contents.
#[test]
fn a_saved_device_continues_with_its_disk() {
    let mut driver = Driver::new(device());
    // VIRTIO_BLK_T_OUT to sector 3.
    let mut write = vec![0; 16];
    (write[0], write[8]) = (1, 3);
    write.extend([7; 512]);
    driver.request(&[Buffer::Given(&write), Buffer::Room(1)]);
    driver.set(0x50, 0);
    let saved = serde_json::to_value(&driver.device).expect("JSON");
    let mut restored: Virtio = serde_json::from_value(saved.clone()).expect("a device");
    assert!(restored.is_sound(u64::MAX));
    let other = Virtio::new(&Attached::Disk(Disk { base: Arc::new(Pattern(1 << 21)), read_only: false }));
    assert!(restored.adopt(&other).is_err_and(|why| why == AttachError::Contents));
    restored.adopt(&device()).expect("the same disk");
    assert_eq!(serde_json::to_value(&restored).expect("JSON"), saved);
    driver.device = restored;
    // VIRTIO_BLK_T_IN of sectors 2 and 3.
    let mut read = vec![0; 16];
    read[8] = 2;
    let bytes = driver.request(&[Buffer::Given(&read), Buffer::Room(1024), Buffer::Room(1)]);
    assert_eq!((bytes[511], bytes[512], bytes[1023], bytes[1024]), (Pattern::byte(1535), 7, 7, 0));
}
