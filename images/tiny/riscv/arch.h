/* RISC-V in 64 bits (Sv39) and 32 bits (Sv32): saved registers (pt_regs), the per-CPU area behind gp, page-table words. */
#pragma once

#if __riscv_xlen == 64
#define WORD 8
#define ARCHITECTURE "riscv64"
#define KERNEL_BASE 0xffffffff88000000 /* virtual = this + physical - RAM_START */
#define PORTS 0xffffffff90000000
#else
#define WORD 4
#define ARCHITECTURE "riscv32"
#define KERNEL_BASE 0xc0000000
#define PORTS 0xd0000000
#endif
#define RAM_START 0x40000000
#define LOAD_OFFSET (KERNEL_BASE - RAM_START)
/* Close behind the start of RAM, so that the probe window in front of it is in reach of a `jal`. */
#define TEXT_OFFSET 0x10000

/* pt_regs: epc, the general registers by number, then these. */
#define PT_STATUS (32 * WORD)
#define PT_ADDRESS (33 * WORD)
#define PT_CAUSE (34 * WORD)
#define PT_PERCPU (36 * WORD) /* gp of the kernel, while a program runs */
#define PT_REGS_SIZE (40 * WORD)

/* struct task */
#if __riscv_xlen == 64
#define TASK_STACK 104
#else
#define TASK_STACK 72
#endif

/* sstatus */
#define STATUS_SIE 0x2
#define STATUS_SPIE 0x20
#define STATUS_SPP 0x100
#define STATUS_SUM 0x40000 /* always set: the kernel accesses programs' memory */

/* Page-table entries. Accessed and dirty are always set, because not every CPU sets them. */
#define PTE_VALID 0x1
#define PTE_READ 0x2
#define PTE_WRITE 0x4
#define PTE_EXECUTE 0x8
#define PTE_USER 0x10
#define PTE_GLOBAL 0x20
#define PTE_USED 0xc0

#ifndef __ASSEMBLER__

#define PAGE_SIZE 4096UL
#include "types.h"

#define FLAGS_INTERRUPTS_ON STATUS_SIE
#define FLAGS_KERNEL (STATUS_SUM | STATUS_SPP | STATUS_SPIE)
#define FLAGS_USER(ip) (STATUS_SUM | STATUS_SPIE)

static inline void local_irq_enable(void) { asm volatile("csrsi sstatus, 2" ::: "memory"); }
static inline void local_irq_disable(void) { asm volatile("csrci sstatus, 2" ::: "memory"); }
static inline unsigned long local_irq_save(void)
{
	unsigned long flags;
	asm volatile("csrrci %0, sstatus, 2" : "=r"(flags)::"memory");
	return flags;
}
static inline void local_irq_restore(unsigned long flags)
{
	asm volatile("csrs sstatus, %0" ::"r"(flags & STATUS_SIE) : "memory");
}

/* Instructions that kernel and programs execute on purpose, both of 4 bytes: a breakpoint, and one that no CPU has. */
#define BREAKPOINT ".option push\n\t.option norvc\n\tebreak\n\t.option pop"
#define UNDEFINED ".4byte 0x0000006b"
#define CODE_STATE ""
#define RETURN "ret"
/* ftrace's place in Linux 6.12: two nops of 4 bytes. */
#define TRACER_NOP ".option push\n\t.option norvc\n\tnop\n\tnop\n\t.option pop"
#define TRAP_BYTES 4

#include "common.h"

typedef unsigned long pte_t;
#define PTE_ADDRESS (~0UL >> 10 << 10)
#define pte_page(pte) __va((pte) >> 10 << 12)
#define __pa(address) ((unsigned long)(address) - LOAD_OFFSET)
#define __va(physical) ((void *)((unsigned long)(physical) + LOAD_OFFSET))

/* In Linux's order, with a0 to a7 as r[]. */
struct pt_regs {
	unsigned long ip, ra, sp, gp, tp, t0[3], s0[2], r[8], s2[10], t3[4], flags, address, cause, first_argument, percpu, unused[3];
};
_Static_assert(__builtin_offsetof(struct pt_regs, flags) == PT_STATUS, "PT_STATUS");
_Static_assert(__builtin_offsetof(struct pt_regs, percpu) == PT_PERCPU, "PT_PERCPU");
static inline int user_mode(struct pt_regs *regs) { return !(regs->flags & STATUS_SPP); }
static inline int interrupts_were_on(struct pt_regs *regs) { return !!(regs->flags & STATUS_SPIE); }

