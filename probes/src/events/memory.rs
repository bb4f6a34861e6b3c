//! The place of a watch event, `[r|w|rw]@[phys:]ADDRESS|SYMBOL[+OFFSET][:LENGTH]`: which memory is watched, and which
//! accesses. The grammar is that of Linux's coming wprobe events; `phys:`, `pid=` and lengths up to 4096 are ours.

use super::args::split_offset;
use super::error::{Code, EventError, Span};
use super::fetch::unknown_symbol;
use super::text::{Piece, number, signed_number};
use crate::guest::Guest;
use crate::watch::Area;
use alloc::borrow::ToOwned;
use alloc::string::String;
use core::fmt;
use trapline_isa::plan::Errno;

/// The longest watched range of an event, in bytes.
pub const MOST_WATCHED: u64 = 4096;
/// The group of watch events that name none.
pub const GROUP: &str = "wprobes";
/// The address `-1`, at which nothing is watched: triggers give such an event its addresses.
const NOWHERE: u64 = u64::MAX;
/// The length if a line has none, as in Linux.
const DEFAULT_LENGTH: u64 = 4;

/// The memory that a watch event watches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Whether loads are watched.
    pub reads: bool,
    /// Whether stores are watched.
    pub writes: bool,
    /// Whether the address is a physical one.
    pub physical: bool,
    /// The symbol, if one was given.
    pub symbol: Option<String>,
    /// The address, or the offset from the symbol.
    pub address: u64,
    /// The number of bytes.
    pub len: u64,
    /// The only process whose accesses count; `None` for all.
    pub process: Option<u32>,
}

/// Parses the place.
pub(super) fn parse(text: Piece<'_>) -> Result<Memory, EventError> {
    let bad = |about: Piece<'_>, why: &'static str| EventError::new(about, Code::BAD_ACCESS, why);
    let Some((access, place)) = text.split_at_first('@') else {
        return Err(bad(text, "a watch event names the accesses and the memory: w@jiffies_64:8, r@0xc0101000, rw@SYMBOL+8:4"));
    };
    let (reads, writes) = match access.text {
        "r" => (true, false),
        "w" => (false, true),
        "rw" => (true, true),
        _ => return Err(bad(access, "the accesses in front of the '@' are r (reads), w (writes) or rw (both)")),
    };
    let (physical, place) = match place.strip_prefix("phys:") {
        Some(place) => (true, place),
        None => (false, place),
    };
    // A module's symbol has a ':' too, so the length is behind the last one.
    let (place, len) = match place.text.rfind(':').map(|at| (place.take(at), place.skip(at + 1))) {
        Some((place, len)) if len.starts_with_digit() => match number(len.text) {
            Some(bytes @ 1..=MOST_WATCHED) => (place, bytes),
            _ => return Err(EventError::new(len, Code::BAD_ACCESS_LEN, "the length is a number of bytes from 1 to 4096")),
        },
        _ => (place, DEFAULT_LENGTH),
    };
    let whole = |symbol, address| Ok(Memory { reads, writes, physical, symbol, address, len, process: None });
    if place.text == "-1" {
        return whole(None, NOWHERE);
    }
    if let Some(address) = number(place.text) {
        return whole(None, address);
    }
    let bad_place = |why: &'static str| Err(EventError::new(place, Code::BAD_PROBE_ADDR, why));
    if physical {
        return bad_place("a physical place is an address: w@phys:0x1f000:8");
    }
    let (name, offset) = split_offset(place.text);
    if name.is_empty() || number(name).is_some() {
        return bad_place("after the '@' write an address, or SYMBOL or SYMBOL+OFFSET, then :LENGTH");
    }
    match if offset.is_empty() { Some(0) } else { signed_number(offset) } {
        Some(offset) => whole(Some(name.to_owned()), offset.cast_unsigned()),
        None => bad_place("the offset of a symbol is one number: jiffies_64+4, init_task-8"),
    }
}

/// The process of a word `pid=NUMBER`; `None` for any other word.
pub(super) fn process(word: Piece<'_>) -> Option<u32> {
    u32::try_from(number(word.strip_prefix("pid=")?.text)?).ok()
}

impl Memory {
    /// Whether it has no address of its own, because triggers set its event.
    pub fn is_nowhere(&self) -> bool {
        self.symbol.is_none() && self.address == NOWHERE
    }

    /// The symbol with its module, if it is in one, which may be loaded later.
    pub(super) fn module_symbol(&self) -> Option<&str> {
        self.symbol.as_deref().filter(|name| name.contains(':'))
    }

    /// The memory in this kernel.
    pub fn area(&self, guest: &dyn Guest, at: Span) -> Result<Area, EventError> {
        let start = match &self.symbol {
            None => self.address,
            Some(name) => match (guest.symbol(name), guest.symbols_named(name)) {
                (Some(symbol), 0 | 1) => symbol.start.wrapping_add(self.address),
                (Some(_), _) => {
                    let why = alloc::format!("several symbols have the name '{name}': name the memory by its address");
                    return Err(at.error(Code::NON_UNIQ_SYMBOL, why).with_errno(Errno::EADDRNOTAVAIL));
                }
                (None, _) => return Err(at.error(Code::BAD_PROBE_ADDR, unknown_symbol(name, guest)).with_errno(Errno::ENOENT)),
            },
        };
        let (len, physical, process) = (self.len, self.physical, self.process);
        Ok(Area { start, len, physical, process, reads: self.reads, writes: self.writes })
    }

    /// The name of its event if none was given.
    pub(super) fn default_event(&self) -> String {
        match &self.symbol {
            None if self.is_nowhere() => "w_nowhere".to_owned(),
            None => alloc::format!("w_0x{:x}", self.address),
            Some(name) => alloc::format!("w_{name}_{}", self.address.cast_signed().unsigned_abs()),
        }
    }
}

/// The place as `kprobe_events` shows it: `w@jiffies_64:8`.
impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let access = match (self.reads, self.writes) {
            (true, true) => "rw",
            (true, false) => "r",
            (false, _) => "w",
        };
        write!(f, "{access}@{}", if self.physical { "phys:" } else { "" })?;
        match (&self.symbol, self.address.cast_signed()) {
            (None, _) if self.is_nowhere() => f.write_str("-1")?,
            (None, _) => write!(f, "0x{:x}", self.address)?,
            (Some(name), 0) => f.write_str(name)?,
            (Some(name), offset) => write!(f, "{name}{offset:+}")?,
        }
        write!(f, ":{}", self.len)?;
        self.process.map_or(Ok(()), |process| write!(f, " pid={process}"))
    }
}
