//! The supervisor binary interface, the firmware of RISC-V boards (RISC-V SBI specification 2.0). It is called by ECALL
//! from supervisor mode, with an extension's number in a7 and a function's number in a6.

/// The result of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Continue with this error code and value.
    Value(i64, u64),
    /// Set the timer to this value of the register `time`.
    Timer(u64),
    /// Send a software interrupt to these harts.
    Interrupt(u64),
    /// Write bytes of memory to the console: their number and physical address.
    Print(u64, u64),
    /// Write a byte to the console.
    PrintByte(u8),
    /// Start a hart that is stopped.
    Start {
        /// The hart to start, by its number.
        hart: usize,
        /// The physical address where it starts.
        entry: u64,
        /// The value of a1 at the start.
        argument: u64,
    },
    /// Stop the calling hart, which then waits to be started.
    Stop,
    /// Power the machine off. A reset ends the machine, too.
    Off,
}

const BASE: u64 = 0x10;
const TIME: u64 = 0x5449_4d45;
const IPI: u64 = 0x73_5049;
const RFENCE: u64 = 0x5246_4e43;
const HSM: u64 = 0x48_534d;
const RESET: u64 = 0x5352_5354;
const CONSOLE: u64 = 0x4442_434e;
const EXTENSIONS: [u64; 7] = [BASE, TIME, IPI, RFENCE, HSM, RESET, CONSOLE];

/// 2.0: the major number is in the bits from 24 on.
const VERSION: u64 = 2 << 24;
/// The number of this implementation, which no other one has.
const IMPLEMENTATION: u64 = 0x7472_6170;

const SUCCESS: i64 = 0;
const FAILED: i64 = -1;
const NOT_SUPPORTED: i64 = -2;
const INVALID_PARAMETER: i64 = -3;
const ALREADY_AVAILABLE: i64 = -6;
/// The state of a hart that runs, and of one that waits to be started.
const STARTED: u64 = 0;
const STOPPED: u64 = 1;

/// The harts that an argument pair names: a mask, and the number of the hart of its lowest bit; all if that is -1.
fn harts(mask: u64, base: u64, harts: usize) -> Option<u64> {
    let all = u64::MAX >> (64 - harts.clamp(1, 64));
    if base == u64::MAX {
        return Some(all);
    }
    let named = u32::try_from(base).ok().and_then(|base| mask.checked_shl(base))?;
    // No bit may be lost, and every hart must exist.
    (named >> base == mask && named & !all == 0).then_some(named)
}

