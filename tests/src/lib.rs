//! Code shared by the test families. Each family is a file in `tests/` and tests one promise of the project.
//!
//! The families are generic: a new ISA joins all of them by its row in `images/src/lib.rs`.

pub mod facts;
pub mod lab;
pub mod mips;
pub mod oracle;
pub mod releases;
pub mod stacks;
pub mod stock;

pub use facts::GUESTS;
use trapline::boot::Kernel;
use trapline::machine::{Config, Happening, Stop};
use trapline::probed::Session;
use trapline_isa::arch::Arch;
use trapline_isa::function;
use trapline_probes::probe::{Flow, Kprobe};

/// The guests whose ISA supports jump optimisation. Thumb has none, as in Linux 6.1.
pub fn jumping_guests() -> impl Iterator<Item = (Arch, &'static str)> {
    GUESTS.iter().copied().filter(|(arch, _)| arch.isa().detour.is_some())
}

/// The guests that can be saved in a snapshot (`Model::named`): all of them.
pub fn saved_guests() -> impl Iterator<Item = &'static str> {
    GUESTS.iter().map(|(_, name)| *name)
}

/// Far more virtual time than the tiny kernel needs, in nanoseconds.
pub const LONG: u64 = 2_000_000_000;

/// Loads a built-in kernel.
pub fn kernel(name: &str) -> Kernel {
    let builtin = trapline_images::find(name).unwrap_or_else(|| panic!("{name} is built in"));
    Kernel::from_bytes(builtin.bytes).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// A session with a built-in kernel at its entry point. It logs all events of the run.
pub fn session(name: &str, cpus: usize) -> Session {
    session_with(name, &Config { cpus, record_events: true, ..Config::default() })
}

/// Like [`session`], with a given configuration.
pub fn session_with(name: &str, config: &Config) -> Session {
    Session::new(kernel(name), config).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Everything that two equal runs must have in common.
#[derive(Debug, PartialEq, Eq)]
pub struct Run {
    /// The reason why it ended.
    pub stop: Stop,
    /// All console output.
    pub console: String,
    /// The virtual time at the end, in ticks.
    pub time: u64,
    /// Every interrupt, exception, system call, sleep and clock read, in order.
    pub happenings: Vec<Happening>,
}

/// Runs a session to its end.
pub fn run(session: &mut Session) -> Run {
    let stop = session.run_until(LONG);
    let machine = session.machine_mut();
    let console = String::from_utf8_lossy(&machine.take_console()).into_owned();
    Run { stop, console, time: machine.time(), happenings: machine.happenings().to_vec() }
}

/// The checksum line in the tiny kernel's output.
pub fn checksum(console: &str) -> &str {
    console
        .lines()
        .find(|line| line.contains("checksum:"))
        .and_then(|line| line.split("] ").nth(1))
        .unwrap_or("no checksum was printed")
}

/// Fails with a message about the first difference between two runs.
pub fn assert_same(what: &str, expected: &Run, seen: &Run) {
    let first = expected.happenings.iter().zip(&seen.happenings).position(|(one, other)| one != other);
    if let Some(at) = first {
        panic!("{what}: happening {at} differs: expected {:x?}, seen {:x?}", expected.happenings[at], seen.happenings[at]);
    }
    assert_eq!(expected.happenings.len(), seen.happenings.len(), "{what}: number of happenings");
    for (number, (one, other)) in expected.console.lines().zip(seen.console.lines()).enumerate() {
        assert_eq!(one, other, "{what}: line {number} of the console");
    }
    assert_eq!(expected.console, seen.console, "{what}: the console");
    assert_eq!((&expected.stop, expected.time), (&seen.stop, seen.time), "{what}: the end");
}

/// The functions in a kernel's text: name, start, size.
pub fn functions(kernel: &Kernel) -> Vec<(String, u64, u64)> {
    let text = kernel.symbols.address_of("_stext").zip(kernel.symbols.address_of("_etext"));
    let init = kernel.symbols.address_of("_sinittext").zip(kernel.symbols.address_of("_einittext"));
    let ranges = [text, init].into_iter().flatten().map(|(start, end)| start..end);
    ranges.flat_map(|range| kernel.symbols.extents(range)).map(|symbol| (symbol.name, symbol.start, symbol.size)).collect()
}

/// Probes on all functions whose names begin so, and on up to twice `most` others over the whole text.
pub fn probes_among(kernel: &Kernel, beginnings: &[&str], most: usize) -> Vec<Kprobe> {
    let names: Vec<String> = functions(kernel).into_iter().map(|(name, _, _)| name).collect();
    let is_near = |name: &str| beginnings.iter().any(|beginning| name.starts_with(beginning));
    let (near, others): (Vec<&String>, Vec<&String>) = names.iter().partition(|name| is_near(name));
    let others = others.into_iter().step_by(names.len().div_ceil(2 * most));
    near.into_iter().chain(others).map(|name| Kprobe::at(name.clone()).pre(|_| Flow::Continue)).collect()
}

/// The addresses of the instructions in the exception table. On MIPS an instruction in a delay slot is decoded together with
/// its branch, so the branch's address is returned.
pub fn expected_faults(kernel: &Kernel) -> Vec<u64> {
    let places = boundaries(kernel);
    let holds = |site: u64| places.iter().copied().filter(|place| *place <= site).max().unwrap_or(site);
    kernel.tables.exceptions.iter().map(|row| holds(row.instruction)).collect()
}

/// Every instruction boundary in the kernel's functions.
pub fn boundaries(kernel: &Kernel) -> Vec<u64> {
    let isa = kernel.arch.isa();
    let each = |(_, start, size): (String, u64, u64)| {
        function::walk(isa, start, start + size, |at, into: &mut [u8]| kernel.read(at, into))
            .map_while(Result::ok)
            .map(|insn| insn.address)
            .filter(|address| !kernel.symbols.is_data(*address))
            .collect::<Vec<_>>()
    };
    functions(kernel).into_iter().flat_map(each).collect()
}

/// Registers a probe and returns true if it stands exactly at `at`. A probe at a function's other entry would be moved;
/// it is unregistered again.
pub fn stands_alone(session: &mut Session, probe: &Kprobe, at: u64) -> bool {
    let stands = session.register_kprobe(probe).is_ok();
    if stands && probe.address() != Some(at) {
        session.unregister_kprobe(probe);
        return false;
    }
    stands
}

/// The address of a probe at a function's entry. On some ISAs it lies a little after the symbol.
pub fn entry_of(session: &mut Session, function: &str) -> u64 {
    let probe = Kprobe::at(function).disabled();
    session.register_kprobe(&probe).unwrap_or_else(|why| panic!("{function}: {why}"));
    let at = probe.address().unwrap_or_else(|| panic!("{function} is registered"));
    session.unregister_kprobe(&probe);
    at
}
