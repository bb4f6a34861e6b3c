//! Detects guest events that the engine must know: a task that exits, freed init text, and modules that come and go.
//!
//! Internal probes on functions of the kernel detect them; users do not see these probes. A handler runs inside a hit, where
//! the engine cannot be changed, so it only records the event in [`Notes`]. The listener reads the notes after the hit.

use super::modules::{ModuleNotes, loader_probes};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use trapline_probes::probe::{Flow, Hit, Kprobe};

/// The notes of the internal probes.
#[derive(Debug, Default)]
pub struct Notes {
    exited: AtomicU64,
    init_freed: AtomicBool,
    /// The events of the module loader.
    pub modules: Arc<ModuleNotes>,
}

impl Notes {
    /// Takes the last event of a task.
    pub fn take_exited(&self) -> Option<Exited> {
        // The common case, no note, costs one load.
        if self.exited.load(Ordering::Relaxed) == 0 {
            return None;
        }
        match self.exited.swap(0, Ordering::Relaxed) {
            0 => None,
            task if task & RELEASED != 0 => Some(Exited::Released(task & !RELEASED)),
            task => Some(Exited::Dying(task)),
        }
    }

    /// Whether the guest has freed its init text and the session has not handled that yet.
    pub fn init_freed(&self) -> bool {
        self.init_freed.load(Ordering::Relaxed)
    }

    /// Removes all notes, after a snapshot was restored.
    pub fn clear(&self) {
        self.modules.take();
        self.exited.store(0, Ordering::Relaxed);
        self.init_freed.store(false, Ordering::Relaxed);
    }

    /// Notes that the session has handled the freed init text.
    pub fn init_dealt_with(&self) {
        self.init_freed.store(false, Ordering::Relaxed);
    }
}

/// An event at the end of a task. The number is the address of its `task_struct`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exited {
    /// The task will never run again after the next switch.
    Dying(u64),
    /// The task's structure is freed, or another task's already: its address may be reused, or is.
    Released(u64),
}

/// A flag in the note of a freed task. Tasks have even addresses.
const RELEASED: u64 = 1;

/// The function that a task calls last, in Linux 4.9 and later.
const LAST_CALL: &str = "do_task_dead";
/// The function that frees a task's structure, its argument, in every Linux. It runs long after the task's last switch.
const RELEASES_TASK: &str = "__put_task_struct";
/// The function that a new task's structure, its argument, is given to before the task runs. In a kernel without
/// [`RELEASES_TASK`], such as the tiny ones, it is the first sign that another task's structure is in use again.
const STARTS_TASK: &str = "wake_up_new_task";
/// Functions that free the init sections.
const FREES_INIT: &[&str] = &["free_initmem", "free_kernel_image_pages"];

/// The internal probes, for those functions that exist (`has`).
pub fn internal_probes(notes: &Arc<Notes>, has: impl Fn(&str) -> bool) -> Vec<Kprobe> {
    let mut probes = loader_probes(&notes.modules, &has);
    type Note = fn(&mut Hit<'_>) -> u64;
    let releases = if has(RELEASES_TASK) { RELEASES_TASK } else { STARTS_TASK };
    let tasks: [(&str, Note); 2] = [(LAST_CALL, |hit| hit.task()), (releases, |hit| hit.arg(0) | RELEASED)];
    for (name, note) in tasks.into_iter().filter(|(name, _)| has(name)) {
        let notes = Arc::clone(notes);
        let probe = Kprobe::at(name).pre(move |hit| {
            notes.exited.store(note(hit), Ordering::Relaxed);
            Flow::Continue
        });
        probes.push(probe.internal());
    }
    // The first one calls the others, so one probe is enough.
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
