//! The search for stock kernels, and pulls with fake apt tools.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use trapline_images::{Progress, PullError, Puller, Wanted, locate, remove, versions};

/// A temporary folder, removed at the end of the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("trapline-images-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn file(&self, name: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, name).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn wanted(name: &str) -> Wanted {
    Wanted::parse(name).unwrap_or_else(|| panic!("{name} is a stock kernel"))
}

#[test]
fn names_may_include_a_version() {
    #[rustfmt::skip]
    let cases = [
        // name                             kernel                  version
        ("debian/amd64",                    Some("debian/amd64"),   None),
        ("debian/amd64@6.1.0-56",           Some("debian/amd64"),   Some("6.1.0-56")),
        ("debian/amd64@6.1.0-56-amd64",     Some("debian/amd64"),   Some("6.1.0-56")),
        ("debian/i386@6.1.0-50-686",        Some("debian/i386"),    Some("6.1.0-50")),
        ("debian/armhf@6.1.0-50-armmp",     Some("debian/armhf"),   Some("6.1.0-50")),
        ("debian/arm64",                    Some("debian/arm64"),   None),
        ("debian/i386-pae",                 Some("debian/i386-pae"), None),
        ("debian/i386@6.1.0-50-686-pae",    Some("debian/i386-pae"), Some("6.1.0-50")),
        ("debian/i386@6.1.0-50-rt-686-pae", Some("debian/i386-rt"), Some("6.1.0-50")),
        ("debian/i386-pae@6.1.0-50-686",    Some("debian/i386"),    Some("6.1.0-50")),
        ("debian/i386@6.5.0-0.deb12.4-686", Some("debian/i386"),    Some("6.5.0-0.deb12.4")),
        ("debian/amd64@6.12.95+deb12",      Some("debian/amd64"),   Some("6.12.95+deb12")),
        ("debian/arm64@7.2.13+deb14-rt-arm64", Some("debian/arm64-rt"), Some("7.2.13+deb14")),
        ("debian/s390x@sid",                Some("debian/s390x"),   Some("sid")),
        ("debian/i386@6.1.0-50-armmp",      Some("debian/i386"),    Some("6.1.0-50-armmp")),
        ("linux/ppc",                       Some("linux/ppc"),      None),
        ("linux/ppc@6.1.192",               Some("linux/ppc"),      Some("6.1.192")),
        ("linux/mips",                      Some("linux/mips"),     None),
        ("linux/mips@6.1.192",              Some("linux/mips"),     Some("6.1.192")),
        ("debian/m68k",                     None,                   None),
        ("debian",                          None,                   None),
        ("",                                None,                   None),
    ];
    for (name, kernel, version) in cases {
        let parsed = Wanted::parse(name);
        assert_eq!(parsed.as_ref().map(|wanted| wanted.stock.name), kernel, "{name}");
        assert_eq!(parsed.and_then(|wanted| wanted.version).as_deref(), version, "{name}");
    }
}

