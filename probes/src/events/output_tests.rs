//! Tests of the trace text and the JSON output, byte for byte.

use super::format::{Field, Format, Stack, put_stack};
use super::places::Places;
use super::testing::{JIFFIES, OPEN, symbol_at};
use super::types::{Stored, Style};
use super::{json, trace};
use crate::context::Frame;
use crate::guest::Symbol;
use crate::records::{EventId, Flags, Header, LARGEST_PAYLOAD, Record, Ring};
use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;

fn field(name: &str, stored: Stored, count: Option<u8>) -> Field {
    Field { name: name.to_owned(), stored, count }
}

fn format(returns: bool, fields: &[Field]) -> Format {
    Format {
        group: "files".to_owned(),
        event: "open".to_owned(),
        returns,
        mirrors: false,
        in_program: false,
        fields: fields.to_vec(),
        stack: None,
    }
}

fn record(ip: u64, return_ip: u64, payload: &[u8]) -> Record {
    let header = Header {
        event: EventId(0),
        cpu: 1,
        flags: Flags::INTERRUPTS_OFF,
        pid: 42,
        comm: *b"cat\0leftovers\0\0\0",
        time: 12_345_678_499,
        ip,
        return_ip,
    };
    Record { header, payload: payload.to_vec() }
}

fn as_text(record: &Record, format: &Format) -> String {
    let mut text = String::new();
    trace::write(&mut text, record, format, &mut Places::default(), &symbols);
    text
}

fn as_json(record: &Record, format: &Format) -> String {
    let mut text = String::new();
    json::write(&mut text, record, format, &mut Places::default(), &symbols);
    text
}

fn symbols(address: u64) -> Option<Symbol> {
    let module = Symbol { name: "ext4_sync".to_owned(), start: 0xa000_0000, size: 0x40, module: Some("ext4".to_owned()) };
    if address == 0xa000_0004 { Some(module) } else { symbol_at(address) }
}

fn everything() -> (Record, Format) {
    let word = |value: u64| value.to_le_bytes().to_vec();
    let fields = [
        field("u", Stored::Integer(1, Style::Unsigned), None),
        field("s", Stored::Integer(2, Style::Signed), None),
        field("x", Stored::Integer(4, Style::Hex), None),
        field("sym", Stored::Symbol(8), None),
        field("in", Stored::SymbolString(8), None),
        field("odd", Stored::Symbol(8), None),
        field("text", Stored::String, None),
        field("bad", Stored::UserString, None),
        field("a", Stored::Integer(1, Style::Hex), Some(3)),
        field("b", Stored::String, Some(2)),
    ];
    let parts: [&[u8]; 10] = [
        &[200],
        &[0xfe, 0xff],
        &[0, 1, 0, 0],
        &word(JIFFIES + 4),
        &word(0xa000_0004),
        &word(0x1234),
        b"\x04\0a \"\n",
        b"\xff\xff",
        &[0, 1, 0xff],
        b"\x02\0hi\xff\xff",
    ];
    (record(OPEN + 4, 0, &parts.concat()), format(false, &fields))
}

/// DV-4: a line of the `trace` file with every kind of value.
#[test]
fn a_record_is_printed_as_ftrace_prints_it() {
    let (record, format) = everything();
    let expected = "             cat-42      [001] d....    12.345678: open: (do_open+0x4/0x100) u=200 s=-2 x=0x100 \
                    sym=jiffies+0x4/0x8 \
                    in=\"ext4_sync+0x4/0x40 [ext4]\" odd=0x1234 text=\"a \"\n\" bad=(fault) a={0x0,0x1,0xff} b={\"hi\",(fault)}\n";
    assert_eq!(as_text(&record, &format), expected);
}

/// DV-4: a return is printed with its return address and its function.
#[test]
fn a_return_is_printed_with_address_and_function() {
    let value = field("arg1", Stored::Integer(8, Style::Hex), None);
    let mut record = record(OPEN, 0x8100_0108, &7_u64.to_le_bytes());
    record.header.flags = Flags::NONE;
    let line = as_text(&record, &format(true, &[value]));
    assert_eq!(line, "             cat-42      [001] .....    12.345678: open: (padded+0x8/0x80 <- do_open) arg1=0x7\n");
}

/// DV-4: columns are fixed whatever the task's name, and time is rounded to microseconds.
#[test]
fn the_context_has_fixed_columns() {
    #[rustfmt::skip]
    let cases = [
        // name                 pid        cpu  time              line
        (*b"cat\0............", 1,         0,   0,                "             cat-1       [000] d....     0.000000: open: (0x10)\n"),
        (*b"swapper/12\0.....", 0,         12,  499,              "          <idle>-0       [012] d....     0.000000: open: (0x10)\n"),
        ([0; 16],               0,         12,  499,              "           <...>-0       [012] d....     0.000000: open: (0x10)\n"),
        ([0; 16],               7,         12,  500,              "           <...>-7       [012] d....     0.000001: open: (0x10)\n"),
        (*b"kworker/u16:10-x",  1_234_567, 3,   999_999_999_999,  "kworker/u16:10-x-1234567 [003] d....  1000.000000: open: (0x10)\n"),
    ];
    for (comm, pid, cpu, time, expected) in cases {
        let mut record = record(0x10, 0, &[]);
        record.header = Header { comm, pid, cpu, time, ..record.header };
        assert_eq!(as_text(&record, &format(false, &[])), expected);
    }
}

