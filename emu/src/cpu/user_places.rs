//! The observed instructions of user programs: which of them lie in a page of memory.
//!
//! The machine asks when it translates code (`UserPlaces::in_page`). A translation lives until its bytes are written,
//! so the answer holds for every process that maps the page, and through fork, exec and copy-on-write.
//!
//! A page belongs to a file by the mapping of the program that runs it. In kernels whose structures are unknown, because
//! they have no type information, it belongs to the file whose bytes it has.

use super::View;
use super::mappings::{self, MappingPlace, Path};
use super::program_names::{MappedFiles, ProgramNames};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// The number that stands for an arrival at a return address.
pub const ARRIVAL: u32 = u32::MAX;
/// Pages are asked for in this size, whatever the guest's own is.
pub const PAGE: u64 = 4096;
/// A program may have this many calls whose return address is in a page that is not mapped.
const MOST_UNMAPPED: usize = 32;
/// The kernel has this much time to map such a page, in nanoseconds.
const TIME_TO_MAP: u64 = 1_000_000_000;
/// Bytes at the start of a page by which pages with its content are searched.
const KEY: usize = 32;

/// The observed instructions of user programs.
#[derive(Default)]
pub struct UserPlaces {
    pub(super) mapping: Option<MappingPlace>,
    files: Vec<File>,
    by_path: HashMap<String, usize>,
    /// File and page by the page's first bytes, of files whose content is known.
    by_start: HashMap<[u8; KEY], Vec<(usize, u64)>>,
    /// Offsets of return addresses, by the physical address of their page.
    arrivals: HashMap<u64, Vec<u32>>,
    /// Return addresses in pages that were not mapped when the call was made: the newest ones, in a ring.
    unmapped: [u64; MOST_UNMAPPED],
    next_unmapped: usize,
    /// The return addresses out of `unmapped` whose fetch has faulted, each with the time until which the program may
    /// repeat the fetch.
    awaited: Vec<(u64, u64)>,
    /// The running task of each CPU, on ISAs where it cannot be read while a program runs. 0 means unknown.
    running: Vec<u64>,
    pub(super) path: Path,
    /// The mappings in which addresses are named, if a script wants names.
    pub(super) names: Option<ProgramNames>,
    /// The last answer.
    list: Vec<u32>,
    has_changed: bool,
    /// Pages with points that belonged to their file by a mapping, or by their content.
    found: Found,
}

/// The numbers of pages with points, by the way in which their file was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Pages whose file was found by the mapping of the running program.
    pub by_mapping: u64,
    /// Pages whose file was found by their content.
    pub by_content: u64,
}

#[derive(Default)]
struct File {
    /// Offset in the page and number of each point, by the page's number in the file.
    pages: BTreeMap<u64, Vec<(u32, u32)>>,
    content: Option<Arc<[u8]>>,
}

/// The reason why a place cannot be observed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownFile;

impl UserPlaces {
    /// None observed, in a kernel whose structures are here.
    pub fn new(mapping: Option<MappingPlace>) -> UserPlaces {
        UserPlaces { mapping, ..UserPlaces::default() }
    }

    /// Whether files are found by the kernel's structures.
    pub fn knows_mappings(&self) -> bool {
        self.mapping.is_some()
    }

    /// The numbers of pages found so far. A page counts each time when code in it is translated.
    pub fn found(&self) -> Found {
        self.found
    }

    /// Observes an instruction. Fails if neither the kernel's structures nor the file's content are known.
    pub fn observe(&mut self, path: &str, content: Option<Arc<[u8]>>, offset: u64, point: u32) -> Result<(), UnknownFile> {
        if self.mapping.is_none() && content.is_none() {
            return Err(UnknownFile);
        }
        let next = self.files.len();
        let number = *self.by_path.entry(path.into()).or_insert(next);
        if number == next {
            self.files.push(File { content, ..File::default() });
        }
        let Some(file) = self.files.get_mut(number) else { return Err(UnknownFile) };
        let page = offset / PAGE;
        if !file.pages.contains_key(&page)
            && let Some(content) = &file.content
            && let Some(start) = content.get((page * PAGE) as usize..).and_then(|page| page.first_chunk::<KEY>())
        {
            self.by_start.entry(*start).or_default().push((number, page));
        }
        file.pages.entry(page).or_default().push(((offset % PAGE) as u32, point));
        self.has_changed = true;
        Ok(())
    }

