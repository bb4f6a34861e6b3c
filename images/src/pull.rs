//! Pulling a stock kernel from its distribution by the system's apt, as an ordinary user.
//!
//! apt gets a configuration, a state and a cache of its own, so that the computer's own are neither read (its proxy
//! apart) nor changed. apt checks signatures and checksums. A kernel appears in the cache by one rename, when all of it
//! is there.
//!
//! A second pull waits for the apt of the first.

mod apt;

use crate::stock::{self, Local, Stock, Wanted, is_version};
use apt::Apt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The archive of Debian 12; another one may be named in `TRAPLINE_DEBIAN_MIRROR`.
const MIRROR: &str = "http://deb.debian.org/debian";

/// How a pull goes on.
#[derive(Clone, Debug, PartialEq)]
pub enum Progress {
    /// A new step begins.
    Step(String),
    /// So much of the step is done.
    Percent(f32),
    /// Something that people should know, and no error.
    Note(String),
}

/// What a pull did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pulled {
    /// The kernel.
    pub local: Local,
    /// It was in the cache already.
    pub was_there: bool,
}

/// Why there is no kernel.
#[derive(Debug, thiserror::Error)]
pub enum PullError {
    /// A tool is not installed.
    #[error("`{tool}` cannot be run: {cause}")]
    NoTool {
        /// Its name.
        tool: String,
        /// What the system says.
        cause: io::Error,
    },
    /// The archive cannot be reached.
    #[error("the archive {mirror} cannot be reached; apt says:\n{said}")]
    NoNetwork {
        /// The archive.
        mirror: String,
        /// apt's own words.
        said: String,
    },
    /// A tool was told to end.
    #[error("`{tool}` was told to end before it had fetched everything")]
    Interrupted {
        /// Its name.
        tool: String,
    },
    /// The archive's signature cannot be checked.
    #[error("the archive's signature cannot be checked; apt says:\n{said}")]
    NoKey {
        /// apt's own words.
        said: String,
    },
    /// The archive does not have it.
    #[error("the archive has no {wanted}; it has {there}")]
    NoSuchVersion {
        /// What was asked for.
        wanted: String,
        /// The versions that could be had.
        there: String,
    },
    /// Something that is neither a release's name nor part of one.
    #[error("`{0}` is no version: it should look like 6.1.0-56")]
    NotAVersion(String),
    /// No distribution has it.
    #[error("`{}` is in no archive: there is no such kernel among Debian's", .0.name)]
    NotPacked(&'static Stock),
    /// A tool failed.
    #[error("{doing} failed; {tool} says:\n{said}")]
    Failed {
        /// What it was to do.
        doing: String,
        /// Its name.
        tool: String,
        /// Its own words.
        said: String,
    },
    /// A package without the file that makes it useful.
    #[error("the package {package} has no {file}")]
    Incomplete {
        /// The name of the package.
        package: String,
        /// What is missing.
        file: String,
    },
    /// The cache cannot be written.
    #[error("the cache folder {folder} cannot be used: {cause}")]
    Cache {
        /// The folder of the cache.
        folder: PathBuf,
        /// What the system says.
        cause: io::Error,
    },
}

impl PullError {
    /// What to do about it.
    pub fn advice(&self) -> String {
        match self {
            PullError::NoTool { .. } => {
                "kernels are pulled with apt-get, apt-cache and dpkg-deb (Debian, Ubuntu); elsewhere unpack a linux-image package \
                 yourself: `trapline check path/to/vmlinuz` takes the file, TRAPLINE_IMAGES a folder of such"
            }
            PullError::NoNetwork { .. } => {
                "check the network and the proxy (http_proxy), or name a nearer archive in TRAPLINE_DEBIAN_MIRROR; what has been \
                 fetched is kept"
            }
            PullError::Interrupted { .. } => "the next pull goes on where this one has ended",
            PullError::NoKey { .. } => "install Debian's keys: apt-get install debian-archive-keyring",
            PullError::NoSuchVersion { .. } => "old versions leave the archive; leave out @VERSION for the newest",
            PullError::NotPacked(stock) => {
                let script = stock.built_by();
                return format!("{script} in trapline's sources builds it from Debian's packages; its folder goes into TRAPLINE_IMAGES");
            }
            PullError::NotAVersion(_) => "as in debian/amd64@6.1.0-56, debian/amd64@6.12.95+deb12 or debian/i386@6.1.0-50-686-pae; leave out @VERSION for the newest",
            PullError::Failed { .. } | PullError::Incomplete { .. } => "try it again; nothing half-made is left behind",
            PullError::Cache { .. } => "XDG_CACHE_HOME may name another place for caches",
        }
        .to_string()
    }
}

/// The tools and places of a pull.
#[derive(Clone, Debug)]
pub struct Puller {
    /// Where kernels go.
    pub cache: PathBuf,
    /// The archive.
    pub mirror: String,
    /// A folder with apt-get, apt-cache, apt-config and dpkg-deb; otherwise they are looked for in `PATH`.
    pub tools: Option<PathBuf>,
    /// Keeps the kernel's modules too.
    pub modules: bool,
}

impl Puller {
    /// Into this cache, with the system's tools, from the archive that the environment names.
    pub fn new(cache: PathBuf) -> Puller {
        let named = std::env::var("TRAPLINE_DEBIAN_MIRROR").ok().filter(|mirror| !mirror.is_empty());
        let mirror = named.unwrap_or_else(|| MIRROR.to_string()).trim_end_matches('/').to_string();
        Puller { cache, mirror, tools: None, modules: false }
    }

