//! The servers' end of ARP, ping and TCP: smoltcp, with a web server on its connections, and connections to forwarded ports.

use super::forwarded::Forwarded;
use super::http::Exchange;
use super::wire::Wire;
use super::{ETHERNET, GATEWAY, NAME_SERVER, PREFIX};
use crate::devices::virtio::ninep::Tree;
use smoltcp::iface::{Config, Interface, PollResult, SocketHandle, SocketSet};
use smoltcp::socket::tcp::{Socket, SocketBuffer, State};
use smoltcp::time::{Duration, Instant};
use smoltcp::wire::{HardwareAddress, IpAddress, IpCidr};
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

/// The port of the web server.
pub const HTTP: u16 = 80;
/// The most connections at a time. A further one is refused.
const MOST_CONNECTIONS: usize = 16;
/// Bytes of a connection's buffers.
const RECEIVED_BYTES: usize = 8 << 10;
const SENT_BYTES: usize = 64 << 10;
/// The most rounds of a step, each of which gives servers and connections their turn.
const MOST_ROUNDS: usize = 64;
/// A guest that does not answer for this long has lost its connection.
const TIMEOUT: Duration = Duration::from_secs(60);
const SEED: u64 = 33;

/// The stack with its connections.
pub struct Stack {
    interface: Interface,
    sockets: SocketSet<'static>,
    connections: Vec<(SocketHandle, Exchange)>,
    wire: Wire,
    www: Option<Arc<dyn Tree>>,
    forwarded: Option<Forwarded>,
    next: Option<u64>,
}

impl fmt::Debug for Stack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stack").field("connections", &self.connections).field("next", &self.next).finish_non_exhaustive()
    }
}

impl Stack {
    /// A stack without connections, whose web server shows this folder, and with these ports of the host.
    pub fn new(www: Option<Arc<dyn Tree>>, forwarded: Option<Forwarded>) -> Stack {
        let mut wire = Wire::default();
        let mut config = Config::new(HardwareAddress::Ethernet(ETHERNET));
        config.random_seed = SEED;
        let mut interface = Interface::new(config, &mut wire, Instant::ZERO);
        interface.update_ip_addrs(|addresses| {
            for address in [GATEWAY, NAME_SERVER] {
                // There is room for two.
                let _ = addresses.push(IpCidr::new(address.into(), PREFIX));
            }
        });
        let mut sockets = SocketSet::new(Vec::new());
        let connections = (0..MOST_CONNECTIONS).map(|_| (sockets.add(listener(HTTP)), Exchange::default())).collect();
        Stack { interface, sockets, connections, wire, www, forwarded, next: None }
    }

    /// Takes a frame, or only lets time pass. Returns the frames to the guest.
    pub fn step(&mut self, now: u64, frame: Option<&[u8]>) -> Vec<Vec<u8>> {
        let at = Instant::from_micros(i64::try_from(now / 1000).unwrap_or(i64::MAX));
        let is_held = self.forward(now, at, frame);
        let frame = frame.filter(|_| !is_held);
        self.wire.incoming = frame.map(<[u8]>::to_vec).into_iter().collect();
        for _ in 0..MOST_ROUNDS {
            let has_changed = self.interface.poll(at, &mut self.wire, &mut self.sockets) == PollResult::SocketStateChanged;
            if !self.serve() && !has_changed {
                break;
            }
        }
        let next = self.interface.poll_at(at, &self.sockets);
        let next = next.map(|next| u64::try_from(next.total_micros()).unwrap_or(0).saturating_mul(1000));
        let look = self.forwarded.as_ref().and_then(|forwarded| forwarded.next(now));
        self.next = next.into_iter().chain(look).min();
        std::mem::take(&mut self.wire.outgoing)
    }

    /// Takes what has come from the host's sockets. Returns whether the frame waits for one of them.
    fn forward(&mut self, now: u64, at: Instant, frame: Option<&[u8]>) -> bool {
        let Some(forwarded) = &mut self.forwarded else { return false };
        // One request at a time, so that each gets the socket that was made for it.
        forwarded.take(now, &mut self.sockets, |request, sockets| {
            self.wire.incoming = VecDeque::from([request]);
            self.interface.poll(at, &mut self.wire, sockets);
        });
        frame.is_some_and(|frame| forwarded.holds(now, frame))
    }

    /// Its forwarded ports without connections, for a stack that begins anew.
    pub fn ports(&self) -> Option<Forwarded> {
        self.forwarded.as_ref().map(Forwarded::anew)
    }

    /// Its forwarded connections, if it has forwarded ports.
    pub fn forwarded(&self) -> Option<&Forwarded> {
        self.forwarded.as_ref()
    }

    /// Says whether the next steps were made before.
    pub fn repeats(&mut self, is_repeated: bool) {
        if let Some(forwarded) = &mut self.forwarded {
            forwarded.repeats(is_repeated);
        }
    }

    /// The time in nanoseconds at which the stack acts by itself.
    pub fn next(&self) -> Option<u64> {
        self.next
    }

    /// Whether there is no connection.
    pub fn is_at_rest(&self) -> bool {
        let listens = |handle| self.sockets.get::<Socket<'_>>(handle).is_listening();
        self.connections.iter().all(|(handle, _)| listens(*handle)) && self.forwarded.as_ref().is_none_or(Forwarded::is_empty)
    }

    /// Gives each connection its turn. Returns whether one of them has done something.
    fn serve(&mut self) -> bool {
        let www = self.www.as_deref();
        let mut has_acted = false;
        for (handle, exchange) in &mut self.connections {
            let socket = self.sockets.get_mut::<Socket<'_>>(*handle);
            if [State::Closed, State::TimeWait].contains(&socket.state()) {
                (*socket, *exchange) = (listener(HTTP), Exchange::default());
                has_acted = true;
                continue;
            }
            has_acted |= converse(socket, exchange, www);
        }
        has_acted | self.forwarded.as_mut().is_some_and(|forwarded| forwarded.serve(&mut self.sockets))
    }
}

/// Receives and sends what can be received and sent now. Returns whether there was something.
fn converse(socket: &mut Socket<'static>, exchange: &mut Exchange, www: Option<&dyn Tree>) -> bool {
    let mut has_acted = false;
    while socket.can_recv() {
        has_acted = true;
        if socket.recv(|bytes| (bytes.len(), exchange.take(bytes, www))).is_err() {
            break;
        }
    }
    while socket.can_send() && exchange.has_answer() && !exchange.is_done() {
        has_acted = true;
        let sent = socket.send(|into| match exchange.fill(into, www) {
            Ok(bytes) => (bytes, true),
            Err(_) => (0, false),
        });
        if sent != Ok(true) {
            socket.abort();
            return true;
        }
    }
    let is_over = exchange.is_done() || !exchange.has_answer() && !socket.may_recv();
    if is_over && [State::Established, State::CloseWait].contains(&socket.state()) {
        socket.close();
        has_acted = true;
    }
    has_acted
}

/// A socket that waits for a connection to this port.
pub fn listener(port: u16) -> Socket<'static> {
    let buffer = |bytes: usize| SocketBuffer::new(vec![0; bytes]);
    let mut socket = Socket::new(buffer(RECEIVED_BYTES), buffer(SENT_BYTES));
    socket.set_timeout(Some(TIMEOUT));
    socket.set_ack_delay(None);
    // It fails only for a port of 0 or for an open socket.
    let _ = socket.listen((IpAddress::Ipv4(GATEWAY), port));
    socket
}
