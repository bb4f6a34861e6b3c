//! Tests of channel programs, of the control unit and of subchannels, with a disk as the device.

use super::super::blk::Disk;
use super::super::testing::{Pattern, Ram};
use super::super::{AttachError, Attached};
use super::program::{
    CHANNEL_END, DEVICE_END, Data, Device, Done, INCORRECT_LENGTH, MOST_CCWS, PROGRAM_CHECK, Refused, Start, run,
};
use super::subchannel::{BadOperand, NOT_OPERATIONAL, Subchannel};
use crate::clock::ticks;
use crate::devices::virtio::core::LATENCY_NANOSECONDS;
use proptest::prelude::*;
use std::sync::Arc;
use trapline_isa::mem::Memory;

const PROGRAM: u32 = Ram::BASE as u32;
const DATA: u32 = PROGRAM + 0x1000;
/// A program's second half lies there. Other memory is in front of it.
const ELSEWHERE: u32 = PROGRAM + 0x800;

const FINE: u8 = CHANNEL_END | DEVICE_END;
const CD: u8 = 0x80;
const CC: u8 = 0x40;
const SLI: u8 = 0x20;
const SKIP: u8 = 0x10;
const TIC: u8 = 8;

/// A CCW of format 1.
fn ccw(code: u8, flags: u8, count: u16, data: u32) -> Vec<u8> {
    [&[code, flags][..], &count.to_be_bytes(), &data.to_be_bytes()].concat()
}

/// A device that counts its commands, writes `abcdef` for code 2, and reads four bytes for code 1.
#[derive(Default)]
struct Tape {
    codes: Vec<u8>,
    read: [u8; 4],
}

impl Device for Tape {
    fn command(&mut self, code: u8, data: &mut Data<'_>) -> Result<Done, Refused> {
        self.codes.push(code);
        match code {
            1 => data.read(0, &mut self.read)?,
            2 => data.write(0, b"abcdef")?,
            3 => return Ok(Done::Immediate),
            _ => return Err(Refused::Rejected),
        }
        Ok(Done::Transfer)
    }
}

fn ran(program: &[Vec<u8>], is_format_1: bool) -> (super::program::Ended, Tape, Ram) {
    let mut ram = Ram::new(0x2000);
    ram.write(PROGRAM.into(), &program.concat()).expect("RAM");
    let mut tape = Tape::default();
    let ended = run(Start { address: PROGRAM, is_format_1 }, &mut tape, &mut ram);
    (ended, tape, ram)
}

/// DK-1: data go to the areas of all CCWs that are chained, but not to an area that is skipped.
#[test]
fn data_are_chained_and_skipped() {
    let (ended, tape, mut ram) =
        ran(&[ccw(2, CD, 2, DATA), ccw(0, CD | SKIP, 1, DATA + 0x10), ccw(0, CC, 3, DATA + 0x20), ccw(3, SLI, 7, 0)], true);
    let mut bytes = [0; 0x23];
    ram.read(DATA.into(), &mut bytes).expect("RAM");
    assert_eq!((&bytes[..2], bytes[0x10], &bytes[0x20..]), (&b"ab"[..], 0, &b"def"[..]));
    assert_eq!(tape.codes, [2, 3]);
    assert_eq!((ended.device, ended.channel, ended.address, ended.rest), (FINE, 0, PROGRAM + 32, 7));
}

/// DK-1: the count that is left, and the end of a chain by a wrong length.
#[test]
fn wrong_lengths_end_a_chain_unless_suppressed() {
    #[rustfmt::skip]
    let cases = [
        // flags     count   status              left    commands
        (CC,         6,      0,                  0,      2),
        (CC,         9,      INCORRECT_LENGTH,   3,      1),
        (CC,         4,      INCORRECT_LENGTH,   0,      1),
        (CC | SLI,   9,      0,                  0,      2),
        (CC | SLI,   4,      0,                  0,      2),
        (0,          9,      INCORRECT_LENGTH,   3,      1),
        (SLI,        9,      0,                  3,      1),
    ];
    for (flags, count, status, left, commands) in cases {
        let (ended, tape, _) = ran(&[ccw(2, flags, count, DATA), ccw(3, 0, 0, 0)], true);
        assert_eq!((ended.channel, ended.rest, tape.codes.len()), (status, left, commands), "{flags:#x} {count}");
    }
}

