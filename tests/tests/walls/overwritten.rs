//! Guest memory that is written by other means than the guest's own stores. A loop of the guest runs, something
//! overwrites its code, and the guest runs it again. The new code must run, whoever wrote it.

use crate::s390::{EXTERNAL_PSW, interrupts};
use trapline::machine::{Stop, What};
use trapline_isa::arch::Arch;
use trapline_isa::mem::Memory;
use trapline_isa::regs::Reg;
use trapline_isa::{arm64, ia64, mips, ppc, sparc64};
use trapline_probes::guest::Cpu;
use trapline_tests::lab::hostile::{ARCHES, Bare, seen};
use trapline_tests::lab::{DATA, ELSEWHERE, FREE, HANDLERS, PAGE_TABLES, PLACE, bench};

/// Offset of the code that is overwritten. It is in the page of the lab's instruction, which is executable on every
/// ISA.
const CODE: u64 = PLACE + 0x700;
/// Offset of a copy that runs first, so that there are no translation blocks for [`CODE`].
const OTHER: u64 = PLACE + 0x500;

/// Code that sets a register to a small number, and that register.
fn sets(arch: Arch, number: u8) -> (Vec<u8>, Reg) {
    let n = u32::from(number);
    let word = |word: u32| arch.isa().order.word_bytes(word).to_vec();
    let named = |name: &str| arch.isa().abi.register(name).expect("it has a name");
    match arch {
        Arch::I386 | Arch::X86_64 => (vec![0xb8, number, 0, 0, 0], named("ax")),
        Arch::Arm64 => (word(0xd280_0000 | n << 5), arm64::abi::x(0)),
        Arch::Arm => (word(0xe3a0_0000 | n), named("r0")),
        Arch::Thumb2 => (vec![number, 0x20], named("r0")),
        Arch::Ppc | Arch::Ppc64 | Arch::Ppc64le => (word(0x3860_0000 | n), ppc::abi::r(3)),
        Arch::S390x => (vec![0xa7, 0x29, 0, number], Reg(2)),
        Arch::Mips | Arch::Mipsel | Arch::Mips64 | Arch::Mips64el => (word(0x2402_0000 | n), mips::abi::r(2)),
        Arch::Sparc64 => (word(0x9010_2000 | n), sparc64::abi::r(8)),
        Arch::Riscv32 | Arch::Riscv64 => (word(0x513 | n << 20), named("a0")),
        Arch::Parisc => (word(0x3402_0000 | n << 1), named("gr2")),
        Arch::Ia64 => {
            // `adds r8=n,r0`, and two `nop`.
            let words = [8 << 37 | 2 << 34 | u64::from(number) << 13 | 8 << 6, 1 << 27, 1 << 27];
            (ia64::bundle::Bundle::new(0, words).bytes().to_vec(), ia64::abi::r(8))
        }
    }
}

/// Code that sets the register, and the instruction that ends the case.
fn whole(arch: Arch, number: u8) -> Vec<u8> {
    [&sets(arch, number).0[..], bench(arch).halt].concat()
}

/// A way in which a test or a probe's handler writes memory.
#[derive(Clone, Copy, Debug)]
enum Writer {
    Physical,
    Bytes,
    Number,
    Exchange,
    Text,
    AcrossPages,
    Snapshot,
}

const WRITERS: [Writer; 7] =
    [Writer::Physical, Writer::Bytes, Writer::Number, Writer::Exchange, Writer::Text, Writer::AcrossPages, Writer::Snapshot];

