//! Watches tracepoints of the guest kernel without enabling them in the guest. The guest's own code writes the record,
//! in no virtual time, and its side effects are undone.
//!
//! A disabled tracepoint is a no-op at its site, with the code that calls the tracepoint's functions out of line. At a
//! hit of the site the CPU runs that code with its clock stopped. The list of functions is replaced by one with a
//! single entry: the function that writes the record for the guest's own tracer. When it asks for buffer space, it gets
//! some below the stack. When it commits the record, the engine copies the record and restores registers, stack, list
//! and preempt count. Then the handlers see the hit together with the record.

use crate::context::{Hit, Stage};
use crate::engine::Engine;
use crate::errno::{Errno, Refusal, refused};
use crate::guest::{Answer, Cpu, Guest};
use crate::jprobe::Saved;
use crate::members::{Action, Member};
use crate::probe::{Flow, Kprobe};
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use trapline_isa::abi::ReturnAddress;
use trapline_isa::arch::Isa;
use trapline_isa::call::{self, Home};
use trapline_isa::function;
use trapline_isa::insn::Flow as Goes;

/// A tracepoint, as described by the kernel's own tables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tracepoint {
    /// The subsystem (event group) that it belongs to.
    pub group: String,
    /// The name in its group, such as `sched_switch`.
    pub name: String,
    /// The event class, which defines the record. Several tracepoints may share one.
    pub class: String,
    /// Pairs of a site's address and the address of its out-of-line code.
    pub sites: Vec<(u64, u64)>,
    /// The functions that the out-of-line code may call for the tracepoint. The first such call must come first.
    pub calls: Vec<u64>,
    /// Functions that it may call before that, because they only read a register or take the lock.
    pub harmless: Arc<[u64]>,
    /// The code may iterate over the function list itself, in kernels without static calls.
    pub may_loop: bool,
    /// Address of the pointer to the list of the tracepoint's functions.
    pub functions: u64,
    /// Address of the function that writes its record.
    pub writes: u64,
    /// Address of the function that reserves buffer space for a record.
    pub reserve: u64,
    /// Address of the function that commits a record.
    pub commit: u64,
    /// Functions with which the code gives the CPU away behind its calls. They are reached by no watched CPU.
    pub yields: Vec<u64>,
    /// Address of the pointer to the counter, in each CPU's own area, that the code raises before its calls (SRCU, since
    /// 7.0).
    pub lock: Option<u64>,
}

/// Bytes below the stack pointer that are saved and restored.
const BELOW: u64 = 4096;
/// Bytes above the stack pointer that are saved and restored, fewer near the stack's end. The site's code uses slots of its
/// function's frame, and on POWER and z/Architecture the functions that it calls save registers in that frame.
const ABOVE: u64 = 1024;
/// Layout of the lowest of these bytes: the list of functions, the `trace_event_file` that the record is for (zeroed), then the
/// record. These are the sizes of the first two.
const LIST: u64 = 64;
const FILE: u64 = 192;
/// The largest size of a record in bytes. The rest of the area is for the stack frames of the called code.
const RECORD: usize = 1024;
/// The largest number of bytes of an out-of-line block that are decoded, and its greatest distance from the next. Compilers
/// put the call that gives the CPU away at the end of a function, behind everything else.
const BLOCK: u64 = 4096;
/// The record of the tracepoint hit whose handlers run.
pub struct TracepointRecord {
    pub(crate) at: u64,
    bytes: Vec<u8>,
    len: usize,
    arguments: [u64; MOST_ARGUMENTS],
}

/// The largest number of arguments of a tracepoint.
const MOST_ARGUMENTS: usize = 12;

impl TracepointRecord {
    pub(crate) const fn none() -> TracepointRecord {
        TracepointRecord { at: 0, bytes: Vec::new(), len: 0, arguments: [0; MOST_ARGUMENTS] }
    }

    /// The address that the record had in the guest.
    pub fn address(&self) -> u64 {
        self.at
    }

    /// Argument `number` of the tracepoint's functions. Their first argument, the private data pointer, does not count.
    pub fn argument(&self, number: usize) -> u64 {
        self.arguments.get(number).copied().unwrap_or(0)
    }

