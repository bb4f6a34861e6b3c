//! Implementations of [`ScriptContext`], through which a script sees the guest: hits of probes, returns, tracepoint records and
//! timers. Also reads the kernel's and the user's stack.

use super::attach::KEPT;
use super::run::ScriptContext;
use super::strings::DEEPEST_STACK;
use trapline_isa::abi::ReturnAddress;
use trapline_isa::arch::Isa;
use trapline_isa::call;
use trapline_isa::regs::Reg;
use trapline_probes::context::{Frame, Hit};
use trapline_probes::guest::{Cpu, Instant};
use trapline_probes::probe::ReturnHit;
use trapline_probes::unwind::Stacks;
use trapline_probes::user::Usdt;
use trapline_probes::watch::Watchpoint;

/// Writes the kernel stack of a hit, innermost frame first, and returns its length.
pub(super) fn frames(hit: &mut Hit<'_>, stacks: &Stacks, into: &mut [u64]) -> usize {
    // Frames are first written to an array on the host's stack. A small one suffices for the default length.
    if into.len() > USUAL { frames_of::<DEEPEST_STACK>(hit, stacks, into) } else { frames_of::<USUAL>(hit, stacks, into) }
}

/// The default length of a stack, in frames.
const USUAL: usize = 127;

/// [`frames`] with an array of `MOST` frames.
fn frames_of<const MOST: usize>(hit: &mut Hit<'_>, stacks: &Stacks, into: &mut [u64]) -> usize {
    let mut found = [Frame::default(); MOST];
    let most = into.len().min(MOST);
    let count = stacks.of(hit, &mut found[..most]);
    for (address, frame) in into.iter_mut().zip(&found[..count]) {
        *address = frame.address;
    }
    count
}

/// Writes the user stack, innermost frame first, and returns its length. `runs`: the CPU is in user mode now; otherwise
/// the registers that the kernel saved at its entry are used. Callers are found by frame pointers, as in bpftrace, so a
/// program without them shows one frame.
pub(super) fn user_frames(cpu: &mut dyn Cpu, isa: &Isa, runs: bool, into: &mut [u64]) -> usize {
    let Some(program) = isa.linux.program else { return 0 };
    // The kernel saves the user registers at a fixed distance below the top of the task's kernel stack.
    let saved = (cpu.get(isa.abi.sp) | (isa.abi.stack_size.max(1) - 1)).wrapping_add(1).wrapping_sub(program.below_top.into());
    let kept = |cpu: &mut dyn Cpu, at: u16| cpu.read_number(saved.wrapping_add(at.into()), isa.word).unwrap_or(0);
    let (pc, mut frame) = match (runs, program.frame) {
        (false, frame) => (kept(cpu, program.pc), frame.map_or(0, |(at, _)| kept(cpu, at))),
        (true, frame) => (cpu.pc(), frame.and_then(|(_, name)| isa.abi.register(name)).map_or(0, |register| cpu.get(register))),
    };
    // Kernel threads have no user registers, and interrupt stacks have none either.
    if pc == 0 || cpu.read_user(pc, &mut [0]).is_err() {
        return 0;
    }
    let mut found = 0;
    let mut next = Some(pc);
    while let (Some(free), Some(address)) = (into.get_mut(found), next) {
        *free = address;
        found += 1;
        let word = |cpu: &mut dyn Cpu, at: u64| {
            let mut bytes = [0; 8];
            cpu.read_user(at, &mut bytes[..isa.word]).ok()?;
            Some(isa.order.number(&bytes[..isa.word]))
        };
        let is_frame = frame != 0 && frame.is_multiple_of(isa.word as u64);
        let (before, caller) =
            if is_frame { (word(cpu, frame), word(cpu, frame.wrapping_add(isa.word as u64))) } else { (None, None) };
        // Stacks grow downwards, so a frame pointer that points down is wrong.
        next = caller.filter(|caller| *caller != 0 && before.is_some_and(|before| before > frame));
        frame = before.unwrap_or(0);
    }
    found
}

/// A hit of a probe at an instruction: a kprobe, a uprobe or a watchpoint.
pub(super) struct Entry<'a, 'b> {
    pub hit: &'a mut Hit<'b>,
    pub stacks: &'a Stacks,
    /// Whether the script has skipped the function (`override`).
    pub redirected: bool,
}

