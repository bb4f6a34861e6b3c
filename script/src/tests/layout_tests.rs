//! Structures that a script defines have the layout of the guest's compiler. The expected numbers are those of GCC 12 for
//! each ABI: there are three, because `long` has four or eight bytes, and i386 aligns 64-bit numbers to four bytes.

use super::{options, run_all};
use crate::ast::Tag;
use crate::compile::{Knowledge, compile};
use crate::show::Style;
use crate::types::{CType, Field, Prototype, Types};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use std::string::ToString;
use trapline_isa::arch::{Arch, Isa};

/// A guest of some ISA, whose types have one structure: `struct theirs { char a; long long b; }`.
pub(super) struct On(pub(super) Arch);

impl Knowledge for On {
    fn isa(&self) -> &'static Isa {
        self.0.isa()
    }
    fn types(&self) -> Option<&dyn Types> {
        Some(self)
    }
    fn address(&self, _: &str) -> Option<u64> {
        None
    }
    fn system_call_names(&self) -> Arc<[String]> {
        Arc::new([])
    }
    fn functions(&self, _: &str, _: bool) -> Vec<String> {
        Vec::new()
    }
}

const THEIRS: u32 = 7;

impl Types for On {
    fn named(&self, tag: Option<Tag>, name: &str) -> Option<CType> {
        (tag == Some(Tag::Struct) && name == "theirs").then(|| CType::Struct(THEIRS, name.into()))
    }
    fn field(&self, _: u32, name: &str) -> Option<Field> {
        self.fields(THEIRS).into_iter().find(|(known, _)| known == name).map(|(_, field)| field)
    }
    fn fields(&self, _: u32) -> Vec<(String, Field)> {
        let at = if self.0 == Arch::I386 { 32 } else { 64 };
        let field = |kind, bit| Field { kind, bit, width: None };
        std::vec![("a".into(), field(CType::Char(true), 0)), ("b".into(), field(CType::Int(8, true), at))]
    }
    fn size(&self, _: u32) -> Option<u64> {
        Some(if self.0 == Arch::I386 { 12 } else { 16 })
    }
    fn enumerator(&self, _: &str) -> Option<u64> {
        None
    }
    fn function(&self, _: &str) -> Option<Prototype> {
        None
    }
}

const STRUCTURES: &str = "struct inner { char c; long long l; };
    struct s1 { int a; long long b; char c; short d; };
    struct s2 { char a; struct inner b; char c; };
    union u { char a; long long b; };
    struct s3 { char a; union u b; };
    struct s4 { int a; long long b[2]; char c; };
    struct s5 { char a; long b; void *c; char d; };
    struct s6 { int a; uint64_t b : 40; uint64_t c : 30; char d; };
    struct s7 { char a; long long b; } __attribute__((packed));
    struct s8 { char a; struct theirs b; char c; };";

/// The printed places, and their values on ISAs with 64 bits, with 32 bits, and on i386.
#[rustfmt::skip]
const PLACES: &[(&str, [u64; 3])] = &[
    ("offsetof(struct s1, b)", [8, 8, 4]),
    ("offsetof(struct s1, d)", [18, 18, 14]),
    ("sizeof(struct s1)",      [24, 24, 16]),
    ("offsetof(struct s2, b)", [8, 8, 4]),
    ("offsetof(struct s2, c)", [24, 24, 16]),
    ("sizeof(struct s2)",      [32, 32, 20]),
    ("offsetof(struct s3, b)", [8, 8, 4]),
    ("sizeof(struct s3)",      [16, 16, 12]),
    ("offsetof(struct s4, b)", [8, 8, 4]),
    ("sizeof(struct s4)",      [32, 32, 24]),
    ("offsetof(struct s5, b)", [8, 4, 4]),
    ("offsetof(struct s5, c)", [16, 8, 8]),
    ("sizeof(struct s5)",      [32, 16, 16]),
    ("offsetof(struct s6, d)", [20, 20, 13]),
    ("sizeof(struct s6)",      [24, 24, 16]),
    ("offsetof(struct s7, b)", [1, 1, 1]),
    ("sizeof(struct s7)",      [9, 9, 9]),
    // Equal to s2, with the guest's own structure.
    ("offsetof(struct s8, b)", [8, 8, 4]),
    ("offsetof(struct s8, c)", [24, 24, 16]),
    ("sizeof(struct s8)",      [32, 32, 20]),
];

