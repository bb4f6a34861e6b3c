//! The types that a script can name: its own definitions, laid out as the guest's compiler would, and then the guest's
//! types.

use super::ast::{MemberKind, Structure, Tag};
use super::error::Span;
use super::types::{CType, Enumeration, Field, Type, Types, integer_named, word_named};
use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cell::RefCell;
use trapline_isa::arch::Isa;
use trapline_probes::budget::Budget;

/// The types of a script. Its own definitions hide the guest's. A structure or enum is named by its number: those of the
/// script have numbers from [`OWN`] on, smaller ones are those of [`Types`].
pub(super) struct Known<'a> {
    /// The script's structures, with the inner ones.
    own: Vec<Laid>,
    /// The script's structures. If several have one name, the first counts.
    own_by_name: BTreeMap<String, usize>,
    enums: Vec<Arc<Enumeration>>,
    enums_by_name: BTreeMap<String, usize>,
    /// The script's enumerators: the value and the number of the enum.
    enumerators: BTreeMap<String, (u64, usize)>,
    pub guest: Option<&'a dyn Types>,
    /// The guest's enums that were looked up, by number.
    guest_enums: RefCell<BTreeMap<u32, Arc<Enumeration>>>,
    /// The guest's word size, in bytes.
    pub word: u8,
    /// The greatest alignment of a number, in bytes (`Abi::most_aligned`).
    most_aligned: u64,
    /// Whether bit fields without names align their structure (`Abi::unnamed_bits_align`).
    unnamed_bits_align: bool,
}

/// A structure that the script defines, with the offsets of its members.
pub(super) struct Laid {
    /// The members in order. The name of an anonymous structure is empty.
    pub fields: Vec<(String, Field)>,
    /// The members, including those of anonymous structures. If several have one name, the first counts.
    pub by_name: BTreeMap<String, Field>,
    /// The size in bytes.
    pub size: u64,
    /// The alignment in bytes.
    pub align: u64,
}

/// An enum that the script defines. It has four bytes if its values fit.
pub(super) fn own_enum(name: &str, names: &[(String, u64)]) -> Arc<Enumeration> {
    let signed = names.iter().any(|(_, value)| (*value as i64) < 0);
    let fits = |value: u64| if signed { i32::try_from(value as i64).is_ok() } else { u32::try_from(value).is_ok() };
    let size = if names.iter().all(|(_, value)| fits(*value)) { 4 } else { 8 };
    let names = names.iter().map(|(name, value)| (*value, name.clone())).collect();
    Arc::new(Enumeration { name: name.to_owned(), size, signed, names }.sorted())
}

/// The largest number of the guest's members that the computation of one alignment looks at.
const MOST_MEMBERS: usize = 1000;

/// The steps of copying a member of an anonymous structure to the structure around it. It takes about 100 bytes of memory.
const STEPS_A_MEMBER: u64 = 64;

/// The reason why a structure has no layout.
pub(super) enum Unlaid {
    /// The type with this name is not known.
    Unknown(Span, String),
    /// The budget is spent.
    TooMuch,
}

/// The number of the script's first structure, and of its first enum.
const OWN: u32 = 1 << 31;

