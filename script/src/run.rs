//! Runs a block of a compiled script: at a hit, at BEGIN or END, or at a tick of a timer. It sees the guest through a
//! [`ScriptContext`]. [`State`] holds what the script keeps between these runs.
//!
//! Numbers are computed in 64 bits. Byte expressions append their result to one scratch buffer and nothing else. Once
//! that buffer has its final size, a hit allocates only for new keys of maps.

use super::acts::Goes;
pub use super::map::Secret;
use super::map::{Map, Total};
use super::past::Past;
use super::program::{Block, Point, Program};
use super::show::{Names, Show, Style};
use super::stored::Stored;
use super::types::Aggregate;
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use trapline_isa::regs::Reg;
use trapline_probes::guest::Instant;
use trapline_probes::watch::Watchpoint;

/// The guest as a block of a script sees it: at a hit, at BEGIN or END, or at a tick of a timer.
pub trait ScriptContext {
    /// An argument of the function, counted from 0.
    fn argument(&mut self, number: usize) -> u64;
    /// A word of the stack, counted from the first one after the return address.
    fn stack_word(&mut self, number: usize) -> u64;
    /// The function's return value.
    fn result(&mut self) -> u64;
    /// The value of a register.
    fn register(&mut self, register: Reg) -> u64;
    /// The pid of the running task, as a thread id.
    fn pid(&mut self) -> u32;
    /// The pid of the process that the task belongs to (the thread group id).
    fn process(&mut self) -> u32;
    /// The name of the running task, zero-padded.
    fn comm(&mut self) -> [u8; 16];
    /// The address of the running task's structure.
    fn task(&mut self) -> u64;
    /// The CPU's number.
    fn cpu(&mut self) -> usize;
    /// Guest time in nanoseconds.
    fn now(&self) -> u64;
    /// The probed address.
    fn address(&self) -> u64;
    /// The number of the mapping of a file that holds this address of the running program. `None` if it is not known.
    fn mapping_at(&mut self, address: u64) -> Option<u16> {
        let _ = address;
        None
    }
    /// Whether the CPU was in user mode.
    fn in_user(&mut self) -> bool;
    /// Reads guest memory. Returns false if it cannot be read.
    fn read(&mut self, at: u64, into: &mut [u8]) -> bool;
    /// Writes the addresses of a call stack, innermost first, and returns how many.
    fn stack(&mut self, user: bool, into: &mut [u64]) -> usize;
    /// The exact place in the run. `None` if it is not known.
    fn instant(&mut self) -> Option<Instant> {
        None
    }
    /// The physical address of an address of the running code. `None` if none is mapped.
    fn physical_of(&mut self, address: u64) -> Option<u64> {
        let _ = address;
        None
    }
    /// Makes the function return this value without running. Returns false if that is not possible here.
    fn skip(&mut self, value: u64) -> bool;
    /// Ends a watchpoint at an address where the script has set it. Does nothing outside of hits.
    fn unwatch(&mut self, watchpoint: &Watchpoint, address: u64) {
        let _ = (watchpoint, address);
    }
}

/// The largest number of loop iterations in one hit.
pub const MOST_TURNS: u32 = 1_000_000;

/// The budget of one hit: the total size of the strings and tuples that it may build, in bytes.
pub(super) const MOST_WORKED: u64 = 1 << 30;

/// A step of a loop's body costs as much as this many bytes.
pub(super) const BYTES_A_STEP: u64 = 4;

/// Sorting, printing or changing a key of a map costs as much as this many bytes.
pub(super) const BYTES_A_KEY: u64 = 128;

/// The largest size of output that waits to be taken, in bytes.
pub(super) const MOST_WAITING: usize = 256 << 20;

/// The largest size of the strings in all variables, in bytes.
pub(super) const MOST_HELD: usize = 256 << 20;

