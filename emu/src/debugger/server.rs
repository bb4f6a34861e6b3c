//! Serves one session with gdb over a connection: a socket, or the standard streams ([`Streams`]).

use super::Debugger;
use crate::history::timeline::TimelineError;
use gdbstub::conn::{Connection, ConnectionExt};
use gdbstub::stub::run_blocking::{BlockingEventLoop, Event, WaitForStopReasonError};
use gdbstub::stub::{DisconnectReason, GdbStub, MultiThreadStopReason};
use std::collections::VecDeque;
use std::io;
use std::marker::PhantomData;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;
use thiserror::Error;

/// The way in which a session with gdb has ended.
#[derive(Debug)]
pub enum Served {
    /// gdb has detached or closed the connection.
    Gone,
    /// The user has killed the guest in gdb.
    Killed,
}

/// The reason why gdb cannot be answered any more.
#[derive(Debug, Error)]
pub enum ServeError {
    /// The timeline failed.
    #[error("{0}")]
    Guest(#[from] TimelineError),
    /// The other side does not speak gdb's protocol.
    #[error("the other side does not speak gdb's protocol: {0}")]
    Protocol(String),
}

/// Answers gdb until it goes. Breakpoints of an earlier session are forgotten.
pub fn serve<C>(debugger: &mut Debugger, connection: C) -> Result<Served, ServeError>
where
    C: ConnectionExt<Error = io::Error> + 'static,
{
    debugger.begin_session();
    match GdbStub::new(connection).run_blocking::<Loop<C>>(debugger) {
        Ok(DisconnectReason::Kill) => Ok(Served::Killed),
        Ok(_) => Ok(Served::Gone),
        // gdb closes the connection without a word when it is killed.
        Err(error) if error.is_connection_error() => Ok(Served::Gone),
        Err(error) if !error.is_target_error() => {
            let text = error.to_string();
            Err(ServeError::Protocol(text.split(". ").next().unwrap_or_default().to_string()))
        }
        Err(error) => match error.into_target_error() {
            Some(error) => Err(ServeError::Guest(error)),
            None => Ok(Served::Gone),
        },
    }
}

/// The limit of bytes that gdb may have sent before the first answer.
const MOST_REPEATED: usize = 65_536;

struct Loop<C>(PhantomData<C>);

impl<C> BlockingEventLoop for Loop<C>
where
    C: ConnectionExt<Error = io::Error>,
{
    type Target = Debugger;
    type Connection = C;
    type StopReason = MultiThreadStopReason<u64>;

    fn wait_for_stop_reason(
        debugger: &mut Debugger,
        connection: &mut C,
    ) -> Result<Event<Self::StopReason>, WaitForStopReasonError<TimelineError, io::Error>> {
        loop {
            let mut failed = None;
            let mut goes_on = || match connection.peek() {
                Ok(byte) => byte.is_none(),
                Err(error) => {
                    failed = Some(error);
                    false
                }
            };
            let stop = debugger.resume_for(&mut goes_on).map_err(WaitForStopReasonError::Target)?;
            if let Some(error) = failed {
                return Err(WaitForStopReasonError::Connection(error));
            }
            if let Some(stop) = stop {
                return Ok(Event::TargetStopped(stop));
            }
            if connection.peek().map_err(WaitForStopReasonError::Connection)?.is_some() {
                return Ok(Event::IncomingData(connection.read().map_err(WaitForStopReasonError::Connection)?));
            }
        }
    }

    fn on_interrupt(debugger: &mut Debugger) -> Result<Option<Self::StopReason>, TimelineError> {
        Ok(Some(debugger.interrupted()))
    }
}

/// Keeps a gdb at the standard streams waiting while the guest boots; dropping it ends that.
///
/// gdb gives up if it receives nothing for two seconds. So a thread sends acknowledgements (`+`), which gdb does not take for
/// an answer, but which restart its timeout.
#[derive(Debug)]
pub struct Patience {
    /// Ends the thread when it is dropped.
    lasts: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Patience {
    /// The time between two acknowledgements.
    const INTERVAL: Duration = Duration::from_millis(500);

    /// Begins to send acknowledgements.
    pub fn begin() -> Patience {
        let (lasts, ends) = channel();
        let thread = std::thread::spawn(move || {
            while ends.recv_timeout(Patience::INTERVAL) == Err(RecvTimeoutError::Timeout) {
                let mut output = io::stdout().lock();
                if io::Write::write_all(&mut output, b"+").and_then(|()| io::Write::flush(&mut output)).is_err() {
                    return;
                }
            }
        });
        Patience { lasts: Some(lasts), thread: Some(thread) }
    }
}

impl Drop for Patience {
    fn drop(&mut self) {
        drop(self.lasts.take());
        if let Some(thread) = self.thread.take() {
            // It has no result.
            let _ = thread.join();
        }
    }
}

/// The standard streams as the connection, for gdb's `target remote | trapline ...`.
#[derive(Debug, Default)]
pub struct Streams {
    /// Bytes that were read from standard input but not returned yet.
    peeked: VecDeque<u8>,
}

impl Streams {
    /// The streams of a gdb that had to wait for the guest. It has repeated its packet meanwhile, so all bytes before the last
    /// packet are dropped.
    pub fn after_waiting() -> io::Result<Streams> {
        let mut peeked = VecDeque::new();
        while peeked.len() < MOST_REPEATED && is_waiting()? {
            peeked.push_back(next_byte()?);
        }
        if let Some(last) = peeked.iter().rposition(|byte| *byte == b'$') {
            peeked.drain(..last);
        }
        Ok(Streams { peeked })
    }
}

impl Connection for Streams {
    type Error = io::Error;

    fn write(&mut self, byte: u8) -> io::Result<()> {
        self.write_all(&[byte])
    }

    fn write_all(&mut self, buf: &[u8]) -> io::Result<()> {
        io::Write::write_all(&mut io::stdout().lock(), buf)
    }

    fn flush(&mut self) -> io::Result<()> {
        io::Write::flush(&mut io::stdout().lock())
    }
}

impl ConnectionExt for Streams {
    fn read(&mut self) -> io::Result<u8> {
        match self.peeked.pop_front() {
            Some(byte) => Ok(byte),
            None => next_byte(),
        }
    }

    fn peek(&mut self) -> io::Result<Option<u8>> {
        if self.peeked.is_empty() && is_waiting()? {
            self.peeked.push_back(next_byte()?);
        }
        Ok(self.peeked.front().copied())
    }
}

fn next_byte() -> io::Result<u8> {
    let mut byte = [0];
    match rustix::io::read(rustix::stdio::stdin(), &mut byte)? {
        1 => Ok(byte[0]),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

fn is_waiting() -> io::Result<bool> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let input = rustix::stdio::stdin();
    let mut waits = [PollFd::new(&input, PollFlags::IN)];
    Ok(poll(&mut waits, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))? > 0)
}
