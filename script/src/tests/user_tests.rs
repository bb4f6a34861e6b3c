//! Attach points in user programs, without a guest.

use super::{Options, Types, compile};
use crate::compile::{Knowledge, compile_within};
use crate::program::PointKind;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use trapline_isa::arch::{Arch, Isa};
use trapline_isa::operand::arguments;
use trapline_probes::budget::Budget;
use trapline_probes::user::Usdt;

/// A guest with one program file that has this number of functions, and two USDT places.
struct WithFile(u64);

fn usdt(name: &str, operands: &str) -> Usdt {
    let arguments = arguments(Arch::X86_64.isa(), operands, 8, &|_| None);
    let has_semaphore = name == "counted";
    Usdt { provider: "p".into(), name: name.into(), offset: 16, linked: 0x1010, has_semaphore, arguments }
}

impl Knowledge for WithFile {
    fn isa(&self) -> &'static Isa {
        Arch::X86_64.isa()
    }
    fn types(&self) -> Option<&dyn Types> {
        None
    }
    fn address(&self, _: &str) -> Option<u64> {
        None
    }
    fn functions(&self, _: &str, _: bool) -> Vec<String> {
        Vec::new()
    }
    fn program_functions(&self, _: &str, pattern: &str) -> Result<Vec<String>, String> {
        let count = if pattern == "*" { self.0 } else { 1 };
        Ok((0..count).map(|number| format!("f{number}")).collect())
    }
    fn program_size(&self, _: &str) -> u64 {
        self.0
    }
    fn usdt(&self, path: &str, _: &str, name: &str) -> Result<Vec<Usdt>, String> {
        let all = [usdt("counted", "8@%rdi 8f@%xmm0"), usdt("plain", "-4@$5")];
        match path {
            "/bin/x" => Ok(all.into_iter().filter(|usdt| name == "*" || usdt.name == name).collect()),
            _ => Err(format!("{path} is not there")),
        }
    }
}

fn errors(text: &str) -> String {
    let errors = compile(text, &WithFile(4), &Options::default()).err().unwrap_or_default();
    errors.iter().map(|error| &*error.message).collect::<Vec<_>>().join("\n")
}

/// BY-2: USDT probes by name and pattern; arguments that are not there or cannot be read are errors.
#[test]
fn marked_places_are_found_with_their_arguments() {
    let program = compile("usdt:/bin/x:* { print(arg0) }", &WithFile(4), &Options::default()).expect("two places");
    let points = &program.blocks[0].points;
    assert_eq!(
        points.iter().map(|point| point.name.as_str()).collect::<Vec<_>>(),
        ["usdt:/bin/x:p:counted", "usdt:/bin/x:p:plain"]
    );
    assert!(points.iter().all(|point| matches!(&point.kind, PointKind::Usdt(path, _) if path == "/bin/x")));
    assert_eq!(program.warnings.len(), 1, "the semaphore: {:?}", program.warnings);
    assert!(!program.names_programs);
    let named = compile("usdt:/bin/x:p:plain { print(usym(arg0)) }", &WithFile(4), &Options::default());
    assert!(named.is_ok_and(|program| program.names_programs && program.warnings.is_empty()));
    for (text, expected) in [
        ("usdt:/bin/x:p:plain { print(arg1) }", "has no arg1: it has 1 arguments"),
        ("usdt:/bin/x:p:counted { print(arg1) }", "cannot be read"),
        ("usdt:/bin/y:p:plain { }", "/bin/y is not there"),
        ("usdt:/bin/x:p:none { }", "No matches"),
        ("usdt:x:p:plain { }", "x is no program or library of the guest"),
        ("usdt:/bin/x:p:plain { print(retval) }", "retval"),
    ] {
        assert!(errors(text).contains(expected), "{text}: {}", errors(text));
    }
}

/// BY-2: a pattern costs as much as the names that it is compared with and the probes that it makes.
#[test]
fn patterns_in_programs_have_a_budget() {
    let spent = |text: &str, functions: u64| {
        let budget = Budget::of(u64::MAX);
        compile_within(text, &WithFile(functions), &Options::default(), &budget).expect("a script");
        budget.spent()
    };
    let (one, all) = ("uprobe:/bin/x:f { }", "uprobe:/bin/x:* { }");
    assert!(spent(one, 160_000) >= spent(one, 16) + 9_000);
    assert!(spent(all, 160_000) >= 160_000);
    let refused = compile_within(all, &WithFile(160_000), &Options::default(), &Budget::of(100_000)).err().unwrap_or_default();
    assert_eq!(refused.first().map(|error| &*error.message), Some(crate::lex::TOO_MUCH));
}

/// Addresses of kernels and of programs keep their bits, whatever stands above bit 47.
#[test]
fn only_packed_addresses_have_a_mapping() {
    use crate::show::{apart, in_mapping};
    for address in [
        0xc000_0000_0022_4cd8,
        0x9800_0000_0010_0000,
        0xffff_ffff_8100_0000,
        0x001f_ffff_8000_0000,
        0x00ff_ffff_ffff_f000,
        0x1234,
    ] {
        assert_eq!(apart(address), (None, address));
        assert_eq!(apart(in_mapping(address, None)), (None, address));
    }
    assert_eq!(apart(in_mapping(0x5555_1234, Some(7))), (Some(7), 0x5555_1234));
    assert_eq!(apart(in_mapping(0x5555_1234, Some(0x7000))), (None, 0x5555_1234), "too many mappings");
}
