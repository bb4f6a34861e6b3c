//! The lab runs a single instruction on a machine with its own page tables and exception handlers. It starts from a
//! known state, in place or under a probe, and everything that the instruction changed is compared.
//!
//! The differences between ISAs are in a table, [`Bench`]. A new ISA adds one.

pub mod arm;
pub mod arm64;
pub mod delivery;
pub mod hostile;
pub mod mips;
pub mod ppc;
pub mod riscv;
pub mod s390;
pub mod sparc64;
pub mod x86;

use capstone::{Capstone, CsResult};
use proptest::prelude::*;
use std::ops::Range;
use std::sync::LazyLock;
use trapline::boot::{Kernel, Segment};
use trapline::machine::{Config, Happening, Step, Stop, What};
use trapline::probed::Session;
use trapline::symbols::{Entry, Symbols};
use trapline_isa::arch::Arch;
use trapline_isa::detour::Form;
use trapline_isa::regs::{Reg, Registers};
use trapline_probes::context::Hit;
use trapline_probes::point::Mode;
use trapline_probes::probe::{Flow, Kprobe, Kretprobe};

/// Address of the instruction.
pub const PLACE: u64 = 0x20_0100;
const CODE: u64 = 0x20_0000;
const CODE_BYTES: u64 = 0x1000;
/// Data that registers point to.
pub const DATA: u64 = 0x30_0000;
/// Size of the data in bytes.
pub const DATA_BYTES: u64 = 0x2000;
/// Initial stack pointer, in the middle of the stack.
pub const STACK: u64 = 0x40_0800;
const STACK_BYTES: u64 = 0x1000;
/// Lowest address of the stack. Below it no memory is mapped.
pub const STACK_START: u64 = STACK - STACK_BYTES / 2;
/// The address at which code behind the case stores registers that the machine does not expose: x87 and SSE, vectors.
pub const MEDIA: u64 = 0x31_0000;
const MEDIA_BYTES: u64 = 512;
/// The end of the stack of exception handlers, where an ISA has one.
pub const EXCEPTION_STACK: u64 = 0x42_0000;
/// The page tables.
pub const PAGE_TABLES: u64 = 0x50_0000;
/// Memory for other needs of an ISA.
pub const FREE: u64 = 0x51_0000;
const FREE_BYTES: u64 = 0x3000;
/// The exception handlers.
pub const HANDLERS: u64 = 0x52_0000;
const HANDLERS_BYTES: u64 = 0x1000;
const ENTRY: u64 = 0x60_0000;
const ENTRY_BYTES: u64 = 0x100;
/// On 32-bit and 64-bit x86, the physical memory of the last page of the address space.
pub const LAST_PAGE: u64 = FREE + 0x4000;
/// Code that registers may point to, far from the probed instruction. A guest that reads or writes its own probed bytes
/// would see the breakpoint.
pub const ELSEWHERE: u64 = 0x70_2000;
const ELSEWHERE_BYTES: u64 = 0x4000;

/// A piece of initial memory: address, bytes, and the size of the memory.
pub type Piece = (u64, Vec<u8>, u64);

