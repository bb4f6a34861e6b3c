/* C handlers of exceptions and interrupts, called when entry.S has saved the registers. */
#include "tiny.h"

void do_trap(struct pt_regs *regs, unsigned long why, unsigned long address);
void do_interrupt(struct pt_regs *regs);
void prepare_return(struct pt_regs *regs);

extern const struct exception_table_entry __start___ex_table[], __stop___ex_table[];
extern const struct bug_entry __start___bug_table[], __stop___bug_table[];

static noinline unsigned long search_exception_table(unsigned long ip)
{
	const struct exception_table_entry *row;
	for (row = __start___ex_table; row < __stop___ex_table; row++)
		if (TABLE_ADDRESS(row->insn) == ip)
			return TABLE_ADDRESS(row->fixup);
	return 0;
}

static noinline int fixup_exception(struct pt_regs *regs)
{
	unsigned long fixup = search_exception_table(FAULTING_IP(regs));
	if (!fixup)
		return 0;
	regs->ip = fixup;
	return 1;
}

static noinline int is_bug_address(unsigned long ip)
{
	const struct bug_entry *row;
	for (row = __start___bug_table; row < __stop___bug_table; row++)
		if (TABLE_ADDRESS(row->insn) == ip)
			return 1;
	return 0;
}

/* An exception without a fixup: kills a program, and stops the kernel. */
static noinline void die(const char *what, struct pt_regs *regs, unsigned long why, int signal)
{
	if (user_mode(regs)) {
		local_irq_enable();
		do_exit(signal);
	}
	printk("%s at ip %lx, cause %lx, task %s\n", what, regs->ip, why, current->comm);
	panic(what);
}

/* In .kprobes.text, where a kernel with kprobes would call them. */
static __kprobes void do_int3(struct pt_regs *regs)
{
	__sync_fetch_and_add(&breakpoints_seen, 1);
	regs->ip += TRAP_BYTES;
}

static noinline void do_invalid_op(struct pt_regs *regs, unsigned long why)
{
	if (!user_mode(regs) && is_bug_address(regs->ip)) {
		__sync_fetch_and_add(&bugs_repaired, 1);
		regs->ip += TRAP_BYTES;
		return;
	}
	die("undefined instruction", regs, why, SIGILL);
}

static noinline void do_page_fault(struct pt_regs *regs, unsigned long why, unsigned long address)
{
	struct mm *mm = current->mm;

	if (interrupts_were_on(regs))
		local_irq_enable();
	if (mm && handle_mm_fault(mm, address))
		return;
	if (!user_mode(regs) && fixup_exception(regs))
		return;
	if (!user_mode(regs))
		printk("page fault: address %lx\n", address);
	die("page fault", regs, why, SIGSEGV);
}

void do_trap(struct pt_regs *regs, unsigned long why, unsigned long address)
{
	switch (trap_of(regs, why)) {
	case TRAP_SYSTEM_CALL:
		return do_syscall(regs);
	case TRAP_PAGE_FAULT:
		return do_page_fault(regs, why, address);
	case TRAP_BREAKPOINT:
		return do_int3(regs);
	case TRAP_UNDEFINED:
		return do_invalid_op(regs, why);
	case TRAP_UNEXPECTED:
		die("unexpected trap", regs, why, SIGILL);
	}
}

static noinline void do_timer_interrupt(void)
{
	this_cpu()->ticks++;
	scheduler_tick();
	net_rx_action();
}

static noinline void do_reschedule_interrupt(void) { current->need_resched = 1; }

void do_interrupt(struct pt_regs *regs)
{
	u32 vector = inl(PORT_IN_SERVICE);

	(void)regs;
	if (vector == VECTOR_TIMER)
		do_timer_interrupt();
	if (vector == VECTOR_RESCHEDULE)
		do_reschedule_interrupt();
	outl(0, PORT_END_OF_INTERRUPT);
}

/* The last C code before registers are restored, with interrupts off. Preempts kernel code and programs. */
void prepare_return(struct pt_regs *regs)
{
	while (current->need_resched && (user_mode(regs) || interrupts_were_on(regs)))
		preempt_schedule_irq();
}
