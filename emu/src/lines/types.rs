//! Types out of DWARF: the type of a variable, its name in C, and the members of structures.

use super::error::Answer;
use super::units::{Info, MOST_STEPS, Place};
use gimli::{AttributeValue, Operation, UnitOffset, constants as c};
use trapline_script::types::{CType, Enumeration, Field, Prototype, Tag, Types};

/// The limit of pointers and arrays within each other, and of anonymous structures within each other.
const DEEPEST: usize = 8;

impl Info<'_> {
    /// The type that an entry has; `void` if it has none.
    pub(super) fn type_of(&self, place: Place) -> Answer<CType> {
        let found = self.attribute(place, c::DW_AT_type)?;
        match found.and_then(|(unit, value)| self.target(unit, value)) {
            Some(target) => self.c_type(target, DEEPEST),
            None => Ok(CType::Void),
        }
    }

    /// The name that C gives the type of an entry.
    pub(super) fn type_name_of(&self, place: Place) -> Answer<String> {
        let found = self.attribute(place, c::DW_AT_type)?;
        match found.and_then(|(unit, value)| self.target(unit, value)) {
            Some(target) => self.type_name(target, DEEPEST),
            None => Ok("void".into()),
        }
    }

    fn inner(&self, place: Place) -> Answer<Option<Place>> {
        let (_, entry) = self.entry(place)?;
        Ok(entry.attr_value(c::DW_AT_type).and_then(|value| self.target(place.unit, value)))
    }

    /// The type that an entry describes, without typedefs and qualifiers. `depth` bounds pointers and arrays within each other;
    /// deeper ones become `void`.
    fn c_type(&self, place: Place, depth: usize) -> Answer<CType> {
        let mut place = place;
        for _ in 0..MOST_STEPS {
            let (unit, entry) = self.entry(place)?;
            let inner = entry.attr_value(c::DW_AT_type).and_then(|value| self.target(place.unit, value));
            let size = entry.attr_value(c::DW_AT_byte_size).and_then(|size| size.udata_value());
            let size = size.unwrap_or(u64::from(self.file.address_size)).clamp(1, 8) as u8;
            place = match (entry.tag(), inner) {
                (c::DW_TAG_base_type, _) => {
                    let name = entry.attr_value(c::DW_AT_name).map_or(Ok(String::new()), |name| self.text(&unit, name))?;
                    let signed = matches!(
                        entry.attr_value(c::DW_AT_encoding),
                        Some(AttributeValue::Encoding(c::DW_ATE_signed | c::DW_ATE_signed_char))
                    );
                    return Ok(if name == "char" { CType::Char(signed) } else { CType::Int(size, signed) });
                }
                (c::DW_TAG_enumeration_type, of) => {
                    let signed = match of {
                        Some(of) if depth > 0 => matches!(self.c_type(of, 0)?, CType::Int(_, true)),
                        _ => false,
                    };
                    return Ok(CType::Enum(size, signed, self.global(place).unwrap_or(0)));
                }
                (c::DW_TAG_structure_type | c::DW_TAG_union_type | c::DW_TAG_class_type, _) => {
                    let name = entry.attr_value(c::DW_AT_name).map_or(Ok(String::new()), |name| self.text(&unit, name))?;
                    return Ok(CType::Struct(self.global(place).unwrap_or(0), name));
                }
                (c::DW_TAG_pointer_type, None) => return Ok(CType::Pointer(Box::new(CType::Void))),
                (c::DW_TAG_pointer_type, Some(_)) if depth == 0 => return Ok(CType::Pointer(Box::new(CType::Void))),
                (c::DW_TAG_pointer_type, Some(to)) => return Ok(CType::Pointer(Box::new(self.c_type(to, depth - 1)?))),
                (c::DW_TAG_array_type, Some(of)) if depth > 0 => {
                    let element = self.c_type(of, depth - 1)?;
                    return Ok(self
                        .lengths(place)?
                        .into_iter()
                        .rev()
                        .fold(element, |of, count| CType::Array(Box::new(of), count)));
                }
                (c::DW_TAG_subroutine_type, _) => return Ok(CType::Function),
                (
                    c::DW_TAG_typedef
                    | c::DW_TAG_const_type
                    | c::DW_TAG_volatile_type
                    | c::DW_TAG_restrict_type
                    | c::DW_TAG_atomic_type,
                    Some(of),
                ) => of,
                _ => return Ok(CType::Void),
            };
        }
        Ok(CType::Void)
    }

    /// The lengths of an array's dimensions.
    fn lengths(&self, array: Place) -> Answer<Vec<u64>> {
        let unit = self.unit(array.unit)?;
        let mut tree = unit.unit.entries_tree(Some(UnitOffset(array.at)))?;
        let (mut children, mut lengths) = (tree.root()?.children(), Vec::new());
        while let Some(child) = children.next()? {
            self.charge(1)?;
            let number = |name| child.entry().attr_value(name).and_then(|value| value.udata_value());
            if child.entry().tag() == c::DW_TAG_subrange_type && lengths.len() < DEEPEST {
                let bound = number(c::DW_AT_upper_bound).filter(|bound| *bound < 1 << 32).map(|bound| bound + 1);
                lengths.push(number(c::DW_AT_count).or(bound).unwrap_or(0));
            }
        }
        Ok(lengths)
    }

    fn type_name(&self, place: Place, depth: usize) -> Answer<String> {
        let (unit, entry) = self.entry(place)?;
        let name = entry.attr_value(c::DW_AT_name).map(|name| self.text(&unit, name)).transpose()?;
        let inner = |info: &Self| match info.inner(place)? {
            Some(_) if depth == 0 => Ok("...".to_string()),
            Some(inner) => info.type_name(inner, depth - 1),
            None => Ok("void".to_string()),
        };
        Ok(match (entry.tag(), name) {
            (c::DW_TAG_structure_type, name) => format!("struct {}", name.unwrap_or_default()).trim_end().into(),
            (c::DW_TAG_union_type, name) => format!("union {}", name.unwrap_or_default()).trim_end().into(),
            (c::DW_TAG_enumeration_type, name) => format!("enum {}", name.unwrap_or_default()).trim_end().into(),
            (c::DW_TAG_pointer_type, _) => {
                let to = inner(self)?;
                if to.ends_with('*') { format!("{to}*") } else { format!("{to} *") }
            }
            (c::DW_TAG_const_type, _) => format!("const {}", inner(self)?),
            (c::DW_TAG_volatile_type, _) => format!("volatile {}", inner(self)?),
            (c::DW_TAG_restrict_type | c::DW_TAG_atomic_type, _) => inner(self)?,
            (c::DW_TAG_array_type, _) => {
                let lengths = self.lengths(place)?;
                inner(self)? + &lengths.iter().map(|length| format!("[{length}]")).collect::<String>()
            }
            (c::DW_TAG_subroutine_type, _) => "function".into(),
            (_, Some(name)) => name,
            _ => "?".into(),
        })
    }

    /// The entry that defines a structure. If the given one only declares it, this is its definition in another unit.
    fn defined(&self, structure: u32) -> Answer<Option<Place>> {
        let Some(place) = self.place(structure) else { return Ok(None) };
        let (unit, entry) = self.entry(place)?;
        match (entry.has_attr(c::DW_AT_declaration), entry.attr_value(c::DW_AT_name)) {
            (true, Some(name)) => {
                let name = self.text(&unit, name)?;
                self.structure(&name)
            }
            _ => Ok(Some(place)),
        }
    }

    /// Calls `with` for each member, those of anonymous members too, until it returns true. Returns whether it has.
    fn members(&self, structure: Place, from: u64, depth: usize, with: &mut dyn FnMut(&str, Field) -> bool) -> Answer<bool> {
        let unit = self.unit(structure.unit)?;
        let mut tree = unit.unit.entries_tree(Some(UnitOffset(structure.at)))?;
        let mut children = tree.root()?.children();
        while let Some(child) = children.next()? {
            self.charge(1)?;
            let entry = child.entry();
            if entry.tag() != c::DW_TAG_member {
                continue;
            }
            let place = Place { unit: structure.unit, at: entry.offset().0 };
            let number = |name| entry.attr_value(name).and_then(|value| value.udata_value());
            let location = match entry.attr_value(c::DW_AT_data_member_location) {
                None => 0,
                Some(AttributeValue::Exprloc(expression)) => match expression.operations(unit.unit.encoding()).next()? {
                    Some(Operation::PlusConstant { value } | Operation::UnsignedConstant { value }) => value,
                    _ => continue,
                },
                Some(value) => value.udata_value().unwrap_or(0),
            };
            let bits = |kind: &CType| -> (u64, Option<u8>) {
                let width = number(c::DW_AT_bit_size).filter(|width| *width <= 64).map(|width| width as u8);
                let start = location.wrapping_mul(8);
                let bit = match (width, number(c::DW_AT_data_bit_offset), number(c::DW_AT_bit_offset)) {
                    (Some(_), Some(bit), _) => bit,
                    // DWARF 3 counts from the highest bit of a container (DW_AT_bit_offset).
                    (Some(width), None, Some(offset)) if self.file.little => {
                        let container = number(c::DW_AT_byte_size).or_else(|| self.bytes(kind)).unwrap_or(4);
                        start.wrapping_add((container.wrapping_mul(8)).wrapping_sub(offset).wrapping_sub(width.into()))
                    }
                    (Some(_), None, Some(offset)) => start.wrapping_add(offset),
                    _ => start,
                };
                (from.wrapping_add(bit), width)
            };
            match entry.attr_value(c::DW_AT_name) {
                None if depth > 0 => {
                    let inner = self.type_of(place)?;
                    let (bit, _) = bits(&inner);
                    if let CType::Struct(inner, _) = inner
                        && let Some(inner) = self.defined(inner)?
                        && self.members(inner, bit, depth - 1, with)?
                    {
                        return Ok(true);
                    }
                }
                None => {}
                Some(name) => {
                    let name = self.text(&unit, name)?;
                    let kind = self.type_of(place)?;
                    let (bit, width) = bits(&kind);
                    if with(&name, Field { kind, bit, width }) {
                        return Ok(true);
                    }
                }
            }
        }
        Ok(false)
    }

    /// The bytes that a value of a type takes.
    fn bytes(&self, kind: &CType) -> Option<u64> {
        super::chains::bytes_of(self, kind, usize::from(self.file.address_size))
    }
}

