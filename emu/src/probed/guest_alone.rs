//! Snapshots of a probed machine: the guest alone. What the engine has in its text is taken out for the copy and put
//! back.

use super::guest::Live;
use super::modules::Modules;
use super::{Probes, Session};
use crate::boot::Kernel;
use crate::error::MachineError;
use crate::machine::{Config, Machine};
use crate::snapshot::{Snapshot, SnapshotError};
use trapline_isa::plan::Policy;
use trapline_probes::Engine;
use trapline_probes::guest::Guest;

impl Session {
    /// A kernel in a machine as it was when the snapshot was taken, with no probes but the internal ones.
    pub fn from_snapshot(kernel: Kernel, config: &Config, policy: Policy, snapshot: &Snapshot) -> Result<Session, MachineError> {
        let machine = Machine::from_snapshot(&kernel, config, snapshot, |place| {
            let mut probes = Probes::new(&kernel, config, policy, place);
            probes.facts.set_init_freed(snapshot.state.init_freed);
            probes.patchers.start_over();
            probes.unwinders.start_over();
            probes
        })?;
        Session::around(machine)
    }

    /// The state of the guest. Probes that are registered stay so and are no part of it; refused while a function that
    /// a return probe follows has not returned, for then the guest's stack is not its own.
    pub fn snapshot(&mut self) -> Result<Snapshot, SnapshotError> {
        let calls = self.engine().calls_in_flight();
        if calls > 0 {
            return Err(SnapshotError::NotNow(format!(
                "{calls} calls that return probes follow have not returned, and their return addresses are the engine's: take it earlier, or without return probes"
            )));
        }
        if let [_, ..] = self.modules()[..] {
            let modules = self.modules().join(", ");
            return Err(SnapshotError::NotNow(format!(
                "the guest has loaded modules ({modules}), and a snapshot does not hold what is known of them: take it before they are"
            )));
        }
        if !self.machine.listener().patchers.work_on().is_empty() {
            return Err(SnapshotError::NotNow("the guest is patching its own text: take it a little later".into()));
        }
        let mut snapshot = self.without_probes(Machine::snapshot)?;
        snapshot.state.init_freed = self.machine.listener().facts.init_freed();
        Ok(snapshot)
    }

    /// Makes the guest what it was. Probes that are registered stay so, except where the text is another one; then the
    /// log says it.
    pub fn restore(&mut self, snapshot: &Snapshot) -> Result<(), SnapshotError> {
        let restored = self.without_probes(|machine| {
            machine.restore(snapshot)?;
            let now = machine.now();
            let (probes, _) = machine.parts();
            probes.engine.forget_calls();
            probes.engine.time_starts_over(now);
            probes.notes.clear();
            probes.facts.change_modules(Modules::clear);
            probes.patchers.start_over();
            probes.unwinders.start_over();
            probes.facts.set_init_freed(snapshot.state.init_freed);
            Ok(())
        });
        self.with_engine(|_, _| ());
        restored
    }

    /// Does something while nothing of the engine's is in the guest's text.
    fn without_probes<R>(&mut self, with: impl FnOnce(&mut Machine<Probes>) -> R) -> R {
        let taken = self.at_rest(|engine, guest| engine.take_out(guest));
        let answer = with(&mut self.machine);
        self.at_rest(|engine, guest| engine.put_back(guest, taken));
        answer
    }

    /// As [`Session::with_engine`], but what is due is left for later: time may be about to change.
    fn at_rest<R>(&mut self, with: impl FnOnce(&mut Engine, &mut dyn Guest) -> R) -> R {
        let (probes, parts) = self.machine.parts();
        let mut guest = Live { parts, window: &mut probes.window, facts: &mut probes.facts };
        with(&mut probes.engine, &mut guest)
    }
}
