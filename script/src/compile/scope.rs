//! The compiler's state inside one block: its variables, the kinds of its attach points, and the macros that are being
//! expanded.
//!
//! A [`Scope`] begins empty for each block. A [`Frame`] is one expansion of a macro. [`MapTypes`] is the type of a map so
//! far; it is here because a block infers it, but it lasts for the whole script.

use crate::ast;
use crate::error::Span;
use crate::program::SystemCall;
use crate::types::{CType, Type};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use trapline_probes::user::Usdt;

/// The types of a map that the passes so far have inferred.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct MapTypes {
    /// The types of the key's parts, empty for a map without keys. `None` before the first use.
    pub keys: Option<Vec<Type>>,
    /// The type of the values. `None` before the first assignment.
    pub value: Option<Type>,
    /// Whether the script assigns to the map. A map that is only read is an error.
    pub is_assigned: bool,
    /// The position of its first use.
    pub first: Span,
}

/// The state of the compiler inside one block.
#[derive(Default)]
pub(crate) struct Scope {
    /// The number and the type of each variable.
    pub variables: BTreeMap<String, (u16, Type)>,
    /// The variables whose type a `let` declares. Their values are narrowed to it.
    pub declared: BTreeSet<String>,
    /// The number of variables so far, those without a name included.
    pub count: u16,
    /// The kinds of the block's attach points. They decide which builtins it may use.
    pub kinds: Kinds,
    /// The probed function, that of the first attach point if there are several. `args` means its parameters.
    pub function: Option<String>,
    /// The path in the guest of the file that the block's user probes are in. `None` for a block without user probes.
    pub program: Option<String>,
    /// The USDT probes of the block, with their names.
    pub usdt: Vec<(String, Arc<Usdt>)>,
    /// The number of loops around the present statement.
    pub loops: u32,
    /// Whether the block calls `override`.
    pub overrides: bool,
    /// The nesting depth of code that may be skipped, such as the branches of an `if`.
    pub depth: u32,
    /// See [`Block::emptied`](crate::program::Block::emptied).
    pub emptied: Vec<u16>,
    /// The system-call tracepoint whose fields `args` means.
    pub event: Option<SystemCall>,
    /// The structure of the tracepoint's record, whose fields `args` means.
    pub record: Option<CType>,
    /// The arguments are those of a tracepoint's functions. The first one, the private data pointer, does not count.
    pub is_raw: bool,
}

/// The kinds of attach point that a block has.
#[derive(Clone, Copy, Default)]
pub(crate) struct Kinds {
    /// Whether the block has points at an instruction, where a function's arguments may be read.
    pub entries: bool,
    /// Whether it has points at a function's return, where its result may be read.
    pub returns: bool,
    /// Whether it has points that are neither: BEGIN, END, timers, watchpoints and tracepoints with a record.
    pub others: bool,
    /// Whether it has points with typed arguments: fentry and fexit.
    pub typed: bool,
}

/// One macro expansion: the arguments, and the suffix that keeps its local variables apart.
pub(crate) struct Frame {
    /// The caller's variable for each `$parameter`.
    pub variables: BTreeMap<String, String>,
    /// The caller's map for each `@parameter`.
    pub maps: BTreeMap<String, String>,
    /// The argument expressions: the call's arguments, the number of this one, and the number of frames that were open where it
    /// was written.
    pub expressions: BTreeMap<String, (Arc<[ast::Expr]>, usize, usize)>,
    /// A number that no other expansion has. A local variable `$x` of the macro is named `x#suffix`.
    pub suffix: u32,
}
