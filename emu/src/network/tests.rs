//! A guest's frames, right and wrong ones, and the answers of the closed network.

mod forwarded;

use super::wire::Wire;
use super::*;
use crate::devices::virtio::net::{ADDRESS, LONGEST_FRAME};
use crate::devices::virtio::ninep::{Attributes, ErrorNumber, FILE, FOLDER, errors};
use proptest::prelude::*;
use smoltcp::iface::{Config, Interface, SocketSet};
use smoltcp::socket::tcp::{Socket, SocketBuffer};
use smoltcp::time::Instant;
use smoltcp::wire::{HardwareAddress, IpAddress, IpCidr};

/// A folder with the file `file` of this many bytes.
#[derive(Clone, Debug)]
struct Shelf(u64);

impl Tree for Shelf {
    fn attributes(&self, path: &[Vec<u8>]) -> Result<Attributes, ErrorNumber> {
        match path {
            [] => Ok(Attributes { mode: FOLDER | 0o755, ..Attributes::default() }),
            [name] if name == b"file" => Ok(Attributes { mode: FILE | 0o644, bytes: self.0, ..Attributes::default() }),
            _ => Err(errors::NO_ENTRY),
        }
    }
    fn list(&self, _: &[Vec<u8>]) -> Result<Vec<(Vec<u8>, u32)>, ErrorNumber> {
        Ok(vec![(b"file".to_vec(), FILE)])
    }
    fn read(&self, _: &[Vec<u8>], offset: u64, into: &mut [u8]) -> Result<usize, ErrorNumber> {
        let held = self.0.saturating_sub(offset).min(into.len() as u64) as usize;
        into.iter_mut().take(held).zip(offset..).for_each(|(byte, at)| *byte = byte_at(at));
        Ok(held)
    }
    fn target(&self, _: &[Vec<u8>]) -> Result<Vec<u8>, ErrorNumber> {
        Err(errors::INVALID)
    }
    fn checksum(&self) -> io::Result<String> {
        Ok(format!("{} bytes", self.0))
    }
}

fn byte_at(offset: u64) -> u8 {
    ((offset / 3) ^ (offset >> 12)) as u8
}

fn network(bytes: u64) -> Arc<dyn Network> {
    closed(Some(Arc::new(Shelf(bytes))))
}

const GUEST_ETHERNET: EthernetAddress = EthernetAddress(ADDRESS);

fn udp(to: (Ipv4Address, u16), from: (Ipv4Address, u16), payload: &[u8]) -> Vec<u8> {
    let mut frame = frames::write(ETHERNET, from, to, payload);
    frame[6..12].copy_from_slice(&ADDRESS);
    frame
}

/// The payload of the only answer to a datagram.
fn ask(port: u16, payload: &[u8]) -> Option<Vec<u8>> {
    let server = if port == DNS { NAME_SERVER } else { GATEWAY };
    let answers = network(1).world().step(0, Some(&udp((server, port), (GUEST, 5000), payload)));
    assert!(answers.len() <= 1);
    let answer = answers.first()?;
    assert_eq!((&answer[..6], &answer[6..12]), (&ADDRESS[..], &ETHERNET.0[..]));
    Some(answer[42..].to_vec())
}

fn query(name: &str, kind: u16) -> Vec<u8> {
    let mut query = vec![0xab, 0xcd, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.').filter(|label| !label.is_empty()) {
        query.push(label.len() as u8);
        query.extend(label.bytes());
    }
    query.push(0);
    query.extend([kind.to_be_bytes(), 1u16.to_be_bytes()].concat());
    query
}

/// NW-3: the name server knows the names of the network. Others do not exist, and each query is answered as its kind.
#[test]
fn names_are_answered() {
    #[rustfmt::skip]
    let cases = [
        ("gateway",                     1,      0x8580, Some([10, 0, 2, 2])),
        ("WWW.Trapline.Internal",       1,      0x8580, Some([10, 0, 2, 2])),
        ("dns.trapline.internal",       255,    0x8580, Some([10, 0, 2, 3])),
        ("guest",                       1,      0x8580, Some([10, 0, 2, 15])),
        ("www",                         28,     0x8580, None),
        ("example.org",                 1,      0x8583, None),
        ("trapline.internal",           1,      0x8583, None),
        ("wwwtrapline.internal",        1,      0x8583, None),
        ("",                            1,      0x8583, None),
    ];
    for (name, kind, flags, address) in cases {
        let query = query(name, kind);
        let answer = ask(DNS, &query).expect(name);
        assert_eq!((&answer[..2], u16::from_be_bytes([answer[2], answer[3]])), (&query[..2], flags), "{name}");
        assert_eq!(answer[4..8], [0, 1, 0, u8::from(address.is_some())], "{name}");
        assert_eq!(answer[12..query.len()], query[12..], "{name}");
        let expected = address.map_or(Vec::new(), |at| [&[0xc0, 12, 0, 1, 0, 1, 0, 0, 14, 16, 0, 4][..], &at].concat());
        assert_eq!(answer[query.len()..], expected, "{name}");
    }
}

