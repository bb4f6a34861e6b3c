//! Access to the oracle: tables of the decisions of real kernels. A tool registered a probe at many addresses of a
//! running Linux and recorded the result for each address. [`ORACLES`] lists the kernels with tables, and [`rows`]
//! parses a table. The tables are not in this repository; the README of ../shared/oracle specifies them.

use crate::stock::{self, AtShell};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use trapline::boot::Kernel;
use trapline_harness::Need;
use trapline_images::Stock;

/// A kernel that has tables.
pub struct Oracle {
    /// The base name of its table files.
    pub name: &'static str,
    /// Its file, relative to a folder of `TRAPLINE_IMAGES` or to ../shared/kernels.
    pub image: &'static str,
    /// The busybox for its initramfs, in the same folders.
    pub busybox: &'static str,
    /// Its name in the catalogue of stock kernels. `None`: no machine boots it yet.
    pub stock: Option<&'static str>,
}

/// All kernels that have tables.
pub const ORACLES: &[Oracle] = &[
    Oracle {
        name: "6.1.0-56-amd64",
        image: "6.1.0-56-amd64/vmlinuz-6.1.0-56-amd64",
        busybox: "busybox/busybox-amd64",
        stock: Some("debian/amd64"),
    },
    Oracle {
        name: "6.1.0-50-686",
        image: "6.1.0-50-686/vmlinuz-6.1.0-50-686",
        busybox: "busybox/busybox-i386",
        stock: Some("debian/i386"),
    },
    Oracle {
        name: "6.1.0-50-arm64",
        image: "6.1.0-50-arm64/vmlinuz-6.1.0-50-arm64",
        busybox: "busybox/busybox-arm64",
        stock: Some("debian/arm64"),
    },
    Oracle {
        name: "6.1.0-50-armmp",
        image: "6.1.0-50-armmp/vmlinuz-6.1.0-50-armmp",
        busybox: "busybox/busybox-armhf",
        stock: Some("debian/armhf"),
    },
    Oracle {
        name: "6.1.0-50-powerpc64le",
        image: "6.1.0-50-powerpc64le/vmlinux-6.1.0-50-powerpc64le",
        busybox: "busybox/busybox-ppc64el",
        stock: Some("debian/ppc64el"),
    },
    Oracle {
        name: "6.1.0-50-s390x",
        image: "6.1.0-50-s390x/vmlinuz-6.1.0-50-s390x",
        busybox: "busybox/busybox-s390x",
        stock: Some("debian/s390x"),
    },
    Oracle {
        name: "6.1.0-50-4kc-malta",
        image: "6.1.0-50-4kc-malta/vmlinuz-6.1.0-50-4kc-malta",
        busybox: "busybox/busybox-mipsel",
        stock: Some("debian/mipsel"),
    },
];

fn shared(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared").join(folder)
}

/// The path of a file in the image folders, with or without `.xz`.
pub fn file_of(name: &str) -> Option<PathBuf> {
    let listed = std::env::var_os("TRAPLINE_IMAGES");
    let folders = listed.iter().flat_map(std::env::split_paths).chain([shared("kernels")]);
    let mut files = folders.flat_map(|folder| ["", ".xz"].map(|end| folder.join(format!("{name}{end}"))));
    files.find(|file| file.is_file())
}

/// The need of the kernel's tables, image and busybox. The tables are not part of the repository.
pub fn need(oracle: &Oracle) -> Need {
    let Oracle { name, image, busybox, .. } = oracle;
    let missing = if !shared("oracle").join(format!("{name}-direct.open.tsv.gz")).is_file() {
        Some("tables of Linux's decisions: they are in ../shared/oracle, and no package installs them".to_string())
    } else if file_of(image).is_none() || file_of(busybox).is_none() {
        Some(format!("{image} and {busybox}, which the tables were made with: put them into a folder of TRAPLINE_IMAGES"))
    } else {
        None
    };
    Need { what: name.to_string(), missing }
}

