//! Tests of the parser: which lines are accepted and refused without a kernel, and at which column.

use super::args::{Base, Hop};
use super::parse::{Definition, EventCommand, Location, Removal, line, script};
use super::testing::marked;
use super::types::{Bits, Style, Type};
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use proptest::prelude::*;

fn definition(text: &str) -> Definition {
    match line(text) {
        Ok(Some(EventCommand::Add(definition))) => definition,
        other => panic!("{text:?} gives {other:?}"),
    }
}

fn removal(text: &str) -> Removal {
    match line(text) {
        Ok(Some(EventCommand::Remove(removal))) => removal,
        other => panic!("{text:?} gives {other:?}"),
    }
}

/// DV-4: each error code, and the column that Linux's `error_log` points at (marked by `^`).
#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn a_bad_line_is_refused_at_its_column() {
    let long = "x".repeat(64);
    #[rustfmt::skip]
    let cases = [
        // the line                                                     the rule
        ("^x:ev do_open".to_owned(),                                    "BAD_COMMAND"),
        ("^-open".to_owned(),                                           "BAD_COMMAND"),
        ("p^robe do_open".to_owned(),                                   "BAD_COMMAND"),
        ("p^".to_owned(),                                               "NO_PROBE_ADDR"),
        ("  r:ev^   ".to_owned(),                                       "NO_PROBE_ADDR"),
        ("p^7 do_open".to_owned(),                                      "MAXACT_NO_KPROBE"),
        ("p^7 do_open%return".to_owned(),                               "MAXACT_NO_KPROBE"),
        ("r^0 do_open".to_owned(),                                      "BAD_MAXACT"),
        ("r^2b:ev do_open".to_owned(),                                  "BAD_MAXACT"),
        ("r^x do_open".to_owned(),                                      "BAD_MAXACT"),
        ("r^4097 do_open".to_owned(),                                   "MAXACT_TOO_BIG"),
        ("p ^do-open".to_owned(),                                       "BAD_PROBE_ADDR"),
        ("p ^do_open+4-4".to_owned(),                                   "BAD_PROBE_ADDR"),
        ("p ^do_open-4".to_owned(),                                     "BAD_PROBE_ADDR"),
        ("p ^do_open+4294967296".to_owned(),                            "BAD_PROBE_ADDR"),
        ("p ^+4".to_owned(),                                            "BAD_PROBE_ADDR"),
        ("p ^bin/sh:0x400".to_owned(),                                   "BAD_PROBE_ADDR"),
        ("p ^0xc0100000%return".to_owned(),                             "BAD_PROBE_ADDR"),
        ("p ^do_open:12".to_owned(),                                    "BAD_PROBE_ADDR"),
        ("r ^do_open:0%return".to_owned(),                              "BAD_PROBE_ADDR"),
        ("p:probe/ev ^ext4:sync:7".to_owned(),                          "BAD_PROBE_ADDR"),
        ("p ^do_open:12+4".to_owned(),                                  "BAD_PROBE_ADDR"),
        ("p do_open^%returns".to_owned(),                               "BAD_ADDR_SUFFIX"),
        ("p:^/ev do_open".to_owned(),                                   "NO_GROUP_NAME"),
        (format!("p:^{long}/ev do_open"),                               "GROUP_TOO_LONG"),
        ("p:^my.own/ev do_open".to_owned(),                             "BAD_GROUP_NAME"),
        ("p:^-own/ev do_open".to_owned(),                               "BAD_GROUP_NAME"),
        ("p:^ do_open".to_owned(),                                      "NO_EVENT_NAME"),
        ("-:^".to_owned(),                                              "NO_EVENT_NAME"),
        (format!("p:own/^{long} do_open"),                              "EVENT_TOO_LONG"),
        ("p:own/^ev.2 do_open".to_owned(),                              "BAD_EVENT_NAME"),
        ("p:own.^ev-2 do_open".to_owned(),                              "BAD_EVENT_NAME"),
        ("p:^2ev do_open".to_owned(),                                   "BAD_EVENT_NAME"),
        ("p do_open ^$retval".to_owned(),                               "RETVAL_ON_PROBE"),
        ("p do_open +0(^$retval)".to_owned(),                           "RETVAL_ON_PROBE"),
        ("p do_open ^$arch".to_owned(),                                 "BAD_VAR"),
        ("p do_open v=^$stacks".to_owned(),                             "BAD_VAR"),
        ("p do_open v=^$stack1x".to_owned(),                            "BAD_VAR"),
        ("p do_open ^$arg".to_owned(),                                  "BAD_VAR"),
        ("p do_open ^@0x12zz".to_owned(),                               "BAD_MEM_ADDR"),
        ("p do_open ^@".to_owned(),                                     "BAD_MEM_ADDR"),
        ("p do_open ^@jiffies+x".to_owned(),                            "BAD_MEM_ADDR"),
        ("p do_open ^@+16".to_owned(),                                  "FILE_ON_KPROBE"),
        ("p do_open v=\\^one".to_owned(),                               "BAD_IMM"),
        ("p do_open v=\\^08".to_owned(),                                "BAD_IMM"),
        ("p do_open v=\\^deade12g".to_owned(),                          "BAD_IMM"),
        ("p do_open v=\\^fffffffffffffffff".to_owned(),                 "BAD_IMM"),
        ("p do_open v=\\\"one^ two\"".to_owned(),                       "IMMSTR_NO_CLOSE"),
        ("p do_open ^+8$arg1)".to_owned(),                              "DEREF_NEED_BRACE"),
        ("p do_open ^+8x(%di)".to_owned(),                              "BAD_DEREF_OFFS"),
        ("p do_open v=^-(%di)".to_owned(),                              "BAD_DEREF_OFFS"),
        ("p do_open +8(-8(%di^)".to_owned(),                            "DEREF_OPEN_BRACE"),
        ("p do_open +u8(-u8(%di^)".to_owned(),                          "DEREF_OPEN_BRACE"),
        ("p do_open +8(^$comm)".to_owned(),                             "COMM_CANT_DEREF"),
        ("p do_open +8(^\\\"text\")".to_owned(),                        "COMM_CANT_DEREF"),
        ("p do_open ^&8".to_owned(),                                    "BAD_FETCH_ARG"),
        ("p do_open +8(%di)^8".to_owned(),                              "BAD_FETCH_ARG"),
        ("p do_open +8(^)".to_owned(),                                  "BAD_FETCH_ARG"),
        (format!("p do_open +1(^{}%di{}", "+1(".repeat(14), ")".repeat(15)),  "TOO_MANY_OPS"),
        (format!("p do_open +1(^{}@7{}", "+1(".repeat(13), ")".repeat(14)),   "TOO_MANY_OPS"),
        (format!("p do_open +1(^{}@x{}", "+1(".repeat(12), ")".repeat(13)),   "TOO_MANY_OPS"),
        (format!("p do_open v=^{}@7{}:x8[2]", "+1(".repeat(13), ")".repeat(13)), "TOO_MANY_OPS"),
        ("p do_open +8(%di):u8[4^".to_owned(),                          "ARRAY_NO_CLOSE"),
        ("p do_open +8(%di):u8[4]^8".to_owned(),                        "BAD_ARRAY_SUFFIX"),
        ("p do_open +8(%di):u8[^4b]".to_owned(),                        "BAD_ARRAY_NUM"),
        ("p do_open +8(%di):u8[^0]".to_owned(),                         "BAD_ARRAY_NUM"),
        ("p do_open +8(%di):u8[^65]".to_owned(),                        "ARRAY_TOO_BIG"),
        ("p do_open %di:^u9".to_owned(),                                "BAD_TYPE"),
        ("p do_open %di:^".to_owned(),                                  "BAD_TYPE"),
        ("p do_open %di:^b4@0/12".to_owned(),                           "BAD_TYPE"),
        ("p do_open %di:^string".to_owned(),                            "BAD_STRING"),
        ("p do_open $stack:^ustring".to_owned(),                        "BAD_STRING"),
        ("p do_open %di:^u8[4]".to_owned(),                             "BAD_STRING"),
        ("p do_open %di:^b0@0/8".to_owned(),                            "BAD_BITFIELD"),
        ("p do_open %di:^b4@5/8".to_owned(),                            "BAD_BITFIELD"),
        ("p do_open %di:^b4@x/8".to_owned(),                            "BAD_BITFIELD"),
        ("p do_open %di:^b18446744073709551615@1/8".to_owned(),         "BAD_BITFIELD"),
        ("p do_open $comm:^u8".to_owned(),                              "NEED_STRING_TYPE"),
        ("p do_open v=\\\"text\":^string[2]".to_owned(),                "NEED_STRING_TYPE"),
        (format!("p do_open ^{}=%di", "n".repeat(33)),                  "ARG_NAME_TOO_LONG"),
        ("p do_open ^=%di".to_owned(),                                  "NO_ARG_NAME"),
        ("p do_open ^a.b=%di".to_owned(),                               "BAD_ARG_NAME"),
        ("p do_open a=%di ^a=%si".to_owned(),                           "USED_ARG_NAME"),
        ("p do_open ^common_pid=%di".to_owned(),                        "USED_ARG_NAME"),
        ("p do_open arg2=%di ^%si".to_owned(),                          "USED_ARG_NAME"),
        ("p:probes/ev do_open a=%di ^a=%si".to_owned(),                 "USED_ARG_NAME"),
        ("p:probe/ev do_open ^common_pid=%di".to_owned(),               "USED_ARG_NAME"),
        (format!("p do_open ^+{}(%di)", "0".repeat(63)),                "ARG_TOO_LONG"),
        (format!("p do_open a=^%{}", "r".repeat(63)),                   "ARG_TOO_LONG"),
        ("p do_open a=^".to_owned(),                                    "NO_ARG_BODY"),
        (format!("p do_open{} ^%di", " %di".repeat(128)),               "TOO_MANY_ARGS"),
    ];
    for (case, rule) in cases {
        let (text, column) = marked(&case);
        match line(&text) {
            Err(error) => {
                assert_eq!((error.code.name(), error.column), (rule, column), "{case}");
                assert!(text.get(column..column + error.length).is_some(), "{case}: the marked part lies in the line");
            }
            accepted => panic!("{case} gives {accepted:?}"),
        }
    }
}

