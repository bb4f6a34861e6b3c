//! Compares the decisions under the policies of later releases of Linux with those of running kernels (RISC-V), through
//! the tracing interface as the tables were made. Also compares the decoder with binutils on both kernels.
//!
//! Needs the tables and the kernels of ../shared. Without them the tests are skipped. docs/conformance.md has the
//! results.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};
use trapline::boot::Kernel;
use trapline::still::StillGuest;
use trapline_harness::{self as harness, Need, tests};
use trapline_isa::function;
use trapline_isa::insn::{self, Insn};
use trapline_isa::plan::Policy;
use trapline_probes::Engine;
use trapline_probes::events::set::EventSet;
use trapline_probes::guest::{Blacklisted, Guest};
use trapline_tests::oracle::{self, OracleRow, file_of, rows};

/// A kernel with a table of the tracing interface, and the policy that must decide as it does.
struct Judge {
    name: &'static str,
    image: &'static str,
    policy: Policy,
}

const JUDGES: &[Judge] = &[
    Judge {
        name: "6.12.107+deb13-riscv64",
        image: "6.12.107+deb13-riscv64/vmlinux-6.12.107+deb13-riscv64",
        policy: Policy::LINUX_6_12,
    },
    Judge { name: "7.2.13+deb14-riscv64", image: "7.2.13+deb14-riscv64/vmlinuz-7.2.13+deb14-riscv64", policy: Policy::LINUX_7_2 },
];

impl Judge {
    fn need(&self) -> Need {
        let found = oracle::table(&format!("{}.open.tsv.gz", self.name)).is_some() && file_of(self.image).is_some();
        let missing = format!("{} and the table of its decisions: they are in ../shared", self.image);
        Need { what: self.name.to_string(), missing: (!found).then_some(missing) }
    }

    fn kernel(&self) -> Kernel {
        let file = file_of(self.image).expect("the test needs it");
        Kernel::from_bytes(&fs::read(&file).expect("a readable file")).unwrap_or_else(|error| panic!("{}: {error}", self.name))
    }

    fn table(&self, suffix: &str) -> String {
        oracle::table(&format!("{}{suffix}", self.name)).expect("the test needs it")
    }
}

/// Symbols and bytes of the image equal those that the running kernel reported.
fn symbols_and_text_of_the_image_equal_the_running_kernels() {
    for judge in JUDGES {
        let kernel = judge.kernel();
        let rows = rows(&judge.table(".open.tsv.gz"));
        for row in &rows {
            let found = kernel.symbols.containing(row.address).filter(|_| row.symbol != "-");
            let found = found.map_or(("-".into(), 0, 0), |symbol| (symbol.name, row.address - symbol.start, symbol.size));
            assert_eq!(found, (row.symbol.clone(), row.offset, row.size), "{}: {:#x}", judge.name, row.address);
            let mut image = vec![0; row.image.len()];
            kernel.read(row.address, &mut image).unwrap_or_else(|fault| panic!("{}: {fault:?}", judge.name));
            assert_eq!(image, row.image, "{}: {:#x}", judge.name, row.address);
        }
        println!("{}: {} symbols; {} rows have the image's symbols and bytes", judge.name, kernel.symbols.len(), rows.len());
    }
}

/// KP-15, DV-1: the blacklist, in the kernel's own order.
fn the_blacklist_equals_the_kernels_own() {
    for judge in JUDGES {
        let kernel = judge.kernel();
        let line = |entry: &Blacklisted| format!("{:#018x}-{:#018x}\t{}", entry.range.start, entry.range.end, entry.name);
        let ours: Vec<String> = kernel.tables.blacklist.iter().filter(|entry| entry.listed).map(line).collect();
        let table = judge.table(".blacklist.txt.gz");
        let theirs: Vec<&str> = table.lines().collect();
        let first = ours.iter().zip(&theirs).position(|(one, other)| one != other);
        assert_eq!(first.map(|at| (&*ours[at], theirs[at])), None, "{}: the first difference", judge.name);
        assert_eq!((ours.len(), &kernel.tables.missing), (theirs.len(), &Vec::new()), "{}", judge.name);
        println!("{}: {} entries of the blacklist are the same", judge.name, ours.len());
    }
}

