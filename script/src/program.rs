//! A compiled script: numbers and bytes to be worked out, and what to do with them. [`super::run`] runs it.

use super::format::Format;
use super::types::{Aggregate, StackForm, Type};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use trapline_isa::mem::ByteOrder;
use trapline_isa::regs::Reg;
use trapline_probes::tracepoint::Tracepoint;

/// A compiled script.
#[derive(Debug)]
pub struct Program {
    /// Its blocks, in the order written; a block may have several attach points.
    pub blocks: Vec<Block>,
    /// Its maps.
    pub maps: Vec<MapFacts>,
    /// How many variables the block with the most has.
    pub variables: usize,
    /// The largest string that `str` reads, with its 0.
    pub longest_text: u32,
    /// What is shown behind a string that has been cut to that.
    pub trailer: Box<[u8]>,
    /// Memory that a script asks for and that is not there is worth a warning.
    pub warns_of_reads: bool,
    /// Print the maps at the end.
    pub prints_maps: bool,
    /// Bytes of a word of the guest, and whether the most significant comes first.
    pub word: u8,
    /// See `word`.
    pub big_endian: bool,
    /// What the compiler has to say about the script, none of it an error.
    pub warnings: Vec<super::error::ScriptError>,
}

impl Program {
    /// A number of the guest's, of at most 8 bytes.
    pub(super) fn number(&self, bytes: &[u8]) -> u64 {
        if self.big_endian { ByteOrder::Big.number(bytes) } else { ByteOrder::Little.number(bytes) }
    }
}

/// What is done at an attach point.
#[derive(Debug)]
pub struct Block {
    /// Where.
    pub points: Vec<Point>,
    /// Only if this is not 0.
    pub filter: Option<Num>,
    /// Some of its points have conditions of their own.
    pub counts_hits: bool,
    /// What.
    pub body: Box<[Act]>,
    /// Variables that may be read before anything is put into them: at each hit they begin empty.
    pub emptied: Box<[u16]>,
    /// It may keep a function from running.
    pub overrides: bool,
}

/// What a block does that only collects a number in a map without keys, as `@ = hist(arg2)`: it needs nothing of what
/// others do, so a hit of it costs a third.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Collects {
    /// The map.
    pub map: u16,
    /// How.
    pub aggregate: Aggregate,
    /// What.
    pub value: Collected,
}

/// A number that is at hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collected {
    Const(u64),
    Argument(u8),
    Result,
}

impl Block {
    /// What it does, if that is all.
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

/// An attach point, read and resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Point {
    /// What kind.
    pub kind: PointKind,
    /// As `probe` shows it.
    pub name: String,
    /// Where it stands in the script.
    pub at: super::error::Span,
    /// Its arguments have names and types: fentry and fexit.
    pub is_typed: bool,
    /// It is one of those that a pattern stands for: one that is refused is no error.
    pub of_pattern: bool,
    /// The tracepoint that this place stands for.
    pub event: Option<SystemCall>,
    /// Only every so many-th hit counts; 0 and 1: each.
    pub every: u64,
    /// Only if what the function returned has exactly these of those bits.
    pub result: Option<(u64, u64)>,
}

/// A tracepoint of system calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SystemCall {
    /// The call's name; `None`: all of them.
    pub name: Option<String>,
    /// At its end, not its beginning.
    pub exits: bool,
}

/// Kinds of attach point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PointKind {
    /// Before anything else.
    Begin,
    /// At the end.
    End,
    /// A kprobe at a symbol, so many bytes behind it.
    Kprobe(String, u64),
    /// A kprobe at an address.
    Address(u64),
    /// A return probe.
    Kretprobe(String),
    /// A tracepoint of the kernel's, with its record.
    Tracepoint(Arc<Tracepoint>),
    /// One with the arguments of its functions.
    RawTracepoint(Arc<Tracepoint>),
    /// Every so many nanoseconds, on one CPU.
    Interval(u64),
    /// The same on every CPU, in the context of what runs there.
    Profile(u64),
}

/// What is known of a map.
#[derive(Clone, Debug)]
pub struct MapFacts {
    /// With its `@`.
    pub name: String,
    /// The types of its keys' parts; none: it has no keys.
    pub keys: Vec<Type>,
    /// The type of its values.
    pub value: Type,
    /// As many keys as it may have; 0: any number.
    pub limit: u64,
    /// The key that was used least recently makes room.
    pub evicts: bool,
}

