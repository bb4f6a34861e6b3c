//! Removes everything of ours from the guest's text and puts it back later. Snapshots use it, so that their memory
//! image is the guest's own.

use crate::engine::Engine;
use crate::guest::Guest;
use crate::paused::Paused;

/// A token: the text is the guest's own until this is passed to [`Engine::put_back`].
#[must_use = "the probes are out of the text until this is given back"]
pub struct TakenOut {
    all_disarmed: bool,
}

impl Engine {
    /// Removes all breakpoints and jumps from the text. Probes keep their states and counters.
    pub fn take_out(&mut self, guest: &mut dyn Guest) -> TakenOut {
        let taken = TakenOut { all_disarmed: self.all_disarmed };
        self.all_disarmed = true;
        self.settle_all(guest);
        taken
    }

    /// Number of followed calls that have not returned. The guest's stacks hold the return pad's address for each of
    /// them.
    pub fn calls_in_flight(&self) -> u64 {
        self.returns.in_flight()
    }

    /// Arms the probes again. If the guest has changed its text in between, that probe stays unarmed and the log says
    /// so.
    pub fn put_back(&mut self, guest: &mut dyn Guest, taken: TakenOut) {
        self.all_disarmed = taken.all_disarmed;
        self.settle_all(guest);
    }

    /// Drops the followed calls and paused instructions. Called when the guest's state was replaced, as by a restored
    /// snapshot.
    pub fn forget_calls(&mut self) {
        self.returns.forget_calls(&mut self.state.instances);
        self.paused = Paused::new();
        self.forget_user_calls();
    }
}
