/* The guest's side of probing: counters of its traps, jprobe handlers in guest code, text that must not be probed. */
#include "tiny.h"

u32 breakpoints_seen, bugs_repaired, jprobes_seen;

/* The end of a guest jprobe handler. The probe engine takes the breakpoint; without a jprobe it is only counted. */
asm(".pushsection .kprobes.text, \"ax\"\n"
    CODE_STATE ".globl jprobe_return, jprobe_return_end\n"
    ".type jprobe_return, STT_FUNC\n"
    "jprobe_return:\n\t" NOP "\n\t" BREAKPOINT "\n"
    "jprobe_return_end:\n\t" NOP "\n\t" RETURN "\n"
    ".size jprobe_return, . - jprobe_return\n"
    ".popsection");

/* Handlers for guest jprobes on do_fork and vfs_read. They do not change the checksum. */
__used noinline long jprobe_do_fork(unsigned long clone_flags, unsigned long stack_start, struct pt_regs *regs,
				    unsigned long stack_size, int __user *parent_tidptr, int __user *child_tidptr)
{
	jprobes_seen += clone_flags && regs && !stack_start && !stack_size && !parent_tidptr && !child_tidptr;
	jprobe_return();
	return 0;
}

__used noinline ssize jprobe_vfs_read(struct file *file, char __user *buf, usize count, u32 *pos)
{
	jprobes_seen += file && buf && count && pos == &file->pos;
	jprobe_return();
	return 0;
}

/* A function that is blacklisted by name. */
noinline u32 count_blacklisted_calls(u32 n)
{
	barrier();
	return n + 1;
}
NOKPROBE_SYMBOL(count_blacklisted_calls);
