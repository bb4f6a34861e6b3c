//! Functions, inlined calls and blocks of a unit, with the addresses of their code: which calls were inlined at an
//! address, and where the instances of a function are.

use super::error::Answer;
use super::units::{Entry, Info, Place, Unit};
use gimli::{AttributeValue, constants as c};
use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;

/// The kind of a scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A function's own code (`DW_TAG_subprogram`).
    Function,
    /// A call that was inlined.
    Inlined,
    /// A block of a function.
    Block,
}

/// A scope with code.
#[derive(Clone, Debug)]
pub struct Scope {
    /// The kind, by the entry's tag.
    pub kind: Kind,
    /// The scope around it, by number.
    pub parent: Option<u32>,
    /// The place of its DIE in the debug information.
    pub entry: Place,
    /// The function's name; empty for a block.
    pub name: Rc<str>,
    /// The addresses of its code.
    pub ranges: Vec<Range<u64>>,
    /// The address where it begins.
    pub start: u64,
    /// The place of the inlined call: the file's number and the line.
    pub call: (u32, u32),
    /// Its parameters and variables.
    pub variables: Vec<Place>,
    depth: u32,
}

impl Scope {
    /// Whether it has code at an address.
    pub fn holds(&self, address: u64) -> bool {
        self.ranges.iter().any(|range| range.contains(&address))
    }
}

/// All scopes of a unit, each behind the scope around it.
#[derive(Debug, Default)]
pub struct Scopes {
    /// The scopes.
    pub all: Vec<Scope>,
}

impl Scopes {
    /// The scopes at an address, outermost first.
    pub fn at(&self, address: u64) -> Vec<u32> {
        let deepest = (0..self.all.len()).filter(|number| self.all[*number].holds(address));
        let Some(innermost) = deepest.max_by_key(|number| self.all[*number].depth) else { return Vec::new() };
        self.chain(innermost as u32)
    }

    /// A scope and the scopes around it, outermost first.
    pub fn chain(&self, number: u32) -> Vec<u32> {
        let mut chain = vec![number];
        while let Some(parent) = chain.last().and_then(|last| self.all.get(*last as usize)).and_then(|scope| scope.parent) {
            chain.push(parent);
        }
        chain.reverse();
        chain
    }
}

/// A frame of a backtrace: a function, or a call that was inlined into the next frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The name of the function; empty if no unit covers the address.
    pub function: Rc<str>,
    /// The source file.
    pub file: Rc<str>,
    /// The source line; 0 if it is not known.
    pub line: u32,
    /// Whether the call was inlined.
    pub inlined: bool,
}

impl<'a> Info<'a> {
    /// The scopes of a unit.
    pub(super) fn scopes(&self, unit: &Unit<'a>) -> Answer<Rc<Scopes>> {
        if let Some(scopes) = unit.scopes.get() {
            return Ok(Rc::clone(scopes));
        }
        let scopes = Rc::new(self.read_scopes(unit)?);
        Ok(Rc::clone(unit.scopes.get_or_init(|| scopes)))
    }

