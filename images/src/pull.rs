//! Downloads a stock kernel from its distribution with the system's apt, as an ordinary user.
//!
//! apt gets its own configuration, state and cache. The computer's are not changed, and only the proxy is read from them.
//! apt checks signatures and checksums. A kernel appears in the cache by one rename, when it is complete. A second pull
//! waits for the apt of the first.

mod apt;
mod debug;

use crate::stock::{self, Local, Stock, Wanted, is_suite, is_version};
use apt::Apt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The default archive. The environment variable `TRAPLINE_DEBIAN_MIRROR` names another one.
const MIRROR: &str = "http://deb.debian.org/debian";

/// Progress of a pull.
#[derive(Clone, Debug, PartialEq)]
pub enum Progress {
    /// A new step begins.
    Step(String),
    /// The percentage of the step that is done.
    Percent(f32),
    /// A warning for the user.
    Note(String),
}

/// The result of a pull.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pulled {
    /// The kernel.
    pub local: Local,
    /// It was in the cache already.
    pub was_there: bool,
}

/// The reason why a pull failed.
#[derive(Debug, thiserror::Error)]
pub enum PullError {
    /// A tool is not installed.
    #[error("`{tool}` cannot be run: {cause}")]
    NoTool {
        /// The name of the program.
        tool: String,
        /// The error of the operating system.
        cause: io::Error,
    },
    /// The archive cannot be reached.
    #[error("the archive {mirror} cannot be reached; apt says:\n{said}")]
    NoNetwork {
        /// The archive.
        mirror: String,
        /// apt's output.
        said: String,
    },
    /// A tool was terminated.
    #[error("`{tool}` was terminated before the download was complete")]
    Interrupted {
        /// The name of the program.
        tool: String,
    },
    /// The archive's signature cannot be checked.
    #[error("the archive's signature cannot be checked; apt says:\n{said}")]
    NoKey {
        /// apt's output.
        said: String,
    },
    /// The archive does not have this version.
    #[error("the archive has no {wanted}; it has {there}")]
    NoSuchVersion {
        /// The version that was asked for.
        wanted: String,
        /// The versions in the archive.
        there: String,
    },
    /// The archive has no such suite.
    #[error("the archive {mirror} has no suite called `{suite}`; apt says:\n{said}")]
    NoSuchSuite {
        /// The suite that was asked for.
        suite: String,
        /// The archive.
        mirror: String,
        /// apt's output.
        said: String,
    },
    /// The text is neither a version nor a suite.
    #[error("`{0}` is no version: it should look like 6.1.0-56, or be a suite such as trixie")]
    NotAVersion(String),
    /// No distribution has this kernel.
    #[error("`{}` is in no archive: there is no such kernel among Debian's", .0.name)]
    NotPacked(&'static Stock),
    /// A tool failed.
    #[error("{doing} failed; {tool} says:\n{said}")]
    Failed {
        /// The task of the tool.
        doing: String,
        /// The name of the program.
        tool: String,
        /// The messages that it has printed.
        said: String,
    },
    /// A package lacks the expected file.
    #[error("the package {package} has no {file}")]
    Incomplete {
        /// The name of the package.
        package: String,
        /// The missing file.
        file: String,
    },
    /// The cache cannot be written.
    #[error("the cache folder {folder} cannot be used: {cause}")]
    Cache {
        /// The folder of the cache.
        folder: PathBuf,
        /// The error of the operating system.
        cause: io::Error,
    },
}

impl PullError {
    /// Advice for the user.
    pub fn advice(&self) -> String {
        match self {
            PullError::NoTool { .. } => {
                "kernels are pulled with apt-get, apt-cache and dpkg-deb (Debian, Ubuntu); elsewhere unpack a linux-image package \
                 yourself, and pass the file (`trapline check path/to/vmlinuz`) or its folder (TRAPLINE_IMAGES)"
            }
            PullError::NoNetwork { .. } => {
                "check the network and the proxy (http_proxy), or set TRAPLINE_DEBIAN_MIRROR to another archive; what was \
                 downloaded is kept"
            }
            PullError::Interrupted { .. } => "run the pull again: it continues the download",
            PullError::NoKey { .. } => "install Debian's keys: apt-get install debian-archive-keyring",
            PullError::NoSuchVersion { .. } => {
                "old versions leave the archive; leave out @VERSION for the newest of Debian 12, or name another suite: @bullseye, @trixie, @sid"
            }
            PullError::NoSuchSuite { .. } => {
                "suites are bullseye, bookworm, trixie, sid, their backports such as trixie-backports, and experimental; old ones leave the \
                 archive: TRAPLINE_DEBIAN_MIRROR may name one that keeps them, such as http://archive.debian.org/debian"
            }
            PullError::NotPacked(stock) => {
                let script = stock.built_by();
                return format!("run {script} from trapline's sources to build it from Debian's packages, then add its folder to TRAPLINE_IMAGES");
            }
            PullError::NotAVersion(_) => "as in debian/amd64@6.1.0-56, debian/amd64@6.12.95+deb12, debian/i386@6.1.0-50-686-pae or debian/amd64@sid; leave out @VERSION for the newest",
            PullError::Failed { .. } | PullError::Incomplete { .. } => "run the pull again; no incomplete kernel is left behind",
            PullError::Cache { .. } => "set XDG_CACHE_HOME to use another folder",
        }
        .to_string()
    }
}

/// Downloads kernels; holds the folders and tools to use.
#[derive(Clone, Debug)]
pub struct Puller {
    /// The folder for kernels.
    pub cache: PathBuf,
    /// The archive.
    pub mirror: String,
    /// A folder with apt-get, apt-cache, apt-config and dpkg-deb; `None` means `PATH`.
    pub tools: Option<PathBuf>,
    /// Whether to keep the kernel's modules too.
    pub modules: bool,
}

impl Puller {
    /// A puller for this cache, with the system's tools and the archive named in the environment.
    pub fn new(cache: PathBuf) -> Puller {
        let named = std::env::var("TRAPLINE_DEBIAN_MIRROR").ok().filter(|mirror| !mirror.is_empty());
        let mirror = named.unwrap_or_else(|| MIRROR.to_string()).trim_end_matches('/').to_string();
        Puller { cache, mirror, tools: None, modules: false }
    }