/// DV-4: commands, names and locations of the grammar.
#[test]
fn commands_names_and_locations_are_parsed() {
    let symbol = |name: &str, offset| Location::Symbol { name: name.to_owned(), offset };
    #[rustfmt::skip]
    let cases = [
        // the line                       returns  maxactive  group         event        location
        ("p do_open",                     false,   0,         None,         None,        symbol("do_open", 0)),
        (" p:ev\tdo_open+010 ",           false,   0,         None,         Some("ev"),  symbol("do_open", 8)),
        ("p:own-1/ev do_open+0x10",       false,   0,         Some("own-1"), Some("ev"), symbol("do_open", 16)),
        ("p:own.ev do_open.isra.0",       false,   0,         Some("own"),  Some("ev"),  symbol("do_open.isra.0", 0)),
        ("p:own/ ext4:ext4_sync",         false,   0,         Some("own"),  None,        symbol("ext4:ext4_sync", 0)),
        ("p 0xc0100000",                  false,   0,         None,         None,        Location::Address(0xc010_0000)),
        ("r do_open",                     true,    0,         None,         None,        symbol("do_open", 0)),
        ("r0x10:ev do_open+0",            true,    16,        None,         Some("ev"),  symbol("do_open", 0)),
        ("r4096:own/ev do_open",          true,    4096,      Some("own"),  Some("ev"),  symbol("do_open", 0)),
        ("p:ev do_open%return",           true,    0,         None,         Some("ev"),  symbol("do_open", 0)),
        ("r:ev do_open+4%return # why",   true,    0,         None,         Some("ev"),  symbol("do_open", 4)),
    ];
    for (text, returns, maxactive, group, event, location) in cases {
        let read = definition(text);
        let read = (read.returns, read.maxactive, read.group.as_deref(), read.event.as_deref(), &read.location);
        assert_eq!(read, (returns, maxactive, group, event, &location), "{text}");
    }
}

