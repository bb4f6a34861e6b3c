//! A compiled script: trees of expressions ([`Num`], [`Bytes`]) and statements ([`Act`]). The compiler has resolved all
//! names: maps and variables are numbers. `run.rs` executes it, and `acts`, `numbers` and `strings` have one match arm for
//! each operation.

use super::format::Format;
use super::types::{Aggregate, StackForm, Type};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use trapline_isa::mem::ByteOrder;
use trapline_isa::regs::Reg;
use trapline_probes::tracepoint::Tracepoint;
use trapline_probes::user::{Place, Usdt};
use trapline_probes::watch::Area;

/// A compiled script.
#[derive(Debug)]
pub struct Program {
    /// The blocks, in source order. A block may have several attach points.
    pub blocks: Vec<Block>,
    /// The maps of the script, by number.
    pub maps: Vec<MapFacts>,
    /// The number of variables of the block that has the most.
    pub variables: usize,
    /// The default size of strings that `str` reads, in bytes, with the terminating 0.
    pub longest_text: u32,
    /// The text that is printed after a truncated string.
    pub trailer: Box<[u8]>,
    /// Whether a read of unreadable memory prints a warning.
    pub warns_of_reads: bool,
    /// Whether all maps are printed at the end.
    pub prints_maps: bool,
    /// The guest's word size, in bytes.
    pub word: u8,
    /// Whether the guest is big-endian.
    pub big_endian: bool,
    /// Whether it names addresses of user programs.
    pub names_programs: bool,
    /// Warnings of the compiler.
    pub warnings: Vec<super::error::ScriptError>,
}

impl Program {
    /// Decodes a number of at most 8 bytes in the guest's byte order.
    pub(super) fn number(&self, bytes: &[u8]) -> u64 {
        if self.big_endian { ByteOrder::Big.number(bytes) } else { ByteOrder::Little.number(bytes) }
    }
}

/// A block of a script.
#[derive(Debug)]
pub struct Block {
    /// Its attach points.
    pub points: Vec<Point>,
    /// The filter. The body runs only if it is not 0.
    pub filter: Option<Num>,
    /// Whether some attach points have conditions of their own: a hit count or a result.
    pub counts_hits: bool,
    /// The statements.
    pub body: Box<[Act]>,
    /// Variables that may be read before they are assigned. They are emptied at each hit.
    pub emptied: Box<[u16]>,
    /// Whether it contains `override`, which skips the probed function.
    pub overrides: bool,
}

/// A block that only adds a number to a map without keys, such as `@ = hist(arg2)`. A hit of it takes a short cut that
/// costs a third.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Collects {
    /// The number of the map.
    pub map: u16,
    /// The aggregation that takes the value.
    pub aggregate: Aggregate,
    /// The number that is added.
    pub value: Collected,
}

/// A number that needs no evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collected {
    Const(u64),
    Argument(u8),
    Result,
}

impl Block {
    /// The short form of this block, if it has one.
    pub fn collects(&self) -> Option<Collects> {
        let (None, false, [Act::Collect(map, key, aggregate, value)]) = (&self.filter, self.counts_hits, &*self.body) else {
            return None;
        };
        let value = match value {
            Num::Const(number) => Collected::Const(*number),
            Num::Argument(number) => Collected::Argument(*number),
            Num::Result => Collected::Result,
            _ => return None,
        };
        key.is_empty().then_some(Collects { map: *map, aggregate: *aggregate, value })
    }
}

/// A resolved attach point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Point {
    /// The kind, with the symbol, address or time that it needs.
    pub kind: PointKind,
    /// Its name, as the builtin `probe` shows it.
    pub name: String,
    /// Its position in the script.
    pub at: super::error::Span,
    /// Whether its arguments have names and types: fentry and fexit.
    pub is_typed: bool,
    /// Whether it comes from a pattern. A refusal is then no error.
    pub of_pattern: bool,
    /// The system-call tracepoint that this function stands for.
    pub event: Option<SystemCall>,
    /// The hit count: only every Nth hit runs the block. 0 and 1 mean every hit.
    pub every: u64,
    /// A mask and a value: the block runs only if the function's result, masked, equals the value.
    pub result: Option<(u64, u64)>,
    /// The number of the counter of its hits, if only some of them count.
    pub counter: u32,
}

impl Point {
    /// Whether it has conditions of its own.
    pub fn counts_hits(&self) -> bool {
        self.every > 1 || self.result.is_some()
    }

    /// Whether a hit of this point belongs to a process. BEGIN, END and `interval` belong to none; `profile` samples
    /// the running one.
    pub fn is_somebodys(&self) -> bool {
        !matches!(self.kind, PointKind::Begin | PointKind::End | PointKind::Interval(_))
    }
}

