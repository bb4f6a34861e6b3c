//! Builds the device tree of the `powernv` board: memory, one CPU with its features, and the firmware with its console.
//!
//! Bindings: Documentation/devicetree/bindings/powerpc/opal of Linux 6.1, and skiboot's doc/device-tree. The CPU
//! features are those of arch/powerpc/kernel/dt_cpu_ftrs.c.

use super::device_tree::{chosen, flattened};
use crate::devices::decrementer;
use crate::error::MachineError;
use std::ops::Range;
use vm_fdt::{Error, FdtWriter};

/// Interval at which the kernel polls the firmware, in milliseconds of guest time.
const HEARTBEAT_MS: u32 = 100;

/// The facts about the board that go into its tree.
#[derive(Clone, Debug)]
pub struct Tree<'a> {
    /// Size of RAM in bytes. RAM starts at 0.
    pub ram: u64,
    /// The number of CPUs.
    pub cpus: usize,
    /// Range of the firmware. Its entry point is at the start.
    pub firmware: Range<u64>,
    /// The kernel's command line, for `/chosen/bootargs`.
    pub command_line: &'a str,
    /// Range of the initramfs. Empty if there is none.
    pub initrd: Range<u64>,
}

/// A CPU feature: name, ISA version, privilege mask (1 problem state, 2 kernel, 4 hypervisor), support needed from
/// hypervisor and kernel (1: a facility bit, 2: known to software), the facility bit for each, and the HWCAP bit.
type Feature = (&'static str, u32, u32, Option<u32>, Option<u32>, Option<u32>, Option<u32>, Option<u32>);

/// The features of ISA 3.0 that the core implements. It lacks prefixed instructions, `scv`, and messages between CPUs.
#[rustfmt::skip]
const FEATURES: &[Feature] = &[
    // name                         isa     whose   hypervisor  kernel      its bit     its bit     programs'
    ("hypervisor",                  2050,   4,      Some(2),    None,       None,       None,       None),
    ("big-endian",                  2020,   7,      Some(2),    Some(2),    None,       None,       None),
    ("little-endian",               2050,   7,      Some(2),    Some(2),    None,       None,       Some(1)),
    ("interrupt-facilities",        2050,   6,      Some(2),    Some(2),    None,       None,       None),
    ("timer-facilities",            2050,   7,      Some(2),    Some(2),    None,       None,       None),
    ("debug-facilities",            2050,   6,      Some(2),    Some(2),    None,       None,       None),
    ("come-from-address-register",  2050,   6,      Some(2),    Some(2),    None,       None,       None),
    ("floating-point",              2020,   7,      Some(1),    None,       Some(0),    None,       Some(27)),
    ("vector",                      2030,   7,      Some(1),    None,       Some(1),    None,       Some(28)),
    ("vector-scalar",               2060,   7,      Some(1),    None,       Some(1),    None,       Some(7)),
    ("vector-crypto",               2070,   7,      Some(1),    None,       Some(1),    None,       Some(57)),
    ("mmu-radix",                   3000,   6,      Some(2),    Some(2),    None,       None,       None),
    ("no-execute",                  2010,   6,      None,       Some(2),    None,       None,       None),
    ("data-stream-control-register", 2050,  7,      Some(1),    Some(1),    Some(2),    Some(2),    Some(61)),
    ("target-address-register",     2070,   7,      Some(1),    Some(1),    Some(8),    Some(8),    Some(58)),
    ("fixed-point-v3",              3000,   7,      None,       None,       None,       None,       None),
    ("floating-point-v3",           3000,   7,      None,       None,       None,       None,       None),
    ("branch-v3",                   3000,   7,      None,       None,       None,       None,       None),
    ("vector-v3",                   3000,   7,      None,       None,       None,       None,       None),
];

const HERTZ: u32 = 1_000_000_000;
const CACHE_LINE: u32 = 128;
const CACHE: u32 = 32 << 10;

/// The idle state: `stop`, which keeps all state and continues at the next instruction.
mod sleep {
    pub const FLAGS: u32 = 0x0010_0000;
    pub const LATENCY: u32 = 1_000;
    pub const RESIDENCY: u32 = 10_000;
    pub const NAME: &str = "stop0_lite";
    /// PSSCR bits: no state is lost, and no exception is needed to wake up.
    pub const DEPTH: u64 = 0;
    pub const DEPTH_BITS: u64 = 0x003f_ffff;
}

impl Tree<'_> {
    /// The flattened tree.
    pub fn flatten(&self) -> Result<Vec<u8>, MachineError> {
        flattened(2, |fdt| self.write(fdt))
    }

    fn write(&self, fdt: &mut FdtWriter) -> Result<(), Error> {
        fdt.property_string("compatible", "ibm,powernv")?;
        fdt.property_string("model", "trapline powernv")?;
        // The kernel must not use the firmware's memory.
        fdt.property_array_u64("reserved-ranges", &[self.firmware.start, self.firmware.end - self.firmware.start])?;
        chosen(fdt, self.command_line, ("linux,stdout-path", "/ibm,opal/consoles/serial@0"), &self.initrd)?;
        self.memory(fdt)?;
        self.cpus(fdt)?;
        interrupts(fdt)?;
        ports(fdt)?;
        self.firmware(fdt)
    }

    fn cpus(&self, fdt: &mut FdtWriter) -> Result<(), Error> {
        let cpus = fdt.begin_node("cpus")?;
        fdt.property_u32("#address-cells", 1)?;
        fdt.property_u32("#size-cells", 0)?;
        for number in 0..self.cpus {
            cpu(fdt, number as u32)?;
        }
        features(fdt)?;
        fdt.end_node(cpus)
    }

    fn memory(&self, fdt: &mut FdtWriter) -> Result<(), Error> {
        let memory = fdt.begin_node("memory@0")?;
        fdt.property_string("device_type", "memory")?;
        fdt.property_array_u64("reg", &[0, self.ram])?;
        fdt.property_u32("ibm,chip-id", 0)?;
        fdt.end_node(memory)
    }

    fn firmware(&self, fdt: &mut FdtWriter) -> Result<(), Error> {
        let opal = fdt.begin_node("ibm,opal")?;
        fdt.property_string("compatible", "ibm,opal-v3")?;
        fdt.property_u64("opal-base-address", self.firmware.start)?;
        fdt.property_u64("opal-entry-address", self.firmware.start)?;
        fdt.property_u64("opal-runtime-size", self.firmware.end - self.firmware.start)?;
        // The kernel polls for events at this interval. Without it, it would rely on an interrupt that never comes.
        fdt.property_u32("ibm,heartbeat-ms", HEARTBEAT_MS)?;
        let consoles = fdt.begin_node("consoles")?;
        fdt.property_u32("#address-cells", 1)?;
        fdt.property_u32("#size-cells", 0)?;
        let console = fdt.begin_node("serial@0")?;
        fdt.property_string("compatible", "ibm,opal-console-raw")?;
        fdt.property_string("device_type", "serial")?;
        fdt.property_u32("reg", 0)?;
        fdt.end_node(console)?;
        fdt.end_node(consoles)?;
        let power = fdt.begin_node("power-mgt")?;
        fdt.property_array_u32("ibm,cpu-idle-state-flags", &[sleep::FLAGS])?;
        fdt.property_array_u32("ibm,cpu-idle-state-latencies-ns", &[sleep::LATENCY])?;
        fdt.property_array_u32("ibm,cpu-idle-state-residency-ns", &[sleep::RESIDENCY])?;
        fdt.property_string("ibm,cpu-idle-state-names", sleep::NAME)?;
        fdt.property_array_u64("ibm,cpu-idle-state-psscr", &[sleep::DEPTH])?;
        fdt.property_array_u64("ibm,cpu-idle-state-psscr-mask", &[sleep::DEPTH_BITS])?;
        fdt.end_node(power)?;
        fdt.end_node(opal)
    }
}

