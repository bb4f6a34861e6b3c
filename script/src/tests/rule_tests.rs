//! Tests of rare cases of the language: a block expression that leaves its loop, maps with several aggregations, variables
//! with a declared type, and conditions of `#if`.

use super::{Plain, options, printed};
use crate::compile::compile;
use crate::show::Style;
use std::string::ToString;

/// The output of a BEGIN with these statements, without the lines that every script prints.
fn said(before: &str, script: &str) -> std::string::String {
    let said = printed(&std::format!("{before}BEGIN {{ {script} }}"), Style::default());
    said.trim_end_matches('\n').into()
}

/// BY-1: if a block expression runs `continue`, the rest of the statement around it has no effect.
#[test]
fn a_block_that_leaves_stops_its_statement() {
    #[rustfmt::skip]
    let cases = [
        ("a printed entry",    "@m[0] = 5; for ($i : 0..1) { print(@m[{ continue; 1 }]); } clear(@m)",                 ""),
        ("a stepped key",      "@m[0] = 5; for ($i : 0..1) { @m[{ continue; 1 }]++; } print(@m[0]); clear(@m)",        "5"),
        ("a deleted key",      "@m[0] = 5; for ($i : 0..1) { delete(@m, { continue; 1 }); } print(len(@m)); clear(@m)", "1"),
        ("joined strings",     "for ($i : 0..1) { join({ continue; 16 }); } print(1)",                                 "1"),
        ("a later step",       "$n = 0; for ($i : 0..1) { $x = { continue; 1 } + $n++; } print($n)",                   "0"),
        ("a later map",        "for ($i : 0..1) { $x = { continue; 1 } + @m++; } print(len(@m)); clear(@m)",           "0"),
        ("a later block",      "@m[0] = 5; for ($i : 0..1) { $x = { continue; 1 } + { clear(@m); 2 }; } print(len(@m)); clear(@m)", "1"),
    ];
    for (what, script, expected) in cases {
        assert_eq!(said("", script), expected, "{what}: {script}");
    }
}

/// BY-1: `target op= value` evaluates the key once, in the order in which it is written.
#[test]
fn a_key_is_evaluated_once() {
    #[rustfmt::skip]
    let cases = [
        ("a step",        "$i = 0; @m[$i++] += 5; print(($i, @m[0], len(@m))); clear(@m)",                         "(1, 5, 1)"),
        ("its value",     "$i = 0; @m[$i++] += $i + 1; print(@m[0]); clear(@m)",                                   "2"),
        ("two parts",     "$i = 0; @m[$i, $i++] += 5; print(($i, @m[0, 0], len(@m))); clear(@m)",                  "(1, 5, 1)"),
        ("a tuple",       "$i = 0; @m[($i, $i++)] += 5; @m[0, 0] += 1; print((@m[0, 0], len(@m))); clear(@m)",     "(6, 1)"),
        ("a text",        "@m[str(\"a\")] += 5; @m[\"a\"] += 5; print((@m[\"a\"], len(@m))); clear(@m)",           "(10, 1)"),
        ("rand",          "unroll(100) { @m[rand % 2] += 1 } print(@m[0] + @m[1]); clear(@m)",                     "100"),
        ("a macro",       "unroll(100) { @m[coin] += 1 } print(@m[0] + @m[1]); clear(@m)",                         "100"),
        ("a parameter",   "$i = 0; count_at(@m, $i++); print(($i, @m[0], len(@m))); clear(@m)",                    "(1, 1, 1)"),
        ("a key that leaves", "for ($i : 0..1) { @m[{ continue; 1 }] += 1; } print(len(@m)); clear(@m)",           "0"),
    ];
    let before = "macro coin() { rand % 2 }\nmacro count_at(@map, key) { @map[key] += 1; }\n";
    for (what, script, expected) in cases {
        assert_eq!(said(before, script), expected, "{what}: {script}");
    }
}

