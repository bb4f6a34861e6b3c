//! Resolves tracepoints of system calls. They become probes on the functions that implement the calls, with the
//! tracepoints' fields.

use super::ast::{Tag, TypeName};
use super::compile::{Compiler, Knowledge};
use super::error::{ScriptError, Span};
use super::program::{Any, Num, Point, PointKind, SystemCall};
use super::types::{CType, Type};
use super::values::Typed;
use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use trapline_isa::linux::Dispatcher;

/// The name and the parameters of each call that any architecture has.
const TABLE: &str = include_str!("syscalls.tsv");

/// The parameters of a call: type and name.
fn parameters(call: &str) -> Option<impl Iterator<Item = (&'static str, &'static str)>> {
    let row = TABLE.lines().filter_map(|line| line.split_once('\t')).find(|(name, _)| *name == call);
    let (_, parameters) = row?;
    Some(parameters.split(", ").filter_map(|parameter| parameter.rsplit_once(' ')))
}

/// A system call of the guest, as `trapline trace -l` lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// The name without a prefix, such as `openat`.
    pub name: String,
}

impl Shown {
    /// The system calls of a guest, found by their functions.
    pub fn all(knowledge: &dyn Knowledge) -> Vec<Shown> {
        let prefix = knowledge.isa().linux.system_calls.prefix;
        let names = knowledge.functions(&format!("{prefix}*"), false).into_iter();
        let named = names.filter_map(|function| Some(function.strip_prefix(prefix)?.to_owned()));
        named.filter(|name| parameters(name).is_some()).map(|name| Shown { name }).collect()
    }

    /// One line for each of its parameters.
    pub fn parameters(&self) -> String {
        let lines = parameters(&self.name).into_iter().flatten();
        lines.map(|(kind, name)| format!("    {kind} {name}\n")).collect()
    }
}

