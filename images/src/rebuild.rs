//! Building the tiny kernels from their sources again, and with which tools the committed files were built.

use crate::{Builtin, builtins};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tiny");
const RECORD: &str = include_str!("../tiny/COMPILER");
const ADVICE: &str = "install gcc and GNU ld for x86 (Debian, Ubuntu: apt-get install gcc binutils)";

/// The tools that decide the bytes of the result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tools {
    /// First line of the compiler's `--version`.
    pub compiler: String,
    /// First line of the linker's.
    pub linker: String,
}

/// A kernel that was built.
#[derive(Clone, Debug)]
pub struct Rebuilt {
    /// Name of the built-in kernel.
    pub name: &'static str,
    /// The file that was built for it.
    pub file: PathBuf,
    /// The tools that were used.
    pub tools: Tools,
    /// Those that built the committed file (images/tiny/COMPILER).
    pub recorded: Tools,
}

impl Rebuilt {
    /// Whether the result must be the committed file, byte for byte.
    pub fn by_the_recorded_tools(&self) -> bool {
        self.tools == self.recorded
    }
}

/// What a build gave.
#[derive(Clone, Debug)]
pub struct Build {
    /// The kernels.
    pub kernels: Vec<Rebuilt>,
    /// Kernels for which there is no compiler here, each with that compiler's name.
    pub left_out: Vec<(&'static str, &'static str)>,
}

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum RebuildError {
    /// A tool is not installed.
    #[error("{tool} cannot be run ({cause}): {ADVICE}")]
    NoTool {
        /// Its name.
        tool: &'static str,
        /// What the system says.
        cause: io::Error,
    },
    /// The script failed; this is what it wrote.
    #[error("build.sh failed ({status}); does gcc build for x86? If not, {ADVICE}. It said:\n{output}")]
    Failed {
        /// How it ended.
        status: std::process::ExitStatus,
        /// Its standard error.
        output: String,
    },
}

/// Builds all kernels into this folder for which there are tools, as images/tiny/build.sh does.
pub fn rebuild(into: &Path) -> Result<Build, RebuildError> {
    let mut recorded = RECORD.lines().map(str::to_owned);
    let mut build = Build { kernels: Vec::new(), left_out: Vec::new() };
    let mut wanted = Vec::new();
    for toolchain in toolchains() {
        let recorded = Tools { compiler: recorded.next().unwrap_or_default(), linker: recorded.next().unwrap_or_default() };
        let tools = match installed(toolchain) {
            Ok(tools) => tools,
            Err(RebuildError::NoTool { tool, .. }) if !wanted.is_empty() => {
                build.left_out.extend(built_by(toolchain).map(|builtin| (builtin.name, tool)));
                continue;
            }
            Err(error) => return Err(error),
        };
        for Builtin { name, .. } in built_by(toolchain) {
            let called = name.trim_start_matches("tiny/");
            wanted.push(called);
            let file = into.join(format!("tiny-{called}.elf"));
            build.kernels.push(Rebuilt { name, file, tools: tools.clone(), recorded: recorded.clone() });
        }
    }
    let result = Command::new("sh")
        .arg(Path::new(SOURCES).join("build.sh"))
        .arg(into)
        .args(wanted)
        .env_remove("CC")
        .env_remove("LD")
        .output()
        .map_err(|cause| RebuildError::NoTool { tool: "sh", cause })?;
    if !result.status.success() {
        let output = String::from_utf8_lossy(&result.stderr).into_owned();
        return Err(RebuildError::Failed { status: result.status, output });
    }
    Ok(build)
}

/// Compilers and linkers, in the order of the record. Only the first must be there.
fn toolchains() -> Vec<[&'static str; 2]> {
    let mut all: Vec<_> = builtins().iter().map(|builtin| builtin.tools).collect();
    all.dedup();
    all
}

fn built_by(tools: [&'static str; 2]) -> impl Iterator<Item = &'static Builtin> {
    builtins().iter().filter(move |builtin| builtin.tools == tools)
}

fn installed([compiler, linker]: [&'static str; 2]) -> Result<Tools, RebuildError> {
    Ok(Tools { compiler: version_line(compiler)?, linker: version_line(linker)? })
}

fn version_line(tool: &'static str) -> Result<String, RebuildError> {
    let answer =
        Command::new(tool).arg("--version").env("LC_ALL", "C").output().map_err(|cause| RebuildError::NoTool { tool, cause })?;
    Ok(String::from_utf8_lossy(&answer.stdout).lines().next().unwrap_or_default().to_owned())
}