    /// Reads the arguments of the function that the CPU has just entered.
    fn take_arguments(&mut self, cpu: &mut dyn Cpu, isa: &Isa) {
        let sp = cpu.get(isa.abi.sp);
        for (number, argument) in self.arguments.iter_mut().enumerate() {
            *argument = call::argument(isa, &[], number + 1).read(isa, |place| match place {
                Home::Register(register) => cpu.get(register),
                Home::Stack(above) => cpu.read_number(sp.wrapping_add_signed(above), isa.word).unwrap_or(0),
            });
        }
    }

    /// Reads bytes of the record, by their guest addresses. Returns false if the first one is not in the record. Bytes after
    /// its end read as 0, because strings are read in fixed-size pieces.
    pub fn read(&self, at: u64, into: &mut [u8]) -> bool {
        let Ok(offset) = usize::try_from(at.wrapping_sub(self.at)) else { return false };
        let Some(held) = self.bytes.get(..self.len).and_then(|bytes| bytes.get(offset..)) else { return false };
        let count = held.len().min(into.len());
        into[..count].copy_from_slice(&held[..count]);
        into[count..].fill(0);
        true
    }
}

/// A watched tracepoint.
pub(crate) struct Watched {
    facts: Arc<Tracepoint>,
    /// Whether the raw arguments of its functions are wanted instead of its record.
    is_raw: bool,
    /// The addresses at which the functions that end a run trap: behind their landing pad, such as `endbr64`.
    ends: Ends,
    /// The addresses of `facts.calls`, and of their local entries on an ISA that has these.
    calls: Vec<u64>,
    /// The addresses of `facts.yields`, and of their local entries.
    yields: Vec<u64>,
    /// The sites that can be followed, with their code.
    sites: Vec<(u64, u64)>,
    /// Sites whose code calls the functions, and does more than that. Their hits are counted as missed.
    unfollowed: Vec<u64>,
    /// Instructions that end the out-of-line code, and addresses that it leaves to.
    exits: Vec<u64>,
    /// Those exits behind which the code would do more than call the functions. A run that ends there is counted as missed.
    unknown: Vec<u64>,
    /// Whether the code can skip the call because of a condition of this event.
    has_conditions: bool,
    /// Calls of lock functions in the code that makes the record, sorted. A run skips them.
    locks: Vec<LockCall>,
}

/// A call that takes or releases a spinlock.
#[derive(Clone, Copy, Debug)]
struct LockCall {
    at: u64,
    /// The address of the next instruction.
    next: u64,
}

/// Functions that take a spinlock, and those that release it.
const TAKE: [&str; 4] = ["_raw_spin_lock", "_raw_spin_lock_irqsave", "_raw_spin_lock_irq", "_raw_spin_lock_bh"];
const RELEASE: [&str; 4] = ["_raw_spin_unlock", "_raw_spin_unlock_irqrestore", "_raw_spin_unlock_irq", "_raw_spin_unlock_bh"];
/// The search for lock calls covers the function that writes the record and this many levels of calls below it, but at
/// most `MOST_SEARCHED` functions.
const LOCK_LEVELS: usize = 1;
const MOST_SEARCHED: usize = 64;

/// The ends of a site's out-of-line code. [`Watched`] has the meanings.
#[derive(Default)]
struct Way {
    exits: Vec<u64>,
    unknown: Vec<u64>,
    has_conditions: bool,
}

/// The functions that end a run, by the addresses of their breakpoints.
#[derive(Clone, Copy, Default)]
struct Ends {
    reserve: u64,
    commit: u64,
    writes: u64,
}

/// The state of one CPU's run through a tracepoint's code.
pub(crate) struct TracepointRun {
    saved: Saved,
    /// The stack around its pointer before the run: `kept` bytes from `at` on.
    around: Vec<u8>,
    kept: usize,
    at: u64,
    /// The pointer to the tracepoint's list of functions before the run.
    list_before: u64,
    /// Address, size and value of the preempt count before the run.
    count: (u64, usize, u64),
    /// Address and value of the counter that the code raises before its calls, if it does.
    lock: Option<(u64, u64)>,
    /// The length of the record in bytes, once buffer space was reserved.
    length: usize,
    /// Index of the tracepoint, while its code runs.
    runs: Option<u32>,
}

impl TracepointRun {
    pub fn new(isa: &Isa) -> TracepointRun {
        TracepointRun {
            saved: Saved::new(isa),
            around: vec![0; (BELOW + ABOVE) as usize],
            kept: 0,
            at: 0,
            list_before: 0,
            count: (0, 0, 0),
            lock: None,
            length: 0,
            runs: None,
        }
    }

