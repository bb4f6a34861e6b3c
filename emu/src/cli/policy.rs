//! The option `--policy`: whose rules decide about probes.

use super::Failure;
use clap::ValueEnum;
use trapline_isa::arch::Arch;
use trapline_isa::linux::Release;
use trapline_isa::plan::Policy;

/// The rules that decide about probes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum PolicyName {
    /// The best rules: accepts what can be proved safe, refuses what Linux accepts but breaks
    #[default]
    Best,
    /// The best rules, and the kernel's own list of forbidden code does not count: probes entry code and trap handlers, too
    Outside,
    /// The rules of Linux 6.1, with its known defects (all ISAs but RISC-V)
    #[value(name = "linux-6.1")]
    Linux61,
    /// The rules of Linux 6.12, with its known defects (RISC-V)
    #[value(name = "linux-6.12")]
    Linux612,
    /// The rules of Linux 7.2, with its known defects (RISC-V)
    #[value(name = "linux-7.2")]
    Linux72,
}

impl PolicyName {
    /// The name on the command line.
    pub fn name(self) -> String {
        match self.policy() {
            Policy::Best => "best".into(),
            Policy::Outside => "outside".into(),
            Policy::Linux(release) => format!("linux-{}", release.name()),
        }
    }

    /// The policy. Fails if the decisions of that release are not known on this ISA.
    pub fn on(self, arch: Arch) -> Result<Policy, Failure> {
        let policy = self.policy();
        let known = arch.isa().linux.releases;
        match policy {
            Policy::Linux(release) if !known.contains(&release) => {
                let names: Vec<String> = known.iter().map(|release| format!("`--policy linux-{}`", release.name())).collect();
                let why = format!("the decisions of Linux {} on {} are not known", release.name(), arch.name());
                Err(Failure::usage(why).advise(format!("use {}, or `--policy best`", names.join(" or "))))
            }
            policy => Ok(policy),
        }
    }

    fn policy(self) -> Policy {
        match self {
            PolicyName::Best => Policy::Best,
            PolicyName::Outside => Policy::Outside,
            PolicyName::Linux61 => Policy::Linux(Release::V6_1),
            PolicyName::Linux612 => Policy::Linux(Release::V6_12),
            PolicyName::Linux72 => Policy::Linux(Release::V7_2),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::paint::Paint;

    /// KP-15: each release is accepted on the ISAs whose decisions are known, and nowhere else.
    #[test]
    fn a_release_is_accepted_only_where_its_decisions_are_known() {
        for arch in Arch::ALL {
            assert!(PolicyName::Best.on(*arch).is_ok() && PolicyName::Outside.on(*arch).is_ok());
            for name in [PolicyName::Linux61, PolicyName::Linux612, PolicyName::Linux72] {
                let Policy::Linux(release) = name.policy() else { panic!("{}", name.name()) };
                let known = arch.isa().linux.releases;
                assert!(!known.is_empty());
                assert_eq!(name.on(*arch).ok(), known.contains(&release).then_some(Policy::Linux(release)), "{}", arch.name());
            }
        }
        let refused = PolicyName::Linux61.on(Arch::Riscv64).expect_err("no Linux 6.1 of RISC-V was asked");
        let expected = "error: the decisions of Linux 6.1 on riscv64 are not known\n  help: use `--policy linux-6.12` or `--policy linux-7.2`, \
                        or `--policy best`\n";
        assert_eq!((refused.status(), refused.render(Paint::none()).as_str()), (2, expected));
        let names: Vec<String> = PolicyName::value_variants().iter().map(|name| name.name()).collect();
        assert_eq!(names, ["best", "outside", "linux-6.1", "linux-6.12", "linux-7.2"]);
    }
}
