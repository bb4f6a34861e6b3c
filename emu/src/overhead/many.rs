//! Generated guests with many small functions, to measure what the number of probes costs. The guest calls the first
//! function in an endless loop. They run on the `bare` board; `many/guests.rs` has a row for each ISA.

mod guests;
pub mod loops;

use super::bench_loop::BenchLoop;
use crate::boot::{Kernel, Segment};
use crate::machine::Config;
use crate::probed::Session;
use crate::symbols::{Entry, Symbols};
use trapline_isa::arch::Arch;
use trapline_isa::mem::ByteOrder;
use trapline_probes::probe::{Flow, Kprobe};

/// All guests.
pub const ALL: &[Many] = guests::ALL;
/// The guest to use where only one is measured.
pub const FIRST: &Many = &ALL[0];

/// Bytes from one function to the next.
const DISTANCE: u64 = 16;
/// Offset of the page tables from the start of RAM. The offsets below count from there, too.
const TABLES: u64 = 0x10_0000;
pub(super) const ENTRY: u64 = 0x20_0000;
const LOOP: u64 = 0x20_0100;
const FUNCTIONS: u64 = 0x40_0000;
const PAGE: u64 = 4096;

/// A guest of many functions.
pub struct Many {
    /// The name on the command line, such as `many/x86_64`.
    pub name: &'static str,
    /// The guest's ISA.
    pub arch: Arch,
    /// The largest number of functions. The window has room for a probe on each of them.
    pub most: usize,
    /// The physical address at which RAM starts.
    ram: u64,
    /// The virtual address of the start of RAM.
    base: u64,
    tables: &'static [Entries],
    /// Code from the machine's entry point to the loop. It sets up the MMU.
    entry: Code,
    /// The loop, which calls the first function.
    calls: Code,
    /// One function: an instruction that can be optimised, and a return.
    function: Code,
}

/// A run of page-table entries at equal distances.
struct Entries {
    /// Byte offset from the start of the tables.
    at: u64,
    first: u64,
    step: u64,
    count: u64,
    /// Bytes per entry.
    bytes: usize,
}

/// Machine code, as bytes or as 32-bit words in the guest's byte order.
#[derive(Clone, Copy)]
enum Code {
    Bytes(&'static [u8]),
    Words(&'static [u32]),
}

impl Code {
    const NONE: Code = Code::Bytes(&[]);

    /// Length in bytes.
    fn len(self) -> u64 {
        match self {
            Code::Bytes(bytes) => bytes.len() as u64,
            Code::Words(words) => 4 * words.len() as u64,
        }
    }

    fn bytes(self, order: ByteOrder) -> Vec<u8> {
        match self {
            Code::Bytes(bytes) => bytes.to_vec(),
            Code::Words(words) => {
                let mut bytes = vec![0; 4 * words.len()];
                bytes.chunks_exact_mut(4).zip(words).for_each(|(to, word)| order.put((*word).into(), to));
                bytes
            }
        }
    }
}

/// The guest with that name.
pub fn find(name: &str) -> Option<&'static Many> {
    ALL.iter().find(|many| many.name == name)
}

impl Many {
    /// The address of a function.
    pub fn address(&self, number: usize) -> u64 {
        self.base + FUNCTIONS + number as u64 * DISTANCE
    }

    /// Starts the guest with that many functions and lets it run into its loop.
    pub fn bench_loop(&self, functions: usize) -> Result<BenchLoop, String> {
        let config = Config { window: 16 << 20, ..Config::default() };
        let session = Session::new(self.kernel(functions.min(self.most)), &config).map_err(|error| error.to_string())?;
        BenchLoop::in_session(session, "function_0")
    }

    /// Makes a kprobe with an empty handler for each of the first `count` functions.
    pub fn probes(&self, count: usize) -> Vec<Kprobe> {
        (0..count).map(|number| Kprobe::at_address(self.address(number)).pre(|_| Flow::Continue)).collect()
    }

