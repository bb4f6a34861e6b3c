//! The return of a followed call: at the start of the return pad, or at the breakpoint in it.
//!
//! The start of the pad is enough if the newest call of the task is the one that returns ([`Engine::returned_to_pad`]). The
//! breakpoint handles all other returns ([`Engine::returned`]): it finds the call, drops those that were left by a longjmp, runs
//! the handlers, and puts the true return address back. A return that fits no call is counted and logged.

use super::pools::{Pool, data_of};
use crate::context::{Hit, ReturnHit, Stage};
use crate::engine::Engine;
use crate::guest::{Answer, Cpu, Resume};
use crate::instances::{Instance, Instances, Match};
use crate::log::Message;
use trapline_isa::abi::ReturnAddress;
use trapline_isa::call::{exchange_return_address, leave_return_address};

impl Engine {
    /// Handles a CPU at the start of the return pad. The pad jumps to the address stored where the return address was.
    /// This is set to the true address or, if it is not certain which call has returned, to the pad's breakpoint.
    /// Returns false if the address cannot be stored, so that the guest cannot continue.
    #[inline]
    pub fn returned_to_pad(&mut self, cpu: &mut impl Cpu) -> bool {
        let (task, key) = (cpu.task(), self.return_key(cpu));
        let Some((number, to)) = self.state.instances.take_newest(task, key) else {
            return self.returned_oddly(cpu, task, key);
        };
        let goes_on = leave_return_address(cpu, self.isa, key, to).is_ok();
        self.mend_link_slot(cpu, key, to);
        if goes_on {
            self.run_return_handler(cpu, number, to);
        }
        self.returns.give_back(&mut self.state.instances, number);
        goes_on
    }

    /// Slow path of [`Engine::returned_to_pad`]. Several probes follow the call, or the word at the key did not hold
    /// the return address, as after `ret imm16`. In the second case that word belongs to the guest, and the pad's
    /// breakpoint restores it.
    #[inline(never)]
    fn returned_oddly(&mut self, cpu: &mut impl Cpu, task: u64, key: u64) -> bool {
        let instances = &self.state.instances;
        let found = instances.find(task, key).filter(|found| found.exact && found.frame == key);
        let found = found.and_then(|found| Some((found, instances.real_return_address(found.task, found.frame)?)));
        let Some((found, to)) = found else {
            let Some(breakpoint) = instances.trap_pad().map(|pad| pad | self.isa.pointer_bits) else { return false };
            let Ok(before) = exchange_return_address(cpu, self.isa, key, breakpoint) else { return false };
            self.returns.keep(cpu.number(), key, before);
            return true;
        };
        if leave_return_address(cpu, self.isa, key, to).is_err() {
            return false;
        }
        self.run_return_handlers(cpu, found, to);
        true
    }

    /// The key of the return: the address of the return address just popped, or the stack pointer on link-register
    /// ISAs.
    #[inline]
    fn return_key(&self, cpu: &impl Cpu) -> u64 {
        let sp = cpu.get(self.isa.abi.sp);
        match self.isa.abi.return_address {
            ReturnAddress::OnStack => sp.wrapping_sub(self.state.instances.word),
            ReturnAddress::In(_) => sp,
        }
    }

    /// Handles the breakpoint of the return pad.
    pub(crate) fn returned(&mut self, cpu: &mut impl Cpu) -> Answer {
        let (task, key) = (cpu.task(), self.return_key(cpu));
        if let Some(before) = self.returns.take_kept(cpu.number(), key) {
            // It was written when the CPU entered the pad, so this write succeeds.
            let _ = leave_return_address(cpu, self.isa, key, before);
        }
        let Some(found) = self.state.instances.find(task, key) else { return self.returned_again(cpu, task, key) };
        let instances = &self.state.instances;
        let own = instances.real_return_address(found.task, found.frame).map(|address| (found.task, address));
        let Some((other, true_address)) = own.or_else(|| instances.real_anywhere(found.frame)) else {
            return self.returned_again(cpu, task, key);
        };
        if !found.exact {
            self.returns.mismatches += 1;
            self.report_mismatch(found.task, |_, call| call.frame == found.frame);
        }
        self.show_true_address(cpu, Some(found.frame).filter(|_| found.exact), true_address);
        self.run_return_handlers(cpu, found, true_address);
        if other != found.task {
            // Its other probes hit while the current task was unknown.
            self.run_return_handlers(cpu, Match { task: other, ..found }, true_address);
        }
        Answer::Resume(Resume { frozen: self.is_frozen(cpu.number()), ..Resume::default() })
    }

    /// Restores the true address in the caller's frame, where the function has saved the pad's address. A finished call
    /// must leave the stack as an unprobed run does.
    #[inline]
    fn mend_link_slot(&self, cpu: &mut impl Cpu, key: u64, true_address: u64) {
        let Some(above) = self.isa.abi.link_slot else { return };
        let (at, word) = (key.wrapping_add(above), self.isa.word);
        if cpu.read_number(at, word).is_ok_and(|saved| self.state.instances.is_in_pad(saved)) {
            // The word has just been read. If the page is not writable, the guest has not written the pad's address
            // there either.
            let _ = cpu.write_number(at, true_address, word);
        }
    }

