/* Entry and exit: TLB misses, exceptions, interrupts, the context switch, a task's first instructions. */
#include "arch.h"
#include "offsets.h"
#include "asm.h"

#define PERCPU_SAVED (9 * WORD)
#define PERCPU_SPACE (8 * WORD)
/* Offsets in the area behind PERCPU_SAVED. */
#define SAVED_PSW 0
#define SAVED_FRONT 4
#define SAVED_BACK 8
#define SAVED_WORD 12
#define SAVED_ADDRESS 16
#define SAVED_CAUSE 20

	.section .entry.text, "ax"
	.balign 4096
	.globl vectors
	.type vectors, @object
vectors:
	.macro vector number, target
	.org vectors + 32 * \number
	b \target
	ldi \number, %r1
	.endm
	vector 1, exception_entry
	vector 2, exception_entry
	vector 3, exception_entry
	vector 4, exception_entry
	vector 5, exception_entry
	vector 6, code_miss
	vector 7, exception_entry
	vector 8, exception_entry
	vector 9, exception_entry
	vector 10, exception_entry
	vector 11, exception_entry
	vector 12, exception_entry
	vector 13, exception_entry
	vector 14, exception_entry
	vector 15, data_miss
	vector 16, exception_entry
	vector 17, data_miss
	vector 18, exception_entry
	vector 19, exception_entry
	vector 20, exception_entry
	vector 21, exception_entry
	vector 22, exception_entry
	vector 23, exception_entry
	vector 24, exception_entry
	vector 25, exception_entry
	vector 26, exception_entry
	vector 27, exception_entry
	vector 28, exception_entry
	.org vectors + 1024
	.size vectors, . - vectors

	/* For the test that removes the vectors: every exception raises another one. */
	.balign 4096
	.globl no_vectors
	.type no_vectors, @object
no_vectors:
	.rept 256
	.word 0xfc000000
	.endr
	.size no_vectors, . - no_vectors

/* The entry of an address. r8: the address, r1: the number of the interruption. */
function code_miss
	mfctl %cr17, %r9
	mfctl %cr18, %r8
	depwi 0, 31, 2, %r8
	b,n 1f
data_miss:
	mfctl %cr20, %r9
	mfctl %cr21, %r8
1:	extrw,u %r8, 1, 2, %r16
	ldi 3, %r17
	cmpb,=,n %r16, %r17, .Lkernel
	/* A program's: from USER_BASE, 512 pages. */
	extrw,u %r8, 10, 11, %r16
	ldi 2, %r17 /* USER_BASE >> 21 */
	cmpb,<>,n %r16, %r17, exception_entry
	mfctl %cr25, %r17
	b .Lload
	extrw,u %r8, 19, 9, %r16
.Lkernel:
	extrw,u %r8, 10, 9, %r16
	cmpb,<>,n %r0, %r16, .Llinear
	load kernel_ptes, %r17
	depwi 0, 1, 2, %r17
	extrw,u %r8, 19, 9, %r16
.Lload:	ldw,s %r16(%r17), %r16
	bb,>=,n %r16, 31, .Lnone
.Linsert:
	mtsp %r9, %sr1
	extrw,u %r16, 19, 20, %r17
	depw,z %r17, 26, 27, %r17
	idtlba %r17, (%sr1, %r8)
	extrw,u %r16, 29, 7, %r17
	depw,z %r17, 11, 12, %r17
	extrw,u %r16, 30, 1, %r16
	depw %r16, 3, 1, %r17
	idtlbp %r17, (%sr1, %r8)
	rfi,r
.Llinear: /* the rest of memory, and the ports, of which some addresses are none */
	extrw,u %r8, 7, 6, %r16
	ldi 3, %r17 /* NOWHERE >> 24 */
	cmpb,=,n %r16, %r17, .Lnone
	copy %r8, %r16
	depwi 0, 1, 2, %r16
	depwi 0, 31, 12, %r16
	ldi PTE_PRESENT | PTE_DIRTY | RIGHTS(1, 0, 0) << PTE_RIGHTS_SHIFT, %r17
	b .Linsert
	or %r16, %r17, %r16
