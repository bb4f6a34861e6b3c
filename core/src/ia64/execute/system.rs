//! Instructions of the kernel: status, TLB, register stack, `break` and `rfi`.

use super::super::run::Core;
use super::super::tlb::Purpose;
use super::super::{Fault, Host, isr, psr, vector};
use super::Next;
use trapline_isa::ia64::op::{Op, System, Tlb};

impl Core {
    /// Executes an instruction of the kernel. Instructions that are not known here are illegal.
    pub(super) fn system(&mut self, host: &mut impl Host, op: &Op) -> Result<Next, Fault> {
        let state = self.shared_state();
        match *op {
            Op::Break { number } => Err(Fault { vector: vector::BREAK, status: 0, address: 0, number }),
            Op::Mask { system, sets, mask } => {
                let mask = u64::from(mask);
                if system {
                    state.check_kernel()?;
                }
                if mask & !(if system { psr::SYSTEM_MASK } else { psr::USER_MASK }) != 0 {
                    return Err(Fault::general(isr::RESERVED));
                }
                let status = state.status.get();
                state.status.set(if sets { status | mask } else { status & !mask });
                Ok(Next::Look)
            }
            Op::System(what) => self.plain(host, what),
            Op::Tlb { what, a, b } => {
                if matches!(what, Tlb::ItrD | Tlb::ItrI) {
                    self.check_insertion()?;
                }
                state.check_kernel()?;
                let [a, b] = [state.number(a, 0)?, state.number(b, 0)?];
                match what {
                    Tlb::PtcL | Tlb::PtcG | Tlb::PtcGa => state.purge(a, b, [true, true], false),
                    Tlb::PtrD => state.purge(a, b, [false, true], true),
                    Tlb::PtrI => state.purge(a, b, [true, false], true),
                    Tlb::ItrD | Tlb::ItrI => {
                        state.insert_register(what == Tlb::ItrD, a, b)?;
                    }
                }
                Ok(Next::Look)
            }
            Op::InsertCache { data, from } => {
                self.check_insertion()?;
                state.check_kernel()?;
                state.insert_cached(data, state.number(from, 0)?)?;
                Ok(Next::Look)
            }
            Op::PurgeAll { .. } => {
                state.check_kernel()?;
                state.purge_all();
                Ok(Next::Look)
            }
            Op::FlushCache { at, .. } => {
                let address = state.number(at, isr::NA | isr::R)?;
                self.physical(address, 1, (true, false, isr::NA | 1))?;
                Ok(Next::Slot)
            }
            Op::Translate { name, to, at } => self.translated(name, to, at),
            Op::Probe { write, to, at, level } => {
                state.check_target(to)?;
                let (level, nat) = state.value(level);
                if nat {
                    return Err(Fault::nat(isr::NA | if write { isr::W } else { isr::R } | 2));
                }
                let allowed = self.probe([!write, write], at, level, 2)?;
                state.set_r(to, allowed.is_ok().into(), false);
                Ok(Next::Slot)
            }
            Op::ProbeFault { read, write, at, level } => {
                self.probe([read, write], at, level.into(), 5)??;
                Ok(Next::Slot)
            }
            Op::InvalidateEntry { float, register } => {
                let number = if float { state.alat_real(register) } else { state.alat_number(register) };
                state.alat.remove(number);
                Ok(Next::Slot)
            }
            _ => Err(Fault::ILLEGAL),
        }
    }

    /// Refuses an insertion while `psr.ic` is 1: an interruption could then overwrite the registers that it uses (IFA,
    /// ITIR).
    fn check_insertion(&self) -> Result<(), Fault> {
        if self.state().status.get() & psr::IC != 0 { Err(Fault::ILLEGAL) } else { Ok(()) }
    }

    /// Whether an access at a privilege level is allowed. The code says which instruction asks. The outer error is an interruption that `probe` raises in
    /// any case: there is no translation.
    fn probe(&mut self, access: [bool; 2], at: u8, level: u64, code: u64) -> Result<Result<(), Fault>, Fault> {
        let state = self.state();
        let [read, write] = access;
        let status = isr::NA | code;
        let address = state.number(at, status | if read { isr::R } else { 0 } | if write { isr::W } else { 0 })?;
        if state.status.get() & psr::DT == 0 {
            return Ok(Ok(()));
        }
        let level = (level & 3).max(state.level());
        match state.look_up(address, Purpose::Data { read, write, status }, level) {
            Ok(_) => Ok(Ok(())),
            Err(fault) if matches!(fault.vector, vector::DATA_RIGHTS | vector::DIRTY | vector::DATA_ACCESS) => Ok(Err(fault)),
            Err(fault) => Err(fault),
        }
    }

    fn translated(&mut self, name: &str, to: u8, at: u8) -> Result<Next, Fault> {
        let state = self.state();
        state.check_target(to)?;
        let address = state.r(at);
        let value = match name {
            // An entry of the short format.
            "thash" => {
                let table = state.control[8].get();
                let inside = (1_u64 << (table >> 2 & 0x3f).min(61)) - 1;
                let page = state.regions[(address >> 61) as usize].get() >> 2 & 0x3f;
                let entry = (address & (u64::MAX >> 3)) >> page << 3;
                address & 7 << 61 | table & (u64::MAX >> 3) & !0x7fff & !inside | entry & inside
            }
            "tpa" => {
                state.check_kernel().map_err(|fault| Fault { status: fault.status | isr::NA, ..fault })?;
                let address = state.number(at, isr::NA)?;
                state.translate(address, Purpose::Data { read: false, write: false, status: isr::NA }, 0)?
            }
            _ => return Err(Fault::ILLEGAL),
        };
        state.set_r(to, value, name == "thash" && state.is_nat(at));
        Ok(Next::Slot)
    }

    fn plain(&mut self, host: &mut impl Host, what: System) -> Result<Next, Fault> {
        let state = self.shared_state();
        match what {
            System::Fwb | System::Mf | System::MfA | System::SyncI => Ok(Next::Slot),
            System::SrlzD | System::SrlzI => Ok(Next::Look),
            System::Invala => {
                state.alat.clear();
                Ok(Next::Slot)
            }
            System::Flushrs => self.flush_stack(host).map(|()| Next::Slot),
            System::Loadrs => self.load_stack(host).map(|()| Next::Slot),
            System::Cover => {
                state.cover_for_return();
                Ok(Next::Look)
            }
            System::Clrrrb => {
                state.frame.set(state.frame.get() & super::super::frame::SIZES);
                Ok(Next::Slot)
            }
            System::ClrrrbPr => {
                state.frame.set(state.frame.get() & !(0x3f << 32));
                Ok(Next::Slot)
            }
            System::Rfi => {
                state.check_kernel()?;
                state.return_from_interruption();
                Ok(Next::There)
            }
            System::Bsw0 | System::Bsw1 => {
                state.check_kernel()?;
                let bank = if what == System::Bsw1 { psr::BN } else { 0 };
                state.set_psr(state.psr() & !psr::BN | bank);
                Ok(Next::Look)
            }
            System::Epc => {
                // Without translation a program becomes the kernel.
                let level = match state.status.get() & psr::IT {
                    0 => 0,
                    _ => state.gate_level(),
                };
                state.status.set(state.status.get() & !(3 << psr::CPL) | level << psr::CPL);
                Ok(Next::Look)
            }
            System::Vmsw0 | System::Vmsw1 => Err(Fault::ILLEGAL),
        }
    }
}