impl Types for Info<'_> {
    fn named(&self, tag: Option<Tag>, name: &str) -> Option<CType> {
        if tag == Some(Tag::Enum) {
            return None;
        }
        let place = self.structure(name).ok()??;
        Some(CType::Struct(self.global(place)?, name.into()))
    }

    fn field(&self, structure: u32, name: &str) -> Option<Field> {
        let place = self.defined(structure).ok()??;
        let mut found = None;
        self.members(place, 0, DEEPEST, &mut |is, field| {
            let same = is == name;
            if same {
                found = Some(field);
            }
            same
        })
        .ok()?;
        found
    }

    fn fields(&self, structure: u32) -> Vec<(String, Field)> {
        let mut fields = Vec::new();
        if let Ok(Some(place)) = self.defined(structure) {
            let _ = self.members(place, 0, DEEPEST, &mut |name, field| {
                fields.push((name.to_string(), field));
                false
            });
        }
        fields
    }

    fn size(&self, structure: u32) -> Option<u64> {
        let (_, entry) = self.entry(self.defined(structure).ok()??).ok()?;
        entry.attr_value(c::DW_AT_byte_size)?.udata_value()
    }

    fn enumerator(&self, _: &str) -> Option<u64> {
        None
    }

    fn enumeration(&self, _: u32) -> Option<Enumeration> {
        None
    }

    fn function(&self, _: &str) -> Option<Prototype> {
        None
    }
}