.Lnone:	b,n exception_entry
end code_miss

/* r1: the number of the interruption. Addresses are physical, and seven registers free. */
function exception_entry
	mfctl %cr28, %r8
	depwi 0, 1, 2, %r8
	ldo PERCPU_SAVED(%r8), %r8
	stw %r1, SAVED_CAUSE(%r8)
	mfctl %cr22, %r9
	stw %r9, SAVED_PSW(%r8)
	mfctl %cr18, %r9
	stw %r9, SAVED_FRONT(%r8)
	mtctl %r0, %cr18
	mfctl %cr18, %r16
	stw %r16, SAVED_BACK(%r8)
	mfctl %cr19, %r16
	stw %r16, SAVED_WORD(%r8)
	mfctl %cr21, %r16
	extrw,u %r1, 30, 31, %r17
	addib,<>,n -3, %r17, 1f /* neither 6 nor 7 */
	copy %r9, %r16 /* the address of an instruction */
	depwi 0, 31, 2, %r16
1:	stw %r16, SAVED_ADDRESS(%r8)
	/* On at the kernel's own addresses, with all registers as they were. */
	load exception_saves, %r9
	mtctl %r0, %cr17
	mtctl %r0, %cr17
	mtctl %r9, %cr18
	ldo 4(%r9), %r9
	mtctl %r9, %cr18
	load PSW_KERNEL, %r9
	mtctl %r9, %cr22
	rfi,r
end exception_entry

function exception_saves
	mtctl %r1, %cr24
	mtctl %r30, %cr29
	mfctl %cr28, %r1
	ldw PERCPU_SAVED + SAVED_FRONT(%r1), %r1
	extrw,u,= %r1, 31, 2, %r1
	b,n 1f
	/* In the kernel: behind the stack pointer. */
	ldo 63(%r30), %r30
	b 2f
	depwi 0, 31, 6, %r30
1:	mfctl %cr28, %r1
	ldw PERCPU_KERNEL_SP(%r1), %r30
2:	.irp number, 2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,31
	stw %r\number, \number * WORD(%r30)
	.endr
	mfctl %cr28, %r3
	mfctl %cr24, %r1
	stw %r1, 1 * WORD(%r30)
	mfctl %cr29, %r1
	stw %r1, 30 * WORD(%r30)
	mfctl %cr11, %r1
	stw %r1, PT_SAR(%r30)
	ldw PERCPU_SAVED + SAVED_PSW(%r3), %r1
	ldw PERCPU_SAVED + SAVED_FRONT(%r3), %r4
	extrw,u,= %r4, 31, 2, %r0
	depwi 1, 1, 1, %r1 /* PSW_USER */
	stw %r1, 0(%r30)
	depwi 0, 31, 2, %r4
	stw %r4, PT_IP(%r30)
	stw %r4, PT_ENTERED_AT(%r30)
	ldw PERCPU_SAVED + SAVED_BACK(%r3), %r4
	depwi 0, 31, 2, %r4
	stw %r4, PT_NEXT_IP(%r30)
	ldw PERCPU_SAVED + SAVED_WORD(%r3), %r4
	stw %r4, PT_WORD(%r30)
	ldw PERCPU_SAVED + SAVED_ADDRESS(%r3), %r24
	stw %r24, PT_ADDRESS(%r30)
	ldw PERCPU_SAVED + SAVED_CAUSE(%r3), %r25
	stw %r25, PT_CAUSE(%r30)
	copy %r0, %r27
	mtsp %r0, %sr4
	copy %r30, %r26
	copy %r30, %r3
	ldo PT_REGS_SIZE + FRAME_HEAD(%r30), %r30
	ldi 4, %r1
	cmpb,=,n %r1, %r25, 3f
	load do_trap, %r1
	load return_from_exception, %rp
	bv,n %r0(%r1)
