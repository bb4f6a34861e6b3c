//! The output files for other programs. trace-cmd reads our trace.dat and prints the same text, Perfetto's own classes
//! read our packets, and CSV, folded stacks and block coverage agree with the records.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};
use trapline::outputs::tracedat::TraceDat;
use trapline::outputs::{About, End, Seen, Sink};
use trapline_harness::{self as harness, Folder, Test, guests, python, python_module, tests, tool};
use trapline_probes::events::format::{Field, Format};
use trapline_probes::events::set::EventSet;
use trapline_probes::events::types::{Stored, Style};
use trapline_probes::guest::Symbol;
use trapline_probes::records::{EventId, Flags, Header, Record};

/// Every kind of value, in entries and returns.
const EVENTS: [&str; 5] = [
    "p:files/all vfs_read a=$arg1:x8 b=$arg2:u16 c=$arg3:s32 d=$arg1 e=$arg1:symbol f=$arg2:symstr g=$comm",
    "p:open do_sys_open path=+0($arg1):ustring bad=+0(\\0):string both=+0($arg1):x8[2] flags=$arg2:u64",
    "r:done vfs_read n=$retval:s64 x=$retval:x16",
    "p:files/text do_sys_open names=+0($stack):u8[3] t=\\\"a;b\\\":string",
    "p:fork do_fork",
];

fn trapline(args: &[&str]) -> (String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_trapline")).args(args).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let (out, err) = (text(output.stdout), text(output.stderr));
    assert_eq!(output.status.code(), Some(0), "{args:?}: {err}");
    (out, err)
}

/// The events that this guest can have.
fn events() -> Vec<&'static str> {
    EVENTS.iter().flat_map(|event| ["-e", *event]).collect()
}

fn said(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output().unwrap();
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{program} {args:?}: {err}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A line of either program: CPU, time in microseconds, event and values. The sizes of functions are in our text only.
type Line = (u32, String, String);

fn sizes_cut(text: &str) -> String {
    let mut parts = text.split("+0x");
    let mut cut = parts.next().unwrap_or_default().to_string();
    for part in parts {
        let end = part.find(|letter: char| !letter.is_ascii_hexdigit()).unwrap_or(part.len());
        let behind = part[end..]
            .strip_prefix("/0x")
            .map_or(&part[end..], |size| &size[size.find(|letter: char| !letter.is_ascii_hexdigit()).unwrap_or(size.len())..]);
        cut += &format!("+0x{}{behind}", &part[..end]);
    }
    cut
}

/// The lines of our text. Backtraces are lines of their record.
fn of_ours(text: &str) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        if let Some(frame) = line.strip_prefix(" => ") {
            lines.last_mut().unwrap().2 += &format!(" => {}", frame.trim_start_matches("? ").trim_start_matches("0x"));
            continue;
        }
        let (head, rest) = line.split_once("] ").unwrap();
        let cpu = head.rsplit('[').next().unwrap().parse().unwrap();
        let (time, what) = rest[5..].trim_start().split_once(": ").unwrap();
        lines.push((cpu, time.to_string(), sizes_cut(what)));
    }
    lines
}

/// The lines of `trace-cmd report -t`, which has nanoseconds.
fn of_trace_cmd(text: &str) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with("cpus=")) {
        if let Some(frame) = line.strip_prefix("=> ") {
            let name = frame.split(" (").next().unwrap().split('+').next().unwrap();
            lines.last_mut().unwrap().2 += &format!(" => {}", name.trim());
            continue;
        }
        let (head, rest) = line.split_once("] ").unwrap_or_else(|| panic!("{line}"));
        let cpu = head.rsplit('[').next().unwrap().parse().unwrap();
        let (time, what) = rest.trim_start().split_once(": ").unwrap();
        let (seconds, nanoseconds) = time.split_once('.').unwrap();
        let total = seconds.parse::<u64>().unwrap() * 1_000_000_000 + nanoseconds.parse::<u64>().unwrap();
        let microseconds = (total + 500) / 1000;
        let time = format!("{}.{:06}", microseconds / 1_000_000, microseconds % 1_000_000);
        let (event, values) = what.split_once(':').unwrap();
        // A string field has quotes whatever it holds.
        let values = values.replace("=\"(fault)\"", "=(fault)");
        let what = if event == "kernel_stack" { "<stack trace>".into() } else { format!("{event}: {}", values.trim_start()) };
        lines.push((cpu, time, sizes_cut(&what)));
    }
    lines
}

