//! `--cpu`: which CPU the guest finds, where its kernel does other things on another.

use super::Failure;
use crate::arches;
use trapline_isa::arch::Arch;

/// On the command line.
#[derive(clap::Args, Default)]
pub struct CpuArg {
    /// Which CPU the guest finds: `amd` or `intel` for x86, `cortex-a57` or `cortex-a72` for arm64, the first of which
    /// are the usual ones; `cortex-a8` or `cortex-a15` for 32-bit ARM, by what the kernel is made for. On Intel's,
    /// Linux keeps its page tables apart from those of programs
    #[arg(long, value_name = "NAME")]
    cpu: Option<String>,
}

impl CpuArg {
    /// The name, if there is such a CPU for these kernels.
    pub fn of(&self, arch: Arch) -> Result<Option<String>, Failure> {
        if let Some(name) = &self.cpu {
            let chosen = arches::of(arch).machine().and_then(|machine| machine.model.named_choice(name));
            chosen.map_err(|error| Failure::usage(format!("--cpu: {error}")))?;
        }
        Ok(self.cpu.clone())
    }

    /// Whether one was asked for.
    pub fn is_given(&self) -> bool {
        self.cpu.is_some()
    }
}
