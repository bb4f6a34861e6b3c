//! The `wii` board, for Linux on 32-bit PowerPC: the parts of Nintendo's Wii that its kernel needs, plus a 16550
//! console that a Wii does not have. The Wii needs the fewest devices of all machines that Linux supports on this CPU. It has one
//! CPU.
//!
//! Flipper is the processor interface with an interrupt mask. Hollywood has a GPIO pin that switches the power off, and
//! a reset bit (arch/powerpc/platforms/embedded6xx: flipper-pic.c and wii.c, and boot/dts/wii.dts, of Linux 6.1). RAM
//! is contiguous. Unmapped addresses read as all ones.
//!
//! ```text
//!   0x0000_0000  RAM (MEM1)
//!   0x0c00_3000  Flipper: interrupt causes and their mask
//!   0x0d80_0030  Hollywood's interrupt controller
//!   0x0d80_00c0  GPIO pins, one of which powers the machine off
//!   0x0d80_0100  Hollywood's other registers, reset among them
//!   0x0d90_0000  serial console
//!   0x0d90_0010  exit status, a byte
//! ```

use super::wii_tree::Tree;
use super::{At, Board, Boot, Bus, Interrupt, NO_HOLE, Spec, all_ones, restored, saved};
use crate::clock::Ticks;
use crate::config::Config;
use crate::devices::console::Console;
use crate::devices::decrementer::{self, Decrementer};
use crate::devices::uart::Uart;
use crate::error::MachineError;
use serde::{Deserialize, Serialize};
use serde_json::Value;

const MIB: u64 = 1 << 20;

/// The description of the board.
pub static SPEC: Spec = Spec {
    name: "wii",
    ram_start: 0,
    ram: 64 * MIB,
    least_ram: 32 * MIB,
    most_ram: 128 * MIB,
    hole: NO_HOLE,
    cpus: 1,
    boot,
    devices: |_, _| Box::new(Wii::default()),
};

/// Physical addresses of the devices.
pub mod place {
    use core::ops::Range;

    /// Flipper. Its first two words are the interrupt causes and their mask.
    pub const FLIPPER: Range<u64> = 0x0c00_3000..0x0c00_3100;
    /// Hollywood's interrupt controller, to which nothing is connected.
    pub const CASCADED: Range<u64> = 0x0d80_0030..0x0d80_0040;
    /// Hollywood's GPIO pins: two sets of registers.
    pub const PINS: Range<u64> = 0x0d80_00c0..0x0d80_0100;
    /// Hollywood's other registers.
    pub const CONTROL: Range<u64> = 0x0d80_0100..0x0d80_01a0;
    /// The console's registers. The exit status byte is 8 bytes after them.
    pub const SERIAL: Range<u64> = 0x0d90_0000..0x0d90_0008;
    /// A byte written here is the machine's exit status.
    pub const EXIT_STATUS: u64 = 0x0d90_0010;
}

/// The console's interrupt line. On a Wii it is that of the debug port.
pub const SERIAL_LINE: u32 = 12;
/// The interrupt line of Hollywood's controller.
pub const CASCADED_LINE: u32 = 14;

const CAUSE: u64 = place::FLIPPER.start;
const MASK: u64 = CAUSE + 4;
/// The reset button is not pressed.
const NOT_PRESSED: u32 = 1 << 16;
const LINES: u32 = 0x3fff;

/// GPIO levels and directions in the register set of the ARM coprocessor, which owns the power-off pin.
const LEVELS: u64 = place::PINS.start + 0x20;
const DIRECTIONS: u64 = LEVELS + 4;
const POWER_OFF: u32 = 1 << 1;
/// The reset register. The machine resets while its lowest bit is 0.
const RESETS: u64 = place::CONTROL.start + 0x94;
const NO_RESET: u32 = 1;

/// The decrementer's interrupt number (`cpu/ppc/deliver.rs`), and that of external interrupts.
const DECREMENTER: u32 = 0x900;
const DEVICE: u32 = 0x500;

/// Size limit and alignment of the device tree.
const TREE_BYTES: u64 = 64 << 10;
/// Size of the firmware's stack in front of the tree, on which the kernel starts (`cpu/ppc/narrow/boot.rs`).
const STACK_BYTES: u64 = 16 << 10;
/// Size limit of the command line, including its terminating 0.
const COMMAND_LINE_BYTES: usize = 2048;

