//! Reads the names of a kernel's system calls, by number, from its table of functions.
//!
//! This needs no symbol of the table: it is the longest run of words that are all addresses of system calls' functions.

use super::Kernel;
use super::tracepoints::words;
use std::collections::HashMap;

/// A shorter run is not a table.
const FEWEST: usize = 200;
/// The function in unused places of the table.
const NONE: &str = "ni_syscall";
/// Functions whose names differ from the names of their calls: on all ISAs, and on 64-bit ISAs.
const RENAMED: &[(&str, &str)] = &[
    ("newstat", "stat"),
    ("newfstat", "fstat"),
    ("newlstat", "lstat"),
    ("newuname", "uname"),
    ("umount", "umount2"),
    ("oldumount", "umount"),
];
const RENAMED_64: &[(&str, &str)] = &[("sendfile64", "sendfile")];

/// Returns the names by number, empty for unused numbers; an empty list if no table is found.
pub fn names(kernel: &Kernel) -> Vec<String> {
    let isa = kernel.arch.isa();
    let prefix = isa.linux.system_calls.prefix;
    let mut functions: HashMap<u64, &str> = HashMap::new();
    for entry in kernel.symbols.places() {
        let name = entry.name.strip_prefix(prefix).or_else(|| entry.name.strip_prefix("sys_").filter(|name| *name == NONE));
        if let Some(name) = name {
            // Any of a function's names will do, except that `ni_syscall` must win if it is one of them.
            let known = functions.entry(entry.address).or_insert(name);
            if name == NONE {
                *known = name;
            }
        }
    }
    let (mut longest, mut run) = (Vec::new(), Vec::new());
    let mut next = 0;
    for (at, value) in words(kernel, isa.word).chain([(0, 0)]) {
        match functions.get(&value) {
            Some(name) if at == next || run.is_empty() => run.push(*name),
            found => {
                if run.len() > longest.len() {
                    longest = std::mem::take(&mut run);
                }
                run.clear();
                run.extend(found);
            }
        }
        next = at + isa.word as u64;
    }
    if longest.len() < FEWEST {
        return Vec::new();
    }
    let renamed = RENAMED.iter().chain(if isa.word == 8 { RENAMED_64 } else { &[] });
    let renamed: HashMap<&str, &str> = renamed.copied().collect();
    let name = |name: &str| if name == NONE { String::new() } else { renamed.get(name).copied().unwrap_or(name).to_string() };
    longest.into_iter().map(name).collect()
}
