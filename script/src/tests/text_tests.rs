//! Tests each construct of the language as its manual describes it, on a guest in memory with types, little- and
//! big-endian.

use super::{NoNames, options};
use crate::compile::{Knowledge, Options, compile};
use crate::program::PointKind;
use crate::run::{ScriptContext, Secret, Settings, State};
use crate::show::Style;
use crate::types::{CType, Enumeration, Field, Prototype, Tag, Types};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use std::string::ToString;
use trapline_isa::arch::{Arch, Isa};
use trapline_isa::mem::ByteOrder;
use trapline_isa::regs::Reg;

/// A guest with a structure, an enum, and a function that takes both.
struct Typed(Arch);

const TASK: u32 = 1;
const STATE: u32 = 2;

fn state() -> Enumeration {
    let names = [(0, "RUNNING"), (2, "STOPPED"), (u64::MAX, "GONE")];
    let names = names.into_iter().map(|(value, name)| (value, name.to_string())).collect();
    Enumeration { name: "state".into(), size: 4, signed: true, names }
}

fn task() -> CType {
    CType::Pointer(Box::new(CType::Struct(TASK, "task_struct".into())))
}

impl Types for Typed {
    fn named(&self, tag: Option<Tag>, name: &str) -> Option<CType> {
        match (tag, name) {
            (Some(Tag::Struct), "task_struct") => Some(CType::Struct(TASK, name.into())),
            (Some(Tag::Enum), "state") => Some(CType::Enum(4, true, STATE)),
            _ => None,
        }
    }
    fn field(&self, _: u32, name: &str) -> Option<Field> {
        self.fields(TASK).into_iter().find(|(is, _)| is == name).map(|(_, field)| field)
    }
    fn fields(&self, _: u32) -> Vec<(String, Field)> {
        let field = |name: &str, kind, byte: u64| (name.to_string(), Field { kind, bit: byte * 8, width: None });
        Vec::from([
            field("pid", CType::Int(4, true), 0),
            field("state", CType::Enum(4, true, STATE), 4),
            field("comm", CType::Array(Box::new(CType::Char(true)), 16), 8),
            field("next", task(), 24),
            field("flags", CType::Array(Box::new(CType::Int(2, false)), 3), 32),
        ])
    }
    fn size(&self, _: u32) -> Option<u64> {
        Some(40)
    }
    fn enumerator(&self, name: &str) -> Option<u64> {
        state().names.iter().find(|(_, is)| is == name).map(|(value, _)| *value)
    }
    fn enum_of(&self, _: &str) -> Option<u32> {
        Some(STATE)
    }
    fn enumeration(&self, number: u32) -> Option<Enumeration> {
        (number == STATE).then(state)
    }
    fn function(&self, name: &str) -> Option<Prototype> {
        let parameters = [("task", task()), ("state", CType::Enum(4, true, STATE)), ("count", CType::Int(8, false))];
        let parameters = parameters.into_iter().map(|(name, kind)| (name.to_string(), kind)).collect();
        (name == "set_state").then_some(Prototype { parameters, result: CType::Enum(4, true, STATE) })
    }
}

impl Knowledge for Typed {
    fn isa(&self) -> &'static Isa {
        self.0.isa()
    }
    fn types(&self) -> Option<&dyn Types> {
        Some(self)
    }
    fn address(&self, name: &str) -> Option<u64> {
        (name == "set_state" || name.ends_with("sys_openat")).then_some(0x1000)
    }
    fn functions(&self, _: &str, _: bool) -> Vec<String> {
        Vec::from(["set_state".into()])
    }
}

/// A hit of `set_state(the task at 0x4000, STOPPED, 77)`. The first result is RUNNING, the later ones are -1.
struct Hit {
    order: ByteOrder,
    number: u64,
}

