/* Spin locks. They disable interrupts, so the holder is not preempted. */
#pragma once

#include "arch.h"

struct spinlock {
	volatile u32 held;
};

static inline unsigned long spin_lock_irqsave(struct spinlock *lock)
{
	unsigned long flags = local_irq_save();
	while (exchange(&lock->held, 1))
		while (lock->held)
			cpu_relax();
	return flags;
}

static inline void spin_unlock_irqrestore(struct spinlock *lock, unsigned long flags)
{
	barrier();
	lock->held = 0;
	local_irq_restore(flags);
}
