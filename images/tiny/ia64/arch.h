/* IA-64: saved registers (pt_regs), the per-CPU area in ar.k3, page-table words. A task's stack grows down from its top, and the
   backing store of its register stack grows up from the bottom. The text of all is compiled without gp, so a function pointer is an
   address. */
#pragma once

#define WORD 8
#define ARCHITECTURE "ia64"
#define RAM_START 0
/* Region 7: virtual = this + physical. A program is in region 0, whose identifier is its address space. */
#define KERNEL_BASE 0xe000000000000000
#define LOAD_OFFSET KERNEL_BASE
#define PORTS 0xe000000009000000
/* Data begins at a large page, so that few translation registers map all of the kernel. */
#define DATA_ALIGN 0x80000

/* pt_regs: the status, then general registers by number, then these. */
#define PT_FLAGS 0
#define PT_R(number) (WORD * (number))
#define PT_IP (32 * WORD)
#define PT_IFS (33 * WORD)
#define PT_PFS (34 * WORD)
#define PT_RSC (35 * WORD)
#define PT_UNAT (36 * WORD)
#define PT_SPILLED (37 * WORD)
#define PT_RNAT (38 * WORD)
#define PT_BSPSTORE (39 * WORD)
#define PT_LOADRS (40 * WORD)
#define PT_PR (41 * WORD)
#define PT_B(number) ((42 + (number)) * WORD)
#define PT_CCV (50 * WORD)
#define PT_LC (51 * WORD)
#define PT_NUMBER (52 * WORD)
#define PT_ADDRESS (53 * WORD)
#define PT_CAUSE (54 * WORD)
#define PT_ISR (55 * WORD)
#define PT_ARGUMENT (56 * WORD)
#define PT_F(number) ((58 + 2 * ((number) - 6)) * WORD)
#define PT_REGS_SIZE (72 * WORD)
/* Bytes above its entry stack pointer that a function may write. */
#define FRAME_HEAD 16
#define SWITCH_SIZE (18 * WORD)

#define PSR_I (1 << 14)
/* The bits of the kernel are IC, DT, RT, IT and BN. */
#define PSR_KERNEL 0x101008022000

/* Page-table words: present, accessed, dirty; privilege level 3; rights. */
#define PTE_PAGE 0x61
#define PTE_USER 0x180
#define PTE_READS 0x000
#define PTE_RUNS 0x200
#define PTE_WRITES 0x400
#define PTE_ALL 0x600
#define PTE_UNCACHED 0x10

/* Numbers of break instructions. */
#define BREAK_SYSCALL 0x100000
/* USER_BASE is in the table of this number. */
#define USER_TABLE 2
/* The bottom of a program's backing store, which is USER_STACK, and its register stack's configuration: level 3, eager. */
#define USER_BACKING 0x5f0000
#define USER_RSC 0xf

#ifndef __ASSEMBLER__

#define NOP "nop.m 0"
#define BARE_NUMBER "%0"
#define PAGE_SIZE 4096UL
#include "types.h"

#define FLAGS_INTERRUPTS_ON PSR_I
#define FLAGS_KERNEL (PSR_KERNEL | PSR_I)
#define FLAGS_USER(ip) (PSR_KERNEL | PSR_I | 3ul << 32)

static inline void local_irq_enable(void) { asm volatile("ssm psr.i\n\t;;\n\tsrlz.d" ::: "memory"); }
static inline void local_irq_disable(void) { asm volatile("rsm psr.i\n\t;;" ::: "memory"); }
static inline unsigned long local_irq_save(void)
{
	unsigned long flags;
	asm volatile("mov %0=psr\n\t;;\n\trsm psr.i\n\t;;" : "=r"(flags)::"memory");
	return flags;
}
static inline void local_irq_restore(unsigned long flags)
{
	if (flags & PSR_I)
		local_irq_enable();
	else
		local_irq_disable();
}

