//! The state of a CPU, and the delivery of interruptions. All fields are cells: the host reads and changes them while
//! the core runs.

use super::psw;
use super::tlb::{Blocks, Tlb};
use crate::Line;
use alloc::rc::Rc;
use core::cell::Cell;
use core::mem::offset_of;

/// Numbers of interruptions, which are their places in the vector table, and numbers of control registers.
pub mod number {
    /// An external interrupt, which the instruction at the front has not caused.
    pub const EXTERNAL: u32 = 4;
    /// No translation of the address of an instruction.
    pub const CODE_MISS: u32 = 6;
    /// The page's rights forbid to execute it.
    pub const CODE_RIGHTS: u32 = 7;
    /// The word is no instruction, or there is no RAM at the pc.
    pub const ILLEGAL: u32 = 8;
    /// `break`.
    pub const BREAK: u32 = 9;
    /// A privileged instruction in a program.
    pub const PRIVILEGED: u32 = 10;
    /// A privileged register in a program.
    pub const PRIVILEGED_REGISTER: u32 = 11;
    /// A signed overflow.
    pub const OVERFLOW: u32 = 12;
    /// A condition of an instruction that traps on it.
    pub const CONDITIONAL: u32 = 13;
    /// No translation of a data address.
    pub const DATA_MISS: u32 = 15;
    /// No translation of the address of `probe`, `lpa` or a flush.
    pub const OTHER_MISS: u32 = 17;
    /// A store to a page whose dirty bit is clear.
    pub const DIRTY: u32 = 20;
    /// A floating-point or coprocessor instruction.
    pub const ASSIST: u32 = 22;
    /// The page's rights forbid the access.
    pub const DATA_RIGHTS: u32 = 26;
    /// The page's protection identifier is none of the CPU's.
    pub const DATA_IDENTIFIER: u32 = 27;
    /// An address that is no multiple of the access's size.
    pub const UNALIGNED: u32 = 28;

    /// The shift amount.
    pub const SAR: usize = 11;
    /// The address of the interruption vector table.
    pub const IVA: usize = 14;
    /// The mask of external interrupts.
    pub const EIEM: usize = 15;
    /// The interval timer. A read returns the time, and a write sets the comparator, which cannot be read.
    pub const ITMR: usize = 16;
    /// The spaces that an interruption saves: the front one, then the back one.
    pub const IIASQ: usize = 17;
    /// The addresses that an interruption saves: the front one, then the back one.
    pub const IIAOQ: usize = 18;
    /// The instruction that raised the interruption.
    pub const IIR: usize = 19;
    /// The space of the data address.
    pub const ISR: usize = 20;
    /// The data address.
    pub const IOR: usize = 21;
    /// The PSW that an interruption saves.
    pub const IPSW: usize = 22;
    /// The pending external interrupts.
    pub const EIRR: usize = 23;

    /// The word of `mtctl r0` to a control register, which names the register for the machine.
    pub const fn word_of(register: usize) -> u32 {
        (register as u32) << 21 | 0x1840
    }
    /// The word of `mtctl r0,eirr`.
    pub const EIRR_WORD: u32 = word_of(EIRR);
}

/// The registers that an interruption copies to the shadow registers.
const SHADOWED: [usize; 7] = [1, 8, 9, 16, 17, 24, 25];

/// The state of a CPU.
#[repr(C)]
#[derive(Debug, Default)]
pub struct State {
    /// The general registers. Number 0 is always 0.
    pub general: [Cell<u32>; 32],
    /// The address at the front of the queue, without its privilege level: the next instruction to run.
    pub front: Cell<u32>,
    /// The address at the back of the queue, without its privilege level: the instruction behind that one.
    pub back: Cell<u32>,
    /// The upper half of [`State::back`] for hosts that access it as 64 bits. The core only clears it.
    pub above_back: Cell<u32>,
    /// The space of the address at the front.
    pub front_space: Cell<u32>,
    /// The space of the address at the back.
    pub back_space: Cell<u32>,
    /// The privilege level of the instruction at the front, 0 (the kernel) to 3.
    pub front_level: Cell<u32>,
    /// The privilege level of the instruction at the back.
    pub back_level: Cell<u32>,
    /// PSW N: 1 if the instruction at the front is nullified.
    pub nullify: Cell<u32>,
    /// The PSW's carries out of the eight digits, each at the digit's highest bit.
    pub carries: Cell<u32>,
    /// PSW V, which divide steps use: 0 or 1.
    pub divides: Cell<u32>,
    /// The other bits of the PSW.
    pub status: Cell<u32>,
    /// The space registers.
    pub spaces: [Cell<u32>; 8],
    /// The control registers.
    pub control: [Cell<u32>; 32],
    /// The back elements of IIASQ and IIAOQ. The front elements are in `control`.
    pub saved_back: [Cell<u32>; 2],
    /// The shadow registers.
    pub shadows: [Cell<u32>; 7],
    /// The next TLB entry to replace.
    pub replace: Cell<u32>,
    /// The page entries of the TLB.
    pub tlb: Tlb,
    /// The TLB's entries of many pages.
    pub blocks: Blocks,
    // The fields from here on do not belong to a CPU: they are not in the first `SAVED` bytes.
    /// The word of the instruction that raised the last exception. It becomes IIR when the exception is delivered, as
    /// `at_space` and `at` become ISR and IOR. The host may take the exception instead, as for a probe's breakpoint, and
    /// then the guest's registers must not show it.
    pub word: Cell<u32>,
    /// The space of the data address of the last exception.
    pub at_space: Cell<u32>,
    /// The data address of the last exception.
    pub at: Cell<u32>,
    /// The number of the register that a read of the clock sets.
    pub clock_to: Cell<u32>,
    /// 1 to leave [`super::Core::run`] before the next block.
    pub stop: Cell<u32>,
    /// The window of the machine's own code: start, bytes, and physical address. Instructions there are fetched from it
    /// in space 0 at level 0, without the TLB.
    pub window: [Cell<u32>; 3],
    /// The count of executed bytes, by which the host knows the time.
    pub line: Line,
}

