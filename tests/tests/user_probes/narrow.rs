//! Snapshots and turns of CPUs in the middle of a 32-bit program under a 64-bit kernel whose core keeps the registers of such
//! programs apart (AArch64).

use crate::{LONG, Stock};
use trapline::machine::{Happening, Stop};
use trapline::probed::Session;
use trapline_isa::plan::Policy;

/// PSTATE.nRW of AArch64.
const NARROW: u64 = 1 << 4;
const WORK: &[u8] = b"\
echo begins
/narrow/busybox sh -c 'i=0; while [ $i -lt 3000 ]; do i=$((i+1)); done; echo counted $i' &
/narrow/busybox md5sum /bin/busybox /narrow/busybox
wait
/narrow/busybox cmp /narrow/busybox /narrow/busybox && echo equal
";
/// Guest time between two looks, in nanoseconds.
const APART: u64 = 300_000;
/// Snapshots that are taken, and looks after which there must be that many.
const SNAPSHOTS: usize = 3;
const LOOKS: usize = 2_000;

/// The rest of a run: its end, console, and events.
fn rest(session: &mut Session) -> (Stop, u64, String, Vec<Happening>) {
    let before = session.machine().happenings().len();
    let stop = session.run_until(LONG);
    let machine = session.machine_mut();
    let console = String::from_utf8_lossy(&machine.take_console()).into_owned();
    (stop, machine.now(), console, machine.happenings()[before..].to_vec())
}

/// BY-4: a snapshot that is taken while a 32-bit program runs continues as the run does, on one CPU and on two.
pub fn a_32_bit_program_continues_from_a_snapshot([name, narrow]: [&'static str; 2]) {
    let foreign = Stock::new(narrow, b"").busybox;
    for cpus in [1, 2] {
        let mut stock = Stock::with_files(name, WORK, &[("narrow/busybox".to_string(), foreign.clone())]);
        stock.config.cpus = cpus;
        let mut session = stock.session();
        session.machine_mut().stop_at_console_text(Some("begins"));
        assert_eq!(session.run_until(LONG), Stop::ConsoleText, "{name}");
        let (mut taken, mut looks) = (0, 0);
        while taken < SNAPSHOTS {
            looks += 1;
            assert!(looks < LOOKS, "{name}: {taken} snapshots of a 32-bit program");
            let until = session.machine().now() + APART;
            assert_eq!(session.run_until(until), Stop::Limit, "{name}: {taken} snapshots");
            let machine = session.machine();
            let status = machine.registers().iter().find(|(name, _)| *name == "pstate").map_or(0, |(_, value)| *value);
            if machine.in_kernel() || status & NARROW == 0 {
                continue;
            }
            assert_eq!(status & 0x1cf, 0, "{name}: {status:#x}: user mode, nothing masked");
            taken += 1;
            let what = format!("{name}, {cpus} CPUs, snapshot {taken} at {}", machine.now());
            let snapshot = session.snapshot().unwrap_or_else(|error| panic!("{what}: {error}"));
            let mut other = Session::from_snapshot(stock.kernel(), &stock.config, Policy::Best, &snapshot).expect("a session");
            assert_eq!(other.snapshot().expect("a snapshot"), snapshot, "{what}: of what was restored");
            let mut before = String::from_utf8_lossy(&session.machine_mut().take_console()).into_owned();
            assert_eq!(String::from_utf8_lossy(&other.machine_mut().take_console()), before, "{what}");
            let continued = rest(&mut session);
            let restored = rest(&mut other);
            before.push_str(&continued.2);
            assert_eq!(continued.0, Stop::PowerOff(0), "{what}: {before}");
            assert!(before.contains("counted 3000") && before.contains("equal"), "{what}: {before}");
            assert_eq!((continued.1, &continued.2), (restored.1, &restored.2), "{what}");
            let first = continued.3.iter().zip(&restored.3).find(|(one, other)| one != other);
            assert_eq!(first, None, "{what}");
            session.restore(&snapshot).expect("it fits");
            session.machine_mut().take_console();
        }
    }
}
