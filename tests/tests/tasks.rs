//! Finding the current task, its pid and its name in stock kernels, by BTF types or by decoding code.
//!
//! The kernels come from `TRAPLINE_IMAGES` or the cache of `trapline images pull`. A test without its kernel is counted
//! as skipped.

use std::process::ExitCode;
use trapline::boot::Kernel;
use trapline::boot::btf::Btf;
use trapline::cpu::moment::{CountPlace, MomentPlace};
use trapline::cpu::{TaskPlace, arm, arm64, mips, ppc, x86};
use trapline_harness::{self as harness, each, on, tests};

fn kernel(name: &str) -> Kernel {
    let found = harness::stock(name);
    Kernel::from_bytes(&std::fs::read(&found.local.kernel).expect("the kernel's file")).expect("a kernel")
}

/// DV-4: armhf has no BTF, and its current task is in a register. arm64 has BTF.
fn current_task_of_stock_arm_kernels_is_found(name: &'static str) {
    let (model, expected) = match name {
        "debian/armhf" => (&arm::ARM, (None, Some(0x630), Some(0x780))),
        _ => (&arm64::ARM64, (None, Some(0x548), Some(0x778))),
    };
    let kernel = kernel(name);
    let place = TaskPlace::of(&kernel, Btf::of(&kernel).as_ref(), model);
    assert_eq!((place.current, place.pid, place.comm), expected, "{name}");
    assert!(place.has_process, "{name}");
}

/// DV-4: ppc64el has code only. The preempt count is in the first word of the task.
fn current_task_of_stock_ppc64el_kernels_is_found() {
    let kernel = kernel("debian/ppc64el");
    let place = TaskPlace::of(&kernel, Btf::of(&kernel).as_ref(), &ppc::PPC64LE);
    assert_eq!((place.current, place.pid, place.comm), (Some(0x908), Some(0x7e8), Some(0x9e0)));
    let moment = MomentPlace::of(&kernel, Btf::of(&kernel).as_ref(), &ppc::PPC64LE);
    assert_eq!(moment.count, Some(CountPlace::Task(0)));
}

/// DV-4: 32-bit PowerPC has code only, and r2 points to the task with everything.
fn current_task_of_linux_ppc_is_found() {
    let kernel = kernel("linux/ppc");
    let place = TaskPlace::of(&kernel, Btf::of(&kernel).as_ref(), &ppc::narrow::PPC);
    assert!(place.has_process && place.current.is_none());
    // The name follows the pid, and both are in the task structure.
    assert!(place.pid.zip(place.comm).is_some_and(|(pid, comm)| pid > 0 && pid < comm && comm < 0x1000), "{place:?}");
    let moment = MomentPlace::of(&kernel, Btf::of(&kernel).as_ref(), &ppc::narrow::PPC);
    assert_eq!(moment.count, Some(CountPlace::Task(0)));
}

/// DV-4: MIPS has code only. The preempt count is in the thread_info that gp points to.
fn current_task_of_stock_mips_kernels_is_found(name: &'static str) {
    let (model, expected, count) = match name {
        "debian/mipsel" => (&mips::MIPSEL, (None, Some(0x420), Some(0x538)), 0x10),
        "debian/mips64el" => (&mips::MIPS64EL, (None, Some(0x510), Some(0x708)), 0x1c),
        _ => (&mips::MIPS, (None, Some(0x1f8), Some(0x2fc)), 0x10),
    };
    let kernel = kernel(name);
    let place = TaskPlace::of(&kernel, Btf::of(&kernel).as_ref(), model);
    assert_eq!((place.current, place.pid, place.comm), expected, "{name}");
    let moment = MomentPlace::of(&kernel, Btf::of(&kernel).as_ref(), model);
    assert_eq!(moment.count, Some(CountPlace::OwnData(count)), "{name}");
}

/// DV-4: amd64 has BTF, and its code gives the same result. i386 has code only.
fn current_task_of_stock_x86_kernels_is_found(name: &'static str) {
    let (model, has_types) = if name == "debian/amd64" { (&x86::X86_64, true) } else { (&x86::I386, false) };
    let kernel = kernel(name);
    let place = TaskPlace::of(&kernel, Btf::of(&kernel).as_ref(), model);
    assert!(place.current.is_some() && place.pid.is_some() && place.comm.is_some(), "{name}: {place:x?}");
    let by_code = (model.tasks.by_code)(&kernel);
    let three = |place: TaskPlace| (place.current, place.pid, place.comm);
    assert_eq!(three(by_code), three(place), "{name}: the code's own words");
    let types = Btf::of(&kernel);
    assert_eq!(types.is_some(), has_types, "{name}");
    if let Some(types) = types {
        assert_eq!(types.offset_of("module", "state"), Some(0), "{name}");
        assert_eq!(types.offset_of("list_head", "prev"), Some(8), "{name}");
    }
}

fn main() -> ExitCode {
    harness::run([
        each!(["debian/armhf", "debian/arm64"], current_task_of_stock_arm_kernels_is_found),
        each!(["debian/mipsel", "debian/mips64el", "linux/mips"], current_task_of_stock_mips_kernels_is_found),
        each!(["debian/amd64", "debian/i386"], current_task_of_stock_x86_kernels_is_found),
        on("debian/ppc64el", tests![current_task_of_stock_ppc64el_kernels_is_found]),
        on("linux/ppc", tests![current_task_of_linux_ppc_is_found]),
    ])
}
