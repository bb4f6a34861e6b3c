//! Damaged kernels: a kernel file with wrong bytes is refused with a message, or it runs, and the guest may crash, hang
//! or end. trapline never crashes.
//!
//! The damage is in bytes that are read or executed: the headers, the symbols, the kernel's tables and other data, its
//! entry code, and the instructions that an undamaged run was seen to execute.

use goblin::elf::Elf;
use goblin::elf::section_header::{SHF_ALLOC, SHF_EXECINSTR, SHT_NOBITS, SHT_NULL, SHT_STRTAB, SHT_SYMTAB};
use std::collections::BTreeSet;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use trapline::boot::Kernel;
use trapline::machine::{Config, Stop};
use trapline::probed::Session;
use trapline_harness::Test;
use trapline_probes::probe::{Flow, Kprobe, Kretprobe};
use trapline_tests::{GUESTS, session};

/// The number of damaged kernels for each guest and region. `PROPTEST_CASES` sets another number.
const CASES: u64 = 16;
/// The limit of a damaged kernel's guest time, in nanoseconds. An undamaged kernel runs programs by then.
const LONG: u64 = 2_000_000;
/// The guest time between two samples of an undamaged kernel's pc.
const LOOK: u64 = 1_000;

/// A part of a kernel file.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Region {
    /// The ELF header and the program headers.
    Headers,
    /// The section headers.
    Sections,
    /// Symbols and their names.
    Symbols,
    /// The kernel's data, its exception table and its system calls among them.
    Data,
    /// The first instructions.
    Entry,
    /// Instructions at which an undamaged run was sampled.
    Executed,
}

const REGIONS: [Region; 6] = [Region::Headers, Region::Sections, Region::Symbols, Region::Data, Region::Entry, Region::Executed];

impl Region {
    /// The region's ranges of file offsets.
    fn pieces(self, name: &str, bytes: &[u8]) -> Vec<Range<usize>> {
        let elf = Elf::parse(bytes).expect("a built-in kernel is an ELF file");
        let header = &elf.header;
        let of_sections = |wanted: &dyn Fn(u64, u32) -> bool| {
            let stored = elf.section_headers.iter().filter(|section| ![SHT_NULL, SHT_NOBITS].contains(&section.sh_type));
            let chosen = stored.filter(|section| wanted(section.sh_flags, section.sh_type));
            chosen.filter_map(goblin::elf::SectionHeader::file_range).filter(|piece| !piece.is_empty()).collect::<Vec<_>>()
        };
        let is = |flags: u64, flag: u32| flags & u64::from(flag) != 0;
        match self {
            Region::Headers => {
                let start = header.e_phoff as usize;
                let programs = start..start + usize::from(header.e_phnum) * usize::from(header.e_phentsize);
                vec![0..usize::from(header.e_ehsize), programs]
            }
            Region::Sections => {
                let start = header.e_shoff as usize;
                let end = start + usize::from(header.e_shnum) * usize::from(header.e_shentsize);
                Vec::from([Range { start, end }])
            }
            Region::Symbols => of_sections(&|_, kind| kind == SHT_SYMTAB || kind == SHT_STRTAB),
            Region::Data => of_sections(&|flags, _| is(flags, SHF_ALLOC) && !is(flags, SHF_EXECINSTR)),
            Region::Entry => offset_of(&elf, elf.entry).map(|at| at..(at + 128).min(bytes.len())).into_iter().collect(),
            Region::Executed => {
                let at = executed(name).into_iter().filter_map(|pc| offset_of(&elf, pc));
                at.map(|at| at..(at + 8).min(bytes.len())).collect()
            }
        }
    }

    /// Whether most damage in this region must have an effect, because the machine or the guest uses nearly all of it.
    fn always_matters(self) -> bool {
        matches!(self, Region::Headers | Region::Entry | Region::Executed)
    }
}

/// The file offset of a loaded address, virtual or physical.
fn offset_of(elf: &Elf, address: u64) -> Option<usize> {
    let inside = |start: u64, size: u64| address.checked_sub(start).filter(|offset| *offset < size);
    let segments = || elf.program_headers.iter();
    let at = |segment: &goblin::elf::ProgramHeader, offset: u64| (segment.p_offset + offset) as usize;
    segments()
        .find_map(|segment| inside(segment.p_vaddr, segment.p_filesz).map(|offset| at(segment, offset)))
        .or_else(|| segments().find_map(|segment| inside(segment.p_paddr, segment.p_filesz).map(|offset| at(segment, offset))))
}

/// The sampled pcs of an undamaged run.
fn executed(name: &str) -> BTreeSet<u64> {
    let mut session = session(name, 1);
    let mut seen = BTreeSet::new();
    for until in (LOOK..LONG).step_by(LOOK as usize) {
        if session.run_until(until) != Stop::Limit {
            break;
        }
        seen.extend(session.machine_mut().pcs());
    }
    seen
}

/// A pseudo-random generator with a fixed seed.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, most: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % most.max(1)
    }
}

