//! Builds the device tree of the ARM boards, with the devices, the command line and the initramfs.
//!
//! Bindings: Documentation/devicetree/bindings of Linux 6.1 (arm/cpus.yaml, psci.yaml, arm,gic.yaml, arm,pl011.yaml,
//! arm,sp804.yaml, arm,arch_timer.yaml). The root's `compatible` matches no machine of Linux, so Linux uses its generic
//! one.

use super::RANDOM_SEED;
use crate::error::MachineError;
use std::ops::Range;
use vm_fdt::{Error, FdtWriter};

/// The facts about a board that go into its tree.
#[derive(Clone, Debug)]
pub struct Tree<'a> {
    /// The CPUs' model, such as `arm,cortex-a72`.
    pub cpu: &'a str,
    /// The number of CPUs.
    pub cpus: usize,
    /// The instruction that calls the firmware: `smc` or `hvc`.
    pub firmware: &'a str,
    /// Physical range of RAM.
    pub memory: Range<u64>,
    /// Physical ranges of the GIC's distributor and CPU interface.
    pub gic: [Range<u64>; 2],
    /// The serial port.
    pub uart: Device,
    /// The timer that the kernel shall use.
    pub timer: Timer,
    /// The virtio devices.
    pub virtio: Vec<Device>,
    /// The kernel's command line, for `/chosen/bootargs`.
    pub command_line: &'a str,
    /// Physical range of the initramfs. Empty if there is none.
    pub initrd: Range<u64>,
}

/// A device with registers and an interrupt.
#[derive(Clone, Debug)]
pub struct Device {
    /// Physical range of its registers.
    pub registers: Range<u64>,
    /// Its number among the shared peripheral interrupts (SPIs).
    pub line: u32,
}

/// The timer of a board.
#[derive(Clone, Debug)]
pub enum Timer {
    /// An SP804. Both counters share one interrupt.
    Sp804(Device),
    /// The architected timer of each CPU.
    Architected,
}

/// Clock frequencies that drivers ask for.
const UART_HERTZ: u32 = 24_000_000;
const SP804_HERTZ: u32 = 1_000_000;

/// The phandles by which nodes refer to each other.
const GIC: u32 = 1;
const UART_CLOCK: u32 = 2;
const TIMER_CLOCK: u32 = 3;

/// Interrupt types of the GIC binding, and the trigger: active high level.
const SHARED: u32 = 0;
const OWN: u32 = 1;
const LEVEL: u32 = 4;
/// The lowest bit of a private interrupt's CPU mask.
const FIRST_CPU: u32 = 1 << 8;

/// The architected timer's private interrupts, counted from 16, in the binding's order: secure, non-secure, virtual,
/// hypervisor.
const TIMER_LINES: [u32; 4] = [13, 14, 11, 10];

/// A tree with this number of cells in an address and in a size, whose root is filled by `fill`.
pub fn flattened(cells: u32, fill: impl FnOnce(&mut FdtWriter) -> Result<(), Error>) -> Result<Vec<u8>, MachineError> {
    let write = || {
        let mut fdt = FdtWriter::new()?;
        let root = fdt.begin_node("")?;
        fdt.property_u32("#address-cells", cells)?;
        fdt.property_u32("#size-cells", cells)?;
        fill(&mut fdt)?;
        fdt.end_node(root)?;
        fdt.finish()
    };
    write().map_err(|error: Error| MachineError::Config(format!("the device tree cannot be made: {error}")))
}

/// Writes the node `chosen`, by which a boot loader informs the kernel: the command line, the property and the path of
/// the console, the initial file system, if there is one, and a seed.
pub fn chosen(fdt: &mut FdtWriter, command_line: &str, console: (&str, &str), initrd: &Range<u64>) -> Result<(), Error> {
    let chosen = fdt.begin_node("chosen")?;
    fdt.property_string("bootargs", command_line)?;
    fdt.property_string(console.0, console.1)?;
    if !initrd.is_empty() {
        fdt.property_u64("linux,initrd-start", initrd.start)?;
        fdt.property_u64("linux,initrd-end", initrd.end)?;
    }
    fdt.property("rng-seed", RANDOM_SEED)?;
    fdt.end_node(chosen)
}

