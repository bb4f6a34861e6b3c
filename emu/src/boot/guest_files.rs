//! The files of a guest, as far as the host knows them: those of its initial file system, of a directory with a copy of
//! its files, and single copies. Probes in user programs need them for symbols.

use super::payload;
use super::program::{self, Program};
use std::collections::HashMap;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock};
use thiserror::Error;

/// Sources of a guest's files besides its initial file system.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sources {
    /// A directory on the host with the guest's files below it.
    pub sysroot: Option<PathBuf>,
    /// The path of a file in the guest, and that of its copy on the host. The copy may have more symbols.
    pub copies: Vec<(String, PathBuf)>,
}

/// The reason why a place in a file is not known.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileError {
    /// No source has the file.
    #[error(
        "{0} is not in the guest's initial file system: name a copy on the host, --guest-file {0}=COPY, or a directory with the guest's files, --sysroot DIR"
    )]
    Unknown(String),
    /// The host's file cannot be read.
    #[error("the copy of {path} cannot be read: {copy}: {why}")]
    Unreadable {
        /// The path in the guest.
        path: String,
        /// The file on the host.
        copy: String,
        /// The host's reason.
        why: String,
    },
    /// The file is no program.
    #[error("{0} is no ELF program")]
    NoProgram(String),
    /// The copy is that of another build.
    #[error("the copy of {path} is of another build: its build id is {copy}, the guest's file has {guest}")]
    OtherBuild {
        /// The path in the guest.
        path: String,
        /// The copy's build id.
        copy: String,
        /// The build id of the guest's file.
        guest: String,
    },
    /// The file has no symbols.
    #[error(
        "{0} has no symbols, because it is stripped: write an offset, {0}:0x1234, or name a copy with symbols, --guest-file {0}=COPY"
    )]
    NoSymbols(String),
    /// The file has no such symbol.
    #[error("{path} has no function {name}{similar}")]
    NoSymbol {
        /// The path in the guest.
        path: String,
        /// The wanted name.
        name: String,
        /// Similar names, in a form to follow.
        similar: String,
    },
}

/// The files of a guest.
#[derive(Debug, Default)]
pub struct GuestFiles {
    initrd: Option<Arc<[u8]>>,
    sources: Sources,
    archive: OnceLock<Archive>,
    programs: Mutex<HashMap<String, Result<Arc<Program>, FileError>>>,
}

/// The files of an initial file system.
#[derive(Debug, Default)]
struct Archive {
    bytes: Vec<Arc<[u8]>>,
    /// The entries by path, without a slash in front.
    entries: HashMap<String, Entry>,
}

#[derive(Clone, Debug)]
enum Entry {
    /// The number of the part, and the place in it.
    File(usize, Range<usize>),
    Link(String),
}

/// The largest number of symbolic links that are followed for a path, as in Linux.
const MOST_LINKS: usize = 40;
/// The largest number of parts of an initial file system, each an archive of its own.
const MOST_PARTS: usize = 64;
/// The largest size of an unpacked archive in bytes.
const MOST_BYTES: u64 = 1 << 30;

impl GuestFiles {
    /// The files of an initial file system and of other sources. Nothing is read until it is needed.
    pub fn new(initrd: Option<Arc<[u8]>>, sources: Sources) -> GuestFiles {
        GuestFiles { initrd, sources, ..GuestFiles::default() }
    }

    fn archive(&self) -> &Archive {
        self.archive.get_or_init(|| self.initrd.as_ref().map(read).unwrap_or_default())
    }

    /// The path with its symbolic links followed. Links in a part of the guest's files that is not known stay.
    pub fn resolved(&self, path: &str) -> String {
        let archive = self.archive();
        let mut rest: Vec<String> = parts(path).rev().collect();
        let mut done: Vec<String> = Vec::new();
        let mut links = 0;
        while let Some(part) = rest.pop() {
            if part == ".." {
                done.pop();
                continue;
            }
            done.push(part);
            if let Some(Entry::Link(target)) = archive.entries.get(&done.join("/"))
                && links < MOST_LINKS
            {
                links += 1;
                done.pop();
                if target.starts_with('/') {
                    done.clear();
                }
                rest.extend(parts(target).rev());
            }
        }
        format!("/{}", done.join("/"))
    }

