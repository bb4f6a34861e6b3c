/* Boot code: from the machine's entry (translation off) to C at kernel addresses. */
#include "arch.h"
#include "bare.h"
#include "offsets.h"
#include "asm.h"

	.globl current_task, __task_pid_offset, __task_comm_offset
	.set current_task, PERCPU_CURRENT
	.set __task_pid_offset, TASK_PID
	.set __task_comm_offset, TASK_COMM

#define BOOT_INFO (RAM_START + 0x1000)
#define HID0 1008
#define DOZE 0x80
/* Maps 256 MiB at KERNEL_BASE, kernel only; physical from 0, read and write. */
#define BLOCK_UPPER (KERNEL_BASE + 0x1ffe)
#define BLOCK_LOWER 2
#define IBAT0U 528
#define DBAT0U 536

	.section .head.text, "ax"
	.globl _head
	.type _head, @function
_head: /* r4: which CPU this is */
	mr r30, r4
	li r3, 0
	.irp number, 0,2,4,6
	mtspr IBAT0U + \number, r3
	mtspr DBAT0U + \number, r3
	.endr
	load r3, BLOCK_LOWER
	mtspr IBAT0U + 1, r3
	mtspr DBAT0U + 1, r3
	load r3, BLOCK_UPPER
	mtspr IBAT0U, r3
	mtspr DBAT0U, r3
	load r3, SEGMENT_KEYS + NO_SPACE
	.irp segment, 0,1,2,3,4,5,6,7,8,9,10,11,14,15
	mtsr \segment, r3
	.endr
	load r3, SEGMENT_KEYS + KERNEL_SPACE
	mtsr 12, r3
	mtsr 13, r3
	load r3, hash_table - LOAD_OFFSET /* and the mask for the smallest table */
	mtspr 25, r3
	lis r3, DOZE
	mtspr HID0, r3
	load r2, percpu_areas
	slwi r3, r30, 10 /* PERCPU_SIZE */
	add r2, r2, r3
	addis r3, r2, (-KERNEL_BASE >> 16) & 0xffff
	mtsprg 0, r3
	load r3, .Lmapped
	mtsrr0 r3
	load r3, MSR_KERNEL
	mtsrr1 r3
	isync
	rfi

.Lmapped:
	load r1, boot_stacks - PT_REGS_SIZE - FRAME_HEAD
	addi r3, r30, 1
	slwi r3, r3, 13 /* KERNEL_STACK_SIZE */
	add r1, r1, r3
	li r0, 0
	stw r0, 0(r1)
	cmpwi r30, 0
	bne .Lsecondary
	li r3, BOOT_INFO
	bl start_kernel

.Lsecondary: /* spins until the first CPU is ready */
	load r4, secondary_may_start
1:	lwz r3, 0(r4)
	cmpwi r3, 0
	beq 1b
	mr r3, r30
	bl start_secondary
	.size _head, . - _head

	.section .bss
	.balign HASH_BYTES
	.globl hash_table
	.type hash_table, @object
	.size hash_table, HASH_BYTES
hash_table:
	.skip HASH_BYTES

	.globl boot_stacks
boot_stacks:
	.skip KERNEL_STACK_SIZE * MAX_CPUS