#[test]
fn the_newest_kernel_of_the_first_folder_is_found() {
    let (first, second) = (Folder::new("first"), Folder::new("second"));
    first.file("6.1.0-9-amd64/vmlinuz-6.1.0-9-amd64");
    first.file("6.1.0-10-amd64/vmlinuz-6.1.0-10-amd64.xz");
    first.file("6.1.0-11-cloud-amd64/vmlinuz-6.1.0-11-cloud-amd64");
    first.file("6.1.0-12-amd64/config");
    first.file("busybox/busybox-amd64");
    first.file("6.1.0-50-armmp/vmlinuz-6.1.0-50-armmp");
    first.file("6.1.0-51-armmp-lpae/vmlinuz-6.1.0-51-armmp-lpae");
    first.file("busybox/busybox-armhf");
    first.file("6.12.95+deb12-amd64/vmlinuz-6.12.95+deb12-amd64");
    first.file("6.12.107+deb13-amd64/vmlinuz-6.12.107+deb13-amd64");
    fs::write(first.file("6.12.107+deb13-amd64/suites"), "trixie\nstable\n").unwrap();
    first.file("6.12.94+deb13-amd64/vmlinuz-6.12.94+deb13-amd64");
    fs::write(first.file("6.12.94+deb13-amd64/suites"), "trixie\n").unwrap();
    second.file("5.10.0-32-arm64/vmlinuz-5.10.0-32-arm64");
    second.file("6.1.0-50-686/vmlinuz-6.1.0-50-686");
    second.file("6.1.0-50-686-pae/vmlinuz-6.1.0-50-686-pae");
    second.file("6.1.0-49-686-pae/vmlinuz-6.1.0-49-686-pae");
    second.file("6.1.0-56-amd64/vmlinuz-6.1.0-56-amd64");
    let folders = [first.0.clone(), second.0.clone()];
    #[rustfmt::skip]
    let cases = [
        // name                     version                 folder      with busybox
        ("debian/amd64",            Some("6.1.0-10"),       &first,     true),
        ("debian/amd64@6.1.0-9",    Some("6.1.0-9"),        &first,     true),
        ("debian/amd64@6.1.0-56",   Some("6.1.0-56"),       &second,    false),
        ("debian/amd64@6.1.0-11",   None,                   &first,     false),
        ("debian/i386",             Some("6.1.0-50"),       &second,    false),
        ("debian/armhf",            Some("6.1.0-50"),       &first,     true),
        ("debian/armhf-lpae",       Some("6.1.0-51"),       &first,     true),
        ("debian/amd64@6.12.95+deb12", Some("6.12.95+deb12"), &first,   true),
        ("debian/amd64@trixie",     Some("6.12.107+deb13"), &first,     true),
        ("debian/amd64@stable",     Some("6.12.107+deb13"), &first,     true),
        ("debian/amd64@6.12.94+deb13", Some("6.12.94+deb13"), &first,   true),
        ("debian/amd64@sid",        None,                   &first,     true),
        ("debian/arm64@5.10.0-32",  Some("5.10.0-32"),      &second,    false),
        ("debian/arm64",            None,                   &second,    false),
        ("debian/i386-pae",         Some("6.1.0-50"),       &second,    false),
        ("debian/i386@6.1.0-49-686-pae", Some("6.1.0-49"),  &second,    false),
        ("debian/i386@6.1.0-49",    None,                   &second,    false),
    ];
    for (name, version, folder, with_busybox) in cases {
        let found = locate(&wanted(name), &folders);
        assert_eq!(found.as_ref().map(|local| &*local.version), version, "{name}");
        let Some(local) = found else { continue };
        assert_eq!((&local.folder, local.busybox.is_some()), (&folder.0, with_busybox), "{name}");
        assert!(local.kernel.is_file(), "{name}: {:?}", local.kernel);
    }
}

/// A kernel that no distribution has is not pulled; the error names the script that builds it.
#[test]
fn a_kernel_without_a_package_is_not_pulled() {
    let folder = Folder::new("built");
    folder.file("6.1.192-small-malta/vmlinux-6.1.192-small-malta");
    let puller = Puller { cache: folder.0.clone(), mirror: String::new(), tools: Some(folder.0.clone()), modules: false };
    let refusal = puller.pull(&wanted("linux/mips"), &mut |_| ()).expect_err("it is in no archive");
    assert!(matches!(refusal, PullError::NotPacked(_)), "{refusal:?}");
    assert!(refusal.advice().contains("images/linux-mips/build.sh"), "{}", refusal.advice());
    let found = locate(&wanted("linux/mips"), std::slice::from_ref(&folder.0)).expect("it is there");
    assert_eq!(found.version, "6.1.192");
}

