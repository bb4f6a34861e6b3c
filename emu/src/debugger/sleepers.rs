//! Shows the guest's sleeping tasks to gdb as threads (`monitor threads tasks`). The registers of such a task are those that the
//! kernel saved when it switched to another task.

use super::lists::{Task, TaskFields};
use crate::boot::Kernel;
use crate::cpu::switched::{Kept, SwitchedPlace};
use crate::history::timeline::Timeline;
use crate::machine::Place;
use gdbstub::common::Tid;
use thiserror::Error;

/// The gdb thread number of the task with pid 0. Threads with smaller numbers are CPUs.
const FIRST: usize = 10_000;

/// The reason why a guest's tasks cannot be threads.
#[derive(Debug, Error)]
pub(super) enum NoSleepers {
    #[error("the guest's tasks cannot be listed: this kernel has no types (BTF)")]
    NoTypes,
    #[error("it is not known where kernels of this ISA keep the registers of a task that sleeps")]
    NoRegisters,
}

/// The sleeping tasks of a guest, listed anew at each place of the run.
pub(super) struct Sleepers {
    fields: TaskFields,
    switched: SwitchedPlace,
    /// The tasks, and the place at which they were listed.
    listed: Option<(Place, Vec<Task>)>,
}

impl Sleepers {
    pub(super) fn of(timeline: &Timeline, kernel: &Kernel) -> Result<Sleepers, NoSleepers> {
        let fields = TaskFields::of(kernel).ok_or(NoSleepers::NoTypes)?;
        let switched = timeline.machine().switched(kernel).ok_or(NoSleepers::NoRegisters)?;
        Ok(Sleepers { fields, switched, listed: None })
    }

    /// The tasks that sleep at the present place.
    pub(super) fn all(&mut self, timeline: &mut Timeline) -> &[Task] {
        let here = timeline.place();
        if self.listed.as_ref().is_none_or(|(place, _)| *place != here) {
            let cpus = timeline.machine().clocks().len();
            let running: Vec<u64> = (0..cpus).map(|cpu| timeline.look_at(cpu, trapline_probes::guest::Cpu::task)).collect();
            let mut tasks = timeline.look().look(|view| self.fields.tasks(view));
            tasks.retain(|task| !running.contains(&task.address));
            self.listed = Some((here, tasks));
        }
        self.known()
    }

    /// The tasks of the last list, without listing anew.
    pub(super) fn known(&self) -> &[Task] {
        self.listed.as_ref().map_or(&[], |(_, tasks)| tasks)
    }

    /// Drops the list, because the guest's memory was changed.
    pub(super) fn forget(&mut self) {
        self.listed = None;
    }

    /// The registers of a task that sleeps.
    pub(super) fn registers(&self, task: &Task, timeline: &mut Timeline) -> Option<Kept> {
        timeline.look().look(|view| self.switched.registers(task.address, view))
    }
}

/// The thread of a task.
pub(super) fn tid_of(task: &Task) -> Tid {
    let number = usize::try_from(task.pid).unwrap_or(0).saturating_add(FIRST);
    Tid::new(number).unwrap_or(Tid::MIN)
}

/// Whether a thread is a task, not a CPU.
pub(super) fn is_task(tid: Tid) -> bool {
    tid.get() >= FIRST
}

/// The text behind a task's thread in gdb's list.
pub(super) fn describe(Task { pid, process, state, comm, .. }: &Task) -> String {
    if pid == process { format!("{comm}/{pid}, {state}") } else { format!("{comm}/{pid} of {process}, {state}") }
}
