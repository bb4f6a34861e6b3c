//! Compares the engine's decisions with those of real kernels, address by address (spec: the tables of
//! ../shared/oracle).
//!
//! Needs these tables and the kernels that they were made on, in `TRAPLINE_IMAGES` or ../shared/kernels. Without them
//! the tests are skipped. Running kernels patch their text. So decisions are made on the text of a guest that was
//! booted here, and on the image with the 32 live bytes of each row written into it.
//!
//! docs/conformance.md must contain the result, with a reason for every difference. To write it again, run
//! `TRAPLINE_WRITE_DOCS=1 cargo nextest run -p trapline-tests --test conformance -j1`.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::ExitCode;
use trapline::boot::Kernel;
use trapline::still::StillGuest;
use trapline::symbols::{Entry, Symbols};
use trapline_harness::{self as harness, tests};
use trapline_isa::arch::Arch;
use trapline_isa::function;
use trapline_isa::plan::{Policy, Refusal};
use trapline_probes::Engine;
use trapline_probes::guest::{Guest, Site};
use trapline_probes::probe::{Flow, Kprobe, Kretprobe};
use trapline_tests::oracle::{self, ORACLES, Oracle, OracleRow, file_of, rows};

/// The least percentage of rows that must agree.
const LEAST: f64 = 99.0;