/// A system-call tracepoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SystemCall {
    /// The name of the call. `None` means all calls.
    pub name: Option<String>,
    /// Whether it is the exit of the call instead of the entry.
    pub exits: bool,
}

/// Kinds of attach point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PointKind {
    /// BEGIN.
    Begin,
    /// END.
    End,
    /// A kprobe at an offset from a symbol, in bytes.
    Kprobe(String, u64),
    /// A kprobe at an address.
    Address(u64),
    /// A return probe.
    Kretprobe(String),
    /// A probe in a user program: the file's path in the guest, the place in it, and whether it is at returns.
    User(String, Place, bool),
    /// A place in a user program that its author has marked, and the file's path in the guest.
    Usdt(String, Arc<Usdt>),
    /// A tracepoint of the kernel, with its record.
    Tracepoint(Arc<Tracepoint>),
    /// A tracepoint with the arguments of its functions (rawtracepoint).
    RawTracepoint(Arc<Tracepoint>),
    /// A timer on one CPU. Its period is in nanoseconds.
    Interval(u64),
    /// A timer on every CPU, which samples the running code. Its period is in nanoseconds.
    Profile(u64),
    /// Memory.
    Watchpoint(Area),
    /// Memory of an object to which an argument points at a function's entry, or the result at its return, from then on.
    WatchObject {
        /// The name of the function.
        function: String,
        /// The number of the argument, from 0. `None` is the result.
        argument: Option<u8>,
        /// The distance of the watched memory from the object's start.
        offset: u64,
        /// The area, without its address.
        area: Area,
    },
}

/// A map: its name, types and limits.
#[derive(Clone, Debug)]
pub struct MapFacts {
    /// The name, with its `@`.
    pub name: String,
    /// The types of the key's parts. Empty for a map without keys.
    pub keys: Vec<Type>,
    /// The type of its values.
    pub value: Type,
    /// The largest number of keys. 0 means the default.
    pub limit: u64,
    /// Whether the least recently used key is evicted when the map is full.
    pub evicts: bool,
}

/// A numeric expression. It is evaluated to 64 bits. Numbers of maps and variables are indices into the lists of
/// [`State`](super::run::State).
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

/// A statement.
#[derive(Debug)]
pub enum Act {
    /// Assigns a number to a variable.
    Number(u16, Num),
    /// Assigns bytes to a variable.
    Bytes(u16, Bytes),
    /// Assigns a value to a key of a map.
    Map(u16, Key, Any),
    /// Adds a value to an aggregation in a map.
    Collect(u16, Key, Aggregate, Num),
    /// Evaluates a number for its side effects.
    Eval(Num),
    /// Evaluates bytes for their side effects.
    Drop(Bytes),
    /// A condition, and the statements for true and for false.
    If(Num, Box<[Act]>, Box<[Act]>),
    /// A loop: condition, body, and statements that run after each iteration, also after `continue`. The last field is
    /// the number of steps that an iteration costs.
    While(Num, Box<[Act]>, Box<[Act]>, u32),
    /// A loop over the keys of a map. The variable becomes a tuple of key and value. The last field is the number of
    /// steps that an iteration costs.
    ForMap(u16, u16, Box<[Act]>, u32),
    Block(Box<[Act]>),
    Return,
    Break,
    Continue,
    Printf(Box<Printf>, Stream),
    PrintValue(Box<(Any, Type)>),
    /// Prints a map: only the `top` largest values (0: all), each divided by `div`.
    PrintMap {
        map: u16,
        top: Num,
        div: Num,
    },
    /// Prints one value of a map.
    PrintEntry {
        map: u16,
        key: Key,
    },
    /// Removes all keys of a map.
    Clear(u16),
    /// Sets all values of a map to 0.
    Zero(u16),
    /// Ends tracing with this exit status.
    Exit(Num),
    /// Prints the wall-clock time in this strftime format.
    Time(Box<[u8]>),
    /// Prints the strings of an array of pointers.
    Join {
        at: Num,
        separator: Box<[u8]>,
    },
    /// Skips the probed function. Its caller gets this number.
    Override(Num),
    /// `unwatch`: ends the script's watchpoints on the object at this address.
    Unwatch(Num),
}

/// A format with its values.
#[derive(Debug)]
pub struct Printf {
    pub format: Format,
    pub values: Box<[(Any, Type)]>,
}

/// The destination of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// The output of the script.
    Output,
    /// The output, as the contents of a file.
    File,
    /// The warnings, which do not go to the script's output.
    Warnings,
    /// The warnings. The script then ends with an error.
    Failure,
}