/// The text of a table. `None` if there is no table of that name.
pub fn table(name: &str) -> Option<String> {
    let bytes = fs::read(shared("oracle").join(name)).ok()?;
    let mut text = String::new();
    flate2::bufread::GzDecoder::new(&bytes[..]).read_to_string(&mut text).unwrap_or_else(|error| panic!("{name}: {error}"));
    Some(text)
}

/// The lines of the file `blacklist` of debugfs, from the tables in a kernel's image.
pub fn blacklist(kernel: &Kernel) -> Vec<String> {
    // `%px` prints all digits of a pointer.
    let width = 2 + 2 * kernel.arch.isa().word;
    let listed = kernel.tables.blacklist.iter().filter(|entry| entry.listed);
    listed.map(|entry| format!("{:#0width$x}-{:#0width$x}\t{}", entry.range.start, entry.range.end, entry.name)).collect()
}

/// This kernel at its shell. `None` if no machine boots it.
pub fn at_shell(oracle: &Oracle) -> Option<AtShell> {
    let (stock, image, busybox) = files_of(oracle)?;
    Some(AtShell::of(stock, &image, &busybox))
}

/// The kernel with its text as patched by a guest that has booted to its shell here. `None` if no machine boots it.
pub fn live(oracle: &Oracle, kernel: &Kernel) -> Option<Kernel> {
    let (stock, image, busybox) = files_of(oracle)?;
    Some(stock::live(stock, kernel, &image, &busybox))
}

/// Its entry in the catalogue, its image and its busybox.
fn files_of(oracle: &Oracle) -> Option<(&'static Stock, PathBuf, PathBuf)> {
    let Oracle { image, busybox, stock, .. } = oracle;
    let stock = trapline_images::stocks().iter().find(|known| Some(known.name) == *stock)?;
    Some((stock, file_of(image)?, file_of(busybox)?))
}

/// One row of a table: a probed address.
pub struct OracleRow {
    /// The probed address.
    pub address: u64,
    /// The function's name in kallsyms.
    pub symbol: String,
    /// Offset from the function's start.
    pub offset: u64,
    /// The function's size.
    pub size: u64,
    /// 32 bytes at the address in the running kernel.
    pub live: Vec<u8>,
    /// The 32 bytes in the image.
    pub image: Vec<u8>,
    /// objdump's disassembly.
    pub insn: String,
    /// The result of the registration: `ok` or an errno.
    pub result: String,
    /// The flag in the kernel's list of probes.
    pub status: String,
    /// The kind of probe: `p`, `q` (with a post-handler) or `r` (return probe).
    pub kind: String,
    /// Whether the function is marked as not to be traced, which the tracing interface refuses.
    pub notrace: bool,
    /// The reason why the address was chosen.
    pub category: String,
}

fn hex(text: &str) -> u64 {
    u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn bytes(text: &str) -> Vec<u8> {
    let pairs = text.as_bytes().chunks_exact(2).filter(|_| text != "-");
    pairs.map(|pair| hex(std::str::from_utf8(pair).expect("hexadecimal digits")) as u8).collect()
}

/// Parses a table.
pub fn rows(table: &str) -> Vec<OracleRow> {
    let mut lines = table.lines();
    let header: Vec<&str> = lines.next().expect("a header").split('\t').collect();
    lines
        .map(|line| {
            let values: Vec<&str> = line.split('\t').collect();
            let column = |name: &str| {
                values[header.iter().position(|column| *column == name).unwrap_or_else(|| panic!("no column {name}"))]
            };
            OracleRow {
                address: hex(column("address")),
                symbol: column("symbol").into(),
                offset: hex(column("offset")),
                size: hex(column("symsize")),
                live: bytes(column("bytes")),
                image: bytes(column("image_bytes")),
                insn: column("insn").into(),
                result: column("result").into(),
                status: column("status").into(),
                kind: column("kind").into(),
                notrace: column("notrace") == "1",
                category: column("category").into(),
            }
        })
        .collect()
}