/// BY-1: a map has one kind of histogram. Sums and extremes of signed and of unsigned numbers make a signed map.
#[test]
fn aggregations_of_a_map_agree() {
    #[rustfmt::skip]
    let refused = [
        ("@ = lhist(1, 0, 10, 1); @ = lhist(1, 0, 20, 1);", "@ = lhist(1, 0, 20, 1)", "Different lhist bounds in a single map unsupported"),
        ("@ = lhist(1, 0, 10, 1); @ = lhist(1, 0, 10, 2);", "@ = lhist(1, 0, 10, 2)", "Different lhist bounds in a single map unsupported"),
        ("@ = hist(1, 2); @ = hist(1);",                    "@ = hist(1)",            "Different bits in a single hist unsupported"),
    ];
    for (script, about, wanted) in refused {
        check_refused(script, about, wanted);
    }
    #[rustfmt::skip]
    let cases = [
        ("equal histograms",      "@ = lhist(1, 0, 10, 5); @ = lhist(2, 0, 10, 5); @h = hist(1, 2); @h = hist(1, 2); clear(@); clear(@h); print(1)", "1"),
        ("a minimum, signed last",  "@ = min((uint64)3); @ = min(-1); print(@); clear(@)",   "@: -1"),
        ("a minimum, signed first", "@ = min(-1); @ = min((uint64)3); print(@); clear(@)",   "@: -1"),
        ("a maximum",             "@ = max((uint64)3); @ = max(-1); print(@); clear(@)",     "@: 3"),
        ("a literal has no sign", "@ = max((uint64)1 << 63); @ = max(0); print(@); clear(@)", "@: 9223372036854775808"),
        ("a literal first",       "@ = max(0); @ = max((uint64)1 << 63); print(@); clear(@)", "@: 9223372036854775808"),
        ("a sum",                 "@ = sum((uint64)3); @ = sum(-5); print(@); clear(@)",     "@: -2"),
        ("a short block",         "@ = avg((uint64)3); @ = avg(-5); print(@); clear(@)",     "@: -1"),
    ];
    for (what, script, expected) in cases {
        assert_eq!(said("", script), expected, "{what}: {script}");
    }
}

/// BY-1: every value of a variable with a declared type is one of that type.
#[test]
fn a_declared_variable_keeps_its_type() {
    #[rustfmt::skip]
    let cases = [
        ("a later value",       "$y = 300; let $x: uint8 = 5; $x = $y; print($x)",                      "44"),
        ("a signed type",       "$y = 200; let $x: int8; $x = $y; print($x)",                           "-56"),
        ("an operator",         "let $x: uint8 = 250; $x += 10; print($x)",                             "4"),
        ("a step",              "let $x: uint8 = 255; $x++; print($x); print($x--); print($x)",         "0\n0\n255"),
        ("a step before",       "let $x: int8 = 127; print(++$x); print(--$x)",                         "-128\n127"),
        ("a turn",              "let $x: uint8; for ($x : 255..257) { print($x) }",                     "255\n0"),
        ("a string",            "let $x: string = \"ab\"; $x = \"c\"; print($x)",                       "c"),
        ("a truth",             "let $x: bool = 1 < 2; print($x); $x = false; print($x)",               "true\nfalse"),
        ("the largest values",  "let $x: uint64 = 0xffffffffffffffff; let $y: int64 = -1; let $z: int8 = -128; print(($x, $y, $z))", "(18446744073709551615, -1, -128)"),
        ("no type",             "let $x = 5; $x = 300; print($x)",                                      "300"),
        ("two macros",          "low(); low(); print(1)",                                               "44\n44\n1"),
    ];
    let before = "macro low() { let $x: uint8; $y = 300; $x = $y; print($x); }\n";
    for (what, script, expected) in cases {
        assert_eq!(said(before, script), expected, "{what}: {script}");
    }
    #[rustfmt::skip]
    let refused = [
        ("let $x: string = 5;",            "let $x: string = 5",   "Type mismatch for $x: trying to assign value of type 'int64' when variable already contains a value of type 'string'"),
        ("let $x: uint64 = \"a\";",        "let $x: uint64 = \"a\"", "Type mismatch for $x"),
        ("let $x: uint64; $x = \"a\";",    "$x = \"a\"",           "Type mismatch for $x"),
        ("let $x: bool = 5;",              "let $x: bool = 5",     "Type mismatch for $x"),
        ("let $x: uint8 = 300;",           "let $x: uint8 = 300",  "trying to assign value '300' which does not fit into the variable of type 'uint8'"),
        ("let $x: uint8; $x = -1;",        "$x = -1",              "trying to assign value '-1' which does not fit into the variable of type 'uint8'"),
        ("let $x: int8 = 128;",            "let $x: int8 = 128",   "trying to assign value '128' which does not fit into the variable of type 'int8'"),
    ];
    for (script, about, wanted) in refused {
        check_refused(script, about, wanted);
    }
}