fn image_of(name: &str) -> Option<Kernel> {
    let file = file_of(name)?;
    let bytes = fs::read(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    Some(Kernel::from_bytes(&bytes).unwrap_or_else(|error| panic!("{}: {error}", file.display())))
}

/// Each kernel that has this table, with the table.
fn each(suffix: &str) -> impl Iterator<Item = (&'static str, Kernel, String)> {
    ORACLES.iter().filter_map(move |Oracle { name, image, .. }| {
        let table = oracle::table(&format!("{name}{suffix}"))?;
        Some((*name, image_of(image)?, table))
    })
}

/// Symbols and bytes of the image must equal those that the running kernel reported.
fn symbols_and_text_of_the_image_equal_the_running_kernels() {
    for (name, kernel, table) in each("-direct.open.tsv.gz") {
        let rows = rows(&table);
        for row in &rows {
            // The tables name symbols in the text only.
            let found = kernel.symbols.containing(row.address).filter(|_| kernel.tables.text.contains(&row.address));
            let found = found.map_or(("-".into(), 0, 0), |symbol| (symbol.name, row.address - symbol.start, symbol.size));
            assert_eq!(found, (row.symbol.clone(), row.offset, row.size), "{name}: {:#x}", row.address);
            let mut image = vec![0; row.image.len()];
            kernel.read(row.address, &mut image).unwrap_or_else(|fault| panic!("{name}: {fault:?}"));
            // A raw image is relocated when it is loaded, so its data equals that of the running kernel.
            assert!(image == row.image || image == row.live, "{name}: {:#x}: {image:02x?}", row.address);
        }
        println!("{name}: {} symbols; symbol, offset, size and bytes of {} rows are the same", kernel.symbols.len(), rows.len());
    }
}

/// KP-15, DV-1: the blacklist, in the kernel's own order.
fn the_blacklist_equals_the_kernels_own() {
    for (name, kernel, table) in each(".blacklist.txt.gz") {
        let ours = oracle::blacklist(&kernel);
        let theirs: Vec<&str> = table.lines().collect();
        let first = ours.iter().zip(&theirs).position(|(one, other)| one != other);
        assert_eq!(first.map(|at| (&*ours[at], theirs[at])), None, "{name}: the first difference");
        assert_eq!(ours.len(), theirs.len(), "{name}");
        println!("{name}: {} entries of the blacklist are the same; missing: {:?}", ours.len(), kernel.tables.missing);
    }
}

/// KP-15: with CONFIG_KALLSYMS_ALL off only code has symbols. The tables are then found by their contents.
fn tables_are_found_without_their_symbols() {
    for (name, kernel, _) in each(".blacklist.txt.gz").filter(|(name, ..)| name.ends_with("amd64")) {
        let tables = &kernel.tables;
        let ends = [Some(&tables.text), tables.init_text.as_ref()];
        let of_code = |entry: &&Entry| {
            tables.is_text(entry.address)
                || ends.iter().flatten().any(|text| text.end == entry.address) && entry.name.ends_with("text")
        };
        let names = Symbols::in_table_order(kernel.symbols.places().iter().filter(of_code).cloned().collect());
        assert!(names.address_of("__start_mcount_loc").is_none() && names.address_of("_end").is_none());
        let nameless = kernel.clone().with_symbols(names);
        assert_eq!(nameless.tables.missing, [""; 0], "{name}");
        assert_eq!(nameless.tables.blacklist, tables.blacklist, "{name}");
        assert_eq!(nameless.tables.exceptions, tables.exceptions, "{name}");
        let differs = |(address, site): &(&u64, &Site)| nameless.tables.sites.get(address) != Some(site);
        let lost: Vec<_> = tables.sites.iter().filter(differs).collect();
        assert!(lost.is_empty(), "{name}: {} sites are lost: {:x?}", lost.len(), &lost[..lost.len().min(4)]);
        assert_eq!(nameless.tables.sites.len(), tables.sites.len(), "{name}: sites that are none");
        println!("{name}: {} sites are found without names", tables.sites.len());
    }
}

/// KP-1, KP-4, KP-5, KP-15: success or the errno, for kprobes with and without a post-handler and for return probes.
fn decisions_on_the_image_are_those_of_linux_6_1() {
    let mut found = Found::default();
    for (name, kernel, table) in each("-direct.open.tsv.gz") {
        let rows = rows(&table);
        let mut guest = StillGuest::booted(&kernel);
        patch_returns(&kernel, &mut guest);
        patch_sites(&kernel, &mut guest);
        for (place, load) in device_loads(&kernel) {
            guest.patch_text(place, &load.to_le_bytes()).unwrap_or_else(|fault| panic!("{name}: {fault:?}"));
        }
        write_live(&mut guest, &rows);
        let differences = differences(name, &kernel, &mut guest, &rows);
        let unpatched = |row: &OracleRow| row.live == row.image;
        found.add(name, &rows, &differences, unpatched);
        let share = share(&differences);
        assert!(share >= LEAST, "{name}: {share:.2} % of the rows agree");
        if ORACLES.iter().any(|oracle| oracle.name == name && oracle.stock.is_none()) {
            compare_statuses(&format!("{name}, direct"), &kernel, &mut guest, &rows);
            if let Some(table) = oracle::table(&format!("{name}.open.tsv.gz")) {
                let rows = oracle::rows(&table);
                write_live(&mut guest, &rows);
                compare_statuses(&format!("{name}, events"), &kernel, &mut guest, &rows);
            }
        }
    }
    found.hold("image", "that the kernel has not patched", |_| true);
}

/// KP-1, KP-4, KP-5, KP-15, OP-2, OP-3: the same decisions on the text of a guest that was booted here and has patched
/// itself.
fn decisions_on_a_booted_guests_text_are_those_of_linux_6_1() {
    let mut found = Found::default();
    for (name, kernel, table) in each("-direct.open.tsv.gz") {
        let oracle = ORACLES.iter().find(|oracle| oracle.name == name);
        let Some(live) = oracle.and_then(|oracle| oracle::live(oracle, &kernel)) else { continue };
        let rows = rows(&table);
        let same = |row: &OracleRow| {
            let mut bytes = vec![0; row.live.len()];
            live.read(row.address, &mut bytes).is_ok() && bytes == row.live
        };
        let differences = differences(name, &live, &mut StillGuest::booted(&live), &rows);
        found.add(name, &rows, &differences, same);
        // Rows with the same bytes in both guests must be decided equally. Two kinds are excluded: rows on which Linux
        // crashed, and rows behind the text, which Linux distinguishes by its own link order.
        let is_decided = |row: &&OracleRow| row.result != "crash" && row.symbol != "-";
        let decided = rows.iter().zip(&differences).filter(|(row, _)| is_decided(row));
        assert!(decided.into_iter().all(|(row, difference)| difference.is_none() || !same(row)), "{name}");
        let share = share(&differences);
        assert!(share >= LEAST, "{name}: {share:.2} % of the rows agree");
        let mut guest = StillGuest::booted(&live);
        compare_statuses(&format!("{name}, direct"), &live, &mut guest, &rows);
        if let Some(table) = oracle::table(&format!("{name}.open.tsv.gz")) {
            compare_statuses(&format!("{name}, events"), &live, &mut guest, &oracle::rows(&table));
        }
    }
    found.hold("booted guest", "with the oracle's bytes", |oracle| oracle.stock.is_some());
}

/// For each row: `None`, or the difference.
fn differences(name: &str, kernel: &Kernel, guest: &mut StillGuest<'_>, rows: &[OracleRow]) -> Vec<Option<Difference>> {
    rows.iter()
        .map(|row| {
            let answer = answer(kernel, guest, row);
            let said = answer.as_ref().map_or_else(|refusal| refusal.errno.name(), |_| "ok");
            match answer {
                Ok(status) if row.result == "ok" => {
                    let (ours, theirs) = (status.word == "ftrace", row.status == "ftrace");
                    assert_eq!(ours, theirs, "{name}: {:#x}: is it left to ftrace?", row.address);
                    None
                }
                _ if said == row.result => None,
                answer => Some(difference(kernel, row, said, answer.err().as_ref())),
            }
        })
        .collect()
}

fn share(differences: &[Option<Difference>]) -> f64 {
    100.0 * differences.iter().filter(|difference| difference.is_none()).count() as f64 / differences.len() as f64
}

/// The text that a comparison contributes to docs/conformance.md.
#[derive(Default)]
struct Found {
    shares: String,
    differences: String,
    kernels: usize,
}

impl Found {
    /// Adds a line for the kernel and one for each difference, with its reason. Also prints them.
    fn add(&mut self, name: &str, rows: &[OracleRow], differences: &[Option<Difference>], same: impl Fn(&OracleRow) -> bool) {
        let agree = differences.iter().filter(|difference| difference.is_none()).count();
        let same: Vec<bool> = rows.iter().map(same).collect();
        let agree_same = differences.iter().zip(&same).filter(|(difference, same)| difference.is_none() && **same).count();
        let count_same = same.iter().filter(|same| **same).count();
        let share = share(differences);
        println!("{name}: {agree} of {} rows, {share:.2} %; {agree_same} of {count_same}", rows.len());
        let _ = writeln!(self.shares, "| {name} | {} | {agree} | {share:.2} % | {agree_same} of {count_same} |", rows.len());
        self.kernels += 1;
        for (row, difference) in rows.iter().zip(differences) {
            let Some(Difference { ours, reason, all }) = difference else { continue };
            println!("  {all}");
            let reason = reason.unwrap_or_else(|| panic!("{name}: a difference without a reason: {all}"));
            let place = format!("`{}+{:#x}`", row.symbol, row.offset);
            let _ = writeln!(self.differences, "| {name} | {place} | {} | `{}` | `{ours}` | {reason} |", row.kind, row.result);
        }
    }

    /// Compares the part of docs/conformance.md between two marks with the result, or writes it.
    fn hold(&self, mark: &str, of: &str, is_compared: fn(&&Oracle) -> bool) {
        if self.kernels < ORACLES.iter().filter(is_compared).count() {
            return;
        }
        let none = "| | none | | | | |\n".to_string();
        let differences = if self.differences.is_empty() { &none } else { &self.differences };
        let text = format!(
            "\n| kernel | rows | agree | share | of rows {of} |\n|---|---|---|---|---|\n{}\n| kernel | place | kind | Linux | ours | why |\n|---|---|---|---|---|---|\n{differences}\n",
            self.shares
        );
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/conformance.md");
        let document = fs::read_to_string(&path).expect("docs/conformance.md");
        let (start, end) = (format!("<!-- {mark}: written by the test -->\n"), format!("<!-- end of {mark} -->"));
        let from = document.find(&start).expect("the mark") + start.len();
        let to = document.find(&end).expect("the other mark");
        if std::env::var_os("TRAPLINE_WRITE_DOCS").is_some() {
            let whole = [&document[..from], &text, &document[to..]].concat();
            fs::write(&path, whole).expect("docs/conformance.md can be written");
        } else {
            assert_eq!(&document[from..to], text, "docs/conformance.md is behind: write it anew with TRAPLINE_WRITE_DOCS=1");
        }
    }
}

/// Writes the live bytes of the tables into a stopped copy.
fn write_live(guest: &mut StillGuest<'_>, rows: &[OracleRow]) {
    for row in rows.iter().filter(|row| row.live != row.image && !row.image.is_empty()) {
        guest.patch_text(row.address, &row.live).unwrap_or_else(|fault| panic!("{:#x}: {fault:?}", row.address));
    }
}

/// Applies the patches that a running MIPS kernel makes: all ftrace calls with their delay slots, and all jump label
/// branches become nops (arch/mips/kernel/ftrace.c and jump_label.c). They decide whether an address lies in a delay
/// slot.
fn patch_sites(kernel: &Kernel, guest: &mut StillGuest<'_>) {
    if kernel.arch != Arch::Mipsel {
        return;
    }
    assert!(kernel.tables.missing.is_empty(), "{:?}", kernel.tables.missing);
    for (address, site) in &kernel.tables.sites {
        let mut word = [0; 4];
        kernel.read(*address, &mut word).unwrap_or_else(|fault| panic!("{fault:?}"));
        let is_branch = u32::from_le_bytes(word) >> 16 == 0x1000;
        let nops: &[u8] = match site {
            Site::Ftrace => &[0; 8],
            Site::JumpLabel if is_branch => &[0; 4],
            _ => continue,
        };
        guest.patch_text(*address, nops).unwrap_or_else(|fault| panic!("{address:#x}: {fault:?}"));
    }
}

/// Applies the patches that amd64 makes on the tables' CPU: jumps to the return thunk become returns followed by int3
/// (arch/x86/kernel/alternative.c).
fn patch_returns(kernel: &Kernel, guest: &mut StillGuest<'_>) {
    let Some(sites) = kernel.section(".return_sites") else { return };
    let table = kernel.held(&sites).expect("the table is in the image");
    for (at, row) in (sites.start..).step_by(4).zip(table.chunks_exact(4)) {
        let site = at.wrapping_add_signed(i32::from_le_bytes(row.try_into().expect("4 bytes")).into());
        let mut jump = [0; 5];
        if kernel.tables.text.contains(&site) && kernel.read(site, &mut jump).is_ok() && jump[0] == 0xe9 {
            guest.patch_text(site, &[0xc3, 0xcc, 0xcc, 0xcc, 0xcc]).expect("text can be patched");
        }
    }
}

/// The patches for erratum 832075 of the Cortex-A57, the CPU of the arm64 tables: `ldr` from devices becomes `ldar`.
/// The alternatives table has rows of struct alt_instr: location, replacement, number, two lengths. No symbol names it,
/// so its rows are recognised by their contents. Returns pairs of address and new instruction.
fn device_loads(kernel: &Kernel) -> Vec<(u64, u32)> {
    const ROW: usize = 12;
    let (is_arm64, is_text) = (kernel.arch == Arch::Arm64, |address| kernel.tables.is_text(address));
    let data = kernel.segments.iter().filter(|segment| is_arm64 && !segment.executable);
    let rows = data.flat_map(|segment| {
        let offsets = (0..segment.bytes.len().saturating_sub(ROW)).step_by(4);
        offsets.map(|offset| (segment.virtual_address + offset as u64, &segment.bytes[offset..][..ROW]))
    });
    rows.filter(|(_, row)| row[10..] == [4, 4])
        .filter_map(|(at, row)| {
            let field = |from: usize| {
                let distance = i32::from_le_bytes(row[from..from + 4].try_into().expect("4 bytes"));
                Some(at.wrapping_add(from as u64).wrapping_add_signed(distance.into())).filter(|address| is_text(*address))
            };
            let (place, replacement) = (field(0)?, field(4)?);
            let mut bytes = [0; 4];
            kernel.read(replacement, &mut bytes).ok()?;
            let load = u32::from_le_bytes(bytes);
            (load & 0x3fff_fc00 == 0x08df_fc00).then_some((place, load))
        })
        .collect()
}

/// The status of a registered probe in the kernel's list, and the reason if it is not optimised.
struct Status {
    word: &'static str,
    obstacle: Option<Refusal>,
}

/// Registers a lone probe of the row's kind and unregisters it again.
fn answer(kernel: &Kernel, guest: &mut StillGuest<'_>, row: &OracleRow) -> Result<Status, Refusal> {
    let mut engine = Engine::new(kernel.arch.isa(), 1).with_policy(Policy::LINUX_6_1);
    let status = |engine: &Engine, guest: &StillGuest<'_>| match engine.summary(guest).into_iter().next() {
        Some(point) if point.uses_ftrace => Status { word: "ftrace", obstacle: None },
        Some(point) if point.optimized => Status { word: "optimized", obstacle: None },
        point => Status { word: "plain", obstacle: point.and_then(|point| point.obstacle) },
    };
    let plain = || Kprobe::at_address(row.address).pre(|_| Flow::Continue);
    match &*row.kind {
        "r" => {
            let probe = Kretprobe::at_address(row.address).maxactive(16);
            engine.register_kretprobe(guest, &probe)?;
            let answer = status(&engine, guest);
            engine.unregister_kretprobe(guest, &probe);
            Ok(answer)
        }
        kind => {
            let probe = if kind == "q" { plain().post(|_| ()) } else { plain() };
            engine.register_kprobe(guest, &probe)?;
            let answer = status(&engine, guest);
            engine.unregister_kprobe(guest, &probe);
            Ok(answer)
        }
    }
}

