//! A variable and its members as a user writes them, `file->f_path.dentry->d_name.name:string`, and the fetch argument
//! that they become.

use super::error::{Answer, LinesError};
use super::locations::{Base, Location};
use trapline_isa::arch::Isa;
use trapline_isa::mem::ByteOrder;
use trapline_script::types::{CType, Types};

/// The largest number of members and indices in a chain.
const LONGEST: usize = 16;

/// A variable, the members behind it, and the type that was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    /// The name of the argument.
    pub name: String,
    /// The name of the variable, the first word of the chain.
    pub variable: String,
    /// The members.
    pub steps: Vec<Step>,
    /// The type behind the colon.
    pub kind: Option<String>,
    /// The text as it was written.
    pub text: String,
}

/// A step of a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// `->member` or `.member`. The flag says whether a pointer is followed.
    Member(String, bool),
    /// `[3]`
    Index(u64),
}

impl Chain {
    /// Parses `[NAME=]VARIABLE[->MEMBER|.MEMBER|[INDEX]]...[:TYPE]`.
    pub fn parse(text: &str) -> Answer<Chain> {
        let bad = |why: &str| LinesError::Variable(format!("`{text}` is no variable: {why}"));
        let (given, rest) = match text.split_once('=') {
            Some((name, rest)) => (Some(name), rest),
            None => (None, text),
        };
        let (rest, kind) = match rest.split_once(':') {
            Some((rest, kind)) => (rest, Some(kind.to_string())),
            None => (rest, None),
        };
        let end = |text: &str| text.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').unwrap_or(text.len());
        let (variable, mut left) = rest.split_at(end(rest));
        if variable.is_empty() || variable.starts_with(|first: char| first.is_ascii_digit()) {
            return Err(bad("write a name, such as `count` or `file->f_pos`"));
        }
        let mut steps = Vec::new();
        while !left.is_empty() {
            if steps.len() == LONGEST {
                return Err(bad("it has more than 16 members"));
            }
            if let Some(inside) = left.strip_prefix('[') {
                let (index, behind) = inside.split_once(']').ok_or_else(|| bad("a `]` is missing"))?;
                steps.push(Step::Index(index.parse().map_err(|_| bad("an index is a number"))?));
                left = behind;
                continue;
            }
            let (follows, behind) = match (left.strip_prefix("->"), left.strip_prefix('.')) {
                (Some(behind), _) => (true, behind),
                (_, Some(behind)) => (false, behind),
                _ => return Err(bad("members stand behind `->` or `.`, indices in `[]`")),
            };
            let (member, behind) = behind.split_at(end(behind));
            if member.is_empty() {
                return Err(bad("the name of a member is missing"));
            }
            steps.push(Step::Member(member.into(), follows));
            left = behind;
        }
        let last = steps.iter().rev().find_map(|step| match step {
            Step::Member(name, _) => Some(name.as_str()),
            Step::Index(_) => None,
        });
        let name = given.unwrap_or(last.unwrap_or(variable)).to_string();
        Ok(Chain { name, variable: variable.into(), steps, kind, text: text.into() })
    }

    /// The fetch argument without its name, such as `+0(+40(%di)):string`, of a variable in this place.
    pub fn fetch(&self, types: &dyn Types, isa: &Isa, place: Location, kind: CType) -> Answer<String> {
        let bad = |why: String| LinesError::Variable(format!("`{}`: {why}", self.text));
        let (mut place, mut kind, mut bits) = (place, kind, None);
        for step in &self.steps {
            if bits.is_some() {
                return Err(bad("a bit field has no members".into()));
            }
            (place, kind, bits) = step_into(types, isa, place, kind, step).map_err(bad)?;
        }
        let wants_text = matches!(self.kind.as_deref(), Some("string" | "ustring"));
        let place = match &kind {
            // The bytes of the text are behind the pointer.
            CType::Pointer(_) if wants_text => place.behind(0),
            _ => place,
        };
        if let Some((bit, width)) = bits {
            return self
                .bit_field(isa, place, bit, width, &kind)
                .ok_or_else(|| bad("no integer holds all of this bit field".into()));
        }
        let text = place.text().ok_or_else(|| {
            bad("its value is a sum of a register and a number, and event lines have no sums; its members can be fetched".into())
        })?;
        let own = || match bytes_of(types, &kind, isa.word) {
            _ if !place.in_memory && place.loads.is_empty() && matches!(place.base, Base::Constant(_)) => size_name(&kind, isa),
            Some(_) => type_name(&kind, isa, types, place.in_memory),
            None => type_name(&CType::Pointer(Box::new(CType::Void)), isa, types, place.in_memory),
        };
        Ok(format!("{text}:{}", self.kind.clone().unwrap_or_else(own)))
    }

    fn bit_field(&self, isa: &Isa, place: Location, bit: u64, width: u8, kind: &CType) -> Option<String> {
        // The smallest integer at an aligned address that holds all bits, from the type's own size on.
        let own = match kind {
            CType::Int(size, _) | CType::Enum(size, ..) => u64::from(*size),
            _ => 1,
        };
        let size = [1, 2, 4, 8].into_iter().find(|size| *size >= own && bit % (size * 8) + u64::from(width) <= size * 8)?;
        let from = bit / (size * 8) * size;
        let offset = bit - from * 8;
        let offset = match isa.order {
            ByteOrder::Little => offset,
            ByteOrder::Big => size * 8 - offset - u64::from(width),
        };
        let place = Location { add: place.add.wrapping_add(i64::try_from(from).ok()?), ..place };
        Some(format!("{}:b{width}@{offset}/{}", place.text()?, size * 8))
    }
}

