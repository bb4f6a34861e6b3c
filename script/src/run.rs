//! Runs a compiled script at a moment: a hit, the beginning, the end, a tick of a clock.
//!
//! Numbers are worked out in 64 bits. Bytes are put together in one scratch area: each expression appends its result
//! there and nothing else, so that no hit allocates once the area is as large as the largest hit needs, but for new
//! keys of maps.

use super::acts::Goes;
use super::error::Span;
use super::map::Map;
use super::program::{Block, Point, PointKind, Program};
use super::show::{Names, Show, Style};
use super::stored::Stored;
use super::types::Aggregate;
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use trapline_isa::regs::Reg;

/// What a script asks of the moment at which it runs.
pub trait Moment {
    /// An argument of the function, from 0 on.
    fn argument(&mut self, number: usize) -> u64;
    /// A word of the stack, behind the return address.
    fn stack_word(&mut self, number: usize) -> u64;
    /// What the function returned.
    fn result(&mut self) -> u64;
    /// A register.
    fn register(&mut self, register: Reg) -> u64;
    /// The running task's number.
    fn pid(&mut self) -> u32;
    /// The number of the process that it is a thread of.
    fn process(&mut self) -> u32;
    /// Its name, zero-padded.
    fn comm(&mut self) -> [u8; 16];
    /// Its structure's address.
    fn task(&mut self) -> u64;
    /// The CPU's number.
    fn cpu(&mut self) -> usize;
    /// Guest time in nanoseconds.
    fn now(&self) -> u64;
    /// The probed address.
    fn address(&self) -> u64;
    /// Whether a program of the guest's was running, not its kernel.
    fn in_user(&mut self) -> bool;
    /// Reads the guest's memory; false where there is none.
    fn read(&mut self, at: u64, into: &mut [u8]) -> bool;
    /// The addresses of the calls that led here, innermost first; how many.
    fn stack(&mut self, user: bool, into: &mut [u64]) -> usize;
    /// The function does not run: its caller gets this. False where that cannot be.
    fn skip(&mut self, value: u64) -> bool;
}

/// As many turns of loops as one hit may take.
pub const MOST_TURNS: u32 = 1_000_000;

/// As many bytes of strings and tuples as one hit may put together, one behind the other.
pub(super) const MOST_WORKED: u64 = 1 << 30;

/// A step of a loop's body costs as much as so many bytes.
pub(super) const BYTES_A_STEP: u64 = 4;

/// Sorting, printing or changing a key of a map costs as much as so many bytes.
pub(super) const BYTES_A_KEY: u64 = 128;

/// As many bytes of output as may wait for somebody to take them.
pub(super) const MOST_WAITING: usize = 256 << 20;

/// What a running script keeps.
pub struct State {
    pub(super) maps: Vec<Map>,
    pub(super) variables: Vec<Variable>,
    pub(super) scratch: Vec<u8>,
    pub(super) out: Vec<u8>,
    pub(super) warned: Vec<u8>,
    pub(super) random: u64,
    pub(super) started: u64,
    pub(super) exit: Option<u64>,
    pub(super) failure: Option<&'static str>,
    pub(super) turns: u32,
    /// Bytes put together in this hit.
    pub(super) worked: u64,
    pub(super) divided_by_zero: bool,
    /// Hits since the last that counted, of points of which only some count.
    pub(super) hits: Vec<(Span, PointKind, u64)>,
    pub(super) view: View,
    pub(super) cpus: u64,
}

/// How what it writes is shown.
pub(super) struct View {
    pub style: Style,
    pub epoch: u64,
    pub names: Box<dyn Names + Send>,
    /// Strings that fill this have been cut, which is shown so.
    pub longest: u32,
    pub trailer: Box<[u8]>,
}

impl View {
    pub fn show(&self) -> Show<'_> {
        let Self { style, epoch, names, longest, trailer } = self;
        Show { style: *style, names: &**names, epoch: *epoch, longest: *longest, trailer }
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Variable {
    pub number: u64,
    pub bytes: Vec<u8>,
}

/// How a script is run.
pub struct Settings {
    /// How its output is written.
    pub style: Style,
    /// Guest time at which tracing began.
    pub started: u64,
    /// What guest time 0 is in nanoseconds since 1970.
    pub epoch: u64,
    /// Where `rand` begins.
    pub seed: u64,
    /// CPUs of the guest.
    pub cpus: usize,
    /// Names of addresses.
    pub names: Box<dyn Names + Send>,
}

impl State {
    /// Of a script that has not run yet.
    pub fn new(program: &Program, settings: Settings) -> State {
        State {
            maps: program.maps.iter().map(|map| Map::new(map.limit, map.evicts)).collect(),
            variables: vec![Variable::default(); program.variables],
            scratch: Vec::with_capacity(4096),
            out: Vec::new(),
            warned: Vec::new(),
            random: settings.seed,
            started: settings.started,
            exit: None,
            failure: None,
            turns: 0,
            worked: 0,
            divided_by_zero: false,
            hits: Vec::new(),
            view: View {
                style: settings.style,
                epoch: settings.epoch,
                names: settings.names,
                longest: program.longest_text,
                trailer: if settings.style.old { Box::default() } else { program.trailer.clone() },
            },
            cpus: settings.cpus as u64,
        }
    }

