//! Disassembly: the text of an instruction in binutils' notation.
//!
//! Every instruction of the manual has a text. Two additions of the last CPUs have none: `mov dahr=` with a number, and
//! `lfetch.count`.

mod float;
mod memory;

use super::bundle::{Bundle, SLOTS};
use super::decode::{Instruction, in_bundle};
use super::insn::place;
use super::names::{application, control};
use super::op::{Alu, BranchHints, Condition, File, Merge, Op, Relation, Shift, System, Tested, Tlb, Unary, Update, Value};
use crate::insn::Insn;
use alloc::format;
use alloc::string::String;

/// The text of an instruction in a bundle at this address, without its predicate and without a stop.
pub fn text(address: u64, instruction: &Instruction) -> Option<String> {
    let at = Place { address: address & !15, unit: instruction.unit.letter().to_ascii_lowercase(), instruction };
    let own = at.integer().or_else(|| at.branch()).or_else(|| at.system());
    own.or_else(|| memory::text(&instruction.op)).or_else(|| float::text(&instruction.op))
}

/// The text of a slot in a bundle at this address, with the predicate, and `;;` if an instruction group ends behind it.
/// `None` if there is no instruction.
pub fn slot(address: u64, bundle: Bundle, slot: usize) -> Option<String> {
    let instruction = in_bundle(bundle, slot)?;
    let text = text(address, &instruction)?;
    let predicate = match instruction.predicate {
        0 => String::new(),
        number => format!("(p{number:02}) "),
    };
    let stop = if bundle.template()?.stops.get(slot).is_some_and(|stops| *stops) { ";;" } else { "" };
    Some(format!("{predicate}{text}{stop}"))
}

/// The text of an instruction, with its bundle's template in front of the first one; `None` if there is none.
pub fn of(insn: &Insn) -> Option<String> {
    let (bundle, number) = place(insn);
    let text = slot(insn.address & !15, bundle, number)?;
    match (insn.address % 16, bundle.template()) {
        (0, Some(template)) => Some(format!("[{}] {text}", template.letters().into_iter().collect::<String>())),
        _ => Some(text),
    }
}

/// The lines of a bundle: its template, then each slot. Slots without an instruction are numbers.
pub fn bundle(address: u64, bytes: Bundle) -> String {
    let Some(template) = bytes.template() else { return format!("[reserved template {:#x}]", bytes.number()) };
    let mut text = String::new();
    for number in (0..SLOTS).filter(|number| !(template.is_long() && *number == 1)) {
        let head: String = match number {
            0 => format!("[{}] ", template.letters().into_iter().collect::<String>()),
            _ => "\n      ".into(),
        };
        let line = slot(address, bytes, number).unwrap_or_else(|| format!("data8 {:#x}", bytes.slot(number)));
        text = text + &head + &line;
    }
    text
}

/// The name of a value: a register, or a number in decimal.
pub(super) fn value(value: Value) -> String {
    match value {
        Value::Register(number) => format!("r{number}"),
        Value::Immediate(number) => format!("{number}"),
    }
}

const WHETHER: [&str; 4] = ["sptk", "spnt", "dptk", "dpnt"];

/// The completers of a branch behind its kind.
fn few(hints: BranchHints) -> String {
    format!("{}{}", if hints.many { ".many" } else { ".few" }, if hints.clear { ".clr" } else { "" })
}

fn completers(hints: BranchHints) -> String {
    format!(".{}{}", WHETHER[usize::from(hints.whether) & 3], few(hints))
}

/// The completer of an update of predicates.
fn update(update: Update) -> &'static str {
    match update {
        Update::Both => "",
        Update::Unconditional => ".unc",
        Update::And => ".and",
        Update::Or => ".or",
        Update::OrAndComplement => ".or.andcm",
    }
}

fn relation(relation: Relation) -> &'static str {
    match relation {
        Relation::Equal => "eq",
        Relation::NotEqual => "ne",
        Relation::Less => "lt",
        Relation::Below => "ltu",
        Relation::LessOrEqual => "le",
        Relation::Greater => "gt",
        Relation::GreaterOrEqual => "ge",
    }
}

/// An instruction with its bundle's address and the letter of its unit.
struct Place<'a> {
    address: u64,
    unit: char,
    instruction: &'a Instruction,
}

