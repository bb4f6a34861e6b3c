//! Tracepoints of the guest's kernel that nobody in the guest has switched on: its own code makes their records, in no
//! time, and nothing of that stays.
//!
//! At a tracepoint's site stands a no-op, and the code that would call the tracepoint's functions lies out of line. At
//! a hit of the site that code runs, with the clock of the CPU stopped, and finds one function in the tracepoint's
//! list: the one that writes the record for the guest's own tracer. Where it asks for room it is given some below the
//! stack; where it hands the record over, the record is taken, and registers, stack, list and the count of preemptions
//! are what they were at the site. Then handlers see the hit, and the record beside it.

use crate::context::{Hit, Moment};
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

/// A tracepoint, as the kernel's own tables tell of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tracepoint {
    /// The subsystem that it belongs to.
    pub group: String,
    /// Its name.
    pub name: String,
    /// The class of its records, which several may share.
    pub class: String,
    /// Where it stands in the code, and where the code lies that calls its functions.
    pub sites: Vec<(u64, u64)>,
    /// What that code calls for it, and calls first.
    pub calls: Vec<u64>,
    /// Functions that it may call before that, for all that they do is to read a register.
    pub harmless: Vec<u64>,
    /// It may go through the list of its functions itself, where no call is patched in.
    pub may_loop: bool,
    /// Where the address of the list of its functions lies.
    pub functions: u64,
    /// The function that writes its record.
    pub writes: u64,
    /// The functions that give room for a record, and take it.
    pub reserve: u64,
    /// See `reserve`.
    pub commit: u64,
}

/// Bytes below the stack pointer that are put back.
const BELOW: u64 = 4096;
/// Of these what is ours, from the lowest on: the list of functions, the file that the record is for, the record.
const LIST: u64 = 64;
const FILE: u64 = 192;
/// The longest record: more is left to the code's own frames than it needs.
const RECORD: usize = 1024;
/// As much of a block that is out of line is looked at.
const BLOCK: u64 = 512;
/// The record of the hit whose handlers run.
pub(crate) struct Record {
    /// Where it was in the guest.
    pub at: u64,
    bytes: Vec<u8>,
    len: usize,
    arguments: [u64; MOST_ARGUMENTS],
}

/// No tracepoint has more arguments.
const MOST_ARGUMENTS: usize = 12;

impl Record {
    pub const fn none() -> Record {
        Record { at: 0, bytes: Vec::new(), len: 0, arguments: [0; MOST_ARGUMENTS] }
    }

    /// An argument of the tracepoint's functions, behind the first, which is their own.
    pub fn argument(&self, number: usize) -> u64 {
        self.arguments.get(number).copied().unwrap_or(0)
    }

    /// Takes the arguments of the function that the CPU has come to.
    fn take_arguments(&mut self, cpu: &mut dyn Cpu, isa: &Isa) {
        let sp = cpu.get(isa.abi.sp);
        for (number, argument) in self.arguments.iter_mut().enumerate() {
            *argument = call::argument(isa, &[], number + 1).read(isa, |place| match place {
                Home::Register(register) => cpu.get(register),
                Home::Stack(above) => cpu.read_number(sp.wrapping_add_signed(above), isa.word).unwrap_or(0),
            });
        }
    }

    /// Bytes out of it, by the addresses that they had; behind its end, where strings are looked for in pieces, there
    /// is nothing but zeros.
    pub fn read(&self, at: u64, into: &mut [u8]) -> bool {
        let Ok(offset) = usize::try_from(at.wrapping_sub(self.at)) else { return false };
        let Some(held) = self.bytes.get(..self.len).and_then(|bytes| bytes.get(offset..)) else { return false };
        let count = held.len().min(into.len());
        into[..count].copy_from_slice(&held[..count]);
        into[count..].fill(0);
        true
    }
}

/// What an engine knows of a tracepoint that it watches.
pub(crate) struct Watched {
    facts: Arc<Tracepoint>,
    /// The arguments of its functions are wanted, not its record.
    is_raw: bool,
    /// Where it stands; not where the code out of line does more than call its functions.
    sites: Vec<u64>,
    /// Instructions by which the code out of line ends, and places where it leads to.
    exits: Vec<u64>,
    /// One of them may be come to: the event has conditions of its own.
    has_conditions: bool,
}

/// One CPU's way through the code of a tracepoint.
pub(crate) struct Detour {
    saved: Saved,
    below: Vec<u8>,
    at: u64,
    list_before: u64,
    /// Where preemptions are counted, and the count.
    count: (u64, u64),
    length: usize,
    /// Which one, while it runs.
    runs: Option<u32>,
}

impl Detour {
    pub fn new(isa: &Isa) -> Detour {
        Detour {
            saved: Saved::new(isa),
            below: vec![0; BELOW as usize],
            at: 0,
            list_before: 0,
            count: (0, 0),
            length: 0,
            runs: None,
        }
    }

