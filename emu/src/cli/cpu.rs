//! `--cpu`: the CPU model that the guest sees. Some kernels behave differently on different models.

use super::Failure;
use crate::arches;
use serde::{Deserialize, Serialize};
use trapline_isa::arch::Arch;

/// The argument `--cpu`.
#[derive(Clone, clap::Args, Default, Serialize, Deserialize)]
pub struct CpuArg {
    /// The CPU that the guest sees: `amd` (default) or `intel` for x86, `cortex-a57` (default) or `cortex-a72` for
    /// arm64. For 32-bit ARM `cortex-a8` or `cortex-a15`; the default depends on the kernel. On Intel CPUs, Linux uses
    /// separate page tables for the kernel (page-table isolation)
    #[arg(long, value_name = "NAME")]
    cpu: Option<String>,
}

impl CpuArg {
    /// The CPU's name. Fails if there is no such CPU for this ISA.
    pub fn of(&self, arch: Arch) -> Result<Option<String>, Failure> {
        if let Some(name) = &self.cpu {
            let chosen = arches::of(arch).machine().and_then(|machine| machine.model.named_choice(name));
            chosen.map_err(|error| Failure::usage(format!("--cpu: {error}")))?;
        }
        Ok(self.cpu.clone())
    }

    /// Whether the user gave a name.
    pub fn is_given(&self) -> bool {
        self.cpu.is_some()
    }
}
