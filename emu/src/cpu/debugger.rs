//! The registers of an ISA as a debugger knows them: names, widths and groups of gdb's target descriptions, and where their
//! values are.
//!
//! gdb needs certain groups for each architecture, and in them all registers. A register whose value is not known here is
//! shown as unavailable.

use super::View;
use super::switched::Kept;
use trapline_isa::regs::{Reg, Registers};

/// The registers of an ISA.
pub struct Description {
    /// gdb's name of the architecture.
    pub architecture: &'static str,
    /// Whether gdb expects that watchpoints stop in front of the access, and then steps over it.
    pub watches_in_front: bool,
    /// All registers, in groups: gdb's features.
    pub groups: &'static [Group],
}

/// A group of registers.
pub struct Group {
    /// gdb's name; empty if gdb knows these registers without a description.
    pub name: &'static str,
    /// The registers, in the order of gdb's protocol.
    pub rows: &'static [Row],
}

/// A register, or several with consecutive numbers behind a common name.
pub struct Row {
    /// The name, or its part in front of the number.
    pub name: &'static str,
    /// The number of the first one and the number of registers. `None`: a single one, whose name has no number.
    pub numbers: Option<(u8, u8)>,
    /// The width of each.
    pub bits: u16,
    /// gdb's name of the type.
    pub kind: &'static str,
    /// The places of the values.
    pub from: From,
}

/// The place of a value.
#[derive(Clone, Copy)]
pub enum From {
    /// The register with this number in `isa`'s numbering; further registers have the next numbers.
    Reg(Reg),
    /// Two such registers: the low and the high half.
    Halves(Reg, Reg),
    /// The pc.
    Pc,
    /// The value of this name in the report about a dead guest.
    Named(&'static str),
    /// A value in the form of the debugger, which cannot be set.
    Shown(fn(&View) -> u64),
    /// The value is unknown.
    Nowhere,
}

/// A single register.
pub const fn one(name: &'static str, bits: u16, kind: &'static str, from: From) -> Row {
    Row { name, numbers: None, bits, kind, from }
}

/// Registers with numbers from 0 on.
pub const fn many(name: &'static str, count: u8, bits: u16, kind: &'static str, from: From) -> Row {
    Row { name, numbers: Some((0, count)), bits, kind, from }
}

/// One register of a description.
#[derive(Clone, Copy)]
pub struct Register {
    row: &'static Row,
    number: u8,
}

impl Register {
    /// The number of bytes.
    pub fn bytes(&self) -> usize {
        usize::from(self.row.bits).div_ceil(8)
    }

    /// gdb's name.
    pub fn name(&self) -> String {
        match self.row.numbers {
            None => self.row.name.to_string(),
            Some((first, _)) => format!("{}{}", self.row.name, first + self.number),
        }
    }

    /// The value of the running CPU. `None` if it is not known.
    pub fn value(&self, view: &View) -> Option<u128> {
        let number = |first: Reg| Reg(first.0 + self.number);
        let value = match self.row.from {
            From::Reg(reg) => view.get(number(reg)).into(),
            From::Halves(low, high) => u128::from(view.get(number(high))) << 64 | u128::from(view.get(number(low))),
            From::Pc => view.pc.into(),
            From::Shown(shown) => shown(view).into(),
            From::Named(name) => {
                let values = (view.model.registers.dump)(&view.trap_handle());
                values.into_iter().find(|(known, _)| *known == name)?.1.into()
            }
            From::Nowhere => return None,
        };
        Some(self.cut(value))
    }

    /// The value of a task that no CPU runs. `None` if it is not kept.
    pub fn kept(&self, kept: &Kept) -> Option<u128> {
        let value = match self.row.from {
            From::Reg(reg) => kept.get(Reg(reg.0 + self.number))?,
            From::Pc => kept.pc,
            From::Halves(..) | From::Named(_) | From::Shown(_) | From::Nowhere => return None,
        };
        Some(self.cut(value.into()))
    }

    fn cut(&self, value: u128) -> u128 {
        value & u128::MAX >> (128 - u32::from(self.row.bits.clamp(1, 128)))
    }

    /// The register that is set when a debugger sets this one. `None` if it cannot be set.
    pub fn settable(&self) -> Option<Settable> {
        match self.row.from {
            From::Reg(reg) => Some(Settable::Reg(Reg(reg.0 + self.number))),
            From::Pc => Some(Settable::Pc),
            _ => None,
        }
    }
}

/// A register that a debugger can set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settable {
    /// The one with this number in `isa`'s numbering.
    Reg(Reg),
    /// The pc.
    Pc,
}

impl Description {
    /// An architecture without registers.
    pub const NONE: Description = Description { architecture: "", watches_in_front: false, groups: &[] };

    /// All registers in gdb's order.
    pub fn registers(&self) -> impl Iterator<Item = Register> + use<> {
        let groups: &'static [Group] = self.groups;
        let rows = groups.iter().flat_map(|group| group.rows);
        rows.flat_map(|row| (0..row.numbers.map_or(1, |(_, count)| count)).map(move |number| Register { row, number }))
    }

    /// The text in XML that gdb asks for.
    pub fn xml(&self) -> String {
        let mut text = String::from("<?xml version=\"1.0\"?><!DOCTYPE target SYSTEM \"gdb-target.dtd\"><target version=\"1.0\">");
        text += &format!("<architecture>{}</architecture>", self.architecture);
        for group in self.groups.iter().filter(|group| !group.name.is_empty()) {
            text += &format!("<feature name=\"{}\">", group.name);
            for row in group.rows {
                for number in 0..row.numbers.map_or(1, |(_, count)| count) {
                    let register = Register { row, number };
                    text += &format!("<reg name=\"{}\" bitsize=\"{}\" type=\"{}\"/>", register.name(), row.bits, row.kind);
                }
            }
            text += "</feature>";
        }
        text + "</target>"
    }
}

/// The type of pointers to data.
pub const DATA: &str = "data_ptr";
/// The type of pointers to code.
pub const CODE: &str = "code_ptr";
