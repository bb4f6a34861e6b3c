//! A folder of the host (virtio 1.2, section 5.14 refers to 9P): the device takes messages of 9P2000.L from its queue and
//! answers them by a [`Server`]. The guest only reads.

mod server;
mod wire;

pub use server::Server;
pub use wire::errors;

use super::AttachError;
use super::queue::Chain;
use serde::{Deserialize, Serialize};
use std::fmt::Debug;
use std::io;
use std::sync::Arc;
use trapline_isa::mem::Memory;

/// The device has a name for the guest to mount it by.
const HAS_TAG: u64 = 1;
/// The longest name, in bytes. Linux takes no longer one on its command line of mount.
pub const LONGEST_TAG: usize = 31;

/// A Linux error number, as most ISAs have it.
pub type ErrorNumber = u32;

/// The attributes of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// The type and the permissions, as in `st_mode`.
    pub mode: u32,
    /// The owner.
    pub user: u32,
    /// The number of the group (gid).
    pub group: u32,
    /// The device number of a device file.
    pub device: u64,
    /// The number of bytes of a regular file, or of a symbolic link's target.
    pub bytes: u64,
}

/// The type bits of a mode, and the types of folders, files and symbolic links.
pub const TYPE: u32 = 0o170_000;
/// A folder.
pub const FOLDER: u32 = 0o040_000;
/// A regular file.
pub const FILE: u32 = 0o100_000;
/// A symbolic link.
pub const LINK: u32 = 0o120_000;

/// A folder whose contents stay as they are while the guest runs. Paths are names from the folder on; the empty path is the
/// folder itself. No name is empty, `.` or `..`, and none holds a slash.
pub trait Tree: Debug + Send + Sync {
    /// The attributes of a file. A symbolic link is not followed, also not in the middle of the path.
    fn attributes(&self, path: &[Vec<u8>]) -> Result<Attributes, ErrorNumber>;
    /// The names in a folder with the types of their modes, sorted by name.
    fn list(&self, path: &[Vec<u8>]) -> Result<Vec<(Vec<u8>, u32)>, ErrorNumber>;
    /// Fills `into` with a regular file's bytes from this offset on. Returns how many there were.
    fn read(&self, path: &[Vec<u8>], offset: u64, into: &mut [u8]) -> Result<usize, ErrorNumber>;
    /// The target of a symbolic link.
    fn target(&self, path: &[Vec<u8>]) -> Result<Vec<u8>, ErrorNumber>;
    /// A checksum that identifies the contents.
    fn checksum(&self) -> io::Result<String>;
}

/// A folder to attach.
#[derive(Clone, Debug)]
pub struct Folder {
    /// The contents.
    pub tree: Arc<dyn Tree>,
    /// The name by which the guest mounts it.
    pub tag: String,
}

impl Folder {
    /// The identity of the folder, for the key of a snapshot.
    pub fn identity(&self) -> Result<String, AttachError> {
        let checksum = self.tree.checksum().map_err(|error| AttachError::Unreadable(error.to_string()))?;
        Ok(format!("folder {} {checksum}", self.tag))
    }
}

/// The folder as a device.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NineP {
    tag: String,
    server: Server,
}

impl NineP {
    /// A folder that the guest has not mounted.
    pub fn new(folder: Folder) -> NineP {
        NineP { tag: folder.tag, server: Server::new(folder.tree) }
    }

    /// Sets the error numbers of the guest's kernel that differ from those of most ISAs: the usual number, the guest's.
    pub fn number_errors(&mut self, numbers: &'static [(ErrorNumber, ErrorNumber)]) {
        self.server.number_errors(numbers);
    }

    /// Whether a device could be in this state. A damaged snapshot may hold another state.
    pub fn is_sound(&self) -> bool {
        self.tag.len() <= LONGEST_TAG && self.server.is_sound()
    }

    /// Takes over the folder of the device that this restored one replaces. Fails if that is another folder.
    pub fn adopt(&mut self, other: &NineP) -> Result<(), AttachError> {
        if self.tag != other.tag {
            return Err(AttachError::Kind);
        }
        self.server.adopt(&other.server)
    }

    /// The feature bits.
    pub fn features(&self) -> u64 {
        HAS_TAG
    }

    /// The configuration space: the tag.
    pub fn configuration(&self) -> Vec<u8> {
        [&(self.tag.len() as u16).to_le_bytes()[..], self.tag.as_bytes()].concat()
    }

    /// Answers a message. Returns the number of bytes written to its buffers. A message without room for an answer is lost.
    pub fn handle(&mut self, chain: &Chain, memory: &mut dyn Memory) -> u32 {
        let most = u64::from(server::MOST_MESSAGE);
        let mut message = vec![0; chain.readable.bytes().min(most) as usize];
        if chain.readable.read(memory, 0, &mut message).is_err() {
            return 0;
        }
        let answer = self.server.answer(&message, chain.writable.bytes().min(most) as usize);
        match chain.writable.write(memory, 0, &answer) {
            Ok(()) => answer.len() as u32,
            Err(_) => 0,
        }
    }
}

#[cfg(test)]
mod tests;
