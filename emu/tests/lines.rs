//! Source lines and variables: `trapline lines`, `trapline vars` and event lines with source lines. They are tested on
//! a small program, compiled here with DWARF 4 and 5, and on Debian's kernel, and compared with `perf probe -D`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output};
use trapline::Kernel;
use trapline::lines::coverage::Ran;
use trapline::lines::expand::{self, Known};
use trapline::lines::locations::{Location, Missing};
use trapline::lines::places::Wanted;
use trapline::lines::{DebugFile, Info, LinesError};
use trapline::outputs::lcov;
use trapline_harness::{self as harness, Folder, Test, kernel, tests, tool};

const SOURCE: &str = include_str!("lines/places.c");

/// Compiles the program, and returns the name of its file.
fn compiled(room: &Folder, version: u32, more: &[&str]) -> String {
    let (source, program) = (room.0.join("places.c"), room.0.join(format!("places{version}")));
    std::fs::write(&source, SOURCE).unwrap();
    let debug = format!("-gdwarf-{version}");
    let flags = ["-O2", &debug, "-ffreestanding", "-nostdlib", "-static", "-no-pie", "-fno-pic", "-mcmodel=kernel"];
    let mut gcc = Command::new("gcc");
    gcc.current_dir(&room.0).args(flags).args(["-fno-stack-protector", "-Wl,-Ttext=0xffffffff81000000", "-Wl,--build-id"]);
    let output = gcc.args(more).arg("-o").arg(&program).arg("places.c").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    program.to_str().unwrap().into()
}

