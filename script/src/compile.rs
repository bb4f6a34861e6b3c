//! Compiles a script to a [`Program`]: resolves names, infers types and expands attach points. Expressions are compiled
//! in `values`, calls in `calls`.
//!
//! A map may be read before the line that assigns to it. So the compiler repeats the whole pass over the script until a
//! pass changes no map type (a fixed point), at most `MOST_ROUNDS` times. Attach points are resolved in the first pass
//! only, because that is the expensive part.

use super::ast::{self, Ast, Setting};
use super::error::{ScriptError, Span};
use super::known::{Known, Unlaid};
use super::lex::TOO_MUCH;
use super::operators::fold;
use super::program::{Block, MapFacts, Num, Op, Point, PointKind, Program};
use super::shape::Shape;
use super::types::{CType, StackForm, Type, Types};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use trapline_isa::arch::Isa;
use trapline_isa::mem::ByteOrder;
use trapline_probes::budget::Budget;
use trapline_probes::tracepoint::Tracepoint;
use trapline_probes::user::{Place, Usdt};

/// Facts about the guest that the compiler needs. The machine implements this trait.
pub trait Knowledge {
    /// The guest's ISA.
    fn isa(&self) -> &'static Isa;
    /// The kernel's types, if it has type information (BTF).
    fn types(&self) -> Option<&dyn Types>;
    /// The address of a symbol.
    fn address(&self, name: &str) -> Option<u64>;
    /// The address of a data symbol. Kernels may export data symbols to modules without listing them in kallsyms.
    fn data(&self, name: &str) -> Option<u64> {
        self.address(name)
    }
    /// The names of system calls, indexed by number. Empty if the kernel's table was not found.
    fn system_call_names(&self) -> Arc<[String]> {
        Arc::new([])
    }
    /// The functions that match a pattern and may be probed, each once, in a fixed order. `*` stands for any letters.
    fn functions(&self, pattern: &str, returns: bool) -> Vec<String>;
    /// The functions of a user program's file whose names match a pattern, each once, in a fixed order. Fails with a
    /// sentence if the file or its functions are not known.
    fn program_functions(&self, path: &str, pattern: &str) -> Result<Vec<String>, String> {
        let _ = pattern;
        Err(format!("the files of this guest are not known, {path} among them"))
    }
    /// The offset in a program's file of an address that the file was linked for.
    fn program_offset(&self, path: &str, address: u64) -> Option<u64> {
        let _ = (path, address);
        None
    }
    /// The address that a function of a program's file was linked for.
    fn program_address(&self, path: &str, name: &str) -> Option<u64> {
        let _ = (path, name);
        None
    }
    /// The path of a program (`bash`) or library (`libc`) by its name alone. `None` if the guest has no such file.
    fn program_path(&self, name: &str) -> Option<String> {
        let _ = name;
        None
    }
    /// The number of functions and USDT probes of a user program's file, which a pattern is compared with.
    fn program_size(&self, path: &str) -> u64 {
        let _ = path;
        0
    }
    /// The USDT probes of a user program's file that match a provider and a name, in a fixed order. Several places may
    /// have one name. Fails with a sentence if the file is not known.
    fn usdt(&self, path: &str, provider: &str, name: &str) -> Result<Vec<Usdt>, String> {
        let _ = (provider, name);
        Err(format!("the files of this guest are not known, {path} among them"))
    }
    /// The number of names that a pattern is compared with.
    fn names(&self) -> u64 {
        0
    }
    /// The kernel's tracepoints that match a group and a name, in a fixed order. `*` stands for any letters.
    fn tracepoints(&self, group: &str, name: &str) -> Vec<Arc<Tracepoint>> {
        let _ = (group, name);
        Vec::new()
    }
}

