/* Boot code: from the machine's entry (A32 code, supervisor mode, MMU off) to C at kernel addresses. */
#include "arch.h"
#include "bare.h"
#include "offsets.h"

	.syntax unified
	.globl current_task, __task_pid_offset, __task_comm_offset
	.set current_task, PERCPU_CURRENT
	.set __task_pid_offset, TASK_PID
	.set __task_comm_offset, TASK_COMM

#define PORTS_PHYSICAL 0x09000000
#define BOOT_INFO (RAM_START + 0x1000)

#define SCTLR_ON 0x1005 /* MMU and caches */
#define SCTLR_OFF 0x2002 /* high vectors, alignment checks */
#define SCTLR_THUMB_EXCEPTIONS 0x40000000

	.section .head.text, "ax"
	.arm
	.globl _head
	.type _head, %function
_head: /* runs at physical addresses until the jump */
	ldr r0, =PORTS_PHYSICAL + PORT_CPU_NUMBER
	ldr r4, [r0]
	ldr r0, =swapper_pg_dir - LOAD_OFFSET
	orr r0, r0, #0x4a
	mcr p15, 0, r0, c2, c0, 0 /* TTBR0 */
	mov r0, #0
	mcr p15, 0, r0, c2, c0, 2 /* TTBCR */
	mov r0, #1
	mcr p15, 0, r0, c3, c0, 0 /* domain 0: as the tables say */
	ldr r0, =vectors
	mcr p15, 0, r0, c12, c0, 0
	mcr p15, 0, r0, c8, c7, 0 /* forget translations */
	dsb
	isb
	mrc p15, 0, r0, c1, c0, 0
	ldr r1, =SCTLR_OFF + SCTLR_THUMB_EXCEPTIONS
	bic r0, r0, r1
	ldr r1, =SCTLR_ON
	orr r0, r0, r1
#ifdef __thumb__
	orr r0, r0, #SCTLR_THUMB_EXCEPTIONS
#endif
	mcr p15, 0, r0, c1, c0, 0
	isb
	ldr r0, =.Lmapped
	bx r0

.Lmapped:
	ldr r1, =percpu_areas
	add r1, r1, r4, lsl #10 /* PERCPU_SIZE */
	mcr p15, 0, r1, c13, c0, 4
	ldr r2, [r1, #PERCPU_CURRENT]
	mcr p15, 0, r2, c13, c0, 3
	ldr r2, =boot_stacks
	add r3, r4, #1
	add r2, r2, r3, lsl #13 /* KERNEL_STACK_SIZE */
	sub sp, r2, #PT_REGS_SIZE
	mov lr, #0
	cmp r4, #0
	bne .Lsecondary
	ldr r0, =BOOT_INFO
	ldr r1, =start_kernel
	bx r1

.Lsecondary: /* spins until the first CPU is ready */
	ldr r1, =secondary_may_start
1:	ldr r0, [r1]
	cmp r0, #0
	beq 1b
	mov r0, r4
	ldr r1, =start_secondary
	bx r1
	.ltorg
	.size _head, . - _head

/* Page tables. All RAM is mapped once, at KERNEL_BASE; mark_rodata_ro sets the access rights later. */
#define TABLE 1
#define SECTION 0x40e /* cached memory that the kernel may read and write */
#define SECTION_RUNS_NOT 0x41e
#define DEVICE 0x416
#define PAGE 0x1e

	.section .data..page_tables, "aw"
	.balign 16384
	.globl swapper_pg_dir
	.type swapper_pg_dir, %object
	.size swapper_pg_dir, 16384
swapper_pg_dir:
	.fill 0x400, 4, 0
	.long RAM_START + SECTION, RAM_START + 0x100000 + SECTION /* identity map, removed when no CPU uses it any more */
	.fill 0xc00 - 0x402, 4, 0 /* includes the machine's entries in front of the kernel */
	.long level2_kernel_pgt - LOAD_OFFSET + TABLE, level2_kernel_pgt - LOAD_OFFSET + 1024 + TABLE
	.set .Lphysical, RAM_START + 0x200000
	.rept 14
	.long SECTION_RUNS_NOT + .Lphysical
	.set .Lphysical, .Lphysical + 0x100000
	.endr
	.fill 0xf09 - 0xc10, 4, 0
	.long DEVICE + PORTS_PHYSICAL
	.fill 0xfff - 0xf09, 4, 0

	.balign 4096
	.globl level2_kernel_pgt
	.type level2_kernel_pgt, %object
	.size level2_kernel_pgt, 2048
level2_kernel_pgt: /* the first 2 MiB, which hold the kernel, in small pages */
	.set .Lphysical, RAM_START
	.rept 512
	.long PAGE + .Lphysical
	.set .Lphysical, .Lphysical + 0x1000
	.endr

	.section .bss
	.balign 16
	.globl boot_stacks
boot_stacks:
	.skip KERNEL_STACK_SIZE * MAX_CPUS
