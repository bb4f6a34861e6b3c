//! `--disk`: the devices that a guest has because the user asks for them.

use super::Failure;
use crate::boards;
use crate::devices::virtio::{Attached, blk};
use crate::disks;
use std::path::Path;

/// The arguments for devices.
#[derive(clap::Args, Default)]
pub struct DeviceArgs {
    /// A disk for a stock kernel: a raw or qcow2 image, never written (the guest's writes stay in memory). `,ro` makes it
    /// read-only for the guest. May be repeated: /dev/vda, /dev/vdb
    #[arg(long = "disk", value_name = "FILE[,ro]")]
    disks: Vec<String>,
}

/// A virtio driver, and the file system that is usual on its device.
const FOR_DISKS: &[&str] = &["virtio_blk", "crc32c_generic", "ext4"];

impl DeviceArgs {
    /// Whether there is any device.
    pub fn is_empty(&self) -> bool {
        self.disks.is_empty()
    }

    /// The devices, in the order of their arguments. Opens their files.
    pub fn attached(&self) -> Result<Vec<Attached>, Failure> {
        self.disks.iter().map(|disk| disk_of(disk)).collect()
    }

    /// The kernel modules that these devices need on a board, in the order in which they are loaded. Fails if the board
    /// has no place for devices.
    pub fn modules(&self, board: &str) -> Result<Vec<&'static str>, Failure> {
        if self.is_empty() {
            return Ok(Vec::new());
        }
        let transport = boards::virtio_modules(board)
            .ok_or_else(|| Failure::usage(format!("--disk: the {board} board has no virtio devices yet")))?;
        Ok([transport, FOR_DISKS].concat())
    }
}

fn disk_of(text: &str) -> Result<Attached, Failure> {
    let (file, read_only) = match text.strip_suffix(",ro") {
        Some(file) => (file, true),
        None => (text, false),
    };
    let base = disks::open(Path::new(file)).map_err(|error| Failure::usage(format!("--disk: `{file}` is no disk: {error}")))?;
    Ok(Attached::Disk(blk::Disk { base, read_only }))
}