/// Writes the node of RAM.
pub fn memory(fdt: &mut FdtWriter, range: &Range<u64>) -> Result<(), Error> {
    let memory = fdt.begin_node(&node("memory", range))?;
    fdt.property_string("device_type", "memory")?;
    registers(fdt, std::slice::from_ref(range))?;
    fdt.end_node(memory)
}

impl Tree<'_> {
    /// The flattened tree.
    pub fn flatten(&self) -> Result<Vec<u8>, MachineError> {
        flattened(2, |fdt| self.write(fdt))
    }

    fn write(&self, fdt: &mut FdtWriter) -> Result<(), Error> {
        fdt.property_u32("interrupt-parent", GIC)?;
        fdt.property_string("compatible", "trapline,virt")?;
        fdt.property_string("model", &format!("trapline virt ({})", self.cpu))?;
        let console = format!("/{}", node("serial", &self.uart.registers));
        chosen(fdt, self.command_line, ("stdout-path", &console), &self.initrd)?;
        memory(fdt, &self.memory)?;
        self.cpus(fdt)?;
        self.psci(fdt)?;
        clock(fdt, "uart-clock", UART_CLOCK, UART_HERTZ)?;
        self.gic(fdt)?;
        self.uart(fdt)?;
        self.timer(fdt)?;
        self.virtio.iter().try_for_each(|at| virtio(fdt, &at.registers, |fdt| device(fdt, at)))
    }

    fn cpus(&self, fdt: &mut FdtWriter) -> Result<(), Error> {
        let cpus = fdt.begin_node("cpus")?;
        fdt.property_u32("#address-cells", 1)?;
        fdt.property_u32("#size-cells", 0)?;
        for number in 0..self.cpus {
            let cpu = fdt.begin_node(&format!("cpu@{number:x}"))?;
            fdt.property_string("device_type", "cpu")?;
            fdt.property_string("compatible", self.cpu)?;
            fdt.property_u32("reg", number as u32)?;
            if self.cpus > 1 {
                fdt.property_string("enable-method", "psci")?;
            }
            fdt.end_node(cpu)?;
        }
        fdt.end_node(cpus)
    }

    fn psci(&self, fdt: &mut FdtWriter) -> Result<(), Error> {
        let psci = fdt.begin_node("psci")?;
        fdt.property_string("compatible", "arm,psci-0.2")?;
        fdt.property_string("method", self.firmware)?;
        fdt.end_node(psci)
    }

    fn gic(&self, fdt: &mut FdtWriter) -> Result<(), Error> {
        let gic = fdt.begin_node(&node("interrupt-controller", &self.gic[0]))?;
        fdt.property_string("compatible", "arm,cortex-a15-gic")?;
        fdt.property_phandle(GIC)?;
        fdt.property_null("interrupt-controller")?;
        fdt.property_u32("#interrupt-cells", 3)?;
        fdt.property_u32("#address-cells", 0)?;
        registers(fdt, &self.gic)?;
        fdt.end_node(gic)
    }

    fn uart(&self, fdt: &mut FdtWriter) -> Result<(), Error> {
        let uart = fdt.begin_node(&node("serial", &self.uart.registers))?;
        strings(fdt, "compatible", &["arm,pl011", "arm,primecell"])?;
        device(fdt, &self.uart)?;
        fdt.property_array_u32("clocks", &[UART_CLOCK, UART_CLOCK])?;
        strings(fdt, "clock-names", &["uartclk", "apb_pclk"])?;
        fdt.end_node(uart)
    }

    fn timer(&self, fdt: &mut FdtWriter) -> Result<(), Error> {
        match &self.timer {
            Timer::Sp804(at) => {
                clock(fdt, "timer-clock", TIMER_CLOCK, SP804_HERTZ)?;
                let timer = fdt.begin_node(&node("timer", &at.registers))?;
                strings(fdt, "compatible", &["arm,sp804", "arm,primecell"])?;
                device(fdt, at)?;
                fdt.property_array_u32("clocks", &[TIMER_CLOCK, TIMER_CLOCK, UART_CLOCK])?;
                strings(fdt, "clock-names", &["timer0clk", "timer1clk", "apb_pclk"])?;
                fdt.end_node(timer)
            }
            Timer::Architected => {
                let timer = fdt.begin_node("timer")?;
                fdt.property_string("compatible", "arm,armv8-timer")?;
                let every_cpu = (FIRST_CPU << self.cpus) - FIRST_CPU;
                let lines: Vec<u32> = TIMER_LINES.iter().flat_map(|line| [OWN, *line, every_cpu | LEVEL]).collect();
                fdt.property_array_u32("interrupts", &lines)?;
                fdt.property_null("always-on")?;
                fdt.end_node(timer)
            }
        }
    }
}

