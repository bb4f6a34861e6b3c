//! Lines as `perf probe` takes them, turned into lines of `kprobe_events`: `p:vfs_read:12 count`,
//! `p:vfs_read file->f_pos`, `p:name func@file.c:12 $vars`, `p func%return $retval`.
//!
//! With DWARF each place gives a line for each of its addresses. Without it, BTF gives the parameters of functions at
//! their entries. Places of a module are written `MODULE:PLACE`.

use super::chains::Chain;
use super::error::{Answer, LinesError};
use super::locations::{Base, Location};
use super::places::{Spot, Wanted};
use super::units::Info;
use crate::symbols::Symbols;
use trapline_isa::arch::Isa;
use trapline_probes::events::parse::{self, EventCommand, Location as EventLocation};
use trapline_script::types::Types;

/// The largest number of lines that one line gives.
const MOST_LINES: usize = 4096;

/// The knowledge by which lines are expanded.
#[derive(Clone, Copy)]
pub struct Known<'a, 'i> {
    /// The guest's ISA.
    pub isa: &'static Isa,
    /// The symbols: the kernel's, or the module's.
    pub symbols: &'a Symbols,
    /// The module, if it is not the kernel that is asked.
    pub module: Option<&'a str>,
    /// DWARF, if a file has been given.
    pub lines: Option<&'a Info<'i>>,
    /// BTF, if the image has it.
    pub types: Option<&'a dyn Types>,
}

impl<'a> Known<'a, '_> {
    /// A place without the module's name in front; `None` if it is of another module, or of the kernel.
    fn own<'t>(&self, place: &'t str) -> Option<&'t str> {
        match self.module {
            None => Some(place),
            Some(module) => place.strip_prefix(module)?.strip_prefix(':'),
        }
    }

    /// An address as people read it: a place of `kprobe_events`, or a number.
    pub fn place(&self, address: u64) -> String {
        self.place_text(address).unwrap_or_else(|| format!("{address:#x}"))
    }

    /// An address as a place of `kprobe_events`. `None` if it has none, in a function of a module whose name is not unique.
    pub fn place_text(&self, address: u64) -> Option<String> {
        match (self.symbols.containing(address), self.module) {
            (Some(symbol), module) if self.symbols.count(&symbol.name) == 1 => {
                let module = module.map(|module| format!("{module}:")).unwrap_or_default();
                Some(format!("{module}{}+{}", symbol.name, address - symbol.start))
            }
            (_, Some(_)) => None,
            (_, None) => match self.symbols.find("_text").or_else(|| self.symbols.find("_stext")) {
                Some(text) if text.start <= address && u32::try_from(address - text.start).is_ok() => {
                    Some(format!("{}+{}", text.name, address - text.start))
                }
                _ => Some(format!("{address:#x}")),
            },
        }
    }
}

/// The lines of `kprobe_events` that a line means, and notes about places that were left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expanded {
    /// The lines of `kprobe_events`, one for each place.
    pub lines: Vec<String>,
    /// Sentences for the user.
    pub notes: Vec<String>,
}

/// A line that is no line of `kprobe_events` as it stands.
struct Asked<'t> {
    /// The letters in front of the colon.
    head: &'t str,
    /// `GROUP/EVENT`, if the line names an event.
    name: Option<&'t str>,
    place: Wanted,
    /// The place as it was written.
    text: &'t str,
    arguments: Vec<&'t str>,
}

/// Expands a line. `None` if it is a line of `kprobe_events` already, or a comment.
pub fn line(text: &str, known: &Known<'_, '_>) -> Answer<Option<Expanded>> {
    let code = text.split('#').next().unwrap_or_default();
    let parsed = parse::line(text);
    if let Ok(parsed) = &parsed
        && is_plain(parsed.as_ref(), known.symbols)
    {
        return Ok(None);
    }
    let words: Vec<&str> = code.split_whitespace().collect();
    let Some(asked) = asked(&words, known)? else { return Ok(None) };
    let has_line = asked.place.line.is_some() || asked.place.file.is_some();
    // The parser's own words are better for an argument that is wrong than ours for a place that is right.
    let is_ours = has_line || asked.place.returns || !asked.arguments.iter().all(|word| is_fetch(word));
    match (known.lines, parsed) {
        (_, Err(_)) if !is_ours => Ok(None),
        (Some(lines), _) => by_dwarf(&asked, lines, known).map(Some),
        (None, _) if has_line => Err(LinesError::Place(format!(
            "source lines such as `{}` need debug information: give --dwarf FILE, a vmlinux of the same build that was compiled with -g",
            asked.text
        ))),
        (None, Ok(_)) if asked.arguments.is_empty() => Ok(None),
        (None, _) => match known.types {
            Some(types) => by_btf(&asked, types, known).map(Some),
            None => Ok(None),
        },
    }
}

/// Whether a line is no line of `kprobe_events` as it stands, so that [`line()`] may have something to say about it.
pub fn asks(text: &str, symbols: &Symbols) -> bool {
    parse::line(text).map_or(true, |parsed| !is_plain(parsed.as_ref(), symbols))
}

