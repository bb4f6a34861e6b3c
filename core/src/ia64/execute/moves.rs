//! Moves between general registers and branch, predicate, application, control and indexed registers, and `alloc`.

use super::super::frame::FRAME;
use super::super::run::Core;
use super::super::{Fault, Host, ar, cr, isr, psr};
use super::Next;
use trapline_isa::ia64::op::{File, Op};

impl Core {
    /// Executes a move or `alloc`; `None` for all other instructions.
    pub(super) fn moves(&mut self, host: &mut impl Host, op: &Op) -> Option<Result<Next, Fault>> {
        let state = self.shared_state();
        let set = |to: u8, value: u64| {
            state.check_target(to)?;
            state.set_r(to, value, false);
            Ok(Next::Slot)
        };
        Some(match *op {
            Op::MoveFromBranch { to, from } => set(to, state.branch[usize::from(from & 7)].get()),
            Op::MoveToBranch { to, from, .. } => state.number(from, 0).map(|value| {
                state.branch[usize::from(to & 7)].set(value);
                Next::Slot
            }),
            Op::MoveIp { to } => set(to, state.ip()),
            // Predicates are moved as if they were not rotated.
            Op::MovePredicates { to } => set(to, state.predicates.get()),
            Op::MoveToPredicates { from, mask } => state.number(from, 0).map(|value| {
                state.predicates.set(state.predicates.get() & !mask | value & mask | 1);
                Next::Slot
            }),
            Op::MoveToRotating { value } => {
                state.predicates.set(state.predicates.get() & 0xffff | value as u64 & !0xffff);
                Ok(Next::Slot)
            }
            Op::MoveFromAr { to, ar } => self.application_for(host, ar).and_then(|value| set(to, value)),
            Op::MoveToAr { ar, from } => self.check_engine(ar).and_then(|()| match state.value(from) {
                _ if ar == ar::BSP => Err(Fault::ILLEGAL),
                (_, true) => Err(Fault::nat(0)),
                (value, false) => self.set_application(ar, value).map(|()| Next::Slot),
            }),
            Op::MoveFromCr { to, cr } => state.check_target(to).and_then(|()| self.control(cr)).and_then(|value| set(to, value)),
            Op::MoveToCr { cr, from } => self.set_control(cr, from).map(|()| Next::Look),
            // `mov r = psr` reads bits 0 to 31, MC and IT. All other bits read as 0.
            Op::MoveFromPsr { user, to } => match user {
                true => set(to, state.status.get() & psr::USER_MASK),
                false => state
                    .check_target(to)
                    .and_then(|()| state.check_kernel())
                    .and_then(|()| set(to, state.status.get() & 0x18_ffff_ffff)),
            },
            Op::MoveToPsr { user, from } => self.set_status(user, from),
            Op::MoveFromFile { file, to, index } => {
                state.check_target(to).and_then(|()| self.indexed(file, index)).and_then(|value| set(to, value))
            }
            Op::MoveToFile { file, index, from } => self.set_indexed(file, index, from).map(|()| Next::Look),
            Op::Alloc { to, frame, locals, rotating } => self.alloc(host, to, [frame, locals, rotating]),
            _ => return None,
        })
    }

    /// Fails for reserved registers, and for BSPSTORE and RNAT unless the register stack engine is in enforced lazy mode (RSC.mode is 0).
    fn check_engine(&self, number: u8) -> Result<(), Fault> {
        if matches!(number, 8..=15 | 20 | 22 | 23 | 31 | 33..=35 | 37..=39 | 41..=43 | 46 | 47 | 67..=111) {
            return Err(Fault::ILLEGAL);
        }
        let lazy = self.state().application[usize::from(ar::RSC)].get() & 3 == 0;
        if matches!(number, ar::BSPSTORE | ar::RNAT) && !lazy { Err(Fault::ILLEGAL) } else { Ok(()) }
    }

    fn application_for(&mut self, host: &mut impl Host, number: u8) -> Result<u64, Fault> {
        self.check_engine(number)?;
        Ok(if number == ar::ITC { host.clock() } else { self.application(number) })
    }

    fn set_application(&mut self, number: u8, value: u64) -> Result<(), Fault> {
        let state = self.state();
        let cell = &state.application[usize::from(number & 127)];
        match number {
            0..=7 | ar::ITC if state.level() != 0 => return Err(Fault::general(isr::PRIVILEGED_REGISTER)),
            ar::BSPSTORE => state.store_at.set(value & !7),
            ar::RNAT => state.collection.set(value & (u64::MAX >> 1)),
            // The register stack engine (RSE) never gets more privilege than the code that writes RSC.pl.
            ar::RSC => cell.set(value & !0xc | (value >> 2 & 3).max(state.level()) << 2),
            ar::EC => cell.set(value & 0x3f),
            _ => cell.set(value),
        }
        Ok(())
    }

