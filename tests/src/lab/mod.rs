//! A bench for single instructions: a machine with page tables and exception handlers of its own, in which one
//! instruction can be run from a known state, in place or under a probe, and everything that it did be compared.
//!
//! What differs between ISAs is a table, [`Bench`]; a new ISA brings one.

pub mod arm;
pub mod arm64;
pub mod delivery;
pub mod mips;
pub mod ppc;
pub mod s390;
pub mod sparc64;
pub mod x86;

use capstone::{Capstone, CsResult};
use proptest::prelude::*;
use std::ops::Range;
use trapline::boot::{Kernel, Segment};
use trapline::machine::{Config, Happening, Stop};
use trapline::probed::Session;
use trapline::symbols::{Entry, Symbols};
use trapline_isa::arch::Arch;
use trapline_isa::detour::Form;
use trapline_isa::regs::{Reg, Registers};
use trapline_probes::context::Hit;
use trapline_probes::point::Mode;
use trapline_probes::probe::{Flow, Kprobe, Kretprobe};

/// Where the instruction stands.
pub const PLACE: u64 = 0x20_0100;
const CODE: u64 = 0x20_0000;
const CODE_BYTES: u64 = 0x1000;
/// Data that registers point into.
pub const DATA: u64 = 0x30_0000;
/// Bytes of it.
pub const DATA_BYTES: u64 = 0x2000;
/// The stack: its middle.
pub const STACK: u64 = 0x40_0800;
const STACK_BYTES: u64 = 0x1000;
/// The first byte of it: below there is nothing.
pub const STACK_START: u64 = STACK - STACK_BYTES / 2;
/// Where registers go after the instruction that the machine does not show: x87 and SSE, vectors.
pub const MEDIA: u64 = 0x31_0000;
const MEDIA_BYTES: u64 = 512;
const EXCEPTION_STACK: u64 = 0x42_0000;
const PAGE_TABLES: u64 = 0x50_0000;
/// For what else an ISA needs.
const FREE: u64 = 0x51_0000;
const FREE_BYTES: u64 = 0x3000;
/// Where exceptions lead.
pub const HANDLERS: u64 = 0x52_0000;
const HANDLERS_BYTES: u64 = 0x1000;
const ENTRY: u64 = 0x60_0000;
const ENTRY_BYTES: u64 = 0x100;
/// The last page of 32-bit and 64-bit x86's address space is here.
pub const LAST_PAGE: u64 = FREE + 0x4000;
/// Code that registers may point into, far from the instruction itself: a guest that reads or writes its own probed
/// bytes sees the breakpoint.
pub const ELSEWHERE: u64 = 0x70_2000;
const ELSEWHERE_BYTES: u64 = 0x4000;

/// Bytes at an address, and how much memory they take.
pub type Piece = (u64, Vec<u8>, u64);

