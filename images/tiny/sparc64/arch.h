/* SPARC V9: saved registers (pt_regs), the per-CPU area behind %g6, entries of the TLB. */
#pragma once

#define WORD 8
#define ARCHITECTURE "sparc64"
#define RAM_START 0
/* Text and data are mapped here by locked TLB entries of 4 MiB. All symbols have 32-bit addresses. */
#define KERNEL_BASE 0x80000000
#define LOAD_OFFSET KERNEL_BASE
#define PHYSICAL(address) ((address) & 0xffffff)
/* Constants are mapped by another entry, which is read-only. */
#define CONSTANTS_OFFSET 0x10000000
#define VECTORS 0x8000
#ifdef __ASSEMBLER__
#define PORTS 0xf0000000
#else
#define PORTS 0xf0000000ul
#endif
#define PORTS_PHYSICAL 0x09000000
/* An unmapped address. */
#ifndef __ASSEMBLER__
#define NOWHERE 0xa0000000ul
#endif
#define LINK_PAGE 8192
#define KERNEL_STACK_SIZE 16384

/* The stack bias. The 16 words above the unbiased stack pointer are the spill area of the window. */
#define BIAS 2047
#define FRAME 176

/* pt_regs: registers %g, %o, %l and %i, then these. */
#define PT_G 0
#define PT_O 64
#define PT_L 128
#define PT_I 192
#define PT_FLAGS 256
#define PT_IP 264
#define PT_NPC 272
#define PT_Y 280
#define PT_CAME_FROM 288
#define PT_REGS_SIZE 304

#define PSTATE_AG 1
#define PSTATE_IE 2
#define PSTATE_PRIV 4
#define PSTATE_PEF 0x10
#define PSTATE_MG 0x400
#define PSTATE_KERNEL (PSTATE_PRIV | PSTATE_PEF)
/* Bits of the saved state (TSTATE). */
#define TSTATE_PRIV (PSTATE_PRIV << 8)
#define TSTATE_IE (PSTATE_IE << 8)
#define WINDOWS 8

/* TLB entry bits: a valid page of 8 KiB or 4 MiB. One bit is our own: executable. */
#define TTE_VALID (1 << 63)
#define TTE_LARGE (3 << 61)
#define TTE_RUN (1 << 50)
#define TTE_LOCKED 0x40
#define TTE_CACHED 0x30
#define TTE_DEVICE 8
#define TTE_KERNEL 4
#define TTE_WRITE 2
#define TTE_GLOBAL 1

#define ASI_FETCH_MMU 0x50
#define ASI_FETCH_ENTRY 0x55
#define ASI_FETCH_DEMAP 0x57
#define ASI_DATA_MMU 0x58
#define ASI_DATA_ENTRY 0x5d
#define ASI_DATA_DEMAP 0x5f
#define ASI_LSU 0x45
#define MMU_PRIMARY 8
#define MMU_ACCESS 0x30
/* The TLB entries for programs, replaced in turn. */
#define FIRST_ENTRY 8
#define LAST_ENTRY 59

#ifndef __ASSEMBLER__

#define PAGE_SIZE 8192UL
#include "types.h"

#define FLAGS_INTERRUPTS_ON PSTATE_IE
#define FLAGS_KERNEL (TSTATE_PRIV | TSTATE_IE)
#define FLAGS_USER(ip) TSTATE_IE
/* A program starts with stack space for one register window. */
#define FRAME_HEAD (BIAS + FRAME)

static inline unsigned long local_irq_save(void)
{
	unsigned long flags;
	asm volatile("rdpr %%pstate, %0\n\twrpr %%g0, %1, %%pstate" : "=&r"(flags) : "i"(PSTATE_KERNEL) : "memory");
	return flags;
}
static inline void local_irq_enable(void) { asm volatile("wrpr %%g0, %0, %%pstate" ::"i"(PSTATE_KERNEL | PSTATE_IE) : "memory"); }
static inline void local_irq_disable(void) { asm volatile("wrpr %%g0, %0, %%pstate" ::"i"(PSTATE_KERNEL) : "memory"); }
static inline void local_irq_restore(unsigned long flags)
{
	asm volatile("wrpr %0, %1, %%pstate" ::"r"(flags & PSTATE_IE), "i"(PSTATE_KERNEL) : "memory");
}

/* Instructions that kernel and programs execute on purpose; the second is invalid on every CPU. */
#define BREAKPOINT "ta 1"
#define UNDEFINED ".word 0"
#define CODE_STATE ""
#define RETURN "retl\n\tnop"
/* The prologue of an untraced function: the call of the tracer is a no-op. */
#define TRACER_NOP "nop"
#define TRAP_BYTES 4
/* SPARC has no sleep instruction; a port of the board provides it. */
#define WAIT_FOR_INTERRUPT() outl(0, PORT_SLEEP)
#define FIRST_FRAME(frame) ((frame)->fp = (unsigned long)&(frame)->function - BIAS, (frame)->ip -= 8)
#define STACK_POINTER(frame) ((unsigned long)(frame) - BIAS)

#include "common.h"

typedef unsigned long pte_t;
#define __pa(address) PHYSICAL((unsigned long)(address))
#define __va(physical) ((void *)((unsigned long)(physical) + LOAD_OFFSET))

