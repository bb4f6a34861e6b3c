//! The keyboard controller of a PC without keyboard and mouse. Drivers can detect it, and its output port can reset the
//! machine.

use serde::{Deserialize, Serialize};

const DATA: u16 = 0x60;
const COMMAND: u16 = 0x64;

const STATUS_OUTPUT: u8 = 1;
const STATUS_SELF_TESTED: u8 = 1 << 2;
/// The keyboard lock is open.
const STATUS_UNLOCKED: u8 = 1 << 4;
const STATUS_TIMEOUT: u8 = 1 << 6;

const READ_CONFIGURATION: u8 = 0x20;
const WRITE_CONFIGURATION: u8 = 0x60;
const DISABLE_MOUSE: u8 = 0xa7;
const ENABLE_MOUSE: u8 = 0xa8;
const TEST_MOUSE: u8 = 0xa9;
const SELF_TEST: u8 = 0xaa;
const TEST_KEYBOARD: u8 = 0xab;
const DISABLE_KEYBOARD: u8 = 0xad;
const ENABLE_KEYBOARD: u8 = 0xae;
const READ_OUTPUT_PORT: u8 = 0xd0;
const WRITE_OUTPUT_PORT: u8 = 0xd1;
const WRITE_KEYBOARD_OUTPUT: u8 = 0xd2;
const WRITE_MOUSE_OUTPUT: u8 = 0xd3;
const WRITE_MOUSE: u8 = 0xd4;
/// Commands from here on pulse the lines of the output port whose bit is 0.
const PULSE: u8 = 0xf0;

const CONFIGURATION_INTERRUPT: u8 = 1;
const CONFIGURATION_KEYBOARD_OFF: u8 = 1 << 4;
const CONFIGURATION_MOUSE_OFF: u8 = 1 << 5;

const SELF_TEST_PASSED: u8 = 0x55;
const TEST_PASSED: u8 = 0x00;
const TEST_CLOCK_STUCK: u8 = 0x01;
/// The byte that a driver reads if a device has not answered.
const RESEND: u8 = 0xfe;

/// Bit of the output port. Low resets the machine.
const OUTPUT_NO_RESET: u8 = 1;

/// The controller.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct I8042 {
    configuration: u8,
    output: Option<u8>,
    timed_out: bool,
    /// The command whose argument is the next byte on the data port.
    awaits: Option<u8>,
    reset: bool,
}

impl I8042 {
    /// Whether this port belongs to it.
    pub fn has_port(port: u16) -> bool {
        matches!(port, DATA | COMMAND)
    }

    /// A read of one of its ports.
    pub fn read(&mut self, port: u16) -> u8 {
        match port {
            DATA => {
                self.timed_out = false;
                self.output.take().unwrap_or(0)
            }
            COMMAND => {
                let output = if self.output.is_some() { STATUS_OUTPUT } else { 0 };
                let timeout = if self.timed_out { STATUS_TIMEOUT } else { 0 };
                STATUS_SELF_TESTED | STATUS_UNLOCKED | output | timeout
            }
            _ => u8::MAX,
        }
    }

    /// A write to one of its ports.
    pub fn write(&mut self, port: u16, value: u8) {
        match port {
            COMMAND => self.command(value),
            DATA => match self.awaits.take() {
                Some(command) => self.argument(command, value),
                None => self.nobody_answers(),
            },
            _ => {}
        }
    }

    /// The level of the keyboard's interrupt line.
    pub fn line(&self) -> bool {
        self.output.is_some() && self.configuration & CONFIGURATION_INTERRUPT != 0
    }

    /// Whether the guest has pulsed the reset line.
    pub fn reset(&self) -> bool {
        self.reset
    }

    fn command(&mut self, command: u8) {
        self.awaits = None;
        match command {
            READ_CONFIGURATION => self.answer(self.configuration),
            SELF_TEST => self.answer(SELF_TEST_PASSED),
            TEST_KEYBOARD => self.answer(TEST_PASSED),
            TEST_MOUSE => self.answer(TEST_CLOCK_STUCK),
            READ_OUTPUT_PORT => self.answer(OUTPUT_NO_RESET),
            DISABLE_KEYBOARD => self.configuration |= CONFIGURATION_KEYBOARD_OFF,
            ENABLE_KEYBOARD => self.configuration &= !CONFIGURATION_KEYBOARD_OFF,
            DISABLE_MOUSE => self.configuration |= CONFIGURATION_MOUSE_OFF,
            ENABLE_MOUSE => self.configuration &= !CONFIGURATION_MOUSE_OFF,
            WRITE_CONFIGURATION | WRITE_OUTPUT_PORT | WRITE_KEYBOARD_OUTPUT | WRITE_MOUSE_OUTPUT | WRITE_MOUSE => {
                self.awaits = Some(command);
            }
            PULSE.. => self.reset |= command & OUTPUT_NO_RESET == 0,
            _ => {}
        }
    }

    fn argument(&mut self, command: u8, value: u8) {
        match command {
            WRITE_CONFIGURATION => self.configuration = value,
            WRITE_OUTPUT_PORT => self.reset |= value & OUTPUT_NO_RESET == 0,
            // The answer has no mark of a mouse byte, because there is no mouse port.
            WRITE_KEYBOARD_OUTPUT | WRITE_MOUSE_OUTPUT => self.answer(value),
            _ => self.nobody_answers(),
        }
    }

    fn answer(&mut self, value: u8) {
        (self.output, self.timed_out) = (Some(value), false);
    }

    fn nobody_answers(&mut self) {
        (self.output, self.timed_out) = (Some(RESEND), true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ask(controller: &mut I8042, command: u8) -> u8 {
        controller.write(COMMAND, command);
        assert_eq!(controller.read(COMMAND) & STATUS_OUTPUT, STATUS_OUTPUT, "command {command:#x}");
        controller.read(DATA)
    }

    #[test]
    fn a_driver_detects_the_controller_but_no_device() {
        let mut controller = I8042::default();
        assert_eq!(ask(&mut controller, SELF_TEST), SELF_TEST_PASSED);
        controller.write(COMMAND, WRITE_CONFIGURATION);
        controller.write(DATA, 0x45);
        assert_eq!(ask(&mut controller, READ_CONFIGURATION), 0x45);
        assert_ne!(ask(&mut controller, TEST_MOUSE), TEST_PASSED);
        assert!(!controller.line());
        controller.write(DATA, 0xf2);
        assert_eq!((controller.line(), controller.read(COMMAND) & STATUS_TIMEOUT), (true, STATUS_TIMEOUT), "no keyboard");
        assert_eq!((controller.read(DATA), controller.line()), (RESEND, false));
    }

    #[test]
    fn only_a_pulse_on_line_0_resets_the_machine() {
        for (command, resets) in [(0xfe, true), (0xff, false), (0xfd, false), (0xf0, true), (0xaa, false)] {
            let mut controller = I8042::default();
            controller.write(COMMAND, command);
            assert_eq!(controller.reset(), resets, "command {command:#x}");
        }
        let mut controller = I8042::default();
        controller.write(COMMAND, WRITE_OUTPUT_PORT);
        controller.write(DATA, 0);
        assert!(controller.reset());
    }

    proptest! {
        #[test]
        fn bad_register_traffic_never_panics(accesses in proptest::collection::vec((any::<bool>(), any::<u16>(), any::<u8>()), 0..200)) {
            let mut controller = I8042::default();
            for (write, port, value) in accesses {
                let port = [DATA, COMMAND, port][usize::from(port) % 3];
                if write { controller.write(port, value) } else { controller.read(port); }
                controller.line();
            }
        }
    }
}
