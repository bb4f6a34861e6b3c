/* The first stack of a new task, and the entry into user mode. */
#include "tiny.h"

void ret_from_fork(void);

struct pt_regs *task_pt_regs(struct task *task) { return BASE_REGS(KERNEL_SP(task->stack)); }

/* kernel_thread supplies a thread's function and argument; a program's registers come from its system call. */
void copy_thread(struct task *child, struct pt_regs *regs, unsigned long stack_start)
{
	struct pt_regs *child_regs = task_pt_regs(child);
	struct first_frame *frame = ABOVE_REGS(child_regs);

	memset(frame, 0, sizeof(*frame));
	frame->ip = CODE_ADDRESS(ret_from_fork);
	FIRST_FRAME(frame);
	if (user_mode(regs)) {
		*child_regs = *regs;
		syscall_result(child_regs, 0);
		if (stack_start)
			child_regs->sp = stack_start;
	} else {
		memset(child_regs, 0, sizeof(*child_regs));
		frame->function = regs->r[0];
		frame->argument = regs->r[1];
	}
	child->sp = STACK_POINTER(frame);
}

int kernel_thread(int (*fn)(void *), void *arg)
{
	struct pt_regs regs;

	memset(&regs, 0, sizeof(regs));
	regs.flags = FLAGS_KERNEL;
	regs.r[0] = (unsigned long)fn;
	regs.r[1] = (unsigned long)arg;
	return do_fork(CLONE_VM | SIGCHLD, 0, &regs, 0, NULL, NULL);
}

/* Sets the registers with which the calling kernel thread will enter user mode. */
void start_thread(unsigned long ip, unsigned long sp, unsigned long arg)
{
	struct pt_regs *regs = task_pt_regs(current);

	memset(regs, 0, sizeof(*regs));
	regs->ip = CODE_ADDRESS(ip) & ~1ul;
	regs->flags = FLAGS_USER(ip);
	regs->sp = USER_SP(sp);
	regs->r[0] = arg;
}
