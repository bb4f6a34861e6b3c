//! Runs the commands of docs/tutorial.md in order, and compares their output with the lines below each.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use trapline_harness::{self as harness, Folder, Need, kernel, tests, tool};

const PAGE: &str = include_str!("../../docs/tutorial.md");
/// The folder in the page's commands, which the test replaces by a folder of its own.
const FOLDER: &str = "/tmp/shelf";
const HEADERS: &str = "/lib/modules/6.1.0-56-amd64/build";

/// A command of the page and the lines that it prints.
#[derive(Debug)]
struct Step {
    command: String,
    prints: Vec<String>,
}

/// The part of the page that needs gdb.
const DOUBLE_FREE: &str = "## A kernel that dies";

/// The commands of a text in blocks of `sh`, each with the indented lines between it and the next heading or block.
fn steps(text: &str) -> Vec<Step> {
    let (mut steps, mut inside, mut listens): (Vec<Step>, bool, bool) = (Vec::new(), false, false);
    for line in text.lines() {
        match line {
            "```sh" => {
                steps.push(Step { command: String::new(), prints: Vec::new() });
                (inside, listens) = (true, true);
            }
            "```" => inside = false,
            _ if inside => steps.last_mut().unwrap().command += &format!("{line}\n"),
            // Only the first indented lines behind a command are its output.
            _ if line.starts_with("    ") && listens => steps.last_mut().unwrap().prints.push(line.trim().into()),
            "" => {}
            _ => listens = listens && steps.last().is_some_and(|step| step.prints.is_empty()),
        }
    }
    steps
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Runs a command in the folder of the clone, and returns all that it prints.
fn run(command: &str, room: &Folder) -> (String, bool) {
    let trapline = Path::new(env!("CARGO_BIN_EXE_trapline")).parent().unwrap();
    let path = std::env::join_paths(
        std::iter::once(trapline.to_path_buf()).chain(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())),
    );
    let command = command.replace(FOLDER, room.0.to_str().unwrap());
    let output =
        Command::new("sh").args(["-c", &command]).env("PATH", path.unwrap()).current_dir(root()).output().expect("a shell");
    let text = [output.stdout, output.stderr].concat();
    (String::from_utf8_lossy(&text).into_owned(), output.status.success())
}

/// Runs the commands of a text. Each must succeed and print the lines that the page shows, in their order.
fn follow(text: &str, room: &Folder) {
    let steps = steps(text);
    assert!(steps.len() >= 5 && steps.iter().filter(|step| !step.prints.is_empty()).count() >= 3, "{steps:?}");
    for step in &steps {
        let (text, is_well) = run(&step.command, room);
        assert!(is_well, "{}\n{text}", step.command);
        let mut rest = text.as_str();
        for line in &step.prints {
            let line = &line.replace(FOLDER, room.0.to_str().unwrap());
            let at = rest.find(line.as_str()).unwrap_or_else(|| panic!("{}\nhas no `{line}`:\n{text}", step.command));
            rest = &rest[at + line.len()..];
        }
    }
}

/// LV-8: the first part of the tutorial leads to its bug.
fn the_tutorial_finds_its_bug() {
    let room = Folder::new("tutorial");
    follow(PAGE.split_once(DOUBLE_FREE).expect("two parts").0, &room);
    // The picture on the page is the one that the page's command draws.
    let drawn = std::fs::read_to_string(room.0.join("shelf.svg")).expect("the page draws it");
    assert_eq!(drawn, include_str!("../../docs/tutorial/flame.svg"));
}

/// TT-7, TT-8: the second part leads to the object that is freed twice.
fn the_tutorial_finds_the_double_free() {
    let room = Folder::new("tutorial-twice");
    follow(PAGE.split_once(DOUBLE_FREE).expect("two parts").1, &room);
    // The page reads the addresses off these records.
    let events =
        "--event 'r:loan faults:loan_new at=$retval' --event 'r:note faults:note_new at=$retval' --event 'p:free kfree at=$arg1'";
    let (text, is_well) = run(&format!("trapline replay /tmp/shelf/twice.rec --quiet {events} | grep -A7 -m1 loan:"), &room);
    let at: Vec<&str> = text.lines().filter_map(|line| line.split_once(" at=").map(|(_, at)| at)).collect();
    assert!(is_well && at.len() == 8, "{text}");
    assert!(at[2] == at[4] && at[5] == at[7] && at[2] == at[5] && at[2] != at[3], "{text}");
}

/// LV-9: with a module of another build, its lines are not shown, and a note says why.
fn a_module_of_another_build_has_no_lines() {
    let room = Folder::new("builds");
    let folder = room.0.display();
    let build = format!("make -C images/tutorial KERNEL=6.1.0-56-amd64 OUT={folder}/one");
    let other = format!(
        "cp -r {folder}/one {folder}/two && sed -i s/SLOTS/PLACES/ {folder}/two/shelf.c && make -C {folder}/two KERNEL=6.1.0-56-amd64"
    );
    for command in [build, other] {
        let (text, is_well) = run(&command, &room);
        assert!(is_well, "{text}");
    }
    let shown = |dwarf: &str| {
        let event = "-e 'p shelf:shelf_put' --lines --quiet";
        let loads = format!("--module {folder}/one/shelf.ko --script images/tutorial/shelf.sh --dwarf {folder}/{dwarf}/shelf.ko");
        let (text, is_well) = run(&format!("trapline run debian/amd64 {loads} {event}"), &room);
        assert!(is_well, "{text}");
        let lines = text.lines().filter(|line| line.contains("(shelf_put+0x0/") && line.contains("shelf.c:24")).count();
        (lines, text.contains("of another build than its debug information"))
    };
    assert_eq!((shown("one"), shown("two")), ((5, false), (0, true)));
}

/// LV-8: the module without its fault keeps the sum right.
fn the_mended_module_keeps_the_sum() {
    let room = Folder::new("mended");
    let folder = room.0.display();
    let build = format!(
        "mkdir -p {folder} && cp images/tutorial/Makefile {folder} && sed 's/next > SLOTS/next >= SLOTS/' images/tutorial/shelf.c \
         >{folder}/shelf.c && make -C {folder} KERNEL=6.1.0-56-amd64"
    );
    let (text, is_well) = run(&build, &room);
    assert!(is_well, "{text}");
    let (text, is_well) = run("trapline run debian/amd64 --module /tmp/shelf/shelf.ko --script images/tutorial/shelf.sh", &room);
    assert!(is_well && text.contains("sum 140 of 50 20 30 40"), "{text}");
}

fn main() -> ExitCode {
    let headers = Need {
        what: "the headers of Debian's kernel".into(),
        missing: (!Path::new(HEADERS).exists())
            .then(|| "the headers of Debian's kernel: apt-get install linux-headers-6.1.0-56-amd64".into()),
    };
    let tests = tests![the_tutorial_finds_its_bug, a_module_of_another_build_has_no_lines, the_mended_module_keeps_the_sum];
    let with_gdb = tests![the_tutorial_finds_the_double_free];
    let with_gdb = with_gdb.into_iter().map(|test| test.needs(tool("gdb-multiarch", "gdb-multiarch")));
    let need = |test: harness::Test| test.needs(kernel("debian/amd64")).needs(headers.clone()).needs(tool("make", "make"));
    harness::run([tests.into_iter().chain(with_gdb).map(need).collect::<Vec<_>>()])
}
