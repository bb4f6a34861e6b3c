//! Watched memory of a program: images/programs/calls.c stores a variable in each of its five rounds.

use crate::ends::guest;
use crate::{assert_same, run};
use goblin::elf::Elf;
use std::sync::{Arc, Mutex};
use trapline::machine::Stop;
use trapline_probes::user::{Place, UserProbe};
use trapline_probes::watch::Watchpoint;

/// The variable, and the function that stores to it.
const VARIABLE: &str = "counter";
const STORES: &str = "marks";
const ROUNDS: u64 = 5;
const BYTES: u64 = 4;

/// One store: the number before, the number after, and the process with its name.
type Store = (u64, u64, u32, String);

/// Address of a variable of the program.
fn address(program: &[u8], name: &str) -> u64 {
    let elf = Elf::parse(program).expect("a program");
    let is_it = |symbol: &goblin::elf::Sym| elf.strtab.get_at(symbol.st_name) == Some(name);
    elf.syms.iter().find(is_it).unwrap_or_else(|| panic!("no {name}")).st_value
}

/// BY-2, BY-3: a watchpoint on an address of one process sees each store of that process with its task, on its own and beside
/// probes in the program. The run does not change. Another process's memory at that address is not watched.
pub fn stores_of_a_program_are_seen_with_its_task([name, isa]: [&'static str; 2]) {
    let (stock, program) = guest(name, isa);
    let plain = run(&mut stock.session());
    assert_eq!(plain.stop, Stop::PowerOff(0), "{}", plain.console);
    let mut probed = stock.session();
    let pids: Arc<Mutex<Vec<u32>>> = Arc::default();
    let into = Arc::clone(&pids);
    let probe = UserProbe::at("/calls", Place::Symbol(STORES.to_string(), 0), move |hit| into.lock().unwrap().push(hit.pid()));
    probed.register_user(&probe).unwrap_or_else(|refusal| panic!("{name}: {refusal}"));
    assert_same(name, &plain, &run(&mut probed));
    let pids = pids.lock().unwrap();
    assert!(pids.len() as u64 == ROUNDS && pids.iter().all(|pid| *pid == pids[0] && *pid > 1), "{name}: {pids:?}");

    let start = address(&program, VARIABLE);
    let watch = |process: u32, told: &Arc<Mutex<Vec<Store>>>| {
        let into = Arc::clone(told);
        Watchpoint::at(start..start + BYTES).writes().of_process(process).on_hit(move |hit| {
            let access = *hit.access();
            let comm = hit.comm();
            let comm = String::from_utf8_lossy(&comm).trim_end_matches('\0').to_string();
            into.lock().unwrap().push((access.old, access.value, hit.pid(), comm));
        })
    };
    let expected: Vec<Store> =
        (0..ROUNDS).map(|round| (3 * round.saturating_sub(1), 3 * round, pids[0], "calls".to_string())).collect();
    for beside_a_probe in [false, true] {
        let mut watched = stock.session();
        let [told, others]: [Arc<Mutex<Vec<Store>>>; 2] = Default::default();
        let (own, other) = (watch(pids[0], &told), watch(pids[0] + 1, &others));
        [&own, &other].into_iter().for_each(|watchpoint| watched.register_watchpoint(watchpoint).expect("there is room"));
        let probe = UserProbe::at("/calls", Place::Symbol(STORES.to_string(), 0), |_| ());
        if beside_a_probe {
            watched.register_user(&probe).unwrap_or_else(|refusal| panic!("{name}: {refusal}"));
        }
        assert_same(name, &plain, &run(&mut watched));
        assert_eq!(*told.lock().unwrap(), expected, "{name}, beside a probe: {beside_a_probe}");
        assert!(others.lock().unwrap().is_empty(), "{name}: {others:?}");
    }
}
