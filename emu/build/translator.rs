//! Compiles `loop.c` and `access.c` of `src/unicorn/translator` once for each kind of CPU that Unicorn is built with,
//! against Unicorn's own headers, and reads the offsets of CPU state from these headers.
//!
//! Each object defines every symbol of one object file of Unicorn's. Our library precedes Unicorn's on every link line.
//! So the linker takes our object and never reads Unicorn's (docs/unicorn.md, "Our own start of a block" and "Watched
//! pages").

use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// The output folder of unicorn-engine-sys' build script.
const UNICORN_BUILT: &str = "DEP_UNICORN_ROOT";
/// The line of cmake's cache that names the folder it compiles.
const CMAKE_SOURCES: &str = "CMAKE_HOME_DIRECTORY:INTERNAL=";
const LOOP: &str = "src/unicorn/translator/loop.c";
/// The slow path of loads and stores, beside [`LOOP`].
const ACCESS: &str = "access.c";
/// Names the fields of CPU state whose offsets the program needs.
const OFFSETS: &str = "src/unicorn/translator/offsets.c";
/// Contains crashes of Unicorn; in front of it and of the C library on every link line, as the objects of [`LOOP`] are.
const CRASH: &str = "src/unicorn/crash.c";
/// In each folder of hooks beside [`LOOP`]: the kinds of CPU that have them, one a line. A line is Unicorn's name of the
/// CPU, the folder of Unicorn's sources, and the macros that Unicorn's own build defines for it.
const TARGETS: &str = "targets";

/// A kind of CPU.
struct Target {
    /// Unicorn's name of it.
    name: String,
    /// The folder of Unicorn's sources.
    folder: String,
    /// The folder beside [`LOOP`] with its hooks.
    hooks: String,
    /// The macros that Unicorn's own build defines for it.
    defines: Vec<String>,
}

/// The kinds of CPU, in the order of their folders.
fn targets(parts: &Path) -> io::Result<Vec<Target>> {
    let mut folders = fs::read_dir(parts)?.map(|entry| entry.map(|entry| entry.path())).collect::<io::Result<Vec<_>>>()?;
    folders.sort();
    let mut all = Vec::new();
    for folder in folders.iter().filter(|folder| folder.is_dir()) {
        let list = folder.join(TARGETS);
        let text = fs::read_to_string(&list).map_err(|error| io::Error::other(format!("{}: {error}", list.display())))?;
        let hooks = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        for line in text.lines() {
            let mut words = line.split_whitespace().map(String::from);
            let (Some(name), Some(folder)) = (words.next(), words.next()) else {
                return Err(io::Error::other(format!("{}: `{line}` is not NAME FOLDER MACRO...", list.display())));
            };
            all.push(Target { name, folder, hooks: hooks.clone(), defines: words.collect() });
        }
    }
    Ok(all)
}

/// The properties of the host, among those that Unicorn's build detects, that its headers use.
const HOST: &[&str] =
    &["CONFIG_POSIX", "CONFIG_LINUX", "CONFIG_TCG", "CONFIG_SOFTMMU", "CONFIG_INT128", "CONFIG_CMPXCHG128", "CONFIG_ATOMIC64"];

/// Files that Unicorn's build generates and its headers include. We create them empty, and define their contents on the
/// command line.
const WRITTEN: [&str; 2] = ["config-host.h", "config-target.h"];

pub fn compile(root: &Path) -> io::Result<()> {
    let unicorn = headers()?;
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    for name in WRITTEN {
        fs::write(out.join(name), "")?;
    }
    println!("cargo::rerun-if-changed={}", root.join(CRASH).display());
    let mut crash = cc::Build::new();
    crash.file(root.join(CRASH)).std("gnu11").pic(true).opt_level(2).warnings(true).extra_warnings(true);
    crash.try_compile("trapline_crash").map_err(|error| io::Error::other(error.to_string()))?;
    let mut made_of = format!("{}\n{}", unicorn.display(), include_str!("translator.rs"));
    let parts = root.join(LOOP).parent().map(Path::to_path_buf).unwrap_or_default();
    add_sources(&parts, &mut made_of)?;
    for variable in ["CC", "CFLAGS"] {
        println!("cargo::rerun-if-env-changed={variable}");
        made_of += &format!("\n{variable}={:?}", env::var_os(variable));
    }
    let targets = targets(&parts)?;
    for row in &targets {
        let Target { name: target, hooks, .. } = row;
        // The script runs at every change of a source of Rust's, for the sake of the hash; a dozen runs of the C
        // compiler would be the longest part of a build.
        let note = out.join(target).join("made-of");
        if fs::read_to_string(&note).is_ok_and(|before| before == made_of) {
            println!("cargo::rustc-link-lib=static=trapline_{target}");
            println!("cargo::rustc-link-search=native={}", out.join(target).display());
            continue;
        }
        let mut build = like_unicorn(&unicorn, &out, row);
        build.out_dir(out.join(target)).file(root.join(LOOP)).file(parts.join(ACCESS));
        build.define("TRAPLINE_LAYOUT", format!("trapline_layout_{target}").as_str());
        build.define("TRAPLINE_WATCH", format!("trapline_watch_{target}").as_str());
        build.define("TRAPLINE_FLAG", format!("trapline_flag_{target}").as_str());
        build.define("TRAPLINE_STORE_BYTE", format!("helper_ret_stb_mmu_{target}").as_str());
        build.define("TRAPLINE_OWN", format!("trapline_own_{target}").as_str());
        build.define("TRAPLINE_HOOKS", format!("\"{hooks}/hooks.h\"").as_str());
        if parts.join(hooks).join("access.h").exists() {
            build.define("TRAPLINE_ACCESS", format!("\"{hooks}/access.h\"").as_str());
        }
        // Helpers and hooks have the parameters that their callers pass, needed or not.
        build.warnings(true).extra_warnings(true).warnings_into_errors(true).flag("-Wno-unused-parameter");
        build.try_compile(&format!("trapline_{target}")).map_err(|error| io::Error::other(error.to_string()))?;
        fs::write(note, &made_of)?;
    }
    let known = out.join("offsets.of");
    if !fs::read_to_string(&known).is_ok_and(|before| before == made_of) {
        let offsets = offsets(root, &unicorn, &out, &targets)?;
        fs::write(out.join("offsets.rs"), offsets)?;
        fs::write(known, made_of)?;
    }
    Ok(())
}