/// DV-4: trace-cmd prints every record of our text with all its values, without any knowledge of trapline.
fn trace_cmd_prints_our_text(guest: &'static str) {
    let room = Folder::new(guest);
    let (dat, text) = (room.file("a.dat"), room.file("a.txt"));
    for more in [&[][..], &["--cpus", "2"], &["--stacktrace"]] {
        if more.contains(&"2") && !matches!(guest, "tiny/x86_64" | "tiny/i386") {
            continue;
        }
        let args = [&["run", guest, "-q", "--summary", "none", "--out", &dat, "--out", &text][..], more, &events()].concat();
        trapline(&args);
        let mut ours = of_ours(&fs::read_to_string(&text).unwrap());
        let mut theirs = of_trace_cmd(&said("trace-cmd", &["report", "-t", "-i", &dat]));
        assert!(ours.len() > 300, "{guest}: {}", ours.len());
        ours.sort();
        theirs.sort();
        let differ = ours.iter().zip(&theirs).find(|(one, other)| one != other);
        assert_eq!(differ, None, "{guest} {more:?}");
        assert_eq!(ours.len(), theirs.len(), "{guest} {more:?}");
    }
}

/// The records of a synthetic run, as trace-cmd prints them.
fn reported(room: &Folder, about: &About, records: impl FnOnce(&mut dyn FnMut(u16, u64, &[u8]), &dyn Fn(u64))) -> String {
    let file = room.file("made.dat");
    let to = fs::File::create(&file).unwrap();
    let sink = std::cell::RefCell::new(Box::new(TraceDat::new(std::io::BufWriter::new(to), about.clone())));
    let fields = vec![
        Field { name: "text".into(), stored: Stored::String, count: None },
        Field { name: "number".into(), stored: Stored::Integer(2, Style::Signed), count: None },
    ];
    let format = Format {
        group: "made".into(),
        event: "up".into(),
        returns: false,
        mirrors: false,
        in_program: false,
        fields,
        stack: None,
    };
    let base = if about.word == 8 { 0xffff_ffff_8100_0000 } else { 0xc010_0000 };
    let symbol = move |address: u64| {
        Some(Symbol { name: "start".into(), start: base, size: 0x1000, module: None }).filter(|_| address >= base)
    };
    let mut add = |cpu: u16, time: u64, text: &[u8]| {
        let mut payload = (text.len() as u16).to_le_bytes().to_vec();
        payload.extend_from_slice(text);
        payload.extend_from_slice(&(-2_i16).to_le_bytes());
        let comm = *b"cat\0\0\0\0\0\0\0\0\0\0\0\0\0";
        let header = Header { event: EventId(3), cpu, flags: Flags::NONE, pid: 42, comm, time, ip: base + 16, return_ip: 0 };
        let record = Record { header, payload };
        let seen = Seen { record: &record, format: &format, events: &EventSet::default(), symbols: &symbol, lines: None };
        sink.borrow_mut().record(&seen).unwrap();
    };
    records(&mut add, &|count| sink.borrow_mut().lost(count).unwrap());
    let symbols = || symbol(base).into_iter().collect();
    let end = End { shown: 0, made: 0, time: 0, cpus: about.cpus, unknown: &[], events: &EventSet::default(), symbols: &symbols };
    sink.into_inner().finish(&end).unwrap();
    said("trace-cmd", &["report", "-t", "-i", &file])
}

