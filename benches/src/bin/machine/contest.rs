//! The contestants of the comparison with QEMU: this build of trapline, another build if one is named, and each QEMU. They
//! boot the same kernel with the same initramfs and command line. [`CONTESTS`] lists the kernels and QEMU's arguments;
//! [`Contest::prepare`] writes the files. Each contestant is a process of its own, and user time is compared.

use crate::{guest, unpacked};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};
use trapline::boot::{Kernel, initramfs, payload};
use trapline_benches::peer::Peer;
use trapline_benches::user_time;
use trapline_images::{Stock, Wanted};

/// A kernel, and the way QEMU runs it.
pub struct Contest {
    /// Its name in `trapline images`.
    pub kernel: &'static str,
    /// The QEMU program.
    qemu: &'static str,
    /// Its arguments, chosen so that the machine resembles trapline's.
    arguments: &'static [&'static str],
    /// Additions to the kernel's command line under QEMU.
    appended: &'static str,
    /// `Some` if QEMU would run the kernel's own decompressor. The kernel is then passed unpacked, as an ELF file with
    /// this machine number.
    unpacked_for: Option<u64>,
}

const EM_MIPS: u64 = 8;
/// The file name of the unpacked kernel.
const UNPACKED: &str = "unpacked";

/// The contests. Add a row for another kernel.
pub const CONTESTS: &[Contest] = &[
    // Under QEMU the guest's timers run by the host's clock. On a busy host x86 kernels miss the interrupt with which they
    // test their timer, and panic.
    Contest {
        kernel: "debian/amd64",
        qemu: "qemu-system-x86_64",
        arguments: &[],
        appended: "no_timer_check",
        unpacked_for: None,
    },
    Contest { kernel: "debian/i386", qemu: "qemu-system-i386", arguments: &[], appended: "no_timer_check", unpacked_for: None },
    // QEMU's virt board has no Cortex-A8.
    Contest {
        kernel: "debian/armhf",
        qemu: "qemu-system-arm",
        arguments: &["-M", "virt,highmem=off", "-cpu", "cortex-a15"],
        appended: "",
        unpacked_for: None,
    },
    // QEMU provides a KASLR seed, which makes the kernel use separate user page tables (KPTI).
    Contest {
        kernel: "debian/arm64",
        qemu: "qemu-system-aarch64",
        arguments: &["-M", "virt", "-cpu", "cortex-a57"],
        appended: "nokaslr",
        unpacked_for: None,
    },
    // QEMU's CPU also has vectors and crypto. It runs the kernel's own decompressor.
    Contest { kernel: "debian/s390x", qemu: "qemu-system-s390x", arguments: &[], appended: "", unpacked_for: None },
    // QEMU emulates a service processor for power-off, runs firmware first, and needs more memory.
    Contest {
        kernel: "debian/ppc64el",
        qemu: "qemu-system-ppc64",
        arguments: &["-M", "powernv9", "-m", "1024"],
        appended: "",
        unpacked_for: None,
    },
    Contest {
        kernel: "debian/mipsel",
        qemu: "qemu-system-mipsel",
        arguments: &["-M", "malta", "-cpu", "24Kf"],
        appended: "",
        unpacked_for: Some(EM_MIPS),
    },
    Contest {
        kernel: "debian/mips64el",
        qemu: "qemu-system-mips64el",
        arguments: &["-M", "malta", "-cpu", "5KEf"],
        appended: "",
        unpacked_for: Some(EM_MIPS),
    },
    // QEMU runs its firmware first. Its default CPU has the extensions of later years, and page tables of more levels, which
    // 6.12 would use.
    Contest {
        kernel: "debian/riscv64",
        qemu: "qemu-system-riscv64",
        arguments: &["-M", "virt"],
        appended: "no4lvl",
        unpacked_for: None,
    },
];

