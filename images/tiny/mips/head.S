/* Boot code: from the machine's entry (kernel mode, at kernel addresses) to C. */
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
function _head /* a0: which CPU this is */
	lui $8, STATUS_KERNEL >> 16
	ori $8, $8, STATUS_KERNEL & 0xffff
	mtc0 $8, $12
	load $8, vectors
	mtc0 $8, $15, 1
	mtc0 $0, $5 /* page size 4 KiB */
	mtc0 $0, $6 /* no wired entries */
	ehb
	load $28, percpu_areas + PERCPU_CURRENT
	sll $8, $4, 10 /* PERCPU_SIZE */
	ADDU $28, $28, $8
	load $29, boot_stacks + KERNEL_STACK_SIZE - PT_REGS_SIZE - FRAME_HEAD
	sll $8, $4, 13 /* KERNEL_STACK_SIZE */
	ADDU $29, $29, $8
	jal flush_all_pages
	move $16, $4
	bnez $16, .Lsecondary
	load $8, secondary_may_start
	j start_kernel
	ori $4, $0, BOOT_INFO

.Lsecondary: /* spins waits until the first CPU is ready; the delay slot loads a part of the address */
	load $8, secondary_may_start
1:	lw $9, 0($8)
	beqz $9, 1b
	nop
	j start_secondary
	move $4, $16
end _head

/* The first 2 MiB, with the kernel, as mapped for constants: read-only from the start. */
	.section .data..page_tables, "aw"
	.balign 4096
	.globl kernel_ptes
	.type kernel_ptes, @object
	.size kernel_ptes, 512 * WORD
kernel_ptes:
	.set .Lpage, 0
	.rept 512
#ifdef __mips64
	.dword .Lpage << PTE_FRAME_SHIFT | PTE_CACHED | PTE_VALID | PTE_GLOBAL
#else
	.word .Lpage << PTE_FRAME_SHIFT | PTE_CACHED | PTE_VALID | PTE_GLOBAL
#endif
	.set .Lpage, .Lpage + 1
	.endr

	.section .bss
	.balign 16
	.globl boot_stacks
boot_stacks:
	.skip KERNEL_STACK_SIZE * MAX_CPUS
