//! Scripts that are too much: too deep, too long, too often, too large. Each ends with a sentence, and soon.

use super::{NoNames, Outside, Plain, options};
use crate::script::compile::compile;
use crate::script::run::{Settings, State};
use crate::script::show::Style;
use alloc::boxed::Box;
use alloc::string::String;
use std::string::ToString;

fn refusal(text: &str) -> String {
    match compile(text, &Plain, &options(false)) {
        Ok(_) => String::new(),
        Err(errors) => errors[0].message.to_string(),
    }
}

/// Why a script was ended that does this in its BEGIN.
fn ended_by(text: &str) -> &'static str {
    let program = compile(text, &Plain, &options(false)).unwrap_or_else(|errors| panic!("{text}: {errors:?}"));
    let settings = Settings { style: Style::default(), started: 0, epoch: 0, seed: 1, cpus: 1, names: Box::new(NoNames) };
    let mut state = State::new(&program, settings);
    for block in &program.blocks {
        state.run(&program, block, &block.points[0], &mut Outside);
    }
    state.failure().unwrap_or_default()
}

/// BY-1: what is built higher than anybody follows is refused where it is read, whatever it is built of.
#[test]
fn what_is_nested_too_deeply_is_refused() {
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
    // What people write is not.
    assert_eq!(refusal(&of("", "1", " + 1", 400)), "");
    assert_eq!(refusal(&of("(", "1", ")", 20)), "");
    assert_eq!(refusal(&std::format!("BEGIN {{ {} }}", "$x = 1; @[$x] = 2; ".repeat(20_000))), "", "a long script");
}

/// BY-1: macros within macros, and names within names, come to no more than can be kept.
#[test]
fn what_grows_when_it_is_put_in_is_refused() {
    let mut macros = String::from("macro m0(e) { e + e }\n");
    for number in 1..40 {
        macros += &std::format!("macro m{number}(e) {{ m{0}(e) + m{0}(e) }}\n", number - 1);
    }
    assert!(refusal(&std::format!("{macros}BEGIN {{ print(m39(1)); }}")).contains("come to more than"));
    let nested = std::format!("macro d(e) {{ e + e }} BEGIN {{ print({}1{}); }}", "d(".repeat(20), ")".repeat(20));
    assert!(refusal(&nested).contains("come to more than"), "{}", refusal(&nested));
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

/// BY-1: structures larger than memory have places, and nothing overflows.
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
    // The kernel's own structures, as a script may define them.
    let own = "struct task_struct { char a[LARGE]; struct cred *cred; struct { char b[LARGE]; int tgid; } real_parent; };
        struct dentry { char a[LARGE]; struct { char b[LARGE]; char *name; } d_name; struct dentry *d_parent; };
        struct path { char a[LARGE]; long mnt; struct dentry *dentry; }; struct vfsmount { char a[LARGE]; long mnt_root; };
        struct mount { char a[LARGE]; struct { char b[LARGE]; } mnt; long mnt_parent; long mnt_mountpoint; };
        BEGIN { print(ppid); print(path((struct path *)8)); }";
    let _ = compile(&own.replace("LARGE", large), &Plain, &options(false));
}

/// BY-1: what runs too long, or makes too much, is ended.
#[test]
fn what_is_too_much_is_ended() {
    #[rustfmt::skip]
    let cases = [
        ("while (1) { }",                                                           "1,000,000 turns"),
        ("for ($i : 0..-1 >> 1) { }",                                               "1,000,000 turns"),
        ("unroll(100) { unroll(100) { unroll(100) { unroll(100) { @++ } } } }",     "1,000,000 turns"),
        ("while ({ while (1) { } 1 }) { }",                                         "1,000,000 turns"),
        ("$s = \"ab\"; while (1) { $s = str_concat($s, $s) }",                      "16 MiB"),
        ("$s = \"ab\"; unroll(20) { $s = str_concat($s, $s) } while (1) { $n = strlen($s) }", "1 GiB"),
        ("$s = \"ab\"; unroll(20) { $s = str_concat($s, $s) } while (1) { printf(\"%s\", $s) }", "256 MiB"),
        ("while (1) { print(\"0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789\") }", "256 MiB"),
        ("$s = \"ab\"; unroll(20) { $s = str_concat($s, $s) } $t = str_concat(str($s, 1000000), \"c\"); print(strstr($s, $t))", ""),
    ];
    for (script, why) in cases {
        let said = ended_by(&std::format!("BEGIN {{ {script} }}"));
        assert!(said.contains(why) && said.is_empty() == why.is_empty(), "{script}: {said}");
    }
}

/// BY-1: more maps or variables than have a number are refused.
#[test]
fn names_without_number_are_refused() {
    let many = |name: &str| {
        let statements: String = (0..70_000).map(|number| std::format!("{name}{number} = 1; ")).collect();
        std::format!("BEGIN {{ {statements} }}")
    };
    assert!(refusal(&many("$v")).contains("65,534"));
    assert!(refusal(&many("@v")).contains("65,534"));
}
