//! The other decoders. Each tells length, mnemonic and operands of the instruction at an address.

use crate::flow::{self, Control, Mnemonics};
use capstone::{Capstone, Endian};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use trapline::arches::{self, Disassembler};
use trapline::boot::{Kernel, kernels};
use trapline_harness::Folder;
use trapline_isa::arch::Arch;
use trapline_isa::insn::{Insn, LONGEST};
use yaxpeax_arch::{Decoder, LengthedInstruction, U8Reader};

/// An instruction as another decoder sees it.
#[derive(Clone, Debug)]
pub struct View {
    pub length: u64,
    pub mnemonic: String,
    pub operands: String,
    pub control: Control,
}

/// A decoder and the program that it needs, with the program's package.
#[derive(Clone, Copy)]
pub struct Opinion {
    pub name: &'static str,
    pub tool: Option<(&'static str, &'static str)>,
}

/// A stock kernel, and the settings of the other decoders for its ISA.
struct Row {
    arch: Arch,
    stock: &'static str,
    mnemonics: &'static Mnemonics,
    /// objdump, its package, and its options for a file without headers.
    objdump: (&'static str, &'static str, &'static [&'static str]),
    /// yaxpeax, if it knows the ISA. For A32 it panics on words that name no register.
    yaxpeax: Option<Yaxpeax>,
}

/// yaxpeax's decoder of an ISA.
#[derive(Clone, Copy)]
struct Yaxpeax {
    /// The length and the text of the instruction that these bytes begin with.
    decode: fn(&[u8]) -> Option<(u64, String)>,
    /// The address from which it counts the distance to a branch's target.
    base: fn(&Insn) -> u64,
}

#[rustfmt::skip]
const ROWS: &[Row] = &[
    Row { arch: Arch::X86_64, stock: "debian/amd64", mnemonics: &flow::X86, objdump: ("objdump", "binutils", &["-m", "i386:x86-64"]), yaxpeax: Some(Yaxpeax { decode: x86_64, base: Insn::next }) },
    Row { arch: Arch::I386, stock: "debian/i386", mnemonics: &flow::X86, objdump: ("objdump", "binutils", &["-m", "i386"]), yaxpeax: Some(Yaxpeax { decode: i386, base: Insn::next }) },
    Row { arch: Arch::Arm64, stock: "debian/arm64", mnemonics: &flow::ARM64, objdump: ("aarch64-linux-gnu-objdump", "binutils-aarch64-linux-gnu", &["-m", "aarch64"]), yaxpeax: Some(Yaxpeax { decode: arm64, base: |insn| insn.address }) },
    Row { arch: Arch::Arm, stock: "debian/armhf", mnemonics: &flow::ARM, objdump: ("arm-linux-gnueabihf-objdump", "binutils-arm-linux-gnueabihf", &["-m", "arm"]), yaxpeax: None },
    Row { arch: Arch::Ppc64le, stock: "debian/ppc64el", mnemonics: &flow::PPC, objdump: ("powerpc64le-linux-gnu-objdump", "binutils-powerpc64le-linux-gnu", &["-m", "powerpc:common64", "-M", "power10", "-EL"]), yaxpeax: None },
    Row { arch: Arch::S390x, stock: "debian/s390x", mnemonics: &flow::S390, objdump: ("s390x-linux-gnu-objdump", "binutils-s390x-linux-gnu", &["-m", "s390:64-bit"]), yaxpeax: None },
    Row { arch: Arch::Mipsel, stock: "debian/mipsel", mnemonics: &flow::MIPS, objdump: ("mipsel-linux-gnu-objdump", "binutils-mipsel-linux-gnu", &["-m", "mips:isa32r2", "-EL"]), yaxpeax: None },
    Row { arch: Arch::Mips64el, stock: "debian/mips64el", mnemonics: &flow::MIPS, objdump: ("mips64el-linux-gnuabi64-objdump", "binutils-mips64el-linux-gnuabi64", &["-m", "mips:isa64r2", "-EL"]), yaxpeax: None },
    Row { arch: Arch::Riscv64, stock: "debian/riscv64", mnemonics: &flow::RISCV, objdump: ("riscv64-linux-gnu-objdump", "binutils-riscv64-linux-gnu", &["-m", "riscv:rv64"]), yaxpeax: None },
];

/// The decoders that know a stock kernel's ISA.
pub fn of(stock: &str) -> Vec<Opinion> {
    let Some(row) = ROWS.iter().find(|row| row.stock == stock) else { return Vec::new() };
    let (program, package, _) = row.objdump;
    let yaxpeax = row.yaxpeax.map(|_| Opinion { name: "yaxpeax", tool: None });
    let all = [
        Some(Opinion { name: "capstone", tool: None }),
        Some(Opinion { name: "objdump", tool: Some((program, package)) }),
        yaxpeax,
    ];
    all.into_iter().flatten().collect()
}

/// A decoder at work on a kernel.
pub struct Other {
    name: &'static str,
    row: &'static Row,
    mask: u64,
    source: Source,
}

enum Source {
    Capstone { capstone: Capstone, prints_distances: bool },
    Yaxpeax(Yaxpeax),
    Objdump(Listing),
}