/// A reason, and the instructions that it applies to.
pub type Reason = (&'static str, fn(&[u8]) -> bool);

/// A reason, and the outcomes that it applies to.
pub type Outcome = (&'static str, fn(&Before, &After) -> bool);

/// The lab's table for one ISA.
pub struct Bench {
    /// Whether the bench of another width or byte order covers all instructions of this ISA.
    pub is_stood_for: bool,
    /// Physical start of RAM. The addresses above are relative to it.
    pub base: u64,
    /// The virtual address of `base`, near enough to the probe window for jumps.
    pub seen_from: u64,
    /// Whether the ISA has jump optimisation.
    pub jumps: bool,
    /// Whether a probe on the case is hit, if that is known. The breakpoint may be conditional.
    pub is_hit: fn(&Before) -> Option<bool>,
    /// An instruction that makes the CPU sleep for ever.
    pub halt: &'static [u8],
    /// A load from the address in any register: every register holds the same one. `None` if the ISA cannot probe one in
    /// the window.
    pub load: Option<&'static [u8]>,
    /// Code that sets up the machine and sleeps.
    pub set_up: fn(Arch) -> Vec<u8>,
    /// Initial memory, such as page tables.
    pub pieces: fn(Arch) -> Vec<Piece>,
    /// Memory that a case may overwrite and the next one needs.
    pub refreshed: fn(Arch) -> Vec<(u64, Vec<u8>)>,
    /// Code that runs after the case and stores registers that the machine does not expose.
    pub behind: fn(Arch) -> Vec<u8>,
    /// Registers that a case does not set.
    pub not_general: &'static [&'static str],
    /// Sets up other state for a case, before its registers are set.
    pub ready: fn(&mut dyn Registers, &Before),
    /// The flags register, and a function that turns random bits into its value.
    pub flags: (&'static str, fn(u64) -> u64),
    /// Media registers, which have no names.
    pub media: &'static [Reg],
    /// Whether the machine must not be reused after this case.
    pub ruined: fn(&After) -> bool,
    /// The register that holds the address of the last fault.
    pub fault_address: &'static str,
    /// Instructions that cannot be compared, with the reason.
    pub left_out: &'static [Reason],
    /// Outcomes in place that cannot be compared, with the reason.
    pub no_promise: &'static [Outcome],
    /// A list of instructions that are known to be hard.
    pub hard: &'static [(&'static str, Arch, &'static [u8])],
    /// Random instructions in random states.
    pub case: fn(Arch) -> BoxedStrategy<Before>,
    /// A disassembler, for messages.
    pub disassembler: fn(Arch) -> CsResult<Capstone>,
}

/// The ISAs that have a bench.
pub fn arches() -> impl Iterator<Item = Arch> {
    Arch::ALL.iter().copied().filter(|arch| bench_of(*arch).is_some())
}

/// The ISAs whose instructions are compared: those with a bench, without those that another one stands for.
pub static BENCHES: LazyLock<Vec<Arch>> = LazyLock::new(|| arches().filter(|arch| !bench(*arch).is_stood_for).collect());

/// Whether a case with these random bits single-steps its code: one in eight.
fn steps(drawn: u64) -> bool {
    drawn >> 61 == 7
}

/// The instruction's virtual address.
pub fn place(arch: Arch) -> u64 {
    bench(arch).seen_from + PLACE
}

/// The lab's table of an ISA.
///
/// # Panics
///
/// If the ISA has none.
pub fn bench(arch: Arch) -> &'static Bench {
    bench_of(arch).unwrap_or_else(|| panic!("{} has no bench", arch.name()))
}

fn bench_of(arch: Arch) -> Option<&'static Bench> {
    Some(match arch {
        Arch::I386 | Arch::X86_64 => &x86::BENCH,
        Arch::Arm64 => &arm64::BENCH,
        Arch::Arm => &arm::BENCH,
        Arch::Thumb2 => &arm::THUMB_BENCH,
        Arch::Ppc64le => &ppc::BENCH,
        Arch::Ppc64 => &ppc::BIG_BENCH,
        Arch::Ppc => &ppc::NARROW_BENCH,
        Arch::S390x => &s390::BENCH,
        Arch::Mips => &mips::BENCH_BIG_32,
        Arch::Mipsel => &mips::BENCH_LITTLE_32,
        Arch::Mips64 => &mips::BENCH_BIG_64,
        Arch::Mips64el => &mips::BENCH_LITTLE_64,
        Arch::Sparc64 => &sparc64::BENCH,
        Arch::Riscv64 => &riscv::BENCH_64,
        Arch::Riscv32 => &riscv::BENCH_32,
        // No machine runs it.
        Arch::Parisc | Arch::Ia64 => return None,
    })
}

/// The way the instruction is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// Without a probe.
    InPlace,
    /// Under a probe with a pre-handler.
    Probed,
    /// Under a probe with a pre-handler and a post-handler.
    Stepped,
    /// Under an optimised probe, if a jump is possible.
    Jumped,
    /// Under an optimised probe with a faithful detour, on ISAs that have them.
    Saved,
    /// Under a return probe, whose function begins with it.
    Followed,
    /// Under an optimised return probe, whose function begins with it.
    FollowedJumped,
}

/// The state before the case.
#[derive(Clone, Debug, Default)]
pub struct Before {
    /// The instruction.
    pub bytes: Vec<u8>,
    /// Code in front of the instruction. The run begins there.
    pub front: Vec<u8>,
    /// Code after the instruction.
    pub rest: Vec<u8>,
    /// General registers in the ABI table's order, without the stack pointer.
    pub registers: Vec<u64>,
    /// Random bits that determine the flags.
    pub flags: u64,
    /// Seed of the random data and stack contents.
    pub seed: u64,
    /// Other memory contents, by address.
    pub memory: Vec<(u64, Vec<u8>)>,
    /// Registers that are set last, to these values.
    pub exact: Vec<(Reg, u64)>,
}