/* A breakpoint and an undefined instruction, which kernel and programs execute on purpose in slot 0 of a bundle. */
#define BREAKPOINT "{ .mii\n\tbreak.m 1\n\tnop.i 0\n\tnop.i 0\n\t}"
#define UNDEFINED ".balign 16\n\tdata8 0xc0000000000, 0x4000000000200"
#define CODE_STATE ".balign 16\n"
#define RETURN "br.ret.sptk.many b0"
/* The prologue of an untraced function: a bundle that does nothing. */
#define TRACER_NOP "{ .mii\n\tnop.m 0\n\tnop.i 0\n\tnop.i 0\n\t}"
#define TRAP_BYTES 16

/* There is no sleep instruction outside of the firmware: the board has one. */
#define WAIT_FOR_INTERRUPT() outl(0, PORT_SLEEP)

/* The address of the bundle. */
#define FAULTING_IP(regs) ((regs)->ip & ~15ul)

#define FIRST_FRAME(frame) first_backing(frame, current->mm ? task_pt_regs(current) : NULL)
#define STACK_POINTER(frame) ((unsigned long)(frame))

#include "common.h"

typedef unsigned long pte_t;
#define PTE_ADDRESS 0x0003fffffffff000UL
#define __pa(address) ((unsigned long)(address) - LOAD_OFFSET)
#define __va(physical) ((void *)((unsigned long)(physical) + LOAD_OFFSET))

/* r[0] is the argument of a new task. Programs get it in their first stacked register. */
struct pt_regs {
	unsigned long flags, r1, r2[6], result, r9[3], sp, r13[2], number, argument[3], r19[13];
	unsigned long ip, ifs, pfs, rsc, unat, spilled, rnat, bspstore, loadrs, pr, b[8], ccv, lc;
	unsigned long immediate, address, cause, isr, r[2], f[14];
};
static inline int user_mode(struct pt_regs *regs) { return !!(regs->flags >> 32 & 3); }
static inline int interrupts_were_on(struct pt_regs *regs) { return !!(regs->flags & PSR_I); }

/* The stack frame that __switch_to_asm restores for a new task, and the words above it that its first function may write. */
struct first_frame {
	unsigned long function, argument, r6[2], ip, b1[5], pfs, lc, pr, unat, spilled, bspstore, rnat, pad, head[2];
};

/* A new task's backing store begins with the registers of the program that forks, as the program was interrupted with. */
static inline void first_backing(struct first_frame *frame, struct pt_regs *regs)
{
	unsigned long base = (unsigned long)frame & -8192ul, bytes = 0;

	if (regs) {
		const unsigned long *from = (void *)((unsigned long)regs & -8192ul);
		bytes = regs->loadrs >> 16;
		asm volatile("flushrs\n\t;;" ::: "memory");
		for (unsigned long at = 0; at < bytes / 8; at++)
			((unsigned long *)base)[at] = from[at];
	}
	frame->bspstore = base + bytes;
}

struct percpu {
	struct percpu *self;
	struct task *current_task;
	unsigned long kernel_sp;
	unsigned long user_sp;
	struct task *idle;
	unsigned long active_pgd;
	unsigned long number;
	unsigned long ticks;
	unsigned long space;
} __attribute__((aligned(1024)));

extern struct percpu percpu_areas[];

static inline struct task *get_current(void)
{
	struct task *task;
	asm volatile("mov %0=ar.k6" : "=r"(task));
	return task;
}
#define current get_current()

/* Call with interrupts off. */
static inline struct percpu *this_cpu(void)
{
	struct percpu *area;
	asm volatile("mov %0=ar.k3" : "=r"(area));
	return area;
}

static inline unsigned long syscall_argument(struct pt_regs *regs, int n) { return regs->argument[n]; }
static inline unsigned long syscall_number(struct pt_regs *regs) { return regs->number; }
static inline void syscall_result(struct pt_regs *regs, long result) { regs->result = result; }

static inline long user_syscall(long number, long a, long b, long c)
{
	register long r15 asm("r15") = number, r16 asm("r16") = a, r17 asm("r17") = b, r18 asm("r18") = c, result asm("r8");
	asm volatile("{ .mii\n\tbreak.m 0x100000\n\tnop.i 0\n\tnop.i 0\n\t}" : "=r"(result) : "r"(r15), "r"(r16), "r"(r17), "r"(r18) : "memory");
	return result;
}