    /// Checks an access to a control register. The interruption registers (cr16 to cr27) are inaccessible while `psr.ic` is 1.
    fn check_control(&self, number: u8, writes: bool) -> Result<(), Fault> {
        let state = self.state();
        match number {
            3..=7 | 9..=15 | 18 | 28..=63 | 75..=79 | 82.. => Err(Fault::ILLEGAL),
            // The vector of an interrupt, and the pending interrupts.
            65 | 68..=71 if writes => Err(Fault::ILLEGAL),
            16..=27 if state.status.get() & psr::IC != 0 => Err(Fault::ILLEGAL),
            _ => state.check_kernel(),
        }
    }

    fn control(&self, number: u8) -> Result<u64, Fault> {
        self.check_control(number, false)?;
        let state = self.state();
        let register = usize::from(number & 127);
        Ok(match register {
            cr::IVR => state.take_interrupt(),
            cr::IRR..=71 => state.pending[register - cr::IRR].get(),
            cr::EOI => 0,
            _ => state.control[register].get(),
        })
    }

    fn set_control(&self, number: u8, from: u8) -> Result<(), Fault> {
        self.check_control(number, true)?;
        let state = self.state();
        let value = state.number(from, 0)?;
        match usize::from(number & 127) {
            cr::EOI => state.end_interrupt(),
            register => state.control[register].set(value),
        }
        Ok(())
    }

    fn set_status(&self, user: bool, from: u8) -> Result<Next, Fault> {
        let state = self.state();
        if !user {
            state.check_kernel()?;
        }
        let value = state.number(from, 0)?;
        let mask = if user { psr::USER_MASK } else { 0xffff_ffff };
        state.status.set(state.status.get() & !mask | value & mask);
        Ok(Next::Look)
    }

    /// The cell of a register that can be read and written but has no effect: breakpoints, protection keys, and performance
    /// monitors.
    fn kept(&self, file: File, index: u64) -> Result<&core::cell::Cell<u64>, Fault> {
        let number = match file {
            File::Dbr => 0,
            File::Ibr => 1,
            File::Pkr => 2,
            File::Pmc => 3,
            File::Pmd => 4,
            _ => return Err(Fault::ILLEGAL),
        };
        self.state().kept[number].get((index & 0xff) as usize).ok_or(Fault::general(isr::RESERVED))
    }

    fn indexed(&self, file: File, index: u8) -> Result<u64, Fault> {
        let state = self.state();
        if !matches!(file, File::Cpuid | File::Pmd) {
            state.check_kernel()?;
        }
        let index = state.number(index, 0)?;
        if file == File::Cpuid {
            // Vendor, serial number, version with the number of the last word, and features: long branches.
            let words = [0x4965_6e69_756e_6547, 0x6c65_746e, 0, 0x1f01_0504, 1];
            return words.get((index & 0xff) as usize).copied().ok_or(Fault::general(isr::RESERVED));
        }
        match file {
            File::Rr => Ok(state.regions[(index >> 61) as usize].get()),
            _ => self.kept(file, index).map(core::cell::Cell::get),
        }
    }

    fn set_indexed(&self, file: File, index: u8, from: u8) -> Result<(), Fault> {
        let state = self.state();
        state.check_kernel()?;
        let [index, value] = [state.number(index, 0)?, state.number(from, 0)?];
        match file {
            File::Rr => {
                state.regions[(index >> 61) as usize].set(value);
                state.has_changed();
            }
            _ => self.kept(file, index)?.set(value),
        }
        Ok(())
    }

    /// Executes `alloc`: resizes the current frame, whose bottom stays. If the register stack has no room for the frame, the
    /// oldest registers are stored first.
    fn alloc(&mut self, host: &mut impl Host, to: u8, sizes: [u8; 3]) -> Result<Next, Fault> {
        let state = self.shared_state();
        let [size, locals, rotating] = sizes.map(u64::from);
        if size > 96 || locals > size || rotating > size || to == 0 || u64::from(to) >= 32 + size {
            return Err(Fault::ILLEGAL);
        }
        let frame = state.frame.get();
        let has_rotated = frame >> 18 & (FRAME >> 18) != 0;
        if has_rotated && frame >> 14 & 0xf != rotating / 8 {
            return Err(Fault::general(isr::RESERVED));
        }
        self.make_room(host, size as u32)?;
        state.frame.set(frame & !super::super::frame::SIZES | size | locals << 7 | (rotating / 8) << 14);
        state.set_r(to, state.application[usize::from(ar::PFS)].get(), false);
        Ok(Next::Slot)
    }
}
