/* Per-CPU areas, the context switch, and the interface to the board `bare`. */
#include "board.h"
#include "tiny.h"

extern char boot_stacks[];

struct percpu percpu_areas[MAX_CPUS] = {
	{ .self = &percpu_areas[0], .current_task = &tasks[0], .idle = &tasks[0], .number = 0 },
	{ .self = &percpu_areas[1], .current_task = &tasks[1], .idle = &tasks[1], .number = 1 },
};
_Static_assert(sizeof(struct percpu) == PERCPU_SIZE, "PERCPU_SIZE");
_Static_assert(__builtin_offsetof(struct percpu, current_task) == PERCPU_CURRENT, "PERCPU_CURRENT");
_Static_assert(__builtin_offsetof(struct percpu, kernel_sp) == PERCPU_KERNEL_SP, "PERCPU_KERNEL_SP");
_Static_assert(sizeof(struct pt_regs) == PT_REGS_SIZE, "PT_REGS_SIZE");

volatile u32 secondary_may_start;

/* head.S has set the vectors. */
__init void trap_init(void) {}

void cpu_init(int cpu)
{
	struct percpu *area = &percpu_areas[cpu];

	area->kernel_sp = BOOT_SP(cpu);
	area->active_pgd = kernel_pgd();
	load_pgd(kernel_pgd());
}

/* The second half of a context switch: runs as the new task, on its stack. */
struct task *__switch_to(struct task *prev, struct task *next)
{
	struct percpu *area = this_cpu();

	area->current_task = next;
	area->kernel_sp = KERNEL_SP(next->stack);
	return prev;
}

/* An interrupt ends the wait even while it is masked. */
noinstr void safe_halt(void)
{
	WAIT_FOR_INTERRUPT();
	local_irq_enable();
}

void console_write(const char *text)
{
	while (*text)
		outb(*text++, PORT_CONSOLE);
}

void timer_start(u32 nanoseconds) { outl(nanoseconds, PORT_TIMER_PERIOD); }
void send_reschedule(int cpu) { outl(1u << cpu, PORT_SEND_IPI); }

noinstr void power_off(int status)
{
	local_irq_disable();
	outb(status, PORT_POWER_OFF);
	for (;;)
		WAIT_FOR_INTERRUPT();
}

/* For tests of the machine: makes exceptions undeliverable. */
noinstr void triple_fault(void)
{
	forget_vectors();
	asm volatile(UNDEFINED);
	__builtin_unreachable();
}