impl Writer {
    fn writes(self, bare: &mut Bare, arch: Arch, at: u64, bytes: &[u8]) {
        // The four bytes that differ: of x86 the operand, of Thumb the halt, too.
        let from = u64::from(matches!(arch, Arch::I386 | Arch::X86_64));
        let piece: [u8; 4] = bytes[from as usize..][..4].try_into().expect("four bytes");
        let (number, place) = (arch.isa().order.number(&piece), seen(arch, at + from));
        bare.enter_kernel();
        let machine = bare.machine();
        match self {
            Writer::Physical => bare.put(at, bytes),
            Writer::Bytes => machine.look(|view| view.write(seen(arch, at), bytes)).expect("memory"),
            Writer::Number => machine.look(|view| view.write_number(place, number, 4)).expect("memory"),
            Writer::Exchange => drop(machine.look(|view| view.exchange_number(place, number, 4)).expect("memory")),
            Writer::Text => machine.look(|view| view.patch_text(seen(arch, at), bytes)).expect("memory"),
            Writer::AcrossPages => {
                // The whole page and a little of the next one.
                let mut all = vec![0; 0x1004];
                machine.ram().read(bench(arch).base + (at & !0xfff), &mut all);
                all[(at & 0xfff) as usize..][..bytes.len()].copy_from_slice(bytes);
                bare.put(at & !0xfff, &all);
            }
            Writer::Snapshot => {
                let mut old = vec![0; bytes.len()];
                machine.ram().read(bench(arch).base + at, &mut old);
                machine.write_physical(bench(arch).base + at, bytes);
                let snapshot = machine.snapshot();
                machine.write_physical(bench(arch).base + at, &old);
                bare.run_at(at);
                match snapshot {
                    Ok(snapshot) => bare.machine().restore(&snapshot).expect("the machine's own snapshot"),
                    // No snapshot is taken on this ISA.
                    Err(_) => bare.put(at, bytes),
                }
            }
        }
    }
}

#[test]
fn code_overwritten_by_a_handler_or_test_runs_anew() {
    let mut tried = 0;
    for arch in ARCHES.iter().copied() {
        for writer in WRITERS {
            let mut bare = Bare::new(arch);
            let result = sets(arch, 0).1;
            bare.put(CODE, &whole(arch, 0));
            for number in [1, 2, 3] {
                writer.writes(&mut bare, arch, CODE, &whole(arch, number));
                for turn in 0..2 {
                    bare.enter_kernel();
                    bare.set(result, 99);
                    bare.run_at(CODE);
                    assert_eq!(bare.get(result), u64::from(number), "{} by {writer:?}, turn {turn}", arch.name());
                }
            }
            tried += 1;
        }
    }
    println!("{tried} writers");
    assert_eq!(tried, ARCHES.len() * WRITERS.len());
}

/// Guest code that makes trapline write memory, and the code that this overwrites.
struct Case {
    name: &'static str,
    arch: Arch,
    /// The address of the code that is overwritten.
    at: u64,
    /// The code that makes trapline write. If it is empty, the end of the overwritten code does.
    code: Vec<u8>,
    /// Further registers to set.
    registers: Vec<(Reg, u64)>,
    memory: Vec<(u64, Vec<u8>)>,
    /// Whether the case needs the state that [`interrupts`] prepares.
    asks: bool,
    /// Whether the guest runs on the board of stock kernels.
    stock: bool,
}

/// Runs the code. Returns its result, and the exceptions and interrupts meanwhile.
fn seen_of(bare: &mut Bare, arch: Arch, at: u64) -> (u64, Vec<(What, u64)>) {
    let result = sets(arch, 0).1;
    bare.enter_kernel();
    bare.set(result, 99);
    let before = bare.machine().happenings().len();
    let stop = bare.run_at(at);
    assert!(matches!(stop, Stop::Dead(_) | Stop::Limit), "{stop:?}");
    let happened = bare.machine().happenings()[before..].iter().map(|event| (event.what, event.pc)).collect();
    (bare.get(result), happened)
}

impl Case {
    fn s390(name: &'static str, at: u64, code: &[u8]) -> Case {
        let registers = vec![(Reg(3), at), (Reg(4), DATA + 0x100)];
        Case { name, arch: Arch::S390x, at, code: code.to_vec(), registers, memory: Vec::new(), asks: false, stock: false }
    }