impl Compiler<'_> {
    /// The attach points of a system-call tracepoint. Empty if the guest has no such call.
    pub fn system_calls(&self, raw: bool, event: &str, at: Span) -> Result<Vec<Point>, ScriptError> {
        let (exits, call) = match (event.strip_prefix("sys_enter"), event.strip_prefix("sys_exit")) {
            (Some(call), _) => (false, call),
            (_, Some(call)) => (true, call),
            _ => return Err(at.error("a tracepoint of system calls begins with sys_enter or sys_exit")),
        };
        let calls = &self.knowledge.isa().linux.system_calls;
        let point = |function: String, name: &str, call: Option<String>, of_pattern| {
            let kind = if exits { PointKind::Kretprobe(function) } else { PointKind::Kprobe(function, 0) };
            let event = Some(SystemCall { name: call, exits });
            Point {
                kind,
                name: format!("tracepoint:{name}"),
                at,
                is_typed: exits,
                of_pattern,
                event,
                every: 1,
                result: None,
                counter: 0,
            }
        };
        if raw {
            let dispatcher = self.dispatcher();
            let name = format!("raw_syscalls:{event}");
            let points: Vec<Point> = match dispatcher {
                _ if !call.is_empty() => Vec::new(),
                Some(dispatcher) => alloc::vec![point(dispatcher.name.to_owned(), &name, None, false)],
                // The functions of all calls, if each gets a pointer to the registers, and so the call's number.
                None if calls.number.is_some() && calls.arguments.is_some() => {
                    let functions = self.knowledge.functions(&format!("{}*", calls.prefix), exits);
                    functions.into_iter().map(|function| point(function, &name, None, true)).collect()
                }
                None => Vec::new(),
            };
            if points.is_empty() {
                return Err(
                    at.error("this guest has no function that all system calls go through: use tracepoint:syscalls:sys_enter_*")
                );
            }
            return Ok(points);
        }
        let Some(call) = call.strip_prefix('_') else {
            return Err(at.error("the call's name follows: tracepoint:syscalls:sys_enter_openat"));
        };
        let pattern = format!("{}{call}", calls.prefix);
        let functions = match call.contains('*') {
            true => self.knowledge.functions(&pattern, exits),
            false => self.knowledge.address(&pattern).map(|_| pattern).into_iter().collect(),
        };
        let named = functions.into_iter().filter_map(|function| {
            let name = function.strip_prefix(calls.prefix)?.to_owned();
            parameters(&name)?.next();
            let shown = format!("syscalls:sys_{}_{name}", if exits { "exit" } else { "enter" });
            Some(point(function, &shown, Some(name), call.contains('*')))
        });
        Ok(named.collect())
    }

    /// The names of the tracepoint's fields.
    pub(super) fn event_fields(&self) -> Vec<String> {
        let Some(event) = &self.block.event else { return Vec::new() };
        let number = self.call_number(Span::default()).is_ok();
        let mut names = Vec::new();
        match &event.name {
            Some(_) if number => names.push("__syscall_nr".to_owned()),
            None if number => names.push("id".to_owned()),
            _ => {}
        }
        match (&event.name, event.exits) {
            (_, true) => names.push("ret".to_owned()),
            (Some(call), false) => {
                names.extend(parameters(call).into_iter().flatten().map(|(_, name)| name.to_owned()));
            }
            (None, false) => {}
        }
        names
    }

    /// Compiles `args.name` in a system-call tracepoint.
    pub fn event_field(&mut self, name: &str, at: Span) -> Result<Typed, ScriptError> {
        let Some(event) = self.block.event.clone() else { return Err(at.error("args has no fields here")) };
        let long = CType::Int(self.known.word, true);
        match (&event.name, event.exits, name) {
            (_, true, "ret") => return self.call_result(at, &long),
            (Some(_), _, "__syscall_nr") => return Ok((Any::Num(self.call_number(at)?), Type::Int(4, true))),
            (None, _, "id") => return Ok((Any::Num(self.call_number(at)?), Type::I64)),
            (None, false, "args") => {
                return Err(
                    at.error("the arguments are args.args[0] to [5] of the call's own tracepoint: use syscalls:sys_enter_*")
                );
            }
            (Some(call), false, _) => {
                let parameters: Vec<_> = parameters(call).map(Iterator::collect).unwrap_or_default();
                let found = parameters.iter().position(|(_, is)| *is == name);
                let Some(number) = found else {
                    let names = parameters.iter().map(|(_, name)| *name).collect::<Vec<_>>().join(", ");
                    return Err(at.error(format!("sys_enter_{call} has no field '{name}': it has __syscall_nr, {names}")));
                };
                let kind = self.parameter_type(parameters[number].0);
                return Ok(self.loaded(self.call_argument(number), &kind));
            }
            _ => {}
        }
        Err(at.error(format!("this tracepoint has no field '{name}': an exit has __syscall_nr and ret, raw ones have id")))
    }

    /// The function that all system calls of this guest pass through.
    fn dispatcher(&self) -> Option<&'static Dispatcher> {
        let dispatcher = self.knowledge.isa().linux.system_calls.dispatcher.as_ref();
        dispatcher.filter(|dispatcher| self.knowledge.address(dispatcher.name).is_some())
    }

    /// An argument of the call: a user register that the kernel has saved, or a plain argument of the function if this
    /// architecture passes the call's arguments so.
    fn call_argument(&self, number: usize) -> Num {
        let isa = self.knowledge.isa();
        let calls = &isa.linux.system_calls;
        match calls.arguments.and_then(|places| places.get(number).copied()) {
            Some(place) => self.saved_register(0, place, isa.word as u8),
            None => Num::Argument(number as u8),
        }
    }

    /// A user register at the system call, read from the registers that the function's argument points to.
    fn saved_register(&self, argument: u8, place: u16, size: u8) -> Num {
        Num::Load { at: Box::new(super::operators::add(Num::Argument(argument), place.into())), size, signed: false }
    }

    /// The number of the call. Fails if this architecture gives it neither to the dispatcher nor to the call's function.
    fn call_number(&self, at: Span) -> Result<Num, ScriptError> {
        let calls = &self.knowledge.isa().linux.system_calls;
        let event = self.block.event.as_ref();
        match (self.dispatcher(), event.is_some_and(|event| event.name.is_none()), calls.number) {
            (Some(dispatcher), true, _) => Ok(Num::Cut { of: Box::new(Num::Argument(dispatcher.number)), size: 4, signed: true }),
            (_, false, Some(place)) | (None, true, Some(place)) => {
                let number = self.saved_register(0, place, 4);
                Ok(Num::Cut { of: Box::new(number), size: 4, signed: true })
            }
            _ => Err(at.error("the number of a call is not known at this guest's functions: the probe's name tells which it is")),
        }
    }

    /// The result of the call: that of the function, or the user register that a dispatcher without a result has set.
    fn call_result(&self, at: Span, long: &CType) -> Result<Typed, ScriptError> {
        let calls = &self.knowledge.isa().linux.system_calls;
        let is_raw = self.block.event.as_ref().is_some_and(|event| event.name.is_none());
        match (self.dispatcher(), calls.arguments) {
            (Some(dispatcher), Some(places)) if is_raw && !dispatcher.returns => {
                Ok(self.loaded(self.saved_register(dispatcher.registers, places[0], self.known.word), long))
            }
            (None, _) if is_raw && calls.number.is_none() => {
                Err(at.error("this guest has no function that all system calls go through"))
            }
            _ => Ok(self.loaded(Num::Result, long)),
        }
    }

    /// Resolves a parameter's type. An unknown type becomes a word or a `void *`.
    fn parameter_type(&self, written: &str) -> CType {
        let words = written.replace('*', " * ");
        let (mut tag, mut name, mut pointers) = (None, String::new(), 0);
        for word in words.split_ascii_whitespace() {
            match word {
                "const" | "volatile" => {}
                "*" => pointers += 1,
                "struct" => tag = Some(Tag::Struct),
                "union" => tag = Some(Tag::Union),
                "enum" => tag = Some(Tag::Enum),
                word if name.is_empty() => name.push_str(word),
                word => name = format!("{name} {word}"),
            }
        }
        let asked = TypeName { tag, name, pointers, array: None, at: Span::default() };
        self.c_type(&asked).unwrap_or_else(|_| match pointers {
            0 => CType::Int(self.known.word, false),
            _ => CType::Pointer(Box::new(CType::Void)),
        })
    }
}
