/* Entry and exit: exceptions, interrupts, the context switch, a task's first instructions. */
#include "arch.h"
#include "offsets.h"

	.syntax unified
#ifdef __thumb__
	.thumb
#define UNDEFINED_BYTES 2
#define BRANCH b.w /* as long as in A32 */
#else
	.arm
#define UNDEFINED_BYTES 4
#define BRANCH b
#endif

/* pt_regs */
#define SP_AND_LR 52
#define FLAGS 68

	.macro function name
	.globl \name
	.type \name, %function
\name:
	.endm
	.macro end name
	.size \name, . - \name
	.endm

	.section .entry.text, "ax"
	.balign 32
	.globl vectors
	.type vectors, %object
vectors:
	BRANCH unexpected
	BRANCH undefined_instruction
	BRANCH system_call
	BRANCH prefetch_abort
	BRANCH data_abort
	BRANCH unexpected
	BRANCH interrupt
	BRANCH unexpected
	.size vectors, . - vectors

/* Enters supervisor mode with a pt_regs on its stack: address in r0, and in r4 for the return, because C needs an aligned stack. */
	.macro save_registers less
	.if \less
	sub lr, lr, #\less
	.endif
	srsdb sp!, #MODE_SUPERVISOR
	cps #MODE_SUPERVISOR
	sub sp, sp, #12
	push {r0-r12}
	ldr r0, [sp, #FLAGS]
	and r0, r0, #0x1f
	cmp r0, #MODE_USER
	mov r4, sp
	bne 1f
	cps #MODE_SYSTEM /* its sp and lr are the program's */
	mov r6, sp
	mov r7, lr
	cps #MODE_SUPERVISOR
	b 2f
1:	add r6, r4, #PT_REGS_SIZE
	mov r7, lr
2:	str r6, [r4, #SP_AND_LR]
	str r7, [r4, #SP_AND_LR + 4]
	bic r0, r4, #7
	mov sp, r0
	mov r0, r4
	.endm

	.macro trap name number less
	function \name
	save_registers \less
	mov r1, #\number
	.if \number == 3
	mrc p15, 0, r2, c6, c0, 2
	.else
	mrc p15, 0, r2, c6, c0, 0
	.endif
	bl do_trap
	b return_from_exception
	end \name
	.endm

trap undefined_instruction 1 UNDEFINED_BYTES
trap system_call 2 0
trap prefetch_abort 3 4
trap data_abort 4 8
trap unexpected 9 4

function interrupt
	save_registers 4
	bl do_interrupt
	b return_from_exception
end interrupt

function return_from_exception /* r4: the pt_regs */
	cpsid i
	mov r0, r4
	bl prepare_return
	mov sp, r4
	ldr r0, [sp, #FLAGS]
	and r0, r0, #0x1f
	cmp r0, #MODE_USER
	bne 1f
	ldr r6, [sp, #SP_AND_LR]
	ldr r7, [sp, #SP_AND_LR + 4]
	cps #MODE_SYSTEM
	mov sp, r6
	mov lr, r7
	cps #MODE_SUPERVISOR
	b 2f
1:	ldr lr, [sp, #SP_AND_LR + 4]
2:	clrex
	pop {r0-r12}
	add sp, sp, #12
	rfeia sp!
end return_from_exception

/* A new task's first instruction: r0 = the task before, r4 = function of a kernel thread, r5 = its argument. */
function ret_from_fork
	bl schedule_tail
	cmp r4, #0
	beq 1f
	mov r0, r5
	blx r4 /* returns only if the thread became a program */
1:	mov r4, sp
	b return_from_exception
end ret_from_fork

	.text
function __switch_to_asm /* r0: previous task, r1: next */
	push {r4-r12, lr}
	str sp, [r0, #TASK_SP]
	ldr r2, [r1, #TASK_SP]
	mov sp, r2
	pop {r4-r12, lr}
	mcr p15, 0, r1, c13, c0, 3 /* `current` changes together with the return address */
	b __switch_to
end __switch_to_asm

/* A loop that jumps back into the first bytes of its function, for tests of jumps. */
function loop_into_head /* r0: a count above 0; returns the sum of 1..count */
	mov r1, #0
1:	adds r1, r1, r0
	subs r0, r0, #1
	bne 1b
	mov r0, r1
	bx lr
end loop_into_head