/// DK-3: a program that breaks a rule ends with a program check, after a bounded number of CCWs.
#[test]
fn hostile_programs_end_with_a_program_check() {
    let nop = || ccw(3, CC, 0, 0);
    let to = |address| ccw(TIC, 0, 0, address);
    #[rustfmt::skip]
    let cases = [
        ("begins with a transfer",          vec![to(DATA)],                                         0),
        ("transfers to itself",             vec![nop(), to(PROGRAM + 8)],                           1),
        ("transfers back and forth",        vec![nop(), to(PROGRAM)],                               MOST_CCWS / 2),
        ("transfers to an odd place",       vec![nop(), to(PROGRAM + 4)],                           1),
        ("transfers with a count",          vec![nop(), ccw(TIC, 0, 1, ELSEWHERE)],                 1),
        ("transfers with flags",            vec![nop(), ccw(TIC, CC, 0, ELSEWHERE)],                1),
        ("transfers by another code",       vec![nop(), ccw(0x18, 0, 0, ELSEWHERE)],                1),
        ("transfers out of RAM",            vec![nop(), to(0x7fff_fff8)],                           1),
        ("transfers to where nothing is",   vec![nop(), to(ELSEWHERE)],                             1),
        ("chains data in a loop",           vec![ccw(2, CD, 1, DATA), to(PROGRAM)],                 0),
        ("chains data of no bytes",         vec![ccw(2, CD, 1, DATA), ccw(2, 0, 0, DATA)],          0),
        ("begins with no bytes",            vec![ccw(2, CD, 0, DATA), ccw(2, 0, 1, DATA)],          0),
        ("has indirect data",               vec![ccw(2, 4, 6, DATA)],                               0),
        ("is suspended",                    vec![ccw(2, 2, 6, DATA)],                               0),
        ("has data beyond 2 GiB",           vec![ccw(2, 0, 6, 1 << 31)],                            0),
        ("has data out of RAM",             vec![ccw(2, 0, 6, 0x7fff_fffc)],                        1),
        ("reads data out of RAM",           vec![ccw(1, 0, 4, 0x10)],                               1),
        ("has no command",                  vec![ccw(0x10, 0, 6, DATA)],                            0),
    ];
    for (what, program, commands) in cases {
        let (ended, tape, _) = ran(&program, true);
        assert_eq!((ended.channel, tape.codes.len()), (PROGRAM_CHECK, commands), "{what}");
    }
}

/// DK-3: CCWs of format 0 have addresses of 24 bits, where these tests have no RAM.
#[test]
fn ccws_of_format_0_have_short_addresses() {
    struct Low(Vec<u8>);
    impl Memory for Low {
        fn order(&self) -> trapline_isa::mem::ByteOrder {
            trapline_isa::mem::ByteOrder::Big
        }
        fn read(&mut self, address: u64, into: &mut [u8]) -> Result<(), trapline_isa::mem::Fault> {
            into.copy_from_slice(&self.0[address as usize..][..into.len()]);
            Ok(())
        }
        fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), trapline_isa::mem::Fault> {
            self.0[address as usize..][..bytes.len()].copy_from_slice(bytes);
            Ok(())
        }
    }
    let mut low = Low(vec![0; 0x400]);
    // A no-operation, a transfer with bits that format 0 ignores, and a read to 0x200.
    let program = [3, 0, 0, 0, CC, 0, 0, 1, 0xf8, 0, 1, 0, 0xff, 0, 9, 9];
    low.write(0x80, &program).expect("RAM");
    low.write(0x100, &[2, 0, 2, 0, 0, 0, 0, 6]).expect("RAM");
    let mut tape = Tape::default();
    let ended = run(Start { address: 0x80, is_format_1: false }, &mut tape, &mut low);
    assert_eq!((ended.device, ended.channel, ended.address, ended.rest), (FINE, 0, 0x108, 0));
    assert_eq!((&low.0[0x200..0x206], tape.codes), (&b"abcdef"[..], vec![3, 2]));
    let (ended, tape, _) = ran(&[ccw(3, 0, 0, 0)], false);
    assert_eq!((ended.channel, tape.codes.len()), (PROGRAM_CHECK, 0), "an address beyond 16 MiB");
}

