//! An initial file system for a stock kernel: busybox, an init program that runs a script or a shell, and other files.
//! The archive is in cpio's "newc" format (Documentation/driver-api/early-userspace/buffer-format.rst). It does not
//! depend on the host: equal contents give equal bytes.

use super::kernels;
use goblin::elf::Elf;
use std::collections::BTreeSet;

const MAGIC: &str = "070701";
const TRAILER: &str = "TRAILER!!!";
const ALIGNMENT: usize = 4;

const DIRECTORY: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;
const FILE: u32 = 0o100_644;
const SYMLINK: u32 = 0o120_777;

/// The directory of modules that init loads first, in the order of their names.
pub const MODULES: &str = "modules/";
/// The directory of modules that are loaded only by [`LOAD_LATER`].
pub const MODULES_FOR_LATER: &str = "later/";
/// A shell command that loads these modules in the order of their names. If one fails, the guest ends with status 1.
pub const LOAD_LATER: &str = "for module in /later/*.ko; do insmod $module || exit 1; done\n";
/// The longest path of a file, in bytes. Linux takes no longer ones.
pub const LONGEST_PATH: usize = 4095;
/// Paths that further files cannot have.
pub const TAKEN: [&str; 5] = ["init", SCRIPT, "bin", "bin/busybox", TRAILER];
/// The path of the script of [`with_busybox`].
pub const SCRIPT: &str = "script";
/// The tag of the folder that programs run in.
pub const ROOT_TAG: &str = "root";
/// The directory of files that are copied into that folder.
pub const PUSHED: &str = "push/";

/// The devices that init makes ready: folders of the host, by the tags of their devices, and a network.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Devices {
    /// Whether programs run in the folder with the tag [`ROOT_TAG`].
    pub has_root: bool,
    /// The tags of the folders that are mounted in `/mnt`, each at its tag.
    pub tags: Vec<String>,
    /// Whether there is a network card, which gets its address by DHCP.
    pub has_network: bool,
}

impl Devices {
    /// The functions of init that [`Devices::steps`] calls.
    fn functions(&self) -> String {
        let folders = match self {
            Devices { has_root: true, .. } => [FOLDER, ENTER].concat(),
            Devices { tags, .. } if tags.is_empty() => String::new(),
            _ => FOLDER.into(),
        };
        [if self.has_network { NETWORK } else { "" }, &folders].concat()
    }

    /// The commands of init that make the devices ready, each of which must succeed before the next one.
    fn steps(&self) -> String {
        let network = if self.has_network { "network &&\n" } else { "" };
        if !self.has_root && self.tags.is_empty() {
            return network.into();
        }
        let (root, inside) = if self.has_root { ("folder root /newroot &&\nenter &&\n", "/newroot") } else { ("", "") };
        let shares: String = self.tags.iter().map(|tag| format!("folder {tag} {inside}/mnt/{tag} &&\n")).collect();
        let names = if self.has_root && self.has_network { COPY_NAMES } else { "" };
        [network, CHANGES, root, names, &shares].concat()
    }
}

