//! The debug information of a kernel and of its modules: the files, and the questions that can be asked about them.

use super::Failure;
use super::dwarf::{self, DwarfArg};
use super::image::ImageArgs;
use crate::boot::btf::Btf;
use crate::boot::btf::types::GuestTypes;
use crate::boot::{Kernel, payload};
use crate::files;
use crate::lines::expand::Known;
use crate::lines::placed::Placed;
use crate::lines::{DebugFile, Info, LinesError};
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use trapline_script::types::Types;

/// The largest file of a module, unpacked.
const MOST_MODULE_BYTES: u64 = 256 << 20;
const HEADER: &[u8] = b"trapline names 2\n";

/// The files with debug information of one kernel.
#[derive(Debug, Default)]
pub struct DebugFiles {
    /// The kernel's, if there is one.
    pub kernel: Option<DebugFile>,
    /// Those of modules, by the guest's name for the module.
    modules: Vec<(String, DebugFile)>,
}

impl DebugFiles {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.kernel.is_none() && self.modules.is_empty()
    }

    /// Adds the debug information of a module. A file of debug information alone is named like the module.
    pub fn add_module(&mut self, path: &Path, file: DebugFile) {
        let name = file.placed.as_ref().and_then(|placed| placed.name.clone()).unwrap_or_else(|| stem(path));
        if self.modules.iter().all(|(known, _)| *known != name) {
            self.modules.push((name, file));
        }
    }

    /// Adds the debug information of modules that the guest loads, as far as their files have it.
    pub fn add_loaded(&mut self, paths: &[PathBuf]) {
        for path in paths {
            let Ok(bytes) = super::file::bytes(path, super::file::Kind::MODULE) else { continue };
            let Ok(bytes) = payload::unpack_at_most(&bytes, MOST_MODULE_BYTES) else { continue };
            if let Some(file) = DebugFile::from_bytes(&bytes).ok().filter(|file| file.placed.is_some()) {
                self.add_module(path, file);
            }
        }
    }

    /// The files, ready for questions.
    pub fn infos(&self) -> Result<Infos<'_>, Failure> {
        let modules = self.modules.iter().map(|(name, file)| Ok(ModuleInfo { name, info: info(file)? }));
        Ok(Infos { kernel: self.kernel.as_ref().map(info).transpose()?, modules: modules.collect::<Result<_, Failure>>()? })
    }
}

/// The name of a module by its file: `snd-pcm.ko.debug` is of `snd_pcm`.
fn stem(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.split(".ko").next().unwrap_or_default().replace('-', "_")
}

/// Questions about a kernel and its modules.
pub struct Infos<'a> {
    /// The kernel's debug information, if there is some.
    pub kernel: Option<Info<'a>>,
    /// The debug information of modules.
    pub modules: Vec<ModuleInfo<'a>>,
}

/// Questions about a module.
pub struct ModuleInfo<'a> {
    /// The guest's name for it.
    pub name: &'a str,
    /// The questions.
    pub info: Info<'a>,
}

impl<'a> ModuleInfo<'a> {
    /// The sections and symbols at the addresses of the file.
    pub fn placed(&self) -> Option<&'a Placed> {
        self.info.file.placed.as_ref()
    }

    /// The knowledge by which event lines are expanded.
    pub fn known(&self) -> Option<Known<'_, 'a>> {
        let isa = self.info.file.arch.isa();
        let symbols = &self.placed()?.symbols;
        Some(Known { isa, symbols, module: Some(self.name), lines: Some(&self.info), types: None })
    }
}

impl<'a> Infos<'a> {
    /// Calls `ask` with the knowledge about the kernel, then about each module, until it has an answer.
    pub fn find<T>(&self, kernel: &Kernel, mut ask: impl FnMut(&Known<'_, '_>) -> Option<T>) -> Option<T> {
        let isa = kernel.arch.isa();
        let types = if self.kernel.is_some() { None } else { Btf::of(kernel).map(GuestTypes::new) };
        let types = types.as_ref().map(|types| types as &dyn Types);
        let own = Known { isa, symbols: &kernel.symbols, module: None, lines: self.kernel.as_ref(), types };
        ask(&own).or_else(|| self.modules.iter().find_map(|module| ask(&module.known()?)))
    }

