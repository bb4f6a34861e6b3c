/* Common to architectures without I/O ports: the memory-mapped board `bare`, traps, page rights. Included by arch.h. */
#pragma once

#include "types.h"
#include "bare.h"

/* An instruction that does nothing. */
#ifndef NOP
#define NOP "nop"
#endif

#define barrier() asm volatile("" ::: "memory")
static inline void cpu_relax(void) { asm volatile(NOP ::: "memory"); }

static inline void outb(u8 value, u16 port) { *(volatile u8 *)(PORTS + port) = value; }
static inline void outl(u32 value, u16 port) { *(volatile u32 *)(PORTS + port) = value; }
static inline u32 inl(u16 port) { return *(volatile u32 *)(PORTS + port); }

/* Virtual time in nanoseconds. Reading the low half latches the high half, so the two reads must not be split. */
static inline u64 clock_ns(void)
{
	unsigned long flags = local_irq_save();
	u32 low = inl(PORT_TIME_LOW), high = inl(PORT_TIME_HIGH);
	local_irq_restore(flags);
	return (u64)high << 32 | low;
}

/* A constant operand in assembly, as a number without decoration. */
#ifndef BARE_NUMBER
#define BARE_NUMBER "%c0"
#endif

/* Marks a deliberate undefined instruction. */
#define WARN_HERE()                                                                                                    \
	asm volatile("1: " UNDEFINED "\n\t.pushsection __bug_table, \"a\"\n\t.balign 4\n\t.long " TABLE_SITE("1b") "\n\t.long 0\n\t" \
		     ".short " BARE_NUMBER ", 1\n\t.popsection" ::"i"(__LINE__))

/* Access rights of a page. */
#define PAGE_WRITE 1UL
#define PAGE_NX 2UL

/* Waits for an interrupt, masked or not. */
#ifndef WAIT
#define WAIT "wfi"
#endif
#ifndef WAIT_FOR_INTERRUPT
#define WAIT_FOR_INTERRUPT() asm volatile(WAIT ::: "memory")
#endif

/* The space above its entry stack pointer that a function may write. */
#ifndef FRAME_HEAD
#define FRAME_HEAD 0
#endif

/* The stack pointer of an empty kernel stack. */
#ifndef KERNEL_SP
#define KERNEL_SP(stack) ((stack) + KERNEL_STACK_SIZE)
#define BOOT_SP(cpu) ((unsigned long)boot_stacks + (cpu + 1) * KERNEL_STACK_SIZE)
#endif

/* The saved registers of a program, at the base of its task's stack, and the frame above them. */
#ifndef BASE_REGS
#define BASE_REGS(sp) ((struct pt_regs *)(sp) - 1)
#define ABOVE_REGS(regs) ((struct first_frame *)(regs) - 1)
#endif

/* A program's first stack pointer, from the end of its stack. */
#ifndef USER_SP
#define USER_SP(end) ((end) - FRAME_HEAD)
#endif

/* The first instruction of a function, from a function pointer. */
#ifndef CODE_ADDRESS
#define CODE_ADDRESS(function) ((unsigned long)(function))
#endif

/* Initializes the rest of a new task's frames, and its stack pointer. */
#ifndef FIRST_FRAME
#define FIRST_FRAME(frame) ((void)(frame))
#define STACK_POINTER(frame) ((unsigned long)(frame))
#endif

/* The address of the instruction that raised the exception. */
#ifndef FAULTING_IP
#define FAULTING_IP(regs) ((regs)->ip)
#endif

/* Trap handlers, called when entry.S has saved the registers. */
enum trap { TRAP_BREAKPOINT, TRAP_UNDEFINED, TRAP_PAGE_FAULT, TRAP_SYSTEM_CALL, TRAP_UNEXPECTED };