impl Contest {
    /// The kernel's name without its distribution.
    pub fn short(&self) -> &'static str {
        self.kernel.rsplit('/').next().unwrap_or(self.kernel)
    }

    /// Prepares the files that all contestants boot. The guest runs `script` and powers off.
    pub fn prepare(&self, script: &str) -> Result<Prepared, String> {
        let wanted = Wanted::parse(self.kernel).ok_or("no such kernel")?;
        let local = trapline_images::locate(&wanted, &trapline_images::folders())
            .ok_or_else(|| format!("it is not on this computer; `trapline images pull {}` installs it", self.kernel))?;
        let folder = env::temp_dir().join(format!("trapline-machine-{}-{}", std::process::id(), self.short()));
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let prepared = Prepared { folder, stock: wanted.stock };
        let write =
            |name: &str, bytes: &[u8]| fs::write(prepared.folder.join(name), bytes).map_err(|error| format!("{name}: {error}"));
        let read = |path: &Path| fs::read(path).map_err(|error| format!("{}: {error}", path.display()));
        let busybox = local.busybox.as_deref().ok_or("there is no busybox beside it")?;
        let kernel = read(&local.kernel)?;
        // QEMU loads bzImages and zImages, but no kernel that is compressed with xz as a whole.
        let packed = local.kernel.extension().is_some_and(|extension| extension == "xz");
        match packed {
            true => write(guest::KERNEL, &payload::unpack(&kernel).map_err(|error| error.to_string())?)?,
            false => write(guest::KERNEL, &kernel)?,
        }
        if let Some(machine) = self.unpacked_for {
            let kernel = Kernel::from_bytes(&kernel).map_err(|error| error.to_string())?;
            write(UNPACKED, &unpacked::elf(&kernel, machine))?;
        }
        write(guest::INITRD, &initramfs::with_busybox(&read(busybox)?, Some(script.as_bytes()), &[]))?;
        write(guest::COMMAND_LINE, prepared.stock.command_line.as_bytes())?;
        Ok(prepared)
    }

    /// The contestants: the builds of trapline, then each QEMU that has the program for this kernel.
    pub fn contestants(&self, beside: Option<&Path>, peers: &[Peer]) -> Result<Vec<Contestant>, String> {
        let mut all = vec![Contestant::Build(env::current_exe().map_err(|error| error.to_string())?)];
        all.extend(beside.map(|build| Contestant::Build(build.to_path_buf())));
        for peer in peers {
            match peer.has(self.qemu) {
                true => all.push(Contestant::Peer(peer.clone())),
                false => eprintln!("{}: {} has no {}, so its column stays empty", self.kernel, peer.name(), self.qemu),
            }
        }
        Ok(all)
    }

    /// The command with which this QEMU boots the prepared kernel.
    pub fn under(&self, peer: &Peer, prepared: &Prepared) -> Command {
        let mut command = peer.command(self.qemu);
        command.args(["-accel", "tcg", "-m", "512", "-nographic", "-no-reboot"]).args(self.arguments);
        let kernel = if self.unpacked_for.is_some() { UNPACKED } else { guest::KERNEL };
        command.arg("-kernel").arg(prepared.folder.join(kernel)).arg("-initrd").arg(prepared.folder.join(guest::INITRD));
        command.args(["-append", &format!("{} {}", prepared.stock.command_line, self.appended)]);
        command
    }
}

/// One of the programs that take turns.
#[derive(Clone)]
pub enum Contestant {
    /// This program, or the same program from another build of trapline.
    Build(PathBuf),
    /// A QEMU.
    Peer(Peer),
}

impl Contestant {
    /// Whether it is this QEMU.
    pub fn is(&self, peer: &Peer) -> bool {
        matches!(self, Contestant::Peer(other) if other == peer)
    }
}

/// Headings of the columns for all QEMUs: the peer with the ratio to it, then each other one.
pub fn peer_headings(peers: &[Peer]) -> Vec<String> {
    let seconds = |peer: &Peer| format!("{}, user s", peer.name());
    match peers.split_first() {
        Some((peer, others)) => [seconds(peer), "ratio".into()].into_iter().chain(others.iter().map(seconds)).collect(),
        None => vec!["QEMU, user s".into(), "ratio".into()],
    }
}

/// The cells below [`peer_headings`], from the user time of trapline and of each QEMU.
pub fn peer_cells(ours: f64, peers: &[Option<f64>]) -> Vec<String> {
    let optional = |value: Option<f64>| value.map_or_else(|| "-".into(), |value| format!("{value:.2}"));
    let (peer, others) = peers.split_first().map_or((None, &[][..]), |(peer, others)| (*peer, others));
    let first = [optional(peer), optional(peer.map(|peer| ours / peer))];
    first.into_iter().chain(others.iter().map(|other| optional(*other))).collect()
}

/// The times as members of a JSON object, by the names of the QEMUs.
pub fn peer_json(peers: &[Peer], times: &[Option<f64>]) -> String {
    let one = |(peer, time): (&Peer, &Option<f64>)| {
        format!("\"{}\":{}", peer.name(), time.map_or_else(|| "null".into(), |time| format!("{time:.3}")))
    };
    format!("{{{}}}", peers.iter().zip(times).map(one).collect::<Vec<_>>().join(","))
}

/// The prepared files, in a temporary folder that is deleted on drop.
pub struct Prepared {
    pub folder: PathBuf,
    stock: &'static Stock,
}

impl Drop for Prepared {
    fn drop(&mut self) {
        // This is the host's temporary folder, so a failure to delete it does no harm.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Runs a command to its end. Returns its user time in seconds and its output.
pub fn run(command: &mut Command) -> Result<(f64, String), String> {
    let before = user_time::of_children()?;
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output().map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(format!("{}: {}", command.get_program().to_string_lossy(), output.status));
    }
    Ok((user_time::of_children()? - before, String::from_utf8_lossy(&output.stdout).into_owned()))
}
