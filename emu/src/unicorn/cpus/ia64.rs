//! IA-64, which Unicorn does not have: attaches the core of our own (`trapline-core`) and names the fields of its state.

use crate::unicorn::engine::Handle;
use crate::unicorn::kinds::Library;
use crate::unicorn::line;
use crate::unicorn::own::{self, OwnCore, OwnHost, own_core};
use crate::unicorn::ram::Ram;
use core::ffi::c_void;
use core::mem::offset_of;
use trapline_core::ia64::{Core, SAVED, State};

/// Offsets of fields of the state.
pub mod at {
    use super::{State, offset_of};

    /// The pc.
    pub const PC: usize = offset_of!(State, pc);
    /// The processor status, without the slot's number.
    pub const STATUS: usize = offset_of!(State, status);
    /// The control registers.
    pub const CONTROL: usize = offset_of!(State, control);
}

/// The core sets the pc before it calls a device.
unsafe extern "C" fn device_access_pc(state: *mut c_void, pc: *mut u64) -> bool {
    // SAFETY: the state of a core of this kind, and a variable of the caller's.
    unsafe { pc.write((*state.cast::<State>()).pc.get()) };
    true
}
static LAYOUT: line::Layout = line::Layout::of_own(device_access_pc);

/// The core as a build of Unicorn.
pub static LIBRARY: Library = own::library(8, &LAYOUT);

/// Makes the core.
pub fn make(ram: &Ram) -> Box<dyn OwnCore> {
    Box::new(Core::with_ram(ram.base(), ram.len()))
}

own_core!(Core, State, SAVED, |state| {
    // The other CPU may have stored to the addresses of this one's advanced loads. A CPU may lose entries of its ALAT at any time.
    state.alat.clear();
});

impl Handle {
    /// The state of an IA-64 core.
    pub fn ia64(&self) -> Option<&State> {
        // SAFETY: only cores of this kind have such a state, which consists of cells and outlives the handle.
        core::ptr::eq(self.kind().library, &raw const LIBRARY).then(|| unsafe { &*self.own_state().cast::<State>() })
    }
}
