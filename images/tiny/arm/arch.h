/* 32-bit ARM, in A32 or in T32 code: saved registers (pt_regs), the per-CPU area behind TPIDRPRW, page-table words. */
#pragma once

#define WORD 4
#define RAM_START 0x40000000
#define KERNEL_BASE 0xc0000000 /* virtual = this + physical - RAM_START */
#define LOAD_OFFSET (KERNEL_BASE - RAM_START)
#define PORTS 0xf0900000
#define PT_REGS_SIZE 72

/* Processor modes and flags. */
#define MODE_USER 0x10
#define MODE_SUPERVISOR 0x13
#define MODE_SYSTEM 0x1f
#define FLAG_I 0x80
#define FLAG_F 0x40
#define FLAG_T 0x20

/* Instructions that kernel and programs execute on purpose: breakpoints, invalid opcodes. */
#ifdef __thumb__
#define ARCHITECTURE "thumb2"
#define TRAP_BYTES 2
#define CODE_STATE ".thumb\n"
#define BREAKPOINT ".inst.n 0xde18"
#define BREAKPOINT_WORD 0xde18
#else
#define ARCHITECTURE "arm"
#define TRAP_BYTES 4
#define CODE_STATE ".arm\n"
#define BREAKPOINT ".inst 0xe7f001f8"
#define BREAKPOINT_WORD 0xe7f001f8
#endif
#define UNDEFINED "udf #0"
#define RETURN "bx lr"
/* A NOP hint would be emulated, never boosted or optimised; the benchmark measures all three, so it needs another no-op. */
#define TRACER_NOP "mov r0, r0"

#ifndef __ASSEMBLER__

#define PAGE_SIZE 4096UL
#include "types.h"

#define FLAGS_INTERRUPTS_ON (MODE_SUPERVISOR | FLAG_F)
#define FLAGS_KERNEL FLAGS_INTERRUPTS_ON
#define FLAGS_USER(ip) (MODE_USER | FLAG_F | ((ip) & 1 ? FLAG_T : 0))

static inline void local_irq_enable(void) { asm volatile("cpsie i" ::: "memory"); }
static inline void local_irq_disable(void) { asm volatile("cpsid i" ::: "memory"); }
static inline unsigned long local_irq_save(void)
{
	unsigned long flags;
	asm volatile("mrs %0, cpsr\n\tcpsid i" : "=r"(flags)::"memory");
	return flags;
}
static inline void local_irq_restore(unsigned long flags) { asm volatile("msr cpsr_c, %0" ::"r"(flags) : "memory"); }

#include "common.h"

typedef unsigned long pte_t;
#define PTE_ADDRESS 0xfffff000UL
#define __pa(address) ((unsigned long)(address) - LOAD_OFFSET)
#define __va(physical) ((void *)((unsigned long)(physical) + LOAD_OFFSET))

struct pt_regs {
	unsigned long r[13], sp, lr, unused, ip, flags;
};
static inline int user_mode(struct pt_regs *regs) { return (regs->flags & 0x1f) == MODE_USER; }
static inline int interrupts_were_on(struct pt_regs *regs) { return !(regs->flags & FLAG_I); }

