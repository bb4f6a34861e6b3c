//! Runs a program on our core: memory, the system calls that it makes, and a small engine of probes.
//!
//! [`here`] runs it in one of the ways of [`How`]: without probes, with a copy of each instruction, or with jumps to detours.

use super::executable::{BYTES, Program, TEXT, WINDOW};
use std::rc::Rc;
use trapline_core::Host;
use trapline_core::parisc::{Core, State, number};
use trapline_isa::detour;
use trapline_isa::insn::Insn;
use trapline_isa::mem::{ByteOrder, Fault, Memory};
use trapline_isa::parisc::{PARISC, abi, slot};
use trapline_isa::plan::{Plan, Policy, Tail, Then};
use trapline_isa::region::{PlainText, region};
use trapline_isa::regs::{Reg, Registers};

/// The address on Linux's gateway page at which programs enter system calls.
const GATE: u32 = 0x100;

/// The way in which our core runs a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    InPlace,
    Stepped,
    Boosted,
    Jumped,
}

/// One probed instruction, and the address of its copy.
struct Point {
    insn: Insn,
    plan: Plan,
    copy: u32,
}

/// Memory, system calls, and a small engine of probes.
struct Machine {
    state: Rc<State>,
    memory: Vec<u8>,
    how: How,
    points: Vec<Option<Point>>,
    start: u32,
    resume: u32,
    output: Vec<u8>,
    hits: u64,
    jumps: u64,
    failed: Option<String>,
}

struct Regs<'a>(&'a State);

impl Registers for Regs<'_> {
    fn get(&self, reg: Reg) -> u64 {
        let state = self.0;
        u64::from(match reg {
            abi::NPC => state.back.get(),
            abi::SPACE => state.front_space.get(),
            abi::NEXT_SPACE => state.back_space.get(),
            abi::LEVEL => state.front_level.get(),
            abi::NEXT_LEVEL => state.back_level.get(),
            abi::SAR => state.control[number::SAR].get(),
            Reg(general @ 0..32) => state.general[usize::from(general)].get(),
            Reg(space @ 40..48) => state.spaces[usize::from(space - 40)].get(),
            other => panic!("register {other:?}"),
        })
    }
    fn set(&mut self, reg: Reg, value: u64) {
        let (state, value) = (self.0, value as u32);
        match reg {
            abi::NEXT_SPACE => state.back_space.set(value),
            abi::NEXT_LEVEL => state.back_level.set(value),
            abi::SPACE => state.front_space.set(value),
            abi::LEVEL => state.front_level.set(value),
            Reg(general @ 1..32) => state.general[usize::from(general)].set(value),
            Reg(space @ 40..48) => state.spaces[usize::from(space - 40)].set(value),
            other => panic!("register {other:?}"),
        }
    }
    fn pc(&self) -> u64 {
        self.0.front.get().into()
    }
    fn set_pc(&mut self, pc: u64) {
        self.0.front.set(pc as u32);
        self.0.back.set((pc as u32).wrapping_add(4));
    }
}

impl Machine {
    fn word(&self, at: u32) -> u32 {
        let from = (at - TEXT) as usize;
        u32::from_be_bytes(self.memory[from..from + 4].try_into().expect("4 bytes"))
    }

    fn put(&mut self, at: u32, bytes: &[u8]) {
        let from = (at - TEXT) as usize;
        self.memory[from..from + bytes.len()].copy_from_slice(bytes);
    }

    /// Probes every instruction of the body. With [`How::Jumped`], instructions that may be replaced by a jump get one.
    fn arm(&mut self, body: std::ops::Range<u32>) {
        let text = self.memory.clone();
        self.start = body.start;
        let function = u64::from(body.start)..u64::from(body.end);
        for (number, at) in body.step_by(4).enumerate() {
            let mut around = PlainText { start: TEXT.into(), bytes: text.clone(), ..PlainText::default() };
            around.bytes.truncate((WINDOW - TEXT) as usize);
            let insn = (PARISC.decode)(at.into(), &self.word(at).to_be_bytes()).expect("a word");
            let plan = (PARISC.plan)(&insn, Policy::Best).expect("it may be probed");
            let plan = (PARISC.in_delay_slot)(&insn, &mut around).map_or(plan, Plan::Emulate);
            let copy = WINDOW + 32 * number as u32;
            if self.how == How::Jumped
                && let Ok(region) = region(&PARISC, Policy::Best, function.clone(), at.into(), &mut around)
                && let Some(table) = PARISC.detour
            {
                let code = detour::lean(&PARISC, table, &region, copy.into()).expect("in reach");
                self.put(copy, code.bytes());
                let jump = (table.jump)(&insn, copy.into()).expect("in reach");
                self.put(at, &jump[..4]);
                self.points.push(None);
                self.jumps += 1;
                continue;
            }
            let tail = if plan == Plan::Boost && self.how != How::Stepped { Tail::JumpBack } else { Tail::Breakpoint };
            let bytes = (PARISC.copy)(&insn, copy.into(), tail).expect("in reach");
            self.put(copy, bytes.bytes());
            self.put(at, PARISC.breakpoint);
            self.points.push(Some(Point { insn, plan, copy }));
        }
    }

