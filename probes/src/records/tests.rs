//! The ring keeps records whole and in order, and counts those that it drops.

use super::*;
use alloc::collections::VecDeque;
use proptest::prelude::*;

fn header(n: u32) -> Header {
    Header {
        event: EventId(n),
        cpu: n as u16,
        flags: if n.is_multiple_of(2) { Flags::NONE } else { Flags::INTERRUPTS_OFF },
        pid: n * 3,
        comm: *b"a task's name\0\0\0",
        time: u64::from(n) << 33,
        ip: 0xffff_ffff_8100_0000 + u64::from(n),
        return_ip: u64::MAX - u64::from(n),
    }
}

/// DV-4: a full ring drops new records and counts them. Older records stay unchanged and in order.
#[test]
fn a_full_ring_drops_the_new_record_and_counts_it() {
    let mut ring = Ring::with_capacity(2 * FRAME + 10);
    assert!(ring.push(&header(1), |payload| payload.put(b"12345")));
    assert!(ring.push(&header(2), |payload| payload.put(b"67890")));
    assert!(!ring.push(&header(3), |_| ()));
    assert_eq!((ring.len(), ring.written(), ring.dropped()), (2, 2, 1));
    assert_eq!(ring.pop(), Some(Record { header: header(1), payload: b"12345".to_vec() }));
    assert!(ring.push(&header(4), |_| ()));
    assert_eq!(ring.pop().map(|record| record.header), Some(header(2)));
    assert_eq!(ring.pop().map(|record| record.header), Some(header(4)));
    assert_eq!(ring.pop(), None);
    assert!(ring.is_empty());
}

/// DV-4: a payload that is too long is cut, and the record is marked.
#[test]
fn a_payload_that_does_not_fit_marks_the_record() {
    let mut ring = Ring::with_capacity(8192);
    ring.push(&header(2), |payload| payload.put(&[7; LARGEST_PAYLOAD + 1]));
    let record = ring.pop().expect("one record was put in");
    assert_eq!(record.payload, [7; LARGEST_PAYLOAD]);
    assert!(record.header.flags.contains(Flags::TRUNCATED));
}

/// DV-4: while recording is off, records are neither kept nor counted as lost, and the older ones stay.
#[test]
fn a_ring_that_is_off_keeps_what_it_has() {
    let mut ring = Ring::with_capacity(8192);
    assert!(ring.push(&header(1), |payload| payload.put(b"1")));
    ring.switch(false);
    assert!(!ring.push(&header(2), |_| ()) && !ring.is_on());
    assert_eq!((ring.len(), ring.written(), ring.dropped()), (1, 1, 0));
    ring.switch(true);
    assert!(ring.push(&header(3), |_| ()) && ring.is_on());
    assert_eq!(ring.pop().map(|record| record.header), Some(header(1)));
    assert_eq!(ring.pop().map(|record| record.header), Some(header(3)));
}

#[test]
fn a_ring_of_no_bytes_drops_everything() {
    let mut ring = Ring::with_capacity(0);
    assert!(!ring.push(&header(1), |_| ()));
    assert_eq!((ring.pop(), ring.dropped()), (None, 1));
}

proptest! {
    /// DV-4: the ring is a FIFO queue for any sequence of writes and reads.
    #[test]
    fn the_ring_is_a_queue(steps in prop::collection::vec(prop::option::of(0_usize..200), 1..200), capacity in 0_usize..1000) {
        let mut ring = Ring::with_capacity(capacity);
        let mut model: VecDeque<Record> = VecDeque::new();
        for (n, step) in steps.into_iter().enumerate() {
            let Some(len) = step else {
                prop_assert_eq!(ring.pop(), model.pop_front());
                continue;
            };
            let payload: Vec<u8> = (0..len).map(|at| (at + n) as u8).collect();
            let used: usize = model.iter().map(|record| FRAME + record.payload.len()).sum();
            let fits = used + FRAME + len <= capacity;
            prop_assert_eq!(ring.push(&header(n as u32), |into| into.put(&payload)), fits);
            if fits {
                model.push_back(Record { header: header(n as u32), payload });
            }
        }
        prop_assert_eq!(ring.len(), model.len());
    }
}