impl ScriptContext for Hit {
    fn argument(&mut self, number: usize) -> u64 {
        [0x4000, 2, 77].get(number).copied().unwrap_or(number as u64)
    }
    fn stack_word(&mut self, number: usize) -> u64 {
        100 + number as u64
    }
    fn result(&mut self) -> u64 {
        if self.number == 0 { 0 } else { u64::MAX }
    }
    fn register(&mut self, _: Reg) -> u64 {
        0xabc
    }
    fn pid(&mut self) -> u32 {
        12
    }
    fn process(&mut self) -> u32 {
        10
    }
    fn comm(&mut self) -> [u8; 16] {
        *b"worker\0\0\0\0\0\0\0\0\0\0"
    }
    fn task(&mut self) -> u64 {
        0x4000
    }
    fn cpu(&mut self) -> usize {
        1
    }
    fn now(&self) -> u64 {
        5_000 + self.number
    }
    fn address(&self) -> u64 {
        0x1000
    }
    fn in_user(&mut self) -> bool {
        false
    }
    fn read(&mut self, at: u64, into: &mut [u8]) -> bool {
        let number = |value: u64, size: usize| match self.order {
            ByteOrder::Little => value.to_le_bytes()[..size].to_vec(),
            ByteOrder::Big => value.to_be_bytes()[8 - size..].to_vec(),
        };
        let mut memory = [number(10, 4), number(2, 4), b"worker\0\0\0\0\0\0\0\0\0\0".to_vec(), number(0x4000, 8)].concat();
        memory.extend([number(1, 2), number(0xffff, 2), number(3, 2), [0; 2].to_vec()].concat());
        // Next come pointers to strings, as in a program's arguments, and a long text.
        memory.extend([number(0x4100, 8), number(0x4108, 8), number(0, 8)].concat());
        memory.resize(0x100, 0);
        memory.extend(b"one\0\0\0\0\0two\0");
        memory.resize(0x200, 0);
        memory.extend([b'x'; 3000]);
        let Some(start) = at.checked_sub(0x4000).and_then(|start| usize::try_from(start).ok()) else { return false };
        let Some(held) = memory.get(start..).and_then(|rest| rest.get(..into.len())) else { return false };
        into.copy_from_slice(held);
        true
    }
    fn stack(&mut self, user: bool, into: &mut [u64]) -> usize {
        let frames: Vec<u64> = if user { Vec::from([0x40_0000]) } else { (0x1000..0x1000 + 1500).collect() };
        let count = frames.len().min(into.len());
        into[..count].copy_from_slice(&frames[..count]);
        count
    }
    fn skip(&mut self, _: u64) -> bool {
        true
    }
}

struct Said {
    out: String,
    warned: String,
}

/// The output of a script after this many hits, with its maps.
fn hit(arch: Arch, text: &str, times: u64, style: Style, options: &Options) -> Said {
    let program = compile(text, &Typed(arch), options).unwrap_or_else(|errors| panic!("{text}\n{errors:?}"));
    let settings = Settings { style, started: 1000, epoch: 0, seed: 1, secret: Secret(3, 5), cpus: 2, names: Box::new(NoNames) };
    let mut state = State::new(&program, settings);
    for number in 0..times {
        for block in &program.blocks {
            let point = &block.points[0];
            if number == 0 || !matches!(point.kind, PointKind::Begin | PointKind::End) {
                state.run(&program, block, point, &mut Hit { order: arch.isa().order, number });
            }
        }
    }
    let warned = String::from_utf8_lossy(&state.take_warnings()).into_owned();
    state.print_maps(&program);
    let out = String::from_utf8_lossy(&state.take_output()).into_owned();
    Said { out: out.trim_end_matches('\n').into(), warned }
}

fn once(text: &str) -> String {
    let said = [Arch::X86_64, Arch::S390x].map(|arch| hit(arch, text, 1, Style::default(), &options(false)).out);
    assert_eq!(said[0], said[1], "{text}: as little-endian and big-endian guests have it");
    let [said, _] = said;
    said
}

