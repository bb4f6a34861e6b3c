//! Attaches a script to an engine: each attach point becomes a probe whose handler runs a block of the script.
//!
//! A running script belongs to the engine, which lends it to one hit at a time ([`HitProgram`]). No lock is needed.
//! [`ScriptId::add`] loads a script and [`ScriptId::attach`] registers its probes.

pub use super::contexts::Outside;
use super::contexts::{Entry, Marked, Recorded, Return};
use super::program::{Block, Collected, Collects, Point, PointKind, Program};
use super::run::{Settings, State};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::Any;
use trapline_isa::plan::Refusal;
use trapline_probes::Engine;
use trapline_probes::guest::Guest;
use trapline_probes::probe::{Flow, Hit, Kprobe, Kretprobe, ReturnHit};
use trapline_probes::program::{HitProgram, ProgramId};
use trapline_probes::unwind::Stacks;
use trapline_probes::user::{Place, UserProbe};
use trapline_probes::watch::{Area, Watchpoint};

/// The number of a script in its engine. It is never given to another script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScriptId(ProgramId);

/// A script that is loaded into an engine.
pub struct Running {
    program: Program,
    state: State,
    stacks: Stacks,
    /// The blocks that only collect a number, by the `part` of [`HitProgram::collect`].
    collects: Vec<Collects>,
    /// The attach points that are no probes, by the numbers of their blocks and their own.
    outside: Vec<(usize, usize)>,
}

/// A probe of a script.
#[derive(Clone, Debug)]
pub enum Attached {
    /// A probe at an instruction.
    Kprobe(Kprobe),
    /// A probe at a function's return.
    Kretprobe(Kretprobe),
    /// The probes at the sites of a tracepoint and at the ends of its code.
    Tracepoint(Vec<Kprobe>),
    /// A probe in a user program.
    User(UserProbe),
    /// A watchpoint on a fixed range of memory.
    Watchpoint(Watchpoint),
    /// A watchpoint on objects, and the probe that sets it.
    WatchObject(Box<Attached>, Watchpoint),
}

impl Attached {
    /// The number of its hits.
    pub fn hits(&self) -> u64 {
        match self {
            Attached::Kprobe(probe) => probe.hits(),
            Attached::Kretprobe(probe) => probe.returns(),
            Attached::Tracepoint(probes) => probes.iter().map(Kprobe::hits).sum(),
            Attached::User(probe) => probe.hits(),
            Attached::Watchpoint(watchpoint) | Attached::WatchObject(_, watchpoint) => watchpoint.hits(),
        }
    }

    /// The number of its missed hits.
    pub fn missed(&self) -> u64 {
        match self {
            Attached::Kprobe(probe) => probe.nmissed(),
            Attached::Kretprobe(probe) => probe.nmissed() + probe.kprobe().nmissed(),
            Attached::Tracepoint(probes) => probes.iter().map(Kprobe::nmissed).sum(),
            Attached::User(probe) => probe.missed(),
            Attached::Watchpoint(watchpoint) => watchpoint.changed_unseen(),
            Attached::WatchObject(setter, watchpoint) => setter.missed() + watchpoint.changed_unseen() + watchpoint.not_set(),
        }
    }
}

/// The number of arguments that a typed return probe (fexit) keeps from the function's entry.
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

    /// Prints all maps. A script does this last.
    pub fn print_maps(&mut self) {
        self.state.print_maps(&self.program);
    }

    /// The number of values that found no room, for each map that lost some.
    pub fn lost(&self) -> Vec<(&str, u64)> {
        self.state.lost(&self.program).collect()
    }

    /// Runs a block at a hit of a tracepoint or of a USDT probe.
    #[inline(never)]
    fn at_record(&mut self, part: u64, hit: &mut Hit<'_>) {
        let Running { program, state, stacks, .. } = self;
        let Some((block, point)) = block_and_point(program, part) else { return };
        if state.exit().is_some() {
            return;
        }
        if let PointKind::Usdt(_, usdt) = &point.kind {
            state.run(program, block, point, &mut Marked { hit, stacks, usdt });
        } else {
            let is_raw = matches!(point.kind, PointKind::RawTracepoint(_));
            state.run(program, block, point, &mut Recorded { hit, stacks, is_raw });
        }
        if state.exit().is_some() {
            hit.end_run();
        }
    }

    /// Runs the blocks of all points of this kind outside of any hit: BEGIN, END, or a timer's tick.
    pub fn run_at(&mut self, kind: &PointKind, guest: &mut Outside<'_>) {
        // A block runs once, whichever of its points are of this kind.
        let mut last = None;
        for (number, point) in &self.outside {
            let block = &self.program.blocks[*number];
            let point = &block.points[*point];
            if point.kind == *kind && last.replace(*number) != Some(*number) {
                self.state.run(&self.program, block, point, guest);
            }
        }
    }
}

/// The attach points of a program that are no probes.
fn outside(program: &Program) -> Vec<(usize, usize)> {
    let is_outside =
        |kind: &PointKind| matches!(kind, PointKind::Begin | PointKind::End | PointKind::Interval(_) | PointKind::Profile(_));
    let all = program.blocks.iter().enumerate().flat_map(|(number, block)| {
        block.points.iter().enumerate().filter(|(_, point)| is_outside(&point.kind)).map(move |(point, _)| (number, point))
    });
    all.collect()
}

