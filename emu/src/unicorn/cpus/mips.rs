//! Unicorn's MIPS: a [`Library`] for each of four kinds of core (32 and 64 bits, both byte orders), and the functions of
//! `translator/mips/own.h`, which enter exception handlers and read and write the guest's TLB.

use crate::unicorn::engine::{Handle, TrapContext};
use crate::unicorn::fields::{self, Field, FieldOf};
use crate::unicorn::kinds::{Library, Register};
use crate::unicorn::line;
use crate::unicorn::stores::Layout;
use core::ffi::{c_int, c_void};
use trapline_isa::mem::ByteOrder;
use unicorn_engine_sys::{Arch, Mode, RegisterMIPS};

unsafe extern "C" {
    fn tb_invalidate_phys_range_mips(uc: *mut c_void, start: usize, end: usize);
    fn qemu_ram_addr_from_host_mips(uc: *mut c_void, host: *mut c_void) -> usize;
    fn tlb_reset_dirty_mips(cpu: *mut c_void, host: usize, len: usize);
    #[link_name = "trapline_layout_mips"]
    safe static LAYOUT_BIG_32: line::Layout;
    #[link_name = "trapline_own_mips"]
    safe static OWN_BIG_32: Own;
    fn tb_invalidate_phys_range_mipsel(uc: *mut c_void, start: usize, end: usize);
    fn qemu_ram_addr_from_host_mipsel(uc: *mut c_void, host: *mut c_void) -> usize;
    fn tlb_reset_dirty_mipsel(cpu: *mut c_void, host: usize, len: usize);
    #[link_name = "trapline_layout_mipsel"]
    safe static LAYOUT_LITTLE_32: line::Layout;
    #[link_name = "trapline_own_mipsel"]
    safe static OWN_LITTLE_32: Own;
    fn tb_invalidate_phys_range_mips64(uc: *mut c_void, start: usize, end: usize);
    fn qemu_ram_addr_from_host_mips64(uc: *mut c_void, host: *mut c_void) -> usize;
    fn tlb_reset_dirty_mips64(cpu: *mut c_void, host: usize, len: usize);
    #[link_name = "trapline_layout_mips64"]
    safe static LAYOUT_BIG_64: line::Layout;
    #[link_name = "trapline_own_mips64"]
    safe static OWN_BIG_64: Own;
    fn tb_invalidate_phys_range_mips64el(uc: *mut c_void, start: usize, end: usize);
    fn qemu_ram_addr_from_host_mips64el(uc: *mut c_void, host: *mut c_void) -> usize;
    fn tlb_reset_dirty_mips64el(cpu: *mut c_void, host: usize, len: usize);
    #[link_name = "trapline_layout_mips64el"]
    safe static LAYOUT_LITTLE_64: line::Layout;
    #[link_name = "trapline_own_mips64el"]
    safe static OWN_LITTLE_64: Own;
}

impl From<RegisterMIPS> for Register {
    fn from(register: RegisterMIPS) -> Register {
        Register(register as c_int)
    }
}

/// The functions and tables of `mips/own.h` for one of the kinds.
#[repr(C)]
struct Own {
    prepare: unsafe extern "C" fn(cpu: *mut c_void, number: u32),
    deliver: unsafe extern "C" fn(cpu: *mut c_void, exception: u32, pc: u64, delayed: bool),
    look_up: unsafe extern "C" fn(cpu: *mut c_void, address: u64, write: bool, physical: *mut u64) -> bool,
    set_status: unsafe extern "C" fn(cpu: *mut c_void, value: u32),
    settle: unsafe extern "C" fn(cpu: *mut c_void),
    entries: unsafe extern "C" fn(cpu: *mut c_void) -> u32,
    read_entry: unsafe extern "C" fn(cpu: *mut c_void, number: u32, to: *mut u64),
    write_entry: unsafe extern "C" fn(cpu: *mut c_void, number: u32, from: *const u64),
    fields: *const FieldOf,
    field_count: usize,
    places: [usize; 12],
}

// SAFETY: its pointers point to constants.
unsafe impl Sync for Own {}

/// An entry of the TLB: page, mask, ASID, MMID, flags, and both page frames.
pub type TlbEntry = [u64; 7];

/// Registers whose location in the state differs between the four kinds of core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The upper half of a product, a word.
    Hi,
    /// The lower half of a product, a word.
    Lo,
    /// 4 bytes.
    Status,
    /// 4 bytes.
    Cause,
    /// A word.
    Epc,
    /// A word.
    BadVAddr,
    /// A word.
    EntryHi,
    /// A word.
    EBase,
    /// The core's flags for the running code, 4 bytes: its privilege, and whether it is in a delay slot.
    Flags,
    /// A word.
    Context,
    /// A word.
    XContext,
    /// 4 bytes.
    PageMask,
}

