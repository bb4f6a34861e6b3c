/* Boot code: from the machine's entry (long mode, identity map) to C at kernel addresses. */
#include "arch.h"
#include "offsets.h"

#define MSR_EFER 0xc0000080
#define MSR_GS_BASE 0xc0000101

	.globl current_task, __task_pid_offset, __task_comm_offset
	.set current_task, PERCPU_CURRENT
	.set __task_pid_offset, TASK_PID
	.set __task_comm_offset, TASK_COMM

	.section .head.text, "ax"
	.globl startup_64
	.type startup_64, @function
startup_64: /* rdi: number of this CPU, rsi: boot info; runs at physical addresses until the jump */
	mov %edi, %ebx
	mov %rsi, %rbp
	mov $MSR_EFER, %ecx
	rdmsr
	or $0x801, %eax /* SYSCALL and NX */
	wrmsr
	mov $(init_top_pgt - KERNEL_BASE), %eax
	mov %rax, %cr3
	mov %cr0, %rax
	or $0x10000, %eax /* write protection applies to the kernel too */
	mov %rax, %cr0
	mov $1f, %rax
	jmp *%rax

1:	mov %ebx, %eax
	shl $10, %eax /* PERCPU_SIZE */
	lea percpu_areas(%rip), %r12
	add %rax, %r12
	mov %ebx, %eax
	inc %eax
	shl $13, %eax /* KERNEL_STACK_SIZE */
	lea boot_stacks(%rip), %rsp
	add %rax, %rsp

	lea PERCPU_GDT(%r12), %rax
	push %rax
	pushw $(GDT_ENTRIES * 8 - 1)
	lgdt (%rsp)
	add $10, %rsp
	mov $KERNEL_DS, %eax
	mov %eax, %ds
	mov %eax, %es
	mov %eax, %ss
	xor %eax, %eax
	mov %eax, %fs
	mov %eax, %gs
	pushq $KERNEL_CS
	pushq $2f
	lretq

2:	mov %r12, %rax
	mov %r12, %rdx
	shr $32, %rdx
	mov $MSR_GS_BASE, %ecx
	wrmsr
	sub $(21 * 8 + 8), %rsp /* reserves a pt_regs; the stack is aligned as after a call */
	test %ebx, %ebx
	jnz .Lsecondary
	mov %rbp, %rdi
	xor %ebp, %ebp
	jmp start_kernel

.Lsecondary: /* spins until the first CPU has made the interrupt table */
	pause
	cmpl $0, secondary_may_start(%rip)
	je .Lsecondary
	mov %rbx, %rdi
	xor %ebp, %ebp
	jmp start_secondary
	.size startup_64, . - startup_64

/* Page tables. All RAM is mapped once, at KERNEL_BASE + physical; mark_rodata_ro sets the access rights later. */
#define TABLE 0x063 /* present, writable, accessed, dirty */

	.section .data..page_tables, "aw"
	.macro page_table name
	.balign 4096
	.globl \name
	.type \name, @object
	.size \name, 4096
\name:
	.endm

page_table init_top_pgt
	.quad level3_ident_pgt - KERNEL_BASE + TABLE /* removed when no CPU uses it any more */
	.fill 510, 8, 0
	.quad level3_kernel_pgt - KERNEL_BASE + TABLE
page_table level3_ident_pgt
	.quad level2_ident_pgt - KERNEL_BASE + TABLE
	.fill 511, 8, 0
page_table level2_ident_pgt
	.quad 0x1e3
	.fill 511, 8, 0
page_table level3_kernel_pgt
	.fill 510, 8, 0
	.quad level2_kernel_pgt - KERNEL_BASE + TABLE
	.quad 0
page_table level2_kernel_pgt /* shared by all address spaces; its last 16 entries are the machine's */
	.fill 8, 8, 0
	.quad level1_kernel_pgt - KERNEL_BASE + TABLE
	.set .Lphysical, 0x200000
	.rept 7
	.quad 0x80000000000000e3 + .Lphysical
	.set .Lphysical, .Lphysical + 0x200000
	.endr
	.fill 496, 8, 0
page_table level1_kernel_pgt /* the first 2 MiB, which hold the kernel, in small pages */
	.set .Lphysical, 0
	.rept 512
	.quad TABLE + .Lphysical
	.set .Lphysical, .Lphysical + 0x1000
	.endr

	.section .bss
	.balign 16
	.globl boot_stacks
boot_stacks:
	.skip KERNEL_STACK_SIZE * MAX_CPUS