/// NW-2: malformed queries are answered as such, or not at all.
#[test]
fn malformed_queries_are_refused() {
    let mut cases = vec![("a reference", query("www", 1)), ("no end", query("www", 1)), ("no class", query("www", 1))];
    cases[0].1[12] = 0xc0;
    cases[1].1.truncate(15);
    cases[2].1.truncate(19);
    cases.push(("a long name", query(&"a.".repeat(200), 1)));
    for (what, query) in cases {
        assert_eq!(ask(DNS, &query).map(|answer| answer[3] & 15), Some(1), "{what}");
    }
    assert_eq!(ask(DNS, &[0; 11]), None, "half a header");
    let mut answer = query("www", 1);
    answer[2] |= 0x80;
    assert_eq!(ask(DNS, &answer), None, "an answer");
    let mut update = query("www", 1);
    update[2] |= 5 << 3;
    assert_eq!(ask(DNS, &update).map(|answer| answer[3] & 15), Some(4), "an update");
}

fn dhcp(kind: u8, options: &[u8]) -> Vec<u8> {
    let mut message = vec![0; 236];
    message[..4].copy_from_slice(&[1, 1, 6, 0]);
    message[4..8].copy_from_slice(b"xact");
    message[28..34].copy_from_slice(&ADDRESS);
    message.extend([99, 130, 83, 99, 53, 1, kind]);
    message.extend(options);
    message.push(255);
    message
}

fn ask_dhcp(message: &[u8]) -> Option<Vec<u8>> {
    let mut frame = udp((Ipv4Address::BROADCAST, DHCP), (Ipv4Address::UNSPECIFIED, 68), message);
    frame[..6].fill(0xff);
    network(1).world().step(0, Some(&frame)).first().cloned()
}

/// NW-3: DHCP gives the addresses of QEMU's user network, and refuses others.
#[test]
fn addresses_are_given() {
    let answer = ask_dhcp(&dhcp(1, &[])).expect("an offer");
    assert_eq!((&answer[..6], &answer[30..34]), (&ADDRESS[..], &[10, 0, 2, 15][..]));
    let message = &answer[42..];
    assert_eq!((message[0], &message[4..8], &message[16..20], message.len()), (2, &b"xact"[..], &[10, 0, 2, 15][..], 300));
    let options = [
        &[53, 1, 2, 54, 4, 10, 0, 2, 2, 51, 4, 0, 1, 0x51, 0x80][..],
        &[1, 4, 255, 255, 255, 0, 3, 4, 10, 0, 2, 2, 6, 4, 10, 0, 2, 3, 15, 17],
        b"trapline.internal\xff",
    ];
    assert_eq!(message[240..][..options.concat().len()], options.concat());
    let kind = |options: &[u8]| ask_dhcp(&dhcp(3, options)).map(|answer| answer[42 + 242]);
    assert_eq!(kind(&[54, 4, 10, 0, 2, 2, 50, 4, 10, 0, 2, 15]), Some(5), "it is accepted");
    assert_eq!(kind(&[50, 4, 10, 0, 2, 16]), Some(6), "another address is refused");
    assert_eq!(kind(&[54, 4, 10, 0, 2, 9, 50, 4, 10, 0, 2, 15]), None, "it is for another server");
    let mut flagged = dhcp(1, &[]);
    flagged[10] = 0x80;
    assert_eq!(ask_dhcp(&flagged).expect("an offer")[..6], [0xff; 6]);
}

/// NW-2: damaged messages to the DHCP server get no answer.
#[test]
fn damaged_messages_get_no_answer() {
    let good = dhcp(1, &[]);
    for end in 0..243 {
        assert_eq!(ask_dhcp(&good[..end]), None, "{end}");
    }
    let damages: [fn(&mut Vec<u8>); 4] = [
        |message| message[0] = 2,
        |message| message[2] = 16,
        |message| message[239] = 0,
        |message| message[240..].copy_from_slice(&[53, 200, 1, 255]),
    ];
    for damage in damages {
        let mut message = good.clone();
        damage(&mut message);
        assert_eq!(ask_dhcp(&message), None);
    }
}

