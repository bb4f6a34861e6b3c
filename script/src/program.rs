//! A compiled script: trees of expressions ([`Num`], [`Bytes`]) and statements ([`Act`]). The compiler has resolved all
//! names: maps and variables are numbers. `run.rs` executes it, and `acts`, `numbers` and `strings` have one match arm for
//! each operation.
//!
//! A [`Program`] has blocks and maps. A [`Block`] has attach points (`program/points.rs`), a filter (`program/expressions.rs`) and
//! statements (`program/acts.rs`).

mod acts;
mod expressions;
mod points;

pub use acts::{Act, Printf, Stream};
pub use expressions::{Any, Bytes, Key, Num, Op, PathPlaces};
pub use points::{Point, PointKind, SystemCall};

use super::types::{Aggregate, Type};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use trapline_isa::mem::ByteOrder;

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
