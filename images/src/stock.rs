//! The catalogue of stock kernels, and the search for them on this computer.
//!
//! A name is `debian/amd64`, `debian/amd64@6.1.0-56`, `debian/i386-pae`, `debian/i386@6.1.0-50-686-pae` or
//! `debian/amd64@sid`. No distribution has `linux/ppc` and `linux/mips`; scripts in `images/` build them. Folders in
//! `TRAPLINE_IMAGES` are searched first, then the cache that [`Puller`](crate::Puller) fills. Both have the layout
//! `<release>/vmlinuz-<release>[.xz]` and `busybox/busybox-<architecture>`.

use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A stock kernel: an unmodified kernel of a distribution.
#[derive(Debug)]
pub struct Stock {
    /// The name on the command line.
    pub name: &'static str,
    /// A one-line description for lists.
    pub description: &'static str,
    /// The architecture in the distribution's words.
    pub architecture: &'static str,
    /// The package that depends on the newest kernel; empty if there is none.
    pub newest: &'static str,
    /// The end of its release names: `amd64` in `6.1.0-56-amd64`.
    pub flavour: &'static str,
    /// The default kernel command line.
    pub command_line: &'static str,
    /// The suite of the archive whose kernel a name without a version stands for.
    pub suite: &'static str,
}

const COMMAND_LINE: &str = "console=ttyS0 panic=-1 reboot=k nokaslr";
/// Self-tests of the ciphers would take most of the boot time.
const ARM_COMMAND_LINE: &str = "earlycon=pl011,mmio32,0x9000000 console=ttyAMA0 panic=-1 cryptomgr.notests=1";

/// The first kernel of an architecture is its default.
#[rustfmt::skip]
static STOCKS: [Stock; 21] = [
    // name                     architecture    flavour             newest                      description
    stock("debian/amd64",       "amd64",        "amd64",            "linux-image-amd64",        "Debian 12's kernel for x86_64, with busybox"),
    stock("debian/i386",        "i386",         "686",              "linux-image-686",          "Debian 12's kernel for i386 (686, without PAE), with busybox"),
    stock("debian/arm64",       "arm64",        "arm64",            "linux-image-arm64",        "Debian 12's kernel for arm64, with busybox"),
    stock("debian/armhf",       "armhf",        "armmp",            "linux-image-armmp",        "Debian 12's kernel for 32-bit ARM (armmp, A32), with busybox"),
    stock("debian/ppc64el",    "ppc64el",      "powerpc64le",      "linux-image-powerpc64le",  "Debian 12's kernel for 64-bit PowerPC (ppc64el), with busybox"),
    stock("debian/s390x",       "s390x",        "s390x",            "linux-image-s390x",        "Debian 12's kernel for z/Architecture (s390x), with busybox"),
    stock("debian/riscv64",     "riscv64",      "riscv64",          "linux-image-riscv64",      "Debian 13's kernel for 64-bit RISC-V, with busybox"),
    stock("debian/mipsel",      "mipsel",       "4kc-malta",        "linux-image-4kc-malta",    "Debian 12's kernel for 32-bit little-endian MIPS (4kc-malta), with busybox"),
    stock("debian/mips64el",    "mips64el",     "5kc-malta",        "linux-image-5kc-malta",    "Debian 12's kernel for 64-bit little-endian MIPS (5kc-malta), with busybox"),
    stock("debian/amd64-cloud", "amd64",        "cloud-amd64",      "linux-image-cloud-amd64",  "Debian 12's kernel for x86_64 in clouds: fewer drivers"),
    stock("debian/amd64-rt",    "amd64",        "rt-amd64",         "linux-image-rt-amd64",     "Debian 12's kernel for x86_64 with PREEMPT_RT"),
    stock("debian/i386-pae",    "i386",         "686-pae",          "linux-image-686-pae",      "Debian 12's kernel for i386 with PAE and NX"),
    stock("debian/i386-rt",     "i386",         "rt-686-pae",       "linux-image-rt-686-pae",   "Debian 12's kernel for i386 with PAE, NX and PREEMPT_RT"),
    stock("debian/arm64-cloud", "arm64",        "cloud-arm64",      "linux-image-cloud-arm64",  "Debian 12's kernel for arm64 in clouds: fewer drivers"),
    stock("debian/arm64-rt",    "arm64",        "rt-arm64",         "linux-image-rt-arm64",     "Debian 12's kernel for arm64 with PREEMPT_RT"),
    stock("debian/armhf-lpae",  "armhf",        "armmp-lpae",       "linux-image-armmp-lpae",   "Debian 12's kernel for 32-bit ARM with LPAE page tables"),
    stock("debian/armhf-rt",    "armhf",        "rt-armmp",         "linux-image-rt-armmp",     "Debian 12's kernel for 32-bit ARM with PREEMPT_RT"),
    stock("debian/arm64-16k",   "arm64",        "arm64-16k",        "linux-image-arm64-16k",    "Debian's kernel for arm64 with pages of 16 KiB, from Debian 12's backports on"),
    stock("debian/ppc64el-64k", "ppc64el",      "powerpc64le-64k",  "linux-image-powerpc64le-64k", "Debian's kernel for 64-bit PowerPC with pages of 64 KiB, from Debian 12's backports on"),
    stock("linux/mips",         "mips",         "small-malta",      NO_PACKAGE,                 "a small Linux for 32-bit big-endian MIPS, in no distribution: images/linux-mips/build.sh builds it, with busybox"),
    stock("linux/ppc",          "powerpc",      "powerpc",          NO_PACKAGE,                 "a small Linux for 32-bit PowerPC, in no distribution: images/linux-ppc/build.sh builds it, with busybox"),
];