/// Makes one to three changes in the pieces of a region. Returns their description.
fn damage(bytes: &mut Vec<u8>, pieces: &[Range<usize>], numbers: &mut Numbers) -> String {
    let mut said = String::new();
    for _ in 0..1 + numbers.below(3) {
        let piece = pieces[numbers.below(pieces.len())].clone();
        let at = piece.start + numbers.below(piece.len());
        let (one, width) = (numbers.below(256) as u8, [1, 2, 4, 8][numbers.below(4)]);
        let end = (at + width).min(bytes.len());
        if at >= end {
            continue;
        }
        let how = numbers.below(7);
        match how {
            0 => bytes[at] ^= 1 << (one % 8),
            1 => bytes[at] = one,
            2 => bytes[at..end].fill(0),
            3 => bytes[at..end].fill(0xff),
            // The largest and the smallest numbers with a sign, in either order of bytes.
            4 => {
                bytes[at..end].fill(if one.is_multiple_of(2) { 0xff } else { 0 });
                let (edge, sign) = (if one & 2 == 0 { at } else { end - 1 }, if one.is_multiple_of(2) { 0x7f } else { 0x80 });
                bytes[edge] = sign;
            }
            5 => {
                let from = numbers.below(bytes.len() - width);
                let copied = bytes[from..from + (end - at)].to_vec();
                bytes[at..end].copy_from_slice(&copied);
            }
            // The file ends here, now and then.
            _ if numbers.below(4) == 0 => bytes.truncate(at),
            _ => bytes[at..end].reverse(),
        }
        said += &format!(" {how} at {at:#x} of {width};");
    }
    said
}

/// The result of a kernel file: the refusal, or the end of its run with the guest time.
#[derive(Debug, PartialEq)]
enum Outcome {
    Refused(String),
    Ran(Stop, u64, Vec<u8>),
}

fn outcome_of(bytes: &[u8]) -> Outcome {
    let kernel = match Kernel::from_bytes(bytes) {
        Ok(kernel) => kernel,
        Err(error) => return Outcome::Refused(error.to_string()),
    };
    let mut session = match Session::new(kernel, &Config::default()) {
        Ok(session) => session,
        Err(error) => return Outcome::Refused(error.to_string()),
    };
    let probe = Kprobe::at("vfs_read").pre(|_| Flow::Continue);
    let followed = Kretprobe::at("vfs_write").handler(|_| {});
    // A damaged kernel may have no such functions any more.
    let _ = session.register_kprobe(&probe);
    let _ = session.register_kretprobe(&followed);
    let stop = session.run_until(LONG);
    let report = session.report();
    assert!(!report.registers.is_empty(), "a report has registers, whatever has happened");
    let machine = session.machine_mut();
    Outcome::Ran(stop, machine.time(), machine.take_console())
}

/// Damaged files of one guest, in one region.
fn damaged_kernels_never_panic_the_machine(name: &str, region: Region) {
    let whole = trapline_images::find(name).expect("built in").bytes;
    let pieces = region.pieces(name, whole);
    let bytes: usize = pieces.iter().map(Range::len).sum();
    assert!(!pieces.is_empty() && bytes >= 32, "{name} has {bytes} bytes of {region:?}");
    assert!(region != Region::Executed || pieces.len() > 100, "{name} was seen at {} places", pieces.len());
    let usual = outcome_of(whole);
    let asked = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok());
    let cases: u64 = asked.unwrap_or(CASES);
    let mut shown = 0;
    for case in 0..cases {
        let mut numbers = Numbers(case * 7919 + region as u64 * 104_729 + name.len() as u64);
        let mut bytes = whole.to_vec();
        let said = damage(&mut bytes, &pieces, &mut numbers);
        // It is printed only if the test fails: then the last line names the case, also where the process was ended.
        println!("{name} {region:?} case {case}:{said}");
        let outcome = catch_unwind(AssertUnwindSafe(|| outcome_of(&bytes)));
        let outcome = outcome.unwrap_or_else(|_| panic!("{name} {region:?} case {case} panicked:{said}"));
        match &outcome {
            Outcome::Refused(why) => assert!(why.len() > 10, "{name} {region:?} case {case}: refused with `{why}`"),
            Outcome::Ran(stop, ..) => assert!(*stop != Stop::Attention, "{name} {region:?} case {case}"),
        }
        shown += u64::from(outcome != usual);
    }
    println!("{name} {region:?}: {shown} of {cases} damaged kernels did something else");
    assert!(!region.always_matters() || shown * 3 >= cases, "{name} {region:?}: the damage of {shown} in {cases} showed");
}

fn main() -> ExitCode {
    let of = |name: &'static str| {
        REGIONS.iter().map(move |region| {
            let what = format!("{region:?}").to_lowercase();
            let test = format!("damaged_kernels_never_panic_the_machine::{}_{what}", name.replace('/', "_"));
            Test::new(test, move || damaged_kernels_never_panic_the_machine(name, *region))
        })
    };
    trapline_harness::run([GUESTS.iter().flat_map(|(_, name)| of(name)).collect()])
}
