//! Runs a compiled script at a moment: a hit, the beginning, the end, a tick of a clock.
//!
//! Numbers are worked out in 64 bits. Bytes are put together in one scratch area: each expression appends its result there and nothing
//! else, so that no hit allocates once the area is as large as the largest hit needs, but for new keys of maps.

use super::error::Span;
use super::format::Piece;
use super::map::Map;
use super::program::{Act, Any, Block, Bytes, Key, Num, Op, PathPlaces, Point, PointKind, Program, Stream};
use super::show::{Names, Show, Style, Value, part};
use super::stored::Stored;
use super::types::{Aggregate, Type};
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
/// As many bytes of strings and tuples as one hit may put together.
const MOST_SCRATCH: usize = 16 << 20;
/// As many folders as a path is followed through, and the longest name of one.
const DEEPEST_PATH: usize = 128;
const LONGEST_NAME: usize = 255;
/// The longest stack.
const DEEPEST_STACK: usize = 127;

/// What a running script keeps.
pub struct State {
    maps: Vec<Map>,
    variables: Vec<Variable>,
    scratch: Vec<u8>,
    out: Vec<u8>,
    warned: Vec<u8>,
    random: u64,
    started: u64,
    exit: Option<u64>,
    failure: Option<&'static str>,
    turns: u32,
    divided_by_zero: bool,
    /// Hits since the last that counted, of points of which only some count.
    hits: Vec<(Span, PointKind, u64)>,
    style: Style,
    epoch: u64,
    cpus: u64,
    names: Box<dyn Names + Send>,
}

#[derive(Clone, Debug, Default)]
struct Variable {
    number: u64,
    bytes: Vec<u8>,
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
            divided_by_zero: false,
            hits: Vec::new(),
            style: settings.style,
            epoch: settings.epoch,
            cpus: settings.cpus as u64,
            names: settings.names,
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
        show(self.style, &*self.names, self.epoch).attached(&mut self.out, probes);
    }

    /// The end of the output: all maps, by name.
    pub fn print_maps(&mut self, program: &Program) {
        if !self.style.json || self.style.old {
            self.out.extend_from_slice(b"\n\n");
        }
        let mut order: Vec<usize> = (0..self.maps.len()).collect();
        order.sort_by(|one, other| program.maps[*one].name.cmp(&program.maps[*other].name));
        let show = show(self.style, &*self.names, self.epoch);
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
        let mut runner = Runner { program, state: self, moment, probe };
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

    /// One more value for a map without keys: all that a block does that only [collects](super::program::Collects).
    #[inline]
    pub fn collect(&mut self, map: u16, aggregate: Aggregate, value: u64) {
        if let Some(map) = self.maps.get_mut(usize::from(map)).filter(|_| self.exit.is_none()) {
            map.only(|| Stored::of(aggregate)).add(aggregate, value);
        }
    }
}

fn show(style: Style, names: &dyn Names, epoch: u64) -> Show<'_> {
    Show { style, names, epoch }
}

/// Where a statement leads.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Goes {
    On,
    Break,
    Continue,
    Return,
}

struct Runner<'a> {
    program: &'a Program,
    state: &'a mut State,
    moment: &'a mut dyn Moment,
    probe: &'a str,
}

