//! Places as `perf probe` writes them, `vfs_read:12`, `vfs_read@fs/read_write.c`, `fs/read_write.c:462`, and the
//! addresses that they have.

use super::error::{Answer, LinesError};
use super::rows::{Row, is_named};
use super::scopes::{Kind, Scopes};
use super::units::{Info, Place};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::rc::Rc;

/// A place by its text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// The function; empty for a line of a file.
    pub function: String,
    /// The source file.
    pub file: Option<String>,
    /// The line: of the file, or counted from the function's declaration.
    pub line: Option<u32>,
    /// The offset in bytes from the function's entry.
    pub offset: u64,
    /// Whether the place is the function's return.
    pub returns: bool,
}

impl Wanted {
    /// Parses `FUNCTION[@FILE][:LINE|+OFFSET|%return]` or `FILE:LINE`.
    pub fn parse(text: &str) -> Answer<Wanted> {
        let bad = |why: &str| {
            LinesError::Place(format!(
                "`{text}` is no place: {why}; places are FUNCTION, FUNCTION:LINE, FUNCTION+OFFSET, FUNCTION@FILE, FUNCTION%return and FILE:LINE"
            ))
        };
        let (place, returns) = match text.split_once('%') {
            Some((place, "return")) => (place, true),
            Some(_) => return Err(bad("only `%return` stands behind a `%`")),
            None => (text, false),
        };
        let (place, line) = match place.rsplit_once(':') {
            Some((place, line)) => (place, Some(line.parse::<u32>().map_err(|_| bad("a line is a number"))?)),
            None => (place, None),
        };
        let (place, offset) = match place.split_once('+') {
            Some((place, offset)) => (place, number(offset).ok_or_else(|| bad("an offset is a number of bytes"))?),
            None => (place, 0),
        };
        let (function, file) = match place.split_once('@') {
            Some((function, file)) => (function, Some(file)),
            None if place.contains('/') || [".c", ".h", ".S"].iter().any(|ending| place.ends_with(ending)) => ("", Some(place)),
            None => (place, None),
        };
        let is_name = |name: &str| {
            name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.'))
                && !name.starts_with(|first: char| first.is_ascii_digit())
        };
        match (function, file, line) {
            ("", None, _) => return Err(bad("a function or a file is missing")),
            (_, Some(""), _) => return Err(bad("the name of the file is missing")),
            ("", Some(_), None) => return Err(bad("the line of the file is missing")),
            _ if !is_name(function) => return Err(bad("a function's name has letters, digits, `_` and `.`")),
            _ if returns && (line.is_some() || offset != 0) => {
                return Err(bad("only a function returns, not a line or an offset"));
            }
            _ => {}
        }
        Ok(Wanted { function: function.into(), file: file.map(Into::into), line, offset, returns })
    }

    /// The name that an event at this place gets if it has none.
    pub fn event(&self) -> String {
        let stem = match (&*self.function, &self.file) {
            ("", Some(file)) => file.rsplit('/').next().unwrap_or(file),
            (function, _) => function,
        };
        let name: String = stem.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '_' }).collect();
        match (self.line, self.returns) {
            (Some(line), _) => format!("{name}_L{line}"),
            (None, true) => format!("{name}__return"),
            (None, false) => name,
        }
    }
}

fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// An address that a place has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spot {
    /// The address of the instruction to probe.
    pub address: u64,
    /// The scope whose variables a chain may name: its unit and its number there.
    pub(super) scope: (u32, u32),
    /// The function that the scope is an instance of.
    pub function: Rc<str>,
    /// Whether the function is inlined here.
    pub inlined: bool,
    /// Whether the address is the entry of a function that is called.
    pub is_entry: bool,
}

/// An instance of a function: its code, or a call that was inlined.
struct Instance {
    /// The number of its scope in the unit.
    number: u32,
    /// The file and the line of the function's declaration.
    file: Rc<str>,
    line: u32,
}