impl Place<'_> {
    fn target(&self, distance: i64) -> String {
        format!("{:#x}", self.address.wrapping_add_signed(distance))
    }

    fn integer(&self) -> Option<String> {
        Some(match self.instruction.op {
            Op::Alu { what: Alu::Add, to, a: Value::Immediate(number), b } => return Some(self.add(to, number, b)),
            Op::Alu { what, to, a, b } => {
                let (name, end) = match what {
                    Alu::Add => ("add", ""),
                    Alu::AddOne => ("add", ",1"),
                    Alu::Sub => ("sub", ""),
                    Alu::SubOne => ("sub", ",1"),
                    Alu::AddPointer => ("addp4", ""),
                    Alu::And => ("and", ""),
                    Alu::AndComplement => ("andcm", ""),
                    Alu::Or => ("or", ""),
                    Alu::Xor => ("xor", ""),
                };
                format!("{name} r{to}={},r{b}{end}", value(a))
            }
            Op::ShiftAdd { pointer, to, a, count, b } => {
                format!("shladd{} r{to}=r{a},{count},r{b}", if pointer { "p4" } else { "" })
            }
            Op::Compare { narrow, relation: how, update: kind, p, a, b } => {
                let name = if narrow { "cmp4" } else { "cmp" };
                format!("{name}.{}{} p{},p{}={},r{b}", relation(how), update(kind), p[0], p[1], value(a))
            }
            Op::Test { nonzero, update: kind, p, what } => {
                let (name, operand) = match what {
                    Tested::Bit { register, bit } => ("tbit", format!("r{register},{bit}")),
                    Tested::Nat(register) => ("tnat", format!("r{register}")),
                    Tested::Feature(number) => ("tf", format!("{number}")),
                };
                let how = if nonzero { "nz" } else { "z" };
                format!("{name}.{how}{} p{},p{}={operand}", update(kind), p[0], p[1])
            }
            Op::Unary { what, to, from } => unary(what, to, from),
            Op::Shift { what, to, from, by } => {
                let name = match what {
                    Shift::Left => "shl",
                    Shift::Right => "shr",
                    Shift::UnsignedRight => "shr.u",
                };
                format!("{name} r{to}=r{from},r{by}")
            }
            Op::ShiftPair { to, a, b, count } => format!("shrp r{to}=r{a},r{b},{count}"),
            Op::Extract { signed, to, from, position, length } => {
                let sign = if signed { "" } else { ".u" };
                match u16::from(position) + u16::from(length) {
                    64 => format!("shr{sign} r{to}=r{from},{position}"),
                    _ => format!("extr{sign} r{to}=r{from},{position},{length}"),
                }
            }
            Op::DepositZero { to, from: Value::Register(from), position, length } if position + length == 64 => {
                format!("shl r{to}=r{from},{position}")
            }
            Op::DepositZero { to, from, position, length } => format!("dep.z r{to}={},{position},{length}", value(from)),
            Op::Deposit { to, from, into, position, length } => {
                format!("dep r{to}={},r{into},{position},{length}", value(from))
            }
            Op::Merge { what, size, upper, to, a, b } => {
                let (name, part) = match (what, upper) {
                    (Merge::Mix, true) => ("mix", "l"),
                    (Merge::Mix, false) => ("mix", "r"),
                    (Merge::Unpack, true) => ("unpack", "h"),
                    (Merge::Unpack, false) => ("unpack", "l"),
                };
                format!("{name}{size}.{part} r{to}=r{a},r{b}")
            }
            Op::Parallel { name, to, a, b } => format!("{name} r{to}=r{a},{}", value(b)),
            Op::ParallelShiftAdd { name, to, a, count, b } => format!("{name} r{to}=r{a},{count},r{b}"),
            Op::ParallelMultiply { signed, to, a, b, count } => {
                format!("pmpyshr2{} r{to}=r{a},r{b},{count}", if signed { "" } else { ".u" })
            }
            Op::MoveLong { to, value } => format!("movl r{to}={value:#x}"),
            _ => return None,
        })
    }

    /// `adds` or `addl`, or the shorter form of either.
    fn add(&self, to: u8, number: i64, b: u8) -> String {
        match (self.instruction.long_add, number, b) {
            (false, 0, _) => format!("mov r{to}=r{b}"),
            (true, _, 0) => format!("mov r{to}={number}"),
            (is_long, ..) => format!("{} r{to}={number},r{b}", if is_long { "addl" } else { "adds" }),
        }
    }

    fn branch(&self) -> Option<String> {
        let long = if self.unit == 'x' { "l" } else { "" };
        let is_always = self.instruction.predicate == 0;
        Some(match self.instruction.op {
            Op::Branch { condition: Condition::Predicate, distance, hints } if is_always && hints.whether == 0 => {
                format!("br{long}{} {}", few(hints), self.target(distance))
            }
            Op::Branch { condition, distance, hints } => {
                let kind = match condition {
                    Condition::Predicate => "cond",
                    Condition::WhileExit => "wexit",
                    Condition::WhileTop => "wtop",
                    Condition::CountedLoop => "cloop",
                    Condition::CountedExit => "cexit",
                    Condition::CountedTop => "ctop",
                };
                format!("br{long}.{kind}{} {}", completers(hints), self.target(distance))
            }
            Op::BranchCall { link, distance, hints } => {
                format!("br{long}.call{} b{link}={}", completers(hints), self.target(distance))
            }
            Op::BranchIndirect { at, hints } if is_always && hints.whether == 0 => format!("br{} b{at}", few(hints)),
            Op::BranchIndirect { at, hints } => format!("br.cond{} b{at}", completers(hints)),
            Op::BranchForeign { at, hints } => format!("br.ia{} b{at}", completers(hints)),
            Op::BranchReturn { at, hints } => format!("br.ret{} b{at}", completers(hints)),
            Op::BranchCallIndirect { link, at, hints } => format!("br.call{} b{link}=b{at}", completers(hints)),
            Op::Predict { whether, important, distance, tag } => {
                let kind = ["sptk", "loop", "dptk", "exit"][usize::from(whether) & 3];
                format!("brp.{kind}{} {},{}", imp(important), self.target(distance), self.target(tag))
            }
            Op::PredictIndirect { returns, whether, important, at, tag } => {
                let (ret, kind) = (if returns { ".ret" } else { "" }, WHETHER[usize::from(whether) & 3]);
                format!("brp{ret}.{kind}{} b{at},{}", imp(important), self.target(tag))
            }
            Op::CheckSpeculation { float: true, register, distance } => format!("chk.s f{register},{}", self.target(distance)),
            Op::CheckSpeculation { float: false, register, distance } => {
                format!("chk.s.{} r{register},{}", self.unit, self.target(distance))
            }
            Op::CheckAdvanced { float, clear, register, distance } => {
                let (how, file) = (if clear { "clr" } else { "nc" }, if float { "f" } else { "r" });
                format!("chk.a.{how} {file}{register},{}", self.target(distance))
            }
            Op::FloatCheck { status, distance } => format!("fchkf.s{status} {}", self.target(distance)),
            _ => return None,
        })
    }

    fn system(&self) -> Option<String> {
        let unit = self.unit;
        Some(match self.instruction.op {
            Op::Break { number } => format!("break.{unit} {number:#x}"),
            Op::Nop { number } => format!("nop.{unit} {number:#x}"),
            // binutils leaves out the two bits that are zero, and writes the rest in decimal.
            Op::Hint { number } if unit == 'm' => format!("hint.m {}", number >> 6 << 4 | number & 0xf),
            Op::Hint { number } => format!("hint.{unit} {number:#x}"),
            Op::MoveToBranch { to, from, returns: false, whether: 1, important: false, .. } => format!("mov b{to}=r{from}"),
            Op::MoveToBranch { to, from, returns, whether, important, tag } => {
                let ret = if returns { ".ret" } else { "" };
                let how = ["sptk", "", "dptk", ""][usize::from(whether) & 3];
                let dot = if how.is_empty() { "" } else { "." };
                format!("mov{ret}{dot}{how}{} b{to}=r{from},{}", imp(important), self.target(tag))
            }
            Op::MoveFromBranch { to, from } => format!("mov r{to}=b{from}"),
            Op::MoveToPredicates { from, mask } => format!("mov pr=r{from},{mask:#x}"),
            Op::MoveToRotating { value } => format!("mov pr.rot={value:#x}"),
            Op::MovePredicates { to } => format!("mov r{to}=pr"),
            Op::MoveIp { to } => format!("mov r{to}=ip"),
            Op::MoveToAr { ar, from } => format!("mov.{unit} {}={}", application(ar), value(from)),
            Op::MoveFromAr { to, ar } => format!("mov.{unit} r{to}={}", application(ar)),
            Op::MoveToCr { cr, from } => format!("mov {}=r{from}", control(cr)),
            Op::MoveFromCr { to, cr } => format!("mov r{to}={}", control(cr)),
            Op::MoveToPsr { user, from } => format!("mov psr.{}=r{from}", if user { "um" } else { "l" }),
            Op::MoveFromPsr { user, to } => format!("mov r{to}=psr{}", if user { ".um" } else { "" }),
            Op::MoveToFile { file: kind, index, from } => format!("mov {}[r{index}]=r{from}", file(kind)),
            Op::MoveFromFile { file: kind, to, index } => format!("mov r{to}={}[r{index}]", file(kind)),
            Op::Alloc { to, frame, locals, rotating } => format!("alloc r{to}=ar.pfs,{frame},{locals},{rotating}"),
            Op::Mask { system, sets, mask } => {
                let name = [["rum", "sum"], ["rsm", "ssm"]][usize::from(system)][usize::from(sets)];
                format!("{name} {mask:#x}")
            }
            Op::System(what) => plain(what).into(),
            Op::Tlb { what, a, b } => match what {
                Tlb::PtcL => format!("ptc.l r{a},r{b}"),
                Tlb::PtcG => format!("ptc.g r{a},r{b}"),
                Tlb::PtcGa => format!("ptc.ga r{a},r{b}"),
                Tlb::PtrD => format!("ptr.d r{a},r{b}"),
                Tlb::PtrI => format!("ptr.i r{a},r{b}"),
                Tlb::ItrD => format!("itr.d dtr[r{a}]=r{b}"),
                Tlb::ItrI => format!("itr.i itr[r{a}]=r{b}"),
            },
            Op::InsertCache { data, from } => format!("itc.{} r{from}", if data { "d" } else { "i" }),
            Op::PurgeAll { at } => format!("ptc.e r{at}"),
            Op::FlushCache { data, at } => format!("fc{} r{at}", if data { "" } else { ".i" }),
            Op::Translate { name, to, at } => format!("{name} r{to}=r{at}"),
            Op::Probe { write, to, at, level } => {
                format!("probe.{} r{to}=r{at},{}", if write { "w" } else { "r" }, value(level))
            }
            Op::ProbeFault { read, write, at, level } => {
                let how = [["", "w"], ["r", "rw"]][usize::from(read)][usize::from(write)];
                format!("probe.{how}.fault r{at},{level}")
            }
            Op::InvalidateEntry { float, register } => format!("invala.e {}{register}", if float { "f" } else { "r" }),
            _ => return None,
        })
    }
}

