//! Runs the system's apt with a configuration of its own, and unpacks packages.
//!
//! `apt-get download` always starts a file again. So packages are fetched by `apt-get install --download-only`, which can
//! continue an interrupted download. A made-up status record provides everything that the packages depend on.

use super::{Progress, PullError, Puller};
use crate::stock::{self, Stock, Wanted};
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
const INHERITED: [&str; 5] = [
    "Acquire::http::Proxy",
    "Acquire::https::Proxy",
    "Acquire::http::proxy",
    "Acquire::Check-Valid-Until",
    "Acquire::Check-Date",
];

/// The system's apt tools, with a configuration of their own.
pub(super) struct Apt<'a> {
    puller: &'a Puller,
    configuration: PathBuf,
    /// The suite that was asked for by its name.
    suite: Option<String>,
    /// Whether it fetches from Debian 12.
    is_usual: bool,
}

impl<'a> Apt<'a> {
    pub(super) fn new(puller: &'a Puller, wanted: &Wanted) -> Result<Apt<'a>, PullError> {
        let stock = wanted.stock;
        let suites = wanted.suites();
        let is_usual = suites.first().is_some_and(|suite| suite == stock::SUITE);
        // Lists of different suites do not mix.
        let home = match is_usual {
            true => stock.architecture.to_string(),
            false => format!("{}-{}", stock.architecture, suites.join("-")),
        };
        let home = puller.cache.join(".apt").join(home);
        let suite = wanted.suite().map(str::to_string);
        let apt = Apt { puller, configuration: home.join("apt.conf"), suite, is_usual };
        let inherited = apt.inherited()?;
        let write = || {
            for folder in ["state/lists/partial", "cache/archives/partial"] {
                fs::create_dir_all(home.join(folder))?;
            }
            fs::write(home.join("state/status"), "")?;
            let sources = sources(&puller.mirror, stock.architecture, Path::new(KEYRING).exists(), &suites);
            fs::write(home.join("sources.list"), sources)?;
            let preferred = preferred(&suites, apt.suite.as_deref());
            fs::write(&apt.configuration, configuration(&home, stock.architecture) + &preferred + &inherited)
        };
        write().map_err(|cause| puller.unusable(cause))?;
        Ok(apt)
    }

    fn tool(&self, name: &str) -> Command {
        let mut command = match &self.puller.tools {
            Some(folder) => Command::new(folder.join(name)),
            None => Command::new(name),
        };
        command.env("LC_ALL", "C").stdin(Stdio::null());
        command
    }

    /// The lines of the computer's own apt configuration on proxies, and on whether lists may be old: a mirror that is kept
    /// as it was once has old ones.
    fn inherited(&self) -> Result<String, PullError> {
        let said = run(self.tool("apt-config").arg("dump"), "apt-config", "reading apt's configuration")?;
        let wanted = |line: &&str| INHERITED.iter().any(|key| line.starts_with(key));
        Ok(said.lines().filter(wanted).map(|line| format!("{line}\n")).collect())
    }

    /// Downloads the package lists.
    pub(super) fn update(&self, report: &mut dyn FnMut(Progress)) -> Result<(), PullError> {
        report(Progress::Step("lists of packages".into()));
        let mut command = self.tool("apt-get");
        command.env("APT_CONFIG", &self.configuration).args(["-q=2", "update"]);
        match followed(&mut command, "apt-get", report)? {
            Ok(()) => Ok(()),
            // The lists of an earlier update, or of the other suites, may be sufficient.
            Err(said) if self.has_lists() => {
                report(Progress::Note(format!("not all lists could be refreshed, a newer kernel may be missed:\n{said}")));
                Ok(())
            }
            Err(said) => Err(self.classified("fetching the lists of packages", said)),
        }
    }

    fn has_lists(&self) -> bool {
        let lists = self.configuration.with_file_name("state/lists");
        let names = fs::read_dir(lists).into_iter().flatten().flatten().filter_map(|entry| entry.file_name().into_string().ok());
        names.into_iter().any(|name| name.contains("_Packages"))
    }

    fn classified(&self, doing: &str, said: String) -> PullError {
        #[rustfmt::skip]
        const NETWORK: &[&str] = &["Could not resolve", "Temporary failure", "Unable to connect", "Could not connect", "Connection", "timed out"];
        const KEY: &[&str] = &["NO_PUBKEY", "not signed", "couldn't be verified", "EXPKEYSIG"];
        const SUITE: &[&str] = &["does not have a Release file", "no longer has a Release file"];
        let about = |words: &[&str]| words.iter().any(|word| said.contains(word));
        let mirror = self.puller.mirror.clone();
        match &self.suite {
            Some(suite) if about(SUITE) => return PullError::NoSuchSuite { suite: suite.clone(), mirror, said },
            _ => {}
        }
        match () {
            () if about(KEY) => PullError::NoKey { said },
            () if about(NETWORK) => PullError::NoNetwork { mirror, said },
            () => PullError::Failed { doing: doing.to_string(), tool: "apt-get".into(), said },
        }
    }

    pub(super) fn cache(&self, arguments: &[&str]) -> Result<String, PullError> {
        run(
            self.tool("apt-cache").env("APT_CONFIG", &self.configuration).args(arguments),
            "apt-cache",
            "reading the lists of packages",
        )
    }

    /// The requested version, if the archive has it. If none was requested, the newest one.
    pub(super) fn version(&self, wanted: &Wanted) -> Result<String, PullError> {
        let stock = wanted.stock;
        let names = self.cache(&["pkgnames", PACKAGE])?;
        let mut there: Vec<&str> =
            names.lines().filter_map(|name| stock.version_of(name.trim().strip_prefix(PACKAGE)?)).collect();
        there.sort_by_key(|version| stock::order(version));
        there.dedup();
        let missing = |wanted: String| PullError::NoSuchVersion {
            wanted,
            there: if there.is_empty() { "none".into() } else { there.join(", ") },
        };
        match &wanted.version {
            Some(version) if there.contains(&&**version) => Ok(version.clone()),
            Some(_) if wanted.suite().is_none() => Err(missing(wanted.name())),
            _ => {
                let records = self.cache(&["show", "--no-all-versions", stock.newest]).unwrap_or_default();
                let depends = records.lines().find_map(|line| line.strip_prefix("Depends:")).unwrap_or_default();
                let releases = depends.split([',', '|', ' ']).filter_map(|word| word.strip_prefix(PACKAGE));
                let version = releases.filter_map(|release| stock.version_of(release)).next().map(str::to_string);
                let asked = wanted.suite().map_or(stock.newest.to_string(), |suite| format!("{} in `{suite}`", stock.newest));
                version.ok_or_else(|| missing(asked))
            }
        }
    }

    /// Downloads both packages, or the parts of them that are missing. Their dependencies count as installed, so nothing
    /// else is fetched.
    ///
    /// apt continues a file only if its modification time is the server's. apt's method sets that time when it is
    /// terminated or loses the connection, but not when it is killed; then the package starts again.
    pub(super) fn fetch(&self, release: &str, into: &Path, report: &mut dyn FnMut(Progress)) -> Result<(), PullError> {
        let packages = self.packages(release)?;
        report(Progress::Step(packages.join(" and ")));
        let names: Vec<&str> = packages.iter().map(String::as_str).collect();
        let records = self.cache(&[&["show", "--no-all-versions"], &names[..]].concat())?;
        let status = self.configuration.with_file_name("state/status");
        fs::create_dir_all(into.join("partial"))
            .and_then(|()| fs::write(status, provided(&records)))
            .map_err(|cause| self.puller.unusable(cause))?;
        let mut archives = std::ffi::OsString::from("Dir::Cache::Archives=");
        archives.push(into);
        let mut command = self.tool("apt-get");
        command.env("APT_CONFIG", &self.configuration).current_dir(into);
        command.args(["-q=2", "install", "--download-only", "--yes", "--no-install-recommends", "-o"]).arg(archives);
        command.args(&names);
        followed(&mut command, "apt-get", report)?.map_err(|said| self.classified("fetching the packages", said))
    }

    /// Runs apt-get in a folder.
    pub(super) fn get(&self, arguments: &[&str], folder: &Path, report: &mut dyn FnMut(Progress)) -> Result<(), PullError> {
        let mut command = self.tool("apt-get");
        command.env("APT_CONFIG", &self.configuration).current_dir(folder).arg("-q=2").args(arguments);
        followed(&mut command, "apt-get", report)?.map_err(|said| self.classified("fetching the package", said))
    }

    pub(super) fn unusable(&self, cause: std::io::Error) -> PullError {
        self.puller.unusable(cause)
    }

    /// The packages that a release comes in. From Debian 14 on the kernel, its configuration and its modules have one each.
    fn packages(&self, release: &str) -> Result<Vec<String>, PullError> {
        let parts = if self.puller.modules { &PARTS[..] } else { &PARTS[..2] };
        let parts: Vec<String> = parts.iter().map(|part| format!("{part}{release}")).collect();
        let there = self.cache(&["pkgnames", PARTS[0]])?;
        let in_parts = parts.first().is_some_and(|kernel| there.lines().any(|name| name.trim() == kernel));
        let of_kernel = if in_parts { parts } else { vec![format!("{PACKAGE}{release}")] };
        Ok(of_kernel.into_iter().chain([BUSYBOX.to_string()]).collect())
    }

    /// Unpacks the kernel, its modules and busybox into the cache.
    pub(super) fn unpack(
        &self,
        stock: &Stock,
        release: &str,
        from: &Path,
        work: &Path,
        report: &mut dyn FnMut(Progress),
    ) -> Result<(), PullError> {
        let unusable = |cause| self.puller.unusable(cause);
        let image = format!("{PACKAGE}{release}");
        report(Progress::Step("unpacking".into()));
        let packages: Vec<PathBuf> = fs::read_dir(from)
            .map_err(unusable)?
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| path.extension().is_some_and(|end| end == "deb"))
            .collect();
        let tree = work.join("tree");
        let ready = work.join(release);
        fs::create_dir_all(&ready).map_err(unusable)?;
        for package in &packages {
            run(self.tool("dpkg-deb").arg("-x").arg(package).arg(&tree), "dpkg-deb", "unpacking a package")?;
        }
        // Packages have the files in /boot until Debian 13, then beside the modules.
        let modules = ["usr/lib/modules", "lib/modules"].map(|folder| tree.join(folder).join(release));
        let places = |stem: &str| {
            let beside = modules.iter().map(|folder| folder.join(stem));
            std::iter::once(tree.join("boot").join(format!("{stem}-{release}"))).chain(beside).find(|file| file.is_file())
        };
        let found = stock::FILES.into_iter().find_map(|stem| Some((stem, places(stem)?)));
        let (stem, kernel) = found.unwrap_or((stock::FILES[0], tree.join("boot").join(format!("{}-{release}", stock::FILES[0]))));
        take(&kernel, &ready.join(format!("{stem}-{release}")), &image)?;
        // Optional: not every package has a config.
        let _ = places("config").map(|config| fs::rename(config, ready.join("config")));
        if self.puller.modules {
            let [usual, other] = modules.map(|folder| folder.join("kernel"));
            take(if usual.is_dir() { &usual } else { &other }, &ready.join(stock::MODULES), &image)?;
        }

        let busybox = stock::busybox(stock.architecture, &self.puller.cache);
        fs::create_dir_all(self.puller.cache.join("busybox")).map_err(unusable)?;
        let program = ["usr/bin/busybox", "bin/busybox"].map(|file| tree.join(file));
        // One program serves the kernels of all releases: that of Debian 12 stays, for runs to be the same.
        if self.is_usual || !busybox.is_file() {
            take(if program[0].is_file() { &program[0] } else { &program[1] }, &busybox, BUSYBOX)?;
        }
        let place = self.puller.cache.join(release);
        if place.exists() {
            fs::remove_dir_all(&place).map_err(unusable)?;
        }
        fs::rename(&ready, &place).map_err(unusable)
    }
}

