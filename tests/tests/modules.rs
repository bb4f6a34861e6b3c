//! Kernel modules of a stock kernel. Probes are registered before a module's init, follow its unloading and reloading,
//! and the run equals an unprobed one.
//!
//! Kernels and modules come from the cache of `trapline images pull --modules` or from folders in `TRAPLINE_IMAGES`. A
//! test without them is counted as skipped.

use std::process::ExitCode;
use std::sync::Arc;
use trapline::boot::{Kernel, initramfs};
use trapline::machine::{Config, Stop};
use trapline::probed::Session;
use trapline_harness::guests::{self, Family, facts_of};
use trapline_harness::{self as harness, Test};
use trapline_images::Local;
use trapline_isa::function;
use trapline_isa::plan::Errno;
use trapline_probes::events::set::{Attached, EventSet};
use trapline_probes::probe::{Flow, Kprobe};
use trapline_tests::stock::modules_of;
use trapline_tests::{Run, assert_same};

/// A dummy network device. It has init and exit code and needs no other module.
const MODULE: &str = "dummy";
const SCRIPT: &[u8] = b"
ip link set dummy0 up && ip addr add 10.1.2.3/24 dev dummy0 && ip link set dummy0 down
rmmod dummy && insmod /modules/000-dummy.ko && ip link set dummy0 up
while read name size uses; do echo module $name $uses; done </proc/modules
exit 9
";
const LONG: u64 = 60_000_000_000;

const EVENTS: &[&str] = &[
    "p:init dummy:dummy_init_module",
    "p:exit dummy:dummy_cleanup_module",
    "p:setup dummy:dummy_setup device=$arg1",
    "r:dev dummy:dummy_dev_init ret=$retval",
    "p:never nosuch:function",
];

struct Stock {
    kernel: Kernel,
    initrd: Arc<[u8]>,
    command_line: String,
}

/// The kernel of that name with the module.
fn stock(name: &str) -> Stock {
    let found = harness::stock_with(name, |local| local.module(MODULE).is_some());
    let module = found.local.module(MODULE).expect("it was found");
    let read = |path| std::fs::read(path).expect("its file");
    let files = [(format!("{}000-{MODULE}.ko", initramfs::MODULES), read(module))];
    let initrd = initramfs::with_busybox(&read(found.busybox), Some(SCRIPT), &files).into();
    let kernel = Kernel::from_bytes(&read(found.local.kernel)).expect("a kernel");
    Stock { kernel, initrd, command_line: found.stock.command_line.into() }
}

impl Stock {
    fn session(&self) -> Session {
        let config = Config {
            command_line: self.command_line.clone(),
            initrd: Some(Arc::clone(&self.initrd)),
            record_events: true,
            ..Config::default()
        };
        Session::new(self.kernel.clone(), &config).expect("a machine")
    }

    /// The run without probes.
    fn plain(&self, name: &str) -> Run {
        let mut session = self.session();
        let stop = session.run_until(LONG);
        let run = finished(&mut session, stop);
        assert_eq!(run.stop, Stop::PowerOff(9), "{name}: {}", run.console);
        run
    }

    /// A session with these events, which wait for their modules.
    fn with_events(&self, name: &str, lines: &[&str]) -> (Session, EventSet) {
        let mut session = self.session();
        session.stop_at_modules(true);
        let mut events = EventSet::default();
        session.with_engine(|engine, guest| {
            for line in lines {
                events.apply(engine, guest, line).unwrap_or_else(|error| panic!("{name}: {line}: {error}"));
            }
            events.enable_all(engine, guest, true).expect("they wait");
        });
        (session, events)
    }
}

fn finished(session: &mut Session, stop: Stop) -> Run {
    let machine = session.machine_mut();
    let console = String::from_utf8_lossy(&machine.take_console()).into_owned();
    Run { stop, console, time: machine.time(), happenings: machine.happenings().to_vec() }
}

/// The lines of debugfs `kprobes/list` for the module.
fn list(session: &mut Session) -> Vec<String> {
    let list = session.with_engine(|engine, guest| engine.list(guest));
    list.lines().map(str::to_string).collect()
}

