//! Tests of a virtqueue with rings that a driver has filled wrongly, and with random ones.

use super::super::testing::{AVAILABLE, BUFFERS, Driver, Ram, TABLE, USED};
use super::*;
use proptest::prelude::*;

/// A descriptor: address, length, flags, next.
type Described = (u64, u32, u16, u16);

/// A name, descriptors, the number of the first descriptor of the chain, and the number of buffers or the error.
type Case = (&'static str, &'static [Described], u16, Result<usize, Broken>);

fn queue() -> Queue {
    Queue { size: Driver::SIZE, is_ready: true, descriptors: TABLE, available: AVAILABLE, used: USED, ..Queue::new() }
}

fn describe(ram: &mut Ram, at: u64, (address, length, flags, next): Described) {
    let bytes = [&address.to_le_bytes()[..], &length.to_le_bytes(), &flags.to_le_bytes(), &next.to_le_bytes()].concat();
    ram.write(at, &bytes).expect("RAM");
}

/// A queue whose first available chain starts at `head`.
fn offered(descriptors: &[Described], head: u16) -> (Queue, Ram) {
    let mut ram = Ram::new(1 << 16);
    for (number, descriptor) in (0..).zip(descriptors) {
        describe(&mut ram, TABLE + 16 * number, *descriptor);
    }
    ram.write(AVAILABLE + 2, &1u16.to_le_bytes()).expect("RAM");
    ram.write(AVAILABLE + 4, &head.to_le_bytes()).expect("RAM");
    (queue(), ram)
}

/// DK-3
#[test]
fn rings_that_break_the_rules_are_refused() {
    #[rustfmt::skip]
    let cases: &[Case] = &[
        ("a chain of two",              &[(BUFFERS, 16, 1, 1), (BUFFERS, 16, 2, 0)],        0,  Ok(2)),
        ("the longest one",             &[(BUFFERS, 16, 1, 1), (BUFFERS, 16, 1, 2), (BUFFERS, 16, 1, 3), (BUFFERS, 16, 1, 4), (BUFFERS, 16, 1, 5), (BUFFERS, 16, 1, 6), (BUFFERS, 16, 1, 7), (BUFFERS, 16, 1, 8), (BUFFERS, 16, 1, 9), (BUFFERS, 16, 1, 10), (BUFFERS, 16, 1, 11), (BUFFERS, 16, 1, 12), (BUFFERS, 16, 1, 13), (BUFFERS, 16, 1, 14), (BUFFERS, 16, 1, 15), (BUFFERS, 16, 0, 0)], 0, Ok(16)),
        ("a head that is not there",    &[],                                                16, Err(Broken::Number(16))),
        ("a next that is not there",    &[(BUFFERS, 16, 1, 16)],                            0,  Err(Broken::Number(16))),
        ("a loop of one",               &[(BUFFERS, 16, 1, 0)],                             0,  Err(Broken::Loop)),
        ("a loop of two",               &[(BUFFERS, 16, 1, 1), (BUFFERS, 16, 1, 0)],        0,  Err(Broken::Loop)),
        ("the wrong order",             &[(BUFFERS, 16, 3, 1), (BUFFERS, 16, 0, 0)],        0,  Err(Broken::Order)),
        ("an empty table",              &[(BUFFERS, 0, 4, 0)],                              0,  Err(Broken::Indirect)),
        ("half a descriptor",           &[(BUFFERS, 24, 4, 0)],                             0,  Err(Broken::Indirect)),
        ("a table and more",            &[(BUFFERS, 16, 5, 1)],                             0,  Err(Broken::Indirect)),
        ("a table in itself",           &[(TABLE, 16, 4, 0)],                               0,  Err(Broken::Indirect)),
        ("a table outside of RAM",      &[(8, 16, 4, 0)],                                   0,  Err(Broken::Outside(Fault { address: 8, write: false }))),
        ("a table at the end",          &[(u64::MAX - 15, 32, 4, 0)],                       0,  Err(Broken::Outside(Fault { address: u64::MAX - 15, write: false }))),
        ("buffers are not looked at",   &[(0, u32::MAX, 0, 0)],                             0,  Ok(1)),
    ];
    for (what, descriptors, head, expected) in cases {
        let (mut queue, mut ram) = offered(descriptors, *head);
        let chain = queue.pop(&mut ram).map(|chain| chain.map_or(0, |chain| chain.readable.0.len() + chain.writable.0.len()));
        assert_eq!(chain, *expected, "{what}");
    }
}