/// Options of the compiler.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The values of `$1`, `$2` and so on.
    pub parameters: Vec<String>,
    /// The values that `getopt` returns, from `--name=value`.
    pub named: Vec<(String, String)>,
    /// Allows actions that change the guest's behaviour, such as `override`.
    pub allows_unsafe: bool,
    /// Settings that override those of the script's `config`, as names and values.
    pub settings: Vec<(String, String)>,
    /// If set, hits in other processes are ignored.
    pub process: Option<u32>,
    /// Whether a read of unmapped memory prints a warning.
    pub warns_of_reads: bool,
    /// Whether the script is given a [`Past`](super::past::Past), which `last_write` asks.
    pub has_past: bool,
    /// Follow bpftrace 0.17 where its dialect differs from the present one.
    pub old: bool,
}

/// Compiles a script. Fails with all errors that were found.
pub fn compile(text: &str, knowledge: &dyn Knowledge, options: &Options) -> Result<Program, Vec<ScriptError>> {
    compile_within(text, knowledge, options, &budget(text))
}

/// The budget for parsing and compiling a script.
pub fn budget(text: &str) -> Budget {
    Budget::linear(text.len(), STEPS_A_BYTE)
}

/// Steps of parsing and compiling per byte of a script. Real scripts take fewer than ten.
const STEPS_A_BYTE: u64 = 64;
/// Longest script, in bytes. Its compiled form takes about a hundred times as much memory.
const MOST_TEXT: usize = 8 << 20;
/// The compiler stops after this many errors.
const MOST_ERRORS: usize = 100;
/// Default limit on the number of attach points.
const MOST_POINTS: u64 = 1 << 18;
/// Largest limit that a script can set with `max_probes`.
const MOST_POINTS_EVER: u64 = 1 << 20;
/// Largest number of `interval` and `profile` points, all of which are checked whenever one is due.
const MOST_CLOCKS: usize = 1024;
/// Comparing this many names with a pattern costs one step.
pub(super) const NAMES_A_STEP: u64 = 16;

/// Looking at this many members of a structure, or copying this many bytes of their names, costs one step.
const TYPE_WORK_A_STEP: u64 = 8;

/// Compiles a script within a budget of work.
pub fn compile_within(
    text: &str,
    knowledge: &dyn Knowledge,
    options: &Options,
    budget: &Budget,
) -> Result<Program, Vec<ScriptError>> {
    if text.len() > MOST_TEXT {
        return Err(alloc::vec![Span::default().error("this script is longer than 8 MiB: take it apart")]);
    }
    let mut defined: Vec<(&str, u64)> = super::facts::CONSTANTS.to_vec();
    if knowledge.types().is_some() {
        defined.push(("BPFTRACE_HAVE_BTF", 1));
    }
    let ast = super::parse::parse(text, &defined, budget).map_err(|error| alloc::vec![error])?;
    let enums = ast.enums.iter().map(|(name, names)| super::known::own_enum(name, names)).collect();
    let mut known = Known::new(enums, knowledge.types(), knowledge.isa());
    for structure in &ast.structures {
        known.lay_out(structure, budget).map_err(|why| {
            alloc::vec![match why {
                Unlaid::Unknown(at, name) => at.error(format!("Unknown type: '{name}': {}", no_types(knowledge))),
                Unlaid::TooMuch => Span::default().error(TOO_MUCH),
            }]
        })?;
    }
    let mut compiler = Compiler {
        ast: &ast,
        knowledge,
        options,
        known,
        maps: Vec::new(),
        map_numbers: BTreeMap::new(),
        facts: Vec::new(),
        errors: Vec::new(),
        warnings: Vec::new(),
        block: Scope::default(),
        frames: Vec::new(),
        shapes: RefCell::default(),
        macros: 0,
        expanded: 0,
        level: 0,
        most_variables: 0,
        longest_text: if options.old { 64 } else { 1024 },
        trailer: "..".into(),
        stack_form: StackForm::Bpftrace,
        names_programs: false,
        most_points: MOST_POINTS,
        limit: 0,
        prints_maps: true,
        missing: Missing::Error,
        budget,
        charged_types: Cell::new(knowledge.types().map_or(0, Types::work)),
        by_name: ast.macros.iter().rev().map(|found| (found.name.as_str(), found)).collect(),
        points: alloc::vec![None; ast.probes.len()],
        found_points: 0,
        clocks: 0,
        counters: 0,
        point_errors: Vec::new(),
        point_warnings: Vec::new(),
    };
    compiler.settings()?;
    compiler.program(knowledge)
}

