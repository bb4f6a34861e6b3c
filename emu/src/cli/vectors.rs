//! `trapline vectors`: prints test vectors for other implementations of kprobes.

use super::output;
use super::{Failure, PolicyName};
use crate::vectors::{self, Settings};
use trapline_isa::arch::Arch;

/// Prints vectors by which another implementation of kprobes can test itself
///
/// Each line is a JSON object: an instruction of a row of the ISA's table, the decision about it, the copy that runs
/// elsewhere, and the effect of an instruction that is computed: registers, memory and pc. docs/proof.md has the fields.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The ISA, as in the names of the tiny kernels
    #[arg(value_name = "ARCH")]
    arch: String,
    /// The number of examples of each row
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..))]
    each: u8,
    /// The rules that decide
    #[arg(long, value_enum, default_value_t)]
    policy: PolicyName,
}

const EXAMPLES: &str = "\
Examples:
  trapline vectors x86_64 > x86_64.jsonl
  trapline vectors riscv64 --each 10 | jq 'select(.verdict == \"refuse\") | [.bytes, .rule]'
  trapline vectors arm64 --policy linux-6.1          the decisions of Linux 6.1";

pub(super) fn main(args: &Args) -> Result<(), Failure> {
    let arch = Arch::from_name(&args.arch).ok_or_else(|| {
        let names: Vec<&str> = Arch::ALL.iter().map(|arch| arch.name()).collect();
        Failure::usage(format!("`{}` is no ISA", args.arch)).advise(format!("the ISAs are {}", names.join(", ")))
    })?;
    let settings = Settings { policy: args.policy.on(arch)?, each: args.each.into(), ..Settings::of(arch) };
    let lines = vectors::of(arch, &settings).iter().map(output::json_line).collect::<Result<String, _>>()?;
    output::emit(&lines)
}