/// DV-4: the five context letters equal ftrace's.
#[test]
fn the_context_flags_are_five_letters() {
    #[rustfmt::skip]
    let cases: &[(&[Flags], [u64; 2], &str)] = &[
        (&[],                                                                   [0, 0],     "....."),
        (&[Flags::INTERRUPTS_OFF, Flags::HARD_INTERRUPT],                       [1, 0],     "d.h1."),
        (&[Flags::INTERRUPTS_OFF, Flags::BOTTOM_HALVES_OFF],                    [2, 0],     "D..2."),
        (&[Flags::BOTTOM_HALVES_OFF, Flags::SOFT_INTERRUPT],                    [0, 1],     "b.s.1"),
        (&[Flags::NEED_RESCHED, Flags::PREEMPT_RESCHED],                        [99, 16],   ".N.ff"),
        (&[Flags::NEED_RESCHED, Flags::HARD_INTERRUPT, Flags::SOFT_INTERRUPT],  [10, 0],    ".nHa."),
        (&[Flags::PREEMPT_RESCHED, Flags::NMI],                                 [0, 0],     ".pz.."),
        (&[Flags::LAZY_RESCHED],                                                [0, 0],     ".l..."),
        (&[Flags::LAZY_RESCHED, Flags::PREEMPT_RESCHED],                        [15, 15],   ".L.ff"),
        (&[Flags::LAZY_RESCHED, Flags::NEED_RESCHED],                           [0, 0],     ".b..."),
        (&[Flags::LAZY_RESCHED, Flags::NEED_RESCHED, Flags::PREEMPT_RESCHED],   [0, 0],     ".B..."),
        (&[Flags::NMI, Flags::HARD_INTERRUPT, Flags::TRUNCATED],                [0, 0],     "..Z.."),
    ];
    for (flags, [preemption, migration], expected) in cases {
        let mut record = record(0x10, 0, &[]);
        record.header.flags = flags.iter().fold(Flags::depths(*preemption, *migration), |all, flag| all.with(*flag));
        let line = as_text(&record, &format(false, &[]));
        assert!(line.contains(&alloc::format!(" [001] {expected}    ")), "{expected}: {line}");
    }
}

/// DV-4: the header equals Linux 6.1's, and its bars stand above the flags.
#[test]
fn the_header_equals_that_of_the_trace_file() {
    let header = trace::header(3, 5, 2, &[]);
    let lines: Vec<&str> = header.lines().collect();
    assert_eq!(lines[..4], ["# tracer: nop", "#", "# entries-in-buffer/entries-written: 3/5   #P:2", "#"]);
    assert_eq!(lines[10], "#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION");
    let context = as_text(&record(OPEN, 0, &[]), &format(false, &[]));
    assert_eq!(lines[10].find("|||||"), context.find("d...."), "the bars stand over the flags");
    assert!(header.ends_with("|         |\n"));
    assert_eq!(lines.len(), 12);
    let header = trace::header(3, 5, 2, &["TASK-PID", "migrate-disable"]);
    assert_eq!(header.lines().nth(4), Some("# not known on this kernel: TASK-PID; migrate-disable"));
    assert_eq!(header.lines().count(), 14);
}

/// DV-4: each record is one line of JSON that has every field.
#[test]
fn a_record_is_one_json_object_a_line() {
    let (record, format) = everything();
    let line = as_json(&record, &format);
    assert_eq!(line.matches('\n').count(), 1);
    let parsed: serde_json::Value = serde_json::from_str(&line).expect("the line is JSON");
    let expected = serde_json::json!({
        "time_ns": 12_345_678_499_u64, "cpu": 1, "pid": 42, "comm": "cat", "group": "files", "event": "open",
        "ip": "0x81000004", "symbol": "do_open+0x4/0x100", "interrupts_off": true,
        "args": {
            "u": 200, "s": -2, "x": "0x100", "sym": "jiffies+0x4/0x8", "in": "ext4_sync+0x4/0x40 [ext4]", "odd": "0x1234",
            "text": "a \"\n", "bad": null, "a": ["0x0", "0x1", "0xff"], "b": ["hi", null],
        },
    });
    assert_eq!(parsed, expected);
}