/* r[0] is %o0: the first argument. */
struct pt_regs {
	unsigned long zero, g[7], r[6], sp, link, l[8], i[8], flags, ip, npc, y, came_from, unused;
};
static inline int user_mode(struct pt_regs *regs) { return !(regs->flags & TSTATE_PRIV); }
static inline int interrupts_were_on(struct pt_regs *regs) { return !!(regs->flags & TSTATE_IE); }

/* The stack of a new task: the windows of __switch_to_asm and of ret_from_fork. */
struct first_frame {
	unsigned long l[8], i[6], fp, ip, room[6];
	unsigned long function, argument, next_l[6], next_i[8], next_room[6];
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
	unsigned long next_entry; /* of the TLB, to be written next */
} __attribute__((aligned(1024)));

extern struct percpu percpu_areas[];

/* One instruction, so that an interrupt cannot split it. */
static inline struct task *get_current(void)
{
	struct task *task;
	asm volatile("ldx [%%g6 + 8], %0" : "=r"(task));
	return task;
}
#define current get_current()

/* Call with interrupts off. */
static inline struct percpu *this_cpu(void)
{
	struct percpu *area;
	asm volatile("mov %%g6, %0" : "=r"(area));
	return area;
}

static inline unsigned long syscall_argument(struct pt_regs *regs, int n) { return regs->r[n]; }
static inline unsigned long syscall_number(struct pt_regs *regs) { return regs->g[0]; }
static inline void syscall_result(struct pt_regs *regs, long result) { regs->r[0] = result; }

static inline long user_syscall(long number, long a, long b, long c)
{
	register long g1 asm("g1") = number, o0 asm("o0") = a, o1 asm("o1") = b, o2 asm("o2") = c;
	asm volatile("ta 0x6d" : "+r"(o0) : "r"(g1), "r"(o1), "r"(o2) : "memory");
	return o0;
}

/* `why` is the number of the trap. */
static inline enum trap trap_of(struct pt_regs *regs, unsigned long why)
{
	(void)regs;
	switch (why) {
	case 0x08:
	case 0x30:
	case 0x34:
	case 0x64 ... 0x6f:
		return TRAP_PAGE_FAULT;
	case 0x16d:
		return TRAP_SYSTEM_CALL;
	case 0x101:
		return TRAP_BREAKPOINT;
	case 0x10:
		return TRAP_UNDEFINED;
	}
	return TRAP_UNEXPECTED;
}

static inline u32 exchange(volatile u32 *place, u32 value)
{
	asm volatile("swap %1, %0" : "+r"(value), "+m"(*place)::"memory");
	return value;
}

void flush_page(unsigned long address);
/* Loads the current address space, which the caller has recorded. */
void load_pgd(unsigned long physical);

#define PAGE_PRESENT (1ul << 63)
#define pte_page(pte) __va((pte) & 0xffe000)
static inline pte_t user_pte(unsigned long physical, unsigned long rights)
{
	return 1ul << 63 | physical | TTE_CACHED | (rights & PAGE_WRITE ? TTE_WRITE : 0) | (rights & PAGE_NX ? 0 : 1ul << 50);
}

extern char no_vectors[];
static inline void forget_vectors(void) { asm volatile("wrpr %0, %%tba" ::"r"(no_vectors)); }

static inline void clear_page(void *page)
{
	char *end = (char *)page + PAGE_SIZE;
	asm volatile("1:\tadd %0, 8, %0\n"
		     "\tcmp %0, %1\n"
		     "\tbne,pt %%xcc, 1b\n"
		     "\t stx %%g0, [%0 - 8]"
		     : "+r"(page) : "r"(end) : "memory", "cc");
}
static inline void copy_page(void *to, const void *from)
{
	const char *end = (const char *)from + PAGE_SIZE;
	unsigned long word;
	asm volatile("\tldx [%1], %2\n"
		     "1:\tadd %1, 8, %1\n"
		     "\tstx %2, [%0]\n"
		     "\tadd %0, 8, %0\n"
		     "\tcmp %1, %3\n"
		     "\tbne,a,pt %%xcc, 1b\n"
		     "\t ldx [%1], %2"
		     : "+r"(to), "+r"(from), "=&r"(word) : "r"(end) : "memory", "cc");
}

/* Copies until done or until a fault, which may be in a delay slot. Returns the number of bytes left. */
static inline usize copy_until_fault(void *to, const void *from, usize n)
{
	u32 byte;
	asm volatile("\tbrz,pn %0, 4f\n"
		     "\t nop\n"
		     "1:\tldub [%2], %3\n"
		     "\tadd %2, 1, %2\n"
		     "\tsub %0, 1, %0\n"
		     "\tadd %1, 1, %1\n"
		     "\tbrnz,pt %0, 1b\n"
		     "2:\t stb %3, [%1 - 1]\n"
		     "\tba,a,pt %%xcc, 4f\n"
		     "3:\tadd %0, 1, %0\n"
		     "4:\n\t" EX_TABLE(1b, 4b) EX_TABLE(2b, 3b)
		     : "+r"(n), "+r"(to), "+r"(from), "=&r"(byte)::"memory");
	return n;
}

/* One byte, or -1 if the address cannot be read. */
static inline int load_byte(const char *from)
{
	int byte;
	asm volatile("\tba,pt %%xcc, 2f\n"
		     "1:\t ldub [%1], %0\n"
		     "3:\tmov -1, %0\n"
		     "2:\n\t" EX_TABLE(1b, 3b)
		     : "=&r"(byte) : "r"(from), "m"(*from));
	return byte;
}

#endif
