//! Tests of the language without a guest: scripts with BEGIN and END, compared with the output of bpftrace 0.17, and
//! error messages.

mod bits_tests;
mod bounds_tests;
mod call_tests;
mod hostile_tests;
mod layout_tests;
mod rule_tests;
mod text_tests;
mod user_tests;

use super::compile::{Knowledge, Options, compile};
use super::program::{PointKind, Program};
use super::run::{ScriptContext, Secret, Settings, State};
use super::show::{Names, Style};
use super::types::Types;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use std::string::ToString;
use trapline_isa::arch::{Arch, Isa};
use trapline_isa::regs::Reg;
use trapline_probes::watch::Area;

/// A guest without types.
struct Plain;

impl Knowledge for Plain {
    fn isa(&self) -> &'static Isa {
        Arch::X86_64.isa()
    }
    fn types(&self) -> Option<&dyn Types> {
        None
    }
    fn address(&self, name: &str) -> Option<u64> {
        (name == "vfs_read").then_some(0x1000)
    }
    fn system_call_names(&self) -> Arc<[String]> {
        ["read", "write"].map(String::from).into()
    }
    fn functions(&self, _: &str, _: bool) -> Vec<String> {
        std::vec!["vfs_read".into(), "vfs_write".into()]
    }
}

struct NoNames;

impl Names for NoNames {
    fn symbol(&self, _: u64) -> Option<(&str, u64)> {
        None
    }
}

/// The context outside of any hit. Its task is bpftrace itself.
struct Outside;

impl ScriptContext for Outside {
    fn argument(&mut self, number: usize) -> u64 {
        number as u64
    }
    fn stack_word(&mut self, _: usize) -> u64 {
        0
    }
    fn result(&mut self) -> u64 {
        0
    }
    fn register(&mut self, _: Reg) -> u64 {
        0
    }
    fn pid(&mut self) -> u32 {
        1
    }
    fn process(&mut self) -> u32 {
        1
    }
    fn comm(&mut self) -> [u8; 16] {
        *b"bpftrace\0\0\0\0\0\0\0\0"
    }
    fn task(&mut self) -> u64 {
        0
    }
    fn cpu(&mut self) -> usize {
        0
    }
    fn now(&self) -> u64 {
        1_500_000_000
    }
    fn address(&self) -> u64 {
        0
    }
    fn in_user(&mut self) -> bool {
        false
    }
    fn read(&mut self, _: u64, _: &mut [u8]) -> bool {
        false
    }
    fn stack(&mut self, _: bool, _: &mut [u64]) -> usize {
        0
    }
    fn skip(&mut self, _: u64) -> bool {
        false
    }
}

fn options(old: bool) -> Options {
    Options { old, parameters: std::vec!["7".into(), "word".into()], ..Options::default() }
}

/// The settings of a run on one CPU.
fn settings(style: Style) -> Settings {
    Settings { style, started: 0, epoch: 0, seed: 1, secret: Secret(3, 5), cpus: 1, names: Box::new(NoNames) }
}

/// The first error of a script; empty if there is none.
fn refusal(text: &str) -> String {
    match compile(text, &Plain, &options(false)) {
        Ok(_) => String::new(),
        Err(errors) => errors[0].message.to_string(),
    }
}

/// The reason why a script was ended that has only blocks that run at once.
fn ended_by(text: &str) -> &'static str {
    let program = compile(text, &Plain, &options(false)).unwrap_or_else(|errors| panic!("{text}: {errors:?}"));
    let mut state = State::new(&program, settings(Style::default()));
    for block in &program.blocks {
        state.run(&program, block, &block.points[0], &mut Outside);
    }
    state.failure().unwrap_or_default()
}

/// The whole output of a script that has only BEGIN and END.
fn printed(text: &str, style: Style) -> String {
    let program = compile(text, &Plain, &options(style.old)).unwrap_or_else(|errors| panic!("{text}\n{errors:?}"));
    run_all(&program, style)
}

/// The whole output of a compiled script that has only BEGIN and END.
fn run_all(program: &Program, style: Style) -> String {
    let settings = settings(style);
    let mut state = State::new(program, settings);
    let points = program.blocks.iter().map(|block| block.points.len()).sum();
    state.announce(points);
    for kind in [PointKind::Begin, PointKind::End] {
        for block in &program.blocks {
            if let Some(point) = block.points.iter().find(|point| point.kind == kind) {
                state.run(program, block, point, &mut Outside);
            }
        }
    }
    state.print_maps(program);
    String::from_utf8_lossy(&state.take_output()).into_owned()
}

