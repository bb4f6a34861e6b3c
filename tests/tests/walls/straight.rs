//! Code without a branch. Events wait for one, so a guest that slides through memory must be ended by another rule.

use trapline::machine::Stop;
use trapline_isa::arch::Arch;
use trapline_tests::lab::hostile::{ARCHES, Bare, nop, seen};

/// The offset of the slide, and its length: more than may run without a branch.
const SLIDE: u64 = 0x72_0000;
const BYTES: usize = 6 << 20;

/// Runs code that does nothing for 6 MiB with a limit that is long over then.
fn slides(arch: Arch) -> (Stop, u64) {
    let mut bare = Bare::new(arch);
    bare.put(SLIDE, &nop(arch).iter().copied().cycle().take(BYTES).collect::<Vec<u8>>());
    bare.enter_kernel();
    bare.machine().set_pc(seen(arch, SLIDE));
    let before = bare.machine().now();
    let stop = bare.machine().run_until(before + 20_000);
    (stop, bare.machine().now() - before)
}

/// `run_until` comes back although no branch comes, on each ISA whose lab can execute there.
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
