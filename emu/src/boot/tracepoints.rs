//! Finds the tracepoints of a kernel in its own data: their names, their sites in the code, and the functions that
//! write their records.
//!
//! This needs only the names of functions. Exactly one word of data is the address of `__traceiter_X`: it is in the
//! tracepoint X. One is the address of `trace_event_raw_event_CLASS`: it is in the class. A trace event has pointers to
//! both. The sites of a tracepoint are the jump labels of its key.

use super::Kernel;
use super::btf::Btf;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use trapline_probes::tracepoint::Tracepoint;

const ITERATOR: &str = "__traceiter_";
/// Functions with which code at a site gives the CPU away after it has called the tracepoint's functions, or asks whether to.
const YIELDS: [&str; 4] = [
    "__SCT__preempt_schedule_notrace",
    "preempt_schedule_notrace",
    "dynamic_preempt_schedule_notrace",
    "__preempt_count_dec_and_test",
];
/// The lock that a site's code holds while it calls these functions, since 7.0, and the pointer in it.
const LOCK: &str = "tracepoint_srcu";
const LOCK_POINTER: (&str, &str) = ("srcu_struct", "srcu_ctrp");
/// Prefix of the trampoline through which a site calls the iterator, on ISAs with static calls.
const STATIC_CALL: &str = "__SCT__tp_func_";
/// Functions that code at a site may call first: to find its CPU, or to take the lock, which is undone. A kernel has one copy
/// for each compiled file.
const HARMLESS: &[&str] = &["__kern_my_cpu_offset", "__srcu_read_lock_fast", "srcu_read_lock_fast_notrace"];
const WRITER: &str = "trace_event_raw_event_";
/// Limit for the events of one tracepoint, each of which gets a copy of its sites.
const MOST_EVENTS_OF_ONE: usize = 16;
/// Limit for the length of a subsystem's name.
const MOST_LETTERS: usize = 64;

/// Offsets of members in the kernel's structures.
struct Layout {
    word: usize,
    key: u64,
    iterator: u64,
    functions: u64,
    event_class: u64,
    event_tracepoint: u64,
    class_group: u64,
    class_writer: u64,
}

impl Layout {
    fn of(kernel: &Kernel, btf: &Btf<'_>) -> Option<Layout> {
        let at = |structure, member| btf.offset_of(structure, member);
        Some(Layout {
            word: kernel.arch.isa().word,
            key: at("tracepoint", "key")?,
            iterator: at("tracepoint", "iterator")?,
            functions: at("tracepoint", "funcs")?,
            event_class: at("trace_event_call", "class")?,
            event_tracepoint: at("trace_event_call", "tp")?,
            class_group: at("trace_event_class", "system")?,
            class_writer: at("trace_event_class", "probe")?,
        })
    }
}

/// All tracepoints that have records, sorted by group and name. If two have the same name, only one is returned.
pub fn of(kernel: &Kernel, btf: &Btf<'_>) -> Vec<Arc<Tracepoint>> {
    find(kernel, btf).unwrap_or_default()
}

