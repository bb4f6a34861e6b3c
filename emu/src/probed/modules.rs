//! The guest's loaded modules: their symbols, code and tables, so that they can be probed.
//!
//! Internal probes on functions of the kernel's module loader ([`loader_probes`]) record its events as [`ModuleNote`]s. They
//! also stop the machine, and the session then updates the table [`Modules`]. A module is in the table from the time when the
//! loader has relocated it until it is unloaded. Its text need not be physically contiguous, so the table has the physical
//! address of each page.

use crate::boot::Kernel;
use crate::boot::module::{Module, ModuleText};
use crate::unwind::rules::{self, ModuleRule};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use trapline_probes::guest::{Blacklisted, Site, Symbol, Text};
use trapline_probes::probe::{Flow, Hit, Kprobe};
use trapline_probes::unwind::Unwind;

const PAGE: u64 = 4096;

/// An event of the module loader. The number in each is the address of the guest's `struct module`, which identifies
/// the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModuleNote {
    /// The module is at its final address: addresses of its ELF header and its section headers follow.
    Placed(u64, u64, u64),
    /// The guest has patched the module's text, and its init function runs next.
    Coming(u64),
    /// The init function has returned, and the init sections are freed.
    Live(u64),
    /// The module is unloaded.
    Going(u64),
}

/// The notes in order. A lock is acceptable, because modules come and go rarely.
#[derive(Debug, Default)]
pub struct ModuleNotes {
    some: AtomicBool,
    notes: Mutex<Vec<ModuleNote>>,
}

