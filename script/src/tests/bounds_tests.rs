//! Scripts that exceed a limit: nesting, length, work or memory. Each must fail soon, with a sentence.

use super::{Plain, ended_by, options, refusal};
use crate::compile::compile;
use crate::program::PointKind;
use alloc::string::String;

/// BY-1: every kind of nesting has a limit, and the parser refuses deeper scripts.
#[test]
fn deep_nesting_is_refused() {
    let of = |before: &str, inside: &str, behind: &str, times: usize| {
        std::format!("BEGIN {{ $x = {}{inside}{}; }}", before.repeat(times), behind.repeat(times))
    };
    for (before, behind) in [
        ("(", ")"),
        ("!", ""),
        ("-", ""),
        ("(uint8)", ""),
        ("1 + ", ""),
        ("", " + 1"),
        ("", " && 1"),
        ("", "[0]"),
        ("", ".a"),
        ("", "->a"),
        ("1 ? 1 : ", ""),
        ("(1, ", ")"),
        ("(a = ", ")"),
        ("{ ", " }"),
        ("if 1 { ", " } else { 1 }"),
        ("str(", ")"),
        ("@a[", "]"),
        ("((1 + 1", " + 1) + 1)"),
    ] {
        for times in [1_000, 50_000] {
            let why = refusal(&of(before, "1", behind, times));
            let is_said = ["nested deeper", "one inside the other", "unexpected"].iter().any(|words| why.contains(words));
            assert!(is_said, "{before}..{behind}, {times} times: {why}");
        }
    }
    for text in ["if (1) { ", "while (1) { ", "unroll(2) { ", "{ ", "for ($i : 0..1) { ", "if (1) { } else "] {
        let why = refusal(&std::format!("BEGIN {{ {}", text.repeat(50_000)));
        assert!(why.contains("nested deeper"), "{text}: {why}");
    }
    for text in ["struct a { ", "struct { struct { ", "#if 1\n", "macro a(", "kprobe:", "/*", "config = { "] {
        assert_ne!(refusal(&text.repeat(50_000)), "", "{text}");
    }
    // Scripts that people write stay below the limit.
    assert_eq!(refusal(&of("", "1", " + 1", 400)), "");
    assert_eq!(refusal(&of("(", "1", ")", 20)), "");
    assert_eq!(refusal(&std::format!("BEGIN {{ {} }}", "$x = 1; @[$x] = 2; ".repeat(20_000))), "", "a long script");
}

/// BY-1: nested macros and nested #defines cannot make a script larger than the limits.
#[test]
fn growing_macros_are_refused() {
    let mut macros = String::from("macro m0(e) { e + e }\n");
    for number in 1..40 {
        macros += &std::format!("macro m{number}(e) {{ m{0}(e) + m{0}(e) }}\n", number - 1);
    }
    let grows = |why: &str| ["come to more than", "more work"].iter().any(|words| why.contains(words));
    assert!(grows(&refusal(&std::format!("{macros}BEGIN {{ print(m39(1)); }}"))));
    let nested = std::format!("macro d(e) {{ e + e }} BEGIN {{ print({}1{}); }}", "d(".repeat(20), ")".repeat(20));
    assert!(grows(&refusal(&nested)), "{}", refusal(&nested));
    let mut deep = String::from("macro m0(e) { e }\n");
    for number in 1..49 {
        deep += &std::format!("macro m{number}(e) {{ m{}(e){} }}\n", number - 1, " + 1".repeat(300));
    }
    let why = refusal(&std::format!("{deep}BEGIN {{ print(m48(1)); }}"));
    assert!(why.contains("one inside the other"), "{why}");
    let mut names = String::from("#define A0 1 + 1\n");
    for number in 1..40 {
        names += &std::format!("#define A{number} A{0} + A{0}\n", number - 1);
    }
    let why = refusal(&std::format!("{names}BEGIN {{ print(A39); }}"));
    assert!(["comes back to itself", "one inside the other"].iter().any(|words| why.contains(words)), "{why}");
}

