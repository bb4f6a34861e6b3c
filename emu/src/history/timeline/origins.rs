//! The origin of a value: exceptions in front of a place, and the way of a value through registers and memory.
//!
//! Nothing here decodes instructions. An instruction is executed again with a changed register: if its result or its fault
//! changes, it has used that register. So this holds on every ISA.

use super::{Seen, Timeline, TimelineError, Touched};
use crate::clock::Ticks;
use crate::cpu::View;
use crate::machine::{Excepted, Place, StopsAt};
use trapline_isa::mem::Memory;
use trapline_isa::regs::{Reg, Registers};
use trapline_probes::watch::Area;

/// The longest virtual time in which the last change of a register is looked for: a quarter of a millisecond.
const MOST: Ticks = 1_000_000;
/// Added to a register to see what depends on it. It leads into another page, and far from small numbers.
const SHIFT: u64 = 0x0100_0000;
/// The most moves of a value that are followed.
const MOST_MOVES: usize = 24;
/// Virtual time that is enough for one instruction and the exception that it may raise.
const ONE: Ticks = 4096;

/// The kinds of origins of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// It was loaded from this word.
    Loaded {
        /// The address of the word.
        address: u64,
        /// The number of bytes.
        size: u32,
        /// The last write to it before the load. `None`: nobody has written it since the timeline's start.
        write: Option<Seen>,
    },
    /// An instruction has made it from constants, or of several registers.
    Made,
    /// The register was not changed in the part of the run that was searched.
    Old,
}

/// The origin of a register's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The place of the instruction that loaded or made it.
    pub place: Place,
    /// The kind of the origin.
    pub source: Source,
}

impl Timeline {
    /// The last exceptions of the kernel itself in front of a place, oldest first.
    pub fn last_exceptions(&mut self, before: Place) -> Result<Vec<Excepted>, TimelineError> {
        let (breaks, areas) = (self.stops.breaks.clone(), self.areas.clone());
        self.set_breaks(Default::default());
        self.set_areas(Vec::new());
        let found = self.exceptions(before);
        self.set_areas(areas);
        self.set_breaks(breaks);
        found
    }

    fn exceptions(&mut self, before: Place) -> Result<Vec<Excepted>, TimelineError> {
        let mut upper = before;
        let first = self.saved.iter().rposition(|saved| before.is_behind(&saved.place)).unwrap_or(0);
        for from in (0..=first).rev() {
            self.last_in(from, &upper, 0)?;
            let mut found = self.machine.parts().0.take_excepted();
            found.retain(|exception| !exception.place.is_behind(&before));
            if !found.is_empty() {
                return Ok(found);
            }
            upper = self.saved[from].place;
        }
        Ok(Vec::new())
    }

    /// Executes one instruction at the present place and returns the accesses that it was about to make.
    pub fn touches(&mut self) -> Result<Vec<Touched>, TimelineError> {
        Ok(self.try_step(&[None])?.pop().map(|tried| tried.touched).unwrap_or_default())
    }

    /// The accesses on the way from the present place to another one behind it, the last ones if they are many.
    pub fn touches_up_to(&mut self, place: Place) -> Result<Vec<Touched>, TimelineError> {
        let mut all = Vec::new();
        self.machine.tell_each_access(true);
        let mut answer = Ok(());
        while answer.is_ok() && self.place() != place && !self.place().is_behind(&place) {
            answer = self.step().map(|_| ());
            all.extend(self.machine.parts().0.take_touched());
        }
        self.machine.tell_each_access(false);
        answer.map(|()| all)
    }

    /// The registers whose values decide about the exception that the instruction at the present place raises: those that make
    /// the address of its access, or of its jump.
    pub fn registers_of_fault(&mut self) -> Result<Vec<Reg>, TimelineError> {
        let registers = self.registers();
        let given: Vec<Option<(Reg, u64)>> = [None]
            .into_iter()
            .chain(registers.iter().map(|(reg, value)| Some((*reg, value.wrapping_add(SHIFT)))))
            .chain(registers.iter().map(|(reg, _)| Some((*reg, 0x10))))
            .collect();
        let tried = self.try_step(&given)?;
        let Some((plain, others)) = tried.split_first() else { return Ok(Vec::new()) };
        // A control register may change the exception too. It does not change the address.
        let addresses = |tried: &Tried| tried.touched.iter().map(|touched| touched.address).collect::<Vec<u64>>();
        let differs = |number: usize| {
            others.get(number).is_some_and(|other| match plain.excepted {
                Some(_) => !plain.touched.is_empty() && !other.touched.is_empty() && addresses(other) != addresses(plain),
                None => other.next.pc != plain.next.pc,
            })
        };
        let count = registers.len();
        let used = (0..count).filter(|number| differs(*number) || differs(number + count));
        Ok(used.map(|number| registers[number].0).collect())
    }