impl ModuleNotes {
    fn add(&self, note: ModuleNote) {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner).push(note);
        self.some.store(true, Ordering::Relaxed);
    }

    /// Whether there are notes.
    pub fn some(&self) -> bool {
        self.some.load(Ordering::Relaxed)
    }

    /// Takes all notes.
    pub fn take(&self) -> Vec<ModuleNote> {
        self.some.store(false, Ordering::Relaxed);
        std::mem::take(&mut *self.notes.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

type Note = fn(&mut Hit<'_>) -> ModuleNote;

/// The loader's functions, each with the note that its probe leaves. Linux 4.19 to 6.12 have these names.
const LOADER: &[(&str, Note)] = &[
    ("module_finalize", |hit| ModuleNote::Placed(hit.arg(2), hit.arg(0), hit.arg(1))),
    ("do_init_module", |hit| ModuleNote::Coming(hit.arg(0))),
    ("trim_init_extable", |hit| ModuleNote::Live(hit.arg(0))),
    ("module_arch_cleanup", |hit| ModuleNote::Going(hit.arg(0))),
];

/// The probes on the loader's functions. Empty unless the kernel has all of them, because an incomplete list of events
/// would mislead.
pub fn loader_probes(notes: &Arc<ModuleNotes>, has: impl Fn(&str) -> bool) -> Vec<Kprobe> {
    if !LOADER.iter().all(|(name, _)| has(name)) {
        return Vec::new();
    }
    let probe = |(name, note): &(&str, Note)| {
        let (notes, note) = (Arc::clone(notes), *note);
        let leave = move |hit: &mut Hit<'_>| {
            notes.add(note(hit));
            Flow::Continue
        };
        Kprobe::at(*name).pre(leave).internal()
    };
    LOADER.iter().map(probe).collect()
}

/// The modules of the guest.
#[derive(Default)]
pub struct Modules {
    loaded: Vec<Loaded>,
}

/// A module of the table.
struct Loaded {
    /// The address of the guest's `struct module`.
    key: u64,
    module: Module,
    /// The physical address of each page of its code, by virtual address.
    pages: BTreeMap<u64, u64>,
    /// Whether its code may be probed: the loader has finished patching it.
    is_there: bool,
    /// Whether its init function has returned, so that its init sections are freed.
    init_done: bool,
    /// Its unwind rule, computed at first use.
    rule: OnceLock<Option<Arc<dyn Unwind>>>,
}

impl Modules {
    /// Adds a module that was placed. `page` gives the physical address of a page.
    pub fn placed(&mut self, key: u64, module: Module, mut page: impl FnMut(u64) -> Option<u64>) {
        let pages =
            module.text.iter().flat_map(|text| (text.range.start / PAGE..text.range.end.div_ceil(PAGE)).map(|page| page * PAGE));
        let pages = pages.filter_map(|at| Some((at, page(at)?))).collect();
        self.loaded.push(Loaded { key, module, pages, is_there: false, init_done: false, rule: OnceLock::new() });
    }

    /// Adds the modules of another table. They replace modules with the same key.
    pub fn take_over(&mut self, other: Modules) {
        self.loaded.retain(|loaded| other.loaded.iter().all(|new| new.key != loaded.key));
        self.loaded.extend(other.loaded);
    }

    /// Notes that the module's init function is about to run. Returns its name.
    pub fn coming(&mut self, key: u64) -> Option<String> {
        let loaded = self.loaded.iter_mut().find(|loaded| loaded.key == key)?;
        loaded.is_there = true;
        Some(loaded.module.name.clone())
    }

    /// The code that is freed after the init function, or all of its code if `all`.
    pub fn given_up(&self, key: u64, all: bool) -> Vec<Range<u64>> {
        let loaded = self.loaded.iter().filter(|loaded| loaded.key == key);
        loaded.flat_map(Loaded::text).filter(|text| all || text.init).map(|text| text.range.clone()).collect()
    }

    /// Notes that the module's init function has returned.
    pub fn live(&mut self, key: u64) {
        for loaded in self.loaded.iter_mut().filter(|loaded| loaded.key == key) {
            loaded.init_done = true;
        }
    }

    /// Removes a module.
    pub fn gone(&mut self, key: u64) {
        self.loaded.retain(|loaded| loaded.key != key);
    }

    /// Removes all modules.
    pub fn clear(&mut self) {
        self.loaded.clear();
    }

    /// The names of the modules that may be probed.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.there().map(|loaded| &*loaded.module.name)
    }

    /// The module with that name.
    pub fn named(&self, name: &str) -> Option<&Module> {
        self.there().map(|loaded| &loaded.module).find(|module| module.name == name)
    }

    /// The rules by which the modules' stacks are unwound.
    pub fn unwind_rules(&self) -> Vec<ModuleRule> {
        let rule = |loaded: &Loaded| {
            let rule = loaded.rule.get_or_init(|| rules::of_module(&loaded.module.image)).clone()?;
            Some(ModuleRule { text: loaded.text().map(|text| text.range.clone()).collect(), rule })
        };
        self.loaded.iter().filter_map(rule).collect()
    }

    fn there(&self) -> impl Iterator<Item = &Loaded> {
        self.loaded.iter().filter(|loaded| loaded.is_there)
    }

    fn around(&self, address: u64) -> Option<&Loaded> {
        self.there().find(|loaded| loaded.holds(address))
    }

    /// Finds `module:symbol`, or a symbol of any module.
    pub fn symbol(&self, name: &str) -> Option<Symbol> {
        let (module, name) = match name.split_once(':') {
            Some((module, name)) => (Some(module), name),
            None => (None, name),
        };
        let wanted = self.there().filter(|loaded| module.is_none_or(|module| module == loaded.module.name));
        let mut found =
            wanted.filter_map(|loaded| loaded.module.image.symbols.find(name).filter(|symbol| loaded.holds(symbol.start)));
        found.next()
    }

    /// The number of symbols with that name in all modules.
    pub fn symbols_named(&self, name: &str) -> usize {
        self.there().map(|loaded| loaded.module.image.symbols.count(name)).sum()
    }

    /// The symbol that covers an address.
    pub fn symbol_at(&self, address: u64) -> Option<Symbol> {
        self.around(address)?.module.image.symbols.containing(address)
    }

    /// Similar names in the form `module:symbol`, for a name in that form.
    pub fn similar(&self, name: &str) -> Vec<String> {
        let Some((module, name)) = name.split_once(':') else { return Vec::new() };
        let loaded = self.there().filter(|loaded| loaded.module.name == module);
        loaded.flat_map(|loaded| loaded.module.image.symbols.similar(name)).map(|near| format!("{module}:{near}")).collect()
    }

    /// The kind of code at an address.
    pub fn text_kind(&self, address: u64) -> Option<Text> {
        let loaded = self.around(address).filter(|loaded| !loaded.module.image.symbols.is_data(address))?;
        let text = loaded.text().find(|text| text.range.contains(&address))?;
        Some(if text.init { Text::Init } else { Text::Core })
    }

    /// The ftrace site, static key or other site at an address that the guest itself patches.
    pub fn site_at(&self, address: u64) -> Option<Site> {
        self.around(address)?.module.image.tables.sites.get(&address).copied()
    }

    /// The image of the module around an address.
    pub fn image_around(&self, address: u64) -> Option<&Kernel> {
        Some(&self.around(address)?.module.image)
    }

    /// The blacklists of all modules.
    pub fn blacklist(&self) -> impl Iterator<Item = &Blacklisted> {
        self.there().flat_map(|loaded| &loaded.module.image.tables.blacklist)
    }

    /// The first instruction in a range whose fault the kernel expects (`__ex_table`).
    pub fn expected_fault(&self, range: &Range<u64>) -> Option<u64> {
        self.around(range.start)?.module.image.tables.expected_fault(range)
    }

    /// The first address in a range at which the kernel continues after an expected fault (`__ex_table`).
    pub fn fixup(&self, range: &Range<u64>) -> Option<u64> {
        self.around(range.start)?.module.image.tables.fixup(range)
    }

    /// The physical address of a code address, and the number of contiguous bytes from there on.
    pub fn physical(&self, address: u64) -> Option<(u64, u64)> {
        let loaded = self.around(address).filter(|loaded| !loaded.module.image.symbols.is_data(address))?;
        let text = loaded.text().find(|text| text.range.contains(&address))?;
        let page = loaded.pages.get(&(address & !(PAGE - 1)))?;
        let offset = address % PAGE;
        Some((page + offset, (PAGE - offset).min(text.range.end - address)))
    }
}

impl Loaded {
    fn text(&self) -> impl Iterator<Item = &ModuleText> {
        self.module.text.iter().filter(|text| !(text.init && self.init_done))
    }

    /// Whether an address is in a section that has not been freed.
    fn holds(&self, address: u64) -> bool {
        let given_up = || self.init_done && self.module.init.iter().any(|range| range.contains(&address));
        self.module.image.segments.iter().any(|segment| segment.range().contains(&address)) && !given_up()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::boot::{Kernel, Section, Segment};
    use crate::machine::Config;
    use crate::probed::Session;
    use crate::symbols::{Entry, Symbols};
    use trapline_isa::plan::Errno;
    use trapline_probes::point::Mode;

    /// Physical memory that the tiny kernel does not use before it runs.
    const PHYSICAL: u64 = 24 << 20;
    /// `push %rbp`, `mov 0x10(%rip),%rax`, `nop`s.
    const CODE: [u8; 16] = [0x55, 0x48, 0x8b, 0x05, 0x10, 0, 0, 0, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0xc3];

    fn with_module_at(at: u64) -> Session {
        let builtin = trapline_images::find("tiny/x86_64").expect("it is built in");
        let kernel = Kernel::from_bytes(builtin.bytes).expect("a kernel");
        let arch = kernel.arch;
        let mut session = Session::new(kernel, &Config::default()).expect("a machine");
        assert!(session.machine_mut().write_physical(PHYSICAL, &CODE));
        let range = at..at + CODE.len() as u64;
        let segment =
            Segment { physical: 0, virtual_address: at, bytes: CODE.to_vec().into(), size: CODE.len() as u64, executable: true };
        let entry = Entry { address: at, name: "work".into(), kind: 'T', module: Some("far".into()) };
        let symbols = Symbols::within(vec![entry], vec![range.clone()]);
        let sections = vec![Section { name: ".text".into(), range: range.clone() }];
        let image = Kernel::of_sections(arch, vec![segment], sections, symbols);
        let module = Module { name: "far".into(), image, text: vec![ModuleText { range, init: false }], init: vec![] };
        session.change_modules(|modules| {
            modules.placed(1, module, |_| Some(PHYSICAL));
            modules.coming(1);
        });
        session
    }

    /// KP-1, OP-2: probes in modules out of jump reach are not optimised, or are refused.
    #[test]
    fn module_text_out_of_reach_of_the_window_gets_no_jump_or_a_refusal() {
        const NEAR: u64 = 0xffff_ffff_c000_0000;
        const FAR: u64 = 0xffff_c900_0000_0000;
        type Answer = Result<bool, Errno>;
        #[rustfmt::skip]
        let cases: [(&str, u64, u32, Answer); 4] = [
            // what                             module  offset  boosted, or why not
            ("near, a push",                    NEAR,   0,      Ok(true)),
            ("near, by a distance from the pc", NEAR,   1,      Ok(true)),
            ("far, a push",                     FAR,    0,      Ok(false)),
            ("far, by a distance from the pc",  FAR,    1,      Err(Errno::EINVAL)),
        ];
        for (what, at, offset, expected) in cases {
            let mut session = with_module_at(at);
            let probe = Kprobe::at("far:work").offset(offset).pre(|_| Flow::Continue);
            session.with_engine(|engine, _| engine.set_optimization_delay(0));
            let registered = session.register_kprobe(&probe);
            if let Err(refusal) = &registered {
                assert!(refusal.to_string().contains("2 GiB"), "{what}: {refusal}");
            }
            session.with_engine(|_, _| ());
            let summary = session.with_engine(|engine, guest| engine.summary(guest));
            let mode = summary.iter().find(|line| Some(line.address) == probe.address()).map(|line| line.mode);
            let answer =
                registered.map(|()| matches!(mode, Some(Mode::Boosted | Mode::Optimized))).map_err(|refusal| refusal.errno);
            assert_eq!(answer, expected, "{what}: {mode:?}");
            let mut text = [0; CODE.len()];
            session.with_engine(|engine, guest| engine.read_original(guest, at, &mut text)).expect("its text");
            assert_eq!(text, CODE, "{what}");
            session.machine().ram().read(PHYSICAL, &mut text);
            assert_eq!(text == CODE, expected.is_err(), "{what}: nothing stands where it was refused");
        }
    }
}
