//! Compares our own disassembly with binutils' objdump: PA-RISC, which Capstone does not know.

use std::path::Path;
use std::process::{Command, ExitCode};
use trapline_harness::{self as harness, Folder, tests};
use trapline_isa::parisc::disasm;

/// Debian's package is binutils-hppa-linux-gnu.
const OBJDUMP: &str = "hppa-linux-gnu-objdump";
const ASSEMBLER: &str = "hppa-linux-gnu-as";

/// The output of gcc 12 for two C functions: a loop over a list with an indirect call, and 64-bit arithmetic.
const COMPILED: &str = "
	.LEVEL 1.1
	.text
	.align 4
sum:
	stw %r2,-20(%r30)
	stwm %r7,128(%r30)
	stw %r6,-124(%r30)
	copy %r25,%r6
	stw %r5,-120(%r30)
	stw %r4,-116(%r30)
	stw %r3,-112(%r30)
	movb,= %r26,%r3,.L7
	copy %r24,%r5
	ldi 0,%r4
	b .L6
	ldi 7,%r7
.L10:
	ldw 4(%r3),%r23
	stw %r7,-56(%r30)
	copy %r4,%r24
	extru %r23,24+5-1,5,%r23
	ldw 8(%r3),%r28
	extru %r28,6,7,%r28
	copy %r6,%r22
	stw %r28,-52(%r30)
	ble 0(%sr4,%r22)
	copy %r31,%r2
	addl %r4,%r28,%r4
.L4:
	ldw 0(%r3),%r3
	comib,= 0,%r3,.L12
	copy %r4,%r28
.L6:
	ldh 4(%r3),%r26
	ldb 6(%r3),%r25
	extrs %r26,31,16,%r26
	comb,<< %r5,%r26,.L10
	extrs %r25,31,8,%r25
	comib,=,n 3,%r25,.L11
	ldw 4(%r3),%r28
	ldw 0(%r3),%r3
	extru %r28,24+5-1,5,%r28
	comib,<> 0,%r3,.L6
	sub %r4,%r28,%r4
	copy %r4,%r28
.L12:
	ldw -148(%r30),%r2
	ldw -124(%r30),%r6
	ldw -120(%r30),%r5
	ldw -116(%r30),%r4
	ldw -112(%r30),%r3
	bv %r0(%r2)
	ldwm -128(%r30),%r7
.L11:
	ldw 8(%r3),%r28
	extru %r28,6,7,%r28
	zdep %r28,28,29,%r28
	b .L4
	xor %r4,%r28,%r4
.L7:
	copy %r3,%r4
	ldw -148(%r30),%r2
	copy %r4,%r28
	ldw -124(%r30),%r6
	ldw -120(%r30),%r5
	ldw -116(%r30),%r4
	ldw -112(%r30),%r3
	bv %r0(%r2)
	ldwm -128(%r30),%r7
	.align 4
add:
	copy %r25,%r28
	copy %r26,%r29
	copy %r23,%r19
	copy %r24,%r20
	add %r20,%r29,%r22
	addc %r19,%r28,%r21
	comclr,>>= %r25,%r21,%r0
	b,n .L17
	comb,= %r25,%r21,.L18
	xor %r28,%r19,%r21
.L19:
	xor %r29,%r20,%r22
	copy %r21,%r28
	copy %r22,%r29
	bv,n %r0(%r2)
.L18:
	comb,>>= %r26,%r22,.L19
	nop
.L17:
	sub %r29,%r20,%r22
	subb %r28,%r19,%r21
	copy %r21,%r28
	copy %r22,%r29
	bv,n %r0(%r2)