/// bpftrace prints entries of equal value in no fixed order, so the test sorts them.
fn sorted_among_equals(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = text.lines().map(ToString::to_string).collect();
    let value = |line: &String| {
        line.split_once("]: ").map(|(name, value)| (name.split('[').next().unwrap_or("").to_string(), value.to_string()))
    };
    let mut start = 0;
    while start < lines.len() {
        let same =
            lines[start..].iter().take_while(|line| value(line).is_some() && value(line) == value(&lines[start])).count().max(1);
        lines[start..start + same].sort();
        start += same;
    }
    lines
}

/// BY-1
#[test]
fn the_golden_scripts_print_what_bpftrace_printed() {
    let cases = [
        ("arith", include_str!("golden/arith.bt"), include_str!("golden/arith.txt"), Some(include_str!("golden/arith.json"))),
        ("maps", include_str!("golden/maps.bt"), include_str!("golden/maps.txt"), None),
        ("print", include_str!("golden/print.bt"), include_str!("golden/print.txt"), Some(include_str!("golden/print.json"))),
        ("flow", include_str!("golden/flow.bt"), include_str!("golden/flow.txt"), None),
        ("hists", include_str!("golden/hists.bt"), include_str!("golden/hists.txt"), Some(include_str!("golden/hists.json"))),
    ];
    for (name, script, text, json) in cases {
        let style = Style { json: false, old: true };
        assert_eq!(sorted_among_equals(&printed(script, style)).join("\n"), sorted_among_equals(text).join("\n"), "{name}");
        if let Some(json) = json {
            let lines = printed(script, Style { json: true, old: true });
            assert_eq!(lines, json, "{name} as JSON");
        }
    }
}