/// Fake tools with these names, each a line of shell.
fn tools(folder: &Folder, download: &str) -> PathBuf {
    let update = r#"mkdir -p "${APT_CONFIG%/*}/state/lists" && : > "${APT_CONFIG%/*}/state/lists/x_Packages""#;
    #[rustfmt::skip]
    let scripts = [
        ("apt-config",  "echo 'Acquire::http::Proxy \"http://proxy:3128\";'; echo 'DPkg::Post-Invoke:: \"rm -rf /\";'".to_string()),
        ("apt-cache",   "case $1 in pkgnames) printf 'linux-image-6.1.0-50-amd64\\nlinux-image-6.1.0-56-amd64\\nlinux-image-6.1.0-56-cloud-amd64\\n';; \
                         show) echo 'Depends: linux-image-6.1.0-56-amd64 (= 6.1.192-2)';; esac".to_string()),
        ("apt-get",     format!("case $2 in update) echo dlstatus:1:50.0:x; {update};; install) {download};; esac")),
        ("dpkg-deb",    "mkdir -p $3/boot $3/bin; case $2 in *linux*) mkdir -p $3/lib/modules/6.1.0-56-amd64/kernel/lib; echo module > $3/lib/modules/6.1.0-56-amd64/kernel/lib/crc-t10.ko; echo kernel > $3/boot/vmlinuz-6.1.0-56-amd64;; *) echo busybox > $3/bin/busybox;; esac".to_string()),
    ];
    let place = folder.0.join("tools");
    fs::create_dir_all(&place).unwrap();
    for (name, script) in scripts {
        let file = place.join(name);
        fs::write(&file, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    }
    place
}

fn puller(folder: &Folder, tools: PathBuf) -> Puller {
    Puller { cache: folder.0.join("cache"), mirror: "http://mirror/debian".into(), tools: Some(tools), modules: false }
}

const BOTH: &str = ": > linux-image.deb; : > busybox.deb";

fn visible(cache: &Path) -> Vec<String> {
    let names = fs::read_dir(cache).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| name != ".apt").collect();
    names.sort();
    names
}

#[test]
fn a_pull_downloads_the_newest_kernel_and_busybox_once() {
    let folder = Folder::new("pull");
    let puller = puller(&folder, tools(&folder, BOTH));
    let mut seen = Vec::new();
    let pulled = puller.pull(&wanted("debian/amd64"), &mut |progress| seen.push(progress)).unwrap();
    assert_eq!((&*pulled.local.version, pulled.was_there), ("6.1.0-56", false));
    assert_eq!(fs::read_to_string(&pulled.local.kernel).unwrap(), "kernel\n");
    assert_eq!(fs::read_to_string(pulled.local.busybox.unwrap()).unwrap(), "busybox\n");
    assert!(seen.contains(&Progress::Percent(50.0)), "{seen:?}");
    assert_eq!(visible(&puller.cache), ["6.1.0-56-amd64", "busybox"]);

    let configuration = fs::read_to_string(puller.cache.join(".apt/amd64/apt.conf")).unwrap();
    assert!(configuration.contains("proxy:3128"), "the computer's proxy is used:\n{configuration}");
    assert!(!configuration.contains("Post-Invoke"), "and nothing else of its configuration:\n{configuration}");

    assert!(puller.pull(&wanted("debian/amd64"), &mut |_| ()).unwrap().was_there);
    assert!(puller.pull(&wanted("debian/amd64@6.1.0-56"), &mut |_| ()).unwrap().was_there);
    assert_eq!(remove(&wanted("debian/amd64"), &puller.cache).unwrap(), ["6.1.0-56"]);
    assert!(versions(wanted("debian/amd64").stock, &puller.cache).is_empty());
    assert!(!puller.cache.join("busybox/busybox-amd64").exists());
}

/// Packages for PowerPC have an uncompressed vmlinux.
#[test]
fn a_pull_accepts_an_uncompressed_kernel() {
    let folder = Folder::new("not-packed");
    let tools = tools(&folder, BOTH);
    let script = tools.join("dpkg-deb");
    let renamed = fs::read_to_string(&script).unwrap().replace("/boot/vmlinuz-", "/boot/vmlinux-");
    fs::write(&script, renamed).unwrap();
    let pulled = puller(&folder, tools).pull(&wanted("debian/amd64"), &mut |_| ()).unwrap();
    assert!(pulled.local.kernel.ends_with("6.1.0-56-amd64/vmlinux-6.1.0-56-amd64"), "{:?}", pulled.local.kernel);
}