    /// The origin of the value that a register has at a place. It goes back through copies in other registers and on the stack.
    pub fn origin(&mut self, mut place: Place, mut reg: Reg) -> Result<Origin, TimelineError> {
        for _ in 0..MOST_MOVES {
            self.go_to_or_before(place)?;
            let value = self.look_with(|view| view.get(reg));
            let Some(changed) = self.last_change(place, reg)? else { return Ok(Origin { place, source: Source::Old }) };
            self.go_to(changed)?;
            match self.made_by(reg, value)? {
                Step::Load { address, size } => match self.loaded(changed, address, size)? {
                    Loaded::Saved(from, saved) => (place, reg) = (from, saved),
                    Loaded::Word(origin) => return Ok(origin),
                },
                Step::Copy(from) => (place, reg) = (changed, from),
                Step::Made => return Ok(Origin { place: changed, source: Source::Made }),
            }
        }
        Ok(Origin { place, source: Source::Made })
    }

    /// The origin of a value that the instruction at a place loads from this word.
    pub fn origin_of_load(&mut self, place: Place, address: u64, size: u32) -> Result<Origin, TimelineError> {
        self.go_to_or_before(place)?;
        match self.loaded(place, address, size)? {
            Loaded::Saved(from, reg) => self.origin(from, reg),
            Loaded::Word(origin) => Ok(origin),
        }
    }

    /// The way on from a word that was loaded at the present place. If a register was saved in it, on the stack, its value came
    /// from there.
    fn loaded(&mut self, place: Place, address: u64, size: u32) -> Result<Loaded, TimelineError> {
        let (sp, room) = self.look_with(|view| (view.get(view.isa.abi.sp), view.isa.abi.stack_size));
        let is_stack = address & !(room - 1) == sp & !(room - 1);
        let area = Area { start: address, len: size.clamp(1, 8).into(), ..Area::default() };
        let write = self.last_write(area, place)?;
        if let (Some(seen), true) = (&write, is_stack) {
            self.go_to_or_before(seen.place)?;
            if let Some(reg) = self.stored_register(address, size, seen.access.value)? {
                return Ok(Loaded::Saved(seen.place, reg));
            }
        }
        Ok(Loaded::Word(Origin { place, source: Source::Loaded { address, size, write } }))
    }

    /// The instruction at the present place gives a register this value. Says from where.
    fn made_by(&mut self, reg: Reg, value: u64) -> Result<Step, TimelineError> {
        let registers = self.registers();
        for touched in self.touches()?.into_iter().filter(|touched| !touched.is_store) {
            let size = touched.size.clamp(1, 8);
            let held = self.look_with(|view| view.read_number(touched.address, size as usize));
            let mask = u64::MAX >> (64 - 8 * size);
            if held.is_ok_and(|held| held == value & mask) {
                return Ok(Step::Load { address: touched.address, size });
            }
        }
        let given: Vec<_> = registers.iter().map(|(reg, value)| Some((*reg, value.wrapping_add(SHIFT)))).collect();
        let values = self.try_step_for(&given, |view| view.get(reg))?;
        let made_of: Vec<(Reg, u64)> =
            registers.iter().zip(&values).filter(|(_, after)| **after != value).map(|(register, _)| *register).collect();
        if let Some((reg, _)) = made_of.iter().find(|(_, held)| *held == value) {
            return Ok(Step::Copy(*reg));
        }
        // An offset was added to one of them.
        let is_near = |held: u64| value.wrapping_sub(held).wrapping_add(SHIFT / 2) < SHIFT;
        let near: Vec<Reg> = made_of.iter().filter(|(_, held)| is_near(*held)).map(|(reg, _)| *reg).collect();
        Ok(match near[..] {
            [reg] => Step::Copy(reg),
            _ => Step::Made,
        })
    }