    /// Observes an instruction no more.
    pub fn observe_no_more(&mut self, point: u32) {
        for file in &mut self.files {
            file.pages.values_mut().for_each(|points| points.retain(|(_, number)| *number != point));
        }
        self.has_changed = true;
    }

    /// From now on addresses of programs can be named. Returns the list of mappings, which grows as they are met.
    pub fn name_addresses(&mut self) -> MappedFiles {
        self.names.get_or_insert_default().mapped()
    }

    /// The path of the file, and the page in it, whose content the page at this physical address has.
    pub(super) fn path_by_content(&self, view: &View, physical: u64) -> Option<(String, u64)> {
        let (file, page) = self.by_content(view, physical)?;
        let path = self.by_path.iter().find(|(_, number)| **number == file)?.0;
        Some((path.clone(), page))
    }

    /// Whether any instruction is observed.
    pub fn some(&self) -> bool {
        self.files.iter().any(|file| file.pages.values().any(|points| !points.is_empty()))
    }

    /// Whether code must be translated again, since the last call.
    pub fn take_change(&mut self) -> bool {
        std::mem::take(&mut self.has_changed)
    }

    /// Forgets the running tasks and return addresses, because the guest has become another one.
    pub fn start_over(&mut self) {
        self.running.clear();
        self.arrivals.clear();
        self.awaited.clear();
        self.has_changed = true;
    }

    /// Adds a return address. Returns whether it is new.
    fn add_arrival(&mut self, physical: u64) -> bool {
        let offsets = self.arrivals.entry(physical & !(PAGE - 1)).or_default();
        let offset = (physical % PAGE) as u32;
        let is_new = !offsets.contains(&offset);
        if is_new {
            offsets.push(offset);
        }
        is_new
    }

    /// Notes that a program was about to execute code in a page that is not mapped. Returns whether a followed call returns
    /// there; then [`UserPlaces::takes_awaited`] must be called at every block.
    pub(crate) fn faulted(&mut self, pc: u64, now: u64) -> bool {
        // Unused places are 0.
        let is_return = pc != 0 && self.unmapped.contains(&pc);
        if is_return {
            self.awaited.push((pc, now.saturating_add(TIME_TO_MAP)));
        }
        is_return
    }

    /// Whether programs will come back to such code.
    #[inline]
    pub(crate) fn awaits(&self) -> bool {
        !self.awaited.is_empty()
    }

    /// Whether a program has come back to such code. It is not awaited any more then.
    pub(crate) fn takes_awaited(&mut self, pc: u64, now: u64) -> bool {
        let before = self.awaited.len();
        self.awaited.retain(|(at, _)| *at != pc);
        let is_back = self.awaited.len() != before;
        self.awaited.retain(|(_, until)| *until > now);
        is_back
    }

    /// Writes the list for a page to `self.list`: arrivals before points, so that a call ends before the next one begins.
    /// Returns whether the list has entries.
    fn in_page(&mut self, view: &mut View, task: u64, physical: u64, address: u64) -> bool {
        self.list.clear();
        self.list.push(0);
        if let Some(offsets) = self.arrivals.get(&physical) {
            self.list.extend(offsets.iter().flat_map(|offset| [*offset, ARRIVAL]));
        }
        let found = match &self.mapping {
            Some(place) => {
                let offset = mappings::file_at(view, place, task, address, &mut self.path);
                offset.and_then(|offset| Some((*self.by_path.get(self.path.text())?, offset / PAGE)))
            }
            None => self.by_content(view, physical),
        };
        if let Some((file, page)) = found
            && let Some(points) = self.files.get(file).and_then(|file| file.pages.get(&page))
        {
            self.list.extend(points.iter().flat_map(|(offset, number)| [*offset, *number]));
            match self.mapping {
                Some(_) => self.found.by_mapping += 1,
                None => self.found.by_content += 1,
            }
        }
        self.list[0] = (self.list.len() / 2) as u32;
        self.list[0] != 0
    }