/// The state of a running script: maps, variables, output.
pub struct State {
    /// The maps, by number.
    pub(super) maps: Vec<Map>,
    /// The variables of the block that runs, by number. All blocks use the same ones.
    pub(super) variables: Vec<Variable>,
    /// The memory that the byte values of all variables take, in bytes. At most [`MOST_HELD`].
    pub(super) held: usize,
    /// The scratch buffer, to which byte expressions append their results. Empty between hits.
    pub(super) scratch: Vec<u8>,
    /// Output that has not been taken yet.
    pub(super) out: Vec<u8>,
    /// Warnings that have not been taken yet.
    pub(super) warned: Vec<u8>,
    /// The state of the generator of `rand`.
    pub(super) random: u64,
    /// The guest time at which tracing began, in nanoseconds.
    pub(super) started: u64,
    /// The exit status, once the script has ended tracing.
    pub(super) exit: Option<u64>,
    /// The reason why the script was ended, if it broke a limit or called `fail()`.
    pub(super) failure: Option<&'static str>,
    /// The loop iterations in this hit.
    pub(super) turns: u32,
    /// The work done in this hit, in bytes. See [`MOST_WORKED`].
    pub(super) worked: u64,
    /// Whether the warning about a division by zero was printed. It is printed once.
    pub(super) divided_by_zero: bool,
    /// Hits since the block last ran, by the counters of the attach points.
    pub(super) hits: Vec<u64>,
    pub(super) view: View,
    /// The number of CPUs of the guest.
    pub(super) cpus: u64,
    /// The watchpoints that the script sets at objects, with the watched memory's distance from the object's start.
    pub(super) objects: Vec<(Watchpoint, u64)>,
    /// The recorded run, which `last_write` asks. `None` outside of a replay.
    pub(super) past: Option<Box<dyn Past>>,
    /// The number of questions to the past that had no answer.
    pub(super) unanswered: u64,
}

/// The owned data from which a [`Show`], the writer of values, is made.
pub(super) struct View {
    pub style: Style,
    /// The wall-clock time at guest time 0, in nanoseconds since 1970.
    pub epoch: u64,
    /// The symbols of the kernel and of user programs.
    pub names: Box<dyn Names + Send>,
    /// The value of `max_strlen`. A string that fills this size counts as truncated, and `trailer` follows it.
    pub longest: u32,
    pub trailer: Box<[u8]>,
}

impl View {
    /// A writer of values.
    pub fn show(&self) -> Show<'_> {
        let Self { style, epoch, names, longest, trailer } = self;
        Show { style: *style, names: &**names, epoch: *epoch, longest: *longest, trailer }
    }
}

/// The value of a variable. The compiler knows for each variable which of the two fields is in use.
#[derive(Clone, Debug, Default)]
pub(super) struct Variable {
    pub number: u64,
    pub bytes: Vec<u8>,
}

/// Settings of a running script.
pub struct Settings {
    /// The form of its output.
    pub style: Style,
    /// The guest time at which tracing began, in nanoseconds.
    pub started: u64,
    /// The wall-clock time at guest time 0, in nanoseconds since 1970.
    pub epoch: u64,
    /// The seed of `rand`.
    pub seed: u64,
    /// The secret of its maps' hashes. It should be random, since a stranger may choose keys. No output depends on it.
    pub secret: Secret,
    /// The number of CPUs of the guest.
    pub cpus: usize,
    /// The kernel's symbols.
    pub names: Box<dyn Names + Send>,
}

impl State {
    /// The state of a script that has not run yet.
    pub fn new(program: &Program, settings: Settings) -> State {
        let points = program.blocks.iter().flat_map(|block| &block.points);
        let counters = points.map(|point| point.counter as usize + 1).max().unwrap_or(0);
        let total = Total::default();
        State {
            maps: program.maps.iter().map(|map| Map::new(map.limit, map.evicts, settings.secret).within(&total)).collect(),
            held: 0,
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
            hits: vec![0; counters],
            view: View {
                style: settings.style,
                epoch: settings.epoch,
                names: settings.names,
                longest: program.longest_text,
                trailer: if settings.style.old { Box::default() } else { program.trailer.clone() },
            },
            cpus: settings.cpus as u64,
            objects: Vec::new(),
            past: None,
            unanswered: 0,
        }
    }

