//! GICv2, the interrupt controller of the `virt` board: one distributor, and an interface for each CPU.
//!
//! Pending state follows from the devices' lines and from software. There are no security extensions, so there is one
//! group, and the group registers read as zero (ARM IHI 0048B).

use crate::clock::Ticks;
use serde::{Deserialize, Serialize};

/// The first shared interrupt (SPI). Those below are private to each CPU.
pub const SHARED: u32 = 32;

/// Interrupts per bank: the bits of one register word.
const BANK: usize = 32;
/// Banks of shared interrupts.
const SHARED_BANKS: usize = 3;
/// Software-generated interrupts (SGIs), which CPUs send to each other.
const SOFTWARE_LINES: usize = 16;
/// Most CPUs, limited by the bits of the target registers.
const MOST_CPUS: usize = 8;

/// The interrupt number that means "none pending".
const SPURIOUS: u32 = 1023;
/// The running priority while no interrupt is active. It is below every priority.
const IDLE: u8 = 0xff;

// The distributor's registers.
const CONTROL: u64 = 0x000;
const TYPE: u64 = 0x004;
const IMPLEMENTER: u64 = 0x008;
const SET_ENABLE: u64 = 0x100;
const CLEAR_ENABLE: u64 = 0x180;
const SET_PENDING: u64 = 0x200;
const CLEAR_PENDING: u64 = 0x280;
const SET_ACTIVE: u64 = 0x300;
const CLEAR_ACTIVE: u64 = 0x380;
const PRIORITY: u64 = 0x400;
const TARGETS: u64 = 0x800;
const CONFIGURATION: u64 = 0xc00;
const SOFTWARE_INTERRUPT: u64 = 0xf00;
const CLEAR_SOFTWARE: u64 = 0xf10;
const SET_SOFTWARE: u64 = 0xf20;
const PERIPHERAL_ID_2: u64 = 0xfe8;

// A CPU interface's registers.
const INTERFACE_CONTROL: u64 = 0x00;
const PRIORITY_MASK: u64 = 0x04;
const BINARY_POINT: u64 = 0x08;
const ACKNOWLEDGE: u64 = 0x0c;
const END: u64 = 0x10;
const RUNNING_PRIORITY: u64 = 0x14;
const HIGHEST_PENDING: u64 = 0x18;
const INTERFACE_IMPLEMENTER: u64 = 0xfc;
const DEACTIVATE: u64 = 0x1000;

const ENABLE: u32 = 1;
/// End of interrupt drops the priority only. The interrupt stays active until it is deactivated.
const END_DROPS_PRIORITY: u32 = 1 << 9;
const CONTROL_BITS: u32 = ENABLE | END_DROPS_PRIORITY;

const ARM_DISTRIBUTOR: u32 = 0x0200_143b;
const ARM_INTERFACE: u32 = 0x0202_143b;
const VERSION_2: u32 = 0x2b;

/// The interrupts of one register word.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Bank {
    enabled: u32,
    /// Lines that a device asserts.
    level: u32,
    /// Latched requests: set by software, or by a device on an edge-triggered line.
    latched: u32,
    active: u32,
    /// Edge-triggered lines.
    edge: u32,
    priority: [u8; BANK],
    targets: [u8; BANK],
}

impl Bank {
    fn pending(&self) -> u32 {
        self.latched | self.level & !self.edge
    }

    fn hold(&mut self, line: u32, level: bool) {
        let bit = 1 << line;
        match level {
            true => {
                self.latched |= bit & self.edge & !self.level;
                self.level |= bit;
            }
            false => self.level &= !bit,
        }
    }
}

/// One CPU's interface and its private interrupts.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Interface {
    own: Bank,
    /// For each SGI, the CPUs that have sent it.
    senders: [u8; SOFTWARE_LINES],
    /// The time of the latest SGI.
    raised: Ticks,
    control: u32,
    mask: u8,
    binary_point: u8,
    /// The active interrupts with their priorities. Each has a higher priority than the one before.
    running: Vec<(u32, u8)>,
}

/// The interrupt controller.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gic {
    enabled: bool,
    shared: [Bank; SHARED_BANKS],
    cpus: Vec<Interface>,
}

/// The interrupt that a CPU could take next.
#[derive(Clone, Copy)]
struct Candidate {
    line: u32,
    priority: u8,
}

