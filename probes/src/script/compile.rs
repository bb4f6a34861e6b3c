//! A script to a program: names are resolved, types found, attach points expanded. Expressions are compiled in `values`,
//! calls in `calls`.
//!
//! What a map holds may be said behind the place where it is read, so the script is gone over until nothing new is learnt of its maps.

use super::ast::{self, Ast, Do, Parameter, Setting, Target};
use super::error::{ScriptError, Span};
use super::program::{Act, Any, Block, Bytes, Key, MapFacts, Num, Op, Point, PointKind, Program};
use super::types::{Known, Type, Types};
use crate::tracepoint::Tracepoint;
use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use trapline_isa::arch::Isa;
use trapline_isa::mem::ByteOrder;

/// Who knows the guest.
pub trait Knowledge {
    /// Its ISA.
    fn isa(&self) -> &'static Isa;
    /// Its types, where there are any.
    fn types(&self) -> Option<&dyn Types>;
    /// The address of a symbol.
    fn address(&self, name: &str) -> Option<u64>;
    /// The same of data, which a kernel may tell nobody but its modules.
    fn data(&self, name: &str) -> Option<u64> {
        self.address(name)
    }
    /// The names of the system calls by their numbers; none where the kernel's table is not found.
    fn system_call_names(&self) -> Arc<[String]> {
        Arc::new([])
    }
    /// The functions of this name (with `*` for any letters) that may be probed, each once, in a fixed order.
    fn functions(&self, pattern: &str, returns: bool) -> Vec<String>;
    /// The kernel's tracepoints of this group and name (with `*` for any letters), in a fixed order.
    fn tracepoints(&self, group: &str, name: &str) -> Vec<Arc<Tracepoint>> {
        let _ = (group, name);
        Vec::new()
    }
}

/// What a script is compiled with.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// `$1`, `$2` and so on.
    pub parameters: Vec<String>,
    /// `--name=value` for `getopt`.
    pub named: Vec<(String, String)>,
    /// Actions that change what the guest does may be used.
    pub allows_unsafe: bool,
    /// As bpftrace 0.17 would have it where dialects differ.
    pub old: bool,
}

/// Compiles a script; all that is wrong with it, or the program.
pub fn compile(text: &str, knowledge: &dyn Knowledge, options: &Options) -> Result<Program, Vec<ScriptError>> {
    let mut defined: Vec<(&str, u64)> = super::facts::CONSTANTS.to_vec();
    if knowledge.types().is_some() {
        defined.push(("BPFTRACE_HAVE_BTF", 1));
    }
    let ast = super::parse::parse(text, &defined).map_err(|error| alloc::vec![error])?;
    let word = knowledge.isa().word as u8;
    let mut known = Known { own: Vec::new(), constants: &ast.constants, guest: knowledge.types(), word };
    for structure in &ast.structures {
        if let Err((at, name)) = known.lay_out(structure) {
            return Err(alloc::vec![at.error(format!("Unknown type: '{name}': {}", no_types(knowledge)))]);
        }
    }
    let mut compiler = Compiler {
        ast: &ast,
        knowledge,
        options,
        known,
        maps: Vec::new(),
        facts: Vec::new(),
        errors: Vec::new(),
        warnings: Vec::new(),
        block: Scope::default(),
        frames: Vec::new(),
        macros: 0,
        most_variables: 0,
        longest_text: if options.old { 64 } else { 1024 },
        limit: 0,
        prints_maps: true,
        missing: Missing::Error,
    };
    compiler.settings()?;
    compiler.program(knowledge)
}

/// Advice for those who miss a type.
pub(super) fn no_types(knowledge: &dyn Knowledge) -> &'static str {
    match knowledge.types() {
        Some(_) => "the guest's kernel has no type of that name, and the script defines none",
        None => {
            "this kernel carries no type information (BTF): define the structure in the script, or give a file with `--btf FILE`"
        }
    }
}

/// What is done about attach points that do not exist.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Missing {
    Error,
    Warn,
    Ignore,
}

/// What a map is, as far as it is known yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct MapTypes {
    pub keys: Option<Vec<Type>>,
    pub value: Option<Type>,
    pub is_assigned: bool,
}

/// What is known inside one block.
#[derive(Default)]
pub(super) struct Scope {
    pub variables: BTreeMap<String, (u16, Type)>,
    pub count: u16,
    pub kinds: Kinds,
    /// The function whose parameters `args` names.
    pub function: Option<String>,
    pub loops: u32,
    pub overrides: bool,
    /// The tracepoint whose fields `args` names.
    pub event: Option<super::program::SystemCall>,
    /// The same of one that makes records: their structure.
    pub record: Option<super::types::CType>,
    /// The arguments are those of a tracepoint's functions, whose first parameter is their own.
    pub is_raw: bool,
}

