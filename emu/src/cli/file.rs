//! Reads files given on the command line. An attacker may have made them, so each kind has a size limit, and a pipe that stays
//! silent ends with an error.

use super::Failure;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

/// The kind of a file argument: its name in errors, and its largest size.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// Its name in errors.
    pub name: &'static str,
    /// The largest size in bytes.
    pub most: u64,
}

impl Kind {
    pub const KERNEL: Kind = Kind { name: "a kernel", most: 4 << 30 };
    pub const SYMBOLS: Kind = Kind { name: "a table of symbols", most: 1 << 30 };
    pub const TYPES: Kind = Kind { name: "type information (BTF)", most: 1 << 30 };
    pub const INITRD: Kind = Kind { name: "an initial file system or a file for the guest", most: 1 << 30 };
    pub const SHELL_SCRIPT: Kind = Kind { name: "a shell script", most: 1 << 30 };
    pub const MODULE: Kind = Kind { name: "a kernel module", most: 256 << 20 };
    pub const SCRIPT: Kind = Kind { name: "a script", most: 64 << 20 };
    pub const RECORDING: Kind = Kind { name: "a recording", most: 16 << 30 };
    pub const KEYS: Kind = Kind { name: "console input", most: 64 << 20 };
}

/// The largest number of bytes that is read from a pipe or another special file, whose size is not known in advance.
const MOST_PIPED: u64 = 256 << 20;
/// The longest time for which a pipe or a device may stay silent.
const SILENCE: Duration = Duration::from_secs(10);
/// Bytes that are taken from a pipe at a time.
const CHUNK: usize = 1 << 16;

/// Makes a path absolute. A path for which that is impossible stays as it is.
pub fn make_absolute(path: &mut PathBuf) {
    if let Ok(absolute) = std::path::absolute(&*path) {
        *path = absolute;
    }
}

/// The bytes of a file.
pub fn read(path: &Path, kind: Kind) -> Result<Vec<u8>, Failure> {
    bytes(path, kind).map_err(|error| Failure::usage(format!("`{}` cannot be read as {}: {error}", path.display(), kind.name)))
}

/// The bytes of standard input. It has no time limit, because a person may type it.
pub fn standard_input(kind: Kind) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    io::stdin().take(kind.most + 1).read_to_end(&mut bytes)?;
    at_most(bytes, kind.most)
}

/// Reads a file of this kind and returns the system's own error, for callers that word it themselves.
pub fn bytes(path: &Path, kind: Kind) -> io::Result<Vec<u8>> {
    let about = fs::metadata(path)?;
    if about.is_dir() {
        return Err(io::Error::new(io::ErrorKind::IsADirectory, "it is a directory"));
    }
    if !about.is_file() {
        return piped(path, kind.most.min(MOST_PIPED));
    }
    if about.len() > kind.most {
        return Err(too_large(format!("it has {} bytes, and at most {} are read", about.len(), kind.most)));
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(kind.most + 1).read_to_end(&mut bytes)?;
    at_most(bytes, kind.most)
}

/// The bytes of a pipe or a device. Another thread reads them, because opening a pipe may block forever.
fn piped(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let (sender, chunks) = sync_channel(16);
    let path = path.to_path_buf();
    thread::Builder::new().name("reader".into()).spawn(move || {
        if let Err(error) = send(&path, most + 1, &sender) {
            // Nobody listens any more: the reader was too slow, and has been given up.
            let _ = sender.send(Err(error));
        }
    })?;
    let mut bytes = Vec::new();
    loop {
        match chunks.recv_timeout(SILENCE) {
            Ok(chunk) => bytes.append(&mut chunk?),
            Err(RecvTimeoutError::Disconnected) => return at_most(bytes, most),
            Err(RecvTimeoutError::Timeout) => {
                let why = format!("it is a pipe or a device, and gave nothing for {} seconds", SILENCE.as_secs());
                return Err(io::Error::new(io::ErrorKind::TimedOut, why));
            }
        }
    }
}

fn send(path: &Path, most: u64, to: &SyncSender<io::Result<Vec<u8>>>) -> io::Result<()> {
    let mut file = File::open(path)?.take(most);
    loop {
        let mut chunk = vec![0; CHUNK];
        let length = file.read(&mut chunk)?;
        chunk.truncate(length);
        if length == 0 || to.send(Ok(chunk)).is_err() {
            return Ok(());
        }
    }
}

fn at_most(bytes: Vec<u8>, most: u64) -> io::Result<Vec<u8>> {
    if bytes.len() as u64 > most { Err(too_large(format!("it has more than {most} bytes"))) } else { Ok(bytes) }
}

fn too_large(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::FileTooLarge, why)
}
