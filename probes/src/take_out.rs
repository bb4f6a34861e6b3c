//! The guest without us: for a copy of its memory, all that the engine has written into its text is taken out, and put
//! back.

use crate::engine::Engine;
use crate::guest::Guest;
use crate::paused::Paused;

/// The text is the guest's own until [`Engine::put_back`] gets this back.
#[must_use = "the probes are out of the text until this is given back"]
pub struct TakenOut {
    all_disarmed: bool,
}

impl Engine {
    /// Takes every breakpoint and jump out of the text; probes, their states and counts stay.
    pub fn take_out(&mut self, guest: &mut dyn Guest) -> TakenOut {
        let taken = TakenOut { all_disarmed: self.all_disarmed };
        self.all_disarmed = true;
        self.settle_all(guest);
        taken
    }

    /// Calls that a return probe follows and that have not returned: their return addresses are ours, on stacks that
    /// only the guest knows.
    pub fn calls_in_flight(&self) -> u64 {
        self.returns.in_flight()
    }

    /// Puts them in again. Where the guest has changed its text in between, the log says so and the probe is not armed.
    pub fn put_back(&mut self, guest: &mut dyn Guest, taken: TakenOut) {
        self.all_disarmed = taken.all_disarmed;
        self.settle_all(guest);
    }

    /// The guest has become another one: calls that were followed, and instructions half done, are no more.
    pub fn forget_calls(&mut self) {
        self.returns.forget_calls(&mut self.scene.instances);
        self.paused = Paused::new();
    }
}
