/* arm64: saved registers (pt_regs), the per-CPU area behind tpidr_el1, page-table words. */
#pragma once

#define WORD 8
#define ARCHITECTURE "arm64"
#define RAM_START 0x40000000
#define KERNEL_BASE 0xffff800008000000 /* virtual = this + physical - RAM_START */
#define LOAD_OFFSET (KERNEL_BASE - RAM_START)
#define PORTS 0xffff800010000000
#define PT_REGS_SIZE 288

#ifndef __ASSEMBLER__

#define PAGE_SIZE 4096UL
#include "types.h"

/* Only I is ever cleared; the other bits of DAIF stay set. */
#define FLAGS_INTERRUPTS_ON 0x340UL
#define FLAGS_I 0x80UL
#define FLAGS_KERNEL 0x345UL
#define FLAGS_USER(ip) 0x340UL

static inline void local_irq_enable(void) { asm volatile("msr daifclr, #2" ::: "memory"); }
static inline void local_irq_disable(void) { asm volatile("msr daifset, #2" ::: "memory"); }
static inline unsigned long local_irq_save(void)
{
	unsigned long flags;
	asm volatile("mrs %0, daif\n\tmsr daifset, #2" : "=r"(flags)::"memory");
	return flags;
}
static inline void local_irq_restore(unsigned long flags) { asm volatile("msr daif, %0" ::"r"(flags) : "memory"); }

/* Instructions that kernel and programs execute on purpose: breakpoints, invalid opcodes. */
#define BREAKPOINT "brk #4"
#define UNDEFINED "udf #0"
#define CODE_STATE ""
#define RETURN "ret"
#define TRACER_NOP "nop"
#define TRAP_BYTES 4

#include "common.h"

typedef unsigned long pte_t;
#define PTE_ADDRESS 0x0000fffffffff000UL
#define __pa(address) ((unsigned long)(address) - LOAD_OFFSET)
#define __va(physical) ((void *)((unsigned long)(physical) + LOAD_OFFSET))

struct pt_regs {
	unsigned long r[31], sp, ip, flags, unused[2];
};
static inline int user_mode(struct pt_regs *regs) { return !(regs->flags & 0xf); }
static inline int interrupts_were_on(struct pt_regs *regs) { return !(regs->flags & FLAGS_I); }

/* The stack frame that __switch_to_asm restores for a new task. */
struct first_frame {
	unsigned long function, argument, r21[9], ip;
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
} __attribute__((aligned(1024)));

extern struct percpu percpu_areas[];

/* sp_el0 holds the task while the kernel runs, as in Linux. */
static inline struct task *get_current(void)
{
	struct task *task;
	asm("mrs %0, sp_el0" : "=r"(task));
	return task;
}
#define current get_current()

/* Call with interrupts off. */
static inline struct percpu *this_cpu(void)
{
	struct percpu *area;
	asm volatile("mrs %0, tpidr_el1" : "=r"(area));
	return area;
}

static inline unsigned long syscall_argument(struct pt_regs *regs, int n) { return regs->r[n]; }
static inline unsigned long syscall_number(struct pt_regs *regs) { return regs->r[8]; }
static inline void syscall_result(struct pt_regs *regs, long result) { regs->r[0] = result; }

static inline long user_syscall(long number, long a, long b, long c)
{
	register long x8 asm("x8") = number, x0 asm("x0") = a, x1 asm("x1") = b, x2 asm("x2") = c;
	asm volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2) : "memory");
	return x0;
}

/* `why` is the syndrome register. */
static inline enum trap trap_of(struct pt_regs *regs, unsigned long why)
{
	(void)regs;
	switch (why >> 26) {
	case 0x00:
		return TRAP_UNDEFINED;
	case 0x15:
		return TRAP_SYSTEM_CALL;
	case 0x20 ... 0x21:
	case 0x24 ... 0x25:
		return TRAP_PAGE_FAULT;
	case 0x3c:
		return TRAP_BREAKPOINT;
	}
	return TRAP_UNEXPECTED;
}

static inline void forget_vectors(void) { asm volatile("msr vbar_el1, xzr\n\tisb" ::: "memory"); }

static inline u32 exchange(volatile u32 *place, u32 value)
{
	u32 old, failed;
	asm volatile("1: ldaxr %w0, %2\n\tstlxr %w1, %w3, %2\n\tcbnz %w1, 1b"
		     : "=&r"(old), "=&r"(failed), "+Q"(*place) : "r"(value) : "memory");
	return old;
}

static inline void flush_page(unsigned long address)
{
	asm volatile("dsb ishst\n\ttlbi vaae1is, %0\n\tdsb ish\n\tisb" ::"r"(address >> 12) : "memory");
}
/* Loads the page-table base of user space. */
static inline void load_pgd(unsigned long value)
{
	asm volatile("msr ttbr0_el1, %0\n\tisb\n\ttlbi vmalle1is\n\tdsb ish\n\tisb" ::"r"(value) : "memory");
}

#define PTE_PAGE 0x703UL /* a page, inner shareable, accessed; normal memory */
#define PTE_USER 0x40UL
#define PTE_READ_ONLY 0x80UL
#define PTE_NOT_GLOBAL 0x800UL
#define PTE_PXN (1UL << 53)
#define PTE_UXN (1UL << 54)
#define PAGE_PRESENT 1UL
static inline pte_t kernel_pte(unsigned long physical, unsigned long rights)
{
	return physical | PTE_PAGE | PTE_UXN | (rights & PAGE_WRITE ? 0 : PTE_READ_ONLY) | (rights & PAGE_NX ? PTE_PXN : 0);
}
static inline pte_t user_pte(unsigned long physical, unsigned long rights)
{
	return physical | PTE_PAGE | PTE_USER | PTE_NOT_GLOBAL | PTE_PXN | (rights & PAGE_WRITE ? 0 : PTE_READ_ONLY) |
	       (rights & PAGE_NX ? PTE_UXN : 0);
}

static inline void clear_page(void *page)
{
	void *end = (char *)page + PAGE_SIZE;
	asm volatile("1: stp xzr, xzr, [%0], #16\n\tcmp %0, %1\n\tb.ne 1b" : "+r"(page) : "r"(end) : "memory", "cc");
}
static inline void copy_page(void *to, const void *from)
{
	unsigned long one, other;
	void *end = (char *)to + PAGE_SIZE;
	asm volatile("1: ldp %2, %3, [%1], #16\n\tstp %2, %3, [%0], #16\n\tcmp %0, %4\n\tb.ne 1b"
		     : "+r"(to), "+r"(from), "=&r"(one), "=&r"(other) : "r"(end) : "memory", "cc");
}

/* Copies until done or until a fault. Returns the number of bytes left. */
static inline usize copy_until_fault(void *to, const void *from, usize n)
{
	u32 byte;
	asm volatile("cbz %0, 3f\n"
		     "1:\tldrb %w3, [%2], #1\n"
		     "2:\tstrb %w3, [%1], #1\n"
		     "\tsubs %0, %0, #1\n"
		     "\tb.ne 1b\n"
		     "3:\n\t" EX_TABLE(1b, 3b) EX_TABLE(2b, 3b)
		     : "+r"(n), "+r"(to), "+r"(from), "=&r"(byte)::"memory", "cc");
	return n;
}

/* Returns the byte at the address, or -1 if it cannot be read. */
static inline int load_byte(const char *from)
{
	int byte;
	asm volatile("1: ldrb %w0, %1\n\tb 3f\n2:\tmov %w0, #-1\n3:\n\t" EX_TABLE(1b, 2b) : "=r"(byte) : "Q"(*from));
	return byte;
}

#endif
