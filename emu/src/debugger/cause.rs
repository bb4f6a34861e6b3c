//! `monitor why`: explains a panic or an oops by the word of memory that was wrong, and the code that wrote it last. It works
//! backwards through the recorded run ([`Timeline`]).
//!
//! Three causes are known. For a memory fault it looks at the registers that made the address, and then for the words from
//! which these were loaded. For a corrupted list that `CONFIG_DEBUG_LIST` has found, it looks for the wrong pointer. For a
//! stack smash that the stack protector has found, it looks for the canary.

use super::callers;
use crate::boot::Kernel;
use crate::cpu::View;
use crate::history::timeline::{Ended, Origin, Seen, Source, Timeline, TimelineError, Touched};
use crate::machine::{Excepted, Place};
use std::time::Duration;
use trapline_isa::mem::Memory;
use trapline_isa::regs::{Reg, Registers};
use trapline_probes::guest::Cpu;
use trapline_probes::watch::Area;

/// The functions that a kernel enters when something is wrong.
const ENTERED: [&str; 3] = ["oops_enter", "panic", "vpanic"];
/// The function that compiled code calls when the stack protector's canary was overwritten.
const SPOILED: &str = "__stack_chk_fail";
/// Parts of the names of the functions that check lists.
const ADDS: &str = "list_add_valid";
const DELETES: &str = "list_del_entry_valid";
/// The most callers that are printed for a write, and the most registers that are followed.
const CALLERS: usize = 8;
const REGISTERS: usize = 2;
/// The code that checks the canary loads it at most this number of instructions before it calls the function that reports the
/// damage.
const LAST_LOADS: usize = 16;

/// Returns the symbolic name of an address.
pub type Names<'a> = &'a dyn Fn(u64) -> String;

/// The entries of the functions that a kernel enters at an oops or a panic.
pub fn entries(kernel: &Kernel) -> Vec<u64> {
    let functions = ENTERED.into_iter().filter_map(|name| kernel.symbols.address_of(name));
    functions.flat_map(|function| kernel.entries(function)).collect()
}

/// Goes to the first oops or panic behind the present place. Returns whether there is one.
pub fn go_to_first(timeline: &mut Timeline, kernel: &Kernel) -> Result<bool, TimelineError> {
    timeline.set_breaks(entries(kernel).into_iter().collect());
    let ended = timeline.forward(|| true)?;
    timeline.set_breaks(Default::default());
    Ok(matches!(ended, Ended::Found(_)))
}

/// Explains the oops or the panic at whose function's entry the timeline stands, in lines of text. The timeline may stand
/// somewhere else afterwards.
pub fn explain(timeline: &mut Timeline, kernel: &Kernel, names: Names<'_>) -> Result<Vec<String>, TimelineError> {
    let (at, mut lines) = (timeline.place(), Vec::new());
    let stack = timeline.look().look(stack_words);
    let spoiled = kernel.symbols.find(SPOILED);
    let mut explainer = Explainer { timeline, kernel, names, lines: &mut lines };
    if let Some(function) =
        spoiled.filter(|function| stack.iter().any(|word| word.wrapping_sub(1).wrapping_sub(function.start) < function.size))
    {
        explainer.spoiled_stack(function.start, at)?;
        return Ok(lines);
    }
    let bits = kernel.arch.isa().pointer_bits;
    let exceptions = explainer.timeline.last_exceptions(at)?;
    // If an exception has led here, its frame with the faulting pc is on the stack.
    let of_this = |exception: &&Excepted| stack.iter().any(|word| word & !bits == exception.place.pc & !bits);
    match exceptions.iter().rev().find(of_this) {
        Some(exception) => explainer.fault(exception)?,
        None => explainer.say("no exception has led here: the kernel itself has called panic()"),
    }
    Ok(lines)
}

/// The words from the stack pointer to the top of the kernel stack.
fn stack_words(view: &mut View) -> Vec<u64> {
    let abi = view.isa.abi;
    let (sp, word, room) = (view.get(abi.sp), view.isa.word, abi.stack_size);
    let (start, end) = match abi.stack_grows_up {
        true => (sp & !(room - 1), sp),
        false => (sp, (sp | (room - 1)).wrapping_add(1)),
    };
    (start..end.max(start)).step_by(word).map_while(|slot| view.read_number(slot, word).ok()).collect()
}

struct Explainer<'a> {
    timeline: &'a mut Timeline,
    kernel: &'a Kernel,
    names: Names<'a>,
    lines: &'a mut Vec<String>,
}