    /// Restores the true address where the pad's address was: in the stack word that was popped, or in the register.
    fn show_true_address(&self, cpu: &mut impl Cpu, popped: Option<u64>, true_address: u64) {
        if let Some(key) = popped {
            self.mend_link_slot(cpu, key, true_address);
        }
        match (self.isa.abi.return_address, popped) {
            (ReturnAddress::OnStack, Some(word)) => {
                // The word lies below the stack pointer, so the guest does not need it and a fault does not matter.
                let _ = cpu.write_number(word, true_address, self.isa.word);
            }
            // The register may already hold another value, because the function may have returned through the stack.
            (ReturnAddress::In(reg), _) if self.state.instances.is_in_pad(cpu.get(reg)) => cpu.set(reg, true_address),
            _ => {}
        }
    }

    /// Handles a return that fits no call in flight. If the call was given up earlier, its true address is still known
    /// and the guest continues there. Otherwise the guest gets the trap.
    #[cold]
    fn returned_again(&mut self, cpu: &mut impl Cpu, task: u64, key: u64) -> Answer {
        self.returns.mismatches += 1;
        let Some(call) = self.state.instances.given_back(task, key).copied() else {
            let (pad, sp) = (cpu.pc(), cpu.get(self.isa.abi.sp));
            self.log.push(Message::UnknownReturn { pad, task, sp });
            return Answer::NotOurs;
        };
        self.report_call(&call);
        self.show_true_address(cpu, Some(key), call.ret_addr);
        cpu.set_pc(call.ret_addr & !self.isa.pointer_bits);
        Answer::Resume(Resume { frozen: self.is_frozen(cpu.number()), ..Resume::default() })
    }

    /// Runs the handlers of the call that has returned, with the pc at the true return address, and frees its
    /// instances.
    fn run_return_handlers(&mut self, cpu: &mut impl Cpu, found: Match, true_address: u64) {
        while found.exact && self.drop_left_behind(found) {}
        let of_frame = |_: &Instances, call: &Instance| call.frame == found.frame;
        while let Some(number) = self.state.instances.take(found.task, of_frame) {
            let instances = &self.state.instances;
            let last = instances.all.get(number as usize).is_none_or(|call| !instances.is_pad(call.ret_addr));
            for _ in 0..self.returns.take_entries(&mut self.state.instances, number) {
                self.run_return_handler(cpu, number, true_address);
            }
            self.returns.give_back(&mut self.state.instances, number);
            if last {
                break;
            }
        }
        // A return handler cannot change the pc.
        cpu.set_pc(true_address & !self.isa.pointer_bits);
    }

    /// Runs one return handler, with the pc at the true return address.
    #[inline(always)]
    fn run_return_handler(&mut self, cpu: &mut impl Cpu, number: u32, ret_addr: u64) {
        cpu.set_pc(ret_addr & !self.isa.pointer_bits);
        let Some(call) = self.state.instances.all.get(number as usize) else { return };
        let (pool, place) = (call.pool, call.place);
        let Some(Some(pool)) = self.returns.pools.get_mut(pool as usize) else { return };
        let Pool { owner: Some(owner), address, data, .. } = pool else { return };
        owner.count_return();
        if let Some(handler) = owner.return_handler() {
            let hit = Hit::new(cpu, owner.kprobe(), *address, &mut self.state, Stage::Return);
            handler(&mut ReturnHit::new(hit, data_of(data, owner, place), ret_addr));
        }
    }

    /// Frees the newest abandoned call below the one that returns. Returns false if there is none.
    fn drop_left_behind(&mut self, found: Match) -> bool {
        let left = |all: &Instances, call: &Instance| all.is_left_behind(call, found.frame);
        let instances = &self.state.instances;
        if !instances.of_task(found.task).take_while(|(_, call)| call.frame != found.frame).any(|(_, call)| left(instances, call))
        {
            return false;
        }
        self.report_mismatch(found.task, left);
        match self.state.instances.take(found.task, left) {
            Some(number) => {
                self.returns.left_behind += 1;
                self.returns.abandon(&mut self.state.instances, number);
                true
            }
            None => false,
        }
    }

    /// Logs a return that does not fit, with Linux's text.
    fn report_mismatch(&mut self, task: u64, which: impl Fn(&Instances, &Instance) -> bool) {
        let instances = &self.state.instances;
        let Some((_, call)) = instances.of_task(task).find(|(_, call)| which(instances, call)) else { return };
        let call = *call;
        self.report_call(&call);
    }

    /// Logs that a return did not fit this call.
    fn report_call(&mut self, call: &Instance) {
        if let Some(Some(pool)) = self.returns.pools.get(call.pool as usize) {
            self.log.push(Message::Mismatch { probe: pool.owner.clone(), address: pool.address });
        }
    }
}
