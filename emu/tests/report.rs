//! `--report FILE.html`: the page is self-contained, its numbers are those of the run, and a browser runs its controls
//! without an error.

use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};
use trapline_harness::{self as harness, Folder, tests, tool};

/// Runs a tiny kernel with a report, and returns the page and the summary.
fn report(room: &Folder, args: &[&str]) -> (String, Value) {
    let page = room.file("page.html");
    let mut command = Command::new(env!("CARGO_BIN_EXE_trapline"));
    command.args(["run", "tiny/x86_64", "--report", &page, "--out", &room.file("trace"), "--summary", "json", "--quiet"]);
    let output = command.args(args).output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    (fs::read_to_string(page).unwrap(), serde_json::from_slice(&output.stdout).unwrap())
}

/// The tags of a page are closed in order, and nothing is fetched from elsewhere.
fn check(page: &str) {
    const EMPTY: [&str; 3] = ["meta", "!DOCTYPE", "rect"];
    let body: String = page
        .split("<script")
        .enumerate()
        .map(|(number, part)| if number == 0 { part } else { part.split_once("</script>").map_or("", |(_, behind)| behind) })
        .collect();
    let mut open: Vec<&str> = Vec::new();
    for tag in body.split('<').skip(1) {
        let inside = tag.split_once('>').unwrap_or_else(|| panic!("<{tag}")).0;
        let name = inside.trim_start_matches('/').split([' ', '/']).next().unwrap();
        match (inside.starts_with('/'), inside.ends_with('/')) {
            (true, _) => assert_eq!(open.pop(), Some(name), "{open:?}"),
            (false, false) if !EMPTY.contains(&name) => open.push(name),
            _ => {}
        }
    }
    assert!(open.is_empty(), "{open:?}");
    let elsewhere = page.replace("http://www.w3.org/2000/svg", "");
    for words in ["src=", "http:", "https:", "@import", "url("] {
        assert!(!elsewhere.contains(words), "{words} in the page");
    }
}

/// AN-4: the page of one hit has its probe, its task and its record, and says what the options left out.
fn the_page_of_one_hit_is_complete() {
    let room = Folder::new("one");
    let (page, summary) = report(&room, &["-e", "p:only kernel_init"]);
    assert_eq!(summary["records"], 1);
    check(&page);
    for words in [
        "kernel_init",
        "No hit was missed",
        "<th scope=\"row\">CPU 0</th>",
        "--stacktrace</code> adds them",
        "The first 1 of 1 records",
    ] {
        assert!(page.contains(words), "{words}:\n{page}");
    }
    assert!(page.len() < 40_000, "{} bytes", page.len());
}

/// AN-4: the page's numbers are those of the summary, and strings of the guest are escaped.
fn numbers_are_those_of_the_summary() {
    let room = Folder::new("many");
    let events = ["p vfs_read count=$arg3", "r:done vfs_read n=$retval:s64", "r quicksort", "p schedule"];
    let args: Vec<&str> = events.iter().flat_map(|event| ["-e", event]).chain(["--stacktrace"]).collect();
    let (page, summary) = report(&room, &args);
    check(&page);
    for probe in summary["probes"].as_array().unwrap() {
        let (name, hits) = (probe["name"].as_str().unwrap(), &probe["hits"]);
        let row = page.lines().find(|line| line.starts_with(&format!("<tr><th scope=\"row\">{name}</th>"))).unwrap();
        assert!(row.contains(&format!("data-value=\"{hits}\"")), "{name} {hits}: {row}");
    }
    let (page_of_text, _) = report(&room, &["-e", "p:open do_sys_open t=\\\"<b>&</b><script>\\\":string"]);
    check(&page_of_text);
    assert!(page_of_text.contains("&lt;b&gt;&amp;&lt;/b&gt;&lt;script&gt;"), "the string of an event");
    for words in ["Values of count of", "Values of n of done", "aria-label=\"flame graph\"", "The most frequent backtraces"] {
        assert!(page.contains(words), "{words}");
    }
}

/// AN-4: a million hits make a page of bounded size, which counts all of them.
fn a_million_hits_make_a_small_page() {
    let room = Folder::new("million");
    let (page, summary) = report(&room, &["--append", "bench=1000000", "-e", "p bench_target n=$arg1", "--format", "csv"]);
    check(&page);
    let hits = summary["records"].as_u64().unwrap();
    assert!(hits >= 1_000_000, "{hits}");
    assert!(page.contains(&format!("data-value=\"{hits}\"")) && page.len() < 1_500_000, "{} bytes", page.len());
}

/// A script for the browser. It uses the controls and writes the result into the page.
const PERSON: &str = r##"<script>
const told = [];
const tell = (what) => told.push(what);
const numbers = () => [...document.querySelectorAll("#probes tbody tr")].map((row) => Number(row.cells[4].dataset.value));
const heading = [...document.querySelectorAll("#probes th button")].find((button) => button.textContent === "hits");
heading.click(); tell(numbers()); heading.click(); tell(numbers());
tell(heading.parentElement.getAttribute("aria-sort"));
const shown = () => document.getElementById("shown").textContent;
const press = (name) => [...document.querySelectorAll("#controls button")].find((button) => button.textContent === name).click();
const marks = () => document.querySelectorAll("#lanes rect").length;
const whole = [shown(), marks()];
press("Zoom in"); tell(shown()); press("Later"); tell(shown());
const key = (key) => document.getElementById("lanes").parentElement.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
key("+"); tell(shown()); tell(marks()); key("0"); tell(JSON.stringify([shown(), marks()]) === JSON.stringify(whole)); tell(whole[0]);
document.body.dataset.told = JSON.stringify(told);
</script></body>"##;