/// BY-1: an error message shows a macro's variable as the script writes it.
#[test]
fn messages_show_variables_as_they_are_written() {
    for (before, script) in [
        ("macro m() { $x = 1; $x = \"a\"; }\n", "m(); m();"),
        ("macro m(e) { $x = 1; $x = e; $x }\n", "print(m(\"a\"))"),
        ("macro inner($v) { $v = \"a\"; }\nmacro m() { $x = 1; inner($x); }\n", "m()"),
        ("macro m() { for ($x : 0..5) { $x = \"a\"; } }\n", "m()"),
    ] {
        let text = std::format!("{before}BEGIN {{ {script} }}");
        let errors = compile(&text, &Plain, &options(false)).err().unwrap_or_else(|| panic!("{text} is compiled"));
        let wanted = "Type mismatch for $x: trying to assign value of type 'string[2]' when variable already contains a value of type 'int64'";
        assert!(errors.iter().all(|error| error.message == wanted), "{text}: {errors:?}");
    }
}

/// BY-1: a literal above the largest signed number makes its expression unsigned, in output and in messages.
#[test]
fn large_literals_are_not_negative() {
    #[rustfmt::skip]
    let cases = [
        ("a sum",            "print(0x8000000000000000 + 1)",                       "9223372036854775809"),
        ("a sum, turned",    "print(1 + 0x8000000000000000)",                       "9223372036854775809"),
        ("a product",        "print(0xffffffffffffffff * 1)",                       "18446744073709551615"),
        ("bits",             "print(0xffffffffffffffff | 0)",                       "18446744073709551615"),
        ("a comparison",     "print(0xffffffffffffffff > 1)",                       "true"),
        ("a choice",         "print(1 ? 0xffffffffffffffff : 0)",                   "18446744073709551615"),
        ("a choice, turned", "print(0 ? 0 : 0xffffffffffffffff)",                   "18446744073709551615"),
        ("a choice of both", "print(1 ? -1 : 5)",                                   "-1"),
        ("small literals",   "print(1 - 2); print(5 * -1); print(3 > -1)",          "-1\n-5\ntrue"),
    ];
    for (what, script, expected) in cases {
        assert_eq!(said("", script), expected, "{what}: {script}");
    }
    #[rustfmt::skip]
    let refused = [
        ("let $x: uint32 = 0x8000000000000000 + 1;",           "let $x: uint32 = 0x8000000000000000 + 1", "assign value '9223372036854775809' which"),
        ("$x = ((uint8[8])5)[-1]",                             "((uint8[8])5)[-1]",  "the index -1 is out of bounds for array of size 8"),
        ("$x = ((uint8[8])5)[0xffffffffffffffff]",             "((uint8[8])5)[0xffffffffffffffff]", "the index 18446744073709551615 is out of bounds"),
        ("print(kstack(-1))",                                  "-1",                 "limit shouldn't exceed 1024, -1 given"),
        ("print(kstack(4294967296))",                          "4294967296",         "limit shouldn't exceed 1024, 4294967296 given"),
        ("@ = lhist(1, -5, 10, 1)",                            "lhist(1, -5, 10, 1)", "lhist() min must be non-negative (provided -5)"),
        ("@ = lhist(1, 0, -1, 1)",                             "lhist(1, 0, -1, 1)", "lhist() min must be less than max (provided min 0 and max -1)"),
        ("@ = lhist(1, 5, 0x8000000000000001, 1)",             "lhist(1, 5, 0x8000000000000001, 1)", "lhist() max must be at most 9223372036854775807 (provided 9223372036854775809)"),
        ("@ = lhist(1, 0x8000000000000000, 0x8000000000000001, 1)", "lhist(1, 0x8000000000000000, 0x8000000000000001, 1)", "lhist() max must be at most 9223372036854775807"),
    ];
    for (script, about, wanted) in refused {
        check_refused(script, about, wanted);
    }
}

/// BY-1: a map may be read above the line that assigns a string or a tuple to it.
#[test]
fn a_map_has_the_type_of_a_later_assignment() {
    #[rustfmt::skip]
    let cases = [
        ("a string", "@a = @b; @b = \"x\"; @a = @b; print(@a); clear(@a); clear(@b)",       "@a: x"),
        ("a tuple",  "@a[1] = @b[1]; @b[1] = (1, 2); @a[1] = @b[1]; print(@a[1]); clear(@a); clear(@b)", "(1, 2)"),
        ("a number", "@a = @b; @b = -1; @a = @b; print(@a); clear(@a); clear(@b)",          "@a: -1"),
        ("three",    "@a = @b; @b = @c; @c = \"x\"; @b = @c; @a = @b; print(@a); clear(@a); clear(@b); clear(@c)", "@a: x"),
    ];
    for (what, script, expected) in cases {
        assert_eq!(said("", script), expected, "{what}: {script}");
    }
    let mismatch =
        "Type mismatch for @a: trying to assign value of type 'string[2]' when map already contains a value of type 'int64'";
    check_refused("@a = @b; @b = \"x\"; @a = 5;", "@a = @b", mismatch);
}

