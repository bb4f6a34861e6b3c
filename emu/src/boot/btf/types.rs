//! A kernel's types for scripts: structure fields, function parameters, enumerators.

use super::{BEHIND, Btf, DEEPEST, MEMBER, MOST_MEMBERS, STRUCTURE, Structure, TYPE, UNION};
use std::cell::Cell;
use std::collections::HashMap;
use trapline_script::types::{CType, Enumeration, Field, Prototype, Tag, Types};

const INT: u32 = 1;
const POINTER: u32 = 2;
const ARRAY: u32 = 3;
const ENUM: u32 = 6;
const TYPEDEF: u32 = 8;
const VOLATILE: u32 = 9;
const CONST: u32 = 10;
const RESTRICT: u32 = 11;
const FUNCTION: u32 = 12;
const PROTOTYPE: u32 = 13;
const TYPE_TAG: u32 = 18;
const ENUM64: u32 = 19;

/// The limit of types that refer to one another; real ones go ten deep.
const MOST_STEPS: usize = 64;

/// A kernel's types, indexed by name.
pub struct GuestTypes<'a> {
    btf: Btf<'a>,
    /// Typedefs and integers.
    plain: HashMap<&'a [u8], u32>,
    enums: HashMap<&'a [u8], u32>,
    functions: HashMap<&'a [u8], u32>,
    /// Each enumerator's value, with the number of its enum.
    enumerators: HashMap<&'a [u8], (u64, u32)>,
    /// The work of all look-ups so far: members that were visited, and bytes of names that were copied.
    work: Cell<u64>,
}

impl<'a> GuestTypes<'a> {
    /// Indexes all types by name.
    pub fn new(btf: Btf<'a>) -> GuestTypes<'a> {
        let (mut plain, mut enums, mut functions, mut enumerators) =
            (HashMap::new(), HashMap::new(), HashMap::new(), HashMap::new());
        for number in 1..=btf.starts.len() as u32 {
            let Some((kind, at, info)) = btf.head(number) else { continue };
            let name = btf.word(at).map_or(&b""[..], |name| btf.name(name));
            match kind {
                INT | TYPEDEF if !name.is_empty() => {
                    plain.entry(name).or_insert(number);
                }
                FUNCTION if !name.is_empty() => {
                    functions.entry(name).or_insert(number);
                }
                ENUM | ENUM64 => {
                    if !name.is_empty() {
                        enums.entry(name).or_insert(number);
                    }
                    for (name, value) in btf.enumerators(kind, at, info) {
                        enumerators.entry(name).or_insert((value, number));
                    }
                }
                _ => {}
            }
        }
        GuestTypes { btf, plain, enums, functions, enumerators, work: Cell::new(0) }
    }

    /// The types that this was built from.
    pub fn btf(&self) -> &Btf<'a> {
        &self.btf
    }

    fn worked(&self, work: usize) {
        self.work.set(self.work.get().saturating_add(work as u64));
    }

    /// A name for a script, whose bytes count as work.
    fn text(&self, name: &[u8]) -> String {
        self.worked(name.len());
        String::from_utf8_lossy(name).into_owned()
    }

    fn c_type(&self, mut number: u32) -> CType {
        for _ in 0..MOST_STEPS {
            if number == 0 {
                return CType::Void;
            }
            let Some((kind, at, info)) = self.btf.head(number) else { return CType::Void };
            let name = self.btf.word(at).map_or(&b""[..], |name| self.btf.name(name));
            let behind = |word: usize| self.btf.word(at + TYPE + 4 * word).unwrap_or(0);
            let size_or_type = self.btf.word(at + 8).unwrap_or(0);
            let size = size_or_type.clamp(1, 8) as u8;
            number = match kind {
                INT if name == b"char" => return CType::Char(behind(0) >> 24 & 1 != 0),
                INT => return CType::Int(size, behind(0) >> 24 & 1 != 0),
                ENUM | ENUM64 => return CType::Enum(size, info >> 31 != 0, number),
                STRUCTURE | UNION => return CType::Struct(number, self.text(name)),
                POINTER => return CType::Pointer(Box::new(self.pointed_at(size_or_type))),
                ARRAY => return CType::Array(Box::new(self.element(behind(0))), behind(2).into()),
                TYPEDEF | VOLATILE | CONST | RESTRICT | TYPE_TAG => size_or_type,
                FUNCTION | PROTOTYPE => return CType::Function,
                _ => return CType::Void,
            };
        }
        CType::Void
    }

