//! A script as it was written: what the parser makes and the compiler reads.

use super::error::Span;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

/// A whole script.
#[derive(Clone, Debug, Default)]
pub struct Ast {
    /// `name = value` of `config = { ... }`.
    pub settings: Vec<(String, Span, Setting)>,
    /// Structures that the script itself defines.
    pub structures: Vec<Structure>,
    /// Enums that it defines, each with its name, which may be empty, and its enumerators.
    pub enums: Vec<(String, Vec<(String, u64)>)>,
    /// `let @name = kind(N);`
    pub maps: Vec<MapKind>,
    /// `macro name(args) { ... }`
    pub macros: Vec<Macro>,
    /// In the order written.
    pub probes: Vec<Probe>,
}

/// What a setting is set to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Setting {
    /// A number, or a truth.
    Number(u64),
    /// A word or a string.
    Text(String),
}

/// How many keys a map may have.
#[derive(Clone, Debug)]
pub struct MapKind {
    pub name: String,
    /// `lruhash`: the key that was used least recently makes room.
    pub evicts: bool,
    pub limit: u64,
}

/// A macro.
#[derive(Clone, Debug)]
pub struct Macro {
    pub name: String,
    pub parameters: Vec<Parameter>,
    pub body: Block,
}

/// What a macro takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parameter {
    /// A variable, which it may change.
    Variable(String),
    /// A map.
    Map(String),
    /// Any expression, put in wherever it is named.
    Expression(String),
}

/// Attach points and what to do there.
#[derive(Clone, Debug)]
pub struct Probe {
    pub points: Vec<Point>,
    pub filter: Option<Expr>,
    pub body: Block,
}

/// `provider:part:part`
#[derive(Clone, Debug)]
pub struct Point {
    pub parts: Vec<(String, Span)>,
    pub at: Span,
}

/// Statements, and the value of a block that has one.
#[derive(Clone, Debug, Default)]
pub struct Block {
    pub statements: Vec<Statement>,
    pub value: Option<Box<Expr>>,
}

/// A statement and where it stands.
#[derive(Clone, Debug)]
pub struct Statement {
    pub at: Span,
    pub kind: Do,
}

/// Kinds of statement.
#[derive(Clone, Debug)]
pub enum Do {
    /// What an expression does besides its value.
    Expr(Expr),
    /// `target op= value`; without an operator `=`.
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

/// What can be assigned to.
#[derive(Clone, Debug)]
pub enum Target {
    Variable(String),
    Map(String, Vec<Expr>),
    /// `_`
    Nothing,
}

/// An expression and where it stands.
#[derive(Clone, Debug)]
pub struct Expr {
    pub at: Span,
    pub kind: Kind,
}

/// Kinds of expression.
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
    Call(String, Vec<Expr>),
    Unary(Unary, Box<Expr>),
    Binary(Binary, Box<Expr>, Box<Expr>),
    /// `c ? a : b`; without `a`: `c ?: b`.
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
    /// `++` and `--`: the target, by how much, and whether the value is that before.
    Step(Box<Target>, bool, bool),
    /// `{ ...; e }`
    Block(Box<Block>),
}

/// Operators before their operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unary {
    Not,
    Complement,
    Negate,
    Load,
}

/// Operators between two operands.
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

/// A type by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeName {
    /// `struct`, `union`, `enum`, or nothing.
    pub tag: Option<Tag>,
    pub name: String,
    /// How many `*`.
    pub pointers: u8,
    /// `[n]`; `[]` is 0.
    pub array: Option<u64>,
    pub at: Span,
}

/// What stands before the name of some types.
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

/// A member of one; its name is empty for a nameless structure.
#[derive(Clone, Debug)]
pub struct Member {
    pub name: String,
    pub kind: MemberKind,
    /// Of a bit field.
    pub bits: Option<u64>,
}

/// What a member is.
#[derive(Clone, Debug)]
pub enum MemberKind {
    Named(TypeName),
    Inside(Structure, Option<u64>),
    /// A pointer to a function or the like: a word.
    Word,
}
