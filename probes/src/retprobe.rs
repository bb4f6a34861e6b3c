//! Return probes: registration, the function's entry, and its return. At the entry, the return address is replaced by
//! that of the return pad: a jump and a breakpoint in the probe window, to which all followed functions return.
//!
//! Each followed call uses an instance from its probe's pool. The pool is allocated at registration and, if the probe
//! has no limit, grows between runs (`retprobe/grow.rs`). `instances.rs` finds the instance that a return belongs to.

mod calls;
mod grow;

pub use calls::Calls;

use crate::context::{EngineState, Hit, ReturnHit, Stage};
use crate::engine::Engine;
use crate::errno::{Errno, Refusal, refused};
use crate::guest::{Answer, Cpu, Guest, Resume, WINDOW_UNIT, WindowUse};
use crate::instances::{Instance, Instances, Match, NONE};
use crate::log::Message;
use crate::members::Action;
use crate::probe::{Flow, Kretprobe};
use crate::register::refuse_none;
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;
use trapline_isa::abi::ReturnAddress;
use trapline_isa::arch::TRACER_CODE;
use trapline_isa::call::{exchange_return_address, leave_return_address, return_address};

/// The suffix that compilers give to the cold part that they split off a function.
pub(crate) const SPLIT_OFF: &str = ".cold";
/// Largest size of a call's private data, in bytes.
const MOST_DATA: usize = 4096;

/// The instances of one return probe.
struct Pool {
    /// `None` once unregistered. The pool stays until its last call has returned.
    owner: Option<Kretprobe>,
    /// The probed address.
    address: u64,
    /// The first free instance, or [`NONE`]. [`Instance::next`] links the free ones.
    free: u32,
    /// The last free instances of a pool that grows, as a second list. Using them asks for more.
    reserve: u32,
    /// Whether the pool has no limit of the user's and is enlarged between runs.
    grows: bool,
    /// Whether the pool is in [`Returns::short`].
    is_short: bool,
    /// The number of followed calls that have not returned.
    in_flight: u64,
    /// The numbers of all instances of the pool.
    members: Vec<u32>,
    /// The private data of all instances, one after another.
    data: Vec<u8>,
}

/// The private bytes of the call whose instance has this index in its pool.
#[inline(always)]
fn data_of<'a>(data: &'a mut [u8], owner: &Kretprobe, place: u32) -> &'a mut [u8] {
    let size = owner.wanted_data_size();
    if size == 0 {
        return &mut [];
    }
    data.get_mut(place as usize * size..(place as usize + 1) * size).unwrap_or_default()
}

/// The pools of all return probes.
pub(crate) struct Returns {
    pools: Vec<Option<Pool>>,
    /// Free indexes in `pools`.
    free_pools: Vec<u32>,
    /// Pools of unregistered probes, to be freed when their last call has returned.
    ownerless: Vec<u32>,
    /// Pools that need more instances. Reserved for all pools, so that a hit never grows it.
    short: Vec<u32>,
    /// Returns that matched no call.
    pub mismatches: u64,
    /// Calls that were left without a return.
    pub left_behind: u64,
    /// For each CPU, the dying task that it still runs, or the last task that died on it. 0 means none.
    dying: Vec<u64>,
    /// For each CPU that is between the pad's start and its breakpoint: the key of the return, and the word that the
    /// pad's jump target has replaced.
    kept: Vec<Option<(u64, u64)>>,
}

impl Returns {
    pub fn new(cpus: usize) -> Returns {
        Returns {
            pools: Vec::new(),
            free_pools: Vec::new(),
            ownerless: Vec::new(),
            short: Vec::new(),
            mismatches: 0,
            left_behind: 0,
            dying: vec![0; cpus],
            kept: vec![None; cpus],
        }
    }

