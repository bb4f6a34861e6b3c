/* Entry and exit: TLB misses, exceptions, interrupts, the context switch, a task's first instructions. */
#include "arch.h"
#include "bare.h"
#include "offsets.h"
#include "asm.h"

	.section .entry.text, "ax"
	.balign 32768
	.globl vectors
	.type vectors, @object
vectors:
	.macro vector offset, target
	.org vectors + \offset
	mov r31 = pr
	mov r30 = \offset
	br.cond.sptk.many \target
	;;
	.endm
	vector 0x0000, exception_entry
	vector 0x0400, exception_entry
	vector 0x0800, exception_entry
	vector 0x0c00, code_miss
	vector 0x1000, data_miss
	vector 0x1400, exception_entry
	vector 0x1800, exception_entry
	vector 0x1c00, exception_entry
	vector 0x2000, exception_entry
	vector 0x2400, exception_entry
	vector 0x2800, exception_entry
	vector 0x2c00, exception_entry
	vector 0x3000, exception_entry
	vector 0x5000, exception_entry
	vector 0x5100, exception_entry
	vector 0x5200, exception_entry
	vector 0x5300, exception_entry
	vector 0x5400, exception_entry
	vector 0x5500, exception_entry
	vector 0x5600, exception_entry
	vector 0x5700, exception_entry
	vector 0x5900, exception_entry
	vector 0x5a00, exception_entry
	vector 0x5b00, exception_entry
	vector 0x5c00, exception_entry
	vector 0x5d00, exception_entry
	vector 0x5e00, exception_entry
	vector 0x5f00, exception_entry
	.org vectors + 0x8000
	.size vectors, . - vectors

/* A page that no translation register maps. Registers 16 to 31 are free; r31: the predicates, r30: the vector. */
function code_miss
	mov r16 = cr.ifa
	mov r20 = ar.k7
	;;
	extr.u r17 = r16, 61, 3
	extr.u r18 = r16, 21, 40
	;;
	cmp.eq p6, p7 = 7, r17
	;;
	(p6) movl r20 = kernel_ptes
	(p6) mov r17 = r0
	(p6) adds r18 = USER_TABLE, r18
	br.cond.sptk.many .Lfind
	;;
data_miss:
	mov r16 = cr.ifa
	mov r20 = ar.k7
	;;
	extr.u r17 = r16, 61, 3
	extr.u r18 = r16, 21, 40
	;;
.Lfind:	/* r20: the page table of 2 MiB, r18: the number of this table */
	cmp.eq p6, p7 = r0, r17
	extr.u r19 = r16, 12, 9
	;;
	(p6) cmp.eq.unc p6, p7 = USER_TABLE, r18
	shladd r20 = r19, 3, r20
	;;
	(p7) br.cond.spnt.many exception_entry
	;;
	ld8 r20 = [r20]
	;;
	tbit.z p6, p7 = r20, 0
	;;
	(p6) br.cond.spnt.many exception_entry
	;;
	mov r17 = 0x0c00
	;;
	cmp.eq p6, p7 = r17, r30
	;;
	(p6) itc.i r20
	;;
	(p7) itc.d r20
	;;
	mov pr = r31, -1
	rfi
	;;
end code_miss