/// A driver of a disk behind a subchannel.
struct Driver {
    subchannel: Subchannel,
    ram: Ram,
}

const ENABLED: u32 = 0x80 << 16;
const SUBCLASS_3: u32 = 3 << 27;

fn disk() -> Attached {
    Attached::Disk(Disk { base: Arc::new(Pattern(1 << 20)), read_only: false })
}

impl Driver {
    /// A driver that has enabled the subchannel, with subclass 3 and sense data in the response block.
    fn new() -> Driver {
        let mut subchannel = Subchannel::new(&disk(), 1);
        let mut block = subchannel.block();
        (block[0], block[1], block[6]) = (0x1234, block[1] | ENABLED | SUBCLASS_3, 1);
        assert_eq!(subchannel.modify(&block), Ok(0));
        Driver { subchannel, ram: Ram::new(0x8000) }
    }

    fn start(&mut self, program: &[Vec<u8>]) -> Result<u64, BadOperand> {
        self.ram.write(PROGRAM.into(), &program.concat()).expect("RAM");
        self.subchannel.start(&[0x55, 0x0080_ff00, PROGRAM, 0, 0, 0, 0, 0], &mut self.ram)
    }

    /// Executes a command with these data. Returns device status, subchannel status, and the data.
    fn command(&mut self, code: u8, data: &[u8]) -> (u8, u8, Vec<u8>) {
        self.ram.write(DATA.into(), data).expect("RAM");
        assert_eq!(self.start(&[ccw(code, 0, data.len() as u16, DATA)]), Ok(0));
        assert!(self.subchannel.interruption().is_some_and(|one| (one.class, one.parameter) == (3, 0x55)));
        let (code, block) = self.subchannel.test();
        assert_eq!((code, self.subchannel.interruption()), (0, None));
        let mut data = vec![0; data.len()];
        self.ram.read(DATA.into(), &mut data).expect("RAM");
        let [device, channel, ..] = block[2].to_be_bytes();
        (device, channel, data)
    }
}

/// DK-1: the commands by which Linux finds the device and brings it up, and a request that completes.
#[test]
fn a_driver_brings_a_disk_up_and_is_interrupted() {
    let mut driver = Driver::new();
    assert_eq!(driver.command(0xe4, &[0; 7]), (FINE, 0, vec![0xff, 0x38, 0x32, 2, 0, 0, 0]), "SENSE ID");
    assert_eq!(driver.command(0x83, &[0, 2, 0, 0]).0, FINE, "revision 2");
    let features = driver.command(0x12, &[0, 0, 0, 0, 1]);
    assert_eq!((features.0, features.2[0] & 1), (FINE, 1), "VERSION_1");
    assert_eq!(driver.command(0x11, &[1, 0, 0, 0, 1]).0, FINE);
    assert_eq!(driver.command(0x31, &[11]).0, FINE);
    assert_eq!(driver.command(0x72, &[0]), (FINE, 0, vec![11]), "the device agrees");
    assert_eq!(driver.command(0x22, &[0; 8]).2, (1u64 << 11).to_le_bytes(), "the capacity in sectors");
    assert_eq!(driver.command(0x32, &[0, 0, 0, 0]).2, [0, 0, 1, 0], "a queue of 256");
    assert_eq!(driver.command(0x32, &[0, 1, 0, 0]).2, [0, 1, 0, 0], "no second queue");
    let [table, available, used, request] = [0x2000, 0x3000, 0x4000, 0x5000].map(|at| Ram::BASE + at);
    let queue = [&table.to_be_bytes()[..], &[0, 0, 0, 0, 0, 0, 0, 8], &available.to_be_bytes(), &used.to_be_bytes()].concat();
    assert_eq!(driver.command(0x13, &queue).0, FINE);
    let indicators = Ram::BASE + 0x6000;
    assert_eq!(driver.command(0x43, &indicators.to_be_bytes()).0, FINE);
    assert_eq!(driver.command(0x31, &[15]).0, FINE);

    // A flush: its header, and a byte for the status.
    let describe = |address: u64, length: u32, flags: u16, next: u16| {
        [&address.to_le_bytes()[..], &length.to_le_bytes(), &flags.to_le_bytes(), &next.to_le_bytes()].concat()
    };
    let descriptors = [describe(request, 16, 1, 1), describe(request + 16, 1, 2, 0)].concat();
    driver.ram.write(table, &descriptors).expect("RAM");
    driver.ram.write(request, &[4, 0, 0, 0]).expect("RAM");
    driver.ram.write(available, &[0, 0, 1, 0, 0, 0]).expect("RAM");
    assert!(driver.subchannel.unit_mut().notify(0, 1000) && !driver.subchannel.unit_mut().notify(1, 1000));
    let due = 1000 + ticks(LATENCY_NANOSECONDS);
    assert_eq!(driver.subchannel.unit().next(), Some(due));
    driver.subchannel.serve(due, &mut driver.ram);
    let mut bits = [0; 8];
    driver.ram.read(indicators, &mut bits).expect("RAM");
    assert_eq!((bits, driver.subchannel.interruption().is_some()), ([0, 0, 0, 0, 0, 0, 0, 1], true));
    let (code, block) = driver.subchannel.test();
    assert_eq!((code, block[0] & 0x1f, block[2]), (0, 0x11, 0), "alert status alone");
    assert_eq!(driver.subchannel.test().0, 1, "no status");
    // A reset forgets the indicators.
    assert_eq!(driver.command(0x33, &[]).0, FINE);
    assert_eq!(driver.command(0x72, &[1]).2, [0]);
}

