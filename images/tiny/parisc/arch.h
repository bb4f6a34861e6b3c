/* PA-RISC 1.1: saved registers (pt_regs), the per-CPU area behind cr28, rights of pages. The stack grows upwards. */
#pragma once

#define WORD 4
#define ARCHITECTURE "parisc"
#define RAM_START 0
/* The kernel runs in space 0, at addresses that it has in every space. A program's space is in %sr3, and in %sr4 while it runs. */
#define KERNEL_BASE 0xc0000000
#define LOAD_OFFSET KERNEL_BASE
#define PHYSICAL(address) ((address) & 0x3fffffff)
#define PORTS 0xc9000000

/* pt_regs: general registers by number, then these. r0 has the PSW. */
#define PT_SAR (32 * WORD)
#define PT_IP (33 * WORD)
#define PT_NEXT_IP (34 * WORD)
#define PT_ENTERED_AT (35 * WORD)
#define PT_WORD (36 * WORD)
#define PT_ADDRESS (37 * WORD)
#define PT_CAUSE (38 * WORD)
#define PT_REGS_SIZE (48 * WORD)
/* The frame that a caller provides below its stack pointer. */
#define FRAME_HEAD 64

#define PSW_I 1
#define PSW_D 2
#define PSW_Q 8
#define PSW_C 0x40000
#define PSW_N 0x200000
#define PSW_USER 0x40000000 /* ours: the queue was at the lowest privilege */
#define PSW_KERNEL (PSW_Q | PSW_D | PSW_C)

/* Page-table entries: the page's address, present, dirty, and the rights of `idtlbp`. */
#define PTE_PRESENT 1
#define PTE_DIRTY 2
#define PTE_RIGHTS_SHIFT 2
/* Type, lower and upper privilege level. */
#define RIGHTS(type, read, write) ((type) << 4 | (read) << 2 | (write))

/* Control registers. */
#define CR_SAR 11
#define CR_IVA 14
#define CR_EIEM 15
#define CR_PCSQ 17
#define CR_PCOQ 18
#define CR_IIR 19
#define CR_ISR 20
#define CR_IOR 21
#define CR_IPSW 22
#define CR_EIRR 23
#define CR_SCRATCH 24
#define CR_PGD 25
#define CR_PERCPU 28
#define CR_SCRATCH2 29
#define CR_CURRENT 30

#define BREAK_TRAP 1
#define BREAK_SYSCALL 2

#ifndef __ASSEMBLER__

#define PAGE_SIZE 4096UL
#include "types.h"

#define FLAGS_INTERRUPTS_ON PSW_I
#define FLAGS_KERNEL (PSW_KERNEL | PSW_I)
#define FLAGS_USER(ip) (PSW_KERNEL | PSW_I | PSW_USER)

static inline void local_irq_enable(void) { asm volatile("ssm 1, %%r0" ::: "memory"); }
static inline void local_irq_disable(void) { asm volatile("rsm 1, %%r0" ::: "memory"); }
static inline unsigned long local_irq_save(void)
{
	unsigned long flags;
	asm volatile("rsm 1, %0" : "=r"(flags)::"memory");
	return flags;
}
static inline void local_irq_restore(unsigned long flags)
{
	if (flags & PSW_I)
		local_irq_enable();
	else
		local_irq_disable();
}

/* Instructions that kernel and programs execute on purpose; the second is none. */
#define BREAKPOINT "break 1, 0"
#define UNDEFINED ".word 0xfc000000"
#define CODE_STATE ""
#define RETURN "bv,n %r0(%rp)"
/* The prologue of an untraced function: the call of the tracer is a no-op. */
#define TRACER_NOP "nop"
#define TRAP_BYTES 4

/* There is no sleep instruction: the board has one. */
#define WAIT_FOR_INTERRUPT() outl(0, PORT_SLEEP)

#define KERNEL_SP(stack) (stack)
#define BOOT_SP(cpu) ((unsigned long)boot_stacks + (cpu) * KERNEL_STACK_SIZE)
#define STACK_OF(sp) (sp)
#define BASE_REGS(sp) ((struct pt_regs *)(sp))
#define ABOVE_REGS(regs) ((struct first_frame *)((char *)((regs) + 1) + FRAME_HEAD))
#define FIRST_FRAME(frame) ((void)(frame))
#define STACK_POINTER(frame) ((unsigned long)((frame) + 1))
#define USER_SP(end) ((end) * 0 + USER_STACK + FRAME_HEAD)

#include "common.h"

typedef unsigned long pte_t;
#define PTE_ADDRESS 0xfffff000UL
#define __pa(address) PHYSICAL((unsigned long)(address))
#define __va(physical) ((void *)((unsigned long)(physical) + LOAD_OFFSET))

/* r[0] is r26: the first argument. The registers of the others have lower numbers; r[1] is r27. */
struct pt_regs {
	unsigned long flags, r1, link, r3[20], arg3, arg2, arg1, r[2], ret0, ret1, sp, r31, sar, ip, next_ip, entered_at, word,
		address, cause, pad[9];
};
static inline int user_mode(struct pt_regs *regs) { return !!(regs->flags & PSW_USER); }
static inline int interrupts_were_on(struct pt_regs *regs) { return !!(regs->flags & PSW_I); }

/* The stack frame that __switch_to_asm restores for a new task. */
struct first_frame {
	unsigned long function, argument, s5[14], ip, pad[15];
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
	unsigned long space;
	/* The values that an exception saves before it can use the stack: PSW, queue, word, address, cause. */
	unsigned long saved[8];
} __attribute__((aligned(1024)));

