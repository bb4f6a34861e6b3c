//! Arguments that name copies of the guest's files, for probes in user programs.

use crate::boot::guest_files::Sources;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The arguments for files of the guest.
#[derive(clap::Args, Clone, Debug, Default, Serialize, Deserialize)]
pub struct FilesArg {
    /// A directory on the host with the guest's files, for probes in programs that are not in the initial file system
    #[arg(long, value_name = "DIR")]
    sysroot: Option<PathBuf>,
    /// A copy on the host of a program's file in the guest, for example one with symbols. May be repeated
    #[arg(long = "guest-file", value_name = "PATH=COPY", value_parser = parse)]
    copies: Vec<(String, PathBuf)>,
}

impl FilesArg {
    /// The sources of the guest's files besides its initial file system.
    pub fn sources(&self) -> Sources {
        Sources { sysroot: self.sysroot.clone(), copies: self.copies.clone() }
    }
}

fn parse(text: &str) -> Result<(String, PathBuf), String> {
    match text.split_once('=') {
        Some((path, copy)) if path.starts_with('/') && !copy.is_empty() => Ok((path.into(), copy.into())),
        _ => Err("write the file's path in the guest, `=` and its copy on the host: /bin/busybox=./busybox.debug".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// BY-2
    #[test]
    fn a_file_of_the_guest_is_named_with_its_copy() {
        assert_eq!(parse("/bin/sh=a=b"), Ok(("/bin/sh".into(), "a=b".into())));
        for wrong in ["", "bin/sh=copy", "/bin/sh", "/bin/sh="] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