/// BY-1
#[test]
fn constructs_mean_what_they_mean_in_bpftrace() {
    #[rustfmt::skip]
    let cases = [
        ("division is unsigned",          "print(-7 / 2)",                                     "9223372036854775804"),
        ("a shift is logical",            "printf(\"%lx\", -1 >> 60)",                         "f"),
        ("precedence",                    "print(1 + 2 * 3 == 7 && 4 | 1)",                    "true"),
        ("unary binds first",             "print(-2 * -3)",                                    "6"),
        ("a choice",                      "print(1 ? 2 : 3)",                                  "2"),
        ("a choice of strings",           "print(0 ? \"a\" : \"b\")",                          "b"),
        ("either",                        "print(0 ?: 5)",                                     "5"),
        ("a short circuit",               "$a = 0; 0 && $a++; 1 || $a++; print($a)",           "0"),
        ("a truth",                       "$x = 1 < 2; print($x); printf(\"%d %s\", $x, !$x); print((bool)5); $x = 7; print($x); print(sizeof($x))", "true\n1 falsetrue\n7\n8"),
        ("a cast cuts",                   "print((uint8)300); print((int8)200)",               "44\n-56"),
        ("a cast of a bracket",           "print((int64)(1 + 2))",                             "3"),
        ("a name in brackets is no cast", "print((cpu)*2)",                                    "0"),
        ("a tuple",                       "$t = (1, (\"a\", 3)); print($t.1.1); print($t.1.0); print($t)", "3\na\n(1, (a, 3))"),
        ("a tuple by index",              "$t = (4, 5); print($t[1])",                         "5"),
        ("if and else",                   "if (0) { print(1) } else if 1 { print(2) } else { print(3) }", "2"),
        ("a loop over numbers",           "for ($i : 0..3) { if ($i == 1) { continue; } print($i) }", "0\n2"),
        ("a loop over a map",             "@m[2] = 5; @m[1] = 6; for ($kv : @m) { printf(\"%d=%d \", $kv.0, $kv.1) } clear(@m)", "1=6 2=5 "),
        ("a loop over two keys",          "@m[1, \"a\"] = 5; for ($kv : @m) { print($kv.0.1) } clear(@m)", "a"),
        ("keys are there or not",         "@m[1] = 0; print(has_key(@m, 1)); print(has_key(@m, 2)); print(delete(@m, 1)); print(len(@m))", "true\nfalse\ntrue\n0"),
        ("a map counts from nothing",     "@++; @ += 2; print(@); clear(@)",                   "@: 3\n"),
        ("an aggregate is a number too",  "@c = count(); @c = count(); print((int64)@c + 1); clear(@c)", "3"),
        ("parameters",                    "print($1 + 1); print(str($2)); print(str($2 + 2)); print($#)", "8\nword\nrd\n2"),
        ("a missing parameter",           "print($9); print(str($9))",                         "0\n"),
        ("strings",                       "print(strlen(\"abc\")); print(strcontains(\"abc\", \"bc\")); print(strstr(\"abc\", \"c\"))", "3\ntrue\n2"),
        ("strings compare",               "print(\"a\" == \"a\"); print(\"a\" != \"b\"); print(\"ab\" == \"a\")", "true\ntrue\nfalse"),
        ("a string cut",                  "print(str(\"abcdef\", 4))",                         "abc"),
        ("a time",                        "print(strftime(\"%H:%M:%S.%f\", 3661000002000))",   "01:01:01.000002"),
        ("now",                           "print(nsecs); time(\"%S\\n\")",                     "1500000000\n01"),
        ("durations",                     "print(2ms)",                                        "2000000"),
        ("sizes",                         "print(sizeof(uint32)); print(sizeof(struct two)); print(offsetof(struct two, c))", "4\n16\n8"),
        ("a macro",                       "$x = 4; print(twice($x + 1)); bump($x); print($x)", "10\n5"),
        ("a define",                      "print(LIMIT)",                                      "12"),
        ("an enumerator",                 "print(THIRD); print(THIRD + 0)",                    "THIRD\n8"),
        ("ifdef",                         "print(TWO)",                                        "2"),
        ("a variable keeps its width",    "$p = (uint16)0x9210; $p = bswap($p); printf(\"%x\", $p)", "1092"),
        ("the network",                   "print(ntop(0x0100007f)); print(bswap((uint16)0x1234) == 0x3412)", "127.0.0.1\ntrue"),
        ("an unreadable address is 0",    "print(*16); print(str(16)); print(((struct two *)16)->a)", "0\n\n0"),
        ("a block has a value",           "$x = { $y = 2; $y + 1 }; print($x)",                "3"),
        ("let",                           "let $x: uint8 = 5; let $y; $y = 2; print($x + $y)", "7"),
        ("the parts of powers of two",    "@ = hist(5, 1); print(@); clear(@)",                "@:\n[4, 6)                 1 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@|\n\n"),
        ("stats",                         "@ = stats(4); @ = stats(10); print(@); clear(@)",   "@: { .count = 2, .average = 7, .total = 14 }"),
        ("a printed entry",               "@m[1] = 5; print(@m[1]); clear(@m)",                "5"),
        ("a structure as a whole",        "print(*(struct two *)16); printf(\"%s\", *(struct two *)16)", "{ .a = 0, .b = , .c = 0 }\n{ .a = 0, .b = , .c = 0 }"),
        ("an array as a whole",           "print(((struct list *)16)->n); print((((struct list *)16)->n, 1))", "[0,0]\n([0,0], 1)"),
        ("a structure in a map",          "@m = *(struct two *)16; print(@m.a); @l[1] = ((struct list *)16)->n; print(@l[1][1]); clear(@m); clear(@l)", "0\n0"),
        ("arrays compare",                "print(((struct list *)16)->n == ((struct list *)32)->n)", "true"),
        ("an address of the network",     "print(pton(\"1.2.3.4\")); print(ntop(pton(\"1.2.3.4\"))); print(pton(\"::1\")[15]); print(ntop(pton(\"fe80::1\")))", "[1,2,3,4]\n1.2.3.4\n1\nfe80::1"),
        ("a signal's name",               "print(signal_name(9)); print(signal_name(99)); printf(\"%s\", signal_name(SIGTERM_IS))", "SIGKILL\n99\nSIGTERM"),
        ("a system call's name",          "print(syscall_name(1)); print(syscall_name(7))",     "write\n7"),
        ("a key that is found",           "@m[3] = 7; if (find(@m, 3, $v)) { print($v) } print(find(@m, 4, $v)); clear(@m)", "7\nfalse"),
        ("its key is evaluated once",     "$i = 3; @m[3] = 7; @m[4] = 8; if (find(@m, $i++, $v)) { print(($v, $i)) } clear(@m)", "(7, 4)"),
        ("so are the parts of a key",     "$i = 3; @m[3, 4] = 7; if (find(@m, ($i++, $i++), $v)) { print(($v, $i)) } clear(@m)", "(7, 5)"),
        ("what holds a member",           "printf(\"%d\", container_of(116, struct two, c))",   "108"),
        ("flags of printf",               "printf(\"[%+d] [% d] [%#x] [%-6s] [%6.2s] [%05d]\", 1, 1, 255, \"ab\", \"abc\", -42)", "[+1] [ 1] [0xff] [ab    ] [    ab] [-0042]"),
    ];
    let before = "#define LIMIT (3 * 4)\n#define SIGTERM_IS 15\n#ifdef LIMIT\n#define TWO 2\n#else\n#define TWO 3\n#endif\nstruct two { int a; char b[4]; long c; };\nstruct list { int n[2]; };\nenum e { FIRST, SECOND = 7, THIRD };\nmacro twice(e) { e * 2 }\nmacro bump($v) { $v++; }\n";
    for (what, script, expected) in cases {
        let whole = std::format!("{before}BEGIN {{ {script} }}");
        let said = printed(&whole, Style::default());
        let said = said.strip_suffix("\n\n").unwrap_or(&said);
        assert_eq!(said.trim_end_matches('\n'), expected.trim_end_matches('\n'), "{what}: {script}");
    }
}

