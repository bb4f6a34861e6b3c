//! Tests of the debugfs views, byte for byte.

use crate::guest::{Blacklisted, Guest, Site, Symbol, Text, WindowUse};
use crate::probe::{Jprobe, Kprobe, Kretprobe};
use crate::toy::guest::INIT;
use crate::toy::isa::TOY;
use crate::toy::{Stop, sample};
use crate::{Engine, Misses};
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;
use trapline_isa::arch::{Arch, Isa};
use trapline_isa::mem::Fault;

/// DV-1
#[test]
fn the_list_has_a_line_for_each_probe_with_its_state() {
    let mut guest = sample::kernel(1);
    let mut engine = Engine::new(&TOY, 1);
    let gone = Kprobe::at_address(INIT);
    let all = [Kprobe::at("vfs_read"), Kprobe::at("vfs_read").offset(3).disabled(), gone, Kprobe::at("tail").internal()];
    engine.register_kprobes(&mut guest, &all).expect("may be probed");
    engine.register_kretprobe(&mut guest, &Kretprobe::at("helper")).expect("a function");
    engine.register_jprobe(&mut guest, &Jprobe::at("helper").host(|_| {})).expect("a function");
    engine.register_kprobe(&mut guest, &Kprobe::at("helper")).expect("may be probed");
    engine.register_jprobe(&mut guest, &Jprobe::at("outer").host(|_| {}).disabled()).expect("a function");
    let range = guest.free_init();
    engine.kill_range(&mut guest, range);
    let mut lines: Vec<String> = engine.list(&guest).lines().map(Into::into).collect();
    // Bucket order is tested with real kernel addresses below. Here: newest first at one address.
    let helper: Vec<&str> = lines.iter().filter(|line| line.contains("helper")).map(|line| &line[18..19]).collect();
    assert_eq!(helper, ["k", "r", "j"]);
    lines.sort();
    let address = |name: &str| guest.address(name);
    let mut expected = [
        alloc::format!("{:016x}  k  vfs_read+0x0    ", address("vfs_read")),
        alloc::format!("{:016x}  k  vfs_read+0x3    [DISABLED]", address("vfs_read") + 3),
        alloc::format!("{:016x}  k  helper+0x0    ", address("helper")),
        alloc::format!("{:016x}  r  helper+0x0    ", address("helper")),
        alloc::format!("{:016x}  j  helper+0x0    ", address("helper")),
        alloc::format!("{:016x}  j  outer+0x0    [DISABLED]", address("outer")),
        alloc::format!("{INIT:016x}  k  init_setup+0x0    [GONE]"),
    ];
    expected.sort();
    assert_eq!(lines, expected);
}

/// A kernel of nops with the addresses of a real kernel.
struct Stock {
    isa: &'static Isa,
    symbols: Vec<Symbol>,
    blacklist: Vec<Blacklisted>,
    patched: Vec<(u64, Vec<u8>)>,
    window: u64,
}

impl Guest for Stock {
    fn isa(&self) -> &'static Isa {
        self.isa
    }
    fn cpus(&self) -> usize {
        1
    }
    fn symbol(&self, name: &str) -> Option<Symbol> {
        self.symbols.iter().find(|symbol| symbol.name == name).cloned()
    }
    fn symbols_named(&self, _: &str) -> usize {
        1
    }
    fn symbol_at(&self, address: u64) -> Option<Symbol> {
        self.symbols.iter().find(|symbol| (symbol.start..symbol.start + symbol.size).contains(&address)).cloned()
    }
    fn similar_names(&self, _: &str) -> Vec<String> {
        Vec::new()
    }
    fn text_kind(&self, address: u64) -> Option<Text> {
        self.symbol_at(address).map(|_| Text::Core)
    }
    fn site_at(&self, _: u64) -> Option<Site> {
        None
    }
    fn blacklist(&self) -> &[Blacklisted] {
        &self.blacklist
    }
    fn read_text(&self, address: u64, into: &mut [u8]) -> Result<(), Fault> {
        for (at, byte) in (address..).zip(into) {
            *byte = self.patched.iter().rev().find(|(patched, _)| *patched == at).map_or(0x90, |(_, bytes)| bytes[0]);
        }
        Ok(())
    }
    fn patch_text(&mut self, address: u64, bytes: &[u8]) -> Result<(), Fault> {
        self.patched.push((address, bytes.to_vec()));
        Ok(())
    }
    fn window_take(&mut self, _: u64, len: usize) -> Option<u64> {
        self.window += len as u64;
        Some(self.window - len as u64)
    }
    fn window_give(&mut self, _: u64, _: usize) {}
    fn window_write(&mut self, _: u64, _: &[u8], _: WindowUse) {}
    fn any_cpu_inside(&self, _: Range<u64>) -> bool {
        false
    }
}

