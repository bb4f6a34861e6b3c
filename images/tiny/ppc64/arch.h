/* 64-bit PowerPC, in either byte order: saved registers (pt_regs), the per-CPU area behind r13, page-table words. */
#pragma once

#define WORD 8
#ifdef __LITTLE_ENDIAN__
#define ARCHITECTURE "ppc64le"
#else
#define ARCHITECTURE "ppc64"
#endif
#define RAM_START 0
#define KERNEL_BASE 0xc000000000000000 /* virtual = this + physical */
#define LOAD_OFFSET KERNEL_BASE
#define PORTS 0xc000000009000000
/* Exceptions enter at these addresses, by number, with translation on. */
#define VECTORS 0x4000
#define LOW_TEXT_END 0x6000
#define PT_REGS_SIZE 320
/* The frame header: back chain, CR, LR, TOC and space for arguments. */
#define FRAME_HEAD 112

#define MSR_SF 0x8000000000000000
#define MSR_HV 0x1000000000000000
#define MSR_EE 0x8000
#define MSR_PR 0x4000
#define MSR_ME 0x1000
#define MSR_IR 0x20
#define MSR_DR 0x10
#define MSR_RI 0x2
#ifdef __LITTLE_ENDIAN__
#define MSR_ORDER 1
#else
#define MSR_ORDER 0
#endif
#define MSR_KERNEL (MSR_SF | MSR_HV | MSR_ME | MSR_IR | MSR_DR | MSR_RI | MSR_ORDER)

#define SPR_PID 48
#define SPR_HSPRG0 304
#define SPR_HSRR0 314
#define SPR_HSRR1 315
#define SPR_LPCR 318
#define SPR_LPIDR 319
#define SPR_PTCR 464

/* Words of a partition table entry and of a process table entry; bits of a directory entry, whose next table has 512 entries. */
#define RADIX 0x8000000000000000
#define TREE_OF_52_BITS 0x40000000000000ad
#define DIRECTORY 0x8000000000000009
/* Page bits: valid, accessed, changed; privileged; access rights. */
#define PTE_PAGE 0xc000000000000184
#define PTE_KERNEL 8
#define PTE_WRITABLE 2
#define PTE_RUNS 1
#define PTE_DEVICE 0x20

/* The number of an empty address space. */
#define NO_SPACE 1

#define PERCPU_TOC PERCPU_USER_SP
#define PERCPU_SCRATCH (8 * WORD)

#ifndef __ASSEMBLER__

#define PAGE_SIZE 4096UL
#include "types.h"

#define FLAGS_INTERRUPTS_ON (MSR_EE | MSR_RI)
#define FLAGS_KERNEL (MSR_KERNEL | MSR_EE)
#define FLAGS_USER(ip) (FLAGS_KERNEL | MSR_PR)

static inline void set_interrupts(unsigned long flags) { asm volatile("mtmsrd %0, 1" ::"r"(flags) : "memory"); }
static inline void local_irq_enable(void) { set_interrupts(MSR_EE | MSR_RI); }
static inline void local_irq_disable(void) { set_interrupts(MSR_RI); }
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
#define WAIT "wait"

#if _CALL_ELF == 1
/* A function pointer is the address of a descriptor. */
#define CODE_ADDRESS(function) (*(const unsigned long *)(function))
#define FUNCTION_LABEL(name) ".pushsection .opd, \"aw\"\n" #name ": .quad ." #name ", .TOC.@tocbase, 0\n.popsection\n." #name ":\n"
#endif

#include "common.h"

typedef unsigned long pte_t;
#define PTE_ADDRESS 0x01fffffffffff000UL
#define __pa(address) ((unsigned long)(address) - LOAD_OFFSET)
#define __va(physical) ((void *)((unsigned long)(physical) + LOAD_OFFSET))

/* r[0] is the hardware's r3: the first argument, and the result. */
struct pt_regs {
	unsigned long r0, sp, r2, r[29], ip, flags, ctr, link, xer, ccr, unused[2];
};
static inline int user_mode(struct pt_regs *regs) { return !!(regs->flags & MSR_PR); }
static inline int interrupts_were_on(struct pt_regs *regs) { return !!(regs->flags & MSR_EE); }

/* The stack frame that __switch_to_asm restores for a new task, with the frame header of its first function. */
struct first_frame {
	unsigned long head[4], function, argument, r16[16];
	unsigned long chain, cr, ip, rest[11];
};

struct percpu {
	struct percpu *self;
	struct task *current_task;
	unsigned long kernel_sp;
	unsigned long toc;
	struct task *idle;
	unsigned long active_pgd;
	unsigned long number;
	unsigned long ticks;
	unsigned long scratch[8];
} __attribute__((aligned(1024)));