/// BY-1
#[test]
fn errors_point_to_the_wrong_word() {
    #[rustfmt::skip]
    let cases = [
        ("BEGIN { printf(\"%d\\n\"); }",             "printf(\"%d\\n\")",  "Not enough arguments for format string (0 supplied, 1 expected)"),
        ("BEGIN { printf(\"%d\", 1, 2) }",           "printf(\"%d\", 1, 2)", "Too many arguments"),
        ("BEGIN { print($y) }",                      "$y",                 "Undefined or undeclared variable"),
        ("BEGIN { foo(1) }",                         "foo(1)",             "Unknown function: foo"),
        ("BEGIN { $x = 1; $x = \"a\"; }",            "$x = \"a\"",         "Type mismatch for $x"),
        ("BEGIN { @x = count(); @x = 5; }",          "@x = 5",             "Type mismatch for @x: trying to assign value of type 'int64' when map already contains a value of type 'count'"),
        ("BEGIN { @[1] = 1; @[\"a\"] = 1; }",        "@[\"a\"] = 1",       "Argument mismatch for @: trying to access with arguments: [string[2]] when map expects arguments: [int64]"),
        ("BEGIN { print(@b) }",                      "@b",                 "Undefined map: @b"),
        ("BEGIN { system(\"ls\") }",                 "system(\"ls\")",     "refused"),
        ("BEGIN { retval }",                         "retval",             "retval builtin can only be used"),
        ("BEGIN { (1, 2).0 = 3 }",                   "(1, 2).0",           "Tuples are immutable"),
        ("BEGIN { unroll(101) { } }",                "unroll(101) { }",    "from 1 to 100"),
        ("BEGIN { break; }",                         "break",              "outside of a loop"),
        ("BEGIN { $x = ((struct nosuch *)0)->a }",   "struct nosuch *",    "Unknown struct/union: 'struct nosuch'"),
        ("BEGIN { @ = lhist(1, 0, 5000, 1) }",       "lhist(1, 0, 5000, 1)", "too many buckets, must be <= 1000 (would need 5000)"),
        ("kprobe:nosuch { }",                        "kprobe:nosuch",      "No matches for kprobe:nosuch"),
        ("foo:bar { }",                              "foo:bar",            "Invalid provider: 'foo'"),
        ("interval:x:1 { }",                         "interval:x:1",       "not an accepted unit of time"),
        ("BEGIN { ",                                 "",                   "unexpected end of file, expecting }"),
        ("BEGIN { print(\"a) }",                     "\"a) }",             "does not end in its line"),
        ("BEGIN { print(\"\\q\") }",                 "\\q",                "invalid escape character '\\q'"),
        ("BEGIN { print(0xg) }",                     "0xg",                "is no number"),
        ("/* ",                                      "/* ",                "does not end"),
        ("",                                         "",                   "no probe"),
        ("config = { no_such = 1 } BEGIN { }",       "no_such = 1",        "no setting"),
        ("BEGIN { print(arg0) }",                    "arg0",               "only be used with kprobes"),
        ("BEGIN { count() }",                        "count()",            "should be assigned to a map"),
        ("#define A A\nBEGIN { print(A) }",          "A",                  "comes back to itself"),
        ("macro m() { m() } BEGIN { m() }",          "m()",                "comes back to itself"),
        ("BEGIN { pton(\"1.2.3\") }",                "\"1.2.3\"",          "no address of the internet"),
        ("BEGIN { path(1) }",                        "1",                  "takes a struct path"),
        ("BEGIN { username }",                       "username",           "carries no type information"),
        ("BEGIN { ctx }",                            "ctx",                "refused"),
        ("BEGIN { @ = tseries(1, 1s, 5) }",          "tseries(1, 1s, 5)",  "not settled yet"),
        ("rt:sched_switch { }",                      "rt:sched_switch",    "carries no type information"),
        ("BEGIN { print($2) }",                      "$2",                 "used numerically but given \"word\""),
    ];
    for (script, about, wanted) in cases {
        let errors = compile(script, &Plain, &options(false)).err().unwrap_or_else(|| panic!("{script} is compiled"));
        let error = &errors[0];
        assert!(error.message.contains(wanted), "{script}: {errors:?}");
        assert_eq!(script.get(error.at.start..error.at.end), Some(about), "{script}: {error:?}");
    }
}