impl Other {
    pub fn new(name: &'static str, kernel: &Kernel) -> Option<Other> {
        let row = ROWS.iter().find(|row| row.arch == kernel.arch)?;
        let source = match name {
            "capstone" => capstone(kernel.arch)?,
            "objdump" => Source::Objdump(Listing::new(row, kernel)?),
            _ => Source::Yaxpeax(row.yaxpeax?),
        };
        let mask = if kernel.arch.isa().word == 8 { u64::MAX } else { u32::MAX.into() };
        Some(Other { name, row, mask, source })
    }

    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The instruction at our instruction's address, from bytes that begin there.
    pub fn of(&mut self, insn: &Insn, bytes: &[u8]) -> Option<View> {
        let (length, text, base) = match &mut self.source {
            Source::Capstone { capstone, prints_distances } => {
                let found = capstone.disasm_count(bytes, insn.address, 1).ok()?;
                let first = found.iter().next()?;
                let text = format!("{} {}", first.mnemonic().unwrap_or_default(), first.op_str().unwrap_or_default());
                (first.len() as u64, text, if *prints_distances { insn.address } else { 0 })
            }
            Source::Yaxpeax(yaxpeax) => {
                let (length, text) = (yaxpeax.decode)(bytes)?;
                (length, text.replace('$', ""), (yaxpeax.base)(insn))
            }
            Source::Objdump(listing) => {
                let (length, text) = listing.at(insn.address)?;
                (length, text, 0)
            }
        };
        let (mnemonic, operands) = parts(&text);
        let control = self.row.mnemonics.control(mnemonic, &operands, base, self.mask);
        Some(View { length, mnemonic: mnemonic.to_string(), operands, control })
    }
}

/// The prefixes that objdump and yaxpeax write in front of a mnemonic.
const PREFIXES: &[&str] = &[
    "cs", "ds", "es", "ss", "fs", "gs", "notrack", "bnd", "rep", "repz", "repnz", "data16", "addr32", "lock", "xacquire",
    "xrelease",
];

/// The mnemonic without prefixes, and the operands without a comment behind them.
fn parts(text: &str) -> (&str, String) {
    let mut text = text.trim();
    loop {
        let (mnemonic, operands) = text.split_once([' ', '\t']).unwrap_or((text, ""));
        if !operands.is_empty() && (PREFIXES.contains(&mnemonic) || mnemonic.starts_with("rex")) {
            text = operands.trim_start();
            continue;
        }
        let comment = ["<", ";", "@", "//", " # ", "\t# "].iter().filter_map(|start| operands.find(start)).min();
        return (mnemonic, operands[..comment.unwrap_or(operands.len())].trim().to_string());
    }
}

fn capstone(arch: Arch) -> Option<Source> {
    let Disassembler::Capstone(settings) = arches::of(arch).disassembler else { return None };
    let endian = if kernels::of(arch).elf.order == goblin::elf::header::ELFDATA2LSB { Endian::Little } else { Endian::Big };
    let mut capstone = Capstone::new_raw(settings.family, settings.mode, settings.extra.into_iter(), Some(endian)).ok()?;
    if settings.has_syntaxes {
        capstone.set_syntax(capstone::Syntax::Att).ok()?;
    }
    Some(Source::Capstone { capstone, prints_distances: settings.prints_distances })
}

fn x86_64(bytes: &[u8]) -> Option<(u64, String)> {
    let insn = yaxpeax_x86::amd64::InstDecoder::default().decode_slice(bytes).ok()?;
    Some((insn.len().to_const(), insn.to_string()))
}

fn i386(bytes: &[u8]) -> Option<(u64, String)> {
    let insn = yaxpeax_x86::protected_mode::InstDecoder::default().decode_slice(bytes).ok()?;
    Some((insn.len().to_const().into(), insn.to_string()))
}

fn arm64(bytes: &[u8]) -> Option<(u64, String)> {
    let insn = yaxpeax_arm::armv8::a64::InstDecoder::default().decode(&mut U8Reader::new(bytes.get(..4)?)).ok()?;
    Some((4, insn.to_string()))
}

/// The lines of an objdump that runs beside us, in order of address.
struct Listing {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
    /// The line that was read last.
    last: Option<(u64, u64, String)>,
    _folder: Folder,
}

impl Listing {
    fn new(row: &Row, kernel: &Kernel) -> Option<Listing> {
        let (program, _, options) = row.objdump;
        let ranges = super::ranges(kernel);
        let start = ranges.iter().map(|range| range.start).min()?;
        let end = ranges.iter().map(|range| range.end).max()?;
        let folder = Folder::new(&format!("objdump-{}", row.arch.name()));
        let path = folder.0.join("text.bin");
        let mut file = fs::File::create(&path).expect("the folder can be written");
        // An instruction at the end may need some bytes more.
        let end = end + LONGEST as u64;
        for at in (start..end).step_by(4096) {
            let mut page = vec![0; (end - at).min(4096) as usize];
            let _ = kernel.read(at, &mut page);
            file.write_all(&page).expect("the file can be written");
        }
        let mut command = Command::new(program);
        command.args(["-D", "-z", "-w", "-b", "binary"]).args(options).arg(format!("--adjust-vma={start:#x}")).arg(&path);
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the need was declared");
        let lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        Some(Listing { child, lines, last: None, _folder: folder })
    }

    /// The line at this address, with the length; `None` if objdump sees no instruction begin there.
    fn at(&mut self, address: u64) -> Option<(u64, String)> {
        while self.last.as_ref().is_none_or(|(at, ..)| *at < address) {
            let line = self.lines.next()?.expect("objdump writes text");
            self.last = parsed(&line).or(self.last.take());
        }
        self.last.as_ref().filter(|(at, ..)| *at == address).map(|(_, length, text)| (*length, text.clone()))
    }
}

impl Drop for Listing {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Address, length and text of a line such as `ffffffff81000000:\t48 8d 25 51 3f 60 01 \tlea ...`.
fn parsed(line: &str) -> Option<(u64, u64, String)> {
    let (address, rest) = line.split_once(":\t")?;
    let address = u64::from_str_radix(address.trim(), 16).ok()?;
    let (bytes, text) = rest.split_once('\t')?;
    let digits = bytes.chars().filter(char::is_ascii_hexdigit).count();
    Some((address, digits as u64 / 2, text.to_string()))
}