fn imp(important: bool) -> &'static str {
    if important { ".imp" } else { "" }
}

fn file(file: File) -> &'static str {
    match file {
        File::Rr => "rr",
        File::Dbr => "dbr",
        File::Ibr => "ibr",
        File::Pkr => "pkr",
        File::Pmc => "pmc",
        File::Pmd => "pmd",
        File::Msr => "msr",
        File::Cpuid => "cpuid",
        File::Dahr => "dahr",
    }
}

fn unary(what: Unary, to: u8, from: u8) -> String {
    let name = match what {
        Unary::ZeroExtend(size) => format!("zxt{size}"),
        Unary::SignExtend(size) => format!("sxt{size}"),
        Unary::ZeroIndexLeft(size) => format!("czx{size}.l"),
        Unary::ZeroIndexRight(size) => format!("czx{size}.r"),
        Unary::CountOnes => "popcnt".into(),
        Unary::CountLeadingZeros => "clz".into(),
        Unary::Bytes(code) => {
            let how = match code {
                0 => "@brcst".into(),
                8 => "@mix".into(),
                9 => "@shuf".into(),
                10 => "@alt".into(),
                11 => "@rev".into(),
                other => format!("{other:#x}"),
            };
            return format!("mux1 r{to}=r{from},{how}");
        }
        Unary::Halves(code) => return format!("mux2 r{to}=r{from},{code:#x}"),
    };
    format!("{name} r{to}=r{from}")
}

fn plain(what: System) -> &'static str {
    match what {
        System::Invala => "invala",
        System::Fwb => "fwb",
        System::Mf => "mf",
        System::MfA => "mf.a",
        System::SrlzD => "srlz.d",
        System::SrlzI => "srlz.i",
        System::SyncI => "sync.i",
        System::Loadrs => "loadrs",
        System::Flushrs => "flushrs",
        System::Cover => "cover",
        System::Clrrrb => "clrrrb",
        System::ClrrrbPr => "clrrrb.pr",
        System::Rfi => "rfi",
        System::Bsw0 => "bsw.0",
        System::Bsw1 => "bsw.1",
        System::Epc => "epc",
        System::Vmsw0 => "vmsw.0",
        System::Vmsw1 => "vmsw.1",
    }
}