/// BY-1
#[test]
fn a_loop_without_end_ends_with_a_sentence() {
    let program = compile("BEGIN { while (1) { @++ } }", &Plain, &options(false)).expect("compiled");
    let mut state = State::new(&program, settings(Style::default()));
    state.run(&program, &program.blocks[0], &program.blocks[0].points[0], &mut Outside);
    assert_eq!(state.exit(), Some(1));
    assert!(state.failure().is_some_and(|why| why.contains("1,000,000 turns")));
}

/// BY-1
#[test]
fn attach_points_are_read_as_written() {
    let of = |text: &str| {
        let program = compile(text, &Plain, &options(false)).unwrap_or_else(|errors| panic!("{text}: {errors:?}"));
        program
            .blocks
            .iter()
            .flat_map(|block| block.points.iter().map(|point| (point.kind.clone(), point.name.clone())))
            .collect::<Vec<_>>()
    };
    let rw = |start, len| Area { start, len, reads: true, writes: true, ..Area::default() };
    let object = |argument, offset| PointKind::WatchObject { function: "vfs_read".into(), argument, offset, area: rw(0, 4) };
    #[rustfmt::skip]
    let cases = [
        ("kprobe:vfs_read { }",              PointKind::Kprobe("vfs_read".into(), 0),    "kprobe:vfs_read"),
        ("k:vmlinux:vfs_read+4 /1/ { }",     PointKind::Kprobe("vfs_read".into(), 4),    "kprobe:vfs_read+4"),
        ("kprobe:0x10 { }",                  PointKind::Address(16),                     "kprobe:0x10"),
        ("kr:vfs_read/arg0 == 1/{ }",        PointKind::Kretprobe("vfs_read".into()),    "kretprobe:vfs_read"),
        ("interval:hz:99 { }",               PointKind::Interval(10_101_010),            "interval:hz:99"),
        ("i:5s { }",                         PointKind::Interval(5_000_000_000),         "interval:5s"),
        ("profile:ms:$1 { }",                PointKind::Profile(7_000_000),              "profile:ms:7"),
        ("END { }",                          PointKind::End,                             "end"),
        ("watchpoint:0x10:8:rw { }",         PointKind::Watchpoint(rw(16, 8)),           "watchpoint:0x10:8:rw"),
        ("aw:16+8:4096:wr { }",              PointKind::Watchpoint(rw(24, 4096)),        "asyncwatchpoint:16+8:4096:wr"),
        ("w:vfs_read+arg1:4:rw { }",         object(Some(1), 0),                         "watchpoint:vfs_read+arg1:4:rw"),
        ("w:vfs_read+arg0+12:4:rw { }",      object(Some(0), 12),                        "watchpoint:vfs_read+arg0+12:4:rw"),
        ("w:vfs_read+retval:4:rw { }",       object(None, 0),                            "watchpoint:vfs_read+retval:4:rw"),
        (
            "struct two { char a; int b; }; w:vfs_read+retval+two.b:4:rw { unwatch(1); }",
            object(None, 4),
            "watchpoint:vfs_read+retval+two.b:4:rw",
        ),
    ];
    for (text, kind, name) in cases {
        let text = text.replace("/arg0 == 1/", "/pid == 1/");
        assert_eq!(of(&text), [(kind, name.to_string())], "{text}");
    }
    assert_eq!(of("kprobe:vfs_* , END, { }").len(), 3);
}

