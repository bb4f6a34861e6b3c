/* What machines without ports have in common: the board `bare` in memory, traps, rights of pages. Included by each arch.h. */
#pragma once

#include "types.h"
#include "bare.h"

#define barrier() asm volatile("" ::: "memory")
static inline void cpu_relax(void) { asm volatile("nop" ::: "memory"); }

static inline void outb(u8 value, u16 port) { *(volatile u8 *)(PORTS + port) = value; }
static inline void outl(u32 value, u16 port) { *(volatile u32 *)(PORTS + port) = value; }
static inline u32 inl(u16 port) { return *(volatile u32 *)(PORTS + port); }

/* Virtual time in nanoseconds. Reading the lower half keeps the upper one, so nothing may come between. */
static inline u64 clock_ns(void)
{
	unsigned long flags = local_irq_save();
	u32 low = inl(PORT_TIME_LOW), high = inl(PORT_TIME_HIGH);
	local_irq_restore(flags);
	return (u64)high << 32 | low;
}

/* The place is an undefined instruction on purpose. */
#define WARN_HERE()                                                                                                    \
	asm volatile("1: " UNDEFINED "\n\t.pushsection __bug_table, \"a\"\n\t.balign 4\n\t.long " TABLE_SITE("1b") "\n\t.long 0\n\t" \
		     ".short %c0, 1\n\t.popsection" ::"i"(__LINE__))

/* Rights of a page. */
#define PAGE_WRITE 1UL
#define PAGE_NX 2UL

/* Waits for an interrupt, also for one that is not let in. */
#ifndef WAIT
#define WAIT "wfi"
#endif
#ifndef WAIT_FOR_INTERRUPT
#define WAIT_FOR_INTERRUPT() asm volatile(WAIT ::: "memory")
#endif

/* What a function may write in front of the stack pointer that it is entered with. */
#ifndef FRAME_HEAD
#define FRAME_HEAD 0
#endif

/* Where the function begins that a pointer leads to. */
#ifndef CODE_ADDRESS
#define CODE_ADDRESS(function) ((unsigned long)(function))
#endif

/* What else stands in the frames of a task that never ran, and its stack pointer. */
#ifndef FIRST_FRAME
#define FIRST_FRAME(frame) ((void)(frame))
#define STACK_POINTER(frame) ((unsigned long)(frame))
#endif

/* The instruction that has raised an exception. */
#ifndef FAULTING_IP
#define FAULTING_IP(regs) ((regs)->ip)
#endif

/* Traps, after entry.S has saved the registers. */
enum trap { TRAP_BREAKPOINT, TRAP_UNDEFINED, TRAP_PAGE_FAULT, TRAP_SYSTEM_CALL, TRAP_UNEXPECTED };