    /// The path of a program by its name (`bash`), or of a library by its name without `.so` (`libc`), in the folders where
    /// guests have them. `None` if no known file of the guest has that name.
    pub fn located(&self, name: &str) -> Option<String> {
        let is_library = name.starts_with("lib");
        let is_meant = |path: &str| {
            let Some((folder, file)) = path.trim_start_matches('/').rsplit_once('/') else { return false };
            let behind = file.strip_prefix(name);
            match is_library {
                // The library's folder may be one for the architecture.
                true => {
                    behind.is_some_and(|behind| behind.starts_with(".so"))
                        && LIBRARIES.iter().any(|known| {
                            folder.strip_prefix(known).is_some_and(|below| below.is_empty() || below.rfind('/') == Some(0))
                        })
                }
                false => behind == Some("") && PROGRAMS.contains(&folder),
            }
        };
        let mut found: Vec<String> = self.archive().entries.keys().filter(|path| is_meant(path)).cloned().collect();
        found.extend(self.sources.copies.iter().map(|(path, _)| path.clone()).filter(|path| is_meant(path)));
        if let Some(root) = &self.sources.sysroot {
            let folders = if is_library { &LIBRARIES[..] } else { &PROGRAMS[..] };
            for folder in folders {
                below(root, folder, is_library, &mut found);
            }
            found.retain(|path| is_meant(path));
        }
        // Programs are linked with the shortest name. A text file with that name is a linker script, which `program`
        // rejects.
        found.sort_by(|one, other| (one.len(), one).cmp(&(other.len(), other)));
        found.iter().map(|path| self.resolved(path)).find(|path| self.program(path).is_ok())
    }

    /// The content of a file whose links are resolved: of its copy or, without one, of the guest's own.
    pub fn content(&self, path: &str) -> Result<Arc<[u8]>, FileError> {
        if let Some((_, copy)) = self.sources.copies.iter().find(|(of, _)| self.resolved(of) == path) {
            let copied = host_file(path, copy)?;
            let builds = |guest: &Arc<[u8]>| Some((program::build_id(guest)?, program::build_id(&copied)?));
            return match self.own(path).as_ref().and_then(builds) {
                Some((guest, copy)) if guest != copy => Err(FileError::OtherBuild { path: path.into(), copy, guest }),
                _ => Ok(copied),
            };
        }
        self.own(path).map_or_else(|| Err(FileError::Unknown(path.into())), Ok)
    }

    /// The bytes that the guest's file has, from the initial file system or the directory.
    fn own(&self, path: &str) -> Option<Arc<[u8]>> {
        let archive = self.archive();
        if let Some(Entry::File(part, range)) = archive.entries.get(path.trim_start_matches('/')) {
            return archive.bytes.get(*part)?.get(range.clone()).map(Arc::from);
        }
        let below = self.sources.sysroot.as_ref()?.join(path.trim_start_matches('/'));
        host_file(path, &below).ok()
    }

    /// The bytes that pages of the file have in the guest's memory.
    pub fn bytes_in_guest(&self, path: &str) -> Option<Arc<[u8]>> {
        self.own(path).or_else(|| self.content(path).ok())
    }

    /// A program's symbols and segments.
    pub fn program(&self, path: &str) -> Result<Arc<Program>, FileError> {
        let Ok(mut programs) = self.programs.lock() else { return Err(FileError::Unknown(path.into())) };
        if let Some(known) = programs.get(path) {
            return known.clone();
        }
        let read = self.content(path).and_then(|bytes| {
            let program = Program::read(&bytes).ok_or_else(|| FileError::NoProgram(path.into()))?;
            Ok(Arc::new(program))
        });
        programs.insert(path.into(), read.clone());
        read
    }

    /// The offset of a function in a file whose links are resolved.
    pub fn offset_of(&self, path: &str, name: &str) -> Result<u64, FileError> {
        let program = self.program(path)?;
        if program.functions().is_empty() {
            return Err(FileError::NoSymbols(path.into()));
        }
        program.offset_of(name).ok_or_else(|| {
            let similar = program.similar(name);
            let similar = if similar.is_empty() { String::new() } else { format!("; similar: {}", similar.join(", ")) };
            FileError::NoSymbol { path: path.into(), name: name.into(), similar }
        })
    }
}

