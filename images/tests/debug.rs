//! `pull --dwarf`: the debug information of a stock kernel comes out of its package, and its size is said before. apt is a
//! script here; dpkg-deb and tar are the computer's.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use trapline_harness::{self as harness, Folder, tests, tool};
use trapline_images::{Progress, PullError, Puller, Wanted, locate};

const RELEASE: &str = "6.1.0-56-amd64";

fn shell(folder: &Path, script: &str) {
    let output = Command::new("sh").args(["-ec", script]).current_dir(folder).output().expect("a shell");
    assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A cache with a kernel, and a folder of tools whose apt has one package with that file.
fn room(name: &str, file: &str) -> Folder {
    let room = Folder::new(&format!("debug-{name}"));
    fs::create_dir_all(room.0.join("tools")).expect("a folder");
    shell(
        &room.0,
        &format!(
            r#"
mkdir -p cache/{RELEASE} cache/busybox dbg/DEBIAN dbg/$(dirname {file})
echo kernel > cache/{RELEASE}/vmlinuz-{RELEASE}; echo busybox > cache/busybox/busybox-amd64
printf 'Package: linux-image-{RELEASE}-dbg\nVersion: 1\nArchitecture: amd64\nMaintainer: nobody\nDescription: x\n' > dbg/DEBIAN/control
echo lines > dbg/{file}
dpkg-deb -Znone --root-owner-group -b dbg dbg.deb >/dev/null
"#
        ),
    );
    let home = room.0.display();
    for (name, script) in [
        ("apt-config", String::new()),
        ("apt-cache", format!("[ $3 = linux-image-{RELEASE}-dbg ] && printf 'Package: x\\nSize: 858123456\\n'")),
        ("apt-get", format!("case \"$*\" in *download*) cp {home}/dbg.deb . ;; esac; echo \"$*\" >> {home}/asked")),
        ("objcopy", "exit 1".to_string()),
    ] {
        let path = room.0.join("tools").join(name);
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("a tool");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("its mode");
    }
    let dpkg = Command::new("sh").args(["-c", "command -v dpkg-deb"]).output().expect("a shell").stdout;
    let dpkg = String::from_utf8(dpkg).expect("a path");
    std::os::unix::fs::symlink(dpkg.trim(), room.0.join("tools/dpkg-deb")).expect("a link");
    room
}

fn pull(room: &Folder) -> (Result<PathBuf, PullError>, Vec<Progress>) {
    let cache = room.0.join("cache");
    let puller = Puller { tools: Some(room.0.join("tools")), ..Puller::new(cache.clone()) };
    let wanted = Wanted::parse("debian/amd64").expect("a stock kernel");
    let local = locate(&wanted, &[cache]).expect("the kernel");
    let mut said = Vec::new();
    let pulled = puller.pull_debug(&wanted, &local, &mut |progress| said.push(progress));
    (pulled, said)
}

/// LV-7
fn debug_information_comes_out_of_its_package() {
    for (name, file) in [
        ("boot", format!("usr/lib/debug/boot/vmlinux-{RELEASE}")),
        ("beside", format!("usr/lib/debug/lib/modules/{RELEASE}/vmlinux")),
    ] {
        let room = room(name, &file);
        let (pulled, said) = pull(&room);
        let file = pulled.expect("it is pulled");
        assert_eq!(fs::read_to_string(&file).expect("the file"), "lines\n");
        assert!(file.ends_with(format!("cache/{RELEASE}/vmlinux-6.1.0-56.debug")), "{}", file.display());
        let size = said.iter().position(|progress| matches!(progress, Progress::Note(note) if note.contains("859 MB")));
        let step = said.iter().position(|progress| matches!(progress, Progress::Step(_)));
        assert!(size.is_some() && size < step, "{said:?}");
        assert!(
            fs::read_dir(room.0.join("cache"))
                .expect("the cache")
                .flatten()
                .all(|entry| { !entry.file_name().to_string_lossy().starts_with(".pull-") })
        );
        // A second pull asks nobody.
        fs::remove_file(room.0.join("asked")).expect("apt was asked");
        assert_eq!((pull(&room).0.expect("it is there"), room.0.join("asked").exists()), (file, false));
    }
}

/// LV-7
fn a_package_without_the_file_is_an_error() {
    let room = room("none", "usr/lib/debug/other");
    let (pulled, _) = pull(&room);
    assert!(matches!(pulled, Err(PullError::Incomplete { .. })), "{pulled:?}");
}

fn main() -> ExitCode {
    let tests = tests![debug_information_comes_out_of_its_package, a_package_without_the_file_is_an_error];
    harness::run([tests.into_iter().map(|test| test.needs(tool("dpkg-deb", "dpkg"))).collect()])
}
