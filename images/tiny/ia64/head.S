/* Boot code: from the machine's entry (the kernel's level, addresses physical) to C. */
#include "arch.h"
#include "bare.h"
#include "offsets.h"
#include "asm.h"

	.globl current_task, __task_pid_offset, __task_comm_offset
	.set current_task, PERCPU_CURRENT
	.set __task_pid_offset, TASK_PID
	.set __task_comm_offset, TASK_COMM

#define BOOT_INFO (RAM_START + 0x1000)
#define PAGE_4K 12
#define PAGE_64K 16
#define PAGE_256K 18
#define PAGE_1M 20
#define PAGE_4M 22

	/* Translation register `number` for data (d) or instructions (i). */
	.macro pin kind, number, physical, bits, rights
	movl r14 = KERNEL_BASE + \physical
	movl r15 = \physical + PTE_PAGE + \rights
	mov r16 = \bits << 2
	mov r17 = \number
	;;
	mov cr.ifa = r14
	mov cr.itir = r16
	;;
	itr.\kind \kind\()tr[r17] = r15
	;;
	.endm

	.section .head.text, "ax"
function _head /* r8: which CPU this is */
	rsm psr.i | psr.ic
	;;
	srlz.i
	;;
	/* Regions: identifiers 1 to 8, pages of 4 KiB, no walker. */
	.irp region, 0,1,2,3,4,5,6,7
	movl r14 = \region << 61
	movl r15 = (\region + 1) << 8 | PAGE_4K << 2
	;;
	mov rr[r14] = r15
	.endr
	;;
	srlz.i
	;;
	pin i, 0, 0x100000, PAGE_256K, PTE_RUNS
	pin d, 0, 0, PAGE_1M, PTE_WRITES
	pin d, 1, 0x100000, PAGE_256K, PTE_READS
	pin d, 2, 0x140000, PAGE_256K, PTE_READS
	pin d, 3, 0x180000, PAGE_256K, PTE_WRITES
	pin d, 4, 0x1c0000, PAGE_256K, PTE_WRITES
	pin d, 5, 0x200000, PAGE_1M, PTE_WRITES
	pin d, 6, 0x300000, PAGE_1M, PTE_WRITES
	pin d, 7, 0x400000, PAGE_4M, PTE_WRITES
	pin d, 8, 0x800000, PAGE_4M, PTE_WRITES
	pin d, 9, 0xc00000, PAGE_4M, PTE_WRITES
	pin d, 10, 0x9000000, PAGE_64K, PTE_WRITES + PTE_UNCACHED
	srlz.i
	;;
	movl r14 = vectors
	movl r15 = percpu_areas
	movl r16 = no_program
	mov r17 = PERCPU_SIZE
	shl r18 = r8, 10 /* PERCPU_SIZE */
	;;
	mov r20 = 0x3f00 /* speculative loads defer their interruptions */
	;;
	mov cr.iva = r14
	mov cr.dcr = r20
	add r15 = r15, r18
	;;
	mov ar.k3 = r15
	mov ar.k7 = r16
	movl r19 = boot_stacks
	shl r18 = r8, 13 /* KERNEL_STACK_SIZE */
	;;
	add r19 = r19, r18
	mov ar.rsc = 0
	;;
	loadrs
	;;
	mov ar.bspstore = r19
	;;
	mov ar.rnat = r0
	mov ar.unat = r0
	movl r20 = KERNEL_STACK_SIZE - FRAME_HEAD
	;;
	add r12 = r19, r20
	/* On at the kernel's own addresses. */
	movl r14 = PSR_KERNEL
	movl r15 = 1f
	;;
	mov cr.ipsr = r14
	mov cr.iip = r15
	mov cr.ifs = r0
	;;
	rfi
	;;
1:	alloc r14 = ar.pfs, 0, 0, 1, 0
	mov r15 = ar.k3
	;;
	adds r16 = PERCPU_CURRENT, r15
	;;
	ld8 r16 = [r16]
	;;
	mov ar.k6 = r16
	mov ar.pfs = r0
	cmp.ne p6, p7 = r0, r8
	;;
	(p6) br.cond.spnt .Lsecondary
	;;
	mov r32 = BOOT_INFO
	br.call.sptk.many b0 = start_kernel
	;;

.Lsecondary: /* spins until the first CPU is ready */
	movl r14 = secondary_may_start
	;;
2:	ld4.acq r15 = [r14]
	;;
	cmp.eq p6, p7 = r0, r15
	;;
	(p6) br.cond.spnt 2b
	;;
	mov r32 = r8
	br.call.sptk.many b0 = start_secondary
	;;
end _head

/* Rights to execute in the first 2 MiB, for text that no translation register maps: that of the boot. */
	.section .data..page_tables, "aw"
	.balign 4096
	.globl kernel_ptes
	.type kernel_ptes, @object
	.size kernel_ptes, 512 * WORD
kernel_ptes:
	.set .Lpage, 0
	.rept 512
	data8 .Lpage + PTE_PAGE + PTE_ALL
	.set .Lpage, .Lpage + 4096
	.endr
	/* The page table of no program. */
	.globl no_program
no_program:
	.skip 4096

	.section .bss, "aw", @nobits
	.balign 8192
	.globl boot_stacks
boot_stacks:
	.skip KERNEL_STACK_SIZE * MAX_CPUS