/// DV-4: a removal names an event, a group, or one probe of an event.
#[test]
fn removals_are_parsed() {
    #[rustfmt::skip]
    let cases = [
        ("-:ev",                    None,        Some("ev"), &[][..]),
        ("-:own/ev",                Some("own"), Some("ev"), &[]),
        ("-:own/",                  Some("own"), None,       &[]),
        ("-:own/ev do_open+4 a=%di", Some("own"), Some("ev"), &["do_open+4", "a=%di"]),
    ];
    for (text, group, event, only) in cases {
        let read = removal(text);
        assert_eq!((read.group.as_deref(), read.event.as_deref()), (group, event), "{text}");
        assert_eq!(read.only, only, "{text}");
    }
}

/// DV-4: every kind of fetch, with its dereferences in order.
#[test]
fn fetches_are_parsed() {
    let kernel = |offset| Hop { user: false, offset };
    let user = |offset| Hop { user: true, offset };
    #[rustfmt::skip]
    let cases = [
        ("%di",                 Base::Register("di".to_owned()),         [].to_vec()),
        ("$arg12",              Base::Argument(12),                      [].to_vec()),
        ("$retval",             Base::Result,                            [].to_vec()),
        ("$stack",              Base::StackPointer,                      [].to_vec()),
        ("$stack7",             Base::StackWord(7),                      [].to_vec()),
        ("$comm",               Base::Comm,                              [].to_vec()),
        ("$COMM",               Base::Comm,                              [].to_vec()),
        ("@0xc0100000",         Base::Address(0xc010_0000),              [kernel(0)].to_vec()),
        ("@jiffies",            Base::Symbol("jiffies".to_owned(), 0),   [kernel(0)].to_vec()),
        ("@jiffies-0x10",       Base::Symbol("jiffies".to_owned(), -16), [kernel(0)].to_vec()),
        ("\\-1",                Base::Immediate(-1),                     [].to_vec()),
        ("\\+7",                Base::Immediate(7),                      [].to_vec()),
        ("\\0xffffffffffffffff", Base::Immediate(0xffff_ffff_ffff_ffff), [].to_vec()),
        ("\\\"text\"",          Base::Text("text".to_owned()),           [].to_vec()),
        ("\\\"\"",              Base::Text(String::new()),               [].to_vec()),
        ("+8(%di)",             Base::Register("di".to_owned()),         [kernel(8)].to_vec()),
        ("-u8(+0x10(%di))",     Base::Register("di".to_owned()),         [kernel(16), user(-8)].to_vec()),
        ("+0(@jiffies+8)",      Base::Symbol("jiffies".to_owned(), 8),   [kernel(0), kernel(0)].to_vec()),
        ("+u0(\\0x1000)",       Base::Immediate(0x1000),                 [user(0)].to_vec()),
    ];
    for (body, base, hops) in cases {
        let read = definition(&format!("r do_open {body}"));
        assert_eq!((&read.arguments[0].fetch.base, &read.arguments[0].fetch.hops), (&base, &hops), "{body}");
        assert_eq!((read.arguments[0].name.as_str(), read.arguments[0].body.as_str()), ("arg1", body));
    }
}