/// Which kinds of attach point a block has.
#[derive(Clone, Copy, Default)]
pub(super) struct Kinds {
    pub entries: bool,
    pub returns: bool,
    /// Neither: the beginning, the end, a clock.
    pub others: bool,
    /// Typed ones.
    pub typed: bool,
}

/// Inside a macro: what its parameters are, and what makes its own variables its own.
pub(super) struct Frame {
    pub variables: BTreeMap<String, String>,
    pub maps: BTreeMap<String, String>,
    /// With the number of frames that are there where it is written.
    pub expressions: BTreeMap<String, (ast::Expr, usize)>,
    pub suffix: u32,
}

pub(super) struct Compiler<'a> {
    pub ast: &'a Ast,
    pub knowledge: &'a dyn Knowledge,
    pub options: &'a Options,
    pub known: Known<'a>,
    pub maps: Vec<String>,
    pub facts: Vec<MapTypes>,
    pub errors: Vec<ScriptError>,
    pub warnings: Vec<ScriptError>,
    pub block: Scope,
    pub frames: Vec<Frame>,
    pub macros: u32,
    pub most_variables: u16,
    pub longest_text: u32,
    limit: u64,
    prints_maps: bool,
    missing: Missing,
}

/// More rounds than any script needs: each learns something of a map.
const MOST_ROUNDS: usize = 20;

impl<'a> Compiler<'a> {
    fn settings(&mut self) -> Result<(), Vec<ScriptError>> {
        let mut errors = Vec::new();
        for (name, at, value) in &self.ast.settings {
            let number = if let Setting::Number(number) = value { Some(*number) } else { None };
            match (name.as_str(), number, value) {
                ("max_strlen", Some(number), _) => self.longest_text = number.clamp(1, 65_536) as u32,
                ("max_map_keys", Some(number), _) => self.limit = number,
                ("print_maps_on_exit", Some(number), _) => self.prints_maps = number != 0,
                ("missing_probes", _, Setting::Text(what)) => match what.as_str() {
                    "warn" => self.missing = Missing::Warn,
                    "ignore" => self.missing = Missing::Ignore,
                    "error" => self.missing = Missing::Error,
                    _ => errors.push(at.error("missing_probes is warn, ignore or error")),
                },
                (
                    "max_probes" | "stack_mode" | "str_trunc_trailer" | "license" | "log_size" | "perf_rb_pages" | "on_stack_limit"
                    | "cache_user_symbols" | "lazy_symbolication" | "show_debug_info" | "cpp_demangle",
                    ..,
                ) => {}
                (name, ..) if name.starts_with("unstable_") => {}
                (name, ..) => errors.push(at.error(format!(
                    "there is no setting '{name}' with such a value: max_strlen, max_map_keys, print_maps_on_exit and missing_probes are honoured"
                ))),
            }
        }
        if errors.is_empty() { Ok(()) } else { Err(errors) }
    }

    fn program(&mut self, knowledge: &dyn Knowledge) -> Result<Program, Vec<ScriptError>> {
        for _ in 0..MOST_ROUNDS {
            let before = self.facts.clone();
            self.errors.clear();
            self.warnings.clear();
            let ast = self.ast;
            let blocks: Vec<Block> = ast.probes.iter().flat_map(|probe| self.probe(probe)).collect();
            if self.facts != before {
                continue;
            }
            for (name, facts) in self.maps.iter().zip(&self.facts) {
                if !facts.is_assigned && self.errors.is_empty() {
                    let at = self.ast.probes.first().map_or(Span::default(), |probe| probe.points[0].at);
                    self.errors.push(at.error(format!("Undefined map: {name}: nothing is ever assigned to it")));
                }
            }
            if self.ast.probes.is_empty() {
                self.errors
                    .push(Span::default().error("this script has no probe: write one, such as kprobe:vfs_read { @ = count() }"));
            }
            if !self.errors.is_empty() {
                // A block for several tracepoints is wrong in the same way for each.
                let mut errors: Vec<ScriptError> = Vec::new();
                for error in core::mem::take(&mut self.errors) {
                    if !errors.contains(&error) {
                        errors.push(error);
                    }
                }
                return Err(errors);
            }
            let maps = self.maps.iter().zip(&self.facts).map(|(name, facts)| {
                let own = self.ast.maps.iter().find(|map| format!("@{}", map.name) == *name);
                MapFacts {
                    name: name.clone(),
                    keys: facts.keys.clone().unwrap_or_default(),
                    value: facts.value.clone().unwrap_or(Type::U64),
                    limit: own.map_or(self.limit, |map| map.limit),
                    evicts: own.is_some_and(|map| map.evicts),
                }
            });
            return Ok(Program {
                blocks,
                maps: maps.collect(),
                variables: self.most_variables.into(),
                longest_text: self.longest_text,
                prints_maps: self.prints_maps,
                word: self.known.word,
                big_endian: knowledge.isa().order == ByteOrder::Big,
                warnings: core::mem::take(&mut self.warnings),
            });
        }
        Err(alloc::vec![
            Span::default().error("the types of this script's maps do not settle: assign each of them a value of one type")
        ])
    }

