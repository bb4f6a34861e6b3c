//! IA-64: our disassembly compared with binutils' objdump, on an assembled file and on random bundles.
//!
//! The environment variable `TRAPLINE_BUNDLES` sets the number of random bundles.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use trapline_isa::ia64::bundle::{Bundle, Template};
use trapline_isa::ia64::disasm;

/// Debian's package is binutils-ia64-linux-gnu.
const OBJDUMP: &str = "ia64-linux-gnu-objdump";
const ASSEMBLER: &str = "ia64-linux-gnu-as";

/// Random bundles without the environment variable.
const BUNDLES: usize = 40_000;

/// A folder of this process, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let folder = std::env::temp_dir().join(format!("trapline-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        Folder(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs one of binutils' programs.
fn binutils(program: &str, folder: &Path, arguments: &[&str]) -> String {
    let output = Command::new(program).current_dir(folder).args(arguments).output().expect(program);
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// Assembles a file in the folder and returns objdump's lines: the bundle's address, the slot, and the text.
fn disassembled(folder: &Path, source: &str) -> (Vec<(u64, usize, String)>, Vec<u8>) {
    binutils(ASSEMBLER, folder, &[source, "-o", "code.o"]);
    let listed = binutils(OBJDUMP, folder, &["-d", "-z", "code.o"]);
    let mut lines = Vec::new();
    let mut bytes = Vec::new();
    for line in listed.lines() {
        let Some((address, rest)) = line.trim_start().split_once(":\t") else { continue };
        let (Ok(address), Some((words, text))) = (u64::from_str_radix(address, 16), rest.split_once('\t')) else {
            // The last bytes of a bundle have a line without a text.
            bytes.extend(rest.split(' ').filter_map(|byte| u8::from_str_radix(byte, 16).ok()));
            continue;
        };
        bytes.extend(words.split(' ').filter_map(|byte| u8::from_str_radix(byte, 16).ok()));
        // The first line of a bundle has its template in front.
        let text = if text.starts_with('[') { text.split_once(']').map_or("", |(_, text)| text) } else { text };
        lines.push((address & !15, address as usize % 16 / 6, text.trim().to_string()));
    }
    (lines, bytes)
}

/// Whether objdump's text is that of an instruction without a text here.
fn is_beyond(text: &str) -> bool {
    text.contains("lfetch.count") || text.contains("mov dahr")
}

/// objdump's notation without the names of targets.
fn without_names(text: &str) -> String {
    let mut parts = text.split(" <");
    let first = parts.next().unwrap_or_default().to_string();
    parts.fold(first, |text, part| text + part.split_once('>').map_or("", |(_, behind)| behind))
}

/// Compares all texts, and returns how many instructions were the same.
fn compare(lines: &[(u64, usize, String)], bytes: &[u8]) -> usize {
    let (mut same, mut different) = (0, Vec::new());
    for (address, slot, theirs) in lines {
        let bundle = Bundle::of(&bytes[*address as usize..]).expect("a bundle");
        let is_long = bundle.template().is_some_and(Template::is_long);
        let slot = if is_long && *slot == 1 { 2 } else { *slot };
        let ours = disasm::slot(*address, bundle, slot);
        let theirs = without_names(theirs);
        let is_data = theirs.contains("data8 ");
        match ours {
            // It writes a target without 0x where the file has symbols.
            Some(ours) if !is_data && ours.replace("0x", "") == theirs.replace("0x", "") => same += 1,
            None if is_data || is_beyond(&theirs) => {}
            ours => different.push(format!(
                "{:?}.{slot} {:011x} is `{theirs}` for objdump, and `{}` here",
                bundle.template().map(|template| template.units[slot]),
                bundle.slot(slot),
                ours.unwrap_or_default()
            )),
        }
    }
    different.sort_by_key(|line| line.split('`').nth(1).map(|text| text.split(' ').next().map(str::to_string)));
    let step = (different.len() / 40).max(1);
    let some: Vec<_> = different.iter().step_by(step).cloned().collect();
    assert!(different.is_empty(), "{} of {} differ; some of them:\n{}", different.len(), lines.len(), some.join("\n"));
    same
}

/// Random numbers.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// The 41 bits of a slot. Small opcodes with many forms are met often, and so are registers 0 and 1, equal
    /// registers, and the predicate that is always true.
    fn slot(&mut self, number: usize) -> u64 {
        let mut word = self.next() >> 23;
        if number.is_multiple_of(2) {
            word &= !0x3f;
        }
        match number / 2 % 8 {
            0 => word &= !(0xf << 37),
            1 => word = word & !(0xf << 37) & !(7 << 33) | 1 << 37,
            2 => word = word & !(0x7f << 13) | (word >> 20 & 0x7f) << 13,
            3 => word = word & !(0x7f << 13) | (word & 1) << 13,
            4 => word = word & !(0x7f << 27) | (word & 1) << 27,
            5 => word = word & !(0xf << 37) & !(7 << 33),
            _ => {}
        }
        word
    }
}

