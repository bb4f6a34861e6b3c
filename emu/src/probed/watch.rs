//! The guest's own doings that the engine must know of: a task that exits, init text that is freed, modules that come and go.
//!
//! Internal probes on the guest's functions, shown in no list. Their handlers run inside a hit, so they only leave a note here;
//! the listener reads it when the hit is over.

use super::modules::{ModuleNotes, loader_probes};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use trapline_probes::probe::{Flow, Kprobe};

/// What the internal probes have seen.
#[derive(Debug, Default)]
pub struct Notes {
    exited: AtomicU64,
    init_freed: AtomicBool,
    /// What its loader of modules did.
    pub modules: Arc<ModuleNotes>,
}

impl Notes {
    /// The task that has just exited.
    pub fn take_exited(&self) -> Option<u64> {
        // The common case, nothing noted, costs a load.
        if self.exited.load(Ordering::Relaxed) == 0 {
            return None;
        }
        Some(self.exited.swap(0, Ordering::Relaxed)).filter(|task| *task != 0)
    }

    /// Init text has been given up and nobody has dealt with that yet.
    pub fn init_freed(&self) -> bool {
        self.init_freed.load(Ordering::Relaxed)
    }

    /// The guest has become another one: nothing of this has happened.
    pub fn clear(&self) {
        self.modules.take();
        self.exited.store(0, Ordering::Relaxed);
        self.init_freed.store(false, Ordering::Relaxed);
    }

    /// It has been dealt with.
    pub fn init_dealt_with(&self) {
        self.init_freed.store(false, Ordering::Relaxed);
    }
}

/// Functions that a task calls last, in kernels that have them.
const LAST_CALLS: &[&str] = &["do_task_dead"];
/// Functions that give the init sections up.
const FREES_INIT: &[&str] = &["free_initmem", "free_kernel_image_pages"];

/// The probes to register, for the functions that `has` knows.
pub fn internal_probes(notes: &Arc<Notes>, has: impl Fn(&str) -> bool) -> Vec<Kprobe> {
    let mut probes = loader_probes(&notes.modules, &has);
    for name in LAST_CALLS.iter().filter(|name| has(name)) {
        let notes = Arc::clone(notes);
        probes.push(
            Kprobe::at(*name)
                .pre(move |hit| {
                    notes.exited.store(hit.task(), Ordering::Relaxed);
                    Flow::Continue
                })
                .internal(),
        );
    }
    // One is enough: later ones of the list are called by the first.
    if let Some(name) = FREES_INIT.iter().find(|name| has(name)) {
        let notes = Arc::clone(notes);
        probes.push(
            Kprobe::at(*name)
                .pre(move |_| {
                    notes.init_freed.store(true, Ordering::Relaxed);
                    Flow::Continue
                })
                .internal(),
        );
    }
    probes
}
