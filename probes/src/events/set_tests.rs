//! Tests of the event set: which events can exist together, how they are removed, and the text of the kernel's files.

use super::error::{Code, EventError};
use super::parse::{EventCommand, line};
use super::set::{Attached, EventSet};
use super::testing::{FakeKernel, marked};
use crate::guest::Guest;
use crate::records::EventId;
use alloc::vec::Vec;
use trapline_isa::arch::Arch;
use trapline_isa::plan::Errno;

/// Adds a line up to the registration of its probe.
fn add(set: &mut EventSet, arch: Arch, text: &str) -> Result<EventId, EventError> {
    let kernel = FakeKernel { arch };
    match line(text)? {
        Some(EventCommand::Add(definition)) => {
            let prepared = set.prepare(&kernel, &|at, into| kernel.read_text(at, into), definition)?;
            Ok(set.insert(prepared, Attached::Pending))
        }
        other => panic!("{text:?} gives {other:?}"),
    }
}

fn remove(set: &mut EventSet, text: &str) -> Result<usize, EventError> {
    match line(text)? {
        Some(EventCommand::Remove(removal)) => set.take(&removal).map(|gone| gone.len()),
        other => panic!("{text:?} gives {other:?}"),
    }
}

fn set_of(lines: &[&str]) -> EventSet {
    let mut set = EventSet::default();
    for text in lines {
        add(&mut set, Arch::X86_64, text).unwrap_or_else(|error| panic!("{text}: {error}"));
    }
    set
}

/// DV-4: errors that depend on the kernel or on the existing events.
#[test]
fn a_line_that_conflicts_with_kernel_or_events_is_refused() {
    let (long, short) = (Arch::X86_64, Arch::I386);
    #[rustfmt::skip]
    let cases: &[(&[&str], &str, Arch, &str, &str)] = &[
        // events that exist                  the line                              on     the rule           errno
        (&[],                                 "p ^do_opne",                         long,  "BAD_PROBE_ADDR",  "ENOENT"),
        (&[],                                 "p ^twice",                           long,  "NON_UNIQ_SYMBOL", "EADDRNOTAVAIL"),
        (&[],                                 "p ^0x100000000",                     short, "BAD_PROBE_ADDR",  "EINVAL"),
        (&[],                                 "r ^do_open+4",                       long,  "BAD_RETPROBE",    "EINVAL"),
        (&[],                                 "p ^do_open+4%return",                long,  "BAD_RETPROBE",    "EINVAL"),
        (&[],                                 "r ^0x81000008",                      long,  "BAD_RETPROBE",    "EINVAL"),
        (&[],                                 "r ^padded+4",                        short, "BAD_RETPROBE",    "EINVAL"),
        (&[],                                 "p do_open+4 ^$arg1",                 long,  "BAD_VAR",         "EINVAL"),
        (&[],                                 "p 0x81000000 ^$arg1",                long,  "BAD_VAR",         "EINVAL"),
        (&["p:ev do_open"],                   "^r:ev do_open",                      long,  "DIFF_PROBE_TYPE", "EEXIST"),
        (&["p:ev do_open"],                   "^p:ev do_open",                      long,  "SAME_PROBE",      "EEXIST"),
        (&["p do_open"],                      "^p:p_do_open_0 do_open",             long,  "SAME_PROBE",      "EEXIST"),
        (&["p:ev do_open %di", "p:ev padded %di"], "^p:ev padded %di",              long,  "SAME_PROBE",      "EEXIST"),
        (&["p:ev do_open a=%di"],             "p:ev padded ^b=%di",                 long,  "DIFF_ARG_TYPE",   "EEXIST"),
        (&["p:ev do_open a=%di b=%si"],       "p:ev padded a=%di ^b=%si:u8",        long,  "DIFF_ARG_TYPE",   "EEXIST"),
        (&["p:ev do_open a=%di b=%si"],       "p:ev padded a=%di^",                 long,  "DIFF_ARG_TYPE",   "EEXIST"),
        (&["p:ev do_open a=%di"],             "p:ev padded a=%di ^b=%si",           long,  "DIFF_ARG_TYPE",   "EEXIST"),
        (&["p:ev do_open a=+0(%di):u8"],      "p:ev padded ^a=+0(%di):u8[2]",       long,  "DIFF_ARG_TYPE",   "EEXIST"),
    ];
    for (existing, case, arch, rule, errno) in cases {
        let mut set = set_of(existing);
        let (text, column) = marked(case);
        let error = add(&mut set, *arch, &text).expect_err(case);
        assert_eq!((error.code.name(), error.column, error.errno.name()), (*rule, column, *errno), "{existing:?}, {case}");
        assert_eq!(set.members().len(), existing.len(), "{case}: nothing was added");
    }
}

