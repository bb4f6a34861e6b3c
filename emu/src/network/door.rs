//! The door between a network and sockets of the host. Connections of the guest to forwarded ports lead through it; nothing
//! else does.
//!
//! The network asks the door at each of its steps what has come from outside. What came is kept with the
//! step's guest time, so a run can be repeated from it without any socket: the same steps get the same events.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// The number of a connection. It is the guest time in nanoseconds at which the guest asked for it, or the next free number.
pub type Number = u64;

/// An event on a connection that comes from the host's socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The host's socket is connected.
    Opened,
    /// Nobody listens at the host's port.
    Refused,
    /// Bytes of the other side.
    Bytes(Vec<u8>),
    /// The other side sends no more.
    Ended,
    /// The connection is broken.
    Lost,
}

/// An event on a connection that comes from the guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sent {
    /// It asks for a connection to this port.
    Open(u16),
    /// Bytes.
    Bytes(Vec<u8>),
    /// It sends no more.
    Ended,
    /// The connection is closed on both sides, or broken, or was refused.
    Closed,
}

/// An event with the guest time in nanoseconds at which the network took it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Came {
    /// The guest time of the step.
    pub now: u64,
    /// The connection.
    pub connection: Number,
    /// The event.
    pub event: Event,
}

/// The door.
#[derive(Debug)]
pub struct Door {
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    /// Whether there are sockets outside. If not, the log has all events.
    is_open: bool,
    /// Events that the network has not taken yet.
    waiting: Vec<(Number, Event)>,
    /// The events that the network has taken, in the order of time.
    log: Vec<Came>,
    /// The number of events of the log that [`Door::take_new`] has given out.
    given: usize,
    /// The number of connections, those that wait included.
    connections: usize,
    /// The guest's events that nobody has taken yet.
    sent: Vec<(Number, Sent)>,
    /// The open connections, each with the number of bytes that the guest has not got yet.
    unread: Vec<(Number, usize)>,
}

impl Default for Door {
    /// A door without events, and with sockets outside.
    fn default() -> Door {
        let inner = Inner {
            is_open: true,
            waiting: Vec::new(),
            log: Vec::new(),
            given: 0,
            connections: 0,
            sent: Vec::new(),
            unread: Vec::new(),
        };
        Door { inner: Mutex::new(inner) }
    }
}

impl Door {
    /// From now on the run is repeated: the log is all that comes from outside, and what the guest sends goes nowhere.
    pub fn close(&self) {
        let mut inner = self.inner();
        inner.is_open = false;
        inner.waiting.clear();
        inner.sent.clear();
    }

    /// Like [`Door::close`], with the log of a recorded run, in the order of time.
    pub fn close_with(&self, log: Vec<Came>) {
        self.close();
        self.inner().log = log;
    }

    /// Whether there are connections to sockets outside.
    pub fn is_tied(&self) -> bool {
        let inner = self.inner();
        inner.is_open && inner.connections > 0
    }

    /// Notes the number of connections.
    pub(super) fn set_connections(&self, connections: usize) {
        self.inner().connections = connections;
    }

    /// Brings an event to the network, which takes it at its next step.
    pub fn bring(&self, connection: Number, event: Event) {
        let mut inner = self.inner();
        if let Event::Bytes(bytes) = &event
            && let Some(unread) = inner.unread(connection)
        {
            *unread += bytes.len();
        }
        inner.waiting.push((connection, event));
    }

    /// The number of bytes that were brought to a connection and that the guest has not got yet.
    pub fn unread(&self, connection: Number) -> usize {
        self.inner().unread(connection).map_or(0, |unread| *unread)
    }

    /// Takes what the guest has sent.
    pub fn take_sent(&self) -> Vec<(Number, Sent)> {
        std::mem::take(&mut self.inner().sent)
    }

    /// The events that the network has taken since the last call, for a recording.
    pub fn take_new(&self) -> Vec<Came> {
        let mut inner = self.inner();
        let new = inner.log.get(inner.given..).unwrap_or_default().to_vec();
        inner.given = inner.log.len();
        new
    }

    /// Forgets the events that were given out. A run that is not repeated does not need them.
    pub fn forget_given(&self) {
        let mut inner = self.inner();
        let given = std::mem::take(&mut inner.given);
        inner.log.drain(..given);
    }

    /// The events of the network's first step at this time. `is_repeated`: the step was made before.
    pub(super) fn take(&self, now: u64, is_repeated: bool) -> Vec<(Number, Event)> {
        let mut inner = self.inner();
        if inner.is_open && !is_repeated {
            let events = std::mem::take(&mut inner.waiting);
            let came = |(connection, event): &(Number, Event)| Came { now, connection: *connection, event: event.clone() };
            inner.log.extend(events.iter().map(came));
            return events;
        }
        let first = inner.log.partition_point(|came| came.now < now);
        let taken = inner.log.iter().skip(first).take_while(|came| came.now == now);
        taken.map(|came| (came.connection, came.event.clone())).collect()
    }

    /// The guest sends something on a connection.
    pub(super) fn send(&self, connection: Number, sent: Sent) {
        let mut inner = self.inner();
        if inner.is_open {
            match sent {
                Sent::Open(_) => inner.unread.push((connection, 0)),
                Sent::Closed => inner.unread.retain(|(number, _)| *number != connection),
                Sent::Bytes(_) | Sent::Ended => {}
            }
            inner.sent.push((connection, sent));
        }
    }

    /// The guest has got this many bytes of a connection.
    pub(super) fn has_read(&self, connection: Number, bytes: usize) {
        if let Some(unread) = self.inner().unread(connection) {
            *unread = unread.saturating_sub(bytes);
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// The number of bytes that an open connection's guest has not got yet.
    fn unread(&mut self, connection: Number) -> Option<&mut usize> {
        self.unread.iter_mut().find(|(number, _)| *number == connection).map(|(_, bytes)| bytes)
    }
}

const OPENED: u8 = 0;
const REFUSED: u8 = 1;
const BYTES: u8 = 2;
const ENDED: u8 = 3;
const LOST: u8 = 4;

impl Came {
    /// The form in a recording: the time, the connection, the kind of the event, its bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let (kind, bytes): (u8, &[u8]) = match &self.event {
            Event::Opened => (OPENED, &[]),
            Event::Refused => (REFUSED, &[]),
            Event::Bytes(bytes) => (BYTES, bytes),
            Event::Ended => (ENDED, &[]),
            Event::Lost => (LOST, &[]),
        };
        [&self.now.to_le_bytes()[..], &self.connection.to_le_bytes(), &[kind], bytes].concat()
    }

    /// Reads the form in a recording. `None` if it is damaged.
    pub fn from_bytes(bytes: &[u8]) -> Option<Came> {
        let (now, rest) = bytes.split_first_chunk()?;
        let (connection, rest) = rest.split_first_chunk()?;
        let (kind, rest) = rest.split_first()?;
        let event = match (*kind, rest.is_empty()) {
            (OPENED, true) => Event::Opened,
            (REFUSED, true) => Event::Refused,
            (BYTES, false) => Event::Bytes(rest.to_vec()),
            (ENDED, true) => Event::Ended,
            (LOST, true) => Event::Lost,
            _ => return None,
        };
        Some(Came { now: u64::from_le_bytes(*now), connection: u64::from_le_bytes(*connection), event })
    }
}