/// The module that a line asks for source lines or variables of: `p:shelf:shelf_put:4`, `p:put shelf:shelf_put number`.
pub fn module_of(text: &str) -> Option<&str> {
    let mut words = text.split('#').next().unwrap_or_default().split_whitespace();
    let behind_colon = words.next()?.split_once(':').map(|(_, place)| place);
    let rest: Vec<&str> = words.collect();
    let module = |place: &'_ str, arguments: &[&str]| {
        let (module, place) = place.split_once(':')?;
        let is_name = module.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
        let place = Wanted::parse(place).ok().filter(|_| is_name)?;
        (place.line.is_some() || arguments.iter().any(|word| !is_fetch(word))).then_some(module.len())
    };
    let (first, arguments) = rest.split_first().map_or(("", &rest[..]), |(first, arguments)| (*first, arguments));
    if let Some(length) = module(first, arguments) {
        return first.get(..length);
    }
    behind_colon.and_then(|place| place.get(..module(place, &rest)?))
}

/// Whether the line means what it says: an address, or a symbol that is there or may come with a module.
fn is_plain(parsed: Option<&EventCommand>, symbols: &Symbols) -> bool {
    match parsed {
        Some(EventCommand::Add(definition)) => match &definition.location {
            EventLocation::Symbol { name, .. } => {
                let is_name =
                    |part: &str| part.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'$'));
                let module = name.split_once(':').is_some_and(|(module, symbol)| {
                    module.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')) && is_name(symbol)
                });
                module || symbols.address_of(name).is_some()
            }
            EventLocation::Address(_) | EventLocation::File { .. } | EventLocation::Memory(_) => true,
        },
        _ => true,
    }
}

/// Finds the place and the arguments of a line. `None` for a line that does not add a probe.
fn asked<'t>(words: &[&'t str], known: &Known<'_, '_>) -> Answer<Option<Asked<'t>>> {
    let Some((first, rest)) = words.split_first() else { return Ok(None) };
    if !first.starts_with(['p', 'r']) {
        return Ok(None);
    }
    let (head, name) = match first.split_once(':') {
        Some((head, name)) => (head, Some(name)),
        None => (*first, None),
    };
    if !head[1..].bytes().all(|byte| byte.is_ascii_digit()) {
        return Ok(None);
    }
    let is_place = |text: &str| {
        Wanted::parse(known.own(text)?).ok().filter(|place| {
            let has_symbol = || known.symbols.address_of(&place.function).is_some();
            let has_entry =
                || known.lines.is_some_and(|lines| lines.units_with(&place.function).is_ok_and(|units| !units.is_empty()));
            place.line.is_some() || place.file.is_some() || has_symbol() || has_entry()
        })
    };
    // `p:vfs_read:12 count` has no name: its place stands behind the first colon.
    let behind_colon = name.filter(|name| !name.contains('/') || name.contains(':')).and_then(is_place);
    let asked = match (rest.first().and_then(|word| is_place(word)), behind_colon, name) {
        (Some(place), behind, Some(name)) if !behind.as_ref().is_some_and(|behind| behind.line.is_some() || behind.returns) => {
            Asked { head, name: Some(name), place, text: rest[0], arguments: rest[1..].to_vec() }
        }
        (Some(place), _, None) => Asked { head, name: None, place, text: rest[0], arguments: rest[1..].to_vec() },
        (_, Some(place), Some(name)) => Asked { head, name: None, place, text: name, arguments: rest.to_vec() },
        _ => return Ok(None),
    };
    Ok(Some(asked))
}

impl Asked<'_> {
    fn start(&self) -> String {
        let head = if self.place.returns { format!("r{}", &self.head[1..]) } else { self.head.to_string() };
        match self.name {
            Some(name) => format!("{head}:{name}"),
            None => format!("{head}:probe/{}", self.place.event()),
        }
    }

    fn returns(&self) -> bool {
        self.place.returns || self.head.starts_with('r')
    }
}

/// Whether a word is an argument of `kprobe_events` already.
fn is_fetch(word: &str) -> bool {
    let body = word.split_once('=').map_or(word, |(_, body)| body);
    match body.strip_prefix('$') {
        Some(name) => !matches!(name, "vars" | "params"),
        None => body.starts_with(['%', '@', '+', '-', '\\']),
    }
}

fn by_dwarf(asked: &Asked<'_>, lines: &Info<'_>, known: &Known<'_, '_>) -> Answer<Expanded> {
    let wanted = Wanted { returns: asked.returns(), ..asked.place.clone() };
    let spots = lines.spots(&wanted)?;
    let (mut expanded, mut first_error) = (Expanded::default(), None);
    for spot in spots.iter().take(MOST_LINES) {
        let place = known.place_text(spot.address);
        let written = place.as_ref().ok_or_else(|| not_unique(&spot.function));
        match written.and_then(|place| Ok((place.clone(), arguments_at(asked, lines, spot)?))) {
            Ok((place, arguments)) => {
                expanded.lines.push([asked.start(), place].into_iter().chain(arguments).collect::<Vec<_>>().join(" "));
            }
            Err(error) => {
                if spots.len() > 1 {
                    let place = place.unwrap_or_else(|| spot.function.to_string());
                    expanded.notes.push(format!("the place {place} of `{}` is left out: {error}", asked.place.event()));
                }
                first_error.get_or_insert(error);
            }
        }
    }
    if spots.len() > MOST_LINES {
        expanded.notes.push(format!("only the first {MOST_LINES} of {} places are probed", spots.len()));
    }
    match first_error {
        Some(error) if expanded.lines.is_empty() => Err(error),
        _ => Ok(expanded),
    }
}

