//! Scripts that try to take more memory or time than their length allows. Each must be refused or ended, with a sentence.

use super::{ended_by, printed, refusal};
use crate::show::Style;
use alloc::string::String;
use std::format;
use std::string::ToString;

fn check(what: &str, text: &str, wanted: &str) {
    let why = refusal(text);
    let shown: String = why.chars().take(200).collect();
    assert!(why.contains(wanted) && why.is_empty() == wanted.is_empty(), "{what}: {shown:?}");
}

const TOO_MUCH: &str = "more work";

/// BY-1: a name has at most 512 bytes: each macro expansion has variables with names of their own.
#[test]
fn long_names_are_refused() {
    let (longest, longer) = ("x".repeat(512), "x".repeat(513));
    for name in [&longest, &longer] {
        let wanted = if name.len() > 512 { "a name has at most 512 bytes" } else { "" };
        for text in ["$NAME = 1", "@NAME = 1", "print((NAME = 1))", "NAME(1)", "print(((struct NAME *)0)->a)"] {
            let before = "macro NAME(e) { $e = e; }\nstruct NAME { int a; };\n";
            let before = if text.starts_with(['$', '@', 'p']) && !text.contains("struct") { "" } else { before };
            check(text, &format!("{before}BEGIN {{ {text} }}").replace("NAME", name), wanted);
        }
    }
    check(
        "words of a type",
        &format!("BEGIN {{ $x = sizeof({}) }}", "long ".repeat(100_000)),
        "a type's name has at most 512 bytes",
    );
    for words in ["unsigned long long int", "long long int", "unsigned long", "int"] {
        check(words, &format!("BEGIN {{ $x = sizeof({words}); $y = ({words})5; $z = (({words} *)8)[1]; }}"), "");
    }
}

/// BY-1: a tuple has at most 1,000 parts with those of its inner tuples, so that its type cannot double with each line.
#[test]
fn tuples_that_double_are_refused() {
    let doubling: String = (0..40).map(|number| format!("$a{} = ($a{number}, $a{number}); ", number + 1)).collect();
    check("tuples", &format!("BEGIN {{ $a0 = (1, 1); {doubling} }}"), "a tuple has at most 1,000 parts");
    let doubling: String = (0..40).map(|number| format!("$a{} = (x = $a{number}, y = $a{number}); ", number + 1)).collect();
    check("records", &format!("BEGIN {{ $a0 = (x = 1, y = 1); {doubling} }}"), "a tuple has at most 1,000 parts");
    let doubling: String = (0..40)
        .map(|number| format!("for ($x{number} : @m{number}) {{ @m{}[$x{number}] = $x{number}; }} ", number + 1))
        .collect();
    check("pairs of maps", &format!("BEGIN {{ @m0[1] = 1; {doubling} }}"), "a tuple has at most 1,000 parts");
    let parts = |count: usize| format!("BEGIN {{ $t = ({}1); print($t.998); }}", "1, ".repeat(count - 1));
    check("the longest", &parts(1000), "");
    check("a longer one", &parts(1001), "a tuple has at most 1,000 parts");
    let reads: String = (0..20_000).map(|number| format!("$b{number} = $t; ")).collect();
    check("many copies", &format!("BEGIN {{ $t = ({}1); {reads} }}", "1, ".repeat(990)), TOO_MUCH);
}

/// BY-1: members of structures that are no anonymous structures are not searched, so their number cannot double with each
/// structure.
#[test]
fn structures_that_double_are_laid_out_in_time() {
    let chain = |count: usize, member: &str| -> String {
        (0..count).map(|number| format!("struct s{} {{ {} }};\n", number + 1, member.replace('N', &number.to_string()))).collect()
    };
    for member in ["struct sN : 1; struct sN : 1;", "struct sN : 8; int a;"] {
        check(member, &format!("struct s0 {{ int x; }};\n{}BEGIN {{ print(1) }}", chain(50_000, member)), "");
    }
    let many: String = (0..40_000).map(|number| format!("int a{number}; ")).collect();
    let deep = format!("struct s {{ {} {many} {} }};\nBEGIN {{ print(1) }}", "struct { ".repeat(90), "};".repeat(90));
    check("nested anonymous structures", &deep, TOO_MUCH);
    let plain =
        "struct s { int a; union { struct { int b; struct { int c; }; }; long d; }; }; BEGIN { print(offsetof(struct s, c)) }";
    check("an anonymous structure", plain, "");
}

