//! The `s390ccw` board, for stock kernels of z/Architecture: the service processor with its console, and CPUs with their
//! timers, which signal each other (`sigp.rs`). Virtio devices are reached by channels (`devices/channels.rs`); without any, the
//! instructions for channels report that there are none.
//! The exit status is the system level that the guest sets through the service processor.
//!
//! A kernel is entered as if a loader had placed its file at address 0 (arch/s390/boot/head.S). The boot parameters are
//! words inside the file itself.
//!
//! ```text
//!   0x0000_0000  RAM; the lowcore is at 0, moved by the prefix register
//!   0x0001_0400  boot parameters: address and size of the initramfs, command line
//!   end of RAM   initramfs below it, as far down as it needs
//! ```
//!
//! There are no devices in memory: the console and the exit status are SCLP requests (SERVC).

use super::cpus::Cpus;
use super::sigp::{self, Mailbox, NOT_THERE};
use super::{At, Board, Boot, FirmwareCall, Interrupt, NO_HOLE, Order, Spec, restored, saved};
use crate::clock::Ticks;
use crate::config::Config;
use crate::devices::channels::{Channels, Interruption};
use crate::devices::console::Console;
use crate::devices::sclp::{SIGNAL, Sclp};
use crate::devices::tod::Clocks;
use crate::devices::virtio::{AttachError, Attached};
use crate::error::MachineError;
use crate::snapshot::LAST_TIME;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use trapline_isa::mem::Memory;

pub use crate::devices::channels;
pub use crate::devices::tod::{COMPARATOR, TIME_OF_DAY, TIMER};
pub use crate::devices::virtio::ccw::subchannel::{IRB_WORDS, ORB_WORDS, SCHIB_WORDS};

/// The register to which a CPU that begins to wait writes the kinds of interrupts that it accepts. The number is the opcode
/// of LPSWE.
pub const WAITS_FOR: u32 = 0xb2b2;
/// The kind of external interrupts, as a bit of [`Board::pins`].
pub const EXTERNAL: u64 = 1;
/// The number of a channel's interrupt, without its subclass.
pub const BY_CHANNEL: u32 = 1 << 30;
/// The condition code in the board's answer for an operand exception.
pub const BAD_OPERAND: u64 = 4;

/// The kinds of channels' interrupts with these subclasses, as bits of [`Board::pins`].
pub fn channel_kinds(classes: u8) -> u64 {
    u64::from(classes) << 8
}

/// The subclasses of such kinds.
fn classes(kinds: u64) -> u8 {
    (kinds >> 8) as u8
}

const MIB: u64 = 1 << 20;

/// The description of the board.
pub static SPEC: Spec = Spec {
    name: "s390ccw",
    ram_start: 0,
    ram: 512 * MIB,
    least_ram: 128 * MIB,
    most_ram: 8192 * MIB,
    hole: NO_HOLE,
    cpus: 8,
    boot,
    devices: |cpus, ram| Box::new(S390Ccw::new(cpus, ram)),
};

/// Boot parameters: address and size of the initramfs, and the command line.
const INITRD_START: u64 = 0x1_0408;
const INITRD_BYTES: u64 = 0x1_0410;
const COMMAND_LINE: u64 = 0x1_0480;
/// The smallest size limit of a command line among all kernels, including its terminating 0.
const COMMAND_LINE_BYTES: usize = 896;
/// Alignment of the start of the initramfs, which is as high in RAM as possible. The kernel's decompressor uses memory far
/// below.
const INITRD_ALIGNMENT: u64 = MIB;

