/* One CPU's tables (GDT, TSS, IDT), and the interface to the board `bare`. */
#include "board.h"
#include "tiny.h"

extern char boot_stacks[];

#ifdef __x86_64__

/* Null, 32-bit code, code, data, 32-bit user code, user data, user code: the order that SYSCALL and SYSRET need. */
#define GDT_FIXED                                                                                                      \
	0, 0x00cf9b000000ffff, 0x00af9b000000ffff, 0x00cf93000000ffff, 0x00cffb000000ffff, 0x00cff3000000ffff,         \
		0x00affb000000ffff

struct gate {
	u16 offset_low, selector;
	u8 ist, type;
	u16 offset_middle;
	u32 offset_high, zero;
};

#define MSR_STAR 0xc0000081
#define MSR_LSTAR 0xc0000082
#define MSR_SFMASK 0xc0000084

void entry_SYSCALL_64(void);
static u8 double_fault_stacks[MAX_CPUS][4096] __attribute__((aligned(16)));

static inline void wrmsr(u32 msr, u64 value) { asm volatile("wrmsr" ::"c"(msr), "a"((u32)value), "d"((u32)(value >> 32))); }

#else

/* Null, unused, code, data, user code, user data, per-CPU data. */
#define GDT_FIXED                                                                                                      \
	0, 0, 0x00cf9b000000ffff, 0x00cf93000000ffff, 0x00cffb000000ffff, 0x00cff3000000ffff,                                   \
		0x0040930000000000 | (PERCPU_SIZE - 1)

struct gate {
	u16 offset_low, selector;
	u8 ist, type;
	u16 offset_high;
};

void entry_INT80_32(void);

#endif

struct percpu percpu_areas[MAX_CPUS] = {
	{ .self = &percpu_areas[0], .current_task = &tasks[0], .idle = &tasks[0], .number = 0, .gdt = { GDT_FIXED } },
	{ .self = &percpu_areas[1], .current_task = &tasks[1], .idle = &tasks[1], .number = 1, .gdt = { GDT_FIXED } },
};
_Static_assert(sizeof(struct percpu) == PERCPU_SIZE, "PERCPU_SIZE");
_Static_assert(__builtin_offsetof(struct percpu, current_task) == PERCPU_CURRENT, "PERCPU_CURRENT");
_Static_assert(__builtin_offsetof(struct percpu, kernel_sp) == PERCPU_KERNEL_SP, "PERCPU_KERNEL_SP");
_Static_assert(__builtin_offsetof(struct percpu, user_sp) == PERCPU_USER_SP, "PERCPU_USER_SP");
_Static_assert(__builtin_offsetof(struct percpu, gdt) == PERCPU_GDT, "PERCPU_GDT");

static struct gate idt[256] __attribute__((aligned(16)));
volatile u32 secondary_may_start;

#define GATE_KERNEL 0x8e /* interrupt gate */
#define GATE_USER 0xee	 /* an interrupt gate that user mode may call */

void asm_divide_error(void);
void asm_debug(void);
void asm_int3(void);
void asm_invalid_op(void);
void asm_double_fault(void);
void asm_general_protection(void);
void asm_page_fault(void);
void asm_unexpected(void);
void asm_timer_interrupt(void);
void asm_reschedule_interrupt(void);

static __init void set_gate(int vector, void (*entry)(void), u8 type, u8 ist)
{
	unsigned long offset = (unsigned long)entry;
	struct gate *gate = &idt[vector];

	gate->offset_low = offset;
	gate->selector = KERNEL_CS;
	gate->ist = ist;
	gate->type = type;
#ifdef __x86_64__
	gate->offset_middle = offset >> 16;
	gate->offset_high = offset >> 32;
#else
	gate->offset_high = offset >> 16;
#endif
}

