/* Entry and exit: TLB refill, exceptions, interrupts, the context switch, a task's first instructions. */
#include "arch.h"
#include "offsets.h"
#include "asm.h"

#define R(number) (FRAME_HEAD + number * WORD)
#define PERCPU_PGD (5 * WORD)
#define CPU_NUMBER $15, 1
#define CODE_SYSTEM_CALL 8

	.section .entry.text, "ax"
	.balign 4096
	.globl vectors
	.type vectors, @object
vectors:
	b refill
	MFC0 $26, $8
	.org vectors + 0x80 /* the same for addresses of 64 bits */
	b refill
	MFC0 $26, $8
	.org vectors + 0x180
	b exception_entry
	mfc0 $26, $12
	.size vectors, . - vectors

	/* For the test that removes the vectors: every exception raises another one. */
	.balign 4096
	.globl no_vectors
	.type no_vectors, @object
no_vectors:
	.org no_vectors + 0x180
	.word 0x7000003e
	.size no_vectors, . - no_vectors

/* TLB refill. k0: the address, of a program or a constant. An entry maps two adjacent pages. */
function refill
	bltz $26, 1f
	SRL $27, $26, 21
	xori $27, $27, 2 /* USER_BASE */
	bnez $27, 4f
	mfc0 $27, CPU_NUMBER
	andi $27, $27, 0x3ff
	sll $27, $27, 10 /* PERCPU_SIZE */
	lui $26, %hi(percpu_areas + PERCPU_PGD)
	ADDU $27, $27, $26
	REG_L $27, %lo(percpu_areas + PERCPU_PGD)($27)
	lui $26, 0x8000
	ADDU $27, $27, $26
	b 2f
	MFC0 $26, $8
1:	lui $27, 0xc000
	SUBU $26, $26, $27
	SRL $27, $26, 21
	bnez $27, 4f
	lui $27, %hi(kernel_ptes)
	ADDIU $27, $27, %lo(kernel_ptes)
2:	SRL $26, $26, 12 - WORD_SHIFT
	andi $26, $26, 510 << WORD_SHIFT
	ADDU $27, $27, $26
	REG_L $26, 0($27)
	REG_L $27, WORD($27)
3:	MTC0 $26, $2
	MTC0 $27, $3
	ehb
	tlbwr
	eret
4:	move $26, $0 /* no such page: an invalid entry, so that the access raises another exception */
	b 3b
	move $27, $0
end refill

/* k0: the status. Returns the address of pt_regs in a0, and the exception code in s0. */
function exception_entry
	andi $26, $26, STATUS_USER
	beqz $26, 1f
	move $27, $29
	mfc0 $26, CPU_NUMBER
	andi $26, $26, 0x3ff
	sll $26, $26, 10 /* PERCPU_SIZE */
	load $29, percpu_areas + PERCPU_CURRENT
	ADDU $26, $26, $29
	b 2f
	REG_L $29, PERCPU_KERNEL_SP - PERCPU_CURRENT($26)
1:	move $26, $28
2:	ADDIU $29, $29, -(PT_REGS_SIZE + FRAME_HEAD)
	REG_S $27, R(29)($29)
	.irp number, 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,28,30,31
	REG_S $\number, R(\number)($29)
	.endr
	move $28, $26
	mflo $8
	mfhi $9
	REG_S $8, FRAME_HEAD + PT_LO($29)
	REG_S $9, FRAME_HEAD + PT_HI($29)
	mfc0 $10, $13
	MFC0 $8, $14
	mfc0 $9, $12
	MFC0 $6, $8
	REG_S $10, FRAME_HEAD + PT_CAUSE($29)
	REG_S $9, FRAME_HEAD + PT_FLAGS($29)
	REG_S $6, FRAME_HEAD + PT_ADDRESS($29)
	ext $5, $10, 2, 5
	xori $11, $5, CODE_SYSTEM_CALL
	beqzl $11, 3f
	ADDIU $8, $8, 4 /* continue behind it */
3:	REG_S $8, FRAME_HEAD + PT_IP($29)
	ins $9, $0, 0, 5 /* kernel mode, exceptions allowed */
	mtc0 $9, $12
	ehb
	beqz $5, 4f
	ADDIU $4, $29, FRAME_HEAD
	jal do_trap
	nop
	b return_from_exception
	nop
4:	jal do_interrupt
	nop
end exception_entry

function return_from_exception
	di
	ehb
	jal prepare_return
	ADDIU $4, $29, FRAME_HEAD
	mfc0 $8, $12
	ori $8, $8, STATUS_EXL
	mtc0 $8, $12
	ehb
	REG_L $26, FRAME_HEAD + PT_FLAGS($29)
	REG_L $27, FRAME_HEAD + PT_IP($29)
	mtc0 $26, $12
	MTC0 $27, $14
	REG_L $8, FRAME_HEAD + PT_LO($29)
	REG_L $9, FRAME_HEAD + PT_HI($29)
	mtlo $8
	mthi $9
	andi $26, $26, STATUS_USER
	bnezl $26, 1f /* in the kernel it belongs to the CPU, and the task may have migrated */
	REG_L $28, R(28)($29)
1:	.irp number, 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,30,31
	REG_L $\number, R(\number)($29)
	.endr
	REG_L $29, R(29)($29)
	ehb
	eret
end return_from_exception

/* A new task's first instruction: v0 = the task before, s0 = function of a kernel thread, s1 = its argument. */
function ret_from_fork
	jal schedule_tail
	move $4, $2
	beqz $16, 1f
	nop
	jalr $16 /* returns only if the thread became a program */
	move $4, $17
1:	b return_from_exception
	nop
end ret_from_fork

/* Flushes this CPU's TLB. */
function flush_all_pages
	mfc0 $8, $16, 1
	ext $8, $8, 25, 6 /* the number of the last */
	MFC0 $9, $10
	mtc0 $0, $2
	mtc0 $0, $3
	lui $10, 0x8000
	sll $11, $8, 13
	ADDU $10, $10, $11
1:	mtc0 $8, $0
	MTC0 $10, $10
	ehb
	tlbwi
	ADDIU $10, $10, -0x2000
	bnez $8, 1b
	addiu $8, $8, -1
	MTC0 $9, $10
	jr $31
	ehb
end flush_all_pages

#define SAVED 10 * WORD

	.text
function __switch_to_asm /* a0: previous task, a1: next */
	ADDIU $29, $29, -SAVED
	.irp number, 16,17,18,19,20,21,22,23
	REG_S $\number, (\number - 16) * WORD($29)
	.endr
	REG_S $30, 8 * WORD($29)
	REG_S $31, 9 * WORD($29)
	REG_S $29, TASK_SP($4)
	REG_L $29, TASK_SP($5)
	.irp number, 16,17,18,19,20,21,22,23
	REG_L $\number, (\number - 16) * WORD($29)
	.endr
	REG_L $30, 8 * WORD($29)
	REG_L $31, 9 * WORD($29)
	ADDIU $29, $29, SAVED
	j __switch_to
	REG_S $5, 0($28) /* `current` changes together with the return address */
end __switch_to_asm

/* A loop that jumps back into the first bytes of its function, for tests of jumps. */
function loop_into_head /* a0: a count above 0; returns the sum of 1..count */
	move $2, $0
1:	ADDU $2, $2, $4
	ADDIU $4, $4, -1
	bnez $4, 1b
	nop
	jr $31
	nop
end loop_into_head
