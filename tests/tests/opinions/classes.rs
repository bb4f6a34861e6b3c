//! The known classes of differences between our decoders and others, each with its reason.

use crate::flow::{self, Control};
use crate::others::View;
use trapline_isa::arch::Arch;
use trapline_isa::insn::Insn;

/// A class of differences.
pub struct Class {
    /// Its name in the table.
    pub name: &'static str,
    /// The ISAs in which it occurs; empty: all.
    arches: &'static [Arch],
    /// The decoders that differ; empty: all.
    others: &'static [&'static str],
    /// Whether an instruction is of this class.
    is: fn(&Insn, Option<&View>) -> bool,
}

const CLASSES: &[Class] = &[
    // Newer than that decoder, of an extension that it does not have, or data among the code. None has a target for us.
    Class {
        name: "not known to the other",
        arches: &[],
        others: &[],
        is: |insn, view| {
            let is_unknown = view.is_none_or(|view| view.mnemonic.starts_with('.') || view.mnemonic == "(bad)");
            is_unknown && matches!(flow::of(insn), Control::Sequential | Control::Trap)
        },
    },
    // The processor reads a ModRM byte, which objdump, iced and yaxpeax count.
    Class {
        name: "UD1 without its ModRM byte",
        arches: &[Arch::X86_64, Arch::I386],
        others: &["capstone"],
        is: |insn, view| insn.bytes().starts_with(&[0x0f, 0xb9]) && view.is_some_and(|view| view.length == 2),
    },
    // A comparison that names the pc as its result wrote the flags of 26-bit processors. ARMv7 leaves it undefined.
    Class {
        name: "comparison with a result, of 26-bit ARM",
        arches: &[Arch::Arm],
        others: &[],
        is: |insn, view| {
            let compares = |view: &View| ["cmp", "cmn", "tst", "teq"].iter().any(|stem| view.mnemonic.starts_with(stem));
            flow::of(insn) == Control::Trap && view.is_some_and(compares)
        },
    },
    // Addresses of 0xc0000000 and more in pools of data read as instructions under the condition GT. No manual defines them.
    Class {
        name: "data among the code of ARM",
        arches: &[Arch::Arm],
        others: &[],
        is: |insn, view| {
            let is_address = insn.bytes().last().is_some_and(|top| matches!(top, 0xc0..=0xc2 | 0x40..=0x5f));
            is_address
                && view.is_none_or(|view| {
                    view.mnemonic.starts_with('@') || view.operands.starts_with("pc,") || view.mnemonic.starts_with("msr")
                })
        },
    },
    // `ud2; .ascii "xen"` in front of an instruction is one for Linux and for us.
    Class {
        name: "the marker of Xen's emulation",
        arches: &[Arch::X86_64, Arch::I386],
        others: &[],
        is: |insn, view| insn.bytes().starts_with(b"\x0f\x0bxen") && view.is_some_and(|view| view.mnemonic.starts_with("ud2")),
    },
    // FWAIT and the instruction behind it, such as FNINIT, have a name together.
    Class {
        name: "FWAIT taken together with the next instruction",
        arches: &[Arch::X86_64, Arch::I386],
        others: &["objdump"],
        is: |insn, view| insn.bytes() == [0x9b] && view.is_some_and(|view| view.length > 1),
    },
    // A listing that began inside of an instruction, behind data.
    Class {
        name: "objdump is out of step behind data",
        arches: &[Arch::X86_64, Arch::I386, Arch::S390x],
        others: &["objdump"],
        is: |_, view| view.is_none(),
    },
    Class {
        name: "far jump to an address in the instruction",
        arches: &[Arch::I386],
        others: &["yaxpeax"],
        is: |insn, view| insn.bytes().first() == Some(&0xea) && view.is_none(),
    },
    // The distance is zero: a place that the kernel patches.
    Class {
        name: "a branch to itself, without a target in the text",
        arches: &[Arch::Ppc64le],
        others: &["capstone"],
        is: |insn, view| flow::of(insn) == Control::Direct(insn.address) && view.is_some_and(|view| view.operands.is_empty()),
    },
];

/// The class of a difference; `None` if it is of none.
pub fn class(arch: Arch, other: &str, insn: &Insn, view: Option<&View>) -> Option<&'static Class> {
    let is_in = |class: &&Class| {
        (class.arches.is_empty() || class.arches.contains(&arch)) && (class.others.is_empty() || class.others.contains(&other))
    };
    CLASSES.iter().filter(is_in).find(|class| (class.is)(insn, view))
}
