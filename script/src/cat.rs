//! Compiles `cat()`. A script cannot open files of the guest, but it can compute the contents of a few files of /proc
//! from the kernel's memory.

use super::ast::{Expr, Kind, Tag};
use super::compile::Compiler;
use super::error::{ScriptError, Span};
use super::format::Format;
use super::operators::{add, fold};
use super::program::{Act, Any, Bytes, Num, Op, Printf, Stream};
use super::types::{CType, Type};
use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;

/// The number of CPUs whose run queues are read. Missing CPUs count nothing.
const MOST_CPUS: u64 = 8;
/// The kernel's fixed-point format of load averages: the number of fraction bits, and the addend that rounds to two
/// digits.
const LOAD_BITS: u64 = 11;
const LOAD_ROUND: u64 = (1 << LOAD_BITS) / 200;

impl Compiler<'_> {
    /// Compiles the contents of one file.
    pub fn cat(&mut self, arguments: &[Expr], at: Span) -> Result<Act, ScriptError> {
        let [Expr { kind: Kind::Text(path), .. }] = arguments else {
            return Err(at.error("cat() takes a file's name in quotes: cat(\"/proc/loadavg\")"));
        };
        let (text, values) = match path.as_slice() {
            b"/proc/loadavg" => ("%d.%02d %d.%02d %d.%02d %d/%d %d\n", self.load_line(at)?),
            b"/proc/version" => ("%s", Vec::from([self.banner(at)?])),
            _ => {
                return Err(at.error(
                    "the guest's files are out of reach, but for /proc/loadavg and /proc/version: let the guest's own script print them",
                ));
            }
        };
        let format = Format::parse(text.as_bytes()).map_err(|why| at.error(why))?;
        Ok(Act::Printf(Box::new(Printf { format, values: values.into() }), Stream::File))
    }

    /// The address of a kernel variable. Fails if the kernel's symbol table lacks it.
    fn symbol(&self, name: &str, at: Span) -> Result<Num, ScriptError> {
        let address = self.knowledge.data(name);
        address.map(Num::Const).ok_or_else(|| {
            at.error(format!("this file's contents are found by {name}, whose address this kernel's own table does not have"))
        })
    }

    /// /proc/version: the kernel's `linux_banner`.
    fn banner(&self, at: Span) -> Result<(Any, Type), ScriptError> {
        let text = Bytes::Text { at: Box::new(self.symbol("linux_banner", at)?), limit: None, capacity: 1024 };
        Ok((Any::Bytes(text), Type::Text(1024)))
    }

    /// /proc/loadavg: three averages, running and existing tasks, and the newest pid.
    fn load_line(&self, at: Span) -> Result<Vec<(Any, Type)>, ScriptError> {
        let word = self.known.word;
        let load = |at: Num, size: u8| Num::Load { at: Box::new(at), size, signed: false };
        let averages = self.symbol("avenrun", at)?;
        let Num::Const(averages) = averages else { return Err(at.error("avenrun is nowhere")) };
        let mut values = Vec::new();
        for number in 0..3 {
            let average = || {
                let held = load(Num::Const(averages.wrapping_add(number * u64::from(word))), word);
                fold(Op::Add, held, Num::Const(LOAD_ROUND))
            };
            let fraction = fold(Op::BitAnd, average(), Num::Const((1 << LOAD_BITS) - 1));
            let hundredths = fold(Op::ShiftRight, fold(Op::Multiply, fraction, Num::Const(100)), Num::Const(LOAD_BITS));
            values.extend([fold(Op::ShiftRight, average(), Num::Const(LOAD_BITS)), hundredths]);
        }
        let (queues, offsets) = (self.symbol("runqueues", at)?, self.symbol("__per_cpu_offset", at)?);
        let (Num::Const(queues), Num::Const(offsets)) = (queues, offsets) else { return Err(at.error("runqueues are nowhere")) };
        let running = self.offset("rq", &["nr_running"], at)?;
        let of_cpu = |cpu: u64| {
            let area = || load(Num::Const(offsets.wrapping_add(cpu * u64::from(word))), word);
            let count = load(add(fold(Op::Add, area(), Num::Const(queues)), running), 4);
            // The per-CPU offset of a missing CPU points at the initial copy of the data, so there is no run queue at
            // that address.
            let is_there = Num::Binary(Op::Less, Box::new([Num::Const(cpu), Num::Cpus]));
            Num::Choice(Box::new([is_there, count, Num::Const(0)]))
        };
        values.push((1..MOST_CPUS).fold(of_cpu(0), |sum, cpu| fold(Op::Add, sum, of_cpu(cpu))));
        values.push(load(self.symbol("nr_threads", at)?, 4));
        let next = self.offset("pid_namespace", &["idr", "idr_next"], at)?;
        values.push(fold(Op::Subtract, load(add(self.symbol("init_pid_ns", at)?, next), 4), Num::Const(1)));
        Ok(values.into_iter().map(|value| (Any::Num(value), Type::U64)).collect())
    }

    /// The offset of a member in a structure, in bytes.
    fn offset(&self, structure: &str, path: &[&str], at: Span) -> Result<u64, ScriptError> {
        let missing =
            || at.error(format!("this file's contents are found by struct {structure}, which this kernel's types do not have"));
        let mut kind = self.known.named(Some(Tag::Struct), structure).ok_or_else(missing)?;
        let mut bits = 0;
        for name in path {
            let CType::Struct(number, _) = kind else { return Err(missing()) };
            let field = self.known.field(number, name).ok_or_else(missing)?;
            bits = field.bit.saturating_add(bits);
            kind = field.kind;
        }
        Ok(bits / 8)
    }
}
