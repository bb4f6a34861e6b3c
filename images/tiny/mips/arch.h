/* MIPS in 32 and 64 bits and both byte orders: saved registers (pt_regs), the per-CPU area behind gp, entries of the TLB. */
#pragma once

#ifdef __mips64
#define WORD 8
#define WORD_SHIFT 3
#define SIGN 0xffffffff00000000
#define STATUS_WIDE 0xe0 /* addresses of 64 bits, everywhere */
#else
#define WORD 4
#define WORD_SHIFT 2
#define SIGN 0
#define STATUS_WIDE 0
#endif
#if defined(__MIPSEB__) && defined(__mips64)
#define ARCHITECTURE "mips64"
#elif defined(__MIPSEB__)
#define ARCHITECTURE "mips"
#elif defined(__mips64)
#define ARCHITECTURE "mips64el"
#else
#define ARCHITECTURE "mipsel"
#endif
#define RAM_START 0
/* KSEG0 and KSEG1 map the low 512 MiB of memory directly. Text and data use this one. */
#define KERNEL_BASE (SIGN + 0x80000000)
#define LOAD_OFFSET KERNEL_BASE
#define PHYSICAL(address) ((address) & 0x1fffffff)
/* Constants are mapped through the TLB, because only TLB entries can be read-only: at this plus the physical address. */
#define MAPPED_BASE (SIGN + 0xc0000000)
#define CONSTANTS_OFFSET 0x40000000
#define PORTS (SIGN + 0xa9000000)
/* An unmapped address. */
#define NOWHERE (MAPPED_BASE + 0x3000000)

/* pt_regs: general registers by number, then these. */
#define PT_LO (32 * WORD)
#define PT_HI (33 * WORD)
#define PT_IP (34 * WORD)
#define PT_FLAGS (35 * WORD)
#define PT_CAUSE (36 * WORD)
#define PT_ADDRESS (37 * WORD)
#define PT_REGS_SIZE (38 * WORD)
/* o32 calls reserve stack space for four arguments. */
#ifdef __mips64
#define FRAME_HEAD 0
#else
#define FRAME_HEAD 16
#endif

#define STATUS_IE 1
#define STATUS_EXL 2
#define STATUS_USER 0x10
#define STATUS_BOARD 0x400 /* enables the board's interrupts */
#define STATUS_CU0 0x10000000
#define STATUS_KERNEL (STATUS_CU0 | STATUS_BOARD | STATUS_WIDE)

/* Page bits: valid, writable, global; cached. */
#define PTE_GLOBAL 1
#define PTE_VALID 2
#define PTE_DIRTY 4
#define PTE_CACHED 0x18
#define PTE_FRAME_SHIFT 6

#ifndef __ASSEMBLER__

#define PAGE_SIZE 4096UL
#include "types.h"

#define FLAGS_INTERRUPTS_ON STATUS_IE
#define FLAGS_KERNEL (STATUS_KERNEL | STATUS_IE)
#define FLAGS_USER(ip) (STATUS_BOARD | STATUS_WIDE | STATUS_USER | STATUS_EXL | STATUS_IE)

static inline void local_irq_enable(void) { asm volatile("ei\n\tehb" ::: "memory"); }
static inline void local_irq_disable(void) { asm volatile("di\n\tehb" ::: "memory"); }
static inline unsigned long local_irq_save(void)
{
	unsigned long flags;
	asm volatile("di %0\n\tehb" : "=r"(flags)::"memory");
	return flags;
}
static inline void local_irq_restore(unsigned long flags)
{
	if (flags & STATUS_IE)
		local_irq_enable();
	else
		local_irq_disable();
}

/* Instructions for a machine word. */
#ifdef __mips64
#define LOAD_WORD "ld"
#define STORE_WORD "sd"
#define ADD_WORD "daddiu"
#define READ_WORD "dmfc0"
#define WRITE_WORD "dmtc0"
#else
#define LOAD_WORD "lw"
#define STORE_WORD "sw"
#define ADD_WORD "addiu"
#define READ_WORD "mfc0"
#define WRITE_WORD "mtc0"
#endif

/* Instructions that kernel and programs execute on purpose; the second is invalid on every CPU. */
#define BREAKPOINT "break 1"
#define UNDEFINED ".word 0x7000003e"
#define CODE_STATE ""
#define RETURN "jr $31\n\tnop"
/* The prologue of an untraced function: saves the return address; the call of the tracer is a no-op. */
#define TRACER_NOP ".set push\n\t.set noat\n\t.set noreorder\n\tmove $1, $31\n\tnop\n\t.set pop"
#define TRAP_BYTES 4
#define WAIT "wait"

