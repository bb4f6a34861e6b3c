//! Compiles arguments to programs for one kernel. Names are resolved once, in [`Programs::bind`]. At a hit
//! [`Programs::run`] only reads registers and memory and writes the values into the record.
//!
//! An unreadable number becomes 0, an unreadable string is marked. Nothing here stops the hit, allocates or waits.

use super::args::{Argument, Base, Hop, Part};
use super::error::{Code, EventError};
use super::types::{Bits, Stored, Type};
use crate::guest::{Cpu, Guest};
use crate::records::{LARGEST_PAYLOAD, Payload};
use crate::watch::Access;
use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU8, Ordering};
use trapline_isa::abi::Abi;
use trapline_isa::arch::Isa;
use trapline_isa::call;
use trapline_isa::mem::Fault;
use trapline_isa::plan::Errno;
use trapline_isa::regs::Reg;

/// The length value that marks an unreadable string.
pub(super) const UNREADABLE: u16 = u16::MAX;

/// The fetch programs of an event, one per argument.
#[derive(Debug)]
pub struct Programs {
    isa: &'static Isa,
    programs: Box<[Program]>,
    /// The bytes that the values take at least: all strings count as empty.
    least: usize,
    /// Whether a hit has more to do than to write these values: [`LEAVES_STACK`] and [`WATCHED`].
    more: AtomicU8,
}

/// The record ends in the call chain.
const LEAVES_STACK: u8 = 1;
/// The event has a filter or triggers.
const WATCHED: u8 = 2;

/// The compiled fetch of one argument: a start value, then dereferences.
#[derive(Debug)]
struct Program {
    start: Start,
    /// The dereferences. All but the last read a word.
    hops: Box<[Hop]>,
    stored: Stored,
    bits: Option<Bits>,
    /// Number of elements, 1 unless it is an array.
    count: u8,
    is_array: bool,
}

/// The source of a program's start value.
#[derive(Debug)]
enum Start {
    Register(Reg),
    /// The stack word at this offset from the stack pointer.
    Stack(i64),
    Constant(u64),
    /// The pc plus this distance.
    FromPc(u64),
    Comm,
    Text(Box<[u8]>),
    /// A number of the access to watched memory.
    Access(Part),
    /// Text about it.
    AccessText(Part),
}

/// The context of a probe, which decides what its arguments may refer to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scope {
    /// The probe is at a function's return.
    pub returns: bool,
    /// The probe is at a function's entry.
    pub entry: bool,
    /// The probe is given by a symbol, not by an address.
    pub by_symbol: bool,
    /// The probe's offset in its file, if it is in a user program.
    pub file_offset: Option<u64>,
    /// It is a watchpoint.
    pub watches: bool,
    /// The probe waits for its module, so symbols may not be known yet.
    pub waits: bool,
}

impl Programs {
    /// Resolves the names in the arguments. Fails at the first argument that this kernel does not support.
    pub fn bind(arguments: &[Argument], scope: Scope, guest: &dyn Guest) -> Result<Programs, EventError> {
        let isa = guest.isa();
        let programs = arguments.iter().map(|argument| bind(argument, scope, guest)).collect::<Result<Vec<_>, _>>()?;
        let mut least = 0;
        for (program, argument) in programs.iter().zip(arguments) {
            least += program.least();
            if least > LARGEST_PAYLOAD {
                let why = format!(
                    "the event's values take more than {LARGEST_PAYLOAD} bytes from here on: fetch less, or use a second event"
                );
                return Err(argument.at.error(Code::EVENT_TOO_BIG, why).with_errno(Errno::E2BIG));
            }
        }
        Ok(Programs { isa, programs: programs.into_boxed_slice(), least, more: AtomicU8::new(0) })
    }

    /// Whether a hit has nothing to do but to write these values.
    #[inline]
    pub(super) fn is_plain(&self) -> bool {
        self.more.load(Ordering::Relaxed) == 0
    }

    /// Whether the event has a filter or triggers.
    pub(super) fn is_watched(&self) -> bool {
        self.more.load(Ordering::Relaxed) & WATCHED != 0
    }

    /// Says that the records end in the call chain.
    pub(super) fn leave_stacks(&self) {
        self.more.fetch_or(LEAVES_STACK, Ordering::Relaxed);
    }