/// Marks a kernel without a package, which a script builds.
pub(crate) const NO_PACKAGE: &str = "";

/// hvc0 is OPAL's console.
const POWERPC_COMMAND_LINE: &str = "console=hvc0 panic=-1 cryptomgr.notests=1";

/// ttysclp0 is the service processor's console.
const Z_COMMAND_LINE: &str = "console=ttysclp0 panic=-1 nokaslr cryptomgr.notests=1";

/// The Wii has no serial port, but our board does.
const WII_COMMAND_LINE: &str = "console=ttyS0 panic=-1";

/// `nokaslr`: a randomized kernel would not be at its link address.
const MIPS_COMMAND_LINE: &str = "console=ttyS0 panic=-1 nokaslr cryptomgr.notests=1";

/// Linux 6.12 would use five levels of page tables, which take longer to walk and give nothing here.
const RISCV_COMMAND_LINE: &str = "console=ttyS0 panic=-1 nokaslr no4lvl cryptomgr.notests=1";

const fn stock(
    name: &'static str,
    architecture: &'static str,
    flavour: &'static str,
    newest: &'static str,
    description: &'static str,
) -> Stock {
    Stock {
        name,
        description,
        architecture,
        newest,
        flavour,
        command_line: command_line(architecture),
        suite: suite(architecture),
    }
}

/// The suite of the first release with this architecture that trapline knows. Debian 12 has no RISC-V.
const fn suite(architecture: &str) -> &'static str {
    match architecture.as_bytes() {
        b"riscv64" => "trixie",
        _ => SUITE,
    }
}

/// The default command line of a stock kernel, by the distribution's name of the architecture.
pub const fn command_line(architecture: &str) -> &'static str {
    match architecture.as_bytes() {
        b"arm64" | b"armhf" => ARM_COMMAND_LINE,
        b"ppc64el" | b"ppc64" => POWERPC_COMMAND_LINE,
        b"s390x" => Z_COMMAND_LINE,
        b"powerpc" => WII_COMMAND_LINE,
        b"riscv64" => RISCV_COMMAND_LINE,
        b"mipsel" | b"mips64el" | b"mips" | b"mips64" => MIPS_COMMAND_LINE,
        _ => COMMAND_LINE,
    }
}

/// The whole catalogue.
pub fn stocks() -> &'static [Stock] {
    &STOCKS
}

/// A stock kernel that was asked for, perhaps with a version.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The kernel.
    pub stock: &'static Stock,
    /// The version, such as `6.1.0-56`, or a suite of the archive, such as `trixie`, for its newest; `None` means the newest of
    /// Debian 12.
    pub version: Option<String>,
}

impl Wanted {
    /// Parses a name; `None` if it is not that of a stock kernel. The version may include a flavour, even that of another
    /// kernel of the same architecture.
    pub fn parse(name: &str) -> Option<Wanted> {
        let (name, version) = match name.split_once('@') {
            Some((name, version)) => (name, Some(version)),
            None => (name, None),
        };
        let named = STOCKS.iter().find(|stock| stock.name == name)?;
        let Some(version) = version else { return Some(Wanted { stock: named, version: None }) };
        let mut same = STOCKS.iter().filter(|stock| stock.architecture == named.architecture);
        let (stock, version) = same.find_map(|stock| Some((stock, stock.version_of(version)?))).unwrap_or((named, version));
        Some(Wanted { stock, version: Some(version.to_string()) })
    }

    /// The suite of the archive that was named instead of a version.
    pub fn suite(&self) -> Option<&str> {
        self.version.as_deref().filter(|version| is_suite(version))
    }

