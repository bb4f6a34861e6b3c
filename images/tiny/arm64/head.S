/* Boot code: from the machine's entry (EL1, MMU off) to C at kernel addresses. */
#include "arch.h"
#include "bare.h"
#include "offsets.h"

	.globl current_task, __task_pid_offset, __task_comm_offset
	.set current_task, PERCPU_CURRENT
	.set __task_pid_offset, TASK_PID
	.set __task_comm_offset, TASK_COMM

#define PORTS_PHYSICAL 0x09000000
#define BOOT_INFO (RAM_START + 0x1000)

/* Normal memory, written back; device memory. */
#define MAIR 0x04ff
/* 48-bit addresses in both halves, 4 KiB pages, tables in cached shared memory, 40-bit physical addresses. */
#define TCR 0x2b5103510
/* MMU and caches on, the bits that are fixed to one. */
#define SCTLR 0x30d0199d

	.section .head.text, "ax"
	.globl _head
	.type _head, @function
_head: /* runs at physical addresses until the jump */
	ldr x0, =MAIR
	msr mair_el1, x0
	ldr x0, =TCR
	msr tcr_el1, x0
	adr x0, identity_pgd
	msr ttbr0_el1, x0
	adr x0, swapper_pg_dir
	msr ttbr1_el1, x0
	ldr x0, =vectors
	msr vbar_el1, x0
	mov x0, #0x300000 /* SIMD does not trap; the kernel does not use it */
	msr cpacr_el1, x0
	mov x0, #PORTS_PHYSICAL
	ldr w19, [x0, #PORT_CPU_NUMBER]
	tlbi vmalle1
	dsb nsh
	isb
	ldr x0, =SCTLR
	msr sctlr_el1, x0
	isb
	ldr x0, =.Lmapped
	br x0

.Lmapped:
	ldr x1, =percpu_areas
	add x1, x1, x19, lsl #10 /* PERCPU_SIZE */
	msr tpidr_el1, x1
	ldr x2, [x1, #PERCPU_CURRENT]
	msr sp_el0, x2
	ldr x2, =boot_stacks
	add x3, x19, #1
	add x2, x2, x3, lsl #13 /* KERNEL_STACK_SIZE */
	sub sp, x2, #PT_REGS_SIZE
	mov x29, xzr
	mov x30, xzr
	cbnz x19, .Lsecondary
	ldr x0, =BOOT_INFO
	ldr x1, =start_kernel
	br x1

.Lsecondary: /* spins until the first CPU is ready */
	ldr x1, =secondary_may_start
1:	ldr w0, [x1]
	cbz w0, 1b
	mov x0, x19
	ldr x1, =start_secondary
	br x1
	.ltorg
	.size _head, . - _head

/* Page tables. All RAM is mapped once, at KERNEL_BASE; mark_rodata_ro sets the access rights later. */
#define TABLE 3
#define PAGE 0x703
#define BLOCK 0x701
#define DEVICE 0x60000000000705 /* index 1 in MAIR, never executed */
#define RUNS_NOT 0x60000000000000

	.section .data..page_tables, "aw"
	.balign 4096
	.macro table name
	.globl \name
	.type \name, @object
	.size \name, 4096
\name:
	.endm

table swapper_pg_dir
	.fill 256, 8, 0
	.quad level1_kernel_pgt - LOAD_OFFSET + TABLE
	.fill 255, 8, 0

table level1_kernel_pgt
	.quad level2_kernel_pgt - LOAD_OFFSET + TABLE
	.fill 511, 8, 0

table level2_kernel_pgt /* from 0xffff800000000000 on */
	.fill 64, 8, 0 /* with the machine's entries */
	.quad level3_kernel_pgt - LOAD_OFFSET + TABLE
	.set .Lphysical, RAM_START + 0x200000
	.rept 7
	.quad RUNS_NOT + BLOCK + .Lphysical
	.set .Lphysical, .Lphysical + 0x200000
	.endr
	.fill 56, 8, 0
	.quad DEVICE + PORTS_PHYSICAL
	.fill 383, 8, 0

table level3_kernel_pgt /* the first 2 MiB, which hold the kernel, in small pages */
	.set .Lphysical, RAM_START
	.rept 512
	.quad PAGE + .Lphysical
	.set .Lphysical, .Lphysical + 0x1000
	.endr

table identity_pgd /* for the boot only */
	.quad identity_level1 - LOAD_OFFSET + TABLE
	.fill 511, 8, 0

table identity_level1
	.quad 0
	.quad BLOCK + RAM_START
	.fill 510, 8, 0

table empty_zero_page
	.fill 512, 8, 0

	.section .bss
	.balign 16
	.globl boot_stacks
boot_stacks:
	.skip KERNEL_STACK_SIZE * MAX_CPUS