/// BY-1: copies of structures share their layout, and a script pays for each layout that it makes.
#[test]
fn layouts_of_copies_are_paid_for() {
    let members: String = (0..4000).map(|number| format!("char a{number}; ")).collect();
    let copies = "print(*(struct s *)16); ".repeat(30_000);
    check("one layout", &format!("struct s {{ {members} }}; BEGIN {{ {copies} }}"), "");
    let structures: String = (0..5000).map(|number| format!("struct s{number} {{ struct s a; }};\n")).collect();
    let copies: String = (0..5000).map(|number| format!("print(*(struct s{number} *)16); ")).collect();
    let text = format!("struct s {{ {members} }}; {structures} BEGIN {{ {copies} }}");
    assert_ne!(refusal(&text), "", "a layout for each structure");
    let copies = "print(@m.a); ".repeat(30_000);
    let text = format!("struct s {{ {members} }}; struct t {{ struct s a; }};\nBEGIN {{ @m = *(struct t *)16; {copies} }}");
    check("layouts of parts", &text, TOO_MUCH);
}

/// BY-1: a macro's text counts in each expansion, whatever takes the text.
#[test]
fn texts_in_macros_are_paid_for() {
    let text = "x".repeat(100_000);
    for call in
        ["$x = getopt(\"a\", TEXT)", "$x = strftime(TEXT, 1)", "time(TEXT)", "join(16, TEXT)", "printf(TEXT)", "errorf(TEXT)"]
    {
        let script = |count: usize| format!("macro m() {{ {call}; }}\nBEGIN {{ {} }}", "m(); ".repeat(count));
        check(call, &script(5000).replace("TEXT", &format!("\"{text}\"")), TOO_MUCH);
        check(call, &script(5000).replace("TEXT", "\"x\""), "");
    }
    let script = format!("macro n(e) {{ 1 }}\nmacro m() {{ n(\"{text}\"); }}\nBEGIN {{ {} }}", "m(); ".repeat(5000));
    check("an argument without use", &script, "");
    let path = format!(
        "struct s0 {{ int a; }};\n{}",
        (0..5000).map(|n| format!("struct s{} {{ struct s{n} a; }};\n", n + 1)).collect::<String>()
    );
    let names = "a.".repeat(5000);
    let script = format!("{path}macro m() {{ $x = offsetof(struct s5000, {names}a); }}\nBEGIN {{ {} }}", "m(); ".repeat(5000));
    check("a long path", &script, TOO_MUCH);
}

/// BY-1: output is limited without a loop, too, and so is the memory of all variables.
#[test]
fn output_and_variables_are_limited_without_a_loop() {
    let wide = format!("macro m() {{ printf(\"{}\"{}); }}\n", "%4096d".repeat(32), ", 1".repeat(32));
    for (count, wanted) in [(100, ""), (3000, "256 MiB of output")] {
        let said = ended_by(&format!("{wide}BEGIN {{ {} }}", "m(); ".repeat(count)));
        assert!(said.contains(wanted) && said.is_empty() == wanted.is_empty(), "{count}: {said}");
    }
    let long = "$s = \"ab\"; unroll(21) { $s = str_concat($s, $s) }";
    for statement in ["print($s);", "errorf(\"%s\", $s);", "print(($s, 1));"] {
        let said = ended_by(&format!("BEGIN {{ {long} {} }}", statement.repeat(80)));
        assert!(said.contains("256 MiB of output"), "{statement}: {said}");
    }
    for (count, wanted) in [(50, ""), (70, "256 MiB of strings in variables")] {
        let copies: String = (0..count).map(|number| format!("$a{number} = $s; ")).collect();
        let said = ended_by(&format!("BEGIN {{ {long} {copies} }}"));
        assert!(said.contains(wanted) && said.is_empty() == wanted.is_empty(), "{count}: {said}");
    }
    let copies: String =
        (0..70).map(|number| format!("@m{number}[1] = $s; for ($a{number} : @m{number}) {{ }} clear(@m{number}); ")).collect();
    assert!(ended_by(&format!("BEGIN {{ {long} {copies} }}")).contains("strings in variables"), "loops over maps");
}

/// BY-1: the value of an enum is named without a search of all its names.
#[test]
fn enums_with_many_names_are_printed_in_time() {
    let names: String = (0..200_000).map(|number| format!("A{number}, ")).collect();
    let text = format!(
        "enum e {{ {names} LAST = 5, NEGATIVE = -7 }};\nBEGIN {{ for ($i : 0..20000) {{ $s = strlen(str_concat(\"\", \"\")); print((enum e)199999); }} print((enum e)5); print((enum e)-7); print((enum e)300000) }}"
    );
    let said = printed(&text, Style::default());
    assert!(said.starts_with(&"A199999\n".repeat(20_000)), "{}", &said[..100]);
    assert_eq!(said.trim_end().rsplit('\n').take(3).collect::<alloc::vec::Vec<_>>(), ["300000", "NEGATIVE", "A5"]);
}