    /// The blocks of a probe: one for all its functions, and one for each of its tracepoints, whose fields lie in different places.
    fn probe(&mut self, probe: &ast::Probe) -> Vec<Block> {
        let mut points = Vec::new();
        for point in &probe.points {
            match self.points(point) {
                Ok(found) if found.is_empty() => self.is_missing(point, probe.points.len() == 1),
                Ok(found) => points.extend(found),
                Err(error) => self.errors.push(error),
            }
        }
        if points.is_empty() && self.errors.is_empty() && self.missing == Missing::Error {
            self.errors.push(probe.points[0].at.error("none of these attach points exists in this guest"));
        }
        let (events, functions): (Vec<Point>, Vec<Point>) = points.into_iter().partition(|point| {
            point.event.is_some() || matches!(point.kind, PointKind::Tracepoint(_) | PointKind::RawTracepoint(_))
        });
        let groups = core::iter::once(functions).filter(|functions| !functions.is_empty() || events.is_empty());
        let groups: Vec<Vec<Point>> = groups.chain(events.iter().map(|event| alloc::vec![event.clone()])).collect();
        groups.into_iter().map(|points| self.block(points, probe)).collect()
    }

    fn is_missing(&mut self, point: &ast::Point, is_alone: bool) {
        let name = point.parts.iter().map(|(part, _)| part.as_str()).collect::<Vec<_>>().join(":");
        let is_event = matches!(point.parts[0].0.as_str(), "tracepoint" | "t" | "rawtracepoint" | "rt");
        let no = match is_event {
            true => format!(
                "tracepoint not found: {}: `trapline trace IMAGE -l 'tracepoint:*'` lists those of a guest",
                name.split_once(':').map_or("", |(_, name)| name)
            ),
            false => format!("No matches for {name}: no function of the guest that may be probed has that name"),
        };
        let no = point.at.error(no);
        match self.missing {
            // A pattern that matches nothing, or a call that another architecture has, is no error beside one that does.
            Missing::Error if is_alone || !name.contains('*') && !is_event && !self.options.old => self.errors.push(no),
            Missing::Ignore => {}
            _ => self.warnings.push(no),
        }
    }

    fn block(&mut self, points: Vec<Point>, probe: &ast::Probe) -> Block {
        self.block = Scope::default();
        self.frames.clear();
        for point in &points {
            let kinds = &mut self.block.kinds;
            match &point.kind {
                PointKind::Kprobe(name, _) => {
                    kinds.entries = true;
                    self.block.function.get_or_insert_with(|| name.clone());
                }
                PointKind::Address(_) => kinds.entries = true,
                PointKind::Kretprobe(name) => {
                    kinds.returns = true;
                    self.block.function.get_or_insert_with(|| name.clone());
                }
                PointKind::Tracepoint(event) => {
                    kinds.others = true;
                    let record = format!("trace_event_raw_{}", event.class);
                    self.block.record = self.known.named(Some(ast::Tag::Struct), &record);
                }
                PointKind::RawTracepoint(event) => {
                    kinds.entries = true;
                    kinds.typed = true;
                    self.block.is_raw = true;
                    self.block.function = Some(format!("__traceiter_{}", event.name));
                }
                PointKind::Begin | PointKind::End | PointKind::Interval(_) | PointKind::Profile(_) => kinds.others = true,
            }
            self.block.kinds.typed |= point.is_typed;
            self.block.event = point.event.clone();
        }
        let filter = match &probe.filter {
            None => None,
            Some(filter) => match self.number(filter) {
                Ok((num, _)) => Some(num),
                Err(error) => {
                    self.errors.push(error);
                    None
                }
            },
        };
        let body = self.acts(&probe.body);
        self.most_variables = self.most_variables.max(self.block.count);
        let counts_hits = points.iter().any(|point| point.every > 1 || point.result.is_some());
        Block { points, filter, counts_hits, body, overrides: self.block.overrides }
    }

    /// The statements of a block. What is wrong with one is noted, and the others are looked at as well.
    pub fn acts(&mut self, block: &ast::Block) -> Box<[Act]> {
        let mut acts = Vec::new();
        for statement in &block.statements {
            match self.act(statement) {
                Ok(act) => acts.push(act),
                Err(error) => self.errors.push(error),
            }
        }
        if let Some(value) = &block.value {
            match self.effect(value) {
                Ok(act) => acts.push(act),
                Err(error) => self.errors.push(error),
            }
        }
        acts.into()
    }