    /// Brings a kernel and its busybox into the cache, unless they are there.
    pub fn pull(&self, wanted: &Wanted, report: &mut dyn FnMut(Progress)) -> Result<Pulled, PullError> {
        if let Some(version) = wanted.version.as_deref().filter(|version| !is_version(version)) {
            return Err(PullError::NotAVersion(version.to_string()));
        }
        if !wanted.stock.is_packed() {
            return Err(PullError::NotPacked(wanted.stock));
        }
        let folders = std::slice::from_ref(&self.cache);
        let complete = |local: &Local| local.busybox.is_some() && (!self.modules || local.modules().is_some());
        if wanted.version.is_some()
            && let Some(local) = stock::locate(wanted, folders).filter(complete)
        {
            return Ok(Pulled { local, was_there: true });
        }
        let apt = Apt::new(self, wanted)?;
        apt.update(report)?;
        let version = apt.version(wanted)?;
        let exactly = Wanted { stock: wanted.stock, version: Some(version.clone()) };
        if let Some(local) = stock::locate(&exactly, folders).filter(complete) {
            return Ok(Pulled { local, was_there: true });
        }
        self.remove_leftovers();
        let release = wanted.stock.release(&version);
        let work = self.cache.join(format!("{LEFTOVER}{}", std::process::id()));
        let fetched = self.fetch_folder(&release, &work);
        let result =
            apt.fetch(&release, &fetched, report).and_then(|()| apt.unpack(wanted.stock, &release, &fetched, &work, report));
        let removed = if work.exists() { fs::remove_dir_all(&work) } else { Ok(()) };
        if !matches!(result, Err(PullError::NoNetwork { .. } | PullError::Interrupted { .. })) {
            // Done with, or not what it should be. It may lie in the other folder, which is gone.
            let _ = fs::remove_dir_all(&fetched);
        }
        result?;
        removed.map_err(|cause| self.unusable(cause))?;
        let local = stock::locate(&exactly, folders).ok_or_else(|| self.unusable(io::ErrorKind::NotFound.into()))?;
        Ok(Pulled { local, was_there: false })
    }

    fn unusable(&self, cause: io::Error) -> PullError {
        PullError::Cache { folder: self.cache.clone(), cause }
    }

    /// Where packages are fetched to: a folder that outlives an interruption, in which apt finds what it has, unless
    /// another pull is at it.
    fn fetch_folder(&self, release: &str, work: &Path) -> PathBuf {
        let folder = self.cache.join(format!("{FETCH}{release}"));
        let (owner, me) = (folder.join(OWNER), std::process::id().to_string());
        let is_taken = fs::read_to_string(&owner).is_ok_and(|owner| owner != me && is_running(&owner));
        let mine = || fs::create_dir_all(&folder).and_then(|()| fs::write(&owner, &me));
        if !is_taken && mine().is_ok() { folder } else { work.join("fetched") }
    }

    /// What pulls that were interrupted have left, apart from what has been fetched.
    fn remove_leftovers(&self) {
        for entry in fs::read_dir(&self.cache).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let owner = name.to_str().and_then(|name| name.strip_prefix(LEFTOVER));
            if owner.is_some_and(|owner| !is_running(owner)) {
                // Whatever stays is in nobody's way, and the next pull tries again.
                let _ = fs::remove_dir_all(entry.path());
            }
        }
    }
}

/// Folders of pulls that have not ended: this and the process.
const LEFTOVER: &str = ".pull-";
/// Folders in which packages are fetched: this and the release. The process that fetches stands in a file there.
const FETCH: &str = ".fetch-";
const OWNER: &str = "owner";

fn is_running(process: &str) -> bool {
    process.parse::<u32>().is_ok_and(|process| Path::new(&format!("/proc/{process}")).exists())
}
