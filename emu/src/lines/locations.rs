//! Finds a variable's location at an address with DWARF: a register, memory behind a chain of loads, or a constant. A
//! [`Location`] has the form of a fetch argument of `kprobe_events`. DWARF expressions that this form cannot express give a
//! [`Missing`] with the reason.

use super::error::Answer;
use super::units::{Bytes, Info, Place, Unit};
use gimli::{AttributeValue, CfaRule, Expression, Operation, Register, UnwindSection, constants as c};
use std::ops::Range;

/// The start of a location.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Base {
    /// The value of a register, by its name in event lines.
    Register(String),
    /// The value of an argument of the function, counted from 1.
    Argument(usize),
    /// An address, or a number if nothing is loaded from it.
    Constant(u64),
    /// The address of a symbol. Used for modules, whose addresses are unknown until the guest loads them.
    Symbol(String),
}

/// The place of a value. To compute it, start with `base`, load from memory once for each offset in `loads`, and add `add`. The
/// result is the address of the value if `in_memory` is set, otherwise the value itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// The first value.
    pub base: Base,
    /// The offsets of the loads, in bytes. Each is added to the value before the load.
    pub loads: Vec<i64>,
    /// The offset that is added after the last load, in bytes.
    pub add: i64,
    /// Whether the value is in memory at that address.
    pub in_memory: bool,
}

impl Location {
    /// A value that is in no memory: that of a register, an argument or a constant.
    pub fn value(base: Base) -> Location {
        Location { base, loads: Vec::new(), add: 0, in_memory: false }
    }

    /// A value in memory at the address of a symbol.
    pub fn at_symbol(name: &str) -> Location {
        Location { base: Base::Symbol(name.into()), loads: Vec::new(), add: 0, in_memory: true }
    }

    /// The fetch argument in an event line: `%di`, `+8(%sp)`, `@0x1000`. `None` for the sum of a register and an offset, which
    /// event lines cannot express.
    pub fn text(&self) -> Option<String> {
        let mut loads = self.loads.clone();
        match (self.in_memory, self.add, &self.base) {
            (true, add, _) => loads.push(add),
            (false, 0, _) => {}
            (false, add, Base::Constant(value)) if loads.is_empty() => {
                return Some(format!("\\{}", value.wrapping_add_signed(add) as i64));
            }
            _ => return None,
        }
        let mut loads = loads.into_iter();
        let start = match &self.base {
            Base::Register(name) => format!("%{name}"),
            Base::Argument(number) => format!("$arg{number}"),
            Base::Constant(value) => match loads.next() {
                Some(first) => format!("@{:#x}", value.wrapping_add_signed(first)),
                None => format!("\\{}", *value as i64),
            },
            // An event line can name the memory at a symbol, but not the address.
            Base::Symbol(name) => match loads.next()? {
                0 => format!("@{name}"),
                first => format!("@{name}{first:+}"),
            },
        };
        Some(loads.fold(start, |inner, offset| format!("{offset:+}({inner})")))
    }

    /// If the value here is a pointer: the location `offset` bytes behind the address that it holds.
    pub fn behind(mut self, offset: i64) -> Location {
        if self.in_memory {
            self.loads.push(self.add);
            self.add = 0;
        }
        Location { add: self.add.wrapping_add(offset), in_memory: true, ..self }
    }
}

/// The reason why a variable has no place at an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Missing {
    /// The variable is optimized out here. The ranges are the addresses at which it has a location.
    Here(Vec<Range<u64>>),
    /// The debugging information describes only its value at the function's entry (DW_OP_entry_value).
    AtEntry,
    /// The location is known, but event lines cannot express it. The text is the reason.
    NoForm(&'static str),
}

/// The code for which a location is wanted: an address, the debugging information entry of its function, and the function's first
/// address.
#[derive(Clone, Copy)]
struct Asked {
    address: u64,
    function: Place,
    entry: u64,
}

impl<'a> Info<'a> {
    /// The location of a variable when the pc is `address`. `function` is the debugging information entry of the function whose
    /// frame holds it, and `entry` is the function's first address.
    pub(super) fn location(
        &self,
        variable: Place,
        address: u64,
        function: Place,
        entry: u64,
    ) -> Answer<Result<Location, Missing>> {
        if let Some((_, value)) = self.attribute(variable, c::DW_AT_const_value)? {
            let number = match value {
                AttributeValue::Block(bytes) => constant(bytes, self.file.little),
                // gcc writes negative values with a sign (`sdata`), and others as the shortest of these.
                AttributeValue::Data1(value) => Some(value.into()),
                AttributeValue::Data2(value) => Some(value.into()),
                AttributeValue::Data4(value) => Some(value.into()),
                value => value.sdata_value().map(|value| value as u64).or_else(|| value.udata_value()),
            };
            return Ok(number
                .map(|number| Location::value(Base::Constant(number)))
                .ok_or(Missing::NoForm("it is a long constant")));
        }
        let Some((number, value)) = self.attribute(variable, c::DW_AT_location)? else {
            return Ok(Err(Missing::Here(Vec::new())));
        };
        let unit = self.unit(number)?;
        let expression = match value {
            AttributeValue::Exprloc(expression) => expression,
            value => {
                let (mut found, mut known) = (None, Vec::new());
                if let Some(mut list) = self.reference(&unit).attr_locations(value)? {
                    while let Some(row) = list.next()? {
                        self.charge(1)?;
                        if row.data.0.is_empty() || row.range.begin >= row.range.end {
                            continue;
                        }
                        if (row.range.begin..row.range.end).contains(&address) && found.is_none() {
                            found = Some(row.data);
                        }
                        known.push(row.range.begin..row.range.end);
                    }
                }
                match found {
                    Some(expression) => expression,
                    None => return Ok(Err(Missing::Here(joined(known)))),
                }
            }
        };
        self.place_of(&unit, expression, Asked { address, function, entry }, 0)
    }

