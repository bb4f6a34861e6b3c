//! Stock kernels by name, `debian/amd64` or `debian/amd64@6.1.0-56`, and where they lie on this computer.
//!
//! Folders listed in `TRAPLINE_IMAGES` are searched first, then the cache that `pull` fills; both have the same layout:
//! `<release>/vmlinuz-<release>[.xz]` and `busybox/busybox-<architecture>`.

use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A kernel that is pulled from its distribution.
#[derive(Debug)]
pub struct Stock {
    /// As on the command line.
    pub name: &'static str,
    /// One line for people.
    pub description: &'static str,
    /// What the distribution calls the architecture.
    pub architecture: &'static str,
    /// The package that depends on the newest kernel.
    pub newest: &'static str,
    /// How names of its releases end: `6.1.0-56-amd64`.
    pub flavour: &'static str,
    /// The command line that it boots with unless told otherwise.
    pub command_line: &'static str,
}

const COMMAND_LINE: &str = "console=ttyS0 panic=-1 reboot=k nokaslr";
/// The tests of the ciphers are most of these kernels' boot (lab/arm.md 12).
const ARM_COMMAND_LINE: &str = "earlycon=pl011,mmio32,0x9000000 console=ttyAMA0 panic=-1 cryptomgr.notests=1";

static STOCKS: [Stock; 4] = [
    Stock {
        name: "debian/amd64",
        description: "Debian 12's kernel for x86_64, with busybox",
        architecture: "amd64",
        newest: "linux-image-amd64",
        flavour: "amd64",
        command_line: COMMAND_LINE,
    },
    Stock {
        name: "debian/i386",
        description: "Debian 12's kernel for i386 (686, without PAE), with busybox",
        architecture: "i386",
        newest: "linux-image-686",
        flavour: "686",
        command_line: COMMAND_LINE,
    },
    Stock {
        name: "debian/arm64",
        description: "Debian 12's kernel for arm64, with busybox",
        architecture: "arm64",
        newest: "linux-image-arm64",
        flavour: "arm64",
        command_line: ARM_COMMAND_LINE,
    },
    Stock {
        name: "debian/armhf",
        description: "Debian 12's kernel for 32-bit ARM (armmp, A32), with busybox",
        architecture: "armhf",
        newest: "linux-image-armmp",
        flavour: "armmp",
        command_line: ARM_COMMAND_LINE,
    },
];

/// All of them.
pub fn stocks() -> &'static [Stock] {
    &STOCKS
}

/// A stock kernel, and perhaps which version of it.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Which kernel.
    pub stock: &'static Stock,
    /// `6.1.0-56`; otherwise the newest.
    pub version: Option<String>,
}

impl Wanted {
    /// What a name stands for; `None` if it is no stock kernel's. The version may be written with its flavour.
    pub fn parse(name: &str) -> Option<Wanted> {
        let (name, version) = match name.split_once('@') {
            Some((name, version)) => (name, Some(version)),
            None => (name, None),
        };
        let stock = STOCKS.iter().find(|stock| stock.name == name)?;
        let version = version.map(|version| stock.version_of(version).unwrap_or(version).to_string());
        Some(Wanted { stock, version })
    }

    /// As on the command line.
    pub fn name(&self) -> String {
        match &self.version {
            Some(version) => format!("{}@{version}", self.stock.name),
            None => self.stock.name.to_string(),
        }
    }
}

impl Stock {
    /// The version in a release's name, `6.1.0-56` in `6.1.0-56-amd64`; `None` for other flavours.
    pub fn version_of<'a>(&self, release: &'a str) -> Option<&'a str> {
        let version = release.strip_suffix(self.flavour)?.strip_suffix('-')?;
        is_version(version).then_some(version)
    }

    /// `6.1.0-56-amd64`
    pub fn release(&self, version: &str) -> String {
        format!("{version}-{}", self.flavour)
    }
}

/// Digits, dots and dashes: nothing that could lead out of a folder or be taken for an option.
pub(crate) fn is_version(text: &str) -> bool {
    text.starts_with(|letter: char| letter.is_ascii_digit())
        && text.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'-'))
}

/// By number, part by part.
pub(crate) fn order(version: &str) -> Vec<u64> {
    version.split(['.', '-']).map(|part| part.parse().unwrap_or(0)).collect()
}

