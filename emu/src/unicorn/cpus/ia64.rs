//! IA-64, which Unicorn does not have: attaches the core of our own (`trapline-core`) and names the fields of its state.

use crate::unicorn::engine::Handle;
use crate::unicorn::kinds::{Library, Register};
use crate::unicorn::line;
use crate::unicorn::own::{OwnCore, OwnHost};
use crate::unicorn::ram::Ram;
use crate::unicorn::stores::Layout;
use core::ffi::c_void;
use core::mem::offset_of;
use core::ptr::from_ref;
use std::sync::OnceLock;
use trapline_core::Line;
use trapline_core::ia64::{Core, SAVED, State};
use unicorn_engine_sys::{Arch, Mode};

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

extern "C" fn no_invalidation(_: *mut c_void, _: usize, _: usize) {}
extern "C" fn no_address(_: *mut c_void, _: *mut c_void) -> usize {
    usize::MAX
}
extern "C" fn no_guard(_: *mut c_void, _: usize, _: usize) {}
/// The core sets the pc before it calls a device.
unsafe extern "C" fn device_access_pc(state: *mut c_void, pc: *mut u64) -> bool {
    // SAFETY: the state of a core of this kind, and a variable of the caller's.
    unsafe { pc.write((*state.cast::<State>()).pc.get()) };
    true
}
static LAYOUT: line::Layout = line::Layout::of_own(device_access_pc);

/// A placeholder: a core of our own uses no function of Unicorn, so the architecture is arbitrary.
pub static LIBRARY: Library = Library {
    arch: Arch::PPC,
    mode: Mode::BIG_ENDIAN,
    instructions: Vec::new,
    has_choice_of_pages: false,
    invalidate: no_invalidation,
    ram_address: no_address,
    route: OnceLock::new(),
    live_translations: 0,
    stores: Layout { modes: 1, smallest_page_bits: 12, address_bytes: 8, guard: no_guard },
    layout: &LAYOUT,
};

/// Makes the core.
pub fn make(ram: &Ram) -> Box<dyn OwnCore> {
    Box::new(Core::with_ram(ram.base(), ram.len()))
}

/// A placeholder: a core of our own has no register numbers.
pub fn pc() -> Register {
    Register(0)
}

impl OwnCore for Core {
    fn state(&self) -> (*mut u8, usize, usize) {
        (from_ref(Core::state(self)).cast_mut().cast(), size_of::<State>(), SAVED)
    }
    fn stop(&self) -> *mut u32 {
        Core::state(self).stop.as_ptr()
    }
    fn line(&self) -> &Line {
        &Core::state(self).line
    }
    fn run(&mut self, host: &mut OwnHost<'_, false>) {
        Core::run(self, host);
    }
    fn run_telling(&mut self, host: &mut OwnHost<'_, true>) {
        Core::run(self, host);
    }
    fn begin_alone(&mut self) {
        Core::begin_alone(self);
    }
    fn drop_all(&mut self) {
        Core::drop_all(self);
    }
    fn set_one_by_one(&mut self, one_by_one: bool) {
        Core::set_one_by_one(self, one_by_one);
    }
    fn pages_with_code(&self) -> usize {
        Core::pages_with_code(self)
    }
    /// The other CPU may have stored to the addresses of this one's advanced loads. A CPU may lose entries of its ALAT at any
    /// time.
    fn switched(&self) {
        Core::state(self).alat.clear();
    }
}

impl Handle {
    /// The state of an IA-64 core.
    pub fn ia64(&self) -> Option<&State> {
        // SAFETY: only cores of this kind have such a state, which consists of cells and outlives the handle.
        core::ptr::eq(self.kind().library, &raw const LIBRARY).then(|| unsafe { &*self.own_state().cast::<State>() })
    }
}