/// BY-1: structures larger than memory have offsets that do not overflow.
#[test]
fn structures_larger_than_memory_are_laid_out() {
    let large = "18446744073709551615";
    for script in [
        "struct s { char a[LARGE]; int b; int c : 3; int d : 9; };",
        "struct s { long a[LARGE]; struct { int b; char c; }; struct { long d[LARGE]; } e[LARGE]; };",
        "struct s { char a[2305843009213693952]; int b : 5; long long c; };",
        "union s { char a[LARGE]; int b; short c : 13; };",
    ] {
        let script = script.replace("LARGE", large);
        let whole = std::format!(
            "{script} BEGIN {{ print(sizeof(struct s)); print(((struct s *)8)->b); $p = (struct s *)1; $p++; print($p + 3); print(offsetof(struct s, b)); }}"
        );
        assert_eq!(refusal(&whole), "", "{whole}");
        assert_eq!(ended_by(&whole), "");
        assert_ne!(refusal(&whole.replace("$p++", "print(*$p)")), "", "it is not copied as a whole");
    }
    // Structures of the kernel, as a script may define them.
    let own = "struct task_struct { char a[LARGE]; struct cred *cred; struct { char b[LARGE]; int tgid; } real_parent; };
        struct dentry { char a[LARGE]; struct { char b[LARGE]; char *name; } d_name; struct dentry *d_parent; };
        struct path { char a[LARGE]; long mnt; struct dentry *dentry; }; struct vfsmount { char a[LARGE]; long mnt_root; };
        struct mount { char a[LARGE]; struct { char b[LARGE]; } mnt; long mnt_parent; long mnt_mountpoint; };
        BEGIN { print(ppid); print(path((struct path *)8)); }";
    let _ = compile(&own.replace("LARGE", large), &Plain, &options(false));
}

/// BY-1: a script that runs too long or produces too much is ended.
#[test]
fn too_much_work_is_ended() {
    // No loop, but 2,000 statements of a megabyte each.
    let line = std::format!("$s = \"ab\"; unroll(19) {{ $s = str_concat($s, $s) }} {}", "$n = strlen($s); ".repeat(2_000));
    #[rustfmt::skip]
    let cases = [
        ("while (1) { }",                                                           "1,000,000 turns"),
        ("for ($i : 0..-1 >> 1) { }",                                               "1,000,000 turns"),
        ("unroll(100) { unroll(100) { unroll(100) { unroll(100) { @++ } } } }",     "1,000,000 turns"),
        ("while ({ while (1) { } 1 }) { }",                                         "1,000,000 turns"),
        ("$i = 0; while ($i < 900000) { @m[$i] = 1; $i++ } while ($i > 0) { print(@m, 1); $i-- }", "8,000,000 keys"),
        ("$i = 0; while ($i < 400000) { @m[$i] = 1; $i++ } for ($a : @m) { delete(@m[$a.0]); for ($b : @m) { break; } }", "8,000,000 keys"),
        ("$i = 0; while ($i < 900000) { @m[$i] = 1; $i++ } while ($i > 0) { zero(@m); $i-- }", "8,000,000 keys"),
        ("$i = 0; while ($i < 300000) { @m[$i] = 1; $i++ } for ($a : @m) { for ($b : @m) { break; } }", ""),
        ("$i = 0; while ($i < 900000) { @m[$i] = 1; $i++ } clear(@m); while ($i > 700000) { @m[1] = 1; clear(@m); $i-- }", "1,000,000"),
        ("while (1) { BODY }",                                                      "1 GiB"),
        ("for ($i : 0..900000) { if (1) { BODY } }",                                "1 GiB"),
        ("LINE",                                                                    "1 GiB"),
        ("$s = \"ab\"; while (1) { $s = str_concat($s, $s) }",                      "16 MiB"),
        ("$s = \"ab\"; unroll(20) { $s = str_concat($s, $s) } while (1) { $n = strlen($s) }", "1 GiB"),
        ("$s = \"ab\"; unroll(20) { $s = str_concat($s, $s) } while (1) { printf(\"%s\", $s) }", "256 MiB"),
        ("while (1) { print(\"0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789\") }", "256 MiB"),
        ("$s = \"ab\"; unroll(20) { $s = str_concat($s, $s) } $t = str_concat(str($s, 1000000), \"c\"); print(strstr($s, $t))", ""),
    ];
    for (script, why) in cases {
        let script = script.replace("BODY", &"$x = 1; ".repeat(2000)).replace("LINE", &line);
        let said = ended_by(&std::format!("BEGIN {{ {script} }}"));
        assert!(said.contains(why) && said.is_empty() == why.is_empty(), "{script}: {said}");
    }
}