fn find(kernel: &Kernel, btf: &Btf<'_>) -> Option<Vec<Arc<Tracepoint>>> {
    let layout = Layout::of(kernel, btf)?;
    let function = |name: &str| kernel.symbols.address_of(name);
    let (reserve, commit) = (function("trace_event_buffer_reserve")?, function("trace_event_buffer_commit")?);
    let named = |prefix: &'static str| {
        let all = kernel.symbols.places().iter().filter_map(move |entry| Some((entry.address, entry.name.strip_prefix(prefix)?)));
        all.collect::<HashMap<u64, &str>>()
    };
    let (iterators, writers) = (named(ITERATOR), named(WRITER));
    let (mut tracepoints, mut classes) = (HashMap::new(), HashMap::new());
    for (at, value) in words(kernel, layout.word) {
        if let Some(name) = iterators.get(&value) {
            // The address also occurs in words that are not in a tracepoint; a tracepoint begins with a pointer to its
            // name.
            let start = at.wrapping_sub(layout.iterator);
            if pointer(kernel, start, layout.word).and_then(|at| text(kernel, at)).as_deref() == Some(*name) {
                tracepoints.insert(start, *name);
            }
        } else if let Some(class) = writers.get(&value) {
            let start = at.wrapping_sub(layout.class_writer);
            let group = pointer(kernel, start.wrapping_add(layout.class_group), layout.word).and_then(|at| text(kernel, at));
            if let Some(group) = group {
                classes.insert(start, (group, *class, value));
            }
        }
    }
    let mut sites: HashMap<u64, Vec<(u64, u64)>> = HashMap::new();
    for label in kernel.tables.jump_labels.iter().filter(|label| kernel.tables.text.contains(&label.code)) {
        sites.entry(label.key).or_default().push((label.code, label.target));
    }
    let is_harmless = |name: &str| HARMLESS.contains(&name.split('.').next().unwrap_or(name));
    let harmless = kernel.symbols.places().iter().filter(|entry| is_harmless(&entry.name)).map(|entry| entry.address);
    let harmless: Arc<[u64]> = harmless.collect();
    let yields = kernel.symbols.places().iter().filter(|entry| YIELDS.contains(&&*entry.name)).map(|entry| entry.address);
    let yields: Vec<u64> = yields.collect();
    let lock = btf.offset_of(LOCK_POINTER.0, LOCK_POINTER.1).and_then(|offset| function(LOCK)?.checked_add(offset));
    let mut events = BTreeMap::new();
    let mut uses = HashMap::new();
    for (at, value) in words(kernel, layout.word) {
        let Some((group, class, writes)) = classes.get(&value) else { continue };
        let event = at.wrapping_sub(layout.event_class);
        let Some(tracepoint) = pointer(kernel, event.wrapping_add(layout.event_tracepoint), layout.word) else { continue };
        let (Some(name), Some(sites)) = (tracepoints.get(&tracepoint), sites.get(&tracepoint.wrapping_add(layout.key))) else {
            continue;
        };
        let uses = uses.entry(tracepoint).or_insert(0_usize);
        *uses += 1;
        if *uses > MOST_EVENTS_OF_ONE {
            continue;
        }
        let mut sites = sites.clone();
        sites.sort_unstable();
        let functions = tracepoint.wrapping_add(layout.functions);
        let found = Tracepoint {
            group: group.clone(),
            name: (*name).into(),
            class: (*class).into(),
            sites,
            calls: [ITERATOR, STATIC_CALL].iter().filter_map(|prefix| function(&format!("{prefix}{name}"))).collect(),
            harmless: Arc::clone(&harmless),
            may_loop: function(&format!("{STATIC_CALL}{name}")).is_none(),
            functions,
            writes: *writes,
            reserve,
            commit,
            yields: yields.clone(),
            lock,
        };
        events.insert((group.clone(), *name), Arc::new(found));
    }
    Some(events.into_values().collect())
}

/// The aligned words of the kernel's segments, as the file holds them.
pub(super) fn words(kernel: &Kernel, word: usize) -> impl Iterator<Item = (u64, u64)> + '_ {
    let order = kernel.arch.isa().order;
    kernel.segments.iter().flat_map(move |segment| {
        let skipped = segment.virtual_address.next_multiple_of(word as u64) - segment.virtual_address;
        let bytes = segment.bytes.get(skipped as usize..).unwrap_or_default();
        let at = segment.virtual_address + skipped;
        bytes.chunks_exact(word).enumerate().map(move |(number, bytes)| (at + (number * word) as u64, order.number(bytes)))
    })
}

fn pointer(kernel: &Kernel, at: u64, word: usize) -> Option<u64> {
    let mut bytes = [0; 8];
    kernel.read(at, &mut bytes[..word]).ok()?;
    Some(kernel.arch.isa().order.number(&bytes[..word]))
}

/// A name that ends with a zero byte.
fn text(kernel: &Kernel, at: u64) -> Option<String> {
    let mut bytes = [0; MOST_LETTERS];
    kernel.read(at, &mut bytes).ok()?;
    let end = bytes.iter().position(|byte| *byte == 0)?;
    let is_name = end > 0 && bytes[..end].iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
    is_name.then(|| String::from_utf8_lossy(&bytes[..end]).into_owned())
}
