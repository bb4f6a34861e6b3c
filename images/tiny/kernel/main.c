/* Boot, command line, the first task, and the checksum of all results. */
#include "board.h"
#include "lock.h"
#include "tiny.h"

enum { TICK_NS = 12000, MAX_COMMAND_LINE = 120 };

static const char *const result_names[RESULTS] = {
	"pipe", "net", "sort", "recursion", "bytecode", "files", "fork", "fault", "trap", "misc",
};

int user_rounds = 8;
static u32 bench_rounds, want_spin, want_crash, want_oops;
static int cpus = 1;
static volatile u32 secondary_is_up;
static u64 results[RESULTS];
static struct spinlock results_lock;

void report(enum result kind, u64 value)
{
	unsigned long flags = spin_lock_irqsave(&results_lock);
	results[kind] += value;
	spin_unlock_irqrestore(&results_lock, flags);
}

/* ---- boot code, freed by free_initmem ---- */

static __initdata char command_line[MAX_COMMAND_LINE];

static __init u32 option(const char *name, u32 otherwise)
{
	for (const char *at = command_line; *at;) {
		usize n = 0;
		while (name[n] && at[n] == name[n])
			n++;
		if (!name[n] && at[n] == '=') {
			u32 value = 0;
			for (at += n + 1; *at >= '0' && *at <= '9'; at++)
				value = value * 10 + *at - '0';
			return value;
		}
		while (*at && *at != ' ')
			at++;
		while (*at == ' ')
			at++;
	}
	return otherwise;
}

static __init void read_boot_info(unsigned long physical)
{
	const struct boot_info *info = __va(physical);
	const char *from;

	if (info->magic != BOOT_INFO_MAGIC)
		panic("no boot info");
	cpus = info->cpus < MAX_CPUS ? info->cpus : MAX_CPUS;
	from = __va(info->command_line);
	for (int i = 0; i < MAX_COMMAND_LINE - 1 && from[i]; i++)
		command_line[i] = from[i];
	printk("tiny kernel on %s: %u CPU%s, %u KiB of memory\n", ARCHITECTURE, cpus, cpus > 1 ? "s" : "",
	       info->ram_bytes / 1024);
	printk("command line: \"%s\"\n", command_line);
}

static __init void parse_command_line(void)
{
	user_rounds = option("user", user_rounds);
	bench_rounds = option("bench", 0);
	want_spin = option("spin", 0);
	want_crash = option("crash", 0);
	want_oops = option("oops", 0);
}

static void rest_init(void) __noreturn;

__init void start_kernel(unsigned long boot_info)
{
	trap_init();
	cpu_init(0);
	sched_init(0, &tasks[0]);
	mm_init();
	read_boot_info(boot_info);
	parse_command_line();
	secondary_may_start = 1;
	timer_start(TICK_NS);
	rest_init();
}

/* ---- code that stays ---- */

void start_secondary(unsigned long cpu)
{
	cpu_init(cpu);
	sched_init(cpu, &tasks[cpu]);
	secondary_is_up = 1;
	timer_start(TICK_NS);
	cpu_idle();
}

static noinline void wait_for_secondary(void)
{
	while (cpus > 1 && !secondary_is_up)
		schedule_timeout(TICK_NS);
}

static noinline void do_what_tests_want(void)
{
	if (want_spin) {
		printk("spinning\n");
		for (;;)
			cpu_relax();
	}
	if (want_crash)
		triple_fault();
	if (want_oops)
		panic("oops=1 was asked for");
	if (bench_rounds)
		printk("bench: %u calls in %llu ns\n", bench_rounds, run_bench(bench_rounds));
}

static noinline void wait_for_all(void)
{
	int status, tasks_done = 0;

	while (do_wait(&status) > 0)
		tasks_done++;
	printk("%d tasks have ended\n", tasks_done);
}

static noinline u64 checksum(void)
{
	u64 hash = 0;

	report(R_TRAP, mix(breakpoints_seen, bugs_repaired));
	for (int kind = 0; kind < RESULTS; kind++) {
		printk("  %-10s %016llx\n", result_names[kind], results[kind]);
		hash = mix(hash + kind, results[kind]);
	}
	return hash;
}

static int kernel_init(void *unused)
{
	(void)unused;
	set_task_comm(current, "init");
	wait_for_secondary();
	mark_rodata_ro();
	free_initmem();
	printk("boot is over: init memory freed, text is read-only\n");
	do_what_tests_want();
	start_work();
	wait_for_all();
	net_drain();
	u64 sum = checksum();
	printk("%u breakpoints, %u bugs, %u pages on demand, %u switches\n", breakpoints_seen, bugs_repaired, demand_faults,
	       context_switches);
	printk("checksum: %016llx\n", sum);
	printk("tiny: done\n");
	power_off(0);
}

static void rest_init(void)
{
	kernel_thread(kernel_init, NULL);
	cpu_idle();
}
