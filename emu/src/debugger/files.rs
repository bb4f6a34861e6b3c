//! The files that gdb can read over its remote protocol: `/modules/NAME`, an ELF file with the symbols of a loaded module,
//! which is made when gdb opens it. gdb cannot read files of the host.

use super::{Debugger, lists, module_symbols};
use gdbstub::target::ext::host_io::{
    HostIo, HostIoClose, HostIoCloseOps, HostIoErrno, HostIoError, HostIoFstat, HostIoFstatOps, HostIoOpen, HostIoOpenFlags,
    HostIoOpenMode, HostIoOpenOps, HostIoPread, HostIoPreadOps, HostIoResult, HostIoStat,
};
use std::collections::BTreeMap;

/// The prefix of such a file's name in gdb's commands.
pub(super) const MODULES: &str = "target:/modules/";
const FOLDER: &[u8] = b"/modules/";
/// The largest number of files that are open at once.
const MOST: u32 = 64;

/// The open files, by their numbers.
#[derive(Default)]
pub(super) struct Files {
    open: BTreeMap<u32, Vec<u8>>,
}

impl Files {
    fn of<T>(&self, number: u32, with: impl FnOnce(&[u8]) -> T) -> Result<T, HostIoErrno> {
        self.open.get(&number).map(|bytes| with(bytes)).ok_or(HostIoErrno::EBADF)
    }
}

impl Debugger {
    /// The symbols of a loaded module, as an ELF file.
    fn module_file(&mut self, name: &str) -> Option<Vec<u8>> {
        let kernel = &self.kernel;
        self.timeline.look().look(|view| {
            let module = lists::modules(kernel, view)?.into_iter().find(|module| module.name == name)?;
            module_symbols::file(kernel, &module, view)
        })
    }
}

impl HostIo for Debugger {
    fn support_open(&mut self) -> Option<HostIoOpenOps<'_, Self>> {
        Some(self)
    }

    fn support_close(&mut self) -> Option<HostIoCloseOps<'_, Self>> {
        Some(self)
    }

    fn support_pread(&mut self) -> Option<HostIoPreadOps<'_, Self>> {
        Some(self)
    }

    fn support_fstat(&mut self) -> Option<HostIoFstatOps<'_, Self>> {
        Some(self)
    }
}

impl HostIoOpen for Debugger {
    fn open(&mut self, filename: &[u8], _: HostIoOpenFlags, _: HostIoOpenMode) -> HostIoResult<u32, Self> {
        let name = filename.strip_prefix(FOLDER).and_then(|name| std::str::from_utf8(name).ok());
        let Some(bytes) = name.and_then(|name| self.module_file(name)) else {
            return Err(HostIoError::Errno(HostIoErrno::ENOENT));
        };
        let open = &mut self.files.open;
        let Some(number) = (0..MOST).find(|number| !open.contains_key(number)) else {
            return Err(HostIoError::Errno(HostIoErrno::EMFILE));
        };
        open.insert(number, bytes);
        Ok(number)
    }
}

impl HostIoClose for Debugger {
    fn close(&mut self, fd: u32) -> HostIoResult<(), Self> {
        self.files.open.remove(&fd).map(|_| ()).ok_or(HostIoError::Errno(HostIoErrno::EBADF))
    }
}

impl HostIoPread for Debugger {
    fn pread(&mut self, fd: u32, count: usize, offset: u64, buf: &mut [u8]) -> HostIoResult<usize, Self> {
        let read = self.files.of(fd, |bytes| {
            let rest = usize::try_from(offset).ok().and_then(|offset| bytes.get(offset..)).unwrap_or_default();
            let len = rest.len().min(count).min(buf.len());
            buf[..len].copy_from_slice(&rest[..len]);
            len
        });
        read.map_err(HostIoError::Errno)
    }
}

impl HostIoFstat for Debugger {
    fn fstat(&mut self, fd: u32) -> HostIoResult<HostIoStat, Self> {
        let size = self.files.of(fd, <[u8]>::len).map_err(HostIoError::Errno)? as u64;
        Ok(HostIoStat {
            st_dev: 0,
            st_ino: fd,
            st_mode: HostIoOpenMode::S_IFREG | HostIoOpenMode::S_IRUSR,
            st_nlink: 1,
            st_uid: 0,
            st_gid: 0,
            st_rdev: 0,
            st_size: size,
            st_blksize: 4096,
            st_blocks: size.div_ceil(512),
            st_atime: 0,
            st_mtime: 0,
            st_ctime: 0,
        })
    }
}