/// BY-1: a script with too many maps or variables is refused.
#[test]
fn names_without_number_are_refused() {
    let many = |name: &str| {
        let statements: String = (0..70_000).map(|number| std::format!("{name}{number} = 1; ")).collect();
        std::format!("BEGIN {{ {statements} }}")
    };
    assert!(refusal(&many("$v")).contains("65,534"));
    assert!(refusal(&many("@v")).contains("65,534"));
}

/// A guest with very many functions.
struct Many;

impl crate::compile::Knowledge for Many {
    fn isa(&self) -> &'static trapline_isa::arch::Isa {
        trapline_isa::arch::Arch::X86_64.isa()
    }
    fn types(&self) -> Option<&dyn crate::types::Types> {
        None
    }
    fn address(&self, _: &str) -> Option<u64> {
        Some(0x1000)
    }
    fn functions(&self, _: &str, _: bool) -> alloc::vec::Vec<String> {
        (0..1000).map(|number| std::format!("f{number}")).collect()
    }
    fn names(&self) -> u64 {
        1000
    }
}

/// A script of about this size in bytes.
type Script = fn(usize) -> String;

/// BY-1: each attach point with a hit count has a counter of its own, which a hit finds without a search.
#[test]
fn points_that_count_have_a_counter_each() {
    let counted = |count: usize| std::format!("software:faults:{count} {{ @[{count}] = count(); }} ");
    let text: String = (1..=300).map(counted).collect();
    let program = compile(&text, &Many, &options(false)).unwrap_or_else(|errors| panic!("{errors:?}"));
    let counting = program.blocks.iter().filter(|block| block.counts_hits);
    let mut counters: alloc::vec::Vec<u32> = counting.map(|block| block.points[0].counter).collect();
    counters.sort_unstable();
    // `software:faults:1` counts nothing.
    assert!(counters.iter().copied().eq(0..299), "{counters:?}");
}

/// BY-1: a clock with a shorter period than the shortest gets a warning and the shortest period.
#[test]
fn the_fastest_clock_ticks_every_microsecond() {
    for (text, period) in [("interval:ns:1", 1000), ("profile:hz:1000000000", 1000), ("interval:us:2", 2000)] {
        let program =
            compile(&std::format!("{text} {{ }}"), &Plain, &options(false)).unwrap_or_else(|errors| panic!("{errors:?}"));
        let is_slower = program.warnings.iter().any(|warning| warning.message.contains("ticks every 1000 ns"));
        assert_eq!(is_slower, period == 1000, "{text}");
        let kind = &program.blocks[0].points[0].kind;
        let expected = [PointKind::Interval(period), PointKind::Profile(period)];
        assert!(expected.contains(kind), "{text}: {kind:?}");
    }
}

