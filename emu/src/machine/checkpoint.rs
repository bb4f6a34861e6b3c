//! Checkpoints, with which a debugger goes back in a run: the state of the machine except the memory. Beside it, the caller
//! (`history/timeline.rs`) keeps the pages that were written since the previous checkpoint. Unlike a snapshot, a checkpoint
//! leaves the translated code in the core.

use super::{Listener, Machine};
use crate::boards::At;
use crate::snapshot::{SnapshotError, State};

/// The size in bytes of the pages whose writes are recorded.
pub const PAGE_BYTES: usize = 4096;

/// Everything of a machine except the memory.
#[derive(Clone, Debug)]
pub struct Checkpoint {
    state: State,
    turn: u64,
}

impl<L: Listener> Machine<L> {
    /// Starts or ends recording which pages of memory are written, by the guest or by the machine. Flushes the TLB.
    pub fn note_pages(&mut self, on: bool) {
        self.core.note_pages(on);
    }

    /// Takes the numbers of the pages that were written since [`Machine::note_pages`] or the last call. Page 0 is the first
    /// of RAM. Flushes the TLB.
    pub fn take_noted_pages(&mut self) -> Vec<u32> {
        self.core.take_noted_pages()
    }

    /// Saves everything except the memory. The machine then loads the saved state and flushes the TLB, so that it continues
    /// exactly like one that is put back to this checkpoint later. Fails where [`Machine::snapshot`] fails.
    pub fn checkpoint(&mut self) -> Result<Checkpoint, SnapshotError> {
        let state = self.state()?;
        self.load_cpus(&state)?;
        Ok(Checkpoint { state, turn: self.inner.view.turn })
    }

    /// Puts the machine back to one of its own checkpoints. `pages` are all pages that have changed since then: number and
    /// old contents. Blocks translated from other pages stay.
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
