//! Compares our decoders with others over the text of the stock kernels: capstone, yaxpeax, and binutils' objdump. Every
//! instruction has the same length, control flow and target for all, or its difference is of a known class ([`classes`]).
//!
//! In an ordinary run the first [`SOME`] bytes of the text are compared. With `TRAPLINE_OPINIONS=FOLDER` all of it is,
//! and each test leaves a file there, from which `make opinions` makes the table of docs/proof.md.

mod classes;
mod flow;
mod others;

use classes::{Class, class};
use others::{Other, View};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::ops::Range;
use std::process::ExitCode;
use trapline::boot::Kernel;
use trapline_harness::{self as harness, Need, Test, guests};
use trapline_isa::function::walk_code;
use trapline_isa::insn::{Insn, LONGEST};

/// The environment variable that names the folder of a whole comparison.
const WHOLE: &str = "TRAPLINE_OPINIONS";
/// The bytes of text that are compared in an ordinary run.
const SOME: u64 = 512 << 10;

/// The results of a comparison.
#[derive(Default)]
struct Counts {
    instructions: u64,
    same: u64,
    /// The number of instructions of each class, and the first one.
    classes: BTreeMap<&'static str, (u64, String)>,
    /// The instructions that differ and are of no class.
    unknown: BTreeMap<String, (u64, String)>,
}

/// The text that is compared.
fn ranges(kernel: &Kernel) -> Vec<Range<u64>> {
    let text = kernel.tables.text.clone();
    match std::env::var_os(WHOLE) {
        Some(_) => [Some(text), kernel.tables.init_text.clone()].into_iter().flatten().collect(),
        None => std::iter::once(text.start..text.end.min(text.start + SOME)).collect(),
    }
}

/// The functions of that text.
fn functions(kernel: &Kernel) -> Vec<Range<u64>> {
    let of = |range: Range<u64>| {
        let end = range.end;
        kernel.symbols.extents(range).into_iter().map(move |symbol| symbol.start..(symbol.start + symbol.size).min(end))
    };
    ranges(kernel).into_iter().flat_map(of).collect()
}

/// The instruction and the bytes behind it, so that another decoder may find a longer one.
fn bytes_at(kernel: &Kernel, insn: &Insn) -> Vec<u8> {
    let mut bytes = vec![0; LONGEST];
    match kernel.read(insn.address, &mut bytes) {
        Ok(()) => bytes,
        Err(_) => insn.bytes().to_vec(),
    }
}

fn compare(kernel: &Kernel, other: &mut Other) -> Counts {
    let mut counts = Counts::default();
    let isa = kernel.arch.isa();
    for function in functions(kernel) {
        let read = |address: u64, into: &mut [u8]| kernel.read(address, into);
        let is_code = |address| !kernel.symbols.is_data(address);
        for insn in walk_code(isa, function.start, function.end, read, is_code).flatten() {
            counts.instructions += 1;
            let view = other.of(&insn, &bytes_at(kernel, &insn));
            if view.as_ref().is_some_and(|view| agrees(&insn, view)) {
                counts.same += 1;
                continue;
            }
            let theirs = view.as_ref().map_or("nothing".to_string(), |view| format!("{} {}", view.mnemonic, view.operands));
            let example = format!("{:x} {} at {:#x}: {theirs}", Hex(insn.bytes()), flow::name(&insn), insn.address);
            match class(kernel.arch, other.name(), &insn, view.as_ref()) {
                Some(Class { name, .. }) => counts.classes.entry(name).or_insert((0, example)).0 += 1,
                None => {
                    let mnemonic =
                        view.map_or("nothing".to_string(), |view| format!("{} of {} bytes", view.mnemonic, view.length));
                    let key = format!("{} of {} bytes is {mnemonic}", flow::name(&insn), insn.length());
                    counts.unknown.entry(key).or_insert((0, example)).0 += 1;
                }
            }
        }
    }
    counts
}

/// Bytes in hexadecimal.
struct Hex<'a>(&'a [u8]);

impl std::fmt::LowerHex for Hex<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Whether the other decoder sees an instruction of that length with that control flow. On MIPS we decode a branch with its
/// delay slot as one.
fn agrees(insn: &Insn, view: &View) -> bool {
    let is_length = view.length == insn.length() || insn.length() == 8 && view.length == 4;
    is_length && flow::of(insn) == view.control
}

fn decoders_agree(name: &'static str, opinion: &'static str) {
    let found = harness::stock(name);
    let kernel = Kernel::from_bytes(&std::fs::read(&found.local.kernel).expect("the kernel's file")).expect("a kernel");
    let mut other = Other::new(opinion, &kernel).expect("the test needs it");
    let counts = compare(&kernel, &mut other);
    let mut text = format!("total\t{name}\t{opinion}\t{}\t{}\n", counts.instructions, counts.same);
    for (class, (count, example)) in &counts.classes {
        let _ = writeln!(text, "class\t{name}\t{opinion}\t{class}\t{count}\t{example}");
    }
    print!("{text}");
    if let Some(folder) = std::env::var_os(WHOLE) {
        let file = std::path::Path::new(&folder).join(format!("{}-{opinion}.tsv", name.replace('/', "-")));
        std::fs::write(file, &text).expect("the folder can be written");
    }
    let list: Vec<String> =
        counts.unknown.iter().map(|(what, (count, example))| format!("{count} times {what}, as {example}")).collect();
    assert!(list.is_empty(), "{name}, {opinion}: {} differences of no known class:\n{}", list.len(), list.join("\n"));
    assert!(counts.same > 10_000, "{name}, {opinion}: {text}");
}

fn main() -> ExitCode {
    let mut tests = Vec::new();
    for name in guests::stock() {
        for opinion in others::of(name) {
            let test =
                Test::new(harness::member(&format!("{}_agrees", opinion.name), name), move || decoders_agree(name, opinion.name));
            let tool: Option<Need> = opinion.tool.map(|(program, package)| harness::tool(program, package));
            tests.push(tool.into_iter().fold(test.needs(harness::kernel(name)), Test::needs));
        }
    }
    harness::run([tests])
}
