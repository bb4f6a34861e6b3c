//! Pools that grow. A return probe without a limit loses no return: when its last instances come into use, the engine asks
//! the machine to stop soon, and [`crate::Engine::tick`] doubles the pool. A hit still allocates nothing.
//!
//! Each instance in use is a call that is on some task's stack, or was abandoned there. So the number of tasks times the
//! depth of their stacks bounds a pool. The limits here only matter for a hostile guest that pretends to have more tasks.

use super::pools::{Pool, Returns};
use crate::instances::{Instance, Instances, NONE};
use alloc::vec::Vec;
use core::ops::Range;

/// Instances that are kept for the calls between the request for more and the next stop of the machine. The machine
/// stops behind the next branch that is taken, so a few suffice.
pub(super) const RESERVE: u32 = 4;
/// The largest number of instances of one pool.
const MOST_OF_POOL: usize = 1 << 20;
/// The largest number of instances of all pools.
const MOST: usize = 1 << 22;
/// The most bytes of private data that a pool grows to.
const MOST_DATA_BYTES: usize = 256 << 20;

/// Makes instances for these places of a pool, in front of the free list `free`. Returns the new list's first one.
/// The caller has reserved memory.
pub(super) fn stock(instances: &mut Instances, members: &mut Vec<u32>, pool: u32, places: Range<u32>, mut free: u32) -> u32 {
    for place in places {
        let instance = Instance { pool, place, task: 0, frame: 0, ret_addr: 0, next: free, again: 0 };
        let unused = instances.unused.pop().filter(|number| (*number as usize) < instances.all.len());
        free = match unused {
            Some(number) => {
                instances.all[number as usize] = instance;
                number
            }
            None => {
                instances.all.push(instance);
                instances.all.len() as u32 - 1
            }
        };
        members.push(free);
    }
    free
}

impl Returns {
    /// Brings the last instances of a pool that grows into use, and notes that it needs more. Returns false if the pool
    /// does not grow.
    #[cold]
    pub(super) fn use_reserve(&mut self, pool: u32) -> bool {
        let Some(Some(found)) = self.pools.get_mut(pool as usize) else { return false };
        if !found.grows {
            return false;
        }
        if found.free == NONE {
            found.free = core::mem::replace(&mut found.reserve, NONE);
        }
        // The list has room for all pools.
        if !found.is_short && self.short.len() < self.short.capacity() {
            found.is_short = true;
            self.short.push(pool);
        }
        true
    }

    /// Enlarges the pools that need more instances. No CPU may run.
    pub fn make_room(&mut self, instances: &mut Instances) {
        if self.short.is_empty() {
            return;
        }
        while let Some(number) = self.short.pop() {
            if let Some(Some(pool)) = self.pools.get_mut(number as usize)
                && core::mem::take(&mut pool.is_short)
            {
                pool.grows = pool.enlarge(instances, number);
            }
        }
        instances.reserve();
    }
}

impl Pool {
    /// Doubles the pool. Returns false if it is as large as it may be, or if there is no memory.
    fn enlarge(&mut self, instances: &mut Instances, number: u32) -> bool {
        let known = self.members.len();
        let more = known.min(MOST_OF_POOL.saturating_sub(known)).min(MOST.saturating_sub(instances.all.len()));
        let size = self.owner.as_ref().map_or(0, |owner| owner.wanted_data_size());
        let bytes = more.saturating_mul(size);
        if more <= RESERVE as usize
            || self.data.len().saturating_add(bytes) > MOST_DATA_BYTES
            || instances.all.try_reserve(more).is_err()
            || self.data.try_reserve(bytes).is_err()
            || self.members.try_reserve(more).is_err()
        {
            return false;
        }
        self.data.resize(self.data.len() + bytes, 0);
        let (first, end) = (known as u32, (known + more) as u32);
        let kept = if self.reserve == NONE { first + RESERVE } else { first };
        self.reserve = stock(instances, &mut self.members, number, first..kept, self.reserve);
        self.free = stock(instances, &mut self.members, number, kept..end, self.free);
        true
    }
}
