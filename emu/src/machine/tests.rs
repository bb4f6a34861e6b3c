//! Tests of the machine with a made-up board, which has a register, a device, and firmware with several results.

use super::{Config, Machine};
use crate::boards::{At, Board, Bus, FirmwareCall, Interrupt};
use crate::boot::{Kernel, Segment};
use crate::clock::Ticks;
use crate::devices::console::Console;
use crate::symbols::Symbols;
use trapline_isa::arch::Arch;

const DEVICE: u64 = 0xf000_0000;
/// The number of CNTPCT_EL0 as in MRS.
const REGISTER: u32 = 3 << 14 | 3 << 11 | 14 << 7 | 1;

#[derive(Default)]
struct Toy {
    written: Vec<u8>,
}

impl Board for Toy {
    fn read(&mut self, _: At, _: Bus, address: u64, size: u32) -> u64 {
        if (address, size) == (DEVICE + 8, 4) { 0x1122_3344 } else { 0 }
    }
    fn write(&mut self, _: At, _: Bus, address: u64, _: u32, value: u64) {
        self.written.extend(format!("{address:x}={value:x}").bytes());
    }
    fn has_register(&self, register: u32) -> bool {
        register == REGISTER
    }
    fn register_read(&mut self, _: At, register: u32) -> Option<u64> {
        (register == REGISTER).then_some(0x5566_7788_99aa)
    }
    fn firmware_call(&mut self, _: At, call: FirmwareCall<'_>) -> Vec<u64> {
        let [first, second, place, ..] = *call.arguments else { return Vec::new() };
        let told = call.memory.read_number(place, 4).unwrap_or(0);
        vec![first + 1, second + 1, told]
    }
    fn advance(&mut self, _: At) {}
    fn next_event(&self, _: usize) -> Option<Ticks> {
        None
    }
    fn pending(&self, _: usize) -> Option<Ticks> {
        None
    }
    fn acknowledge(&mut self, _: usize) -> Option<Interrupt> {
        None
    }
    /// Collects what is written to the device, as hexadecimal digits.
    fn console(&mut self) -> &mut dyn Console {
        &mut self.written
    }
    fn power_off(&self) -> Option<u8> {
        None
    }
}

/// Runs these instructions on a machine with that board, and returns the machine.
fn run(arch: Arch, start: u64, words: &[u32]) -> Machine<()> {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let size = bytes.len() as u64;
    let segment = Segment { physical: start, virtual_address: start, bytes: bytes.into(), size, executable: true };
    let kernel = Kernel::from_parts(arch, start, vec![segment], Symbols::default());
    let mut machine = Machine::new(&kernel, &Config::default(), |_| ()).expect("a machine");
    machine.inner.board = Box::<Toy>::default();
    machine.run_until(10_000);
    machine
}

fn register(machine: &Machine<()>, name: &str) -> Option<u64> {
    machine.registers().iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
}

#[test]
fn a_board_answers_for_registers_and_devices_and_its_firmware_gives_several_results() {
    // mrs x4, cntpct_el0; movz x3, #0xf000, lsl #16; ldr w5, [x3, #8]; str w5, [x3, #12]
    // movz x0, #7; movz x1, #9; adr x2, .; hvc #0; b .
    let words =
        [0xd53b_e024, 0xd2be_0003, 0xb940_0865, 0xb900_0c65, 0xd280_00e0, 0xd280_0121, 0x1000_0002, 0xd400_0002, 0x1400_0000];
    let mut machine = run(Arch::Arm64, 0x4010_0000, &words);
    let found = ["x4", "x5", "x0", "x1", "x2"].map(|name| register(&machine, name));
    assert_eq!(found, [Some(0x5566_7788_99aa), Some(0x1122_3344), Some(8), Some(10), Some(0x1000_0002)]);
    assert_eq!(machine.take_console(), format!("{:x}=11223344", DEVICE + 12).into_bytes());
}

/// KP-2: a breakpoint of two bytes is seen in front of more code, and where memory ends behind it.
#[test]
fn a_short_breakpoint_is_seen_at_the_end_of_memory() {
    const C_EBREAK: [u8; 2] = [0x02, 0x90];
    let start = 0x4020_0000;
    let mut machine = run(Arch::Riscv64, start, &[0x0000_006f, 0x0010_0073, 0x0010_9002]);
    let end = machine.ram().end();
    assert!(machine.write_physical(end - 2, &C_EBREAK) && machine.write_physical(end - 4, &[0x73, 0x00]));
    let places = [start, start + 4, start + 8, end - 4, end - 2, end];
    let seen = places.map(|pc| machine.look(|view| view.holds_breakpoint(pc)));
    assert_eq!(seen, [false, true, true, false, true, false]);
}
