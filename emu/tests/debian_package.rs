//! The Debian package, the manual pages and `trapline doctor`. The package is installed into an empty root, and its
//! program must run there.

use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode, Output};
use trapline_harness::{self as harness, Folder, Test, tests, tool};

const PROGRAM: &str = env!("CARGO_BIN_EXE_trapline");

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Runs a command that must succeed.
fn done(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", said(&output));
    said(&output)
}

/// AN-3: the package is built, unpacked by dpkg into an empty root, and the program in it runs.
fn the_package_installs_into_an_empty_root() {
    let room = Folder::new("deb");
    let (package, root) = (room.0.join("trapline.deb"), room.0.join("root"));
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join("scripts/deb.sh");
    done(Command::new(script).arg(PROGRAM).arg(&package).env("DEB_OPTIONS", "-Zgzip -z1"));
    let facts = done(Command::new("dpkg-deb").arg("--field").arg(&package));
    assert!(facts.contains("Package: trapline") && facts.contains(concat!("Version: ", env!("CARGO_PKG_VERSION"))), "{facts}");
    for folder in ["updates", "info"] {
        fs::create_dir_all(root.join("var/lib/dpkg").join(folder)).unwrap();
    }
    fs::write(root.join("var/lib/dpkg/status"), "").unwrap();
    // Only root can give files their owner. The empty root has none of the libraries that the package names.
    if rustix::process::geteuid().is_root() {
        let mut dpkg = Command::new("dpkg");
        done(dpkg.arg("--root").arg(&root).args(["--force-depends", "--install"]).arg(&package));
        let status = fs::read_to_string(root.join("var/lib/dpkg/status")).unwrap();
        assert!(status.contains("Package: trapline\nStatus: install ok installed"), "{status}");
    } else {
        done(Command::new("dpkg-deb").arg("-x").arg(&package).arg(&root));
    }
    let installed = root.join("usr/bin/trapline");
    assert_eq!(done(Command::new(&installed).arg("--version")), concat!("trapline ", env!("CARGO_PKG_VERSION"), "\n"));
    assert!(done(Command::new(&installed).args(["run", "--summary", "none", "--until", "20us", "-q"])).len() < 4000);
    let files = [
        "man/man1/trapline.1.gz",
        "man/man1/trapline-run.1.gz",
        "man/man1/trapline-images-pull.1.gz",
        "bash-completion/completions/trapline",
        "zsh/vendor-completions/_trapline",
        "fish/vendor_completions.d/trapline.fish",
        "doc/trapline/copyright",
        "doc/trapline/changelog.gz",
    ];
    for file in files {
        let length = fs::metadata(root.join("usr/share").join(file)).map(|facts| facts.len());
        assert!(length.as_ref().is_ok_and(|length| *length > 100), "{file}: {length:?}");
    }
}

/// AN-3: there is a manual page for each sub-command, with its options and its examples, one example per line.
fn every_command_has_a_manual_page() {
    let room = Folder::new("man");
    done(Command::new(PROGRAM).arg("man").arg(&room.0));
    let help = done(Command::new(PROGRAM).arg("--help"));
    let commands: Vec<&str> = help
        .lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| !line.is_empty())
        // Long descriptions go on in further lines.
        .filter(|line| !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .collect();
    assert!(commands.len() > 9 && commands.contains(&"doctor"), "{commands:?}");
    for command in commands {
        let page = fs::read_to_string(room.0.join(format!("trapline-{command}.1"))).unwrap();
        let options = done(Command::new(PROGRAM).args([command, "--help"]));
        for option in
            options.split_whitespace().filter(|word| word.starts_with("--") && word[2..].starts_with(char::is_alphabetic))
        {
            let name: String = option.chars().take_while(|letter| letter.is_alphanumeric() || *letter == '-').collect();
            assert!(page.replace("\\-", "-").contains(&name), "{command}: {name} is not in its page");
        }
        assert!(page.contains(".TH") && page.contains("Examples") == options.contains("Examples"), "{command}: {page}");
    }
    let page = fs::read_to_string(room.0.join("trapline-run.1")).unwrap();
    let example = "  trapline run debian/amd64 --whole";
    assert!(page.replace("\\-", "-").lines().any(|line| line.starts_with(example)), "examples are lines of their own:\n{page}");
    let refused = Command::new(PROGRAM).args(["man", "/proc/none/at/all"]).output().unwrap();
    assert!(refused.status.code() == Some(1) && said(&refused).contains("/proc/none/at/all"), "{refused:?}");
}

/// AN-3: doctor prints what is missing and how to install it. Only the parts named on the command line decide about its
/// exit status.
fn doctor_says_what_is_missing_and_how_to_get_it() {
    let room = Folder::new("doctor");
    let tools = room.0.join("tools");
    fs::create_dir_all(&tools).unwrap();
    let doctor = |args: &[&str]| {
        let mut command = Command::new(PROGRAM);
        command.arg("doctor").args(args).env("PATH", &tools).env("XDG_CACHE_HOME", &room.0).env_remove("TRAPLINE_IMAGES");
        command.output().unwrap()
    };
    let rows = |output: &Output| -> Vec<Value> {
        String::from_utf8_lossy(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let all = doctor(&["--json"]);
    assert_eq!(all.status.code(), Some(0), "nothing that was not named is needed: {}", said(&all));
    let find = |rows: &[Value], name: &str| rows.iter().find(|row| row["name"] == name).cloned().unwrap();
    let gdb = find(&rows(&all), "gdb");
    assert!(gdb["found"] == false && gdb["how"] == "apt-get install gdb", "{gdb}");
    let kernel = find(&rows(&all), "debian/amd64");
    assert!(kernel["found"] == false && kernel["how"] == "trapline images pull debian/amd64", "{kernel}");
    let missing = doctor(&["gdb", "drgn"]);
    assert!(missing.status.code() == Some(1) && said(&missing).contains("missing: gdb, drgn"), "{}", said(&missing));
    std::os::unix::fs::symlink("/bin/true", tools.join("gdb")).unwrap();
    let there = doctor(&["gdb", "--json"]);
    assert_eq!((there.status.code(), rows(&there).len()), (Some(0), 1), "{}", said(&there));
    let unknown = doctor(&["gbd"]);
    assert!(unknown.status.code() == Some(2) && said(&unknown).contains("did you mean gdb?"), "{}", said(&unknown));
    let text = said(&doctor(&[]));
    assert!(text.lines().any(|line| line.contains("trace-cmd") && line.contains("get it: apt-get install trace-cmd")), "{text}");
}

fn main() -> ExitCode {
    assert!(Path::new(PROGRAM).exists());
    let package = Test::new("the_package_installs_into_an_empty_root", the_package_installs_into_an_empty_root);
    harness::run([
        vec![package.needs(tool("dpkg-deb", "dpkg")).needs(tool("gzip", "gzip"))],
        tests![every_command_has_a_manual_page, doctor_says_what_is_missing_and_how_to_get_it],
    ])
}
