/* Boot code: from the machine's entry (privileged, addresses physical) to C. */
#include "arch.h"
#include "bare.h"
#include "offsets.h"
#include "asm.h"

	.globl current_task, __task_pid_offset, __task_comm_offset
	.set current_task, PERCPU_CURRENT
	.set __task_pid_offset, TASK_PID
	.set __task_comm_offset, TASK_COMM

#define BOOT_INFO (RAM_START + 0x1000)

	.section .head.text, "ax"
function _head /* r26: which CPU this is */
	.irp number, 0,1,2,3,4,5,6,7
	mtsp %r0, %sr\number
	.endr
	load vectors, %r1
	depwi 0, 1, 2, %r1
	mtctl %r1, %cr14
	mtctl %r0, %cr15
	copy %r0, %r27
	load percpu_areas, %r19
	depw,z %r26, 21, 22, %r20 /* PERCPU_SIZE */
	add,l %r19, %r20, %r19
	mtctl %r19, %cr28
	load tasks, %r20
	load boot_stacks, %r30
	depw,z %r26, 18, 19, %r21 /* KERNEL_STACK_SIZE */
	add,l %r30, %r21, %r30
	ldo FRAME_HEAD(%r30), %r30
	load kernel_pgd_table, %r21
	depwi 0, 1, 2, %r21
	mtctl %r21, %cr25
	/* On at the kernel's own addresses. */
	rsm PSW_Q, %r0
	load 1f, %r21
	mtctl %r0, %cr17
	mtctl %r0, %cr17
	mtctl %r21, %cr18
	ldo 4(%r21), %r21
	mtctl %r21, %cr18
	load PSW_KERNEL, %r21
	mtctl %r21, %cr22
	rfi
	nop
1:	ldi -1, %r21
	mtctl %r21, %cr15
	ldw PERCPU_CURRENT(%r19), %r20
	mtctl %r20, %cr30
	cmpb,<>,n %r0, %r26, .Lsecondary
	load BOOT_INFO, %r26
	load start_kernel, %r1
	bv,n %r0(%r1)

.Lsecondary: /* spins until the first CPU is ready */
	load secondary_may_start, %r21
2:	ldw 0(%r21), %r20
	cmpb,= %r0, %r20, 2b
	nop
	load start_secondary, %r1
	bv,n %r0(%r1)
end _head

/* The first 2 MiB, with the kernel. */
	.section .data..page_tables, "aw"
	.balign 4096
	.globl kernel_ptes
	.type kernel_ptes, @object
	.size kernel_ptes, 512 * WORD
kernel_ptes:
	.set .Lpage, 0
	.rept 512
	.word .Lpage | PTE_PRESENT | PTE_DIRTY | RIGHTS(3, 0, 0) << PTE_RIGHTS_SHIFT
	.set .Lpage, .Lpage + 4096
	.endr
	.balign 4096
	.globl kernel_pgd_table
kernel_pgd_table:
	.skip 4096

	.section .bss
	.balign 64
	.globl boot_stacks
boot_stacks:
	.skip KERNEL_STACK_SIZE * MAX_CPUS
