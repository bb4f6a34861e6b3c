//! The server: the files that the guest has at hand (fids), and an answer to each message.
//!
//! Answers depend on the folder's contents and on the messages alone: times are fixed, inode numbers follow from paths, and
//! folders are sorted. Every change of a file is refused.

use super::super::AttachError;
use super::wire::{Answer, ERROR, Fields, HEADER_BYTES, errors, types};
use super::{Attributes, ErrorNumber, FOLDER, LINK, TYPE, Tree};
use serde::de::Error as _;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The longest message, in bytes.
pub const MOST_MESSAGE: u32 = 512 << 10;
const LEAST_MESSAGE: u32 = 4096;
/// The most files that a guest may have at hand, and the most bytes of their paths.
const MOST_FIDS: usize = 1 << 20;
const MOST_PATH_BYTES: usize = 64 << 20;
/// The longest path in bytes, and the longest name.
const LONGEST_PATH: usize = 4096;
const LONGEST_NAME: usize = 255;
/// The most names of a walk.
const MOST_NAMES: u16 = 16;
/// The largest number of listings of folders that are kept for the next part of a long one.
const MOST_LISTINGS: usize = 8;

const DIALECT: &[u8] = b"9P2000.L";
const NO_FID: u32 = u32::MAX;
/// The bytes of a block, for programs that ask, and the unit of their number.
const BLOCK: u64 = 4096;
const SECTOR: u64 = 512;
/// The time of every file: 2000-01-01.
const TIME: u64 = 946_684_800;
/// The attributes that are always valid: all of those of stat.
const BASIC: u64 = 0x7ff;

// Types of qids.
const QID_FOLDER: u8 = 0x80;
const QID_LINK: u8 = 0x02;

// Flags of open.
const ACCESS: u32 = 3;
const READ_ONLY: u32 = 0;
const TRUNCATE: u32 = 0o1000;

type Path = Vec<Vec<u8>>;
type Listing = Arc<Vec<(Vec<u8>, u32)>>;

/// A file that the guest has at hand.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Fid {
    path: Path,
    is_open: bool,
}

/// The folder, or the checksum by which a snapshot refers to it.
#[derive(Clone, Debug)]
enum Origin {
    Here(Arc<dyn Tree>),
    Named(String),
}

/// The server's state.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Server {
    tree: Origin,
    /// The longest message, as agreed with the guest.
    message: u32,
    fids: BTreeMap<u32, Fid>,
    /// The bytes of the paths of all fids.
    path_bytes: usize,
    #[serde(skip)]
    listings: Vec<(Path, Listing)>,
    /// The guest's own error numbers. 9P2000.L passes numbers of Linux, but a few of them depend on the ISA.
    #[serde(skip)]
    numbers: &'static [(ErrorNumber, ErrorNumber)],
}

impl Server {
    /// A server of this folder.
    pub fn new(tree: Arc<dyn Tree>) -> Server {
        Server {
            tree: Origin::Here(tree),
            message: MOST_MESSAGE,
            fids: BTreeMap::new(),
            path_bytes: 0,
            listings: Vec::new(),
            numbers: &[],
        }
    }

    /// Sets the error numbers of the guest's kernel that differ from those of most ISAs: the usual number, the guest's.
    pub fn number_errors(&mut self, numbers: &'static [(ErrorNumber, ErrorNumber)]) {
        self.numbers = numbers;
    }

    fn number(&self, usual: ErrorNumber) -> ErrorNumber {
        self.numbers.iter().find(|(known, _)| *known == usual).map_or(usual, |(_, own)| *own)
    }

    /// Whether a server could be in this state. A damaged snapshot may hold another state.
    pub fn is_sound(&self) -> bool {
        (LEAST_MESSAGE..=MOST_MESSAGE).contains(&self.message)
            && self.fids.len() <= MOST_FIDS
            && self.path_bytes <= MOST_PATH_BYTES
            && self.path_bytes == self.fids.values().map(|fid| path_bytes(&fid.path)).sum::<usize>()
            && self.fids.values().all(|fid| path_bytes(&fid.path) <= LONGEST_PATH && fid.path.iter().all(|name| is_name(name)))
    }

    /// Takes over the folder of another server. Fails if a snapshot refers to other contents.
    pub fn adopt(&mut self, other: &Server) -> Result<(), AttachError> {
        if self.tree.checksum()? != other.tree.checksum()? {
            return Err(AttachError::Contents);
        }
        (self.tree, self.numbers) = (other.tree.clone(), other.numbers);
        Ok(())
    }