/// A hit of a return probe.
pub(super) struct Return<'a, 'b> {
    pub hit: &'a mut ReturnHit<'b>,
    pub stacks: &'a Stacks,
    /// The function's arguments, kept at its entry. Zeros if the probe is not a typed one.
    pub kept: [u64; KEPT],
}

/// A hit of a tracepoint. Its only argument is the address of the record, of which the engine holds a copy: reads of that
/// range return the copy. A raw one has the arguments of the tracepoint's functions instead.
pub(super) struct Recorded<'a, 'b> {
    pub hit: &'a mut Hit<'b>,
    pub stacks: &'a Stacks,
    pub is_raw: bool,
}

/// Writes the kernel stack of a stopped CPU, innermost frame first, and returns its length.
pub type KernelStack<'a> = &'a mut dyn FnMut(&mut dyn Cpu, &mut [u64]) -> usize;

/// A CPU between two instructions, outside of any hit: BEGIN, END and timers.
pub struct Outside<'a> {
    /// The CPU that is stopped.
    pub cpu: &'a mut dyn Cpu,
    /// Guest time in nanoseconds.
    pub now: u64,
    /// At BEGIN and END no task of the guest runs. This is the task name that the script sees instead.
    pub name: Option<&'static str>,
    /// Whether the CPU is in user mode.
    pub in_user: bool,
    /// Reads the kernel's stack. A CPU alone does not know which calls are followed, the probe engine does.
    pub kernel_stack: KernelStack<'a>,
    /// The ISA of that CPU.
    pub isa: &'static Isa,
}

/// The methods that are the same for all kinds of hit.
macro_rules! of_the_hit {
    () => {
        fn register(&mut self, register: Reg) -> u64 {
            self.hit.machine().get(register)
        }
        fn pid(&mut self) -> u32 {
            self.hit.pid()
        }
        fn process(&mut self) -> u32 {
            self.hit.machine().process()
        }
        fn comm(&mut self) -> [u8; 16] {
            self.hit.comm()
        }
        fn task(&mut self) -> u64 {
            self.hit.task()
        }
        fn cpu(&mut self) -> usize {
            self.hit.cpu()
        }
        fn now(&self) -> u64 {
            self.hit.now()
        }
        fn address(&self) -> u64 {
            self.hit.address()
        }
        fn mapping_at(&mut self, address: u64) -> Option<u16> {
            self.hit.machine().mapping_at(address)
        }
        fn physical_of(&mut self, address: u64) -> Option<u64> {
            self.hit.machine().physical_of(address)
        }
        fn in_user(&mut self) -> bool {
            self.hit.machine().runs_program()
        }
        fn read(&mut self, at: u64, into: &mut [u8]) -> bool {
            if self.hit.record().read(at, into) {
                return true;
            }
            let cpu = self.hit.machine();
            cpu.read(at, into).is_ok() || cpu.read_user(at, into).is_ok()
        }
        fn stack(&mut self, user: bool, into: &mut [u64]) -> usize {
            let runs = self.hit.machine().runs_program();
            if !user {
                // While a program runs, the kernel's stack is empty.
                return if runs { 0 } else { frames(self.hit, self.stacks, into) };
            }
            let isa = self.hit.isa();
            user_frames(self.hit.machine(), isa, runs, into)
        }
        fn unwatch(&mut self, watchpoint: &Watchpoint, address: u64) {
            self.hit.unwatch_at(watchpoint, address);
        }
    };
}

impl ScriptContext for Entry<'_, '_> {
    fn instant(&mut self) -> Option<Instant> {
        self.hit.machine().instant()
    }
    fn argument(&mut self, number: usize) -> u64 {
        self.hit.arg(number)
    }
    fn stack_word(&mut self, number: usize) -> u64 {
        let isa = self.hit.isa();
        let at = self.hit.sp().wrapping_add_signed(isa.abi.stack_arguments).wrapping_add((number * isa.word) as u64);
        self.hit.read_word(at).unwrap_or(0)
    }
    fn result(&mut self) -> u64 {
        0
    }
    fn skip(&mut self, value: u64) -> bool {
        let isa = self.hit.isa();
        let Some(caller) = self.hit.caller() else { return false };
        self.hit.set_return_value(value);
        if isa.abi.return_address == ReturnAddress::OnStack {
            let sp = call::stack_behind_return(isa, self.hit.sp());
            self.hit.machine().set(isa.abi.sp, sp);
        }
        self.hit.set_pc(caller);
        self.redirected = true;
        true
    }
    of_the_hit!();
}