fn node(name: &str, registers: &Range<u64>) -> String {
    format!("{name}@{:x}", registers.start)
}

/// Adds the property `reg`, with 64-bit addresses and sizes.
pub fn registers(fdt: &mut FdtWriter, ranges: &[Range<u64>]) -> Result<(), Error> {
    let cells: Vec<u64> = ranges.iter().flat_map(|range| [range.start, range.end.saturating_sub(range.start)]).collect();
    fdt.property_array_u64("reg", &cells)
}

fn device(fdt: &mut FdtWriter, device: &Device) -> Result<(), Error> {
    registers(fdt, std::slice::from_ref(&device.registers))?;
    fdt.property_array_u32("interrupts", &[SHARED, device.line, LEVEL])
}

fn clock(fdt: &mut FdtWriter, name: &str, handle: u32, hertz: u32) -> Result<(), Error> {
    let clock = fdt.begin_node(name)?;
    fdt.property_string("compatible", "fixed-clock")?;
    fdt.property_phandle(handle)?;
    fdt.property_u32("#clock-cells", 0)?;
    fdt.property_u32("clock-frequency", hertz)?;
    fdt.end_node(clock)
}

/// Writes the node of a virtio device. `properties` writes its registers and its interrupt.
pub fn virtio(
    fdt: &mut FdtWriter,
    registers: &Range<u64>,
    properties: impl FnOnce(&mut FdtWriter) -> Result<(), Error>,
) -> Result<(), Error> {
    let node = fdt.begin_node(&node("virtio_mmio", registers))?;
    fdt.property_string("compatible", "virtio,mmio")?;
    properties(fdt)?;
    fdt.property_null("dma-coherent")?;
    fdt.end_node(node)
}