const PACKAGE: &str = "linux-image-";
const BUSYBOX: &str = "busybox-static";
/// Name prefixes of the packages of a kernel that comes in parts: the kernel, its configuration, its modules.
const PARTS: [&str; 3] = ["linux-binary-", "linux-base-", "linux-modules-"];

/// A status record of an installed package that provides all dependencies of these records: the first alternative of each,
/// in the required version.
fn provided(records: &str) -> String {
    let lines = records.lines().filter_map(|line| line.strip_prefix("Depends:").or(line.strip_prefix("Pre-Depends:")));
    let needs = lines.flat_map(|line| line.split(',')).filter_map(|need| need.split('|').next());
    let provides: Vec<String> = needs
        .filter_map(|need| {
            let mut words = need.split([' ', '(', ')']).filter(|word| !word.is_empty());
            let name = words.next()?.split(':').next()?;
            let version = words.next_back().map_or(String::new(), |version| format!(" (= {version})"));
            Some(format!("{name}{version}"))
        })
        .collect();
    let provides = if provides.is_empty() { String::new() } else { format!("Provides: {}\n", provides.join(", ")) };
    format!(
        "Package: trapline-needs\nStatus: install ok installed\nArchitecture: all\nVersion: 1\nMaintainer: trapline\n{provides}Description: what a kernel's package needs to be installed\n\n"
    )
}

