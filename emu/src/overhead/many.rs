//! A guest of many functions, made by a program: as many places to probe as are asked for, one instruction block each, in a loop that calls
//! the first of them for ever. For what the number of probes costs; 64-bit x86, on the `bare` board.

use super::bench_loop::BenchLoop;
use crate::boot::{Kernel, Segment};
use crate::machine::Config;
use crate::probed::Session;
use crate::symbols::{Entry, Symbols};
use trapline_isa::arch::Arch;

/// The most functions that the board's memory has room for.
pub const MOST: usize = 100_000;
/// Bytes from one to the next.
const DISTANCE: u64 = 16;
/// Where the kernel sees physical 0.
const BASE: u64 = 0xffff_ffff_8100_0000;
const TABLES: u64 = 0x10_0000;
const ENTRY: u64 = 0x20_0000;
const LOOP: u64 = 0x20_0100;
const FUNCTIONS: u64 = 0x40_0000;
const STACK_END: u64 = 0xa0_0000;
const PAGE: u64 = 4096;
const LARGE_PAGE: u64 = 2 << 20;
/// Present, writable.
const TABLE: u64 = 3;
/// The same, accessed, dirty, large.
const LARGE: u64 = 0xe3;
/// A nop of five bytes and a return, as functions of a tracing kernel begin.
const FUNCTION: [u8; 6] = [0x0f, 0x1f, 0x44, 0x00, 0x00, 0xc3];
const BREAKPOINT: u8 = 0xcc;

/// The address of a function.
pub fn address(number: usize) -> u64 {
    BASE + FUNCTIONS + number as u64 * DISTANCE
}

/// The guest in its loop.
pub fn bench_loop(functions: usize) -> Result<BenchLoop, String> {
    let config = Config { window: 16 << 20, ..Config::default() };
    let session = Session::new(kernel(functions.min(MOST)), &config).map_err(|error| error.to_string())?;
    BenchLoop::in_session(session, "function_0")
}

fn kernel(functions: usize) -> Kernel {
    let piece = |physical: u64, bytes: Vec<u8>, executable: bool| {
        let size = (bytes.len() as u64).next_multiple_of(PAGE);
        Segment { physical, virtual_address: BASE + physical, bytes, size, executable }
    };
    let mut text = Vec::with_capacity(functions * DISTANCE as usize);
    for _ in 0..functions {
        text.extend_from_slice(&FUNCTION);
        text.resize(text.len().next_multiple_of(DISTANCE as usize), BREAKPOINT);
    }
    let segments = vec![piece(TABLES, tables(), false), piece(ENTRY, code(), true), piece(FUNCTIONS, text, true)];
    let named = |address: u64, name: String| Entry { address, name: name.into(), kind: 'T', module: None };
    let mut names: Vec<Entry> = (0..functions).map(|number| named(address(number), format!("function_{number}"))).collect();
    let end = address(functions);
    names.extend([(BASE + ENTRY, "_stext"), (end, "_etext"), (end, "_end")].map(|(at, name)| named(at, name.into())));
    Kernel::from_parts(Arch::X86_64, ENTRY, segments, Symbols::new(names))
}

/// The first 16 MiB one to one and at [`BASE`]; the window's entries are left empty.
fn tables() -> Vec<u8> {
    const TOP: usize = 0;
    const LOW: usize = 1;
    const LOW_PAGES: usize = 2;
    const HIGH: usize = 3;
    const HIGH_PAGES: usize = 4;
    let mut words = vec![[0u64; 512]; 5];
    let table = |number: usize| (TABLES + number as u64 * PAGE) | TABLE;
    let index = |address: u64, shift: u32| (address >> shift & 511) as usize;
    words[TOP][0] = table(LOW);
    words[TOP][index(BASE, 39)] = table(HIGH);
    words[LOW][0] = table(LOW_PAGES);
    words[HIGH][index(BASE, 30)] = table(HIGH_PAGES);
    for page in 0..8 {
        let entry = (page as u64 * LARGE_PAGE) | LARGE;
        words[LOW_PAGES][page] = entry;
        words[HIGH_PAGES][index(BASE, 21) + page] = entry;
    }
    words.iter().flatten().flat_map(|word| word.to_le_bytes()).collect()
}

/// The entry, and the loop behind it.
fn code() -> Vec<u8> {
    let mut code = vec![0xb8]; // mov eax, tables; mov cr3, rax
    code.extend_from_slice(&(TABLES as u32).to_le_bytes());
    code.extend_from_slice(&[0x0f, 0x22, 0xd8, 0x48, 0xbc]); // mov rsp, the stack's end
    code.extend_from_slice(&(BASE + STACK_END).to_le_bytes());
    code.extend_from_slice(&[0x48, 0xb8]); // mov rax, the loop; jmp rax
    code.extend_from_slice(&(BASE + LOOP).to_le_bytes());
    code.extend_from_slice(&[0xff, 0xe0]);
    code.resize((LOOP - ENTRY) as usize, BREAKPOINT);
    code.push(0xe8); // call the first function; jmp back
    code.extend_from_slice(&((FUNCTIONS - LOOP - 5) as u32).to_le_bytes());
    code.extend_from_slice(&[0xeb, 0xf9]);
    code
}

#[cfg(test)]
mod tests {
    use super::*;
    use trapline_probes::probe::{Flow, Kprobe};

    /// KP-1, OP-1: with many probes armed each function has its own, all that can be are optimised, and the one that is called is hit.
    #[test]
    fn many_probes_stand_side_by_side_and_the_one_that_is_called_is_hit() {
        let mut bench = bench_loop(500).expect("the guest is in its loop");
        let probes: Vec<Kprobe> = (0..500).map(|number| Kprobe::at_address(address(number)).pre(|_| Flow::Continue)).collect();
        bench.session().with_engine(|engine, guest| engine.register_kprobes(guest, &probes)).expect("they may stand there");
        bench.run(10_000).expect("it goes on");
        assert!(probes[0].hits() > 1000, "{} hits", probes[0].hits());
        assert!(probes[1..].iter().all(|probe| probe.hits() == 0));
        let summaries = bench.session().with_engine(|engine, guest| engine.summary(guest));
        let optimised = summaries.iter().filter(|summary| summary.mode.name() == "optimized").count();
        assert_eq!(optimised, 500);
        bench.session().with_engine(|engine, guest| engine.unregister_kprobes(guest, &probes));
        bench.run(1_000).expect("it goes on");
    }
}
