//! Differential: an instruction run out of line leaves the same registers, flags, memory, faults and time as in place.

use capstone::prelude::*;
use proptest::prelude::*;
use proptest::test_runner::{Config, FileFailurePersistence, TestRunner};
use std::collections::BTreeSet;
use trapline_isa::arch::Arch;
use trapline_isa::function;
use trapline_tests::lab::{Before, DATA, DATA_BYTES, ELSEWHERE, FLAGS, How, Lab, PLACE};
use trapline_tests::{GUESTS, functions, kernel};

/// KP-2, KP-6, KP-9: random instructions in random states, shrunk when they differ.
#[test]
fn random_instructions_do_the_same_out_of_line_as_in_place() {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|count| count.parse().ok()).unwrap_or(4000);
    for (arch, _) in GUESTS {
        let config = Config {
            cases,
            failure_persistence: Some(Box::new(FileFailurePersistence::Direct("proptest-regressions/differential.txt"))),
            ..Config::default()
        };
        let mut runner = TestRunner::new(config);
        let labs = std::cell::RefCell::new(Labs::new(*arch));
        let outcome = runner.run(&case(*arch), |case| labs.borrow_mut().compare(&case).map_err(TestCaseError::fail));
        let labs = labs.into_inner();
        println!("{}: {} instructions compared, {} refused", arch.name(), labs.compared, labs.refused);
        outcome.unwrap_or_else(|failure| panic!("{}: {failure}", arch.name()));
        assert!(labs.compared > u64::from(cases / 2), "{}: only {} instructions could be compared", arch.name(), labs.compared);
    }
}

/// KP-2, KP-6, KP-9: every instruction that the tiny kernel has, in two states each.
#[test]
fn every_instruction_of_the_tiny_kernel_does_the_same_out_of_line_as_in_place() {
    for (arch, name) in GUESTS {
        let kernel = kernel(name);
        let isa = arch.isa();
        let mut seen = BTreeSet::new();
        for (_, start, size) in functions(&kernel) {
            let walk = function::walk(isa, start, start + size, |at, into: &mut [u8]| kernel.read(at, into));
            seen.extend(walk.map_while(Result::ok).map(|insn| insn.bytes().to_vec()));
        }
        let mut labs = Labs::new(*arch);
        for (number, bytes) in seen.iter().enumerate() {
            for state in 0..2u64 {
                let seed = number as u64 * 7919 + state + 1;
                let registers = (0..16).map(|register| spread(seed, register)).collect();
                let case = Before { bytes: bytes.clone(), registers, flags: spread(seed, 99) & FLAGS, seed };
                labs.compare(&case).unwrap_or_else(|why| panic!("{name}: {why}"));
            }
        }
        println!("{name}: {} different instructions, {} runs compared, {} refused", seen.len(), labs.compared, labs.refused);
        assert!(
            seen.len() > 1000 && labs.compared > labs.refused * 20,
            "{name}: {} of {} were refused",
            labs.refused,
            seen.len()
        );
    }
}

/// The table of named cases: what is known to be hard.
#[test]
fn hard_instructions_do_the_same_out_of_line_as_in_place() {
    #[rustfmt::skip]
    let cases: &[(&str, Arch, &[u8])] = &[
        ("a RIP-relative load",              Arch::X86_64, &[0x48, 0x8b, 0x05, 0x00, 0xff, 0x0f, 0x00]),
        ("a RIP-relative load that faults",  Arch::X86_64, &[0x48, 0x8b, 0x05, 0x00, 0x00, 0x00, 0x02]),
        ("rep movsb",                        Arch::X86_64, &[0xf3, 0xa4]),
        ("rep stosq",                        Arch::X86_64, &[0xf3, 0x48, 0xab]),
        ("repne scasb",                      Arch::I386,   &[0xf2, 0xae]),
        ("call rel32",                       Arch::X86_64, &[0xe8, 0x10, 0x00, 0x00, 0x00]),
        ("call through the stack pointer",   Arch::X86_64, &[0xff, 0xd4]),
        ("call through memory",              Arch::X86_64, &[0xff, 0x13]),
        ("push of the stack pointer",        Arch::X86_64, &[0x54]),
        ("ret imm16",                        Arch::I386,   &[0xc2, 0x08, 0x00]),
        ("jrcxz",                            Arch::X86_64, &[0xe3, 0x10]),
        ("jecxz",                            Arch::X86_64, &[0x67, 0xe3, 0x10]),
        ("loop with a 32-bit counter",       Arch::X86_64, &[0x67, 0xe2, 0x10]),
        ("loopne",                           Arch::I386,   &[0xe0, 0x10]),
        ("popf",                             Arch::X86_64, &[0x9d]),
        ("popfw",                            Arch::X86_64, &[0x66, 0x9d]),
        ("pushf",                            Arch::I386,   &[0x9c]),
        ("sti",                              Arch::X86_64, &[0xfb]),
        ("cli",                              Arch::I386,   &[0xfa]),
        ("rdtsc",                            Arch::X86_64, &[0x0f, 0x31]),
        ("cpuid",                            Arch::X86_64, &[0x0f, 0xa2]),
        ("div that may fault",               Arch::X86_64, &[0x48, 0xf7, 0xf1]),
        ("lock cmpxchg16b",                  Arch::X86_64, &[0xf0, 0x48, 0x0f, 0xc7, 0x0f]),
        ("a selector that faults",           Arch::I386,   &[0x8e, 0xd8]),
        ("an x87 load",                      Arch::X86_64, &[0xd9, 0x03]),
        ("an SSE load",                      Arch::X86_64, &[0x0f, 0x10, 0x05, 0x00, 0xff, 0x0f, 0x00]),
        ("a jump to itself",                 Arch::X86_64, &[0xeb, 0xfe]),
    ];
    for (what, arch, bytes) in cases {
        let mut labs = Labs::new(*arch);
        for seed in 1..40u64 {
            let registers = (0..16).map(|register| spread(seed, register)).collect();
            let case = Before { bytes: bytes.to_vec(), registers, flags: spread(seed, 99) & FLAGS, seed };
            labs.compare(&case).unwrap_or_else(|why| panic!("{what}: {why}"));
        }
        assert!(labs.compared > 0, "{what} was refused");
    }
}

