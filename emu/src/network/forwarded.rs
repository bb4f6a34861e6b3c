//! The guest's connections to ports of the host. A request waits until the host's socket is connected, or is refused as the
//! host refuses it. Bytes go through the [`Door`].

use super::door::{Door, Event, Number, Sent};
use super::frames;
use smoltcp::iface::{SocketHandle, SocketSet};
use smoltcp::socket::tcp::{Socket, State};
use smoltcp::wire::Ipv4Address;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// The most forwarded connections at a time. A further one is refused.
pub const MOST: usize = 16;
/// Nanoseconds of guest time between two looks at the door while there are connections.
const LOOK: u64 = 1_000_000;

/// The forwarded connections of a network.
pub struct Forwarded {
    door: Arc<Door>,
    ports: Arc<[u16]>,
    open: BTreeMap<Number, Connection>,
    /// Whether the steps are repeated: they were made before, and what the guest sends has been sent.
    is_repeated: bool,
    /// The guest time of the last step.
    last: Option<u64>,
    /// Whether a guest has asked for a connection since the network began.
    was_reached: bool,
}

struct Connection {
    /// The guest's address and port.
    from: (Ipv4Address, u16),
    /// The host's port.
    port: u16,
    stage: Stage,
    /// Bytes for the guest.
    backlog: VecDeque<u8>,
    /// Whether the other side sends no more.
    has_ended: bool,
    /// Whether the guest sends no more, and the other side was told.
    guest_has_ended: bool,
}

enum Stage {
    /// The frame of the request, until the host's socket is connected.
    Asked(Vec<u8>),
    Connected(SocketHandle),
}

impl Forwarded {
    /// No connections yet.
    pub fn new(door: Arc<Door>, ports: Arc<[u16]>) -> Forwarded {
        Forwarded { door, ports, open: BTreeMap::new(), is_repeated: false, last: None, was_reached: false }
    }

    /// Makes a value with these ports and no connections, for a network that begins anew.
    pub fn anew(&self) -> Forwarded {
        let fresh = Forwarded::new(self.door.clone(), self.ports.clone());
        Forwarded { is_repeated: self.is_repeated, last: self.last, ..fresh }
    }

    /// Says whether the next steps are repeated ones.
    pub fn repeats(&mut self, is_repeated: bool) {
        self.is_repeated = is_repeated;
    }

    /// Whether a guest has asked for a connection.
    pub fn was_reached(&self) -> bool {
        self.was_reached
    }

    /// Whether there is no connection.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// The time of the next look at the door, behind a step at `now`.
    pub fn next(&self, now: u64) -> Option<u64> {
        (!self.open.is_empty()).then(|| now.saturating_add(LOOK))
    }

    /// Whether the frame is the guest's request for a connection to a forwarded port, which waits now.
    pub fn holds(&mut self, now: u64, frame: &[u8]) -> bool {
        let Some((from, port)) = frames::request(frame).filter(|(_, port)| self.ports.contains(port)) else { return false };
        let is_this = |connection: &&Connection| (connection.from, connection.port) == (from, port);
        if let Some(known) = self.open.values().find(is_this) {
            return matches!(known.stage, Stage::Asked(_));
        }
        if self.open.len() == MOST {
            return false;
        }
        let number = (now..).find(|number| !self.open.contains_key(number)).unwrap_or(now);
        let stage = Stage::Asked(frame.to_vec());
        let connection = Connection { from, port, stage, backlog: VecDeque::new(), has_ended: false, guest_has_ended: false };
        self.open.insert(number, connection);
        self.was_reached = true;
        self.send(number, Sent::Open(port));
        true
    }

    /// Takes what has come from outside. `deliver` is called with the frames of the requests that are decided now: one that is
    /// accepted has a new socket, which waits for it.
    pub fn take(
        &mut self,
        now: u64,
        sockets: &mut SocketSet<'static>,
        mut deliver: impl FnMut(Vec<u8>, &mut SocketSet<'static>),
    ) {
        if self.last.replace(now) == Some(now) {
            return;
        }
        for (number, event) in self.door.take(now, self.is_repeated) {
            // The guest may have broken the connection meanwhile.
            let Some(connection) = self.open.get_mut(&number) else { continue };
            match (&mut connection.stage, event) {
                (Stage::Asked(frame), Event::Opened) => {
                    let frame = std::mem::take(frame);
                    let handle = sockets.add(super::stack::listener(connection.port));
                    connection.stage = Stage::Connected(handle);
                    deliver(frame, sockets);
                }
                (Stage::Asked(frame), Event::Refused | Event::Lost) => {
                    deliver(std::mem::take(frame), sockets);
                    self.open.remove(&number);
                    self.send(number, Sent::Closed);
                }
                (Stage::Connected(_), Event::Bytes(bytes)) => connection.backlog.extend(bytes),
                (Stage::Connected(_), Event::Ended) => connection.has_ended = true,
                (Stage::Connected(handle), Event::Lost) => sockets.get_mut::<Socket<'_>>(*handle).abort(),
                _ => {}
            }
        }
    }

    /// Gives each connection its turn. Returns whether one of them has done something.
    pub fn serve(&mut self, sockets: &mut SocketSet<'static>) -> bool {
        let mut has_acted = false;
        let numbers: Vec<Number> = self.open.keys().copied().collect();
        for number in numbers {
            has_acted |= self.converse(number, sockets).unwrap_or(false);
        }
        self.door.set_connections(self.open.len());
        has_acted
    }

    fn converse(&mut self, number: Number, sockets: &mut SocketSet<'static>) -> Option<bool> {
        let connection = self.open.get_mut(&number)?;
        let Stage::Connected(handle) = connection.stage else { return None };
        let socket = sockets.get_mut::<Socket<'_>>(handle);
        let mut sent = Vec::new();
        while socket.can_recv() {
            match socket.recv(|bytes| (bytes.len(), bytes.to_vec())) {
                Ok(bytes) => sent.push(Sent::Bytes(bytes)),
                Err(_) => break,
            }
        }
        let mut read = 0;
        while socket.can_send() && !connection.backlog.is_empty() {
            let Ok(bytes) = socket.send_slice(connection.backlog.as_slices().0) else { break };
            connection.backlog.drain(..bytes);
            read += bytes;
        }
        let is_ending = [State::CloseWait, State::LastAck, State::Closing, State::TimeWait].contains(&socket.state());
        if is_ending && !connection.guest_has_ended {
            connection.guest_has_ended = true;
            sent.push(Sent::Ended);
        }
        let mut has_acted = read > 0 || !sent.is_empty();
        let is_connected = [State::Established, State::CloseWait].contains(&socket.state());
        if connection.has_ended && connection.backlog.is_empty() && is_connected {
            socket.close();
            has_acted = true;
        }
        // A request that smoltcp did not accept leaves its socket waiting.
        if [State::Closed, State::TimeWait, State::Listen].contains(&socket.state()) {
            sockets.remove(handle);
            self.open.remove(&number);
            sent.push(Sent::Closed);
            has_acted = true;
        }
        if read > 0 && !self.is_repeated {
            self.door.has_read(number, read);
        }
        sent.into_iter().for_each(|sent| self.send(number, sent));
        Some(has_acted)
    }

    fn send(&self, number: Number, sent: Sent) {
        if !self.is_repeated {
            self.door.send(number, sent);
        }
    }
}