/// BY-1: values with guest types are printed as such.
#[test]
fn values_of_the_guests_types() {
    #[rustfmt::skip]
    let cases = [
        ("an argument by name",         "print(args.count); print(args->count)",              "77\n77"),
        ("an enum's name",              "print(args.state); printf(\"%s %d\", args.state, args.state)", "STOPPED\nSTOPPED 2"),
        ("an enumerator",               "print(STOPPED); printf(\"%d\", STOPPED + 1)",        "STOPPED\n3"),
        ("a value without a name",      "print((enum state)7); print((enum state)-1)",        "7\nGONE"),
        ("an enum of the script's",     "print((enum own)4); print(FOUR); print(FIVE == 5)",  "FOUR\nFOUR\ntrue"),
        ("an enum in a structure",      "print(args.task->state); print(args.task.state == STOPPED)", "STOPPED\ntrue"),
        ("an enum as a key",            "@[args.state] = 1; @[RUNNING] = 2; print(@); clear(@)", "@[STOPPED]: 1\n@[RUNNING]: 2"),
        ("enum and number together",    "@[args.state] = 1; @[9] = 2; print(@); clear(@)",    "@[2]: 1\n@[9]: 2"),
        ("an enum in a map",            "@ = args.state; print(@); clear(@)",                 "@: STOPPED"),
        ("a choice of enumerators",     "print(1 ? STOPPED : RUNNING); print(1 ? STOPPED : 5)", "STOPPED\n2"),
        ("all arguments",               "print(args)",                                        "{ .task = 0x4000, .state = STOPPED, .count = 77 }"),
        ("arguments in a variable",     "$a = args; print($a.count); print($a.state)",        "77\nSTOPPED"),
        ("a structure",                 "print(*args.task)",                                  "{ .pid = 10, .state = STOPPED, .comm = worker, .next = 0x4000, .flags = [1,65535,3] }"),
        ("a chain of pointers",         "print(args.task->next->next->pid)",                  "10"),
        ("an array's element",          "$i = 1; print(args.task->flags[$i]); print(args.task->flags[2])", "65535\n3"),
        ("what is behind an array",     "$i = 9; print(args.task->flags[$i] >= 0)",           "true"),
        ("a string of fixed length",    "print(args.task->comm); print(strlen(args.task->comm))", "worker\n6"),
        ("the running task",            "print(curtask->pid); print(curtask->comm)",          "10\nworker"),
        ("a pointer moves by its size", "$p = args.task; $p++; printf(\"%p\", $p); printf(\" %p\", args.task + 2)", "0x4028 0x4050"),
        ("what is at a pointer",        "$p = (int32 *)0x4000; print(*$p); print($p[1])",     "10\n2"),
        ("sizes",                       "print(sizeof(struct task_struct)); print(sizeof(*args.task)); print(sizeof(args.count))", "40\n40\n8"),
        ("a place",                     "print(offsetof(struct task_struct, comm))",          "8"),
        ("builtins",                    "printf(\"%d %d %d %s %d %d %s\", pid, tid, cpu, comm, ncpus, elapsed, probe)", "10 12 1 worker 2 4000 fentry:set_state"),
        ("builtins as calls",           "printf(\"%d %d %s\", pid(), tid(), comm())",         "10 12 worker"),
        ("words of the stack",          "print(sarg0); print(sarg2)",                         "100\n102"),
        ("strings in a row",            "join(0x4028); join(0x4028, \",\")",                  "one two\none,two"),
        ("a buffer",                    "printf(\"%r\", buf(0x4100, 5))",                     "one\\x00\\x00"),
        ("an address of a card",        "print(macaddr(0x4100))",                             "6F:6E:65:00:00:00"),
        ("no memory is there",          "print(str(16)); print(*16); printf(\"%r\", buf(16, 2))", "\n0\n\\x00\\x00"),
    ];
    for (what, script, expected) in cases {
        let whole = std::format!("enum own {{ THREE = 3, FOUR, FIVE }};\nfentry:set_state {{ {script} }}");
        assert_eq!(once(&whole), expected, "{what}: {script}");
    }
    let result = "fexit:set_state { print(retval); print(args.count); @[retval] = count(); }";
    let said = hit(Arch::X86_64, result, 2, Style::default(), &options(false));
    assert_eq!(said.out, "RUNNING\n77\nGONE\n77\n\n\n@[GONE]: 1\n@[RUNNING]: 1");
    let plain = "tracepoint:syscalls:sys_enter_openat { print(args) }";
    let arm = hit(Arch::Arm, plain, 1, Style::default(), &options(false)).out;
    assert_eq!(arm, "{ .dfd = 16384, .filename = 0x2, .flags = 77, .mode = 3 }");
}