/// The start of init. At the end, init passes the script's status to the board. `pc` has a port for it or, for kernels
/// without /dev/port (CONFIG_DEVPORT off), an address in memory, and powers off at a reset. `virt` has a device for it
/// and powers off by firmware.
const INIT: &str = "\
#!/bin/busybox sh
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t sysfs sysfs /sys
/bin/busybox mount -t devtmpfs devtmpfs /dev
/bin/busybox --install -s /bin
export PATH=/bin HOME=/ TERM=linux
";
/// Loads modules in the order of their names. If one fails, nothing else is run.
const LOAD: &str = "\
load() {
    for module in /modules/*.ko; do
        insmod $module || return 1
    done
}
load &&
";
/// The path of the program that udhcpc starts with what it is given. busybox of Debian looks for it there.
const LEASE_PATH: &str = "etc/udhcpc/default.script";
const LEASE: &str = "\
#!/bin/sh
case $1 in
deconfig)
    ip addr flush dev $interface
    ip link set $interface up
    ;;
bound|renew)
    ip addr flush dev $interface
    ip addr add $ip/$mask dev $interface
    ip route add default via $router
    echo search $domain > /etc/resolv.conf
    echo nameserver $dns >> /etc/resolv.conf
    ;;
esac
";
/// Brings the network up.
const NETWORK: &str = "\
network() {
    ip link set lo up
    udhcpc -i eth0 -n -q -f -t 3 -T 1 >/dev/null 2>&1 && return
    echo init: eth0 has no address
    return 1
}
";
/// Copies the name server's address into the root folder.
const COPY_NAMES: &str = "{ mkdir -p /newroot/etc; rm -f /newroot/etc/resolv.conf; cp /etc/resolv.conf /newroot/etc; } &&\n";
/// Mounts a folder of the host at a path, below a file system in memory that takes the guest's changes.
const FOLDER: &str = "\
folder() {
    mkdir -p /folders/$1 /changes/$1/up /changes/$1/work $2
    mount -t 9p -o ro,trans=virtio,version=9p2000.L,msize=262144,cache=loose $1 /folders/$1 &&
    mount -t overlay -o lowerdir=/folders/$1,upperdir=/changes/$1/up,workdir=/changes/$1/work overlay $2
}
";
/// Mounts the file system in memory.
const CHANGES: &str = "mkdir -p /changes && mount -t tmpfs tmpfs /changes &&\n";
/// Prepares the root folder of the host's that programs run in.
const ENTER: &str = "\
enter() {
    for inside in proc sys dev; do
        mkdir -p /newroot/$inside
        mount -o bind /$inside /newroot/$inside || return 1
    done
    mkdir -p /dev/pts && mount -t devpts devpts /dev/pts
    [ -d /push ] && cp -a /push/. /newroot/
    export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
    cd /
}
";
/// Runs a script or a shell in that folder.
const RUN_INSIDE: &str = "\
if [ -f /script ]; then
    cp /script /newroot/.script && /bin/busybox chroot /newroot /bin/sh /.script
else
    /bin/busybox setsid /bin/busybox cttyhack /bin/busybox chroot /newroot /bin/sh
fi
status=$?
export PATH=/bin
";
const RUN: &str = "\
if [ -f /script ]; then
    sh /script
else
    setsid cttyhack sh
fi
status=$?
";
/// The last commands on z/Architecture, which report the status as the system's level.
pub(super) const BY_SYSTEM_LEVEL: &str = "\
printf %x $status > /sys/firmware/cpi/system_level
echo 1 > /sys/firmware/cpi/set
reboot -f
";

/// The last commands on a board without I/O ports: a program writes the status to memory.
pub(crate) const BY_MEMORY: &str = "\
devmem 0x0d900010 8 $status
poweroff -f
";

/// The last commands on RISC-V's `virt` board, which has a device for the status.
pub(super) const BY_DEVICE: &str = "\
devmem 0x09030000 8 $status
poweroff -f
";

/// The last commands on a board with I/O ports or ARM's `virt` board: they pass the variable `status` to the board.
pub(super) const ENDS: &str = "\
case $(uname -m) in
arm*|aarch64)
    devmem 0x09030000 8 $status
    poweroff -f
    ;;
esac
if [ -e /dev/port ]; then
    printf \"\\\\$(printf %o $status)\" | dd of=/dev/port bs=1 seek=244 conv=notrunc 2>/dev/null
else
    devmem 0xfef00000 8 $status
fi
reboot -f
";

const DIRECTORIES: &[&str] = &["bin", "dev", "etc", "proc", "root", "sys", "tmp"];

/// Builds an initial file system of busybox, an optional script, and further files by path. Files that start like a
/// program are made executable.
pub fn with_busybox(busybox: &[u8], script: Option<&[u8]>, files: &[(String, Vec<u8>)]) -> Vec<u8> {
    with_devices(busybox, script, files, &Devices::default())
}

/// Builds such a file system that also makes devices ready.
pub fn with_devices(busybox: &[u8], script: Option<&[u8]>, files: &[(String, Vec<u8>)], devices: &Devices) -> Vec<u8> {
    let mut archive = Archive::default();
    for name in DIRECTORIES {
        archive.directory(name);
    }
    archive.program("bin/busybox", busybox);
    archive.symlink("bin/sh", "busybox");
    let load = if files.iter().any(|(path, _)| path.starts_with(MODULES)) { LOAD } else { "" };
    let run = if devices.has_root { RUN_INSIDE } else { RUN };
    archive.program("init", [INIT, &devices.functions(), load, &devices.steps(), run, ends(busybox)].concat().as_bytes());
    if devices.has_network {
        archive.parents(LEASE_PATH);
        archive.program(LEASE_PATH, LEASE.as_bytes());
    }
    if let Some(script) = script {
        archive.file(SCRIPT, script);
    }
    for (path, bytes) in files {
        archive.parents(path);
        match bytes.starts_with(b"#!") || bytes.starts_with(b"\x7fELF") {
            true => archive.program(path, bytes),
            false => archive.file(path, bytes),
        }
    }
    archive.finish()
}

/// The shell commands that pass the status to the board on which this program runs.
fn ends(program: &[u8]) -> &'static str {
    let machine = Elf::parse_header(program).ok().map(|header| header.e_machine);
    kernels::all().find(|row| Some(row.elf.machine) == machine).map_or(ENDS, |row| row.ends)
}

/// An archive under construction.
#[derive(Clone, Debug, Default)]
pub struct Archive {
    bytes: Vec<u8>,
    entries: u32,
    directories: BTreeSet<String>,
}

impl Archive {
    /// Adds a directory. Its parents must have been added.
    pub fn directory(&mut self, path: &str) {
        self.directories.insert(path.into());
        self.entry(path, DIRECTORY, &[]);
    }

    /// Adds the missing parent directories of a path.
    pub fn parents(&mut self, path: &str) {
        for (at, _) in path.match_indices('/').filter(|(at, _)| *at > 0) {
            if !self.directories.contains(&path[..at]) {
                self.directory(&path[..at]);
            }
        }
    }

    /// Adds a file.
    pub fn file(&mut self, path: &str, bytes: &[u8]) {
        self.entry(path, FILE, bytes);
    }

    /// Adds an executable file.
    pub fn program(&mut self, path: &str, bytes: &[u8]) {
        self.entry(path, PROGRAM, bytes);
    }

    /// Adds a symbolic link.
    pub fn symlink(&mut self, path: &str, target: &str) {
        self.entry(path, SYMLINK, target.as_bytes());
    }

    /// Completes the archive and returns its bytes.
    pub fn finish(mut self) -> Vec<u8> {
        self.entry(TRAILER, 0, &[]);
        self.bytes
    }

    fn entry(&mut self, path: &str, mode: u32, bytes: &[u8]) {
        self.entries += 1;
        let links = if mode == DIRECTORY { 2 } else { 1 };
        let (owner, group, time, device, check) = (0, 0, 0, 0, 0);
        let fields = [
            self.entries,
            mode,
            owner,
            group,
            links,
            time,
            bytes.len() as u32,
            device,
            device,
            device,
            device,
            path.len() as u32 + 1,
            check,
        ];
        self.bytes.extend(MAGIC.bytes());
        for field in fields {
            self.bytes.extend(format!("{field:08X}").bytes());
        }
        self.bytes.extend(path.bytes());
        self.bytes.push(0);
        self.align();
        self.bytes.extend(bytes);
        self.align();
    }

    fn align(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(ALIGNMENT), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads an archive like the kernel: path, mode, content.
    fn read(mut archive: &[u8]) -> Vec<(String, u32, Vec<u8>)> {
        let mut entries = Vec::new();
        loop {
            assert!(archive.starts_with(MAGIC.as_bytes()));
            let field = |number: usize| {
                let text = std::str::from_utf8(&archive[6 + 8 * number..14 + 8 * number]).expect("digits");
                u32::from_str_radix(text, 16).expect("a number") as usize
            };
            let (mode, size, name) = (field(1) as u32, field(6), field(11));
            let path = String::from_utf8(archive[110..110 + name - 1].to_vec()).expect("a name");
            let start = (110 + name).next_multiple_of(4);
            if path == TRAILER {
                return entries;
            }
            entries.push((path, mode, archive[start..start + size].to_vec()));
            archive = &archive[(start + size).next_multiple_of(4)..];
        }
    }

    #[test]
    fn everything_is_in_it_and_parents_come_before_what_they_hold() {
        let files = [("lib/modules/a.ko".to_string(), b"\x7fELFx".to_vec()), ("lib/b".into(), b"text".to_vec())];
        let entries = read(&with_busybox(b"\x7fELF", Some(b"echo hi\n"), &files));
        let mode_of = |path: &str| entries.iter().find(|(name, _, _)| name == path).map(|(_, mode, _)| *mode);
        #[rustfmt::skip]
        let expected = [("init", PROGRAM), ("script", FILE), ("bin/busybox", PROGRAM), ("bin/sh", SYMLINK), ("lib/modules", DIRECTORY), ("lib/modules/a.ko", PROGRAM), ("lib/b", FILE)];
        for (path, mode) in expected {
            assert_eq!(mode_of(path), Some(mode), "{path}");
        }
        for (number, (path, _, _)) in entries.iter().enumerate() {
            if let Some((parent, _)) = path.rsplit_once('/') {
                assert!(entries[..number].iter().any(|(name, mode, _)| name == parent && *mode == DIRECTORY), "{path}");
            }
        }
        assert_eq!(entries.iter().filter(|(path, _, _)| path == "lib").count(), 1);
    }

    /// FS-5: init mounts the given folders, and enters the root folder.
    #[test]
    fn init_mounts_folders_and_enters_the_root() {
        let init = |has_root, tags: &[&str]| {
            let tags = tags.iter().map(|tag| (*tag).into()).collect();
            let devices = Devices { has_root, tags, ..Devices::default() };
            let entries = read(&with_devices(b"\x7fELF", None, &[], &devices));
            let init = entries.into_iter().find(|(path, _, _)| path == "init").expect("init").2;
            String::from_utf8(init).expect("text")
        };
        assert!(!init(false, &[]).contains("9p"));
        let shares = init(false, &["a", "b"]);
        assert!(shares.contains("folder a /mnt/a &&\nfolder b /mnt/b &&\nif [ -f /script ]") && !shares.contains("chroot"));
        let root = init(true, &["a"]);
        assert!(root.contains("folder root /newroot &&") && root.contains("folder a /newroot/mnt/a &&"), "{root}");
        assert!(root.contains("chroot /newroot /bin/sh /.script"), "{root}");
    }
}
