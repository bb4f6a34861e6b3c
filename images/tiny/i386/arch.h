/* i386: saved registers (pt_regs), the per-CPU area behind fs, page-table words. */
#pragma once

#define WORD 4
#define ARCHITECTURE "i386"
#define KERNEL_BASE 0xc0000000 /* virtual = this + physical */
#define LOAD_OFFSET KERNEL_BASE
#define KERNEL_CS 0x10
#define KERNEL_DS 0x18
#define USER_CS 0x23
#define USER_DS 0x2b
#define KERNEL_PERCPU 0x30
#define GDT_PERCPU 6
#define GDT_TSS 7
#define GDT_ENTRIES 8

#ifndef __ASSEMBLER__

#define PAGE_SIZE 4096UL
#define AX_REGISTER "eax"
#define WORD_SUFFIX "l"
#include "common.h"

typedef unsigned long pte_t;
#define PAGE_NX 0UL
#define PTE_ADDRESS 0xfffff000UL
#define __pa(address) ((unsigned long)(address) - KERNEL_BASE)
#define __va(physical) ((void *)((unsigned long)(physical) + KERNEL_BASE))

struct pt_regs {
	unsigned long bx, cx, dx, si, di, bp, ax, ds, es, fs, gs, orig_ax, ip, cs, flags;
	unsigned long sp, ss; /* only from user mode */
};
static inline int user_mode(struct pt_regs *regs) { return (regs->cs & 3) == 3; }

struct tss {
	u32 link, sp0, ss0, unused[22];
	u16 trap, io_map;
};

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
	asm("movl %%fs:4, %0" : "=r"(task));
	return task;
}
#define current get_current()

/* Call with interrupts off. */
static inline struct percpu *this_cpu(void)
{
	struct percpu *area;
	asm volatile("movl %%fs:0, %0" : "=r"(area));
	return area;
}

static inline unsigned long syscall_argument(struct pt_regs *regs, int n)
{
	return n == 0 ? regs->bx : n == 1 ? regs->cx : regs->dx;
}
#define FIRST_ARGUMENT ax
static inline unsigned long syscall_number(struct pt_regs *regs) { return regs->orig_ax; }
static inline void syscall_result(struct pt_regs *regs, long result) { regs->ax = result; }

static inline long user_syscall(long number, long a, long b, long c)
{
	long result;
	asm volatile("int $0x80" : "=a"(result) : "0"(number), "b"(a), "c"(b), "d"(c) : "memory");
	return result;
}

#endif