impl Gic {
    /// Whether a controller for this many CPUs can be in this state, which was read from a snapshot, before the time
    /// `last`.
    pub fn is_sound(&self, cpus: usize, last: Ticks) -> bool {
        let lines = (SHARED_BANKS + 1) * BANK;
        let fits = |cpu: &Interface| {
            cpu.raised < last && cpu.running.len() <= lines && cpu.running.iter().all(|(line, _)| (*line as usize) < lines)
        };
        self.cpus.len() == cpus && self.cpus.iter().all(fits)
    }

    /// A controller for this many CPUs, at most eight.
    pub fn new(cpus: usize) -> Gic {
        Gic { enabled: false, shared: Default::default(), cpus: vec![Interface::default(); cpus.clamp(1, MOST_CPUS)] }
    }

    /// Sets the level of a shared interrupt, numbered from 0.
    pub fn set_shared(&mut self, number: u32, level: bool) {
        if let Some(bank) = self.shared.get_mut(number as usize / BANK) {
            bank.hold(number % BANK as u32, level);
        }
    }

    /// Sets the level of a CPU's private interrupt, numbered from 0 with the SGIs.
    pub fn set_own(&mut self, cpu: usize, line: u32, level: bool) {
        if let Some(cpu) = self.cpus.get_mut(cpu) {
            cpu.own.hold(line % BANK as u32, level);
        }
    }

    /// The time since which this CPU has a pending interrupt. 0 for interrupts of devices, whose time is not known.
    pub fn asks(&self, cpu: usize) -> Option<Ticks> {
        let best = self.best(cpu)?;
        let since = self.cpus.get(cpu)?.raised;
        Some(if (best.line as usize) < SOFTWARE_LINES { since } else { 0 })
    }

    /// Whether the interrupt that this CPU would take next is a shared one.
    pub fn offers_shared(&self, cpu: usize) -> bool {
        self.best(cpu).is_some_and(|best| best.line >= SHARED)
    }

    /// A CPU reads the distributor.
    pub fn read(&self, cpu: usize, offset: u64, size: u32) -> u32 {
        let (register, number) = (offset & !0x7f, (offset & 0x7f) as usize / 4);
        let bits = |of: fn(&Bank) -> u32| self.bank(cpu, number).map_or(0, of);
        match offset {
            CONTROL => self.enabled.into(),
            TYPE => SHARED_BANKS as u32 | (self.cpus.len() as u32 - 1) << 5,
            IMPLEMENTER => ARM_DISTRIBUTOR,
            PRIORITY..TARGETS => {
                self.bytes(offset - PRIORITY, size, |line| self.bank(cpu, line / BANK).map(|bank| bank.priority[line % BANK]))
            }
            TARGETS..CONFIGURATION => self.bytes(offset - TARGETS, size, |line| self.targets(cpu, line)),
            CONFIGURATION..0xd00 => self.configuration(cpu, offset),
            CLEAR_SOFTWARE..0xf30 => {
                self.bytes(offset % 16, size, |line| self.cpus.get(cpu).and_then(|cpu| cpu.senders.get(line).copied()))
            }
            PERIPHERAL_ID_2 => VERSION_2,
            _ => match register {
                SET_ENABLE | CLEAR_ENABLE => bits(|bank| bank.enabled),
                SET_PENDING | CLEAR_PENDING => bits(Bank::pending) | if number == 0 { self.software_pending(cpu) } else { 0 },
                SET_ACTIVE | CLEAR_ACTIVE => bits(|bank| bank.active),
                _ => 0,
            },
        }
    }