/// A number to be worked out.
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
    /// The probed function.
    Function,
    /// The running task's structure.
    Task,
    Cpus,
    InUser,
    /// A number in the guest's memory; an address that cannot be read holds 0.
    Load {
        at: Box<Num>,
        size: u8,
        signed: bool,
    },
    /// Some bits of a number.
    Bits {
        of: Box<Num>,
        shift: u8,
        width: u8,
        signed: bool,
    },
    /// Cut to so many bytes, and extended again.
    Cut {
        of: Box<Num>,
        size: u8,
        signed: bool,
    },
    Map(u16, Key),
    /// A number out of a tuple: behind parts of these kinds (true: a number).
    Part {
        of: Box<Bytes>,
        behind: Box<[bool]>,
    },
    /// A number out of bytes, in the guest's order.
    Inside {
        of: Box<Bytes>,
        at: Box<Num>,
        size: u8,
    },
    /// One less; of 0 itself.
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
    /// Whether both are the same up to so many bytes, as strings.
    SameText(Box<[Bytes; 2]>, Option<u32>),
    /// Where the one stands in the other; -1: nowhere.
    Find(Box<[Bytes; 2]>),
    /// Length of a string.
    Length(Box<Bytes>),
    /// A difference of bytes as memcmp gives it: 0 for none.
    Compare(Box<[Bytes; 2]>, u32),
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
    Delete(u16, Key),
    Keys(u16),
    Frames(Box<Bytes>),
    /// The bytes in the other order.
    Swap(Box<Num>, u8),
    /// Acts, then a number.
    Behind(Box<[Act]>, Box<Num>),
}

/// A map's key: one value a part, in order.
pub type Key = Box<[Any]>;

/// Bytes to be put together.
#[derive(Debug)]
pub enum Bytes {
    Literal(Box<[u8]>),
    Variable(u16),
    Comm,
    /// The attach point's name.
    Probe,
    /// A string in the guest's memory: at most `limit` bytes with its 0, never more than `capacity`.
    Text {
        at: Box<Num>,
        limit: Option<Box<Num>>,
        capacity: u32,
    },
    /// Bytes of the guest's memory.
    Raw {
        at: Box<Num>,
        length: Box<Num>,
    },
    /// The first so many bytes.
    Front(Box<Bytes>, Box<Num>),
    Map(u16, Key),
    Tuple(Box<[Any]>),
    Part {
        of: Box<Bytes>,
        behind: Box<[bool]>,
    },
    Choice(Box<Num>, Box<[Bytes; 2]>),
    /// A number's bytes, so many of them, in memory order.
    Number(Box<Num>, u8),
    Stack {
        user: bool,
        form: StackForm,
        limit: u16,
    },
    /// The text of an error's number.
    Error(Box<Num>),
    /// What a number is called; one that has no name is shown in digits.
    Name {
        of: Box<Num>,
        names: Arc<[String]>,
    },
    /// The path of the file that a `struct path` leads to.
    Path {
        start: Box<Num>,
        places: Box<PathPlaces>,
        limit: u32,
    },
    /// Bytes out of the middle of others.
    Piece {
        of: Box<Bytes>,
        at: Box<Num>,
        length: u64,
        is_text: bool,
    },
    Join(Box<[Bytes; 2]>),
    Behind(Box<[Act]>, Box<Bytes>),
}

/// Where the guest's structures have what leads from a file to the root: distances in bytes.
#[derive(Clone, Copy, Debug)]
pub struct PathPlaces {
    /// In `struct path`: where it is mounted, and its entry.
    pub mount: u64,
    pub entry: u64,
    /// In `struct dentry`.
    pub parent: u64,
    pub name: u64,
    /// In `struct vfsmount`.
    pub root: u64,
    /// In `struct mount`: the `vfsmount`, and what it is mounted in, and where.
    pub inside: u64,
    pub mounted_in: u64,
    pub mounted_at: u64,
}

/// A value of either sort.
#[derive(Debug)]
pub enum Any {
    Num(Num),
    Bytes(Bytes),
}

/// Operators on two numbers.
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

/// Something to do.
#[derive(Debug)]
pub enum Act {
    Number(u16, Num),
    Bytes(u16, Bytes),
    Map(u16, Key, Any),
    Collect(u16, Key, Aggregate, Num),
    Eval(Num),
    Drop(Bytes),
    If(Num, Box<[Act]>, Box<[Act]>),
    /// While the number is not 0; behind each turn, also one that was continued, the acts at the end. A turn costs so
    /// many steps.
    While(Num, Box<[Act]>, Box<[Act]>, u32),
    /// For each key: the variable is a tuple of key and value. A turn costs so many steps.
    ForMap(u16, u16, Box<[Act]>, u32),
    Block(Box<[Act]>),
    Return,
    Break,
    Continue,
    Printf(Box<Printf>, Stream),
    PrintValue(Box<(Any, Type)>),
    PrintMap {
        map: u16,
        top: Num,
        div: Num,
    },
    /// One value of a map.
    PrintEntry {
        map: u16,
        key: Key,
    },
    Clear(u16),
    Zero(u16),
    Exit(Num),
    Time(Box<[u8]>),
    Join {
        at: Num,
        separator: Box<[u8]>,
    },
    /// The function does not run: its caller gets this number.
    Override(Num),
}

/// A format and what stands in it.
#[derive(Debug)]
pub struct Printf {
    pub format: Format,
    pub values: Box<[(Any, Type)]>,
}

/// Where text goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// The script's output.
    Output,
    /// The same, as the text of a file.
    File,
    /// Its warnings.
    Warnings,
    /// Its warnings, and the script ends with an error.
    Failure,
}
