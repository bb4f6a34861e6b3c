//! Measures what a hit costs with each mechanism, and writes docs/overhead.md and its plots, docs/bench/*.svg:
//! `cargo run -p trapline-benches --bin overhead`. Tables that other programs of this package measure are taken over
//! from the old file. The constants are the document's text.

use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;
use trapline::overhead::arming::{Probes, Row, rows};
use trapline::overhead::records::{FORMATS, Recorded};
use trapline::overhead::table::Measurement;
use trapline::overhead::{document, guests};
use trapline_benches::{section, user_time};

const ROUNDS: u32 = 15;

const HEAD: &str = "\
# What a hit costs

This file is written by `cargo run -p trapline-benches --bin overhead` (part of `make bench`). `trapline bench --table` prints the same tables,
`--json` the figures.

The tiny kernel calls an empty function in a loop. Each mechanism probes that function in turn, for the same virtual time, with empty handlers. The
time of the loop without a probe is subtracted. The letters are those of Linux's kprobes document: k kprobe (breakpoint, step, both handlers), b
boosted, o optimised, j jprobe, r return probe, rb and ro return probes with such an entry, kr and jr two probes at once. The document's figures, for
hardware of its time, are shown beside ours. Compare ratios, and rows of one table: the times depend on the computer.

criterion times other handlers (reading 1 and 16 registers, counting in a map, an event with two arguments) with every mechanism, and one of 1 to
100,000 armed probes, beside hooks and traps of the bare CPU core. `make bench` writes its report to `target/criterion/report/index.html`.

`make budget` limits the host instructions per hit (`benches/budgets.tsv`), and those of a guest without probes: per instruction of short blocks and
of loads and stores, per system call, per address space switch.
";

const WHY: &str = "\
## Why it is not more

- One comparison separates the guest's own blocks from those in the probe window (`emu/src/machine/gate.rs`). Window
  blocks go to a function pointer that is replaced when a special state begins (`emu/src/machine/blocks.rs`), so a hit
  does not test for such states.
- A detour holds the number of its point, so its hit needs no lookup. If one probe stands there and no special state is
  active, the engine has that probe at hand (`Points::lone` in `probes/src/point.rs`, fast paths in `probes/src/hit.rs`).
- Each unit of the window is stored in the form in which the clock reads detours. Other uses have an end address that no
  block reaches (`emu/src/probed/window.rs`).
- A followed return takes no trap if the ISA has an instruction for the pad (`Detour::return_pad`): the pad is then the
  start of a block, like a detour. The most recent task is found without hashing (`probes/src/instances.rs`).
- Guest memory is read through the core's TLB (`emu/src/unicorn/live.rs`); page tables are walked only on a TLB miss.
- The window's page-table entry is written only if the core has not fetched from that page since the last change of
  address space (`emu/src/machine/fetched.rs`).
- A hit takes no lock, allocates nothing and looks up at most one hash: `probes/tests/alloc.rs` counts allocations for
  every kind of hit.
- A point with one probe has 144 bytes; rare data is in a separate allocation (`probes/src/point.rs`). With the probe's
  own object it is less than 300 bytes (`emu/tests/arming_memory.rs`).

";

const ARMING: &str = "\
## Arming

The guests have many functions of one block each (`cargo run -p trapline-benches --bin arming`; with `--check` it fails if a goal is missed). The
table shows CPU time per probe, wall-clock time in brackets, and host memory per probe: its object, its point and all tables, without the guest's
memory. The goals for 100,000 probes in one batch are 10 us and 300 bytes each. The optimizer scans the guest's memory once per batch, which makes a
single probe expensive. 32-bit ARM stops at 80,000: the window must be in branch reach of the kernel and has 8 MiB there.

";

const RECORDS: &str = "
## Records

The time of one record of an event with two arguments, from the ring buffer to text, in addition to its hit (`cargo run -p trapline-benches --bin
overhead records`; medians). Host instructions are in `benches/budgets.tsv`.

";

/// Guest time for about a thousand records, which fit into the ring. In nanoseconds.
const RECORDED: u64 = 20_000;

