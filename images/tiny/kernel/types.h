/* Words, attributes and the few macros that every file of the tiny kernel uses. */
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef int s32;
typedef unsigned long long u64;
typedef unsigned long usize;
typedef long ssize;

#define NULL ((void *)0)
#define __user
#define noinline __attribute__((__noinline__))
#define __used __attribute__((__used__))
#define __noreturn __attribute__((__noreturn__))

/* Code and data that are freed after the boot. */
#define __init __attribute__((section(".init.text"), __noinline__))
#define __initdata __attribute__((section(".init.data")))
/* Code that the probe's trap needs; marked as in a kernel with kprobes. */
#define __kprobes __attribute__((section(".kprobes.text"), __noinline__))
/* Code that must not be instrumented, because a trap there would be lost. */
#define noinstr __attribute__((section(".noinstr.text"), __noinline__))
/* Forbids probes on one function of ordinary text. */
#define NOKPROBE_SYMBOL(function)                                                                                      \
	static unsigned long __used __attribute__((section("_kprobe_blacklist")))                                      \
	_kbl_addr_##function = (unsigned long)function

#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))

enum {
	ENOENT = 2, EBADF = 9, ECHILD = 10, EAGAIN = 11, EACCES = 13, EFAULT = 14,
	EINVAL = 22, EMFILE = 24, ENAMETOOLONG = 36, ENOSYS = 38,
};