/// Packs the numbers of a block and of one of its attach points into the `part` of [`HitProgram::at_hit`].
fn part(block: usize, point: usize) -> u64 {
    (block as u64) << 32 | point as u64 & 0xffff_ffff
}

/// A bit in the `part` of a tracepoint. With it, a hit of a kprobe need not look at the kind of its attach point.
const TRACEPOINT: u64 = 1 << 63;
/// A bit in the `part` of a USDT probe.
const USDT: u64 = 1 << 62;

/// Unpacks a `part`: the block and the attach point that it names.
#[inline]
fn block_and_point(program: &Program, part: u64) -> Option<(&Block, &Point)> {
    let block = program.blocks.get(((part & !(TRACEPOINT | USDT)) >> 32) as usize)?;
    Some((block, block.points.get(part as u32 as usize)?))
}

impl HitProgram for Running {
    fn at_hit(&mut self, part: u64, hit: &mut Hit<'_>) -> Flow {
        if part & (TRACEPOINT | USDT) != 0 {
            self.at_record(part, hit);
            return Flow::Continue;
        }
        let Running { program, state, stacks, .. } = self;
        let Some((block, point)) = block_and_point(program, part) else { return Flow::Continue };
        if state.exit().is_some() {
            return Flow::Continue;
        }
        let mut context = Entry { hit, stacks, redirected: false };
        state.run(program, block, point, &mut context);
        let flow = if context.redirected { Flow::Redirected } else { Flow::Continue };
        if state.exit().is_some() {
            hit.end_run();
        }
        flow
    }

    fn at_return(&mut self, part: u64, hit: &mut ReturnHit<'_>) {
        let Running { program, state, stacks, .. } = self;
        let Some((block, point)) = block_and_point(program, part) else { return };
        if state.exit().is_some() {
            return;
        }
        let mut kept = [0; KEPT];
        if point.is_typed {
            for (number, bytes) in kept.iter_mut().zip(hit.data().chunks_exact(8)) {
                *number = bytes.try_into().map_or(0, u64::from_le_bytes);
            }
        }
        state.run(program, block, point, &mut Return { hit, stacks, kept });
        if state.exit().is_some() {
            hit.end_run();
        }
    }

    #[inline]
    fn collect(&mut self, part: u64, value: u64) {
        if let Some(Collects { map, aggregate, .. }) = self.collects.get(part as usize) {
            self.state.collect(*map, *aggregate, value);
        }
    }
}

impl ScriptId {
    /// Loads a script into an engine. [`ScriptId::attach`] registers its probes.
    pub fn add(engine: &mut Engine, program: Program, settings: Settings, stacks: Stacks) -> ScriptId {
        let state = State::new(&program, settings);
        let outside = outside(&program);
        ScriptId(engine.add_program(Box::new(Running { program, state, stacks, collects: Vec::new(), outside })))
    }

    /// The loaded script. `None` while it is out, or if the engine is not the one it was loaded into.
    pub fn of(self, engine: &mut Engine) -> Option<&mut Running> {
        let program: &mut dyn Any = engine.program(self.0)?;
        program.downcast_mut()
    }

    /// Takes the script out of the engine, so that it can run outside of a hit. Until it is back, its probes do
    /// nothing.
    pub fn take(self, engine: &mut Engine) -> Option<Box<Running>> {
        let program: Box<dyn Any> = engine.take_program(self.0)?;
        program.downcast().ok()
    }

    /// Puts the script back that [`ScriptId::take`] took out.
    pub fn give_back(self, engine: &mut Engine, running: Box<Running>) {
        engine.give_program_back(self.0, running);
    }

