//! A bench for single instructions: a machine with page tables, descriptors and exception handlers of its own, in which one
//! instruction can be run from a known state, in place or under a probe, and everything that it did be compared.

use trapline::boot::{Kernel, Segment};
use trapline::machine::{Config, Happening, Stop, What};
use trapline::probed::Session;
use trapline::symbols::{Entry, Symbols};
use trapline_isa::arch::Arch;
use trapline_isa::regs::Registers;
use trapline_probes::probe::{Flow, Kprobe};

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
/// Where the x87 and SSE registers go after the instruction.
const MEDIA: u64 = 0x31_0000;
const MEDIA_BYTES: u64 = 512;
const EXCEPTION_STACK: u64 = 0x42_0000;
const PAGE_TABLES: u64 = 0x50_0000;
const DESCRIPTORS: u64 = 0x51_0000;
const GATES: u64 = 0x51_1000;
const TASK_STATE: u64 = 0x51_2000;
const HANDLERS: u64 = 0x52_0000;
const ENTRY: u64 = 0x60_0000;
/// Code that registers may point into, far from the instruction itself: a guest that reads or writes its own probed bytes sees the breakpoint.
pub const ELSEWHERE: u64 = 0x70_2000;
const ELSEWHERE_BYTES: u64 = 0x4000;
const HALT: u8 = 0xf4;

/// How the instruction is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// As it stands.
    InPlace,
    /// Under a probe with a pre-handler.
    Probed,
    /// Under a probe with a post-handler too.
    Stepped,
}

/// The state before.
#[derive(Clone, Debug)]
pub struct Before {
    /// The instruction.
    pub bytes: Vec<u8>,
    /// General registers in the order of the ABI's table, the stack pointer aside.
    pub registers: Vec<u64>,
    /// Flags that code may set.
    pub flags: u64,
    /// What data and stack are filled from.
    pub seed: u64,
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

/// The bench: one machine, used for case after case.
pub struct Lab {
    arch: Arch,
    session: Session,
    happened: usize,
}

/// Flags that a case may set: arithmetic ones and direction.
pub const FLAGS: u64 = 0xcd5;

impl Lab {
    /// A machine that has set itself up and sleeps.
    pub fn new(arch: Arch) -> Lab {
        let mut session =
            Session::new(kernel(arch), &Config { record_events: true, window: 2 << 20, ..Config::default() }).expect("a machine");
        let stop = session.machine_mut().run_until(1_000_000);
        assert!(matches!(stop, Stop::Dead(_)), "the set-up code ends by sleeping: {stop:?}");
        let happened = session.machine().happenings().len();
        Lab { arch, session, happened }
    }

    /// Runs one case. `Err`: the probe was refused, with the reason.
    pub fn run(&mut self, case: &Before, how: How) -> Result<After, String> {
        self.fill(case);
        let probe = match how {
            How::InPlace => None,
            How::Probed => Some(Kprobe::at_address(PLACE).pre(|_| Flow::Continue)),
            How::Stepped => Some(Kprobe::at_address(PLACE).pre(|_| Flow::Continue).post(|_| {})),
        };
        if let Some(probe) = &probe {
            self.session.register_kprobe(probe).map_err(|refusal| refusal.to_string())?;
        }
        self.set_registers(case);
        let machine = self.session.machine_mut();
        let start = machine.time();
        let stop = machine.run_until(machine.now() + 500);
        let stop = match stop {
            // The end of a double fault is told with addresses of the window's side of things; that it ended is what counts.
            Stop::Dead(_) => Stop::Dead(String::new()),
            other => other,
        };
        if let Some(probe) = &probe {
            assert!(probe.hits() >= 1, "the probe was not hit: {case:x?}");
            self.session.unregister_kprobe(probe);
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
            (STACK - STACK_BYTES / 2, STACK_BYTES),
            (EXCEPTION_STACK - 256, 256),
            (MEDIA, MEDIA_BYTES),
            (ELSEWHERE - ELSEWHERE_BYTES / 2, ELSEWHERE_BYTES),
        ];
        let read = |(at, len): (u64, u64)| {
            let mut bytes = vec![0; len as usize];
            machine.ram().read(at, &mut bytes);
            if at == MEDIA {
                // The x87's note of where its last instruction stood names the slot, as it does under kprobes on hardware.
                bytes[8..16].fill(0);
            }
            (at, bytes)
        };
        let memory = memory.into_iter().map(read).collect();
        Ok(After { stop, registers: machine.registers(), happened, time: machine.time() - start, memory })
    }

    /// Whether the case went so far that the machine must not be used again.
    pub fn is_ruined(&self, after: &After) -> bool {
        let control = |name| after.registers.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
        control("cr3") != Some(PAGE_TABLES)
            || !matches!(after.stop, Stop::Dead(_))
            || after.registers.iter().any(|(name, value)| *name == "cs" && *value != 0x10)
            || after.happened.iter().any(|event| matches!(event.what, What::Exception(8, _)))
    }