/// The end of an error message about an unknown type.
pub(super) fn no_types(knowledge: &dyn Knowledge) -> &'static str {
    match knowledge.types() {
        Some(_) => "the guest's kernel has no type of that name, and the script defines none",
        None => {
            "this kernel carries no type information (BTF): define the structure in the script, or give a file with `--btf FILE`"
        }
    }
}

/// The setting `missing_probes`: the treatment of attach points that do not exist in this guest.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Missing {
    /// An error. A pattern or tracepoint without a match gets a warning instead, unless it stands alone.
    Error,
    /// A warning is printed and the other attach points are used.
    Warn,
    /// The other attach points are used without a word.
    Ignore,
}

/// The types of a map that the passes so far have inferred.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct MapTypes {
    /// The types of the key's parts, empty for a map without keys. `None` before the first use.
    pub keys: Option<Vec<Type>>,
    /// The type of the values. `None` before the first assignment.
    pub value: Option<Type>,
    /// Whether the script assigns to the map. A map that is only read is an error.
    pub is_assigned: bool,
    /// The position of its first use.
    pub first: Span,
}

/// The state of the compiler inside one block.
#[derive(Default)]
pub(super) struct Scope {
    /// The number and the type of each variable.
    pub variables: BTreeMap<String, (u16, Type)>,
    /// The variables whose type a `let` declares. Their values are narrowed to it.
    pub declared: BTreeSet<String>,
    /// The number of variables so far, those without a name included.
    pub count: u16,
    /// The kinds of the block's attach points. They decide which builtins it may use.
    pub kinds: Kinds,
    /// The probed function, that of the first attach point if there are several. `args` means its parameters.
    pub function: Option<String>,
    /// The path in the guest of the file that the block's user probes are in. `None` for a block without user probes.
    pub program: Option<String>,
    /// The USDT probes of the block, with their names.
    pub usdt: Vec<(String, Arc<Usdt>)>,
    /// The number of loops around the present statement.
    pub loops: u32,
    /// Whether the block calls `override`.
    pub overrides: bool,
    /// The nesting depth of code that may be skipped, such as the branches of an `if`.
    pub depth: u32,
    /// See [`Block::emptied`].
    pub emptied: Vec<u16>,
    /// The system-call tracepoint whose fields `args` means.
    pub event: Option<super::program::SystemCall>,
    /// The structure of the tracepoint's record, whose fields `args` means.
    pub record: Option<super::types::CType>,
    /// The arguments are those of a tracepoint's functions. The first one, the private data pointer, does not count.
    pub is_raw: bool,
}

/// The kinds of attach point that a block has.
#[derive(Clone, Copy, Default)]
pub(super) struct Kinds {
    /// Whether the block has points at an instruction, where a function's arguments may be read.
    pub entries: bool,
    /// Whether it has points at a function's return, where its result may be read.
    pub returns: bool,
    /// Whether it has points that are neither: BEGIN, END, timers, watchpoints and tracepoints with a record.
    pub others: bool,
    /// Whether it has points with typed arguments: fentry and fexit.
    pub typed: bool,
}

/// One macro expansion: the arguments, and the suffix that keeps its local variables apart.
pub(super) struct Frame {
    /// The caller's variable for each `$parameter`.
    pub variables: BTreeMap<String, String>,
    /// The caller's map for each `@parameter`.
    pub maps: BTreeMap<String, String>,
    /// The argument expressions: the call's arguments, the number of this one, and the number of frames that were open where it
    /// was written.
    pub expressions: BTreeMap<String, (Arc<[ast::Expr]>, usize, usize)>,
    /// A number that no other expansion has. A local variable `$x` of the macro is named `x#suffix`.
    pub suffix: u32,
}

