//! The place of a value at an address: a register, memory that a chain of loads leads to, or a constant. DWARF
//! expressions that say more than that have no form in `kprobe_events`.

use super::error::Answer;
use super::units::{Bytes, Info, Place, Unit};
use gimli::{AttributeValue, CfaRule, Expression, Operation, Register, UnwindSection, constants as c};
use std::ops::Range;

/// The value that a place begins with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Base {
    /// A register, by the name that event lines give it.
    Register(String),
    /// An argument of the function, counted from 1.
    Argument(usize),
    /// An address, or a number if nothing is loaded from it.
    Constant(u64),
    /// The address of a symbol, where addresses are not known before the guest loads a module.
    Symbol(String),
}

/// The place of a value: `base`, then a load at each offset of `loads`, then `add`. That is the address of the value if
/// it is in memory, otherwise the value itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// The start.
    pub base: Base,
    /// The offset of each load, from the value before it.
    pub loads: Vec<i64>,
    /// The offset behind the last load.
    pub add: i64,
    /// Whether the value is in memory at that address.
    pub in_memory: bool,
}

impl Location {
    /// The value of a register, an argument or a constant.
    pub fn value(base: Base) -> Location {
        Location { base, loads: Vec::new(), add: 0, in_memory: false }
    }

    /// The memory at a symbol.
    pub fn at_symbol(name: &str) -> Location {
        Location { base: Base::Symbol(name.into()), loads: Vec::new(), add: 0, in_memory: true }
    }

    /// The text of the fetch: `%di`, `+8(%sp)`, `@0x1000`. `None` for a sum, which event lines do not have.
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
            // The address itself is no argument of event lines, only the memory there.
            Base::Symbol(name) => match loads.next()? {
                0 => format!("@{name}"),
                first => format!("@{name}{first:+}"),
            },
        };
        Some(loads.fold(start, |inner, offset| format!("{offset:+}({inner})")))
    }

    /// The place of what a pointer in this place points to, `offset` bytes behind its target.
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
    /// It is optimized out here; the addresses where it is known, if any.
    Here(Vec<Range<u64>>),
    /// Only its value at the function's entry is known.
    AtEntry,
    /// It is known, but event lines have no form for it.
    NoForm(&'static str),
}

/// The place for which a location is asked: an address, the function that holds it, and that function's entry.
#[derive(Clone, Copy)]
struct Asked {
    address: u64,
    function: Place,
    entry: u64,
}

impl<'a> Info<'a> {
    /// The place of a variable at an address. `function` is the entry of the function whose frame holds it, and `entry`
    /// its first address.
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

    /// Runs an expression on places instead of values.
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

    /// An address of the file's own memory, as event lines write it.
    fn memory_at(&self, address: u64) -> Option<(Base, i64)> {
        match &self.file.placed {
            Some(placed) => placed.symbol_and_offset(address).map(|(symbol, offset)| (Base::Symbol(symbol), offset)),
            None => Some((Base::Constant(address), 0)),
        }
    }

    /// The value to which a function's frame offsets are added.
    fn frame_base(&self, function: Place, address: u64, depth: usize) -> Answer<Option<(Base, i64)>> {
        if depth > 1 {
            return Ok(None);
        }
        let Some((number, AttributeValue::Exprloc(expression))) = self.attribute(function, c::DW_AT_frame_base)? else {
            return Ok(None);
        };
        let unit = self.unit(number)?;
        let found = self.place_of(&unit, expression, Asked { address, function, entry: u64::MAX }, 2)?;
        Ok(found.ok().filter(|place| place.loads.is_empty()).map(|place| (place.base, place.add)))
    }

    /// The canonical frame address at an address: a register and an offset.
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

/// The number in at most eight bytes.
fn constant(bytes: Bytes<'_>, little: bool) -> Option<u64> {
    let bytes = bytes.slice();
    let add = |sum: u64, byte: &u8| sum << 8 | u64::from(*byte);
    match bytes.len() {
        1..=8 if little => Some(bytes.iter().rev().fold(0, add)),
        1..=8 => Some(bytes.iter().fold(0, add)),
        _ => None,
    }
}

/// Neighbouring ranges as one, sorted.
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
