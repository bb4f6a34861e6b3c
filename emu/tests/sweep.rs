//! Sweeps: the shards together equal the whole sweep, a killed sweep continues, a planted difference is reduced to its
//! probe, and parts of different sweeps are refused.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output, Stdio};
use std::time::{Duration, Instant};
use trapline::boot::Kernel;
use trapline::machine::{Config, Stop};
use trapline::probed::Session;
use trapline::sweep::part::{Identity, Summary};
use trapline::sweep::shard::Shard;
use trapline::sweep::{self, Guests, Kind, Settings};
use trapline::verify::{Run, Side};
use trapline_harness::{self as harness, Folder, guests, tests};
use trapline_isa::plan::Policy;

fn trapline(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_trapline")).args(args).output().unwrap()
}

/// The arguments of a short sweep of a tiny kernel.
fn sweep_args<'a>(kind: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["sweep", "tiny/x86_64", "--until", "4ms", "--kind", kind, "--wave", "400"], more].concat()
}

fn done(output: &Output, status: i32) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let said = text(&output.stdout) + &text(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{said}");
    said
}

/// SW-1, SW-3: two shards, in several machines at once, give the same bytes as one sweep in one machine.
fn shards_make_the_same_bytes_as_the_whole() {
    let room = Folder::new("shards");
    let whole = room.file("whole");
    let said = done(&trapline(&sweep_args("kprobe,optimised,return", &["--jobs", "1", "--out", &whole])), 0);
    assert!(said.contains("identical: tiny/x86_64, policy best, shard 0/1"), "{said}");
    let parts = room.file("parts");
    fs::create_dir(&parts).unwrap();
    for shard in ["0/2", "1/2"] {
        let part = format!("{parts}/{}.part", &shard[..1]);
        done(&trapline(&sweep_args("kprobe,optimised,return", &["--jobs", "2", "--shard", shard, "--out", &part])), 0);
    }
    let merged = room.file("merged");
    let said = done(&trapline(&["merge", &parts, "--out", &merged]), 0);
    assert!(said.contains("identical"), "{said}");
    assert_eq!(fs::read(&whole).unwrap(), fs::read(&merged).unwrap());
    let summary = Summary::read(Path::new(&whole)).unwrap();
    let of = |kind: &str| {
        let waves = summary.waves.values().filter(|wave| wave.kind == kind);
        waves.fold([0; 5], |all, wave| {
            let numbers = [wave.places, wave.armed, wave.jumps, wave.hit, wave.refused.values().sum()];
            std::array::from_fn(|at| all[at] + numbers[at])
        })
    };
    for kind in ["kprobe", "optimised", "return"] {
        let [places, armed, jumps, hit, refused] = of(kind);
        assert_eq!(armed + refused, places, "{kind}");
        assert!(armed > places / 2 && hit * 10 > armed * 9, "{kind}: {armed} of {places} armed, {hit} hit");
        assert_eq!(jumps > 0, kind != "kprobe", "{kind}: {jumps} jumps");
    }
    // A second run of the command only reads the file.
    let said = done(&trapline(&sweep_args("kprobe,optimised,return", &["--out", &whole])), 0);
    assert_eq!(said.matches(" known").count(), 1, "{said}");
    assert_eq!(fs::read(&whole).unwrap(), fs::read(&merged).unwrap());

    // A missing shard, a damaged one, and one of another sweep.
    let part = format!("{parts}/1.part");
    let bytes = fs::read(&part).unwrap();
    fs::remove_file(&part).unwrap();
    assert!(done(&trapline(&["merge", &parts]), 1).contains("1 of 2 shards are missing: 1"));
    fs::write(&part, &bytes[..bytes.len() - 9]).unwrap();
    assert!(done(&trapline(&["merge", &parts]), 1).contains("is no whole part of a sweep"));
    fs::remove_file(&part).unwrap();
    done(&trapline(&sweep_args("return", &["--shard", "1/2", "--out", &part])), 0);
    assert!(done(&trapline(&["merge", &parts]), 1).contains("are of different sweeps: their kinds of probes"));
    assert!(done(&trapline(&sweep_args("kprobe", &["--shard", "1/2", "--out", &part])), 2).contains("is of another sweep"));
}

/// SW-2: a sweep that is killed loses at most the waves that were running, and its result is the same.
fn a_killed_sweep_goes_on() {
    let room = Folder::new("killed");
    let (whole, out) = (room.file("whole"), room.file("out"));
    let args = |out| ["sweep", "tiny/x86_64", "--until", "4ms", "--kind", "kprobe", "--wave", "60", "--jobs", "1", "--out", out];
    done(&trapline(&args(&whole)), 0);
    let mut child = Command::new(env!("CARGO_BIN_EXE_trapline"))
        .args(args(&out))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let lines = || fs::read_to_string(format!("{out}.journal")).unwrap_or_default().matches('\n').count();
    let started = Instant::now();
    while lines() < 4 && started.elapsed() < Duration::from_secs(300) && !Path::new(&out).exists() {
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!Path::new(&out).exists(), "it was killed too late");
    let waves = lines() - 1;
    let said = done(&trapline(&args(&out)), 0);
    let known = said.split(" known").next().and_then(|front| front.rsplit(' ').next()).unwrap();
    assert!(waves >= 3 && known.parse::<usize>().unwrap() >= waves, "{waves} waves were written; {said}");
    assert_eq!(fs::read(&whole).unwrap(), fs::read(&out).unwrap());
}

