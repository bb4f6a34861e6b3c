//! Code without a branch. Events are handled at branches, so another rule must end a guest that runs straight through
//! memory.

use trapline::machine::Stop;
use trapline_isa::arch::Arch;
use trapline_tests::lab::hostile::{ARCHES, Bare, nop, seen};

/// The offset of the straight code, and its length. It is longer than code may run without a branch.
const SLIDE: u64 = 0x72_0000;
const BYTES: usize = 6 << 20;

/// Runs 6 MiB of nops with a limit that they exceed.
fn slides(arch: Arch) -> (Stop, u64) {
    let mut bare = Bare::new(arch);
    bare.put(SLIDE, &nop(arch).iter().copied().cycle().take(BYTES).collect::<Vec<u8>>());
    bare.enter_kernel();
    bare.machine().set_pc(seen(arch, SLIDE));
    let before = bare.machine().now();
    let stop = bare.machine().run_until(before + 20_000);
    (stop, bare.machine().now() - before)
}

/// `run_until` returns although there is no branch, on each ISA whose lab can execute at that address.
#[test]
fn a_guest_that_slides_through_memory_ends() {
    let mut ended = Vec::new();
    for arch in ARCHES.iter().copied() {
        let (stop, time) = slides(arch);
        // 4 MiB at a quarter of a nanosecond for each byte, and what a fault at the first instruction takes.
        assert!(time < 1_500_000, "{}: {time} ns, {stop:?}", arch.name());
        if let Stop::Dead(why) = stop
            && why.contains("without a branch")
        {
            ended.push(arch.name());
        }
    }
    println!("{ended:?}");
    // Elsewhere the lab's tables do not map so much, and the slide ends by a fault.
    assert!(ended.len() >= 4, "{ended:?}");
}
