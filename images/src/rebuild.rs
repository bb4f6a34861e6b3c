//! Building the tiny kernels from their sources again, and with which tools the committed files were built.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tiny");
const RECORD: &str = include_str!("../tiny/COMPILER");
const ADVICE: &str = "install gcc and GNU ld for x86 (Debian, Ubuntu: apt-get install gcc binutils)";

/// A compiler with its linker, and the kernels that it builds: names of built-in kernels, and what build.sh calls them.
struct Toolchain {
    compiler: &'static str,
    linker: &'static str,
    kernels: &'static [(&'static str, &'static str)],
}

/// In the order of the record. Only the first must be there.
const TOOLCHAINS: &[Toolchain] = &[
    Toolchain { compiler: "gcc", linker: "ld", kernels: &[("tiny/x86_64", "x86_64"), ("tiny/i386", "i386")] },
    Toolchain { compiler: "aarch64-linux-gnu-gcc", linker: "aarch64-linux-gnu-ld", kernels: &[("tiny/arm64", "arm64")] },
    Toolchain {
        compiler: "arm-linux-gnueabihf-gcc",
        linker: "arm-linux-gnueabihf-ld",
        kernels: &[("tiny/arm", "arm"), ("tiny/thumb2", "thumb2")],
    },
    Toolchain {
        compiler: "powerpc64le-linux-gnu-gcc",
        linker: "powerpc64le-linux-gnu-ld",
        kernels: &[("tiny/ppc64le", "ppc64le")],
    },
];

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
    for toolchain in TOOLCHAINS {
        let recorded = Tools { compiler: recorded.next().unwrap_or_default(), linker: recorded.next().unwrap_or_default() };
        let tools = match installed(toolchain) {
            Ok(tools) => tools,
            Err(RebuildError::NoTool { tool, .. }) if !wanted.is_empty() => {
                build.left_out.extend(toolchain.kernels.iter().map(|(name, _)| (*name, tool)));
                continue;
            }
            Err(error) => return Err(error),
        };
        for (name, called) in toolchain.kernels {
            wanted.push(*called);
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

fn installed(toolchain: &Toolchain) -> Result<Tools, RebuildError> {
    Ok(Tools { compiler: version_line(toolchain.compiler)?, linker: version_line(toolchain.linker)? })
}

fn version_line(tool: &'static str) -> Result<String, RebuildError> {
    let answer =
        Command::new(tool).arg("--version").env("LC_ALL", "C").output().map_err(|cause| RebuildError::NoTool { tool, cause })?;
    Ok(String::from_utf8_lossy(&answer.stdout).lines().next().unwrap_or_default().to_owned())
}