/// DV-4: long gaps, long strings, full pages, CPUs without records and lost records, in every byte order and word size.
fn trace_cmd_reads_every_form_of_page() {
    let room = Folder::new("pages");
    for (word, big_endian) in [(8, false), (8, true), (4, false), (4, true)] {
        let about = About { word, big_endian, isa: "any", cpus: 3 };
        let mut expected = Vec::new();
        let report = reported(&room, &about, |add, lost| {
            let mut time = 5;
            for number in 0..2000_u64 {
                // Deltas of 27 bits and more, records of all sizes about the limit of short ones, and a few large ones.
                time += if number % 97 == 0 { (1 << 27) - 1 + number % 3 } else { 1 + number % 7 };
                time += if number == 500 { 10_000_000_000 } else { 0 };
                let length = if number % 150 == 0 { 3000 } else { number as usize % 130 };
                let text = vec![b'a' + (number % 26) as u8; length];
                if number == 1000 {
                    lost(7);
                }
                let cpu = if number % 2 == 0 { 0 } else { 2 };
                add(cpu, time, &text);
                expected.push(format!("{cpu} {time} {}", String::from_utf8(text).unwrap()));
            }
            lost(2);
            // This one fits in no page.
            add(0, time + 1, &[b'x'; 4090]);
        });
        let found = report.lines().filter_map(|line| {
            let (head, rest) = line.split_once("] ")?;
            let (time, what) = rest.trim().split_once(':')?;
            let text = what.split_once("(start+0x10) text=\"")?.1.strip_suffix("\" number=-2")?;
            let cpu = head.rsplit('[').next()?.parse::<u32>().ok()?;
            Some(format!("{cpu} {} {text}", time.replace('.', "").trim_start_matches('0')))
        });
        let found: Vec<String> = found.collect();
        assert_eq!(found.len(), expected.len(), "word {word}, big-endian {big_endian}: {}", &report[..2000.min(report.len())]);
        assert_eq!(found.iter().zip(&expected).find(|(one, other)| one != other), None, "word {word}, big-endian {big_endian}");
        assert!(report.contains("CPU:0 [7 EVENTS DROPPED]"), "word {word}, big-endian {big_endian}");
    }
}

/// Reads a trace with Perfetto's classes and prints a line of JSON for each packet.
const PACKETS: &str = "
import json, sys
from google.protobuf.json_format import MessageToDict
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace
trace = Trace()
data = open(sys.argv[1], 'rb').read()
trace.ParseFromString(data)
def unknown(message):
    from google.protobuf import unknown_fields
    return len(unknown_fields.UnknownFieldSet(message))
assert sum(unknown(p) + unknown(p.track_event) + unknown(p.track_descriptor) for p in trace.packet) == 0
for packet in trace.packet:
    print(json.dumps(MessageToDict(packet)))
";