    /// Runs the code, has it overwritten, and runs it again. If not `translated`, a copy elsewhere runs first instead.
    fn run(&self, translated: bool) -> [(u64, Vec<(What, u64)>); 2] {
        let mut bare = if self.stock { Bare::on_stock_board(self.arch) } else { Bare::new(self.arch) };
        let code = whole(self.arch, 1);
        if self.arch == Arch::S390x {
            // The lowcore is at real address 0: the page that is named as it is leads there.
            bare.put(PAGE_TABLES + 2048 * 8 + 8 * (FREE >> 12), &0u64.to_be_bytes());
        }
        bare.put(OTHER, &code);
        bare.put(self.at, &code);
        for (at, bytes) in &self.memory {
            bare.put(*at, bytes);
        }
        let old = seen_of(&mut bare, self.arch, if translated { self.at } else { OTHER });
        self.registers.iter().for_each(|(reg, value)| bare.set(*reg, *value));
        if self.asks {
            interrupts(&mut bare);
        }
        if !self.code.is_empty() {
            bare.run(&self.code);
        }
        let mut now = vec![0; code.len()];
        bare.machine().ram().read(self.at, &mut now);
        assert_ne!(now, code, "{}: nothing was overwritten", self.name);
        [old, seen_of(&mut bare, self.arch, self.at)]
    }

    fn check(&self) {
        let [[old, new], [_, expected]] = [self.run(true), self.run(false)];
        assert_ne!(new, old, "{}: the old code has run again", self.name);
        assert_eq!(new, expected, "{}", self.name);
    }
}