    /// Executes a DWARF expression symbolically: its stack holds at most one [`Location`] instead of numbers. A stack value with
    /// `in_memory` set is the address on the stack; DW_OP_stack_value clears it.
    ///
    /// `depth` is 0 for a variable's own expression, 1 inside DW_OP_entry_value, and 2 for a frame base. It prevents recursion
    /// without end: only depth 0 follows DW_OP_entry_value, and depth 2 has no frame base.
    fn place_of(
        &self,
        unit: &Unit<'a>,
        expression: Expression<Bytes<'a>>,
        asked: Asked,
        depth: usize,
    ) -> Answer<Result<Location, Missing>> {
        let Asked { address, function, entry } = asked;
        const ARITHMETIC: Missing = Missing::NoForm("its value is computed, and event lines have no arithmetic");
        let mut operations = expression.operations(unit.unit.encoding());
        let mut place: Option<Location> = None;
        let register =
            |register: Register| self.file.arch.isa().abi.dwarf_name(register.0).map(|name| Base::Register(name.into()));
        while let Some(operation) = operations.next()? {
            self.charge(1)?;
            let at = |base: Base, add: i64| Some(Location { base, loads: Vec::new(), add, in_memory: true });
            let unnamed = Missing::NoForm("it is in a register that event lines do not name");
            place = match (operation, place) {
                (Operation::Register { register: number }, None) => match register(number) {
                    Some(base) => Some(Location::value(base)),
                    None => return Ok(Err(unnamed)),
                },
                (Operation::RegisterOffset { register: number, offset, .. }, None) => match register(number) {
                    Some(base) => at(base, offset),
                    None => return Ok(Err(unnamed)),
                },
                (Operation::FrameOffset { offset }, None) => match self.frame_base(function, address, depth)? {
                    Some((base, add)) => at(base, add.wrapping_add(offset)),
                    None => return Ok(Err(Missing::NoForm("the start of its stack frame is not known here"))),
                },
                (Operation::CallFrameCFA, None) => match self.call_frame(address)? {
                    Some((base, add)) => at(base, add),
                    None => return Ok(Err(Missing::NoForm("the start of its stack frame is not known here"))),
                },
                (Operation::Address { address }, None) => match self.memory_at(address) {
                    Some((base, add)) => at(base, add),
                    None => return Ok(Err(Missing::NoForm("no symbol of the module is unique there"))),
                },
                (Operation::AddressIndex { index } | Operation::ConstantIndex { index }, None) => {
                    match self.memory_at(self.reference(unit).address(index)?) {
                        Some((base, add)) => at(base, add),
                        None => return Ok(Err(Missing::NoForm("no symbol of the module is unique there"))),
                    }
                }
                (Operation::UnsignedConstant { value }, None) => at(Base::Constant(value), 0),
                (Operation::SignedConstant { value }, None) => at(Base::Constant(value as u64), 0),
                (Operation::ImplicitValue { data }, None) => match constant(data, self.file.little) {
                    Some(value) => Some(Location::value(Base::Constant(value))),
                    None => return Ok(Err(Missing::NoForm("it is a long constant"))),
                },
                (Operation::PlusConstant { value }, Some(place)) if place.in_memory => {
                    Some(Location { add: place.add.wrapping_add(value as i64), ..place })
                }
                (Operation::Deref { size, space: false, .. }, Some(place))
                    if place.in_memory && size == self.file.address_size =>
                {
                    Some(place.behind(0))
                }
                (Operation::StackValue, Some(place)) if place.in_memory => Some(Location { in_memory: false, ..place }),
                (Operation::Nop, place) => place,
                (Operation::EntryValue { expression }, None) if address == entry && depth == 0 => {
                    match self.place_of(unit, Expression(expression), asked, 1)? {
                        Ok(place) => Some(Location { in_memory: true, ..place }),
                        missing => return Ok(missing),
                    }
                }
                (Operation::EntryValue { .. } | Operation::ParameterRef { .. }, _) => return Ok(Err(Missing::AtEntry)),
                (Operation::Piece { .. }, _) => return Ok(Err(Missing::NoForm("it is in pieces"))),
                (Operation::ImplicitPointer { .. }, _) => {
                    return Ok(Err(Missing::NoForm("it points to a variable that is not in memory")));
                }
                (Operation::TLS, _) => return Ok(Err(Missing::NoForm("it is thread-local"))),
                _ => return Ok(Err(ARITHMETIC)),
            };
        }
        Ok(place.ok_or_else(|| Missing::Here(Vec::new())))
    }

