//! A kernel that links the engine provides these two things. The library made from them is linked and never run.

use core::alloc::{GlobalAlloc, Layout};
use core::panic::PanicInfo;

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    loop {
        core::hint::spin_loop();
    }
}

/// Stands for the kernel's own allocator (kmalloc). It has no memory.
struct NoMemory;

// SAFETY: a null pointer says that the allocation failed, and nothing is ever allocated that could be freed.
unsafe impl GlobalAlloc for NoMemory {
    unsafe fn alloc(&self, _: Layout) -> *mut u8 {
        core::ptr::null_mut()
    }
    unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}
}

#[global_allocator]
static ALLOCATOR: NoMemory = NoMemory;

/// The entry, from which the linker follows what the program needs.
// SAFETY: nothing else in the program has this name.
#[unsafe(no_mangle)]
extern "C" fn _start() -> usize {
    crate::show().map_or(0, |text| text.len())
}