/* The stack frame that __switch_to_asm restores for a new task. */
struct first_frame {
	unsigned long function, argument, s2[10], ip, unused[3];
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

/* tp holds the task while the kernel runs, and sscratch while a program does, as in Linux. */
static inline struct task *get_current(void)
{
	struct task *task;
	asm("mv %0, tp" : "=r"(task));
	return task;
}
#define current get_current()

/* Call with interrupts off. */
static inline struct percpu *this_cpu(void)
{
	struct percpu *area;
	asm volatile("mv %0, gp" : "=r"(area));
	return area;
}

static inline unsigned long syscall_argument(struct pt_regs *regs, int n) { return regs->r[n]; }
static inline unsigned long syscall_number(struct pt_regs *regs) { return regs->r[7]; }
static inline void syscall_result(struct pt_regs *regs, long result) { regs->r[0] = result; }

static inline long user_syscall(long number, long a, long b, long c)
{
	register long a7 asm("a7") = number, a0 asm("a0") = a, a1 asm("a1") = b, a2 asm("a2") = c;
	asm volatile("ecall" : "+r"(a0) : "r"(a7), "r"(a1), "r"(a2) : "memory");
	return a0;
}

/* `why` is scause. A system call continues behind its `ecall`. */
static inline enum trap trap_of(struct pt_regs *regs, unsigned long why)
{
	switch (why) {
	case 2:
		return TRAP_UNDEFINED;
	case 3:
		return TRAP_BREAKPOINT;
	case 8:
		regs->ip += 4;
		return TRAP_SYSTEM_CALL;
	case 12:
	case 13:
	case 15:
		return TRAP_PAGE_FAULT;
	}
	return TRAP_UNEXPECTED;
}

static inline void forget_vectors(void) { asm volatile("csrw stvec, zero" ::: "memory"); }

static inline u32 exchange(volatile u32 *place, u32 value)
{
	u32 old, failed;
	asm volatile("1: lr.w.aq %0, %2\n\tsc.w.rl %1, %3, %2\n\tbnez %1, 1b"
		     : "=&r"(old), "=&r"(failed), "+A"(*place) : "r"(value) : "memory");
	return old;
}

/* Flushes this CPU only. A program runs on one CPU at a time, and every change of the address space flushes all. */
static inline void flush_page(unsigned long address) { asm volatile("sfence.vma %0" ::"r"(address) : "memory"); }
/* Loads the root page table. */
static inline void load_pgd(unsigned long value)
{
#if __riscv_xlen == 64
	value = 8UL << 60 | value >> 12;
#else
	value = 1UL << 31 | value >> 12;
#endif
	asm volatile("csrw satp, %0\n\tsfence.vma" ::"r"(value) : "memory");
}

#define PAGE_PRESENT PTE_VALID
static inline pte_t page_entry(unsigned long physical, unsigned long rights, unsigned long more)
{
	return physical >> 12 << 10 | PTE_VALID | PTE_READ | PTE_USED | more | (rights & PAGE_WRITE ? PTE_WRITE : 0) |
	       (rights & PAGE_NX ? 0 : PTE_EXECUTE);
}
static inline pte_t kernel_pte(unsigned long physical, unsigned long rights) { return page_entry(physical, rights, PTE_GLOBAL); }
static inline pte_t user_pte(unsigned long physical, unsigned long rights) { return page_entry(physical, rights, PTE_USER); }

#if WORD == 8
#define LOAD_WORD "ld"
#define STORE_WORD "sd"
#else
#define LOAD_WORD "lw"
#define STORE_WORD "sw"
#endif

static inline void clear_page(void *page)
{
	void *end = (char *)page + PAGE_SIZE;
	asm volatile("1: " STORE_WORD " zero, 0(%0)\n\taddi %0, %0, %2\n\tbne %0, %1, 1b"
		     : "+r"(page) : "r"(end), "i"(WORD) : "memory");
}
static inline void copy_page(void *to, const void *from)
{
	const void *end = (const char *)from + PAGE_SIZE;
	unsigned long word;
	asm volatile("1: " LOAD_WORD " %2, 0(%1)\n\taddi %1, %1, %4\n\t" STORE_WORD " %2, 0(%0)\n\taddi %0, %0, %4\n\tbne %1, %3, 1b"
		     : "+r"(to), "+r"(from), "=&r"(word) : "r"(end), "i"(WORD) : "memory");
}

/* Copies until done or until a fault. Returns the number of bytes left. */
static inline usize copy_until_fault(void *to, const void *from, usize n)
{
	u32 byte;
	asm volatile("beqz %0, 3f\n"
		     "1:\tlbu %3, 0(%2)\n"
		     "2:\tsb %3, 0(%1)\n"
		     "\taddi %2, %2, 1\n"
		     "\taddi %1, %1, 1\n"
		     "\taddi %0, %0, -1\n"
		     "\tbnez %0, 1b\n"
		     "3:\n\t" EX_TABLE(1b, 3b) EX_TABLE(2b, 3b)
		     : "+r"(n), "+r"(to), "+r"(from), "=&r"(byte)::"memory");
	return n;
}

/* One byte, or -1 if the address cannot be read. */
static inline int load_byte(const char *from)
{
	int byte;
	asm volatile("1: lbu %0, %1\n\tj 3f\n2:\tli %0, -1\n3:\n\t" EX_TABLE(1b, 2b) : "=&r"(byte) : "m"(*from));
	return byte;
}

#endif