/// Registers by name.
pub type Values = Vec<(&'static str, u64)>;

/// The complete state after the case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct After {
    /// The reason why the run ended.
    pub stop: Stop,
    /// Every register by name, including control registers.
    pub registers: Vec<(&'static str, u64)>,
    /// Interrupts, exceptions and clock reads, with their times.
    pub happened: Vec<Happening>,
    /// Elapsed virtual time.
    pub time: u64,
    /// Code, data and both stacks.
    pub memory: Vec<(u64, Vec<u8>)>,
}

impl After {
    /// The register of that name.
    pub fn register(&self, name: &str) -> Option<u64> {
        self.registers.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }
}

/// The lab: one machine that runs case after case.
pub struct Lab {
    arch: Arch,
    bench: &'static Bench,
    session: Session,
    happened: usize,
    /// Whether the last case ran through a jump.
    pub jumped: bool,
    /// Number of hits of the last case's probe.
    pub hits: u64,
    /// The initial stack pointer. Memory is mapped below it.
    pub stack: u64,
    /// Fill byte for the memory below the stack pointer. `None`: random data.
    pub dead: Option<u8>,
    /// Whether a case may miss the instruction.
    pub may_miss: bool,
    /// The pre-handler of the probes.
    pub pre: fn(&mut Hit<'_>),
    /// The case before, which may have left something to this one.
    last: Option<Before>,
}

impl Lab {
    /// A machine that has run its set-up code and sleeps.
    pub fn new(arch: Arch) -> Lab {
        let mut session =
            Session::new(kernel(arch), &Config { record_events: true, window: 2 << 20, ..Config::default() }).expect("a machine");
        let stop = session.machine_mut().run_until(1_000_000);
        assert!(matches!(stop, Stop::Dead(_)), "the set-up code ends by sleeping: {stop:?}");
        let happened = session.machine().happenings().len();
        Lab {
            arch,
            bench: bench(arch),
            session,
            happened,
            jumped: false,
            hits: 0,
            stack: STACK,
            dead: None,
            may_miss: false,
            pre: |_| (),
            last: None,
        }
    }

    /// Runs one case. `Err`: the reason why the probe was refused.
    pub fn run(&mut self, case: &Before, how: How) -> Result<After, String> {
        self.fill(case);
        let pre = self.pre;
        let probe = || {
            Kprobe::at_address(place(self.arch)).pre(move |hit| {
                pre(hit);
                Flow::Continue
            })
        };
        let probe = match how {
            How::InPlace | How::Followed | How::FollowedJumped => None,
            How::Probed | How::Jumped | How::Saved => Some(probe()),
            How::Stepped => Some(probe().post(|_| {})),
        };
        let form = if how == How::Saved { Form::Faithful } else { Form::Lean };
        self.session.set_detour_form(form).map_err(|refusal| refusal.to_string())?;
        if let Some(probe) = &probe {
            self.session.register_kprobe(probe).map_err(|refusal| refusal.to_string())?;
        }
        let followed = matches!(how, How::Followed | How::FollowedJumped)
            .then(|| Kretprobe::at_address(place(self.arch)).entry(|_| Flow::Continue).handler(|_| ()));
        if let Some(probe) = &followed {
            self.session.register_kretprobe(probe).map_err(|refusal| refusal.to_string())?;
        }
        self.jumped = matches!(how, How::Jumped | How::Saved | How::FollowedJumped) && self.optimise();
        self.set_registers(case);
        let machine = self.session.machine_mut();
        let start = machine.time();
        let until = machine.now() + 500;
        // Let the optimizer run: a jump is removed after a fault behind its first instruction.
        let stop = self.session.run_until(until);
        let stop = match stop {
            // The report of a double fault contains addresses in the window. Only the fact that the run ended is
            // compared.
            Stop::Dead(_) => Stop::Dead(String::new()),
            other => other,
        };
        self.hits = probe.as_ref().map_or(0, Kprobe::hits);
        if let Some(probe) = &probe {
            let expected = (self.bench.is_hit)(case).filter(|_| !self.may_miss);
            if expected.is_some_and(|expected| expected != (probe.hits() >= 1)) {
                panic!("whether the probe was hit: {case:x?}; it ran behind {:x?}", self.last);
            }
            // A faulting instruction is one hit, too: the guest returns to the original address, not to the detour's start.
            assert!(!self.jumped || probe.hits() <= 1, "{} hits: {case:x?}", probe.hits());
            self.session.unregister_kprobe(probe);
        }
        if let Some(probe) = &followed {
            assert_eq!((probe.hits(), probe.returns(), probe.nmissed()), (1, 1, 0), "the call is followed: {case:x?}");
            self.session.unregister_kretprobe(probe);
        }
        self.last = Some(case.clone());
        let machine = self.session.machine_mut();
        let mut happened = machine.happenings()[self.happened..].to_vec();
        self.happened += happened.len();
        for event in &mut happened {
            event.time -= start;
        }
        let memory = [
            (CODE, CODE_BYTES),
            (DATA, DATA_BYTES),
            (STACK_START, STACK_BYTES),
            (EXCEPTION_STACK - 256, 256),
            (MEDIA, MEDIA_BYTES),
            (FREE, FREE_BYTES),
            (ELSEWHERE - ELSEWHERE_BYTES / 2, ELSEWHERE_BYTES),
        ];
        let bench = self.bench;
        let read = |(at, len): (u64, u64)| {
            let mut bytes = vec![0; len as usize];
            machine.ram().read(bench.base + at, &mut bytes);
            (at, bytes)
        };
        let memory = memory.into_iter().map(read).collect();
        let mut registers = machine.registers();
        registers.extend(machine.look(|view| bench.media.iter().map(|reg| ("media", view.get(*reg))).collect::<Vec<_>>()));
        Ok(After { stop, registers, happened, time: machine.time() - start, memory })
    }

    /// Registers a probe on the instruction of a case and removes it again. `Err`: the reason why it is refused.
    pub fn accepts(&mut self, case: &Before) -> Result<(), String> {
        self.fill(case);
        let probe = Kprobe::at_address(place(self.arch)).pre(|_| Flow::Continue);
        self.session.register_kprobe(&probe).map_err(|refusal| refusal.to_string())?;
        self.session.unregister_kprobe(&probe);
        Ok(())
    }

    /// Runs the instruction of a case in its place, and what follows. Returns the registers in front of it, those in front of
    /// each instruction that ran next, with the watched memory, eight bytes at each physical address, and the pc of the first
    /// exception. `None`: the instruction did not run.
    pub fn step(&mut self, case: &Before, watched: &[u64]) -> Option<(Values, Vec<Step>, Option<u64>)> {
        self.fill(case);
        self.set_registers(case);
        let before = self.session.machine_mut().registers();
        self.session.machine_mut().record_steps(watched.to_vec());
        let until = self.session.machine().now() + 500;
        self.session.run_until(until);
        let mut steps = self.session.machine_mut().take_steps().into_iter();
        let happened = &self.session.machine().happenings()[self.happened..];
        let raised = happened.iter().find(|event| event.what != What::Halt).map(|event| event.pc);
        self.happened += happened.len();
        let first = steps.next().filter(|step| step.pc == place(self.arch))?;
        let names = before.iter().map(|(name, _)| *name);
        Some((names.zip(first.registers).collect(), steps.collect(), raised))
    }

    /// Whether the machine must not be reused after this case.
    pub fn is_ruined(&self, after: &After) -> bool {
        !matches!(after.stop, Stop::Dead(_)) || (self.bench.ruined)(after)
    }

    /// Copies the expected bytes over those that a faithful detour leaves below the stack pointer, as it does on
    /// hardware, too. Bytes that the case itself writes are not copied.
    pub fn forgive_dead_stack(&self, case: &Before, expected: &After, seen: &mut After) {
        let before = self.stack_before(case);
        let dead = self.dead_stack();
        for ((at, expected), (_, seen)) in expected.memory.iter().zip(&mut seen.memory) {
            for ((place, expected), seen) in (*at..).zip(expected).zip(seen).filter(|((place, _), _)| dead.contains(place)) {
                if *expected == before[(place - STACK_START) as usize] {
                    *seen = *expected;
                }
            }
        }
    }

    /// The range that a faithful detour writes: its frame, and the return address of its call.
    fn dead_stack(&self) -> Range<u64> {
        let isa = self.arch.isa();
        let words = isa.detour.and_then(|detour| detour.faithful).map_or(0, |faithful| faithful.frame.len() as u64 + 1);
        self.stack - words * isa.word as u64..self.stack
    }

    fn stack_before(&self, case: &Before) -> Vec<u8> {
        let mut bytes = noise(!case.seed, self.bench.halt, STACK_BYTES);
        if let Some(dead) = self.dead {
            let Range { start, end } = self.dead_stack();
            bytes[(start - STACK_START) as usize..(end - STACK_START) as usize].fill(dead);
        }
        bytes
    }

    /// The ISA of this lab.
    pub fn arch(&self) -> Arch {
        self.arch
    }

    /// Runs the optimizer. Returns whether there is a jump.
    fn optimise(&mut self) -> bool {
        self.session.with_engine(|engine, _| engine.set_optimization_delay(0));
        self.session.with_engine(|engine, guest| engine.summary(guest)).iter().any(|line| line.mode == Mode::Optimized)
    }

    fn fill(&mut self, case: &Before) {
        let Bench { base, halt, behind, refreshed, .. } = self.bench;
        let (arch, stack) = (self.arch, self.stack_before(case));
        let machine = self.session.machine_mut();
        let mut put = |at: u64, bytes: &[u8]| assert!(machine.write_physical(base + at, bytes), "{at:#x} is memory");
        let mut code = halts(halt, CODE_BYTES);
        let at = (PLACE - CODE) as usize - case.front.len();
        let store = [case.front.as_slice(), &case.bytes, &case.rest, &behind(arch)].concat();
        code[at..at + store.len()].copy_from_slice(&store);
        put(ELSEWHERE - ELSEWHERE_BYTES / 2, &halts(halt, ELSEWHERE_BYTES));
        put(MEDIA, &[0; MEDIA_BYTES as usize]);
        put(CODE, &code);
        put(DATA, &noise(case.seed, halt, DATA_BYTES));
        put(STACK_START, &stack);
        put(EXCEPTION_STACK - 256, &[0; 256]);
        put(HANDLERS, &halts(halt, HANDLERS_BYTES));
        for (at, bytes) in refreshed(arch).iter().chain(&case.memory) {
            put(*at, bytes);
        }
    }

    fn set_registers(&mut self, case: &Before) {
        let (arch, bench, stack) = (self.arch, self.bench, self.stack);
        let machine = self.session.machine_mut();
        machine.set_pc(place(arch) - case.front.len() as u64);
        machine.look(|view| {
            (bench.ready)(view, case);
            let abi = arch.isa().abi;
            let general = abi.names.iter().filter(|(name, reg)| !bench.not_general.contains(name) && *reg != abi.sp);
            for (number, reg) in (1..).zip(bench.media) {
                view.set(*reg, case.seed.wrapping_mul(number).rotate_left(number as u32));
            }
            for ((_, reg), value) in general.zip(&case.registers) {
                view.set(*reg, *value);
            }
            view.set(abi.sp, bench.seen_from.wrapping_add(stack));
            let (name, of_case) = bench.flags;
            if let Some(flags) = abi.register(name) {
                view.set(flags, of_case(case.flags));
            }
            case.exact.iter().for_each(|(reg, value)| view.set(*reg, *value));
        });
    }
}

/// Memory filled with the halt instruction.
fn halts(halt: &[u8], len: u64) -> Vec<u8> {
    let mut bytes = halt.repeat((len as usize).div_ceil(halt.len()));
    bytes.truncate(len as usize);
    bytes
}

/// Pseudo-random bytes from a seed, with many halt instructions, so that a stray jump ends soon.
fn noise(seed: u64, halt: &[u8], len: u64) -> Vec<u8> {
    let mut state = seed | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut bytes = Vec::with_capacity(len as usize + halt.len());
    while bytes.len() < len as usize {
        let drawn: u64 = next();
        match drawn & 3 {
            0 => bytes.extend_from_slice(halt),
            // The highest bytes of a number are independent of its lowest bits.
            _ => bytes.extend_from_slice(&drawn.to_be_bytes()[..halt.len()]),
        }
    }
    bytes.truncate(len as usize);
    bytes
}

/// Start of the probe window in the lab's machines.
pub fn window_of(arch: Arch) -> u64 {
    let machine = trapline::arches::of(arch).machine().expect("a machine runs it");
    (machine.model.window.start)(&kernel(arch), 0)
}

/// A kernel image with the set-up code and one function, the case's instruction.
fn kernel(arch: Arch) -> Kernel {
    kernel_named(arch, &[])
}

/// The lab's kernel with the symbols by which a Linux is known, so that it gets the board of stock kernels. Its first
/// function is the first code at its own addresses: the entry or, elsewhere, the end of the set-up code.
fn linux(arch: Arch) -> Kernel {
    let bench = bench(arch);
    let behind = (bench.set_up)(arch).len() - bench.halt.len();
    let end = ENTRY + if bench.seen_from == bench.base { 0 } else { behind as u64 };
    let facts = trapline::boot::kernels::of(arch);
    let start = facts.raw_image.and_then(|format| format.start).map(|name| (name, ENTRY));
    let names = facts.first_functions.iter().chain(&["kernel_init_freeable"]);
    let others: Vec<(&'static str, u64)> = names.map(|name| (*name, end)).chain(start).collect();
    kernel_named(arch, &others)
}

fn kernel_named(arch: Arch, others: &[(&'static str, u64)]) -> Kernel {
    let bench = bench(arch);
    let segment = |(at, bytes, size): Piece| Segment {
        physical: bench.base + at,
        virtual_address: bench.seen_from + at,
        bytes: bytes.into(),
        size,
        executable: at == CODE,
    };
    let mut pieces = vec![
        (ENTRY, (bench.set_up)(arch), ENTRY_BYTES),
        (CODE, halts(bench.halt, CODE_BYTES), CODE_BYTES),
        (HANDLERS, halts(bench.halt, HANDLERS_BYTES), HANDLERS_BYTES),
    ];
    pieces.extend((bench.pieces)(arch));
    let segments = pieces.into_iter().map(segment).collect();
    let names = [("_stext", CODE), ("case", PLACE), ("behind", PLACE + 16), ("_etext", CODE + CODE_BYTES)];
    let entry = |(name, at): &(&str, u64)| Entry { name: (*name).into(), address: bench.seen_from + at, kind: 'T', module: None };
    let entries = names.iter().chain(others).map(entry).collect();
    Kernel::from_parts(arch, bench.base + ENTRY, segments, Symbols::new(entries))
}

/// Random four-byte instructions: some are any word, and `of_groups` times as many come from these groups (fixed bits,
/// varying bits). Most of the registers point to data.
fn words(arch: Arch, of_groups: u32, groups: &'static [(u32, u32)], registers: usize) -> BoxedStrategy<Before> {
    let isa = arch.isa();
    let seen_from = bench(arch).seen_from;
    let group = (prop::sample::select(groups), any::<u32>()).prop_map(|((fixed, varies), word)| fixed | word & varies);
    let instruction = prop_oneof![1 => any::<u32>(), of_groups => group];
    let register = prop_oneof![
        4 => (0..DATA_BYTES / 8).prop_map(move |index| seen_from + DATA + 8 * index),
        1 => (0..DATA_BYTES).prop_map(move |offset| seen_from + DATA + offset),
        2 => 0u64..40,
        1 => (0u64..16).prop_map(move |index| seen_from + ELSEWHERE + 4 * index),
        2 => any::<u64>(),
    ];
    (instruction, prop::collection::vec(register, registers), any::<u64>(), any::<u64>())
        .prop_filter_map("no instruction", move |(word, registers, flags, seed)| {
            let bytes = isa.order.word_bytes(word).to_vec();
            (isa.decode)(seen_from + PLACE, &bytes).ok()?;
            Some(Before { bytes, registers, flags, seed, ..Before::default() })
        })
        .boxed()
}

/// Whether memory is mapped at an address, relative to the start of the lab's memory.
pub fn is_mapped(at: u64) -> bool {
    let places = [
        CODE..CODE + CODE_BYTES,
        DATA..DATA + DATA_BYTES,
        MEDIA..MEDIA + MEDIA_BYTES,
        STACK_START..STACK + STACK_BYTES / 2,
        EXCEPTION_STACK - 0x1000..EXCEPTION_STACK,
        FREE..FREE + FREE_BYTES,
        HANDLERS..HANDLERS + HANDLERS_BYTES,
        ENTRY..ENTRY + 0x1000,
        ELSEWHERE - ELSEWHERE_BYTES / 2..ELSEWHERE + ELSEWHERE_BYTES / 2,
    ];
    places.iter().any(|place| place.start <= at && at < place.end)
}
