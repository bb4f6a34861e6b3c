//! Folders of the host in stock kernels: `--root` and `--share` as `trapline run` mounts them. A run repeats, is the same under
//! a thousand probes, and changes nothing on the host.
//!
//! Needs kernels with their modules (`trapline images pull --modules`); without them a test is skipped.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use trapline::boot::{Kernel, initramfs};
use trapline::devices::virtio::{Attached, ninep::Folder};
use trapline::folders;
use trapline::machine::{Config, Stop};
use trapline::probed::Session;
use trapline_harness::{self as harness, Test};
use trapline_probes::probe::Kprobe;
use trapline_tests::stock::modules_of;
use trapline_tests::{Run, assert_same, probes_among};

const LONG: u64 = 60_000_000_000;
const GUESTS: &[&str] = &["debian/amd64", "debian/arm64", "debian/i386", "debian/mipsel", "debian/mips64el", "debian/s390x"];
const MODULES: &[&str] = &["virtio_mmio", "virtio_pci", "9pnet_virtio", "9p", "overlay"];
/// The smallest number of probes that are armed in the probed run.
const PROBES: usize = 1000;

/// Runs in the root folder: a tree of busybox, with a folder of the host beside it.
const SCRIPT: &str = "
echo \"root: $(ls -x /)\"
ls -lR /etc /bin | md5sum
cat /etc/hello /mnt/share/sub/note
find /mnt/share -type f | sort | xargs cat | md5sum
awk 'BEGIN { for (i = 0; i < 3; i++) s += i; print \"awk\", s }'
stat -c '%i %s %h %u %g %Y %n' /etc/hello /mnt/share/sub /mnt/share/link
cat /mnt/share/link 2>/dev/null && exit 3
cat /mnt/share/../../etc/hello >/dev/null || exit 4
ls /mnt/share/away 2>/dev/null && exit 5
echo changed > /etc/hello && rm -r /mnt/share/sub && echo new > /mnt/share/new && mkdir /var
cat /etc/hello /mnt/share/new; ls /mnt/share
exit 7
";

struct Place(PathBuf);

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Place {
    /// A root folder with busybox, and a folder to share with links that lead out of it.
    fn new(name: &str, busybox: &[u8]) -> Place {
        let place =
            Place(std::env::temp_dir().join(format!("trapline-folders-{}-{}", name.replace('/', "-"), std::process::id())));
        let (root, share) = (place.0.join("root"), place.0.join("share"));
        for folder in [root.join("bin"), root.join("etc"), root.join("tmp"), share.join("sub"), place.0.join("outside")] {
            fs::create_dir_all(folder).expect("a folder");
        }
        let program = root.join("bin/busybox");
        fs::write(&program, busybox).expect("written");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("a program");
        for applet in "sh ls cat md5sum find sort xargs awk stat rm mkdir echo".split(' ') {
            symlink("busybox", root.join("bin").join(applet)).expect("a link");
        }
        fs::write(root.join("etc/hello"), "hello from the host\n").expect("written");
        fs::write(share.join("sub/note"), "a note\n").expect("written");
        fs::write(place.0.join("outside/secret"), "the secret\n").expect("written");
        symlink(place.0.join("outside/secret"), share.join("link")).expect("a link");
        symlink("../outside", share.join("away")).expect("a link");
        for number in 0..40u32 {
            let bytes: Vec<u8> = (0..number * 997).map(|at| (at * number) as u8).collect();
            fs::write(share.join(format!("file{number}")), bytes).expect("written");
        }
        place
    }

    /// All files below a folder with their contents.
    fn contents(&self) -> Vec<(PathBuf, Vec<u8>)> {
        fn add(at: &Path, all: &mut Vec<(PathBuf, Vec<u8>)>) {
            for entry in fs::read_dir(at).expect("a folder").flatten() {
                match entry.file_type() {
                    Ok(kind) if kind.is_dir() => add(&entry.path(), all),
                    Ok(kind) if kind.is_file() => all.push((entry.path(), fs::read(entry.path()).expect("a file"))),
                    _ => all.push((entry.path(), Vec::new())),
                }
            }
        }
        let mut all = Vec::new();
        add(&self.0, &mut all);
        all.sort();
        all
    }
}

fn finished(session: &mut Session) -> Run {
    let stop = session.run_until(LONG);
    let machine = session.machine_mut();
    let console = String::from_utf8_lossy(&machine.take_console()).into_owned();
    Run { stop, console, time: machine.time(), happenings: machine.take_happenings() }
}

/// FS-1, FS-2, FS-4, FS-5
fn a_guest_runs_in_a_folder_the_same_under_probes(name: &'static str) {
    let found = harness::stock_with(name, |local| local.module("9p").is_some());
    let read = |path: PathBuf| fs::read(path).expect("its file");
    let kernel = Kernel::from_bytes(&read(found.local.kernel.clone())).expect("a kernel");
    let busybox = read(found.busybox.clone());
    let files: Vec<(String, Vec<u8>)> = modules_of(&found.local, MODULES);
    let run = |probes: &[Kprobe]| {
        // Each run has folders of its own, with other inode numbers and times.
        let place = Place::new(name, &busybox);
        let before = place.contents();
        let folder = |at: &str, tag: &str| {
            let tree = folders::open_folder(&place.0.join(at)).expect("a folder");
            Attached::Folder(Folder { tree, tag: tag.into() })
        };
        let mounts = initramfs::Devices { has_root: true, tags: vec!["share".into()], ..initramfs::Devices::default() };
        let config = Config {
            command_line: found.stock.command_line.into(),
            initrd: Some(Arc::from(initramfs::with_devices(&busybox, Some(SCRIPT.as_bytes()), &files, &mounts))),
            attached: vec![folder("root", initramfs::ROOT_TAG), folder("share", "share")],
            record_events: true,
            ..Config::default()
        };
        let mut session = Session::new(kernel.clone(), &config).expect("a machine");
        let armed = probes.iter().filter(|probe| session.register_kprobe(probe).is_ok()).count();
        let run = finished(&mut session);
        assert_eq!(run.stop, Stop::PowerOff(7), "{name}: {}", run.console);
        assert!(place.contents() == before, "{name}: a folder of the host was changed");
        (run, armed)
    };
    let (plain, _) = run(&[]);
    let says = |text: &str| assert!(plain.console.contains(text), "{name}: `{text}` is not in\n{}", plain.console);
    ["hello from the host\r\na note\r\n", "awk 3\r\n", "changed\r\nnew\r\n", " 0 0 946684800 /etc/hello"]
        .into_iter()
        .for_each(says);
    assert!(!plain.console.contains("the secret"), "{name}: {}", plain.console);
    let (again, _) = run(&[]);
    assert_same(name, &plain, &again);

    let near = ["vfs_", "do_filp", "filemap_", "d_", "__x64_sys", "__arm64_sys", "__s390x_sys"];
    let probes = probes_among(&kernel, &near, PROBES);
    let (probed, armed) = run(&probes);
    assert_same(name, &plain, &probed);
    let hit = probes.iter().filter(|probe| probe.hits() > 0).count();
    assert!(armed >= PROBES && hit > 50, "{name}: {armed} probes, {hit} hit");
}

fn main() -> ExitCode {
    let with = |name: &'static str| {
        let kernel = harness::complete(name, "--modules ", |local| local.module("9p").is_some());
        let family = harness::member("a_guest_runs_in_a_folder_the_same_under_probes", name);
        Test::new(family, move || a_guest_runs_in_a_folder_the_same_under_probes(name)).needs(kernel)
    };
    harness::run([GUESTS.iter().map(|name| with(name)).collect()])
}