/// Three benches in step: in place, under a probe, under a probe with a post-handler.
struct Labs {
    labs: [Lab; 3],
    capstone: Capstone,
    compared: u64,
    refused: u64,
}

impl Labs {
    fn new(arch: Arch) -> Labs {
        let mode = if arch == Arch::X86_64 { arch::x86::ArchMode::Mode64 } else { arch::x86::ArchMode::Mode32 };
        let capstone = Capstone::new().x86().mode(mode).build().expect("capstone knows x86");
        Labs { labs: [Lab::new(arch), Lab::new(arch), Lab::new(arch)], capstone, compared: 0, refused: 0 }
    }

    fn compare(&mut self, case: &Before) -> Result<(), String> {
        if LEFT_OUT.iter().any(|(_, is)| is(&case.bytes)) {
            self.refused += 1;
            return Ok(());
        }
        let [in_place, probed, stepped] = &mut self.labs;
        let out_of_line = match probed.run(case, How::Probed) {
            Ok(after) => after,
            Err(_) => {
                self.refused += 1;
                return Ok(());
            }
        };
        let expected = in_place.run(case, How::InPlace)?;
        let with_post = stepped.run(case, How::Stepped)?;
        let ruined = in_place.is_ruined(&expected) || probed.is_ruined(&out_of_line) || stepped.is_ruined(&with_post);
        let arch = in_place.arch();
        if ruined {
            let again = || Lab::new(arch);
            self.labs = [again(), again(), again()];
        }
        if in_window(&expected) {
            // Where the guest has nothing, the window has something: addresses that it was never given are no promise.
            self.refused += 1;
            return Ok(());
        }
        self.compared += 1;
        for (how, after) in [("boosted or computed", &out_of_line), ("with a post-handler", &with_post)] {
            if *after != expected {
                let text = self
                    .capstone
                    .disasm_count(&case.bytes, PLACE, 1)
                    .map(|insns| insns.iter().map(|insn| insn.to_string()).collect::<String>());
                let text = text.unwrap_or_default();
                return Err(format!("{text} {:02x?} {how}: {}", case.bytes, difference(&expected, after)));
            }
        }
        Ok(())
    }
}