/* Registers 16 to 31 are free; r31: the predicates, r30: the vector. No instruction misses the TLB. */
function exception_entry
	mov r29 = cr.ipsr
	mov r28 = cr.iip
	mov r27 = cr.ifa
	mov r26 = cr.iim
	mov r25 = cr.isr
	mov r24 = ar.pfs
	mov r23 = ar.unat
	mov r22 = ar.rsc
	mov r19 = ar.k3
	;;
	extr.u r20 = r29, 41, 2
	extr.u r21 = r29, 32, 2
	adds r19 = PERCPU_KERNEL_SP, r19
	;;
	or r28 = r28, r20
	cmp.eq p6, p7 = r0, r21 /* p6: in the kernel */
	cover
	;;
	mov r18 = cr.ifs
	mov ar.rsc = 0
	(p6) mov r17 = r12
	(p7) ld8 r17 = [r19]
	;;
	(p7) mov r20 = ar.rnat
	(p7) mov r21 = ar.bspstore
	(p7) adds r16 = -8192, r17
	mov r19 = r0
	;;
	(p7) mov ar.bspstore = r16
	;;
	/* The program's registers are dirty: they belong to the kernel's backing store until the return. */
	(p7) mov r19 = ar.bsp
	;;
	(p7) sub r19 = r19, r16
	;;
	shl r19 = r19, 16
	adds r17 = -PT_REGS_SIZE, r17
	;;
	put r17, r16, PT_FLAGS, r29
	put r17, r16, PT_IP, r28
	put r17, r16, PT_ADDRESS, r27
	put r17, r16, PT_NUMBER, r26
	put r17, r16, PT_ISR, r25
	put r17, r16, PT_PFS, r24
	put r17, r16, PT_UNAT, r23
	put r17, r16, PT_RSC, r22
	put r17, r16, PT_BSPSTORE, r21
	put r17, r16, PT_RNAT, r20
	put r17, r16, PT_LOADRS, r19
	put r17, r16, PT_IFS, r18
	put r17, r16, PT_PR, r31
	put r17, r16, PT_CAUSE, r30
	.irp number, 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
	spill r17, r16, PT_R(\number), r\number
	.endr
	mov r3 = r17
	;;
	bsw.1
	;;
	.irp number, 16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
	spill r3, r2, PT_R(\number), r\number
	.endr
	.irp number, 0,1,2,3,4,5,6,7
	mov r14 = b\number
	put r3, r2, PT_B(\number), r14
	.endr
	mov r14 = ar.ccv
	mov r15 = ar.lc
	;;
	put r3, r2, PT_CCV, r14
	put r3, r2, PT_LC, r15
	mov r14 = ar.unat
	put r3, r2, PT_SPILLED, r14
	.irp number, 6,7,8,9,10,11
	adds r2 = PT_F(\number), r3
	;;
	stf.spill [r2] = f\number
	.endr
	;;
	alloc r14 = ar.pfs, 0, 1, 3, 0
	;;
	mov r32 = r3
	mov r33 = r3
	get r3, r2, PT_CAUSE, r34
	get r3, r2, PT_ADDRESS, r35
	adds r12 = -FRAME_HEAD, r3
	movl r15 = return_from_exception
	movl r14 = 0x3000
	;;
	mov b0 = r15
	mov ar.pfs = r0
	cmp.eq p6, p7 = r14, r34
	;;
	(p6) mov r14 = cr.ivr
	;;
	srlz.d
	;;
	(p6) mov cr.eoi = r0
	ssm psr.ic
	;;
	srlz.i
	;;
	(p6) br.call.sptk.many b0 = do_interrupt
	(p7) br.call.sptk.many b0 = do_trap
	;;
end exception_entry

/* r32: the saved registers, in a frame with one output. */
function return_from_exception
	rsm psr.i
	mov r33 = r32
	br.call.sptk.many b0 = prepare_return
	;;
	rsm psr.i | psr.ic
	;;
	srlz.i
	mov r3 = r32
	;;
	get r3, r2, PT_SPILLED, r14
	;;
	mov ar.unat = r14
	get r3, r2, PT_CCV, r14
	get r3, r2, PT_LC, r15
	;;
	mov ar.ccv = r14
	mov ar.lc = r15
	.irp number, 0,1,2,3,4,5,6,7
	get r3, r2, PT_B(\number), r14
	;;
	mov b\number = r14
	.endr
	.irp number, 6,7,8,9,10,11
	adds r2 = PT_F(\number), r3
	;;
	ldf.fill f\number = [r2]
	.endr
	.irp number, 16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
	fill r3, r2, PT_R(\number), r\number
	.endr
	;;
	bsw.0
	;;
	mov r17 = r3
	;;
	.irp number, 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
	fill r17, r16, PT_R(\number), r\number
	.endr
	get r17, r16, PT_FLAGS, r29
	get r17, r16, PT_IP, r28
	get r17, r16, PT_IFS, r18
	get r17, r16, PT_PFS, r24
	get r17, r16, PT_UNAT, r23
	get r17, r16, PT_RSC, r22
	get r17, r16, PT_BSPSTORE, r21
	get r17, r16, PT_RNAT, r20
	get r17, r16, PT_LOADRS, r19
	get r17, r16, PT_PR, r31
	get r17, r16, PT_ARGUMENT, r30
	;;
	extr.u r25 = r29, 32, 2
	extr.u r26 = r28, 0, 2
	dep r28 = 0, r28, 0, 4
	;;
	cmp.eq p6, p7 = r0, r25 /* p6: to the kernel */
	dep r29 = r26, r29, 41, 2
	;;
	mov cr.ipsr = r29
	mov cr.iip = r28
	mov cr.ifs = r18
	;;
	alloc r27 = ar.pfs, 0, 0, 0, 0
	;;
	mov ar.pfs = r24
	mov ar.unat = r23
	(p6) br.cond.dptk.many .Lback
	;;
	mov ar.rsc = r19
	;;
	loadrs
	;;
	cmp.eq p6, p7 = r0, r18 /* a new program has no frame yet */
	;;
	(p6) movl r21 = USER_BACKING
	(p6) mov r22 = USER_RSC
	;;
	mov ar.bspstore = r21
	;;
	mov ar.rnat = r20
	;;
	mov ar.rsc = r22
	(p7) br.cond.dptk.many .Lback
	;;
	alloc r27 = ar.pfs, 0, 1, 0, 0
	;;
	mov r32 = r30
	mov ar.pfs = r0
	;;
