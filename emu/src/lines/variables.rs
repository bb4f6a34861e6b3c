//! The variables in scope at an address, and where each lies.

use super::chains::Chain;
use super::error::{Answer, LinesError};
use super::locations::{Location, Missing};
use super::places::Spot;
use super::scopes::{Kind, Scopes};
use super::units::{Info, Place};
use gimli::constants as c;
use std::ops::Range;
use std::rc::Rc;
use trapline_script::types::{CType, Types};

/// A variable at an address.
#[derive(Clone, Debug)]
pub struct Variable {
    /// The name in the source.
    pub name: String,
    /// The name of its type in C.
    pub type_name: String,
    /// The type, as scripts and fetch arguments need it.
    pub kind: CType,
    /// Its place, or the reason why it has none.
    pub place: Result<Location, Missing>,
    /// The function that declares it.
    pub function: Rc<str>,
    /// Whether it is a parameter.
    pub is_parameter: bool,
    /// The addresses of the function's code that is around it.
    pub start: u64,
}

impl Variable {
    /// The sentence that says why it cannot be fetched.
    pub fn why(&self, missing: &Missing) -> String {
        let offset = |address: &u64| format!("{:+}", address.wrapping_sub(self.start) as i64);
        match missing {
            Missing::Here(known) if known.is_empty() => "optimized out everywhere".into(),
            Missing::Here(known) => {
                let ranges: Vec<String> =
                    known.iter().take(4).map(|Range { start, end }| format!("{}..{}", offset(start), offset(end))).collect();
                let more = if known.len() > 4 { ", ..." } else { "" };
                format!("optimized out here; known at {}{more}", ranges.join(", "))
            }
            Missing::AtEntry => "only its value at the function's entry is known here: fetch it by a probe there".into(),
            Missing::NoForm(why) => (*why).into(),
        }
    }
}

impl Info<'_> {
    /// The variables of a spot's function that are in scope, innermost first; those of calls inlined there, too.
    pub fn variables(&self, spot: &Spot) -> Answer<Vec<Variable>> {
        self.begin();
        let unit = self.unit(spot.scope.0)?;
        let scopes = self.scopes(&unit)?;
        let chain = self.chain_at(&scopes, spot);
        let mut variables = Vec::new();
        for number in chain {
            for place in scopes.all.get(number as usize).map_or(&[][..], |scope| &scope.variables) {
                if let Some(variable) = self.variable_in(&scopes, number, *place, spot.address)? {
                    variables.push(variable);
                }
            }
        }
        Ok(variables)
    }

    /// The scopes from the innermost one at a spot's address to the spot's own.
    fn chain_at(&self, scopes: &Scopes, spot: &Spot) -> Vec<u32> {
        let mut chain = scopes.at(spot.address);
        match chain.iter().position(|number| *number == spot.scope.1) {
            Some(own) => drop(chain.drain(..own)),
            None => chain = vec![spot.scope.1],
        }
        chain.reverse();
        chain
    }

    fn variable_in(&self, scopes: &Scopes, number: u32, place: Place, address: u64) -> Answer<Option<Variable>> {
        let name = self.name(place)?;
        if name.is_empty() {
            return Ok(None);
        }
        let around = scopes.chain(number);
        let of = |number: &&u32| scopes.all.get(**number as usize).filter(|scope| scope.kind != Kind::Block);
        let function =
            around.iter().rev().find_map(|number| of(&number)).map_or_else(|| "".into(), |scope| Rc::clone(&scope.name));
        let frame = around.iter().find_map(|number| of(&number).filter(|scope| scope.kind == Kind::Function));
        let (frame, entry) = frame.map_or((place, u64::MAX), |scope| (scope.entry, scope.start));
        let (_, parsed) = self.entry(place)?;
        Ok(Some(Variable {
            name,
            type_name: self.type_name_of(place)?,
            kind: self.type_of(place)?,
            place: self.location(place, address, frame, entry)?,
            function,
            is_parameter: parsed.tag() == c::DW_TAG_formal_parameter,
            start: entry,
        }))
    }

    /// The variables of that name outside of functions, in the source file of a spot and the headers that it includes.
    fn outside_functions(&self, spot: &Spot, name: &str) -> Answer<Vec<Variable>> {
        let unit = self.unit(spot.scope.0)?;
        let mut entries = unit.unit.entries();
        let mut found = Vec::new();
        if entries.next_dfs()?.is_none() || entries.next_dfs()?.is_none() {
            return Ok(found);
        }
        while let Some(entry) = entries.current() {
            self.charge(1)?;
            let place = Place { unit: unit.number, at: entry.offset().0 };
            if entry.tag() == c::DW_TAG_variable && self.name(place)? == name {
                let is_elsewhere = entry.attr_value(c::DW_AT_declaration).is_some();
                // A variable of another source file is known by its symbol.
                let location = match is_elsewhere && entry.attr_value(c::DW_AT_external).is_some() {
                    true => Ok(Location::at_symbol(name)),
                    false => self.location(place, spot.address, place, u64::MAX)?,
                };
                let (type_name, kind) = (self.type_name_of(place)?, self.type_of(place)?);
                let function = Rc::from("");
                let variable = Variable {
                    name: name.into(),
                    type_name,
                    kind,
                    place: location,
                    function,
                    is_parameter: false,
                    start: u64::MAX,
                };
                // The definition says more than the declaration in front of it.
                found.insert(if is_elsewhere { found.len() } else { 0 }, variable);
            }
            if entries.next_sibling()?.is_none() {
                break;
            }
        }
        Ok(found)
    }

    /// The fetch argument of a chain at a spot: the innermost variable of that name that has a place, or one outside of
    /// functions.
    pub fn fetch(&self, spot: &Spot, chain: &Chain) -> Answer<String> {
        let mut variables = self.variables(spot)?;
        if variables.iter().all(|variable| variable.name != chain.variable) {
            variables.extend(self.outside_functions(spot, &chain.variable)?);
        }
        let mut named = variables.iter().filter(|variable| variable.name == chain.variable);
        let Some(first) = named.clone().find(|variable| variable.place.is_ok()).or_else(|| named.next()) else {
            let mut known: Vec<&str> = variables.iter().map(|variable| variable.name.as_str()).collect();
            known.sort_unstable();
            known.dedup();
            let known = if known.is_empty() { "none is".to_string() } else { known.join(", ") };
            return Err(LinesError::Variable(format!(
                "no variable `{}` is in scope in `{}` here; in scope: {known}",
                chain.variable, spot.function
            )));
        };
        match &first.place {
            Ok(place) => chain.fetch(self as &dyn Types, self.file.arch.isa(), place.clone(), first.kind.clone()),
            Err(missing) => Err(LinesError::Variable(format!("`{}`: {}", chain.variable, first.why(missing)))),
        }
    }
}
