/* 32-bit PowerPC with a hashed page table: saved registers (pt_regs), the per-CPU area behind r2, entries of the table. */
#pragma once

#define WORD 4
#define ARCHITECTURE "ppc"
#define RAM_START 0
/* A block register (BAT) maps the first 256 MiB of memory here. Text and data use this mapping. */
#define KERNEL_BASE 0xc0000000
#define LOAD_OFFSET KERNEL_BASE
#define PHYSICAL(address) ((address) & 0x0fffffff)
/* Constants are mapped through the hashed table, because only its entries can be read-only: in the next 256 MiB. */
#define CONSTANTS_OFFSET 0x10000000
#define PORTS 0xc9000000
/* An unmapped address. */
#define NOWHERE 0xd3000000
/* Exceptions enter at these addresses, by number, with translation off. */
#define VECTORS 0
#define VECTORS_END 0x1000
#define PT_REGS_SIZE 160
/* The frame header: back chain and LR. Stacks are aligned to 16 bytes. */
#define FRAME_HEAD 16

#define MSR_POW 0x40000
#define MSR_EE 0x8000
#define MSR_PR 0x4000
#define MSR_ME 0x1000
#define MSR_IR 0x20
#define MSR_DR 0x10
#define MSR_RI 0x2
#define MSR_KERNEL (MSR_ME | MSR_IR | MSR_DR | MSR_RI)

/* The table has 1024 groups of 8 entries. */
#define HASH_BYTES 0x10000
/* Numbers of address spaces: the kernel's, and an empty one. */
#define KERNEL_SPACE 1
#define NO_SPACE 2
/* Segment register: user accesses use the user key. */
#define SEGMENT_KEYS 0x20000000

/* A page in our own tables: the second word of a hashed entry, and a spare bit that means present. */
#define PTE_THERE 0x200
#define PTE_USED 0x180
/* Kernel and user may read and write; both may read. */
#define PTE_ALL 2
#define PTE_READ 3

#define PERCPU_SCRATCH (8 * WORD)

#ifndef __ASSEMBLER__

#define PAGE_SIZE 4096UL
#include "types.h"

#define FLAGS_INTERRUPTS_ON FLAGS_KERNEL
#define FLAGS_KERNEL (MSR_KERNEL | MSR_EE)
#define FLAGS_USER(ip) (FLAGS_KERNEL | MSR_PR)

static inline void set_interrupts(unsigned long flags) { asm volatile("mtmsr %0\n\tisync" ::"r"(flags) : "memory"); }
static inline void local_irq_enable(void) { set_interrupts(FLAGS_KERNEL); }
static inline void local_irq_disable(void) { set_interrupts(MSR_KERNEL); }
static inline unsigned long local_irq_save(void)
{
	unsigned long flags;
	asm volatile("mfmsr %0" : "=r"(flags)::"memory");
	local_irq_disable();
	return flags;
}
static inline void local_irq_restore(unsigned long flags) { set_interrupts(flags); }

/* Instructions that kernel and programs execute on purpose: breakpoints, invalid opcodes. */
#define BREAKPOINT "trap"
#define UNDEFINED ".long 0"
#define CODE_STATE ""
#define RETURN "blr"
#define TRACER_NOP "nop"
#define TRAP_BYTES 4
/* Dozes with interrupts off; keeps all registers. */
#define WAIT "mtsprg 3, 0\n\tlis 0, 4\n\tori 0, 0, 0x1032\n\tsync\n\tmtmsr 0\n\tisync\n\tmfsprg 0, 3"

#include "common.h"

typedef unsigned long pte_t;
#define __pa(address) PHYSICAL((unsigned long)(address))
#define __va(physical) ((void *)((unsigned long)(physical) + LOAD_OFFSET))

/* r[0] is the hardware's r3: the first argument, and the result. */
struct pt_regs {
	unsigned long r0, sp, r2, r[29], ip, flags, ctr, link, xer, ccr, unused[2];
};
static inline int user_mode(struct pt_regs *regs) { return !!(regs->flags & MSR_PR); }
static inline int interrupts_were_on(struct pt_regs *regs) { return !!(regs->flags & MSR_EE); }

/* The stack frame that __switch_to_asm restores for a new task, with the frame header of its first function. */
struct first_frame {
	unsigned long head[2], function, argument, r16[16], cr, rest[3], chain, ip, unused[2];
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
	unsigned long scratch[8];
} __attribute__((aligned(1024)));

extern struct percpu percpu_areas[];

/* One instruction, so that an interrupt cannot split it. */
static inline struct task *get_current(void)
{
	struct task *task;
	asm volatile("lwz %0, %1(2)" : "=r"(task) : "i"(__builtin_offsetof(struct percpu, current_task)));
	return task;
}
#define current get_current()