    fn act(&mut self, statement: &ast::Statement) -> Result<Act, ScriptError> {
        Ok(match &statement.kind {
            Do::Expr(expr) => self.effect(expr)?,
            Do::Block(block) => Act::Block(self.acts(block)),
            Do::Assign(target, operator, value) => self.assign(target, *operator, value, statement.at)?,
            Do::Let(name, kind, value) => {
                let declared = match kind {
                    Some(name) => Some(self.type_named(name)?),
                    None => None,
                };
                match (value, declared) {
                    (Some(value), declared) => {
                        let (any, is) = self.value(value)?;
                        // A variable with a type of its own holds what fits into it; others hold what they are given.
                        let any = match (any, &declared) {
                            (Any::Num(num), Some(Type::Int(size, signed))) => Any::Num(super::values::cut(num, *size, *signed)),
                            (any, _) => any,
                        };
                        self.set_variable(name, any, declared.unwrap_or(is), statement.at)?
                    }
                    (None, Some(kind)) => {
                        let any =
                            if kind.is_number() { Any::Num(Num::Const(0)) } else { Any::Bytes(Bytes::Literal(Box::default())) };
                        self.set_variable(name, any, kind, statement.at)?
                    }
                    // Its type comes with the first value.
                    (None, None) => Act::Block(Box::default()),
                }
            }
            Do::If(condition, then, otherwise) => {
                let condition = self.number(condition)?.0;
                let then = self.acts(then);
                let otherwise = otherwise.as_ref().map_or_else(Box::default, |block| self.acts(block));
                Act::If(condition, then, otherwise)
            }
            Do::While(condition, body) => {
                let condition = self.number(condition)?.0;
                Act::While(condition, self.in_loop(body), Box::default())
            }
            Do::Unroll(count, body) => {
                let (count, _) = self.number(count)?;
                let Num::Const(times @ 1..=100) = count else {
                    return Err(statement.at.error("unroll takes a number from 1 to 100 that is known before the script runs"));
                };
                let counter = self.hidden();
                let step = Act::Eval(Num::StepVariable { variable: counter, by: 1, before: true });
                let going = Num::Binary(Op::Less, Box::new([Num::Variable(counter), Num::Const(times)]));
                Act::Block(Box::new([
                    Act::Number(counter, Num::Const(0)),
                    Act::While(going, self.in_loop(body), Box::new([step])),
                ]))
            }
            Do::ForRange(name, from, to, body) => {
                let ((from, kind), (to, _)) = (self.number(from)?, self.number(to)?);
                let (counter, end) = (self.hidden(), self.hidden());
                let set = self.set_variable(name, Any::Num(Num::Variable(counter)), kind, statement.at)?;
                let step = Act::Eval(Num::StepVariable { variable: counter, by: 1, before: true });
                let going = Num::Binary(Op::LessSigned, Box::new([Num::Variable(counter), Num::Variable(end)]));
                let body = Act::Block(self.in_loop(body));
                Act::Block(Box::new([
                    Act::Number(counter, from),
                    Act::Number(end, to),
                    Act::While(going, Box::new([set, body]), Box::new([step])),
                ]))
            }
            Do::ForMap(name, map, body) => {
                let map = self.map(map);
                let facts = self.facts[usize::from(map)].clone();
                let key = match facts.keys {
                    Some(keys) if keys.len() > 1 => Type::Tuple(keys),
                    Some(keys) if keys.is_empty() => {
                        return Err(statement
                            .at
                            .error("this map has no keys: only a map with keys (@name[key]) can be gone over"));
                    }
                    keys => keys.and_then(|keys| keys.into_iter().next()).unwrap_or(Type::U64),
                };
                let value = match facts.value {
                    Some(Type::Aggregate(_)) | None => Type::I64,
                    Some(value) => value,
                };
                let (variable, _) = self.variable(name, Type::Tuple(alloc::vec![key, value]), statement.at)?;
                Act::ForMap(map, variable, self.in_loop(body))
            }
            Do::Return => Act::Return,
            Do::Break if self.block.loops > 0 => Act::Break,
            Do::Continue if self.block.loops > 0 => Act::Continue,
            Do::Break => return Err(statement.at.error("break statement outside of a loop: take it away, or write return")),
            Do::Continue => {
                return Err(statement.at.error("continue statement outside of a loop: take it away, or write return"));
            }
        })
    }

    fn in_loop(&mut self, body: &ast::Block) -> Box<[Act]> {
        self.block.loops += 1;
        let body = self.acts(body);
        self.block.loops -= 1;
        body
    }

