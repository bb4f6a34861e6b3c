/* Kernel threads. Each reports only sums, so the result does not depend on scheduling. */
#include "lock.h"
#include "tiny.h"
#include "work.h"

enum { PIPE_WRITERS = 2, PIPE_READERS = 3, PIPE_MESSAGES = 160 };

static int pipe_writer(void *arg)
{
	u32 seed = (unsigned long)arg;
	struct file *file = filp_open("/run/pipe", O_WRONLY);

	set_task_comm(current, "pipe-writer");
	for (int i = 0; file && i < PIPE_MESSAGES; i++) {
		seed = seed * 1103515245 + 12345;
		vfs_write(file, (char *)&seed, sizeof(seed), &file->pos);
		if (i % 40 == 39)
			schedule_timeout(20000);
	}
	if (file)
		filp_close(file);
	do_exit(0);
}

static int pipe_reader(void *arg)
{
	struct file *file = filp_open("/run/pipe", O_RDONLY);
	u64 sum = 0;
	u32 record;

	(void)arg;
	set_task_comm(current, "pipe-reader");
	while (file && vfs_read(file, (char *)&record, sizeof(record), &file->pos) > 0)
		sum += mix(record, 1);
	if (file)
		filp_close(file);
	report(R_PIPE, sum);
	do_exit(0);
}

static int sorter(void *arg)
{
	u64 sum = 0;

	(void)arg;
	set_task_comm(current, "sorter");
	for (u32 i = 0; i < 16; i++)
		sum += sort_numbers(i + 1);
	report(R_SORT, sum);
	do_exit(0);
}

static int recurser(void *arg)
{
	u64 sum = 0;

	(void)arg;
	set_task_comm(current, "recurser");
	for (u32 i = 0; i < 4; i++)
		sum += mix(fibonacci(13 + i % 2), ackermann(2, 4 + i));
	for (u32 i = 0; i < 40; i++)
		sum += weave(i, 2, 3, i * 4, 5, 6, i * i, 8, 9, i + 10) + hand_over(i, 12);
	report(R_RECURSION, sum);
	do_exit(0);
}

static int interpreter(void *arg)
{
	u64 sum = 0;

	(void)arg;
	set_task_comm(current, "interpreter");
	for (u32 i = 0; i < 20; i++) {
		sum += run_bytecode(i, 200);
		sum += loop_into_head(60 + i);
		sum += mix(i, instruction_zoo(i * 2654435761u));
		sum += count_blacklisted_calls(i);
	}
	report(R_BYTECODE, sum);
	do_exit(0);
}

/* Accesses that fault in the kernel and have a fixup; traps that the kernel raises itself. */
static noinline u64 fault_round(u32 i)
{
	static const unsigned long nowhere[] = { 0, 0x1000, NOWHERE, KERNEL_BASE - 0x5000 };
	u32 value = 7;
	u64 sum = 0;

	for (unsigned n = 0; n < ARRAY_SIZE(nowhere); n++)
		sum += mix(n + i, probe_kernel_read(&value, (void *)nowhere[n], sizeof(value)) == -EFAULT);
	sum += probe_kernel_read(&value, &i, sizeof(value)) == 0 ? mix(value, i) : 0;
	sum += mix(i, probe_kernel_write((void *)nowhere, &value, sizeof(value)) == -EFAULT); /* constants stay constant */
	return sum;
}

/* The operand keeps the breakpoint off the function's first byte, so that the function can be probed. */
static noinline u32 trap_round(u32 i)
{
	u32 value = i * 5 + 1;

	asm volatile(BREAKPOINT : "+r"(value));
	WARN_HERE();
	return value;
}

static int faulter(void *arg)
{
	u64 sum = 0;

	(void)arg;
	set_task_comm(current, "faulter");
	for (u32 i = 0; i < 12; i++) {
		sum += fault_round(i);
		sum += trap_round(i);
	}
	report(R_FAULT, sum);
	do_exit(0);
}

static noinline void leave(u64 sum, int for_good)
{
	report(R_MISC, sum);
	if (for_good)
		do_exit(3);
}

/* The task exits inside this function if `for_good` is set, so its calls never return. */
static noinline u32 exit_inside(u32 depth, u64 sum, int for_good)
{
	if (!depth) {
		leave(sum, for_good);
		return 0;
	}
	u32 deeper = exit_inside(depth - 1, mix(sum, depth), for_good);
	barrier();
	return deeper + depth;
}

static int exiter(void *arg)
{
	set_task_comm(current, "exiter");
	report(R_MISC, exit_inside(3, (unsigned long)arg, 0));
	exit_inside(3, (unsigned long)arg, 1);
	do_exit(0);
}

/* Sleeps while other tasks enter the same function. */
static noinline u32 doze(u32 n)
{
	schedule_timeout(3000 + n * 1000);
	return n * n + 1;
}

static int dozer(void *arg)
{
	u32 n = (unsigned long)arg, sum = 0;

	set_task_comm(current, "dozer");
	for (u32 i = 0; i < 4; i++)
		sum += doze(n + i);
	report(R_MISC, sum);
	do_exit(0);
}

static int program(void *arg) { return do_execve(arg, user_rounds); }

static const struct {
	int (*fn)(void *);
	void *arg;
} threads[] = {
	{ pipe_reader, NULL }, { pipe_reader, NULL },
	{ pipe_writer, (void *)11 }, { pipe_writer, (void *)222 },
	{ pipe_reader, NULL },
	{ sorter, NULL }, { recurser, NULL }, { interpreter, NULL }, { faulter, NULL },
	{ exiter, (void *)5 }, { exiter, (void *)6 },
	{ dozer, (void *)1 }, { dozer, (void *)2 },
	{ program, "/bin/files" }, { program, "/bin/forker" }, { program, "/bin/pinger" }, { program, "/bin/files" },
};

void start_work(void)
{
	for (unsigned i = 0; i < ARRAY_SIZE(threads); i++)
		kernel_thread(threads[i].fn, threads[i].arg);
}
