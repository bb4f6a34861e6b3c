/* z/Architecture: saved registers (pt_regs), the CPU's own page at the bottom of memory, page-table words. */
#pragma once

#define WORD 8
#define ARCHITECTURE "s390x"
#define RAM_START 0
#ifdef __ASSEMBLER__
#define KERNEL_BASE 0x80000000 /* virtual = this + physical, in the home space */
#else
#define KERNEL_BASE 0x80000000UL
#endif
#define LOAD_OFFSET KERNEL_BASE
#define PORTS 0x89000000UL
#define PT_REGS_SIZE 160
/* The frame header: space for the callee's saved registers. */
#define FRAME_HEAD 160

/* The mask of the PSW. */
#define PSW_TRANSLATES 0x0400000000000000
#define PSW_LETS_IN 0x0100000000000000
#define PSW_WAITS 0x0002000000000000
#define PSW_PROBLEM 0x0001000000000000
#define PSW_HOME 0x0000c00000000000
#define PSW_WIDE 0x0000000180000000
#define PSW_KERNEL (PSW_TRANSLATES | PSW_HOME | PSW_WIDE)
/* The flags in the byte that SSM loads. */
#define MASK_OFF 0x04
#define MASK_ON 0x05

/* The lowcore: fields of the architecture, then fields of this kernel. Each CPU has its own at real address 0. */
#define LOW_PROGRAM_LENGTH 0x8c
#define LOW_PROGRAM_CODE 0x8e
#define LOW_FAULT 0xa8
#define LOW_EXTERNAL_OLD 0x130
#define LOW_CALL_OLD 0x140
#define LOW_PROGRAM_OLD 0x150
#define LOW_EXTERNAL_NEW 0x1b0
#define LOW_CALL_NEW 0x1c0
#define LOW_PROGRAM_NEW 0x1d0
#define LOW_SAVED 0x200	      /* r8 to r15, until there is a stack */
#define LOW_EXTERNAL_GOES 0x240 /* where each continues, with translation on */
#define LOW_CALL_GOES 0x250
#define LOW_PROGRAM_GOES 0x260
#define LOW_RETURN_GOES 0x270 /* with translation off again */
#define LOW_RETURN 0x280
#define LOW_REGISTERS 0x290
#define LOW_CURRENT 0x340
#define LOW_NOTHING 0x800
#define LOW_PERCPU 0x348

/* Control registers 13 and 1 point to a region table and a segment table of 512 entries each; entries point to the next level. */
#define REGIONS 0x4
#define REGION 0x4
#define ENTRY_INVALID 0x20
#define TABLE_ENTRIES 512
/* A page-table entry; the last bit is our own. */
#define PTE_INVALID 0x400
#define PTE_PROTECTED 0x200
#define PTE_PRESENT 1

#ifndef __ASSEMBLER__

#define PAGE_SIZE 4096UL
#include "types.h"

#define FLAGS_INTERRUPTS_ON MASK_ON
#define FLAGS_KERNEL (PSW_KERNEL | PSW_LETS_IN)
#define FLAGS_USER(ip) (PSW_TRANSLATES | PSW_LETS_IN | PSW_PROBLEM | PSW_WIDE)

static inline unsigned long local_irq_save(void)
{
	u8 mask;
	asm volatile("stnsm %0, 0xfc" : "=Q"(mask)::"memory");
	return mask;
}
static inline void local_irq_disable(void) { (void)local_irq_save(); }
void local_irq_restore(unsigned long flags); /* in entry.S */
static inline void local_irq_enable(void)
{
	u8 mask;
	asm volatile("stosm %0, 1" : "=Q"(mask)::"memory");
}

/* Instructions that kernel and programs execute on purpose. The first is Linux's probe breakpoint. */
#define BREAKPOINT ".short 0x0002"
#define UNDEFINED ".short 0x0001"
#define CODE_STATE ""
#define RETURN "br %r14"
#define TRACER_NOP "brcl 0, ."
#define TRAP_BYTES 2
/* A PSW that waits with interrupts enabled. The register that points to it is saved in unused memory. */
#define WAIT                                                                                                           \
	".pushsection .rodata\n\t.balign 8\n8:\t.quad 0x0506c00180000000, 9f\n\t.popsection\n"                               \
	"\tldgr 0, 1\n\tlarl 1, 8b\n\tlpswe 0(1)\n9:\tlgdr 1, 0"

#include "common.h"

typedef unsigned long pte_t;
#define PTE_ADDRESS 0xfffffffffffff000UL
#define PAGE_PRESENT PTE_PRESENT
#define __pa(address) ((unsigned long)(address) - LOAD_OFFSET)
#define __va(physical) ((void *)((unsigned long)(physical) + LOAD_OFFSET))

/* r[0] is the hardware's r2: the first argument, and the result. */
struct pt_regs {
	unsigned long r0, r1, r[13], sp, flags, ip, length, unused;
};
static inline int user_mode(struct pt_regs *regs) { return !!(regs->flags & PSW_PROBLEM); }
static inline int interrupts_were_on(struct pt_regs *regs) { return !!(regs->flags & PSW_LETS_IN); }