fn stock(arch: Arch, window: u64, symbols: &[(&str, u64, Option<&str>)]) -> Stock {
    let symbol = |(name, start, module): &(&str, u64, Option<&str>)| Symbol {
        name: (*name).into(),
        start: *start,
        size: 0x40,
        module: module.map(Into::into),
    };
    Stock { isa: arch.isa(), symbols: symbols.iter().map(symbol).collect(), blacklist: Vec::new(), patched: Vec::new(), window }
}

/// DV-1: addresses of a stock kernel. The buckets in the comments were computed independently from
/// include/linux/hash.h.
#[test]
fn the_list_is_in_linuxs_bucket_order() {
    let symbols = [
        ("vfs_read", 0xffff_ffff_812f_1b40, None),               // bucket 17, and 11 for +5
        ("vfs_write", 0xffff_ffff_812f_2110, None),              // 40
        ("ext4_sync_file", 0xffff_ffff_c040_5c30, Some("ext4")), // 21
        ("do_sys_openat2", 0xffff_ffff_812e_da10, None),         // 1
        ("schedule", 0xffff_ffff_819b_1e60, None),               // 31
        ("tcp_v4_rcv", 0xffff_ffff_818c_6f50, None),             // 61
    ];
    let mut guest = stock(Arch::X86_64, 0xffff_ffff_9000_0000, &symbols);
    let mut engine = Engine::new(guest.isa, 1);
    engine.set_optimization(&mut guest, false);
    let probes: Vec<Kprobe> = symbols.iter().map(|(name, ..)| Kprobe::at(*name)).collect();
    engine.register_kprobes(&mut guest, &probes).expect("nops may be probed");
    engine.register_kprobe(&mut guest, &Kprobe::at("vfs_read").offset(5)).expect("a nop");
    engine.register_kretprobe(&mut guest, &Kretprobe::at("schedule")).expect("a function");
    let expected = "ffffffff812eda10  k  do_sys_openat2+0x0    \n\
                    ffffffff812f1b45  k  vfs_read+0x5    \n\
                    ffffffff812f1b40  k  vfs_read+0x0    \n\
                    ffffffffc0405c30  k  ext4_sync_file+0x0  ext4 \n\
                    ffffffff819b1e60  r  schedule+0x0    \n\
                    ffffffff819b1e60  k  schedule+0x0    \n\
                    ffffffff812f2110  k  vfs_write+0x0    \n\
                    ffffffff818c6f50  k  tcp_v4_rcv+0x0    \n";
    assert_eq!(engine.list(&guest), expected);
    engine.set_optimization(&mut guest, true);
    assert_eq!(engine.list(&guest), expected.replace('\n', "[OPTIMIZED]\n"), "queued probes have the flag, too");
    engine.set_optimization(&mut guest, false);

    // The examples of kprobes.txt, which are in buckets 38, 8 and 15 of a 32-bit kernel.
    let seeds = [("vfs_read", 0xc015_d71a, None), ("tcp_v4_rcv", 0xc03d_edc5, None), ("do_fork", 0xc011_a316, None)];
    let mut guest = stock(Arch::I386, 0xc800_0000, &seeds);
    let mut engine = Engine::new(guest.isa, 1);
    engine.set_optimization(&mut guest, false);
    engine.register_kprobe(&mut guest, &Kprobe::at("vfs_read")).expect("a nop");
    engine.register_kretprobe(&mut guest, &Kretprobe::at("tcp_v4_rcv")).expect("a function");
    engine.register_jprobe(&mut guest, &Jprobe::at("do_fork").host(|_| {})).expect("a function");
    let expected = "c03dedc5  r  tcp_v4_rcv+0x0    \nc011a316  j  do_fork+0x0    \nc015d71a  k  vfs_read+0x0    \n";
    assert_eq!(engine.list(&guest), expected);
}

