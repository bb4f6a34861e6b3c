/* Entry and exit: exceptions, interrupts, the context switch, a task's first instructions. */
#include "arch.h"
#include "offsets.h"
#include "asm.h"

#define X(number) ((number) * WORD)
#define SP X(2)
#define GP X(3)
#define TP X(4)

	.section .entry.text, "ax"
	.balign 4
	.globl exception_entry
	.type exception_entry, @function
exception_entry:
	csrrw tp, sscratch, tp
	bnez tp, 1f
	csrr tp, sscratch /* from the kernel: tp is the task */
	REG_S sp, SP - PT_REGS_SIZE(sp)
	addi sp, sp, -PT_REGS_SIZE
	j 2f
1:	REG_S sp, TASK_SP(tp) /* from a program: the field is free while the task runs */
	REG_L sp, TASK_STACK(tp)
	.rept 4
	addi sp, sp, (KERNEL_STACK_SIZE - PT_REGS_SIZE) / 4
	.endr
2:	REG_S x1, X(1)(sp)
	REG_S gp, GP(sp)
	.irp number, 5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
	REG_S x\number, X(\number)(sp)
	.endr
	csrrw t0, sscratch, zero
	REG_S t0, TP(sp)
	csrr s0, sepc
	csrr s1, sstatus
	csrr a2, stval
	csrr a1, scause
	REG_S s0, 0(sp)
	REG_S s1, PT_STATUS(sp)
	REG_S a2, PT_ADDRESS(sp)
	REG_S a1, PT_CAUSE(sp)
	andi t0, s1, STATUS_SPP
	bnez t0, 3f
	REG_L t0, TASK_SP(tp)
	REG_S t0, SP(sp)
	REG_L gp, PT_PERCPU(sp)
3:	mv a0, sp
	bltz a1, 4f
	call do_trap
	j return_from_exception
4:	call do_interrupt
	.size exception_entry, . - exception_entry

function return_from_exception
	csrci sstatus, STATUS_SIE
	mv a0, sp
	call prepare_return
	REG_L s1, PT_STATUS(sp)
	REG_L s0, 0(sp)
	andi t0, s1, STATUS_SPP
	bnez t0, 1f /* in the kernel gp belongs to the CPU, and the task may have migrated */
	REG_S gp, PT_PERCPU(sp)
	csrw sscratch, tp
	REG_L gp, GP(sp)
	REG_L tp, TP(sp)
1:	csrw sstatus, s1
	csrw sepc, s0
	REG_L x1, X(1)(sp)
	.irp number, 5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
	REG_L x\number, X(\number)(sp)
	.endr
	REG_L sp, SP(sp)
	sret
end return_from_exception

/* A new task's first instruction: a0 = the task before, s0 = function of a kernel thread, s1 = its argument. */
function ret_from_fork
	call schedule_tail
	beqz s0, 1f
	mv a0, s1
	jalr s0 /* returns only if the thread became a program */
1:	j return_from_exception
end ret_from_fork

	/* Saves or restores what a called function keeps. */
	.macro kept what
	.irp number, 8,9
	\what x\number, X(\number - 8)(sp)
	.endr
	.irp number, 18,19,20,21,22,23,24,25,26,27
	\what x\number, X(\number - 16)(sp)
	.endr
	\what ra, X(12)(sp)
	.endm

	.text
function __switch_to_asm /* a0: previous task, a1: next */
	addi sp, sp, -16 * WORD
	kept REG_S
	REG_S sp, TASK_SP(a0)
	REG_L sp, TASK_SP(a1)
	kept REG_L
	addi sp, sp, 16 * WORD
	mv tp, a1 /* `current` changes together with the return address */
	tail __switch_to
end __switch_to_asm

/* A loop that jumps back into the first bytes of its function, for tests of jumps. */
function loop_into_head /* a0: a count above 0; returns the sum of 1..count */
	li a1, 0
1:	add a1, a1, a0
	addi a0, a0, -1
	bnez a0, 1b
	mv a0, a1
	ret
end loop_into_head
