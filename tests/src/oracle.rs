//! The tables of what real kernels decided, and the very kernels (spec: the README of ../shared/oracle).

use crate::stock::{self, AtShell};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use trapline::boot::Kernel;
use trapline_harness::Need;
use trapline_images::Stock;

/// A kernel with tables.
pub struct Oracle {
    /// What the tables are called.
    pub name: &'static str,
    /// Its file, in `TRAPLINE_IMAGES` or ../shared/kernels.
    pub image: &'static str,
    /// The program for its initial file system, beside it.
    pub busybox: &'static str,
    /// Its name in the catalogue; `None`: no machine boots it yet.
    pub stock: Option<&'static str>,
}

/// All of them.
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

/// A file of the images' folders, maybe compressed.
pub fn file_of(name: &str) -> Option<PathBuf> {
    let listed = std::env::var_os("TRAPLINE_IMAGES");
    let folders = listed.iter().flat_map(std::env::split_paths).chain([shared("kernels")]);
    let mut files = folders.flat_map(|folder| ["", ".xz"].map(|end| folder.join(format!("{name}{end}"))));
    files.find(|file| file.is_file())
}

/// The need of the kernel's tables, its image and its busybox. The tables are no part of the repository.
pub fn need(oracle: &Oracle) -> Need {
    let Oracle { name, image, busybox, .. } = oracle;
    let missing = if !shared("oracle").join(format!("{name}-direct.open.tsv.gz")).is_file() {
        Some("tables of Linux's decisions: no package has them; they lie in ../shared/oracle".to_string())
    } else if file_of(image).is_none() || file_of(busybox).is_none() {
        Some(format!("{image} and {busybox}, of which there are tables: a folder of TRAPLINE_IMAGES has them"))
    } else {
        None
    };
    Need { what: name.to_string(), missing }
}

/// A table's text, if there is one of that name.
pub fn table(name: &str) -> Option<String> {
    let bytes = fs::read(shared("oracle").join(name)).ok()?;
    let mut text = String::new();
    flate2::bufread::GzDecoder::new(&bytes[..]).read_to_string(&mut text).unwrap_or_else(|error| panic!("{name}: {error}"));
    Some(text)
}

/// That kernel at its shell; `None` if no machine boots it.
pub fn at_shell(oracle: &Oracle) -> Option<AtShell> {
    let (stock, image, busybox) = files_of(oracle)?;
    Some(AtShell::of(stock, &image, &busybox))
}

/// The kernel with the text that it has when a guest here has come to its shell; `None` if no machine boots it.
pub fn live(oracle: &Oracle, kernel: &Kernel) -> Option<Kernel> {
    let (stock, image, busybox) = files_of(oracle)?;
    Some(stock::live(stock, kernel, &image, &busybox))
}

/// What it is in the catalogue, its image and its busybox.
fn files_of(oracle: &Oracle) -> Option<(&'static Stock, PathBuf, PathBuf)> {
    let Oracle { image, busybox, stock, .. } = oracle;
    let stock = trapline_images::stocks().iter().find(|known| Some(known.name) == *stock)?;
    Some((stock, file_of(image)?, file_of(busybox)?))
}

/// A row of a table.
pub struct Row {
    /// The address that the row is of.
    pub address: u64,
    /// What kallsyms calls the function.
    pub symbol: String,
    /// Bytes behind its start.
    pub offset: u64,
    /// Its size.
    pub size: u64,
    /// 32 bytes in the running kernel.
    pub live: Vec<u8>,
    /// The same in the image.
    pub image: Vec<u8>,
    /// objdump's text.
    pub insn: String,
    /// `ok` or an errno.
    pub result: String,
    /// As the list of probes has it.
    pub status: String,
    /// `p`, `q` or `r`.
    pub kind: String,
    /// Why the address was chosen.
    pub category: String,
}

fn hex(text: &str) -> u64 {
    u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn bytes(text: &str) -> Vec<u8> {
    let pairs = text.as_bytes().chunks_exact(2).filter(|_| text != "-");
    pairs.map(|pair| hex(std::str::from_utf8(pair).expect("hexadecimal digits")) as u8).collect()
}

/// The rows of a table.
pub fn rows(table: &str) -> Vec<Row> {
    let mut lines = table.lines();
    let header: Vec<&str> = lines.next().expect("a header").split('\t').collect();
    lines
        .map(|line| {
            let values: Vec<&str> = line.split('\t').collect();
            let column = |name: &str| {
                values[header.iter().position(|column| *column == name).unwrap_or_else(|| panic!("no column {name}"))]
            };
            Row {
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
                category: column("category").into(),
            }
        })
        .collect()
}