/// KP-2: the text of random slots is objdump's, and what has a text there has one here.
fn random_bundles_have_the_text_of_objdump() {
    let count = std::env::var("TRAPLINE_BUNDLES").ok().and_then(|count| count.parse().ok()).unwrap_or(BUNDLES);
    let folder = Folder::new("ia64-bundles");
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let templates: Vec<u8> = (0..32).filter(|number| Template::of(*number).is_some()).collect();
    std::fs::write(folder.0.join("bundles.s"), "\t.text\n\t.incbin \"bundles.bin\"\n").expect("written");
    let (mut same, mut lines) = (0, 0);
    for part in (0..count).collect::<Vec<_>>().chunks(40_000) {
        let mut bytes = Vec::new();
        for number in part {
            let template = templates[random.next() as usize % templates.len()];
            bytes.extend(Bundle::new(template, [0, 1, 2].map(|slot| random.slot(number * 3 + slot))).bytes());
        }
        std::fs::write(folder.0.join("bundles.bin"), &bytes).expect("written");
        let (listed, seen) = disassembled(&folder.0, "bundles.s");
        assert_eq!(seen, bytes, "objdump has listed all bytes");
        same += compare(&listed, &bytes);
        lines += listed.len();
    }
    println!("{same} of {lines} slots are instructions, with the same text");
    assert!(same * 5 > lines * 2, "{same} of {lines}");
}

/// KP-2: every instruction of the assembled file has objdump's text.
fn an_assembled_file_has_the_text_of_objdump() {
    let folder = Folder::new("ia64-file");
    std::fs::write(folder.0.join("kernel.s"), include_str!("ia64/kernel.s")).expect("written");
    let (listed, bytes) = disassembled(&folder.0, "kernel.s");
    assert_eq!(compare(&listed, &bytes), listed.len());
    assert!(listed.len() > 80, "{}", listed.len());
}

/// KP-2: every instruction of the tiny kernel has objdump's text.
fn the_tiny_kernel_has_the_text_of_objdump() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../images/tiny/prebuilt/tiny-ia64.elf");
    let kernel = std::fs::read(file).expect("the kernel");
    let word = |at: usize| u64::from_le_bytes(kernel[at..at + 8].try_into().expect("8 bytes")) as usize;
    // The first segment is the text: its offset and its size in the file.
    let [offset, size] = [8, 32].map(|field| word(word(32) + field));
    let folder = Folder::new("ia64-tiny");
    std::fs::write(folder.0.join("text.bin"), &kernel[offset..offset + size]).expect("written");
    std::fs::write(folder.0.join("text.s"), "\t.text\n\t.incbin \"text.bin\"\n").expect("written");
    let (listed, bytes) = disassembled(&folder.0, "text.s");
    assert_eq!(bytes[..size], kernel[offset..offset + size]);
    let same = compare(&listed, &bytes);
    // The only data are undefined instructions.
    assert!(same > 15_000 && listed.len() - same < 20, "{same} of {}", listed.len());
}

fn main() -> ExitCode {
    let arguments = libtest_mimic::Arguments::from_args();
    let has_tools = [OBJDUMP, ASSEMBLER]
        .iter()
        .all(|tool| Command::new(tool).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok());
    if !has_tools {
        println!("skipped: {OBJDUMP} is not installed; apt-get install binutils-ia64-linux-gnu");
    }
    let tests: [(&str, fn()); 3] = [
        ("random_bundles_have_the_text_of_objdump", random_bundles_have_the_text_of_objdump),
        ("an_assembled_file_has_the_text_of_objdump", an_assembled_file_has_the_text_of_objdump),
        ("the_tiny_kernel_has_the_text_of_objdump", the_tiny_kernel_has_the_text_of_objdump),
    ];
    let trial = |(name, run): (&str, fn())| {
        let test = move || {
            run();
            Ok(())
        };
        libtest_mimic::Trial::test(name, test).with_ignored_flag(!has_tools)
    };
    libtest_mimic::run(&arguments, tests.map(trial).into()).exit_code()
}
