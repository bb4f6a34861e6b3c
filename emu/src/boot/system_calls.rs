//! The names of a kernel's system calls by their numbers, out of its table of their functions.
//!
//! No symbol of data is needed: the table is the longest run of words that are all addresses of such functions.

use super::Kernel;
use super::tracepoints::words;
use std::collections::HashMap;

/// A table is not shorter.
const FEWEST: usize = 200;
/// What stands where no call is.
const NONE: &str = "ni_syscall";
/// Functions whose names are not those of their calls: everywhere, and where a word has 64 bits.
const RENAMED: &[(&str, &str)] = &[
    ("newstat", "stat"),
    ("newfstat", "fstat"),
    ("newlstat", "lstat"),
    ("newuname", "uname"),
    ("umount", "umount2"),
    ("oldumount", "umount"),
];
const RENAMED_64: &[(&str, &str)] = &[("sendfile64", "sendfile")];

/// By number; an empty name where there is no call. Nothing where no table is found.
pub fn names(kernel: &Kernel) -> Vec<String> {
    let isa = kernel.arch.isa();
    let prefix = isa.linux.system_calls.prefix;
    let mut functions: HashMap<u64, &str> = HashMap::new();
    for entry in kernel.symbols.places() {
        let name = entry.name.strip_prefix(prefix).or_else(|| entry.name.strip_prefix("sys_").filter(|name| *name == NONE));
        if let Some(name) = name {
            // Of several names of one function the first is as good as any, but for the one that says there is none.
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