/// BY-1: features of the present language that bpftrace of Debian 12 lacks.
#[test]
fn constructs_of_the_present_language() {
    #[rustfmt::skip]
    let cases = [
        ("truths",                      "print(true); print(false); $t = true; print($t); printf(\"%d\", true)", "true\nfalse\ntrue\n1"),
        ("a truth is chosen",           "print(1 ? true : false)",                            "true"),
        ("if is a value",               "$x = if (1) { 5 } else { 6 }; print($x)",            "5"),
        ("if is a value, longer",       "$x = if 0 { 5 } else if 0 { 6 } else { $y = 6; $y + 1 }; print($x)", "7"),
        ("if is a string",              "print(if 1 { \"a\" } else { \"b\" })",               "a"),
        ("an if ends a block",          "$x = { $y = 3; if $y > 2 { \"many\" } else { \"few\" } }; print($x)", "many"),
        ("an if ends a macro",          "print(larger(3, 4)); print(larger(4, 3))",           "4\n4"),
        ("an if is a statement",        "if (0) { print(1) } else { print(2) }",              "2"),
        ("members with names",          "$r = (a = 1, b = (\"x\", 2)); print($r.a); print($r.b.0); print($r)", "1\nx\n{ .a = 1, .b = (x, 2) }"),
        ("in a map",                    "@m[1] = (n = 2, s = \"t\"); print(@m[1].s); print(@m); clear(@m)", "t\n@m[1]: { .n = 2, .s = t }"),
        ("as a key",                    "@m[(n = 2, s = \"t\")] = 5; print(@m[(n = 2, s = \"t\")]); clear(@m)", "5"),
        ("a number's bytes",            "print((uint8[4])0x01020304 == (uint8[4])0x01020304); print(((uint16[])(uint32)7)[0] + ((uint16[])(uint32)7)[1])", "true\n7"),
        ("as many as it has",           "print(sizeof(uint8[4])); print((uint8[2])0x0101)",    "4\n[1,1]"),
        ("return leaves a value's block", "$x = { if (1) { return; } 5 }; print($x)",         ""),
        ("exit in a value's block",     "@ = 1; @ = { exit(); 5 }; print(\"never\")",          "@: 1"),
        ("break in a value's block",    "while (1) { $x = { if 1 { break; } 3 }; print($x) } print(\"out\")", "out"),
        ("continue in a value's block", "for $i : 0..3 { print({ if $i == 1 { continue; } $i }) }", "0\n2"),
        ("tuples compare",              "print((1, \"a\") == (1, \"a\")); print((1, 0, 2) == (1, 0, 3)); print((1, 2) != (1, 3))", "true\nfalse\ntrue"),
        ("one entry of what is collected", "@[1] = avg(4); @[1] = avg(8); print(@[1]); clear(@)", "6"),
        ("one entry, stats",            "@[1] = stats(4); print(@[1]); clear(@)",             "{ .count = 1, .average = 4, .total = 4 }"),
        ("one entry, hist",             "@[1] = hist(1); print(@[1]); clear(@)",              "[1]                    1 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@|"),
        ("a loop without brackets",     "for $i : 1..3 { print($i) }",                        "1\n2"),
        ("both ends are read once",     "$n = 2; for ($i : 0..$n) { $n = 5; print($i) }",     "0\n1"),
        ("deleting what is at hand",    "@m[1] = 1; @m[2] = 2; for ($kv : @m) { delete(@m, $kv.0); } print(len(@m))", "0"),
        ("a binary number",             "print(0b101); print(1_000); print(2h)",              "5\n1000\n7200000000000"),
        ("nothing is kept",             "_ = 5; print(1)",                                    "1"),
        ("a letter of a string by number", "printf(\"\\101\\x42%%\")",                        "AB%"),
        ("frames are counted",          "print(len(kstack)); print(len(kstack(3))); print(len(kstack(1024))); print(len(ustack))", "127\n3\n1024\n1"),
        ("addresses alone",             "print(kstack(raw, 2)); print(ustack(perf, 1))",      "\n        0x1000\n        0x1001\n\n\n\t400000 0x400000"),
        ("no letter fits",              "print(str(\"abc\", 0)); print(str(0x4100, 0)); print(str(0x4100, 3))", "\n\non"),
        ("a sign is kept",              "@ = min(-5); @ = min(3); print(@); @a = avg(-10); @a = avg(0); @a = avg(0); print(@a); clear(@); clear(@a)", "@: -5\n@a: -3"),
        ("a divisor",                   "@[1] = -7; @[2] = 9; print(@, 0, 2); clear(@)",      "@[1]: -3\n@[2]: 4"),
        ("memory compares",             "print(memcmp(\"abc\", \"abd\", 2)); print(memcmp(\"abc\", \"abd\", 3) < 0)", "0\ntrue"),
        ("an error's address",          "print(is_err(-5)); print(is_err(5))",                "true\nfalse"),
        ("strings in one",              "print(str_concat(\"ab\", \"cd\"))",                  "abcd"),
        ("an option that is not given", "print(getopt(\"t\", true)); print(getopt(\"n\", 5)); print(getopt(\"s\", \"x\")); print(getopt(\"f\"))", "true\n5\nx\nfalse"),
        ("an option that is given",     "print(getopt(\"given\", 1)); print(getopt(\"off\", true)); print(getopt(\"word\", \"\"))", "3\nfalse\nw"),
    ];
    let mut with = options(false);
    with.named = [("given", "3"), ("off", "false"), ("word", "w")].map(|(name, value)| (name.into(), value.into())).into();
    for (what, script, expected) in cases {
        let whole = std::format!("macro larger(a, b) {{ if a > b {{ a }} else {{ b }} }}\nfentry:set_state {{ {script} }}");
        for arch in [Arch::X86_64, Arch::S390x] {
            let said = hit(arch, &whole, 1, Style::default(), &with).out;
            assert_eq!(said.trim_start_matches("\n\n"), expected.trim_start_matches("\n\n"), "{what}: {script}");
        }
    }
}

