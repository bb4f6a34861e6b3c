//! The register file as everyone reads and writes it: lazily, one register at a time.

/// A register of some ISA; the constants stand in that ISA's `abi.rs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Reg(pub u8);

/// The registers of one stopped CPU. Values are zero-extended to 64 bits.
///
/// The pc is the address of the instruction that runs next, with no bias of any trap.
pub trait Registers {
    /// The value of a register; 0 for one that the machine does not have.
    fn get(&self, reg: Reg) -> u64;
    /// Sets a register; ignored for one that cannot be set from here.
    fn set(&mut self, reg: Reg, value: u64);
    /// The values of several registers that have names: one call for all of them.
    fn get_all(&self, names: &[(&str, Reg)], values: &mut [u64]) {
        get_each(self, names, values);
    }
    /// Sets those of them whose values are others now. Not all registers can be set from everywhere; what has not
    /// changed needs no setting.
    fn put_back(&mut self, names: &[(&str, Reg)], values: &[u64]) {
        put_back_each(self, names, values);
    }
    /// Where execution goes on.
    fn pc(&self) -> u64;
    /// Makes execution go on elsewhere.
    fn set_pc(&mut self, pc: u64);
}

/// [`Registers::get_all`], one by one.
pub fn get_each<R: Registers + ?Sized>(regs: &R, names: &[(&str, Reg)], values: &mut [u64]) {
    for (value, (_, reg)) in values.iter_mut().zip(names) {
        *value = regs.get(*reg);
    }
}

/// [`Registers::put_back`], one by one.
pub fn put_back_each<R: Registers + ?Sized>(regs: &mut R, names: &[(&str, Reg)], values: &[u64]) {
    for (value, (_, reg)) in values.iter().zip(names) {
        if regs.get(*reg) != *value {
            regs.set(*reg, *value);
        }
    }
}
