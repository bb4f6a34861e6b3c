/* Boot code: from the machine's entry (S mode, no translation) to C at kernel addresses. */
#include "arch.h"
#include "bare.h"
#include "offsets.h"
#include "asm.h"

	.globl current_task, __task_pid_offset, __task_comm_offset
	.set current_task, PERCPU_CURRENT
	.set __task_pid_offset, TASK_PID
	.set __task_comm_offset, TASK_COMM

#define PORTS_PHYSICAL 0x09000000
#define BOOT_INFO (RAM_START + 0x1000)

#define PAGE (PTE_VALID | PTE_READ | PTE_WRITE | PTE_EXECUTE | PTE_GLOBAL | PTE_USED)
#define DATA (PTE_VALID | PTE_READ | PTE_WRITE | PTE_GLOBAL | PTE_USED)
/* An entry for a physical address. */
#define ENTRY(physical) ((physical) >> 2)

#if __riscv_xlen == 64
#define ROOT_INDEX(address) ((address) >> 30 & 511)
#define SATP_MODE (8 << 60)
#define ENTRIES 512
#else
#define ROOT_INDEX(address) ((address) >> 22 & 1023)
#define SATP_MODE (1 << 31)
#define ENTRIES 1024
#endif

	/* Writes the entry `index` of a table, which points to the next table. Uses t0 and t1. */
	.macro link_table table index next
	lla t0, \next
	srli t0, t0, 2
	addi t0, t0, PTE_VALID
	lla t1, \table
	li t2, (\index) * WORD
	add t1, t1, t2
	REG_S t0, 0(t1)
	.endm

	.section .head.text, "ax"
	.globl _head
	.type _head, @function
_head: /* runs at physical addresses until the jump */
#if __riscv_xlen == 64
	link_table swapper_pg_dir, ROOT_INDEX(KERNEL_BASE), middle_table
	link_table middle_table, (KERNEL_BASE >> 21 & 511), kernel_pages
#else
	link_table swapper_pg_dir, ROOT_INDEX(KERNEL_BASE), kernel_pages
#endif
	li t0, PORTS_PHYSICAL
	lw s1, PORT_CPU_NUMBER(t0)
	lla t0, swapper_pg_dir
	srli t0, t0, 12
	li t1, SATP_MODE
	or t0, t0, t1
	lla t1, .Lmapped
	li t2, LOAD_OFFSET
	add t1, t1, t2
	sfence.vma
	csrw satp, t0
	sfence.vma
	jr t1

.Lmapped:
	lla t0, exception_entry
	csrw stvec, t0
	csrw sscratch, zero
	li t0, STATUS_SUM
	csrw sstatus, t0
	li t0, 1 << 9 /* external interrupts only: the board has no others */
	csrw sie, t0
	lla gp, percpu_areas
	slli t0, s1, 10 /* PERCPU_SIZE */
	add gp, gp, t0
	REG_L tp, PERCPU_CURRENT(gp)
	lla sp, boot_stacks - PT_REGS_SIZE
	addi t0, s1, 1
	slli t0, t0, 13 /* KERNEL_STACK_SIZE */
	add sp, sp, t0
	mv s0, zero
	mv ra, zero
	bnez s1, .Lsecondary
	li a0, BOOT_INFO
	tail start_kernel

.Lsecondary: /* spins until the first CPU is ready */
	lla t0, secondary_may_start
1:	lw t1, 0(t0)
	beqz t1, 1b
	mv a0, s1
	tail start_secondary
	.size _head, . - _head

/* Page tables. All RAM is mapped once, at KERNEL_BASE; mark_rodata_ro sets the access rights later. */
	.section .data..page_tables, "aw"
	.balign 4096
	.macro table name
	.globl \name
	.type \name, @object
	.size \name, 4096
\name:
	.endm

table swapper_pg_dir
	.set .Lindex, 0
	.rept ENTRIES
	.if .Lindex == ROOT_INDEX(RAM_START)
	PTR PAGE + ENTRY(RAM_START) /* for the boot only */
#if __riscv_xlen == 32
	.elseif .Lindex > ROOT_INDEX(KERNEL_BASE) && .Lindex < ROOT_INDEX(KERNEL_BASE) + 4
	PTR DATA + ENTRY(RAM_START + ((.Lindex - ROOT_INDEX(KERNEL_BASE)) << 22))
	.elseif .Lindex == ROOT_INDEX(PORTS)
	PTR DATA + ENTRY(PORTS_PHYSICAL)
#endif
	.else
	PTR 0
	.endif
	.set .Lindex, .Lindex + 1
	.endr

#if __riscv_xlen == 64
table middle_table /* the first 64 entries are the machine's */
	.set .Lindex, 0
	.rept ENTRIES
	.if .Lindex > 64 && .Lindex < 72
	PTR DATA + ENTRY(RAM_START + ((.Lindex - 64) << 21))
	.elseif .Lindex == (PORTS >> 21 & 511)
	PTR DATA + ENTRY(PORTS_PHYSICAL)
	.else
	PTR 0
	.endif
	.set .Lindex, .Lindex + 1
	.endr
#endif

table kernel_pages /* the first 2 or 4 MiB, which hold the kernel, in small pages */
	.set .Lphysical, RAM_START
	.rept ENTRIES
	.if .Lphysical < RAM_START + 0x200000
	PTR PAGE + ENTRY(.Lphysical)
	.else
	PTR DATA + ENTRY(.Lphysical)
	.endif
	.set .Lphysical, .Lphysical + 0x1000
	.endr

	.section .bss
	.balign 16
	.globl boot_stacks
boot_stacks:
	.skip KERNEL_STACK_SIZE * MAX_CPUS
