//! Building the tiny kernel from its sources again, and with which tools the committed files were built.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tiny");
const RECORD: &str = include_str!("../tiny/COMPILER");
const ADVICE: &str = "install gcc and GNU ld for x86 (Debian, Ubuntu: apt-get install gcc binutils)";

/// The tools that decide the bytes of the result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tools {
    /// First line of `gcc --version`.
    pub compiler: String,
    /// First line of `ld --version`.
    pub linker: String,
}

/// What a build gave.
#[derive(Clone, Debug)]
pub struct Rebuilt {
    /// The tools that were used.
    pub tools: Tools,
    /// Name of the built-in kernel, and the file that was built for it.
    pub kernels: Vec<(&'static str, PathBuf)>,
}

impl Rebuilt {
    /// Whether the result must be the committed files, byte for byte.
    pub fn tools_are_the_recorded_ones(&self) -> bool {
        self.tools == recorded_tools()
    }
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

/// The tools that built the committed files (images/tiny/COMPILER).
pub fn recorded_tools() -> Tools {
    let mut lines = RECORD.lines().map(str::to_owned);
    Tools { compiler: lines.next().unwrap_or_default(), linker: lines.next().unwrap_or_default() }
}

/// The tools of this computer.
pub fn installed_tools() -> Result<Tools, RebuildError> {
    Ok(Tools { compiler: version_line("gcc")?, linker: version_line("ld")? })
}

/// Builds both kernels into this folder, as images/tiny/build.sh does.
pub fn rebuild(into: &Path) -> Result<Rebuilt, RebuildError> {
    let tools = installed_tools()?;
    let result = Command::new("sh")
        .arg(Path::new(SOURCES).join("build.sh"))
        .arg(into)
        .env_remove("CC")
        .env_remove("LD")
        .output()
        .map_err(|cause| RebuildError::NoTool { tool: "sh", cause })?;
    if !result.status.success() {
        let output = String::from_utf8_lossy(&result.stderr).into_owned();
        return Err(RebuildError::Failed { status: result.status, output });
    }
    let kernels = [("tiny/x86_64", "tiny-x86_64.elf"), ("tiny/i386", "tiny-i386.elf")];
    Ok(Rebuilt { tools, kernels: kernels.map(|(name, file)| (name, into.join(file))).to_vec() })
}

fn version_line(tool: &'static str) -> Result<String, RebuildError> {
    let answer =
        Command::new(tool).arg("--version").env("LC_ALL", "C").output().map_err(|cause| RebuildError::NoTool { tool, cause })?;
    Ok(String::from_utf8_lossy(&answer.stdout).lines().next().unwrap_or_default().to_owned())
}