/// A place, the type of the value in it, and its bits if it is a bit field: the first bit and their number.
type Reached = (Location, CType, Option<(u64, u8)>);

/// Follows one step of a chain from a value of type `kind` at `place`. The error says what to write instead.
fn step_into(types: &dyn Types, isa: &Isa, place: Location, kind: CType, step: &Step) -> Result<Reached, String> {
    match (step, kind) {
        (Step::Member(name, follows), kind) => {
            let (structure, place) = match (kind, *follows) {
                (CType::Pointer(to), true) => (*to, place.behind(0)),
                (CType::Pointer(_), false) => return Err(format!("write `->{name}`: a pointer stands in front of it")),
                (CType::Struct(..), true) => {
                    return Err(format!("write `.{name}`: a structure stands in front of it"));
                }
                (kind, _) => (kind, place),
            };
            let CType::Struct(number, of) = structure else {
                return Err(format!("`{name}` cannot be a member of a value of type `{}`", structure.name()));
            };
            if !place.in_memory {
                return Err(format!("`{name}` is a part of a register, and event lines have no form for that"));
            }
            let Some(field) = types.field(number, name) else {
                let known: Vec<String> = types.fields(number).into_iter().take(8).map(|(name, _)| name).collect();
                let known = if known.is_empty() { String::new() } else { format!("; it has {}...", known.join(", ")) };
                return Err(format!("`struct {of}` has no member `{name}`{known}"));
            };
            if let Some(width) = field.width {
                return Ok((place, field.kind, Some((field.bit, width))));
            }
            let offset = i64::try_from(field.bit / 8).map_err(|_| "the member lies too far behind".to_string())?;
            Ok((Location { add: place.add.wrapping_add(offset), ..place }, field.kind, None))
        }
        (Step::Index(index), CType::Array(of, _)) if place.in_memory => {
            let offset = element(types, isa, &of, *index)?;
            Ok((Location { add: place.add.wrapping_add(offset), ..place }, *of, None))
        }
        (Step::Index(index), CType::Pointer(of)) => {
            let offset = element(types, isa, &of, *index)?;
            Ok((place.behind(offset), *of, None))
        }
        (Step::Index(_), kind) => Err(format!("a value of type `{}` has no elements", kind.name())),
    }
}

fn element(types: &dyn Types, isa: &Isa, of: &CType, index: u64) -> Result<i64, String> {
    let size = bytes_of(types, of, isa.word).ok_or("the size of its elements is not known")?;
    size.checked_mul(index).and_then(|offset| i64::try_from(offset).ok()).ok_or_else(|| "the index is too large".into())
}

/// The bytes that a value of a type takes.
pub(super) fn bytes_of(types: &dyn Types, kind: &CType, word: usize) -> Option<u64> {
    match kind {
        CType::Void | CType::Function => None,
        CType::Int(size, _) | CType::Enum(size, ..) => Some((*size).into()),
        CType::Char(_) => Some(1),
        CType::Pointer(_) => Some(word as u64),
        CType::Array(of, count) => bytes_of(types, of, word)?.checked_mul(*count),
        CType::Struct(number, _) => types.size(*number),
    }
}

/// The type that `perf probe` gives a value: signed decimal, or hexadecimal.
fn type_name(kind: &CType, isa: &Isa, types: &dyn Types, in_memory: bool) -> String {
    let bits = |size: u64| if matches!(size, 1 | 2 | 4 | 8) { size * 8 } else { isa.word as u64 * 8 };
    match kind {
        CType::Int(_, true) | CType::Enum(_, true, _) | CType::Char(true) => {
            format!("s{}", bits(bytes_of(types, kind, isa.word).unwrap_or(8)))
        }
        CType::Array(of, _) if in_memory && matches!(**of, CType::Char(_)) => "string".into(),
        CType::Array(of, count @ 1..=64) if in_memory && !matches!(**of, CType::Array(..) | CType::Struct(..)) => {
            format!("{}[{count}]", type_name(of, isa, types, true))
        }
        _ => format!("x{}", bits(bytes_of(types, kind, isa.word).unwrap_or(isa.word as u64))),
    }
}

/// The type of a constant.
fn size_name(kind: &CType, isa: &Isa) -> String {
    match kind {
        CType::Int(size, signed) | CType::Enum(size, signed, _) => {
            format!("{}{}", if *signed { 's' } else { 'x' }, u32::from(*size) * 8)
        }
        CType::Char(signed) => format!("{}8", if *signed { 's' } else { 'x' }),
        _ => format!("x{}", isa.word * 8),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// LV-3
    #[test]
    fn chains_are_read_as_people_write_them() {
        let chain = Chain::parse("name=file->f_path.dentry->d_iname[3]:x8").unwrap();
        let steps = ["f_path", "dentry", "d_iname"].iter().zip([true, false, true]);
        let mut expected: Vec<Step> = steps.map(|(name, follows)| Step::Member((*name).into(), follows)).collect();
        expected.push(Step::Index(3));
        assert_eq!((chain.name.as_str(), chain.variable.as_str(), chain.kind.as_deref()), ("name", "file", Some("x8")));
        assert_eq!(chain.steps, expected);
        assert_eq!(Chain::parse("file->f_pos").unwrap().name, "f_pos");
        for wrong in ["", "3", "a-b", "a->", "a[", "a[x]", "a..b", "%di", &("a".to_string() + &".b".repeat(17))] {
            assert!(Chain::parse(wrong).is_err(), "{wrong}");
        }
    }
}