__init void trap_init(void)
{
	for (int vector = 0; vector < 32; vector++)
		set_gate(vector, asm_unexpected, GATE_KERNEL, 0);
	set_gate(0, asm_divide_error, GATE_KERNEL, 0);
	set_gate(1, asm_debug, GATE_KERNEL, 0);
	set_gate(3, asm_int3, GATE_USER, 0);
	set_gate(6, asm_invalid_op, GATE_KERNEL, 0);
	set_gate(13, asm_general_protection, GATE_KERNEL, 0);
	set_gate(14, asm_page_fault, GATE_KERNEL, 0);
	set_gate(VECTOR_TIMER, asm_timer_interrupt, GATE_KERNEL, 0);
	set_gate(VECTOR_RESCHEDULE, asm_reschedule_interrupt, GATE_KERNEL, 0);
#ifdef __x86_64__
	set_gate(8, asm_double_fault, GATE_KERNEL, 1);
#else
	set_gate(8, asm_double_fault, GATE_KERNEL, 0);
	set_gate(0x80, entry_INT80_32, GATE_USER, 0);
#endif
}

static void load_idt(void *table, u16 limit)
{
	struct {
		u16 limit;
		unsigned long base;
	} __attribute__((packed)) pointer = { limit, (unsigned long)table };
	asm volatile("lidt %0" ::"m"(pointer));
}

/* Loads this CPU's TSS, system call entry and interrupt table. */
void cpu_init(int cpu)
{
	struct percpu *area = &percpu_areas[cpu];
	unsigned long tss = (unsigned long)&area->tss;

	area->gdt[GDT_TSS] = 0x0000890000000000 | (sizeof(struct tss) - 1); /* an available TSS */
	area->gdt[GDT_TSS] |= (u64)(tss & 0xffffff) << 16 | (u64)(tss >> 24 & 0xff) << 56;
	area->tss.io_map = sizeof(struct tss);
	area->kernel_sp = (unsigned long)boot_stacks + (cpu + 1) * KERNEL_STACK_SIZE;
	area->active_pgd = kernel_pgd();
#ifdef __x86_64__
	area->gdt[GDT_TSS + 1] = tss >> 32;
	area->tss.ist[0] = (unsigned long)double_fault_stacks[cpu + 1];
	wrmsr(MSR_STAR, (u64)(USER_DS - 8) << 48 | (u64)KERNEL_CS << 32);
	wrmsr(MSR_LSTAR, (unsigned long)entry_SYSCALL_64);
	wrmsr(MSR_SFMASK, 0x700); /* interrupts, direction and trap flag off */
#else
	area->tss.ss0 = KERNEL_DS;
#endif
	asm volatile("ltr %w0" ::"r"(GDT_TSS * 8));
	load_idt(idt, sizeof(idt) - 1);
}

/* The second half of a context switch, on the new task's stack. No return probes: it returns in another task. */
struct task *__switch_to(struct task *prev, struct task *next)
{
	struct percpu *area = this_cpu();
	unsigned long top = next->stack + KERNEL_STACK_SIZE;

	area->current_task = next;
	area->kernel_sp = top;
#ifdef __x86_64__
	area->tss.sp[0] = top;
#else
	area->tss.sp0 = top;
#endif
	return prev;
}

noinstr void safe_halt(void) { asm volatile("sti\n\thlt" ::: "memory"); }

void console_write(const char *text)
{
	while (*text)
		outb(*text++, PORT_CONSOLE);
}

void timer_start(u32 nanoseconds) { outl(nanoseconds, PORT_TIMER_PERIOD); }
void send_reschedule(int cpu) { outl(1u << cpu, PORT_SEND_IPI); }

noinstr void power_off(int status)
{
	outb(status, PORT_POWER_OFF);
	for (;;)
		asm volatile("cli\n\thlt");
}

/* For tests of the machine: makes exceptions undeliverable. */
noinstr void triple_fault(void)
{
	load_idt(NULL, 0);
	asm volatile("ud2");
	__builtin_unreachable();
}
