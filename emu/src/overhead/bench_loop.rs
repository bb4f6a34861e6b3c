//! A guest in its benchmark loop: it repeats the same few instructions and a call of an empty function.

use super::Mechanism;
use crate::boot::Kernel;
use crate::machine::{Config, Stop};
use crate::probed::Session;
use trapline_probes::probe::{Flow, Hit, Jprobe, Kprobe, Kretprobe};

/// The empty function that the tiny kernel calls.
pub const TARGET: &str = "bench_target";
/// The console text just before the loop begins.
const BOOTED: &str = "text is read-only";
/// The limit in nanoseconds of virtual time, far more than a boot takes.
const LONG: u64 = 10_000_000_000;
/// Nanoseconds of virtual time from that console text until the guest is well inside the loop.
const WARM_UP: u64 = 50_000;
/// Nanoseconds of virtual time between two looks for an interrupt, and the longest wait for one.
const STEP: u64 = 200;
const LONGEST_QUIET: u64 = 100_000;
/// Nanoseconds of virtual time after an interrupt until the guest is back in its loop and its pages are in the TLB again.
pub const SETTLED: u64 = 2_000;

/// A session whose guest is in its benchmark loop.
pub struct BenchLoop {
    session: Session,
    /// The address of the function.
    target: u64,
}

/// The registered probes of one mechanism.
pub struct Planted {
    kprobe: Option<Kprobe>,
    kretprobe: Option<Kretprobe>,
    jprobe: Option<Jprobe>,
}

impl Planted {
    /// The number of probes.
    pub fn count(&self) -> usize {
        [self.kprobe.is_some(), self.kretprobe.is_some(), self.jprobe.is_some()].into_iter().filter(|there| *there).count()
    }

    /// The number of calls of the function that a probe saw.
    pub fn hits(&self) -> u64 {
        let kprobe = self.kprobe.as_ref().map(Kprobe::hits);
        let jprobe = self.jprobe.as_ref().map(Jprobe::hits);
        kprobe.or(jprobe).or(self.kretprobe.as_ref().map(Kretprobe::hits)).unwrap_or(0)
    }
}

impl BenchLoop {
    /// Boots the built-in tiny kernel of that name up to its loop.
    pub fn tiny(name: &str) -> Result<BenchLoop, String> {
        let builtin = trapline_images::find(name).ok_or(format!("{name} is not built in"))?;
        let kernel = Kernel::from_bytes(builtin.bytes).map_err(|error| error.to_string())?;
        let config = Config { command_line: format!("bench={}", u32::MAX), ..Config::default() };
        let mut session = Session::new(kernel, &config).map_err(|error| error.to_string())?;
        session.machine_mut().stop_at_console_text(Some(BOOTED));
        match session.run_until(LONG) {
            Stop::ConsoleText => BenchLoop::in_session(session, TARGET),
            other => Err(format!("the guest did not say {BOOTED:?}: {other:?}")),
        }
    }

    pub(super) fn in_session(mut session: Session, target: &str) -> Result<BenchLoop, String> {
        let target = session.kernel().symbols.address_of(target).ok_or(format!("the guest has no {target}"))?;
        session.with_engine(|engine, _| engine.set_optimization_delay(0));
        let mut made = BenchLoop { session, target };
        made.run(WARM_UP)?;
        Ok(made)
    }

    /// Puts the probes of a mechanism on the function, with empty handlers.
    pub fn plant(&mut self, mechanism: &Mechanism) -> Result<Planted, String> {
        self.plant_with(mechanism, |_| {})
    }

    /// Puts the probes of a mechanism on the function, with `work` as their handler. A kprobe's post-handler stays
    /// empty.
    pub fn plant_with(
        &mut self,
        mechanism: &Mechanism,
        work: impl Fn(&mut Hit<'_>) + Clone + Send + Sync + 'static,
    ) -> Result<Planted, String> {
        self.choose(mechanism)?;
        let refused = |refusal| format!("{}: {refusal}", mechanism.letters);
        let at = self.target;
        let kprobe = || {
            let work = work.clone();
            let probe = Kprobe::at_address(at).pre(move |hit| {
                work(hit);
                Flow::Continue
            });
            if mechanism.post { probe.post(|_| {}) } else { probe }
        };
        let kretprobe = || {
            let work = work.clone();
            Kretprobe::at_address(at).handler(move |hit| work(hit))
        };
        let planted = Planted {
            kprobe: mechanism.kprobe.then(kprobe),
            kretprobe: mechanism.kretprobe.then(kretprobe),
            jprobe: mechanism.jprobe.then(|| Jprobe::at_address(at).host(work.clone())),
        };
        if let Some(probe) = &planted.kprobe {
            self.session.register_kprobe(probe).map_err(refused)?;
        }
        if let Some(probe) = &planted.jprobe {
            self.session.register_jprobe(probe).map_err(refused)?;
        }
        if let Some(probe) = &planted.kretprobe {
            self.session.register_kretprobe(probe).map_err(refused)?;
        }
        Ok(planted)
    }

    /// Sets the engine's boosting, optimisation and detour form for the probes that are registered next.
    pub fn choose(&mut self, mechanism: &Mechanism) -> Result<(), String> {
        let chosen = self.session.with_engine(|engine, guest| {
            engine.set_optimization(guest, mechanism.optimize);
            engine.set_boosting(mechanism.boost);
            engine.set_detour_form(guest, mechanism.detour)
        });
        chosen.map_err(|refusal| format!("{}: {refusal}", mechanism.letters))
    }

    /// Unregisters the probes.
    pub fn take_away(&mut self, planted: Planted) {
        if let Some(probe) = &planted.kretprobe {
            self.session.unregister_kretprobe(probe);
        }
        if let Some(probe) = &planted.jprobe {
            self.session.unregister_jprobe(probe);
        }
        if let Some(probe) = &planted.kprobe {
            self.session.unregister_kprobe(probe);
        }
    }

    /// Lets the guest run for that many nanoseconds of virtual time.
    pub fn run(&mut self, nanoseconds: u64) -> Result<(), String> {
        let until = self.session.machine().now() + nanoseconds;
        match self.session.run_until(until) {
            Stop::Limit => Ok(()),
            other => Err(format!("the guest left its loop: {other:?}")),
        }
    }

    /// Lets the guest run until an interrupt comes and the guest has dealt with it. Does nothing to a guest without a
    /// timer.
    pub fn run_past_interrupt(&mut self) -> Result<(), String> {
        let before = self.interrupts();
        if before == 0 {
            return Ok(());
        }
        for _ in 0..LONGEST_QUIET / STEP {
            if self.interrupts() != before {
                return self.run(SETTLED);
            }
            self.run(STEP)?;
        }
        Err(format!("no interrupt came within {LONGEST_QUIET} ns"))
    }

    /// The interrupts that the guest has had.
    pub fn interrupts(&self) -> u64 {
        self.session.machine().counts().interrupts
    }

    /// The guest and its probes.
    pub fn session(&mut self) -> &mut Session {
        &mut self.session
    }
}