    /// The suites in which it is to be found.
    pub(crate) fn suites(&self) -> Vec<String> {
        match &self.version {
            Some(version) => suites_of(Some(version)),
            None => vec![self.stock.suite.to_string()],
        }
    }

    /// The name on the command line.
    pub fn name(&self) -> String {
        match &self.version {
            Some(version) => format!("{}@{version}", self.stock.name),
            None => self.stock.name.to_string(),
        }
    }
}

impl Stock {
    /// Whether a version belongs to the suite of this kernel, and is no backport.
    fn is_usual(&self, version: &str) -> bool {
        let first = suites_of(Some(version)).first().is_some_and(|first| first == self.suite);
        !self.is_packed() || first && (self.suite != SUITE || !names_release(version))
    }

    /// Whether a distribution has a package of it.
    pub fn is_packed(&self) -> bool {
        self.newest != NO_PACKAGE
    }

    /// The script in trapline's sources that builds a kernel without a package.
    pub fn built_by(&self) -> String {
        format!("images/{}/build.sh", self.name.replace('/', "-"))
    }

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

/// Whether a text may be a version: digits, dots, dashes and the release of Debian. So it cannot be a path or an option.
pub(crate) fn is_version(text: &str) -> bool {
    let rest = match debian_release(text) {
        Some(_) => text.replacen(RELEASE, "", 1),
        None => text.to_string(),
    };
    text.starts_with(|letter: char| letter.is_ascii_digit())
        && rest.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'-' | b'+'))
}

/// Whether this can be a suite's name, of small letters and dashes: `sid`, `trixie-backports`.
pub(crate) fn is_suite(text: &str) -> bool {
    text.starts_with(|letter: char| letter.is_ascii_lowercase())
        && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-')
        && text.len() <= LONGEST_SUITE
}

const LONGEST_SUITE: usize = 40;

/// In front of the number of a release of Debian: `6.12.95+deb12`, `6.5.0-0.deb12.4`.
const RELEASE: &str = "deb";

/// The release of Debian that a version names.
fn debian_release(version: &str) -> Option<u32> {
    let (_, behind) = version.split_once(RELEASE)?;
    let digits = behind.bytes().take_while(u8::is_ascii_digit).count();
    behind[..digits].parse().ok()
}

/// The default suite.
pub(crate) const SUITE: &str = "bookworm";

/// Whether a version names a release of Debian. Kernels that were released with Debian 12 name none.
fn names_release(version: &str) -> bool {
    debian_release(version).is_some()
}

/// The suites in which a version is to be found.
pub(crate) fn suites_of(version: Option<&str>) -> Vec<String> {
    let suites: &[&str] = match version {
        Some(suite) if is_suite(suite) => return with_base(suite),
        Some(version) if version.starts_with("5.10.0-") => &["bullseye"],
        Some(version) => match debian_release(version) {
            Some(11) => &["bullseye"],
            Some(12) => &[SUITE, "bookworm-backports"],
            Some(13) => &["trixie", "trixie-backports"],
            Some(_) => &["sid"],
            // `7.3`: of no release yet.
            None if !version.contains('-') => &["sid", "experimental"],
            None => &[SUITE],
        },
        None => &[SUITE],
    };
    suites.iter().map(|suite| (*suite).to_string()).collect()
}

/// Backports and experimental packages need what the suite below them has.
fn with_base(suite: &str) -> Vec<String> {
    let base = match suite {
        "experimental" => Some("sid"),
        _ => suite.strip_suffix("-backports"),
    };
    base.into_iter().chain([suite]).map(str::to_string).collect()
}

/// The sort key of a version: its numbers.
pub(crate) fn order(version: &str) -> Vec<u64> {
    version.split(['.', '-', '+']).map(|part| part.trim_start_matches("deb").parse().unwrap_or(0)).collect()
}

/// A stock kernel on this computer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Local {
    /// The version of the package, such as `6.1.0-56`.
    pub version: String,
    /// The file to boot.
    pub kernel: PathBuf,
    /// The busybox for its initramfs, if it is there.
    pub busybox: Option<PathBuf>,
    /// The images folder in which it was found.
    pub folder: PathBuf,
}

/// The file beside a kernel with the names of the suites by which it was pulled.
const SUITES: &str = "suites";

/// Name of the folder with the modules, beside the kernel. Its layout is that of the package.
pub(crate) const MODULES: &str = "modules";

impl Local {
    /// Whether it was pulled by the name of that suite.
    fn is_of(&self, suite: &str) -> bool {
        let file = self.kernel.with_file_name(SUITES);
        fs::read_to_string(file).is_ok_and(|suites| suites.lines().any(|known| known == suite))
    }