impl Place {
    /// Whether the register has the size of a word, not 4 bytes.
    fn is_word(self) -> bool {
        !matches!(self, Place::Status | Place::Cause | Place::Flags | Place::PageMask)
    }
}

/// Unicorn's mode for 32-bit big-endian cores.
pub const MODE_BIG_32: Mode = Mode(Mode::MIPS32.0 | Mode::BIG_ENDIAN.0);
/// Unicorn's mode for 32-bit little-endian cores.
pub const MODE_LITTLE_32: Mode = Mode::MIPS32;
/// Unicorn's mode for 64-bit big-endian cores.
pub const MODE_BIG_64: Mode = Mode(Mode::MIPS64.0 | Mode::BIG_ENDIAN.0);
/// Unicorn's mode for 64-bit little-endian cores.
pub const MODE_LITTLE_64: Mode = Mode::MIPS64;

/// Unicorn's build for 32-bit big-endian cores.
pub static BIG_32: Library = Library {
    arch: Arch::MIPS,
    mode: MODE_BIG_32,
    instructions: Vec::new,
    has_choice_of_pages: false,
    invalidate: tb_invalidate_phys_range_mips,
    ram_address: qemu_ram_addr_from_host_mips,
    live_translations: KERNEL_TRANSLATIONS,
    stores: Layout { modes: 4, smallest_page_bits: 12, address_bytes: 4, guard: tlb_reset_dirty_mips },
    layout: &LAYOUT_BIG_32,
};

/// Unicorn's build for 32-bit little-endian cores.
pub static LITTLE_32: Library = Library {
    arch: Arch::MIPS,
    mode: MODE_LITTLE_32,
    instructions: Vec::new,
    has_choice_of_pages: false,
    invalidate: tb_invalidate_phys_range_mipsel,
    ram_address: qemu_ram_addr_from_host_mipsel,
    live_translations: KERNEL_TRANSLATIONS,
    stores: Layout { modes: 4, smallest_page_bits: 12, address_bytes: 4, guard: tlb_reset_dirty_mipsel },
    layout: &LAYOUT_LITTLE_32,
};

/// Unicorn's build for 64-bit big-endian cores.
pub static BIG_64: Library = Library {
    arch: Arch::MIPS,
    mode: MODE_BIG_64,
    instructions: Vec::new,
    has_choice_of_pages: false,
    invalidate: tb_invalidate_phys_range_mips64,
    ram_address: qemu_ram_addr_from_host_mips64,
    live_translations: KERNEL_TRANSLATIONS,
    stores: Layout { modes: 4, smallest_page_bits: 12, address_bytes: 8, guard: tlb_reset_dirty_mips64 },
    layout: &LAYOUT_BIG_64,
};

/// Unicorn's build for 64-bit little-endian cores.
pub static LITTLE_64: Library = Library {
    arch: Arch::MIPS,
    mode: MODE_LITTLE_64,
    instructions: Vec::new,
    has_choice_of_pages: false,
    invalidate: tb_invalidate_phys_range_mips64el,
    ram_address: qemu_ram_addr_from_host_mips64el,
    live_translations: KERNEL_TRANSLATIONS,
    stores: Layout { modes: 4, smallest_page_bits: 12, address_bytes: 8, guard: tlb_reset_dirty_mips64el },
    layout: &LAYOUT_LITTLE_64,
};

/// [`Library::live_translations`]: the kernel's MMU mode is the first of four.
const KERNEL_TRANSLATIONS: usize = 80;

fn own_of(library: &Library) -> &'static Own {
    [(&LITTLE_32, &OWN_LITTLE_32), (&BIG_32, &OWN_BIG_32), (&BIG_64, &OWN_BIG_64)]
        .into_iter()
        .find(|(known, _)| core::ptr::eq(*known, library))
        .map_or(&OWN_LITTLE_64, |(_, own)| own)
}

/// The number of bytes of a word of such a core.
pub fn word_bytes(library: &Library) -> usize {
    library.stores.address_bytes
}

/// All fields of the state of such a core's CPU; the TLB is not part of it.
pub fn fields(library: &Library) -> Vec<Field> {
    let own = own_of(library);
    // SAFETY: a constant table with this many rows, whose names are constant texts.
    unsafe { fields::of(own.fields, own.field_count) }
}

