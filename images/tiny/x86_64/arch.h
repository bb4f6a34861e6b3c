/* x86_64: saved registers (pt_regs), the per-CPU area behind gs, page-table words. */
#pragma once

#define WORD 8
#define ARCHITECTURE "x86_64"
#define KERNEL_BASE 0xffffffff81000000 /* virtual = this + physical */
#define LOAD_OFFSET KERNEL_BASE
#define KERNEL_CS 0x10
#define KERNEL_DS 0x18
#define USER_DS 0x2b
#define USER_CS 0x33
#define GDT_TSS 8 /* its two entries */
#define GDT_ENTRIES 10

#ifndef __ASSEMBLER__

#define PAGE_SIZE 4096UL
#define AX_REGISTER "rax"
#define WORD_SUFFIX "q"
#include "common.h"

typedef unsigned long pte_t;
#define PAGE_NX (1UL << 63)
#define PTE_ADDRESS 0x000ffffffffff000UL
#define __pa(address) ((unsigned long)(address) - KERNEL_BASE)
#define __va(physical) ((void *)((unsigned long)(physical) + KERNEL_BASE))

struct pt_regs {
	unsigned long r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di, orig_ax, ip, cs, flags, sp, ss;
};
static inline int user_mode(struct pt_regs *regs) { return (regs->cs & 3) == 3; }

struct tss {
	u32 reserved;
	u64 sp[3], reserved2, ist[7], reserved3;
	u16 reserved4, io_map;
} __attribute__((packed));

struct percpu {
	struct percpu *self;
	struct task *current_task;
	unsigned long kernel_sp;
	unsigned long user_sp;
	struct task *idle;
	unsigned long active_pgd;
	unsigned long number;
	unsigned long ticks;
	u64 gdt[GDT_ENTRIES];
	struct tss tss;
} __attribute__((aligned(1024)));

extern struct percpu percpu_areas[];

/* With interrupts on, the task may migrate at any time; `current` is still right. */
static inline struct task *get_current(void)
{
	struct task *task;
	asm("movq %%gs:8, %0" : "=r"(task));
	return task;
}
#define current get_current()

/* Call with interrupts off. */
static inline struct percpu *this_cpu(void)
{
	struct percpu *area;
	asm volatile("movq %%gs:0, %0" : "=r"(area));
	return area;
}

static inline unsigned long syscall_argument(struct pt_regs *regs, int n)
{
	return n == 0 ? regs->di : n == 1 ? regs->si : regs->dx;
}
#define FIRST_ARGUMENT di
static inline unsigned long syscall_number(struct pt_regs *regs) { return regs->orig_ax; }
static inline void syscall_result(struct pt_regs *regs, long result) { regs->ax = result; }

static inline long user_syscall(long number, long a, long b, long c)
{
	long result;
	asm volatile("syscall" : "=a"(result) : "0"(number), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
	return result;
}

#endif
