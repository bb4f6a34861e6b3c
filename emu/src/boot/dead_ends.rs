//! Where Linux stops for good before it has a console to say why on: what its own names for these places mean.

use super::Kernel;

/// A function that a kernel does not leave, and what it has found there.
const DEAD_ENDS: &[(&str, &str)] = &[
    ("__error_lpae", "it wants page tables in the long format, and the CPU has them not"),
    ("__error_p", "it was made for other CPUs"),
    ("__error", "it was made for other CPUs"),
    ("__no_granule_support", "it wants pages of a size that the CPU has not"),
    ("printascii", PRINTS),
    ("printch", PRINTS),
    ("printhex", PRINTS),
];

/// Kernels with CONFIG_DEBUG_LL say there what is wrong, to whom nobody listens.
const PRINTS: &str = "it was made for one board alone and waits for the serial port of that; what it wants to say is most likely that it was made \
                      for other CPUs";

/// What people are told of a place where a kernel has stopped: by the address that it has, or that it is loaded at.
pub fn describe(kernel: &Kernel, pc: u64, cpu: &str) -> String {
    let loaded = kernel.segments.iter().find(|segment| segment.loaded().contains(&pc));
    let linked = loaded.map_or(pc, |segment| pc - segment.physical + segment.virtual_address);
    let name = kernel.symbols.describe(linked);
    let function = name.split('+').next().unwrap_or_default();
    match DEAD_ENDS.iter().find(|(known, _)| *known == function) {
        Some((_, why)) => format!(
            "in `{name}`, which it never leaves: {why}. The CPU here is a {cpu}: `--cpu` chooses another, and `trapline images` \
             lists kernels that run"
        ),
        None => format!("at `{name}`"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::boot::Segment;
    use crate::symbols::tests::table;
    use trapline_isa::arch::Arch;

    /// KP-4: a kernel that does not start says why, where its own names do.
    #[test]
    fn a_place_where_kernels_stop_is_explained() {
        let symbols = table(&[(0xc000_8000, 'T', "_stext"), (0xc000_8100, 't', "__error_p"), (0xc000_8110, 'T', "start_kernel")]);
        let (physical, virtual_address) = (0x4000_8000, 0xc000_8000);
        let segment = Segment { physical, virtual_address, bytes: vec![0; 0x200], size: 0x200, executable: true };
        let kernel = Kernel::from_parts(Arch::Arm, physical, vec![segment], symbols);
        for pc in [0x4000_8104, 0xc000_8104] {
            let told = describe(&kernel, pc, "cortex-a8");
            assert!(
                told.contains("`__error_p+0x4`") && told.contains("made for other CPUs") && told.contains("cortex-a8"),
                "{told}"
            );
        }
        assert_eq!(describe(&kernel, 0x4000_8110, "cortex-a8"), "at `start_kernel`");
        assert_eq!(describe(&kernel, 0x10, "cortex-a8"), "at `0x10`");
    }
}