/// KP-1, KP-4, KP-5, KP-15: the result of each line of kprobe_events, with the live bytes in the text.
fn decisions_are_those_of_the_running_kernels() {
    let document =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/conformance.md")).expect("the document");
    for judge in JUDGES {
        let kernel = judge.kernel();
        let rows = rows(&judge.table(".open.tsv.gz"));
        let mut guest = StillGuest::booted(&kernel);
        for row in rows.iter().filter(|row| row.live != row.image && !row.image.is_empty()) {
            guest.patch_text(row.address, &row.live).unwrap_or_else(|fault| panic!("{:#x}: {fault:?}", row.address));
        }
        let mut kinds = BTreeMap::<(String, String), u32>::new();
        for row in &rows {
            let ours = answer(&kernel, judge.policy, &mut guest, row);
            if ours != row.result {
                println!(
                    "  {:#x} {} {}+{:#x}: Linux {}, ours {ours}; {:02x?} `{}`, {}",
                    row.address,
                    row.kind,
                    row.symbol,
                    row.offset,
                    row.result,
                    &row.live[..row.live.len().min(8)],
                    row.insn,
                    row.category
                );
            }
            *kinds.entry((row.result.clone(), ours)).or_default() += 1;
        }
        let differ: Vec<_> = kinds.iter().filter(|((theirs, ours), _)| theirs != ours).collect();
        let agree = rows.len() as u32 - differ.iter().map(|(_, count)| **count).sum::<u32>();
        println!("{}: {agree} of {}; {kinds:?}", judge.name, rows.len());
        // A line with an address outside of the text waits for a module in Linux. Here it is refused.
        let explained = |(theirs, ours): &(String, String)| (&**theirs, &**ours) == ("deferred", "ENOENT");
        assert!(differ.iter().all(|(kind, _)| explained(kind)), "{}: {differ:?}", judge.name);
        let line = format!("| {} | {} | {agree} |", judge.name, rows.len());
        assert!(document.contains(&line), "docs/conformance.md lacks the line {line}");
    }
}

/// The result of one line of kprobe_events: `ok` or an errno.
fn answer(kernel: &Kernel, policy: Policy, guest: &mut StillGuest<'_>, row: &OracleRow) -> String {
    let mut engine = Engine::new(kernel.arch.isa(), 1).with_policy(policy);
    let mut events = EventSet::default();
    let line = format!("{}:kprobes/t {:#x}", row.kind, row.address);
    let found = events.apply(&mut engine, guest, &line);
    events.clear(&mut engine, guest);
    found.map_or_else(|error| error.errno.name().into(), |_| "ok".into())
}

/// An instruction as objdump prints it.
struct Line {
    address: u64,
    length: u64,
    name: String,
    target: Option<u64>,
}

/// objdump's reading of these bytes.
fn objdump(bytes: &[u8], address: u64) -> Vec<Line> {
    let file = std::env::temp_dir().join(format!("trapline-objdump-{}", std::process::id()));
    fs::write(&file, bytes).expect("a file for objdump");
    let place = format!("--adjust-vma={address:#x}");
    let said = Command::new(OBJDUMP).args(["-D", "-b", "binary", "-m", "riscv:rv64", &place]).arg(&file).output();
    let said = said.expect("objdump runs");
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    fs::remove_file(&file).expect("the file can be removed");
    let text = String::from_utf8(said.stdout).expect("plain text");
    let line = |line: &str| {
        let mut columns = line.split('\t');
        let address = u64::from_str_radix(columns.next()?.trim().strip_suffix(':')?, 16).ok()?;
        let length = columns.next()?.trim().len() as u64 / 2;
        let name = columns.next()?.trim().to_string();
        let last = columns.next().and_then(|operands| operands.rsplit(',').next()?.split_whitespace().next()?.strip_prefix("0x"));
        Some(Line { address, length, name, target: last.and_then(|digits| u64::from_str_radix(digits, 16).ok()) })
    };
    text.lines().filter_map(line).collect()
}

