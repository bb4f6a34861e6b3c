//! Where scripts meet the engine: attach points become probes whose handlers run a block of the script.
//!
//! A running script belongs to the engine, as its ring of records does: a hit reaches it through what it reaches
//! anyway, with no lock.

pub use super::moments::Outside;
use super::moments::{Entry, Recorded, Return};
use super::program::{Collected, Collects, PointKind, Program};
use super::run::{Moment, Settings, State};
use crate::context::Hit;
use crate::engine::Engine;
use crate::guest::Guest;
use crate::probe::{Flow, Kprobe, Kretprobe, ReturnHit};
use crate::unwind::Stacks;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use trapline_isa::plan::Refusal;

/// A script that is attached, by a number that is never given to another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScriptId(usize);

/// A script that runs.
pub struct Running {
    program: Program,
    state: State,
    stacks: Stacks,
}

/// All scripts of an engine. One that is running has been taken out of its place.
#[derive(Default)]
pub(crate) struct Scripts {
    places: Vec<Option<Box<Running>>>,
    /// One of them has just ended tracing.
    has_ended: bool,
}

/// A probe of a script.
#[derive(Clone, Debug)]
pub enum Attached {
    /// At an instruction.
    Kprobe(Kprobe),
    /// At a function's return.
    Kretprobe(Kretprobe),
    /// At the sites of a tracepoint, and where its code ends.
    Tracepoint(Vec<Kprobe>),
}

impl Attached {
    /// How many hits it had.
    pub fn hits(&self) -> u64 {
        match self {
            Attached::Kprobe(probe) => probe.hits(),
            Attached::Kretprobe(probe) => probe.returns(),
            Attached::Tracepoint(probes) => probes.iter().map(Kprobe::hits).sum(),
        }
    }

    /// How many hits were missed.
    pub fn missed(&self) -> u64 {
        match self {
            Attached::Kprobe(probe) => probe.nmissed(),
            Attached::Kretprobe(probe) => probe.nmissed() + probe.kprobe().nmissed(),
            Attached::Tracepoint(probes) => probes.iter().map(Kprobe::nmissed).sum(),
        }
    }
}

/// Arguments that a typed return probe keeps from the entry.
pub(super) const KEPT: usize = 10;

impl Running {
    /// The compiled script.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Its maps and output.
    pub fn state(&mut self) -> &mut State {
        &mut self.state
    }

    /// Prints all maps: the last thing that a script does.
    pub fn print_maps(&mut self) {
        self.state.print_maps(&self.program);
    }

    /// Values that found no room, by map.
    pub fn lost(&self) -> Vec<(&str, u64)> {
        self.state.lost(&self.program).collect()
    }

    /// Runs the blocks of points of this kind outside of any hit: at the beginning, at the end, at a tick of a clock.
    pub fn run_at(&mut self, kind: &PointKind, guest: &mut Outside<'_>) {
        for number in 0..self.program.blocks.len() {
            let block = &self.program.blocks[number];
            if let Some(point) = block.points.iter().position(|point| point.kind == *kind) {
                guest.rule = self.stacks.rule.clone();
                run(&self.program, &mut self.state, number, point, guest);
            }
        }
    }
}

impl Engine {
    /// Takes a script in; its probes are attached by [`Engine::attach_script`].
    pub fn add_script(&mut self, program: Program, settings: Settings, stacks: Stacks) -> ScriptId {
        let state = State::new(&program, settings);
        let scripts = &mut self.scene.scripts.places;
        scripts.push(Some(Box::new(Running { program, state, stacks })));
        ScriptId(scripts.len() - 1)
    }

    /// A script that was taken in.
    pub fn script(&mut self, id: ScriptId) -> Option<&mut Running> {
        self.scene.scripts.places.get_mut(id.0)?.as_deref_mut()
    }

    /// Takes a script out for as long as somebody runs it outside of the engine; meanwhile its probes do nothing.
    pub fn take_script(&mut self, id: ScriptId) -> Option<Box<Running>> {
        self.scene.scripts.places.get_mut(id.0)?.take()
    }

    /// Puts it back.
    pub fn give_script_back(&mut self, id: ScriptId, running: Box<Running>) {
        if let Some(place) = self.scene.scripts.places.get_mut(id.0) {
            *place = Some(running);
        }
    }

    /// Whether a script has ended tracing at a hit since this was asked last: whoever runs the machine then has it
    /// stand still.
    pub fn take_script_end(&mut self) -> bool {
        core::mem::take(&mut self.scene.scripts.has_ended)
    }