/// Folders of libraries and of programs.
const LIBRARIES: [&str; 4] = ["lib", "usr/lib", "lib64", "usr/lib64"];
const PROGRAMS: [&str; 6] = ["usr/local/bin", "usr/bin", "bin", "usr/local/sbin", "usr/sbin", "sbin"];

/// Adds the files in a folder below `root`, and in its own folders if `deep`, as paths of the guest.
fn below(root: &std::path::Path, folder: &str, deep: bool, into: &mut Vec<String>) {
    for entry in std::fs::read_dir(root.join(folder)).into_iter().flatten().flatten() {
        let Ok(name) = entry.file_name().into_string() else { continue };
        let path = format!("{folder}/{name}");
        match entry.file_type() {
            Ok(kind) if kind.is_dir() && deep => below(root, &path, false, into),
            Ok(_) => into.push(path),
            Err(_) => {}
        }
    }
}

fn host_file(path: &str, copy: &std::path::Path) -> Result<Arc<[u8]>, FileError> {
    std::fs::read(copy).map(Arc::from).map_err(|error| FileError::Unreadable {
        path: path.into(),
        copy: copy.display().to_string(),
        why: error.to_string(),
    })
}

fn parts(path: &str) -> impl DoubleEndedIterator<Item = String> + '_ {
    path.split('/').filter(|part| !part.is_empty() && *part != ".").map(String::from)
}

/// Reads an initial file system: archives of cpio's "newc" format, compressed or not, behind each other.
fn read(initrd: &Arc<[u8]>) -> Archive {
    let mut archive = Archive::default();
    let mut rest: Arc<[u8]> = Arc::clone(initrd);
    for _ in 0..MOST_PARTS {
        let zeros = rest.iter().take_while(|byte| **byte == 0).count();
        let Some(behind) = rest.get(zeros..).filter(|behind| !behind.is_empty()) else { return archive };
        if !behind.starts_with(MAGIC) {
            // A compressed archive is the last one.
            let Ok(unpacked) = payload::unpack_at_most(behind, MOST_BYTES) else { return archive };
            let unpacked: Arc<[u8]> = Arc::from(unpacked.as_ref());
            if !unpacked.starts_with(MAGIC) {
                return archive;
            }
            rest = unpacked;
            continue;
        }
        let part: Arc<[u8]> = if zeros == 0 { Arc::clone(&rest) } else { Arc::from(behind) };
        let number = archive.bytes.len();
        archive.bytes.push(Arc::clone(&part));
        let Some(end) = read_part(&part, number, &mut archive.entries) else { return archive };
        let Some(behind) = part.get(end..) else { return archive };
        rest = Arc::from(behind);
    }
    archive
}

const MAGIC: &[u8] = b"070701";
const HEADER: usize = 110;
const TRAILER: &[u8] = b"TRAILER!!!\0";
const KIND: u32 = 0o170_000;
const FILE: u32 = 0o100_000;
const LINK: u32 = 0o120_000;