impl Handle {
    fn own(&self) -> &'static Own {
        own_of(self.kind().library)
    }

    /// Reads all entries of the TLB.
    pub fn tlb_entries(&self) -> Vec<TlbEntry> {
        let (own, cpu) = (self.own(), self.cpu());
        // SAFETY: the core's own CPU, and entries that it has.
        let count = unsafe { (own.entries)(cpu) };
        let read = |number| {
            let mut entry = [0; 7];
            // SAFETY: as above; an entry has this many numbers.
            unsafe { (own.read_entry)(cpu, number, entry.as_mut_ptr()) };
            entry
        };
        (0..count).map(read).collect()
    }

    /// Whether a word has 8 bytes.
    pub fn is_wide(&self) -> bool {
        self.kind().library.stores.address_bytes == 8
    }

    /// The byte order of the guest's memory.
    pub fn byte_order(&self) -> ByteOrder {
        let library = self.kind().library;
        let is_big = [&BIG_32, &BIG_64].into_iter().any(|big| core::ptr::eq(big, library));
        if is_big { ByteOrder::Big } else { ByteOrder::Little }
    }

    /// The offset of a register in the state.
    pub fn place_of(&self, place: Place) -> usize {
        self.own().places[place as usize]
    }

    /// Reads a register.
    pub fn at_place(&self, place: Place) -> u64 {
        let (at, is_word) = (self.place_of(place), place.is_word());
        if is_word && self.is_wide() { self.live64(at) } else { self.live32(at).into() }
    }

    /// Reads a register through Unicorn's API: general ones by their numbers, then 33 and 34 for the halves of a
    /// product.
    pub fn general_by_library(&self, number: u8) -> Option<u64> {
        let register = match number {
            0..=31 => Register(RegisterMIPS::R0 as c_int + c_int::from(number)),
            33 => RegisterMIPS::HI.into(),
            34 => RegisterMIPS::LO.into(),
            _ => return None,
        };
        Some(self.read(register))
    }

    /// Translates an address with the TLB; `None` unless an entry allows the access.
    pub fn looked_up(&self, address: u64, write: bool) -> Option<u64> {
        let mut physical = 0;
        // SAFETY: the core's own CPU; the function only reads its entries.
        unsafe { (self.own().look_up)(self.cpu(), address, write, &raw mut physical) }.then_some(physical)
    }
}

impl TrapContext {
    /// Initializes a new core, as the CPU of that number.
    pub fn prepare_mips(&self, number: u64) {
        let handle = self.handle();
        // SAFETY: the core's own CPU, between runs.
        unsafe { (handle.own().prepare)(handle.cpu(), number as u32) };
    }

    /// Enters the handler of an exception. `delayed`: it was raised in a delay slot; then `pc` is the branch's.
    pub fn enter_handler(&self, exception: u32, pc: u64, delayed: bool) {
        let handle = self.handle();
        // SAFETY: the core's own CPU, in the callback of an exception or between runs.
        unsafe { (handle.own().deliver)(handle.cpu(), exception, pc, delayed) };
    }

    /// Sets the entries of the TLB, as many as it has.
    pub fn set_tlb_entries(&self, entries: &[TlbEntry]) {
        let handle = self.handle();
        let (own, cpu) = (handle.own(), handle.cpu());
        // SAFETY: as in `enter_handler`, and entries that it has.
        let count = unsafe { (own.entries)(cpu) };
        for (number, entry) in (0..count).zip(entries) {
            // SAFETY: an entry has this many numbers.
            unsafe { (own.write_entry)(cpu, number, entry.as_ptr()) };
        }
    }

    /// Updates the state that the core derives from registers, after registers were written to the state.
    pub fn settle_mips(&self) {
        let handle = self.handle();
        // SAFETY: as in `enter_handler`.
        unsafe { (handle.own().settle)(handle.cpu()) };
    }

    /// Sets Status and the state derived from it.
    pub fn set_status(&self, value: u64) {
        let handle = self.handle();
        // SAFETY: as in `enter_handler`.
        unsafe { (handle.own().set_status)(handle.cpu(), value as u32) };
    }

    /// Sets a register other than Status, which has its own function.
    pub fn set_place(&self, place: Place, value: u64) {
        let (handle, is_word) = (self.handle(), place.is_word());
        let at = handle.place_of(place);
        if is_word && handle.is_wide() { self.set_live64(at, value) } else { self.set_live32(at, value as u32) }
    }
}