    fn assign(
        &mut self,
        target: &Target,
        operator: Option<ast::Binary>,
        value: &ast::Expr,
        at: Span,
    ) -> Result<Act, ScriptError> {
        match (target, operator) {
            (Target::Nothing, _) => self.effect(value),
            (Target::Variable(name), None) => {
                let (any, kind) = self.value(value)?;
                self.set_variable(name, any, kind, at)
            }
            (Target::Map(name, keys), None) => {
                if let ast::Kind::Call(function, arguments) = &value.kind
                    && let Some((aggregate, num)) = self.aggregate(function, arguments, value.at)?
                {
                    let map = self.map(name);
                    let key = self.key(map, keys, at)?;
                    self.learn_value(map, Type::Aggregate(aggregate), at)?;
                    return Ok(Act::Collect(map, key, aggregate, num));
                }
                let typed = self.value(value)?;
                let (any, kind) = self.held(typed, value.at)?;
                let map = self.map(name);
                let key = self.key(map, keys, at)?;
                self.learn_value(map, kind, at)?;
                Ok(Act::Map(map, key, any))
            }
            // `target op= value` is `target = target op value`.
            (target, Some(operator)) => {
                let read = match target.clone() {
                    Target::Variable(name) => ast::Kind::Variable(name),
                    Target::Map(name, keys) => ast::Kind::Map(name, keys),
                    Target::Nothing => return Err(at.error("_ has no value that could be changed")),
                };
                if let Target::Map(name, _) = target {
                    // `@m += 1` may come before anything else is assigned to it.
                    let map = self.map(name);
                    self.facts[usize::from(map)].is_assigned = true;
                }
                let read = ast::Expr { at, kind: read };
                let whole = ast::Expr { at, kind: ast::Kind::Binary(operator, Box::new(read), Box::new(value.clone())) };
                self.assign(target, None, &whole, at)
            }
        }
    }

    pub fn set_variable(&mut self, name: &str, any: Any, kind: Type, at: Span) -> Result<Act, ScriptError> {
        let (variable, _) = self.variable(name, kind, at)?;
        Ok(match any {
            Any::Num(num) => Act::Number(variable, num),
            Any::Bytes(bytes) => Act::Bytes(variable, bytes),
        })
    }

    /// A variable's place; it is made where there is none, with this type.
    fn variable(&mut self, name: &str, kind: Type, at: Span) -> Result<(u16, Type), ScriptError> {
        let name = self.variable_name(name);
        if let Some((place, is)) = self.block.variables.get(&name) {
            let same = is.is_number() == kind.is_number() && (is.is_integer() == kind.is_integer() || !is.is_number())
                || matches!((is, &kind), (Type::Int(..), Type::Pointer(_)) | (Type::Pointer(_), Type::Int(..)));
            let same = same && matches!(is, Type::Text(_) | Type::Buffer) == matches!(kind, Type::Text(_) | Type::Buffer);
            if !same {
                return Err(at.error(format!(
                    "Type mismatch for ${name}: trying to assign value of type '{}' when variable already contains a value of type '{}'",
                    kind.name(),
                    is.name()
                )));
            }
            return Ok((*place, is.clone()));
        }
        let place = self.hidden();
        self.block.variables.insert(name, (place, kind.clone()));
        Ok((place, kind))
    }

    /// A variable without a name.
    pub fn hidden(&mut self) -> u16 {
        self.block.count = self.block.count.saturating_add(1);
        self.most_variables = self.most_variables.max(self.block.count);
        self.block.count - 1
    }

    /// A variable's name inside a macro: its own, or the one that it was given.
    pub fn variable_name(&self, name: &str) -> String {
        match self.frames.last() {
            Some(frame) => frame.variables.get(name).cloned().unwrap_or_else(|| format!("{name}#{}", frame.suffix)),
            None => name.to_owned(),
        }
    }

    /// A map's number.
    pub fn map(&mut self, name: &str) -> u16 {
        let name = self.frames.last().and_then(|frame| frame.maps.get(name)).map_or(name, String::as_str);
        let name = format!("@{name}");
        let at = self.maps.iter().position(|known| *known == name).unwrap_or_else(|| {
            self.maps.push(name);
            self.facts.push(MapTypes::default());
            self.maps.len() - 1
        });
        at as u16
    }

    /// A map's key; its types are learnt or held against those known.
    pub fn key(&mut self, map: u16, keys: &[ast::Expr], at: Span) -> Result<Key, ScriptError> {
        let mut parts = Vec::new();
        let mut types = Vec::new();
        // @m[(a, b)] is @m[a, b].
        let keys = match keys {
            [ast::Expr { kind: ast::Kind::Tuple(inside), .. }] => inside.as_slice(),
            keys => keys,
        };
        for key in keys {
            let typed = self.value(key)?;
            let (any, kind) = self.held(typed, key.at)?;
            types.push(match kind {
                Type::Int(_, signed) => Type::Int(8, signed),
                Type::None => return Err(key.at.error("this has no value that could be a key")),
                kind => kind,
            });
            parts.push(any);
        }
        let facts = &mut self.facts[usize::from(map)];
        match &mut facts.keys {
            None => facts.keys = Some(types),
            Some(known) => {
                let fits = known.len() == types.len() && known.iter().zip(&types).all(|(one, other)| agree(one, other));
                if !fits {
                    let names = |types: &[Type]| match types {
                        [] => "none".to_owned(),
                        types => format!("[{}]", types.iter().map(Type::name).collect::<Vec<_>>().join(", ")),
                    };
                    let (asked, is) = (names(&types), names(known));
                    let name = &self.maps[usize::from(map)];
                    return Err(at.error(format!(
                        "Argument mismatch for {name}: trying to access with arguments: {asked} when map expects arguments: {is}"
                    )));
                }
                for (known, kind) in known.iter_mut().zip(types) {
                    if let (Type::Int(_, signed), Type::Int(_, true)) = (&mut *known, &kind) {
                        *signed = true;
                    }
                }
            }
        }
        Ok(parts.into())
    }

