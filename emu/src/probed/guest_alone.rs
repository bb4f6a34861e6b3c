//! Snapshots of a session. A snapshot holds the guest alone: the probes are taken out of its text before it is copied, and put
//! back afterwards. So a snapshot can be restored with other probes, or with none.

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
    /// A session in the state of a snapshot, with the internal probes only.
    pub fn from_snapshot(kernel: Kernel, config: &Config, policy: Policy, snapshot: &Snapshot) -> Result<Session, MachineError> {
        Session::around(Session::machine_from(&kernel, config, policy, snapshot)?)
    }

    /// A machine in the state of a snapshot, without any probe.
    pub(super) fn machine_from(
        kernel: &Kernel,
        config: &Config,
        policy: Policy,
        snapshot: &Snapshot,
    ) -> Result<Machine<Probes>, MachineError> {
        Machine::from_snapshot(kernel, config, snapshot, |place| {
            let mut probes = Probes::new(kernel, config, policy, place);
            probes.facts.set_init_freed(snapshot.state.init_freed);
            probes.patchers.start_over();
            probes.unwinders.start_over();
            probes
        })
    }

    /// Saves the guest. Registered probes stay registered and are not saved. Fails while a followed call has not returned,
    /// because the guest's stack then holds the pad's address, while modules are loaded, and while the guest patches its text.
    pub fn snapshot(&mut self) -> Result<Snapshot, SnapshotError> {
        let calls = self.engine().calls_in_flight();
        if calls > 0 {
            return Err(SnapshotError::NotNow(format!(
                "{calls} followed calls have not returned, so the guest's stacks hold the return pad's address: save earlier, or without return probes"
            )));
        }
        if let [_, ..] = self.modules()[..] {
            let modules = self.modules().join(", ");
            return Err(SnapshotError::NotNow(format!(
                "the guest has loaded modules ({modules}), which a snapshot does not support: save before they are loaded"
            )));
        }
        if self.machine.listener().patchers.are_at_work() {
            return Err(SnapshotError::NotNow("the guest is patching its own text: save a little later".into()));
        }
        let mut snapshot = self.without_probes(Machine::snapshot)?;
        snapshot.state.init_freed = self.machine.listener().facts.init_freed();
        Ok(snapshot)
    }

    /// Restores the guest. Registered probes stay, unless the text at their address differs; then the log says so.
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
            probes.panics.start_over();
            probes.facts.set_init_freed(snapshot.state.init_freed);
            Ok(())
        });
        self.with_engine(|_, _| ());
        restored
    }

    /// Runs a function while the guest's text contains no probes.
    fn without_probes<R>(&mut self, with: impl FnOnce(&mut Machine<Probes>) -> R) -> R {
        let taken = self.at_rest(|engine, guest| engine.take_out(guest));
        let answer = with(&mut self.machine);
        self.at_rest(|engine, guest| engine.put_back(guest, taken));
        answer
    }

    /// Like [`Session::with_engine`], but without handling what is due, because the virtual time may be about to
    /// change.
    fn at_rest<R>(&mut self, with: impl FnOnce(&mut Engine, &mut dyn Guest) -> R) -> R {
        let (probes, parts) = self.machine.parts();
        let mut guest = Live { parts, window: &mut probes.window, facts: &mut probes.facts };
        with(&mut probes.engine, &mut guest)
    }
}
