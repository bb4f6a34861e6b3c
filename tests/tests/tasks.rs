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

/// DV-4: armhf has no types, and its running task is in a register; arm64 has types.
fn stock_kernels_of_arm_tell_number_and_name_of_the_running_task(name: &'static str) {
    let (model, expected) = match name {
        "debian/armhf" => (&arm::ARM, (None, Some(0x630), Some(0x780))),
        _ => (&arm64::ARM64, (None, Some(0x548), Some(0x778))),
    };
    let kernel = kernel(name);
    let place = TaskPlace::of(&kernel, Btf::of(&kernel).as_ref(), model);
    assert_eq!((place.current, place.pid, place.comm), expected, "{name}");
    assert!(place.has_process, "{name}");
}

/// DV-4: ppc64el has code alone; the count of the moment is the first word of the task.
fn stock_kernels_of_powerpc_tell_where_the_running_task_is() {
    let kernel = kernel("debian/ppc64el");
    let place = TaskPlace::of(&kernel, Btf::of(&kernel).as_ref(), &ppc::PPC64LE);
    assert_eq!((place.current, place.pid, place.comm), (Some(0x908), Some(0x7e8), Some(0x9e0)));
    let moment = MomentPlace::of(&kernel, Btf::of(&kernel).as_ref(), &ppc::PPC64LE);
    assert_eq!(moment, MomentPlace { count: Some(CountPlace::Task(0)), ..MomentPlace::default() });
}

/// DV-4: so has a Linux of 32 bits, with all in the task that r2 leads to.
fn linux_ppc_tells_number_and_name_of_the_running_task() {
    let kernel = kernel("linux/ppc");
    let place = TaskPlace::of(&kernel, Btf::of(&kernel).as_ref(), &ppc::narrow::PPC);
    assert!(place.has_process && place.current.is_none());
    // The name follows the pid, and both are in the task structure.
    assert!(place.pid.zip(place.comm).is_some_and(|(pid, comm)| pid > 0 && pid < comm && comm < 0x1000), "{place:?}");
    let moment = MomentPlace::of(&kernel, Btf::of(&kernel).as_ref(), &ppc::narrow::PPC);
    assert_eq!(moment, MomentPlace { count: Some(CountPlace::Task(0)), ..MomentPlace::default() });
}

/// DV-4: MIPS has code alone; the count of the moment is in what gp leads to.
fn stock_kernels_of_mips_tell_number_and_name_of_the_running_task(name: &'static str) {
    let (model, expected, count) = match name {
        "debian/mipsel" => (&mips::MIPSEL, (None, Some(0x420), Some(0x538)), 0x10),
        "debian/mips64el" => (&mips::MIPS64EL, (None, Some(0x510), Some(0x708)), 0x1c),
        _ => (&mips::MIPS, (None, Some(0x1f8), Some(0x2fc)), 0x10),
    };
    let kernel = kernel(name);
    let place = TaskPlace::of(&kernel, Btf::of(&kernel).as_ref(), model);
    assert_eq!((place.current, place.pid, place.comm), expected, "{name}");
    let moment = MomentPlace::of(&kernel, Btf::of(&kernel).as_ref(), model);
    assert_eq!(moment, MomentPlace { count: Some(CountPlace::OwnData(count)), ..MomentPlace::default() }, "{name}");
}

/// DV-4: amd64 has types, and its code says the same; i386 has code alone.
fn stock_kernels_tell_where_the_running_task_is(name: &'static str) {
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
        each!(["debian/armhf", "debian/arm64"], stock_kernels_of_arm_tell_number_and_name_of_the_running_task),
        each!(["debian/mipsel", "debian/mips64el", "linux/mips"], stock_kernels_of_mips_tell_number_and_name_of_the_running_task),
        each!(["debian/amd64", "debian/i386"], stock_kernels_tell_where_the_running_task_is),
        on("debian/ppc64el", tests![stock_kernels_of_powerpc_tell_where_the_running_task_is]),
        on("linux/ppc", tests![linux_ppc_tells_number_and_name_of_the_running_task]),
    ])
}
