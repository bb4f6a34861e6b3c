//! The compilation units of a file with DWARF: which unit has an address, which units have a function of some name, and
//! a unit's entries.

use super::error::{Answer, LinesError};
use super::file::DebugFile;
use super::names::Names;
use super::rows::Rows;
use super::scopes::Scopes;
use gimli::{AttributeValue, EndianSlice, RunTimeEndian, SectionId, UnitHeader, UnitOffset, UnitRef, constants as c};
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;

/// Bytes of a section.
pub type Bytes<'a> = EndianSlice<'a, RunTimeEndian>;
/// An entry (DIE) of a unit.
pub type Entry<'a> = gimli::DebuggingInformationEntry<Bytes<'a>>;

/// The limit of entries that refer to one another.
pub(super) const MOST_STEPS: usize = 64;
/// The largest number of units that are kept parsed.
const MOST_LOADED: usize = 64;
/// Steps that a question may take for each byte of debug information.
const STEPS_A_BYTE: u64 = 4;

/// An entry, by its unit and its place in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// The number of the unit.
    pub unit: u32,
    /// The offset in the unit.
    pub at: usize,
}

/// A unit whose abbreviations and header of line numbers are parsed.
pub struct Unit<'a> {
    /// The index in [`Info`]'s list of headers.
    pub number: u32,
    /// The unit itself.
    pub unit: gimli::Unit<Bytes<'a>>,
    pub(super) scopes: OnceCell<Rc<Scopes>>,
    pub(super) rows: OnceCell<Rc<Rows>>,
}

/// The debug information of a kernel, ready for questions.
pub struct Info<'a> {
    /// The file that the debug information was read from.
    pub file: &'a DebugFile,
    pub(super) dwarf: gimli::Dwarf<Bytes<'a>>,
    pub(super) headers: Vec<UnitHeader<Bytes<'a>>>,
    /// The ranges of code of each unit, sorted by their start.
    pub(super) ranges: OnceCell<Vec<(Range<u64>, u32)>>,
    loaded: RefCell<HashMap<u32, Rc<Unit<'a>>>>,
    pub(super) names: OnceCell<Names>,
    work: Cell<u64>,
    most: u64,
}

impl<'a> Info<'a> {
    /// Reads the headers of all units.
    pub fn new(file: &'a DebugFile) -> Answer<Info<'a>> {
        let endian = endian_of(file);
        let load = |id: SectionId| Ok::<_, gimli::Error>(EndianSlice::new(file.section(id.name()), endian));
        let dwarf = gimli::Dwarf::load(load)?;
        let (mut headers, mut units) = (Vec::new(), dwarf.units());
        while let Some(header) = units.next()? {
            // No kernel has offsets of 64 bits. gimli adds them without a check.
            if header.format() == gimli::Format::Dwarf64 {
                return Err(LinesError::NoDwarf("it is DWARF of 64 bits"));
            }
            headers.push(header);
        }
        let bytes: usize = [".debug_info", ".debug_line", ".debug_loclists", ".debug_loc", ".debug_abbrev"]
            .iter()
            .map(|name| file.section(name).len())
            .sum();
        let most = (1 << 22) + STEPS_A_BYTE * bytes as u64;
        Ok(Info {
            file,
            dwarf,
            headers,
            ranges: OnceCell::new(),
            loaded: RefCell::new(HashMap::new()),
            names: OnceCell::new(),
            work: Cell::new(0),
            most,
        })
    }

    pub(super) fn endian(&self) -> RunTimeEndian {
        endian_of(self.file)
    }

    /// Begins a question, which has a budget of its own.
    pub(super) fn begin(&self) {
        self.work.set(0);
    }

    /// Charges steps of work.
    pub(super) fn charge(&self, steps: u64) -> Answer<()> {
        let work = self.work.get().saturating_add(steps);
        self.work.set(work);
        if work <= self.most { Ok(()) } else { Err(LinesError::TooMuchWork) }
    }

    /// The number of units.
    pub fn units(&self) -> usize {
        self.headers.len()
    }

    /// A unit, parsed.
    pub(super) fn unit(&self, number: u32) -> Answer<Rc<Unit<'a>>> {
        if let Some(unit) = self.loaded.borrow().get(&number) {
            return Ok(Rc::clone(unit));
        }
        let header = self.headers.get(number as usize).ok_or_else(|| LinesError::Malformed("there is no such unit".into()))?;
        // Many units of a hostile file may share one large table.
        self.charge(1 + self.length_of_table(header.debug_abbrev_offset().0))?;
        let unit = self.dwarf.unit(*header)?;
        let unit = Rc::new(Unit { number, unit, scopes: OnceCell::new(), rows: OnceCell::new() });
        let mut loaded = self.loaded.borrow_mut();
        if loaded.len() >= MOST_LOADED {
            loaded.clear();
        }
        loaded.insert(number, Rc::clone(&unit));
        Ok(unit)
    }