    /// Makes a pool. All memory that hits need is allocated here, or between two runs if the pool may grow.
    fn open(
        &mut self,
        instances: &mut Instances,
        owner: &Kretprobe,
        address: u64,
        cpus: usize,
        may_grow: bool,
    ) -> Result<u32, Refusal> {
        let grows = may_grow && owner.wanted_maxactive() <= 0;
        let count = match owner.wanted_maxactive() {
            asked if asked > 0 => asked as usize,
            // This is Linux's default.
            _ => (2 * cpus).max(10),
        };
        let data_size = owner.wanted_data_size();
        let no_memory = || {
            let why = format!("no memory for {count} instances of {data_size} bytes; ask for a smaller maxactive");
            Refusal::because(Errno::ENOMEM, why)
        };
        let fresh = count.saturating_sub(instances.unused.len());
        let bytes = count.checked_mul(data_size).ok_or_else(no_memory)?;
        let (mut data, mut members) = (Vec::new(), Vec::new());
        instances.all.try_reserve(fresh).map_err(|_| no_memory())?;
        data.try_reserve_exact(bytes).map_err(|_| no_memory())?;
        members.try_reserve_exact(count).map_err(|_| no_memory())?;
        data.resize(bytes, 0);

        let pool = self.free_pools.pop().map_or(self.pools.len(), |place| place as usize);
        let kept = if grows { grow::RESERVE } else { 0 };
        let reserve = grow::stock(instances, &mut members, pool as u32, 0..kept, NONE);
        let free = grow::stock(instances, &mut members, pool as u32, kept..count as u32, NONE);
        instances.reserve();
        let owned = Some(owner.clone());
        let made = Pool { owner: owned, address, free, reserve, grows, is_short: false, in_flight: 0, members, data };
        match self.pools.get_mut(pool) {
            Some(place) => *place = Some(made),
            None => self.pools.push(Some(made)),
        }
        self.short.reserve(self.pools.len());
        owner.begin(count as u32);
        Ok(pool as u32)
    }

    /// The number of calls that the probe of this pool did not follow because no instance was free.
    pub fn missed(&self, pool: u32) -> u64 {
        let owner = self.pools.get(pool as usize).and_then(Option::as_ref).and_then(|pool| pool.owner.as_ref());
        owner.map_or(0, Kretprobe::nmissed)
    }

    /// Detaches a pool from its probe. Calls in flight still return correctly, without a handler.
    pub fn disown(&mut self, instances: &mut Instances, pool: u32) {
        if let Some(Some(found)) = self.pools.get_mut(pool as usize)
            && found.owner.take().is_some()
        {
            self.ownerless.push(pool);
        }
        self.collect(instances);
    }

    /// Frees the pools of unregistered probes whose last call has returned.
    pub fn collect(&mut self, instances: &mut Instances) {
        let Returns { pools, free_pools, ownerless, .. } = self;
        ownerless.retain(|number| {
            let Some(place) = pools.get_mut(*number as usize) else { return false };
            let done = place.take_if(|pool| pool.in_flight == 0);
            if let Some(done) = &done {
                instances.unused.extend(&done.members);
                free_pools.push(*number);
            }
            done.is_none()
        });
    }

    /// Puts an instance back into its pool's free list.
    #[inline]
    fn give_back(&mut self, instances: &mut Instances, number: u32) {
        let Some(instance) = instances.all.get_mut(number as usize) else { return };
        if let Some(Some(pool)) = self.pools.get_mut(instance.pool as usize) {
            instance.next = core::mem::replace(&mut pool.free, number);
            pool.in_flight -= 1;
        }
    }