    /// The type that a pointer points to. Chains of pointers and arrays are followed up to [`DEEPEST`].
    fn pointed_at(&self, number: u32) -> CType {
        self.bounded(number, DEEPEST)
    }

    fn element(&self, number: u32) -> CType {
        self.bounded(number, DEEPEST)
    }

    fn bounded(&self, number: u32, depth: usize) -> CType {
        let mut at = number;
        for _ in 0..MOST_STEPS {
            let Some((kind, start, _)) = self.btf.head(at) else { return CType::Void };
            let inner = self.btf.word(start + 8).unwrap_or(0);
            match kind {
                POINTER if depth == 0 => return CType::Pointer(Box::new(CType::Void)),
                POINTER => return CType::Pointer(Box::new(self.bounded(inner, depth - 1))),
                ARRAY if depth == 0 => return CType::Void,
                ARRAY => {
                    let (of, count) = (self.btf.word(start + TYPE).unwrap_or(0), self.btf.word(start + TYPE + 8).unwrap_or(0));
                    return CType::Array(Box::new(self.bounded(of, depth - 1)), count.into());
                }
                TYPEDEF | VOLATILE | CONST | RESTRICT | TYPE_TAG => at = inner,
                _ => return self.c_type(at),
            }
        }
        CType::Void
    }

    /// Appends the fields of a structure that starts at bit `from`. `None` if a field cannot be read.
    fn all(
        &self,
        structure: Structure,
        from: u64,
        depth: usize,
        left: &mut usize,
        into: &mut Vec<(String, Field)>,
    ) -> Option<()> {
        for index in 0..structure.members {
            *left = left.checked_sub(1)?;
            let at = structure.at + index * MEMBER;
            let (name, kind, offset) = (self.btf.name(self.btf.word(at)?), self.btf.word(at + 4)?, self.btf.word(at + 8)?);
            let (bit, bits) = if structure.bit_fields { (offset & 0x00ff_ffff, offset >> 24) } else { (offset, 0) };
            let bit = from + u64::from(bit);
            match (name.is_empty(), self.btf.structure(kind)) {
                (true, Some(inner)) if depth > 0 => self.all(inner, bit, depth - 1, left, into)?,
                (true, _) => {}
                _ => {
                    let width = (bits != 0).then_some(bits.min(64) as u8);
                    let kind = self.bounded(kind, DEEPEST);
                    into.push((self.text(name), Field { kind, bit, width }));
                }
            }
        }
        Some(())
    }

    fn find(&self, structure: Structure, wanted: &[u8], depth: usize, left: &mut usize) -> Option<Field> {
        for index in 0..structure.members {
            *left = left.checked_sub(1)?;
            let at = structure.at + index * MEMBER;
            let (name, kind, offset) = (self.btf.word(at)?, self.btf.word(at + 4)?, self.btf.word(at + 8)?);
            let (bit, bits) = if structure.bit_fields { (offset & 0x00ff_ffff, offset >> 24) } else { (offset, 0) };
            if self.btf.has_name(name, wanted) {
                let kind = self.bounded(kind, DEEPEST);
                return Some(Field { kind, bit: bit.into(), width: (bits != 0).then_some(bits.min(64) as u8) });
            }
            if self.btf.has_name(name, b"")
                && depth > 0
                && let Some(inner) = self.btf.structure(kind)
                && let Some(inside) = self.find(inner, wanted, depth - 1, left)
            {
                return Some(Field { bit: inside.bit + u64::from(bit), ..inside });
            }
        }
        None
    }
}

impl<'a> Btf<'a> {
    /// The names and values of an enum.
    fn enumerators(&self, kind: u32, at: usize, info: u32) -> impl Iterator<Item = (&'a [u8], u64)> {
        let size = BEHIND[kind as usize].1;
        (0..info as usize & 0xffff).map_while(move |index| {
            let at = at + TYPE + index * size;
            let (name, low) = (self.word(at)?, self.word(at + 4)?);
            let value = match kind {
                ENUM64 => u64::from(low) | u64::from(self.word(at + 8).unwrap_or(0)) << 32,
                _ if info >> 31 != 0 => low as i32 as u64,
                _ => low.into(),
            };
            Some((self.name(name), value))
        })
    }

