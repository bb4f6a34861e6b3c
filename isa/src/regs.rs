//! Registers of one CPU, read and written one at a time.

/// The number of a register. The constants are in each ISA's `abi.rs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Reg(pub u8);

/// The registers of one stopped CPU. Values are zero-extended to 64 bits.
///
/// The pc is the address of the next instruction to run; it has no trap bias.
pub trait Registers {
    /// The value of a register; 0 if this CPU does not have it.
    fn get(&self, reg: Reg) -> u64;
    /// Sets a register. Ignored if the register cannot be set from here.
    fn set(&mut self, reg: Reg, value: u64);
    /// Reads several named registers in one call.
    fn get_all(&self, names: &[(&str, Reg)], values: &mut [u64]) {
        get_each(self, names, values);
    }
    /// Restores several registers, and sets only those whose value has changed: not every register can be set from
    /// here.
    fn put_back(&mut self, names: &[(&str, Reg)], values: &[u64]) {
        put_back_each(self, names, values);
    }
    /// The program counter.
    fn pc(&self) -> u64;
    /// Sets the program counter.
    fn set_pc(&mut self, pc: u64);
}

/// [`Registers::get_all`], one register at a time.
pub fn get_each<R: Registers + ?Sized>(regs: &R, names: &[(&str, Reg)], values: &mut [u64]) {
    for (value, (_, reg)) in values.iter_mut().zip(names) {
        *value = regs.get(*reg);
    }
}

/// [`Registers::put_back`], one register at a time.
pub fn put_back_each<R: Registers + ?Sized>(regs: &mut R, names: &[(&str, Reg)], values: &[u64]) {
    for (value, (_, reg)) in values.iter().zip(names) {
        if regs.get(*reg) != *value {
            regs.set(*reg, *value);
        }
    }
}