fn trapline(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_trapline")).args(args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The lines that `perf probe -D` prints. Empty if it refuses.
fn by_perf(program: &str, asked: &str) -> Vec<String> {
    let output = Command::new("perf").args(["probe", "-k", program, "-D", asked]).output().unwrap();
    text(&output.stdout).lines().filter(|line| line.contains(':')).map(str::to_string).collect()
}

fn known<'a, 'i>(info: &'a Info<'i>, kernel: &'a Kernel) -> Known<'a, 'i> {
    Known { isa: kernel.arch.isa(), symbols: &kernel.symbols, module: None, lines: Some(info), types: None }
}

/// The lines that trapline prints for the same arguments.
fn by_us(info: &Info<'_>, kernel: &Kernel, asked: &str) -> Result<Vec<String>, LinesError> {
    let known = known(info, kernel);
    let line = format!("p {asked}");
    // A function alone is a line of kprobe_events already.
    Ok(expand::line(&line, &known)?.map_or_else(|| vec![format!("{line}+0")], |expanded| expanded.lines))
}

/// A line without its event: the place, and the arguments without names.
fn bare(line: &str) -> (String, Vec<String>) {
    let mut words = line.split_whitespace().skip(1);
    let place = words.next().unwrap_or_default().to_string();
    (place, words.map(|word| word.split_once('=').map_or(word, |(_, body)| body).to_string()).collect())
}

fn opened(program: &str) -> (Kernel, DebugFile) {
    let bytes = std::fs::read(program).unwrap();
    (Kernel::from_bytes(&bytes).unwrap(), DebugFile::from_bytes(&bytes).unwrap())
}

/// Whether the variable's value is computed at this place. For such a value perf 6.1 prints the first step of the
/// computation, here `+16(%di)` for `*(int *)(*(long *)(%di + 16))`. trapline says that no fetch argument can express
/// it.
fn is_computed(info: &Info<'_>, kernel: &Kernel, asked: &str, place: &str, argument: &str) -> bool {
    let wanted = Wanted::parse(asked.split(' ').next().unwrap_or_default()).unwrap();
    let here = info.spots(&wanted).unwrap().into_iter().find(|spot| known(info, kernel).place(spot.address) == place);
    let variables = here.map(|spot| info.variables(&spot).unwrap()).unwrap_or_default();
    let has_no_form = |place: &Result<Location, Missing>| match place {
        Ok(place) => place.text().is_none(),
        Err(missing) => matches!(missing, Missing::NoForm(_)),
    };
    let computed = variables.iter().filter(|variable| has_no_form(&variable.place));
    asked.ends_with("$vars") && argument.starts_with(['+', '-']) && computed.count() > 0
}

/// LV-2, LV-3: every line and variable that perf accepts has the same address and fetch argument as perf's line. perf
/// refuses bit fields of DWARF 5, and computes a wrong bit offset for those of DWARF 4.
fn places_are_those_of_perf(version: u32) {
    let room = Folder::new(&format!("perf{version}"));
    let program = compiled(&room, version, &[]);
    let (kernel, file) = opened(&program);
    let info = Info::new(&file).unwrap();
    let mut compared = 0;
    let functions = [("read_file", 16), ("check", 4), ("add", 4), ("_start", 9)];
    let lines = functions.iter().flat_map(|(name, last)| (0..=*last).map(move |line| format!("{name}:{line}")));
    let entries = functions.iter().map(|(name, _)| (*name).to_string());
    let asked = lines.chain(entries).flat_map(|place| [place.clone(), format!("{place} $vars")]).chain(
        [
            "read_file file->path.dentry->name.text:string count",
            "read_file file->path.dentry->iname:string buffer:string",
            "read_file file->left file->right file->table[2] file->table[2]:u8",
            "read_file file->path.dentry->parent->parent->name.hash pos",
            "check file->pos n=count:u32",
            "check%return $retval",
            "places.c:35",
        ]
        .map(str::to_string),
    );
    for asked in asked {
        let perf: BTreeSet<_> = by_perf(&program, &asked).iter().map(|line| bare(line)).collect();
        if perf.is_empty() {
            continue;
        }
        let ours = by_us(&info, &kernel, &asked).unwrap_or_else(|error| panic!("{version}: {asked}: {error}"));
        let ours: BTreeSet<_> = ours.iter().map(|line| bare(line)).collect();
        for (place, arguments) in &perf {
            let (_, known) = ours.iter().find(|(is, _)| is == place).unwrap_or_else(|| panic!("{asked}: {place}: {ours:?}"));
            for argument in arguments {
                // An array is shown whole here, not its first element.
                let same = |own: &String| {
                    let is_array = own.ends_with(']') || own.ends_with(":string");
                    own == argument || own.split(':').next() == argument.split(':').next() && is_array
                };
                let is_right = known.iter().any(same) || is_computed(&info, &kernel, &asked, place, argument);
                assert!(is_right, "-gdwarf-{version}, {asked} at {place}: {argument} in {known:?}");
            }
            compared += 1;
        }
    }
    assert!(compared > 40, "-gdwarf-{version}: perf took {compared} lines");
}

fn places_in_dwarf_4_are_those_of_perf() {
    places_are_those_of_perf(4);
}

fn places_in_dwarf_5_are_those_of_perf() {
    places_are_those_of_perf(5);
}

/// LV-3: bit fields have the offsets and sizes that the program's own instructions use.
fn bit_fields_have_their_bits() {
    for version in [4, 5] {
        let room = Folder::new(&format!("bits{version}"));
        let (kernel, file) = opened(&compiled(&room, version, &[]));
        let info = Info::new(&file).unwrap();
        let lines = by_us(&info, &kernel, "read_file file->mode file->kind file->wide").unwrap();
        assert_eq!(
            lines,
            ["p:probe/read_file read_file+0 mode=+0(%di):b3@0/32 kind=+0(%di):b7@3/32 wide=+0(%di):b40@10/64"],
            "-gdwarf-{version}"
        );
    }
}

/// LV-2, LV-3: places and variables that do not exist are errors with the reason.
fn errors_say_what_is_there() {
    let room = Folder::new("errors");
    let (kernel, file) = opened(&compiled(&room, 5, &[]));
    let info = Info::new(&file).unwrap();
    #[rustfmt::skip]
    let cases = [
        ("read_file:4",                     "no statement begins in line 4"),
        ("read_file:400",                   "no statement begins in line 400"),
        ("read_file nothing",               "in scope: buffer, count, file"),
        ("read_file file->nothing",         "has no member `nothing`; it has mode, kind"),
        ("read_file file.pos",              "write `->pos`"),
        ("read_file file->path->dentry",    "write `.dentry`"),
        ("read_file count->x",              "cannot be a member"),
        ("read_file ret",                   "optimized out here; known at +"),
        ("add%return $retval",              "an inlined one does not return"),
        ("read_file%return count",          "only `$retval`"),
    ];
    for (asked, expected) in cases {
        let error = by_us(&info, &kernel, asked).map_err(|error| error.to_string());
        assert!(error.as_ref().is_err_and(|why| why.contains(expected)), "{asked}: {error:?}");
    }
}

/// LV-1: the commands print lines and variables, as text and as JSON.
fn commands_show_lines_and_variables() {
    let room = Folder::new("commands");
    let program = compiled(&room, 5, &[]);
    let source = room.0.to_str().unwrap();
    let listing = text(&trapline(&["lines", &program, "read_file", "--source", source]).stdout);
    assert!(listing.starts_with("<read_file@places.c:29>\n      0  __attribute__"), "{listing}");
    assert!(listing.contains("\n      1  {\n") && listing.contains("\n      8          for (size_t at"), "{listing}");
    let rows = text(&trapline(&["lines", &program, "read_file", "--json"]).stdout);
    let rows: Vec<serde_json::Value> = rows.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let last = rows.iter().find(|row| row["place"] == "read_file:14").expect("line 14");
    assert_eq!((last["line"].as_u64(), last["file"].as_str()), (Some(43), Some("places.c")));
    assert!(last["places"][0].as_str().unwrap().starts_with("read_file+"), "{last}");

    let shown = text(&trapline(&["vars", &program, "read_file"]).stdout);
    for expected in ["parameter  file    struct file *  %di:x64", "variable   ret     ssize_t"] {
        assert!(shown.contains(expected), "{shown}");
    }
    let rows = text(&trapline(&["vars", &program, "add:2", "--json"]).stdout);
    assert!(rows.lines().count() >= 6, "two inlined places: {rows}");
    assert!(rows.contains(r#""name":"sum","type":"long int","function":"add""#), "{rows}");
}

/// LV-1: `disasm` and `check` show the source line of each address, and the calls that were inlined there.
fn addresses_have_their_source_lines() {
    let room = Folder::new("addresses");
    let program = compiled(&room, 5, &[]);
    let shown = text(&trapline(&["disasm", &program, "read_file", "--lines", "--json"]).stdout);
    let rows: Vec<serde_json::Value> = shown.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let source =
        |offset: u64| rows.iter().find(|row| row["offset"] == offset).map(|row| row["source"].as_str().unwrap().to_string());
    let (_, file) = opened(&program);
    let info = Info::new(&file).unwrap();
    let inlined = info.spots(&Wanted::parse("add").unwrap()).unwrap();
    let start = info.spots(&Wanted::parse("read_file").unwrap()).unwrap()[0].address;
    let in_add = source(inlined[0].address - start).expect("an instruction");
    assert!(in_add.starts_with("places.c:") && in_add.ends_with("(add < read_file)"), "{in_add}");
    // binutils say the same lines.
    let frames: Vec<_> = rows.iter().map(|row| row["address"].as_str().unwrap().to_string()).collect();
    let output = Command::new("addr2line").args(["-s", "-i", "-f", "-e", &program]).args(&frames).output().unwrap();
    let said = text(&output.stdout);
    let mut lines = said.lines();
    for (address, row) in frames.iter().zip(&rows) {
        let own = info.frames(u64::from_str_radix(&address[2..], 16).unwrap()).unwrap();
        for frame in &own {
            // Between functions, binutils name the one in front.
            let function = lines.next().unwrap();
            assert!(frame.function.is_empty() || *frame.function == *function, "{address}: {function}, {row}");
            let place = lines.next().unwrap().split(" (").next().unwrap();
            assert_eq!(place, format!("{}:{}", frame.file, frame.line), "{address}: {row}");
        }
    }
    assert_eq!(lines.next(), None, "as many frames");
    let shown = text(&trapline(&["check", &program, "read_file", "--lines"]).stdout);
    assert!(shown.contains("source") && shown.contains("places.c:30"), "{shown}");
}

/// LV-6: the lines in the coverage file are those of the executed blocks, and genhtml reads the file.
fn coverage_has_the_lines_that_ran() {
    let room = Folder::new("coverage");
    let (_, file) = opened(&compiled(&room, 5, &[]));
    let info = Info::new(&file).unwrap();
    let spot = |place: &str| info.spots(&Wanted::parse(place).unwrap()).unwrap()[0].address;
    // Everything of read_file up to the second test, as if `check` had failed.
    let (start, end) = (spot("read_file"), spot("read_file:8"));
    let files = info.coverage(&Ran::new([(start, (end - start) as u32)])).unwrap();
    let (name, covered) = files.iter().next().expect("a file");
    assert_eq!((files.len(), name.as_str()), (1, "places.c"));
    let ran: Vec<&str> = covered.functions.iter().filter(|(_, (_, ran))| *ran).map(|(name, _)| name.as_str()).collect();
    assert_eq!((ran, covered.functions.len()), (vec!["read_file"], 3), "{covered:?}");
    for (line, expected) in [(34, true), (35, true), (20, false), (41, false), (53, false)] {
        assert_eq!(covered.lines.get(&line), Some(&expected), "line {line}: {covered:?}");
    }
    let tracefile = room.0.join("run.info");
    let mut out = Vec::new();
    lcov::write(&mut out, &files).unwrap();
    std::fs::write(&tracefile, out).unwrap();
    let output = Command::new("genhtml").current_dir(&room.0).args(["-o", "html", "run.info"]).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let said = text(&output.stdout);
    let numbers = format!("({} of {} lines)", covered.ran(), covered.lines.len());
    assert!(said.contains(&numbers) && said.contains("(1 of 3 functions)"), "{numbers}: {said}");
}

/// LV-4: a file of another build is refused, and so is one without debug information.
fn files_of_other_kernels_are_refused() {
    let room = Folder::new("refused");
    let (five, four) = (compiled(&room, 5, &[]), compiled(&room, 4, &["-Dsize_t=int"]));
    let bare = compiled(&room, 3, &["-g0"]);
    for (file, image, expected) in [
        (&four, &*five, "is of another kernel"),
        (&bare, &*five, "compiled without -g"),
        (&five, "tiny/x86_64", "is of another kernel"),
    ] {
        let output = trapline(&["vars", image, "read_file", "--dwarf", file]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(expected), "{said}");
    }
    let said = text(&trapline(&["lines", "tiny/x86_64", "vfs_read"]).stderr);
    assert!(said.contains("has no debug information") && said.contains("--dwarf FILE"), "{said}");
    let said = text(&trapline(&["run", "tiny/x86_64", "-e", "p:vfs_read:12 count"]).stderr);
    assert!(said.contains("--dwarf FILE") || said.contains("need debug information"), "{said}");
}

/// LV-5: any change of a file's bytes gives an answer or an error, within the budget.
fn damaged_files_end_in_answers_or_errors() {
    let room = Folder::new("damaged");
    let whole = std::fs::read(compiled(&room, 5, &[])).unwrap();
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    };
    let mut answered = 0;
    for round in 0..3000 {
        let mut bytes = whole.clone();
        for _ in 0..1 + round % 8 {
            let at = next() as usize % bytes.len();
            bytes[at] = next() as u8;
        }
        let Ok(file) = DebugFile::from_bytes(&bytes) else { continue };
        let Ok(info) = Info::new(&file) else { continue };
        for place in ["read_file", "read_file:8", "add", "places.c:40"] {
            let Ok(spots) = Wanted::parse(place).and_then(|place| info.spots(&place)) else { continue };
            for spot in spots.iter().take(4) {
                answered += usize::from(info.variables(spot).is_ok());
                let _ = info.frames(spot.address);
            }
        }
    }
    assert!(answered > 1000, "{answered} answers");
}

/// LV-2, LV-3: parameters and their members by BTF, without debug information.
fn parameters_come_from_btf() {
    let name = "debian/amd64";
    // By its path, an image has no debug information beside it.
    let image = harness::stock(name).local.kernel;
    let image = image.to_str().unwrap();
    let shown = text(&trapline(&["vars", image, "vfs_read", "--json"]).stdout);
    assert!(
        shown.contains(r#""name":"count","type":"uint64","function":"vfs_read","parameter":true,"fetch":"$arg3""#),
        "{shown}"
    );
    let said = text(&trapline(&["run", image, "-e", "p:vfs_read:12 count"]).stderr);
    assert!(said.contains("need debug information"), "{said}");
    let known = |line: &str| {
        let local = harness::stock(name).local;
        let kernel = Kernel::from_bytes(&std::fs::read(local.kernel).unwrap()).unwrap();
        let btf = trapline::boot::btf::Btf::of(&kernel).map(trapline::boot::btf::types::GuestTypes::new).expect("BTF");
        let known = Known { isa: kernel.arch.isa(), symbols: &kernel.symbols, module: None, lines: None, types: Some(&btf) };
        expand::line(line, &known).unwrap().unwrap().lines
    };
    assert_eq!(
        known("p:vfs_read file->f_path.dentry->d_name.name:string count"),
        ["p:probe/vfs_read vfs_read name=+0(+40(+24($arg1))):string count=$arg3:x64"]
    );
}

/// LV-2, LV-3: places of Debian's kernel, with its own debug information, are those of `perf probe -D`.
fn places_in_debians_kernel() {
    let Some(dwarf) = vmlinux() else { return };
    let bytes = std::fs::read(harness::stock("debian/amd64").local.kernel).unwrap();
    let kernel = Kernel::from_bytes(&bytes).unwrap();
    let length = std::fs::metadata(&dwarf).unwrap().len();
    let file = DebugFile::read(&mut std::fs::File::open(&dwarf).unwrap(), length).unwrap();
    assert_eq!(file.is_of(kernel.segments.iter().map(|segment| &*segment.bytes)), Some(true));
    let info = Info::new(&file).unwrap();
    #[rustfmt::skip]
    let cases = [
        ("vfs_read count",              "p:probe/vfs_read vfs_read+0 count=%dx:x64"),
        ("vfs_read:12 count ret",       "p:probe/vfs_read_L12 vfs_read+114 count=%r14:x64 ret=%bx:s64"),
        ("fs/read_write.c:462",         "p:probe/read_write_c_L462 vfs_read+114"),
        ("vfs_read file->f_op->read:symbol", "p:probe/vfs_read vfs_read+0 read=+16(+40(%di)):symbol"),
    ];
    for (asked, expected) in cases {
        assert_eq!(by_us(&info, &kernel, asked), Ok(vec![expected.to_string()]), "{asked}");
    }
    assert!(by_us(&info, &kernel, "vfs_open path->dentry->d_name.name:string").unwrap().len() >= 3, "inlined places");
}

/// Whether a place is on this line although no statement begins there. perf counts the first instruction of an inlined
/// call as an address of the calling line.
fn begins_a_call(info: &Info<'_>, kernel: &Kernel, asked: &str, place: &str) -> bool {
    let wanted = Wanted::parse(asked.split(' ').next().unwrap_or_default()).unwrap();
    let Some((function, offset)) = place.split_once('+') else { return false };
    let (Some(start), Ok(offset)) = (kernel.symbols.address_of(function), offset.parse::<u64>()) else { return false };
    let line = info.sources(&wanted).unwrap()[0].line + wanted.line.unwrap_or(0);
    let frames = info.frames(start + offset).unwrap();
    frames.iter().any(|frame| *frame.function == *wanted.function && frame.line == line)
}

/// Whether a place is in the other entry of the same system call, such as `__ia32_sys_open` beside `__x64_sys_open`.
/// One function is inlined into both, and perf prints the addresses of both.
fn is_in_other_entry(asked: &str, place: &str) -> bool {
    let call = |text: &str| {
        let end = text.find(|letter: char| letter != '_' && !letter.is_ascii_alphanumeric()).unwrap_or(text.len());
        text[..end].split_once("_sys_").map(|(entry, call)| (entry.to_string(), call.to_string()))
    };
    match (call(asked), call(place)) {
        (Some((entry, asked)), Some((other, call))) => asked == call && entry != other,
        _ => false,
    }
}

/// The results for one random place: whether perf has an answer, and how ours differs.
fn compared(program: &str, info: &Info<'_>, kernel: &Kernel, asked: &str) -> (bool, Vec<String>) {
    let perf: BTreeSet<_> = by_perf(program, asked).iter().map(|line| bare(line)).collect();
    let ours = match by_us(info, kernel, asked) {
        Ok(lines) => lines.iter().map(|line| bare(line)).collect::<Vec<_>>(),
        Err(_) if perf.is_empty() => return (false, Vec::new()),
        Err(error) => return (true, vec![format!("{asked}: {error}")]),
    };
    let mut differences = Vec::new();
    for (place, arguments) in &perf {
        let Some((_, known)) = ours.iter().find(|(is, _)| is == place) else {
            if !begins_a_call(info, kernel, asked, place) && !is_in_other_entry(asked, place) {
                differences.push(format!("{asked}: no {place}"));
            }
            continue;
        };
        // Types differ for arrays alone: here they are whole.
        let fetch = |argument: &str| argument.split(':').next().unwrap_or_default().to_string();
        let is_known = |argument: &&String| {
            let is_address = argument.starts_with('@') && known.iter().any(|own| own.starts_with('\\'));
            is_address
                || is_computed(info, kernel, asked, place, argument)
                || known.iter().any(|own| fetch(own) == fetch(argument))
        };
        let missing = arguments.iter().filter(|argument| !is_known(argument));
        differences.extend(missing.map(|argument| format!("{asked} at {place}: no {argument} in {known:?}")));
    }
    (!perf.is_empty(), differences)
}

/// LV-2, LV-3: 200 random places of Debian's kernel have the same addresses and variables as `perf probe -D` prints.
/// Because perf needs some minutes, the test runs only if `TRAPLINE_PERF_PLACES` is set.
///
/// Known differences are left out. perf 6.1 prints memory in place of a value that is computed or is an address
/// (DW_OP_stack_value), and the first part of a value in two registers. It adds the first instruction of an inlined
/// call to the addresses of the calling line, and the addresses of the other entry of the same system call.
fn random_places_in_debians_kernel_are_those_of_perf() {
    let Some(dwarf) = vmlinux() else { return };
    let bytes = std::fs::read(harness::stock("debian/amd64").local.kernel).unwrap();
    let kernel = Kernel::from_bytes(&bytes).unwrap();
    let length = std::fs::metadata(&dwarf).unwrap().len();
    let file = DebugFile::read(&mut std::fs::File::open(&dwarf).unwrap(), length).unwrap();
    let info = Info::new(&file).unwrap();
    let program = std::fs::canonicalize(&dwarf).unwrap();
    let program = program.to_str().unwrap();
    let names: Vec<String> = kernel
        .symbols
        .matching("*")
        .filter(|entry| kernel.tables.is_text(entry.address))
        .map(|entry| entry.name.to_string())
        .collect();
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = |below: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random as usize % below
    };
    let wanted = std::env::var("TRAPLINE_PERF_PLACES").ok().and_then(|count| count.parse().ok()).unwrap_or(200);
    let (mut answered, mut places, mut variables) = (0, Vec::new(), Vec::new());
    for _ in 0..wanted * 4 {
        if answered == wanted {
            break;
        }
        let name = &names[next(names.len())];
        if kernel.symbols.count(name) != 1 {
            continue;
        }
        let Ok(sources) = Wanted::parse(name).and_then(|place| info.sources(&place)) else { continue };
        let [source] = &sources[..] else { continue };
        let line = source.lines[next(source.lines.len())].0 - source.line;
        let asked = if line == 0 { format!("{name} $vars") } else { format!("{name}:{line} $vars") };
        let (has, differences) = compared(program, &info, &kernel, &asked);
        answered += usize::from(has);
        let (of_variables, of_places): (Vec<String>, Vec<String>) =
            differences.into_iter().partition(|text| text.contains(" at "));
        places.extend(of_places);
        variables.extend(of_variables);
    }
    println!("{answered} places that perf knows; variables that differ:\n{}", variables.join("\n"));
    assert_eq!(answered, wanted);
    assert_eq!(places, [""; 0], "addresses");
    assert!(variables.len() * 20 <= answered, "{} variables differ:\n{}", variables.len(), variables.join("\n"));
}

/// Debian's vmlinux with debug information, if it is on this computer.
fn vmlinux() -> Option<PathBuf> {
    let local = trapline_images::locate(&trapline_images::Wanted::parse("debian/amd64")?, &trapline_images::folders())?;
    let beside = local.kernel.with_file_name(format!("vmlinux-{}.debug", local.version));
    let given = std::env::var_os("TRAPLINE_DWARF").map(PathBuf::from);
    given.into_iter().chain([beside]).find(|file| file.is_file())
}

fn main() -> ExitCode {
    let with = |tools: &[(&str, &str)], tests: Vec<Test>| -> Vec<Test> {
        let need = |test: Test| tools.iter().fold(test, |test, (name, package)| test.needs(tool(name, package)));
        tests.into_iter().map(need).collect()
    };
    let dwarf = harness::Need {
        what: "Debian's vmlinux with DWARF".into(),
        missing: vmlinux().is_none().then(|| "Debian's debug information: trapline images pull --dwarf debian/amd64".into()),
    };
    assert!(Path::new(env!("CARGO_BIN_EXE_trapline")).exists());
    let asked = std::env::var_os("TRAPLINE_PERF_PLACES").is_some();
    let nightly = harness::Need {
        what: "minutes for perf".into(),
        missing: (!asked).then(|| "a slow test, for a nightly job: set TRAPLINE_PERF_PLACES=200".into()),
    };
    let on_debian = |tests: Vec<Test>| tests.into_iter().map(|test| test.needs(kernel("debian/amd64"))).collect::<Vec<_>>();
    harness::run([
        with(
            &[("gcc", "gcc"), ("perf", "linux-perf")],
            tests![places_in_dwarf_4_are_those_of_perf, places_in_dwarf_5_are_those_of_perf],
        ),
        with(
            &[("gcc", "gcc")],
            tests![
                bit_fields_have_their_bits,
                errors_say_what_is_there,
                commands_show_lines_and_variables,
                addresses_have_their_source_lines,
                files_of_other_kernels_are_refused,
                damaged_files_end_in_answers_or_errors,
            ],
        ),
        with(&[("gcc", "gcc"), ("genhtml", "lcov")], tests![coverage_has_the_lines_that_ran]),
        on_debian(tests![parameters_come_from_btf]),
        on_debian(tests![places_in_debians_kernel]).into_iter().map(|test| test.needs(dwarf.clone())).collect(),
        on_debian(tests![random_places_in_debians_kernel_are_those_of_perf])
            .into_iter()
            .map(|test| test.needs(dwarf.clone()).needs(tool("perf", "linux-perf")).needs(nightly.clone()))
            .collect(),
    ])
}
