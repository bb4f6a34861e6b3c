//! The kernel in the machine as the engine's [`Guest`], between two runs. [`Facts`] knows the kernel's image, its symbols and
//! its modules. [`Live`] adds the machine: it reads and writes text by physical address, allocates the probe window, and
//! knows the pcs of the CPUs.

use super::memory;
use super::modules::Modules;
use super::scripts::texts;
use super::window::WindowAllocator;
use crate::boot::guest_files::GuestFiles;
use crate::boot::{Kernel, Segment};
use crate::cpu::user_places::UnknownFile;
use crate::machine::Parts;
use crate::unwind::{self, rules::Rules};
use std::ops::Range;
use std::sync::{Arc, OnceLock};
use trapline_isa::arch::Isa;
use trapline_isa::mem::Fault;
use trapline_isa::plan::{Errno, Refusal};
use trapline_probes::guest::{Blacklisted, FilePlace, Guest, KnownBy, Site, Symbol, Text, WindowUse as StandsFor};
use trapline_probes::unwind::{Stacks, Unwind};

/// The kernel's image, and the changes to the guest's code since the boot.
pub struct Facts {
    kernel: Kernel,
    /// Whether the guest has freed its init sections.
    init_freed: bool,
    modules: Modules,
    /// The kernel's blacklist, followed by those of the modules.
    blacklist: Vec<Blacklisted>,
    /// The guest's programs and libraries, for probes in them.
    files: Arc<GuestFiles>,
    /// The unwind rules of this kernel, computed at first use.
    unwind: OnceLock<Option<Arc<Rules>>>,
}

impl Facts {
    /// A kernel that has just been loaded.
    pub fn new(kernel: Kernel, files: GuestFiles) -> Facts {
        let blacklist = kernel.tables.blacklist.clone();
        Facts {
            kernel,
            init_freed: false,
            modules: Modules::default(),
            blacklist,
            files: Arc::new(files),
            unwind: OnceLock::new(),
        }
    }

    /// The guest's files, as far as they are known.
    pub fn files(&self) -> &Arc<GuestFiles> {
        &self.files
    }

    /// Replaces the guest's files.
    pub fn set_files(&mut self, files: GuestFiles) {
        self.files = Arc::new(files);
    }

    /// The guest's modules.
    pub fn modules(&self) -> &Modules {
        &self.modules
    }

    /// Changes the modules, and updates the blacklist.
    pub fn change_modules<R>(&mut self, change: impl FnOnce(&mut Modules) -> R) -> R {
        let answer = change(&mut self.modules);
        self.blacklist.truncate(self.kernel.tables.blacklist.len());
        self.blacklist.extend(self.modules.blacklist().cloned());
        if let Some(Some(rules)) = self.unwind.get() {
            rules.set_modules(self.modules.unwind_rules());
        }
        answer
    }

    /// The rules by which the stacks of the kernel and its modules are unwound. `None` if the kernel has none.
    pub fn unwind(&self) -> Option<Arc<Rules>> {
        let rules = || {
            let rules = Rules::new(unwind::of(&self.kernel)?);
            rules.set_modules(self.modules.unwind_rules());
            Some(Arc::new(rules))
        };
        self.unwind.get_or_init(rules).clone()
    }

    /// The way to unwind this guest's stacks: by those rules, or by guessing from the words on them.
    pub fn stacks(&self) -> Stacks {
        Stacks { text: texts(&self.kernel.symbols), rule: self.unwind().map(|rules| rules as Arc<dyn Unwind>) }
    }

    /// The kernel's image.
    pub fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    /// Notes that the init sections were freed.
    pub fn init_is_freed(&mut self) {
        self.init_freed = true;
    }

    /// Whether the init sections were freed.
    pub fn init_freed(&self) -> bool {
        self.init_freed
    }

    /// Sets whether the init sections were freed, after a snapshot was restored.
    pub fn set_init_freed(&mut self, freed: bool) {
        self.init_freed = freed;
    }

    /// The address range that is freed with the init sections.
    pub fn init_range(&self) -> Option<Range<u64>> {
        self.kernel.tables.init.clone().or_else(|| self.kernel.tables.init_text.clone())
    }

    fn text_kind(&self, address: u64) -> Option<Text> {
        let tables = &self.kernel.tables;
        if self.kernel.symbols.is_data(address) {
            return None;
        }
        if tables.init_text.as_ref().is_some_and(|range| range.contains(&address)) {
            return (!self.init_freed).then_some(Text::Init);
        }
        tables.text.contains(&address).then_some(Text::Core).or_else(|| self.modules.text_kind(address))
    }
}