/// DV-4: every type.
#[test]
fn types_are_parsed() {
    #[rustfmt::skip]
    let cases = [
        ("+0(%di)",                 Type::Word,                          None),
        ("+0(%di):u8",              Type::Integer(1, Style::Unsigned),   None),
        ("+0(%di):s32[64]",         Type::Integer(4, Style::Signed),     Some(64)),
        ("%di:x64",                 Type::Integer(8, Style::Hex),        None),
        ("%di:b3@5/8",              Type::Bits(Bits { width: 3, offset: 5, container: 1 }), None),
        ("%di:b64@0/64",            Type::Bits(Bits { width: 64, offset: 0, container: 8 }), None),
        ("+0(%di):string",          Type::String,                        None),
        ("+0(%di):ustring[0x2]",    Type::UserString,                    Some(2)),
        ("\\0x1000:string",         Type::String,                        None),
        ("$comm",                   Type::String,                        None),
        ("$comm:string",            Type::String,                        None),
        ("%ip:symbol",              Type::Symbol,                        None),
        ("%ip:symstr",              Type::SymbolString,                  None),
        ("+u0(%di):x16[2]",         Type::Integer(2, Style::Hex),        Some(2)),
    ];
    for (body, kind, count) in cases {
        let read = definition(&format!("p do_open name={body}"));
        assert_eq!((read.arguments[0].kind, read.arguments[0].count), (kind, count), "{body}");
    }
}