    /// Says whether the event has a filter or triggers.
    pub(super) fn set_watched(&self, is_watched: bool) {
        match is_watched {
            true => self.more.fetch_or(WATCHED, Ordering::Relaxed),
            false => self.more.fetch_and(!WATCHED, Ordering::Relaxed),
        };
    }

    /// Fetches all values into a record. `access` is that of a watchpoint.
    #[inline]
    pub fn run(&self, cpu: &mut dyn Cpu, access: Option<&Access>, into: &mut Payload<'_>) {
        let mut run = Run { abi: self.isa.abi, word: self.isa.word, cpu, access, into, reserved: self.least };
        for program in &self.programs {
            run.program(program);
        }
    }
}

fn bind(argument: &Argument, scope: Scope, guest: &dyn Guest) -> Result<Program, EventError> {
    let isa = guest.isa();
    let hops = argument.fetch.hops.clone().into_boxed_slice();
    let bits = if let Type::Bits(bits) = argument.kind { Some(bits) } else { None };
    let start = start(argument, scope, guest)?;
    let stored = argument.kind.stored(isa.word);
    Ok(Program { start, hops, stored, bits, count: argument.count.unwrap_or(1), is_array: argument.count.is_some() })
}

fn start(argument: &Argument, scope: Scope, guest: &dyn Guest) -> Result<Start, EventError> {
    let (isa, at) = (guest.isa(), argument.fetch.base_at);
    let most = isa.abi.stack_size / isa.word as u64;
    match &argument.fetch.base {
        Base::Register(name) => match isa.abi.register(name) {
            Some(reg) => Ok(Start::Register(reg)),
            None => Err(at.error(Code::BAD_REG_NAME, unknown_register(name, isa))),
        },
        Base::Result => Ok(Start::Register(isa.abi.result)),
        Base::StackPointer => Ok(Start::Register(isa.abi.sp)),
        Base::StackWord(index) if *index <= most => Ok(Start::Stack((index * isa.word as u64) as i64)),
        Base::StackWord(_) => {
            Err(at.error(Code::BAD_STACK_NUM, format!("a kernel stack has {most} words: $stack0 to $stack{most}")))
        }
        Base::Access(_) | Base::AccessText(_) if !scope.watches => {
            Err(at
                .error(Code::BAD_VAR, "only an access to memory has this: fetch it in a watch event, 'w:NAME w@SYMBOL:8 $value'"))
        }
        Base::Access(part) => Ok(Start::Access(*part)),
        Base::AccessText(part) => Ok(Start::AccessText(*part)),
        Base::Argument(_) if scope.returns => {
            Err(at.error(Code::BAD_VAR, "arguments are gone when a function returns: fetch $argN in a 'p' event at its entry"))
        }
        Base::Argument(_) if !scope.by_symbol || !scope.entry => Err(at.error(
            Code::BAD_VAR,
            "$argN is known only at a function's entry that is named by its symbol: probe SYMBOL without an offset",
        )),
        Base::Argument(index @ 1..) if *index <= most => Ok(nth_argument(isa, index - 1)),
        Base::Argument(_) => Err(at.error(Code::BAD_ARG_NUM, format!("arguments are counted from 1: $arg1 to $arg{most}"))),
        Base::Comm => Ok(Start::Comm),
        Base::Text(text) => Ok(Start::Text(text.as_bytes().to_owned().into_boxed_slice())),
        Base::Address(address) if fits_word(i128::from(*address), isa) => Ok(Start::Constant(*address)),
        Base::Address(_) => {
            Err(at.error(Code::BAD_MEM_ADDR, format!("this kernel's addresses have {} bits: write a smaller one", isa.word * 8)))
        }
        Base::Immediate(value) if fits_word(*value, isa) => Ok(Start::Constant(*value as u64 & mask(isa.word))),
        Base::Immediate(_) => {
            Err(at.error(Code::BAD_IMM, format!("this kernel's words have {} bits: write a smaller number", isa.word * 8)))
        }
        // The file is mapped as a whole: the distance in memory is that in the file.
        Base::FileOffset(offset) => Ok(Start::FromPc(offset.wrapping_sub(scope.file_offset.unwrap_or(0)))),
        Base::Symbol(name, offset) => match guest.symbol(name) {
            Some(symbol) => Ok(Start::Constant(symbol.start.wrapping_add_signed(*offset) & mask(isa.word))),
            // It may be one of the module that the probe waits for, after which the programs are made again.
            None if scope.waits => Ok(Start::Constant(0)),
            None => Err(at.error(Code::BAD_MEM_ADDR, unknown_symbol(name, guest)).with_errno(Errno::ENOENT)),
        },
    }
}

