//! Host memory for guests. A `Room` is the RAM of one machine. [`Pages`] is the memory of a snapshot, which several machines
//! of a process map copy-on-write: each has memory of its own only for the pages that its guest has written.

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};
use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

/// Alignment of the memory: a large page of every ISA.
const ALIGNMENT: usize = 2 << 20;
/// Memory that only this process sees. The host does not set memory aside for pages that the guest may never use, so a guest
/// may have more memory than the host has.
const PRIVATE: MapFlags = MapFlags::PRIVATE.union(MapFlags::NORESERVE);

/// The memory of a snapshot from the start of RAM on, in a sealed memfd, so that it cannot change.
#[derive(Debug)]
pub struct Pages {
    file: OwnedFd,
    len: u64,
}

impl Pages {
    /// Copies the pieces, each with its offset, into a file of `len` bytes. The bytes between the pieces are zero and take no
    /// host memory. Fails if the host has no memory, or if a piece lies outside.
    pub fn of<'a>(len: u64, pieces: impl Iterator<Item = (u64, &'a [u8])>) -> io::Result<Pages> {
        let file = memfd_create("trapline-guest", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&file, len)?;
        let file = File::from(file);
        for (at, bytes) in pieces {
            if at.checked_add(bytes.len() as u64).is_none_or(|end| end > len) {
                return Err(io::Error::other("a page of the snapshot is outside of the memory"));
            }
            file.write_all_at(bytes, at)?;
        }
        fcntl_add_seals(&file, SealFlags::WRITE | SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        Ok(Pages { file: file.into(), len })
    }

    /// The number of bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there is no memory.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// A private mapping of host memory, the RAM of one machine. `mapped` is the whole mapping; `start` is its first aligned
/// address, from which `len` bytes are used.
pub(super) struct Room {
    mapped: *mut c_void,
    mapped_len: usize,
    start: *mut u8,
    len: usize,
}

impl Room {
    /// Maps `len` zeroed bytes, which take no host memory until they are used. `None` if the host refuses.
    pub fn new(len: usize) -> Option<Room> {
        let mapped_len = len.checked_add(ALIGNMENT)?;
        // SAFETY: the host chooses the place, so no memory that is in use is replaced.
        let mapped =
            unsafe { mmap_anonymous(std::ptr::null_mut(), mapped_len, ProtFlags::READ | ProtFlags::WRITE, PRIVATE).ok()? };
        let first = mapped.cast::<u8>();
        // SAFETY: the distance to the next aligned address is less than ALIGNMENT, which was added to the size.
        let start = unsafe { first.add(first.align_offset(ALIGNMENT)) };
        Some(Room { mapped, mapped_len, start, len })
    }

    /// The address of the first byte.
    pub fn start(&self) -> *mut u8 {
        self.start
    }

    /// Maps these pages copy-on-write over the start of the memory, whose contents are lost. Returns false if the host
    /// refuses.
    pub fn show(&self, pages: &Pages) -> bool {
        let Some(len) = usize::try_from(pages.len).ok().filter(|len| *len > 0 && *len <= self.len) else { return false };
        let at = self.start.cast();
        // SAFETY: the range is in this room's mapping, of which no reference exists. The file is sealed, so nobody can
        // cut it off, and stores go to private copies of its pages.
        let shown = unsafe { mmap(at, len, ProtFlags::READ | ProtFlags::WRITE, PRIVATE | MapFlags::FIXED, &pages.file, 0) };
        shown.is_ok()
    }

    /// Drops the private copies of pages, so that the memory has the contents of `pages` again, which must be mapped. Returns
    /// false if the host refuses.
    pub fn forget(&self, pages: &Pages) -> bool {
        let Some(len) = usize::try_from(pages.len).ok().filter(|len| *len <= self.len) else { return false };
        // SAFETY: the range is in this room's mapping, of which no reference exists. Private copies go, and the file's pages
        // are seen again.
        unsafe { madvise(self.start.cast(), len, Advice::LinuxDontNeed) }.is_ok()
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        // SAFETY: mapped in `Room::new` or `Room::show`, as a whole; nothing refers to it any more.
        let _ = unsafe { munmap(self.mapped, self.mapped_len) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn byte(room: &Room, at: usize) -> *mut u8 {
        assert!(at < room.len);
        // SAFETY: the offset is in the room.
        unsafe { room.start().add(at) }
    }

    /// DV-4: two rooms show the same pages, and each keeps its own writes until it forgets them.
    #[test]
    fn rooms_share_pages_and_keep_their_own_writes() {
        let piece = vec![7; 8192];
        let pages = Pages::of(1 << 20, [(4096, &piece[..])].into_iter()).unwrap();
        let rooms = [Room::new(2 << 20).unwrap(), Room::new(2 << 20).unwrap()];
        // SAFETY: the bytes are in the rooms.
        unsafe {
            byte(&rooms[0], 5000).write(9);
            byte(&rooms[0], (1 << 20) + 1).write(9);
            for room in &rooms {
                assert!(room.show(&pages));
                assert_eq!((byte(room, 0).read(), byte(room, 5000).read()), (0, 7));
            }
            assert_eq!(byte(&rooms[0], (1 << 20) + 1).read(), 9, "behind the pages");
            byte(&rooms[0], 5000).write(1);
            byte(&rooms[0], 0).write(2);
            assert_eq!((byte(&rooms[1], 0).read(), byte(&rooms[1], 5000).read()), (0, 7));
            assert!(rooms[0].forget(&pages));
            assert_eq!((byte(&rooms[0], 0).read(), byte(&rooms[0], 5000).read()), (0, 7));
        }
        assert!(Pages::of(4096, [(4096, &piece[..])].into_iter()).is_err(), "outside");
        assert!(!Room::new(4096).unwrap().show(&pages), "too little room");
    }
}
