//! Compiles `src/unicorn/translator/loop.c` once for each kind of CPU that Unicorn is built with, against Unicorn's own
//! headers.
//!
//! Each object defines the two functions that one object of Unicorn's does; a library of ours stands in front of
//! Unicorn's on every link line, so ours is taken and that one never looked at (docs/unicorn.md, "Our own start of a
//! block").

use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// The output folder of unicorn-engine-sys' build script.
const UNICORN_BUILT: &str = "DEP_UNICORN_ROOT";
/// The line of cmake's cache that names the folder it compiles.
const CMAKE_SOURCES: &str = "CMAKE_HOME_DIRECTORY:INTERNAL=";
const LOOP: &str = "src/unicorn/translator/loop.c";
/// Contains crashes of the library; in front of it and of the C library on every link line, as the objects of [`LOOP`] are.
const CRASH: &str = "src/unicorn/crash.c";
/// A kind of CPU: Unicorn's name of it, the folder of Unicorn's sources, the folder beside [`LOOP`] with its hooks, and
/// the macros that Unicorn's own build defines for it.
type Target = (&'static str, &'static str, &'static str, &'static [&'static str]);

#[rustfmt::skip]
const TARGETS: &[Target] = &[
    ("x86_64",   "i386",  "x86",     &["TARGET_X86_64", "TARGET_I386"]),
    ("arm",      "arm",   "arm",     &["TARGET_ARM"]),
    ("aarch64",  "arm",   "arm64",   &["TARGET_AARCH64", "TARGET_ARM"]),
    ("ppc",      "ppc",   "ppc",     &["TARGET_PPC", BIG_ENDIAN]),
    ("ppc64",    "ppc",   "ppc64",   &["TARGET_PPC64", "TARGET_PPC", BIG_ENDIAN]),
    ("mips",     "mips",  "mips",    &["TARGET_ABI_MIPSO32", "TARGET_MIPS", ALIGNED, BIG_ENDIAN]),
    ("mipsel",   "mips",  "mips",    &["TARGET_ABI_MIPSO32", "TARGET_MIPS", ALIGNED]),
    ("mips64",   "mips",  "mips",    &["TARGET_ABI_MIPSN64", "TARGET_MIPS64", "TARGET_MIPS", ALIGNED, BIG_ENDIAN]),
    ("mips64el", "mips",  "mips",    &["TARGET_ABI_MIPSN64", "TARGET_MIPS64", "TARGET_MIPS", ALIGNED]),
    ("s390x",    "s390x", "s390",    &["TARGET_S390X", BIG_ENDIAN]),
    ("sparc64",  "sparc", "sparc64", &["TARGET_SPARC64", "TARGET_SPARC", ALIGNED, BIG_ENDIAN]),
];
const BIG_ENDIAN: &str = "TARGET_WORDS_BIGENDIAN";
const ALIGNED: &str = "TARGET_ALIGNED_ONLY";

/// The properties of the host, among those that Unicorn's build detects, that its headers use.
const HOST: &[&str] =
    &["CONFIG_POSIX", "CONFIG_LINUX", "CONFIG_TCG", "CONFIG_SOFTMMU", "CONFIG_INT128", "CONFIG_CMPXCHG128", "CONFIG_ATOMIC64"];

/// Files that Unicorn's build writes and its headers include; what would stand in them is defined on the command line.
const WRITTEN: [&str; 2] = ["config-host.h", "config-target.h"];

pub fn compile(root: &Path) -> io::Result<()> {
    let unicorn = headers()?;
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    for name in WRITTEN {
        fs::write(out.join(name), "")?;
    }
    let backend = match env::var("CARGO_CFG_TARGET_ARCH").as_deref() {
        Ok("aarch64") => "aarch64",
        _ => "i386",
    };
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
    for (target, folder, hooks, defines) in TARGETS {
        // The script runs at every change of a source of Rust's, for the sake of the hash; eleven runs of the C
        // compiler would be the longest part of a build.
        let note = out.join(target).join("made-of");
        if fs::read_to_string(&note).is_ok_and(|before| before == made_of) {
            println!("cargo::rustc-link-lib=static=trapline_{target}");
            println!("cargo::rustc-link-search=native={}", out.join(target).display());
            continue;
        }
        let mut build = cc::Build::new();
        // Beside each other: the objects of all have one name.
        build.out_dir(out.join(target)).file(root.join(LOOP));
        build.include(&out);
        // Unicorn's headers are system headers: their warnings are not ours.
        let folders = ["glib_compat", "qemu", "qemu/include", "include", "qemu/tcg"].map(|folder| unicorn.join(folder));
        let own = [unicorn.join("qemu/tcg").join(backend), unicorn.join("qemu/target").join(folder)];
        for folder in folders.iter().chain(&own) {
            build.flag("-isystem").flag(folder);
        }
        build.define("NEED_CPU_H", None).define("_GNU_SOURCE", None).define("NDEBUG", None);
        for define in HOST.iter().chain(*defines) {
            build.define(define, "1");
        }
        // Gives every function of the library the name that it has in this kind of CPU.
        build.flag("-include").flag(format!("{target}.h"));
        build.define("TRAPLINE_LAYOUT", format!("trapline_layout_{target}").as_str());
        build.define("TRAPLINE_OWN", format!("trapline_own_{target}").as_str());
        build.define("TRAPLINE_HOOKS", format!("\"{hooks}/hooks.h\"").as_str());
        build.std("gnu11").pic(true).opt_level(2).debug(false).flag_if_supported("-mcx16");
        // Helpers and hooks have the parameters that their callers pass, needed or not.
        build.warnings(true).extra_warnings(true).warnings_into_errors(true).flag("-Wno-unused-parameter");
        build.try_compile(&format!("trapline_{target}")).map_err(|error| io::Error::other(error.to_string()))?;
        fs::write(note, &made_of)?;
    }
    Ok(())
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
