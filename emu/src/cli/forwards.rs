//! `--net forward=PORT`: the sockets behind a guest's connections to ports of the host.
//!
//! Sockets are on the host's loopback only. A thread for each reads it, because a run must not wait for one. While there are
//! connections, guest time does not run ahead of wall-clock time, so that the guest's timeouts mean what they say.

use super::console::Pace;
use super::paint::Paint;
use crate::network::door::{Door, Event, Number, Sent};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

/// The longest wait for a socket to be connected, or for a full one to take more.
const PATIENCE: Duration = Duration::from_secs(5);
/// The longest wait for bytes, because a waiting guest has timers to serve.
const LONGEST_WAIT: Duration = Duration::from_millis(50);
/// Bytes that are read at once, and how many such pieces wait for a guest that reads slowly.
const PIECE: usize = 16 << 10;
const MOST_PIECES: usize = 4;
/// A guest that has this many unread bytes gets no more until it has read some.
const MOST_UNREAD: usize = 256 << 10;

/// The sockets of a run.
pub struct Forwards {
    door: Arc<Door>,
    open: BTreeMap<Number, Connection>,
    pace: Pace,
}

struct Connection {
    socket: TcpStream,
    /// Receives the pieces that the socket's thread reads. The thread hangs up behind the last one.
    read: Receiver<Event>,
    /// Whether all of it was brought to the guest.
    has_ended: bool,
}

impl Forwards {
    /// No sockets yet, for this door.
    pub fn new(door: Arc<Door>) -> Forwards {
        Forwards { door, open: BTreeMap::new(), pace: Pace::new(Instant::now()) }
    }

    /// Does what the guest has asked for, and brings it what came. Waits if guest time, in nanoseconds, is ahead.
    pub fn carry(&mut self, virtual_ns: u64) {
        for (number, sent) in self.door.take_sent() {
            self.send(number, sent);
        }
        if self.open.is_empty() {
            return;
        }
        let ahead = self.pace.ahead(virtual_ns, Instant::now());
        let deadline = Instant::now() + ahead.unwrap_or_default().min(LONGEST_WAIT);
        while !self.bring() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            thread::park_timeout(left);
        }
    }

    /// The events that the network has taken since the last call, as a recording holds them. `is_kept`: they are needed again,
    /// because the run may be repeated.
    pub fn came(&self, is_kept: bool) -> impl Iterator<Item = Vec<u8>> + use<> {
        let came = self.door.take_new();
        if !is_kept {
            self.door.forget_given();
        }
        came.into_iter().map(|came| came.to_bytes())
    }

    fn send(&mut self, number: Number, sent: Sent) {
        match sent {
            Sent::Open(port) => match Connection::open(port) {
                Ok(connection) => {
                    self.open.insert(number, connection);
                    self.door.bring(number, Event::Opened);
                }
                Err(_) => self.door.bring(number, Event::Refused),
            },
            Sent::Bytes(bytes) => {
                let written = self.open.get_mut(&number).map(|connection| connection.socket.write_all(&bytes));
                if let Some(Err(_)) = written {
                    self.open.remove(&number);
                    self.door.bring(number, Event::Lost);
                }
            }
            Sent::Ended => {
                if let Some(connection) = self.open.get(&number) {
                    // It fails if the other side has broken the connection, which its thread reads.
                    let _ = connection.socket.shutdown(Shutdown::Write);
                }
            }
            Sent::Closed => drop(self.open.remove(&number)),
        }
    }

    /// Brings what was read. Returns whether there was something.
    fn bring(&mut self) -> bool {
        let mut has_brought = false;
        for (number, connection) in self.open.iter_mut().filter(|(_, connection)| !connection.has_ended) {
            while self.door.unread(*number) < MOST_UNREAD {
                let event = match connection.read.try_recv() {
                    Ok(event) => event,
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => Event::Lost,
                };
                has_brought = true;
                connection.has_ended = !matches!(event, Event::Bytes(_));
                self.door.bring(*number, event);
                if connection.has_ended {
                    break;
                }
            }
        }
        has_brought
    }
}

impl Connection {
    /// Connects to a port of the loopback, and starts the thread that reads.
    fn open(port: u16) -> std::io::Result<Connection> {
        let socket = TcpStream::connect_timeout(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)), PATIENCE)?;
        socket.set_nodelay(true)?;
        socket.set_write_timeout(Some(PATIENCE))?;
        let (pieces, read) = sync_channel(MOST_PIECES);
        let (from, waiting) = (socket.try_clone()?, thread::current());
        thread::Builder::new().name(format!("port {port}")).spawn(move || read_all(from, &pieces, &waiting))?;
        Ok(Connection { socket, read, has_ended: false })
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // The thread's read ends by this. It fails if the connection is broken already.
        let _ = self.socket.shutdown(Shutdown::Both);
    }
}

/// Reads a socket to its end, and wakes the thread that waits for it.
fn read_all(mut socket: TcpStream, pieces: &SyncSender<Event>, waiting: &Thread) {
    let mut bytes = vec![0; PIECE];
    loop {
        let event = match socket.read(&mut bytes) {
            Ok(0) => Event::Ended,
            Ok(read) => Event::Bytes(bytes[..read].to_vec()),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(_) => Event::Lost,
        };
        let is_last = !matches!(event, Event::Bytes(_));
        // The run has dropped a connection that the guest has closed.
        if pieces.send(event).is_err() {
            return;
        }
        waiting.unpark();
        if is_last {
            return;
        }
    }
}

/// Says on standard error that a run with forwarded ports does not repeat unless it is recorded.
pub fn say_what_repeats(is_recorded: bool) {
    if !is_recorded {
        let note = Paint::for_errors().advice("note:");
        eprintln!(
            "{note} --net forward: this run reaches sockets of the host, so it repeats only if it is recorded (--record FILE)"
        );
    }
}