    /// The base and the offset of a static address: a number for the kernel, a symbol for a module. `None` if no symbol of the
    /// module is unique there.
    fn memory_at(&self, address: u64) -> Option<(Base, i64)> {
        match &self.file.placed {
            Some(placed) => placed.symbol_and_offset(address).map(|(symbol, offset)| (Base::Symbol(symbol), offset)),
            None => Some((Base::Constant(address), 0)),
        }
    }

    /// The frame base of a function (DW_AT_frame_base), to which DW_OP_fbreg adds its offset.
    fn frame_base(&self, function: Place, address: u64, depth: usize) -> Answer<Option<(Base, i64)>> {
        if depth > 1 {
            return Ok(None);
        }
        let Some((number, AttributeValue::Exprloc(expression))) = self.attribute(function, c::DW_AT_frame_base)? else {
            return Ok(None);
        };
        let unit = self.unit(number)?;
        // With this entry no address is the function's first one, so an entry value is never followed.
        let found = self.place_of(&unit, expression, Asked { address, function, entry: u64::MAX }, 2)?;
        Ok(found.ok().filter(|place| place.loads.is_empty()).map(|place| (place.base, place.add)))
    }

    /// The canonical frame address (CFA) when the pc is `address`: a register and an offset, from .debug_frame or .eh_frame.
    fn call_frame(&self, address: u64) -> Answer<Option<(Base, i64)>> {
        let endian = self.endian();
        let mut frames = gimli::DebugFrame::new(self.file.section(".debug_frame"), endian);
        frames.set_address_size(self.file.address_size);
        let bases = gimli::BaseAddresses::default();
        self.charge(self.file.section(".debug_frame").len() as u64 / 16)?;
        if let Some(found) = self.rule(&frames, &bases, address) {
            return Ok(Some(found));
        }
        let mut frames = gimli::EhFrame::new(self.file.section(".eh_frame"), endian);
        frames.set_address_size(self.file.address_size);
        self.charge(self.file.section(".eh_frame").len() as u64 / 16)?;
        Ok(self.rule(&frames, &bases.set_eh_frame(self.file.eh_frame_at), address))
    }

    /// The rule for the CFA in one section. `None` if the section does not cover the address, or the rule is an expression.
    fn rule<S: UnwindSection<Bytes<'a>>>(&self, frames: &S, bases: &gimli::BaseAddresses, address: u64) -> Option<(Base, i64)>
    where
        S::Offset: gimli::UnwindOffset<usize>,
    {
        let mut context = gimli::UnwindContext::new();
        let row = frames.unwind_info_for_address(bases, &mut context, address, S::cie_from_offset).ok()?;
        match row.cfa() {
            CfaRule::RegisterAndOffset { register, offset } => {
                Some((Base::Register(self.file.arch.isa().abi.dwarf_name(register.0)?.into()), *offset))
            }
            CfaRule::Expression(_) => None,
        }
    }
}

/// The number in one to eight bytes; `None` for any other length.
fn constant(bytes: Bytes<'_>, little: bool) -> Option<u64> {
    let bytes = bytes.slice();
    let add = |sum: u64, byte: &u8| sum << 8 | u64::from(*byte);
    match bytes.len() {
        1..=8 if little => Some(bytes.iter().rev().fold(0, add)),
        1..=8 => Some(bytes.iter().fold(0, add)),
        _ => None,
    }
}

/// Sorts ranges and merges those that overlap or touch.
fn joined(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.sort_by_key(|range| range.start);
    let mut all: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match all.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => all.push(range),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// LV-3
    #[test]
    fn places_are_written_as_event_lines_have_them() {
        let register = || Location::value(Base::Register("di".into()));
        let memory = |base, add| Location { base, loads: Vec::new(), add, in_memory: true };
        #[rustfmt::skip]
        let cases = [
            (register(),                                        Some("%di")),
            (register().behind(24).behind(-8),                  Some("-8(+24(%di))")),
            (memory(Base::Register("sp".into()), -52),          Some("-52(%sp)")),
            (memory(Base::Constant(0x1000), 8),                 Some("@0x1008")),
            (memory(Base::Constant(0x1000), 8).behind(4),       Some("+4(@0x1008)")),
            (Location::value(Base::Constant(u64::MAX - 8)),     Some("\\-9")),
            (Location::value(Base::Argument(3)).behind(0),      Some("+0($arg3)")),
            (Location { add: 8, ..register() },                 None),
            (memory(Base::Symbol("shelf".into()), 0),           Some("@shelf")),
            (memory(Base::Symbol("shelf".into()), 16),          Some("@shelf+16")),
            (memory(Base::Symbol("shelf".into()), 8).behind(4), Some("+4(@shelf+8)")),
            (Location::value(Base::Symbol("shelf".into())),     None),
        ];
        for (place, text) in cases {
            assert_eq!(place.text().as_deref(), text, "{place:?}");
        }
    }
}
