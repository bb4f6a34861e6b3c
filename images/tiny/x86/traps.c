/* C handlers of exceptions and interrupts, called when entry.S has saved the registers. */
#include "tiny.h"

void do_int3(struct pt_regs *regs, unsigned long error);
void do_invalid_op(struct pt_regs *regs, unsigned long error);
void do_general_protection(struct pt_regs *regs, unsigned long error);
void do_page_fault(struct pt_regs *regs, unsigned long error);
void do_double_fault(struct pt_regs *regs, unsigned long error);
void do_unexpected_trap(struct pt_regs *regs, unsigned long error);
void do_timer_interrupt(struct pt_regs *regs, unsigned long error);
void do_reschedule_interrupt(struct pt_regs *regs, unsigned long error);
void prepare_return(struct pt_regs *regs);

extern const struct exception_table_entry __start___ex_table[], __stop___ex_table[];
extern const struct bug_entry __start___bug_table[], __stop___bug_table[];

static noinline unsigned long search_exception_table(unsigned long ip)
{
	const struct exception_table_entry *row;
	for (row = __start___ex_table; row < __stop___ex_table; row++)
		if ((unsigned long)&row->insn + (long)row->insn == ip)
			return (unsigned long)&row->fixup + (long)row->fixup;
	return 0;
}

static noinline int fixup_exception(struct pt_regs *regs)
{
	unsigned long fixup = search_exception_table(regs->ip);
	if (!fixup)
		return 0;
	regs->ip = fixup;
	return 1;
}

static noinline int is_bug_address(unsigned long ip)
{
	const struct bug_entry *row;
	for (row = __start___bug_table; row < __stop___bug_table; row++)
		if ((unsigned long)&row->insn + (long)row->insn == ip)
			return 1;
	return 0;
}

/* An exception without a fixup: kills a program, and stops the kernel. */
static noinline void die(const char *what, struct pt_regs *regs, unsigned long error, int signal)
{
	if (user_mode(regs)) {
		local_irq_enable();
		do_exit(signal);
	}
	printk("%s at ip %lx, error %lx, task %s\n", what, regs->ip, error, current->comm);
	panic(what);
}

/* In .kprobes.text, where a kernel with kprobes would call them. */
__kprobes void do_int3(struct pt_regs *regs, unsigned long error)
{
	(void)regs, (void)error;
	__sync_fetch_and_add(&breakpoints_seen, 1);
}

void do_invalid_op(struct pt_regs *regs, unsigned long error)
{
	if (!user_mode(regs) && is_bug_address(regs->ip)) {
		__sync_fetch_and_add(&bugs_repaired, 1);
		regs->ip += 2;
		return;
	}
	die("invalid opcode", regs, error, SIGILL);
}

void do_general_protection(struct pt_regs *regs, unsigned long error)
{
	if (!user_mode(regs) && fixup_exception(regs))
		return;
	die("general protection fault", regs, error, SIGSEGV);
}

void do_page_fault(struct pt_regs *regs, unsigned long error)
{
	unsigned long address = read_cr2();
	struct mm *mm = current->mm;

	if (regs->flags & X86_EFLAGS_IF)
		local_irq_enable();
	if (mm && handle_mm_fault(mm, address))
		return;
	if (!user_mode(regs) && fixup_exception(regs))
		return;
	if (!user_mode(regs))
		printk("page fault: address %lx\n", address);
	die("page fault", regs, error, SIGSEGV);
}

void do_double_fault(struct pt_regs *regs, unsigned long error)
{
	printk("double fault at ip %lx, sp %lx\n", regs->ip, regs->sp);
	(void)error;
	panic("double fault");
}

void do_unexpected_trap(struct pt_regs *regs, unsigned long error)
{
	die("unexpected trap", regs, error, SIGILL);
}

void do_timer_interrupt(struct pt_regs *regs, unsigned long error)
{
	(void)regs, (void)error;
	this_cpu()->ticks++;
	scheduler_tick();
	net_rx_action();
	outl(0, PORT_END_OF_INTERRUPT);
}

void do_reschedule_interrupt(struct pt_regs *regs, unsigned long error)
{
	(void)regs, (void)error;
	current->need_resched = 1;
	outl(0, PORT_END_OF_INTERRUPT);
}

/* The last C code before registers are restored, with interrupts off. Preempts kernel code and programs. */
void prepare_return(struct pt_regs *regs)
{
	while (current->need_resched && (user_mode(regs) || regs->flags & X86_EFLAGS_IF))
		preempt_schedule_irq();
}
