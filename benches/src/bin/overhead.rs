//! Writes docs/overhead.md and its plots, docs/bench/*.svg: `cargo run -p trapline-benches --bin overhead`.

use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;
use trapline::overhead::arming::{Probes, Row, rows};
use trapline::overhead::records::{FORMATS, Recorded};
use trapline::overhead::table::Measurement;
use trapline::overhead::{GUESTS, document};
use trapline_benches::{section, user_time};

const ROUNDS: u32 = 15;

const HEAD: &str = "\
# What a hit costs

Written by `cargo run -p trapline-benches --bin overhead` (part of `make bench`); `trapline bench --table` prints the same tables, `--json` the figures.

The tiny kernel calls an empty function for ever; each mechanism is put on it in turn, for the same virtual time, with empty handlers. What
the loop takes without a probe is taken off. Letters as in the Kprobes document: k kprobe (breakpoint, step, both handlers), b boosted, o
optimised, j jprobe, r return probe, rb and ro with such an entry, kr and jr two at once. Beside ours stand the document's figures, on the
hardware of its day. Compare ratios, and rows of one table; the times are those of the computer that this was run on.

Handlers of other kinds (reading 1 and 16 registers, counting into a map, an event with two arguments) under every mechanism, and one of 1 to 100,000
armed probes, are timed by criterion beside hooks and traps of the bare CPU core: `make bench` leaves its report in `target/criterion/report/index.html`.

Host instructions per hit, which repeat exactly, are held by `make budget` (`benches/budgets.tsv`), and so are those of a guest without a probe: per
instruction of short blocks and of loads and stores, per system call, per switch of address spaces.
";

const WHY: &str = "\
## Why it is not more

- One comparison tells a block of the guest's own from those in the probe window (`emu/src/machine/gate.rs`); what is done
  with the latter is a function that is exchanged when anything special begins (`emu/src/machine/blocks.rs`). A hit of a
  detour asks for none of that.
- A detour names its point, so its hit looks nothing up; where one probe stands and nothing is special the engine has that
  probe at hand (`Points::lone` in `probes/src/point.rs`, the short ways in `probes/src/hit.rs`).
- A piece of the window is remembered in the form in which the clock takes a detour; everything else is a detour whose end
  no block comes to (`emu/src/probed/window.rs`).
- A followed return takes no trap where the ISA has an instruction for it (`Detour::return_pad`): the pad is the start of a
  block like a detour's. The task whose call was followed last is not hashed (`probes/src/instances.rs`).
- A word of guest memory is found where the core itself finds it, in its cache of translations (`emu/src/unicorn/live.rs`);
  the page tables are walked only where that has it not.
- The window is shown to the core only where it has not fetched from it since the page tables were exchanged
  (`emu/src/machine/fetched.rs`).
- A hit takes no lock, allocates nothing and hashes once: `probes/tests/alloc.rs` counts over every kind of hit.
- A point has 144 bytes with its one probe in it, what few points have lies in a box (`probes/src/point.rs`); with the
  probe's own object it is under 300 bytes (`emu/tests/arming_memory.rs`).

";

const ARMING: &str = "\
## Arming

On guests of many functions of one block each (`cargo run -p trapline-benches --bin arming`; with `--check` it fails over the goals): time of
a CPU for each probe, by the clock on the wall in brackets, and the host memory that each takes, its object, its point and all tables, beside
the guest's own. Goals for 100,000 in one batch: 10 us each, 300 bytes. Whoever optimises looks through the guest's memory once for all, which is
what a single probe pays for. 32-bit ARM stops at 80,000: the probe window lies within a branch's reach of the kernel, and has 8 MiB there.

";

const RECORDS: &str = "
## Records

What a record of an event with two arguments takes from the ring to the text, beside its hit (`cargo run -p trapline-benches --bin overhead records`;
medians). Host instructions are in `benches/budgets.tsv`.

";

/// Guest nanoseconds for a thousand records or so, which the ring holds.
const RECORDED: u64 = 20_000;

const MACHINES: &str = "\
## Whole machines

Written by `cargo run -p trapline-benches --bin machine -- --write`. Each stock kernel that is on the computer boots to busybox, runs a script of
one line and powers off; QEMU (`-accel tcg`) gets the same kernel, initial file system and command line. They take turns, each a process
of its own, and the median of their user times stands here, loading, symbols and (x86, s390x under QEMU) unpacking of the kernel included. Armed probes stand in
functions that such a boot hardly runs. Guest seconds are virtual: sleep costs none of the host's. Instructions are bytes of code executed,
divided by the mean length of instructions at a look each guest millisecond.

";

const WORKS: &str = "
What users run in such a guest, by the same program: user seconds of each work alone, between two lines of the guest's console. A round boots
each contestant once, and it does all works one behind the other. While something is changed, `cargo run -p trapline-benches --bin machine -- --only amd64
--work syscalls,pipe` measures just that, and with `--beside PROGRAM` (the same program of another build) what has become of it.

";

const TIME: &str = "
What exact virtual time costs, in host instructions: the callback of blocks that do not count themselves (the window, what is due) and all, for each guest
nanosecond of the tiny kernel's loop of short blocks, counted by callgrind and written by `cargo run -p trapline-benches --bin virtual_time -- --write`.
A block that counts itself has about eight instructions for it at its start (`emu/src/unicorn/translator/loop.c`).

";

const GUESTS_OWN: &str = "
## The same kernel's own kprobes, under QEMU

For scale, what a hit of the guest's own kprobes costs when the Debian kernel 6.1 for amd64 runs under QEMU's TCG. In the lab it was 1.0 us for a
plain kprobe, 0.14 us for an optimised one, 0.43 us for a return probe on an ftrace site. This, with the handler of a kprobe event whose
records are switched off, is measured in three rounds (user time of QEMU between lines of the console, less that of the same reads without a probe; medians) and written by
`cargo run -p trapline-benches --bin guest_kprobes -- --write`, which needs qemu-system-x86_64:

";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => write_all(),
        ["guest", guest] => write_guest(guest).map(|section| print!("{section}")),
        ["records"] => records_table().map(|table| print!("{table}")),
        // How the rows of the arming table are measured.
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

/// Writes its plot; its section.
fn write_guest(guest: &str) -> Result<String, String> {
    let name = guest.trim_start_matches("tiny/");
    let measured = Measurement::of(guest, ROUNDS)?;
    std::fs::create_dir_all(docs().join("bench")).map_err(|error| error.to_string())?;
    write(&format!("bench/{name}.svg"), &plot(guest, &measured))?;
    Ok(table_of(guest, name, &measured))
}

fn write_all() -> Result<(), String> {
    let mut text = String::from(HEAD);
    for guest in GUESTS {
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
    for guest in GUESTS {
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

/// Bars: each mechanism's cost as a ratio to k, ours and then the document's.
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