/// DK-3
#[test]
fn an_indirect_table_is_one_chain() {
    let (mut queue, mut ram) = offered(&[(BUFFERS, 48, 4, 0)], 0);
    for (number, descriptor) in [(0, (1, 2, 1, 2)), (2, (3, 4, 3, 1)), (1, (5, 6, 2, 9))] {
        describe(&mut ram, BUFFERS + 16 * number, descriptor);
    }
    let chain = queue.pop(&mut ram).expect("a sound ring").expect("a chain");
    assert_eq!((chain.readable.bytes(), chain.writable.bytes()), (2, 10));
    assert_eq!(queue.pop(&mut ram), Ok(None));
}

/// DK-3
#[test]
fn an_available_index_that_jumps_is_refused() {
    for (index, expected) in
        [(0, Ok(false)), (16, Ok(true)), (17, Err(Broken::Overrun(17, 16))), (0xffff, Err(Broken::Overrun(0xffff, 16)))]
    {
        let (mut queue, mut ram) = offered(&[(BUFFERS, 1, 0, 0)], 0);
        ram.write(AVAILABLE + 2, &(index as u16).to_le_bytes()).expect("RAM");
        assert_eq!(queue.pop(&mut ram).map(|chain| chain.is_some()), expected, "{index}");
    }
}

/// DK-3
#[test]
fn pieces_are_read_and_written_as_one_buffer() {
    let mut ram = Ram::new(1 << 16);
    let pieces = |pieces: &[(u64, u32)]| {
        Pieces(pieces.iter().map(|(address, length)| Piece { address: *address, length: *length }).collect())
    };
    let two = pieces(&[(BUFFERS, 3), (BUFFERS + 0x100, 0), (BUFFERS + 8, 4)]);
    two.write(&mut ram, 1, b"bcdefg").expect("they fit");
    let mut read = [0; 5];
    two.read(&mut ram, 2, &mut read).expect("they fit");
    assert_eq!(&read, b"cdefg");
    assert!(two.read(&mut ram, 3, &mut read).is_err(), "too short");
    let mut far = [0; 12];
    ram.read(BUFFERS, &mut far).expect("RAM");
    assert_eq!(&far, b"\0bc\0\0\0\0\0defg");
    let huge = pieces(&[(BUFFERS, u32::MAX), (BUFFERS, u32::MAX)]);
    assert_eq!(huge.bytes(), 2 * u64::from(u32::MAX));
    assert!(huge.write(&mut ram, u64::from(u32::MAX), b"x").is_ok() && huge.write(&mut ram, 1 << 31, b"x").is_err());
    assert!(pieces(&[(u64::MAX, 8)]).read(&mut ram, 4, &mut read[..4]).is_err());
}

proptest! {
    /// Any contents of the rings give chains or an error, in bounded time.
    #[test]
    fn any_ring_is_popped_without_a_panic(
        words in proptest::collection::vec(any::<u16>(), 0x1800),
        addresses in proptest::collection::vec((0u64..0x3000, 0u16..16), 16),
        index in any::<u16>(),
    ) {
        let mut ram = Ram::new(1 << 14);
        let bytes: Vec<u8> = words.iter().flat_map(|word| (word & 0x111f).to_le_bytes()).collect();
        ram.write(Ram::BASE, &bytes).expect("RAM");
        for (number, (address, length)) in (0..).zip(addresses) {
            describe(&mut ram, TABLE + 16 * number, (Ram::BASE + address, u32::from(length) * 16, index >> number & 7, length));
        }
        ram.write(AVAILABLE + 2, &(index % 20).to_le_bytes()).expect("RAM");
        let mut queue = queue();
        let mut popped = 0;
        while let Ok(Some(chain)) = queue.pop(&mut ram) {
            prop_assert!(chain.readable.0.len() + chain.writable.0.len() <= usize::from(Driver::SIZE));
            let _ = queue.push(&mut ram, &chain, 0);
            popped += 1;
            prop_assert!(popped <= 16, "no more than the index says");
        }
    }
}
