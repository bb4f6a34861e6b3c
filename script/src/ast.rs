//! The syntax tree of a script. The parser makes it and the compiler reads it.

use super::error::Span;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// A whole script.
#[derive(Clone, Debug, Default)]
pub struct Ast {
    /// The settings `name = value` in `config = { ... }`.
    pub settings: Vec<(String, Span, Setting)>,
    /// Structures that the script defines.
    pub structures: Vec<Structure>,
    /// Enums that the script defines, each with its name, which may be empty, and its enumerators.
    pub enums: Vec<(String, Vec<(String, u64)>)>,
    /// Declarations `let @name = kind(N);`.
    pub maps: Vec<MapKind>,
    /// Definitions `macro name(args) { ... }`.
    pub macros: Vec<Macro>,
    /// The probes, in source order.
    pub probes: Vec<Probe>,
}

/// The value of a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Setting {
    /// A number or a boolean.
    Number(u64),
    /// A bare word or a string.
    Text(String),
}

/// A map declaration: its kind and its largest number of keys.
#[derive(Clone, Debug)]
pub struct MapKind {
    pub name: String,
    /// True for `lruhash`, which evicts the least recently used key when the map is full.
    pub evicts: bool,
    pub limit: u64,
}

/// A macro definition.
#[derive(Clone, Debug)]
pub struct Macro {
    pub name: String,
    pub parameters: Vec<Parameter>,
    pub body: Block,
}

/// A parameter of a macro.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parameter {
    /// A variable, passed by reference.
    Variable(String),
    /// A map, passed by reference.
    Map(String),
    /// Any expression. It is substituted wherever the parameter is used.
    Expression(String),
}

/// A probe: attach points, a filter and a block.
#[derive(Clone, Debug)]
pub struct Probe {
    pub points: Vec<Point>,
    pub filter: Option<Expr>,
    pub body: Block,
}

/// An attach point, split at its colons: `provider:part:part`.
#[derive(Clone, Debug)]
pub struct Point {
    pub parts: Vec<(String, Span)>,
    pub at: Span,
}

/// A block: its statements and, for a block expression, its value.
#[derive(Clone, Debug, Default)]
pub struct Block {
    pub statements: Vec<Statement>,
    pub value: Option<Box<Expr>>,
}

/// A statement and its position.
#[derive(Clone, Debug)]
pub struct Statement {
    pub at: Span,
    pub kind: Do,
}

/// The kinds of statement.
#[derive(Clone, Debug)]
pub enum Do {
    /// An expression, evaluated for its side effects.
    Expr(Expr),
    /// `target op= value`. Without an operator it is a plain assignment.
    Assign(Target, Option<Binary>, Expr),
    /// `let $name: type = value`
    Let(String, Option<TypeName>, Option<Expr>),
    If(Expr, Block, Option<Block>),
    While(Expr, Block),
    Unroll(Expr, Block),
    /// `for ($kv : @map)`
    ForMap(String, String, Block),
    /// `for ($i : a..b)`
    ForRange(String, Expr, Expr, Block),
    Return,
    Break,
    Continue,
    Block(Block),
}

/// The target of an assignment.
#[derive(Clone, Debug)]
pub enum Target {
    Variable(String),
    Map(String, Vec<Expr>),
    /// `_`, which discards the value.
    Nothing,
}

/// An expression and its position.
#[derive(Clone, Debug)]
pub struct Expr {
    pub at: Span,
    pub kind: Kind,
}

/// The kinds of expression.
#[derive(Clone, Debug)]
pub enum Kind {
    Number(u64),
    Truth(bool),
    Text(Vec<u8>),
    /// A builtin, an enumerator, or a macro without parameters.
    Name(String),
    Variable(String),
    Map(String, Vec<Expr>),
    Positional(u32),
    PositionalCount,
    /// A call. A macro keeps the arguments for as long as it is expanded.
    Call(String, Arc<[Expr]>),
    Unary(Unary, Box<Expr>),
    Binary(Binary, Box<Expr>, Box<Expr>),
    /// `c ? a : b`. Without `a` it is `c ?: b`.
    Choice(Box<Expr>, Option<Box<Expr>>, Box<Expr>),
    /// `of.name`, `of->name`
    Field(Box<Expr>, String, Span),
    /// `of.0`
    Part(Box<Expr>, u64),
    Index(Box<Expr>, Box<Expr>),
    Cast(TypeName, Box<Expr>),
    Tuple(Vec<Expr>),
    /// `(name = value, ...)`
    Record(Vec<(String, Expr)>),
    SizeOf(TypeName),
    /// `offsetof(struct x, a.b)`
    OffsetOf(TypeName, Vec<String>),
    /// `++` and `--`: the target, the step, and whether the value is the one before the step.
    Step(Box<Target>, bool, bool),
    /// `{ ...; e }`
    Block(Box<Block>),
}

/// Unary operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unary {
    Not,
    Complement,
    Negate,
    Load,
}

/// Binary operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binary {
    Or,
    And,
    BitOr,
    BitXor,
    BitAnd,
    Equal,
    Unequal,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    ShiftLeft,
    ShiftRight,
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
}

/// A type, as the script writes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeName {
    /// The keyword `struct`, `union` or `enum`, if there is one.
    pub tag: Option<Tag>,
    pub name: String,
    /// The number of `*`.
    pub pointers: u8,
    /// The length in `[n]`. 0 stands for `[]`.
    pub array: Option<u64>,
    pub at: Span,
}

/// The keyword in front of the name of a structure, union or enum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tag {
    /// `struct`
    Struct,
    /// `union`
    Union,
    /// `enum`
    Enum,
}

/// A structure or union that the script defines.
#[derive(Clone, Debug)]
pub struct Structure {
    pub name: String,
    pub is_union: bool,
    pub packed: bool,
    pub members: Vec<Member>,
}

/// A member of a structure. The name of an anonymous structure is empty.
#[derive(Clone, Debug)]
pub struct Member {
    pub name: String,
    pub kind: MemberKind,
    /// The width of a bit field, in bits.
    pub bits: Option<u64>,
}

/// The type of a member.
#[derive(Clone, Debug)]
pub enum MemberKind {
    Named(TypeName),
    Inside(Structure, Option<u64>),
    /// A function pointer or the like. It has the size of a word.
    Word,
}