const MACHINES: &str = "\
## Whole machines

Written by `cargo run -p trapline-benches --bin machine -- --write`. Each stock kernel on the computer boots to busybox, runs a script of one line
and powers off. QEMU (`-accel tcg`) runs the same kernel, initial file system and command line. The two alternate, each in its own process. The table
shows medians of user time, with loading, symbols and (on x86, and s390x under QEMU) decompression of the kernel. Armed probes are in functions that
the boot rarely runs. Guest seconds are virtual: sleep costs no host time. Instructions are executed bytes divided by the mean instruction length,
which is sampled each guest millisecond.

";

const WORKS: &str = "
Workloads in such a guest, measured by the same program: user seconds of each workload alone, between two lines on the guest's console. In each round
each contestant boots once and runs all workloads in sequence. During development, `cargo run -p trapline-benches --bin machine -- --only amd64
--work syscalls,pipe` measures some of them, and `--beside PROGRAM` compares with another build of the program.

";

const TIME: &str = "
The cost of exact virtual time, in host instructions per guest nanosecond of the tiny kernel's loop of short blocks: in total, and in the callback of
blocks that do not count themselves (in the window, or when something is due). Counted by callgrind, and written by `cargo run -p trapline-benches
--bin virtual_time -- --write`. A block that counts itself starts with about eight instructions for that (`emu/src/unicorn/translator/loop.c`).

";

const GUESTS_OWN: &str = "
## The same kernel's own kprobes, under QEMU

For comparison: the cost of a hit of the guest's own kprobes, when Debian's kernel 6.1 for amd64 runs under QEMU's TCG. An early measurement gave
1.0 us for a plain kprobe, 0.14 us for an optimised one, and 0.43 us for a return probe on an ftrace site. The table is measured with the handler of a
kprobe event whose records are disabled, in three rounds: QEMU's user time between lines on the console, minus that of the same reads without a probe;
medians. It is written by `cargo run -p trapline-benches --bin guest_kprobes -- --write`, which needs qemu-system-x86_64:

";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => write_all(),
        ["guest", guest] => write_guest(guest).map(|section| print!("{section}")),
        ["records"] => records_table().map(|table| print!("{table}")),
        // A child process measures each row of the arming table.
        ["row", guest, count, how] => {
            Probes::read([guest, count, how]).and_then(Row::measure).map(|row| println!("{}", row.line()))
        }
        _ => Err("usage: overhead, overhead guest GUEST for its section and plot alone, or overhead records".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("overhead: {why}");
            ExitCode::FAILURE
        }
    }
}

fn docs() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs")
}

fn write(name: &str, text: &str) -> Result<(), String> {
    let file = docs().join(name);
    std::fs::write(&file, text).map_err(|error| format!("{}: {error}", file.display()))
}

/// Writes the plot of a guest and returns its section of the document.
fn write_guest(guest: &str) -> Result<String, String> {
    let name = guest.trim_start_matches("tiny/");
    let measured = Measurement::of(guest, ROUNDS)?;
    std::fs::create_dir_all(docs().join("bench")).map_err(|error| error.to_string())?;
    write(&format!("bench/{name}.svg"), &plot(guest, &measured))?;
    Ok(table_of(guest, name, &measured))
}

fn write_all() -> Result<(), String> {
    let mut text = String::from(HEAD);
    for guest in guests() {
        text.push_str(&write_guest(guest)?);
    }
    text.push('\n');
    text.push_str(WHY);
    text.push_str(ARMING);
    text.push_str(&arming_table()?);
    text.push_str(RECORDS);
    text.push_str(&records_table()?);
    text.push('\n');
    let [machine, works, time, guests_own] = ["machine", "works", "virtual-time", "guest-kprobes"].map(section::kept);
    text.push_str(&[MACHINES, &machine, WORKS, &works, TIME, &time, GUESTS_OWN, &guests_own].concat());
    write("overhead.md", &text)
}

