/* Boot code: from the machine's entry (hypervisor state, translation off) to C at kernel addresses. */
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

/* LPCR: radix trees per process, exceptions with translation on, interrupts through SRR0. */
#define LPCR_VALUE 0x1d00008

	/* The physical address of a kernel symbol. */
	.macro physical register symbol
	load \register, \symbol - LOAD_OFFSET
	.endm

	/* Stores a word into the table at r8, and advances r8. */
	.macro entry register
#ifdef __LITTLE_ENDIAN__
	stdbrx \register, 0, r8
#else
	std \register, 0(r8)
#endif
	addi r8, r8, 8
	.endm

	.macro directory table
	physical r3, \table
	load r4, DIRECTORY
	or r3, r3, r4
	entry r3
	.endm

	.section .head.text, "ax"
	.globl _head
	.type _head, @function
_head: /* r4: which CPU this is */
	mr r30, r4
	physical r31, tables_are_ready
	cmpdi r30, 0
	bne .Lwait

	/* The first CPU builds the tables: the kernel's tree, and the partition and process tables. */
	physical r8, partition_table
	load r3, RADIX
	entry r3
	physical r3, process_table
	load r4, RADIX
	or r3, r3, r4
	entry r3
	physical r8, process_table
	physical r3, swapper_pg_dir
	load r4, TREE_OF_52_BITS
	or r3, r3, r4
	entry r3
	physical r8, swapper_pg_dir
	directory level2_kernel_pgt
	physical r8, level2_kernel_pgt
	directory level3_kernel_pgt
	/* The first 2 MiB, which hold the kernel, in small pages; the machine's entries are behind the RAM. */
	physical r8, level3_kernel_pgt
	directory level4_kernel_pgt
	load r3, PTE_PAGE + PTE_KERNEL + PTE_WRITABLE + 0x200000
	lis r4, 0x20
	li r5, 7
	mtctr r5
1:	entry r3
	add r3, r3, r4
	bdnz 1b
	physical r8, level3_kernel_pgt + 8 * (PORTS_PHYSICAL >> 21)
	load r3, PTE_PAGE + PTE_KERNEL + PTE_WRITABLE + PTE_DEVICE + PORTS_PHYSICAL
	entry r3
	physical r8, level4_kernel_pgt
	load r3, PTE_PAGE + PTE_KERNEL + PTE_WRITABLE + PTE_RUNS
	li r5, 512
	mtctr r5
2:	entry r3
	addi r3, r3, 0x1000
	bdnz 2b
	li r3, 1
	ptesync
	stw r3, 0(r31)
.Lwait:
	lwz r3, 0(r31)
	cmpwi r3, 0
	beq .Lwait

	load r3, LPCR_VALUE
	mtspr SPR_LPCR, r3
	li r3, 0
	mtspr SPR_LPIDR, r3
	li r3, NO_SPACE
	mtspr SPR_PID, r3
	physical r3, partition_table
	mtspr SPR_PTCR, r3
	load r13, percpu_areas
	sldi r3, r30, 10 /* PERCPU_SIZE */
	add r13, r13, r3
	mtspr SPR_HSPRG0, r13
	ptesync
	isync
	load r3, .Lmapped
	mtsrr0 r3
	load r3, MSR_KERNEL
	mtsrr1 r3
	rfid

.Lmapped:
	load r2, .TOC.
	std r2, PERCPU_TOC(r13)
	load r1, boot_stacks - PT_REGS_SIZE - FRAME_HEAD
	addi r3, r30, 1
	sldi r3, r3, 13 /* KERNEL_STACK_SIZE */
	add r1, r1, r3
	li r0, 0
	std r0, 0(r1)
	cmpdi r30, 0
	bne .Lsecondary
	li r3, BOOT_INFO
	bl CODE(start_kernel)
	nop

.Lsecondary: /* spins until the first CPU is ready */
	load r4, secondary_may_start
3:	lwz r3, 0(r4)
	cmpwi r3, 0
	beq 3b
	mr r3, r30
	bl CODE(start_secondary)
	nop
	.size _head, . - _head

	.section .bss
	.macro table name bytes
	.balign \bytes
	.globl \name
	.type \name, @object
	.size \name, \bytes
\name:
	.skip \bytes
	.endm

table swapper_pg_dir 0x10000
table level2_kernel_pgt 0x1000
table level3_kernel_pgt 0x1000
table level4_kernel_pgt 0x1000
table partition_table 0x1000
table process_table 0x1000

	.type tables_are_ready, @object
	.size tables_are_ready, 8
tables_are_ready:
	.skip 8

	.section .bss
	.balign 16
	.globl boot_stacks
boot_stacks:
	.skip KERNEL_STACK_SIZE * MAX_CPUS