    fn kernel(&self, functions: usize) -> Kernel {
        let function = self.filled(self.function, DISTANCE);
        let code = [self.filled(self.entry, LOOP - ENTRY), self.calls.bytes(self.arch.isa().order)].concat();
        let pieces = vec![
            self.piece(TABLES, self.table_bytes(), false),
            self.piece(ENTRY, code, true),
            self.piece(FUNCTIONS, function.repeat(functions), true),
        ];
        let end = self.address(functions);
        let ends = [(self.base + ENTRY, "_stext"), (end, "_etext"), (end, "_end")].map(|(at, name)| (at, name.to_string()));
        self.kernel_of(pieces, (0..functions).map(|number| (self.address(number), format!("function_{number}"))).chain(ends))
    }

    fn piece(&self, offset: u64, bytes: Vec<u8>, executable: bool) -> Segment {
        let size = (bytes.len() as u64).next_multiple_of(PAGE);
        Segment { physical: self.ram + offset, virtual_address: self.base + offset, bytes: bytes.into(), size, executable }
    }

    fn kernel_of(&self, pieces: Vec<Segment>, names: impl IntoIterator<Item = (u64, String)>) -> Kernel {
        let named = |(address, name): (u64, String)| Entry { address, name: name.into(), kind: 'T', module: None };
        Kernel::from_parts(self.arch, self.ram + ENTRY, pieces, Symbols::new(names.into_iter().map(named).collect()))
    }

    /// The code, filled up to `length` bytes with breakpoints.
    fn filled(&self, code: Code, length: u64) -> Vec<u8> {
        let mut bytes = code.bytes(self.arch.isa().order);
        let breakpoints = self.arch.isa().breakpoint.iter().cycle();
        bytes.extend(breakpoints.take((length as usize).saturating_sub(bytes.len())));
        bytes
    }

    fn table_bytes(&self) -> Vec<u8> {
        let mut tables = Vec::new();
        for entries in self.tables {
            for number in 0..entries.count {
                let at = entries.at as usize + number as usize * entries.bytes;
                if tables.len() < at + entries.bytes {
                    tables.resize(at + entries.bytes, 0);
                }
                let value = entries.first + number * entries.step;
                self.arch.isa().order.put(value, &mut tables[at..at + entries.bytes]);
            }
        }
        tables
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// KP-1, OP-1: with many armed probes, all are optimised, and only the called function's probe is hit.
    #[test]
    fn many_probes_stand_side_by_side_and_the_one_that_is_called_is_hit() {
        for many in ALL {
            let name = many.name;
            let mut bench = many.bench_loop(500).unwrap_or_else(|why| panic!("{name}: {why}"));
            let probes = many.probes(500);
            bench.session().with_engine(|engine, guest| engine.register_kprobes(guest, &probes)).expect("they may stand there");
            bench.run(10_000).expect("it goes on");
            assert!(probes[0].hits() > 1000, "{name}: {} hits", probes[0].hits());
            assert!(probes[1..].iter().all(|probe| probe.hits() == 0), "{name}");
            let summaries = bench.session().with_engine(|engine, guest| engine.summary(guest));
            let optimised = summaries.iter().filter(|summary| summary.mode.name() == "optimized").count();
            assert_eq!(optimised, 500, "{name}");
            bench.session().with_engine(|engine, guest| engine.unregister_kprobes(guest, &probes));
            bench.run(1_000).expect("it goes on");
        }
    }

    /// OP-1: every function of the largest guest can be probed at once.
    #[test]
    fn all_functions_can_be_probed_at_once() {
        for many in ALL {
            let mut bench = many.bench_loop(many.most).unwrap_or_else(|why| panic!("{}: {why}", many.name));
            let probes = many.probes(many.most);
            let armed = bench.session().with_engine(|engine, guest| engine.register_kprobes(guest, &probes));
            assert_eq!(armed.map_err(|refusal| refusal.to_string()), Ok(()), "{}", many.name);
        }
    }
}