/// A reason, and which instructions it holds for.
type Reason = (&'static str, fn(&[u8]) -> bool);

/// What cannot be compared, and why.
#[rustfmt::skip]
const LEFT_OUT: &[Reason] = &[
    ("with arbitrary paging and protection a machine goes on nowhere, in place or out of line", |bytes| bytes.windows(2).any(|pair| pair == [0x0f, 0x22])),
    ("the x87's note of its last instruction names the slot, as under kprobes on hardware, and these store it", stores_x87_environment),
    ("Unicorn takes the operand of RET imm16 for signed (docs/unicorn.md); we compute what a CPU does", |bytes| bytes.len() >= 3 && bytes[bytes.len() - 3] == 0xc2 && bytes[bytes.len() - 1] >= 0x80),
];

/// A fault in place at an address where the probe window lies.
fn in_window(after: &trapline_tests::lab::After) -> bool {
    let windows = [0xf000_0000..0xf100_0000, 0xffff_ffff_be00_0000..0xffff_ffff_c000_0000];
    let fault = after.registers.iter().find(|(name, _)| *name == "cr2").map_or(0, |(_, value)| *value);
    windows.iter().any(|window: &std::ops::Range<u64>| window.contains(&fault))
}

/// FNSTENV, FNSAVE, FXSAVE: D9 /6, DD /6 and 0F AE /0 with a memory operand.
fn stores_x87_environment(bytes: &[u8]) -> bool {
    let operation = |modrm: u8| (modrm < 0xc0).then_some(modrm >> 3 & 7);
    bytes.windows(2).any(|pair| matches!(pair[0], 0xd9 | 0xdd) && operation(pair[1]) == Some(6))
        || bytes.windows(3).any(|three| three[..2] == [0x0f, 0xae] && operation(three[2]) == Some(0))
}

fn difference(expected: &trapline_tests::lab::After, seen: &trapline_tests::lab::After) -> String {
    let mut parts = Vec::new();
    if expected.stop != seen.stop {
        parts.push(format!("ended {:?}, not {:?}", seen.stop, expected.stop));
    }
    for (one, other) in expected.registers.iter().zip(&seen.registers).filter(|(one, other)| one != other) {
        parts.push(format!("{} is {:#x}, not {:#x}", one.0, other.1, one.1));
    }
    if expected.happened != seen.happened {
        parts.push(format!("happened {:x?}, not {:x?}", seen.happened, expected.happened));
    }
    if expected.time != seen.time {
        parts.push(format!("took {}, not {}", seen.time, expected.time));
    }
    for ((at, one), (_, other)) in expected.memory.iter().zip(&seen.memory) {
        if let Some(first) = one.iter().zip(other).position(|(a, b)| a != b) {
            parts.push(format!("memory at {:#x} is {:02x}, not {:02x}", at + first as u64, other[first], one[first]));
        }
    }
    parts.join("; ")
}

/// A register's value: often a pointer into data, sometimes small, sometimes anything.
fn spread(seed: u64, salt: u64) -> u64 {
    let mixed = (seed ^ salt.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = mixed ^ mixed >> 31;
    match mixed % 5 {
        0 | 1 => DATA + mixed / 5 % DATA_BYTES,
        2 => mixed / 5 % 40,
        3 => ELSEWHERE + mixed / 5 % 64,
        _ => mixed,
    }
}

fn case(arch: Arch) -> impl Strategy<Value = Before> {
    let prefix = prop_oneof![
        6 => Just(vec![]),
        3 => prop::sample::select(vec![0x66u8, 0x67, 0xf2, 0xf3, 0x2e, 0x36, 0x3e, 0x26, 0x64, 0x65, 0xf0]).prop_map(|byte| vec![byte]),
        1 => (prop::sample::select(vec![0x66u8, 0xf2, 0xf3]), prop::sample::select(vec![0x67u8, 0x66, 0xf0])).prop_map(|(a, b)| vec![a, b]),
    ];
    let rex = if arch == Arch::X86_64 {
        prop_oneof![Just(vec![]), (0x40u8..0x50).prop_map(|byte| vec![byte])].boxed()
    } else {
        Just(vec![]).boxed()
    };
    let opcode = prop_oneof![
        6 => any::<u8>().prop_map(|byte| vec![byte]),
        4 => any::<u8>().prop_map(|byte| vec![0x0f, byte]),
        1 => (prop::sample::select(vec![0x38u8, 0x3a]), any::<u8>()).prop_map(|(map, byte)| vec![0x0f, map, byte]),
    ];
    let register = prop_oneof![
        4 => (0..DATA_BYTES).prop_map(|offset| DATA + offset),
        2 => 0u64..40,
        1 => (0u64..64).prop_map(|offset| ELSEWHERE + offset),
        2 => any::<u64>(),
    ];
    // Small displacements keep memory operands inside the data more often.
    let operands =
        (any::<u8>(), any::<u8>(), prop_oneof![3 => (0u32..64).prop_map(|small| small), 1 => any::<u32>()], any::<u64>())
            .prop_map(|(modrm, sib, displacement, immediate)| {
                let mut bytes = vec![modrm, sib];
                bytes.extend(displacement.to_le_bytes());
                bytes.extend(immediate.to_le_bytes());
                bytes
            });
    (prefix, rex, opcode, operands, prop::collection::vec(register, 16), any::<u64>(), any::<u64>()).prop_filter_map(
        "no instruction",
        move |(prefix, rex, opcode, operands, registers, flags, seed)| {
            let bytes: Vec<u8> = [prefix, rex, opcode, operands].concat();
            let insn = (arch.isa().decode)(PLACE, &bytes).ok()?;
            Some(Before { bytes: insn.bytes().to_vec(), registers, flags: flags & FLAGS, seed })
        },
    )
}