/// A machine between two runs, as the engine's guest.
pub struct Live<'a> {
    pub(super) parts: Parts<'a>,
    pub(super) window: &'a mut WindowAllocator,
    pub(super) facts: &'a mut Facts,
}

impl Live<'_> {
    /// The physical address of a kernel address, and the number of bytes loaded from there on. Text does not move, so
    /// this holds under any page tables.
    fn physical(&self, address: u64) -> Result<(u64, u64), Fault> {
        let segment = self.facts.kernel.segments.iter().find(|segment| segment.range().contains(&address));
        let kernel = segment.map(|segment| {
            let offset = address - segment.virtual_address;
            (segment.physical + offset, segment.size - offset)
        });
        kernel.or_else(|| self.facts.modules.physical(address)).ok_or(Fault { address, write: false })
    }

    /// The physical address and range of each contiguous piece of the bytes. A fault contains the first missing
    /// address, so that readers can take the bytes before it.
    fn pieces(&self, address: u64, len: usize) -> Result<Vec<(u64, Range<usize>)>, Fault> {
        let mut pieces = Vec::with_capacity(1);
        let mut done = 0;
        while done < len {
            let (physical, room) = self.physical(address.wrapping_add(done as u64))?;
            let end = len.min(done.saturating_add(usize::try_from(room).unwrap_or(usize::MAX)));
            pieces.push((physical, done..end));
            done = end;
        }
        Ok(pieces)
    }
}