/// The scope of a statement of a function: the innermost instance around it. A statement without code of its own, such as
/// a `return`, may stand right behind an inlined call, in the code of the function that it was inlined into; then that is its
/// scope, as for perf. The line of such a statement lies between the declarations of this function and of the next one.
fn owner(scopes: &Scopes, instances: &[Instance], row: &Row, next: u32) -> Option<u32> {
    let chain = scopes.at(row.address);
    let is_instance = |number: &&u32| instances.iter().any(|instance| instance.number == **number);
    if let Some(around) = chain.iter().rev().find(is_instance) {
        return Some(*around);
    }
    let is_beside = instances
        .iter()
        .any(|instance| (instance.line..next).contains(&row.line) && scopes.chain(instance.number).first() == chain.first());
    let is_code = |number: &&u32| scopes.all.get(**number as usize).is_some_and(|scope| scope.kind != Kind::Block);
    chain.iter().rev().find(is_code).copied().filter(|_| is_beside)
}

/// A function's source: the file, the line of its declaration, and the statements of its lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The name of the function.
    pub function: Rc<str>,
    /// The source file.
    pub file: Rc<str>,
    /// The line of the declaration.
    pub line: u32,
    /// Each line with statements, and their addresses.
    pub lines: Vec<(u32, Vec<u64>)>,
}