extern struct percpu percpu_areas[];

static inline struct task *get_current(void)
{
	struct task *task;
	asm volatile("mfctl %%cr30, %0" : "=r"(task));
	return task;
}
#define current get_current()

/* Call with interrupts off. */
static inline struct percpu *this_cpu(void)
{
	struct percpu *area;
	asm volatile("mfctl %%cr28, %0" : "=r"(area));
	return area;
}

static inline unsigned long syscall_argument(struct pt_regs *regs, int n) { return n == 0 ? regs->r[0] : n == 1 ? regs->arg1 : regs->arg2; }
static inline unsigned long syscall_number(struct pt_regs *regs) { return regs->r3[17]; }
static inline void syscall_result(struct pt_regs *regs, long result) { regs->ret0 = result; }

static inline long user_syscall(long number, long a, long b, long c)
{
	register long r20 asm("r20") = number, a0 asm("r26") = a, a1 asm("r25") = b, a2 asm("r24") = c, result asm("r28");
	asm volatile("break 2, 0" : "=r"(result) : "r"(r20), "r"(a0), "r"(a1), "r"(a2) : "memory");
	return result;
}

/* `why` is the number of the interruption. */
static inline enum trap trap_of(struct pt_regs *regs, unsigned long why)
{
	switch (why) {
	case 6:
	case 7:
	case 15 ... 20:
	case 26 ... 28:
		return TRAP_PAGE_FAULT;
	case 8:
		return TRAP_UNDEFINED;
	case 9:
		if (regs->word == BREAK_SYSCALL) {
			regs->ip += 4;
			return TRAP_SYSTEM_CALL;
		}
		return TRAP_BREAKPOINT;
	}
	return TRAP_UNEXPECTED;
}

/* The only atomic instruction reads a word and clears it: 1 is a free lock. */
struct atomic_lock {
	volatile u32 is_free;
} __attribute__((aligned(16)));
extern struct atomic_lock atomic_lock;

static inline unsigned long atomic_begin(void)
{
	unsigned long flags = local_irq_save();
	u32 was_free;
	do
		asm volatile("ldcw 0(%1), %0" : "=r"(was_free) : "r"(&atomic_lock.is_free) : "memory");
	while (!was_free);
	return flags;
}
static inline void atomic_end(unsigned long flags)
{
	barrier();
	atomic_lock.is_free = 1;
	local_irq_restore(flags);
}

/* For locks: a value that is there stays, as the holder may be about to clear it. */
static inline u32 exchange(volatile u32 *place, u32 value)
{
	unsigned long flags = atomic_begin();
	u32 old = *place;
	if (!old)
		*place = value;
	atomic_end(flags);
	return old;
}

void flush_page(unsigned long address);
void load_pgd(unsigned long physical);

#define PAGE_PRESENT PTE_PRESENT
/* Programs execute and read, or read and write; the kernel reads both, and writes. */
static inline pte_t user_pte(unsigned long physical, unsigned long rights)
{
	unsigned long kind = rights & PAGE_WRITE ? RIGHTS(1, 3, 3) : RIGHTS(2, 3, 3);
	return physical | PTE_PRESENT | PTE_DIRTY | kind << PTE_RIGHTS_SHIFT;
}

extern char no_vectors[];
static inline void forget_vectors(void) { asm volatile("mtctl %0, %%cr14" ::"r"(__pa(no_vectors))); }

static inline void clear_page(void *page)
{
	char *end = (char *)page + PAGE_SIZE;
	asm volatile("1:\tstwm %%r0, 4(%0)\n"
		     "\tcmpb,<<,n %0, %1, 1b\n"
		     "\tnop"
		     : "+r"(page) : "r"(end) : "memory");
}
static inline void copy_page(void *to, const void *from)
{
	const char *end = (const char *)from + PAGE_SIZE;
	unsigned long word;
	asm volatile("\tldwm 4(%1), %2\n"
		     "1:\tstwm %2, 4(%0)\n"
		     "\tcmpb,<>,n %1, %3, 1b\n"
		     "\tldwm 4(%1), %2"
		     : "+r"(to), "+r"(from), "=&r"(word) : "r"(end) : "memory");
}

/* The program's space is in %sr3, in which the kernel is too. */

/* Copies until done or until a fault, which may be in a delay slot. Returns the number of bytes left. */
static inline usize copy_until_fault(void *to, const void *from, usize n)
{
	u32 byte;
	asm volatile("\tcmpb,=,n %%r0, %0, 4f\n"
		     "1:\tldb 0(%%sr3, %2), %3\n"
		     "\tldo 1(%2), %2\n"
		     "\tldo 1(%1), %1\n"
		     "\taddib,<> -1, %0, 1b\n"
		     "2:\tstb %3, -1(%%sr3, %1)\n"
		     "\tb,n 4f\n"
		     "3:\tldo 1(%0), %0\n"
		     "4:\n\t" EX_TABLE(1b, 4b) EX_TABLE(2b, 3b)
		     : "+r"(n), "+r"(to), "+r"(from), "=&r"(byte)::"memory");
	return n;
}

/* One byte, or -1 if the address cannot be read. */
static inline int load_byte(const char *from)
{
	int byte;
	asm volatile("\tb 2f\n"
		     "1:\tldb 0(%%sr3, %1), %0\n"
		     "3:\tldi -1, %0\n"
		     "2:\n\t" EX_TABLE(1b, 3b)
		     : "=&r"(byte) : "r"(from), "m"(*from));
	return byte;
}

#endif