/// DV-4: an event has one format and may have several probes.
#[test]
fn a_second_probe_joins_an_event_of_the_same_kind_and_arguments() {
    #[rustfmt::skip]
    let cases: &[(&[&str], &str, bool)] = &[
        // events that exist              the line                          joins
        (&["p:ev do_open a=%di"],         "p:ev padded a=%si",              true),
        (&["p:ev do_open a=%di"],         "p:ev do_open a=%si",             true),
        (&["p:ev do_open a=%di"],         "p:ev do_open+4 a=%di:x64",       true),
        (&["r:ev do_open"],               "p:ev padded%return",             true),
        (&["p:ev do_open"],               "p:own/ev do_open",               false),
        (&["p:ev do_open"],               "p:ev2 do_open",                  false),
        (&["p:ev do_open", "r:ev2 do_open"], "r:ev2 padded+4",              true),
    ];
    for (existing, text, joins) in cases {
        let mut set = set_of(existing);
        let last = set.members().last().expect("there is one").event;
        let event = add(&mut set, Arch::X86_64, text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(event == last, *joins, "{existing:?}, {text}");
    }
}

/// DV-4: the address after a landing pad is an entry, so `$argN` is allowed there.
#[test]
fn the_address_after_a_landing_pad_is_an_entry() {
    let set = set_of(&["p padded+4 $arg1", "r 0x81000104", "r do_open $retval", "p do_open $arg1", "p ext4:sync $arg1"]);
    assert_eq!(set.members().len(), 5);
}

const EXISTING: &[&str] =
    &["p:ev do_open a=%di b=%si", "p:ev padded+4 a=%di b=%si", "p:own/ev do_open", "r:own/ret do_open n=$retval", "p 0x81000020"];

/// DV-4: a removal removes exactly what it names.
#[test]
fn removals_take_what_they_name() {
    #[rustfmt::skip]
    let cases = [
        // the line                          how many
        ("-:kprobes/ev",                     2),
        ("-:ev",                             3), // of any group, as in Linux
        ("-:own/",                           2),
        ("-:own.ret",                        1),
        ("-:p_0x81000020",                   1),
        ("-:kprobes/ev padded+4",            1),
        ("-:kprobes/ev do_open a=%di",       1),
        ("-:kprobes/ev do_open a=%di b=%si", 1),
    ];
    for (text, expected) in cases {
        let mut set = set_of(EXISTING);
        assert_eq!(remove(&mut set, text), Ok(expected), "{text}");
        assert_eq!(set.members().len(), EXISTING.len() - expected, "{text}");
    }
    for text in
        ["-:^none", "-:^own/none", "-:^kprobes/ev padded", "-:^kprobes/ev do_open b=%si", "-:^ev do_open a=%di b=%si c=%dx"]
    {
        let (text, column) = marked(text);
        let mut set = set_of(EXISTING);
        let error = remove(&mut set, &text).expect_err(&text);
        assert_eq!((error.code.name(), error.column, error.errno.name()), ("NO_SUCH_EVENT", column, "ENOENT"), "{text}");
    }
}

/// DV-4: an enabled event cannot be removed, and then nothing is removed.
#[test]
fn an_enabled_event_is_not_removed() {
    let mut set = set_of(EXISTING);
    let event = set.find("own", "ret").expect("it was added");
    set.set_enabled(event, true);
    let error = remove(&mut set, "-:own/").expect_err("it is enabled");
    assert_eq!((error.code.name(), error.errno.name()), ("EVENT_IN_USE", "EBUSY"));
    assert_eq!(set.members().len(), EXISTING.len());
    set.set_enabled(event, false);
    assert_eq!(remove(&mut set, "-:own/"), Ok(2));
}

/// DV-4: the text of `kprobe_events` recreates the same events in the same order.
#[test]
fn the_text_of_kprobe_events_makes_the_same_events() {
    let set = set_of(EXISTING);
    let expected = "p:kprobes/ev do_open a=%di b=%si\n\
                    p:kprobes/ev padded+4 a=%di b=%si\n\
                    p:own/ev do_open\n\
                    r:own/ret do_open n=$retval\n\
                    p:kprobes/p_0x81000020 0x81000020\n";
    assert_eq!(set.text(), expected);
    let lines: Vec<&str> = expected.lines().collect();
    assert_eq!(set_of(&lines).text(), expected);
}

/// DV-4: the format of a removed event stays known, and its id is not reused.
#[test]
fn records_of_a_removed_event_can_still_be_read() {
    let mut set = set_of(&["p:ev do_open a=%di"]);
    let old = set.find("kprobes", "ev").expect("it was added");
    assert_eq!(remove(&mut set, "-:ev"), Ok(1));
    let new = add(&mut set, Arch::X86_64, "r:ev do_open").expect("the name is free again");
    assert_ne!(old, new);
    assert_eq!(set.format(old).map(|format| (format.returns, format.fields.len())), Some((false, 1)));
    assert_eq!(set.format(new).map(|format| (format.returns, format.fields.len())), Some((true, 0)));
}

/// DV-4: twice as many events are added and removed with twice the work, whether each has a name of its own, all are
/// probes of one event, or each has a group of its own.
#[test]
fn many_events_are_removed_in_work_by_their_number() {
    type Lines = fn(usize) -> [std::string::String; 2];
    let cases: [(&str, Lines); 4] = [
        ("events", |number| [std::format!("p:e{number} m:f{number}"), std::format!("-:e{number}")]),
        ("probes of one event", |number| [std::format!("p:e m:f{number}"), std::format!("-:e m:f{number}")]),
        ("groups", |number| [std::format!("p:g{number}/e m:f{number}"), std::format!("-:g{number}/e")]),
        ("names in groups", |number| [std::format!("p:g{number}/e{number} m:f"), std::format!("-:e{number}")]),
    ];
    for (what, lines) in cases {
        let work = |events: usize| {
            let mut set = EventSet::default();
            for number in 0..events {
                add(&mut set, Arch::X86_64, &lines(number)[0]).unwrap_or_else(|error| panic!("{what}: {error}"));
            }
            for number in 0..events {
                assert_eq!(remove(&mut set, &lines(number)[1]), Ok(1), "{what}");
                set.forget_removed(Default::default);
            }
            assert_eq!(set.members().len(), 0, "{what}");
            set.looked_at
        };
        let (one, two) = (work(2_000), work(4_000));
        assert!(two < 100 * 4_000 && 5 * two <= 11 * one, "{what}: {one} members and formats, twice the events {two}");
    }
}

/// DV-4: `kprobe_profile` has 44 columns for the name and 15 for each of two counters.
#[test]
fn the_profile_has_linuxs_columns() {
    let set = set_of(&["p:ev do_open", "p do_open+16"]);
    let expected = "  ev                                                         0               0\n  \
                    p_do_open_16                                               0               0\n";
    assert_eq!(set.profile(), expected);
    assert!(set.profile().lines().all(|line| line.len() == 2 + 44 + 1 + 15 + 1 + 15));
}

/// DV-4: a default name that is not valid is refused. An explicit name works.
#[test]
fn a_symbol_with_special_characters_needs_an_event_name() {
    let mut set = EventSet::default();
    let refused = add(&mut set, Arch::X86_64, "p later:vf$x").expect_err("'$' is in no name");
    assert_eq!((refused.code, refused.column, refused.errno), (Code::BAD_EVENT_NAME, 2, Errno::EINVAL));
    add(&mut set, Arch::X86_64, "p:named later:vf$x").expect("it has a name");
}

/// DV-4: the message about an ambiguous name has the places, in the form in which the next line can name one.
#[test]
fn an_ambiguous_name_is_answered_with_its_places() {
    let error = add(&mut EventSet::default(), Arch::X86_64, "p twice").expect_err("there are two");
    assert!(
        error
            .message
            .ends_with("2 symbols have the name 'twice': name the one that is meant by its place, 0x81000200 or 0x81000210"),
        "{error}"
    );
}
