/* Entry and exit: exceptions, interrupts, SYSCALL, the context switch, a task's first instructions. */
#include "arch.h"
#include "offsets.h"

/* pt_regs */
#define ORIG_AX 120
#define CS 136

	.macro push_registers_behind_di
	pushq %rsi
	pushq %rdx
	pushq %rcx
	pushq %rax
	pushq %r8
	pushq %r9
	pushq %r10
	pushq %r11
	pushq %rbx
	pushq %rbp
	pushq %r12
	pushq %r13
	pushq %r14
	pushq %r15
	.endm

	.macro pop_registers_before_di
	popq %r15
	popq %r14
	popq %r13
	popq %r12
	popq %rbp
	popq %rbx
	popq %r11
	popq %r10
	popq %r9
	popq %r8
	popq %rax
	popq %rcx
	popq %rdx
	popq %rsi
	.endm

	.macro function name
	.globl \name
	.type \name, @function
\name:
	.endm
	.macro end name
	.size \name, . - \name
	.endm

/* An exception or interrupt: handler(pt_regs, error code). */
	.macro entry name handler error_code=0
	function \name
	cld
	.if \error_code == 0
	pushq $0
	.endif
	pushq $\handler
	jmp exception_common
	end \name
	.endm

	.section .entry.text, "ax"
entry asm_divide_error do_unexpected_trap
entry asm_debug do_unexpected_trap
entry asm_int3 do_int3
entry asm_invalid_op do_invalid_op
entry asm_double_fault do_double_fault error_code=1
entry asm_general_protection do_general_protection error_code=1
entry asm_page_fault do_page_fault error_code=1
entry asm_unexpected do_unexpected_trap
entry asm_timer_interrupt do_timer_interrupt
entry asm_reschedule_interrupt do_reschedule_interrupt

function exception_common /* the handler's address is in the slot of di */
	xchg %rdi, (%rsp)
	push_registers_behind_di
	mov %rdi, %rbx
	testb $3, CS(%rsp)
	jz 1f
	swapgs
1:	mov %rsp, %rdi
	mov ORIG_AX(%rsp), %rsi
	call *%rbx
.Lreturn_from_exception:
	cli
	mov %rsp, %rdi
	call prepare_return
	testb $3, CS(%rsp)
	jz 1f
	swapgs
1:	pop_registers_before_di
	popq %rdi
	add $8, %rsp
	iretq
end exception_common

function entry_SYSCALL_64
	swapgs
	mov %rsp, %gs:PERCPU_USER_SP
	mov %gs:PERCPU_KERNEL_SP, %rsp
	pushq $USER_DS
	pushq %gs:PERCPU_USER_SP
	pushq %r11
	pushq $USER_CS
	pushq %rcx
	pushq %rax
	pushq %rdi
	push_registers_behind_di
	mov %rsp, %rdi
	call do_syscall
	cli
	mov %rsp, %rdi
	call prepare_return
	pop_registers_before_di
	popq %rdi
	add $8, %rsp
	popq %rcx
	add $8, %rsp
	popq %r11
	popq %rsp
	swapgs
	sysretq
end entry_SYSCALL_64

/* A new task's first instruction: rax = the task before, rbx = function of a kernel thread, r12 = its argument. */
function ret_from_fork
	mov %rax, %rdi
	call schedule_tail
	test %rbx, %rbx
	jz 1f
	mov %r12, %rdi
	call *%rbx /* returns only if the thread became a program */
1:	jmp .Lreturn_from_exception
end ret_from_fork

	.text
function __switch_to_asm /* rdi: previous task, rsi: next */
	pushq %rbp
	pushq %rbx
	pushq %r12
	pushq %r13
	pushq %r14
	pushq %r15
	movq %rsp, TASK_SP(%rdi)
	movq TASK_SP(%rsi), %rsp
	popq %r15
	popq %r14
	popq %r13
	popq %r12
	popq %rbx
	popq %rbp
	jmp __switch_to
end __switch_to_asm

/* A loop that jumps back into the first bytes of its function: no jump fits over its entry. */
function loop_into_head /* rdi: a count above 0; returns the sum of 1..count */
	xorl %eax, %eax
1:	addq %rdi, %rax
	decq %rdi
	jnz 1b
	ret
end loop_into_head