/// Reads one archive. Returns where it ends, or `None` if it is damaged.
fn read_part(bytes: &[u8], part: usize, entries: &mut HashMap<String, Entry>) -> Option<usize> {
    // A file with several names has its content at the last one only.
    let mut names: HashMap<(u32, u32, u32), Vec<String>> = HashMap::new();
    let mut at = 0_usize;
    loop {
        let header = bytes.get(at..at.checked_add(HEADER)?).filter(|header| header.starts_with(MAGIC))?;
        let field = |number: usize| {
            let text = std::str::from_utf8(header.get(6 + 8 * number..14 + 8 * number)?).ok()?;
            u32::from_str_radix(text, 16).ok()
        };
        let (inode, mode, links, size) = (field(0)?, field(1)?, field(4)?, field(6)? as usize);
        let (device, length) = ((field(7)?, field(8)?), field(11)? as usize);
        let start = at.checked_add(HEADER)?;
        let name = bytes.get(start..start.checked_add(length)?)?;
        let content = start.checked_add(length)?.next_multiple_of(4);
        let end = content.checked_add(size)?;
        let held = bytes.get(content..end)?;
        at = end.next_multiple_of(4);
        if name == TRAILER {
            return Some(at);
        }
        let Ok(path) = std::str::from_utf8(name.strip_suffix(&[0])?) else { continue };
        let path = parts(path).collect::<Vec<_>>().join("/");
        match mode & KIND {
            FILE if links > 1 => {
                let same = names.entry((inode, device.0, device.1)).or_default();
                same.push(path);
                if size > 0 {
                    entries.extend(same.drain(..).map(|path| (path, Entry::File(part, content..end))));
                }
            }
            FILE => {
                entries.insert(path, Entry::File(part, content..end));
            }
            LINK => {
                let target = String::from_utf8_lossy(held).trim_end_matches('\0').to_string();
                entries.insert(path, Entry::Link(target));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::boot::initramfs::{Archive as Writer, with_busybox};
    use proptest::prelude::*;

    fn files(initrd: Vec<u8>) -> GuestFiles {
        GuestFiles::new(Some(initrd.into()), Sources::default())
    }

    /// BY-2: links of files and of directories are followed.
    #[test]
    fn files_of_the_initial_file_system_are_found_by_any_path() {
        let mut writer = Writer::default();
        writer.parents("usr/bin/busybox");
        writer.program("usr/bin/busybox", b"\x7fELF...");
        writer.symlink("usr/bin/sh", "busybox");
        writer.symlink("bin", "usr/bin");
        writer.symlink("loop", "/loop");
        writer.symlink("up", "../usr/./bin//sh");
        let files = files([writer.finish(), vec![0; 512], with_busybox(b"another", None, &[])].concat());
        for path in ["/usr/bin/busybox", "/bin/busybox", "/bin/sh", "/up", "//bin/../bin/./sh"] {
            assert_eq!(files.resolved(path), "/usr/bin/busybox", "{path}");
            let content = files.content(&files.resolved(path));
            assert_eq!(content.as_deref(), Ok(&b"\x7fELF..."[..]), "{path}");
        }
        assert_eq!(files.resolved("/loop"), "/loop");
        assert_eq!(files.resolved("/not/there"), "/not/there");
        assert!(matches!(files.content("/not/there"), Err(FileError::Unknown(_))));
        assert_eq!(files.content("/init").map(|init| init.starts_with(b"#!")), Ok(true), "the second archive");
    }

    /// BY-2: `libc` and `sh` are files in the folders where guests have them.
    #[test]
    fn programs_and_libraries_are_found_by_their_names() {
        let own = std::fs::read("/proc/self/exe").expect("this program");
        let mut writer = Writer::default();
        for path in ["usr/lib/x86_64-linux-gnu/libc.so.6", "usr/bin/env", "opt/lib/libfar.so.1", "usr/lib/a/b/libdeep.so"] {
            writer.parents(path);
            writer.program(path, &own);
        }
        writer.program("usr/lib/libc.so", b"a text for linkers");
        writer.symlink("lib", "usr/lib");
        writer.symlink("usr/bin/tool", "env");
        let files = files(writer.finish());
        let located = |name: &str| files.located(name);
        assert_eq!(located("libc").as_deref(), Some("/usr/lib/x86_64-linux-gnu/libc.so.6"));
        assert_eq!((located("env"), located("tool")), (Some("/usr/bin/env".into()), Some("/usr/bin/env".into())));
        for unknown in ["libfar", "libdeep", "lib", "en", "", "../usr/bin/env"] {
            assert_eq!(located(unknown), None, "{unknown}");
        }
    }

    /// BY-2: a compressed archive is read as well.
    #[test]
    fn files_of_a_compressed_archive_are_found() {
        use std::io::Write;
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(&with_busybox(b"\x7fELF", None, &[])).expect("memory");
        let files = files(packed.finish().expect("memory"));
        assert_eq!(files.resolved("/bin/sh"), "/bin/busybox");
        assert_eq!(files.content("/bin/busybox").as_deref(), Ok(&b"\x7fELF"[..]));
    }

    proptest! {
        #[test]
        fn damage_gives_fewer_files_and_no_panic(changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8)) {
            let mut bytes = with_busybox(b"\x7fELF", Some(b"echo\n"), &[]);
            for (at, byte) in changes {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            let files = files(bytes);
            let _ = (files.resolved("/bin/sh"), files.program("/bin/busybox"));
        }
    }
}