extern struct percpu percpu_areas[];

/* This is one instruction, so that an interrupt cannot split it, as in Linux. */
static inline struct task *get_current(void)
{
	struct task *task;
	asm volatile("ld %0, %1(13)" : "=r"(task) : "i"(__builtin_offsetof(struct percpu, current_task)));
	return task;
}
#define current get_current()

/* Call with interrupts off. */
static inline struct percpu *this_cpu(void)
{
	struct percpu *area;
	asm volatile("mr %0, 13" : "=r"(area));
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
	switch (why) {
	case 0x300:
	case 0x380:
	case 0x400:
	case 0x480:
		return TRAP_PAGE_FAULT;
	case 0x700:
		return regs->flags & 0x20000 ? TRAP_BREAKPOINT : TRAP_UNDEFINED;
	case 0xc00:
		return TRAP_SYSTEM_CALL;
	case 0xe40:
		return TRAP_UNDEFINED;
	}
	return TRAP_UNEXPECTED;
}

static inline u32 exchange(volatile u32 *place, u32 value)
{
	u32 old;
	asm volatile("1: lwarx %0, 0, %1\n\tstwcx. %2, 0, %1\n\tbne- 1b\n\tisync" : "=&r"(old) : "r"(place), "r"(value) : "memory", "cr0");
	return old;
}

/* Flushes the current address space; the kernel's number is 0. */
static inline void flush_page(unsigned long address)
{
	unsigned long space = 0;

	if (address < KERNEL_BASE)
		asm volatile("mfspr %0, %1" : "=r"(space) : "i"(SPR_PID));
	asm volatile("ptesync\n\ttlbie %0, %1, 0, 1, 1\n\teieio\n\ttlbsync\n\tptesync\n\tisync"
		     ::"r"(address & ~(PAGE_SIZE - 1)), "r"(space << 32) : "memory");
}

/* Words in the tables are big-endian, in both byte orders of the kernel. */
static inline pte_t table_word(unsigned long value) { return MSR_ORDER ? __builtin_bswap64(value) : value; }
#define PAGE_PRESENT table_word(1UL << 63)
#define pte_page(pte) __va(table_word(pte) & PTE_ADDRESS)
static inline pte_t any_pte(unsigned long physical, unsigned long rights, unsigned long whose)
{
	return table_word(physical | PTE_PAGE | whose | (rights & PAGE_WRITE ? PTE_WRITABLE : 0) | (rights & PAGE_NX ? 0 : PTE_RUNS));
}
static inline pte_t kernel_pte(unsigned long physical, unsigned long rights) { return any_pte(physical, rights, PTE_KERNEL); }
static inline pte_t user_pte(unsigned long physical, unsigned long rights) { return any_pte(physical, rights, 0); }

extern pte_t level4_kernel_pgt[];
static inline void forget_vectors(void)
{
	level4_kernel_pgt[VECTORS / PAGE_SIZE] = 0;
	flush_page(KERNEL_BASE + VECTORS);
}

/* The number of a program's address space is the index of its first table, plus 2. */
#define TABLE_ENTRIES 8192
#define FIRST_SPACE 2
extern pte_t program_tables[][TABLE_ENTRIES];
static inline unsigned long space_of(unsigned long pgd)
{
	return pgd ? (pgd - __pa(program_tables)) / sizeof(program_tables[0]) + FIRST_SPACE : NO_SPACE;
}
/* Loads the page-table base of user space. */
static inline void load_pgd(unsigned long value)
{
	asm volatile("isync\n\tmtspr %1, %0\n\tisync" ::"r"(space_of(value)), "i"(SPR_PID) : "memory");
}

static inline void clear_page(void *page)
{
	unsigned long at = (unsigned long)page - 8;
	asm volatile("mtctr %1\n1:\tstdu %2, 8(%0)\n\tbdnz 1b" : "+b"(at) : "r"(PAGE_SIZE / 8), "r"(0) : "memory", "ctr");
}
static inline void copy_page(void *to, const void *from)
{
	unsigned long word, at = (unsigned long)to - 8, source = (unsigned long)from - 8;
	asm volatile("mtctr %3\n1:\tldu %2, 8(%1)\n\tstdu %2, 8(%0)\n\tbdnz 1b"
		     : "+b"(at), "+b"(source), "=&r"(word) : "r"(PAGE_SIZE / 8) : "memory", "ctr");
}

/* Copies until done or until a fault. Returns the number of bytes left. */
static inline usize copy_until_fault(void *to, const void *from, usize n)
{
	u32 byte;
	asm volatile("cmpdi %0, 0\n"
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
