//! Compiles a script to a [`Program`]: resolves names, infers types and expands attach points. Expressions are compiled
//! in `values`, calls in `calls`.
//!
//! A map may be read before the line that assigns to it. So the compiler repeats the whole pass over the script until a
//! pass changes no map type (a fixed point), at most `MOST_ROUNDS` times. Attach points are resolved in the first pass
//! only, because that is the expensive part.

mod blocks;
mod knowledge;
mod scope;
mod settings;

pub use knowledge::{Knowledge, Options};
pub(super) use scope::{Frame, MapTypes, Scope};

use super::ast::{self, Ast};
use super::error::{ScriptError, Span};
use super::known::{Known, Unlaid};
use super::lex::TOO_MUCH;
use super::program::{Block, MapFacts, Point, Program};
use super::shape::Shape;
use super::types::{CType, StackForm, Type, Types};
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use settings::Missing;
use trapline_isa::mem::ByteOrder;
use trapline_probes::budget::Budget;

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
    compiler.program()
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

/// The compiler of one script. The files beside and below this one add methods to it.
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
    /// Compiles all probes, pass after pass, until the types of the maps no longer change. Only the errors of the last pass
    /// count: an earlier one may have failed because it did not yet know the type of a map.
    fn program(&mut self) -> Result<Program, Vec<ScriptError>> {
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
            self.check()?;
            return Ok(self.finish(blocks));
        }
        Err(alloc::vec![self.unsettled(&before)])
    }

    /// Fails with the errors of the last pass, and with those that only the whole script shows.
    fn check(&mut self) -> Result<(), Vec<ScriptError>> {
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
        if self.errors.is_empty() { Ok(()) } else { Err(core::mem::take(&mut self.errors)) }
    }

    /// Makes the program of these blocks and of the maps and settings.
    fn finish(&mut self, blocks: Vec<Block>) -> Program {
        let own: BTreeMap<&str, &ast::MapKind> = self.ast.maps.iter().rev().map(|map| (map.name.as_str(), map)).collect();
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
        Program {
            blocks,
            maps: maps.collect(),
            variables: self.most_variables.into(),
            longest_text: self.longest_text,
            trailer: core::mem::take(&mut self.trailer).into_bytes().into(),
            warns_of_reads: self.options.warns_of_reads,
            prints_maps: self.prints_maps,
            word: self.known.word,
            big_endian: self.knowledge.isa().order == ByteOrder::Big,
            names_programs: self.names_programs,
            warnings: core::mem::take(&mut self.warnings),
        }
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
}