/// DK-3: commands with other data than the standard's are rejected, and say so in their sense data.
#[test]
fn commands_that_are_wrong_are_rejected() {
    #[rustfmt::skip]
    let cases: [(&str, u8, &[u8]); 8] = [
        ("a command of other devices",      0x07,   &[0; 4]),
        ("adapter indicators",              0x73,   &[0; 28]),
        ("the legacy revision",             0x83,   &[0, 0, 0, 0]),
        ("a revision to come",              0x83,   &[0, 3, 0, 0]),
        ("indicators cut short",            0x43,   &[0; 7]),
        ("a queue that is not there",       0x13,   &[0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 9, 0, 8, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1]),
        ("a queue of 7",                    0x13,   &[0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1]),
        ("features without their half",     0x11,   &[0; 4]),
    ];
    for (what, code, data) in cases {
        let mut driver = Driver::new();
        driver.ram.write(DATA.into(), data).expect("RAM");
        assert_eq!(driver.start(&[ccw(code, 0, data.len() as u16, DATA)]), Ok(0), "{what}");
        let (_, block) = driver.subchannel.test();
        let [device, ..] = block[2].to_be_bytes();
        assert_eq!((device, block[4], block[8]), (FINE | 2, 0x0120_0000, 0x8000_0000), "{what}");
        // The sense data were in the response block, so there are none left.
        assert_eq!(driver.command(4, &[9; 32]).2[0], 0, "{what}");
    }
}