/// The compiler of one script. The files `values`, `statements`, `points` and others add methods to it.
pub(super) struct Compiler<'a> {
    /// The syntax tree of the script.
    pub ast: &'a Ast,
    /// The guest's symbols, types, tracepoints and files.
    pub knowledge: &'a dyn Knowledge,
    pub options: &'a Options,
    /// The C types of the script and of the guest.
    pub known: Known<'a>,
    /// The names of the maps, with `@`. A map's number is its index here and in `facts`.
    pub maps: Vec<String>,
    pub map_numbers: BTreeMap<String, u16>,
    /// The inferred types of the maps. The passes end when one leaves this unchanged.
    pub facts: Vec<MapTypes>,
    /// The errors of the present pass.
    pub errors: Vec<ScriptError>,
    /// The warnings of the present pass.
    pub warnings: Vec<ScriptError>,
    /// The block that is being compiled.
    pub block: Scope,
    /// The macros that are being expanded, innermost last.
    pub frames: Vec<Frame>,
    /// The layouts of copied structures and arrays. `None` for one that is not copied.
    pub shapes: RefCell<BTreeMap<CType, Option<Arc<Shape>>>>,
    /// The number of macro expansions in all passes, from which each expansion gets its suffix.
    pub macros: u32,
    /// The number of macro expansions in this pass.
    pub expanded: u32,
    /// The recursion depth of the compiler.
    pub level: u32,
    /// The largest number of variables of a block.
    pub most_variables: u16,
    /// The setting `max_strlen`: the size of strings that `str` reads, in bytes, with the terminating 0.
    pub longest_text: u32,
    /// The setting `str_trunc_trailer`: the text that is printed after a truncated string.
    trailer: String,
    /// The setting `stack_mode`: the form of `kstack` and `ustack`.
    pub stack_form: StackForm,
    /// Whether the script prints names of addresses in user programs, so that the guest's mappings must be followed.
    pub names_programs: bool,
    /// The setting `max_probes`: the limit on `found_points`.
    most_points: u64,
    /// The setting `max_map_keys`: the default limit on the keys of a map. 0 means `MOST_KEYS` of `map`.
    limit: u64,
    /// The setting `print_maps_on_exit`.
    prints_maps: bool,
    /// The setting `missing_probes`.
    missing: Missing,
    /// The budget for parsing and compiling the script.
    pub(super) budget: &'a Budget,
    /// The value of [`Types::work`] up to which the budget has been charged.
    charged_types: Cell<u64>,
    /// Macros by their names.
    pub by_name: BTreeMap<&'a str, &'a ast::Macro>,
    /// The resolved attach points of each probe, kept from the first pass.
    points: Vec<Option<Vec<Point>>>,
    /// The number of resolved attach points.
    found_points: u64,
    /// The number of resolved `interval` and `profile` points.
    clocks: usize,
    /// The number of attach points that count their hits.
    counters: u32,
    /// Errors of resolving attach points. Each later pass starts with these, because it does not resolve them again.
    point_errors: Vec<ScriptError>,
    point_warnings: Vec<ScriptError>,
}

/// The largest number of maps, and of variables in a block. Each has a 16-bit number.
const MOST_NAMES: usize = 65_534;

/// The largest number of passes. Each pass but the last changes the types of at least one map.
const MOST_ROUNDS: usize = 20;

impl<'a> Compiler<'a> {
    /// Applies the script's `config` block and then the settings of the options, which override it. Fails with all settings
    /// that are wrong.
    fn settings(&mut self) -> Result<(), Vec<ScriptError>> {
        let mut errors = Vec::new();
        let ast = self.ast;
        for (name, at, value) in &ast.settings {
            if let Err(why) = self.setting(name, value) {
                errors.push(at.error(why));
            }
        }
        for (name, value) in &self.options.settings {
            let value = match (value.as_str(), super::lex::time(value)) {
                ("true", _) => Setting::Number(1),
                ("false", _) => Setting::Number(0),
                (_, Some(number)) => Setting::Number(number),
                (text, None) => Setting::Text(text.into()),
            };
            if let Err(why) = self.setting(name, &value) {
                errors.push(Span::default().error(format!("{why} (BPFTRACE_{} of the environment)", name.to_uppercase())));
            }
        }
        if errors.is_empty() { Ok(()) } else { Err(errors) }
    }