impl<'a> Known<'a> {
    /// Creates the types of a script with these enums and no structures yet.
    pub fn new(enums: Vec<Arc<Enumeration>>, guest: Option<&'a dyn Types>, isa: &Isa) -> Known<'a> {
        let (mut enums_by_name, mut enumerators) = (BTreeMap::new(), BTreeMap::new());
        for (number, of) in enums.iter().enumerate() {
            if !of.name.is_empty() {
                enums_by_name.entry(of.name.clone()).or_insert(number);
            }
            for (value, name) in &of.names {
                enumerators.entry(name.clone()).or_insert((*value, number));
            }
        }
        let (own_by_name, guest_enums) = (BTreeMap::new(), RefCell::default());
        Known {
            own: Vec::new(),
            own_by_name,
            enums,
            enums_by_name,
            enumerators,
            guest,
            guest_enums,
            word: isa.word as u8,
            most_aligned: isa.abi.most_aligned,
            unnamed_bits_align: isa.abi.unnamed_bits_align,
        }
    }

    /// The type with this name: a type of the language, of the script, or of the guest, in this order. An enum of a guest
    /// without type information is a 32-bit number.
    pub fn named(&self, tag: Option<Tag>, name: &str) -> Option<CType> {
        if tag.is_none() {
            if name == "char" {
                return Some(CType::Char(true));
            }
            if name == "void" {
                return Some(CType::Void);
            }
            if let Some((size, signed)) = integer_named(name).or_else(|| word_named(name, self.word)) {
                return Some(CType::Int(size, signed));
            }
        } else if tag == Some(Tag::Enum) {
            if let Some(at) = self.enums_by_name.get(name).copied() {
                return Some(CType::Enum(self.enums[at].size, self.enums[at].signed, OWN + at as u32));
            }
            if self.guest.is_none() {
                return Some(CType::Enum(4, false, u32::MAX));
            }
        }
        if let Some(at) = self.own_by_name.get(name).copied().filter(|_| tag != Some(Tag::Enum)) {
            return Some(CType::Struct(OWN + at as u32, name.to_owned()));
        }
        self.guest.and_then(|guest| guest.named(tag, name))
    }

    /// A member of a structure or of its anonymous members.
    pub fn field(&self, structure: u32, name: &str) -> Option<Field> {
        match structure.checked_sub(OWN) {
            Some(own) => self.own.get(own as usize)?.by_name.get(name).cloned(),
            None => self.guest?.field(structure, name),
        }
    }

    /// All members of a structure in order. Anonymous members are replaced by their own members.
    pub fn fields(&self, structure: u32) -> Vec<(String, Field)> {
        match structure.checked_sub(OWN) {
            Some(own) => self.own.get(own as usize).map_or_else(Vec::new, |laid| self.own_fields(laid)),
            None => self.guest.map_or_else(Vec::new, |guest| guest.fields(structure)),
        }
    }

    fn own_fields(&self, laid: &Laid) -> Vec<(String, Field)> {
        let mut fields = Vec::new();
        for (name, field) in &laid.fields {
            match (name.is_empty(), &field.kind) {
                // Bits without a name have the type of a number in C. Those of a structure have no members.
                (true, CType::Struct(number, _)) if field.width.is_none() => {
                    let inside = self.fields(*number).into_iter();
                    fields
                        .extend(inside.map(|(name, inner)| (name, Field { bit: field.bit.saturating_add(inner.bit), ..inner })));
                }
                (true, _) => {}
                _ => fields.push((name.clone(), field.clone())),
            }
        }
        fields
    }

    /// The value and the type of an enumerator.
    pub fn enumerator(&self, name: &str) -> Option<(u64, Type)> {
        if let Some((value, number)) = self.enumerators.get(name) {
            return Some((*value, Type::Enum(Arc::clone(self.enums.get(*number)?))));
        }
        let guest = self.guest?;
        let value = guest.enumerator(name)?;
        let of = guest.enum_of(name).and_then(|number| self.guest_enum(number));
        Some((value, of.map_or(Type::Int(8, value <= i64::MAX as u64), Type::Enum)))
    }

    /// The enum with this number.
    pub fn enumeration(&self, number: u32) -> Option<Arc<Enumeration>> {
        match number.checked_sub(OWN) {
            Some(own) => self.enums.get(own as usize).cloned(),
            None => self.guest_enum(number),
        }
    }

    /// An enum of the guest's, which is copied once.
    fn guest_enum(&self, number: u32) -> Option<Arc<Enumeration>> {
        let known = self.guest_enums.borrow().get(&number).cloned();
        known.or_else(|| {
            let made = Arc::new(self.guest?.enumeration(number)?.sorted());
            self.guest_enums.borrow_mut().insert(number, Arc::clone(&made));
            Some(made)
        })
    }

    /// The size of a type in bytes. `None` for `void`, functions and unknown structures.
    pub fn size_of(&self, kind: &CType) -> Option<u64> {
        Some(match kind {
            CType::Void | CType::Function => return None,
            CType::Int(size, _) | CType::Enum(size, ..) => u64::from(*size),
            CType::Char(_) => 1,
            CType::Pointer(_) => u64::from(self.word),
            CType::Array(of, count) => self.size_of(of)?.saturating_mul(*count),
            CType::Struct(number, _) => match number.checked_sub(OWN) {
                Some(own) => self.own.get(own as usize)?.size,
                None => self.guest?.size(*number)?,
            },
        })
    }

    /// The alignment of a type in bytes.
    fn align_of(&self, kind: &CType) -> u64 {
        match kind {
            CType::Array(of, _) => self.align_of(of),
            CType::Struct(number, _) => match number.checked_sub(OWN) {
                Some(own) => self.own.get(own as usize).map_or(1, |laid| laid.align),
                None => self.align_of_theirs(*number, &mut { MOST_MEMBERS }),
            },
            _ => self.size_of(kind).unwrap_or(1).clamp(1, self.most_aligned),
        }
    }

    /// The alignment of a guest's structure: the greatest of its members. Types do not record it. The structures may be a
    /// stranger's and contain themselves, so only `left` members are looked at.
    fn align_of_theirs(&self, structure: u32, left: &mut usize) -> u64 {
        let fields = self.guest.map(|guest| guest.fields(structure)).unwrap_or_default();
        match left.checked_sub(fields.len()) {
            Some(fewer) if !fields.is_empty() => *left = fewer,
            _ => return u64::from(self.word),
        }
        let mut most = 1;
        for (_, field) in &fields {
            let mut kind = &field.kind;
            while let CType::Array(of, _) = kind {
                kind = of;
            }
            most = most.max(match kind {
                CType::Struct(number, _) if *number < OWN => self.align_of_theirs(*number, left),
                _ => self.align_of(kind),
            });
        }
        most
    }

    /// Lays out a structure as the guest's compiler would. Fails at the first unknown type, or if the budget is spent.
    pub fn lay_out(&mut self, structure: &Structure, budget: &Budget) -> Result<CType, Unlaid> {
        let mut fields = Vec::new();
        let (mut bit, mut size, mut align) = (0_u64, 0_u64, 1_u64);
        for member in &structure.members {
            let kind = match &member.kind {
                MemberKind::Word => CType::Pointer(Box::new(CType::Function)),
                MemberKind::Inside(inside, count) => {
                    let kind = self.lay_out(inside, budget)?;
                    count.map_or(kind.clone(), |count| CType::Array(Box::new(kind), count))
                }
                MemberKind::Named(name) => {
                    let mut kind = match self.named(name.tag, &name.name) {
                        Some(kind) => kind,
                        None if name.pointers > 0 => CType::Void,
                        None => return Err(Unlaid::Unknown(name.at, name.name.clone())),
                    };
                    for _ in 0..name.pointers {
                        kind = CType::Pointer(Box::new(kind));
                    }
                    name.array.map_or(kind.clone(), |count| CType::Array(Box::new(kind), count))
                }
            };
            let bytes = self.size_of(&kind).unwrap_or(0);
            let this_align = if structure.packed { 1 } else { self.align_of(&kind) };
            let width = member.bits.map(|width| width.min(64) as u8);
            align = align.max(match width {
                Some(_) if member.name.is_empty() && !self.unnamed_bits_align => 1,
                // The width 0 asks for the alignment of its type, in a packed structure too.
                Some(0) => self.align_of(&kind),
                _ => this_align,
            });
            if structure.is_union {
                bit = 0;
            }
            match width {
                // A bit field must lie in one aligned number of its declared type, unless the structure is packed.
                Some(width) => {
                    let boundary = self.align_of(&kind).saturating_mul(8);
                    let leaves = bit % boundary + u64::from(width) > bytes.saturating_mul(8).max(8);
                    if width == 0 || leaves && !structure.packed {
                        bit = bit.checked_next_multiple_of(boundary).unwrap_or(u64::MAX);
                    }
                }
                None => bit = bit.checked_next_multiple_of(this_align.saturating_mul(8)).unwrap_or(u64::MAX),
            }
            fields.push((member.name.clone(), Field { kind, bit, width }));
            bit = bit.saturating_add(width.map_or(bytes.saturating_mul(8), u64::from));
            size = size.max(bit.div_ceil(8));
        }
        let by_name = self.flat(&fields, budget).ok_or(Unlaid::TooMuch)?;
        let size = size.checked_next_multiple_of(align).unwrap_or(u64::MAX);
        self.own_by_name.entry(structure.name.clone()).or_insert(self.own.len());
        self.own.push(Laid { fields, by_name, size, align });
        Ok(CType::Struct(OWN + self.own.len() as u32 - 1, structure.name.clone()))
    }

    /// All fields with their names. Fields of anonymous structures come last. `None` if the budget is spent.
    fn flat(&self, fields: &[(String, Field)], budget: &Budget) -> Option<BTreeMap<String, Field>> {
        let mut by_name = BTreeMap::new();
        for (name, field) in fields.iter().filter(|(name, _)| !name.is_empty()) {
            by_name.entry(name.clone()).or_insert_with(|| field.clone());
        }
        for (_, outer) in fields.iter().filter(|(name, field)| name.is_empty() && field.width.is_none()) {
            let CType::Struct(number, _) = &outer.kind else { continue };
            for (name, inner) in self.fields(*number) {
                budget.charge(STEPS_A_MEMBER).ok()?;
                let bit = outer.bit.saturating_add(inner.bit);
                by_name.entry(name).or_insert(Field { bit, ..inner });
            }
        }
        Some(by_name)
    }
}