/// NW-3: datagrams come back from the port for that, and packets that lead outside are answered as unreachable.
#[test]
fn datagrams_are_echoed_and_the_outside_is_unreachable() {
    assert_eq!(ask(ECHO, b"hello"), Some(b"hello".to_vec()));
    let mut world = network(1).world();
    let answers = world.step(0, Some(&udp((Ipv4Address::new(192, 0, 2, 1), 53), (GUEST, 5000), b"hello")));
    assert_eq!(answers.len(), 1);
    assert_eq!((answers[0][23], &answers[0][34..36]), (1, &[3, 0][..]), "ICMP: the network is unreachable");
    let mut damaged = udp((GATEWAY, ECHO), (GUEST, 5000), b"hello");
    damaged[45] ^= 1;
    assert_eq!(network(1).world().step(0, Some(&damaged)), Vec::<Vec<u8>>::new(), "a wrong checksum");
}

/// A conversation: the bytes that came, and all steps of the network with the frames that they gave.
#[derive(Debug, Default, PartialEq, Eq)]
struct Talk {
    bytes: Vec<u8>,
    steps: Vec<(u64, Option<Vec<u8>>)>,
    answers: Vec<Vec<u8>>,
    is_at_rest: bool,
}

/// Sends a request to the web server and takes the answer, while every `lost`-th frame to the guest is lost.
fn talk(network: &dyn Network, request: &[u8], lost: usize) -> Talk {
    talk_to(network, HTTP, request, lost, || ())
}

/// Like [`talk`], with a port of the gateway. `outside` acts before each step.
fn talk_to(network: &dyn Network, port: u16, request: &[u8], lost: usize, mut outside: impl FnMut()) -> Talk {
    let (mut world, mut wire, mut talk) = (network.world(), Wire::default(), Talk::default());
    let mut interface = Interface::new(Config::new(HardwareAddress::Ethernet(GUEST_ETHERNET)), &mut wire, Instant::ZERO);
    interface.update_ip_addrs(|addresses| addresses.push(IpCidr::new(GUEST.into(), PREFIX)).expect("room"));
    let mut sockets = SocketSet::new(Vec::new());
    let buffer = || SocketBuffer::new(vec![0; 30_000]);
    let handle = sockets.add(Socket::new(buffer(), buffer()));
    let socket = sockets.get_mut::<Socket<'_>>(handle);
    socket.connect(interface.context(), (IpAddress::Ipv4(GATEWAY), port), 40_000).expect("a connection");
    socket.send_slice(request).unwrap_or_default();
    let (mut now, mut has_sent, mut count) = (0u64, false, 0);
    for _ in 0..200_000 {
        let at = Instant::from_micros((now / 1000) as i64);
        interface.poll(at, &mut wire, &mut sockets);
        let socket = sockets.get_mut::<Socket<'_>>(handle);
        if socket.can_send() && !has_sent {
            has_sent = socket.send_slice(request).is_ok();
        }
        while socket.can_recv() {
            socket.recv(|bytes| (bytes.len(), talk.bytes.extend_from_slice(bytes))).expect("bytes");
        }
        if has_sent && !socket.may_recv() {
            socket.close();
        }
        interface.poll(at, &mut wire, &mut sockets);
        let mut steps: Vec<Option<Vec<u8>>> = wire.outgoing.drain(..).map(Some).collect();
        if world.next().is_some_and(|next| next <= now) {
            steps.push(None);
        }
        let is_idle = steps.is_empty();
        for step in steps {
            outside();
            let answers = world.step(now, step.as_deref());
            talk.steps.push((now, step));
            for answer in answers {
                count += 1;
                if lost == 0 || count % lost != 0 {
                    wire.incoming.push_back(answer.clone());
                }
                talk.answers.push(answer);
            }
        }
        let is_over = has_sent && world.is_at_rest() || !sockets.get::<Socket<'_>>(handle).is_active();
        if is_idle && is_over {
            break;
        }
        now += if is_idle { 1_000_000 } else { 40_000 };
    }
    talk.is_at_rest = world.is_at_rest();
    talk
}