    /// Downloads a kernel and its busybox into the cache, unless they are there.
    pub fn pull(&self, wanted: &Wanted, report: &mut dyn FnMut(Progress)) -> Result<Pulled, PullError> {
        if let Some(version) = wanted.version.as_deref().filter(|version| !is_version(version) && !is_suite(version)) {
            return Err(PullError::NotAVersion(version.to_string()));
        }
        if !wanted.stock.is_packed() {
            return Err(PullError::NotPacked(wanted.stock));
        }
        let folders = std::slice::from_ref(&self.cache);
        let complete = |local: &Local| local.busybox.is_some() && (!self.modules || local.modules().is_some());
        // A suite's newest may be a newer one by now.
        if wanted.version.is_some()
            && wanted.suite().is_none()
            && let Some(local) = stock::locate(wanted, folders).filter(complete)
        {
            return Ok(Pulled { local, was_there: true });
        }
        let apt = Apt::new(self, wanted)?;
        apt.update(report)?;
        let version = apt.version(wanted)?;
        let exactly = Wanted { stock: wanted.stock, version: Some(version.clone()) };
        let noted = |local: Local| match wanted.suite().map(|suite| local.note_suite(suite)) {
            Some(Err(cause)) => Err(self.unusable(cause)),
            _ => Ok(local),
        };
        if let Some(local) = stock::locate(&exactly, folders).filter(complete) {
            return Ok(Pulled { local: noted(local)?, was_there: true });
        }
        self.remove_leftovers();
        let release = wanted.stock.release(&version);
        let work = self.cache.join(format!("{LEFTOVER}{}", std::process::id()));
        let fetched = self.fetch_folder(&release, &work);
        let result =
            apt.fetch(&release, &fetched, report).and_then(|()| apt.unpack(wanted.stock, &release, &fetched, &work, report));
        let removed = if work.exists() { fs::remove_dir_all(&work) } else { Ok(()) };
        if !matches!(result, Err(PullError::NoNetwork { .. } | PullError::Interrupted { .. })) {
            // Complete or unusable. It may be in the work folder, which is already removed.
            let _ = fs::remove_dir_all(&fetched);
        }
        result?;
        removed.map_err(|cause| self.unusable(cause))?;
        let local = stock::locate(&exactly, folders).ok_or_else(|| self.unusable(io::ErrorKind::NotFound.into()))?;
        Ok(Pulled { local: noted(local)?, was_there: false })
    }

    fn unusable(&self, cause: io::Error) -> PullError {
        PullError::Cache { folder: self.cache.clone(), cause }
    }

    /// The download folder of a release. It survives an interrupted pull, so that apt can continue. If another pull
    /// uses it, a folder of this pull's own.
    fn fetch_folder(&self, release: &str, work: &Path) -> PathBuf {
        let folder = self.cache.join(format!("{FETCH}{release}"));
        let (owner, me) = (folder.join(OWNER), std::process::id().to_string());
        let is_taken = fs::read_to_string(&owner).is_ok_and(|owner| owner != me && is_running(&owner));
        let mine = || fs::create_dir_all(&folder).and_then(|()| fs::write(&owner, &me));
        if !is_taken && mine().is_ok() { folder } else { work.join("fetched") }
    }

    /// Removes the work folders of interrupted pulls. Downloads stay.
    fn remove_leftovers(&self) {
        for entry in fs::read_dir(&self.cache).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let owner = name.to_str().and_then(|name| name.strip_prefix(LEFTOVER));
            if owner.is_some_and(|owner| !is_running(owner)) {
                // If it fails, the folder does no harm, and the next pull tries again.
                let _ = fs::remove_dir_all(entry.path());
            }
        }
    }
}

/// Prefix of work folders; the number of the process follows.
const LEFTOVER: &str = ".pull-";
/// Prefix of download folders; the release follows. A file in it has the number of the process that uses it.
const FETCH: &str = ".fetch-";
const OWNER: &str = "owner";

fn is_running(process: &str) -> bool {
    process.parse::<u32>().is_ok_and(|process| Path::new(&format!("/proc/{process}")).exists())
}
