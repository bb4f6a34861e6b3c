//! Debug information of object files and kernel modules. trapline relocates them itself. The answers must be those for
//! the program that the ISA's linker makes of the same file.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use trapline::lines::places::Wanted;
use trapline::lines::{DebugFile, Info};
use trapline_harness::{self as harness, Folder, Test, member, tests, tool};

const SOURCE: &str = include_str!("lines/places.c");

/// An ISA: its compiler and the compiler's own flags.
type Toolchain = (&'static str, &'static str, &'static [&'static str]);

const TOOLCHAINS: &[Toolchain] = &[
    ("x86_64", "gcc", &["-mcmodel=kernel"]),
    ("i386", "gcc", &["-m32"]),
    ("arm64", "aarch64-linux-gnu-gcc", &[]),
    ("arm", "arm-linux-gnueabihf-gcc", &["-marm"]),
    ("thumb2", "arm-linux-gnueabihf-gcc", &["-mthumb"]),
    ("ppc64le", "powerpc64le-linux-gnu-gcc", &[]),
    ("ppc64", "powerpc64le-linux-gnu-gcc", &["-mbig"]),
    ("ppc", "powerpc64le-linux-gnu-gcc", &["-mbig", "-m32"]),
    ("s390x", "s390x-linux-gnu-gcc", &[]),
    ("mipsel", "mipsel-linux-gnu-gcc", &["-mno-abicalls"]),
    ("mips", "mipsel-linux-gnu-gcc", &["-mno-abicalls", "-EB"]),
    ("mips64el", "mips64el-linux-gnuabi64-gcc", &["-mno-abicalls"]),
    ("mips64", "mips64el-linux-gnuabi64-gcc", &["-mno-abicalls", "-EB"]),
    ("sparc64", "sparc64-linux-gnu-gcc", &[]),
    ("riscv64", "riscv64-linux-gnu-gcc", &["-Wl,--no-relax"]),
    ("riscv32", "riscv64-linux-gnu-gcc", &["-march=rv32gc", "-mabi=ilp32", "-Wl,--no-relax"]),
    ("parisc", "hppa-linux-gnu-gcc", &[]),
];