/// Lets Chromium open a file. Returns what it printed, and its log.
fn browser(room: &Folder, file: &str, args: &[&str]) -> (String, String) {
    let profile = format!("--user-data-dir={}", room.file("profile"));
    let mut command = Command::new("chromium");
    command.args([
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--enable-logging=stderr",
        &profile,
    ]);
    let output = command.args(args).arg(format!("file://{file}")).output().unwrap();
    (String::from_utf8_lossy(&output.stdout).into_owned(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Uses the controls of a page in a browser, whose log must be empty, and takes a picture.
fn use_controls(room: &Folder, page: &str, probes: usize) {
    let file = room.file("used.html");
    fs::write(&file, page.replace("</body>", PERSON)).unwrap();
    let (dom, log) = browser(room, &file, &["--dump-dom"]);
    assert!(!log.contains("CONSOLE"), "{log}");
    let told = dom.split("data-told=\"").nth(1).unwrap_or_else(|| panic!("nothing was told: {log}")).split('"').next().unwrap();
    let told: Vec<Value> = serde_json::from_str(&told.replace("&quot;", "\"").replace("&amp;", "&")).unwrap();
    let numbers = |value: &Value| value.as_array().unwrap().iter().map(|number| number.as_u64().unwrap()).collect::<Vec<_>>();
    let (down, up) = (numbers(&told[0]), numbers(&told[1]));
    assert!(down.is_sorted_by(|one, other| one >= other) && up.is_sorted() && down.len() == probes, "{down:?} {up:?}");
    assert_eq!(told[2], "ascending");
    assert!(told[3] != told[4] && told[4] != told[5] && told[3] != told[8], "each control shows another time: {told:?}");
    assert!(told[6].as_u64().is_some_and(|marks| marks > 0) && told[7] == true, "{told:?}");
    let picture = room.file("page.png");
    let (_, log) = browser(room, &file, &[&format!("--screenshot={picture}"), "--window-size=1280,1600"]);
    // An empty page of this size takes less than 10 KB.
    assert!(fs::metadata(&picture).is_ok_and(|facts| facts.len() > 40_000), "the picture is empty: {log}");
    if let Some(kept) = std::env::var_os("TRAPLINE_KEEP_PICTURE") {
        fs::copy(&picture, Path::new(&kept).with_extension(format!("{probes}.png"))).unwrap();
    }
}

/// AN-4: in a browser tables sort and the timeline zooms, by buttons and by keys, without an error on its console.
fn a_browser_runs_the_controls() {
    let room = Folder::new("browser");
    let events = ["-e", "p vfs_read count=$arg3", "-e", "p schedule", "-e", "p:open do_sys_open", "--stacktrace"];
    let (page, _) = report(&room, &events);
    use_controls(&room, &page, 3);
}

/// AN-4: a browser opens the page of a million hits without trouble.
fn a_browser_shows_a_million_hits() {
    let room = Folder::new("much");
    let (page, _) = report(&room, &["--append", "bench=1000000", "-e", "p bench_target n=$arg1", "--format", "csv"]);
    use_controls(&room, &page, 1);
}

/// AN-4: without JavaScript the page has its timeline and tables, and no control that does nothing.
fn a_browser_without_scripts_shows_the_page() {
    let room = Folder::new("plain");
    let (page, _) = report(&room, &["-e", "p vfs_read count=$arg3"]);
    // `--dump-dom` needs scripts itself, so the page's own ones are taken out.
    let (head, scripts) = page.split_once("<script").unwrap();
    let file = room.file("plain.html");
    fs::write(&file, format!("{head}{}", scripts.rsplit_once("</script>").unwrap().1)).unwrap();
    let (dom, log) = browser(&room, &file, &["--dump-dom"]);
    let count = |words: &str| dom.matches(words).count();
    assert!(count("<caption>") >= 3 && count("<rect") > 3, "{log}{dom}");
    assert!(count("id=\"controls\" hidden") == 1 && count("<button") == 0, "{dom}");
}

/// AN-4: a file that cannot be created is an error before the guest boots.
fn a_wrong_name_fails_at_once() {
    let output = Command::new(env!("CARGO_BIN_EXE_trapline")).args(["run", "--report", "/nowhere/at/all.html"]).output().unwrap();
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(2) && output.stdout.is_empty() && err.contains("/nowhere/at/all.html"), "{err}");
}

fn main() -> ExitCode {
    assert!(Path::new(env!("CARGO_BIN_EXE_trapline")).exists());
    let in_browser =
        tests![a_browser_runs_the_controls, a_browser_shows_a_million_hits, a_browser_without_scripts_shows_the_page];
    harness::run([
        tests![
            the_page_of_one_hit_is_complete,
            numbers_are_those_of_the_summary,
            a_million_hits_make_a_small_page,
            a_wrong_name_fails_at_once
        ],
        in_browser.into_iter().map(|test| test.needs(tool("chromium", "chromium"))).collect(),
    ])
}