/// BY-3: a watchpoint that cannot be is refused with the reason.
#[test]
fn a_bad_watchpoint_is_refused() {
    let cases = [
        ("watchpoint:16:8 { }", "is followed by an address, a length and a mode"),
        ("watchpoint:16:0:w { }", "'0' is no length of a watchpoint"),
        ("watchpoint:16:4097:w { }", "'4097' is no length of a watchpoint"),
        ("watchpoint:16:8:q { }", "'q' is no mode of a watchpoint"),
        ("watchpoint:16:8:x { }", "a watchpoint does not see execution"),
        ("watchpoint:no_such:8:w { }", "'no_such' is no address"),
        ("watchpoint:no_such+arg1:8:w { }", "no function has the name 'no_such'"),
        ("watchpoint:vfs_read+argx:8:w { }", "'argx' is no argument"),
        ("watchpoint:vfs_read+retval+:8:w { }", "'' is no offset in an object"),
        ("watchpoint:vfs_read+retval+no_such.b:8:w { }", "no_such"),
        ("struct two { int b; }; watchpoint:vfs_read+retval+two.c:8:w { }", "c"),
        ("watchpoint:16:8:w { @ = arg0; }", "arg0 can only be used with kprobes"),
    ];
    for (text, why) in cases {
        let errors = compile(text, &Plain, &options(false)).expect_err(text);
        assert!(errors.iter().any(|error| error.to_string().contains(why)), "{text}: {errors:?}");
    }
}

/// BY-1: any text yields a program or an error, and every program can run.
#[test]
fn no_damage_to_a_script_makes_it_panic() {
    let scripts = [
        include_str!("golden/arith.bt"),
        include_str!("golden/maps.bt"),
        include_str!("golden/print.bt"),
        include_str!("golden/flow.bt"),
        "config = { max_strlen = 64 } struct s { int a : 3; struct { char b[4]; } ; int (*f)(int); }; macro m($a, @b, c) { $a + c }
        kprobe:vfs_*+4, kr:vfs_read, i:ms:5 /pid == 1 && comm == \"a\"/ { for ($i : 0..$1) { @[$i, (1, \"x\")] = lhist($i, 0, 10, 1); } @s[kstack(3)] = avg(1); }",
    ];
    for text in scripts {
        for at in (0..text.len()).filter(|at| text.is_char_boundary(*at)) {
            for change in ["", "(", "}", "*", "@", "$9", "\"", "-", "[", "0x", " if ", "99999999999999999999", "/"] {
                let end = (at + 1).min(text.len());
                let damaged = std::format!("{}{change}{}", &text[..at], &text[end..]);
                let Ok(program) = compile(&damaged, &Plain, &options(false)) else { continue };
                let mut state = State::new(&program, settings(Style::default()));
                for block in &program.blocks {
                    state.run(&program, block, &block.points[0], &mut Outside);
                }
                state.print_maps(&program);
            }
        }
    }
}

/// BY-1: every error has a position inside the text, also if the text ends inside a string.
#[test]
fn errors_point_into_the_text() {
    for text in ["BEGIN { print(\"\\", "BEGIN { print(\"a", "BEGIN { print(\"\\x", "#define A \"\\\nBEGIN { A", "k\"\\"] {
        let errors = compile(text, &Plain, &options(false)).err().unwrap_or_else(|| panic!("{text:?} is a program"));
        for at in errors.iter().map(|error| error.at) {
            assert!(at.start <= at.end && at.end <= text.len(), "{text:?}: {at:?}");
        }
    }
}
