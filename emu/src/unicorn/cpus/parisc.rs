//! PA-RISC, which Unicorn does not have: attaches the core of our own (`trapline-core`) and names the fields of its state.

use crate::unicorn::engine::Handle;
use crate::unicorn::kinds::Library;
use crate::unicorn::line;
use crate::unicorn::own::{self, OwnCore, OwnHost, own_core};
use crate::unicorn::ram::Ram;
use core::ffi::c_void;
use core::mem::offset_of;
use trapline_core::parisc::{Core, SAVED, State};

/// Offsets of fields of the state.
pub mod at {
    use super::{State, offset_of};

    /// The front of the instruction address queue, which is the pc. The back follows it.
    pub const FRONT: usize = offset_of!(State, front);
    /// Whether the instruction at the front is nullified (PSW bit N).
    pub const NULLIFY: usize = offset_of!(State, nullify);
    /// The other bits of the PSW.
    pub const STATUS: usize = offset_of!(State, status);
    /// The privilege level of the front.
    pub const LEVEL: usize = offset_of!(State, front_level);
    /// The control registers.
    pub const CONTROL: usize = offset_of!(State, control);
    /// The instruction word at the last exception.
    pub const WORD: usize = offset_of!(State, word);
    /// The data address at the last exception.
    pub const ADDRESS: usize = offset_of!(State, at);
    /// The probe window: virtual start, size in bytes, physical address.
    pub const WINDOW: usize = offset_of!(State, window);
}

/// The core sets the front of the queue before it calls a device.
unsafe extern "C" fn device_access_pc(state: *mut c_void, pc: *mut u64) -> bool {
    // SAFETY: the state of a core of this kind, and a variable of the caller's.
    unsafe { pc.write((*state.cast::<State>()).front.get().into()) };
    true
}
static LAYOUT: line::Layout = line::Layout::of_own(device_access_pc);

/// The core as a build of Unicorn.
pub static LIBRARY: Library = own::library(4, &LAYOUT);

/// Makes the core.
pub fn make(ram: &Ram) -> Box<dyn OwnCore> {
    Box::new(Core::new(ram.base(), ram.len()))
}

own_core!(Core, State, SAVED, |_| ());

impl Handle {
    /// The state of a PA-RISC core.
    pub fn parisc(&self) -> Option<&State> {
        // SAFETY: only cores of this kind have such a state, which consists of cells and outlives the handle.
        core::ptr::eq(self.kind().library, &raw const LIBRARY).then(|| unsafe { &*self.own_state().cast::<State>() })
    }
}
