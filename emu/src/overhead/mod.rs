//! What a hit costs: the mechanisms of the Kprobes document's overhead tables on a guest that calls one empty function
//! for ever.
//!
//! Every mechanism is a row of [`MECHANISMS`]; every measurement is of the same loop, at the same virtual time, with it
//! and without.

pub mod arming;
pub mod bench_loop;
pub mod document;
pub mod many;
pub mod records;
pub mod scripts;
pub mod table;

use trapline_isa::arch::Arch;
use trapline_isa::detour::Form;

/// The guests that know how to be measured. A further ISA adds one.
pub const GUESTS: &[&str] =
    &["tiny/x86_64", "tiny/i386", "tiny/arm64", "tiny/arm", "tiny/ppc64le", "tiny/s390x", "tiny/sparc64", "tiny/mipsel"];

/// The shape of the document's tables, which holds on every ISA: the first of two costs less.
pub const SHAPE: &[(&str, &str)] = &[("o", "b"), ("b", "k"), ("o", "ro"), ("b", "rb"), ("k", "r")];

/// One way to probe the function, as the document's tables call it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mechanism {
    /// The document's letters.
    pub letters: &'static str,
    /// What the letters mean.
    pub what: &'static str,
    /// A kprobe stands there.
    pub kprobe: bool,
    /// And has a post-handler.
    pub post: bool,
    /// A return probe stands there.
    pub kretprobe: bool,
    /// A jprobe stands there.
    pub jprobe: bool,
    /// Copies may end in a jump back.
    pub boost: bool,
    /// Jumps may take the place of breakpoints.
    pub optimize: bool,
    /// And lead to detours of this form.
    pub detour: Form,
}

const NONE: Mechanism = Mechanism {
    letters: "none",
    what: "no probe",
    kprobe: false,
    post: false,
    kretprobe: false,
    jprobe: false,
    boost: false,
    optimize: false,
    detour: Form::Lean,
};

const KPROBE: Mechanism = Mechanism { kprobe: true, ..NONE };
const KRETPROBE: Mechanism = Mechanism { kretprobe: true, ..NONE };

/// The rows of the document's tables, and no probe at all in front.
#[rustfmt::skip]
pub const MECHANISMS: &[Mechanism] = &[
    NONE,
    Mechanism { letters: "k", what: "kprobe: breakpoint and step, both handlers", post: true, ..KPROBE },
    Mechanism { letters: "b", what: "kprobe, boosted: breakpoint and jump back", boost: true, ..KPROBE },
    Mechanism { letters: "o", what: "kprobe, optimised: jump", boost: true, optimize: true, ..KPROBE },
    Mechanism { letters: "of", what: "the same, with a faithful detour", boost: true, optimize: true, detour: Form::Faithful, ..KPROBE },
    Mechanism { letters: "j", what: "jprobe, its handler on the host", jprobe: true, ..NONE },
    Mechanism { letters: "r", what: "return probe, entry by breakpoint and step", ..KRETPROBE },
    Mechanism { letters: "rb", what: "return probe, entry boosted", boost: true, ..KRETPROBE },
    Mechanism { letters: "ro", what: "return probe, entry optimised", boost: true, optimize: true, ..KRETPROBE },
    Mechanism { letters: "kr", what: "kprobe and return probe", kprobe: true, post: true, ..KRETPROBE },
    Mechanism { letters: "jr", what: "jprobe and return probe", jprobe: true, ..KRETPROBE },
];

impl Mechanism {
    /// The rows that an ISA has.
    pub fn all_of(arch: Arch) -> impl Iterator<Item = &'static Mechanism> + Clone {
        let has = move |form| arch.isa().detour.is_some_and(|detour| detour.room(form).is_ok());
        MECHANISMS.iter().filter(move |mechanism| mechanism.detour == Form::Lean || has(mechanism.detour))
    }

    /// The row with these letters.
    pub fn find(letters: &str) -> Option<&'static Mechanism> {
        MECHANISMS.iter().find(|mechanism| mechanism.letters == letters)
    }
}
