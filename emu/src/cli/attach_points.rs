//! `trapline trace IMAGE -l`: the attach points that scripts may name in a guest, with their arguments.

use super::Failure;
use super::output;
use crate::probed::scripts::Facts;
use crate::symbols::pattern;
use trapline_probes::script::Knowledge;
use trapline_probes::script::types::{CType, Tag};

/// `-l`: attach points by a pattern such as `kprobe:vfs_*`.
pub(super) fn list(facts: &Facts<'_>, wanted: &str) -> Result<(), Failure> {
    let (provider, function) = wanted.split_once(':').unwrap_or((if wanted == "*" { "kprobe" } else { wanted }, "*"));
    match provider {
        "tracepoint" | "t" => return list_tracepoints(facts, function),
        "rawtracepoint" | "rt" => return list_raw_tracepoints(facts, function),
        _ => {}
    }
    let (name, typed) = match provider {
        "kprobe" | "k" | "*" => ("kprobe", false),
        "kretprobe" | "kr" => ("kretprobe", false),
        "fentry" | "f" | "kfunc" => ("fentry", true),
        "fexit" | "fr" | "kretfunc" => ("fexit", true),
        _ => {
            return Err(Failure::usage(format!("nothing can be listed for `{provider}`"))
                .advise("kprobe, kretprobe, fentry, fexit, tracepoint and rawtracepoint are listed: -l 'kprobe:vfs_*'"));
        }
    };
    let mut text = String::new();
    for function in facts.functions(function, name.ends_with("exit") || name == "kretprobe") {
        let prototype = facts.types().and_then(|types| types.function(&function));
        if typed && prototype.is_none() {
            continue;
        }
        text += &format!("{name}:{function}\n");
        if let (true, Some(prototype)) = (typed, prototype) {
            for (parameter, kind) in prototype.parameters {
                text += &format!("    {} {parameter}\n", kind.name());
            }
            if name == "fexit" {
                text += &format!("    {} retval\n", prototype.result.name());
            }
        }
    }
    if text.is_empty() {
        return Err(Failure::failed(format!("nothing matches `{wanted}`")));
    }
    output::emit(&text)
}

/// `-l tracepoint:GROUP:EVENT`, with the fields of each.
fn list_tracepoints(facts: &Facts<'_>, wanted: &str) -> Result<(), Failure> {
    let (group, event) = wanted.split_once(':').unwrap_or((wanted, "*"));
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
    if text.is_empty() {
        return Err(Failure::failed(format!("nothing matches `tracepoint:{wanted}`")));
    }
    output::emit(&text)
}

/// `-l rawtracepoint:EVENT`, with the arguments of each.
fn list_raw_tracepoints(facts: &Facts<'_>, wanted: &str) -> Result<(), Failure> {
    let event = wanted.rsplit(':').next().unwrap_or(wanted);
    let mut text = String::new();
    for found in facts.tracepoints("*", event) {
        text += &format!("rawtracepoint:{}\n", found.name);
        let function = facts.types().and_then(|types| types.function(&format!("__traceiter_{}", found.name)));
        // The first is the function's own.
        for (name, kind) in function.iter().flat_map(|function| function.parameters.iter().skip(1)) {
            text += &format!("    {} {name}\n", kind.name());
        }
    }
    if text.is_empty() {
        return Err(Failure::failed(format!("nothing matches `rawtracepoint:{wanted}`")));
    }
    output::emit(&text)
}
