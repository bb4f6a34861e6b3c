/* The system call table, and system calls without a file of their own. */
#include "syscall_numbers.h"
#include "tiny.h"

typedef long (*syscall_fn)(unsigned long, unsigned long, unsigned long);

static noinline long sys_exit(long code) { do_exit(code & 0xff); }

static noinline long sys_fork(void) { return do_fork(SIGCHLD, 0, task_pt_regs(current), 0, NULL, NULL); }

static noinline long sys_wait(int __user *status) { return do_wait(status); }

static noinline long sys_getpid(void) { return current->pid; }

static noinline long sys_nanosleep(unsigned long nanoseconds)
{
	schedule_timeout(nanoseconds);
	return 0;
}

static noinline long sys_report(unsigned long kind, unsigned long low, unsigned long high)
{
	if (kind >= RESULTS)
		return -EINVAL;
	report(kind, (u64)(u32)high << 32 | (u32)low);
	return 0;
}

static noinline long sys_yield(void)
{
	schedule();
	return 0;
}

static const syscall_fn sys_call_table[NR_syscalls] = {
	[NR_exit] = (syscall_fn)sys_exit,
	[NR_read] = (syscall_fn)sys_read,
	[NR_write] = (syscall_fn)sys_write,
	[NR_open] = (syscall_fn)sys_open,
	[NR_close] = (syscall_fn)sys_close,
	[NR_fork] = (syscall_fn)sys_fork,
	[NR_wait] = (syscall_fn)sys_wait,
	[NR_getpid] = (syscall_fn)sys_getpid,
	[NR_nanosleep] = (syscall_fn)sys_nanosleep,
	[NR_sendto] = (syscall_fn)sys_sendto,
	[NR_report] = (syscall_fn)sys_report,
	[NR_yield] = (syscall_fn)sys_yield,
};

void do_syscall(struct pt_regs *regs)
{
	unsigned long number = syscall_number(regs);

	local_irq_enable();
	if (number >= NR_syscalls) {
		syscall_result(regs, -ENOSYS);
		return;
	}
	syscall_result(regs, sys_call_table[number](syscall_argument(regs, 0), syscall_argument(regs, 1), syscall_argument(regs, 2)));
}