/// The error message for an unknown symbol, with similar names.
pub(super) fn unknown_symbol(name: &str, guest: &dyn Guest) -> alloc::string::String {
    let similar = guest.similar_names(name);
    match similar.is_empty() {
        true => format!("no symbol has the name '{name}': look the right one up in the kernel's symbols"),
        false => format!("no symbol has the name '{name}': did you mean {}?", similar.join(", ")),
    }
}

fn unknown_register(name: &str, isa: &Isa) -> alloc::string::String {
    let known: Vec<&str> = isa.abi.names.iter().map(|(name, _)| *name).collect();
    format!("{} has no register '%{name}': its registers are {}", isa.arch.name(), known.join(" "))
}

/// The location of an untyped argument: it and all arguments before it count as words.
fn nth_argument(isa: &Isa, index: u64) -> Start {
    match call::argument(isa, &[], index as usize).low {
        call::Home::Register(reg) => Start::Register(reg),
        call::Home::Stack(above) => Start::Stack(above),
    }
}

fn mask(word: usize) -> u64 {
    if word >= 8 { u64::MAX } else { (1 << (word * 8)) - 1 }
}

fn fits_word(value: i128, isa: &Isa) -> bool {
    let largest = i128::from(mask(isa.word));
    value <= largest && value >= -(largest / 2) - 1
}

impl Program {
    fn least(&self) -> usize {
        self.stored.least() * usize::from(self.count)
    }
}

/// One execution of the programs, at a hit.
struct Run<'a, 'b> {
    abi: &'static Abi,
    word: usize,
    cpu: &'a mut dyn Cpu,
    access: Option<&'a Access>,
    into: &'a mut Payload<'b>,
    /// Bytes that the remaining values need at least. Strings leave them free.
    reserved: usize,
}

impl Run<'_, '_> {
    fn program(&mut self, program: &Program) {
        let is_string = matches!(program.stored, Stored::String | Stored::UserString);
        let Some((last, before)) = program.hops.split_last() else { return self.without_memory(program, is_string) };
        let address =
            self.start(&program.start).and_then(|start| before.iter().try_fold(start, |value, hop| self.word_at(hop, value)));
        let address = address.map(|value| value.wrapping_add_signed(last.offset));
        let user_string = last.user || program.stored == Stored::UserString;
        let step = if is_string { self.word as u64 } else { program.stored.least() as u64 };
        for index in 0..u64::from(program.count) {
            let element = address.map(|address| self.masked(address.wrapping_add(index * step)));
            match is_string {
                true if program.is_array => {
                    let pointer = element.and_then(|element| self.word_at(&Hop { offset: 0, ..*last }, element));
                    self.string(program, pointer, user_string);
                }
                true => self.string(program, element, user_string),
                false => {
                    let value = element.and_then(|element| self.read_number(last.user, element, program.stored.least()));
                    self.scalar(program, value.unwrap_or(0));
                }
            }
        }
    }

    fn without_memory(&mut self, program: &Program, is_string: bool) {
        match &program.start {
            Start::Comm => {
                let comm = self.cpu.comm();
                let len = comm.iter().position(|byte| *byte == 0).unwrap_or(comm.len());
                self.text(program, &comm[..len]);
            }
            Start::Text(text) => self.text(program, text),
            Start::AccessText(part) => {
                let text = match (self.access, part) {
                    (Some(access), Part::Kind) => {
                        if access.is_write {
                            "w"
                        } else {
                            "r"
                        }
                    }
                    (Some(access), _) => access.by.name(),
                    (None, _) => "",
                };
                self.text(program, text.as_bytes());
            }
            start => {
                let value = self.start(start);
                match is_string {
                    true => self.string(program, value, program.stored == Stored::UserString),
                    false => self.scalar(program, value.unwrap_or(0)),
                }
            }
        }
    }