    /// Handles the entry of a function with a return probe: replaces its return address by the pad's. Not if no
    /// instance is free or the entry handler declines.
    pub fn enter(&mut self, cpu: &mut impl Cpu, pool: u32, address: u64, state: &mut EngineState, stage: Stage) {
        let of = pool;
        let Some(Some(pool)) = self.pools.get_mut(pool as usize) else { return };
        let Some(owner) = &pool.owner else { return };
        let number = pool.free;
        let Some(call) = state.instances.all.get(number as usize) else {
            return self.enter_at_last(cpu, of, address, state, stage);
        };
        let (next, place) = (call.next, call.place);
        let Some(pad) = state.instances.pad else { return owner.count_missed() };
        let isa = state.isa;
        if let Some(entry) = owner.entry_handler() {
            let Ok(ret_addr) = return_address(cpu, isa) else { return owner.count_missed() };
            let hit = Hit::new(cpu, owner.kprobe(), address, state, stage);
            if entry(&mut ReturnHit::new(hit, data_of(&mut pool.data, owner, place), ret_addr)) == Flow::Redirected {
                return owner.count_declined();
            }
        }
        let frame = cpu.get(isa.abi.sp);
        let returns_to = pad | isa.pointer_bits;
        let Ok(ret_addr) = exchange_return_address(cpu, isa, frame, returns_to) else {
            return owner.count_missed();
        };
        pool.in_flight += 1;
        let task = cpu.task();
        if ret_addr == returns_to
            && pool.grows
            && owner.wanted_data_size() == 0
            && let Some(call) = state.instances.entered_again(task, frame, of)
        {
            call.again += 1;
            return;
        }
        pool.free = next;
        state.instances.push(number, task, frame, ret_addr);
    }

    /// Slow path of [`Returns::enter`] when no instance is free: reclaims the instances of a dead task that this CPU
    /// will not run again, or takes the last ones and asks for more.
    #[cold]
    fn enter_at_last(&mut self, cpu: &mut impl Cpu, pool: u32, address: u64, state: &mut EngineState, stage: Stage) {
        let running = cpu.task();
        let last = self.dying.get(cpu.number()).copied().filter(|dying| *dying != 0 && *dying != running);
        if let Some(dead) = last {
            self.task_exited(&mut state.instances, dead);
        }
        let is_empty = matches!(self.pools.get(pool as usize), Some(Some(found)) if found.free == NONE);
        if is_empty && self.use_reserve(pool) {
            cpu.look_soon();
        }
        match self.pools.get(pool as usize) {
            Some(Some(found)) if found.free != NONE => self.enter(cpu, pool, address, state, stage),
            Some(Some(Pool { owner: Some(owner), .. })) => owner.count_missed(),
            _ => {}
        }
    }

    /// Handles a task that is dying on this CPU but still runs there. The calls it is in will not return, and neither
    /// may those that it still makes.
    pub fn task_dies(&mut self, instances: &mut Instances, cpu: usize, task: u64) {
        self.task_exited(instances, task);
        let Some(before) = self.dying.get_mut(cpu).map(|dying| core::mem::replace(dying, task)) else { return };
        // The CPU has switched away from the previous dead task, so its last calls can be reclaimed.
        if before != 0 && before != task {
            self.task_exited(instances, before);
        }
    }

    /// Remembers the word that the pad's jump target replaces.
    fn keep(&mut self, cpu: usize, key: u64, before: u64) {
        if let Some(kept) = self.kept.get_mut(cpu) {
            *kept = Some((key, before));
        }
    }

    /// Takes that word, if it belongs to the return with this key.
    fn take_kept(&mut self, cpu: usize, key: u64) -> Option<u64> {
        self.kept.get_mut(cpu)?.take().filter(|(of, _)| *of == key).map(|(_, before)| before)
    }

    /// Number of calls that have not returned.
    pub fn in_flight(&self) -> u64 {
        self.pools.iter().flatten().map(|pool| pool.in_flight).sum()
    }

    /// Forgets all calls in flight, because they will never return.
    pub fn forget_calls(&mut self, instances: &mut Instances) {
        let tasks: Vec<u64> = instances.all.iter().map(|call| call.task).collect();
        for task in tasks {
            self.task_exited(instances, task);
        }
        self.dying.fill(0);
    }