impl Explainer<'_> {
    fn say(&mut self, line: impl Into<String>) {
        self.lines.push(line.into());
    }

    fn named(&self, address: u64) -> String {
        match (self.names)(address) {
            name if name.starts_with("0x") => name,
            name => format!("{address:#x} {name}"),
        }
    }

    /// Explains an exception in the kernel: a list check, a jump to no code, a BUG(), or an access to memory.
    fn fault(&mut self, exception: &Excepted) -> Result<(), TimelineError> {
        let time = self.timeline.now();
        let mut place = self.timeline.go_to_or_before(exception.place)?;
        if let Some((name, check)) = self.list_check(place.pc) {
            return self.corrupted_list(&name, check, place);
        }
        // An instruction that cannot be fetched is no place of the run, and the fault handler may begin at the same time.
        let is_code = self.timeline.look().look(|view| view.read_number(exception.place.pc, 1).is_ok());
        let is_fetch = exception.address == exception.place.pc || !is_code;
        if is_fetch {
            while place.ticks == exception.place.ticks && self.timeline.step_back()? {
                place = self.timeline.place();
            }
            return self.bad_jump(exception.place.pc);
        }
        let registers = self.timeline.registers_of_fault()?;
        let at = self.named(place.pc);
        if registers.is_empty() {
            let vector = exception.vector;
            self.say(format!(
                "{at} raised exception {vector} before {time} of guest time, and made no access to memory: a BUG()"
            ));
            self.say("or another check of the kernel has failed there");
            return self.called_by(CALLERS);
        }
        self.say(format!("{at} faulted"));
        self.registers(place, &registers)
    }

    /// The name and the entry of the kernel's list check, if the pc is in such a function.
    fn list_check(&self, pc: u64) -> Option<(String, u64)> {
        let symbol = self.kernel.symbols.containing(pc)?;
        // The compiler moves the part that reports into a function of its own.
        let name = symbol.name.split('.').next()?.to_string();
        let is_check = name.contains(ADDS) || name.contains(DELETES);
        let entry = self.kernel.symbols.address_of(&name).filter(|_| is_check)?;
        Some((name, self.kernel.entries(entry).next()?))
    }

    /// Says who called the function at the present place.
    fn called_by(&mut self, most: usize) -> Result<(), TimelineError> {
        let callers = callers::of(self.timeline, self.kernel, None).unwrap_or_default();
        for caller in callers.into_iter().skip(1).take(most) {
            let caller = self.named(caller);
            self.say(format!("    called by {caller}"));
        }
        Ok(())
    }

    /// Explains a jump to an address without code: says where the target address came from.
    fn bad_jump(&mut self, target: u64) -> Result<(), TimelineError> {
        let (place, word) = (self.timeline.place(), self.kernel.arch.isa().word);
        let at = self.named(place.pc);
        self.say(format!("{at} jumped to {target:#x}, where no code can be run"));
        let touched = self.timeline.touches()?;
        let mut held = |touched: &&Touched| {
            let held = self.timeline.look().look(|view| view.read_number(touched.address, word));
            !touched.is_store && held.is_ok_and(|held| held == target)
        };
        if let Some(Touched { address, .. }) = touched.iter().find(&mut held).copied() {
            let origin = self.timeline.origin_of_load(place, address, word as u32)?;
            return self.origin("the target", target, origin);
        }
        let registers = self.timeline.registers_of_fault()?;
        self.registers(place, &registers)
    }

    /// Says where the values of these registers at a place came from.
    fn registers(&mut self, place: Place, registers: &[Reg]) -> Result<(), TimelineError> {
        for reg in registers.iter().take(REGISTERS) {
            self.timeline.go_to_or_before(place)?;
            let value = self.timeline.look().look(|view| view.get(*reg));
            let name = self.kernel.arch.isa().abi.names.iter().find(|(_, known)| known == reg).map_or("?", |(name, _)| name);
            let origin = self.timeline.origin(place, *reg)?;
            self.origin(&format!("its register {name}"), value, origin)?;
        }
        Ok(())
    }

    /// Says where a value came from.
    fn origin(&mut self, what: &str, value: u64, Origin { place, source }: Origin) -> Result<(), TimelineError> {
        let maker = self.named(place.pc);
        match source {
            Source::Loaded { address, size, write } => {
                let word = self.named(address);
                self.say(format!("  {what} was {value:#x}, loaded from {size} bytes at {word}"));
                self.say(format!("    by {maker}"));
                return self.written(write);
            }
            Source::Made => self.say(format!("  {what} was {value:#x}, made by {maker} and not loaded from memory")),
            Source::Old => self.say(format!("  {what} was {value:#x}, and had not changed for a long time")),
        }
        Ok(())
    }

    /// Says who last wrote a word before a place.
    fn word(&mut self, what: &str, address: u64, len: u64, before: Place) -> Result<(), TimelineError> {
        let named = self.named(address);
        self.say(format!("{what} {named}"));
        let write = self.timeline.last_write(Area { start: address, len, ..Area::default() }, before)?;
        self.written(write)
    }

    /// Says by which code, task and CPU a write was made.
    fn written(&mut self, write: Option<Seen>) -> Result<(), TimelineError> {
        let Some(Seen { place, access, .. }) = write else {
            self.say("  nobody has written it in the part of the run that was looked through");
            return Ok(());
        };
        let writer = self.named(place.pc);
        self.say(format!("  the last write there was by {writer}"));
        self.say(format!("    {:#x} became {:#x}, {} bytes, by: {}", access.old, access.value, access.size, access.by.name()));
        self.timeline.go_to_or_before(place)?;
        let (pid, comm) = self.timeline.look_at(place.cpu, |view| (view.pid(), view.comm()));
        let comm = comm.split(|byte| *byte == 0).next().unwrap_or_default();
        let (comm, time) = (String::from_utf8_lossy(comm).into_owned(), Duration::from_nanos(access.time));
        self.say(format!("    at {time:?} of guest time, on CPU {}, in task `{comm}` ({pid})", place.cpu));
        self.called_by(CALLERS)
    }

    /// Says which pointer of a list does not fit. The function's arguments are the entry, and for additions the entries in front
    /// of it and behind it.
    fn corrupted_list(&mut self, name: &str, function: u64, at: Place) -> Result<(), TimelineError> {
        let is_deletion = name.contains(DELETES);
        self.say(format!("{} found a corrupted list", self.named(at.pc)));
        self.timeline.set_breaks([function].into());
        let ended = self.timeline.backward(|| true);
        self.timeline.set_breaks(Default::default());
        if !matches!(ended?, Ended::Found(_)) {
            return Ok(());
        }
        let (entry, word) = (self.timeline.place(), self.kernel.arch.isa().word as u64);
        let wrong: Vec<(String, u64)> = self.timeline.look().look(|view| {
            let arguments: Vec<u64> = view.isa.abi.arguments.iter().take(3).map(|reg| view.get(*reg)).collect();
            let mut read = |at: u64| view.read_number(at, word as usize).ok();
            let (wanted, node) = match (is_deletion, &arguments[..]) {
                (true, [node, ..]) => {
                    let (next, prev) = (read(*node), read(node.wrapping_add(word)));
                    (vec![(prev, 0, *node), (next, word, *node)], *node)
                }
                // Linux has (new, prev, next).
                (false, [node, prev, next]) => (vec![(Some(*next), word, *prev), (Some(*prev), 0, *next)], *node),
                _ => (Vec::new(), 0),
            };
            let mut wrong = Vec::new();
            for (neighbour, offset, expected) in wanted {
                let field = if offset == 0 { "next" } else { "prev" };
                let own = if offset == 0 { word } else { 0 };
                match neighbour.map(|neighbour| (neighbour, read(neighbour.wrapping_add(offset)))) {
                    Some((_, Some(held))) if held == expected => {}
                    Some((neighbour, Some(held))) => wrong.push((
                        format!("{neighbour:#x}'s {field} was {held:#x} and should be {expected:#x}: the word"),
                        neighbour.wrapping_add(offset),
                    )),
                    Some((neighbour, None)) if is_deletion => wrong
                        .push((format!("{node:#x}'s neighbour {neighbour:#x} is no address: the word"), node.wrapping_add(own))),
                    Some((neighbour, None)) => wrong.push((format!("the neighbour {neighbour:#x} is no address:"), neighbour)),
                    None => {}
                }
            }
            wrong
        });
        if wrong.is_empty() {
            self.say("  all pointers fit at its entry: the same entry is added twice, or an entry to itself");
        }
        for (what, address) in wrong {
            self.word(&format!("  {what}"), address, word, entry)?;
        }
        Ok(())
    }

    /// Says who overwrote the stack protector's canary, at the entry of the function that reports it. The canary is the word of
    /// the stack that was loaded last before the call.
    fn spoiled_stack(&mut self, function: u64, at: Place) -> Result<(), TimelineError> {
        self.timeline.go_to_or_before(at)?;
        self.timeline.set_breaks(self.kernel.entries(function).collect());
        let ended = self.timeline.backward(|| true);
        self.timeline.set_breaks(Default::default());
        if !matches!(ended?, Ended::Found(_)) {
            self.say("the stack protector has stopped the kernel, and its call was not found");
            return Ok(());
        }
        let (call, word) = (self.timeline.place(), self.kernel.arch.isa().word);
        let (sp, room) = self.timeline.look().look(|view| (view.get(view.isa.abi.sp), view.isa.abi.stack_size));
        let mut before = call;
        for _ in 0..LAST_LOADS {
            before = self.timeline.before(before)?.unwrap_or(before);
        }
        self.timeline.go_to_or_before(before)?;
        let touched = self.timeline.touches_up_to(call)?;
        let is_stack = |touched: &&Touched| {
            !touched.is_store && touched.size as usize == word && touched.address & !(room - 1) == sp & !(room - 1)
        };
        let Some(touched) = touched.iter().rev().find(is_stack) else {
            self.say("the stack protector has stopped the kernel, and its word was not found");
            return Ok(());
        };
        let checked = self.named(touched.pc);
        self.say(format!("{checked} found a spoiled stack"));
        self.word("  the stack protector's word is", touched.address, word as u64, call)
    }
}