/// The bytes at the start of the state that belong to a CPU. The rest belongs to the core that runs it.
pub const SAVED: usize = offset_of!(State, word);

impl State {
    /// A CPU after reset.
    pub fn new() -> Rc<State> {
        Rc::default()
    }

    /// The whole PSW.
    pub fn psw(&self) -> u32 {
        let carries = (0..8).fold(0, |all, digit| all | (self.carries.get() >> (4 * digit + 3) & 1) << (digit + 8));
        self.status.get() | self.nullify.get() << 21 | self.divides.get() << 17 | carries
    }

    /// Sets the whole PSW.
    pub fn set_psw(&self, value: u32) {
        self.nullify.set(value >> 21 & 1);
        self.divides.set(value >> 17 & 1);
        self.carries.set((0..8).fold(0, |all, digit| all | (value >> (digit + 8) & 1) << (4 * digit + 3)));
        self.status.set(value & !(psw::N | psw::V | psw::CARRIES));
    }

    /// Sets the queue to an address and the next one, in the space and at the level of the front.
    pub fn go_to(&self, address: u32) {
        self.front.set(address);
        self.back.set(address.wrapping_add(4));
        self.above_back.set(0);
        self.back_space.set(self.front_space.get());
        self.back_level.set(self.front_level.get());
    }

    /// Delivers an interruption: saves the PSW, the queue, the cause and the shadow registers, and continues at the
    /// vector. While PSW Q is 0, only the PSW is saved.
    pub fn interrupt(&self, vector: u32) {
        let status = self.psw();
        self.control[number::IPSW].set(status);
        if self.status.get() & psw::Q != 0 {
            self.control[number::IIASQ].set(self.front_space.get());
            self.control[number::IIAOQ].set(self.front.get() | self.front_level.get());
            self.saved_back[0].set(self.back_space.get());
            self.saved_back[1].set(self.back.get() | self.back_level.get());
            if vector != number::EXTERNAL {
                self.control[number::IIR].set(self.word.get());
            }
            if vector != number::EXTERNAL && vector != number::BREAK && vector != number::ILLEGAL {
                self.control[number::ISR].set(self.at_space.get());
                self.control[number::IOR].set(self.at.get());
            }
            for (shadow, reg) in self.shadows.iter().zip(SHADOWED) {
                shadow.set(self.general[reg].get());
            }
        }
        self.set_psw(0);
        self.front_space.set(0);
        self.front_level.set(0);
        self.go_to((self.control[number::IVA].get() & !0x7ff).wrapping_add(32 * vector));
    }

    /// Ends an interruption (`rfi`): restores the PSW and the queue. `restores` is true for `rfi,r`, which also restores
    /// the shadow registers.
    pub(super) fn return_from_interruption(&self, restores: bool) {
        if restores {
            for (shadow, reg) in self.shadows.iter().zip(SHADOWED) {
                self.general[reg].set(shadow.get());
            }
        }
        self.set_psw(self.control[number::IPSW].get());
        let [front, back] = [self.control[number::IIAOQ].get(), self.saved_back[1].get()];
        self.front.set(front & !3);
        self.back.set(back & !3);
        self.front_level.set(front & 3);
        self.back_level.set(back & 3);
        self.front_space.set(self.control[number::IIASQ].get());
        self.back_space.set(self.saved_back[0].get());
    }
}