/* The faulting instruction may be in the delay slot of the instruction at ip. */
#define FAULTING_IP(regs) ((regs)->ip + ((s32)(regs)->cause < 0 ? 4 : 0))

#include "common.h"

typedef unsigned long pte_t;
#define PTE_ADDRESS 0x1ffff000UL
#define __pa(address) PHYSICAL((unsigned long)(address))
#define __va(physical) ((void *)((unsigned long)(physical) + LOAD_OFFSET))

/* r[0] is a0: the first argument. */
struct pt_regs {
	unsigned long zero, at, v0, v1, r[25], sp, fp, link, lo, hi, ip, flags, cause, address;
};
static inline int user_mode(struct pt_regs *regs) { return !!(regs->flags & STATUS_USER); }
static inline int interrupts_were_on(struct pt_regs *regs) { return !!(regs->flags & STATUS_IE); }

/* The stack frame that __switch_to_asm restores for a new task, with the frame header of its first function. */
struct first_frame {
	unsigned long function, argument, s2[6], fp, ip;
#if FRAME_HEAD
	unsigned long head[FRAME_HEAD / WORD];
#endif
};

struct percpu {
	struct percpu *self;
	struct task *current_task;
	unsigned long kernel_sp;
	unsigned long user_sp;
	struct task *idle;
	unsigned long active_pgd; /* the TLB refill uses it */
	unsigned long number;
	unsigned long ticks;
} __attribute__((aligned(1024)));

extern struct percpu percpu_areas[];

/* gp points to the word with the running task: one instruction, so that an interrupt cannot split it. */
static inline struct task *get_current(void)
{
	struct task *task;
	asm volatile(LOAD_WORD " %0, 0($28)" : "=r"(task));
	return task;
}
#define current get_current()

/* Call with interrupts off. */
static inline struct percpu *this_cpu(void)
{
	struct percpu *area;
	asm volatile(ADD_WORD " %0, $28, -%1" : "=r"(area) : "i"(__builtin_offsetof(struct percpu, current_task)));
	return area;
}

static inline unsigned long syscall_argument(struct pt_regs *regs, int n) { return regs->r[n]; }
static inline unsigned long syscall_number(struct pt_regs *regs) { return regs->v0; }
static inline void syscall_result(struct pt_regs *regs, long result) { regs->v0 = result; }

static inline long user_syscall(long number, long a, long b, long c)
{
	register long v0 asm("$2") = number, a0 asm("$4") = a, a1 asm("$5") = b, a2 asm("$6") = c;
	asm volatile("syscall" : "+r"(v0) : "r"(a0), "r"(a1), "r"(a2) : "memory");
	return v0;
}

/* `why` is the code of the exception. */
static inline enum trap trap_of(struct pt_regs *regs, unsigned long why)
{
	(void)regs;
	switch (why) {
	case 1 ... 5:
		return TRAP_PAGE_FAULT;
	case 8:
		return TRAP_SYSTEM_CALL;
	case 9:
		return TRAP_BREAKPOINT;
	case 10:
		return TRAP_UNDEFINED;
	}
	return TRAP_UNEXPECTED;
}

static inline u32 exchange(volatile u32 *place, u32 value)
{
	u32 old, stored;
	asm volatile(".set push\n\t.set noreorder\n"
		     "1:\tll %0, %2\n"
		     "\tmove %1, %3\n"
		     "\tsc %1, %2\n"
		     "\tbeqzl %1, 1b\n"
		     "\tnop\n"
		     "\tsync\n\t.set pop"
		     : "=&r"(old), "=&r"(stored), "+m"(*place) : "r"(value) : "memory");
	return old;
}

/* Registers of the system coprocessor, by their numbers. */
enum { INDEX = 0, ENTRY_LO0 = 2, ENTRY_LO1 = 3, ENTRY_HI = 10 };
#define ASID 0xffUL
static inline unsigned long read_system(const int number)
{
	unsigned long value;
	asm volatile(READ_WORD " %0, $%1" : "=r"(value) : "i"(number) : "memory");
	return value;
}
static inline void write_system(const int number, unsigned long value)
{
	asm volatile(WRITE_WORD " %0, $%1\n\tehb" ::"r"(value), "i"(number) : "memory");
}