    /// The bytes of the table of abbreviations at this offset.
    fn length_of_table(&self, offset: usize) -> u64 {
        let table = self.file.section(".debug_abbrev").get(offset..).unwrap_or_default();
        let mut at = 0;
        let mut number = || -> Option<u64> {
            let (mut value, mut shift) = (0_u64, 0);
            loop {
                let byte = *table.get(at)?;
                at += 1;
                value |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
                shift = (shift + 7).min(63);
                if byte & 0x80 == 0 {
                    return Some(value);
                }
            }
        };
        let mut declarations = || -> Option<()> {
            while number()? != 0 {
                number()?; // the tag
                number()?; // whether there are children: one byte, 0 or 1
                loop {
                    let (attribute, form) = (number()?, number()?);
                    if form == u64::from(c::DW_FORM_implicit_const.0) {
                        number()?;
                    }
                    if attribute == 0 && form == 0 {
                        break;
                    }
                }
            }
            Some(())
        };
        let _ = declarations();
        at as u64
    }

    /// The offset in `.debug_info` of an entry.
    pub(super) fn global(&self, place: Place) -> Option<u32> {
        let start = self.headers.get(place.unit as usize)?.debug_info_offset()?.0;
        u32::try_from(start.checked_add(place.at)?).ok()
    }

    /// The entry at an offset in `.debug_info`.
    pub(super) fn place(&self, global: u32) -> Option<Place> {
        let unit = self.unit_of(global as usize)?;
        let start = self.headers.get(unit as usize)?.debug_info_offset()?.0;
        Some(Place { unit, at: (global as usize).checked_sub(start)? })
    }

    /// The entry that an attribute refers to.
    pub(super) fn target(&self, unit: u32, value: AttributeValue<Bytes<'a>>) -> Option<Place> {
        match value {
            AttributeValue::UnitRef(at) => Some(Place { unit, at: at.0 }),
            AttributeValue::DebugInfoRef(at) => self.place(u32::try_from(at.0).ok()?),
            _ => None,
        }
    }

    /// An entry, parsed.
    pub(super) fn entry(&self, place: Place) -> Answer<(Rc<Unit<'a>>, Entry<'a>)> {
        self.charge(1)?;
        let unit = self.unit(place.unit)?;
        let entry = unit.unit.entry(UnitOffset(place.at))?;
        Ok((unit, entry))
    }

    /// An attribute of an entry or of the entry that it is an instance of.
    pub(super) fn attribute(&self, place: Place, wanted: gimli::DwAt) -> Answer<Option<(u32, AttributeValue<Bytes<'a>>)>> {
        let mut place = place;
        for _ in 0..MOST_STEPS {
            let (_, entry) = self.entry(place)?;
            if let Some(value) = entry.attr_value(wanted) {
                return Ok(Some((place.unit, value)));
            }
            let origin = entry.attr_value(c::DW_AT_abstract_origin).or_else(|| entry.attr_value(c::DW_AT_specification));
            match origin.and_then(|value| self.target(place.unit, value)) {
                Some(next) => place = next,
                None => return Ok(None),
            }
        }
        Ok(None)
    }

    /// The name of an entry; empty if it has none.
    pub(super) fn name(&self, place: Place) -> Answer<String> {
        let Some((unit, value)) = self.attribute(place, c::DW_AT_name)? else { return Ok(String::new()) };
        self.text(&*self.unit(unit)?, value)
    }

    /// A string attribute.
    pub(super) fn text(&self, unit: &Unit<'a>, value: AttributeValue<Bytes<'a>>) -> Answer<String> {
        let text = self.reference(unit).attr_string(value)?;
        self.charge(text.len() as u64 / 8)?;
        Ok(text.to_string_lossy().into_owned())
    }

    pub(super) fn reference<'b>(&'b self, unit: &'b Unit<'a>) -> UnitRef<'b, Bytes<'a>> {
        unit.unit.unit_ref(&self.dwarf)
    }
}

fn endian_of(file: &DebugFile) -> RunTimeEndian {
    if file.little { RunTimeEndian::Little } else { RunTimeEndian::Big }
}