fn arming_table() -> Result<String, String> {
    let this = std::env::current_exe().map_err(|error| error.to_string())?;
    let row = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let mut text = row(&Row::HEADINGS.map(String::from));
    text.push_str(&row(&Row::HEADINGS.map(|_| "---".into())));
    for of in rows() {
        text.push_str(&row(&Row::measured_by(&this, "row", of)?.cells(of)));
    }
    Ok(text)
}

fn records_table() -> Result<String, String> {
    let mut text = String::from("| guest | as | us a record |\n| --- | --- | --- |\n");
    for guest in guests() {
        for (name, format) in FORMATS {
            let mut recorded = Recorded::new(guest, *format)?;
            let turn = |_| {
                let made = recorded.make(RECORDED)?;
                let start = Instant::now();
                recorded.take()?;
                Ok(start.elapsed().as_secs_f64() * 1e6 / made as f64)
            };
            let times = (0..ROUNDS).map(turn).collect::<Result<Vec<f64>, String>>()?;
            let _ = writeln!(text, "| {guest} | {name} | {:.2} |", user_time::median(times));
        }
    }
    Ok(text)
}

fn table_of(guest: &str, name: &str, measured: &Measurement) -> String {
    let mut text = format!("\n## {guest}\n\nA call without a probe takes {:.1} ns.\n\n", measured.unprobed);
    let row = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    text.push_str(&row(&measured.headings()));
    text.push_str(&row(&vec!["---".to_string(); measured.headings().len()]));
    measured.lines().iter().for_each(|line| text.push_str(&row(line)));
    let shape = if measured.has_the_documents_shape() { "holds" } else { "does not hold" };
    let _ = write!(text, "\nThe shape of the document's tables (o < b < k, each return probe dearer than its kprobe) {shape}.\n");
    let _ = write!(text, "\n![ratios to k, ours and the document's](bench/{name}.svg)\n");
    text
}

/// A bar plot of each mechanism's cost as a ratio to k: ours first, then that in the kernel's document.
fn plot(guest: &str, measured: &Measurement) -> String {
    const COLOURS: [&str; 3] = ["#1f6feb", "#9aa4b2", "#c9b458"];
    const LEFT: f64 = 50.0;
    const TOP: f64 = 40.0;
    const BAR: f64 = 11.0;
    const LONGEST: f64 = 420.0;
    let sources = 1 + document::tables(measured.arch).count();
    let ratios = |letters: &str| -> Vec<Option<f64>> {
        let theirs = document::tables(measured.arch).map(|table| table.ratio(letters));
        std::iter::once(measured.ratio(letters)).chain(theirs).collect()
    };
    let all: Vec<(&str, Vec<Option<f64>>)> =
        measured.rows.iter().map(|row| (row.mechanism.letters, ratios(row.mechanism.letters))).collect();
    let most = all.iter().flat_map(|(_, ratios)| ratios).flatten().copied().fold(1.0, f64::max);
    let group = BAR * sources as f64 + 8.0;
    let height = TOP + group * all.len() as f64 + 20.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"600\" height=\"{height}\" font-family=\"sans-serif\" font-size=\"11\">\n\
         <text x=\"10\" y=\"18\" font-size=\"13\">{guest}: cost of a hit as a ratio to k; first bar ours, then the document's</text>\n"
    );
    for (number, (letters, ratios)) in all.iter().enumerate() {
        let top = TOP + group * number as f64;
        let _ = writeln!(svg, "<text x=\"20\" y=\"{:.1}\">{letters}</text>", top + BAR);
        for (place, ratio) in ratios.iter().enumerate() {
            let Some(ratio) = ratio else { continue };
            let (y, width, colour) = (top + BAR * place as f64, ratio / most * LONGEST, COLOURS[place % COLOURS.len()]);
            let _ = writeln!(
                svg,
                "<rect x=\"{LEFT}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{:.1}\" fill=\"{colour}\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\" font-size=\"9\">{ratio:.2}</text>",
                BAR - 1.0,
                LEFT + width + 4.0,
                y + BAR - 2.0
            );
        }
    }
    svg.push_str("</svg>\n");
    svg
}