3:	mfctl %cr23, %r1
	mtctl %r1, %cr23
	load do_interrupt, %r1
	load return_from_exception, %rp
	bv,n %r0(%r1)
end exception_saves

/* r3: the saved registers. Its end is in one page: no instruction there may miss the TLB. */
	.balign 512
function return_from_exception
	rsm PSW_I, %r0
	copy %r3, %r26
	load prepare_return, %r1
	ble 0(%sr7, %r1)
	copy %r31, %rp
	/* Another place to continue at than before is followed by the next instruction. */
	ldw PT_IP(%r3), %r4
	ldw PT_ENTERED_AT(%r3), %r5
	ldw PT_NEXT_IP(%r3), %r6
	ldw 0(%r3), %r7
	cmpb,=,n %r4, %r5, 1f
	ldo 4(%r4), %r6
	depwi 0, 10, 1, %r7 /* PSW_N */
1:	ldi 0, %r8
	extrw,u,= %r7, 1, 1, %r9
	b,n 2f
	b,n 3f
2:	depwi 3, 31, 2, %r4
	depwi 3, 31, 2, %r6
	mfsp %sr3, %r8
	mtsp %r8, %sr4
	depwi 0, 1, 1, %r7
3:	/* The queue's registers are written while no interruption writes them. */
	.irp number, 2,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,31
	ldw \number * WORD(%r3), %r\number
	.endr
	ldw PT_SAR(%r3), %r1
	mtsar %r1
	copy %r3, %r30
	/* All that may miss the TLB comes first; from here on registers have what is needed. */
	mtctl %r8, %cr24
	mtctl %r4, %cr29
	ldw 1 * WORD(%r30), %r1
	ldw 3 * WORD(%r30), %r3
	ldw 4 * WORD(%r30), %r4
	ldw 5 * WORD(%r30), %r5
	ldw 8 * WORD(%r30), %r8
	ldw 9 * WORD(%r30), %r9
	rsm PSW_Q, %r0
	mtctl %r7, %cr22
	mfctl %cr24, %r7
	mtctl %r7, %cr17
	mtctl %r7, %cr17
	mfctl %cr29, %r7
	mtctl %r7, %cr18
	mtctl %r6, %cr18
	ldw 6 * WORD(%r30), %r6
	ldw 7 * WORD(%r30), %r7
	ldw 30 * WORD(%r30), %r30
	rfi
end return_from_exception

/* A new task's first instruction: r28 = the task before, r3 = function of a kernel thread, r4 = its argument. */
function ret_from_fork
	load schedule_tail, %r1
	ble 0(%sr7, %r1)
	copy %r31, %rp
	cmpb,=,n %r0, %r3, 1f
	copy %r4, %r26
	ble 0(%sr7, %r3) /* returns only if the thread became a program */
	copy %r31, %rp
1:	mfctl %cr28, %r1
	b return_from_exception
	ldw PERCPU_KERNEL_SP(%r1), %r3
end ret_from_fork

	.text
function __switch_to_asm /* r26: previous task, r25: next */
	.irp number, 3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18
	stw %r\number, (\number - 3) * WORD(%r30)
	.endr
	stw %rp, 16 * WORD(%r30)
	ldo 128(%r30), %r30
	stw %r30, TASK_SP(%r26)
	ldw TASK_SP(%r25), %r30
	ldo -128(%r30), %r30
	.irp number, 3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18
	ldw (\number - 3) * WORD(%r30), %r\number
	.endr
	ldw 16 * WORD(%r30), %rp
	ldil L%__switch_to, %r1
	be R%__switch_to(%sr7, %r1)
	mtctl %r25, %cr30 /* `current` changes together with the return address */
end __switch_to_asm

/* A loop that jumps back into the first bytes of its function, for tests of jumps. */
function loop_into_head /* r26: a count above 0; returns the sum of 1..count */
	copy %r0, %r28
1:	add,l %r28, %r26, %r28
	addib,<> -1, %r26, 1b
	nop
	bv,n %r0(%rp)
end loop_into_head