    /// Applies one setting. Settings of bpftrace that have no effect here are accepted. Fails with a sentence.
    fn setting(&mut self, name: &str, value: &Setting) -> Result<(), String> {
        match (name, value) {
            ("max_strlen", Setting::Number(number)) => self.longest_text = (*number).clamp(1, 65_536) as u32,
            ("max_map_keys", Setting::Number(number)) => self.limit = *number,
            ("max_probes", Setting::Number(number)) => self.most_points = (*number).min(MOST_POINTS_EVER),
            ("print_maps_on_exit", Setting::Number(number)) => self.prints_maps = *number != 0,
            ("str_trunc_trailer", Setting::Text(text)) => self.trailer = text.clone(),
            ("str_trunc_trailer", Setting::Number(number)) => self.trailer = format!("{number}"),
            ("stack_mode", Setting::Text(mode)) => {
                self.stack_form = StackForm::named(mode).ok_or("stack_mode is bpftrace, perf, raw or build_id")?;
            }
            ("missing_probes", Setting::Text(what)) => {
                self.missing = match what.as_str() {
                    "warn" => Missing::Warn,
                    "ignore" => Missing::Ignore,
                    "error" => Missing::Error,
                    _ => return Err("missing_probes is warn, ignore or error".into()),
                }
            }
            (
                "license" | "log_size" | "perf_rb_pages" | "on_stack_limit" | "cache_user_symbols" | "lazy_symbolication"
                | "show_debug_info" | "cpp_demangle",
                _,
            ) => {}
            (name, _) if name.starts_with("unstable_") => {}
            (name, _) => {
                return Err(format!(
                    "there is no setting '{name}' with such a value: max_strlen, max_map_keys, max_probes, missing_probes, print_maps_on_exit, stack_mode and str_trunc_trailer are honoured"
                ));
            }
        }
        Ok(())
    }

    /// Compiles all probes, pass after pass, until the types of the maps no longer change. Only the errors of the last pass
    /// count: an earlier one may have failed because it did not yet know the type of a map.
    fn program(&mut self, knowledge: &dyn Knowledge) -> Result<Program, Vec<ScriptError>> {
        let mut before = Vec::new();
        for _ in 0..MOST_ROUNDS {
            before.clone_from(&self.facts);
            self.errors.clone_from(&self.point_errors);
            self.warnings.clone_from(&self.point_warnings);
            self.expanded = 0;
            let ast = self.ast;
            let mut blocks: Vec<Block> = Vec::new();
            for (number, probe) in ast.probes.iter().enumerate() {
                blocks.extend(self.probe(number, probe));
                if self.is_hopeless() {
                    break;
                }
            }
            if self.facts != before && !self.is_hopeless() {
                continue;
            }
            for (name, facts) in self.maps.iter().zip(&self.facts) {
                if !facts.is_assigned && self.errors.is_empty() {
                    self.errors.push(facts.first.error(format!("Undefined map: {name}: nothing is ever assigned to it")));
                }
            }
            if self.maps.len() > MOST_NAMES || self.most_variables == u16::MAX {
                self.errors.push(Span::default().error("a script has at most 65,534 maps, and a block as many variables"));
            }
            if self.ast.probes.is_empty() {
                self.errors
                    .push(Span::default().error("this script has no probe: write one, such as kprobe:vfs_read { @ = count() }"));
            }
            if self.budget.is_spent() && self.errors.is_empty() {
                self.errors.push(Span::default().error(TOO_MUCH));
            }
            if !self.errors.is_empty() {
                return Err(core::mem::take(&mut self.errors));
            }
            let own: BTreeMap<&str, &ast::MapKind> = ast.maps.iter().rev().map(|map| (map.name.as_str(), map)).collect();
            let maps = self.maps.iter().zip(&self.facts).map(|(name, facts)| {
                let own = name.strip_prefix('@').and_then(|name| own.get(name));
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
                trailer: core::mem::take(&mut self.trailer).into_bytes().into(),
                warns_of_reads: self.options.warns_of_reads,
                prints_maps: self.prints_maps,
                word: self.known.word,
                big_endian: knowledge.isa().order == ByteOrder::Big,
                names_programs: self.names_programs,
                warnings: core::mem::take(&mut self.warnings),
            });
        }
        Err(alloc::vec![self.unsettled(&before)])
    }