/// DV-4: the largest sizes that Linux accepts are accepted.
#[test]
fn the_largest_allowed_sizes_are_accepted() {
    let deepest = format!("{}%di{}", "+1(".repeat(14), ")".repeat(14));
    assert_eq!(definition(&format!("p do_open {deepest}")).arguments[0].fetch.hops.len(), 14);
    let many = definition(&format!("p do_open{}", " %di".repeat(128)));
    assert_eq!(many.arguments[127].name, "arg128");
    let longest = format!("p:{0}/{0} do_open {1}=%{2}", "x".repeat(63), "n".repeat(32), "r".repeat(62));
    assert_eq!(definition(&longest).to_string(), longest);
}

/// DV-4: an event without a name is named after its location.
#[test]
fn events_get_default_names() {
    #[rustfmt::skip]
    let cases = [
        ("p do_open",                    "p_do_open_0"),
        ("p do_open+0x10",               "p_do_open_16"),
        ("r ext4:do_open.isra.0",        "r_ext4_do_open_isra_0_0"),
        ("p do_open%return",             "r_do_open_0"),
        ("p 0xffffffff81000010",         "p_0xffffffff81000010"),
        ("p 0xc0100000",                 "p_0xc0100000"),
    ];
    for (text, name) in cases {
        assert_eq!(definition(text).default_event(), name, "{text}");
    }
    assert_eq!(definition(&format!("p {}", "s".repeat(80))).default_event().len(), 63);
}

/// DV-4: comments, blank lines and continuation lines. Columns map to positions in the script.
#[test]
fn scripts_are_split_into_lines() {
    let text = "# all opens\n\np:a do_open \\\n  a=%di\\\r\n  b=%nope:u9\r\nr:b do_open # not \\\n-:a";
    let lines: Vec<_> = script(text).collect();
    let numbers: Vec<(usize, &str)> = lines.iter().map(|line| (line.number, &text[line.offset..line.offset + 3])).collect();
    assert_eq!(numbers, [(1, "# a"), (2, "\np:"), (3, "p:a"), (6, "r:b"), (7, "-:a")]);
    assert_eq!(line(&lines[0].text), Ok(None));
    assert_eq!(line(&lines[1].text), Ok(None));
    let error = line(&lines[2].text).expect_err("u9 is no type");
    assert_eq!(&text[lines[2].offset + error.column..][..error.length], "u9");
    assert_eq!(definition(&lines[3].text).event.as_deref(), Some("b"));
    assert_eq!(removal(&lines[4].text).event.as_deref(), Some("a"));
}

const FETCHES: &[&str] = &[
    "%di",
    "$arg1",
    "$stack",
    "$stack3",
    "$comm",
    "@0x1000",
    "@jiffies+4",
    "\\-3",
    "\\\"text\"",
    "+8(%di)",
    "-u0x10(+4(@sym-8))",
    "+0(%di):u8[3]",
    "%si:b4@2/8",
    "+0(%di):string",
    "+u0(%si):ustring[2]",
    "%ip:symbol",
    "%ip:symstr",
    "@jiffies:s64",
];