    /// The file and page whose content this page has. Behind the file's end a page has zeros.
    fn by_content(&self, view: &View, physical: u64) -> Option<(usize, u64)> {
        let mut bytes = [0; PAGE as usize];
        view.ram.read(physical, &mut bytes[..KEY]).then_some(())?;
        let candidates = self.by_start.get(bytes.first_chunk::<KEY>()?)?;
        view.ram.read(physical, &mut bytes).then_some(())?;
        let has = |file: usize, page: u64| {
            let content = self.files.get(file)?.content.as_ref()?.get((page * PAGE) as usize..)?;
            let (held, rest) = bytes.split_at(content.len().min(PAGE as usize));
            Some(content.starts_with(held) && rest.iter().all(|byte| *byte == 0))
        };
        candidates.iter().copied().find(|(file, page)| has(*file, *page) == Some(true))
    }
}

impl View {
    /// The points in the page of RAM at this physical address, which the running program has at `address`.
    pub(crate) fn user_points(&mut self, physical: u64, address: u64) -> Option<&[u32]> {
        if self.in_kernel() {
            return None;
        }
        // The noted task is among the places, which are taken out for the search.
        let task = self.as_program(|view| (view.task_by)(view));
        let mut places = self.user_places.take()?;
        let any = places.in_page(self, task, physical, address);
        self.user_places = Some(places);
        self.user_places.as_ref().filter(|_| any).map(|places| &places.list[..])
    }

    /// Runs a function while the running task is that of the program that the CPU executes.
    pub(crate) fn as_program<R>(&mut self, with: impl FnOnce(&mut View) -> R) -> R {
        self.task_by = self.by_program();
        let answer = with(self);
        self.task_by = self.model.tasks.current;
        answer
    }

    fn by_program(&self) -> fn(&mut View) -> u64 {
        self.model.tasks.in_program.unwrap_or(noted_task)
    }

    /// Takes the running task from where it stands in the mode of the CPU, the kernel's or a program's. Returns the way that
    /// was taken before, for [`View::task_by`].
    pub(crate) fn take_task_by_mode(&mut self) -> fn(&mut View) -> u64 {
        let by_mode = if self.in_kernel() { self.model.tasks.current } else { self.by_program() };
        core::mem::replace(&mut self.task_by, by_mode)
    }

    /// Notes the running task of this CPU, which is in the kernel.
    pub(crate) fn note_running_task(&mut self) {
        let (task, number) = ((self.model.tasks.current)(self), self.current);
        let Some(places) = &mut self.user_places else { return };
        if places.running.len() <= number {
            places.running.resize(number + 1, 0);
        }
        // Code that a still unknown task has run was translated without its points.
        let was_unknown = std::mem::replace(&mut places.running[number], task) == 0;
        if was_unknown && task != 0 {
            places.has_changed = true;
            self.is_asking = true;
            self.clock.look_at(0);
        }
    }

    /// Observes the code at this address of the running program. If its page is not mapped yet, this is done when the program
    /// gets there. Returns false if the address is not one of a program's code in RAM.
    pub(crate) fn add_arrival(&mut self, address: u64) -> bool {
        let address = address & self.mask;
        let Some(places) = self.user_places.as_mut() else { return false };
        let Ok(physical) = (self.model.translate)(&self.trap.handle(), &self.ram, address, super::Access::User) else {
            if !(self.is_user)(address) {
                return false;
            }
            if !places.unmapped.contains(&address) {
                places.unmapped[places.next_unmapped % MOST_UNMAPPED] = address;
                places.next_unmapped += 1;
            }
            return true;
        };
        if !self.ram.holds(physical & !(PAGE - 1), PAGE as usize) {
            return false;
        }
        if places.add_arrival(physical) {
            self.ram.translate_again(physical);
        }
        true
    }
}

/// The noted task of this CPU; 0 if it is unknown.
fn noted_task(view: &mut View) -> u64 {
    view.user_places.as_ref().and_then(|places| places.running.get(view.current).copied()).unwrap_or(0)
}
