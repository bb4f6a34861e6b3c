//! A test harness for tests with needs that not every computer meets: a stock kernel, a tool, a table of the oracle.
//!
//! libtest decides at compile time which tests are ignored. So a test file with needs sets `harness = false` in
//! Cargo.toml and passes its tests to [`run`], which checks the needs at run time. A test with an unmet need is
//! *ignored* in libtest's terms, so cargo-nextest counts it as skipped, not as passed.
//!
//! If the environment variable `TRAPLINE_TALLY` names a file, a line is appended for each test that ran on a stock
//! kernel and for each skipped test. `scripts/tally.sh` prints the summary at the end of `make test` from it.

mod folder;
pub mod guests;
mod need;

pub use folder::Folder;
pub use need::{ForTest, Need, complete, kernel, python, python_module, stock, stock_with, tool};

use libtest_mimic::{Arguments, Trial};
use std::env;
use std::fs::OpenOptions;
use std::io::Write;
use std::process::ExitCode;

/// The environment variable that names the tally's file.
const TALLY: &str = "TRAPLINE_TALLY";

/// The message for missing cross compilers of the tiny kernels.
const CROSS_COMPILERS: &str = "cross compilers: images/tiny/README.md names the packages";

/// A test and its needs.
pub struct Test {
    name: String,
    needs: Vec<Need>,
    run: Box<dyn FnOnce() + Send>,
}

impl Test {
    /// A test without needs.
    pub fn new(name: impl Into<String>, run: impl FnOnce() + Send + 'static) -> Test {
        Test { name: name.into(), needs: Vec::new(), run: Box::new(run) }
    }

    /// Adds a need. A test runs only if all its needs are met.
    #[must_use]
    pub fn needs(mut self, need: Need) -> Test {
        self.needs.push(need);
        self
    }

    fn trial(self, tally: Tally) -> Trial {
        let Test { name, needs, run } = self;
        let missing = needs.iter().find_map(|need| need.missing.clone());
        if let Some(missing) = &missing {
            tally.skips(&name, missing);
        }
        let on: Vec<String> = needs.into_iter().map(|need| need.what).collect();
        let full_name = name.clone();
        let test = move || {
            on.iter().for_each(|what| tally.ran(&full_name, what));
            run();
            Ok(())
        };
        Trial::test(name, test).with_ignored_flag(missing.is_some())
    }
}

/// Makes tests without needs, named after their functions.
#[macro_export]
macro_rules! tests {
    ($($test:ident),* $(,)?) => { vec![$($crate::Test::new(stringify!($test), $test)),*] };
}

/// Makes one test per stock kernel name and function. It is named `function::name`, needs that kernel and gets the name
/// as its argument.
#[macro_export]
macro_rules! each {
    ($names:expr, $($test:ident),* $(,)?) => {{
        let mut tests = Vec::new();
        $(for name in $names {
            let test = $crate::Test::new($crate::member(stringify!($test), name), move || $test(name));
            tests.push(test.needs($crate::kernel(name)));
        })*
        tests
    }};
}

/// The name of a test of `family` on one kernel: `boots::debian_amd64`.
pub fn member(family: &str, kernel: &str) -> String {
    format!("{family}::{}", kernel.replace('/', "_"))
}

/// Adds the need of one stock kernel to each of the tests.
pub fn on(name: &str, tests: Vec<Test>) -> Vec<Test> {
    tests.into_iter().map(|test| test.needs(kernel(name))).collect()
}

/// Makes one test for each toolchain of the tiny kernels. The test needs that toolchain.
pub fn each_toolchain(family: &str, test: fn([&'static str; 2])) -> Vec<Test> {
    let of = |toolchain: [&'static str; 2]| {
        let test = Test::new(format!("{family}::{}", toolchain[0]), move || test(toolchain));
        // All missing toolchains share one line of the tally, because a computer has all of them or none.
        let one_line = |need: Need| Need { missing: need.missing.map(|_| CROSS_COMPILERS.to_string()), ..need };
        toolchain.iter().fold(test, |test, name| test.needs(one_line(tool(name, ""))))
    };
    trapline_images::toolchains().into_iter().map(of).collect()
}

/// Runs or lists the tests according to the command line, like libtest.
pub fn run(groups: impl IntoIterator<Item = Vec<Test>>) -> ExitCode {
    let arguments = Arguments::from_args();
    // cargo-nextest lists the ignored tests once. `cargo test` prints ignored tests itself, so nothing is noted then.
    let tally = Tally { notes_skips: arguments.list && arguments.ignored };
    let trials = groups.into_iter().flatten().map(|test| test.trial(tally)).collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// Writes lines to the tally file. Fields: `ran` or `skips`, the kernel or the missing thing, the test.
#[derive(Clone, Copy)]
struct Tally {
    notes_skips: bool,
}

impl Tally {
    fn ran(self, test: &str, what: &str) {
        self.note("ran", what, test);
    }

    fn skips(self, test: &str, missing: &str) {
        if self.notes_skips {
            self.note("skips", missing, test);
        }
    }

    /// Appends a line by a single write, so that lines of concurrent tests do not mix.
    fn note(self, kind: &str, what: &str, test: &str) {
        let Some(file) = env::var_os(TALLY).filter(|file| !file.is_empty()) else { return };
        let program = env::args().next().unwrap_or_default();
        let program = program.rsplit('/').next().and_then(|name| name.rsplit_once('-')).map_or("", |(name, _)| name);
        let file = OpenOptions::new().create(true).append(true).open(&file);
        let written = file.and_then(|mut file| file.write_all(format!("{kind}\t{what}\t{program}::{test}\n").as_bytes()));
        if let Err(error) = written {
            panic!("{TALLY}: {error}");
        }
    }
}
