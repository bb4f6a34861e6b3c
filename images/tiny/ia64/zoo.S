/* A collection of less common instructions, so that tests can probe each one. The result depends on the argument only. */
#include "arch.h"
#include "asm.h"

	.text
function instruction_zoo /* r32: a number; returns another */
	alloc r40 = ar.pfs, 1, 23, 8, 8
	mov r41 = b0
	mov r42 = ar.lc
	mov r43 = pr
	adds r12 = -64, r12
	;;
	zxt4 r14 = r32
	movl r15 = 0x123456789abcdef1
	;;
	/* arithmetic of every kind */
	add r16 = r14, r15, 1
	sub r17 = r14, r15, 1
	shladd r18 = r14, 3, r15
	addp4 r19 = r14, r15
	andcm r20 = r15, r14
	xor r21 = r15, r14
	sub r22 = 77, r14
	and r23 = -16, r15
	;;
	shladdp4 r24 = r14, 2, r16
	addl r25 = 0x12345, r0
	sxt2 r26 = r15
	zxt1 r27 = r15
	popcnt r28 = r15
	czx1.r r29 = r23
	;;
	shl r16 = r16, r28
	shr r17 = r17, r28
	shr.u r18 = r18, 5
	extr r19 = r15, 7, 21
	extr.u r20 = r20, 13, 40
	dep r21 = r14, r21, 11, 9
	dep.z r22 = r22, 20, 30
	;;
	dep r23 = -1, r23, 3, 17
	dep.z r24 = -9, 12, 44
	shrp r25 = r25, r16, 19
	mux1 r26 = r15, @rev
	mux2 r27 = r15, 0x1b
	mix4.l r28 = r17, r18
	unpack4.h r29 = r19, r20
	;;
	add r16 = r16, r17
	xor r18 = r18, r19
	add r20 = r20, r21
	xor r22 = r22, r23
	add r24 = r24, r25
	xor r26 = r26, r27
	add r28 = r28, r29
	mov r31 = ip /* the result is not used */
	;;
	add r16 = r16, r18
	xor r20 = r20, r22
	add r24 = r24, r26
	;;
	xor r16 = r16, r20
	add r24 = r24, r28
	;;
	add r14 = r16, r24
	;;
	/* comparisons: normal, unconditional, parallel, of bits; instructions under their predicates in each slot */
	cmp.ltu p6, p7 = r14, r15
	cmp4.gt p8, p9 = 0, r14
	tbit.nz p10, p11 = r14, 9
	tnat.z p12, p13 = r14
	;;
	(p6) cmp.eq.unc p14, p15 = r14, r15
	(p8) adds r14 = 5, r14
	(p9) adds r15 = 9, r15
	;;
	cmp.ne.and p6, p8 = r0, r14
	cmp.gt.or p7, p9 = r0, r15
	(p10) xor r16 = r14, r15
	(p11) sub r16 = r14, r15
	(p12) adds r17 = 21, r14
	(p13) adds r17 = 22, r14
	;;
	(p14) adds r14 = 3, r14
	;;
	(p15) xor r14 = r14, r16
	(p6) add r15 = r15, r17
	(p7) adds r16 = 1, r16
	;;
	mov r18 = pr
	mov pr = r15, 0xfe00
	;;
	(p9) adds r14 = 17, r14
	mov pr.rot = 0x50000
	;;
	(p12) adds r14 = 33, r14
	;;
	(p16) adds r14 = 100, r14
	;;
	(p18) adds r14 = 1000, r14
	and r18 = 1, r18
	;;
	add r14 = r14, r18
	mov pr = r43, -1
	/* memory: sizes, updates, exchange, speculation, NaT bits in memory */
	adds r20 = 16, r12
	adds r21 = 32, r12
	;;
	st8 [r20] = r14, 8
	st4 [r21] = r15, 4
	;;
	st8 [r20] = r15
	st2 [r21] = r16, -6
	;;
	st2 [r20] = r16, -6
	st1.rel [r21] = r17, 3
	mov r23 = 6
	;;
	ld2 r18 = [r20], 2
	;;
	ld4.s r19 = [r20], 4
	;;
	ld8.acq r22 = [r20], r23
	chk.s.m r19, .Lspeculated
	add r18 = r18, r19
	;;
	add r18 = r18, r22
	adds r20 = 16, r12
	;;
	ld8.a r21 = [r20]
	adds r22 = 8, r20
	;;
	st8 [r22] = r18
	;;
	ld8.c.nc r21 = [r20]
	;;
	st8 [r20] = r18
	add r14 = r14, r21
	;;
	chk.a.clr r21, .Ladvanced
	add r14 = r14, r14
	;;