/// A reason, and which instructions it holds for.
pub type Reason = (&'static str, fn(&[u8]) -> bool);

/// A reason, and the outcomes that it holds for.
pub type Outcome = (&'static str, fn(&Before, &After) -> bool);

/// What a bench needs to know of an ISA.
pub struct Bench {
    /// Where RAM starts; the addresses above count from there.
    pub base: u64,
    /// What the kernel sees them count from: so near to the probe window that jumps lead there.
    pub seen_from: u64,
    /// There are jumps.
    pub jumps: bool,
    /// Whether a probe on the case is hit, where that is known: its breakpoint may have a condition.
    pub is_hit: fn(&Before) -> Option<bool>,
    /// An instruction with which the CPU goes to sleep for good.
    pub halt: &'static [u8],
    /// Code that sets the machine up and sleeps.
    pub set_up: fn(Arch) -> Vec<u8>,
    /// Page tables and the like.
    pub pieces: fn(Arch) -> Vec<Piece>,
    /// What a case may have overwritten and the next one needs.
    pub refreshed: fn(Arch) -> Vec<(u64, Vec<u8>)>,
    /// Code that stores behind the case what the machine does not show of it.
    pub behind: fn(Arch) -> Vec<u8>,
    /// Registers that a case does not set.
    pub not_general: &'static [&'static str],
    /// Puts right what else a case begins with, before its registers are set.
    pub ready: fn(&mut dyn Registers, &Before),
    /// The register of flags, and what a case's random bits make of it.
    pub flags: (&'static str, fn(u64) -> u64),
    /// Registers beside those with names.
    pub media: &'static [Reg],
    /// Whether the case went so far that the machine must not be used again.
    pub ruined: fn(&After) -> bool,
    /// The register with the address of the last fault.
    pub fault_address: &'static str,
    /// What cannot be compared, and why.
    pub left_out: &'static [Reason],
    /// Outcomes in place that cannot be compared: the reason, and whether it is one.
    pub no_promise: &'static [Outcome],
    /// What is known to be hard.
    pub hard: &'static [(&'static str, Arch, &'static [u8])],
    /// Random instructions in random states.
    pub case: fn(Arch) -> BoxedStrategy<Before>,
    /// For people.
    pub disassembler: fn(Arch) -> CsResult<Capstone>,
}

/// The ISAs that have a bench; of MIPS one of each width and each order, the others are the same tables.
pub const BENCHES: &[Arch] = &[
    Arch::I386,
    Arch::X86_64,
    Arch::Arm64,
    Arch::Arm,
    Arch::Thumb2,
    Arch::Ppc64le,
    Arch::Ppc64,
    Arch::Ppc,
    Arch::S390x,
    Arch::Mipsel,
    Arch::Mips64,
    Arch::Sparc64,
];

/// Whether a case with these random bits steps its code: one in eight.
fn steps(drawn: u64) -> bool {
    drawn >> 61 == 7
}

/// Where the guest sees the instruction.
pub fn place(arch: Arch) -> u64 {
    bench(arch).seen_from + PLACE
}

/// The bench of an ISA.
pub fn bench(arch: Arch) -> &'static Bench {
    match arch {
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
    }
}

/// How the instruction is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// As it stands.
    InPlace,
    /// Under a probe with a pre-handler.
    Probed,
    /// Under a probe with a post-handler too.
    Stepped,
    /// Under a probe whose jump is there, if one may be.
    Jumped,
    /// The same with a faithful detour, where the ISA has them.
    Saved,
    /// It is a function's entry, whose return is followed.
    Followed,
    /// The same, entered by a jump if one may be.
    FollowedJumped,
}

/// The state before.
#[derive(Clone, Debug, Default)]
pub struct Before {
    /// The instruction.
    pub bytes: Vec<u8>,
    /// Code in front of it, where the run begins.
    pub front: Vec<u8>,
    /// Code behind it.
    pub rest: Vec<u8>,
    /// General registers in the order of the ABI's table, the stack pointer aside.
    pub registers: Vec<u64>,
    /// What the flags are taken from.
    pub flags: u64,
    /// What data and stack are filled from.
    pub seed: u64,
    /// What stands elsewhere in memory, by address.
    pub memory: Vec<(u64, Vec<u8>)>,
}

