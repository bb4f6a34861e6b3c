//! The guest's own doings that the engine must know of: a task that exits, init text that is freed, modules that come
//! and go.
//!
//! Internal probes on the guest's functions, shown in no list. Their handlers run inside a hit, so they only leave a
//! note here; the listener reads it when the hit is over.

use super::modules::{ModuleNotes, loader_probes};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use trapline_probes::probe::{Flow, Hit, Kprobe};

/// What the internal probes have seen.
#[derive(Debug, Default)]
pub struct Notes {
    exited: AtomicU64,
    init_freed: AtomicBool,
    /// What its loader of modules did.
    pub modules: Arc<ModuleNotes>,
}

impl Notes {
    /// What has just become of a task.
    pub fn take_exited(&self) -> Option<Exited> {
        // The common case, nothing noted, costs a load.
        if self.exited.load(Ordering::Relaxed) == 0 {
            return None;
        }
        match self.exited.swap(0, Ordering::Relaxed) {
            0 => None,
            task if task & RELEASED != 0 => Some(Exited::Released(task & !RELEASED)),
            task => Some(Exited::Dying(task)),
        }
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

/// How a task ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exited {
    /// It is about to be switched away from for good.
    Dying(u64),
    /// It is no more: its number and its memory may be another's.
    Released(u64),
}

/// Set in the note of a task that is no more: tasks are at even addresses.
const RELEASED: u64 = 1;

/// The function that a task calls last, in Linux 4.9 and later.
const LAST_CALL: &str = "do_task_dead";
/// What gives a task's own structure back, its argument: in every Linux. Long after the task has run for the last time.
const RELEASES_TASK: &str = "__put_task_struct";
/// Functions that give the init sections up.
const FREES_INIT: &[&str] = &["free_initmem", "free_kernel_image_pages"];

/// The probes to register, for the functions that `has` knows.
pub fn internal_probes(notes: &Arc<Notes>, has: impl Fn(&str) -> bool) -> Vec<Kprobe> {
    let mut probes = loader_probes(&notes.modules, &has);
    type Note = fn(&mut Hit<'_>) -> u64;
    let tasks: [(&str, Note); 2] = [(LAST_CALL, |hit| hit.task()), (RELEASES_TASK, |hit| hit.arg(0) | RELEASED)];
    for (name, note) in tasks.into_iter().filter(|(name, _)| has(name)) {
        let notes = Arc::clone(notes);
        let probe = Kprobe::at(name).pre(move |hit| {
            notes.exited.store(note(hit), Ordering::Relaxed);
            Flow::Continue
        });
        probes.push(probe.internal());
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
