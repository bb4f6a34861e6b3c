//! Stock kernels that are given as files: trapline uses a busybox of the same ISA, or none.
#![cfg(feature = "cpu")]

use std::path::Path;
use std::process::Command;
use trapline::arches::{self, Row};
use trapline::boot::kernels;
use trapline::boot::{Kernel, Segment};
use trapline_harness::Folder;

/// Runs `trapline run` on the tiny kernel of an ISA as a file, with symbols that make it look like Linux. Returns the
/// exit status and all output.
fn said(row: &Row, images: &Folder) -> (Option<i32>, String) {
    let ours = trapline_images::find(&format!("tiny/{}", row.arch.name())).expect("a kernel of ours");
    let kernel = images.write("vmlinux", ours.bytes);
    let loaded = Kernel::from_bytes(ours.bytes).expect("it loads");
    let starts = |segment: &&Segment| (segment.physical..segment.physical + segment.size).contains(&loaded.entry);
    let segment = loaded.segments.iter().find(starts).expect("it is entered in one of its segments");
    let entry = segment.virtual_address + (loaded.entry - segment.physical);
    let facts = kernels::of(row.arch);
    let names =
        [facts.first_functions[0], "kernel_init_freeable"].into_iter().chain(facts.raw_image.and_then(|format| format.start));
    let map = images.write("System.map", names.map(|name| format!("{entry:x} T {name}\n")).collect::<String>().as_bytes());
    let nowhere = Path::new("/nowhere");
    let output = Command::new(env!("CARGO_BIN_EXE_trapline"))
        .args(["run", "-q", "--until", "1us", "--symbols"])
        .args([&map, &kernel])
        .env("TRAPLINE_IMAGES", &images.0)
        .env("XDG_CACHE_HOME", nowhere)
        .output()
        .expect("it runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout) + &text(&output.stderr))
}

/// DV-4: a kernel's file gets the busybox of its own ISA. If that is not on this computer, the message says how to
/// install it. Another ISA's busybox is never used.
#[test]
fn a_kernel_out_of_a_file_gets_no_other_isas_busybox() {
    // The RAM of RISC-V's board for stock kernels is not where our kernel lies.
    let lies_in_ram = |row: &Row| {
        let boards = row.machine.as_ref().and_then(|machine| Some((machine.bare, machine.stock?)));
        boards.is_none_or(|(bare, stock)| bare.ram_start == stock.ram_start)
    };
    let ours = |row: &&Row| trapline_images::find(&format!("tiny/{}", row.arch.name())).is_some() && lies_in_ram(row);
    for row in arches::all().filter(ours) {
        let name = row.arch.name();
        let others = Folder::new(&format!("{name}-others"));
        for other in arches::all().filter(|other| kernels::of(other.arch).debian != kernels::of(row.arch).debian) {
            others.write(&format!("busybox/busybox-{}", kernels::of(other.arch).debian), b"\x7fELF of another ISA");
        }
        let (status, text) = said(row, &others);
        let runs = row.machine.as_ref().is_some_and(|machine| machine.stock.is_some());
        let stock = trapline_images::stocks().iter().find(|stock| stock.architecture == kernels::of(row.arch).debian);
        let advice = match stock {
            _ if !runs => "no board runs Linux kernels for".into(),
            Some(stock) if stock.is_packed() => format!("help: `trapline images pull {}` brings it", stock.name),
            Some(stock) => format!("help: {} in trapline's sources builds it", stock.built_by()),
            None => format!("help: put one that is linked statically at {}", others.0.display()),
        };
        assert_eq!(status, Some(2), "{name}: {text}");
        assert!(text.contains(&advice), "{name}: `{advice}` is not in {text}");
        let missing = format!("there is no busybox for {} on this computer", kernels::of(row.arch).debian);
        assert_eq!(text.contains(&missing), runs, "{name}: {text}");

        others.write(&format!("busybox/busybox-{}", kernels::of(row.arch).debian), b"\x7fELF of this ISA");
        let (_, text) = said(row, &others);
        assert!(!text.contains("no busybox"), "{name}: {text}");
        assert_eq!(text.contains(&advice), !runs, "{name}: {text}");
        // The machine is made, and the kernel, which is no Linux after all, entered.
        let entered = ["the limit was reached", "the kernel did not get from its entry"];
        assert_eq!(entered.iter().any(|words| text.contains(words)), runs, "{name}: {text}");
    }
}
