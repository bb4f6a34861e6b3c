//! Checkpoints: the state of a running machine without its memory, and the pages that were written since the one before.
//! Unlike a snapshot, a checkpoint keeps the translated code.

use super::{Listener, Machine};
use crate::boards::At;
use crate::snapshot::{SnapshotError, State};

/// The size of the pages that are noted.
pub const PAGE_BYTES: usize = 4096;

/// Everything of a machine except the memory.
#[derive(Clone, Debug)]
pub struct Checkpoint {
    state: State,
    turn: u64,
}

impl<L: Listener> Machine<L> {
    /// Begins to note the pages of memory that are written by anybody, or ends that. It flushes the TLB.
    pub fn note_pages(&mut self, on: bool) {
        self.core.note_pages(on);
    }

    /// Takes the numbers of the pages that were written since [`Machine::note_pages`] or the last call, counted from the start
    /// of RAM. It flushes the TLB.
    pub fn take_noted_pages(&mut self) -> Vec<u32> {
        self.core.take_noted_pages()
    }

    /// Saves everything except the memory. The machine then loads what it has saved and flushes the TLB, so that it goes on
    /// exactly like one that was put back here. Fails where a snapshot fails.
    pub fn checkpoint(&mut self) -> Result<Checkpoint, SnapshotError> {
        let state = self.state()?;
        self.load_cpus(&state)?;
        Ok(Checkpoint { state, turn: self.inner.view.turn })
    }

    /// Puts the machine back to a checkpoint of its own. `pages` are the pages, by their numbers, that differ from the
    /// memory of that time. Code that was translated from other pages stays.
    pub fn put_back<'a>(
        &mut self,
        checkpoint: &Checkpoint,
        pages: impl Iterator<Item = (u32, &'a [u8])>,
    ) -> Result<(), SnapshotError> {
        let (state, inner) = (&checkpoint.state, &mut self.inner);
        inner.board.load(&state.devices).map_err(SnapshotError::Unsound)?;
        for (cpu, saved) in state.cpus.iter().enumerate() {
            inner.board.set_now(At { cpu, now: saved.clock.time });
        }
        for (page, bytes) in pages {
            inner.view.ram.write(inner.view.ram.base() + u64::from(page) * PAGE_BYTES as u64, bytes);
        }
        inner.view.turn = checkpoint.turn;
        self.load_state(state)
    }
}