/* Call with interrupts off. */
static inline struct percpu *this_cpu(void)
{
	struct percpu *area;
	asm volatile("mr %0, 2" : "=r"(area));
	return area;
}

static inline unsigned long syscall_argument(struct pt_regs *regs, int n) { return regs->r[n]; }
static inline unsigned long syscall_number(struct pt_regs *regs) { return regs->r0; }
static inline void syscall_result(struct pt_regs *regs, long result) { regs->r[0] = result; }

static inline long user_syscall(long number, long a, long b, long c)
{
	register long r0 asm("r0") = number, r3 asm("r3") = a, r4 asm("r4") = b, r5 asm("r5") = c;
	asm volatile("sc" : "+r"(r3) : "r"(r0), "r"(r4), "r"(r5) : "memory");
	return r3;
}

/* `why` is the number of the vector. */
static inline enum trap trap_of(struct pt_regs *regs, unsigned long why)
{
	if (why == 0x300 || why == 0x400)
		return TRAP_PAGE_FAULT;
	if (why == 0x700)
		return regs->flags & 0x20000 ? TRAP_BREAKPOINT : TRAP_UNDEFINED;
	return why == 0xc00 ? TRAP_SYSTEM_CALL : TRAP_UNEXPECTED;
}

static inline u32 exchange(volatile u32 *place, u32 value)
{
	u32 old;
	asm volatile("1: lwarx %0, 0, %1\n\tstwcx. %2, 0, %1\n\tbne- 1b\n\tisync" : "=&r"(old) : "r"(place), "r"(value) : "memory", "cr0");
	return old;
}

/* Removes the page from the hashed table, for the current address space. */
void flush_page(unsigned long address);
/* Loads a program's segments; the number of its address space is behind its page-table entries. */
#define PTE_SPACE 1023
static inline void load_pgd(unsigned long value)
{
	unsigned long space = ((pte_t *)__va(value))[PTE_SPACE];
	asm volatile("isync\n\tmtsr 0, %0\n\tisync" ::"r"(space | SEGMENT_KEYS) : "memory");
}

#define PAGE_PRESENT PTE_THERE
#define pte_page(pte) __va((pte) & -PAGE_SIZE)
static inline pte_t user_pte(unsigned long physical, unsigned long rights)
{
	return physical | PTE_THERE | PTE_USED | (rights & PAGE_WRITE ? PTE_ALL : PTE_READ);
}

/* Points the vectors at memory without instructions. */
static inline void forget_vectors(void)
{
	volatile u32 *vectors = __va(VECTORS);
	for (unsigned long n = 0; n < VECTORS_END / 4; n++)
		vectors[n] = 0;
	asm volatile("sync\n\ticbi 0, %0\n\tisync" ::"r"(vectors + 0x700 / 4) : "memory");
}

static inline void clear_page(void *page)
{
	unsigned long at = (unsigned long)page - 4;
	asm volatile("mtctr %1\n1:\tstwu %2, 4(%0)\n\tbdnz 1b" : "+b"(at) : "r"(PAGE_SIZE / 4), "r"(0) : "memory", "ctr");
}
static inline void copy_page(void *to, const void *from)
{
	unsigned long word, at = (unsigned long)to - 4, source = (unsigned long)from - 4;
	asm volatile("mtctr %3\n1:\tlwzu %2, 4(%1)\n\tstwu %2, 4(%0)\n\tbdnz 1b"
		     : "+b"(at), "+b"(source), "=&r"(word) : "r"(PAGE_SIZE / 4) : "memory", "ctr");
}

/* Copies until done or until a fault. Returns the number of bytes left. */
static inline usize copy_until_fault(void *to, const void *from, usize n)
{
	u32 byte;
	asm volatile("cmpwi %0, 0\n"
		     "\tbeq 3f\n"
		     "1:\tlbz %3, 0(%2)\n"
		     "2:\tstb %3, 0(%1)\n"
		     "\taddi %2, %2, 1\n"
		     "\taddi %1, %1, 1\n"
		     "\taddic. %0, %0, -1\n"
		     "\tbne 1b\n"
		     "3:\n\t" EX_TABLE(1b, 3b) EX_TABLE(2b, 3b)
		     : "+b"(n), "+b"(to), "+b"(from), "=&r"(byte)::"memory", "cr0", "xer");
	return n;
}

/* One byte, or -1 if the address cannot be read. */
static inline int load_byte(const char *from)
{
	int byte;
	asm volatile("1: lbz %0, 0(%1)\n\tb 3f\n2:\tli %0, -1\n3:\n\t" EX_TABLE(1b, 2b) : "=&r"(byte) : "b"(from), "m"(*from));
	return byte;
}

#endif