/// Compares the status column for all rows that both sides register. Prints each difference.
fn compare_statuses(name: &str, kernel: &Kernel, guest: &mut StillGuest<'_>, rows: &[OracleRow]) {
    let (mut registered, mut agree) = (0, 0);
    let mut seen = BTreeMap::<(String, &str), u32>::new();
    for row in rows.iter().filter(|row| row.result == "ok") {
        let Ok(ours) = answer(kernel, guest, row) else { continue };
        registered += 1;
        *seen.entry((row.status.clone(), ours.word)).or_default() += 1;
        if ours.word == row.status {
            agree += 1;
        } else {
            let why = ours.obstacle.map_or(String::new(), |refusal| refusal.why.to_string());
            let bytes = &row.live[..row.live.len().min(16)];
            println!(
                "  {:#x} {} {}+{:#x}: theirs {}, ours {}; {bytes:02x?} `{}`; {why}",
                row.address, row.kind, row.symbol, row.offset, row.status, ours.word, row.insn
            );
        }
    }
    let share = 100.0 * f64::from(agree) / f64::from(registered);
    println!("| {name} | {registered} | {agree} | {share:.2} % | (theirs, ours) {seen:?}");
    assert!(registered > 0 && share >= LEAST, "{name}: the status of {share:.2} % of the registered rows agrees");
}