/// Answers a call with the registers a0 to a7. `on` says of each hart of the board whether it runs.
pub fn call(arguments: &[u64; 8], on: &[bool]) -> Answer {
    let [first, second, third, _, _, _, function, extension] = *arguments;
    let count = on.len();
    let hart = usize::try_from(first).unwrap_or(usize::MAX);
    let value = |value| Answer::Value(SUCCESS, value);
    let named =
        |mask, base, answer: fn(u64) -> Answer| harts(mask, base, count).map_or(Answer::Value(INVALID_PARAMETER, 0), answer);
    match (extension, function) {
        (BASE, 0) => value(VERSION),
        (BASE, 1) => value(IMPLEMENTATION),
        (BASE, 3) => value(EXTENSIONS.contains(&first).into()),
        // The implementation's version, and the hart's vendor, architecture and implementation.
        (BASE, 2 | 4..=6) => value(0),
        (TIME, 0) => Answer::Timer(first),
        (IPI, 0) => named(first, second, Answer::Interrupt),
        // The harts take turns on one core, which drops all translations at each change of the hart, and at this call
        // those of the calling hart (cpu/riscv/trap.rs).
        (RFENCE, 0..=2) => named(first, second, |_| Answer::Value(SUCCESS, 0)),
        (HSM, 0 | 2) if hart >= count => Answer::Value(INVALID_PARAMETER, 0),
        (HSM, 0) if on[hart] => Answer::Value(ALREADY_AVAILABLE, 0),
        (HSM, 0) => Answer::Start { hart, entry: second, argument: third },
        // The last hart could not be started again.
        (HSM, 1) if on.iter().filter(|is_on| **is_on).count() < 2 => Answer::Value(FAILED, 0),
        (HSM, 1) => Answer::Stop,
        (HSM, 2) => value(if on[hart] { STARTED } else { STOPPED }),
        // The types are a shutdown and two kinds of reboot.
        (RESET, 0) if first <= 2 => Answer::Off,
        (RESET, 0) => Answer::Value(INVALID_PARAMETER, 0),
        // The upper half of the address is 0 on a 64-bit board.
        (CONSOLE, 0) if third == 0 => Answer::Print(first, second),
        (CONSOLE, 0) => Answer::Value(INVALID_PARAMETER, 0),
        // Input comes from the serial port.
        (CONSOLE, 1) => value(0),
        (CONSOLE, 2) => Answer::PrintByte(first as u8),
        _ => Answer::Value(NOT_SUPPORTED, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(extension: u64, function: u64, arguments: [u64; 3]) -> Answer {
        let [first, second, third] = arguments;
        call(&[first, second, third, 0, 0, 0, function, extension], &[true, true, false])
    }

    #[test]
    fn calls_are_answered_by_the_specification() {
        #[rustfmt::skip]
        let cases = [
            ("version",                     BASE, 0, [0, 0, 0],             Answer::Value(0, 0x0200_0000)),
            ("an extension that is there",  BASE, 3, [TIME, 0, 0],          Answer::Value(0, 1)),
            ("one that is not",             BASE, 3, [0x50_4d55, 0, 0],     Answer::Value(0, 0)),
            ("the timer",                   TIME, 0, [1234, 0, 0],          Answer::Timer(1234)),
            ("an interrupt to hart 1",      IPI, 0, [1, 1, 0],              Answer::Interrupt(2)),
            ("to all harts",                IPI, 0, [0, u64::MAX, 0],       Answer::Interrupt(7)),
            ("to a hart that is not there", IPI, 0, [8, 0, 0],              Answer::Value(-3, 0)),
            ("with a mask that is cut",     IPI, 0, [2, 63, 0],             Answer::Value(-3, 0)),
            ("with a base beyond all",      IPI, 0, [1, 1 << 40, 0],        Answer::Value(-3, 0)),
            ("a fence",                     RFENCE, 1, [3, 0, 0],           Answer::Value(0, 0)),
            ("a fence of hypervisors",      RFENCE, 3, [3, 0, 0],           Answer::Value(-2, 0)),
            ("a hart that runs",            HSM, 2, [1, 0, 0],              Answer::Value(0, 0)),
            ("a hart that waits",           HSM, 2, [2, 0, 0],              Answer::Value(0, 1)),
            ("a hart that is not there",    HSM, 2, [3, 0, 0],              Answer::Value(-3, 0)),
            ("one far from all",            HSM, 0, [1 << 40, 0, 0],        Answer::Value(-3, 0)),
            ("a hart that runs already",    HSM, 0, [1, 0, 0],              Answer::Value(-6, 0)),
            ("a hart to start",             HSM, 0, [2, 0x8020_1000, 7],    Answer::Start { hart: 2, entry: 0x8020_1000, argument: 7 }),
            ("the end of a hart",           HSM, 1, [0, 0, 0],              Answer::Stop),
            ("a shutdown",                  RESET, 0, [0, 0, 0],            Answer::Off),
            ("an unknown kind of it",       RESET, 0, [3, 0, 0],            Answer::Value(-3, 0)),
            ("text",                        CONSOLE, 0, [5, 0x8000_0000, 0], Answer::Print(5, 0x8000_0000)),
            ("a letter",                    CONSOLE, 2, [0x141, 0, 0],      Answer::PrintByte(0x41)),
            ("an old function",             1, 0, [0x41, 0, 0],             Answer::Value(-2, 0)),
        ];
        for (what, extension, function, arguments, answer) in cases {
            assert_eq!(ask(extension, function, arguments), answer, "{what}");
        }
        assert_eq!(call(&[0, 0, 0, 0, 0, 0, 1, HSM], &[false, true]), Answer::Value(-1, 0), "the last hart stays");
    }
}