    /// Answers a message, in at most `room` bytes.
    pub fn answer(&mut self, message: &[u8], room: usize) -> Vec<u8> {
        let Some((head, fields)) = message.split_first_chunk::<HEADER_BYTES>() else { return Vec::new() };
        let [_, _, _, _, kind, t0, t1] = *head;
        let tag = u16::from_le_bytes([t0, t1]);
        let room = room.min(self.message as usize);
        let mut answer = Answer::new(kind.wrapping_add(1), tag);
        let done = self.act(kind, &mut Fields::new(fields), &mut answer, room);
        let bytes = answer.finish();
        match done {
            Ok(()) if bytes.len() <= room => bytes,
            Ok(()) => refusal(tag, errors::INVALID, room),
            Err(number) => refusal(tag, self.number(number), room),
        }
    }

    /// Carries out a request and writes its answer. The folder is read-only, so requests that change it are refused. A refused
    /// TREMOVE closes its fid nevertheless, as 9P demands.
    fn act(&mut self, kind: u8, fields: &mut Fields<'_>, answer: &mut Answer, room: usize) -> Result<(), ErrorNumber> {
        match kind {
            types::VERSION => self.agree(fields, answer),
            types::ATTACH => self.attach(fields, answer),
            types::WALK => self.walk(fields, answer),
            types::CLUNK | types::REMOVE => {
                let fid = fields.u32()?;
                self.forget(fid).ok_or(errors::BAD_FILE)?;
                if kind == types::CLUNK { Ok(()) } else { Err(errors::READ_ONLY) }
            }
            types::FLUSH => Ok(()),
            types::FSYNC => self.fid(fields).map(|_| ()),
            types::GETATTR => self.attributes(fields, answer),
            types::STATFS => self.file_system(fields, answer),
            types::READLINK => {
                let target = self.tree()?.target(&self.fid(fields)?.path)?;
                if target.len() > LONGEST_PATH {
                    return Err(errors::NAME_TOO_LONG);
                }
                answer.text(&target);
                Ok(())
            }
            types::OPEN => self.open(fields, answer),
            types::READ => self.read(fields, answer, room),
            types::READDIR => self.list(fields, answer, room),
            types::CREATE
            | types::SYMLINK
            | types::MKNOD
            | types::RENAME
            | types::SETATTR
            | types::XATTR_CREATE
            | types::LINK
            | types::MKDIR
            | types::RENAME_AT
            | types::UNLINK_AT
            | types::WRITE => Err(errors::READ_ONLY),
            _ => Err(errors::NOT_SUPPORTED),
        }
    }

    fn tree(&self) -> Result<&Arc<dyn Tree>, ErrorNumber> {
        match &self.tree {
            Origin::Here(tree) => Ok(tree),
            Origin::Named(_) => Err(errors::IO),
        }
    }

    fn fid(&self, fields: &mut Fields<'_>) -> Result<&Fid, ErrorNumber> {
        self.fids.get(&fields.u32()?).ok_or(errors::BAD_FILE)
    }

    /// Starts a session: the guest has no file at hand.
    fn agree(&mut self, fields: &mut Fields<'_>, answer: &mut Answer) -> Result<(), ErrorNumber> {
        let (wanted, dialect) = (fields.u32()?, fields.text()?);
        self.fids.clear();
        self.path_bytes = 0;
        self.listings.clear();
        self.message = wanted.clamp(LEAST_MESSAGE, MOST_MESSAGE);
        answer.u32(self.message).text(if dialect == DIALECT { DIALECT } else { b"unknown" });
        Ok(())
    }

    fn attach(&mut self, fields: &mut Fields<'_>, answer: &mut Answer) -> Result<(), ErrorNumber> {
        let number = fields.u32()?;
        let attributes = self.tree()?.attributes(&[])?;
        self.add(number, Path::new())?;
        add_qid(answer, &[], attributes.mode);
        Ok(())
    }

    /// Adds a file that the guest names by a new number.
    fn add(&mut self, number: u32, path: Path) -> Result<(), ErrorNumber> {
        if number == NO_FID || self.fids.contains_key(&number) {
            return Err(errors::INVALID);
        }
        let bytes = self.path_bytes + path_bytes(&path);
        if self.fids.len() >= MOST_FIDS || bytes > MOST_PATH_BYTES {
            return Err(errors::TOO_MUCH_MEMORY);
        }
        self.path_bytes = bytes;
        self.fids.insert(number, Fid { path, is_open: false });
        Ok(())
    }

