/* System calls by number: the order of the table in syscall.c. */
#pragma once

enum {
	NR_exit, NR_read, NR_write, NR_open, NR_close, NR_fork,
	NR_wait, NR_getpid, NR_nanosleep, NR_sendto, NR_report, NR_yield,
	NR_syscalls
};