proptest! {
    /// DV-4: no input makes the parser panic.
    #[test]
    fn any_text_is_parsed_or_refused(text in "(p|r|-)?[-:p r%+@$\\\\\"u0-9x(){}\\[\\]=,./a-gé#\n\t]{0,80}|.{0,60}") {
        for piece in script(&text) {
            if let Err(error) = line(&piece.text) {
                prop_assert!(piece.text.get(error.column..error.column + error.length).is_some());
            }
            prop_assert!(text.get(piece.offset..).is_some());
        }
    }

    /// DV-4: parsing the displayed form gives the same definition.
    #[test]
    fn an_accepted_line_survives_display_and_parse(
        returns in any::<bool>(),
        maxactive in prop::option::of(1_u32..=4096),
        group in prop::option::of("[a-z_][a-z0-9_-]{0,9}"),
        event in prop::option::of("[a-zA-Z_][a-z0-9_]{0,9}"),
        symbol in "([a-z]{1,5}:)?[a-z_][a-z0-9_.]{0,12}",
        offset in any::<u32>(),
        address in prop::option::of(any::<u64>()),
        fetches in prop::collection::vec((prop::sample::select(FETCHES), prop::option::of("[a-z_]{1,4}[0-9]{3}")), 0..6),
    ) {
        let mut text = String::from(if returns { "r" } else { "p" });
        if let (true, Some(maxactive)) = (returns, maxactive) {
            text += &maxactive.to_string();
        }
        match (&group, &event) {
            (Some(group), event) => text += &format!(":{group}/{}", event.as_deref().unwrap_or("")),
            (None, Some(event)) => text += &format!(":{event}"),
            (None, None) => {}
        }
        text += &address.map_or_else(|| format!(" {symbol}+{offset:#x}"), |address| format!("  {address:#x}"));
        for (index, (fetch, name)) in fetches.iter().enumerate() {
            text += &name.as_ref().map_or_else(|| format!(" {fetch}"), |name| format!("\t{name}{index}={fetch}"));
        }
        let read = definition(&text);
        prop_assert_eq!(definition(&read.to_string()), read);
    }
}

/// DV-4: the lines that `perf probe -D` prints are taken as they are.
#[test]
fn the_lines_of_perf_probe_are_taken() {
    let long = "n".repeat(32);
    let cut = "n".repeat(30);
    #[rustfmt::skip]
    let cases = [
        // the line                                                                  the line that is shown
        ("p:probe/open do_open+4 v=\\deade12d:x64".to_owned(),                      "p:probe/open do_open+4 v=\\deade12d:x64".to_owned()),
        ("p:probe/open do_open+4 v=\\42:s32".to_owned(),                            "p:probe/open do_open+4 v=\\42:s32".to_owned()),
        ("p:probe/open _text+3566048 f=%bp:x64".to_owned(),                         "p:probe/open _text+3566048 f=%bp:x64".to_owned()),
        ("p:probe/open do_open+4 buf=%si buf=%r12 n=%di buf=%r13".to_owned(),       "p:probe/open do_open+4 buf=%si buf_2=%r12 n=%di buf_3=%r13".to_owned()),
        ("p:probe/open do_open+4 buf=%si buf_2=%di buf=%r12".to_owned(),            "p:probe/open do_open+4 buf=%si buf_2=%di buf_3=%r12".to_owned()),
        ("p:probe/rcv do_open cb=+40(%di):s8 cb=+43(%di):x8".to_owned(),            "p:probe/rcv do_open cb=+40(%di):s8 cb_2=+43(%di):x8".to_owned()),
        (format!("p:probe/open do_open {long}=%di {long}=%si"),                     format!("p:probe/open do_open {long}=%di {cut}_2=%si")),
    ];
    for (text, shown) in cases {
        match line(&text) {
            Ok(Some(EventCommand::Add(definition))) => assert_eq!(definition.to_string(), shown, "{text}"),
            other => panic!("{text} gives {other:?}"),
        }
    }
    let Ok(Some(EventCommand::Add(definition))) = line("p:probe/open do_open v=\\deade12d:x64") else { panic!("it is taken") };
    assert_eq!(definition.arguments[0].fetch.base, Base::Immediate(0xdead_e12d));
    // All names of an event that has as many as it may have.
    let all = format!("p:probe/open do_open{}", " same=%di".repeat(128));
    let Ok(Some(EventCommand::Add(definition))) = line(&all) else { panic!("it is taken") };
    assert_eq!(definition.arguments[127].name, "same_128");
}