    fn forget(&mut self, number: u32) -> Option<Fid> {
        let fid = self.fids.remove(&number)?;
        self.path_bytes = self.path_bytes.saturating_sub(path_bytes(&fid.path));
        Some(fid)
    }

    /// Goes from a file to another one, by names. `..` in the folder itself stays there.
    fn walk(&mut self, fields: &mut Fields<'_>, answer: &mut Answer) -> Result<(), ErrorNumber> {
        let (from, to, count) = (fields.u32()?, fields.u32()?, fields.u16()?);
        let start = self.fids.get(&from).ok_or(errors::BAD_FILE)?;
        if count > MOST_NAMES {
            return Err(errors::INVALID);
        }
        let mut path = start.path.clone();
        let mut qids = Vec::new();
        for at in 0..count {
            let step = fields.text().and_then(|name| self.step(&mut path, name));
            match step {
                Ok(attributes) => qids.push((path.clone(), attributes.mode)),
                Err(number) if at == 0 => return Err(number),
                Err(_) => break,
            }
        }
        answer.u16(qids.len() as u16);
        for (path, mode) in &qids {
            add_qid(answer, path, *mode);
        }
        if qids.len() < count.into() {
            return Ok(());
        }
        if from == to {
            self.forget(from);
        }
        self.add(to, path)
    }

    /// Goes to the file of this name. The path changes only if the file is there.
    fn step(&self, path: &mut Path, name: &[u8]) -> Result<Attributes, ErrorNumber> {
        let mut next = path.clone();
        match name {
            b"." => {}
            b".." => drop(next.pop()),
            _ if name.len() > LONGEST_NAME => return Err(errors::NAME_TOO_LONG),
            _ if !is_name(name) => return Err(errors::NO_ENTRY),
            _ => next.push(name.to_vec()),
        }
        if path_bytes(&next) > LONGEST_PATH {
            return Err(errors::NAME_TOO_LONG);
        }
        let attributes = self.tree()?.attributes(&next)?;
        *path = next;
        Ok(attributes)
    }

    fn attributes(&self, fields: &mut Fields<'_>, answer: &mut Answer) -> Result<(), ErrorNumber> {
        let path = &self.fid(fields)?.path;
        let Attributes { mode, user, group, device, bytes } = self.tree()?.attributes(path)?;
        let is_folder = mode & TYPE == FOLDER;
        let bytes = if is_folder { BLOCK } else { bytes };
        answer.u64(BASIC);
        add_qid(answer, path, mode);
        answer.u32(mode).u32(user).u32(group).u64(if is_folder { 2 } else { 1 }).u64(device);
        answer.u64(bytes).u64(BLOCK).u64(bytes.div_ceil(BLOCK) * (BLOCK / SECTOR));
        // The times of access, modification, change and birth come first, then the generation and the version of the data.
        for time in [TIME, TIME, TIME, 0] {
            answer.u64(time).u64(0);
        }
        answer.u64(0).u64(0);
        Ok(())
    }

    /// A file system without free space.
    fn file_system(&self, fields: &mut Fields<'_>, answer: &mut Answer) -> Result<(), ErrorNumber> {
        const MAGIC: u32 = 0x0102_1997;
        const BLOCKS: u64 = 1 << 20;
        self.fid(fields)?;
        answer.u32(MAGIC).u32(BLOCK as u32).u64(BLOCKS).u64(0).u64(0).u64(BLOCKS).u64(0).u64(0).u32(LONGEST_NAME as u32);
        Ok(())
    }

    fn open(&mut self, fields: &mut Fields<'_>, answer: &mut Answer) -> Result<(), ErrorNumber> {
        let (number, flags) = (fields.u32()?, fields.u32()?);
        let path = &self.fids.get(&number).ok_or(errors::BAD_FILE)?.path;
        let mode = self.tree()?.attributes(path)?.mode;
        if flags & ACCESS != READ_ONLY || flags & TRUNCATE != 0 {
            return Err(errors::READ_ONLY);
        }
        if mode & TYPE == LINK {
            return Err(errors::LOOP);
        }
        add_qid(answer, path, mode);
        answer.u32(0);
        if let Some(fid) = self.fids.get_mut(&number) {
            fid.is_open = true;
        }
        Ok(())
    }

