//! Builds the device tree of the `wii` board: memory, one CPU and the devices.
//!
//! Bindings: Documentation/devicetree/bindings/powerpc/nintendo of Linux 6.1.

use super::RANDOM_SEED;
use super::device_tree::flattened;
use super::wii::{CASCADED_LINE, SERIAL_LINE, place};
use crate::devices::decrementer;
use crate::error::MachineError;
use std::ops::Range;
use vm_fdt::{Error, FdtWriter};

const HERTZ: u32 = 1_000_000_000;
const SERIAL_HERTZ: u32 = 1_843_200;
const CACHE_LINE: u32 = 32;
const CACHE: u32 = 32 << 10;
const CONTROLLER: u32 = 1;

/// The facts about the board that go into its tree.
#[derive(Clone, Debug)]
pub struct Tree<'a> {
    /// Size of RAM in bytes. RAM starts at 0.
    pub ram: u64,
    /// The kernel's command line, for `/chosen/bootargs`.
    pub command_line: &'a str,
    /// Range of the initramfs. Empty if there is none.
    pub initrd: Range<u64>,
}

impl Tree<'_> {
    /// The flattened tree.
    pub fn flatten(&self) -> Result<Vec<u8>, MachineError> {
        flattened(1, |fdt| self.write(fdt))
    }

    fn write(&self, fdt: &mut FdtWriter) -> Result<(), Error> {
        fdt.property_string("compatible", "nintendo,wii")?;
        fdt.property_string("model", "trapline wii")?;
        self.chosen(fdt)?;
        let memory = fdt.begin_node("memory@0")?;
        fdt.property_string("device_type", "memory")?;
        registers(fdt, &(0..self.ram))?;
        fdt.end_node(memory)?;
        cpus(fdt)?;
        devices(fdt)
    }

    fn chosen(&self, fdt: &mut FdtWriter) -> Result<(), Error> {
        let chosen = fdt.begin_node("chosen")?;
        fdt.property_string("bootargs", self.command_line)?;
        fdt.property_string("stdout-path", &format!("/hollywood/{}", node("serial", &place::SERIAL)))?;
        if !self.initrd.is_empty() {
            fdt.property_u32("linux,initrd-start", self.initrd.start as u32)?;
            fdt.property_u32("linux,initrd-end", self.initrd.end as u32)?;
        }
        fdt.property("rng-seed", RANDOM_SEED)?;
        fdt.end_node(chosen)
    }
}

fn cpus(fdt: &mut FdtWriter) -> Result<(), Error> {
    let cpus = fdt.begin_node("cpus")?;
    fdt.property_u32("#address-cells", 1)?;
    fdt.property_u32("#size-cells", 0)?;
    let cpu = fdt.begin_node("PowerPC,750@0")?;
    fdt.property_string("device_type", "cpu")?;
    let lines = ["d-cache-block-size", "i-cache-block-size", "d-cache-line-size", "i-cache-line-size"];
    let numbers = lines.map(|name| (name, CACHE_LINE)).into_iter().chain([
        ("reg", 0),
        ("timebase-frequency", decrementer::HERTZ),
        ("clock-frequency", HERTZ),
        ("d-cache-size", CACHE),
        ("i-cache-size", CACHE),
    ]);
    for (name, value) in numbers {
        fdt.property_u32(name, value)?;
    }
    fdt.end_node(cpu)?;
    fdt.end_node(cpus)
}

fn devices(fdt: &mut FdtWriter) -> Result<(), Error> {
    let bus = fdt.begin_node("hollywood")?;
    fdt.property_string("compatible", "nintendo,hollywood")?;
    fdt.property_u32("#address-cells", 1)?;
    fdt.property_u32("#size-cells", 1)?;
    fdt.property_null("ranges")?;
    fdt.property_u32("interrupt-parent", CONTROLLER)?;

    let flipper = fdt.begin_node(&node("processor-interface", &place::FLIPPER))?;
    fdt.property_string("compatible", "nintendo,flipper-pi")?;
    registers(fdt, &place::FLIPPER)?;
    let controller = fdt.begin_node("interrupt-controller")?;
    fdt.property_string("compatible", "nintendo,flipper-pic")?;
    fdt.property_phandle(CONTROLLER)?;
    fdt.property_null("interrupt-controller")?;
    fdt.property_u32("#interrupt-cells", 1)?;
    fdt.end_node(controller)?;
    fdt.end_node(flipper)?;

    let serial = fdt.begin_node(&node("serial", &place::SERIAL))?;
    fdt.property_string("device_type", "serial")?;
    fdt.property_string("compatible", "ns16550a")?;
    registers(fdt, &place::SERIAL)?;
    fdt.property_u32("interrupts", SERIAL_LINE)?;
    fdt.property_u32("clock-frequency", SERIAL_HERTZ)?;
    fdt.end_node(serial)?;

    let cascaded = fdt.begin_node(&node("interrupt-controller", &place::CASCADED))?;
    fdt.property_string("compatible", "nintendo,hollywood-pic")?;
    registers(fdt, &place::CASCADED)?;
    fdt.property_null("interrupt-controller")?;
    fdt.property_u32("#interrupt-cells", 1)?;
    fdt.property_u32("interrupts", CASCADED_LINE)?;
    fdt.end_node(cascaded)?;

    for (name, range) in [("control", &place::CONTROL), ("gpio", &place::PINS)] {
        let device = fdt.begin_node(&node(name, range))?;
        fdt.property_string("compatible", &format!("nintendo,hollywood-{name}"))?;
        registers(fdt, range)?;
        fdt.end_node(device)?;
    }
    fdt.end_node(bus)
}

fn node(name: &str, registers: &Range<u64>) -> String {
    format!("{name}@{:x}", registers.start)
}

fn registers(fdt: &mut FdtWriter, range: &Range<u64>) -> Result<(), Error> {
    fdt.property_array_u32("reg", &[range.start as u32, (range.end - range.start) as u32])
}
