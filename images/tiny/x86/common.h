/* Common to i386 and x86_64: ports, flags, traps. Included by arch.h. */
#pragma once

#include "types.h"
#include "bare.h"

#define barrier() asm volatile("" ::: "memory")

static inline void outb(u8 value, u16 port) { asm volatile("outb %0, %1" ::"a"(value), "Nd"(port)); }
static inline void outl(u32 value, u16 port) { asm volatile("outl %0, %1" ::"a"(value), "Nd"(port)); }
static inline u32 inl(u16 port)
{
	u32 value;
	asm volatile("inl %1, %0" : "=a"(value) : "Nd"(port));
	return value;
}

static inline void cpu_relax(void) { asm volatile("pause" ::: "memory"); }
static inline void local_irq_enable(void) { asm volatile("sti" ::: "memory"); }
static inline void local_irq_disable(void) { asm volatile("cli" ::: "memory"); }
static inline unsigned long local_irq_save(void)
{
	unsigned long flags;
	asm volatile("pushf\n\tpop %0\n\tcli" : "=r"(flags)::"memory");
	return flags;
}
static inline void local_irq_restore(unsigned long flags) { asm volatile("push %0\n\tpopf" ::"r"(flags) : "memory", "cc"); }

static inline u32 exchange(volatile u32 *place, u32 value)
{
	asm volatile("xchgl %0, %1" : "+r"(value), "+m"(*place)::"memory");
	return value;
}

/* Virtual time in nanoseconds, which the time-stamp counter shows. */
static inline u64 clock_ns(void)
{
	u32 low, high;
	asm volatile("rdtsc" : "=a"(low), "=d"(high));
	return (u64)high << 32 | low;
}

static inline unsigned long read_cr2(void)
{
	unsigned long value;
	asm volatile("mov %%cr2, %0" : "=r"(value));
	return value;
}
/* Loads the page-table base. */
static inline void load_pgd(unsigned long value) { asm volatile("mov %0, %%cr3" ::"r"(value) : "memory"); }
static inline void flush_page(unsigned long address) { asm volatile("invlpg (%0)" ::"r"(address) : "memory"); }

/* Uses string instructions, which interrupts can suspend between iterations. */
static inline void clear_page(void *page)
{
	unsigned long words = PAGE_SIZE / sizeof(long);
	asm volatile("rep stos %%" AX_REGISTER ", (%0)" : "+D"(page), "+c"(words) : "a"(0L) : "memory");
}
static inline void copy_page(void *to, const void *from)
{
	unsigned long words = PAGE_SIZE / sizeof(long);
	asm volatile("rep movs" WORD_SUFFIX : "+D"(to), "+S"(from), "+c"(words)::"memory");
}

#define WARN_HERE()                                                                                                    \
	asm volatile("1: ud2\n\t.pushsection __bug_table, \"a\"\n\t.balign 4\n\t.long 1b - .\n\t.long 0\n\t"           \
		     ".word %c0, 1\n\t.popsection" ::"i"(__LINE__))

/* Copies until done or until a fault. Returns the number of bytes left. */
static inline usize copy_until_fault(void *to, const void *from, usize n)
{
	asm volatile("1: rep movsb\n2:\n\t" EX_TABLE(1b, 2b) : "+c"(n), "+D"(to), "+S"(from)::"memory");
	return n;
}

/* One byte, or -1 if the address cannot be read. */
static inline int load_byte(const char *from)
{
	int byte;
	asm volatile("1: movzbl %1, %0\n\tjmp 3f\n2:\tmovl $-1, %0\n3:\n\t" EX_TABLE(1b, 2b) : "=r"(byte) : "m"(*from));
	return byte;
}

#define X86_EFLAGS_IF 0x200
#define FLAGS_INTERRUPTS_ON (X86_EFLAGS_IF | 2)
#define PAGE_PRESENT 0x01UL
#define PAGE_WRITE 0x02UL
#define PAGE_USER 0x04UL
#define PAGE_ACCESSED 0x20UL
#define PAGE_DIRTY 0x40UL
#define PAGE_LARGE 0x80UL
#define PAGE_COMMON (PAGE_PRESENT | PAGE_ACCESSED | PAGE_DIRTY)
#define user_pte(physical, rights) ((physical) | PAGE_COMMON | PAGE_USER | (rights))

/* Instructions that kernel and programs execute on purpose: breakpoints, invalid opcodes. */
#define NOP "nop"
#define BREAKPOINT "int3"
#define UNDEFINED "ud2"
#define CODE_STATE ""
#define RETURN "ret"
#define TRACER_NOP ".byte 0x0f, 0x1f, 0x44, 0x00, 0x00"