    /// A type's kind, offset, and second word (`info`).
    fn head(&self, number: u32) -> Option<(u32, usize, u32)> {
        let start = *self.starts.get((number as usize).checked_sub(1)?)? as usize;
        let info = self.word(start + 4)?;
        Some((info >> 24 & 0x1f, start, info))
    }
}

impl Types for GuestTypes<'_> {
    fn named(&self, tag: Option<Tag>, name: &str) -> Option<CType> {
        let name = name.as_bytes();
        let number = match tag {
            Some(Tag::Struct | Tag::Union) => self.btf.structures.get(name),
            Some(Tag::Enum) => self.enums.get(name),
            None => self.plain.get(name).or_else(|| self.btf.structures.get(name)),
        };
        number.map(|number| self.bounded(*number, DEEPEST))
    }

    fn field(&self, structure: u32, name: &str) -> Option<Field> {
        let mut left = MOST_MEMBERS;
        let found = self.find(self.btf.structure(structure)?, name.as_bytes(), DEEPEST, &mut left);
        self.worked(MOST_MEMBERS - left);
        found
    }

    fn fields(&self, structure: u32) -> Vec<(String, Field)> {
        let (mut fields, mut left) = (Vec::new(), MOST_MEMBERS);
        if let Some(structure) = self.btf.structure(structure) {
            self.all(structure, 0, DEEPEST, &mut left, &mut fields);
        }
        self.worked(MOST_MEMBERS - left);
        fields
    }

    fn size(&self, structure: u32) -> Option<u64> {
        let (kind, at, _) = self.btf.head(structure)?;
        matches!(kind, STRUCTURE | UNION).then_some(())?;
        self.btf.word(at + 8).map(u64::from)
    }

    fn enumerator(&self, name: &str) -> Option<u64> {
        self.enumerators.get(name.as_bytes()).map(|(value, _)| *value)
    }

    fn enum_of(&self, name: &str) -> Option<u32> {
        self.enumerators.get(name.as_bytes()).map(|(_, number)| *number)
    }

    fn enumeration(&self, number: u32) -> Option<Enumeration> {
        let (kind, at, info) = self.btf.head(number)?;
        matches!(kind, ENUM | ENUM64).then_some(())?;
        let names = self.btf.enumerators(kind, at, info);
        self.worked(info as usize & 0xffff);
        Some(Enumeration {
            name: self.text(self.btf.name(self.btf.word(at)?)),
            size: self.btf.word(at + 8)?.clamp(1, 8) as u8,
            signed: info >> 31 != 0,
            names: names.map(|(name, value)| (value, self.text(name))).collect(),
        })
    }

    fn function(&self, name: &str) -> Option<Prototype> {
        let (_, at, _) = self.btf.head(*self.functions.get(name.as_bytes())?)?;
        let (kind, at, info) = self.btf.head(self.btf.word(at + 8)?)?;
        if kind != PROTOTYPE {
            return None;
        }
        let result = self.bounded(self.btf.word(at + 8)?, DEEPEST);
        let mut parameters = Vec::new();
        self.worked(info as usize & 0xffff);
        for index in 0..info as usize & 0xffff {
            let at = at + TYPE + index * 8;
            let (name, kind) = (self.btf.name(self.btf.word(at)?), self.btf.word(at + 4)?);
            if kind != 0 {
                parameters.push((self.text(name), self.bounded(kind, DEEPEST)));
            }
        }
        Some(Prototype { parameters, result })
    }

    fn work(&self) -> u64 {
        self.work.get()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::Writer;
    use super::*;
    use trapline_isa::arch::{Arch, Isa};
    use trapline_script::{Knowledge, Options, budget, compile_within};

    /// A guest that has only type information.
    struct Typed<'a>(GuestTypes<'a>);

    impl Knowledge for Typed<'_> {
        fn isa(&self) -> &'static Isa {
            Arch::X86_64.isa()
        }
        fn types(&self) -> Option<&dyn Types> {
            Some(&self.0)
        }
        fn address(&self, name: &str) -> Option<u64> {
            (name == "f").then_some(0x1000)
        }
        fn functions(&self, _: &str, _: bool) -> Vec<String> {
            vec!["f".into(); 1000]
        }
    }

    /// BY-1: a script that looks up many members of a stranger's large types is refused when its budget is spent, and
    /// types of twice the size take twice the steps.
    #[test]
    fn look_ups_in_hostile_types_are_charged() {
        /// Type information: structures, an enum and a function with this number of members, a structure that holds itself, and
        /// one that holds the large structure many times without a name.
        fn types(members: usize) -> Vec<u8> {
            let mut writer = Writer::new(true);
            writer.kind("int", INT << 24, &[32]); // 1
            let mut all = vec![("m", 1, 0); members];
            all.push(("last", 1, 32));
            writer.structure("big", STRUCTURE << 24, &all); // 2
            writer.structure("own", STRUCTURE << 24, &[("", 3, 0), ("", 3, 0), ("x", 1, 0)]); // 3
            writer.structure("wide", STRUCTURE << 24, &vec![("", 2, 0); 1000]); // 4
            writer.structure("held", STRUCTURE << 24, &vec![("h", 4, 0); 1000]); // 5
            let numbers: Vec<u32> = (0..members as u32).flat_map(|number| [1, number]).collect();
            writer.kind("many", ENUM << 24 | members as u32, &numbers); // 6
            writer.structure("enums", STRUCTURE << 24, &[("e", 6, 0)]); // 7
            let parameters = [1_u32, 1].repeat(members);
            writer.kind("", PROTOTYPE << 24 | members as u32, &parameters); // 8
            let f = writer.types.len();
            writer.kind("f", FUNCTION << 24, &[]); // 9
            writer.types[f + 8..f + 12].copy_from_slice(&8_u32.to_le_bytes());
            writer.finish()
        }
        let times = |text: &str| format!("BEGIN {{ {} }}", text.repeat(2_000));
        let cases = [
            ("the last member", times("$x = ((struct big *)0)->last; ")),
            ("a member that is not there", times("$x = ((struct own *)0)->nothing; ")),
            ("a member of a nameless one", times("$x = ((struct wide *)0)->nothing; ")),
            ("a copy", times("$x = *(struct held *)0; ")),
            ("an enum", times("print(((struct enums *)0)->e); ")),
            ("parameters", "fentry:f* { $x = args.nothing; }".repeat(20)),
        ];
        for (what, script) in cases {
            let steps = |members: usize| {
                let bytes = types(members);
                let known = Typed(GuestTypes::new(Btf::parse(&bytes).expect("types")));
                let budget = budget(&script);
                let refused = compile_within(&script, &known, &Options::default(), &budget).err();
                if budget.is_spent() {
                    let errors = refused.unwrap_or_else(|| panic!("{what}: it is compiled beyond its budget"));
                    assert!(errors.iter().any(|error| error.message.contains("more work")), "{what}: {errors:?}");
                }
                assert!(budget.spent() < 2 * budget.most(), "{what}: {} steps of {}", budget.spent(), budget.most());
                // One look-up is charged after it.
                let most = 8 * budget.most() + 8 * MOST_MEMBERS as u64;
                assert!(known.0.work() < most, "{what}: {} members and bytes", known.0.work());
                budget.spent()
            };
            let (one, two) = (steps(2_000), steps(4_000));
            assert!(5 * two <= 11 * one, "{what}: {one} steps, twice the size {two}");
        }
    }

    /// BY-1
    #[test]
    fn types_that_hold_themselves_end() {
        // A typedef, a pointer and an array of itself.
        for (kind, words) in [(TYPEDEF, &[][..]), (POINTER, &[]), (CONST, &[]), (ARRAY, &[1, 1, 4])] {
            let mut types: Vec<u8> = [1, kind << 24, 1].into_iter().flat_map(u32::to_le_bytes).collect();
            types.extend(words.iter().copied().flat_map(u32::to_le_bytes));
            let strings = b"\0me\0";
            let header = [24, 0, types.len() as u32, types.len() as u32, strings.len() as u32];
            let bytes: Vec<u8> =
                [&[0x9f, 0xeb, 1, 0][..], &header.into_iter().flat_map(u32::to_le_bytes).collect::<Vec<_>>(), &types, strings]
                    .concat();
            let types = GuestTypes::new(Btf::parse(&bytes).expect("types"));
            let _ = (types.named(None, "me"), types.c_type(1), types.function("me"), types.field(1, "x"));
        }
    }
}