/// Everything that can be told apart afterwards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct After {
    /// How the run ended.
    pub stop: Stop,
    /// Every register by name, control registers included.
    pub registers: Vec<(&'static str, u64)>,
    /// Interrupts, exceptions and clock reads, with their times.
    pub happened: Vec<Happening>,
    /// Virtual time that passed.
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

/// The bench: one machine, used for case after case.
pub struct Lab {
    arch: Arch,
    bench: &'static Bench,
    session: Session,
    happened: usize,
    /// The last case has run behind a jump.
    pub jumped: bool,
    /// Hits of the last case's probe.
    pub hits: u64,
    /// Where the stack pointer begins; below it is memory.
    pub stack: u64,
    /// What stands below the stack pointer at first, where that is not to be noise.
    pub dead: Option<u8>,
    /// A case may not come to the instruction.
    pub may_miss: bool,
    /// What the probes' pre-handlers do.
    pub pre: fn(&mut Hit<'_>),
}

impl Lab {
    /// A machine that has set itself up and sleeps.
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
        }
    }

    /// Runs one case. `Err`: the probe was refused, with the reason.
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
        // The optimiser may want a turn: a jump gives way to a fault behind its first instruction.
        let stop = self.session.run_until(until);
        let stop = match stop {
            // The end of a double fault is told with addresses of the window's side of things; that it ended is what
            // counts.
            Stop::Dead(_) => Stop::Dead(String::new()),
            other => other,
        };
        self.hits = probe.as_ref().map_or(0, Kprobe::hits);
        if let Some(probe) = &probe {
            let expected = (self.bench.is_hit)(case).filter(|_| !self.may_miss);
            assert!(expected.is_none_or(|expected| expected == (probe.hits() >= 1)), "whether the probe was hit: {case:x?}");
            // Also when the instruction faults: the guest comes back to it, not to the detour's start.
            assert!(!self.jumped || probe.hits() <= 1, "{} hits: {case:x?}", probe.hits());
            self.session.unregister_kprobe(probe);
        }
        if let Some(probe) = &followed {
            assert_eq!((probe.hits(), probe.returns(), probe.nmissed()), (1, 1, 0), "the call is followed: {case:x?}");
            self.session.unregister_kretprobe(probe);
        }
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

    /// Whether the case went so far that the machine must not be used again.
    pub fn is_ruined(&self, after: &After) -> bool {
        !matches!(after.stop, Stop::Dead(_)) || (self.bench.ruined)(after)
    }

    /// What a faithful detour leaves below the stack pointer, on hardware too, is no difference: there the outcome gets
    /// what is expected, unless the case itself writes there.
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

    /// What a faithful detour writes to: its frame, and the return address of its call.
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

    /// Its ISA.
    pub fn arch(&self) -> Arch {
        self.arch
    }

    /// The optimiser comes now: whether there is a jump.
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
        });
    }
}

/// Memory full of one instruction.
fn halts(halt: &[u8], len: u64) -> Vec<u8> {
    halt.iter().copied().cycle().take(len as usize).collect()
}

/// Bytes that depend on the seed alone, many of them an instruction to sleep so that a jump into them ends soon.
fn noise(seed: u64, halt: &[u8], len: u64) -> Vec<u8> {
    let mut state = seed | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut bytes = Vec::new();
    while bytes.len() < len as usize {
        match next() & 3 {
            0 => bytes.extend_from_slice(halt),
            _ => bytes.extend(halt.iter().map(|_| (next() >> 24) as u8)),
        }
    }
    bytes.truncate(len as usize);
    bytes
}

/// Where the probe window of the lab's machines lies.
pub fn window_of(arch: Arch) -> u64 {
    let machine = trapline::arches::of(arch).machine().expect("a machine runs it");
    (machine.model.window.start)(&kernel(arch), 0)
}

/// The set-up code as a kernel image, with the case's place as its only function.
fn kernel(arch: Arch) -> Kernel {
    let bench = bench(arch);
    let segment = |(at, bytes, size): Piece| Segment {
        physical: bench.base + at,
        virtual_address: bench.seen_from + at,
        bytes,
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
    let entries = names.map(|(name, at)| Entry { name: name.into(), address: bench.seen_from + at, kind: 'T', module: None });
    Kernel::from_parts(arch, bench.base + ENTRY, segments, Symbols::new(entries.to_vec()))
}

/// Random words of four bytes that are instructions, some of any bits, `of_groups` times as many out of these groups (the bits
/// that are fixed, and those that vary), with this many registers, most of which point to data.
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

/// Whether there is anything at an address.
fn is_mapped(at: u64) -> bool {
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