/// BY-1: a variable that a hit has not assigned is empty, whatever the previous hit assigned.
#[test]
fn nothing_of_a_variable_stays_for_the_next_hit() {
    let text = "fentry:set_state {
        let $x; let $kept;
        if (@n == 0) { $x = 5; $s = \"text\"; $kept = 1; }
        @n == 0 ? { $c = 7; } : { $c += 0; };
        for ($i : 0..(@n == 0 ? 3 : 0)) { $last = $i; }
        printf(\"%d [%s] %d %d\\n\", $x, $s, $c, $last);
        @n++;
    }";
    let said = hit(Arch::X86_64, text, 2, Style::default(), &options(false));
    assert_eq!(said.out, "5 [text] 7 2\n0 [] 0 0\n\n\n@n: 2");
}

/// BY-1: the JSON output is valid and exact.
#[test]
fn values_as_json() {
    #[rustfmt::skip]
    let cases = [
        ("print(args)",                        r#"{"type": "value", "data": {"task": 16384, "state": 2, "count": 77}}"#),
        ("print(*args.task)",                  r#"{"type": "value", "data": {"pid": 10, "state": 2, "comm": "worker", "next": 16384, "flags": [1,65535,3]}}"#),
        ("print((n = 1, s = \"\\\"\"))",       r#"{"type": "value", "data": {"n": 1, "s": "\""}}"#),
        ("print((1, (2, \"x\")))",             r#"{"type": "value", "data": [1,[2,"x"]]}"#),
        ("print(true)",                        r#"{"type": "value", "data": true}"#),
        ("print(0x7fffffffffffffff)",          r#"{"type": "value", "data": "9223372036854775807"}"#),
        ("print(1 << 60)",                     r#"{"type": "value", "data": 1152921504606846976}"#),
        ("@[STOPPED, \"k\"] = -4; print(@, 0, 3); clear(@)", r#"{"type": "map", "data": {"@": {"STOPPED,k": -1}}}"#),
        ("@ = sum(0x7fffffffffffffff); print(@); clear(@)", r#"{"type": "map", "data": {"@": "9223372036854775807"}}"#),
        ("@ = avg(-4); print(@); clear(@)",    r#"{"type": "stats", "data": {"@": -4}}"#),
        ("@[1] = stats(4); print(@[1]); clear(@)", r#"{"type": "value", "data": {"count": 1, "average": 4, "total": 4}}"#),
        ("time(\"%S\\n\")",                    r#"{"type": "time", "data": "00\n"}"#),
        ("join(0x4028)",                       r#"{"type": "join", "data": "one two\n"}"#),
        ("printf(\"\\001\\t\")",               r#"{"type": "printf", "data": "\u0001\t"}"#),
    ];
    for (script, expected) in cases {
        let style = Style { json: true, old: false };
        let said = hit(Arch::X86_64, &std::format!("fentry:set_state {{ {script} }}"), 1, style, &options(false)).out;
        assert_eq!(said, expected, "{script}");
    }
}

/// BY-1: settings of the environment override those of the script.
#[test]
fn settings_are_honoured() {
    let said = |settings: &[(&str, &str)], text: &str| {
        let mut with = options(false);
        with.settings = settings.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        hit(Arch::X86_64, text, 1, Style::default(), &with).out
    };
    let long = "fentry:set_state { $s = str(0x4200); print($s) }";
    assert_eq!(said(&[], long), "x".repeat(1023) + "..", "1024 with its 0, and what says that it was longer");
    assert_eq!(said(&[("max_strlen", "8")], long), "xxxxxxx..");
    let own = std::format!("config = {{ max_strlen = 4; str_trunc_trailer = \"~\" }} {long}");
    assert_eq!(said(&[], &own), "xxx~");
    assert_eq!(said(&[("max_strlen", "6")], &own), "xxxxx~");
    assert_eq!(said(&[], "fentry:set_state { print(str(0x4200, 5)); }"), "xxxx", "what the script itself cuts has no mark");
    assert_eq!(said(&[("stack_mode", "raw")], "fentry:set_state { print(kstack(1)) }"), "\n        0x1000");
    assert_eq!(said(&[("print_maps_on_exit", "false")], "fentry:set_state { @ = 1; }"), "");
    assert_eq!(said(&[("max_map_keys", "1")], "fentry:set_state { @[1] = 1; @[2] = 1; }"), "\n\n@[1]: 1");
    let wrong = |settings: &[(&str, &str)], text: &str| {
        let mut with = options(false);
        with.settings = settings.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        compile(text, &Typed(Arch::X86_64), &with).expect_err(text)[0].message.to_string()
    };
    assert!(wrong(&[("max_probes", "1")], "BEGIN { } END { }").contains("more than 1 probes, which is its max_probes"));
    assert!(wrong(&[("no_such", "1")], "BEGIN { }").contains("no setting 'no_such'"));
    assert!(wrong(&[], "config = { stack_mode = pretty } BEGIN { }").contains("stack_mode is"));
}

/// BY-1: a process filter ignores other processes, and warnings of unreadable memory can be switched on.
#[test]
fn options_of_the_command_line() {
    let count = "fentry:set_state { @ = count(); } i:s:1 { @ticks = count(); }";
    for (process, expected) in [(Some(10), "\n\n@: 1\n@ticks: 1"), (Some(11), "\n\n@ticks: 1"), (None, "\n\n@: 1\n@ticks: 1")] {
        let with = Options { process, ..options(false) };
        assert_eq!(hit(Arch::X86_64, count, 1, Style::default(), &with).out, expected, "{process:?}");
    }
    // A timer beside a function in one probe leaves the function its filter.
    let both = "fentry:set_state, i:s:1 { @ = count(); }";
    for (process, expected) in [(Some(10), "\n\n@: 2"), (Some(11), "\n\n@: 1")] {
        let with = Options { process, ..options(false) };
        assert_eq!(hit(Arch::X86_64, both, 1, Style::default(), &with).out, expected, "{process:?}");
    }
    let reads = "fentry:set_state { print(*16); print(str(0x4100)); }";
    let with = Options { warns_of_reads: true, ..options(false) };
    let said = hit(Arch::X86_64, reads, 1, Style::default(), &with);
    assert_eq!(said.warned, "WARNING: fentry:set_state: the memory at 0x10 cannot be read: Bad address (-14)\n");
    assert_eq!(hit(Arch::X86_64, reads, 1, Style::default(), &options(false)).warned, "");
    let divided = "fentry:set_state { $z = arg0 - arg0; print(1 / $z); print(1 % $z); }".replace("arg0", "args.count");
    let said = hit(Arch::X86_64, &divided, 2, Style::default(), &options(false));
    assert_eq!((said.out.as_str(), said.warned.as_str()), ("0\n0\n0\n0", "WARNING: a division by zero gave 0 (said once)\n"));
}