    /// A CPU writes to the distributor.
    pub fn write(&mut self, cpu: usize, offset: u64, size: u32, value: u32, now: Ticks) {
        let (register, number) = (offset & !0x7f, (offset & 0x7f) as usize / 4);
        match offset {
            CONTROL => self.enabled = value & ENABLE != 0,
            PRIORITY..TARGETS => {
                each_byte(offset - PRIORITY, size, value, |line, byte| {
                    if let Some(bank) = self.bank_mut(cpu, line / BANK) {
                        bank.priority[line % BANK] = byte;
                    }
                });
            }
            TARGETS..CONFIGURATION => {
                let everyone = (1u16 << self.cpus.len()).wrapping_sub(1) as u8;
                each_byte(offset - TARGETS, size, value, |line, byte| {
                    if line >= BANK
                        && let Some(bank) = self.bank_mut(cpu, line / BANK)
                    {
                        bank.targets[line % BANK] = byte & everyone;
                    }
                });
            }
            CONFIGURATION..0xd00 => self.configure(cpu, offset, value),
            SOFTWARE_INTERRUPT => self.send(cpu, value, now),
            CLEAR_SOFTWARE..SET_SOFTWARE => each_byte(offset % 16, size, value, |line, byte| {
                if let Some(senders) = self.cpus.get_mut(cpu).and_then(|cpu| cpu.senders.get_mut(line)) {
                    *senders &= !byte;
                }
            }),
            SET_SOFTWARE..0xf30 => each_byte(offset % 16, size, value, |line, byte| {
                if let Some(cpu) = self.cpus.get_mut(cpu)
                    && let Some(senders) = cpu.senders.get_mut(line)
                {
                    *senders |= byte;
                    cpu.raised = now;
                }
            }),
            _ => {
                // SGIs are always enabled and have their own pending registers.
                let fixed = if number == 0 { (1u32 << SOFTWARE_LINES) - 1 } else { 0 };
                let Some(bank) = self.bank_mut(cpu, number) else { return };
                match register {
                    SET_ENABLE => bank.enabled |= value,
                    CLEAR_ENABLE => bank.enabled &= !value,
                    SET_PENDING => bank.latched |= value & !fixed,
                    CLEAR_PENDING => bank.latched &= !value,
                    SET_ACTIVE => bank.active |= value,
                    CLEAR_ACTIVE => bank.active &= !value,
                    _ => {}
                }
            }
        }
    }

    /// A CPU reads its interface. Reading the acknowledge register acknowledges the interrupt.
    pub fn interface_read(&mut self, cpu: usize, offset: u64) -> u32 {
        if offset == ACKNOWLEDGE {
            return self.acknowledge(cpu);
        }
        let highest = self.best(cpu).map_or(SPURIOUS, |best| best.line);
        let Some(interface) = self.cpus.get(cpu) else { return 0 };
        match offset {
            INTERFACE_CONTROL => interface.control,
            PRIORITY_MASK => interface.mask.into(),
            BINARY_POINT => interface.binary_point.into(),
            RUNNING_PRIORITY => interface.running_priority().into(),
            HIGHEST_PENDING => highest,
            INTERFACE_IMPLEMENTER => ARM_INTERFACE,
            _ => 0,
        }
    }

    /// A CPU writes to its interface.
    pub fn interface_write(&mut self, cpu: usize, offset: u64, value: u32) {
        let Some(interface) = self.cpus.get_mut(cpu) else { return };
        let line = value & SPURIOUS;
        match offset {
            INTERFACE_CONTROL => interface.control = value & CONTROL_BITS,
            PRIORITY_MASK => interface.mask = value as u8,
            BINARY_POINT => interface.binary_point = value as u8 & 7,
            END => {
                if let Some(at) = interface.running.iter().rposition(|(running, _)| *running == line) {
                    interface.running.remove(at);
                }
                if interface.control & END_DROPS_PRIORITY == 0 {
                    self.deactivate(cpu, line);
                }
            }
            DEACTIVATE => self.deactivate(cpu, line),
            _ => {}
        }
    }

    fn bank(&self, cpu: usize, number: usize) -> Option<&Bank> {
        match number.checked_sub(1) {
            None => self.cpus.get(cpu).map(|cpu| &cpu.own),
            Some(shared) => self.shared.get(shared),
        }
    }

    fn bank_mut(&mut self, cpu: usize, number: usize) -> Option<&mut Bank> {
        match number.checked_sub(1) {
            None => self.cpus.get_mut(cpu).map(|cpu| &mut cpu.own),
            Some(shared) => self.shared.get_mut(shared),
        }
    }

    fn bytes(&self, first: u64, size: u32, of: impl Fn(usize) -> Option<u8>) -> u32 {
        (0..size.min(4)).fold(0, |value, byte| value | u32::from(of(first as usize + byte as usize).unwrap_or(0)) << (8 * byte))
    }

    /// The targets of an interrupt. Private ones target their own CPU, from which a CPU learns its number.
    fn targets(&self, cpu: usize, line: usize) -> Option<u8> {
        if line < BANK { Some(1 << (cpu % MOST_CPUS)) } else { Some(self.bank(cpu, line / BANK)?.targets[line % BANK]) }
    }