impl Guest for Live<'_> {
    fn isa(&self) -> &'static Isa {
        self.parts.isa
    }

    fn cpus(&self) -> usize {
        self.parts.cpus.len()
    }

    fn symbol(&self, name: &str) -> Option<Symbol> {
        self.facts.kernel.symbols.find(name).or_else(|| self.facts.modules.symbol(name))
    }

    fn knows_per_cpu(&self) -> bool {
        self.parts.model.tasks.moments.per_cpu.is_some()
    }

    fn symbols_named(&self, name: &str) -> usize {
        self.facts.kernel.symbols.count(name) + self.facts.modules.symbols_named(name)
    }

    fn addresses_named(&self, name: &str) -> Vec<u64> {
        self.facts.kernel.symbols.addresses_named(name).collect()
    }

    fn symbol_at(&self, address: u64) -> Option<Symbol> {
        self.facts.kernel.symbols.containing(address).or_else(|| self.facts.modules.symbol_at(address))
    }

    fn similar_names(&self, name: &str) -> Vec<String> {
        match name.contains(':') {
            true => self.facts.modules.similar(name),
            false => self.facts.kernel.symbols.similar(name),
        }
    }

    fn text_kind(&self, address: u64) -> Option<Text> {
        self.facts.text_kind(address)
    }

    fn site_at(&self, address: u64) -> Option<Site> {
        self.facts.kernel.tables.sites.get(&address).copied().or_else(|| self.facts.modules.site_at(address))
    }

    fn is_traced(&self, function: Range<u64>) -> Option<bool> {
        match self.facts.modules.image_around(function.start) {
            Some(image) => image.tables.is_traced(function),
            None => self.facts.kernel.tables.is_traced(function),
        }
    }

    fn blacklist(&self) -> &[Blacklisted] {
        &self.facts.blacklist
    }

    fn expected_fault(&self, range: Range<u64>) -> Option<u64> {
        self.facts.kernel.tables.expected_fault(&range).or_else(|| self.facts.modules.expected_fault(&range))
    }

    fn fixup(&self, range: Range<u64>) -> Option<u64> {
        self.facts.kernel.tables.fixup(&range).or_else(|| self.facts.modules.fixup(&range))
    }

    fn indirect_thunks(&self) -> Range<u64> {
        self.facts.kernel.tables.indirect_thunks.clone()
    }

    fn read_text(&self, address: u64, into: &mut [u8]) -> Result<(), Fault> {
        let fault = Fault { address, write: false };
        // The common case: one piece.
        let (physical, room) = self.physical(address)?;
        if room >= into.len() as u64 {
            return if self.parts.ram.read(physical, into) { Ok(()) } else { Err(fault) };
        }
        for (physical, range) in self.pieces(address, into.len())? {
            if !self.parts.ram.read(physical, &mut into[range]) {
                return Err(Fault { address, write: false });
            }
        }
        Ok(())
    }

    fn patch_text(&mut self, address: u64, bytes: &[u8]) -> Result<(), Fault> {
        for (physical, range) in self.pieces(address, bytes.len())? {
            if !self.parts.ram.write(physical, &bytes[range]) {
                return Err(Fault { address, write: true });
            }
        }
        Ok(())
    }

    fn file_path(&self, path: &str) -> String {
        self.facts.files.resolved(path)
    }

    fn file_symbol(&self, path: &str, symbol: &str) -> Result<u64, Refusal> {
        self.facts.files.offset_of(path, symbol).map_err(|error| Refusal::because(Errno::ENOENT, error.to_string()))
    }

    fn observe(&mut self, place: &FilePlace<'_>, point: u32) -> Result<KnownBy, Refusal> {
        if !self.parts.model.choices.iter().all(|choice| choice.core.observes_programs()) {
            let why = "this machine cannot observe user programs: probe the system calls that they make";
            return Err(Refusal::new(Errno::EOPNOTSUPP, why));
        }
        let FilePlace { path, offset } = *place;
        // A kernel of ARM code runs programs of Thumb code, too.
        let alignment = self.parts.isa.alignment.min(2);
        if offset % alignment != 0 {
            let why = format!("{path}:{offset:#x} is no instruction: they begin at multiples of {alignment}");
            return Err(Refusal::because(Errno::EILSEQ, why));
        }
        let content = self.facts.files.bytes_in_guest(path);
        if let Some(content) = &content
            && offset >= content.len() as u64
        {
            let why = format!("{path}:{offset:#x} is behind the file's end, which is at {:#x}", content.len());
            return Err(Refusal::because(Errno::EINVAL, why));
        }
        let places = self.parts.user_places();
        places.observe(path, content, offset, point).map_err(|UnknownFile| {
            let why = format!(
                "this kernel has no type information (BTF), so the pages of {path} must be known by their content: name a copy \
                 of it, --guest-file {path}=COPY"
            );
            Refusal::because(Errno::ENOENT, why)
        })?;
        Ok(if places.knows_mappings() { KnownBy::Mapping } else { KnownBy::Content })
    }

    fn observe_no_more(&mut self, point: u32) {
        self.parts.user_places().observe_no_more(point);
    }

    fn begin_noting_tasks(&mut self) {
        self.parts.user_places();
    }

    fn knows_task_of_programs(&self) -> bool {
        self.parts.model.tasks.in_program.is_some()
    }

    fn window_take(&mut self, _near: u64, len: usize) -> Option<u64> {
        self.window.take(len)
    }

    fn window_give(&mut self, at: u64, len: usize) {
        self.window.give(at, len);
    }

    fn window_write(&mut self, at: u64, bytes: &[u8], stands_for: StandsFor) {
        if let Some(physical) = self.window.note(at, bytes.len(), stands_for) {
            self.parts.ram.write(physical, bytes);
        }
    }

    fn can_watch(&self) -> bool {
        true
    }

    fn pcs_collide(&self, one: u64, other: u64) -> bool {
        jump_cache_entry(one) == jump_cache_entry(other)
    }

    fn any_cpu_inside(&self, range: Range<u64>) -> bool {
        // Between runs no interrupt frame holds an address of the window, because the machine delivers original
        // addresses.
        self.parts.pcs().iter().chain(&self.parts.returns()).any(|pc| range.contains(pc))
    }

    fn remembers_addresses(&self, ranges: &[Range<u64>]) -> Vec<bool> {
        let code: Vec<Range<u64>> =
            self.facts.kernel.segments.iter().filter(|segment| segment.executable).map(Segment::loaded).collect();
        memory::remembers(self.parts.ram, self.window.guest_memory(), self.parts.isa, &code, ranges)
    }
}

/// The index of a pc in the core's jump cache, for a page size of 4 KiB (docs/unicorn.md). Blocks with the same index evict
/// each other, which is slow but not wrong.
fn jump_cache_entry(pc: u64) -> u64 {
    const PAGE_BITS: u64 = 0xfc0;
    const ADDRESS_BITS: u64 = 0x3f;
    let folded = pc ^ (pc >> 6);
    (folded >> 6) & PAGE_BITS | folded & ADDRESS_BITS
}