impl ScriptContext for Return<'_, '_> {
    fn instant(&mut self) -> Option<Instant> {
        let pc = self.hit.ret_addr();
        self.hit.machine().instant().map(|instant| Instant { pc, ..instant })
    }
    fn argument(&mut self, number: usize) -> u64 {
        self.kept.get(number).copied().unwrap_or(0)
    }
    fn stack_word(&mut self, _: usize) -> u64 {
        0
    }
    fn result(&mut self) -> u64 {
        self.hit.return_value()
    }
    fn skip(&mut self, _: u64) -> bool {
        false
    }
    of_the_hit!();
}

impl ScriptContext for Recorded<'_, '_> {
    fn instant(&mut self) -> Option<Instant> {
        let pc = self.hit.address();
        self.hit.machine().instant().map(|instant| Instant { pc, ..instant })
    }
    fn argument(&mut self, number: usize) -> u64 {
        let record = self.hit.record();
        if self.is_raw { record.argument(number) } else { record.address() }
    }
    fn stack_word(&mut self, _: usize) -> u64 {
        0
    }
    fn result(&mut self) -> u64 {
        0
    }
    fn skip(&mut self, _: u64) -> bool {
        false
    }
    of_the_hit!();
}

/// A hit of a USDT probe.
pub(super) struct Marked<'a, 'b> {
    pub hit: &'a mut Hit<'b>,
    pub stacks: &'a Stacks,
    pub usdt: &'a Usdt,
}

impl ScriptContext for Marked<'_, '_> {
    fn instant(&mut self) -> Option<Instant> {
        self.hit.machine().instant()
    }
    fn argument(&mut self, number: usize) -> u64 {
        self.usdt.argument(number, self.hit).unwrap_or(0)
    }
    fn stack_word(&mut self, _: usize) -> u64 {
        0
    }
    fn result(&mut self) -> u64 {
        0
    }
    fn skip(&mut self, _: u64) -> bool {
        false
    }
    of_the_hit!();
}

impl ScriptContext for Outside<'_> {
    fn instant(&mut self) -> Option<Instant> {
        self.cpu.instant()
    }
    fn physical_of(&mut self, address: u64) -> Option<u64> {
        self.cpu.physical_of(address)
    }
    fn argument(&mut self, _: usize) -> u64 {
        0
    }
    fn stack_word(&mut self, _: usize) -> u64 {
        0
    }
    fn result(&mut self) -> u64 {
        0
    }
    fn register(&mut self, register: Reg) -> u64 {
        if self.name.is_some() { 0 } else { self.cpu.get(register) }
    }
    fn pid(&mut self) -> u32 {
        if self.name.is_some() { 0 } else { self.cpu.pid() }
    }
    fn process(&mut self) -> u32 {
        if self.name.is_some() { 0 } else { self.cpu.process() }
    }
    fn comm(&mut self) -> [u8; 16] {
        let Some(name) = self.name else { return self.cpu.comm() };
        let mut comm = [0; 16];
        let length = name.len().min(15);
        comm[..length].copy_from_slice(&name.as_bytes()[..length]);
        comm
    }
    fn task(&mut self) -> u64 {
        if self.name.is_some() { 0 } else { self.cpu.task() }
    }
    fn cpu(&mut self) -> usize {
        self.cpu.number()
    }
    fn now(&self) -> u64 {
        self.now
    }
    fn address(&self) -> u64 {
        0
    }
    fn mapping_at(&mut self, address: u64) -> Option<u16> {
        self.cpu.mapping_at(address)
    }
    fn in_user(&mut self) -> bool {
        self.in_user
    }
    fn read(&mut self, at: u64, into: &mut [u8]) -> bool {
        self.cpu.read(at, into).is_ok() || self.cpu.read_user(at, into).is_ok()
    }
    fn stack(&mut self, user: bool, into: &mut [u64]) -> usize {
        if user && self.name.is_none() {
            return user_frames(self.cpu, self.isa, self.in_user, into);
        }
        if self.name.is_some() || self.in_user {
            return 0;
        }
        (self.kernel_stack)(&mut *self.cpu, into)
    }
    fn skip(&mut self, _: u64) -> bool {
        false
    }
}