fn compile(room: &Folder, (_, compiler, flags): Toolchain, more: &[&str]) {
    let source = SOURCE.replace("unsigned long wide", "unsigned long long wide");
    std::fs::write(room.0.join("places.c"), source).unwrap();
    let mut gcc = Command::new(compiler);
    gcc.current_dir(&room.0).args([
        "-O2",
        "-ffreestanding",
        "-nostdlib",
        "-static",
        "-no-pie",
        "-fno-pic",
        "-Wl,--unresolved-symbols=ignore-all",
    ]);
    // Kernels have their call frame information in .debug_frame.
    gcc.args(["-fno-stack-protector", "-fno-asynchronous-unwind-tables", "-fno-unwind-tables"]);
    let output = gcc.args(flags).args(more).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn read(path: PathBuf) -> DebugFile {
    DebugFile::from_bytes(&std::fs::read(&path).unwrap()).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn place(text: &str) -> Wanted {
    Wanted::parse(text).unwrap()
}

/// The frames at each address of the code, and the lines and variables of the functions. Addresses are relative to the
/// first function.
fn answers(file: &DebugFile, length: u64) -> Vec<String> {
    let info = Info::new(file).unwrap();
    let functions = ["check", "read_file", "_start"];
    let entry = |name: &str| info.spots(&place(name)).unwrap()[0].address;
    let start = functions.iter().map(|name| entry(name)).min().unwrap();
    let mut all: Vec<String> =
        (0..length).step_by(2).map(|offset| format!("{offset:#x}: {:?}", info.frames(start + offset).unwrap())).collect();
    for function in functions {
        for source in info.sources(&place(function)).unwrap() {
            for (line, addresses) in &source.lines {
                let addresses: Vec<u64> = addresses.iter().map(|address| address - start).collect();
                all.push(format!("{function}:{line} {addresses:x?}"));
                let Ok(spots) = info.spots(&place(&format!("{function}:{}", line - source.line))) else { continue };
                for spot in spots {
                    for variable in info.variables(&spot).unwrap() {
                        let lies = match &variable.place {
                            Ok(at) => at.text().unwrap_or_default(),
                            Err(missing) => variable.why(missing),
                        };
                        all.push(format!("{:x} {} {lies}", spot.address - start, variable.name));
                    }
                }
            }
        }
    }
    all
}

/// The bytes of code in an object file.
fn length_of_code(file: &DebugFile) -> u64 {
    let placed = file.placed.as_ref().expect("an object file");
    let (_, text) = placed.sections.iter().find(|(name, _)| name == ".text").unwrap();
    text.end - text.start
}

/// LV-9: an object file gives the same answers as the program that its ISA's linker makes of it.
fn an_object_file_answers_like_the_program(toolchain: Toolchain) {
    for version in ["-gdwarf-4", "-gdwarf-5"] {
        let room = Folder::new(&format!("objects-{}{version}", toolchain.0));
        compile(&room, toolchain, &[version, "-c", "places.c", "-o", "places.o"]);
        compile(&room, toolchain, &["places.o", "-o", "places"]);
        let (object, program) = (read(room.0.join("places.o")), read(room.0.join("places")));
        let length = length_of_code(&object);
        let (ours, linkers) = (answers(&object, length), answers(&program, length));
        assert!(
            ours.len() > 80 && ours.iter().any(|answer| answer.contains("(add") || answer.contains("\"add\"")),
            "{} answers",
            ours.len()
        );
        for (own, other) in ours.iter().zip(&linkers) {
            assert_eq!(own, other, "{version}");
        }
        assert_eq!(ours.len(), linkers.len(), "{version}");
    }
}

/// LV-3: a variable that the compiler replaced by a constant keeps its sign, in each form in which gcc writes it.
fn constants_have_their_sign() {
    let room = Folder::new("constants");
    let source = "void take(void);\nint constants(void) {\n  unsigned byte = 200, half = 0xff00;\n  int low = -56, deep = -70000;\n  take();\n  return 0;\n}\n";
    std::fs::write(room.0.join("constants.c"), source).unwrap();
    let status = Command::new("gcc").current_dir(&room.0).args(["-O2", "-g", "-c", "constants.c"]).status().unwrap();
    assert!(status.success());
    let file = read(room.0.join("constants.o"));
    let info = Info::new(&file).unwrap();
    let spot = &info.spots(&place("constants:3")).unwrap()[0];
    let variables = info.variables(spot).unwrap();
    let text = |name: &str| variables.iter().find(|variable| variable.name == name)?.place.as_ref().ok()?.text();
    for (name, value) in [("byte", "200"), ("half", "65280"), ("low", "-56"), ("deep", "-70000")] {
        assert_eq!(text(name), Some(format!("\\{value}")), "{name}");
    }
}

/// LV-9: compressed sections, and a file that has only debug information, give the same answers.
fn packed_files_have_the_same_answers() {
    let room = Folder::new("packed");
    compile(&room, TOOLCHAINS[0], &["-g", "-c", "places.c", "-o", "places.o"]);
    let object = read(room.0.join("places.o"));
    let length = length_of_code(&object);
    let whole = answers(&object, length);
    for change in ["--compress-debug-sections=zlib", "--compress-debug-sections=zstd", "--only-keep-debug"] {
        let output = Command::new("objcopy").current_dir(&room.0).args([change, "places.o", "changed.o"]).output().unwrap();
        assert!(output.status.success(), "{change}: {}", String::from_utf8_lossy(&output.stderr));
        let before = std::fs::metadata(room.0.join("places.o")).unwrap().len();
        assert_ne!(std::fs::metadata(room.0.join("changed.o")).unwrap().len(), before, "{change}");
        assert!(answers(&read(room.0.join("changed.o")), length) == whole, "{change}");
    }
}

/// LV-5, LV-9: any change of an object file's bytes gives an answer or an error, within the budget.
fn damaged_object_files_end_in_answers_or_errors() {
    let room = Folder::new("damaged-objects");
    compile(&room, TOOLCHAINS[0], &["-g", "-gz", "-c", "places.c", "-o", "packed.o"]);
    compile(&room, TOOLCHAINS[0], &["-g", "-c", "places.c", "-o", "places.o"]);
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    };
    let (mut answered, mut refused) = (0, 0);
    for name in ["places.o", "packed.o"] {
        let whole = std::fs::read(room.0.join(name)).unwrap();
        for round in 0..1500 {
            let mut bytes = whole.clone();
            // The headers and tables at the file's end say what the rest is.
            let from = if round % 2 == 0 { 0 } else { bytes.len() - bytes.len() / 3 };
            for _ in 0..1 + round % 8 {
                let at = from + next() as usize % (bytes.len() - from);
                bytes[at] = next() as u8;
            }
            let Ok(file) = DebugFile::from_bytes(&bytes) else {
                refused += 1;
                continue;
            };
            let Ok(info) = Info::new(&file) else { continue };
            for spot in info.spots(&place("read_file:8")).unwrap_or_default().iter().take(4) {
                answered += usize::from(info.variables(spot).is_ok());
                let _ = info.frames(spot.address);
            }
        }
    }
    assert!(answered > 500 && refused > 100, "{answered} answers, {refused} refusals");
}

/// LV-9: `trapline lines` and `vars` accept an object file in place of an image, and together with the kernel as
/// `MODULE:FUNCTION`.
fn commands_take_object_files() {
    let room = Folder::new("object-commands");
    compile(&room, TOOLCHAINS[0], &["-g", "-c", "places.c", "-o", "my-places.ko"]);
    let file = room.0.join("my-places.ko");
    let file = file.to_str().unwrap();
    let trapline = |args: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_trapline")).args(args).output().unwrap();
        String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
    };
    let listed = trapline(&["lines", file, "read_file", "--json"]);
    assert!(listed.contains(r#""places":["my_places:read_file+0"]"#), "{listed}");
    let shown = trapline(&["vars", file, "read_file"]);
    assert!(shown.contains("<my_places:read_file+0>") && shown.contains("%di:x64"), "{shown}");
    // A variable in the module's memory is named by its symbol.
    assert!(trapline(&["vars", "tiny/x86_64", "my_places:add", "--dwarf", file]).contains("<my_places:read_file+"));
    let refused = trapline(&["vars", "tiny/arm64", "my_places:add", "--dwarf", file]);
    assert!(refused.contains("is a module for another machine than the kernel's"), "{refused}");
    let asked = trapline(&["run", "tiny/x86_64", "-e", "p:my_places:read_file:8 count"]);
    assert!(asked.contains("--dwarf my_places.ko"), "{asked}");
    let unknown = trapline(&["lines", file, "no_such"]);
    assert!(unknown.contains("no_such"), "{unknown}");
    assert!(Path::new(file).exists());
}

/// LV-5: a pipe, a folder and a missing file are refused at once, as images and by `--dwarf`.
fn what_is_no_file_is_refused() {
    let room = Folder::new("no-files");
    let pipe = room.0.join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for path in [pipe, room.0.clone(), room.0.join("missing")] {
        let path = path.to_str().unwrap();
        let mut command = Command::new("timeout");
        command.args(["60", env!("CARGO_BIN_EXE_trapline"), "vars", "tiny/x86_64", "vfs_read", "--dwarf", path]);
        let output = command.output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{path}: {said}");
        assert!(said.contains("cannot be read"), "{path}: {said}");
    }
}

fn main() -> ExitCode {
    let isas = TOOLCHAINS.iter().map(|toolchain| {
        let (isa, compiler, _) = *toolchain;
        Test::new(member("an_object_file_answers_like_the_program", isa), || an_object_file_answers_like_the_program(*toolchain))
            .needs(tool(compiler, compiler))
    });
    let with_gcc = tests![
        constants_have_their_sign,
        packed_files_have_the_same_answers,
        damaged_object_files_end_in_answers_or_errors,
        commands_take_object_files,
        what_is_no_file_is_refused
    ];
    harness::run([isas.collect(), with_gcc.into_iter().map(|test| test.needs(tool("gcc", "gcc"))).collect()])
}
