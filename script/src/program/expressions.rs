//! Expressions of a compiled script: trees that a hit evaluates to a number ([`Num`]) or to bytes ([`Bytes`]).
//!
//! All names are resolved: maps and variables are numbers. `numbers` has a match arm for each [`Num`], and `strings` for each
//! [`Bytes`]. Numbers have 64 bits, so a comparison that depends on a sign has two forms in [`Op`].

use super::Act;
use crate::types::StackForm;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use trapline_isa::regs::Reg;

/// A numeric expression. It is evaluated to 64 bits. Numbers of maps and variables are indices into the lists of
/// [`State`](crate::run::State).
#[derive(Debug)]
pub enum Num {
    Const(u64),
    Variable(u16),
    Argument(u8),
    StackWord(u8),
    Result,
    Register(Reg),
    Tgid,
    Pid,
    Cpu,
    Now,
    Elapsed,
    Random,
    /// The address of the probed function.
    Function,
    /// An address of the running program, with the number of its mapping.
    InProgram(Box<Num>),
    /// The address of the running task's structure.
    Task,
    Cpus,
    InUser,
    /// A number in guest memory. Unreadable memory yields 0.
    Load {
        at: Box<Num>,
        size: u8,
        signed: bool,
    },
    /// A bit field of a number.
    Bits {
        of: Box<Num>,
        shift: u8,
        width: u8,
        signed: bool,
    },
    /// Truncates a number to this size and extends it again.
    Cut {
        of: Box<Num>,
        size: u8,
        signed: bool,
    },
    Map(u16, Key),
    /// A number in a tuple. `behind` has one entry for each part before it (true: a number), by which that part is skipped.
    Part {
        of: Box<Bytes>,
        behind: Box<[bool]>,
    },
    /// A number in a byte string, in the guest's byte order.
    Inside {
        of: Box<Bytes>,
        at: Box<Num>,
        size: u8,
    },
    /// The number minus one. 0 stays 0. It is the length of a string in a buffer of this size.
    OneLess(Box<Num>),
    Negate(Box<Num>),
    Not(Box<Num>),
    Complement(Box<Num>),
    Binary(Op, Box<[Num; 2]>),
    And(Box<[Num; 2]>),
    Or(Box<[Num; 2]>),
    Choice(Box<[Num; 3]>),
    /// `c ?: b`
    Either(Box<[Num; 2]>),
    /// 1 if two strings are equal. With a limit, only this many bytes of each are compared.
    SameText(Box<[Bytes; 2]>, Option<u32>),
    /// The position of the second string in the first. -1: not found.
    Find(Box<[Bytes; 2]>),
    /// The length of a string.
    Length(Box<Bytes>),
    /// The result of memcmp on this many bytes.
    Compare(Box<[Bytes; 2]>, u32),
    /// `++` and `--`: adds `by`. The value is the one before the step if `before` is set.
    StepVariable {
        variable: u16,
        by: u64,
        before: bool,
    },
    StepMap {
        map: u16,
        key: Key,
        by: u64,
        before: bool,
    },
    HasKey(u16, Key),
    /// Removes a key. 1 if the map had it.
    Delete(u16, Key),
    /// The number of keys of a map.
    Keys(u16),
    /// The number of frames of a stack.
    Frames(Box<Bytes>),
    /// A byte swap of this many bytes.
    Swap(Box<Num>, u8),
    /// The address of the instruction that has written last to this many bytes.
    LastWriter(Box<Num>, u64),
    /// Statements, then a number.
    Behind(Box<[Act]>, Box<Num>),
}

/// A map's key: one value for each part, in order.
pub type Key = Box<[Any]>;

/// A byte expression: a string, tuple, stack, or copy of a structure.
#[derive(Debug)]
pub enum Bytes {
    Literal(Box<[u8]>),
    Variable(u16),
    Comm,
    /// The attach point's name.
    Probe,
    /// A string in guest memory. It has at most `limit` bytes with its 0, and never more than `capacity`.
    Text {
        at: Box<Num>,
        limit: Option<Box<Num>>,
        capacity: u32,
    },
    /// Bytes of guest memory.
    Raw {
        at: Box<Num>,
        length: Box<Num>,
    },
    /// The first bytes of a string.
    Front(Box<Bytes>, Box<Num>),
    Map(u16, Key),
    /// The parts of a tuple, each encoded like a part of a key (`Runner::encode`).
    Tuple(Box<[Any]>),
    /// A part of a tuple that is bytes. See [`Num::Part`].
    Part {
        of: Box<Bytes>,
        behind: Box<[bool]>,
    },
    Choice(Box<Num>, Box<[Bytes; 2]>),
    /// The bytes of a number, this many, in the guest's byte order.
    Number(Box<Num>, u8),
    Stack {
        user: bool,
        form: StackForm,
        limit: u16,
    },
    /// The message of an errno value.
    Error(Box<Num>),
    /// The name of a number. A number without a name is shown in digits.
    Name {
        of: Box<Num>,
        names: Arc<[String]>,
    },
    /// The path of a `struct path`.
    Path {
        start: Box<Num>,
        places: Box<PathPlaces>,
        limit: u32,
    },
    /// `length` bytes of a byte string from the offset `at` on. If `is_text` is set, they end at the first 0.
    Piece {
        of: Box<Bytes>,
        at: Box<Num>,
        length: u64,
        is_text: bool,
    },
    /// Two byte strings, one after the other.
    Join(Box<[Bytes; 2]>),
    /// A line on the last write to this many bytes.
    LastWrite(Box<Num>, u64),
    /// Statements, then a byte expression.
    Behind(Box<[Act]>, Box<Bytes>),
}

/// Offsets of members in the guest's structures, in bytes. `Runner::path` follows them from a `struct path` to the root.
#[derive(Clone, Copy, Debug)]
pub struct PathPlaces {
    /// The offsets of the mount and of the directory entry in `struct path`.
    pub mount: u64,
    pub entry: u64,
    /// The offsets of the parent and of the name in `struct dentry`.
    pub parent: u64,
    pub name: u64,
    /// The offset of the root entry in `struct vfsmount`.
    pub root: u64,
    /// The offsets of the embedded `vfsmount`, of the parent mount and of the mount point in `struct mount`.
    pub inside: u64,
    pub mounted_in: u64,
    pub mounted_at: u64,
}

/// A numeric or a byte expression.
#[derive(Debug)]
pub enum Any {
    Num(Num),
    Bytes(Bytes),
}

/// Binary operators on numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
    BitAnd,
    BitOr,
    BitXor,
    ShiftLeft,
    ShiftRight,
    Equal,
    Unequal,
    Less,
    LessEqual,
    LessSigned,
    LessEqualSigned,
}