    pub fn is_running(&self) -> bool {
        self.runs.is_some()
    }

    /// Sends the CPU to the out-of-line code. Returns false, having changed nothing, if the stack has no room or some
    /// memory is not accessible.
    pub fn start(&mut self, cpu: &mut dyn Cpu, isa: &Isa, number: u32, watched: &Watched) -> bool {
        let (facts, word, sp) = (&*watched.facts, isa.word, cpu.get(isa.abi.sp));
        let site = cpu.pc();
        let Some((_, code)) = watched.sites.iter().find(|(at, _)| *at == site) else { return false };
        let (stack, depth) = (isa.abi.stack_size.max(1), sp % isa.abi.stack_size.max(1));
        let Some(at) = sp.checked_sub(BELOW).filter(|_| depth >= BELOW + LIST) else { return false };
        self.kept = (BELOW + ABOVE.min(stack - depth)) as usize;
        let Some((count_at, size)) = cpu.preemptions() else { return false };
        let (Ok(count), Ok(list)) = (cpu.read_number(count_at, size), cpu.read_number(facts.functions, word)) else {
            return false;
        };
        let lock = match facts.lock.map(|pointer| lock_of(cpu, isa, pointer)) {
            Some(None) => return false,
            found => found.flatten(),
        };
        let Some(around) = self.around.get_mut(..self.kept) else { return false };
        if cpu.read(at, around).is_err() {
            return false;
        }
        let mut head = [0; (LIST + FILE) as usize];
        for (place, value) in head.chunks_exact_mut(word).zip([facts.writes, at + LIST]) {
            isa.order.put(value, place);
        }
        // A count that is raised once more keeps the code from giving the CPU away where it lowers it.
        let written = cpu.write(at, &head).is_ok() && cpu.write_number(count_at, count.wrapping_add(1), size).is_ok();
        if !written || cpu.write_number(facts.functions, at, word).is_err() {
            let _ = cpu.write(at, around);
            let _ = cpu.write_number(count_at, count, size);
            return false;
        }
        (self.at, self.list_before, self.count, self.length) = (at, list, (count_at, size, count), 0);
        self.lock = lock;
        self.saved.save(cpu, isa);
        cpu.set_pc(*code);
        self.runs = Some(number);
        true
    }

    /// Handles the code's request for buffer space. Returns false if the record is too long.
    fn reserve(&mut self, cpu: &mut dyn Cpu, isa: &Isa) -> bool {
        let Some(length) = isa.abi.arguments.get(2).map(|length| cpu.get(*length) as usize) else { return false };
        let at = self.at + LIST + FILE;
        let caller = match isa.abi.return_address {
            ReturnAddress::OnStack => cpu.read_number(cpu.get(isa.abi.sp), isa.word).ok(),
            ReturnAddress::In(reg) => Some(cpu.get(reg)),
        };
        let zeros = [0; RECORD];
        let (Some(caller), Some(zeros)) = (caller, zeros.get(..length)) else { return false };
        if cpu.write(at, zeros).is_err() {
            return false;
        }
        self.length = length;
        let sp = call::stack_behind_return(isa, cpu.get(isa.abi.sp));
        cpu.set(isa.abi.sp, sp);
        cpu.set(isa.abi.result, at);
        cpu.set_pc(caller);
        true
    }

    /// Restores the state that the CPU had at the site.
    fn undo(&mut self, cpu: &mut dyn Cpu, isa: &Isa, functions: u64) {
        // All of this was read and written when the run began, so the writes succeed.
        if let Some(around) = self.around.get(..self.kept) {
            let _ = cpu.write(self.at, around);
        }
        let _ = cpu.write_number(functions, self.list_before, isa.word);
        let _ = cpu.write_number(self.count.0, self.count.2, self.count.1);
        if let Some((at, value)) = self.lock {
            let _ = cpu.write_number(at, value, isa.word);
        }
        self.saved.restore(cpu, isa);
        self.runs = None;
    }
}

/// Address and value of the counter in the CPU's own area to which this pointer leads.
fn lock_of(cpu: &mut dyn Cpu, isa: &Isa, pointer: u64) -> Option<(u64, u64)> {
    let at = cpu.per_cpu()?.wrapping_add(cpu.read_number(pointer, isa.word).ok()?);
    Some((at, cpu.read_number(at, isa.word).ok()?))
}