impl Runner<'_> {
    fn acts(&mut self, acts: &[Act]) -> Goes {
        for act in acts {
            let goes = self.act(act);
            if goes != Goes::On {
                return goes;
            }
        }
        Goes::On
    }

    fn act(&mut self, act: &Act) -> Goes {
        let mark = self.state.scratch.len();
        let goes = self.do_act(act, mark);
        self.state.scratch.truncate(mark);
        goes
    }

    fn do_act(&mut self, act: &Act, mark: usize) -> Goes {
        match act {
            Act::Collect(map, key, aggregate, value) => {
                let value = self.num(value);
                self.key(key);
                let State { maps, scratch, .. } = &mut *self.state;
                if let Some(map) = maps.get_mut(usize::from(*map))
                    && let Some(stored) = map.place(&scratch[mark..], || Stored::of(*aggregate))
                {
                    stored.add(*aggregate, value);
                }
            }
            Act::Number(variable, value) => {
                let number = self.num(value);
                if let Some(variable) = self.state.variables.get_mut(usize::from(*variable)) {
                    variable.number = number;
                }
            }
            Act::Bytes(variable, value) => {
                self.bytes(value);
                let State { variables, scratch, .. } = &mut *self.state;
                if let Some(variable) = variables.get_mut(usize::from(*variable)) {
                    variable.bytes.clear();
                    variable.bytes.extend_from_slice(&scratch[mark..]);
                }
            }
            Act::Map(map, key, Any::Num(value)) => {
                let number = self.num(value);
                self.key(key);
                let State { maps, scratch, .. } = &mut *self.state;
                if let Some(map) = maps.get_mut(usize::from(*map))
                    && let Some(stored) = map.place(&scratch[mark..], || Stored::Number(0))
                {
                    *stored = Stored::Number(number);
                }
            }
            Act::Map(map, key, Any::Bytes(value)) => {
                self.bytes(value);
                let split = self.state.scratch.len();
                self.key(key);
                let State { maps, scratch, .. } = &mut *self.state;
                if let Some(map) = maps.get_mut(usize::from(*map)) {
                    map.put_bytes(&scratch[split..], &scratch[mark..split]);
                }
            }
            Act::Eval(value) => {
                self.num(value);
            }
            Act::Drop(value) => self.bytes(value),
            Act::If(condition, then, otherwise) => {
                let chosen = if self.num(condition) != 0 { then } else { otherwise };
                return self.acts(chosen);
            }
            Act::While(condition, body, behind) => {
                while self.num(condition) != 0 {
                    if !self.may_turn() {
                        return Goes::Return;
                    }
                    match self.acts(body) {
                        Goes::Break => break,
                        Goes::Return => return Goes::Return,
                        Goes::On | Goes::Continue => {}
                    }
                    self.acts(behind);
                }
            }
            Act::ForMap(map, variable, body) => return self.for_map(*map, *variable, body),
            Act::Block(acts) => return self.acts(acts),
            Act::Return => return Goes::Return,
            Act::Break => return Goes::Break,
            Act::Continue => return Goes::Continue,
            Act::Printf(what, stream) => return self.printf(&what.format, &what.values, *stream),
            Act::PrintValue(what) => {
                let value = self.any(&what.0);
                let State { scratch, out, style, names, epoch, .. } = &mut *self.state;
                let value = value.map_or(Value::Bytes(&scratch[mark..]), Value::Number);
                show(*style, &**names, *epoch).printed_value(out, &what.1, value);
            }
            Act::PrintMap { map, top, div } => {
                let (top, div) = (self.num(top), self.num(div));
                let State { maps, out, style, names, epoch, .. } = &mut *self.state;
                if let Some((facts, map)) = self.program.maps.get(usize::from(*map)).zip(maps.get(usize::from(*map))) {
                    show(*style, &**names, *epoch).map(out, facts, map, top, div.max(1));
                }
            }
            Act::PrintEntry { map, key } => {
                self.key(key);
                let State { maps, scratch, out, style, names, epoch, .. } = &mut *self.state;
                let Some((facts, map)) = self.program.maps.get(usize::from(*map)).zip(maps.get_mut(usize::from(*map))) else {
                    return Goes::On;
                };
                let aggregate = if let Type::Aggregate(aggregate) = facts.value { Some(aggregate) } else { None };
                let value = match map.get(&scratch[mark..]) {
                    Some(Stored::Bytes(bytes)) => Value::Bytes(bytes),
                    Some(stored) => Value::Number(stored.number(aggregate)),
                    None => Value::Number(0),
                };
                show(*style, &**names, *epoch).printed_value(out, &facts.value, value);
            }
            Act::Clear(map) => {
                if let Some(map) = self.state.maps.get_mut(usize::from(*map)) {
                    map.clear();
                }
            }
            Act::Zero(map) => {
                if let Some(map) = self.state.maps.get_mut(usize::from(*map)) {
                    map.zero();
                }
            }
            Act::Exit(status) => {
                let status = self.num(status);
                self.state.exit = Some(status);
                return Goes::Return;
            }
            Act::Time(format) => {
                let now = self.moment.now().wrapping_add(self.state.epoch);
                let State { scratch, out, style, names, epoch, .. } = &mut *self.state;
                super::show::moment(scratch, format, now);
                show(*style, &**names, *epoch).text(out, "time", &scratch[mark..]);
            }
            Act::Join { at, separator } => self.join(at, separator, mark),
            Act::Override(value) => {
                let value = self.num(value);
                if !self.moment.skip(value) {
                    self.warn("override() did nothing here: the function is not at its first instruction");
                }
            }
        }
        Goes::On
    }

    fn may_turn(&mut self) -> bool {
        self.state.turns += 1;
        if self.state.turns > MOST_TURNS {
            self.fail("a loop took more than 1,000,000 turns in one hit: the script was ended");
            return false;
        }
        true
    }

    fn fail(&mut self, why: &'static str) {
        self.state.failure = Some(why);
        self.state.exit = Some(1);
    }

    fn warn(&mut self, what: &str) {
        self.state.warned.extend_from_slice(what.as_bytes());
        self.state.warned.push(b'\n');
    }

    fn for_map(&mut self, map: u16, variable: u16, body: &[Act]) -> Goes {
        let Some(facts) = self.program.maps.get(usize::from(map)) else { return Goes::On };
        let key_is_number = facts.keys.len() == 1 && facts.keys[0].is_number();
        let several = facts.keys.len() > 1;
        let value_is_number = facts.value.is_number() || matches!(facts.value, Type::Aggregate(_));
        let aggregate = if let Type::Aggregate(aggregate) = facts.value { Some(aggregate) } else { None };
        // The loop may change the map: it goes over the keys that there were.
        let keys: Vec<Box<[u8]>> =
            self.state.maps.get(usize::from(map)).map_or(Vec::new(), |map| map.iter().map(|(key, _)| key.into()).collect());
        for key in keys {
            if !self.may_turn() {
                return Goes::Return;
            }
            let State { maps, variables, .. } = &mut *self.state;
            let Some(stored) = maps.get_mut(usize::from(map)).and_then(|map| map.get(&key)) else { continue };
            let Some(variable) = variables.get_mut(usize::from(variable)) else { return Goes::On };
            variable.bytes.clear();
            if several {
                variable.bytes.extend_from_slice(&(key.len() as u32).to_le_bytes());
            }
            // A single key is encoded as a part already.
            debug_assert!(!key_is_number || key.len() == 8);
            variable.bytes.extend_from_slice(&key);
            match stored {
                Stored::Bytes(bytes) => {
                    variable.bytes.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
                    variable.bytes.extend_from_slice(bytes);
                }
                stored if value_is_number => variable.bytes.extend_from_slice(&stored.number(aggregate).to_le_bytes()),
                _ => {}
            }
            match self.acts(body) {
                Goes::Break => break,
                Goes::Return => return Goes::Return,
                Goes::On | Goes::Continue => {}
            }
        }
        Goes::On
    }

    fn printf(&mut self, format: &super::format::Format, values: &[(Any, Type)], stream: Stream) -> Goes {
        let mark = self.state.scratch.len();
        // All values first, in order; then the text is put together behind them.
        let mut ends = [(0_u64, 0_usize); MOST_VALUES];
        for ((value, _), end) in values.iter().zip(&mut ends) {
            let number = self.any(value);
            *end = (number.unwrap_or(0), self.state.scratch.len());
        }
        let State { scratch, out, warned, style, names, epoch, .. } = &mut *self.state;
        let show = show(*style, &**names, *epoch);
        let is_output = matches!(stream, Stream::Output | Stream::File);
        let mut text = core::mem::take(if is_output { out } else { warned });
        let json = style.json && is_output;
        let mut inner = if json { Vec::new() } else { core::mem::take(&mut text) };
        let (mut start, mut values) = (mark, values.iter().zip(&ends));
        for piece in &format.pieces {
            match piece {
                Piece::Text(plain) => inner.extend_from_slice(plain),
                Piece::Value(conversion) => {
                    let Some(((_, kind), (number, end))) = values.next() else { break };
                    let value = if start == *end && (kind.is_number() || matches!(kind, Type::Aggregate(_))) {
                        Value::Number(*number)
                    } else {
                        Value::Bytes(scratch.get(start..*end).unwrap_or_default())
                    };
                    start = *end;
                    conversion.write(&show, &mut inner, kind, value);
                }
            }
        }
        if json {
            show.text(&mut text, if stream == Stream::File { "cat" } else { "printf" }, &inner);
        } else {
            text = inner;
        }
        *(if is_output { out } else { warned }) = text;
        if stream == Stream::Failure {
            self.fail("the script ended itself by fail() or assert()");
            return Goes::Return;
        }
        Goes::On
    }

    fn join(&mut self, at: &Num, separator: &[u8], mark: usize) {
        let mut at = self.num(at);
        let word = self.program.word;
        for number in 0..16 {
            let pointer = self.load(at, word);
            if pointer == 0 {
                break;
            }
            if number > 0 {
                self.state.scratch.extend_from_slice(separator);
            }
            self.text(pointer, 1024);
            at = at.wrapping_add(word.into());
        }
        let State { scratch, out, style, names, epoch, .. } = &mut *self.state;
        scratch.push(b'\n');
        show(*style, &**names, *epoch).text(out, "join", &scratch[mark..]);
    }

    /// A number; `None`: bytes, which now stand at the end of the scratch area.
    fn any(&mut self, any: &Any) -> Option<u64> {
        match any {
            Any::Num(num) => Some(self.num(num)),
            Any::Bytes(bytes) => {
                self.bytes(bytes);
                None
            }
        }
    }

    /// Appends one part of a key or tuple.
    fn encode(&mut self, any: &Any) {
        match any {
            Any::Num(num) => {
                let number = self.num(num);
                self.state.scratch.extend_from_slice(&number.to_le_bytes());
            }
            Any::Bytes(bytes) => {
                let at = self.state.scratch.len();
                self.state.scratch.extend_from_slice(&[0; 4]);
                self.bytes(bytes);
                let length = (self.state.scratch.len() - at - 4) as u32;
                self.state.scratch[at..at + 4].copy_from_slice(&length.to_le_bytes());
            }
        }
    }

    fn key(&mut self, key: &Key) {
        for part in key {
            self.encode(part);
        }
    }

    /// What a map has at a key. The key is taken off the scratch area again.
    fn look(&mut self, map: u16, key: &Key) -> Option<&Stored> {
        let mark = self.state.scratch.len();
        self.key(key);
        let State { maps, scratch, .. } = &mut *self.state;
        let found = maps.get_mut(usize::from(map)).and_then(|map| map.get(&scratch[mark..]));
        scratch.truncate(mark);
        found
    }

    fn load(&mut self, at: u64, size: u8) -> u64 {
        let mut bytes = [0; 8];
        let size = usize::from(size.min(8));
        if !self.moment.read(at, &mut bytes[..size]) {
            return 0;
        }
        self.program.number(&bytes[..size])
    }

    /// Appends the path of a file: its name, that of each folder above it, and of what these are mounted in, from the root on.
    fn path(&mut self, start: u64, places: &PathPlaces, limit: usize) {
        let (mark, word) = (self.state.scratch.len(), self.program.word);
        let (mut mount, mut entry) =
            (self.load(start.wrapping_add(places.mount), word), self.load(start.wrapping_add(places.entry), word));
        // The names are put together from the last one on, and turned round at the end.
        let mut ends = [(0_usize, 0_usize); DEEPEST_PATH];
        let mut found = 0;
        for _ in 0..2 * DEEPEST_PATH {
            let parent = self.load(entry.wrapping_add(places.parent), word);
            if entry == self.load(mount.wrapping_add(places.root), word) {
                let whole = mount.wrapping_sub(places.inside);
                let outer = self.load(whole.wrapping_add(places.mounted_in), word);
                if outer == whole || outer == 0 {
                    break;
                }
                entry = self.load(whole.wrapping_add(places.mounted_at), word);
                mount = outer.wrapping_add(places.inside);
                continue;
            }
            if parent == entry || parent == 0 || found == DEEPEST_PATH {
                break;
            }
            let name = self.load(entry.wrapping_add(places.name), word);
            let from = self.state.scratch.len();
            self.state.scratch.push(b'/');
            self.text(name, LONGEST_NAME);
            ends[found] = (from, self.state.scratch.len());
            found += 1;
            entry = parent;
        }
        let written = self.state.scratch.len();
        for (from, to) in ends[..found].iter().rev() {
            self.state.scratch.extend_from_within(*from..*to);
        }
        if found == 0 {
            self.state.scratch.push(b'/');
        }
        let length = (self.state.scratch.len() - written).min(limit);
        self.state.scratch.copy_within(written..written + length, mark);
        self.state.scratch.truncate(mark + length);
    }

    /// Appends a string of the guest's memory, without its 0.
    fn text(&mut self, at: u64, most: usize) {
        let start = self.state.scratch.len();
        let most = most.min(MOST_SCRATCH.saturating_sub(start));
        let mut at = at;
        let mut chunk = [0; 64];
        while self.state.scratch.len() - start < most {
            // No read crosses a boundary of 64 bytes, so none fails for a page that the string does not reach.
            let length = (64 - (at % 64) as usize).min(most - (self.state.scratch.len() - start));
            if !self.moment.read(at, &mut chunk[..length]) {
                return;
            }
            let end = chunk[..length].iter().position(|byte| *byte == 0);
            self.state.scratch.extend_from_slice(&chunk[..end.unwrap_or(length)]);
            if end.is_some() {
                return;
            }
            at = at.wrapping_add(length as u64);
        }
    }

    /// Bytes of both that are compared as strings are: up to their 0.
    fn two<T>(&mut self, both: &[Bytes; 2], with: impl FnOnce(&[u8], &[u8]) -> T) -> T {
        let mark = self.state.scratch.len();
        self.bytes(&both[0]);
        let split = self.state.scratch.len();
        self.bytes(&both[1]);
        let result = with(&self.state.scratch[mark..split], &self.state.scratch[split..]);
        self.state.scratch.truncate(mark);
        result
    }

    #[inline]
    fn num(&mut self, num: &Num) -> u64 {
        if let Num::Const(number) = num { *number } else { self.work_out(num) }
    }

    fn work_out(&mut self, num: &Num) -> u64 {
        match num {
            Num::Const(number) => *number,
            Num::Variable(variable) => self.state.variables.get(usize::from(*variable)).map_or(0, |variable| variable.number),
            Num::Argument(number) => self.moment.argument((*number).into()),
            Num::StackWord(number) => self.moment.stack_word((*number).into()),
            Num::Result => self.moment.result(),
            Num::Register(register) => self.moment.register(*register),
            Num::Tgid => self.moment.process().into(),
            Num::Pid => self.moment.pid().into(),
            Num::Cpu => self.moment.cpu() as u64,
            Num::Now => self.moment.now(),
            Num::Elapsed => self.moment.now().wrapping_sub(self.state.started),
            Num::Random => self.random(),
            Num::Function => self.moment.address(),
            Num::Task => self.moment.task(),
            Num::Cpus => self.state.cpus,
            Num::InUser => self.moment.in_user().into(),
            Num::Load { at, size, signed } => {
                let at = self.num(at);
                extend(self.load(at, *size), *size, *signed)
            }
            Num::Bits { of, shift, width, signed } => {
                let value = self.num(of) >> shift;
                let unused = 64 - u32::from((*width).clamp(1, 64));
                if *signed { ((value << unused) as i64 >> unused) as u64 } else { value << unused >> unused }
            }
            Num::Cut { of, size, signed } => extend(self.num(of), *size, *signed),
            Num::Map(map, key) => {
                let aggregate = match self.program.maps.get(usize::from(*map)).map(|facts| &facts.value) {
                    Some(Type::Aggregate(aggregate)) => Some(*aggregate),
                    _ => None,
                };
                self.look(*map, key).map_or(0, |stored| stored.number(aggregate))
            }
            Num::Part { of, behind } => {
                let mark = self.state.scratch.len();
                self.bytes(of);
                let at = skip(&self.state.scratch[mark..], behind);
                let (value, _) = part(&Type::U64, at);
                let number = value.number();
                self.state.scratch.truncate(mark);
                number
            }
            Num::Inside { of, at, size } => {
                let mark = self.state.scratch.len();
                let at = usize::try_from(self.num(at)).unwrap_or(usize::MAX);
                self.bytes(of);
                let size = usize::from(*size);
                let held = self.state.scratch[mark..].get(at..).and_then(|rest| rest.get(..size));
                let number = held.map_or(0, |held| self.program.number(held));
                self.state.scratch.truncate(mark);
                number
            }
            Num::Negate(of) => self.num(of).wrapping_neg(),
            Num::Not(of) => u64::from(self.num(of) == 0),
            Num::Complement(of) => !self.num(of),
            Num::Binary(op, both) => {
                let (one, other) = (self.num(&both[0]), self.num(&both[1]));
                self.binary(*op, one, other)
            }
            Num::And(both) => u64::from(self.num(&both[0]) != 0 && self.num(&both[1]) != 0),
            Num::Or(both) => u64::from(self.num(&both[0]) != 0 || self.num(&both[1]) != 0),
            Num::Choice(three) => {
                let chosen = if self.num(&three[0]) != 0 { &three[1] } else { &three[2] };
                self.num(chosen)
            }
            Num::Either(both) => match self.num(&both[0]) {
                0 => self.num(&both[1]),
                value => value,
            },
            Num::SameText(both, limit) => {
                let most = limit.map_or(usize::MAX, |limit| limit as usize);
                self.two(both, |one, other| u64::from(one[..one.len().min(most)] == other[..other.len().min(most)]))
            }
            Num::Find(both) => self.two(both, |one, other| match other.is_empty() {
                true => 0,
                false => one.windows(other.len()).position(|window| window == other).map_or(u64::MAX, |at| at as u64),
            }),
            Num::Length(of) => {
                let mark = self.state.scratch.len();
                self.bytes(of);
                let length = self.state.scratch.len() - mark;
                self.state.scratch.truncate(mark);
                length as u64
            }
            Num::Compare(both, most) => self.two(both, |one, other| {
                let end = |bytes: &[u8]| bytes.len().min(*most as usize);
                one[..end(one)].cmp(&other[..end(other)]) as i64 as u64
            }),
            Num::StepVariable { variable, by, before } => {
                let Some(variable) = self.state.variables.get_mut(usize::from(*variable)) else { return 0 };
                let was = variable.number;
                variable.number = was.wrapping_add(*by);
                if *before { was } else { variable.number }
            }
            Num::StepMap { map, key, by, before } => {
                let mark = self.state.scratch.len();
                self.key(key);
                let State { maps, scratch, .. } = &mut *self.state;
                let place = maps.get_mut(usize::from(*map)).and_then(|map| map.place(&scratch[mark..], || Stored::Number(0)));
                let mut was = 0;
                if let Some(stored) = place {
                    was = stored.number(None);
                    *stored = Stored::Number(was.wrapping_add(*by));
                }
                scratch.truncate(mark);
                if *before { was } else { was.wrapping_add(*by) }
            }
            Num::HasKey(map, key) => u64::from(self.look(*map, key).is_some()),
            Num::Delete(map, key) => {
                let mark = self.state.scratch.len();
                self.key(key);
                let State { maps, scratch, .. } = &mut *self.state;
                let was = maps.get_mut(usize::from(*map)).is_some_and(|map| map.remove(&scratch[mark..]));
                scratch.truncate(mark);
                was.into()
            }
            Num::Keys(map) => self.state.maps.get(usize::from(*map)).map_or(0, |map| map.len() as u64),
            Num::Frames(stack) => {
                let mark = self.state.scratch.len();
                self.bytes(stack);
                let frames = (self.state.scratch.len() - mark) / 8;
                self.state.scratch.truncate(mark);
                frames as u64
            }
            Num::Swap(of, size) => {
                let value = self.num(of);
                value.swap_bytes() >> (64 - 8 * u32::from((*size).clamp(1, 8)))
            }
            Num::Behind(acts, value) => {
                self.acts(acts);
                self.num(value)
            }
        }
    }

    fn random(&mut self) -> u64 {
        // SplitMix64.
        self.state.random = self.state.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state.random;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31) >> 32
    }

    #[inline]
    fn binary(&mut self, op: Op, one: u64, other: u64) -> u64 {
        match op {
            Op::Add => one.wrapping_add(other),
            Op::Subtract => one.wrapping_sub(other),
            Op::Multiply => one.wrapping_mul(other),
            Op::Divide | Op::Modulo if other == 0 => {
                if !self.state.divided_by_zero {
                    self.state.divided_by_zero = true;
                    self.warn("WARNING: a division by zero gave 0 (said once)");
                }
                0
            }
            Op::Divide => one / other,
            Op::Modulo => one % other,
            Op::BitAnd => one & other,
            Op::BitOr => one | other,
            Op::BitXor => one ^ other,
            Op::ShiftLeft => one << (other & 63),
            Op::ShiftRight => one >> (other & 63),
            Op::Equal => u64::from(one == other),
            Op::Unequal => u64::from(one != other),
            Op::Less => u64::from(one < other),
            Op::LessEqual => u64::from(one <= other),
            Op::LessSigned => u64::from((one as i64) < other as i64),
            Op::LessEqualSigned => u64::from(one as i64 <= other as i64),
        }
    }

    /// Appends bytes to the scratch area.
    fn bytes(&mut self, bytes: &Bytes) {
        let mark = self.state.scratch.len();
        if mark > MOST_SCRATCH {
            return self.fail("one hit put together more than 16 MiB of strings: the script was ended");
        }
        match bytes {
            Bytes::Literal(literal) => self.state.scratch.extend_from_slice(literal),
            Bytes::Variable(variable) => {
                let State { variables, scratch, .. } = &mut *self.state;
                if let Some(variable) = variables.get(usize::from(*variable)) {
                    scratch.extend_from_slice(&variable.bytes);
                }
            }
            Bytes::Comm => {
                let comm = self.moment.comm();
                let end = comm.iter().position(|byte| *byte == 0).unwrap_or(comm.len());
                self.state.scratch.extend_from_slice(&comm[..end]);
            }
            Bytes::Probe => self.state.scratch.extend_from_slice(self.probe.as_bytes()),
            Bytes::Text { at, limit, capacity } => {
                let at = self.num(at);
                let limit = limit.as_ref().map_or(u64::from(*capacity), |limit| self.num(limit)).min((*capacity).into());
                self.text(at, (limit as usize).saturating_sub(1));
            }
            Bytes::Raw { at, length } => {
                let (at, length) = (self.num(at), self.num(length).min(65_536) as usize);
                self.state.scratch.resize(mark + length, 0);
                let State { scratch, .. } = &mut *self.state;
                if !self.moment.read(at, &mut scratch[mark..]) {
                    scratch[mark..].fill(0);
                }
            }
            Bytes::Front(of, length) => {
                let length = self.num(length) as usize;
                self.bytes(of);
                let end = self.state.scratch.len().min(mark.saturating_add(length));
                self.state.scratch.truncate(end);
            }
            Bytes::Map(map, key) => {
                self.key(key);
                let State { maps, scratch, .. } = &mut *self.state;
                let found = maps.get_mut(usize::from(*map)).and_then(|map| map.get(&scratch[mark..]));
                scratch.truncate(mark);
                if let Some(Stored::Bytes(bytes)) = found {
                    scratch.extend_from_slice(bytes);
                }
            }
            Bytes::Tuple(parts) => parts.iter().for_each(|part| self.encode(part)),
            Bytes::Part { of, behind } => {
                self.bytes(of);
                let scratch = &mut self.state.scratch;
                let whole = &scratch[mark..];
                let rest = skip(whole, behind);
                let at = mark + (whole.len() - rest.len());
                let (value, behind) = part(&Type::Buffer, rest);
                let (start, end) = (at + rest.len() - behind.len() - value.bytes().len(), scratch.len() - behind.len());
                scratch.copy_within(start..end, mark);
                scratch.truncate(mark + end - start);
            }
            Bytes::Choice(condition, both) => {
                let chosen = if self.num(condition) != 0 { &both[0] } else { &both[1] };
                self.bytes(chosen);
            }
            Bytes::Inet(of) => {
                // As the guest has it in memory.
                let number = self.num(of) as u32;
                let bytes = if self.program.big_endian { number.to_be_bytes() } else { number.to_le_bytes() };
                self.state.scratch.extend_from_slice(&bytes);
            }
            Bytes::Stack { user, limit, .. } => {
                let mut frames = [0; DEEPEST_STACK];
                let most = usize::from(*limit).min(DEEPEST_STACK);
                let found = self.moment.stack(*user, &mut frames[..most]).min(most);
                frames[..found].iter().for_each(|frame| self.state.scratch.extend_from_slice(&frame.to_le_bytes()));
            }
            Bytes::Error(of) => {
                let number = self.num(of) as i64;
                let text = super::facts::error_text(number.unsigned_abs());
                match text {
                    Some(text) => self.state.scratch.extend_from_slice(text.as_bytes()),
                    None => super::show::put(&mut self.state.scratch, format_args!("Unknown error {number}")),
                }
            }
            Bytes::Name { of, names } => {
                let number = self.num(of);
                let name = usize::try_from(number).ok().and_then(|number| names.get(number)).filter(|name| !name.is_empty());
                match name {
                    Some(name) => self.state.scratch.extend_from_slice(name.as_bytes()),
                    None => super::show::put(&mut self.state.scratch, format_args!("{number}")),
                }
            }
            Bytes::Path { start, places, limit } => {
                let start = self.num(start);
                self.path(start, places, *limit as usize);
            }
            Bytes::Piece { of, at, length, is_text } => {
                let at = usize::try_from(self.num(at)).unwrap_or(usize::MAX);
                self.bytes(of);
                let whole = self.state.scratch.get(mark..).unwrap_or_default();
                let rest = whole.get(at..).unwrap_or_default();
                let piece = &rest[..rest.len().min(usize::try_from(*length).unwrap_or(usize::MAX))];
                let piece = if *is_text { super::shape::text(piece) } else { piece };
                let (from, length) = (mark + at.min(whole.len()), piece.len());
                self.state.scratch.copy_within(from..from + length, mark);
                self.state.scratch.truncate(mark + length);
            }
            Bytes::Join(both) => {
                self.bytes(&both[0]);
                self.bytes(&both[1]);
            }
            Bytes::Behind(acts, value) => {
                self.acts(acts);
                self.bytes(value);
            }
        }
    }
}

/// As many values as one printf may have.
pub(super) const MOST_VALUES: usize = 32;

/// What is behind parts of these kinds.
fn skip<'a>(mut bytes: &'a [u8], behind: &[bool]) -> &'a [u8] {
    for is_number in behind {
        bytes = part(if *is_number { &Type::U64 } else { &Type::Buffer }, bytes).1;
    }
    bytes
}

fn extend(value: u64, size: u8, signed: bool) -> u64 {
    let unused = 64 - 8 * u32::from(size.clamp(1, 8));
    if signed { ((value << unused) as i64 >> unused) as u64 } else { value << unused >> unused }
}