    pub fn is_running(&self) -> bool {
        self.runs.is_some()
    }

    /// Sends the CPU there. False: the stack has no room, or something cannot be read or written, and nothing has
    /// changed.
    pub fn start(&mut self, cpu: &mut dyn Cpu, isa: &Isa, number: u32, watched: &Watched) -> bool {
        let (facts, word, sp) = (&*watched.facts, isa.word, cpu.get(isa.abi.sp));
        let site = cpu.pc();
        let Some((_, code)) = facts.sites.iter().find(|(at, _)| *at == site) else { return false };
        let Some(at) = sp.checked_sub(BELOW).filter(|_| sp % isa.abi.stack_size.max(1) >= BELOW + LIST) else { return false };
        let Some(count_at) = cpu.preemptions() else { return false };
        let (Ok(count), Ok(list)) = (cpu.read_number(count_at, 4), cpu.read_number(facts.functions, word)) else { return false };
        if cpu.read(at, &mut self.below).is_err() {
            return false;
        }
        let mut head = [0; (LIST + FILE) as usize];
        for (place, value) in head.chunks_exact_mut(word).zip([facts.writes, at + LIST]) {
            isa.order.put(value, place);
        }
        if cpu.write(at, &head).is_err() || cpu.write_number(facts.functions, at, word).is_err() {
            let _ = cpu.write(at, &self.below);
            return false;
        }
        (self.at, self.list_before, self.count, self.length) = (at, list, (count_at, count), 0);
        self.saved.save(cpu, isa);
        cpu.set_pc(*code);
        self.runs = Some(number);
        true
    }

    /// The code asks for room for a record. False: it wants too much.
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

    /// Everything is as it was at the site.
    fn undo(&mut self, cpu: &mut dyn Cpu, isa: &Isa, functions: u64) {
        // All of it could be read and written when it began.
        let _ = cpu.write(self.at, &self.below);
        let _ = cpu.write_number(functions, self.list_before, isa.word);
        let _ = cpu.write_number(self.count.0, self.count.1, 4);
        self.saved.restore(cpu, isa);
        self.runs = None;
    }
}

/// Sends the CPU on the way of the next tracepoint that is watched at a place: there may be two, one for its record and
/// one for its arguments. False: there is none, or none can begin, which is counted.
pub(crate) fn start_next(
    mut detour: Option<&mut Detour>,
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
        let way = detour.as_deref_mut().zip(tracepoints.get(next as usize));
        if way.is_some_and(|(detour, watched)| detour.start(cpu, isa, next, watched)) {
            return true;
        }
        members.iter().filter(|member| number(member) == Some(next)).for_each(|member| member.probe.count_missed());
        last = Some(next);
    }
    false
}

