//! Compiles builtins, such as `pid`, `comm`, `nsecs`, `arg0` and `curtask`, and other bare names.

use super::ast;
use super::compile::{Compiler, no_types};
use super::error::{ScriptError, Span};
use super::operators::add;
use super::program::{Any, Bytes, Num};
use super::types::{CType, Type};
use super::values::{Typed, number_of};
use alloc::boxed::Box;
use alloc::format;
use alloc::sync::Arc;

impl Compiler<'_> {
    /// Compiles `$1` and so on as a number. A parameter that is missing is 0. A parameter that is no number needs `str($1)`.
    pub(super) fn positional(&mut self, number: u32, at: Span) -> Result<Typed, ScriptError> {
        let text = (number as usize).checked_sub(1).and_then(|number| self.options.parameters.get(number));
        let Some(text) = text else { return Ok(number_of(0)) };
        match number_in(text) {
            Some(value) => Ok(value),
            None => Err(at.error(format!("${number} used numerically but given \"{text}\". Try using str(${number})."))),
        }
    }

    /// Compiles a bare name: a builtin, an enumerator, a macro, or a parameter of a macro.
    pub(super) fn named(&mut self, name: &str, at: Span) -> Result<Typed, ScriptError> {
        if let Some((arguments, number, depth)) = self.frames.last().and_then(|frame| frame.expressions.get(name).cloned()) {
            let above = self.frames.split_off(depth);
            let value = self.value(&arguments[number]);
            self.frames.extend(above);
            return value;
        }
        if let Some(body) = self.enter_macro(name, &Arc::default(), at)? {
            let value = self.block_value(body, at);
            self.frames.pop();
            return value;
        }
        if let Some(value) = self.builtin(name, at)? {
            return Ok(value);
        }
        if let Some((value, kind)) = self.known.enumerator(name) {
            return Ok((Any::Num(Num::Const(value)), kind));
        }
        Err(at.error(format!("Unknown identifier: '{name}': it is no builtin, no macro, and no enumerator of the guest's types")))
    }

    /// Compiles a builtin. `None` if the name is no builtin. Fails if the builtin has no meaning at this block's probes.
    pub(super) fn builtin(&mut self, name: &str, at: Span) -> Result<Option<Typed>, ScriptError> {
        let kinds = self.block.kinds;
        let u32 = Type::Int(4, false);
        let numbered =
            |prefix: &str| name.strip_prefix(prefix).filter(|rest| !rest.is_empty()).and_then(|rest| rest.parse::<u8>().ok());
        if let Some(number) = numbered("arg") {
            if kinds.returns || kinds.others || !kinds.entries {
                return Err(at.error(format!("{name} can only be used with kprobes: at other places there are no arguments")));
            }
            self.check_usdt_argument(number, at)?;
            return Ok(Some((Any::Num(Num::Argument(number)), Type::U64)));
        }
        if let Some(number) = numbered("sarg") {
            return Ok(Some((Any::Num(Num::StackWord(number)), Type::U64)));
        }
        Ok(Some(match name {
            "tid" => (Any::Num(Num::Pid), u32),
            "pid" => (Any::Num(Num::Tgid), u32),
            "ppid" => (Any::Num(self.of_parent("tgid").unwrap_or(Num::Const(0))), u32),
            "comm" => (Any::Bytes(Bytes::Comm), Type::Text(16)),
            "cpu" => (Any::Num(Num::Cpu), Type::U64),
            "ncpus" => (Any::Num(Num::Cpus), Type::U64),
            "numaid" => number_of(0),
            "nsecs" => (Any::Num(Num::Now), Type::U64),
            "elapsed" => (Any::Num(Num::Elapsed), Type::U64),
            "rand" => (Any::Num(Num::Random), Type::U64),
            "usermode" => (Any::Num(Num::InUser), Type::TRUTH),
            "func" if self.block.program.is_some() => self.in_program_named(Num::Function),
            "func" => (Any::Num(Num::Function), Type::Symbol),
            "probe" => (Any::Bytes(Bytes::Probe), Type::Text(0)),
            "kstack" | "ustack" => {
                self.names_programs |= name == "ustack";
                let form = self.stack_form;
                (Any::Bytes(Bytes::Stack { user: name == "ustack", form, limit: 127 }), Type::Stack(form))
            }
            "args" => self.all_parameters(at)?,
            "username" => self.user_name(at)?,
            "ctx" => {
                return Err(at.error("ctx is refused: registers are not in the guest's memory at a hit; reg(\"NAME\") reads one"));
            }
            "cpid" => {
                return Err(at.error("cpid is refused: no program is started from here, so there is no number of its process"));
            }
            _ => return self.builtin_by_types(name, at),
        }))
    }

    /// Compiles a builtin that needs the kernel's types or symbols. `None` if it is no builtin at all.
    fn builtin_by_types(&mut self, name: &str, at: Span) -> Result<Option<Typed>, ScriptError> {
        Ok(Some(match name {
            "uid" | "gid" => {
                let id = self.of_credentials(name).ok_or_else(|| {
                    at.error(format!("{name} is found by the kernel's types, and: {}", no_types(self.knowledge)))
                })?;
                (Any::Num(id), Type::U64)
            }
            "curtask" => {
                let kind = match self.known.named(Some(ast::Tag::Struct), "task_struct") {
                    Some(kind) => Type::Pointer(kind),
                    None => Type::U64,
                };
                (Any::Num(Num::Task), kind)
            }
            "jiffies" => {
                let place = ["jiffies_64", "jiffies"].iter().find_map(|name| self.knowledge.data(name));
                let place = place
                    .ok_or_else(|| at.error("jiffies are not there: this kernel's own table does not have their address"))?;
                let size = if self.knowledge.data("jiffies_64").is_some() { 8 } else { self.known.word };
                (Any::Num(Num::Load { at: Box::new(Num::Const(place)), size, signed: false }), Type::U64)
            }
            "cgroup" => {
                let id = self.of_chain(&["cgroups", "dfl_cgrp", "kn", "id"]);
                let id = id.ok_or_else(|| {
                    at.error(format!("cgroup is found by the kernel's types, and: {}", no_types(self.knowledge)))
                })?;
                (Any::Num(id), Type::U64)
            }
            "pcomm" => {
                let (place, _) = self.task_field(&["comm"]).ok_or_else(|| {
                    at.error(format!("pcomm is found by the kernel's types, and: {}", no_types(self.knowledge)))
                })?;
                let parent = self.of_chain(&["real_parent"]).unwrap_or(Num::Const(0));
                (Any::Bytes(Bytes::Text { at: Box::new(add(parent, place)), limit: None, capacity: 16 }), Type::Text(16))
            }
            "retval" => self.returned(at)?,
            _ => return Ok(None),
        }))
    }

    /// The function's result, with its type if the probe is a typed one.
    fn returned(&self, at: Span) -> Result<Typed, ScriptError> {
        let kinds = self.block.kinds;
        if !kinds.returns || kinds.entries || kinds.others {
            return Err(at.error("The retval builtin can only be used with 'kretprobe' and 'fexit' probes"));
        }
        let typed = self.block.function.clone().filter(|_| kinds.typed).and_then(|name| self.known.guest?.function(&name));
        Ok(match typed.map(|prototype| prototype.result) {
            Some(kind) => self.loaded(Num::Result, &kind),
            None => (Any::Num(Num::Result), Type::U64),
        })
    }

    /// The offset in `struct task_struct` of a member, in bytes, and its type. `path` names structures inside one another. `None`
    /// if the kernel's types lack a member.
    pub(super) fn task_field(&self, path: &[&str]) -> Option<(u64, CType)> {
        let mut kind = self.known.named(Some(ast::Tag::Struct), "task_struct")?;
        let mut bits = 0;
        for name in path {
            let CType::Struct(number, _) = kind else { return None };
            let field = self.known.field(number, name)?;
            bits = field.bit.saturating_add(bits);
            kind = field.kind;
        }
        Some((bits / 8, kind))
    }

    /// Follows pointers from the running task's `struct task_struct` and reads the last one's member: `current->a->b`. `None`
    /// if the kernel's types lack a member.
    pub(super) fn of_chain(&self, path: &[&str]) -> Option<Num> {
        let mut kind = self.known.named(Some(ast::Tag::Struct), "task_struct")?;
        let mut at = Num::Task;
        for name in path {
            let structure = if let CType::Pointer(to) = kind { *to } else { kind };
            let CType::Struct(number, _) = structure else { return None };
            let field = self.known.field(number, name)?;
            at = self.load(add(at, field.bit / 8), &field.kind);
            kind = field.kind;
        }
        Some(at)
    }

    /// A member of the parent's task structure: `current->real_parent->name`.
    pub(super) fn of_parent(&self, name: &str) -> Option<Num> {
        let (offset, kind) = self.task_field(&["real_parent"])?;
        let parent = self.load(add(Num::Task, offset), &kind);
        let (offset, kind) = self.task_field(&[name])?;
        Some(self.load(add(parent, offset), &kind))
    }

    /// A 32-bit member of the running task's credentials: `current->cred->name`.
    pub fn of_credentials(&self, name: &str) -> Option<Num> {
        let (offset, kind) = self.task_field(&["cred"])?;
        let credentials = self.load(add(Num::Task, offset), &kind);
        let CType::Pointer(to) = kind else { return None };
        let CType::Struct(number, _) = *to else { return None };
        let field = self.known.field(number, name)?;
        Some(Num::Load { at: Box::new(add(credentials, field.bit / 8)), size: 4, signed: false })
    }
}

/// The number in a parameter's or an option's text. `None` if it is no number.
pub(super) fn number_in(text: &str) -> Option<Typed> {
    match text.strip_prefix('-') {
        Some(digits) => Some((Any::Num(Num::Const(super::lex::time(digits)?.wrapping_neg())), Type::I64)),
        None => super::lex::time(text).map(number_of),
    }
}