    /// What is assigned to a map says what it holds.
    pub fn learn_value(&mut self, map: u16, kind: Type, at: Span) -> Result<(), ScriptError> {
        let name = self.maps[usize::from(map)].clone();
        let facts = &mut self.facts[usize::from(map)];
        facts.is_assigned = true;
        let kind = match kind {
            Type::Int(_, signed) => Type::Int(8, signed),
            Type::None => return Err(at.error("this has no value that could be kept in a map")),
            kind => kind,
        };
        match &mut facts.value {
            None => facts.value = Some(kind),
            Some(Type::Int(_, signed)) if kind.is_integer() => *signed |= kind.is_signed(),
            Some(known) if agree(known, &kind) => {}
            Some(known) => {
                let (is, asked) = (known.name(), kind.name());
                return Err(at.error(format!(
                    "Type mismatch for {name}: trying to assign value of type '{asked}' when map already contains a value of type '{is}'"
                )));
            }
        }
        Ok(())
    }

    /// The macro of that name, and a frame for its parameters.
    pub fn enter_macro(&mut self, name: &str, arguments: &[ast::Expr], at: Span) -> Result<Option<&'a ast::Block>, ScriptError> {
        let ast = self.ast;
        let Some(found) = ast.macros.iter().find(|known| known.name == name) else { return Ok(None) };
        if found.parameters.len() != arguments.len() {
            return Err(at.error(format!("{name}() takes {} arguments, not {}", found.parameters.len(), arguments.len())));
        }
        if self.frames.len() > 50 {
            return Err(at.error(format!("the macro {name} comes back to itself")));
        }
        self.macros += 1;
        let mut frame =
            Frame { variables: BTreeMap::new(), maps: BTreeMap::new(), expressions: BTreeMap::new(), suffix: self.macros };
        for (parameter, argument) in found.parameters.iter().zip(arguments) {
            match (parameter, &argument.kind) {
                (Parameter::Variable(name), ast::Kind::Variable(given)) => {
                    frame.variables.insert(name.clone(), self.variable_name(given));
                }
                (Parameter::Map(name), ast::Kind::Map(given, keys)) if keys.is_empty() => {
                    let given = self.frames.last().and_then(|frame| frame.maps.get(given)).unwrap_or(given).clone();
                    frame.maps.insert(name.clone(), given);
                }
                (Parameter::Expression(name), _) => {
                    frame.expressions.insert(name.clone(), (argument.clone(), self.frames.len()));
                }
                (Parameter::Variable(wanted), _) => {
                    return Err(argument.at.error(format!("{name}() wants a variable here, for its ${wanted}")));
                }
                (Parameter::Map(wanted), _) => {
                    return Err(argument.at.error(format!("{name}() wants a map here, for its @{wanted}")));
                }
            }
        }
        self.frames.push(frame);
        Ok(Some(&found.body))
    }
}

/// Whether values of these types may stand in one map.
fn agree(one: &Type, other: &Type) -> bool {
    match (one, other) {
        (Type::Int(..), Type::Int(..) | Type::Pointer(_)) | (Type::Pointer(_), Type::Int(..) | Type::Pointer(_)) => true,
        (Type::Text(_) | Type::Buffer, Type::Text(_) | Type::Buffer) => true,
        (Type::Tuple(one), Type::Tuple(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| agree(one, other))
        }
        (Type::Stack(_), Type::Stack(_)) => true,
        (Type::Held(one), Type::Held(other)) => one == other,
        (Type::Aggregate(one), Type::Aggregate(other)) => core::mem::discriminant(one) == core::mem::discriminant(other),
        (one, other) => core::mem::discriminant(one) == core::mem::discriminant(other),
    }
}

