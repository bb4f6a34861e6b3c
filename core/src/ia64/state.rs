//! The state of a CPU. All fields are cells: the host reads and changes them while the core runs.

use super::alat::Alat;
use super::tlb::Tlb;
use super::{ar, psr};
use crate::Line;
use alloc::boxed::Box;
use alloc::rc::Rc;
use core::cell::Cell;

pub use trapline_isa::ia64::bundle::SLOT_STEP;

/// Registers in the stacked part of the general registers.
pub const STACKED: u32 = 96;

/// A floating-point register: the significand, then the exponent of 17 bits with the sign above it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Real {
    /// The significand.
    pub significand: u64,
    /// The exponent, and the sign in bit 17.
    pub exponent: u64,
}

impl Real {
    /// The exponent of an integer in a floating-point register.
    pub const INTEGER: u64 = 0x1003e;
    /// The contents that stand for a deferred interruption.
    pub const NAT: Real = Real { significand: 0, exponent: 0x1fffe };

    /// An integer.
    pub const fn integer(value: u64) -> Real {
        Real { significand: value, exponent: Real::INTEGER }
    }
}

/// The state of a CPU.
#[repr(C)]
#[derive(Debug)]
pub struct State {
    /// The static general registers of the bank in use. Number 0 is always 0.
    pub general: [Cell<u64>; 32],
    /// Registers 16 to 31 of the other bank.
    pub banked: [Cell<u64>; 16],
    /// The stacked registers in their physical order.
    pub stacked: [Cell<u64>; STACKED as usize],
    /// The NaT bits of `general`.
    pub nat: Cell<u32>,
    /// The NaT bits of `banked`.
    pub banked_nat: Cell<u32>,
    /// The NaT bits of `stacked`, 48 in each word.
    pub stacked_nat: [Cell<u64>; 2],
    /// The physical number of register 32, before rotation.
    pub bottom: Cell<u32>,
    /// Registers below the frame that are not in the backing store yet. A negative number counts registers of the
    /// frame that must be loaded from it: the frame is incomplete.
    pub dirty: Cell<i32>,
    /// 1 if the register stack engine (RSE) loads the registers of an incomplete frame before the next instruction. An
    /// interruption clears it, and `rfi` and `br.ret` set it.
    pub loads: Cell<u32>,
    /// Always 0. Without it the compiler would leave a gap whose bytes differ from run to run.
    pub gap: Cell<u32>,
    /// The current frame marker.
    pub frame: Cell<u64>,
    /// The predicates, before rotation. Bit 0 is always 1.
    pub predicates: Cell<u64>,
    /// The branch registers.
    pub branch: [Cell<u64>; 8],
    /// The floating-point registers, before rotation.
    pub real: [Cell<Real>; 128],
    /// The application registers. Those of the register stack are in fields of their own.
    pub application: [Cell<u64>; 128],
    /// The address of the next store of the register stack engine.
    pub store_at: Cell<u64>,
    /// The NaT bits of the collection that the RSE fills (`ar.rnat`).
    pub collection: Cell<u64>,
    /// The control registers.
    pub control: [Cell<u64>; 128],
    /// Pending external interrupts.
    pub pending: [Cell<u64>; 4],
    /// External interrupts in service.
    pub serviced: [Cell<u64>; 4],
    /// The processor status, without the slot's number.
    pub status: Cell<u64>,
    /// The instruction that runs next: the bundle's address plus 6 for each slot in front of it. Instructions of 6, 6 and 4
    /// bytes would have these addresses.
    pub pc: Cell<u64>,
    /// The last bundle in which an instruction has completed.
    pub last: Cell<u64>,
    /// The region registers.
    pub regions: [Cell<u64>; 8],
    /// Protection keys, breakpoints and performance monitors: registers that the core keeps and does not use.
    pub kept: [[Cell<u64>; 16]; 5],
    /// The translation registers and the translation cache, for code and for data.
    pub tlb: Tlb,
    /// The advanced load address table.
    pub alat: Alat,
    // The fields from here on do not belong to a CPU.
    /// Incremented when a translation may have gone.
    pub changes: Cell<u64>,
    /// The status bits of the last interruption, without the slot's number.
    pub fault_status: Cell<u64>,
    /// The address of the last interruption.
    pub fault_address: Cell<u64>,
    /// The number of the last `break`.
    pub fault_number: Cell<u64>,
    /// The value of `last` before the last hit of a probe, which the host keeps here.
    pub before_hit: Cell<u64>,
    /// 1 to leave [`super::Core::run`] before the next instruction.
    pub stop: Cell<u32>,
    /// Instructions that have run, also those with a false predicate.
    pub executed: Cell<u64>,
    /// The words in which blocks count bytes.
    pub line: Line,
    /// The probe window, which the guest's translations do not reach: virtual start, size in bytes, physical address.
    pub window: [Cell<u64>; 3],
}