fn boot(config: &Config, ram: u64, kernel_end: u64) -> Result<Boot, MachineError> {
    if config.command_line.len() >= COMMAND_LINE_BYTES {
        let (has, takes) = (config.command_line.len(), COMMAND_LINE_BYTES - 1);
        return Err(MachineError::Config(format!("the command line has {has} bytes, Linux takes {takes}")));
    }
    let initrd = config.initrd.as_deref().unwrap_or_default();
    let at = ram.saturating_sub(initrd.len() as u64) / INITRD_ALIGNMENT * INITRD_ALIGNMENT;
    if at < kernel_end {
        let bytes = initrd.len();
        return Err(MachineError::Config(format!(
            "an initial file system of {bytes} bytes has no room behind the kernel, which ends at {kernel_end:#x} of {ram:#x} bytes of RAM"
        )));
    }
    let mut pieces = vec![(COMMAND_LINE, [config.command_line.as_bytes(), &[0]].concat())];
    if !initrd.is_empty() {
        pieces.push((INITRD_START, at.to_be_bytes().to_vec()));
        pieces.push((INITRD_BYTES, (initrd.len() as u64).to_be_bytes().to_vec()));
        pieces.push((at, initrd.to_vec()));
    }
    Ok(Boot { pieces, info: 0, ..Boot::default() })
}

/// Opcodes of instructions that are answered here. The opcode is the call's first argument (`cpu/s390/left.rs`).
pub mod call {
    /// SERVC, a service processor call: command, address of the block (SCCB).
    pub const SERVICE: u64 = 0xb220;
    /// SIGP, a signal to a CPU: order, CPU address, parameter.
    pub const SIGNAL: u64 = 0xae00;
    /// DIAG 0x308, re-IPL: subcode.
    pub const RESTART: u64 = 0x8308;
    /// DIAG 0x500, a hypervisor call: subsystem-identification word, queue. Returns 0 if there is such a queue.
    pub const NOTIFY: u64 = 0x8500;
    /// CHSC, here without its command: returns the number of subchannels.
    pub const SUBCHANNELS: u64 = 0xb25f;
    /// TPI: enabled interruption subclasses. Returns subsystem-identification word, parameter and subclass of an
    /// interruption, or nothing.
    pub const INTERRUPTION: u64 = 0xb236;
}

/// The condition code of a call that the board has accepted.
const ACCEPTED: u64 = 0;
/// The return code of DIAG 0x308 if there is no IPL information.
const NOT_AVAILABLE: u64 = 0x102;

/// Subcodes up to this one request a re-IPL.
const LAST_RESTART: u64 = 4;

/// The state of the board.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct S390Ccw {
    running: Cpus,
    cpus: Vec<PerCpu>,
    service: Sclp,
    /// The time since which the service processor has an interrupt.
    service_since: Ticks,
    off: bool,
    #[serde(default, skip_serializing_if = "Channels::is_empty")]
    channels: Channels,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PerCpu {
    clocks: Clocks,
    /// The CPU's virtual time at its last call of the board. [`Board::set_now`] sets it after a load.
    #[serde(skip)]
    now: Ticks,
    mailbox: Mailbox,
    /// The kinds of interrupts for which the CPU waits, unless it has waited for all that there are. A CPU that does not
    /// wait may have accepted others since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    waits_for: Option<u64>,
}

impl PerCpu {
    /// Whether the CPU may accept an interrupt of one of these kinds.
    fn may_accept(&self, kinds: u64) -> bool {
        self.waits_for.is_none_or(|accepted| accepted & kinds != 0)
    }
}

impl S390Ccw {
    fn new(cpus: usize, ram: u64) -> S390Ccw {
        let per_cpu = vec![PerCpu::default(); cpus];
        S390Ccw {
            running: Cpus::new(cpus),
            cpus: per_cpu,
            service: Sclp::new(ram, cpus),
            service_since: 0,
            off: false,
            channels: Channels::default(),
        }
    }