/// BY-1: the value of an option may be negative, as that of a parameter may.
#[test]
fn options_may_be_negative() {
    let mut with = options(false);
    with.named = std::vec![("n".into(), "-5".into()), ("m".into(), "0xffffffffffffffff".into()), ("w".into(), "--5".into())];
    let program = compile("BEGIN { print(getopt(\"n\", 7)); print(getopt(\"m\", 7)); print(getopt(\"o\", 7)) }", &Plain, &with);
    let program = program.unwrap_or_else(|errors| panic!("{errors:?}"));
    assert_eq!(super::run_all(&program, Style::default()).trim_end(), "-5\n18446744073709551615\n7");
    let why = compile("BEGIN { print(getopt(\"w\", 7)) }", &Plain, &with).err().map(|errors| errors[0].message.to_string());
    assert_eq!(why.as_deref(), Some("--w takes a number, not '--5'"));
}

/// BY-1: maps whose types depend on one another in a long chain are refused with the name of one, and with a way out that
/// works.
#[test]
fn a_long_chain_of_maps_is_refused_with_a_way_out() {
    let chain: std::string::String = (0..30).map(|number| std::format!("@a{number} = @a{}; ", number + 1)).collect();
    let text = std::format!("BEGIN {{ {chain}@a30 = -1; }}");
    let refusal = |text: &str| compile(text, &Plain, &options(false)).err().map(|errors| errors[0].clone());
    let error = refusal(&text).expect("a refusal");
    let wanted = "the type of @a11 is not settled after 20 passes over the script, because maps are read above the lines that assign to them: assign to @a11 above the first line that reads it, such as in BEGIN";
    assert_eq!((error.message.as_ref(), text.get(error.at.start..error.at.end)), (wanted, Some("@a11")));
    assert_eq!(refusal(&std::format!("BEGIN {{ @a11 = -1; }} {text}")), None, "the way out");
}

/// BY-1: a condition inside text that is skipped is not read, and one that cannot be read is an error.
#[test]
fn conditions_of_skipped_text_are_skipped() {
    let kept =
        "#if 0\n#if KERNEL_VERSION > 5\nx\n#else\ny\n#endif\n#endif\n#ifdef NO\n#if A\n#endif\n#else\n#define TWO 2\n#endif\n";
    assert_eq!(said(kept, "print(TWO)"), "2");
    for (defined, wanted) in [("A", "1"), ("B", "2"), ("C", "3"), ("D", "4")] {
        let chain = "#if defined(A)\n#define N 1\n#elif defined(B)\n#define N 2\n#elif defined(C)\n#define N 3\n#else\n#define N 4\n#endif\n";
        assert_eq!(said(&std::format!("#define {defined}\n{chain}"), "print(N)"), wanted, "{defined}");
        assert_eq!(
            said(
                &std::format!("#define {defined}\n#if 0\n{chain}#elif 1\n#define N 5\n#elif A > 5\n#else\nx\n#endif\n"),
                "print(N)"
            ),
            "5"
        );
    }
    for condition in ["A > 5", "defined(A) && defined(B)", "defined(A)B", "defined"] {
        let text = std::format!("#if {condition}\n#endif\nBEGIN {{ }}");
        let errors = compile(&text, &Plain, &options(false)).err().unwrap_or_else(|| panic!("{condition} is compiled"));
        assert!(errors[0].message.contains("an #if asks `defined(NAME)`"), "{condition}: {errors:?}");
    }
}

/// Checks that a BEGIN with these statements is refused with this message, which points at this text.
fn check_refused(script: &str, about: &str, wanted: &str) {
    let script = std::format!("BEGIN {{ {script} }}");
    let errors = compile(&script, &Plain, &options(false)).err().unwrap_or_else(|| panic!("{script} is compiled"));
    assert!(errors[0].message.contains(wanted), "{script}: {errors:?}");
    assert_eq!(script.get(errors[0].at.start..errors[0].at.end), Some(about), "{script}: {errors:?}");
}