    /// The output since the last call.
    pub fn take_output(&mut self) -> Vec<u8> {
        core::mem::take(&mut self.out)
    }

    /// The warnings since the last call.
    pub fn take_warnings(&mut self) -> Vec<u8> {
        core::mem::take(&mut self.warned)
    }

    /// The exit status, once the script has ended tracing.
    pub fn exit(&self) -> Option<u64> {
        self.exit
    }

    /// The number of CPUs of the guest.
    pub fn cpus(&self) -> u64 {
        self.cpus
    }

    /// Clears `exit`, so that END runs. A script that a failure has ended stays ended.
    pub fn forget_exit(&mut self) {
        if self.failure.is_none() {
            self.exit = None;
        }
    }

    /// The reason why the script was ended, if it did something that no script may.
    pub fn failure(&self) -> Option<&'static str> {
        self.failure
    }

    /// Gives the script access to the past of its run. Its program was compiled with [`Options::has_past`](crate::Options).
    pub fn give_past(&mut self, past: Box<dyn Past>) {
        self.past = Some(past);
    }

    /// The number of calls of `last_write` and `last_writer` that had no answer.
    pub fn unanswered(&self) -> u64 {
        self.unanswered
    }

    /// The number of values that each map has lost, for maps that lost some.
    pub fn lost<'a>(&'a self, program: &'a Program) -> impl Iterator<Item = (&'a str, u64)> {
        program.maps.iter().zip(&self.maps).filter(|(_, map)| map.lost > 0).map(|(facts, map)| (facts.name.as_str(), map.lost))
    }

    /// Writes the first line of the output: the number of probes.
    pub fn announce(&mut self, probes: usize) {
        self.view.show().attached(&mut self.out, probes);
    }

    /// Writes the end of the output: all maps, sorted by name.
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

    /// Runs a block, if its filter allows it. Does nothing once the script has ended.
    #[inline]
    pub fn run(&mut self, program: &Program, block: &Block, point: &Point, context: &mut dyn ScriptContext) {
        if self.exit.is_some() || block.counts_hits && !self.counts(point, context) {
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
        let mut runner = Runner { program, state: self, context, probe, leaving: Goes::On };
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
    /// Counts a hit of an attach point. Returns whether it meets the point's conditions on its result and its hit count.
    #[inline(never)]
    fn counts(&mut self, point: &Point, context: &mut dyn ScriptContext) -> bool {
        if let Some((bits, wanted)) = point.result
            && context.result() & bits != wanted
        {
            return false;
        }
        // Points without conditions have no counter: each of their hits counts.
        let Some(hits) = self.hits.get_mut(point.counter as usize).filter(|_| point.counts_hits()) else { return true };
        *hits += 1;
        let is_due = *hits >= point.every;
        if is_due {
            *hits = 0;
        }
        is_due
    }

    /// Adds a value to a map without keys. This is the short cut of blocks that do nothing else.
    #[inline]
    pub fn collect(&mut self, map: u16, aggregate: Aggregate, value: u64) {
        if let Some(map) = self.maps.get_mut(usize::from(map)).filter(|_| self.exit.is_none()) {
            map.only(|| Stored::of(aggregate)).add(aggregate, value);
        }
    }
}

/// The execution of one block. `acts`, `numbers` and `strings` add methods to it.
pub(super) struct Runner<'a> {
    pub program: &'a Program,
    pub state: &'a mut State,
    /// The hit or timer tick that runs the block.
    pub context: &'a mut dyn ScriptContext,
    /// The name of the attach point.
    pub probe: &'a str,
    /// The way in which a block inside an expression ended. The statement that contains the expression then does nothing more.
    pub leaving: Goes,
}