    /// Registers the probe of an attach point: a block's number and a point's in it. `None`: this point needs none.
    pub fn attach_script(
        &mut self,
        guest: &mut dyn Guest,
        id: ScriptId,
        block: usize,
        point: usize,
    ) -> Result<Option<Attached>, Refusal> {
        let Some(running) = self.scene.scripts.places.get(id.0).and_then(Option::as_deref) else { return Ok(None) };
        let Some(found) = running.program.blocks.get(block).and_then(|block| block.points.get(point)) else { return Ok(None) };
        let overrides = running.program.blocks[block].overrides;
        let is_typed = found.is_typed;
        let collects = running.program.blocks[block].collects();
        let entry = |place: Kprobe| {
            let probe = match collects {
                Some(what) => place.pre(move |hit| collect(hit, id, &what)),
                None => place.pre(move |hit| run_entry(hit, id, block, point)),
            };
            // A jump cannot lead elsewhere than on.
            if overrides { probe.post(|_| {}) } else { probe }
        };
        let kprobe = match &found.kind {
            PointKind::Kprobe(name, offset) => {
                entry(Kprobe::at(name.as_str()).offset(u32::try_from(*offset).unwrap_or(u32::MAX)))
            }
            PointKind::Address(address) => entry(Kprobe::at_address(*address)),
            PointKind::Kretprobe(name) => {
                let mut probe = Kretprobe::at(name.as_str()).maxactive(MOST_CALLS);
                if is_typed {
                    probe = probe.data_size(KEPT * 8).entry(keep_arguments);
                }
                let probe = probe.handler(move |hit| run_return(hit, id, block, point, is_typed));
                self.register_kretprobe(guest, &probe)?;
                return Ok(Some(Attached::Kretprobe(probe)));
            }
            PointKind::Tracepoint(event) => {
                let event = Arc::clone(event);
                let probes =
                    self.register_tracepoint(guest, &event, false, move |hit| run_record(hit, id, block, point, false))?;
                return Ok(Some(Attached::Tracepoint(probes)));
            }
            PointKind::RawTracepoint(event) => {
                let event = Arc::clone(event);
                let probes = self.register_tracepoint(guest, &event, true, move |hit| run_record(hit, id, block, point, true))?;
                return Ok(Some(Attached::Tracepoint(probes)));
            }
            PointKind::Begin | PointKind::End | PointKind::Interval(_) | PointKind::Profile(_) => return Ok(None),
        };
        self.register_kprobe(guest, &kprobe)?;
        Ok(Some(Attached::Kprobe(kprobe)))
    }
}

/// As many calls of one function as a script follows at a time: as many tasks as a small guest has.
const MOST_CALLS: i32 = 1024;

fn collect(hit: &mut Hit<'_>, id: ScriptId, what: &Collects) -> Flow {
    let value = match what.value {
        Collected::Const(number) => number,
        Collected::Argument(number) => hit.arg(number.into()),
        // No function has returned at its entry.
        Collected::Result => 0,
    };
    if let Some(Some(running)) = hit.scripts().places.get_mut(id.0) {
        running.state.collect(what.map, what.aggregate, value);
    }
    Flow::Continue
}

fn run_entry(hit: &mut Hit<'_>, id: ScriptId, block: usize, point: usize) -> Flow {
    let Some(mut running) = take(hit, id) else { return Flow::Continue };
    let Running { program, state, stacks } = &mut *running;
    let mut moment = Entry { hit, stacks, redirected: false };
    run(program, state, block, point, &mut moment);
    let redirected = moment.redirected;
    put_back(hit, id, running);
    if redirected { Flow::Redirected } else { Flow::Continue }
}

fn run_return(hit: &mut ReturnHit<'_>, id: ScriptId, block: usize, point: usize, is_typed: bool) {
    let Some(mut running) = take(hit, id) else { return };
    let mut kept = [0; KEPT];
    if is_typed {
        for (number, bytes) in kept.iter_mut().zip(hit.data().chunks_exact(8)) {
            *number = bytes.try_into().map_or(0, u64::from_le_bytes);
        }
    }
    let Running { program, state, stacks } = &mut *running;
    run(program, state, block, point, &mut Return { hit, stacks, kept });
    put_back(hit, id, running);
}

fn run_record(hit: &mut Hit<'_>, id: ScriptId, block: usize, point: usize, is_raw: bool) -> Flow {
    let Some(mut running) = take(hit, id) else { return Flow::Continue };
    let Running { program, state, stacks } = &mut *running;
    run(program, state, block, point, &mut Recorded { hit, stacks, is_raw });
    put_back(hit, id, running);
    Flow::Continue
}

fn run(program: &Program, state: &mut State, block: usize, point: usize, moment: &mut dyn Moment) {
    let Some(block) = program.blocks.get(block) else { return };
    let Some(point) = block.points.get(point) else { return };
    state.run(program, block, point, moment);
}

fn keep_arguments(hit: &mut ReturnHit<'_>) -> Flow {
    let mut kept = [0; KEPT * 8];
    for (number, bytes) in kept.chunks_exact_mut(8).enumerate() {
        bytes.copy_from_slice(&hit.arg(number).to_le_bytes());
    }
    let data = hit.data();
    let size = data.len().min(kept.len());
    data[..size].copy_from_slice(&kept[..size]);
    Flow::Continue
}

/// A script that has something to do at this hit.
fn take(hit: &mut Hit<'_>, id: ScriptId) -> Option<Box<Running>> {
    let place = hit.scripts().places.get_mut(id.0)?;
    if place.as_ref()?.state.exit().is_some() { None } else { place.take() }
}

fn put_back(hit: &mut Hit<'_>, id: ScriptId, running: Box<Running>) {
    if running.state.exit().is_some() {
        hit.scripts().has_ended = true;
        hit.machine().look_soon();
    }
    if let Some(place) = hit.scripts().places.get_mut(id.0) {
        *place = Some(running);
    }
}