    /// The error for maps whose types still change in the last pass. `before` has the types that the pass began with.
    fn unsettled(&self, before: &[MapTypes]) -> ScriptError {
        let changes =
            self.facts.iter().zip(&self.maps).enumerate().find(|(number, (facts, _))| before.get(*number) != Some(*facts));
        let (facts, name) = changes.map_or((None, "a map"), |(_, (facts, name))| (Some(facts), name.as_str()));
        facts.map_or(Span::default(), |facts| facts.first).error(format!(
            "the type of {name} is not settled after {MOST_ROUNDS} passes over the script, because maps are read above the lines that assign to them: assign to {name} above the first line that reads it, such as in BEGIN"
        ))
    }

    /// Compiles a probe: one block for all its functions, and one for each of its tracepoints, because their fields
    /// have different offsets.
    fn probe(&mut self, number: usize, probe: &ast::Probe) -> Vec<Block> {
        let points = match self.points[number].clone() {
            Some(points) => points,
            None => {
                let (errors, warnings) = (self.errors.len(), self.warnings.len());
                let points = self.all_points(probe);
                self.point_errors.extend_from_slice(&self.errors[errors..]);
                self.point_warnings.extend_from_slice(&self.warnings[warnings..]);
                self.points[number] = Some(points.clone());
                points
            }
        };
        if points.is_empty() && self.errors.is_empty() && self.missing == Missing::Error {
            self.wrong(probe.points[0].at.error("none of these attach points exists in this guest"));
        }
        let (events, functions): (Vec<Point>, Vec<Point>) = points.into_iter().partition(|point| {
            point.event.is_some() || matches!(point.kind, PointKind::Tracepoint(_) | PointKind::RawTracepoint(_))
        });
        // The process filter holds for a whole block, so points of no process get a block of their own beside others.
        let (functions, of_nobody): (Vec<Point>, Vec<Point>) =
            functions.into_iter().partition(|point| self.options.process.is_none() || point.is_somebodys());
        let has_others = !events.is_empty() || !of_nobody.is_empty();
        let groups = core::iter::once(functions).filter(|functions| !functions.is_empty() || !has_others);
        let groups = groups.chain(core::iter::once(of_nobody).filter(|points| !points.is_empty()));
        let groups: Vec<Vec<Point>> = groups.chain(events.iter().map(|event| alloc::vec![event.clone()])).collect();
        groups.into_iter().map(|points| self.block(points, probe)).collect()
    }

    /// Resolves the attach points of a probe in this guest.
    fn all_points(&mut self, probe: &ast::Probe) -> Vec<Point> {
        let mut points: Vec<Point> = Vec::new();
        for point in &probe.points {
            let is_pattern = point.parts.iter().any(|(part, _)| part.contains('*'));
            let names = if is_pattern { self.knowledge.names() / NAMES_A_STEP } else { 0 };
            let points_of = |compiler: &mut Self| {
                compiler.charge(names, point.at)?;
                compiler.points(point)
            };
            match points_of(self) {
                Ok(found) if found.is_empty() => self.is_missing(point, probe.points.len() == 1),
                Ok(found) => {
                    self.found_points = self.found_points.saturating_add(found.len() as u64);
                    if self.found_points > self.most_points {
                        let most = self.most_points;
                        self.wrong(point.at.error(format!(
                            "this script has more than {most} probes, which is its max_probes: write narrower patterns, or a greater max_probes"
                        )));
                        return points;
                    }
                    let is_clock = |point: &&Point| matches!(point.kind, PointKind::Interval(_) | PointKind::Profile(_));
                    self.clocks += found.iter().filter(is_clock).count();
                    if self.clocks > MOST_CLOCKS {
                        self.wrong(point.at.error("a script has at most 1,024 clocks (interval and profile): take some away"));
                        return points;
                    }
                    for mut point in found {
                        if point.counts_hits() {
                            point.counter = self.counters;
                            self.counters += 1;
                        }
                        points.push(point);
                    }
                }
                Err(error) => self.wrong(error),
            }
            if self.is_hopeless() {
                break;
            }
        }
        points
    }

