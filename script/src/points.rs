//! Resolves attach points in this guest: `kprobe:vfs_*` becomes one [`Point`] for each function that matches. This file does
//! probes of functions, timers and tracepoints. The others are in `system_calls`, `software`, `user_points` and
//! `watchpoints`.

use super::ast;
use super::compile::Compiler;
use super::error::{ScriptError, Span};
use super::program::{Point, PointKind};
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// The shortest period of a timer (`interval`, `profile`), in nanoseconds. Linux's shortest is 10,000.
pub(super) const LEAST_PERIOD: u64 = 1000;

/// An attach point of this kind without conditions or typed arguments.
pub(super) fn point_at(kind: PointKind, name: String, at: Span) -> Point {
    Point { kind, name, at, is_typed: false, of_pattern: false, event: None, every: 1, result: None, counter: 0 }
}

impl Compiler<'_> {
    /// Resolves an attach point. The result is empty if no function has the name.
    pub(super) fn points(&mut self, point: &ast::Point) -> Result<Vec<Point>, ScriptError> {
        let parts: Vec<String> =
            point.parts.iter().map(|(part, _)| self.with_parameters(part, point.at)).collect::<Result<_, _>>()?;
        let (provider, rest) = parts.split_first().map_or(("", &[][..]), |(provider, rest)| (provider.as_str(), rest));
        let one = |kind, name| Ok(alloc::vec![point_at(kind, name, point.at)]);
        match (provider, rest) {
            ("BEGIN" | "begin", []) => one(PointKind::Begin, if self.options.old { "BEGIN" } else { "begin" }.to_owned()),
            ("END" | "end", []) => one(PointKind::End, if self.options.old { "END" } else { "end" }.to_owned()),
            // `kprobe:` without a name.
            ("kprobe" | "k" | "kretprobe" | "kr" | "fentry" | "f" | "kfunc" | "fexit" | "fr" | "kretfunc", [.., last])
                if last.is_empty() =>
            {
                Err(point.at.error(format!("{provider} is followed by a function: {provider}:vfs_read")))
            }
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
                if period < LEAST_PERIOD {
                    self.warnings.push(point.at.error(format!("{name} ticks every {LEAST_PERIOD} ns: no clock is faster")));
                }
                let period = period.max(LEAST_PERIOD);
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
            // The form is [module:]event. Tracepoints of modules are not known, so the name always stands for one of the
            // kernel's.
            ("rawtracepoint" | "rt", [event] | [_, event]) => self.raw_tracepoints(event, point.at),
            ("rawtracepoint" | "rt", _) => {
                Err(point.at.error("rawtracepoint is followed by an event: rawtracepoint:sched_switch"))
            }
            ("software" | "s", [event]) => self.software(event, "", point.at),
            ("software" | "s", [event, count]) => self.software(event, count, point.at),
            ("software" | "s" | "hardware" | "h", _) => Err(point
                .at
                .error(format!("{provider} events are not counted by this machine: use interval, profile or a kprobe"))),
            ("watchpoint" | "w" | "asyncwatchpoint" | "aw", rest) => self.watchpoint(provider, rest, point.at),
            ("uprobe" | "u", [path, place] | [path, _, place]) => self.in_program("uprobe", path, place, point.at, false),
            ("uretprobe" | "ur", [path, place] | [path, _, place]) => self.in_program("uretprobe", path, place, point.at, true),
            ("uprobe" | "u" | "uretprobe" | "ur", _) => {
                Err(point.at.error(format!("{provider} is followed by a file and a function: {provider}:/bin/sh:main")))
            }
            ("usdt" | "U", [path, name]) => self.usdt(path, "", name, point.at),
            ("usdt" | "U", [path, provider, name]) => self.usdt(path, provider, name, point.at),
            ("usdt" | "U", _) => {
                Err(point.at.error("usdt is followed by a file, a provider and a name: usdt:/lib/libc.so.6:libc:setjmp"))
            }
            ("iter" | "it" | "self" | "bench" | "test", _) => {
                Err(point.at.error(format!("{provider} has no meaning outside of the guest")))
            }
            ("BEGIN" | "begin" | "END" | "end", _) => Err(point.at.error(format!("nothing follows {provider}"))),
            _ => Err(point.at.error(format!(
                "Invalid provider: '{provider}': BEGIN, END, kprobe, kretprobe, fentry, fexit, uprobe, uretprobe, usdt, tracepoint, rawtracepoint, interval, profile, software and watchpoint are known"
            ))),
        }
    }

    /// The kernel's tracepoints that match, each with its record.
    pub(super) fn tracepoints(&self, group: &str, event: &str, at: Span) -> Result<Vec<Point>, ScriptError> {
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
            counter: 0,
        });
        Ok(found.collect())
    }

    /// The kernel's tracepoints that match, as raw ones. Only tracepoints with a record are known.
    pub(super) fn raw_tracepoints(&self, event: &str, at: Span) -> Result<Vec<Point>, ScriptError> {
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

    /// Replaces `$1` in an attach point by the parameter's text.
    pub(super) fn with_parameters(&self, part: &str, at: Span) -> Result<String, ScriptError> {
        let mut text = String::new();
        let mut rest = part;
        while let Some(dollar) = rest.find('$') {
            text.push_str(&rest[..dollar]);
            let digits = rest[dollar + 1..].bytes().take_while(u8::is_ascii_digit).count();
            let number: usize = rest[dollar + 1..dollar + 1 + digits].parse().unwrap_or(0);
            match number.checked_sub(1) {
                Some(number) => {
                    let parameter = self.options.parameters.get(number).map_or("", String::as_str);
                    self.charge(parameter.len() as u64 + 1, at)?;
                    text.push_str(parameter);
                }
                None => text.push('$'),
            }
            rest = &rest[dollar + 1 + digits..];
        }
        text.push_str(rest);
        Ok(text)
    }

    /// The attach points of `provider:[module:]function[+offset]`. The function may be a pattern or, for probes that are not
    /// at returns, an address. Empty if no function matches.
    pub(super) fn functions(&self, provider: &str, parts: &[String], at: Span, returns: bool) -> Result<Vec<Point>, ScriptError> {
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
                result: None,
                counter: 0,
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
                counter: 0,
            }
        });
        Ok(names.collect())
    }

    /// The attach points of fentry and fexit: those functions of [`Compiler::functions`] whose prototypes are known.
    pub(super) fn typed_functions(
        &self,
        provider: &str,
        parts: &[String],
        at: Span,
        returns: bool,
    ) -> Result<Vec<Point>, ScriptError> {
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
            PointKind::Kprobe(name, _) | PointKind::Kretprobe(name) => {
                self.charge(0, at).is_ok() && types.function(name).is_some()
            }
            _ => false,
        });
        self.charge(0, at)?;
        points.iter_mut().for_each(|point| point.is_typed = true);
        Ok(points)
    }
}

/// The period of a timer in nanoseconds. `None` if `count` is no number or the period does not fit. Fails if the unit is
/// unknown.
pub(super) fn period(unit: &str, count: &str) -> Result<Option<u64>, &'static str> {
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