/// A stock kernel on this computer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Local {
    /// `6.1.0-56`
    pub version: String,
    /// The file to boot.
    pub kernel: PathBuf,
    /// The program that its initramfs is made of, if it is there too.
    pub busybox: Option<PathBuf>,
    /// The folder in which it was found.
    pub folder: PathBuf,
}

/// The folder beside a kernel with its modules, as in its package.
pub(crate) const MODULES: &str = "modules";

impl Local {
    /// The folder with its modules, if they are there.
    pub fn modules(&self) -> Option<PathBuf> {
        let folder = self.kernel.parent()?.join(MODULES);
        folder.is_dir().then_some(folder)
    }

    /// The file of a module of that name, in which `-` and `_` are one letter to the kernel.
    pub fn module(&self, name: &str) -> Option<PathBuf> {
        let name = name.replace('-', "_");
        let mut folders = vec![self.modules()?];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                let path = entry.path();
                let file = entry.file_name().to_string_lossy().replace('-', "_");
                let stem = file.split(".ko").next().unwrap_or_default();
                match entry.file_type() {
                    Ok(kind) if kind.is_dir() => folders.push(path),
                    Ok(kind) if kind.is_file() && stem == name && stem.len() < file.len() => return Some(path),
                    _ => {}
                }
            }
        }
        None
    }
}

/// Where `pull` puts kernels: `trapline/images` in the user's cache (`XDG_CACHE_HOME`, or `.cache` in the home).
pub fn cache_folder() -> Option<PathBuf> {
    let absolute = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")))?;
    Some(cache.join("trapline/images"))
}

/// The folders that are searched, in that order.
pub fn folders() -> Vec<PathBuf> {
    let listed = env::var_os("TRAPLINE_IMAGES");
    let listed = listed.iter().flat_map(env::split_paths).filter(|path| !path.as_os_str().is_empty());
    listed.chain(cache_folder()).collect()
}

/// The kernel that is wanted: in the first folder that has it, the newest version there unless one was named.
pub fn locate(wanted: &Wanted, folders: &[PathBuf]) -> Option<Local> {
    folders.iter().find_map(|folder| {
        let versions = versions(wanted.stock, folder).into_iter();
        versions.rev().find(|local| wanted.version.as_ref().is_none_or(|version| *version == local.version))
    })
}

/// All versions in a folder, the newest last.
pub fn versions(stock: &Stock, folder: &Path) -> Vec<Local> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<Local> = entries
        .filter_map(|entry| {
            let release = entry.file_name().into_string().ok()?;
            let version = stock.version_of(&release)?.to_string();
            let names =
                ["vmlinuz", "vmlinux"].into_iter().flat_map(|stem| ["", ".xz"].map(|end| format!("{stem}-{release}{end}")));
            let kernel = names.map(|name| entry.path().join(name)).find(|file| file.is_file())?;
            let busybox = Some(busybox(stock, folder)).filter(|file| file.is_file());
            Some(Local { version, kernel, busybox, folder: folder.to_path_buf() })
        })
        .collect();
    found.sort_by_key(|local| order(&local.version));
    found
}

/// Where the program for the initramfs lies.
pub(crate) fn busybox(stock: &Stock, folder: &Path) -> PathBuf {
    folder.join("busybox").join(format!("busybox-{}", stock.architecture))
}

/// Takes a kernel, or all its versions, out of the cache. Says which versions went.
pub fn remove(wanted: &Wanted, cache: &Path) -> io::Result<Vec<String>> {
    let all = versions(wanted.stock, cache);
    let (goes, stays): (Vec<Local>, Vec<Local>) =
        all.into_iter().partition(|local| wanted.version.as_ref().is_none_or(|version| *version == local.version));
    for local in &goes {
        // Renamed first: a removal that is interrupted leaves no kernel with a part missing.
        let folder = cache.join(wanted.stock.release(&local.version));
        let going = cache.join(format!(".going-{}-{}", std::process::id(), local.version));
        fs::rename(&folder, &going)?;
        fs::remove_dir_all(&going)?;
    }
    if stays.is_empty() && !goes.is_empty() {
        let busybox = busybox(wanted.stock, cache);
        if busybox.exists() {
            fs::remove_file(busybox)?;
        }
    }
    Ok(goes.into_iter().map(|local| local.version).collect())
}
