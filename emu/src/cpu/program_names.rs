//! The mappings of programs in which a script has named addresses (`usym`, `ustack`). A mapping gets a number at a hit;
//! the names are looked up when they are printed, which may be after the program has ended.

use super::View;
use super::mappings;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// A file that was mapped into a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapped {
    /// The path in the guest.
    pub path: Arc<str>,
    /// The address of the file's offset 0 in the program.
    pub start: u64,
}

/// The numbered mappings, shared by the machine and the scripts' output.
pub type MappedFiles = Arc<Mutex<Vec<Mapped>>>;

/// The mappings that have numbers.
#[derive(Default)]
pub struct ProgramNames {
    files: HashMap<String, u32>,
    numbers: HashMap<(u32, u64), u16>,
    mapped: MappedFiles,
}

/// The largest number of mappings that are numbered; the addresses of others have no name.
const MOST: usize = 0x7000;

impl ProgramNames {
    /// The numbered mappings. A mapping's number is its place in the list.
    pub fn mapped(&self) -> MappedFiles {
        Arc::clone(&self.mapped)
    }

    /// The number of a mapping. Allocates the first time only.
    fn number(&mut self, path: &str, start: u64) -> Option<u16> {
        let next = self.files.len() as u32;
        let file = match self.files.get(path) {
            Some(file) => *file,
            None => *self.files.entry(path.into()).or_insert(next),
        };
        if let Some(number) = self.numbers.get(&(file, start)) {
            return Some(*number);
        }
        let number = u16::try_from(self.numbers.len()).ok().filter(|number| usize::from(*number) < MOST)?;
        self.numbers.insert((file, start), number);
        let mut mapped = self.mapped.lock().unwrap_or_else(PoisonError::into_inner);
        mapped.push(Mapped { path: path.into(), start });
        Some(number)
    }
}

impl View {
    /// The number of the mapping that holds this address of the running program. `None` if no file is mapped there, if
    /// the file cannot be found, or if nobody wants names.
    pub(super) fn mapping_at(&mut self, address: u64) -> Option<u16> {
        self.user_places.as_ref()?.names.as_ref()?;
        let task = trapline_probes::guest::Cpu::task(self);
        let mut places = self.user_places.take()?;
        let number = self.number_of_mapping(&mut places, task, address);
        self.user_places = Some(places);
        number
    }

    fn number_of_mapping(&mut self, places: &mut super::user_places::UserPlaces, task: u64, address: u64) -> Option<u16> {
        let offset = match places.mapping {
            Some(place) => mappings::file_at(self, &place, task, address, &mut places.path)?,
            None => {
                let page = super::user_places::PAGE;
                let physical = (self.model.translate)(&self.trap.handle(), &self.ram, address, super::Access::User).ok()?;
                let (path, found) = places.path_by_content(self, physical & !(page - 1))?;
                let offset = found * page + address % page;
                return places.names.as_mut()?.number(&path, address.wrapping_sub(offset));
            }
        };
        let start = address.wrapping_sub(offset);
        let text = places.path.text();
        places.names.as_mut()?.number(text, start)
    }
}
