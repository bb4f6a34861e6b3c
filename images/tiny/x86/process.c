/* The first stack of a new task, and the entry into user mode. */
#include "tiny.h"

void ret_from_fork(void);

struct pt_regs *task_pt_regs(struct task *task) { return (struct pt_regs *)(task->stack + KERNEL_STACK_SIZE) - 1; }

/* The stack frame that __switch_to_asm restores for a new task. */
struct first_frame {
#ifdef __x86_64__
	unsigned long r15, r14, r13, argument, function, bp, ip;
#else
	unsigned long argument, di, function, bp, ip;
#endif
};

/* kernel_thread supplies a thread's registers; a program's come from its system call. */
void copy_thread(struct task *child, struct pt_regs *regs, unsigned long stack_start)
{
	struct pt_regs *child_regs = task_pt_regs(child);
	struct first_frame *frame = (struct first_frame *)child_regs - 1;

	memset(frame, 0, sizeof(*frame));
	frame->ip = (unsigned long)ret_from_fork;
	if (user_mode(regs)) {
		*child_regs = *regs;
		child_regs->ax = 0;
		if (stack_start)
			child_regs->sp = stack_start;
	} else {
		memset(child_regs, 0, sizeof(*child_regs));
		frame->function = regs->bx;
		frame->argument = regs->cx;
	}
	child->sp = (unsigned long)frame;
}

int kernel_thread(int (*fn)(void *), void *arg)
{
	struct pt_regs regs;

	memset(&regs, 0, sizeof(regs));
	regs.cs = KERNEL_CS;
	regs.bx = (unsigned long)fn;
	regs.cx = (unsigned long)arg;
	return do_fork(CLONE_VM | SIGCHLD, 0, &regs, 0, NULL, NULL);
}

/* Sets the registers with which the calling kernel thread will enter user mode. */
void start_thread(unsigned long ip, unsigned long sp, unsigned long arg)
{
	struct pt_regs *regs = task_pt_regs(current);

	memset(regs, 0, sizeof(*regs));
	regs->ip = ip;
	regs->cs = USER_CS;
	regs->flags = X86_EFLAGS_IF | 2;
	regs->sp = sp;
	regs->ss = USER_DS;
	regs->FIRST_ARGUMENT = arg;
#ifndef __x86_64__
	regs->ds = regs->es = USER_DS;
#endif
}