/* An entry that matches no address: KSEG0 addresses do not use the TLB. */
static inline void empty_entry(unsigned long index)
{
	write_system(INDEX, index);
	write_system(ENTRY_LO0, 0);
	write_system(ENTRY_LO1, 0);
	write_system(ENTRY_HI, KERNEL_BASE + (index << 13));
	asm volatile("tlbwi\n\tehb" ::: "memory");
}

/* Flushes this CPU only: a program runs on one CPU at a time, and gets a new ASID on another. */
static inline void flush_page(unsigned long address)
{
	unsigned long flags = local_irq_save(), space = read_system(ENTRY_HI) & ASID, index;

	write_system(ENTRY_HI, (address & -(2 * PAGE_SIZE)) | space);
	asm volatile("tlbp\n\tehb" ::: "memory");
	index = read_system(INDEX);
	if ((s32)index >= 0)
		empty_entry(index);
	write_system(ENTRY_HI, space);
	local_irq_restore(flags);
}

void flush_all_pages(void);

/* Gives the current address space an ASID that was not used since the last full TLB flush. */
static inline void load_pgd(unsigned long value)
{
	unsigned long space = (read_system(ENTRY_HI) + 1) & ASID;

	(void)value;
	if (!space)
		flush_all_pages();
	write_system(ENTRY_HI, space);
}

#define PAGE_PRESENT PTE_VALID
#define pte_page(pte) __va((pte) >> PTE_FRAME_SHIFT << 12)
static inline pte_t user_pte(unsigned long physical, unsigned long rights)
{
	return physical >> 12 << PTE_FRAME_SHIFT | PTE_CACHED | PTE_VALID | (rights & PAGE_WRITE ? PTE_DIRTY : 0);
}

extern char no_vectors[];
static inline void forget_vectors(void) { asm volatile("mtc0 %0, $15, 1\n\tehb" ::"r"(no_vectors)); }

static inline void clear_page(void *page)
{
	char *end = (char *)page + PAGE_SIZE;
	asm volatile(".set push\n\t.set noreorder\n"
		     "1:\t" ADD_WORD " %0, %0, %2\n"
		     "\tbne %0, %1, 1b\n"
		     "\t" STORE_WORD " $0, -%2(%0)\n\t.set pop"
		     : "+r"(page) : "r"(end), "i"(WORD) : "memory");
}
static inline void copy_page(void *to, const void *from)
{
	const char *end = (const char *)from + PAGE_SIZE;
	unsigned long word;
	asm volatile(".set push\n\t.set noreorder\n"
		     "\t" LOAD_WORD " %2, 0(%1)\n"
		     "1:\t" ADD_WORD " %1, %1, %4\n"
		     "\t" STORE_WORD " %2, 0(%0)\n"
		     "\t" ADD_WORD " %0, %0, %4\n"
		     "\tbnel %1, %3, 1b\n"
		     "\t" LOAD_WORD " %2, 0(%1)\n\t.set pop"
		     : "+r"(to), "+r"(from), "=&r"(word) : "r"(end), "i"(WORD) : "memory");
}

/* Copies until done or until a fault, which may be in a delay slot. Returns the number of bytes left. */
static inline usize copy_until_fault(void *to, const void *from, usize n)
{
	u32 byte;
	asm volatile(".set push\n\t.set noreorder\n"
		     "\tbeqz %0, 4f\n"
		     "\tnop\n"
		     "1:\tlbu %3, 0(%2)\n"
		     "\t" ADD_WORD " %2, %2, 1\n"
		     "\t" ADD_WORD " %0, %0, -1\n"
		     "\t" ADD_WORD " %1, %1, 1\n"
		     "\tbnez %0, 1b\n"
		     "2:\tsb %3, -1(%1)\n"
		     "\tb 4f\n"
		     "\tnop\n"
		     "3:\t" ADD_WORD " %0, %0, 1\n"
		     "4:\n\t" EX_TABLE(1b, 4b) EX_TABLE(2b, 3b) ".set pop"
		     : "+r"(n), "+r"(to), "+r"(from), "=&r"(byte)::"memory");
	return n;
}

/* One byte, or -1 if the address cannot be read. */
static inline int load_byte(const char *from)
{
	int byte;
	asm volatile(".set push\n\t.set noreorder\n"
		     "\tb 2f\n"
		     "1:\tlbu %0, 0(%1)\n"
		     "3:\taddiu %0, $0, -1\n"
		     "2:\n\t" EX_TABLE(1b, 3b) ".set pop"
		     : "=&r"(byte) : "r"(from), "m"(*from));
	return byte;
}

#endif
