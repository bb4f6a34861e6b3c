//! The QEMUs that the benches measure beside trapline.
//!
//! The peer is the newest QEMU that Debian ships: `scripts/peer.sh` unpacks it into the user's cache. The installed
//! QEMU is measured too if its version differs. Without an unpacked one the installed QEMU is the peer.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder that `scripts/peer.sh` fills, below the user's cache.
const UNPACKED: &str = "trapline/qemu/newest/bin";
/// The program whose version stands for all programs of one QEMU.
const ANY: &str = "qemu-system-x86_64";

/// One QEMU: its programs and its version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The folder of the programs; `None` for the installed QEMU, which is found by `PATH`.
    folder: Option<PathBuf>,
    /// Its version, such as `11.1.3`.
    version: String,
}

impl Peer {
    /// The name for tables.
    pub fn name(&self) -> String {
        format!("QEMU {}", self.version)
    }

    /// A program of it, such as `qemu-system-arm`, ready for arguments.
    pub fn command(&self, program: &str) -> Command {
        Command::new(self.path(program))
    }

    /// Whether it has this program, and the program starts.
    pub fn has(&self, program: &str) -> bool {
        version_of(&self.path(program)).is_some()
    }

    fn path(&self, program: &str) -> PathBuf {
        self.folder.as_ref().map_or_else(|| program.into(), |folder| folder.join(program))
    }
}

/// All QEMUs on this computer, the peer first.
pub fn all() -> Vec<Peer> {
    let unpacked = cache().map(|cache| cache.join(UNPACKED));
    let found = [unpacked, None].into_iter().enumerate().filter_map(|(number, folder)| {
        // The first is left out if there is no folder for caches.
        if number == 0 && folder.is_none() {
            return None;
        }
        let mut peer = Peer { folder, version: String::new() };
        peer.version = version_of(&peer.path(ANY))?;
        Some(peer)
    });
    let mut peers: Vec<Peer> = found.collect();
    peers.dedup_by(|later, first| later.version == first.version);
    peers
}

/// The user's folder for caches: `XDG_CACHE_HOME`, or `.cache` in the home.
fn cache() -> Option<PathBuf> {
    let absolute = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")))
}

fn version_of(program: &Path) -> Option<String> {
    let output = Command::new(program).arg("--version").output().ok().filter(|output| output.status.success())?;
    parse_version(&String::from_utf8_lossy(&output.stdout))
}

/// The number in `QEMU emulator version 11.1.3 (Debian 1:11.1.3+ds-1)`.
fn parse_version(said: &str) -> Option<String> {
    let (_, rest) = said.lines().next()?.split_once(" version ")?;
    rest.split_whitespace().next().map(str::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_read_from_what_each_qemu_prints() {
        for (said, version) in [
            ("QEMU emulator version 11.1.3 (Debian 1:11.1.3+ds-1)\nCopyright", Some("11.1.3")),
            ("QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18)", Some("7.2.22")),
            ("error while loading shared libraries: libfdt.so.1", None),
            ("", None),
        ] {
            assert_eq!(parse_version(said).as_deref(), version, "{said}");
        }
    }
}
