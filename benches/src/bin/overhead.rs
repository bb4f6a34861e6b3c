//! Measures what a hit costs with each mechanism, what arming costs and what a record costs. It writes these sections of
//! docs/overhead.md and the plots, docs/bench/*.svg: `cargo run -p trapline-benches --bin overhead`.

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

/// Guest time for about a thousand records, which fit into the ring. In nanoseconds.
const RECORDED: u64 = 20_000;

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
    let hits = guests().map(write_guest).collect::<Result<String, String>>()?;
    section::replace("hits", &hits)?;
    section::replace("arming", &arming_table()?)?;
    section::replace("records", &records_table()?)
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