    /// Its ISA.
    pub fn arch(&self) -> Arch {
        self.arch
    }

    fn fill(&mut self, case: &Before) {
        let machine = self.session.machine_mut();
        let mut code = vec![HALT; CODE_BYTES as usize];
        let at = (PLACE - CODE) as usize;
        let behind = at + case.bytes.len();
        code[at..behind].copy_from_slice(&case.bytes);
        let save = save_media(self.arch);
        code[behind..behind + save.len()].copy_from_slice(&save);
        machine.write_physical(ELSEWHERE - ELSEWHERE_BYTES / 2, &[HALT; ELSEWHERE_BYTES as usize]);
        machine.write_physical(MEDIA, &[0; MEDIA_BYTES as usize]);
        machine.write_physical(CODE, &code);
        machine.write_physical(DATA, &noise(case.seed, DATA_BYTES));
        machine.write_physical(STACK - STACK_BYTES / 2, &noise(!case.seed, STACK_BYTES));
        machine.write_physical(EXCEPTION_STACK - 256, &[0; 256]);
        let (gates, descriptors) = (gates(self.arch), descriptors(self.arch));
        machine.write_physical(GATES, &gates);
        machine.write_physical(DESCRIPTORS, &descriptors);
        machine.write_physical(HANDLERS, &[HALT; 0x1000]);
    }

    fn set_registers(&mut self, case: &Before) {
        let arch = self.arch;
        let machine = self.session.machine_mut();
        machine.set_pc(PLACE);
        machine.look(|view| {
            let abi = arch.isa().abi;
            let general = abi.names.iter().filter(|(name, reg)| !NOT_GENERAL.contains(name) && *reg != abi.sp);
            for ((_, reg), value) in general.zip(&case.registers) {
                view.set(*reg, *value);
            }
            view.set(abi.sp, STACK);
            if let Some(flags) = abi.register("flags") {
                view.set(flags, 2 | case.flags & FLAGS);
            }
        });
    }
}

const NOT_GENERAL: &[&str] = &["orig_ax", "ip", "cs", "flags", "ss", "ds", "es", "fs", "gs"];

/// Bytes that depend on the seed alone, many of them HLT so that a jump into them ends soon.
fn noise(seed: u64, len: u64) -> Vec<u8> {
    let mut state = seed | 1;
    (0..len)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            if state & 3 == 0 { HALT } else { (state >> 24) as u8 }
        })
        .collect()
}

/// The set-up code as a kernel image, with the case's place as its only function.
fn kernel(arch: Arch) -> Kernel {
    let segment =
        |at: u64, bytes: Vec<u8>, size: u64| Segment { physical: at, virtual_address: at, bytes, size, executable: at == CODE };
    let tables = page_tables(arch);
    let tables_size = tables.len() as u64;
    let segments = vec![
        segment(ENTRY, set_up(arch), 0x100),
        segment(CODE, vec![HALT; CODE_BYTES as usize], CODE_BYTES),
        segment(DESCRIPTORS, descriptors(arch), 0x100),
        segment(GATES, gates(arch), 0x1000),
        segment(HANDLERS, vec![HALT; 0x1000], 0x1000),
        segment(TASK_STATE, task_state(), 0x80),
        segment(PAGE_TABLES, tables, tables_size),
    ];
    let names = [("_stext", CODE), ("case", PLACE), ("behind", PLACE + 15), ("_etext", CODE + CODE_BYTES)];
    let entries = names.map(|(name, address)| Entry { name: name.into(), address, kind: 'T', module: None });
    Kernel::from_parts(arch, ENTRY, segments, Symbols::new(entries.to_vec()))
}

fn set_up(arch: Arch) -> Vec<u8> {
    let mut code = Vec::new();
    let mut put = |bytes: &[u8]| code.extend_from_slice(bytes);
    put(&[0xb8]);
    put(&(PAGE_TABLES as u32).to_le_bytes()); // mov eax, page tables
    put(&[0x0f, 0x22, 0xd8]); // mov cr3, eax
    put(&[0x0f, 0x20, 0xe0, 0x0d, 0x00, 0x06, 0x00, 0x00, 0x0f, 0x22, 0xe0]); // cr4 |= OSFXSR | OSXMMEXCPT
    put(&[0x0f, 0x20, 0xc0, 0x0d, 0x03, 0x00, 0x01, 0x80, 0x0f, 0x22, 0xc0]); // cr0 |= PG | WP | MP | PE
    let (gdt, idt) = ((DESCRIPTORS + 0x80) as u32, (DESCRIPTORS + 0x90) as u32);
    let absolute: &[u8] = if arch == Arch::X86_64 { &[0x25] } else { &[] };
    for (opcode, at) in [(0x14_u8, gdt), (0x1c, idt)] {
        let modrm = if arch == Arch::X86_64 { opcode } else { opcode | 1 };
        put(&[0x0f, 0x01, modrm]);
        put(absolute);
        put(&at.to_le_bytes());
    }
    put(&[0x66, 0xb8, 0x20, 0x00, 0x0f, 0x00, 0xd8]); // ltr
    put(&[HALT]);
    code
}