/// Moves a file out of an unpacked package; fails if it is missing.
fn take(from: &Path, to: &Path, package: &str) -> Result<(), PullError> {
    fs::rename(from, to).map_err(|_| PullError::Incomplete {
        package: package.to_string(),
        file: from.file_name().unwrap_or_default().to_string_lossy().into_owned(),
    })
}

fn sources(mirror: &str, architecture: &str, has_keyring: bool, suites: &[String]) -> String {
    let keyring = if has_keyring { format!(" signed-by={KEYRING}") } else { String::new() };
    let line = |mirror: &str, suite: &str| format!("deb [arch={architecture}{keyring}] {mirror} {suite} main\n");
    let lines = |suite: &String| {
        let is_released = !UNRELEASED.contains(&suite.as_str()) && !suite.contains('-');
        let updates =
            || [line(mirror, &format!("{suite}-updates")), line(&format!("{mirror}-security"), &format!("{suite}-security"))];
        let updates = is_released.then(updates).into_iter().flatten();
        std::iter::once(line(mirror, suite)).chain(updates).collect::<String>()
    };
    suites.iter().map(lines).collect()
}

/// Suites that get no updates beside them.
const UNRELEASED: [&str; 3] = ["sid", "unstable", "experimental"];

/// The apt configuration: all files are in `home`, and the computer's own configuration is ignored.
fn configuration(home: &Path, architecture: &str) -> String {
    let quoted = |name: &str| home.join(name).display().to_string().replace('"', "%22");
    format!(
        r#"Dir::Etc::main "/dev/null";
Dir::Etc::parts "/dev/null";
Dir::Etc::sourcelist "{}";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
Dir::State "{}";
Dir::State::status "{}";
Dir::Cache "{}";
Dir::Log "{}";
APT::Architecture "{architecture}";
APT::Architectures {{ "{architecture}"; }};
APT::Sandbox::User "";
APT::Status-Fd "1";
Acquire::Languages "none";
Acquire::Retries "3";
DPkg::Lock::Timeout "{LOCK_SECONDS}";
"#,
        quoted("sources.list"),
        quoted("state"),
        quoted("state/status"),
        quoted("cache"),
        quoted("log"),
    )
}