    /// The register that the instruction at the present place stores at this address.
    fn stored_register(&mut self, address: u64, size: u32, value: u64) -> Result<Option<Reg>, TimelineError> {
        let mask = u64::MAX >> (64 - 8 * size.clamp(1, 8));
        let registers: Vec<(Reg, u64)> = self.registers().into_iter().filter(|(_, held)| held & mask == value & mask).collect();
        let given: Vec<_> = registers.iter().map(|(reg, value)| Some((*reg, value.wrapping_add(SHIFT)))).collect();
        let stored = self.try_step_for(&given, |view| view.read_number(address, size as usize).unwrap_or(value))?;
        let found = registers.iter().zip(&stored).find(|(_, stored)| **stored & mask != value & mask);
        Ok(found.map(|((reg, _), _)| *reg))
    }

    /// The last place in front of this one whose instruction has changed a register. `None`: not for a long time.
    fn last_change(&mut self, place: Place, reg: Reg) -> Result<Option<Place>, TimelineError> {
        let mut slack = self.slack();
        loop {
            self.notice_nothing();
            let is_in_front =
                |saved: &super::Saved| place.is_behind(&saved.place) && saved.place.ticks <= place.ticks.saturating_sub(slack);
            let from = self.saved.iter().rposition(is_in_front).unwrap_or(0);
            self.go_to_checkpoint(from)?;
            self.approach(from, &place, slack)?;
            let mut last = None;
            loop {
                let (here, before) = (self.place(), self.look_with(|view| view.get(reg)));
                if here == place || here.is_behind(&place) || self.step()?.is_end() {
                    break;
                }
                let after = self.look_with(|view| view.get(reg));
                if here.cpu == place.cpu && self.place().cpu == place.cpu && after != before {
                    last = Some(here);
                }
            }
            if last.is_some() || slack > MOST || from == 0 && slack > place.ticks.saturating_sub(self.start().ticks) {
                return Ok(last);
            }
            slack = slack.saturating_mul(16);
        }
    }

    fn look_with<R>(&mut self, with: impl FnOnce(&mut View) -> R) -> R {
        self.machine.look(with)
    }

    /// The general registers of the running CPU, each once, except those that hold the pc.
    fn registers(&mut self) -> Vec<(Reg, u64)> {
        self.look_with(|view| {
            let mut all: Vec<(Reg, u64)> = Vec::new();
            for (_, reg) in view.isa.abi.names {
                let value = view.get(*reg);
                if value != view.pc && all.iter().all(|(known, _)| known != reg) {
                    all.push((*reg, value));
                }
            }
            all
        })
    }

    /// Executes the instruction at the present place, each time with another register changed, and looks at the result.
    fn try_step_for<R>(&mut self, given: &[Option<(Reg, u64)>], look: impl Fn(&mut View) -> R) -> Result<Vec<R>, TimelineError> {
        self.prepare_tries();
        let here = self.place();
        self.try_out(given.len(), |machine, number| {
            if let Some(Some((reg, value))) = given.get(number) {
                machine.look(|view| view.set(*reg, *value));
            }
            machine.run_from(Some(here), here.ticks.saturating_add(ONE));
            machine.look(&look)
        })
    }

    /// Executes the instruction at the present place, each time with another register changed.
    fn try_step(&mut self, given: &[Option<(Reg, u64)>]) -> Result<Vec<Tried>, TimelineError> {
        self.prepare_tries();
        let here = self.place();
        self.machine.tell_each_access(true);
        let tried = self.try_out(given.len(), |machine, number| {
            if let Some(Some((reg, value))) = given.get(number) {
                machine.look(|view| view.set(*reg, *value));
            }
            machine.parts().0.start(0, false);
            machine.run_from(Some(here), here.ticks.saturating_add(ONE));
            let next = machine.place();
            let observer = machine.parts().0;
            let excepted = observer.take_excepted().last().map(|exception| (exception.vector, exception.address));
            Tried { touched: observer.take_touched(), excepted, next }
        });
        self.machine.tell_each_access(false);
        tried
    }

    fn prepare_tries(&mut self) {
        self.notice_nothing();
        self.stop_at(|stops| *stops = StopsAt { each: true, only_notes: true, ..stops.clone() });
    }
}

/// One move of a value, backwards.
enum Step {
    Load { address: u64, size: u32 },
    Copy(Reg),
    Made,
}

/// The way on from a loaded word.
enum Loaded {
    /// It was a register's value, saved on the stack at this place.
    Saved(Place, Reg),
    /// The word is the end of the way.
    Word(Origin),
}

/// The effects of an instruction that was tried.
struct Tried {
    touched: Vec<Touched>,
    excepted: Option<(u32, u64)>,
    next: Place,
}