/// DV-1: within one bucket the newest point comes first.
#[test]
fn newer_points_of_one_bucket_come_first() {
    // Both in bucket 17.
    let symbols = [("old", 0xffff_ffff_812f_1b40, None), ("new", 0xffff_ffff_812f_1b40 + 0x14c0, None)];
    let mut guest = stock(Arch::X86_64, 0xffff_ffff_9000_0000, &symbols);
    let mut engine = Engine::new(guest.isa, 1);
    for name in ["old", "new"] {
        engine.register_kprobe(&mut guest, &Kprobe::at(name)).expect("a nop");
    }
    engine.register_kprobe(&mut guest, &Kprobe::at("old")).expect("a nop");
    let names: Vec<String> = engine.list(&guest).lines().map(|line| line[21..24].into()).collect();
    assert_eq!(names, ["new", "old", "old"], "a point keeps its place when another probe joins it");
}

/// DV-3: lines as in a stock Debian amd64 kernel. Unlisted ranges are not shown, and the user's ranges come last.
#[test]
fn the_blacklist_is_shown_in_linuxs_format() {
    let mut guest = stock(Arch::X86_64, 0, &[]);
    let entry = |start: u64, name: &str, listed| Blacklisted { range: start..start + 0x20, name: name.into(), listed };
    guest.blacklist = [
        entry(0xffff_ffff_81c0_0990, "asm_exc_divide_error", true),
        entry(0xffff_ffff_81c0_0000, "__kprobes_text_start", false),
        entry(0xffff_ffff_81c0_09b0, "asm_exc_overflow", true),
    ]
    .into();
    let mut engine = Engine::new(guest.isa, 1);
    engine.blacklist_add(0xffff_ffff_8100_0000..0xffff_ffff_8100_0010, "mine");
    let expected = "0xffffffff81c00990-0xffffffff81c009b0\tasm_exc_divide_error\n\
                    0xffffffff81c009b0-0xffffffff81c009d0\tasm_exc_overflow\n\
                    0xffffffff81000000-0xffffffff81000010\tmine\n";
    assert_eq!(engine.blacklist_view(&guest), expected);
    let mut guest = stock(Arch::I386, 0, &[]);
    guest.blacklist = [entry(0xc100_0000, "entry", true)].into();
    assert_eq!(Engine::new(guest.isa, 1).blacklist_view(&guest), "0xc1000000-0xc1000020\tentry\n");
}

/// Every miss is counted under its cause.
#[test]
fn the_summary_has_hits_misses_and_modes() {
    let mut guest = sample::kernel(1);
    let mut engine = Engine::new(&TOY, 1);
    let probes = [
        Kprobe::at("vfs_read"),
        Kprobe::at("vfs_read").offset(3),
        Kprobe::at("vfs_read").offset(6),
        Kprobe::at("main").internal(),
    ];
    engine.register_kprobes(&mut guest, &probes).expect("may be probed");
    let returns = Kretprobe::at("vfs_irq").maxactive(1);
    engine.register_kretprobe(&mut guest, &returns).expect("a function");
    engine.register_kprobe(&mut guest, &Kprobe::at("vfs_read").post(|_| {})).expect("may be probed");
    assert_eq!(guest.run(&mut engine, 0), Stop::Halted);
    guest.start(0, "vfs_irq");
    guest.run_steps(&mut engine, 0, 1);
    guest.start(0, "vfs_irq");
    guest.run_steps(&mut engine, 0, 1);
    let told: Vec<(String, &str, u64, Misses)> =
        engine.summary(&guest).into_iter().map(|line| (line.name, line.mode.name(), line.hits, line.misses)).collect();
    let none = Misses::default();
    let expected = [
        ("vfs_read".into(), "plain", 1, none),
        ("vfs_read".into(), "plain", 1, none),
        ("vfs_read+0x3".into(), "plain", 1, none),
        ("vfs_read+0x6".into(), "emulated", 1, none),
        ("vfs_irq".into(), "boosted", 2, Misses { no_instance: 1, ..none }),
    ];
    assert_eq!(told, expected);
}
