//! The debug information (DWARF) of a stock kernel: its own package, of which one file is kept.

use super::apt::Apt;
use super::{LEFTOVER, Progress, PullError, Puller};
use crate::stock::{Local, Wanted};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

impl Puller {
    /// Downloads the debug information of a kernel in the cache, unless it is there. Reports the size before.
    pub fn pull_debug(&self, wanted: &Wanted, local: &Local, report: &mut dyn FnMut(Progress)) -> Result<PathBuf, PullError> {
        if let Some(file) = local.debug() {
            return Ok(file);
        }
        let release = wanted.stock.release(&local.version);
        let apt = Apt::new(self, wanted)?;
        let package = package_of(&release);
        let bytes = match apt.size(&package)? {
            Some(bytes) => bytes,
            None => {
                apt.update(report)?;
                let missing = || PullError::NoSuchVersion { wanted: package.clone(), there: "no package of that name".into() };
                apt.size(&package)?.ok_or_else(missing)?
            }
        };
        report(Progress::Note(format!(
            "{package} is a download of {} MB; about a third of that stays in the cache",
            bytes.div_ceil(1_000_000)
        )));
        self.remove_leftovers();
        let work = self.cache.join(format!("{LEFTOVER}{}", std::process::id()));
        fs::create_dir_all(&work).map_err(|cause| self.unusable(cause))?;
        let result = self.fetch_debug(&apt, &release, local, &work, report);
        let removed = fs::remove_dir_all(&work).map_err(|cause| self.unusable(cause));
        result.and_then(|file| removed.map(|()| file))
    }

    fn fetch_debug(
        &self,
        apt: &Apt<'_>,
        release: &str,
        local: &Local,
        work: &Path,
        report: &mut dyn FnMut(Progress),
    ) -> Result<PathBuf, PullError> {
        let package = package_of(release);
        report(Progress::Step(package.clone()));
        let archive = apt.download(&package, work, report)?;
        report(Progress::Step("unpacking".into()));
        // Packages have the file in boot until Debian 13, then beside the modules.
        let inside = [format!("boot/vmlinux-{release}"), format!("lib/modules/{release}/vmlinux")];
        let found =
            inside.iter().find_map(|name| self.unpack_one(&archive, &format!("./usr/lib/debug/{name}"), work).transpose());
        let file = found.transpose()?.ok_or_else(|| PullError::Incomplete { package, file: inside[0].clone() })?;
        // Half of the file is the linker's relocations, which are applied already. Without binutils they stay.
        let small = work.join("small");
        let objcopy = self.tool("objcopy").arg("--remove-relocations=*").arg(&file).arg(&small).output();
        let kept = if objcopy.is_ok_and(|output| output.status.success()) { small } else { file };
        let place = local.debug_place();
        fs::rename(kept, &place).map_err(|cause| self.unusable(cause))?;
        Ok(place)
    }

    /// Unpacks one file of a package. `None` if the package does not have it.
    fn unpack_one(&self, archive: &Path, name: &str, work: &Path) -> Result<Option<PathBuf>, PullError> {
        let no_tool = |tool: &str| {
            let tool = tool.to_string();
            move |cause| PullError::NoTool { tool, cause }
        };
        let mut unpacks = self.tool("dpkg-deb");
        unpacks.arg("--fsys-tarfile").arg(archive).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut unpacks = unpacks.spawn().map_err(no_tool("dpkg-deb"))?;
        let stream = unpacks.stdout.take().map_or_else(Stdio::null, Stdio::from);
        // tar ends behind the first file of that name: the package has 5 GB behind it.
        let mut tar = Command::new("tar");
        tar.args(["-x", "--occurrence=1", "-C"]).arg(work).arg(name).stdin(stream).stderr(Stdio::null());
        let status = tar.status().map_err(no_tool("tar"));
        let ended = unpacks.kill().and_then(|()| unpacks.wait());
        let file = work.join(name);
        match (status?.success() && file.is_file(), ended) {
            (true, _) => Ok(Some(file)),
            (false, _) => Ok(None),
        }
    }

    fn tool(&self, name: &str) -> Command {
        match self.tools.as_ref().map(|folder| folder.join(name)).filter(|tool| tool.exists()) {
            Some(tool) => Command::new(tool),
            None => Command::new(name),
        }
    }
}

fn package_of(release: &str) -> String {
    format!("linux-image-{release}-dbg")
}

impl Apt<'_> {
    /// The bytes of a package's download. `None` if the lists do not have the package.
    fn size(&self, package: &str) -> Result<Option<u64>, PullError> {
        let said = match self.cache(&["show", "--no-all-versions", package]) {
            // apt-cache fails for a name that it does not know.
            Err(PullError::Failed { .. }) => return Ok(None),
            said => said?,
        };
        Ok(said.lines().find_map(|line| line.strip_prefix("Size:")).and_then(|size| size.trim().parse().ok()))
    }

    /// Downloads a package without what it depends on.
    fn download(&self, package: &str, into: &Path, report: &mut dyn FnMut(Progress)) -> Result<PathBuf, PullError> {
        self.get(&["download", package], into, report)?;
        let there = fs::read_dir(into).map_err(|cause| self.unusable(cause))?;
        let is_archive = |path: &PathBuf| path.extension().is_some_and(|end| end == "deb");
        let missing = || PullError::Incomplete { package: package.into(), file: "file to download".into() };
        there.flatten().map(|entry| entry.path()).find(is_archive).ok_or_else(missing)
    }
}