/// Places the device tree and the initramfs after the kernel.
fn boot(config: &Config, ram: u64, kernel_end: u64) -> Result<Boot, MachineError> {
    let wrong = |why: String| Err(MachineError::Config(why));
    if config.command_line.len() >= COMMAND_LINE_BYTES {
        let (has, takes) = (config.command_line.len(), COMMAND_LINE_BYTES - 1);
        return wrong(format!("the command line has {has} bytes, Linux takes {takes}"));
    }
    let initrd = config.initrd.as_deref().unwrap_or_default();
    let tree_at = kernel_end.saturating_add(STACK_BYTES).next_multiple_of(TREE_BYTES);
    let initrd_at = tree_at + TREE_BYTES;
    let end = initrd_at.saturating_add(initrd.len() as u64);
    if end > ram {
        let bytes = initrd.len();
        return wrong(format!(
            "an initial file system of {bytes} bytes has no room behind the kernel, which ends at {kernel_end:#x} of {ram:#x} bytes of RAM"
        ));
    }
    let tree = Tree { ram, command_line: &config.command_line, initrd: initrd_at..end };
    let tree = tree.flatten()?;
    if tree.len() as u64 > TREE_BYTES {
        return wrong(format!("the device tree has {} bytes, there is room for {TREE_BYTES}", tree.len()));
    }
    Ok(Boot { pieces: vec![(tree_at, tree), (initrd_at, initrd.to_vec())], info: tree_at, ..Boot::default() })
}

/// The state of the board.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wii {
    decrementer: Decrementer,
    /// The virtual time of the last access.
    #[serde(skip)]
    now: Ticks,
    serial: Uart,
    mask: u32,
    levels: u32,
    directions: u32,
    exit_status: u8,
    off: bool,
}

impl Wii {
    fn causes(&self) -> u32 {
        NOT_PRESSED | u32::from(self.serial.line()) << SERIAL_LINE
    }

    fn device_asks(&self) -> bool {
        self.causes() & self.mask & LINES != 0
    }
}

impl Board for Wii {
    fn register_read(&mut self, at: At, register: u32) -> Option<u64> {
        match register {
            decrementer::NUMBER => Some(self.decrementer.value(at.now).into()),
            _ => decrementer::time_base(register, at.now),
        }
    }

    fn register_write(&mut self, at: At, register: u32, value: u64) -> bool {
        let is_decrementer = register == decrementer::NUMBER;
        if is_decrementer {
            self.decrementer.set(value as u32, at.now);
            self.now = at.now;
        }
        is_decrementer
    }

    fn read(&mut self, _: At, _: Bus, address: u64, size: u32) -> u64 {
        match (address, size) {
            (CAUSE, 4) => self.causes().into(),
            (MASK, 4) => self.mask.into(),
            (LEVELS, 4) => self.levels.into(),
            (DIRECTIONS, 4) => self.directions.into(),
            (RESETS, 4) => NO_RESET.into(),
            (at, 1) if place::SERIAL.contains(&at) => self.serial.read((at - place::SERIAL.start) as u16).into(),
            _ => all_ones(size),
        }
    }

    fn write(&mut self, _: At, _: Bus, address: u64, size: u32, value: u64) {
        let word = value as u32;
        match (address, size) {
            (MASK, 4) => self.mask = word & LINES,
            (LEVELS, 4) => self.levels = word,
            (DIRECTIONS, 4) => self.directions = word,
            (RESETS, 4) => self.off |= word & NO_RESET == 0,
            (place::EXIT_STATUS, 1) => self.exit_status = value as u8,
            (at, 1) if place::SERIAL.contains(&at) => self.serial.write((at - place::SERIAL.start) as u16, value as u8),
            _ => {}
        }
        self.off |= self.levels & self.directions & POWER_OFF != 0;
    }

    fn advance(&mut self, at: At) {
        self.now = at.now;
        if self.serial.next().is_some_and(|next| next <= at.now) {
            self.serial.advance(at.now);
        }
    }

    fn next_event(&self, _: usize) -> Option<Ticks> {
        [self.serial.next(), self.decrementer.next_event(self.now)].into_iter().flatten().min()
    }

    fn pending(&self, _: usize) -> Option<Ticks> {
        (self.device_asks() || self.decrementer.asks(self.now)).then_some(self.now)
    }

    /// Interrupts stay pending until they are handled. External interrupts have priority over the decrementer.
    fn acknowledge(&mut self, _: usize) -> Option<Interrupt> {
        let decrementer = || self.decrementer.asks(self.now).then_some(Interrupt::of(DECREMENTER));
        if self.device_asks() { Some(Interrupt::of(DEVICE)) } else { decrementer() }
    }

    fn console(&mut self) -> &mut dyn Console {
        &mut self.serial
    }

    fn power_off(&self) -> Option<u8> {
        self.off.then_some(self.exit_status)
    }

    fn save(&self) -> Result<Value, String> {
        saved(self)
    }

    fn load(&mut self, state: &Value) -> Result<(), String> {
        *self = restored(state, |_: &Wii| true)?;
        Ok(())
    }