/// A compiler that sees Unicorn's headers as Unicorn's own build does for this kind of CPU.
fn like_unicorn(unicorn: &Path, out: &Path, Target { name, folder, defines, .. }: &Target) -> cc::Build {
    let backend = match env::var("CARGO_CFG_TARGET_ARCH").as_deref() {
        Ok("aarch64") => "aarch64",
        _ => "i386",
    };
    let mut build = cc::Build::new();
    build.include(out);
    // Unicorn's headers are system headers: their warnings are not ours.
    let folders = ["glib_compat", "qemu", "qemu/include", "include", "qemu/tcg"].map(|folder| unicorn.join(folder));
    let own = [unicorn.join("qemu/tcg").join(backend), unicorn.join("qemu/target").join(folder)];
    for folder in folders.iter().chain(&own) {
        build.flag("-isystem").flag(folder);
    }
    build.define("NEED_CPU_H", None).define("_GNU_SOURCE", None).define("NDEBUG", None);
    for define in HOST.iter().copied().chain(defines.iter().map(String::as_str)) {
        build.define(define, "1");
    }
    // Gives every function of Unicorn the name that it has in this kind of CPU.
    build.flag("-include").flag(format!("{name}.h"));
    build.std("gnu11").pic(true).opt_level(2).debug(false).flag_if_supported("-mcx16");
    build
}

/// The modules of `unicorn::offsets`: one for each kind of CPU whose hooks have a list `offsets.h`.
///
/// The compiler writes [`OFFSETS`] as assembly text, which works for any host: nothing has to run. Each line `->NAME AT
/// BYTES` of that text is a field.
fn offsets(root: &Path, unicorn: &Path, out: &Path, targets: &[Target]) -> io::Result<String> {
    let mut modules = String::new();
    for row in targets {
        let Target { name: target, hooks, .. } = row;
        let list = root.join(LOOP).with_file_name(hooks).join("offsets.h");
        if !list.exists() {
            continue;
        }
        let mut build = like_unicorn(unicorn, out, row);
        build.define("TRAPLINE_OFFSETS", format!("\"{hooks}/offsets.h\"").as_str());
        let text = out.join(target).join("offsets.s");
        let status = build.get_compiler().to_command().arg("-S").arg("-o").arg(&text).arg(root.join(OFFSETS)).status()?;
        if !status.success() {
            return Err(io::Error::other(format!("the C compiler does not know a field of {}", list.display())));
        }
        modules += &format!("/// Of the state of `{target}`.\npub mod {target} {{\n");
        for line in fs::read_to_string(&text)?.lines().filter_map(|line| line.trim().strip_prefix("->")) {
            let [name, at, bytes] = line.split_whitespace().collect::<Vec<_>>()[..] else {
                return Err(io::Error::other(format!("{}: the line `->{line}` is not NAME AT BYTES", text.display())));
            };
            let number = |text: &str| text.parse::<usize>().map_err(|_| io::Error::other(format!("`{line}` has no offset")));
            let (at, end) = (number(at)?, number(at)? + number(bytes)?);
            modules += &format!("    pub const {name}: usize = {at};\n    pub const {name}_END: usize = {end};\n");
        }
        modules += "}\n";
    }
    Ok(modules)
}

/// Appends all C sources in the folder and its folders, in the order of their names.
fn add_sources(folder: &Path, to: &mut String) -> io::Result<()> {
    let mut entries = fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path())).collect::<io::Result<Vec<_>>>()?;
    entries.sort();
    for entry in entries {
        match entry.is_dir() {
            true => add_sources(&entry, to)?,
            false => *to += &fs::read_to_string(&entry)?,
        }
    }
    Ok(())
}

/// The folder of Unicorn's sources.
///
/// The build script of unicorn-engine-sys runs cmake in its output folder and tells that folder to those who depend on
/// it (`links = "unicorn"`, hence the variable's name). Cmake's cache file there names the folder that it compiled.
/// `cargo metadata` would name it too, but wants every package of the workspace to be in the registry, and who compiles
/// the program alone has not fetched those of tests and benches.
fn headers() -> io::Result<PathBuf> {
    let built = env::var_os(UNICORN_BUILT).ok_or_else(|| io::Error::other(format!("cargo did not set {UNICORN_BUILT}")))?;
    let cache = Path::new(&built).join("build/CMakeCache.txt");
    let text = fs::read_to_string(&cache).map_err(|error| io::Error::other(format!("{}: {error}", cache.display())))?;
    let sources = text.lines().find_map(|line| line.strip_prefix(CMAKE_SOURCES)).map(PathBuf::from);
    let sources = sources.ok_or_else(|| io::Error::other(format!("{} has no line {CMAKE_SOURCES}...", cache.display())))?;
    match sources.join("qemu/include").is_dir() {
        true => Ok(sources),
        false => Err(io::Error::other(format!("{} has no qemu/include: the sources of Unicorn are gone", sources.display()))),
    }
}
