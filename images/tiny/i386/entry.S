/* Entry and exit: exceptions, interrupts, INT 0x80, the context switch, a task's first instructions. */
#include "arch.h"
#include "offsets.h"

/* pt_regs */
#define GS 40
#define ORIG_AX 44

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
	pushl $0
	.endif
	pushl $\handler
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

function entry_INT80_32
	cld
	pushl %eax
	pushl $do_syscall
	jmp exception_common
end entry_INT80_32

function exception_common /* the handler's address is in the slot of gs */
	pushl %fs
	pushl %es
	pushl %ds
	pushl %eax
	pushl %ebp
	pushl %edi
	pushl %esi
	pushl %edx
	pushl %ecx
	pushl %ebx
	movl $KERNEL_DS, %ecx
	movl %ecx, %ds
	movl %ecx, %es
	movl $KERNEL_PERCPU, %ecx
	movl %ecx, %fs
	movl GS(%esp), %ecx
	movl $0, GS(%esp)
	movl ORIG_AX(%esp), %edx
	movl %esp, %eax
	call *%ecx
.Lreturn_from_exception:
	cli
	movl %esp, %eax
	call prepare_return
	popl %ebx
	popl %ecx
	popl %edx
	popl %esi
	popl %edi
	popl %ebp
	popl %eax
	popl %ds
	popl %es
	popl %fs
	addl $8, %esp
	iret
end exception_common

/* A new task's first instruction: eax = the task before, ebx = function of a kernel thread, esi = its argument. */
function ret_from_fork
	call schedule_tail
	testl %ebx, %ebx
	jz 1f
	movl %esi, %eax
	call *%ebx /* returns only if the thread became a program */
1:	jmp .Lreturn_from_exception
end ret_from_fork

	.text
function __switch_to_asm /* eax: previous task, edx: next */
	pushl %ebp
	pushl %ebx
	pushl %edi
	pushl %esi
	movl %esp, TASK_SP(%eax)
	movl TASK_SP(%edx), %esp
	popl %esi
	popl %edi
	popl %ebx
	popl %ebp
	jmp __switch_to
end __switch_to_asm

/* A loop that jumps back into the first bytes of its function: no jump fits over its entry. */
function loop_into_head /* eax: a count above 0; returns the sum of 1..count */
	xorl %ecx, %ecx
1:	addl %eax, %ecx
	decl %eax
	jnz 1b
	movl %ecx, %eax
	ret
end loop_into_head