/* The stack frame that __switch_to_asm restores for a new task. */
struct first_frame {
	unsigned long head[6], function, argument, r8[6], ip, rest[5];
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

/* This is one instruction, so that an interrupt cannot split it, as in Linux. The lowcore is mapped at the start of the kernel. */
static inline struct task *get_current(void)
{
	struct task *task;
	asm volatile("lgrl %0, lowcore_current" : "=d"(task));
	return task;
}
#define current get_current()

/* Call with interrupts off. */
static inline struct percpu *this_cpu(void)
{
	struct percpu *area;
	asm volatile("lgrl %0, lowcore_percpu" : "=d"(area));
	return area;
}

static inline unsigned long syscall_argument(struct pt_regs *regs, int n) { return regs->r[n]; }
static inline unsigned long syscall_number(struct pt_regs *regs) { return regs->r1; }
static inline void syscall_result(struct pt_regs *regs, long result) { regs->r[0] = result; }

static inline long user_syscall(long number, long a, long b, long c)
{
	register long r1 asm("r1") = number, r2 asm("r2") = a, r3 asm("r3") = b, r4 asm("r4") = c;
	asm volatile("svc 0" : "+d"(r2) : "d"(r1), "d"(r3), "d"(r4) : "memory");
	return r2;
}

/* `why` is the number of the program interruption, or more than any for a system call. For most of them the PSW points behind the instruction; it is
   moved back to it. Programs' code is also mapped at its own address in the kernel's space. */
static inline enum trap trap_of(struct pt_regs *regs, unsigned long why)
{
	switch (why) {
	case 0x100:
		return TRAP_SYSTEM_CALL;
	case 0x04:
		regs->ip -= regs->length;
		return TRAP_PAGE_FAULT;
	case 0x10:
	case 0x11:
	case 0x38:
	case 0x39:
	case 0x3a:
	case 0x3b:
		return TRAP_PAGE_FAULT;
	}
	regs->ip -= regs->length;
	if (why == 1)
		return *(const u16 *)regs->ip == 0x0002 ? TRAP_BREAKPOINT : TRAP_UNDEFINED;
	return TRAP_UNEXPECTED;
}

static inline u32 exchange(volatile u32 *place, u32 value)
{
	u32 old = *place;
	asm volatile("1: cs %0, %2, %1\n\tjl 1b" : "+&d"(old), "+Q"(*place) : "d"(value) : "memory", "cc");
	return old;
}

/* Flushes this CPU's TLB. Other CPUs have no entry for a page that was not present. */
static inline void flush_page(unsigned long address)
{
	(void)address;
	asm volatile("ptlb" ::: "memory");
}

static inline pte_t user_pte(unsigned long physical, unsigned long rights)
{
	return physical | PTE_PRESENT | (rights & PAGE_WRITE ? 0 : PTE_PROTECTED);
}
static inline pte_t kernel_pte(unsigned long physical, unsigned long rights) { return user_pte(physical, rights); }

/* Points every new PSW at memory without code. */
static inline void forget_vectors(void)
{
	unsigned long *psw = __va(0x1a0);
	for (int i = 0; i < 12; i++)
		psw[i] = i & 1 ? LOW_NOTHING : 0;
}

extern pte_t no_segments[];
/* Loads the page-table base: the whole tree for the kernel, and the program's own segments for user space. */
static inline void load_pgd(unsigned long value)
{
	const pte_t *regions = __va(value);
	unsigned long home = value | REGIONS;
	unsigned long segments = regions[0] & ENTRY_INVALID ? __pa(no_segments) : regions[0] & PTE_ADDRESS;
	asm volatile("lctlg 13, 13, %0\n\tlctlg 1, 1, %1\n\tlctlg 7, 7, %1" ::"Q"(home), "Q"(segments) : "memory");
}

/* Both use MVCL, which interrupts can suspend. */
static inline void clear_page(void *page)
{
	register unsigned long to asm("r2") = (unsigned long)page, bytes asm("r3") = PAGE_SIZE, from asm("r4") = 0, filler asm("r5") = 0;
	asm volatile("mvcl %0, %2" : "+d"(to), "+d"(bytes), "+d"(from), "+d"(filler)::"memory", "cc");
}
static inline void copy_page(void *to, const void *from)
{
	register unsigned long there asm("r2") = (unsigned long)to, bytes asm("r3") = PAGE_SIZE;
	register unsigned long here asm("r4") = (unsigned long)from, as_many asm("r5") = PAGE_SIZE;
	asm volatile("mvcl %0, %2" : "+d"(there), "+d"(bytes), "+d"(here), "+d"(as_many)::"memory", "cc");
}

/* Copies until done or until a fault. Returns the number of bytes left. */
static inline usize copy_until_fault(void *to, const void *from, usize n)
{
	register unsigned long there asm("r2") = (unsigned long)to, bytes asm("r3") = n;
	register unsigned long here asm("r4") = (unsigned long)from, as_many asm("r5") = n;
	asm volatile("1:\tmvcle %0, %2, 0\n"
		     "\tjo 1b\n"
		     "3:\n\t" EX_TABLE(1b, 3b)
		     : "+d"(there), "+d"(bytes), "+d"(here), "+d"(as_many)::"memory", "cc");
	return bytes;
}

/* One byte, or -1 if the address cannot be read. */
static inline int load_byte(const char *from)
{
	long byte;
	asm volatile("1: llgc %0, 0(%1)\n\tj 3f\n2:\tlghi %0, -1\n3:\n\t" EX_TABLE(1b, 2b) : "=&d"(byte) : "a"(from), "m"(*from));
	return byte;
}

#endif