/// Lets apt prefer the suite that was asked for to the one below it, which has a higher priority: backports and experimental
/// packages are otherwise taken only if no other suite has a package of that name.
fn preferred(suites: &[String], asked: Option<&str>) -> String {
    match (suites, asked) {
        ([_, _, ..], Some(suite)) => format!("APT::Default-Release \"{suite}\";\n"),
        _ => String::new(),
    }
}

/// Seconds that a pull waits for the lock of another apt, which may outlive its pull.
const LOCK_SECONDS: u32 = 600;

/// Runs a tool and returns its output.
fn run(command: &mut Command, tool: &str, doing: &str) -> Result<String, PullError> {
    let output = command.output().map_err(|cause| PullError::NoTool { tool: tool.to_string(), cause })?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(PullError::Failed {
            doing: doing.to_string(),
            tool: tool.to_string(),
            said: shortened(&String::from_utf8_lossy(&output.stderr)),
        }),
    }
}

/// Runs a tool and reports its progress. Returns the end of its error output if it fails.
fn followed(command: &mut Command, tool: &str, report: &mut dyn FnMut(Progress)) -> Result<Result<(), String>, PullError> {
    let no_tool = |cause| PullError::NoTool { tool: tool.to_string(), cause };
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().map_err(no_tool)?;
    let complaints = child.stderr.take().map(|mut from| {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = from.read_to_end(&mut bytes); // a read error ends the text
            String::from_utf8_lossy(&bytes).into_owned()
        })
    });
    for line in child.stdout.take().into_iter().flat_map(|from| BufReader::new(from).lines()).map_while(Result::ok) {
        if let Some(percent) = percent(&line) {
            report(Progress::Percent(percent));
        }
    }
    let status = child.wait().map_err(no_tool)?;
    let said = complaints.and_then(|thread| thread.join().ok()).unwrap_or_default();
    if status.signal().is_some() {
        return Err(PullError::Interrupted { tool: tool.to_string() });
    }
    Ok(if status.success() { Ok(()) } else { Err(shortened(&said)) })
}