/// BY-1: bit fields without names take up bits. They align their structure by the ABIs of ARM and no other, as GCC does.
#[test]
fn bit_fields_without_names_take_up_bits() {
    let text = "struct n1 { char x; int : 3; char y; }; struct n2 { char x; int : 0; char y; }; struct n3 { char x; long long : 40, b : 3; };
        struct n4 { char x; short : 3; int : 0; }; union n5 { char x; int : 5; };
        BEGIN { printf(\"%d,%d %d,%d %d %d %d\\n\", offsetof(struct n1, y), sizeof(struct n1), offsetof(struct n2, y), sizeof(struct n2),
            offsetof(struct n3, b), sizeof(struct n4), sizeof(union n5)); }";
    for arch in Arch::ALL {
        let program = compile(text, &On(*arch), &options(false)).unwrap_or_else(|errors| panic!("{text}\n{errors:?}"));
        let printed = run_all(&program, Style { json: false, old: false });
        let expected = match arch {
            Arch::Arm | Arch::Thumb2 | Arch::Arm64 => "2,4 4,8 6 4 4\n",
            _ => "2,3 4,5 6 4 1\n",
        };
        assert!(printed.contains(expected), "{}: {printed}", arch.name());
    }
}

/// BY-1
#[test]
fn structures_have_the_layout_of_the_guests_compiler() {
    let prints: String = PLACES.iter().map(|(place, _)| std::format!("print({place}); ")).collect();
    let text = std::format!("{STRUCTURES} BEGIN {{ {prints} }}");
    for arch in Arch::ALL {
        let kind = match (arch, arch.isa().word) {
            (Arch::I386, _) => 2,
            (_, 4) => 1,
            _ => 0,
        };
        let program = compile(&text, &On(*arch), &options(false)).unwrap_or_else(|errors| panic!("{text}\n{errors:?}"));
        let printed = run_all(&program, Style { json: false, old: false });
        let values: Vec<&str> = printed.lines().filter(|line| line.parse::<u64>().is_ok()).collect();
        let expected: Vec<String> = PLACES.iter().map(|(_, values)| values[kind].to_string()).collect();
        for ((place, expected), seen) in PLACES.iter().map(|(place, _)| place).zip(&expected).zip(&values) {
            assert_eq!(seen, expected, "{}: {place}", arch.name());
        }
        assert_eq!(values.len(), expected.len(), "{printed}");
    }
}

/// BY-1: a negative value of a signed enum that has no name is printed as a negative number, in a copy of a structure too.
#[test]
fn values_of_enums_without_a_name_keep_their_sign() {
    use crate::shape::Shape;
    use crate::types::Enumeration;
    let names = std::vec![(-5_i64 as u64, "MINUS_FIVE".into())];
    for (signed, wanted) in [(true, "-16"), (false, "4294967280")] {
        let names = if signed { names.clone() } else { std::vec![] };
        let of = alloc::sync::Arc::new(Enumeration { name: "e".into(), size: 4, signed, names });
        let shape = Shape::Named(of, 4, trapline_isa::mem::ByteOrder::Little);
        for json in [false, true] {
            let mut out = alloc::vec::Vec::new();
            shape.write(&mut out, &(-16_i32).to_le_bytes(), json);
            assert_eq!(alloc::string::String::from_utf8_lossy(&out), wanted);
        }
    }
}