    /// The base value. `None` for text, which has no numeric value.
    fn start(&mut self, start: &Start) -> Option<u64> {
        match start {
            Start::Register(reg) => Some(self.masked(self.cpu.get(*reg))),
            Start::Stack(above) => Some(self.stack_word(*above)),
            Start::Constant(value) => Some(*value),
            Start::FromPc(distance) => Some(self.masked(self.cpu.pc().wrapping_add(*distance))),
            Start::Access(part) => self.access.map(|access| match part {
                Part::Address => access.address,
                Part::Value => access.value,
                Part::Old => access.old,
                Part::Size | Part::Who | Part::Kind => access.size,
            }),
            Start::Comm | Start::Text(_) | Start::AccessText(_) => None,
        }
    }

    /// A stack word. 0 beyond the end of the stack, as in Linux.
    fn stack_word(&mut self, above: i64) -> u64 {
        let sp = self.masked(self.cpu.get(self.abi.sp));
        let address = self.masked(sp.wrapping_add_signed(above));
        let same_stack = (address ^ sp) & !(self.abi.stack_size - 1) == 0;
        if same_stack { self.read_number(false, address, self.word).unwrap_or(0) } else { 0 }
    }

    fn word_at(&mut self, hop: &Hop, value: u64) -> Option<u64> {
        let address = self.masked(value.wrapping_add_signed(hop.offset));
        self.read_number(hop.user, address, self.word)
    }

    fn read_number(&mut self, user: bool, address: u64, size: usize) -> Option<u64> {
        let mut bytes = [0; 8];
        let bytes = &mut bytes[..size.min(8)];
        self.read(user, address, bytes).ok()?;
        Some(self.cpu.order().number(bytes))
    }

    fn read(&mut self, user: bool, address: u64, into: &mut [u8]) -> Result<(), Fault> {
        if user { self.cpu.read_user(address, into) } else { self.cpu.read(address, into) }
    }

    fn scalar(&mut self, program: &Program, value: u64) {
        let value = match program.bits {
            Some(bits) => value >> bits.offset & u64::MAX >> (64 - bits.width),
            None => value,
        };
        let size = program.stored.least();
        self.into.put(&value.to_le_bytes()[..size]);
        self.reserved -= size;
    }

    fn text(&mut self, program: &Program, text: &[u8]) {
        let room = self.string_room(program);
        let kept = &text[..text.len().min(room)];
        self.into.put(&(kept.len() as u16).to_le_bytes());
        self.into.put(kept);
        if kept.len() < text.len() {
            self.into.mark_truncated();
        }
    }

    /// Copies a string up to its 0. Reads aligned pieces, so that it does not touch the next page needlessly.
    fn string(&mut self, program: &Program, address: Option<u64>, user: bool) {
        const PIECE: u64 = 64;
        let room = self.string_room(program);
        let length_at = self.into.len();
        self.into.put(&UNREADABLE.to_le_bytes());
        let Some(mut address) = address else { return };
        let begin = self.into.len();
        let mut piece = [0; PIECE as usize];
        loop {
            let piece = &mut piece[..(PIECE - address % PIECE) as usize];
            if self.read(user, address, piece).is_err() {
                return self.into.shorten(begin);
            }
            let end = piece.iter().position(|byte| *byte == 0);
            let found = &piece[..end.unwrap_or(piece.len())];
            let left = room - (self.into.len() - begin);
            self.into.put(&found[..found.len().min(left)]);
            if found.len() > left {
                self.into.mark_truncated();
            }
            if end.is_some() || found.len() > left {
                break;
            }
            address = self.masked(address.wrapping_add(piece.len() as u64));
        }
        let length = (self.into.len() - begin) as u16;
        self.into.amend(length_at, &length.to_le_bytes());
    }

    /// Number of characters that may be written: the room in the record minus what later values need.
    fn string_room(&mut self, program: &Program) -> usize {
        let own = program.stored.least();
        self.reserved -= own;
        self.into.room().saturating_sub(self.reserved + own)
    }

    fn masked(&self, address: u64) -> u64 {
        address & mask(self.word)
    }
}