    /// Registers the probe of an attach point, named by the number of its block and its own number in the block.
    /// `None`: points of this kind need no probe. Fails as the registration of a probe does.
    pub fn attach(
        self,
        engine: &mut Engine,
        guest: &mut dyn Guest,
        block: usize,
        point: usize,
    ) -> Result<Option<Attached>, Refusal> {
        let id = self.0;
        let part = part(block, point);
        let Some(running) = self.of(engine) else { return Ok(None) };
        let Some(block) = running.program.blocks.get(block) else { return Ok(None) };
        let Some(Point { kind, is_typed, .. }) = block.points.get(point).cloned() else { return Ok(None) };
        let overrides = block.overrides;
        let collects = block.collects();
        let mut entry = |place: Kprobe| {
            let probe = match collects {
                Some(Collects { value, .. }) => {
                    let part = running.collects.len() as u64;
                    running.collects.extend(collects);
                    place.pre(move |hit| collect(hit, id, part, value))
                }
                None => place.pre(move |hit| hit.run_program(id, part)),
            };
            // An optimised probe cannot redirect the CPU, and a post-handler prevents the optimisation.
            if overrides { probe.post(|_| {}) } else { probe }
        };
        let kprobe = match kind {
            PointKind::Kprobe(name, offset) => entry(Kprobe::at(name.as_str()).offset(u32::try_from(offset).unwrap_or(u32::MAX))),
            PointKind::Address(address) => entry(Kprobe::at_address(address)),
            PointKind::Kretprobe(name) => {
                let mut probe = Kretprobe::at(name.as_str());
                if is_typed {
                    probe = probe.data_size(KEPT * 8).entry(keep_arguments);
                }
                let probe = probe.handler(move |hit| hit.run_program(id, part));
                engine.register_kretprobe(guest, &probe)?;
                return Ok(Some(Attached::Kretprobe(probe)));
            }
            PointKind::User(path, place, returns) => {
                let probe = match returns {
                    false => UserProbe::at(path, place, move |hit| {
                        hit.run_program(id, part);
                    }),
                    true => UserProbe::returning(path, place, move |hit| hit.run_program(id, part)),
                };
                engine.register_user(guest, &probe)?;
                return Ok(Some(Attached::User(probe)));
            }
            PointKind::Usdt(path, usdt) => {
                let probe = UserProbe::at(path, Place::Offset(usdt.offset), move |hit| {
                    hit.run_program(id, part | USDT);
                });
                engine.register_user(guest, &probe)?;
                return Ok(Some(Attached::User(probe)));
            }
            PointKind::Tracepoint(event) => return tracepoint(engine, guest, &event, false, id, part),
            PointKind::RawTracepoint(event) => return tracepoint(engine, guest, &event, true, id, part),
            PointKind::Watchpoint(area) => {
                let watchpoint = watchpoint(area, id, part);
                engine.register_watchpoint(guest, &watchpoint)?;
                return Ok(Some(Attached::Watchpoint(watchpoint)));
            }
            PointKind::WatchObject { function, argument, offset, area } => {
                let watchpoint = watchpoint(area, id, part);
                running.state.objects.push((watchpoint.clone(), offset));
                engine.prepare_watchpoint(&watchpoint);
                let setter = object_setter(engine, guest, (&function, argument, offset), watchpoint.clone())?;
                return Ok(Some(Attached::WatchObject(Box::new(setter), watchpoint)));
            }
            PointKind::Begin | PointKind::End | PointKind::Interval(_) | PointKind::Profile(_) => return Ok(None),
        };
        engine.register_kprobe(guest, &kprobe)?;
        Ok(Some(Attached::Kprobe(kprobe)))
    }
}

fn tracepoint(
    engine: &mut Engine,
    guest: &mut dyn Guest,
    event: &Arc<trapline_probes::tracepoint::Tracepoint>,
    is_raw: bool,
    id: ProgramId,
    part: u64,
) -> Result<Option<Attached>, Refusal> {
    let run = move |hit: &mut Hit<'_>| hit.run_program(id, part | TRACEPOINT);
    engine.register_tracepoint(guest, event, is_raw, run).map(|probes| Some(Attached::Tracepoint(probes)))
}

/// Registers the probe that sets a watchpoint on an object: at a function's entry on the one that an argument points to, or
/// at its return on the one that the result points to.
fn object_setter(
    engine: &mut Engine,
    guest: &mut dyn Guest,
    (function, argument, offset): (&str, Option<u8>, u64),
    watchpoint: Watchpoint,
) -> Result<Attached, Refusal> {
    // Functions return NULL or an errno for an object that they could not make, and some, such as kfree, take one too.
    let Some(argument) = argument else {
        let probe = Kretprobe::at(function).handler(move |hit| {
            let object = hit.return_value();
            if !is_error(object, hit.isa().word) {
                hit.watch_at(&watchpoint, object.wrapping_add(offset));
            }
        });
        engine.register_kretprobe(guest, &probe)?;
        return Ok(Attached::Kretprobe(probe));
    };
    let probe = Kprobe::at(function).pre(move |hit| {
        let object = hit.arg(argument.into());
        if !is_error(object, hit.isa().word) {
            hit.watch_at(&watchpoint, object.wrapping_add(offset));
        }
        Flow::Continue
    });
    engine.register_kprobe(guest, &probe)?;
    Ok(Attached::Kprobe(probe))
}

/// Whether a pointer is NULL or an error of the kernel's.
fn is_error(pointer: u64, word: usize) -> bool {
    let last = u64::MAX >> (64 - 8 * word.clamp(1, 8));
    pointer == 0 || (last - 4094..=last).contains(&(pointer & last))
}

/// A watchpoint whose handler runs a block.
fn watchpoint(area: Area, id: ProgramId, part: u64) -> Watchpoint {
    Watchpoint::on(area).on_hit(move |hit| {
        hit.run_program(id, part);
    })
}

/// The handler of a block that only collects a number.
fn collect(hit: &mut Hit<'_>, id: ProgramId, part: u64, value: Collected) -> Flow {
    let value = match value {
        Collected::Const(number) => number,
        Collected::Argument(number) => hit.arg(number.into()),
        // At its entry the function has no result yet.
        Collected::Result => 0,
    };
    hit.collect(id, part, value);
    Flow::Continue
}

/// The entry handler of a typed return probe: keeps the function's arguments until the return.
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