impl Info<'_> {
    /// The addresses of a place, sorted. An error if it has none.
    pub fn spots(&self, wanted: &Wanted) -> Answer<Vec<Spot>> {
        self.begin();
        let mut spots = match (&*wanted.function, &wanted.file, wanted.line) {
            ("", Some(file), Some(line)) => self.spots_of_line(file, line)?,
            (_, _, Some(line)) => self.spots_in_function(wanted, line)?,
            _ => self.instances(wanted)?,
        };
        spots.sort_by_key(|spot| (spot.address, spot.scope));
        spots.dedup_by_key(|spot| spot.address);
        if wanted.returns {
            spots.retain(|spot| !spot.inlined);
        }
        if !spots.is_empty() {
            return Ok(spots);
        }
        let place = if wanted.function.is_empty() { wanted.file.as_deref().unwrap_or_default() } else { &wanted.function };
        Err(LinesError::Place(match wanted.line {
            Some(line) => format!(
                "no statement begins in line {line} of `{place}`: `trapline lines IMAGE FUNCTION` lists the lines that may be probed"
            ),
            None if wanted.returns => {
                format!("no function `{place}` that is called is in the debug information: an inlined one does not return")
            }
            None => format!("no function `{place}` is in the debug information"),
        }))
    }

    /// Each instance of a function: its own code, and the calls that were inlined.
    fn instances(&self, wanted: &Wanted) -> Answer<Vec<Spot>> {
        let mut spots = Vec::new();
        for number in self.units_with(&wanted.function)? {
            let unit = self.unit(number)?;
            let scopes = self.scopes(&unit)?;
            for (index, scope) in scopes.all.iter().enumerate() {
                self.charge(1)?;
                if *scope.name != *wanted.function || scope.kind == Kind::Block || !self.is_in(scope.entry, wanted)? {
                    continue;
                }
                let inlined = scope.kind == Kind::Inlined;
                spots.push(Spot {
                    address: scope.start.wrapping_add(wanted.offset),
                    scope: (number, index as u32),
                    function: Rc::clone(&scope.name),
                    inlined,
                    is_entry: !inlined && wanted.offset == 0,
                });
            }
        }
        Ok(spots)
    }

    /// Whether an entry is declared in the file that was asked for.
    fn is_in(&self, entry: Place, wanted: &Wanted) -> Answer<bool> {
        let Some(file) = &wanted.file else { return Ok(true) };
        Ok(self.declared(entry)?.is_some_and(|(declared, _)| is_named(&declared, file)))
    }

    /// The instances of a function in a unit, each with the line of its declaration.
    fn instances_in(&self, scopes: &Scopes, wanted: &Wanted) -> Answer<Vec<Instance>> {
        let mut instances = Vec::new();
        for (number, scope) in scopes.all.iter().enumerate() {
            self.charge(1)?;
            if *scope.name == *wanted.function
                && self.is_in(scope.entry, wanted)?
                && let Some((file, line)) = self.declared(scope.entry)?
            {
                instances.push(Instance { number: number as u32, file, line });
            }
        }
        Ok(instances)
    }

    /// The line of the next function that is declared in that file behind that line.
    fn next_declaration(&self, scopes: &Scopes, file: &str, line: u32) -> Answer<u32> {
        let (mut next, mut seen) = (u32::MAX, HashSet::new());
        for scope in scopes.all.iter().filter(|scope| scope.kind != Kind::Block && seen.insert(&scope.name)) {
            if let Some((of, at)) = self.declared(scope.entry)?
                && *of == *file
                && at > line
            {
                next = next.min(at);
            }
        }
        Ok(next)
    }

    /// The statements of a line that is counted from a function's declaration, in all instances of the function.
    fn spots_in_function(&self, wanted: &Wanted, line: u32) -> Answer<Vec<Spot>> {
        let mut spots = Vec::new();
        for number in self.units_with(&wanted.function)? {
            let unit = self.unit(number)?;
            let (scopes, rows) = (self.scopes(&unit)?, self.rows(&unit)?);
            let instances = self.instances_in(&scopes, wanted)?;
            let Some(first) = instances.first() else { continue };
            if line == 0 {
                // The declaration has no row of its own in general: it stands for the entry.
                let entry = |instance: &Instance| {
                    let scope = scopes.all.get(instance.number as usize)?;
                    Some(self.spot(scope.start, number, instance.number, scope))
                };
                spots.extend(instances.iter().filter_map(entry));
            }
            let next = self.next_declaration(&scopes, &first.file, first.line)?;
            for row in rows.rows.iter().filter(|row| row.is_statement && !row.is_end) {
                self.charge(1)?;
                let file = rows.file(row.file);
                if !instances.iter().any(|of| of.line.checked_add(line) == Some(row.line) && of.file == file) {
                    continue;
                }
                let is_entry = line == 0 && spots.iter().any(|spot: &Spot| spot.address == row.address);
                if let Some(around) = owner(&scopes, &instances, row, next).filter(|_| !is_entry) {
                    spots.push(self.spot(row.address, number, around, &scopes.all[around as usize]));
                }
            }
        }
        Ok(spots)
    }

    /// The statements of a file's line, in all units.
    fn spots_of_line(&self, file: &str, line: u32) -> Answer<Vec<Spot>> {
        let mut spots = Vec::new();
        for number in self.units_of_file(file)? {
            let unit = self.unit(number)?;
            let rows = self.rows(&unit)?;
            if !rows.files.iter().any(|name| is_named(name, file)) {
                continue;
            }
            let statements = rows.rows.iter().filter(|row| row.line == line && row.is_statement && !row.is_end);
            for row in statements.filter(|row| is_named(&rows.file(row.file), file)) {
                self.charge(1)?;
                let scopes = self.scopes(&unit)?;
                let chain = scopes.at(row.address);
                if let Some(around) = chain.iter().rev().find(|number| scopes.all[**number as usize].kind != Kind::Block) {
                    spots.push(self.spot(row.address, number, *around, &scopes.all[*around as usize]));
                }
            }
        }
        Ok(spots)
    }

    fn spot(&self, address: u64, unit: u32, number: u32, scope: &super::scopes::Scope) -> Spot {
        let inlined = scope.kind == Kind::Inlined;
        let is_entry = !inlined && address == scope.start;
        Spot { address, scope: (unit, number), function: Rc::clone(&scope.name), inlined, is_entry }
    }

    /// The source lines of each function of that name, with the addresses of their statements.
    pub fn sources(&self, wanted: &Wanted) -> Answer<Vec<Source>> {
        self.begin();
        let mut sources: Vec<Source> = Vec::new();
        for number in self.units_with(&wanted.function)? {
            let unit = self.unit(number)?;
            let (scopes, rows) = (self.scopes(&unit)?, self.rows(&unit)?);
            let instances = self.instances_in(&scopes, wanted)?;
            let mut declared: BTreeMap<_, BTreeSet<u64>> = BTreeMap::new();
            for instance in &instances {
                let place = (Rc::clone(&instance.file), instance.line);
                declared.entry(place).or_default().extend(scopes.all.get(instance.number as usize).map(|scope| scope.start));
            }
            for ((file, first), entries) in declared {
                let next = self.next_declaration(&scopes, &file, first)?;
                // The declaration stands for the entries.
                let mut lines = BTreeMap::from([(first, entries)]);
                for row in rows.rows.iter().filter(|row| row.is_statement && !row.is_end && row.line >= first) {
                    self.charge(1)?;
                    if rows.file(row.file) == file && owner(&scopes, &instances, row, next).is_some() {
                        lines.entry(row.line).or_default().insert(row.address);
                    }
                }
                let source = match sources.iter_mut().find(|source| source.file == file && source.line == first) {
                    Some(source) => source,
                    None => {
                        let function = wanted.function.as_str().into();
                        sources.push(Source { function, file, line: first, lines: Vec::new() });
                        sources.last_mut().ok_or_else(|| LinesError::Malformed("no source".into()))?
                    }
                };
                for (line, addresses) in lines {
                    match source.lines.iter_mut().find(|(is, _)| *is == line) {
                        Some((_, all)) => {
                            all.extend(addresses);
                            all.sort_unstable();
                            all.dedup();
                        }
                        None => source.lines.push((line, addresses.into_iter().collect())),
                    }
                }
                source.lines.sort_by_key(|(line, _)| *line);
            }
        }
        match sources.is_empty() {
            true => Err(LinesError::Place(format!("no function `{}` is in the debug information", wanted.function))),
            false => Ok(sources),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// LV-2
    #[test]
    fn places_are_read_as_perf_probe_writes_them() {
        let function = |function: &str| Wanted { function: function.into(), ..Wanted::default() };
        #[rustfmt::skip]
        let cases = [
            ("vfs_read",                Wanted { ..function("vfs_read") },                                        "vfs_read"),
            ("vfs_read:12",             Wanted { line: Some(12), ..function("vfs_read") },                        "vfs_read_L12"),
            ("vfs_read+0x10",           Wanted { offset: 16, ..function("vfs_read") },                            "vfs_read"),
            ("vfs_read%return",         Wanted { returns: true, ..function("vfs_read") },                         "vfs_read__return"),
            ("t_show@kernel/trace.c",   Wanted { file: Some("kernel/trace.c".into()), ..function("t_show") },     "t_show"),
            ("t_show@trace.c:3",        Wanted { file: Some("trace.c".into()), line: Some(3), ..function("t_show") }, "t_show_L3"),
            ("fs/read_write.c:462",     Wanted { file: Some("fs/read_write.c".into()), line: Some(462), ..function("") }, "read_write_c_L462"),
            ("f.isra.0",                function("f.isra.0"),                                                     "f_isra_0"),
        ];
        for (text, expected, event) in cases {
            let wanted = Wanted::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!((wanted.event().as_str(), wanted), (event, expected), "{text}");
        }
        for wrong in ["", ":3", "a:b", "a+b", "a%b", "a.c", "a b", "3a", "a:1%return", "a+1%return", "a->b", "f@"] {
            assert!(Wanted::parse(wrong).is_err(), "{wrong}");
        }
    }
}