    fn hit(&mut self) {
        let state = Rc::clone(&self.state);
        let state = &*state;
        let number = (state.front.get().wrapping_sub(self.start) / 4) as usize;
        let Some(Some(point)) = self.points.get(number) else {
            self.failed = Some(format!("no point at {:x}", state.front.get()));
            return state.stop.set(1);
        };
        self.hits += 1;
        self.resume = point.insn.next() as u32;
        if let Plan::Emulate(what) = &point.plan {
            match (PARISC.emulate)(what, &point.insn, &mut Regs(state), &mut NoMemory).expect("no fault") {
                Then::Onwards => return,
                Then::DelaySlot { then } => return state.back.set(then as u32),
                Then::Copy { .. } => self.resume = state.front.get(),
            }
        }
        state.go_to(point.copy);
    }
}

/// Memory that no emulation of this ISA touches.
struct NoMemory;

impl Memory for NoMemory {
    fn order(&self) -> ByteOrder {
        ByteOrder::Big
    }
    fn read(&mut self, address: u64, _: &mut [u8]) -> Result<(), Fault> {
        Err(Fault { address, write: false })
    }
    fn write(&mut self, address: u64, _: &[u8]) -> Result<(), Fault> {
        Err(Fault { address, write: true })
    }
}

impl Host for Machine {
    fn load(&mut self, physical: u64, size: u32) -> Option<u32> {
        let from = physical.wrapping_sub(TEXT.into()) as usize;
        let bytes = self.memory.get(from..from.checked_add(size as usize)?)?;
        Some(bytes.iter().fold(0, |value, byte| value << 8 | u32::from(*byte)))
    }
    fn store(&mut self, physical: u64, size: u32, value: u32) -> bool {
        let from = physical.wrapping_sub(TEXT.into()) as usize;
        let Some(bytes) = from.checked_add(size as usize).and_then(|end| self.memory.get_mut(from..end)) else { return false };
        bytes.copy_from_slice(&value.to_be_bytes()[4 - size as usize..]);
        true
    }
    fn device_in(&mut self, physical: u64, _: u32) -> u32 {
        self.failed = Some(format!("read of {physical:x}"));
        self.state.stop.set(1);
        0
    }
    fn device_out(&mut self, physical: u64, _: u32, _: u32) {
        self.failed = Some(format!("write of {physical:x}"));
        self.state.stop.set(1);
    }
    fn block(&mut self, _: u64, _: u32) {}
    fn always_wants(&mut self, _: u64) -> bool {
        false
    }
    fn exception(&mut self, number: u32) {
        let state = Rc::clone(&self.state);
        let state = &*state;
        match (number, state.word.get()) {
            (number::ILLEGAL, _) if state.front.get() == GATE => {
                let argument = |number: usize| state.general[number].get();
                match argument(20) {
                    4 => {
                        let from = (argument(25) - TEXT) as usize;
                        self.output.extend(&self.memory[from..from + argument(24) as usize]);
                    }
                    _ => state.stop.set(1),
                }
                state.general[28].set(0);
                state.front_space.set(0);
                state.go_to(argument(31) & !3);
            }
            (number::BREAK, slot::BREAK) => self.hit(),
            (number::BREAK, slot::STEP_END) => state.go_to(self.resume),
            (number::BREAK, slot::STEP_NULLIFIED) => {
                state.go_to(self.resume);
                state.nullify.set(1);
            }
            (number, word) => {
                self.failed = Some(format!("exception {number} of {word:08x} at {:x}", state.front.get()));
                state.stop.set(1);
            }
        }
    }
    fn read_clock(&mut self) {}
    fn has_code(&mut self, _: u64) {}
    fn dropped(&mut self) -> Option<u64> {
        None
    }
}

/// Runs the program on our core. Returns its output, the number of hits and the number of jumps that were written.
pub fn here(program: &Program, how: How) -> Result<(Vec<u8>, u64, u64), String> {
    let mut core = Core::new(TEXT.into(), BYTES as u64);
    let mut machine = Machine {
        state: core.shared_state(),
        memory: program.memory.clone(),
        how,
        points: Vec::new(),
        start: 0,
        resume: 0,
        output: Vec::new(),
        hits: 0,
        jumps: 0,
        failed: None,
    };
    if how != How::InPlace {
        machine.arm(program.body.clone());
    }
    // A program has the lowest privilege.
    core.state().front_level.set(3);
    core.state().go_to(TEXT);
    core.state().line.count.set(i64::MIN / 2);
    core.run(&mut machine);
    match machine.failed {
        Some(why) => Err(why),
        None => Ok((machine.output, machine.hits, machine.jumps)),
    }
}