/// BY-1: a script of twice the length takes at most about twice the steps, whatever it consists of, and stays within
/// its budget.
#[test]
fn reading_a_script_takes_time_by_its_length() {
    use crate::compile::{budget, compile_within};
    use trapline_probes::budget::Budget;
    #[rustfmt::skip]
    let cases: [(&str, Script); 26] = [
        ("a define in a define",        |size| "#define X ".repeat(size / 10)),
        ("a long define, often used",   |size| std::format!("#define X \"{}\"\nBEGIN {{ {} }}", "x".repeat(size / 2), "$x = X; ".repeat(size / 16))),
        ("a define of many words",      |size| std::format!("#define X {}\nBEGIN {{ {} }}", "1 + ".repeat(size / 8), "$x = X 1; ".repeat(size / 20))),
        ("defines in defines",          |size| (0..size / 16).map(|number| std::format!("#define A{} A{number} A{number}\n", number + 1)).collect::<String>() + "BEGIN { A9 }"),
        ("nested #if",                  |size| "#if 1\n".repeat(size / 6)),
        ("nested #if that do not count", |size| std::format!("#if 0\n{}", "#if 1\nx\n".repeat(size / 8))),
        ("#else after #else",           |size| std::format!("#if 0\n{}#endif", "#else\n".repeat(size / 6))),
        ("comments",                    |size| "/* */".repeat(size / 5)),
        ("white space",                 |size| " \n".repeat(size / 2)),
        ("brackets",                    |size| std::format!("BEGIN {{ $x = {}", "(".repeat(size))),
        ("braces",                      |size| std::format!("BEGIN {}", "{ ".repeat(size / 2))),
        ("statements",                  |size| std::format!("BEGIN {{ {} }}", "$x = 1; ".repeat(size / 8))),
        ("errors",                      |size| std::format!("BEGIN {{ {} }}", "$x = $y; ".repeat(size / 9))),
        ("different errors",            |size| std::format!("BEGIN {{ {} }}", (0..size / 16).map(|number| std::format!("$x = $y{number}; ")).collect::<String>())),
        ("maps",                        |size| std::format!("BEGIN {{ {} }}", (0..size / 16).map(|number| std::format!("@m{number} = 1; ")).collect::<String>())),
        ("kinds of maps",               |size| (0..size / 48).map(|number| std::format!("let @m{number} = hash(10);")).collect::<String>() + "BEGIN { " + &(0..size / 48).map(|number| std::format!("@m{number}[1] = 1; ")).collect::<String>() + "}"),
        ("structures",                  |size| (0..size / 64).map(|number| std::format!("struct s{number} {{ int a; }};")).collect::<String>() + "BEGIN { " + &(0..size / 64).map(|number| std::format!("$x = ((struct s{number} *)0)->a; ")).collect::<String>() + "}"),
        ("members",                     |size| std::format!("struct s {{ {} }}; BEGIN {{ {} }}", (0..size / 48).map(|number| std::format!("int a{number}; ")).collect::<String>(), (0..size / 48).map(|number| std::format!("$x = ((struct s *)0)->a{number}; ")).collect::<String>())),
        ("enumerators",                 |size| std::format!("enum e {{ {} }}; BEGIN {{ {} }}", (0..size / 32).map(|number| std::format!("A{number}, ")).collect::<String>(), (0..size / 32).map(|number| std::format!("$x = A{number}; ")).collect::<String>())),
        ("macros",                      |size| (0..size / 48).map(|number| std::format!("macro m{number}(e) {{ e + 1 }}\n")).collect::<String>() + "BEGIN { " + &(0..size / 48).map(|number| std::format!("$x = m{number}(1); ")).collect::<String>() + "}"),
        ("a long argument, often used", |size| std::format!("macro m(e) {{ {} }} BEGIN {{ m(\"{}\") }}", "$x = e; ".repeat(size / 16), "x".repeat(size / 2))),
        ("attach points",               |size| std::format!("{}BEGIN {{ }}", "kprobe:f,".repeat(size / 9))),
        ("patterns",                    |size| std::format!("{}BEGIN {{ }}", "kprobe:f*,".repeat(size / 10))),
        ("probes",                      |size| "kprobe:f { $x = 1 }".repeat(size / 18)),
        ("parameters in points",        |size| std::format!("kprobe:{} {{ }}", "$1".repeat(size / 2))),
        ("parameters",                  |size| std::format!("BEGIN {{ {} }}", "$x = str($1); ".repeat(size / 14))),
    ];
    let parameters = std::vec!["x".repeat(50_000)];
    let options = crate::compile::Options { parameters, ..options(false) };
    for (what, make) in cases {
        let steps = |size: usize| {
            let text = make(size);
            let budget = budget(&text);
            let refused = compile_within(&text, &Many, &options, &budget).err();
            if budget.is_spent() {
                let why = refused.expect("an error").pop().expect("an error").message;
                assert!(["more work", "without end"].iter().any(|words| why.contains(words)), "{what}: {why}");
            }
            assert!(budget.spent() < 2 * budget.most(), "{what}: {} steps of {}", budget.spent(), budget.most());
            budget.spent()
        };
        // The fixed part of the budget is subtracted from both.
        let (one, two) = (steps(1 << 18).max(Budget::LEAST), steps(1 << 19));
        assert!(5 * two <= 11 * one, "{what}: {one} steps, twice the length {two}");
    }
}
