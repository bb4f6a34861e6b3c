//! The pools of instances: how many calls each return probe can follow, and which of its instances are free.
//!
//! [`Returns`] has a [`Pool`] for each return probe. It follows a call at the function's entry ([`Returns::enter`]), takes the
//! instance back at the return, and frees the instances of tasks that have died. A pool is allocated at registration and stays
//! until its last call has returned. A hit allocates nothing here.

use super::grow;
use crate::context::{EngineState, Hit, ReturnHit, Stage};
use crate::errno::{Errno, Refusal};
use crate::guest::Cpu;
use crate::instances::{Instances, NONE};
use crate::probe::{Flow, Kretprobe};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;
use trapline_isa::call::{exchange_return_address, return_address};

/// The instances of one return probe.
pub(super) struct Pool {
    /// `None` once unregistered. The pool stays until its last call has returned.
    pub(super) owner: Option<Kretprobe>,
    /// The probed address.
    pub(super) address: u64,
    /// The first free instance, or [`NONE`]. [`Instance::next`](crate::instances::Instance::next) links the free ones.
    pub(super) free: u32,
    /// The last free instances of a pool that grows, as a second list. Using them asks for more.
    pub(super) reserve: u32,
    /// Whether the pool has no limit of the user's and is enlarged between runs.
    pub(super) grows: bool,
    /// Whether the pool is in [`Returns::short`].
    pub(super) is_short: bool,
    /// The number of followed calls that have not returned.
    pub(super) in_flight: u64,
    /// The numbers of all instances of the pool.
    pub(super) members: Vec<u32>,
    /// The private data of all instances, one after another.
    pub(super) data: Vec<u8>,
}

/// The private bytes of the call whose instance has this index in its pool.
#[inline(always)]
pub(super) fn data_of<'a>(data: &'a mut [u8], owner: &Kretprobe, place: u32) -> &'a mut [u8] {
    let size = owner.wanted_data_size();
    if size == 0 {
        return &mut [];
    }
    data.get_mut(place as usize * size..(place as usize + 1) * size).unwrap_or_default()
}

/// The pools of all return probes.
pub(crate) struct Returns {
    pub(super) pools: Vec<Option<Pool>>,
    /// Free indexes in `pools`.
    free_pools: Vec<u32>,
    /// Pools of unregistered probes, to be freed when their last call has returned.
    ownerless: Vec<u32>,
    /// Pools that need more instances. Reserved for all pools, so that a hit never grows it.
    pub(super) short: Vec<u32>,
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
    pub(super) fn open(
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
    pub(super) fn give_back(&mut self, instances: &mut Instances, number: u32) {
        let Some(instance) = instances.all.get_mut(number as usize) else { return };
        if let Some(Some(pool)) = self.pools.get_mut(instance.pool as usize) {
            instance.next = core::mem::replace(&mut pool.free, number);
            pool.in_flight -= 1;
        }
    }

    /// Handles the entry of a function with a return probe: replaces its return address by the pad's. The call is not
    /// followed if no instance is free or the entry handler declines.
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
    pub(super) fn keep(&mut self, cpu: usize, key: u64, before: u64) {
        if let Some(kept) = self.kept.get_mut(cpu) {
            *kept = Some((key, before));
        }
    }

    /// Takes that word, if it belongs to the return with this key.
    pub(super) fn take_kept(&mut self, cpu: usize, key: u64) -> Option<u64> {
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
    pub(super) fn abandon(&mut self, instances: &mut Instances, number: u32) {
        let times = self.take_entries(instances, number);
        let pool = instances.all.get(number as usize).and_then(|instance| self.pools.get(instance.pool as usize));
        if let Some(Some(Pool { owner: Some(owner), .. })) = pool {
            (0..times).for_each(|_| owner.count_abandoned());
        }
        self.give_back(instances, number);
    }

    /// The number of entries of a call. Afterwards it is in flight once.
    pub(super) fn take_entries(&mut self, instances: &mut Instances, number: u32) -> u64 {
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