    /// SIGP: sends an order to a CPU. Returns the condition code and the status.
    fn signal(&mut self, at: At, order: u64, cpu: u64, parameter: u64, call: &mut FirmwareCall<'_>) -> Vec<u64> {
        let mailbox = usize::try_from(cpu & 0xffff).ok().and_then(|cpu| Some((cpu, &mut self.cpus.get_mut(cpu)?.mailbox)));
        let signal = sigp::Signal { order, from: at.cpu, parameter, now: at.now };
        let number = (cpu & 0xffff) as usize;
        let was_on = self.running.is_on(number);
        let (answer, stops_machine) = signal.send(mailbox, &mut self.running, call.memory);
        self.off |= stops_machine;
        if was_on != self.running.is_on(number)
            && let Some(cpu) = self.cpus.get_mut(number)
        {
            cpu.waits_for = None;
        }
        answer.to_vec()
    }

    /// Whether the service processor has an interrupt that this CPU lets in.
    fn service_asks(&self, cpu: &PerCpu) -> bool {
        self.service.asks() && cpu.clocks.lets_in(SIGNAL.1)
    }

    /// The interrupt that another CPU has sent, if this CPU lets it in.
    fn sent(&self, cpu: &PerCpu) -> Option<(u32, Ticks)> {
        cpu.mailbox.first(|bit| cpu.clocks.lets_in(bit))
    }

    /// The time since which the CPU has an external interrupt that control register 0 lets in.
    fn external(&self, own: &PerCpu) -> Option<Ticks> {
        let sent = self.sent(own).map(|(_, since)| since);
        let timed = own.clocks.asks(own.now).map(|_| own.now);
        sent.or(timed).or_else(|| self.service_asks(own).then_some(self.service_since))
    }

    /// The CPU takes an external interrupt. Timer interrupts stay pending until the timers are set.
    fn take_external(&mut self, cpu: usize) -> Option<Interrupt> {
        let own = self.cpus.get(cpu)?;
        if let Some((number, _)) = self.sent(own) {
            self.cpus.get_mut(cpu)?.mailbox.take(number);
            return Some(Interrupt::of(number));
        }
        if let Some(number) = own.clocks.asks(own.now) {
            return Some(Interrupt::of(number));
        }
        let parameter = if self.service_asks(own) { self.service.take() } else { None };
        parameter.map(|parameter| Interrupt { number: SIGNAL.0, detail: parameter.into() })
    }

    /// Executes an instruction on a subchannel.
    fn channel(&mut self, opcode: u64, identifier: u64, operand: &[u64], memory: &mut dyn Memory, now: Ticks) -> Vec<u64> {
        let answer = self.channels.instruction((opcode, identifier), operand, memory, now);
        answer.unwrap_or_else(|channels::BadOperand| vec![BAD_OPERAND])
    }

    /// Notes the time of a new interrupt of the service processor. `asked`: it had one before the present call.
    fn note_service(&mut self, asked: bool) {
        if !asked && self.service.asks() {
            self.service_since = self.running.latest();
        }
    }
}

impl Board for S390Ccw {
    fn register_read(&mut self, at: At, register: u32) -> Option<u64> {
        // The clock never goes back for the guest, although a CPU may be behind another one.
        let now = if register == TIME_OF_DAY { self.running.shared_time(at) } else { at.now };
        self.cpus.get(at.cpu)?.clocks.read(register, now)
    }

    fn register_write(&mut self, at: At, register: u32, value: u64) -> bool {
        let has_channels = !self.channels.is_empty();
        let Some(cpu) = self.cpus.get_mut(at.cpu) else { return false };
        cpu.now = at.now;
        if register == WAITS_FOR {
            cpu.waits_for = Some(value).filter(|accepted| has_channels || accepted & EXTERNAL == 0);
            return true;
        }
        cpu.clocks.write(register, value, at.now)
    }

    fn parks_cpus(&self) -> bool {
        self.running.are_several()
    }

    fn orders(&mut self) -> Vec<Order> {
        self.running.take_orders()
    }