fn packets(file: &str) -> Vec<Value> {
    let program = python("perfetto").unwrap();
    let text = said(program.to_str().unwrap(), &["-c", PACKETS, file]);
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn number(value: &Value) -> u64 {
    value.as_u64().or_else(|| value.as_str()?.parse().ok()).unwrap_or_else(|| panic!("no number: {value}"))
}

/// DV-4: Perfetto's own classes read all packets. A call with both probes is a slice with its arguments and its result.
/// Slices nest, each one ends, and CPUs show their tasks.
fn perfetto_reads_all_packets(guest: &'static str) {
    let room = Folder::new(&format!("perfetto-{guest}"));
    let (file, json) = (room.file("a.perfetto"), room.file("a.json"));
    let lines = [
        "p:files/read vfs_read count=$arg3:u32",
        "r:files/done vfs_read n=$retval:s32",
        "p:open do_sys_open path=+0($arg1):ustring",
        "r:fib fibonacci",
        "p fibonacci",
        "p:again fibonacci n=$arg1:s8",
        "p:sched_switch schedule",
    ];
    let events: Vec<&str> = lines.iter().flat_map(|line| ["-e", line]).collect();
    trapline(
        &[&["run", guest, "-q", "--summary", "none", "--out", &file, "--out", &json, "--format", "json"][..], &events].concat(),
    );
    let records: Vec<Value> =
        fs::read_to_string(&json).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |name: &str| records.iter().filter(|record| record["event"] == name).count();
    let packets = packets(&file);

    let mut open: BTreeMap<u64, Vec<(String, u64)>> = BTreeMap::new();
    let (mut begun, mut ended, mut instants) = (BTreeMap::new(), 0, BTreeMap::new());
    let mut results = 0;
    for packet in packets.iter().filter(|packet| packet["trackEvent"]["type"] != "TYPE_COUNTER") {
        let (event, time) = (&packet["trackEvent"], &packet["timestamp"]);
        let Some(kind) = event["type"].as_str() else { continue };
        let name = event["name"].as_str().unwrap_or_default().to_string();
        let track = open.entry(number(&event["trackUuid"])).or_default();
        match kind {
            "TYPE_SLICE_BEGIN" => {
                *begun.entry(name.clone()).or_insert(0) += 1;
                track.push((name, number(time)));
            }
            "TYPE_SLICE_END" => {
                let (_, start) = track.pop().expect("a slice is open");
                assert!(number(time) >= start);
                ended += 1;
                results += usize::from(event["debugAnnotations"].to_string().contains("\"returns to\""));
            }
            _ => *instants.entry(name).or_insert(0) += 1,
        }
    }
    assert!(open.values().all(Vec::is_empty), "{guest}: slices stay open");
    let sum: usize = begun.values().sum();
    assert_eq!(sum, ended, "{guest}");
    assert_eq!(begun.get("vfs_read"), Some(&of("read")), "{guest}: {begun:?}");
    assert_eq!(begun.get("fibonacci"), Some(&of("p_fibonacci_0")), "{guest}: {begun:?}");
    let second = ["again", "p_fibonacci_0"].iter().filter_map(|name| instants.get(*name)).sum::<usize>();
    assert_eq!(second, of("again"), "{guest}: a second probe of the entry makes no slice: {instants:?}");
    assert_eq!(instants.get("open"), Some(&of("open")), "{guest}: {instants:?}");
    assert_eq!(
        results + instants.get("fib").unwrap_or(&0) + instants.get("done").unwrap_or(&0),
        of("done") + of("fib"),
        "{guest}"
    );
    assert!(results > 100, "{guest}: {results}");

    let switches: Vec<&Value> =
        packets.iter().filter_map(|packet| packet["ftraceEvents"]["event"].as_array()).flatten().collect();
    assert_eq!(switches.len() + 1, of("sched_switch"), "{guest}: the first one has no task before it");
    for pair in switches.windows(2) {
        assert_eq!(pair[0]["schedSwitch"]["nextPid"], pair[1]["schedSwitch"]["prevPid"], "{guest}");
    }
    let hits: f64 = packets.iter().filter_map(|packet| packet["trackEvent"]["counterValue"].as_str()?.parse::<f64>().ok()).sum();
    assert_eq!(hits as usize, records.len(), "{guest}: the counters count every hit");
}

/// DV-4: a CSV row has the same values as the JSON record.
fn csv_has_a_column_for_each_argument() {
    let room = Folder::new("csv");
    let (csv, json) = (room.file("a.csv"), room.file("a.jsonl"));
    let lines = [
        "-e",
        "p:read vfs_read count=$arg3:u32",
        "-e",
        "r:done vfs_read n=$retval:s32",
        "-e",
        "p:open do_sys_open path=+0($arg1):ustring,",
    ];
    let lines: Vec<&str> = lines.iter().map(|line| line.trim_end_matches(',')).collect();
    let at = ["--at", "300us", "p:late vfs_write bytes=$arg3:u32 count=$arg3:x32"];
    trapline(&[&["run", "-q", "--summary", "none", "--out", &csv, "--out", &json, "--format", "json"][..], &lines, &at].concat());
    let text = fs::read_to_string(&csv).unwrap();
    let mut rows = text.lines();
    let header: Vec<&str> = rows.next().unwrap().split(',').collect();
    assert_eq!(header[11..], ["count", "n", "path", "more"]);
    let records: Vec<Value> =
        fs::read_to_string(&json).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let rows: Vec<Vec<&str>> = rows.map(|row| row.split(',').collect()).collect();
    assert_eq!(rows.len(), records.len());
    assert!(records.iter().any(|record| record["event"] == "late"));
    let column = |row: &[&str], name: &str| row[header.iter().position(|title| *title == name).unwrap()].to_string();
    for (row, record) in rows.iter().zip(&records) {
        assert_eq!(row.len(), header.len(), "{row:?}");
        for name in ["time_ns", "cpu", "pid", "comm", "event", "ip", "symbol"] {
            let value = record[name].as_str().map_or_else(|| record[name].to_string(), str::to_string);
            assert_eq!(column(row, name), value, "{name}: {row:?}");
        }
        for name in ["count", "n", "path"] {
            let value = &record["args"][name];
            let unreadable = if record["args"].get(name).is_some() { "(fault)" } else { "" };
            let value = value
                .as_str()
                .map_or_else(|| if value.is_null() { unreadable.into() } else { value.to_string() }, str::to_string);
            assert_eq!(column(row, name), value, "{name}: {row:?}");
        }
        if record["event"] == "late" {
            assert_eq!(column(row, "more"), format!("bytes={}", record["args"]["bytes"]), "{row:?}");
        }
    }
    // Without a record, too.
    let never = ["-e", "p:never vfs_read a=$arg1 b=$arg2"];
    trapline(&[&["run", "-q", "--summary", "none", "--until", "1us", "--out", &csv][..], &never].concat());
    let text = fs::read_to_string(&csv).unwrap();
    assert!(text.ends_with(",interrupts_off,a,b,more\n") && text.lines().count() == 1, "{text}");
}

/// DV-4: the counts of the stacks add up to the number of records, and the flame graph has the same functions.
fn stacks_add_up() {
    let room = Folder::new("stacks");
    let (folded, svg, json) = (room.file("a.folded"), room.file("a.svg"), room.file("a.jsonl"));
    let args = [
        "run",
        "-q",
        "--summary",
        "none",
        "-e",
        "p vfs_read",
        "-e",
        "p:f fibonacci",
        "--out",
        &folded,
        "--out",
        &json,
        "--format",
        "json",
    ];
    trapline(&[&args[..], &["--flame", &svg]].concat());
    let mut counted: BTreeMap<String, u64> = BTreeMap::new();
    for line in fs::read_to_string(&json).unwrap().lines() {
        let record: Value = serde_json::from_str(line).unwrap();
        let guess = if record["stack_is_guessed"] == true { "? " } else { "" };
        let frames = record["stack"].as_array().unwrap().iter().enumerate().rev();
        let frames = frames.map(|(depth, frame)| {
            let name = frame.as_str().unwrap().split('+').next().unwrap();
            format!(";{}{name}", if depth > 0 { guess } else { "" })
        });
        let stack = format!("{}{}", record["comm"].as_str().unwrap(), frames.collect::<String>());
        *counted.entry(stack).or_insert(0) += 1;
    }
    let text = fs::read_to_string(&folded).unwrap();
    let found: BTreeMap<String, u64> = text
        .lines()
        .map(|line| line.rsplit_once(' ').unwrap())
        .map(|(stack, count)| (stack.into(), count.parse().unwrap()))
        .collect();
    assert_eq!(found, counted);
    assert!(found.len() > 10 && found.values().sum::<u64>() > 300, "{}", found.len());
    let picture = fs::read_to_string(&svg).unwrap();
    let names: BTreeSet<&str> = found.keys().flat_map(|stack| stack.split(';')).collect();
    assert!(picture.contains(&format!("all ({} records, 100.00%)", found.values().sum::<u64>())));
    assert!(names.iter().all(|name| picture.contains(&format!("<title>{} (", name.replace('<', "&lt;").replace('>', "&gt;")))));
}

/// A drcov file: the modules and the covered bytes, by address.
fn covered(file: &str) -> (Vec<String>, BTreeSet<u64>, usize) {
    let bytes = fs::read(file).unwrap();
    let mark = b"BB Table: ";
    let at = bytes.windows(mark.len()).position(|part| part == mark).unwrap();
    let head = String::from_utf8(bytes[..at].to_vec()).unwrap();
    let end = at + bytes[at..].iter().position(|byte| *byte == b'\n').unwrap() + 1;
    let count: usize =
        String::from_utf8_lossy(&bytes[at + mark.len()..end]).trim().strip_suffix(" bbs").unwrap().parse().unwrap();
    let mut lines = head.lines();
    assert_eq!(lines.next(), Some("DRCOV VERSION: 2"));
    let modules: Vec<String> = lines.skip(3).map(str::to_string).collect();
    let bases: Vec<u64> = modules
        .iter()
        .map(|line| u64::from_str_radix(line.split(", ").nth(1).unwrap().trim().strip_prefix("0x").unwrap(), 16).unwrap())
        .collect();
    assert_eq!(bytes.len() - end, 8 * count);
    let mut all = BTreeSet::new();
    for entry in bytes[end..].chunks_exact(8) {
        let start = u32::from_le_bytes(entry[..4].try_into().unwrap());
        let len = u16::from_le_bytes([entry[4], entry[5]]);
        let id = u16::from_le_bytes([entry[6], entry[7]]);
        all.extend((0..u64::from(len)).map(|byte| bases[usize::from(id)] + u64::from(start) + byte));
    }
    (modules, all, count)
}

/// DV-4, BY-4: coverage takes no guest time, contains exactly the functions that ran, and is the same with probes.
fn coverage_has_what_ran(guest: &'static str) {
    let room = Folder::new(&format!("coverage-{guest}"));
    let (plain, probed) = (room.file("plain"), room.file("probed"));
    let none = room.file("none");
    let console = |args: &[&str]| {
        trapline(&[&["run", guest, "--out", &none][..], args].concat())
            .0
            .split("\nthe guest powered off")
            .next()
            .unwrap()
            .to_string()
    };
    let bare = console(&["-e", "# nothing"]);
    assert_eq!(console(&["-e", "# nothing", "--coverage", &plain]), bare, "{guest}: the console and its times are the same");
    let probes = ["-e", "p vfs_read", "-e", "r vfs_write", "-e", "p schedule", "-e", "p tcp_v4_rcv"];
    assert_eq!(console(&[&probes[..], &["--coverage", &probed]].concat()), bare, "{guest}: with probes, too");
    let (modules, without, count) = covered(&plain);
    assert!(modules.len() == 1 && modules[0].ends_with("vmlinux") && count > 300, "{guest}: {modules:?} {count}");
    let (_, with, _) = covered(&probed);
    let missing: Vec<String> = without.difference(&with).take(8).map(|byte| format!("{byte:#x}")).collect();
    assert!(missing.is_empty(), "{guest}: covered without probes only: {missing:x?}");
    let more = with.difference(&without).count();
    assert_eq!(more, 0, "{guest}: {more} bytes are covered with probes only");

    let symbols = trapline(&["symbols", guest, "*"]).0;
    let address = |name: &str| {
        let line =
            symbols.lines().find(|line| line.split_whitespace().any(|word| word == name)).unwrap_or_else(|| panic!("{name}"));
        u64::from_str_radix(line.split_whitespace().next().unwrap(), 16).unwrap()
    };
    for ran in ["vfs_read", "schedule", "do_fork", "tcp_v4_rcv"] {
        // On 64-bit PowerPC, callers of the same module enter a function behind its first two instructions.
        let start = address(ran) & !1;
        assert!((start..start + 12).any(|at| without.contains(&at)), "{guest}: {ran} ran");
    }
    assert!(!without.contains(&(address("panic") & !1)), "{guest}: nothing has panicked");
}

/// DV-4: binary formats cannot go to standard output, and a file that cannot be created is an error before the guest
/// boots.
fn files_are_checked_first() {
    let cases: [(&[&str], &str); 4] = [
        (&["--format", "dat"], "--out trace.dat"),
        (&["--format", "perfetto"], "--out trace.dat"),
        (&["--coverage", "/nowhere/at/all"], "/nowhere/at/all"),
        (&["--flame", "/nowhere/a.svg", "-q"], "/nowhere/a.svg"),
    ];
    for (args, words) in cases {
        let output = Command::new(env!("CARGO_BIN_EXE_trapline")).arg("run").args(args).output().unwrap();
        let err = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{args:?}: {err}");
        assert!(err.contains(words), "{args:?}: {err}");
    }
}

fn each(name: &str, need: impl Fn() -> Option<harness::Need>, test: fn(&'static str)) -> Vec<Test> {
    let of = |guest: &'static str| {
        let test = Test::new(harness::member(name, guest), move || test(guest));
        match need() {
            Some(need) => test.needs(need),
            None => test,
        }
    };
    guests::tiny().map(of).collect()
}

fn main() -> ExitCode {
    let trace_cmd = || Some(tool("trace-cmd", "trace-cmd"));
    let perfetto = || Some(python_module("perfetto"));
    assert!(Path::new(env!("CARGO_BIN_EXE_trapline")).exists());
    let pages = Test::new("trace_cmd_reads_every_form_of_page", trace_cmd_reads_every_form_of_page);
    harness::run([
        each("trace_cmd_prints_our_text", trace_cmd, trace_cmd_prints_our_text),
        vec![pages.needs(tool("trace-cmd", "trace-cmd"))],
        each("perfetto_reads_all_packets", perfetto, perfetto_reads_all_packets),
        each("coverage_has_what_ran", || None, coverage_has_what_ran),
        tests![csv_has_a_column_for_each_argument, stacks_add_up, files_are_checked_first],
    ])
}