    /// Notes that it is the kernel of that suite.
    pub(crate) fn note_suite(&self, suite: &str) -> io::Result<()> {
        if self.is_of(suite) {
            return Ok(());
        }
        let file = self.kernel.with_file_name(SUITES);
        let known = fs::read_to_string(&file).unwrap_or_default();
        fs::write(file, format!("{known}{suite}\n"))
    }

    /// The file with its debug information (DWARF), if it was pulled.
    pub fn debug(&self) -> Option<PathBuf> {
        Some(self.debug_place()).filter(|file| file.is_file())
    }

    /// The place of that file, beside the kernel.
    pub(crate) fn debug_place(&self) -> PathBuf {
        self.kernel.with_file_name(format!("vmlinux-{}.debug", self.version))
    }

    /// The folder with its modules, if there is one.
    pub fn modules(&self) -> Option<PathBuf> {
        let folder = self.kernel.parent()?.join(MODULES);
        folder.is_dir().then_some(folder)
    }

    /// The file of a module, by name; `-` and `_` are equal, as in the kernel.
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

/// The cache of pulled kernels: `trapline/images` in `XDG_CACHE_HOME` or in `~/.cache`. `None` if neither is set.
pub fn cache_folder() -> Option<PathBuf> {
    let absolute = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")))?;
    Some(cache.join("trapline/images"))
}

/// The folders to search, in order.
pub fn folders() -> Vec<PathBuf> {
    let listed = env::var_os("TRAPLINE_IMAGES");
    let listed = listed.iter().flat_map(env::split_paths).filter(|path| !path.as_os_str().is_empty());
    listed.chain(cache_folder()).collect()
}

/// Finds a kernel: in the first folder that has it, the version or the suite asked for, or else the newest of the kernel's
/// usual suite that is no backport.
pub fn locate(wanted: &Wanted, folders: &[PathBuf]) -> Option<Local> {
    let is_it = |local: &Local| match (&wanted.version, wanted.suite()) {
        (_, Some(suite)) => local.is_of(suite),
        (Some(version), None) => *version == local.version,
        (None, None) => wanted.stock.is_usual(&local.version),
    };
    folders.iter().find_map(|folder| versions(wanted.stock, folder).into_iter().rev().find(is_it))
}

/// Names of kernel files in packages. Architectures without a decompressor, such as PowerPC, have a `vmlinux`.
pub(crate) const FILES: [&str; 2] = ["vmlinuz", "vmlinux"];

/// All versions of a kernel in a folder, the newest last.
pub fn versions(stock: &Stock, folder: &Path) -> Vec<Local> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<Local> = entries
        .filter_map(|entry| {
            let release = entry.file_name().into_string().ok()?;
            let version = stock.version_of(&release)?.to_string();
            let names = FILES.into_iter().flat_map(|stem| ["", ".xz"].map(|end| format!("{stem}-{release}{end}")));
            let kernel = names.map(|name| entry.path().join(name)).find(|file| file.is_file())?;
            let busybox = Some(busybox(stock.architecture, folder)).filter(|file| file.is_file());
            Some(Local { version, kernel, busybox, folder: folder.to_path_buf() })
        })
        .collect();
    found.sort_by_key(|local| order(&local.version));
    found
}

/// The path of an architecture's busybox in an images folder.
pub fn busybox(architecture: &str, folder: &Path) -> PathBuf {
    folder.join("busybox").join(format!("busybox-{architecture}"))
}

/// Removes a version of a kernel, or all versions, from the cache. Returns the removed versions.
pub fn remove(wanted: &Wanted, cache: &Path) -> io::Result<Vec<String>> {
    let all = versions(wanted.stock, cache);
    let (goes, stays): (Vec<Local>, Vec<Local>) = all.into_iter().partition(|local| match (&wanted.version, wanted.suite()) {
        (_, Some(suite)) => local.is_of(suite),
        (version, None) => version.as_ref().is_none_or(|version| *version == local.version),
    });
    for local in &goes {
        // Rename first, so that an interrupted removal leaves no incomplete kernel.
        let folder = cache.join(wanted.stock.release(&local.version));
        let going = cache.join(format!(".going-{}-{}", std::process::id(), local.version));
        fs::rename(&folder, &going)?;
        fs::remove_dir_all(&going)?;
    }
    let needs_busybox = |stock: &&Stock| stock.architecture == wanted.stock.architecture && !versions(stock, cache).is_empty();
    if stays.is_empty() && !goes.is_empty() && !STOCKS.iter().any(|stock| needs_busybox(&stock)) {
        let busybox = busybox(wanted.stock.architecture, cache);
        if busybox.exists() {
            fs::remove_file(busybox)?;
        }
    }
    Ok(goes.into_iter().map(|local| local.version).collect())
}
