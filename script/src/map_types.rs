//! Infers the types of maps, their keys and their values, and expands macros, whose parameters may be maps.

use super::ast::{self, Parameter};
use super::compile::{Compiler, Frame, MapTypes};
use super::error::{ScriptError, Span};
use super::program::Key;
use super::types::Type;
use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// The largest number of macro expansions in a script, nested ones included.
const MOST_EXPANDED: u32 = 100_000;

impl<'a> Compiler<'a> {
    /// The number of a map. A new name gets the next number. Inside a macro, a parameter means the caller's map.
    pub fn map(&mut self, name: &str, at: Span) -> u16 {
        let name = self.frames.last().and_then(|frame| frame.maps.get(name)).map_or(name, String::as_str);
        let name = format!("@{name}");
        if let Some(number) = self.map_numbers.get(&name) {
            return *number;
        }
        // A map without a number causes an error at the end of the pass.
        let number = u16::try_from(self.maps.len()).unwrap_or(u16::MAX);
        if number == u16::MAX && self.maps.len() > usize::from(u16::MAX) {
            return number;
        }
        self.map_numbers.insert(name.clone(), number);
        self.maps.push(name);
        self.facts.push(MapTypes { first: at, ..MapTypes::default() });
        number
    }

    /// Compiles a key. Its types become those of the map, or must agree with them.
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
                    widen(known, &kind);
                }
            }
        }
        Ok(parts.into())
    }

    /// Learns the type of a map's values from an assignment.
    pub fn learn_value(&mut self, map: u16, kind: Type, at: Span) -> Result<(), ScriptError> {
        let name = self.maps[usize::from(map)].clone();
        let facts = &mut self.facts[usize::from(map)];
        facts.is_assigned = true;
        let kind = match kind {
            Type::Int(_, signed) => Type::Int(8, signed),
            Type::None => return Err(at.error("this has no value that could be kept in a map")),
            kind => kind,
        };
        if let (Some(Type::Aggregate(known)), Type::Aggregate(more)) = (&mut facts.value, &kind)
            && core::mem::discriminant(known) == core::mem::discriminant(more)
        {
            return known.join(*more).map_err(|why| at.error(why));
        }
        match &mut facts.value {
            None => facts.value = Some(kind),
            Some(known) if known.is_integer() && kind.is_integer() => widen(known, &kind),
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

    /// Starts the expansion of a macro: pushes a frame with the arguments and returns the body. `None` if there is no
    /// such macro.
    pub fn enter_macro(
        &mut self,
        name: &str,
        arguments: &Arc<[ast::Expr]>,
        at: Span,
    ) -> Result<Option<&'a ast::Block>, ScriptError> {
        let Some(found) = self.by_name.get(name).copied() else { return Ok(None) };
        if found.parameters.len() != arguments.len() {
            return Err(at.error(format!("{name}() takes {} arguments, not {}", found.parameters.len(), arguments.len())));
        }
        if self.frames.len() > 50 {
            return Err(at.error(format!("the macro {name} comes back to itself")));
        }
        self.macros = self.macros.wrapping_add(1);
        self.expanded = self.expanded.saturating_add(1);
        if self.expanded > MOST_EXPANDED {
            return Err(at.error(format!(
                "the macros of this script come to more than {MOST_EXPANDED} of them: put values into variables"
            )));
        }
        let mut frame =
            Frame { variables: BTreeMap::new(), maps: BTreeMap::new(), expressions: BTreeMap::new(), suffix: self.macros };
        for (number, (parameter, argument)) in found.parameters.iter().zip(arguments.iter()).enumerate() {
            match (parameter, &argument.kind) {
                (Parameter::Variable(name), ast::Kind::Variable(given)) => {
                    frame.variables.insert(name.clone(), self.variable_name(given));
                }
                (Parameter::Map(name), ast::Kind::Map(given, keys)) if keys.is_empty() => {
                    let given = self.frames.last().and_then(|frame| frame.maps.get(given)).unwrap_or(given).clone();
                    frame.maps.insert(name.clone(), given);
                }
                (Parameter::Expression(name), _) => {
                    frame.expressions.insert(name.clone(), (Arc::clone(arguments), number, self.frames.len()));
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

/// Widens a type so that it holds both. Integers of different enums lose their names.
fn widen(known: &mut Type, more: &Type) {
    if known != more && known.is_integer() && more.is_integer() {
        *known = Type::Int(8, known.is_signed() || more.is_signed());
    }
}

/// Whether values of both types may be in one map.
pub(super) fn agree(one: &Type, other: &Type) -> bool {
    match (one, other) {
        (one, other) if one.is_integer() && other.is_integer() => true,
        (Type::Pointer(_), other) | (other, Type::Pointer(_)) if other.is_integer() => true,
        (Type::Text(_) | Type::Buffer, Type::Text(_) | Type::Buffer) => true,
        (Type::Tuple(one), Type::Tuple(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| agree(one, other))
        }
        (Type::Record(one), Type::Record(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|((is, one), (name, other))| is == name && agree(one, other))
        }
        (Type::Stack(_), Type::Stack(_)) => true,
        (Type::Held(one), Type::Held(other)) => one == other,
        (Type::Aggregate(one), Type::Aggregate(other)) => one == other,
        (one, other) => core::mem::discriminant(one) == core::mem::discriminant(other),
    }
}