/// Instructions that trapline executes in place of Unicorn and that store, and interruptions that store in the lowcore.
fn of_z() -> Vec<Case> {
    const LOWCORE: u64 = FREE;
    const LEVEL_1: u64 = 1 << 28 | 1;
    let stores: [(&'static str, &[u8]); 10] = [
        ("stidp", &[0xb2, 0x02, 0x30, 0x00]),
        ("stck", &[0xb2, 0x05, 0x30, 0x00]),
        ("stckf", &[0xb2, 0x7c, 0x30, 0x00]),
        ("stcke", &[0xb2, 0x78, 0x30, 0x00]),
        ("stpt", &[0xb2, 0x09, 0x30, 0x00]),
        ("stckc", &[0xb2, 0x07, 0x30, 0x00]),
        ("stap", &[0xb2, 0x12, 0x30, 0x00]),
        ("stfle", &[0xb2, 0xb0, 0x30, 0x00]),
        ("stcrw", &[0xb2, 0x39, 0x30, 0x00]),
        ("stcps", &[0xb2, 0x3a, 0x30, 0x00]),
    ];
    let halted = |code: &[u8]| [code, bench(Arch::S390x).halt].concat();
    let mut cases: Vec<Case> = stores.iter().map(|(name, code)| Case::s390(name, CODE, &halted(code))).collect();
    let registers = vec![(Reg(0), LEVEL_1), (Reg(1), 1), (Reg(3), ELSEWHERE)];
    cases.push(Case { registers, ..Case::s390("stsi", ELSEWHERE, &halted(&[0xb2, 0x7d, 0x30, 0x00])) });
    // The answer comes behind the request.
    let registers = vec![(Reg(3), CODE - 16)];
    let memory = vec![(CODE - 16, vec![0, 16])];
    cases.push(Case { registers, memory, ..Case::s390("chsc", CODE, &halted(&[0xb2, 0x5f, 0, 0x30])) });
    cases.push(Case::s390("stfl", LOWCORE + 0xc8, &halted(&[0xb2, 0xb1, 0, 0])));
    // No memory is at the operand's address.
    let registers = vec![(Reg(3), 0x7f_0000)];
    let unmapped = Case { registers, ..Case::s390("a refused stck", LOWCORE + 0xa8, &halted(&[0xb2, 0x05, 0x30, 0x00])) };
    cases.push(unmapped);
    let program = [("program code", 0x8c), ("last branch", 0x110), ("program old PSW", 0x150), ("its address", 0x158)];
    cases.extend(program.map(|(name, at)| Case::s390(name, LOWCORE + at, &[0, 0])));
    // An interrupt of the board's.
    for (name, at) in [("interrupt code", 0x84), ("external old PSW", 0x130), ("its address", 0x138)] {
        let code = interrupts(&mut Bare::new(Arch::S390x));
        let handler = [(1u64 << 58 | 3 << 46 | 3 << 31).to_be_bytes(), HANDLERS.to_be_bytes()].concat();
        let mut case = Case { memory: vec![(EXTERNAL_PSW, handler)], ..Case::s390(name, LOWCORE + at, &code) };
        case.asks = true;
        cases.push(case);
    }
    // The code's own end is the call that overwrites it.
    let call = [("call code", 0x88), ("call old PSW", 0x140), ("its address", 0x148)];
    cases.extend(call.map(|(name, at)| Case::s390(name, LOWCORE + at, &[])));
    cases
}

#[test]
fn code_overwritten_by_an_instruction_of_z_runs_anew() {
    let cases = of_z();
    cases.iter().for_each(Case::check);
    println!("{} writers", cases.len());
    assert!(cases.len() > 15);
}

/// Firmware calls that write memory: SCLP of z/Architecture writes to the block of its request, OPAL of POWER to the
/// address in an argument.
#[test]
fn code_overwritten_by_firmware_runs_anew() {
    const READ_SCP_INFO: u64 = 0x0002_0001;
    const POLL_EVENTS: u64 = 10;
    const ASKS: u64 = PLACE + 0x40;
    let (arch, at) = (Arch::S390x, CODE + 8);
    // servc %r5,%r6, with the block's length in front of the code
    let code = [&[0xb2, 0x20, 0x00, 0x56][..], bench(arch).halt].concat();
    let (registers, memory) = (vec![(Reg(5), READ_SCP_INFO), (Reg(6), CODE)], vec![(CODE, vec![0, 128])]);
    Case { name: "sclp", arch, at, code, registers, memory, asks: false, stock: true }.check();
    for arch in [Arch::Ppc64le, Arch::Ppc64] {
        let words = |words: &[u32]| words.iter().flat_map(|word| arch.isa().order.word_bytes(*word)).collect::<Vec<u8>>();
        let order = u64::from(arch == Arch::Ppc64le);
        let (there, back) = (1 << 63 | 1 << 60 | 0x1000 | order, 1 << 63 | 1 << 60 | 0x1032 | order);
        // mtspr SRR0,r8; mtspr SRR1,r9; rfid: to where no address is translated
        let code = words(&[0x7d1a_03a6, 0x7d3b_03a6, 0x4c00_0024]);
        // sc 1; mtspr SRR0,r6; mtspr SRR1,r7; rfid; and there a wait
        let asks = words(&[0x4400_0022, 0x7cda_03a6, 0x7cfb_03a6, 0x4c00_0024]);
        let ends = ASKS + 0x40;
        let values = [(0, POLL_EVENTS), (3, CODE), (6, seen(arch, ends)), (7, back), (8, ASKS), (9, there)];
        let registers = values.map(|(number, value)| (ppc::abi::r(number), value)).to_vec();
        let memory = vec![(ASKS, asks), (ends, bench(arch).halt.to_vec())];
        Case { name: "opal", arch, at: CODE, code, registers, memory, asks: false, stock: true }.check();
    }
}

/// Exception frames on x86: of a fault with and without an error code, and of an interrupt instruction.
#[test]
fn code_overwritten_by_an_exception_frame_runs_anew() {
    // ud2; mov 0x70000000,%eax; int $0x80
    let raising: [(&'static str, &[u8]); 3] =
        [("ud2", &[0x0f, 0x0b]), ("page fault", &[0x8b, 0x05, 0, 0, 0, 0x70]), ("int", &[0xcd, 0x80])];
    let mut tried = 0;
    for (name, code) in raising {
        for words in 1..4 {
            let arch = Arch::I386;
            let sp = arch.isa().abi.sp;
            let case = Case {
                name,
                arch,
                at: CODE,
                code: code.to_vec(),
                registers: vec![(sp, CODE + 4 * words)],
                memory: vec![],
                asks: false,
                stock: false,
            };
            case.check();
            tried += 1;
        }
        // The lab's gates have a stack of their own, whose place is in the task state.
        let (arch, stack) = (Arch::X86_64, (CODE + 24) & !15);
        let memory = vec![(FREE + 0x2000 + 36, stack.to_le_bytes().to_vec())];
        let case = Case { name, arch, at: CODE, code: code.to_vec(), registers: vec![], memory, asks: false, stock: false };
        case.check();
        tried += 1;
    }
    println!("{tried} frames");
}
