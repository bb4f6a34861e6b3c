//! The cost of a hit: the mechanisms of the Kprobes document's overhead tables, on a guest that calls an empty function
//! in an endless loop.
//!
//! Each mechanism is a row of [`MECHANISMS`]. All are measured on the same loop for the same virtual time, with and
//! without the probe.

pub mod arming;
pub mod bench_loop;
pub mod document;
pub mod many;
pub mod records;
pub mod scripts;
pub mod table;
pub mod watched;

use trapline_isa::arch::Arch;
use trapline_isa::detour::Form;

/// The names of the guests that are measured by default, such as `tiny/x86_64`.
pub fn guests() -> impl Iterator<Item = &'static str> {
    trapline_images::builtins().iter().filter(|builtin| builtin.measured).map(|builtin| builtin.name)
}

/// Pairs of mechanisms of which the first must cost less. The document's tables have this shape, and so has every ISA.
pub const SHAPE: &[(&str, &str)] = &[("o", "b"), ("b", "k"), ("o", "ro"), ("b", "rb"), ("k", "r")];

/// One way to probe the function, as in the document's tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mechanism {
    /// The document's letters.
    pub letters: &'static str,
    /// The meaning of the letters.
    pub what: &'static str,
    /// Whether there is a kprobe.
    pub kprobe: bool,
    /// Whether the kprobe has a post-handler.
    pub post: bool,
    /// Whether there is a return probe.
    pub kretprobe: bool,
    /// Whether there is a jprobe.
    pub jprobe: bool,
    /// Whether the engine may boost.
    pub boost: bool,
    /// Whether the engine may optimise.
    pub optimize: bool,
    /// The form of the detour.
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

/// "No probe", then the rows of the document's tables.
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
    /// The mechanisms that exist on an ISA. Faithful detours do not exist everywhere. An ISA without detours has no boosting
    /// either: IA-64's copies are whole bundles, and a jump back needs one of its own.
    pub fn all_of(arch: Arch) -> impl Iterator<Item = &'static Mechanism> + Clone {
        let detour = arch.isa().detour;
        let has = move |form| detour.is_some_and(|detour| detour.room(form).is_ok());
        let exists = move |mechanism: &Mechanism| match mechanism.detour {
            Form::Lean => detour.is_some() || !mechanism.boost,
            form => has(form),
        };
        MECHANISMS.iter().filter(move |mechanism| exists(mechanism))
    }

    /// The mechanism with these letters.
    pub fn find(letters: &str) -> Option<&'static Mechanism> {
        MECHANISMS.iter().find(|mechanism| mechanism.letters == letters)
    }
}
