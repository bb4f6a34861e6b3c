//! The card with a driver: times of frames, broken rings, snapshots.

use super::super::testing::{BUFFERS, Driver, Ram};
use super::super::{Attached, Class, Virtio};
use super::*;

/// A network that sends each frame back as often as its byte 14 says, and once more at the time of its byte 15, in milliseconds.
#[derive(Clone, Debug)]
struct Mirror(&'static str);

#[derive(Debug, Default)]
struct Mirrored {
    steps: u8,
    next: Option<u64>,
}

impl Network for Mirror {
    fn world(&self) -> Box<dyn World> {
        Box::new(Mirrored::default())
    }
    fn identity(&self) -> io::Result<String> {
        Ok(self.0.into())
    }
}

impl World for Mirrored {
    fn step(&mut self, now: u64, frame: Option<&[u8]>) -> Vec<Vec<u8>> {
        self.steps += 1;
        let Some(frame) = frame else {
            self.next = None;
            return vec![vec![self.steps; 20]];
        };
        self.next = Some(u64::from(frame[15]) * 1_000_000).filter(|next| *next > now);
        let mut answer = frame.to_vec();
        answer[0] = self.steps;
        vec![answer; frame[14].into()]
    }
    fn next(&self) -> Option<u64> {
        self.next
    }
    fn is_at_rest(&self) -> bool {
        false
    }
    fn begin_anew(&mut self) {
        *self = Mirrored::default();
    }
}

const SEND: usize = 1;

fn card(name: &'static str) -> Virtio {
    Virtio::new(&Attached::Network(Card { network: Arc::new(Mirror(name)) }))
}

fn up() -> Driver {
    Driver::new(card("mirror"))
}

/// A frame that comes back this often.
fn frame(copies: u8, at: u8) -> Vec<u8> {
    let mut frame = vec![7; 60];
    (frame[14], frame[15]) = (copies, at);
    frame
}

/// Offers a descriptor of the queue for frames to the guest.
fn give_room(driver: &mut Driver, number: u16, bytes: u32) {
    driver.queue = RECEIVE;
    driver.describe(number, room(number), bytes, 2, 0);
    driver.offer(number);
}

fn room(number: u16) -> u64 {
    BUFFERS + 0x1_0000 + 0x800 * u64::from(number)
}

fn send(driver: &mut Driver, frame: &[u8]) {
    driver.queue = SEND;
    driver.ram.write(BUFFERS, &[&[0; HEADER_BYTES][..], frame].concat()).expect("RAM");
    driver.describe(0, BUFFERS, (HEADER_BYTES + frame.len()) as u32, 0, 0);
    driver.offer(0);
    driver.notify();
}

fn received(driver: &mut Driver, number: u16, bytes: usize) -> Vec<u8> {
    let mut held = vec![0; bytes];
    driver.ram.read(room(number), &mut held).expect("RAM");
    held
}

fn net(driver: &Driver) -> &Net {
    match driver.device.class() {
        Class::Net(net) => net,
        _ => panic!("a network card"),
    }
}

const LATENCY: Ticks = LATENCY_NANOSECONDS * 4;

/// NW-1: a frame is sent after the fixed time, and its answer comes after the same time again.
#[test]
fn frames_go_and_come_at_fixed_virtual_times() {
    let mut driver = up();
    give_room(&mut driver, 3, 2000);
    driver.notify();
    driver.pass(LATENCY);
    assert_eq!((driver.returned().0, driver.device.line()), (0, false), "no frame has come");
    driver.now = 1000 * LATENCY;
    send(&mut driver, &frame(1, 0));
    let sent = 1001 * LATENCY;
    driver.pass(sent);
    assert_eq!(driver.returned(), (1, 0));
    assert_eq!(driver.device.next(), Some(sent + LATENCY));
    driver.pass(sent + LATENCY);
    driver.queue = RECEIVE;
    let expected = [&[0; 10][..], &[1, 0], &[1], &frame(1, 0)[1..]].concat();
    assert_eq!(driver.returned(), (1, 72));
    assert_eq!(received(&mut driver, 3, 72), expected);
    assert!(driver.device.line() && driver.device.next().is_none());
    assert_eq!(driver.device.configuration(0, 6), 0x5634_1200_5452);
}

/// NW-1: frames without room wait. Those that come when too many wait are dropped.
#[test]
fn frames_wait_for_room_and_too_many_are_dropped() {
    let mut driver = up();
    for _ in 0..5 {
        send(&mut driver, &frame(250, 0));
        driver.pass(driver.now + 10 * LATENCY);
    }
    assert_eq!((net(&driver).waiting.len(), net(&driver).dropped(), net(&driver).arrived()), (MOST_WAITING, 226, 1250));
    assert_eq!(driver.device.next(), None, "a device without room waits for its driver");
    give_room(&mut driver, 1, 2000);
    give_room(&mut driver, 2, 2000);
    driver.notify();
    driver.pass(driver.now + LATENCY);
    assert_eq!((driver.returned(), net(&driver).waiting.len()), ((2, 72), MOST_WAITING - 2));
}

/// Addresses and lengths.
type Buffers = &'static [(u64, u32)];

/// NW-2: frames that are too long, too short or not in RAM are dropped and counted. The next one is sent.
#[test]
fn frames_that_no_network_takes_are_dropped() {
    #[rustfmt::skip]
    let cases: [(&str, Buffers, u64); 9] = [
        ("the longest",         &[(BUFFERS, 1526)],                             0),
        ("one byte more",       &[(BUFFERS, 1527)],                             1),
        ("a length of 4 GiB",   &[(BUFFERS, u32::MAX)],                         1),
        ("8 GiB in pieces",     &[(BUFFERS, u32::MAX), (BUFFERS, u32::MAX)],    1),
        ("only a header",       &[(BUFFERS, 12)],                               1),
        ("half a header",       &[(BUFFERS, 5)],                                1),
        ("half an address",     &[(BUFFERS, 20)],                               1),
        ("nothing",             &[(BUFFERS, 0)],                                1),
        ("outside of RAM",      &[(BUFFERS, 12), (u64::MAX - 20, 60)],          1),
    ];
    for (what, pieces, dropped) in cases {
        let mut driver = up();
        driver.queue = SEND;
        driver.ram.write(BUFFERS, &[0; 4096]).expect("RAM");
        for (number, (address, bytes)) in (0..).zip(pieces) {
            let has_next = u16::from(usize::from(number) + 1 < pieces.len());
            driver.describe(number, *address, *bytes, has_next, number + 1);
        }
        driver.offer(0);
        driver.notify();
        driver.pass(LATENCY);
        assert_eq!((driver.returned(), net(&driver).dropped()), ((1, 0), dropped), "{what}");
        send(&mut driver, &frame(1, 0));
        driver.pass(2 * LATENCY);
        assert_eq!((driver.returned().0, net(&driver).arrived()), (2, 1), "{what}");
    }
}

/// NW-2: a frame that does not fit into the guest's buffer is dropped, and the buffer comes back empty.
#[test]
fn frames_larger_than_their_buffer_are_dropped() {
    for bytes in [0, 11, 71] {
        let mut driver = up();
        give_room(&mut driver, 1, bytes);
        send(&mut driver, &frame(1, 0));
        driver.pass(2 * LATENCY);
        driver.queue = RECEIVE;
        assert_eq!((driver.returned(), net(&driver).dropped()), ((1, 0), 1), "{bytes}");
    }
}

/// NW-2: a ring that breaks the rules stops the card until its driver resets it.
#[test]
fn a_broken_ring_stops_the_card() {
    for queue in [RECEIVE, SEND] {
        let mut driver = up();
        send(&mut driver, &frame(1, 90));
        driver.pass(LATENCY);
        driver.queue = queue;
        driver.describe(5, Ram::BASE, 100, 1, 5);
        driver.offer(5);
        driver.notify();
        driver.pass(3 * LATENCY);
        assert_eq!((driver.get(0x70) & 64, driver.device.next()), (64, None), "queue {queue}");
        driver.set(0x70, 0);
        assert_eq!((net(&driver).waiting.len(), net(&driver).timer()), (0, None));
    }
}

/// NW-1: the network acts by itself at its own time.
#[test]
fn a_network_acts_at_its_own_time() {
    let mut driver = up();
    give_room(&mut driver, 1, 100);
    send(&mut driver, &frame(0, 90));
    driver.pass(LATENCY);
    let due = ticks(90_000_000);
    assert_eq!(driver.device.next(), Some(due));
    driver.pass(due + LATENCY);
    assert_eq!(received(&mut driver, 1, 14)[12..], [2, 2]);
}

fn restored(device: &Virtio, name: &'static str) -> Result<Virtio, AttachError> {
    let saved = serde_json::to_string(device).expect("JSON");
    let mut restored: Virtio = serde_json::from_str(&saved).expect("a device");
    assert!(restored.is_sound(Ticks::MAX));
    restored.adopt(&card(name)).map(|()| restored)
}

/// NW-4: a restored card continues like the saved one: the network has made the same steps, and the same frames wait.
#[test]
fn a_restored_card_continues_like_the_saved_one() {
    let mut driver = up();
    for copies in [3, 1, 0] {
        send(&mut driver, &frame(copies, 0));
        driver.pass(driver.now + 5 * LATENCY);
    }
    send(&mut driver, &frame(2, 90));
    driver.pass(driver.now + LATENCY);
    let next = driver.device.next();
    driver.device = restored(&driver.device, "mirror").expect("the same network");
    assert_eq!((driver.device.next(), net(&driver).waiting.len(), net(&driver).arrived()), (next, 6, 6));
    (1..9).for_each(|number| give_room(&mut driver, number, 100));
    driver.notify();
    driver.pass(ticks(90_000_000) + 2 * LATENCY);
    let firsts: Vec<u8> = (1..8).map(|number| received(&mut driver, number, 13)[12]).collect();
    assert_eq!(firsts, [1, 1, 1, 2, 4, 4, 5]);
    let saved = restored(&driver.device, "another").map(|_| ()).expect_err("another network");
    assert_eq!(saved, AttachError::Contents);
}

/// NW-4: damaged frames in a snapshot are refused.
#[test]
fn damaged_frames_are_refused() {
    let mut driver = up();
    send(&mut driver, &frame(1, 0));
    driver.pass(LATENCY);
    let saved = serde_json::to_value(net(&driver)).expect("JSON");
    let read = |key: &str, text: String| {
        let mut damaged = saved.clone();
        damaged[key] = text.into();
        serde_json::from_value::<Net>(damaged)
    };
    let text = |bytes: &[u8]| crate::base64::text(&zstd::bulk::compress(bytes, 1).expect("bytes"));
    let step = |at: u64, frame: &[u8]| [&at.to_le_bytes()[..], &(frame.len() as u16).to_le_bytes(), frame].concat();
    let is_sound = |bytes: &[u8]| read("journal", text(bytes)).is_ok_and(|net| net.is_sound(1000));
    assert!(is_sound(&[step(5, &[1; 60]), step(5, &[]), step(9, &[2; 60])].concat()));
    assert!(!is_sound(&[step(5, &[1; 60]), step(4, &[])].concat()), "time goes back");
    assert!(!is_sound(&step(1000, &[])), "after the last time");
    assert!(!is_sound(&step(1, &[0; LONGEST_FRAME + 1])), "too long");
    assert!(!is_sound(&step(1, &[0; 60])[..50]), "cut");
    assert!(read("waiting", text(&step(0, &[0; 60])[..50])).is_err());
    for key in ["journal", "waiting"] {
        assert!(read(key, "####".into()).is_err() && read(key, crate::base64::text(b"no zstd")).is_err());
    }
}

/// NW-4: a card whose network has made too many steps says why it cannot be saved.
#[test]
fn a_card_with_too_long_a_past_cannot_be_saved() {
    let mut driver = up();
    let Class::Net(mine) = driver.device.class_mut() else { panic!("a network card") };
    (0..50_000).for_each(|_| mine.journal.note(0, Some(&[0; LONGEST_FRAME])));
    let refused = serde_json::to_string(&driver.device).expect_err("too long");
    assert!(refused.to_string().contains("network connections"), "{refused}");
}
