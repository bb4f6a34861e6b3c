/* Entry and exit: exceptions, interrupts, the context switch, a task's first instructions. */
#include "arch.h"
#include "offsets.h"

/* pt_regs */
#define SP_AND_30 240
#define IP_AND_FLAGS 256

	.macro function name
	.globl \name
	.type \name, @function
\name:
	.endm
	.macro end name
	.size \name, . - \name
	.endm

	.section .entry.text, "ax"
	.balign 2048
	.globl vectors
	.type vectors, @function
vectors:
	.macro vector to
	.balign 128
	b \to
	.endm
	vector unexpected /* with programs' stack pointer: never */
	vector unexpected
	vector unexpected
	vector unexpected
	vector el1_trap
	vector el1_interrupt
	vector unexpected
	vector unexpected
	vector el0_trap
	vector el0_interrupt
	vector unexpected
	vector unexpected
	vector unexpected /* 32-bit programs: never */
	vector unexpected
	vector unexpected
	vector unexpected
	.size vectors, . - vectors

	.macro save_registers el
	sub sp, sp, #PT_REGS_SIZE
	stp x0, x1, [sp]
	stp x2, x3, [sp, #16]
	stp x4, x5, [sp, #32]
	stp x6, x7, [sp, #48]
	stp x8, x9, [sp, #64]
	stp x10, x11, [sp, #80]
	stp x12, x13, [sp, #96]
	stp x14, x15, [sp, #112]
	stp x16, x17, [sp, #128]
	stp x18, x19, [sp, #144]
	stp x20, x21, [sp, #160]
	stp x22, x23, [sp, #176]
	stp x24, x25, [sp, #192]
	stp x26, x27, [sp, #208]
	stp x28, x29, [sp, #224]
	.if \el == 0
	mrs x21, sp_el0
	mrs x22, tpidr_el1
	ldr x22, [x22, #PERCPU_CURRENT]
	msr sp_el0, x22
	.else
	add x21, sp, #PT_REGS_SIZE
	.endif
	stp x30, x21, [sp, #SP_AND_30]
	mrs x22, elr_el1
	mrs x23, spsr_el1
	stp x22, x23, [sp, #IP_AND_FLAGS]
	mov x0, sp
	.endm

	.macro trap name el
	function \name
	save_registers \el
	mrs x1, esr_el1
	mrs x2, far_el1
	bl do_trap
	b return_from_exception
	end \name
	.endm

	.macro interrupt name el
	function \name
	save_registers \el
	bl do_interrupt
	b return_from_exception
	end \name
	.endm

trap el1_trap 1
trap el0_trap 0
interrupt el1_interrupt 1
interrupt el0_interrupt 0

function unexpected
	save_registers 1
	mov x1, #-1
	mov x2, xzr
	bl do_trap
end unexpected

function return_from_exception
	msr daifset, #2
	mov x0, sp
	bl prepare_return
	ldp x22, x23, [sp, #IP_AND_FLAGS]
	ldp x30, x21, [sp, #SP_AND_30]
	tst x23, #0xf
	b.ne 1f
	msr sp_el0, x21
1:	msr elr_el1, x22
	msr spsr_el1, x23
	ldp x0, x1, [sp]
	ldp x2, x3, [sp, #16]
	ldp x4, x5, [sp, #32]
	ldp x6, x7, [sp, #48]
	ldp x8, x9, [sp, #64]
	ldp x10, x11, [sp, #80]
	ldp x12, x13, [sp, #96]
	ldp x14, x15, [sp, #112]
	ldp x16, x17, [sp, #128]
	ldp x18, x19, [sp, #144]
	ldp x20, x21, [sp, #160]
	ldp x22, x23, [sp, #176]
	ldp x24, x25, [sp, #192]
	ldp x26, x27, [sp, #208]
	ldp x28, x29, [sp, #224]
	add sp, sp, #PT_REGS_SIZE
	eret
end return_from_exception

/* A new task's first instruction: x0 = the task before, x19 = function of a kernel thread, x20 = its argument. */
function ret_from_fork
	bl schedule_tail
	cbz x19, 1f
	mov x0, x20
	blr x19 /* returns only if the thread became a program */
1:	b return_from_exception
end ret_from_fork

	.text
function __switch_to_asm /* x0: previous task, x1: next */
	stp x19, x20, [sp, #-96]!
	stp x21, x22, [sp, #16]
	stp x23, x24, [sp, #32]
	stp x25, x26, [sp, #48]
	stp x27, x28, [sp, #64]
	stp x29, x30, [sp, #80]
	mov x9, sp
	str x9, [x0, #TASK_SP]
	ldr x9, [x1, #TASK_SP]
	mov sp, x9
	ldp x21, x22, [sp, #16]
	ldp x23, x24, [sp, #32]
	ldp x25, x26, [sp, #48]
	ldp x27, x28, [sp, #64]
	ldp x29, x30, [sp, #80]
	ldp x19, x20, [sp], #96
	msr sp_el0, x1 /* `current` changes together with the return address */
	b __switch_to
end __switch_to_asm

/* A loop that jumps back into the first bytes of its function, for tests of jumps. */
function loop_into_head /* x0: a count above 0; returns the sum of 1..count */
	mov x1, xzr
1:	add x1, x1, x0
	subs x0, x0, #1
	b.ne 1b
	mov x0, x1
	ret
end loop_into_head