/// Makes guests of a tiny kernel in which a probe at one address changes memory.
struct Planted {
    kernel: Kernel,
    culprit: Option<u64>,
}

struct PlantedRun {
    session: Session,
    culprit: Option<u64>,
}

impl Run for PlantedRun {
    fn session(&mut self) -> &mut Session {
        &mut self.session
    }

    fn advance(&mut self, nanoseconds: u64) -> Stop {
        let stop = self.session.run_until(nanoseconds);
        if self.culprit.is_some_and(|culprit| self.session.engine().is_probed(culprit)) {
            let at = self.session.machine().ram().base() + 0x9_0000;
            let mut byte = [0];
            self.session.machine().ram().read(at, &mut byte);
            self.session.machine_mut().write_physical(at, &[!byte[0]]);
            self.culprit = None;
        }
        stop
    }
}

impl Guests for Planted {
    fn start(&self, side: Side, coverage: bool) -> Result<Box<dyn Run>, String> {
        let config = Config { record_events: true, coverage, ..Config::default() };
        let session = match side {
            Side::Unprobed => Session::unprobed(self.kernel.clone(), &config),
            Side::Probed => Session::with_policy(self.kernel.clone(), &config, Policy::Best),
        };
        let session = session.map_err(|why| why.to_string())?;
        Ok(Box::new(PlantedRun { session, culprit: self.culprit.filter(|_| side == Side::Probed) }))
    }

    fn kernel(&self) -> &Kernel {
        &self.kernel
    }
}

fn swept(guests: &Planted, kinds: &[Kind], wave: usize, limit: u64) -> Summary {
    let room = Folder::new(&format!("planted-{limit}-{:?}", guests.kernel.arch));
    let settings = Settings { kinds: kinds.to_vec(), policy: Policy::Best, wave, limit, jobs: 2 };
    let out = PathBuf::from(room.file("part"));
    sweep::run(guests, &settings, &Identity::default(), Shard::WHOLE, &out, &mut |_| ()).unwrap()
}

fn kernel(name: &str) -> Kernel {
    Kernel::from_bytes(trapline_images::find(name).unwrap().bytes).unwrap()
}

/// SW-4: the sweep finds and names the one probe that changes the run.
fn a_difference_is_reduced_to_its_probe() {
    let kernel = kernel("tiny/arm64");
    let culprit = kernel.symbols.address_of("vfs_read").unwrap();
    let place = format!("vfs_read ({culprit:#x})");
    let guests = Planted { kernel, culprit: Some(culprit) };
    let summary = swept(&guests, &[Kind::Kprobe], 1000, 2_000_000);
    let found: Vec<_> = summary.waves.values().filter_map(|wave| wave.differs.clone()).collect();
    assert!(!summary.is_identical() && found.len() == 1, "{found:?}");
    assert_eq!(found[0].probes.len(), 1, "{found:?}");
    assert!(found[0].is_least && found[0].probes[0].replace("+0x0", "") == place, "{found:?}");
    assert!(found[0].what.contains("memory"), "{found:?}");
}

/// Differences with a known reason: a branch that the engine computes does not set the address of the last taken branch
/// (docs/proof.md).
const KNOWN: &[(&str, &str)] = &[("tiny/ppc64", "\"cfar\"")];

/// SW-1: the sweep of every tiny kernel's beginning is identical, with all kinds of probes.
fn every_tiny_kernel_is_swept() {
    for name in guests::tiny() {
        let guests = Planted { kernel: kernel(name), culprit: None };
        let summary = swept(&guests, Kind::ALL, 4000, 1_000_000);
        let armed: u64 = summary.waves.values().map(|wave| wave.armed).sum();
        let (waves, instructions) = (summary.waves.len(), summary.identity.instructions);
        println!("{name}: {instructions} instructions, {waves} waves, {armed} probes");
        let differ = summary.waves.values().filter_map(|wave| wave.differs.as_ref());
        let unknown: Vec<_> =
            differ.filter(|found| !KNOWN.iter().any(|(of, what)| *of == name && found.what.contains(what))).collect();
        assert!(unknown.is_empty(), "{name}: {unknown:?}");
        assert!(armed > instructions && instructions > 500, "{name}");
    }
}

fn main() -> ExitCode {
    harness::run([tests![
        shards_make_the_same_bytes_as_the_whole,
        a_killed_sweep_goes_on,
        a_difference_is_reduced_to_its_probe,
        every_tiny_kernel_is_swept,
    ]])
}
