//! Rebuilds the tiny kernels from source. Also knows the tools that built the committed files, because only the same
//! compiler and linker give the same bytes.

use crate::{Builtin, builtins};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tiny");
const RECORD: &str = include_str!("../tiny/COMPILER");

/// The versions of the tools that determine the bytes of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tools {
    /// First line of the compiler's `--version`.
    pub compiler: String,
    /// First line of the linker's `--version`.
    pub linker: String,
}

/// A kernel that was built.
#[derive(Clone, Debug)]
pub struct Rebuilt {
    /// The name of the built-in kernel.
    pub name: &'static str,
    /// The file that was built.
    pub file: PathBuf,
    /// The tools that were used.
    pub tools: Tools,
    /// The tools that built the committed file (images/tiny/COMPILER).
    pub recorded: Tools,
}

impl Rebuilt {
    /// Whether the tools are the same, so that the result must equal the committed file.
    pub fn by_the_recorded_tools(&self) -> bool {
        self.tools == self.recorded
    }
}

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum RebuildError {
    /// A tool is not installed.
    #[error("{tool} cannot be run ({cause}): install it (Debian, Ubuntu: the packages gcc and binutils, or gcc-TARGET)")]
    NoTool {
        /// The name of the program.
        tool: &'static str,
        /// The error of the operating system.
        cause: io::Error,
    },
    /// The script failed; this is what it wrote.
    #[error("build.sh failed ({status}). It said:\n{output}")]
    Failed {
        /// Its exit status.
        status: std::process::ExitStatus,
        /// Its standard error.
        output: String,
    },
}

/// Builds the kernels of one of the [`toolchains`] into this folder, as images/tiny/build.sh does.
pub fn rebuild(toolchain: [&'static str; 2], into: &Path) -> Result<Vec<Rebuilt>, RebuildError> {
    let mut record = RECORD.lines().skip(2 * toolchains().iter().take_while(|known| **known != toolchain).count());
    let mut line = || record.next().unwrap_or_default().to_owned();
    let recorded = Tools { compiler: line(), linker: line() };
    let tools = installed(toolchain)?;
    let called = |builtin: &Builtin| builtin.name.trim_start_matches("tiny/").to_string();
    let kernels: Vec<Rebuilt> = built_by(toolchain)
        .map(|builtin| {
            let file = into.join(format!("tiny-{}.elf", called(builtin)));
            Rebuilt { name: builtin.name, file, tools: tools.clone(), recorded: recorded.clone() }
        })
        .collect();
    let result = Command::new("sh")
        .arg(Path::new(SOURCES).join("build.sh"))
        .arg(into)
        .args(built_by(toolchain).map(called))
        .env_remove("CC")
        .env_remove("LD")
        .output()
        .map_err(|cause| RebuildError::NoTool { tool: "sh", cause })?;
    if !result.status.success() {
        let output = String::from_utf8_lossy(&result.stderr).into_owned();
        return Err(RebuildError::Failed { status: result.status, output });
    }
    Ok(kernels)
}

/// Compiler and linker of each group of kernels, in the order of the record.
pub fn toolchains() -> Vec<[&'static str; 2]> {
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