    fn read_scopes(&self, unit: &Unit<'a>) -> Answer<Scopes> {
        let mut scopes = Scopes::default();
        let mut names: HashMap<Place, Rc<str>> = HashMap::new();
        // The entries around the current one: their depth, and the scope that their children belong to.
        let mut around: Vec<(isize, Option<u32>)> = Vec::new();
        let mut entries = unit.unit.entries();
        while let Some(entry) = entries.next_dfs()? {
            self.charge(1)?;
            let depth = entry.depth();
            while around.last().is_some_and(|(outer, _)| *outer >= depth) {
                around.pop();
            }
            let parent = around.last().and_then(|(_, scope)| *scope);
            let place = Place { unit: unit.number, at: entry.offset().0 };
            let kind = match entry.tag() {
                c::DW_TAG_subprogram => Kind::Function,
                c::DW_TAG_inlined_subroutine => Kind::Inlined,
                c::DW_TAG_lexical_block => Kind::Block,
                c::DW_TAG_formal_parameter | c::DW_TAG_variable => {
                    if let Some(scope) = parent.and_then(|parent| scopes.all.get_mut(parent as usize)) {
                        scope.variables.push(place);
                    }
                    continue;
                }
                _ => {
                    if entry.has_children() {
                        around.push((depth, None));
                    }
                    continue;
                }
            };
            let ranges = self.ranges_of(unit, entry)?;
            if ranges.is_empty() {
                // A block without addresses is transparent; a function without them is declared, or only inlined.
                around.push((depth, if kind == Kind::Block { parent } else { None }));
                continue;
            }
            let start = self.start_of(unit, entry, ranges[0].start)?;
            let name = self.scope_name(unit, entry, kind, &mut names)?;
            let file = match entry.attr_value(c::DW_AT_call_file) {
                Some(AttributeValue::FileIndex(file)) => file,
                Some(value) => value.udata_value().unwrap_or(0),
                None => 0,
            };
            let line = entry.attr_value(c::DW_AT_call_line).and_then(|line| line.udata_value()).unwrap_or(0);
            let number = scopes.all.len() as u32;
            let outer = parent.and_then(|parent| scopes.all.get(parent as usize)).map_or(0, |outer| outer.depth + 1);
            scopes.all.push(Scope {
                kind,
                parent,
                entry: place,
                name,
                ranges,
                start,
                call: (u32::try_from(file).unwrap_or(u32::MAX), u32::try_from(line).unwrap_or(0)),
                variables: Vec::new(),
                depth: outer,
            });
            around.push((depth, Some(number)));
        }
        Ok(scopes)
    }

    /// The first instruction of a scope whose lowest range begins at `first`.
    fn start_of(&self, unit: &Unit<'a>, entry: &Entry<'a>, first: u64) -> Answer<u64> {
        Ok(match entry.attr_value(c::DW_AT_entry_pc) {
            Some(AttributeValue::Udata(offset)) => first.saturating_add(offset),
            Some(value) => self.reference(unit).attr_address(value)?.unwrap_or(first),
            None => match entry.attr_value(c::DW_AT_low_pc) {
                Some(value) => self.reference(unit).attr_address(value)?.unwrap_or(first),
                None => first,
            },
        })
    }

    /// The name of a scope. Names of functions that are inlined in many places are kept in `names`.
    fn scope_name(&self, unit: &Unit<'a>, entry: &Entry<'a>, kind: Kind, names: &mut HashMap<Place, Rc<str>>) -> Answer<Rc<str>> {
        Ok(match (kind, entry.attr_value(c::DW_AT_name), entry.attr_value(c::DW_AT_abstract_origin)) {
            (Kind::Block, ..) => "".into(),
            (_, Some(name), _) => self.text(unit, name)?.into(),
            (_, None, Some(origin)) => match self.target(unit.number, origin) {
                Some(origin) => match names.get(&origin) {
                    Some(name) => Rc::clone(name),
                    None => {
                        let name: Rc<str> = self.name(origin)?.into();
                        names.insert(origin, Rc::clone(&name));
                        name
                    }
                },
                None => "".into(),
            },
            _ => self.name(Place { unit: unit.number, at: entry.offset().0 })?.into(),
        })
    }

    /// The functions at an address, innermost first: inlined calls, and the function whose code it is. Empty if no unit
    /// has the address.
    pub fn frames(&self, address: u64) -> Answer<Vec<Frame>> {
        self.begin();
        let Some(unit) = self.unit_at(address)? else { return Ok(Vec::new()) };
        let (rows, scopes) = (self.rows(&unit)?, self.scopes(&unit)?);
        let Some(row) = rows.at(address) else { return Ok(Vec::new()) };
        let (mut file, mut line) = (rows.file(row.file), row.line);
        let mut frames = Vec::new();
        for number in scopes.at(address).into_iter().rev() {
            let Some(scope) = scopes.all.get(number as usize).filter(|scope| scope.kind != Kind::Block) else { continue };
            let inlined = scope.kind == Kind::Inlined;
            frames.push(Frame { function: Rc::clone(&scope.name), file: Rc::clone(&file), line, inlined });
            if inlined {
                (file, line) = (rows.file(scope.call.0), scope.call.1);
            }
        }
        if frames.is_empty() {
            frames.push(Frame { function: "".into(), file, line, inlined: false });
        }
        Ok(frames)
    }
}