    /// A block outside of memory returns "not operational".
    fn firmware_call(&mut self, at: At, mut call: FirmwareCall<'_>) -> Vec<u64> {
        let now = self.running.shared_time(at);
        match *call.arguments {
            [call::SERVICE, command, block] => {
                let asked = self.service.asks();
                let answer = self.service.command(command as u32, block, call.memory, now);
                self.note_service(asked);
                vec![if matches!(answer, Ok(true)) { ACCEPTED } else { NOT_THERE }]
            }
            [call::SIGNAL, order, cpu, parameter] => self.signal(at, order, cpu, parameter, &mut call),
            [call::RESTART, what] => {
                self.off |= what <= LAST_RESTART;
                vec![NOT_AVAILABLE]
            }
            [call::SUBCHANNELS] => vec![self.channels.len() as u64],
            [call::NOTIFY, identifier, queue] => vec![u64::from(!self.channels.notify(identifier, queue, now))],
            [call::INTERRUPTION, classes] => self.channels.take(classes as u8).map_or_else(Vec::new, |interruption| {
                let Interruption { identifier, parameter, class } = interruption;
                vec![identifier.into(), parameter.into(), class.into()]
            }),
            [opcode, identifier, ref operand @ ..] => self.channel(opcode, identifier, operand, call.memory, now),
            _ => vec![NOT_THERE],
        }
    }

    fn advance(&mut self, at: At) {
        if let Some(cpu) = self.cpus.get_mut(at.cpu) {
            cpu.now = at.now;
        }
        let (now, asked) = (self.running.shared_time(at), self.service.asks());
        self.service.advance(now);
        self.note_service(asked);
    }

    fn next_event(&self, cpu: usize) -> Option<Ticks> {
        let own = self.cpus.get(cpu)?;
        let keeps = self.running.keeps_shared_time(cpu);
        let shared = [self.service.next_event(), self.channels.next()].into_iter().flatten().filter(|_| keeps);
        own.clocks.next_event(own.now).into_iter().chain(shared).min()
    }

    fn pending(&self, cpu: usize) -> Option<Ticks> {
        let own = self.cpus.get(cpu)?;
        let external = self.external(own).filter(|_| own.may_accept(EXTERNAL));
        external.or_else(|| self.channels.pending(classes(own.waits_for.unwrap_or(u64::MAX))))
    }

    fn pins(&self, cpu: usize) -> Option<u64> {
        let own = self.cpus.get(cpu)?;
        let external = if self.external(own).is_some() { EXTERNAL } else { 0 };
        Some(external | channel_kinds(self.channels.classes()))
    }

    fn acknowledge(&mut self, cpu: usize) -> Option<Interrupt> {
        self.acknowledge_accepted(cpu, &|_| true)
    }

    fn acknowledge_accepted(&mut self, cpu: usize, accepts: &dyn Fn(u64) -> bool) -> Option<Interrupt> {
        let external = if accepts(EXTERNAL) { self.take_external(cpu) } else { None };
        let taken = external.or_else(|| {
            let enabled =
                (0..8).filter(|class| accepts(channel_kinds(1 << class))).fold(0, |classes, class| classes | 1 << class);
            let Interruption { identifier, parameter, class } = self.channels.take(enabled)?;
            let detail = u64::from(identifier) << 32 | u64::from(parameter);
            Some(Interrupt { number: BY_CHANNEL | u32::from(class), detail })
        });
        if let Some(own) = self.cpus.get_mut(cpu).filter(|_| taken.is_some()) {
            own.waits_for = None;
        }
        taken
    }

    fn attach(&mut self, device: &Attached) -> Result<(), AttachError> {
        self.channels.attach(device)
    }

    fn next_service(&self) -> Option<Ticks> {
        self.channels.next()
    }

    fn serve(&mut self, at: At, memory: &mut dyn Memory) {
        self.channels.serve(self.running.shared_time(at), memory);
    }

    fn console(&mut self) -> &mut dyn Console {
        &mut self.service
    }

    fn power_off(&self) -> Option<u8> {
        self.off.then_some(self.service.level() as u8)
    }

    fn save(&self) -> Result<Value, String> {
        saved(self)
    }