/// Whether objdump's line says the same about an instruction. `None` if objdump does not know it.
fn agrees(insn: &Insn, line: &Line) -> Option<bool> {
    const BRANCHES: &[&str] = &[
        "beq", "bne", "blt", "bge", "bltu", "bgeu", "beqz", "bnez", "blez", "bgez", "bltz", "bgtz", "bgt", "ble", "bgtu", "bleu",
    ];
    let flow = match &*line.name {
        ".2byte" | ".4byte" | ".word" | ".short" => return None,
        // A halfword of zeros, or a write of a register that is read-only.
        "unimp" => return Some(matches!(insn.flow, insn::Flow::Trap | insn::Flow::Next)),
        "j" => insn::Flow::Jump(line.target?),
        "jal" => insn::Flow::Call(line.target?),
        "jr" => insn::Flow::IndirectJump,
        "jalr" => insn::Flow::IndirectCall,
        "ret" => insn::Flow::Return,
        "ecall" | "ebreak" | "sret" | "mret" => insn::Flow::Trap,
        name if BRANCHES.contains(&name) => insn::Flow::Branch(line.target?),
        _ => insn::Flow::Next,
    };
    Some((insn.flow, insn.length()) == (flow, line.length))
}

/// KP-2, KP-5: binutils reads each instruction of both kernels as we do. It reads the whole text at once, and again from
/// a function's start where it was out of step.
fn binutils_reads_every_instruction_as_we_do() {
    for judge in JUDGES {
        let kernel = judge.kernel();
        let text = kernel.tables.text.clone();
        let lines = objdump(kernel.held(&text).expect("the text is in the image"), text.start);
        let (mut count, mut unknown, mut restarts) = (0, 0, 0);
        for symbol in kernel.symbols.extents(text) {
            let whole = symbol.start..symbol.start + symbol.size;
            let at = |lines: &[Line], address: u64| lines.binary_search_by_key(&address, |line| line.address).ok();
            let again = at(&lines, symbol.start).is_none().then(|| {
                restarts += 1;
                objdump(kernel.held(&whole).expect("the function is in the image"), symbol.start)
            });
            let lines = again.as_ref().unwrap_or(&lines);
            let steps = function::walk(kernel.arch.isa(), symbol.start, whole.end, |at, into: &mut [u8]| kernel.read(at, into));
            for insn in steps.map_while(Result::ok).filter(|insn| insn.next() <= whole.end) {
                let line = at(lines, insn.address).map(|place| &lines[place]);
                let line =
                    line.unwrap_or_else(|| panic!("{}: no instruction begins at {:#x} for objdump", judge.name, insn.address));
                let same = agrees(&insn, line);
                assert!(same != Some(false), "{}: {insn:x?} is `{}` for objdump", judge.name, line.name);
                (count, unknown) = (count + 1, unknown + u64::from(same.is_none()));
            }
        }
        println!("{}: {count} instructions, {unknown} unknown to objdump, {restarts} functions out of step", judge.name);
        assert!(count > 3_000_000 && unknown * 1000 < count && restarts < 100);
    }
}

/// The disassembler of the package binutils-riscv64-linux-gnu.
const OBJDUMP: &str = "riscv64-linux-gnu-objdump";

fn objdump_is_there() -> Need {
    let found = Command::new(OBJDUMP).arg("--version").output().is_ok_and(|said| said.status.success());
    let missing = "the package binutils-riscv64-linux-gnu; scripts/setup.sh installs it";
    Need { what: OBJDUMP.to_string(), missing: (!found).then(|| missing.to_string()) }
}

fn main() -> ExitCode {
    let tests = tests![
        symbols_and_text_of_the_image_equal_the_running_kernels,
        the_blacklist_equals_the_kernels_own,
        decisions_are_those_of_the_running_kernels,
    ];
    let all = |test| JUDGES.iter().fold(test, |test: harness::Test, judge| test.needs(judge.need()));
    let opinion = tests![binutils_reads_every_instruction_as_we_do];
    let opinion = opinion.into_iter().map(|test| all(test).needs(objdump_is_there()));
    harness::run([tests.into_iter().map(all).chain(opinion).collect()])
}