";
/// Runs one of binutils' programs.
fn binutils(program: &str, folder: &Path, arguments: &[&str]) -> String {
    let output = Command::new(program).current_dir(folder).args(arguments).output().expect(program);
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// Address, word and text of each instruction in the output of objdump.
fn listed(output: &str) -> Vec<(u64, u32, String)> {
    let line = |line: &str| {
        let (address, rest) = line.trim_start().split_once(":\t")?;
        let (word, text) = rest.split_once('\t')?;
        let word = u32::from_str_radix(&word.replace(' ', ""), 16).ok()?;
        Some((u64::from_str_radix(address, 16).ok()?, word, text.trim().to_string()))
    };
    output.lines().filter_map(line).collect()
}

/// Whether objdump's text is of an instruction that has no text here, or of a form that it writes otherwise.
fn is_beyond(word: u32, text: &str) -> bool {
    let first = text.split(' ').next().unwrap_or_default();
    let (name, completers) = first.split_once(',').unwrap_or((first, ""));
    let is_float = name.starts_with('f') && !matches!(name, "fic" | "fice" | "fdc" | "fdce") || name.starts_with("xmpy");
    let hinted = completers.split(',').any(|part| matches!(part, "sl" | "bc" | "co" | "l"));
    // It shows the distance of PA-RISC 2.0's wide mode: the bits of the space register belong to it.
    let wide_distance = matches!(word >> 26, 0x0d | 0x10..=0x13 | 0x18..=0x1b) && word & 0xc000 != 0;
    let is_unit =
        matches!(name, "uxor" | "uaddcm" | "dcor") && ["swz", "swc", "nwz", "nwc"].iter().any(|name| completers.contains(name));
    let has_hint = word >> 26 == 3 && word & 0xc00 != 0;
    // It takes the highest bit of the distance for its sign, which is the lowest one: far distances get the wrong completer.
    let odd_sign = matches!(word >> 26, 0x13 | 0x1b) && word >> 13 & 1 != word & 1;
    // The long displacements of PA-RISC 2.0.
    let long = matches!(word >> 26, 0x16 | 0x17 | 0x1e | 0x1f);
    text.starts_with('#') || has_hint || odd_sign || long || text.contains("(null)") || completers.contains('*') || is_float || wide_distance || is_unit
        || hinted && !matches!(name, "b" | "be" | "bve" | "add" | "shladd")
        // Coprocessors, 64-bit instructions and those of PA-RISC 2.0's TLB.
        || ["copr", "spop", "cldw", "cldd", "cstw", "cstd", "shrpd", "ldd", "std", "ldda", "stda", "ldcd", "stdby", "extrd", "depd",
            "depdi", "iitlbt", "idtlbt", "gfw", "gfr", "diag", "clrbts", "popbts", "pushbts", "pushnom", "pmenb", "pmdis", "mfcpu", "mtcpu",
            "dcor", "hadd", "hsub", "havg", "hshl", "hshr", "hshladd", "hshradd", "mixh", "mixw", "permh", "probe", "probei", "lci", "fic"]
            .iter().any(|beyond| name.starts_with(beyond))
}

/// Compares all texts; returns how many were the same.
fn compare(listed: &[(u64, u32, String)]) -> usize {
    let (mut same, mut different) = (0, Vec::new());
    for (address, word, theirs) in listed {
        // Remove the name of a target. Other operands may follow it.
        let (before, behind) = theirs.split_once(" <").unwrap_or((theirs, ""));
        let theirs = &format!("{before}{}", behind.split_once('>').map_or("", |(_, behind)| behind));
        match disasm::text(*address, *word) {
            // It writes a target without 0x where the file has symbols.
            Some(ours) if ours.replace("0x", "") == theirs.replace("0x", "") => same += 1,
            _ if is_beyond(*word, theirs) => {}
            ours => different.push(format!("{word:08x} is `{theirs}` for objdump, and `{}` here", ours.unwrap_or_default())),
        }
    }
    assert!(
        different.is_empty(),
        "{} differ; the first ones:\n{}",
        different.len(),
        different[..different.len().min(20)].join("\n")
    );
    same
}

/// KP-5: the text of random words is objdump's, and what has a text there has one here.
fn random_words_have_the_text_of_objdump() {
    let folder = Folder::new("parisc-words");
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 16) as u32
    };
    // Opcodes and the codes of the first four are met often; free fields are zero in half of the words.
    let words = (0..200_000).map(|number| {
        let word = random();
        match number % 4 {
            0 => word & 0x0fff_ffff,
            1 => (word & !0x1f) & 0x03ff_ffff,
            2 => word & 0x03ff_1fff | 0x0800_0000,
            _ => word,
        }
    });
    let bytes: Vec<u8> = words.flat_map(u32::to_be_bytes).collect();
    std::fs::write(folder.0.join("words.bin"), &bytes).expect("written");
    std::fs::write(folder.0.join("words.s"), "\t.level 1.1\n\t.text\n\t.incbin \"words.bin\"\n").expect("written");
    binutils(ASSEMBLER, &folder.0, &["words.s", "-o", "words.o"]);
    let listed = listed(&binutils(OBJDUMP, &folder.0, &["-d", "-z", "words.o"]));
    assert_eq!(listed.len(), 200_000);
    let same = compare(&listed);
    assert!(same > 25_000, "{same} of 200,000");
}

/// KP-5: every instruction of a compiled C function has objdump's text. The assembly is a compiler's.
fn a_compiled_function_has_the_text_of_objdump() {
    let folder = Folder::new("parisc-function");
    std::fs::write(folder.0.join("words.s"), COMPILED).expect("written");
    binutils(ASSEMBLER, &folder.0, &["words.s", "-o", "words.o"]);
    let listed = listed(&binutils(OBJDUMP, &folder.0, &["-d", "-z", "words.o"]));
    assert_eq!(compare(&listed), listed.len());
    assert!(listed.len() >= 40, "{}", listed.len());
}

fn main() -> ExitCode {
    let tests = tests![random_words_have_the_text_of_objdump, a_compiled_function_has_the_text_of_objdump];
    let with_tools = |test: harness::Test| test.needs(harness::tool(OBJDUMP, "binutils-hppa-linux-gnu"));
    harness::run([tests.into_iter().map(with_tools).collect()])
}