/// The percentage in a line such as `dlstatus:2:11.0388:Retrieving file 2 of 2`.
fn percent(line: &str) -> Option<f32> {
    line.strip_prefix("dlstatus:")?.split(':').nth(1)?.parse().ok()
}

/// The last lines of a tool's output, indented.
fn shortened(said: &str) -> String {
    const LINES: usize = 6;
    let lines: Vec<&str> = said.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    lines[lines.len().saturating_sub(LINES)..].iter().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::{preferred, provided};
    use crate::stock::suites_of;

    #[test]
    fn the_suite_that_was_named_is_preferred_to_the_one_below_it() {
        let lines = |suite: &str| preferred(&suites_of(Some(suite)), Some(suite));
        assert_eq!(lines("trixie-backports"), "APT::Default-Release \"trixie-backports\";\n");
        assert_eq!(lines("experimental"), "APT::Default-Release \"experimental\";\n");
        assert_eq!(lines("sid"), "", "it is the only one");
        assert_eq!(preferred(&suites_of(Some("6.12.95+deb12")), None), "", "a version is in one of them");
    }

    #[test]
    fn dependencies_of_packages_are_provided() {
        #[rustfmt::skip]
        let cases = [
            ("",                                                                        None),
            ("Package: busybox-static\nConflicts: busybox",                             None),
            ("Depends: kmod, linux-base (>= 4.3~), initramfs-tools (>= 0.120) | dracut", Some("kmod, linux-base (= 4.3~), initramfs-tools (= 0.120)")),
            ("Pre-Depends: dpkg (>= 1.17)\nDepends: perl:any\n",                        Some("dpkg (= 1.17), perl")),
            ("Depends:",                                                                None),
        ];
        for (records, expected) in cases {
            let status = provided(records);
            assert_eq!(status.lines().find_map(|line| line.strip_prefix("Provides: ")), expected, "{records}");
            assert!(status.ends_with("\n\n"), "{records}");
        }
    }
}
