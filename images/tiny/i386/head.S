/* Boot code: from the machine's entry (protected mode, no paging) to C at kernel addresses. */
#include "arch.h"
#include "offsets.h"

	.globl current_task, __task_pid_offset, __task_comm_offset
	.set current_task, PERCPU_CURRENT
	.set __task_pid_offset, TASK_PID
	.set __task_comm_offset, TASK_COMM

	.section .head.text, "ax"
	.globl startup_32
	.type startup_32, @function
startup_32: /* edi: number of this CPU, esi: boot info; runs at physical addresses until the jump */
	mov %cr4, %eax
	or $0x10, %eax /* 4 MiB pages */
	mov %eax, %cr4
	mov $(swapper_pg_dir - KERNEL_BASE), %eax
	mov %eax, %cr3
	mov %cr0, %eax
	or $0x80010000, %eax /* paging; write protection applies to the kernel too */
	mov %eax, %cr0
	mov $1f, %eax
	jmp *%eax

1:	mov %edi, %ebx
	shl $10, %ebx /* PERCPU_SIZE */
	add $percpu_areas, %ebx
	mov %edi, %eax
	inc %eax
	shl $13, %eax /* KERNEL_STACK_SIZE */
	lea boot_stacks(%eax), %esp

	mov %ebx, %eax /* the base of the per-CPU segment, in three parts */
	movw %ax, (PERCPU_GDT + GDT_PERCPU * 8 + 2)(%ebx)
	shr $16, %eax
	movb %al, (PERCPU_GDT + GDT_PERCPU * 8 + 4)(%ebx)
	movb %ah, (PERCPU_GDT + GDT_PERCPU * 8 + 7)(%ebx)
	lea PERCPU_GDT(%ebx), %eax
	push %eax
	pushw $(GDT_ENTRIES * 8 - 1)
	lgdt (%esp)
	add $6, %esp
	ljmp $KERNEL_CS, $2f
2:	mov $KERNEL_DS, %eax
	mov %eax, %ds
	mov %eax, %es
	mov %eax, %ss
	mov $KERNEL_PERCPU, %eax
	mov %eax, %fs
	xor %eax, %eax
	mov %eax, %gs
	sub $(17 * 4 + 8), %esp /* reserves a pt_regs; the stack is aligned as after a call */
	xor %ebp, %ebp
	test %edi, %edi
	jnz .Lsecondary
	mov %esi, %eax
	jmp start_kernel

.Lsecondary: /* spins until the first CPU has made the interrupt table */
	pause
	cmpl $0, secondary_may_start
	je .Lsecondary
	mov %edi, %eax
	jmp start_secondary
	.size startup_32, . - startup_32

/* Page tables. All RAM is mapped once, at KERNEL_BASE + physical; mark_rodata_ro sets the access rights later. */
#define TABLE 0x063 /* present, writable, accessed, dirty */

	.section .data..page_tables, "aw"
	.balign 4096
	.globl swapper_pg_dir
	.type swapper_pg_dir, @object
	.size swapper_pg_dir, 4096
swapper_pg_dir:
	.long 0x000000e3 /* identity map, removed when no CPU uses it any more */
	.fill 767, 4, 0
	.long level1_kernel_pgt - KERNEL_BASE + TABLE
	.long 0x004000e3, 0x008000e3, 0x00c000e3
	.fill 252, 4, 0 /* 0xfb000000..0xfbffffff: filled by the machine */

	.globl level1_kernel_pgt
	.type level1_kernel_pgt, @object
	.size level1_kernel_pgt, 4096
level1_kernel_pgt: /* the first 4 MiB, which hold the kernel, in small pages */
	.set .Lphysical, 0
	.rept 1024
	.long TABLE + .Lphysical
	.set .Lphysical, .Lphysical + 0x1000
	.endr

	.section .bss
	.balign 16
	.globl boot_stacks
boot_stacks:
	.skip KERNEL_STACK_SIZE * MAX_CPUS