    /// Puts the instance of a call that will never return back into its pool's free list.
    fn abandon(&mut self, instances: &mut Instances, number: u32) {
        let times = self.take_entries(instances, number);
        let pool = instances.all.get(number as usize).and_then(|instance| self.pools.get(instance.pool as usize));
        if let Some(Some(Pool { owner: Some(owner), .. })) = pool {
            (0..times).for_each(|_| owner.count_abandoned());
        }
        self.give_back(instances, number);
    }

    /// The number of entries of a call. Afterwards it is in flight once.
    fn take_entries(&mut self, instances: &mut Instances, number: u32) -> u64 {
        let Some(instance) = instances.all.get_mut(number as usize) else { return 0 };
        let again = core::mem::take(&mut instance.again);
        if let Some(Some(pool)) = self.pools.get_mut(instance.pool as usize) {
            pool.in_flight -= u64::from(again);
        }
        u64::from(again) + 1
    }

    /// Frees the instances of a task's calls, which will never return. No handler runs.
    pub fn task_exited(&mut self, instances: &mut Instances, task: u64) {
        while let Some(number) = instances.take(task, |_, _| true) {
            self.abandon(instances, number);
        }
        self.dying.iter_mut().filter(|dying| **dying == task).for_each(|dying| *dying = 0);
    }
}

impl Engine {
    /// Registers a return probe. The checks come in Linux's order.
    pub fn register_kretprobe(&mut self, guest: &mut dyn Guest, probe: &Kretprobe) -> Result<(), Refusal> {
        let place = self.resolve(guest, probe.kprobe(), true)?;
        if !place.on_entry {
            let why = format!(
                "{} is not the first instruction of a function; a return probe takes the return address there",
                place.name()
            );
            return refused(Errno::EINVAL, why);
        }
        self.refuse_twice(probe.kprobe())?;
        let name = place.symbol.name.as_str();
        let is_best = !self.policy.is_linux();
        let is_no_function = || {
            let is_entry = (self.isa.linux.is_entered_by_exceptions)(name);
            self.isa.switches_stacks.contains(&name) || TRACER_CODE.contains(&name) || is_entry
        };
        if self.isa.linux.no_return_probes.contains(&name) || is_best && is_no_function() {
            let why = format!(
                "{} returns on another stack than it was called on, or does not return like a function, so its return cannot be followed",
                place.name()
            );
            return refused(Errno::EINVAL, why);
        }
        if is_best && name.ends_with(SPLIT_OFF) {
            let why = format!(
                "{} is a part split off a function: it is jumped to and finds no return address; follow the function itself",
                place.name()
            );
            return refused(Errno::EINVAL, why);
        }
        if let Some(listed) = self.forbidden_by_linux(guest, &place).filter(|_| self.policy == crate::Policy::Outside) {
            let why = format!(
                "{} is part of {}, on the kernel's list of code without probes: there the stack or the current task may not be known, so its return cannot be followed; a kprobe works",
                place.name(),
                listed.name
            );
            return refused(Errno::EINVAL, why);
        }
        if probe.wanted_data_size() > MOST_DATA {
            let why = format!("{} bytes of private data are more than {MOST_DATA}", probe.wanted_data_size());
            return refused(Errno::E2BIG, why);
        }
        self.returns.collect(&mut self.state.instances);
        self.make_pad(guest, place.address)?;
        let pool = self.returns.open(&mut self.state.instances, probe, place.address, self.cpus.len(), is_best)?;
        let added = self.add(guest, probe.kprobe(), Action::Return(pool), place);
        if added.is_err() {
            self.returns.disown(&mut self.state.instances, pool);
        }
        added
    }