fn arguments_at(asked: &Asked<'_>, lines: &Info<'_>, spot: &Spot) -> Answer<Vec<String>> {
    let mut arguments = Arguments::default();
    for word in &asked.arguments {
        match *word {
            word if is_fetch(word) => arguments.plain(word),
            _ if asked.returns() => return Err(at_return(word)),
            "$vars" | "$params" => {
                for variable in lines.variables(spot)? {
                    let Ok(place) = &variable.place else { continue };
                    if *word == "$params" && !(variable.is_parameter && *variable.function == *spot.function) {
                        continue;
                    }
                    let chain = Chain::parse(&variable.name)?;
                    if let Ok(body) = chain.fetch(lines, lines.file.arch.isa(), place.clone(), variable.kind.clone()) {
                        let inlined = (*variable.function != *spot.function).then_some(&*variable.function);
                        arguments.add(&variable.name, inlined, &body);
                    }
                }
            }
            word => {
                let chain = Chain::parse(word)?;
                let body = lines.fetch(spot, &chain)?;
                arguments.add(&chain.name, None, &body);
            }
        }
    }
    Ok(arguments.words)
}

fn not_unique(function: &str) -> LinesError {
    LinesError::Place(format!(
        "`{function}`: the module has several functions of that name, and event lines cannot tell which is meant"
    ))
}

fn at_return(word: &str) -> LinesError {
    LinesError::Variable(format!("`{word}`: at a function's return only `$retval` and memory at known addresses can be fetched"))
}

/// The arguments of a line, with different names.
#[derive(Default)]
struct Arguments {
    words: Vec<String>,
    names: Vec<String>,
}

impl Arguments {
    fn plain(&mut self, word: &str) {
        if let Some((name, _)) = word.split_once('=') {
            self.names.push(name.into());
        }
        self.words.push(word.into());
    }

    fn add(&mut self, name: &str, inlined: Option<&str>, body: &str) {
        let short = |name: &str| name.chars().take(28).collect::<String>();
        let taken = |name: &str| self.names.iter().any(|other| other == name);
        let mut free = short(name);
        if taken(&free)
            && let Some(function) = inlined
        {
            free = short(&format!("{function}_{name}").replace('.', "_"));
        }
        let stem = free.clone();
        for number in 2_usize.. {
            if !taken(&free) {
                break;
            }
            free = format!("{stem}_{number}");
        }
        self.words.push(format!("{free}={body}"));
        self.names.push(free);
    }
}

/// Expands a line by BTF, which knows only the entries of functions and their parameters. All other places need DWARF.
fn by_btf(asked: &Asked<'_>, types: &dyn Types, known: &Known<'_, '_>) -> Answer<Expanded> {
    let function = &asked.place.function;
    let place = |why: &str| LinesError::Place(format!("`{function}`: {why}"));
    if asked.place.line.is_some() || asked.place.file.is_some() {
        return Err(place("source lines need debug information: give --dwarf FILE"));
    }
    if asked.place.offset != 0 {
        return Err(place("inside a function, variables need debug information: give --dwarf FILE"));
    }
    let prototype =
        types.function(function).ok_or_else(|| place("the image's type information (BTF) does not have this function"))?;
    let mut arguments = Arguments::default();
    for word in &asked.arguments {
        let parameter = |at: usize| Location::value(Base::Argument(at + 1));
        match *word {
            word if is_fetch(word) => arguments.plain(word),
            _ if asked.returns() => return Err(at_return(word)),
            "$vars" | "$params" => {
                for (at, (name, kind)) in prototype.parameters.iter().enumerate() {
                    if let Ok(body) = Chain::parse(name)?.fetch(types, known.isa, parameter(at), kind.clone()) {
                        arguments.add(name, None, &body);
                    }
                }
            }
            word => {
                let chain = Chain::parse(word)?;
                let found = prototype.parameters.iter().enumerate().find(|(_, (name, _))| *name == chain.variable);
                let Some((at, (_, kind))) = found else {
                    let known: Vec<&str> = prototype.parameters.iter().map(|(name, _)| name.as_str()).collect();
                    return Err(LinesError::Variable(format!(
                        "`{}` is no parameter of `{function}` ({}); local variables need debug information: give --dwarf FILE",
                        chain.variable,
                        known.join(", ")
                    )));
                };
                let body = chain.fetch(types, known.isa, parameter(at), kind.clone())?;
                arguments.add(&chain.name, None, &body);
            }
        }
    }
    let name = asked.place.function.clone();
    let line = [asked.start(), name].into_iter().chain(arguments.words).collect::<Vec<_>>().join(" ");
    Ok(Expanded { lines: vec![line], notes: Vec::new() })
}