/// DV-4: a JSON line is stable byte for byte, for programs that search it as text.
#[test]
fn a_json_line_is_stable_byte_for_byte() {
    let (record, format) = everything();
    let expected = concat!(
        r#"{"time_ns":12345678499,"cpu":1,"pid":42,"comm":"cat","group":"files","event":"open","ip":"0x81000004","#,
        r#""symbol":"do_open+0x4/0x100","interrupts_off":true,"args":{"u":200,"s":-2,"x":"0x100","sym":"jiffies+0x4/0x8","#,
        r#""in":"ext4_sync+0x4/0x40 [ext4]","odd":"0x1234","text":"a \"\n","bad":null,"a":["0x0","0x1","0xff"],"b":["hi",null]}}"#,
        "\n"
    );
    assert_eq!(as_json(&record, &format), expected);
}

/// DV-4: JSON of returns and of truncated records.
#[test]
fn json_shows_return_address_and_truncation() {
    let mut record = record(OPEN, 0x8100_0108, &[]);
    record.header.flags = Flags::TRUNCATED;
    let parsed: serde_json::Value = serde_json::from_str(&as_json(&record, &format(true, &[]))).expect("the line is JSON");
    assert_eq!(parsed["return_ip"], "0x81000108");
    assert_eq!(parsed["return_symbol"], "padded+0x8/0x80");
    assert_eq!(parsed["truncated"], true);
    assert_eq!(parsed["interrupts_off"], false);
}

proptest::proptest! {
    /// DV-4: a string of any bytes gives valid JSON with the same text.
    #[test]
    fn any_string_is_json(text: Vec<u8>) {
        let text = &text[..text.len().min(1000)];
        let payload = [&(text.len() as u16).to_le_bytes(), text].concat();
        let line = as_json(&record(0, 0, &payload), &format(false, &[field("t", Stored::String, None)]));
        let parsed: serde_json::Value = serde_json::from_str(&line).expect("the line is JSON");
        proptest::prop_assert_eq!(parsed["args"]["t"].as_str(), Some(&*String::from_utf8_lossy(text)));
    }

    /// DV-4: a payload that does not fit the format is still printed.
    #[test]
    fn any_payload_is_printed(payload: Vec<u8>) {
        let (record, format) = (record(0, 0, &payload), everything().1);
        let parsed: Result<serde_json::Value, _> = serde_json::from_str(&as_json(&record, &format));
        proptest::prop_assert!(parsed.is_ok());
        let printed = as_text(&record, &format).contains("open: (0x0) u=");
        proptest::prop_assert!(printed);
    }
}

/// DV-4, BY-1: call chains are printed as by ftrace's option `stacktrace`. Guessed frames are marked.
#[test]
fn stacks_are_printed_below_their_records() {
    let mut ring = Ring::with_capacity(1 << 13);
    let header = record(OPEN, 0, &[]).header;
    let frames = [OPEN, JIFFIES + 2, 0x77].map(|address| Frame { address, ..Frame::default() });
    ring.push(&header, |payload| {
        payload.put(&7_u32.to_le_bytes());
        put_stack(payload, &frames);
    });
    let made = ring.pop().expect("a record");
    let mut of = format(false, &[field("n", Stored::Integer(4, Style::Unsigned), None)]);
    of.stack = Some(Stack { is_guessed: false });
    let text = as_text(&made, &of);
    let lines: Vec<&str> = text.lines().collect();
    let name = |address| symbol_at(address).map(|symbol| symbol.name).unwrap_or_default();
    assert!(lines[0].ends_with(" n=7"), "{text}");
    let (context, stack) = lines[1].split_at(lines[1].find("<stack trace>").expect("a stack"));
    assert!(lines[0].starts_with(context) && stack == "<stack trace>", "{text}");
    assert_eq!(
        lines[2..],
        [&*alloc::format!(" => {}", name(OPEN)), &*alloc::format!(" => {}", name(JIFFIES)), " => 0x77"],
        "{text}"
    );
    assert!(as_json(&made, &of).ends_with(",\"0x77\"]}\n"), "{}", as_json(&made, &of));

    of.stack = Some(Stack { is_guessed: true });
    let guessed = as_text(&made, &of);
    assert!(guessed.contains(&alloc::format!("\n => {}\n => ? ", name(OPEN))), "{guessed}");
    assert!(as_json(&made, &of).ends_with("],\"stack_is_guessed\":true}\n"));

    // If the values leave no room, the stack is cut and the record is marked.
    ring.push(&header, |payload| {
        payload.put(&[0; LARGEST_PAYLOAD - 20]);
        put_stack(payload, &frames);
    });
    let full = ring.pop().expect("a record");
    assert!(full.header.flags.contains(Flags::TRUNCATED));
    let mut values = format(false, &[]);
    values.stack = Some(Stack { is_guessed: false });
    let whole = Record { payload: full.payload[LARGEST_PAYLOAD - 20..].to_vec(), ..full };
    assert_eq!(as_text(&whole, &values).lines().count(), 4);
}
