use super::super::testing::{BUFFERS, Buffer, Driver, Pattern};
use super::super::{Attached, Virtio};
use super::*;
use proptest::prelude::*;

const SECTORS: u64 = 100;

fn disk(read_only: bool) -> Driver {
    Driver::new(Virtio::new(&Attached::Disk(Disk { base: Arc::new(Pattern(SECTORS * SECTOR)), read_only })))
}

fn header(kind: u32, sector: u64) -> Vec<u8> {
    [&kind.to_le_bytes()[..], &[0; 4], &sector.to_le_bytes()].concat()
}

fn read(driver: &mut Driver, sector: u64, bytes: usize) -> (Vec<u8>, u8) {
    let mut answer = driver.request(&[Buffer::Given(&header(READ, sector)), Buffer::Room(bytes), Buffer::Room(1)]);
    let status = answer.pop().expect("a status");
    (answer, status)
}

fn write(driver: &mut Driver, sector: u64, bytes: &[u8]) -> u8 {
    driver.request(&[Buffer::Given(&header(WRITE, sector)), Buffer::Given(bytes), Buffer::Room(1)])[0]
}

/// DK-1
#[test]
fn the_configuration_says_how_large_the_disk_is() {
    for (bytes, sectors) in [(0, 0), (1, 1), (512, 1), (51_200, 100)] {
        let disk = Disk { base: Arc::new(Pattern(bytes)), read_only: false };
        let device = Virtio::new(&Attached::Disk(disk));
        assert_eq!((device.configuration(0, 8), device.configuration(20, 4)), (sectors, 512));
        assert_eq!((device.configuration(4, 4), device.configuration(60, 4), device.configuration(u64::MAX, 8)), (0, 0, 0));
    }
}

/// DK-2
#[test]
fn written_blocks_are_read_and_others_come_from_the_base() {
    let mut driver = disk(false);
    let base = |from: u64, bytes: u64| (from..from + bytes).map(Pattern::byte).collect::<Vec<u8>>();
    assert_eq!(read(&mut driver, 7, 1024), (base(7 * 512, 1024), 0));
    assert_eq!(write(&mut driver, 8, &[0x5a; 512]), 0);
    let expected = [base(7 * 512, 512), vec![0x5a; 512], base(9 * 512, 512)].concat();
    assert_eq!(read(&mut driver, 7, 1536), (expected, 0));
}

/// DK-3
#[test]
fn requests_outside_of_the_disk_fail() {
    let mut driver = disk(false);
    #[rustfmt::skip]
    let cases = [
        ("the last sector",     99,             512,    0),
        ("one behind it",       100,            512,    1),
        ("across the end",      99,             1024,   1),
        ("the highest number",  u64::MAX,       512,    1),
        ("half a sector",       0,              256,    1),
        ("nothing",             0,              0,      0),
    ];
    for (what, sector, bytes, status) in cases {
        assert_eq!(read(&mut driver, sector, bytes).1, status, "read {what}");
        assert_eq!(write(&mut driver, sector, &vec![1; bytes]), status, "write {what}");
    }
}

/// DK-3
#[test]
fn lengths_of_four_gib_fail_without_being_allocated() {
    let mut driver = disk(false);
    driver.ram.write(BUFFERS, &header(READ, 0)).expect("RAM");
    driver.describe(0, BUFFERS, 16, 1, 1);
    driver.describe(1, BUFFERS, u32::MAX, 3, 2);
    driver.describe(2, BUFFERS + 32, 1, 2, 0);
    driver.offer(0);
    driver.kick();
    let mut status = [9];
    driver.ram.read(BUFFERS + 32, &mut status).expect("RAM");
    assert_eq!((status, driver.returned().0), ([1], 1));
}

/// DK-2
#[test]
fn a_read_only_disk_refuses_writes() {
    let mut driver = disk(true);
    assert_eq!(write(&mut driver, 1, &[1; 512]), 1);
    assert_eq!(read(&mut driver, 1, 512).0[0], Pattern::byte(512));
    assert_ne!(driver.device.offered() & READ_ONLY as u32, 0);
}

/// DK-1
#[test]
fn other_requests_are_answered() {
    let mut driver = disk(false);
    let mut ask = |kind, room| driver.request(&[Buffer::Given(&header(kind, 0)), Buffer::Room(room)]);
    assert_eq!(ask(FLUSH, 1), [0]);
    assert_eq!(ask(IDENTIFY, 21), *b"trapline\0\0\0\0\0\0\0\0\0\0\0\0\0");
    assert_eq!(ask(11, 1), [2]);
    assert_eq!(driver.request(&[Buffer::Given(&[0; 3]), Buffer::Room(1)]), [1], "half a header");
    driver.request(&[Buffer::Given(&header(FLUSH, 0))]);
    assert_eq!(driver.returned(), (5, 0), "no room for a status");
}

proptest! {
    /// A disk equals an array, for any reads and writes.
    #[test]
    fn a_disk_is_an_array(accesses in proptest::collection::vec((any::<bool>(), 0..SECTORS, 1usize..20, any::<u8>()), 1..60)) {
        let mut driver = disk(false);
        let mut array: Vec<u8> = (0..SECTORS * SECTOR).map(Pattern::byte).collect();
        for (is_write, sector, sectors, byte) in accesses {
            let (from, bytes) = ((sector * SECTOR) as usize, sectors * SECTOR as usize);
            let inside = from + bytes <= array.len();
            if is_write {
                let data: Vec<u8> = (0..bytes).map(|at| byte ^ (at / 3) as u8).collect();
                prop_assert_eq!(write(&mut driver, sector, &data) == 0, inside);
                if inside {
                    array[from..from + bytes].copy_from_slice(&data);
                }
            } else {
                let (data, status) = read(&mut driver, sector, bytes);
                prop_assert_eq!(status == 0, inside);
                prop_assert!(!inside || data == array[from..from + bytes]);
            }
        }
        let saved = serde_json::to_string(&driver.device).expect("JSON");
        let mut restored: Virtio = serde_json::from_str(&saved).expect("a device");
        restored.adopt(&driver.device).expect("the same");
        driver.device = restored;
        let whole = read(&mut driver, 0, array.len());
        prop_assert!(whole == (array, 0));
    }
}
