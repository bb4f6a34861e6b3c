//! Looks up the place of an event's definition in the guest: a symbol, an address, memory or a place in a program's file.
//!
//! [`resolve`] returns a [`Target`], or an error at the definition's place with the errno of Linux. A symbol of a module that
//! is not loaded is no error: the definition waits. [`scope`] tells the fetch arguments which values exist at the target.

use crate::events::error::{Code, EventError};
use crate::events::fetch::{Programs, Scope, unknown_symbol};
use crate::events::parse::{Definition, Location};
use crate::guest::{Guest, Site};
use crate::user::Place;
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use trapline_isa::entry::{BEGINNING, Beginning};
use trapline_isa::mem::Fault;
use trapline_isa::plan::{Errno, Policy};

/// The largest number of places in the message about an ambiguous name.
const MOST_PLACES: usize = 8;

/// Reads kernel text as it was before any probe was written.
pub(in crate::events) type OriginalText<'a> = &'a dyn Fn(u64, &mut [u8]) -> Result<(), Fault>;

/// The place of a definition, looked up in the guest.
pub(super) struct Target {
    /// Whether it is a function's entry.
    entry: bool,
    /// Whether its symbol exists.
    pub(super) is_there: bool,
    /// The offset in its file, of a place in a user program.
    pub(super) file_offset: Option<u64>,
}

/// The programs of a probe whose module has come, with the addresses of its symbols.
pub(in crate::events) fn bound_again(
    definition: &Definition,
    guest: &dyn Guest,
    original: OriginalText<'_>,
) -> Result<Programs, EventError> {
    let target = resolve(definition, guest, original)?;
    Programs::bind(&definition.arguments, scope(definition, &target), guest)
}

/// The facts of a place that its fetch arguments depend on.
pub(super) fn scope(definition: &Definition, target: &Target) -> Scope {
    Scope {
        returns: definition.returns,
        entry: target.entry,
        by_symbol: matches!(definition.location, Location::Symbol { .. } | Location::File { place: Place::Symbol(..), .. }),
        file_offset: target.file_offset,
        watches: matches!(definition.location, Location::Memory(_)),
        waits: !target.is_there,
    }
}

/// Looks up the place of a definition. Fails if it does not exist or the kind of probe may not be there.
pub(super) fn resolve(definition: &Definition, guest: &dyn Guest, original: OriginalText<'_>) -> Result<Target, EventError> {
    let at = definition.location_at;
    let entry_of = |start: u64, offset: u64| offset == 0 || is_entry(guest, original, start, offset);
    let target = match &definition.location {
        Location::File { path, place } => {
            let (entry, offset) = match place {
                Place::Offset(offset) => (false, *offset),
                Place::Symbol(name, distance) => {
                    let found = guest.file_symbol(&guest.file_path(path), name);
                    let start = found.map_err(|no| at.error(Code::BAD_PROBE_ADDR, no.why).with_errno(no.errno))?;
                    (*distance == 0, start.wrapping_add(*distance))
                }
            };
            Target { entry, is_there: true, file_offset: Some(offset) }
        }
        Location::Address(address) => {
            if guest.isa().word < 8 && *address >> 32 != 0 {
                return Err(at.error(Code::BAD_PROBE_ADDR, "this kernel's addresses have 32 bits: write a smaller one"));
            }
            let entry =
                guest.symbol_at(*address).is_some_and(|symbol| entry_of(symbol.start, address.wrapping_sub(symbol.start)));
            Target { entry, is_there: true, file_offset: None }
        }
        Location::Memory(memory) => {
            let is_there = memory.module_symbol().is_none_or(|name| guest.symbol(name).is_some());
            if is_there {
                memory.area(guest, at)?;
            }
            Target { entry: false, is_there, file_offset: None }
        }
        Location::Symbol { name, offset } => {
            let in_module = name.contains(':');
            if !in_module {
                is_unique(name, guest).map_err(|(code, errno, why)| at.error(code, why).with_errno(errno))?;
            }
            match guest.symbol(name) {
                Some(symbol) => Target { entry: entry_of(symbol.start, u64::from(*offset)), is_there: true, file_offset: None },
                // The entry of an unloaded function is unknown. Offset 0 is an entry on every ISA.
                None => Target { entry: *offset == 0, is_there: !in_module, file_offset: None },
            }
        }
    };
    if let Location::File { .. } = definition.location {
        return Ok(target);
    }
    if definition.mirrors && !target.entry {
        return Err(at.error(Code::BAD_JPROBE, "a jprobe must be at a function's entry: name the function without an offset"));
    }
    if definition.returns && !target.entry {
        return Err(
            at.error(Code::BAD_RETPROBE, "a return probe must be at a function's entry: name the function without an offset")
        );
    }
    Ok(target)
}

/// Fails if no symbol has this name, or several have.
fn is_unique(name: &str, guest: &dyn Guest) -> Result<(), (Code, Errno, String)> {
    match guest.symbols_named(name) {
        0 => Err((Code::BAD_PROBE_ADDR, Errno::ENOENT, unknown_symbol(name, guest))),
        1 => Ok(()),
        many => {
            let why = format!(
                "{many} symbols have the name '{name}': name the one that is meant by its place{}",
                places_of(name, guest)
            );
            Err((Code::NON_UNIQ_SYMBOL, Errno::EADDRNOTAVAIL, why))
        }
    }
}

/// The places of all symbols of a name, in the form in which perf writes them: `: _text+3566048 or _text+3566100`.
fn places_of(name: &str, guest: &dyn Guest) -> String {
    let text = guest.symbol("_text").map(|symbol| symbol.start);
    let place = |address: u64| match text.and_then(|text| u32::try_from(address.checked_sub(text)?).ok()) {
        Some(offset) => format!("_text+{offset}"),
        None => format!("{address:#x}"),
    };
    let places: Vec<String> = guest.addresses_named(name).into_iter().take(MOST_PLACES).map(place).collect();
    if places.is_empty() { ", an address".to_owned() } else { format!(", {}", places.join(" or ")) }
}

/// Whether this offset from a function's symbol is the function's entry.
fn is_entry(guest: &dyn Guest, original: OriginalText<'_>, start: u64, offset: u64) -> bool {
    let mut first = [0; BEGINNING];
    // The function may be shorter than the buffer and at the end of the text, so try shorter reads.
    let readable = [BEGINNING, BEGINNING / 2, BEGINNING / 4];
    let Some(readable) = readable.into_iter().find(|len| original(start, &mut first[..*len]).is_ok()) else { return false };
    let is_ftrace = |offset: u64| guest.site_at(start.wrapping_add(offset)) == Some(Site::Ftrace);
    let beginning = Beginning { bytes: &first[..readable], is_ftrace: &is_ftrace };
    offset <= BEGINNING as u64 && (guest.isa().entry)(&beginning, offset, Policy::Best).is_some()
}