/// A row with a different decision.
struct Difference {
    ours: &'static str,
    /// The reason, if known.
    reason: Option<&'static str>,
    all: String,
}

fn difference(kernel: &Kernel, row: &OracleRow, said: &'static str, refusal: Option<&Refusal>) -> Difference {
    let site: Option<&Site> = kernel.tables.sites.get(&row.address);
    let mut all = format!("{:#x} {} {}+{:#x}: theirs {}, ours {said}", row.address, row.kind, row.symbol, row.offset, row.result);
    let _ = write!(all, "; {:02x?} `{}`, {}, {}", &row.live[..row.live.len().min(8)], row.insn, row.category, row.status);
    let _ = write!(all, "; site {site:?}; {}", refusal.map_or("", |refusal| &refusal.why));
    let symbol = kernel.symbols.containing(row.address).map_or(0..0, |symbol| symbol.start..symbol.start + symbol.size);
    let text = |at, into: &mut [u8]| kernel.read(at, into);
    let is_boundary = function::walk(kernel.arch.isa(), symbol.start, symbol.end, text)
        .map_while(Result::ok)
        .any(|insn| insn.address == row.address);
    let reason = match () {
        () if said == "EILSEQ" && !is_boundary && row.live != row.image => Some(
            "the kernel has replaced an instruction of the image by shorter ones; where they begin is before the row, in bytes that no row tells",
        ),
        () if row.result == "crash" && row.insn.starts_with("tm ") => Some(
            "Linux accepts it, and the oracle's guest died: its emulator loses the condition code of a `tm` that is stepped; here its copy runs by itself and keeps it",
        ),
        () if row.result == "crash" && kernel.arch == Arch::Mipsel => Some(
            "Linux accepts it, and the oracle's guest died: Linux's trap is an exception of the guest's, and overwrites what the first instructions of its handlers have; ours is none",
        ),
        () if row.result == "crash" => Some(
            "Linux accepts it, and the oracle's guest died: it lies between a load-and-reserve and its store-conditional, which the policy `best` refuses",
        ),
        () if row.symbol == "-" && row.result == "ENOENT" => Some(
            "the running kernel has names for its code only (no CONFIG_KALLSYMS_ALL); the symbol table of the image, which we go by, names its data too",
        ),
        () => None,
    };
    Difference { ours: said, reason, all }
}

/// Every test needs all kernels that have tables, because the document has a row for each.
fn main() -> ExitCode {
    let tests = tests![
        symbols_and_text_of_the_image_equal_the_running_kernels,
        the_blacklist_equals_the_kernels_own,
        tables_are_found_without_their_symbols,
        decisions_on_the_image_are_those_of_linux_6_1,
        decisions_on_a_booted_guests_text_are_those_of_linux_6_1,
    ];
    let all = |test| ORACLES.iter().fold(test, |test: harness::Test, oracle| test.needs(oracle::need(oracle)));
    harness::run([tests.into_iter().map(all).collect()])
}