    fn set_now(&mut self, at: At) {
        self.now = at.now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(now: Ticks) -> At {
        At { cpu: 0, now }
    }

    fn put(board: &mut Wii, now: Ticks, address: u64, size: u32, value: u64) {
        board.write(at(now), Bus::Memory, address, size, value);
    }

    fn get(board: &mut Wii, now: Ticks, address: u64, size: u32) -> u64 {
        board.read(at(now), Bus::Memory, address, size)
    }

    #[test]
    fn decrementer_and_serial_port_stay_pending_until_handled() {
        let mut board = Wii::default();
        assert_eq!((board.pending(0), get(&mut board, 0, CAUSE, 4)), (None, NOT_PRESSED.into()));
        assert!(board.register_write(at(0), decrementer::NUMBER, 100));
        let due = board.next_event(0).expect("it comes to below 0");
        board.advance(at(due));
        let taken = Some(Interrupt::of(DECREMENTER));
        assert_eq!((board.pending(0), board.acknowledge(0), board.acknowledge(0)), (Some(due), taken, taken));
        // With the transmitter interrupt enabled, the empty transmitter interrupts at once, if the mask allows it.
        put(&mut board, due, place::SERIAL.start + 4, 1, 8);
        put(&mut board, due, place::SERIAL.start + 1, 1, 2);
        let cause = u64::from(NOT_PRESSED | 1 << SERIAL_LINE);
        assert_eq!((board.acknowledge(0), get(&mut board, due, CAUSE, 4)), (taken, cause), "it is masked");
        put(&mut board, due, MASK, 4, 1 << SERIAL_LINE);
        assert_eq!(board.acknowledge(0), Some(Interrupt::of(DEVICE)), "a device goes first");
        get(&mut board, due, place::SERIAL.start + 2, 1);
        board.register_write(at(due), decrementer::NUMBER, 100);
        assert_eq!((board.pending(0), board.acknowledge(0)), (None, None));
    }

    /// Power-off and restart as in the kernel's `wii_power_off` and `wii_restart`, with the status from a script.
    #[test]
    fn the_pin_and_the_reset_switch_it_off() {
        let mut board = Wii::default();
        let ends = crate::boot::initramfs::BY_MEMORY;
        assert!(ends.contains(&format!("{:#010x} 8", place::EXIT_STATUS)), "{ends}");
        put(&mut board, 0, place::EXIT_STATUS, 1, 7);
        put(&mut board, 0, LEVELS, 4, POWER_OFF.into());
        assert_eq!(board.power_off(), None, "the pin is an input");
        put(&mut board, 0, DIRECTIONS, 4, POWER_OFF.into());
        assert_eq!(board.power_off(), Some(7));
        let mut board = Wii::default();
        let resets = get(&mut board, 0, RESETS, 4);
        put(&mut board, 0, RESETS, 4, resets);
        assert_eq!(board.power_off(), None);
        put(&mut board, 0, RESETS, 4, resets & !u64::from(NO_RESET));
        assert_eq!(board.power_off(), Some(0));
    }

    #[test]
    fn images_that_do_not_fit_are_refused() {
        let with = |bytes: usize, line: &str| Config {
            initrd: Some(vec![0; bytes].into()),
            command_line: line.into(),
            ..Config::default()
        };
        let why = |config: Config| boot(&config, 32 * MIB, 8 * MIB).expect_err("no room").to_string();
        assert!(why(with(24 << 20, "")).contains("no room behind the kernel"));
        assert!(why(with(0, &"x".repeat(2048))).contains("Linux takes 2047"));
        let boot = boot(&with(100, "quiet"), 32 * MIB, 8 * MIB).expect("room");
        assert_eq!((boot.info, boot.pieces[1].0 - boot.info), (8 * MIB + TREE_BYTES, TREE_BYTES));
    }

    proptest! {
        /// No guest access makes the board panic, and its state can be saved and restored.
        #[test]
        fn bad_register_traffic_never_panics(accesses in proptest::collection::vec((any::<bool>(), any::<u8>(), any::<u32>(), any::<u32>()), 0..200)) {
            let places = [&place::FLIPPER, &place::PINS, &place::CONTROL, &place::SERIAL, &place::CASCADED];
            let (mut board, mut now) = (Wii::default(), 0u64);
            for (write, place, value, later) in accesses {
                now += u64::from(later);
                let range = places[usize::from(place) % places.len()];
                let address = range.start + u64::from(place) % (range.end - range.start);
                let size = [1, 2, 4, 4][value as usize % 4];
                if write { put(&mut board, now, address, size, value.into()) } else { get(&mut board, now, address, size); }
                board.register_write(at(now), value % 32, later.into());
                board.advance(at(now));
                board.acknowledge(0);
            }
            let saved = board.save().expect("it can be saved");
            let mut other = Wii::default();
            other.load(&saved).expect("it is sound");
            prop_assert_eq!(other.save().expect("it can be saved"), saved);
        }
    }
}
