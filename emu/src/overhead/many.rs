//! Guests of many functions, made by a program: as many places to probe as are asked for, one instruction block each,
//! in a loop that calls the first of them for ever. For what the number of probes costs, on the `bare` board; a row of
//! `many/guests.rs` for each ISA.

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

/// All of them.
pub const ALL: &[Many] = guests::ALL;
/// The one for which a figure stands where there is room for one.
pub const FIRST: &Many = &ALL[0];

/// Bytes from one function to the next.
const DISTANCE: u64 = 16;
/// From the start of RAM.
const TABLES: u64 = 0x10_0000;
const ENTRY: u64 = 0x20_0000;
const LOOP: u64 = 0x20_0100;
const FUNCTIONS: u64 = 0x40_0000;
const PAGE: u64 = 4096;

/// A guest of many functions.
pub struct Many {
    /// As `many/x86_64`.
    pub name: &'static str,
    /// What it runs on.
    pub arch: Arch,
    /// The most functions that it has, each of which can be probed: the window holds so many.
    pub most: usize,
    /// Where RAM starts.
    ram: u64,
    /// Where the kernel sees that.
    base: u64,
    tables: &'static [Entries],
    /// From the machine's hand-over to the loop.
    entry: Code,
    /// The loop.
    calls: Code,
    /// An instruction that a jump can take the place of, and a return.
    function: Code,
}

/// Equidistant entries of page tables.
struct Entries {
    /// From the start of the tables.
    at: u64,
    first: u64,
    step: u64,
    count: u64,
    /// The bytes of each entry.
    bytes: usize,
}

/// Instructions.
#[derive(Clone, Copy)]
enum Code {
    Bytes(&'static [u8]),
    Words(&'static [u32]),
}

impl Code {
    const NONE: Code = Code::Bytes(&[]);

    /// Bytes in them.
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

/// The guest of that name.
pub fn find(name: &str) -> Option<&'static Many> {
    ALL.iter().find(|many| many.name == name)
}

impl Many {
    /// The address of a function.
    pub fn address(&self, number: usize) -> u64 {
        self.base + FUNCTIONS + number as u64 * DISTANCE
    }

    /// The guest with so many functions, in its loop.
    pub fn bench_loop(&self, functions: usize) -> Result<BenchLoop, String> {
        let config = Config { window: 16 << 20, ..Config::default() };
        let session = Session::new(self.kernel(functions.min(self.most)), &config).map_err(|error| error.to_string())?;
        BenchLoop::in_session(session, "function_0")
    }

    /// A probe for each of the first so many functions, with a handler that does nothing.
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
        Segment { physical: self.ram + offset, virtual_address: self.base + offset, bytes, size, executable }
    }

    fn kernel_of(&self, pieces: Vec<Segment>, names: impl IntoIterator<Item = (u64, String)>) -> Kernel {
        let named = |(address, name): (u64, String)| Entry { address, name: name.into(), kind: 'T', module: None };
        Kernel::from_parts(self.arch, self.ram + ENTRY, pieces, Symbols::new(names.into_iter().map(named).collect()))
    }

    /// Code and, as far as that, breakpoints.
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

    /// KP-1, OP-1: with many probes armed each function has its own, all that can be are optimised, and the one that is
    /// called is hit.
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

    /// OP-1: the last function of each guest can be probed when all before it are.
    #[test]
    fn as_many_stand_there_as_a_guest_has_functions() {
        for many in ALL {
            let mut bench = many.bench_loop(many.most).unwrap_or_else(|why| panic!("{}: {why}", many.name));
            let probes = many.probes(many.most);
            let armed = bench.session().with_engine(|engine, guest| engine.register_kprobes(guest, &probes));
            assert_eq!(armed.map_err(|refusal| refusal.to_string()), Ok(()), "{}", many.name);
        }
    }
}