/// Bytes at the start of [`State`] that belong to a CPU.
pub const SAVED: usize = core::mem::offset_of!(State, changes);

impl State {
    /// A CPU after reset, in physical mode at the highest privilege level.
    pub fn new() -> Rc<State> {
        let zeros = || core::array::from_fn(|_| Cell::new(0));
        let state = State {
            general: core::array::from_fn(|_| Cell::new(0)),
            banked: zeros(),
            stacked: core::array::from_fn(|_| Cell::new(0)),
            nat: Cell::new(0),
            banked_nat: Cell::new(0),
            stacked_nat: [const { Cell::new(0) }; 2],
            bottom: Cell::new(0),
            dirty: Cell::new(0),
            loads: Cell::new(0),
            gap: Cell::new(0),
            frame: Cell::new(0),
            predicates: Cell::new(1),
            branch: [const { Cell::new(0) }; 8],
            real: core::array::from_fn(|_| Cell::new(Real::default())),
            application: core::array::from_fn(|_| Cell::new(0)),
            store_at: Cell::new(0),
            collection: Cell::new(0),
            control: core::array::from_fn(|_| Cell::new(0)),
            pending: [const { Cell::new(0) }; 4],
            serviced: [const { Cell::new(0) }; 4],
            status: Cell::new(0),
            pc: Cell::new(0),
            last: Cell::new(0),
            regions: [const { Cell::new(0) }; 8],
            kept: core::array::from_fn(|_| core::array::from_fn(|_| Cell::new(0))),
            tlb: Tlb::default(),
            alat: Alat::default(),
            changes: Cell::new(0),
            fault_status: Cell::new(0),
            fault_address: Cell::new(0),
            fault_number: Cell::new(0),
            before_hit: Cell::new(0),
            stop: Cell::new(0),
            executed: Cell::new(0),
            line: Line::default(),
            window: [const { Cell::new(0) }; 3],
        };
        state.real[1].set(Real { significand: 1 << 63, exponent: 0xffff });
        // The floating-point status after reset: all interruptions are masked.
        state.application[usize::from(ar::FPSR)].set(0x0009_804c_0270_033f);
        Rc::from(Box::new(state))
    }

    /// The whole processor status, with the slot's number.
    pub fn psr(&self) -> u64 {
        self.status.get() | u64::from(self.slot()) << psr::RI
    }

    /// Sets the processor status and the slot's number. A change of the bank exchanges the banked registers.
    pub fn set_psr(&self, value: u64) {
        let new = value & !(3 << psr::RI);
        if (self.status.get() ^ new) & psr::BN != 0 {
            self.exchange_banks();
        }
        self.status.set(new);
        self.set_slot(((value >> psr::RI & 3) as u32).min(2));
    }

    fn exchange_banks(&self) {
        for (own, other) in self.general[16..].iter().zip(&self.banked) {
            own.swap(other);
        }
        let nat = self.nat.get();
        self.nat.set(nat & 0xffff | self.banked_nat.get() << 16);
        self.banked_nat.set(nat >> 16);
    }

    /// The current privilege level, 0 (the kernel) to 3.
    #[inline(always)]
    pub fn level(&self) -> u64 {
        self.status.get() >> psr::CPL & 3
    }

    /// Continues at a bundle's first slot.
    #[inline(always)]
    pub fn go_to(&self, ip: u64) {
        self.pc.set(ip & !15);
    }

    /// The address of the bundle.
    #[inline(always)]
    pub fn ip(&self) -> u64 {
        self.pc.get() & !15
    }

    /// The number of the slot that runs next.
    #[inline(always)]
    pub fn slot(&self) -> u32 {
        (self.pc.get() as u32 & 15) / SLOT_STEP
    }

    /// Continues at another slot of the bundle.
    #[inline(always)]
    pub fn set_slot(&self, slot: u32) {
        self.pc.set(self.ip() | u64::from(slot * SLOT_STEP));
    }
}