/// Starts the next tracepoint watched at a point. There may be two: one for the record and one for the raw arguments.
/// Returns false if there is none left. A tracepoint that cannot start is counted as missed.
pub(crate) fn start_next(
    mut run: Option<&mut TracepointRun>,
    tracepoints: &[Watched],
    members: &[Member],
    behind: Option<u32>,
    cpu: &mut dyn Cpu,
    isa: &Isa,
) -> bool {
    let number = |member: &Member| match member.action {
        Action::Record(number) if !member.probe.is_disabled() => Some(number),
        _ => None,
    };
    let mut last = behind;
    while let Some(next) = members.iter().filter_map(number).filter(|next| last.is_none_or(|last| *next > last)).min() {
        let way = run.as_deref_mut().zip(tracepoints.get(next as usize));
        if way.is_some_and(|(run, watched)| run.start(cpu, isa, next, watched)) {
            return true;
        }
        members.iter().filter(|member| number(member) == Some(next)).for_each(|member| member.probe.count_missed());
        last = Some(next);
    }
    false
}

impl Engine {
    /// Registers the probes needed to watch a tracepoint. `handler` runs at each of its sites, with the record or, if
    /// `is_raw`, with the function arguments. The probes are internal and shown in no list.
    pub fn register_tracepoint<H>(
        &mut self,
        guest: &mut dyn Guest,
        facts: &Arc<Tracepoint>,
        is_raw: bool,
        handler: H,
    ) -> Result<Vec<Kprobe>, Refusal>
    where
        H: Fn(&mut Hit<'_>) -> Flow + Clone + Send + Sync + 'static,
    {
        let number =
            match self.tracepoints.iter().position(|watched| Arc::ptr_eq(&watched.facts, facts) && watched.is_raw == is_raw) {
                Some(number) => number,
                None => {
                    let watched = self.ways(guest, facts, is_raw)?;
                    self.tracepoints.push(watched);
                    self.tracepoints.len() - 1
                }
            };
        for cpu in &mut self.cpus {
            cpu.tracepoint_run.get_or_insert_with(|| Box::new(TracepointRun::new(self.isa)));
        }
        self.state.record.bytes.resize(RECORD, 0);
        let mut probes = Vec::new();
        let watched = &self.tracepoints[number];
        let sites =
            watched.sites.iter().map(|(site, _)| *site).chain(watched.unfollowed.iter().copied()).map(|site| (site, true));
        // The raw arguments are available at the entry of the function that writes the record.
        let ends = if is_raw { vec![facts.writes] } else { vec![facts.reserve, facts.commit] };
        let locks = watched.locks.iter().map(|call| call.at).collect::<Vec<_>>();
        let traps = ends.into_iter().chain(watched.exits.iter().copied()).chain(locks.iter().copied());
        for (address, is_site) in traps.map(|address| (address, false)).chain(sites).collect::<Vec<_>>() {
            let (probe, action) = match is_site {
                true => (Kprobe::at_address(address).pre(handler.clone()), Action::Record(number as u32)),
                // A jump in place of the trap would take the lock.
                false if locks.contains(&address) => {
                    (Kprobe::at_address(address).pre(|_| Flow::Continue).post(|_| {}), Action::Handlers)
                }
                false => (Kprobe::at_address(address).pre(|_| Flow::Continue), Action::Handlers),
            };
            let probe = probe.internal();
            let added = self.resolve(guest, &probe, false).and_then(|place| self.add(guest, &probe, action, place));
            if let Err(refusal) = added {
                let watched = &self.tracepoints[number];
                if !is_site && !watched.has_conditions && watched.exits.contains(&address) {
                    continue;
                }
                self.unregister_kprobes(guest, &probes);
                let why = format!("{}:{} cannot be followed: {}", facts.group, facts.name, refusal.why);
                return refused(refusal.errno, why);
            }
            probes.push(probe);
        }
        Ok(probes)
    }

    /// Analyses all sites of a tracepoint. Refused if no site can be watched.
    fn ways(&self, guest: &dyn Guest, facts: &Arc<Tracepoint>, is_raw: bool) -> Result<Watched, Refusal> {
        if facts.lock.is_some() && !guest.knows_per_cpu() {
            let why = "its code takes a lock (SRCU) in the CPU's own memory, whose place is not known on this ISA";
            return refused(Errno::EINVAL, format!("{}:{} cannot be followed: {why}", facts.group, facts.name));
        }
        let place =
            |address| self.resolve(guest, &Kprobe::at_address(address).internal(), false).map_or(address, |place| place.address);
        let ends = Ends { reserve: place(facts.reserve), commit: place(facts.commit), writes: place(facts.writes) };
        let facts = Arc::clone(facts);
        let entries = |of: &[u64]| of.iter().flat_map(|call| [*call, place(*call)]).collect();
        let (calls, yields) = (entries(&facts.calls), entries(&facts.yields));
        let (sites, unfollowed, exits, unknown) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut watched = Watched {
            facts,
            is_raw,
            ends,
            calls,
            yields,
            sites,
            unfollowed,
            exits,
            unknown,
            has_conditions: false,
            locks: Vec::new(),
        };
        let facts = Arc::clone(&watched.facts);
        if !is_raw {
            watched.locks = self.lock_calls(guest, &facts);
        }
        for (site, code) in &facts.sites {
            let can_end = |at: &u64| self.can_trap(guest, *at);
            // Code with conditions may end at any of its exits, so each of them needs a probe.
            let is_sound = |way: &Way| !way.has_conditions || way.exits.iter().chain(&way.unknown).all(can_end);
            if let Some(way) = self.way(guest, &watched, *code).filter(is_sound) {
                watched.sites.push((*site, *code));
                watched.exits.extend(way.exits.iter().chain(&way.unknown));
                watched.unknown.extend(way.unknown);
                watched.has_conditions |= way.has_conditions;
            } else if self.fires(guest, &watched, *site, *code) {
                watched.unfollowed.push(*site);
            }
        }
        watched.exits.sort_unstable();
        watched.exits.dedup();
        if watched.sites.is_empty() {
            let why = "its code does more than call the tracepoint's functions, which could not be undone";
            return refused(Errno::EINVAL, format!("{}:{} cannot be followed: {why}", facts.group, facts.name));
        }
        Ok(watched)
    }

    /// Whether an internal probe can be at this address.
    fn can_trap(&self, guest: &dyn Guest, at: u64) -> bool {
        let place = self.resolve(guest, &Kprobe::at_address(at).internal(), false);
        let check = |place| self.by_policy(true, |policy| self.check_place(guest, &place, Action::Handlers, policy));
        place.and_then(check).is_ok()
    }

    /// The calls of lock functions in the code that makes a record. They are skipped: the record only reads the
    /// protected data, and a CPU that holds the lock does not run meanwhile, so the code would wait for ever. Calls are
    /// skipped only if both the lock and the unlock of a function are found.
    fn lock_calls(&self, guest: &dyn Guest, facts: &Tracepoint) -> Vec<LockCall> {
        let mut read = |at: u64, into: &mut [u8]| self.read_original(guest, at, into);
        let mut found = Vec::new();
        let mut functions = vec![(facts.writes, 0)];
        let mut searched = 0;
        while let Some((function, level)) = functions.get(searched).copied() {
            searched += 1;
            let Some(symbol) = guest.symbol_at(function) else { continue };
            let end = symbol.start.saturating_add(symbol.size.min(BLOCK));
            let (mut taken, mut released) = (Vec::new(), Vec::new());
            for insn in function::walk_far(self.isa, function, end, &mut read).map_while(Result::ok) {
                let Goes::Call(to) = insn.flow else { continue };
                let call = LockCall { at: insn.address, next: insn.next() };
                match guest.symbol_at(to).filter(|callee| callee.start == to) {
                    Some(callee) if TAKE.contains(&callee.name.as_str()) => taken.push(call),
                    Some(callee) if RELEASE.contains(&callee.name.as_str()) => released.push(call),
                    _ if to == facts.reserve || to == facts.commit || level == LOCK_LEVELS => {}
                    _ if functions.len() < MOST_SEARCHED && functions.iter().all(|(other, _)| *other != to) => {
                        functions.push((to, level + 1));
                    }
                    _ => {}
                }
            }
            let is_whole = !taken.is_empty() && !released.is_empty();
            if is_whole && taken.iter().chain(&released).all(|call| self.can_trap(guest, call.at)) {
                found.extend(taken.into_iter().chain(released));
            }
        }
        found.sort_unstable_by_key(|call: &LockCall| call.at);
        found
    }

    /// Whether the code of a site that cannot be followed leads to the tracepoint's functions: by a call of its own, or by a
    /// call of a function that has another site. Code that only asks whether the tracepoint is enabled does not.
    fn fires(&self, guest: &dyn Guest, watched: &Watched, site: u64, code: u64) -> bool {
        let facts = &*watched.facts;
        let mut read = |at: u64, into: &mut [u8]| self.read_original(guest, at, into);
        let Ok(back) = function::decode_at(self.isa, site, &mut read).map(|insn| insn.next()) else { return false };
        let leads = |to: u64| {
            let holds = |range: core::ops::Range<u64>| facts.sites.iter().any(|(site, _)| range.contains(site));
            watched.calls.contains(&to) || guest.symbol_at(to).is_some_and(|of| holds(of.start..of.start.saturating_add(of.size)))
        };
        let near = code.saturating_sub(BLOCK)..code.saturating_add(BLOCK);
        let (mut pieces, mut seen) = (vec![code], vec![back]);
        while let Some(piece) = pieces.pop() {
            for insn in function::walk_far(self.isa, piece, piece.wrapping_add(BLOCK), &mut read).map_while(Result::ok) {
                if seen.contains(&insn.address) {
                    break;
                }
                seen.push(insn.address);
                match insn.flow {
                    Goes::Call(to) if leads(to) => return true,
                    Goes::IndirectCall if facts.may_loop => return true,
                    Goes::Branch(to) if near.contains(&to) => pieces.push(to),
                    Goes::Jump(to) => {
                        pieces.extend(near.contains(&to).then_some(to));
                        break;
                    }
                    Goes::Return | Goes::IndirectJump => break,
                    _ => {}
                }
            }
        }
        false
    }

    /// Follows the out-of-line code of the sites that have this one, block by block, up to its calls. A branch to code that
    /// calls something else is an unknown exit. `None` if the code does so without a branch: the effects of that call could
    /// not be undone.
    fn way(&self, guest: &dyn Guest, watched: &Watched, code: u64) -> Option<Way> {
        let facts = &*watched.facts;
        let mut read = |at: u64, into: &mut [u8]| self.read_original(guest, at, into);
        // The compiler may merge the code of several sites. The merged code jumps back to one of them.
        let mut backs = Vec::new();
        for (other, of) in &facts.sites {
            if *of == code {
                let back = function::decode_at(self.isa, *other, &mut read).ok()?.next();
                backs.push(back);
                // The code goes to where the jump behind the site leads.
                if let Ok(Goes::Jump(to)) = function::decode_at(self.isa, back, &mut read).map(|insn| insn.flow) {
                    backs.push(to);
                }
            }
        }
        let near = code.saturating_sub(BLOCK)..code.saturating_add(BLOCK);
        let (mut pieces, mut seen, mut calls, mut leaves, mut way) = (vec![code], Vec::new(), Vec::new(), 0, Way::default());
        while let Some(piece) = pieces.pop() {
            // A branch round the call, for a list without functions, is never taken: the list has one.
            if calls.contains(&piece) || seen.contains(&piece) {
                continue;
            }
            let before = (pieces.len(), seen.len(), way.exits.len(), leaves);
            let mut is_known = true;
            for insn in function::walk_far(self.isa, piece, piece.wrapping_add(BLOCK), &mut read) {
                let Ok(insn) = insn else {
                    is_known = false;
                    break;
                };
                if seen.contains(&insn.address) {
                    break;
                }
                seen.push(insn.address);
                match insn.flow {
                    Goes::Next => {}
                    Goes::Call(to) if facts.harmless.contains(&to) => {}
                    Goes::Call(to) if watched.yields.contains(&to) => break,
                    Goes::Call(to) if watched.calls.contains(&to) => {
                        calls.push(insn.next());
                        break;
                    }
                    Goes::IndirectCall if facts.may_loop => {
                        calls.push(insn.next());
                        break;
                    }
                    Goes::Branch(to) if backs.contains(&to) => leaves += 1,
                    Goes::Branch(to) if near.contains(&to) => pieces.push(to),
                    Goes::Jump(to) if !backs.contains(&to) && near.contains(&to) => {
                        pieces.push(to);
                        break;
                    }
                    Goes::Jump(_) | Goes::Return => {
                        way.exits.push(insn.address);
                        break;
                    }
                    _ => {
                        is_known = false;
                        break;
                    }
                }
            }
            if !is_known {
                if piece == code {
                    return None;
                }
                pieces.truncate(before.0);
                seen.truncate(before.1);
                seen.push(piece);
                way.exits.truncate(before.2);
                leaves = before.3;
                way.unknown.push(piece);
            }
        }
        // One exit is usual: it skips the call on a CPU that is not online, which never happens. More exits are
        // conditions of the event.
        way.has_conditions = leaves + way.exits.len() + way.unknown.len() > 1;
        if leaves > 1 {
            way.exits.extend(backs);
        }
        for behind in &calls {
            let code = function::walk(self.isa, *behind, behind.wrapping_add(BLOCK), &mut read).map_while(Result::ok);
            // The end of the code behind the call, or the call's return itself where that code branches.
            let end = code.map(|insn| (insn.address, insn.flow)).find(|(_, flow)| !matches!(flow, Goes::Next));
            let is_end = |flow: &Goes| matches!(flow, Goes::Jump(_) | Goes::Return | Goes::IndirectJump);
            way.exits.extend(end.map(|(at, flow)| if is_end(&flow) { at } else { *behind }));
        }
        (!calls.is_empty()).then_some(way)
    }

    /// Handles a breakpoint while tracepoint code runs. `None` if the breakpoint is not one that ends the run.
    #[inline(never)]
    pub(crate) fn trapped_in_tracepoint(&mut self, cpu: &mut impl Cpu, number: usize, pc: u64) -> Option<Answer> {
        let run = self.cpus.get_mut(number)?.tracepoint_run.as_mut()?;
        let watched = self.tracepoints.get(run.runs? as usize)?;
        let (facts, ends) = (&*watched.facts, watched.ends);
        let mut has_record = false;
        if watched.is_raw && pc == ends.writes {
            self.state.record.take_arguments(cpu, self.isa);
            has_record = true;
        } else if pc == ends.reserve && !watched.is_raw {
            if run.reserve(cpu, self.isa) {
                return Some(self.resume(number, 0, false));
            }
        } else if pc == ends.commit && !watched.is_raw {
            let record = &mut self.state.record;
            (record.at, record.len) = (run.at + LIST + FILE, run.length);
            has_record = cpu.read(record.at, &mut record.bytes[..run.length]).is_ok();
        } else if watched.exits.binary_search(&pc).is_err() {
            let call = watched.locks.binary_search_by_key(&pc, |call| call.at).ok().and_then(|at| watched.locks.get(at))?;
            // The interrupt state that it would have returned goes to its counterpart only, which is skipped as well.
            cpu.set_pc(call.next);
            return Some(self.resume(number, 0, false));
        }
        let is_lost = pc == ends.reserve && !watched.is_raw || watched.unknown.contains(&pc);
        let which = run.runs?;
        run.undo(cpu, self.isa, facts.functions);
        Some(self.leave_tracepoint(cpu, number, which, has_record, is_lost))
    }

    /// The CPU is back at the site. Runs the handlers with the record, if there is one. Then starts the next tracepoint
    /// watched here, or executes the no-op.
    fn leave_tracepoint(&mut self, cpu: &mut impl Cpu, number: usize, which: u32, has_record: bool, is_lost: bool) -> Answer {
        let point = self.cpus[number].end_of_guest_code();
        if let Some(found) = self.points.get(point) {
            let (address, state) = (found.address(), &mut self.state);
            let of_this = |member: &&Member| !member.probe.is_disabled() && member.action == Action::Record(which);
            for member in found.members.iter().filter(of_this) {
                if has_record {
                    let handler = member.probe.count_hit();
                    handler(&mut Hit::new(cpu, &member.probe, address, state, Stage::Before));
                    cpu.set_pc(address);
                } else if is_lost {
                    member.probe.count_missed();
                }
            }
            state.record.len = 0;
            let run = self.cpus[number].tracepoint_run.as_deref_mut();
            if start_next(run, &self.tracepoints, &found.members, Some(which), cpu, self.isa) {
                return self.resume(number, 0, false);
            }
        }
        self.execute_alone(cpu, number, point)
    }
}