/// fxsave [MEDIA]: what the case did to registers that the machine does not show becomes memory.
fn save_media(arch: Arch) -> Vec<u8> {
    let mut code = vec![0x0f, 0xae];
    code.extend(if arch == Arch::X86_64 { &[0x04, 0x25][..] } else { &[0x05] });
    code.extend((MEDIA as u32).to_le_bytes());
    code
}

/// Null, unused, code, data, task; behind them the two table registers.
fn descriptors(arch: Arch) -> Vec<u8> {
    let long = arch == Arch::X86_64;
    let code: u64 = if long { 0x00af_9b00_0000_ffff } else { 0x00cf_9b00_0000_ffff };
    let task =
        0x0000_8900_0000_0067 | (TASK_STATE & 0xffff) << 16 | (TASK_STATE >> 16 & 0xff) << 32 | (TASK_STATE >> 24 & 0xff) << 56;
    let mut bytes: Vec<u8> =
        [0, 0, code, 0x00cf_9300_0000_ffff, task, 0].iter().flat_map(|word: &u64| word.to_le_bytes()).collect();
    bytes.resize(0x80, 0);
    bytes.extend(0x2f_u16.to_le_bytes());
    bytes.extend(DESCRIPTORS.to_le_bytes());
    bytes.resize(0x90, 0);
    bytes.extend((if long { 0xfff_u16 } else { 0x7ff }).to_le_bytes());
    bytes.extend(GATES.to_le_bytes());
    bytes.resize(0x100, 0);
    bytes
}

/// Every vector goes to a HLT of its own; on a stack of its own where the ISA has that.
fn gates(arch: Arch) -> Vec<u8> {
    let gate = |vector: u64| {
        let target = HANDLERS + vector * 16;
        let low = target & 0xffff | 0x10 << 16 | 0x8e00 << 32 | (target >> 16 & 0xffff) << 48;
        match arch {
            Arch::X86_64 => [low | 1 << 32, 0].iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>(),
            _ => low.to_le_bytes().to_vec(),
        }
    };
    (0..256).flat_map(gate).collect()
}

fn task_state() -> Vec<u8> {
    let mut bytes = vec![0; 0x80];
    bytes[36..44].copy_from_slice(&EXCEPTION_STACK.to_le_bytes());
    bytes
}

/// The places above at their own addresses and nothing else, so that a stray jump ends soon; on x86_64 a directory for the kernel's
/// end of the address space too, where the window appears.
fn page_tables(arch: Arch) -> Vec<u8> {
    const TABLE: u64 = 0x1000;
    const PRESENT_WRITABLE: u64 = 3;
    let table = |number: u64| (PAGE_TABLES + number * TABLE) | PRESENT_WRITABLE;
    let pages = (0..4096u64).map(|page| page << 12).map(|at| if is_mapped(at) { at | PRESENT_WRITABLE } else { 0 });
    match arch {
        Arch::X86_64 => {
            let mut words = vec![0u64; 5 * 512];
            (words[0], words[511]) = (table(1), table(3));
            words[512] = table(2);
            for directory in 0..8 {
                words[2 * 512 + directory] = table(5 + directory as u64);
            }
            words[3 * 512 + 510] = table(4);
            words.extend(pages);
            words.iter().flat_map(|word| word.to_le_bytes()).collect()
        }
        _ => {
            let mut words = vec![0u32; 1024];
            for (directory, word) in words.iter_mut().enumerate().take(4) {
                *word = table(1 + directory as u64) as u32;
            }
            words.extend(pages.map(|word| word as u32));
            words.iter().flat_map(|word| word.to_le_bytes()).collect()
        }
    }
}

fn is_mapped(at: u64) -> bool {
    let places = [
        CODE..CODE + CODE_BYTES,
        DATA..DATA + DATA_BYTES,
        MEDIA..MEDIA + MEDIA_BYTES,
        STACK - STACK_BYTES / 2..STACK + STACK_BYTES / 2,
        EXCEPTION_STACK - 0x1000..EXCEPTION_STACK,
        DESCRIPTORS..TASK_STATE + 0x1000,
        HANDLERS..HANDLERS + 0x1000,
        ENTRY..ENTRY + 0x1000,
        ELSEWHERE - ELSEWHERE_BYTES / 2..ELSEWHERE + ELSEWHERE_BYTES / 2,
    ];
    places.iter().any(|place| place.start <= at && at < place.end)
}