    fn load(&mut self, state: &Value) -> Result<(), String> {
        let cpus = self.cpus.len();
        let times = |devices: &S390Ccw| {
            devices.service_since < LAST_TIME && devices.cpus.iter().all(|cpu| cpu.mailbox.is_sound(cpus, LAST_TIME))
        };
        let mut devices = restored(state, |devices: &S390Ccw| {
            devices.cpus.len() == cpus
                && devices.running.is_sound(cpus, LAST_TIME)
                && times(devices)
                && devices.service.fits(&self.service)
                && devices.channels.is_sound(LAST_TIME)
        })?;
        devices.channels.adopt(&self.channels).map_err(|error| error.to_string())?;
        *self = devices;
        Ok(())
    }

    fn set_now(&mut self, at: At) {
        if let Some(cpu) = self.cpus.get_mut(at.cpu) {
            cpu.now = at.now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::devices::tod::{BY_TIMER, CONTROL_0};
    use trapline_isa::mem::{ByteOrder, Fault, Memory};

    struct NoMemory;

    impl Memory for NoMemory {
        fn order(&self) -> ByteOrder {
            ByteOrder::Big
        }
        fn read(&mut self, address: u64, _: &mut [u8]) -> Result<(), Fault> {
            Err(Fault { address, write: false })
        }
        fn write(&mut self, address: u64, _: &[u8]) -> Result<(), Fault> {
            Err(Fault { address, write: true })
        }
    }

    fn call(board: &mut S390Ccw, arguments: &[u64]) -> Vec<u64> {
        board.firmware_call(At { cpu: 0, now: 5 }, FirmwareCall { arguments, memory: &mut NoMemory })
    }

    #[test]
    fn timer_interrupts_stay_pending_until_set_and_can_be_masked() {
        let mut board = S390Ccw::new(1, SPEC.ram);
        let at = At { cpu: 0, now: 1000 };
        board.advance(at);
        assert!(board.register_write(at, TIMER, u64::MAX) && board.pending(0).is_none());
        board.register_write(at, CONTROL_0, BY_TIMER.1);
        assert_eq!(board.pending(0), Some(1000));
        assert_eq!([board.acknowledge(0), board.acknowledge(0)], [Some(Interrupt::of(BY_TIMER.0)); 2]);
        board.register_write(at, TIMER, i64::MAX as u64);
        assert_eq!((board.pending(0), board.acknowledge(0)), (None, None));
        assert_eq!(board.register_read(at, TIME_OF_DAY), Some(crate::devices::tod::time_of_day(1000)));
    }

    /// DK-1, CP-1: a channel's interrupt goes to a CPU that accepts its subclass, after external ones, and once.
    #[test]
    fn interrupts_of_channels_go_to_cpus_that_accept_them() {
        use crate::devices::virtio::blk::{Base, Disk};
        #[derive(Debug)]
        struct Empty;
        impl Base for Empty {
            fn bytes(&self) -> u64 {
                512
            }
            fn read(&self, _: u64, into: &mut [u8]) -> std::io::Result<()> {
                into.fill(0);
                Ok(())
            }
            fn checksum(&self) -> std::io::Result<String> {
                Ok(String::new())
            }
        }
        const FIRST: u64 = 0x1_0000;
        let disk = Attached::Disk(Disk { base: std::sync::Arc::new(Empty), read_only: false });
        let mut board = S390Ccw::new(2, SPEC.ram);
        board.running.start(1, 0, 0);
        assert_eq!(
            (call(&mut board, &[call::SUBCHANNELS]), call(&mut board, &[channels::STORE, FIRST])),
            (vec![0], vec![NOT_THERE])
        );
        board.attach(&disk).expect("room");
        assert_eq!(call(&mut board, &[call::SUBCHANNELS]), [1]);
        assert_eq!(call(&mut board, &[channels::STORE, 0]), [BAD_OPERAND]);
        assert_eq!(call(&mut board, &[channels::STORE, FIRST + 1]), [NOT_THERE]);
        let mut block = call(&mut board, &[channels::STORE, FIRST]);
        assert_eq!(block.remove(0), 0);
        // Subclass 3, enabled.
        (block[0], block[1]) = (0x77, block[1] | 0x1880 << 16);
        assert_eq!(call(&mut board, &[&[channels::MODIFY, FIRST], &block[..]].concat()), [0]);
        assert_eq!(
            (call(&mut board, &[channels::CLEAR, FIRST]), board.pending(0), board.pending(1)),
            (vec![0], Some(5), Some(5))
        );
        let kinds = channel_kinds(1 << 3);
        assert_eq!((board.pins(0), board.pins(1)), (Some(kinds), Some(kinds)));

        // CPU 0 waits for external interrupts, CPU 1 for subclass 2, then for subclass 3.
        board.register_write(At { cpu: 0, now: 6 }, WAITS_FOR, EXTERNAL);
        board.register_write(At { cpu: 1, now: 6 }, WAITS_FOR, EXTERNAL | channel_kinds(1 << 2));
        assert_eq!((board.pending(0), board.pending(1)), (None, None));
        board.register_write(At { cpu: 1, now: 6 }, WAITS_FOR, kinds);
        assert_eq!((board.pending(0), board.pending(1)), (None, Some(5)));
        let saved = board.save().expect("JSON");
        let mut restored = S390Ccw::new(2, SPEC.ram);
        assert!(restored.load(&saved).is_err(), "without the disk");
        restored.attach(&disk).expect("room");
        restored.load(&saved).expect("loaded");
        assert_eq!((restored.pending(0), restored.pending(1)), (None, Some(5)));

        board.register_write(At { cpu: 1, now: 6 }, CONTROL_0, BY_TIMER.1);
        board.register_write(At { cpu: 1, now: 6 }, TIMER, u64::MAX);
        assert_eq!(board.acknowledge_accepted(1, &|_| false), None);
        assert_eq!(board.acknowledge(1), Some(Interrupt::of(BY_TIMER.0)), "external interrupts come first");
        let taken = board.acknowledge_accepted(1, &|accepted| accepted & kinds != 0);
        assert_eq!(taken, Some(Interrupt { number: BY_CHANNEL | 3, detail: FIRST << 32 | 0x77 }));
        assert_eq!((board.pending(0), board.acknowledge_accepted(1, &|accepted| accepted & kinds != 0)), (None, None));
        // TPI takes one too, of the enabled subclasses.
        assert_eq!(call(&mut board, &[channels::CLEAR, FIRST]), [0]);
        assert_eq!(call(&mut board, &[call::INTERRUPTION, 1 << 2]), [0; 0]);
        assert_eq!(call(&mut board, &[call::INTERRUPTION, 1 << 3]), [FIRST, 0x77, 3]);
        assert_eq!(call(&mut board, &[call::NOTIFY, FIRST, 0]), [0]);
        assert_eq!(call(&mut board, &[call::NOTIFY, FIRST, 1]), [1], "no such queue");
    }

    #[test]
    fn other_cpus_do_not_exist_and_stopping_the_last_ends_the_run() {
        let mut board = S390Ccw::new(1, SPEC.ram);
        assert_eq!(call(&mut board, &[call::SIGNAL, 1, 1, 0]), [NOT_THERE, 0], "SENSE");
        assert_eq!(call(&mut board, &[call::SIGNAL, 0x77, 0, 0]), [1, 2], "an order that does not exist");
        assert_eq!(call(&mut board, &[call::SERVICE, 0x2_0001, 0x9000]), [NOT_THERE], "no such memory");
        assert_eq!(call(&mut board, &[call::RESTART, 6]), [NOT_AVAILABLE]);
        assert_eq!(board.power_off(), None);
        assert_eq!(call(&mut board, &[call::SIGNAL, 5, 0, 0]), [ACCEPTED, 0], "STOP");
        assert_eq!(board.power_off(), Some(0));
    }
}