#[test]
fn a_failed_pull_leaves_nothing_and_gives_the_reason() {
    #[rustfmt::skip]
    let cases = [
        // what                     name                        how the download goes                                   
        // said
        ("no network",              "debian/amd64",             "echo 'Could not resolve host' >&2; exit 100",              "cannot be reached"),
        ("no key",                  "debian/amd64",             "echo 'NO_PUBKEY 123' >&2; exit 100",                       "signature cannot be checked"),
        ("a checksum is wrong",     "debian/amd64",             ": > linux-image.deb; echo 'Hash Sum mismatch' >&2; exit 1", "Hash Sum mismatch"),
        ("only one package",        "debian/amd64",             ": > linux-image.deb",                                      "busybox-static has no busybox"),
        ("an old version",          "debian/amd64@6.1.0-12",    BOTH,                                                       "it has 6.1.0-50, 6.1.0-56"),
        ("no version",              "debian/amd64@../../etc",   BOTH,                                                       "is no version"),
    ];
    for (number, (what, name, download, said)) in cases.into_iter().enumerate() {
        let folder = Folder::new(&format!("fails-{number}"));
        let mut puller = puller(&folder, tools(&folder, download));
        fs::create_dir_all(puller.cache.join(".pull-4294967294")).unwrap();
        let error = puller.pull(&wanted(name), &mut |_| ()).expect_err(what);
        assert!(error.to_string().contains(said), "{what}: {error}");
        assert!(!error.advice().is_empty(), "{what}");
        assert!(versions(wanted(name).stock, &puller.cache).is_empty(), "{what}");

        puller.tools = Some(tools(&folder, BOTH));
        puller.pull(&wanted("debian/amd64"), &mut |_| ()).unwrap_or_else(|error| panic!("{what}, then again: {error}"));
        assert_eq!(visible(&puller.cache), ["6.1.0-56-amd64", "busybox"], "{what}: what an interrupted pull left is gone");
    }
}

#[test]
fn without_apt_the_error_names_the_alternatives() {
    let folder = Folder::new("no-apt");
    let error = puller(&folder, folder.0.join("nowhere")).pull(&wanted("debian/i386"), &mut |_| ()).unwrap_err();
    assert!(matches!(&error, PullError::NoTool { tool, .. } if tool == "apt-config"), "{error}");
    assert!(error.advice().contains("TRAPLINE_IMAGES"), "{}", error.advice());
}

/// After a lost network or a killed pull, the next pull continues the download.
#[test]
fn an_interrupted_download_continues() {
    const HALF: &str =
        "[ -f linux-image.deb ] && echo 'begun anew' >&2; printf half > linux-image.deb; echo 'Connection failed' >&2; exit 100";
    const REST: &str = "grep -q half linux-image.deb || { echo 'nothing to go on with' >&2; exit 1; }; : > busybox.deb";
    let folder = Folder::new("resumes");
    let mut puller = puller(&folder, tools(&folder, HALF));
    let error = puller.pull(&wanted("debian/amd64"), &mut |_| ()).expect_err("half of it");
    assert!(error.to_string().contains("cannot be reached"), "{error}");
    assert_eq!(visible(&puller.cache), [".fetch-6.1.0-56-amd64"]);

    // The state after a pull was killed: its folders exist, its process does not.
    fs::write(puller.cache.join(".fetch-6.1.0-56-amd64/owner"), "4294967294").unwrap();
    fs::create_dir_all(puller.cache.join(".pull-4294967294/tree")).unwrap();
    puller.tools = Some(tools(&folder, REST));
    puller.pull(&wanted("debian/amd64"), &mut |_| ()).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(visible(&puller.cache), ["6.1.0-56-amd64", "busybox"]);
}

/// Two concurrent pulls use different download folders.
#[test]
fn concurrent_pulls_use_different_folders() {
    let folder = Folder::new("at-once");
    let puller = puller(&folder, tools(&folder, BOTH));
    let others = puller.cache.join(".fetch-6.1.0-56-amd64");
    fs::create_dir_all(&others).unwrap();
    fs::write(others.join("owner"), "1").unwrap();
    puller.pull(&wanted("debian/amd64"), &mut |_| ()).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(visible(&puller.cache), [".fetch-6.1.0-56-amd64", "6.1.0-56-amd64", "busybox"]);
    assert_eq!(fs::read_dir(others).unwrap().count(), 1, "nothing was fetched to where the other one fetches");
}

