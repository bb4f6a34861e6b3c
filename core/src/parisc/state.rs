//! The state of a CPU. All fields are cells: the host looks at them, and changes them, while the core runs.

use super::psw;
use super::tlb::{Blocks, Tlb};
use crate::Line;
use alloc::rc::Rc;
use core::cell::Cell;
use core::mem::offset_of;

/// Numbers of interruptions and of control registers.
pub mod number {
    /// Interruptions by their place in the vector table.
    pub const EXTERNAL: u32 = 4;
    /// No translation of the address of an instruction.
    pub const CODE_MISS: u32 = 6;
    /// The page's rights forbid to execute it.
    pub const CODE_RIGHTS: u32 = 7;
    /// No instruction.
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
    /// The interval timer.
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
}

/// The registers that an interruption copies to the shadow registers.
const SHADOWED: [usize; 7] = [1, 8, 9, 16, 17, 24, 25];

/// The state of a CPU.
#[repr(C)]
#[derive(Debug, Default)]
pub struct State {
    /// The general registers. Number 0 is always 0.
    pub general: [Cell<u32>; 32],
    /// The addresses of the queue without privilege levels: front and back.
    pub front: Cell<u32>,
    /// See [`State::front`].
    pub back: Cell<u32>,
    /// Behind the back, for hosts that set it as a number of 64 bits. The CPU does not look at it.
    pub above_back: Cell<u32>,
    /// The spaces of the queue.
    pub front_space: Cell<u32>,
    /// See [`State::front_space`].
    pub back_space: Cell<u32>,
    /// The privilege levels of the queue, 0 to 3.
    pub front_level: Cell<u32>,
    /// See [`State::front_level`].
    pub back_level: Cell<u32>,
    /// 1 if the instruction at the front is nullified.
    pub nullify: Cell<u32>,
    /// The carries out of the eight digits, each at the digit's highest bit.
    pub carries: Cell<u32>,
    /// The divide step's bit.
    pub divides: Cell<u32>,
    /// The other bits of the PSW.
    pub status: Cell<u32>,
    /// The space registers.
    pub spaces: [Cell<u32>; 8],
    /// The control registers.
    pub control: [Cell<u32>; 32],
    /// The back of the saved spaces and addresses.
    pub saved_back: [Cell<u32>; 2],
    /// The shadow registers.
    pub shadows: [Cell<u32>; 7],
    /// The next TLB entry to replace.
    pub replace: Cell<u32>,
    /// The TLB.
    pub tlb: Tlb,
    /// The TLB's entries of many pages.
    pub blocks: Blocks,
    // From here on nothing belongs to the CPU that is saved and restored.
    /// The word of the last exception and its data address: they become registers when it is delivered. A breakpoint that the
    /// host takes is none of the guest's exceptions, so a CPU's state is without them.
    pub word: Cell<u32>,
    /// The space of that address.
    pub at_space: Cell<u32>,
    /// The address.
    pub at: Cell<u32>,
    /// The number of the register that a read of the clock sets.
    pub clock_to: Cell<u32>,
    /// 1 to leave [`super::Core::run`] before the next block.
    pub stop: Cell<u32>,
    /// The window of the machine's own code: start, bytes, and physical address. Instructions there are fetched from it
    /// in space 0 at level 0, without the TLB.
    pub window: [Cell<u32>; 3],
    /// The words in which blocks count time.
    pub line: Line,
}

/// The bytes of the state that belong to a CPU. The rest belongs to the core that runs it.
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

    /// Sets the queue to an address and the one behind it, in the space and at the level of the front.
    pub fn go_to(&self, address: u32) {
        self.front.set(address);
        self.back.set(address.wrapping_add(4));
        self.above_back.set(0);
        self.back_space.set(self.front_space.get());
        self.back_level.set(self.front_level.get());
    }

    /// Delivers an interruption: saves the queue and the PSW, and continues at the vector.
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

    /// Ends an interruption.
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