/// NW-3: a file comes over TCP, also if frames are lost. Equal conversations give equal frames.
#[test]
fn a_file_comes_over_tcp() {
    const BYTES: u64 = 1 << 20;
    for lost in [0, 7] {
        let network = network(BYTES);
        let first = talk(&*network, b"GET /file HTTP/1.1\r\n\r\n", lost);
        let body = first.bytes.split_off_body();
        assert_eq!(body.len() as u64, BYTES, "{lost}: {:?}", String::from_utf8_lossy(&first.bytes[..300.min(first.bytes.len())]));
        assert!(body.iter().zip(0..).all(|(byte, at)| *byte == byte_at(at)), "{lost}");
        assert!(first.is_at_rest, "{lost}: the connection has ended");
        assert!(first == talk(&*network, b"GET /file HTTP/1.1\r\n\r\n", lost), "{lost}: it repeats");
    }
}

/// NW-4: a network that begins anew and makes the same steps gives the same frames, wherever the first one stopped.
#[test]
fn the_same_steps_give_the_same_frames() {
    let network = network(100_000);
    let talk = talk(&*network, b"GET /file HTTP/1.1\r\n\r\n", 5);
    let mut world = network.world();
    let answers: Vec<Vec<u8>> = talk.steps.iter().flat_map(|(at, frame)| world.step(*at, frame.as_deref())).collect();
    assert!(answers == talk.answers);
}

trait Body {
    fn split_off_body(&self) -> &[u8];
}

impl Body for Vec<u8> {
    fn split_off_body(&self) -> &[u8] {
        self.windows(4).position(|end| end == b"\r\n\r\n").map_or(&[], |at| &self[at + 4..])
    }
}

/// NW-2: a guest that opens connections without end, and announces tiny segments, gets a bounded number of frames.
#[test]
fn a_flood_of_connections_is_bounded() {
    let network = network(1 << 30);
    let mut world = network.world();
    let talk = talk(&*network, b"GET /file HTTP/1.1\r\n\r\n", 0);
    let (_, syn) = talk.steps.iter().find(|(_, frame)| frame.as_ref().is_some_and(|frame| frame[23] == 6)).expect("a SYN");
    let syn = syn.clone().expect("a frame");
    let mut most = 0;
    for port in 0..500u16 {
        let mut frame = syn.clone();
        frame[34..36].copy_from_slice(&(1000 + port).to_be_bytes());
        let sum = u16::from_be_bytes([frame[50], frame[51]]);
        // The checksum is the complement of a sum in which the port has changed.
        let (old, new) = (u32::from(40_000u16), u32::from(1000 + port));
        let total = u32::from(!sum) + (0xffff - old) + new;
        let folded = (total & 0xffff) + (total >> 16);
        frame[50..52].copy_from_slice(&(!((folded & 0xffff) as u16 + (folded >> 16) as u16)).to_be_bytes());
        most = most.max(world.step(u64::from(port) * 1000, Some(&frame)).len());
    }
    assert!(most <= 20, "{most} frames");
    let mut at = 1_000_000;
    for _ in 0..1000 {
        let Some(next) = world.next() else { break };
        at = next.max(at + 20_000);
        assert!(world.step(at, None).len() <= 1100);
    }
    assert!(world.is_at_rest(), "half-open connections end");
}

proptest! {
    /// NW-2: any frames give bounded answers that fit into a frame.
    #[test]
    fn any_frames_are_answered_or_dropped(
        frames in proptest::collection::vec((0usize..6, proptest::collection::vec(any::<u8>(), 0..200), any::<u16>()), 1..40),
    ) {
        let mut world = network(1000).world();
        for (number, (kind, bytes, port)) in frames.iter().enumerate() {
            let mut frame = match kind {
                0 => bytes.clone(),
                1 => udp((NAME_SERVER, DNS), (GUEST, *port), bytes),
                2 => udp((GATEWAY, DHCP), (GUEST, *port), &dhcp(*port as u8, bytes)),
                3 => udp((GATEWAY, *port), (GUEST, 9), bytes),
                4 => [&ETHERNET.0[..], &ADDRESS, &[8, 6], bytes].concat(),
                _ => {
                    let mut frame = udp((GATEWAY, 80), (GUEST, *port), bytes);
                    frame[23] = 6;
                    frame
                }
            };
            frame.truncate(LONGEST_FRAME);
            let answers = world.step(number as u64 * 20_000, Some(&frame));
            prop_assert!(answers.len() <= 1100 && answers.iter().all(|answer| answer.len() <= LONGEST_FRAME));
        }
    }
}