fn cpu(fdt: &mut FdtWriter, number: u32) -> Result<(), Error> {
    let cpu = fdt.begin_node(&format!("PowerPC,POWER9@{number:x}"))?;
    fdt.property_string("device_type", "cpu")?;
    fdt.property_string("status", "okay")?;
    let names = ["reg", "ibm,ppc-interrupt-server#s", "ibm,pir"];
    let lines = ["d-cache-block-size", "i-cache-block-size", "d-cache-line-size", "i-cache-line-size"];
    let chip = [("ibm,chip-id", 0)];
    let numbers = names.map(|name| (name, number)).into_iter().chain(chip).chain(lines.map(|name| (name, CACHE_LINE))).chain([
        ("timebase-frequency", decrementer::HERTZ),
        ("clock-frequency", HERTZ),
        ("d-cache-size", CACHE),
        ("i-cache-size", CACHE),
        ("ibm,slb-size", 32),
        ("ibm,mmu-pid-bits", 20),
        ("ibm,mmu-lpid-bits", 12),
    ]);
    for (name, value) in numbers {
        fdt.property_u32(name, value)?;
    }
    // The page sizes are omitted, because the tree writer does not support the property's 32-character name. The kernel
    // then assumes 4 and 64 KiB.
    fdt.end_node(cpu)
}

fn features(fdt: &mut FdtWriter) -> Result<(), Error> {
    let features = fdt.begin_node("ibm,powerpc-cpu-features")?;
    fdt.property_string("compatible", "ibm,powerpc-cpu-features")?;
    fdt.property_string("device_type", "cpu-features")?;
    fdt.property_string("display-name", "POWER9")?;
    fdt.property_u32("isa", 3000)?;
    for (name, isa, whose, hypervisor, kernel, hypervisors_bit, kernels_bit, programs_bit) in FEATURES {
        let feature = fdt.begin_node(name)?;
        fdt.property_u32("isa", *isa)?;
        fdt.property_u32("usable-privilege", *whose)?;
        let further = [
            ("hv-support", hypervisor),
            ("os-support", kernel),
            ("hfscr-bit-nr", hypervisors_bit),
            ("fscr-bit-nr", kernels_bit),
            ("hwcap-bit-nr", programs_bit),
        ];
        for (name, value) in further {
            if let Some(value) = value {
                fdt.property_u32(name, *value)?;
            }
        }
        fdt.end_node(feature)?;
    }
    fdt.end_node(features)
}

/// The kernel requires an interrupt controller. No device is connected to it.
fn interrupts(fdt: &mut FdtWriter) -> Result<(), Error> {
    let controller = fdt.begin_node("interrupt-controller@0")?;
    fdt.property_string("compatible", "ibm,opal-intc")?;
    fdt.property_null("interrupt-controller")?;
    fdt.property_u32("#interrupt-cells", 2)?;
    fdt.property_array_u64("reg", &[0, 0])?;
    fdt.end_node(controller)
}

/// The LPC bus with the port that takes the exit status.
fn ports(fdt: &mut FdtWriter) -> Result<(), Error> {
    let bus = fdt.begin_node("lpc@0")?;
    fdt.property_string("compatible", "ibm,power8-lpc")?;
    fdt.property_null("primary")?;
    fdt.property_u32("ibm,chip-id", 0)?;
    fdt.end_node(bus)
}