.Lback:	invala
	mov pr = r31, -1
	;;
	rfi
	;;
end return_from_exception

/* A new task's first instruction: r8 = the task before, r4 = function of a kernel thread, r5 = its argument. */
function ret_from_fork
	alloc r14 = ar.pfs, 0, 1, 3, 0
	;;
	mov r33 = r8
	br.call.sptk.many b0 = schedule_tail
	;;
	cmp.eq p6, p7 = r0, r4
	mov r33 = r5
	mov b6 = r4
	;;
	(p7) br.call.spnt.many b0 = b6 /* returns only if the thread became a program */
	;;
	mov r14 = ar.k3
	;;
	adds r14 = PERCPU_KERNEL_SP, r14
	;;
	ld8 r14 = [r14]
	;;
	adds r32 = -PT_REGS_SIZE, r14
	;;
	adds r12 = -FRAME_HEAD, r32
	br.cond.sptk.many return_from_exception
	;;
end ret_from_fork

	.text
function __switch_to_asm /* r32: previous task, r33: next */
	alloc r14 = ar.pfs, 2, 0, 0, 0
	;;
	flushrs
	adds r12 = -SWITCH_SIZE, r12
	;;
	mov r2 = r12
	mov r15 = b0
	mov r16 = ar.lc
	mov r17 = pr
	mov r18 = ar.unat
	mov r19 = ar.rnat
	mov r20 = ar.bspstore
	;;
	.irp number, 4,5,6,7
	st8.spill [r2] = r\number, 8
	;;
	.endr
	st8 [r2] = r15, 8
	.irp number, 1,2,3,4,5
	mov r15 = b\number
	;;
	st8 [r2] = r15, 8
	.endr
	;;
	.irp number, 14,16,17,18
	st8 [r2] = r\number, 8
	;;
	.endr
	mov r18 = ar.unat
	;;
	.irp number, 18,20,19
	st8 [r2] = r\number, 8
	;;
	.endr
	st8 [r32] = r12 /* TASK_SP */
	ld8 r12 = [r33]
	mov r8 = r32
	mov r9 = r33
	;;
	adds r2 = 10 * WORD, r12
	;;
	.irp number, 14,16,17,18,21,20,19
	ld8 r\number = [r2], 8
	;;
	.endr
	mov ar.unat = r21
	mov r2 = r12
	;;
	.irp number, 4,5,6,7
	ld8.fill r\number = [r2], 8
	;;
	.endr
	ld8 r15 = [r2], 8
	.irp number, 1,2,3,4,5
	;;
	ld8 r3 = [r2], 8
	;;
	mov b\number = r3
	.endr
	mov ar.unat = r18
	mov ar.lc = r16
	mov pr = r17, -1
	loadrs
	;;
	mov ar.bspstore = r20
	;;
	mov ar.rnat = r19
	mov r32 = r8
	mov r33 = r9
	invala
	adds r12 = SWITCH_SIZE, r12
	;;
	mov ar.pfs = r14
	mov b0 = r15
	mov ar.k6 = r9 /* `current` changes together with the return address */
	br.cond.sptk.many __switch_to
	;;
end __switch_to_asm

/* A loop that jumps back into the first bytes of its function, for tests of jumps. */
function loop_into_head /* r32: a count above 0; returns the sum of 1..count */
	mov r8 = r0
	;;
1:	add r8 = r8, r32
	adds r32 = -1, r32
	;;
	cmp.ne p6, p7 = r0, r32
	(p6) br.cond.dptk.few 1b
	br.ret.sptk.many b0
	;;
end loop_into_head

/* For the test that removes the vectors: every exception raises another one. */
	.section .rodata, "a"
	.balign 32768
	.globl no_vectors
	.type no_vectors, @object
no_vectors:
	.skip 64
	.size no_vectors, . - no_vectors
