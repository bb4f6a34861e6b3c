/* Entry and exit: exceptions, interrupts, the context switch, a task's first instructions. */
#include "arch.h"
#include "offsets.h"
#include "asm.h"

/* pt_regs, behind the head of a frame */
#define R(number) FRAME_HEAD + 4 * number
#define IP FRAME_HEAD + 128
#define FLAGS FRAME_HEAD + 132
#define CTR FRAME_HEAD + 136
#define LINK FRAME_HEAD + 140
#define XER FRAME_HEAD + 144
#define CCR FRAME_HEAD + 148

/* Scratch space for registers until there is a stack. */
#define SAVED_R10 PERCPU_SCRATCH
#define SAVED_R11 PERCPU_SCRATCH + 4
#define SAVED_R12 PERCPU_SCRATCH + 8
#define SAVED_CR PERCPU_SCRATCH + 12
#define SAVED_IP PERCPU_SCRATCH + 16
#define SAVED_FLAGS PERCPU_SCRATCH + 20
#define SAVED_ADDRESS PERCPU_SCRATCH + 24
#define SAVED_WHY PERCPU_SCRATCH + 28

	.section .vectors, "ax"
	.globl vectors
vectors:
	.macro vector at to
	.org vectors + \at
	mtsprg 1, r12
	mfsprg r12, 0
	stw r11, SAVED_R11(r12)
	li r11, \at
	stw r11, SAVED_WHY(r12)
	lis r11, \to@h
	ori r11, r11, \to@l
	b come_in
	.endm
	vector 0x300 trap_entry
	vector 0x400 trap_entry
	vector 0x500 interrupt_entry
	vector 0x600 trap_entry
	vector 0x700 trap_entry
	vector 0x800 trap_entry
	vector 0x900 trap_entry
	vector 0xc00 trap_entry
	vector 0xd00 trap_entry

	/* Saves the registers that the switch to translated code needs, and continues there. r12 points to this CPU's area. */
	.org vectors + 0xe00
come_in:
	stw r10, SAVED_R10(r12)
	mfsprg r10, 1
	stw r10, SAVED_R12(r12)
	mfcr r10
	stw r10, SAVED_CR(r12)
	mfsrr0 r10
	stw r10, SAVED_IP(r12)
	mfsrr1 r10
	stw r10, SAVED_FLAGS(r12)
	mfdar r10
	stw r10, SAVED_ADDRESS(r12)
	mtsrr0 r11
	li r10, MSR_KERNEL
	mtsrr1 r10
	addis r12, r12, KERNEL_BASE >> 16
	rfi

	.section .entry.text, "ax"
	/* Returns the address of pt_regs in r3, the reason in r4, and the fault address in r5. */
	.macro save_registers
	lwz r10, SAVED_FLAGS(r12)
	andi. r10, r10, MSR_PR
	mr r11, r1
	addi r1, r1, -(PT_REGS_SIZE + FRAME_HEAD)
	beq 1f
	lwz r1, PERCPU_KERNEL_SP(r12)
	addi r1, r1, -(PT_REGS_SIZE + FRAME_HEAD)
1:	stw r11, R(1)(r1)
	stw r11, 0(r1)
	stw r0, R(0)(r1)
	.irp number, 2,3,4,5,6,7,8,9,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
	stw r\number, R(\number)(r1)
	.endr
	mr r2, r12
	lwz r3, SAVED_R10(r2)
	stw r3, R(10)(r1)
	lwz r3, SAVED_R11(r2)
	stw r3, R(11)(r1)
	lwz r3, SAVED_R12(r2)
	stw r3, R(12)(r1)
	lwz r3, SAVED_CR(r2)
	stw r3, CCR(r1)
	lwz r3, SAVED_IP(r2)
	stw r3, IP(r1)
	lwz r3, SAVED_FLAGS(r2)
	stw r3, FLAGS(r1)
	mfctr r3
	stw r3, CTR(r1)
	mflr r3
	stw r3, LINK(r1)
	mfxer r3
	stw r3, XER(r1)
	lwz r4, SAVED_WHY(r2)
	lwz r5, SAVED_ADDRESS(r2)
	addi r3, r1, FRAME_HEAD
	.endm

function trap_entry
	save_registers
	cmpwi r4, 0x400
	bne 2f
	lwz r5, IP(r1)
2:	bl do_fault_or_trap
	b return_from_exception
end trap_entry

function interrupt_entry
	save_registers
	bl do_interrupt
	b return_from_exception
end interrupt_entry

function return_from_exception
	li r3, MSR_KERNEL
	mtmsr r3
	isync
	addi r3, r1, FRAME_HEAD
	bl prepare_return
	stwcx. r0, 0, r1 /* clears the reservation */
	lwz r3, IP(r1)
	mtsrr0 r3
	lwz r3, FLAGS(r1)
	mtsrr1 r3
	andi. r3, r3, MSR_PR
	beq 1f
	lwz r2, R(2)(r1) /* in the kernel it belongs to the CPU, and the task may have migrated */
1:	lwz r3, CTR(r1)
	mtctr r3
	lwz r3, LINK(r1)
	mtlr r3
	lwz r3, XER(r1)
	mtxer r3
	lwz r3, CCR(r1)
	mtcr r3
	.irp number, 0,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
	lwz r\number, R(\number)(r1)
	.endr
	lwz r1, R(1)(r1)
	rfi
end return_from_exception

/* A new task's first instruction: r3 = the task before, r14 = function of a kernel thread, r15 = its argument. */
function ret_from_fork
	bl schedule_tail
	cmpwi r14, 0
	beq 1f
	mr r3, r15
	mtctr r14
	bctrl /* returns only if the thread became a program */
1:	b return_from_exception
end ret_from_fork

#define SWITCH_FRAME 96

	.text
function __switch_to_asm /* r3: previous task, r4: next */
	mflr r0
	stw r0, 4(r1)
	stwu r1, -SWITCH_FRAME(r1)
	stmw r14, 8(r1)
	mfcr r0
	stw r0, 80(r1)
	stw r1, TASK_SP(r3)
	lwz r1, TASK_SP(r4)
	lwz r0, 80(r1)
	mtcr r0
	lmw r14, 8(r1)
	addi r1, r1, SWITCH_FRAME
	lwz r0, 4(r1)
	mtlr r0
	stw r4, PERCPU_CURRENT(r2) /* `current` changes together with the return address */
	b __switch_to
end __switch_to_asm

/* A loop that jumps back into the first bytes of its function, for tests of jumps. */
function loop_into_head /* r3: a count above 0; returns the sum of 1..count */
	li r4, 0
1:	add r4, r4, r3
	addic. r3, r3, -1
	bne 1b
	mr r3, r4
	blr
end loop_into_head