.Ladvanced:
	mov r23 = ar.unat
	mov ar.ccv = r18
	lfetch.nt1 [r20]
	;;
	st8.spill [r22] = r14
	xchg8 r21 = [r20], r15
	;;
	ld8.fill r24 = [r22]
	cmpxchg8.acq r25 = [r20], r16, ar.ccv
	;;
	fetchadd4.rel r26 = [r22], -8
	add r14 = r21, r24
	add r15 = r25, r15
	;;
	add r15 = r15, r26
	ld8.s r27 = [r0]
	mov ar.unat = r23
	;;
	tnat.nz p6, p7 = r27
	;;
	(p6) adds r14 = 41, r14
	chk.s.i r27, .Lspeculated
	;;
	adds r14 = 1000, r14
	;;
.Lspeculated: /* multiplication and moves of floating-point registers */
	setf.sig f6 = r14
	setf.sig f7 = r15
	setf.exp f8 = r16
	;;
	xmpy.l f9 = f6, f7
	xma.hu f10 = f6, f7, f6
	fmerge.ns f8 = f8, f7
	;;
	xmpy.h f11 = f9, f10
	adds r20 = 16, r12
	fand f6 = f6, f9
	;;
	stf.spill [r20] = f8
	getf.sig r16 = f9
	getf.sig r17 = f10
	;;
	ldf.fill f7 = [r20], 8
	getf.sig r18 = f11
	getf.sig r19 = f6
	;;
	stf8 [r20] = f9
	getf.sig r20 = f7
	add r16 = r16, r17
	;;
	xor r18 = r18, r19
	add r16 = r16, r20
	;;
	add r14 = r16, r18
	/* a loop with rotation: three stages over eight numbers in memory */
	mov ar.lc = 7
	mov ar.ec = 3
	mov pr.rot = 0x10000
	adds r20 = 16, r12
	mov r15 = r0
	;;
1:	(p16) ld1 r32 = [r20], 1
	(p17) shladd r35 = r33, 4, r14
	(p18) add r15 = r15, r36
	br.ctop.sptk.few 1b
	;;
	clrrrb
	;;
	mov ar.lc = 4
	add r14 = r14, r15
	;;
2:	shladd r14 = r14, 1, r14
	br.cloop.sptk.few 2b
	;;
	/* a while loop, whose stage predicate says whether it goes on */
	mov ar.ec = 2
	mov pr.rot = 0x20000
	mov r15 = 5
	;;
3:	(p17) adds r15 = -1, r15
	;;
	cmp.ne p16, p0 = r0, r15
	add r14 = r14, r15
	(p17) br.wtop.sptk.few 3b
	;;
	clrrrb.pr
	cmp.gt p6, p7 = r0, r14
	;;
	/* branches: forward, long, computed; two in a bundle */
	(p6) br.cond.dpnt.few 4f
	;;
	adds r14 = 21, r14
	brl.cond.sptk.few 5f
	;;
4:	xor r14 = -1, r14
	;;
5:	tbit.z p6, p7 = r14, 3
	tbit.z p8, p9 = r14, 4
	;;
	.mbb
	adds r14 = 7, r14
	(p6) br.cond.dptk.few 6f
	(p8) br.cond.dpnt.few 7f
	;;
	adds r14 = 70, r14
	;;
6:	adds r14 = 700, r14
	;;
7:	movl r16 = 8f
	;;
	mov b7 = r16
	adds r14 = 3, r14
	;;
	br.cond.sptk.few b7
	;;
	adds r14 = 1000, r14
	;;
	/* calls */
8:	mov r56 = r14
	br.call.sptk.many b0 = zoo_helper
	;;
	movl r16 = zoo_helper
	mov r56 = r8
	;;
	mov b6 = r16
	nop.b 0
	br.call.sptk.many b0 = b6
	;;
	mov r56 = r8
	brl.call.sptk.many b0 = zoo_helper
	;;
	mov pr = r43, -1
	adds r12 = 64, r12
	mov ar.lc = r42
	mov ar.pfs = r40
	mov b0 = r41
	zxt4 r8 = r8
	br.ret.sptk.many b0
	;;
end instruction_zoo

function zoo_helper
	dep.z r14 = r32, 13, 19
	;;
	xor r14 = r32, r14
	;;
	extr.u r15 = r14, 17, 15
	;;
	xor r8 = r14, r15
	br.ret.sptk.many b0
	;;
end zoo_helper