    /// What has been written since the last call.
    pub fn take_output(&mut self) -> Vec<u8> {
        core::mem::take(&mut self.out)
    }

    /// Warnings since the last call.
    pub fn take_warnings(&mut self) -> Vec<u8> {
        core::mem::take(&mut self.warned)
    }

    /// Set when the script has ended tracing, with its status.
    pub fn exit(&self) -> Option<u64> {
        self.exit
    }

    /// How many CPUs the guest has.
    pub fn cpus(&self) -> u64 {
        self.cpus
    }

    /// The script's end runs although it has ended tracing; not when it was ended.
    pub fn forget_exit(&mut self) {
        if self.failure.is_none() {
            self.exit = None;
        }
    }

    /// Why the script was ended, if it was.
    pub fn failure(&self) -> Option<&'static str> {
        self.failure
    }

    /// Values that found no room in a map, by map.
    pub fn lost<'a>(&'a self, program: &'a Program) -> impl Iterator<Item = (&'a str, u64)> {
        program.maps.iter().zip(&self.maps).filter(|(_, map)| map.lost > 0).map(|(facts, map)| (facts.name.as_str(), map.lost))
    }

    /// The first line of the output: how many probes there are.
    pub fn announce(&mut self, probes: usize) {
        self.view.show().attached(&mut self.out, probes);
    }

    /// The end of the output: all maps, by name.
    pub fn print_maps(&mut self, program: &Program) {
        if !self.view.style.json || self.view.style.old {
            self.out.extend_from_slice(b"\n\n");
        }
        let mut order: Vec<usize> = (0..self.maps.len()).collect();
        order.sort_by(|one, other| program.maps[*one].name.cmp(&program.maps[*other].name));
        let show = self.view.show();
        for (facts, map) in order.into_iter().filter_map(|at| program.maps.get(at).zip(self.maps.get(at))) {
            if program.prints_maps {
                show.map(&mut self.out, facts, map, 0, 1);
            }
        }
    }

    /// Runs a block, if its filter lets it. Nothing is done once the script has ended.
    #[inline]
    pub fn run(&mut self, program: &Program, block: &Block, point: &Point, moment: &mut dyn Moment) {
        if self.exit.is_some() || block.counts_hits && !self.counts(point, moment) {
            return;
        }
        let probe = point.name.as_str();
        self.turns = 0;
        self.worked = 0;
        for variable in &block.emptied {
            if let Some(variable) = self.variables.get_mut(usize::from(*variable)) {
                variable.number = 0;
                variable.bytes.clear();
            }
        }
        let mut runner = Runner { program, state: self, moment, probe, leaving: Goes::On };
        if let Some(filter) = &block.filter
            && runner.num(filter) == 0
        {
            return;
        }
        runner.acts(&block.body);
        self.scratch.clear();
    }
}

impl State {
    /// Whether a hit of a point that has conditions of its own is one.
    #[inline(never)]
    fn counts(&mut self, point: &Point, moment: &mut dyn Moment) -> bool {
        if let Some((bits, wanted)) = point.result
            && moment.result() & bits != wanted
        {
            return false;
        }
        let number = self.hits.iter().position(|(at, kind, _)| *at == point.at && *kind == point.kind);
        let number = number.unwrap_or_else(|| {
            self.hits.push((point.at, point.kind.clone(), 0));
            self.hits.len() - 1
        });
        let hits = &mut self.hits[number].2;
        *hits += 1;
        let is_due = *hits >= point.every;
        if is_due {
            *hits = 0;
        }
        is_due
    }

    /// One more value for a map without keys: all that a block does that only collects.
    #[inline]
    pub fn collect(&mut self, map: u16, aggregate: Aggregate, value: u64) {
        if let Some(map) = self.maps.get_mut(usize::from(map)).filter(|_| self.exit.is_none()) {
            map.only(|| Stored::of(aggregate)).add(aggregate, value);
        }
    }
}

/// A block that runs.
pub(super) struct Runner<'a> {
    pub program: &'a Program,
    pub state: &'a mut State,
    pub moment: &'a mut dyn Moment,
    pub probe: &'a str,
    /// Where a block that stands in an expression has led; the act that the expression is part of does no more.
    pub leaving: Goes,
}
