use super::super::fields::{Sample, layout};
use super::super::format::{Field, Format};
use super::super::testing::FakeCpu;
use super::super::types::{Stored, Style};
use super::*;
use crate::records::{EventId, Flags, Header};
use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;
use proptest::prelude::*;

const FIELDS: &[(&str, Stored, Option<u8>)] = &[
    ("n", Stored::Integer(4, Style::Signed), None),
    ("u", Stored::Integer(1, Style::Unsigned), None),
    ("path", Stored::String, None),
    ("big", Stored::Integer(8, Style::Hex), None),
    ("list", Stored::Integer(1, Style::Hex), Some(4)),
    ("name", Stored::String, None),
    ("place", Stored::SymbolString(8), None),
];

fn format() -> Format {
    let fields = FIELDS.iter().map(|(name, stored, count)| Field { name: (*name).to_owned(), stored: *stored, count: *count });
    let (group, event) = ("kprobes".to_owned(), "open".to_owned());
    Format { group, event, returns: false, mirrors: false, in_program: false, fields: fields.collect(), stack: None }
}

/// A record with n = -3, u = 200, path = "/bin/sh", big = 0x1000, list = 1..4, name unreadable.
fn values() -> Vec<u8> {
    let mut bytes = (-3_i32).to_le_bytes().to_vec();
    bytes.push(200);
    bytes.extend_from_slice(&7_u16.to_le_bytes());
    bytes.extend_from_slice(b"/bin/sh");
    bytes.extend_from_slice(&0x1000_u64.to_le_bytes());
    bytes.extend_from_slice(&[1, 2, 3, 4]);
    bytes.extend_from_slice(&u16::MAX.to_le_bytes());
    bytes.extend_from_slice(&0x8000_u64.to_le_bytes());
    bytes
}

fn header() -> Header {
    let flags = Flags::INTERRUPTS_OFF.with(Flags::TRUNCATED);
    Header { event: EventId(3), cpu: 2, flags, pid: 42, comm: *b"bash\0leftovers\0\0", time: 5, ip: 0xffff_8000, return_ip: 0 }
}

fn holds(text: &str) -> Result<bool, FilterError> {
    let (format, values, header) = (format(), values(), header());
    let filter = Filter::parse(text, &format, 8)?;
    let layout = layout(&format);
    let mut cpu = FakeCpu::default();
    cpu.user.insert(0x1000, b"user text\0".to_vec());
    Ok(filter.matches(&Sample { header: &header, values: &values, layout: &layout, stack: &[] }, &mut cpu))
}

/// DV-4: comparisons have the field's width and sign.
#[test]
fn filters_compare_as_the_kernel_does() {
    #[rustfmt::skip]
    let cases = [
        ("n == -3", true), ("n < 0", true), ("n > 0", false), ("n != 3", true), ("n >= -3 && n <= -3", true), ("n & 1", true), ("n & 2", false),
        ("n == 0xfffffffd", true), ("u == 200", true), ("u > 100", true), ("u == 456", true), ("u & 0x48", true), ("u & 1", false), ("big == 010000", true),
        ("common_pid == 42", true), ("CPU == 2", true), ("cpu != 2", false), ("common_cpu > 1", true), ("common_type == 103", true),
        ("common_flags == 1", true), ("common_preempt_count == 0", true), ("__probe_ip == 0xffff8000", true),
        ("COMM == bash", false), ("COMM == \"bash\"", true), ("comm ~ 'b*h'", true), ("comm ~ '*sh'", true), ("comm ~ 'bas'", false), ("comm ~ '!z*'", true),
        ("path == '/bin/sh'", true), ("path != '/bin/sh'", false), ("path ~ '/bin/*'", true), ("path ~ '*/b?n/[r-t]h'", true), ("path == '/bin/s'", false),
        ("name == '(fault)'", true), ("big.ustring == 'user text'", true), ("big.ustring ~ '*nothing*'", false), ("big.ustring != 'x'", true),
        ("list == 1", false), ("n==-3||u==1", true), ("n==1||u==200", true), ("n==1||u==1", false), ("n==-3&&u==1||u==200", true),
        ("n==1 && u==200 || u==1", false), ("n==-3 && (u==1||u==200)", true), ("!(n==-3)", false), ("!(n==1) && !(u==1)", true), ("!!n==-3", true),
        ("!n==-3", false), ("!(n==-3 && !(u==1 || !(u==200)))", false), ("((n==-3))", true), ("!(n==1||u==1)&&big==0x1000", true),
    ];
    for (text, expected) in cases {
        let got = holds(text);
        let expected =
            if text == "COMM == bash" { Err(FilterError { code: FilterCode::InvalidValue, at: 9 }) } else { Ok(expected) };
        assert_eq!(got, expected, "{text}");
    }
}