    /// Writes the return pad, before the first return probe.
    fn make_pad(&mut self, guest: &mut dyn Guest, near: u64) -> Result<(), Refusal> {
        if self.state.instances.pad.is_none() {
            let at = guest.window_take(near, WINDOW_UNIT);
            let at = at.ok_or(Refusal::new(Errno::ENOMEM, "the probe window has no room for the return pad"))?;
            let jump = self.isa.detour.map_or(&[][..], |detour| detour.return_pad);
            guest.window_write(at, &[jump, self.isa.breakpoint].concat(), WindowUse::ReturnPad { jump: jump.len() as u8 });
            self.state.instances.pad = Some(at);
        }
        Ok(())
    }

    /// Registers all of them or none.
    pub fn register_kretprobes(&mut self, guest: &mut dyn Guest, probes: &[Kretprobe]) -> Result<(), Refusal> {
        refuse_none(probes.len())?;
        for (done, probe) in probes.iter().enumerate() {
            if let Err(refusal) = self.register_kretprobe(guest, probe) {
                self.unregister_kretprobes(guest, &probes[..done]);
                return Err(refusal);
            }
        }
        Ok(())
    }

    /// Unregisters a return probe. Calls in flight return correctly, without its handler.
    pub fn unregister_kretprobe(&mut self, guest: &mut dyn Guest, probe: &Kretprobe) {
        self.unregister_kprobe(guest, probe.kprobe());
    }

    /// Unregisters several return probes at once.
    pub fn unregister_kretprobes(&mut self, guest: &mut dyn Guest, probes: &[Kretprobe]) {
        self.unregister_all(guest, probes.iter().map(Kretprobe::kprobe));
    }

    /// Disables it: its handlers do not run until it is enabled again. Calls in flight are still followed to their
    /// return.
    pub fn disable_kretprobe(&mut self, guest: &mut dyn Guest, probe: &Kretprobe) -> Result<(), Refusal> {
        self.disable_kprobe(guest, probe.kprobe())
    }

    /// Undoes [`Engine::disable_kretprobe`].
    pub fn enable_kretprobe(&mut self, guest: &mut dyn Guest, probe: &Kretprobe) -> Result<(), Refusal> {
        self.enable_kprobe(guest, probe.kprobe())
    }

    /// Forgets the calls in flight of a task that is exiting on this CPU. No handler runs for them. Calls that the task
    /// still makes before it is switched away are forgotten later: when the next task dies there, when an instance is
    /// needed, or by [`Engine::task_exited`].
    pub fn task_dies(&mut self, cpu: usize, task: u64) {
        self.returns.task_dies(&mut self.state.instances, cpu, task);
        self.paused.forget_task(task);
        self.user_task_exited(task);
    }

    /// Forgets the calls in flight of a task that no longer exists. No handler runs for them.
    pub fn task_exited(&mut self, task: u64) {
        self.returns.task_exited(&mut self.state.instances, task);
        self.paused.forget_task(task);
        self.user_task_exited(task);
    }

    /// The true return address of a call of `task`. `frame` is the address of the stack word that held the return
    /// address, or the stack pointer at entry on link-register ISAs.
    pub fn real_return_address(&self, task: u64, frame: u64) -> Option<u64> {
        self.state.instances.real_return_address(task, frame)
    }

    /// The true return address for the stack word at `slot`, in which the pad's address is found now.
    pub fn saved_return_address(&self, task: u64, slot: u64) -> Option<u64> {
        self.state.instances.saved_in(task, slot)
    }

    /// The followed calls, as pairs of frame key (see [`Engine::real_return_address`]) and true return address. Each
    /// task's calls are ordered newest first.
    pub fn followed_calls(&self) -> Vec<(u64, u64)> {
        self.state.instances.followed()
    }

    /// The true address for the task's return pad number `nth`, counted from the innermost call.
    pub fn resolve_pad(&self, task: u64, nth: usize) -> Option<u64> {
        self.state.instances.resolve_pad(task, nth)
    }

    /// The address of the return pad. `None` before the first return probe.
    pub fn return_pad(&self) -> Option<u64> {
        self.state.instances.pad
    }

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

#[cfg(test)]
mod tests;
