//! Explains functions in which Linux stops before it has a console, such as the one for an unsupported CPU.

use super::Kernel;

/// Functions that a kernel never leaves, with the reason.
const DEAD_ENDS: &[(&str, &str)] = &[
    ("__error_lpae", "it needs page tables in the long format, which the CPU does not have"),
    ("__error_p", "it was made for other CPUs"),
    ("__error", "it was made for other CPUs"),
    ("__no_granule_support", "it needs a page size that the CPU does not support"),
    ("printascii", PRINTS),
    ("printch", PRINTS),
    ("printhex", PRINTS),
];

/// Kernels with CONFIG_DEBUG_LL report their error here, on a serial port that this board does not have.
const PRINTS: &str = "it was built for one board and waits for that board's serial port; the message that it cannot print most \
                      likely says that it was made for other CPUs";

/// Describes the place where a kernel stopped. `pc` may be a virtual or a physical address.
pub fn describe(kernel: &Kernel, pc: u64, cpu: &str) -> String {
    let loaded = kernel.segments.iter().find(|segment| segment.loaded().contains(&pc));
    let linked = loaded.map_or(pc, |segment| pc - segment.physical + segment.virtual_address);
    let name = kernel.symbols.describe(linked);
    let function = name.split('+').next().unwrap_or_default();
    match DEAD_ENDS.iter().find(|(known, _)| *known == function) {
        Some((_, why)) => format!(
            "in `{name}`, which it never leaves: {why}. The CPU here is a {cpu}: `--cpu` selects another, and `trapline images` \
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
        let segment = Segment { physical, virtual_address, bytes: vec![0; 0x200].into(), size: 0x200, executable: true };
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
