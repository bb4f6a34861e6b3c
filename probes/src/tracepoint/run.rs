//! A CPU's run through the out-of-line code of a tracepoint: its start at the site, its end, and the way back.
//!
//! [`TracepointRun`] saves the CPU's registers and the stack around its pointer, gives the code a list with one function, and
//! restores everything at the end. A breakpoint ends the run: where the guest asks for buffer space or commits the record, or
//! at an exit of the code. Then the handlers run, and the next tracepoint at the same site starts ([`start_next`]). Nothing
//! here allocates once a run exists.

use super::{RECORD, Watched};
use crate::context::{Hit, Stage};
use crate::engine::Engine;
use crate::guest::{Answer, Cpu};
use crate::jprobe::Saved;
use crate::members::{Action, Member};
use alloc::vec;
use alloc::vec::Vec;
use trapline_isa::abi::ReturnAddress;
use trapline_isa::arch::Isa;
use trapline_isa::call;

/// Bytes below the stack pointer that are saved and restored.
const BELOW: u64 = 4096;
/// Bytes above the stack pointer that are saved and restored, fewer near the stack's end. The site's code uses slots of its
/// function's frame, and on POWER and z/Architecture the functions that it calls save registers in that frame.
const ABOVE: u64 = 1024;
/// Layout of the lowest of these bytes: the list of functions, the `trace_event_file` that the record is for (zeroed), then the
/// record. These are the sizes of the first two.
const LIST: u64 = 64;
const FILE: u64 = 192;

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