impl Compiler<'_> {
    /// What an attach point stands for in this guest: nothing where no function has the name.
    fn points(&mut self, point: &ast::Point) -> Result<Vec<Point>, ScriptError> {
        let parts: Vec<String> = point.parts.iter().map(|(part, _)| self.with_parameters(part)).collect();
        let (provider, rest) = parts.split_first().map_or(("", &[][..]), |(provider, rest)| (provider.as_str(), rest));
        let one = |kind, name: String| {
            Ok(alloc::vec![Point {
                kind,
                name,
                at: point.at,
                is_typed: false,
                of_pattern: false,
                event: None,
                every: 1,
                result: None
            }])
        };
        match (provider, rest) {
            ("BEGIN" | "begin", []) => one(PointKind::Begin, if self.options.old { "BEGIN" } else { "begin" }.to_owned()),
            ("END" | "end", []) => one(PointKind::End, if self.options.old { "END" } else { "end" }.to_owned()),
            ("kprobe" | "k", rest @ ([_] | [_, _])) => self.functions("kprobe", rest, point.at, false),
            ("kretprobe" | "kr", rest @ ([_] | [_, _])) => self.functions("kretprobe", rest, point.at, true),
            ("fentry" | "f" | "kfunc", rest @ ([_] | [_, _])) => self.typed_functions("fentry", rest, point.at, false),
            ("fexit" | "fr" | "kretfunc", rest @ ([_] | [_, _])) => self.typed_functions("fexit", rest, point.at, true),
            ("interval" | "i" | "profile" | "p", rest) => {
                let period = match rest {
                    [count] => super::lex::time(count),
                    [unit, count] => period(unit, count).map_err(|why| point.at.error(why))?,
                    _ => None,
                };
                let is_interval = provider.starts_with('i');
                let full = if is_interval { "interval" } else { "profile" };
                let Some(period) = period.filter(|period| *period > 0) else {
                    return Err(point.at.error(format!(
                        "{full} is followed by a unit (s, ms, us, hz) and a number greater than 0: {full}:ms:100"
                    )));
                };
                let name = alloc::format!("{full}:{}", rest.join(":"));
                one(if is_interval { PointKind::Interval(period) } else { PointKind::Profile(period) }, name)
            }
            ("kprobe" | "k" | "kretprobe" | "kr" | "fentry" | "f" | "kfunc" | "fexit" | "fr" | "kretfunc", _) => {
                Err(point.at.error(format!("{provider} is followed by a function: {provider}:vfs_read")))
            }
            ("tracepoint" | "t", [group, event]) if matches!(group.as_str(), "syscalls" | "raw_syscalls") => {
                self.system_calls(group == "raw_syscalls", event, point.at)
            }
            ("tracepoint" | "t", [group, event]) => self.tracepoints(group, event, point.at),
            ("tracepoint" | "t", _) => {
                Err(point.at.error("tracepoint is followed by a group and an event: tracepoint:sched:sched_switch"))
            }
            // [module:]event: those of modules are not known, so the kernel's are meant either way.
            ("rawtracepoint" | "rt", [event] | [_, event]) => self.raw_tracepoints(event, point.at),
            ("rawtracepoint" | "rt", _) => {
                Err(point.at.error("rawtracepoint is followed by an event: rawtracepoint:sched_switch"))
            }
            ("software" | "s", [event]) => self.software(event, "", point.at),
            ("software" | "s", [event, count]) => self.software(event, count, point.at),
            ("software" | "s" | "hardware" | "h", _) => Err(point
                .at
                .error(format!("{provider} events are not counted by this machine: use interval, profile or a kprobe"))),
            ("watchpoint" | "w" | "asyncwatchpoint" | "aw", _) => {
                Err(point.at.error("watchpoints are not there yet: probe the functions that write the data"))
            }
            ("uprobe" | "u" | "uretprobe" | "ur" | "usdt" | "U", _) => Err(point
                .at
                .error("programs of the guest cannot be probed yet, only its kernel: probe the system calls that they make")),
            ("iter" | "it" | "self" | "bench" | "test", _) => {
                Err(point.at.error(format!("{provider} has no meaning outside of the guest")))
            }
            ("BEGIN" | "begin" | "END" | "end", _) => Err(point.at.error(format!("nothing follows {provider}"))),
            _ => Err(point.at.error(format!(
                "Invalid provider: '{provider}': BEGIN, END, kprobe, kretprobe, fentry, fexit, interval and profile are known"
            ))),
        }
    }

    /// The tracepoints of the kernel that are meant, each with a record of its own.
    fn tracepoints(&self, group: &str, event: &str, at: Span) -> Result<Vec<Point>, ScriptError> {
        if self.knowledge.types().is_none() {
            return Err(at.error(
                "this kernel carries no type information (BTF), which records of tracepoints need: probe a function on the event's way",
            ));
        }
        let of_pattern = group.contains('*') || event.contains('*');
        let found = self.knowledge.tracepoints(group, event).into_iter().map(|event| Point {
            name: format!("tracepoint:{}:{}", event.group, event.name),
            kind: PointKind::Tracepoint(event),
            at,
            is_typed: false,
            of_pattern,
            event: None,
            every: 1,
            result: None,
        });
        Ok(found.collect())
    }

    /// The same without their records; what has no record is not known.
    fn raw_tracepoints(&self, event: &str, at: Span) -> Result<Vec<Point>, ScriptError> {
        let mut points = self.tracepoints("*", event, at)?;
        for point in &mut points {
            if let PointKind::Tracepoint(found) = &point.kind {
                point.name = format!("rawtracepoint:{}", found.name);
                point.kind = PointKind::RawTracepoint(Arc::clone(found));
            }
            point.of_pattern = event.contains('*');
        }
        Ok(points)
    }

    /// `$1` in an attach point is the parameter's text.
    fn with_parameters(&self, part: &str) -> String {
        let mut text = String::new();
        let mut rest = part;
        while let Some(at) = rest.find('$') {
            text.push_str(&rest[..at]);
            let digits = rest[at + 1..].bytes().take_while(u8::is_ascii_digit).count();
            let number: usize = rest[at + 1..at + 1 + digits].parse().unwrap_or(0);
            match number.checked_sub(1) {
                Some(number) => text.push_str(self.options.parameters.get(number).map_or("", String::as_str)),
                None => text.push('$'),
            }
            rest = &rest[at + 1 + digits..];
        }
        text.push_str(rest);
        text
    }

    fn functions(&self, provider: &str, parts: &[String], at: Span, returns: bool) -> Result<Vec<Point>, ScriptError> {
        let (module, wanted) = match parts {
            [module, function] if module != "vmlinux" => (Some(module.as_str()), function.as_str()),
            [_, function] => (None, function.as_str()),
            [function, ..] => (None, function.as_str()),
            [] => return Ok(Vec::new()),
        };
        let shown = |name: &str| format!("{provider}:{}{name}", module.map_or(String::new(), |module| format!("{module}:")));
        if let Some(address) = wanted.strip_prefix("0x").and_then(|digits| u64::from_str_radix(digits, 16).ok()) {
            if returns {
                return Err(at.error("a return probe names a function, not an address"));
            }
            return Ok(alloc::vec![Point {
                kind: PointKind::Address(address),
                name: shown(wanted),
                at,
                is_typed: false,
                of_pattern: false,
                event: None,
                every: 1,
                result: None
            }]);
        }
        let (function, offset) = match wanted.split_once('+') {
            None => (wanted, 0),
            Some((function, offset)) => match super::lex::time(offset) {
                Some(offset) if !returns => (function, offset),
                _ => return Err(at.error("behind the + stands an offset in bytes, and only kprobes have one: kprobe:vfs_read+4")),
            },
        };
        let full = module.map_or_else(|| function.to_owned(), |module| format!("{module}:{function}"));
        let names = match function.contains('*') {
            true => self.knowledge.functions(&full, returns),
            false => self.knowledge.address(&full).map(|_| full).into_iter().collect(),
        };
        let names = names.into_iter().map(|name| {
            let suffix = if offset == 0 { String::new() } else { format!("+{offset}") };
            let plain = name.rsplit(':').next().unwrap_or(&name);
            let shown = shown(&format!("{plain}{suffix}"));
            let kind = if returns { PointKind::Kretprobe(name) } else { PointKind::Kprobe(name, offset) };
            Point {
                kind,
                name: shown,
                at,
                is_typed: false,
                of_pattern: function.contains('*'),
                event: None,
                every: 1,
                result: None,
            }
        });
        Ok(names.collect())
    }

    fn typed_functions(&self, provider: &str, parts: &[String], at: Span, returns: bool) -> Result<Vec<Point>, ScriptError> {
        let Some(types) = self.knowledge.types() else {
            let plain = if returns { "kretprobe" } else { "kprobe" };
            return Err(at.error(format!("this kernel carries no type information (BTF), which {provider} needs: use {plain}, or give a file with `--btf FILE`")));
        };
        let provider = match (self.options.old, returns) {
            (true, false) => "kfunc",
            (true, true) => "kretfunc",
            _ => provider,
        };
        let mut points = self.functions(provider, parts, at, returns)?;
        points.retain(|point| match &point.kind {
            PointKind::Kprobe(name, _) | PointKind::Kretprobe(name) => types.function(name).is_some(),
            _ => false,
        });
        points.iter_mut().for_each(|point| point.is_typed = true);
        Ok(points)
    }
}

fn period(unit: &str, count: &str) -> Result<Option<u64>, &'static str> {
    let Some(count) = super::lex::time(count) else { return Ok(None) };
    Ok(match unit {
        "s" => count.checked_mul(1_000_000_000),
        "ms" => count.checked_mul(1_000_000),
        "us" => count.checked_mul(1_000),
        "ns" => Some(count),
        "hz" => 1_000_000_000_u64.checked_div(count),
        _ => return Err("this is not an accepted unit of time: s, ms, us and hz are"),
    })
}
