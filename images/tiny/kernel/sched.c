/* The scheduler: one round-robin queue for all CPUs, preemption by the timer, wait queues, sleep. */
#include "board.h"
#include "lock.h"
#include "tiny.h"

static struct spinlock sched_lock; /* also held across the context switch; the next task releases it */
static struct task *queue_first, *queue_last;
static int cpus_online;
u32 context_switches;

static void enqueue(struct task *task)
{
	task->next = NULL;
	if (queue_first)
		queue_last->next = task;
	else
		queue_first = task;
	queue_last = task;
}

static struct task *dequeue(void)
{
	struct task *task = queue_first;
	if (task)
		queue_first = task->next;
	return task;
}

void sched_init(int cpu, struct task *idle)
{
	idle->queued = 1;
	idle->stack = STACK_OF(percpu_areas[cpu].kernel_sp);
	set_task_comm(idle, cpu ? "idle/1" : "idle/0");
	cpus_online = cpu + 1;
}

/* Makes an idle CPU look at the run queue. */
static noinline void kick_idle_cpu(void)
{
	int here = this_cpu()->number;

	for (int cpu = 0; cpu < cpus_online; cpu++) {
		struct percpu *area = &percpu_areas[cpu];
		if (area->current_task != area->idle || area->idle->need_resched)
			continue;
		area->idle->need_resched = 1;
		if (cpu != here)
			send_reschedule(cpu);
		return;
	}
}

static noinline void try_to_wake_up(struct task *task)
{
	task->state = TASK_RUNNING;
	task->wake_at = 0;
	if (task->queued)
		return;
	task->queued = 1;
	enqueue(task);
	kick_idle_cpu();
}

static noinline void switch_mm(struct percpu *area, struct task *next)
{
	unsigned long pgd = next->mm ? __pa(next->mm->pgd) : kernel_pgd();

	if (pgd == area->active_pgd)
		return;
	area->active_pgd = pgd;
	load_pgd(pgd);
}

/* Call with sched_lock held and interrupts off; both hold again when it returns. */
static noinline void __schedule(int preempted)
{
	struct percpu *area = this_cpu();
	struct task *prev = area->current_task, *next;

	prev->need_resched = 0;
	if (prev != area->idle) {
		if (preempted || prev->state == TASK_RUNNING)
			enqueue(prev);
		else
			prev->queued = 0;
	}
	next = dequeue();
	if (!next)
		next = area->idle;
	if (next == prev)
		return;
	context_switches++;
	switch_mm(area, next);
	__switch_to_asm(prev, next);
}

void schedule(void)
{
	unsigned long flags = spin_lock_irqsave(&sched_lock);
	__schedule(0);
	spin_unlock_irqrestore(&sched_lock, flags);
}

/* Preempts the task; it stays runnable, whatever state it was about to set. */
void preempt_schedule_irq(void)
{
	unsigned long flags = spin_lock_irqsave(&sched_lock);
	__schedule(1);
	spin_unlock_irqrestore(&sched_lock, flags);
}

/* The first C function of a new task. */
void schedule_tail(struct task *prev)
{
	(void)prev;
	spin_unlock_irqrestore(&sched_lock, FLAGS_INTERRUPTS_ON);
}

void wake_up_new_task(struct task *task)
{
	unsigned long flags = spin_lock_irqsave(&sched_lock);
	task->queued = 0;
	try_to_wake_up(task);
	spin_unlock_irqrestore(&sched_lock, flags);
}

void prepare_to_wait(struct wait_queue *queue)
{
	unsigned long flags = spin_lock_irqsave(&sched_lock);
	struct task *me = current;

	if (me->waiting_on != queue) {
		me->waiting_on = queue;
		me->wait_next = queue->first;
		queue->first = me;
	}
	me->state = TASK_SLEEPING;
	spin_unlock_irqrestore(&sched_lock, flags);
}

void finish_wait(struct wait_queue *queue)
{
	unsigned long flags = spin_lock_irqsave(&sched_lock);
	struct task *me = current;

	me->state = TASK_RUNNING;
	if (me->waiting_on == queue) {
		struct task **link = &queue->first;
		while (*link != me)
			link = &(*link)->wait_next;
		*link = me->wait_next;
		me->waiting_on = NULL;
	}
	spin_unlock_irqrestore(&sched_lock, flags);
}

static noinline void wake_up_locked(struct wait_queue *queue)
{
	while (queue->first) {
		struct task *task = queue->first;
		queue->first = task->wait_next;
		task->waiting_on = NULL;
		try_to_wake_up(task);
	}
}

void wake_up(struct wait_queue *queue)
{
	unsigned long flags = spin_lock_irqsave(&sched_lock);
	wake_up_locked(queue);
	spin_unlock_irqrestore(&sched_lock, flags);
}

void schedule_timeout(u64 nanoseconds)
{
	unsigned long flags = spin_lock_irqsave(&sched_lock);
	current->wake_at = clock_ns() + nanoseconds;
	current->state = TASK_SLEEPING;
	while (current->wake_at)
		__schedule(0);
	spin_unlock_irqrestore(&sched_lock, flags);
}

/* Called at each timer interrupt: ends the time slice; CPU 0 also wakes sleepers. */
void scheduler_tick(void)
{
	current->need_resched = 1;
	if (this_cpu()->number)
		return;
	unsigned long flags = spin_lock_irqsave(&sched_lock);
	u64 now = clock_ns();
	for (struct task *task = tasks; task < tasks + MAX_TASKS; task++)
		if (task->wake_at && task->wake_at <= now)
			try_to_wake_up(task);
	spin_unlock_irqrestore(&sched_lock, flags);
}

/* The last function of an exiting task. Its stack is free when another task has released the lock. */
void do_task_dead(void)
{
	local_irq_disable();
	(void)spin_lock_irqsave(&sched_lock);
	current->state = TASK_DEAD;
	wake_up_locked(&current->parent->child_exit);
	__schedule(0);
	panic("a dead task came back");
}

int task_is_dead(struct task *task)
{
	unsigned long flags = spin_lock_irqsave(&sched_lock);
	int dead = task->state == TASK_DEAD;
	spin_unlock_irqrestore(&sched_lock, flags);
	return dead;
}

void cpu_idle(void)
{
	for (;;) {
		local_irq_disable();
		if (current->need_resched)
			schedule();
		else
			safe_halt();
		local_irq_enable();
	}
}
