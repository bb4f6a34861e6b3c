//! The messages of 9P2000.L: numbers of types, and reading and writing of fields. All numbers are little-endian.

/// Bytes in front of each message's fields: its length, type and tag.
pub const HEADER_BYTES: usize = 7;

/// The types of requests. An answer's type is one higher.
pub mod types {
    pub const STATFS: u8 = 8;
    pub const OPEN: u8 = 12;
    pub const CREATE: u8 = 14;
    pub const SYMLINK: u8 = 16;
    pub const MKNOD: u8 = 18;
    pub const RENAME: u8 = 20;
    pub const READLINK: u8 = 22;
    pub const GETATTR: u8 = 24;
    pub const SETATTR: u8 = 26;
    pub const XATTR_CREATE: u8 = 32;
    pub const READDIR: u8 = 40;
    pub const FSYNC: u8 = 50;
    pub const LINK: u8 = 70;
    pub const MKDIR: u8 = 72;
    pub const RENAME_AT: u8 = 74;
    pub const UNLINK_AT: u8 = 76;
    pub const VERSION: u8 = 100;
    pub const ATTACH: u8 = 104;
    pub const FLUSH: u8 = 108;
    pub const WALK: u8 = 110;
    pub const READ: u8 = 116;
    pub const WRITE: u8 = 118;
    pub const CLUNK: u8 = 120;
    pub const REMOVE: u8 = 122;
}
/// The type of the answer that carries an error number.
pub const ERROR: u8 = 7;

/// Linux's error numbers.
pub mod errors {
    /// There is no such file.
    pub const NO_ENTRY: u32 = 2;
    /// The host cannot read.
    pub const IO: u32 = 5;
    /// The guest has no such file at hand.
    pub const BAD_FILE: u32 = 9;
    /// The guest has too many files at hand.
    pub const TOO_MUCH_MEMORY: u32 = 12;
    /// It is no folder.
    pub const NO_FOLDER: u32 = 20;
    /// It is a folder.
    pub const IS_FOLDER: u32 = 21;
    /// The message is malformed.
    pub const INVALID: u32 = 22;
    /// Nothing can be changed.
    pub const READ_ONLY: u32 = 30;
    /// A name or a path is too long.
    pub const NAME_TOO_LONG: u32 = 36;
    /// It is a symbolic link.
    pub const LOOP: u32 = 40;
    /// There is no such operation.
    pub const NOT_SUPPORTED: u32 = 95;
}

/// Reads the fields of a request. A field that is not there is an error.
pub struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    /// The fields in these bytes.
    pub fn new(bytes: &'a [u8]) -> Fields<'a> {
        Fields(bytes)
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], u32> {
        let (field, rest) = self.0.split_first_chunk().ok_or(errors::INVALID)?;
        self.0 = rest;
        Ok(*field)
    }

    /// A number of 16 bits.
    pub fn u16(&mut self) -> Result<u16, u32> {
        self.take().map(u16::from_le_bytes)
    }

    /// A number of 32 bits.
    pub fn u32(&mut self) -> Result<u32, u32> {
        self.take().map(u32::from_le_bytes)
    }

    /// A number of 64 bits.
    pub fn u64(&mut self) -> Result<u64, u32> {
        self.take().map(u64::from_le_bytes)
    }

    /// A text: its length in 16 bits, then its bytes.
    pub fn text(&mut self) -> Result<&'a [u8], u32> {
        let length = self.u16()?.into();
        let (text, rest) = self.0.split_at_checked(length).ok_or(errors::INVALID)?;
        self.0 = rest;
        Ok(text)
    }
}

/// An answer under construction.
#[derive(Debug)]
pub struct Answer(Vec<u8>);

impl Answer {
    /// An answer of this type to the request with this tag.
    pub fn new(kind: u8, tag: u16) -> Answer {
        let mut bytes = vec![0, 0, 0, 0, kind];
        bytes.extend(tag.to_le_bytes());
        Answer(bytes)
    }

    /// Adds bytes.
    pub fn bytes(&mut self, bytes: &[u8]) -> &mut Answer {
        self.0.extend_from_slice(bytes);
        self
    }

    /// Adds a number of 16 bits.
    pub fn u16(&mut self, number: u16) -> &mut Answer {
        self.bytes(&number.to_le_bytes())
    }

    /// Adds a number of 32 bits.
    pub fn u32(&mut self, number: u32) -> &mut Answer {
        self.bytes(&number.to_le_bytes())
    }

    /// Adds a number of 64 bits.
    pub fn u64(&mut self, number: u64) -> &mut Answer {
        self.bytes(&number.to_le_bytes())
    }

    /// Adds a text, of at most 65,535 bytes.
    pub fn text(&mut self, text: &[u8]) -> &mut Answer {
        let length = u16::try_from(text.len()).unwrap_or(u16::MAX);
        self.u16(length).bytes(text.get(..length.into()).unwrap_or_default())
    }

    /// The bytes of the whole message.
    pub fn finish(mut self) -> Vec<u8> {
        let length = (self.0.len() as u32).to_le_bytes();
        if let Some(head) = self.0.first_chunk_mut() {
            *head = length;
        }
        self.0
    }
}
