/* The user programs. This file is linked at user addresses and runs in user mode. */
#include "syscall_numbers.h"
#include "tiny.h"

static u32 shared_data[4] = { 1, 2, 3, 4 }; /* every program has its own copy */

static void exit(long code)
{
	for (;;)
		user_syscall(NR_exit, code, 0, 0);
}

static u64 blend(u64 hash, u64 value)
{
	hash = (hash ^ value) * 0x9e3779b97f4a7c15ull;
	return hash ^ hash >> 29;
}

static void report_sum(enum result kind, u64 sum) { user_syscall(NR_report, kind, (u32)sum, (u32)(sum >> 32)); }

static long open(const char *name, int flags) { return user_syscall(NR_open, (long)name, flags, 0); }

/* Opens that succeed and that fail in each way; short reads. */
static noinline u64 files_round(u64 sum)
{
	static const char *const names[] = {
		"/etc/motd", "/proc/version", "/etc/shadow", "/no/such/file", "/dev/zero", "/dev/null",
		(char *)0x1234, "/a/name/that/is/longer/than/the/kernel/allows",
	};
	char buffer[16];

	for (unsigned i = 0; i < ARRAY_SIZE(names); i++) {
		long fd = open(names[i], O_RDONLY);
		sum = blend(sum, fd);
		if (fd < 0)
			continue;
		for (int part = 0; part < 6; part++) {
			long n = user_syscall(NR_read, fd, (long)buffer, sizeof(buffer));
			for (long at = 0; at < n; at++)
				sum += (u8)buffer[at] * (at + 1);
		}
		sum = blend(sum, user_syscall(NR_read, fd, 0x1234, 4));
		user_syscall(NR_close, fd, 0, 0);
	}
	return sum;
}

void user_files(unsigned long rounds)
{
	u64 sum = 0;

	long console = open("/dev/console", O_WRONLY);
	user_syscall(NR_write, console, (long)"hello from user mode", 20);
	user_syscall(NR_close, console, 0, 0);
	for (unsigned long i = 0; i < 2 * rounds; i++)
		sum = files_round(sum + shared_data[i & 3]);
	for (int i = 0; i < MAX_FILES + 1; i++) { /* one too many */
		long fd = open("/dev/null", O_WRONLY);
		sum = blend(sum, fd);
		sum += user_syscall(NR_write, fd, (long)"into the void", 13) + user_syscall(NR_read, fd, 0, 1);
	}
	report_sum(R_FILES, sum);
	exit(0);
}

/* A loop that is long enough for a timer interrupt in user mode. */
static noinline u64 compute(u32 turns)
{
	u64 sum = turns;
	for (u32 i = 0; i < turns; i++)
		sum = blend(sum, i);
	return sum;
}

static noinline void child(u32 which)
{
	volatile u32 *heap = (volatile u32 *)USER_HEAP, *nowhere = heap + 0x10000;

	shared_data[0] += which;
	for (u32 page = 0; page < 3; page++)
		heap[page * 1024 + which] = which + page;
	switch (which % 4) {
	case 0:
		*nowhere = 1; /* ends the program */
		break;
	case 1:
		asm volatile(UNDEFINED); /* ends the program too */
		break;
	case 2:
		asm volatile(BREAKPOINT);
		break;
	}
	exit(shared_data[0] + heap[2048 + which]);
}

void user_forker(unsigned long rounds)
{
	u64 sum = 0;

	for (unsigned long i = 0; i < (rounds + 1) / 2; i++) {
		int status = 0, children = 0;
		for (u32 which = 0; which < 4; which++)
			if (!user_syscall(NR_fork, 0, 0, 0))
				child(which + 4 * i);
		sum += compute(400);
		while (user_syscall(NR_wait, (long)&status, 0, 0) > 0) {
			sum += blend(status, 5);
			children++;
		}
		sum = blend(sum, children);
		user_syscall(NR_nanosleep, 5000, 0, 0);
		asm volatile(BREAKPOINT);
	}
	report_sum(R_FORK, sum + (user_syscall(NR_getpid, 0, 0, 0) > 0));
	exit(0);
}

void user_pinger(unsigned long rounds)
{
	u8 packet[40];
	u64 sum = 0;

	for (u32 seq = 0; seq < rounds * 16; seq++) {
		for (u32 i = 0; i < sizeof(packet); i++)
			packet[i] = seq * 7 + i;
		sum += user_syscall(NR_sendto, seq, (long)packet, 8 + seq % 32);
		if (seq % 5 == 0)
			user_syscall(NR_yield, 0, 0, 0);
	}
	sum += user_syscall(NR_sendto, 0, (long)packet, 4000) + user_syscall(99, 0, 0, 0);
	report_sum(R_MISC, blend(sum, compute(600)));
	exit(0);
}
