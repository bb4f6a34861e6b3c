//! IA-64: short random cases end here as they do on ski, HP's simulator: with the same registers, memory, interruptions and
//! count of instructions. `ia64/cases.txt` has a line for each case; `scripts/ski-tables.sh` makes it.

#[path = "ia64/cases/mod.rs"]
mod cases;
#[path = "ia64/code/mod.rs"]
#[allow(dead_code, reason = "another test makes programs of it")]
mod code;
#[path = "ia64/ram.rs"]
mod ram;

use cases::{BASE, Case, RAM};
use std::ffi::OsStr;
use std::process::Command;
use trapline_core::ia64::{Core, Host, State, vector};
use trapline_isa::ia64::bundle::Bundle;

/// The machine of a case: RAM, and the calls of ski's console.
struct Machine {
    ram: Vec<u8>,
    output: Vec<u8>,
    /// Interruptions and calls, which ski counts as instructions.
    raised: u64,
}

impl Host for Machine {
    fn load(&mut self, physical: u64, size: u32) -> Option<u64> {
        ram::load(&self.ram, BASE, physical, size)
    }

    fn store(&mut self, physical: u64, size: u32, value: u64) -> bool {
        ram::store(&mut self.ram, BASE, physical, size, value)
    }

    fn device_in(&mut self, _: u64, _: u32) -> u64 {
        0
    }

    fn device_out(&mut self, _: u64, _: u32, _: u64) {}

    fn clock(&mut self) -> u64 {
        0
    }

    fn exception(&mut self, state: &State, number: u32) {
        self.raised += 1;
        let call = (number == vector::BREAK && state.fault_number.get() == 0x8_0001).then(|| state.r(15));
        match call {
            Some(66) => return state.stop.set(1),
            Some(31) => self.output.push(state.r(32) as u8),
            Some(_) => {}
            None => return state.interrupt(number),
        }
        match state.slot() {
            2 => state.go_to(state.ip() + 16),
            slot => state.set_slot(slot + 1),
        }
    }
}

/// The output of a case and the count of instructions.
type End = (Vec<u8>, u64);

fn here(case: &Case) -> End {
    let mut ram = case.image();
    ram.resize(RAM, 0);
    let mut core = Core::new();
    let state = core.shared_state();
    state.go_to(cases::START);
    let mut machine = Machine { ram, output: Vec::new(), raised: 0 };
    core.run_slots(&mut machine, 1_000_000);
    assert!(state.executed.get() < 1_000_000, "it does not end: {:#x}.{}", state.ip(), state.slot());
    (machine.output, state.executed.get() + machine.raised)
}

/// The image as an ELF executable.
fn executable(image: &[u8]) -> Vec<u8> {
    let mut file = b"\x7fELF\x02\x01\x01\0".to_vec();
    file.resize(16, 0);
    let halves = |values: &[u16]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<_>>();
    let words = |values: &[u64]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<_>>();
    file.extend(halves(&[2, 50, 1, 0]));
    file.extend(words(&[cases::START, 64, 0]));
    file.extend(halves(&[0x10, 0, 64, 56, 1, 64, 0, 0]));
    file.extend(halves(&[1, 0, 7, 0]));
    let len = image.len() as u64;
    file.extend(words(&[0x1_0000, BASE, BASE, len, RAM as u64, 0x1_0000]));
    file.resize(0x1_0000, 0);
    file.extend(image);
    file
}

/// The end of a case on ski. Without `-icnt` its count leaves out a few instructions of the system.
fn on_ski(ski: &OsStr, case: &Case) -> End {
    let path = std::env::temp_dir().join(format!("trapline-case-{}", std::process::id()));
    std::fs::write(&path, executable(&case.image())).expect("written");
    let options = "-forcesystem -noconsole -stats -alat -alatassoc 32 -icnt /dev/null";
    let run = Command::new("timeout").arg("60").arg(ski).args(options.split(' ')).arg(&path).output();
    let _ = std::fs::remove_file(&path);
    let run = run.expect("ski");
    let text = String::from_utf8_lossy(&run.stderr);
    let words: Vec<&str> = text.split_whitespace().collect();
    let count = words.windows(2).find(|pair| pair[1].starts_with("insts")).and_then(|pair| pair[0].parse().ok());
    (run.stdout, count.unwrap_or(0))
}

/// A sum of an output (FNV).
fn sum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// The recorded cases: seed, code, count of instructions, and the sum of the output.
const RECORDED: &str = include_str!("ia64/cases.txt");

fn line(case: &Case, end: &End) -> String {
    let code: String = case.code.iter().flat_map(|bundle| bundle.bytes()).map(|byte| format!("{byte:02x}")).collect();
    format!("{} {code} {} {:016x}", case.seed, end.1, sum(&end.0))
}

/// A case of a line of the table.
fn case(line: &str) -> Option<Case> {
    let (seed, rest) = line.split_once(' ')?;
    let byte = |at: usize| u8::from_str_radix(rest.get(at..at + 2)?, 16).ok();
    let bytes: Option<Vec<u8>> = (0..16 * cases::BUNDLES).map(|number| byte(2 * number)).collect();
    Some(Case { seed: seed.parse().ok()?, code: bytes?.chunks(16).filter_map(Bundle::of).collect() })
}

/// KP-2: the cases of the table end as recorded. Beside ski, as many random ones as asked for.
#[test]
fn cases_end_as_on_ski() {
    let mut different = Vec::new();
    let mut handled = 0;
    if let Some(ski) = std::env::var_os("TRAPLINE_SKI") {
        let asked = std::env::var("TRAPLINE_SEEDS").ok().and_then(|count| count.parse().ok());
        for seed in 1..=asked.unwrap_or(100) {
            let case = Case::new(seed);
            let theirs = line(&case, &on_ski(&ski, &case));
            println!("{theirs}");
            if line(&case, &here(&case)) != theirs {
                different.push(theirs);
            }
        }
    } else {
        let recorded: Vec<&str> = RECORDED.lines().filter(|line| !line.starts_with('#')).collect();
        assert!(recorded.len() >= 1_500, "{} cases", recorded.len());
        for recorded in recorded {
            let case = case(recorded).expect(recorded);
            let end = here(&case);
            handled += u64::from(cases::notes(&end.0));
            if line(&case, &end) != recorded {
                different.push(recorded.to_string());
            }
        }
    }
    assert_eq!(different, [""; 0], "cases that end in another way");
    assert!(handled > 900 || std::env::var_os("TRAPLINE_SKI").is_some(), "{handled} cases with interruptions");
}
