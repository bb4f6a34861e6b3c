//! What Linux 6.1 itself says or does on an ISA, and no manual of the hardware.

use crate::plan::Errno;

/// Linux's own facts about an ISA.
#[derive(Debug)]
pub struct Linux {
    /// What is added to the probe's address in the pc that a pre-handler sees (1 on x86).
    pub pc_bias: u64,
    /// The errno of an address that is not on an instruction boundary.
    pub boundary_errno: Errno,
    /// Ftrace carries probes on its sites; where it does not they are refused.
    pub ftrace_carries: bool,
    /// What stands in front of a function's name where the name alone is that of its descriptor.
    pub code_prefix: &'static str,
    /// Functions that switch stacks, where return probes are refused.
    pub no_return_probes: &'static [&'static str],
}