fn strings(fdt: &mut FdtWriter, name: &str, values: &[&str]) -> Result<(), Error> {
    fdt.property_string_list(name, values.iter().map(|value| (*value).to_string()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn board(timer: Timer) -> Tree<'static> {
        Tree {
            cpu: "arm,cortex-a72",
            cpus: 2,
            firmware: "hvc",
            memory: 0x4000_0000..0x6000_0000,
            gic: [0x800_0000..0x800_1000, 0x801_0000..0x801_2000],
            uart: Device { registers: 0x900_0000..0x900_1000, line: 5 },
            timer,
            virtio: vec![Device { registers: 0xa00_0000..0xa00_0200, line: 16 }],
            command_line: "console=ttyAMA0 quiet",
            initrd: 0x4900_0000..0x4912_3456,
        }
    }

    /// All properties of a flattened tree with their paths (Devicetree specification 0.4, chapter 5).
    fn properties(tree: &[u8]) -> Vec<(String, Vec<u8>)> {
        let word = |at: usize| u32::from_be_bytes(tree[at..at + 4].try_into().expect("4 bytes")) as usize;
        let text = |at: usize| {
            let end = tree[at..].iter().position(|byte| *byte == 0).expect("an end");
            String::from_utf8(tree[at..at + end].to_vec()).expect("text")
        };
        assert_eq!((word(0), word(4)), (0xd00d_feed, tree.len()));
        let (mut at, strings) = (word(8), word(12));
        let (mut path, mut found) = (Vec::<String>::new(), Vec::new());
        loop {
            let token = word(at);
            at += 4;
            match token {
                1 => {
                    path.push(text(at));
                    at = (at + path[path.len() - 1].len() + 1).next_multiple_of(4);
                }
                2 => {
                    path.pop();
                }
                3 => {
                    let (len, name) = (word(at), text(strings + word(at + 4)));
                    found.push((format!("{}/{name}", path.join("/")), tree[at + 8..at + 8 + len].to_vec()));
                    at = (at + 8 + len).next_multiple_of(4);
                }
                9 => return found,
                other => panic!("token {other}"),
            }
        }
    }

    fn cells(values: &[u32]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_be_bytes()).collect()
    }

    #[test]
    fn the_tree_describes_the_board() {
        let tree = board(Timer::Architected).flatten().expect("it can be made");
        let found = properties(&tree);
        #[rustfmt::skip]
        let cases: &[(&str, Vec<u8>)] = &[
            ("/chosen/bootargs",                                b"console=ttyAMA0 quiet\0".to_vec()),
            ("/chosen/stdout-path",                             b"/serial@9000000\0".to_vec()),
            ("/chosen/linux,initrd-start",                      cells(&[0, 0x4900_0000])),
            ("/chosen/linux,initrd-end",                        cells(&[0, 0x4912_3456])),
            ("/chosen/rng-seed",                                RANDOM_SEED.to_vec()),
            ("/memory@40000000/reg",                            cells(&[0, 0x4000_0000, 0, 0x2000_0000])),
            ("/cpus/cpu@1/reg",                                 cells(&[1])),
            ("/cpus/cpu@1/enable-method",                       b"psci\0".to_vec()),
            ("/psci/method",                                    b"hvc\0".to_vec()),
            ("/interrupt-controller@8000000/reg",               cells(&[0, 0x800_0000, 0, 0x1000, 0, 0x801_0000, 0, 0x2000])),
            ("/serial@9000000/compatible",                      b"arm,pl011\0arm,primecell\0".to_vec()),
            ("/serial@9000000/interrupts",                      cells(&[0, 5, 4])),
            ("/serial@9000000/clocks",                          cells(&[UART_CLOCK, UART_CLOCK])),
            ("/virtio_mmio@a000000/compatible",                b"virtio,mmio\0".to_vec()),
            ("/virtio_mmio@a000000/reg",                       cells(&[0, 0xa00_0000, 0, 0x200])),
            ("/virtio_mmio@a000000/interrupts",                cells(&[0, 16, 4])),
            ("/timer/interrupts",                               cells(&[1, 13, 0x304, 1, 14, 0x304, 1, 11, 0x304, 1, 10, 0x304])),
        ];
        for (path, value) in cases {
            let seen = found.iter().find(|(name, _)| name == path).map(|(_, value)| value);
            assert_eq!(seen, Some(value), "{path}");
        }
    }

    #[test]
    fn optional_nodes_are_omitted() {
        let timer = Timer::Sp804(Device { registers: 0x902_0000..0x902_1000, line: 2 });
        let tree = Tree { initrd: 0..0, ..board(timer) }.flatten().expect("it can be made");
        let found = properties(&tree);
        let has = |path: &str| found.iter().any(|(name, _)| name == path);
        assert!(has("/timer@9020000/reg") && has("/timer-clock/clock-frequency") && !has("/timer/compatible"));
        assert!(!has("/chosen/linux,initrd-start"));
        let broken = Tree { command_line: "one\0two", ..board(Timer::Architected) };
        assert!(broken.flatten().is_err_and(|why| why.to_string().contains("device tree")));
    }
}