    /// Notes an error. The blocks of several tracepoints have the same errors, and each is noted once.
    pub(super) fn wrong(&mut self, error: ScriptError) {
        if self.errors.len() < MOST_ERRORS && !self.errors.contains(&error) {
            self.errors.push(error);
        }
    }

    /// Whether compiling should stop: there are too many errors, or the budget is spent.
    pub(super) fn is_hopeless(&self) -> bool {
        self.errors.len() >= MOST_ERRORS || self.budget.is_spent()
    }

    /// Charges the budget for work on a part of the script, and for the look-ups of types since the last charge.
    pub(super) fn charge(&self, steps: u64, at: Span) -> Result<(), ScriptError> {
        let work = self.knowledge.types().map_or(0, Types::work);
        let new = work.saturating_sub(self.charged_types.replace(work));
        self.budget.charge(steps.saturating_add(new / TYPE_WORK_A_STEP)).map_err(|_| at.error(TOO_MUCH))
    }

    /// Notes an error or a warning for an attach point that this guest does not have. `is_alone`: it is the only attach point
    /// of its probe.
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
            // A pattern without a match, or a system call that this architecture lacks, is an error only if it stands
            // alone.
            Missing::Error if is_alone || !name.contains('*') && !is_event && !self.options.old => self.wrong(no),
            Missing::Ignore => {}
            _ if self.warnings.len() < MOST_ERRORS => self.warnings.push(no),
            _ => {}
        }
    }

    /// Compiles the filter and the body of a probe for these attach points, which share the resulting block.
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
                PointKind::User(path, place, returns) => {
                    (kinds.entries, kinds.returns) = (kinds.entries || !returns, kinds.returns || *returns);
                    self.block.program.get_or_insert_with(|| path.clone());
                    if let Place::Symbol(name, _) = place {
                        self.block.function.get_or_insert_with(|| name.clone());
                    }
                }
                PointKind::Usdt(path, usdt) => {
                    kinds.entries = true;
                    self.block.program.get_or_insert_with(|| path.clone());
                    self.block.usdt.push((point.name.clone(), Arc::clone(usdt)));
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
                PointKind::Begin
                | PointKind::End
                | PointKind::Interval(_)
                | PointKind::Profile(_)
                | PointKind::Watchpoint(_)
                | PointKind::WatchObject { .. } => kinds.others = true,
            }
            self.block.kinds.typed |= point.is_typed;
            self.block.event = point.event.clone();
        }
        let filter = match &probe.filter {
            None => None,
            Some(filter) => match self.passed_over(|compiler| compiler.number(filter)) {
                Ok((num, _)) => Some(num),
                Err(error) => {
                    self.wrong(error);
                    None
                }
            },
        };
        let is_somebodys = points.iter().all(Point::is_somebodys);
        let filter = match (self.options.process.filter(|_| is_somebodys), filter) {
            (None, filter) => filter,
            (Some(process), filter) => {
                let is_its = fold(Op::Equal, Num::Tgid, Num::Const(process.into()));
                Some(match filter {
                    None => is_its,
                    Some(filter) => Num::And(alloc::boxed::Box::new([is_its, filter])),
                })
            }
        };
        let body = self.acts(&probe.body);
        self.most_variables = self.most_variables.max(self.block.count);
        let counts_hits = points.iter().any(Point::counts_hits);
        let emptied = core::mem::take(&mut self.block.emptied).into();
        Block { points, filter, counts_hits, body, emptied, overrides: self.block.overrides }
    }
}
