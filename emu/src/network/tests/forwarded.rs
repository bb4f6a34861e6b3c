//! Connections to forwarded ports, with another side that is a part of the test.

use super::super::door::{Came, Door, Event, Sent};
use super::*;

const PORT: u16 = 8080;
const REQUEST: &[u8] = b"a request\n";

/// The other side: it listens or not, and answers each whole request with this many bytes.
struct Peer {
    door: Arc<Door>,
    listens: bool,
    bytes: usize,
    requests: Vec<(u64, Vec<u8>)>,
    /// The answers that are still to be brought, and the most bytes that the guest had not read.
    left: Vec<(u64, usize)>,
    most_unread: usize,
    opened: usize,
    closed: usize,
}

const PIECE: usize = 10_000;

impl Peer {
    fn new(door: &Arc<Door>, listens: bool, bytes: usize) -> Peer {
        let (requests, left) = (Vec::new(), Vec::new());
        Peer { door: door.clone(), listens, bytes, requests, left, most_unread: 0, opened: 0, closed: 0 }
    }

    fn act(&mut self) {
        for (number, sent) in self.door.take_sent() {
            match sent {
                Sent::Open(port) => {
                    assert_eq!(port, PORT);
                    self.opened += 1;
                    self.requests.push((number, Vec::new()));
                    self.door.bring(number, if self.listens { Event::Opened } else { Event::Refused });
                }
                Sent::Bytes(bytes) => {
                    let (_, request) = self.requests.iter_mut().find(|(known, _)| *known == number).expect("it is open");
                    request.extend(bytes);
                    if request == REQUEST {
                        self.left.push((number, 0));
                    }
                }
                Sent::Ended => {}
                Sent::Closed => self.closed += 1,
            }
        }
        let (door, all) = (&self.door, self.bytes);
        self.left.retain_mut(|(number, sent)| {
            self.most_unread = self.most_unread.max(door.unread(*number));
            if door.unread(*number) > 2 * PIECE {
                return true;
            }
            let piece: Vec<u8> = (*sent..all.min(*sent + PIECE)).map(|at| byte_at(at as u64)).collect();
            *sent += piece.len();
            if piece.is_empty() {
                door.bring(*number, Event::Ended);
                return false;
            }
            door.bring(*number, Event::Bytes(piece));
            true
        });
    }
}

fn forwarded() -> (Arc<dyn Network>, Arc<Door>) {
    let door = Arc::new(Door::default());
    (forwarding(None, &[22, PORT], door.clone()), door)
}

/// NW-5: bytes go both ways, also if frames are lost; and the run is repeated from what came, without the other side.
#[test]
fn a_forwarded_connection_is_repeated_from_what_came() {
    for (lost, bytes) in [(0, 300_000), (7, 60_000)] {
        let (network, door) = forwarded();
        let mut peer = Peer::new(&door, true, bytes);
        let talk = talk_to(&*network, PORT, REQUEST, lost, || peer.act());
        peer.act();
        assert_eq!((talk.bytes.len(), talk.is_at_rest), (bytes, true), "{lost}");
        assert!(talk.bytes.iter().zip(0..).all(|(byte, at)| *byte == byte_at(at)), "{lost}");
        assert_eq!((peer.opened, peer.closed), (1, 1), "{lost}");
        assert!(peer.most_unread <= 3 * PIECE, "{lost}: the other side waits for the guest: {}", peer.most_unread);

        let log: Vec<Vec<u8>> = door.take_new().iter().map(Came::to_bytes).collect();
        assert!(log.len() > bytes / PIECE, "{lost}");
        let (again, other_door) = forwarded();
        other_door.close_with(log.iter().map(|bytes| Came::from_bytes(bytes).expect("an event")).collect());
        let mut world = again.world();
        let answers: Vec<Vec<u8>> = talk.steps.iter().flat_map(|(at, frame)| world.step(*at, frame.as_deref())).collect();
        assert!(answers == talk.answers, "{lost}: the same frames");
        assert!(other_door.take_sent().is_empty(), "{lost}: nothing goes out");

        // A world that repeats its first half with the first door, and goes on from there without it.
        door.close();
        let (first, second) = talk.steps.split_at(talk.steps.len() / 2);
        let mut world = network.world();
        world.repeats(true);
        first.iter().for_each(|(at, frame)| drop(world.step(*at, frame.as_deref())));
        world.repeats(false);
        let rest: Vec<Vec<u8>> = second.iter().flat_map(|(at, frame)| world.step(*at, frame.as_deref())).collect();
        assert!(!rest.is_empty() && talk.answers.ends_with(&rest), "{lost}: it goes on alike");
    }
}