/// BY-4, DV-1, DV-4: registers events on a module that the guest loads, unloads and loads again. The events must attach
/// at each load, go at the unload, and count and record every hit, while the guest runs as it does without probes.
fn events_follow_a_module(name: &'static str) {
    let stock = stock(name);
    let plain = stock.plain(name);
    assert!(plain.console.contains("module dummy 0") && !plain.console.contains("WARNING:"), "{name}: {}", plain.console);

    let (mut probed, mut events) = stock.with_events(name, EVENTS);
    let mut everywhere = Vec::new();
    let (mut stop, mut came) = (probed.run_until(LONG), 0);
    while stop == Stop::Attention {
        came += 1;
        if came == 2 {
            let gone = list(&mut probed).iter().filter(|line| line.ends_with("[GONE]")).count();
            assert!(gone >= EVENTS.len() - 1, "{name}: the probes in the module are gone");
        }
        assert_eq!(probed.modules(), [MODULE], "{name}");
        let failed = probed.with_engine(|engine, guest| events.module_came(engine, guest));
        assert!(failed.is_empty(), "{name}: {failed:?}");
        refusals(name, &mut probed);
        if came == 2 {
            everywhere = probe_everywhere(&mut probed, MODULE);
        }
        let lines = list(&mut probed);
        let of_module = |function: &str| {
            let start = format!("  k  {function}+{:#x}  {MODULE}", facts_of(name).entry);
            lines.iter().any(|line| line.contains(&start))
        };
        assert!(of_module("dummy_init_module") && of_module("dummy_cleanup_module"), "{name}: {lines:#?}");
        stop = probed.run_until(LONG);
    }
    assert_eq!(came, 2, "{name}: loaded twice");
    let seen = finished(&mut probed, stop);
    assert_same(name, &plain, &seen);

    let hits: Vec<(&str, u64)> = events.members().map(|member| (member.name(), member.hits())).collect();
    assert_eq!(hits, [("init", 2), ("exit", 1), ("setup", 2), ("dev", 2), ("never", 0)], "{name}");
    assert!(matches!(events.members().nth(4).expect("five").probe, Attached::Pending), "{name}: it is pending to the end");
    let mut records = 0;
    let mut names = Vec::new();
    probed.with_engine(|engine, _| {
        while let Some(record) = engine.records().pop() {
            records += 1;
            names.push(String::from_utf8_lossy(&record.header.comm).trim_end_matches('\0').to_string());
        }
    });
    assert_eq!(records, 7, "{name}");
    assert!(names.iter().all(|name| name == "insmod" || name == "rmmod"), "{name}: {names:?}");
    let hit = everywhere.iter().filter(|probe| probe.hits() > 0).count();
    let gone = everywhere.iter().filter(|probe| probe.is_gone()).count();
    println!("{name}: {} instructions of the module probed, {hit} hit, {gone} gone with its init", everywhere.len());
    assert!(everywhere.len() > 100 && hit > 80 && gone > 20, "{name}");
}

/// KP-5, KP-15: refusals in a module.
fn refusals(name: &str, session: &mut Session) {
    let facts = facts_of(name);
    let inside = if facts.has_any_length { Errno::EILSEQ } else { Errno::EINVAL };
    let module = session.module(MODULE).expect("it is there");
    let place = |symbol: &str| module.image.symbols.address_of(symbol).unwrap_or_else(|| panic!("{name}: {symbol}"));
    let (setup, data) = (place("dummy_setup"), place("__this_module"));
    #[rustfmt::skip]
    let cases = [
        ("data",                            Kprobe::at_address(data),                                   Err(Errno::EINVAL)),
        ("no symbol of it",                 Kprobe::at("dummy:dummy_stup"),                             Err(Errno::ENOENT)),
        ("another module's name",           Kprobe::at("nosuch:dummy_setup"),                           Err(Errno::ENOENT)),
        ("the middle of an instruction",    Kprobe::at("dummy:dummy_setup").offset(2),                  Err(inside)),
        ("an address",                      Kprobe::at_address(setup + u64::from(facts.first)),                              Ok(())),
        ("a name without the module's",     Kprobe::at("dummy_setup").offset(facts.first),                        Ok(())),
    ];
    for (what, probe, expected) in cases {
        let answer = session.register_kprobe(&probe).map_err(|refusal| refusal.errno);
        assert_eq!(answer, expected, "{name}: {what}");
        session.unregister_kprobe(&probe);
    }
}

/// KP-1: probes every allowed instruction of the module, every second one with a post-handler.
fn probe_everywhere(session: &mut Session, module: &str) -> Vec<Kprobe> {
    let module = session.module(module).expect("it is there");
    let functions = module.text.iter().flat_map(|text| module.image.symbols.extents(text.range.clone()));
    let extents: Vec<(u64, u64)> = functions.map(|symbol| (symbol.start, symbol.start + symbol.size)).collect();
    let mut probes = Vec::new();
    session.with_engine(|engine, guest| {
        for (start, end) in extents {
            let read = |at: u64, into: &mut [u8]| engine.read_original(guest, at, into);
            let addresses: Vec<u64> =
                function::walk(guest.isa(), start, end, read).map_while(Result::ok).map(|insn| insn.address).collect();
            for address in addresses {
                let probe = Kprobe::at_address(address).pre(|_| Flow::Continue);
                let probe = if probes.len() % 2 == 0 { probe } else { probe.post(|_| ()) };
                if engine.register_kprobe(guest, &probe).is_ok() {
                    probes.push(probe);
                }
            }
        }
    });
    probes
}

/// A module whose init calls one kernel function repeatedly.
const TESTING: &str = "test_hexdump";

