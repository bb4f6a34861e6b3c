/* Entry and exit: exceptions, interrupts, the context switch, a task's first instructions. */
#include "arch.h"
#include "offsets.h"

#define R(number) FRAME_HEAD + 8 * number
#define FLAGS FRAME_HEAD + 128
#define LENGTH FRAME_HEAD + 144

	.macro function name
	.globl \name
	.type \name, @function
\name:
	.endm
	.macro end name
	.size \name, . - \name
	.endm

	.section .entry.text, "ax"
	/* Exception entry with translation off. No register is free, so only the lowcore at address 0 can be addressed. */
	.macro first name goes
function \name
	stmg %r8, %r15, LOW_SAVED
	lpswe \goes
end \name
	.endm
	first external_first LOW_EXTERNAL_GOES
	first call_first LOW_CALL_GOES
	first program_first LOW_PROGRAM_GOES

	/* Translation on. Returns the address of pt_regs in r2, and the lowcore in r14. */
	.macro save_registers old
	llilh %r14, KERNEL_BASE >> 16
	lg %r15, LOW_SAVED + 56(%r14)
	lgr %r13, %r15
	tm \old + 1(%r14), PSW_PROBLEM >> 48
	je 1f
	lg %r15, LOW_PERCPU(%r14)
	lg %r15, PERCPU_KERNEL_SP(%r15)
1:	aghi %r15, -(PT_REGS_SIZE + FRAME_HEAD)
	stmg %r0, %r7, R(0)(%r15)
	mvc R(8)(64, %r15), LOW_SAVED(%r14)
	mvc FLAGS(16, %r15), \old(%r14)
	stg %r13, 152(%r15)
	la %r2, FRAME_HEAD(%r15)
	.endm

function call_entry
	save_registers LOW_CALL_OLD
	lghi %r3, 0x100
	lghi %r4, 0
	brasl %r14, do_trap
	jg return_from_exception
end call_entry

function program_entry
	save_registers LOW_PROGRAM_OLD
	llgh %r3, LOW_PROGRAM_CODE(%r14)
	llgh %r4, LOW_PROGRAM_LENGTH(%r14)
	stg %r4, LENGTH(%r15)
	lg %r4, LOW_FAULT(%r14)
	nill %r4, 0xf000
	brasl %r14, do_trap
	jg return_from_exception
end program_entry

function external_entry
	save_registers LOW_EXTERNAL_OLD
	ni FLAGS + 1(%r15), 0xff - (PSW_WAITS >> 48) /* it waits no more */
	brasl %r14, do_interrupt
	jg return_from_exception
end external_entry

function return_from_exception
	stnsm 8(%r15), 0xfc
	la %r2, FRAME_HEAD(%r15)
	brasl %r14, prepare_return
	llilh %r14, KERNEL_BASE >> 16
	mvc LOW_REGISTERS(128, %r14), R(0)(%r15)
	mvc LOW_RETURN(16, %r14), FLAGS(%r15)
	lpswe LOW_RETURN_GOES(%r14)
end return_from_exception

	/* Translation off again; all state is in the lowcore. */
function return_last
	lmg %r0, %r15, LOW_REGISTERS
	lpswe LOW_RETURN
end return_last

/* A new task's first instruction: r2 = the task before, r6 = function of a kernel thread, r7 = its argument. */
function ret_from_fork
	brasl %r14, schedule_tail
	cgije %r6, 0, 1f
	lgr %r2, %r7
	basr %r14, %r6 /* returns only if the thread became a program */
1:	jg return_from_exception
end ret_from_fork

	.section .noinstr.text, "ax"
function local_irq_restore /* r2: what STNSM has stored */
	stc %r2, 72(%r15)
	ssm 72(%r15)
	br %r14
end local_irq_restore

	.text
function __switch_to_asm /* r2: previous task, r3: next */
	stmg %r6, %r14, 48(%r15)
	stg %r15, TASK_SP(%r2)
	lg %r15, TASK_SP(%r3)
	stgrl %r3, lowcore_current /* `current` changes together with the return address */
	lmg %r6, %r14, 48(%r15)
	jg __switch_to
end __switch_to_asm

/* A loop that jumps back into the first bytes of its function, for tests of jumps. */
function loop_into_head /* r2: a count above 0; returns the sum of 1..count */
	lghi %r1, 0
1:	algr %r1, %r2
	brctg %r2, 1b
	lgr %r2, %r1
	br %r14
end loop_into_head