    /// The knowledge about the module that a place names, and the place without that name.
    pub fn of_module<'t>(&self, place: &'t str) -> Option<(Known<'_, 'a>, &'t str)> {
        let (name, rest) = place.split_once(':')?;
        let module = self.modules.iter().find(|module| module.name == name)?;
        Some((module.known()?, rest))
    }
}

/// The kernel or the module that a command asks about.
pub struct Subject {
    /// The kernel; `None` if the image is a module's file.
    pub kernel: Option<Kernel>,
    /// The debug information.
    pub files: DebugFiles,
}

impl Subject {
    /// Opens the image, and the debug information.
    pub fn open(image: &ImageArgs, dwarf: &DwarfArg) -> Result<Subject, Failure> {
        if let Some(files) = dwarf::own_module(&image.image)? {
            return Ok(Subject { kernel: None, files });
        }
        let kernel = image.load()?;
        let files = dwarf.open(&image.image, &kernel, &[])?;
        Ok(Subject { kernel: Some(kernel), files })
    }

    /// The knowledge about the subject of a place, which may begin with a module's name, and the rest of the place.
    pub fn known<'a, 't>(&'a self, infos: &'a Infos<'a>, place: &'t str) -> Result<(Known<'a, 'a>, &'t str), Failure> {
        if let Some(found) = infos.of_module(place) {
            return Ok(found);
        }
        let known = match &self.kernel {
            Some(kernel) => {
                let isa = kernel.arch.isa();
                Some(Known { isa, symbols: &kernel.symbols, module: None, lines: infos.kernel.as_ref(), types: None })
            }
            None => infos.modules.first().and_then(ModuleInfo::known),
        };
        Ok((known.ok_or_else(|| Failure::usage("the module has no debug information"))?, place))
    }
}

/// Questions about a file. The index of names comes from the cache, or is kept there.
fn info(file: &DebugFile) -> Result<Info<'_>, Failure> {
    let failed = |error: LinesError| Failure::failed(format!("the debug information cannot be used: {error}"));
    let info = Info::new(file).map_err(failed)?;
    let Some(path) = file.build_id_text().and_then(|id| {
        let folder = trapline_images::cache_folder()?.with_file_name("lines");
        Some(folder.join(format!("{id}.names")))
    }) else {
        return Ok(info);
    };
    if let Some(index) = cached(&path)
        && info.use_index(&index)
    {
        return Ok(info);
    }
    let index = info.index().map_err(failed)?;
    let whole = [HEADER, blake3::hash(&index).as_bytes(), &index].concat();
    if let Some(folder) = path.parent() {
        let beside = path.with_extension(format!("{}.tmp", std::process::id()));
        // Without a cache the names are read again in the next run.
        let _ = fs::create_dir_all(folder).and_then(|()| files::write_whole(&path, &beside, &whole));
    }
    Ok(info)
}

/// The index in a file of the cache, if its checksum is right.
fn cached(path: &Path) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(1 << 28).read_to_end(&mut bytes).ok()?;
    let (sum, index) = bytes.strip_prefix(HEADER)?.split_at_checked(blake3::OUT_LEN)?;
    (blake3::hash(index).as_bytes() == sum).then(|| index.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// LV-9: files of debug information alone are named like their modules.
    #[test]
    fn a_module_is_named_by_its_file() {
        for (path, expected) in [("a/shelf.ko", "shelf"), ("snd-pcm.ko.debug", "snd_pcm"), ("/x/ext4.ko.xz", "ext4")] {
            assert_eq!(stem(Path::new(path)), expected);
        }
    }
}