    /// Reads the open file, the offset and the number of bytes from a request. The number is at most `room`, the space in the
    /// answer.
    fn part(&self, fields: &mut Fields<'_>, room: usize) -> Result<(&Fid, u64, usize), ErrorNumber> {
        let fid = self.fid(fields)?;
        let (offset, count) = (fields.u64()?, fields.u32()?);
        if !fid.is_open {
            return Err(errors::BAD_FILE);
        }
        Ok((fid, offset, room.saturating_sub(HEADER_BYTES + 4).min(count as usize)))
    }

    fn read(&self, fields: &mut Fields<'_>, answer: &mut Answer, room: usize) -> Result<(), ErrorNumber> {
        let (fid, offset, count) = self.part(fields, room)?;
        let mut bytes = vec![0; count];
        let held = self.tree()?.read(&fid.path, offset, &mut bytes)?;
        answer.u32(held.min(count) as u32).bytes(bytes.get(..held).unwrap_or_default());
        Ok(())
    }

    /// The entries of a folder from a number on. The first two are the folder itself and the one that holds it.
    fn list(&mut self, fields: &mut Fields<'_>, answer: &mut Answer, room: usize) -> Result<(), ErrorNumber> {
        let (fid, from, count) = self.part(fields, room)?;
        let path = fid.path.clone();
        let listing = self.listing(&path)?;
        let mut above = path.clone();
        above.pop();
        let mut part = Answer::new(0, 0);
        let mut held = 0;
        for number in usize::try_from(from).unwrap_or(usize::MAX)..listing.len().saturating_add(2) {
            let (name, place, kind) = match number {
                0 => (&b"."[..], path.clone(), FOLDER),
                1 => (&b".."[..], above.clone(), FOLDER),
                _ => {
                    let Some((name, kind)) = listing.get(number - 2) else { break };
                    (&name[..], [&path[..], std::slice::from_ref(name)].concat(), *kind)
                }
            };
            const FIXED_BYTES: usize = 13 + 8 + 1 + 2;
            if held + FIXED_BYTES + name.len() > count {
                break;
            }
            held += FIXED_BYTES + name.len();
            add_qid(&mut part, &place, kind);
            part.u64(number as u64 + 1).bytes(&[(kind >> 12) as u8]).text(name);
        }
        answer.u32(held as u32).bytes(part.finish().get(HEADER_BYTES..).unwrap_or_default());
        Ok(())
    }

    /// The names in a folder. The last few listings are kept, because a long one is read in parts.
    fn listing(&mut self, path: &Path) -> Result<Listing, ErrorNumber> {
        if let Some((_, listing)) = self.listings.iter().find(|(known, _)| known == path) {
            return Ok(Arc::clone(listing));
        }
        let mut names = self.tree()?.list(path)?;
        names.retain(|(name, _)| is_name(name) && name.len() <= LONGEST_NAME);
        let listing = Arc::new(names);
        if self.listings.len() >= MOST_LISTINGS {
            self.listings.remove(0);
        }
        self.listings.push((path.clone(), Arc::clone(&listing)));
        Ok(listing)
    }
}

/// Whether this can be the name of a file in a folder.
fn is_name(name: &[u8]) -> bool {
    !matches!(name, b"" | b"." | b"..") && !name.contains(&b'/') && !name.contains(&0)
}

fn path_bytes(path: &Path) -> usize {
    path.iter().map(|name| name.len() + 1).sum()
}

/// Adds the identity of a file: its type, a version, and a number that follows from its path.
fn add_qid(answer: &mut Answer, path: &[Vec<u8>], mode: u32) {
    let kind = match mode & TYPE {
        FOLDER => QID_FOLDER,
        LINK => QID_LINK,
        _ => 0,
    };
    let mut hash = blake3::Hasher::new();
    for name in path {
        hash.update(name).update(b"/");
    }
    let number = hash.finalize().as_bytes().first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
    answer.bytes(&[kind]).u32(0).u64(number);
}

fn refusal(tag: u16, number: ErrorNumber, room: usize) -> Vec<u8> {
    let mut answer = Answer::new(ERROR, tag);
    answer.u32(number);
    let bytes = answer.finish();
    if bytes.len() <= room { bytes } else { Vec::new() }
}

impl Origin {
    fn checksum(&self) -> Result<String, AttachError> {
        match self {
            Origin::Here(tree) => tree.checksum().map_err(|error| AttachError::Unreadable(error.to_string())),
            Origin::Named(checksum) => Ok(checksum.clone()),
        }
    }
}

impl Serialize for Origin {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.checksum().map_err(S::Error::custom)?.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Origin {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Origin, D::Error> {
        String::deserialize(deserializer).map(Origin::Named).map_err(D::Error::custom)
    }
}
