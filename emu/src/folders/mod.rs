//! Folders on the host that a guest reads, without ever leaving them.
//!
//! Each access goes from the folder's own descriptor to the file name by name, and no step follows a symbolic link or takes
//! a name with a slash or `..`. So the way cannot lead outside, whatever the guest asks for and whatever another program changes
//! on the host meanwhile. Other file systems that are mounted in the folder are shown as empty folders. Only regular files are
//! opened for reading.

use crate::devices::virtio::ninep::{Attributes, ErrorNumber, FILE, FOLDER, LINK, TYPE, Tree, errors};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat, fstat, open, openat, readlinkat, statat};
use rustix::io::Errno;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, OnceLock};

/// The deepest folder whose contents count for a checksum.
const DEEPEST: usize = 256;

/// Opens a folder. Fails if the path does not name a folder, or if the host refuses.
pub fn open_folder(path: &Path) -> io::Result<Arc<dyn Tree>> {
    Ok(Arc::new(HostFolder::new(path)?))
}

/// A folder on the host.
#[derive(Debug)]
struct HostFolder {
    root: OwnedFd,
    /// The device of the folder's file system.
    device: u64,
    /// The owner and the group of the folder, which the guest sees as root's.
    owner: (u32, u32),
    checksum: OnceLock<String>,
}

/// Flags for a descriptor that only names a file.
const NAMES: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

impl HostFolder {
    fn new(path: &Path) -> io::Result<HostFolder> {
        let root = open(path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        let stat = fstat(&root)?;
        Ok(HostFolder { root, device: stat.st_dev, owner: (stat.st_uid, stat.st_gid), checksum: OnceLock::new() })
    }

    /// A descriptor that names a file of the folder, with the file's attributes.
    fn find(&self, path: &[Vec<u8>]) -> Result<(Found<'_>, Stat), Errno> {
        let mut at = Found::Root(self.root.as_fd());
        let mut stat = fstat(at.as_fd())?;
        for name in path {
            if stat.st_dev != self.device {
                return Err(Errno::NOENT);
            }
            // A symbolic link is named here and not followed: the next step then fails, because it is no folder.
            at = Found::Below(openat(at.as_fd(), &name[..], NAMES, Mode::empty())?);
            stat = fstat(at.as_fd())?;
        }
        Ok((at, stat))
    }

    fn seen(&self, stat: &Stat) -> Attributes {
        let (user, group) = self.owner;
        Attributes {
            mode: stat.st_mode,
            user: if stat.st_uid == user { 0 } else { stat.st_uid },
            group: if stat.st_gid == group { 0 } else { stat.st_gid },
            device: stat.st_rdev,
            bytes: u64::try_from(stat.st_size).unwrap_or(0),
        }
    }

    /// Adds the names and the attributes of all files below a folder to a checksum. A change of a file's contents changes
    /// its attributes, because it changes the time of its last change.
    fn sum(&self, path: &mut Vec<Vec<u8>>, sum: &mut blake3::Hasher) -> Result<(), Errno> {
        if path.len() > DEEPEST {
            return Err(Errno::NAMETOOLONG);
        }
        for (name, kind) in self.names(path)? {
            sum.update(&(path.len() as u64).to_le_bytes()).update(&(name.len() as u64).to_le_bytes()).update(&name);
            path.push(name);
            let (_, stat) = self.find(path)?;
            let Attributes { mode, user, group, device, bytes } = self.seen(&stat);
            sum.update(&[mode, user, group].map(u32::to_le_bytes).concat()).update(&device.to_le_bytes());
            if mode & TYPE != FOLDER {
                let (seconds, nanoseconds) = (stat.st_ctime as u64, stat.st_ctime_nsec);
                sum.update(&[bytes, seconds, nanoseconds].map(u64::to_le_bytes).concat());
            }
            if kind == FOLDER {
                self.sum(path, sum)?;
            }
            path.pop();
        }
        Ok(())
    }

    fn names(&self, path: &[Vec<u8>]) -> Result<Vec<(Vec<u8>, u32)>, Errno> {
        let (at, stat) = self.find(path)?;
        if stat.st_mode & TYPE != FOLDER {
            return Err(Errno::NOTDIR);
        }
        if stat.st_dev != self.device {
            return Ok(Vec::new());
        }
        let mut names = Vec::new();
        let folder = openat(at.as_fd(), c".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        for entry in Dir::new(folder)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            let kind = match entry.file_type() {
                FileType::Unknown => statat(at.as_fd(), entry.file_name(), AtFlags::SYMLINK_NOFOLLOW)?.st_mode & TYPE,
                kind => kind.as_raw_mode() & TYPE,
            };
            names.push((name.to_vec(), kind));
        }
        names.sort();
        Ok(names)
    }
}

/// A descriptor that names a file of a folder: the folder's own one, or one below.
enum Found<'a> {
    Root(BorrowedFd<'a>),
    Below(OwnedFd),
}

impl AsFd for Found<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Found::Root(fd) => *fd,
            Found::Below(fd) => fd.as_fd(),
        }
    }
}

fn number(error: Errno) -> ErrorNumber {
    u32::try_from(error.raw_os_error()).unwrap_or(errors::IO)
}

impl Tree for HostFolder {
    fn attributes(&self, path: &[Vec<u8>]) -> Result<Attributes, ErrorNumber> {
        let (_, stat) = self.find(path).map_err(number)?;
        Ok(self.seen(&stat))
    }

    fn list(&self, path: &[Vec<u8>]) -> Result<Vec<(Vec<u8>, u32)>, ErrorNumber> {
        self.names(path).map_err(number)
    }

    fn read(&self, path: &[Vec<u8>], offset: u64, into: &mut [u8]) -> Result<usize, ErrorNumber> {
        let (at, stat) = self.find(path).map_err(number)?;
        match stat.st_mode & TYPE {
            FILE => {}
            FOLDER => return Err(errors::IS_FOLDER),
            _ => return Err(errors::INVALID),
        }
        // The descriptor names this very file, so the one that is opened is no other.
        let name = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&at.as_fd()));
        let file = openat(CWD, name, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).map_err(number)?;
        let file = std::fs::File::from(file);
        let mut held = 0;
        while held < into.len() {
            let rest = into.get_mut(held..).unwrap_or_default();
            match file.read_at(rest, offset.saturating_add(held as u64)) {
                Ok(0) => break,
                Ok(more) => held += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.raw_os_error().and_then(|error| u32::try_from(error).ok()).unwrap_or(errors::IO)),
            }
        }
        Ok(held)
    }

    fn target(&self, path: &[Vec<u8>]) -> Result<Vec<u8>, ErrorNumber> {
        let (at, stat) = self.find(path).map_err(number)?;
        if stat.st_mode & TYPE != LINK {
            return Err(errors::INVALID);
        }
        readlinkat(at.as_fd(), c"", Vec::new()).map(|target| target.into_bytes()).map_err(number)
    }

    fn checksum(&self) -> io::Result<String> {
        if let Some(known) = self.checksum.get() {
            return Ok(known.clone());
        }
        let mut sum = blake3::Hasher::new();
        self.sum(&mut Vec::new(), &mut sum)?;
        Ok(self.checksum.get_or_init(|| sum.finalize().to_hex().to_string()).clone())
    }
}

#[cfg(test)]
mod tests;
