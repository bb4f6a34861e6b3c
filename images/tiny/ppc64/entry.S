/* Entry and exit: exceptions, interrupts, the context switch, a task's first instructions. */
#include "arch.h"
#include "offsets.h"
#include "asm.h"

/* pt_regs, behind the head of a frame */
#define R(number) FRAME_HEAD + 8 * number
#define IP FRAME_HEAD + 256
#define FLAGS FRAME_HEAD + 264
#define CTR FRAME_HEAD + 272
#define LINK FRAME_HEAD + 280
#define XER FRAME_HEAD + 288
#define CCR FRAME_HEAD + 296

/* Scratch space for registers until there is a stack. */
#define SAVED_R12 PERCPU_SCRATCH
#define SAVED_R11 PERCPU_SCRATCH + 8
#define SAVED_R13 PERCPU_SCRATCH + 16
#define SAVED_CR PERCPU_SCRATCH + 24

#define SPR_SRR0 26
#define SPR_SRR1 27
/* The red zone: bytes below the stack pointer that the running function owns. */
#define RED_ZONE 288

	.section .vectors, "ax"
	.globl vectors
vectors:
	.macro vector at to
	.org vectors + \at
	mtspr 273, r13
	mfspr r13, SPR_HSPRG0
	std r12, SAVED_R12(r13)
	li r12, \at
	b \to
	.endm
	vector 0x300 trap_entry
	vector 0x380 trap_entry
	vector 0x400 trap_entry
	vector 0x480 trap_entry
	vector 0x500 interrupt_entry
	vector 0x600 trap_entry
	vector 0x700 trap_entry
	vector 0x800 trap_entry
	vector 0x900 trap_entry
	vector 0xc00 trap_entry
	vector 0xd00 trap_entry
	vector 0xe40 hypervisor_entry
	vector 0xf20 trap_entry
	vector 0xf40 trap_entry
	vector 0xf60 trap_entry
	vector 0xf80 hypervisor_entry

	.section .entry.text, "ax"
	/* r12 is the vector number. Returns it in r4, and the address of pt_regs in r3. */
	.macro save_registers ip=SPR_SRR0 flags=SPR_SRR1
	std r11, SAVED_R11(r13)
	mfspr r11, 273
	std r11, SAVED_R13(r13)
	mfcr r11
	std r11, SAVED_CR(r13)
	mfspr r11, \flags
	andi. r11, r11, MSR_PR
	mr r11, r1
	addi r1, r1, -(RED_ZONE + PT_REGS_SIZE + FRAME_HEAD)
	beq 1f
	ld r1, PERCPU_KERNEL_SP(r13)
	addi r1, r1, -(PT_REGS_SIZE + FRAME_HEAD)
1:	std r11, R(1)(r1)
	std r11, 0(r1)
	std r0, R(0)(r1)
	.irp number, 2,3,4,5,6,7,8,9,10,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
	std r\number, R(\number)(r1)
	.endr
	ld r3, SAVED_R11(r13)
	std r3, R(11)(r1)
	ld r3, SAVED_R12(r13)
	std r3, R(12)(r1)
	ld r3, SAVED_R13(r13)
	std r3, R(13)(r1)
	ld r3, SAVED_CR(r13)
	std r3, CCR(r1)
	mfspr r3, \ip
	std r3, IP(r1)
	mfspr r3, \flags
	std r3, FLAGS(r1)
	mfctr r3
	std r3, CTR(r1)
	mflr r3
	std r3, LINK(r1)
	mfxer r3
	std r3, XER(r1)
	ld r2, PERCPU_TOC(r13)
	mr r4, r12
	addi r3, r1, FRAME_HEAD
	.endm

function trap_entry
	save_registers
	mfdar r5
	cmpwi r4, 0x400
	beq 2f
	cmpwi r4, 0x480
	bne 3f
2:	ld r5, IP(r1)
3:	bl CODE(do_trap)
	nop
	b CODE(return_from_exception)
end trap_entry

function hypervisor_entry
	save_registers SPR_HSRR0 SPR_HSRR1
	li r5, 0
	bl CODE(do_trap)
	nop
	b CODE(return_from_exception)
end hypervisor_entry

function interrupt_entry
	save_registers
	bl CODE(do_interrupt)
	nop
	b CODE(return_from_exception)
end interrupt_entry

function return_from_exception
	li r3, MSR_RI
	mtmsrd r3, 1
	addi r3, r1, FRAME_HEAD
	bl CODE(prepare_return)
	nop
	stdcx. r0, 0, r1 /* clears the reservation */
	ld r3, IP(r1)
	mtsrr0 r3
	ld r3, FLAGS(r1)
	mtsrr1 r3
	andi. r3, r3, MSR_PR
	beq 1f
	ld r13, R(13)(r1) /* in the kernel it belongs to the CPU, and the task may have migrated */
1:	ld r3, CTR(r1)
	mtctr r3
	ld r3, LINK(r1)
	mtlr r3
	ld r3, XER(r1)
	mtxer r3
	ld r3, CCR(r1)
	mtcr r3
	.irp number, 0,2,3,4,5,6,7,8,9,10,11,12,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
	ld r\number, R(\number)(r1)
	.endr
	ld r1, R(1)(r1)
	rfid
end return_from_exception

/* A new task's first instruction: r3 = the task before, r14 = function of a kernel thread, r15 = its argument. */
function ret_from_fork
	bl CODE(schedule_tail)
	nop
	cmpdi r14, 0
	beq 1f
	mr r3, r15
	mr r12, r14
	call_r12 /* returns only if the thread became a program */
1:	b CODE(return_from_exception)
end ret_from_fork

#define SWITCH_FRAME 176

	.text
function __switch_to_asm /* r3: previous task, r4: next */
	mflr r0
	std r0, 16(r1)
	mfcr r0
	stw r0, 8(r1)
	stdu r1, -SWITCH_FRAME(r1)
	.irp number, 14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
	std r\number, 32 + 8 * (\number - 14)(r1)
	.endr
	std r1, TASK_SP(r3)
	ld r1, TASK_SP(r4)
	.irp number, 14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
	ld r\number, 32 + 8 * (\number - 14)(r1)
	.endr
	addi r1, r1, SWITCH_FRAME
	lwz r0, 8(r1)
	mtcr r0
	ld r0, 16(r1)
	mtlr r0
	std r4, PERCPU_CURRENT(r13) /* `current` changes together with the return address */
	b CODE(__switch_to)
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