/* The stack frame that __switch_to_asm restores for a new task. */
struct first_frame {
	unsigned long function, argument, r6[6], unused, ip;
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

/* TPIDRURO, which programs can only read, holds the task, as in Linux. */
static inline struct task *get_current(void)
{
	struct task *task;
	asm("mrc p15, 0, %0, c13, c0, 3" : "=r"(task));
	return task;
}
#define current get_current()

/* Call with interrupts off. */
static inline struct percpu *this_cpu(void)
{
	struct percpu *area;
	asm volatile("mrc p15, 0, %0, c13, c0, 4" : "=r"(area));
	return area;
}

static inline unsigned long syscall_argument(struct pt_regs *regs, int n) { return regs->r[n]; }
static inline unsigned long syscall_number(struct pt_regs *regs) { return regs->r[7]; }
static inline void syscall_result(struct pt_regs *regs, long result) { regs->r[0] = result; }

static inline long user_syscall(long number, long a, long b, long c)
{
	register long r7 asm("r7") = number, r0 asm("r0") = a, r1 asm("r1") = b, r2 asm("r2") = c;
	asm volatile("svc #0" : "+r"(r0) : "r"(r7), "r"(r1), "r"(r2) : "memory");
	return r0;
}

/* `why` is the number of the vector: 1 undefined instruction, 2 system call, 3 and 4 aborts. */
static inline enum trap trap_of(struct pt_regs *regs, unsigned long why)
{
	switch (why) {
	case 1:
#ifdef __thumb__
		return *(u16 *)regs->ip == BREAKPOINT_WORD ? TRAP_BREAKPOINT : TRAP_UNDEFINED;
#else
		return *(u32 *)regs->ip == BREAKPOINT_WORD ? TRAP_BREAKPOINT : TRAP_UNDEFINED;
#endif
	case 2:
		return TRAP_SYSTEM_CALL;
	case 3 ... 4:
		return TRAP_PAGE_FAULT;
	}
	return TRAP_UNEXPECTED;
}

static inline void forget_vectors(void) { asm volatile("mcr p15, 0, %0, c12, c0, 0\n\tisb" ::"r"(0) : "memory"); }

static inline u32 exchange(volatile u32 *place, u32 value)
{
	u32 old, failed;
	asm volatile("1: ldrex %0, [%2]\n\tstrex %1, %3, [%2]\n\tcmp %1, #0\n\tbne 1b\n\tdmb"
		     : "=&r"(old), "=&r"(failed) : "r"(place), "r"(value) : "memory", "cc");
	return old;
}

static inline void flush_page(unsigned long address)
{
	asm volatile("dsb\n\tmcr p15, 0, %0, c8, c7, 1\n\tdsb\n\tisb" ::"r"(address & PTE_ADDRESS) : "memory");
}
/* Loads the page-table base; walks use cached memory. */
static inline void load_pgd(unsigned long value)
{
	asm volatile("mcr p15, 0, %0, c2, c0, 0\n\tisb\n\tmcr p15, 0, %1, c8, c7, 0\n\tdsb\n\tisb" ::"r"(value | 0x4a), "r"(0) : "memory");
}

#define PTE_PAGE 0x1eUL /* a small page of cached memory that the kernel may read and write */
#define PTE_NX 0x1UL
#define PTE_USER 0x20UL
#define PTE_READ_ONLY 0x200UL
#define PAGE_PRESENT 2UL
static inline pte_t kernel_pte(unsigned long physical, unsigned long rights)
{
	return physical | PTE_PAGE | (rights & PAGE_WRITE ? 0 : PTE_READ_ONLY) | (rights & PAGE_NX ? PTE_NX : 0);
}
static inline pte_t user_pte(unsigned long physical, unsigned long rights) { return kernel_pte(physical, rights) | PTE_USER; }

static inline void clear_page(void *page)
{
	void *end = (char *)page + PAGE_SIZE;
	asm volatile("mov r2, #0\n\tmov r3, #0\n1:\tstmia %0!, {r2, r3}\n\tcmp %0, %1\n\tbne 1b"
		     : "+r"(page) : "r"(end) : "r2", "r3", "memory", "cc");
}
static inline void copy_page(void *to, const void *from)
{
	void *end = (char *)to + PAGE_SIZE;
	asm volatile("1: ldmia %1!, {r4, r5, r6, r8}\n\tstmia %0!, {r4, r5, r6, r8}\n\tcmp %0, %2\n\tbne 1b"
		     : "+r"(to), "+r"(from) : "r"(end) : "r4", "r5", "r6", "r8", "memory", "cc");
}

/* Copies until done or until a fault. Returns the number of bytes left. */
static inline usize copy_until_fault(void *to, const void *from, usize n)
{
	u32 byte;
	asm volatile("cmp %0, #0\n"
		     "\tbeq 3f\n"
		     "1:\tldrb %3, [%2], #1\n"
		     "2:\tstrb %3, [%1], #1\n"
		     "\tsubs %0, %0, #1\n"
		     "\tbne 1b\n"
		     "3:\n\t" EX_TABLE(1b, 3b) EX_TABLE(2b, 3b)
		     : "+r"(n), "+r"(to), "+r"(from), "=&r"(byte)::"memory", "cc");
	return n;
}

/* One byte, or -1 if the address cannot be read. */
static inline int load_byte(const char *from)
{
	int byte;
	asm volatile("1: ldrb %0, [%1]\n\tb 3f\n2:\tmvn %0, #0\n3:\n\t" EX_TABLE(1b, 2b) : "=&r"(byte) : "r"(from));
	return byte;
}

#endif
