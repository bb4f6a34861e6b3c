//! Builds the device tree of the RISC-V board. Bindings: Documentation/devicetree/bindings of Linux 6.12 (riscv/cpus.yaml,
//! sifive,plic-1.0.0.yaml, serial/8250.yaml).

use super::device_tree::{chosen, flattened, memory, registers, virtio};
use crate::error::MachineError;
use std::ops::Range;
use vm_fdt::{Error, FdtWriter};

/// The facts about the board that go into its tree.
#[derive(Clone, Debug)]
pub struct Tree<'a> {
    /// The number of harts.
    pub harts: usize,
    /// Counts of the register `time` per second.
    pub time_hertz: u32,
    /// Physical range of RAM.
    pub memory: Range<u64>,
    /// Physical range of the interrupt controller (PLIC), and its number of sources.
    pub plic: (Range<u64>, u32),
    /// Physical range of the serial port, and the number of its PLIC source.
    pub uart: (Range<u64>, u32),
    /// Physical ranges of the virtio devices, and the numbers of their PLIC sources.
    pub virtio: Vec<(Range<u64>, u32)>,
    /// The kernel's command line, for `/chosen/bootargs`.
    pub command_line: &'a str,
    /// Physical range of the initramfs. Empty if there is none.
    pub initrd: Range<u64>,
}

/// The phandle of the PLIC. Nodes refer to each other by phandles.
const PLIC: u32 = 2;

/// The phandle of a hart's own interrupt controller.
fn controller(hart: u32) -> u32 {
    if hart == 0 { 1 } else { PLIC + hart }
}

/// The number of the external interrupt of supervisor mode.
const EXTERNAL: u32 = 9;
/// The clock of a 16550 for which 115,200 baud is a whole divisor.
const UART_HERTZ: u32 = 3_686_400;
/// The extensions of the core.
const ISA: &str = "rv64imafdc_zicntr_zicsr_zifencei";
const EXTENSIONS: [&str; 9] = ["i", "m", "a", "f", "d", "c", "zicntr", "zicsr", "zifencei"];

impl Tree<'_> {
    /// The flattened tree.
    pub fn flatten(&self) -> Result<Vec<u8>, MachineError> {
        flattened(2, |fdt| self.write(fdt))
    }

    fn write(&self, fdt: &mut FdtWriter) -> Result<(), Error> {
        fdt.property_string("compatible", "trapline,virt-riscv")?;
        fdt.property_string("model", "trapline virt-riscv")?;
        let console = format!("/soc/serial@{:x}", self.uart.0.start);
        chosen(fdt, self.command_line, ("stdout-path", &console), &self.initrd)?;
        memory(fdt, &self.memory)?;
        self.cpus(fdt)?;
        self.soc(fdt)
    }

    fn cpus(&self, fdt: &mut FdtWriter) -> Result<(), Error> {
        let cpus = fdt.begin_node("cpus")?;
        fdt.property_u32("#address-cells", 1)?;
        fdt.property_u32("#size-cells", 0)?;
        fdt.property_u32("timebase-frequency", self.time_hertz)?;
        for hart in 0..self.harts as u32 {
            cpu(fdt, hart)?;
        }
        fdt.end_node(cpus)
    }

    fn soc(&self, fdt: &mut FdtWriter) -> Result<(), Error> {
        let soc = fdt.begin_node("soc")?;
        fdt.property_string("compatible", "simple-bus")?;
        fdt.property_u32("#address-cells", 2)?;
        fdt.property_u32("#size-cells", 2)?;
        fdt.property_null("ranges")?;
        let (at, sources) = &self.plic;
        let plic = fdt.begin_node(&format!("interrupt-controller@{:x}", at.start))?;
        fdt.property_string_list("compatible", vec!["sifive,plic-1.0.0".into(), "riscv,plic0".into()])?;
        fdt.property_phandle(PLIC)?;
        fdt.property_null("interrupt-controller")?;
        fdt.property_u32("#interrupt-cells", 1)?;
        fdt.property_u32("#address-cells", 0)?;
        fdt.property_u32("riscv,ndev", *sources)?;
        let contexts: Vec<u32> = (0..self.harts as u32).flat_map(|hart| [controller(hart), EXTERNAL]).collect();
        fdt.property_array_u32("interrupts-extended", &contexts)?;
        registers(fdt, std::slice::from_ref(at))?;
        fdt.end_node(plic)?;
        let (at, source) = &self.uart;
        let uart = fdt.begin_node(&format!("serial@{:x}", at.start))?;
        fdt.property_string("compatible", "ns16550a")?;
        registers(fdt, std::slice::from_ref(at))?;
        fdt.property_u32("clock-frequency", UART_HERTZ)?;
        fdt.property_u32("interrupt-parent", PLIC)?;
        fdt.property_u32("interrupts", *source)?;
        fdt.end_node(uart)?;
        for (at, source) in &self.virtio {
            virtio(fdt, at, |fdt| {
                registers(fdt, std::slice::from_ref(at))?;
                fdt.property_u32("interrupt-parent", PLIC)?;
                fdt.property_u32("interrupts", *source)
            })?;
        }
        fdt.end_node(soc)
    }
}

/// Writes the node of a hart.
fn cpu(fdt: &mut FdtWriter, hart: u32) -> Result<(), Error> {
    let cpu = fdt.begin_node(&format!("cpu@{hart:x}"))?;
    fdt.property_string("device_type", "cpu")?;
    fdt.property_string_list("compatible", vec!["sifive,u54".into(), "riscv".into()])?;
    fdt.property_u32("reg", hart)?;
    fdt.property_string("status", "okay")?;
    fdt.property_string("riscv,isa", ISA)?;
    fdt.property_string("riscv,isa-base", "rv64i")?;
    fdt.property_string_list("riscv,isa-extensions", EXTENSIONS.iter().map(|name| (*name).to_string()).collect())?;
    // With more levels, page-table walks would take longer, and no program here needs a larger address space.
    fdt.property_string("mmu-type", "riscv,sv39")?;
    let node = fdt.begin_node("interrupt-controller")?;
    fdt.property_string("compatible", "riscv,cpu-intc")?;
    fdt.property_null("interrupt-controller")?;
    fdt.property_u32("#interrupt-cells", 1)?;
    fdt.property_phandle(controller(hart))?;
    fdt.end_node(node)?;
    fdt.end_node(cpu)
}