/// DV-4: errors are Linux's, at Linux's positions.
#[test]
fn wrong_filters_are_refused_at_linux_s_positions() {
    use FilterCode::*;
    #[rustfmt::skip]
    let cases = [
        ("m == 1", FieldNotFound, 2), ("n = 1", InvalidOperator, 3), ("n < 'x'", IllegalFieldOperator, 5), ("n ~ 1", IllegalFieldOperator, 5),
        ("n == 'x'", ExpectNumber, 6), ("path == 1", ExpectString, 9), ("path == 'x", MissingQuote, 8), ("u == -1", IllegalNumber, 6),
        ("n == 1z", IllegalNumber, 6), ("n == x", InvalidValue, 6), ("(n == 1", TooManyOpen, 0), ("n == 1)", TooManyClosed, 6),
        ("n == 1 n == 2", TooManyTerms, 7), ("n == 1 & n == 2", TooManyTerms, 7), ("n == 1 | n == 2", TooManyTerms, 7), ("n == 1 &&", Meaningless, 9),
        ("", NoFilter, 0), ("()", Unreadable, 0), ("! n == 1", Unreadable, 0), ("n == 0x111111111111111111111111", OperandTooLong, 32),
        ("place == 'x'", IllegalFieldOperator, 10), ("path.ustring < 'x'", IllegalFieldOperator, 16),
    ];
    for (text, code, at) in cases {
        assert_eq!(holds(text), Err(FilterError { code, at }), "{text}");
    }
    let long = alloc::format!("path == '{}'", "x".repeat(256));
    assert_eq!(holds(&long).map_err(|error| error.code), Err(OperandTooLong));
    assert_eq!(holds(&" ".repeat(5000)).map_err(|error| error.code), Err(TooLong));
    // Brackets nest without recursion.
    let deep = alloc::format!("{}n == -3{}", "(".repeat(2000), ")".repeat(2000));
    assert_eq!(holds(&deep), Ok(true));
}

/// An expression and its value by the definition.
fn expressions() -> impl Strategy<Value = (String, bool)> {
    let leaf = any::<bool>().prop_map(|is_so| (String::from(if is_so { "n == -3" } else { "n == 4" }), is_so));
    leaf.prop_recursive(6, 40, 2, |inner| {
        prop_oneof![
            inner.clone().prop_map(|(text, is_so)| (alloc::format!("!({text})"), !is_so)),
            (inner.clone(), inner.clone()).prop_map(|((one, a), (two, b))| (alloc::format!("({one}) && ({two})"), a && b)),
            (inner.clone(), inner).prop_map(|((one, a), (two, b))| (alloc::format!("({one}) || ({two})"), a || b)),
        ]
    })
}

proptest! {
    /// DV-4: the compiled program has the value of the expression.
    #[test]
    fn the_program_has_the_value_of_the_expression((text, expected) in expressions()) {
        prop_assert_eq!(holds(&text), Ok(expected), "{}", text);
    }

    /// DV-4: no text makes the parser fail otherwise than by an error.
    #[test]
    fn no_text_breaks_the_parser(text in "[nu()!&|=<>~'\" 0-9x.-]{0,60}") {
        let _ = holds(&text);
    }

    /// DV-4: without brackets `&&` binds tighter than `||`.
    #[test]
    fn and_binds_tighter_than_or(terms in prop::collection::vec((any::<bool>(), any::<bool>()), 1..12)) {
        let mut text = String::new();
        let (mut any_so, mut all_so) = (false, true);
        for (number, (is_so, or)) in terms.iter().enumerate() {
            if number > 0 {
                text.push_str(if *or { " || " } else { "&&" });
                if *or {
                    any_so |= all_so;
                    all_so = true;
                }
            }
            all_so &= *is_so;
            text.push_str(if *is_so { "n==-3" } else { "n==4" });
        }
        prop_assert_eq!(holds(&text), Ok(any_so || all_so), "{}", text);
    }
}