/// KP-1, BY-4: 32-bit PowerPC, whose small kernel has no network. The module calls the kernel and is called by it. With
/// probes everywhere in it the run is the same, each time the module is loaded.
fn a_module_is_probed_everywhere_and_the_run_is_the_same(name: &'static str) {
    let found = harness::stock_with(name, |local| local.module(TESTING).is_some());
    let read = |path| std::fs::read(path).expect("its file");
    let module = read(found.local.module(TESTING).expect("it was found"));
    let again = format!("rmmod {TESTING} && insmod /modules/000-{TESTING}.ko; cat /proc/modules; exit 9\n");
    let files = [(format!("{}000-{TESTING}.ko", initramfs::MODULES), module)];
    let initrd = initramfs::with_busybox(&read(found.busybox), Some(again.as_bytes()), &files).into();
    let kernel = Kernel::from_bytes(&read(found.local.kernel)).expect("a kernel");
    let stock = Stock { kernel, initrd, command_line: found.stock.command_line.into() };
    let plain = stock.plain(name);
    assert_eq!(plain.console.matches("test_hexdump: all ").count(), 2, "{name}: {}", plain.console);

    let mut probed = stock.session();
    probed.stop_at_modules(true);
    let mut probes = Vec::new();
    let mut stop = probed.run_until(LONG);
    while stop == Stop::Attention {
        probes.push(probe_everywhere(&mut probed, TESTING));
        stop = probed.run_until(LONG);
    }
    let seen = finished(&mut probed, stop);
    assert_same(name, &plain, &seen);
    assert_eq!(probes.len(), 2, "{name}: loaded twice");
    for probes in &probes {
        let hit = probes.iter().filter(|probe| probe.hits() > 0).count();
        println!("{name}: {} instructions of the module probed, {hit} hit", probes.len());
        assert!(probes.len() > 100 && hit > 80, "{name}: {hit} of {}", probes.len());
    }
}

/// A file system with init data of its own. The kernel places the next small module where that was.
const LARGE: &str = "ext4";
/// They are loaded in this order, each behind those that it needs.
const MANY: &[&str] = &[LARGE, MODULE];
const MANY_GO: &[u8] = b"
ip link add dummy1 type dummy; rmmod dummy; rmmod ext4
for module in /modules/*; do :; done; insmod $module
while read name size uses; do echo module $name; done </proc/modules
exit 9
";

/// BY-4, DV-1: a module lies where an earlier one had its init sections. Probes attach to both, no text of either is lost
/// when they go, and the run is the same.
fn modules_follow_each_other_at_one_place(name: &'static str) {
    let found = harness::stock_with(name, has_many);
    let read = |path| std::fs::read(path).expect("its file");
    let initrd = initramfs::with_busybox(&read(found.busybox), Some(MANY_GO), &modules_of(&found.local, MANY)).into();
    let kernel = Kernel::from_bytes(&read(found.local.kernel.clone())).expect("a kernel");
    let stock = Stock { kernel, initrd, command_line: found.stock.command_line.into() };
    let plain = stock.plain(name);
    assert!(plain.console.contains("module dummy") && !plain.console.contains("module ext4"), "{name}: {}", plain.console);

    let lines =
        ["p:setup dummy:dummy_setup", "p:start ext4:ext4_init_fs", "p:end ext4:ext4_exit_fs", "p:cache mbcache:mb_cache_create"];
    let (mut probed, mut events) = stock.with_events(name, &lines);
    let mut stop = probed.run_until(LONG);
    while stop == Stop::Attention {
        let failed = probed.with_engine(|engine, guest| events.module_came(engine, guest));
        assert!(failed.is_empty(), "{name}: {failed:?}");
        stop = probed.run_until(LONG);
    }
    let seen = finished(&mut probed, stop);
    let log = probed.with_engine(|engine, _| engine.take_log_lines());
    assert!(!log.iter().any(|line| line.contains("could not be restored")), "{name}: {log:#?}");
    assert_same(name, &plain, &seen);
    let hits: Vec<(&str, u64)> = events.members().map(|member| (member.name(), member.hits())).collect();
    // Its init function makes one device, and the command another.
    let expected = [("setup", 3), ("start", 1), ("end", 1)];
    assert_eq!(hits[..3], expected, "{name}");
    assert!(hits[3].1 <= 1, "{name}: {hits:?}");
}

fn has_many(local: &Local) -> bool {
    MANY.iter().all(|module| local.module(module).is_some())
}

/// A test that needs this kernel and its module.
fn with(name: &'static str, module: &'static str, family: &str, test: fn(&'static str)) -> Test {
    let need = harness::complete(name, "--modules ", |local| local.module(module).is_some());
    Test::new(harness::member(family, name), move || test(name)).needs(need)
}

fn main() -> ExitCode {
    let followed = |name| with(name, MODULE, "events_follow_a_module", events_follow_a_module);
    let everywhere = "a_module_is_probed_everywhere_and_the_run_is_the_same";
    let follow = |name| {
        let need = harness::complete(name, "--modules ", has_many);
        let name_of = harness::member("modules_follow_each_other_at_one_place", name);
        Test::new(name_of, move || modules_follow_each_other_at_one_place(name)).needs(need)
    };
    harness::run([
        guests::stock_in(Family::Modules).map(followed).collect(),
        guests::stock_in(Family::LargeModules).map(follow).collect(),
        vec![with("linux/ppc", TESTING, everywhere, a_module_is_probed_everywhere_and_the_run_is_the_same)],
    ])
}