#[test]
fn modules_are_kept_on_request() {
    let folder = Folder::new("modules");
    let mut puller = puller(&folder, tools(&folder, BOTH));
    let without = puller.pull(&wanted("debian/amd64"), &mut |_| ()).unwrap().local;
    assert_eq!((without.modules(), without.module("crc_t10")), (None, None));
    puller.modules = true;
    let pulled = puller.pull(&wanted("debian/amd64"), &mut |_| ()).unwrap();
    assert!(!pulled.was_there, "the kernel was there without them");
    for (name, is_there) in [("crc-t10", true), ("crc_t10", true), ("crc", false), ("", false)] {
        assert_eq!(pulled.local.module(name).is_some(), is_there, "{name:?}");
    }
    assert!(puller.pull(&wanted("debian/amd64"), &mut |_| ()).unwrap().was_there);
}

/// A kernel without a package is found in the folder where a script has built it.
#[test]
fn a_built_kernel_is_found() {
    let folder = Folder::new("not-packed");
    let puller = Puller { cache: folder.0.clone(), mirror: "http://nowhere.invalid".into(), tools: None, modules: false };
    let error = puller.pull(&wanted("linux/ppc"), &mut |_| ()).unwrap_err();
    assert!(
        matches!(error, PullError::NotPacked(stock) if stock.name == "linux/ppc")
            && error.advice().contains("images/linux-ppc/build.sh"),
        "{error}"
    );
    let kernel = folder.file("6.1.192-powerpc/vmlinux-6.1.192-powerpc");
    let busybox = folder.file("busybox/busybox-powerpc");
    let local = locate(&wanted("linux/ppc"), std::slice::from_ref(&folder.0)).expect("it is there");
    assert_eq!((local.version.as_str(), local.kernel, local.busybox), ("6.1.192", kernel, Some(busybox)));
}

/// A kernel of another suite of the archive: pulled by the suite's name and found by it, in one package or in parts.
#[test]
fn a_suite_is_pulled_and_found_by_its_name() {
    const IN_PARTS: &str = "mkdir -p $3/usr/lib/modules/7.2.13+deb14-amd64 $3/usr/bin; case $2 in *linux*) cd $3/usr/lib/modules/7.2.13+deb14-amd64; \
         echo kernel > vmlinuz; echo CONFIG_SMP=y > config; mkdir kernel; echo module > kernel/crc.ko;; *) echo newer > $3/usr/bin/busybox;; esac";
    let folder = Folder::new("suite");
    let tools = tools(&folder, BOTH);
    let rewrite = |name: &str, script: &str| fs::write(tools.join(name), format!("#!/bin/sh\n{script}\n")).unwrap();
    let asked = folder.0.join("asked");
    let names = "case $1-$2 in pkgnames-linux-binary-) echo linux-binary-7.2.13+deb14-amd64;; \
         pkgnames-*) echo linux-image-7.2.13+deb14-amd64;; show-*) echo 'Depends: linux-image-7.2.13+deb14-amd64';; esac";
    rewrite("apt-cache", &format!("echo \"$@\" >> {}; {names}", asked.display()));
    rewrite("apt-config", "echo 'Acquire::Check-Valid-Until \"false\";'");
    rewrite("dpkg-deb", IN_PARTS);
    let mut puller = Puller { modules: true, ..puller(&folder, tools.clone()) };
    let busybox = puller.cache.join("busybox/busybox-amd64");
    fs::create_dir_all(busybox.parent().unwrap()).unwrap();
    fs::write(&busybox, "of Debian 12").unwrap();
    let pulled = puller.pull(&wanted("debian/amd64@sid"), &mut |_| ()).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((&*pulled.local.version, pulled.was_there), ("7.2.13+deb14", false));
    assert_eq!(fs::read_to_string(&pulled.local.kernel).unwrap(), "kernel\n");
    assert!(pulled.local.module("crc").is_some());
    assert_eq!(fs::read_to_string(&busybox).unwrap(), "of Debian 12", "runs of other kernels stay the same");
    let shown = fs::read_to_string(&asked).unwrap();
    for part in ["binary", "base", "modules"] {
        assert!(shown.contains(&format!("linux-{part}-7.2.13+deb14-amd64")), "{part}:\n{shown}");
    }
    let home = puller.cache.join(".apt/amd64-sid");
    assert!(
        fs::read_to_string(home.join("apt.conf")).unwrap().contains("Check-Valid-Until"),
        "old lists, if the computer takes them"
    );
    let sources = fs::read_to_string(home.join("sources.list")).unwrap();
    assert!(sources.contains(" sid main") && sources.lines().count() == 1, "{sources}");

    let cache = std::slice::from_ref(&puller.cache);
    assert_eq!(locate(&wanted("debian/amd64@sid"), cache).map(|local| local.version).as_deref(), Some("7.2.13+deb14"));
    assert!(locate(&wanted("debian/amd64"), cache).is_none(), "it is none of Debian 12");
    assert!(puller.pull(&wanted("debian/amd64@sid"), &mut |_| ()).unwrap().was_there);
    assert!(puller.pull(&wanted("debian/amd64@experimental"), &mut |_| ()).unwrap().was_there, "the same kernel by another name");
    assert_eq!(fs::read_to_string(pulled.local.kernel.with_file_name("suites")).unwrap(), "sid\nexperimental\n");
    assert_eq!(remove(&wanted("debian/amd64@sid"), &puller.cache).unwrap(), ["7.2.13+deb14"]);

    puller.modules = false;
    rewrite(
        "apt-get",
        "echo \"E: The repository 'http://mirror/debian woody Release' does not have a Release file.\" >&2; exit 100",
    );
    let error = puller.pull(&wanted("debian/amd64@woody"), &mut |_| ()).unwrap_err();
    assert!(matches!(&error, PullError::NoSuchSuite { suite, .. } if suite == "woody"), "{error}");
    assert!(error.to_string().contains("no suite called `woody`") && error.advice().contains("trixie"), "{error}");
}

