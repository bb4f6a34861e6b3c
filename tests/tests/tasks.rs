//! Finding the current task, its pid and its name in stock kernels, by BTF types or by decoding code.
//!
//! The kernels come from `TRAPLINE_IMAGES` or the cache of `trapline images pull`. A test without its kernel is counted
//! as skipped.

use std::process::ExitCode;
use trapline::arches;
use trapline::boot::Kernel;
use trapline::boot::btf::Btf;
use trapline::cpu::TaskPlace;
use trapline::cpu::moment::{CountPlace, MomentPlace};
use trapline_harness::guests::{self, facts_of};
use trapline_harness::{self as harness, each};

fn kernel(name: &str) -> Kernel {
    let found = harness::stock(name);
    Kernel::from_bytes(&std::fs::read(&found.local.kernel).expect("the kernel's file")).expect("a kernel")
}

/// Offsets in the task structure of a kernel.
struct Offsets {
    kernel: &'static str,
    /// `current` in the CPU's own data. `None`: a register points to the task.
    current: Option<u64>,
    pid: u64,
    comm: u64,
    count: Option<CountPlace>,
}

/// The kernels whose offsets are known.
#[rustfmt::skip]
const KNOWN: &[Offsets] = &[
    Offsets { kernel: "debian/arm64",    current: None,        pid: 0x548, comm: 0x778, count: None },
    Offsets { kernel: "debian/armhf",    current: None,        pid: 0x630, comm: 0x780, count: None },
    // The preempt count is in the first word of the task.
    Offsets { kernel: "debian/ppc64el",  current: Some(0x908), pid: 0x7e8, comm: 0x9e0, count: Some(CountPlace::Task(0)) },
    // The preempt count is in the thread_info that gp points to.
    Offsets { kernel: "debian/mipsel",   current: None,        pid: 0x420, comm: 0x538, count: Some(CountPlace::OwnData(0x10)) },
    Offsets { kernel: "debian/mips64el", current: None,        pid: 0x510, comm: 0x708, count: Some(CountPlace::OwnData(0x1c)) },
    Offsets { kernel: "linux/mips",      current: None,        pid: 0x1f8, comm: 0x2fc, count: Some(CountPlace::OwnData(0x10)) },
];

/// DV-4: the task is found by the kernel's types, or by its code if it has no types. If it has both, they agree.
fn current_task_is_found(name: &'static str) {
    let kernel = kernel(name);
    let model = arches::of(kernel.arch).machine().expect("a machine").model;
    let types = Btf::of(&kernel);
    let place = TaskPlace::of(&kernel, types.as_ref(), model);
    assert!(place.has_process || place.current.is_some(), "{name}: {place:x?}");
    // The name follows the pid, and both are in the task structure.
    assert!(place.pid.zip(place.comm).is_some_and(|(pid, comm)| 0 < pid && pid < comm && comm < 0x2000), "{name}: {place:x?}");
    assert_eq!(types.is_some(), facts_of(name).types.is_some(), "{name}");
    if let Some(types) = &types {
        assert_eq!((types.offset_of("module", "state"), types.offset_of("list_head", "prev")), (Some(0), Some(8)), "{name}");
    }
    let three = |place: &TaskPlace| (place.current, place.pid, place.comm);
    assert_eq!(three(&(model.tasks.by_code)(&kernel)), three(&place), "{name}: by its code");
    let Some(known) = KNOWN.iter().find(|known| known.kernel == name) else { return };
    assert_eq!(three(&place), (known.current, Some(known.pid), Some(known.comm)), "{name}");
    if known.count.is_some() {
        assert_eq!(MomentPlace::of(&kernel, types.as_ref(), model).count, known.count, "{name}");
    }
}

fn main() -> ExitCode {
    harness::run([each!(guests::stock(), current_task_is_found)])
}