/// NW-5: a port where nobody listens, and one that is not forwarded, refuse the guest.
#[test]
fn the_guest_is_refused_as_the_host_refuses() {
    for (port, opened) in [(PORT, 1), (PORT + 1, 0)] {
        let (network, door) = forwarded();
        let mut peer = Peer::new(&door, false, 0);
        let talk = talk_to(&*network, port, REQUEST, 0, || peer.act());
        peer.act();
        assert_eq!((talk.bytes.len(), talk.is_at_rest, peer.opened, peer.closed), (0, true, opened, opened), "{port}");
        let reset = talk.answers.iter().any(|frame| frame[23] == 6 && frame[47] & 4 != 0);
        assert!(reset, "{port}: the guest gets a reset");
    }
}

/// A frame by which the network learns the guest's address, and the guest's requests for connections from this port on.
fn requests(first: u16, count: u16) -> (Vec<u8>, Vec<Vec<u8>>) {
    let (network, door) = forwarded();
    let mut peer = Peer::new(&door, false, 0);
    let talk = talk_to(&*network, PORT, REQUEST, 0, || peer.act());
    let is_request = |frame: &&Vec<u8>| frames::request(frame).is_some();
    let request = talk.steps.iter().filter_map(|(_, frame)| frame.as_ref()).find(is_request).expect("a request").clone();
    let changed = |port: u16| {
        let mut frame = request.clone();
        let before = u32::from(u16::from_be_bytes([frame[34], frame[35]]));
        let sum = u32::from(!u16::from_be_bytes([frame[50], frame[51]])) + (0xffff - before) + u32::from(port);
        let sum = (sum & 0xffff) + (sum >> 16);
        frame[34..36].copy_from_slice(&port.to_be_bytes());
        frame[50..52].copy_from_slice(&(!((sum & 0xffff) as u16 + (sum >> 16) as u16)).to_be_bytes());
        frame
    };
    let arp =
        talk.steps.iter().filter_map(|(_, frame)| frame.as_ref()).find(|frame| frame[12..14] == [8, 6]).expect("a question");
    (arp.clone(), (first..first + count).map(changed).collect())
}

/// NW-2, NW-5: requests wait for the host, once each, and there are at most so many. A guest that asks for more is refused.
#[test]
fn requests_wait_once_each_and_are_bounded() {
    let (arp, requests) = requests(5000, 40);
    let (network, door) = forwarded();
    let mut world = network.world();
    assert_eq!(world.step(0, Some(&arp)).len(), 1);
    let (mut answers, mut now) = (0, 1_000_000);
    for _ in 0..3 {
        for frame in &requests {
            assert_eq!(frames::request(frame).map(|(_, port)| port), Some(PORT), "a right checksum");
            answers += world.step(now, Some(frame)).len();
        }
        now += 1_000_000_000;
    }
    let asked: Vec<u64> = door.take_sent().into_iter().map(|(number, _)| number).collect();
    assert_eq!(asked.len(), super::super::forwarded::MOST);
    assert!(asked.is_sorted_by(|one, other| one < other), "each has a number of its own");
    assert!(answers >= 3 * (40 - asked.len()), "the others are refused: {answers}");
    assert!(world.next().is_some() && world.was_reached() && !world.is_at_rest() && network.is_tied());

    asked.iter().for_each(|number| door.bring(*number, Event::Refused));
    assert!(world.step(now, None).len() >= asked.len(), "each is refused now");
    assert!(world.is_at_rest() && !network.is_tied());
    world.begin_anew();
    assert!(!world.was_reached());
}

/// NW-5: events for connections that there are not, or that are in another state, change nothing.
#[test]
fn events_that_do_not_fit_are_ignored() {
    let request = requests(5000, 1).1.remove(0);
    let (network, door) = forwarded();
    let mut world = network.world();
    let events = [Event::Bytes(vec![1; 10]), Event::Ended, Event::Lost, Event::Opened, Event::Refused];
    events.iter().for_each(|event| door.bring(77, event.clone()));
    assert!(world.step(1000, None).is_empty() && world.is_at_rest());
    world.step(2000, Some(&request));
    let number = door.take_sent().first().map(|(number, _)| *number).expect("it asks");
    door.bring(number, Event::Bytes(vec![1; 10]));
    door.bring(number, Event::Ended);
    assert!(world.step(3000, None).is_empty() && !world.is_at_rest(), "it still waits");
    door.bring(number, Event::Lost);
    world.step(4000, None);
    assert!(world.is_at_rest());
    door.bring(number, Event::Bytes(vec![1; 10]));
    assert_eq!(door.unread(number), 0, "a closed connection holds nothing");
}

proptest! {
    /// NW-5: events survive the form in a recording; any bytes are an event or are refused.
    #[test]
    fn events_in_a_recording(now: u64, connection: u64, bytes in proptest::collection::vec(any::<u8>(), 1..60), junk: Vec<u8>) {
        for event in [Event::Opened, Event::Refused, Event::Bytes(bytes), Event::Ended, Event::Lost] {
            let came = Came { now, connection, event };
            prop_assert_eq!(Came::from_bytes(&came.to_bytes()), Some(came));
        }
        if let Some(came) = Came::from_bytes(&junk) {
            prop_assert_eq!(came.to_bytes(), junk);
        }
    }
}
