//! Statements of a compiled script ([`Act`]). The file `acts` of the crate executes them.

use super::{Any, Bytes, Key, Num};
use crate::format::Format;
use crate::types::{Aggregate, Type};
use alloc::boxed::Box;

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
