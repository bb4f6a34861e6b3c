//! What the engine decides, held against what real kernels decided (the tables of ../shared/oracle, address by address).
//!
//! Needs these tables and the very kernels that gave the answers; where they are not at hand each test says so and is content. The
//! tables were made on running kernels, whose text had been patched: their 32 bytes of live text are written into the still copy.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use trapline::boot::Kernel;
use trapline::still::StillGuest;
use trapline_isa::plan::Policy;
use trapline_probes::Engine;
use trapline_probes::guest::Guest;
use trapline_probes::probe::{Flow, Kprobe, Kretprobe};

/// A kernel with a table.
struct Oracle {
    table: &'static str,
    blacklist: &'static str,
    image: &'static str,
}

const ORACLES: &[Oracle] = &[
    Oracle {
        table: "6.1.0-56-amd64-direct.open.tsv.gz",
        blacklist: "6.1.0-56-amd64.blacklist.txt.gz",
        image: "6.1.0-56-amd64/vmlinuz-6.1.0-56-amd64",
    },
    Oracle {
        table: "6.1.0-50-686-direct.open.tsv.gz",
        blacklist: "6.1.0-50-686.blacklist.txt.gz",
        image: "6.1.0-50-686/vmlinuz-6.1.0-50-686",
    },
];

/// A line of a table, as far as it is used here.
struct Row {
    address: u64,
    symbol: String,
    offset: u64,
    size: u64,
    live: Option<Vec<u8>>,
    image: Option<Vec<u8>>,
    insn: String,
    result: String,
    status: String,
    kind: String,
    category: String,
}

fn shared(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared").join(folder)
}