/* `why` is the offset of the vector. */
static inline enum trap trap_of(struct pt_regs *regs, unsigned long why)
{
	switch (why) {
	case 0x0c00:
	case 0x1000:
	case 0x2000:
	case 0x2400:
	case 0x2800:
	case 0x5000:
	case 0x5200:
	case 0x5300:
		return TRAP_PAGE_FAULT;
	case 0x2c00:
		if (regs->immediate != BREAK_SYSCALL)
			return TRAP_BREAKPOINT;
		regs->ip += TRAP_BYTES;
		return TRAP_SYSTEM_CALL;
	case 0x5400:
		return TRAP_UNDEFINED;
	}
	return TRAP_UNEXPECTED;
}

static inline u32 exchange(volatile u32 *place, u32 value)
{
	u32 old;
	asm volatile("xchg4 %0=[%1],%2" : "=r"(old) : "r"(place), "r"(value) : "memory");
	return old;
}

/* Flushes this CPU only: a program runs on one CPU at a time, and gets a new address space on another. */
static inline void flush_page(unsigned long address)
{
	if (address < KERNEL_BASE)
		asm volatile("ptc.l %0,%1\n\t;;\n\tsrlz.i\n\t;;" ::"r"(address), "r"(12 << 2) : "memory");
	else
		asm volatile("ptc.e %0\n\t;;\n\tsrlz.i\n\t;;" ::"r"(0) : "memory");
}

void load_pgd(unsigned long physical);

#define PAGE_PRESENT 1UL
/* Programs execute and read, or read and write; the kernel reads both, and writes. */
static inline pte_t user_pte(unsigned long physical, unsigned long rights)
{
	return physical | PTE_PAGE | PTE_USER | (rights & PAGE_WRITE ? PTE_WRITES : PTE_RUNS);
}

extern char no_vectors[];
static inline void forget_vectors(void) { asm volatile("mov cr.iva=%0\n\t;;\n\tsrlz.i\n\t;;" ::"r"(no_vectors)); }

static inline void clear_page(void *page)
{
	asm volatile("mov ar.lc=%1\n\t;;\n"
		     "1:\tst8 [%0]=r0,8\n"
		     "\tbr.cloop.sptk.few 1b\n\t;;"
		     : "+r"(page) : "r"(PAGE_SIZE / 8 - 1) : "memory", "ar.lc");
}
static inline void copy_page(void *to, const void *from)
{
	unsigned long word;
	asm volatile("mov ar.lc=%3\n\t;;\n"
		     "1:\tld8 %2=[%1],8\n\t;;\n"
		     "\tst8 [%0]=%2,8\n"
		     "\tbr.cloop.sptk.few 1b\n\t;;"
		     : "+r"(to), "+r"(from), "=&r"(word) : "r"(PAGE_SIZE / 8 - 1) : "memory", "ar.lc");
}

/* Copies until done or until a fault. Returns the number of bytes left. */
static inline usize copy_until_fault(void *to, const void *from, usize n)
{
	unsigned long byte;
	asm volatile("cmp.eq p6,p7=0,%0\n\t;;\n"
		     "\t(p6) br.cond.dpnt.few 3f\n\t;;\n"
		     "1:\tld1 %3=[%2],1\n\t;;\n"
		     "2:\tst1 [%1]=%3,1\n"
		     "\tadds %0=-1,%0\n\t;;\n"
		     "\tcmp.ne p6,p7=0,%0\n\t;;\n"
		     "\t(p6) br.cond.dptk.few 1b\n\t;;\n"
		     "3:\n\t" EX_TABLE(1b, 3b) EX_TABLE(2b, 3b)
		     : "+r"(n), "+r"(to), "+r"(from), "=&r"(byte)::"memory", "p6", "p7");
	return n;
}

/* One byte, or -1 if the address cannot be read. */
static inline int load_byte(const char *from)
{
	int byte;
	asm volatile("mov %0=-1\n\t;;\n"
		     "1:\tld1 %0=[%1]\n\t;;\n"
		     "2:\n\t" EX_TABLE(1b, 2b)
		     : "=&r"(byte) : "r"(from), "m"(*from));
	return byte;
}

#endif
