//! The built-in kernels keep the contract with the board `bare` (images/tiny/README.md), as far as the ELF file shows it.

use goblin::elf::{Elf, ProgramHeader, Sym, program_header, section_header::SHN_ABS};
use trapline_images::{Builtin, builtins};

const SYMBOLS: &[&str] = &[
    "_stext",
    "_etext",
    "_sinittext",
    "_einittext",
    "__init_begin",
    "__init_end",
    "__kprobes_text_start",
    "__kprobes_text_end",
    "__entry_text_start",
    "__entry_text_end",
    "__noinstr_text_start",
    "__noinstr_text_end",
    "__start___ex_table",
    "__stop___ex_table",
    "__start_kprobe_blacklist",
    "__stop_kprobe_blacklist",
    "free_initmem",
    "do_task_dead",
    "__switch_to",
    "jprobe_return",
    "jprobe_return_end",
    "do_fork",
    "sys_open",
    "vfs_read",
    "tcp_v4_rcv",
    "bench_target",
];

/// The start of RAM is a multiple of this on every board.
const RAM_STARTS: u64 = 1 << 30;
/// Exception vectors at fixed addresses are below this.
const VECTORS: u64 = 0x1_8000;

fn elf(builtin: &Builtin) -> Elf<'_> {
    Elf::parse(builtin.bytes).unwrap_or_else(|error| panic!("{}: {error}", builtin.name))
}

fn symbol(elf: &Elf, name: &str) -> Option<Sym> {
    elf.syms.iter().find(|symbol| elf.strtab.get_at(symbol.st_name) == Some(name))
}

#[test]
fn every_symbol_that_the_machine_needs_exists() {
    for builtin in builtins() {
        let elf = elf(builtin);
        for name in SYMBOLS {
            assert!(symbol(&elf, name).is_some(), "{}: {name}", builtin.name);
        }
        for name in ["current_task", "__task_pid_offset", "__task_comm_offset"] {
            let found = symbol(&elf, name).map(|symbol| symbol.st_shndx);
            assert_eq!(found, Some(SHN_ABS as usize), "{}: {name} is an offset", builtin.name);
        }
    }
}

#[test]
fn functions_have_a_size_and_keep_their_names() {
    for builtin in builtins() {
        let elf = elf(builtin);
        let functions: Vec<_> = elf.syms.iter().filter(Sym::is_function).collect();
        assert!(functions.len() > 150, "{}: {} functions", builtin.name, functions.len());
        for function in functions {
            let name = elf.strtab.get_at(function.st_name).unwrap_or_default();
            assert!(function.st_size > 0, "{}: {name} has no size", builtin.name);
            // With function descriptors (ELFv1) the symbol of the code has a leading dot.
            let name = name.strip_prefix('.').unwrap_or(name);
            assert!(!name.contains('.'), "{}: {name} is a compiler's clone", builtin.name);
        }
    }
}

#[test]
fn the_file_is_small_and_loads_where_the_board_has_memory() {
    for builtin in builtins() {
        let (elf, name) = (elf(builtin), builtin.name);
        let loads: Vec<_> = elf.program_headers.iter().filter(|header| header.p_type == program_header::PT_LOAD).collect();
        let end = |load: &ProgramHeader| load.p_paddr % RAM_STARTS + load.p_memsz;
        let is_vectors = |load: &ProgramHeader| end(load) <= VECTORS && load.p_flags & program_header::PF_X != 0;
        // The ISA determines size and address of the vectors.
        let vectors = loads.iter().filter(|load| is_vectors(load)).map(|load| load.p_filesz + load.p_align).sum::<u64>();
        // Instructions of IA-64 are 41 bits long, and a third of them do nothing.
        let most = if name == "tiny/ia64" { 220_000 } else { 100_000 };
        assert!(builtin.bytes.len() as u64 - vectors < most, "{name}: {} bytes", builtin.bytes.len());
        assert!(loads.iter().any(|load| (load.p_paddr..load.p_paddr + load.p_filesz).contains(&elf.entry)), "{name}: entry");
        for load in loads {
            let from = load.p_paddr % RAM_STARTS;
            // Only boards whose RAM starts at 0 have a hole in the first MiB.
            let is_behind_the_hole = load.p_paddr >= RAM_STARTS || from >= 0x10_0000;
            assert!(is_vectors(load) || is_behind_the_hole && end(load) <= 2 << 20, "{name}: {load:?}");
            assert_ne!(load.p_flags & 3, 3, "{name}: writable and executable: {load:?}");
        }
    }
}

#[test]
fn the_demo_probes_functions_that_exist() {
    for builtin in builtins() {
        let elf = elf(builtin);
        assert!(builtin.demo.lines().count() >= 6, "{}", builtin.name);
        for line in builtin.demo.lines() {
            let mut words = line.split(' ');
            assert!(words.next().is_some_and(|word| word.starts_with("p:") || word.starts_with("r:")), "{line}");
            let function = words.next().unwrap_or_default();
            assert!(symbol(&elf, function).is_some_and(|symbol| symbol.is_function()), "{}: {line}", builtin.name);
        }
    }
}