/// The suites in which a version is looked for.
#[test]
fn versions_are_pulled_from_the_suites_that_have_them() {
    #[rustfmt::skip]
    let cases: [(&str, &str, &[&str]); 9] = [
        ("debian/amd64@6.1.0-50",           "amd64",                            &["bookworm", "bookworm-updates", "bookworm-security"]),
        ("debian/amd64@6.12.95+deb12",      "amd64",                            &["bookworm", "bookworm-updates", "bookworm-security", "bookworm-backports"]),
        ("debian/amd64@5.10.0-32",          "amd64-bullseye",                   &["bullseye", "bullseye-updates", "bullseye-security"]),
        ("debian/amd64@6.12.107+deb13",     "amd64-trixie-trixie-backports",    &["trixie", "trixie-updates", "trixie-security", "trixie-backports"]),
        ("debian/amd64@7.2.13+deb14",       "amd64-sid",                        &["sid"]),
        ("debian/amd64@6.1.0-0.deb11.52",   "amd64-bullseye",                   &["bullseye", "bullseye-updates", "bullseye-security"]),
        ("debian/amd64@7.3",                "amd64-sid-experimental",           &["sid", "experimental"]),
        ("debian/amd64@experimental",       "amd64-sid-experimental",           &["sid", "experimental"]),
        ("debian/amd64@trixie-backports",   "amd64-trixie-trixie-backports",    &["trixie", "trixie-updates", "trixie-security", "trixie-backports"]),
    ];
    for (number, (name, home, suites)) in cases.into_iter().enumerate() {
        let folder = Folder::new(&format!("suites-{number}"));
        let puller = puller(&folder, tools(&folder, BOTH));
        // Whether the tools have it is not the question.
        let _ = puller.pull(&wanted(name), &mut |_| ());
        let sources = fs::read_to_string(puller.cache.join(".apt").join(home).join("sources.list")).unwrap();
        let found: Vec<&str> = sources.lines().filter_map(|line| line.split(' ').nth_back(1)).collect();
        assert_eq!(found, suites, "{name}");
    }
}