impl Engine {
    /// Registers what it takes to see the hits of a tracepoint: `handler` runs at each of its sites, with the record at
    /// hand, or with the arguments of its functions. They are the engine's own and shown in no list.
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
            cpu.detour.get_or_insert_with(|| Box::new(Detour::new(self.isa)));
        }
        self.scene.record.bytes.resize(RECORD, 0);
        let mut probes = Vec::new();
        let sites = self.tracepoints[number].sites.clone().into_iter().map(|site| (site, true));
        // Its arguments are at hand when the function begins that would write its record.
        let ends = if is_raw { vec![facts.writes] } else { vec![facts.reserve, facts.commit] };
        let traps = ends.into_iter().chain(self.tracepoints[number].exits.clone());
        for (address, is_site) in traps.map(|address| (address, false)).chain(sites).collect::<Vec<_>>() {
            let (probe, action) = match is_site {
                true => (Kprobe::at_address(address).pre(handler.clone()), Action::Record(number as u32)),
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

    /// Its sites, where their code ends, and whether one of them asks more than all do.
    fn ways(&self, guest: &dyn Guest, facts: &Arc<Tracepoint>, is_raw: bool) -> Result<Watched, Refusal> {
        let mut watched =
            Watched { facts: Arc::clone(facts), is_raw, sites: Vec::new(), exits: Vec::new(), has_conditions: false };
        for (site, code) in &facts.sites {
            if let Some((exits, has_conditions)) = self.way(guest, facts, *site, *code) {
                watched.sites.push(*site);
                watched.exits.extend(exits);
                watched.has_conditions |= has_conditions;
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

    /// Follows the code out of line of one site, piece by piece, to its calls: where it ends, and whether it asks more
    /// than all do. `None`: it calls something else first (others only ask whether the event is on, or tell RCU of it),
    /// and what that does stays done.
    fn way(&self, guest: &dyn Guest, facts: &Tracepoint, site: u64, code: u64) -> Option<(Vec<u64>, bool)> {
        let mut read = |at: u64, into: &mut [u8]| self.read_original(guest, at, into);
        let back = function::decode_at(self.isa, site, &mut read).ok()?.next();
        let near = code.saturating_sub(BLOCK)..code.saturating_add(BLOCK);
        let (mut pieces, mut seen, mut exits, mut calls, mut leaves) = (vec![code], Vec::new(), Vec::new(), Vec::new(), 0);
        while let Some(piece) = pieces.pop() {
            for insn in function::walk(self.isa, piece, piece.wrapping_add(BLOCK), &mut read) {
                let insn = insn.ok()?;
                if seen.contains(&insn.address) {
                    break;
                }
                seen.push(insn.address);
                match insn.flow {
                    Goes::Next => {}
                    Goes::Call(to) if facts.harmless.contains(&to) => {}
                    Goes::Call(to) if facts.calls.contains(&to) => {
                        calls.push(insn.next());
                        break;
                    }
                    Goes::IndirectCall if facts.may_loop => {
                        calls.push(insn.next());
                        break;
                    }
                    Goes::Branch(to) if to == back => leaves += 1,
                    Goes::Branch(to) if near.contains(&to) => pieces.push(to),
                    Goes::Jump(to) if to != back && near.contains(&to) => {
                        pieces.push(to);
                        break;
                    }
                    Goes::Jump(_) | Goes::Return => {
                        exits.push(insn.address);
                        break;
                    }
                    _ => return None,
                }
            }
        }
        // One way past everything is that of a CPU which is not online, and none such runs; more of them are conditions
        // of the event's.
        let has_conditions = leaves + exits.len() > 1;
        if leaves > 1 {
            exits.push(back);
        }
        for behind in &calls {
            let code = function::walk(self.isa, *behind, behind.wrapping_add(BLOCK), &mut read).map_while(Result::ok);
            let is_end = |flow: Goes| matches!(flow, Goes::Jump(_) | Goes::Return | Goes::IndirectJump);
            exits.extend(code.map(|insn| (insn.address, insn.flow)).find(|(_, flow)| is_end(*flow)).map(|(at, _)| at));
        }
        (!calls.is_empty()).then_some((exits, has_conditions))
    }

    /// A breakpoint while the code of a tracepoint runs. `None`: it is no end of that code.
    #[inline(never)]
    pub(crate) fn trapped_on_detour(&mut self, cpu: &mut impl Cpu, number: usize, pc: u64) -> Option<Answer> {
        let detour = self.cpus.get_mut(number)?.detour.as_mut()?;
        let watched = self.tracepoints.get(detour.runs? as usize)?;
        let facts = &*watched.facts;
        let mut has_record = false;
        if watched.is_raw && pc == facts.writes {
            self.scene.record.take_arguments(cpu, self.isa);
            has_record = true;
        } else if pc == facts.reserve && !watched.is_raw {
            if detour.reserve(cpu, self.isa) {
                return Some(self.resume(number, 0, false));
            }
        } else if pc == facts.commit && !watched.is_raw {
            let record = &mut self.scene.record;
            (record.at, record.len) = (detour.at + LIST + FILE, detour.length);
            has_record = cpu.read(record.at, &mut record.bytes[..detour.length]).is_ok();
        } else if watched.exits.binary_search(&pc).is_err() {
            return None;
        }
        let is_lost = pc == facts.reserve && !watched.is_raw;
        let which = detour.runs?;
        detour.undo(cpu, self.isa, facts.functions);
        Some(self.leave_detour(cpu, number, which, has_record, is_lost))
    }

    /// The CPU is at the site again: handlers see the record, if there is one. Then comes the turn of whatever else is
    /// watched there, and at last the no-op's.
    fn leave_detour(&mut self, cpu: &mut impl Cpu, number: usize, which: u32, has_record: bool, is_lost: bool) -> Answer {
        let point = self.cpus[number].end_of_guest_code();
        if let Some(found) = self.points.get(point) {
            let (address, scene) = (found.address(), &mut self.scene);
            let of_this = |member: &&Member| !member.probe.is_disabled() && member.action == Action::Record(which);
            for member in found.members.iter().filter(of_this) {
                if has_record {
                    let handler = member.probe.count_hit();
                    handler(&mut Hit::new(cpu, &member.probe, address, scene, Moment::Before));
                    cpu.set_pc(address);
                } else if is_lost {
                    member.probe.count_missed();
                }
            }
            scene.record.len = 0;
            let detour = self.cpus[number].detour.as_deref_mut();
            if start_next(detour, &self.tracepoints, &found.members, Some(which), cpu, self.isa) {
                return self.resume(number, 0, false);
            }
        }
        self.execute_alone(cpu, number, point)
    }
}
