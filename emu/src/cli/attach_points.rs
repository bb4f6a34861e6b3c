//! `trapline trace IMAGE -l`: the attach points that scripts may name in a guest, with their arguments.

use super::Failure;
use super::output;
use crate::probed::scripts::Facts;
use crate::symbols::pattern;
use trapline_probes::user::Usdt;
use trapline_script::Knowledge;
use trapline_script::types::{CType, Tag};

/// `-l`: lists the attach points that match a pattern such as `kprobe:vfs_*`. Without a provider, kprobes and
/// tracepoints are listed.
pub(super) fn list(facts: &Facts<'_>, wanted: &str) -> Result<(), Failure> {
    let (provider, rest) = wanted.split_once(':').unwrap_or(("", wanted));
    let text = match provider {
        "" => functions(facts, "kprobe", false, rest) + &tracepoints(facts, "*", rest),
        "*" => functions(facts, "kprobe", false, rest) + &tracepoints(facts, "*", rest.rsplit(':').next().unwrap_or(rest)),
        "kprobe" | "k" => functions(facts, "kprobe", false, rest),
        "kretprobe" | "kr" => functions(facts, "kretprobe", false, rest),
        "fentry" | "f" | "kfunc" => functions(facts, "fentry", true, rest),
        "fexit" | "fr" | "kretfunc" => functions(facts, "fexit", true, rest),
        "tracepoint" | "t" => {
            let (group, event) = rest.split_once(':').unwrap_or((rest, "*"));
            tracepoints(facts, group, event)
        }
        "uprobe" | "u" | "uretprobe" | "ur" => {
            let (path, function) = in_file(rest, provider)?;
            let full = if provider.starts_with("ur") { "uretprobe" } else { "uprobe" };
            let names = facts.program_functions(path, function).map_err(Failure::failed)?;
            names.iter().map(|name| format!("{full}:{path}:{name}\n")).collect()
        }
        "usdt" | "U" => {
            let (path, rest) = in_file(rest, provider)?;
            let (group, name) = rest.rsplit_once(':').unwrap_or(("*", rest));
            let mut lines: Vec<String> = facts.usdt(path, group, name).map_err(Failure::failed)?.into_iter().map(usdt).collect();
            lines.dedup();
            lines.iter().map(|line| format!("usdt:{path}:{line}\n")).collect()
        }
        "rawtracepoint" | "rt" => raw_tracepoints(facts, rest.rsplit(':').next().unwrap_or(rest)),
        _ => {
            return Err(Failure::usage(format!("nothing can be listed for `{provider}`")).advise(
                "kprobe, kretprobe, fentry, fexit, uprobe, uretprobe, usdt, tracepoint and rawtracepoint are listed: -l 'kprobe:vfs_*', or -l '*sleep*'",
            ));
        }
    };
    if text.is_empty() {
        return Err(Failure::failed(format!("nothing matches `{wanted}`")));
    }
    output::emit(&text)
}

/// Splits a file of the guest from the pattern behind it. Without a pattern, everything in the file is meant.
fn in_file<'a>(rest: &'a str, provider: &str) -> Result<(&'a str, &'a str), Failure> {
    if !rest.starts_with('/') {
        return Err(Failure::usage(format!("{provider} is followed by the path of a file in the guest"))
            .advise(format!("-l '{provider}:/bin/busybox:*'")));
    }
    Ok(rest.split_once(':').unwrap_or((rest, "*")))
}

/// A USDT probe: its provider and its name.
fn usdt(found: Usdt) -> String {
    format!("{}:{}", found.provider, found.name)
}

/// Lists functions that match. If `typed`, only functions with a known prototype, with their parameters.
fn functions(facts: &Facts<'_>, provider: &str, typed: bool, pattern: &str) -> String {
    let mut text = String::new();
    for function in facts.functions(pattern, matches!(provider, "kretprobe" | "fexit")) {
        let prototype = facts.types().and_then(|types| types.function(&function));
        if typed && prototype.is_none() {
            continue;
        }
        text += &format!("{provider}:{function}\n");
        if let (true, Some(prototype)) = (typed, prototype) {
            for (parameter, kind) in prototype.parameters {
                text += &format!("    {} {parameter}\n", kind.name());
            }
            if provider == "fexit" {
                text += &format!("    {} retval\n", prototype.result.name());
            }
        }
    }
    text
}

/// Lists the tracepoints that match, with their fields.
fn tracepoints(facts: &Facts<'_>, group: &str, event: &str) -> String {
    let mut text = String::new();
    for found in facts.tracepoints(group, event) {
        text += &format!("tracepoint:{}:{}\n", found.group, found.name);
        let types = facts.types();
        let record = types.and_then(|types| types.named(Some(Tag::Struct), &format!("trace_event_raw_{}", found.class)));
        if let (Some(types), Some(CType::Struct(record, _))) = (types, record) {
            for (name, field) in types.fields(record).iter().filter(|(name, _)| !matches!(name.as_str(), "ent" | "__data")) {
                text += &match name.strip_prefix("__data_loc_") {
                    Some(name) => format!("    char[] {name}\n"),
                    None => format!("    {} {name}\n", field.kind.name()),
                };
            }
        }
    }
    for call in facts.system_calls().into_iter().filter(|_| pattern::matches(group, "syscalls")) {
        for (way, fields) in [("enter", call.parameters()), ("exit", "    long ret\n".into())] {
            let name = format!("sys_{way}_{}", call.name);
            if pattern::matches(event, &name) {
                text += &format!("tracepoint:syscalls:{name}\n    int __syscall_nr\n{fields}");
            }
        }
    }
    text
}

/// Lists the raw tracepoints that match, with the arguments of their trace functions.
fn raw_tracepoints(facts: &Facts<'_>, event: &str) -> String {
    let mut text = String::new();
    for found in facts.tracepoints("*", event) {
        text += &format!("rawtracepoint:{}\n", found.name);
        let function = facts.types().and_then(|types| types.function(&format!("__traceiter_{}", found.name)));
        // The first parameter is `__data`, which belongs to the trace function itself.
        for (name, kind) in function.iter().flat_map(|function| function.parameters.iter().skip(1)) {
            text += &format!("    {} {name}\n", kind.name());
        }
    }
    text
}