    /// Two bits per interrupt. The upper one means edge-triggered, which SGIs always are.
    fn configuration(&self, cpu: usize, offset: u64) -> u32 {
        const SOFTWARE: u32 = 0xaaaa_aaaa;
        let first = ((offset - CONFIGURATION) / 4 * 16) as usize;
        if first < SOFTWARE_LINES {
            return SOFTWARE;
        }
        let edge = self.bank(cpu, first / BANK).map_or(0, |bank| bank.edge >> (first % BANK));
        (0..16).fold(0, |value, line| value | (edge >> line & 1) << (2 * line + 1))
    }

    fn configure(&mut self, cpu: usize, offset: u64, value: u32) {
        let first = ((offset - CONFIGURATION) / 4 * 16) as usize;
        // The configuration of private interrupts is fixed.
        if first >= BANK
            && let Some(bank) = self.bank_mut(cpu, first / BANK)
        {
            let edge = (0..16).fold(0, |edge, line| edge | (value >> (2 * line + 1) & 1) << line);
            let half = first % BANK;
            bank.edge = bank.edge & !(0xffff << half) | edge << half;
        }
    }

    fn send(&mut self, from: usize, value: u32, now: Ticks) {
        const OTHERS: u32 = 1;
        const SELF: u32 = 2;
        let (filter, list, line) = (value >> 24 & 3, value >> 16 & 0xff, value as usize % SOFTWARE_LINES);
        for (number, cpu) in self.cpus.iter_mut().enumerate() {
            let meant = match filter {
                OTHERS => number != from,
                SELF => number == from,
                _ => list >> number & 1 != 0,
            };
            if meant {
                cpu.senders[line] |= 1 << (from % MOST_CPUS);
                cpu.raised = now;
            }
        }
    }

    fn software_pending(&self, cpu: usize) -> u32 {
        let Some(cpu) = self.cpus.get(cpu) else { return 0 };
        cpu.senders.iter().enumerate().fold(0, |bits, (line, senders)| bits | u32::from(*senders != 0) << line)
    }

    /// The pending interrupt with the highest priority that can preempt the active one. The lowest number wins a tie.
    fn best(&self, cpu: usize) -> Option<Candidate> {
        let interface = self.cpus.get(cpu)?;
        if !self.enabled || interface.control & ENABLE == 0 {
            return None;
        }
        let below = interface.mask.min(interface.running_priority());
        let software = self.software_pending(cpu);
        let mut best: Option<Candidate> = None;
        for number in 0..=SHARED_BANKS {
            let Some(bank) = self.bank(cpu, number) else { continue };
            let enabled = if number == 0 { bank.enabled | ((1 << SOFTWARE_LINES) - 1) } else { bank.enabled };
            let pending = bank.pending() | if number == 0 { software } else { 0 };
            let mut waiting = pending & enabled & !bank.active;
            while waiting != 0 {
                let bit = waiting.trailing_zeros();
                waiting &= waiting - 1;
                let priority = bank.priority[bit as usize];
                let mine = number == 0 || bank.targets[bit as usize] >> (cpu % MOST_CPUS) & 1 != 0;
                if mine && priority < below && best.is_none_or(|best| priority < best.priority) {
                    best = Some(Candidate { line: (number * BANK) as u32 + bit, priority });
                }
            }
        }
        best
    }

    fn acknowledge(&mut self, cpu: usize) -> u32 {
        let Some(Candidate { line, priority }) = self.best(cpu) else { return SPURIOUS };
        let mut sender = 0;
        if let Some(interface) = self.cpus.get_mut(cpu) {
            interface.running.push((line, priority));
            if let Some(senders) = interface.senders.get_mut(line as usize) {
                sender = senders.trailing_zeros();
                *senders &= senders.wrapping_sub(1);
            }
        }
        if let Some(bank) = self.bank_mut(cpu, line as usize / BANK) {
            let bit = 1 << (line % BANK as u32);
            bank.latched &= !bit;
            bank.active |= bit;
        }
        line | sender << 10
    }

    fn deactivate(&mut self, cpu: usize, line: u32) {
        if let Some(bank) = self.bank_mut(cpu, line as usize / BANK) {
            bank.active &= !(1 << (line % BANK as u32));
        }
    }
}

impl Interface {
    fn running_priority(&self) -> u8 {
        self.running.last().map_or(IDLE, |(_, priority)| *priority)
    }
}

fn each_byte(first: u64, size: u32, value: u32, mut each: impl FnMut(usize, u8)) {
    for (number, byte) in value.to_le_bytes().into_iter().enumerate().take(size as usize) {
        each(first as usize + number, byte);
    }
}

#[cfg(test)]
mod tests;