/// DK-1: condition codes and operand exceptions of the instructions.
#[test]
fn subchannels_answer_by_condition_codes() {
    let mut subchannel = Subchannel::new(&disk(), 7);
    let mut ram = Ram::new(0x100);
    let request = [0, 0x0080_ff00, PROGRAM, 0, 0, 0, 0, 0];
    assert_eq!(subchannel.block()[1], 1 << 16 | 7, "a valid device number");
    assert_eq!(subchannel.start(&request, &mut ram), Ok(NOT_OPERATIONAL), "not enabled");
    assert_eq!([subchannel.halt(), subchannel.clear(), subchannel.resume_or_cancel(), subchannel.test().0], [NOT_OPERATIONAL; 4]);
    let good = subchannel.block();
    for (word, bits) in [(1, 0x0100 << 16), (1, 0x60 << 16), (6, 2), (6, 1 << 24)] {
        let mut block = good;
        block[word] |= bits;
        assert_eq!(subchannel.modify(&block), Err(BadOperand), "{word} {bits:#x}");
    }
    let mut block = good;
    block[1] |= ENABLED;
    assert_eq!(subchannel.modify(&block), Ok(0));
    for (word, value) in [(1, 0x0084_ff00), (1, 0x0080_ff02), (2, 1 << 31)] {
        let mut bad = request;
        bad[word] = value;
        assert_eq!(subchannel.start(&bad, &mut ram), Err(BadOperand), "{word} {value:#x}");
    }
    let mut other_path = request;
    other_path[1] = 0x0080_4000;
    assert_eq!(subchannel.start(&other_path, &mut ram), Ok(NOT_OPERATIONAL), "a path that is not there");
    assert_eq!(subchannel.resume_or_cancel(), 2);
    // The program is all zeroes, which is no command.
    assert_eq!(subchannel.start(&request, &mut ram), Ok(0));
    assert_eq!(subchannel.start(&request, &mut ram), Ok(1), "status pending");
    assert_eq!((subchannel.halt(), subchannel.modify(&block), subchannel.resume_or_cancel()), (1, Ok(1), 1));
    let (code, response) = subchannel.test();
    assert_eq!((code, response[0] & 0x701f, response[1], response[2] >> 16), (0, 0x4017, PROGRAM + 8, u32::from(PROGRAM_CHECK)));
    assert_eq!((subchannel.halt(), subchannel.test().1[0]), (0, 0x2001));
    assert_eq!((subchannel.clear(), subchannel.clear(), subchannel.test().1[0]), (0, 0, 0x1001));
}

/// DK-4
#[test]
fn a_saved_subchannel_continues_and_refuses_another_disk() {
    let mut driver = Driver::new();
    driver.command(0x43, &[0, 0, 0, 0, 0, 0, 1, 0]);
    driver.start(&[ccw(3, 0, 0, 0)]).expect("started");
    let saved = serde_json::to_value(&driver.subchannel).expect("JSON");
    let mut restored: Subchannel = serde_json::from_value(saved.clone()).expect("a subchannel");
    assert!(restored.is_sound(u64::MAX));
    let other = Attached::Disk(Disk { base: Arc::new(Pattern(1 << 21)), read_only: false });
    assert!(restored.adopt(&Subchannel::new(&other, 1)).is_err_and(|why| why == AttachError::Contents));
    restored.adopt(&Subchannel::new(&disk(), 1)).expect("the same disk");
    assert_eq!(serde_json::to_value(&restored).expect("JSON"), saved);
    assert_eq!((restored.interruption(), restored.test()), (driver.subchannel.interruption(), driver.subchannel.test()));
}

proptest! {
    /// DK-3: no program and no request makes the subchannel panic, and what it leaves can be saved and restored.
    #[test]
    fn hostile_programs_never_panic(
        ccws in proptest::collection::vec((any::<u8>(), any::<u8>(), any::<u16>(), 0u32..0x9000, any::<bool>()), 1..60),
        bytes in proptest::collection::vec(any::<u8>(), 0..400),
        settings in any::<u32>(),
    ) {
        const CODES: [u8; 16] = [2, 3, 4, 8, 0xe4, 0x11, 0x12, 0x13, 0x21, 0x22, 0x31, 0x32, 0x33, 0x43, 0x72, 0x83];
        let mut driver = Driver::new();
        let program: Vec<Vec<u8>> = ccws
            .iter()
            .map(|(code, flags, count, at, known)| {
                let code = if *known { CODES[usize::from(*code) % CODES.len()] } else { *code };
                let (flags, count) = if code == TIC { (0, 0) } else { (*flags & 0xf0, *count) };
                ccw(code, flags, count, PROGRAM + (at & !7))
            })
            .collect();
        driver.ram.write(DATA.into(), &bytes).expect("RAM");
        driver.ram.write(PROGRAM.into(), &program.concat()).expect("RAM");
        for settings in [0x0080_ff00, settings] {
            let _ = driver.subchannel.start(&[0, settings, PROGRAM, 0, 0, 0, 0, 0], &mut driver.ram);
            driver.subchannel.unit_mut().notify(0, 5);
            driver.subchannel.serve(u64::MAX / 2, &mut driver.ram);
            driver.subchannel.test();
        }
        prop_assert!(driver.subchannel.is_sound(u64::MAX));
    }
}
